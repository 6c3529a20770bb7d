/* SPDX-License-Identifier: MIT
 *
 * kernel_inotify.c - inotify(7): descriptors that report changes of files and directories.
 *
 * An instance is a row, and so is each of its watches. The disk calls the kernel for each change
 * (struct dz_vfs_observer) while there are watches; what the disk cannot see, the opening, reading
 * and closing of files, the kernel reports to the disk, which adds the file's name. An event goes
 * to the watches of the directory, with the name, and to those of the file itself.
 *
 * Events that were not read yet are in the instance's blob, in the form in which they are read:
 *
 *     blob   unused up to `head` | struct inotify_event and name, ... `len` bytes | unused
 *
 * An event that equals the one before it is dropped, as on Linux. If the queue is full or memory is
 * used up, events are dropped and `lost` is set: a reader gets IN_Q_OVERFLOW after the rest.
 *
 * A file that was removed while the machine slept is noticed when the machine wakes.
 *
 * Invariants:
 *   1. an instance has exactly one description (dz_k_inotify_revive refuses others);
 *   2. each watch is in the list of its instance and in the hash of its node, and an instance has
 *      at most one watch of a node (find_watch before watch_new);
 *   3. the disk has our observer exactly while there are watches (watch_new, watch_free);
 *   4. the bytes of a queue are whole events, `count` of them (queue_ok of a saved one).
 */
#include "kernel/kernel_int.h"

#include "base/buf.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

enum {
    EVENT = sizeof(struct inotify_event),
    QUEUE_FIRST = 512, /* bytes of a new queue */
    NAME_MAX_PADDED = (DZ_VFS_NAME_MAX + 1 + EVENT - 1) / EVENT * EVENT,
    FLAGS = IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK | IN_MASK_ADD | IN_MASK_CREATE | IN_ISDIR |
            (int)IN_ONESHOT,
};
_Static_assert(EVENT == 16, "struct inotify_event");
#define KNOWN ((uint32_t)FLAGS | IN_ALL_EVENTS | IN_UNMOUNT | IN_Q_OVERFLOW | IN_IGNORED)

static struct dz_inotify *instance(const struct dz_kernel *k, uint32_t index)
{
    return dz_k_row(&k->tab[DZ_KERNEL_TABLE_INOTIFY], index);
}

static struct dz_watch *watch_row(const struct dz_kernel *k, uint32_t index)
{
    return dz_k_row(&k->tab[DZ_KERNEL_TABLE_WATCH], index);
}

/* ---- the queue ---------------------------------------------------------------------------- */

static size_t name_room(size_t len)
{
    return len ? (len + 1 + EVENT - 1) / EVENT * EVENT : 0;
}

/* Room for n bytes behind the queued ones; NULL: none. */
static uint8_t *room(struct dz_kernel *k, struct dz_inotify *i, size_t n)
{
    size_t cap = 0;
    uint8_t *p = dz_k_blob(k, i->blob, &cap);
    if (i->head + i->len + n > cap && i->head > 0 && p) {
        memmove(p, p + i->head, i->len);
        i->head = 0;
    }
    if (i->len + n > cap) {
        size_t more = cap ? cap * 2 : QUEUE_FIRST;
        while (more < i->len + n)
            more *= 2;
        if (!i->blob)
            i->blob = dz_k_blob_new(k, NULL, more);
        else if (dz_k_blob_resize(k, i->blob, more) != 0)
            return NULL;
        p = dz_k_blob(k, i->blob, NULL);
    }
    return p ? p + i->head + i->len : NULL;
}

static void queue(struct dz_kernel *k, struct dz_inotify *i, const struct inotify_event *e,
                  const char *name, size_t len)
{
    const size_t padded = name_room(len), all = EVENT + padded;
    uint8_t *p = dz_k_blob(k, i->blob, NULL);
    struct inotify_event last;
    if (p && i->last_size == all && !(e->mask & IN_IGNORED)) {
        const uint8_t *at = p + i->head + i->len - all;
        memcpy(&last, at, EVENT);
        if (last.wd == e->wd && last.mask == e->mask && memcmp(at + EVENT, name, len) == 0 &&
            (len == 0 || at[EVENT + len] == 0))
            return;
    }
    p = !i->lost && i->count < DZ_KERNEL_INOTIFY_EVENTS_MAX ? room(k, i, all) : NULL;
    if (!p) {
        i->lost = 1;
    } else {
        struct inotify_event head = *e;
        head.len = (uint32_t)padded;
        memcpy(p, &head, EVENT);
        if (len) {
            memset(p + EVENT, 0, padded);
            memcpy(p + EVENT, name, len);
        }
        i->len += (uint32_t)all;
        i->last_size = (uint32_t)all;
        i->count++;
    }
    dz_k_wake(k, &i->wait_r);
}

static void queue_plain(struct dz_kernel *k, const struct dz_watch *w, uint32_t mask)
{
    const struct inotify_event e = {.wd = w->wd, .mask = mask};
    queue(k, instance(k, w->inotify), &e, "", 0);
}

/* ---- watches --------------------------------------------------------------------------------- */

static uint32_t *bucket(struct dz_kernel *k, uint64_t ino, uint32_t fs)
{
    const uint64_t h = (ino * 8 + fs) * UINT64_C(0x9e3779b97f4a7c15);
    return &k->watch_hash[h >> (64 - DZ_K_WATCH_HASH_BITS)];
}

static struct dz_watch *find_watch(struct dz_kernel *k, const struct dz_inotify *i,
                                   const struct dz_node *n)
{
    struct dz_watch *w = watch_row(k, *bucket(k, n->ino, n->fs));
    while (w && (w->inotify != i->index || w->node.ino != n->ino || w->node.fs != n->fs))
        w = watch_row(k, w->next_node);
    return w;
}

static void on_change(void *arg, const struct dz_vfs_event *ev);

static bool is_watched(void *arg, uint64_t dir, uint64_t ino)
{
    struct dz_kernel *k = arg;
    if (dir == 0)
        return true; /* the disk searches the directory */
    const uint64_t both[] = {dir, ino};
    for (int i = 0; i < 2; i++)
        for (const struct dz_watch *w = watch_row(k, *bucket(k, both[i], DZ_KERNEL_FS_DISK)); w;
             w = watch_row(k, w->next_node))
            if (w->node.ino == both[i] && w->node.fs == DZ_KERNEL_FS_DISK)
                return true;
    return false;
}

static int observe(struct dz_kernel *k)
{
    const struct dz_vfs_observer o = {is_watched, on_change, k};
    return dz_vfs_observe(k->vfs, &o);
}

static void link_watch(struct dz_kernel *k, struct dz_watch *w)
{
    uint32_t *at = bucket(k, w->node.ino, w->node.fs);
    struct dz_inotify *i = instance(k, w->inotify);
    w->next_node = *at;
    *at = w->index;
    w->next = i->first;
    i->first = w->index;
}

static struct dz_watch *watch_new(struct dz_kernel *k, struct dz_inotify *i,
                                  const struct dz_node *n)
{
    struct dz_watch *w = dz_k_row_new(&k->tab[DZ_KERNEL_TABLE_WATCH]);
    if (!w || observe(k) != 0) {
        if (w)
            dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_WATCH], w->index);
        return NULL;
    }
    w->inotify = i->index;
    w->wd = ++i->last_wd;
    w->node = *n;
    link_watch(k, w);
    return w;
}

static void unlink_from(const struct dz_kernel *k, uint32_t *at, uint32_t index, bool by_node)
{
    while (*at != index) {
        struct dz_watch *w = watch_row(k, *at);
        assert(w); /* invariant 2 */
        at = by_node ? &w->next_node : &w->next;
    }
    const struct dz_watch *w = watch_row(k, index);
    *at = by_node ? w->next_node : w->next;
}

static void watch_free(struct dz_kernel *k, struct dz_watch *w)
{
    unlink_from(k, bucket(k, w->node.ino, w->node.fs), w->index, true);
    unlink_from(k, &instance(k, w->inotify)->first, w->index, false);
    dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_WATCH], w->index);
    if (k->tab[DZ_KERNEL_TABLE_WATCH].used == 0)
        (void)dz_vfs_observe(k->vfs, NULL);
}

/* The watch ends, which its reader is told. */
static void watch_end(struct dz_kernel *k, struct dz_watch *w)
{
    queue_plain(k, w, IN_IGNORED);
    watch_free(k, w);
}

/* ---- events ------------------------------------------------------------------------------------
 */

/* For each kind of change: the events for a watch of the directory, and for one of the file. */
static const struct {
    uint32_t type, dir, self;
} masks[] = {
    {DZ_VFS_EV_CREATE, IN_CREATE, 0},
    {DZ_VFS_EV_WRITE, IN_MODIFY, IN_MODIFY},
    {DZ_VFS_EV_REMOVE, IN_DELETE, 0},
    {DZ_VFS_EV_MOVED_FROM, IN_MOVED_FROM, 0},
    {DZ_VFS_EV_MOVED_TO, IN_MOVED_TO, IN_MOVE_SELF},
    {DZ_VFS_EV_ATTR, IN_ATTRIB, IN_ATTRIB},
    {DZ_VFS_EV_LINKS, 0, IN_ATTRIB},
    {DZ_VFS_EV_GONE, 0, IN_DELETE_SELF},
    {DZ_VFS_EV_OPEN, IN_OPEN, IN_OPEN},
    {DZ_VFS_EV_READ, IN_ACCESS, IN_ACCESS},
    {DZ_VFS_EV_CLOSE, IN_CLOSE_NOWRITE, IN_CLOSE_NOWRITE},
    {DZ_VFS_EV_CLOSE_WRITE, IN_CLOSE_WRITE, IN_CLOSE_WRITE},
};

/* To the watches of one node; named: it is the directory. */
static void tell(struct dz_kernel *k, const struct dz_vfs_event *ev, uint64_t ino, uint32_t mask,
                 bool named)
{
    const bool gone = ev->type == DZ_VFS_EV_GONE;
    struct inotify_event e = {.mask = mask, .cookie = named ? ev->cookie : 0};
    if (S_ISDIR(ev->mode) && !(mask & (IN_MOVE_SELF | IN_DELETE_SELF)))
        e.mask |= IN_ISDIR;
    for (uint32_t n = *bucket(k, ino, DZ_KERNEL_FS_DISK), next; n != 0; n = next) {
        struct dz_watch *w = watch_row(k, n);
        next = w->next_node;
        if (w->node.ino != ino || w->node.fs != DZ_KERNEL_FS_DISK)
            continue;
        const bool hit = (w->mask & mask) && !(ev->nameless && (w->mask & IN_EXCL_UNLINK));
        e.wd = w->wd;
        if (hit)
            queue(k, instance(k, w->inotify), &e, ev->name, named ? ev->len : 0);
        if (gone || (hit && (w->mask & IN_ONESHOT)))
            watch_end(k, w);
    }
}

static void on_change(void *arg, const struct dz_vfs_event *ev)
{
    struct dz_kernel *k = arg;
    if (ev->replaced)
        return; /* Linux reports the move only */
    for (size_t i = 0; i < DZ_ARRAY_LEN(masks); i++) {
        if (masks[i].type != (uint32_t)ev->type)
            continue;
        if (masks[i].dir && ev->dir)
            tell(k, ev, ev->dir, masks[i].dir, true);
        if (masks[i].self)
            tell(k, ev, ev->ino, masks[i].self, false);
    }
}

void dz_k_report(struct dz_kernel *k, uint32_t type, uint64_t ino)
{
    if (k->tab[DZ_KERNEL_TABLE_WATCH].used)
        dz_vfs_report(k->vfs, (enum dz_vfs_event_type)type, ino);
}

/* ---- the descriptor ---------------------------------------------------------------------------
 */

static int64_t inotify_read(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, void *buf,
                            size_t n)
{
    static const struct inotify_event overflow = {.wd = -1, .mask = IN_Q_OVERFLOW};
    struct dz_inotify *i = instance(k, f->obj);
    const uint8_t *q = dz_k_blob(k, i->blob, NULL);
    size_t got = 0;
    (void)p;
    while (i->count > 0 && q) {
        struct inotify_event e;
        memcpy(&e, q + i->head, EVENT);
        const size_t size = EVENT + e.len;
        if (size > n - got)
            return got ? (int64_t)got : -EINVAL;
        memcpy((uint8_t *)buf + got, q + i->head, size);
        got += size;
        i->head += (uint32_t)size;
        i->len -= (uint32_t)size;
        i->count--;
    }
    i->head = i->last_size = 0;
    dz_k_blob_free(k, i->blob);
    i->blob = 0;
    if (i->lost && n - got >= EVENT) {
        memcpy((uint8_t *)buf + got, &overflow, EVENT);
        got += EVENT;
        i->lost = 0;
    } else if (i->lost && got == 0) {
        return -EINVAL;
    }
    return got ? (int64_t)got : -EAGAIN;
}

static short inotify_ready(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f)
{
    const struct dz_inotify *i = instance(k, f->obj);
    (void)p;
    return i->count || i->lost ? POLLIN | POLLRDNORM : 0;
}

static int inotify_wait(struct dz_kernel *k, const struct dz_k_sleeper *s, struct dz_file *f,
                        short events)
{
    (void)events;
    return dz_k_sleep(k, s, &instance(k, f->obj)->wait_r);
}

static int64_t inotify_ioctl(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f,
                             uint32_t req, void *arg)
{
    const struct dz_inotify *i = instance(k, f->obj);
    (void)p;
    if (req != FIONREAD)
        return -ENOTTY;
    *(int *)arg = (int)(i->len + (i->lost ? EVENT : 0));
    return 0;
}

static void inotify_close(struct dz_kernel *k, struct dz_file *f)
{
    struct dz_inotify *i = instance(k, f->obj);
    while (i->first)
        watch_free(k, watch_row(k, i->first));
    dz_k_blob_free(k, i->blob);
    dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_INOTIFY], i->index);
}

static void inotify_stat(struct dz_kernel *k, const struct dz_file *f, struct dz_kstat *st)
{
    (void)k;
    dz_k_stat_anon(st, 0600, f->locks);
}

const struct dz_k_file_ops dz_k_inotify_ops = {
    .read = inotify_read,
    .ready = inotify_ready,
    .wait = inotify_wait,
    .ioctl = inotify_ioctl,
    .close = inotify_close,
    .stat = inotify_stat,
};

/* ---- calls -------------------------------------------------------------------------------- */

int64_t dz_sys_inotify_init(struct dz_kernel *k, struct dz_proc *p, int flags)
{
    if (flags & ~(O_CLOEXEC | O_NONBLOCK))
        return -EINVAL;
    const int fd = dz_k_fd_room(k, p);
    if (fd < 0)
        return fd;
    struct dz_inotify *i = dz_k_row_new(&k->tab[DZ_KERNEL_TABLE_INOTIFY]);
    if (!i)
        return -EMFILE; /* as above max_user_instances */
    struct dz_file *f = dz_k_file_new(k, DZ_FILE_INOTIFY, (uint32_t)flags & O_NONBLOCK);
    if (!f) {
        dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_INOTIFY], i->index);
        return -ENFILE;
    }
    f->obj = i->index;
    return dz_k_install(k, p, f, flags);
}

static struct dz_inotify *of_fd(const struct dz_kernel *k, const struct dz_proc *p, int fd,
                                int *ret_e)
{
    const struct dz_file *f = dz_k_fd_file(k, p, fd);
    *ret_e = !f || (f->flags & O_PATH) ? -EBADF : f->kind != DZ_FILE_INOTIFY ? -EINVAL : 0;
    return *ret_e ? NULL : instance(k, f->obj);
}

/* The node to watch, which the caller may read. */
static int node_of(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, bool dir,
                   struct dz_node *ret)
{
    struct dz_kstat st;
    int e = dz_k_resolve(k, p, at, ret);
    e = e ? e : (int)dz_k_node_stat(k, p, ret, &st);
    if (e)
        return e;
    if (dir && !S_ISDIR(st.mode))
        return -ENOTDIR;
    at.flags |= DZ_AT_EACCESS;
    return (int)dz_sys_faccessat(k, p, at, R_OK);
}

int64_t dz_sys_inotify_add_watch(struct dz_kernel *k, struct dz_proc *p, int fd, struct dz_at at,
                                 uint32_t mask)
{
    struct dz_node n;
    int e;
    if ((mask & ~KNOWN) || mask == 0)
        return -EINVAL;
    struct dz_inotify *i = of_fd(k, p, fd, &e);
    if (e == -EBADF)
        return e;
    if ((mask & IN_MASK_ADD) && (mask & IN_MASK_CREATE))
        return -EINVAL;
    if (e)
        return e;
    if (!at.path)
        return -EFAULT;
    at.flags |= mask & IN_DONT_FOLLOW ? DZ_AT_NOFOLLOW : 0;
    e = node_of(k, p, at, (mask & IN_ONLYDIR) != 0, &n);
    if (e)
        return e;
    struct dz_watch *w = find_watch(k, i, &n);
    if (w && (mask & IN_MASK_CREATE))
        return -EEXIST;
    const uint32_t keep = mask & (IN_ALL_EVENTS | (uint32_t)IN_ONESHOT | IN_EXCL_UNLINK);
    if (w) {
        w->mask = mask & IN_MASK_ADD ? w->mask | keep : keep;
        return w->wd;
    }
    w = i->last_wd < INT32_MAX ? watch_new(k, i, &n) : NULL;
    if (!w)
        return -ENOSPC;
    w->mask = keep;
    return w->wd;
}

int64_t dz_sys_inotify_rm_watch(struct dz_kernel *k, struct dz_proc *p, int fd, int wd)
{
    int e;
    const struct dz_inotify *i = of_fd(k, p, fd, &e);
    if (!i)
        return e;
    struct dz_watch *w = watch_row(k, i->first);
    while (w && w->wd != wd)
        w = watch_row(k, w->next);
    if (!w)
        return -EINVAL;
    watch_end(k, w);
    return 0;
}

/* The lines of /proc/PID/fdinfo/N. */
void dz_k_inotify_text(struct dz_kernel *k, const struct dz_file *f, struct dz_buf *out)
{
    for (const struct dz_watch *w = watch_row(k, instance(k, f->obj)->first); w;
         w = watch_row(k, w->next))
        dz_buf_addf(out, "inotify wd:%x ino:%llx sdev:%x mask:%x ignored_mask:0\n", (unsigned)w->wd,
                    (unsigned long long)w->node.ino, w->node.fs + 1, w->mask);
}

/* ---- a saved machine ---------------------------------------------------------------------------
 */

static bool queue_ok(const struct dz_kernel *k, const struct dz_inotify *i)
{
    size_t cap = 0, at = 0;
    uint32_t n = 0, last = 0;
    const uint8_t *q = dz_k_blob(k, i->blob, &cap);
    if ((i->blob && !q) || i->head > cap || i->len > cap - i->head)
        return false;
    for (; at < i->len; n++) {
        struct inotify_event e;
        if (i->len - at < EVENT)
            return false;
        memcpy(&e, q + i->head + at, EVENT);
        if (e.len > NAME_MAX_PADDED || e.len % EVENT || e.len > i->len - at - EVENT ||
            (e.len && q[i->head + at + EVENT + e.len - 1] != 0))
            return false;
        last = EVENT + e.len;
        at += last;
    }
    return n == i->count && n <= DZ_KERNEL_INOTIFY_EVENTS_MAX && (n == 0 || i->last_size == last);
}

bool dz_k_inotify_ok(const struct dz_kernel *k, const struct dz_inotify *i)
{
    return i->last_wd >= 0 && i->lost <= 1 && queue_ok(k, i);
}

bool dz_k_watch_ok(const struct dz_kernel *k, const struct dz_watch *w)
{
    const struct dz_inotify *i = instance(k, w->inotify);
    return i && w->wd >= 1 && w->wd <= i->last_wd && w->node.fs <= DZ_KERNEL_FS_SYS &&
           w->node.ino != 0;
}

/* After the rows were checked: link them again. -EINVAL: they do not fit together. */
int dz_k_inotify_revive(struct dz_kernel *k)
{
    memset(k->watch_hash, 0, sizeof k->watch_hash);
    DZ_K_FOREACH(dz_inotify, i, k, DZ_KERNEL_TABLE_INOTIFY)
    i->first = i->wait_r = i->file = 0;
    DZ_K_FOREACH(dz_file, f, k, DZ_KERNEL_TABLE_FILE)
    if (f->kind == DZ_FILE_INOTIFY) {
        if (instance(k, f->obj)->file)
            return -EINVAL;
        instance(k, f->obj)->file = f->index;
    }
    DZ_K_FOREACH(dz_inotify, i, k, DZ_KERNEL_TABLE_INOTIFY)
    if (!i->file)
        return -EINVAL;
    DZ_K_FOREACH(dz_watch, w, k, DZ_KERNEL_TABLE_WATCH)
    {
        if (find_watch(k, instance(k, w->inotify), &w->node))
            return -EINVAL;
        link_watch(k, w);
    }
    if (k->tab[DZ_KERNEL_TABLE_WATCH].used && observe(k) != 0)
        return -ENOMEM;
    DZ_K_FOREACH(dz_watch, w, k, DZ_KERNEL_TABLE_WATCH)
    {
        struct dz_vfs_attr a;
        if (w->node.fs != DZ_KERNEL_FS_DISK || dz_vfs_getattr(k->vfs, w->node.ino, &a) != -ENOENT)
            continue;
        if (w->mask & IN_DELETE_SELF)
            queue_plain(k, w, IN_DELETE_SELF);
        watch_end(k, w);
    }
    return 0;
}

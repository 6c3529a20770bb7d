/* SPDX-License-Identifier: MIT
 *
 * kernel_fd.c - descriptors and open file descriptions.
 *
 * A descriptor is a slot of its process's table and names an open file
 * description (struct dz_file), which carries offset and status flags and may be
 * shared by descriptors of many processes. The table is a blob that grows as
 * descriptors are used, so an idle process pays for what it has open.
 *
 * Invariant: dz_file.refs is the number of slots that name it, and of messages that carry it
 * (kernel_sock_flight.c). dz_k_assert_all counts both.
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "kernel/kernel_sock.h"

enum {
    FDS_FIRST = 8, /* slots of a new table */
};

static struct dz_fd *table(const struct dz_kernel *k, const struct dz_proc *p)
{
    return p->fds ? dz_k_blob(k, p->fds, NULL) : NULL;
}

struct dz_fd *dz_k_fd(const struct dz_kernel *k, const struct dz_proc *p, int fd)
{
    if (fd < 0 || (uint32_t)fd >= p->fd_count)
        return NULL;
    struct dz_fd *slot = table(k, p) + fd;
    return slot->file ? slot : NULL;
}

struct dz_file *dz_k_fd_file(const struct dz_kernel *k, const struct dz_proc *p, int fd)
{
    const struct dz_fd *slot = dz_k_fd(k, p, fd);
    return slot ? dz_k_file(k, slot->file) : NULL;
}

static int fd_limit(const struct dz_proc *p)
{
    uint64_t soft = p->rlimit[RLIMIT_NOFILE][0];
    return soft < DZ_KERNEL_FDS_MAX ? (int)soft : DZ_KERNEL_FDS_MAX;
}

int dz_k_fd_free(struct dz_kernel *k, struct dz_proc *p, int least)
{
    const struct dz_fd *t = table(k, p);
    bool lowest = least <= (int)p->fd_hint;
    int fd = lowest ? (int)p->fd_hint : least;
    while ((uint32_t)fd < p->fd_count && t[fd].file)
        fd++;
    if (lowest)
        p->fd_hint = (uint32_t)fd;
    return fd < fd_limit(p) ? fd : -EMFILE;
}

int dz_kernel_fd_free(struct dz_kernel *k, struct dz_proc *p)
{
    return dz_k_fd_free(k, p, 0);
}

static int grow(struct dz_kernel *k, struct dz_proc *p, int fd)
{
    uint32_t count = p->fd_count ? p->fd_count : FDS_FIRST;
    while ((uint32_t)fd >= count)
        count *= 2;
    if (count == p->fd_count)
        return 0;
    if (p->fds) {
        int e = dz_k_blob_resize(k, p->fds, count * sizeof(struct dz_fd));
        if (e)
            return e;
    } else if (!(p->fds = dz_k_blob_new(k, NULL, count * sizeof(struct dz_fd)))) {
        return -ENOMEM;
    }
    p->fd_count = count;
    return 0;
}

int dz_k_fd_room(struct dz_kernel *k, struct dz_proc *p)
{
    int fd = dz_k_fd_free(k, p, 0);
    int e = fd < 0 ? fd : grow(k, p, fd);
    return e ? e : fd;
}

/* Give f the number fd, which is free. On failure f is as it was. */
int dz_k_fd_put(struct dz_kernel *k, struct dz_proc *p, int fd, struct dz_file *f, uint32_t flags)
{
    if (fd < 0 || fd >= fd_limit(p))
        return -EBADF;
    int e = grow(k, p, fd);
    if (e)
        return e;
    struct dz_fd *slot = table(k, p) + fd;
    if (slot->file)
        return -EBADF;
    *slot = (struct dz_fd){
        .file = f->index, .flags = flags, .rights = UINT64_MAX, .inherit = UINT64_MAX};
    f->refs++;
    return 0;
}

/* Give a new description the lowest number, or drop it. */
int64_t dz_k_install(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, int flags)
{
    int fd = dz_k_fd_free(k, p, 0);
    int e = fd < 0 ? fd : dz_k_fd_put(k, p, fd, f, flags & O_CLOEXEC ? DZ_FD_CLOEXEC : 0);
    if (e) {
        dz_k_file_drop(k, f);
        return e;
    }
    return fd;
}

struct dz_file *dz_k_file_new(struct dz_kernel *k, enum dz_file_kind kind, uint32_t flags)
{
    if (k->tab[DZ_KERNEL_TABLE_FILE].used >= k->limits.files)
        return NULL;
    struct dz_file *f = dz_k_row_new(&k->tab[DZ_KERNEL_TABLE_FILE]);
    if (f) {
        f->kind = (uint32_t)kind;
        f->flags = flags & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_SYNC | O_PATH | O_NOATIME);
        f->locks = k->next_owner++;
    }
    return f;
}

void dz_k_file_drop(struct dz_kernel *k, struct dz_file *f)
{
    if (f->refs > 0 && --f->refs > 0) {
        dz_k_sock_left(k, f);
        return;
    }
    const struct dz_k_file_ops *ops = dz_k_ops(f);
    dz_k_epoll_forget(k, f);
    if (f->flocked) {
        dz_vfs_lock_drop(k->vfs, f->locks, 0);
        dz_k_wake(k, &k->wait_lock);
    }
    dz_k_lease_drop(k, f);
    if (ops->close)
        ops->close(k, f);
    dz_k_blob_free(k, f->path);
    dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_FILE], f->index);
}

void dz_k_fd_close(struct dz_kernel *k, struct dz_proc *p, int fd)
{
    struct dz_fd *slot = dz_k_fd(k, p, fd);
    if (!slot)
        return;
    struct dz_file *f = dz_k_file(k, slot->file);
    assert(f);
    dz_k_blob_free(k, slot->preopen);
    *slot = (struct dz_fd){0};
    p->fd_hint = (uint32_t)fd < p->fd_hint ? (uint32_t)fd : p->fd_hint;
    if (f->kind == DZ_FILE_DISK) { /* POSIX: any close releases the process's record locks */
        dz_vfs_lock_drop(k->vfs, p->lock_owner, f->node.ino);
        dz_k_wake(k, &k->wait_lock);
    }
    if (f->kind == DZ_FILE_MQUEUE)
        dz_k_mqueue_left(k, p, f);
    dz_k_file_drop(k, f);
}

void dz_k_fd_close_all(struct dz_kernel *k, struct dz_proc *p, bool cloexec_only)
{
    for (uint32_t fd = 0; fd < p->fd_count; fd++) {
        const struct dz_fd *slot = dz_k_fd(k, p, (int)fd);
        if (slot && (!cloexec_only || (slot->flags & DZ_FD_CLOEXEC)))
            dz_k_fd_close(k, p, (int)fd);
    }
}

/* fork: the same descriptions in a new table. */
int dz_k_fd_copy(struct dz_kernel *k, const struct dz_proc *from, struct dz_proc *to)
{
    if (!from->fds)
        return 0;
    to->fds = dz_k_blob_dup(k, from->fds);
    if (!to->fds)
        return -ENOMEM;
    to->fd_count = from->fd_count;
    int e = 0;
    for (uint32_t fd = 0; fd < to->fd_count; fd++) {
        struct dz_fd *slot = dz_k_fd(k, to, (int)fd);
        if (!slot)
            continue;
        dz_k_file(k, slot->file)->refs++;
        if (slot->preopen && !(slot->preopen = dz_k_blob_dup(k, slot->preopen)))
            e = -ENOMEM;
    }
    return e;
}

/* ---- calls ------------------------------------------------------------------------- */

struct dz_fd *dz_sys_fd(struct dz_kernel *k, struct dz_proc *p, int fd)
{
    return dz_k_fd(k, p, fd);
}

const char *dz_sys_preopen(struct dz_kernel *k, struct dz_proc *p, int fd)
{
    const struct dz_fd *slot = dz_k_fd(k, p, fd);
    return slot && slot->preopen ? dz_k_blob(k, slot->preopen, NULL) : NULL;
}

int64_t dz_sys_close(struct dz_kernel *k, struct dz_proc *p, int fd)
{
    if (!dz_k_fd(k, p, fd))
        return -EBADF;
    dz_k_fd_close(k, p, fd);
    return 0;
}

static int64_t dup_to(struct dz_kernel *k, struct dz_proc *p, int fd, int to, bool cloexec)
{
    const struct dz_fd *source = dz_k_fd(k, p, fd);
    if (!source)
        return -EBADF;
    struct dz_fd from = *source; /* the table may move */
    int e = dz_k_fd_put(k, p, to, dz_k_file(k, from.file), cloexec ? DZ_FD_CLOEXEC : 0);
    if (e)
        return e;
    struct dz_fd *slot = dz_k_fd(k, p, to);
    assert(slot);
    slot->rights = from.rights;
    slot->inherit = from.inherit;
    return to;
}

int64_t dz_sys_dup(struct dz_kernel *k, struct dz_proc *p, int fd, int least, bool cloexec)
{
    if (!dz_k_fd(k, p, fd))
        return -EBADF;
    if (least < 0 || least >= fd_limit(p))
        return -EINVAL;
    int to = dz_k_fd_free(k, p, least);
    return to < 0 ? to : dup_to(k, p, fd, to, cloexec);
}

int64_t dz_sys_dup2(struct dz_kernel *k, struct dz_proc *p, int fd, int to)
{
    if (!dz_k_fd(k, p, fd) || to < 0 || to >= fd_limit(p))
        return -EBADF;
    if (fd == to)
        return to;
    int e = grow(k, p, to); /* before anything is closed */
    if (e)
        return e;
    if (dz_k_fd(k, p, to))
        dz_k_fd_close(k, p, to);
    return dup_to(k, p, fd, to, false);
}

int64_t dz_sys_dup3(struct dz_kernel *k, struct dz_proc *p, int fd, int to, int flags)
{
    if (fd == to || (flags & ~O_CLOEXEC))
        return -EINVAL;
    int64_t r = dz_sys_dup2(k, p, fd, to);
    struct dz_fd *slot = r >= 0 ? dz_k_fd(k, p, to) : NULL;
    if (slot && (flags & O_CLOEXEC))
        slot->flags |= DZ_FD_CLOEXEC;
    return r;
}

int64_t dz_sys_fcntl(struct dz_kernel *k, struct dz_proc *p, int fd, int cmd, int64_t arg)
{
    enum {
        SETTABLE = O_APPEND | O_NONBLOCK | O_NOATIME
    };
    struct dz_fd *slot = dz_k_fd(k, p, fd);
    if (!slot)
        return -EBADF;
    struct dz_file *f = dz_k_file(k, slot->file);
    const bool any = cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC || cmd == F_GETFD || cmd == F_SETFD ||
                     cmd == F_GETFL;
    if ((f->flags & O_PATH) && !any)
        return -EBADF;
    switch (cmd) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC: /* the number has 32 bits */
        return dz_sys_dup(k, p, fd, (int)(uint32_t)arg, cmd == F_DUPFD_CLOEXEC);
    case F_GETFD:
        return slot->flags & DZ_FD_CLOEXEC ? FD_CLOEXEC : 0;
    case F_SETFD:
        slot->flags =
            arg & FD_CLOEXEC ? slot->flags | DZ_FD_CLOEXEC : slot->flags & ~(uint32_t)DZ_FD_CLOEXEC;
        return 0;
    case F_GETFL:
        return f->flags;
    case F_SETFL:
        f->flags = (f->flags & ~(uint32_t)SETTABLE) | ((uint32_t)arg & SETTABLE);
        return 0;
    case F_ADD_SEALS:
    case F_GET_SEALS:
        return dz_k_seals_fcntl(k, f, cmd, (uint32_t)arg);
    case F_SETLEASE:
        return dz_k_lease_fcntl(k, p, fd, arg);
    case F_GETLEASE:
        return dz_k_lease_get(k, f);
    case F_GETSIG:
        return f->sig;
    case F_SETSIG:
        if (arg < 0 || arg > DZ_KERNEL_SIGNALS)
            return -EINVAL;
        f->sig = (uint32_t)arg;
        return 0;
    case F_GETPIPE_SZ:
    case F_SETPIPE_SZ:
        return f->kind == DZ_FILE_PIPE ? dz_k_pipe_size(k, f, cmd, arg) : -EBADF;
    default:
        return -EINVAL;
    }
}

/* ---- locks --------------------------------------------------------------------------- */

int64_t dz_sys_flock(struct dz_kernel *k, struct dz_proc *p, int fd, int op)
{
    const struct dz_call *c = dz_k_call(k, p);
    struct dz_file *f = dz_k_fd_file(k, p, fd);
    if (!f || (f->flags & O_PATH))
        return dz_k_end(k, p, -EBADF);
    if (f->kind != DZ_FILE_DISK)
        return dz_k_end(k, p, -EINVAL);
    struct dz_vfs_lock l = {
        .ino = f->node.ino, .owner = f->locks, .end = UINT64_MAX, .flock = true};
    int what = op & ~LOCK_NB;
    if (what == LOCK_UN) {
        int e = dz_vfs_unlock(k->vfs, &l);
        dz_k_wake(k, &k->wait_lock);
        return dz_k_end(k, p, e);
    }
    if (what != LOCK_SH && what != LOCK_EX)
        return dz_k_end(k, p, -EINVAL);
    l.exclusive = what == LOCK_EX;
    f->flocked = 1;
    int e = dz_vfs_lock(k->vfs, &l);
    if (e != -EAGAIN || (op & LOCK_NB))
        return dz_k_end(k, p, e);
    if (c->intr)
        return dz_k_end(k, p, -EINTR);
    return dz_k_wait_end(k, p, &k->wait_lock);
}

/* start and inclusive end of a struct flock, as the disk wants them. */
static int lock_range(struct dz_kernel *k, const struct dz_file *f, const struct dz_flock *l,
                      struct dz_vfs_lock *ret)
{
    int64_t base = 0, start, last;
    struct dz_vfs_attr a;
    if (l->whence == SEEK_CUR)
        base = (int64_t)f->pos;
    else if (l->whence == SEEK_END && dz_vfs_getattr(k->vfs, f->node.ino, &a) == 0)
        base = (int64_t)a.size;
    else if (l->whence != SEEK_SET)
        return -EINVAL;
    if (__builtin_add_overflow(base, l->start, &start))
        return -EOVERFLOW;
    /* l_len < 0: the range before start; the least start is above the least int64. */
    last = start - 1;
    if (start < 0 || (l->len > 0 && __builtin_add_overflow(last, l->len, &last)))
        return start < 0 ? -EINVAL : -EOVERFLOW;
    if (l->len < 0 && (__builtin_add_overflow(start, l->len, &start) || start < 0))
        return -EINVAL;
    ret->start = (uint64_t)start;
    ret->end = l->len == 0 ? UINT64_MAX : (uint64_t)last;
    return 0;
}

static int32_t pid_of_owner(struct dz_kernel *k, uint64_t owner)
{
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    if (p->lock_owner == owner && p->state != DZ_PROC_ZOMBIE)
        return p->pid;
    return -1;
}

static int lock_get(struct dz_kernel *k, const struct dz_vfs_lock *want, struct dz_flock *lock)
{
    struct dz_vfs_lock in_the_way;
    if (dz_vfs_lock_test(k->vfs, want, &in_the_way) != 1) {
        lock->type = F_UNLCK;
        return 0;
    }
    lock->type = in_the_way.exclusive ? F_WRLCK : F_RDLCK;
    lock->whence = SEEK_SET;
    lock->start = (int64_t)in_the_way.start;
    lock->len = in_the_way.end == UINT64_MAX ? 0 : (int64_t)(in_the_way.end - in_the_way.start) + 1;
    lock->pid = pid_of_owner(k, in_the_way.owner);
    return 0;
}

/* The owner of the lock that a thread of this owner waits for; 0: none waits. */
static uint64_t waited_for(struct dz_kernel *k, uint64_t owner)
{
    DZ_K_FOREACH(dz_thread, t, k, DZ_KERNEL_TABLE_THREAD)
    {
        const struct dz_call *c = dz_k_parked(t);
        if (t->state == DZ_THREAD_WAIT && (c->flags & DZ_CALL_LOCK) &&
            dz_k_proc_of(k, t)->lock_owner == owner)
            return (uint64_t)c->result;
    }
    return 0;
}

/* Would p's wait for this lock close a cycle of owners that wait for each other? If not, record the
 * owner that the call waits for. */
static bool waits_for_itself(struct dz_kernel *k, const struct dz_proc *p,
                             const struct dz_vfs_lock *want, struct dz_call *c)
{
    struct dz_vfs_lock in_the_way;
    if (dz_vfs_lock_test(k->vfs, want, &in_the_way) != 1)
        return false;
    uint64_t owner = in_the_way.owner;
    for (uint32_t i = 0; owner != 0 && owner != p->lock_owner && i < DZ_KERNEL_PROCS_MAX; i++)
        owner = waited_for(k, owner);
    if (owner == p->lock_owner)
        return true;
    c->flags |= DZ_CALL_LOCK;
    c->result = (int64_t)in_the_way.owner;
    return false;
}

int64_t dz_sys_fcntl_lock(struct dz_kernel *k, struct dz_proc *p, int fd, int cmd,
                          struct dz_flock *lock)
{
    struct dz_call *c = dz_k_call(k, p);
    struct dz_file *f = dz_k_fd_file(k, p, fd);
    bool ofd = cmd == F_OFD_GETLK || cmd == F_OFD_SETLK || cmd == F_OFD_SETLKW;
    if (!f || (f->flags & O_PATH))
        return dz_k_end(k, p, -EBADF);
    if (f->kind != DZ_FILE_DISK || lock->type < F_RDLCK || lock->type > F_UNLCK)
        return dz_k_end(k, p, -EINVAL);
    struct dz_vfs_lock l = {.ino = f->node.ino,
                            .owner = ofd ? f->locks : p->lock_owner,
                            .exclusive = lock->type == F_WRLCK};
    int e = lock_range(k, f, lock, &l);
    if (e)
        return dz_k_end(k, p, e);
    if (cmd == F_GETLK || cmd == F_OFD_GETLK)
        return dz_k_end(k, p, lock_get(k, &l, lock));
    if (lock->type == F_UNLCK) {
        e = dz_vfs_unlock(k->vfs, &l);
        dz_k_wake(k, &k->wait_lock);
        return dz_k_end(k, p, e);
    }
    uint32_t access = f->flags & O_ACCMODE;
    if (access == (l.exclusive ? O_RDONLY : O_WRONLY))
        return dz_k_end(k, p, -EBADF);
    f->flocked |= ofd;
    e = dz_vfs_lock(k->vfs, &l);
    if (e != -EAGAIN || cmd == F_SETLK || cmd == F_OFD_SETLK)
        return dz_k_end(k, p, e);
    if (c->intr)
        return dz_k_end(k, p, -EINTR);
    if (!ofd && waits_for_itself(k, p, &l, c))
        return dz_k_end(k, p, -EDEADLK);
    return dz_k_wait_end(k, p, &k->wait_lock);
}

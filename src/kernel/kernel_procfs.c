/* SPDX-License-Identifier: MIT
 *
 * kernel_procfs.c - /proc as a file system; its texts are in kernel_proctext.c and kernel_sysctl.c.
 *
 * Inode numbers are composed, nothing is stored:
 *
 *     2 + i                          row i of the machine's tables
 *     pid << 16 | 0, or 1 + i        a process's directory, row i of a process's table
 *     fd << 32 | pid << 16 | FD_ROW, or FDINFO_ROW          a descriptor, its information
 *     tid << 32 | pid << 16 | TASK_ROW | 0, or 1 + i        the same of a thread as of a process
 *
 * A file's text is made when the file is opened and kept in a blob of the description, so one
 * reader sees one state. Only the owner and root may read environ, auxv, io, fd/ and fdinfo/, and
 * write what can be written; everybody may read the rest.
 */
#include "kernel/kernel_int.h"

#include "kernel/kernel_sock.h"

#include "base/buf.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FD_ROW = 0x1000,
    FDINFO_ROW = 0x1001,
    TASK_ROW = 0x2000,
    ROW_MASK = 0xfff,
    SELF = 2, /* inodes of the first rows of the machine's table */
    THREAD_SELF,
    MACHINE_NET,
    MACHINE_DOZE,
    ROW_FD = 1, /* 1 + places in the table of a process */
    ROW_CWD,
    ROW_EXE,
    ROW_ROOT,
    ROW_TASK,
    ROW_FDINFO,
    ROW_NET,
    ROW_NET_FIRST = DZ_K_PROC_TEXTS + 1, /* entries of net follow those of a process */
};

static const uint32_t machine_count = DZ_K_MACHINE_TEXTS;
static const struct dz_k_tree machine = {{dz_k_machine_texts, dz_k_sysctl_texts},
                                         {&machine_count, &dz_k_sysctl_count}};

/* ---- trees of texts ------------------------------------------------------------------ */

const struct dz_k_text *dz_k_tree_row(const struct dz_k_tree *t, uint64_t ino)
{
    uint64_t i = ino - 2;
    for (int part = 0; ino >= 2 && part < 2 && t->rows[part]; part++) {
        if (i < *t->count[part])
            return &t->rows[part][i];
        i -= *t->count[part];
    }
    return NULL;
}

/* The name of a row in this directory; NULL: it is elsewhere. */
static const char *name_in(const struct dz_k_tree *t, const struct dz_k_text *r, uint64_t dir)
{
    const struct dz_k_text *d = dz_k_tree_row(t, dir);
    const char *name = r->name;
    if (dir != DZ_K_SYNTH_ROOT) {
        const size_t n = d ? strlen(d->name) : 0;
        if (n == 0 || strncmp(name, d->name, n) != 0 || name[n] != '/')
            return NULL;
        name += n + 1;
    }
    return strchr(name, '/') ? NULL : name;
}

uint64_t dz_k_tree_parent(const struct dz_k_tree *t, uint64_t ino)
{
    const struct dz_k_text *r = dz_k_tree_row(t, ino);
    uint64_t dir = 2;
    if (!r || !strchr(r->name, '/'))
        return DZ_K_SYNTH_ROOT;
    while (dz_k_tree_row(t, dir) && !name_in(t, r, dir))
        dir++;
    return dir;
}

int dz_k_tree_lookup(const struct dz_k_tree *t, uint64_t dir, const char *name, size_t len,
                     uint64_t *ret_ino)
{
    const struct dz_k_text *r;
    for (uint64_t ino = 2; (r = dz_k_tree_row(t, ino)); ino++) {
        const char *own = name_in(t, r, dir);
        if (!own || strlen(own) != len || memcmp(own, name, len) != 0)
            continue;
        *ret_ino = ino;
        return 0;
    }
    return -ENOENT;
}

struct lister {
    int (*fn)(void *arg, const struct dz_kdirent *e);
    void *arg;
};

static bool give(const struct lister *l, uint64_t ino, uint64_t cookie, uint32_t type,
                 const char *name)
{
    struct dz_kdirent e = {
        .ino = ino, .cookie = cookie, .type = type, .name = name, .len = strlen(name)};
    return l->fn(l->arg, &e) == 0;
}

uint64_t dz_k_tree_list(const struct dz_k_tree *t, uint64_t dir, uint64_t cookie,
                        int (*fn)(void *arg, const struct dz_kdirent *e), void *arg)
{
    const struct lister l = {fn, arg};
    const struct dz_k_text *r;
    for (; cookie < 2; cookie++)
        if (!give(&l, cookie ? dz_k_tree_parent(t, dir) : dir, cookie + 1, S_IFDIR,
                  cookie ? ".." : "."))
            return UINT64_MAX;
    for (; (r = dz_k_tree_row(t, cookie)); cookie++) {
        const char *name = name_in(t, r, dir);
        if (name && !give(&l, cookie, cookie + 1, r->mode & S_IFMT, name))
            return UINT64_MAX;
    }
    return cookie;
}

/* ---- inodes ----------------------------------------------------------------------------- */

static bool is_task(uint64_t ino)
{
    return (ino & 0xf000) == TASK_ROW;
}
/* The row of an entry of a process or thread, 0 for its directory; ROW_MASK for an inode that has
 * none. */
static unsigned row_no(uint64_t ino)
{
    const uint64_t n = ino & 0xffff;
    if (ino < 0x10000 || (n > ROW_MASK && !is_task(ino)))
        return ROW_MASK;
    return (unsigned)(n & ROW_MASK);
}
static const struct dz_k_text *proc_row(uint64_t ino)
{
    const unsigned n = row_no(ino);
    if (n >= ROW_NET_FIRST && n < ROW_NET_FIRST + DZ_K_NET_TEXTS && !(ino >> 32))
        return &dz_k_net_texts[n - ROW_NET_FIRST];
    if (n < 1 || n > DZ_K_PROC_TEXTS || (ino >> 32 && !is_task(ino)))
        return NULL;
    return &dz_k_proc_texts[n - 1];
}
static const struct dz_k_text *text_row(uint64_t ino)
{
    return ino >= 0x10000 ? proc_row(ino) : dz_k_tree_row(&machine, ino);
}

static struct dz_proc *proc_of(struct dz_kernel *k, uint64_t ino)
{
    return ino >= 0x10000 ? dz_k_find(k, (int32_t)(ino >> 16 & 0xffff)) : NULL;
}

/* The thread of an inode below task/; NULL: another inode, or the thread has ended. */
static struct dz_thread *thread_of(struct dz_kernel *k, uint64_t ino)
{
    const struct dz_proc *p = proc_of(k, ino);
    struct dz_thread *t = p && is_task(ino) ? dz_k_thread_find(k, (int32_t)(ino >> 32)) : NULL;
    return t && t->proc == p->index ? t : NULL;
}

/* An entry below fd/, fdinfo/ and task/, whose number is `n`. */
static uint64_t sub_ino(uint64_t dir, uint64_t n)
{
    static const uint16_t rows[] = {
        [ROW_FD] = FD_ROW, [ROW_FDINFO] = FDINFO_ROW, [ROW_TASK] = TASK_ROW};
    return n << 32 | (dir & 0xffff0000) | rows[row_no(dir)];
}

/* The description of an inode below fd/. */
static struct dz_file *file_of(struct dz_kernel *k, uint64_t ino)
{
    const struct dz_proc *p = proc_of(k, ino);
    return p && (ino & 0xffff) == FD_ROW ? dz_k_fd_file(k, p, (int)(ino >> 32)) : NULL;
}
static bool is_fdinfo(struct dz_kernel *k, uint64_t ino)
{
    const struct dz_proc *p = proc_of(k, ino);
    return p && (ino & 0xffff) == FDINFO_ROW && dz_k_fd(k, p, (int)(ino >> 32));
}

const struct dz_file *dz_k_proc_file(struct dz_kernel *k, const struct dz_node *n)
{
    return n->fs == DZ_KERNEL_FS_PROC ? file_of(k, n->ino) : NULL;
}

const struct dz_proc *dz_k_proc_dir(struct dz_kernel *k, const struct dz_file *f)
{
    const bool is = f->kind == DZ_FILE_DIR && f->node.fs == DZ_KERNEL_FS_PROC &&
                    f->node.ino >= 0x10000 && (f->node.ino & 0xffff) == 0;
    return is ? proc_of(k, f->node.ino) : NULL;
}

static bool may_look(const struct dz_proc *p, const struct dz_proc *of)
{
    return !p || p->euid == 0 || p->euid == of->euid;
}

/* ---- lookup ------------------------------------------------------------------------ */

static int number(const char *name, size_t len, uint64_t *ret)
{
    uint64_t n = 0;
    if (len == 0 || len > 9 || (len > 1 && name[0] == '0'))
        return -ENOENT;
    for (size_t i = 0; i < len; i++) {
        if (name[i] < '0' || name[i] > '9')
            return -ENOENT;
        n = n * 10 + (uint64_t)(name[i] - '0');
    }
    *ret = n;
    return 0;
}

static int find_row(const struct dz_k_text *rows, size_t count, const char *name, size_t len)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0)
            return (int)i;
    return -ENOENT;
}

static int proc_lookup(struct dz_kernel *k, struct dz_proc *p, uint64_t dir, const char *name,
                       size_t len, uint64_t *ret_ino)
{
    uint64_t n;
    int i;
    if (dir < 0x10000) {
        if (dir != DZ_K_SYNTH_ROOT || number(name, len, &n) != 0)
            return dz_k_tree_lookup(&machine, dir, name, len, ret_ino);
        if (n >= DZ_KERNEL_PID_MAX || !dz_k_find(k, (int32_t)n))
            return -ENOENT;
        *ret_ino = n << 16;
        return 0;
    }
    const struct dz_proc *of = proc_of(k, dir);
    if (!of)
        return -ENOENT;
    if (row_no(dir) == ROW_FD || row_no(dir) == ROW_FDINFO) {
        if (!may_look(p, of))
            return -EACCES;
        if (number(name, len, &n) != 0 || n >= DZ_KERNEL_FDS_MAX || !dz_k_fd(k, of, (int)n))
            return -ENOENT;
        *ret_ino = sub_ino(dir, n);
        return 0;
    }
    if (row_no(dir) == ROW_TASK) {
        if (number(name, len, &n) != 0 || !thread_of(k, sub_ino(dir, n)))
            return -ENOENT;
        *ret_ino = sub_ino(dir, n);
        return 0;
    }
    if (row_no(dir) == ROW_NET) {
        i = find_row(dz_k_net_texts, DZ_K_NET_TEXTS, name, len);
        if (i >= 0)
            *ret_ino = (dir & ~UINT64_C(0xffff)) | (ROW_NET_FIRST + (unsigned)i);
        return i < 0 ? i : 0;
    }
    if (is_task(dir) && !thread_of(k, dir))
        return -ENOENT;
    i = find_row(dz_k_proc_texts, DZ_K_PROC_TEXTS, name, len);
    if (i >= 0 && is_task(dir) && S_ISDIR(dz_k_proc_texts[i].mode))
        i = -ENOENT; /* they are in the process's directory only */
    if (i >= 0)
        *ret_ino = dir | ((uint64_t)i + 1);
    return i < 0 ? i : 0;
}

static uint64_t proc_parent(uint64_t ino)
{
    const uint64_t dir = ino & 0xffff0000;
    if (ino < 0x10000)
        return dz_k_tree_parent(&machine, ino);
    if ((ino & 0xffff) >= ROW_NET_FIRST && (ino & 0xffff) < ROW_NET_FIRST + DZ_K_NET_TEXTS)
        return dir | ROW_NET;
    switch (ino & 0xffff) {
    case FD_ROW:
        return dir | ROW_FD;
    case FDINFO_ROW:
        return dir | ROW_FDINFO;
    case TASK_ROW:
        return dir | ROW_TASK;
    case 0:
        return DZ_K_SYNTH_ROOT;
    default:
        return is_task(ino) ? (ino & ~(uint64_t)ROW_MASK) : dir;
    }
}

static int proc_stat(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, struct dz_kstat *st)
{
    const struct dz_k_text *r = text_row(ino);
    const struct dz_proc *of = proc_of(k, ino);
    (void)p;
    if ((ino >= 0x10000 && !of) || (is_task(ino) && !thread_of(k, ino)))
        return -ENOENT;
    if (ino == DZ_K_SYNTH_ROOT || row_no(ino) == 0)
        dz_k_stat_anon(st, S_IFDIR | 0555, ino);
    else if (r)
        dz_k_stat_anon(st, r->mode, ino);
    else if (file_of(k, ino))
        dz_k_stat_anon(st, S_IFLNK | 0700, ino);
    else if (is_fdinfo(k, ino))
        dz_k_stat_anon(st, S_IFREG | 0400, ino);
    else
        return -ENOENT;
    st->dev = 5;
    if (S_ISDIR(st->mode))
        st->nlink = 2;
    if (of && row_no(ino) == ROW_TASK && !is_task(ino)) { /* Chromium counts its threads by this */
        DZ_K_THREADS(t, k, of)
        st->nlink++;
    }
    if (of) {
        st->uid = of->euid;
        st->gid = of->egid;
    }
    st->atime = st->mtime = st->ctime = k->ops.real_ns(k->ops.arg);
    return 0;
}

/* ---- links --------------------------------------------------------------------------- */

static int64_t file_path(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f, char *buf,
                         size_t size)
{
    static const char *const devices[] = {"",          "/dev/null",   "/dev/zero",
                                          "/dev/full", "/dev/random", "/dev/urandom"};
    static const char *const anonymous[] = {"pidfd", "eventpoll", "eventfd", "timerfd", "signalfd"};
    const struct dz_mqueue *mq;
    const char *path = dz_k_blob(k, f->path, NULL);
    int n;
    switch (f->kind) {
    case DZ_FILE_PTS:
        n = snprintf(buf, size, "/dev/pts/%u", f->obj - 1);
        break;
    case DZ_FILE_PTM:
        n = snprintf(buf, size, "/dev/ptmx");
        break;
    case DZ_FILE_PIPE:
        n = snprintf(buf, size, "pipe:[%llu]", (unsigned long long)dz_k_pipe(k, f->obj)->ino);
        break;
    case DZ_FILE_SOCKET:
        n = snprintf(buf, size, "socket:[%llu]",
                     (unsigned long long)dz_k_socket(k, f->obj)->number);
        break;
    case DZ_FILE_INOTIFY:
        n = snprintf(buf, size, "anon_inode:inotify");
        break;
    case DZ_FILE_MQUEUE:
        mq = dz_k_row(&k->tab[DZ_KERNEL_TABLE_MQUEUE], f->obj);
        n = snprintf(buf, size, "/%s",
                     mq->name ? (const char *)dz_k_blob(k, mq->name, NULL) : " (deleted)");
        break;
    case DZ_FILE_STREAM:
        n = snprintf(buf, size, "stream:[%u]", f->obj);
        break;
    case DZ_FILE_DEVICE:
        n = snprintf(buf, size, "%s", devices[f->obj]);
        break;
    case DZ_FILE_PIDFD:
    case DZ_FILE_EPOLL:
    case DZ_FILE_EVENTFD:
    case DZ_FILE_TIMERFD:
    case DZ_FILE_SIGNALFD:
        n = snprintf(buf, size, "anon_inode:[%s]", anonymous[f->kind - DZ_FILE_PIDFD]);
        break;
    default: {
        int64_t r = dz_k_node_path(k, p, &f->node, buf, size);
        if (r >= 0)
            return r;
        n = snprintf(buf, size, "%s (deleted)", path ? path : "");
        break;
    }
    }
    return (size_t)n < size ? n : (int64_t)size - 1;
}

/* The program's own path, although exec may have been given that of a symlink: Java and Chromium
 * find their files beside it. */
static int64_t exe_path(struct dz_kernel *k, struct dz_proc *p, const struct dz_proc *of, char *buf,
                        size_t size)
{
    const char *given = dz_k_blob(k, of->exe_path, NULL);
    const struct dz_node exe = {.ino = of->exe, .fs = DZ_KERNEL_FS_DISK};
    if (!given)
        return -ENOENT;
    const struct dz_at at = {.dirfd = AT_FDCWD, .path = given};
    int64_t n = dz_k_path_by(k, p, at, &exe, buf, size);
    if (n < 0)
        n = snprintf(buf, size, "%s (deleted)", given);
    return (size_t)n < size ? n : (int64_t)size - 1;
}

static int64_t proc_readlink(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, char *buf,
                             size_t size)
{
    char text[DZ_VFS_PATH_MAX];
    int64_t n = -EINVAL;
    struct dz_proc *of = proc_of(k, ino);
    const struct dz_file *f = file_of(k, ino);
    if (ino == SELF)
        n = snprintf(text, sizeof text, "%d", p->pid);
    else if (ino == THREAD_SELF)
        n = snprintf(text, sizeof text, "%d/task/%d", p->pid, dz_k_me(k, p)->tid);
    else if (ino == MACHINE_NET)
        n = snprintf(text, sizeof text, "self/net");
    else if (of && !may_look(p, of))
        return -EACCES;
    else if (f)
        n = file_path(k, p, f, text, sizeof text);
    else if (of && row_no(ino) == ROW_CWD)
        n = dz_k_node_path(k, p, &of->cwd, text, sizeof text);
    else if (of && row_no(ino) == ROW_ROOT)
        n = dz_k_node_path(k, p, &of->root, text, sizeof text);
    else if (of && row_no(ino) == ROW_EXE)
        n = exe_path(k, p, of, text, sizeof text);
    if (n < 0)
        return n;
    size_t len = dz_k_min64((uint64_t)n, size);
    memcpy(buf, text, len);
    return (int64_t)len;
}

static int proc_follow(struct dz_kernel *k, struct dz_proc *p, uint64_t ino,
                       struct dz_node *ret_node)
{
    struct dz_proc *of = proc_of(k, ino);
    const struct dz_file *f = file_of(k, ino);
    struct dz_node n = {0};
    if (!of || !may_look(p, of))
        return -ENOENT;
    if (f && (f->kind == DZ_FILE_DISK || f->kind == DZ_FILE_DIR))
        n = f->node;
    else if (f)
        n = (struct dz_node){.ino = ino, .fs = DZ_KERNEL_FS_PROC}; /* opened here */
    else if (row_no(ino) == ROW_CWD)
        n = of->cwd;
    else if (row_no(ino) == ROW_ROOT)
        n = of->root;
    else if (row_no(ino) == ROW_EXE && of->exe)
        n = (struct dz_node){.ino = of->exe};
    if (n.ino == 0)
        return -ENOENT;
    *ret_node = n;
    return 0;
}

/* ---- directories ------------------------------------------------------------------------ */

static void list_rows(const struct lister *l, uint64_t dir, uint64_t cookie)
{
    for (uint64_t i = cookie - 2; i < DZ_K_PROC_TEXTS; i++) {
        const struct dz_k_text *r = &dz_k_proc_texts[i];
        if (is_task(dir) && S_ISDIR(r->mode))
            continue;
        if (!give(l, dir + 1 + i, i + 3, r->mode & S_IFMT, r->name))
            return;
    }
}

/* Processes, or the threads of one, by number: the cookie is NUMBERS + the one last given. */
static void list_numbers(struct dz_kernel *k, const struct lister *l, uint64_t dir, uint64_t cookie)
{
    enum {
        NUMBERS = 0x10000
    };
    uint64_t n = cookie > NUMBERS ? cookie - NUMBERS : 0;
    while (++n < DZ_KERNEL_PID_MAX) {
        char name[16];
        const uint64_t ino = dir == DZ_K_SYNTH_ROOT ? n << 16 : sub_ino(dir, n);
        if (dir == DZ_K_SYNTH_ROOT ? !dz_k_find(k, (int32_t)n) : !thread_of(k, ino))
            continue;
        (void)snprintf(name, sizeof name, "%u", (unsigned)n);
        if (!give(l, ino, NUMBERS + n, S_IFDIR, name))
            return;
    }
}

static void list_fds(struct dz_kernel *k, const struct lister *l, uint64_t dir, uint64_t cookie)
{
    const struct dz_proc *of = proc_of(k, dir);
    const uint32_t type = row_no(dir) == ROW_FD ? S_IFLNK : S_IFREG;
    for (uint64_t fd = cookie - 2; of && fd < of->fd_count; fd++) {
        char name[16];
        if (!dz_k_fd(k, of, (int)fd))
            continue;
        (void)snprintf(name, sizeof name, "%u", (unsigned)fd);
        if (!give(l, sub_ino(dir, fd), fd + 3, type, name))
            return;
    }
}

static int64_t proc_readdir(struct dz_kernel *k, struct dz_proc *p, uint64_t dir, uint64_t cookie,
                            int (*fn)(void *arg, const struct dz_kdirent *e), void *arg)
{
    const struct lister l = {fn, arg};
    (void)p;
    if (dir < 0x10000) {
        cookie = dz_k_tree_list(&machine, dir, cookie, fn, arg);
        if (dir == DZ_K_SYNTH_ROOT && cookie != UINT64_MAX)
            list_numbers(k, &l, dir, cookie);
        return 0;
    }
    for (; cookie < 2; cookie++)
        if (!give(&l, cookie ? proc_parent(dir) : dir, cookie + 1, S_IFDIR, cookie ? ".." : "."))
            return 0;
    switch (row_no(dir)) {
    case ROW_FD:
    case ROW_FDINFO:
        list_fds(k, &l, dir, cookie);
        break;
    case ROW_TASK:
        list_numbers(k, &l, dir, cookie);
        break;
    case ROW_NET:
        for (uint64_t i = cookie - 2; i < DZ_K_NET_TEXTS; i++)
            if (!give(&l, (dir & 0xffff0000) | (ROW_NET_FIRST + i), i + 3, S_IFREG,
                      dz_k_net_texts[i].name))
                break;
        break;
    case 0:
        if (is_task(dir) ? thread_of(k, dir) != NULL : proc_of(k, dir) != NULL)
            list_rows(&l, dir, cookie);
        break;
    default:
        break;
    }
    return 0;
}

/* ---- open, read, write -------------------------------------------------------------------- */

int64_t dz_k_text_open(struct dz_kernel *k, struct dz_proc *p, const struct dz_node *n, bool dir,
                       int flags)
{
    struct dz_file *f = dz_k_file_new(k, dir ? DZ_FILE_DIR : DZ_FILE_SYNTH, (uint32_t)flags);
    if (!f)
        return -ENFILE;
    f->node = *n;
    return dz_k_install(k, p, f, flags);
}

static int proc_text(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, struct dz_buf *out)
{
    const struct dz_k_text *r = is_fdinfo(k, ino) ? &dz_k_fdinfo_text : text_row(ino);
    const struct dz_proc *of = proc_of(k, ino);
    if (!r || (ino >= 0x10000 && !of) || (is_task(ino) && !thread_of(k, ino)))
        return -ESRCH; /* it has ended */
    if (!r->text && !r->says)
        return -EINVAL; /* a saved description of a link or a directory: only a forged file has one
                         */
    k->reading.by = p;
    k->reading.of = thread_of(k, ino);
    k->reading.fd = (int)(ino >> 32);
    if (r->text)
        r->text(k, of, out);
    else
        dz_buf_adds(out, r->says);
    k->reading.by = NULL;
    k->reading.of = NULL;
    return 0;
}

static int64_t proc_open(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, int flags)
{
    struct dz_kstat st;
    struct dz_file *f = file_of(k, ino);
    const struct dz_proc *of = proc_of(k, ino);
    const struct dz_node n = {.ino = ino, .fs = DZ_KERNEL_FS_PROC};
    if ((flags & O_CREAT) && (flags & O_EXCL))
        return -EEXIST;
    if (f)
        return may_look(p, of) ? dz_k_reopen(k, p, f, flags) : -EACCES;
    int e = proc_stat(k, p, ino, &st);
    if (e)
        return e;
    if (S_ISLNK(st.mode))
        return -ELOOP;
    if (S_ISREG(st.mode) && (flags & O_DIRECTORY))
        return -ENOTDIR;
    if (ino == MACHINE_DOZE)
        return dz_k_hint_open(k, p, &n, flags);
    const struct dz_k_text *r = text_row(ino);
    if ((flags & O_ACCMODE) != O_RDONLY) {
        if (S_ISDIR(st.mode))
            return -EISDIR;
        if (!r || !r->write || (of ? !may_look(p, of) : p->euid != 0))
            return -EACCES;
    }
    if (of && !(st.mode & 0004) && !may_look(p, of))
        return -EACCES;
    return dz_k_text_open(k, p, &n, S_ISDIR(st.mode), flags);
}

static int64_t proc_path(struct dz_kernel *k, uint64_t ino, char *buf, size_t size)
{
    const struct dz_k_text *r = text_row(ino);
    const unsigned pid = (unsigned)(ino >> 16 & 0xffff), sub = (unsigned)(ino >> 32);
    const char *name = r ? r->name : "";
    int n;
    (void)k;
    if (ino == DZ_K_SYNTH_ROOT)
        n = snprintf(buf, size, "/proc");
    else if (ino < 0x10000)
        n = snprintf(buf, size, "/proc/%s", name);
    else if (is_task(ino))
        n = snprintf(buf, size, r ? "/proc/%u/task/%u/%s" : "/proc/%u/task/%u", pid, sub, name);
    else if ((ino & 0xffff) == FDINFO_ROW)
        n = snprintf(buf, size, "/proc/%u/fdinfo/%u", pid, sub);
    else
        n = snprintf(buf, size, r ? "/proc/%u/%s" : "/proc/%u", pid, name);
    return (size_t)n < size ? n : -ERANGE;
}

const struct dz_k_fs dz_k_procfs = {
    .lookup = proc_lookup,
    .parent = proc_parent,
    .stat = proc_stat,
    .readlink = proc_readlink,
    .follow = proc_follow,
    .readdir = proc_readdir,
    .open = proc_open,
    .path = proc_path,
    .text = proc_text,
};

/* Make the text again when a reader starts at the beginning. */
static int make_text(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f)
{
    struct dz_buf out = DZ_BUF_INIT(DZ_KERNEL_SYNTH_MAX);
    int e = dz_k_fs_of(f->node.fs)->text(k, p, f->node.ino, &out);
    const uint32_t blob = e || out.err ? 0 : dz_k_blob_new(k, out.p, out.len);
    dz_buf_release(&out);
    if (!blob)
        return e ? e : -ENOMEM;
    dz_k_blob_free(k, f->obj);
    f->obj = blob;
    return 0;
}

static int64_t synth_read(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, void *buf,
                          size_t n)
{
    size_t size = 0;
    const int e = f->pos == 0 || f->obj == 0 ? make_text(k, p, f) : 0;
    if (e)
        return e;
    const char *text = dz_k_blob(k, f->obj, &size);
    if (f->pos >= size)
        return 0;
    n = dz_k_min64(n, size - f->pos);
    memcpy(buf, text + f->pos, n);
    f->pos += n;
    return (int64_t)n;
}

static int64_t synth_write(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f,
                           const void *buf, size_t n)
{
    const uint64_t ino = f->node.ino;
    const struct dz_k_text *r = f->node.fs == DZ_KERNEL_FS_PROC ? text_row(ino) : NULL;
    struct dz_proc *of = proc_of(k, ino);
    if (!r || !r->write)
        return -EINVAL;
    if (ino >= 0x10000 &&
        (!of || of->state == DZ_PROC_ZOMBIE || (is_task(ino) && !thread_of(k, ino))))
        return -ESRCH; /* it has ended */
    if (of && !may_look(p, of))
        return -EACCES; /* another process has its number now */
    k->reading.by = p;
    k->reading.of = thread_of(k, ino);
    const int64_t r_n = r->write(k, of, buf, n);
    k->reading.by = NULL;
    k->reading.of = NULL;
    return r_n;
}

static short synth_ready(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f)
{
    (void)p;
    (void)k;
    (void)f;
    return POLLIN | POLLRDNORM;
}

static void synth_close(struct dz_kernel *k, struct dz_file *f)
{
    dz_k_blob_free(k, f->obj);
}

static void synth_stat(struct dz_kernel *k, const struct dz_file *f, struct dz_kstat *st)
{
    if (dz_k_fs_of(f->node.fs)->stat(k, NULL, f->node.ino, st) != 0)
        dz_k_stat_anon(st, S_IFREG | 0444, f->node.ino);
}

const struct dz_k_file_ops dz_k_synth_ops = {
    .read = synth_read,
    .write = synth_write,
    .ready = synth_ready,
    .close = synth_close,
    .stat = synth_stat,
};

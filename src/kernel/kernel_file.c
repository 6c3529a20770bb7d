/* SPDX-License-Identifier: MIT
 *
 * kernel_file.c - reading and writing through descriptors of all kinds, and the files of the disk.
 *
 * Each kind of file has a table of functions that try once and return -EAGAIN if they would have to
 * wait. Waiting, O_NONBLOCK, EINTR, SIGPIPE and the pieces of readv and writev are handled here,
 * for all kinds. A partial write that has to wait keeps its progress in dz_call.done.
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel/kernel_sock.h"

const struct dz_k_file_ops *dz_k_ops(const struct dz_file *f)
{
    static const struct dz_k_file_ops *const kinds[] = {
        [DZ_FILE_DISK] = &dz_k_disk_ops,         [DZ_FILE_PIPE] = &dz_k_pipe_ops,
        [DZ_FILE_PTM] = &dz_k_ptm_ops,           [DZ_FILE_PTS] = &dz_k_pts_ops,
        [DZ_FILE_DEVICE] = &dz_k_device_ops,     [DZ_FILE_STREAM] = &dz_k_stream_ops,
        [DZ_FILE_SYNTH] = &dz_k_synth_ops,       [DZ_FILE_DIR] = &dz_k_dir_ops,
        [DZ_FILE_PIDFD] = &dz_k_pidfd_ops,       [DZ_FILE_EPOLL] = &dz_k_epoll_ops,
        [DZ_FILE_EVENTFD] = &dz_k_eventfd_ops,   [DZ_FILE_TIMERFD] = &dz_k_timerfd_ops,
        [DZ_FILE_SIGNALFD] = &dz_k_signalfd_ops, [DZ_FILE_SOCKET] = &dz_k_socket_ops,
        [DZ_FILE_INOTIFY] = &dz_k_inotify_ops,   [DZ_FILE_MQUEUE] = &dz_k_mqueue_ops,
        [DZ_FILE_HINT] = &dz_k_hint_ops,
    };
    assert(f->kind < DZ_ARRAY_LEN(kinds) && kinds[f->kind]);
    return kinds[f->kind];
}

/* ---- pieces ----------------------------------------------------------------------- */

static int64_t total_of(const struct iovec *iov, size_t n)
{
    size_t sum = 0;
    if (n > DZ_KERNEL_IOV_MAX)
        return -EINVAL;
    for (size_t i = 0; i < n; i++)
        if (__builtin_add_overflow(sum, iov[i].iov_len, &sum) || sum > INT32_MAX)
            return -EINVAL;
    return (int64_t)sum;
}

uint8_t *dz_k_scratch(struct dz_kernel *k)
{
    if (!k->scratch)
        k->scratch = dz_alloc(DZ_KERNEL_PIPE_SIZE);
    return k->scratch;
}

/* The pieces of a transfer. */
struct pieces {
    const struct iovec *iov;
    size_t count;
};

/* Copy between the pieces from byte `skip` on and flat[0..n). */
static void copy(struct pieces all, size_t skip, uint8_t *flat, size_t n, bool gather)
{
    size_t at = 0;
    for (const struct iovec *iov = all.iov; at < n; iov++) {
        assert(iov < all.iov + all.count);
        if (skip >= iov->iov_len) {
            skip -= iov->iov_len;
            continue;
        }
        size_t len = dz_k_min64(iov->iov_len - skip, n - at);
        uint8_t *mem = (uint8_t *)iov->iov_base + skip;
        if (gather)
            memcpy(flat + at, mem, len);
        else
            memcpy(mem, flat + at, len);
        at += len;
        skip = 0;
    }
}

/* The bytes from `skip` on as one piece: in place if they are in one piece, else gathered. */
static const void *gather(struct dz_kernel *k, struct pieces all, size_t skip, size_t *n)
{
    const struct iovec *iov = all.iov;
    size_t before = 0;
    for (; skip - before >= iov->iov_len; iov++) {
        before += iov->iov_len;
        assert(iov + 1 < all.iov + all.count);
    }
    size_t into = skip - before;
    if (iov->iov_len - into >= *n)
        return (const uint8_t *)iov->iov_base + into;
    uint8_t *flat = dz_k_scratch(k);
    if (!flat)
        return NULL;
    *n = dz_k_min64(*n, DZ_KERNEL_PIPE_SIZE);
    copy(all, skip, flat, *n, true);
    return flat;
}

/* ---- read and write ------------------------------------------------------------------ */

static struct dz_file *file_for(struct dz_kernel *k, struct dz_proc *p, int fd, uint32_t not_mode)
{
    struct dz_file *f = dz_k_fd_file(k, p, fd);
    if (!f || (f->flags & O_PATH) || (f->flags & O_ACCMODE) == not_mode)
        return NULL;
    return f;
}

/* The result of a transfer that moved `done` bytes when r stopped it. If some bytes were moved, a
 * handler does not restart it, even with SA_RESTART: the result is their number. */
static int64_t stopped(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, int64_t r,
                       short events)
{
    struct dz_call *c = dz_k_my_call(k, p);
    const struct dz_k_sleeper me = {.thread = dz_k_me(k, p)};
    int64_t done = (int64_t)c->done;
    if (done > 0)
        c->flags |= DZ_CALL_NORESTART;
    if (r == -EPIPE)
        dz_k_send(k, p, SIGPIPE, SI_KERNEL & 0xff);
    if (r == -EAGAIN && !(f->flags & O_NONBLOCK)) {
        if (c->intr)
            r = -EINTR;
        else if (dz_k_ops(f)->wait && dz_k_ops(f)->wait(k, &me, f, events) == 0)
            return dz_k_block(k, p);
        else
            r = -ENOMEM;
    } else if (r == DZ_KRESTART) {
        if (!c->intr)
            return dz_k_restart(k, p);
        r = -EINTR;
    }
    return dz_k_end(k, p, done > 0 ? done : r);
}

/* A transfer whose descriptor is not valid: a handler may have closed it meanwhile. */
static int64_t no_file(struct dz_kernel *k, struct dz_proc *p)
{
    const struct dz_call *c = dz_k_my_call(k, p);
    int64_t done = (int64_t)c->done;
    return dz_k_end(k, p, done > 0 ? done : c->intr ? -EINTR : -EBADF);
}

/* Count a completed call for /proc/PID/io. */
static int64_t count(struct dz_proc *p, int64_t r, bool writes)
{
    if (r >= 0)
        p->io[writes] += (uint64_t)r;
    if (r > DZ_KBLOCK)
        p->io[2 + writes]++;
    return r;
}

static int64_t read_pieces(struct dz_kernel *k, struct dz_proc *p, int fd, const struct iovec *iov,
                           size_t n)
{
    (void)dz_k_call(k, p);
    struct dz_file *f = file_for(k, p, fd, O_WRONLY);
    if (!f)
        return no_file(k, p);
    const struct dz_k_file_ops *ops = dz_k_ops(f);
    int64_t total = total_of(iov, n);
    if (total < 0)
        return dz_k_end(k, p, total);
    if (n == 0 && (ops->read || f->kind == DZ_FILE_SOCKET))
        return dz_k_end(k, p, 0);
    if (f->kind == DZ_FILE_SOCKET) /* a datagram is not split into pieces */
        return dz_k_sock_read(k, p, fd, iov, n);
    if (!ops->read)
        return dz_k_end(k, p, f->kind == DZ_FILE_DIR ? -EISDIR : -EINVAL);
    if (n == 1) {
        int64_t r = ops->read(k, p, f, iov->iov_base, iov->iov_len);
        return r >= 0 ? dz_k_end(k, p, r) : stopped(k, p, f, r, POLLIN);
    }
    uint8_t *flat = dz_k_scratch(k);
    if (!flat)
        return dz_k_end(k, p, -ENOMEM);
    int64_t r = ops->read(k, p, f, flat, dz_k_min64((uint64_t)total, DZ_KERNEL_PIPE_SIZE));
    if (r < 0)
        return stopped(k, p, f, r, POLLIN);
    copy((struct pieces){iov, n}, 0, flat, (size_t)r, false);
    return dz_k_end(k, p, r);
}

static int64_t write_pieces(struct dz_kernel *k, struct dz_proc *p, int fd, const struct iovec *iov,
                            size_t n)
{
    struct dz_call *c = dz_k_call(k, p);
    struct dz_file *f = file_for(k, p, fd, O_RDONLY);
    if (!f)
        return no_file(k, p);
    const struct dz_k_file_ops *ops = dz_k_ops(f);
    int64_t total = total_of(iov, n);
    if (total < 0)
        return dz_k_end(k, p, total);
    if (n == 0 && (ops->write || f->kind == DZ_FILE_SOCKET))
        return dz_k_end(k, p, 0);
    if (f->kind == DZ_FILE_SOCKET)
        return dz_k_sock_write(k, p, fd, iov, n);
    if (!ops->write || (f->kind == DZ_FILE_EVENTFD && n > 0 && total == 0))
        return dz_k_end(k, p, -EINVAL);
    while (c->done < (uint64_t)total) {
        size_t left = (size_t)total - c->done;
        const void *data = gather(k, (struct pieces){iov, n}, c->done, &left);
        if (!data)
            return stopped(k, p, f, -ENOMEM, 0);
        int64_t r = ops->write(k, p, f, data, left);
        if (r <= 0)
            return stopped(k, p, f, r ? r : -EIO, POLLOUT);
        c->done += (uint64_t)r;
        if (f->kind == DZ_FILE_DISK && (size_t)r < left)
            break; /* a limit or a full disk: the next write returns the error, not this one */
    }
    return dz_k_end(k, p, (int64_t)c->done);
}

int64_t dz_sys_readv(struct dz_kernel *k, struct dz_proc *p, int fd, const struct iovec *iov,
                     size_t n)
{
    return count(p, read_pieces(k, p, fd, iov, n), false);
}

int64_t dz_sys_writev(struct dz_kernel *k, struct dz_proc *p, int fd, const struct iovec *iov,
                      size_t n)
{
    return count(p, write_pieces(k, p, fd, iov, n), true);
}

int64_t dz_sys_read(struct dz_kernel *k, struct dz_proc *p, int fd, void *buf, size_t n)
{
    struct iovec iov = {buf, n < INT32_MAX ? n : INT32_MAX};
    return dz_sys_readv(k, p, fd, &iov, 1);
}

int64_t dz_sys_write(struct dz_kernel *k, struct dz_proc *p, int fd, const void *buf, size_t n)
{
    struct iovec iov = {(void *)(uintptr_t)buf, n < INT32_MAX ? n : INT32_MAX};
    return dz_sys_writev(k, p, fd, &iov, 1);
}

/* Linux reports this for a pipe even if it is open for the other direction. */
static bool has_no_offset(const struct dz_kernel *k, const struct dz_proc *p, int fd)
{
    const struct dz_file *f = dz_k_fd_file(k, p, fd);
    return f && !(f->flags & O_PATH) && f->kind == DZ_FILE_PIPE;
}

/* Read or write at another offset: change the description's offset temporarily. */
int64_t dz_sys_pread(struct dz_kernel *k, struct dz_proc *p, int fd, void *buf, size_t n,
                     uint64_t off)
{
    struct dz_file *f = file_for(k, p, fd, O_WRONLY);
    if (!f)
        return has_no_offset(k, p, fd) ? -ESPIPE : -EBADF;
    if (f->kind == DZ_FILE_DEVICE)
        return dz_sys_read(k, p, fd, buf, n);
    if (f->kind != DZ_FILE_DISK && f->kind != DZ_FILE_SYNTH)
        return f->kind == DZ_FILE_DIR ? -EISDIR : -ESPIPE;
    if (off > INT64_MAX)
        return -EINVAL;
    uint64_t pos = f->pos;
    f->pos = off;
    int64_t r = dz_k_ops(f)->read(k, p, f, buf, n);
    f->pos = pos;
    return count(p, r, false);
}

int64_t dz_sys_pwrite(struct dz_kernel *k, struct dz_proc *p, int fd, const void *buf, size_t n,
                      uint64_t off)
{
    struct dz_file *f = file_for(k, p, fd, O_RDONLY);
    if (!f)
        return has_no_offset(k, p, fd) ? -ESPIPE : -EBADF;
    if (f->kind == DZ_FILE_DEVICE)
        return dz_sys_write(k, p, fd, buf, n);
    if (f->kind != DZ_FILE_DISK)
        return -ESPIPE;
    if (off > INT64_MAX)
        return -EINVAL;
    uint64_t pos = f->pos;
    f->pos = off;
    int64_t r = dz_k_ops(f)->write(k, p, f, buf, n);
    f->pos = pos;
    return count(p, r, true);
}

int64_t dz_sys_lseek(struct dz_kernel *k, struct dz_proc *p, int fd, int64_t off, int whence)
{
    struct dz_file *f = dz_k_fd_file(k, p, fd);
    if (!f || (f->flags & O_PATH))
        return -EBADF;
    if (whence < SEEK_SET || whence > SEEK_HOLE)
        return -EINVAL;
    if (f->kind == DZ_FILE_DEVICE || f->kind == DZ_FILE_EVENTFD || f->kind == DZ_FILE_TIMERFD ||
        f->kind == DZ_FILE_SIGNALFD || f->kind == DZ_FILE_EPOLL || f->kind == DZ_FILE_INOTIFY)
        return 0;
    if (f->kind != DZ_FILE_DISK && f->kind != DZ_FILE_SYNTH && f->kind != DZ_FILE_DIR)
        return -ESPIPE;
    struct dz_kstat st = {0};
    dz_k_ops(f)->stat(k, f, &st);
    int64_t base = 0;
    if (whence == SEEK_CUR)
        base = (int64_t)f->pos;
    else if (whence == SEEK_END)
        base = (int64_t)st.size;
    else if ((whence == SEEK_DATA || whence == SEEK_HOLE) && f->kind == DZ_FILE_DISK) {
        uint64_t to;
        int e = off < 0 ? -ENXIO : dz_vfs_seek(k->vfs, f->node.ino, (uint64_t)off, whence, &to);
        if (e)
            return e;
        f->pos = to;
        return (int64_t)to;
    } else if (whence != SEEK_SET) {
        return -EINVAL;
    }
    int64_t to;
    if (__builtin_add_overflow(base, off, &to))
        return -EOVERFLOW;
    if (to < 0 || (S_ISREG(st.mode) && to > (int64_t)DZ_VFS_FILE_MAX))
        return -EINVAL;
    f->pos = (uint64_t)to;
    return to;
}

/* ---- other calls on a descriptor ------------------------------------------------------ */

static bool is_mapped(const struct dz_kernel *k, uint64_t ino)
{
    return k->pages && k->pages->covers(k->pages->arg, ino);
}

bool dz_kernel_unnoticed(struct dz_kernel *k)
{
    struct dz_vfs_lock any;
    return k->tab[DZ_KERNEL_TABLE_WATCH].used == 0 && k->leases == 0 &&
           dz_vfs_lock_at(k->vfs, 0, &any) != 1;
}

bool dz_kernel_alone(struct dz_kernel *k, struct dz_proc *p, int fd, struct dz_alone *ret_alone)
{
    const struct dz_file *f = file_for(k, p, fd, O_WRONLY);
    struct dz_vfs_attr a;
    if (!f || f->kind != DZ_FILE_DISK || (f->flags & O_ACCMODE) != O_RDONLY || f->refs != 1 ||
        f->flocked || f->watched || f->seals || !dz_kernel_unnoticed(k) ||
        is_mapped(k, f->node.ino) || dz_vfs_getattr(k->vfs, f->node.ino, &a) < 0 ||
        !S_ISREG(a.mode))
        return false;
    *ret_alone = (struct dz_alone){.file = f->index, .ino = f->node.ino, .pos = f->pos};
    dz_k_ops(f)->stat(k, f, &ret_alone->stat);
    return true;
}

bool dz_kernel_next_file(struct dz_kernel *k, struct dz_proc *p, uint64_t ino,
                         struct dz_next_file *ret_file)
{
    const struct dz_vfs_who who = dz_k_who(p);
    struct dz_vfs_attr a;
    if (is_mapped(k, ino) || dz_vfs_getattr(k->vfs, ino, &a) < 0 || !S_ISREG(a.mode))
        return false;
    ret_file->readable = dz_vfs_access(k->vfs, ino, &who.cred, R_OK) == 0;
    dz_k_stat_attr(k, &a, &ret_file->stat);
    return true;
}

int dz_k_sync_mapped(struct dz_kernel *k, uint64_t ino)
{
    return is_mapped(k, ino) ? k->pages->sync(k->pages->arg, ino) : 0;
}

/* The errors of a call that changes the size of a file that has no size. */
struct misfits {
    int reading; /* open for reading only */
    int pipe, other;
};

static struct dz_file *disk_file(struct dz_kernel *k, struct dz_proc *p, int fd,
                                 const struct misfits *is, int *ret_e)
{
    struct dz_file *f = dz_k_fd_file(k, p, fd);
    if (!f || (f->flags & O_PATH))
        *ret_e = -EBADF;
    else if ((f->flags & O_ACCMODE) == O_RDONLY)
        *ret_e = is->reading;
    else if (f->kind != DZ_FILE_DISK)
        *ret_e = f->kind == DZ_FILE_PIPE ? is->pipe : is->other;
    else
        return f;
    return NULL;
}

static int set_size(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, uint64_t size)
{
    struct dz_vfs_attr a = {.size = size};
    if (size > p->rlimit[RLIMIT_FSIZE][0]) {
        dz_k_send(k, p, SIGXFSZ, SI_KERNEL & 0xff);
        return -EFBIG;
    }
    if (size > DZ_VFS_FILE_MAX)
        return -EFBIG;
    int e = dz_vfs_setattr(k->vfs, ino, DZ_VFS_SET_SIZE, &a);
    if (!e)
        dz_k_disk_cut(k, ino);
    return e;
}

int64_t dz_sys_ftruncate(struct dz_kernel *k, struct dz_proc *p, int fd, uint64_t size)
{
    static const struct misfits is = {-EINVAL, -EINVAL, -EINVAL};
    int e = 0;
    const struct dz_file *f = disk_file(k, p, fd, &is, &e);
    e = f ? dz_k_seals_check(k, f, size, false) : e;
    return e ? e : set_size(k, p, f->node.ino, size);
}

/* Truncate a path, or wait for leases on its file. */
static int64_t truncate_walked(struct dz_kernel *k, struct dz_proc *p, struct dz_at at,
                               uint64_t size)
{
    struct dz_node n;
    struct dz_kstat st;
    int e = dz_k_resolve(k, p, at, &n);
    e = e ? e : dz_k_node_stat(k, p, &n, &st);
    if (e)
        return e;
    if (!S_ISREG(st.mode))
        return S_ISDIR(st.mode) ? -EISDIR : -EINVAL;
    if (n.fs != DZ_KERNEL_FS_DISK)
        return -EACCES;
    const struct dz_vfs_who who = dz_k_who(p);
    int64_t wait = dz_vfs_access(k->vfs, n.ino, &who.cred, W_OK);
    wait = wait ? wait : dz_k_lease_break(k, p, n.ino, O_WRONLY);
    if (wait)
        return wait;
    const struct dz_file sealed = {.node = n, .seals = k->memfds ? dz_k_seals_of(k, n.ino) : 0};
    e = dz_k_seals_check(k, &sealed, size, false);
    return e ? e : set_size(k, p, n.ino, size);
}

int64_t dz_sys_truncate(struct dz_kernel *k, struct dz_proc *p, struct dz_at at, uint64_t size)
{
    dz_k_sig_sync(k, p);
    return dz_k_lease_end(k, p, truncate_walked(k, p, at, size));
}

/* Zero [off, off + n), on the disk and in mappings. */
static int make_hole(struct dz_kernel *k, uint64_t ino, uint64_t off, uint64_t n)
{
    uint8_t *zeros = is_mapped(k, ino) ? dz_k_scratch(k) : NULL;
    struct dz_vfs_attr a;
    int e = dz_vfs_getattr(k->vfs, ino, &a);
    if (e || off >= a.size)
        return e;
    n = dz_k_min64(n, a.size - off);
    e = dz_vfs_punch(k->vfs, ino, off, n);
    if (e || !is_mapped(k, ino))
        return e;
    if (!zeros)
        return -ENOMEM;
    memset(zeros, 0, DZ_KERNEL_PIPE_SIZE);
    for (uint64_t done = 0; !e && done < n; done += DZ_KERNEL_PIPE_SIZE)
        e = k->pages->write(k->pages->arg, ino, off + done, zeros,
                            dz_k_min64(n - done, DZ_KERNEL_PIPE_SIZE));
    return e;
}

int64_t dz_sys_fallocate(struct dz_kernel *k, struct dz_proc *p, int fd, int mode, uint64_t off,
                         uint64_t n)
{
    static const struct misfits is = {-EBADF, -ESPIPE, -ENODEV};
    const bool keep = (mode & FALLOC_FL_KEEP_SIZE) != 0, punch = (mode & FALLOC_FL_PUNCH_HOLE) != 0;
    int e = 0;
    const struct dz_file *f = disk_file(k, p, fd, &is, &e);
    struct dz_vfs_attr a;
    if (!f)
        return e;
    if (n == 0 || off > DZ_VFS_FILE_MAX || n > DZ_VFS_FILE_MAX - off)
        return n == 0 ? -EINVAL : -EFBIG;
    if ((mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) ||
        (punch && mode != (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)))
        return -EOPNOTSUPP;
    e = dz_vfs_getattr(k->vfs, f->node.ino, &a);
    e = e ? e : dz_k_seals_check(k, f, keep || off + n <= a.size ? a.size : off + n, false);
    if (!e && (mode & ~FALLOC_FL_KEEP_SIZE)) {
        e = dz_k_seals_check(k, f, a.size, true);
        e = e ? e : make_hole(k, f->node.ino, off, n);
    }
    if (e || keep || off + n <= a.size)
        return e; /* chunks are allocated when written; nothing to do */
    return set_size(k, p, f->node.ino, off + n);
}

int64_t dz_sys_fsync(struct dz_kernel *k, struct dz_proc *p, int fd)
{
    const struct dz_file *f = dz_k_fd_file(k, p, fd);
    if (!f || (f->flags & O_PATH))
        return -EBADF;
    if (f->kind != DZ_FILE_DISK)
        return -EINVAL;
    int e = dz_k_sync_mapped(k, f->node.ino);
    return e ? e : dz_vfs_sync(k->vfs, NULL) == 0 ? 0 : -EIO;
}

int dz_ioctl_size(uint32_t req)
{
    switch (req) {
    case TCGETS:
    case TCSETS:
    case TCSETSW:
    case TCSETSF:
        return (int)sizeof(struct dz_termios);
    case TIOCGWINSZ:
    case TIOCSWINSZ:
        return (int)sizeof(struct dz_winsize);
    case TIOCGPGRP:
    case TIOCSPGRP:
    case TIOCGSID:
    case TIOCOUTQ:
    case FIONREAD:
    case FIONBIO:
    case SIOCATMARK:
    case TIOCGPTN:
    case TIOCSPTLCK:
    case TIOCGPTLCK:
        return 4;
    case TIOCSTI:
        return 1;
    case SIOCGIFNAME:
    case SIOCGIFINDEX:
    case SIOCGIFFLAGS:
    case SIOCSIFFLAGS:
    case SIOCGIFADDR:
    case SIOCSIFADDR:
    case SIOCGIFDSTADDR:
    case SIOCGIFBRDADDR:
    case SIOCGIFNETMASK:
    case SIOCSIFNETMASK:
    case SIOCGIFMETRIC:
    case SIOCGIFMTU:
    case SIOCSIFMTU:
    case SIOCGIFHWADDR:
    case SIOCGIFTXQLEN:
        return (int)sizeof(struct ifreq);
    case TCSBRK:
    case TCSBRKP:
    case TCXONC:
    case TCFLSH:
    case TIOCSCTTY:
    case TIOCNOTTY:
    case FIOCLEX:
    case FIONCLEX:
        return 0;
    default:
        return -ENOTTY;
    }
}

int64_t dz_sys_ioctl(struct dz_kernel *k, struct dz_proc *p, int fd, uint32_t req, void *arg)
{
    struct dz_fd *slot = dz_k_fd(k, p, fd);
    struct dz_file *f = dz_k_fd_file(k, p, fd);
    if (!f || (f->flags & O_PATH))
        return -EBADF;
    if (dz_ioctl_size(req) < 0)
        return -ENOTTY;
    switch (req) {
    case FIONBIO:
        f->flags = *(int *)arg ? f->flags | O_NONBLOCK : f->flags & ~(uint32_t)O_NONBLOCK;
        return 0;
    case FIOCLEX:
        slot->flags |= DZ_FD_CLOEXEC;
        return 0;
    case FIONCLEX:
        slot->flags &= ~(uint32_t)DZ_FD_CLOEXEC;
        return 0;
    default:
        return dz_k_ops(f)->ioctl ? dz_k_ops(f)->ioctl(k, p, f, req, arg) : -ENOTTY;
    }
}

/* ---- files of the disk ------------------------------------------------------------------ */

int64_t dz_k_disk_bytes(struct dz_kernel *k, uint64_t ino, uint64_t off, void *buf, size_t n)
{
    struct dz_vfs_attr a;
    if (!is_mapped(k, ino))
        return dz_vfs_read(k->vfs, ino, off, buf, n);
    int e = dz_vfs_getattr(k->vfs, ino, &a);
    if (e || off >= a.size)
        return e;
    n = dz_k_min64(n, a.size - off);
    e = k->pages->read(k->pages->arg, ino, off, buf, n);
    return e ? e : (int64_t)n;
}

void dz_k_disk_cut(struct dz_kernel *k, uint64_t ino)
{
    struct dz_vfs_attr a;
    if (is_mapped(k, ino) && dz_vfs_getattr(k->vfs, ino, &a) == 0)
        k->pages->truncate(k->pages->arg, ino, a.size);
}

static int64_t disk_read(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, void *buf,
                         size_t n)
{
    (void)p;
    int64_t r = dz_k_disk_bytes(k, f->node.ino, f->pos, buf, n);
    if (r > 0) {
        f->pos += (uint64_t)r;
        dz_k_report(k, DZ_VFS_EV_READ, f->node.ino);
    }
    return r;
}

static int64_t disk_write(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f,
                          const void *buf, size_t n)
{
    uint64_t limit = p->rlimit[RLIMIT_FSIZE][0], off = f->pos;
    struct dz_vfs_attr a;
    if (n == 0)
        return 0;
    if (limit != UINT64_MAX && (f->flags & O_APPEND) &&
        dz_vfs_getattr(k->vfs, f->node.ino, &a) == 0)
        off = a.size;
    if (off >= limit) {
        dz_k_send(k, p, SIGXFSZ, SI_KERNEL & 0xff);
        return -EFBIG;
    }
    n = dz_k_min64(n, limit - off);
    int sealed = f->seals ? dz_k_seals_check(k, f, off + n, true) : 0;
    if (sealed)
        return sealed;
    ssize_t r = f->flags & O_APPEND ? dz_vfs_append(k->vfs, f->node.ino, buf, n, &off)
                                    : dz_vfs_write(k->vfs, f->node.ino, off, buf, n);
    if (r > 0)
        f->pos = off + (uint64_t)r;
    if (r > 0 && is_mapped(k, f->node.ino)) {
        int e = k->pages->write(k->pages->arg, f->node.ino, off, buf, (size_t)r);
        if (e)
            return e;
    }
    if (r > 0 && (f->flags & O_DSYNC) && dz_vfs_sync(k->vfs, NULL) != 0)
        return -EIO;
    return r;
}

static short disk_ready(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f)
{
    (void)p;
    (void)k;
    (void)f;
    return POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
}

static void disk_close(struct dz_kernel *k, struct dz_file *f)
{
    if (!(f->flags & O_PATH))
        dz_k_report(k, (f->flags & O_ACCMODE) == O_RDONLY ? DZ_VFS_EV_CLOSE : DZ_VFS_EV_CLOSE_WRITE,
                    f->node.ino);
    dz_vfs_unref(k->vfs, f->node.ino);
}

static void disk_stat(struct dz_kernel *k, const struct dz_file *f, struct dz_kstat *st)
{
    struct dz_vfs_attr a = {0};
    (void)dz_vfs_getattr(k->vfs, f->node.ino, &a); /* it is open, so it exists */
    dz_k_stat_attr(k, &a, st);
}

static int64_t disk_ioctl(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, uint32_t req,
                          void *arg)
{
    struct dz_vfs_attr a;
    (void)p;
    if (req != FIONREAD || dz_vfs_getattr(k->vfs, f->node.ino, &a) != 0 || !S_ISREG(a.mode))
        return -ENOTTY;
    uint64_t left = a.size > f->pos ? a.size - f->pos : 0;
    *(int *)arg = left > INT32_MAX ? INT32_MAX : (int)left;
    return 0;
}

const struct dz_k_file_ops dz_k_disk_ops = {
    .read = disk_read,
    .write = disk_write,
    .ready = disk_ready,
    .ioctl = disk_ioctl,
    .close = disk_close,
    .stat = disk_stat,
};

void dz_k_stat_anon(struct dz_kstat *st, uint32_t mode, uint64_t ino)
{
    *st = (struct dz_kstat){.dev = 8, .ino = ino, .nlink = 1, .mode = mode, .blksize = 4096};
}

/* Each disk is a device of its own: that of the sandbox 1, a volume DZ_K_MOUNTED_DEV and its place
 * among the volumes. */
static uint32_t disk_device(uint64_t ino)
{
    const uint32_t number = dz_vfs_mount_of(ino);
    return number ? DZ_K_MOUNTED_DEV + number % DZ_VFS_MOUNT_MAX : 1;
}

void dz_k_stat_attr(struct dz_kernel *k, const struct dz_vfs_attr *a, struct dz_kstat *st)
{
    (void)k;
    *st = (struct dz_kstat){
        .dev = disk_device(a->ino),
        .ino = a->ino,
        .nlink = a->nlink,
        .rdev = a->rdev,
        .size = a->size,
        .blocks = (a->size + 4095) / 4096 * 8,
        .mode = a->mode,
        .uid = a->uid,
        .gid = a->gid,
        .blksize = 4096,
        .atime = a->atime_ns,
        .mtime = a->mtime_ns,
        .ctime = a->ctime_ns,
    };
}

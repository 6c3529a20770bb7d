/* SPDX-License-Identifier: MIT
 *
 * kernel_pipe.c - pipes and FIFOs.
 *
 * A pipe is a ring that begins with DZ_KERNEL_PIPE_BUF bytes and grows to DZ_KERNEL_PIPE_SIZE, or
 * to the size set by F_SETPIPE_SZ. All rings together stay below the machine's limit; a pipe that
 * may not grow keeps working with its small ring. A write of at most PIPE_BUF bytes goes in whole
 * or waits, so it never mixes with another's.
 *
 * A FIFO is a pipe found by the inode of its name. Opening one end waits for the other; the
 * descriptor exists already during the wait, so a process that is killed meanwhile leaves nothing
 * behind.
 *
 * Invariants:
 *   1. the content lies in the ring: len <= its size, head < its size (assert_ring);
 *   2. readers and writers count the descriptions of each end, and k->pipe_bytes is the size
 *      of all rings (pipe_close and release for their underflow, dz_k_assert_all counts).
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

static uint32_t cap_of(const struct dz_kernel *k, const struct dz_pipe *q)
{
    size_t size = 0;
    return dz_k_blob(k, q->blob, &size) ? (uint32_t)size : 0;
}

static void assert_ring(const struct dz_kernel *k, const struct dz_pipe *q)
{
    uint32_t cap = cap_of(k, q);
    assert(cap <= DZ_KERNEL_PIPE_MAX && cap <= k->pipe_bytes);
    assert(q->len <= cap && (cap == 0 ? q->head == 0 : q->head < cap));
}

static struct dz_pipe *pipe_new(struct dz_kernel *k)
{
    struct dz_pipe *q = dz_k_row_new(&k->tab[DZ_KERNEL_TABLE_PIPE]);
    if (q) {
        q->ino = k->next_anon_ino++;
        q->atime = q->mtime = q->ctime = k->ops.real_ns(k->ops.arg);
    }
    return q;
}

static void release(struct dz_kernel *k, struct dz_pipe *q)
{
    if (q->readers > 0 || q->writers > 0)
        return;
    assert_ring(k, q);
    k->pipe_bytes -= cap_of(k, q);
    dz_k_blob_free(k, q->blob);
    dz_k_wake(k, &q->wait_r);
    dz_k_wake(k, &q->wait_w);
    dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_PIPE], q->index);
}

static bool may_grow(struct dz_kernel *k, uint64_t by)
{
    return by <= k->limits.pipe_bytes && k->pipe_bytes <= k->limits.pipe_bytes - by;
}

/* The most bytes that its ring may have. */
static uint32_t most(const struct dz_pipe *q)
{
    return q->size ? q->size : DZ_KERNEL_PIPE_SIZE;
}

/* Move the content to a ring of `want` bytes. -ENOMEM: nothing changes. */
static int move(struct dz_kernel *k, struct dz_pipe *q, uint32_t want)
{
    const uint32_t cap = cap_of(k, q), len = q->len, blob = dz_k_blob_new(k, NULL, want);
    if (!blob)
        return -ENOMEM;
    if (cap)
        (void)dz_k_ring_get(dz_k_blob(k, q->blob, NULL), cap, &q->head, &q->len,
                            dz_k_blob(k, blob, NULL), len);
    dz_k_blob_free(k, q->blob);
    q->blob = blob;
    q->head = 0;
    q->len = len;
    k->pipe_bytes = k->pipe_bytes - cap + want;
    assert_ring(k, q);
    return 0;
}

/* Grow the ring to hold n bytes, if the memory is available. */
static void grow(struct dz_kernel *k, struct dz_pipe *q, size_t n)
{
    uint32_t cap = cap_of(k, q);
    if (cap - q->len >= n || cap >= most(q))
        return;
    uint32_t want = q->len + n <= DZ_KERNEL_PIPE_BUF ? DZ_KERNEL_PIPE_BUF : most(q);
    if (!may_grow(k, want - cap))
        want = DZ_KERNEL_PIPE_BUF;
    if (want > cap && may_grow(k, want - cap))
        (void)move(k, q, want);
}

/* A power of two of pages. A larger ring is allocated when bytes need it, a smaller one at once. */
int64_t dz_k_pipe_size(struct dz_kernel *k, const struct dz_file *f, int cmd, int64_t size)
{
    struct dz_pipe *q = dz_k_pipe(k, f->obj);
    uint32_t want = DZ_KERNEL_PIPE_BUF;
    if (cmd == F_GETPIPE_SZ)
        return most(q);
    size = (int64_t)(uint32_t)size; /* the argument has 32 bits */
    if (size > INT64_C(1) << 31)
        return -EINVAL;
    if (size > DZ_KERNEL_PIPE_MAX)
        return -EPERM;
    while (want < size)
        want *= 2;
    if (want > DZ_KERNEL_PIPE_MAX)
        return -EPERM;
    if (want < q->len)
        return -EBUSY;
    if (cap_of(k, q) > want && move(k, q, want) != 0)
        return -ENOMEM;
    q->size = want;
    dz_k_wake(k, &q->wait_w);
    return want;
}

static int64_t pipe_read(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, void *buf,
                         size_t n)
{
    struct dz_pipe *q = dz_k_pipe(k, f->obj);
    (void)p;
    if (n == 0)
        return 0;
    if (q->len == 0)
        return q->writers == 0 ? 0 : -EAGAIN;
    uint32_t cap = cap_of(k, q);
    size_t got = dz_k_ring_get(dz_k_blob(k, q->blob, NULL), cap, &q->head, &q->len, buf, n);
    if (cap - q->len >= DZ_KERNEL_PIPE_BUF)
        dz_k_wake(k, &q->wait_w);
    return (int64_t)got;
}

static int64_t pipe_write(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f,
                          const void *buf, size_t n)
{
    struct dz_pipe *q = dz_k_pipe(k, f->obj);
    (void)p;
    if (q->readers == 0)
        return -EPIPE;
    grow(k, q, n);
    uint32_t cap = cap_of(k, q);
    if (cap == 0)
        return -ENOMEM;
    size_t room = cap - q->len;
    if (room == 0 || (n <= DZ_KERNEL_PIPE_BUF && room < n))
        return -EAGAIN;
    size_t put = dz_k_ring_put(dz_k_blob(k, q->blob, NULL), cap, q->head, &q->len, buf, n);
    dz_k_wake(k, &q->wait_r);
    return (int64_t)put;
}

size_t dz_k_pipe_peek(struct dz_kernel *k, const struct dz_file *f, uint8_t *buf, size_t n)
{
    const struct dz_pipe *q = dz_k_pipe(k, f->obj);
    uint32_t head = q->head, len = q->len; /* copies: the pipe's own do not change */
    return len ? dz_k_ring_get(dz_k_blob(k, q->blob, NULL), cap_of(k, q), &head, &len, buf, n) : 0;
}

size_t dz_k_pipe_room(struct dz_kernel *k, const struct dz_file *f, size_t n)
{
    struct dz_pipe *q = dz_k_pipe(k, f->obj);
    grow(k, q, n);
    const size_t room = cap_of(k, q) - q->len;
    return room >= n ? n : n <= DZ_KERNEL_PIPE_BUF ? 0 : room;
}

/* Has it room for a write of PIPE_BUF bytes, if necessary in a larger ring? */
static bool has_room(struct dz_kernel *k, const struct dz_pipe *q)
{
    uint32_t cap = cap_of(k, q);
    return cap == 0 || cap - q->len >= DZ_KERNEL_PIPE_BUF ||
           (cap < most(q) && may_grow(k, most(q) - cap));
}

static short pipe_ready(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f)
{
    (void)p;
    const struct dz_pipe *q = dz_k_pipe(k, f->obj);
    uint32_t access = f->flags & O_ACCMODE;
    short r = 0;
    if (access != O_WRONLY && q->len > 0)
        r |= POLLIN | POLLRDNORM;
    if (access != O_WRONLY && q->writers == 0 && (!q->fifo || f->pos != q->writer_opens))
        r |= POLLHUP;
    if (access != O_RDONLY && has_room(k, q))
        r |= POLLOUT | POLLWRNORM;
    if (access != O_RDONLY && q->readers == 0)
        r |= POLLERR;
    return r;
}

static int pipe_wait(struct dz_kernel *k, const struct dz_k_sleeper *s, struct dz_file *f,
                     short events)
{
    struct dz_pipe *q = dz_k_pipe(k, f->obj);
    uint32_t access = f->flags & O_ACCMODE;
    (void)events; /* ignored: HUP and ERR are always reported */
    int e = access != O_WRONLY ? dz_k_sleep(k, s, &q->wait_r) : 0;
    return !e && access != O_RDONLY ? dz_k_sleep(k, s, &q->wait_w) : e;
}

static void pipe_close(struct dz_kernel *k, struct dz_file *f)
{
    struct dz_pipe *q = dz_k_pipe(k, f->obj);
    uint32_t access = f->flags & O_ACCMODE;
    assert((access == O_WRONLY || q->readers > 0) && (access == O_RDONLY || q->writers > 0));
    q->readers -= access != O_WRONLY;
    q->writers -= access != O_RDONLY;
    dz_k_wake(k, &q->wait_r);
    dz_k_wake(k, &q->wait_w);
    if (q->fifo)
        dz_vfs_unref(k->vfs, q->ino);
    release(k, q);
}

static void pipe_stat(struct dz_kernel *k, const struct dz_file *f, struct dz_kstat *st)
{
    const struct dz_pipe *q = dz_k_pipe(k, f->obj);
    struct dz_vfs_attr a;
    if (q->fifo && dz_vfs_getattr(k->vfs, q->ino, &a) == 0) {
        dz_k_stat_attr(k, &a, st);
        return;
    }
    dz_k_stat_anon(st, S_IFIFO | 0600, q->ino);
    st->atime = q->atime;
    st->mtime = q->mtime;
    st->ctime = q->ctime;
}

static int64_t pipe_ioctl(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, uint32_t req,
                          void *arg)
{
    (void)p;
    if (req != FIONREAD)
        return -ENOTTY;
    *(int *)arg = (int)dz_k_pipe(k, f->obj)->len;
    return 0;
}

const struct dz_k_file_ops dz_k_pipe_ops = {
    .read = pipe_read,
    .write = pipe_write,
    .ready = pipe_ready,
    .wait = pipe_wait,
    .ioctl = pipe_ioctl,
    .close = pipe_close,
    .stat = pipe_stat,
};

/* ---- calls -------------------------------------------------------------------------- */

/* A description of one or both ends. */
static struct dz_file *end_of(struct dz_kernel *k, struct dz_pipe *q, int flags)
{
    struct dz_file *f = dz_k_file_new(k, DZ_FILE_PIPE, (uint32_t)flags);
    int access = flags & O_ACCMODE;
    if (!f)
        return NULL;
    f->obj = q->index;
    /* A FIFO hangs up when its writers have closed, but not before the first one has opened: the
     * offset, which pipes do not use, holds the count of writers' opens if there was no writer at
     * this open. */
    f->pos = q->writers == 0 ? q->writer_opens : UINT64_MAX;
    q->readers += access != O_WRONLY;
    q->writers += access != O_RDONLY;
    q->reader_opens += access != O_WRONLY;
    q->writer_opens += access != O_RDONLY;
    return f;
}

int64_t dz_sys_pipe2(struct dz_kernel *k, struct dz_proc *p, int flags, int ret_fds[2])
{
    if (flags & ~(O_CLOEXEC | O_NONBLOCK))
        return -EINVAL;
    struct dz_pipe *q = pipe_new(k);
    if (!q)
        return -ENFILE;
    struct dz_file *r = end_of(k, q, (flags & O_NONBLOCK) | O_RDONLY);
    struct dz_file *w = r ? end_of(k, q, (flags & O_NONBLOCK) | O_WRONLY) : NULL;
    if (!w) {
        if (r)
            dz_k_file_drop(k, r);
        else
            release(k, q);
        return -ENFILE;
    }
    int64_t fd = dz_k_install(k, p, r, flags);
    if (fd < 0) {
        dz_k_file_drop(k, w);
        return fd;
    }
    int64_t wfd = dz_k_install(k, p, w, flags);
    if (wfd < 0) {
        dz_k_fd_close(k, p, (int)fd);
        return wfd;
    }
    ret_fds[0] = (int)fd;
    ret_fds[1] = (int)wfd;
    return 0;
}

/* ---- FIFOs ---------------------------------------------------------------------------- */

static struct dz_pipe *fifo_of(struct dz_kernel *k, uint64_t ino)
{
    DZ_K_FOREACH(dz_pipe, q, k, DZ_KERNEL_TABLE_PIPE)
    if (q->fifo && q->ino == ino)
        return q;
    struct dz_pipe *q = pipe_new(k);
    if (q) {
        q->fifo = 1;
        q->ino = ino;
    }
    return q;
}

/* The first half: returns the descriptor, or -errno. */
static int64_t fifo_begin(struct dz_kernel *k, struct dz_proc *p, const struct dz_node *node,
                          int flags)
{
    struct dz_pipe *q = fifo_of(k, node->ino);
    if (!q)
        return -ENFILE;
    if ((flags & O_ACCMODE) == O_WRONLY && (flags & O_NONBLOCK) && q->readers == 0) {
        release(k, q);
        return -ENXIO;
    }
    int e = dz_vfs_ref(k->vfs, node->ino);
    struct dz_file *f = e ? NULL : end_of(k, q, flags);
    if (!f) {
        if (!e)
            dz_vfs_unref(k->vfs, node->ino);
        release(k, q);
        return e ? e : -ENFILE;
    }
    f->node = *node;
    dz_k_wake(k, &q->wait_r);
    dz_k_wake(k, &q->wait_w);
    return dz_k_install(k, p, f, flags);
}

int64_t dz_k_fifo_open(struct dz_kernel *k, struct dz_proc *p, const struct dz_node *node,
                       int flags)
{
    struct dz_call *c = dz_k_call(k, p);
    bool reads = (flags & O_ACCMODE) == O_RDONLY;
    int64_t fd = fifo_begin(k, p, node, flags);
    if (fd < 0 || (flags & O_NONBLOCK) || (flags & O_ACCMODE) == O_RDWR)
        return dz_k_end(k, p, fd);
    const struct dz_pipe *q = dz_k_pipe(k, dz_k_fd_file(k, p, (int)fd)->obj);
    c->done = (uint64_t)fd;
    c->result = reads ? q->writer_opens : q->reader_opens;
    if ((reads ? q->writers : q->readers) > 0)
        c->result = -1; /* the peer has opened the fifo */
    return dz_k_fifo_wait(k, p, flags);
}

int64_t dz_k_fifo_wait(struct dz_kernel *k, struct dz_proc *p, int flags)
{
    const struct dz_call *c = dz_k_my_call(k, p);
    bool reads = (flags & O_ACCMODE) == O_RDONLY;
    int fd = (int)c->done;
    const struct dz_file *f = dz_k_fd_file(k, p, fd);
    struct dz_pipe *q = f && f->kind == DZ_FILE_PIPE ? dz_k_pipe(k, f->obj) : NULL;
    if (!q)
        return dz_k_end(k, p, -EBADF);
    if (c->result != (int64_t)(reads ? q->writer_opens : q->reader_opens))
        return dz_k_end(k, p, fd);
    if (c->intr) {
        dz_k_fd_close(k, p, fd);
        return dz_k_end(k, p, -EINTR);
    }
    return dz_k_wait_end(k, p, reads ? &q->wait_r : &q->wait_w);
}

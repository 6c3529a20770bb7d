/* SPDX-License-Identifier: MIT
 *
 * kernel_splice.c - splice and tee: move bytes from or to a pipe without a buffer in the program.
 *
 * A call moves as much as it can without waiting, 64 KiB at most, and returns how much. It takes
 * bytes from a pipe only after the other side has accepted them, and reads a file or a socket only
 * after it has made room in the pipe. So no bytes are lost when a side accepts fewer, and a waiting
 * call holds none.
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <signal.h>

enum {
    KNOWN = SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT,
};

static struct dz_file *side(struct dz_kernel *k, const struct dz_proc *p, int fd, uint32_t not_mode)
{
    struct dz_file *f = dz_k_fd_file(k, p, fd);
    return f && !(f->flags & O_PATH) && (f->flags & O_ACCMODE) != not_mode ? f : NULL;
}

static bool is_pipe(const struct dz_file *f)
{
    return f->kind == DZ_FILE_PIPE;
}

/* Wait until a side is ready, unless the call must not wait. */
static int64_t wait_for(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, short events,
                        const struct dz_splice *s)
{
    const struct dz_k_sleeper me = {.thread = dz_k_me(k, p)};
    if ((s->flags & SPLICE_F_NONBLOCK) || (f->flags & O_NONBLOCK))
        return dz_k_end(k, p, -EAGAIN);
    if (dz_k_my_call(k, p)->intr)
        return dz_k_end(k, p, -EINTR);
    if (!dz_k_ops(f)->wait || dz_k_ops(f)->wait(k, &me, f, events) != 0)
        return dz_k_end(k, p, -ENOMEM);
    return dz_k_block(k, p);
}

/* One read or write of a side; offset NULL: at the description's position. */
static int64_t move(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, int64_t *offset,
                    const struct iovec *piece, bool writes)
{
    const struct dz_k_file_ops *ops = dz_k_ops(f);
    const uint64_t pos = f->pos;
    if (writes ? !ops->write : !ops->read)
        return -EINVAL;
    if (offset)
        f->pos = (uint64_t)*offset;
    const int64_t r = writes ? ops->write(k, p, f, piece->iov_base, piece->iov_len)
                             : ops->read(k, p, f, piece->iov_base, piece->iov_len);
    if (offset) {
        *offset += r > 0 ? r : 0;
        f->pos = pos;
    }
    return r;
}

/* Does each offset fit its side? 0 or -errno. */
static int check_offset(const struct dz_file *f, const int64_t *offset)
{
    if (!offset)
        return 0;
    if (f->kind != DZ_FILE_DISK && f->kind != DZ_FILE_SYNTH && f->kind != DZ_FILE_DEVICE)
        return is_pipe(f) ? -ESPIPE : -EINVAL;
    return *offset < 0 ? -EINVAL : 0;
}

/* Other kinds return the error for files that Linux cannot splice; terminals and sockets are among
 * them. */
static bool has_splice(const struct dz_file *f)
{
    return f->kind == DZ_FILE_DISK || f->kind == DZ_FILE_PIPE || f->kind == DZ_FILE_DEVICE ||
           f->kind == DZ_FILE_SYNTH || f->kind == DZ_FILE_STREAM;
}

static int check(const struct dz_file *in, const struct dz_file *out, const struct dz_splice *s)
{
    if (s->flags & ~(uint32_t)KNOWN)
        return -EINVAL;
    if (!in || !out)
        return -EBADF;
    if (s->len > INT64_MAX)
        return -EINVAL;
    if (!is_pipe(in) && !is_pipe(out))
        return -EINVAL;
    if (!has_splice(in) || !has_splice(out))
        return -EINVAL;
    if (is_pipe(in) && is_pipe(out) && in->obj == out->obj)
        return -EINVAL;
    const int e = check_offset(in, s->off_in);
    return e ? e : (out->flags & O_APPEND) ? -EINVAL : check_offset(out, s->off_out);
}

static int64_t broken(struct dz_kernel *k, struct dz_proc *p)
{
    dz_k_send(k, p, SIGPIPE, SI_KERNEL & 0xff);
    return dz_k_end(k, p, -EPIPE);
}

/* After the checks. keep: leave the bytes in the source pipe, as tee(2) does. */
static int64_t transfer(struct dz_kernel *k, struct dz_proc *p, struct dz_file *const f[2],
                        const struct dz_splice *s, bool keep)
{
    struct dz_file *in = f[0], *out = f[1];
    size_t n = dz_k_min64(s->len, DZ_KERNEL_PIPE_SIZE);
    uint8_t *bytes = n ? dz_k_scratch(k) : NULL;
    if (n == 0 || !bytes)
        return dz_k_end(k, p, n ? -ENOMEM : 0);
    if (is_pipe(in)) {
        n = dz_k_pipe_peek(k, in, bytes, n);
        if (n == 0)
            return dz_k_pipe(k, in->obj)->writers == 0 ? dz_k_end(k, p, 0)
                                                       : wait_for(k, p, in, POLLIN, s);
    }
    if (is_pipe(out)) {
        if (dz_k_pipe(k, out->obj)->readers == 0)
            return broken(k, p);
        n = dz_k_pipe_room(k, out, n);
        if (n == 0)
            return wait_for(k, p, out, POLLOUT, s);
    }
    int64_t r = (int64_t)n;
    if (!is_pipe(in))
        r = move(k, p, in, s->off_in, &(struct iovec){bytes, n}, false);
    if (r <= 0)
        return r == -EAGAIN ? wait_for(k, p, in, POLLIN, s) : dz_k_end(k, p, r);
    r = move(k, p, out, s->off_out, &(struct iovec){bytes, (size_t)r}, true);
    if (r == -EPIPE)
        return broken(k, p);
    if (r <= 0)
        return r == -EAGAIN ? wait_for(k, p, out, POLLOUT, s) : dz_k_end(k, p, r);
    if (is_pipe(in) && !keep)
        (void)move(k, p, in, NULL, &(struct iovec){bytes, (size_t)r}, false);
    return dz_k_end(k, p, r);
}

int64_t dz_sys_splice(struct dz_kernel *k, struct dz_proc *p, const struct dz_splice *s)
{
    (void)dz_k_call(k, p);
    struct dz_file *const f[2] = {side(k, p, s->in, O_WRONLY), side(k, p, s->out, O_RDONLY)};
    if (s->len == 0)
        return dz_k_end(k, p, 0);
    const int e = check(f[0], f[1], s);
    return e ? dz_k_end(k, p, e) : transfer(k, p, f, s, false);
}

int64_t dz_sys_tee(struct dz_kernel *k, struct dz_proc *p, const struct dz_splice *s)
{
    (void)dz_k_call(k, p);
    struct dz_file *const f[2] = {side(k, p, s->in, O_WRONLY), side(k, p, s->out, O_RDONLY)};
    int e = s->flags & ~(uint32_t)KNOWN ? -EINVAL : !f[0] || !f[1] ? -EBADF : 0;
    if (s->len == 0)
        return dz_k_end(k, p, e);
    if (!e && (!is_pipe(f[0]) || !is_pipe(f[1]) || f[0]->obj == f[1]->obj))
        e = -EINVAL;
    return e ? dz_k_end(k, p, e) : transfer(k, p, f, s, true);
}

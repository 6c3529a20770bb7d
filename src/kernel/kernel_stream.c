/* SPDX-License-Identifier: MIT
 *
 * kernel_stream.c - bytes to and from the outside.
 *
 * A stream has a ring each way. Output of guests waits in it until a flush: the disk is committed
 * first (the output gate), then the embedder takes what it can. The rest stays, and writers block:
 * that is the back-pressure. A terminal's stream has no rings of its own; the pty has them.
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>

enum {
    STREAM_SINK = 2,        /* of dz_stream.closed: writers do not notice */
    TRACE_LINE_MAX = 4096,  /* bytes of a line of a trace; the rest is cut off */
    TRACE_ROOM = 16384,     /* bytes that must be free before a traced call is issued */
    TRACE_MISSING_MAX = 64, /* bytes of the line that says how many are missing */
};

static struct dz_stream *by_handle(struct dz_kernel *k, uint32_t handle)
{
    struct dz_stream *s = dz_k_stream(k, handle & 0xffff);
    return s && s->gen == handle >> 16 && !s->closed ? s : NULL;
}

static uint32_t handle_of(const struct dz_stream *s)
{
    return s->gen << 16 | s->index;
}

static struct dz_stream *make(struct dz_kernel *k, uint32_t kind, uint64_t tag)
{
    struct dz_stream *s = dz_k_row_new(&k->tab[DZ_KERNEL_TABLE_STREAM]);
    if (!s)
        return NULL;
    s->gen = (uint32_t)(k->next_owner++ & 0x7fff) + 1;
    s->kind = kind;
    s->tag = tag;
    return s;
}

static void release(struct dz_kernel *k, struct dz_stream *s)
{
    if (!s->closed || s->files > 0)
        return;
    dz_k_blob_free(k, s->in);
    dz_k_blob_free(k, s->out);
    DZ_K_FOREACH(dz_job, job, k, DZ_KERNEL_TABLE_JOB)
    if (job->trace == s->index)
        job->trace = 0;
    dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_STREAM], s->index);
}

int dz_kernel_stream_new(struct dz_kernel *k, uint32_t kind, uint64_t tag, uint32_t *ret_stream,
                         struct dz_err *err)
{
    if ((kind & (DZ_STREAM_IN | DZ_STREAM_OUT)) == 0 || (kind & DZ_STREAM_PTY))
        return dz_fail(err, DZ_EINVAL, "a stream must be for input, output or both, not %u", kind);
    struct dz_stream *s = make(k, kind, tag);
    if (!s)
        return dz_fail(err, DZ_ELIMIT, "cannot open a stream: %d are open, which is the limit",
                       DZ_KERNEL_STREAMS_MAX);
    s->in = kind & DZ_STREAM_IN ? dz_k_blob_new(k, NULL, DZ_KERNEL_STREAM_SIZE) : 0;
    s->out = kind & DZ_STREAM_OUT ? dz_k_blob_new(k, NULL, DZ_KERNEL_STREAM_SIZE) : 0;
    if (((kind & DZ_STREAM_IN) && !s->in) || ((kind & DZ_STREAM_OUT) && !s->out)) {
        s->closed = 1;
        release(k, s);
        return dz_fail(err, DZ_ENOMEM, "cannot open a stream: the sandbox's memory is used up");
    }
    *ret_stream = handle_of(s);
    return 0;
}

int dz_kernel_pty_new(struct dz_kernel *k, const struct dz_winsize *size, uint64_t tag,
                      uint32_t *ret_stream, struct dz_err *err)
{
    struct dz_stream *s = make(k, DZ_STREAM_PTY, tag);
    if (!s)
        return dz_fail(err, DZ_ELIMIT,
                       "cannot open a terminal: %d streams are open, which is the limit",
                       DZ_KERNEL_STREAMS_MAX);
    struct dz_pty *t = dz_k_pty_new(k, 0, 5);
    if (!t) {
        s->closed = 1;
        release(k, s);
        return dz_fail(err, DZ_ELIMIT, "cannot open a terminal: %u exist, which is the limit",
                       k->tab[DZ_KERNEL_TABLE_PTY].used);
    }
    t->stream = s->index;
    t->locked = 0;
    t->size = *size;
    s->pty = t->index;
    *ret_stream = handle_of(s);
    return 0;
}

int64_t dz_kernel_stream_push(struct dz_kernel *k, uint32_t stream, const void *data, size_t n)
{
    struct dz_stream *s = by_handle(k, stream);
    if (!s)
        return DZ_ENOENT;
    if (s->kind & DZ_STREAM_PTY)
        return (int64_t)dz_k_ldisc_input(k, dz_k_pty(k, s->pty), data, n);
    if (!(s->kind & DZ_STREAM_IN) || s->in_eof)
        return DZ_EINVAL;
    size_t put = dz_k_ring_put(dz_k_blob(k, s->in, NULL), DZ_KERNEL_STREAM_SIZE, s->in_head,
                               &s->in_len, data, n);
    s->in_total += put;
    dz_k_wake(k, &s->wait_r);
    return (int64_t)put;
}

size_t dz_kernel_stream_room(struct dz_kernel *k, uint32_t stream)
{
    const struct dz_stream *s = by_handle(k, stream);
    if (!s || s->in_eof)
        return 0;
    if (s->kind & DZ_STREAM_PTY)
        return dz_k_ldisc_room(dz_k_pty(k, s->pty));
    return s->kind & DZ_STREAM_IN ? DZ_KERNEL_STREAM_SIZE - s->in_len : 0;
}

int dz_kernel_stream_eof(struct dz_kernel *k, uint32_t stream)
{
    struct dz_stream *s = by_handle(k, stream);
    if (!s)
        return DZ_ENOENT;
    if (s->kind & DZ_STREAM_PTY && !s->in_eof) {
        struct dz_pty *t = dz_k_pty(k, s->pty);
        if (dz_k_ldisc_room(t) == 0)
            return DZ_EBUSY;
        (void)dz_k_ldisc_input(k, t, &t->termios.cc[VEOF], 1);
    }
    s->in_eof = 1;
    dz_k_wake(k, &s->wait_r);
    return 0;
}

int dz_kernel_stream_ready(struct dz_kernel *k, uint32_t stream)
{
    struct dz_stream *s = by_handle(k, stream);
    if (!s)
        return DZ_ENOENT;
    s->blocked = 0;
    const struct dz_pty *t = dz_k_pty(k, s->pty);
    if (t ? t->out_len : s->out_len)
        k->output_waits = true;
    return 0;
}

int dz_kernel_stream_close(struct dz_kernel *k, uint32_t stream)
{
    struct dz_stream *s = by_handle(k, stream);
    if (!s)
        return DZ_ENOENT;
    struct dz_pty *t = dz_k_pty(k, s->pty);
    s->closed = s->in_eof = 1;
    s->out_len = 0;
    s->pty = 0;
    dz_k_wake(k, &s->wait_r);
    dz_k_wake(k, &s->wait_w);
    if (t) {
        t->stream = 0;
        dz_k_pty_hangup(k, t);
        dz_k_pty_free(k, t);
    }
    release(k, s);
    return 0;
}

int dz_kernel_stream_sink(struct dz_kernel *k, uint32_t stream)
{
    struct dz_stream *s = by_handle(k, stream);
    if (!s)
        return DZ_ENOENT;
    if (s->kind & DZ_STREAM_PTY)
        return dz_kernel_stream_close(k, stream);
    s->closed = STREAM_SINK;
    s->in_eof = 1;
    s->out_len = 0;
    dz_k_wake(k, &s->wait_r);
    dz_k_wake(k, &s->wait_w);
    release(k, s);
    return 0;
}

int dz_kernel_pty_resize(struct dz_kernel *k, uint32_t stream, const struct dz_winsize *size)
{
    const struct dz_stream *s = by_handle(k, stream);
    struct dz_pty *t = s ? dz_k_pty(k, s->pty) : NULL;
    if (!t)
        return DZ_ENOENT;
    if (memcmp(&t->size, size, sizeof *size) != 0) {
        t->size = *size;
        dz_k_send_pgrp(k, t->pgrp, SIGWINCH);
    }
    return 0;
}

/* ---- delivering output ------------------------------------------------------------ */

/* Offer a ring to the embedder, in its one or two pieces. */
static void drain(struct dz_kernel *k, struct dz_stream *s, uint8_t *ring, uint32_t cap,
                  uint32_t *head, uint32_t *len)
{
    while (*len > 0 && !s->blocked) {
        size_t piece = dz_k_min64(*len, cap - *head);
        size_t taken = k->ops.output
                           ? k->ops.output(k->ops.arg, handle_of(s), s->tag, ring + *head, piece)
                           : piece;
        assert(taken <= piece);
        s->blocked = taken < piece;
        s->out_total += taken;
        *head = (uint32_t)((*head + taken) % cap);
        *len -= (uint32_t)taken;
    }
}

static bool has_output(const struct dz_kernel *k, const struct dz_stream *s)
{
    const struct dz_pty *t = dz_k_pty(k, s->pty);
    return !s->blocked && !s->closed && (t ? t->out_len : s->out_len) > 0;
}

static int sync_mapped(struct dz_kernel *k, uint64_t ino, struct dz_err *err)
{
    int e = k->pages ? k->pages->sync(k->pages->arg, ino) : 0;
    return e ? dz_fail_sys(err, -e, "cannot write mapped files to the disk") : 0;
}

int dz_kernel_sync(struct dz_kernel *k, struct dz_err *err)
{
    return sync_mapped(k, UINT64_MAX, err);
}

int dz_kernel_commit(struct dz_kernel *k, struct dz_err *err)
{
    int rc = sync_mapped(k, 0, err);
    if (rc < 0)
        return rc;
    return k->ops.commit ? k->ops.commit(k->ops.arg, err) : dz_vfs_commit(k->vfs, err);
}

int dz_kernel_flush(struct dz_kernel *k, struct dz_err *err)
{
    bool any = false;
    DZ_K_FOREACH(dz_stream, s, k, DZ_KERNEL_TABLE_STREAM)
    any |= has_output(k, s);
    if (any) {
        int rc = dz_kernel_commit(k, err);
        if (rc)
            return rc;
    }
    DZ_K_FOREACH(dz_stream, s, k, DZ_KERNEL_TABLE_STREAM)
    {
        struct dz_pty *t = dz_k_pty(k, s->pty);
        if (!has_output(k, s))
            continue;
        if (t) {
            drain(k, s, dz_k_blob(k, t->out, NULL), DZ_KERNEL_TTY_OUT, &t->out_head, &t->out_len);
            dz_k_wake(k, &t->wait_out);
        } else {
            drain(k, s, dz_k_blob(k, s->out, NULL), DZ_KERNEL_STREAM_SIZE, &s->out_head,
                  &s->out_len);
            dz_k_wake(k, &s->wait_w);
        }
    }
    k->output_waits = false;
    return 0;
}

/* ---- traces ------------------------------------------------------------------------- */

static struct dz_stream *trace_of(const struct dz_kernel *k, const struct dz_proc *p)
{
    const struct dz_job *job = dz_k_job(k, p->job);
    return job ? dz_k_stream(k, job->trace) : NULL;
}

bool dz_kernel_traced(const struct dz_kernel *k, const struct dz_proc *p)
{
    return trace_of(k, p) != NULL;
}

static uint32_t room_of(const struct dz_stream *s)
{
    return DZ_KERNEL_STREAM_SIZE - s->out_len;
}

static void put_trace(struct dz_kernel *k, struct dz_stream *s, const void *data, size_t n)
{
    const size_t put = dz_k_ring_put(dz_k_blob(k, s->out, NULL), DZ_KERNEL_STREAM_SIZE, s->out_head,
                                     &s->out_len, data, n);
    assert(put == n);
    k->output_waits = true;
}

void dz_kernel_trace(const struct dz_task *t, const char *line, size_t size)
{
    struct dz_kernel *k = t->kernel;
    struct dz_stream *s = trace_of(k, t->proc);
    char head[16], missing[TRACE_MISSING_MAX];
    if (!s)
        return;
    const size_t n = (size_t)snprintf(head, sizeof head, "%5d ", (int)t->thread->tid);
    const size_t shown = size < TRACE_LINE_MAX ? size : TRACE_LINE_MAX;
    if (room_of(s) < sizeof missing + n + shown + sizeof "...\n") {
        s->missing++;
        return;
    }
    if (s->missing)
        put_trace(k, s, missing,
                  (size_t)snprintf(missing, sizeof missing, "... %llu lines are missing\n",
                                   (unsigned long long)s->missing));
    s->missing = 0;
    put_trace(k, s, head, n);
    put_trace(k, s, line, shown);
    put_trace(k, s, shown < size ? "...\n" : "\n", shown < size ? 4 : 1);
}

bool dz_kernel_trace_hold(struct dz_kernel *k, struct dz_proc *p)
{
    struct dz_stream *s = trace_of(k, p);
    struct dz_thread *t = dz_k_me(k, p);
    struct dz_call *c = dz_k_parked(t);
    if (c->parked && !(c->flags & DZ_CALL_HELD))
        return false; /* it was issued before: only the line of its end can follow */
    if (c->parked) {
        dz_k_unwait(k, t);
        t->state = DZ_THREAD_READY;
        *c = (struct dz_call){.deadline = INT64_MAX};
    }
    if (!s || room_of(s) >= TRACE_ROOM || dz_k_wait(k, p, &s->wait_w) != 0)
        return false;
    c->flags = DZ_CALL_HELD;
    (void)dz_k_block(k, p);
    return true;
}

/* ---- the descriptor ----------------------------------------------------------------- */

/* A description of the stream, or of the terminal it is the master of. */
int dz_k_stream_open(struct dz_kernel *k, uint32_t handle, struct dz_file **ret_file)
{
    struct dz_stream *s = by_handle(k, handle);
    if (!s)
        return -EBADF;
    bool tty = (s->kind & DZ_STREAM_PTY) != 0;
    int access = s->kind == DZ_STREAM_IN ? O_RDONLY : s->kind == DZ_STREAM_OUT ? O_WRONLY : O_RDWR;
    struct dz_file *f = dz_k_file_new(k, tty ? DZ_FILE_PTS : DZ_FILE_STREAM, (uint32_t)access);
    if (!f)
        return -ENFILE;
    f->obj = tty ? s->pty : s->index;
    if (tty)
        dz_k_pty(k, s->pty)->slaves++;
    else
        s->files++;
    *ret_file = f;
    return 0;
}

/* Count output bytes for the job of the process that wrote them. */
void dz_k_stream_job_output(struct dz_kernel *k, struct dz_proc *p, size_t n)
{
    struct dz_job *job = dz_k_job(k, p->job);
    k->output_waits = true;
    if (!job)
        return;
    job->out_bytes += n;
    if (job->out_limit != 0 && job->out_bytes > job->out_limit)
        dz_k_job_kill(k, job, DZ_JOB_LIMIT_OUTPUT);
}

static int64_t stream_read(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, void *buf,
                           size_t n)
{
    struct dz_stream *s = dz_k_stream(k, f->obj);
    (void)p;
    if (n == 0)
        return 0;
    if (s->in_len == 0)
        return s->in_eof || !(s->kind & DZ_STREAM_IN) ? 0 : -EAGAIN;
    return (int64_t)dz_k_ring_get(dz_k_blob(k, s->in, NULL), DZ_KERNEL_STREAM_SIZE, &s->in_head,
                                  &s->in_len, buf, n);
}

static int64_t stream_write(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f,
                            const void *buf, size_t n)
{
    struct dz_stream *s = dz_k_stream(k, f->obj);
    if (s->closed == STREAM_SINK && (s->kind & DZ_STREAM_OUT))
        return (int64_t)n;
    if (s->closed || !(s->kind & DZ_STREAM_OUT))
        return -EPIPE;
    size_t put = dz_k_ring_put(dz_k_blob(k, s->out, NULL), DZ_KERNEL_STREAM_SIZE, s->out_head,
                               &s->out_len, buf, n);
    if (put == 0)
        return -EAGAIN;
    dz_k_stream_job_output(k, p, put);
    return (int64_t)put;
}

static short stream_ready(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f)
{
    (void)p;
    const struct dz_stream *s = dz_k_stream(k, f->obj);
    short r = 0;
    if ((s->kind & DZ_STREAM_IN) && (s->in_len > 0 || s->in_eof))
        r |= POLLIN | POLLRDNORM;
    if ((s->kind & DZ_STREAM_OUT) && s->out_len < DZ_KERNEL_STREAM_SIZE)
        r |= POLLOUT | POLLWRNORM;
    if (s->in_eof && (s->kind & DZ_STREAM_IN))
        r |= POLLHUP;
    if (s->closed && s->closed != STREAM_SINK)
        r |= POLLERR;
    return r;
}

static int stream_wait(struct dz_kernel *k, const struct dz_k_sleeper *who, struct dz_file *f,
                       short events)
{
    struct dz_stream *s = dz_k_stream(k, f->obj);
    (void)events; /* the end of the outside wakes all waiters */
    int e = dz_k_sleep(k, who, &s->wait_r);
    return e ? e : dz_k_sleep(k, who, &s->wait_w);
}

static void stream_close(struct dz_kernel *k, struct dz_file *f)
{
    struct dz_stream *s = dz_k_stream(k, f->obj);
    s->files--;
    release(k, s);
}

static void stream_stat(struct dz_kernel *k, const struct dz_file *f, struct dz_kstat *st)
{
    (void)k;
    dz_k_stat_anon(st, S_IFIFO | 0600, f->obj);
}

static int64_t stream_ioctl(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, uint32_t req,
                            void *arg)
{
    const struct dz_stream *s = dz_k_stream(k, f->obj);
    (void)p;
    if (req != FIONREAD)
        return -ENOTTY;
    *(int *)arg = (int)s->in_len;
    return 0;
}

const struct dz_k_file_ops dz_k_stream_ops = {
    .read = stream_read,
    .write = stream_write,
    .ready = stream_ready,
    .wait = stream_wait,
    .ioctl = stream_ioctl,
    .close = stream_close,
    .stat = stream_stat,
};

/* SPDX-License-Identifier: MIT
 *
 * cell_host_exec.c - the host's side of commands: send frames without waiting, and handle those
 * that come back.
 *
 * A cell is not trusted: a frame about a command that is not open, or beyond a window, is invalid,
 * and the cell is killed.
 */
#include "cell/cell_host.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

enum {
    OFTEN = 64, /* frames of one kind that are always accepted; beyond that, twice an intact cell's
                   rate */
    ACTIVITIES_PER_S = 8, /* the rate at which cell_serve.c sends them: REPORT_NS */
    FULLS_PER_S = 1,      /* the same for FULL: FULL_NS */
    USEDS_MOST = 16, /* reports of used functions and pages in a cell's life: cell_serve.c sends at
                        most nine */
};

/* --- the queue --------------------------------------------------------------------------- */

static void drop(struct dz_cell *c, struct dz_queued *q)
{
    dz_list_remove(&q->link);
    c->queued_bytes -= sizeof *q + q->frame.size;
    for (size_t i = 0; i < q->fd_count; i++)
        dz_fd_close(&q->fds[i]);
    dz_free(q);
}

/* Can frames of this many bytes be queued if the socket takes none of them now? */
static int has_room(const struct dz_cell *c, size_t bytes, struct dz_err *err)
{
    size_t frames = bytes / DZ_CELL_FRAME_MAX + 1;
    if (c->queued_bytes + frames * sizeof(struct dz_queued) + bytes <= DZ_CELL_QUEUE_MAX)
        return 0;
    return dz_fail(err, DZ_EBUSY,
                   "the sandbox does not read its input: %zu bytes are queued; try again later",
                   c->queued_bytes);
}

static struct dz_queued *add(struct dz_cell *c, const struct dz_frame *f, const void *payload,
                             struct dz_err *err)
{
    size_t size = sizeof(struct dz_queued) + f->size;
    if (has_room(c, f->size, err) < 0)
        return NULL;
    struct dz_queued *q = dz_alloc(size);
    if (!q) {
        (void)dz_fail(err, DZ_ENOMEM, "send to the sandbox: out of memory");
        return NULL;
    }
    q->frame = *f;
    q->fd_count = 0;
    assert(payload || f->size == 0);
    if (f->size)
        memcpy(q->payload, payload, f->size);
    dz_list_init(&q->link);
    dz_list_push_back(&c->queue, &q->link);
    c->queued_bytes += size;
    return q;
}

int dz_cell_send(struct dz_cell *c, const struct dz_frame *f, const void *payload,
                 struct dz_err *err)
{
    bool waits = c->held || !dz_list_empty(&c->queue);
    int rc = waits ? 0 : dz_frame_send(c->fd, f, payload, false, err);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    return add(c, f, payload, err) ? 0 : err ? err->code : DZ_EBUSY;
}

static int copy_fds(struct dz_queued *q, const int *fds, size_t count, struct dz_err *err)
{
    for (; q->fd_count < count; q->fd_count++) {
        int fd = fcntl(fds[q->fd_count], F_DUPFD_CLOEXEC, 3);
        if (fd < 0)
            return dz_fail_sys(err, errno, "pass descriptors to the cell");
        q->fds[q->fd_count] = fd;
    }
    return 0;
}

int dz_cell_send_fds(struct dz_cell *c, const struct dz_frame *f, const void *payload,
                     const int *fds, size_t count, struct dz_err *err)
{
    if (!c->held && dz_list_empty(&c->queue)) {
        int rc = dz_frame_send_fds(c->fd, f, payload, fds, count, err);
        if (rc != 0)
            return rc < 0 ? rc : 0;
    }
    struct dz_queued *q = add(c, f, payload, err);
    int rc = q ? copy_fds(q, fds, count, err) : err ? err->code : DZ_EBUSY;
    if (rc < 0 && q)
        drop(c, q);
    return rc;
}

int dz_cell_flush(struct dz_cell *c, struct dz_err *err)
{
    while (!c->held && !dz_list_empty(&c->queue)) {
        struct dz_queued *q = DZ_LIST_FIRST(struct dz_queued, &c->queue, link);
        int rc = q->fd_count
                     ? dz_frame_send_fds(c->fd, &q->frame, q->payload, q->fds, q->fd_count, err)
                     : dz_frame_send(c->fd, &q->frame, q->payload, false, err);
        if (rc <= 0)
            return rc; /* 0: the socket is full, so send the rest later */
        drop(c, q);
    }
    return 0;
}

int dz_cell_drain(struct dz_cell *c, struct dz_err *err)
{
    int rc = dz_cell_flush(c, err);
    assert(!c->held); /* else this would wait forever */
    while (rc == 0 && !dz_list_empty(&c->queue)) {
        struct pollfd p = {.fd = c->fd, .events = POLLOUT};
        if (poll(&p, 1, -1) < 0 && errno != EINTR)
            return dz_fail_sys(err, errno, "wait for the cell's socket");
        rc = dz_cell_flush(c, err);
    }
    return rc;
}

short dz_cell_poll_events(const struct dz_cell *c)
{
    return c->dying_ns || dz_list_empty(&c->queue) ? POLLIN : POLLIN | POLLOUT;
}

void dz_cell_queue_release(struct dz_cell *c)
{
    while (!dz_list_empty(&c->queue))
        drop(c, DZ_LIST_FIRST(struct dz_queued, &c->queue, link));
    dz_vec_release(&c->execs);
    dz_vec_release(&c->ops);
    dz_free(c->together);
    if (c->held)
        dz_buf_release(&c->held->body);
    dz_free(c->held);
}

/* --- packets of several frames ------------------------------------------------------------- */

int dz_cell_together(struct dz_cell *c, const struct dz_frame *f, struct dz_err *err)
{
    assert(!c->together);
    if (f->size == 0)
        return dz_cell_nonsense(f, err);
    c->together = dz_alloc(f->size);
    if (!c->together)
        return dz_fail(err, DZ_ENOMEM, "receive from a cell: out of memory");
    memcpy(c->together, c->payload, f->size);
    c->together_at = 0;
    c->together_end = f->size;
    return 0;
}

int dz_cell_together_next(struct dz_cell *c, struct dz_frame *ret_frame, struct dz_err *err)
{
    struct dz_frame f = {.type = DZ_FRAME_TOGETHER};
    if (!c->together)
        return 0;
    size_t left = c->together_end - c->together_at;
    if (left < sizeof f)
        return dz_cell_nonsense(&f, err);
    memcpy(&f, c->together + c->together_at, sizeof f);
    if (f.type == DZ_FRAME_TOGETHER || f.type == DZ_FRAME_BORN || f.size > left - sizeof f)
        return dz_cell_nonsense(&f, err);
    memcpy(c->payload, c->together + c->together_at + sizeof f, f.size);
    c->together_at += sizeof f + f.size;
    if (c->together_at == c->together_end) {
        dz_free(c->together);
        c->together = NULL;
    }
    *ret_frame = f;
    return 1;
}

/* --- commands ------------------------------------------------------------------------------ */

static struct dz_open_exec *find(const struct dz_cell *c, uint32_t exec)
{
    for (size_t i = 0; i < c->execs.n; i++)
        if (c->execs.p[i].exec == exec)
            return &c->execs.p[i];
    return NULL;
}

static int open_one(struct dz_cell *c, uint32_t exec, uint32_t stream, struct dz_err *err)
{
    if (dz_vec_push(&c->execs, ((struct dz_open_exec){.exec = exec, .stream = stream})) < 0)
        return dz_fail(err, c->execs.err, "run a command: %zu commands are open already",
                       c->execs.n);
    return 0;
}

static void close_one(struct dz_cell *c, uint32_t exec)
{
    const struct dz_open_exec *e = find(c, exec);
    if (e)
        dz_vec_remove(&c->execs, (size_t)(e - c->execs.p));
}

/* Enter the commands that sleep in the machine and were named in the start. */
static int name_sleepers(struct dz_cell *c, const struct dz_cell_start *start, struct dz_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < start->sleeper_count; i++) {
        rc = open_one(c, ++c->next_exec, DZ_CELL_STDIN, err);
        if (rc == 0) {
            struct dz_open_exec *x = &c->execs.p[c->execs.n - 1];
            x->asleep = true;
            x->window = start->sleepers[i].window;
        }
    }
    return rc;
}

static int send_start(struct dz_cell *c, const struct dz_starting *s, struct dz_err *err)
{
    struct dz_frame f = {.type = DZ_FRAME_START, .value = s->size};
    int rc = dz_start_send(c->fd, s, err);
    for (size_t at = DZ_CELL_FRAME_MAX; rc == 0 && at < s->body.len; at += f.size) {
        size_t left = s->body.len - at;
        f.size = (uint32_t)(left < DZ_CELL_FRAME_MAX ? left : DZ_CELL_FRAME_MAX);
        rc = dz_cell_send(c, &f, s->body.p + at, err);
    }
    return rc;
}

int dz_cell_send_start(struct dz_cell *c, const struct dz_cell_start *start, bool forked,
                       struct dz_err *err)
{
    struct dz_starting s;
    int rc = dz_start_encode(start, forked, &s, err);
    if (rc < 0)
        return rc;
    rc = name_sleepers(c, start, err);
    c->silent = start->go;
    c->began = dz_clock_boot_ns();
    if (rc == 0 && start->hold) {
        c->held = dz_alloc(sizeof *c->held);
        if (c->held) {
            *c->held = s;
            return 0;
        }
    }
    if (rc == 0)
        rc = send_start(c, &s, err);
    dz_buf_release(&s.body);
    return rc;
}

int dz_cell_begin(struct dz_cell *c, struct dz_err *err)
{
    struct dz_starting *s = c->held;
    struct dz_list later;
    if (!s)
        return 0;
    while (!dz_list_empty(&c->queue)) {
        struct dz_queued *q = DZ_LIST_FIRST(struct dz_queued, &c->queue, link);
        if (q->fd_count || !dz_start_add(s, &q->frame, q->payload))
            break;
        drop(c, q);
    }
    c->held = NULL;
    dz_list_init(&later); /* frames queued behind the rest of a long start */
    dz_list_splice_back(&later, &c->queue);
    int rc = send_start(c, s, err);
    dz_list_splice_back(&c->queue, &later);
    dz_buf_release(&s->body);
    dz_free(s);
    return rc < 0 ? rc : dz_cell_flush(c, err);
}

/* Report the commands that were named in the start and did not wake. */
static void forget_sleepers(struct dz_cell *c)
{
    for (size_t i = c->execs.n; i-- > 0;)
        if (c->execs.p[i].asleep)
            dz_vec_remove(&c->execs, i);
}

static void put(struct dz_buf *b, const char *s)
{
    dz_buf_add(b, s, strlen(s) + 1);
}

static uint32_t put_list(struct dz_buf *b, const char *const *list)
{
    uint32_t n = 0;
    for (; list && list[n]; n++)
        put(b, list[n]);
    return n;
}

static void encode(struct dz_buf *b, const struct dz_cell_exec *e)
{
    struct dz_exec_head head = {
        .flags = (e->tty ? DZ_EXEC_TTY : 0u) | (e->open_stdin ? DZ_EXEC_STDIN : 0u) |
                 (e->attach ? DZ_EXEC_ATTACH : 0u) | (e->bare ? DZ_EXEC_BARE : 0u) |
                 (e->trace ? DZ_EXEC_TRACE : 0u),
        .rows = e->rows,
        .cols = e->cols,
        .cpu_ns = e->cpu_ns,
        .output_bytes = e->output_bytes,
        .keep_bytes = e->keep_bytes,
        .timeout_ns = e->timeout_ns,
        .spec_size = (uint32_t)e->spec_size};
    dz_buf_add(b, &head, sizeof head);
    put(b, e->id);
    put(b, e->program ? e->program : e->argv[0]);
    put(b, e->cwd ? e->cwd : "/");
    put(b, e->user ? e->user : "0");
    head.argc = put_list(b, e->argv);
    head.envc = put_list(b, e->env);
    head.preopens = put_list(b, e->preopens);
    dz_buf_add(b, e->spec, e->spec_size);
    if (!b->err)
        memcpy(b->p, &head, sizeof head);
}

static int may_send(const struct dz_cell *c, struct dz_err *err)
{
    if (c->suspending || c->ended)
        return dz_fail(err, DZ_ESTATE, "the sandbox is being suspended");
    return 0;
}

int dz_cell_exec(struct dz_cell *c, const struct dz_cell_exec *e, uint32_t *ret_exec,
                 struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf body = DZ_BUF_INIT(DZ_START_SIZE_MAX);
    int rc = may_send(c, err);
    if (rc == 0 && (!e->argv || !e->argv[0] || strlen(e->id) > DZ_CELL_ID_MAX ||
                    e->spec_size > DZ_CELL_SPEC_MAX))
        rc = dz_fail(err, DZ_EINVAL, "run a command: it has no program, or a too long id or spec");
    if (rc == 0)
        encode(&body, e);
    if (body.err)
        rc = dz_fail(err, body.err, "run a command: arguments and environment exceed %d bytes",
                     DZ_START_SIZE_MAX);
    uint32_t exec = c->next_exec + 1;
    if (rc == 0) /* send the whole command or nothing: the cell would wait for the rest */
        rc = has_room(c, body.len, err);
    if (rc == 0)
        rc = open_one(c, exec, e->tty ? DZ_CELL_TTY : DZ_CELL_STDIN, err);
    if (rc < 0)
        return rc;
    struct dz_frame f = {.type = DZ_FRAME_EXEC, .stream = exec << 2, .value = body.len};
    for (size_t at = 0; rc == 0 && at < body.len; at += f.size) {
        size_t left = body.len - at;
        f.size = (uint32_t)(left < DZ_CELL_FRAME_MAX ? left : DZ_CELL_FRAME_MAX);
        rc = dz_cell_send(c, &f, body.p + at, err);
    }
    if (rc < 0) {
        close_one(c, exec);
        return rc;
    }
    *ret_exec = c->next_exec = exec;
    return 0;
}

static int send_about(struct dz_cell *c, uint32_t exec, enum dz_frame_type type, uint32_t low,
                      uint64_t value, struct dz_err *err)
{
    struct dz_frame f = {.type = type, .stream = exec << 2 | low, .value = value};
    int rc = may_send(c, err);
    if (rc == 0 && !find(c, exec))
        rc = dz_fail(err, DZ_ENOENT, "the command has ended");
    return rc < 0 ? rc : dz_cell_send(c, &f, NULL, err);
}

size_t dz_cell_exec_window(const struct dz_cell *c, uint32_t exec)
{
    const struct dz_open_exec *e = find(c, exec);
    return e && !c->suspending && (c->held || dz_list_empty(&c->queue)) ? e->window : 0;
}

int64_t dz_cell_exec_input(struct dz_cell *c, uint32_t exec, const void *data, size_t size,
                           struct dz_err *err)
{
    struct dz_open_exec *e = find(c, exec);
    if (!e)
        return dz_fail(err, DZ_ENOENT, "the command has ended");
    size_t n = dz_frame_piece(dz_cell_exec_window(c, exec), size);
    if (n == 0)
        return 0;
    struct dz_frame f = {
        .type = DZ_FRAME_INPUT, .stream = exec << 2 | e->stream, .size = (uint32_t)n};
    int rc = dz_cell_send(c, &f, data, err);
    if (rc < 0)
        return rc;
    e->window -= n;
    e->sent += e->asleep ? n : 0;
    return (int64_t)n;
}

size_t dz_cell_exec_room(const struct dz_cell *c, uint32_t exec)
{
    const struct dz_open_exec *e = find(c, exec);
    return e ? e->window : 0;
}

int dz_cell_exec_input_end(struct dz_cell *c, uint32_t exec, struct dz_err *err)
{
    return send_about(c, exec, DZ_FRAME_EOF, 0, 0, err);
}

int dz_cell_exec_signal(struct dz_cell *c, uint32_t exec, int signo, bool all, struct dz_err *err)
{
    return send_about(c, exec, DZ_FRAME_SIGNAL, all, (uint64_t)signo, err);
}

int dz_cell_exec_resize(struct dz_cell *c, uint32_t exec, uint16_t rows, uint16_t cols,
                        struct dz_err *err)
{
    return send_about(c, exec, DZ_FRAME_RESIZE, 0, (uint64_t)rows << 16 | cols, err);
}

int dz_cell_exec_attach(struct dz_cell *c, uint32_t exec, uint64_t offset, struct dz_err *err)
{
    return send_about(c, exec, DZ_FRAME_ATTACH, 0, offset, err);
}

int dz_cell_exec_detach(struct dz_cell *c, uint32_t exec, struct dz_err *err)
{
    return send_about(c, exec, DZ_FRAME_DETACH, 0, 0, err);
}

int dz_cell_exec_ack(struct dz_cell *c, uint32_t exec, size_t bytes, struct dz_err *err)
{
    const struct dz_frame f = {.type = DZ_FRAME_ACK, .stream = exec << 2, .value = bytes};
    /* Valid also while the machine is being suspended: it may stay awake and send more. */
    return find(c, exec) && !c->ended ? dz_cell_send(c, &f, NULL, err) : 0;
}

/* --- frames from the cell --------------------------------------------------------------------- */

int dz_cell_nonsense(const struct dz_frame *f, struct dz_err *err)
{
    return dz_fail(err, DZ_EIO, "the cell sent an invalid frame and was killed (type %u)", f->type);
}

static int on_window(struct dz_cell *c, const struct dz_frame *f, struct dz_cell_event *e,
                     struct dz_err *err)
{
    struct dz_open_exec *x = find(c, e->exec);
    if (!x || f->value > DZ_CELL_WINDOW || x->window + f->value > DZ_CELL_WINDOW)
        return dz_cell_nonsense(f, err);
    x->window += (size_t)f->value;
    x->stream = e->stream;
    e->type = DZ_CELL_WINDOW_OPEN;
    return 1;
}

static int on_exited(struct dz_cell *c, const struct dz_frame *f, struct dz_cell_event *e,
                     struct dz_err *err)
{
    struct dz_frame_exited head;
    if (f->size < sizeof head)
        return dz_cell_nonsense(f, err);
    memcpy(&head, c->payload, sizeof head);
    if (head.cpu_ns < 0)
        return dz_cell_nonsense(f, err);
    e->type = DZ_CELL_EXITED;
    e->cpu_ns = head.cpu_ns;
    e->count = head.total;
    e->timed_out = head.flags & DZ_EXEC_TIMED_OUT;
    e->text = dz_cell_sentence(c, sizeof head);
    e->exit_code = f->value < DZ_ENDED_SIGNAL ? (int)(f->value & 0xff) : -1;
    e->signal = f->value < DZ_ENDED_SIGNAL ? 0 : (int)((f->value - DZ_ENDED_SIGNAL) & 0x7f);
    close_one(c, e->exec);
    return 1;
}

static int nonsense_up(struct dz_cell *c, struct dz_err *err)
{
    c->waking = false;
    return dz_cell_nonsense(&(struct dz_frame){.type = DZ_FRAME_UP}, err);
}

/* Report the commands that woke, one after the other, and then that the machine runs. */
int dz_cell_up_event(struct dz_cell *c, struct dz_cell_event *e, struct dz_err *err)
{
    struct dz_frame_live l;
    const uint8_t *at = c->payload + c->live_at;
    size_t left = c->live_end - c->live_at;
    *e = (struct dz_cell_event){.type = DZ_CELL_UP, .text = ""};
    if (c->live_count == 0) {
        e->busy = c->woke;
        c->waking = c->silent = false;
        forget_sleepers(c);
        return left == 0 ? 1 : nonsense_up(c, err);
    }
    if (left < sizeof l)
        return nonsense_up(c, err);
    memcpy(&l, at, sizeof l);
    const char *id = (const char *)at + sizeof l;
    if (l.id_size < 2 || l.id_size > DZ_CELL_ID_MAX + 1 || l.id_size > left - sizeof l ||
        strnlen(id, l.id_size) != l.id_size - 1 || l.window > DZ_CELL_WINDOW)
        return nonsense_up(c, err);
    struct dz_open_exec *x = find(c, l.exec >> 2);
    if (x ? !x->asleep : l.exec >> 2 < DZ_EXEC_WOKEN)
        return nonsense_up(c, err);
    int rc = x ? 0 : open_one(c, l.exec >> 2, l.exec & 3, err);
    if (rc < 0)
        return rc;
    if (!x)
        x = find(c, l.exec >> 2);
    assert(x); /* it was opened just now */
    x->window = l.window > x->sent ? l.window - x->sent : 0;
    x->stream = l.exec & 3;
    x->asleep = false;
    c->live_count--;
    c->live_at += sizeof l + l.id_size;
    e->type = DZ_CELL_LIVE;
    e->exec = l.exec >> 2;
    e->count = l.total;
    e->pid = l.pid & INT32_MAX;
    e->text = id;
    return 1;
}

static int on_up(struct dz_cell *c, const struct dz_frame *f, struct dz_cell_event *e,
                 struct dz_err *err)
{
    struct dz_frame_up up;
    if (f->size < sizeof up || f->value > 1)
        return dz_cell_nonsense(f, err);
    memcpy(&up, c->payload, sizeof up);
    c->woke = f->value == 1;
    c->waking = true;
    c->live_count = up.live;
    c->live_at = sizeof up;
    c->live_end = f->size;
    return dz_cell_up_event(c, e, err);
}

static int about_exec(struct dz_cell *c, const struct dz_frame *f, struct dz_cell_event *e,
                      struct dz_err *err)
{
    if (c->silent || !find(c, e->exec))
        return dz_cell_nonsense(f, err);
    switch (f->type) {
    case DZ_FRAME_OUTPUT:
        e->type = DZ_CELL_OUTPUT;
        e->stream = e->stream ? e->stream : DZ_CELL_TRACE;
        e->offset = f->value;
        return 1;
    case DZ_FRAME_WINDOW:
        return on_window(c, f, e, err);
    case DZ_FRAME_STARTED:
        e->type = DZ_CELL_STARTED;
        e->pid = (int32_t)(f->value & INT32_MAX);
        return 1;
    case DZ_FRAME_EXEC_FAILED:
        e->type = DZ_CELL_EXEC_FAILED;
        e->wrong = e->stream <= DZ_EXEC_WRONG_CWD ? (enum dz_exec_wrong)e->stream : 0;
        e->code = f->value > 0 && f->value < DZ_CELL_CODE_MAX ? -(int)f->value : DZ_EIO;
        e->text = dz_cell_sentence(c, 0);
        close_one(c, e->exec);
        return 1;
    case DZ_FRAME_EXITED:
        return on_exited(c, f, e, err);
    default:
        return 0;
    }
}

/* An honest cell sends these by its own clock, so it has sent no more than fit into its life so
 * far. The rate is not measured here: the host may have been stopped for long, and then receives
 * the frames of a day at once. */
static bool too_often(const struct dz_cell *c, uint64_t *said, uint64_t per_s)
{
    uint64_t lives_s = (uint64_t)(dz_clock_boot_ns() - c->began) / DZ_NS_PER_S;
    return ++*said > OFTEN + lives_s * per_s;
}

static int on_activity(struct dz_cell *c, const struct dz_frame *f, struct dz_cell_event *e,
                       struct dz_err *err)
{
    struct dz_frame_activity a;
    if (f->size != sizeof a || too_often(c, &c->activities, ACTIVITIES_PER_S))
        return dz_cell_nonsense(f, err);
    memcpy(&a, c->payload, sizeof a);
    if (a.cpu_ns < 0 || a.wake_at < 0)
        return dz_cell_nonsense(f, err);
    e->type = DZ_CELL_ACTIVITY;
    e->cpu_ns = a.cpu_ns;
    e->wake_at = a.wake_at;
    e->bytes_in = a.bytes_in;
    e->bytes_out = a.bytes_out;
    e->memory_bytes = a.memory_bytes;
    e->disk_bytes = a.disk_bytes;
    e->procs = a.procs;
    e->net_in = a.net_in;
    e->net_out = a.net_out;
    return 1;
}

static int on_ready(struct dz_cell *c, const struct dz_frame *f, struct dz_cell_event *e,
                    struct dz_err *err)
{
    struct dz_frame_ready r;
    if (f->size != sizeof r || f->value > DZ_CELL_FOUND_LOST)
        return dz_cell_nonsense(f, err);
    memcpy(&r, c->payload, sizeof r);
    e->wake_at = r.wake_at;
    e->type = DZ_CELL_READY;
    return 1;
}

int dz_cell_exec_event(struct dz_cell *c, const struct dz_frame *f, struct dz_cell_event *e,
                       struct dz_err *err)
{
    e->exec = f->stream >> 2;
    e->stream = f->stream & 3;
    e->count = f->value;
    switch (f->type) {
    case DZ_FRAME_READY:
        return on_ready(c, f, e, err);
    case DZ_FRAME_UP:
        return on_up(c, f, e, err);
    case DZ_FRAME_ACTIVITY:
        return on_activity(c, f, e, err);
    case DZ_FRAME_FULL:
        if (too_often(c, &c->fulls, FULLS_PER_S))
            return dz_cell_nonsense(f, err);
        e->type = DZ_CELL_FULL;
        e->text = dz_cell_sentence(c, 0);
        return 1;
    case DZ_FRAME_USED:
        if (++c->useds > USEDS_MOST)
            return dz_cell_nonsense(f, err);
        dz_pool_used(c, c->payload, f->size);
        e->type = DZ_CELL_NOTHING;
        return 1;
    case DZ_FRAME_OUTPUT:
    case DZ_FRAME_WINDOW:
    case DZ_FRAME_STARTED:
    case DZ_FRAME_EXEC_FAILED:
    case DZ_FRAME_EXITED:
        return about_exec(c, f, e, err);
    case DZ_FRAME_OP_DATA:
    case DZ_FRAME_OP_WINDOW:
    case DZ_FRAME_OP_DONE:
        return dz_cell_op_event(c, f, e, err);
    default:
        return 0;
    }
}

/* SPDX-License-Identifier: MIT
 *
 * cell_execs.c - the commands of a machine: their start, input, output and end.
 *
 * A command ends with its first process. Its descendants keep running, but their later output is
 * discarded. The end is committed first; then the output is sent as far as the host accepts it,
 * then EXITED.
 */
#include "cell/cell_execs.h"

#include "base/clock.h"
#include "base/mem.h"
#include "db/db.h"

#include <assert.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define TIMEOUT_MAX_NS (INT64_C(100) * 365 * 24 * 3600 * DZ_NS_PER_S)

/* The trace comes first: a line is sent before the output of later calls. */
static const uint32_t out_streams[] = {DZ_CELL_TRACE, DZ_CELL_STDOUT, DZ_CELL_STDERR, DZ_CELL_TTY};

struct dz_execs *dz_execs_new(struct dz_frame_out *out, struct dz_cell_machine *m,
                              const struct dz_started *start)
{
    struct dz_execs *x = dz_zalloc(sizeof *x);
    if (!x)
        return NULL;
    x->out = out;
    x->machine = m;
    x->env = start->env;
    x->kept = !start->ephemeral;
    x->next_number = 1;
    x->next_woken = DZ_EXEC_WOKEN;
    x->kill_at = INT64_MAX;
    x->incoming = (struct dz_buf)DZ_BUF_INIT(DZ_START_SIZE_MAX);
    return x;
}

struct dz_exec *dz_execs_add(struct dz_execs *x, uint32_t handle, const char *id)
{
    struct dz_exec *e = dz_zalloc(sizeof *e);
    if (!e)
        return NULL;
    e->handle = handle;
    e->number = DZ_EXEC_NONE;
    e->kept = x->kept;
    e->tail = (struct dz_buf)DZ_BUF_INIT((size_t)DZ_CELL_STREAMS * DZ_KERNEL_STREAM_SIZE);
    e->argv = (struct dz_buf)DZ_BUF_INIT(DZ_EXEC_ARGV_KEPT);
    e->own = (struct dz_buf)DZ_BUF_INIT(DZ_CELL_SPEC_MAX);
    e->keep = DZ_CELL_KEEP;
    e->kill_at = INT64_MAX;
    (void)snprintf(e->id, sizeof e->id, "%s", id);
    e->next = x->all;
    x->all = e;
    x->count++;
    return e;
}

static void exec_remove(struct dz_execs *x, struct dz_exec *e)
{
    for (struct dz_exec **at = &x->all; *at; at = &(*at)->next)
        if (*at == e) {
            *at = e->next;
            x->count--;
            break;
        }
    dz_buf_release(&e->tail);
    dz_buf_release(&e->argv);
    dz_buf_release(&e->own);
    dz_free(e->in);
    dz_free(e);
}

static struct dz_exec *by_handle(const struct dz_execs *x, uint32_t handle)
{
    struct dz_exec *e = x->all;
    while (e && e->handle != handle)
        e = e->next;
    return e;
}

static struct dz_exec *by_number(const struct dz_execs *x, uint64_t number)
{
    struct dz_exec *e = x->all;
    while (e && e->number != number)
        e = e->next;
    return e;
}

static void send_event(const struct dz_execs *x, const struct dz_exec *e, enum dz_frame_type type,
                       uint64_t value, const struct dz_str text)
{
    struct dz_frame f = {
        .type = type, .stream = e->handle << 2, .value = value, .size = (uint32_t)text.n};
    (void)dz_out_add(x->out, &f, text.p, true);
}

/* --- starting -------------------------------------------------------------------------- */

struct wanted {
    struct dz_exec_head head;
    const char *id, *program, *cwd, *user;
    const char **argv, **env, **preopens;
    const void *own;
    enum dz_exec_wrong wrong; /* why it was not started */
};

static int decode(const struct dz_buf *bytes, struct wanted *w, struct dz_err *err)
{
    struct dz_cursor c = {bytes->p + sizeof w->head, bytes->p + bytes->len};
    if (bytes->len < sizeof w->head)
        return dz_fail(err, DZ_EINVAL, "the frame of a command is malformed");
    memcpy(&w->head, bytes->p, sizeof w->head);
    if (w->head.timeout_ns > TIMEOUT_MAX_NS)
        w->head.timeout_ns = 0; /* no timeout, because it would expire in over a hundred years */
    w->id = dz_cursor_string(&c);
    w->program = w->id ? dz_cursor_string(&c) : NULL;
    w->cwd = w->program ? dz_cursor_string(&c) : NULL;
    w->user = w->cwd ? dz_cursor_string(&c) : NULL;
    w->argv = w->user ? dz_cursor_strings(&c, w->head.argc) : NULL;
    w->env = w->argv ? dz_cursor_strings(&c, w->head.envc) : NULL;
    w->preopens = w->env ? dz_cursor_strings(&c, w->head.preopens) : NULL;
    w->own = c.at;
    if (!w->preopens || strlen(w->id) > DZ_CELL_ID_MAX || w->head.spec_size > DZ_CELL_SPEC_MAX ||
        w->head.spec_size != (size_t)(c.end - c.at) || !w->argv[0])
        return dz_fail(err, DZ_EINVAL, "the frame of a command is malformed or too large");
    return 0;
}

static void wanted_release(struct wanted *w)
{
    dz_free(w->argv);
    dz_free(w->env);
    dz_free(w->preopens);
}

/* The columns of a record that are known when the command starts. */
static int describe(struct dz_exec *e, const struct wanted *w, struct dz_err *err)
{
    e->flags = w->head.flags & (DZ_EXEC_TTY | DZ_EXEC_STDIN | DZ_EXEC_TRACE);
    e->kill_real_ns = w->head.timeout_ns > 0 ? e->started_ns + w->head.timeout_ns : 0;
    for (uint32_t i = 0; w->argv[i]; i++) {
        size_t n = strlen(w->argv[i]) + 1;
        if (e->argv.len + n > DZ_EXEC_ARGV_KEPT)
            break;
        dz_buf_add(&e->argv, w->argv[i], n);
    }
    dz_buf_add(&e->own, w->own, w->head.spec_size);
    return e->argv.err || e->own.err ? dz_fail(err, DZ_ENOMEM, "record a command: out of memory")
                                     : 0;
}

static bool is_main(const char *id)
{
    return strcmp(id, DZ_CELL_MAIN) == 0;
}

static int may_start(struct dz_execs *x, const char *id, struct dz_err *err)
{
    if (!x->machine->kernel)
        return dz_fail(err, DZ_ESTATE, "run a command: the machine is not running");
    if (x->count >= DZ_CELL_EXECS_MAX)
        return dz_fail(err, DZ_ELIMIT,
                       "run a command: %zu commands run already, and more are not allowed",
                       x->count - 1);
    if (is_main(id) ? dz_execs_main(x) : dz_execs_known(x, id))
        return dz_fail(err, DZ_EEXIST, "run a command: the id %s was used in this sandbox before",
                       id);
    return 0;
}

static int launch(struct dz_execs *x, struct dz_exec *e, struct wanted *w, struct dz_err *err)
{
    struct dz_cell_program p = {.number = is_main(w->id) ? DZ_EXEC_MAIN : x->next_number,
                                .program = w->program,
                                .cwd = w->cwd,
                                .user = w->user,
                                .argv = w->argv,
                                .env = w->env,
                                .more_env = x->env,
                                .preopens = w->preopens,
                                .bare = w->head.flags & DZ_EXEC_BARE,
                                .tty = w->head.flags & DZ_EXEC_TTY,
                                .open_stdin = w->head.flags & DZ_EXEC_STDIN,
                                .trace = w->head.flags & DZ_EXEC_TRACE,
                                .rows = w->head.rows,
                                .cols = w->head.cols,
                                .cpu_ns = w->head.cpu_ns,
                                .output_bytes = w->head.output_bytes};
    const uint64_t least = (uint64_t)2 * DZ_CELL_WINDOW;
    uint64_t keep = w->head.keep_bytes ? w->head.keep_bytes : DZ_CELL_KEEP;
    e->keep = keep > DZ_CELL_KEEP_MAX ? DZ_CELL_KEEP_MAX : keep;
    e->keep = e->keep < least ? least : e->keep;
    e->started_ns = dz_clock_real_ns();
    int rc = describe(e, w, err);
    if (rc < 0)
        return rc;
    if (p.tty || p.open_stdin)
        e->in = dz_alloc(sizeof *e->in);
    if ((p.tty || p.open_stdin) && !e->in)
        return dz_fail(err, DZ_ENOMEM, "run a command: out of memory");
    if (e->in)
        e->in->head = e->in->len = e->in->eof = 0;
    rc = may_start(x, w->id, err);
    if (rc == 0)
        rc = dz_cell_machine_spawn(x->machine, &p, err);
    w->wrong = p.wrong;
    if (rc < 0)
        return rc;
    e->number = p.number;
    x->next_number += p.number != DZ_EXEC_MAIN;
    e->read_row = (uint64_t)e->number << 32;
    e->job = p.job;
    memcpy(e->streams, p.streams, sizeof e->streams);
    e->attached = w->head.flags & DZ_EXEC_ATTACH;
    e->state = DZ_EXEC_RUNNING;
    e->changed = true;
    if (w->head.timeout_ns > 0)
        dz_execs_limit(x, e, e->started_ns + w->head.timeout_ns);
    return 0;
}

static int32_t leader_of(const struct dz_execs *x, uint32_t job)
{
    const struct dz_job *j = dz_kernel_row(x->machine->kernel, DZ_KERNEL_TABLE_JOB, job & 0xffff);
    return j ? j->leader : 0;
}

static uint32_t input_stream(const struct dz_exec *e)
{
    return e->handle << 2 | (e->streams[DZ_CELL_TTY] ? DZ_CELL_TTY : DZ_CELL_STDIN);
}

static void open_window(const struct dz_execs *x, const struct dz_exec *e)
{
    struct dz_frame f = {.type = DZ_FRAME_WINDOW,
                         .stream = input_stream(e),
                         .value = e->in ? DZ_CELL_WINDOW - e->in->len : 0};
    if (e->in)
        (void)dz_out_add(x->out, &f, NULL, true);
}

/* A client that starts a command without attaching may disconnect, so commit the command before
 * reporting its start. */
static int start(struct dz_execs *x, struct dz_exec *e, struct wanted *w, struct dz_err *err)
{
    assert(e);
    int rc = launch(x, e, w, err);
    if (rc < 0)
        return rc;
    e->pid = leader_of(x, e->job);
    if (!e->attached)
        rc = dz_cell_machine_commit(x->machine, err);
    if (rc < 0)
        return rc;
    send_event(x, e, DZ_FRAME_STARTED, (uint64_t)(uint32_t)e->pid, (struct dz_str){0});
    open_window(x, e);
    return 0;
}

static void send_failed(const struct dz_execs *x, uint32_t handle, int code,
                        enum dz_exec_wrong wrong, const char *text)
{
    const struct dz_frame f = {.type = DZ_FRAME_EXEC_FAILED,
                               .stream = handle << 2 | wrong,
                               .value = (uint64_t)-code,
                               .size = (uint32_t)strlen(text)};
    (void)dz_out_add(x->out, &f, text, true);
}

static void exec_frame(struct dz_execs *x, const struct dz_frame *f, const uint8_t *payload)
{
    struct wanted w = {0};
    struct dz_err err = {0};
    uint32_t handle = f->stream >> 2;
    if (x->incoming.len + f->size > f->value || f->value > DZ_START_SIZE_MAX)
        return; /* an invalid request of the host: ignore it */
    dz_buf_add(&x->incoming, payload, f->size);
    if (x->incoming.len < f->value)
        return;
    int rc = x->incoming.err ? dz_fail(&err, DZ_ENOMEM, "run a command: out of memory")
                             : decode(&x->incoming, &w, &err);
    struct dz_exec *e = rc == 0 ? dz_execs_add(x, handle, w.id) : NULL;
    if (rc == 0 && !e)
        rc = dz_fail(&err, DZ_ENOMEM, "run a command: out of memory");
    if (rc == 0)
        rc = start(x, e, &w, &err);
    if (rc < 0)
        send_failed(x, handle, rc, w.wrong, err.msg);
    if (rc < 0 && e)
        exec_remove(x, e);
    wanted_release(&w);
    dz_buf_reset(&x->incoming);
}

/* --- frames from the host ---------------------------------------------------------------- */

static void add_input(struct dz_execs *x, struct dz_exec *e, const uint8_t *p, size_t n)
{
    struct dz_cell_input *in = e->in;
    if (!in || n > sizeof in->bytes - in->len)
        return; /* a host that exceeds its window loses bytes */
    size_t at = (in->head + in->len) % sizeof in->bytes;
    size_t first = sizeof in->bytes - at < n ? sizeof in->bytes - at : n;
    memcpy(in->bytes + at, p, first);
    memcpy(in->bytes, p + first, n - first);
    in->len += n;
    x->bytes_in += n;
}

static void attach(struct dz_exec *e, uint64_t offset)
{
    if (offset == DZ_CELL_UNSENT)
        offset = e->cursor;
    uint64_t kept = e->total > e->keep ? e->total - e->keep : 0;
    e->attached = true;
    e->cursor = offset < e->total ? offset : e->total;
    kept = kept > e->first ? kept : e->first;
    e->cursor = e->cursor < kept ? kept : e->cursor;
    e->acked = e->cursor;
    e->read_row = (uint64_t)e->number << 32;
}

void dz_execs_frame(struct dz_execs *x, const struct dz_frame *f, const uint8_t *payload)
{
    struct dz_kernel *k = x->machine->kernel;
    if (f->type == DZ_FRAME_EXEC) {
        exec_frame(x, f, payload);
        return;
    }
    struct dz_exec *e = by_handle(x, f->stream >> 2);
    struct dz_winsize size = {.rows = (uint16_t)(f->value >> 16), .cols = (uint16_t)f->value};
    if (!e)
        return; /* the command ended before the frame arrived */
    switch (f->type) {
    case DZ_FRAME_INPUT:
        add_input(x, e, payload, f->size);
        break;
    case DZ_FRAME_EOF:
        if (e->in)
            e->in->eof = true;
        break;
    case DZ_FRAME_RESIZE:
        (void)dz_kernel_pty_resize(k, e->streams[DZ_CELL_TTY], &size);
        break;
    case DZ_FRAME_SIGNAL:
        (void)dz_kernel_signal(k, e->job, (int)f->value, f->stream & 1);
        break;
    case DZ_FRAME_ATTACH:
        attach(e, f->value);
        break;
    case DZ_FRAME_DETACH:
        e->attached = false;
        break;
    case DZ_FRAME_ACK:
        if (f->value <= e->cursor - e->acked)
            e->acked += f->value;
        break;
    default:
        break;
    }
}

/* --- input and output ---------------------------------------------------------------------- */

size_t dz_execs_output(struct dz_execs *x, uint64_t tag, size_t n)
{
    struct dz_exec *e = by_number(x, (tag & ~DZ_CELL_TAG_TRACE) >> 2);
    uint32_t s = tag & DZ_CELL_TAG_TRACE ? DZ_CELL_TRACE : tag & 3;
    if (!e || e->over)
        return n;
    size_t take = e->granted[s] < n ? e->granted[s] : n;
    e->granted[s] -= (uint32_t)take;
    e->shut[s] = take < n;
    return take;
}

static void push_input(const struct dz_execs *x, struct dz_exec *e)
{
    struct dz_cell_input *in = e->in;
    uint32_t stream = e->streams[DZ_CELL_TTY] ? DZ_CELL_TTY : DZ_CELL_STDIN;
    uint64_t pushed = 0;
    if (!in || e->over)
        return;
    while (in->len > 0) {
        size_t piece = sizeof in->bytes - in->head;
        piece = piece < in->len ? piece : in->len;
        int64_t n = dz_kernel_stream_push(x->machine->kernel, e->streams[stream],
                                          in->bytes + in->head, piece);
        if (n < 0)
            n = (int64_t)piece; /* closed, like a pipe without a reader */
        in->head = (in->head + (size_t)n) % sizeof in->bytes;
        in->len -= (size_t)n;
        pushed += (uint64_t)n;
        if ((size_t)n < piece)
            break;
    }
    if (pushed > 0) {
        struct dz_frame f = {
            .type = DZ_FRAME_WINDOW, .stream = e->handle << 2 | stream, .value = pushed};
        (void)dz_out_add(x->out, &f, NULL, true);
    }
    if (in->eof && in->len == 0)
        in->eof = dz_kernel_stream_eof(x->machine->kernel, e->streams[stream]) == DZ_EBUSY;
}

/* Checks invariants 2 and 3 of cell_execs.h. Invariant 1 depends on the order of the output gate
 * and of pump(); t_cell_crash tests it by killing cells between the two. */
static void assert_exec(const struct dz_exec *e)
{
    assert(e->acked <= e->cursor && e->cursor <= e->total && e->first <= e->total);
    assert(!e->attached || e->cursor - e->acked <= DZ_CELL_WINDOW);
    assert(e->tail_at <= e->total && e->piece_count <= DZ_ARRAY_LEN(e->pieces));
}

/* Send frames as long as the window and the socket have room. */
static void pump(struct dz_execs *x, struct dz_exec *e)
{
    while (e->attached && e->cursor < e->total && e->cursor - e->acked < DZ_CELL_WINDOW) {
        const void *data;
        struct dz_frame f = {.type = DZ_FRAME_OUTPUT};
        uint32_t stream;
        size_t n = dz_execs_read(x, e, &data, &stream);
        size_t room = DZ_CELL_WINDOW - (size_t)(e->cursor - e->acked);
        f.size = (uint32_t)(n < room ? n : room);
        f.stream = e->handle << 2 | (stream & 3);
        f.value = e->cursor;
        if (n == 0)
            return;
        int rc = dz_out_add(x->out, &f, data, false);
        x->blocked |= rc == 0;
        if (rc <= 0)
            return;
        e->cursor += f.size;
        x->bytes_out += f.size;
    }
}

static bool reopen(const struct dz_execs *x, struct dz_exec *e)
{
    bool any = false;
    for (size_t i = 0; i < DZ_ARRAY_LEN(out_streams); i++) {
        uint32_t s = out_streams[i];
        if (!e->shut[s] || dz_execs_room(e) == 0)
            continue;
        e->shut[s] = false;
        any = true;
        (void)dz_kernel_stream_ready(x->machine->kernel, e->streams[s]);
    }
    return any;
}

void dz_execs_send(struct dz_execs *x)
{
    for (struct dz_exec *e = x->all; e; e = e->next)
        pump(x, e);
}

static void send_exited(struct dz_execs *x, struct dz_exec *e)
{
    struct {
        struct dz_frame_exited head;
        char why[sizeof e->why];
    } body = {.head = {.cpu_ns = e->cpu_ns,
                       .total = e->total,
                       .flags = e->timed_out ? DZ_EXEC_TIMED_OUT : 0}};
    size_t n = strlen(e->why);
    memcpy(body.why, e->why, n);
    send_event(x, e, DZ_FRAME_EXITED, (uint64_t)e->code,
               dz_str_n((const char *)&body, sizeof body.head + n));
    x->main_ended |= e->number == DZ_EXEC_MAIN;
    exec_remove(x, e);
}

/* --- time ------------------------------------------------------------------------------------ */

void dz_execs_limit(struct dz_execs *x, struct dz_exec *e, int64_t real_ns)
{
    int64_t left = real_ns - dz_clock_real_ns();
    if (real_ns <= 0 || left > TIMEOUT_MAX_NS)
        return;
    e->kill_at = dz_clock_boot_ns() + (left > 0 ? left : 0);
    x->kill_at = e->kill_at < x->kill_at ? e->kill_at : x->kill_at;
}

int64_t dz_execs_kill_at(const struct dz_execs *x)
{
    return x->kill_at;
}

/* Kill the whole job of each command whose timeout has expired. */
static void kill_late(struct dz_execs *x)
{
    int64_t now = x->kill_at == INT64_MAX ? 0 : dz_clock_boot_ns();
    if (x->kill_at > now)
        return;
    x->kill_at = INT64_MAX;
    for (struct dz_exec *e = x->all; e; e = e->next) {
        if (e->kill_at <= now && e->job && !e->over) {
            e->timed_out = true;
            (void)dz_kernel_signal(x->machine->kernel, e->job, SIGKILL, true);
        }
        if (e->kill_at <= now || e->over)
            e->kill_at = INT64_MAX;
        x->kill_at = e->kill_at < x->kill_at ? e->kill_at : x->kill_at;
    }
}

bool dz_execs_turn(struct dz_execs *x)
{
    bool again = false;
    x->blocked = false;
    kill_late(x);
    for (struct dz_exec *e = x->all, *next; e; e = next) {
        next = e->next;
        push_input(x, e);
        pump(x, e);
        assert_exec(e);
        if (e->handle == 0 && !e->changed)
            exec_remove(x, e);
        else if (e->over && e->handle && (!e->attached || e->cursor == e->total))
            send_exited(x, e);
        else if (!e->over)
            again |= reopen(x, e);
    }
    return again;
}

void dz_execs_report_ended(struct dz_execs *x)
{
    for (struct dz_exec *e = x->all, *next; e; e = next) {
        next = e->next;
        if (!e->over || !e->handle)
            continue;
        pump(x, e);
        send_exited(x, e);
    }
}

/* --- ending ---------------------------------------------------------------------------------- */

int dz_execs_job_ended(struct dz_execs *x, const struct dz_job *job, struct dz_err *err)
{
    struct dz_exec *e = by_number(x, job->tag - 1);
    if (!e)
        return 0;
    dz_execs_drain(x, e);
    e->state = DZ_EXEC_ENDED;
    e->code =
        WIFEXITED(job->status) ? WEXITSTATUS(job->status) : DZ_ENDED_SIGNAL + WTERMSIG(job->status);
    e->cpu_ns = (int64_t)job->cpu_ns;
    e->ended_ns = dz_clock_real_ns();
    e->changed = true;
    if (job->end != DZ_JOB_EXITED)
        (void)dz_job_end_text(job, e->why, sizeof e->why);
    for (size_t i = 0; i < DZ_ARRAY_LEN(e->streams); i++)
        if (e->streams[i])
            (void)dz_kernel_stream_sink(x->machine->kernel, e->streams[i]);
    int rc = dz_kernel_commit(x->machine->kernel, err);
    e->over = true;
    return rc;
}

/* --- sleep ------------------------------------------------------------------------------------ */

void dz_execs_inputs(const struct dz_execs *x, struct dz_cell_inputs *ret)
{
    for (struct dz_exec *e = x->all; e; e = e->next) {
        if (!e->in || e->over || ret->count == DZ_ARRAY_LEN(ret->of))
            continue;
        ret->of[ret->count].number = e->number;
        ret->of[ret->count++].in = e->in;
    }
    const struct dz_exec *first = by_number(x, DZ_EXEC_MAIN);
    ret->main_sent = first ? first->cursor : 0;
}

bool dz_execs_main(const struct dz_execs *x)
{
    const struct dz_exec *e = by_number(x, DZ_EXEC_MAIN);
    return e && !e->over;
}

/* Adopt the main command of an image's machine, of which the file has no record. */
static int adopt_first(struct dz_execs *x, struct dz_err *err)
{
    uint32_t job = dz_kernel_job_find(x->machine->kernel, DZ_EXEC_MAIN + 1);
    if (!job || by_number(x, DZ_EXEC_MAIN))
        return 0;
    struct dz_exec *e = dz_execs_add(x, x->next_woken++, DZ_CELL_MAIN);
    static const char *const argv[] = {DZ_CELL_MAIN, NULL};
    struct wanted w = {.argv = (const char **)dz_alloc(sizeof argv)};
    if (e)
        e->in = dz_alloc(sizeof *e->in);
    if (!e || !e->in || !w.argv) {
        dz_free(w.argv);
        return dz_fail(err, DZ_ENOMEM, "wake the machine: out of memory");
    }
    memcpy(w.argv, argv, sizeof argv);
    e->in->head = e->in->len = e->in->eof = 0;
    e->number = DZ_EXEC_MAIN;
    e->state = DZ_EXEC_RUNNING;
    e->started_ns = dz_clock_real_ns();
    e->changed = true;
    int rc = describe(e, &w, err);
    dz_free(w.argv);
    return rc;
}

static void announce(const struct dz_execs *x, const struct dz_exec *e, struct dz_buf *live)
{
    size_t size = strlen(e->id) + 1;
    bool listens = e->in && e->streams[input_stream(e) & 3];
    const struct dz_frame_live l = {.total = e->total,
                                    .exec = input_stream(e),
                                    .window = listens ? (uint32_t)(DZ_CELL_WINDOW - e->in->len) : 0,
                                    .id_size = (uint32_t)size,
                                    .pid = leader_of(x, e->job)};
    dz_buf_add(live, &l, sizeof l);
    dz_buf_add(live, e->id, size);
}

static void name(struct dz_execs *x, const char *const *sleepers)
{
    for (uint32_t i = 0; sleepers[i]; i++)
        for (struct dz_exec *e = x->all; e; e = e->next)
            if (strcmp(e->id, sleepers[i]) == 0)
                e->handle = i + 1;
}

int dz_execs_woken(struct dz_execs *x, uint64_t main_sent, const char *const *sleepers,
                   struct dz_buf *live, uint32_t *ret_count, struct dz_err *err)
{
    uint32_t count = 0;
    struct dz_kernel *k = x->machine->kernel;
    int rc = adopt_first(x, err);
    name(x, sleepers);
    for (struct dz_exec *e = x->all, *next; rc == 0 && e; e = next) {
        next = e->next;
        e->job = dz_kernel_job_find(k, e->number + 1);
        for (uint32_t i = 0; i < 4; i++)
            e->streams[i] = dz_kernel_stream_find(k, (uint64_t)e->number << 2 | i);
        e->streams[DZ_CELL_TRACE] =
            dz_kernel_stream_find(k, (uint64_t)e->number << 2 | DZ_CELL_TAG_TRACE);
        if (!e->job) { /* the record is stale: its command does not run */
            e->state = DZ_EXEC_LOST;
            e->changed = e->over = true;
            e->handle = 0;
            continue;
        }
        if (e->number == DZ_EXEC_MAIN)
            e->acked = e->cursor = main_sent < e->total ? main_sent : e->total;
        announce(x, e, live);
        count++;
    }
    *ret_count = count;
    return rc < 0 || !live->err ? rc : dz_fail(err, live->err, "wake the machine: out of memory");
}

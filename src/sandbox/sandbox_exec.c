/* SPDX-License-Identifier: MIT
 *
 * sandbox_exec.c - commands and their watches.
 *
 * A struct exec exists while its command lives in a running machine, or while a watch follows it
 * and the machine sleeps. The cell sends output once. A watch skips output before its own offset;
 * if a new watch starts at an earlier offset, the cell is asked to send again from there. Output is
 * acknowledged to the cell when the slowest watch has acknowledged it, so a guest cannot run ahead
 * of its clients.
 *
 *   exec ── watch ── watch       handle 0: the machine sleeps; the next EXEC_LIVE of
 *     `── input, not yet sent    the same id gives the exec its new handle
 *
 * The record and the output of a command that has ended are read from the sandbox's file (replay).
 */
#include "sandbox/sandbox_int.h"

#include "base/clock.h"
#include "base/log.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
    INPUT_MARK = 64 << 10, /* buffered input above which senders are answered later */
};

/* --- execs ------------------------------------------------------------------------------- */

static struct exec *exec_find(struct dz_sandbox *s, const char *id)
{
    DZ_LIST_FOREACH(struct exec, x, &s->execs, link)
        if (strcmp(x->id, id) == 0)
            return x;
    return NULL;
}

static struct exec *exec_of(struct dz_sandbox *s, uint32_t handle)
{
    DZ_LIST_FOREACH(struct exec, x, &s->execs, link)
        if (x->handle && x->handle == handle)
            return x;
    return NULL;
}

static struct exec *exec_make(struct dz_sandbox *s, const char *id)
{
    struct exec *x = dz_zalloc(sizeof *x);
    if (!x)
        return NULL;
    x->sandbox = s;
    (void)snprintf(x->id, sizeof x->id, "%s", id);
    /* INPUT_MARK twice: the input that is buffered when a sender may send more, and what it had
     * sent until then. */
    x->input = (struct dz_buf)DZ_BUF_INIT(DZ_EXEC_INPUT_MAX + 2 * (size_t)INPUT_MARK);
    x->began_ms = dz_clock_mono_ms();
    dz_list_init(&x->watches);
    dz_list_init(&x->sendings);
    dz_list_init(&x->given);
    dz_list_init(&x->link);
    dz_list_push_back(&s->execs, &x->link);
    return x;
}

/* Count the buffered input for the sandbox's tenant. It is in memory already, so it is counted even
 * if there is no room; the sender has checked for room before. */
static void count_input(struct exec *x)
{
    size_t n = x->input.len > DZ_HELD_FREE ? x->input.len : 0;
    (void)dz_account_hold(x->sandbox->all->opts.accounts, x->sandbox->tenant, &x->held, n, true);
}

static int no_room(struct dz_why *why, const char *field)
{
    return dz_why(why, DZ_ERATE, field,
                  "the tenant has too much data buffered in the daemon; let commands read their "
                  "input, or send less at a time");
}

/* A message to a command, and its sender's callback. */
struct sending {
    struct dz_sandboxes *all;
    size_t held; /* bytes of data that dz_account_hold() counts */
    char tenant[DZ_SANDBOX_TENANT_MAX + 1];
    struct dz_list link; /* in exec.sendings or exec.given, or unlinked */
    dz_sandbox_done_fn *done;
    void *arg;
    struct dz_loop_task over; /* the task that calls done() with the following */
    int code;
    struct dz_why why;
    int64_t us;
    struct dz_exec_send tell;
    bool given; /* delivered early, before the wake was complete */
    char id[DZ_CELL_ID_MAX + 1];
    char data[];
};

static void sending_free(struct sending *t)
{
    (void)dz_account_hold(t->all->opts.accounts, t->tenant, &t->held, 0, true);
    dz_loop_task_cancel(&t->over);
    dz_list_remove(&t->link);
    dz_free(t);
}

static void on_sending_over(void *arg)
{
    struct sending *t = arg;
    const struct dz_why why = t->why;
    const struct dz_sandbox_result result = {.code = t->code, .why = &why, .us = t->us};
    dz_sandbox_done_fn *done = t->done;
    void *to = t->arg;
    sending_free(t);
    done(to, &result);
}

/* Post the answer to the sender. */
static void sending_end(struct sending *t, const struct dz_sandbox_result *result)
{
    dz_list_remove(&t->link);
    t->code = result->code;
    t->us = result->us;
    if (result->code < 0)
        t->why = *result->why;
    dz_loop_post(t->all->loop, &t->over);
}

/* Answer the senders that wait for the input buffer. They wait because a fast sender would overrun
 * a slow command. */
static void ack_sendings(struct exec *x, const struct dz_sandbox_result *result)
{
    DZ_LIST_FOREACH(struct sending, t, &x->sendings, link)
        sending_end(t, result);
}

/* It has no watches and no buffered input, and need not be killed when its machine wakes. */
static bool is_unused(const struct exec *x)
{
    return dz_list_empty(&x->watches) && x->input.len == 0 && !x->doomed;
}

static void exec_free(struct exec *x)
{
    struct dz_sandbox *s = x->sandbox;
    struct dz_why why = {0};
    struct dz_sandbox_result gone = {.why = &why};
    gone.code = dz_why(&why, DZ_ENOENT, NULL, "the command has ended");
    ack_sendings(x, &gone);
    while (!dz_list_empty(&x->given))
        dz_list_remove(x->given.next);
    dz_list_remove(&x->link);
    dz_buf_release(&x->input);
    count_input(x);
    dz_free(x);
    dz_sandbox_unneeded(s);
}

static void launch_end(struct dz_exec_watch *w)
{
    struct launch *l = w->launch;
    w->launch = NULL;
    if (l)
        (void)dz_account_hold(l->all->opts.accounts, l->tenant, &l->held, 0, true);
    dz_free(l);
}

/* --- watches ----------------------------------------------------------------------------- */

/* Count a watch as a connection to its sandbox, but only once the row says active
 * (dz_exec_connected). */
static void connect(struct dz_exec_watch *w)
{
    struct dz_sandbox *s = w->exec->sandbox;
    if (w->connected || w->silent || s->phase != DZ_PHASE_UP || !dz_list_empty(&s->up_pending))
        return;
    w->connected = true;
    dz_sandbox_touch(s->all, s->id, DZ_ACTIVITY_CONNECTION_OPEN);
}

static void disconnect(struct dz_exec_watch *w)
{
    struct dz_sandbox *s = w->exec ? w->exec->sandbox : NULL;
    if (w->connected && s)
        dz_sandbox_touch(s->all, s->id, DZ_ACTIVITY_CONNECTION_CLOSE);
    w->connected = false;
}

/* Leave everything that the watch is linked to or waits for. */
static void watch_leave(struct dz_exec_watch *w)
{
    disconnect(w);
    dz_acquire_cancel(w->acquire);
    dz_file_op_cancel(w->op);
    dz_list_remove(&w->link);
    launch_end(w);
    w->acquire = NULL;
    w->op = NULL;
    w->exec = NULL;
}

static void watch_free(struct dz_exec_watch *w)
{
    watch_leave(w);
    dz_loop_task_cancel(&w->over);
    dz_free(w->text);
    dz_free(w);
}

static void on_watch_over(void *arg)
{
    struct dz_exec_watch *w = arg;
    const struct dz_exec_watch_ops *ops = w->ops;
    const struct dz_why why = w->why;
    struct dz_exec_exit exit = w->exit;
    bool failed = w->failed;
    char *text = w->text;
    void *to = w->arg;
    w->text = NULL;
    watch_free(w);
    exit.text = text ? text : "";
    if (failed)
        ops->failed(to, &why);
    else
        ops->ended(to, &exit);
    dz_free(text);
}

static void watch_fail(struct dz_exec_watch *w, const struct dz_why *why)
{
    watch_leave(w);
    w->failed = true;
    w->why = *why;
    dz_loop_post(w->all->loop, &w->over);
}

static void watch_exit(struct dz_exec_watch *w, const struct dz_exec_exit *how)
{
    watch_leave(w);
    w->exit = *how;
    /* NULL also if there is no memory for the text */
    w->text = how->text[0] ? dz_str_dup(dz_str(how->text)) : NULL;
    dz_loop_post(w->all->loop, &w->over);
}

static void watch_started(struct dz_exec_watch *w, const char *id, int64_t pid)
{
    if (w->started_reported)
        return;
    w->started_reported = true;
    if (w->ops->started)
        w->ops->started(w->arg, id, pid);
}

/* Watches whose wake is still in flight are skipped: the wake's own completion reports to them. */
static void fail_why(struct exec *x, const struct dz_why *why)
{
    while (!dz_list_empty(&x->watches)) {
        struct dz_exec_watch *w = DZ_LIST_FIRST(struct dz_exec_watch, &x->watches, link);
        if (!w->acquire) {
            watch_fail(w, why);
            continue;
        }
        dz_list_remove(&w->link);
        w->exec = NULL;
    }
}

static void fail_all(struct exec *x, int code, const char *reason, const char *text)
{
    struct dz_why why = {0};
    (void)dz_why(&why, code, NULL, "%s", text);
    why.reason = reason;
    fail_why(x, &why);
}

/* The number by which clients know a stream. */
static unsigned client_stream(uint32_t stream)
{
    switch (stream) {
    case 0: /* in records, and in frames before they become events */
    case DZ_CELL_TRACE:
        return 3;
    case DZ_CELL_STDERR:
        return 2;
    default:
        return 1;
    }
}

/* --- replay: the record and output of a command that has ended --------------------------- */

static void on_pieces(void *arg, const void *data, size_t n)
{
    struct dz_exec_watch *w = arg;
    struct dz_cell_view v = {data, n};
    struct dz_cell_piece piece;
    size_t used = 0;
    while (dz_cell_piece_next(&v, &piece, NULL) == 1) {
        used += piece.size;
        if (w->ops->output)
            w->ops->output(w->arg, client_stream(piece.stream), piece.offset, piece.data,
                           piece.size);
    }
    /* The client acknowledges the bytes of output; the framing around them is acknowledged here. */
    dz_file_op_ack(w->op, w->ops->output ? n - used : n);
}

static void on_replayed(void *arg, const struct dz_why *why, uint64_t count)
{
    struct dz_exec_watch *w = arg;
    struct dz_why lost = {0};
    (void)count;
    w->op = NULL;
    if (!why && w->lost) {
        (void)dz_why(&lost, DZ_EUNAVAIL, NULL,
                     "the command %.40s was lost with its sandbox's memory; its output ends here",
                     dz_exec_watch_exec(w));
        lost.reason = "memory_lost";
        why = &lost;
    }
    if (why) {
        watch_fail(w, why);
        return;
    }
    const struct dz_exec_exit how = w->exit;
    watch_exit(w, &how);
}

static const struct dz_file_op_ops output_ops = {.data = on_pieces, .done = on_replayed};

static void on_record(void *arg, const void *data, size_t n)
{
    struct dz_exec_watch *w = arg;
    struct dz_cell_view v = {data, n};
    struct dz_cell_exec_row row;
    if (dz_cell_exec_row_next(&v, &row, NULL) == 1) {
        w->recorded = true;
        w->lost = strcmp(row.state, "lost") == 0;
        w->exit = (struct dz_exec_exit){
            .exit_code = row.exit_code,
            .signal = row.signal,
            .timed_out = row.timed_out,
            .text = "",
            .duration_ms = (row.ended_ns - row.started_ns) / DZ_NS_PER_MS,
            .bytes = row.output_bytes,
        };
    }
    dz_file_op_ack(w->op, n);
}

static void read_file(struct dz_exec_watch *w, const struct dz_cell_op *op,
                      const struct dz_file_op_ops *ops)
{
    const struct dz_file_op_request request = {.op = op, .ops = ops, .arg = w};
    struct dz_why why = {0};
    if (dz_file_op_on(w->all, w->sandbox_id, &request, &w->op, &why) < 0)
        watch_fail(w, &why);
}

static void on_recorded(void *arg, const struct dz_why *why, uint64_t count)
{
    struct dz_exec_watch *w = arg;
    struct dz_why missing = {0};
    const struct dz_cell_op op = {
        .type = DZ_CELL_OP_OUTPUT, .text = dz_exec_watch_exec(w), .offset = w->at};
    (void)count;
    w->op = NULL;
    if (!why && !w->recorded) {
        (void)dz_why(&missing, DZ_ENOENT, NULL, "there is no command %.40s in the sandbox",
                     dz_exec_watch_exec(w));
        why = &missing;
    }
    if (why) {
        watch_fail(w, why);
        return;
    }
    bool first = !w->started_reported;
    w->started_reported = true;
    read_file(w, &op, &output_ops); /* its callbacks come from the loop */
    /* this call may end the watch */
    if (w->ops->started && first)
        w->ops->started(w->arg, dz_exec_watch_exec(w), 0);
}

static const struct dz_file_op_ops record_ops = {.data = on_record, .done = on_recorded};

static void replay(struct dz_exec_watch *w, const char *sandbox_id)
{
    const struct dz_cell_op op = {.type = DZ_CELL_OP_EXEC, .text = dz_exec_watch_exec(w)};
    (void)snprintf(w->sandbox_id, sizeof w->sandbox_id, "%s", sandbox_id);
    read_file(w, &op, &record_ops);
}

/* --- output ------------------------------------------------------------------------------ */

static uint64_t least_acked(const struct exec *x)
{
    uint64_t least = UINT64_MAX;
    DZ_LIST_FOREACH(struct dz_exec_watch, w, &x->watches, link)
        least = w->ops->output && w->acked < least ? w->acked : least;
    return least;
}

/* Acknowledge to the cell what all watches have acknowledged. */
static void open_window(struct exec *x)
{
    uint64_t least = least_acked(x);
    /* output sent before a resend is not in flight any more */
    if (!x->handle || !x->attached || x->again || least == UINT64_MAX)
        return;
    /* a watch that starts later has acknowledged everything before */
    least = least < x->next ? least : x->next;
    if (least <= x->acked)
        return;
    (void)x->sandbox->ops->exec->ack(x->sandbox->cell, x->handle, (size_t)(least - x->acked), NULL);
    x->acked = least;
    dz_sandbox_watch_cell(x->sandbox);
}

/* Does a watch need output that the cell has sent already and was not asked to send again? */
static bool is_behind(const struct exec *x)
{
    DZ_LIST_FOREACH(struct dz_exec_watch, w, &x->watches, link)
        if (w->ops->output && w->at < x->next && !(x->again && w->at >= x->acked))
            return true;
    return false;
}

static void attach(struct exec *x)
{
    uint64_t least = least_acked(x);
    if (!x->handle || x->starting)
        return;
    if (least == UINT64_MAX) {
        if (x->attached)
            (void)x->sandbox->ops->exec->detach(x->sandbox->cell, x->handle, NULL);
        x->attached = false;
    } else if (!x->attached || is_behind(x)) {
        x->again = x->attached;
        x->attached = x->sandbox->ops->exec->attach(x->sandbox->cell, x->handle, least, NULL) == 0;
        x->acked = least;
        x->next = x->again ? x->next : least;
    }
    dz_sandbox_watch_cell(x->sandbox);
}

static bool has_client(const struct exec *x)
{
    DZ_LIST_FOREACH(struct dz_exec_watch, w, &x->watches, link)
        if (!w->silent)
            return true;
    return false;
}

/* After a request to send again, output that was already in flight arrives first. It continues
 * where the last piece ended, so watches that are behind must skip it. */
static void on_output(struct exec *x, const struct dz_cell_event *e)
{
    const unsigned stream = client_stream(e->stream);
    uint64_t end = e->offset + e->size;
    bool stale = x->again && e->offset == x->next;
    x->again = stale;
    x->next = end;
    if (has_client(x))
        dz_sandbox_touch(x->sandbox->all, x->sandbox->id, DZ_ACTIVITY_CONNECTION_BYTE);
    DZ_LIST_FOREACH(struct dz_exec_watch, w, &x->watches, link) {
        uint64_t skip = w->at > e->offset ? w->at - e->offset : 0;
        if (!w->ops->output || end <= w->at || (stale && w->at < e->offset))
            continue;
        if (w->at < e->offset) /* the cell no longer has the output in between */
            w->acked += e->offset - w->at;
        w->at = end;
        w->ops->output(w->arg, stream, e->offset + skip, e->data + skip, e->size - (size_t)skip);
    }
    open_window(x);
}

void dz_exec_watch_ack(struct dz_exec_watch *w, size_t n)
{
    w->acked += n;
    if (w->exec)
        open_window(w->exec);
    else if (w->op)
        dz_file_op_ack(w->op, n);
}

/* --- input ------------------------------------------------------------------------------- */

static void push_input(struct exec *x)
{
    size_t at = 0;
    while (x->handle && !x->starting && at < x->input.len) {
        int64_t n = x->sandbox->ops->exec->input(x->sandbox->cell, x->handle, x->input.p + at,
                                                 x->input.len - at, NULL);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    if (at > 0) {
        memmove(x->input.p, x->input.p + at, x->input.len - at);
        x->input.len -= at;
        x->input.p[x->input.len] = '\0';
    }
    count_input(x);
    if (x->input.len <= INPUT_MARK)
        ack_sendings(x, &(struct dz_sandbox_result){.code = 0});
    if (x->handle && !x->starting && x->input_end && x->input.len == 0) {
        (void)x->sandbox->ops->exec->input_end(x->sandbox->cell, x->handle, NULL);
        x->input_end = false;
    }
    if (x->handle)
        dz_sandbox_watch_cell(x->sandbox);
}

/* --- events ------------------------------------------------------------------------------ */

/* Read the rest of the output, and how the command ended, from the file. */
static void read_rest(struct dz_exec_watch *w, struct exec *x)
{
    disconnect(w);
    dz_list_remove(&w->link);
    w->exec = NULL;
    replay(w, x->sandbox->id);
}

/* The main command has exited: destroy the ephemeral sandbox. */
static void end_sandbox(struct dz_sandbox *s)
{
    const struct dz_sandbox_request r = {.what = DZ_REQUEST_DESTROY, .id = s->id};
    struct dz_err err;
    if (dz_sandbox_submit(s->all, &r, NULL, &err) < 0)
        dz_log(DZ_LOG_WARN, "destroy_refused", dz_log_strz("sandbox_id", s->id), dz_log_err(&err));
}

static void on_ended(struct exec *x, const struct dz_cell_event *e)
{
    const struct dz_exec_exit how = {
        .exit_code = e->exit_code,
        .signal = e->signal,
        .timed_out = e->timed_out,
        .text = e->text,
        .duration_ms = dz_clock_mono_ms() - x->began_ms,
        .bytes = e->count,
    };
    x->handle = 0;
    while (!dz_list_empty(&x->watches)) {
        struct dz_exec_watch *w = DZ_LIST_FIRST(struct dz_exec_watch, &x->watches, link);
        /* the command ended right after a wake, before the watch was attached */
        if (w->ops->output && w->at < e->count)
            read_rest(w, x);
        else
            watch_exit(w, &how);
    }
    struct dz_sandbox *s = x->sandbox;
    bool last = x->main;
    exec_free(x);
    if (last)
        end_sandbox(s);
}

static void on_live(struct dz_sandbox *s, const struct dz_cell_event *e)
{
    struct exec *x = exec_find(s, e->text);
    if (!x)
        x = exec_make(s, e->text);
    /* out of memory: the command runs, but cannot be watched */
    if (!x)
        return;
    if (!x->asleep)
        x->attached = false;
    x->handle = e->exec;
    x->pid = e->pid;
    x->asleep = x->starting = false;
}

/* Kill a command whose client never learned its id, or whose session failed. */
static void kill_doomed(struct exec *x)
{
    if (x->doomed && x->handle && !x->asleep)
        (void)x->sandbox->ops->exec->signal(x->sandbox->cell, x->handle, SIGKILL, true, NULL);
}

static void on_started(struct exec *x, const struct dz_cell_event *e)
{
    x->starting = false;
    x->pid = e->pid;
    DZ_LIST_FOREACH(struct dz_exec_watch, w, &x->watches, link)
        watch_started(w, x->id, e->pid);
    push_input(x);
    attach(x);
    kill_doomed(x);
}

static void start_failed(struct exec *x, const struct dz_cell_event *e)
{
    struct dz_why why = {0};
    bool user = e->wrong == DZ_EXEC_WRONG_USER;
    if (e->wrong != DZ_EXEC_WRONG_NOTHING && e->code == DZ_ESTATE) {
        (void)dz_why(&why, DZ_EINVAL, user ? "user" : "cwd", "%s", e->text);
    } else {
        (void)dz_why(&why, e->code, NULL, "%s", e->text);
        why.reason = e->code == DZ_ENOENT                            ? "no_program"
                     : e->code == DZ_EDENIED || e->code == DZ_EINVAL ? "not_program"
                                                                     : NULL;
    }
    fail_why(x, &why);
}

void dz_exec_event(struct dz_sandbox *s, const struct dz_cell_event *e)
{
    struct exec *x = exec_of(s, e->exec);
    if (e->type == DZ_CELL_LIVE) {
        on_live(s, e);
        return;
    }
    if (!x)
        return;
    if (e->type == DZ_CELL_STARTED) {
        on_started(x, e);
    } else if (e->type == DZ_CELL_OUTPUT) {
        on_output(x, e);
    } else if (e->type == DZ_CELL_WINDOW_OPEN) {
        push_input(x);
    } else if (e->type == DZ_CELL_EXITED) {
        on_ended(x, e);
    } else if (e->type == DZ_CELL_EXEC_FAILED) {
        x->handle = 0;
        start_failed(x, e);
        exec_free(x);
    }
}

void dz_exec_room(struct dz_sandbox *s)
{
    DZ_LIST_FOREACH(struct exec, x, &s->execs, link)
        push_input(x);
}

size_t dz_exec_sleepers(struct dz_sandbox *s, struct dz_cell_sleeper *ret, size_t most)
{
    size_t n = 0;
    DZ_LIST_FOREACH(struct exec, x, &s->execs, link) {
        x->asleep = n < most;
        if (x->asleep)
            ret[n++] = (struct dz_cell_sleeper){x->id, x->input_window};
    }
    return n;
}

/* Give the sleeping commands their handles, and attach them, so that their output is sent as soon
 * as they wake. */
void dz_exec_named(struct dz_sandbox *s)
{
    uint32_t handle = 0;
    DZ_LIST_FOREACH(struct exec, x, &s->execs, link)
        if (x->asleep) {
            x->handle = ++handle;
            attach(x);
        }
}

void dz_exec_asleep(struct dz_sandbox *s)
{
    DZ_LIST_FOREACH(struct exec, x, &s->execs, link)
        x->input_window = x->handle ? s->ops->exec->room(s->cell, x->handle) : 0;
}

/* The exec did not survive the wake: undo the early delivery of messages. */
static void undo_early(struct exec *x)
{
    while (!dz_list_empty(&x->given)) {
        struct sending *t = DZ_LIST_FIRST(struct sending, &x->given, link);
        dz_list_remove(&t->link);
        t->given = false;
    }
}

void dz_exec_up(struct dz_sandbox *s)
{
    DZ_LIST_FOREACH(struct exec, x, &s->execs, link) {
        if (!x->handle || x->asleep) { /* the command did not survive the wake */
            x->handle = 0;
            undo_early(x);
            while (!dz_list_empty(&x->watches))
                read_rest(DZ_LIST_FIRST(struct dz_exec_watch, &x->watches, link), x);
            exec_free(x);
            continue;
        }
        attach(x);
        push_input(x);
        kill_doomed(x);
    }
}

/* A woken sandbox has no connections except those reported after its wake. */
void dz_exec_connected(struct dz_sandbox *s)
{
    DZ_LIST_FOREACH(struct exec, x, &s->execs, link)
        DZ_LIST_FOREACH(struct dz_exec_watch, w, &x->watches, link)
            connect(w);
}

/* The cell of the command is gone. code < 0: the command has failed, and so do its watches and the
 * senders of its input. */
static void down(struct exec *x, int code, const char *reason, const char *text)
{
    x->handle = 0;
    x->attached = x->asleep = false;
    if (x->starting) /* the acquire that starts the command still has the input */
        dz_buf_reset(&x->input);
    count_input(x);
    DZ_LIST_FOREACH(struct dz_exec_watch, w, &x->watches, link)
        w->connected = false;
    if (code < 0)
        fail_all(x, code, reason, text);
    if (code < 0 || is_unused(x))
        exec_free(x);
}

void dz_exec_down(struct dz_sandbox *s, int code, const char *reason, const char *text)
{
    DZ_LIST_FOREACH(struct exec, x, &s->execs, link)
        down(x, code, reason, text);
}

/* Fail the commands of a sandbox whose memory is gone, except commands that are being started. */
static void let_go(struct dz_sandbox *s, const char *reason, const char *text)
{
    DZ_LIST_FOREACH(struct exec, x, &s->execs, link)
        if (!x->starting) {
            undo_early(x);
            down(x, DZ_EUNAVAIL, reason, text);
        }
}

void dz_exec_lost(struct dz_sandbox *s)
{
    let_go(s, "memory_lost", "the sandbox's memory was lost; it started from its files");
}

void dz_exec_archived(struct dz_sandbox *s)
{
    let_go(s, "archived",
           "the sandbox is archived, and so are its commands: they continue when it is revived and "
           "woken");
}

/* --- starting a command ------------------------------------------------------------------ */

static int start_command(struct exec *x, const struct launch *l, bool listen, struct dz_err *err)
{
    struct dz_sandbox *s = x->sandbox;
    char **env = NULL;
    int rc = dz_sandbox_env_list(l->env_json, &env, err);
    if (rc < 0)
        return rc;
    const struct dz_cell_exec spec = {
        .id = x->id,
        .argv = l->argv,
        .env = (const char *const *)env,
        .cwd = l->cwd ? l->cwd : s->workdir,
        .user = l->user ? l->user : s->user,
        .tty = l->tty,
        .open_stdin = l->keep_input || l->input.n > 0,
        .rows = l->rows,
        .cols = l->cols,
        .trace = l->trace,
        .attach = listen,
        .cpu_ns = l->background ? -1 : 0,
        .output_bytes = l->unlimited ? UINT64_MAX : 0,
        .timeout_ns = l->timeout_ms < INT64_MAX / DZ_NS_PER_MS ? l->timeout_ms * DZ_NS_PER_MS : 0,
        .spec = l->tag,
        .spec_size = l->tag ? strlen(l->tag) : 0,
    };
    rc = dz_sandbox_cell_code(s->ops->exec->start(s->cell, &spec, &x->handle, err));
    dz_free(env);
    return rc;
}

/* Start the watch's command in a cell. On failure the watch is unchanged. */
static int launch(struct dz_exec_watch *w, struct dz_sandbox *s, struct dz_why *why)
{
    const struct launch *l = w->launch;
    struct exec *x = exec_make(s, l->id);
    int rc = x ? start_command(x, l, w->ops->output != NULL, &why->err)
               : dz_fail(&why->err, DZ_ENOMEM, "exec: out of memory");
    if (rc < 0) {
        why->err.code = rc;
        if (x)
            exec_free(x);
        return rc;
    }
    s->all->counts.execs++;
    x->tty = l->tty;
    x->main = l->main;
    x->starting = true;
    x->attached = w->ops->output != NULL;
    x->input_end = !l->keep_input && l->input.n > 0;
    dz_buf_add(&x->input, l->input.p, l->input.n);
    count_input(x);
    w->exec = x;
    w->began = true;
    dz_list_push_back(&x->watches, &w->link);
    dz_sandbox_watch_cell(s);
    return 0;
}

/* Start the command together with the wake. If that fails, on_launch tries again and reports the
 * error. */
static void launch_early(void *arg, struct dz_sandbox *s)
{
    struct dz_why why = {0};
    (void)!launch(arg, s, &why);
}

/* The machine runs: start the command, unless launch_early has. */
static void on_launch(void *arg, struct dz_sandbox *s, const struct dz_sandbox_result *result)
{
    struct dz_exec_watch *w = arg;
    struct dz_why why = {0};
    w->acquire = NULL;
    if (result->code < 0) {
        watch_fail(w, result->why);
        return;
    }
    if (!w->exec && launch(w, s, &why) < 0) {
        watch_fail(w, &why);
        return;
    }
    connect(w);
    launch_end(w);
}

static struct dz_exec_watch *make_watch(struct dz_sandboxes *all, struct dz_exec_listener listener)
{
    struct dz_exec_watch *w = dz_zalloc(sizeof *w);
    if (!w)
        return NULL;
    w->all = all;
    w->ops = listener.ops;
    w->arg = listener.arg;
    w->at = w->acked = listener.offset;
    dz_list_init(&w->link);
    dz_loop_task_init(&w->over, w, on_watch_over, w);
    return w;
}

int dz_exec_start(struct dz_sandboxes *all, const struct dz_instance *row,
                  const struct dz_exec_request *exec, struct dz_exec_listener listener,
                  struct dz_exec_watch **ret_watch, struct dz_why *why)
{
    struct dz_exec_watch *w = make_watch(all, listener);
    if (w)
        w->launch = dz_launch_make(exec);
    if (!w || !w->launch) {
        dz_free(w);
        return dz_why(why, DZ_ENOMEM, NULL, "exec: out of memory");
    }
    w->launch->all = all;
    (void)snprintf(w->launch->tenant, sizeof w->launch->tenant, "%s", row->tenant);
    int rc = dz_id_new("exe", w->launch->id, &why->err);
    if (rc == 0 && exec->input.n > DZ_HELD_FREE &&
        !dz_account_hold(all->opts.accounts, row->tenant, &w->launch->held, exec->input.n, false))
        rc = no_room(why, "stdin");
    if (rc == 0) {
        (void)snprintf(w->id, sizeof w->id, "%s", w->launch->id);
        *ret_watch = w;
        dz_sandbox_use_noted(all, row->id, DZ_ACTIVITY_EXEC);
        rc = dz_sandbox_acquire(
            all, row,
            &(struct dz_acquire_opts){
                .need = DZ_NEED_MACHINE, .fn = on_launch, .arg = w, .early = launch_early},
            &w->acquire, why);
    }
    if (rc < 0) {
        *ret_watch = NULL;
        watch_free(w);
    }
    return rc;
}

/* --- watching an existing command -------------------------------------------------------- */

static void on_listen(void *arg, struct dz_sandbox *s, const struct dz_sandbox_result *result)
{
    struct dz_exec_watch *w = arg;
    w->acquire = NULL;
    if (result->code < 0) {
        watch_fail(w, result->why);
        return;
    }
    struct exec *x = exec_find(s, w->id);
    if (!x || !x->handle) {
        replay(w, s->id);
        return;
    }
    if (dz_list_count(&x->watches) >= DZ_EXEC_WATCHES_MAX) {
        struct dz_why why = {0};
        (void)dz_why(&why, DZ_EBUSY, NULL,
                     "%d clients already follow this command, which is the limit",
                     DZ_EXEC_WATCHES_MAX);
        watch_fail(w, &why);
        return;
    }
    w->exec = x;
    dz_list_push_back(&x->watches, &w->link);
    connect(w);
    if (!x->starting)
        watch_started(w, x->id, x->pid);
    attach(x);
}

int dz_exec_watch(struct dz_sandboxes *all, const struct dz_instance *row, const char *exec_id,
                  struct dz_exec_listener listener, struct dz_exec_watch **ret_watch,
                  struct dz_why *why)
{
    if (strlen(exec_id) > DZ_CELL_ID_MAX)
        return dz_why(why, DZ_ENOENT, NULL, "there is no command %.40s", exec_id);
    struct dz_exec_watch *w = make_watch(all, listener);
    if (!w)
        return dz_why(why, DZ_ENOMEM, NULL, "exec: out of memory");
    (void)snprintf(w->id, sizeof w->id, "%s", exec_id);
    *ret_watch = w;
    dz_sandbox_use_noted(all, row->id, DZ_ACTIVITY_EXEC);
    int rc = dz_sandbox_acquire(
        all, row, &(struct dz_acquire_opts){.need = DZ_NEED_MACHINE, .fn = on_listen, .arg = w},
        &w->acquire, why);
    if (rc < 0) {
        *ret_watch = NULL;
        watch_free(w);
    }
    return rc;
}

void dz_exec_watch_end(struct dz_exec_watch *w)
{
    if (!w)
        return;
    struct exec *x = w->exec;
    watch_free(w);
    if (!x)
        return;
    if (x->handle) {
        attach(x);
        open_window(x);
    } else if (is_unused(x)) {
        exec_free(x);
    }
}

void dz_exec_watch_abort(struct dz_exec_watch *w)
{
    struct exec *x = w ? w->exec : NULL;
    if (x && w->began && dz_list_count(&x->watches) == 1) {
        x->doomed = true;
        kill_doomed(x);
    }
    dz_exec_watch_end(w);
}

void dz_exec_watch_alive(struct dz_exec_watch *w)
{
    if (w->exec)
        dz_sandbox_touch(w->exec->sandbox->all, w->exec->sandbox->id,
                         DZ_ACTIVITY_CONNECTION_KEEPALIVE);
}

const char *dz_exec_watch_exec(const struct dz_exec_watch *w)
{
    return w->id;
}

/* --- for the host itself ----------------------------------------------------------------- */

bool dz_exec_here(const struct dz_sandbox *s)
{
    return s->phase == DZ_PHASE_UP && dz_list_empty(&s->up_pending) && !s->all->draining;
}

int dz_exec_start_here(struct dz_sandbox *s, const struct dz_exec_request *exec,
                       struct dz_exec_listener listener, struct dz_exec_watch **ret_watch,
                       struct dz_why *why)
{
    struct dz_exec_watch *w = make_watch(s->all, listener);
    char id[DZ_ID_TEXT];
    if (w)
        w->launch = dz_launch_make(exec);
    if (!w || !w->launch) {
        dz_free(w);
        return dz_why(why, DZ_ENOMEM, NULL, "exec: out of memory");
    }
    struct launch *l = w->launch;
    w->silent = true;
    l->all = s->all;
    l->background = true;
    (void)snprintf(l->tenant, sizeof l->tenant, "%s", s->tenant);
    int rc = dz_id_new("exe", id, &why->err);
    if (rc == 0) {
        (void)snprintf(l->id, sizeof l->id, "%s%s%s", id, exec->label ? "." : "",
                       exec->label ? exec->label : "");
        (void)snprintf(w->id, sizeof w->id, "%s", l->id);
        rc = launch(w, s, why);
    }
    if (rc < 0) {
        watch_free(w);
        return rc;
    }
    launch_end(w);
    *ret_watch = w;
    return 0;
}

int dz_exec_watch_here(struct dz_sandbox *s, const char *exec_id, struct dz_exec_listener listener,
                       struct dz_exec_watch **ret_watch, struct dz_why *why)
{
    struct exec *x = exec_find(s, exec_id);
    if (!x || !x->handle)
        return dz_why(why, DZ_ENOENT, NULL, "no command %s is running in the sandbox", exec_id);
    struct dz_exec_watch *w = make_watch(s->all, listener);
    if (!w)
        return dz_why(why, DZ_ENOMEM, NULL, "exec: out of memory");
    (void)snprintf(w->id, sizeof w->id, "%s", exec_id);
    w->silent = w->started_reported = true;
    w->exec = x;
    dz_list_push_back(&x->watches, &w->link);
    attach(x);
    *ret_watch = w;
    return 0;
}

bool dz_exec_signal_here(struct dz_sandbox *s, const char *exec_id, int number)
{
    const struct exec *x = exec_find(s, exec_id);
    if (!x || !x->handle || s->ops->exec->signal(s->cell, x->handle, number, true, NULL) < 0)
        return false;
    dz_sandbox_watch_cell(s);
    return true;
}

void dz_exec_each_here(struct dz_sandbox *s, void (*fn)(void *arg, const char *exec_id), void *arg)
{
    DZ_LIST_FOREACH(struct exec, x, &s->execs, link)
        if (x->handle)
            fn(arg, x->id);
}

const char *dz_exec_label(const char *exec_id)
{
    const char *dot = strchr(exec_id, '.');
    return dot ? dot + 1 : NULL;
}

/* --- messages to a command --------------------------------------------------------------- */

static int tell(struct exec *x, const struct dz_exec_send *t, struct dz_why *why)
{
    struct dz_err err = {0};
    int rc = 0, number;
    switch (t->what) {
    case DZ_EXEC_SEND_INPUT:
        if (x->input_end)
            return dz_why(why, DZ_ESTATE, NULL, "the command's input is already closed");
        dz_buf_add(&x->input, t->data.p, t->data.n);
        if (x->input.err) {
            x->input.err = 0;
            return dz_why(why, DZ_EBUSY, NULL,
                          "the command does not read its input: %zu bytes are waiting for it",
                          x->input.len);
        }
        break;
    case DZ_EXEC_SEND_INPUT_END:
        x->input_end = true;
        break;
    case DZ_EXEC_SEND_SIGNAL:
        number = t->number                 ? t->number
                 : x->sandbox->stop_signal ? x->sandbox->stop_signal
                                           : SIGTERM;
        rc = x->sandbox->ops->exec->signal(x->sandbox->cell, x->handle, number, true, &err);
        break;
    case DZ_EXEC_SEND_RESIZE:
        rc = x->sandbox->ops->exec->resize(x->sandbox->cell, x->handle, t->rows, t->cols, &err);
        break;
    }
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    push_input(x);
    return 0;
}

static void send_early(void *arg, struct dz_sandbox *s)
{
    struct sending *t = arg;
    struct dz_why why = {0};
    struct exec *x = exec_find(s, t->id);
    t->given = x && x->handle && tell(x, &t->tell, &why) == 0;
    if (t->given)
        dz_list_push_back(&x->given, &t->link);
}

static void on_deliver(void *arg, struct dz_sandbox *s, const struct dz_sandbox_result *result)
{
    struct sending *t = arg;
    struct dz_why why = {0};
    struct dz_sandbox_result r = *result;
    dz_list_remove(&t->link);
    if (r.code == 0) {
        struct exec *x = exec_find(s, t->id);
        if (!t->given)
            r.code = x && x->handle ? tell(x, &t->tell, &why)
                                    : dz_why(&why, DZ_ENOENT, NULL,
                                             "no command %s is running in the sandbox", t->id);
        r.why = &why;
        if (r.code == 0 && x && t->tell.what == DZ_EXEC_SEND_INPUT && x->input.len > INPUT_MARK) {
            dz_list_push_back(&x->sendings, &t->link);
            return;
        }
    }
    sending_end(t, &r);
}

int dz_exec_send(struct dz_sandboxes *all, const struct dz_instance *row,
                 const struct dz_exec_send *what, dz_sandbox_done_fn *done, void *arg,
                 struct dz_why *why)
{
    if (strlen(what->exec_id) > DZ_CELL_ID_MAX)
        return dz_why(why, DZ_ENOENT, NULL, "there is no command %.40s", what->exec_id);
    struct sending *t = dz_zalloc(sizeof *t + what->data.n);
    if (!t)
        return dz_why(why, DZ_ENOMEM, NULL, "exec: out of memory");
    dz_list_init(&t->link);
    dz_loop_task_init(&t->over, t, on_sending_over, t);
    if (what->data.n > DZ_HELD_FREE &&
        !dz_account_hold(all->opts.accounts, row->tenant, &t->held, what->data.n, false)) {
        dz_free(t);
        return no_room(why, NULL);
    }
    t->all = all;
    (void)snprintf(t->tenant, sizeof t->tenant, "%s", row->tenant);
    t->done = done;
    t->arg = arg;
    t->tell = *what;
    t->tell.exec_id = t->id;
    t->tell.data.p = t->data;
    if (what->data.n)
        memcpy(t->data, what->data.p, what->data.n);
    (void)snprintf(t->id, sizeof t->id, "%s", what->exec_id);
    dz_sandbox_use_noted(all, row->id, DZ_ACTIVITY_CONNECTION_BYTE);
    int rc = dz_sandbox_acquire(
        all, row,
        &(struct dz_acquire_opts){
            .need = DZ_NEED_MACHINE, .fn = on_deliver, .arg = t, .early = send_early},
        NULL, why);
    if (rc < 0)
        sending_free(t);
    return rc;
}

/* SPDX-License-Identifier: MIT
 *
 * sandbox_cell.c - the cell of a sandbox: its start, its events, its end.
 *
 * At most TURN events of a cell are handled in one turn of the loop, so that a busy cell does not
 * delay the others. After SUSPENDED the sandbox is durable, but its cell needs some time to exit.
 * The sandbox lets it go at once, so that it can be started again (the new cell waits for the
 * file's lock), and the old cell is kept in all->exiting until it has exited.
 *
 * At log level debug each wake leaves one line with its steps, in microseconds from the moment at
 * which its request was read:
 *
 *     event=wake sandbox_id=... sent_us=210 up_us=1180 told_us=1260 written_us=1900
 *         cell_ran_us=730 cell_waited_us=12
 *
 * sent: the start was sent to the cell. up: the loop read that the machine runs. told: the first
 * output or end of a command was passed to its watches; -1 if that had not happened when the line
 * was written. written: the row was written; for a sandbox from cold storage a worker still flushes
 * it. cell_ran is the CPU time of the cell's main thread between sent and up, and cell_waited its
 * time in the run queue (/proc/PID/schedstat; -1: unknown). A slow wake also names the longest
 * callback of the loop meanwhile.
 */
#include "sandbox/sandbox_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    TURN = 64,            /* events of one cell handled in one turn of the loop */
    LOCK_WAIT_MS = 10000, /* time to wait for the file's lock while the previous cell exits */
    LEAVE_MS = 5000,      /* a suspended cell that has not exited after this is killed */
    REPORT_UP_MS = 1,     /* time until the row of a woken sandbox is written */
    OPEN_MS = 30000,      /* a cell that has not opened its file after this is killed */
    LINGER_MS = 1000,     /* an unused file-only cell is ended after this */
    HURRY_MS = 10000,     /* time left to file operations once other requests wait for the file */
    CPU_BUSY_PER_MILLE = 10, /* of a core: CPU use above this is activity */
    FULL_MS = 1500,          /* between two reports of a full disk; a cell repeats it every 2 s */
};

/* --- the log line of a wake -------------------------------------------------------------- */

enum {
    SLOW_US = 5000,
};

enum wake_step {
    WAKE_ASKED,
    WAKE_SENT,
    WAKE_UP,
    WAKE_OUTPUT,
    WAKE_WRITTEN,
    WAKE_STEPS = DZ_WAKE_STEPS,
};

static int64_t since_asked(const struct dz_sandbox *s, enum wake_step step)
{
    return s->wake[step] ? (s->wake[step] - s->wake[WAKE_ASKED]) / 1000 : -1;
}

/* Read the CPU time of the cell's main thread, and its time in the run queue. */
static bool look_at_cell(const struct dz_sandbox *s, int64_t ret_ns[static 2])
{
    char path[64], text[64] = "";
    int pid = s->ops->pid(s->cell);
    (void)snprintf(path, sizeof path, "/proc/%d/schedstat", pid);
    DZ_AUTO(dz_fd_close) int fd = pid > 0 ? dz_fd_open(AT_FDCWD, path, O_RDONLY, 0, NULL) : -1;
    return fd >= 0 && read(fd, text, sizeof text - 1) > 0 &&
           sscanf(text, "%" SCNd64 " %" SCNd64, &ret_ns[0], &ret_ns[1]) == 2;
}

static void note_cell(struct dz_sandbox *s, enum wake_step step)
{
    int64_t now[2];
    bool sent = step == WAKE_SENT;
    bool known = look_at_cell(s, now) && (sent || s->wake_cell[0] >= 0);
    for (int i = 0; i < 2; i++)
        s->wake_cell[i] = !known ? -1 : sent ? now[i] : (now[i] - s->wake_cell[i]) / 1000;
}

static void log_wake(const struct dz_sandbox *s)
{
    struct dz_loop_spell spell = {.kind = ""};
    char what[64] = "";
    int64_t all = 0;
    for (enum wake_step step = 0; step < WAKE_STEPS; step++)
        all = since_asked(s, step) > all ? since_asked(s, step) : all;
    if (all >= SLOW_US && dz_loop_longest(s->all->loop, s->wake[WAKE_ASKED], &spell))
        (void)snprintf(what, sizeof what, "%s at 0x%zx", spell.kind, (size_t)spell.fn);
    dz_log(DZ_LOG_DEBUG, "wake", dz_log_strz("sandbox_id", s->id),
           dz_log_int("sent_us", since_asked(s, WAKE_SENT)),
           dz_log_int("up_us", since_asked(s, WAKE_UP)),
           dz_log_int("told_us", since_asked(s, WAKE_OUTPUT)),
           dz_log_int("written_us", since_asked(s, WAKE_WRITTEN)),
           dz_log_int("cell_ran_us", s->wake_cell[0]),
           dz_log_int("cell_waited_us", s->wake_cell[1]), dz_log_bool("slow", all >= SLOW_US),
           dz_log_int("longest_us", spell.us), dz_log_strz("longest", what));
}

static void end_wake(struct dz_sandbox *s)
{
    if (s->wake[WAKE_UP])
        log_wake(s);
    for (int i = 0; i < WAKE_STEPS; i++)
        s->wake[i] = 0;
}

static void mark_wake(struct dz_sandbox *s, enum wake_step step)
{
    if (step == WAKE_ASKED) {
        end_wake(s);
        if (dz_log_enabled(DZ_LOG_DEBUG))
            s->wake[step] = dz_loop_turn_ns(s->all->loop);
        return;
    }
    if (s->wake[WAKE_ASKED] && !s->wake[step]) {
        s->wake[step] = dz_clock_mono_ns();
        if (step == WAKE_SENT || step == WAKE_UP)
            note_cell(s, step);
    }
    if (s->wake[WAKE_OUTPUT] && s->wake[WAKE_WRITTEN])
        end_wake(s);
}

/* --- the cell's part of an object -------------------------------------------------------- */

static void cell_failed(struct dz_sandbox *s, int code, const char *text);

static void on_fail(void *arg)
{
    struct dz_sandbox *s = arg;
    const struct dz_err err = s->fail_why;
    cell_failed(s, err.code, err.msg);
}

static void on_linger(void *arg)
{
    struct dz_sandbox *s = arg;
    if (s->phase == DZ_PHASE_OPENING) {
        s->ops->kill(s->cell);
        cell_failed(s, DZ_EBUSY, "the cell did not open the sandbox's file");
        return;
    }
    if (s->phase != DZ_PHASE_FILES || !dz_list_empty(&s->copies))
        return;
    if (dz_list_empty(&s->file_ops))
        dz_sandbox_stop_cell(s, true);
    else /* the end of the last file operation calls this function again */
        dz_file_op_cut(s, s->hurry || s->all->draining);
}

static void put_image(const struct dz_sandboxes *all, void *image)
{
    all->opts.host->image_put(all->opts.arg, image);
}

static void drop_cell(struct dz_sandbox *s)
{
    dz_start_over(s);
    end_wake(s);
    dz_loop_task_cancel(&s->fail);
    dz_list_remove(&s->up_pending);
    s->has_active = false;
    s->all->opts.host->cell_gone(s->all->opts.arg, s);
    dz_poll_free(s->poll);
    if (s->cell)
        s->ops->free(s->cell);
    put_image(s->all, s->image);
    s->poll = NULL;
    s->cell = NULL;
    s->image = NULL;
}

void dz_sandbox_drop_all(struct dz_sandbox *s)
{
    (void)dz_start_unqueue(s);
    drop_cell(s);
    if (!dz_list_empty(&s->copies))
        s->all->opts.host->copies_down(s->all->opts.arg, s, 0, NULL);
    dz_timer_free(s->linger);
}

/* Give back the reservation of the file-only cell. */
static void unreserve(struct dz_sandbox *s)
{
    if (!s->reserved)
        return;
    s->reserved = false;
    dz_sandbox_unreserve(s->all, s->id);
}

int dz_sandbox_init_cell(struct dz_sandbox *s)
{
    dz_list_init(&s->up_pending);
    dz_list_init(&s->acquiring);
    dz_list_init(&s->execs);
    dz_list_init(&s->file_ops);
    dz_list_init(&s->copies);
    dz_list_init(&s->parked);
    dz_list_init(&s->start_link);
    dz_net_init(s);
    dz_loop_task_init(&s->fail, s, on_fail, s);
    return dz_timer_new(s->all->loop, on_linger, s, &s->linger, NULL);
}

/* --- suspended cells that have not exited yet -------------------------------------------- */

static void exiting_free(struct exiting_cell *l)
{
    struct dz_sandboxes *all = l->all;
    dz_list_remove(&l->link);
    dz_timer_free(l->late);
    dz_poll_free(l->poll);
    l->ops->free(l->cell);
    put_image(all, l->image);
    dz_free(l);
}

void dz_exiting_cells_free(struct dz_sandboxes *all)
{
    while (!dz_list_empty(&all->exiting)) {
        struct exiting_cell *l = DZ_LIST_FIRST(struct exiting_cell, &all->exiting, link);
        l->ops->kill(l->cell); /* the set is being freed: do not wait for the cell */
        exiting_free(l);
    }
}

/* The cell reported SUSPENDED and has not exited in time: it is compromised, or its disk hangs. */
static void on_late(void *arg)
{
    struct exiting_cell *l = arg;
    struct dz_sandboxes *all = l->all;
    dz_log(DZ_LOG_WARN, "cell_ended", dz_log_int("pid", l->ops->pid(l->cell)),
           dz_log_strz("why", "it had suspended the sandbox but did not exit"));
    l->ops->kill(l->cell);
    exiting_free(l);
    dz_sandboxes_drain_check(all);
}

/* Poll another descriptor if the cell has changed it, which it does when it is dying. If there is
 * no memory for that, keep polling the old one: it stays readable, so the loop spins until the
 * process has ended. */
void dz_sandbox_poll_again(struct dz_sandboxes *all, struct dz_poll **poll, int *polled, int fd,
                           void (*fn)(void *arg, int events), void *arg)
{
    struct dz_poll *now;
    if (fd == *polled || dz_poll_new(all->loop, fd, fn, arg, &now, NULL) < 0)
        return;
    dz_poll_free(*poll);
    *poll = now;
    *polled = fd;
}

static void on_exiting(void *arg, int events)
{
    struct exiting_cell *l = arg;
    struct dz_sandboxes *all = l->all;
    struct dz_cell_event event;
    struct dz_err err;
    int rc = 1;
    (void)events;
    for (int i = 0; rc == 1 && (i < TURN || l->ops->pending(l->cell)); i++) {
        rc = l->ops->receive(l->cell, &event, &err);
        if (rc == 1 && event.type == DZ_CELL_GONE)
            rc = DZ_ECANCELED;
    }
    if (rc >= 0) {
        dz_sandbox_poll_again(all, &l->poll, &l->polled, l->ops->fd(l->cell), on_exiting, l);
        if (dz_poll_set(l->poll, DZ_POLL_READ, NULL) <
            0) /* on_late() ends the cell even if it cannot be polled */
            dz_log(DZ_LOG_WARN, "poll_failed", dz_log_int("pid", l->ops->pid(l->cell)));
        return;
    }
    exiting_free(l);
    dz_sandboxes_drain_check(all);
}

/* Move the suspended cell to all->exiting. If there is no memory for that, free the cell, which
 * waits for its exit. */
static void let_go(struct dz_sandbox *s)
{
    struct exiting_cell *l = dz_zalloc(sizeof *l);
    struct dz_sandboxes *all = s->all;
    dz_start_over(s);
    end_wake(s);
    dz_loop_task_cancel(&s->fail);
    if (!l) {
        drop_cell(s);
        return;
    }
    *l = (struct exiting_cell){.all = all, .ops = s->ops, .cell = s->cell, .image = s->image};
    dz_list_init(&l->link);
    dz_poll_free(s->poll);
    s->poll = NULL;
    l->polled = l->ops->fd(l->cell);
    if (dz_poll_new(all->loop, l->polled, on_exiting, l, &l->poll, NULL) < 0 ||
        dz_poll_set(l->poll, DZ_POLL_READ, NULL) < 0 ||
        dz_timer_new(all->loop, on_late, l, &l->late, NULL) < 0) {
        dz_poll_free(l->poll);
        dz_free(l);
        drop_cell(s);
        return;
    }
    dz_timer_after(l->late, LEAVE_MS);
    dz_list_push_back(&all->exiting, &l->link);
    s->all->opts.host->cell_gone(s->all->opts.arg, s);
    s->cell = NULL;
    s->image = NULL;
}

/* --- the end of a cell ------------------------------------------------------------------- */

static void machine_up(struct dz_sandbox *s, bool woke)
{
    const struct dz_sandbox_host *host = s->all->opts.host;
    if (host->machine_up && s->phase == DZ_PHASE_UP)
        host->machine_up(s->all->opts.arg, s, woke);
}

static void machine_down(struct dz_sandbox *s, bool kept)
{
    const struct dz_sandbox_host *host = s->all->opts.host;
    if (host->machine_down)
        host->machine_down(s->all->opts.arg, s, kept);
}

int dz_sandbox_cell_code(int code)
{
    return code == DZ_EIO ? DZ_EDIED : code;
}

static void note(const struct dz_sandbox *s, const char *what, const char *text)
{
    const struct dz_registry_event event = {
        .sandbox_id = s->id, .tenant = s->tenant, .what = what, .detail = text};
    struct dz_err err;
    int64_t seq;
    if (dz_registry_note(s->all->registry, &event, &seq, &err) < 0)
        dz_log(DZ_LOG_WARN, "event_lost", dz_log_strz("what", what), dz_log_err(&err));
}

/* The cell died, or could not open its file. The sentence is copied because it may be in the cell's
 * memory, which is freed here. */
static void cell_failed(struct dz_sandbox *s, int code, const char *sentence)
{
    char text[sizeof((struct dz_err *)0)->msg];
    const struct cell_end how = {.code = code, .error = text};
    enum dz_sandbox_phase was = s->phase;
    (void)snprintf(text, sizeof text, "%s", sentence);
    bool files = s->reserved; /* read before the answers below, which may reserve the sandbox for
                                 another cell */
    if (s->cell && s->ops->out_of_memory(s->cell))
        note(s, "memory_exceeded", text);
    drop_cell(s);
    s->phase = DZ_PHASE_NONE;
    s->all->counts.crashes += was == DZ_PHASE_UP || was == DZ_PHASE_STOPPING;
    dz_log(DZ_LOG_WARN, "cell_failed", dz_log_strz("sandbox_id", s->id),
           dz_log_strz("error", text));
    dz_file_op_down(s, dz_sandbox_cell_code(code), text);
    s->all->opts.host->copies_down(s->all->opts.arg, s, dz_sandbox_cell_code(code), text);
    dz_exec_down(s, was == DZ_PHASE_OPENING || was == DZ_PHASE_FILES ? 0 : DZ_EUNAVAIL, "crashed",
                 text);
    if (was != DZ_PHASE_OPENING && was != DZ_PHASE_FILES) {
        dz_net_down(s, DZ_EUNAVAIL, "crashed", text);
        machine_down(s, false);
    }
    if (s->asked)
        dz_sandbox_cell_done(s, &how);
    else if (was == DZ_PHASE_UP)
        dz_sandbox_cell_died(s, text);
    if (files)
        unreserve(s);
    dz_sandbox_unneeded(s);
}

/* The cell is suspended, durably. */
static void cell_suspended(struct dz_sandbox *s, uint64_t wake_at_ns, bool busy)
{
    bool files = s->reserved; /* read early, as in cell_failed() */
    const struct cell_end how = {
        .wake_at = wake_at_ns >= INT64_MAX || files ? 0 : (int64_t)(wake_at_ns / 1000000),
        .busy = busy && !files};
    dz_exec_asleep(s);
    let_go(s);
    s->phase = DZ_PHASE_NONE;
    s->all->counts.suspends += !files;
    dz_file_op_down(s, DZ_ECANCELED, "the sandbox was suspended");
    s->all->opts.host->copies_down(s->all->opts.arg, s, DZ_ECANCELED, "the sandbox was suspended");
    if (!files)
        dz_exec_down(s, s->keep_memory ? 0 : DZ_EUNAVAIL, "asleep",
                     "the sandbox was suspended without its memory");
    if (!files && s->keep_memory)
        dz_net_asleep(s);
    else if (!files)
        dz_net_down(s, DZ_EUNAVAIL, "asleep", "the sandbox was suspended without its memory");
    if (!files)
        machine_down(s, s->keep_memory);
    if (s->asked)
        dz_sandbox_cell_done(s, &how);
    else if (!files)
        dz_sandbox_cell_died(s, NULL); /* it suspended itself */
    if (files)
        unreserve(s);
    dz_sandbox_unneeded(s);
}

/* The cell could not be suspended and keeps running. */
static void suspend_failed(struct dz_sandbox *s, int code, const char *text)
{
    const struct cell_end how = {.code = code, .error = text, .alive = true};
    s->phase = s->reserved ? DZ_PHASE_FILES : DZ_PHASE_UP;
    if (s->phase == DZ_PHASE_UP) {
        dz_file_op_resume(s);
        dz_net_awake(s);
    }
    dz_sandbox_cell_done(s, &how);
    machine_up(s, true);
}

/* --- events ------------------------------------------------------------------------------ */

static void on_activity(struct dz_sandbox *s, const struct dz_cell_event *event)
{
    int64_t now = dz_clock_mono_ns(), cpu = event->cpu_ns, since = now - s->cpu_at;
    bool busy = s->cpu_at && since > 0 && cpu - s->cpu_ns > since / 1000 * CPU_BUSY_PER_MILLE;
    s->cpu_from = s->cpu_at ? s->cpu_from : cpu;
    s->cpu_ns = cpu;
    s->cpu_at = now;
    s->memory_bytes = event->memory_bytes;
    if (busy)
        dz_sandbox_touch(s->all, s->id, DZ_ACTIVITY_GUEST_CPU);
    if (event->net_in + event->net_out != s->net.bytes)
        dz_sandbox_touch(s->all, s->id, DZ_ACTIVITY_CONNECTION_BYTE);
    s->net.bytes = event->net_in + event->net_out;
    int64_t until = event->wake_at == INT64_MAX ? 0 : event->wake_at / DZ_NS_PER_MS;
    dz_sandbox_guest_sleeps(s->all, s->id, until);
}

/* Commit the wake: the row becomes active, and the waiters of the wake are answered. */
static void report_up(struct dz_sandbox *s)
{
    const struct cell_end how = {.memory_lost = s->lost};
    const struct dz_cell *c = s->cell;
    const struct dz_cell_event active = s->active;
    bool has_active = s->has_active;
    dz_list_remove(&s->up_pending);
    s->has_active = false;
    dz_sandbox_cell_done(s, &how);
    mark_wake(s, WAKE_WRITTEN);
    dz_exec_connected(s);
    dz_net_active(s);
    if (s->cell == c)
        machine_up(s, s->woke && !s->lost);
    if (has_active && s->cell == c)
        on_activity(s, &active);
}

/* The cell cannot commit anything, because the disk is full. Suspend it, from the reserve if
 * necessary: once its memory is on the disk it needs no more space. Its clients get an error at
 * once. */
static void cell_full(struct dz_sandbox *s, const char *text)
{
    static const char text_full[] =
        "the disk is full: the sandbox is being suspended with its memory; free "
        "space, and the next request wakes it";
    const struct dz_sandbox_request r = {.what = DZ_REQUEST_SUSPEND, .id = s->id};
    struct dz_err err;
    int64_t now = dz_clock_boot_ns();
    if (s->full_at && now - s->full_at < FULL_MS * DZ_NS_PER_MS) {
        s->full_more++;
        return;
    }
    dz_log(DZ_LOG_WARN, "cell_full", dz_log_strz("sandbox_id", s->id), dz_log_strz("error", text),
           dz_log_uint("skipped", s->full_more));
    s->full_at = now;
    s->full_more = 0;
    note(s, "disk_full", text);
    dz_file_op_down(s, DZ_ENOSPC, text_full);
    s->all->opts.host->copies_down(s->all->opts.arg, s, DZ_ENOSPC, text_full);
    dz_exec_down(s, DZ_ENOSPC, NULL, text_full);
    if (s->phase == DZ_PHASE_UP && dz_sandbox_submit(s->all, &r, NULL, &err) < 0)
        dz_log(DZ_LOG_WARN, "suspend_refused", dz_log_strz("sandbox_id", s->id), dz_log_err(&err));
}

/* Deliver the messages of waiting acquires to the cell before the wake is committed. Only on a
 * local wake with an empty queue: a wake from cold storage must flush its row before the guest's
 * output is reported, and queued requests keep their order. */
static void deliver_early(struct dz_sandbox *s)
{
    if (s->local && !s->lost && !dz_sandbox_awaited(s->all, s->id))
        s->served_early += dz_acquires_early(s);
}

/* The machine runs. On a local wake, output that came with UP is passed on before the row is
 * written, so that no client waits for the registry. If the daemon is killed in between, the row
 * shows no wake, and the cell suspends its machine because its host is gone. A wake that has a cold
 * copy, or lost its memory, is committed first. */
static void on_up(struct dz_sandbox *s, bool woke)
{
    s->phase = DZ_PHASE_UP;
    s->woke = woke;
    mark_wake(s, WAKE_UP);
    dz_start_over(s);
    s->cpu_at = 0;
    dz_log(DZ_LOG_DEBUG, "cell_up", dz_log_strz("sandbox_id", s->id),
           dz_log_int("pid", s->ops->pid(s->cell)));
    if (s->lost) {
        dz_exec_lost(s);
        dz_net_lost(s);
    }
    s->net.bytes = 0;
    dz_exec_up(s);
    deliver_early(s);
    if (!s->local || s->lost) {
        report_up(s);
        return;
    }
    dz_list_push_back(&s->all->up_pending, &s->up_pending);
}

/* Schedule report_up() to run after the answers that were just posted. If no request waits for it,
 * let the clients have their turn first, too. */
static void report_up_soon(const struct dz_sandbox *s)
{
    struct dz_sandboxes *all = s->all;
    if (dz_sandbox_waiters(all, s->id) > s->served_early) {
        dz_timer_after(all->up_timer, 0);
    } else if (!all->up_timer_set) {
        dz_timer_after(all->up_timer, REPORT_UP_MS);
    }
    all->up_timer_set = true;
}

bool dz_sandbox_report_up(struct dz_sandboxes *all, const char *id)
{
    struct dz_sandbox *s = dz_sandbox_find(all, id);
    if (!s || dz_list_empty(&s->up_pending) || s->in_turn)
        return false;
    report_up(s);
    dz_sandbox_unneeded(s);
    return true;
}

void dz_sandboxes_report_up(struct dz_sandboxes *all)
{
    all->up_timer_set = false;
    while (!dz_list_empty(&all->up_pending)) {
        struct dz_sandbox *s = DZ_LIST_FIRST(struct dz_sandbox, &all->up_pending, up_pending);
        report_up(s);
        dz_sandbox_unneeded(s);
    }
}

/* May this event be passed on before the row says active? */
static bool may_precede(const struct dz_sandbox *s, enum dz_cell_event_type type)
{
    return type == DZ_CELL_STARTED || type == DZ_CELL_OUTPUT || type == DZ_CELL_WINDOW_OPEN ||
           type == DZ_CELL_EXEC_FAILED ||
           (type >= DZ_CELL_NET_ANSWER && type <= DZ_CELL_NET_QUERY) ||
           (type == DZ_CELL_EXITED && !s->ephemeral);
}

static void on_ready(struct dz_sandbox *s)
{
    if (s->phase != DZ_PHASE_OPENING)
        return;
    s->phase = DZ_PHASE_FILES;
    dz_timer_stop(s->linger);
    dz_start_over(s);
    dz_sandbox_files_over(s);
}

/* Unsolicited event: treat the cell as compromised and kill it. */
static bool unsolicited(struct dz_sandbox *s)
{
    s->ops->kill(s->cell); /* even if it has reported SUSPENDED */
    cell_failed(s, DZ_EIO, "the cell sent an invalid frame and was killed");
    return false;
}

void dz_sandbox_end_cell(struct dz_sandbox *s, int code, const char *what, const char *text)
{
    note(s, what, text);
    s->ops->kill(s->cell);
    cell_failed(s, code, text);
}

/* Handle one event. False: the sandbox does not have this cell any more. */
static bool take_event(struct dz_sandbox *s, const struct dz_cell_event *event)
{
    const struct dz_cell *c = s->cell;
    if (event->type == DZ_CELL_NOTHING)
        return true;
    if (!dz_list_empty(&s->up_pending) && event->type == DZ_CELL_ACTIVITY) {
        s->active = *event;
        s->has_active = true;
        return true;
    }
    if (!dz_list_empty(&s->up_pending) && !may_precede(s, event->type)) {
        report_up(s);
        if (s->cell != c)
            return false;
    }
    switch (event->type) {
    case DZ_CELL_NOTHING:
        break;
    case DZ_CELL_READY:
        on_ready(s);
        break;
    case DZ_CELL_LOST:
        s->lost = true;
        break;
    case DZ_CELL_UP:
        if (s->phase != DZ_PHASE_STARTING)
            return unsolicited(s);
        on_up(s, event->busy);
        break;
    case DZ_CELL_LIVE:
    case DZ_CELL_STARTED:
    case DZ_CELL_OUTPUT:
    case DZ_CELL_WINDOW_OPEN:
    case DZ_CELL_EXITED:
    case DZ_CELL_EXEC_FAILED:
        dz_exec_event(s, event);
        if (event->type == DZ_CELL_OUTPUT || event->type == DZ_CELL_EXITED)
            mark_wake(s, WAKE_OUTPUT);
        break;
    case DZ_CELL_OP_DATA:
    case DZ_CELL_OP_WINDOW_OPEN:
    case DZ_CELL_OP_DONE:
        dz_file_op_event(s, event);
        break;
    case DZ_CELL_COPIED:
        if (!s->all->opts.host->copied(s->all->opts.arg, s, event))
            return unsolicited(s);
        break;
    case DZ_CELL_ACTIVITY:
        on_activity(s, event);
        break;
    case DZ_CELL_NET_ANSWER:
    case DZ_CELL_NET_PORTS:
    case DZ_CELL_NET_CONNECT:
    case DZ_CELL_NET_CLOSED:
    case DZ_CELL_NET_REST:
    case DZ_CELL_NET_QUERY:
        if (!dz_net_event(s, event))
            return unsolicited(s);
        break;
    case DZ_CELL_SUSPENDED: /* on request, or by itself */
        if (s->phase != DZ_PHASE_STOPPING && s->phase != DZ_PHASE_UP)
            return unsolicited(s);
        cell_suspended(s, event->count, event->busy);
        return false;
    case DZ_CELL_FULL:
        cell_full(s, event->text);
        break;
    case DZ_CELL_AWAKE:
        if (s->phase != DZ_PHASE_STOPPING)
            return unsolicited(s);
        suspend_failed(s, event->code, event->text);
        break;
    case DZ_CELL_FAILED:
        cell_failed(s, event->code, event->text);
        return false;
    case DZ_CELL_GONE:
        cell_failed(s, DZ_EIO, "the cell exited");
        return false;
    }
    return s->cell == c;
}

/* Send what is queued for the cell. When the socket has taken all of it, senders that found it full
 * may continue: no event of the cell does that, because its windows were open all the time. */
static void flush(struct dz_sandbox *s)
{
    /* receive() will report a failure */
    if (s->ops->flush(s->cell, NULL) < 0 || s->ops->want(s->cell) & POLLOUT)
        return;
    dz_file_op_room(s);
    dz_exec_room(s);
}

static void on_cell(void *arg, int events)
{
    struct dz_sandbox *s = arg;
    struct dz_err err = {0};
    bool here = true;
    s->in_turn = true;
    if (events & DZ_POLL_WRITE)
        flush(s);
    for (int i = 0; here && !s->unsynced_file && (i < TURN || s->ops->pending(s->cell)); i++) {
        struct dz_cell_event event;
        int rc = s->ops->receive(s->cell, &event, &err);
        if (rc == 0)
            break;
        if (rc < 0)
            cell_failed(s, rc, err.msg);
        here = rc > 0 && take_event(s, &event);
    }
    if (here)
        dz_sandbox_watch_cell(s);
    if (!dz_list_empty(&s->up_pending))
        report_up_soon(s);
    s->in_turn = false;
    dz_sandbox_assert(s);
    dz_sandbox_unneeded(s);
}

void dz_sandbox_watch_cell(struct dz_sandbox *s)
{
    if (!s->poll)
        return;
    dz_sandbox_poll_again(s->all, &s->poll, &s->polled, s->ops->fd(s->cell), on_cell, s);
    short want = s->ops->want(s->cell);
    int events = (want & POLLIN && !s->unsynced_file ? DZ_POLL_READ : 0) |
                 (want & POLLOUT ? DZ_POLL_WRITE : 0);
    if (dz_poll_set(s->poll, events, NULL) < 0)
        dz_log(DZ_LOG_WARN, "poll_failed", dz_log_strz("sandbox_id", s->id));
}

/* --- starting and stopping --------------------------------------------------------------- */

static const struct dz_sandbox_runtime *runtime_of(const struct dz_sandboxes *all, const char *kind)
{
    for (size_t i = 0; i < DZ_SANDBOX_RUNTIMES_MAX; i++) {
        const struct dz_sandbox_runtime *r = &all->opts.runtimes[i];
        if (r->ops && strcmp(r->ops->kind, kind) == 0)
            return r;
    }
    return NULL;
}

static int make_cell(struct dz_sandbox *s, const struct dz_instance *row,
                     const struct dz_sandbox_resources *f, bool go, struct dz_err *err)
{
    const struct dz_sandbox_runtime *runtime = runtime_of(s->all, row->kind);
    struct dz_cell_sleeper sleepers[DZ_CELL_EXECS_MAX];
    struct dz_cell_start start = f->start;
    if (!runtime)
        return dz_fail(err, DZ_EUNSUPPORTED, "start %s: this daemon has no cells of the kind %.40s",
                       s->id, row->kind);
    s->ops = runtime->ops;
    start.hold = start.go = go;
    start.net = s->ops->net != NULL;
    start.net_resumes = !go || dz_net_kept(s);
    start.sleepers = sleepers;
    start.sleeper_count = go ? dz_exec_sleepers(s, sleepers, DZ_ARRAY_LEN(sleepers)) : 0;
    start.asleep = go && s->drop_memory ? DZ_CELL_DROP : DZ_CELL_WAKE;
    start.lock_wait_ms = LOCK_WAIT_MS;
    start.label = s->id;
    s->born = ++s->all->cells_born;
    return s->ops->start(runtime->pool, &start, &s->cell, err);
}

/* Send the start, and in the same packet the commands that the machine finds when it has woken. */
static int begin(struct dz_sandbox *s, struct dz_err *err)
{
    dz_exec_named(s);
    dz_file_op_resume(s); /* file watches must see changes from the machine's first step on */
    deliver_early(s);
    int rc = s->ops->begin(s->cell, err);
    if (rc < 0) {
        dz_file_op_down(s, DZ_ECANCELED, "the sandbox did not start");
        drop_cell(s);
        s->phase = DZ_PHASE_NONE;
        dz_exec_down(s, DZ_EUNAVAIL, "crashed", err ? err->msg : "");
        return rc;
    }
    mark_wake(s, WAKE_SENT);
    if (dz_net_kept(s))
        dz_net_resume(s);
    dz_sandbox_watch_cell(s);
    return 0;
}

/* Record that the cell is starting. A machine has not been sent its start yet. */
static void mark_starting(struct dz_sandbox *s, const struct dz_instance *row, bool go)
{
    s->phase = go ? DZ_PHASE_STARTING : DZ_PHASE_OPENING;
    dz_start_begun(s, go);
    s->lost = false;
    s->served_early = 0;
    s->local = !row->cold_uri[0];
    s->ephemeral = row->ephemeral != 0;
    (void)snprintf(s->owner, sizeof s->owner, "%s", row->owner);
    s->disk_state = row->memory > 0 ? (uint64_t)row->memory : 0;
    s->all->opts.host->limit(s->all->opts.arg, s);
}

static int start_on(struct dz_sandbox *s, const struct dz_instance *row,
                    const struct dz_sandbox_resources *f, bool go, struct dz_err *err)
{
    s->image = f->image;
    s->workdir = f->workdir;
    s->user = f->user;
    s->stop_signal = f->stop_signal;
    s->disk_limit = f->disk_bytes;
    int rc = make_cell(s, row, f, go, err);
    if (rc == 0)
        s->polled = s->ops->fd(s->cell);
    if (rc == 0)
        rc = dz_poll_new(s->all->loop, s->polled, on_cell, s, &s->poll, err);
    if (rc < 0) {
        drop_cell(s);
        return rc;
    }
    mark_starting(s, row, go);
    if (go)
        return begin(s, err);
    dz_timer_after(s->linger, OPEN_MS);
    dz_file_op_resume(s);
    dz_sandbox_watch_cell(s);
    return 0;
}

int dz_sandbox_start_cell(struct dz_sandbox *s, const struct dz_instance *row, bool go,
                          struct dz_err *err)
{
    const struct dz_sandboxes_opts *o = &s->all->opts;
    struct dz_sandbox_resources f = {.machine = go};
    const struct dz_sandbox_config *config;
    assert(!s->cell);
    if (go)
        mark_wake(s, WAKE_ASKED);
    int rc = dz_record_config(s, row, &config, err);
    if (rc == 0)
        rc = o->host->prepare(o->arg, row, config, &f, err);
    if (rc < 0) {
        drop_cell(s);
        return rc;
    }
    rc = start_on(s, row, &f, go, err);
    o->host->started(o->arg,
                     &f); /* even a cell that was held back has received its descriptors by now */
    return rc;
}

/* A send failed: end the cell from the loop, because the caller still uses it. */
static void fail_soon(struct dz_sandbox *s)
{
    dz_loop_post(s->all->loop, &s->fail);
}

void dz_sandbox_promote(struct dz_sandbox *s)
{
    dz_timer_stop(s->linger);
    mark_wake(s, WAKE_ASKED);
    s->phase = DZ_PHASE_STARTING;
    s->lost = false;
    if (s->ops->go(s->cell, &s->fail_why) < 0) {
        fail_soon(s);
        return;
    }
    mark_wake(s, WAKE_SENT);
    dz_net_resume(s);
    dz_file_op_resume(s);
    dz_sandbox_watch_cell(s);
}

void dz_sandbox_stop_cell(struct dz_sandbox *s, bool keep_memory)
{
    dz_timer_stop(s->linger);
    s->phase = DZ_PHASE_STOPPING;
    s->keep_memory = keep_memory;
    if (s->ops->suspend(s->cell, !keep_memory, &s->fail_why) < 0)
        fail_soon(s);
    else
        dz_sandbox_watch_cell(s);
}

void dz_sandbox_cell_kill(struct dz_sandbox *s)
{
    if (!dz_start_unqueue(s) && !s->cell)
        return;
    const bool machine = s->phase != DZ_PHASE_OPENING && s->phase != DZ_PHASE_FILES;
    s->asked = false;
    drop_cell(s);
    s->phase = DZ_PHASE_NONE;
    dz_file_op_down(s, DZ_ECANCELED, "the sandbox was stopped");
    s->all->opts.host->copies_down(s->all->opts.arg, s, DZ_ECANCELED, "the sandbox was stopped");
    dz_exec_down(s, DZ_EGONE, NULL, "the sandbox was stopped");
    if (machine) {
        dz_net_down(s, DZ_EGONE, NULL, "the sandbox was stopped");
        machine_down(s, false);
    }
    dz_sandbox_unneeded(s);
}

void dz_sandbox_files_over(struct dz_sandbox *s)
{
    bool hurry = s->hurry || s->all->draining;
    if (s->phase != DZ_PHASE_FILES || !s->reserved || !dz_list_empty(&s->copies))
        return;
    if (dz_file_op_busy(s)) {
        if (hurry)
            dz_timer_after(s->linger, HURRY_MS);
    } else if (!hurry && !dz_files_awaited(s->all, s->tenant)) {
        dz_timer_after(s->linger, LINGER_MS);
    } else if (dz_list_empty(&s->file_ops)) {
        dz_sandbox_stop_cell(s, true);
    } else {
        dz_file_op_cut(s, false);
    }
}

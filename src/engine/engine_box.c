/* SPDX-License-Identifier: MIT
 *
 * engine_box.c - sandboxes that have a cell: starting it, listening to it, letting
 * it go.
 *
 * A cell's events are taken in turns of TURN, so that one that talks much does not
 * hold the others up. After SUSPENDED the cell is durable and on its way out: it
 * leaves its box at once, so that the sandbox may be started again (the new cell waits
 * for the file's lock), and is kept in `leaving` until it has gone.
 */
#include "engine/engine_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "cell/cell_runtime.h"
#include "cell/cell_users.h"
#include "kernel/kernel.h"

#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    TURN = 64,               /* events of one cell before others have theirs */
    LOCK_WAIT_MS = 10000,    /* for a cell that is on its way out of the same file */
    LEAVE_MS = 5000,         /* a cell that sleeps durably tidies up for so long, and is ended */
    TELL_MS = 1,             /* until the registry is told of a wake */
    OPEN_MS = 30000,         /* a cell that has not opened its file then is ended */
    LINGER_MS = 1000,        /* a file-only cell that nobody uses any more */
    HURRY_MS = 10000,        /* for operations on a file that others wait for */
    CPU_BUSY_PER_MILLE = 10, /* of a core: more is activity */
    FULL_MS = 1500,          /* between two tellings of a full disk; a cell says it each 2 s */
};

/* --- boxes ------------------------------------------------------------------------------ */

struct box *dz_box_find(struct dz_engine *e, const char *id)
{
    return dz_map_get(&e->boxes, dz_str(id));
}

static void cell_failed(struct box *b, int code, const char *text);

static bool is_needed(const struct box *b)
{
    return b->cell || b->reserved || b->start == START_QUEUED || !dz_list_empty(&b->execs) ||
           !dz_list_empty(&b->file_ops) || !dz_list_empty(&b->copies) || !dz_list_empty(&b->parked);
}

static void on_over(void *arg)
{
    struct box *b = arg;
    struct dz_engine *e = b->e;
    if (is_needed(b))
        return;
    (void)dz_map_remove(&e->boxes, dz_str(b->id));
    dz_box_destroy(b);
    dz_engine_drain_look(e);
}

void dz_box_leave(struct box *b)
{
    if (!is_needed(b))
        dz_loop_post(b->e->loop, &b->over);
}

static void on_broken(void *arg)
{
    struct box *b = arg;
    const struct dz_err err = b->broken_why;
    cell_failed(b, err.code, err.msg);
}

static void on_linger(void *arg)
{
    struct box *b = arg;
    if (b->phase == BOX_OPENING) {
        b->ops->kill(b->cell);
        cell_failed(b, DZ_EBUSY, "the cell that was to open the sandbox's file did not do so");
        return;
    }
    if (b->phase != BOX_FILES || !dz_list_empty(&b->copies))
        return;
    if (dz_list_empty(&b->file_ops))
        dz_box_stop(b, true);
    else
        dz_op_cut(b, b->hurry || b->e->draining); /* the end of the last one comes again */
}

struct box *dz_box_get(struct dz_engine *e, const char *id, const char *tenant)
{
    struct box *b = dz_box_find(e, id);
    size_t n = strlen(id) + 1;
    if (b)
        return b;
    b = dz_zalloc(sizeof *b + n);
    if (!b)
        return NULL;
    b->e = e;
    b->ops = &dz_cell_wasm; /* the only kind of guests that there is */
    memcpy(b->id, id, n);
    (void)snprintf(b->tenant, sizeof b->tenant, "%s", tenant);
    dz_list_init(&b->untold);
    dz_list_init(&b->execs);
    dz_list_init(&b->file_ops);
    dz_list_init(&b->copies);
    dz_list_init(&b->parked);
    dz_list_init(&b->start_link);
    dz_loop_task_init(&b->broken, b, on_broken, b);
    dz_loop_task_init(&b->over, b, on_over, b);
    if (dz_timer_new(e->loop, on_linger, b, &b->linger, NULL) < 0 ||
        dz_map_put(&e->boxes, dz_str(b->id), b, NULL) < 0) {
        dz_timer_free(b->linger);
        dz_free(b);
        return NULL;
    }
    return b;
}

static void drop_cell(struct box *b)
{
    dz_start_over(b);
    dz_wake_over(b);
    dz_loop_task_cancel(&b->broken);
    dz_list_remove(&b->untold);
    b->has_active = false;
    dz_use_cold(b);
    b->disk_left = 0;
    dz_poll_free(b->poll);
    b->ops->free(b->cell);
    dz_engine_image_put(b->e, b->image);
    b->poll = NULL;
    b->cell = NULL;
    b->image = NULL;
}

void dz_box_destroy(struct box *b)
{
    (void)dz_start_unqueue(b);
    drop_cell(b);
    dz_loop_task_cancel(&b->over);
    dz_copies_free(b);
    dz_timer_free(b->linger);
    dz_free(b);
}

/* The keeper may go on with the sandbox. */
static void unreserve(struct box *b)
{
    if (!b->reserved)
        return;
    b->reserved = false;
    dz_keeper_unreserve(b->e->keeper, b->id);
}

/* --- cells on their way out ------------------------------------------------------------------ */

static void leaving_free(struct leaving *l)
{
    struct dz_engine *e = l->e;
    dz_list_remove(&l->link);
    dz_timer_free(l->late);
    dz_poll_free(l->poll);
    l->ops->free(l->cell);
    dz_engine_image_put(e, l->image);
    dz_free(l);
}

void dz_leaving_free_all(struct dz_engine *e)
{
    while (!dz_list_empty(&e->leaving)) {
        struct leaving *l = DZ_LIST_FIRST(struct leaving, &e->leaving, link);
        l->ops->kill(l->cell); /* its time is over, and it must not be waited for */
        leaving_free(l);
    }
}

/* It said that it sleeps, and is still there: it has been taken over, or its disk is stuck. */
static void on_late(void *arg)
{
    struct leaving *l = arg;
    struct dz_engine *e = l->e;
    dz_log(DZ_LOG_WARN, "cell_ended", dz_log_int("pid", l->ops->pid(l->cell)),
           dz_log_strz("why", "it slept, and did not go"));
    l->ops->kill(l->cell);
    leaving_free(l);
    dz_engine_drain_look(e);
}

/* A cell is polled by another descriptor when it is dying. Without memory for that the old one
 * goes on: the loop then goes round until the process has ended. */
static void poll_again(struct dz_engine *e, struct dz_poll **poll, int *polled, int fd,
                       void (*fn)(void *arg, int events), void *arg)
{
    struct dz_poll *now;
    if (fd == *polled || dz_poll_new(e->loop, fd, fn, arg, &now, NULL) < 0)
        return;
    dz_poll_free(*poll);
    *poll = now;
    *polled = fd;
}

static void on_leaving(void *arg, int events)
{
    struct leaving *l = arg;
    struct dz_engine *e = l->e;
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
        poll_again(e, &l->poll, &l->polled, l->ops->fd(l->cell), on_leaving, l);
        if (dz_poll_set(l->poll, DZ_POLL_READ, NULL) < 0) /* on_late() comes in any case */
            dz_log(DZ_LOG_WARN, "poll_failed", dz_log_int("pid", l->ops->pid(l->cell)));
        return;
    }
    leaving_free(l);
    dz_engine_drain_look(e);
}

/* The box lets its cell go. Short of memory, wait here. */
static void let_go(struct box *b)
{
    struct leaving *l = dz_zalloc(sizeof *l);
    struct dz_engine *e = b->e;
    dz_start_over(b);
    dz_wake_over(b);
    dz_loop_task_cancel(&b->broken);
    if (!l) {
        drop_cell(b);
        return;
    }
    *l = (struct leaving){.e = e, .ops = b->ops, .cell = b->cell, .image = b->image};
    dz_list_init(&l->link);
    dz_poll_free(b->poll);
    b->poll = NULL;
    l->polled = l->ops->fd(l->cell);
    if (dz_poll_new(e->loop, l->polled, on_leaving, l, &l->poll, NULL) < 0 ||
        dz_poll_set(l->poll, DZ_POLL_READ, NULL) < 0 ||
        dz_timer_new(e->loop, on_late, l, &l->late, NULL) < 0) {
        dz_poll_free(l->poll);
        dz_free(l);
        drop_cell(b);
        return;
    }
    dz_timer_after(l->late, LEAVE_MS);
    dz_list_push_back(&e->leaving, &l->link);
    dz_use_cold(b);
    b->disk_left = 0;
    b->cell = NULL;
    b->image = NULL;
}

/* --- the end of a cell ------------------------------------------------------------------------ */

static void tell_keeper(struct box *b, const struct dz_keeper_cell *how)
{
    uint64_t ticket = b->ticket;
    b->ticket = 0;
    if (ticket)
        dz_keeper_cell_done(b->e->keeper, ticket, how);
}

int dz_engine_cell_code(int code)
{
    return code == DZ_EIO ? DZ_EDIED : code;
}

static void note(const struct box *b, const char *what, const char *text)
{
    const struct dz_registry_event event = {
        .sandbox_id = b->id, .tenant = b->tenant, .what = what, .detail = text};
    struct dz_err err;
    int64_t seq;
    if (dz_registry_note(b->e->registry, &event, &seq, &err) < 0)
        dz_log(DZ_LOG_WARN, "event_lost", dz_log_strz("what", what), dz_log_err(&err));
}

/* The cell died or could not open its file. */
static void cell_failed(struct box *b, int code, const char *text)
{
    const struct dz_keeper_cell how = {.code = code, .error = text};
    enum box_phase was = b->phase;
    bool files = b->reserved; /* an answer below may reserve it anew, for another cell */
    if (b->cell && b->ops->out_of_memory(b->cell))
        note(b, "memory_exceeded", text);
    drop_cell(b);
    b->phase = BOX_NONE;
    b->e->counts.crashes += was == BOX_UP || was == BOX_STOPPING;
    dz_log(DZ_LOG_WARN, "cell_failed", dz_log_strz("sandbox_id", b->id),
           dz_log_strz("error", text));
    dz_op_down(b, dz_engine_cell_code(code), text);
    dz_copy_down(b, dz_engine_cell_code(code), text);
    dz_exec_down(b, was == BOX_OPENING || was == BOX_FILES ? 0 : DZ_EUNAVAIL, "crashed", text);
    bool told = b->ticket != 0;
    tell_keeper(b, &how);
    if (!told && was == BOX_UP)
        dz_keeper_cell_died(b->e->keeper, b->id, text);
    if (files)
        unreserve(b);
    dz_box_leave(b);
}

/* It sleeps, durably. */
static void cell_sleeps(struct box *b, uint64_t wake_at_ns, bool busy)
{
    bool files = b->reserved; /* as in cell_failed() */
    const struct dz_keeper_cell how = {
        .wake_at = wake_at_ns >= INT64_MAX || files ? 0 : (int64_t)(wake_at_ns / 1000000),
        .busy = busy && !files};
    dz_exec_asleep(b);
    let_go(b);
    b->phase = BOX_NONE;
    b->e->counts.suspends += !files;
    dz_op_down(b, DZ_ECANCELED, "the sandbox was suspended");
    dz_copy_down(b, DZ_ECANCELED, "the sandbox was suspended");
    if (!files)
        dz_exec_down(b, b->keep_memory ? 0 : DZ_EUNAVAIL, "asleep",
                     "the sandbox was suspended without its memory");
    bool told = b->ticket != 0;
    tell_keeper(b, &how);
    if (!told && !files)
        dz_keeper_cell_died(b->e->keeper, b->id, NULL); /* it went to sleep by itself */
    if (files)
        unreserve(b);
    dz_box_leave(b);
}

/* It could not be put to sleep and goes on. */
static void cell_goes_on(struct box *b, int code, const char *text)
{
    const struct dz_keeper_cell how = {.code = code, .error = text, .alive = true};
    b->phase = b->reserved ? BOX_FILES : BOX_UP;
    if (b->phase == BOX_UP)
        dz_op_resume(b);
    tell_keeper(b, &how);
}

/* --- events ---------------------------------------------------------------------------------- */

static void on_activity(struct box *b, const struct dz_cell_event *event)
{
    int64_t now = dz_clock_mono_ns(), cpu = event->cpu_ns, since = now - b->cpu_at;
    bool busy = b->cpu_at && since > 0 && cpu - b->cpu_ns > since / 1000 * CPU_BUSY_PER_MILLE;
    b->cpu_ns = cpu;
    b->cpu_at = now;
    if (busy)
        dz_keeper_touch(b->e->keeper, b->id, DZ_ACTIVITY_GUEST_CPU);
    int64_t until = event->wake_at == INT64_MAX ? 0 : event->wake_at / DZ_NS_PER_MS;
    dz_keeper_guest_sleeps(b->e->keeper, b->id, until);
}

/* The keeper writes it down, and answers who asked for the wake. */
static void tell_up(struct box *b)
{
    const struct dz_keeper_cell how = {.memory_lost = b->lost};
    const struct dz_cell *c = b->cell;
    const struct dz_cell_event active = b->active;
    bool has_active = b->has_active;
    dz_list_remove(&b->untold);
    b->has_active = false;
    tell_keeper(b, &how);
    dz_wake_step(b, WAKE_WRITTEN);
    dz_exec_connected(b);
    if (has_active && b->cell == c)
        on_activity(b, &active);
}

/* Nothing that it does can be committed. Put it to sleep, on the reserve if need be: with its
 * memory on the disk it needs nothing any more. Its clients are told at once. */
static void cell_full(struct box *b, const char *text)
{
    static const char told[] =
        "the disk is full: the sandbox is being suspended with its memory; free "
        "space, and the next request wakes it";
    const struct dz_keeper_request r = {.what = DZ_REQUEST_SUSPEND, .id = b->id};
    struct dz_err err;
    int64_t now = dz_clock_boot_ns();
    if (b->full_at && now - b->full_at < FULL_MS * DZ_NS_PER_MS) {
        b->full_more++;
        return;
    }
    dz_log(DZ_LOG_WARN, "cell_full", dz_log_strz("sandbox_id", b->id), dz_log_strz("error", text),
           dz_log_uint("untold", b->full_more));
    b->full_at = now;
    b->full_more = 0;
    note(b, "disk_full", text);
    dz_op_down(b, DZ_ENOSPC, told);
    dz_copy_down(b, DZ_ENOSPC, told);
    dz_exec_down(b, DZ_ENOSPC, NULL, told);
    if (b->phase == BOX_UP && dz_keeper_submit(b->e->keeper, &r, NULL, &err) < 0)
        dz_log(DZ_LOG_WARN, "suspend_refused", dz_log_strz("sandbox_id", b->id), dz_log_err(&err));
}

/* Not of one that comes from cold storage: what its guest says must not be told before that is
 * on the disk. Nor while others stand in line: who is behind them must not be served before them,
 * and once more in his turn. */
static void give_early(struct box *b)
{
    if (b->local && !b->lost && !dz_keeper_awaited(b->e->keeper, b->id))
        b->served += dz_jobs_early(b);
}

/* What came with the news of a wake is handed on first, where there is no cold copy that the
 * registry must forget before: nobody waits for it to write. A daemon that is killed in between
 * leaves a row that knows of no wake, and a cell that puts its machine to sleep. */
static void on_up(struct box *b)
{
    b->phase = BOX_UP;
    dz_wake_step(b, WAKE_UP);
    dz_start_over(b);
    b->cpu_at = 0;
    dz_log(DZ_LOG_DEBUG, "cell_up", dz_log_strz("sandbox_id", b->id),
           dz_log_int("pid", b->ops->pid(b->cell)));
    if (b->lost)
        dz_exec_lost(b);
    dz_exec_up(b);
    give_early(b);
    if (!b->local || b->lost) {
        tell_up(b);
        return;
    }
    dz_list_push_back(&b->e->untold, &b->untold);
}

/* Behind the answers that were given just now; and where nobody waits for it, when the clients have
 * had their turn, too. */
static void tell_soon(const struct box *b)
{
    struct dz_engine *e = b->e;
    if (dz_keeper_waiters(e->keeper, b->id) > b->served) {
        dz_timer_after(e->tell, 0);
    } else if (!e->tell_set) {
        dz_timer_after(e->tell, TELL_MS);
    }
    e->tell_set = true;
}

bool dz_box_tell(struct dz_engine *e, const char *id)
{
    struct box *b = dz_box_find(e, id);
    if (!b || dz_list_empty(&b->untold) || b->in_turn)
        return false;
    tell_up(b);
    dz_box_leave(b);
    return true;
}

void dz_boxes_tell(void *engine)
{
    struct dz_engine *e = engine;
    e->tell_set = false;
    while (!dz_list_empty(&e->untold)) {
        struct box *b = DZ_LIST_FIRST(struct box, &e->untold, untold);
        tell_up(b);
        dz_box_leave(b);
    }
}

/* Is this event one of those that may be handed on before the keeper knows of the wake? */
static bool may_precede(const struct box *b, enum dz_cell_event_type type)
{
    return type == DZ_CELL_STARTED || type == DZ_CELL_OUTPUT || type == DZ_CELL_WINDOW_OPEN ||
           type == DZ_CELL_EXEC_FAILED || (type == DZ_CELL_EXITED && !b->ephemeral);
}

static void on_ready(struct box *b)
{
    if (b->phase != BOX_OPENING)
        return;
    b->phase = BOX_FILES;
    dz_timer_stop(b->linger);
    dz_start_over(b);
    dz_box_files_over(b);
}

/* What it says happened was not asked for: it is not to be believed in anything. */
static bool unasked(struct box *b)
{
    b->ops->kill(b->cell); /* also if it said that it was on its way out */
    cell_failed(b, DZ_EIO, "the cell sent an invalid frame and was killed");
    return false;
}

void dz_box_end(struct box *b, int code, const char *what, const char *text)
{
    note(b, what, text);
    b->ops->kill(b->cell);
    cell_failed(b, code, text);
}

/* False: the box has no such cell any more. */
static bool take_event(struct box *b, const struct dz_cell_event *event)
{
    const struct dz_cell *c = b->cell;
    if (event->type == DZ_CELL_NOTHING)
        return true;
    if (!dz_list_empty(&b->untold) && event->type == DZ_CELL_ACTIVITY) {
        b->active = *event;
        b->has_active = true;
        return true;
    }
    if (!dz_list_empty(&b->untold) && !may_precede(b, event->type)) {
        tell_up(b);
        if (b->cell != c)
            return false;
    }
    switch (event->type) {
    case DZ_CELL_NOTHING:
        break;
    case DZ_CELL_READY:
        on_ready(b);
        break;
    case DZ_CELL_LOST:
        b->lost = true;
        break;
    case DZ_CELL_UP:
        if (b->phase != BOX_STARTING)
            return unasked(b);
        on_up(b);
        break;
    case DZ_CELL_LIVE:
    case DZ_CELL_STARTED:
    case DZ_CELL_OUTPUT:
    case DZ_CELL_WINDOW_OPEN:
    case DZ_CELL_EXITED:
    case DZ_CELL_EXEC_FAILED:
        dz_exec_event(b, event);
        if (event->type == DZ_CELL_OUTPUT || event->type == DZ_CELL_EXITED)
            dz_wake_step(b, WAKE_TOLD);
        break;
    case DZ_CELL_OP_DATA:
    case DZ_CELL_OP_WINDOW_OPEN:
    case DZ_CELL_OP_DONE:
        dz_op_event(b, event);
        break;
    case DZ_CELL_COPIED:
        if (!dz_copy_event(b, event))
            return unasked(b);
        break;
    case DZ_CELL_ENDED: /* of a cell that runs one command only */
        return unasked(b);
    case DZ_CELL_ACTIVITY:
        on_activity(b, event);
        break;
    case DZ_CELL_SUSPENDED: /* asked to, or by itself */
        if (b->phase != BOX_STOPPING && b->phase != BOX_UP)
            return unasked(b);
        cell_sleeps(b, event->count, event->busy);
        return false;
    case DZ_CELL_FULL:
        cell_full(b, event->text);
        break;
    case DZ_CELL_AWAKE:
        if (b->phase != BOX_STOPPING)
            return unasked(b);
        cell_goes_on(b, event->code, event->text);
        break;
    case DZ_CELL_FAILED:
        cell_failed(b, event->code, event->text);
        return false;
    case DZ_CELL_GONE:
        cell_failed(b, DZ_EIO, "the cell went away");
        return false;
    }
    return b->cell == c;
}

/* Who was told that the cell takes nothing has its turn when the socket has taken what waited: the
 * cell itself says nothing then, for its windows were open all the time. */
static void flush(struct box *b)
{
    if (b->ops->flush(b->cell, NULL) < 0 || b->ops->want(b->cell) & POLLOUT)
        return; /* an error: receive says why */
    dz_op_room(b);
    dz_exec_room(b);
}

static void on_cell(void *arg, int events)
{
    struct box *b = arg;
    struct dz_err err = {0};
    bool here = true;
    b->in_turn = true;
    if (events & DZ_POLL_WRITE)
        flush(b);
    for (int i = 0; here && (i < TURN || b->ops->pending(b->cell)); i++) {
        struct dz_cell_event event;
        int rc = b->ops->receive(b->cell, &event, &err);
        if (rc == 0)
            break;
        if (rc < 0)
            cell_failed(b, rc, err.msg);
        here = rc > 0 && take_event(b, &event);
    }
    if (here)
        dz_box_watch(b);
    if (!dz_list_empty(&b->untold))
        tell_soon(b);
    b->in_turn = false;
    dz_box_leave(b);
}

void dz_box_watch(struct box *b)
{
    if (!b->poll)
        return;
    poll_again(b->e, &b->poll, &b->polled, b->ops->fd(b->cell), on_cell, b);
    short want = b->ops->want(b->cell);
    int events = (want & POLLIN ? DZ_POLL_READ : 0) | (want & POLLOUT ? DZ_POLL_WRITE : 0);
    if (dz_poll_set(b->poll, events, NULL) < 0)
        dz_log(DZ_LOG_WARN, "poll_failed", dz_log_strz("sandbox_id", b->id));
}

/* --- starting ----------------------------------------------------------------------------------
 */

struct opened {
    int disk_fd, wal_fd;
    struct dz_engine_config config;
    char **env;
};

static void opened_release(struct opened *o)
{
    dz_fd_close(&o->disk_fd);
    dz_fd_close(&o->wal_fd);
    dz_engine_config_release(&o->config);
    dz_free(o->env);
}

static bool is_strict(const struct opened *o)
{
    return o->config.durability && strcmp(o->config.durability, "strict") == 0;
}

/* A log that is new must have its name on the disk before a commit in it counts. The wait for
 * that is short, and comes once in the life of a log. */
static int open_log(const struct box *b, const char *path, struct opened *o, struct dz_err *err)
{
    bool known = access(path, F_OK) == 0;
    o->wal_fd = dz_fd_open(AT_FDCWD, path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600, err);
    if (o->wal_fd < 0 || known || !is_strict(o))
        return o->wal_fd < 0 ? o->wal_fd : 0;
    return dz_fd_sync_dir(AT_FDCWD, b->e->live_path, err);
}

static int open_files(const struct box *b, struct opened *o, struct dz_err *err)
{
    char path[DZ_PATH_MAX], key[DZ_COLD_KEY];
    int n = snprintf(path, sizeof path, "%s/%s-wal", b->e->live_path,
                     dz_cold_key(b->id, DZ_COLD_LIVE, key));
    if (n < 0 || n >= DZ_PATH_MAX)
        return dz_fail(err, DZ_ELIMIT, "the path of %s's file is too long", b->id);
    int rc = open_log(b, path, o, err);
    path[n - 4] = '\0';
    if (rc == 0)
        rc = o->disk_fd = dz_fd_open(AT_FDCWD, path, O_RDWR | O_NOFOLLOW, 0, err);
    return rc < 0 ? rc : 0;
}

/* Whom a cell of this tenant becomes. */
static int user_of(struct box *b, uint32_t *ret_user, struct dz_err *err)
{
    int64_t most = dz_cell_users_tenants(), number = 0;
    if (most == INT64_MAX) {
        *ret_user = DZ_USER_NONE;
        return 0;
    }
    int rc = dz_registry_number(b->e->registry, b->tenant, most, &number, err);
    if (rc < 0)
        return dz_wrap(err, rc, "start a cell as its tenant's user (setting cells.uids)");
    *ret_user = dz_cell_user_of_tenant(number);
    return 0;
}

static int make_cell(struct box *b, const struct dz_instance *row, const struct opened *o, bool go,
                     struct dz_err *err)
{
    struct dz_cell_sleeper sleepers[DZ_CELL_EXECS_MAX];
    uint32_t user;
    int rc = user_of(b, &user, err);
    if (rc < 0)
        return rc;
    const struct dz_image *info = b->image ? &b->image->info : NULL;
    const char *policy = o->config.policy       ? o->config.policy
                         : info && info->policy ? info->policy
                                                : "posix";
    const struct dz_cell_start start = {
        .disk_fd = o->disk_fd,
        .wal_fd = o->wal_fd,
        .image_fd = b->image ? b->image->fd : -1,
        .image_sha256 = info ? info->sha256 : NULL,
        .module_fds = b->image ? b->image->module_fds : NULL,
        .module_count = b->image ? b->image->module_count : 0,
        .env = (const char *const *)o->env,
        .policy = dz_policy_find(policy),
        .memory_bytes = o->config.memory_bytes ? o->config.memory_bytes
                        : info                 ? info->memory_bytes
                                               : 0,
        .fresh = row->generation == 0 && b->image && row->image[0],
        .many = true,
        .hold = go,
        .go = go,
        .sleepers = sleepers,
        .sleeper_count = go ? dz_exec_sleepers(b, sleepers, DZ_ARRAY_LEN(sleepers)) : 0,
        .drop_memory = go && b->drop_memory,
        .strict = is_strict(o),
        .lock_wait_ms = LOCK_WAIT_MS,
        .label = b->id,
        .settle_as = user,
    };
    rc = b->ops->start(b->e->pool, &start, &b->cell, err);
    b->born = ++b->e->cells_born;
    dz_engine_pool_used(b->e);
    return rc;
}

/* The start, and with it all that is there for the machine when it has woken. */
static int begin(struct box *b, struct dz_err *err)
{
    dz_exec_named(b);
    dz_op_resume(b); /* it sees what the machine changes from its first step on */
    give_early(b);
    int rc = b->ops->begin(b->cell, err);
    if (rc < 0) {
        dz_op_down(b, DZ_ECANCELED, "the sandbox did not start");
        drop_cell(b);
        b->phase = BOX_NONE;
        dz_exec_down(b, DZ_EUNAVAIL, "crashed", err ? err->msg : "");
        return rc;
    }
    dz_wake_step(b, WAKE_SENT);
    dz_box_watch(b);
    return 0;
}

int dz_box_start(struct box *b, const struct dz_instance *row, bool go, struct dz_err *err)
{
    DZ_AUTO(opened_release) struct opened o = {.disk_fd = -1, .wal_fd = -1};
    assert(!b->cell);
    if (go)
        dz_wake_step(b, WAKE_ASKED);
    int rc = dz_engine_config_of(row, &o.config, err);
    if (rc == 0 && row->image[0])
        rc = dz_engine_image_get(b->e, row->image, &b->image, err);
    if (rc == 0)
        rc = dz_engine_env_of(o.config.env, b->image ? &b->image->info : NULL, &o.env, err);
    if (rc == 0)
        rc = open_files(b, &o, err);
    if (rc == 0)
        rc = make_cell(b, row, &o, go, err);
    if (rc == 0)
        b->polled = b->ops->fd(b->cell);
    if (rc == 0)
        rc = dz_poll_new(b->e->loop, b->polled, on_cell, b, &b->poll, err);
    if (rc < 0) {
        drop_cell(b);
        return rc;
    }
    b->phase = go ? BOX_STARTING : BOX_OPENING;
    dz_start_begun(b, go);
    b->lost = false;
    b->served = 0;
    b->local = !row->cold_uri[0];
    b->ephemeral = row->ephemeral != 0;
    (void)snprintf(b->owner, sizeof b->owner, "%s", row->owner);
    b->disk_limit = o.config.disk_bytes;
    b->disk_state = row->memory > 0 ? (uint64_t)row->memory : 0;
    dz_space_tell(b);
    dz_use_tell_disk(b);
    if (go)
        return begin(b, err);
    dz_timer_after(b->linger, OPEN_MS);
    dz_op_resume(b);
    dz_box_watch(b);
    return 0;
}

/* The keeper asks, and hears of its end from the loop alone. */
static void fail_soon(struct box *b)
{
    dz_loop_post(b->e->loop, &b->broken);
}

void dz_box_promote(struct box *b)
{
    dz_timer_stop(b->linger);
    dz_wake_step(b, WAKE_ASKED);
    b->phase = BOX_STARTING;
    b->lost = false;
    if (b->ops->go(b->cell, &b->broken_why) < 0) {
        fail_soon(b);
        return;
    }
    dz_wake_step(b, WAKE_SENT);
    dz_op_resume(b);
    dz_box_watch(b);
}

void dz_box_stop(struct box *b, bool keep_memory)
{
    dz_timer_stop(b->linger);
    b->phase = BOX_STOPPING;
    b->keep_memory = keep_memory;
    if (b->ops->suspend(b->cell, !keep_memory, &b->broken_why) < 0)
        fail_soon(b);
    else
        dz_box_watch(b);
}

void dz_box_kill(struct box *b)
{
    b->ticket = 0;
    drop_cell(b);
    b->phase = BOX_NONE;
    dz_op_down(b, DZ_ECANCELED, "the sandbox was stopped");
    dz_copy_down(b, DZ_ECANCELED, "the sandbox was stopped");
    dz_exec_down(b, DZ_EGONE, NULL, "the sandbox was stopped");
    dz_box_leave(b);
}

void dz_box_files_over(struct box *b)
{
    bool hurry = b->hurry || b->e->draining;
    if (b->phase != BOX_FILES || !b->reserved || !dz_list_empty(&b->copies))
        return;
    if (dz_op_busy(b)) {
        if (hurry)
            dz_timer_after(b->linger, HURRY_MS);
    } else if (!hurry && !dz_files_awaited(b->e, b->tenant)) {
        dz_timer_after(b->linger, LINGER_MS);
    } else if (dz_list_empty(&b->file_ops)) {
        dz_box_stop(b, true);
    } else {
        dz_op_cut(b, false);
    }
}

/* SPDX-License-Identifier: MIT
 *
 * sandbox.c - all sandboxes: making and freeing, the drain, and what operations ask of cells.
 */
#include "sandbox/sandbox_int.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

/* --- one ------------------------------------------------------------------------------------ */

struct dz_sandbox *dz_sandbox_find(struct dz_sandboxes *all, const char *id)
{
    return dz_map_get(&all->map, dz_str(id));
}

static void on_turn(void *sandbox)
{
    dz_sandbox_turn(sandbox);
}

static void destroy(struct dz_sandbox *s)
{
    (void)dz_map_remove(&s->all->map, dz_str(s->id));
    dz_sandbox_drop_all(s);
    dz_loop_task_cancel(&s->turn);
    dz_free(s->died_of);
    dz_free(s);
}

static struct dz_sandbox *make(struct dz_sandboxes *all, const char *id)
{
    size_t n = strlen(id) + 1;
    struct dz_sandbox *s = dz_zalloc(sizeof *s + n);
    if (!s)
        return NULL;
    s->all = all;
    memcpy(s->id, id, n);
    dz_list_init(&s->waiting);
    dz_loop_task_init(&s->turn, s, on_turn, s);
    if (dz_sandbox_init_cell(s) == 0 && dz_map_put(&all->map, dz_str(s->id), s, NULL) == 0)
        return s;
    dz_timer_free(s->linger);
    dz_free(s);
    return NULL;
}

struct dz_sandbox *dz_sandbox_get(struct dz_sandboxes *all, const char *id, const char *tenant)
{
    struct dz_sandbox *s = dz_sandbox_find(all, id);
    if (!s) {
        s = make(all, id);
        if (!s)
            return NULL;
        dz_sandbox_turn_soon(s);
    }
    if (tenant && !s->tenant[0])
        (void)snprintf(s->tenant, sizeof s->tenant, "%s", tenant);
    return s;
}

static bool is_needed(const struct dz_sandbox *s)
{
    return s->op || s->warm || s->taken || !dz_list_empty(&s->waiting) || s->cell || s->reserved ||
           s->start == DZ_START_QUEUED || !dz_list_empty(&s->execs) ||
           !dz_list_empty(&s->file_ops) || !dz_list_empty(&s->copies) || !dz_list_empty(&s->parked);
}

void dz_sandbox_unneeded(struct dz_sandbox *s)
{
    if (!is_needed(s))
        dz_sandbox_turn_soon(s);
}

void dz_sandbox_end(struct dz_sandbox *s)
{
    struct dz_sandboxes *all = s->all;
    if (is_needed(s))
        return;
    destroy(s);
    dz_sandboxes_drain_look(all);
}

/* --- what operations ask of cells ---------------------------------------------------------------
 */

/* A cell that had only the file may still be on its way down, for whom it was to become the machine
 * for has left: nothing of it is waited for, and what was committed is in the file. Any other that
 * is here has no right to be. A cell that has only the file cannot give up the memory in it: then
 * another cell starts, and the operations that have not moved anything begin again there. */
static void take_over(struct dz_sandbox *s, bool keep_memory)
{
    if (!s->cell || (keep_memory && (s->phase == DZ_PHASE_FILES || s->phase == DZ_PHASE_OPENING)))
        return;
    dz_sandbox_kill_cell(s);
}

static int start(struct dz_sandbox *s, const struct dz_sandbox_call *call, struct dz_err *err)
{
    struct dz_sandboxes *all = s->all;
    struct dz_why why = {0};
    take_over(s, call->keep_memory);
    s->drop_memory = !call->keep_memory;
    if (all->draining)
        return dz_fail(err, DZ_EBUSY, "start %s: the daemon is stopping", s->id);
    if (all->opts.host->warm(all->opts.arg, s, call->row, &why) < 0) {
        *err = why.err;
        return err->code;
    }
    if (s->phase == DZ_PHASE_FILES || s->phase == DZ_PHASE_OPENING) {
        dz_sandbox_promote(s); /* the cell that has its files becomes the machine's */
        return 0;
    }
    return dz_start_may(all, true) ? dz_sandbox_start_cell(s, call->row, true, err)
                                   : dz_start_queue(s, err);
}

static int cell_start(void *arg, const struct dz_sandbox_call *call, struct dz_err *err)
{
    struct dz_sandbox *s = dz_sandbox_get(arg, call->row->id, call->row->tenant);
    if (!s)
        return dz_fail(err, DZ_ENOMEM, "start %s: out of memory", call->row->id);
    int rc = start(s, call, err);
    if (rc == 0) {
        s->ticket = call->ticket;
        return 0;
    }
    s->all->opts.host->cold(s->all->opts.arg, s);
    dz_sandbox_unneeded(s);
    return rc;
}

void dz_sandbox_start_turn(struct dz_sandbox *s)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_sandboxes *all = s->all;
    uint64_t ticket = s->ticket;
    struct dz_err err = {0};
    int rc = all->draining ? dz_fail(&err, DZ_EBUSY, "start %s: the daemon is stopping", s->id)
                           : dz_registry_get(all->registry, s->id, &row, &err);
    if (rc == 0)
        rc = dz_sandbox_start_cell(s, &row, true, &err);
    if (rc < 0) {
        const struct dz_sandbox_cell_end how = {.code = rc, .error = err.msg};
        s->ticket = 0;
        s->all->opts.host->cold(s->all->opts.arg, s);
        dz_sandbox_cell_done(all, ticket, &how);
    }
    dz_sandbox_unneeded(s);
}

static int cell_stop(void *arg, const struct dz_sandbox_call *call, struct dz_err *err)
{
    struct dz_sandbox *s = dz_sandbox_find(arg, call->row->id);
    if (!s || s->phase != DZ_PHASE_UP)
        return dz_fail(err, DZ_EIO, "stop %s: it has no cell", call->row->id);
    s->ticket = call->ticket;
    dz_sandbox_stop_cell(s, call->keep_memory);
    return 0;
}

static void cell_kill(void *arg, const char *id)
{
    struct dz_sandbox *s = dz_sandbox_find(arg, id);
    if (s && (dz_start_unqueue(s) || s->cell))
        dz_sandbox_kill_cell(s);
}

static void cell_awaited(void *arg, const char *id)
{
    /* The wake stands in line. Until its turn comes another request may begin, so the sandbox is
     * not given back before its cell has ended. */
    dz_job_make_way(arg, id, DZ_REQUEST_SUSPEND);
}

static void cell_idle(void *arg, const struct dz_instance *row, struct dz_sandbox_idle *ret_idle)
{
    DZ_AUTO(dz_sandbox_config_release) struct dz_sandbox_config c = {0};
    (void)arg;
    if (dz_sandbox_config_of(row, &c, NULL) < 0)
        return;
    *ret_idle = (struct dz_sandbox_idle){
        .silence_ms = c.silence_ms,
        .ignore_cpu = c.ignore_cpu,
        .stays = !c.auto_resume, /* who asks next would be refused */
    };
}

static void cell_timed(void *arg, const struct dz_sandbox_timing *timing)
{
    struct dz_sandboxes *all = arg;
    bool archived = strcmp(timing->operation, "archive") == 0 && timing->code == 0;
    struct dz_sandbox *s = archived ? dz_sandbox_find(all, timing->id) : NULL;
    all->opts.host->timed(all->opts.arg, timing);
    if (!s)
        return;
    dz_exec_archived(s);
    dz_sandbox_unneeded(s);
}

static void cell_counted(void *arg, const struct dz_instance *row, int by)
{
    struct dz_sandboxes *all = arg;
    struct dz_sandbox *s = by < 0 ? dz_sandbox_find(all, row->id) : NULL;
    all->opts.host->counted(all->opts.arg, row, by);
    if (!s)
        return;
    dz_file_op_gone(s);
    dz_exec_down(s, DZ_EGONE, NULL, "the sandbox was deleted"); /* commands that slept in it */
    dz_sandbox_unneeded(s);
}

static void cell_quiet(void *arg)
{
    dz_sandboxes_drain_look(arg);
}

static const struct dz_sandbox_driver cells = {
    .start = cell_start,
    .stop = cell_stop,
    .kill = cell_kill,
    .awaited = cell_awaited,
    .idle = cell_idle,
    .counted = cell_counted,
    .timed = cell_timed,
    .quiet = cell_quiet,
};

/* --- looking at them ------------------------------------------------------------------------ */

bool dz_sandboxes_draining(const struct dz_sandboxes *all)
{
    return all->draining;
}

const struct dz_map *dz_sandboxes_map(const struct dz_sandboxes *all)
{
    return &all->map;
}

int dz_sandboxes_each_warm(const struct dz_sandboxes *all,
                           int (*fn)(void *arg, const struct dz_sandbox_warm *warm), void *arg)
{
    int rc = 0;
    DZ_MAP_FOREACH(it, &all->map) {
        struct dz_sandbox *s = it->value;
        const struct dz_sandbox_warm w = {
            .id = s->id,
            .tenant = s->tenant,
            .pid = s->cell ? s->ops->pid(s->cell) : 0,
            .commands = dz_list_count(&s->execs),
        };
        if (s->phase != DZ_PHASE_UP || rc != 0)
            continue;
        s->in_turn = true;
        rc = fn(arg, &w);
        s->in_turn = false;
    }
    return rc;
}

void dz_sandboxes_count(const struct dz_sandboxes *all, struct dz_sandbox_counts *ret_counts)
{
    *ret_counts = all->counts;
    DZ_MAP_FOREACH(it, &all->map)
        ret_counts->warm += ((const struct dz_sandbox *)it->value)->phase == DZ_PHASE_UP;
}

/* --- the drain ------------------------------------------------------------------------------ */

static size_t cells_left(const struct dz_sandboxes *all)
{
    size_t n = dz_list_count(&all->leaving);
    DZ_MAP_FOREACH(it, &all->map)
        n += ((const struct dz_sandbox *)it->value)->cell != NULL;
    return n;
}

void dz_sandboxes_drain_look(struct dz_sandboxes *all)
{
    if (all->drained && dz_sandboxes_busy(all) == 0 && cells_left(all) == 0)
        dz_timer_after(all->drain_timer, 0); /* not from inside of what ended */
}

static void on_drain_timer(void *arg)
{
    struct dz_sandboxes *all = arg;
    void (*drained)(void *arg, size_t left) = all->drained;
    all->drained = NULL;
    if (drained)
        drained(all->drained_arg, cells_left(all));
}

static void drain_one(struct dz_sandbox *s)
{
    const struct dz_sandbox_request r = {.what =
                                             s->ephemeral ? DZ_REQUEST_DESTROY : DZ_REQUEST_SUSPEND,
                                         .id = s->id,
                                         .goes_on = true};
    if (s->reserved)
        dz_sandbox_files_over(s);
    else if ((s->phase == DZ_PHASE_UP || s->phase == DZ_PHASE_STARTING) &&
             dz_sandbox_submit(s->all, &r, NULL, NULL) < 0)
        dz_log(DZ_LOG_WARN, "suspend_refused", dz_log_strz("sandbox_id", s->id));
}

void dz_sandboxes_drain(struct dz_sandboxes *all, int64_t deadline_ms,
                        void (*done)(void *arg, size_t left), void *arg)
{
    DZ_VEC(, struct dz_sandbox *) each = DZ_VEC_INIT(DZ_SANDBOX_SANDBOXES_MAX);
    all->draining = true;
    all->drained = done;
    all->drained_arg = arg;
    dz_timer_after(all->drain_timer, deadline_ms);
    DZ_MAP_FOREACH(it, &all->map)
        (void)dz_vec_push(&each, it->value);
    for (size_t i = 0; i < each.n; i++)
        drain_one(each.p[i]);
    dz_starts_drain(all);
    dz_files_room(all); /* it refuses all that wait */
    dz_vec_release(&each);
    dz_sandboxes_drain_look(all);
}

/* --- making and freeing --------------------------------------------------------------------- */

static void on_tell(void *arg)
{
    dz_sandboxes_tell(arg);
}

static int copy_text(const char *from, char **to)
{
    *to = dz_str_dup(dz_str(from));
    return *to ? 0 : DZ_ENOMEM;
}

static int open_all(struct dz_sandboxes *all, struct dz_err *err)
{
    const struct dz_sandboxes_opts *o = &all->opts;
    int rc = copy_text(o->live_path, &all->live_path);
    if (rc == 0)
        rc = copy_text(o->host_name ? o->host_name : "", &all->host_name);
    if (rc < 0)
        return dz_fail(err, rc, "keep sandboxes: out of memory");
    rc = dz_timer_new(all->loop, dz_sandboxes_on_tick, all, &all->tick, err);
    if (rc == 0)
        rc = dz_timer_new(all->loop, dz_sandboxes_on_tick, all, &all->wall, err);
    if (rc == 0)
        rc = dz_timer_new(all->loop, on_drain_timer, all, &all->drain_timer, err);
    if (rc == 0)
        rc = dz_timer_new(all->loop, on_tell, all, &all->tell, err);
    if (rc == 0)
        rc = dz_starts_init(all, err);
    if (rc == 0)
        rc = dz_files_init(all, err);
    if (rc == 0)
        dz_sandboxes_clock_begin(all);
    return rc;
}

int dz_sandboxes_new(const struct dz_sandboxes_opts *opts, struct dz_sandboxes **ret_all,
                     struct dz_err *err)
{
    struct dz_sandboxes *all = dz_zalloc(sizeof *all);
    if (!all)
        return dz_fail(err, DZ_ENOMEM, "keep sandboxes: out of memory");
    all->opts = *opts;
    all->loop = opts->loop;
    all->registry = opts->registry;
    all->driver = opts->driver ? opts->driver : &cells;
    all->driver_arg = opts->driver ? opts->driver_arg : all;
    all->tick_at = INT64_MAX;
    dz_map_init(&all->map, DZ_SANDBOX_SANDBOXES_MAX);
    dz_map_init(&all->ops, DZ_SANDBOX_SANDBOXES_MAX);
    dz_map_init(&all->waiters, DZ_SANDBOX_SANDBOXES_MAX);
    dz_map_init(&all->shares, DZ_SANDBOX_SANDBOXES_MAX);
    dz_list_init(&all->leaving);
    dz_list_init(&all->uses_waiting);
    dz_list_init(&all->untold);
    dz_list_init(&all->files.waiting);
    int rc = open_all(all, err);
    if (rc < 0) {
        dz_sandboxes_free(all);
        return rc;
    }
    *ret_all = all;
    return 0;
}

void dz_sandboxes_free(struct dz_sandboxes *all)
{
    if (!all)
        return;
    dz_sandboxes_look_drop(all->look);
    dz_waiters_free(all);
    for (const struct dz_map_entry *it; (it = dz_map_next(&all->map, NULL));) {
        struct dz_sandbox *s = it->value;
        if (s->op)
            dz_sandbox_op_free(s->op);
        destroy(s);
    }
    dz_map_release(&all->map);
    dz_starts_release(all);
    dz_files_release(all);
    dz_leaving_free_all(all);
    dz_map_release(&all->shares);
    dz_map_release(&all->ops);
    dz_timer_free(all->tick);
    dz_timer_free(all->wall);
    dz_timer_free(all->tell);
    dz_timer_free(all->drain_timer);
    dz_free(all->live_path);
    dz_free(all->host_name);
    dz_free(all);
}

void dz_sandboxes_set_ladder(struct dz_sandboxes *all, const struct dz_ladder *ladder)
{
    all->opts.ladder = *ladder;
}

size_t dz_sandboxes_busy(const struct dz_sandboxes *all)
{
    return all->ops.count;
}

/* SPDX-License-Identifier: MIT
 *
 * sandbox.c - all sandboxes: making and freeing, the drain, and what the keeper asks for.
 */
#include "sandbox/sandbox_int.h"

#include "base/log.h"

#include <string.h>

/* --- what the keeper asks for --------------------------------------------------------------- */

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

static int start(struct dz_sandbox *s, const struct dz_keeper_start *call, struct dz_err *err)
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

static int keep_start(void *arg, const struct dz_keeper_start *call, struct dz_err *err)
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
        const struct dz_keeper_cell how = {.code = rc, .error = err.msg};
        s->ticket = 0;
        s->all->opts.host->cold(s->all->opts.arg, s);
        dz_keeper_cell_done(all->keeper, ticket, &how);
    }
    dz_sandbox_unneeded(s);
}

static int keep_stop(void *arg, const struct dz_keeper_start *call, struct dz_err *err)
{
    struct dz_sandbox *s = dz_sandbox_find(arg, call->row->id);
    if (!s || s->phase != DZ_PHASE_UP)
        return dz_fail(err, DZ_EIO, "stop %s: it has no cell", call->row->id);
    s->ticket = call->ticket;
    dz_sandbox_stop_cell(s, call->keep_memory);
    return 0;
}

static void keep_kill(void *arg, const char *id)
{
    struct dz_sandbox *s = dz_sandbox_find(arg, id);
    if (s && (dz_start_unqueue(s) || s->cell))
        dz_sandbox_kill_cell(s);
}

static void keep_awaited(void *arg, const char *id)
{
    /* The wake stands in line. Until its turn comes another request may begin, so the sandbox is
     * not given back before its cell has ended. */
    dz_job_make_way(arg, id, DZ_REQUEST_SUSPEND);
}

static void keep_idle(void *arg, const struct dz_instance *row, struct dz_keeper_idle *ret_idle)
{
    DZ_AUTO(dz_sandbox_config_release) struct dz_sandbox_config c = {0};
    (void)arg;
    if (dz_sandbox_config_of(row, &c, NULL) < 0)
        return;
    *ret_idle = (struct dz_keeper_idle){
        .silence_ms = c.silence_ms,
        .ignore_cpu = c.ignore_cpu,
        .stays = !c.auto_resume, /* who asks next would be refused */
    };
}

static void keep_timed(void *arg, const struct dz_keeper_timing *timing)
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

static void keep_counted(void *arg, const struct dz_instance *row, int by)
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

static void keep_quiet(void *arg)
{
    dz_sandboxes_drain_look(arg);
}

static const struct dz_keeper_ops keeper_ops = {
    .start = keep_start,
    .stop = keep_stop,
    .kill = keep_kill,
    .awaited = keep_awaited,
    .idle = keep_idle,
    .counted = keep_counted,
    .timed = keep_timed,
    .quiet = keep_quiet,
};

/* --- looking at them ------------------------------------------------------------------------ */

bool dz_sandboxes_draining(const struct dz_sandboxes *all)
{
    return all->draining;
}

struct dz_keeper *dz_sandboxes_keeper(const struct dz_sandboxes *all)
{
    return all->keeper;
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
    if (all->drained && dz_keeper_busy(all->keeper) == 0 && cells_left(all) == 0)
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
    const struct dz_keeper_request r = {.what =
                                            s->ephemeral ? DZ_REQUEST_DESTROY : DZ_REQUEST_SUSPEND,
                                        .id = s->id,
                                        .goes_on = true};
    if (s->reserved)
        dz_sandbox_files_over(s);
    else if ((s->phase == DZ_PHASE_UP || s->phase == DZ_PHASE_STARTING) &&
             dz_keeper_submit(s->all->keeper, &r, NULL, NULL) < 0)
        dz_log(DZ_LOG_WARN, "suspend_refused", dz_log_strz("sandbox_id", s->id));
}

void dz_sandboxes_drain(struct dz_sandboxes *all, int64_t deadline_ms,
                        void (*done)(void *arg, size_t left), void *arg)
{
    DZ_VEC(, struct dz_sandbox *) each = DZ_VEC_INIT(DZ_KEEPER_SANDBOXES_MAX);
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

static int open_all(struct dz_sandboxes *all, struct dz_err *err)
{
    const struct dz_sandboxes_opts *o = &all->opts;
    const struct dz_keeper_opts keeper = {
        .loop = o->loop,
        .registry = o->registry,
        .cold = o->cold,
        .ops = &keeper_ops,
        .arg = all,
        .files = o->host->files,
        .files_arg = o->arg,
        .live_path = o->live_path,
        .ladder = o->ladder,
    };
    int rc = dz_timer_new(all->loop, on_drain_timer, all, &all->drain_timer, err);
    if (rc == 0)
        rc = dz_timer_new(all->loop, on_tell, all, &all->tell, err);
    if (rc == 0)
        rc = dz_starts_init(all, err);
    if (rc == 0)
        rc = dz_files_init(all, err);
    return rc < 0 ? rc : dz_keeper_new(&keeper, &all->keeper, err);
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
    dz_map_init(&all->map, DZ_KEEPER_SANDBOXES_MAX);
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
    DZ_MAP_FOREACH(it, &all->map)
        dz_sandbox_destroy(it->value);
    dz_map_release(&all->map);
    dz_starts_release(all);
    dz_files_release(all);
    dz_leaving_free_all(all);
    dz_keeper_free(all->keeper);
    dz_timer_free(all->tell);
    dz_timer_free(all->drain_timer);
    dz_free(all);
}

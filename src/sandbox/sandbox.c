/* SPDX-License-Identifier: MIT
 *
 * sandbox.c - the set of all sandboxes: making and freeing objects, counts, and the drain.
 */
#include "sandbox/sandbox_int.h"
#include "sandbox/sandbox_net.h"

#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* --- objects ----------------------------------------------------------------------------- */

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
    dz_net_free(s);
    dz_sandbox_drop_all(s);
    dz_loop_task_cancel(&s->turn);
    dz_sandbox_config_release(&s->config);
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

void dz_sandbox_of_tenant(struct dz_sandbox *s, const char *tenant)
{
    if (!s->tenant[0])
        (void)snprintf(s->tenant, sizeof s->tenant, "%s", tenant);
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
    if (tenant)
        dz_sandbox_of_tenant(s, tenant);
    return s;
}

static bool is_needed(const struct dz_sandbox *s)
{
    return s->op || s->warm || s->taken || s->unsynced_file || !dz_list_empty(&s->waiting) ||
           s->cell || s->reserved || s->start == DZ_START_QUEUED || !dz_list_empty(&s->execs) ||
           !dz_list_empty(&s->acquiring) || !dz_list_empty(&s->file_ops) ||
           !dz_list_empty(&s->copies) || !dz_list_empty(&s->parked) || dz_net_needs(s);
}

void dz_sandbox_assert(const struct dz_sandbox *s)
{
    assert((s->cell != NULL) == (s->phase != DZ_PHASE_NONE));      /* invariant 1 */
    assert(!s->op || s->op->sandbox == s);                         /* invariant 2 */
    assert(!s->asked || (s->op && s->op->cell_asked));             /* invariant 2 */
    assert(s->start != DZ_START_QUEUED || (s->asked && !s->cell)); /* invariant 2 */
    assert(dz_list_empty(&s->up_pending) ||
           (s->phase == DZ_PHASE_UP && !s->warm));                            /* invariant 3 */
    assert(!s->warm || s->cell || s->op);                                     /* invariant 3 */
    assert(s->taken || (!s->lent && !s->reserved));                           /* invariant 4 */
    assert(s->waiting_count <= DZ_SANDBOX_WAITING_MAX);                       /* invariant 5 */
    assert(!DZ_CHECK_DEEP || s->waiting_count == dz_list_count(&s->waiting)); /* invariant 5 */
}

void dz_sandbox_unneeded(struct dz_sandbox *s)
{
    if (!is_needed(s))
        dz_sandbox_turn_soon(s);
}

void dz_sandbox_end(struct dz_sandbox *s)
{
    struct dz_sandboxes *all = s->all;
    dz_sandbox_assert(s);
    if (is_needed(s))
        return;
    destroy(s);
    dz_sandboxes_drain_check(all);
}

void dz_sandbox_erased(struct dz_sandboxes *all, const struct dz_instance *row)
{
    struct dz_sandbox *s = dz_sandbox_find(all, row->id);
    all->opts.host->counted(all->opts.arg, row, -1);
    if (!s)
        return;
    s->unsynced_file = false;
    dz_file_op_gone(s);
    dz_net_down(s, DZ_EGONE, NULL, "the sandbox was deleted");
    dz_exec_down(s, DZ_EGONE, NULL,
                 "the sandbox was deleted"); /* this also fails commands that sleep in it */
    dz_sandbox_unneeded(s);
}

/* --- a host without cells ---------------------------------------------------------------- */

static int no_prepare(void *arg, const struct dz_instance *row,
                      const struct dz_sandbox_config *config, struct dz_sandbox_resources *ret,
                      struct dz_err *err)
{
    (void)arg, (void)config, (void)ret;
    return dz_fail(err, DZ_EUNSUPPORTED, "start %s: no cells run here", row->id);
}

static int no_wake(void *arg, const struct dz_instance *row, struct dz_why *why)
{
    (void)arg;
    return dz_why(why, DZ_EUNSUPPORTED, NULL, "wake %s: no cells run here", row->id);
}

static int no_warm(void *arg, struct dz_sandbox *s, const struct dz_instance *row,
                   struct dz_why *why)
{
    (void)s;
    return no_wake(arg, row, why);
}

static bool no_file(void *arg, const char *id)
{
    (void)arg, (void)id;
    return false;
}

static void no_count(void *arg, const struct dz_instance *row, int by)
{
    (void)arg, (void)row, (void)by;
}

static void no_time(void *arg, const struct dz_sandbox_timing *timing)
{
    (void)arg, (void)timing;
}

static void no_cell(void *arg, struct dz_sandbox *s)
{
    (void)arg, (void)s;
}

static void no_image(void *arg, void *image)
{
    (void)arg, (void)image;
}

/* Only callbacks that are used without a cell are set, because no cell ever starts. */
static const struct dz_sandbox_host no_host = {
    .prepare = no_prepare,
    .may_wake = no_wake,
    .admit_machine = no_warm,
    .may_open = no_wake,
    .has_file = no_file,
    .counted = no_count,
    .timed = no_time,
    .cell_gone = no_cell,
    .image_put = no_image,
};

/* --- counts and lists -------------------------------------------------------------------- */

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
        const bool native = s->cell && s->cpu_at && strcmp(s->ops->kind, "linux") == 0;
        struct dz_sandbox_warm w = {
            .id = s->id,
            .tenant = s->tenant,
            .pid = s->cell ? s->ops->pid(s->cell) : 0,
            .commands = dz_list_count(&s->execs),
            .native_cpu_ns = native ? s->cpu_ns - s->cpu_from : 0,
            .native_bytes = native ? s->memory_bytes : 0,
        };
        if (s->phase != DZ_PHASE_UP || rc != 0)
            continue;
        dz_net_traffic(all, s, &w.traffic);
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

/* --- the drain --------------------------------------------------------------------------- */

static size_t cells_left(const struct dz_sandboxes *all)
{
    size_t n = dz_list_count(&all->exiting);
    DZ_MAP_FOREACH(it, &all->map)
        n += ((const struct dz_sandbox *)it->value)->cell != NULL;
    return n;
}

void dz_sandboxes_drain_check(struct dz_sandboxes *all)
{
    if (all->drained && dz_sandboxes_busy(all) == 0 && cells_left(all) == 0)
        /* from a timer, because the caller may be handling the end of a cell or an operation */
        dz_timer_after(all->drain_timer, 0);
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
                                         .may_resume = true};
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
    dz_lones_end(all);
    dz_files_room(all); /* this refuses all waiting acquires */
    dz_vec_release(&each);
    dz_sandboxes_drain_check(all);
}

/* --- creating and freeing the set -------------------------------------------------------- */

static void on_deliver(void *arg)
{
    dz_sandboxes_report_up(arg);
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
        return dz_fail(err, rc, "set up the sandboxes: out of memory");
    rc = dz_timer_new(all->loop, dz_sandboxes_on_tick, all, &all->tick, err);
    if (rc == 0)
        rc = dz_timer_new(all->loop, dz_sandboxes_on_tick, all, &all->wall, err);
    if (rc == 0)
        rc = dz_timer_new(all->loop, on_drain_timer, all, &all->drain_timer, err);
    if (rc == 0)
        rc = dz_timer_new(all->loop, on_deliver, all, &all->up_timer, err);
    if (rc == 0)
        rc = dz_starts_init(all, err);
    if (rc == 0)
        rc = dz_files_init(all, err);
    if (rc == 0)
        rc = dz_nets_init(all, err);
    if (rc == 0)
        dz_sandboxes_clock_begin(all);
    return rc;
}

int dz_sandboxes_new(const struct dz_sandboxes_opts *opts, struct dz_sandboxes **ret_all,
                     struct dz_err *err)
{
    struct dz_sandboxes *all = dz_zalloc(sizeof *all);
    if (!all)
        return dz_fail(err, DZ_ENOMEM, "set up the sandboxes: out of memory");
    all->opts = *opts;
    all->opts.host = opts->host ? opts->host : &no_host;
    all->loop = opts->loop;
    all->registry = opts->registry;
    all->tick_at = INT64_MAX;
    dz_map_init(&all->map, DZ_SANDBOX_SANDBOXES_MAX);
    dz_map_init(&all->waiters, DZ_SANDBOX_SANDBOXES_MAX);
    dz_map_init(&all->shares, DZ_SANDBOX_SANDBOXES_MAX);
    dz_list_init(&all->exiting);
    dz_list_init(&all->lone);
    dz_list_init(&all->up_pending);
    dz_list_init(&all->files.waiting);
    dz_list_init(&all->net.deliveries);
    all->net.epoll = -1;
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
    dz_nets_release(all);
    dz_lones_end(all);
    dz_exiting_cells_free(all);
    dz_map_release(&all->shares);
    dz_timer_free(all->tick);
    dz_timer_free(all->wall);
    dz_timer_free(all->up_timer);
    dz_timer_free(all->drain_timer);
    dz_free(all->live_path);
    dz_free(all->host_name);
    dz_free(all);
}

void dz_sandboxes_set_idle_policy(struct dz_sandboxes *all, const struct dz_idle_policy *policy)
{
    all->opts.idle_policy = *policy;
}

size_t dz_sandboxes_busy(const struct dz_sandboxes *all)
{
    return all->ops;
}

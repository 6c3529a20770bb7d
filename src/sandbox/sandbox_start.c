/* SPDX-License-Identifier: MIT
 *
 * sandbox_start.c - starting and stopping cells for operations, and the queue of starts.
 *
 * However many sandboxes are woken at once, at most STARTS_MAX cells start at a time. The other
 * starts wait: one queue for each tenant, and the tenants take turns. So a tenant who wakes
 * thousands of sandboxes delays another tenant's wake by a few starts only.
 *
 * A start counts until its machine is up or has failed, but no longer than START_NS: a cell that
 * does not come up keeps nobody waiting.
 *
 * The queue has no limit of its own. A sandbox is in it at most once, and only while a request
 * waits for it; requests have their limits (api.c, the sandboxes' lines).
 */
#include "sandbox/sandbox_int.h"

#include "base/clock.h"

#include <assert.h>
#include <string.h>

enum {
    STARTS_MAX = 64,      /* machines that start at the same time */
    FILE_STARTS_MAX = 32, /* file-only cells that start at the same time */
};
#define START_NS DZ_NS_PER_S

/* The queued starts of one tenant; exists while there are any. */
struct start_line {
    struct dz_list link;      /* in all->starts.turns */
    struct dz_list sandboxes; /* by sandbox.start_link */
    char tenant[];
};

static void line_free(struct dz_sandboxes *all, struct start_line *l)
{
    dz_list_remove(&l->link);
    (void)dz_map_remove(&all->starts.lines, dz_str(l->tenant));
    dz_free(l);
}

static struct start_line *line_get(struct dz_sandboxes *all, const char *tenant)
{
    struct start_line *l = dz_map_get(&all->starts.lines, dz_str(tenant));
    size_t n = strlen(tenant) + 1;
    if (l)
        return l;
    l = dz_zalloc(sizeof *l + n);
    if (!l)
        return NULL;
    memcpy(l->tenant, tenant, n);
    dz_list_init(&l->link);
    dz_list_init(&l->sandboxes);
    if (dz_map_put(&all->starts.lines, dz_str(l->tenant), l, NULL) < 0) {
        dz_free(l);
        return NULL;
    }
    dz_list_push_back(&all->starts.turns, &l->link);
    return l;
}

/* --- cells that are starting ------------------------------------------------------------- */

bool dz_start_may(const struct dz_sandboxes *all, bool machine)
{
    return machine ? all->starts.machines < STARTS_MAX && dz_list_empty(&all->starts.turns)
                   : all->starts.files < FILE_STARTS_MAX;
}

static void uncount(struct dz_sandbox *s)
{
    struct dz_sandboxes *all = s->all;
    dz_list_remove(&s->start_link);
    if (s->start_machine)
        all->starts.machines--;
    else
        all->starts.files--;
    s->start = DZ_START_NONE;
}

void dz_start_begun(struct dz_sandbox *s, bool machine)
{
    struct dz_sandboxes *all = s->all;
    s->start = DZ_START_BEGUN;
    s->start_machine = machine;
    s->start_at = dz_clock_boot_ns();
    if (machine)
        all->starts.machines++;
    else
        all->starts.files++;
    if (dz_list_empty(&all->starts.begun) && !all->starts.timer_soon)
        dz_timer_after(all->starts.timer, START_NS / DZ_NS_PER_MS);
    dz_list_push_back(&all->starts.begun, &s->start_link);
}

/* Continue from a timer, because a failed start may free its sandbox while the caller still uses
 * it. */
static void soon(struct dz_sandboxes *all)
{
    if (!dz_list_empty(&all->starts.turns) && !all->starts.timer_soon) {
        all->starts.timer_soon = true;
        dz_timer_after(all->starts.timer, 0);
    }
}

void dz_start_over(struct dz_sandbox *s)
{
    if (s->start == DZ_START_BEGUN) {
        uncount(s);
        soon(s->all);
        dz_files_room(s->all);
    }
}

/* --- queued starts ----------------------------------------------------------------------- */

static int queue_start(struct dz_sandbox *s, struct dz_err *err)
{
    assert(s->tenant[0]);
    struct start_line *l = line_get(s->all, s->tenant);
    if (!l)
        return dz_fail(err, DZ_ENOMEM, "start %s: out of memory", s->id);
    assert(s->start == DZ_START_NONE);
    s->start = DZ_START_QUEUED;
    dz_list_push_back(&l->sandboxes, &s->start_link);
    s->all->starts.queued++;
    soon(s->all);
    return 0;
}

bool dz_start_unqueue(struct dz_sandbox *s)
{
    struct start_line *l = dz_map_get(&s->all->starts.lines, dz_str(s->tenant));
    if (s->start != DZ_START_QUEUED)
        return false;
    assert(l);
    dz_list_remove(&s->start_link);
    s->start = DZ_START_NONE;
    s->all->starts.queued--;
    if (dz_list_empty(&l->sandboxes))
        line_free(s->all, l);
    return true;
}

static void start_queued(struct dz_sandbox *s)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_sandboxes *all = s->all;
    struct dz_err err = {0};
    int rc = all->draining ? dz_fail(&err, DZ_EBUSY, "start %s: the daemon is stopping", s->id)
                           : dz_registry_get(all->registry, s->id, &row, &err);
    if (rc == 0)
        rc = dz_sandbox_start_cell(s, &row, true, &err);
    if (rc < 0) {
        const struct cell_end how = {.code = rc, .error = err.msg};
        s->all->opts.host->cell_gone(s->all->opts.arg, s);
        dz_sandbox_cell_done(s, &how);
    }
    dz_sandbox_unneeded(s);
}

/* Dequeue the first start of the next tenant; that tenant's next turn comes after all others. */
static struct dz_sandbox *next(struct dz_sandboxes *all)
{
    struct start_line *l = DZ_LIST_FIRST(struct start_line, &all->starts.turns, link);
    struct dz_sandbox *s = DZ_LIST_FIRST(struct dz_sandbox, &l->sandboxes, start_link);
    dz_list_remove(&l->link);
    dz_list_push_back(&all->starts.turns, &l->link);
    (void)dz_start_unqueue(s);
    return s;
}

static void on_timer(void *arg)
{
    struct dz_sandboxes *all = arg;
    int64_t now = dz_clock_boot_ns();
    all->starts.timer_soon = false;
    while (!dz_list_empty(&all->starts.begun)) {
        struct dz_sandbox *s = DZ_LIST_FIRST(struct dz_sandbox, &all->starts.begun, start_link);
        if (now - s->start_at < START_NS)
            break;
        uncount(s); /* the cell may still come up, but no longer counts as starting */
        dz_files_room(all);
    }
    /* At most STARTS_MAX in each turn of the loop, because starts may fail at once and must not
     * block it. */
    for (int i = 0; i < STARTS_MAX && !dz_list_empty(&all->starts.turns) &&
                    (all->starts.machines < STARTS_MAX || all->draining);
         i++)
        start_queued(next(all));
    if (!dz_list_empty(&all->starts.turns) &&
        (all->starts.machines < STARTS_MAX || all->draining)) {
        soon(all);
    } else if (!dz_list_empty(&all->starts.begun)) {
        const struct dz_sandbox *s =
            DZ_LIST_FIRST(struct dz_sandbox, &all->starts.begun, start_link);
        int64_t left = (START_NS - (now - s->start_at)) / DZ_NS_PER_MS;
        all->starts.timer_soon = false; /* the queue was served just now */
        dz_timer_after(all->starts.timer, left > 0 ? left + 1 : 1);
    }
}

int dz_starts_init(struct dz_sandboxes *all, struct dz_err *err)
{
    dz_map_init(&all->starts.lines, DZ_SANDBOX_SANDBOXES_MAX);
    dz_list_init(&all->starts.turns);
    dz_list_init(&all->starts.begun);
    return dz_timer_new(all->loop, on_timer, all, &all->starts.timer, err);
}

void dz_starts_drain(struct dz_sandboxes *all)
{
    soon(all); /* each queued start fails, because the daemon is stopping */
}

void dz_starts_release(struct dz_sandboxes *all)
{
    dz_timer_free(all->starts.timer);
    dz_map_release(&all->starts.lines);
}

/* --- start and stop, for operations ------------------------------------------------------ */

/* Kill the present cell if the start cannot use it. It may be a file-only cell whose promotion was
 * abandoned and which is suspending: nothing depends on it, and committed data is in the file.
 * Otherwise there should be no cell. A file-only cell that is open can become the machine's, except
 * when the memory is dropped, or when the sandbox has volumes, which come with the start: then
 * another cell starts, and file operations that have moved no bytes start again there. */
static void drop_unusable_cell(struct dz_sandbox *s, bool can_become)
{
    if (!(can_become && (s->phase == DZ_PHASE_FILES || s->phase == DZ_PHASE_OPENING)))
        dz_sandbox_cell_kill(s);
}

static int start(struct dz_sandbox *s, const struct dz_instance *row, bool keep_memory,
                 struct dz_err *err)
{
    struct dz_sandboxes *all = s->all;
    struct dz_why why = {0};
    const bool mounts = s->op && s->op->mounts;
    drop_unusable_cell(s, keep_memory && !mounts);
    s->drop_memory = !keep_memory;
    if (all->draining)
        return dz_fail(err, DZ_EBUSY, "start %s: the daemon is stopping", s->id);
    if (all->opts.host->admit_machine(all->opts.arg, s, row, &why) < 0) {
        *err = why.err;
        return err->code;
    }
    if (s->phase == DZ_PHASE_FILES || s->phase == DZ_PHASE_OPENING) {
        dz_sandbox_promote(s); /* the file-only cell becomes the machine's */
        return 0;
    }
    return dz_start_may(all, true) ? dz_sandbox_start_cell(s, row, true, err) : queue_start(s, err);
}

int dz_sandbox_cell_start(struct dz_sandbox *s, const struct dz_instance *row, bool keep_memory,
                          struct dz_err *err)
{
    struct dz_err why = {0};
    int rc = start(s, row, keep_memory, &why);
    s->asked = rc == 0;
    if (rc == 0)
        return 0;
    s->all->opts.host->cell_gone(s->all->opts.arg, s);
    if (err)
        *err = why;
    return rc;
}

bool dz_sandbox_cell_stop(struct dz_sandbox *s, bool keep_memory)
{
    if (s->phase != DZ_PHASE_UP)
        return false;
    s->asked = true;
    dz_sandbox_stop_cell(s, keep_memory);
    return true;
}

/* SPDX-License-Identifier: MIT
 *
 * engine_start.c - the queue of sandboxes that wait for a cell.
 *
 * However many sandboxes are woken at once, at most STARTS_MAX cells start at a time. The other
 * starts wait: one queue for each tenant, and the tenants take turns. So a tenant who wakes
 * thousands of sandboxes delays another tenant's wake by a few starts only.
 *
 * A start counts until its machine is up or has failed, but no longer than START_NS: a cell that
 * does not come up keeps nobody waiting.
 *
 * The queue has no limit of its own. A sandbox is in it at most once, and only while a request
 * waits for it; requests have their limits (api.c, the keeper's lines).
 */
#include "engine/engine_int.h"

#include "base/clock.h"

#include <assert.h>
#include <string.h>

enum {
    STARTS_MAX = 64,      /* machines that start at the same time */
    FILE_STARTS_MAX = 32, /* the same for cells that have only the file */
};
#define START_NS DZ_NS_PER_S

/* The starts of one tenant that wait; it exists while there are any. */
struct start_line {
    struct dz_list link;  /* in engine.starts.turns */
    struct dz_list boxes; /* box.start_link */
    char tenant[];
};

static void line_free(struct dz_engine *e, struct start_line *l)
{
    dz_list_remove(&l->link);
    (void)dz_map_remove(&e->starts.lines, dz_str(l->tenant));
    dz_free(l);
}

static struct start_line *line_get(struct dz_engine *e, const char *tenant)
{
    struct start_line *l = dz_map_get(&e->starts.lines, dz_str(tenant));
    size_t n = strlen(tenant) + 1;
    if (l)
        return l;
    l = dz_zalloc(sizeof *l + n);
    if (!l)
        return NULL;
    memcpy(l->tenant, tenant, n);
    dz_list_init(&l->link);
    dz_list_init(&l->boxes);
    if (dz_map_put(&e->starts.lines, dz_str(l->tenant), l, NULL) < 0) {
        dz_free(l);
        return NULL;
    }
    dz_list_push_back(&e->starts.turns, &l->link);
    return l;
}

/* --- cells that start ---------------------------------------------------------------------- */

bool dz_start_may(const struct dz_engine *e, bool machine)
{
    return machine ? e->starts.machines < STARTS_MAX && dz_list_empty(&e->starts.turns)
                   : e->starts.files < FILE_STARTS_MAX;
}

static void uncount(struct box *b)
{
    struct dz_engine *e = b->e;
    dz_list_remove(&b->start_link);
    if (b->start_machine)
        e->starts.machines--;
    else
        e->starts.files--;
    b->start = START_NONE;
}

void dz_start_begun(struct box *b, bool machine)
{
    struct dz_engine *e = b->e;
    b->start = START_BEGUN;
    b->start_machine = machine;
    b->start_at = dz_clock_boot_ns();
    if (machine)
        e->starts.machines++;
    else
        e->starts.files++;
    if (dz_list_empty(&e->starts.begun) && !e->starts.timer_soon)
        dz_timer_after(e->starts.timer, START_NS / DZ_NS_PER_MS);
    dz_list_push_back(&e->starts.begun, &b->start_link);
}

/* From a timer, because a start that fails ends its box, and the caller may be within it. */
static void soon(struct dz_engine *e)
{
    if (!dz_list_empty(&e->starts.turns) && !e->starts.timer_soon) {
        e->starts.timer_soon = true;
        dz_timer_after(e->starts.timer, 0);
    }
}

void dz_start_over(struct box *b)
{
    if (b->start == START_BEGUN) {
        uncount(b);
        soon(b->e);
        dz_files_room(b->e);
    }
}

/* --- starts that wait ---------------------------------------------------------------------- */

int dz_start_queue(struct box *b, struct dz_err *err)
{
    struct start_line *l = line_get(b->e, b->tenant);
    if (!l)
        return dz_fail(err, DZ_ENOMEM, "start %s: out of memory", b->id);
    assert(b->start == START_NONE);
    b->start = START_QUEUED;
    dz_list_push_back(&l->boxes, &b->start_link);
    b->e->starts.queued++;
    soon(b->e);
    return 0;
}

bool dz_start_unqueue(struct box *b)
{
    struct start_line *l = dz_map_get(&b->e->starts.lines, dz_str(b->tenant));
    if (b->start != START_QUEUED)
        return false;
    assert(l);
    dz_list_remove(&b->start_link);
    b->start = START_NONE;
    b->e->starts.queued--;
    if (dz_list_empty(&l->boxes))
        line_free(b->e, l);
    return true;
}

/* The next tenant's first one; that tenant's next turn is after all others. */
static struct box *next(struct dz_engine *e)
{
    struct start_line *l = DZ_LIST_FIRST(struct start_line, &e->starts.turns, link);
    struct box *b = DZ_LIST_FIRST(struct box, &l->boxes, start_link);
    dz_list_remove(&l->link);
    dz_list_push_back(&e->starts.turns, &l->link);
    (void)dz_start_unqueue(b);
    return b;
}

static void on_timer(void *arg)
{
    struct dz_engine *e = arg;
    int64_t now = dz_clock_boot_ns();
    e->starts.timer_soon = false;
    while (!dz_list_empty(&e->starts.begun)) {
        struct box *b = DZ_LIST_FIRST(struct box, &e->starts.begun, start_link);
        if (now - b->start_at < START_NS)
            break;
        uncount(b); /* it may come up still, but is waited for no longer */
        dz_files_room(e);
    }
    /* At most a full set each turn of the loop, so that starts which fail do not hold it. */
    for (int i = 0; i < STARTS_MAX && !dz_list_empty(&e->starts.turns) &&
                    (e->starts.machines < STARTS_MAX || e->draining);
         i++)
        dz_box_start_turn(next(e));
    if (!dz_list_empty(&e->starts.turns) && (e->starts.machines < STARTS_MAX || e->draining)) {
        soon(e);
    } else if (!dz_list_empty(&e->starts.begun)) {
        const struct box *b = DZ_LIST_FIRST(struct box, &e->starts.begun, start_link);
        int64_t left = (START_NS - (now - b->start_at)) / DZ_NS_PER_MS;
        e->starts.timer_soon = false; /* what asked for it has had its turn */
        dz_timer_after(e->starts.timer, left > 0 ? left + 1 : 1);
    }
}

int dz_starts_init(struct dz_engine *e, struct dz_err *err)
{
    return dz_timer_new(e->loop, on_timer, e, &e->starts.timer, err);
}

void dz_starts_drain(struct dz_engine *e)
{
    soon(e); /* each is told that the daemon stops */
}

void dz_starts_release(struct dz_engine *e)
{
    dz_timer_free(e->starts.timer);
    dz_map_release(&e->starts.lines);
}

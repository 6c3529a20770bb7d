/* SPDX-License-Identifier: MIT
 *
 * The verbs of the registry, watched: each hop is compared with the map, and
 * after the crash nothing works any more.
 */
#include "../lib/dice.h"
#include "sim_world.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static struct sim_world *world(struct dz_registry *r)
{
    return (struct sim_world *)((char *)r - offsetof(struct sim_world, registry));
}

/* A call to anything: is this the one before which everything ends? */
static bool dead(struct sim_world *w)
{
    if (w->calls_left == 0)
        w->dead = true;
    if (w->calls_left > 0)
        w->calls_left--;
    return w->dead;
}

int sim_fault(void *arg, const char *call)
{
    struct sim_world *w = arg;
    if (dead(w))
        return DZ_EIO;
    if (strcmp(call, "committed") == 0 || strcmp(call, "stat") == 0 || strcmp(call, "sync") == 0)
        return 0;
    return dice_below(&w->dice, 100) < w->fault_percent ? DZ_EIO : 0;
}

#define DEAD(r, err)    \
    if (dead(world(r))) \
    return dz_fail((err), DZ_EIO, "simulated: the machine is off")

static int sim_create(struct dz_registry *r, const struct dz_instance *row, struct dz_err *err)
{
    DEAD(r, err);
    if (strcmp(row->state, "created") != 0)
        sim_bad(world(r), "%s begins as %s", row->id, row->state);
    return dz_registry_create(world(r)->inner, row, err);
}

static int sim_get(struct dz_registry *r, const char *id, struct dz_instance *ret_row,
                   struct dz_err *err)
{
    DEAD(r, err);
    return dz_registry_get(world(r)->inner, id, ret_row, err);
}

static int sim_find(struct dz_registry *r, const char *tenant, const char *home, const char *word,
                    struct dz_instance *ret_row, struct dz_err *err)
{
    DEAD(r, err);
    return dz_registry_find(world(r)->inner, tenant, home, word, ret_row, err);
}

static void check_hop(struct sim_world *w, const struct dz_registry_change *c)
{
    struct dz_instance row = {0};
    enum dz_state from, to;
    struct dz_err err;
    if (!(c->set & DZ_COLUMN(state)) || dz_registry_get(w->inner, c->id, &row, NULL) < 0)
        return;
    if (dz_state_parse(dz_str(row.state), &from, &err) < 0 ||
        dz_state_parse(dz_str(c->to->state), &to, &err) < 0 ||
        (from != to && dz_lifecycle_next(from, to, &err) < 0))
        sim_bad(w, "%s: %s", c->id, err.msg);
    dz_instance_release(&row);
}

/* How long rows say that it was awake; and what is not persistent goes once it is not. */
static void follow(struct sim_world *w, const struct dz_registry_change *c)
{
    struct sim_sandbox *b = sim_box(w, c->id);
    if (!b || !(c->set & DZ_COLUMN(state)))
        return;
    bool active = strcmp(c->to->state, "active") == 0;
    if (!active && b->active_at)
        b->awake_ms += sim_boot_ms() - b->active_at;
    b->active_at = active ? sim_boot_ms() : 0;
    b->doomed = b->doomed || (b->ephemeral && !active);
}

static int sim_change(struct dz_registry *r, const struct dz_registry_change *c, struct dz_err *err)
{
    DEAD(r, err);
    check_hop(world(r), c);
    int rc = dz_registry_change(world(r)->inner, c, err);
    if (rc == 0)
        follow(world(r), c);
    return rc;
}

static int sim_erase(struct dz_registry *r, const char *id, int64_t version, int64_t epoch,
                     struct dz_err *err)
{
    DEAD(r, err);
    int rc = dz_registry_erase(world(r)->inner, id, version, epoch, err);
    struct sim_sandbox *b = sim_box(world(r), id);
    if (rc == 0 && b)
        b->erased = true;
    return rc;
}

static int sim_list(struct dz_registry *r, const struct dz_registry_filter *f,
                    struct dz_instances *rows, struct dz_err *err)
{
    DEAD(r, err);
    return dz_registry_list(world(r)->inner, f, rows, err);
}

static int sim_due(struct dz_registry *r, int64_t now, size_t limit, struct dz_instances *rows,
                   struct dz_err *err)
{
    DEAD(r, err);
    return dz_registry_due(world(r)->inner, now, limit, rows, err);
}

static int sim_next_due(struct dz_registry *r, int64_t *ret_at, struct dz_err *err)
{
    DEAD(r, err);
    return dz_registry_next_due(world(r)->inner, ret_at, err);
}

/* A timeout has come: not too early. */
static void time_out(struct sim_world *w, const struct dz_registry_event *e)
{
    struct sim_sandbox *b = sim_box(w, e->sandbox_id);
    struct dz_instance row = {0};
    if (!b || dz_registry_get(w->inner, e->sandbox_id, &row, NULL) < 0)
        return;
    int64_t awake = b->awake_ms + (b->active_at ? sim_boot_ms() - b->active_at : 0);
    if (awake < row.timeout_ms)
        sim_bad(w, "the timeout of %s came after %lld ms awake, not %lld", b->id, (long long)awake,
                (long long)row.timeout_ms);
    w->timeouts++;
    if (strcmp(e->detail, "destroy") == 0)
        b->doomed = true;
    dz_instance_release(&row);
}

static int sim_note(struct dz_registry *r, const struct dz_registry_event *e, int64_t *ret_seq,
                    struct dz_err *err)
{
    DEAD(r, err);
    if (strcmp(e->what, "timeout") == 0)
        time_out(world(r), e);
    return dz_registry_note(world(r)->inner, e, ret_seq, err);
}

static int sim_flush(struct dz_registry *r, struct dz_err *err)
{
    DEAD(r, err);
    return dz_registry_flush(world(r)->inner, err);
}

static int sim_check(struct dz_registry *r, struct dz_err *err)
{
    DEAD(r, err);
    return dz_registry_check(world(r)->inner, err);
}

const struct dz_registry_ops sim_registry_ops = {
    .create = sim_create,
    .get = sim_get,
    .find = sim_find,
    .change = sim_change,
    .erase = sim_erase,
    .list = sim_list,
    .due = sim_due,
    .next_due = sim_next_due,
    .note = sim_note,
    .flush = sim_flush,
    .check = sim_check,
};

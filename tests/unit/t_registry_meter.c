/* SPDX-License-Identifier: MIT
 *
 * The journal of intervals: random lives of sandboxes and snapshots against a plain model that adds
 * up at each tick of the clock, also when the clock of the wall is set; sums of parts; a recount
 * from events; the death of a daemon.
 */
#include "../lib/dice.h"
#include "base/clock.h"
#include "base/mem.h"
#include "registry/registry_meter.h"
#include "registry/registry_record.h"
#include "tap.h"

#include <stdio.h>
#include <string.h>

enum {
    SANDBOXES = 6,
    SNAPSHOTS = 3,
    KINDS = 6,
    STEPS = 3000,
    START_MS = 1700000000,
};
static const char *const states[KINDS] = {"created", "active",   "suspended",
                                          "frozen",  "archived", "snapshot"};
enum {
    ACTIVE = 1,
    SNAPSHOT = 5,
};

struct sums {
    int64_t ms[KINDS], memory[KINDS], storage[KINDS]; /* byte-milliseconds; files are small here */
};

struct thing {
    bool exists;
    int state;
    int64_t memory, file, cold;
    char id[32];
};

struct world {
    struct dz_registry *registry;
    struct dz_clock_test clock;
    struct thing things[SANDBOXES + SNAPSHOTS];
    struct sums model;
    uint64_t dice;
    int born;
};

static void open_world(struct world *w, uint64_t seed)
{
    *w = (struct world){.clock = {.real_ns = START_MS * DZ_NS_PER_S}, .dice = seed};
    dz_clock_use(&w->clock);
    CHECK_INT(dz_registry_open(":memory:", true, &w->registry, NULL), 0);
}

static void close_world(struct world *w)
{
    CHECK_INT(dz_registry_close(w->registry, NULL), 0);
    dz_clock_use(NULL);
}

static int state_of(const char *name)
{
    for (int i = 0; i < KINDS; i++)
        if (strcmp(states[i], name) == 0)
            return i;
    CHECK(!"a known state");
    return 0;
}

static void pass(struct world *w, int64_t ms)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(w->things); i++) {
        const struct thing *t = &w->things[i];
        if (!t->exists)
            continue;
        w->model.ms[t->state] += ms;
        w->model.memory[t->state] += t->state == ACTIVE ? ms * t->memory : 0;
        w->model.storage[t->state] += ms * (t->file + t->cold);
    }
    dz_clock_advance(&w->clock, ms * DZ_NS_PER_MS);
}

static void add_up(void *arg, const struct dz_registry_interval *i)
{
    struct sums *s = arg;
    int state = state_of(i->state);
    CHECK(i->since < i->until);
    s->ms[state] += i->until - i->since;
    s->memory[state] += (i->until - i->since) * i->memory;
    s->storage[state] += (i->until - i->since) * (i->file + i->cold);
}

static struct sums span(struct world *w, const char *sandbox, int64_t from, int64_t to)
{
    const struct dz_registry_meter_filter f = {
        .tenant = "t", .sandbox_id = sandbox, .from = from, .to = to};
    struct sums s = {0};
    CHECK_INT(dz_registry_meter_read(w->registry, &f, add_up, &s, NULL), 0);
    return s;
}

static void check_same(const struct sums *got, const struct sums *want)
{
    for (int i = 0; i < KINDS; i++) {
        CHECK_INT(got->ms[i], want->ms[i]);
        CHECK_INT(got->memory[i], want->memory[i]);
        CHECK_INT(got->storage[i], want->storage[i]);
    }
}

/* --- acts ------------------------------------------------------------------------ */

static void change(struct world *w, struct thing *t, uint64_t set, const char *event)
{
    struct dz_instance row = {0};
    CHECK_INT(dz_registry_get(w->registry, t->id, &row, NULL), 0);
    const struct dz_instance to = {
        .state = states[t->state], .memory = t->memory, .cold_size = t->cold, .error = "x"};
    const struct dz_registry_change c = {.id = t->id,
                                         .version = row.version,
                                         .epoch = row.epoch,
                                         .set = set | DZ_COLUMN(error),
                                         .event = event,
                                         .detail = event ? states[t->state] : NULL,
                                         .to = &to};
    CHECK_INT(dz_registry_change(w->registry, &c, NULL), 0);
    dz_instance_release(&row);
}

static void begin(struct world *w, struct thing *t, bool snapshot)
{
    *t = (struct thing){.exists = true, .state = snapshot ? SNAPSHOT : 0, .memory = 100};
    (void)snprintf(t->id, sizeof t->id, "%s_%d", snapshot ? "snp" : "sbx", ++w->born);
    const struct dz_snapshot_row copy = {.id = t->id, .tenant = "t", .sandbox_id = "sbx_1"};
    const struct dz_instance row = {
        .id = t->id, .tenant = "t", .state = "created", .kind = "wasm", .memory = 100};
    if (snapshot)
        CHECK_INT(dz_registry_snapshot_add(w->registry, &copy, false, NULL), 0);
    else
        CHECK_INT(dz_registry_create(w->registry, &row, NULL), 0);
}

static void end(struct world *w, struct thing *t)
{
    struct dz_instance row = {0};
    t->exists = false;
    if (t->state == SNAPSHOT) {
        CHECK_INT(dz_registry_snapshot_remove(w->registry, "t", t->id, 0, NULL), 0);
        return;
    }
    CHECK_INT(dz_registry_get(w->registry, t->id, &row, NULL), 0);
    CHECK_INT(dz_registry_erase(w->registry, t->id, row.version, row.epoch, NULL), 0);
    dz_instance_release(&row);
}

static void change_snapshot(struct world *w, struct thing *t)
{
    struct dz_snapshot_row row = {0};
    CHECK_INT(dz_registry_snapshot_get(w->registry, "t", t->id, &row, NULL), 0);
    struct dz_snapshot_row to = row;
    to.size = t->file = dice_below(&w->dice, 1000);
    CHECK_INT(
        dz_registry_snapshot_change(w->registry, &to, DZ_ROW_COLUMN(snapshot, size), false, NULL),
        0);
    dz_snapshot_row_release(&row);
}

static void act(struct world *w, bool events)
{
    size_t which = dice_below(&w->dice, SANDBOXES + SNAPSHOTS);
    struct thing *t = &w->things[which];
    bool snapshot = which >= SANDBOXES;
    if (!t->exists) {
        begin(w, t, snapshot);
        return;
    }
    switch (dice_below(&w->dice, 6)) {
    case 0:
        end(w, t);
        break;
    case 1:
    case 2:
        if (snapshot) {
            change_snapshot(w, t);
        } else {
            t->state = (int)dice_below(&w->dice, SNAPSHOT);
            change(w, t, DZ_COLUMN(state), events || dice_below(&w->dice, 2) ? "moved" : NULL);
        }
        break;
    case 3:
        if (!snapshot) {
            t->memory = dice_below(&w->dice, 1000);
            change(w, t, DZ_COLUMN(memory), NULL);
        }
        break;
    case 4:
        if (!snapshot) {
            t->file = dice_below(&w->dice, 1000);
            CHECK_INT(dz_registry_meter_file(w->registry, t->id, t->file, NULL), 0);
        }
        break;
    default:
        if (!snapshot) {
            t->cold = dice_below(&w->dice, 1000);
            change(w, t, DZ_COLUMN(cold_size), NULL);
        }
    }
}

/* --- tests ----------------------------------------------------------------------- */

TEST(meter_agrees_with_a_model)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct world w;
        open_world(&w, seed);
        for (int i = 0; i < STEPS; i++) {
            act(&w, false);
            pass(&w, dice_below(&w.dice, 3) ? dice_below(&w.dice, 100000) : 0);
        }
        struct sums got = span(&w, NULL, 0, INT64_MAX);
        check_same(&got, &w.model);
        CHECK(got.memory[ACTIVE] > 0 && got.storage[SNAPSHOT] > 0);
        close_world(&w);
    }
}

TEST(meter_counts_the_time_that_passed_when_the_clock_is_set)
{
    struct world w;
    open_world(&w, 7);
    for (int i = 0; i < STEPS; i++) {
        act(&w, false);
        pass(&w, dice_below(&w.dice, 50000));
        if (dice_below(&w.dice, 20) == 0) {
            int64_t days = (int64_t)dice_below(&w.dice, 200) - 100;
            dz_clock_set_real(&w.clock, dz_clock_real_ns() + days * 3600 * DZ_NS_PER_S);
        }
    }
    struct sums got = span(&w, NULL, 0, INT64_MAX);
    check_same(&got, &w.model);
    close_world(&w);
}

TEST(meter_parts_add_up_to_the_whole)
{
    struct world w;
    open_world(&w, 11);
    for (int i = 0; i < 1000; i++) {
        act(&w, false);
        pass(&w, dice_below(&w.dice, 100000));
    }
    int64_t first = (int64_t)START_MS * 1000, last = dz_clock_real_ms(), at = first;
    struct sums whole = span(&w, NULL, first, last), sum = {0};
    while (at < last) {
        int64_t next = at + 1 + dice_below(&w.dice, 3000000);
        struct sums part = span(&w, NULL, at, next < last ? next : last);
        for (int k = 0; k < KINDS; k++) {
            sum.ms[k] += part.ms[k];
            sum.memory[k] += part.memory[k];
            sum.storage[k] += part.storage[k];
        }
        at = next;
    }
    check_same(&sum, &whole);
    check_same(&whole, &w.model);
    struct sums none = span(&w, NULL, last, INT64_MAX), other = span(&w, "sbx_none", 0, INT64_MAX);
    check_same(&none, &(struct sums){0});
    check_same(&other, &none);
    close_world(&w);
}

/* --- a recount from events --- */

static int knows(struct world *w, const char *tenant, const char *id)
{
    char *found = NULL;
    int rc = dz_registry_meter_tenant(w->registry, tenant, id, &found, NULL);
    if (rc == 1)
        CHECK_STR(found, "t");
    dz_free(found);
    return rc;
}

struct recount {
    const char *id;
    int state;
    int64_t at;
    struct sums sums;
};

static int on_event(void *arg, const struct dz_registry_event *e)
{
    struct recount *c = arg;
    bool first = strcmp(e->what, "registered") == 0;
    if (!first) {
        c->sums.ms[c->state] += e->at - c->at;
        c->sums.memory[c->state] += c->state == ACTIVE ? (e->at - c->at) * 100 : 0;
    }
    c->at = e->at;
    c->state = strcmp(e->what, "deleted") == 0 ? c->state : state_of(e->detail);
    return 0;
}

TEST(meter_agrees_with_a_recount_from_events)
{
    struct world w;
    struct thing *t = &w.things[0];
    open_world(&w, 13);
    begin(&w, t, false);
    for (int i = 0; i < 300; i++) {
        t->state = (int)dice_below(&w.dice, SNAPSHOT);
        change(&w, t, DZ_COLUMN(state), "moved");
        pass(&w, dice_below(&w.dice, 100000));
    }
    end(&w, t);
    pass(&w, 5000);
    struct recount c = {.id = t->id};
    const struct dz_registry_event_filter f = {.sandbox_id = t->id};
    CHECK_INT(dz_registry_events(w.registry, &f, on_event, &c, NULL), 0);
    struct sums got = span(&w, t->id, 0, INT64_MAX);
    check_same(&got, &c.sums);
    CHECK_INT(knows(&w, "t", t->id), 1);
    CHECK_INT(knows(&w, NULL, t->id), 1);
    CHECK_INT(knows(&w, "u", t->id), 0);
    CHECK_INT(knows(&w, "t", "sbx_none"), 0);
    close_world(&w);
}

TEST(meter_ends_memory_at_the_last_sign_of_life)
{
    struct world w;
    open_world(&w, 17);
    begin(&w, &w.things[0], false);
    w.things[0].state = ACTIVE;
    w.things[0].file = 10;
    change(&w, &w.things[0], DZ_COLUMN(state), NULL);
    CHECK_INT(dz_registry_meter_file(w.registry, w.things[0].id, 10, NULL), 0);
    pass(&w, 60000);
    CHECK_INT(dz_registry_meter_mark(w.registry, NULL), 0);
    dz_clock_advance(&w.clock, 3600 * DZ_NS_PER_S); /* nobody is alive */
    CHECK_INT(dz_registry_meter_resume(w.registry, NULL), 0);
    struct sums got = span(&w, NULL, 0, INT64_MAX);
    CHECK_INT(got.memory[ACTIVE], 60000 * 100);
    CHECK_INT(got.storage[ACTIVE], 60000 * 10);
    CHECK_INT(got.memory[2], 0);
    CHECK_INT(got.storage[2], 3600000 * 10);
    /* The recovery sets the row; a second resume finds nothing to end. */
    w.things[0].state = 2;
    change(&w, &w.things[0], DZ_COLUMN(state), NULL);
    CHECK_INT(dz_registry_meter_resume(w.registry, NULL), 0);
    struct sums again = span(&w, NULL, 0, INT64_MAX);
    check_same(&again, &got);
    close_world(&w);
}

TEST(meter_is_kept_for_its_time)
{
    struct world w;
    size_t n = 0;
    open_world(&w, 19);
    begin(&w, &w.things[0], false);
    pass(&w, 1000);
    end(&w, &w.things[0]);
    begin(&w, &w.things[1], false);
    dz_clock_advance(&w.clock, (DZ_REGISTRY_METER_KEPT_MS - 1000) * DZ_NS_PER_MS);
    CHECK_INT(dz_registry_sweep(w.registry, 100, &n, NULL), 0);
    CHECK_INT(knows(&w, "t", "sbx_1"), 1);
    dz_clock_advance(&w.clock, 2000 * DZ_NS_PER_MS);
    CHECK_INT(dz_registry_sweep(w.registry, 100, &n, NULL), 0);
    CHECK_INT(knows(&w, "t", "sbx_1"), 0);
    CHECK_INT(knows(&w, "t", "sbx_2"), 1);
    close_world(&w);
}

/* SPDX-License-Identifier: MIT
 *
 * bench_rented.c - schedules: planning the next time, and how late ten thousand of them come;
 * meters: the usage of ten thousand sandboxes over thirty days.
 *
 * The second measurement is made once, on the real loop with a registry in a file: 10,000 schedules
 * come in one minute, all of a second at its beginning. What a run does is left out: start()
 * answers at once. So the figure is the engine's and the registry's part; waking the sandboxes
 * comes on top.
 *
 * The journal of meters is made by 10,000 sandboxes that are awake for an hour each day, under a
 * clock that is moved: 600,000 intervals, in a registry in memory, because 600,000 changes of a
 * file wait for its checkpoints. A question of their tenant reads them all.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"
#include "bench.h"
#include "registry/registry_meter.h"
#include "schedule/schedule.h"
#include "schedule/schedule_cron.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SCHEDULES = 10000,
    SECONDS = 60,
    SANDBOXES = 10000,
    DAYS = 30,
};
#define HOUR_MS (INT64_C(3600) * 1000)

static void fail(const char *what, const struct dz_err *err)
{
    (void)fprintf(stderr, "bench: %s: %s\n", what, err->msg);
    exit(1);
}

/* --- planning ---------------------------------------------------------------------------- */

struct plan {
    struct dz_cron cron;
    struct dz_zone *zone;
};

static int run_next(struct bench *b, void *arg, long count)
{
    const struct plan *p = arg;
    int64_t at = 1700000000;
    (void)b;
    for (long i = 0; i < count; i++)
        at = dz_cron_next(&p->cron, p->zone, at);
    return at == INT64_MAX ? -1 : 0;
}

static int run_add(struct bench *b, void *arg, long count)
{
    struct dz_registry *r = arg;
    int64_t seq;
    (void)b;
    for (long i = 0; i < count; i++)
        if (dz_registry_note(r, &(struct dz_registry_event){.what = "yardstick"}, &seq, NULL) < 0)
            return -1;
    return 0;
}

/* --- ten thousand ------------------------------------------------------------------------ */

struct many {
    struct dz_loop *loop;
    size_t count;
    int64_t late[SCHEDULES];
    struct over {
        struct dz_loop_task task;
        struct dz_schedule_run *run;
    } over[SCHEDULES];
};

static void on_over(void *arg)
{
    const struct over *o = arg;
    dz_schedule_run_ended(o->run, 0, 0, NULL);
}

static int start(void *arg, const struct dz_schedule_row *row, struct dz_schedule_run *run,
                 struct dz_err *err)
{
    struct many *m = arg;
    struct over *o = &m->over[m->count];
    (void)err;
    m->late[m->count++] = dz_clock_real_ms() - row->anchor;
    o->run = run;
    dz_loop_task_init(&o->task, m, on_over, o);
    dz_loop_post(m->loop, &o->task);
    if (m->count == SCHEDULES)
        dz_loop_stop(m->loop);
    return 0;
}

static void forget(void *arg, struct dz_schedule_run *run)
{
    (void)arg, (void)run;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void add_all(struct dz_registry *r)
{
    int64_t first = (dz_clock_real_ms() / 1000 + 3) * 1000;
    struct dz_err err;
    for (int i = 0; i < SCHEDULES; i++) {
        char id[DZ_ID_TEXT], name[16];
        if (dz_id_new("sch", id, &err) < 0)
            fail("make an id", &err);
        (void)snprintf(name, sizeof name, "%d", i);
        const int64_t at = first + i % SECONDS * 1000;
        const struct dz_schedule_row row = {.id = id,
                                            .tenant = "bench",
                                            .status = "on",
                                            .sandbox_id = "sbx",
                                            .name = name,
                                            .anchor = at,
                                            .planned = at,
                                            .due = at,
                                            .command = "{}",
                                            .missed = "once",
                                            .overlap = "skip"};
        if (dz_registry_schedule_add(r, &row, false, &err) < 0)
            fail("add a schedule", &err);
    }
}

static void run_all(struct dz_registry *r, struct many *m)
{
    static const struct dz_schedules_host host = {start, forget};
    struct dz_schedules *s;
    struct dz_err err;
    add_all(r);
    if (dz_loop_new(&m->loop, &err) < 0)
        fail("open a loop", &err);
    const struct dz_schedules_opts opts = {.loop = m->loop, .registry = r, .host = &host, .arg = m};
    if (dz_schedules_new(&opts, &s, &err) < 0 || dz_schedules_begin(s, &err) < 0 ||
        dz_loop_run(m->loop, &err) < 0)
        fail("run the schedules", &err);
    dz_loop_settle(m->loop);
    dz_schedules_free(s);
    dz_loop_free(m->loop);
    qsort(m->late, SCHEDULES, sizeof m->late[0], by_size);
}

/* --- meters ------------------------------------------------------------------------------ */

__extension__ typedef unsigned __int128 dz_sum;
struct metered {
    struct dz_registry *registry;
    int64_t *versions;
    int64_t from, to;
    dz_sum memory, storage;
    long intervals;
};

static void set_state(struct metered *m, int i, const char *state)
{
    char id[32];
    struct dz_err err;
    const struct dz_instance to = {.state = state};
    (void)snprintf(id, sizeof id, "sbx_%05d", i);
    const struct dz_registry_change c = {
        .id = id, .version = m->versions[i]++, .set = DZ_COLUMN(state), .to = &to};
    if (dz_registry_change(m->registry, &c, &err) < 0)
        fail("change a state", &err);
}

static void register_all(struct metered *m)
{
    for (int i = 0; i < SANDBOXES; i++) {
        char id[32];
        struct dz_err err;
        const struct dz_instance row = {
            .id = id, .tenant = "t", .state = "suspended", .kind = "wasm", .memory = 1 << 28};
        (void)snprintf(id, sizeof id, "sbx_%05d", i);
        m->versions[i] = 1;
        if (dz_registry_create(m->registry, &row, &err) < 0)
            fail("register a sandbox", &err);
    }
}

/* The clock begins thirty days ago and ends now, so the registry sees no step when it is taken
 * away. */
static void make_journal(struct metered *m)
{
    const int64_t back = DAYS * 24 * HOUR_MS * DZ_NS_PER_MS;
    struct dz_clock_test clock = {.mono_ns = dz_clock_mono_ns(),
                                  .boot_ns = dz_clock_boot_ns() - back,
                                  .real_ns = dz_clock_real_ns() - back};
    struct dz_err err;
    m->versions = dz_zarray(SANDBOXES, sizeof *m->versions);
    if (!m->versions)
        exit(1);
    dz_clock_use(&clock);
    if (dz_registry_open(":memory:", true, &m->registry, &err) < 0)
        fail("open a registry", &err);
    m->from = dz_clock_real_ms();
    register_all(m);
    for (int day = 0; day < DAYS; day++) {
        for (int i = 0; i < SANDBOXES; i++)
            set_state(m, i, "active");
        dz_clock_advance(&clock, HOUR_MS * DZ_NS_PER_MS);
        for (int i = 0; i < SANDBOXES; i++)
            set_state(m, i, "suspended");
        dz_clock_advance(&clock, 23 * HOUR_MS * DZ_NS_PER_MS);
    }
    m->to = dz_clock_real_ms();
    dz_clock_use(NULL);
}

static void add_up(void *arg, const struct dz_registry_interval *i)
{
    struct metered *m = arg;
    uint64_t ms = (uint64_t)(i->until - i->since);
    m->memory += (dz_sum)ms * (uint64_t)i->memory;
    m->storage += (dz_sum)ms * (uint64_t)(i->file + i->cold);
    m->intervals++;
}

static int run_usage(struct bench *b, void *arg, long count)
{
    struct metered *m = arg;
    const struct dz_registry_meter_filter f = {.tenant = "t", .from = m->from, .to = m->to};
    (void)b;
    for (long i = 0; i < count; i++) {
        m->memory = 0;
        m->intervals = 0;
        if (dz_registry_meter_read(m->registry, &f, add_up, m, NULL) < 0)
            return -1;
    }
    return m->memory == (dz_sum)SANDBOXES * DAYS * (uint64_t)HOUR_MS * (1 << 28) ? 0 : -1;
}

int main(void)
{
    char dir[DZ_TEMP_DIR_TEXT], path[DZ_TEMP_DIR_TEXT + 16];
    struct dz_registry *r;
    struct dz_err err;
    struct plan p = {0};
    struct bench b;
    struct many *m = dz_zalloc(sizeof *m);
    if (!m || dz_fd_temp_dir("doze-bench", dir, &err) < 0)
        fail("make a directory", &err);
    (void)snprintf(path, sizeof path, "%s/registry.db", dir);
    if (dz_registry_open(path, true, &r, &err) < 0)
        fail("open a registry", &err);
    if (dz_zone_open(NULL, "Europe/Berlin", &p.zone, &err) < 0 &&
        dz_zone_open(NULL, "UTC", &p.zone, &err) < 0)
        fail("open a zone", &err);
    if (dz_cron_parse("30 2 * * mon-fri", &p.cron, &err) < 0)
        fail("parse an expression", &err);
    struct metered metered = {.registry = NULL};
    make_journal(&metered);
    bench_init(&b, "rented", 15);
    int next = bench_case(&b, "next time of a cron expression", run_next, &p, 1000);
    int note = bench_case(&b, "write an event into the registry", run_add, r, 200);
    int usage = bench_case(&b, "usage of a tenant", run_usage, &metered, 1);
    bench_run(&b);
    bench_row(&b, &(struct bench_row){.row = "next time of a cron expression",
                                      .value = bench_us(&b, next),
                                      .unit = "µs",
                                      .yardstick = bench_us(&b, note),
                                      .yardstick_name = "event written",
                                      .ratio = bench_us(&b, note) / bench_us(&b, next)});
    run_all(r, m);
    static const struct {
        const char *row;
        size_t at;
    } late[] = {{"10,000 schedules in a minute: median lateness", SCHEDULES / 2},
                {"10,000 schedules in a minute: greatest lateness", SCHEDULES - 1}};
    for (size_t i = 0; i < 2; i++)
        bench_row(&b, &(struct bench_row){.row = late[i].row,
                                          .value = (double)m->late[late[i].at],
                                          .unit = "ms",
                                          .budget = 100});
    bench_row(&b, &(struct bench_row){.row = "usage of 10,000 sandboxes over 30 days",
                                      .value = bench_us(&b, usage) / 1000,
                                      .unit = "ms",
                                      .budget = 200});
    dz_zone_free(p.zone);
    (void)dz_registry_close(metered.registry, NULL);
    dz_free(metered.versions);
    (void)dz_registry_close(r, NULL);
    (void)!dz_fd_remove_tree(AT_FDCWD, dir, NULL);
    dz_free(m);
    return bench_finish(&b);
}

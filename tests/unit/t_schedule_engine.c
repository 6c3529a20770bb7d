/* SPDX-License-Identifier: MIT
 * The engine of schedules on a simulated clock: exact times, changes of the clock, policies for
 * missed times and overlaps, a host that refuses, a process that dies. */
#include "tap.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "loop/loop_sim.h"
#include "schedule/schedule.h"

enum {
    RUNS_MAX = 32768,
};
#define BEGIN ((int64_t)1700000000 * 1000) /* 2023-11-14T22:13:20Z */
#define HOUR  ((int64_t)3600 * 1000)

struct world {
    struct dz_clock_test clock;
    struct dz_loop *loop;
    struct dz_registry *registry;
    struct dz_schedules *s;
    int64_t lasts_ms; /* of a command; < 0: until the test ends it */
    int refuse;       /* DZ_E* of start() */
    size_t count, open_count, forgotten;
    int64_t at[RUNS_MAX];
    char who[RUNS_MAX][8];
    struct dz_schedule_run *open[64];
};

static struct world w;

static void over(void *arg)
{
    dz_schedule_run_ended(arg, 0, 0, NULL);
}

static int host_start(void *arg, const struct dz_schedule_row *row, struct dz_schedule_run *run,
                      struct dz_err *err)
{
    (void)arg;
    if (w.refuse)
        return dz_fail(err, w.refuse, "refused");
    CHECK(w.count < RUNS_MAX);
    w.at[w.count] = dz_clock_real_ms();
    (void)snprintf(w.who[w.count++], sizeof w.who[0], "%s", row->name);
    dz_schedule_run_own(run, &w);
    if (w.lasts_ms < 0)
        w.open[w.open_count++] = run;
    else
        CHECK_INT(dz_loop_sim_call(w.loop, w.lasts_ms, over, run, NULL), 0);
    return 0;
}

static void host_forget(void *arg, struct dz_schedule_run *run)
{
    (void)arg;
    CHECK(dz_schedule_run_owned(run) == &w);
    w.forgotten++;
}

static void boot(void)
{
    static const struct dz_schedules_host host = {host_start, host_forget};
    const struct dz_schedules_opts opts = {.loop = w.loop, .registry = w.registry, .host = &host};
    CHECK_INT(dz_schedules_new(&opts, &w.s, NULL), 0);
    CHECK_INT(dz_schedules_begin(w.s, NULL), 0);
}

static void begin(void)
{
    memset(&w, 0, sizeof w);
    w.clock = (struct dz_clock_test){.real_ns = BEGIN * DZ_NS_PER_MS};
    CHECK_INT(dz_loop_sim_new(&w.clock, NULL, NULL, &w.loop, NULL), 0);
    CHECK_INT(dz_registry_open(":memory:", true, &w.registry, NULL), 0);
    boot();
}

static void end(void)
{
    dz_schedules_free(w.s);
    dz_loop_free(w.loop);
    CHECK_INT(dz_registry_close(w.registry, NULL), 0);
}

static void pass(int64_t ms)
{
    int64_t until = dz_clock_real_ms() + ms;
    while (dz_loop_sim_step(w.loop, until))
        ;
}

/* Add a schedule; `times` fills cron, every_ms or anchor, and the policies. */
static void add(const char *name, struct dz_schedule_row row)
{
    const char *field;
    char id[DZ_ID_TEXT];
    CHECK_INT(dz_id_new("sch", id, NULL), 0);
    row.id = id;
    row.name = name;
    row.tenant = row.tenant ? row.tenant : "acme";
    row.sandbox_id = row.sandbox_id ? row.sandbox_id : "sbx";
    row.command = "{}";
    row.status = "on";
    row.cron = row.cron ? row.cron : "";
    row.zone = "";
    row.missed = row.missed ? row.missed : "once";
    row.overlap = row.overlap ? row.overlap : "skip";
    row.anchor = row.anchor ? row.anchor : dz_clock_real_ms();
    CHECK_INT(dz_schedules_plan(w.s, &row, dz_clock_real_ms(), &row.planned, &field, NULL), 0);
    row.due = row.planned;
    CHECK_INT(dz_registry_schedule_add(w.registry, &row, false, NULL), 0);
    dz_schedules_arm(w.s);
}

/* The history of all schedules, the oldest first, as "status status". */
static const char *history(void)
{
    static char out[4096];
    DZ_AUTO(dz_schedule_run_rows_release)
    struct dz_schedule_run_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    const struct dz_registry_record_filter all = {0};
    size_t n = 0;
    CHECK_INT(dz_registry_schedule_run_list(w.registry, &all, &rows, NULL), 0);
    out[0] = '\0';
    for (size_t i = 0; i < rows.n; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%s", i ? " " : "", rows.p[i].status);
    return out;
}

static struct dz_schedule_row the_row(void)
{
    struct dz_schedule_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    const struct dz_registry_record_filter all = {.limit = 1};
    CHECK_INT(dz_registry_schedule_list(w.registry, &all, &rows, NULL), 0);
    CHECK(rows.n == 1);
    struct dz_schedule_row row = rows.p[0];
    rows.n = 0;
    dz_schedule_rows_release(&rows);
    return row;
}

TEST(each_time_comes_exactly_at_its_second)
{
    begin();
    add("cron", (struct dz_schedule_row){.cron = "*/5 * * * *"});
    pass(HOUR);
    CHECK_INT(w.count, 12);
    for (size_t i = 0; i < w.count; i++)
        CHECK_INT(w.at[i], BEGIN + 100 * 1000 + (int64_t)i * 5 * 60 * 1000);
    end();
}

TEST(an_interval_keeps_its_beat_whatever_a_run_lasts)
{
    begin();
    w.lasts_ms = 700;
    add("beat", (struct dz_schedule_row){.every_ms = 1500});
    pass(15000);
    CHECK_INT(w.count, 10);
    for (size_t i = 0; i < w.count; i++)
        CHECK_INT(w.at[i], BEGIN + 1500 * (int64_t)(i + 1));
    end();
}

TEST(one_that_comes_once_is_done)
{
    begin();
    add("once", (struct dz_schedule_row){.anchor = BEGIN + 1234});
    pass(HOUR);
    CHECK_INT(w.count, 1);
    CHECK_INT(w.at[0], BEGIN + 1234);
    struct dz_schedule_row row = the_row();
    CHECK_STR(row.status, "done");
    CHECK_INT(row.due, 0);
    dz_schedule_row_release(&row);
    CHECK_STR(history(), "ok");
    end();
}

TEST(ten_thousand_schedules_come_in_their_seconds)
{
    begin();
    w.lasts_ms = 3;
    for (int i = 0; i < 10000; i++) {
        char name[16], sandbox[16], tenant[16];
        (void)snprintf(name, sizeof name, "%d", i);
        (void)snprintf(sandbox, sizeof sandbox, "sbx%d", i % 500);
        (void)snprintf(tenant, sizeof tenant, "t%d", i % 50);
        /* spread over a minute, and some at the same moment */
        add(name, (struct dz_schedule_row){.anchor = BEGIN + 60000 + (i * 7919 % 60) * 1000,
                                           .sandbox_id = sandbox,
                                           .tenant = tenant});
    }
    pass(3 * 60 * 1000);
    CHECK_INT(w.count, 10000);
    bool seen[10000] = {false};
    for (size_t i = 0; i < w.count; i++) {
        int n = atoi(w.who[i]);
        int64_t planned = BEGIN + 60000 + (n * 7919 % 60) * 1000;
        CHECK(w.at[i] >= planned && w.at[i] < planned + 1000 && !seen[n]);
        seen[n] = true;
    }
    end();
}

/* The starts of a sandbox that does not wake, and then those of its whole tenant, keep no other
 * tenant waiting; what is too much is skipped, and the rest starts when there is room. */
TEST(a_tenant_whose_starts_hang_keeps_no_other_waiting)
{
    begin();
    w.lasts_ms = -1; /* starts, and is neither started nor over */
    for (int i = 0; i < 100; i++) {
        char name[16], sandbox[16];
        (void)snprintf(name, sizeof name, "a%d", i);
        (void)snprintf(sandbox, sizeof sandbox, "sbx%d", i < 50 ? 0 : i);
        add(name, (struct dz_schedule_row){.anchor = BEGIN + 1000, .sandbox_id = sandbox});
    }
    add("b",
        (struct dz_schedule_row){.anchor = BEGIN + 2000, .sandbox_id = "other", .tenant = "zeta"});
    pass(2000);
    CHECK_INT(w.count, 17);
    CHECK_STR(w.who[16], "b");
    CHECK_INT(strlen(history()) > 0 && strstr(history(), "skipped") != NULL, 1);
    size_t of_first = 0;
    for (size_t i = 0; i < w.open_count; i++)
        of_first += atoi(w.who[i] + 1) < 50;
    CHECK(of_first <= 5); /* of its sandbox four, and "b", whose number is 0 */
    while (w.open_count > 0) {
        struct dz_schedule_run *run = w.open[--w.open_count];
        dz_schedule_run_started(run, "exec");
        dz_schedule_run_ended(run, 0, 0, NULL);
        pass(0);
    }
    CHECK_INT(w.count, 1 + 32 + 50);
    end();
}

TEST(a_run_that_is_not_over_skips_queues_or_is_joined)
{
    begin();
    w.lasts_ms = 2500;
    add("a", (struct dz_schedule_row){.every_ms = 1000, .overlap = "skip"});
    pass(3600); /* runs at 1 s, until 3.5 s */
    CHECK_INT(w.count, 1);
    CHECK_STR(history(), "ok skipped skipped");
    end();
    begin();
    w.lasts_ms = 2500;
    add("a", (struct dz_schedule_row){.every_ms = 1000, .overlap = "queue"});
    pass(6100); /* at 1, 3.5 and 6 s */
    CHECK_INT(w.count, 3);
    CHECK_INT(w.at[1], BEGIN + 3500);
    CHECK_STR(history(), "ok ok running");
    end();
    begin();
    w.lasts_ms = 2500;
    add("a", (struct dz_schedule_row){.every_ms = 1000, .overlap = "parallel"});
    pass(3400);
    CHECK_INT(w.count, 3);
    end();
}

static void down_for(int64_t ms)
{
    dz_schedules_free(w.s);
    dz_loop_sim_forget(w.loop);
    dz_clock_advance(&w.clock, ms * DZ_NS_PER_MS);
    boot();
}

TEST(missed_times_are_skipped_or_run_once_or_all)
{
    static const struct {
        const char *policy, *history;
        size_t runs;
    } cases[] = {
        {"skip", "missed", 0},
        {"once", "ok", 1},
        {"all", "ok ok ok ok ok", 5},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++) {
        begin();
        w.lasts_ms = 10;
        add("a", (struct dz_schedule_row){.every_ms = HOUR, .missed = cases[i].policy});
        down_for(5 * HOUR + HOUR / 2);
        pass(60000);
        CHECK_STR(history(), cases[i].history);
        CHECK_INT(w.count, cases[i].runs);
        pass(HOUR); /* the next one is in its time */
        CHECK_INT(w.at[w.count - 1], BEGIN + 6 * HOUR);
        end();
    }
}

TEST(more_missed_times_than_can_wait_are_told)
{
    begin();
    w.lasts_ms = 3;
    add("a", (struct dz_schedule_row){.every_ms = 1000, .missed = "all", .overlap = "parallel"});
    down_for(HOUR);
    pass(500);
    CHECK_INT(w.count, DZ_SCHEDULE_QUEUED_MAX);
    CHECK(strstr(history(), "missed") == NULL); /* 50 are kept, and it is the oldest */
    end();
}

TEST(a_time_that_is_late_by_less_than_a_minute_was_not_missed)
{
    begin();
    add("a", (struct dz_schedule_row){.every_ms = HOUR, .missed = "skip"});
    down_for(HOUR + 59000);
    pass(10);
    CHECK_STR(history(), "ok");
    end();
}

TEST(a_clock_that_is_set_ahead_makes_times_missed_and_one_that_is_set_back_repeats_none)
{
    begin();
    add("a", (struct dz_schedule_row){.cron = "0 * * * *"});
    pass(HOUR); /* 23:00 */
    CHECK_INT(w.count, 1);
    dz_clock_set_real(&w.clock, (BEGIN + 5 * HOUR) * DZ_NS_PER_MS);
    pass(2 * 60000);
    CHECK_INT(w.count, 2); /* once for all */
    /* by two hours: what came does not come again */
    int64_t now = dz_clock_real_ms();
    dz_clock_set_real(&w.clock, (now - 2 * HOUR) * DZ_NS_PER_MS);
    pass(HOUR + HOUR / 2);
    CHECK_INT(w.count, 2);
    pass(2 * HOUR);
    CHECK_INT(w.count, 3);
    /* by a month: it is planned anew from there */
    dz_clock_set_real(&w.clock, (BEGIN - 30 * 24 * HOUR) * DZ_NS_PER_MS);
    pass(HOUR + 60000);
    CHECK_INT(w.count, 4);
    CHECK(w.at[3] < BEGIN);
    end();
}

TEST(a_host_that_is_busy_is_asked_again_and_then_given_up)
{
    begin();
    w.refuse = DZ_EQUOTA;
    add("a", (struct dz_schedule_row){.anchor = BEGIN + 1000});
    pass(5000);
    CHECK_STR(history(), "running");
    w.refuse = 0;
    pass(1500);
    CHECK_INT(w.count, 1);
    CHECK_STR(history(), "ok");
    end();
    begin();
    w.refuse = DZ_EBUSY;
    add("a", (struct dz_schedule_row){.anchor = BEGIN + 1000});
    pass(DZ_SCHEDULE_BUSY_MS + 5000);
    CHECK_STR(history(), "failed");
    end();
    begin();
    w.refuse = DZ_EGONE;
    add("a", (struct dz_schedule_row){.every_ms = 1000});
    pass(2500);
    CHECK_STR(history(), "failed failed");
    end();
}

TEST(a_process_that_dies_loses_its_runs_but_not_their_rows)
{
    begin();
    w.lasts_ms = -1;
    add("a", (struct dz_schedule_row){.every_ms = 1000});
    pass(1500);
    dz_schedule_run_started(w.open[0], "exe_x");
    CHECK_STR(history(), "running");
    down_for(0);
    CHECK_INT(w.forgotten, 1);
    CHECK_STR(history(), "lost");
    pass(600);
    CHECK_STR(history(), "lost running");
    struct dz_schedule_row row = the_row();
    dz_schedules_removed(w.s, row.id);
    CHECK_INT(w.forgotten, 2);
    dz_schedule_row_release(&row);
    end();
}

TEST(a_history_keeps_the_last_runs)
{
    begin();
    add("a", (struct dz_schedule_row){.every_ms = 1000});
    pass(100 * 1000);
    struct dz_schedule_row row = the_row();
    const struct dz_registry_record_filter of = {.alias = row.id};
    int64_t n;
    CHECK_INT(dz_registry_schedule_run_count(w.registry, &of, &n, NULL), 0);
    CHECK_INT(n, DZ_SCHEDULE_RUNS_MAX);
    CHECK_INT(w.count, 100);
    dz_schedule_row_release(&row);
    end();
}

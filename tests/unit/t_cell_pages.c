/* SPDX-License-Identifier: MIT
 * Memories outside of this process in the rows of a machine: a model with plain arrays sleeps, is
 * killed and wakes, beside a program of WebAssembly in the same machine. */
#define TAP_ALARM_S 50
#include "../lib/native_world.h"
#include "tap.h"

#include "machine/machine_inspect.h"
#include "machine/machine_int.h"

static struct native_world slept;

static void begin(struct world *w, uint64_t seed, bool marks)
{
    memset(&native, 0, sizeof native);
    memset(&native_host, 0, sizeof native_host);
    native.next_id = 1;
    native_host.marks = marks;
    world_new(w, seed);
    w->more_ops = native_all;
    CHECK_INT(world_start(w), 0);
}

static void again(struct world *w)
{
    world_crash(w);
    memset(&native, 0, sizeof native);
    native_host.held = false;
    native_host.released = 0;
    CHECK_INT(world_wake(w), 0);
    CHECK_INT(native_host.released, 1);
    CHECK(!native_host.held);
}

static void done(struct world *w)
{
    world_crash(w);
    world_free(w);
}

static struct dz_machine_stats stats_of(const struct world *w)
{
    struct dz_machine_stats s;
    dz_machine_stats_get(w->machine, &s);
    return s;
}

/* Chains of sleeps: with a new process after each, or running on. */
static void live(uint64_t seed, bool marks)
{
    struct world w;
    uint64_t dice = seed;
    begin(&w, seed, marks);
    for (int round = 0; round < 40; round++) {
        native_work(&dice, 1 + dice_below(&dice, 60));
        const bool goes_on = dice_below(&dice, 3) == 0;
        const struct dz_machine_how how = {.policy = "posix", .goes_on = goes_on};
        slept = native;
        CHECK_INT(dz_machine_sleep(w.machine, w.kernel, w.vfs, &how, &w.err), 0);
        CHECK(native_host.held == !goes_on);
        CHECK(native_same(&native, &slept));
        const bool tidy = goes_on || dice_below(&dice, 2);
        if (!goes_on && tidy)
            world_tidy(&w);
        if (tidy) {
            const struct dz_machine_stats s = stats_of(&w);
            CHECK(s.garbage <= s.live);
        }
        if (!goes_on || dice_below(&dice, 2)) {
            again(&w);
            CHECK(native_same(&native, &slept));
        }
        CHECK_INT(world_damage(&w), 0);
    }
    done(&w);
}

TEST(a_memory_is_the_same_after_each_sleep)
{
    for (uint64_t seed = 1; seed <= 6; seed++)
        live(seed, true);
}
TEST(a_host_that_notes_no_writes_loses_nothing)
{
    for (uint64_t seed = 11; seed <= 13; seed++)
        live(seed, false);
}

/* Where no writes are noted, pages are compared: only those that changed are written. */
TEST(pages_that_did_not_change_are_not_written)
{
    struct world w;
    begin(&w, 15, false);
    struct native_memory *m = native_new(DZ_MACHINE_PRIVATE);
    for (uint32_t page = 0; page < NATIVE_PAGES; page++)
        native_put(m, page, page + 1);
    CHECK_INT(world_sleep(&w), 0);
    again(&w);
    for (int round = 0; round < 3; round++) {
        native_put(&native.of[0], 7, 7 + 1); /* the same content */
        slept = native;
        const struct dz_machine_how how = {.policy = "posix", .goes_on = true};
        CHECK_INT(dz_machine_sleep(w.machine, w.kernel, w.vfs, &how, &w.err), 0);
        CHECK(stats_of(&w).pages < 32); /* of the module's memory */
        native_put(&native.of[0], 200 + (uint32_t)round, 99);
        native_put(&native.of[0], 300, 1000 + (uint32_t)round);
        slept = native;
        CHECK_INT(world_sleep(&w), 0);
        CHECK(stats_of(&w).pages >= 2 && stats_of(&w).pages < 34);
        again(&w);
        CHECK(native_same(&native, &slept));
    }
    done(&w);
}

/* A wake writes the pages of a row in one step, although they lie in three places. */
TEST(a_row_is_written_at_once)
{
    struct world w;
    begin(&w, 17, false);
    struct native_memory *m = native_new(DZ_MACHINE_PRIVATE);
    for (uint32_t page = 0; page < NATIVE_PAGES; page += 1 + page % 3)
        native_put(m, page, page + 1);
    slept = native;
    CHECK_INT(world_sleep(&w), 0);
    const uint64_t rows = stats_of(&w).rows;
    native_host.writes = 0;
    again(&w);
    CHECK(native_same(&native, &slept));
    CHECK(rows >= 3 && native_host.writes > 0 && native_host.writes <= rows);
    done(&w);
}

/* The pages of small programs are not packed, because packing would cost each wake time. */
TEST(few_pages_are_not_packed)
{
    for (int memories = 1; memories <= 3; memories += 2) {
        struct world w;
        begin(&w, 18, false);
        for (int i = 0; i < memories; i++) {
            struct native_memory *m = native_new(DZ_MACHINE_PRIVATE);
            for (uint32_t page = 0; page < NATIVE_PAGES; page++)
                native_put(m, page, page + 1);
        }
        CHECK_INT(world_sleep(&w), 0);
        const struct dz_machine_stats s = stats_of(&w);
        CHECK(s.pages >= (uint64_t)memories * NATIVE_PAGES);
        CHECK((s.bytes >= s.pages * NATIVE_PAGE) == (memories == 1));
        done(&w);
    }
}

/* A sleep reads and writes only pages that were written, and forgets pages that were freed. */
TEST(only_written_pages_are_read)
{
    struct world w;
    begin(&w, 20, true);
    struct native_memory *m = native_new(DZ_MACHINE_PRIVATE);
    for (uint32_t page = 0; page < NATIVE_PAGES; page++)
        native_put(m, page, page + 1);
    CHECK_INT(world_sleep(&w), 0);
    again(&w);
    native_put(&native.of[0], 7, 99);
    native_put(&native.of[0], 8, 0);                 /* zeros over zeros */
    native_put(&native.of[0], 2 * NATIVE_REGION, 0); /* and over a file */
    native_clear(&native.of[0], 9);
    native_clear(&native.of[0], NATIVE_PAGES - 1);
    native_host.bytes_read = 0;
    slept = native;
    CHECK_INT(world_sleep(&w), 0);
    CHECK_INT(native_host.bytes_read, 3 * NATIVE_PAGE);
    again(&w);
    CHECK(native_same(&native, &slept));
    CHECK(!native.of[0].pages[8].own && !native.of[0].pages[9].own); /* nothing was laid there */
    CHECK(native.of[0].pages[2 * NATIVE_REGION].own);
    CHECK(!native.of[0].pages[NATIVE_PAGES - 1].own);
    native.of[0].used = false; /* all of its pages go, and with them their rows */
    CHECK_INT(world_sleep(&w), 0);
    world_tidy(&w);
    CHECK(stats_of(&w).live < 64);
    again(&w);
    CHECK(native_same(&native, &(struct native_world){.next_id = 2}));
    done(&w);
}

/* --- failures -------------------------------------------------------------------------------- */

static struct native_world before;

/* A machine that slept once; a second one is attempted. */
static void asleep(struct world *w, uint64_t seed)
{
    uint64_t dice = seed;
    begin(w, seed, true);
    native_work(&dice, 60);
    CHECK_INT(world_sleep(w), 0);
    world_tidy(w);
    before = native;
    world_crash(w);
    native_host.held = false;
}

static bool attempt(struct world *w, uint64_t seed)
{
    uint64_t dice = seed + 1000;
    slept = before;
    int rc = world_wake(w);
    if (rc == 0) {
        native_work(&dice, 60);
        slept = native;
        rc = world_sleep(w);
        CHECK(native_host.held == (rc == 0));
        CHECK(native_same(&native, &slept)); /* it may go on after a failure, too */
        if (rc == 0)
            world_tidy(w);
    }
    world_crash(w);
    native_host.held = false;
    return rc == 0;
}

/* The file holds the machine before or the one after; the latter if the sleep said so. */
static void check_instants(struct world *w, bool acknowledged)
{
    memset(&native, 0, sizeof native);
    CHECK_INT(world_wake(w), 0);
    CHECK(native_same(&native, &slept) || (!acknowledged && native_same(&native, &before)));
    CHECK_INT(world_damage(w), 0);
    done(w);
}

TEST(a_power_cut_leaves_one_of_two_machines)
{
    bool whole = false;
    for (long cut = 0; !whole && cut < 400; cut++) {
        struct world w;
        asleep(&w, 30);
        dz_db_sim_cut_at(w.sim, cut);
        const bool acknowledged = attempt(&w, 30);
        whole = !dz_db_sim_is_off(w.sim);
        CHECK_INT(dz_db_sim_power_on(w.sim), 0);
        check_instants(&w, acknowledged);
    }
    CHECK(whole);
}

TEST(each_call_of_the_disk_fails_once)
{
    bool whole = false;
    for (long at = 0; !whole && at < 1000; at++) {
        struct world w;
        asleep(&w, 40);
        dz_db_sim_fail_at(w.sim, DZ_DB_SIM_ANY, at, EIO, false);
        const bool acknowledged = attempt(&w, 40);
        whole = !dz_db_sim_failed(w.sim);
        dz_db_sim_fail_at(w.sim, DZ_DB_SIM_ANY, -1, 0, false);
        check_instants(&w, acknowledged);
    }
    CHECK(whole);
}

/* At every third allocation. */
TEST(each_allocation_fails_once)
{
    bool failed = true;
    for (long n = 0; failed && n < 4000; n += 3) {
        struct world w;
        asleep(&w, 45);
        dz_mem_fail_at(n, false);
        const bool acknowledged = attempt(&w, 45);
        failed = dz_mem_failed();
        dz_mem_fail_at(-1, false);
        check_instants(&w, acknowledged);
    }
    CHECK(!failed);
}

/* A sleep that fails changes nothing: the programs go on, and the next sleep has everything. */
TEST(a_full_disk_keeps_the_programs_running)
{
    struct world w;
    uint64_t dice = 48;
    asleep(&w, 47);
    CHECK_INT(world_wake(&w), 0);
    native_work(&dice, 60);
    dz_db_sim_set_capacity(w.sim, 0);
    CHECK(world_sleep(&w) < 0);
    CHECK(!native_host.held);
    dz_db_sim_set_capacity(w.sim, -1);
    native_work(&dice, 60);
    slept = native;
    CHECK_INT(world_sleep(&w), 0);
    again(&w);
    CHECK(native_same(&native, &slept));
    done(&w);
}

/* --- hostile files ---------------------------------------------------------------------------- */

/* Change one byte in one row of a table, and wake. */
static int damaged(const char *find, const char *put, size_t at, struct world *w)
{
    int rc = world_open(w, true);
    CHECK_INT(rc, 0);
    {
        DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(w->db, find);
        CHECK_INT(dz_stmt_step(st, &w->err), 1);
        size_t size;
        const void *bytes = dz_col_blob(st, 0, &size);
        DZ_AUTO(dz_freep) uint8_t *copy = dz_alloc(size);
        memcpy(copy, bytes, size);
        copy[at % size] ^= 0x40;
        DZ_AUTO(dz_stmt_resetp) struct dz_stmt *to = dz_db_stmt(w->db, put);
        dz_bind_blob(to, 1, copy, size);
        dz_stmt_reset(st);
        CHECK_INT(dz_stmt_run(to, &w->err), 0);
    }
    world_crash(w);
    memset(&native, 0, sizeof native);
    native_host.held = false;
    return world_wake(w);
}

TEST(damage_is_found)
{
    static const char *const rows[][2] = {
        {"SELECT value FROM machine WHERE part='pages' AND key=0",
         "UPDATE machine SET value=?1 WHERE part='pages' AND key=0"},
        {"SELECT data FROM mem ORDER BY gen,seq LIMIT 1",
         "UPDATE mem SET data=?1 WHERE rowid=(SELECT rowid FROM mem ORDER BY gen,seq LIMIT 1)"},
        {"SELECT value FROM machine WHERE part='state' AND key=0",
         "UPDATE machine SET value=?1 WHERE part='state' AND key=0"},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(rows); i++)
        for (size_t at = 0; at < 120; at += 7) {
            struct world w;
            uint64_t dice = 51;
            begin(&w, 50, true);
            native_work(&dice, 50);
            CHECK_INT(world_sleep(&w), 0);
            world_crash(&w);
            const int rc = damaged(rows[i][0], rows[i][1], at, &w);
            CHECK(rc == DZ_ECORRUPT || rc == DZ_EUNSUPPORTED);
            done(&w);
        }
}

/* The list is checked when its checksum is right, too. */
static int with_list(const uint64_t *numbers, size_t n)
{
    struct world w;
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(4096);
    uint64_t sum = 0;
    begin(&w, 60, true);
    native_put(native_new(DZ_MACHINE_PRIVATE), 0, 1);
    CHECK_INT(world_sleep(&w), 0);
    world_crash(&w);
    dz_buf_add(&b, &sum, sizeof sum);
    for (size_t i = 0; i < n; i++)
        dz_record_put_number(&b, numbers[i]);
    sum = dz_machine_sum(3, b.p + sizeof sum, b.len - sizeof sum);
    memcpy(b.p, &sum, sizeof sum);
    CHECK_INT(world_open(&w, true), 0);
    {
        DZ_AUTO(dz_stmt_resetp)
        struct dz_stmt *to = dz_db_stmt(w.db, "UPDATE machine SET value=?1 WHERE part='pages'");
        dz_bind_blob(to, 1, b.p, b.len);
        CHECK_INT(dz_stmt_run(to, &w.err), 0);
    }
    world_crash(&w);
    memset(&native, 0, sizeof native);
    native_host.held = false;
    const int rc = world_wake(&w);
    done(&w);
    return rc;
}
#define LIST(...)                              \
    with_list((const uint64_t[]){__VA_ARGS__}, \
              sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

TEST(the_list_of_pages_is_not_believed)
{
    /* rows: generation 1, number 0; memories: private, number 1, one extent */
    CHECK_INT(LIST(1, 1, 0, 1, 1, 1, 1, 16, 1, 0), 0);
    CHECK_INT(LIST(1, 1, 0, 1, 1, 1, 1, 16, 1, 0, 7), DZ_ECORRUPT); /* more bytes */
    CHECK_INT(LIST(1, 1, 0, 1, 1, 1, 1, 16, 1), DZ_ECORRUPT);       /* fewer */
    CHECK_INT(LIST(1, 1, 0, 1, 1, 1, 1, 17, 1, 0), DZ_ECORRUPT);    /* not in the row */
    CHECK_INT(LIST(1, 1, 0, 1, 1, 1, 1, 16, 2, 0), DZ_ECORRUPT);    /* not all */
    CHECK_INT(LIST(1, 1, 0, 1, 1, 1, 1, 16, 0, 0), DZ_ECORRUPT);    /* none */
    CHECK_INT(LIST(1, 1, 0, 1, 1, 1, 1, 16, 1, 1), DZ_ECORRUPT);    /* no such row */
    CHECK_INT(LIST(1, 1, 9, 1, 1, 1, 1, 16, 1, 0), DZ_ECORRUPT);    /* nor here */
    CHECK_INT(LIST(1, 1, 0, 1, 1, 1, 1, UINT64_MAX, 1, 0), DZ_ECORRUPT);
    CHECK_INT(LIST(1, 1, 0, 1, 1, 1, 1, 16, UINT64_MAX, 0), DZ_ECORRUPT);
    CHECK_INT(LIST(1, 1, 0, 1, 3, 1, 1, 16, 1, 0), DZ_ECORRUPT);          /* kind */
    CHECK_INT(LIST(1, 1, 0, 1, 1, UINT64_MAX, 1, 16, 1, 0), DZ_ECORRUPT); /* id */
    CHECK_INT(LIST(1, 1, 0, 1, 1, 2, 1, 16, 1, 0), DZ_ECORRUPT);          /* no such memory */
    CHECK_INT(LIST(1, 1, 0, 2, 1, 1, 0, 1, 1, 1, 16, 1, 0), DZ_ECORRUPT); /* twice */
    CHECK_INT(LIST(1, 1, 0, 1, 1, 1, 2, 16, 1, 0, 0, 1, 0), DZ_ECORRUPT); /* more than a row */
    CHECK_INT(LIST(2, 1, 0, 1, 0, 1, 1, 1, 1, 16, 1, 0), DZ_ECORRUPT);    /* a row twice */
    CHECK_INT(LIST(2, 1, 1, 1, 0, 1, 1, 1, 1, 16, 1, 1), DZ_ECORRUPT);    /* order */
    CHECK_INT(LIST(UINT64_MAX, 1, 0), DZ_ECORRUPT);
    CHECK_INT(LIST(1, INT64_MAX, 0, 1, 1, 1, 1, 16, 1, 0), DZ_ECORRUPT);
    CHECK_INT(LIST(1, 1, 0, UINT64_MAX), DZ_ECORRUPT);
    CHECK_INT(LIST(1, 1, 0, 1, 1, 1, UINT64_MAX), DZ_ECORRUPT);
}

/* --- inspecting, and cells without native programs
 * ------------------------------------------------ */

static int look(void *arg, const struct dz_inspect_proc *p, struct dz_err *err)
{
    (void)p, (void)err;
    ++*(int *)arg;
    return 0;
}

TEST(pages_count_when_a_machine_is_inspected)
{
    struct world w;
    struct dz_inspect_total total;
    int procs = 0;
    begin(&w, 70, true);
    CHECK_INT(world_sleep(&w), 0);
    const uint64_t live = stats_of(&w).live;
    again(&w);
    struct native_memory *m = native_new(DZ_MACHINE_OBJECT);
    for (uint32_t page = 0; page < 40; page++)
        native_put(m, page, page + 1);
    CHECK_INT(world_sleep(&w), 0);
    world_crash(&w);
    w.more_ops = NULL;
    CHECK_INT(world_open(&w, true), 0);
    const struct dz_inspect_ops ops = {.proc = look, .arg = &procs};
    CHECK_INT(dz_machine_inspect(w.machine, &ops, &total, &w.err), 0);
    CHECK_INT(procs, 1);
    CHECK_INT(total.pages_live, live + 40);
    world_crash(&w);
    CHECK_INT(world_wake(&w), DZ_EUNSUPPORTED);
    CHECK(strstr(w.err.msg, "of the kind linux"));
    done(&w);
}

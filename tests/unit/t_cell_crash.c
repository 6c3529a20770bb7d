/* SPDX-License-Identifier: MIT
 * Sleep and wake while calls fail, the disk fills up, memory runs out and the power
 * goes: the file is the machine before, the machine after, or says memory_lost. */
#include "../lib/sleep_world.h"
#include "tap.h"

/* Asleep after the first byte: what every test begins with. */
static void asleep(struct world *w, uint64_t seed)
{
    world_new(w, seed);
    CHECK_INT(world_start(w), 0);
    world_feed(w, '1');
    CHECK_STR(w->said, "1");
    CHECK_INT(world_sleep(w), 0);
    world_crash(w);
}

/* What does the next one find who opens the file? */
static void check_found(struct world *w, enum dz_machine_found want)
{
    CHECK_INT(world_open(w, false), 0);
    CHECK_INT(dz_machine_found(w->machine), want);
    world_crash(w);
}

/* Awake, the program is given an x; it is not run yet. */
static void wake_with_input(struct world *w)
{
    CHECK_INT(world_wake(w), 0);
    (void)dz_kernel_stream_push(w->kernel, w->in, "x", 1);
}

/* Generations are folded: what no page lives in goes, and most of the rest is alive. */
TEST(memory_in_the_file_does_not_grow)
{
    struct world w;
    asleep(&w, 8);
    for (int i = 0; i < 40; i++) {
        struct dz_machine_stats stats;
        CHECK_INT(world_wake(&w), 0);
        CHECK(world_feed(&w, (char)('a' + i % 26)));
        CHECK_INT(world_sleep(&w), 0);
        dz_machine_stats_get(w.machine, &stats);
        CHECK(stats.rows <= 5); /* what one sleep replaced waits for tidying, or for the next */
        if (i % 3)
            world_tidy(&w);
        dz_machine_stats_get(w.machine, &stats);
        CHECK((i % 3 == 0 || stats.garbage <= stats.live) && stats.live > 0 && stats.live <= 8);
        CHECK(stats.rows <= 4 + (i % 3 == 0) && stats.pages <= 8);
        world_crash(&w);
    }
    world_free(&w);
}

static uint8_t *page_of(struct world *w, uint32_t page)
{
    struct dz_wasm_inst *inst = dz_kernel_wasm_inst(dz_kernel_task(w->kernel, 2));
    return dz_wasm_mem(inst, 0, (uint64_t)page * DZ_MACHINE_PAGE, DZ_MACHINE_PAGE);
}

/* Some pages at each round and one of the others: what a row holds dies but for that. */
TEST(rows_that_are_mostly_garbage_are_emptied)
{
    enum {
        FIRST = 8,
        PAGES = 8,
        ROUNDS = 60,
    };
    struct world w;
    int32_t want[PAGES] = {0};
    size_t most = 0;
    asleep(&w, 9);
    for (int i = 0; i < ROUNDS; i++) {
        struct dz_machine_stats stats;
        CHECK_INT(world_wake(&w), 0);
        for (uint32_t p = 0; p < PAGES; p++) {
            CHECK(memcmp(page_of(&w, FIRST + p), &want[p], sizeof want[p]) == 0);
            if (i == 0 || p < PAGES / 2 ||
                p == PAGES / 2 +
                         (uint32_t)i % (PAGES / 2)) { /* sometimes as it was at first: zeros */
                want[p] = i % 5 == 4 ? 0 : i * 8 + (int32_t)p + 1;
                memcpy(page_of(&w, FIRST + p), &want[p], sizeof want[p]);
            }
        }
        CHECK_INT(world_sleep(&w), 0);
        world_tidy(&w);
        dz_machine_stats_get(w.machine, &stats);
        CHECK(stats.garbage <= stats.live);
        most = stats.garbage > most ? stats.garbage : most;
        world_crash(&w);
    }
    CHECK(most > 1); /* there was some to be folded */
    world_free(&w);
}

TEST(a_machine_goes_on_in_another_process)
{
    struct world w;
    asleep(&w, 1);
    for (char c = '2'; c < '9'; c++) {
        CHECK_INT(world_wake(&w), 0);
        CHECK_INT(world_memory(&w), c - 1);
        (void)world_feed(&w, c);
        CHECK_INT(world_memory(&w), c);
        CHECK_INT(world_sleep(&w), 0);
        if (c % 2) { /* it may also go on after it was written */
            (void)world_feed(&w, ++c);
            CHECK_INT(world_sleep(&w), 0);
        }
        world_crash(&w);
    }
    CHECK_STR(w.said, "12345678");
    CHECK_INT(world_wake(&w), 0);
    CHECK_STR(world_log(&w), "12345678");
    (void)dz_kernel_stream_eof(w.kernel, w.in);
    world_run(&w);
    struct dz_job job = {0};
    CHECK_INT(dz_kernel_event(w.kernel, &job), 1);
    CHECK_INT(job.status, 0);
    CHECK_INT(dz_machine_drop(w.machine, w.vfs, &w.err), 0);
    world_crash(&w);
    check_found(&w, DZ_MACHINE_NONE);
    world_free(&w);
}

TEST(a_program_whose_file_is_gone_is_in_the_machine)
{
    struct world w;
    uint64_t dir;
    asleep(&w, 2);
    CHECK_INT(world_wake(&w), 0);
    w.no_ino = true;
    CHECK_INT(dz_vfs_resolve(w.vfs, "/bin", &dir), 0);
    CHECK_INT(dz_vfs_unlink(w.vfs, dir, "g", 1), 0);
    CHECK_INT(world_sleep(&w), 0);
    world_crash(&w);
    CHECK_INT(world_wake(&w), 0);
    (void)world_feed(&w, '2');
    CHECK_STR(w.said, "12");
    world_crash(&w);
    world_free(&w);
}

TEST(a_machine_that_ran_on_is_lost_and_says_so)
{
    struct world w;
    asleep(&w, 3);
    CHECK_INT(world_wake(&w), 0);
    world_crash(&w); /* before it did anything: nothing is lost */
    CHECK_INT(world_wake(&w), 0);
    (void)world_feed(&w, '2');
    CHECK_STR(w.said, "12");
    world_crash(&w);
    CHECK_INT(world_open(&w, false), 0);
    CHECK_INT(dz_machine_found(w.machine), DZ_MACHINE_LOST);
    CHECK_STR(world_log(&w), "12");
    CHECK_INT(dz_machine_drop(w.machine, w.vfs, &w.err), 0);
    world_crash(&w);
    check_found(&w, DZ_MACHINE_NONE);
    world_free(&w);
}

/* Output alone, without a change to any file, is something that happened. */
TEST(nothing_is_said_before_it_is_written_that_it_ran)
{
    struct world w;
    asleep(&w, 4);
    wake_with_input(&w);
    world_run(&w);
    CHECK_STR(w.said, "1x");
    world_crash(&w);
    check_found(&w, DZ_MACHINE_LOST);
    world_free(&w);
}

/* The commit of that fails: the next one does it, and until then nothing is said. */
TEST(a_mark_that_failed_is_made_again)
{
    struct world w;
    asleep(&w, 7);
    wake_with_input(&w);
    dz_db_sim_fail_at(w.sim, 1u << DZ_DB_SIM_WRITE, 0, EIO, true);
    CHECK_INT(dz_kernel_run(w.kernel, INT64_MAX, &w.err), DZ_KERNEL_FAILED);
    CHECK_STR(w.said, "1");
    dz_db_sim_fail_at(w.sim, 0, -1, 0, false);
    world_run(&w);
    CHECK_STR(w.said, "1x");
    world_crash(&w);
    check_found(&w, DZ_MACHINE_LOST);
    world_free(&w);
}

/* What may be found after whatever happened between the wake and the second sleep. */
static void check_instants(struct world *w, bool acknowledged)
{
    int rc = world_open(w, true);
    CHECK_INT(rc, 0);
    if (rc < 0) {
        printf("# %s\n", w->err.msg);
        world_crash(w);
        return;
    }
    enum dz_machine_found found = dz_machine_found(w->machine);
    bool one = strcmp(world_log(w), "1") == 0, two = strcmp(world_log(w), "12") == 0;
    CHECK(one || two);
    CHECK(found != DZ_MACHINE_NONE);
    CHECK(!acknowledged || (found == DZ_MACHINE_ASLEEP && two));
    CHECK_INT(world_damage(w), 0);
    world_crash(w);
    if (found != DZ_MACHINE_ASLEEP)
        return;
    w->said_len = 0;
    CHECK_INT(world_wake(w), 0);
    char memory = world_memory(w);
    if (memory != '?')                      /* it may have been killed for want of memory */
        CHECK_INT(memory, one ? '1' : '2'); /* of one instant with the files */
    CHECK(world_feed(w, '3'));
    CHECK(memory == '?' || (w->said_len > 0 &&
                            w->said[w->said_len - 1] == '3')); /* perhaps the 2 was not said yet */
    CHECK_INT(world_sleep(w), 0);
    world_crash(w);
}

/* Wake, work, sleep, with something prepared to go wrong; did the sleep say 0? */
static bool attempt(struct world *w)
{
    int rc = world_wake(w);
    if (rc == 0) {
        rc = world_feed(w, '2') ? 0 : DZ_EIO;
        int slept = world_sleep(w);
        if (slept == 0)
            world_tidy(w);
        rc = rc ? rc : slept;
    }
    world_crash(w);
    return rc == 0;
}

TEST(the_power_goes_at_each_change)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        bool whole = false;
        for (long cut = 0; !whole && cut < 400; cut++) {
            struct world w;
            asleep(&w, seed);
            dz_db_sim_cut_at(w.sim, cut);
            bool acknowledged = attempt(&w);
            whole = !dz_db_sim_is_off(w.sim);
            CHECK_INT(dz_db_sim_power_on(w.sim), 0);
            check_instants(&w, acknowledged);
            world_free(&w);
        }
        CHECK(whole);
    }
}

TEST(each_call_fails_once)
{
    bool whole = false;
    for (long at = 0; !whole && at < 400; at++) {
        struct world w;
        asleep(&w, 9);
        dz_db_sim_fail_at(w.sim, DZ_DB_SIM_ANY, at, EIO, false);
        bool acknowledged = attempt(&w);
        whole = !dz_db_sim_failed(w.sim);
        dz_db_sim_fail_at(w.sim, DZ_DB_SIM_ANY, -1, 0, false);
        check_instants(&w, acknowledged);
        world_free(&w);
    }
    CHECK(whole);
}

/* A sleep that fails leaves the machine running; with room again it sleeps. */
TEST(a_full_disk_keeps_it_awake)
{
    struct world w;
    asleep(&w, 5);
    CHECK_INT(world_wake(&w), 0);
    (void)world_feed(&w, '2');
    dz_db_sim_set_capacity(w.sim, 0);
    CHECK(world_sleep(&w) < 0);
    dz_db_sim_set_capacity(w.sim, -1);
    (void)world_feed(&w, '3');
    CHECK_STR(w.said, "123");
    CHECK_INT(world_sleep(&w), 0);
    world_crash(&w);
    CHECK_INT(world_wake(&w), 0);
    CHECK_STR(world_log(&w), "123");
    CHECK_INT(world_memory(&w), '3');
    world_crash(&w);
    world_free(&w);
}

/* At every fourth allocation: each run makes a machine anew, and tests end in 10 s. */
static void starve(bool sticky, long first)
{
    bool failed = true;
    long n = first;
    for (; failed && n < 2000; n += 4) {
        struct world w;
        asleep(&w, 6);
        dz_mem_fail_at(n, sticky);
        bool acknowledged = attempt(&w);
        dz_mem_fail_at(-1, false);
        failed = dz_mem_failed();
        check_instants(&w, acknowledged);
        world_free(&w);
    }
    printf("# %ld allocations\n", n - 4);
    CHECK(!failed && n > 100);
}

TEST(memory_runs_out_once)
{
    starve(false, 0);
}

TEST(memory_runs_out_for_good)
{
    starve(true, 2);
}

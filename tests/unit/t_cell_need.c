/* SPDX-License-Identifier: MIT
 * Memory that comes when it is touched: a machine in this process, whose program has room
 * for 100 pages of 64 KiB that the tests write to and read as the engine does. */
#define TAP_ALARM_S 40
#include "../lib/dice.h"
#include "../lib/need_ops.h"
#include "base/fd.h"
#include "base/mem.h"
#include "machine/machine_mem.h"
#include "os/os_probe.h"
#include "tap.h"
#include "wasm/wasm_rt.h"

#include <sys/wait.h>

enum {
    PAGE = DZ_MACHINE_PAGE,
    FIRST = 16, /* page of the tests' own */
    PAGES = 1500,
    BASED = PAGES + 3, /* a page that its module has bytes for, and nobody writes to */
    WASM_PAGES = 100,
};
static uint32_t values[PAGES];           /* what each page is made of; 0: zeros */
static size_t absent_calls, absent_most; /* mappings that were asked for, and that are to be had */
static bool absent_half;                 /* one that is not to be had is new pages all the same */

static int on_absent(void *arg, void *at, size_t size, struct dz_err *err)
{
    if (absent_calls++ >= absent_most) {
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        if (absent_half && mmap(at, size, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
            abort();
        return dz_fail(err, DZ_ENOMEM, "no more mappings");
    }
    return need_absent(arg, at, size, err);
}

static void by_need(struct world *w)
{
    need_all(w);
    w->ops.make_missing = on_absent;
}

/* No marks: a sleep compares with the file. */
static void by_need_unmarked(struct world *w)
{
    by_need(w);
    w->ops.mark = NULL;
}

/* --- its memory ------------------------------------------------------------------------------ */

static struct dz_wasm_inst *inst_of(struct world *w)
{
    return dz_kernel_wasm_inst(dz_kernel_task(w->kernel, 2));
}

/* As the engine: nobody is told. */
static uint8_t *raw(struct world *w, uint32_t page)
{
    return dz_wasm_mem_base(inst_of(w), 0) + (size_t)(FIRST + page) * PAGE;
}

static void make_page(uint8_t *at, uint32_t page, uint32_t value)
{
    for (uint32_t i = 0; i < PAGE; i += 4) {
        uint32_t word = value ? value * 2654435761u + page * 977 + (i % 64 ? i / 64 : i) : 0;
        memcpy(at + i, &word, sizeof word);
    }
}

static void put_page(struct world *w, uint32_t page, uint32_t value)
{
    values[page] = value;
    make_page(raw(w, page), page, value);
}

static bool is_right(struct world *w, uint32_t page)
{
    uint8_t want[PAGE];
    make_page(want, page, values[page]);
    return memcmp(raw(w, page), want, PAGE) == 0;
}

static bool all_right(struct world *w)
{
    for (uint32_t page = 0; page < PAGES; page++)
        if (!is_right(w, page)) {
            printf("# page %u\n", page);
            return false;
        }
    return true;
}

static uint64_t absent(struct world *w)
{
    struct dz_machine_stats stats;
    dz_machine_stats_get(w->machine, &stats);
    return stats.missing;
}

/* --- its life --------------------------------------------------------------------------------- */

/* The program of guest_wasm.h, with more memory, in which "base" stands where page BASED
 * begins. */
static void more_memory(struct world *w)
{
    static const uint8_t memory[] = {0x05, 0x03, 0x01, 0x00, 0x01};
    static const uint8_t data[] = {0x0b, 0x1d, 0x01, 0x00, 0x41, 0x80, 0x08, 0x0b, 0x16};
    const uint32_t base = (FIRST + BASED) * PAGE;
    const uint8_t more[] = {0x00,
                            0x41,
                            (uint8_t)(base & 0x7f) | 0x80,
                            (uint8_t)(base >> 7 & 0x7f) | 0x80,
                            (uint8_t)(base >> 14 & 0x7f) | 0x80,
                            (uint8_t)(base >> 21 & 0x3f),
                            0x0b,
                            4,
                            'b',
                            'a',
                            's',
                            'e'};
    uint8_t bytes[sizeof guest_wasm + sizeof more];
    size_t size = 0;
    memcpy(bytes, guest_wasm, sizeof guest_wasm);
    uint8_t *at = memmem(bytes, sizeof guest_wasm, memory, sizeof memory);
    CHECK(at);
    at[4] = WASM_PAGES;
    at = memmem(bytes, sizeof guest_wasm, data, sizeof data);
    CHECK(at);
    uint8_t *end = at + 2 + data[1]; /* of the section: one segment more */
    memmove(end + sizeof more, end, (size_t)(bytes + sizeof guest_wasm - end));
    memcpy(end, more, sizeof more);
    at[1] = (uint8_t)(at[1] + sizeof more);
    at[2]++;
    dz_wasm_module_close(w->module);
    dz_free(w->flat);
    CHECK_INT(dz_wasm_prepare_alloc(bytes, sizeof bytes, DZ_WASM_F_ALL, &w->flat, &size, &w->err),
              0);
    CHECK_INT(dz_wasm_module_open(w->flat, size, &w->module, &w->err), 0);
}

static void sleep_now(struct world *w)
{
    CHECK_INT(world_sleep(w), 0);
    world_tidy(w);
    world_crash(w);
}

/* The probes say so, not the tracker that is tested. */
static bool need_is_there(void)
{
    struct dz_os_finding fills = {.answer = DZ_OS_NO}, scans = {.answer = DZ_OS_NO};
    dz_os_probe(DZ_OS_PROBE_USERFAULTFD, "/tmp", &fills);
    dz_os_probe(DZ_OS_PROBE_PAGEMAP_SCAN, "/tmp", &scans);
    return fills.answer == DZ_OS_YES && scans.answer == DZ_OS_YES;
}

/* Asleep, PAGES pages written, but for every 50th. */
static void asleep(struct world *w, uint64_t seed)
{
    world_new(w, seed);
    more_memory(w);
    if (!need_dirty && dz_os_dirty_open(DZ_OS_DIRTY_SCAN, &need_dirty, &w->err) < 0)
        CHECK_STR(w->err.msg, "a tracker");
    if (!need_is_there())
        SKIP("no userfaultfd that fills pages, or no PAGEMAP_SCAN here");
    CHECK(dz_os_dirty_by_need(need_dirty));
    absent_calls = 0;
    absent_most = SIZE_MAX;
    absent_half = false;
    w->more_ops = by_need;
    CHECK_INT(world_start(w), 0);
    for (uint32_t page = 0; page < PAGES; page++)
        put_page(w, page, page % 50 ? page : 0);
    world_feed(w, '1');
    sleep_now(w);
}

static void done(struct world *w)
{
    world_crash(w);
    world_free(w);
    dz_os_dirty_close(need_dirty);
    need_dirty = NULL;
}

TEST(only_what_is_touched_is_laid)
{
    struct world w;
    asleep(&w, 1);
    CHECK_INT(world_wake(&w), 0);
    uint64_t before = absent(&w);
    CHECK(before > PAGES - 200);
    CHECK(is_right(&w, 777));
    CHECK(absent(&w) < before && absent(&w) + 128 >= before); /* its row */
    before = absent(&w);
    CHECK(is_right(&w, 778));
    CHECK_INT(absent(&w), before);
    CHECK(is_right(&w, 50)); /* in no row: a zero among those that are */
    CHECK_INT(absent(&w), before - 1);
    CHECK(all_right(&w));
    CHECK_INT(absent(&w), 0);
    CHECK_INT(dz_machine_damage(w.machine, &w.err), 0);
    CHECK(world_feed(&w, '2'));
    CHECK_STR(w.said, "12");
    sleep_now(&w);
    w.more_ops = NULL; /* and all at once */
    CHECK_INT(world_wake(&w), 0);
    CHECK_INT(absent(&w), 0);
    CHECK(all_right(&w));
    done(&w);
}

/* Kilobytes of this process's memory that are its own. */
static long private_kb(void)
{
    char line[128];
    long kb = 0, n;
    FILE *f = fopen("/proc/self/smaps_rollup", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Private_Dirty: %ld", &n) == 1)
            kb = n;
    if (f)
        (void)fclose(f);
    return kb;
}

TEST(what_reading_rows_took_is_given_back)
{
    struct world w;
    asleep(&w, 14);
    CHECK_INT(world_wake(&w), 0);
    dz_machine_rest(w.machine); /* the host may have touched some */
    CHECK(is_right(&w, 777));
    CHECK(!dz_machine_rests(w.machine));
    long before = private_kb();
    dz_machine_rest(w.machine);
    CHECK(dz_machine_rests(w.machine));
    CHECK(private_kb() <= before - 256); /* a row's bytes, if not a huge page */
    CHECK(all_right(&w));
    CHECK(!dz_machine_rests(w.machine));
    CHECK(world_feed(&w, '2'));
    sleep_now(&w);
    done(&w);
}

/* A pointer that the host is given may go to a system call. */
TEST(the_host_is_handed_what_is_there)
{
    struct world w;
    asleep(&w, 2);
    CHECK_INT(world_wake(&w), 0);
    uint8_t *p = dz_wasm_mem(inst_of(&w), 0, (FIRST + 100) * PAGE + 5, 300 * PAGE);
    DZ_AUTO(dz_fd_close) int fd = memfd_create("out", 0);
    CHECK_INT(write(fd, p, 300 * PAGE), 300 * PAGE);
    p = dz_wasm_mem(inst_of(&w), 0, (FIRST + 1000) * PAGE, 2 * PAGE);
    CHECK_INT(pread(fd, p, 2 * PAGE, 0), 2 * PAGE);
    CHECK(memcmp(p, raw(&w, 100) + 5, 2 * PAGE) == 0);
    CHECK(absent(&w) > 500);
    CHECK(world_feed(&w, '2')); /* the kernel writes to its buffer */
    CHECK_STR(w.said, "12");
    done(&w);
}

static void unread(bool marked)
{
    struct world w;
    struct dz_machine_stats stats;
    asleep(&w, 3);
    w.more_ops = marked ? by_need : by_need_unmarked;
    for (int i = 0; i < 3; i++) {
        CHECK_INT(world_wake(&w), 0);
        uint64_t before = absent(&w);
        put_page(&w, 600, 5000 + (uint32_t)i);
        put_page(&w, 601, 0);
        CHECK_INT(world_sleep(&w), 0);
        dz_machine_stats_get(w.machine, &stats);
        CHECK(stats.pages < 40 && stats.missing + 128 + 8 >= before && stats.missing > 1000);
        world_crash(&w);
    }
    CHECK_INT(world_wake(&w), 0);
    CHECK(all_right(&w));
    done(&w);
}

TEST(a_sleep_leaves_what_was_not_touched)
{
    unread(true);
}

TEST(nor_does_comparing_read_it)
{
    unread(false);
}

/* Rows that are emptied while their pages are absent, sleeps after which it runs on, processes
 * that were copied. */
TEST(rounds_of_chance)
{
    struct world w;
    uint64_t dice = 0x6e656564;
    asleep(&w, 4);
    for (uint32_t i = 0; i < 40; i++) {
        const struct dz_machine_how on = {.policy = "posix", .goes_on = true};
        CHECK_INT(world_wake(&w), 0);
        uint32_t at = dice_below(&dice, PAGES), n = dice_below(&dice, 200);
        for (uint32_t p = at; p < at + n && p < PAGES; p += 1 + i % 3)
            put_page(&w, p, dice_below(&dice, 5) ? 10000 + i * PAGES + p : 0);
        CHECK(is_right(&w, dice_below(&dice, PAGES)));
        if (i % 4 == 0) {
            CHECK_INT(dz_machine_sleep(w.machine, w.kernel, w.vfs, &on, &w.err), 0);
            put_page(&w, dice_below(&dice, PAGES), i + 1);
            CHECK(is_right(&w, dice_below(&dice, PAGES)));
        }
        if (i % 7 == 0)
            CHECK(world_feed(&w, 'x'));
        if (i % 10 == 9)
            CHECK(all_right(&w));
        sleep_now(&w);
    }
    CHECK_INT(world_wake(&w), 0);
    CHECK(all_right(&w));
    CHECK_INT(world_damage(&w), 0);
    done(&w);
}

/* It goes on with what it has, and has got no more to get: the next sleep is as good. */
TEST(a_sleep_that_fails_at_the_disk_is_done_again)
{
    static const struct {
        unsigned call;
        long n;
    } fails[] = {{DZ_DB_SIM_WRITE, 0}, {DZ_DB_SIM_WRITE, 1}, {DZ_DB_SIM_SYNC, 0}};
    struct world w;
    asleep(&w, 5);
    CHECK_INT(world_wake(&w), 0);
    for (uint32_t i = 0; i < DZ_ARRAY_LEN(fails); i++) {
        for (uint32_t page = 0; page < 2 * DZ_MEM_AHEAD; page++)
            put_page(&w, page * 3, 20000 + i * PAGES + page);
        dz_db_sim_fail_at(w.sim, 1U << fails[i].call, fails[i].n, EIO, false);
        CHECK(world_sleep(&w) < 0);
        CHECK(dz_db_sim_failed(w.sim));
        dz_db_sim_fail_at(w.sim, 0, -1, 0, false);
        CHECK(is_right(&w, 3) && is_right(&w, PAGES - 1));
    }
    sleep_now(&w);
    CHECK_INT(world_wake(&w), 0);
    CHECK(all_right(&w));
    CHECK_INT(world_damage(&w), 0);
    done(&w);
}

/* In a child, for memory ahead is had once: 1: something is wrong; 2: n allocations do not happen.
 */
static int sleep_without(struct world *w, long n)
{
    dz_mem_fail_at(n, false);
    int rc = world_sleep(w);
    bool failed = dz_mem_failed();
    dz_mem_fail_at(-1, false);
    if ((rc < 0 && !failed) || !all_right(w))
        return 1;
    if (rc < 0 && world_sleep(w) < 0)
        return 1;
    world_tidy(w);
    world_crash(w);
    if (world_wake(w) < 0 || !all_right(w) || world_damage(w) != 0)
        return 1;
    return failed ? 0 : 2;
}

TEST(a_sleep_without_memory_is_done_again)
{
    struct world w;
    int status = 0;
    long n = 0;
    world_new(&w, 6);
    more_memory(&w);
    CHECK_INT(world_start(&w), 0);
    for (uint32_t page = 0; page < 3 * DZ_MEM_AHEAD; page++)
        put_page(&w, page, 1 + page);
    world_feed(&w, '1');
    sleep_now(&w);
    CHECK_INT(world_wake(&w), 0);
    for (uint32_t page = 0; page < 2 * DZ_MEM_AHEAD; page++)
        put_page(&w, page, 5000 + page);
    for (; status == 0 && n < 1000; n++) {
        pid_t child = fork();
        if (child == 0)
            _exit(sleep_without(&w, n));
        CHECK_INT(waitpid(child, &status, 0), child);
    }
    CHECK(n > 20);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 2);
    world_crash(&w);
    world_free(&w);
}

TEST(memory_grows_behind_what_is_absent)
{
    enum {
        MORE = 2, /* pages of 64 KiB */
    };
    struct world w;
    asleep(&w, 12);
    CHECK_INT(world_wake(&w), 0);
    uint64_t before = absent(&w);
    struct wasm_ctx *ctx = &dz_wasm_inst_store(inst_of(&w))->ctx;
    dz_wasm_ctx_enter(ctx, inst_of(&w));
    CHECK_INT(dz_wasm_mem_grow(ctx, 0, MORE), WASM_PAGES);
    uint8_t *end = dz_wasm_mem(inst_of(&w), 0, (uint64_t)WASM_PAGES << 16, MORE << 16);
    CHECK(end[5] == 0);
    make_page(end + PAGE, 1, 77);
    CHECK_INT(absent(&w), before);
    sleep_now(&w);
    CHECK_INT(world_wake(&w), 0);
    uint8_t want[PAGE];
    make_page(want, 1, 77);
    CHECK(memcmp(dz_wasm_mem_base(inst_of(&w), 0) + ((size_t)WASM_PAGES << 16) + PAGE, want,
                 PAGE) == 0);
    CHECK(all_right(&w));
    done(&w);
}

TEST(a_process_is_copied_with_all_its_memory)
{
    struct world w;
    struct dz_wasm_inst *child = NULL;
    struct dz_wasm_copy how = {.cfg = &(struct dz_wasm_config){0}, .host = w.hosts};
    asleep(&w, 5);
    CHECK_INT(world_wake(&w), 0);
    how.host_count = dz_wasi_hosts(dz_policy_find("posix")->caps, w.hosts);
    CHECK_INT(dz_wasm_copy(inst_of(&w), &how, &child, &w.err), 0);
    CHECK(memcmp(dz_wasm_mem_base(child, 0), dz_wasm_mem_base(inst_of(&w), 0),
                 (size_t)WASM_PAGES << 16) == 0);
    CHECK(all_right(&w));
    dz_wasm_store_free(dz_wasm_inst_store(child));
    done(&w);
}

/* Its memory goes with it, and what is mapped there next is nobody's. */
TEST(a_process_ends_before_it_touched_all)
{
    struct world w;
    asleep(&w, 6);
    CHECK_INT(world_wake(&w), 0);
    CHECK(absent(&w) > 1000);
    CHECK_INT(dz_kernel_stream_close(w.kernel, w.in), 0);
    world_run(&w);
    CHECK(!dz_kernel_task(w.kernel, 2));
    CHECK_INT(absent(&w), 0);
    done(&w);
}

TEST(without_mappings_it_is_laid)
{
    for (size_t most = 0; most < 3; most++) {
        struct world w;
        asleep(&w, 7);
        CHECK_INT(world_wake(&w), 0);
        for (uint32_t p = 0; p < PAGES; p += 40) /* many runs */
            put_page(&w, p, 0);
        sleep_now(&w);
        absent_calls = 0;
        absent_most = most;
        CHECK_INT(world_wake(&w), 0);
        CHECK(most > 0 || absent(&w) == 0);
        CHECK(all_right(&w));
        put_page(&w, 3, 99);
        sleep_now(&w);
        CHECK_INT(world_wake(&w), 0);
        CHECK(all_right(&w));
        done(&w);
    }
}

/* A run of pages became new ones and then could not be made absent: what only the base has
 * between them is laid again. */
TEST(a_run_that_only_half_became_absent_is_as_it_was)
{
    struct world w;
    asleep(&w, 13);
    CHECK_INT(world_wake(&w), 0);
    CHECK(memcmp(raw(&w, BASED), "base", 4) == 0);
    make_page(raw(&w, BASED + 2), 1, 78); /* so that it lies between pages of rows */
    sleep_now(&w);
    for (size_t most = 0; most < 4; most++) { /* runs, of which the next is no more */
        uint8_t want[PAGE];
        absent_half = true;
        absent_calls = 0;
        absent_most = most;
        CHECK_INT(world_wake(&w), 0);
        CHECK(most > 0 || absent(&w) == 0);
        CHECK(memcmp(raw(&w, BASED), "base", 4) == 0);
        make_page(want, 1, 78);
        CHECK(memcmp(raw(&w, BASED + 2), want, PAGE) == 0);
        CHECK(all_right(&w));
        CHECK(world_feed(&w, '2'));
        sleep_now(&w);
    }
    done(&w);
}

/* --- damage ------------------------------------------------------------------------------------
 */

static void change_file(struct world *w, const char *sql)
{
    CHECK_INT(world_open(w, true), 0);
    CHECK_INT(dz_db_exec(w->db, sql, &w->err), 0);
    world_crash(w);
}

/* Touched, the page makes the machine one that may not go on; its file is as it was. */
static void check_stopped(struct world *w, const char *words)
{
    CHECK_INT(dz_machine_damage(w->machine, &w->err), DZ_ECORRUPT);
    printf("# %s\n", w->err.msg);
    CHECK(strstr(w->err.msg, words) && strstr(w->err.msg, "generation 1"));
    CHECK_INT(world_sleep(w), DZ_ECORRUPT);
    CHECK_INT(dz_machine_gate(w->machine, w->vfs, &w->err), DZ_ECORRUPT);
    (void)world_feed(w, '2');
    CHECK_STR(w->said, "1");
    world_crash(w);
    CHECK_INT(world_open(w, true), 0);
    CHECK_INT(dz_machine_found(w->machine), DZ_MACHINE_ASLEEP);
}

TEST(damage_is_told_when_it_is_met)
{
    struct world w;
    asleep(&w, 8);
    change_file(&w, "UPDATE mem SET data=substr(data,1,20000)||x'0102030405060708'||"
                    "substr(data,20009) WHERE seq=3");
    CHECK_INT(world_wake(&w), 0);
    CHECK_INT(dz_machine_damage(w.machine, &w.err), 0);
    (void)all_right(&w);
    check_stopped(&w, "checksum");
    done(&w);
}

TEST(a_row_that_is_gone_is_damage)
{
    struct world w;
    asleep(&w, 9);
    CHECK_INT(world_wake(&w), 0);
    CHECK_INT(dz_db_exec(w.db, "SAVEPOINT x; DELETE FROM mem WHERE seq=4", &w.err), 0);
    (void)all_right(&w);
    CHECK_INT(dz_db_exec(w.db, "ROLLBACK TO x; RELEASE x", &w.err), 0);
    check_stopped(&w, "gone");
    done(&w);
}

TEST(runs_are_checked_at_the_wake)
{
    struct world w;
    asleep(&w, 10);
    change_file(&w, "UPDATE mem SET data=substr(data,1,40)||x'07'||substr(data,42) WHERE seq=3");
    CHECK_INT(world_wake(&w), DZ_ECORRUPT);
    CHECK(strstr(w.err.msg, "runs"));
    w.said_len = 0;
    done(&w);
}

TEST(a_row_that_is_cut_off_is_no_row)
{
    struct world w;
    asleep(&w, 11);
    change_file(&w, "UPDATE mem SET data=substr(data,1,length(data)-1) WHERE seq=3");
    CHECK_INT(world_wake(&w), DZ_ECORRUPT);
    done(&w);
}

/* --- a sleep beside damage ---------------------------------------------------------------------
 */

/* Most of each row of pages from..end is written anew. */
static void put_most(struct world *w, uint32_t from, uint32_t end, uint32_t value)
{
    for (uint32_t page = from; page < end; page++)
        if (page % 5)
            put_page(w, page, value + page);
}

/* A row of which little lives is emptied once most is garbage. One that is damaged, and that
 * nobody touched, must not keep the machine from its sleep. */
TEST(a_damaged_row_is_left_where_it_is)
{
    struct world w;
    asleep(&w, 14);
    CHECK_INT(world_wake(&w), 0);
    put_most(&w, 200, 800, 20000);
    sleep_now(&w);
    change_file(&w, "UPDATE mem SET data=substr(data,1,20000)||x'0102030405060708'||"
                    "substr(data,20009) WHERE gen=1 AND seq=3");
    for (uint32_t round = 0; round < 3; round++) {
        CHECK_INT(world_wake(&w), 0);
        put_most(&w, 0, 200, 30000 + round * 5000);
        put_most(&w, 800, PAGES, 30000 + round * 5000);
        CHECK_INT(world_sleep(&w), 0);
        CHECK_INT(dz_machine_damage(w.machine, &w.err), 0);
        world_tidy(&w);
        world_crash(&w);
    }
    change_file(&w, "SELECT 1/(count(*)=1) FROM mem WHERE gen=1 AND seq=3");
    CHECK_INT(world_wake(&w), 0);
    for (uint32_t page = 0; page < PAGES; page++)
        if (page < 200 || page >= 800 || page % 5)
            CHECK(is_right(&w, page));
    CHECK_INT(dz_machine_damage(w.machine, &w.err), 0);
    (void)all_right(&w);
    check_stopped(&w, "checksum");
    done(&w);
}

/* --- rows that somebody made, sums and all
 * -------------------------------------------------------- */

/* Row number 3 has another first run. */
static void change_run(struct world *w, const struct dz_mem_run_narrow *add)
{
    struct dz_mem_head h;
    struct dz_mem_run_narrow run;
    int64_t rowid = 0;
    CHECK_INT(world_open(w, true), 0);
    {
        DZ_AUTO(dz_stmt_resetp)
        struct dz_stmt *st = dz_db_stmt(w->db, "SELECT rowid FROM mem WHERE seq=3");
        CHECK_INT(dz_stmt_step(st, &w->err), 1);
        rowid = dz_col_int(st, 0);
    }
    const struct dz_blob_at at = {.table = "mem", .column = "data", .rowid = rowid, .write = true};
    DZ_AUTO(dz_blob_closep) struct dz_blob *blob = NULL;
    CHECK_INT(dz_db_exec(w->db, "BEGIN", &w->err), 0);
    CHECK_INT(dz_blob_open(w->db, &at, &blob, &w->err), 0);
    size_t size = dz_blob_size(blob);
    DZ_AUTO(dz_freep) uint8_t *row = dz_alloc(size);
    CHECK_INT(dz_blob_read(blob, row, size, 0, &w->err), 0);
    memcpy(&h, row, sizeof h);
    memcpy(&run, row + sizeof h, sizeof run);
    run.space += add->space;
    run.first += add->first;
    run.count += add->count;
    memcpy(row + sizeof h, &run, sizeof run);
    h.index_sum = dz_mem_index_sum(&h, row + sizeof h);
    h.sum = dz_machine_sum(1, row + sizeof h, size - sizeof h);
    memcpy(row, &h, sizeof h);
    CHECK_INT(dz_blob_write(blob, row, size, 0, &w->err), 0);
    dz_blob_close(blob);
    blob = NULL;
    CHECK_INT(dz_db_exec(w->db, "COMMIT", &w->err), 0);
    world_crash(w);
}

/* By need, and all at once. */
static void refused(const struct dz_mem_run_narrow *add)
{
    for (int need = 0; need < 2; need++) {
        struct world w;
        asleep(&w, 15);
        change_run(&w, add);
        w.more_ops = need ? by_need : NULL;
        CHECK_INT(world_wake(&w), DZ_ECORRUPT);
        CHECK(strstr(w.err.msg, "outside of it"));
        done(&w);
    }
}

TEST(a_run_outside_of_its_memory_is_refused)
{
    refused(&(struct dz_mem_run_narrow){.first = WASM_PAGES * 16});
    refused(&(struct dz_mem_run_narrow){.first = UINT32_MAX / 2});
    refused(&(struct dz_mem_run_narrow){.first = WASM_PAGES * 16 - FIRST - 389 -
                                                 5}); /* 11 from 389 on */
}

/* Pages that a row names twice are those of its first run, by need too: nothing is laid beyond, and
 * both ways come to the same. */
TEST(a_row_that_names_pages_twice_means_the_first)
{
    static uint8_t both[2][PAGES * PAGE];
    for (int need = 0; need < 2; need++) {
        struct world w;
        asleep(&w, 16);
        change_run(&w, &(struct dz_mem_run_narrow){.first = 20});
        w.more_ops = need ? by_need : NULL;
        CHECK_INT(world_wake(&w), 0);
        memcpy(both[need], raw(&w, 0), PAGES * PAGE);
        CHECK_INT(dz_machine_damage(w.machine, &w.err), 0);
        CHECK(!all_right(&w));
        done(&w);
    }
    CHECK(memcmp(both[0], both[1], sizeof both[0]) == 0);
}

/* Of a memory that there is not: nobody's. */
TEST(a_run_of_no_memory_is_nobodys)
{
    struct world w;
    asleep(&w, 17);
    change_run(&w, &(struct dz_mem_run_narrow){.space = 1000});
    CHECK_INT(world_wake(&w), 0);
    CHECK(!all_right(&w));
    CHECK_INT(dz_machine_damage(w.machine, &w.err), 0);
    CHECK(world_feed(&w, '2'));
    sleep_now(&w);
    CHECK_INT(world_wake(&w), 0);
    done(&w);
}

/* --- a file that is cut short --------------------------------------------------------------------
 */

/* What the device has under SQLite's feet. */
static void *cut(struct world *w, enum dz_db_file f, size_t keep, size_t *ret_size)
{
    const void *bytes = dz_db_sim_bytes(w->sim, f, ret_size);
    void *saved = malloc(*ret_size + 1);
    CHECK(saved);
    memcpy(saved, bytes, *ret_size);
    CHECK_INT(dz_db_sim_load(w->sim, f, saved, keep < *ret_size ? keep : *ret_size), 0);
    return saved;
}

TEST(a_file_that_is_cut_short_ends_what_it_touches_and_no_more)
{
    for (size_t keep = 0; keep < 3; keep++) {
        struct world w;
        size_t size, log_size;
        asleep(&w, 18);
        CHECK_INT(world_wake(&w), 0);
        CHECK(absent(&w) > 1000);
        void *file = cut(&w, DZ_DB_FILE_MAIN, keep << 17, &size);
        void *log = cut(&w, DZ_DB_FILE_WAL, keep << 15, &log_size);
        (void)all_right(&w);
        CHECK(dz_machine_damage(w.machine, &w.err) < 0);
        printf("# %s\n", w.err.msg);
        CHECK(world_sleep(&w) < 0);
        CHECK(dz_machine_gate(w.machine, w.vfs, &w.err) < 0);
        world_crash(&w);
        CHECK_INT(dz_db_sim_load(w.sim, DZ_DB_FILE_MAIN, file, size), 0);
        CHECK_INT(dz_db_sim_load(w.sim, DZ_DB_FILE_WAL, log, log_size), 0);
        free(file);
        free(log);
        CHECK_INT(world_wake(&w), 0);
        CHECK(all_right(&w));
        CHECK(world_feed(&w, '2'));
        CHECK_STR(w.said, "12");
        done(&w);
    }
}

/* SPDX-License-Identifier: MIT
 * Memories outside of this process in the rows of a machine: a model with plain arrays sleeps, is
 * killed and wakes, beside a program of WebAssembly in the same machine. */
#define TAP_ALARM_S 50
#include "../lib/native_world.h"
#include "tap.h"

#include "machine/machine_copy.h"
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
    native_host.machine = NULL;
    CHECK_INT(world_wake(w), 0);
    native_claim(&slept, w->machine);
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
static void live_on(struct world *w, uint64_t *dice, int rounds, bool by_need)
{
    for (int round = 0; round < rounds; round++) {
        for (uint32_t i = dice_below(dice, 8); by_need && i > 0; i--) {
            struct native_memory *m = &native.of[dice_below(dice, NATIVE_MEMORIES)];
            const uint32_t page = dice_below(dice, NATIVE_PAGES);
            CHECK_INT(m->used ? native_need(m, page, 1 + dice_below(dice, 40), &w->err) : 0, 0);
        }
        native_work(dice, 1 + dice_below(dice, 60));
        const bool goes_on = dice_below(dice, 3) == 0;
        const struct dz_machine_how how = {.policy = "posix", .goes_on = goes_on};
        slept = native;
        CHECK_INT(dz_machine_sleep(w->machine, w->kernel, w->vfs, &how, &w->err), 0);
        CHECK(native_host.held == !goes_on);
        CHECK(native_same(&native, &slept));
        const bool tidy = goes_on || dice_below(dice, 2);
        if (!goes_on && tidy)
            world_tidy(w);
        if (tidy) {
            const struct dz_machine_stats s = stats_of(w);
            CHECK(s.garbage <= s.live);
        }
        if (!goes_on || dice_below(dice, 2)) {
            again(w);
            CHECK(native_same(&native, &slept));
        }
        CHECK_INT(world_damage(w), 0);
    }
}

static void live(uint64_t seed, bool marks, bool by_need)
{
    struct world w;
    uint64_t dice = seed;
    begin(&w, seed, marks);
    native_host.by_need = by_need;
    live_on(&w, &dice, 40, by_need);
    done(&w);
}

TEST(a_memory_is_the_same_after_each_sleep)
{
    for (uint64_t seed = 1; seed <= 6; seed++)
        live(seed, true, false);
}
TEST(a_host_that_notes_no_writes_loses_nothing)
{
    for (uint64_t seed = 11; seed <= 13; seed++)
        live(seed, false, false);
}
TEST(pages_are_filled_when_they_are_needed)
{
    for (uint64_t seed = 21; seed <= 26; seed++) {
        live(seed, false, true);
        CHECK(native_host.left > 100 && native_host.needed > 50);
        CHECK(native_host.needed < native_host.left); /* most of them never were */
    }
    live(27, true, true);
}

/* Pages that were needed are written at once by the next wake, and only these. */
TEST(a_wake_knows_the_pages_that_were_needed_before)
{
    struct world w;
    begin(&w, 28, false);
    native_host.by_need = true;
    struct native_memory *m = native_new(DZ_MACHINE_PRIVATE);
    for (uint32_t page = 0; page < NATIVE_PAGES; page++)
        native_put(m, page, page + 1);
    slept = native;
    CHECK_INT(world_sleep(&w), 0);
    again(&w);
    CHECK_INT(native_host.left, NATIVE_PAGES);
    CHECK_INT(native_need(&native.of[0], 40, 30, &w.err), 0);
    native_put(&native.of[0], 200, 99);
    for (int round = 0; round < 3; round++) {
        slept = native;
        native_host.bytes_read = 0;
        CHECK_INT(world_sleep(&w), 0);
        CHECK_INT(native_host.bytes_read, 31 * NATIVE_PAGE); /* not the absent ones */
        native_host.left = 0;
        again(&w);
        CHECK_INT(native_host.left, NATIVE_PAGES - 31);
        CHECK(native_same(&native, &slept));
    }
    native_host.by_need = false; /* all at once, on another host */
    slept = native;
    CHECK_INT(world_sleep(&w), 0);
    again(&w);
    CHECK(native_same(&native, &slept) && native_host.left == NATIVE_PAGES - 31);
    done(&w);
}

/* Change one byte in one row of a table. */
static void damage(const char *find, const char *put, size_t at, struct world *w)
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

/* --- images ------------------------------------------------------------------------------- */

/* What sleeps in the world, and what it is based on, as a device of its own. */
static struct dz_db_sim *sealed(struct world *w, uint64_t seed)
{
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema};
    struct dz_db_sim *sim = rig_device(seed, NULL);
    struct dz_db *to;
    CHECK_INT(dz_db_open_disk(&to, dz_db_sim_disk(sim), &opts, &w->err), 0);
    CHECK_INT(dz_machine_flatten(w->db, w->image, NULL, to, &w->err), 0);
    CHECK_INT(dz_db_close(to, false, &w->err), 0);
    return sim;
}

static void end_image(struct world *w, struct dz_db_sim *image)
{
    world_crash(w);
    if (w->image)
        CHECK_INT(dz_db_close(w->image, true, &w->err), 0);
    w->image = NULL;
    dz_db_sim_free(image);
}

/* What sleeps in the world becomes the image of a new disk. was: the image that it has; NULL: none.
 */
static struct dz_db_sim *base_on(struct world *w, uint64_t seed, struct dz_db_sim *was)
{
    const struct dz_db_opts immutable = {.schema = &dz_vfs_schema, .immutable = true};
    struct dz_db_sim *image = sealed(w, seed);
    end_image(w, was);
    dz_db_sim_free(w->sim);
    w->sim = rig_device(seed + 1, RIG_SHA);
    CHECK_INT(dz_db_open_disk(&w->image, dz_db_sim_disk(image), &immutable, &w->err), 0);
    return image;
}

/* Only native programs remain. */
static void end_other(struct world *w)
{
    (void)dz_kernel_stream_eof(w->kernel, w->in);
    world_run(w);
}

static void fill_memory(void)
{
    struct native_memory *m = native_new(DZ_MACHINE_PRIVATE);
    for (uint32_t page = 0; page < NATIVE_PAGES; page++)
        native_put(m, page, page + 1);
}

TEST(a_machine_of_an_image_lives_as_any_other)
{
    for (uint64_t seed = 31; seed <= 36; seed++) {
        struct world w;
        uint64_t dice = seed;
        begin(&w, seed, false);
        native_host.by_need = seed % 3 > 0;
        if (seed % 2)
            end_other(&w);
        live_on(&w, &dice, 4, native_host.by_need);
        slept = native;
        CHECK_INT(world_sleep(&w), 0);
        struct dz_db_sim *image = base_on(&w, seed + 100, NULL);
        again(&w);
        CHECK(native_same(&native, &slept));
        live_on(&w, &dice, 20, native_host.by_need);
        slept = native;
        CHECK_INT(world_sleep(&w), 0);
        if (seed % 2) { /* again an image, which needs the first one no longer */
            image = base_on(&w, seed + 200, image);
            again(&w);
            CHECK(native_same(&native, &slept));
            live_on(&w, &dice, 10, native_host.by_need);
        }
        end_image(&w, image);
        world_free(&w);
    }
}

/* The first suspend writes the pages that were changed or needed; the wake after it, these. */
TEST(pages_of_an_image_stay_there)
{
    struct world w;
    begin(&w, 41, false);
    end_other(&w);
    native_host.by_need = true;
    fill_memory();
    slept = native;
    CHECK_INT(world_sleep(&w), 0);
    struct dz_db_sim *image = base_on(&w, 141, NULL);
    again(&w);
    CHECK_INT(native_host.left, NATIVE_PAGES);
    CHECK_INT(native_need(&native.of[0], 40, 30, &w.err), 0);
    native_put(&native.of[0], 200, 99);
    for (int round = 0; round < 3; round++) {
        slept = native;
        CHECK_INT(world_sleep(&w), 0);
        CHECK_INT(stats_of(&w).live, 31);
        native_host.left = 0;
        again(&w);
        CHECK_INT(native_host.left, NATIVE_PAGES - 31);
        CHECK(native_same(&native, &slept));
    }
    for (uint32_t round = 0; round < 8; round++) { /* then the file's first row is not hot either */
        native_put(&native.of[0], 201, round + 7);
        slept = native;
        CHECK_INT(world_sleep(&w), 0);
        native_host.left = 0;
        again(&w);
    }
    CHECK_INT(native_host.left, NATIVE_PAGES - 1);
    CHECK_INT(native_need(&native.of[0], 0, NATIVE_PAGES, &w.err), 0);
    CHECK(native_same(&native, &slept));
    CHECK_INT(world_sleep(&w), 0);
    end_image(&w, image); /* without it, the machine is not resumed */
    memset(&native, 0, sizeof native);
    native_host.held = false;
    done(&w);
}

/* The pages of a WebAssembly program are compared with the file's own rows: a row of the image has
 * an id that no row of the file has, or another one. */
TEST(a_program_changes_its_memory_beside_rows_of_the_image)
{
    struct world w;
    begin(&w, 42, false);
    native_host.by_need = true;
    fill_memory();
    for (uint32_t round = 0; round < 6; round++) { /* each in a row of its own */
        native_put(&native.of[0], round * 20, 1000 + round);
        slept = native;
        CHECK_INT(world_sleep(&w), 0);
        again(&w);
    }
    CHECK_INT(world_sleep(&w), 0);
    struct dz_db_sim *image = base_on(&w, 142, NULL);
    again(&w);
    for (const char *c = "xyz"; *c; c++) {
        CHECK(world_feed(&w, *c));
        const int rc = world_sleep(&w);
        CHECK_INT(rc, 0);
        if (rc < 0)
            printf("# %s\n", w.err.msg);
        again(&w);
        CHECK_INT(world_memory(&w), *c);
        CHECK(native_same(&native, &slept));
    }
    end_image(&w, image);
    world_free(&w);
}

/* A host for which both kinds of memory are read by need, but which has no mappings for missing
 * pages.
 */
static int no_missing(void *arg, void *at, size_t size, struct dz_err *err)
{
    (void)arg, (void)at, (void)size;
    return dz_fail(err, DZ_ENOMEM, "no more mappings");
}
static int fill_never(void *arg, void *at, const uint8_t *bytes, size_t size, struct dz_err *err)
{
    (void)arg, (void)at, (void)bytes, (void)size;
    return dz_fail(err, DZ_EIO, "no page is missing");
}
static int watch_none(void *arg, struct dz_machine *m, struct dz_err *err)
{
    (void)arg, (void)m, (void)err;
    return 0;
}
static void all_by_need(struct world *w)
{
    native_all(w);
    w->ops.make_missing = no_missing;
    w->ops.fill = fill_never;
    w->ops.watch = watch_none;
}

TEST(both_kinds_of_memory_are_read_by_need)
{
    struct world w;
    begin(&w, 43, false);
    native_host.by_need = true;
    fill_memory();
    for (uint32_t round = 0; round < 8; round++) {
        w.more_ops = round < 5 ? native_all : all_by_need;
        native_put(&native.of[0], round * 20, 1000 + round);
        CHECK(world_feed(&w, (char)('a' + round)));
        slept = native;
        CHECK_INT(world_sleep(&w), 0);
        CHECK(round < 5 || stats_of(&w).rows > 4);
        again(&w);
        CHECK_INT(world_memory(&w), 'a' + round);
        CHECK(native_same(&native, &slept));
    }
    CHECK(native_host.left > 0);
    done(&w);
}

/* No memory for a row that is needed: the next need reads it. */
TEST(a_row_is_read_after_memory_was_short)
{
    struct world w;
    begin(&w, 44, false);
    native_host.by_need = true;
    fill_memory();
    fill_memory();
    fill_memory(); /* so many pages are packed */
    slept = native;
    CHECK_INT(world_sleep(&w), 0);
    again(&w);
    CHECK_INT(native_host.left, 3 * NATIVE_PAGES);
    for (long n = 0; n < 2; n++) {
        dz_mem_fail_at(n, false);
        CHECK_INT(native_need(&native.of[0], 40, 1, &w.err), DZ_ENOMEM);
        dz_mem_fail_at(-1, false);
    }
    CHECK_INT(native_need(&native.of[0], 40, 1, &w.err), 0);
    done(&w);
}

/* A row that is damaged fails when it is needed; then nothing can be saved or sent. */
TEST(a_damaged_row_is_found_when_it_is_needed)
{
    struct world w;
    begin(&w, 29, false);
    native_host.by_need = true;
    struct native_memory *m = native_new(DZ_MACHINE_PRIVATE);
    for (uint32_t page = 0; page < NATIVE_PAGES; page++)
        native_put(m, page, page + 1);
    slept = native;
    CHECK_INT(world_sleep(&w), 0);
    again(&w);
    damage("SELECT data FROM mem ORDER BY length(data) DESC LIMIT 1",
           "UPDATE mem SET data=?1 WHERE rowid=(SELECT rowid FROM mem ORDER BY length(data) DESC "
           "LIMIT 1)",
           100000, &w);
    CHECK_INT(dz_machine_damage(w.machine, &w.err), 0);
    CHECK_INT(native_need(&native.of[0], 0, NATIVE_PAGES, &w.err), DZ_ECORRUPT);
    CHECK_INT(dz_machine_damage(w.machine, &w.err), DZ_ECORRUPT);
    CHECK_INT(world_sleep(&w), DZ_ECORRUPT);
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

/* The same in a machine that sleeps, which then wakes. */
static int damaged(const char *find, const char *put, size_t at, struct world *w)
{
    CHECK_INT(world_open(w, true), 0);
    damage(find, put, at, w);
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
static int with_list(bool on_image, const uint64_t *numbers, size_t n)
{
    struct world w;
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(4096);
    uint64_t sum = 0;
    begin(&w, 60, true);
    native_put(native_new(DZ_MACHINE_PRIVATE), 0, 1);
    if (on_image)
        end_other(&w);
    CHECK_INT(world_sleep(&w), 0);
    slept = native;
    struct dz_db_sim *image = on_image ? base_on(&w, 160, NULL) : NULL;
    if (on_image) {
        again(&w);
        CHECK_INT(world_sleep(&w), 0);
    }
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
    if (image)
        end_image(&w, image);
    done(&w);
    return rc;
}
#define LIST(...)                                     \
    with_list(false, (const uint64_t[]){__VA_ARGS__}, \
              sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))
#define LIST_OVER(...)                               \
    with_list(true, (const uint64_t[]){__VA_ARGS__}, \
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
    CHECK_INT(LIST(1, (UINT64_C(1) << 62) + 1, 0, 1, 1, 1, 1, 16, 1, 0),
              DZ_ECORRUPT); /* no image */
    CHECK_INT(LIST(1, UINT64_MAX, 0, 1, 1, 1, 1, 16, 1, 0), DZ_ECORRUPT);
    CHECK_INT(LIST(UINT64_MAX, 1, 0), DZ_ECORRUPT);
    CHECK_INT(LIST(1, INT64_MAX, 0, 1, 1, 1, 1, 16, 1, 0), DZ_ECORRUPT);
    CHECK_INT(LIST(1, 1, 0, UINT64_MAX), DZ_ECORRUPT);
    CHECK_INT(LIST(1, 1, 0, 1, 1, 1, UINT64_MAX), DZ_ECORRUPT);
}
TEST(a_list_is_not_believed_about_rows_of_the_image)
{
    const uint64_t below = UINT64_C(1) << 62;
    CHECK_INT(LIST_OVER(1, below + 1, 0, 1, 1, 1, 1, 16, 1, 0), 0);
    CHECK_INT(LIST_OVER(1, below + 2, 0, 1, 1, 1, 1, 16, 1, 0), DZ_ECORRUPT); /* no such row */
    CHECK_INT(LIST_OVER(1, below + 1, 9, 1, 1, 1, 1, 16, 1, 0), DZ_ECORRUPT);
    CHECK_INT(LIST_OVER(1, 1, 0, 1, 1, 1, 1, 16, 1, 0), DZ_ECORRUPT);         /* nor of the file */
    CHECK_INT(LIST_OVER(1, below + 1, 0, 1, 1, 1, 1, 17, 1, 0), DZ_ECORRUPT); /* not in the row */
    CHECK_INT(LIST_OVER(1, below + 1, 0, 1, 1, 1, 1, 16, 2, 0), DZ_ECORRUPT); /* not all */
    CHECK_INT(LIST_OVER(1, below + 1, 0, 1, 1, 2, 1, 16, 1, 0), DZ_ECORRUPT); /* no such memory */
    CHECK_INT(LIST_OVER(2, below + 1, 0, 1, 0, 1, 1, 1, 1, 16, 1, 0), DZ_ECORRUPT); /* order */
    CHECK_INT(LIST_OVER(1, UINT64_MAX, 0, 1, 1, 1, 1, 16, 1, 0), DZ_ECORRUPT);
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

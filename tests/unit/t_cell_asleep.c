/* SPDX-License-Identifier: MIT
 * What a cell writes of a sleeping machine beside its processes: input on its way, when to wake. */
#include "../lib/sleep_world.h"
#include "cell/cell_machine.h"
#include "cell/cell_sleep.h"
#include "kernel/kernel_int.h"
#include "machine/machine_copy.h"
#include "machine/machine_int.h"
#include "tap.h"

static struct dz_cell_input first, second, third;

static struct dz_cell_machine machine_of(struct world *w)
{
    return (struct dz_cell_machine){
        .kernel = w->kernel, .vfs = w->vfs, .keep = w->machine, .policy = "posix"};
}

static struct dz_cell_inputs inputs = {.of = {{0, &first}, {3, &second}, {7, &third}}, .count = 3};

/* Bytes that end around the end of the ring. */
static void fill(struct dz_cell_input *in, size_t head, size_t len, bool eof)
{
    *in = (struct dz_cell_input){.head = head, .len = len, .eof = eof};
    for (size_t i = 0; i < len; i++)
        in->bytes[(head + i) % sizeof in->bytes] = (uint8_t)(i * 31 + len);
}

static void check(const struct dz_cell_input *in, size_t len, bool eof)
{
    size_t bad = 0;
    CHECK_INT(in->len, len);
    CHECK_INT(in->eof, eof);
    for (size_t i = 0; i < in->len; i++)
        bad += in->bytes[(in->head + i) % sizeof in->bytes] != (uint8_t)(i * 31 + len);
    CHECK_INT(bad, 0);
}

/* Asleep with these inputs, and awake again. */
static void through_a_sleep(void)
{
    struct world w;
    int64_t wake_at = 0;
    world_new(&w, 1);
    CHECK_INT(world_start(&w), 0);
    struct dz_cell_machine m = machine_of(&w);
    inputs.main_sent = UINT64_C(0x123456789a);
    CHECK_INT(dz_cell_sleep_write(&m, &inputs, false, &wake_at, &w.err), 0);
    inputs.main_sent = 0;
    CHECK(wake_at == INT64_MAX); /* it waits for input and nothing else */
    world_tidy(&w);
    world_crash(&w);
    memset(&first, 0xee, sizeof first.bytes);
    memset(&second, 0xee, sizeof second.bytes);
    first.head = second.head = third.head = 9; /* wherever they stood */
    first.len = second.len = third.len = 0;
    first.eof = second.eof = third.eof = false;
    CHECK_INT(world_open(&w, true), 0);
    CHECK_INT(world_kernel(&w), 0);
    m = machine_of(&w);
    CHECK_INT(dz_cell_sleep_wake(&m, &inputs, &w.err), 0);
    CHECK(inputs.main_sent == UINT64_C(0x123456789a));
    world_crash(&w);
    world_free(&w);
}

TEST(input_is_kept_around_the_end_of_its_ring)
{
    fill(&first, sizeof first.bytes - 3, 10, false);
    fill(&second, sizeof second.bytes - 1, sizeof second.bytes, true);
    fill(&third, 0, 0, false);
    through_a_sleep();
    check(&first, 10, false);
    check(&second, sizeof second.bytes, true);
    check(&third, 0, false);
}

TEST(an_end_of_input_is_kept_with_bytes_and_without)
{
    fill(&first, 5, 1, true);
    fill(&second, sizeof second.bytes - 1, 1, false);
    fill(&third, 0, 0, true);
    through_a_sleep();
    check(&first, 1, true);
    check(&second, 1, false);
    check(&third, 0, true);
}

/* --- when to wake ---------------------------------------------------------------------------- */

static void spawn(struct world *w, const char *what)
{
    char argv[] = "g\0?";
    uint32_t job;
    argv[2] = what[0];
    const struct dz_spawn spec = {.path = "/bin/g", .argv = {argv, sizeof argv, 2}, .tag = 2};
    CHECK_INT(dz_kernel_spawn(w->kernel, &spec, &job, &w->err), 0);
}

static int64_t wake_of(bool sleeper, bool computes)
{
    struct world w;
    int64_t wake_at = 0;
    fill(&first, 0, 0, false);
    fill(&second, 0, 0, false);
    fill(&third, 0, 0, false);
    world_new(&w, 1);
    CHECK_INT(world_start(&w), 0);
    if (sleeper)
        spawn(&w, "w");
    world_run(&w);
    w.clock_ns += 1000000000; /* after it began to sleep */
    if (computes)
        spawn(&w, "l"); /* and has not run yet */
    struct dz_cell_machine m = machine_of(&w);
    CHECK_INT(dz_cell_sleep_write(&m, &inputs, false, &wake_at, &w.err), 0);
    CHECK_INT(dz_machine_wake_at(w.machine), wake_at);
    int64_t at = wake_at == INT64_MAX ? -1 : wake_at - w.clock_ns;
    world_crash(&w);
    world_free(&w);
    return at;
}

TEST(a_machine_wakes_for_whoever_is_first)
{
    const int64_t hour = 3600 * (int64_t)1000000000;
    CHECK_INT(wake_of(false, false), -1);
    CHECK_INT(wake_of(true, false), hour - 1000000000);
    CHECK_INT(wake_of(false, true), 0);
    CHECK_INT(wake_of(true, true), 0); /* one computes: at once, whatever the other waits for */
}

/* --- rings, descriptors, locks ------------------------------------------------------------------
 */

/* A terminal whose lines lie around the end of its ring, a descriptor behind the others, a lock
 * of a whole file: all are as before. */
TEST(a_machine_is_whole_after_a_sleep)
{
    const struct dz_winsize size = {24, 80, 0, 0};
    struct dz_kernel_misc before, behind;
    struct dz_vfs_lock lock = {.owner = 77, .start = 5, .end = 9, .exclusive = true, .flock = true};
    struct dz_vfs_lock found = {0};
    uint8_t buf[DZ_KERNEL_TTY_IN];
    struct world w;
    uint32_t stream;
    world_new(&w, 1);
    CHECK_INT(world_start(&w), 0);
    CHECK_INT(dz_sys_dup2(w.kernel, dz_k_proc(w.kernel, 2), 1, 5), 5);
    CHECK_INT(dz_vfs_resolve(w.vfs, "/bin/g", &lock.ino), 0);
    CHECK_INT(dz_vfs_lock(w.vfs, &lock), 0);
    CHECK_INT(dz_kernel_pty_new(w.kernel, &size, 9, &stream, &w.err), 0);
    struct dz_pty *t = dz_k_pty(w.kernel, 1);
    for (int i = 0; i < DZ_KERNEL_TTY_IN / 8; i++) { /* up to the end but 4 */
        CHECK(dz_kernel_stream_push(w.kernel, stream, i ? "0123456\r" : "012\r", i ? 8 : 4) > 0);
        CHECK_INT(dz_k_ldisc_read(w.kernel, t, buf, sizeof buf), i ? 8 : 4);
    }
    CHECK_INT(dz_kernel_stream_push(w.kernel, stream, "ab\rcdefgh\ri", 11), 11);
    dz_kernel_misc_get(w.kernel, &before);
    CHECK_INT(world_sleep(&w), 0);
    world_tidy(&w);
    world_crash(&w);
    CHECK_INT(world_wake(&w), 0);
    dz_kernel_misc_get(w.kernel, &behind);
    CHECK_INT(behind.next_owner, before.next_owner);
    CHECK_INT(dz_vfs_lock_at(w.vfs, 0, &found), 1);
    CHECK(found.ino == lock.ino && found.owner == 77 && found.start == 5 && found.end == 9);
    CHECK(found.exclusive && found.flock);
    const struct dz_fd *fd = dz_sys_fd(w.kernel, dz_k_proc(w.kernel, 2), 5);
    CHECK(fd && fd->file == dz_sys_fd(w.kernel, dz_k_proc(w.kernel, 2), 1)->file);
    t = dz_k_pty(w.kernel, 1);
    CHECK_INT(t->lines, 2);
    CHECK_INT(dz_k_ldisc_read(w.kernel, t, buf, sizeof buf), 3);
    CHECK_INT(dz_k_ldisc_read(w.kernel, t, buf, sizeof buf), 7);
    CHECK(memcmp(buf, "cdefgh\n", 7) == 0);
    world_crash(&w);
    world_free(&w);
}

/* --- a machine that stands on one in an image ------------------------------------------------- */

enum {
    PAGE_BELOW = 8, /* pages of the guest's memory that no program uses: as the image has it, */
    PAGE_BACK,      /* changed, and changed back in the sleep after that, */
    PAGE_OWN,       /* changed for good */
};

static uint8_t *page_of(struct world *w, uint32_t proc, int page)
{
    const struct dz_task *t = dz_kernel_task(w->kernel, proc);
    CHECK(t != NULL);
    return dz_wasm_mem(dz_kernel_wasm_inst(t), 0, (uint64_t)page * DZ_MACHINE_PAGE, 1);
}

static void asleep(struct world *w)
{
    CHECK_INT(world_sleep(w), 0);
    world_tidy(w);
}

/* What sleeps in the world, and what it stands on, as a device of its own that stands on nothing.
 */
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

/* Another disk for the same program. */
static void move_to(struct world *w, struct dz_db_sim *sim)
{
    world_crash(w);
    dz_db_sim_free(w->sim);
    w->sim = sim;
}

/* Two processes sleep, and are an image. Their machine goes on over that, sleeps twice, and is
 * sealed: of each page what was said last counts, then what the image says of the same process. */
TEST(a_machine_that_stands_on_an_image_is_sealed_whole)
{
    const struct dz_db_opts immutable = {.schema = &dz_vfs_schema, .immutable = true};
    struct world w;
    world_new(&w, 1);
    CHECK_INT(world_start(&w), 0);
    spawn(&w, "w");
    world_run(&w);
    for (uint32_t proc = 2; proc <= 3; proc++)
        for (int page = PAGE_BELOW; page <= PAGE_OWN; page++)
            *page_of(&w, proc, page) = (uint8_t)(16 * proc + (uint32_t)page);
    asleep(&w);
    struct dz_db_sim *image = sealed(&w, 2);

    move_to(&w, rig_device(3, RIG_SHA));
    CHECK_INT(dz_db_open_disk(&w.image, dz_db_sim_disk(image), &immutable, &w.err), 0);
    CHECK_INT(world_wake(&w), 0);
    for (uint32_t proc = 2; proc <= 3; proc++)
        *page_of(&w, proc, PAGE_BACK) = *page_of(&w, proc, PAGE_OWN) = (uint8_t)(200 + proc);
    asleep(&w);
    for (uint32_t proc = 2; proc <= 3; proc++)
        *page_of(&w, proc, PAGE_BACK) = (uint8_t)(16 * proc + PAGE_BACK);
    asleep(&w);

    move_to(&w, sealed(&w, 4));
    CHECK_INT(dz_db_close(w.image, true, &w.err), 0);
    w.image = NULL;
    dz_db_sim_free(image);
    CHECK_INT(world_wake(&w), 0);
    for (uint32_t proc = 2; proc <= 3; proc++) {
        CHECK_INT(*page_of(&w, proc, PAGE_BELOW), 16 * proc + PAGE_BELOW);
        CHECK_INT(*page_of(&w, proc, PAGE_BACK), 16 * proc + PAGE_BACK);
        CHECK_INT(*page_of(&w, proc, PAGE_OWN), 200 + proc);
    }
    world_crash(&w);
    world_free(&w);
}

/* A terminal whose input was read has nothing of it in the file, neither bytes nor marks. */
TEST(a_read_terminal_takes_no_room_in_a_sleep)
{
    const struct dz_winsize size = {24, 80, 0, 0};
    struct dz_machine_stats without, with;
    uint8_t buf[DZ_KERNEL_TTY_IN];
    struct world w;
    uint32_t stream;
    world_new(&w, 1);
    CHECK_INT(world_start(&w), 0);
    CHECK_INT(world_sleep(&w), 0);
    dz_machine_stats_get(w.machine, &without);
    CHECK_INT(dz_kernel_pty_new(w.kernel, &size, 9, &stream, &w.err), 0);
    CHECK(dz_kernel_stream_push(w.kernel, stream, "read\r", 5) > 0);
    CHECK_INT(dz_k_ldisc_read(w.kernel, dz_k_pty(w.kernel, 1), buf, sizeof buf), 5);
    CHECK_INT(world_sleep(&w), 0);
    dz_machine_stats_get(w.machine, &with);
    CHECK(with.state_bytes > without.state_bytes);
    CHECK(with.state_bytes - without.state_bytes < DZ_KERNEL_TTY_IN);
    world_crash(&w);
    world_free(&w);
}

/* --- programs --------------------------------------------------------------------------------- */

static uint64_t first_ino; /* of the first program that a wake asks for */
static int asked;

static int note_ino(void *arg, const struct dz_machine_program *program,
                    struct dz_wasm_module **ret_module, struct dz_err *err)
{
    if (asked++ == 0)
        first_ino = program->ino;
    return world_thaw_module(arg, program, ret_module, err);
}

static void watch_programs(struct world *w)
{
    w->ops.module_get = note_ino;
    asked = 0;
}

/* A wake names the program's file when the file's time is that of the sleep; else the embedder
 * looks first whether it has the program already. */
TEST(a_program_is_named_by_its_file_unless_that_was_touched)
{
    for (int touched = 0; touched < 2; touched++) {
        struct world w;
        uint64_t ino = 0;
        world_new(&w, 1);
        CHECK_INT(world_start(&w), 0);
        asleep(&w);
        world_crash(&w);
        w.more_ops = watch_programs;
        CHECK_INT(world_open(&w, true), 0);
        CHECK_INT(world_kernel(&w), 0);
        CHECK_INT(dz_vfs_resolve(w.vfs, "/bin/g", &ino), 0);
        if (touched)
            CHECK_INT(dz_vfs_write(w.vfs, ino, 0, guest_wasm, 1), 1);
        CHECK_INT(dz_machine_wake(w.machine, w.kernel, w.vfs, &w.err), 0);
        CHECK(asked > 0 && first_ino == (touched ? 0 : ino));
        world_crash(&w);
        world_free(&w);
    }
}

/* Every byte of what is summed counts, whatever the length. */
TEST(a_sum_is_of_every_byte)
{
    uint8_t bytes[130] = {0};
    for (size_t n = 1; n <= sizeof bytes; n++)
        for (size_t i = 0; i < n; i++) {
            uint64_t sum = dz_machine_sum(1, bytes, n);
            bytes[i] ^= 1;
            CHECK(dz_machine_sum(1, bytes, n) != sum);
            bytes[i] ^= 1;
        }
}

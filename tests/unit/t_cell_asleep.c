/* SPDX-License-Identifier: MIT
 * What a cell writes of a sleeping machine beside its processes: input on its way, when to wake. */
#include "../lib/sleep_world.h"
#include "cell/cell_machine.h"
#include "cell/cell_sleep.h"
#include "kernel/kernel_int.h"
#include "machine/machine_int.h"
#include "tap.h"

static struct dz_cell_input first, second, third;

static struct dz_cell_machine machine_of(struct world *w)
{
    return (struct dz_cell_machine){
        .kernel = w->kernel, .vfs = w->vfs, .keep = w->machine, .policy = "posix"};
}

static const struct dz_cell_inputs inputs = {.of = {{0, &first}, {3, &second}, {7, &third}},
                                             .count = 3};

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
    CHECK_INT(dz_cell_sleep_write(&m, &inputs, false, &wake_at, &w.err), 0);
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
    CHECK(m.streams[0] != 0 && m.streams[1] != 0 && m.streams[2] == 0 && m.job != 0);
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

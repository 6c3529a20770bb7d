/* SPDX-License-Identifier: MIT
 *
 * bench_cell.c - what a daemon waits for: a cell of a pool that wakes a shell, a new
 * sandbox's first output, a command in a machine that runs.
 *
 * Measured from this side of the socket, with no HTTP: from dz_cell_pool_start() to the first
 * byte of the guest's answer. The cell of a wake is gone before, and another sandbox is
 * woken each time; the shell answers with a number that it counted before it slept. "warm"
 * is with cells that wait, "beyond" is 64 wakes in a row with none. The last column is
 * posix_spawn of /bin/true. A second table has the CPU time of this process and the cell
 * together, which a busy machine changes less: of the cell from its start, so without what
 * it did ahead.
 */
#include "bench.h"
#include "bench_pool.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SHELLS = 64,
};

struct shell {
    struct bench_box box;
    int counted;
};

static struct bench_base base;
static struct shell shells[SHELLS];
static struct bench_box warm;

/* --- sandboxes --------------------------------------------------------------------------- */

static void end(struct bench_box *x)
{
    bench_box_suspend(x);
    bench_box_gone(x);
}

/* Ask the shell that counts, and compare its answer. */
static void ask(struct shell *s)
{
    s->counted++;
    bench_box_say(&s->box, "y\n", 2);
    if ((int)strtol(s->box.last, NULL, 10) != s->counted)
        bench_die("a shell that forgot what it had counted", NULL);
}

static void wake(struct shell *s)
{
    bench_box_wake(&s->box);
    ask(s);
}

/* --- what is measured ------------------------------------------------------------------------ */

static int create(struct bench *b, void *arg, long count)
{
    static const char *const argv[] = {"echo", "hi", NULL};
    (void)arg;
    for (long i = 0; i < count; i++) {
        struct bench_box x;
        bench_stop(b);
        bench_box_new(&x, &base);
        bench_pool_settle(2 * BENCH_AHEAD);
        bench_start(b);
        bench_box_start(&x, true);
        bench_box_run(&x, argv, false);
        while (x.said == 0)
            bench_box_step(&x);
        bench_stop(b);
        bench_box_free(&x);
        bench_start(b);
    }
    return 0;
}

static int wake_warm(struct bench *b, void *arg, long count)
{
    static int next;
    (void)arg;
    for (long i = 0; i < count; i++) {
        struct shell *x = &shells[next++ % SHELLS];
        bench_stop(b);
        bench_pool_settle(2 * BENCH_AHEAD);
        bench_start(b);
        wake(x);
        bench_stop(b);
        end(&x->box);
        bench_start(b);
    }
    return 0;
}

/* All of them, one after the other, and the pool has no time in between. */
static int wake_all(struct bench *b, void *arg, long count)
{
    (void)arg;
    for (long i = 0; i < count; i++) {
        for (int k = 0; k < SHELLS; k++)
            wake(&shells[k]);
        bench_stop(b);
        for (int k = 0; k < SHELLS; k++)
            end(&shells[k].box);
        bench_pool_settle(2 * BENCH_AHEAD);
        bench_start(b);
    }
    return 0;
}

static int exec_true(struct bench *b, void *arg, long count)
{
    static const char *const argv[] = {"true", NULL};
    (void)arg, (void)b;
    for (long i = 0; i < count; i++) {
        warm.over = false;
        bench_box_run(&warm, argv, false);
        while (!warm.over)
            bench_box_step(&warm);
    }
    return 0;
}

static int sleep_shell(struct bench *b, void *arg, long count)
{
    (void)arg;
    for (long i = 0; i < count; i++) {
        struct shell *x = &shells[i % SHELLS];
        bench_stop(b);
        bench_pool_settle(2 * BENCH_AHEAD);
        wake(x);
        bench_start(b);
        end(&x->box);
    }
    return 0;
}

/* --- set-up --------------------------------------------------------------------------------------
 */

static void prepare_shells(void)
{
    static const char *const counts[] = {"sh", "-c",
                                         "i=0; while read x; do i=$((i+1)); echo $i; done", NULL};
    for (int i = 0; i < SHELLS; i++) {
        bench_box_new(&shells[i].box, &base);
        bench_box_start(&shells[i].box, true);
        bench_box_run(&shells[i].box, counts, true);
        ask(&shells[i]);
        end(&shells[i].box);
        bench_pool_settle(0);
    }
    bench_box_new(&warm, &base);
    bench_box_start(&warm, true);
    while (!warm.up)
        bench_box_step(&warm);
}

static void row(struct bench *b, const char *name, double us, int yardstick, double budget_ms)
{
    bench_row(b, &(struct bench_row){.row = name,
                                     .value = us / 1000,
                                     .unit = "ms",
                                     .yardstick = bench_us(b, yardstick) / 1000,
                                     .yardstick_name = "spawn true, ms",
                                     .budget = budget_ms});
}

static void measure(int rounds)
{
    static struct bench b;
    bench_init(&b, "cell", rounds);
    int spawn_true = bench_case(&b, "posix_spawn of true", bench_spawn_true, NULL, 4);
    int made = bench_case(&b, "create", create, NULL, 4);
    int woken = bench_case(&b, "wake", wake_warm, NULL, 4);
    int all = bench_case(&b, "wake all", wake_all, NULL, 1);
    int ran = bench_case(&b, "exec true", exec_true, NULL, 20);
    int slept = bench_case(&b, "sleep", sleep_shell, NULL, 4);
    bench_run(&b);
    row(&b, "create from an image to the first output of echo", bench_us(&b, made), spawn_true, 3);
    row(&b, "wake a shell to the first byte of its answer", bench_us(&b, woken), spawn_true, 1);
    row(&b, "the same, p99", bench_quantile_us(&b, woken, 0.99), spawn_true, 4);
    row(&b, "each of 64 wakes in a row, beyond the pool", bench_us(&b, all) / (double)SHELLS,
        spawn_true, 0);
    row(&b, "true in a machine that runs", bench_us(&b, ran), spawn_true, 0.5);
    row(&b, "put a shell to sleep, until its cell is gone", bench_us(&b, slept), spawn_true, 15);
    (void)bench_finish(&b);
}

/* --- CPU time ------------------------------------------------------------------------------------
 */

static int by_value(const void *a, const void *b)
{
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

struct cpu {
    double ours, cell;
};

static struct cpu cpu_of_create(void)
{
    static const char *const argv[] = {"echo", "hi", NULL};
    struct bench_box x;
    struct cpu c;
    bench_box_new(&x, &base);
    bench_pool_settle(2 * BENCH_AHEAD);
    c.ours = -bench_cpu_us();
    bench_box_start(&x, true);
    c.cell = -bench_cell_cpu_us(&x);
    bench_box_run(&x, argv, false);
    while (x.said == 0)
        bench_box_step(&x);
    c.ours += bench_cpu_us();
    c.cell += bench_cell_cpu_us(&x);
    bench_box_free(&x);
    return c;
}

static struct cpu cpu_of_wake(void)
{
    static int next;
    struct shell *x = &shells[next++ % SHELLS];
    struct cpu c;
    bench_pool_settle(2 * BENCH_AHEAD);
    c.ours = -bench_cpu_us();
    bench_box_start(&x->box, false);
    c.cell = -bench_cell_cpu_us(&x->box);
    bench_box_woken(&x->box);
    ask(x);
    c.ours += bench_cpu_us();
    c.cell += bench_cell_cpu_us(&x->box);
    end(&x->box);
    return c;
}

static struct cpu cpu_of_true(void)
{
    struct cpu c = {.ours = -bench_cpu_us(), .cell = -bench_cell_cpu_us(&warm)};
    (void)exec_true(NULL, NULL, 10);
    c.ours += bench_cpu_us();
    c.cell += bench_cell_cpu_us(&warm);
    return (struct cpu){c.ours / 10, c.cell / 10};
}

static void measure_cpu(int rounds)
{
    static const struct {
        const char *name;
        struct cpu (*fn)(void);
        double budget;
    } what[] = {
        {"create from an image to the first output of echo", cpu_of_create, 3},
        {"wake a shell to the first byte of its answer", cpu_of_wake, 1},
        {"true in a machine that runs", cpu_of_true, 0.5},
    };
    static struct bench b;
    static double sums[1024];
    size_t n = rounds * 4 < 1024 ? (size_t)rounds * 4 : 1024;
    bench_init(&b, "cell_cpu", rounds);
    b.clock = BENCH_CPU;
    int spawn_true = bench_case(&b, "posix_spawn of true", bench_spawn_true, NULL, 4);
    bench_run(&b);
    for (size_t i = 0; i < DZ_ARRAY_LEN(what); i++) {
        (void)what[i].fn();
        for (size_t k = 0; k < n; k++) {
            struct cpu c = what[i].fn();
            sums[k] = c.ours + c.cell;
        }
        qsort(sums, n, sizeof sums[0], by_value);
        row(&b, what[i].name, sums[n / 2], spawn_true, what[i].budget);
    }
    (void)bench_finish(&b);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 25;
    rounds = rounds > 0 ? rounds : 25;
    if (!bench_base_open(&base)) {
        (void)fprintf(stderr,
                      "bench-cell: build/base/base.doze is missing: `make base` makes it\n");
        return 0;
    }
    bench_pool_open("cell");
    prepare_shells();
    bench_pool_settle(2 * BENCH_AHEAD);
    measure(rounds);
    measure_cpu(rounds);
    for (int i = 0; i < SHELLS; i++)
        bench_box_free(&shells[i].box);
    bench_box_free(&warm);
    bench_pool_close();
    return 0;
}

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

#include "base/buf.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "cell/cell_exec.h"
#include "cell/cell_pool.h"
#include "db/db.h"
#include "kernel/kernel.h"
#include "vfs/vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    SHELLS = 64,
    AHEAD = 8,
};

struct box {
    int disk, wal;
    struct dz_cell *cell;
    uint32_t exec;
    uint64_t offset;
    int counted;
    bool ready, up, live, over, gone;
    size_t said;
    char last[64];
};

static struct dz_cell_pool *pool;
static int base_fd, module_fd;
static char base_sha256[DZ_SHA256_HEX];
static struct dz_buf template = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
static struct box shells[SHELLS], warm;
static int next_id;

DZ_NORETURN static void die(const char *what, const struct dz_err *err)
{
    (void)fprintf(stderr, "bench-cell: %s: %s\n", what, err ? err->msg : "failed");
    exit(1);
}

static int nameless(void)
{
    const char *dir = getenv("BENCH_DIR");
    int fd = open(dir ? dir : "build", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        die("a file without a name in build/", NULL);
    return fd;
}

/* --- events ---------------------------------------------------------------------------- */

static void take(struct box *x, const struct dz_cell_event *e)
{
    x->ready |= e->type == DZ_CELL_READY;
    x->up |= e->type == DZ_CELL_UP;
    x->gone |= e->type == DZ_CELL_GONE;
    x->over |= e->type == DZ_CELL_EXITED;
    if (e->type == DZ_CELL_LIVE) {
        x->live = true;
        x->exec = e->exec;
    }
    if (e->type == DZ_CELL_OUTPUT) {
        size_t n = e->size < sizeof x->last - 1 ? e->size : sizeof x->last - 1;
        memcpy(x->last, e->data, n);
        x->last[n] = '\0';
        x->said += e->size;
        x->offset = e->offset + e->size;
        (void)dz_cell_exec_took(x->cell, e->exec, e->size, NULL);
    }
    if (e->type == DZ_CELL_FAILED || e->type == DZ_CELL_EXEC_FAILED || e->type == DZ_CELL_AWAKE) {
        (void)fprintf(stderr, "bench-cell: %s\n", e->text);
        exit(1);
    }
}

static void step(struct box *x)
{
    struct dz_err err = {0};
    struct dz_cell_event e;
    for (;;) {
        int rc = dz_cell_receive(x->cell, &e, &err);
        if (rc < 0)
            die("a cell", &err);
        if (rc > 0) {
            take(x, &e);
            return;
        }
        struct pollfd p = {.fd = dz_cell_fd(x->cell), .events = dz_cell_poll_events(x->cell)};
        (void)poll(&p, 1, -1);
    }
}

static void settle(size_t waiting)
{
    struct dz_err err = {0};
    for (int i = 0; i < 200; i++) {
        struct dz_cell_pool_stats s;
        struct pollfd p = {.fd = dz_cell_pool_fd(pool), .events = POLLIN};
        if (dz_cell_pool_run(pool, &err) < 0)
            die("the pool", &err);
        dz_cell_pool_stats_get(pool, &s);
        bool quiet = poll(&p, 1, 10) == 0;
        if (s.waiting >= waiting && quiet)
            return;
    }
}

/* --- sandboxes --------------------------------------------------------------------------- */

static void start(struct box *x, bool fresh)
{
    static const char *const env[] = {"PATH=/bin:/usr/bin", "HOME=/", NULL};
    struct dz_err err = {0};
    struct dz_cell_start s = {.disk_fd = x->disk,
                              .wal_fd = x->wal,
                              .image_fd = base_fd,
                              .image_sha256 = base_sha256,
                              .module_fds = &module_fd,
                              .module_count = module_fd >= 0,
                              .env = env,
                              .policy = dz_policy_find("posix"),
                              .many = true,
                              .fresh = fresh};
    x->ready = x->up = x->live = x->over = x->gone = false;
    if (dz_cell_pool_start(pool, &s, &x->cell, &err) < 0 || dz_cell_go(x->cell, &err) < 0)
        die("start", &err);
}

static void run(struct box *x, const char *const *argv, bool open_stdin)
{
    struct dz_err err = {0};
    char id[32];
    (void)snprintf(id, sizeof id, "exe_%d", ++next_id);
    const struct dz_cell_exec e = {
        .id = id, .argv = argv, .attach = true, .open_stdin = open_stdin};
    if (dz_cell_exec(x->cell, &e, &x->exec, &err) < 0)
        die("run", &err);
}

static void new_disk(struct box *x)
{
    struct dz_err err = {0};
    *x = (struct box){.disk = nameless(), .wal = nameless()};
    if (dz_db_create_fd(x->disk, template.p, template.len, false, &err) < 0)
        die("a disk", &err);
}

static void end(struct box *x)
{
    if (dz_cell_suspend(x->cell, false, NULL) < 0)
        die("suspend", NULL);
    while (!x->gone)
        step(x);
    dz_cell_free(x->cell);
    x->cell = NULL;
}

static void discard(struct box *x)
{
    dz_cell_free(x->cell);
    dz_fd_close(&x->disk);
    dz_fd_close(&x->wal);
}

/* Ask the shell that counts, and compare its answer. */
static void ask(struct box *x)
{
    size_t before = x->said;
    x->counted++;
    if (!x->live)
        while (dz_cell_exec_window(x->cell, x->exec) < 2)
            step(x);
    while (dz_cell_exec_input(x->cell, x->exec, "y\n", 2, NULL) != 2)
        step(x);
    while (x->said == before)
        step(x);
    if ((int)strtol(x->last, NULL, 10) != x->counted)
        die("a shell that forgot what it had counted", NULL);
}

static void wake(struct box *x)
{
    start(x, false);
    while (!x->live)
        step(x);
    if (dz_cell_exec_attach(x->cell, x->exec, x->offset, NULL) < 0)
        die("attach", NULL);
    ask(x);
}

/* --- what is measured ------------------------------------------------------------------------ */

static int create(struct bench *b, void *arg, long count)
{
    static const char *const argv[] = {"echo", "hi", NULL};
    (void)arg;
    for (long i = 0; i < count; i++) {
        struct box x;
        bench_stop(b);
        new_disk(&x);
        settle(2 * AHEAD);
        bench_start(b);
        start(&x, true);
        run(&x, argv, false);
        while (x.said == 0)
            step(&x);
        bench_stop(b);
        discard(&x);
        bench_start(b);
    }
    return 0;
}

static int wake_warm(struct bench *b, void *arg, long count)
{
    static int next;
    (void)arg;
    for (long i = 0; i < count; i++) {
        struct box *x = &shells[next++ % SHELLS];
        bench_stop(b);
        settle(2 * AHEAD);
        bench_start(b);
        wake(x);
        bench_stop(b);
        end(x);
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
            end(&shells[k]);
        settle(2 * AHEAD);
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
        run(&warm, argv, false);
        while (!warm.over)
            step(&warm);
    }
    return 0;
}

static int sleep_shell(struct bench *b, void *arg, long count)
{
    (void)arg;
    for (long i = 0; i < count; i++) {
        struct box *x = &shells[i % SHELLS];
        bench_stop(b);
        settle(2 * AHEAD);
        wake(x);
        bench_start(b);
        end(x);
    }
    return 0;
}

/* --- set-up --------------------------------------------------------------------------------------
 */

static bool open_base(void)
{
    const char *path = getenv("DOZE_BASE");
    char module[512];
    uint8_t digest[DZ_SHA256_BYTES];
    struct stat st;
    path = path && path[0] ? path : "build/base/base.doze";
    (void)snprintf(module, sizeof module, "%s.modules/busybox", path);
    base_fd = open(path, O_RDONLY | O_CLOEXEC);
    module_fd = open(module, O_RDONLY | O_CLOEXEC);
    if (base_fd < 0 || fstat(base_fd, &st) < 0)
        return false;
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, base_fd, 0);
    if (p == MAP_FAILED || dz_sha256(p, (size_t)st.st_size, digest, NULL) < 0)
        die("base", NULL);
    (void)munmap(p, (size_t)st.st_size);
    (void)dz_sha256_hex(digest, base_sha256);
    return true;
}

static void prepare_shells(void)
{
    static const char *const counts[] = {"sh", "-c",
                                         "i=0; while read x; do i=$((i+1)); echo $i; done", NULL};
    for (int i = 0; i < SHELLS; i++) {
        new_disk(&shells[i]);
        start(&shells[i], true);
        run(&shells[i], counts, true);
        ask(&shells[i]);
        end(&shells[i]);
        settle(0);
    }
    new_disk(&warm);
    start(&warm, true);
    while (!warm.up)
        step(&warm);
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
    row(&b, "each of 64 wakes in a row, beyond the pool", bench_us(&b, all) / SHELLS, spawn_true,
        0);
    row(&b, "true in a machine that runs", bench_us(&b, ran), spawn_true, 0.5);
    row(&b, "put a shell to sleep, until its cell is gone", bench_us(&b, slept), spawn_true, 15);
    (void)bench_finish(&b);
}

/* --- CPU time ------------------------------------------------------------------------------------
 */

static double cpu_us(clockid_t clock)
{
    struct timespec t = {0};
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static clockid_t clock_of(struct box *x)
{
    clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
    if (clock_getcpuclockid(dz_cell_pid(x->cell), &clock) != 0)
        die("the clock of a cell", NULL);
    return clock;
}

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
    struct box x;
    struct cpu c;
    new_disk(&x);
    settle(2 * AHEAD);
    c.ours = -cpu_us(CLOCK_PROCESS_CPUTIME_ID);
    start(&x, true);
    c.cell = -cpu_us(clock_of(&x));
    run(&x, argv, false);
    while (x.said == 0)
        step(&x);
    c.ours += cpu_us(CLOCK_PROCESS_CPUTIME_ID);
    c.cell += cpu_us(clock_of(&x));
    discard(&x);
    return c;
}

static struct cpu cpu_of_wake(void)
{
    static int next;
    struct box *x = &shells[next++ % SHELLS];
    struct cpu c;
    settle(2 * AHEAD);
    c.ours = -cpu_us(CLOCK_PROCESS_CPUTIME_ID);
    start(x, false);
    c.cell = -cpu_us(clock_of(x));
    while (!x->live)
        step(x);
    if (dz_cell_exec_attach(x->cell, x->exec, x->offset, NULL) < 0)
        die("attach", NULL);
    ask(x);
    c.ours += cpu_us(CLOCK_PROCESS_CPUTIME_ID);
    c.cell += cpu_us(clock_of(x));
    end(x);
    return c;
}

static struct cpu cpu_of_true(void)
{
    struct cpu c = {.ours = -cpu_us(CLOCK_PROCESS_CPUTIME_ID), .cell = -cpu_us(clock_of(&warm))};
    (void)exec_true(NULL, NULL, 10);
    c.ours += cpu_us(CLOCK_PROCESS_CPUTIME_ID);
    c.cell += cpu_us(clock_of(&warm));
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
    struct dz_err err = {0};
    int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 25;
    rounds = rounds > 0 ? rounds : 25;
    if (dz_cell_pool_new(&(struct dz_cell_pool_opts){.ahead = AHEAD}, &pool, &err) < 0)
        die("a pool", &err);
    if (!open_base()) {
        (void)fprintf(stderr,
                      "bench-cell: build/base/base.doze is missing: `make base` makes it\n");
        return 0;
    }
    if (dz_db_template(&dz_vfs_schema, &template, &err) < 0)
        die("a disk", &err);
    settle(AHEAD);
    prepare_shells();
    settle(2 * AHEAD);
    measure(rounds);
    measure_cpu(rounds);
    for (int i = 0; i < SHELLS; i++)
        discard(&shells[i]);
    discard(&warm);
    dz_cell_pool_free(pool);
    dz_buf_release(&template);
    return 0;
}

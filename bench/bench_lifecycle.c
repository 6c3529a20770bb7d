/* SPDX-License-Identifier: MIT
 *
 * bench_lifecycle.c - what it costs to change a state, to be asleep, to be frozen
 * and thawed.
 *
 * Copies are measured against cp and sync of the same file in the same rounds.
 * Reflinks need a file system that has them: DOZE_REFLINK_DIR names a directory on
 * one (an XFS on a loop device will do); without it those rows are left out.
 */
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "bench.h"
#include "sandbox/sandbox.h"

#include <assert.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ASLEEP = 100000,
    FILE_MB = 100,
    BIG_MB = 1024,
};

extern char **environ;

static char dir[DZ_TEMP_DIR_TEXT];

static void fail(const char *what, const struct dz_err *err)
{
    (void)fprintf(stderr, "bench: %s: %s\n", what, err->msg);
    exit(1);
}

/* --- rows ------------------------------------------------------------------------ */

struct rows {
    struct dz_registry *registry;
    int64_t version;
    const char *event;
};

static int run_next(struct bench *b, void *arg, long count)
{
    static const enum dz_state way[] = {DZ_STATE_ACTIVE, DZ_STATE_SUSPENDED, DZ_STATE_FROZEN};
    (void)b, (void)arg;
    for (long i = 0; i < count; i++)
        if (dz_lifecycle_next(way[i % 3], way[(i + 1) % 3], NULL) < 0)
            return -1;
    return 0;
}

static int run_change(struct bench *b, void *arg, long count)
{
    struct rows *r = arg;
    (void)b;
    for (long i = 0; i < count; i++) {
        const struct dz_instance to = {.state = i % 2 ? "active" : "suspended", .due = 1 + i};
        const struct dz_registry_change c = {.id = "sbx_050000",
                                             .version = r->version,
                                             .epoch = 1,
                                             .set = DZ_COLUMN(state) | DZ_COLUMN(due),
                                             .to = &to,
                                             .event = r->event};
        if (dz_registry_change(r->registry, &c, NULL) < 0)
            return -1;
        r->version++;
    }
    return 0;
}

static int run_get(struct bench *b, void *arg, long count)
{
    const struct rows *r = arg;
    (void)b;
    for (long i = 0; i < count; i++) {
        struct dz_instance row;
        if (dz_registry_get(r->registry, "sbx_050000", &row, NULL) < 0)
            return -1;
        dz_instance_release(&row);
    }
    return 0;
}

static struct dz_registry *make_registry(void)
{
    struct dz_registry *r = NULL;
    struct dz_err err;
    char path[DZ_TEMP_DIR_TEXT + 16], id[16];
    (void)snprintf(path, sizeof path, "%s/registry.db", dir);
    if (dz_registry_open(path, true, &r, &err) < 0)
        fail("registry", &err);
    for (int i = 0; i < ASLEEP; i++) {
        (void)snprintf(id, sizeof id, "sbx_%06d", i);
        const struct dz_instance row = {
            .id = id,
            .tenant = "acme",
            .state = "suspended",
            .vfs_path = "/var/lib/doze/live/sbx.doze",
            .kind = "wasm",
            .keep = "memory",
            .config = "{\"image\":\"base\",\"memory\":268435456,\"policy\":\"posix\",\"ports\":[]}",
            .idle_mode = "activity",
            .suspend_ms = -1,
            .freeze_ms = -1,
            .created = 1700000000000,
            .suspended_at = 1700000000000 + i,
            .due = 4000000000000 + i,
            .epoch = 1,
        };
        if (dz_registry_create(r, &row, &err) < 0)
            fail("row", &err);
    }
    return r;
}

/* --- asleep ---------------------------------------------------------------------- */

static double resident_mb(void)
{
    struct dz_buf b = DZ_BUF_INIT(4096);
    long pages = 0;
    if (dz_fd_read_file(AT_FDCWD, "/proc/self/statm", &b, NULL) >= 0)
        (void)sscanf(b.p, "%*d %ld", &pages);
    dz_buf_release(&b);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

static double cpu_ms(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

static const struct dz_sandbox_files no_files = {};

struct world {
    struct dz_loop *loop;
    struct dz_cold cold;
    struct dz_sandboxes *k;
    struct dz_timer *end;
};

static void end_loop(void *arg)
{
    dz_loop_stop(arg);
}

static void make_world(struct world *w, struct dz_registry *r, const char *where)
{
    char live[DZ_TEMP_DIR_TEXT + 16], cold[DZ_TEMP_DIR_TEXT + 16];
    struct dz_err err;
    (void)snprintf(live, sizeof live, "%s/live", where);
    (void)snprintf(cold, sizeof cold, "%s/cold", where);
    if (dz_blobs_open_dir(live, &w->cold.live, &err) < 0 ||
        dz_blobs_open_dir(cold, &w->cold.store, &err) < 0 || dz_loop_new(&w->loop, &err) < 0)
        fail("directories", &err);
    const struct dz_sandboxes_opts opts = {.loop = w->loop,
                                           .registry = r,
                                           .cold = w->cold,
                                           .files = &no_files,
                                           .files_arg = NULL,
                                           .live_path = live,
                                           .idle_policy = {DZ_IDLE_INHERIT, DZ_IDLE_INHERIT}};
    if (dz_sandboxes_new(&opts, &w->k, &err) < 0 || dz_sandboxes_recover(w->k, &err) < 0 ||
        dz_timer_new(w->loop, end_loop, w->loop, &w->end, &err) < 0)
        fail("sandboxes", &err);
}

static void end_world(struct world *w)
{
    dz_timer_free(w->end);
    dz_sandboxes_free(w->k);
    dz_loop_free(w->loop);
    dz_blobs_free(w->cold.live);
    dz_blobs_free(w->cold.store);
}

/* A fresh process opens the registry of 100,000 that sleep, recovers, and waits. */
static void measure_asleep(struct bench *b)
{
    double result[3] = {0};
    char path[DZ_TEMP_DIR_TEXT + 16];
    int fds[2];
    if (pipe(fds) < 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        struct world w = {0};
        struct dz_registry *r = NULL;
        struct dz_err err;
        (void)snprintf(path, sizeof path, "%s/registry.db", dir);
        double before = resident_mb();
        if (dz_registry_open(path, false, &r, &err) < 0)
            fail("registry", &err);
        make_world(&w, r, dir);
        result[0] = resident_mb() - before;
        double cpu = cpu_ms();
        dz_timer_after(w.end, 2000);
        if (dz_loop_run(w.loop, NULL) < 0)
            _exit(1);
        result[1] = cpu_ms() - cpu;
        result[2] = resident_mb();
        if (write(fds[1], result, sizeof result) != sizeof result)
            _exit(1);
        end_world(&w);
        (void)dz_registry_close(r, NULL);
        _exit(0);
    }
    if (read(fds[0], result, sizeof result) != sizeof result)
        fail("asleep", &(struct dz_err){.msg = "the process that waits failed"});
    (void)waitpid(pid, NULL, 0);
    (void)close(fds[0]);
    (void)close(fds[1]);
    bench_row(b, &(struct bench_row){.row = "100,000 asleep: memory that they add",
                                     .value = result[0],
                                     .unit = "MB",
                                     .budget = 100});
    bench_row(b, &(struct bench_row){.row = "100,000 asleep: CPU in 2 s of waiting",
                                     .value = result[1],
                                     .unit = "ms",
                                     .budget = 1});
}

/* --- files ----------------------------------------------------------------------- */

struct files {
    struct dz_cold cold;
    struct dz_cold_copy copy;
    char from[DZ_TEMP_DIR_TEXT + 32], to[DZ_TEMP_DIR_TEXT + 32];
};

static void make_big(const char *path, int mb)
{
    DZ_AUTO(dz_fd_close) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    DZ_AUTO(dz_freep) uint32_t *piece = dz_alloc(1 << 20);
    uint32_t x = 1;
    for (int i = 0; i < mb; i++) {
        for (size_t k = 0; k < (1 << 20) / sizeof *piece; k++)
            piece[k] = k % 8 ? (uint32_t)i : (x = x * 1664525u + 1013904223u);
        if (write(fd, piece, 1 << 20) != 1 << 20)
            exit(1);
    }
    if (fsync(fd) < 0)
        exit(1);
}

static int run_freeze(struct bench *b, void *arg, long count)
{
    struct files *f = arg;
    for (long i = 0; i < count; i++) {
        if (dz_cold_freeze(&f->cold, "big", NULL, &f->copy, NULL) < 0)
            return -1;
        bench_stop(b);
        if (dz_cold_drop(&f->cold, "big", DZ_COLD_BIT(FROZEN), NULL) < 0)
            return -1;
        bench_start(b);
    }
    return 0;
}

static int run_thaw(struct bench *b, void *arg, long count)
{
    struct files *f = arg;
    for (long i = 0; i < count; i++) {
        bench_stop(b);
        if (dz_cold_freeze(&f->cold, "big", NULL, &f->copy, NULL) < 0 ||
            dz_cold_drop(&f->cold, "big", DZ_COLD_BIT(LIVE), NULL) < 0) /* as a freeze does */
            return -1;
        bench_start(b);
        if (dz_cold_thaw(&f->cold, "big", &f->copy, NULL, NULL) < 0)
            return -1;
        bench_stop(b); /* the next one must not pay for removing this copy */
        if (dz_cold_drop(&f->cold, "big", DZ_COLD_BIT(FROZEN), NULL) < 0)
            return -1;
        bench_start(b);
    }
    return 0;
}

static int run_command(const char *const *argv)
{
    pid_t pid;
    int status;
    return posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ) == 0 &&
                   waitpid(pid, &status, 0) == pid && status == 0
               ? 0
               : -1;
}

static int run_cp(struct bench *b, void *arg, long count)
{
    const struct files *f = arg;
    const char *const cp[] = {"cp", f->from, f->to, NULL};
    for (long i = 0; i < count; i++) {
        if (run_command(cp) < 0)
            return -1;
        int fd = open(f->to, O_RDONLY | O_CLOEXEC);
        int rc = fd < 0 ? -1 : fsync(fd);
        bench_stop(b);
        (void)close(fd);
        (void)unlink(f->to);
        bench_start(b);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static void open_files(struct files *f, const char *where, int mb)
{
    char live[DZ_TEMP_DIR_TEXT + 16], cold[DZ_TEMP_DIR_TEXT + 16];
    struct dz_err err;
    (void)snprintf(live, sizeof live, "%s/live", where);
    (void)snprintf(cold, sizeof cold, "%s/cold", where);
    if (dz_blobs_open_dir(live, &f->cold.live, &err) < 0 ||
        dz_blobs_open_dir(cold, &f->cold.store, &err) < 0)
        fail("directories", &err);
    (void)snprintf(f->from, sizeof f->from, "%s/live/big.doze", where);
    (void)snprintf(f->to, sizeof f->to, "%s/cold/by-cp", where);
    make_big(f->from, mb);
}

/* --- prefetch -------------------------------------------------------------------- */

static void count_done(void *arg, const struct dz_sandbox_reply *result)
{
    *(int *)arg += result->code == 0;
}

static int run_prefetch(struct bench *b, void *arg, long count)
{
    struct world *w = arg;
    int done = 0;
    const struct dz_sandbox_request r = {
        .what = DZ_REQUEST_PREFETCH, .id = "sbx_000001", .done = count_done, .arg = &done};
    (void)b;
    for (long i = 0; i < count; i++)
        if (dz_sandbox_submit(w->k, &r, NULL, NULL) < 0)
            return -1;
    return done == count ? 0 : -1;
}

/* The row that is prefetched: frozen, and its file is local. */
static void make_frozen(struct dz_registry *r, const char *where)
{
    const struct dz_instance to = {.state = "frozen", .cold_uri = "sbx_000001.sqlite"};
    const struct dz_registry_change c = {.id = "sbx_000001",
                                         .version = 1,
                                         .epoch = 1,
                                         .set = DZ_COLUMN(state) | DZ_COLUMN(cold_uri),
                                         .to = &to};
    char path[DZ_TEMP_DIR_TEXT + 64];
    struct dz_err err;
    if (dz_registry_change(r, &c, &err) < 0)
        fail("frozen", &err);
    (void)snprintf(path, sizeof path, "%s/live/sbx_000001.doze", where);
    make_big(path, 1);
}

/* --- all ------------------------------------------------------------------------- */

static void row_us(struct bench *b, const char *name, double us, double budget)
{
    bench_row(b, &(struct bench_row){.row = name, .value = us, .unit = "µs", .budget = budget});
}

static void row_copy(struct bench *b, const char *name, int id, int cp, double budget)
{
    bench_row(b, &(struct bench_row){.row = name,
                                     .value = bench_us(b, id) / 1e3,
                                     .unit = "ms",
                                     .yardstick = bench_us(b, cp) / 1e3,
                                     .yardstick_name = "cp, fsync",
                                     .ratio = bench_us(b, id) / bench_us(b, cp),
                                     .budget = budget});
}

static void row_ms(struct bench *b, const char *name, double ms, double budget)
{
    bench_row(b, &(struct bench_row){.row = name, .value = ms, .unit = "ms", .budget = budget});
}

int main(void)
{
    static struct bench b, rows, big;
    static struct files f, g;
    struct world w = {0};
    const char *reflink = getenv("DOZE_REFLINK_DIR");
    if (dz_fd_temp_dir("doze-bench", dir, NULL) < 0)
        return 1;
    bench_init(&b, "lifecycle", 11);
    struct dz_registry *registry = make_registry();
    make_world(&w, registry, dir);
    make_frozen(registry, dir);
    open_files(&f, dir, FILE_MB);
    struct rows plain = {registry, 1, NULL};
    bench_init(&rows, "lifecycle", 21);
    rows.clock = BENCH_CPU; /* nothing here waits for a disk */
    int next = bench_case(&rows, "next", run_next, NULL, 1000000);
    int get = bench_case(&rows, "get", run_get, &plain, 5000);
    int change = bench_case(&rows, "change", run_change, &plain, 5000);
    int prefetch = bench_case(&rows, "prefetch", run_prefetch, &w, 200);
    bench_run(&rows);
    int freeze = bench_case(&b, "freeze", run_freeze, &f, 1);
    int cp = bench_case(&b, "cp", run_cp, &f, 1);
    int thaw = bench_case(&b, "thaw", run_thaw, &f, 1);
    bench_run(&b);
    row_us(&b, "ask the map for a hop (CPU)", bench_us(&rows, next), 20);
    row_us(&b, "read a row of 100,000 (CPU)", bench_us(&rows, get), 0);
    row_us(&b, "change its state, compare-and-swap (CPU)", bench_us(&rows, change), 20);
    bench_row(&b, &(struct bench_row){.row = "transitions a second",
                                      .value = 1e6 / bench_us(&rows, change),
                                      .unit = "/s",
                                      .budget = 50000,
                                      .at_least = true});
    row_us(&b, "prefetch a file that is local (CPU)", bench_us(&rows, prefetch), 100);
    row_copy(&b, "freeze 100 MB, durable, with its hash", freeze, cp, 1.15);
    row_copy(&b, "thaw 100 MB, durable, verified", thaw, cp, 1.15);
    end_world(&w);
    if (dz_registry_close(registry, NULL) < 0)
        return 1;
    measure_asleep(&b);
    if (reflink) {
        bench_init(&big, "lifecycle", 11);
        open_files(&g, reflink, BIG_MB);
        int clone = bench_case(&big, "freeze", run_freeze, &g, 1);
        int back = bench_case(&big, "thaw", run_thaw, &g, 1);
        bench_run(&big);
        row_ms(&b, "freeze 1 GB by reflink", bench_us(&big, clone) / 1e3, 15);
        row_ms(&b, "thaw 1 GB by reflink", bench_us(&big, back) / 1e3, 15);
        (void)unlink(g.from);
    }
    int rc = bench_finish(&b);
    return dz_fd_remove_tree(AT_FDCWD, dir, NULL) < 0 ? 1 : rc;
}

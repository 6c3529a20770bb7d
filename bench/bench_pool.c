/* SPDX-License-Identifier: MIT
 *
 * bench_pool.c - sandboxes in cells of a pool.
 */
#include "bench_pool.h"

#include "base/buf.h"
#include "base/fd.h"
#include "cell/cell_exec.h"
#include "cell/cell_pool.h"
#include "db/db.h"
#include "kernel/kernel.h"
#include "vfs/vfs.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *program = "?";
static struct dz_cell_pool *pool;
static struct dz_buf template = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);

DZ_NORETURN void bench_die(const char *what, const struct dz_err *err)
{
    (void)fprintf(stderr, "bench-%s: %s: %s\n", program, what, err ? err->msg : "failed");
    exit(1);
}

/* --- the pool -------------------------------------------------------------------------- */

void bench_pool_open(const char *name)
{
    struct dz_err err = {0};
    program = name;
    if (dz_cell_pool_new(&(struct dz_cell_pool_opts){.ahead = BENCH_AHEAD}, &pool, &err) < 0)
        bench_die("a pool", &err);
    if (dz_db_template(&dz_vfs_schema, &template, &err) < 0)
        bench_die("a disk", &err);
    bench_pool_settle(BENCH_AHEAD);
}

void bench_pool_close(void)
{
    dz_cell_pool_free(pool);
    dz_buf_release(&template);
}

void bench_pool_settle(size_t waiting)
{
    struct dz_err err = {0};
    for (int i = 0; i < 200; i++) {
        struct dz_cell_pool_stats s;
        struct pollfd p = {.fd = dz_cell_pool_fd(pool), .events = POLLIN};
        if (dz_cell_pool_run(pool, &err) < 0)
            bench_die("the pool", &err);
        dz_cell_pool_stats_get(pool, &s);
        bool quiet = poll(&p, 1, 5) == 0;
        if (s.waiting >= waiting && quiet)
            return;
    }
}

/* --- files ------------------------------------------------------------------------------- */

int bench_nameless(void)
{
    const char *dir = getenv("BENCH_DIR");
    int fd = open(dir ? dir : "build", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        bench_die("a file without a name in build/", NULL);
    return fd;
}

uint64_t bench_size(int fd)
{
    struct stat st;
    return fstat(fd, &st) < 0 ? 0 : (uint64_t)st.st_size;
}

void bench_sha256(int fd, char ret_hex[static DZ_SHA256_HEX])
{
    uint8_t digest[DZ_SHA256_BYTES];
    size_t n = (size_t)bench_size(fd);
    void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED || dz_sha256(p, n, digest, NULL) < 0)
        bench_die("hash an image", NULL);
    (void)munmap(p, n);
    (void)dz_sha256_hex(digest, ret_hex);
}

bool bench_base_open(struct bench_base *ret)
{
    const char *path = getenv("DOZE_BASE");
    char module[512];
    path = path && path[0] ? path : "build/base/base.doze";
    (void)snprintf(module, sizeof module, "%s.modules/busybox", path);
    *ret = (struct bench_base){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (ret->fd < 0)
        return false;
    ret->modules[0] = open(module, O_RDONLY | O_CLOEXEC);
    ret->module_count = ret->modules[0] >= 0;
    bench_sha256(ret->fd, ret->sha256);
    return true;
}

/* --- events ---------------------------------------------------------------------------- */

static void take(struct bench_box *x, const struct dz_cell_event *e)
{
    x->ready |= e->type == DZ_CELL_READY;
    x->up |= e->type == DZ_CELL_UP;
    x->asleep |= e->type == DZ_CELL_SUSPENDED;
    x->gone |= e->type == DZ_CELL_GONE;
    x->over |= e->type == DZ_CELL_EXITED;
    x->copied |= e->type == DZ_CELL_COPIED;
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
        (void)dz_cell_exec_ack(x->cell, e->exec, e->size, NULL);
    }
    if (e->type == DZ_CELL_FAILED || e->type == DZ_CELL_EXEC_FAILED || e->type == DZ_CELL_AWAKE ||
        (e->type == DZ_CELL_COPIED && e->code < 0)) {
        (void)fprintf(stderr, "bench-%s: %s\n", program, e->text);
        exit(1);
    }
}

void bench_box_step(struct bench_box *x)
{
    struct dz_err err = {0};
    struct dz_cell_event e;
    for (;;) {
        int rc = dz_cell_receive(x->cell, &e, &err);
        if (rc < 0)
            bench_die("a cell", &err);
        if (rc > 0) {
            take(x, &e);
            return;
        }
        struct pollfd p = {.fd = dz_cell_fd(x->cell), .events = dz_cell_poll_events(x->cell)};
        (void)poll(&p, 1, -1);
    }
}

/* --- sandboxes --------------------------------------------------------------------------- */

void bench_box_new(struct bench_box *x, const struct bench_base *base)
{
    struct dz_err err = {0};
    *x = (struct bench_box){.base = base, .disk = bench_nameless(), .wal = bench_nameless()};
    if (dz_db_create_fd(x->disk, template.p, template.len, false, &err) < 0)
        bench_die("a disk", &err);
}

static void take_cell(struct bench_box *x, bool fresh, bool asleep)
{
    const struct dz_cell_sleeper sleeper = {.id = x->id, .window = DZ_CELL_WINDOW};
    static const char *const env[] = {"PATH=/bin:/usr/bin", "HOME=/", NULL};
    const struct bench_base *b = x->base;
    struct dz_err err = {0};
    struct dz_cell_start s = {.disk_fd = x->disk,
                              .wal_fd = x->wal,
                              .image_fd = b->fd,
                              .image_sha256 = b->fd < 0 ? NULL : b->sha256,
                              .module_fds = b->modules,
                              .module_count = b->module_count,
                              .memory_bytes = b->memory_bytes,
                              .env = env,
                              .policy = dz_policy_find("posix"),
                              .fresh = fresh,
                              .hold = asleep,
                              .go = asleep,
                              .sleepers = &sleeper,
                              .sleeper_count = asleep};
    x->ready = x->up = x->live = x->over = x->copied = x->asleep = x->gone = false;
    if (dz_cell_pool_start(pool, &s, &x->cell, &err) < 0)
        bench_die("start", &err);
}

void bench_box_take(struct bench_box *x, bool fresh)
{
    take_cell(x, fresh, false);
}

void bench_box_start_asleep(struct bench_box *x)
{
    take_cell(x, false, true);
    x->exec = 1; /* the first of those that are named */
    if (dz_cell_exec_attach(x->cell, x->exec, x->offset, NULL) < 0)
        bench_die("attach", NULL);
}

void bench_box_put(struct bench_box *x, const char *path, const void *bytes, size_t size)
{
    struct dz_err err = {0};
    if (dz_cell_put_file(x->cell, path, 0755, &err) < 0 ||
        dz_cell_put_data(x->cell, bytes, size, &err) < 0)
        bench_die(path, &err);
}

void bench_box_go(struct bench_box *x)
{
    struct dz_err err = {0};
    if (dz_cell_go(x->cell, &err) < 0)
        bench_die("go", &err);
}

void bench_box_start(struct bench_box *x, bool fresh)
{
    bench_box_take(x, fresh);
    bench_box_go(x);
}

void bench_box_run(struct bench_box *x, const char *const *argv, bool open_stdin)
{
    static int next;
    struct dz_err err = {0};
    (void)snprintf(x->id, sizeof x->id, "exe_%d", ++next);
    const struct dz_cell_exec e = {
        .id = x->id, .argv = argv, .attach = true, .open_stdin = open_stdin};
    if (dz_cell_exec(x->cell, &e, &x->exec, &err) < 0)
        bench_die("run", &err);
}

void bench_box_hear(struct bench_box *x)
{
    size_t before = x->said;
    while (x->said == before)
        bench_box_step(x);
}

void bench_box_say(struct bench_box *x, const void *bytes, size_t n)
{
    while (dz_cell_exec_window(x->cell, x->exec) < n)
        bench_box_step(x);
    if (dz_cell_exec_input(x->cell, x->exec, bytes, n, NULL) != (int64_t)n)
        bench_die("input", NULL);
    if (dz_cell_begin(x->cell, NULL) < 0)
        bench_die("begin", NULL);
    bench_box_hear(x);
}

void bench_box_wake(struct bench_box *x)
{
    bench_box_start(x, false);
    bench_box_woken(x);
}

void bench_box_woken(struct bench_box *x)
{
    while (!x->live)
        bench_box_step(x);
    if (dz_cell_exec_attach(x->cell, x->exec, x->offset, NULL) < 0)
        bench_die("attach", NULL);
}

void bench_box_suspend(struct bench_box *x)
{
    if (dz_cell_suspend(x->cell, false, NULL) < 0)
        bench_die("suspend", NULL);
    while (!x->asleep)
        bench_box_step(x);
}

void bench_box_gone(struct bench_box *x)
{
    while (!x->gone)
        bench_box_step(x);
    dz_cell_free(x->cell);
    x->cell = NULL;
}

void bench_box_copy(struct bench_box *x, struct bench_box *to)
{
    x->copied = false;
    if (dz_cell_snapshot(x->cell, to->disk, NULL) < 0)
        bench_die("snapshot", NULL);
    while (!x->copied)
        bench_box_step(x);
}

void bench_box_kill(struct bench_box *x)
{
    dz_cell_free(x->cell);
    x->cell = NULL;
}

void bench_box_free(struct bench_box *x)
{
    bench_box_kill(x);
    dz_fd_close(&x->disk);
    dz_fd_close(&x->wal);
}

/* --- clocks ---------------------------------------------------------------------------------- */

static double clock_us(clockid_t clock)
{
    struct timespec t = {0};
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

double bench_cpu_us(void)
{
    return clock_us(CLOCK_PROCESS_CPUTIME_ID);
}

double bench_cell_cpu_us(const struct bench_box *x)
{
    clockid_t clock;
    if (clock_getcpuclockid(dz_cell_pid(x->cell), &clock) != 0)
        bench_die("the clock of a cell", NULL);
    return clock_us(clock);
}

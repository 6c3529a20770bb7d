/* SPDX-License-Identifier: MIT
 *
 * bench_sleep.c - how long it takes to put a machine to sleep, to wake it and to fork it.
 *
 * In cells of a pool, as the daemon has them, and from its side of the socket: a wake from
 * dz_cell_pool_start() to the first byte that the woken program says, another sandbox each
 * time, what it waits for sent with the start as the daemon does; a sleep from the request to "it
 * is durable"; a fork from the request to the source until the child, in a cell of its own, runs.
 * tests/guests/dirty.c is the program whose memory is of a known size; the shell is the base's,
 * CPython the image python's
 * (`make test-images`; DOZE_DATA). The yardsticks are posix_spawn of /bin/true, and as many
 * bytes written to a file of the same disk and fdatasync.
 *
 * A second table has the same operations in CPU time, of this process and the cells
 * together: a busy machine changes it less.
 */
#include "bench.h"
#include "bench_pool.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cell/cell_base.h"
#include "cell/cell_exec.h"
#include "db/db.h"
#include "image/image.h"
#include "kernel/kernel.h"
#include "machine/machine_copy.h"
#include "vfs/vfs.h"
#include "wasm/wasm_module.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    BOXES = 8, /* sandboxes of a kind, taken in turn */
    MB = 1 << 20,
    OPS = 16,
    QUIET_MS = 30, /* after which a cell has moved its log into its file */
};

/* --- what sleeps ------------------------------------------------------------------------- */

struct kind { /* sandboxes that all run the same */
    struct bench_base base;
    struct bench_box box[BOXES];
    int count, next;
};
static struct kind shell, parent, python, json, dirty, large, pandas;
static double import_ms;      /* of pandas, cold */
static const char *only = ""; /* rows whose names have this */

static struct bench_box *next_of(struct kind *k)
{
    return &k->box[k->next++ % k->count];
}

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Boxes that run argv, have said something, and sleep. */
static void start_all(struct kind *k, int count, const char *const *argv)
{
    k->count = count;
    for (int i = 0; i < count; i++) {
        struct bench_box *x = &k->box[i];
        bench_box_new(x, &k->base);
        bench_box_start(x, true);
        bench_box_run(x, argv, true);
        bench_box_hear(x);
        bench_box_suspend(x);
        bench_box_gone(x);
        bench_pool_settle(0);
    }
}

static bool start_shells(void)
{
    static const char *const argv[] = {"sh", "-c", "echo; while read x; do echo $x; done", NULL};
    if (!bench_base_open(&shell.base))
        return false;
    start_all(&shell, BOXES, argv);
    parent.base = shell.base;
    start_all(&parent, 1, argv);
    bench_box_wake(&parent.box[0]); /* it goes on while others are made of it */
    return true;
}

/* --- the program whose memory is known ---------------------------------------------------- */

static int write_fd(void *ctx, const void *data, size_t size, struct dz_err *err)
{
    return dz_fd_write(*(int *)ctx, data, size, err);
}

static void command(struct bench_box *x, char letter, uint32_t pages)
{
    const uint8_t bytes[5] = {(uint8_t)letter, (uint8_t)pages, (uint8_t)(pages >> 8),
                              (uint8_t)(pages >> 16), 0};
    bench_box_say(x, bytes, sizeof bytes);
}

static void start_dirty(struct kind *k, int count, uint32_t pages)
{
    static const char *const argv[] = {"/bin/dirty", NULL};
    DZ_AUTO(dz_buf_release) struct dz_buf wasm = DZ_BUF_INIT(MB);
    struct dz_err err = {0};
    k->base = (struct bench_base){.fd = -1, .modules = {bench_nameless()}, .module_count = 1};
    if (dz_fd_read_file(AT_FDCWD, "build/guests/dirty.wasm", &wasm, &err) < 0)
        bench_die("make guests", &err);
    const struct dz_wasm_sink sink = {.write = write_fd, .ctx = &k->base.modules[0]};
    if (dz_wasm_prepare(wasm.p, wasm.len, DZ_WASM_F_ALL, NULL, &sink, &err) < 0)
        bench_die("dirty.wasm", &err);
    k->count = count;
    for (int i = 0; i < count; i++) {
        struct bench_box *x = &k->box[i];
        bench_box_new(x, &k->base);
        bench_box_take(x, true);
        bench_box_put(x, "/bin/dirty", wasm.p, wasm.len);
        bench_box_go(x);
        bench_box_run(x, argv, true);
        command(x, 'g', pages);
        bench_box_suspend(x);
        bench_box_gone(x);
    }
}

/* --- CPython ------------------------------------------------------------------------------- */

/* The image, its modules; false: it has not been built. */
static bool open_python(struct bench_base *ret)
{
    static struct dz_image image;
    const char *data = getenv("DOZE_DATA");
    struct dz_image_store *s = NULL;
    size_t missing = 0;
    if (dz_image_store_open(data && data[0] ? data : "build/data", &s, NULL) < 0)
        return false;
    bool found = dz_image_find(s, "python", ret->sha256, NULL) == 0 &&
                 dz_image_load(s, ret->sha256, &image, NULL) == 0 &&
                 (ret->fd = dz_image_open(s, ret->sha256, NULL)) >= 0 &&
                 dz_image_modules(s, &image, ret->modules, &ret->module_count, &missing, NULL) == 0;
    dz_image_store_close(s);
    ret->memory_bytes = image.memory_bytes;
    return found;
}

#define PYTHON(name, first, answer)                                                               \
    static const char *const name[] = {"python3", "-c",                                           \
                                       first "\nprint('ready', flush=True)\n"                     \
                                             "for l in sys.stdin: print(" answer ", flush=True)", \
                                       NULL}
PYTHON(ten_argv, "import os, sys\nb = os.urandom(10 << 20)", "l");
PYTHON(json_argv, "import json, sys", "json.dumps([l])");
PYTHON(pandas_argv, "import sys, pandas", "eval(l)");
#define PANDAS_SUM "pandas.Series([1, 2]).sum()\n"

/* The main command of a cell of its own, so that it is the image's later. */
static void sleep_as_main(struct bench_box *x, const char *const *argv)
{
    static const char *const env[] = {"PATH=/bin:/usr/bin", "HOME=/", "DOZE_NUMPY_QUIET=1", NULL};
    const struct bench_base *b = x->base;
    struct dz_cell_event e = {0};
    struct dz_err err = {0};
    struct dz_cell_start s = {.disk_fd = x->disk,
                              .wal_fd = x->wal,
                              .image_fd = b->fd,
                              .image_sha256 = b->sha256,
                              .module_fds = b->modules,
                              .module_count = b->module_count,
                              .memory_bytes = b->memory_bytes,
                              .policy = dz_policy_find("posix"),
                              .asleep = DZ_CELL_BEGIN,
                              .ends_with_main = true,
                              .fresh = true};
    const struct dz_cell_exec main = {
        .id = DZ_CELL_MAIN, .argv = argv, .env = env, .open_stdin = true, .attach = true};
    if (dz_cell_spawn(&s, &x->cell, &err) < 0 || dz_cell_go(x->cell, &err) < 0 ||
        dz_cell_exec(x->cell, &main, &x->exec, &err) < 0)
        bench_die("main", &err);
    while (e.type != DZ_CELL_SUSPENDED) {
        struct pollfd p = {.fd = dz_cell_fd(x->cell), .events = POLLIN};
        int rc = dz_cell_receive(x->cell, &e, &err);
        if (rc < 0 || e.type == DZ_CELL_FAILED || e.type == DZ_CELL_EXEC_FAILED ||
            e.type == DZ_CELL_EXITED)
            bench_die(rc < 0 ? "main" : e.text, &err);
        if (rc == 0)
            (void)poll(&p, 1, -1);
        if (rc > 0 && e.type == DZ_CELL_OUTPUT && (e.size < 5 || memcmp(e.data, "ready", 5) != 0))
            bench_die("main: it says something else than ready", NULL);
        if (rc > 0 && e.type == DZ_CELL_OUTPUT && dz_cell_suspend(x->cell, false, &err) < 0)
            bench_die("main", &err);
    }
    bench_box_kill(x);
}

/* The image that is made of what sleeps in x, and its memory, flat. */
static void seal(const struct bench_box *x, struct bench_base *ret)
{
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema};
    const struct dz_db_opts below = {.schema = &dz_vfs_schema, .immutable = true};
    struct dz_db *db = NULL, *image = NULL, *to = NULL;
    struct dz_err err = {0};
    struct bench_box sealed;
    bench_box_new(&sealed, x->base);
    if (dz_db_open_fds(&db, dup(x->disk), dup(x->wal), &opts, &err) < 0 ||
        dz_db_open_fds(&image, dup(x->base->fd), -1, &below, &err) < 0 ||
        dz_db_open_fds(&to, dup(sealed.disk), dup(sealed.wal), &opts, &err) < 0 ||
        dz_machine_flatten(db, image, NULL, to, &err) < 0 || dz_db_close(to, false, &err) < 0 ||
        dz_db_close(image, true, &err) < 0 || dz_db_close(db, true, &err) < 0)
        bench_die("seal", &err);
    *ret = *x->base;
    ret->fd = sealed.disk;
    bench_sha256(ret->fd, ret->sha256);
    const struct dz_cell_base base = {.image_fd = ret->fd,
                                      .image_sha256 = ret->sha256,
                                      .module_fds = ret->modules,
                                      .module_count = ret->module_count,
                                      .out_fd = bench_nameless()};
    if (dz_cell_base_write(&base, &err) < 0)
        bench_die("memory of the image", &err);
    ret->modules[ret->module_count++] = base.out_fd;
}

static bool start_pythons(void)
{
    struct bench_box first;
    if (!open_python(&python.base))
        return false;
    json.base = python.base;
    start_all(&python, 4, ten_argv);
    start_all(&json, 1, json_argv);
    bench_box_new(&first, &python.base);
    double began = now_ms();
    sleep_as_main(&first, pandas_argv);
    import_ms = now_ms() - began;
    seal(&first, &pandas.base);
    pandas.count = 1;
    bench_box_free(&first);
    return true;
}

/* --- what is measured --------------------------------------------------------------------- */

/* An operation of the first table, and what it took of the CPU. */
struct op {
    const char *name;
    double budget; /* ms; more than 100: MB/s */
    int id, rounds;
    double cpu_us[BENCH_ROUNDS_MAX];
    double sum, began; /* of the round under way */
};
static struct op ops[OPS];
static size_t op_count;

/* by_cells: what the cells that take part have used, before and after. */
static void begin(struct bench *b, struct op *o, double by_cells)
{
    o->began = bench_cpu_us() + by_cells;
    bench_start(b);
}

static void end(struct bench *b, struct op *o, double by_cells)
{
    bench_stop(b);
    o->sum += bench_cpu_us() + by_cells - o->began;
}

/* A cell that waited used some before its start. */
static void start_counted(struct op *o, struct bench_box *x, bool fresh)
{
    bench_box_start(x, fresh);
    o->began += bench_cell_cpu_us(x);
}

static void start_asleep_counted(struct op *o, struct bench_box *x)
{
    bench_box_start_asleep(x);
    o->began += bench_cell_cpu_us(x);
}

static void attach(struct bench_box *x)
{
    while (!x->live)
        bench_box_step(x);
    if (dz_cell_exec_attach(x->cell, x->exec, x->offset, NULL) < 0)
        bench_die("attach", NULL);
}

static void round_over(struct op *o, long count)
{
    if (o->rounds < BENCH_ROUNDS_MAX)
        o->cpu_us[o->rounds++] = o->sum / (double)count;
    o->sum = 0;
}

struct what { /* the argument of a case */
    struct op *op;
    struct kind *kind;
    char letter;       /* of a command to dirty.c; 0: a line */
    uint32_t pages;    /* of that command */
    const char *line;  /* that a new sandbox is asked */
    bool asked_before; /* the same already, which is not counted */
    bool gone;         /* until the cell's process is, too */
};

static void tell(struct bench_box *x, const struct what *w)
{
    if (w->letter)
        command(x, w->letter, w->pages);
    else
        bench_box_say(x, "y\n", 2);
}

static int wake(struct bench *b, void *arg, long count)
{
    const struct what *w = arg;
    bench_stop(b);
    for (long i = 0; i < count; i++) {
        struct bench_box *x = next_of(w->kind);
        bench_pool_settle(BENCH_AHEAD);
        begin(b, w->op, 0);
        start_asleep_counted(w->op, x);
        tell(x, w);
        end(b, w->op, bench_cell_cpu_us(x));
        bench_box_suspend(x);
        bench_box_gone(x);
    }
    round_over(w->op, count);
    bench_start(b);
    return 0;
}

/* A new sandbox of an image in which pandas is imported already. */
static int create(struct bench *b, void *arg, long count)
{
    const struct what *w = arg;
    bench_stop(b);
    for (long i = 0; i < count; i++) {
        struct bench_box x;
        bench_box_new(&x, &w->kind->base);
        bench_pool_settle(2 * BENCH_AHEAD);
        if (!w->asked_before)
            begin(b, w->op, 0);
        start_counted(w->op, &x, true);
        attach(&x);
        if (w->asked_before) {
            bench_box_say(&x, w->line, strlen(w->line));
            begin(b, w->op, bench_cell_cpu_us(&x));
        }
        bench_box_say(&x, w->line, strlen(w->line));
        end(b, w->op, bench_cell_cpu_us(&x));
        bench_box_suspend(&x); /* a cell tells at its end what it used */
        bench_box_gone(&x);
        bench_box_free(&x);
    }
    round_over(w->op, count);
    bench_start(b);
    return 0;
}

static int put_to_sleep(struct bench *b, void *arg, long count)
{
    const struct what *w = arg;
    bench_stop(b);
    for (long i = 0; i < count; i++) {
        struct bench_box *x = next_of(w->kind);
        bench_pool_settle(BENCH_AHEAD);
        bench_box_wake(x);
        tell(x, w);
        double cpu = bench_cell_cpu_us(x);
        begin(b, w->op, cpu);
        bench_box_suspend(x);
        cpu = bench_cell_cpu_us(x);
        if (w->gone)
            bench_box_gone(x);
        end(b, w->op, cpu);
        if (!w->gone)
            bench_box_gone(x);
    }
    round_over(w->op, count);
    bench_start(b);
    return 0;
}

/* A machine that runs, and another one of the same instant that does. */
static int fork_machine(struct bench *b, void *arg, long count)
{
    const struct what *w = arg;
    struct bench_box *x = &w->kind->box[0];
    bench_stop(b);
    for (long i = 0; i < count; i++) {
        struct bench_box child = {
            .base = x->base, .disk = bench_nameless(), .wal = bench_nameless()};
        tell(x, w); /* something has changed since the last one */
        bench_pool_settle(BENCH_AHEAD);
        (void)poll(NULL, 0, QUIET_MS);
        begin(b, w->op, bench_cell_cpu_us(x));
        bench_box_copy(x, &child);
        start_counted(w->op, &child, false);
        while (!child.up)
            bench_box_step(&child);
        end(b, w->op, bench_cell_cpu_us(x) + bench_cell_cpu_us(&child));
        bench_box_free(&child);
    }
    round_over(w->op, count);
    bench_start(b);
    return 0;
}

struct sync {
    int fd;
    size_t size;
};

static int sync_file(struct bench *b, void *arg, long count)
{
    static uint8_t bytes[MB];
    const struct sync *s = arg;
    for (long i = 0; i < count; i++) {
        for (size_t at = 0; at < s->size; at += sizeof bytes)
            if (pwrite(s->fd, bytes, sizeof bytes, (off_t)at) < 0)
                return -1;
        if (fdatasync(s->fd) < 0)
            return -1;
        bench_stop(b);
        if (ftruncate(s->fd, 0) < 0)
            return -1;
        bench_start(b);
    }
    return 0;
}

static void op_new(struct bench *b, const char *name, double budget, bench_fn *fn, struct what *arg,
                   long count)
{
    if (arg->kind->count == 0 || !strstr(name, only))
        return;
    struct op *o = &ops[op_count++];
    arg->op = o;
    o->name = name;
    o->budget = budget;
    o->id = bench_case(b, name, fn, arg, count);
}

static int by_value(const void *a, const void *b)
{
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

static double median_cpu(struct op *o)
{
    qsort(o->cpu_us, (size_t)o->rounds, sizeof o->cpu_us[0], by_value);
    return o->rounds ? o->cpu_us[o->rounds / 2] : 0;
}

/* --- rows ------------------------------------------------------------------------------------ */

static void row(struct bench *b, const char *name, double value, const char *unit, double budget)
{
    bench_row(b, &(struct bench_row){.row = name,
                                     .value = value,
                                     .unit = unit,
                                     .budget = budget,
                                     .at_least = strcmp(unit, "MB/s") == 0});
}

static void size_rows(struct bench *b)
{
    if (import_ms > 0)
        row(b, "importing pandas, to the answer, cold", import_ms, "ms", 0);
    if (shell.count)
        row(b, "file of a sleeping shell", (double)bench_size(shell.box[1].disk) / 1024, "KiB", 0);
    if (json.count)
        row(b, "file of a sleeping CPython with json", (double)bench_size(json.box[0].disk) / 1024,
            "KiB", 2048);
}

/* The table of either clock. */
static void op_rows(struct bench *b, const struct bench *measured, bool cpu)
{
    for (size_t i = 0; i < op_count; i++) {
        struct op *o = &ops[i];
        double us = cpu ? median_cpu(o) : bench_us(measured, o->id);
        bool rate = o->budget > 100;
        row(b, o->name, rate ? 100.0 * (double)MB / us : us / 1000, rate ? "MB/s" : "ms",
            o->budget);
    }
}

static void add_ops(struct bench *b)
{
    static struct what woken = {.kind = &shell}, forked = {.kind = &parent}, py = {.kind = &python},
                       made = {.kind = &pandas, .line = "pandas.__version__\n"},
                       sum = {.kind = &pandas, .line = PANDAS_SUM},
                       again = {.kind = &pandas, .line = PANDAS_SUM, .asked_before = true},
                       ten = {.kind = &dirty, .letter = 'c', .pages = 16},
                       one = {.kind = &dirty, .letter = 'd', .pages = 256},
                       ended = {.kind = &dirty, .letter = 'd', .pages = 256, .gone = true},
                       spread = {.kind = &dirty, .letter = 's', .pages = 256},
                       hundred = {.kind = &large, .letter = 'd', .pages = 25600};
    op_new(b, "resume to first output, shell", 1, wake, &woken, 4);
    op_new(b, "resume to first output, 10 MB of pages", 5, wake, &ten, 2);
    op_new(b, "resume to first output, CPython and 10 MB", 5, wake, &py, 4);
    op_new(b, "create with pandas imported, to its version", 5, create, &made, 2);
    op_new(b, "  to the first sum of a Series", 0, create, &sum, 2);
    op_new(b, "  the same sum once more, warm", 0, create, &again, 2);
    op_new(b, "suspend, 1 MB dirty, durable", 3, put_to_sleep, &one, 4);
    op_new(b, "suspend, 1 MB dirty, scattered, durable", 3, put_to_sleep, &spread, 4);
    op_new(b, "suspend, 1 MB dirty, until the cell is gone", 15, put_to_sleep, &ended, 4);
    op_new(b, "suspend, 100 MB dirty, durable", 400, put_to_sleep, &hundred, 1);
    op_new(b, "fork of a shell to a running child", 2, fork_machine, &forked, 4);
}

static int measure(int rounds)
{
    static struct bench b, cpu;
    struct sync small = {bench_nameless(), MB}, big = {bench_nameless(), 100 * MB};
    bench_init(&b, "sleep", rounds);
    int spawn_true = bench_case(&b, "posix_spawn of true", bench_spawn_true, NULL, 4);
    int synced = bench_case(&b, "1 MB synced", sync_file, &small, 4);
    int synced_big = bench_case(&b, "100 MB synced", sync_file, &big, 1);
    add_ops(&b);
    bench_run(&b);
    row(&b, "posix_spawn of /bin/true", bench_us(&b, spawn_true) / 1000, "ms", 0);
    row(&b, "1 MB written and fdatasync", bench_us(&b, synced) / 1000, "ms", 0);
    row(&b, "100 MB written and fdatasync", 100.0 * (double)MB / bench_us(&b, synced_big), "MB/s",
        0);
    op_rows(&b, &b, false);
    size_rows(&b);
    bench_init(&cpu, "sleep_cpu", rounds);
    op_rows(&cpu, &b, true);
    return bench_finish(&b) | bench_finish(&cpu);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 15;
    rounds = rounds > 0 ? rounds : 15;
    only = argc > 2 ? argv[2] : only;
    bench_pool_open("sleep");
    if (!start_shells())
        (void)fprintf(stderr, "bench-sleep: no build/base/base.doze (make base): the shell is "
                              "left out\n");
    start_dirty(&dirty, BOXES, 2560);
    start_dirty(&large, 1, 25600);
    if ((!*only || strstr("CPython, pandas, Series, same sum", only)) && !start_pythons())
        (void)fprintf(stderr, "bench-sleep: no image python in DOZE_DATA (make test-images): "
                              "CPython is left out\n");
    int rc = measure(rounds);
    bench_pool_close();
    return rc;
}

/* SPDX-License-Identifier: MIT
 *
 * bench_sleep.c - how long it takes to put a machine to sleep and to wake it.
 *
 * Every operation is measured from this side of the socket: a wake from
 * dz_cell_spawn() (fork, jail, open, lay memory) to the first byte that the woken
 * program says, a sleep from the request to "it is durable". Each wake is one in a
 * process of its own. tests/guests/dirty.c is the program whose memory is of a known
 * size; the shell is the base's, CPython the image python's (`make test-images`; DOZE_DATA).
 * "From go" leaves out what a cell that waits in a pool has behind it: fork, jail, the file
 * opened.
 *
 * A second table has the same in CPU time, which a busy machine changes less: of this
 * process and the cell, from the fork to its end. A cell that is killed after its first
 * byte stands for the wake; what one that is put to sleep needs besides is the sleep.
 */
#include "bench.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "cell/cell.h"
#include "cell/cell_base.h"
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    SETTLE_US = 30000, /* for a cell to have opened its file */
};

struct box {
    const char *what;
    int disk, wal, base, modules[DZ_IMAGE_MODULES_MAX];
    size_t module_count;
    const char *base_sha256;
    const char *const *argv;
    uint64_t memory_bytes;
    bool create;          /* what sleeps is the base's: a fresh disk each time */
    struct dz_cell *cell; /* awake */
    size_t said;
    char last;
};

DZ_NORETURN static void die(const char *what, const struct dz_err *err)
{
    (void)fprintf(stderr, "bench-sleep: %s: %s\n", what, err ? err->msg : "failed");
    exit(1);
}

/* --- a sandbox -------------------------------------------------------------------- */

static int nameless(void)
{
    const char *dir = getenv("BENCH_DIR");
    int fd = open(dir ? dir : "build", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        die("a file without a name in build/", NULL);
    return fd;
}

static void receive(struct box *x, enum dz_cell_event_type until)
{
    struct dz_err err = {0};
    struct dz_cell_event e;
    size_t begin = x->said;
    for (;;) {
        int rc = dz_cell_receive(x->cell, &e, &err);
        struct pollfd p = {.fd = dz_cell_fd(x->cell), .events = POLLIN};
        if (rc < 0)
            die(x->what, &err);
        if (rc == 0) {
            (void)poll(&p, 1, -1);
            continue;
        }
        if (e.type == DZ_CELL_OUTPUT && e.size) {
            x->said += e.size;
            x->last = (char)e.data[e.size - 1];
        }
        if (e.type == DZ_CELL_FAILED || e.type == DZ_CELL_AWAKE || e.type == DZ_CELL_ENDED) {
            (void)fprintf(stderr, "bench-sleep: %s: %s\n", x->what, e.text);
            exit(1);
        }
        if (e.type == until && (until != DZ_CELL_OUTPUT || x->said > begin))
            return;
    }
}

static void spawn(struct box *x, bool resume)
{
    static const char *const env[] = {"PATH=/bin", "HOME=/", NULL};
    struct dz_err err = {0};
    struct dz_cell_start s = {.disk_fd = x->disk,
                              .wal_fd = x->wal,
                              .image_fd = x->base,
                              .image_sha256 = x->base_sha256,
                              .module_fds = x->modules,
                              .module_count = x->module_count,
                              .memory_bytes = x->memory_bytes,
                              .argv = x->argv,
                              .env = env,
                              .policy = dz_policy_find("posix"),
                              .open_stdin = true,
                              .fresh = !resume || x->create,
                              .resume = resume};
    if (dz_cell_spawn(&s, &x->cell, &err) < 0)
        die(x->what, &err);
}

static void go(struct box *x)
{
    if (dz_cell_go(x->cell, NULL) < 0)
        die(x->what, NULL);
    receive(x, DZ_CELL_WINDOW_OPEN);
}

static void say(struct box *x, const void *bytes, size_t n)
{
    if (dz_cell_input(x->cell, DZ_CELL_STDIN, bytes, n, NULL) != (int64_t)n)
        die(x->what, NULL);
    receive(x, DZ_CELL_OUTPUT);
}

static void ask_to_sleep(struct box *x)
{
    if (dz_cell_suspend(x->cell, false, NULL) < 0)
        die(x->what, NULL);
    receive(x, DZ_CELL_SUSPENDED);
}

static void gone(struct box *x)
{
    dz_cell_free(x->cell);
    x->cell = NULL;
}

static void fresh_disk(struct box *x)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    struct dz_err err = {0};
    x->disk = nameless();
    x->wal = nameless();
    if (dz_db_template(&dz_vfs_schema, &t, &err) < 0 ||
        dz_db_create_fd(x->disk, t.p, t.len, false, &err) < 0)
        die("a disk", &err);
}

static uint64_t size_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) < 0 ? 0 : (uint64_t)st.st_size;
}

/* --- the program whose memory is known ----------------------------------------------- */

static int write_fd(void *ctx, const void *data, size_t size, struct dz_err *err)
{
    return dz_fd_write(*(int *)ctx, data, size, err);
}

static void command(struct box *x, char letter, uint32_t pages)
{
    const uint8_t bytes[5] = {(uint8_t)letter, (uint8_t)pages, (uint8_t)(pages >> 8),
                              (uint8_t)(pages >> 16), 0};
    say(x, bytes, sizeof bytes);
}

static void start_dirty(struct box *x, const char *what, uint32_t pages)
{
    static const char *const argv[] = {"dirty", NULL};
    static struct dz_buf wasm = DZ_BUF_INIT(1 << 20);
    struct dz_err err = {0};
    *x = (struct box){.what = what, .base = -1, .argv = argv, .module_count = 1};
    x->modules[0] = nameless();
    if (wasm.len == 0 && dz_fd_read_file(AT_FDCWD, "build/guests/dirty.wasm", &wasm, &err) < 0)
        die("make guests", &err);
    const struct dz_wasm_sink sink = {.write = write_fd, .ctx = &x->modules[0]};
    if (dz_wasm_prepare(wasm.p, wasm.len, DZ_WASM_F_ALL, NULL, &sink, &err) < 0)
        die("dirty.wasm", &err);
    fresh_disk(x);
    spawn(x, false);
    if (dz_cell_put_file(x->cell, "/bin/dirty", 0755, &err) < 0 ||
        dz_cell_put_data(x->cell, wasm.p, wasm.len, &err) < 0)
        die(what, &err);
    go(x);
    command(x, 'g', pages);
    ask_to_sleep(x);
    gone(x);
}

static const char *hash_of(int fd, char ret_hex[static DZ_SHA256_HEX])
{
    uint8_t digest[DZ_SHA256_BYTES];
    size_t n = (size_t)size_of(fd);
    void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED || dz_sha256(p, n, digest, NULL) < 0)
        die("hash the base", NULL);
    (void)munmap(p, n);
    return dz_sha256_hex(digest, ret_hex);
}

/* --- the shell --------------------------------------------------------------------------- */

static bool start_shell(struct box *x)
{
    static const char *const argv[] = {"sh", "-c", "while read x; do echo $x; done", NULL};
    static char hex[DZ_SHA256_HEX];
    const char *path = getenv("DOZE_BASE");
    char module[512];
    path = path && path[0] ? path : "build/base/base.doze";
    *x = (struct box){.what = "shell", .argv = argv, .base = open(path, O_RDONLY | O_CLOEXEC)};
    (void)snprintf(module, sizeof module, "%s.modules/busybox", path);
    x->modules[0] = open(module, O_RDONLY | O_CLOEXEC);
    x->module_count = x->modules[0] >= 0;
    if (x->base < 0)
        return false;
    x->base_sha256 = hash_of(x->base, hex);
    fresh_disk(x);
    spawn(x, false);
    go(x);
    say(x, "x\n", 2);
    ask_to_sleep(x);
    gone(x);
    return true;
}

/* --- CPython ------------------------------------------------------------------------------- */

static struct dz_image python;
static char python_sha256[DZ_SHA256_HEX];

/* The image, its modules; false: it has not been built. */
static bool open_python(struct box *x)
{
    const char *data = getenv("DOZE_DATA");
    struct dz_image_store *s = NULL;
    size_t missing = 0;
    if (dz_image_store_open(data && data[0] ? data : "build/data", &s, NULL) < 0)
        return false;
    bool found = dz_image_find(s, "python", python_sha256, NULL) == 0 &&
                 (python.sha256[0] || dz_image_load(s, python_sha256, &python, NULL) == 0) &&
                 (x->base = dz_image_open(s, python_sha256, NULL)) >= 0 &&
                 dz_image_modules(s, &python, x->modules, &x->module_count, &missing, NULL) == 0;
    dz_image_store_close(s);
    x->base_sha256 = python_sha256;
    x->memory_bytes = python.memory_bytes;
    return found;
}

/* A script that says it is ready and then answers lines, asleep. */
static bool start_python(struct box *x, const char *what, const char *script)
{
    static const char *const argv[] = {"python3", "/bench.py", NULL};
    struct dz_err err = {0};
    *x = (struct box){.what = what, .argv = argv};
    if (!open_python(x))
        return false;
    fresh_disk(x);
    spawn(x, false);
    if (dz_cell_put_file(x->cell, "/bench.py", 0644, &err) < 0 ||
        dz_cell_put_data(x->cell, script, strlen(script), &err) < 0)
        die(what, &err);
    go(x);
    receive(x, DZ_CELL_OUTPUT);
    ask_to_sleep(x);
    gone(x);
    return true;
}

/* A sandbox of an image that is made of what sleeps in another. */
static void create_from(struct box *x, const struct box *from)
{
    static char hex[DZ_SHA256_HEX];
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema};
    const struct dz_db_opts below = {.schema = &dz_vfs_schema, .immutable = true};
    struct dz_db *db = NULL, *image = NULL, *to = NULL;
    struct dz_err err = {0};
    *x = *from;
    fresh_disk(x);
    int sealed = x->disk, memory = nameless();
    if (dz_db_open_fds(&db, dup(from->disk), dup(from->wal), &opts, &err) < 0 ||
        dz_db_open_fds(&image, dup(from->base), -1, &below, &err) < 0 ||
        dz_db_open_fds(&to, dup(sealed), dup(x->wal), &opts, &err) < 0 ||
        dz_machine_seal(db, image, to, &err) < 0 || dz_db_close(to, false, &err) < 0 ||
        dz_db_close(image, true, &err) < 0 || dz_db_close(db, true, &err) < 0)
        die("seal", &err);
    x->base = sealed;
    x->base_sha256 = hash_of(sealed, hex);
    const struct dz_cell_base base = {.image_fd = sealed,
                                      .image_sha256 = hex,
                                      .module_fds = from->modules,
                                      .module_count = from->module_count,
                                      .out_fd = memory};
    if (dz_cell_base_write(&base, &err) < 0)
        die("memory of the image", &err);
    x->modules[x->module_count++] = memory;
    x->create = true;
    fresh_disk(x);
}

/* --- the same file again and again ---------------------------------------------------------- */

static void copy_file(const struct box *x, int from, int to)
{
    off_t in = 0, out = 0;
    ssize_t n = 1;
    while (n > 0)
        n = copy_file_range(from, &in, to, &out, (size_t)1 << 30, 0);
    if (n < 0)
        die(x->what, NULL);
}

/* As it was when it fell asleep. In a file: what we had in memory, each fork would
 * pay for. */
static int save(const struct box *x)
{
    int fd = nameless();
    copy_file(x, x->disk, fd);
    return fd;
}

static void put_back(const struct box *x, int saved)
{
    if (ftruncate(x->disk, 0) < 0 || ftruncate(x->wal, 0) < 0)
        die(x->what, NULL);
    copy_file(x, saved, x->disk);
}

/* --- what is measured --------------------------------------------------------------------- */

static int wake_shell(struct bench *b, void *arg, long count)
{
    struct box *x = arg;
    for (long i = 0; i < count; i++) {
        spawn(x, true);
        go(x);
        say(x, "y\n", 2);
        bench_stop(b);
        ask_to_sleep(x);
        gone(x);
        bench_start(b);
    }
    return 0;
}

/* The same by another process: first byte of the answer to a line, put back each time. */
struct wake {
    struct box *box;
    int saved;
    bool from_go; /* the cell waits with the file open */
};

static int wake_anew(struct bench *b, void *arg, long count)
{
    const struct wake *w = arg;
    for (long i = 0; i < count; i++) {
        if (w->from_go) {
            bench_stop(b);
            spawn(w->box, true);
            (void)usleep(SETTLE_US);
            bench_start(b);
        }
        if (!w->from_go)
            spawn(w->box, true);
        go(w->box);
        say(w->box, "y\n", 2);
        bench_stop(b);
        gone(w->box);
        put_back(w->box, w->saved);
        bench_start(b);
    }
    return 0;
}

/* A machine that runs, and another one of the same instant that does. */
static int fork_machine(struct bench *b, void *arg, long count)
{
    struct box *x = arg;
    for (long i = 0; i < count; i++) {
        bench_stop(b);
        struct box child = *x;
        child.disk = nameless();
        child.wal = nameless();
        bench_start(b);
        if (dz_cell_snapshot(x->cell, child.disk, child.wal, NULL) < 0)
            die(x->what, NULL);
        receive(x, DZ_CELL_COPIED);
        spawn(&child, true);
        go(&child);
        bench_stop(b);
        gone(&child);
        (void)close(child.disk);
        (void)close(child.wal);
        bench_start(b);
    }
    return 0;
}

static int wake_memory(struct bench *b, void *arg, long count)
{
    struct box *x = arg;
    for (long i = 0; i < count; i++) {
        spawn(x, true);
        go(x);
        command(x, 'c', 16);
        bench_stop(b);
        ask_to_sleep(x);
        gone(x);
        bench_start(b);
    }
    return 0;
}

struct sleeper {
    struct box box;
    char letter;
    uint32_t pages; /* dirty */
};

static int put_to_sleep(struct bench *b, void *arg, long count)
{
    struct sleeper *s = arg;
    for (long i = 0; i < count; i++) {
        bench_stop(b);
        spawn(&s->box, true);
        go(&s->box);
        command(&s->box, s->letter, s->pages);
        bench_start(b);
        ask_to_sleep(&s->box);
        bench_stop(b);
        gone(&s->box);
        bench_start(b);
    }
    return 0;
}

static int sync_file(struct bench *b, void *arg, long count)
{
    static uint8_t page[4096];
    int fd = *(int *)arg;
    (void)b;
    for (long i = 0; i < count; i++)
        if (pwrite(fd, page, sizeof page, (off_t)i * 4096) < 0 || fdatasync(fd) < 0)
            return -1;
    return 0;
}

static void row(struct bench *b, const char *name, double value, const char *unit, int yardstick,
                double budget, bool at_least)
{
    bench_row(b, &(struct bench_row){.row = name,
                                     .value = value,
                                     .unit = unit,
                                     .yardstick = bench_us(b, yardstick) / 1000,
                                     .yardstick_name = "spawn true, ms",
                                     .budget = budget,
                                     .at_least = at_least});
}

struct leg {
    struct box *box;
    int saved;
    char letter; /* of a command; 0: a line for the shell */
    uint32_t pages;
    bool sleeps; /* else it is killed */
};

/* The CPU time of the cell alone, between two events: from go to the first byte of an
 * answer, or from the wish that it sleeps to its being durable. */
static double cell_ns(const struct box *x)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(dz_cell_pid(x->cell), &clock) != 0 || clock_gettime(clock, &t) < 0)
        die("the clock of the cell", NULL);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void answer(const struct leg *l)
{
    if (l->letter)
        command(l->box, l->letter, l->pages);
    else
        say(l->box, "y\n", 2);
}

static int run_leg(struct bench *b, void *arg, long count)
{
    const struct leg *l = arg;
    for (long i = 0; i < count; i++) {
        bench_stop(b);
        put_back(l->box, l->saved);
        bench_start(b);
        spawn(l->box, true);
        go(l->box);
        answer(l);
        if (l->sleeps)
            ask_to_sleep(l->box);
        gone(l->box);
    }
    return 0;
}

static int run_inside(struct bench *b, void *arg, long count)
{
    const struct leg *l = arg;
    bench_stop(b);
    for (long i = 0; i < count; i++) {
        put_back(l->box, l->saved);
        spawn(l->box, true);
        (void)usleep(SETTLE_US);
        double began = cell_ns(l->box);
        go(l->box);
        answer(l);
        if (l->sleeps) {
            began = cell_ns(l->box);
            ask_to_sleep(l->box);
        }
        b->counted += cell_ns(l->box) - began;
        gone(l->box);
    }
    bench_start(b);
    return 0;
}

/* In CPU time: what a run of it takes, less what a shorter run does. */
struct cpu_row {
    const char *name;
    struct leg leg, less; /* less.box NULL: nothing */
    double budget, mb;    /* mb: the row is in MB/s */
    bool inside;
};

static void measure_cpu(const struct cpu_row *rows, size_t count, int rounds)
{
    static struct bench b;
    static struct leg legs[2][24];
    int ids[2][24] = {0};
    bench_init(&b, "sleep_cpu", rounds);
    b.clock = BENCH_CPU;
    int spawn_true = bench_case(&b, "posix_spawn of true", bench_spawn_true, NULL, 1);
    for (size_t i = 0; i < count; i++)
        for (int less = 0; less < 2; less++) {
            struct leg *l = &legs[less][i];
            *l = less ? rows[i].less : rows[i].leg;
            if (!l->box)
                continue;
            l->saved = save(l->box);
            ids[less][i] =
                bench_case(&b, rows[i].name, rows[i].inside ? run_inside : run_leg, l, 1);
        }
    bench_run(&b);
    for (size_t i = 0; i < count; i++) {
        double ms = bench_us(&b, ids[0][i]) / 1000;
        if (rows[i].less.box)
            ms -= bench_us(&b, ids[1][i]) / 1000;
        if (rows[i].leg.box)
            row(&b, rows[i].name, rows[i].mb ? rows[i].mb / ms * 1000 : ms,
                rows[i].mb ? "MB/s" : "ms", spawn_true, rows[i].budget, rows[i].mb > 0);
    }
    (void)bench_finish(&b);
}

static const char json_script[] = "import json, sys\nprint('ready', flush=True)\n"
                                  "for l in sys.stdin: print(json.dumps([l]), flush=True)\n";
static const char pandas_script[] =
    "import sys, pandas\nprint('ready', flush=True)\n"
    "for l in sys.stdin: print(pandas.Series([1, 2]).sum(), flush=True)\n";
static const char cold_script[] = "import pandas\nprint(pandas.Series([1, 2]).sum(), flush=True)\n";

static struct box shell, json, pandas, created, cold, parent, ten;
static struct sleeper one, scattered, hundred;
static bool has_base, has_python;

static void start_all(void)
{
    has_base = start_shell(&shell);
    start_dirty(&ten, "10 MB", 2560);
    start_dirty(&one.box, "1 MB of 10", 2560);
    start_dirty(&scattered.box, "1 MB of 10, scattered", 2560);
    start_dirty(&hundred.box, "100 MB", 25600);
    one.letter = 'd', one.pages = 256;
    scattered.letter = 's', scattered.pages = 256;
    hundred.letter = 'd', hundred.pages = 25600;
    has_python = start_python(&json, "CPython", json_script);
    if (has_python && start_python(&pandas, "pandas", pandas_script))
        create_from(&created, &pandas);
    if (has_base) { /* goes on while others are made of it */
        (void)start_shell(&parent);
        spawn(&parent, true);
        go(&parent);
    }
    if (!has_python)
        (void)fprintf(stderr, "bench-sleep: no image python in DOZE_DATA (make test-images): "
                              "CPython is left out\n");
}

/* From a fresh disk to the first answer of a program that imports pandas now. */
static int import_cold(struct bench *b, void *arg, long count)
{
    static const char *const argv[] = {"python3", "-c", cold_script, NULL};
    struct box *x = arg;
    for (long i = 0; i < count; i++) {
        bench_stop(b);
        *x = (struct box){.what = "cold import", .argv = argv};
        if (!open_python(x))
            return -1;
        fresh_disk(x);
        bench_start(b);
        spawn(x, false);
        go(x);
        receive(x, DZ_CELL_OUTPUT);
        bench_stop(b);
        gone(x);
        (void)close(x->disk);
        (void)close(x->wal);
        (void)close(x->base);
        for (size_t k = 0; k < x->module_count; k++)
            (void)close(x->modules[k]);
        bench_start(b);
    }
    return 0;
}

static void ms_row(struct bench *b, const char *name, int id, int yardstick, double budget)
{
    if (id >= 0)
        row(b, name, bench_us(b, id) / 1000, "ms", yardstick, budget, false);
}

static int wake_case(struct bench *b, struct box *x, bool there, bool from_go)
{
    static struct wake wakes[8];
    static size_t n;
    if (!there)
        return -1;
    wakes[n] = (struct wake){.box = x, .saved = save(x), .from_go = from_go};
    return bench_case(b, x->what, wake_anew, &wakes[n++], 1);
}

static int measure(int rounds)
{
    static struct bench b;
    int file = nameless();
    bench_init(&b, "sleep", rounds);
    int spawn_true = bench_case(&b, "posix_spawn of true", bench_spawn_true, NULL, 1);
    int synced = bench_case(&b, "4 KiB and fdatasync", sync_file, &file, 1);
    int woken = has_base ? bench_case(&b, "wake a shell", wake_shell, &shell, 1) : -1;
    int laid = bench_case(&b, "wake 10 MB", wake_memory, &ten, 1);
    int woken_go = wake_case(&b, &shell, has_base, true);
    int py = wake_case(&b, &json, has_python, false),
        py_go = wake_case(&b, &json, has_python, true);
    int made = wake_case(&b, &created, has_python, false);
    int made_go = wake_case(&b, &created, has_python, true);
    int imported = has_python ? bench_case(&b, "cold import", import_cold, &cold, 1) : -1;
    int forked = has_base ? bench_case(&b, "fork", fork_machine, &parent, 1) : -1;
    int slept = bench_case(&b, "sleep, 1 MB", put_to_sleep, &one, 1);
    int spread = bench_case(&b, "sleep, 1 MB scattered", put_to_sleep, &scattered, 1);
    int large = bench_case(&b, "sleep, 100 MB", put_to_sleep, &hundred, 1);
    bench_run(&b);
    ms_row(&b, "resume to first output, shell", woken, spawn_true, 1);
    ms_row(&b, "  the same from go", woken_go, spawn_true, 1);
    ms_row(&b, "resume to first output, 10 MB of pages", laid, spawn_true, 5);
    ms_row(&b, "resume to first output, CPython", py, spawn_true, 5);
    ms_row(&b, "  the same from go", py_go, spawn_true, 5);
    ms_row(&b, "create with pandas imported, to the answer", made, spawn_true, 5);
    ms_row(&b, "  the same from go", made_go, spawn_true, 5);
    ms_row(&b, "  the same by importing it now", imported, spawn_true, 0);
    ms_row(&b, "fork of a shell to a running child", forked, spawn_true, 2);
    ms_row(&b, "suspend, 1 MB dirty, durable", slept, spawn_true, 3);
    ms_row(&b, "suspend, 1 MB dirty scattered, durable", spread, spawn_true, 3);
    row(&b, "suspend, 100 MB dirty, durable", 104857600.0 / bench_us(&b, large), "MB/s", spawn_true,
        400, true);
    ms_row(&b, "4 KiB and fdatasync", synced, spawn_true, 0);
    if (has_base)
        row(&b, "file of a sleeping shell", (double)size_of(shell.disk) / 1024, "KiB", spawn_true,
            0, false);
    if (has_python)
        row(&b, "file of a sleeping CPython with json", (double)size_of(json.disk) / 1024, "KiB",
            spawn_true, 2048, false);
    return bench_finish(&b);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 25;
    rounds = rounds > 0 ? rounds : 25;
    start_all();
    int rc = measure(rounds);
    struct box *sh = has_base ? &shell : NULL, *py = has_python ? &json : NULL;
    struct box *made = has_python ? &created : NULL, *big = &hundred.box;
    const struct cpu_row rows[] = {
        {.name = "wake a shell to its first byte", .leg = {.box = sh}, .budget = 1},
        {.name = "put a shell to sleep, and close",
         .leg = {.box = sh, .sleeps = true},
         .less = {.box = sh}},
        {.name = "wake 10 MB to the first byte",
         .leg = {.box = &ten, .letter = 'c', .pages = 16},
         .budget = 5},
        {.name = "wake CPython to its first byte", .leg = {.box = py}, .budget = 5},
        {.name = "create with pandas imported, to the answer", .leg = {.box = made}, .budget = 5},
        {.name = "the cell from go, shell", .leg = {.box = sh}, .budget = 1, .inside = true},
        {.name = "the cell from go, 10 MB",
         .leg = {.box = &ten, .letter = 'c', .pages = 16},
         .budget = 5,
         .inside = true},
        {.name = "the cell from go, CPython", .leg = {.box = py}, .budget = 5, .inside = true},
        {.name = "the cell from go, pandas", .leg = {.box = made}, .budget = 5, .inside = true},
        {.name = "the cell until durable, 1 MB",
         .leg = {.box = &ten, .letter = 'd', .pages = 256, .sleeps = true},
         .budget = 3,
         .inside = true},
        {.name = "the cell until durable, 1 MB scattered",
         .leg = {.box = &ten, .letter = 's', .pages = 256, .sleeps = true},
         .budget = 3,
         .inside = true},
        {.name = "the cell until durable, 100 MB",
         .leg = {.box = big, .letter = 'd', .pages = 25600, .sleeps = true},
         .budget = 400,
         .mb = 104.8576,
         .inside = true},
        {.name = "sleep with 1 MB dirty, and close",
         .leg = {.box = &ten, .letter = 'd', .pages = 256, .sleeps = true},
         .less = {.box = &ten, .letter = 'd', .pages = 256},
         .budget = 3},
        {.name = "sleep with 100 MB dirty, and close",
         .leg = {.box = big, .letter = 'd', .pages = 25600, .sleeps = true},
         .less = {.box = big, .letter = 'd', .pages = 25600},
         .budget = 400,
         .mb = 104.8576},
    };
    measure_cpu(rows, DZ_ARRAY_LEN(rows), rounds);
    gone(&parent);
    return rc;
}

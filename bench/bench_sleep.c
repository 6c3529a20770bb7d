/* SPDX-License-Identifier: MIT
 *
 * bench_sleep.c - how long it takes to put a machine to sleep and to wake it.
 *
 * Every operation is measured from this side of the socket: a wake from
 * dz_cell_spawn() (fork, jail, open, lay memory) to the first byte that the woken
 * program says, a sleep from the request to "it is durable". Each wake is one in a
 * process of its own. tests/guests/dirty.c is the program whose memory is of a known
 * size; the shell is the base's.
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
#include "db/db.h"
#include "kernel/kernel.h"
#include "vfs/vfs.h"
#include "wasm/wasm_module.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct box {
    const char *what;
    int disk, wal, base, module;
    const char *base_sha256;
    const char *const *argv;
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
                              .module_fds = &x->module,
                              .module_count = x->module >= 0,
                              .argv = x->argv,
                              .env = env,
                              .policy = dz_policy_find("posix"),
                              .open_stdin = true,
                              .fresh = !resume,
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
    *x = (struct box){.what = what, .base = -1, .argv = argv, .module = nameless()};
    if (wasm.len == 0 && dz_fd_read_file(AT_FDCWD, "build/guests/dirty.wasm", &wasm, &err) < 0)
        die("make guests", &err);
    const struct dz_wasm_sink sink = {.write = write_fd, .ctx = &x->module};
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

/* --- the shell --------------------------------------------------------------------------- */

static bool start_shell(struct box *x)
{
    static const char *const argv[] = {"sh", "-c", "while read x; do echo $x; done", NULL};
    static char hex[DZ_SHA256_HEX];
    const char *path = getenv("DOZE_BASE");
    char module[512];
    uint8_t digest[DZ_SHA256_BYTES];
    path = path && path[0] ? path : "build/base/base.doze";
    *x = (struct box){.what = "shell", .argv = argv, .base = open(path, O_RDONLY | O_CLOEXEC)};
    (void)snprintf(module, sizeof module, "%s.modules/busybox", path);
    x->module = open(module, O_RDONLY | O_CLOEXEC);
    if (x->base < 0)
        return false;
    size_t n = (size_t)size_of(x->base);
    void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, x->base, 0);
    if (p == MAP_FAILED || dz_sha256(p, n, digest, NULL) < 0)
        die("base", NULL);
    (void)munmap(p, n);
    x->base_sha256 = dz_sha256_hex(digest, hex);
    fresh_disk(x);
    spawn(x, false);
    go(x);
    say(x, "x\n", 2);
    ask_to_sleep(x);
    gone(x);
    return true;
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

static int run_leg(struct bench *b, void *arg, long count)
{
    const struct leg *l = arg;
    for (long i = 0; i < count; i++) {
        bench_stop(b);
        put_back(l->box, l->saved);
        bench_start(b);
        spawn(l->box, true);
        go(l->box);
        if (l->letter)
            command(l->box, l->letter, l->pages);
        else
            say(l->box, "y\n", 2);
        if (l->sleeps)
            ask_to_sleep(l->box);
        gone(l->box);
    }
    return 0;
}

/* In CPU time. */
static void measure_cpu(struct box *shell, struct box *ten, struct box *hundred, int rounds)
{
    static struct bench b;
    static struct leg legs[8];
    int ids[8] = {0};
    const struct leg all[] = {
        {.box = shell},
        {.box = shell, .sleeps = true},
        {.box = ten, .letter = 'c', .pages = 16},
        {.box = ten, .letter = 'd', .pages = 256},
        {.box = ten, .letter = 'd', .pages = 256, .sleeps = true},
        {.box = hundred, .letter = 'd', .pages = 25600},
        {.box = hundred, .letter = 'd', .pages = 25600, .sleeps = true},
    };
    bench_init(&b, "sleep_cpu", rounds);
    b.clock = BENCH_CPU;
    int spawn_true = bench_case(&b, "posix_spawn of true", bench_spawn_true, NULL, 1);
    for (size_t i = shell ? 0 : 2; i < DZ_ARRAY_LEN(all); i++) {
        legs[i] = all[i];
        legs[i].saved = save(all[i].box);
        ids[i] = bench_case(&b, "leg", run_leg, &legs[i], 1);
    }
    bench_run(&b);
    const double ms[] = {shell ? bench_us(&b, ids[0]) / 1000 : 0,
                         shell ? (bench_us(&b, ids[1]) - bench_us(&b, ids[0])) / 1000 : 0,
                         bench_us(&b, ids[2]) / 1000,
                         (bench_us(&b, ids[4]) - bench_us(&b, ids[3])) / 1000,
                         (bench_us(&b, ids[6]) - bench_us(&b, ids[5])) / 1000};
    if (shell) {
        row(&b, "wake a shell to its first byte", ms[0], "ms", spawn_true, 1, false);
        row(&b, "put a shell to sleep, and close", ms[1], "ms", spawn_true, 0, false);
    }
    row(&b, "wake 10 MB to the first byte", ms[2], "ms", spawn_true, 5, false);
    row(&b, "sleep with 1 MB dirty, and close", ms[3], "ms", spawn_true, 3, false);
    row(&b, "sleep with 100 MB dirty, and close", 104.8576 / ms[4] * 1000, "MB/s", spawn_true, 400,
        true);
    (void)bench_finish(&b);
}

int main(int argc, char **argv)
{
    static struct bench b;
    static struct box shell, ten;
    static struct sleeper one, scattered, hundred;
    int file = nameless();
    int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 25;
    bench_init(&b, "sleep", rounds > 0 ? rounds : 25);
    bool has_base = start_shell(&shell);
    start_dirty(&ten, "10 MB", 2560);
    start_dirty(&one.box, "1 MB of 10", 2560);
    start_dirty(&scattered.box, "1 MB of 10, scattered", 2560);
    start_dirty(&hundred.box, "100 MB", 25600);
    one.letter = 'd', one.pages = 256;
    scattered.letter = 's', scattered.pages = 256;
    hundred.letter = 'd', hundred.pages = 25600;
    int spawn_true = bench_case(&b, "posix_spawn of true", bench_spawn_true, NULL, 1);
    int synced = bench_case(&b, "4 KiB and fdatasync", sync_file, &file, 1);
    int woken = has_base ? bench_case(&b, "wake a shell", wake_shell, &shell, 1) : -1;
    int laid = bench_case(&b, "wake 10 MB", wake_memory, &ten, 1);
    int slept = bench_case(&b, "sleep, 1 MB", put_to_sleep, &one, 1);
    int spread = bench_case(&b, "sleep, 1 MB scattered", put_to_sleep, &scattered, 1);
    int large = bench_case(&b, "sleep, 100 MB", put_to_sleep, &hundred, 1);
    bench_run(&b);
    if (has_base)
        row(&b, "resume to first output, shell", bench_us(&b, woken) / 1000, "ms", spawn_true, 1,
            false);
    row(&b, "resume to first output, 10 MB of pages", bench_us(&b, laid) / 1000, "ms", spawn_true,
        5, false);
    row(&b, "suspend, 1 MB dirty, durable", bench_us(&b, slept) / 1000, "ms", spawn_true, 3, false);
    row(&b, "suspend, 1 MB dirty scattered, durable", bench_us(&b, spread) / 1000, "ms", spawn_true,
        3, false);
    row(&b, "suspend, 100 MB dirty, durable", 104857600.0 / bench_us(&b, large), "MB/s", spawn_true,
        400, true);
    row(&b, "4 KiB and fdatasync", bench_us(&b, synced) / 1000, "ms", spawn_true, 0, false);
    if (has_base)
        row(&b, "file of a sleeping shell", (double)size_of(shell.disk) / 1024, "KiB", spawn_true,
            0, false);
    int rc = bench_finish(&b);
    measure_cpu(has_base ? &shell : NULL, &ten, &hundred.box, rounds > 0 ? rounds : 25);
    return rc;
}

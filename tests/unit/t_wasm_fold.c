/* SPDX-License-Identifier: MIT
 *
 * t_wasm_fold.c - random programs, translated as they are and taken apart.
 *
 * The translator folds operands into cells, fuses cells, keeps results in
 * registers and leaves writes out. None of it may show. So each program is made
 * twice from one seed: once plainly, and once with an empty block around every
 * single value, which is a label: there everything lies in its slot and nothing
 * is remembered. Both must end alike, with the same memory, in both loops.
 *
 * The bits of a NaN may depend on the order of operands: nothing here looks at
 * them.
 */
#include "tap.h"
#include "wasm/wasm.h"
#include "wasm_mod.h"

enum {
    CODE_MAX = 1 << 20,
    LOCALS = 4,    /* of each type, in the order i32 i64 f32 f64 */
    POINTERS = 16, /* then two i32 that stay small */
    COUNTERS = 18, /* then one i32 for each level of loops */
    LEVELS = 3,
    INTS = 4096, /* memory: integers below, then f32, then f64 */
    F32S = 8192,
    F64S = 12288,
};

enum type {
    I32,
    I64,
    F32,
    F64,
    TYPES,
};

struct gen {
    uint64_t random;
    bool apart;
    int level; /* of loops */
    size_t n;
    uint8_t code[CODE_MAX];
};

static uint32_t pick(struct gen *g, uint32_t n)
{
    g->random = g->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(g->random >> 33) % n;
}
static void byte(struct gen *g, unsigned b)
{
    if (g->n < CODE_MAX)
        g->code[g->n++] = (uint8_t)b;
}
static void bytes(struct gen *g, const void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        byte(g, ((const uint8_t *)p)[i]);
}
static void number(struct gen *g, int64_t v) /* signed LEB128 */
{
    for (;;) {
        unsigned b = (unsigned)(v & 0x7f);
        v >>= 7;
        if ((v == 0 && !(b & 64)) || (v == -1 && (b & 64))) {
            byte(g, b);
            return;
        }
        byte(g, b | 128);
    }
}
static void unsigned_number(struct gen *g, uint32_t v)
{
    for (; v >= 128; v >>= 7)
        byte(g, (v & 127) | 128);
    byte(g, v);
}
/* A value has just been made. Type indices of t -> t are 1 + t. */
static void made(struct gen *g, enum type t)
{
    if (!g->apart)
        return;
    byte(g, 0x02);
    byte(g, 1 + t);
    byte(g, 0x0b);
}
static void op(struct gen *g, unsigned code, enum type t)
{
    byte(g, code);
    made(g, t);
}
static void i32_const(struct gen *g, int32_t v)
{
    byte(g, 0x41);
    number(g, v);
}
static void local(struct gen *g, unsigned code, uint32_t index)
{
    byte(g, code);
    byte(g, index);
}

static void constant(struct gen *g, enum type t)
{
    static const int64_t some[] = {0,  1,   2,   3,     4,      7,       8,         16,   31, 32,
                                   63, 100, 255, 32767, -32768, 1 << 20, INT32_MIN, -100, -1};
    int64_t v = some[pick(g, DZ_ARRAY_LEN(some))];
    float f = (float)(v % 100) / 4;
    double d = (double)f;
    static const uint8_t code[] = {0x41, 0x42, 0x43, 0x44};
    byte(g, code[t]);
    if (t == F32)
        bytes(g, &f, sizeof f);
    else if (t == F64)
        bytes(g, &d, sizeof d);
    else
        number(g, t == I64 && pick(g, 4) == 0 ? (int64_t)((uint64_t)v * 0x123456789) : v);
    made(g, t);
}

static void value(struct gen *g, enum type t, int depth);

/* An address below 4096 and an offset that goes with it. */
static uint32_t address(struct gen *g, int depth)
{
    uint32_t p = POINTERS + pick(g, 2), q = POINTERS + pick(g, 2);
    static const uint16_t offsets[] = {0, 0, 0, 4, 8, 12, 40, 2000};
    uint32_t offset = offsets[pick(g, DZ_ARRAY_LEN(offsets))];
    switch (pick(g, 7)) {
    case 0:
        local(g, 0x20, p);
        break;
    case 1:
        i32_const(g, (int32_t)pick(g, 1000));
        break;
    case 2:
        local(g, 0x20, p);
        i32_const(g, (int32_t)pick(g, 64));
        op(g, 0x6a, I32);
        break;
    case 3:
        local(g, 0x20, p);
        local(g, 0x20, q);
        op(g, 0x6a, I32);
        break;
    case 4:
        local(g, 0x20, p);
        local(g, 0x20, q);
        i32_const(g, (int32_t)pick(g, 2) + 1);
        op(g, 0x74, I32);
        op(g, 0x6a, I32);
        break;
    default:
        value(g, I32, depth - 1);
        i32_const(g, 0x3ff);
        op(g, 0x71, I32);
        break;
    }
    return offset;
}

static void load(struct gen *g, enum type t, int depth)
{
    static const uint8_t i32s[] = {0x28, 0x28, 0x2c, 0x2d, 0x2e, 0x2f};
    static const uint8_t i64s[] = {0x29, 0x29, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35};
    uint32_t offset = address(g, depth);
    if (pick(g, 200) == 0)
        offset += 70000;
    if (t == I32)
        byte(g, i32s[pick(g, sizeof i32s)]);
    else if (t == I64)
        byte(g, i64s[pick(g, sizeof i64s)]);
    else { /* floats from where only floats are */
        i32_const(g, 2040);
        op(g, 0x71, I32);
        byte(g, t == F32 ? 0x2a : 0x2b);
        offset = (t == F32 ? F32S : F64S) + offset / 8 * 8 % 2000;
    }
    byte(g, 0);
    unsigned_number(g, offset);
    made(g, t);
}

/* The condition of a branch, most often a comparison. */
static void condition(struct gen *g, int depth)
{
    static const uint8_t first[] = {0x46, 0x51, 0x5b, 0x61}, count[] = {10, 10, 6, 6};
    enum type t = (enum type)pick(g, TYPES);
    if (pick(g, 6) == 0) {
        value(g, I32, depth - 1);
        return;
    }
    value(g, t, depth - 1);
    if (t <= I64 && pick(g, 4) == 0) {
        op(g, t == I32 ? 0x45 : 0x50, I32);
        return;
    }
    value(g, t, depth - 1);
    op(g, first[t] + pick(g, count[t]), I32);
    if (pick(g, 5) == 0)
        op(g, 0x45, I32);
}

static void binary(struct gen *g, enum type t, int depth)
{
    static const uint8_t ints[] = {0x6a, 0x6a, 0x6a, 0x6b, 0x6c, 0x71, 0x72,
                                   0x73, 0x74, 0x75, 0x76, 0x77, 0x78};
    static const uint8_t floats[] = {0x92, 0x92, 0x93, 0x94, 0x96, 0x97};
    unsigned code = t <= I64 ? ints[pick(g, sizeof ints)] : floats[pick(g, sizeof floats)];
    value(g, t, depth - 1);
    value(g, t, depth - 1);
    op(g, code + (t == I64 ? 0x12u : t == F64 ? 0x0eu : 0), t);
}

static void unary(struct gen *g, enum type t, int depth)
{
    static const uint8_t floats[] = {0x8b, 0x8c, 0x8d, 0x8e, 0x8f, 0x90};
    static const struct {
        uint8_t code, from;
    } others[TYPES][4] = {
        {{0xa7, I64}, {0xc0, I32}, {0xc1, I32}, {0x69, I32}},
        {{0xac, I32}, {0xad, I32}, {0xc4, I64}, {0x7b, I64}},
        {{0xb2, I32}, {0xb3, I32}, {0xb6, F64}, {0xb4, I64}},
        {{0xb7, I32}, {0xb8, I32}, {0xbb, F32}, {0xb9, I64}},
    };
    uint32_t which = pick(g, 6);
    if (which < 4) {
        value(g, (enum type)others[t][which].from, depth - 1);
        op(g, others[t][which].code, t);
    } else if (t >= F32) {
        value(g, t, depth - 1);
        op(g, floats[pick(g, sizeof floats)] + (t == F64 ? 0x0eu : 0), t);
    } else { /* saturating */
        value(g, F64, depth - 1);
        byte(g, 0xfc);
        op(g, t == I32 ? 2 : 6, t);
    }
}

static void structured(struct gen *g, enum type t, int depth)
{
    static const uint8_t name[] = {0x7f, 0x7e, 0x7d, 0x7c};
    switch (pick(g, 3)) {
    case 0: /* a branch that takes the value along, which goes on being used if not taken */
        byte(g, 0x02);
        byte(g, name[t]);
        value(g, t, depth - 1);
        condition(g, depth - 1);
        byte(g, 0x0d);
        byte(g, 0);
        made(g, t);
        value(g, t, depth - 1);
        op(g, t == I32 ? 0x6a : t == I64 ? 0x7c : t == F32 ? 0x96 : 0xa4, t);
        byte(g, 0x0b);
        break;
    case 1:
        condition(g, depth - 1);
        byte(g, 0x04);
        byte(g, name[t]);
        value(g, t, depth - 1);
        byte(g, 0x05);
        value(g, t, depth - 1);
        byte(g, 0x0b);
        break;
    default:
        value(g, t, depth - 1);
        value(g, t, depth - 1);
        condition(g, depth - 1);
        byte(g, 0x1b);
        break;
    }
    made(g, t);
}

static void value(struct gen *g, enum type t, int depth)
{
    if (depth <= 0) {
        if (pick(g, 3) == 0)
            constant(g, t);
        else
            local(g, 0x20, LOCALS * t + pick(g, LOCALS));
        return;
    }
    switch (pick(g, 12)) {
    case 0:
        load(g, t, depth);
        break;
    case 1:
        structured(g, t, depth);
        break;
    case 2:
        unary(g, t, depth);
        break;
    case 3: /* function 1 takes an i32 and a t */
        value(g, I32, depth - 1);
        value(g, t, depth - 1);
        byte(g, 0x10);
        byte(g, 1 + t);
        made(g, t);
        break;
    case 4:
        value(g, t, depth - 1);
        local(g, 0x22, LOCALS * t + pick(g, LOCALS));
        made(g, t);
        break;
    case 5:
        if (t == I32)
            condition(g, depth);
        else
            value(g, t, 0);
        break;
    case 6:
    case 7:
        value(g, t, 0);
        break;
    default:
        binary(g, t, depth);
        break;
    }
}

static void store(struct gen *g, int depth)
{
    static const uint8_t ints[2][4] = {{0x36, 0x36, 0x3a, 0x3b}, {0x37, 0x3c, 0x3d, 0x3e}};
    enum type t = (enum type)pick(g, TYPES);
    uint32_t offset = address(g, depth);
    if (t >= F32) {
        i32_const(g, t == F32 ? 4092 : 4088);
        op(g, 0x71, I32);
        offset = t == F32 ? F32S : F64S;
    }
    value(g, t, depth);
    byte(g, t == F32 ? 0x38 : t == F64 ? 0x39 : ints[t][pick(g, 4)]);
    byte(g, 0);
    unsigned_number(g, offset);
}

static void statements(struct gen *g, int n);

/* Count down, by one of several kinds of last lines. */
static void loop(struct gen *g)
{
    static const uint8_t last[] = {0x47, 0x4a, 0x4b, 0x4e}; /* ne gt_s gt_u ge_s */
    uint32_t c = COUNTERS + (uint32_t)g->level++;
    uint32_t kind = pick(g, 6);
    i32_const(g, (int32_t)pick(g, 4) + 1);
    local(g, 0x21, c);
    byte(g, 0x03);
    byte(g, 0x40);
    statements(g, 2);
    local(g, 0x20, c);
    i32_const(g, -1);
    op(g, 0x6a, I32);
    if (kind < 4) {
        if (pick(g, 2))
            local(g, 0x22, c);
        else {
            local(g, 0x21, c);
            local(g, 0x20, c);
        }
        i32_const(g, last[kind] == 0x4e ? 1 : 0);
        op(g, last[kind], I32);
    } else {
        local(g, 0x22, c);
    }
    byte(g, 0x0d);
    byte(g, 0);
    byte(g, 0x0b);
    g->level--;
}

static void statement(struct gen *g)
{
    enum type t = (enum type)pick(g, TYPES);
    switch (pick(g, 10)) {
    case 0:
        store(g, 3);
        break;
    case 1:
        byte(g, 0x02); /* jump over a part */
        byte(g, 0x40);
        condition(g, 2);
        byte(g, 0x0d);
        byte(g, 0);
        statements(g, 1);
        byte(g, 0x0b);
        break;
    case 2:
        if (g->level < LEVELS)
            loop(g);
        break;
    case 3:
        value(g, I32, 3);
        i32_const(g, 0x3fc);
        op(g, 0x71, I32);
        local(g, 0x21, POINTERS + pick(g, 2));
        break;
    case 4: /* two ways by a table */
        bytes(g, "\x02\x40\x02\x40", 4);
        value(g, I32, 2);
        bytes(g, "\x0e\x02\x00\x01\x00\x0b", 6);
        statements(g, 1);
        byte(g, 0x0b);
        break;
    default:
        value(g, t, 4);
        local(g, 0x21, LOCALS * t + pick(g, LOCALS));
        break;
    }
}
static void statements(struct gen *g, int n)
{
    for (int i = 0; i < n; i++)
        statement(g);
}

/* The result is made of all locals. */
static void result(struct gen *g)
{
    static const char *const to_i64[] = {"\xac", "", "\xfc\x04", "\xfc\x06"};
    for (uint32_t i = 0; i < POINTERS; i++) {
        local(g, 0x20, i);
        bytes(g, to_i64[i / LOCALS], strlen(to_i64[i / LOCALS]));
        if (i)
            byte(g, 0x7c);
        bytes(g, "\x42\x1f\x7e", 3); /* times 31 */
    }
}

static void section(struct gen *to, unsigned id, const void *p, size_t n)
{
    byte(to, id);
    unsigned_number(to, (uint32_t)n);
    bytes(to, p, n);
}
#define SECTION(to, id, literal) section(to, id, literal, sizeof(literal) - 1)

/* A module whose function 0 is random, and functions 1.. mix two numbers. */
static void module(struct gen *to, struct gen *code, uint64_t seed, bool apart)
{
    static const char mixers[] = "\x07\x00\x20\x01\x20\x00\x6a\x0b"
                                 "\x08\x00\x20\x01\x20\x00\xac\x85\x0b"
                                 "\x08\x00\x20\x01\x20\x00\xb2\x96\x0b"
                                 "\x08\x00\x20\x01\x20\x00\xb7\xa4\x0b";
    code->n = to->n = 0;
    code->random = seed * 77 + 1;
    code->apart = apart;
    bytes(code, "\x05\x04\x7f\x04\x7e\x04\x7d\x04\x7c\x05\x7f", 11);
    statements(code, 12);
    result(code);
    byte(code, 0x0b);
    bytes(to, "\0asm\1\0\0\0", 8);
    SECTION(to, 1,
            "\x09\x60\x00\x01\x7e\x60\x01\x7f\x01\x7f\x60\x01\x7e\x01\x7e\x60\x01\x7d\x01\x7d"
            "\x60\x01\x7c\x01\x7c\x60\x02\x7f\x7f\x01\x7f\x60\x02\x7f\x7e\x01\x7e"
            "\x60\x02\x7f\x7d\x01\x7d\x60\x02\x7f\x7c\x01\x7c");
    SECTION(to, 3, "\x05\x00\x05\x06\x07\x08");
    SECTION(to, 5, "\x01\x00\x01");
    SECTION(to, 7, "\x01\x03run\x00\x00");
    byte(to, 10);
    uint32_t n = (uint32_t)code->n, prefix = n < 128 ? 1 : n < 16384 ? 2 : 3;
    unsigned_number(to, 1 + prefix + n + sizeof mixers - 1);
    byte(to, 5);
    unsigned_number(to, n);
    bytes(to, code->code, n);
    bytes(to, mixers, sizeof mixers - 1);
}

struct ending {
    enum dz_wasm_stop stop;
    enum dz_wasm_trap_kind trap;
    uint64_t result;
    uint8_t memory[65536];
};

static void run(const struct gen *wasm, enum dz_wasm_dispatch dispatch, struct ending *ret)
{
    struct dz_wasm_config cfg = {.dispatch = dispatch, .stack_slots = 4096};
    struct dz_err err = {0};
    void *flat = NULL;
    size_t size;
    struct dz_wasm_module *m = NULL;
    struct dz_wasm_store *s = NULL;
    struct dz_wasm_inst *inst = NULL;
    memset(ret, 0, sizeof *ret);
    if (dz_wasm_prepare_alloc(wasm->code, wasm->n, DZ_WASM_F_ALL, &flat, &size, &err) < 0 ||
        dz_wasm_module_open(flat, size, &m, &err) < 0 || dz_wasm_store_new(&cfg, &s, &err) < 0 ||
        dz_wasm_instantiate(s, m, NULL, &inst, &err) < 0 ||
        dz_wasm_begin(inst, 0, NULL, 0, &err) < 0)
        CHECK_STR(err.msg, "");
    else {
        ret->stop = dz_wasm_run(s);
        ret->trap = ret->stop == DZ_WASM_TRAPPED ? dz_wasm_trap_get(s).kind : DZ_WASM_TRAP_NONE;
        ret->result = ret->stop == DZ_WASM_DONE ? dz_wasm_results(s)[0] : 0;
        memcpy(ret->memory, dz_wasm_mem(inst, 0, 0, sizeof ret->memory), sizeof ret->memory);
    }
    dz_wasm_store_free(s);
    dz_wasm_module_close(m);
    dz_free(flat);
}

/* NaNs are alike. */
static void same_nans(struct ending *e)
{
    for (size_t at = F32S; at < F32S + 4096; at += 4) {
        float f;
        memcpy(&f, e->memory + at, sizeof f);
        if (f != f)
            memset(e->memory + at, 255, sizeof f);
    }
    for (size_t at = F64S; at < F64S + 4096; at += 8) {
        double d;
        memcpy(&d, e->memory + at, sizeof d);
        if (d != d)
            memset(e->memory + at, 255, sizeof d);
    }
}

/* How many of the programs came to their end. */
static int compare(uint64_t first, int count)
{
    static struct gen code, wasm;
    static struct ending want, got;
    int done = 0;
    for (int i = 0; i < count; i++) {
        module(&wasm, &code, first + (uint64_t)i, true);
        run(&wasm, DZ_WASM_DISPATCH_SWITCH, &want);
        same_nans(&want);
        module(&wasm, &code, first + (uint64_t)i, false);
        for (int k = 0; k < 2; k++) {
            run(&wasm, k ? DZ_WASM_DISPATCH_GOTO : DZ_WASM_DISPATCH_SWITCH, &got);
            same_nans(&got);
            if (memcmp(&want, &got, sizeof got) != 0)
                printf("# seed %llu: stop %d trap %d result %llx, apart %d %d %llx\n",
                       (unsigned long long)first + (unsigned)i, got.stop, got.trap,
                       (unsigned long long)got.result, want.stop, want.trap,
                       (unsigned long long)want.result);
            CHECK(memcmp(&want, &got, sizeof got) == 0);
        }
        done += want.stop == DZ_WASM_DONE;
    }
    return done;
}

TEST(random_programs_are_the_same_folded_and_apart)
{
    const char *seed = getenv("SEED"), *count = getenv("STEPS");
    int n = count ? atoi(count) : 2000;
    int done = compare(seed ? strtoull(seed, NULL, 10) : 1, n);
    printf("# %d of %d programs came to their end\n", done, n);
    CHECK(n < 100 || done > n / 2);
}

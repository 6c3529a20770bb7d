/* SPDX-License-Identifier: MIT
 *
 * t_wasm_forms.c - every form of every instruction against its plain form.
 *
 * The translator has many forms of an instruction: operands from slots, constants, the
 * accumulator or memory; results into slots or the accumulator; addresses folded; two cells in
 * one. Here each numeric instruction and each load and store meets each kind of operand and each
 * kind of use, at boundary values. Each function is made twice, once with an empty block around
 * every value: a block's result lies in its slot, so nothing is folded or fused. Both must give
 * the same bits, or trap alike, in each way of running. Of NaNs only that they are some counts.
 */
#define TAP_ALARM_S 40
#include "wasm_rig.h"

#include "wasm/wasm_num.h"

enum {
    CODE_MAX = 1 << 20,
    ARG_X = 0, /* locals: the operands, */
    ARG_Y = 1,
    ZERO = 2,    /* what changes nothing: 0, or -0.0 */
    ADDRESS = 3, /* where the first operand lies in memory, */
    INDEX = 4,   /* and a part of that */
    KEPT = 5,    /* a local of the result's type */
    AT_X = 64,
    AT_Y = 80,
    AT_OUT = 128,
    AT_END = 160,
    VALUES = 12,
};

static struct dz_err err;

struct bytes {
    size_t n;
    uint8_t p[CODE_MAX];
};
static struct bytes code, wasm;
static unsigned funcs;

static void byte(struct bytes *b, unsigned v)
{
    CHECK(b->n < CODE_MAX);
    b->p[b->n++] = (uint8_t)v;
}
static void some(struct bytes *b, const void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        byte(b, ((const uint8_t *)p)[i]);
}
static void number(struct bytes *b, uint64_t v)
{
    for (; v >= 128; v >>= 7)
        byte(b, (unsigned)(v & 127) | 128);
    byte(b, (unsigned)v);
}
static void signed_number(struct bytes *b, int64_t v)
{
    for (; v < -64 || v > 63; v >>= 7)
        byte(b, (unsigned)(v & 127) | 128);
    byte(b, (unsigned)(v & 127));
}
static void section(unsigned id, const struct bytes *from)
{
    byte(&wasm, id);
    number(&wasm, from->n);
    some(&wasm, from->p, from->n);
}

/* --- types and values ---------------------------------------------------------------------- */

static unsigned type_of(char c)
{
    return c == 'i' ? 0 : c == 'l' ? 1 : c == 'f' ? 2 : 3;
}
static const uint8_t type_code[] = {0x7f, 0x7e, 0x7d, 0x7c};

static const uint64_t values[4][VALUES] = {
    {0, 1, 2, 31, 0x7f, 0x80, 0xff, 0x8000, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff},
    {0, 1, 63, 0x80, 0x8000, 0x7fffffff, 0x80000000, 0xffffffff, 0x123456789abcdef0, INT64_MAX,
     UINT64_C(1) << 63, UINT64_MAX},
    {0, 0x80000000, 0x3f800000, 0xbf800000, 0x3f000000, 0x00000001, 0x7f7fffff, 0x7f800000,
     0xff800000, 0x7fc00000, 0x4f000000, 0x5f000000},
    {0, UINT64_C(1) << 63, 0x3ff0000000000000, 0xbff0000000000000, 0x3fe0000000000000, 1,
     0x7fefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000,
     0x41e0000000000000, 0x43e0000000000000},
};
static const uint64_t zeros[4] = {0, 0, 0x80000000, UINT64_C(1) << 63};

/* --- code ------------------------------------------------------------------------------------- */

static bool apart;

static void made(unsigned type)
{
    if (apart) {
        byte(&code, 0x02);
        byte(&code, 4 + type); /* block type t -> t */
        byte(&code, 0x0b);
    }
}
static void local_get(unsigned index, unsigned type)
{
    byte(&code, 0x20);
    byte(&code, index);
    made(type);
}
static void constant(unsigned type, uint64_t v)
{
    byte(&code, 0x41 + type);
    if (type == 0)
        signed_number(&code, (int32_t)v);
    else if (type == 1)
        signed_number(&code, (int64_t)v);
    else
        some(&code, &v, type == 2 ? 4 : 8);
    made(type);
}
static void plain_op(unsigned op, unsigned type)
{
    byte(&code, op);
    made(type);
}
static void touch(unsigned op, unsigned offset)
{
    byte(&code, op);
    byte(&code, 0);
    number(&code, offset);
}
/* xor, or add of -0.0: a result in the accumulator that is the other operand */
static void keep_in_accumulator(unsigned type)
{
    static const uint8_t ops[] = {0x73, 0x85, 0x92, 0xa0};
    local_get(ZERO, type);
    plain_op(ops[type], type);
}

enum source {
    FROM_LOCAL,
    FROM_CONST,
    FROM_ACC,
    FROM_MEMORY,
    FROM_TEE,
    SOURCES,
};

static void operand(enum source from, unsigned type, unsigned local, uint64_t value)
{
    static const uint8_t loads[] = {0x28, 0x29, 0x2a, 0x2b};
    switch (from) {
    case FROM_LOCAL:
        local_get(local, type);
        break;
    case FROM_CONST:
        constant(type, value);
        break;
    case FROM_ACC:
        local_get(local, type);
        keep_in_accumulator(type);
        break;
    case FROM_MEMORY:
        local_get(ADDRESS, 0);
        touch(loads[type], local == ARG_X ? 0 : AT_Y - AT_X);
        made(type);
        break;
    case FROM_TEE:
        local_get(local, type);
        byte(&code, 0x22);
        byte(&code, local);
        made(type);
        break;
    case SOURCES:
        break;
    }
}

enum use {
    USE_RESULT,
    USE_LOCAL,
    USE_LEFT,
    USE_RIGHT,
    USE_STORE,
    USE_WIDTH, /* the other width, or a comparison */
    USE_BRANCH,
    USES,
};

static void use(enum use how, unsigned type)
{
    static const uint8_t ops[] = {0x6b, 0x7d, 0x93, 0xa1}, stores[] = {0x36, 0x37, 0x38, 0x39};
    static const uint8_t loads[] = {0x28, 0x29, 0x2a, 0x2b}, other[] = {0xac, 0xa7, 0x91, 0x9f};
    switch (how) {
    case USE_LOCAL:
        byte(&code, 0x21);
        byte(&code, KEPT);
        local_get(KEPT, type);
        break;
    case USE_LEFT:
        local_get(ZERO, type);
        plain_op(ops[type], type);
        break;
    case USE_RIGHT:
        byte(&code, 0x21);
        byte(&code, KEPT);
        local_get(ZERO, type);
        local_get(KEPT, type);
        plain_op(ops[type], type);
        break;
    case USE_WIDTH: /* and back, so that the result has its type */
        plain_op(other[type], type < 2 ? 1 - type : type);
        if (type < 2)
            plain_op(type == 0 ? 0xa7 : 0xad, type);
        break;
    case USE_BRANCH:
        byte(&code, 0x21);
        byte(&code, KEPT);
        local_get(KEPT, type);
        local_get(ZERO, type);
        plain_op(type == 0 ? 0x48 : type == 1 ? 0x53 : type == 2 ? 0x5d : 0x63, 0); /* < */
        byte(&code, 0x04);
        byte(&code, type_code[type]);
        constant(type, 0);
        byte(&code, 0x05);
        local_get(KEPT, type);
        byte(&code, 0x0b);
        break;
    case USE_STORE: /* the address was put below it */
        touch(stores[type], AT_OUT - AT_X);
        local_get(ADDRESS, 0);
        touch(loads[type], AT_OUT - AT_X);
        made(type);
        break;
    case USE_RESULT:
    case USES:
        break;
    }
}

/* --- instructions -------------------------------------------------------------------------------
 */

struct instruction {
    unsigned op;     /* 0xfc00 and up: with the prefix */
    const char *sig; /* operands and result */
};

/* A function's body; the size is put before it. */
static void body(const struct instruction *in, const enum source from[2], const uint64_t x[2],
                 enum use how)
{
    static struct bytes whole;
    size_t arity = strlen(in->sig) - 1;
    unsigned result = type_of(in->sig[arity]);
    size_t start = code.n;
    byte(&code, 1);
    byte(&code, 1);
    byte(&code, type_code[result]);
    if (how == USE_STORE)
        local_get(ADDRESS, 0);
    for (unsigned i = 0; i < arity; i++)
        operand(from[i], type_of(in->sig[0]), i, x[i]);
    if (in->op >= 0xfc00)
        byte(&code, 0xfc);
    byte(&code, in->op & 0xff);
    made(result);
    use(how, result);
    byte(&code, 0x0b);
    whole.n = code.n - start;
    memcpy(whole.p, code.p + start, whole.n);
    code.n = start;
    number(&code, whole.n);
    some(&code, whole.p, whole.n);
    funcs++;
}

/* The module: all functions are (x y zero address index) -> result. */
static void finish(char operand_type, char result)
{
    struct bytes *s = dz_zalloc(sizeof *s);
    static const uint8_t head[] = {0, 'a', 's', 'm', 1, 0, 0, 0};
    CHECK(s != NULL);
    wasm.n = 0;
    some(&wasm, head, sizeof head);
    number(s, 8);
    for (unsigned t = 0; t < 4; t++) { /* types 0 to 3: the functions, by result */
        uint8_t o = type_code[type_of(operand_type)];
        unsigned zero = type_of(result);
        const uint8_t f[] = {0x60, 5, o, o, type_code[zero], 0x7f, 0x7f, 1, type_code[t]};
        some(s, f, sizeof f);
    }
    for (unsigned t = 0; t < 4; t++) {
        const uint8_t f[] = {0x60, 1, type_code[t], 1, type_code[t]};
        some(s, f, sizeof f);
    }
    section(1, s);
    s->n = 0;
    number(s, funcs);
    for (unsigned i = 0; i < funcs; i++)
        byte(s, type_of(result));
    section(3, s);
    s->n = 0;
    some(s, "\x01\x00\x01", 3);
    section(5, s);
    s->n = 0;
    number(s, funcs);
    some(s, code.p, code.n);
    section(10, s);
    dz_free(s);
    code.n = 0;
    funcs = 0;
}

/* --- running
 * -------------------------------------------------------------------------------------- */

struct outcome {
    int stop, trap;
    uint64_t bits;
};

static struct outcome run_one(struct rig *r, unsigned func, const uint64_t args[5], unsigned result)
{
    struct outcome o = {0};
    CHECK_INT(dz_wasm_begin(r->inst, func, args, 5, NULL), 0);
    o.stop = dz_wasm_run(r->store);
    if (o.stop == DZ_WASM_TRAPPED) {
        o.trap = dz_wasm_trap_get(r->store).kind;
        return o;
    }
    o.bits = dz_wasm_results(r->store)[0];
    if (result % 2 == 0)
        o.bits = (uint32_t)o.bits;
    if (result == 2 && (o.bits & 0x7fffffff) > 0x7f800000)
        o.bits = 0x7fc00000;
    if (result == 3 && (o.bits & INT64_MAX) > 0x7ff0000000000000)
        o.bits = 0x7ff8000000000000;
    return o;
}

struct point { /* of arguments */
    uint64_t x, y;
};

/* The first operand all over memory, the second at its place. */
static void lay(struct rig *r, const struct point *of)
{
    for (unsigned at = 0; at < AT_END; at += 8)
        memcpy(dz_wasm_mem(r->inst, 0, at, 8), &of->x, 8);
    memcpy(dz_wasm_mem(r->inst, 0, AT_Y, 8), &of->y, 8);
}

/* Functions come in pairs, folded and apart. True: no difference. */
static bool run_pairs(unsigned count, uint64_t part, unsigned result, const struct point *points,
                      size_t n, int way)
{
    struct rig r;
    struct dz_wasm_config cfg = rig_way(way);
    CHECK_INT(rig_prepare(&r, wasm.p, wasm.n, &err), 0);
    CHECK_STR(err.msg, "");
    CHECK_INT(rig_instantiate(&r, &cfg, NULL, 0, &err), 0);
    bool same = true;
    for (unsigned f = 0; f < count && same; f += 2)
        for (size_t i = 0; i < n && same; i++) {
            uint64_t args[5] = {points[i].x, points[i].y, zeros[result], AT_X, part};
            lay(&r, &points[i]);
            struct outcome a = run_one(&r, f, args, result);
            lay(&r, &points[i]);
            struct outcome b = run_one(&r, f + 1, args, result);
            same = memcmp(&a, &b, sizeof a) == 0;
            if (!same)
                printf("# function %u, way %d, of %llx and %llx: stop %d trap %d %llx, "
                       "apart %d %d %llx\n",
                       f, way, (unsigned long long)points[i].x, (unsigned long long)points[i].y,
                       a.stop, a.trap, (unsigned long long)a.bits, b.stop, b.trap,
                       (unsigned long long)b.bits);
        }
    rig_close(&r);
    return same;
}

/* The accumulator's neutral operand has the result's type: operands of another come from
 * locals, constants, memory. */
static bool can(const struct instruction *in, enum source from)
{
    return from != FROM_ACC || in->sig[0] == in->sig[strlen(in->sig) - 1];
}

static void check_instruction(const struct instruction *in)
{
    size_t arity = strlen(in->sig) - 1;
    unsigned type = type_of(in->sig[0]), result = type_of(in->sig[arity]);
    struct point points[VALUES * VALUES];
    size_t n = 0;
    for (size_t i = 0; i < VALUES; i++)
        for (size_t k = 0; k < (arity == 2 ? VALUES : 1); k++)
            points[n++] = (struct point){values[type][i], values[type][k]};
    for (unsigned a = 0; a < SOURCES; a++)
        for (unsigned b = 0; b < (arity == 2 ? SOURCES : 1); b++) {
            const enum source from[2] = {(enum source)a, (enum source)b};
            if (!can(in, from[0]) || !can(in, from[1]) || (a == FROM_CONST && b == FROM_CONST))
                continue;
            unsigned constants = a == FROM_CONST || b == FROM_CONST ? VALUES : 1;
            for (unsigned how = 0; how < USES; how++)
                for (unsigned c = 0; c < constants; c++)
                    for (int twice = 0; twice < 2; twice++) {
                        const uint64_t x[2] = {values[type][c], values[type][c]};
                        apart = twice == 1;
                        body(in, from, x, (enum use)how);
                    }
        }
    unsigned count = funcs;
    finish(in->sig[0], in->sig[arity]);
    bool same = true;
    for (int way = 0; way < RIG_WAYS; way += 2) /* goto, and the switch with wide frames */
        same = same && run_pairs(count, 0, result, points, n, way);
    if (!same)
        printf("# in the forms of 0x%x\n", in->op);
    CHECK(same);
}

static void check_range(unsigned first, unsigned last, const char *sig)
{
    for (unsigned op = first; op <= last; op++)
        check_instruction(&(struct instruction){op, sig});
}

TEST(forms_of_32_bits_are_the_same)
{
    check_range(0x45, 0x45, "ii");
    check_range(0x46, 0x4f, "iii");
    check_range(0x67, 0x69, "ii");
    check_range(0x6a, 0x78, "iii");
    check_range(0xc0, 0xc1, "ii");
}
TEST(forms_of_64_bits_are_the_same)
{
    check_range(0x50, 0x50, "li");
    check_range(0x51, 0x5a, "lli");
    check_range(0x79, 0x7b, "ll");
    check_range(0x7c, 0x8a, "lll");
    check_range(0xc2, 0xc4, "ll");
}
TEST(forms_of_floats_are_the_same)
{
    check_range(0x5b, 0x60, "ffi");
    check_range(0x8b, 0x91, "ff");
    check_range(0x92, 0x98, "fff");
    check_range(0x61, 0x66, "ddi");
    check_range(0x99, 0x9f, "dd");
    check_range(0xa0, 0xa6, "ddd");
}
TEST(forms_of_conversions_are_the_same)
{
    static const char *const sigs[] = {"li", "fi", "fi", "di", "di", "il", "il", "fl", "fl",
                                       "dl", "dl", "if", "if", "lf", "lf", "df", "id", "id",
                                       "ld", "ld", "fd", "fi", "dl", "if", "ld"};
    static const char *const saturating[] = {"fi", "fi", "di", "di", "fl", "fl", "dl", "dl"};
    for (unsigned i = 0; i < DZ_ARRAY_LEN(sigs); i++)
        check_instruction(&(struct instruction){0xa7 + i, sigs[i]});
    for (unsigned i = 0; i < DZ_ARRAY_LEN(saturating); i++)
        check_instruction(&(struct instruction){0xfc00 + i, saturating[i]});
}

/* --- memory
 * ------------------------------------------------------------------------------------------ */

enum address {
    AT_LOCAL, /* slot, with an offset */
    AT_SUM,   /* slot + constant */
    AT_TWO,   /* slot + slot */
    AT_CONST,
    AT_SCALED,   /* slot + slot << n */
    AT_KEPT_SUM, /* slot + constant, kept in a local */
    AT_ACC,
    ADDRESSES,
};

/* AT_X, computed in some way; what is left for the offset. */
static unsigned put_address(enum address how, unsigned log2)
{
    switch (how) {
    case AT_LOCAL:
        local_get(ADDRESS, 0);
        return 0;
    case AT_SUM:
        local_get(ADDRESS, 0);
        constant(0, (uint64_t)-16);
        plain_op(0x6a, 0);
        return 16;
    case AT_TWO:
        local_get(ADDRESS, 0);
        local_get(INDEX, 0);
        plain_op(0x6a, 0);
        return 0;
    case AT_CONST:
        constant(0, AT_X - 4);
        return 4;
    case AT_SCALED:
        local_get(ADDRESS, 0);
        local_get(INDEX, 0);
        constant(0, log2);
        plain_op(0x74, 0);
        plain_op(0x6a, 0);
        return 0;
    case AT_KEPT_SUM:
        local_get(ADDRESS, 0);
        constant(0, (uint64_t)-8);
        plain_op(0x6a, 0);
        byte(&code, 0x22);
        byte(&code, ADDRESS);
        made(0);
        return 8;
    case AT_ACC:
        local_get(ADDRESS, 0);
        constant(0, 0);
        plain_op(0x72, 0);
        constant(0, 3);
        plain_op(0x6b, 0);
        return 3;
    case ADDRESSES:
        break;
    }
    return 0;
}

static void begin_body(unsigned result, size_t *ret_start)
{
    *ret_start = code.n;
    byte(&code, 1);
    byte(&code, 1);
    byte(&code, type_code[result]);
}
static void end_body(size_t start)
{
    static struct bytes whole;
    byte(&code, 0x0b);
    whole.n = code.n - start;
    memcpy(whole.p, code.p + start, whole.n);
    code.n = start;
    number(&code, whole.n);
    some(&code, whole.p, whole.n);
    funcs++;
}

static void load_body(unsigned op, unsigned log2, unsigned type, enum address at, enum use how)
{
    size_t start;
    begin_body(type, &start);
    if (how == USE_STORE)
        local_get(ADDRESS, 0); /* before it is changed */
    unsigned offset = put_address(at, log2);
    touch(op, offset);
    made(type);
    if (how == USE_STORE) {
        static const uint8_t stores[] = {0x36, 0x37, 0x38, 0x39};
        static const uint8_t loads[] = {0x28, 0x29, 0x2a, 0x2b};
        touch(stores[type], AT_OUT);
        constant(0, AT_X);
        touch(loads[type], AT_OUT);
        made(type);
    } else {
        use(how, type);
    }
    end_body(start);
}

static void store_body(unsigned op, unsigned log2, unsigned type, enum address at, enum source from)
{
    static const uint8_t loads[] = {0x28, 0x29, 0x2a, 0x2b};
    size_t start;
    begin_body(type, &start);
    unsigned offset = put_address(at, log2);
    operand(from == FROM_MEMORY ? FROM_LOCAL : from, type, ARG_Y, values[type][5]);
    touch(op, offset);
    constant(0, 0); /* all that it can have changed */
    touch(loads[type], AT_X);
    made(type);
    end_body(start);
}

/* INDEX is 8 for loads, all around which memory has the same; 0 for stores. */
static void check_accesses(unsigned op, unsigned log2, char name, bool store)
{
    unsigned type = type_of(name);
    struct point points[VALUES + 64];
    size_t n = 0;
    for (size_t i = 0; i < VALUES; i++)
        points[n++] = (struct point){values[type][i], values[type][VALUES - 1 - i]};
    for (uint64_t b = 0; b < 64; b++) /* every sign of every part */
        points[n++] = (struct point){UINT64_C(1) << b, ~(UINT64_C(1) << b)};
    for (unsigned at = 0; at < ADDRESSES; at++)
        for (unsigned how = 0; how < (store ? (unsigned)SOURCES : (unsigned)USES); how++)
            for (int twice = 0; twice < 2; twice++) {
                apart = twice == 1;
                if (store)
                    store_body(op, log2, type, (enum address)at, (enum source)how);
                else
                    load_body(op, log2, type, (enum address)at, (enum use)how);
            }
    unsigned count = funcs;
    finish(name, name);
    bool same = true;
    for (int way = 0; way < RIG_WAYS; way += 2)
        same = same && run_pairs(count, store ? 0 : 8, type, points, n, way);
    if (!same)
        printf("# in the forms of 0x%x\n", op);
    CHECK(same);
}

TEST(forms_of_loads_are_the_same)
{
    static const struct {
        uint8_t op, log2;
        char type;
    } all[] = {{0x28, 2, 'i'}, {0x29, 3, 'l'}, {0x2a, 2, 'f'}, {0x2b, 3, 'd'}, {0x2c, 0, 'i'},
               {0x2d, 0, 'i'}, {0x2e, 1, 'i'}, {0x2f, 1, 'i'}, {0x30, 0, 'l'}, {0x31, 0, 'l'},
               {0x32, 1, 'l'}, {0x33, 1, 'l'}, {0x34, 2, 'l'}, {0x35, 2, 'l'}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++)
        check_accesses(all[i].op, all[i].log2, all[i].type, false);
}
TEST(forms_of_stores_are_the_same)
{
    static const struct {
        uint8_t op, log2;
        char type;
    } all[] = {{0x36, 2, 'i'}, {0x37, 3, 'l'}, {0x38, 2, 'f'}, {0x39, 3, 'd'}, {0x3a, 0, 'i'},
               {0x3b, 1, 'i'}, {0x3c, 0, 'l'}, {0x3d, 1, 'l'}, {0x3e, 2, 'l'}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++)
        check_accesses(all[i].op, all[i].log2, all[i].type, true);
}

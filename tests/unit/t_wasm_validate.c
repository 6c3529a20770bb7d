/* SPDX-License-Identifier: MIT
 * The validator: bodies that pass and bodies that do not, with the reason. */
#include "base/err.h"
#include "tap.h"
#include "wasm/wasm_module.h"
#include "wasm_mod.h"

static struct dz_err err;

/* Type 0 [] -> [], 1 [i32] -> [i32], 2 [i32 i32] -> [i32 i32], 3 [i64] -> [],
 * 4 [] -> [exnref], 5 [] -> [i64 exnref]. One function of `type` with the body;
 * a funcref and an externref table, memories 0 and 1, global 0 i32, global 1
 * mutable i64, tag 0 [i64], elements 0 funcref, 1 externref, one data segment. */
static void build(struct mod *m, unsigned type, const void *body, size_t n)
{
    *m = (struct mod)MOD_INIT;
    MOD_SECTION(m, 1,
                "\x06\x60\x00\x00\x60\x01\x7f\x01\x7f\x60\x02\x7f\x7f\x02\x7f\x7f\x60\x01\x7e\x00"
                "\x60\x00\x01\x69\x60\x00\x02\x7e\x69");
    struct mod funcs = {0};
    mod_byte(&funcs, 1);
    mod_byte(&funcs, type);
    mod_section(m, 3, funcs.p, funcs.n);
    MOD_SECTION(m, 4, "\x02\x70\x00\x01\x6f\x00\x01");
    MOD_SECTION(m, 5, "\x02\x00\x01\x00\x01");
    MOD_SECTION(m, 13, "\x01\x00\x03");
    MOD_SECTION(m, 6, "\x02\x7f\x00\x41\x00\x0b\x7e\x01\x42\x00\x0b");
    MOD_SECTION(m, 9, "\x02\x03\x00\x01\x00\x07\x6f\x00");
    MOD_SECTION(m, 12, "\x01");
    mod_code(m, body, n);
    MOD_SECTION(m, 11, "\x01\x01\x00");
}

struct row {
    const char *what;
    unsigned type;
    const char *body;
    size_t n;
    const char *refused; /* part of the sentence, NULL: valid */
};
#define ROW(what, type, body, refused) {what, type, body, sizeof(body) - 1, refused}

static void run_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct mod m;
        build(&m, rows[i].type, rows[i].body, rows[i].n);
        err = (struct dz_err){0};
        int r = dz_wasm_validate(m.p, m.n, DZ_WASM_F_ALL, NULL, &err);
        bool good = rows[i].refused ? r < 0 && strstr(err.msg, rows[i].refused) : r == 0;
        if (!good)
            printf("# %s: %d \"%s\"\n", rows[i].what, r, err.msg);
        CHECK(good);
    }
}
#define RUN(rows) run_rows(rows, DZ_ARRAY_LEN(rows))

TEST(validate_says_where_and_why)
{
    struct mod m;
    build(&m, 0, "\x43\x00\x00\x80\x3f\x45\x1a", 7);
    CHECK_INT(dz_wasm_validate(m.p, m.n, DZ_WASM_F_ALL, NULL, &err), DZ_EINVAL);
    size_t at = 0; /* the i32.eqz behind the f32.const */
    while (memcmp(m.p + at, "\x43\x00\x00\x80\x3f\x45", 6) != 0)
        at++;
    char want[128];
    (void)snprintf(want, sizeof want,
                   "at byte 0x%zx in function 0: type mismatch: expected i32, found f32", at + 5);
    CHECK_STR(err.msg, want);
}

TEST(validate_numbers)
{
    static const struct row rows[] = {
        ROW("empty", 0, "", NULL),
        ROW("identity", 1, "\x20\x00", NULL),
        ROW("nothing left", 1, "", "expected i32, found nothing on the stack"),
        ROW("too much left", 0, "\x41\x00", "1 values remain on the stack"),
        ROW("add", 1, "\x20\x00\x41\x01\x6a", NULL),
        ROW("add of two types", 1, "\x20\x00\x42\x01\x6a", "expected i32, found i64"),
        ROW("local", 1, "\x20\x01", "unknown local 1 (there are 1)"),
        ROW("local.set type", 1, "\x42\x00\x21\x00\x20\x00", "expected i32, found i64"),
        ROW("local.tee", 1, "\x20\x00\x22\x00", NULL),
        ROW("global.set", 0, "\x42\x00\x24\x01", NULL),
        ROW("global.set immutable", 0, "\x41\x00\x24\x00", "global 0 is immutable"),
        ROW("illegal opcode", 0, "\xff", "illegal opcode 0xff"),
        ROW("illegal behind fc", 0, "\xfc\x12", "illegal opcode 0xfc 18"),
        ROW("illegal behind fd", 0, "\xfd\x9a\x01", "illegal opcode 0xfd 154"),
        ROW("prefix that wraps", 0, "\xfd\xff\xff\xff\xff\x0f", "illegal opcode 0xfd"),
        ROW("threads", 0, "\xfe\x03\x00", "uses atomic instructions (threads)"),
        ROW("gc", 0, "\xfb\x00\x00", "uses garbage-collected types"),
        ROW("old exceptions", 0, "\x06\x40", "that came before try_table"),
        ROW("typed references", 0, "\x14\x00", "uses typed references"),
        ROW("select", 1, "\x20\x00\x20\x00\x20\x00\x1b", NULL),
        ROW("select of two types", 0, "\x41\x00\x42\x00\x41\x00\x1b\x1a",
            "expected i64, found i32"),
        ROW("select of references", 0, "\xd0\x70\xd0\x70\x41\x00\x1b\x1a", "must state its type"),
        ROW("select typed", 0, "\xd0\x70\xd0\x70\x41\x00\x1c\x01\x70\x1a", NULL),
        ROW("select of two", 0, "\x1c\x02\x7f\x7f", "invalid result arity of select: 2"),
        ROW("code behind the end", 0, "\x0b", "code behind the last end"),
    };
    RUN(rows);
}

TEST(validate_blocks)
{
    static const struct row rows[] = {
        ROW("block with params", 2, "\x20\x00\x20\x01\x02\x02\x0b", NULL),
        ROW("block without its params", 2, "\x20\x00\x02\x02\x0b", "found nothing"),
        ROW("block hides the stack", 1, "\x20\x00\x02\x40\x1a\x0b", "found nothing"),
        ROW("if else", 1, "\x20\x00\x04\x7f\x41\x01\x05\x41\x02\x0b", NULL),
        ROW("if without else", 1, "\x20\x00\x04\x7f\x41\x01\x0b", "an if without else"),
        ROW("if without else, same", 1, "\x20\x00\x41\x01\x04\x01\x0b", NULL),
        ROW("if leaves too much", 0, "\x41\x00\x04\x40\x41\x00\x05\x0b", "1 values remain"),
        ROW("else without if", 0, "\x02\x40\x05\x0b", "else without if"),
        ROW("never closed", 0, "\x02\x40", "unexpected end"),
        ROW("br", 1, "\x20\x00\x0c\x00", NULL),
        ROW("br to nowhere", 0, "\x0c\x01", "unknown label 1"),
        ROW("loop takes params", 1, "\x20\x00\x03\x01\x0c\x00\x0b", NULL),
        ROW("loop label wants params", 1, "\x20\x00\x03\x01\x1a\x0c\x00\x0b", "found nothing"),
        ROW("br_if keeps", 1, "\x20\x00\x20\x00\x0d\x00", NULL),
        ROW("br_table", 1, "\x20\x00\x20\x00\x0e\x01\x00\x00", NULL),
        ROW("br_table of two arities", 1, "\x02\x40\x20\x00\x20\x00\x0e\x01\x00\x01\x0b\x20\x00",
            "the labels of br_table take 0 and 1 values"),
        ROW("br_table of two types", 1, "\x02\x7e\x20\x00\x20\x00\x0e\x01\x01\x00\x0b\x1a\x20\x00",
            "expected i64, found i32"),
        ROW("type index", 0, "\x02\x06\x0b", "unknown type 6"),
        ROW("negative block type", 0, "\x02\xff\x7e\x0b", "malformed block type"),
        ROW("return", 1, "\x20\x00\x0f", NULL),
        ROW("return with less", 1, "\x0f", "found nothing"),
    };
    RUN(rows);
}

TEST(validate_unreachable_code)
{
    static const struct row rows[] = {
        ROW("gives what is asked for", 1, "\x00", NULL),
        ROW("operands from nowhere", 1, "\x00\x6a", NULL),
        ROW("but not of a wrong type", 1, "\x00\x42\x00\x6a", "expected i32, found i64"),
        ROW("and not too many", 0, "\x00\x41\x00", "1 values remain"),
        ROW("select unknown", 1, "\x00\x1b", NULL),
        ROW("select half known", 1, "\x00\x42\x00\x41\x00\x1b", "expected i32, found i64"),
        ROW("drop", 0, "\x00\x1a", NULL),
        ROW("br_table", 1, "\x02\x7f\x00\x0e\x01\x00\x01\x0b", NULL),
        ROW("br_table known type", 1, "\x00\x42\x00\x41\x00\x0e\x01\x00\x00", "found i64"),
        ROW("br_if then unknown has a type", 0, "\x02\x7f\x00\x41\x00\x0d\x00\xa7\x0b\x1a",
            "expected i64, found i32"),
        ROW("only this block", 0, "\x02\x40\x00\x0b\x1a", "found nothing"),
        ROW("ref.is_null", 1, "\x00\xd1", NULL),
        ROW("v128 heights", 0,
            "\x00\xfd\x0c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
            "\x00\x00\x1a",
            NULL),
    };
    RUN(rows);
}

TEST(validate_memory_and_tables)
{
    static const struct row rows[] = {
        ROW("load", 1, "\x20\x00\x28\x02\x00", NULL),
        ROW("alignment", 1, "\x20\x00\x28\x03\x00", "must not be larger than natural: 2^3"),
        ROW("memory 1", 1, "\x20\x00\x28\x42\x01\x00", NULL),
        ROW("memory 2", 1, "\x20\x00\x28\x42\x02\x00", "unknown memory 2"),
        ROW("flags", 1, "\x20\x00\x28\x80\x01\x00", "malformed memop flags"),
        ROW("offset beyond 32 bits", 1, "\x20\x00\x28\x02\x80\x80\x80\x80\x10", "too large"),
        ROW("lane", 0,
            "\xfd\x0c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
            "\xfd\x15\x10\x1a",
            "invalid lane index 16 of 16"),
        ROW("load lane", 0,
            "\x41\x00\xfd\x0c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
            "\x00\x00\xfd\x56\x02\x00\x04\x1a",
            "invalid lane index 4 of 4"),
        ROW("memory.copy", 0, "\x41\x00\x41\x00\x41\x00\xfc\x0a\x01\x00", NULL),
        ROW("memory.init", 0, "\x41\x00\x41\x00\x41\x00\xfc\x08\x00\x01", NULL),
        ROW("memory.init data", 0, "\x41\x00\x41\x00\x41\x00\xfc\x08\x01\x00", "data segment 1"),
        ROW("table.copy types", 0, "\x41\x00\x41\x00\x41\x00\xfc\x0e\x00\x01", "found funcref"),
        ROW("table.init", 0, "\x41\x00\x41\x00\x41\x00\xfc\x0c\x01\x01", NULL),
        ROW("table.init types", 0, "\x41\x00\x41\x00\x41\x00\xfc\x0c\x00\x01", "type mismatch"),
        ROW("table.get", 0, "\x41\x00\x25\x01\xd1\x1a", NULL),
        ROW("table.set", 0, "\x41\x00\xd0\x6f\x26\x00", "expected funcref, found externref"),
        ROW("table.grow", 0, "\xd0\x70\x41\x00\xfc\x0f\x00\x1a", NULL),
        ROW("table.fill", 0, "\x41\x00\xd0\x6f\x41\x00\xfc\x11\x01", NULL),
        ROW("ref.func declared", 0, "\xd2\x00\x1a", NULL),
        ROW("ref.func unknown", 0, "\xd2\x01\x1a", "unknown function 1"),
        ROW("call_indirect", 1, "\x20\x00\x41\x00\x11\x01\x00", NULL),
        ROW("call_indirect externref", 1, "\x20\x00\x41\x00\x11\x01\x01", "found externref"),
    };
    RUN(rows);
}

TEST(validate_calls_and_exceptions)
{
    static const struct row rows[] = {
        ROW("call", 1, "\x20\x00\x10\x00", NULL),
        ROW("call without argument", 1, "\x10\x00", "found nothing"),
        ROW("tail call", 1, "\x20\x00\x12\x00", NULL),
        ROW("tail call of other results", 1, "\x20\x00\x41\x00\x13\x02\x00",
            "must return what its function returns"),
        ROW("throw", 0, "\x42\x00\x08\x00", NULL),
        ROW("throw without payload", 0, "\x08\x00", "expected i64, found nothing"),
        ROW("throw of an unknown tag", 0, "\x08\x01", "unknown tag 1"),
        ROW("throw_ref", 0, "\xd0\x69\x0a", NULL),
        ROW("throw_ref of a number", 0, "\x41\x00\x0a", "expected exnref, found i32"),
        ROW("catch_all", 0, "\x02\x40\x1f\x40\x01\x02\x00\x0b\x0b", NULL),
        ROW("catch", 0, "\x02\x7e\x1f\x40\x01\x00\x00\x00\x0b\x42\x00\x0b\x1a", NULL),
        ROW("catch into nothing", 0, "\x02\x40\x1f\x40\x01\x00\x00\x00\x0b\x0b",
            "does not carry what its label takes"),
        ROW("catch_ref", 0, "\x02\x05\x1f\x40\x01\x01\x00\x00\x0b\x00\x0b\x1a\x1a", NULL),
        ROW("catch_all_ref", 0, "\x02\x04\x1f\x40\x01\x03\x00\x0b\x00\x0b\x1a", NULL),
        ROW("catch_all_ref into nothing", 0, "\x02\x40\x1f\x40\x01\x03\x00\x0b\x0b",
            "does not carry"),
        ROW("catch kind", 0, "\x1f\x40\x01\x04\x00\x0b", "malformed catch clause 0x04"),
        ROW("its own label is not there", 0, "\x1f\x40\x01\x02\x01\x0b", "unknown label 1"),
    };
    RUN(rows);
}

TEST(validate_wants_references_declared)
{
    struct mod m = MOD_INIT;
    MOD_SECTION(&m, 1, "\x01\x60\x00\x00");
    MOD_SECTION(&m, 3, "\x01\x00");
    MOD_CODE(&m, "\xd2\x00\x1a");
    CHECK_INT(dz_wasm_validate(m.p, m.n, DZ_WASM_F_ALL, NULL, &err), DZ_EINVAL);
    CHECK(strstr(err.msg, "undeclared function reference 0") != NULL);
}

TEST(validate_without_multi_memory_wants_zero_bytes)
{
    struct mod m = MOD_INIT;
    MOD_SECTION(&m, 1, "\x01\x60\x00\x00");
    MOD_SECTION(&m, 3, "\x01\x00");
    MOD_SECTION(&m, 5, "\x01\x00\x01");
    MOD_CODE(&m, "\x3f\x80\x00\x1a"); /* memory.size 0, in two bytes */
    CHECK_INT(dz_wasm_validate(m.p, m.n, DZ_WASM_F_ALL, NULL, &err), 0);
    CHECK_INT(dz_wasm_validate(m.p, m.n, DZ_WASM_F_2_0, NULL, &err), DZ_EINVAL);
    CHECK(strstr(err.msg, "zero byte expected") != NULL);
}

/* 70,000 locals in groups whose types alternate, used beyond the near ones. */
TEST(validate_finds_far_locals)
{
    struct mod body = {0}, m = MOD_INIT;
    mod_byte(&body, 4);
    mod_u32(&body, 5000);
    mod_byte(&body, 0x7f);
    mod_u32(&body, 0);
    mod_byte(&body, 0x7c);
    mod_u32(&body, 1);
    mod_byte(&body, 0x7d);
    mod_u32(&body, 65000);
    mod_byte(&body, 0x7e);
    static const struct {
        uint32_t index;
        unsigned op; /* takes the type */
    } uses[] = {{4095, 0x45}, {4096, 0x45}, {4999, 0x45},
                {5000, 0xbc}, {5001, 0x50}, {70000, 0x50}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(uses); i++) {
        mod_byte(&body, 0x20);
        mod_u32(&body, uses[i].index);
        mod_byte(&body, uses[i].op);
        mod_byte(&body, 0x1a);
    }
    mod_byte(&body, 0x0b);
    struct mod code = {0};
    mod_byte(&code, 1);
    mod_u32(&code, (uint32_t)body.n);
    mod_add(&code, body.p, body.n);
    MOD_SECTION(&m, 1, "\x01\x60\x00\x00");
    MOD_SECTION(&m, 3, "\x01\x00");
    mod_section(&m, 10, code.p, code.n);
    CHECK_INT(dz_wasm_validate(m.p, m.n, DZ_WASM_F_ALL, NULL, &err), 0);
    struct dz_wasm_limits limits = dz_wasm_default_limits;
    limits.locals = 70000;
    CHECK_INT(dz_wasm_validate(m.p, m.n, DZ_WASM_F_ALL, &limits, &err), DZ_ELIMIT);
    CHECK(strstr(err.msg, "70001 locals are more than the limit of 70000") != NULL);
}

/* Nesting far beyond what recursion would stand. */
TEST(validate_nests_without_recursion)
{
    enum {
        DEPTH = 300000
    };
    size_t n = 0, size = 1 + 5 + 1 + 2 * DEPTH + DEPTH + 1;
    uint8_t *code = dz_alloc(size + 64), *p = code;
    CHECK(code != NULL);
    struct mod head = MOD_INIT;
    MOD_SECTION(&head, 1, "\x01\x60\x00\x00");
    MOD_SECTION(&head, 3, "\x01\x00");
    uint32_t body = 1 + 3 * DEPTH + 1;
    mod_byte(&head, 10);
    struct mod count = {0};
    mod_byte(&count, 1);
    mod_u32(&count, body);
    mod_u32(&head, (uint32_t)count.n + body);
    mod_add(&head, count.p, count.n);
    mod_byte(&head, 0);
    memcpy(p, head.p, head.n);
    n = head.n;
    for (int i = 0; i < DEPTH; i++) {
        p[n++] = 0x02;
        p[n++] = 0x40;
    }
    for (int i = 0; i <= DEPTH; i++)
        p[n++] = 0x0b;
    CHECK_INT(dz_wasm_validate(p, n, DZ_WASM_F_ALL, NULL, &err), 0);
    dz_free(code);
}

TORTURE(validate_survives_every_allocation_failure)
{
    struct mod m;
    struct dz_err e = {0};
    build(&m, 2, "\x20\x00\x20\x01\x02\x02\x0b", 7);
    int r = dz_wasm_validate(m.p, m.n, DZ_WASM_F_ALL, NULL, &e);
    if (r != 0 && r != DZ_ENOMEM)
        printf("# %s\n", e.msg);
    CHECK(r == 0 || r == DZ_ENOMEM);
}

/* SPDX-License-Identifier: MIT
 * The decoder: sections, LEB128, names, what is refused by name, limits. */
#include "base/err.h"
#include "tap.h"
#include "wasm/wasm_module.h"
#include "wasm_mod.h"

#include <sys/mman.h>

static struct dz_err err;

static int verdict(const struct mod *m)
{
    err = (struct dz_err){0};
    return dz_wasm_validate(m->p, m->n, DZ_WASM_F_ALL, NULL, &err);
}

/* Refused with this code and a sentence that has this in it? */
#define REFUSED(m, want_code, part)                                  \
    do {                                                             \
        CHECK_INT(verdict(m), want_code);                            \
        CHECK_INT(err.code, want_code);                              \
        bool said = strstr(err.msg, part) != NULL;                   \
        if (!said)                                                   \
            printf("# \"%s\" does not say \"%s\"\n", err.msg, part); \
        CHECK(said);                                                 \
    } while (0)

/* A module of one section. */
#define ONE(name, id, literal)  \
    struct mod name = MOD_INIT; \
    MOD_SECTION(&name, id, literal)

TEST(decode_takes_the_empty_module_and_the_full_one)
{
    struct mod m = MOD_INIT;
    CHECK_INT(verdict(&m), 0);
    full(&m);
    CHECK_INT(verdict(&m), 0);
    CHECK_STR(err.msg, "");
}

TEST(decode_refuses_what_is_no_module)
{
    struct mod m = MOD_INIT;
    m.p[1] = 'b';
    REFUSED(&m, DZ_EINVAL, "magic header");
    m = (struct mod)MOD_INIT;
    m.p[4] = 2;
    REFUSED(&m, DZ_EINVAL, "unknown binary version");
    m.p[4] = 0x0d;
    m.p[6] = 1;
    REFUSED(&m, DZ_EINVAL, "component");
    m.n = 7;
    REFUSED(&m, DZ_EINVAL, "unexpected end");
    m.n = 0;
    REFUSED(&m, DZ_EINVAL, "unexpected end");
    m.p[0] = 't';
    m.n = 2;
    REFUSED(&m, DZ_EINVAL, "magic header");
}

TEST(decode_wants_sections_in_order_and_once)
{
    ONE(m, 3, "\x00");
    MOD_SECTION(&m, 1, "\x00");
    REFUSED(&m, DZ_EINVAL, "at byte 0xb: unexpected content after last section");
    ONE(twice, 1, "\x00");
    MOD_SECTION(&twice, 1, "\x00");
    REFUSED(&twice, DZ_EINVAL, "unexpected content after last section");
    ONE(tag, 13, "\x00"); /* tags stand between memories and globals */
    MOD_SECTION(&tag, 6, "\x00");
    CHECK_INT(verdict(&tag), 0);
    ONE(late, 6, "\x00");
    MOD_SECTION(&late, 13, "\x00");
    REFUSED(&late, DZ_EINVAL, "unexpected content after last section");
    ONE(unknown, 14, "");
    REFUSED(&unknown, DZ_EINVAL, "malformed section id 14");
}

TEST(decode_wants_sections_filled_exactly)
{
    ONE(more, 1, "\x01\x60\x00\x00\x00");
    REFUSED(&more, DZ_EINVAL, "section size mismatch: 1 bytes too many");
    ONE(less, 1, "\x02\x60\x00\x00");
    REFUSED(&less, DZ_EINVAL, "unexpected end");
    struct mod beyond = MOD_INIT;
    mod_add(&beyond, "\x01\x7f\x00", 3);
    REFUSED(&beyond, DZ_EINVAL, "unexpected end: 127 bytes wanted, 1 left");
}

TEST(decode_reads_leb128_strictly)
{
    ONE(longest, 1, "\x81\x80\x80\x80\x00\x60\x00\x00"); /* 5 bytes are allowed */
    CHECK_INT(verdict(&longest), 0);
    ONE(too_long, 1, "\x81\x80\x80\x80\x80\x00\x60\x00\x00");
    REFUSED(&too_long, DZ_EINVAL, "integer representation too long");
    ONE(too_large, 1, "\x81\x80\x80\x80\x10\x60\x00\x00");
    REFUSED(&too_large, DZ_EINVAL, "integer too large");
    ONE(negative, 6, "\x01\x7f\x00\x41\xff\xff\xff\xff\x7f\x0b"); /* -1 in 5 bytes */
    CHECK_INT(verdict(&negative), 0);
    ONE(half, 6, "\x01\x7f\x00\x41\xff\xff\xff\xff\x4f\x0b"); /* not all sign bits */
    REFUSED(&half, DZ_EINVAL, "integer too large");
    ONE(wide, 6, "\x01\x7e\x00\x42\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f\x0b");
    CHECK_INT(verdict(&wide), 0);
    ONE(wider, 6, "\x01\x7e\x00\x42\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x0b");
    REFUSED(&wider, DZ_EINVAL, "integer too large");
}

TEST(decode_wants_names_in_utf8)
{
    ONE(good, 0, "\x03\xe2\x82\xac");
    CHECK_INT(verdict(&good), 0);
    ONE(cut, 0, "\x02\xe2\x82");
    REFUSED(&cut, DZ_EINVAL, "malformed UTF-8");
    ONE(surrogate, 0, "\x03\xed\xa0\x80");
    REFUSED(&surrogate, DZ_EINVAL, "malformed UTF-8");
}

TEST(decode_says_what_doze_does_not_have)
{
    ONE(structs, 1, "\x01\x5f\x00");
    REFUSED(&structs, DZ_EUNSUPPORTED, "uses garbage-collected types, which doze does not");
    ONE(anyref, 1, "\x01\x60\x01\x6e\x00");
    REFUSED(&anyref, DZ_EUNSUPPORTED, "uses garbage-collected types");
    ONE(typed, 1, "\x01\x60\x01\x64\x00\x00");
    REFUSED(&typed, DZ_EUNSUPPORTED, "uses typed references");
    ONE(memory64, 5, "\x01\x04\x01");
    REFUSED(&memory64, DZ_EUNSUPPORTED, "uses memory64");
    ONE(shared, 5, "\x01\x03\x01\x02");
    REFUSED(&shared, DZ_EUNSUPPORTED, "uses shared memory (threads)");
    ONE(init, 4, "\x01\x40\x00\x64\x70\x00\x00\xd0\x70\x0b");
    REFUSED(&init, DZ_EUNSUPPORTED, "uses typed references");
    ONE(cont, 1, "\x01\x5d\x00");
    REFUSED(&cont, DZ_EUNSUPPORTED, "uses stack switching");
}

TEST(decode_compares_counts)
{
    ONE(no_code, 1, "\x01\x60\x00\x00");
    MOD_SECTION(&no_code, 3, "\x01\x00");
    REFUSED(&no_code, DZ_EINVAL, "inconsistent lengths");
    struct mod two = no_code;
    MOD_SECTION(&two, 10, "\x02\x02\x00\x0b\x02\x00\x0b");
    REFUSED(&two, DZ_EINVAL, "inconsistent lengths: 1 and 2");
    ONE(data, 5, "\x01\x00\x01");
    MOD_SECTION(&data, 12, "\x02");
    struct mod one = data;
    MOD_SECTION(&one, 11, "\x01\x01\x00");
    REFUSED(&one, DZ_EINVAL, "data count and data section have inconsistent lengths: 2 and 1");
    REFUSED(&data, DZ_EINVAL, "data count and data section have inconsistent lengths: 2 and 0");
}

TEST(decode_checks_what_sections_refer_to)
{
    ONE(type, 3, "\x01\x00");
    REFUSED(&type, DZ_EINVAL, "unknown type 0 (there are 0)");
    ONE(exported, 7, "\x01\x01x\x02\x00");
    REFUSED(&exported, DZ_EINVAL, "unknown memory 0");
    ONE(twice, 5, "\x01\x00\x01");
    MOD_SECTION(&twice, 7, "\x03\x01y\x02\x00\x01x\x02\x00\x01y\x02\x00");
    REFUSED(&twice, DZ_EINVAL, "duplicate export name \"y\"");
    ONE(pages, 5, "\x01\x00\x81\x80\x04");
    REFUSED(&pages, DZ_EINVAL, "at most 65536 pages");
    ONE(order, 5, "\x01\x01\x03\x02");
    REFUSED(&order, DZ_EINVAL, "size minimum 3 must not be greater than maximum 2");
    ONE(start, 1, "\x01\x60\x01\x7f\x00");
    MOD_SECTION(&start, 3, "\x01\x00");
    MOD_SECTION(&start, 8, "\x00");
    REFUSED(&start, DZ_EINVAL, "start function 0 has parameters or results");
    ONE(mutability, 6, "\x01\x7f\x02\x41\x00\x0b");
    REFUSED(&mutability, DZ_EINVAL, "malformed mutability 0x02");
    ONE(results, 1, "\x01\x60\x00\x01\x7f");
    MOD_SECTION(&results, 13, "\x01\x00\x00");
    REFUSED(&results, DZ_EINVAL, "non-empty tag result type");
}

TEST(decode_checks_element_segments)
{
    ONE(type, 4, "\x01\x6f\x00\x01"); /* a table of externref */
    MOD_SECTION(&type, 9, "\x01\x00\x41\x00\x0b\x00");
    REFUSED(&type, DZ_EINVAL, "type mismatch: table 0 has externref, the segment funcref");
    ONE(kind, 4, "\x01\x70\x00\x01");
    MOD_SECTION(&kind, 9, "\x01\x01\x01\x00");
    REFUSED(&kind, DZ_EINVAL, "malformed element kind 0x01");
    ONE(flags, 4, "\x01\x70\x00\x01");
    MOD_SECTION(&flags, 9, "\x01\x08\x00");
    REFUSED(&flags, DZ_EINVAL, "malformed elements segment kind 8");
    ONE(table, 9, "\x01\x00\x41\x00\x0b\x00");
    REFUSED(&table, DZ_EINVAL, "unknown table 0");
    ONE(func, 4, "\x01\x70\x00\x01");
    MOD_SECTION(&func, 9, "\x01\x00\x41\x00\x0b\x01\x00");
    REFUSED(&func, DZ_EINVAL, "unknown function 0");
    ONE(number, 9, "\x01\x05\x7f\x00");
    REFUSED(&number, DZ_EINVAL, "malformed reference type: i32");
}

TEST(decode_checks_constant_expressions)
{
    ONE(type, 6, "\x01\x7f\x00\x42\x00\x0b");
    REFUSED(&type, DZ_EINVAL, "type mismatch: expected i32, found i64");
    ONE(empty, 6, "\x01\x7f\x00\x0b");
    REFUSED(&empty, DZ_EINVAL, "expected i32, found nothing");
    ONE(two, 6, "\x01\x7f\x00\x41\x00\x41\x00\x0b");
    REFUSED(&two, DZ_EINVAL, "leaves 1 values too many");
    ONE(op, 6, "\x01\x7f\x00\x01\x0b");
    REFUSED(&op, DZ_EINVAL, "constant expression required, found opcode 0x01");
    ONE(self, 6, "\x01\x7f\x00\x23\x00\x0b");
    REFUSED(&self, DZ_EINVAL, "unknown global 0");
    ONE(mutable, 6, "\x02\x7f\x01\x41\x00\x0b\x7f\x00\x23\x00\x0b");
    REFUSED(&mutable, DZ_EINVAL, "global 0 is mutable");
    ONE(before, 6, "\x02\x7f\x00\x41\x00\x0b\x7f\x00\x23\x00\x0b");
    CHECK_INT(verdict(&before), 0);
    CHECK_INT(dz_wasm_validate(before.p, before.n, DZ_WASM_F_2_0, NULL, &err), DZ_EINVAL);
    struct mod deep = {0};
    mod_add(&deep, "\x01\x7f\x00", 3);
    for (int i = 0; i <= DZ_WASM_CONST_DEPTH; i++)
        mod_add(&deep, "\x41\x00", 2);
    struct mod m = MOD_INIT;
    mod_section(&m, 6, deep.p, deep.n);
    REFUSED(&m, DZ_ELIMIT, "65 operands in a constant expression are more than the limit of 64");
}

TEST(decode_obeys_every_feature)
{
    static const struct {
        uint32_t feature;
        const char *section;
        size_t n;
    } rows[] = {
#define ROW(feature, literal) {DZ_WASM_F_##feature, literal, sizeof(literal) - 1}
        ROW(MULTI_VALUE, "\x01\x06\x01\x60\x00\x02\x7f\x7f"),
        ROW(SIMD, "\x01\x05\x01\x60\x00\x01\x7b"),
        ROW(REFERENCE_TYPES, "\x04\x04\x01\x6f\x00\x01"),
        ROW(BULK_MEMORY, "\x0c\x01\x00"),
        ROW(EXCEPTIONS, "\x0d\x01\x00"),
        ROW(EXTENDED_CONST, "\x06\x09\x01\x7f\x00\x41\x01\x41\x01\x6a\x0b"),
        ROW(MUTABLE_GLOBALS, "\x02\x08\x01\x01m\x01g\x03\x7f\x01"),
#undef ROW
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(rows); i++) {
        struct mod m = MOD_INIT;
        mod_add(&m, rows[i].section, rows[i].n);
        CHECK_INT(verdict(&m), 0);
        CHECK_INT(dz_wasm_validate(m.p, m.n, DZ_WASM_F_ALL & ~rows[i].feature, NULL, &err),
                  DZ_EUNSUPPORTED);
        CHECK(strstr(err.msg, "switched off") != NULL);
    }
    ONE(two, 5, "\x02\x00\x01\x00\x01");
    CHECK_INT(verdict(&two), 0);
    CHECK_INT(dz_wasm_validate(two.p, two.n, DZ_WASM_F_2_0, NULL, &err), DZ_EINVAL);
}

TEST(decode_obeys_every_limit)
{
    static const size_t fields[] = {
#define X(name, value, text) offsetof(struct dz_wasm_limits, name),
        DZ_WASM_LIMIT_MAP(X)
#undef X
    };
    struct mod m;
    full(&m);
    for (size_t i = 0; i < DZ_ARRAY_LEN(fields); i++) {
        struct dz_wasm_limits limits = dz_wasm_default_limits;
        uint32_t zero = 0;
        memcpy((char *)&limits + fields[i], &zero, sizeof zero);
        int r = dz_wasm_validate(m.p, m.n, DZ_WASM_F_ALL, &limits, &err);
        if (fields[i] == offsetof(struct dz_wasm_limits, image_bytes)) {
            CHECK_INT(r, 0); /* only moves work to instantiation */
            continue;
        }
        CHECK_INT(r, DZ_ELIMIT);
        if (r != DZ_ELIMIT || !strstr(err.msg, "more than the limit of 0"))
            printf("# limit %zu: %s\n", i, err.msg);
        CHECK(strstr(err.msg, "more than the limit of 0") != NULL);
    }
}

/* The end of two pages in front of one that cannot be read. */
static uint8_t *guard(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *base =
        mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(base + 2 * page, page, PROT_NONE) < 0) {
        printf("# no guard page\n");
        exit(1);
    }
    return base + 2 * page;
}

TEST(decode_survives_every_truncation)
{
    struct mod m;
    int accepted = 0;
    uint8_t *end = guard();
    full(&m);
    for (size_t n = 0; n < m.n; n++) {
        memcpy(end - n, m.p, n);
        accepted += dz_wasm_validate(end - n, n, DZ_WASM_F_ALL, NULL, NULL) == 0;
    }
    CHECK_INT(accepted, 3 + 1 + 1); /* after the head, types, imports; data; the first custom */
}

TEST(decode_survives_every_changed_byte)
{
    struct mod m;
    int accepted = 0;
    uint8_t *end = guard();
    full(&m);
    memcpy(end - m.n, m.p, m.n);
    for (size_t i = 0; i < m.n; i++) {
        for (unsigned to = 0; to < 256; to++) {
            end[(ptrdiff_t)i - (ptrdiff_t)m.n] = (uint8_t)to;
            accepted += dz_wasm_validate(end - m.n, m.n, DZ_WASM_F_ALL, NULL, NULL) == 0;
        }
        end[(ptrdiff_t)i - (ptrdiff_t)m.n] = m.p[i];
    }
    CHECK(accepted >= (int)m.n); /* one of each 256 is the module itself */
}

TORTURE(decode_survives_every_allocation_failure)
{
    struct mod m;
    full(&m);
    struct dz_err e = {0};
    int r = dz_wasm_validate(m.p, m.n, DZ_WASM_F_ALL, NULL, &e);
    if (r != 0 && r != DZ_ENOMEM)
        printf("# %s\n", e.msg);
    CHECK(r == 0 || r == DZ_ENOMEM);
}

/* SPDX-License-Identifier: MIT
 * The prepared form: what the view shows, the memory image, damage. */
#include "base/err.h"
#include "base/hash.h"
#include "tap.h"
#include "wasm/wasm_module.h"
#include "wasm_mod.h"

static struct dz_err err;

struct flat {
    void *p;
    size_t n;
    struct dz_wasm_module *m;
};

static struct flat open_mod(const struct mod *mod)
{
    struct flat f = {0};
    CHECK_INT(dz_wasm_prepare_alloc(mod->p, mod->n, DZ_WASM_F_ALL, &f.p, &f.n, &err), 0);
    CHECK_INT(dz_wasm_module_open(f.p, f.n, &f.m, &err), 0);
    if (!f.m) {
        printf("# %s\n", err.msg);
        exit(1);
    }
    return f;
}

static void close_flat(struct flat *f)
{
    dz_wasm_module_close(f->m);
    dz_free(f->p);
}

static struct flat open_full(void)
{
    struct mod mod;
    full(&mod);
    return open_mod(&mod);
}

TEST(prepare_keeps_types_and_index_spaces)
{
    struct flat f = open_full();
    const struct dz_wasm_module *m = f.m;
    CHECK_INT(m->n_types, 4);
    CHECK_INT(m->types[2].canon, 0);
    CHECK_INT(m->types[1].param_slots, 3); /* i32 and v128 */
    CHECK_INT(m->types[1].result_slots, 1);
    CHECK_INT(m->valtypes[m->types[1].params + 1], DZ_WASM_V128);
    CHECK_INT(m->n_imports, 4);
    CHECK_INT(m->imports[2].kind, DZ_WASM_KIND_GLOBAL);
    CHECK_INT(m->imports[2].index, 0);
    CHECK_INT(m->header->n_imported[DZ_WASM_KIND_TAG], 1);
    CHECK_INT(m->n_funcs, 3);
    CHECK_INT(m->n_tables, 2);
    CHECK_INT(m->tables[1].max, 5);
    CHECK_INT(m->memories[0].min, 2);
    CHECK_INT(m->memories[0].max, 3);
    CHECK_INT(m->n_globals, 4);
    CHECK_INT(m->globals[2].slot, 3); /* behind an i32 and a v128 */
    CHECK_INT(m->header->global_slots, 5);
    CHECK_INT(m->globals[2].n_init, 3); /* 7 and global 0 added */
    CHECK_INT(m->consts[m->globals[2].init + 2].op, DZ_WASM_OP_i32_add);
    CHECK_INT(m->consts[m->globals[1].init].bits[1], 0x100f0e0d0c0b0a09);
    CHECK_INT(m->n_tags, 2);
    CHECK_INT(m->header->start, 1);
    CHECK_INT(m->header->features_used & DZ_WASM_F_EXTENDED_CONST, DZ_WASM_F_EXTENDED_CONST);
    CHECK_INT(m->header->features_used & DZ_WASM_F_TAIL_CALLS, 0);
    close_flat(&f);
}

TEST(prepare_keeps_functions)
{
    struct flat f = open_full();
    const struct dz_wasm_func *last = &f.m->funcs[2];
    const uint8_t *body = NULL;
    CHECK_INT(last->type, 1);
    CHECK_INT(last->n_locals, 4);
    CHECK_INT(last->local_slots, 3 + 5); /* params; three i32 and a v128 */
    CHECK_INT(last->stack_slots, 4);
    CHECK_INT(last->body_size, 15);
    CHECK_INT(last->code - last->body, 5);
    CHECK_INT(dz_wasm_module_body(f.m, 2, &body, &err), 0);
    CHECK(body && body[5] == 0x20);
    close_flat(&f);
}

TEST(prepare_finds_exports_by_name)
{
    struct flat f = open_full();
    CHECK_INT(dz_wasm_module_export(f.m, "run", 3), 0);
    CHECK_INT(dz_wasm_module_export(f.m, "mem", 3), 1);
    CHECK_INT(dz_wasm_module_export(f.m, "g", 1), 2);
    CHECK_INT(dz_wasm_module_export(f.m, "ru", 2), DZ_WASM_NONE);
    CHECK_INT(dz_wasm_module_export(f.m, "", 0), DZ_WASM_NONE);
    CHECK_INT(dz_wasm_module_export(f.m, "zz", 2), DZ_WASM_NONE);
    close_flat(&f);
}

/* 40 exports in no order: each is found, and exports_by_name ascends. */
TEST(prepare_sorts_exports)
{
    struct mod exports = {0}, m = MOD_INIT;
    mod_byte(&exports, 40);
    for (unsigned i = 0; i < 40; i++) {
        mod_byte(&exports, 1 + (i % 2));
        mod_byte(&exports, 'A' + i * 17 % 40);
        if (i % 2)
            mod_byte(&exports, 'x');
        mod_byte(&exports, DZ_WASM_KIND_MEMORY);
        mod_byte(&exports, 0);
    }
    MOD_SECTION(&m, 5, "\x01\x00\x01");
    mod_section(&m, 7, exports.p, exports.n);
    struct flat f = open_mod(&m);
    for (uint32_t i = 0; i < 40; i++) {
        struct dz_wasm_name n = f.m->exports[i].name;
        CHECK_INT(dz_wasm_module_export(f.m, (const char *)f.m->wasm + n.offset, n.size), i);
        struct dz_wasm_name at = f.m->exports[f.m->exports_by_name[i]].name;
        CHECK_INT(f.m->wasm[at.offset], 'A' + i);
    }
    close_flat(&f);
}

TEST(prepare_keeps_segments)
{
    struct flat f = open_full();
    const struct dz_wasm_module *m = f.m;
    CHECK_INT(m->n_elems, 8);
    CHECK_INT(m->elems[2].table, 0);
    CHECK_INT(m->elems[3].mode, DZ_WASM_DECLARED);
    CHECK_INT(m->elem_items[m->elems[4].items], DZ_WASM_ITEM_NULL);
    CHECK_INT(m->elem_items[m->elems[5].items], 2);
    CHECK_INT(m->elem_items[m->elems[5].items + 1], DZ_WASM_ITEM_GLOBAL + 3);
    CHECK_INT(m->elems[6].table, 1);
    CHECK_INT(m->elems[6].type, DZ_WASM_EXTERNREF);
    CHECK_INT(m->elems_dropped[0], 0xdd); /* all but 1 and 5 */
    CHECK_INT(m->n_datas, 5);
    CHECK_INT(m->datas_dropped[0], 0x1d); /* all but 1 */
    CHECK_INT(m->datas[1].mode, DZ_WASM_PASSIVE);
    CHECK(memcmp(m->wasm + m->datas[1].bytes, "xy", 2) == 0);
    close_flat(&f);
}

TEST(prepare_applies_data_until_the_first_unknown_offset)
{
    struct flat f = open_full();
    const struct dz_wasm_module *m = f.m;
    CHECK_INT(m->header->image_at, 8192);
    CHECK_INT(m->header->image_size, 4096);
    CHECK_INT(m->header->image_offset % DZ_WASM_PAGE_ALIGN, 0);
    CHECK(memcmp(m->image + FULL_DATA_AT - 8192, "heLLo", 5) == 0);
    CHECK_INT(m->image[0], 0);
    CHECK_INT(m->datas[2].offset, 8199); /* in the image: no expression any more */
    CHECK_INT(m->datas[2].n_offset, 0);
    CHECK_INT(m->consts[m->datas[3].offset].op, DZ_WASM_OP_global_get);
    CHECK_INT(m->consts[m->datas[4].offset].op, DZ_WASM_OP_i32_const);
    CHECK_INT(m->n_consts, m->datas[4].offset + 1);
    CHECK_INT(m->n_datas_left, 2); /* at global 0, and what comes after it */
    CHECK_INT(m->datas_left[0], 3);
    CHECK_INT(m->datas_left[1], 4);
    close_flat(&f);
}

/* One memory section and one data section; how many segments are left? */
static struct flat data_mod(const void *mem, size_t n_mem, const void *data, size_t n_data)
{
    struct mod m = MOD_INIT;
    mod_section(&m, 5, mem, n_mem);
    mod_section(&m, 11, data, n_data);
    return open_mod(&m);
}
#define DATA_MOD(mem, data) data_mod(mem, sizeof(mem) - 1, data, sizeof(data) - 1)

TEST(prepare_leaves_what_does_not_fit)
{
    struct flat f = DATA_MOD("\x01\x00\x01", "\x02\x00\x41\x00\x0b\x01"
                                             "a\x00\x41\xff\xff\x03\x0b\x02zz");
    CHECK_INT(f.m->header->image_size, 4096);
    CHECK_INT(f.m->n_datas_left, 1); /* 65535 + 2 is beyond the page: will trap */
    close_flat(&f);
    f = DATA_MOD("\x01\x00\x00", "\x01\x00\x41\x00\x0b\x00"); /* nothing, at the end of nothing */
    CHECK_INT(f.m->header->image_size, 0);
    CHECK_INT(f.m->n_datas_left, 0);
    close_flat(&f);
    f = DATA_MOD("\x01\x00\x00", "\x01\x00\x41\x01\x0b\x00"); /* nothing, behind the end */
    CHECK_INT(f.m->n_datas_left, 1);
    close_flat(&f);
    f = DATA_MOD("\x01\x00\x01", "\x01\x00\x41\x7f\x0b\x01x"); /* at 4 GiB - 1 */
    CHECK_INT(f.m->n_datas_left, 1);
    close_flat(&f);
    f = DATA_MOD("\x01\x00\x01", "\x01\x00\x41\x00\x0b\x02\x00\x00"); /* zeros are no image */
    CHECK_INT(f.m->header->image_size, 0);
    CHECK_INT(f.m->n_datas_left, 0);
    close_flat(&f);
    f = DATA_MOD("\x02\x00\x01\x00\x01", "\x02\x02\x01\x41\x00\x0b\x01x\x00\x41\x00\x0b\x01y");
    CHECK_INT(f.m->n_datas_left, 1); /* memory 1 has no image */
    CHECK_INT(f.m->image[0], 'y');
    close_flat(&f);
    /* 1 byte at 0 and 1 at 48 MiB: too far apart for one image */
    f = DATA_MOD("\x01\x00\x81\x06", "\x02\x00\x41\x00\x0b\x01"
                                     "a\x00\x41\x80\x80\x80\x18\x0b\x01z");
    CHECK_INT(f.m->header->image_size, 4096);
    CHECK_INT(f.m->n_datas_left, 1);
    close_flat(&f);
}

TEST(prepare_of_an_imported_memory_has_no_image)
{
    struct mod m = MOD_INIT;
    MOD_SECTION(&m, 2, "\x01\x01m\x01m\x02\x00\x01");
    MOD_SECTION(&m, 11, "\x01\x00\x41\x00\x0b\x01y");
    struct flat f = open_mod(&m);
    CHECK_INT(f.m->header->image_size, 0);
    CHECK_INT(f.m->n_datas_left, 1);
    close_flat(&f);
}

TEST(prepare_names_functions)
{
    struct flat f = open_full();
    char buf[32];
    CHECK_STR(dz_wasm_module_func_name(f.m, 1, buf, sizeof buf), "main");
    CHECK_STR(dz_wasm_module_func_name(f.m, 2, buf, sizeof buf), "caf");
    CHECK_STR(dz_wasm_module_func_name(f.m, 0, buf, sizeof buf), "f"); /* its import */
    CHECK_STR(dz_wasm_module_func_name(f.m, 1, buf, 3), "ma");
    close_flat(&f);
    struct mod m = MOD_INIT;
    MOD_SECTION(&m, 1, "\x01\x60\x00\x00");
    MOD_SECTION(&m, 3, "\x03\x00\x00\x00");
    MOD_SECTION(&m, 7,
                "\x01\x04"
                "a\x01\xc3\xa9\x00\x01");
    MOD_SECTION(&m, 10, "\x03\x02\x00\x0b\x02\x00\x0b\x02\x00\x0b");
    MOD_SECTION(&m, 0,
                "\x04name\x01\x05\x7f\x00\x03"
                "abc"); /* its count is a lie */
    f = open_mod(&m);
    CHECK_STR(dz_wasm_module_func_name(f.m, 1, buf, sizeof buf), "a?\xc3\xa9");
    CHECK_STR(dz_wasm_module_func_name(f.m, 1, buf, 4), "a?"); /* no half characters */
    CHECK_STR(dz_wasm_module_func_name(f.m, 2, buf, sizeof buf), "function 2");
    close_flat(&f);
    struct mod named = MOD_INIT;
    MOD_SECTION(&named, 1, "\x01\x60\x00\x00");
    MOD_SECTION(&named, 3, "\x01\x00");
    MOD_SECTION(&named, 7, "\x01\x05m\xc2\x9b[m\x00\x00"); /* U+009B: CSI */
    MOD_SECTION(&named, 10, "\x01\x02\x00\x0b");
    f = open_mod(&named);
    CHECK_STR(dz_wasm_module_func_name(f.m, 0, buf, sizeof buf), "m??[m");
    close_flat(&f);
}

TEST(prepare_records_sections_and_hash)
{
    struct mod mod;
    uint8_t want[DZ_SHA256_BYTES];
    full(&mod);
    struct flat f = open_mod(&mod);
    CHECK_INT(dz_sha256(mod.p, mod.n, want, &err), 0);
    CHECK(memcmp(f.m->header->sha256, want, sizeof want) == 0);
    CHECK_INT(f.m->wasm_size, mod.n);
    CHECK(memcmp(f.m->wasm, mod.p, mod.n) == 0);
    CHECK_INT(f.m->n_sections, 15);
    CHECK_INT(f.m->sections[0].id, 1);
    CHECK_INT(f.m->sections[14].id, 0);
    CHECK_INT(f.m->sections[14].size, 2);
    close_flat(&f);
}

TEST(prepare_compares_types_across_modules)
{
    struct flat a = open_full();
    struct mod mod = MOD_INIT;
    MOD_SECTION(&mod, 1, "\x02\x60\x02\x7f\x7b\x01\x7e\x60\x02\x7f\x7e\x01\x7b");
    struct flat b = open_mod(&mod);
    CHECK(dz_wasm_type_eq(a.m, 0, a.m, 2));
    CHECK(!dz_wasm_type_eq(a.m, 0, a.m, 1));
    CHECK(dz_wasm_type_eq(a.m, 1, b.m, 0));
    CHECK(!dz_wasm_type_eq(a.m, 1, b.m, 1));
    close_flat(&a);
    close_flat(&b);
}

/* --- damage ------------------------------------------------------------------------- */

TEST(open_refuses_every_truncation)
{
    struct flat f = open_full();
    for (size_t n = 0; n < f.n; n++) {
        uint8_t *copy = dz_alloc(n);
        struct dz_wasm_module *m = NULL;
        memcpy(copy, f.p, n);
        CHECK(dz_wasm_module_open(copy, n, &m, &err) < 0);
        dz_free(copy);
    }
    close_flat(&f);
}

/* A flipped bit in header or arrays is seen at open, one in a body when the
 * body is asked for; the rest of the binary and the image hold no structure. */
TEST(open_sees_every_flipped_bit)
{
    struct flat f = open_full();
    uint8_t *p = f.p;
    const uint64_t wasm_at = f.m->header->wasm_offset;
    const struct dz_wasm_func *last = &f.m->funcs[2];
    unsigned unseen = 0;
    for (size_t i = 0; i < wasm_at * 8; i++) {
        struct dz_wasm_module *m = NULL;
        p[i / 8] ^= (uint8_t)(1u << i % 8);
        if (dz_wasm_module_open(p, f.n, &m, &err) == 0)
            unseen++;
        dz_wasm_module_close(m);
        p[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    /* bytes between arrays that fill up to 8 belong to nothing */
    uint64_t between = wasm_at - sizeof(struct dz_wasm_header);
#define X(field, type) between -= f.m->n_##field * sizeof(type);
    DZ_WASM_ARRAY_MAP(X)
#undef X
    CHECK_INT(unseen, between * 8);
    for (size_t i = 0; i < last->body_size * 8; i++) {
        const uint8_t *body = NULL;
        p[wasm_at + last->body + i / 8] ^= (uint8_t)(1u << i % 8);
        CHECK_INT(dz_wasm_module_body(f.m, 2, &body, &err), DZ_ECORRUPT);
        p[wasm_at + last->body + i / 8] ^= (uint8_t)(1u << i % 8);
    }
    close_flat(&f);
}

/* Whoever forges the checksum still meets the checks of every index: set each
 * 32-bit word of the metadata to odd values, make the sum right, open. Under
 * ASan this shows any read outside. */
uint64_t dz_wasm_sum(uint64_t seed, const void *data, size_t size); /* wasm_load.h */

static uint64_t sum_of(const uint8_t *flat)
{
    struct dz_wasm_header h;
    memcpy(&h, flat, sizeof h);
    h.meta_sum = 0;
    uint64_t sum = dz_wasm_sum(0, &h, sizeof h);
#define X(field, type)                                                   \
    sum = dz_wasm_sum(sum, flat + h.array[DZ_WASM_ARRAY_##field].offset, \
                      h.array[DZ_WASM_ARRAY_##field].count * sizeof(type));
    DZ_WASM_ARRAY_MAP(X)
#undef X
    return sum;
}

TEST(open_survives_forged_tables)
{
    static const uint32_t values[] = {0,          1,          5,          0x7f,
                                      0x7fffffff, 0x80000000, 0xfffffffe, UINT32_MAX};
    struct flat f = open_full();
    uint8_t *p = f.p;
    const size_t first = sizeof(struct dz_wasm_header);
    unsigned accepted = 0;
    for (size_t i = first; i < f.m->header->wasm_offset; i += 4) {
        uint32_t old;
        memcpy(&old, p + i, 4);
        for (size_t k = 0; k < DZ_ARRAY_LEN(values); k++) {
            struct dz_wasm_module *m = NULL;
            memcpy(p + i, &values[k], 4);
            ((struct dz_wasm_header *)f.p)->meta_sum = sum_of(p);
            if (dz_wasm_module_open(p, f.n, &m, &err) == 0) {
                char buf[16];
                accepted++;
                for (uint32_t x = 0; x < m->n_funcs; x++)
                    (void)dz_wasm_module_func_name(m, x, buf, sizeof buf);
                (void)dz_wasm_module_export(m, "run", 3);
            } else {
                CHECK_INT(err.code, DZ_ECORRUPT);
            }
            dz_wasm_module_close(m);
        }
        memcpy(p + i, &old, 4);
    }
    CHECK(accepted > 0);
    ((struct dz_wasm_header *)f.p)->meta_sum = sum_of(p);
    struct dz_wasm_module *m = NULL;
    CHECK_INT(dz_wasm_module_open(p, f.n, &m, &err), 0);
    dz_wasm_module_close(m);
    close_flat(&f);
}

/* --- sinks ----------------------------------------------------------------------------- */

struct counter {
    uint64_t bytes, holes;
    int calls, fail_at;
};

static int count_write(void *ctx, const void *data, size_t size, struct dz_err *e)
{
    struct counter *c = ctx;
    (void)data;
    if (c->calls++ == c->fail_at)
        return dz_fail(e, DZ_ENOSPC, "full");
    c->bytes += size;
    return 0;
}

static int count_zeros(void *ctx, uint64_t size, struct dz_err *e)
{
    struct counter *c = ctx;
    (void)e;
    c->holes += size;
    return 0;
}

TEST(prepare_leaves_holes_and_passes_failures_on)
{
    struct mod m = MOD_INIT; /* 8 bytes at 0 and at 8 MiB */
    MOD_SECTION(&m, 5, "\x01\x00\x81\x01");
    MOD_SECTION(&m, 11,
                "\x02\x00\x41\x00\x0b\x01"
                "a\x00\x41\x80\x80\x80\x04\x0b\x01z");
    struct counter c = {.fail_at = -1};
    struct dz_wasm_sink sink = {count_write, count_zeros, &c};
    CHECK_INT(dz_wasm_prepare(m.p, m.n, DZ_WASM_F_ALL, NULL, &sink, &err), 0);
    CHECK_INT(c.holes, (8 << 20) - 4096);
    int calls = c.calls;
    uint64_t all = c.bytes + c.holes;
    CHECK_INT(all % DZ_WASM_PAGE_ALIGN, 0);
    sink.zeros = NULL;
    c = (struct counter){.fail_at = -1};
    CHECK_INT(dz_wasm_prepare(m.p, m.n, DZ_WASM_F_ALL, NULL, &sink, &err), 0);
    CHECK_INT(c.bytes, all);
    sink.zeros = count_zeros;
    for (int i = 0; i < calls; i++) {
        c = (struct counter){.fail_at = i};
        CHECK_INT(dz_wasm_prepare(m.p, m.n, DZ_WASM_F_ALL, NULL, &sink, &err), DZ_ENOSPC);
        CHECK_STR(err.msg, "full");
    }
}

TEST(prepare_of_an_invalid_module_writes_nothing)
{
    struct mod m = MOD_INIT;
    MOD_SECTION(&m, 3, "\x01\x00");
    struct counter c = {.fail_at = -1};
    struct dz_wasm_sink sink = {count_write, count_zeros, &c};
    CHECK_INT(dz_wasm_prepare(m.p, m.n, DZ_WASM_F_ALL, NULL, &sink, &err), DZ_EINVAL);
    CHECK_INT(c.calls, 0);
}

TORTURE(prepare_survives_every_allocation_failure)
{
    struct mod mod;
    struct flat f = {0};
    full(&mod);
    int r = dz_wasm_prepare_alloc(mod.p, mod.n, DZ_WASM_F_ALL, &f.p, &f.n, &err);
    CHECK(r == 0 || r == DZ_ENOMEM);
    if (r == 0) {
        r = dz_wasm_module_open(f.p, f.n, &f.m, &err);
        CHECK(r == 0 || r == DZ_ENOMEM);
    }
    close_flat(&f);
}

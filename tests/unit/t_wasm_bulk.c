/* SPDX-License-Identifier: MIT
 * Long operations on memories and tables, which are done in parts: ranges that overlap, ends
 * that lie at a part's end. */
#include "wasm/wasm_rt.h"
#include "wasm_rig.h"

enum {
    PART = DZ_WASM_BULK_CHUNK,
    ELEMS = PART / sizeof(uint64_t), /* of a table, in a part */
    PAGES = 20,                      /* more than four parts */
    TABLE = 5 * ELEMS / 2,
};

static struct dz_err err;

/* copy(to, from, n), fill(to, value, n) on the memory; tcopy(to, from, n) on the table. */
static void open_bulk(struct rig *r, int way)
{
    struct mod_bodies code = {0};
    struct mod m = MOD_INIT, table = {0};
    struct dz_wasm_config cfg = rig_way(way);
    MOD_SECTION(&m, 1, "\x01\x60\x03\x7f\x7f\x7f\x00");
    MOD_SECTION(&m, 3, "\x03\x00\x00\x00");
    mod_add(&table, "\x01\x6f\x00", 3);
    mod_u32(&table, TABLE);
    mod_section(&m, 4, table.p, table.n);
    MOD_SECTION(&m, 5, "\x01\x00\x14");
    MOD_SECTION(&m, 7,
                "\x03\x04"
                "copy\x00\x00\x04"
                "fill\x00\x01\x05"
                "tcopy\x00\x02");
    MOD_BODY(&code, "\x00\x20\x00\x20\x01\x20\x02\xfc\x0a\x00\x00");
    MOD_BODY(&code, "\x00\x20\x00\x20\x01\x20\x02\xfc\x0b\x00");
    MOD_BODY(&code, "\x00\x20\x00\x20\x01\x20\x02\xfc\x0e\x00\x00");
    mod_bodies(&m, &code);
    CHECK_INT(rig_make(r, &m, &cfg, NULL, 0, &err), 0);
}

/* Interrupted after each part. */
static enum dz_wasm_stop run(struct rig *r, const char *what, uint64_t to, uint64_t from,
                             uint64_t n)
{
    const uint64_t args[3] = {to, from, n};
    enum dz_wasm_stop stop;
    CHECK_INT(rig_call(r, what, args, 3), 0);
    do
        stop = rig_step(r);
    while (stop == DZ_WASM_INTERRUPTED);
    return stop;
}

static const uint32_t distances[] = {1, 7, 64, 4096, PART - 1, PART, PART + 1};
static const uint32_t sizes[] = {0, 1, PART - 1, PART, PART + 1, 2 * PART, 3 * PART + 5};

TEST(overlapping_memory_is_copied_whole)
{
    static uint8_t want[PAGES << 16];
    for (int way = 0; way < RIG_WAYS; way++) {
        struct rig r;
        open_bulk(&r, way);
        uint8_t *mem = dz_wasm_mem(r.inst, 0, 0, sizeof want);
        for (size_t d = 0; d < DZ_ARRAY_LEN(distances); d++)
            for (size_t s = 0; s < DZ_ARRAY_LEN(sizes); s++)
                for (int up = 0; up < 2; up++) {
                    uint32_t low = 100, high = low + distances[d];
                    uint32_t to = up ? high : low, from = up ? low : high;
                    for (size_t i = 0; i < sizeof want; i++)
                        mem[i] = want[i] = (uint8_t)(i * 7 + (i >> 8) * 13 + (i >> 16));
                    memmove(want + to, want + from, sizes[s]);
                    CHECK_INT(run(&r, "copy", to, from, sizes[s]), DZ_WASM_DONE);
                    CHECK(memcmp(mem, want, sizeof want) == 0);
                }
        rig_close(&r);
    }
}

TEST(overlapping_tables_are_copied_whole)
{
    static uint64_t want[TABLE];
    for (int way = 0; way < RIG_WAYS; way++) {
        struct rig r;
        open_bulk(&r, way);
        struct wasm_table *t = r.store->tables;
        CHECK_INT(t->size, TABLE);
        for (size_t d = 0; d < DZ_ARRAY_LEN(distances); d++)
            for (size_t s = 0; s < 5; s++)
                for (int up = 0; up < 2; up++) {
                    uint32_t low = 100, high = low + distances[d] / 8 + 1, n = sizes[s] / 8 + s % 2;
                    uint32_t to = up ? high : low, from = up ? low : high;
                    for (size_t i = 0; i < TABLE; i++)
                        t->elem[i] = want[i] = i * 3 + 1;
                    memmove(want + to, want + from, n * sizeof *want);
                    CHECK_INT(run(&r, "tcopy", to, from, n), DZ_WASM_DONE);
                    CHECK(memcmp(t->elem, want, sizeof want) == 0);
                }
        rig_close(&r);
    }
}

/* What is filled ends where it is told, whatever the parts; what does not fit changes nothing. */
TEST(ranges_end_exactly)
{
    struct rig r;
    open_bulk(&r, 0);
    const uint32_t all = PAGES << 16;
    uint8_t *mem = dz_wasm_mem(r.inst, 0, 0, all);
    for (size_t s = 0; s < DZ_ARRAY_LEN(sizes); s++) {
        memset(mem, 1, all);
        CHECK_INT(run(&r, "fill", 10, 0x1ff, sizes[s]), DZ_WASM_DONE);
        CHECK(mem[9] == 1 && mem[10 + sizes[s]] == 1);
        for (size_t i = 10; i < 10 + sizes[s]; i++)
            if (mem[i] != 0xff) {
                CHECK_INT(i, -1);
                break;
            }
    }
    memset(mem, 1, all);
    CHECK_INT(run(&r, "fill", all - PART, 2, PART), DZ_WASM_DONE);
    CHECK_INT(run(&r, "fill", all, 2, 0), DZ_WASM_DONE);
    CHECK_INT(run(&r, "fill", all - PART, 3, PART + 1), DZ_WASM_TRAPPED);
    CHECK(mem[all - PART] == 2 && mem[all - 1] == 2);
    CHECK_INT(run(&r, "fill", all + 1, 3, 0), DZ_WASM_TRAPPED);
    CHECK_INT(run(&r, "copy", 0, all - PART, PART + 1), DZ_WASM_TRAPPED);
    CHECK_INT(run(&r, "copy", all - PART, 0, PART + 1), DZ_WASM_TRAPPED);
    CHECK_INT(mem[all - 1], 2);
    CHECK_INT(run(&r, "tcopy", TABLE - 1, 0, 2), DZ_WASM_TRAPPED);
    CHECK_INT(run(&r, "tcopy", 0, TABLE - 1, 2), DZ_WASM_TRAPPED);
    CHECK_INT(run(&r, "tcopy", TABLE, TABLE, 0), DZ_WASM_DONE);
    rig_close(&r);
}

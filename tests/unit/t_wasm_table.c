/* SPDX-License-Identifier: MIT
 *
 * t_wasm_table.c - the table image of a prepared module: when there is one, what damage
 * does, that processes share its pages until they write, and keep what they wrote.
 */
#include "base/hash.h"
#include "wasm/wasm_load.h"
#include "wasm/wasm_rt.h"
#include "wasm_rig.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static struct dz_err err;
static struct tape tape;

enum {
    MIN = 3000, /* elements of the table */
    FIRST = 1,  /* where the segments begin, */
    SECOND = 1500,
    ITEMS = 1100, /* and how many each has */
    ELEMS = SECOND + ITEMS,
    TEN = 0, /* functions: what they answer */
    ELEVEN = 1,
    PAGE_ELEMS = DZ_WASM_PAGE_ALIGN / sizeof(uint64_t),
};

/* Items of a segment are functions TEN and ELEVEN by turns. */
static uint64_t element(uint32_t i)
{
    if (i >= SECOND && i < SECOND + ITEMS)
        return 1 + (i - SECOND) % 2;
    return i >= FIRST && i < FIRST + ITEMS ? 1 + (i - FIRST) % 2 : 0;
}

static void add_segment(struct mod *elems, unsigned at, unsigned items)
{
    mod_byte(elems, 0);
    mod_byte(elems, 0x41);
    mod_byte(elems, (at & 0x7f) | 0x80);
    mod_byte(elems, at >> 7);
    mod_byte(elems, 0x0b);
    mod_u32(elems, items);
    for (unsigned i = 0; i < items; i++)
        mod_byte(elems, i % 2);
}

/* call(i), set(i, from): an element becomes that of another place, grow(n). */
static void with_table(struct mod *m, const struct mod *elems, const char *table, size_t size)
{
    struct mod_bodies code = {0};
    *m = (struct mod)MOD_INIT;
    MOD_SECTION(m, 1, "\x03\x60\x00\x01\x7f\x60\x01\x7f\x01\x7f\x60\x02\x7f\x7f\x00");
    MOD_SECTION(m, 3, "\x05\x00\x00\x01\x02\x01");
    mod_section(m, 4, table, size);
    MOD_SECTION(m, 6, "\x01\x7f\x00\x41\x05\x0b"); /* the constant 5 */
    MOD_SECTION(m, 7,
                "\x03\x04"
                "call\x00\x02\x03set\x00\x03\x04grow\x00\x04");
    mod_section(m, 9, elems->p, elems->n);
    MOD_BODY(&code, "\x00\x41\x0a");
    MOD_BODY(&code, "\x00\x41\x0b");
    MOD_BODY(&code, "\x00\x20\x00\x11\x00\x00");
    MOD_BODY(&code, "\x00\x20\x00\x20\x01\x25\x00\x26\x00");
    MOD_BODY(&code, "\x00\xd0\x70\x20\x00\xfc\x0f\x00");
    mod_bodies(m, &code);
}
#define TABLE "\x01\x70\x01\xb8\x17\xa0\x1f" /* funcref 3000..4000 */

static void large(struct mod *m)
{
    struct mod elems = {0};
    mod_byte(&elems, 2);
    add_segment(&elems, FIRST, ITEMS);
    add_segment(&elems, SECOND, ITEMS);
    with_table(m, &elems, TABLE, sizeof TABLE - 1);
}

/* --- the image -------------------------------------------------------------------------- */

TEST(a_table_of_functions_is_laid_out)
{
    struct mod m;
    struct rig r;
    large(&m);
    CHECK_INT(rig_prepare(&r, m.p, m.n, &err), 0);
    const struct dz_wasm_header *h = r.module->header;
    CHECK_INT(h->table_elems, ELEMS);
    CHECK_INT(h->total_size % DZ_WASM_PAGE_ALIGN, 0);
    CHECK_INT(h->total_size - h->image_offset, dz_wasm_table_bytes(h));
    CHECK_INT((uintptr_t)r.module->table - (uintptr_t)h, h->image_offset + h->image_size);
    for (uint32_t i = 0; i < ELEMS; i++)
        CHECK(r.module->table[i] == element(i));
    rig_close(&r);
}

static uint32_t elems_with(const struct mod *elems, const char *table, size_t size)
{
    struct mod m;
    struct rig r;
    with_table(&m, elems, table, size);
    CHECK_INT(rig_prepare(&r, m.p, m.n, &err), 0);
    uint32_t n = r.module->header->table_elems;
    rig_close(&r);
    return n;
}

TEST(other_tables_have_no_image)
{
    struct mod two = {0}, back = {0}, over = {0}, small = {0}, far = {0}, high = {0};
    mod_byte(&two, 2);
    add_segment(&two, FIRST, ITEMS);
    add_segment(&two, SECOND, ITEMS);
    CHECK_INT(elems_with(&two, TABLE, sizeof TABLE - 1), ELEMS);
    /* every element begins as a function; a table that instantiation will find too small */
    CHECK_INT(elems_with(&two, "\x01\x40\x00\x70\x00\xb8\x17\xd2\x00\x0b", 10), 0);
    CHECK_INT(elems_with(&two, "\x01\x70\x00\xa7\x14", 5), 0); /* 2599 */
    CHECK_INT(elems_with(&two, "\x01\x70\x00\xa8\x14", 5), ELEMS);
    mod_byte(&back, 2);
    add_segment(&back, SECOND, ITEMS);
    add_segment(&back, FIRST, ITEMS);
    CHECK_INT(elems_with(&back, TABLE, sizeof TABLE - 1), 0);
    mod_byte(&over, 2);
    add_segment(&over, SECOND, ITEMS);
    add_segment(&over, SECOND + ITEMS - 1, 300);
    CHECK_INT(elems_with(&over, TABLE, sizeof TABLE - 1), 0);
    mod_byte(&small, 1);
    add_segment(&small, 128, 1900);
    CHECK_INT(elems_with(&small, TABLE, sizeof TABLE - 1), 0); /* 2028 */
    mod_byte(&far, 1);
    add_segment(&far, SECOND, ITEMS);
    CHECK_INT(elems_with(&far, TABLE, sizeof TABLE - 1), 0); /* more than half is null */
    mod_byte(&high, 2);
    add_segment(&high, FIRST, 2100);
    mod_add(&high, "\x00\x23\x00\x0b\x01\x00", 6); /* at a global's value */
    CHECK_INT(elems_with(&high, TABLE, sizeof TABLE - 1), 0);
}

/* Calls go where the image points: each element is what a segment says, or null. */
TEST(a_changed_element_is_seen)
{
    struct mod m;
    struct rig r;
    large(&m);
    CHECK_INT(rig_prepare(&r, m.p, m.n, &err), 0);
    const struct dz_wasm_header *h = r.module->header;
    uint64_t *table = (uint64_t *)(void *)((uint8_t *)r.flat + h->image_offset + h->image_size);
    for (size_t i = 0; i < dz_wasm_table_bytes(h) / sizeof *table; i++)
        for (unsigned bit = 0; bit < 64; bit += 21) {
            struct dz_wasm_module *again = NULL;
            table[i] ^= UINT64_C(1) << bit;
            CHECK_INT(dz_wasm_module_open(r.flat, h->total_size, &again, &err), DZ_ECORRUPT);
            table[i] ^= UINT64_C(1) << bit;
        }
    rig_close(&r);
}

/* The checksum as it would be, had doze written it. */
static void seal(struct rig *r)
{
    struct dz_wasm_header *h = r->flat;
    h->meta_sum = 0;
    uint64_t sum = dz_wasm_sum(0, h, sizeof *h);
#define X(field, type) \
    sum = dz_wasm_sum(sum, r->module->field, r->module->n_##field * sizeof(type));
    DZ_WASM_ARRAY_MAP(X)
#undef X
    h->meta_sum = sum;
}

static int open_again(struct rig *r)
{
    struct dz_wasm_module *again = NULL;
    seal(r);
    int rc =
        dz_wasm_module_open(r->flat, ((struct dz_wasm_header *)r->flat)->total_size, &again, &err);
    dz_wasm_module_close(again);
    return rc;
}

TEST(what_the_block_says_of_its_table_is_not_believed)
{
    static const uint32_t counts[] = {1,         FIRST + ITEMS,      SECOND + 1, ELEMS - 1,
                                      ELEMS + 1, ELEMS + PAGE_ELEMS, MIN,        MIN + 1,
                                      INT32_MAX, UINT32_MAX};
    struct mod m;
    struct rig r;
    large(&m);
    CHECK_INT(rig_prepare(&r, m.p, m.n, &err), 0);
    struct dz_wasm_header *h = r.flat;
    const struct dz_wasm_module *is = r.module;
    struct dz_wasm_table *table = (struct dz_wasm_table *)(uintptr_t)is->tables;
    struct dz_wasm_elem *elem = (struct dz_wasm_elem *)(uintptr_t)is->elems;
    struct dz_wasm_const *at = (struct dz_wasm_const *)(uintptr_t)&is->consts[elem[1].offset];
    uint32_t *item = (uint32_t *)(uintptr_t)&is->elem_items[elem[1].items];
#define SAYS(what, value)                       \
    do {                                        \
        __typeof__(what) was_ = (what);         \
        (what) = (value);                       \
        CHECK_INT(open_again(&r), DZ_ECORRUPT); \
        CHECK(strstr(err.msg, "is damaged"));   \
        (what) = was_;                          \
    } while (0)
    for (size_t i = 0; i < DZ_ARRAY_LEN(counts); i++)
        SAYS(h->table_elems, counts[i]);
    SAYS(h->image_size, DZ_WASM_PAGE_ALIGN);
    SAYS(table->min, ELEMS - 1);
    SAYS(table->type, DZ_WASM_EXTERNREF);
    SAYS(elem[1].mode, DZ_WASM_PASSIVE);
    SAYS(at->bits[0], SECOND + 1);
    SAYS(at->bits[0], SECOND - ITEMS);
    SAYS(at->bits[0], UINT32_MAX);
    SAYS(*item, ELEVEN);
    SAYS(*item, DZ_WASM_ITEM_NULL);
    CHECK_INT(open_again(&r), 0);
    h->table_elems = 0; /* as blocks of before say */
    CHECK_INT(open_again(&r), 0);
    CHECK_INT(rig_instantiate(&r, NULL, NULL, 0, &err), 0);
    for (uint32_t i = 0; i < MIN; i++)
        CHECK(r.inst->tables[0]->elem[i] == element(i));
    CHECK_INT(r.inst->tables[0]->shared, 0);
    rig_close(&r);
}

/* --- shared pages -------------------------------------------------------------------------- */

/* The prepared module as a file that processes map, as a cell does. */
static struct {
    int fd, prot, mapped;
    uint8_t *flat;
    size_t size;
} file;

static int map_from_file(void *ctx, void *at, uint32_t index, const uint8_t *image, size_t size,
                         struct dz_err *e)
{
    (void)ctx, (void)e;
    CHECK_INT(index, DZ_WASM_NONE);
    file.mapped++;
    void *p = mmap(at, size, file.prot, MAP_PRIVATE | MAP_FIXED, file.fd, image - file.flat);
    return p == at ? 0 : DZ_ENOMEM;
}

static struct dz_wasm_mem_ops ops;

static struct rig open_file(int prot)
{
    struct mod m;
    struct rig r;
    void *flat;
    large(&m);
    CHECK_INT(dz_wasm_prepare_alloc(m.p, m.n, DZ_WASM_F_ALL, &flat, &file.size, &err), 0);
    file.fd = memfd_create("module", MFD_CLOEXEC);
    CHECK_INT(write(file.fd, flat, file.size), file.size);
    dz_free(flat);
    file.flat = mmap(NULL, file.size, PROT_READ, MAP_SHARED, file.fd, 0);
    CHECK(file.flat != MAP_FAILED);
    file.prot = prot;
    file.mapped = 0;
    ops = dz_wasm_mem_anon;
    ops.map_image = map_from_file;
    r = (struct rig){0};
    CHECK_INT(dz_wasm_module_open(file.flat, file.size, &r.module, &err), 0);
    return r;
}

static void close_file(struct rig *r)
{
    dz_wasm_store_free(r->store);
    dz_wasm_module_close(r->module);
    (void)munmap(file.flat, file.size);
    (void)close(file.fd);
}

static struct dz_wasm_config config(int way)
{
    struct dz_wasm_config c = rig_way(way);
    c.mem_ops = &ops;
    return c;
}

static struct rig another(const struct rig *first, int way)
{
    struct dz_wasm_config c = config(way);
    struct rig r = {.module = first->module};
    CHECK_INT(rig_instantiate(&r, &c, NULL, 0, &err), 0);
    return r;
}

static uint64_t call(struct rig *r, const char *name, uint64_t a, uint64_t b)
{
    const uint64_t args[] = {a, b};
    CHECK_INT(rig_call(r, name, args, strcmp(name, "set") == 0 ? 2 : 1), 0);
    CHECK_INT(dz_wasm_run(r->store), DZ_WASM_DONE);
    return dz_wasm_results(r->store)[0];
}

static struct rig copy_of(struct rig *r)
{
    const struct dz_wasm_copy how = {0};
    struct dz_wasm_inst *inst;
    CHECK_INT(dz_wasm_copy(r->inst, &how, &inst, &err), 0);
    return (struct rig){.store = dz_wasm_inst_store(inst), .inst = inst};
}

/* The mapping cannot be written here: whoever tried would end the test. */
TEST(who_only_calls_writes_nothing)
{
    for (int way = 0; way < RIG_WAYS; way++) {
        struct rig r = open_file(PROT_READ);
        struct rig a = another(&r, way), b = another(&r, way);
        CHECK_INT(call(&a, "call", FIRST, 0), 10);
        CHECK_INT(call(&a, "call", ELEMS - 1, 0), 11);
        CHECK_INT(rig_save(&a, &tape, &err), 0);
        CHECK_INT(rig_load(&b, &tape, &err), 0);
        struct rig c = copy_of(&b);
        CHECK_INT(call(&c, "call", SECOND, 0), 10);
        CHECK_INT(file.mapped, 3);
        rig_close(&a);
        rig_close(&b);
        rig_close(&c);
        close_file(&r);
    }
}

TEST(who_changes_the_table_changes_his_own)
{
    uint8_t before[DZ_SHA256_BYTES], after[DZ_SHA256_BYTES];
    for (int way = 0; way < RIG_WAYS; way++) {
        struct rig r = open_file(PROT_READ | PROT_WRITE);
        CHECK_INT(dz_sha256(file.flat, file.size, before, &err), 0);
        struct rig a = another(&r, way), b = another(&r, way);
        (void)call(&a, "set", FIRST, FIRST + 1);
        CHECK_INT(call(&a, "call", FIRST, 0), 11);
        CHECK_INT(call(&b, "call", FIRST, 0), 10);
        CHECK_INT(call(&a, "grow", 100, 0), MIN);
        (void)call(&a, "set", MIN + 99, FIRST + 1);
        (void)call(&a, "set", ELEMS + 7, FIRST + 1); /* on the image's last page, behind it */
        struct rig c = copy_of(&a);
        (void)call(&c, "set", SECOND, SECOND + 1);
        CHECK_INT(call(&c, "call", FIRST, 0), 11);
        CHECK_INT(call(&c, "call", MIN + 99, 0), 11);
        CHECK_INT(call(&c, "call", ELEMS + 7, 0), 11);
        CHECK_INT(call(&a, "call", SECOND, 0), 10);
        CHECK_INT(dz_sha256(file.flat, file.size, after, &err), 0);
        CHECK(memcmp(before, after, sizeof before) == 0);
        rig_close(&a);
        rig_close(&b);
        rig_close(&c);
        close_file(&r);
    }
}

/* Asleep and awake elsewhere: only the pages that differ are written there. */
TEST(a_state_brings_what_was_changed)
{
    for (int way = 0; way < RIG_WAYS; way++) {
        struct rig r = open_file(PROT_READ | PROT_WRITE);
        struct rig a = another(&r, way);
        (void)call(&a, "set", FIRST, FIRST + 1);
        CHECK_INT(call(&a, "grow", 100, 0), MIN);
        (void)call(&a, "set", MIN + 99, FIRST + 1);
        CHECK_INT(rig_save(&a, &tape, &err), 0);
        file.prot = PROT_READ;
        struct rig b = another(&r, (way + 1) % RIG_WAYS);
        CHECK_INT(mprotect(b.inst->tables[0]->elem, DZ_WASM_PAGE_ALIGN, PROT_READ | PROT_WRITE), 0);
        CHECK_INT(rig_load(&b, &tape, &err), 0);
        CHECK_INT(call(&b, "call", FIRST, 0), 11);
        CHECK_INT(call(&b, "call", SECOND, 0), 10);
        CHECK_INT(call(&b, "call", MIN + 99, 0), 11);
        CHECK_INT(b.inst->tables[0]->size, MIN + 100);
        rig_close(&a);
        rig_close(&b);
        close_file(&r);
    }
}

/* A reference names its instance; the image's are those of the first in a store. */
TEST(a_second_instance_of_a_store_fills_its_own)
{
    struct rig r = open_file(PROT_READ);
    struct rig a = another(&r, 0), b = a;
    CHECK_INT(dz_wasm_instantiate(a.store, r.module, NULL, &b.inst, &err), 0);
    CHECK_INT(file.mapped, 1);
    CHECK(b.inst->tables[0]->elem[FIRST] != a.inst->tables[0]->elem[FIRST]);
    CHECK_INT(call(&b, "call", FIRST + 1, 0), 11);
    rig_close(&a);
    close_file(&r);
}

/* --- what it costs -------------------------------------------------------------------------- */

/* Bytes that this process may write to: the system limits them, touched or not. */
static size_t writable(void)
{
    char line[128];
    size_t kb = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f))
        (void)sscanf(line, "VmData: %zu kB", &kb);
    if (f)
        (void)fclose(f);
    return kb << 10;
}

static void growable(struct mod *m)
{
    struct mod elems = {0};
    mod_byte(&elems, 2);
    add_segment(&elems, FIRST, ITEMS);
    add_segment(&elems, SECOND, ITEMS);
    with_table(m, &elems, "\x01\x70\x00\xb8\x17", 5);
}

TEST(a_table_that_may_grow_takes_what_it_has)
{
    enum {
        MORE = 200000,
    };
    struct mod m;
    struct rig r;
    growable(&m);
    CHECK_INT(rig_prepare(&r, m.p, m.n, &err), 0);
    size_t before = writable();
    CHECK(before > 0);
    const struct dz_wasm_config cfg = rig_way(1);
    CHECK_INT(rig_instantiate(&r, &cfg, NULL, 0, &err), 0);
    CHECK_INT(r.module->header->table_elems, ELEMS);
    CHECK(writable() - before < (size_t)DZ_WASM_TABLE_MAX * sizeof(uint64_t) / 4);
    for (uint32_t n = 0; n < MORE; n += 1000)
        CHECK_INT(call(&r, "grow", 1000, 0), MIN + n);
    (void)call(&r, "set", MIN + MORE - 1, FIRST);
    CHECK_INT(call(&r, "call", MIN + MORE - 1, 0), 10);
    CHECK_INT(call(&r, "call", ELEMS - 1, 0), 11);
    CHECK(r.inst->tables[0]->elem[MIN + MORE - 2] == 0);
    CHECK_INT(call(&r, "grow", DZ_WASM_TABLE_MAX, 0), UINT32_MAX);
    CHECK_INT(call(&r, "grow", DZ_WASM_TABLE_MAX - MIN - MORE, 0), MIN + MORE);
    CHECK_INT(call(&r, "grow", 1, 0), UINT32_MAX);
    (void)call(&r, "set", DZ_WASM_TABLE_MAX - 1, FIRST);
    CHECK_INT(call(&r, "call", DZ_WASM_TABLE_MAX - 1, 0), 10);
    rig_close(&r);
}

static uint64_t counted, most;

static int count_tables(void *ctx, uint64_t old, uint64_t size)
{
    (void)ctx;
    CHECK_INT(old, counted);
    if (size > most)
        return DZ_ELIMIT;
    counted = size;
    return 0;
}

TEST(tables_are_counted)
{
    struct mod m;
    struct rig r, again;
    growable(&m);
    CHECK_INT(rig_prepare(&r, m.p, m.n, &err), 0);
    again = r;
    ops = dz_wasm_mem_anon;
    ops.tables = count_tables;
    const struct dz_wasm_config cfg = config(1);
    most = MIN * sizeof(uint64_t) - 1;
    counted = 0;
    CHECK_INT(rig_instantiate(&r, &cfg, NULL, 0, &err), DZ_ENOMEM);
    dz_wasm_store_free(r.store);
    most = (MIN + 100) * sizeof(uint64_t);
    CHECK_INT(rig_instantiate(&again, &cfg, NULL, 0, &err), 0);
    CHECK_INT(counted, MIN * sizeof(uint64_t));
    CHECK_INT(call(&again, "grow", 101, 0), UINT32_MAX);
    CHECK_INT(call(&again, "grow", 100, 0), MIN);
    CHECK_INT(call(&again, "grow", 1, 0), UINT32_MAX);
    CHECK_INT(counted, most);
    counted = 0; /* of the copy */
    struct rig c = copy_of(&again);
    CHECK_INT(counted, most);
    CHECK_INT(call(&c, "call", FIRST, 0), 10);
    rig_close(&c);
    rig_close(&again);
}

TORTURE(a_table_without_memory)
{
    struct mod m;
    struct rig r;
    large(&m);
    if (rig_prepare(&r, m.p, m.n, &err) == 0 && rig_instantiate(&r, NULL, NULL, 0, &err) == 0)
        CHECK(r.inst->tables[0]->elem[FIRST] == 1);
    rig_close(&r);
}

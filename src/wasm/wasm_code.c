/* SPDX-License-Identifier: MIT
 *
 * wasm_code.c - the arena of translated code that belongs to a module.
 *
 * Reserved once and never moved, so that cells may point to each other and a
 * record can say "word 1234". Functions are appended when first called and
 * never removed; ranges stay in order of address. A module has one arena for
 * each combination of options that make different cells (dispatch, fuel,
 * limit of depth, wide frames), normally one.
 *
 *     arena   [ HALT RESUME XRET ][ f's cells ][ host h ][ g's cells ] -> used   ... committed ...
 * reserved ranges                       f            h         g
 *
 * Invariants (assert_code, where a function is added):
 *   1. The ranges follow each other without a gap, from WASM_CELL_FIRST to `used`.
 *   2. Each range belongs to another function, whose entry is its first word.
 *   3. A catch clause lies within the range of its function.
 */
#include "wasm/wasm_code.h"

#include <assert.h>

#include "base/mem.h"
#include "base/vm.h"

enum {
    ARENA_STEP = 1 << 18,     /* bytes committed at a time */
    ARENA_LARGE = 16 << 20,   /* from here on huge pages, which waste a few percent at most */
    ARENA_PER_BYTE = 32,      /* bytes of cells that a byte of code makes at most */
    WARM_WORDS_MAX = 8 << 20, /* of an arena: nothing more is translated ahead of time */
    ASSERT_RANGES = 256,      /* ranges that assert_code() walks; of more the last alone */
    LAZY_MAX = 1 << 20,       /* lazy calls that are remembered while warming */
};
static const size_t arena_default = (size_t)8 << 30;

static void points_release(struct wasm_points *p)
{
    for (uint32_t i = 0; i < p->cap; i++)
        dz_free(p->rows[i].points);
    dz_free(p->rows);
    p->rows = NULL;
    p->count = p->cap = 0;
}

static void code_free(struct dz_wasm_code *c)
{
    while (c) {
        struct dz_wasm_code *next = c->next;
        if (c->arena)
            dz_wasm_mem_anon.release(NULL, c->arena, c->reserved_bytes);
        dz_free(c->funcs);
        dz_free(c->ranges);
        dz_free(c->catches);
        dz_free(c->hosts);
        dz_vec_release(&c->lazy);
        dz_wasm_trans_free(c->trans);
        points_release(&c->points);
        dz_free(c);
        c = next;
    }
}

/* The arena's size, rounded up to the end of the huge page of byte want - 1. */
static size_t huge_end(const struct dz_wasm_code *c, size_t want)
{
    size_t rest = ((uintptr_t)c->arena + want) % DZ_VM_HUGE;
    size_t end = want + (rest ? DZ_VM_HUGE - rest : 0);
    return end < c->reserved_bytes ? end : c->reserved_bytes;
}

/* Room for `words` more. */
static bool arena_room(struct dz_wasm_code *c, uint32_t words)
{
    size_t want = ((size_t)c->used + words) * sizeof(wasm_word);
    if (want <= c->committed_bytes)
        return true;
    want = (want + ARENA_STEP - 1) / ARENA_STEP * ARENA_STEP;
    if (want > c->reserved_bytes)
        return false;
    bool large = want > ARENA_LARGE;
    if (large)
        want = huge_end(c, want);
    if (dz_wasm_mem_anon.commit(NULL, c->arena, c->committed_bytes, want, NULL) < 0)
        return false;
    char *at = (char *)c->arena + c->committed_bytes;
    if (large)
        dz_vm_huge(at, want - c->committed_bytes);
    if (c->committed_bytes != 0) /* a large program, which will need the pages */
        dz_vm_populate(at, want - c->committed_bytes);
    c->committed_bytes = want;
    return true;
}

static wasm_word handler_word(const struct dz_wasm_code *c, unsigned handler)
{
    return c->by_index ? handler : c->handlers[handler];
}

static int code_init(struct dz_wasm_code *c, size_t limit, struct dz_err *err)
{
    size_t want = c->module->wasm_size * ARENA_PER_BYTE + ARENA_STEP;
    if (want > limit)
        want = limit;
    c->reserved_bytes = (want + ARENA_STEP - 1) / ARENA_STEP * ARENA_STEP;
    c->funcs = dz_zalloc((size_t)(c->module->n_funcs + 1) * sizeof *c->funcs);
    c->trans = dz_wasm_trans_new();
    if (!c->funcs || !c->trans)
        return dz_fail(err, DZ_ENOMEM, "no memory for the code of a module");
    void *base;
    int rc = dz_wasm_mem_anon.reserve(NULL, c->reserved_bytes, &base, err);
    if (rc < 0)
        return rc;
    c->arena = base;
    if (!arena_room(c, WASM_CELL_FIRST))
        return dz_fail(err, DZ_ENOMEM, "no memory for the code of a module");
    c->arena[WASM_CELL_HALT] = handler_word(c, H_HALT);
    c->arena[WASM_CELL_RESUME] = handler_word(c, H_RESUME);
    c->arena[WASM_CELL_XRET] = handler_word(c, H_XRET);
    c->used = WASM_CELL_FIRST;
    return 0;
}

struct dz_wasm_code *dz_wasm_code_get(struct dz_wasm_module *m, const struct dz_wasm_config *cfg,
                                      struct dz_err *err)
{
    const wasm_word *handlers =
        cfg->dispatch == DZ_WASM_DISPATCH_SWITCH ? NULL : dz_wasm_exec_goto_handlers();
    for (struct dz_wasm_code *c = m->code; c; c = c->next)
        if (c->handlers == handlers && c->fuel == cfg->fuel && c->wide == cfg->wide_frames &&
            c->depth == (cfg->call_depth != 0))
            return c;
    struct dz_wasm_code *c = dz_zalloc(sizeof *c);
    if (!c) {
        (void)dz_fail(err, DZ_ENOMEM, "no memory for the code of a module");
        return NULL;
    }
    c->module = m;
    c->handlers = handlers;
    c->by_index = handlers == NULL;
    c->fuel = cfg->fuel;
    c->depth = cfg->call_depth != 0;
    c->wide = cfg->wide_frames;
    if (code_init(c, cfg->code_max ? cfg->code_max : arena_default, err) < 0) {
        code_free(c);
        return NULL;
    }
    c->next = m->code;
    m->code = c;
    m->code_free = code_free;
    return c;
}

/* --- translating ------------------------------------------------------------------------ */

static bool grow(void *pp, uint32_t *cap, uint32_t want, size_t size)
{
    if (want <= *cap)
        return true;
    uint32_t n = *cap < 16 ? 16 : *cap * 2;
    if (n < want)
        n = want;
    void *p = NULL;
    memcpy(&p, pp, sizeof p);
    void *q = dz_realloc(p, n * size);
    if (!q)
        return false;
    memcpy(pp, &q, sizeof q);
    *cap = n;
    return true;
}

/* The invariants for the last range; in deep builds 1 for all. */
static void assert_code(const struct dz_wasm_code *c)
{
    const struct wasm_range *last = &c->ranges[c->range_count - 1];
    assert(last->end == c->used && c->used * sizeof *c->arena <= c->committed_bytes);
    assert(c->funcs[last->func].entry == c->arena + last->start);
    for (uint32_t i = 0; i < last->catch_count; i++) {
        const struct wasm_catch *k = &c->catches[last->catch_first + i];
        assert(k->start >= last->start && k->start <= k->end && k->end <= last->end);
        assert(k->target >= last->start && k->target <= last->end);
    }
    for (uint32_t i = 0; DZ_CHECK_DEEP && c->range_count <= ASSERT_RANGES && i < c->range_count;
         i++)
        assert(c->ranges[i].start == (i ? c->ranges[i - 1].end : WASM_CELL_FIRST));
}

/* An import's code is one cell. */
static enum dz_wasm_trap_kind make_import(struct dz_wasm_code *c, uint32_t func, uint32_t rec)
{
    if (!grow(&c->ranges, &c->range_cap, c->range_count + 1, sizeof *c->ranges))
        return DZ_WASM_TRAP_NOMEM;
    if (!arena_room(c, 2))
        return DZ_WASM_TRAP_CODE_LIMIT;
    uint32_t at = c->used;
    c->arena[at] = handler_word(c, H_HOST);
    c->arena[at + 1] = dz_trans_imm(rec, 0, func);
    c->ranges[c->range_count++] = (struct wasm_range){at, at + 2, func, 0, 0};
    c->used += 2;
    c->funcs[func].entry = c->arena + at;
    assert_code(c);
    return DZ_WASM_TRAP_NONE;
}

/* Turn a lazy call into a direct one if its callee is translated. */
static bool link_call(const struct dz_wasm_code *c, wasm_word *cell)
{
    uint32_t func = wasm_imm(cell);
    bool import = func < c->module->header->n_imported[DZ_WASM_KIND_FUNC];
    if (!c->funcs[func].entry)
        return false;
    cell[0] = handler_word(c, import ? H_CALL_HOST : H_CALL);
    cell[2] = (wasm_word)(uintptr_t)c->funcs[func].entry;
    return true;
}

/* Replace numbers by addresses, in the translator's memory, before the words go to word `at` of the
 * arena. Calls of functions that are translated already are linked now: resolving them at their
 * first call would write to a page that forked processes share. */
static void finish_cells(struct dz_wasm_code *c, uint32_t at)
{
    const struct wasm_trans *t = c->trans;
    for (uint32_t i = 0; i < t->cell_count; i++) {
        wasm_word *w = &t->words[t->cells[i].word];
        wasm_word handler = *w;
        if (!c->by_index)
            *w = c->handlers[handler];
        if (handler == H_CALL_LAZY && !link_call(c, w) && c->warming)
            dz_vec_push(&c->lazy, at + t->cells[i].word);
    }
}

/* Put what the translator made into the arena. */
static enum dz_wasm_trap_kind commit(struct dz_wasm_code *c, uint32_t func)
{
    const struct wasm_trans *t = c->trans;
    if (!grow(&c->ranges, &c->range_cap, c->range_count + 1, sizeof *c->ranges) ||
        !grow(&c->catches, &c->catch_cap, c->catch_count + t->catch_count, sizeof *c->catches))
        return DZ_WASM_TRAP_NOMEM;
    if (!arena_room(c, t->count) || t->count > UINT32_MAX - c->used)
        return DZ_WASM_TRAP_CODE_LIMIT;
    uint32_t at = c->used;
    c->ranges[c->range_count++] =
        (struct wasm_range){at, at + t->count, func, c->catch_count, t->catch_count};
    for (uint32_t i = 0; i < t->catch_count; i++) {
        struct wasm_catch k = t->catches[i];
        k.start += at;
        k.end += at;
        k.target += at;
        c->catches[c->catch_count++] = k;
    }
    c->used += t->count;
    c->funcs[func].entry = c->arena + at;
    finish_cells(c, at); /* calls of itself too */
    memcpy(c->arena + at, t->words, t->count * sizeof *t->words);
    assert_code(c);
    return DZ_WASM_TRAP_NONE;
}

enum dz_wasm_trap_kind dz_wasm_code_translate(struct dz_wasm_code *c, uint32_t func)
{
    struct wasm_func *f = &c->funcs[func];
    if (f->entry)
        return DZ_WASM_TRAP_NONE;
    const struct dz_wasm_type *y = &c->module->types[c->module->funcs[func].type];
    f->type = y->canon;
    f->rec = wasm_rec(y->param_slots, y->result_slots);
    if (func < c->module->header->n_imported[DZ_WASM_KIND_FUNC])
        return make_import(c, func, f->rec);
    c->trans->mapping = false;
    if (!dz_wasm_trans_function(c->trans, c, func))
        return c->trans->trap;
    enum dz_wasm_trap_kind trap = commit(c, func);
    dz_wasm_trans_trim(c->trans);
    return trap;
}

/* --- safepoints ------------------------------------------------------------------------ */

/* Translate once more for the tables of cells and safepoints, which are valid until the next
 * translation. NULL: a limit or no memory. */
static const struct wasm_trans *translate_again(struct dz_wasm_code *c, uint32_t func)
{
    c->trans->mapping = true;
    return dz_wasm_trans_function(c->trans, c, func) ? c->trans : NULL;
}

enum {
    ROWS_FIRST = 16,
};

static struct wasm_points_row *row_at(struct wasm_points_row *rows, uint32_t cap, uint32_t func)
{
    uint32_t i = func * UINT32_C(2654435761) & (cap - 1);
    while (rows[i].points && rows[i].func != func)
        i = (i + 1) & (cap - 1);
    return &rows[i];
}

/* Room for one more row. A full table is emptied; its rows are made again on demand. */
static bool points_room(struct wasm_points *p)
{
    if (p->count == WASM_POINTS_ROWS)
        points_release(p);
    if (p->count * 2 < p->cap)
        return true;
    uint32_t cap = p->cap ? p->cap * 2 : ROWS_FIRST;
    struct wasm_points_row *rows = dz_zalloc(cap * sizeof *rows);
    if (!rows)
        return false;
    for (uint32_t i = 0; i < p->cap; i++)
        if (p->rows[i].points)
            *row_at(rows, cap, p->rows[i].func) = p->rows[i];
    dz_free(p->rows);
    p->rows = rows;
    p->cap = cap;
    return true;
}

const struct wasm_points_row *dz_wasm_points_of(struct dz_wasm_code *c, uint32_t func)
{
    struct wasm_points *p = &c->points;
    struct wasm_points_row *r = p->cap ? row_at(p->rows, p->cap, func) : NULL;
    if (r && r->points)
        return r;
    if (!points_room(p))
        return NULL;
    r = row_at(p->rows, p->cap, func);
    const struct wasm_trans *map = translate_again(c, func);
    struct wasm_point *points = map ? dz_alloc((map->point_count + 1) * sizeof *points) : NULL;
    if (!points)
        return NULL;
    memcpy(points, map->points, map->point_count * sizeof *points);
    *r = (struct wasm_points_row){func, map->point_count & INT32_MAX, 0, points};
    p->count++;
    return r;
}

/* The point of the row at this word or offset, a return point or another. */
static const struct wasm_point *find_point(const struct wasm_points_row *r, bool by_offset,
                                           uint32_t key, bool after)
{
    uint32_t low = 0;
    uint32_t high = r->count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if ((by_offset ? r->points[mid].offset : r->points[mid].word) < key)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < r->count; low++) {
        const struct wasm_point *p = &r->points[low];
        if ((by_offset ? p->offset : p->word) != key)
            return NULL;
        if ((p->kind == POINT_RETURN) == after)
            return p;
    }
    return NULL;
}

const struct wasm_point *dz_wasm_points_word(const struct wasm_points_row *r, uint32_t word,
                                             bool after)
{
    return find_point(r, false, word, after);
}

const struct wasm_point *dz_wasm_points_offset(const struct wasm_points_row *r, uint32_t offset,
                                               bool after)
{
    return find_point(r, true, offset, after);
}

/* --- ahead, for those who are forked ------------------------------------------------------ */

static void warm_points(struct dz_wasm_code *c, uint32_t func)
{
    if (func >= c->module->header->n_imported[DZ_WASM_KIND_FUNC] &&
        c->points.count < WASM_POINTS_ROWS - 1)
        (void)dz_wasm_points_of(c, func);
}

void dz_wasm_warm(struct dz_wasm_module *module, const uint32_t *funcs, size_t count)
{
    const struct dz_wasm_config cfg = {0};
    struct dz_wasm_code *c = dz_wasm_code_get(module, &cfg, NULL);
    if (!c)
        return;
    c->warming = true;
    c->lazy.max = LAZY_MAX;
    for (size_t i = 0; i < count && c->used < WARM_WORDS_MAX; i++) {
        uint32_t func = funcs[i] & ~DZ_WASM_WARM_POINTS;
        if (func < module->n_funcs && !(funcs[i] & DZ_WASM_WARM_POINTS))
            (void)dz_wasm_code_translate(c, func);
        else if (func < module->n_funcs)
            warm_points(c, func);
    }
    size_t left = 0;
    for (size_t i = 0; i < c->lazy.n; i++)
        if (!link_call(c, c->arena + c->lazy.p[i]))
            c->lazy.p[left++] = c->lazy.p[i];
    c->lazy.n = left;
    c->warming = false;
    c->range_told = c->range_count;
    for (uint32_t i = 0; i < c->points.cap; i++)
        c->points.rows[i].told = 1;
}

size_t dz_wasm_fresh(const struct dz_wasm_module *module)
{
    const struct dz_wasm_code *c = module->code;
    size_t n = c ? c->range_count - c->range_told : 0;
    for (uint32_t i = 0; c && i < c->points.cap; i++)
        n += c->points.rows[i].points && !c->points.rows[i].told;
    return n;
}

size_t dz_wasm_tell(struct dz_wasm_module *module, uint32_t *funcs, size_t max)
{
    struct dz_wasm_code *c = module->code;
    size_t n = 0;
    while (c && n < max && c->range_told < c->range_count)
        funcs[n++] = c->ranges[c->range_told++].func;
    for (uint32_t i = 0; c && n < max && i < c->points.cap; i++) {
        struct wasm_points_row *r = &c->points.rows[i];
        if (r->points && !r->told)
            funcs[n++] = r->func | DZ_WASM_WARM_POINTS;
        r->told |= r->points != NULL;
    }
    return n;
}

/* --- back from cells to the program -------------------------------------------------------- */

const struct wasm_range *dz_wasm_code_range(const struct dz_wasm_code *c, uint32_t word)
{
    uint32_t low = 0;
    uint32_t high = c->range_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (c->ranges[mid].end <= word)
            low = mid + 1;
        else
            high = mid;
    }
    if (low < c->range_count && c->ranges[low].start <= word)
        return &c->ranges[low];
    return NULL;
}

uint32_t dz_wasm_code_offset(struct dz_wasm_code *c, uint32_t word)
{
    const struct wasm_range *r = dz_wasm_code_range(c, word);
    if (!r || r->func < c->module->header->n_imported[DZ_WASM_KIND_FUNC])
        return 0;
    word -= r->start;
    const struct wasm_trans *map = translate_again(c, r->func);
    if (!map)
        return c->module->funcs[r->func].code;
    uint32_t low = 0; /* the last cell that starts at or before word */
    uint32_t high = map->cell_count;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (map->cells[mid].word <= word)
            low = mid;
        else
            high = mid;
    }
    return map->cells[low].offset;
}

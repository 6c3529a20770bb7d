/* SPDX-License-Identifier: MIT
 *
 * machine_mem.c - a sleep writes linear memories as rows of mem: packed runs of pages.
 *
 * Each sleep appends a generation: rows of DZ_MEM_ROW_FEW or _MANY pages, those that changed
 * since the generation before. The newest row that names a page has its content; a page that no
 * row names is as its base. For each page we remember that row (its home), for each row the
 * number of pages that have it as home (live). A row without live pages is deleted; when more
 * than half of all entries are garbage, the rows with the most garbage are emptied into the new
 * generation and deleted.
 *
 *     row = head | runs | bytes of the pages, run after run
 *
 * A page that equals its base again, while an older row names it, is written as a run without
 * bytes.
 *
 * Packing takes longer than writing the bytes that it saves. So only pages that are likely to
 * stay are packed: pages that are new in the file, and live pages of a row that is emptied, at
 * most DZ_MEM_PACK_PAGES in one sleep. A page that was written before and has changed will
 * change again, so it is written as it is, unless the whole sleep writes at most DZ_MEM_TINY.
 *
 *     page     0   1   2   3   4   5            row 1: pages 1 2 3     live 1
 *     home     -   2   2   1   -   2            row 2: pages 1 2 5     live 3
 *
 * Invariants (dz_mem_assert, after a wake and after each commit of a sleep):
 *   1. A row's live count is the number of pages that have it as home, and at most its pages; a
 *      deleted row has none.
 *   2. `missing` is the number of missing pages of all memories.
 *   3. Homes and live counts are those of the committed file: a sleep works on copies, which
 *      dz_machine_mem_done() puts in their place. No assertion reads the file again; each wake
 *      counts anew what its rows name (machine_map.c).
 */
#include "machine/machine_mem.h"

#include "base/mem.h"
#include "wasm/wasm.h"

#include <assert.h>
#include <string.h>

/* --- the base of a memory ---------------------------------------------------------------- */

/* Which base does a new memory get? A machine that was woken from its image has, for each memory,
 * the pages that differ from the image's. A forked process has nearly the pages of its parent, also
 * when the parent has ended; a process that merely runs the same program shares few of them. So
 * ancestry does not decide. A new memory is compared with those memories of the image that others
 * have as base, and the one that leaves the fewest pages to write becomes its base. */

#define PAGE ((size_t)DZ_MACHINE_PAGE)

enum {
    WORTH_IT = 64,  /* below this many pages to write, as in a shell, no better base is searched */
    CANDIDATES = 4, /* memories of the image that a memory is compared with */
};

static size_t pages_of(const struct dz_machine_runs *runs)
{
    size_t n = 0;
    for (size_t i = 0; i < runs->n; i++)
        n += runs->p[i].size / PAGE;
    return n;
}

/* Add a dirty page. Pages come in ascending order. */
static void add_run(struct dz_machine_runs *runs, size_t at)
{
    assert(runs->n == 0 || runs->p);
    struct dz_machine_run *last = runs->n ? &runs->p[runs->n - 1] : NULL;
    if (last && last->at + last->size == at)
        last->size += PAGE;
    else
        dz_vec_push(runs, ((struct dz_machine_run){at, PAGE}));
}

/* Collect the pages that differ from `base`. Beyond its end both bases are zeros, so there the
 * differing pages are those that differ from the module's memory; `own` lists them. */
static void differ(const struct dz_space *s, const struct dz_space *base,
                   const struct dz_machine_runs *own, struct dz_machine_runs *ret)
{
    for (size_t at = 0; at < base->base_size; at += PAGE)
        if (memcmp(s->range.at + at, base->base + at, PAGE) != 0)
            add_run(ret, at);
    for (size_t i = 0; i < own->n; i++)
        for (size_t at = own->p[i].at, n = own->p[i].size; n; n -= PAGE, at += PAGE)
            if (at >= base->base_size)
                add_run(ret, at);
}

static bool fits(const struct dz_space *s, const struct dz_space *base)
{
    return base->base && base->base != s->base && base->s.memory == s->s.memory &&
           base->base_size <= s->range.size &&
           base->base_size >= s->range.image_at + s->range.image_size;
}

static void rebase(struct dz_space *s, const struct dz_space *base)
{
    s->base = base->base;
    s->base_size = base->base_size;
    s->s.base = DZ_MACHINE_BASE_IMAGE;
    s->s.base_space = base->s.base_space;
    s->range.image = base->base;
    s->range.image_at = 0;
    s->range.image_size = base->base_size;
    s->apart = true;
}

static bool had_before(const struct dz_mem *mem, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (mem->spaces.p[k].base == mem->spaces.p[i].base)
            return true;
    return false;
}

/* The base of s is its module's memory, and `runs` are the pages that differ from it. If a memory
 * of the image leaves fewer pages, make that the base, and `runs` the pages that differ from that.
 */
static void choose_base(const struct dz_machine *m, struct dz_space *s,
                        struct dz_machine_runs *runs)
{
    const struct dz_space *best = NULL;
    struct dz_machine_runs own = *runs;
    int tried = 0;
    if (own.err || pages_of(&own) < WORTH_IT)
        return;
    for (size_t i = 0; i < m->mem.spaces.n && tried < CANDIDATES; i++) {
        const struct dz_space *base = &m->mem.spaces.p[i];
        struct dz_machine_runs with = {.max = DZ_MACHINE_RUNS_MAX};
        if (!fits(s, base) || had_before(&m->mem, i))
            continue;
        tried++;
        differ(s, base, &own, &with);
        if (with.err || pages_of(&with) >= pages_of(runs)) {
            dz_vec_release(&with);
            continue;
        }
        if (best)
            dz_vec_release(runs);
        *runs = with;
        best = base;
    }
    if (!best)
        return;
    dz_vec_release(&own);
    rebase(s, best);
}

/* --- the tables of spaces and rows ------------------------------------------------------- */

#define MOVED UINT32_MAX /* in a plan: the home of an unchanged page that is written again */

_Static_assert(DZ_MACHINE_ROWS_MAX < MOVED, "no page has this home");

static void forget_space(const struct dz_machine *m, struct dz_space *s)
{
    if (s->marked && m->ops->unmark)
        m->ops->unmark(m->ops->arg, s->range.at);
    dz_free(s->home);
    dz_free(s->page_state);
}

void dz_machine_mem_release(struct dz_machine *m)
{
    dz_mem_unwatch(m);
    for (size_t i = 0; i < m->mem.spaces.n; i++)
        forget_space(m, &m->mem.spaces.p[i]);
    dz_vec_release(&m->mem.spaces);
    dz_vec_release(&m->mem.rows);
    dz_native_release(&m->native);
}

struct dz_space *dz_mem_space(struct dz_mem *mem, uint64_t id)
{
    for (size_t i = 0; i < mem->spaces.n; i++)
        if (mem->spaces.p[i].s.id == id)
            return &mem->spaces.p[i];
    return NULL;
}

/* --- pages and their base ------------------------------------------------------------ */

bool dz_mem_is_base(const struct dz_machine_range *r, size_t at)
{
    if (at >= r->image_at && at - r->image_at < r->image_size)
        return memcmp(r->at + at, r->image + (at - r->image_at), PAGE) == 0;
    return dz_mem_is_zero(r->at + at, PAGE);
}

void dz_mem_to_base(const struct dz_machine_range *r, size_t at)
{
    if (at >= r->image_at && at - r->image_at < r->image_size)
        memcpy(r->at + at, r->image + (at - r->image_at), PAGE);
    else
        memset(r->at + at, 0, PAGE);
}

void dz_mem_set_range(struct dz_space *s, struct dz_wasm_inst *inst)
{
    const struct dz_wasm_header *h = dz_wasm_inst_module(inst)->header;
    uint32_t memory = s->s.memory;
    uint64_t size = dz_wasm_mem_size(inst, memory);
    struct dz_machine_range r = {.at = dz_wasm_mem_base(inst, memory), .size = (size_t)size};
    if (s->base) {
        r.image = s->base;
        r.image_size = s->base_size;
    } else if (memory == 0 && h->image_size) {
        r.image = dz_wasm_inst_module(inst)->image;
        r.image_at = (size_t)h->image_at;
        r.image_size = (size_t)h->image_size;
    }
    s->range = r;
}

int dz_mem_grow_homes(struct dz_space *s, struct dz_err *err)
{
    size_t n = s->range.size / PAGE;
    if (n <= s->homes)
        return 0;
    uint32_t *p = dz_realloc(s->home, n * sizeof *p);
    if (!p)
        return dz_fail(err, DZ_ENOMEM, "no memory to keep track of %zu pages", n);
    memset(p + s->homes, 0, (n - s->homes) * sizeof *p);
    s->home = p;
    s->homes = n;
    return 0;
}

/* --- finding dirty pages -------------------------------------------------------------- */

/* A memory that no row names yet: find its dirty pages. */
static int find_new(const struct dz_machine *m, struct dz_space *s, struct dz_machine_runs *runs,
                    struct dz_err *err)
{
    int rc = 0;
    if (m->ops->differs)
        rc = m->ops->differs(m->ops->arg, &s->range, runs, err);
    else
        for (size_t at = 0; at < s->range.size; at += PAGE)
            if (!dz_mem_is_base(&s->range, at))
                add_run(runs, at);
    if (rc == 0 && !s->base)
        choose_base(m, s, runs);
    return rc;
}

struct compare {
    const struct dz_machine *m;
    struct dz_space *s;
    uint8_t *same; /* for each page: it is equal to the copy in its home */
};

static int compare_row(void *arg, uint32_t row, const struct dz_mem_piece *p, struct dz_err *err)
{
    struct compare *c = arg;
    (void)err;
    if (p->run.space != c->s->s.id)
        return 0;
    for (uint32_t i = 0; i < p->run.count; i++) {
        size_t page = (size_t)p->run.first + i;
        if (page >= c->s->homes || c->s->home[page] != row + 1 || dz_mem_missing(c->s, page))
            continue;
        c->same[page] = p->bytes
                            ? memcmp(c->s->range.at + page * PAGE, p->bytes + i * PAGE, PAGE) == 0
                            : dz_mem_is_base(&c->s->range, page * PAGE);
    }
    return 0;
}

/* There was no mark, so the pages are compared with the rows, one row after the other. No page of
 * such a memory is in a row of the image. */
static int find_by_rows(const struct dz_machine *m, struct dz_space *s,
                        struct dz_machine_runs *runs, struct dz_err *err)
{
    struct compare c = {m, s, dz_zalloc(s->homes + 1)};
    if (!c.same)
        return dz_fail(err, DZ_ENOMEM, "no memory to compare %zu pages", s->homes);
    struct dz_mem_reader r;
    int rc = dz_mem_reader_open(&r, m->db, err);
    for (uint32_t i = 0; rc == 0 && i < m->mem.rows.n; i++)
        if (!m->mem.rows.p[i].gone && m->mem.rows.p[i].live && !m->mem.rows.p[i].below)
            rc = dz_mem_row_each(&r, m, i, compare_row, &c, err);
    dz_mem_reader_close(&r);
    for (size_t page = 0; rc == 0 && page < s->homes; page++)
        if (!dz_mem_missing(s, page) &&
            (s->home[page] ? !c.same[page] : !dz_mem_is_base(&s->range, page * PAGE)))
            add_run(runs, page * PAGE);
    dz_free(c.same);
    return rc;
}

static int find_dirty(const struct dz_machine *m, struct dz_space *s, struct dz_machine_runs *runs,
                      struct dz_err *err)
{
    bool named = false;
    for (size_t i = 0; !named && i < s->homes; i++)
        named = s->home[i] != 0;
    runs->max = DZ_MACHINE_RUNS_MAX;
    int rc = s->marked           ? m->ops->written(m->ops->arg, &s->range, runs, err)
             : named || s->apart ? find_by_rows(m, s, runs, err)
                                 : find_new(m, s, runs, err);
    if (rc == 0 && runs->err)
        rc = dz_fail(err, runs->err, "suspend the machine: too many runs of dirty pages");
    return rc;
}

/* --- the plan ------------------------------------------------------------------------------ */

struct dz_mem_change {
    DZ_VEC(, struct dz_machine_runs) dirty; /* for each space, the pages to write */
    uint32_t **home;                        /* the new homes of pages, for each memory */
    size_t spaces;
    struct dz_mem_rows rows;
    int64_t gen;
    struct dz_native_change *native; /* NULL: there are no native programs */
};

/* Find the memories of all processes that live now, and mark them `seen`. */
static int add_space(struct dz_machine *m, const struct dz_task *t, uint32_t memory,
                     struct dz_err *err)
{
    struct dz_space *s = NULL;
    for (size_t i = 0; !s && i < m->mem.spaces.n; i++)
        if (m->mem.spaces.p[i].serial == t->serial && m->mem.spaces.p[i].s.memory == memory)
            s = &m->mem.spaces.p[i];
    if (!s) {
        struct dz_space fresh = {.serial = t->serial, .s = {.id = m->next_space, .memory = memory}};
        if (dz_vec_push(&m->mem.spaces, fresh) < 0)
            return dz_fail(err, m->mem.spaces.err,
                           "suspend the machine: at most %d memories are allowed",
                           DZ_MACHINE_SPACES_MAX);
        m->next_space++;
        s = &m->mem.spaces.p[m->mem.spaces.n - 1];
    }
    s->seen = true;
    dz_mem_set_range(s, dz_kernel_wasm_inst(t));
    s->s.proc = t->proc->index;
    s->s.pages = s->range.size / PAGE;
    return dz_mem_grow_homes(s, err);
}

static int add_spaces(struct dz_machine *m, struct dz_kernel *k, struct dz_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < m->mem.spaces.n; i++)
        m->mem.spaces.p[i].seen = false;
    for (uint32_t i = 2; rc == 0 && i <= dz_kernel_rows(k, DZ_KERNEL_TABLE_PROC); i++) {
        const struct dz_task *t = dz_kernel_task(k, i);
        if (!t || t->borrowed || !dz_kernel_wasm_inst(t))
            continue;
        for (uint32_t memory = 0; rc == 0 && memory < dz_wasm_mem_count(dz_kernel_wasm_inst(t));
             memory++)
            rc = add_space(m, t, memory, err);
    }
    return rc;
}

static int copy_homes(const struct dz_machine *m, struct dz_mem_change *c, struct dz_err *err)
{
    c->rows.max = DZ_MACHINE_ROWS_MAX;
    c->dirty.max = DZ_MACHINE_SPACES_MAX;
    c->home = dz_zarray(m->mem.spaces.n + 1, sizeof *c->home);
    if (!c->home)
        return dz_fail(err, DZ_ENOMEM, "suspend the machine: out of memory");
    c->spaces = m->mem.spaces.n;
    dz_vec_append(&c->rows, m->mem.rows.p, m->mem.rows.n);
    for (size_t i = 0; i < c->spaces; i++) {
        const struct dz_space *s = &m->mem.spaces.p[i];
        dz_vec_push(&c->dirty, (struct dz_machine_runs){.max = DZ_MACHINE_RUNS_MAX});
        c->home[i] = dz_alloc((s->homes + 1) * sizeof **c->home);
        if (!c->home[i])
            return dz_fail(err, DZ_ENOMEM, "suspend the machine: out of memory");
        if (s->homes)
            memcpy(c->home[i], s->home, s->homes * sizeof **c->home);
    }
    return c->rows.err || c->dirty.err
               ? dz_fail(err, DZ_ENOMEM, "suspend the machine: out of memory")
               : 0;
}

/* The page is written anew, or it needs no row any more: its old row loses a live page. */
static void leave_home(struct dz_mem_change *c, size_t space, size_t page)
{
    uint32_t *home = &c->home[space][page];
    if (*home)
        c->rows.p[*home - 1].live--;
    *home = 0;
}

static void leave_homes(const struct dz_machine *m, struct dz_mem_change *c)
{
    for (size_t i = 0; i < c->spaces; i++) {
        const struct dz_space *s = &m->mem.spaces.p[i];
        for (size_t page = 0; !s->seen && page < s->homes; page++)
            leave_home(c, i, page);
        for (size_t r = 0; s->seen && r < c->dirty.p[i].n; r++)
            for (size_t at = c->dirty.p[i].p[r].at, n = c->dirty.p[i].p[r].size; n;
                 n -= PAGE, at += PAGE)
                leave_home(c, i, at / PAGE);
    }
}

/* When most entries are garbage, write the live pages of the worst rows again, so that those rows
 * can be deleted. */
static void empty_bad_rows(const struct dz_machine *m, struct dz_mem_change *c, const uint8_t *bad)
{
    for (size_t i = 0; i < c->spaces; i++) {
        const struct dz_space *s = &m->mem.spaces.p[i];
        struct dz_machine_runs old = c->dirty.p[i], all = {.max = DZ_MACHINE_RUNS_MAX};
        size_t r = 0;
        if (!s->seen)
            continue;
        for (size_t page = 0; page < s->homes; page++) {
            while (r < old.n && old.p[r].at + old.p[r].size <= page * PAGE)
                r++;
            bool dirty = r < old.n && old.p[r].at <= page * PAGE;
            uint32_t home = c->home[i][page];
            if (home && bad[home - 1]) {
                leave_home(c, i, page);
                c->home[i][page] = MOVED;
                dirty = true;
            }
            if (dirty)
                add_run(&all, page * PAGE);
        }
        c->dirty.p[i] = all;
        dz_vec_release(&old);
    }
}

/* Read the missing pages of the rows that are to be emptied. A page that cannot be read keeps its
 * home, so the damaged row stays. */
static void lay_bad_rows(struct dz_machine *m, const struct dz_mem_change *c, uint8_t *bad)
{
    for (size_t i = 0; i < c->spaces; i++) {
        struct dz_space *s = &m->mem.spaces.p[i];
        for (size_t page = 0; s->seen && page < s->page_states; page++) {
            uint32_t home = c->home[i][page];
            if (home && bad[home - 1] && s->page_state[page] &&
                dz_machine_mem_page_in(m, s, page * PAGE, PAGE, NULL) < 0)
                bad[home - 1] = 0;
        }
    }
}

static int fold(struct dz_machine *m, struct dz_mem_change *c, struct dz_err *err)
{
    uint64_t entries = 0, live = 0;
    for (size_t i = 0; i < c->rows.n; i++) {
        if (c->rows.p[i].gone || c->rows.p[i].below)
            continue;
        entries += c->rows.p[i].live ? c->rows.p[i].pages : 0;
        live += c->rows.p[i].live;
    }
    if (entries - live <= live)
        return 0;
    uint8_t *bad = dz_zalloc(c->rows.n + 1);
    if (!bad)
        return dz_fail(err, DZ_ENOMEM, "suspend the machine: out of memory");
    for (size_t i = 0; i < c->rows.n; i++)
        bad[i] = !c->rows.p[i].below && c->rows.p[i].live * 2 < c->rows.p[i].pages;
    lay_bad_rows(m, c, bad);
    empty_bad_rows(m, c, bad);
    int rc = dz_native_empty_rows(m, c->native, bad, &c->rows, err);
    dz_free(bad);
    return rc;
}

/* Do this before pages are written, because reading a missing page needs the same SQLite handle. */
static int lay_dirty(struct dz_machine *m, const struct dz_mem_change *c, struct dz_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && m->mem.missing > 0 && i < c->spaces; i++) {
        struct dz_space *s = &m->mem.spaces.p[i];
        for (size_t r = 0; rc == 0 && s->seen && r < c->dirty.p[i].n; r++)
            rc = dz_machine_mem_page_in(m, s, c->dirty.p[i].p[r].at, c->dirty.p[i].p[r].size, err);
    }
    return rc;
}

int dz_machine_mem_plan(struct dz_machine *m, struct dz_kernel *k, struct dz_mem_change **ret,
                        struct dz_err *err)
{
    struct dz_mem_change *c = dz_zalloc(sizeof *c);
    if (!c)
        return dz_fail(err, DZ_ENOMEM, "suspend the machine: out of memory");
    *ret = c;
    c->gen = m->mem.gen + 1;
    int rc = add_spaces(m, k, err);
    if (rc == 0)
        rc = copy_homes(m, c, err);
    for (size_t i = 0; rc == 0 && i < c->spaces; i++)
        if (m->mem.spaces.p[i].seen)
            rc = find_dirty(m, &m->mem.spaces.p[i], &c->dirty.p[i], err);
    if (rc < 0)
        return rc;
    leave_homes(m, c);
    rc = dz_native_plan(m, &c->rows, &c->native, err);
    if (rc == 0)
        rc = fold(m, c, err);
    for (size_t i = 0; rc == 0 && i < c->spaces; i++)
        if (c->dirty.p[i].err)
            rc = dz_fail(err, c->dirty.p[i].err, "suspend the machine: too many dirty pages");
    return rc < 0 ? rc : lay_dirty(m, c, err);
}

/* --- writing ---------------------------------------------------------------------------------- */

struct row_out {
    struct dz_machine *m;
    struct dz_mem_change *c;
    struct dz_mem_packer packer;
    int64_t seq;
    uint32_t to_stay;  /* pages that the current row may still get and that are likely to stay */
    uint32_t may_pack; /* pages that may still be packed */
    bool tiny;         /* there are so few pages that all are packed */
};

static int flush_row(struct row_out *o, struct dz_err *err)
{
    const void *bytes;
    size_t size;
    uint32_t pages = o->packer.pages;
    if (pages == 0)
        return 0;
    bool packs = (o->tiny || o->to_stay > pages / 2) && o->may_pack >= pages;
    dz_mem_pack_end(&o->packer, packs, &bytes, &size);
    o->may_pack -= packs ? pages : 0;
    o->to_stay = 0;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(o->m->db, dz_machine_sql_mem_put);
    dz_bind_int(st, 1, o->c->gen);
    dz_bind_int(st, 2, o->seq++);
    dz_bind_blob(st, 3, bytes, size);
    o->m->stats.bytes += size;
    int rc = dz_stmt_run(st, err);
    struct dz_mem_row row = {.rowid = dz_db_last_rowid(o->m->db),
                             .gen = o->c->gen,
                             .seq = o->seq - 1,
                             .pages = pages,
                             .live = pages};
    if (rc == 0 && dz_vec_push(&o->c->rows, row) < 0)
        rc = dz_fail(err, o->c->rows.err,
                     "suspend the machine: at most %d rows of memory are allowed",
                     DZ_MACHINE_ROWS_MAX);
    return rc;
}

/* Did a row name this page before? If so, the return of the page to its base has to be written,
 * too. */
static bool was_named(const struct dz_space *s, size_t page)
{
    return page < s->homes && s->home[page] != 0;
}

static int write_page(struct row_out *o, size_t space, size_t at, struct dz_err *err)
{
    const struct dz_space *s = &o->m->mem.spaces.p[space];
    uint32_t *home = &o->c->home[space][at / PAGE];
    bool base = dz_mem_is_base(&s->range, at), named = was_named(s, at / PAGE);
    if (base && !named)
        return 0;
    if (dz_mem_pack_full(&o->packer)) {
        int rc = flush_row(o, err);
        if (rc < 0)
            return rc;
    }
    dz_mem_pack_page(&o->packer, s->s.id, at / PAGE, base ? NULL : s->range.at + at);
    o->to_stay += !base && (!named || *home == MOVED);
    *home = (uint32_t)o->c->rows.n + 1; /* the number of the row that is being filled */
    o->m->stats.pages++;
    return 0;
}

static int write_native(void *arg, const struct dz_native_page *page, uint32_t *ret_home,
                        struct dz_err *err)
{
    struct row_out *o = arg;
    int rc = dz_mem_pack_full(&o->packer) ? flush_row(o, err) : 0;
    if (rc < 0)
        return rc;
    dz_mem_pack_page(&o->packer, page->key, page->page, page->bytes);
    o->to_stay += page->stays;
    o->m->stats.pages++;
    *ret_home = (uint32_t)o->c->rows.n + 1;
    return 0;
}

/* Delete rows without live pages: all of them, or only those that had none before this sleep. */
static int delete_rows(const struct dz_machine *m, struct dz_mem_rows *rows, bool all,
                       struct dz_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < rows->n; i++) {
        struct dz_mem_row *row = &rows->p[i];
        if (row->gone || row->live || (!all && m->mem.rows.p[i].live))
            continue;
        row->gone = true;
        if (row->below)
            continue;
        DZ_AUTO(dz_stmt_resetp)
        struct dz_stmt *st = dz_db_stmt(m->db, dz_machine_sql_mem_drop);
        dz_bind_int(st, 1, row->gen);
        dz_bind_int(st, 2, row->seq);
        rc = dz_stmt_run(st, err);
    }
    return rc;
}

static void count_stats(struct dz_machine *m)
{
    m->stats.rows = m->stats.live = m->stats.garbage = 0;
    for (size_t i = 0; i < m->mem.rows.n; i++) {
        const struct dz_mem_row *r = &m->mem.rows.p[i];
        if (r->below)
            continue;
        m->stats.rows += !r->gone;
        m->stats.live += r->gone ? 0 : r->live;
        m->stats.garbage += r->gone ? 0 : r->pages - r->live;
    }
    m->stats.spaces = m->mem.spaces.n;
}

int dz_machine_mem_tidy(struct dz_machine *m, struct dz_err *err)
{
    int rc = delete_rows(m, &m->mem.rows, true, err);
    count_stats(m);
    return rc;
}

static size_t dirty_pages(const struct dz_mem_change *c)
{
    size_t n = dz_native_pages(c->native);
    for (size_t i = 0; i < c->dirty.n; i++)
        for (size_t r = 0; r < c->dirty.p[i].n; r++)
            n += c->dirty.p[i].p[r].size / PAGE;
    return n;
}

int dz_machine_mem_write(struct dz_machine *m, struct dz_mem_change *c, bool tidy,
                         struct dz_err *err)
{
    struct row_out o = {.m = m, .c = c, .may_pack = DZ_MEM_PACK_PAGES};
    m->stats.pages = m->stats.bytes = 0;
    size_t dirty = dirty_pages(c);
    uint32_t most = dirty > DZ_MEM_FEW ? DZ_MEM_ROW_MANY : DZ_MEM_ROW_FEW;
    o.tiny = dirty <= DZ_MEM_TINY;
    void *row = !tidy && dirty >= DZ_MEM_AHEAD ? dz_db_ahead(dirty, dz_mem_pack_room(most)) : NULL;
    int rc = dz_mem_pack_init(&o.packer, most, row, err);
    if (rc == 0)
        rc = delete_rows(m, &c->rows, tidy, err);
    for (size_t i = 0; rc == 0 && i < c->spaces; i++)
        for (size_t r = 0; rc == 0 && m->mem.spaces.p[i].seen && r < c->dirty.p[i].n; r++) {
            const struct dz_machine_run *run = &c->dirty.p[i].p[r];
            for (size_t at = run->at; rc == 0 && at < run->at + run->size; at += PAGE)
                rc = write_page(&o, i, at, err);
        }
    const struct dz_native_put put = {write_native, &o};
    if (rc == 0)
        rc = dz_native_write(m, c->native, &put, err);
    if (rc == 0)
        rc = flush_row(&o, err);
    dz_mem_pack_release(&o.packer);
    return rc < 0 ? rc : dz_native_write_list(m, c->native, &c->rows, err);
}

/* --- after the commit --------------------------------------------------------------------- */

/* When many rows of the table have been deleted, remove their entries and renumber the homes. */
static void compact_rows(struct dz_machine *m)
{
    struct dz_mem *mem = &m->mem;
    size_t n = 0;
    for (size_t i = 0; i < mem->rows.n; i++)
        n += !mem->rows.p[i].gone;
    if (mem->rows.n < 64 || n * 2 > mem->rows.n)
        return;
    uint32_t *to = dz_zarray(mem->rows.n + 1, sizeof *to);
    if (!to)
        return; /* the next sleep tries again */
    n = 0;
    for (size_t i = 0; i < mem->rows.n; i++)
        if (!mem->rows.p[i].gone) {
            mem->rows.p[n++] = mem->rows.p[i];
            to[i + 1] = (uint32_t)n;
        }
    mem->rows.n = n;
    for (size_t i = 0; i < mem->spaces.n; i++)
        for (size_t page = 0; page < mem->spaces.p[i].homes; page++)
            mem->spaces.p[i].home[page] = to[mem->spaces.p[i].home[page]];
    dz_native_renumber(&m->native, to);
    dz_free(to);
}

void dz_mem_assert(const struct dz_machine *m)
{
    const struct dz_mem *mem = &m->mem;
    uint64_t live = 0, homes = DZ_CHECK_DEEP ? dz_native_live(&m->native) : 0, missing = 0;
    for (size_t i = 0; i < mem->rows.n; i++) {
        assert(mem->rows.p[i].live <= (mem->rows.p[i].gone ? 0 : mem->rows.p[i].pages));
        live += mem->rows.p[i].live;
    }
    for (size_t i = 0; DZ_CHECK_DEEP && i < mem->spaces.n; i++) {
        const struct dz_space *s = &mem->spaces.p[i];
        for (size_t page = 0; page < s->homes; page++) {
            assert(s->home[page] <= mem->rows.n);
            homes += s->home[page] != 0;
        }
        for (size_t page = 0; page < s->page_states; page++)
            missing += s->page_state[page] != DZ_PAGE_PRESENT;
        assert(s->page_states <= s->homes);
    }
    assert(!DZ_CHECK_DEEP || (homes == live && missing == mem->missing));
}

static void adopt(struct dz_machine *m, struct dz_mem_change *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->spaces; i++) {
        struct dz_space *s = &m->mem.spaces.p[i];
        dz_free(s->home);
        s->home = c->home[i];
        c->home[i] = NULL;
        if (s->seen)
            m->mem.spaces.p[kept++] = *s;
        else
            forget_space(m, s);
    }
    m->mem.spaces.n = kept;
    dz_vec_release(&m->mem.rows);
    m->mem.rows = c->rows;
    c->rows = (struct dz_mem_rows)DZ_VEC_INIT(DZ_MACHINE_ROWS_MAX);
    m->mem.gen = c->gen;
    dz_native_adopt(m, c->native);
    compact_rows(m);
    dz_mem_assert(m);
    count_stats(m);
}

void dz_machine_mem_mark(struct dz_machine *m)
{
    for (size_t i = 0; i < m->mem.spaces.n; i++) {
        struct dz_space *s = &m->mem.spaces.p[i];
        s->marked = m->ops->mark && m->ops->mark(m->ops->arg, &s->range, NULL) == 0;
    }
    dz_native_mark(m);
    count_stats(m);
}

void dz_machine_mem_done(struct dz_machine *m, struct dz_mem_change *c, bool committed)
{
    if (!c)
        return;
    if (committed)
        adopt(m, c);
    for (size_t i = 0; c->home && i < c->spaces; i++)
        dz_free(c->home[i]);
    for (size_t i = 0; i < c->dirty.n; i++)
        dz_vec_release(&c->dirty.p[i]);
    dz_vec_release(&c->dirty);
    dz_vec_release(&c->rows);
    dz_native_change_free(c->native);
    dz_free(c->home);
    dz_free(c);
}

/* SPDX-License-Identifier: MIT
 *
 * machine_native.c - the memory of native programs in the rows of mem.
 *
 * Such a memory lies in processes of the host, has page numbers of 64 bits and is mostly empty. So
 * its homes are not an array by page but a sorted list of extents: pages, and the row that has
 * them. The list of all memories is stored, too (machine.part 'pages'): a wake takes each page from
 * the row that the list names. Therefore a page that a program unmapped or freed is forgotten by
 * being left out of the list, and no row has to say so.
 *
 *     own      what the program has now     |----a----|   |--b--|     |-c-|
 *     old      the list of the last sleep      |------a------|   |--b--|
 *     written  since the mark                     |--|
 *     keep     own, old and not written        |-| |-|    ||     ||
 *     write    the rest of own              |-|   |--|      |---|     |-c-|
 *
 * A sandbox made from an image in which native programs sleep begins with the list of that machine:
 * pages that it has not changed stay in the rows of the image, which no sleep deletes or moves.
 *
 * A page of zeros is left out where the program would find zeros anyway. The pages of programs with
 * DZ_MEM_FEW pages or less are not packed, because a wake may read all of them, and unpacking would
 * take as long as the rest of its reading.
 *
 * Pages by need: where the embedder can, a wake leaves out the pages of rows that are not hot,
 * which are the newest ones (find_hot). dz_native_need() writes them when they are needed. A sleep
 * keeps the rows of pages that are still absent, and writes those that were needed again, into hot
 * rows.
 *
 * A host that cannot note writes calls every page written. Then each is compared with the row that
 * has it, by a checksum of 64 bits with a secret seed: a page that changed counts as unchanged once
 * in 2^64 times, and no program can bring that about.
 *
 * Invariants: extents of a memory ascend and are disjoint; their pages count as live pages of
 * their rows (dz_mem_assert). While a machine runs they are those of the committed file.
 */
#include "machine/machine_mem.h"

#include "base/mem.h"
#include "machine/machine_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define PAGE      ((size_t)DZ_MACHINE_PAGE)
#define END(r)    ((r)->first + (r)->count)
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define BAD(err, ...) \
    dz_fail(err, DZ_ECORRUPT, "the memory of the machine in the file is damaged: " __VA_ARGS__)

enum {
    READ_PAGES = 64, /* read from a program in one step: the buffer stays in caches */
    /* pages by need */
    HOT_GENERATIONS = 8, /* pages of older rows are needed rarely, or every time: then the sleep
                            after writes them again */
    HOT_PAGES = 1024,    /* that a wake writes at once, at most */
    LATE_MIN = 16,       /* fewer pages are not left out */
    GAP = 8,             /* pages between two runs that become one */
};

static int by_key(const void *a, const void *b)
{
    const uint64_t x = ((const struct dz_native_memory *)a)->key;
    const uint64_t y = ((const struct dz_native_memory *)b)->key;
    return x < y ? -1 : x > y;
}

static struct dz_native_memory *find(struct dz_native *n, uint64_t key)
{
    const struct dz_native_memory wanted = {.key = key};
    return n->of.n ? bsearch(&wanted, n->of.p, n->of.n, sizeof wanted, by_key) : NULL;
}

static void release_memories(struct dz_native_memories *of)
{
    for (size_t i = 0; i < of->n; i++) {
        dz_vec_release(&of->p[i].extents);
        dz_vec_release(&of->p[i].sums);
    }
    dz_vec_release(of);
}

bool dz_native_caches(const struct dz_native *n)
{
    return n->uses > 0;
}

void dz_native_forget(struct dz_native *n)
{
    for (size_t i = 0; n->uses && i < DZ_NATIVE_CACHED; i++) {
        if (n->cached[i].reader.db)
            dz_mem_reader_close(&n->cached[i].reader);
        dz_vec_release(&n->cached[i].pieces);
        n->cached[i] = (struct dz_native_cached){.pieces.max = DZ_MEM_ROW_PAGES};
    }
    n->uses = 0;
}

void dz_native_init(struct dz_native *n)
{
    *n = (struct dz_native){.of.max = DZ_MACHINE_MEMORIES_MAX,
                            .refs.max = DZ_MACHINE_ROWS_MAX,
                            .batch.runs.max = DZ_MEM_ROW_PAGES};
    for (size_t i = 0; i < DZ_NATIVE_CACHED; i++)
        n->cached[i].pieces.max = DZ_MEM_ROW_PAGES;
    if (getrandom(&n->seed, sizeof n->seed, 0) != sizeof n->seed)
        n->seed = (uint64_t)dz_clock_mono_ns();
}

void dz_native_release(struct dz_native *n)
{
    dz_native_forget(n);
    release_memories(&n->of);
    dz_vec_release(&n->refs);
    dz_vec_release(&n->batch.runs);
    dz_native_init(n);
}

/* --- lists of pages ----------------------------------------------------------------------- */

/* Pages come in ascending order. */
static void add_extent(struct dz_extents *to, const struct dz_extent *e)
{
    assert(to->n == 0 || to->p);
    struct dz_extent *last = to->n ? &to->p[to->n - 1] : NULL;
    if (last && last->home == e->home && last->first + last->count == e->first &&
        last->sums + last->count == e->sums)
        last->count += e->count;
    else
        dz_vec_push(to, *e);
}

struct writes_run {
    uint64_t first, count;
    bool zeros; /* see struct dz_machine_pages */
    bool again; /* a row had an earlier content, so the page is likely to change again */
};
struct plan {
    struct dz_machine_memory mem;
    struct dz_machine_pages_list own, written;
    struct dz_machine_pages_list present, absent; /* own: these, and those absent that have a row */
    struct dz_extents keep;                       /* pages that stay in their rows */
    DZ_VEC(, struct writes_run) write;            /* the others of `own` */
    struct dz_extents fresh;                      /* their rows, when they are written */
    struct dz_page_sums sums;                     /* of these pages */
    bool few;                                     /* all memories together have few pages */
};
struct dz_native_change {
    DZ_VEC(, struct plan) of;
    struct dz_native_memories next; /* what m->native.of becomes when it is committed */
    uint8_t *buf;                   /* READ_PAGES pages */
    bool any;                       /* a list is or was in the file */
};

static void release_plan(struct plan *p)
{
    dz_vec_release(&p->own);
    dz_vec_release(&p->written);
    dz_vec_release(&p->present);
    dz_vec_release(&p->absent);
    dz_vec_release(&p->keep);
    dz_vec_release(&p->write);
    dz_vec_release(&p->fresh);
    dz_vec_release(&p->sums);
}

void dz_native_change_free(struct dz_native_change *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->of.n; i++)
        release_plan(&c->of.p[i]);
    dz_vec_release(&c->of);
    release_memories(&c->next);
    dz_free(c->buf);
    dz_free(c);
}

static void check_list(const struct dz_machine_pages_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct dz_machine_pages *p = &list->p[i];
        assert(p->count > 0 && p->first + p->count > p->first);
        assert(i == 0 || list->p[i - 1].first + list->p[i - 1].count <= p->first);
    }
}

/* Split `own` into the pages that keep their rows and those that are written. bad: rows that are to
 * be emptied, by their index; NULL: none are. */
static void split(struct plan *p, const struct dz_extents *old, const uint8_t *bad)
{
    size_t o = 0, w = 0;
    p->keep.n = p->write.n = 0;
    for (size_t i = 0; i < p->own.n; i++) {
        const struct dz_machine_pages *own = &p->own.p[i];
        for (uint64_t at = own->first, end = END(own), to; at < end; at = to) {
            while (o < old->n && END(&old->p[o]) <= at)
                o++;
            while (w < p->written.n && END(&p->written.p[w]) <= at)
                w++;
            const struct dz_extent *had = o < old->n ? &old->p[o] : NULL;
            const struct dz_machine_pages *changed = w < p->written.n ? &p->written.p[w] : NULL;
            const bool in_old = had && had->first <= at, in_w = changed && changed->first <= at;
            to = end;
            if (had)
                to = MIN(to, in_old ? END(had) : had->first);
            if (changed)
                to = MIN(to, in_w ? END(changed) : changed->first);
            if (in_old && !in_w && !(bad && bad[had->home - 1]))
                add_extent(&p->keep, &(struct dz_extent){at, to - at, had->sums + at - had->first,
                                                         had->home});
            else
                dz_vec_push(&p->write,
                            ((struct writes_run){at, to - at, own->zeros, in_old && in_w}));
        }
    }
}

static void count_live(struct dz_mem_rows *rows, const struct dz_extents *e, bool add)
{
    for (size_t i = 0; i < e->n; i++) {
        uint32_t *live = &rows->p[e->p[i].home - 1].live;
        assert(add || *live >= e->p[i].count);
        *live = add ? *live + (uint32_t)e->p[i].count : *live - (uint32_t)e->p[i].count;
    }
}

/* --- the plan of a sleep -------------------------------------------------------------------- */

static const struct dz_native_memory *old_of(struct dz_machine *m, const struct plan *p)
{
    static const struct dz_native_memory none;
    const struct dz_native_memory *old = find(&m->native, dz_native_key(&p->mem));
    return old ? old : &none;
}

/* The present pages, and those absent ones that a row has: absent pages of no row are as the
 * mapping gives them. */
static void join(struct plan *p, const struct dz_extents *old)
{
    size_t e = 0, k = 0;
    for (size_t i = 0; i < p->absent.n; i++) {
        const struct dz_machine_pages *gone = &p->absent.p[i];
        while (e < old->n && END(&old->p[e]) <= gone->first)
            e++;
        for (size_t x = e; x < old->n && old->p[x].first < END(gone); x++) {
            const uint64_t first = old->p[x].first > gone->first ? old->p[x].first : gone->first;
            const uint64_t end = MIN(END(&old->p[x]), END(gone));
            while (k < p->present.n && p->present.p[k].first < first)
                dz_vec_push(&p->own, p->present.p[k++]);
            dz_vec_push(&p->own, ((struct dz_machine_pages){first, end - first, gone->zeros}));
        }
    }
    if (k < p->present.n)
        dz_vec_append(&p->own, p->present.p + k, p->present.n - k);
}

struct gather {
    struct dz_machine *m;
    struct dz_native_change *c;
};

static int plan_memory(void *arg, const struct dz_machine_memory *mem, struct dz_err *err)
{
    struct gather *g = arg;
    const struct dz_machine_native *ops = g->m->ops->native;
    struct plan p = {.mem = *mem,
                     .own.max = DZ_MACHINE_RUNS_MAX,
                     .written.max = DZ_MACHINE_RUNS_MAX,
                     .present.max = DZ_MACHINE_RUNS_MAX,
                     .absent.max = DZ_MACHINE_RUNS_MAX,
                     .keep.max = DZ_NATIVE_EXTENTS_MAX,
                     .write.max = DZ_NATIVE_EXTENTS_MAX,
                     .fresh.max = DZ_NATIVE_EXTENTS_MAX,
                     .sums.max = DZ_NATIVE_EXTENTS_MAX};
    assert(mem->id < DZ_MACHINE_IDS_MAX && mem->kind >= DZ_MACHINE_PRIVATE &&
           mem->kind <= DZ_MACHINE_OBJECT);
    if (dz_vec_push(&g->c->of, p) < 0)
        return dz_fail(err, g->c->of.err, "suspend the machine: at most %d memories are allowed",
                       DZ_MACHINE_MEMORIES_MAX);
    struct plan *own = &g->c->of.p[g->c->of.n - 1];
    int rc = ops->changed(ops->arg, mem, &own->present, &own->written, &own->absent, err);
    if (rc == 0)
        join(own, &old_of(g->m, own)->extents);
    if (rc == 0 && (own->own.err || own->written.err || own->present.err || own->absent.err))
        rc = dz_fail(err, DZ_ELIMIT, "suspend the machine: too many runs of changed pages");
    return rc;
}

static int plan_key(const void *a, const void *b)
{
    const uint64_t x = dz_native_key(&((const struct plan *)a)->mem);
    const uint64_t y = dz_native_key(&((const struct plan *)b)->mem);
    return x < y ? -1 : x > y;
}

static int split_all(struct dz_machine *m, struct dz_native_change *c, const uint8_t *bad,
                     struct dz_mem_rows *rows, struct dz_err *err)
{
    for (size_t i = 0; i < c->of.n; i++) {
        struct plan *p = &c->of.p[i];
        split(p, &old_of(m, p)->extents, bad);
        if (p->keep.err || p->write.err)
            return dz_fail(err, DZ_ENOMEM, "suspend the machine: out of memory");
        count_live(rows, &p->keep, true);
    }
    return 0;
}

static uint64_t count_pages(const struct dz_machine_pages_list *list)
{
    uint64_t n = 0;
    for (size_t i = 0; i < list->n; i++)
        n += list->p[i].count;
    return n;
}

/* Pages that have a row, and are read together. */
struct comparison {
    struct dz_machine *m;
    struct dz_native_change *c;
    const struct plan *p;
    size_t n, pages;
    struct dz_machine_pages part[READ_PAGES];
    const uint64_t *sums[READ_PAGES]; /* of the content in the row, for each part */
    struct dz_machine_pages_list changed;
};

/* List the pages whose content differs from that of their row. */
static int compare_parts(struct comparison *k, struct dz_err *err)
{
    const struct dz_machine_native *ops = k->m->ops->native;
    const uint8_t *at = k->c->buf;
    int rc = k->n ? ops->read(ops->arg, &k->p->mem, k->part, k->n, k->c->buf, err) : 0;
    for (size_t i = 0; rc == 0 && i < k->n; i++)
        for (uint64_t page = 0; page < k->part[i].count; page++, at += PAGE)
            if (dz_machine_sum(k->m->native.seed, at, PAGE) != k->sums[i][page])
                dz_vec_push(&k->changed, ((struct dz_machine_pages){k->part[i].first + page, 1,
                                                                    k->part[i].zeros}));
    k->n = k->pages = 0;
    if (rc == 0 && k->changed.err)
        rc = dz_fail(err, DZ_ENOMEM, "suspend the machine: out of memory");
    return rc;
}

/* The host noted no writes: find them. A page that was filled by need counts as written: so it gets
 * into a row of this generation, and the next wake writes it at once. */
static int compare(struct dz_machine *m, struct dz_native_change *c, struct plan *p,
                   struct dz_err *err)
{
    const struct dz_native_memory *old = old_of(m, p);
    struct comparison k = {.m = m, .c = c, .p = p, .changed.max = DZ_MACHINE_RUNS_MAX};
    size_t o = 0;
    int rc = 0;
    for (size_t i = 0; i < p->present.n; i++) {
        const struct dz_machine_pages *own = &p->present.p[i];
        uint64_t at = own->first;
        while (rc == 0 && at < END(own)) {
            while (o < old->extents.n && END(&old->extents.p[o]) <= at)
                o++;
            const struct dz_extent *had = o < old->extents.n ? &old->extents.p[o] : NULL;
            if (!had || had->first >= END(own))
                break;
            at = had->first > at ? had->first : at;
            if (old->absent && m->mem.rows.p[had->home - 1].late) {
                const uint64_t last = MIN(END(own), END(had));
                rc = compare_parts(&k, err); /* `changed` ascends */
                dz_vec_push(&k.changed, ((struct dz_machine_pages){at, last - at, own->zeros}));
                at = last;
                continue;
            }
            const uint64_t end = MIN(MIN(END(own), END(had)), at + READ_PAGES - k.pages);
            k.part[k.n] = (struct dz_machine_pages){at, end - at, own->zeros};
            k.sums[k.n++] = old->sums.p + had->sums + (at - had->first);
            k.pages += end - at;
            at = end;
            if (k.pages == READ_PAGES)
                rc = compare_parts(&k, err);
        }
    }
    rc = rc < 0 ? rc : compare_parts(&k, err);
    dz_vec_release(&p->written);
    p->written = k.changed;
    return rc;
}

static int compare_all(struct dz_machine *m, struct dz_native_change *c, struct dz_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->of.n; i++)
        if (count_pages(&c->of.p[i].present) == count_pages(&c->of.p[i].written))
            rc = compare(m, c, &c->of.p[i], err);
    return rc;
}

int dz_native_plan(struct dz_machine *m, struct dz_mem_rows *rows, struct dz_native_change **ret,
                   struct dz_err *err)
{
    const struct dz_machine_native *ops = m->ops->native;
    if (!ops)
        return 0;
    struct dz_native_change *c = dz_zalloc(sizeof *c);
    if (!c)
        return dz_fail(err, DZ_ENOMEM, "suspend the machine: out of memory");
    *ret = c;
    c->of.max = c->next.max = DZ_MACHINE_MEMORIES_MAX;
    struct gather g = {m, c};
    int rc = ops->each(ops->arg, plan_memory, &g, err);
    if (rc < 0)
        return rc;
    if (c->of.n)
        qsort(c->of.p, c->of.n, sizeof *c->of.p, plan_key);
    c->any = c->of.n > 0 || m->native.of.n > 0;
    c->buf = dz_alloc(READ_PAGES * PAGE);
    if (!c->buf)
        return dz_fail(err, DZ_ENOMEM, "suspend the machine: out of memory");
    uint64_t pages = 0;
    for (size_t i = 0; i < c->of.n; i++)
        pages += count_pages(&c->of.p[i].own);
    for (size_t i = 0; i < c->of.n; i++) {
        c->of.p[i].few = pages <= DZ_MEM_FEW;
        check_list(&c->of.p[i].own);
        check_list(&c->of.p[i].written);
        assert(i == 0 || plan_key(&c->of.p[i - 1], &c->of.p[i]) < 0);
    }
    for (size_t i = 0; i < m->native.of.n; i++)
        count_live(rows, &m->native.of.p[i].extents, false);
    rc = compare_all(m, c, err);
    return rc < 0 ? rc : split_all(m, c, NULL, rows, err);
}

/* Pages whose row will be emptied, and deleted before the new rows are written, are needed now. */
static int fill_moved(struct dz_machine *m, struct dz_native_change *c, const struct plan *p,
                      struct dz_err *err)
{
    const struct dz_machine_native *ops = m->ops->native;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < p->write.n; i++)
        for (uint64_t at = p->write.p[i].first; rc == 0 && at < END(&p->write.p[i]);
             at += READ_PAGES) {
            const struct dz_machine_pages part = {
                at, MIN(END(&p->write.p[i]) - at, (uint64_t)READ_PAGES), false};
            rc = ops->read(ops->arg, &p->mem, &part, 1, c->buf, err);
        }
    return rc;
}

int dz_native_empty_rows(struct dz_machine *m, struct dz_native_change *c, const uint8_t *bad,
                         struct dz_mem_rows *rows, struct dz_err *err)
{
    for (size_t i = 0; c && i < c->of.n; i++)
        count_live(rows, &c->of.p[i].keep, false);
    int rc = c ? split_all(m, c, bad, rows, err) : 0;
    for (size_t i = 0; c && rc == 0 && i < c->of.n; i++)
        if (old_of(m, &c->of.p[i])->absent)
            rc = fill_moved(m, c, &c->of.p[i], err);
    return rc;
}

size_t dz_native_pages(const struct dz_native_change *c)
{
    size_t n = 0;
    for (size_t i = 0; c && i < c->of.n; i++)
        for (size_t k = 0; k < c->of.p[i].write.n; k++)
            n += c->of.p[i].write.p[k].count;
    return n;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Write the pages that c->buf holds. */
static int put_pages(const struct dz_machine *m, struct plan *p, const uint8_t *bytes,
                     const struct writes_run *run, const struct dz_native_put *put,
                     struct dz_err *err)
{
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < run->count; i++, bytes += PAGE) {
        uint32_t home = 0;
        if (run->zeros && dz_mem_is_zero(bytes, PAGE))
            continue;
        const struct dz_native_page page = {dz_native_key(&p->mem), run->first + i, bytes,
                                            !run->again && !p->few};
        rc = put->fn(put->arg, &page, &home, err);
        if (rc == 0) {
            add_extent(&p->fresh, &(struct dz_extent){run->first + i, 1, p->sums.n, home});
            dz_vec_push(&p->sums, dz_machine_sum(m->native.seed, bytes, PAGE));
        }
    }
    return rc;
}

static int write_memory(struct dz_machine *m, struct dz_native_change *c, struct plan *p,
                        const struct dz_native_put *put, struct dz_err *err)
{
    const struct dz_machine_native *ops = m->ops->native;
    struct dz_machine_pages part[READ_PAGES];
    struct writes_run runs[READ_PAGES];
    uint64_t done = 0; /* pages of write.p[i] */
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < p->write.n;) {
        size_t n = 0, pages = 0;
        while (i < p->write.n && pages < READ_PAGES) {
            struct writes_run r = p->write.p[i];
            r.first += done;
            r.count = MIN(r.count - done, READ_PAGES - pages);
            part[n] = (struct dz_machine_pages){r.first, r.count, r.zeros};
            runs[n++] = r;
            pages += r.count;
            done += r.count;
            if (done == p->write.p[i].count) {
                done = 0;
                i++;
            }
        }
        rc = ops->read(ops->arg, &p->mem, part, n, c->buf, err);
        for (size_t r = 0, at = 0; rc == 0 && r < n; at += runs[r++].count)
            rc = put_pages(m, p, c->buf + at * PAGE, &runs[r], put, err);
    }
    return rc;
}

/* The pages that stay in their rows and those that were written, in order. */
static void merge(const struct plan *p, const struct dz_page_sums *old, struct dz_native_memory *to)
{
    size_t i = 0, k = 0;
    while (i < p->keep.n || k < p->fresh.n) {
        const bool kept =
            k == p->fresh.n || (i < p->keep.n && p->keep.p[i].first < p->fresh.p[k].first);
        const struct dz_extent *e = kept ? &p->keep.p[i++] : &p->fresh.p[k++];
        const struct dz_extent now = {e->first, e->count, to->sums.n, e->home};
        dz_vec_append(&to->sums, (kept ? old : &p->sums)->p + e->sums, (size_t)e->count);
        add_extent(&to->extents, &now);
    }
}

int dz_native_write(struct dz_machine *m, struct dz_native_change *c,
                    const struct dz_native_put *put, struct dz_err *err)
{
    int rc = 0;
    if (!c || !c->of.n)
        return 0;
    for (size_t i = 0; rc == 0 && i < c->of.n; i++) {
        struct plan *p = &c->of.p[i];
        rc = write_memory(m, c, p, put, err);
        if (rc < 0)
            return rc;
        struct dz_native_memory one = {.mem = p->mem,
                                       .key = dz_native_key(&p->mem),
                                       .absent = old_of(m, p)->absent,
                                       .extents.max = DZ_NATIVE_EXTENTS_MAX,
                                       .sums.max = DZ_NATIVE_EXTENTS_MAX};
        if (!p->fresh.err && !p->sums.err)
            merge(p, &old_of(m, p)->sums, &one);
        if (p->fresh.err || p->sums.err || one.extents.err || one.sums.err ||
            dz_vec_push(&c->next, one) < 0) {
            dz_vec_release(&one.extents);
            dz_vec_release(&one.sums);
            rc = dz_fail(err, DZ_ENOMEM, "suspend the machine: out of memory");
        }
    }
    return rc;
}

int dz_native_write_list(struct dz_machine *m, struct dz_native_change *c, struct dz_mem_rows *rows,
                         struct dz_err *err)
{
    return c && c->any ? dz_native_list_write(m, &c->next, rows, err) : 0;
}

void dz_native_adopt(struct dz_machine *m, struct dz_native_change *c)
{
    dz_native_forget(&m->native); /* SQLite may give the id of a deleted row to another one */
    if (!c)
        return;
    release_memories(&m->native.of);
    m->native.of = c->next;
    c->next = (struct dz_native_memories)DZ_VEC_INIT(DZ_MACHINE_MEMORIES_MAX);
}

/* --- laying pages ------------------------------------------------------------------------------
 */

/* The first extent that ends behind this page. */
static size_t first_extent(const struct dz_extents *e, uint64_t page)
{
    size_t low = 0, high = e->n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (END(&e->p[mid]) <= page)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Pages of this extent have this content. */
static int note_sums(const struct dz_machine *m, struct dz_native_memory *of,
                     const struct dz_extent *e, const struct dz_machine_pages *pages,
                     const uint8_t *bytes, struct dz_err *err)
{
    const struct dz_extent *last = &of->extents.p[of->extents.n - 1];
    while (of->sums.n < last->sums + last->count)
        if (dz_vec_push(&of->sums, 0) < 0)
            return dz_fail(err, of->sums.err, "resume the machine: too many pages");
    for (uint64_t i = 0; i < pages->count; i++)
        of->sums.p[e->sums + (pages->first - e->first) + i] =
            dz_machine_sum(m->native.seed, bytes + i * PAGE, PAGE);
    return 0;
}

int dz_native_flush(struct dz_machine *m, struct dz_err *err)
{
    const struct dz_machine_native *ops = m->ops->native;
    struct dz_native_batch *b = &m->native.batch;
    if (b->runs.n == 0)
        return 0;
    const int rc = b->runs.err
                       ? dz_fail(err, DZ_ENOMEM, "resume the machine: out of memory")
                       : ops->write(ops->arg, &b->of->mem, b->runs.p, b->runs.n, b->bytes, err);
    dz_vec_reset(&b->runs);
    return rc;
}

static int add_to_batch(struct dz_machine *m, const struct dz_native_memory *of,
                        const struct dz_machine_pages *pages, const uint8_t *bytes,
                        struct dz_err *err)
{
    struct dz_native_batch *b = &m->native.batch;
    int rc = 0;
    if (b->runs.n && (b->of != of || b->end != bytes))
        rc = dz_native_flush(m, err);
    if (b->runs.n == 0)
        b->bytes = bytes;
    b->of = of;
    b->end = bytes + pages->count * PAGE;
    return rc < 0 ? rc
           : dz_vec_push(&b->runs, *pages) < 0
               ? dz_fail(err, b->runs.err, "resume the machine: out of memory")
               : 0;
}

int dz_native_piece(struct dz_machine *m, uint32_t row, const struct dz_mem_piece *p,
                    struct dz_err *err)
{
    const struct dz_machine_native *ops = m->ops->native;
    struct dz_native_ref *ref = dz_native_ref_of(&m->native, &m->mem.rows.p[row]);
    struct dz_native_memory *of = ref ? find(&m->native, p->run.space) : NULL;
    const uint64_t end = p->run.first + p->run.count;
    int rc = 0;
    if (!of || p->run.kind != DZ_MEM_BYTES || (!p->bytes && ref->read))
        return 0;
    ref->row = row + 1;
    const uint32_t home = (uint32_t)(ref - m->native.refs.p) + 1;
    for (size_t i = first_extent(&of->extents, p->run.first);
         rc == 0 && i < of->extents.n && of->extents.p[i].first < end; i++) {
        const struct dz_extent *e = &of->extents.p[i];
        if (e->home != home)
            continue;
        const bool late = of->absent && !ref->hot;
        const uint64_t from = e->first > p->run.first ? e->first : p->run.first;
        const struct dz_machine_pages pages = {.first = from, .count = MIN(END(e), end) - from};
        m->native.laid += pages.count;
        if (late)
            continue;
        const uint8_t *bytes = p->bytes + (from - p->run.first) * PAGE;
        if (ops)
            rc = add_to_batch(m, of, &pages, bytes, err);
        rc = rc < 0 ? rc : note_sums(m, of, e, &pages, bytes, err);
        m->stats.pages += pages.count;
    }
    return rc;
}

static int only_native(void *arg, uint32_t row, const struct dz_mem_piece *p, struct dz_err *err)
{
    return dz_native_piece(arg, row, p, err);
}

/* The rows were only listed: read those that have pages. */
static int count_and_piece(void *arg, uint32_t row, const struct dz_mem_piece *p,
                           struct dz_err *err)
{
    ((struct dz_machine *)arg)->mem.rows.p[row].pages += p->run.count;
    return dz_native_piece(arg, row, p, err);
}

/* If no page of the row is needed now, read its runs only. 1: done. 0: the row has to be read. */
static int leave_row(struct dz_machine *m, struct dz_mem_reader *r, const struct dz_mem_taker *to,
                     struct dz_err *err)
{
    const struct dz_native_ref *ref = dz_native_ref_of(&m->native, &m->mem.rows.p[to->row]);
    if (ref->read)
        return 0;
    DZ_AUTO(dz_freep) uint8_t *head = dz_alloc(DZ_MEM_INDEX_MAX);
    return head ? dz_mem_row_index(r, m, head, to, err)
                : dz_fail(err, DZ_ENOMEM, "read the machine's memory: out of memory");
}

static struct dz_db *db_of(const struct dz_machine *m, bool below)
{
    return below ? m->image : m->db;
}

/* The rows of the file, or of the image, whose pages were not taken yet. counted: the pages of each
 * row are known. */
static int read_rows(struct dz_machine *m, bool below, bool counted, struct dz_err *err)
{
    dz_mem_piece_fn *fn = counted ? only_native : count_and_piece;
    struct dz_mem_reader r;
    int rc = dz_mem_reader_open(&r, db_of(m, below), err);
    for (uint32_t i = 0; rc == 0 && i < m->mem.rows.n; i++) {
        const struct dz_native_ref *ref = dz_native_ref_of(&m->native, &m->mem.rows.p[i]);
        if (m->mem.rows.p[i].below == below && ref && !ref->row) {
            const struct dz_mem_taker to = {i, fn, m};
            rc = leave_row(m, &r, &to, err);
            if (rc != 0) {
                rc = rc < 0 ? rc : 0;
                continue;
            }
            rc = dz_mem_row_each(&r, m, i, fn, m, err);
            rc = rc < 0 ? rc : dz_native_flush(m, err);
            m->stats.bytes += r.blob ? dz_blob_size(r.blob) : 0;
        }
    }
    dz_mem_reader_close(&r);
    return rc;
}

/* --- pages by need ------------------------------------------------------------------------------
 */

bool dz_native_is_based(const struct dz_native *n)
{
    return n->refs.n && n->refs.p[n->refs.n - 1].below;
}

/* The newest rows have the pages that the program used lately: those that it wrote, and those that
 * it needed, because a sleep writes these again. Nothing is known after the first sleep, which
 * wrote everything, unless the rest stayed in the image. */
static void find_hot(struct dz_native *n)
{
    const int64_t first = dz_native_is_based(n) ? 1 : 2;
    int64_t gen = 0; /* the newest */
    uint64_t pages = 0;
    for (size_t i = n->refs.n; i-- > 0;) {
        struct dz_native_ref *ref = &n->refs.p[i];
        gen = !ref->below && ref->gen > gen ? ref->gen : gen;
        ref->hot = !ref->below && ref->gen >= first && gen - ref->gen < HOT_GENERATIONS &&
                   pages + ref->pages <= HOT_PAGES;
        pages += ref->hot ? ref->pages : 0;
        ref->read = ref->hot;
    }
}

/* The pages of rows that are not hot, in runs that take in short gaps between them: each run costs
 * the host a mapping or two. */
static void find_late(const struct dz_native *n, const struct dz_native_memory *of,
                      struct dz_machine_pages_list *to)
{
    bool near = false; /* no hot page lies between here and the last run */
    for (size_t i = 0; i < of->extents.n; i++) {
        const struct dz_extent *e = &of->extents.p[i];
        struct dz_machine_pages *last = to->n ? &to->p[to->n - 1] : NULL;
        const bool late = !n->refs.p[e->home - 1].hot;
        if (late && near && last && e->first - END(last) <= GAP)
            last->count = END(e) - last->first;
        else if (late)
            dz_vec_push(to, ((struct dz_machine_pages){e->first, e->count, false}));
        near = late;
    }
}

static int leave_memory(struct dz_machine *m, struct dz_native_memory *of, struct dz_err *err)
{
    const struct dz_machine_native *ops = m->ops->native;
    struct dz_machine_pages_list late = {.max = DZ_MACHINE_RUNS_MAX};
    struct dz_err why = {0};
    find_late(&m->native, of, &late);
    uint64_t total = 0;
    if (of->extents.n) {
        const struct dz_extent *last = &of->extents.p[of->extents.n - 1];
        total = last->sums + last->count;
    }
    int rc = DZ_EUNSUPPORTED;
    if (!late.err && count_pages(&late) >= LATE_MIN)
        rc = ops->leave(ops->arg, &of->mem, late.p, late.n, &why);
    dz_vec_release(&late);
    if (rc == DZ_EUNSUPPORTED)
        return 0;
    if (rc < 0) {
        if (err)
            *err = why;
        return rc;
    }
    of->absent = true;
    while (of->sums.n < total)
        if (dz_vec_push(&of->sums, 0) < 0)
            return dz_fail(err, of->sums.err, "resume the machine: too many pages");
    return 0;
}

/* The pages that this wake writes. */
static int ready_memory(struct dz_machine *m, const struct dz_native_memory *of, struct dz_err *err)
{
    const struct dz_machine_native *ops = m->ops->native;
    struct dz_machine_pages_list now = {.max = DZ_MACHINE_RUNS_MAX};
    for (size_t i = 0; i < of->extents.n; i++) {
        const struct dz_extent *e = &of->extents.p[i];
        struct dz_machine_pages *last = now.n ? &now.p[now.n - 1] : NULL;
        if (of->absent && !m->native.refs.p[e->home - 1].hot)
            continue;
        if (last && END(last) == e->first)
            last->count += e->count;
        else
            dz_vec_push(&now, ((struct dz_machine_pages){e->first, e->count, false}));
    }
    const int rc = now.err ? dz_fail(err, now.err, "resume the machine: too many runs of pages")
                   : now.n ? ops->ready(ops->arg, &of->mem, now.p, now.n, err)
                           : 0;
    dz_vec_release(&now);
    return rc;
}

/* Leave out what can be left out; the rows of everything else are read. */
int dz_native_leave(struct dz_machine *m, struct dz_err *err)
{
    const struct dz_machine_native *ops = m->ops->native;
    struct dz_native *n = &m->native;
    int rc = 0;
    find_hot(n);
    for (size_t i = 0; i < n->of.n && rc == 0; i++)
        if (ops && ops->leave && n->of.p[i].mem.kind == DZ_MACHINE_PRIVATE)
            rc = leave_memory(m, &n->of.p[i], err);
    for (size_t i = 0; i < n->of.n && rc == 0; i++)
        if (ops && ops->ready && n->of.p[i].mem.kind == DZ_MACHINE_PRIVATE)
            rc = ready_memory(m, &n->of.p[i], err);
    for (size_t i = 0; i < n->of.n; i++)
        for (size_t k = 0; k < n->of.p[i].extents.n; k++) {
            struct dz_native_ref *ref = &n->refs.p[n->of.p[i].extents.p[k].home - 1];
            ref->read = ref->read || !n->of.p[i].absent;
        }
    return rc;
}

static int cache_piece(void *arg, uint32_t row, const struct dz_mem_piece *p, struct dz_err *err)
{
    struct dz_native_cached *c = arg;
    (void)row;
    const struct dz_native_piece one = {p->run.space, p->run.first, p->run.count, p->bytes};
    return !p->bytes || dz_vec_push(&c->pieces, one) == 0
               ? 0
               : dz_fail(err, DZ_ENOMEM, "read the machine's memory: out of memory");
}

static int cached_row(struct dz_machine *m, uint32_t row, const struct dz_native_cached **ret,
                      struct dz_err *err)
{
    struct dz_native *n = &m->native;
    struct dz_native_cached *c = &n->cached[0];
    const int64_t rowid = m->mem.rows.p[row].rowid;
    const bool below = m->mem.rows.p[row].below;
    for (size_t i = 0; i < DZ_NATIVE_CACHED; i++) {
        if (n->cached[i].used && n->cached[i].rowid == rowid && n->cached[i].below == below) {
            n->cached[i].used = ++n->uses;
            *ret = &n->cached[i];
            return 0;
        }
        c = n->cached[i].used < c->used ? &n->cached[i] : c;
    }
    c->used = 0;
    n->uses++;
    dz_vec_reset(&c->pieces);
    int rc = c->reader.plain ? 0 : dz_mem_reader_open(&c->reader, db_of(m, below), err);
    c->reader.db = db_of(m, below);
    if (rc == 0)
        rc = dz_mem_row_each(&c->reader, m, row, cache_piece, c, err);
    dz_blob_close(c->reader.blob); /* while a blob is open, SQLite cannot empty the log */
    c->reader.blob = NULL;
    if (rc < 0)
        return dz_wrap(err, rc, "row %lld of generation %lld", (long long)m->mem.rows.p[row].seq,
                       (long long)m->mem.rows.p[row].gen);
    c->rowid = rowid;
    c->below = below;
    c->used = n->uses;
    *ret = c;
    return 0;
}

/* Write these pages of an extent, which its row must have. */
static int need_part(struct dz_machine *m, struct dz_native_memory *of, const struct dz_extent *e,
                     struct dz_machine_pages part, struct dz_err *err)
{
    const struct dz_machine_native *ops = m->ops->native;
    const struct dz_native_cached *c = NULL;
    int rc = cached_row(m, e->home - 1, &c, err);
    while (rc == 0 && part.count) {
        const struct dz_native_piece *p = NULL;
        for (size_t i = 0; i < c->pieces.n && !p; i++)
            if (c->pieces.p[i].key == of->key && c->pieces.p[i].first <= part.first &&
                part.first - c->pieces.p[i].first < c->pieces.p[i].count)
                p = &c->pieces.p[i];
        if (!p)
            return BAD(err, "a row does not have page %llu", (unsigned long long)part.first);
        const struct dz_machine_pages now = {part.first, MIN(END(&part), END(p)) - part.first,
                                             false};
        const uint8_t *bytes = p->bytes + (now.first - p->first) * PAGE;
        rc = ops->write(ops->arg, &of->mem, &now, 1, bytes, err);
        rc = rc < 0 ? rc : note_sums(m, of, e, &now, bytes, err);
        part.first += now.count;
        part.count -= now.count;
    }
    return rc;
}

int dz_native_need(struct dz_machine *m, const struct dz_machine_memory *mem, uint64_t first,
                   uint64_t count, struct dz_err *err)
{
    struct dz_native_memory *of = find(&m->native, dz_native_key(mem));
    int rc = 0;
    assert(count > 0 && first + count > first);
    for (size_t i = of ? first_extent(&of->extents, first) : 0;
         of && rc == 0 && i < of->extents.n && of->extents.p[i].first < first + count; i++) {
        const struct dz_extent *e = &of->extents.p[i];
        const uint64_t from = e->first > first ? e->first : first;
        if (m->mem.rows.p[e->home - 1].late)
            rc = need_part(
                m, of, e, (struct dz_machine_pages){from, MIN(END(e), first + count) - from, false},
                err);
    }
    return rc;
}

static int check_laid(const struct dz_native *n, struct dz_err *err)
{
    return n->laid == n->pages ? 0
                               : BAD(err, "its rows have %llu of %llu pages of native programs",
                                     (unsigned long long)n->laid, (unsigned long long)n->pages);
}

/* List the rows of the image that have pages. */
static int list_below(struct dz_machine *m, struct dz_err *err)
{
    if (!m->image)
        return BAD(err,
                   "the list of its pages has rows of an image, and there is none below the file");
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(m->image, dz_machine_sql_mem_list);
    int rc;
    while ((rc = dz_stmt_step(st, err)) > 0) {
        const struct dz_mem_row row = {.rowid = dz_col_int(st, 0),
                                       .gen = dz_col_int(st, 1),
                                       .seq = dz_col_int(st, 2),
                                       .below = true};
        if (dz_native_ref_of(&m->native, &row) && dz_vec_push(&m->mem.rows, row) < 0)
            return dz_fail(err, m->mem.rows.err, "resume the machine: too many rows of memory");
    }
    return rc;
}

/* Who inspects a file does not need its image: its pages there are not looked at. */
static void pass_below(struct dz_native *n)
{
    for (size_t i = 0; i < n->refs.n; i++)
        if (n->refs.p[i].below && !n->refs.p[i].row)
            n->laid += n->refs.p[i].pages;
}

int dz_native_map(struct dz_machine *m, enum dz_native_rows rows, struct dz_err *err)
{
    struct dz_native *n = &m->native;
    const bool looks = !m->ops->native, based = dz_native_is_based(n);
    int rc = 0;
    if (rows != DZ_NATIVE_READ && n->refs.n)
        rc = read_rows(m, false, rows == DZ_NATIVE_COUNTED, err);
    if (rc == 0 && based && looks)
        pass_below(n);
    else if (rc == 0 && based)
        rc = list_below(m, err);
    if (rc == 0 && based && !looks)
        rc = read_rows(m, true, false, err);
    if (rc == 0)
        rc = check_laid(n, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n->of.n; i++)
        for (size_t k = 0; k < n->of.p[i].extents.n; k++) {
            struct dz_extent *e = &n->of.p[i].extents.p[k];
            const struct dz_native_ref *ref = &n->refs.p[e->home - 1];
            if (looks && ref->below && !ref->row)
                continue;
            if (!ref->row ||
                m->mem.rows.p[ref->row - 1].pages - m->mem.rows.p[ref->row - 1].live < e->count)
                return BAD(err, "a row has fewer pages than the list says");
            m->mem.rows.p[ref->row - 1].live += (uint32_t)e->count;
            m->mem.rows.p[ref->row - 1].late = !ref->hot;
            e->home = ref->row;
        }
    dz_vec_reset(&n->refs);
    return 0;
}

void dz_native_mark(struct dz_machine *m)
{
    const struct dz_machine_native *ops = m->ops->native;
    for (size_t i = 0; ops && ops->mark && i < m->native.of.n; i++)
        (void)ops->mark(ops->arg, &m->native.of.p[i].mem, NULL);
}

uint64_t dz_native_live(const struct dz_native *n)
{
    uint64_t live = 0;
    for (size_t i = 0; i < n->of.n; i++)
        for (size_t k = 0; k < n->of.p[i].extents.n; k++)
            live += n->of.p[i].extents.p[k].count;
    return live;
}

void dz_native_renumber(struct dz_native *n, const uint32_t *to)
{
    for (size_t i = 0; i < n->of.n; i++)
        for (size_t k = 0; k < n->of.p[i].extents.n; k++)
            n->of.p[i].extents.p[k].home = to[n->of.p[i].extents.p[k].home];
}

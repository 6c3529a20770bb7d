/* SPDX-License-Identifier: MIT
 *
 * machine_list.c - the list of the pages of native programs, which a sleep writes and a wake reads
 * (docs/format/machine.md).
 *
 * The list is not trusted: rows and memories ascend, extents are disjoint, and each names a row of
 * the list. Whether that row exists, and has the pages, machine_native.c finds when it reads the
 * rows.
 */
#include "machine/machine_mem.h"

#include "base/mem.h"
#include "machine/machine_state.h"

#include <stdlib.h>
#include <string.h>

#define END(e)    ((e)->first + (e)->count)
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define BAD(err, ...) \
    dz_fail(err, DZ_ECORRUPT, "the memory of the machine in the file is damaged: " __VA_ARGS__)

enum {
    SUM_SEED = 3,
};
#define BELOW (UINT64_C(1) << 62) /* in the list, added to the generation of a row of the image */

/* --- writing -------------------------------------------------------------------------------- */

/* u64 checksum of the rest; numbers in LEB128: rows, for each its generation and number; memories,
 * for each its kind, id and extents, for each extent the pages since the last one, its pages, and
 * the place of its row in the list of rows. */

struct rows_used {
    uint32_t *to; /* by row: its place in the list of rows plus 1 */
    uint32_t *by; /* rows by generation and number */
    uint32_t count;
};

static int by_age(const void *a, const void *b, void *arg)
{
    const struct dz_mem_rows *rows = arg;
    const struct dz_mem_row *x = &rows->p[*(const uint32_t *)a];
    const struct dz_mem_row *y = &rows->p[*(const uint32_t *)b];
    if (x->below != y->below)
        return x->below ? 1 : -1;
    if (x->gen != y->gen)
        return x->gen < y->gen ? -1 : 1;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static void use_rows(struct rows_used *u, const struct dz_extents *e)
{
    for (size_t i = 0; i < e->n; i++)
        if (!u->to[e->p[i].home - 1]) {
            u->to[e->p[i].home - 1] = 1;
            u->by[u->count++] = e->p[i].home - 1;
        }
}

/* The list begins with 8 bytes of room for its checksum. */
static void seal(struct dz_buf *b)
{
    uint64_t sum;
    if (b->err)
        return;
    sum = dz_machine_sum(SUM_SEED, b->p + sizeof sum, b->len - sizeof sum);
    memcpy(b->p, &sum, sizeof sum);
}

/* ref: the place of the extent's row in the list of rows. `at`: the end of the last extent. */
static void put_extent(struct dz_buf *b, const struct dz_extent *e, uint64_t ref, uint64_t *at)
{
    dz_record_put_number(b, e->first - *at);
    dz_record_put_number(b, e->count);
    dz_record_put_number(b, ref);
    *at = END(e);
}

static void encode(const struct dz_native_memories *of, struct dz_mem_rows *rows,
                   struct rows_used *u, struct dz_buf *b)
{
    uint64_t sum = 0;
    dz_buf_add(b, &sum, sizeof sum);
    for (size_t i = 0; i < of->n; i++)
        use_rows(u, &of->p[i].extents);
    if (u->count)
        qsort_r(u->by, u->count, sizeof *u->by, by_age, rows);
    dz_record_put_number(b, u->count);
    for (uint32_t i = 0; i < u->count; i++) {
        u->to[u->by[i]] = i;
        const struct dz_mem_row *row = &rows->p[u->by[i]];
        dz_record_put_number(b, (uint64_t)row->gen + (row->below ? BELOW : 0));
        dz_record_put_number(b, (uint64_t)row->seq);
    }
    dz_record_put_number(b, of->n);
    for (size_t i = 0; i < of->n; i++) {
        const struct dz_native_memory *one = &of->p[i];
        uint64_t at = 0;
        dz_record_put_number(b, one->mem.kind);
        dz_record_put_number(b, one->mem.id);
        dz_record_put_number(b, one->extents.n);
        for (size_t k = 0; k < one->extents.n; k++) {
            const struct dz_extent *e = &one->extents.p[k];
            put_extent(b, e, u->to[e->home - 1], &at);
        }
    }
    seal(b);
}

int dz_native_list_put(struct dz_db *db, const struct dz_buf *b, struct dz_err *err)
{
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < b->len; at += DZ_STATE_PIECE) {
        DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(db, dz_machine_sql_pages_put);
        dz_bind_int(st, 1, (int64_t)(at / DZ_STATE_PIECE));
        dz_bind_blob(st, 2, b->p + at, MIN(b->len - at, (size_t)DZ_STATE_PIECE));
        rc = dz_stmt_run(st, err);
    }
    return rc;
}

int dz_native_list_write(struct dz_machine *m, const struct dz_native_memories *of,
                         struct dz_mem_rows *rows, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(DZ_MACHINE_NATIVE_MAX);
    struct rows_used u = {.to = dz_zarray(rows->n + 1, sizeof *u.to),
                          .by = dz_zarray(rows->n + 1, sizeof *u.by)};
    int rc = u.to && u.by ? dz_stmt_run(dz_db_stmt(m->db, dz_machine_sql_pages_drop), err)
                          : dz_fail(err, DZ_ENOMEM, "suspend the machine: out of memory");
    if (rc == 0 && of->n)
        encode(of, rows, &u, &b);
    if (rc == 0 && b.err)
        rc = dz_fail(err, b.err, "suspend the machine: the list of its pages is too long");
    dz_free(u.to);
    dz_free(u.by);
    return rc < 0 ? rc : dz_native_list_put(m->db, &b, err);
}

/* Rows of the image come first in a list, those of the file last. */
void dz_native_list_rebase(const struct dz_native *n, int64_t shift, struct dz_buf *to)
{
    const uint64_t sum = 0;
    size_t own = 0;
    while (own < n->refs.n && !n->refs.p[own].below)
        own++;
    const size_t below = n->refs.n - own;
    dz_buf_add(to, &sum, sizeof sum);
    dz_record_put_number(to, n->refs.n);
    for (size_t i = 0; i < n->refs.n; i++) {
        const struct dz_native_ref *ref = &n->refs.p[i < below ? own + i : i - below];
        dz_record_put_number(to, (uint64_t)(ref->gen + (ref->below ? 0 : shift)));
        dz_record_put_number(to, (uint64_t)ref->seq);
    }
    dz_record_put_number(to, n->of.n);
    for (size_t i = 0; i < n->of.n; i++) {
        const struct dz_native_memory *one = &n->of.p[i];
        uint64_t at = 0;
        dz_record_put_number(to, one->mem.kind);
        dz_record_put_number(to, one->mem.id);
        dz_record_put_number(to, one->extents.n);
        for (size_t k = 0; k < one->extents.n; k++) {
            const struct dz_extent *e = &one->extents.p[k];
            const size_t ref = e->home - 1;
            put_extent(to, e, ref < own ? ref + below : ref - own, &at);
        }
    }
    seal(to);
}

/* --- reading -------------------------------------------------------------------------------- */

/* Rows of the file come before those of the image, and each in the order of their generations. */
static bool is_before(const struct dz_native_ref *a, const struct dz_native_ref *b)
{
    return a->below != b->below ? b->below : a->gen != b->gen ? a->gen < b->gen : a->seq < b->seq;
}

/* image: the list is that of the image's machine. */
static int read_refs(struct dz_native *n, struct dz_view *v, bool image, struct dz_err *err)
{
    uint64_t count, gen, seq;
    if (!dz_record_get_number(&v->at, v->end, &count) || count > DZ_MACHINE_ROWS_MAX)
        return BAD(err, "the list of its pages is cut off");
    for (uint64_t i = 0; i < count; i++) {
        if (!dz_record_get_number(&v->at, v->end, &gen) ||
            !dz_record_get_number(&v->at, v->end, &seq))
            return BAD(err, "the list of its pages is cut off");
        const bool below = gen >= BELOW;
        gen -= below ? BELOW : 0;
        if (gen > INT64_MAX / 2 || seq > INT64_MAX || (image && below))
            return BAD(err, "a row in the list of its pages is invalid");
        const struct dz_native_ref ref = {.gen = (int64_t)gen,
                                          .seq = (int64_t)seq,
                                          .below = below || image,
                                          .hot = true,
                                          .read = true};
        if (n->refs.n && !is_before(&n->refs.p[n->refs.n - 1], &ref))
            return BAD(err, "the rows in the list of its pages are not in order");
        if (dz_vec_push(&n->refs, ref) < 0)
            return dz_fail(err, n->refs.err, "resume the machine: out of memory");
    }
    return 0;
}

static int read_extents(struct dz_native *n, struct dz_view *v, struct dz_extents *to,
                        struct dz_err *err)
{
    uint64_t count, gap, pages, ref, at = 0, sums = 0;
    if (!dz_record_get_number(&v->at, v->end, &count))
        return BAD(err, "the list of its pages is cut off");
    for (uint64_t i = 0; i < count; i++) {
        if (!dz_record_get_number(&v->at, v->end, &gap) ||
            !dz_record_get_number(&v->at, v->end, &pages) ||
            !dz_record_get_number(&v->at, v->end, &ref))
            return BAD(err, "the list of its pages is cut off");
        if (gap > DZ_NATIVE_PAGES_MAX - at || pages == 0 ||
            pages > DZ_NATIVE_PAGES_MAX - at - gap || pages > DZ_MEM_ROW_PAGES || ref >= n->refs.n)
            return BAD(err, "an entry in the list of its pages is invalid");
        at += gap;
        const struct dz_extent e = {at, pages, sums, (uint32_t)ref + 1};
        at += pages;
        sums += pages;
        n->pages += pages;
        n->refs.p[ref].pages += pages;
        if (dz_vec_push(to, e) < 0)
            return dz_fail(err, to->err, "resume the machine: out of memory");
    }
    return 0;
}

static int read_memories(struct dz_native *n, struct dz_view *v, struct dz_err *err)
{
    uint64_t count, kind, id;
    if (!dz_record_get_number(&v->at, v->end, &count))
        return BAD(err, "the list of its pages is cut off");
    for (uint64_t i = 0; i < count; i++) {
        if (!dz_record_get_number(&v->at, v->end, &kind) ||
            !dz_record_get_number(&v->at, v->end, &id))
            return BAD(err, "the list of its pages is cut off");
        if (kind < DZ_MACHINE_PRIVATE || kind > DZ_MACHINE_OBJECT || id >= DZ_MACHINE_IDS_MAX)
            return BAD(err, "the list of its pages has an invalid memory");
        struct dz_native_memory one = {.mem = {.kind = (enum dz_machine_memory_kind)kind, .id = id},
                                       .extents.max = DZ_NATIVE_EXTENTS_MAX,
                                       .sums.max = DZ_NATIVE_EXTENTS_MAX};
        one.key = dz_native_key(&one.mem);
        if (n->of.n && n->of.p[n->of.n - 1].key >= one.key)
            return BAD(err, "the memories in the list of its pages are not in order");
        if (dz_vec_push(&n->of, one) < 0)
            return dz_fail(err, n->of.err, "resume the machine: too many memories");
        int rc = read_extents(n, v, &n->of.p[n->of.n - 1].extents, err);
        if (rc < 0)
            return rc;
    }
    return v->at == v->end ? 0 : BAD(err, "there are bytes after the list of its pages");
}

int dz_native_list_read(struct dz_machine *m, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(DZ_MACHINE_NATIVE_MAX);
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(m->from, dz_machine_sql_pages);
    uint64_t sum;
    int rc;
    while ((rc = dz_stmt_step(st, err)) > 0) {
        size_t size;
        const void *bytes = dz_col_blob(st, 0, &size);
        dz_buf_add(&b, bytes, size);
    }
    if (rc < 0 || b.len == 0)
        return rc < 0 ? rc : b.err ? dz_fail(err, b.err, "resume the machine: out of memory") : 0;
    if (b.err)
        return dz_fail(err, b.err, "resume the machine: the list of its pages is too long");
    struct dz_view v = {(const uint8_t *)b.p, (const uint8_t *)b.p + b.len};
    if (!dz_view_take(&v, &sum, sizeof sum) ||
        dz_machine_sum(SUM_SEED, v.at, dz_view_left(&v)) != sum)
        return BAD(err, "the checksum of the list of its pages is wrong");
    rc = read_refs(&m->native, &v, m->below, err);
    return rc < 0 ? rc : read_memories(&m->native, &v, err);
}

static int by_row(const void *a, const void *b)
{
    return is_before(a, b) ? -1 : is_before(b, a);
}

struct dz_native_ref *dz_native_ref_of(struct dz_native *n, const struct dz_mem_row *row)
{
    const struct dz_native_ref wanted = {.gen = row->gen, .seq = row->seq, .below = row->below};
    return n->refs.n ? bsearch(&wanted, n->refs.p, n->refs.n, sizeof wanted, by_row) : NULL;
}

/* SPDX-License-Identifier: MIT
 *
 * machine_need.c - memory that comes when it is touched.
 *
 * At the wake only the runs of each row are read: which page has which home. The pages
 * that a row has bytes for are made absent, in runs; few pages between two runs, which no row
 * names, with them. The first touch of one brings in its row, all that lives
 * in it, or, where it has none, what its base has. Who touches is the program, of which the
 * embedder hears from the host's kernel, or the host, which is told before it is given a
 * pointer. Neither is ever inside of SQLite then, so the row is read as any other, by the same
 * handle: a row stays as it was until a sleep deletes it, and that only when nothing
 * lives in it.
 *
 * An absent page is as its home says, so it has not changed, and a sleep leaves it.
 * A row that is damaged is noticed when it is read. Then the page becomes as its base, so that the
 * program comes to its next safepoint, and no further: see dz_machine_damage().
 */
#include "machine/machine_mem.h"

#include "base/mem.h"
#include "wasm/wasm.h"

#include <assert.h>
#include <string.h>

#define PAGE ((size_t)DZ_MACHINE_PAGE)

enum {
    GAP = 8,         /* pages between runs that become absent, too */
    RUNS_MAX = 8192, /* each is a mapping, of which the host's kernel allows 65,530 */
};

/* --- when it is touched ----------------------------------------------------------------- */

static struct dz_space *space_at(struct dz_machine *m, const uint8_t *at)
{
    for (size_t i = 0; i < m->mem.spaces.n; i++) {
        struct dz_space *s = &m->mem.spaces.p[i];
        if (s->absent && at >= s->range.at && (size_t)(at - s->range.at) < s->absents * PAGE)
            return s;
    }
    return NULL;
}

/* bytes NULL: zeros. */
static int fill(struct dz_machine *m, struct dz_space *s, size_t page, size_t count,
                const uint8_t *bytes, struct dz_err *err)
{
    uint8_t *at = s->range.at + page * PAGE;
    int rc = 0;
    assert(count > 0 && page + count <= s->absents);
    if (s->absent[page] == DZ_ABSENT_YES)
        rc = m->ops->fill(m->ops->arg, at, bytes, count * PAGE, err);
    else if (bytes)
        memcpy(at, bytes, count * PAGE);
    if (rc < 0)
        return rc;
    memset(s->absent + page, DZ_ABSENT_NO, count);
    m->mem.absent -= count;
    return 0;
}

static int fill_piece(void *arg, uint32_t row, const struct dz_mem_piece *p, struct dz_err *err)
{
    struct dz_machine *m = arg;
    struct dz_space *s = dz_mem_space(&m->mem, p->run.space);
    int rc = 0;
    if (!s || !p->bytes || p->run.first >= s->absents)
        return 0;
    size_t end = (size_t)p->run.first + p->run.count, next;
    end = end < s->absents ? end : s->absents;
    for (size_t page = p->run.first; rc == 0 && page < end; page = next) {
        uint8_t how = s->absent[page];
        for (next = page; next < end && s->absent[next] == how && s->home[next] == row + 1; next++)
            ;
        if (next == page)
            next++;
        else if (how)
            rc = fill(m, s, page, next - page, p->bytes + (page - p->run.first) * PAGE, err);
    }
    return rc;
}

static int fill_row(struct dz_machine *m, uint32_t row, struct dz_err *err)
{
    struct dz_mem_reader *r = &m->reader;
    assert(!m->filling); /* reading touches no memory of a program */
    m->filling = true;
    int rc = r->plain ? 0 : dz_mem_reader_open_large(r, m->db, err);
    if (rc == 0)
        rc = dz_mem_row_each(r, m, row, fill_piece, m, err);
    dz_blob_close(r->blob); /* while one is open the log is not emptied */
    r->blob = NULL;
    m->filling = false;
    return rc < 0 ? dz_wrap(err, rc, "row %lld of generation %lld",
                            (long long)m->mem.rows.p[row].seq, (long long)m->mem.rows.p[row].gen)
                  : 0;
}

static int fill_base(struct dz_machine *m, struct dz_space *s, size_t page, struct dz_err *err)
{
    const struct dz_machine_range *r = &s->range;
    size_t at = page * PAGE;
    bool image = at >= r->image_at && at - r->image_at < r->image_size;
    return fill(m, s, page, 1, image ? r->image + (at - r->image_at) : NULL, err);
}

static int need_page(struct dz_machine *m, struct dz_space *s, size_t page, struct dz_err *err)
{
    uint32_t home = s->home[page];
    int rc = home ? fill_row(m, home - 1, err) : 0;
    if (rc < 0 || !s->absent[page])
        return rc;
    if (home)
        return dz_fail(err, DZ_ECORRUPT,
                       "the memory of the machine in the file is damaged: row %u has not page %zu",
                       home - 1, page);
    return fill_base(m, s, page, err);
}

int dz_machine_mem_need(struct dz_machine *m, struct dz_space *s, size_t at, size_t size,
                        struct dz_err *err)
{
    size_t page = at / PAGE, end = (at + size + PAGE - 1) / PAGE;
    int rc = 0;
    for (; rc == 0 && page < end && page < s->absents; page++)
        if (s->absent[page])
            rc = need_page(m, s, page, err);
    return rc;
}

/* The program may not go on, but must get to where it can be stopped. */
static void damaged(struct dz_machine *m, struct dz_space *s, size_t at, size_t size, int rc,
                    const struct dz_err *err)
{
    if (m->mem.damage.code == 0) {
        m->mem.damage = *err;
        m->mem.damage.code = rc;
    }
    for (size_t page = at / PAGE; page * PAGE < at + size && page < s->absents; page++)
        if (s->absent[page])
            (void)fill_base(m, s, page, NULL);
    if (m->kernel)
        dz_kernel_interrupt(m->kernel);
}

static void need(struct dz_machine *m, struct dz_space *s, size_t at, size_t size)
{
    struct dz_err err = {0};
    int rc = dz_machine_mem_need(m, s, at, size, &err);
    if (rc < 0)
        damaged(m, s, at, size, rc, &err);
}

bool dz_machine_touched(struct dz_machine *m, const void *at)
{
    struct dz_space *s = space_at(m, at);
    uint8_t *page = (uint8_t *)(uintptr_t)at - (uintptr_t)at % PAGE;
    if (!s) /* of a process that has ended, perhaps, whose memory another has now */
        return m->ops->fill(m->ops->arg, page, NULL, PAGE, NULL) == 0;
    size_t number = (size_t)(page - s->range.at) / PAGE;
    if (m->filling || !s->absent[number])
        return false;
    need(m, s, number * PAGE, PAGE);
    return !s->absent[number];
}

int dz_machine_damage(const struct dz_machine *m, struct dz_err *err)
{
    if (m->mem.damage.code == 0)
        return 0;
    if (err)
        *err = m->mem.damage;
    return m->mem.damage.code;
}

/* --- what the engine tells ------------------------------------------------------------------ */

static void on_need(void *arg, uint8_t *at, uint64_t size)
{
    struct dz_machine *m = arg;
    struct dz_space *s = m->mem.absent && size ? space_at(m, at) : NULL;
    if (s)
        need(m, s, (size_t)(at - s->range.at), (size_t)size);
}

static void on_gone(void *arg, const uint8_t *base)
{
    struct dz_machine *m = arg;
    for (size_t i = 0; i < m->mem.spaces.n; i++) {
        struct dz_space *s = &m->mem.spaces.p[i];
        if (s->range.at != base)
            continue;
        for (size_t page = 0; page < s->absents; page++)
            m->mem.absent -= s->absent[page] != DZ_ABSENT_NO;
        dz_free(s->absent);
        s->absent = NULL;
        s->absents = 0;
    }
}

bool dz_machine_rests(const struct dz_machine *m)
{
    return !m->reader.plain;
}

void dz_machine_rest(struct dz_machine *m)
{
    dz_mem_reader_close(&m->reader);
    m->reader = (struct dz_mem_reader){0};
}

void dz_mem_unwatch(struct dz_machine *m)
{
    if (!m->watching)
        return;
    dz_wasm_watch(NULL);
    (void)m->ops->watch(m->ops->arg, NULL, NULL);
    dz_machine_rest(m);
    m->watching = false;
    m->mem.absent = 0;
}

static int watch(struct dz_machine *m, struct dz_err *err)
{
    const struct dz_wasm_watcher w = {.need = on_need, .gone = on_gone, .arg = m};
    int rc = m->ops->watch(m->ops->arg, m, err);
    if (rc < 0)
        return rc;
    dz_wasm_watch(&w);
    m->watching = true;
    return 0;
}

/* --- at the wake ------------------------------------------------------------------------------ */

/* As dz_mem_lay_piece(), without the bytes. */
static int name_piece(void *arg, uint32_t row, const struct dz_mem_piece *p, struct dz_err *err)
{
    struct dz_machine *m = arg;
    struct dz_space *s = dz_mem_space(&m->mem, p->run.space);
    const struct dz_mem_piece bare = {.run = p->run};
    if (!s || !s->absent || p->run.kind != DZ_MEM_BYTES)
        return dz_mem_lay_piece(m, row, &bare, err);
    int rc = dz_mem_lay_piece(m, row, &bare, err);
    for (size_t i = 0; rc == 0 && i < p->run.count; i++) {
        size_t page = (size_t)p->run.first + i;
        if (s->home[page] != row + 1 || s->absent[page])
            continue;
        s->absent[page] = DZ_ABSENT_NAMED;
        m->mem.absent++;
    }
    return rc;
}

static int name_row(struct dz_machine *m, struct dz_mem_reader *r, uint32_t row, uint8_t *head,
                    struct dz_err *err)
{
    int64_t rowid = m->mem.rows.p[row].rowid;
    const struct dz_blob_at at = {.table = "mem", .column = "data", .rowid = rowid};
    const struct dz_mem_taker to = {row, name_piece, m};
    int rc = r->blob ? dz_blob_move(r->blob, rowid, err) : dz_blob_open(m->db, &at, &r->blob, err);
    if (rc < 0)
        return rc;
    size_t size = dz_blob_size(r->blob);
    size_t have = size < DZ_MEM_INDEX_FIRST ? size : DZ_MEM_INDEX_FIRST;
    rc = dz_blob_read(r->blob, head, have, 0, err);
    size_t want = rc == 0 ? dz_mem_index_size(head, have) : 0;
    if (want > have && want <= size) {
        rc = dz_blob_read(r->blob, head + have, want - have, have, err);
        have = want;
    }
    if (rc == 0)
        rc = dz_mem_index(head, have, size, &to, err);
    m->stats.bytes += have;
    return rc == 0 ? dz_mem_row_each(r, m, row, dz_mem_lay_piece, m, err) : rc;
}

static int name_rows(struct dz_machine *m, struct dz_err *err)
{
    struct dz_mem_reader r;
    DZ_AUTO(dz_freep) uint8_t *head = dz_alloc(DZ_MEM_INDEX_MAX);
    int rc = dz_mem_reader_open(&r, m->db, err);
    if (rc == 0 && !head)
        rc = dz_fail(err, DZ_ENOMEM, "read the machine's memory: out of memory");
    for (uint32_t i = 0; rc >= 0 && i < m->mem.rows.n; i++)
        rc = name_row(m, &r, i, head, err);
    dz_mem_reader_close(&r);
    return rc < 0 ? rc : 0;
}

static int list_rows(struct dz_machine *m, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(m->db, dz_machine_sql_mem_list);
    int rc;
    while ((rc = dz_stmt_step(st, err)) > 0) {
        struct dz_mem_row row = {
            .rowid = dz_col_int(st, 0), .gen = dz_col_int(st, 1), .seq = dz_col_int(st, 2)};
        rc = dz_col_type(st, 1) == DZ_DB_INT ? dz_mem_add_row(m, &row, err)
                                             : dz_fail(err, DZ_ECORRUPT, DZ_MEM_NO_SLEEP);
        if (rc < 0)
            return rc;
    }
    return rc;
}

/* The end of the run of absent pages that begins at `page`, with gaps that nothing was laid in. */
static size_t run_end(const struct dz_space *s, size_t page)
{
    size_t end = page + 1;
    for (size_t at = end; at < s->absents && at - end < GAP; at++) {
        if (s->absent[at])
            end = at + 1;
        else if (s->home[at])
            break;
    }
    return end;
}

/* No more mappings: what is named and not absent yet is laid now. */
static int lay_rest(struct dz_machine *m, struct dz_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < m->mem.spaces.n; i++) {
        struct dz_space *s = &m->mem.spaces.p[i];
        for (size_t page = 0; rc == 0 && page < s->absents; page++)
            if (s->absent[page] == DZ_ABSENT_NAMED)
                rc = need_page(m, s, page, err);
    }
    return rc;
}

static int make_absent(struct dz_machine *m, struct dz_err *err)
{
    size_t runs = 0;
    for (size_t i = 0; i < m->mem.spaces.n; i++) {
        struct dz_space *s = &m->mem.spaces.p[i];
        for (size_t page = 0, end; page < s->absents; page = end) {
            end = page + 1;
            if (!s->absent[page])
                continue;
            end = run_end(s, page);
            if (++runs > RUNS_MAX || m->ops->absent(m->ops->arg, s->range.at + page * PAGE,
                                                    (end - page) * PAGE, NULL) < 0) {
                for (; page < end; page++) /* it may have got as far as new pages */
                    if (!s->absent[page])
                        dz_mem_to_base(&s->range, page * PAGE);
                return lay_rest(m, err);
            }
            for (; page < end; page++) {
                m->mem.absent += s->absent[page] == DZ_ABSENT_NO;
                s->absent[page] = DZ_ABSENT_YES;
            }
        }
    }
    return 0;
}

int dz_mem_lay_by_need(struct dz_machine *m, struct dz_err *err)
{
    const struct dz_machine_ops *ops = m->ops;
    if (!ops->absent || !ops->fill || !ops->watch || m->from != m->db)
        return 0;
    m->stats.bytes = 0;
    int rc = list_rows(m, err);
    if (rc == 0 && m->mem.rows.n <= DZ_MEM_EAGER_ROWS) {
        m->mem.rows.n = 0;
        return 0;
    }
    for (size_t i = 0; rc == 0 && i < m->mem.spaces.n; i++) {
        struct dz_space *s = &m->mem.spaces.p[i];
        s->absent = dz_zalloc(s->homes + 1);
        s->absents = s->absent ? s->homes : 0;
        if (!s->absent)
            rc = dz_fail(err, DZ_ENOMEM, "no memory to keep track of %zu pages", s->homes);
    }
    if (rc == 0)
        rc = name_rows(m, err);
    if (rc == 0 && m->mem.absent)
        rc = watch(m, err);
    if (rc == 0)
        rc = make_absent(m, err);
    return rc < 0 ? rc : 1;
}

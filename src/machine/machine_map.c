/* SPDX-License-Identifier: MIT
 *
 * machine_map.c - a wake maps the rows of mem over new memories: by demand paging if it can,
 * otherwise at once.
 *
 * Rows are read from the newest to the oldest. The first row that names a page is its home; what
 * older rows have of the page is garbage, as are all pages of a process that has ended. A page
 * that no row names is as its base, which is mapped already: the module's image, or the memory of
 * the image's machine.
 *
 * With demand paging, a wake reads only the runs of each row, which give the home of each page.
 * Pages with bytes in a row are made missing in runs, including short gaps between two runs. The
 * first access to a missing page reads its row, with all pages that have it as home; a page of a
 * gap comes from its base. The access is made by the program, whose fault the host's kernel reports
 * to the embedder, or by the host itself, which asks before it uses a pointer. Neither is inside
 * SQLite then, so the row is read with the same handle: a row stays as it was until a sleep deletes
 * it, and a sleep deletes only rows that are home to no page.
 *
 * A missing page equals its home, so it has not changed, and a sleep skips it. A damaged row is
 * noticed when it is read: its pages then become as their base, so that the program reaches its
 * next safepoint, where it stops (dz_machine_damage()).
 */
#include "machine/machine_mem.h"

#include "base/mem.h"
#include "base/vm.h"
#include "wasm/wasm.h"

#include <assert.h>
#include <string.h>

#define PAGE ((size_t)DZ_MACHINE_PAGE)

enum {
    GAP = 8, /* gaps of at most this many pages become missing with their neighbours, which saves a
                mapping */
    RUNS_MAX = 8192, /* each run is a mapping, of which the host's kernel allows a process 65,530 */
};

/* --- the first touch of a page ----------------------------------------------------------- */

static struct dz_space *space_at(struct dz_machine *m, const uint8_t *at)
{
    for (size_t i = 0; i < m->mem.spaces.n; i++) {
        struct dz_space *s = &m->mem.spaces.p[i];
        if (s->page_state && at >= s->range.at &&
            (size_t)(at - s->range.at) < s->page_states * PAGE)
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
    assert(count > 0 && page + count <= s->page_states);
    if (s->page_state[page] == DZ_PAGE_MISSING)
        rc = m->ops->fill(m->ops->arg, at, bytes, count * PAGE, err);
    else if (bytes)
        memcpy(at, bytes, count * PAGE);
    if (rc < 0)
        return rc;
    memset(s->page_state + page, DZ_PAGE_PRESENT, count);
    m->mem.missing -= count;
    return 0;
}

static int fill_piece(void *arg, uint32_t row, const struct dz_mem_piece *p, struct dz_err *err)
{
    struct dz_machine *m = arg;
    struct dz_space *s = dz_mem_space(&m->mem, p->run.space);
    int rc = 0;
    if (!s || !p->bytes || p->run.first >= s->page_states)
        return 0;
    size_t end = (size_t)p->run.first + p->run.count, next;
    end = end < s->page_states ? end : s->page_states;
    for (size_t page = p->run.first; rc == 0 && page < end; page = next) {
        uint8_t how = s->page_state[page];
        for (next = page; next < end && s->page_state[next] == how && s->home[next] == row + 1;
             next++)
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
    assert(!m->filling); /* reading a row touches no memory of a program */
    m->filling = true;
    int rc = r->plain ? 0 : dz_mem_reader_open_large(r, m->db, err);
    if (rc == 0)
        rc = dz_mem_row_each(r, m, row, fill_piece, m, err);
    dz_blob_close(r->blob); /* while a blob is open, SQLite cannot empty the log */
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

static int page_in(struct dz_machine *m, struct dz_space *s, size_t page, struct dz_err *err)
{
    uint32_t home = s->home[page];
    int rc = home ? fill_row(m, home - 1, err) : 0;
    if (rc < 0 || !s->page_state[page])
        return rc;
    if (home)
        return dz_fail(
            err, DZ_ECORRUPT,
            "the memory of the machine in the file is damaged: row %u does not have page %zu",
            home - 1, page);
    return fill_base(m, s, page, err);
}

int dz_machine_mem_page_in(struct dz_machine *m, struct dz_space *s, size_t at, size_t size,
                           struct dz_err *err)
{
    size_t page = at / PAGE, end = (at + size + PAGE - 1) / PAGE;
    int rc = 0;
    for (; rc == 0 && page < end && page < s->page_states; page++)
        if (s->page_state[page])
            rc = page_in(m, s, page, err);
    return rc;
}

/* A page is damaged. The program must not continue, but it can only be stopped at a safepoint. */
static void damaged(struct dz_machine *m, struct dz_space *s, size_t at, size_t size, int rc,
                    const struct dz_err *err)
{
    if (m->mem.damage.code == 0) {
        m->mem.damage = *err;
        m->mem.damage.code = rc;
    }
    for (size_t page = at / PAGE; page * PAGE < at + size && page < s->page_states; page++)
        if (s->page_state[page])
            (void)fill_base(m, s, page, NULL);
    if (m->kernel)
        dz_kernel_interrupt(m->kernel);
}

static void need(struct dz_machine *m, struct dz_space *s, size_t at, size_t size)
{
    struct dz_err err = {0};
    int rc = dz_machine_mem_page_in(m, s, at, size, &err);
    if (rc < 0)
        damaged(m, s, at, size, rc, &err);
}

bool dz_machine_touched(struct dz_machine *m, const void *at)
{
    struct dz_space *s = space_at(m, at);
    uint8_t *page = (uint8_t *)(uintptr_t)at - (uintptr_t)at % PAGE;
    if (!s) /* the memory may be that of a process which has ended, and belong to another one now */
        return m->ops->fill(m->ops->arg, page, NULL, PAGE, NULL) == 0;
    size_t number = (size_t)(page - s->range.at) / PAGE;
    if (m->filling || !s->page_state[number])
        return false;
    need(m, s, number * PAGE, PAGE);
    return !s->page_state[number];
}

int dz_machine_need(struct dz_machine *m, const struct dz_machine_memory *mem, uint64_t first,
                    uint64_t count, struct dz_err *err)
{
    struct dz_err own = {0};
    err = err ? err : &own;
    const int rc = dz_native_need(m, mem, first, count, err);
    if (rc < 0 && m->mem.damage.code == 0) {
        m->mem.damage = *err;
        m->mem.damage.code = rc;
    }
    return rc;
}

int dz_machine_damage(const struct dz_machine *m, struct dz_err *err)
{
    if (m->mem.damage.code == 0)
        return 0;
    if (err)
        *err = m->mem.damage;
    return m->mem.damage.code;
}

/* --- calls from the engine --------------------------------------------------------------- */

static void on_demand(void *arg, uint8_t *at, uint64_t size)
{
    struct dz_machine *m = arg;
    struct dz_space *s = m->mem.missing && size ? space_at(m, at) : NULL;
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
        for (size_t page = 0; page < s->page_states; page++)
            m->mem.missing -= s->page_state[page] != DZ_PAGE_PRESENT;
        dz_free(s->page_state);
        s->page_state = NULL;
        s->page_states = 0;
    }
}

bool dz_machine_rests(const struct dz_machine *m)
{
    return !m->reader.plain && !dz_native_caches(&m->native);
}

void dz_machine_rest(struct dz_machine *m)
{
    dz_mem_reader_close(&m->reader);
    m->reader = (struct dz_mem_reader){0};
    dz_native_forget(&m->native);
}

void dz_mem_unwatch(struct dz_machine *m)
{
    if (!m->watching)
        return;
    dz_wasm_watch(NULL);
    (void)m->ops->watch(m->ops->arg, NULL, NULL);
    dz_machine_rest(m);
    m->watching = false;
    m->mem.missing = 0;
}

static int watch(struct dz_machine *m, struct dz_err *err)
{
    const struct dz_wasm_watcher w = {.need = on_demand, .gone = on_gone, .arg = m};
    int rc = m->ops->watch(m->ops->arg, m, err);
    if (rc < 0)
        return rc;
    dz_wasm_watch(&w);
    m->watching = true;
    return 0;
}

/* --- by demand --------------------------------------------------------------------------- */

/* As dz_mem_map_piece(), without the bytes. */
static int name_piece(void *arg, uint32_t row, const struct dz_mem_piece *p, struct dz_err *err)
{
    struct dz_machine *m = arg;
    struct dz_space *s = dz_mem_space(&m->mem, p->run.space);
    const struct dz_mem_piece bare = {.run = p->run};
    if (!s || !s->page_state || p->run.kind != DZ_MEM_BYTES)
        return dz_mem_map_piece(m, row, &bare, err);
    int rc = dz_mem_map_piece(m, row, &bare, err);
    for (size_t i = 0; rc == 0 && i < p->run.count; i++) {
        size_t page = (size_t)p->run.first + i;
        if (s->home[page] != row + 1 || s->page_state[page])
            continue;
        s->page_state[page] = DZ_PAGE_NAMED;
        m->mem.missing++;
    }
    return rc;
}

int dz_mem_row_index(struct dz_mem_reader *r, struct dz_machine *m, uint8_t *head,
                     const struct dz_mem_taker *to, struct dz_err *err)
{
    int64_t rowid = m->mem.rows.p[to->row].rowid;
    const struct dz_blob_at at = {.table = "mem", .column = "data", .rowid = rowid};
    int rc = r->blob ? dz_blob_move(r->blob, rowid, err) : dz_blob_open(r->db, &at, &r->blob, err);
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
        rc = dz_mem_index(head, have, size, to, err);
    m->stats.bytes += have;
    return rc;
}

static int name_row(struct dz_machine *m, struct dz_mem_reader *r, uint32_t row, uint8_t *head,
                    struct dz_err *err)
{
    const struct dz_mem_taker to = {row, name_piece, m};
    int rc = dz_mem_row_index(r, m, head, &to, err);
    if (rc == 0)
        rc = dz_mem_row_each(r, m, row, dz_mem_map_piece, m, err);
    return rc == 0 ? dz_native_flush(m, err) : rc; /* before the reader's buffers are used again */
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

/* Append to m->mem.rows a row of the table. */
static int add_row(struct dz_machine *m, const struct dz_mem_row *row, struct dz_err *err)
{
    if (row->gen < 0 || row->gen > INT64_MAX / 2) /* the next sleep adds one to the generation */
        return dz_fail(err, DZ_ECORRUPT, DZ_MEM_NO_SLEEP);
    m->mem.gen = row->gen > m->mem.gen ? row->gen : m->mem.gen;
    return dz_vec_push(&m->mem.rows, *row) < 0
               ? dz_fail(err, m->mem.rows.err, "resume the machine: too many rows of memory")
               : 0;
}

static int list_rows(struct dz_machine *m, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(m->db, dz_machine_sql_mem_list);
    int rc;
    while ((rc = dz_stmt_step(st, err)) > 0) {
        struct dz_mem_row row = {
            .rowid = dz_col_int(st, 0), .gen = dz_col_int(st, 1), .seq = dz_col_int(st, 2)};
        rc = dz_col_type(st, 1) == DZ_DB_INT ? add_row(m, &row, err)
                                             : dz_fail(err, DZ_ECORRUPT, DZ_MEM_NO_SLEEP);
        if (rc < 0)
            return rc;
    }
    return rc;
}

/* The end of the run of missing pages that begins at `page`. Gaps in which nothing was mapped are
 * part of the run. */
static size_t run_end(const struct dz_space *s, size_t page)
{
    size_t end = page + 1;
    for (size_t at = end; at < s->page_states && at - end < GAP; at++) {
        if (s->page_state[at])
            end = at + 1;
        else if (s->home[at])
            break;
    }
    return end;
}

/* No further mapping may be made, so read now the pages that rows name and that are not missing
 * yet. */
static int map_rest(struct dz_machine *m, struct dz_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < m->mem.spaces.n; i++) {
        struct dz_space *s = &m->mem.spaces.p[i];
        for (size_t page = 0; rc == 0 && page < s->page_states; page++)
            if (s->page_state[page] == DZ_PAGE_NAMED)
                rc = page_in(m, s, page, err);
    }
    return rc;
}

static int mark_missing(struct dz_machine *m, struct dz_err *err)
{
    size_t runs = 0;
    for (size_t i = 0; i < m->mem.spaces.n; i++) {
        struct dz_space *s = &m->mem.spaces.p[i];
        for (size_t page = 0, end; page < s->page_states; page = end) {
            end = page + 1;
            if (!s->page_state[page])
                continue;
            end = run_end(s, page);
            if (++runs > RUNS_MAX || m->ops->make_missing(m->ops->arg, s->range.at + page * PAGE,
                                                          (end - page) * PAGE, NULL) < 0) {
                for (; page < end; page++) /* the failure may have come after new pages were made */
                    if (!s->page_state[page])
                        dz_mem_to_base(&s->range, page * PAGE);
                return map_rest(m, err);
            }
            for (; page < end; page++) {
                m->mem.missing += s->page_state[page] == DZ_PAGE_PRESENT;
                s->page_state[page] = DZ_PAGE_MISSING;
            }
        }
    }
    return 0;
}

/* Leave all rows to be read on first access. 0: that is not possible here, and nothing was changed.
 */
static int map_on_demand(struct dz_machine *m, struct dz_err *err)
{
    const struct dz_machine_ops *ops = m->ops;
    if (!ops->make_missing || !ops->fill || !ops->watch || m->from != m->db)
        return 0;
    m->stats.bytes = 0;
    int rc = list_rows(m, err);
    if (rc == 0 && m->mem.rows.n <= DZ_MEM_EAGER_ROWS) {
        m->mem.rows.n = 0;
        return 0;
    }
    for (size_t i = 0; rc == 0 && i < m->mem.spaces.n; i++) {
        struct dz_space *s = &m->mem.spaces.p[i];
        s->page_state = dz_zalloc(s->homes + 1);
        s->page_states = s->page_state ? s->homes : 0;
        if (!s->page_state)
            rc = dz_fail(err, DZ_ENOMEM, "no memory to keep track of %zu pages", s->homes);
    }
    if (rc == 0)
        rc = name_rows(m, err);
    if (rc == 0 && m->mem.missing)
        rc = watch(m, err);
    if (rc == 0)
        rc = mark_missing(m, err);
    return rc < 0 ? rc : 1;
}

/* --- all at once ------------------------------------------------------------------------- */

enum {
    POPULATE_MIN = 4, /* pages */
};

/* Active segments that could not become part of the module's memory image are written when an
 * instance is made. Then the memory differs from its base from the start. */
static void wipe(const struct dz_machine_range *r)
{
    for (size_t at = 0; at < r->size; at += PAGE)
        if (!dz_mem_is_base(r, at))
            dz_mem_to_base(r, at);
}

/* The memory began as a copy of a memory of the image's machine: map or copy that memory first. */
static int put_base(struct dz_machine *m, struct dz_space *s, struct dz_err *err)
{
    const struct dz_machine_range *r = &s->range;
    const uint8_t *base = NULL;
    size_t size = 0;
    int rc = dz_machine_base_find(m, s->s.base_space, &base, &size, err);
    if (rc < 0)
        return rc;
    if (size > r->size || size < r->image_at + r->image_size)
        return dz_fail(
            err, DZ_ECORRUPT,
            "the machine in the file is damaged: memory %llu does not have the size of the one in the image",
            (unsigned long long)s->s.id);
    if (size > 0 && (!m->ops->base_map || !m->ops->base_map(m->ops->arg, r->at, base, size)))
        memcpy(r->at, base, size);
    s->base = base;
    s->base_size = size;
    return 0;
}

static int bind_space(struct dz_machine *m, struct dz_space *s, struct dz_kernel *k,
                      struct dz_err *err)
{
    const struct dz_task *t = dz_kernel_task(k, s->s.proc);
    if (!t || !dz_kernel_wasm_inst(t) || s->s.memory >= dz_wasm_mem_count(dz_kernel_wasm_inst(t)))
        return dz_fail(err, DZ_ECORRUPT,
                       "the machine in the file is damaged: memory %llu belongs to no process",
                       (unsigned long long)s->s.id);
    s->serial = t->serial;
    dz_mem_set_range(s, dz_kernel_wasm_inst(t));
    if (s->s.pages != s->range.size / PAGE)
        return dz_fail(err, DZ_ECORRUPT,
                       "the machine in the file is damaged: memory %llu has %zu pages, not %llu",
                       (unsigned long long)s->s.id, s->range.size / PAGE,
                       (unsigned long long)s->s.pages);
    int rc = s->s.base == DZ_MACHINE_BASE_IMAGE ? put_base(m, s, err) : 0;
    if (rc < 0)
        return rc;
    dz_mem_set_range(s, dz_kernel_wasm_inst(t));
    if (dz_wasm_inst_module(dz_kernel_wasm_inst(t))->n_datas_left)
        wipe(&s->range);
    return dz_mem_grow_homes(s, err);
}

/* The section of memories describes each memory of each process once. */
static int bind_spaces(struct dz_machine *m, struct dz_kernel *k, struct dz_err *err)
{
    size_t memories = 0;
    int rc = 0;
    for (uint32_t i = 2; i <= dz_kernel_rows(k, DZ_KERNEL_TABLE_PROC); i++) {
        const struct dz_task *t = dz_kernel_task(k, i);
        if (t && dz_kernel_wasm_inst(t))
            memories += dz_wasm_mem_count(dz_kernel_wasm_inst(t));
    }
    for (size_t i = 0; rc == 0 && i < m->mem.spaces.n; i++) {
        rc = bind_space(m, &m->mem.spaces.p[i], k, err);
        for (size_t o = 0; rc == 0 && o < i; o++)
            if (m->mem.spaces.p[o].range.at == m->mem.spaces.p[i].range.at)
                rc = dz_fail(err, DZ_ECORRUPT,
                             "the machine in the file is damaged: it lists a memory twice");
    }
    if (rc == 0 && memories != m->mem.spaces.n)
        rc = dz_fail(err, DZ_ECORRUPT,
                     "the machine in the file is damaged: it has %zu memories and lists %zu",
                     memories, m->mem.spaces.n);
    return rc;
}

int dz_mem_map_piece(void *arg, uint32_t row, const struct dz_mem_piece *p, struct dz_err *err)
{
    struct dz_machine *m = arg;
    struct dz_mem_row *r = &m->mem.rows.p[row];
    struct dz_space *s = dz_mem_space(&m->mem, p->run.space);
    r->pages += p->run.count;
    if (!s)
        return dz_native_piece(m, row, p, err);
    if (p->run.first >= s->homes || p->run.count > s->homes - p->run.first)
        return dz_fail(
            err, DZ_ECORRUPT,
            "the memory of the machine in the file is damaged: page %llu of memory %llu is "
            "outside of it",
            (unsigned long long)p->run.first, (unsigned long long)s->s.id);
    if (p->bytes &&
        p->run.count >= POPULATE_MIN) /* one system call instead of a page fault for each page */
        dz_vm_populate(s->range.at + p->run.first * PAGE, p->run.count * PAGE);
    for (uint32_t i = 0; i < p->run.count; i++) {
        size_t page = (size_t)p->run.first + i;
        if (s->home[page])
            continue;
        s->home[page] = row + 1;
        r->live++;
        m->stats.pages++;
        if (p->bytes)
            memcpy(s->range.at + page * PAGE, p->bytes + i * PAGE, PAGE);
    }
    return 0;
}

int dz_mem_read_all(struct dz_machine *m, dz_mem_piece_fn *fn, void *arg, uint64_t *ret_bytes,
                    struct dz_err *err)
{
    struct dz_mem_reader r;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(m->from, dz_machine_sql_mem);
    int rc = dz_mem_reader_open(&r, m->from, err);
    *ret_bytes = 0;
    while (rc == 0 && (rc = dz_stmt_step(st, err)) > 0) {
        struct dz_mem_row row = {.rowid = dz_col_int(st, 0),
                                 .gen = dz_col_int(st, 1),
                                 .seq = dz_col_int(st, 2),
                                 .below = m->below};
        size_t size = 0;
        const void *bytes = dz_col_blob(st, 3, &size);
        *ret_bytes += size;
        rc = dz_col_type(st, 1) == DZ_DB_INT ? add_row(m, &row, err)
                                             : dz_fail(err, DZ_ECORRUPT, DZ_MEM_NO_SLEEP);
        const struct dz_mem_taker to = {(uint32_t)m->mem.rows.n - 1, fn, arg};
        if (rc == 0)
            rc = dz_mem_unpack(bytes, size, r.plain, &to, err);
        if (rc == 0)
            rc = dz_native_flush(m, err);
    }
    dz_mem_reader_close(&r);
    return rc;
}

int dz_machine_mem_map(struct dz_machine *m, struct dz_kernel *k, struct dz_err *err)
{
    bool based = false;
    m->stats.pages = 0;
    for (size_t i = 0; i < m->mem.spaces.n; i++) {
        struct dz_machine_space *s = &m->mem.spaces.p[i].s;
        if (m->below) {
            s->base = DZ_MACHINE_BASE_IMAGE;
            s->base_space = s->id;
        }
        based = based || s->base == DZ_MACHINE_BASE_IMAGE;
    }
    int rc = based ? dz_machine_base_get(m, err) : 0;
    if (rc == 0)
        rc = bind_spaces(m, k, err);
    if (rc < 0)
        return rc;
    rc = dz_native_leave(m, err);
    if (rc < 0)
        return rc;
    enum dz_native_rows rows = DZ_NATIVE_LISTED;
    if (m->below) { /* the memories of modules are in the base already; the file has no rows */
        rows = DZ_NATIVE_READ;
    } else if (m->mem.spaces.n) {
        rc = map_on_demand(m, err);
        rows = rc > 0 ? DZ_NATIVE_COUNTED : DZ_NATIVE_READ;
        if (rc == 0)
            rc = dz_mem_read_all(m, dz_mem_map_piece, m, &m->stats.bytes, err);
    } else { /* only native programs run: rows without a page of theirs are not read */
        rc = list_rows(m, err);
    }
    if (rc >= 0)
        rc = dz_native_map(m, rows, err);
    if (rc < 0)
        return rc;
    dz_mem_assert(m);
    return 0;
}

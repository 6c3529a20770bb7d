/* SPDX-License-Identifier: MIT
 *
 * machine_lay.c - the rows of mem laid over fresh memories.
 *
 * From the newest row to the oldest: the first that names a page is its home, and
 * what older ones say of it is garbage. A memory that a process which has ended
 * once had is garbage, too. What no row names is as its base, which is there already: the
 * module's image, or the memory of the image's machine.
 */
#include "machine/machine_mem.h"

#include "base/mem.h"
#include "base/vm.h"
#include "wasm/wasm.h"

#include <string.h>

#define PAGE ((size_t)DZ_MACHINE_PAGE)

enum {
    POPULATE_MIN = 4, /* pages */
};

/* Where active segments could not be part of the image, an instance begins with
 * more than its base. */
static void wipe(const struct dz_machine_range *r)
{
    for (size_t at = 0; at < r->size; at += PAGE)
        if (!dz_mem_is_base(r, at))
            dz_mem_to_base(r, at);
}

/* The memory goes on from one of the image's machine: that is put under it. */
static int put_base(struct dz_machine *m, struct dz_space *s, struct dz_err *err)
{
    const struct dz_machine_range *r = &s->range;
    const uint8_t *base = NULL;
    size_t size = 0;
    int rc = dz_machine_base_find(m, s->s.base_space, &base, &size, err);
    if (rc < 0)
        return rc;
    if (size > r->size || size < r->image_at + r->image_size)
        return dz_fail(err, DZ_ECORRUPT,
                       "the machine in the file is damaged: memory %llu is not of the size of the "
                       "one in the image",
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
    if (!t || s->s.memory >= dz_wasm_mem_count(t->inst))
        return dz_fail(err, DZ_ECORRUPT,
                       "the machine in the file is damaged: memory %llu belongs to no process",
                       (unsigned long long)s->s.id);
    s->serial = t->serial;
    dz_mem_set_range(s, t->inst);
    if (s->s.pages != s->range.size / PAGE)
        return dz_fail(err, DZ_ECORRUPT,
                       "the machine in the file is damaged: memory %llu has %zu pages, not %llu",
                       (unsigned long long)s->s.id, s->range.size / PAGE,
                       (unsigned long long)s->s.pages);
    int rc = s->s.base == DZ_MACHINE_BASE_IMAGE ? put_base(m, s, err) : 0;
    if (rc < 0)
        return rc;
    dz_mem_set_range(s, t->inst);
    if (dz_wasm_inst_module(t->inst)->n_datas_left)
        wipe(&s->range);
    return dz_mem_grow_homes(s, err);
}

/* Each memory of each process is told of, once. */
static int bind_spaces(struct dz_machine *m, struct dz_kernel *k, struct dz_err *err)
{
    size_t memories = 0;
    int rc = 0;
    for (uint32_t i = 2; i <= dz_kernel_rows(k, DZ_KERNEL_TABLE_PROC); i++)
        if (dz_kernel_task(k, i))
            memories += dz_wasm_mem_count(dz_kernel_task(k, i)->inst);
    for (size_t i = 0; rc == 0 && i < m->mem.spaces.n; i++) {
        rc = bind_space(m, &m->mem.spaces.p[i], k, err);
        for (size_t o = 0; rc == 0 && o < i; o++)
            if (m->mem.spaces.p[o].range.at == m->mem.spaces.p[i].range.at)
                rc = dz_fail(err, DZ_ECORRUPT,
                             "the machine in the file is damaged: a memory is there twice");
    }
    if (rc == 0 && memories != m->mem.spaces.n)
        rc = dz_fail(err, DZ_ECORRUPT,
                     "the machine in the file is damaged: it has %zu memories and tells of %zu",
                     memories, m->mem.spaces.n);
    return rc;
}

int dz_mem_lay_piece(void *arg, uint32_t row, const struct dz_mem_piece *p, struct dz_err *err)
{
    struct dz_machine *m = arg;
    struct dz_mem_row *r = &m->mem.rows.p[row];
    struct dz_space *s = dz_mem_space(&m->mem, p->run.space);
    r->pages += p->run.count;
    if (!s)
        return 0;
    if (p->run.first >= s->homes || p->run.count > s->homes - p->run.first)
        return dz_fail(
            err, DZ_ECORRUPT,
            "the memory of the machine in the file is damaged: page %u of memory %llu is "
            "outside of it",
            p->run.first, (unsigned long long)s->s.id);
    if (p->bytes && p->run.count >= POPULATE_MIN) /* one call instead of many faults */
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

int dz_mem_add_row(struct dz_machine *m, const struct dz_mem_row *row, struct dz_err *err)
{
    if (row->gen < 0 || row->gen > INT64_MAX / 2) /* the next sleep's number is one more */
        return dz_fail(err, DZ_ECORRUPT, DZ_MEM_NO_SLEEP);
    m->mem.gen = row->gen > m->mem.gen ? row->gen : m->mem.gen;
    return dz_vec_push(&m->mem.rows, *row) < 0
               ? dz_fail(err, m->mem.rows.err, "wake the machine: too many rows of memory")
               : 0;
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
        struct dz_mem_row row = {
            .rowid = dz_col_int(st, 0), .gen = dz_col_int(st, 1), .seq = dz_col_int(st, 2)};
        size_t size = 0;
        const void *bytes = dz_col_blob(st, 3, &size);
        *ret_bytes += size;
        rc = dz_col_type(st, 1) == DZ_DB_INT ? dz_mem_add_row(m, &row, err)
                                             : dz_fail(err, DZ_ECORRUPT, DZ_MEM_NO_SLEEP);
        const struct dz_mem_taker to = {(uint32_t)m->mem.rows.n - 1, fn, arg};
        if (rc == 0)
            rc = dz_mem_unpack(bytes, size, r.plain, &to, err);
    }
    dz_mem_reader_close(&r);
    return rc;
}

int dz_machine_mem_lay(struct dz_machine *m, struct dz_kernel *k, struct dz_err *err)
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
    if (rc < 0 || m->below) /* the image's rows are in its base */
        return rc;
    rc = dz_mem_lay_by_need(m, err);
    return rc != 0 ? (rc < 0 ? rc : 0)
                   : dz_mem_read_all(m, dz_mem_lay_piece, m, &m->stats.bytes, err);
}

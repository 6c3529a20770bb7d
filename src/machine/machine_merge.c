/* SPDX-License-Identifier: MIT
 *
 * machine_merge.c - a sleeping machine whose memory goes on from one in the image, written
 * so that it stands on its modules only: for dz_machine_seal().
 *
 * What its own rows say of a page counts; what they do not say, or say to be as the base, the
 * rows of the image's machine do. Every page is packed anew, once, as generation 1. The
 * state is the same but for its last section, which tells of the memories.
 */
#include "machine/machine_mem.h"
#include "machine/machine_rows.h"
#include "machine/machine_state.h"

#include <string.h>

#define PAGE ((size_t)DZ_MACHINE_PAGE)

enum { /* in home[], of pages */
    SAID = 1,
    AS_BASE = 2,
};

struct merge {
    struct dz_machine *own, *below;
    struct dz_db *to;
    struct dz_mem_packer packer;
    int64_t seq;
};

/* --- memory ---------------------------------------------------------------------------- */

static int flush(struct merge *g, struct dz_err *err)
{
    const void *bytes;
    size_t size;
    if (g->packer.pages == 0)
        return 0;
    dz_mem_pack_end(&g->packer, true, &bytes, &size);
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(g->to, "INSERT INTO mem(gen,seq,data)VALUES(1,?1,?2)");
    dz_bind_int(st, 1, g->seq++);
    dz_bind_blob(st, 2, bytes, size);
    return dz_stmt_run(st, err);
}

static int put(struct merge *g, const struct dz_space *s, size_t page, const uint8_t *bytes,
               struct dz_err *err)
{
    int rc = dz_mem_pack_full(&g->packer) ? flush(g, err) : 0;
    if (rc == 0)
        dz_mem_pack_page(&g->packer, s->s.id, page, bytes);
    return rc;
}

/* Of a space, what a piece says first. from_base: of the image's machine. */
static int take(struct merge *g, struct dz_space *s, const struct dz_mem_piece *p, bool from_base,
                struct dz_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < p->run.count; i++) {
        size_t page = (size_t)p->run.first + i;
        if (page >= s->homes || s->home[page] == SAID || (s->home[page] && !from_base))
            continue;
        s->home[page] = p->bytes || from_base || !s->s.base_space ? SAID : AS_BASE;
        if (p->bytes)
            rc = put(g, s, page, p->bytes + i * PAGE, err);
    }
    return rc;
}

static int take_own(void *arg, uint32_t row, const struct dz_mem_piece *p, struct dz_err *err)
{
    struct merge *g = arg;
    struct dz_space *s = dz_mem_space(&g->own->mem, p->run.space);
    (void)row;
    return s ? take(g, s, p, false, err) : 0;
}

static int take_below(void *arg, uint32_t row, const struct dz_mem_piece *p, struct dz_err *err)
{
    struct merge *g = arg;
    int rc = 0;
    (void)row;
    for (size_t i = 0; rc == 0 && i < g->own->mem.spaces.n; i++) {
        struct dz_space *s = &g->own->mem.spaces.p[i];
        if (s->s.base_space == p->run.space)
            rc = take(g, s, p, true, err);
    }
    return rc;
}

static int merge_memory(struct merge *g, struct dz_err *err)
{
    uint64_t bytes;
    int rc = dz_mem_pack_init(&g->packer, DZ_MEM_ROW_MANY, NULL, err);
    for (size_t i = 0; rc == 0 && i < g->own->mem.spaces.n; i++) {
        struct dz_space *s = &g->own->mem.spaces.p[i];
        s->range.size = (size_t)s->s.pages * PAGE;
        rc = dz_mem_grow_homes(s, err);
    }
    if (rc == 0)
        rc = dz_mem_read_all(g->own, take_own, g, &bytes, err);
    if (rc == 0)
        rc = dz_mem_read_all(g->below, take_below, g, &bytes, err);
    if (rc == 0)
        rc = flush(g, err);
    dz_mem_pack_release(&g->packer);
    return rc;
}

/* --- the state --------------------------------------------------------------------------- */

static int write_state(struct merge *g, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(DZ_MACHINE_STATE_MAX);
    const struct dz_buf *old = &g->own->state;
    struct dz_state_section section = {.tag = DZ_STATE_SPACES};
    struct dz_state_head h;
    size_t at = (size_t)(g->own->section[DZ_STATE_SPACES].at - (const uint8_t *)old->p);
    dz_buf_add(&b, old->p, at);
    for (size_t i = 0; i < g->own->mem.spaces.n; i++) {
        struct dz_machine_space s = g->own->mem.spaces.p[i].s;
        s.base = DZ_MACHINE_BASE_MODULE;
        s.base_space = 0;
        dz_machine_item_put(&b, i, &dz_machine_space_record, &s);
    }
    if (b.err)
        return dz_fail(err, b.err, "write the machine: out of memory");
    section.size = b.len - at;
    memcpy(b.p + at - sizeof section, &section, sizeof section);
    memcpy(&h, b.p, sizeof h);
    h.size = b.len;
    h.sum = dz_machine_sum(0, b.p + sizeof h, b.len - sizeof h);
    memcpy(b.p, &h, sizeof h);
    return dz_machine_state_put(g->to, &b, err);
}

static int merge(struct merge *g, struct dz_err *err)
{
    int rc = write_state(g, err);
    if (rc == 0)
        rc = dz_machine_rows_copy(g->own->db,
                                  "SELECT part,key,value FROM machine WHERE part<>'state'", g->to,
                                  "INSERT INTO machine(part,key,value)VALUES(?1,?2,?3)", err);
    return rc < 0 ? rc : merge_memory(g, err);
}

static bool is_based(const struct dz_machine *m)
{
    if (m->found != DZ_MACHINE_ASLEEP || m->below)
        return false;
    for (size_t i = 0; i < m->mem.spaces.n; i++)
        if (m->mem.spaces.p[i].s.base == DZ_MACHINE_BASE_IMAGE)
            return true;
    return false;
}

int dz_machine_merge(struct dz_db *from, struct dz_db *image, struct dz_db *to, struct dz_err *err)
{
    static const struct dz_machine_ops none;
    struct merge g = {.to = to};
    const struct dz_machine_opts own = {.db = from, .image = image, .ops = &none};
    const struct dz_machine_opts below = {.db = image, .ops = &none};
    int rc = image ? dz_machine_open(&own, &g.own, err) : 0;
    bool based = rc == 0 && g.own && is_based(g.own);
    if (based)
        rc = dz_machine_open(&below, &g.below, err);
    if (rc == 0 && based && g.below->found != DZ_MACHINE_ASLEEP)
        rc = dz_fail(err, DZ_ECORRUPT, "no machine sleeps in the image that the file stands on");
    if (rc == 0 && based)
        rc = merge(&g, err);
    dz_machine_close(g.below);
    dz_machine_close(g.own);
    return rc < 0 ? rc : based;
}

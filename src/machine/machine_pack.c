/* SPDX-License-Identifier: MIT
 *
 * machine_pack.c - pages packed into a row of mem, and out of one.
 *
 * What is read is not believed: the checksum tells damage, and every count and
 * length is checked against the row's size before it is used.
 */
#include "machine/machine_mem.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

#define PAGE      ((size_t)DZ_MACHINE_PAGE)
#define BYTES_MAX (DZ_MEM_ROW_PAGES * PAGE)

/* --- the checksum ----------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 29);
}

/* Four lanes, each a chain of multiplications, so that the processor has
 * something to do meanwhile. */
uint64_t dz_machine_sum(uint64_t seed, const void *data, size_t size)
{
    const uint8_t *p = data;
    uint64_t lane[4] = {seed, seed + 1, seed + 2, seed + 3}, word[4];
    size_t left = size;
    for (; left >= sizeof word; left -= sizeof word, p += sizeof word) {
        memcpy(word, p, sizeof word);
        for (int i = 0; i < 4; i++)
            lane[i] = mix(lane[i], word[i]);
    }
    memset(word, 0, sizeof word);
    memcpy(word, p, left);
    for (int i = 0; i < 4; i++)
        lane[i] = mix(lane[i], word[i]);
    return mix(mix(mix(lane[0], lane[1]), lane[2]), lane[3] ^ size);
}

/* --- packing ------------------------------------------------------------------------------ */

int dz_mem_pack_init(struct dz_mem_packer *p, struct dz_err *err)
{
    p->run_count = p->pages = p->filled = 0;
    p->row = dz_alloc(sizeof(struct dz_mem_head) + BYTES_MAX + sizeof p->runs);
    return p->row ? 0 : dz_fail(err, DZ_ENOMEM, "put the machine to sleep: out of memory");
}

void dz_mem_pack_release(struct dz_mem_packer *p)
{
    dz_free(p->row);
    p->row = NULL;
}

void dz_mem_pack_page(struct dz_mem_packer *p, uint64_t space, size_t page, const uint8_t *bytes)
{
    uint32_t kind = bytes ? DZ_MEM_BYTES : DZ_MEM_BASE;
    struct dz_mem_run *last = p->run_count ? &p->runs[p->run_count - 1] : NULL;
    assert(p->pages < DZ_MEM_ROW_PAGES);
    if (last && last->space == space && last->kind == kind && last->first + last->count == page)
        last->count++;
    else
        p->runs[p->run_count++] =
            (struct dz_mem_run){.space = space, .first = (uint32_t)page, .count = 1, .kind = kind};
    if (bytes)
        memcpy(p->row + sizeof(struct dz_mem_head) + p->filled++ * PAGE, bytes, PAGE);
    p->pages++;
}

int dz_mem_pack_end(struct dz_mem_packer *p, const void **ret_bytes, size_t *ret_size,
                    struct dz_err *err)
{
    struct dz_mem_head h = {.magic = {'m', 'e', 'm', '1'},
                            .codec = DZ_MEM_RAW,
                            .runs = p->run_count,
                            .pages = p->filled,
                            .stored = p->filled * PAGE};
    size_t runs = p->run_count * sizeof *p->runs;
    (void)err;
    memcpy(p->row + sizeof h + h.stored, p->runs, runs);
    h.sum = dz_machine_sum(1, p->row + sizeof h, h.stored + runs);
    memcpy(p->row, &h, sizeof h);
    *ret_bytes = p->row;
    *ret_size = sizeof h + h.stored + runs;
    p->run_count = p->pages = p->filled = 0;
    return 0;
}

/* --- unpacking ------------------------------------------------------------------------------ */

#define BAD(err, ...) \
    dz_fail(err, DZ_ECORRUPT, "the memory of the machine in the file is damaged: " __VA_ARGS__)

static int check_head(const struct dz_mem_head *h, size_t size, const uint8_t *bytes,
                      struct dz_err *err)
{
    if (memcmp(h->magic, "mem1", 4) != 0)
        return BAD(err, "a row does not begin as one");
    if (h->codec != DZ_MEM_RAW)
        return dz_fail(err, DZ_EUNSUPPORTED,
                       "the memory in the file is packed in way %u, which this doze does not know: "
                       "a newer one wrote it",
                       h->codec);
    if (h->runs > DZ_MEM_ROW_PAGES || h->pages > DZ_MEM_ROW_PAGES || h->stored != h->pages * PAGE ||
        size != sizeof *h + h->stored + h->runs * sizeof(struct dz_mem_run))
        return BAD(err, "a row of %zu bytes cannot hold what it says", size);
    if (dz_machine_sum(1, bytes + sizeof *h, size - sizeof *h) != h->sum)
        return BAD(err, "the checksum of a row is wrong");
    return 0;
}

int dz_mem_unpack(const void *bytes, size_t size, uint32_t row, dz_mem_piece_fn *fn, void *arg,
                  struct dz_err *err)
{
    const uint8_t *p = bytes;
    struct dz_mem_head h;
    uint32_t used = 0;
    if (size < sizeof h)
        return BAD(err, "a row is cut off");
    memcpy(&h, p, sizeof h);
    int rc = check_head(&h, size, p, err);
    for (uint32_t i = 0; rc == 0 && i < h.runs; i++) {
        struct dz_mem_piece piece = {0};
        memcpy(&piece.run, p + sizeof h + h.stored + i * sizeof piece.run, sizeof piece.run);
        if (piece.run.kind > DZ_MEM_BASE || piece.run.count == 0 ||
            piece.run.count > DZ_MEM_ROW_PAGES ||
            (piece.run.kind == DZ_MEM_BYTES && piece.run.count > h.pages - used))
            return BAD(err, "a run of pages makes no sense");
        if (piece.run.kind == DZ_MEM_BYTES) {
            piece.bytes = p + sizeof h + used * PAGE;
            used += piece.run.count;
        }
        rc = fn(arg, row, &piece, err);
    }
    return rc;
}

int dz_mem_row_each(const struct dz_machine *m, uint32_t row, dz_mem_piece_fn *fn, void *arg,
                    struct dz_err *err)
{
    const struct dz_mem_row *r = &m->mem.rows.p[row];
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(m->db, "SELECT data FROM mem WHERE gen=?1 AND seq=?2");
    dz_bind_int(st, 1, r->gen);
    dz_bind_int(st, 2, r->seq);
    int rc = dz_stmt_step(st, err);
    if (rc <= 0)
        return rc < 0 ? rc : BAD(err, "a row is gone");
    size_t size;
    const void *bytes = dz_col_blob(st, 0, &size);
    return dz_mem_unpack(bytes, size, row, fn, arg, err);
}

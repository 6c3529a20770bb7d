/* SPDX-License-Identifier: MIT
 *
 * machine_pack.c - pack pages into a row of mem, and unpack them; pack a state.
 *
 * A row is not trusted: its checksum detects damage, and every count and length is checked against
 * the row's size before it is used.
 */
#include "machine/machine_mem.h"
#include "machine/machine_state.h"

#include "base/mem.h"
#include "base/vm.h"

#include <assert.h>
#include <lz4.h>
#include <string.h>

#define PAGE      ((size_t)DZ_MACHINE_PAGE)
#define BYTES_MAX (DZ_MEM_ROW_PAGES * PAGE)

enum {
    SUM_LANES = 8,
    BIND_BYTES = 16 << 10, /* bytes that bind_lz4() packs */
    SPARE_WARM = 64 << 10, /* bytes of spare room that a small machine needs */
    SPARE_WARM_NATIVE = DZ_MEM_ROW_FEW * DZ_MACHINE_PAGE, /* a row of native programs */
    ROW_MAX = sizeof(struct dz_mem_head) +
              DZ_MEM_ROW_PAGES * (DZ_MACHINE_PAGE + sizeof(struct dz_mem_run)),
    PLAIN_AT = (ROW_MAX + 4095) / 4096 * 4096, /* where unpacked pages begin in a room */
};
#define READER_ROOM (3 * DZ_VM_HUGE) /* half of it is used, beginning at a huge page */
_Static_assert(PLAIN_AT + BYTES_MAX <= DZ_VM_HUGE + DZ_VM_HUGE / 2, "both fit");

/* --- the checksum ----------------------------------------------------------------------- */

#define FACTOR UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * FACTOR;
    return h ^ h >> 32;
}

/* Eight independent chains of multiplications, so that the processor need not wait for one before
 * it begins the next. */
uint64_t dz_machine_sum(uint64_t seed, const void *data, size_t size)
{
    const uint8_t *p = data;
    uint64_t lane[SUM_LANES], word[SUM_LANES], h = size;
    size_t left = size;
    for (unsigned i = 0; i < SUM_LANES; i++)
        lane[i] = seed + i;
    for (; left >= sizeof word; left -= sizeof word, p += sizeof word) {
        memcpy(word, p, sizeof word);
#pragma GCC unroll 8 /* without unrolling the lanes are kept in memory, and each step waits for \
                        the store of the last */
        for (unsigned i = 0; i < SUM_LANES; i++)
            lane[i] = (lane[i] ^ word[i]) * FACTOR;
    }
    memset(word, 0, sizeof word);
    memcpy(word, p, left);
    for (unsigned i = 0; i < SUM_LANES; i++)
        h = mix(h, mix(lane[i], word[i]));
    return h;
}

/* --- packing ------------------------------------------------------------------------------ */

/* The offset of the pages' bytes while a row is being filled. At the end the head and the runs are
 * put directly before them. */
static size_t room(uint32_t pages)
{
    return sizeof(struct dz_mem_head) + pages * sizeof(struct dz_mem_run);
}

static size_t row_size(uint32_t pages)
{
    return room(pages) + pages * PAGE;
}

uint32_t dz_mem_index_sum(const struct dz_mem_head *h, const void *runs)
{
    uint64_t head = dz_machine_sum(2, h, offsetof(struct dz_mem_head, index_sum));
    return (uint32_t)dz_machine_sum(head, runs, h->runs * sizeof(struct dz_mem_run));
}

size_t dz_mem_pack_room(uint32_t most)
{
    return row_size(most);
}

int dz_mem_pack_init(struct dz_mem_packer *p, uint32_t most, void *room, struct dz_err *err)
{
    assert(most <= DZ_MEM_ROW_MANY);
    p->run_count = p->pages = p->filled = 0;
    p->most = most;
    p->packed = NULL;
    p->lent = room != NULL;
    p->row = room ? room : dz_alloc(row_size(most));
    return p->row ? 0 : dz_fail(err, DZ_ENOMEM, "suspend the machine: out of memory");
}

void dz_mem_pack_release(struct dz_mem_packer *p)
{
    if (!p->lent)
        dz_free(p->row);
    dz_free(p->packed);
    p->row = p->packed = NULL;
}

void dz_mem_pack_page(struct dz_mem_packer *p, uint64_t space, uint64_t page, const uint8_t *bytes)
{
    uint32_t kind = bytes ? DZ_MEM_BYTES : DZ_MEM_BASE;
    struct dz_mem_run *last = p->run_count ? &p->runs[p->run_count - 1] : NULL;
    assert(p->pages < p->most);
    if (last && last->space == space && last->kind == kind && last->first + last->count == page)
        last->count++;
    else
        p->runs[p->run_count++] =
            (struct dz_mem_run){.space = space, .first = page, .count = 1, .kind = kind};
    if (bytes)
        memcpy(p->row + room(p->most) + p->filled++ * PAGE, bytes, PAGE);
    p->pages++;
}

/* Packed bytes are used if they save a quarter. Real programs save about half, at 350 to 700 MB/s.
 * Without memory for packing the pages are stored as they are. */
static bool pack(struct dz_mem_packer *p, struct dz_mem_head *h)
{
    size_t at = room(p->most);
    int most = (int)(h->stored - h->stored / 4);
    if (!p->packed)
        p->packed = dz_alloc(row_size(p->most));
    if (!p->packed)
        return false;
    int n = h->stored ? LZ4_compress_fast((const char *)p->row + at, (char *)p->packed + at,
                                          (int)h->stored, most, 4)
                      : 0;
    if (n <= 0)
        return false;
    h->codec += DZ_MEM_LZ4 - DZ_MEM_RAW;
    h->stored = (uint32_t)n;
    return true;
}

static bool is_wide(const struct dz_mem_packer *p)
{
    for (uint32_t i = 0; i < p->run_count; i++)
        if (p->runs[i].first > UINT32_MAX)
            return true;
    return false;
}

/* Write the runs before the pages' bytes, in the older form if that can hold them. */
static void put_runs(const struct dz_mem_packer *p, bool wide, uint8_t *to)
{
    for (uint32_t i = 0; i < p->run_count; i++) {
        const struct dz_mem_run *r = &p->runs[i];
        const struct dz_mem_run_narrow n = {
            .space = r->space, .first = (uint32_t)r->first, .count = r->count, .kind = r->kind};
        memcpy(to + i * sizeof *r, wide ? (const void *)r : &n, sizeof *r);
    }
}

void dz_mem_pack_end(struct dz_mem_packer *p, bool try_packing, const void **ret_bytes,
                     size_t *ret_size)
{
    const bool wide = is_wide(p);
    struct dz_mem_head h = {.magic = {'m', 'e', 'm', '1'},
                            .codec = wide ? DZ_MEM_WIDE_RAW : DZ_MEM_RAW,
                            .runs = p->run_count,
                            .pages = p->filled,
                            .stored = (uint32_t)(p->filled * PAGE)};
    size_t runs = p->run_count * sizeof *p->runs;
    uint8_t *row = try_packing && pack(p, &h) ? p->packed : p->row;
    row += room(p->most) - runs - sizeof h;
    put_runs(p, wide, row + sizeof h);
    h.index_sum = dz_mem_index_sum(&h, row + sizeof h);
    h.sum = dz_machine_sum(1, row + sizeof h, h.stored + runs);
    memcpy(row, &h, sizeof h);
    *ret_bytes = row;
    *ret_size = sizeof h + h.stored + runs;
    p->run_count = p->pages = p->filled = 0;
}

/* --- unpacking ------------------------------------------------------------------------------ */

#define BAD(err, ...) \
    dz_fail(err, DZ_ECORRUPT, "the memory of the machine in the file is damaged: " __VA_ARGS__)

static bool runs_first(const struct dz_mem_head *h)
{
    return h->codec >= DZ_MEM_RAW;
}

static bool is_raw(const struct dz_mem_head *h)
{
    return h->codec == DZ_MEM_RAW || h->codec == DZ_MEM_LAST_RAW || h->codec == DZ_MEM_WIDE_RAW;
}

/* Is the head valid for a row of `size` bytes? */
static int check_head(const struct dz_mem_head *h, size_t size, struct dz_err *err)
{
    if (memcmp(h->magic, "mem1", 4) != 0)
        return BAD(err, "a row has no valid header");
    if (h->codec > DZ_MEM_WIDE_LZ4)
        return dz_fail(
            err, DZ_EUNSUPPORTED,
            "the memory in the file is packed by method %u, which this doze does not know; a newer "
            "one wrote it",
            h->codec);
    if (h->runs > DZ_MEM_ROW_PAGES || h->pages > DZ_MEM_ROW_PAGES || h->stored > h->pages * PAGE ||
        (is_raw(h) && h->stored != h->pages * PAGE) || (!runs_first(h) && h->index_sum) ||
        size != sizeof *h + h->stored + h->runs * sizeof(struct dz_mem_run))
        return BAD(err, "a row of %zu bytes is shorter than its header says", size);
    return 0;
}

static int unpack(const struct dz_mem_head *h, const uint8_t **pages, uint8_t *plain,
                  struct dz_err *err)
{
    if (is_raw(h))
        return 0;
    int want = (int)(h->pages * PAGE);
    int n = LZ4_decompress_safe((const char *)*pages, (char *)plain, (int)h->stored, want);
    *pages = plain;
    return n == want ? 0 : BAD(err, "a row cannot be unpacked");
}

static struct dz_mem_run run_at(const struct dz_mem_head *h, const uint8_t *runs, uint32_t i)
{
    struct dz_mem_run r;
    struct dz_mem_run_narrow n;
    memcpy(&r, runs + i * sizeof r, sizeof r);
    if (h->codec >= DZ_MEM_WIDE_RAW)
        return r;
    memcpy(&n, runs + i * sizeof n, sizeof n);
    return (struct dz_mem_run){n.space, n.first, n.count, n.kind};
}

/* Call fn with each run. pages: the bytes of the pages; NULL: they were not read. */
static int each_run(const struct dz_mem_head *h, const uint8_t *runs, const uint8_t *pages,
                    const struct dz_mem_taker *to, struct dz_err *err)
{
    uint32_t used = 0, named = 0;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < h->runs; i++) {
        struct dz_mem_piece piece = {.run = run_at(h, runs, i)};
        if (piece.run.kind > DZ_MEM_BASE || piece.run.count == 0 ||
            piece.run.count > DZ_MEM_ROW_PAGES - named || piece.run.first > UINT64_MAX / PAGE ||
            (piece.run.kind == DZ_MEM_BYTES && piece.run.count > h->pages - used))
            return BAD(err, "a run of pages is invalid");
        named += piece.run.count;
        if (piece.run.kind == DZ_MEM_BYTES) {
            piece.bytes = pages ? pages + used * PAGE : NULL;
            used += piece.run.count;
        }
        rc = to->fn(to->arg, to->row, &piece, err);
    }
    return rc;
}

static int read_head(struct dz_mem_head *h, const uint8_t *bytes, size_t have, size_t size,
                     struct dz_err *err)
{
    if (have < sizeof *h || size > ROW_MAX)
        return BAD(err, "a row has %zu bytes", size);
    memcpy(h, bytes, sizeof *h);
    return check_head(h, size, err);
}

int dz_mem_unpack(const void *bytes, size_t size, uint8_t *plain, const struct dz_mem_taker *to,
                  struct dz_err *err)
{
    const uint8_t *p = bytes;
    struct dz_mem_head h;
    int rc = read_head(&h, p, size, size, err);
    if (rc < 0)
        return rc;
    if (dz_machine_sum(1, p + sizeof h, size - sizeof h) != h.sum)
        return BAD(err, "the checksum of a row is wrong");
    const uint8_t *runs = p + sizeof h + (runs_first(&h) ? 0 : h.stored);
    const uint8_t *pages = p + sizeof h + (runs_first(&h) ? h.runs * sizeof(struct dz_mem_run) : 0);
    if (runs_first(&h) && dz_mem_index_sum(&h, runs) != h.index_sum)
        return BAD(err, "the checksum of the runs of a row is wrong");
    rc = unpack(&h, &pages, plain, err);
    return rc < 0 ? rc : each_run(&h, runs, pages, to, err);
}

size_t dz_mem_index_size(const void *bytes, size_t have)
{
    struct dz_mem_head h;
    if (have < sizeof h)
        return have;
    memcpy(&h, bytes, sizeof h);
    uint32_t runs = h.runs < DZ_MEM_ROW_PAGES ? h.runs : DZ_MEM_ROW_PAGES;
    return runs_first(&h) ? sizeof h + runs * sizeof(struct dz_mem_run) : have;
}

int dz_mem_index(const void *bytes, size_t have, size_t size, const struct dz_mem_taker *to,
                 struct dz_err *err)
{
    const uint8_t *p = bytes;
    struct dz_mem_head h;
    int rc = read_head(&h, p, have, size, err);
    if (rc < 0 || !runs_first(&h))
        return rc;
    if (have < sizeof h + h.runs * sizeof(struct dz_mem_run) ||
        dz_mem_index_sum(&h, p + sizeof h) != h.index_sum)
        return BAD(err, "the checksum of the runs of a row is wrong");
    rc = each_run(&h, p + sizeof h, NULL, to, err);
    return rc < 0 ? rc : 1;
}

/* --- prepared in advance --------------------------------------------------------------------- */

/* Room for the pages of a row, allocated ahead by a process that waits for work; the first reader
 * takes it. */
static uint8_t *spare, *spare_bytes; /* unpacked pages; a row as stored */

/* Call LZ4 once, so that the dynamic linker binds its calls to other libraries before the fork:
 * binding searches every loaded library. */
static void bind_lz4(void)
{
    char plain[BIND_BYTES] = {0}, packed[BIND_BYTES];
    int n = LZ4_compress_fast(plain, packed, sizeof plain, sizeof packed, 1);
    (void)LZ4_decompress_safe(packed, plain, n, sizeof plain);
}

void dz_mem_prepare(void)
{
    bind_lz4();
    if (!spare)
        spare = dz_vm_fresh(BYTES_MAX);
    if (!spare_bytes)
        spare_bytes = dz_vm_fresh(PLAIN_AT);
}

void dz_machine_warm(bool native)
{
    if (spare)
        dz_vm_populate(spare, SPARE_WARM);
    if (native && spare_bytes)
        dz_vm_populate(spare_bytes, SPARE_WARM_NATIVE);
}

void dz_machine_cool(void)
{
    if (spare)
        dz_vm_forget(spare, BYTES_MAX);
    if (spare_bytes)
        dz_vm_forget(spare_bytes, PLAIN_AT);
}

int dz_mem_reader_open(struct dz_mem_reader *r, struct dz_db *db, struct dz_err *err)
{
    *r = (struct dz_mem_reader){.db = db,
                                .bytes = spare_bytes,
                                .plain = spare,
                                .spare = spare != NULL,
                                .spare_bytes = spare_bytes != NULL};
    spare = spare_bytes = NULL;
    if (!r->plain)
        r->plain = dz_alloc(BYTES_MAX);
    return r->plain ? 0 : dz_fail(err, DZ_ENOMEM, "read the machine's memory: out of memory");
}

/* One huge page, where the system has them, costs less than a tenth of the small pages that two
 * rows would touch. A row of the largest size ends behind it. */
int dz_mem_reader_open_large(struct dz_mem_reader *r, struct dz_db *db, struct dz_err *err)
{
    uint8_t *room = dz_vm_reserve(READER_ROOM, NULL);
    uint8_t *at = (uint8_t *)(((uintptr_t)room + DZ_VM_HUGE - 1) & ~(DZ_VM_HUGE - 1));
    if (!room || dz_vm_commit(at, DZ_VM_HUGE + DZ_VM_HUGE / 2, NULL) < 0) {
        dz_vm_release(room, READER_ROOM);
        return dz_mem_reader_open(r, db, err);
    }
    dz_vm_huge(at, DZ_VM_HUGE);
    *r = (struct dz_mem_reader){.db = db, .bytes = at, .plain = at + PLAIN_AT, .room = room};
    return 0;
}

void dz_mem_reader_close(struct dz_mem_reader *r)
{
    dz_blob_close(r->blob);
    if (r->room) {
        dz_vm_release(r->room, READER_ROOM);
        return;
    }
    if (r->spare_bytes)
        spare_bytes = r->bytes;
    else
        dz_free(r->bytes);
    if (r->spare)
        spare = r->plain;
    else
        dz_free(r->plain);
}

static int read_row(struct dz_mem_reader *r, int64_t rowid, size_t *ret_size, struct dz_err *err)
{
    const struct dz_blob_at at = {.table = "mem", .column = "data", .rowid = rowid};
    int rc = r->blob ? dz_blob_move(r->blob, rowid, err) : dz_blob_open(r->db, &at, &r->blob, err);
    if (rc < 0) {
        dz_blob_close(r->blob);
        r->blob = NULL;
        return rc == DZ_ENOENT ? BAD(err, "a row is gone") : rc;
    }
    size_t size = dz_blob_size(r->blob);
    if (size > ROW_MAX)
        return BAD(err, "a row has %zu bytes", size);
    if (!r->bytes)
        r->bytes = dz_alloc(ROW_MAX);
    if (!r->bytes)
        return dz_fail(err, DZ_ENOMEM, "read the machine's memory: out of memory");
    *ret_size = size;
    return dz_blob_read(r->blob, r->bytes, size, 0, err);
}

int dz_mem_row_each(struct dz_mem_reader *r, const struct dz_machine *m, uint32_t row,
                    dz_mem_piece_fn *fn, void *arg, struct dz_err *err)
{
    const struct dz_mem_taker to = {row, fn, arg};
    size_t size;
    int rc = read_row(r, m->mem.rows.p[row].rowid, &size, err);
    return rc < 0 ? rc : dz_mem_unpack(r->bytes, size, r->plain, &to, err);
}

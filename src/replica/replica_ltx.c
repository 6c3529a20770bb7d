/* SPDX-License-Identifier: MIT
 *
 * replica_ltx.c - one LTX file: header, pages, index, trailer (docs/format/replica.md).
 *
 *     +--------+--------+-----+--------+------+---------------------+---------+
 *     | header | page 1 | ... | page n | zero | index, its length   | trailer |
 *     | 100    | 10+    |     | 10+    | 6    | varints, 8          | 16      |
 *     +--------+--------+-----+--------+------+---------------------+---------+
 *
 * All integers are big-endian. The trailer has the CRC-64 of everything before it, where each page
 * counts as its 10 bytes of header and its content before compression.
 *
 * Invariants of a reader: crc covers the bytes up to `at`; the page numbers so far rise and end
 * with `last`; index_crc and index_bytes are those of the index that these pages must have.
 */
#include "replica/replica_int.h"

#include "base/mem.h"
#include "blob/blob_crypt.h"

#include <assert.h>
#include <lz4.h>
#include <lz4frame.h>
#include <pthread.h>
#include <stdio.h>

enum {
    PIECE = 256 << 10, /* bytes read or written at a time */
    PAGE_HEAD = 10,
    PAGE_MOST = PAGE_HEAD + LZ4_COMPRESSBOUND(DZ_LTX_PAGE_MAX),
    FRAME_MOST = DZ_LTX_PAGE_MAX + 64, /* a page that does not compress, as a frame */
    ZEROS = 6,                         /* where a page's header would be: there is none */
    TRAILER = 16,
    INDEX_LENGTH = 8,
    VARINT_MOST = 10,
    FLAG_NO_CHECKSUM = 2, /* of the header: the checksum of the database is not kept */
    FLAG_SIZED = 1,       /* of a page: its compressed size is in its header */
    LOCK_BYTE = 0x40000000,
};
_Static_assert(PIECE >= PAGE_MOST && PIECE >= FRAME_MOST, "a page fits into a piece");
#define INDEX_MAX     (1u << 30) /* bytes of an index that is being written */
#define CHECKSUM_FLAG (UINT64_C(1) << 63)

uint32_t dz_ltx_lock_page(uint32_t page_bytes)
{
    return LOCK_BYTE / page_bytes + 1;
}

/* --- CRC-64, ISO 3309, as Go's hash/crc64 computes it: 8 bytes at a time by 8 tables --------- */

static uint64_t crc_table[8][256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void crc_fill(void)
{
    for (unsigned i = 0; i < 256; i++) {
        uint64_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? c >> 1 ^ UINT64_C(0xD800000000000000) : c >> 1;
        crc_table[0][i] = c;
    }
    for (unsigned i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            crc_table[k][i] = crc_table[0][crc_table[k - 1][i] & 255] ^ crc_table[k - 1][i] >> 8;
}

uint64_t dz_ltx_sum(uint64_t crc, const void *data, size_t n)
{
    const uint8_t *p = data;
    (void)pthread_once(&crc_once, crc_fill);
    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v;
        memcpy(&v, p, sizeof v);
        v = le64toh(v) ^ crc;
        crc = crc_table[7][v & 255] ^ crc_table[6][v >> 8 & 255] ^ crc_table[5][v >> 16 & 255] ^
              crc_table[4][v >> 24 & 255] ^ crc_table[3][v >> 32 & 255] ^
              crc_table[2][v >> 40 & 255] ^ crc_table[1][v >> 48 & 255] ^ crc_table[0][v >> 56];
    }
    for (; n > 0; n--, p++)
        crc = crc_table[0][(crc ^ *p) & 255] ^ crc >> 8;
    return ~crc;
}

/* --- numbers ------------------------------------------------------------------------------- */

static void put16(uint8_t *p, uint16_t v)
{
    v = htobe16(v);
    memcpy(p, &v, sizeof v);
}

static void put32(uint8_t *p, uint32_t v)
{
    v = htobe32(v);
    memcpy(p, &v, sizeof v);
}

static void put64(uint8_t *p, uint64_t v)
{
    v = htobe64(v);
    memcpy(p, &v, sizeof v);
}

static uint16_t get16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return be16toh(v);
}

/* An entry of the index: number of the page, place and bytes of its header and content, each in
 * groups of 7 bits, the lowest first. */
static size_t put_entry(uint8_t out[static 3 * VARINT_MOST], uint64_t number, uint64_t at,
                        uint64_t size)
{
    const uint64_t all[] = {number, at, size};
    size_t n = 0;
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++) {
        uint64_t v = all[i];
        for (; v >= 128; v >>= 7)
            out[n++] = (uint8_t)(v | 128);
        out[n++] = (uint8_t)v;
    }
    return n;
}

/* The number that must follow `last` where a file has all pages. */
static uint32_t next_page(const struct dz_ltx_header *h, uint32_t last)
{
    return last + 1 == dz_ltx_lock_page(h->page_bytes) ? last + 2 : last + 1;
}

/* --- writing -------------------------------------------------------------------------------- */

static void encode_header(const struct dz_ltx_header *h, uint8_t out[static DZ_LTX_HEADER_BYTES])
{
    memset(out, 0, DZ_LTX_HEADER_BYTES);
    memcpy(out, "LTX1", 4);
    put32(out + 4, FLAG_NO_CHECKSUM);
    put32(out + 8, h->page_bytes);
    put32(out + 12, h->pages);
    put64(out + 16, h->min_txid);
    put64(out + 24, h->max_txid);
    put64(out + 32, (uint64_t)h->time_ms);
    put64(out + 48, (uint64_t)h->wal_at);
    put64(out + 56, (uint64_t)h->wal_bytes);
    put32(out + 64, h->salt[0]);
    put32(out + 68, h->salt[1]);
    put64(out + 72, h->node);
}

static int flush(struct dz_ltx_out *w, struct dz_err *err)
{
    int rc = w->fill ? dz_blob_out_write(w->out, w->piece, w->fill, err) : 0;
    w->fill = 0;
    return rc;
}

/* Write bytes and count them in the checksum. */
static int put_bytes(struct dz_ltx_out *w, const void *data, size_t n, struct dz_err *err)
{
    const char *p = data;
    w->crc = dz_ltx_sum(w->crc, data, n);
    w->at += n;
    for (int rc; n > 0;) {
        size_t room = PIECE - w->fill, some = n < room ? n : room;
        memcpy(w->piece + w->fill, p, some);
        w->fill += some;
        p += some;
        n -= some;
        if (w->fill == PIECE && (rc = flush(w, err)) < 0)
            return rc;
    }
    return 0;
}

int dz_ltx_out_begin(struct dz_ltx_out *w, struct dz_blob_out *out, const struct dz_ltx_header *h,
                     struct dz_err *err)
{
    uint8_t head[DZ_LTX_HEADER_BYTES];
    assert(is_page_bytes(h->page_bytes) && h->pages > 0);
    assert(h->min_txid > 0 && h->min_txid <= h->max_txid);
    assert(h->wal_at > 0 || (h->wal_bytes == 0 && !h->salt[0] && !h->salt[1]));
    *w = (struct dz_ltx_out){.head = *h, .out = out, .index = DZ_BUF_INIT(INDEX_MAX)};
    w->piece = dz_alloc(PIECE);
    if (!w->piece)
        return dz_fail(err, DZ_ENOMEM, "write an LTX file: out of memory");
    encode_header(h, head);
    return put_bytes(w, head, sizeof head, err);
}

int dz_ltx_out_page(struct dz_ltx_out *w, uint32_t number, const void *page, struct dz_err *err)
{
    const struct dz_ltx_header *h = &w->head;
    uint8_t entry[3 * VARINT_MOST];
    assert(number > w->last && number <= h->pages && number != dz_ltx_lock_page(h->page_bytes));
    assert(h->min_txid > 1 || number == next_page(h, w->last));
    int rc = PIECE - w->fill < PAGE_MOST ? flush(w, err) : 0;
    if (rc < 0)
        return rc;
    uint8_t *head = (uint8_t *)w->piece + w->fill;
    int packed = LZ4_compress_default(page, (char *)head + PAGE_HEAD, (int)h->page_bytes,
                                      PAGE_MOST - PAGE_HEAD);
    assert(packed > 0);
    put32(head, number);
    put16(head + 4, FLAG_SIZED);
    put32(head + 6, (uint32_t)packed);
    w->crc = dz_ltx_sum(dz_ltx_sum(w->crc, head, PAGE_HEAD), page, h->page_bytes);
    size_t size = PAGE_HEAD + (size_t)packed;
    dz_buf_add(&w->index, entry, put_entry(entry, number, w->at, size));
    w->fill += size;
    w->at += size;
    w->last = number;
    return w->index.err ? dz_fail(err, w->index.err,
                                  "write an LTX file: no memory for the index of its pages")
                        : 0;
}

int dz_ltx_out_end(struct dz_ltx_out *w, struct dz_err *err)
{
    static const uint8_t zeros[ZEROS];
    uint8_t number[8];
    assert(w->head.min_txid > 1 || next_page(&w->head, w->last) > w->head.pages);
    dz_buf_add(&w->index, zeros, 1);
    if (w->index.err)
        return dz_fail(err, w->index.err,
                       "write an LTX file: no memory for the index of its pages");
    int rc = put_bytes(w, zeros, ZEROS, err);
    if (rc == 0)
        rc = put_bytes(w, w->index.p, w->index.len, err);
    put64(number, w->index.len);
    if (rc == 0)
        rc = put_bytes(w, number, sizeof number, err);
    put64(number, 0); /* the checksum of the database */
    if (rc == 0)
        rc = put_bytes(w, number, sizeof number, err);
    put64(number, w->crc | CHECKSUM_FLAG);
    if (rc == 0)
        rc = put_bytes(w, number, sizeof number, err);
    return rc < 0 ? rc : flush(w, err);
}

void dz_ltx_out_release(struct dz_ltx_out *w)
{
    if (w->index.max)
        dz_buf_release(&w->index);
    dz_free(DZ_TAKE_PTR(w->piece));
}

/* --- reading -------------------------------------------------------------------------------- */

static int damaged(struct dz_err *err, const char *what)
{
    return dz_fail(err, DZ_ECORRUPT, "the LTX file is damaged: %s", what);
}

static int check_header(const uint8_t *p, struct dz_ltx_header *h, struct dz_err *err)
{
    uint32_t flags = get_be32(p + 4);
    if (memcmp(p, "LTX1", 4) != 0)
        return damaged(err, "it does not begin with LTX1");
    *h = (struct dz_ltx_header){
        .page_bytes = get_be32(p + 8),
        .pages = get_be32(p + 12),
        .min_txid = get_be64(p + 16),
        .max_txid = get_be64(p + 24),
        .time_ms = (int64_t)get_be64(p + 32),
        .wal_at = (int64_t)get_be64(p + 48),
        .wal_bytes = (int64_t)get_be64(p + 56),
        .salt = {get_be32(p + 64), get_be32(p + 68)},
        .node = get_be64(p + 72),
    };
    if (flags != FLAG_NO_CHECKSUM)
        return dz_fail(
            err, DZ_EUNSUPPORTED,
            "the LTX file has flags 0x%x; only 0x2 is supported, which litestream writes", flags);
    if (!is_page_bytes(h->page_bytes))
        return damaged(err, "its page size is impossible");
    if (h->pages == 0 || h->min_txid == 0 || h->min_txid > h->max_txid)
        return damaged(err, "its header has an impossible range");
    if (get_be64(p + 40) != 0 || h->wal_at < 0 || h->wal_bytes < 0 ||
        (h->wal_at == 0 && (h->wal_bytes > 0 || h->salt[0] || h->salt[1])))
        return damaged(err, "its header contradicts itself");
    return 0;
}

/* Have up to n bytes in the piece, all of them unless the object ends before. */
static int fill(struct dz_ltx_in *r, size_t n, struct dz_err *err)
{
    assert(n <= PIECE);
    if (r->hi - r->lo >= n)
        return 0;
    uint64_t from = r->at + (r->hi - r->lo), left = r->in->size - from;
    memmove(r->piece, r->piece + r->lo, r->hi - r->lo);
    r->hi -= r->lo;
    r->lo = 0;
    size_t room = PIECE - r->hi, some = left < room ? (size_t)left : room;
    int rc = some ? dz_blob_in_read(r->in, r->piece + r->hi, some, from, err) : 0;
    r->hi += rc < 0 ? 0 : some;
    return rc;
}

/* The next n bytes, which must exist. */
static int need(struct dz_ltx_in *r, size_t n, struct dz_err *err)
{
    int rc = fill(r, n, err);
    return rc < 0 ? rc : r->hi - r->lo < n ? damaged(err, "it ends too early") : 0;
}

static void used(struct dz_ltx_in *r, size_t n)
{
    assert(n <= r->hi - r->lo);
    r->lo += n;
    r->at += n;
}

int dz_ltx_in_begin(struct dz_ltx_in *r, struct dz_blob_in *in, struct dz_err *err)
{
    *r = (struct dz_ltx_in){.in = in};
    r->piece = dz_alloc(PIECE);
    if (!r->piece)
        return dz_fail(err, DZ_ENOMEM, "read an LTX file: out of memory");
    int rc = need(r, DZ_LTX_HEADER_BYTES, err);
    if (rc == 0 && dz_blob_is_encrypted(r->piece, DZ_LTX_HEADER_BYTES))
        rc = dz_fail(err, DZ_EDENIED, "the file is encrypted, and no key file was given");
    if (rc == 0)
        rc = check_header((const uint8_t *)r->piece, &r->head, err);
    if (rc < 0)
        return rc;
    r->crc = dz_ltx_sum(0, r->piece, DZ_LTX_HEADER_BYTES);
    used(r, DZ_LTX_HEADER_BYTES);
    return 0;
}

/* A page with its size: a block of LZ4. */
static int unpack(struct dz_ltx_in *r, void *page, size_t *ret_size, struct dz_err *err)
{
    int rc = need(r, PAGE_HEAD, err);
    if (rc < 0)
        return rc;
    uint32_t size = get_be32(r->piece + r->lo + 6);
    if (size == 0 || size > (uint32_t)LZ4_COMPRESSBOUND(DZ_LTX_PAGE_MAX))
        return damaged(err, "a page has an impossible size");
    rc = need(r, PAGE_HEAD + size, err);
    if (rc < 0)
        return rc;
    const char *p = r->piece + r->lo;
    if (LZ4_decompress_safe(p + PAGE_HEAD, page, (int)size, (int)r->head.page_bytes) !=
        (int)r->head.page_bytes)
        return damaged(err, "a page does not decompress");
    r->crc = dz_ltx_sum(r->crc, p, PAGE_HEAD);
    *ret_size = PAGE_HEAD + size;
    return 0;
}

/* A page without its size: a frame of LZ4, which says itself where it ends. */
static int unpack_frame(struct dz_ltx_in *r, void *page, size_t *ret_size, struct dz_err *err)
{
    enum {
        HEAD = PAGE_HEAD - 4
    };
    if (!r->frames && (dz_mem_inject() ||
                       LZ4F_isError(LZ4F_createDecompressionContext(&r->frames, LZ4F_VERSION))))
        return dz_fail(err, DZ_ENOMEM, "read an LTX file: out of memory");
    int rc = fill(r, HEAD + FRAME_MOST, err);
    if (rc < 0)
        return rc;
    LZ4F_resetDecompressionContext(r->frames);
    const char *p = r->piece + r->lo;
    size_t have = r->hi - r->lo, from = HEAD, got = 0, more = 1;
    while (more > 0 && from < have) {
        size_t in = have - from, out = r->head.page_bytes - got;
        more = LZ4F_decompress(r->frames, (char *)page + got, &out, p + from, &in, NULL);
        if (LZ4F_isError(more) || (in == 0 && out == 0))
            return damaged(err, "a page does not decompress");
        from += in;
        got += out;
    }
    if (more > 0 || got != r->head.page_bytes)
        return damaged(err, "a page does not decompress");
    r->crc = dz_ltx_sum(r->crc, p, HEAD);
    r->framed = true;
    *ret_size = from;
    return 0;
}

/* Everything behind the pages. */
static int end(struct dz_ltx_in *r, struct dz_err *err)
{
    uint64_t crc = 0, left = r->in->size - r->at;
    if (r->head.min_txid == 1 && next_page(&r->head, r->last) <= r->head.pages)
        return damaged(err, "it should have all pages and ends before the last one");
    r->crc = dz_ltx_sum(r->crc, r->piece + r->lo, ZEROS);
    used(r, ZEROS);
    left -= ZEROS;
    if (left < 1 + INDEX_LENGTH + TRAILER)
        return damaged(err, "it ends too early");
    uint64_t length = left - INDEX_LENGTH - TRAILER;
    for (uint64_t n = length; n > 0;) {
        int rc = need(r, n < PIECE ? (size_t)n : PIECE, err);
        if (rc < 0)
            return rc;
        size_t some = r->hi - r->lo < n ? r->hi - r->lo : (size_t)n;
        r->crc = dz_ltx_sum(r->crc, r->piece + r->lo, some);
        crc = dz_ltx_sum(crc, r->piece + r->lo, some);
        used(r, some);
        n -= some;
    }
    int rc = need(r, INDEX_LENGTH + TRAILER, err);
    if (rc < 0)
        return rc;
    const char *p = r->piece + r->lo;
    static const char zero;
    if (get_be64(p) != length ||
        (!r->framed && (r->index_bytes + 1 != length || dz_ltx_sum(r->index_crc, &zero, 1) != crc)))
        return damaged(err, "its index does not match its pages");
    if (get_be64(p + 8) != 0)
        return damaged(err, "it has a checksum of the database that its header denies");
    if (get_be64(p + 16) != (dz_ltx_sum(r->crc, p, 16) | CHECKSUM_FLAG))
        return damaged(err, "its checksum is wrong");
    used(r, INDEX_LENGTH + TRAILER);
    r->ended = true;
    return 0;
}

int dz_ltx_in_page(struct dz_ltx_in *r, uint32_t *ret_number, void *ret_page, struct dz_err *err)
{
    uint8_t entry[3 * VARINT_MOST];
    size_t size = 0;
    assert(!r->ended);
    int rc = need(r, ZEROS, err);
    if (rc < 0)
        return rc;
    uint32_t number = get_be32(r->piece + r->lo);
    uint16_t flags = get16(r->piece + r->lo + 4);
    if (number == 0 && flags == 0)
        return end(r, err);
    if (number <= r->last || number > r->head.pages ||
        number == dz_ltx_lock_page(r->head.page_bytes))
        return damaged(err, "a page has an impossible number");
    if (r->head.min_txid == 1 && number != next_page(&r->head, r->last))
        return damaged(err, "it should have all pages and lacks one");
    if (flags & ~FLAG_SIZED)
        return damaged(err, "a page has unknown flags");
    rc = flags & FLAG_SIZED ? unpack(r, ret_page, &size, err)
                            : unpack_frame(r, ret_page, &size, err);
    if (rc < 0)
        return rc;
    r->crc = dz_ltx_sum(r->crc, ret_page, r->head.page_bytes);
    size_t n = put_entry(entry, number, r->at, size);
    r->index_crc = dz_ltx_sum(r->index_crc, entry, n);
    r->index_bytes += n;
    used(r, size);
    r->last = number;
    *ret_number = number;
    return 1;
}

void dz_ltx_in_release(struct dz_ltx_in *r)
{
    if (r->frames)
        (void)LZ4F_freeDecompressionContext(DZ_TAKE_PTR(r->frames));
    dz_free(DZ_TAKE_PTR(r->piece));
}

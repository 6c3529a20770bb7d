/* SPDX-License-Identifier: MIT
 *
 * blob_archive.c - the archive's format (docs/format/cold.md): zstd frames of 1 MiB of content
 * each, then a skippable frame with their table.
 *
 *   +---------+---------+-----+---------+----------------------------------------+
 *   | frame 0 | frame 1 | ... | frame n | skippable: n x (packed, content) footer |
 *   +---------+---------+-----+---------+----------------------------------------+
 *
 * Frames are independent, so a reader may start at any of them; each has its own
 * checksum. To zstd(1) the whole is one compressed file.
 *
 * All numbers are little-endian. What is read is checked before it is used: the
 * table must add up to the object's size, and each frame must give exactly the
 * bytes that the table says.
 */
#include "base/mem.h"
#include "base/vec.h"
#include "blob/blob_cold.h"

#include <assert.h>
#include <endian.h>
#include <stdatomic.h>
#include <string.h>
#include <zstd.h>

enum {
    FRAME = 1 << 20, /* bytes of content in each frame but the last */
    LEVEL = 1,
    FRAMES_MAX = 1 << 20, /* 1 TiB of content */
    ENTRY = 8,
    FOOTER = 56,
    HEADER = 8, /* of the skippable frame */
    VERSION = 1,
};
#define SKIPPABLE UINT32_C(0x184D2A5D)
#define MAGIC     "DOZECOLD"

struct entry {
    uint32_t packed, content; /* bytes */
};
DZ_VEC(entries, struct entry);

static void put32(uint8_t *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, sizeof v);
}

static void put64(uint8_t *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, sizeof v);
}

static uint32_t get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return le32toh(v);
}

static uint64_t get64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

static int check_cancel(dz_cold_cancel cancel, struct dz_err *err)
{
    return cancel && atomic_load_explicit(cancel, memory_order_relaxed)
               ? dz_fail(err, DZ_ECANCELED, "archiving was canceled")
               : 0;
}

/* The memory of a run over an archive. */
struct run {
    uint8_t *content, *packed;
    size_t packed_cap;
    ZSTD_CCtx *compress; /* one of the two */
    ZSTD_DCtx *expand;
    struct dz_blob_digest hash;
    struct entries table;
};

static void release_run(struct run *r)
{
    dz_free(r->content);
    dz_free(r->packed);
    (void)ZSTD_freeCCtx(r->compress);
    (void)ZSTD_freeDCtx(r->expand);
    dz_blob_digest_release(&r->hash);
    dz_vec_release(&r->table);
}

static int make_run(struct run *r, bool compress, struct dz_err *err)
{
    *r = (struct run){.packed_cap = ZSTD_compressBound(FRAME), .table = DZ_VEC_INIT(FRAMES_MAX)};
    r->content = dz_alloc(FRAME);
    r->packed = dz_alloc(r->packed_cap);
    if (!dz_mem_inject()) {
        r->compress = compress ? ZSTD_createCCtx() : NULL;
        r->expand = compress ? NULL : ZSTD_createDCtx();
    }
    if (!r->content || !r->packed || (!r->compress && !r->expand))
        return dz_fail(err, DZ_ENOMEM, "an archive: out of memory");
    if (compress &&
        (ZSTD_isError(ZSTD_CCtx_setParameter(r->compress, ZSTD_c_compressionLevel, LEVEL)) ||
         ZSTD_isError(ZSTD_CCtx_setParameter(r->compress, ZSTD_c_checksumFlag, 1))))
        return dz_fail(err, DZ_EUNSUPPORTED, "an archive: this libzstd lacks checksums");
    return dz_blob_digest_init(&r->hash, err);
}

/* All frames but the last are full, and together they hold `content` bytes. */
static void assert_table(const struct entries *table, uint64_t content)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < table->n; i++) {
        assert(table->p[i].packed > 0 && table->p[i].content > 0);
        assert(table->p[i].content == FRAME || i + 1 == table->n);
        sum += table->p[i].content;
    }
    assert(sum == content);
}

/* --- writing --------------------------------------------------------------------- */

static int write_frame(struct run *r, struct dz_blob_out *out, size_t n, struct dz_err *err)
{
    size_t packed = ZSTD_compress2(r->compress, r->packed, r->packed_cap, r->content, n);
    if (ZSTD_isError(packed))
        return dz_fail(err, DZ_ENOMEM, "compress: %s", ZSTD_getErrorName(packed));
    if (dz_vec_push(&r->table, ((struct entry){(uint32_t)packed, (uint32_t)n})) < 0)
        return dz_fail(err, r->table.err, "an archive holds at most %d frames", FRAMES_MAX);
    dz_blob_digest_update(&r->hash, r->content, n);
    return dz_blob_out_write(out, r->packed, packed, err);
}

static int write_table(const struct run *r, struct dz_blob_out *out, uint64_t content,
                       const uint8_t *digest, struct dz_err *err)
{
    size_t size = HEADER + r->table.n * ENTRY + FOOTER;
    DZ_AUTO(dz_freep) uint8_t *tail = dz_zalloc(size);
    if (!tail)
        return dz_fail(err, DZ_ENOMEM, "an archive: out of memory");
    assert_table(&r->table, content);
    put32(tail, SKIPPABLE);
    put32(tail + 4, (uint32_t)(size - HEADER));
    uint8_t *p = tail + HEADER;
    for (size_t i = 0; i < r->table.n; i++, p += ENTRY) {
        put32(p, r->table.p[i].packed);
        put32(p + 4, r->table.p[i].content);
    }
    memcpy(p, digest, DZ_SHA256_BYTES);
    put64(p + 32, content);
    put32(p + 40, (uint32_t)r->table.n);
    put32(p + 44, VERSION);
    memcpy(p + 48, MAGIC, 8);
    return dz_blob_out_write(out, tail, size, err);
}

int dz_cold_compress(struct dz_blob_in *in, struct dz_blob_out *out, dz_cold_cancel cancel,
                     uint8_t ret_digest[static DZ_SHA256_BYTES], struct dz_err *err)
{
    DZ_AUTO(release_run) struct run r;
    uint8_t digest[DZ_SHA256_BYTES];
    int rc = make_run(&r, true, err);
    for (uint64_t at = 0; rc == 0 && at < in->size;) {
        size_t n = in->size - at < FRAME ? (size_t)(in->size - at) : FRAME;
        rc = check_cancel(cancel, err);
        if (rc == 0)
            rc = dz_blob_in_read(in, r.content, n, at, err);
        if (rc == 0)
            rc = write_frame(&r, out, n, err);
        at += n;
    }
    if (rc == 0)
        rc = dz_blob_digest_final(&r.hash, digest, err);
    if (rc == 0)
        rc = write_table(&r, out, in->size, digest, err);
    if (rc == 0)
        memcpy(ret_digest, digest, sizeof digest);
    return rc;
}

/* --- reading --------------------------------------------------------------------- */

static int damaged(struct dz_err *err, const char *what)
{
    return dz_fail(err, DZ_ECORRUPT, "the archive is damaged: %s", what);
}

struct footer {
    uint8_t digest[DZ_SHA256_BYTES];
    uint64_t content;
    uint32_t count;
};

static int read_footer(struct dz_blob_in *in, struct footer *f, struct dz_err *err)
{
    uint8_t raw[FOOTER];
    if (in->size < HEADER + FOOTER)
        return damaged(err, "it is too short");
    int rc = dz_blob_in_read(in, raw, FOOTER, in->size - FOOTER, err);
    if (rc < 0)
        return rc;
    if (memcmp(raw + 48, MAGIC, 8) != 0)
        return damaged(err, "it does not end in a footer; it may be cut off");
    if (get32(raw + 44) != VERSION)
        return dz_fail(err, DZ_EUNSUPPORTED, "the archive has version %u, and this doze reads %d",
                       get32(raw + 44), VERSION);
    memcpy(f->digest, raw, DZ_SHA256_BYTES);
    f->content = get64(raw + 32);
    f->count = get32(raw + 40);
    if (f->count > FRAMES_MAX || in->size - HEADER - FOOTER < (uint64_t)f->count * ENTRY)
        return damaged(err, "its table is larger than the archive");
    return 0;
}

static int read_table(struct dz_blob_in *in, const struct footer *f, struct entries *table,
                      struct dz_err *err)
{
    uint64_t size = HEADER + (uint64_t)f->count * ENTRY + FOOTER, packed = 0, content = 0;
    DZ_AUTO(dz_freep) uint8_t *raw = dz_alloc((size_t)size);
    if (!raw || dz_vec_reserve(table, f->count) < 0)
        return dz_fail(err, DZ_ENOMEM, "an archive: out of memory");
    int rc = dz_blob_in_read(in, raw, (size_t)size, in->size - size, err);
    if (rc < 0)
        return rc;
    if (get32(raw) != SKIPPABLE || get32(raw + 4) != size - HEADER)
        return damaged(err, "its table has no header");
    for (uint32_t i = 0; i < f->count; i++) {
        const uint8_t *p = raw + HEADER + (size_t)i * ENTRY;
        struct entry e = {get32(p), get32(p + 4)};
        bool last = i + 1 == f->count;
        if (e.packed == 0 || e.packed > ZSTD_COMPRESSBOUND(FRAME) || e.content == 0 ||
            e.content > FRAME || (!last && e.content != FRAME))
            return damaged(err, "a frame has an impossible size");
        packed += e.packed;
        content += e.content;
        (void)dz_vec_push(table, e); /* reserved */
    }
    if (packed != in->size - size || content != f->content)
        return damaged(err, "its sizes do not add up");
    return 0;
}

int dz_cold_expand(struct dz_blob_in *in, struct dz_blob_out *out, dz_cold_cancel cancel,
                   uint8_t ret_digest[static DZ_SHA256_BYTES], struct dz_err *err)
{
    DZ_AUTO(release_run) struct run r;
    struct footer f;
    uint8_t digest[DZ_SHA256_BYTES];
    uint64_t at = 0;
    int rc = make_run(&r, false, err);
    if (rc == 0)
        rc = read_footer(in, &f, err);
    if (rc == 0)
        rc = read_table(in, &f, &r.table, err);
    if (rc == 0)
        assert_table(&r.table, f.content);
    for (size_t i = 0; rc == 0 && i < r.table.n; i++) {
        const struct entry e = r.table.p[i];
        rc = check_cancel(cancel, err);
        if (rc == 0)
            rc = dz_blob_in_read(in, r.packed, e.packed, at, err);
        if (rc < 0)
            break;
        size_t n = ZSTD_decompressDCtx(r.expand, r.content, FRAME, r.packed, e.packed);
        if (ZSTD_isError(n) || n != e.content)
            return damaged(err, ZSTD_isError(n) ? ZSTD_getErrorName(n) : "a frame is too short");
        dz_blob_digest_update(&r.hash, r.content, n);
        if (out)
            rc = dz_blob_out_write(out, r.content, n, err);
        at += e.packed;
    }
    if (rc == 0)
        rc = dz_blob_digest_final(&r.hash, digest, err);
    if (rc < 0)
        return rc;
    assert(at == in->size - HEADER - r.table.n * ENTRY - FOOTER);
    if (memcmp(digest, f.digest, sizeof digest) != 0)
        return damaged(err, "the SHA-256 of its content is wrong");
    memcpy(ret_digest, digest, sizeof digest);
    return 0;
}

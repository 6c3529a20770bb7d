/* SPDX-License-Identifier: MIT
 *
 * One LTX file: what is written is read again, and every damage is noticed.
 */
#include "../lib/blob_memory.h"
#include "replica/replica_int.h"
#include "tap.h"

#include <lz4frame.h>

enum {
    PAGE = 512,
};

static void fill(char *page, size_t size, uint32_t number)
{
    for (size_t i = 0; i < size; i++)
        page[i] = (char)(number * 31 + (uint32_t)(i / 7) * (number % 3));
}

static int write_file(struct memory_out *out, const struct dz_ltx_header *h,
                      const uint32_t *numbers, struct dz_err *err)
{
    static char page[DZ_LTX_PAGE_MAX];
    DZ_AUTO(dz_ltx_out_release) struct dz_ltx_out w = {0};
    int rc = dz_ltx_out_begin(&w, &out->head, h, err);
    for (; *numbers && rc == 0; numbers++) {
        fill(page, h->page_bytes, *numbers);
        rc = dz_ltx_out_page(&w, *numbers, page, err);
    }
    return rc < 0 ? rc : dz_ltx_out_end(&w, err);
}

/* Returns the number of pages that are as fill() makes them, or an error. */
static int read_file(const char *data, size_t size, struct dz_ltx_header *ret_head,
                     struct dz_err *err)
{
    static char page[DZ_LTX_PAGE_MAX], want[DZ_LTX_PAGE_MAX];
    struct memory_in in = MEMORY_IN(data, size);
    DZ_AUTO(dz_ltx_in_release) struct dz_ltx_in r = {0};
    uint32_t number;
    int pages = 0, rc = dz_ltx_in_begin(&r, &in.head, err);
    if (rc == 0)
        while ((rc = dz_ltx_in_page(&r, &number, page, err)) == 1) {
            fill(want, r.head.page_bytes, number);
            pages += memcmp(page, want, r.head.page_bytes) == 0;
        }
    *ret_head = r.head;
    return rc < 0 ? rc : pages;
}

static const struct dz_ltx_header some = {.page_bytes = PAGE,
                                          .pages = 9,
                                          .min_txid = 7,
                                          .max_txid = 0x123456789a,
                                          .time_ms = 1700000000123,
                                          .wal_at = 32,
                                          .wal_bytes = 4000,
                                          .salt = {1, 0xfffffffe},
                                          .node = 0x1122334455667788};
static const uint32_t some_pages[] = {1, 2, 9, 0};

TEST(what_is_written_is_read_again)
{
    struct memory_out out = MEMORY_OUT;
    struct dz_ltx_header h;
    CHECK_INT(write_file(&out, &some, some_pages, NULL), 0);
    CHECK_INT(read_file(out.bytes.p, out.bytes.len, &h, NULL), 3);
    CHECK(memcmp(&h, &some, sizeof h) == 0);
    CHECK(memcmp(out.bytes.p, "LTX1\0\0\0\2\0\0\2\0\0\0\0\11", 16) == 0);
    CHECK_INT(get_be64(out.bytes.p + 24), 0x123456789a);
    CHECK_INT(get_be32(out.bytes.p + 68), 0xfffffffe);
    /* of Go's documents: the check value of this checksum */
    CHECK_INT(dz_ltx_sum(0, "123456789", 9), (int64_t)0xb90956c775a41001);
    dz_buf_release(&out.bytes);
}

TEST(pages_of_every_size_and_files_longer_than_a_piece)
{
    for (uint32_t size = DZ_LTX_PAGE_MIN; size <= DZ_LTX_PAGE_MAX; size *= 2) {
        struct memory_out out = MEMORY_OUT;
        struct dz_ltx_header h = some;
        uint32_t numbers[41] = {0};
        for (uint32_t i = 0; i < 40; i++)
            numbers[i] = i + 1;
        h.page_bytes = size;
        h.pages = 40;
        h.min_txid = 1;
        CHECK_INT(write_file(&out, &h, numbers, NULL), 0);
        CHECK_INT(read_file(out.bytes.p, out.bytes.len, &h, NULL), 40);
        CHECK_INT(h.page_bytes, size);
        dz_buf_release(&out.bytes);
    }
}

TEST(the_lock_page_is_left_out)
{
    struct memory_out out = MEMORY_OUT;
    struct dz_ltx_header h = some;
    h.page_bytes = DZ_LTX_PAGE_MAX;
    h.pages = 16386;
    const uint32_t numbers[] = {16384, 16386, 0};
    CHECK_INT(dz_ltx_lock_page(DZ_LTX_PAGE_MAX), 16385);
    CHECK_INT(write_file(&out, &h, numbers, NULL), 0);
    CHECK_INT(read_file(out.bytes.p, out.bytes.len, &h, NULL), 2);
    dz_buf_release(&out.bytes);
}

TEST(every_wrong_byte_and_every_cut_is_noticed)
{
    struct memory_out out = MEMORY_OUT;
    struct dz_ltx_header h;
    struct dz_err err;
    CHECK_INT(write_file(&out, &some, some_pages, NULL), 0);
    for (size_t i = 0; i < out.bytes.len; i++) {
        out.bytes.p[i] ^= 0x10;
        int rc = read_file(out.bytes.p, out.bytes.len, &h, &err);
        CHECK(rc == DZ_ECORRUPT || (rc == DZ_EUNSUPPORTED && i >= 4 && i < 8));
        out.bytes.p[i] ^= 0x10;
        CHECK_INT(read_file(out.bytes.p, i, &h, &err), DZ_ECORRUPT);
    }
    dz_buf_add(&out.bytes, "", 1);
    CHECK_INT(read_file(out.bytes.p, out.bytes.len, &h, &err), DZ_ECORRUPT);
    dz_buf_release(&out.bytes);
}

/* Change a number of the file, and make its checksum right again. Works where no page changes. */
static int read_forged_of(const struct dz_ltx_header *head, const uint32_t *pages, uint64_t at,
                          uint32_t value, struct dz_err *err)
{
    struct memory_out out = MEMORY_OUT;
    struct dz_ltx_header h;
    uint8_t page[PAGE];
    CHECK_INT(write_file(&out, head, pages, NULL), 0);
    value = htobe32(value);
    memcpy(out.bytes.p + at, &value, sizeof value);
    uint64_t sum = dz_ltx_sum(0, out.bytes.p, DZ_LTX_HEADER_BYTES);
    size_t from = DZ_LTX_HEADER_BYTES;
    for (const uint32_t *n = pages; *n; n++) {
        fill((char *)page, PAGE, *n);
        sum = dz_ltx_sum(dz_ltx_sum(sum, out.bytes.p + from, 10), page, PAGE);
        from += 10 + get_be32(out.bytes.p + from + 6);
    }
    sum = dz_ltx_sum(sum, out.bytes.p + from, out.bytes.len - 8 - from) | UINT64_C(1) << 63;
    sum = htobe64(sum);
    memcpy(out.bytes.p + out.bytes.len - 8, &sum, sizeof sum);
    int rc = read_file(out.bytes.p, out.bytes.len, &h, err);
    dz_buf_release(&out.bytes);
    return rc;
}

static int read_forged(uint64_t at, uint32_t value, struct dz_err *err)
{
    return read_forged_of(&some, some_pages, at, value, err);
}

TEST(a_forged_file_is_refused)
{
    struct dz_err err = {0};
    CHECK_INT(read_forged(68, 77, &err), 3); /* another salt is as good */
    CHECK_INT(read_forged(4, 0, &err), DZ_EUNSUPPORTED);
    CHECK_INT(read_forged(8, 513, &err), DZ_ECORRUPT); /* page size */
    CHECK_INT(read_forged(8, 1 << 17, &err), DZ_ECORRUPT);
    CHECK_INT(read_forged(8, 1024, &err), DZ_ECORRUPT);  /* pages are shorter */
    CHECK_INT(read_forged(12, 0, &err), DZ_ECORRUPT);    /* pages of the database */
    CHECK_INT(read_forged(12, 8, &err), DZ_ECORRUPT);    /* page 9 is behind its end */
    CHECK_INT(read_forged(20, 0, &err), DZ_ECORRUPT);    /* no first TXID */
    CHECK_INT(read_forged(20, 1, &err), DZ_ECORRUPT);    /* so it should have all pages */
    CHECK_INT(read_forged(16, 0x7f, &err), DZ_ECORRUPT); /* the last TXID comes first */
    CHECK_INT(read_forged(44, 5, &err), DZ_ECORRUPT);    /* a checksum of the database */
    CHECK_INT(read_forged(48, 1u << 31, &err), DZ_ECORRUPT);
    CHECK_INT(read_forged(52, 0, &err), DZ_ECORRUPT); /* salts without a place */
    CHECK_INT(read_forged(100, 0, &err), DZ_ECORRUPT);
    CHECK_INT(read_forged(100, 2, &err), DZ_ECORRUPT); /* the same number twice */
    CHECK(strstr(err.msg, "number"));
    CHECK_INT(read_forged(104, 5u << 16, &err), DZ_ECORRUPT);
    struct dz_ltx_header all = some;
    all.min_txid = 1;
    all.pages = 3;
    static const uint32_t three[] = {1, 2, 3, 0};
    CHECK_INT(read_forged_of(&all, three, 12, 3, &err), 3);
    CHECK_INT(read_forged_of(&all, three, 12, 4, &err), DZ_ECORRUPT); /* the last page is missing */
    CHECK(strstr(err.msg, "last"));
}

TEST(the_index_is_that_of_the_pages)
{
    struct memory_out out = MEMORY_OUT;
    struct dz_err err = {0};
    CHECK_INT(write_file(&out, &some, some_pages, NULL), 0);
    size_t length = (size_t)get_be64(out.bytes.p + out.bytes.len - 24);
    uint64_t at = out.bytes.len - 24 - length;
    dz_buf_release(&out.bytes);
    CHECK_INT(read_forged(at, 0x05640000, &err), DZ_ECORRUPT);
    CHECK(strstr(err.msg, "index"));
    CHECK_INT(read_forged(at + length + 4, (uint32_t)length + 1, &err), DZ_ECORRUPT);
}

/* As the first versions of litestream 0.5 wrote it: pages as frames of LZ4, without their size. */
TEST(pages_may_be_frames)
{
    struct memory_out out = MEMORY_OUT;
    struct dz_ltx_header h = some;
    struct dz_err err = {0};
    char page[PAGE], frame[2 * PAGE], head[6] = {0};
    uint32_t one[] = {1, 0};
    h.pages = 2;
    CHECK_INT(write_file(&out, &h, one, NULL), 0);
    struct memory_out framed = MEMORY_OUT;
    dz_buf_add(&framed.bytes, out.bytes.p, DZ_LTX_HEADER_BYTES);
    uint64_t sum = dz_ltx_sum(0, out.bytes.p, DZ_LTX_HEADER_BYTES);
    for (uint32_t n = 1; n <= 2; n++) {
        fill(page, PAGE, n);
        head[3] = (char)n;
        size_t size = LZ4F_compressFrame(frame, sizeof frame, page, PAGE, NULL);
        CHECK(!LZ4F_isError(size));
        dz_buf_add(&framed.bytes, head, sizeof head);
        dz_buf_add(&framed.bytes, frame, size);
        sum = dz_ltx_sum(dz_ltx_sum(sum, head, sizeof head), page, PAGE);
    }
    size_t from = framed.bytes.len;
    dz_buf_add(&framed.bytes, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0", 23);
    sum = htobe64(dz_ltx_sum(sum, framed.bytes.p + from, 23) | UINT64_C(1) << 63);
    dz_buf_add(&framed.bytes, &sum, sizeof sum);
    CHECK_INT(read_file(framed.bytes.p, framed.bytes.len, &h, &err), 2);
    for (size_t i = DZ_LTX_HEADER_BYTES; i < framed.bytes.len; i++) {
        framed.bytes.p[i] ^= 0x10;
        CHECK(read_file(framed.bytes.p, framed.bytes.len, &h, &err) < 0);
        framed.bytes.p[i] ^= 0x10;
        CHECK(read_file(framed.bytes.p, i, &h, &err) < 0);
    }
    dz_buf_release(&framed.bytes);
    dz_buf_release(&out.bytes);
}

TORTURE(every_allocation_may_fail)
{
    struct memory_out out = MEMORY_OUT;
    struct dz_ltx_header h;
    struct dz_err err;
    int rc = write_file(&out, &some, some_pages, &err);
    CHECK(rc == 0 || rc == DZ_ENOMEM);
    if (rc == 0) {
        rc = read_file(out.bytes.p, out.bytes.len, &h, &err);
        CHECK(rc == 3 || rc == DZ_ENOMEM);
    }
    dz_buf_release(&out.bytes);
}

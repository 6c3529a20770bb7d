/* SPDX-License-Identifier: MIT */
#include "tap.h"

#include "image/image_int.h"

#include <sys/stat.h>

/* Two members, stored: "a" with "hello", "d/b" with nothing. */
struct archive {
    uint8_t bytes[512];
    size_t size;
};

static void put(struct archive *a, const void *p, size_t n)
{
    memcpy(a->bytes + a->size, p, n);
    a->size += n;
}

static void put16(struct archive *a, unsigned v)
{
    const uint8_t b[2] = {(uint8_t)v, (uint8_t)(v >> 8)};
    put(a, b, 2);
}

static void put32(struct archive *a, uint32_t v)
{
    put16(a, v & 0xffff);
    put16(a, v >> 16);
}

static void local(struct archive *a, const char *name, uint32_t crc, const char *data)
{
    put(a, "PK\3\4\12\0\0\0\0\0\0\0\0\0", 14);
    put32(a, crc);
    put32(a, (uint32_t)strlen(data));
    put32(a, (uint32_t)strlen(data));
    put16(a, (unsigned)strlen(name));
    put16(a, 0);
    put(a, name, strlen(name));
    put(a, data, strlen(data));
}

static void entry(struct archive *a, const char *name, uint32_t crc, uint32_t size, uint32_t offset)
{
    put(a, "PK\1\2\12\3\12\0\0\0\0\0\0\0\0\0", 16);
    put32(a, crc);
    put32(a, size);
    put32(a, size);
    put16(a, (unsigned)strlen(name));
    put(a, "\0\0\0\0\0\0\0\0", 8);
    put32(a, (uint32_t)(S_IFREG | 0755) << 16);
    put32(a, offset);
    put(a, name, strlen(name));
}

static void make(struct archive *a, const char *first, uint32_t crc)
{
    *a = (struct archive){0};
    local(a, first, crc, "hello");
    uint32_t second = (uint32_t)a->size;
    local(a, "d/b", 0, "");
    uint32_t dir = (uint32_t)a->size;
    entry(a, first, crc, 5, 0);
    entry(a, "d/b", 0, 0, second);
    uint32_t size = (uint32_t)a->size - dir;
    put(a, "PK\5\6\0\0\0\0", 8);
    put16(a, 2);
    put16(a, 2);
    put32(a, size);
    put32(a, dir);
    put16(a, 0);
}

static int read_at(void *arg, void *to, size_t n, uint64_t at, struct dz_err *err)
{
    const struct archive *a = arg;
    if (at > a->size || n > a->size - at)
        return dz_fail(err, DZ_EIO, "outside");
    memcpy(to, a->bytes + at, n);
    return 0;
}

static int sink(void *arg, const void *data, size_t n, struct dz_err *err)
{
    dz_buf_add(arg, data, n);
    return ((struct dz_buf *)arg)->err ? dz_fail(err, DZ_ENOMEM, "full") : 0;
}

/* Reads all members; the first error, or how many. */
static int read_all(struct archive *a, struct dz_buf *out, struct dz_err *err)
{
    const struct dz_zip_source source = {read_at, a, a->size};
    struct dz_archive_member m;
    struct dz_zip *z;
    int rc = dz_zip_open(&source, &z, err), n = 0;
    if (rc < 0)
        return rc;
    while ((rc = dz_zip_next(z, &m, err)) > 0) {
        dz_buf_addf(out, "%.*s %o:", DZ_STR_ARG(m.path), m.mode);
        rc = dz_zip_read(z, sink, out, err);
        if (rc < 0)
            break;
        dz_buf_adds(out, ";");
        n++;
    }
    dz_zip_close(z);
    return rc < 0 ? rc : n;
}

enum {
    CRC_HELLO = 0x3610a686
};

TEST(members_in_order_with_their_content)
{
    struct archive a;
    struct dz_err err = {0};
    DZ_AUTO(dz_buf_release) struct dz_buf out = DZ_BUF_INIT(1000);
    make(&a, "a", CRC_HELLO);
    CHECK_INT(read_all(&a, &out, &err), 2);
    CHECK_STR(out.p, "a 100755:hello;d/b 100755:;");
}

TEST(a_wrong_checksum_and_a_path_that_leaves_are_refused)
{
    struct archive a;
    struct dz_err err = {0};
    DZ_AUTO(dz_buf_release) struct dz_buf out = DZ_BUF_INIT(1000);
    make(&a, "a", CRC_HELLO ^ 1);
    CHECK_INT(read_all(&a, &out, &err), DZ_EINVAL);
    CHECK(strstr(err.msg, "checksum") != NULL);
    make(&a, "../a", CRC_HELLO);
    CHECK_INT(read_all(&a, &out, &err), DZ_EINVAL);
    make(&a, "/a", CRC_HELLO);
    CHECK_INT(read_all(&a, &out, &err), DZ_EINVAL);
}

/* Cut anywhere, or with any byte changed: an answer, never a byte outside. */
TEST(damage_anywhere_is_an_error_or_harmless)
{
    struct archive whole, a;
    make(&whole, "a", CRC_HELLO);
    for (size_t i = 0; i < whole.size; i++) {
        DZ_AUTO(dz_buf_release) struct dz_buf out = DZ_BUF_INIT(1000);
        a = whole;
        a.size = i;
        CHECK(read_all(&a, &out, NULL) < 0);
        for (int v = 1; v < 256; v <<= 1) {
            a = whole;
            a.bytes[i] ^= (uint8_t)v;
            dz_buf_reset(&out);
            CHECK(read_all(&a, &out, NULL) <= 2);
        }
    }
}

TORTURE(an_archive_under_want)
{
    struct archive a;
    DZ_AUTO(dz_buf_release) struct dz_buf out = DZ_BUF_INIT(1000);
    make(&a, "a", CRC_HELLO);
    (void)read_all(&a, &out, NULL);
}

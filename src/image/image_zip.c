/* SPDX-License-Identifier: MIT
 *
 * image_zip.c - read a zip archive (PKWARE's APPNOTE 6.3.10, as far as wheels use it): the
 * directory at its end, members stored or deflated. Runs in a cell.
 *
 * Every offset and size is checked against the archive's. A member gives exactly the number of
 * bytes in its header, with its checksum, or an error. Not supported: encrypted members, several
 * disks, zip64, other methods of compression.
 */
#include "image/image_int.h"

#include "base/mem.h"
#include "base/path.h"

#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum {
    END_SIZE = 22,
    END_SEARCH = END_SIZE + 65535,
    ENTRY_SIZE = 46,
    LOCAL_SIZE = 30,
    DIRECTORY_MAX = 128 << 20,
    STEP = 1 << 16,
    MADE_BY_UNIX = 3,
    STORED = 0,
    DEFLATED = 8,
};

struct dz_zip {
    struct dz_zip_source from;
    uint8_t *dir;
    size_t dir_size, at;
    uint32_t left; /* members */
    /* the last member returned */
    uint32_t crc, packed, offset;
    uint64_t size;
    uint16_t method;
    char path[DZ_PATH_MAX];
};

static uint16_t u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int broken(struct dz_err *err, const char *what)
{
    return dz_fail(err, DZ_EINVAL, "the zip archive is damaged: %s", what);
}

/* --- the end of the archive ---------------------------------------------------------- */

static const uint8_t *find_end(const uint8_t *tail, size_t n)
{
    for (size_t at = n >= END_SIZE ? n - END_SIZE + 1 : 0; at-- > 0;)
        if (memcmp(tail + at, "PK\5\6", 4) == 0 && at + END_SIZE + u16(tail + at + 20) <= n)
            return tail + at;
    return NULL;
}

static int read_directory(struct dz_zip *z, const uint8_t *end, struct dz_err *err)
{
    uint32_t size = u32(end + 12), offset = u32(end + 16);
    if (u16(end + 4) != 0 || u16(end + 6) != 0 || u16(end + 8) != u16(end + 10))
        return dz_fail(err, DZ_EUNSUPPORTED, "zip archives in several parts are not supported");
    if (offset == UINT32_MAX || size == UINT32_MAX || u16(end + 10) == UINT16_MAX)
        return dz_fail(err, DZ_EUNSUPPORTED,
                       "zip archives of the 64-bit form (zip64) are not supported");
    if (size > DIRECTORY_MAX || (uint64_t)offset + size > z->from.size)
        return broken(err, "its directory lies outside the archive");
    z->left = u16(end + 10);
    z->dir_size = size;
    z->dir = dz_alloc(size ? size : 1);
    if (!z->dir)
        return dz_fail(err, DZ_ENOMEM, "read a zip archive: out of memory");
    return z->from.read_at(z->from.arg, z->dir, size, offset, err);
}

int dz_zip_open(const struct dz_zip_source *from, struct dz_zip **ret_zip, struct dz_err *err)
{
    size_t n = from->size < END_SEARCH ? (size_t)from->size : END_SEARCH;
    uint8_t *tail = dz_alloc(END_SEARCH);
    struct dz_zip *z = dz_zalloc(sizeof *z);
    int rc = tail && z ? from->read_at(from->arg, tail, n, from->size - n, err)
                       : dz_fail(err, DZ_ENOMEM, "read a zip archive: out of memory");
    const uint8_t *end = rc < 0 ? NULL : find_end(tail, n);
    if (rc == 0 && !end)
        rc = dz_fail(err, DZ_EINVAL, "not a zip archive, or its end is missing");
    if (rc == 0) {
        z->from = *from;
        rc = read_directory(z, end, err);
    }
    dz_free(tail);
    if (rc < 0)
        dz_zip_close(z);
    else
        *ret_zip = z;
    return rc;
}

void dz_zip_close(struct dz_zip *z)
{
    if (!z)
        return;
    dz_free(z->dir);
    dz_free(z);
}

/* --- members --------------------------------------------------------------------------- */

static uint32_t mode_of(const uint8_t *entry, bool dir)
{
    uint32_t unix_mode = entry[5] == MADE_BY_UNIX ? u32(entry + 38) >> 16 : 0;
    if (dir)
        return S_IFDIR | 0755;
    if (S_ISLNK(unix_mode))
        return S_IFLNK | 0777;
    return S_IFREG | (unix_mode & 0111 ? 0755 : 0644);
}

int dz_zip_next(struct dz_zip *z, struct dz_archive_member *ret_member, struct dz_err *err)
{
    char safe[DZ_PATH_MAX];
    if (z->left == 0)
        return 0;
    const uint8_t *e = z->dir + z->at;
    if (z->dir_size - z->at < ENTRY_SIZE || memcmp(e, "PK\1\2", 4) != 0)
        return broken(err, "its directory ends early");
    size_t name = u16(e + 28), all = ENTRY_SIZE + name + u16(e + 30) + u16(e + 32);
    if (z->dir_size - z->at < all)
        return broken(err, "its directory ends early");
    struct dz_str path = dz_str_n((const char *)e + ENTRY_SIZE, name);
    bool dir = name > 0 && path.p[name - 1] == '/';
    int rc = dz_path_inside(path, safe, err);
    if (rc < 0)
        return dz_wrap(err, DZ_EINVAL, "a member of the zip archive");
    if (!safe[0])
        return broken(err, "a member has no name");
    z->method = u16(e + 10);
    z->crc = u32(e + 16);
    z->packed = u32(e + 20);
    z->size = u32(e + 24);
    z->offset = u32(e + 42);
    if (z->packed == UINT32_MAX || z->size == UINT32_MAX || z->offset == UINT32_MAX)
        return dz_fail(
            err, DZ_EUNSUPPORTED,
            "the member %s of the zip archive is in the 64-bit form (zip64), which is not supported",
            safe);
    if (u16(e + 8) & 1)
        return dz_fail(err, DZ_EUNSUPPORTED, "the member %s of the zip archive is encrypted", safe);
    memcpy(z->path, safe, sizeof safe);
    z->at += all;
    z->left--;
    *ret_member = (struct dz_archive_member){
        .path = dz_str(z->path), .mode = mode_of(e, dir), .size = z->size};
    return 1;
}

/* --- content ----------------------------------------------------------------------------- */

struct content {
    struct dz_zip *z;
    uint64_t from, left; /* packed bytes */
    uint64_t size;       /* so far */
    uLong crc;
    dz_zip_sink_fn *sink;
    void *arg;
    uint8_t in[STEP], out[STEP];
};

static int give(struct content *c, const uint8_t *data, size_t n, struct dz_err *err)
{
    c->size += n;
    if (c->size > c->z->size)
        return broken(err, "a member is longer than its header says");
    c->crc = crc32(c->crc, data, (uInt)n);
    return n ? c->sink(c->arg, data, n, err) : 0;
}

/* Read the next packed bytes into c->in; returns how many. */
static int take(struct content *c, struct dz_err *err)
{
    size_t n = c->left < STEP ? (size_t)c->left : STEP;
    int rc = n ? c->z->from.read_at(c->z->from.arg, c->in, n, c->from, err) : 0;
    c->from += n;
    c->left -= n;
    return rc < 0 ? rc : (int)n;
}

static int copy_stored(struct content *c, struct dz_err *err)
{
    int n = 1, rc = 0;
    while (rc == 0 && (n = take(c, err)) > 0)
        rc = give(c, c->in, (size_t)n, err);
    return n < 0 ? n : rc;
}

static int inflate_all(struct content *c, z_stream *s, struct dz_err *err)
{
    for (int state = Z_OK; state != Z_STREAM_END;) {
        if (s->avail_in == 0) {
            int n = take(c, err);
            if (n <= 0)
                return n < 0 ? n : broken(err, "a member ends early");
            s->next_in = c->in;
            s->avail_in = (uInt)n;
        }
        s->next_out = c->out;
        s->avail_out = STEP;
        state = inflate(s, Z_NO_FLUSH);
        if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR)
            return broken(err, "a member cannot be inflated");
        int rc = give(c, c->out, STEP - s->avail_out, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int read_inflated(struct content *c, struct dz_err *err)
{
    z_stream s = {0};
    if (inflateInit2(&s, -MAX_WBITS) != Z_OK)
        return dz_fail(err, DZ_ENOMEM, "inflate a member of a zip archive: out of memory");
    int rc = inflate_all(c, &s, err);
    (void)inflateEnd(&s);
    return rc;
}

int dz_zip_read(struct dz_zip *z, dz_zip_sink_fn *sink, void *arg, struct dz_err *err)
{
    uint8_t local[LOCAL_SIZE];
    if ((uint64_t)z->offset + LOCAL_SIZE > z->from.size)
        return broken(err, "a member lies outside the archive");
    int rc = z->from.read_at(z->from.arg, local, sizeof local, z->offset, err);
    if (rc < 0)
        return rc;
    uint64_t from = (uint64_t)z->offset + LOCAL_SIZE + u16(local + 26) + u16(local + 28);
    if (memcmp(local, "PK\3\4", 4) != 0 || from + z->packed > z->from.size)
        return broken(err, "a member lies outside the archive");
    if (z->method != STORED && z->method != DEFLATED)
        return dz_fail(err, DZ_EUNSUPPORTED,
                       "a member of the zip archive is compressed by "
                       "method %u: only deflate can be read",
                       z->method);
    struct content *c = dz_zalloc(sizeof *c);
    if (!c)
        return dz_fail(err, DZ_ENOMEM, "read a zip archive: out of memory");
    *c = (struct content){
        .z = z, .from = from, .left = z->packed, .sink = sink, .arg = arg, .crc = 0};
    rc = z->method == STORED ? copy_stored(c, err) : read_inflated(c, err);
    if (rc == 0 && (c->size != z->size || (uint32_t)c->crc != z->crc))
        rc = broken(err, "a member's checksum or size is wrong");
    dz_free(c);
    return rc;
}

/* SPDX-License-Identifier: MIT
 *
 * image_gunzip.c - a gzip stream as bytes, for the tar reader. Runs in a cell.
 */
#include "image/image_int.h"

#include "base/mem.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum {
    STEP = 1 << 16,
    GZIP = 16, /* of inflateInit2: a gzip header and its checksum */
    USTAR_AT = 257,
    HEAD = USTAR_AT + 5,
};

struct dz_gunzip {
    int fd;
    bool plain, over;
    uint64_t at;
    z_stream s;
    uint8_t in[STEP];
};

/* What else archives are compressed by, for a clear answer. */
static const struct {
    const char *magic, *name, *undo;
    size_t size;
} foreign[] = {{"\3757zXZ", "xz", "xz -d", 6},
               {"\x28\xb5\x2f\xfd", "zstd", "zstd -d", 4},
               {"BZh", "bzip2", "bzip2 -d", 3},
               {"\x5d\0\0", "lzma", "lzma -d", 4},
               {"LZIP", "lzip", "lzip -d", 4}};

static int refuse_foreign(const uint8_t magic[static HEAD], struct dz_err *err)
{
    if (memcmp(magic + USTAR_AT, "ustar", 5) == 0)
        return 0; /* a tar, whatever its first member is called */
    for (size_t i = 0; i < DZ_ARRAY_LEN(foreign); i++)
        if (memcmp(magic, foreign[i].magic, foreign[i].size) == 0)
            return dz_fail(err, DZ_EUNSUPPORTED,
                           "the archive is compressed by %s: only gzip can be read; unpack it "
                           "with `%s` first",
                           foreign[i].name, foreign[i].undo);
    return 0;
}

int dz_gunzip_open(int fd, struct dz_gunzip **ret_g, struct dz_err *err)
{
    uint8_t magic[HEAD] = {0};
    struct dz_gunzip *g = dz_zalloc(sizeof *g);
    if (!g)
        return dz_fail(err, DZ_ENOMEM, "read an archive: out of memory");
    g->fd = fd;
    ssize_t n = pread(fd, magic, sizeof magic, 0);
    int rc = n < 0 ? 0 : refuse_foreign(magic, err);
    if (rc < 0) {
        dz_free(g);
        return rc;
    }
    g->plain = n < 2 || magic[0] != 0x1f || magic[1] != 0x8b;
    if (!g->plain && inflateInit2(&g->s, MAX_WBITS + GZIP) != Z_OK) {
        dz_free(g);
        return dz_fail(err, DZ_ENOMEM, "read an archive: out of memory");
    }
    *ret_g = g;
    return 0;
}

static ssize_t more(struct dz_gunzip *g)
{
    ssize_t n = pread(g->fd, g->in, STEP, (off_t)g->at);
    if (n < 0)
        return -errno;
    g->at += (uint64_t)n;
    g->s.next_in = g->in;
    g->s.avail_in = (uInt)n;
    return n;
}

/* One member may follow another. */
static int next_member(struct dz_gunzip *g)
{
    if (g->s.avail_in == 0) {
        ssize_t n = more(g);
        if (n <= 0) {
            g->over = true;
            return (int)n;
        }
    }
    return inflateReset(&g->s) == Z_OK ? 0 : -EIO;
}

ssize_t dz_gunzip_read(void *arg, void *buf, size_t n)
{
    struct dz_gunzip *g = arg;
    if (g->plain) {
        ssize_t got = pread(g->fd, buf, n, (off_t)g->at);
        g->at += got > 0 ? (uint64_t)got : 0;
        return got < 0 ? -errno : got;
    }
    g->s.next_out = buf;
    g->s.avail_out = n > UINT32_MAX ? UINT32_MAX : (uInt)n;
    const uInt room = g->s.avail_out;
    while (!g->over && g->s.avail_out == room) {
        ssize_t got = g->s.avail_in ? 1 : more(g);
        if (got <= 0)
            return got < 0 ? got : -EIO; /* the stream ends early */
        int state = inflate(&g->s, Z_NO_FLUSH);
        int e = state == Z_STREAM_END                   ? next_member(g)
                : state == Z_OK || state == Z_BUF_ERROR ? 0
                                                        : -EIO;
        if (e < 0)
            return e;
    }
    return room - g->s.avail_out;
}

void dz_gunzip_close(struct dz_gunzip *g)
{
    if (!g)
        return;
    if (!g->plain)
        (void)inflateEnd(&g->s);
    dz_free(g);
}

/* SPDX-License-Identifier: MIT
 *
 * image_decompress.c - decompresses an archive: gzip, xz, zstd, or uncompressed. Runs in a cell.
 *
 * The memory of a decoder is bounded, because the archive itself states the size of its window.
 * liblzma is loaded when a build needs archives (docs/adr/0003-late-libraries.md), before the cell
 * locks itself in.
 */
#include "image/image_int.h"

#include "base/late.h"
#include "base/mem.h"

#include <errno.h>
#include <lzma.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum {
    STEP = 1 << 16,
    GZIP = 16, /* of inflateInit2: a gzip header and its checksum */
    XZ_MEMORY = 256 << 20,
    ZSTD_WINDOW = 27, /* log2; the default limit of zstd */
    USTAR_AT = 257,
    HEAD = DZ_ARCHIVE_HEAD,
};

enum form {
    PLAIN,
    BY_GZIP,
    BY_XZ,
    BY_ZSTD,
};

struct dz_decompress {
    struct dz_bytes from;
    enum form form;
    bool over;   /* the compressed stream has ended */
    bool within; /* zstd: a frame has begun and not ended */
    z_stream gzip;
    lzma_stream xz;
    ZSTD_DStream *zstd;
    const uint8_t *next; /* of in */
    size_t left;
    uint8_t in[STEP];
};

static lzma_ret (*late_stream_decoder)(lzma_stream *, uint64_t, uint32_t);
static lzma_ret (*late_code)(lzma_stream *, lzma_action);
static void (*late_end)(lzma_stream *);

int dz_decompress_load(struct dz_err *err)
{
    static const struct dz_late functions[] = {
        {"lzma_stream_decoder", &late_stream_decoder},
        {"lzma_code", &late_code},
        {"lzma_end", &late_end},
    };
    return late_end
               ? 0
               : dz_late_load("liblzma.so.5", "liblzma5", functions, DZ_ARRAY_LEN(functions), err);
}

/* --- the compression ---------------------------------------------------------------------- */

static const struct {
    const char *magic;
    size_t size;
    enum form form; /* PLAIN: not supported */
    const char *name, *undo;
} forms[] = {{"\x1f\x8b", 2, BY_GZIP, NULL, NULL},         {"\3757zXZ", 6, BY_XZ, NULL, NULL},
             {"\x28\xb5\x2f\xfd", 4, BY_ZSTD, NULL, NULL}, {"BZh", 3, PLAIN, "bzip2", "bzip2 -d"},
             {"\x5d\0\0", 3, PLAIN, "lzma", "lzma -d"},    {"LZIP", 4, PLAIN, "lzip", "lzip -d"}};

_Static_assert(DZ_ARCHIVE_HEAD == USTAR_AT + 5, "the head reaches to the magic number of tar");

bool dz_archive_is_tar(const void *head, size_t n)
{
    return n >= HEAD && memcmp((const char *)head + USTAR_AT, "ustar", 5) == 0;
}

static bool begins(const void *head, size_t n, size_t i)
{
    return n >= forms[i].size && memcmp(head, forms[i].magic, forms[i].size) == 0;
}

bool dz_archive_is_packed(const void *head, size_t n)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(forms); i++)
        if (begins(head, n, i))
            return true;
    return false;
}

static int find_form(struct dz_decompress *d, struct dz_err *err)
{
    if (dz_archive_is_tar(d->in, d->left))
        return 0; /* a tar can begin with any member's name */
    for (size_t i = 0; i < DZ_ARRAY_LEN(forms); i++) {
        if (!begins(d->in, d->left, i))
            continue;
        d->form = forms[i].form;
        if (!forms[i].name)
            return 0;
        return dz_fail(err, DZ_EUNSUPPORTED,
                       "the archive is compressed by %s: gzip, xz and zstd can be read; unpack "
                       "it with `%s` first",
                       forms[i].name, forms[i].undo);
    }
    return 0;
}

/* Fill the empty input: bytes, 0 at the end, a negative errno. */
static ssize_t more(struct dz_decompress *d)
{
    ssize_t n = d->from.read(d->from.arg, d->in, STEP);
    d->next = d->in;
    d->left = n > 0 ? (size_t)n : 0;
    return n;
}

/* Read enough of the beginning to detect the compression. */
static int read_head(struct dz_decompress *d, struct dz_err *err)
{
    ssize_t n = 1;
    d->next = d->in;
    while (n > 0 && d->left < HEAD) {
        n = d->from.read(d->from.arg, d->in + d->left, STEP - d->left);
        if (n < 0)
            return dz_fail_sys(err, (int)-n, "read an archive");
        d->left += (size_t)n;
    }
    return 0;
}

static int start(struct dz_decompress *d)
{
    switch (d->form) {
    case PLAIN:
        return 0;
    case BY_GZIP:
        return inflateInit2(&d->gzip, MAX_WBITS + GZIP) == Z_OK ? 0 : DZ_ENOMEM;
    case BY_XZ:
        return late_stream_decoder(&d->xz, XZ_MEMORY, LZMA_CONCATENATED) == LZMA_OK ? 0 : DZ_ENOMEM;
    case BY_ZSTD:
        d->zstd = ZSTD_createDStream();
        return d->zstd && !ZSTD_isError(
                              ZSTD_DCtx_setParameter(d->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW))
                   ? 0
                   : DZ_ENOMEM;
    }
    return 0;
}

int dz_decompress_open(const struct dz_bytes *from, struct dz_decompress **ret_d,
                       struct dz_err *err)
{
    struct dz_decompress *d = dz_zalloc(sizeof *d);
    if (!d)
        return dz_fail(err, DZ_ENOMEM, "read an archive: out of memory");
    d->from = *from;
    int rc = read_head(d, err);
    if (rc == 0)
        rc = find_form(d, err);
    if (rc == 0 && d->form == BY_XZ)
        rc = dz_decompress_load(err);
    if (rc == 0 && start(d) < 0)
        rc = dz_fail(err, DZ_ENOMEM, "read an archive: out of memory");
    if (rc < 0)
        dz_decompress_close(d);
    else
        *ret_d = d;
    return rc;
}

void dz_decompress_close(struct dz_decompress *d)
{
    if (!d)
        return;
    if (d->form == BY_GZIP)
        (void)inflateEnd(&d->gzip);
    if (d->form == BY_XZ && late_end)
        late_end(&d->xz);
    (void)ZSTD_freeDStream(d->zstd);
    dz_free(d);
}

/* --- reading ----------------------------------------------------------------------------------
 *
 * Each takes from the input and gives bytes, at most n: how many, or a negative errno. */

static ssize_t read_plain(struct dz_decompress *d, void *buf, size_t n)
{
    size_t take = n < d->left ? n : d->left;
    memcpy(buf, d->next, take);
    d->next += take;
    d->left -= take;
    return (ssize_t)take;
}

/* One gzip member may follow another. */
static ssize_t read_gzip(struct dz_decompress *d, void *buf, size_t n)
{
    d->gzip.next_in = (Bytef *)(uintptr_t)d->next;
    d->gzip.avail_in = (uInt)d->left;
    d->gzip.next_out = buf;
    d->gzip.avail_out = n > UINT32_MAX ? UINT32_MAX : (uInt)n;
    const uInt room = d->gzip.avail_out;
    int state = inflate(&d->gzip, Z_NO_FLUSH);
    d->next = d->gzip.next_in;
    d->left = d->gzip.avail_in;
    if (state == Z_STREAM_END) {
        if (d->left == 0 && more(d) <= 0)
            d->over = true;
        else if (inflateReset(&d->gzip) != Z_OK)
            return -EIO;
    } else if (state != Z_OK && state != Z_BUF_ERROR) {
        return -EIO;
    }
    return room - d->gzip.avail_out;
}

static ssize_t read_xz(struct dz_decompress *d, void *buf, size_t n, bool last)
{
    d->xz.next_in = d->next;
    d->xz.avail_in = d->left;
    d->xz.next_out = buf;
    d->xz.avail_out = n;
    lzma_ret state = late_code(&d->xz, last ? LZMA_FINISH : LZMA_RUN);
    d->next = d->xz.next_in;
    d->left = d->xz.avail_in;
    d->over = state == LZMA_STREAM_END;
    return state == LZMA_OK || d->over ? (ssize_t)(n - d->xz.avail_out) : -EIO;
}

static ssize_t read_zstd(struct dz_decompress *d, void *buf, size_t n)
{
    ZSTD_inBuffer in = {d->next, d->left, 0};
    ZSTD_outBuffer out = {buf, n, 0};
    size_t state = ZSTD_decompressStream(d->zstd, &out, &in);
    d->next += in.pos;
    d->left -= in.pos;
    d->within = state != 0;
    return ZSTD_isError(state) ? -EIO : (ssize_t)out.pos;
}

ssize_t dz_decompress_read(void *arg, void *buf, size_t n)
{
    struct dz_decompress *d = arg;
    ssize_t got = 0;
    bool ended = false; /* the input */
    while (got == 0 && n > 0 && !d->over) {
        if (d->left == 0 && !ended) {
            ssize_t in = more(d);
            if (in < 0)
                return in;
            ended = in == 0;
        }
        if (ended && (d->form == PLAIN || (d->form == BY_ZSTD && !d->within)))
            return 0;
        got = d->form == PLAIN     ? read_plain(d, buf, n)
              : d->form == BY_GZIP ? read_gzip(d, buf, n)
              : d->form == BY_XZ   ? read_xz(d, buf, n, ended)
                                   : read_zstd(d, buf, n);
        if (got == 0 && ended && !d->over)
            return -EIO; /* the stream is truncated */
    }
    return got;
}

ssize_t dz_bytes_of_fd(void *arg, void *buf, size_t n)
{
    struct dz_fd_bytes *f = arg;
    ssize_t got = pread(f->fd, buf, n, (off_t)f->at);
    if (got < 0)
        return -errno;
    f->at += (uint64_t)got;
    return got;
}

/* SPDX-License-Identifier: MIT
 *
 * Bodies in chunks: size in hexadecimal, perhaps extensions, CRLF, the bytes, CRLF; a chunk
 * of none ends it, trailers and an empty line follow. Extensions and trailers are read and
 * thrown away, as the standard wants, but only so many. Every line ends in CRLF.
 */
#include "http/http_head.h"

#include <assert.h>

enum {
    SIZE, /* digits */
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER, /* the first byte of a line */
    TRAILER_TEXT,
    TRAILER_LF,
    END_LF,
    OVER,
};

enum {
    DIGITS_MAX = 15,  /* of a size: below 2^60 */
    LINE_MAX_ = 256,  /* bytes of extensions of a chunk, or of a trailer */
    TOTAL_MAX = 8192, /* of them all */
};

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_text(char c)
{
    return c == '\t' || (unsigned char)c >= ' ';
}

/* Another byte of an extension or a trailer. */
static int count(struct dz_http_chunks *c, struct dz_err *err)
{
    if (++c->line > LINE_MAX_ || ++c->total > TOTAL_MAX)
        return dz_fail(err, DZ_ELIMIT, "the extensions and trailers of a body are too long");
    return 0;
}

static int in_size(struct dz_http_chunks *c, char b)
{
    int digit = hex(b);
    if (digit >= 0 && c->digits < DIGITS_MAX) {
        c->left = c->left * 16 + (uint64_t)digit;
        c->digits++;
        return 0;
    }
    if (c->digits == 0 || (b != '\r' && b != ';'))
        return DZ_EINVAL;
    c->state = b == ';' ? EXTENSION : SIZE_LF;
    return 0;
}

/* One byte of the framing. */
static int step(struct dz_http_chunks *c, char b, struct dz_err *err)
{
    int rc = 0;
    switch (c->state) {
    case SIZE:
        return in_size(c, b);
    case EXTENSION:
        c->state = b == '\r' ? SIZE_LF : EXTENSION;
        return b == '\r' ? 0 : is_text(b) ? count(c, err) : DZ_EINVAL;
    case SIZE_LF:
        c->state = c->left ? DATA : TRAILER;
        c->line = c->digits = 0;
        return b == '\n' ? 0 : DZ_EINVAL;
    case DATA_CR:
        c->state = DATA_LF;
        return b == '\r' ? 0 : DZ_EINVAL;
    case DATA_LF:
        c->state = SIZE;
        return b == '\n' ? 0 : DZ_EINVAL;
    case TRAILER:
        c->state = b == '\r' ? END_LF : TRAILER_TEXT;
        return b == '\r' ? 0 : is_text(b) && b != ' ' && b != '\t' ? count(c, err) : DZ_EINVAL;
    case TRAILER_TEXT:
        c->state = b == '\r' ? TRAILER_LF : TRAILER_TEXT;
        return b == '\r' ? 0 : is_text(b) ? count(c, err) : DZ_EINVAL;
    case TRAILER_LF:
        c->state = TRAILER;
        c->line = 0;
        return b == '\n' ? 0 : DZ_EINVAL;
    case END_LF:
        c->state = OVER;
        return b == '\n' ? 0 : DZ_EINVAL;
    default:
        rc = DZ_EINVAL;
    }
    return rc;
}

ssize_t dz_http_chunks_next(struct dz_http_chunks *c, const char *p, size_t n, size_t *ret_data,
                            bool *ret_end, struct dz_err *err)
{
    size_t i = 0;
    *ret_data = 0;
    while (i < n && c->state != DATA && c->state != OVER) {
        int rc = step(c, p[i++], err);
        if (rc == DZ_ELIMIT)
            return rc;
        if (rc < 0)
            return dz_fail(err, DZ_EINVAL, "the chunks of the body are malformed");
    }
    if (c->state == DATA)
        *ret_data = n - i < c->left ? n - i : (size_t)c->left;
    *ret_end = c->state == OVER;
    return (ssize_t)i;
}

void dz_http_chunks_took(struct dz_http_chunks *c, size_t n)
{
    assert(c->state == DATA && n <= c->left);
    c->left -= n;
    if (c->left == 0)
        c->state = DATA_CR;
}

/* SPDX-License-Identifier: MIT
 * Bytes of a connection: heads and their bodies, one behind the other, as the server takes
 * them apart. Cut anywhere they must come to the same; what is taken keeps to the grammar. */
#include "base/str.h"
#include "http/http_head.h"
#include "http/http_route.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the parser takes must be made of what there is. */
static void check_head(const struct dz_http_head *h, const char *copy, size_t n)
{
    assert(dz_http_is_token(dz_str(h->method)) && h->target[0] && (h->minor == 0 || h->minor == 1));
    assert(h->count <= DZ_HTTP_HEADERS_MAX && h->body_size >= -1);
    assert(!(dz_http_head_get(h, "Content-Length") && dz_http_head_get(h, "Transfer-Encoding")));
    for (size_t i = 0; i < h->count; i++) {
        const char *value = h->headers[i].value;
        assert(dz_http_is_token(dz_str(h->headers[i].name)));
        assert(value >= copy && value + strlen(value) < copy + n);
        assert(!strpbrk(value, "\r\n"));
    }
}

/* Where the head ends must not depend on the pieces in which it comes. */
static ssize_t find_end(const char *p, size_t n)
{
    struct dz_err err = {0};
    size_t at = 0, whole = 0;
    ssize_t end = 0;
    int status = 0, other = 0;
    ssize_t want = dz_http_head_end(p, n, &whole, &status, &err);
    assert(want >= 0 || (err.msg[0] && status >= 400));
    for (size_t m = 1; m <= n && end == 0; m += m < 64 ? 1 : 97)
        end = dz_http_head_end(p, m, &at, &other, &err);
    assert(end == 0 || (end < 0) == (want < 0));
    assert(end <= 0 || end == want);
    return want;
}

static size_t body(const struct dz_http_head *h, const char *p, size_t n)
{
    struct dz_http_chunks whole = {0}, pieces = {0};
    struct dz_err err;
    size_t at = 0, data, sum = 0, other = 0;
    bool end = false;
    ssize_t used = 0;
    if (h->body_size >= 0)
        return (uint64_t)h->body_size < n ? (size_t)h->body_size : n;
    while (at < n && !end &&
           (used = dz_http_chunks_next(&whole, p + at, n - at, &data, &end, &err)) >= 0) {
        assert((size_t)used + data > 0 || end);
        if (data)
            dz_http_chunks_took(&whole, data);
        at += (size_t)used + data;
        sum += data;
        assert(at <= n);
    }
    bool refused = used < 0, over = end;
    end = false;
    for (size_t i = 0; i < at && !end; i += (size_t)used + data) {
        used = dz_http_chunks_next(&pieces, p + i, 1, &data, &end, &err);
        if (used < 0)
            break;
        if (data)
            dz_http_chunks_took(&pieces, data);
        other += data;
    }
    assert(refused || (other == sum && end == over));
    return refused || !over ? n : at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char copy[DZ_HTTP_HEAD_MAX + 1];
    static struct dz_http_head h;
    const char *p = (const char *)data;
    for (int requests = 0; size > 0 && requests < 16; requests++) {
        struct dz_err err = {0};
        int status = 0;
        ssize_t n = find_end(p, size);
        if (n <= 0)
            return 0;
        assert((size_t)n <= sizeof copy);
        memcpy(copy, p, (size_t)n);
        int rc = dz_http_head_parse(copy, (size_t)n, &h, &status, &err);
        assert((rc == 0) == (status == 0) && (rc == 0 || err.msg[0]));
        if (rc < 0)
            return 0;
        check_head(&h, copy, (size_t)n);
        p += n;
        size -= (size_t)n;
        size_t used = body(&h, p, size);
        p += used;
        size -= used;
    }
    return 0;
}

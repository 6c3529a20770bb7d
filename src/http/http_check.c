/* SPDX-License-Identifier: MIT
 *
 * What the headers of a request say of its framing, checked to the letter: where two
 * readers could come to different ends of a body, one request hides in another
 * (RFC 9112, 11.2). So both a length and chunks, two lengths, another coding than chunked,
 * and names that are no tokens are refused, and the connection is closed.
 */
#include "base/num.h"
#include "http/http_int.h"

#include <strings.h>

struct framing {
    struct dz_http_req *r;
    size_t headers, hosts, lengths, codings;
    const char *length, *coding;
    bool bad_name;
};

static enum MHD_Result look(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct framing *f = arg;
    (void)kind;
    f->headers++;
    f->bad_name = f->bad_name || !dz_http_is_token(dz_str(name));
    if (strcasecmp(name, "Host") == 0) {
        f->hosts++;
    } else if (strcasecmp(name, "Content-Length") == 0) {
        f->lengths++;
        f->length = value;
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        f->codings++;
        f->coding = value;
    }
    return MHD_YES;
}

static bool digits(const char *s)
{
    size_t n = s ? strspn(s, "0123456789") : 0;
    return n > 0 && s[n] == '\0';
}

int dz_http_check(struct dz_http_req *r, struct dz_err *err)
{
    struct framing f = {.r = r};
    uint64_t size = 0;
    (void)MHD_get_connection_values(r->mhd, MHD_HEADER_KIND, look, &f);
    r->body_size = -1;
    if (f.headers > DZ_HTTP_HEADERS_MAX)
        return dz_fail(err, DZ_ELIMIT, "a request has at most %d headers", DZ_HTTP_HEADERS_MAX);
    if (f.bad_name)
        return dz_fail(err, DZ_EINVAL, "a header's name has characters that no name has");
    if (f.hosts > 1)
        return dz_fail(err, DZ_EINVAL, "a request has one Host, not %zu", f.hosts);
    if (f.lengths > 1 || f.codings > 1 || (f.lengths && f.codings))
        return dz_fail(err, DZ_EINVAL,
                       "a request has one Content-Length or one Transfer-Encoding, not more");
    if (f.codings && (!f.coding || strcasecmp(f.coding, "chunked") != 0))
        return dz_fail(err, DZ_EINVAL, "the only Transfer-Encoding is chunked");
    if (f.codings)
        return 0;
    if (f.lengths &&
        (!digits(f.length) || dz_num_u64(dz_str(f.length), 0, INT64_MAX, &size, NULL) < 0))
        return dz_fail(err, DZ_EINVAL, "Content-Length must be a number of bytes");
    r->body_size = (int64_t)size;
    return 0;
}

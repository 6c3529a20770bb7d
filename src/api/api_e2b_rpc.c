/* SPDX-License-Identifier: MIT
 *
 * api_e2b_rpc.c - the framing of Connect (connectrpc.com/docs/protocol), as far as E2B's clients
 * use it: JSON, no compression.
 *
 * A unary call is a POST with a JSON object, and its answer another one. A streaming call has
 * envelopes both ways: a byte of flags, the length as four bytes, big-endian, and the JSON. The
 * last envelope of an answer has the flag DZ_E2B_END and holds {} or {"error":{...}}; its status is
 * 200 even if it is an error, because clients do not read the code of any other answer.
 */
#include "api/api_e2b.h"

#include <string.h>

enum {
    HEAD = 5,       /* bytes before the JSON of an envelope */
    COMPRESSED = 1, /* flag */
};

const char *dz_e2b_code(int code, int *ret_status)
{
    static const struct {
        int code;
        const char *name;
        int status;
    } all[] = {
        {DZ_EINVAL, "invalid_argument", 400},
        {DZ_ENOENT, "not_found", 404},
        {DZ_EGONE, "not_found", 404},
        {DZ_EEXIST, "already_exists", 409},
        {DZ_ESTATE, "failed_precondition", 400},
        {DZ_EDENIED, "permission_denied", 403},
        {DZ_EUNAUTH, "unauthenticated", 401},
        {DZ_ELIMIT, "resource_exhausted", 429},
        {DZ_EQUOTA, "resource_exhausted", 429},
        {DZ_ERATE, "resource_exhausted", 429},
        {DZ_ENOSPC, "resource_exhausted", 429},
        {DZ_ETIMEOUT, "deadline_exceeded", 504},
        {DZ_EUNSUPPORTED, "unimplemented", 501},
        {DZ_ENOMEM, "unavailable", 503},
        {DZ_EBUSY, "unavailable", 503},
        {DZ_EUNAVAIL, "unavailable", 503},
        {DZ_ERESTORING, "unavailable", 503},
        {DZ_EDIED, "unavailable", 503},
        {DZ_ECANCELED, "canceled", 499},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++)
        if (all[i].code == code) {
            *ret_status = all[i].status;
            return all[i].name;
        }
    *ret_status = 500;
    return "internal";
}

void dz_e2b_put_envelope(struct dz_buf *out, unsigned flags, struct dz_str text)
{
    const char head[HEAD] = {(char)flags, (char)(text.n >> 24), (char)(text.n >> 16),
                             (char)(text.n >> 8), (char)text.n};
    dz_buf_add(out, head, sizeof head);
    dz_buf_add(out, text.p, text.n);
}

void dz_e2b_put_end(struct dz_buf *out, const char *code, const char *message)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_json j;
    dz_json_init(&j, &text, false);
    dz_json_object(&j);
    if (code) {
        dz_json_key(&j, "error");
        dz_json_object(&j);
        dz_json_put_strz(&j, "code", code);
        dz_json_put_strz(&j, "message", message);
        dz_json_end(&j);
    }
    dz_json_end(&j);
    dz_e2b_put_envelope(out, DZ_E2B_END, dz_str_n(text.p, text.len));
}

void dz_e2b_stream_fail(struct dz_http_req *r, const char *code, const char *message)
{
    DZ_AUTO(dz_buf_release) struct dz_buf out = DZ_BUF_INIT(DZ_LINE_MAX);
    dz_e2b_put_end(&out, code, message);
    dz_http_send(r, 200, DZ_E2B_STREAM, &out);
}

static void object_free(void *o)
{
    json_decref(o);
}

int dz_e2b_unwrap(const char *p, size_t n, struct dz_str *ret_text, struct dz_err *err)
{
    const uint8_t *b = (const uint8_t *)p;
    if (n < HEAD)
        return 0;
    size_t size = (size_t)b[1] << 24 | (size_t)b[2] << 16 | (size_t)b[3] << 8 | b[4];
    if (b[0] & COMPRESSED)
        return dz_fail(err, DZ_EUNSUPPORTED, "compressed messages are not available");
    if (size > DZ_E2B_MESSAGE_MAX - HEAD)
        return dz_fail(err, DZ_ELIMIT, "a message may have at most %d bytes",
                       DZ_E2B_MESSAGE_MAX - HEAD);
    if (n - HEAD < size)
        return 0;
    *ret_text = dz_str_n(p + HEAD, size);
    return HEAD + (int)size;
}

json_t *dz_e2b_envelope(struct dz_http_req *r)
{
    const char *type = dz_http_header(r, "Content-Type");
    struct dz_str body = dz_http_body(r), text = {0};
    struct dz_why why = {0};
    int status;
    json_t *o = NULL;
    if (!type || !dz_str_starts(dz_str(type), DZ_STR(DZ_E2B_STREAM))) {
        dz_e2b_refuse(r, DZ_EINVAL, 415, "Content-Type: must be " DZ_E2B_STREAM);
        return NULL;
    }
    int rc = dz_e2b_unwrap(body.p, body.n, &text, &why.err);
    if (rc == 0)
        rc = dz_fail(&why.err, DZ_EINVAL, "the body must be one message with its length before it");
    if (rc > 0)
        o = dz_api_load(text, 0, &why);
    if (o && dz_arena_defer(dz_http_arena(r), object_free, o) < 0) { /* which has freed o */
        o = NULL;
        (void)dz_fail(&why.err, DZ_ENOMEM, "out of memory");
    }
    if (!o)
        dz_e2b_stream_fail(r, dz_e2b_code(why.err.code, &status), why.err.msg);
    return o;
}

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

bool dz_e2b_unbase64(struct dz_str text, char *out, size_t *ret_size)
{
    uint32_t bits = 0;
    size_t n = 0, have = 0;
    while (text.n > 0 && text.p[text.n - 1] == '=')
        text.n--;
    if (text.n % 4 == 1)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        int d = digit(text.p[i]);
        if (d < 0)
            return false;
        bits = bits << 6 | (uint32_t)d;
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[n++] = (char)(bits >> have);
        }
    }
    *ret_size = n;
    return true;
}

/* SPDX-License-Identifier: MIT
 * Bytes of a guest's answer through the relay. The first byte chooses the request. Cut anywhere the
 * answer must be taken or refused alike; a head that reaches the client is one that the strict
 * parser takes, with one framing. */
#include "http/http_relay.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const requests[] = {
    "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET / HTTP/1.0\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
};

/* Relay the answer in pieces; returns whether it was taken. */
static bool relay(const char *request, const char *p, size_t n, size_t step, struct dz_buf *to)
{
    const struct dz_http_relay_opts opts = {.peer = "p"};
    struct dz_buf guest = DZ_BUF_INIT(64 << 10);
    struct dz_http_head head;
    struct dz_http_relay r;
    struct dz_err err;
    char copy[256];
    int status;
    const size_t length = strlen(request);
    memcpy(copy, request, length + 1);
    int rc = dz_http_head_parse(copy, length, &head, &status, &err);
    assert(rc == 0);
    rc = dz_http_relay_begin(&r, &head, &opts, &guest, &status, &err);
    assert(rc == 0);
    for (size_t at = 0; at < n && rc >= 0 && (r.tunnel || !r.answer_over);) {
        const size_t piece = n - at < step ? n - at : step;
        const ssize_t took = dz_http_relay_answer(&r, p + at, piece, to, &err);
        assert(took <= (ssize_t)piece && (took >= 0 || err.msg[0]));
        assert(took > 0 || took < 0 || r.answer_over);
        rc = took < 0 ? (int)took : 0;
        at += took > 0 ? (size_t)took : 0;
    }
    if (rc >= 0)
        rc = dz_http_relay_end(&r, to, &err);
    assert(rc < 0 || r.status >= 101);
    dz_http_relay_release(&r);
    dz_buf_release(&guest);
    return rc >= 0;
}

/* All heads that the client gets. */
static void check_heads(const char *p, size_t n)
{
    static char copy[2 * DZ_HTTP_HEAD_MAX];
    struct dz_http_answer a = {.status = 100};
    struct dz_err err;
    while (n > 0 && a.status < 200 && a.status != 101) {
        size_t at = 0;
        int status;
        const ssize_t size = dz_http_head_end(p, n, &at, &status, &err);
        assert(size > 0 && (size_t)size <= sizeof copy);
        memcpy(copy, p, (size_t)size);
        const int rc = dz_http_answer_parse(copy, (size_t)size, &a, &err);
        assert(rc == 0);
        assert(a.status == 101 || !dz_http_head_get(&a.head, "Upgrade"));
        assert(!dz_http_head_get(&a.head, "Keep-Alive"));
        p += size;
        n -= (size_t)size;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > DZ_HTTP_HEAD_MAX)
        return 0;
    const char *request = requests[data[0] % 4], *p = (const char *)data + 1;
    const size_t n = size - 1;
    struct dz_buf whole = DZ_BUF_INIT(1 << 20), pieces = DZ_BUF_INIT(1 << 20);
    const bool taken = relay(request, p, n, n, &whole);
    const bool again = relay(request, p, n, 1 + data[0] / 4, &pieces);
    assert(taken == again);
    if (taken)
        check_heads(whole.p, whole.len);
    dz_buf_release(&whole);
    dz_buf_release(&pieces);
    return 0;
}

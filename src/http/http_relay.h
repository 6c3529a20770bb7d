/* SPDX-License-Identifier: MIT
 *
 * http_relay.h - one request and its answer through a reverse proxy, from bytes to bytes. Text
 * only: the caller has both connections, reads, writes, and waits.
 *
 * The client's side is a head that dz_http_head_parse has read. The server's side is a program of
 * a guest, so its answer is as hostile as a request. Everything that is passed on is written again
 * from what was parsed; only the bytes of bodies, which are framed the same way on both sides, are
 * copied. So the two sides cannot disagree about where a message ends.
 *
 *     client ──▶ dz_http_relay_begin, dz_http_relay_body ──▶ guest
 *     client ◀── dz_http_relay_answer, dz_http_relay_end ◀── guest
 *
 * A connection to the guest serves one request. After 101 Switching Protocols both functions copy
 * (`tunnel`). Memory: one head of the guest; each call appends at most a little more than the bytes
 * that it takes.
 */
#ifndef DZ_HTTP_RELAY_H
#define DZ_HTTP_RELAY_H

#include "base/buf.h"
#include "base/str.h"
#include "http/http_head.h"

/* Where a client may put the token of a preview. The guest sees none of them. */
#define DZ_HTTP_PREVIEW_HEADER "Doze-Preview-Token"
#define DZ_HTTP_PREVIEW_COOKIE "__Host-doze_preview" /* so only this very host can set it */
#define DZ_HTTP_PREVIEW_QUERY  "doze_token"

enum dz_http_preview_from {
    DZ_HTTP_PREVIEW_NONE,
    DZ_HTTP_PREVIEW_BY_HEADER,
    DZ_HTTP_PREVIEW_BY_COOKIE,
    DZ_HTTP_PREVIEW_BY_QUERY,
};
/* The token of a request, in this order. ret_token borrows from the head. */
enum dz_http_preview_from dz_http_preview_token(const struct dz_http_head *head,
                                                struct dz_str *ret_token);
/* Does the host name a port of a sandbox, "<port>-<id>.<domain>" with or without a port of its own?
 * Case does not matter. ret_id borrows from host. */
bool dz_http_preview_host(struct dz_str host, struct dz_str domain, uint32_t *ret_port,
                          struct dz_str *ret_id);

/* Append the path and query of the target without the prefix and our token. False: it has no path
 * to forward. */
bool dz_http_relay_target(struct dz_buf *to, const struct dz_http_head *head, struct dz_str prefix);

struct dz_http_relay_opts {
    const char *peer; /* address of the client, for X-Forwarded-For */
    bool tls;         /* for X-Forwarded-Proto */
    /* Taken off the path, which must begin with it; empty: nothing. With a prefix several
     * sandboxes share a host, so no cookies pass, and each page gets an origin of its own. */
    struct dz_str prefix;
};
struct dz_http_relay {
    /* For the caller to read. */
    bool request_over; /* all of the request is out */
    bool answer_over;  /* all of the answer is out */
    bool tunnel;       /* bytes are copied both ways until one side ends */
    bool close;        /* close the client's connection after the answer */
    int status;        /* of the answer; 0: none yet */
    /* Its own. */
    bool upgrades, head_only, old_client, shared_host;
    int body; /* enum in http_relay.c */
    uint64_t left, request_left;
    bool request_chunked;
    unsigned interim; /* answers 1xx so far */
    struct dz_http_chunks chunks, request_chunks;
    size_t scanned;
    struct dz_buf head; /* of the answer, as far as it has come */
};

/* Write the request's head for the guest. DZ_EINVAL, with *ret_status for the client: it cannot be
 * forwarded. Release r in any case. */
DZ_NODISCARD int dz_http_relay_begin(struct dz_http_relay *r, const struct dz_http_head *head,
                                     const struct dz_http_relay_opts *opts, struct dz_buf *to_guest,
                                     int *ret_status, struct dz_err *err);
void dz_http_relay_release(struct dz_http_relay *r);
/* Bytes from the client after its head. Returns how many belong to this request: the rest is the
 * next request, or has to wait for the answer to an upgrade. DZ_EINVAL, DZ_ELIMIT: the chunks are
 * malformed; the guest's connection must be cut, so that it does not take the body for whole. */
DZ_NODISCARD ssize_t dz_http_relay_body(struct dz_http_relay *r, const char *p, size_t n,
                                        struct dz_buf *to_guest, struct dz_err *err);
/* Bytes from the guest; returns how many were taken (all, unless the answer ends before). Negative:
 * the answer is malformed. If status is 0 the client can still be told 502, else it must be cut. */
DZ_NODISCARD ssize_t dz_http_relay_answer(struct dz_http_relay *r, const char *p, size_t n,
                                          struct dz_buf *to_client, struct dz_err *err);
/* The guest has closed its connection. DZ_EIO: in the middle of its answer; as above. */
DZ_NODISCARD int dz_http_relay_end(struct dz_http_relay *r, struct dz_buf *to_client,
                                   struct dz_err *err);

#endif

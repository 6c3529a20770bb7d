/* SPDX-License-Identifier: MIT
 *
 * http_head.h - the heads of requests and answers and the framing of bodies, from bytes. Text only:
 * no connection is needed.
 *
 * If two parsers disagree about where a request ends, one request can hide in another
 * (RFC 9112, 11.2). So the parser tolerates nothing that the grammar does not allow: a line that
 * ends in a bare LF, a folded header, a space before a colon, a control character, two lengths,
 * a length and chunks, or another coding than chunked is refused, and the connection closed.
 *
 * Only the head of an answer may have lines that end in a bare LF, as CGI programs write them
 * (RFC 9112, 2.2, lets a recipient accept that). It cannot hide anything: an answer is the only one
 * on its connection, and whoever passes it on writes its lines anew. The chunks of its body are
 * read like those of a request.
 */
#ifndef DZ_HTTP_HEAD_H
#define DZ_HTTP_HEAD_H

#include "base/attr.h"
#include "base/err.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct dz_http_head {
    const char *method, *target;
    int minor; /* of HTTP/1.x: 0 or 1 */
    struct {
        const char *name, *value;
    } headers[DZ_HTTP_HEADERS_MAX];
    size_t count;

    int64_t body_size; /* -1: in chunks */
    bool expects;      /* 100-continue */
    bool close;        /* the client wants no other request on this connection */
};

/* The length of a head including its empty line; 0: more bytes are needed, and *at says where to
 * resume. Negative: not a valid head (DZ_EINVAL) or too long (DZ_ELIMIT); *ret_status is the HTTP
 * status to answer with. */
DZ_NODISCARD ssize_t dz_http_head_end(const char *p, size_t n, size_t *at, int *ret_status,
                                      struct dz_err *err);
/* Parse a head. Changes its n bytes, and ret_head points into them. Negative as above. */
DZ_NODISCARD int dz_http_head_parse(char *p, size_t n, struct dz_http_head *ret_head,
                                    int *ret_status, struct dz_err *err);
/* The head of an answer. head.body_size: -1 in chunks; otherwise the Content-Length, or 0.
 * until_close: neither is given, so a body ends with the connection. */
struct dz_http_answer {
    int status; /* 100 to 599 */
    const char *reason;
    bool until_close;
    struct dz_http_head head; /* without a method and target */
};
/* As dz_http_head_end and dz_http_head_parse, for an answer. DZ_EINVAL, DZ_ELIMIT. */
DZ_NODISCARD ssize_t dz_http_answer_end(const char *p, size_t n, size_t *at, struct dz_err *err);
DZ_NODISCARD int dz_http_answer_parse(char *p, size_t n, struct dz_http_answer *ret_answer,
                                      struct dz_err *err);
const char *dz_http_head_get(const struct dz_http_head *head, const char *name); /* NULL: none */
/* Is word among the comma-separated ones of all headers of that name? */
bool dz_http_head_lists(const struct dz_http_head *head, const char *name, const char *word);

/* A body in chunks (RFC 9112, 7.1), zeroed at first. */
struct dz_http_chunks {
    int state;
    uint64_t left;   /* of this chunk */
    unsigned digits; /* of its size */
    unsigned line;   /* bytes of the line so far */
    unsigned total;  /* of extensions and trailers */
};
/* Consume framing at the start of p; returns how many bytes. *ret_data bytes of the body follow
 * (report them with dz_http_chunks_took), or *ret_end is set at the end of the body. Negative:
 * malformed (DZ_EINVAL) or too large (DZ_ELIMIT). */
DZ_NODISCARD ssize_t dz_http_chunks_next(struct dz_http_chunks *c, const char *p, size_t n,
                                         size_t *ret_data, bool *ret_end, struct dz_err *err);
void dz_http_chunks_took(struct dz_http_chunks *c, size_t n); /* of what *ret_data said */

#endif

/* SPDX-License-Identifier: MIT
 *
 * json.h - writes JSON (RFC 8259) onto a buffer.
 *
 *     struct dz_json j;
 *     dz_json_init(&j, &buf, false);
 *     dz_json_object(&j);
 *     dz_json_put_str(&j, "id", dz_str(id));
 *     dz_json_key(&j, "sizes");
 *     dz_json_array(&j);
 *     dz_json_u64(&j, 4096);
 *     dz_json_end(&j);
 *     dz_json_end(&j);
 *     rc = dz_json_finish(&j);
 *
 * Sticky, like the buffer: after a failure (no memory, the buffer's ceiling,
 * deeper than DZ_JSON_DEPTH_MAX) calls do nothing and finish returns the error.
 * Calls in a wrong order (a value without a key in an object, an end too many)
 * are bugs and abort.
 *
 * Strings need not be UTF-8: each byte that is not part of a valid character
 * becomes U+FFFD. Numbers that JSON lacks (infinities, NaN) become null.
 */
#ifndef DZ_BASE_JSON_H
#define DZ_BASE_JSON_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct dz_json {
    struct dz_buf *out;
    uint64_t arrays; /* bit d: the container at depth d is an array */
    unsigned depth;  /* open containers */
    bool pretty;     /* two spaces a level, one member a line */
    bool filled;     /* the innermost container has a member, or the text its value */
    bool keyed;      /* a key waits for its value */
};

void dz_json_init(struct dz_json *j, struct dz_buf *out, bool pretty);
DZ_NODISCARD int dz_json_finish(const struct dz_json *j); /* 0 or the buffer's error */

void dz_json_object(struct dz_json *j);
void dz_json_array(struct dz_json *j);
void dz_json_end(struct dz_json *j); /* of the innermost of the two */

void dz_json_key(struct dz_json *j, const char *key);
void dz_json_key_str(struct dz_json *j, struct dz_str key);

void dz_json_str(struct dz_json *j, struct dz_str s); /* p NULL is "" */
void dz_json_i64(struct dz_json *j, int64_t v);
void dz_json_u64(struct dz_json *j, uint64_t v);
void dz_json_bool(struct dz_json *j, bool v);
void dz_json_double(struct dz_json *j, double v); /* the shortest text that reads back as v */
void dz_json_null(struct dz_json *j);
void dz_json_raw(struct dz_json *j, struct dz_str text); /* text must be one JSON value */

/* key and value in one. */
void dz_json_put_str(struct dz_json *j, const char *key, struct dz_str s);
void dz_json_put_strz(struct dz_json *j, const char *key, const char *s); /* NULL = null */
/* Write the bytes as text; if they are not UTF-8, `key`_base64 has the exact bytes. */
void dz_json_put_bytes(struct dz_json *j, const char *key, struct dz_str bytes);
void dz_json_put_i64(struct dz_json *j, const char *key, int64_t v);
void dz_json_put_u64(struct dz_json *j, const char *key, uint64_t v);
void dz_json_put_bool(struct dz_json *j, const char *key, bool v);
void dz_json_put_double(struct dz_json *j, const char *key, double v);
void dz_json_put_null(struct dz_json *j, const char *key);

/* The same for the first character of p[0..n), n > 0, without a buffer: writes
 * up to DZ_JSON_CHAR bytes to out, returns how many, and puts the bytes that
 * were read into *ret_used. */
enum {
    DZ_JSON_CHAR = 7 /* \u0000 and the terminator that snprintf writes */
};
size_t dz_json_escape_char(const char *p, size_t n, char out[static DZ_JSON_CHAR],
                           size_t *ret_used);

#endif

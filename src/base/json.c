/* SPDX-License-Identifier: MIT
 *
 * json.c - the JSON writer.
 *
 * The state is one bit for each open container, whether it has a member yet,
 * and whether a key waits for its value. Invariant: while the buffer has no
 * error, what was written is a prefix of valid JSON text.
 */
#include "base/json.h"

#include "base/err.h"
#include "base/limits.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

_Static_assert(DZ_JSON_DEPTH_MAX <= 64, "one bit of a 64-bit word for each level");

void dz_json_init(struct dz_json *j, struct dz_buf *out, bool pretty)
{
    *j = (struct dz_json){.out = out, .pretty = pretty};
}

int dz_json_finish(const struct dz_json *j)
{
    assert(j->out->err || (j->depth == 0 && j->filled));
    return j->out->err;
}

static bool in_array(const struct dz_json *j)
{
    return j->depth > 0 && (j->arrays >> (j->depth - 1) & 1);
}

static void new_line(struct dz_json *j)
{
    if (!j->pretty)
        return;
    dz_buf_add(j->out, "\n", 1);
    for (unsigned i = 0; i < j->depth; i++)
        dz_buf_add(j->out, "  ", 2);
}

/* Write the separator between the previous member and the next key or element. */
static void separate(struct dz_json *j)
{
    if (j->filled)
        dz_buf_add(j->out, ",", 1);
    if (j->depth > 0)
        new_line(j);
    j->filled = true;
}

/* Called before each value. False: the writer has failed, write nothing. */
static bool begin_value(struct dz_json *j)
{
    if (j->out->err)
        return false;
    if (j->keyed) {
        j->keyed = false;
    } else {
        assert(j->depth > 0 ? in_array(j) : !j->filled);
        separate(j);
    }
    return true;
}

static void open_container(struct dz_json *j, bool array)
{
    if (!begin_value(j))
        return;
    if (j->depth == DZ_JSON_DEPTH_MAX) {
        j->out->err = DZ_ELIMIT;
        return;
    }
    dz_buf_add(j->out, array ? "[" : "{", 1);
    uint64_t bit = 1ull << j->depth;
    j->arrays = array ? j->arrays | bit : j->arrays & ~bit;
    j->depth++;
    j->filled = false;
}

void dz_json_object(struct dz_json *j)
{
    open_container(j, false);
}

void dz_json_array(struct dz_json *j)
{
    open_container(j, true);
}

void dz_json_end(struct dz_json *j)
{
    if (j->out->err)
        return;
    assert(j->depth > 0 && !j->keyed);
    bool array = in_array(j), filled = j->filled;
    j->depth--;
    if (filled)
        new_line(j);
    dz_buf_add(j->out, array ? "]" : "}", 1);
    j->filled = true;
}

/* The number of bytes at p that need no escape in a JSON string. DEL and C1 are escaped although
 * JSON allows them, because they control terminals: documents are shown to people, and log lines
 * contain JSON strings. */
static size_t plain_run(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n) {
        unsigned char c = (unsigned char)p[i];
        size_t len = c >= 0x80 ? dz_utf8_shown(p + i, n - i)
                               : c >= 0x20 && c != 0x7f && c != '"' && c != '\\';
        if (len == 0)
            break;
        i += len;
    }
    return i;
}

size_t dz_json_escape_char(const char *p, size_t n, char out[static DZ_JSON_CHAR], size_t *ret_used)
{
    static const char replacement[3] = {'\xef', '\xbf', '\xbd'}; /* U+FFFD */
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    unsigned char c = (unsigned char)p[0];
    size_t len = dz_utf8_len(p, n);
    const char *at = c ? strchr(from, c) : NULL;

    *ret_used = len ? len : 1;
    if (at) {
        out[0] = '\\';
        out[1] = to[at - from];
        return 2;
    }
    if (len > 0 && dz_utf8_shown(p, n) == 0) /* C0, DEL, or C1, whose second byte is its number */
        return (size_t)snprintf(out, DZ_JSON_CHAR, "\\u%04x", (unsigned char)p[len - 1]);
    if (len == 0) {
        memcpy(out, replacement, sizeof replacement);
        return sizeof replacement;
    }
    memcpy(out, p, len);
    return len;
}

/* Write the bytes of s as they appear between the quotes of a JSON string. Besides the escapes that
 * JSON requires, DEL and C1 (U+0080 to U+009F) are escaped, because they control terminals. */
static void json_escape(struct dz_buf *out, struct dz_str s)
{
    char piece[DZ_JSON_CHAR];
    for (size_t i = 0, used; i < s.n && !out->err; i += used) {
        used = plain_run(s.p + i, s.n - i);
        if (used > 0)
            dz_buf_add(out, s.p + i, used);
        else
            dz_buf_add(out, piece, dz_json_escape_char(s.p + i, s.n - i, piece, &used));
    }
}

static void add_string(struct dz_buf *out, struct dz_str s)
{
    dz_buf_add(out, "\"", 1);
    json_escape(out, s);
    dz_buf_add(out, "\"", 1);
}

void dz_json_key_str(struct dz_json *j, struct dz_str key)
{
    if (j->out->err)
        return;
    assert(j->depth > 0 && !in_array(j) && !j->keyed);
    separate(j);
    add_string(j->out, key);
    dz_buf_adds(j->out, j->pretty ? ": " : ":");
    j->keyed = true;
}

void dz_json_key(struct dz_json *j, const char *key)
{
    dz_json_key_str(j, dz_str(key));
}

void dz_json_str(struct dz_json *j, struct dz_str s)
{
    if (begin_value(j))
        add_string(j->out, s);
}

void dz_json_i64(struct dz_json *j, int64_t v)
{
    if (begin_value(j))
        dz_buf_addf(j->out, "%" PRId64, v);
}

void dz_json_u64(struct dz_json *j, uint64_t v)
{
    if (begin_value(j))
        dz_buf_addf(j->out, "%" PRIu64, v);
}

void dz_json_bool(struct dz_json *j, bool v)
{
    if (begin_value(j))
        dz_buf_adds(j->out, v ? "true" : "false");
}

void dz_json_null(struct dz_json *j)
{
    if (begin_value(j))
        dz_buf_adds(j->out, "null");
}

void dz_json_double(struct dz_json *j, double v)
{
    char text[32];
    if (!isfinite(v)) {
        dz_json_null(j);
        return;
    }
    if (!begin_value(j))
        return;
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, v);
        double back = strtod(text, NULL);
        if (!(back < v) && !(back > v))
            break;
    }
    dz_buf_adds(j->out, text);
}

void dz_json_raw(struct dz_json *j, struct dz_str text)
{
    assert(text.n > 0);
    if (begin_value(j))
        dz_buf_add(j->out, text.p, text.n);
}

void dz_json_put_str(struct dz_json *j, const char *key, struct dz_str s)
{
    dz_json_key(j, key);
    dz_json_str(j, s);
}

void dz_json_put_strz(struct dz_json *j, const char *key, const char *s)
{
    dz_json_key(j, key);
    if (s)
        dz_json_str(j, dz_str(s));
    else
        dz_json_null(j);
}

void dz_json_put_bytes(struct dz_json *j, const char *key, struct dz_str bytes)
{
    struct dz_buf text = DZ_BUF_INIT(j->out->max), name = DZ_BUF_INIT(DZ_LINE_MAX);
    dz_json_put_str(j, key, bytes);
    if (!dz_str_is_utf8(bytes)) {
        dz_buf_addf(&name, "%s_base64", key);
        dz_buf_add_base64(&text, bytes.p, bytes.n);
        if (!j->out->err)
            j->out->err = name.err ? name.err : text.err;
        dz_json_put_str(j, name.p, dz_str_n(text.p, text.len));
    }
    dz_buf_release(&name);
    dz_buf_release(&text);
}

void dz_json_put_i64(struct dz_json *j, const char *key, int64_t v)
{
    dz_json_key(j, key);
    dz_json_i64(j, v);
}

void dz_json_put_u64(struct dz_json *j, const char *key, uint64_t v)
{
    dz_json_key(j, key);
    dz_json_u64(j, v);
}

void dz_json_put_bool(struct dz_json *j, const char *key, bool v)
{
    dz_json_key(j, key);
    dz_json_bool(j, v);
}

void dz_json_put_double(struct dz_json *j, const char *key, double v)
{
    dz_json_key(j, key);
    dz_json_double(j, v);
}

void dz_json_put_null(struct dz_json *j, const char *key)
{
    dz_json_key(j, key);
    dz_json_null(j);
}

/* SPDX-License-Identifier: MIT
 * Any allowed run of calls of the JSON writer gives text that a checker of
 * RFC 8259, written from its grammar, accepts. Each byte of input is a call,
 * the low bits of some say how many bytes that follow are its string. */
#include "base/err.h"
#include "base/json.h"
#include "base/limits.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- the checker: each returns what follows, or NULL --------------------------- */

static const char *skip_space(const char *p)
{
    return p + strspn(p, " \n");
}

static const char *check_string(const char *p)
{
    if (*p++ != '"')
        return NULL;
    while (*p != '"') {
        if ((unsigned char)*p < 0x20)
            return NULL;
        if (*p == '\\' && p[1] == 'u') {
            if (strspn(p + 2, "0123456789abcdef") < 4)
                return NULL;
            p += 6;
        } else if (*p == '\\') {
            if (!p[1] || !strchr("\"\\bfnrt", p[1]))
                return NULL;
            p += 2;
        } else {
            p++;
        }
    }
    return p + 1;
}

static const char *check_number(const char *p)
{
    p += *p == '-';
    size_t n = strspn(p, "0123456789");
    if (n == 0 || (n > 1 && *p == '0'))
        return NULL;
    p += n;
    if (*p == '.') {
        n = strspn(++p, "0123456789");
        if (n == 0)
            return NULL;
        p += n;
    }
    if (*p == 'e') {
        p += p[1] == '+' || p[1] == '-' ? 2 : 1;
        n = strspn(p, "0123456789");
        if (n == 0)
            return NULL;
        p += n;
    }
    return p;
}

static const char *check_scalar(const char *p)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++)
        if (strncmp(p, words[i], strlen(words[i])) == 0)
            return p + strlen(words[i]);
    return *p == '"' ? check_string(p) : check_number(p);
}

/* One value with all in it; a stack of closing brackets instead of recursion. */
static const char *check_value(const char *p)
{
    char open[DZ_JSON_DEPTH_MAX];
    size_t depth = 0;
    for (;;) {
        p = skip_space(p);
        if (*p == '[' || *p == '{') {
            assert(depth < sizeof open);
            open[depth++] = *p == '[' ? ']' : '}';
            p = skip_space(p + 1);
            if (*p != open[depth - 1]) {
                if (open[depth - 1] == '}' && (!(p = check_string(p)) || *p++ != ':'))
                    return NULL;
                continue;
            }
        } else {
            p = check_scalar(p);
        }
        while (p && depth > 0 && *skip_space(p) == open[depth - 1]) {
            p = skip_space(p) + 1;
            depth--;
        }
        if (!p || depth == 0)
            return p;
        if (*p++ != ',')
            return NULL;
        if (open[depth - 1] == '}' && (!(p = check_string(skip_space(p))) || *p++ != ':'))
            return NULL;
    }
}

/* --- the calls ------------------------------------------------------------------ */

struct calls {
    const uint8_t *p;
    size_t left;
};

static struct dz_str take(struct calls *c, size_t n)
{
    if (n > c->left)
        n = c->left;
    struct dz_str s = dz_str_n((const char *)c->p, n);
    c->p += n;
    c->left -= n;
    return s;
}

static void put_value(struct dz_json *j, struct calls *c, unsigned op)
{
    struct dz_str s = take(c, op == 5 ? 20 : 8);
    uint64_t bits = 0;
    double real = 0;
    memcpy(&bits, s.n ? s.p : "", s.n < sizeof bits ? s.n : sizeof bits);
    memcpy(&real, &bits, sizeof real);
    if (op == 0)
        dz_json_object(j);
    else if (op == 1)
        dz_json_array(j);
    else if (op == 2)
        dz_json_i64(j, (int64_t)bits);
    else if (op == 3)
        dz_json_u64(j, bits);
    else if (op == 4)
        dz_json_double(j, real);
    else if (op == 5)
        dz_json_str(j, s);
    else if (op == 6)
        dz_json_bool(j, bits & 1);
    else
        dz_json_null(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dz_buf out = DZ_BUF_INIT(1 << 20);
    struct dz_json j;
    struct calls c = {data, size};
    struct dz_str first = take(&c, 1);

    dz_json_init(&j, &out, first.n && (first.p[0] & 1));
    if (first.n && (first.p[0] & 2))
        out.max = 200;
    put_value(&j, &c, first.n ? (unsigned)first.p[0] >> 2 & 7 : 7);
    while (!out.err && j.depth > 0) {
        struct dz_str op = take(&c, 1);
        if (op.n == 0 || (op.p[0] & 15) == 15) {
            dz_json_end(&j);
            continue;
        }
        if (!(j.arrays >> (j.depth - 1) & 1))
            dz_json_key_str(&j, take(&c, (size_t)op.p[0] >> 4 & 15));
        put_value(&j, &c, op.p[0] & 7);
    }
    if (dz_json_finish(&j) == 0) {
        const char *end = check_value(out.p);
        assert(end && *end == '\0' && end == out.p + out.len);
        assert(dz_str_is_utf8(dz_str_n(out.p, out.len)));
    } else {
        assert(out.err == DZ_ELIMIT);
    }
    dz_buf_release(&out);
    return 0;
}

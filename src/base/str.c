/* SPDX-License-Identifier: MIT
 *
 * str.c - string slices.
 *
 * memcmp and memchr are never called with a NULL pointer, not even for zero
 * bytes: each caller checks n first. The edit distance keeps three rows of the
 * usual table, on the stack, which DZ_STR_DISTANCE_MAX bounds.
 */
#include "base/str.h"

#include "base/mem.h"

#include <assert.h>
#include <stdio.h>

bool dz_str_eq(struct dz_str a, struct dz_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool dz_str_eqz(struct dz_str a, const char *z)
{
    return dz_str_eq(a, dz_str(z));
}

int dz_str_cmp(struct dz_str a, struct dz_str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int d = n ? memcmp(a.p, b.p, n) : 0;
    return d ? d : (a.n > b.n) - (a.n < b.n);
}

bool dz_str_starts(struct dz_str s, struct dz_str prefix)
{
    return s.n >= prefix.n && dz_str_eq(dz_str_n(s.p, prefix.n), prefix);
}

bool dz_str_ends(struct dz_str s, struct dz_str suffix)
{
    return suffix.n == 0 ||
           (s.n >= suffix.n && memcmp(s.p + (s.n - suffix.n), suffix.p, suffix.n) == 0);
}

size_t dz_str_find(struct dz_str s, struct dz_str needle)
{
    if (needle.n == 0)
        return 0;
    if (s.n < needle.n)
        return DZ_STR_NONE;
    const char *hit = memmem(s.p, s.n, needle.p, needle.n);
    return hit ? (size_t)(hit - s.p) : DZ_STR_NONE;
}

size_t dz_str_find_char(struct dz_str s, char c)
{
    const char *hit = s.n ? memchr(s.p, c, s.n) : NULL;
    return hit ? (size_t)(hit - s.p) : DZ_STR_NONE;
}

size_t dz_str_rfind_char(struct dz_str s, char c)
{
    const char *hit = s.n ? memrchr(s.p, c, s.n) : NULL;
    return hit ? (size_t)(hit - s.p) : DZ_STR_NONE;
}

struct dz_str dz_str_sub(struct dz_str s, size_t from, size_t n)
{
    if (from > s.n)
        from = s.n;
    if (n > s.n - from)
        n = s.n - from;
    return dz_str_n(s.p ? s.p + from : NULL, n);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct dz_str dz_str_trim(struct dz_str s)
{
    while (s.n && is_space(s.p[0])) {
        s.p++;
        s.n--;
    }
    while (s.n && is_space(s.p[s.n - 1]))
        s.n--;
    return s;
}

bool dz_str_eat(struct dz_str *s, struct dz_str prefix)
{
    if (!dz_str_starts(*s, prefix))
        return false;
    *s = dz_str_sub(*s, prefix.n, s->n);
    return true;
}

bool dz_str_split(struct dz_str *rest, char sep, struct dz_str *ret_part)
{
    if (!rest->p)
        return false;
    size_t at = dz_str_find_char(*rest, sep);
    if (at == DZ_STR_NONE) {
        *ret_part = *rest;
        *rest = dz_str_n(NULL, 0);
    } else {
        *ret_part = dz_str_n(rest->p, at);
        *rest = dz_str_n(rest->p + at + 1, rest->n - at - 1);
    }
    return true;
}

char *dz_str_dup(struct dz_str s)
{
    return dz_strndup(s.n ? s.p : "", s.n);
}

/* One byte of s as it is shown; returns how many characters that took. */
static size_t quote_byte(unsigned char c, char out[static 5])
{
    if (c == '"' || c == '\\')
        return (size_t)snprintf(out, 5, "\\%c", c);
    if (c == '\n')
        return (size_t)snprintf(out, 5, "\\n");
    if (c < 0x20 || c > 0x7e)
        return (size_t)snprintf(out, 5, "\\x%02x", c);
    return (size_t)snprintf(out, 5, "%c", c);
}

char *dz_str_quote(struct dz_str s, char out[static DZ_STR_QUOTED])
{
    const size_t room = DZ_STR_QUOTED - sizeof "\"...\""; /* for what stands before the end */
    size_t len = 0, i = 0;
    char piece[5];

    out[len++] = '"';
    for (; i < s.n; i++) {
        size_t n = quote_byte((unsigned char)s.p[i], piece);
        if (len + n > room + 1)
            break;
        memcpy(out + len, piece, n);
        len += n;
    }
    (void)snprintf(out + len, DZ_STR_QUOTED - len, "%s", i < s.n ? "\"..." : "\"");
    return out;
}

size_t dz_utf8_len(const char *p, size_t n)
{
    const unsigned char *u = (const unsigned char *)p;
    size_t len = 0;
    unsigned char low = 0x80, high = 0xbf; /* range of the second byte */

    if (n == 0)
        return 0;
    if (u[0] < 0x80)
        return 1;
    if (u[0] >= 0xc2 && u[0] <= 0xdf) {
        len = 2;
    } else if (u[0] >= 0xe0 && u[0] <= 0xef) {
        len = 3;
        low = u[0] == 0xe0 ? 0xa0 : 0x80;  /* not overlong */
        high = u[0] == 0xed ? 0x9f : 0xbf; /* not a surrogate */
    } else if (u[0] >= 0xf0 && u[0] <= 0xf4) {
        len = 4;
        low = u[0] == 0xf0 ? 0x90 : 0x80;
        high = u[0] == 0xf4 ? 0x8f : 0xbf; /* at most U+10FFFF */
    }
    if (len == 0 || n < len || u[1] < low || u[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((u[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

bool dz_str_is_utf8(struct dz_str s)
{
    for (size_t i = 0; i < s.n;) {
        size_t len = dz_utf8_len(s.p + i, s.n - i);
        if (len == 0)
            return false;
        i += len;
    }
    return true;
}

size_t dz_utf8_shown(const char *p, size_t n)
{
    const unsigned char *u = (const unsigned char *)p;
    size_t len = dz_utf8_len(p, n);
    bool steers =
        (len == 1 && (u[0] < 0x20 || u[0] == 0x7f)) || (len == 2 && u[0] == 0xc2 && u[1] < 0xa0);
    return steers ? 0 : len;
}

void dz_str_plain(char *text)
{
    const char *end = text + strlen(text);
    while (text < end) {
        size_t len = dz_utf8_shown(text, (size_t)(end - text));
        if (len == 0)
            *text = '?';
        text += len ? len : 1;
    }
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

unsigned dz_str_distance(struct dz_str a, struct dz_str b, unsigned max)
{
    unsigned rows[3][DZ_STR_DISTANCE_MAX + 1];
    unsigned *before = rows[0], *last = rows[1], *now = rows[2];

    assert(max < UINT32_MAX);
    if (a.n > DZ_STR_DISTANCE_MAX || b.n > DZ_STR_DISTANCE_MAX)
        return max + 1;
    for (unsigned j = 0; j <= b.n; j++)
        last[j] = before[j] = j;
    for (unsigned i = 1; i <= a.n; i++) {
        now[0] = i;
        for (unsigned j = 1; j <= b.n; j++) {
            unsigned differ = a.p[i - 1] != b.p[j - 1];
            now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + differ);
            if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1] &&
                before[j - 2] + 1 < now[j])
                now[j] = before[j - 2] + 1;
        }
        unsigned *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[b.n] <= max ? last[b.n] : max + 1;
}

size_t dz_str_nearest(struct dz_str word, const char *const *names, size_t count)
{
    size_t best = DZ_STR_NONE;
    unsigned limit = word.n < 6 ? 1 : word.n > DZ_STR_DISTANCE_MAX ? 0 : (unsigned)word.n / 3;

    for (size_t i = 0; i < count; i++) {
        unsigned d = dz_str_distance(word, dz_str(names[i]), limit);
        if (d > limit)
            continue;
        best = i;
        if (d == 0)
            break;
        limit = d - 1; /* a later one must be strictly nearer */
    }
    return best;
}

/* SPDX-License-Identifier: MIT
 *
 * str.h - a string slice: bytes somewhere else, and how many.
 *
 * A slice owns nothing; the code that makes it ensures that the bytes live long enough. The bytes
 * may contain NUL and need no terminator. p may be NULL only if n is 0; then no function here reads
 * p. Slices are passed by value.
 */
#ifndef DZ_BASE_STR_H
#define DZ_BASE_STR_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct dz_str {
    const char *p;
    size_t n;
};

#define DZ_STR_NONE SIZE_MAX /* "not found", where an index is returned */

/* A slice of a literal, usable as a constant expression in tables. */
#define DZ_STR_INIT(lit) {"" lit, sizeof(lit) - 1}
#define DZ_STR(lit)      ((struct dz_str)DZ_STR_INIT(lit))

/* printf("%.*s", DZ_STR_ARG(s)), for short text that is known to be printable. Print text from
 * outside through dz_str_quote. */
#define DZ_STR_ARG(s) ((s).n < 4096 ? (int)(s).n : 4096), ((s).n ? (s).p : "")

static inline struct dz_str dz_str_n(const char *p, size_t n)
{
    return (struct dz_str){p, n};
}
static inline struct dz_str dz_str(const char *z) /* a C string, or NULL for the empty slice */
{
    return (struct dz_str){z, z ? strlen(z) : 0};
}

/* --- comparing --- */
bool dz_str_eq(struct dz_str a, struct dz_str b);
bool dz_str_eqz(struct dz_str a, const char *z);
int dz_str_cmp(struct dz_str a, struct dz_str b); /* by byte, shorter first: < 0, 0, > 0 */
bool dz_str_starts(struct dz_str s, struct dz_str prefix);
bool dz_str_ends(struct dz_str s, struct dz_str suffix);

/* --- finding and cutting --- */
size_t dz_str_find(struct dz_str s, struct dz_str needle); /* first index, or DZ_STR_NONE */
size_t dz_str_find_char(struct dz_str s, char c);
size_t dz_str_rfind_char(struct dz_str s, char c);
struct dz_str dz_str_sub(struct dz_str s, size_t from, size_t n); /* clamped to s */
struct dz_str dz_str_trim(struct dz_str s); /* without space, \t \r \n \v \f at both ends */
bool dz_str_eat(struct dz_str *s, struct dz_str prefix); /* take prefix off; false = not there */

/* The next part of *rest up to sep; *rest moves behind it. "a,,b" has the
 * parts a, "", b; "" has one empty part; a slice with p NULL has none.
 *
 *     struct dz_str rest = list, part;
 *     while (dz_str_split(&rest, ',', &part)) ...
 */
bool dz_str_split(struct dz_str *rest, char sep, struct dz_str *ret_part);

/* --- copying --- */
DZ_NODISCARD char *dz_str_dup(struct dz_str s); /* terminated, for dz_free(); NULL = no memory */

/* Quote s for an error message or a log: printable ASCII as it is, the rest
 * escaped, cut with "..." when long. Returns out. */
enum {
    DZ_STR_QUOTED = 72
};
char *dz_str_quote(struct dz_str s, char out[static DZ_STR_QUOTED]);

/* --- UTF-8 (RFC 3629: no surrogates, nothing overlong, at most U+10FFFF) --- */
size_t dz_utf8_len(const char *p, size_t n); /* bytes of the character at p, 0 = invalid */
bool dz_str_is_utf8(struct dz_str s);
/* The same, but 0 also for terminal control characters: C0, DEL, C1 (U+0080 to U+009F). */
size_t dz_utf8_shown(const char *p, size_t n);
/* Replace each byte that dz_utf8_shown() refuses by '?'. */
void dz_str_plain(char *text);

/* --- suggestions --- */

/* Edits from a to b: insertions, deletions, substitutions and swaps of two
 * neighbours, no part edited twice (optimal string alignment, the restricted
 * form of Damerau-Levenshtein). More than max edits, or a text longer than
 * DZ_STR_DISTANCE_MAX bytes, gives max + 1. */
enum {
    DZ_STR_DISTANCE_MAX = 64
};
unsigned dz_str_distance(struct dz_str a, struct dz_str b, unsigned max);

/* The index of the name nearest to word, the first of equals, or DZ_STR_NONE
 * when none is within one edit for each three bytes of word (at least 1). */
size_t dz_str_nearest(struct dz_str word, const char *const *names, size_t count);

#endif

/* SPDX-License-Identifier: MIT
 *
 * num.h - numbers, durations and sizes from text, and back.
 *
 * Every parser parses the whole slice: nothing may precede or follow the number, not even a space.
 * The result is in min..max (both included). Otherwise the parser returns DZ_EINVAL, *ret_x is
 * unchanged, and err has the text, what is wrong with it and what is expected. None depends on the
 * locale.
 */
#ifndef DZ_BASE_NUM_H
#define DZ_BASE_NUM_H

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

enum {
    DZ_NUM_TEXT_MAX = 128, /* bytes of text that any of these parsers looks at */
    DZ_DURATION_TEXT = 40, /* room for a printed duration with its terminator */
    DZ_SIZE_TEXT = 32,     /* the same for a size */
};

/* The value of a hexadecimal digit of either case, or -1. */
static inline int dz_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    char low = (char)(c | 0x20);
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/* Integers: decimal digits (leading zeros do not mean octal), or 0x and hexadecimal digits. An i64
 * may begin with '-'; a '+' is never allowed. */
DZ_NODISCARD int dz_num_u64(struct dz_str s, uint64_t min, uint64_t max, uint64_t *ret_value,
                            struct dz_err *err);
DZ_NODISCARD int dz_num_i64(struct dz_str s, int64_t min, int64_t max, int64_t *ret_value,
                            struct dz_err *err);

/* Decimal: -12, 0.5, .5, 5., 1e-9. Never inf, nan or hexadecimal; a number that rounds to infinity
 * is out of range. */
DZ_NODISCARD int dz_num_double(struct dz_str s, double min, double max, double *ret_value,
                               struct dz_err *err);

/* Durations, in milliseconds: parts of digits and a unit (d h m s ms), larger units first and each
 * at most once (1h30m, 1500ms), or only digits, which are seconds. There are no negative durations;
 * min >= 0. */
DZ_NODISCARD int dz_duration_parse(struct dz_str s, int64_t min_ms, int64_t max_ms, int64_t *ret_ms,
                                   struct dz_err *err);

/* The shortest exact text (90000 -> "1m30s", 0 -> "0s"), which
 * dz_duration_parse reads back as the same value. A negative value gets a '-'
 * in front, for messages only. Returns out. */
char *dz_duration_print(int64_t ms, char out[static DZ_DURATION_TEXT]);

/* Sizes, in bytes: digits, then nothing, B, a decimal unit (kB or KB, MB, GB,
 * TB, PB, EB) or a binary one (KiB, MiB, GiB, TiB, PiB, EiB). */
DZ_NODISCARD int dz_size_parse(struct dz_str s, uint64_t min, uint64_t max, uint64_t *ret_bytes,
                               struct dz_err *err);

/* The exact text with the fewest digits (4096 -> "4KiB", 64000000 -> "64MB",
 * 1234 -> "1234B"), which dz_size_parse reads back. Returns out. */
char *dz_size_print(uint64_t bytes, char out[static DZ_SIZE_TEXT]);

#endif

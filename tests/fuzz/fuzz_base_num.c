/* SPDX-License-Identifier: MIT
 * Integers and decimals against libc's, behind a second check of the grammar.
 * The first byte chooses the parser; the rest is the text. */
#include "base/num.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Digits only, of the base that the prefix says? */
static int is_integer(const char *z, size_t n)
{
    int hex = n > 2 && z[0] == '0' && (z[1] == 'x' || z[1] == 'X');
    for (size_t i = hex ? 2 : 0; i < n; i++)
        if (hex ? !isxdigit((unsigned char)z[i]) : !isdigit((unsigned char)z[i]))
            return 0;
    return n > 0 && n - (hex ? 2 : 0) <= DZ_NUM_TEXT_MAX ? (hex ? 16 : 10) : 0;
}

static void check_u64(const char *z, size_t n)
{
    uint64_t got = 77;
    struct dz_err e = {0};
    int base = is_integer(z, n);
    errno = 0;
    uint64_t want = base ? strtoull(z, NULL, base) : 0;
    int rc = dz_num_u64(dz_str_n(z, n), 0, UINT64_MAX, &got, &e);
    if (base && errno == 0)
        assert(rc == 0 && got == want);
    else
        assert(rc == DZ_EINVAL && got == 77 && e.msg[0] == '"');
    if (rc == 0 && want > 0) { /* a range that just leaves it out */
        assert(dz_num_u64(dz_str_n(z, n), 0, want - 1, &got, NULL) == DZ_EINVAL);
        assert(dz_num_u64(dz_str_n(z, n), want, want, &got, NULL) == 0);
    }
}

static void check_i64(const char *z, size_t n)
{
    int64_t got = 77;
    struct dz_err e = {0};
    size_t minus = n > 0 && z[0] == '-';
    int base = is_integer(z + minus, n - minus);
    errno = 0;
    int64_t want = base ? strtoll(z, NULL, base) : 0;
    int rc = dz_num_i64(dz_str_n(z, n), INT64_MIN, INT64_MAX, &got, &e);
    if (base && errno == 0)
        assert(rc == 0 && got == want);
    else
        assert(rc == DZ_EINVAL && got == 77 && e.msg[0] == '"');
}

static void check_double(const char *z, size_t n)
{
    double got = 77;
    struct dz_err e = {0};
    char *end = NULL;
    double want = strtod(z, &end);
    int plain = n > 0 && n <= DZ_NUM_TEXT_MAX && strspn(z, "0123456789.eE+-") == n && z[0] != '+' &&
                end == z + n && isfinite(want);
    int rc = dz_num_double(dz_str_n(z, n), -HUGE_VAL, HUGE_VAL, &got, &e);
    if (plain)
        assert(rc == 0 && memcmp(&got, &want, sizeof got) == 0);
    else
        assert(rc == DZ_EINVAL && memcmp(&got, &(double){77}, sizeof got) == 0 && e.msg[0] == '"');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t n = size - 1;
    char *z = malloc(n + 1); /* exact: an overread by one is seen where it has no terminator */
    char *exact = malloc(n ? n : 1);
    assert(z && exact);
    memcpy(z, data + 1, n);
    memcpy(exact, data + 1, n);
    z[n] = '\0';
    uint64_t u;
    (void)!dz_num_u64(dz_str_n(exact, n), 0, UINT64_MAX, &u, NULL);
    if (data[0] % 3 == 0)
        check_u64(z, n);
    else if (data[0] % 3 == 1)
        check_i64(z, n);
    else
        check_double(z, n);
    free(z);
    free(exact);
    return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * id.c - random bytes from getrandom(2), ids from a time and random bits.
 *
 * The 100 bits of an id are written as 20 digits of five bits, most significant
 * first. The alphabet is in ASCII order, so comparing ids compares the bits.
 */
#include "base/id.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <sys/random.h>

static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";

enum {
    TIME_BITS = 48,
    DIGIT_BITS = 5,
};

int dz_random(void *ret_data, size_t n, struct dz_err *err)
{
    char *p = ret_data;
    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return dz_fail_sys(err, errno, "get %zu random bytes from the kernel", n);
        p += got;
        n -= (size_t)got;
    }
    return 0;
}

static bool valid_prefix(struct dz_str prefix)
{
    for (size_t i = 0; i < prefix.n; i++)
        if (prefix.p[i] < 'a' || prefix.p[i] > 'z')
            return false;
    return prefix.n >= 1 && prefix.n <= DZ_ID_PREFIX_MAX;
}

int dz_id_new(const char *prefix, char ret_id[static DZ_ID_TEXT], struct dz_err *err)
{
    size_t n = strlen(prefix);
    uint64_t bits = 0;

    assert(valid_prefix(dz_str(prefix)));
    int rc = dz_random(&bits, sizeof bits, err);
    if (rc < 0)
        return rc;
    int64_t now = dz_clock_real_ms();
    uint64_t ms = now < 0 ? 0 : (uint64_t)now & ((1ull << TIME_BITS) - 1);
    memcpy(ret_id, prefix, n);
    ret_id[n++] = '_';
    /* From the end: ten digits of random bits, then two random bits below the time. */
    uint64_t high = ms << 2 | bits >> 62;
    for (size_t i = 0; i < DZ_ID_CODE / 2; i++) {
        ret_id[n + DZ_ID_CODE - 1 - i] = alphabet[bits & 31];
        bits >>= DIGIT_BITS;
        ret_id[n + DZ_ID_CODE / 2 - 1 - i] = alphabet[high & 31];
        high >>= DIGIT_BITS;
    }
    ret_id[n + DZ_ID_CODE] = '\0';
    return 0;
}

int dz_id_parse(struct dz_str s, const char *prefix, int64_t *ret_ms, struct dz_err *err)
{
    char text[DZ_STR_QUOTED];
    struct dz_str code = s;
    uint64_t high = 0;

    assert(valid_prefix(dz_str(prefix)));
    bool good =
        dz_str_eat(&code, dz_str(prefix)) && dz_str_eat(&code, DZ_STR("_")) && code.n == DZ_ID_CODE;
    for (size_t i = 0; good && i < DZ_ID_CODE; i++) {
        const char *at = code.p[i] ? strchr(alphabet, code.p[i]) : NULL;
        good = at != NULL;
        if (good && i < DZ_ID_CODE / 2)
            high = high << DIGIT_BITS | (uint64_t)(at - alphabet);
    }
    if (!good)
        return dz_fail(
            err, DZ_EINVAL,
            "%s is not an id: expected %s_ and 20 characters of 0-9a-z without i, l, o, u",
            dz_str_quote(s, text), prefix);
    if (ret_ms)
        *ret_ms = (int64_t)(high >> 2);
    return 0;
}

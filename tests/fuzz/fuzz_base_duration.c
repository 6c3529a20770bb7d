/* SPDX-License-Identifier: MIT
 * Durations against a reader that counts in 128 bits, and print and parse
 * against each other. The first eight bytes are also a value to print. */
#include "base/num.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Milliseconds of the text, or -1. Written otherwise than the one under test:
 * the units are tried in order, each at the place where the text stands. */
static __int128 model(struct dz_str s)
{
    static const struct {
        const char *name;
        __int128 factor;
    } units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    const __int128 ceiling = (__int128)INT64_MAX + 1;
    __int128 sum = 0;
    size_t i = 0;

    if (s.n == 0 || s.n > DZ_NUM_TEXT_MAX)
        return -1;
    for (size_t unit = 0; i < s.n; unit++) {
        if (unit == 5)
            return -1;
        size_t at = i;
        __int128 value = 0;
        for (; at < s.n && s.p[at] >= '0' && s.p[at] <= '9'; at++)
            value = value * 10 + (s.p[at] - '0') < ceiling ? value * 10 + (s.p[at] - '0') : ceiling;
        if (at == i)
            return -1;
        if (i == 0 && at == s.n)
            return value * 1000;
        size_t n = strlen(units[unit].name);
        int here = s.n - at >= n && memcmp(s.p + at, units[unit].name, n) == 0 &&
                   (at + n == s.n || (s.p[at + n] >= '0' && s.p[at + n] <= '9'));
        if (!here)
            continue;
        sum += value * units[unit].factor;
        i = at + n;
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dz_str s = dz_str_n((const char *)data, size);
    char text[DZ_DURATION_TEXT];
    struct dz_err e = {0};
    int64_t got = -7, again = -8;

    __int128 want = model(s);
    int rc = dz_duration_parse(s, 0, INT64_MAX, &got, &e);
    if (want >= 0 && want <= INT64_MAX) {
        assert(rc == 0 && got == (int64_t)want);
        assert(dz_duration_parse(dz_str(dz_duration_print(got, text)), got, got, &again, NULL) ==
               0);
        assert(again == got);
    } else {
        assert(rc == DZ_EINVAL && got == -7 && e.msg[0] == '"');
    }
    if (size >= sizeof got) {
        memcpy(&got, data, sizeof got);
        (void)dz_duration_print(got, text);
        assert(strlen(text) < sizeof text);
        rc = dz_duration_parse(dz_str(text), 0, INT64_MAX, &again, NULL);
        assert(got >= 0 ? rc == 0 && again == got : rc == DZ_EINVAL);
    }
    return 0;
}

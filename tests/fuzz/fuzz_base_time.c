/* SPDX-License-Identifier: MIT
 * RFC 3339 against a mask of the text and libc's timegm, and print and parse
 * against each other. The first eight bytes are also a time to print. */
#include "base/clock.h"

#include <assert.h>
#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Does s begin as the mask says? 'd' is a digit, 'T' either case of T. */
static int fits(struct dz_str s, const char *mask)
{
    for (size_t i = 0; mask[i]; i++) {
        if (i >= s.n)
            return 0;
        unsigned char c = (unsigned char)s.p[i];
        if (mask[i] == 'd' ? !isdigit(c) : mask[i] == 'T' ? toupper(c) != 'T' : c != mask[i])
            return 0;
    }
    return 1;
}

static int number(const char *p, size_t n)
{
    int value = 0;
    for (size_t i = 0; i < n; i++)
        value = value * 10 + (p[i] - '0');
    return value;
}

/* The text's time, or INT64_MIN. */
static int64_t model(struct dz_str s)
{
    int ms = 0, offset = 0;
    if (!fits(s, "dddd-dd-ddTdd:dd:dd"))
        return INT64_MIN;
    struct tm tm = {.tm_year = number(s.p, 4) - 1900,
                    .tm_mon = number(s.p + 5, 2) - 1,
                    .tm_mday = number(s.p + 8, 2),
                    .tm_hour = number(s.p + 11, 2),
                    .tm_min = number(s.p + 14, 2),
                    .tm_sec = number(s.p + 17, 2)};
    struct tm want = tm;
    s = dz_str_sub(s, 19, s.n);
    if (fits(s, ".d")) {
        size_t n = 1;
        while (n < s.n && isdigit((unsigned char)s.p[n]))
            n++;
        if (n > 10)
            return INT64_MIN;
        char digits[] = "000";
        memcpy(digits, s.p + 1, n - 1 < 3 ? n - 1 : 3);
        ms = number(digits, 3);
        s = dz_str_sub(s, n, s.n);
    }
    if (s.n == 6 && (fits(s, "+dd:dd") || fits(s, "-dd:dd"))) {
        int hours = number(s.p + 1, 2), minutes = number(s.p + 4, 2);
        if (hours > 23 || minutes > 59)
            return INT64_MIN;
        offset = (hours * 60 + minutes) * (s.p[0] == '-' ? -1 : 1);
    } else if (!dz_str_eqz(s, "Z") && !dz_str_eqz(s, "z")) {
        return INT64_MIN;
    }
    int64_t seconds = timegm(&tm); /* which would make 31 April the 1 May */
    if (tm.tm_mon != want.tm_mon || tm.tm_mday != want.tm_mday || tm.tm_hour != want.tm_hour ||
        tm.tm_min != want.tm_min || tm.tm_sec != want.tm_sec)
        return INT64_MIN;
    int64_t value = (seconds - offset * 60) * 1000 + ms;
    return value < DZ_RFC3339_MIN_MS || value > DZ_RFC3339_MAX_MS ? INT64_MIN : value;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dz_str s = dz_str_n((const char *)data, size);
    char text[DZ_RFC3339_TEXT];
    struct dz_err e = {0};
    int64_t got = -7, again = -8, want = model(s);

    int rc = dz_rfc3339_parse(s, &got, &e);
    if (want != INT64_MIN)
        assert(rc == 0 && got == want);
    else
        assert(rc == DZ_EINVAL && got == -7 && e.msg[0] == '"');
    if (want == INT64_MIN && size >= sizeof got)
        memcpy(&got, data, sizeof got);
    assert(strlen(dz_rfc3339_print(got, text)) == DZ_RFC3339_TEXT - 1);
    assert(dz_rfc3339_parse(dz_str(text), &again, NULL) == 0);
    if (got >= DZ_RFC3339_MIN_MS && got <= DZ_RFC3339_MAX_MS)
        assert(again == got);
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

#include "tap.h"

#include <time.h>

TEST(clocks_run_forward_and_agree_with_the_kernel)
{
    int64_t a = dz_clock_mono_ns(), b = dz_clock_mono_ns();
    CHECK(a > 0 && b >= a);
    CHECK(dz_clock_boot_ns() >= a);
    CHECK(dz_clock_real_ms() / 1000 - time(NULL) <= 1);
    CHECK(time(NULL) - dz_clock_real_ms() / 1000 <= 1);
    CHECK(dz_clock_mono_ms() >= a / DZ_NS_PER_MS);
}

TEST(clock_of_a_test_moves_only_when_told)
{
    struct dz_clock_test t = {5, 7, 1000 * DZ_NS_PER_S};
    dz_clock_use(&t);
    CHECK_INT(dz_clock_mono_ns(), 5);
    CHECK_INT(dz_clock_boot_ns(), 7);
    dz_clock_advance(&t, 3 * DZ_NS_PER_MS);
    CHECK_INT(dz_clock_mono_ms(), 3);
    CHECK_INT(dz_clock_boot_ns(), 3000007);
    CHECK_INT(dz_clock_real_ms(), 1000003);
    dz_clock_set_real(&t, 9);
    CHECK_INT(dz_clock_real_ns(), 9);
    dz_clock_use(NULL);
    CHECK(dz_clock_real_ms() > 1000003);
}

TEST(rfc3339_prints_utc_with_milliseconds)
{
    char out[DZ_RFC3339_TEXT];
    CHECK_STR(dz_rfc3339_print(0, out), "1970-01-01T00:00:00.000Z");
    CHECK_STR(dz_rfc3339_print(-1, out), "1969-12-31T23:59:59.999Z");
    CHECK_STR(dz_rfc3339_print(951782400123, out), "2000-02-29T00:00:00.123Z");
    CHECK_STR(dz_rfc3339_print(DZ_RFC3339_MIN_MS, out), "0000-01-01T00:00:00.000Z");
    CHECK_STR(dz_rfc3339_print(DZ_RFC3339_MAX_MS, out), "9999-12-31T23:59:59.999Z");
    CHECK_STR(dz_rfc3339_print(INT64_MAX, out), "9999-12-31T23:59:59.999Z");
    CHECK_STR(dz_rfc3339_print(INT64_MIN, out), "0000-01-01T00:00:00.000Z");
}

TEST(rfc3339_agrees_with_libc_over_ten_thousand_years)
{
    char out[DZ_RFC3339_TEXT], want[64];
    for (int64_t s = DZ_RFC3339_MIN_MS / 1000; s <= DZ_RFC3339_MAX_MS / 1000;
         s += 13 * 86400 + 11) {
        struct tm tm = {0};
        int64_t back = 0;
        time_t t = (time_t)s;
        (void)gmtime_r(&t, &tm);
        (void)snprintf(want, sizeof want, "%04d-%02d-%02dT%02d:%02d:%02d.007Z", tm.tm_year + 1900,
                       tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
        if (strcmp(dz_rfc3339_print(s * 1000 + 7, out), want) != 0 ||
            dz_rfc3339_parse(dz_str(out), &back, NULL) < 0 || back != s * 1000 + 7) {
            CHECK_STR(out, want);
            CHECK_INT(back, s * 1000 + 7);
            return;
        }
    }
}

static int64_t parse(const char *s)
{
    int64_t ms = 0;
    return dz_rfc3339_parse(dz_str(s), &ms, NULL) < 0 ? -99 : ms;
}

TEST(rfc3339_parses_offsets_and_fractions)
{
    CHECK_INT(parse("1970-01-01T00:00:01Z"), 1000);
    CHECK_INT(parse("1970-01-01t00:00:01.5z"), 1500);
    CHECK_INT(parse("1970-01-01T00:00:00.123456789Z"), 123);
    CHECK_INT(parse("1970-01-01T01:30:00.25+01:30"), 250);
    CHECK_INT(parse("1969-12-31T22:00:00-02:00"), 0);
    CHECK_INT(parse("2000-02-29T00:00:00Z"), 951782400000);
}

TEST(rfc3339_refuses_the_rest)
{
    static const char *const bad[] = {
        "",
        "1970-01-01",
        "1970-01-01 00:00:00Z",
        "1970-01-01T00:00:00",
        "1970-01-01T00:00:00Zx",
        "1970-01-01T00:00:00.Z",
        "1970-01-01T00:00:00.1234567890Z",
        "1970-01-01T00:00Z",
        "1970-1-01T00:00:00Z",
        "1970\r01-01T00:00:00Z",
        "1970-01-01T00:00:00+0100",
        "1970-01-01T00:00:00+24:00",
        "1970-01-01T00:00:00+01:60",
        "1970-01-01T00:00:00+01:00Z",
        "1970-00-01T00:00:00Z",
        "1970-13-01T00:00:00Z",
        "1970-01-00T00:00:00Z",
        "1970-04-31T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "1970-01-01T24:00:00Z",
        "1970-01-01T00:60:00Z",
        "1970-01-01T00:00:60Z",
        "-970-01-01T00:00:00Z",
        "0000-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
    };
    struct dz_err e = {0};
    int64_t ms = 4;
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++)
        CHECK_INT(dz_rfc3339_parse(dz_str(bad[i]), &ms, &e), DZ_EINVAL);
    CHECK_INT(ms, 4);
    CHECK_INT(dz_rfc3339_parse(DZ_STR("soon"), &ms, &e), DZ_EINVAL);
    CHECK_STR(e.msg, "\"soon\" is not a time: expected RFC 3339, for example "
                     "2026-01-31T23:59:59.000Z");
}

TEST(the_boot_has_one_id)
{
    char id[DZ_BOOT_ID], again[DZ_BOOT_ID];
    dz_clock_boot_id(id);
    dz_clock_boot_id(again);
    CHECK_INT(strlen(id), DZ_BOOT_ID - 1);
    CHECK_INT(strspn(id, "0123456789abcdef-"), DZ_BOOT_ID - 1);
    CHECK_STR(id, again);
}

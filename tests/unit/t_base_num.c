/* SPDX-License-Identifier: MIT */
#include "base/num.h"

#include "tap.h"

#include <inttypes.h>
#include <math.h>

static long long u64(const char *s, uint64_t min, uint64_t max) /* the value, or an error */
{
    uint64_t v = 0;
    int rc = dz_num_u64(dz_str(s), min, max, &v, NULL);
    return rc < 0 ? rc : (long long)v;
}

static bool i64_is(const char *s, int64_t want)
{
    int64_t v = 0;
    return dz_num_i64(dz_str(s), INT64_MIN, INT64_MAX, &v, NULL) == 0 && v == want;
}

static bool i64_refuses(const char *s)
{
    int64_t v = 3;
    int rc = dz_num_i64(dz_str(s), INT64_MIN, INT64_MAX, &v, NULL);
    return rc == DZ_EINVAL && v == 3;
}

TEST(num_u64_reads_decimal_and_hex)
{
    uint64_t v = 0;
    CHECK_INT(u64("0", 0, UINT64_MAX), 0);
    CHECK_INT(u64("007", 0, UINT64_MAX), 7);
    CHECK_INT(u64("0x1fF", 0, UINT64_MAX), 511);
    CHECK_INT(u64("0XaB", 0, UINT64_MAX), 171);
    CHECK_INT(dz_num_u64(DZ_STR("18446744073709551615"), 0, UINT64_MAX, &v, NULL), 0);
    CHECK(v == UINT64_MAX);
    CHECK_INT(dz_num_u64(DZ_STR("0xffffffffffffffff"), 0, UINT64_MAX, &v, NULL), 0);
    CHECK(v == UINT64_MAX);
}

TEST(num_u64_refuses_what_is_not_one)
{
    static const char *const bad[] = {"",
                                      " 1",
                                      "1 ",
                                      "+1",
                                      "-1",
                                      "-0",
                                      "0x",
                                      "1x",
                                      "a",
                                      "0x1g",
                                      "1.0",
                                      "1e3",
                                      "1_000",
                                      "0x0x1",
                                      "18446744073709551616",
                                      "99999999999999999999999999",
                                      "0x10000000000000000"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++)
        CHECK_INT(u64(bad[i], 0, UINT64_MAX), DZ_EINVAL);
    uint64_t v = 5;
    CHECK_INT(dz_num_u64(dz_str_n("1\0", 2), 0, 9, &v, NULL), DZ_EINVAL);
    CHECK_INT(dz_num_u64(dz_str(NULL), 0, 9, &v, NULL), DZ_EINVAL);
    CHECK_INT(v, 5); /* untouched */
}

TEST(num_u64_keeps_the_range_and_names_it)
{
    struct dz_err e = {0};
    uint64_t v = 0;
    CHECK_INT(u64("1", 1, 65535), 1);
    CHECK_INT(u64("65535", 1, 65535), 65535);
    CHECK_INT(u64("0", 1, 65535), DZ_EINVAL);
    CHECK_INT(dz_num_u64(DZ_STR("70000"), 1, 65535, &v, &e), DZ_EINVAL);
    CHECK_STR(e.msg, "\"70000\" is out of range: expected an integer from 1 to 65535");
    CHECK_INT(dz_num_u64(DZ_STR("http"), 1, 65535, &v, &e), DZ_EINVAL);
    CHECK_STR(e.msg, "\"http\" is not an integer: expected an integer from 1 to 65535");
}

TEST(num_i64_reaches_both_ends)
{
    int64_t v = 0;
    struct dz_err e = {0};
    CHECK(i64_is("-9223372036854775808", INT64_MIN));
    CHECK(i64_is("9223372036854775807", INT64_MAX));
    CHECK(i64_is("-0", 0) && i64_is("-0x10", -16) && i64_is("42", 42));
    static const char *const bad[] = {
        "9223372036854775808",  "-9223372036854775809", "--1", "-", "+1", "- 1",
        "18446744073709551615", "-0x8000000000000001"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++)
        CHECK(i64_refuses(bad[i]));
    CHECK_INT(dz_num_i64(DZ_STR("-11"), -10, 10, &v, &e), DZ_EINVAL);
    CHECK_STR(e.msg, "\"-11\" is out of range: expected an integer from -10 to 10");
    CHECK_INT(dz_num_i64(DZ_STR("-10"), -10, 10, &v, NULL), 0);
    CHECK_INT(v, -10);
}

TEST(num_double_reads_its_grammar_only)
{
    static const struct {
        const char *s;
        double v;
    } good[] = {{"0", 0},      {"-12", -12},    {"0.5", 0.5},   {".5", 0.5},
                {"5.", 5},     {"1e3", 1000},   {"1E-2", 0.01}, {"2.5e+1", 25},
                {"-.5e1", -5}, {"1e-400", 0.0}, {"0009", 9}};
    static const char *const bad[] = {"",   ".",  "-",   "+1",  "1e",    "1e+", "inf",   "nan",
                                      " 1", "1 ", "0x1", "1,5", "1.2.3", "e5",  "1e999", "-1e999"};
    double v = 7;
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++)
        CHECK_INT(dz_num_double(dz_str(bad[i]), -HUGE_VAL, HUGE_VAL, &v, NULL), DZ_EINVAL);
    CHECK(v == 7);
    for (size_t i = 0; i < DZ_ARRAY_LEN(good); i++)
        CHECK(dz_num_double(dz_str(good[i].s), -1e9, 1e9, &v, NULL) == 0 && v == good[i].v);
    CHECK_INT(dz_num_double(DZ_STR("1.01"), 0, 1, &v, NULL), DZ_EINVAL);
    char many[DZ_NUM_TEXT_MAX + 2];
    memset(many, '1', sizeof many);
    CHECK_INT(dz_num_double(dz_str_n(many, DZ_NUM_TEXT_MAX + 1), 0, 1e300, &v, NULL), DZ_EINVAL);
    CHECK_INT(dz_num_double(dz_str_n(many, DZ_NUM_TEXT_MAX), 0, 1e300, &v, NULL), 0);
}

static int64_t duration(const char *s)
{
    int64_t ms = -1000;
    int rc = dz_duration_parse(dz_str(s), 0, INT64_MAX, &ms, NULL);
    return rc < 0 ? rc : ms;
}

TEST(duration_reads_units_and_sums)
{
    CHECK_INT(duration("1500ms"), 1500);
    CHECK_INT(duration("90s"), 90000);
    CHECK_INT(duration("15m"), 900000);
    CHECK_INT(duration("24h"), 86400000);
    CHECK_INT(duration("7d"), 604800000);
    CHECK_INT(duration("1h30m"), 5400000);
    CHECK_INT(duration("1d2h3m4s5ms"), 93784005);
    CHECK_INT(duration("90"), 90000);
    CHECK_INT(duration("0"), 0);
    CHECK_INT(duration("9223372036854775807ms"), INT64_MAX);
    CHECK_INT(duration("9223372036854775s807ms"), INT64_MAX);
}

TEST(duration_refuses_the_rest)
{
    static const char *const bad[] = {"",
                                      "m",
                                      "-1s",
                                      "+1s",
                                      "1.5h",
                                      "1 h",
                                      " 1h",
                                      "1h ",
                                      "1x",
                                      "1hs",
                                      "1h1",
                                      "1m1h",
                                      "1h1h",
                                      "1s1d",
                                      "1H",
                                      "0x10s",
                                      "1h-1m",
                                      "1h30m ",
                                      "1ms1ms",
                                      "1hh",
                                      "9223372036854775808ms",
                                      "106751991168d",
                                      "99999999999999999999",
                                      "18446744073709551616ms"};
    int64_t ms = 3;
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++)
        CHECK_INT(dz_duration_parse(dz_str(bad[i]), 0, INT64_MAX, &ms, NULL), DZ_EINVAL);
    CHECK_INT(ms, 3);
}

TEST(duration_errors_say_what_is_expected)
{
    struct dz_err e = {0};
    int64_t ms = 0;
    CHECK_INT(dz_duration_parse(DZ_STR("8d"), 1000, 604800000, &ms, &e), DZ_EINVAL);
    CHECK_STR(e.msg, "\"8d\" is out of range: expected a duration from 1s to 7d");
    CHECK_INT(dz_duration_parse(DZ_STR("soon"), 0, 9, &ms, &e), DZ_EINVAL);
    CHECK_STR(e.msg, "\"soon\" is not a duration: expected seconds or text like 1500ms, 90s, 15m, "
                     "1h30m, 7d");
}

TEST(duration_prints_what_it_reads)
{
    static const int64_t values[] = {1,        999,      1000,      1500,     59999,
                                     60000,    90000,    3600000,   5400000,  86399999,
                                     86400000, 93784005, 604800000, INT64_MAX};
    char out[DZ_DURATION_TEXT];
    for (size_t i = 0; i < DZ_ARRAY_LEN(values); i++)
        CHECK_INT(duration(dz_duration_print(values[i], out)), values[i]);
    CHECK_STR(dz_duration_print(0, out), "0s");
    CHECK_STR(dz_duration_print(5400000, out), "1h30m");
    CHECK_STR(dz_duration_print(1500, out), "1s500ms");
    CHECK_STR(dz_duration_print(-1500, out), "-1s500ms");
    CHECK_STR(dz_duration_print(INT64_MIN, out), "-106751991167d7h12m55s808ms");
}

static uint64_t size_of(const char *s) /* the bytes, or a number no row below has */
{
    uint64_t v = 0;
    return dz_size_parse(dz_str(s), 0, UINT64_MAX, &v, NULL) < 0 ? 0xbadbad : v;
}

TEST(size_reads_decimal_and_binary_units)
{
    CHECK(size_of("0") == 0 && size_of("1234") == 1234 && size_of("12B") == 12);
    CHECK(size_of("4KiB") == 4096 && size_of("4kB") == 4000 && size_of("4KB") == 4000);
    CHECK(size_of("64MB") == 64000000 && size_of("64MiB") == 64ull << 20);
    CHECK(size_of("4GB") == 4000000000 && size_of("4GiB") == 4ull << 30);
    CHECK(size_of("2TB") == 2000000000000 && size_of("2TiB") == 2ull << 40);
    CHECK(size_of("2PB") == 2000000000000000 && size_of("2PiB") == 2ull << 50);
    CHECK(size_of("18EB") == 18000000000000000000ull && size_of("15EiB") == 15ull << 60);
    CHECK(size_of("18446744073709551615") == UINT64_MAX);
}

TEST(size_refuses_the_rest)
{
    static const char *const bad[] = {
        "",      "MB",  "-1",   "+1MB", "1.5GB",  "1 MB", " 1MB", "1MB ",  "1M",
        "1Mb",   "1mb", "1kib", "1MB1", "1MB2KB", "0x10", "1KKB", "1GiBs", "18446744073709551616",
        "16EiB", "19EB"};
    uint64_t v = 3;
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++)
        CHECK_INT(dz_size_parse(dz_str(bad[i]), 0, UINT64_MAX, &v, NULL), DZ_EINVAL);
    CHECK_INT(v, 3);
}

TEST(size_prints_what_it_reads)
{
    static const uint64_t values[] = {0,       1,          1000,      1024,       1234,
                                      4096000, 64000000,   1 << 20,   3ull << 30, 1000000000000,
                                      1025,    UINT64_MAX, 1ull << 63};
    char out[DZ_SIZE_TEXT];
    struct dz_err e = {0};
    uint64_t v = 0;
    for (size_t i = 0; i < DZ_ARRAY_LEN(values); i++)
        CHECK(size_of(dz_size_print(values[i], out)) == values[i]);
    CHECK_STR(dz_size_print(4096, out), "4KiB");
    CHECK_STR(dz_size_print(64000000, out), "64MB");
    CHECK_STR(dz_size_print(0, out), "0B");
    CHECK_STR(dz_size_print(1000, out), "1kB");
    CHECK_STR(dz_size_print(UINT64_MAX, out), "18446744073709551615B");
    CHECK_INT(dz_size_parse(DZ_STR("5GB"), 1 << 20, 1000000000, &v, &e), DZ_EINVAL);
    CHECK_STR(e.msg, "\"5GB\" is out of range: expected a size from 1MiB to 1GB");
}

/* SPDX-License-Identifier: MIT */
#include "base/id.h"

#include "base/clock.h"
#include "tap.h"

TEST(id_has_prefix_and_twenty_characters)
{
    char id[DZ_ID_TEXT];
    int64_t ms = 0, now = dz_clock_real_ms();
    CHECK_INT(dz_id_new("sbx", id, NULL), 0);
    CHECK_INT(strlen(id), 24);
    CHECK(strncmp(id, "sbx_", 4) == 0);
    CHECK_INT(strspn(id + 4, "0123456789abcdefghjkmnpqrstvwxyz"), 20);
    CHECK_INT(dz_id_parse(dz_str(id), "sbx", &ms, NULL), 0);
    CHECK(ms >= now && ms <= dz_clock_real_ms());
    CHECK_INT(dz_id_new("abcdefgh", id, NULL), 0);
    CHECK_INT(strlen(id), DZ_ID_TEXT - 1);
    CHECK_INT(dz_id_parse(dz_str(id), "abcdefgh", NULL, NULL), 0);
}

TEST(id_sorts_by_time)
{
    static const int64_t times[] = {
        0, 1, 31, 32, 1023, 1024, 1700000000000, 1700000000001, (1LL << 47), (1LL << 48) - 1};
    struct dz_clock_test t = {0};
    char last[DZ_ID_TEXT] = "", id[DZ_ID_TEXT];
    dz_clock_use(&t);
    for (size_t i = 0; i < DZ_ARRAY_LEN(times); i++) {
        int64_t ms = -1;
        if (times[i] > INT64_MAX / DZ_NS_PER_MS)
            break; /* later than a clock in nanoseconds can be */
        dz_clock_set_real(&t, times[i] * DZ_NS_PER_MS);
        CHECK_INT(dz_id_new("exe", id, NULL), 0);
        CHECK(strcmp(last, id) < 0);
        CHECK_INT(dz_id_parse(dz_str(id), "exe", &ms, NULL), 0);
        CHECK_INT(ms, times[i]);
        memcpy(last, id, sizeof last);
    }
    dz_clock_set_real(&t, -5);
    CHECK_INT(dz_id_new("exe", id, NULL), 0);
    CHECK(strncmp(id, "exe_000000000", 13) == 0);
    dz_clock_use(NULL);
}

TEST(id_is_random_within_a_millisecond)
{
    static char ids[1000][DZ_ID_TEXT];
    struct dz_clock_test t = {0};
    unsigned seen[20] = {0}; /* which characters each place had, as bits of 5-bit sums */
    dz_clock_use(&t);
    for (size_t i = 0; i < 1000; i++) {
        CHECK_INT(dz_id_new("x", ids[i], NULL), 0);
        for (size_t k = 0; k < 20; k++)
            seen[k] |= 1u << (ids[i][2 + k] & 31);
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(ids[i], ids[k]) != 0);
    }
    dz_clock_use(NULL);
    for (size_t k = 0; k < 9; k++)
        CHECK_INT(ids[0][2 + k], '0'); /* time zero */
    for (size_t k = 10; k < 20; k++)
        CHECK(__builtin_popcount(seen[k]) > 16);
}

TEST(id_parse_refuses_the_rest)
{
    static const char *const bad[] = {"",
                                      "sbx",
                                      "sbx_",
                                      "sbx_0123456789abcdefgh",
                                      "sbx_0123456789abcdefghjkm",
                                      "img_0123456789abcdefghjk",
                                      "sbx_0123456789ABCDEFGHJK",
                                      "sbx_0123456789abcdefghij",
                                      "sbx-0123456789abcdefghjk",
                                      "sbx_0123456789abcdefgh/k",
                                      " sbx_0123456789abcdefghjk"};
    struct dz_err e = {0};
    int64_t ms = 3;
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++)
        CHECK_INT(dz_id_parse(dz_str(bad[i]), "sbx", &ms, NULL), DZ_EINVAL);
    CHECK_INT(dz_id_parse(dz_str_n("sbx_0123456789abcdefgh\0k", 24), "sbx", &ms, NULL), DZ_EINVAL);
    CHECK_INT(ms, 3);
    CHECK_INT(dz_id_parse(DZ_STR("nope"), "sbx", NULL, &e), DZ_EINVAL);
    CHECK_STR(e.msg, "\"nope\" is not an id: expected sbx_ and 20 characters of 0-9a-z without "
                     "i, l, o, u");
    CHECK_INT(dz_id_parse(DZ_STR("sbx_0123456789abcdefghjk"), "sbx", NULL, NULL), 0);
}

TEST(random_fills_all_and_only_what_it_should)
{
    unsigned char a[1000] = {0}, b[1000] = {0};
    unsigned differ = 0;
    CHECK_INT(dz_random(a, sizeof a - 1, NULL), 0);
    CHECK_INT(dz_random(b, sizeof b - 1, NULL), 0);
    for (size_t i = 0; i < sizeof a; i++)
        differ += a[i] != b[i];
    CHECK(differ > 900);
    CHECK(a[999] == 0 && b[999] == 0);
    CHECK_INT(dz_random(a, 0, NULL), 0);
}

TEST(random_reports_a_bad_address)
{
    struct dz_err e = {0};
    CHECK(dz_random((void *)16, 8, &e) < 0); /* NOLINT: the kernel, not we, writes there */
    CHECK(strstr(e.msg, "get 8 random bytes from the kernel: Bad address") != NULL);
}

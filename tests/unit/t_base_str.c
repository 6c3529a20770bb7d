/* SPDX-License-Identifier: MIT */
#include "base/str.h"

#include "tap.h"

TEST(str_compares_by_byte_and_length)
{
    CHECK(dz_str_eq(DZ_STR("a\0b"), dz_str_n("a\0b", 3)));
    CHECK(!dz_str_eq(DZ_STR("ab"), DZ_STR("abc")));
    CHECK(dz_str_eq(dz_str(NULL), DZ_STR("")));
    CHECK(dz_str_eqz(DZ_STR("abc"), "abc"));
    CHECK(dz_str_cmp(DZ_STR("ab"), DZ_STR("abc")) < 0);
    CHECK(dz_str_cmp(DZ_STR("b"), DZ_STR("abc")) > 0);
    CHECK(dz_str_cmp(DZ_STR("\xff"), DZ_STR("a")) > 0);
    CHECK_INT(dz_str_cmp(DZ_STR(""), dz_str(NULL)), 0);
}

TEST(str_knows_prefix_and_suffix)
{
    struct dz_str s = DZ_STR("sbx_123");
    CHECK(dz_str_starts(s, DZ_STR("sbx_")) && dz_str_starts(s, DZ_STR("")));
    CHECK(!dz_str_starts(DZ_STR("sb"), DZ_STR("sbx_")));
    CHECK(dz_str_ends(s, DZ_STR("23")) && dz_str_ends(s, s) && dz_str_ends(s, DZ_STR("")));
    CHECK(!dz_str_ends(DZ_STR("3"), DZ_STR("23")));
    CHECK(dz_str_eat(&s, DZ_STR("sbx_")));
    CHECK(dz_str_eqz(s, "123"));
    CHECK(!dz_str_eat(&s, DZ_STR("sbx_")));
    CHECK(dz_str_eqz(s, "123"));
}

TEST(str_finds)
{
    struct dz_str s = DZ_STR("one/two/three");
    CHECK_INT(dz_str_find(s, DZ_STR("two")), 4);
    CHECK_INT(dz_str_find(s, DZ_STR("")), 0);
    CHECK(dz_str_find(s, DZ_STR("four")) == DZ_STR_NONE);
    CHECK(dz_str_find(DZ_STR("t"), DZ_STR("two")) == DZ_STR_NONE);
    CHECK_INT(dz_str_find_char(s, '/'), 3);
    CHECK_INT(dz_str_rfind_char(s, '/'), 7);
    CHECK(dz_str_find_char(dz_str(NULL), '/') == DZ_STR_NONE);
    CHECK(dz_str_rfind_char(dz_str(NULL), '/') == DZ_STR_NONE);
}

TEST(str_sub_is_clamped)
{
    struct dz_str s = DZ_STR("hello");
    CHECK(dz_str_eqz(dz_str_sub(s, 1, 3), "ell"));
    CHECK(dz_str_eqz(dz_str_sub(s, 3, SIZE_MAX), "lo"));
    CHECK_INT(dz_str_sub(s, SIZE_MAX, 1).n, 0);
    CHECK(dz_str_sub(dz_str(NULL), 2, 2).p == NULL);
}

TEST(str_trims_both_ends)
{
    CHECK(dz_str_eqz(dz_str_trim(DZ_STR(" \t a b\r\n")), "a b"));
    CHECK_INT(dz_str_trim(DZ_STR(" \v\f ")).n, 0);
    CHECK_INT(dz_str_trim(dz_str(NULL)).n, 0);
}

TEST(str_splits_with_empty_parts)
{
    struct dz_str rest = DZ_STR("a,,b,"), part;
    const char *want[] = {"a", "", "b", ""};
    size_t n = 0;
    while (dz_str_split(&rest, ',', &part)) {
        CHECK(n < 4 && dz_str_eqz(part, want[n]));
        n++;
    }
    CHECK_INT(n, 4);

    rest = DZ_STR("");
    CHECK(dz_str_split(&rest, ',', &part) && part.n == 0);
    CHECK(!dz_str_split(&rest, ',', &part));
}

TORTURE(str_dup_terminates_or_says_no)
{
    DZ_AUTO(dz_freep) char *a = dz_str_dup(dz_str_n("hello", 4));
    DZ_AUTO(dz_freep) char *b = dz_str_dup(dz_str(NULL));
    CHECK(!a || strcmp(a, "hell") == 0);
    CHECK(!b || strcmp(b, "") == 0);
}

TEST(str_quotes_what_cannot_be_shown)
{
    char out[DZ_STR_QUOTED], long_text[200];
    CHECK_STR(dz_str_quote(DZ_STR("plain"), out), "\"plain\"");
    CHECK_STR(dz_str_quote(DZ_STR("a\"b\\c\nd\0e\xff"), out), "\"a\\\"b\\\\c\\nd\\x00e\\xff\"");
    CHECK_STR(dz_str_quote(dz_str(NULL), out), "\"\"");
    memset(long_text, 'x', sizeof long_text);
    for (size_t n = 60; n < 80; n++) {
        (void)dz_str_quote(dz_str_n(long_text, n), out);
        CHECK(strlen(out) < sizeof out);
        CHECK_INT(strlen(out), n <= 66 ? n + 2 : 71);
        CHECK(dz_str_ends(dz_str(out), n <= 66 ? DZ_STR("x\"") : DZ_STR("x\"...")));
    }
    memset(long_text, 1, sizeof long_text); /* four characters each */
    CHECK(strlen(dz_str_quote(dz_str_n(long_text, 200), out)) < sizeof out);
}

TEST(utf8_takes_exactly_rfc_3629)
{
    static const struct {
        struct dz_str s;
        size_t len;
    } rows[] = {
        {DZ_STR_INIT(""), 0},
        {DZ_STR_INIT("a"), 1},
        {DZ_STR_INIT("\0"), 1},
        {DZ_STR_INIT("\x7f"), 1},
        {DZ_STR_INIT("\x80"), 0},
        {DZ_STR_INIT("\xc1\xbf"), 0},
        {DZ_STR_INIT("\xc2\x80"), 2},
        {DZ_STR_INIT("\xdf\xbf"), 2},
        {DZ_STR_INIT("\xc2"), 0},
        {DZ_STR_INIT("\xc2\x41"), 0},
        {DZ_STR_INIT("\xe0\x9f\xbf"), 0},
        {DZ_STR_INIT("\xe0\xa0\x80"), 3},
        {DZ_STR_INIT("\xed\x9f\xbf"), 3},
        {DZ_STR_INIT("\xed\xa0\x80"), 0},
        {DZ_STR_INIT("\xef\xbf\xbf"), 3},
        {DZ_STR_INIT("\xef\xbf"), 0},
        {DZ_STR_INIT("\xe1\x80\x41"), 0},
        {DZ_STR_INIT("\xf0\x8f\xbf\xbf"), 0},
        {DZ_STR_INIT("\xf0\x90\x80\x80"), 4},
        {DZ_STR_INIT("\xf4\x8f\xbf\xbf"), 4},
        {DZ_STR_INIT("\xf4\x90\x80\x80"), 0},
        {DZ_STR_INIT("\xf5\x80\x80\x80"), 0},
        {DZ_STR_INIT("\xf1\x80\x80\x41"), 0},
        {DZ_STR_INIT("\xff"), 0},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(rows); i++) {
        CHECK_INT(dz_utf8_len(rows[i].s.p, rows[i].s.n), rows[i].len);
        CHECK_INT(dz_str_is_utf8(rows[i].s), rows[i].s.n == rows[i].len);
    }
    CHECK(dz_str_is_utf8(DZ_STR("na\xc3\xafve \xf0\x9f\x98\xb4")));
    CHECK(!dz_str_is_utf8(DZ_STR("ok then \xc3")));
}

static unsigned distance(const char *a, const char *b, unsigned max)
{
    unsigned d = dz_str_distance(dz_str(a), dz_str(b), max);
    CHECK_INT(dz_str_distance(dz_str(b), dz_str(a), max), d);
    return d;
}

TEST(utf8_shown_steers_no_terminal)
{
    CHECK_INT(dz_utf8_shown(" ", 1), 1);
    CHECK_INT(dz_utf8_shown("\x1f", 1), 0);
    CHECK_INT(dz_utf8_shown("\x7f", 1), 0);
    CHECK_INT(dz_utf8_shown("\xc2\x80", 2), 0);
    CHECK_INT(dz_utf8_shown("\xc2\x9f", 2), 0);
    CHECK_INT(dz_utf8_shown("\xc2\xa0", 2), 2);
    CHECK_INT(dz_utf8_shown("\xc3\x9f", 2), 2);
    CHECK_INT(dz_utf8_shown("\xc3", 1), 0);
    char text[] = "\n\xc3\xa9\xc2\x9b\xff.";
    dz_str_plain(text);
    CHECK_STR(text, "?\xc3\xa9???.");
}

TEST(str_distance_counts_edits)
{
    char big[DZ_STR_DISTANCE_MAX + 2] = {0};
    CHECK_INT(distance("", "", 9), 0);
    CHECK_INT(distance("", "abc", 9), 3);
    CHECK_INT(distance("kitten", "sitting", 9), 3);
    CHECK_INT(distance("creaet", "create", 9), 1);
    CHECK_INT(distance("ca", "abc", 9), 3); /* 2 without the restriction */
    CHECK_INT(distance("kitten", "sitting", 2), 3);
    CHECK_INT(distance("abcdef", "uvwxyz", 2), 3);
    memset(big, 'a', sizeof big - 1);
    CHECK_INT(distance(big, big, 5), 6);
    CHECK_INT(distance(big + 1, big + 1, 5), 0);
}

TEST(str_nearest_suggests_only_near_names)
{
    static const char *const names[] = {"create", "exec", "list", "help", "delete"};
    CHECK_INT(dz_str_nearest(DZ_STR("creat"), names, 5), 0);
    CHECK_INT(dz_str_nearest(DZ_STR("lsit"), names, 5), 2);
    CHECK_INT(dz_str_nearest(DZ_STR("help"), names, 5), 3);
    CHECK_INT(dz_str_nearest(DZ_STR("delate"), names, 5), 4);
    CHECK(dz_str_nearest(DZ_STR("freeze"), names, 5) == DZ_STR_NONE);
    static const char *const twins[] = {"zz", "ab", "ac", "aa"};
    CHECK_INT(dz_str_nearest(DZ_STR("ad"), twins, 4), 1); /* the first of equals */
    CHECK_INT(dz_str_nearest(DZ_STR("aa"), twins, 4), 3); /* a nearer one though later */
    CHECK(dz_str_nearest(DZ_STR("xy"), names, 0) == DZ_STR_NONE);
}

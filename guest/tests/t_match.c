/* SPDX-License-Identifier: MIT
 * Patterns: fnmatch and glob, regular expressions. */
#include "check.h"

#include <fnmatch.h>
#include <glob.h>
#include <regex.h>

static int match(const char *pattern, const char *s, int flags)
{
    return fnmatch(pattern, s, flags) == 0;
}

TEST(stars_and_question_marks)
{
    CHECK(match("*", "", 0) && match("*", "abc", 0) && match("a*c", "abbc", 0));
    CHECK(match("?b?", "abc", 0) && !match("?", "", 0) && !match("??", "a", 0));
    CHECK(match("*a*b*c*", "xaybzc", 0) && !match("*a*b*c*", "xcybza", 0));
    CHECK(match("a**b", "ab", 0) && match("*.tar.*", "x.tar.tar.gz", 0));
    CHECK(!match("abc", "ab", 0) && !match("ab", "abc", 0) && match("", "", 0));
    CHECK(match("*aaaaaaaaaaaaaaaab", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", 0));
}

TEST(brackets)
{
    CHECK(match("[abc]", "b", 0) && !match("[abc]", "d", 0) && match("[!abc]", "d", 0));
    CHECK(match("[^abc]", "d", 0) && !match("[!abc]", "a", 0) && !match("[a]", "", 0));
    CHECK(match("[a-c]x", "bx", 0) && !match("[a-c]", "-", 0) && match("[-a]", "-", 0));
    CHECK(match("[a-]", "-", 0) && match("[]]", "]", 0) && match("[!]]", "a", 0));
    CHECK(match("[]-]", "-", 0) && match("[[:digit:]x]", "7", 0) && !match("[[:alpha:]]", "7", 0));
    CHECK(match("[[:upper:][:digit:]]*", "A1", 0) && match("[![:space:]]", "x", 0));
    CHECK(match("[a\\-c]", "-", 0) && !match("[a\\-c]", "b", 0) && match("[a\\]]", "]", 0));
    CHECK(match("[\\!a]", "!", 0) && match("[\\\\]", "\\", 0));
    CHECK(match("[", "[", 0) && match("[a", "[a", 0) && match("a[", "a[", 0));
    CHECK(match("[[.-.]-/]", ".", 0) && match("[[=a=]]", "a", 0));
}

TEST(quoting_and_flags)
{
    CHECK(match("\\*", "*", 0) && !match("\\*", "a", 0) && match("\\a", "a", 0));
    CHECK(match("\\*", "\\x", FNM_NOESCAPE) && !match("\\*", "*", FNM_NOESCAPE));
    CHECK(match("*", "a/b", 0) && !match("*", "a/b", FNM_PATHNAME));
    CHECK(match("*/*", "a/b", FNM_PATHNAME) && !match("a?b", "a/b", FNM_PATHNAME));
    CHECK(!match("a[/]b", "a/b", FNM_PATHNAME) && match("a[/]b", "a/b", 0));
    CHECK(!match("*", ".a", FNM_PERIOD) && match(".*", ".a", FNM_PERIOD));
    CHECK(!match("?a", ".a", FNM_PERIOD) && !match("[.]a", ".a", FNM_PERIOD));
    CHECK(match("*a", "x.a", FNM_PERIOD) && match("a/*", "a/.b", FNM_PERIOD));
    CHECK(!match("a/*", "a/.b", FNM_PERIOD | FNM_PATHNAME));
    CHECK(match("ABC", "aBc", FNM_CASEFOLD) && match("[a-c]", "B", FNM_CASEFOLD));
    CHECK(match("a", "a/b", FNM_LEADING_DIR) && !match("a", "ab", FNM_LEADING_DIR));
}

TEST(globbing)
{
    glob_t g;
    write_file("b.c", "");
    write_file("a.c", "");
    write_file(".h", "");
    CHECK_INT(mkdir("d", 0755), 0);
    write_file("d/x.c", "");
    CHECK_INT(glob("*.c", 0, NULL, &g), 0);
    CHECK_INT(g.gl_pathc, 2);
    CHECK_STR(g.gl_pathv[0], "a.c");
    CHECK_STR(g.gl_pathv[1], "b.c");
    globfree(&g);
    CHECK_INT(glob("*/?.c", GLOB_MARK, NULL, &g), 0);
    CHECK_INT(g.gl_pathc, 1);
    CHECK_STR(g.gl_pathv[0], "d/x.c");
    globfree(&g);
    CHECK_INT(glob("*.none", 0, NULL, &g), GLOB_NOMATCH);
    CHECK_INT(glob("*.none", GLOB_NOCHECK, NULL, &g), 0);
    CHECK_STR(g.gl_pathv[0], "*.none");
    globfree(&g);
    CHECK_INT(glob("d", GLOB_MARK, NULL, &g), 0);
    CHECK_STR(g.gl_pathv[0], "d/");
    globfree(&g);
}

TEST(regular_expressions)
{
    regex_t re;
    regmatch_t m[3];
    char why[64];
    CHECK_INT(regcomp(&re, "^(a+)b([0-9]{2,3})$", REG_EXTENDED), 0);
    CHECK_INT(regexec(&re, "aab123", 3, m, 0), 0);
    CHECK(m[1].rm_so == 0 && m[1].rm_eo == 2 && m[2].rm_so == 3 && m[2].rm_eo == 6);
    CHECK_INT(regexec(&re, "b123", 0, NULL, 0), REG_NOMATCH);
    regfree(&re);
    CHECK_INT(regcomp(&re, "x\\(y\\)\\1", 0), 0);
    CHECK_INT(regexec(&re, "axyy", 2, m, 0), 0);
    CHECK_INT(m[0].rm_so, 1);
    regfree(&re);
    int e = regcomp(&re, "(", REG_EXTENDED);
    CHECK(e != 0 && regerror(e, &re, why, sizeof why) > 1);
}

/* SPDX-License-Identifier: MIT */
#include "tap.h"

#include "image/image_int.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static struct dz_recipe r;

static int parse(const char *text, struct dz_err *err)
{
    return dz_recipe_parse("dir/r.ini", dz_str(text), &r, err);
}

TEST(what_it_says_is_what_is_done_in_its_order)
{
    struct dz_err err = {0};
    CHECK_INT(parse("[image]\nname = a:1\nfrom = base\nentry = /bin/sh  -l\nmemory = 32MiB\n"
                    "policy = posix\nworkdir = /w\nuser = user\n"
                    "contains = debian lua 5.4 MIT OR X\n"
                    "[env]\nA = b c ; not this\n"
                    "[dir /d]\nmode = 0700\nowner = 5:6\n"
                    "[file /f]\ntext = one\ntext = two\n"
                    "[link /l]\ntarget = f\n"
                    "[tar /t]\nsource = a.tgz\nsha256 = " HASH "\ncopy = x/ /y/\ncopy = z /\n"
                    "[c /bin/c]\nsource = a.c /b.c\nflags = -O2\n"
                    "[crate thing]\nversion = 1.0.0\nsha256 = " HASH "\nbuild = b.sh\npath = /p\n"
                    "[remove /gone]",
                    &err),
              0);
    CHECK_STR(r.name, "a:1");
    CHECK_STR(r.from, "base");
    CHECK_STR(r.config.entry[1], "-l");
    CHECK(r.config.entry[2] == NULL);
    CHECK_INT(r.config.memory_bytes, 32 << 20);
    CHECK_STR(r.config.env[0], "A=b c");
    CHECK_INT(r.config.package_count, 1);
    CHECK_STR(r.config.packages[0].kind, "debian");
    CHECK_STR(r.config.packages[0].license, "MIT OR X");
    CHECK_INT(r.step_count, 7);
    CHECK_INT(r.steps[0].kind, DZ_STEP_DIR);
    CHECK_INT(r.steps[0].mode, 0700);
    CHECK_INT(r.steps[0].uid * 10 + r.steps[0].gid, 56);
    CHECK_INT(r.steps[0].line, 12);
    CHECK_STR(r.steps[1].text, "one\ntwo\n");
    CHECK_STR(r.steps[2].text, "f");
    CHECK_STR(r.steps[3].source, "dir/a.tgz");
    CHECK_INT(r.steps[3].copy_count, 2);
    CHECK_STR(r.steps[3].copies[1].from, "z");
    CHECK_STR(r.steps[4].source, "dir/a.c /b.c");
    CHECK_STR(r.steps[5].build, "dir/b.sh");
    CHECK_STR(r.steps[5].path, "/p");
    CHECK_INT(r.steps[6].kind, DZ_STEP_REMOVE);
    dz_recipe_release(&r);
}

TEST(packages_of_debian_and_scripts)
{
    struct dz_err err = {0};
    CHECK_INT(parse("[image]\nkind = linux\n[apt l.lock]\npackage = a b=1:2\n c\n"
                    "exclude = /x/*\ninclude = /x/y\n[script s]\n",
                    &err),
              0);
    CHECK_INT(r.config.kind, DZ_IMAGE_LINUX);
    CHECK_INT(r.steps[0].kind, DZ_STEP_APT);
    CHECK_STR(r.steps[0].source, "dir/l.lock");
    CHECK_STR(r.steps[0].text, "a b=1:2\nc\n");
    CHECK_INT(r.steps[0].pattern_count, 2);
    CHECK(r.steps[0].patterns[0].exclude);
    CHECK_STR(r.steps[0].patterns[1].glob, "/x/y");
    CHECK(!r.steps[0].patterns[1].exclude);
    CHECK_INT(r.steps[1].kind, DZ_STEP_SCRIPT);
    CHECK_STR(r.steps[1].build, "dir/s");
    CHECK_INT(dz_recipe_confined(&r, &err), DZ_EDENIED);
    dz_recipe_release(&r);
}

TEST(an_indented_line_goes_on_and_an_indented_head_begins)
{
    struct dz_err err = {0};
    CHECK_INT(parse("[file /f]\ntext = a\n  b\n  [dir /d]\n\n", &err), 0);
    CHECK_INT(r.step_count, 2);
    CHECK_STR(r.steps[0].text, "a\nb\n");
    CHECK_STR(r.steps[1].path, "/d");
    dz_recipe_release(&r);
}

static void refused(int line, const char *why, const char *text)
{
    struct dz_err err = {0};
    char where[32];
    (void)snprintf(where, sizeof where, "dir/r.ini:%d: ", line);
    CHECK_INT(parse(text, &err), DZ_EINVAL);
    if (strncmp(err.msg, where, strlen(where)) != 0 || !strstr(err.msg, why))
        printf("# %s: %s\n", where, err.msg);
    CHECK(strncmp(err.msg, where, strlen(where)) == 0);
    CHECK(strstr(err.msg, why) != NULL);
}

TEST(what_is_wrong_is_told_with_its_line)
{
    refused(1, "no section", "");
    refused(1, "no section", "; nothing\n");
    refused(1, "does not end in ]", "[image\n");
    refused(1, "unknown section", "[x y]\n");
    refused(1, "no name", "[dir]\n");
    refused(2, "unknown key", "[image]\ncolour = x\n");
    refused(2, "not supported", "[image]\nservices = x\n");
    refused(3, "twice", "[image]\nname = a\nname = b\n");
    refused(2, "no value", "[image]\nname =\n");
    refused(2, "1MiB to 4GiB", "[image]\nmemory = 1\n");
    refused(2, "policy: must be", "[image]\npolicy = x\n");
    refused(2, "must begin with /", "[image]\nworkdir = x\n");
    refused(2, "contains requires", "[image]\ncontains = debian lua 5.4\n");
    refused(2, "contains requires", "[image]\ncontains = -x lua 5.4 MIT\n");
    refused(2, "a name", "[env]\n= x\n");
    refused(1, "target", "[link /l]\n");
    refused(1, "source is missing", "[tree /t]\n");
    refused(1, "either source or text", "[file /f]\nmode = 1\n");
    refused(1, "either source or text", "[file /f]\nsource = a\ntext = b\n");
    refused(2, "octal", "[dir /d]\nmode = 8\n");
    refused(2, "UID", "[dir /d]\nowner = root\n");
    refused(1, "mode requires copy", "[tar /t]\nsource = a\nmode = 0755\n");
    refused(2, "copy requires", "[tar /t]\ncopy = a b\n");
    refused(2, "64 hexadecimal", "[tar /t]\nsha256 = 12\n");
    refused(2, "has no key text", "[dir /t]\ntext = 12\n");
    refused(2, "wasm or linux", "[image]\nkind = x\n");
    refused(3, "twice", "[image]\nkind = wasm\nkind = wasm\n");
    refused(1, "package is missing", "[apt l]\n");
    refused(2, "not the name of a package", "[apt l]\npackage = a -x\n");
    refused(2, "not the name of a package", "[apt l]\npackage = ~nx\n");
    refused(2, "must begin with /", "[apt l]\nexclude = x\n");
    refused(2, "has no key owner", "[apt l]\nowner = 1\n");
    refused(3, "one [apt] section", "[apt l]\npackage = a\n[apt m]\n");
    refused(2, "has no keys", "[script s]\nmode = 1\n");
    refused(2, "expected a [section]", "[dir /t]\nwhat\n");
}

TEST(packages_have_names_versions_and_a_use)
{
    refused(1, "version is missing", "[npm a]\ncopy = / /\n");
    refused(1, "sha256 is missing", "[pypi a]\nversion = 1\ncopy = / /\n");
    refused(1, "copy or build is missing", "[npm a]\nversion = 1\n");
    refused(1, "copy or build is missing", "[crate a]\nversion = 1\nsha256 = " HASH "\n");
    refused(1, "two sections", "[npm a]\nversion = 1\ncopy = / /\nbuild = b\npath = /p\n");
    refused(1, "path is missing", "[npm a]\nversion = 1\nbuild = b\n");
    refused(1, "build is missing", "[debian a]\nversion = 1\n");
    refused(1, "not the name of a package", "[npm -x]\n");
    refused(1, "not the name of a package", "[npm a b]\n");
    refused(1, "not the name of a package", "[crate a\"]\n");
    refused(2, "not the version", "[npm a]\nversion = -1\n");
    refused(2, "not the version", "[crate a]\nversion = 1\"\n");
}

TEST(lines_and_bytes_that_no_recipe_has)
{
    struct dz_err err = {0};
    static char text[1000];
    memset(text, 'x', 500);
    memcpy(text, "[image]\n", 8);
    refused(2, "are allowed", text);
    CHECK_INT(dz_recipe_parse("r", DZ_STR("[dir /a]\nmode = 07\0008\n"), &r, &err), DZ_EINVAL);
    CHECK(strstr(err.msg, "r:2: a NUL byte") != NULL);
    refused(2, "control", "[image]\nname = a\033b\n");
}

TEST(too_much_of_anything)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(1 << 20);
    for (int i = 0; i <= DZ_IMAGE_STEPS_MAX; i++)
        dz_buf_adds(&t, "[dir /d]\n");
    refused(DZ_IMAGE_STEPS_MAX + 1, "more than", t.p);
    dz_buf_reset(&t);
    dz_buf_adds(&t, "[tar /t]\nsource = a\n");
    for (int i = 0; i <= DZ_IMAGE_COPIES_MAX; i++)
        dz_buf_adds(&t, "copy = a /b\n");
    refused(DZ_IMAGE_COPIES_MAX + 3, "more than", t.p);
    dz_buf_reset(&t);
    dz_buf_adds(&t, "[env]\n");
    for (int i = 0; i <= DZ_IMAGE_WORDS_MAX; i++)
        dz_buf_adds(&t, "A = b\n");
    refused(DZ_IMAGE_WORDS_MAX + 2, "more than", t.p);
}

TORTURE(no_memory_is_said)
{
    struct dz_err err = {0};
    int rc = parse("[image]\nname = a\ncontains = a b c d\n[env]\nA = b\n"
                   "[tar /t]\nsource = a\ncopy = a /b\n",
                   &err);
    CHECK(rc == 0 || rc == DZ_ENOMEM);
    if (rc == 0)
        dz_recipe_release(&r);
}

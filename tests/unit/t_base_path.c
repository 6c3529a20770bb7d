/* SPDX-License-Identifier: MIT */
#include "base/path.h"

#include "tap.h"

static char out[DZ_PATH_MAX];

/* The path, or the error's number in words. */
static const char *resolve(const char *cwd, const char *path)
{
    int n = dz_path_resolve(dz_str(cwd), dz_str(path), out, NULL);
    if (n < 0)
        return dz_err_name(n);
    CHECK_INT(strlen(out), n);
    return out;
}

static const char *inside(const char *path)
{
    int n = dz_path_inside(dz_str(path), out, NULL);
    if (n < 0)
        return dz_err_name(n);
    CHECK_INT(strlen(out), n);
    return out;
}

TEST(path_resolve_normalises)
{
    CHECK_STR(resolve("/", "a"), "/a");
    CHECK_STR(resolve("/home", "a/b"), "/home/a/b");
    CHECK_STR(resolve("/home", "/a/b"), "/a/b");
    CHECK_STR(resolve("/home", ""), "/home");
    CHECK_STR(resolve("", ""), "/");
    CHECK_STR(resolve("home/", "./a"), "/home/a");
    CHECK_STR(resolve("/", "//a///b//"), "/a/b");
    CHECK_STR(resolve("/", "/a/./b/."), "/a/b");
    CHECK_STR(resolve("/", "/a/../b"), "/b");
    CHECK_STR(resolve("/a/b", "../../c"), "/c");
    CHECK_STR(resolve("/", ".../..a/a.."), "/.../..a/a..");
}

TEST(path_resolve_never_leaves_the_root)
{
    CHECK_STR(resolve("/", ".."), "/");
    CHECK_STR(resolve("/", "../../../etc"), "/etc");
    CHECK_STR(resolve("/a", "../../../../etc/.."), "/");
    CHECK_STR(resolve("../..", "x"), "/x");
}

TEST(path_inside_refuses_escapes)
{
    CHECK_STR(inside("a/b"), "a/b");
    CHECK_STR(inside("./a//b/"), "a/b");
    CHECK_STR(inside("a/../b"), "b");
    CHECK_STR(inside("."), "");
    CHECK_STR(inside(""), "");
    CHECK_STR(inside("a/.."), "");
    CHECK_STR(inside(".."), "INVAL");
    CHECK_STR(inside("a/../.."), "INVAL");
    CHECK_STR(inside("a/../../a"), "INVAL"); /* though it would come back */
    CHECK_STR(inside("/a"), "INVAL");
    CHECK_STR(inside("/"), "INVAL");
}

TEST(path_errors_say_why)
{
    struct dz_err e = {0};
    CHECK_INT(dz_path_inside(DZ_STR("../x"), out, &e), DZ_EINVAL);
    CHECK_STR(e.msg, "path \"../x\" leads out of its directory by \"..\"");
    CHECK_INT(dz_path_inside(DZ_STR("/x"), out, &e), DZ_EINVAL);
    CHECK_STR(e.msg, "path \"/x\" is absolute: expected a relative path");
    CHECK_INT(dz_path_inside(DZ_STR("a\0b"), out, &e), DZ_EINVAL);
    CHECK_STR(e.msg, "path \"a\\x00b\" has a NUL byte");
    CHECK_INT(dz_path_resolve(DZ_STR("/"), DZ_STR("a\0b"), out, &e), DZ_EINVAL);
    CHECK_INT(dz_path_resolve(DZ_STR("\0"), DZ_STR("a"), out, &e), DZ_EINVAL);
}

TEST(path_keeps_its_limits)
{
    static char text[3 * DZ_PATH_MAX];
    struct dz_err e = {0};
    memset(text, 'x', sizeof text);
    CHECK_INT(dz_path_inside(dz_str_n(text, DZ_NAME_MAX), out, &e), DZ_NAME_MAX);
    CHECK_INT(dz_path_inside(dz_str_n(text, DZ_NAME_MAX + 1), out, &e), DZ_ELIMIT);
    CHECK(strstr(e.msg, "is too long: expected at most 4095 bytes, 255 a name, 256 names"));
    for (size_t i = 1; i < sizeof text; i += 2)
        text[i] = '/';
    CHECK_INT(dz_path_inside(dz_str_n(text, 512), out, &e), 511); /* 256 names */
    CHECK_INT(dz_path_inside(dz_str_n(text, 513), out, &e), DZ_ELIMIT);
    CHECK_INT(dz_path_resolve(DZ_STR("/"), dz_str_n(text, 513), out, &e), DZ_ELIMIT);
    CHECK_INT(dz_path_resolve(dz_str_n(text, 513), DZ_STR("a"), out, &e), DZ_ELIMIT);
    CHECK_INT(dz_path_resolve(dz_str_n(text, 513), DZ_STR("/a"), out, &e), 2);
    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < sizeof text; i += 128)
        text[i] = '/';
    CHECK_INT(dz_path_resolve(DZ_STR("/"), dz_str_n(text, DZ_PATH_MAX - 1), out, &e),
              DZ_PATH_MAX - 1);
    CHECK_INT(dz_path_resolve(DZ_STR("/"), dz_str_n(text, DZ_PATH_MAX), out, &e), DZ_ELIMIT);
    CHECK_INT(dz_path_resolve(DZ_STR("/"), dz_str_n(text, DZ_PATH_MAX + 1), out, &e), DZ_ELIMIT);
}

TEST(path_walks_components)
{
    struct dz_str rest = DZ_STR("//a/./bb//.."), name;
    const char *want[] = {"a", ".", "bb", ".."};
    size_t n = 0;
    while (dz_path_next(&rest, &name)) {
        CHECK(n < 4 && dz_str_eqz(name, want[n]));
        n++;
    }
    CHECK_INT(n, 4);
    rest = dz_str(NULL);
    CHECK(!dz_path_next(&rest, &name));
    rest = DZ_STR("///");
    CHECK(!dz_path_next(&rest, &name));
}

TEST(path_splits_name_and_parent)
{
    CHECK(dz_str_eqz(dz_path_name(DZ_STR("/a/b")), "b"));
    CHECK(dz_str_eqz(dz_path_name(DZ_STR("b")), "b"));
    CHECK(dz_str_eqz(dz_path_name(DZ_STR("/")), ""));
    CHECK(dz_str_eqz(dz_path_parent(DZ_STR("/a/b")), "/a"));
    CHECK(dz_str_eqz(dz_path_parent(DZ_STR("/a")), "/"));
    CHECK(dz_str_eqz(dz_path_parent(DZ_STR("/")), "/"));
    CHECK(dz_str_eqz(dz_path_parent(DZ_STR("a/b")), "a"));
    CHECK(dz_str_eqz(dz_path_parent(DZ_STR("a")), ""));
}

TEST(path_knows_what_is_under_what)
{
    CHECK(dz_path_is_under(DZ_STR("/a/b"), DZ_STR("/a")));
    CHECK(dz_path_is_under(DZ_STR("/a"), DZ_STR("/a")));
    CHECK(dz_path_is_under(DZ_STR("/a"), DZ_STR("/")));
    CHECK(dz_path_is_under(DZ_STR("/"), DZ_STR("/")));
    CHECK(!dz_path_is_under(DZ_STR("/ab"), DZ_STR("/a")));
    CHECK(!dz_path_is_under(DZ_STR("/"), DZ_STR("/a")));
    CHECK(dz_path_is_under(DZ_STR("a/b"), DZ_STR("")));
}

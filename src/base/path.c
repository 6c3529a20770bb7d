/* SPDX-License-Identifier: MIT
 *
 * path.c - paths as text.
 *
 * A path is built component by component in the caller's array. Invariants of
 * struct build: p[0..n) is normalised; every component has its slash before it
 * (so "" is the root and depth slashes are there); n < DZ_PATH_MAX: assert_build().
 */
#include "base/path.h"

#include <assert.h>

struct build {
    char *p;
    size_t n;
    unsigned depth;
};

static bool push(struct build *b, struct dz_str name)
{
    if (name.n > DZ_NAME_MAX || b->depth == DZ_PATH_DEPTH_MAX || name.n + 2 > DZ_PATH_MAX - b->n)
        return false;
    b->p[b->n++] = '/';
    memcpy(b->p + b->n, name.p, name.n);
    b->n += name.n;
    b->depth++;
    return true;
}

/* Take the last component off; false in the root. */
static bool pop(struct build *b)
{
    if (b->depth == 0)
        return false;
    while (b->p[--b->n] != '/')
        ;
    b->depth--;
    return true;
}

static void assert_build(const struct build *b)
{
    unsigned depth = 0;
    assert(b->n < DZ_PATH_MAX && (b->n == 0 || b->p[0] == '/'));
    for (size_t at = 0; DZ_CHECK_DEEP && at < b->n; depth++) {
        struct dz_str rest = dz_str_n(b->p + at + 1, b->n - at - 1), name = rest;
        name.n = dz_str_find_char(rest, '/');
        name = dz_str_sub(rest, 0, name.n);
        assert(name.n > 0 && name.n <= DZ_NAME_MAX);
        assert(!dz_str_eq(name, DZ_STR(".")) && !dz_str_eq(name, DZ_STR("..")));
        at += 1 + name.n;
    }
    assert(!DZ_CHECK_DEEP || depth == b->depth);
}

enum outcome {
    ALL_IN,
    TOO_LONG,
    LEFT_ROOT, /* a ".." in the root; not where clamp is set */
};

static enum outcome add_path(struct build *b, struct dz_str path, bool clamp)
{
    struct dz_str name;
    while (dz_path_next(&path, &name)) {
        if (dz_str_eq(name, DZ_STR(".")))
            continue;
        if (dz_str_eq(name, DZ_STR(".."))) {
            if (!pop(b) && !clamp)
                return LEFT_ROOT;
        } else if (!push(b, name)) {
            return TOO_LONG;
        }
    }
    assert_build(b);
    return ALL_IN;
}

static int fail_limit(struct dz_str path, struct dz_err *err)
{
    char text[DZ_STR_QUOTED];
    return dz_fail(err, DZ_ELIMIT,
                   "path %s is too long: expected at most %d bytes, %d a name, %d names",
                   dz_str_quote(path, text), DZ_PATH_MAX - 1, DZ_NAME_MAX, DZ_PATH_DEPTH_MAX);
}

static int refuse_nul(struct dz_str path, struct dz_err *err)
{
    char text[DZ_STR_QUOTED];
    return dz_str_find_char(path, '\0') == DZ_STR_NONE
               ? 0
               : dz_fail(err, DZ_EINVAL, "path %s has a NUL byte", dz_str_quote(path, text));
}

int dz_path_resolve(struct dz_str cwd, struct dz_str path, char out[static DZ_PATH_MAX],
                    struct dz_err *err)
{
    struct build b = {.p = out};

    int rc = refuse_nul(path, err);
    if (rc == 0)
        rc = refuse_nul(cwd, err);
    if (rc < 0)
        return rc;
    if (!dz_str_starts(path, DZ_STR("/")) && add_path(&b, cwd, true) != ALL_IN)
        return fail_limit(cwd, err);
    if (add_path(&b, path, true) != ALL_IN)
        return fail_limit(path, err);
    if (b.n == 0)
        out[b.n++] = '/';
    out[b.n] = '\0';
    return (int)b.n;
}

int dz_path_inside(struct dz_str path, char out[static DZ_PATH_MAX], struct dz_err *err)
{
    char text[DZ_STR_QUOTED];
    struct build b = {.p = out};

    int rc = refuse_nul(path, err);
    if (rc < 0)
        return rc;
    if (dz_str_starts(path, DZ_STR("/")))
        return dz_fail(err, DZ_EINVAL, "path %s is absolute: expected a relative path",
                       dz_str_quote(path, text));
    enum outcome how = add_path(&b, path, false);
    if (how == LEFT_ROOT)
        return dz_fail(err, DZ_EINVAL, "path %s leads out of its directory by \"..\"",
                       dz_str_quote(path, text));
    if (how == TOO_LONG)
        return fail_limit(path, err);
    if (b.n > 0)
        memmove(out, out + 1, --b.n); /* without the first slash */
    out[b.n] = '\0';
    return (int)b.n;
}

bool dz_path_next(struct dz_str *rest, struct dz_str *ret_name)
{
    size_t from = 0;
    while (from < rest->n && rest->p[from] == '/')
        from++;
    struct dz_str s = dz_str_sub(*rest, from, rest->n);
    if (s.n == 0)
        return false;
    size_t n = dz_str_find_char(s, '/');
    *ret_name = dz_str_sub(s, 0, n);
    *rest = dz_str_sub(s, ret_name->n, s.n);
    return true;
}

struct dz_str dz_path_name(struct dz_str path)
{
    size_t slash = dz_str_rfind_char(path, '/');
    return slash == DZ_STR_NONE ? path : dz_str_sub(path, slash + 1, path.n);
}

struct dz_str dz_path_parent(struct dz_str path)
{
    size_t slash = dz_str_rfind_char(path, '/');
    if (slash == DZ_STR_NONE)
        return dz_str_sub(path, 0, 0);
    return dz_str_sub(path, 0, slash ? slash : 1);
}

bool dz_path_is_under(struct dz_str path, struct dz_str dir)
{
    if (dz_str_eq(dir, DZ_STR("/")))
        return dz_str_starts(path, dir);
    return dz_str_eat(&path, dir) && (path.n == 0 || path.p[0] == '/' || dir.n == 0);
}

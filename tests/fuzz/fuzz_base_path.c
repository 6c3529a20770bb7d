/* SPDX-License-Identifier: MIT
 * Paths against a model that keeps a list of names. The text up to the first
 * newline is the working directory, the rest the path. */
#include "base/path.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct names {
    struct dz_str name[DZ_PATH_DEPTH_MAX];
    size_t count;
    int left; /* a ".." was met with no name before it */
    int over; /* a limit was met */
};

static size_t text_length(const struct names *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->count; i++)
        n += 1 + l->name[i].n;
    return n;
}

static void walk(struct names *l, struct dz_str s)
{
    struct dz_str part;
    while (!l->over && dz_str_split(&s, '/', &part)) {
        if (part.n == 0 || dz_str_eqz(part, "."))
            continue;
        if (dz_str_eqz(part, "..")) {
            l->left |= l->count == 0;
            l->count -= l->count > 0;
        } else if (part.n > DZ_NAME_MAX || l->count == DZ_PATH_DEPTH_MAX ||
                   text_length(l) + 1 + part.n >= DZ_PATH_MAX) {
            l->over = 1;
        } else {
            l->name[l->count++] = part;
        }
    }
}

/* Is out the names, each after a slash (or the first without, if relative)? */
static void check_text(const struct names *l, const char *out, int n, int relative)
{
    struct dz_str rest = dz_str(out), name;
    size_t i = 0;
    assert(rest.n == (size_t)n);
    while (dz_path_next(&rest, &name)) {
        assert(i < l->count && dz_str_eq(name, l->name[i]));
        i++;
    }
    assert(i == l->count);
    size_t want = text_length(l);
    assert((size_t)n == (relative ? want - (want > 0) : want + (want == 0)));
    assert(relative || out[0] == '/');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dz_str path = dz_str_n((const char *)data, size), cwd = DZ_STR("");
    char out[DZ_PATH_MAX], again[DZ_PATH_MAX];
    struct names l = {.count = 0}, in = {.count = 0};
    struct dz_err e = {0};

    if (dz_str_find_char(path, '\n') != DZ_STR_NONE)
        (void)dz_str_split(&path, '\n', &cwd);
    int nul = dz_str_find_char(path, '\0') != DZ_STR_NONE;
    int absolute = path.n > 0 && path.p[0] == '/';

    if (!absolute)
        walk(&l, cwd);
    walk(&l, path);
    int n = dz_path_resolve(cwd, path, out, &e);
    if (nul || dz_str_find_char(cwd, '\0') != DZ_STR_NONE) {
        assert(n == DZ_EINVAL);
    } else if (l.over) {
        assert(n == DZ_ELIMIT);
    } else {
        check_text(&l, out, n, 0);
        assert(dz_path_resolve(DZ_STR("/x"), dz_str(out), again, NULL) == n);
        assert(strcmp(out, again) == 0);
        assert(dz_path_is_under(dz_str(out), dz_path_parent(dz_str(out))));
    }

    walk(&in, path);
    n = dz_path_inside(path, out, &e);
    if (nul || absolute)
        assert(n == DZ_EINVAL);
    else if (in.over || in.left)
        assert(n < 0);
    else
        check_text(&in, out, n, 1);
    return 0;
}

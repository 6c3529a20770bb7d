/* SPDX-License-Identifier: MIT
 *
 * image_walk.c - a walk over all that a disk holds, in the order of names. Runs in a
 * cell. The disk may be hostile: what waits is bounded, and nothing recurses.
 */
#include "image/image_programs.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "vfs/vfs.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    ENTRIES_MAX = 4 << 20, /* of the whole disk */
};

struct name {
    char *text;
    uint64_t ino;
    uint32_t type;
};
DZ_VEC(entries, struct name);

struct walk {
    struct dz_vfs *vfs;
    struct dz_err *err;
    struct entries stack; /* full paths still to be looked at: the last is next */
    uint64_t seen;
};

struct listing {
    struct entries *to;
    const char *dir;
};

static int add(void *arg, const struct dz_vfs_entry *e)
{
    struct listing *l = arg;
    if (e->len <= 2 && memcmp(e->name, "..", e->len) == 0)
        return 0;
    DZ_AUTO(dz_buf_release) struct dz_buf path = DZ_BUF_INIT(1 << 20);
    dz_buf_addf(&path, "%s/", strcmp(l->dir, "/") == 0 ? "" : l->dir);
    dz_buf_add(&path, e->name, e->len);
    size_t len;
    char *text = path.err ? NULL : dz_buf_detach(&path, &len);
    if (!text)
        l->to->err = DZ_ENOMEM;
    else if (dz_vec_push(l->to, ((struct name){text, e->ino, e->type})) < 0)
        dz_free(text);
    return l->to->err;
}

static int backwards(const void *a, const void *b)
{
    return -strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

static int open_dir(struct walk *w, const struct name *at)
{
    size_t before = w->stack.n;
    struct listing l = {&w->stack, at->text};
    int e = dz_vfs_readdir(w->vfs, at->ino, 0, add, &l);
    w->seen += w->stack.n - before;
    if (e || w->stack.err || w->seen > ENTRIES_MAX)
        return dz_fail(w->err, e ? DZ_EIO : DZ_ELIMIT, "list %s in the image", at->text);
    if (w->stack.n > before)
        qsort(w->stack.p + before, w->stack.n - before, sizeof *w->stack.p, backwards);
    return 0;
}

int dz_image_walk(struct dz_vfs *vfs, dz_image_walk_fn *fn, void *arg, struct dz_err *err)
{
    struct walk w = {.vfs = vfs, .err = err, .stack = DZ_VEC_INIT(ENTRIES_MAX)};
    char *root = dz_str_dup(DZ_STR("/"));
    int rc = 0;
    if (!root || dz_vec_push(&w.stack, ((struct name){root, DZ_VFS_ROOT, S_IFDIR})) < 0) {
        dz_free(root);
        rc = dz_fail(err, DZ_ENOMEM, "walk over an image: out of memory");
    }
    while (rc == 0 && w.stack.n > 0) {
        struct name at = dz_vec_pop(&w.stack);
        const struct dz_image_entry entry = {at.ino, at.type & S_IFMT, at.text};
        rc = fn(arg, &entry, err);
        if (rc == 0 && S_ISDIR(at.type))
            rc = open_dir(&w, &at);
        dz_free(at.text);
    }
    for (size_t i = 0; i < w.stack.n; i++)
        dz_free(w.stack.p[i].text);
    dz_vec_release(&w.stack);
    return rc;
}

/* SPDX-License-Identifier: MIT
 *
 * local_tree_out.c - write a tree of a sandbox, received as a tar stream, as a directory of this
 * machine, for `doze cp -r`.
 *
 * The stream is not trusted, because the guest chose it: tree_write.c makes the files.
 */
#include "base/mem.h"
#include "base/path.h"
#include "cli/cli_progress.h"
#include "cli/cli_signal.h"
#include "cli/local_tree.h"
#include "vfs/vfs_tar_read.h"

#include <errno.h>
#include <string.h>

struct untar {
    struct dz_cli_tree *t;
    const struct dz_cli_stream *s;
    uint64_t done;
    struct dz_err lost; /* error of the stream's source, which the archive reader cannot pass on */
    struct dz_cli_progress progress;
    struct dz_tar_reader r;
};

static ssize_t read_stream(void *arg, void *p, size_t n)
{
    struct untar *u = arg;
    if (dz_cli_interrupted()) {
        (void)dz_fail(&u->lost, DZ_ECANCELED, "interrupted");
        return -ECANCELED;
    }
    ssize_t got = u->s->read(u->s->arg, p, n, &u->lost);
    if (got < 0)
        return -EIO;
    u->done += (uint64_t)got;
    dz_cli_progress_at(&u->progress, u->done);
    return got;
}

static int make_file(struct untar *u, struct dz_str path, const struct dz_tree_meta *meta,
                     struct dz_err *err)
{
    char piece[DZ_IO_PIECE];
    uint64_t at;
    ssize_t n;
    int rc = dz_tree_write_file(u->t->w, path, meta, err);
    while (rc == 0 && (n = dz_tar_data(&u->r, piece, sizeof piece, &at, err)) != 0)
        rc = n < 0 ? (int)n : dz_tree_write_data(u->t->w, at, piece, (size_t)n, err);
    return rc < 0 ? rc : dz_tree_write_end(u->t->w, u->r.m.size, err);
}

static int make_member(struct untar *u, struct dz_err *err)
{
    const struct dz_tar_member *m = &u->r.m;
    const struct dz_tree_meta meta = {m->mode, m->mtime_ns, DZ_TREE_NO_TIME};
    struct dz_str path = dz_str_n(m->path.p, u->s->alone ? 0 : m->path.len),
                  link = dz_str_n(m->link.p, m->link.len);
    if (m->bad[0]) {
        dz_tree_write_skip(u->t->w, path, m->bad);
        return 0;
    }
    switch (m->type) {
    case '0':
        return make_file(u, path, &meta, err);
    case '1':
        return dz_tree_write_same(u->t->w, path, link, err);
    case '2':
        return dz_tree_write_link(u->t->w, path, link, &meta, err);
    case '5':
        return dz_tree_write_dir(u->t->w, path, &meta, err);
    default:
        dz_tree_write_skip(u->t->w, path, "is not a file, directory or link");
        return 0;
    }
}

int dz_cli_tree_out(const struct dz_cli_stream *s, struct dz_cli_tree *t, struct dz_err *err)
{
    /* The archive does not contain the top directory. */
    static const struct dz_tree_meta top = {0777, DZ_TREE_NO_TIME, DZ_TREE_NO_TIME};
    struct untar *u = dz_zalloc(sizeof *u);
    char rest[256];
    if (!u)
        return dz_fail(err, DZ_ENOMEM, "copy to %s: out of memory", t->where);
    u->t = t;
    u->s = s;
    int rc = s->alone ? 0 : dz_tree_write_dir(t->w, DZ_STR(""), s->top ? s->top : &top, err);
    dz_tar_init(&u->r, read_stream, u);
    dz_cli_progress_start(&u->progress, t->c, "copy", s->bytes, DZ_CLI_BYTES);
    while (rc == 0 && (rc = dz_tar_next(&u->r, err)) > 0)
        rc = make_member(u, err);
    while (rc == 0 && read_stream(u, rest, sizeof rest) > 0)
        continue;
    dz_cli_progress_end(&u->progress);
    if (u->lost.code)
        rc = dz_fail(err, u->lost.code, "copy to %s: %s", t->where, u->lost.msg);
    dz_tar_release(&u->r);
    dz_free(u);
    return rc;
}

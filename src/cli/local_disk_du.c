/* SPDX-License-Identifier: MIT
 *
 * `doze disk du`: sizes of trees in a disk; also used for progress.
 */
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/cli_term.h"
#include "cli/local_disk.h"

#include <sys/stat.h>

enum {
    DIRS_MAX = 4000000, /* in one tree: a damaged disk may have a loop */
};

struct pending {
    uint64_t ino;
    unsigned depth;
};
DZ_VEC(todo, struct pending);

/* --- a tree ------------------------------------------------------------------ */

static int push(struct todo *t, uint64_t ino, unsigned depth, struct dz_err *err)
{
    if (depth > DZ_VFS_DEPTH_MAX + 1)
        return dz_fail(err, DZ_ELIMIT,
                       "measure a disk: more than %d directories deep; run doze disk check",
                       DZ_VFS_DEPTH_MAX);
    if (dz_vec_push(t, ((struct pending){ino, depth})) < 0)
        return dz_fail(err, t->err, "measure a disk: %s", dz_err_text(t->err));
    return 0;
}

static int add_dir(const struct dz_disk *d, struct pending dir, struct todo *todo,
                   struct dz_disk_size *t, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf names = {0};
    int rc = dz_disk_names(d, dir.ino, &names, err);
    for (size_t at = 0; rc == 0 && at < names.len; at += strlen(names.p + at) + 1) {
        const char *name = names.p + at;
        uint64_t ino = 0, stored = 0;
        struct dz_vfs_attr a = {0};
        int sys = dz_vfs_lookup(d->vfs, dir.ino, name, strlen(name), &ino);
        if (sys == 0)
            sys = dz_vfs_getattr(d->vfs, ino, &a);
        if (sys == 0 && S_ISREG(a.mode))
            sys = dz_vfs_allocated(d->vfs, ino, &stored);
        if (sys < 0)
            return dz_disk_fail(d, sys, "measure", name, err);
        uint64_t share = S_ISREG(a.mode) && a.nlink > 1 ? a.nlink : 1;
        t->stored += stored / share; /* each name of a file counts its share */
        t->size += S_ISREG(a.mode) ? a.size / share : 0;
        t->inodes++;
        if (S_ISDIR(a.mode))
            rc = push(todo, ino, dir.depth + 1, err);
    }
    return rc;
}

int dz_disk_measure(const struct dz_disk *d, const char *path, bool follow,
                    struct dz_disk_size *ret_size, struct dz_err *err)
{
    DZ_AUTO(dz_vec_releasep) struct todo todo = DZ_VEC_INIT(DIRS_MAX);
    struct dz_disk_size t = {.inodes = 1};
    struct dz_vfs_attr a = {0};
    uint64_t count = 0;
    int rc = dz_disk_find(d, path, follow, "measure", &a, err);
    const uint64_t ino = a.ino;
    if (rc < 0)
        return rc;
    if (S_ISREG(a.mode)) {
        int sys = dz_vfs_allocated(d->vfs, ino, &t.stored);
        if (sys < 0)
            return dz_disk_fail(d, sys, "measure", path, err);
        t.size = a.size;
    } else if (S_ISDIR(a.mode)) {
        rc = push(&todo, ino, 0, err);
    }
    while (rc == 0 && todo.n) {
        const struct pending dir = dz_vec_pop(&todo);
        rc =
            ++count > DIRS_MAX
                ? dz_fail(err, DZ_ELIMIT,
                          "measure a disk: more than %d directories; run doze disk check", DIRS_MAX)
                : add_dir(d, dir, &todo, &t, err);
    }
    if (rc == 0)
        *ret_size = t;
    return rc;
}

/* --- du ---------------------------------------------------------------------- */

static void du_line(struct dz_cli *c, struct dz_json *j, const char *path,
                    const struct dz_disk_size *t)
{
    char stored[DZ_CLI_SIZE_TEXT];
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    if (c->json) {
        dz_json_object(j);
        dz_json_put_strz(j, "path", path);
        dz_json_put_u64(j, "stored_bytes", t->stored);
        dz_json_put_u64(j, "size_bytes", t->size);
        dz_json_put_u64(j, "inodes", t->inodes);
        dz_json_end(j);
        return;
    }
    dz_cli_escape(&text, dz_str(path));
    fprintf(c->out, "%-10s %s\n", dz_cli_size(t->stored, stored), text.p);
}

static int du(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_DISK_JSON_MAX);
    struct dz_disk d;
    struct dz_json j;
    int rc = dz_disk_open(c, DZ_DISK_READ, &d, err);
    dz_json_init(&j, &text, c->out_tty);
    dz_json_array(&j);
    for (int i = 1; rc == 0 && i < (c->argc > 1 ? c->argc : 2); i++) {
        const char *path = c->argc > 1 ? c->argv[i] : "/";
        struct dz_disk_size t;
        rc = dz_disk_measure(&d, path, false, &t, err);
        if (rc == 0)
            du_line(c, &j, path, &t);
    }
    dz_json_end(&j);
    if (rc == 0 && c->json)
        rc = dz_cli_print_json(c, &text, dz_json_finish(&j), err);
    return dz_disk_close(&d, rc, err);
}

const struct dz_cli_command dz_cmd_disk_du = {
    .name = "disk du",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "show how much space files on a disk take",
    .args = "FILE [PATH...]",
    .min_args = 1,
    .max_args = -1,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_IMAGE, DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_END},
    .help = "Prints one line for each PATH (/ by default): the content stored at and below\n"
            "it, without holes, including content from an image. A file with several hard\n"
            "links is divided equally among them.\n",
    .run = du,
    .jail = dz_disk_jail,
};

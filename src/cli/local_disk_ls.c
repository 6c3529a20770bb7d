/* SPDX-License-Identifier: MIT
 *
 * `doze disk ls`: list the files of a disk. As JSON, entries are those of `doze files` and the API.
 *
 * The walk keeps a list of directories to visit instead of recursing, because a disk may be deep.
 */
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "base/vec.h"
#include "cell/cell_op_json.h"
#include "cli/cli_term.h"
#include "cli/local_disk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

enum {
    PENDING_MAX = 4000000, /* directories to visit, also in total: a damaged disk may have a loop */
    TEXT_MAX = 1 << 20,    /* one line or one JSON object */
};

/* --- one entry --------------------------------------------------------------- */

static char type_letter(uint32_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return 'd';
    case S_IFLNK:
        return 'l';
    case S_IFCHR:
        return 'c';
    case S_IFBLK:
        return 'b';
    case S_IFIFO:
        return 'p';
    case S_IFSOCK:
        return 's';
    default:
        return '-';
    }
}

static void put_mode(uint32_t mode, char out[static 11])
{
    static const char bits[] = "rwxrwxrwx";
    out[0] = type_letter(mode);
    for (int i = 0; i < 9; i++)
        out[i + 1] = mode & (0400u >> i) ? bits[i] : '-';
    if (mode & S_ISUID)
        out[3] = mode & 0100 ? 's' : 'S';
    if (mode & S_ISGID)
        out[6] = mode & 010 ? 's' : 'S';
    if (mode & S_ISVTX)
        out[9] = mode & 1 ? 't' : 'T';
    out[10] = '\0';
}

static void put_time(int64_t ns, char out[static 32])
{
    struct tm tm;
    time_t s = (time_t)(ns / 1000000000 - (ns % 1000000000 < 0));
    if (!gmtime_r(&s, &tm) || strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        (void)snprintf(out, 32, "%" PRId64, (int64_t)s);
}

struct listing {
    struct dz_cli *c;
    struct dz_disk d;
    bool detail, deep;
    bool first; /* no JSON object has been written */
    struct dz_buf text;
};

static int link_target(struct listing *l, uint64_t ino, char target[static DZ_VFS_PATH_MAX])
{
    int n = dz_vfs_readlink(l->d.vfs, ino, target, DZ_VFS_PATH_MAX - 1);
    target[n > 0 ? n : 0] = '\0';
    return n < 0 ? n : 0;
}

static int print_json(struct listing *l, struct dz_str name, const struct dz_vfs_attr *a,
                      const char *target, struct dz_err *err)
{
    struct dz_json j;
    const struct dz_cell_stat st = {.path = name.p,
                                    .target = target,
                                    .mode = a->mode,
                                    .uid = a->uid,
                                    .gid = a->gid,
                                    .size = a->size,
                                    .mtime_ns = a->mtime_ns};
    dz_json_init(&j, &l->text, false);
    dz_cell_json_entry(&j, &st);
    int rc = dz_json_finish(&j);
    if (rc < 0)
        return dz_fail(err, rc, "list a disk: %s", dz_err_text(rc));
    fprintf(l->c->out, "%s%s", l->first ? "[" : ",", l->text.p);
    l->first = false;
    return 0;
}

static int print_entry(struct listing *l, struct dz_str name, const struct dz_vfs_attr *a,
                       struct dz_err *err)
{
    char mode[11], when[32], target[DZ_VFS_PATH_MAX] = "";
    int sys = S_ISLNK(a->mode) ? link_target(l, a->ino, target) : 0;
    if (sys < 0)
        return dz_disk_fail(&l->d, sys, "read the symbolic link", name.p, err);
    dz_buf_reset(&l->text);
    if (l->c->json)
        return print_json(l, name, a, target, err);
    dz_cli_escape(&l->text, name);
    if (l->detail && S_ISLNK(a->mode)) {
        dz_buf_adds(&l->text, " -> ");
        dz_cli_escape(&l->text, dz_str(target));
    }
    if (l->text.err)
        return dz_fail(err, l->text.err, "list a disk: %s", dz_err_text(l->text.err));
    if (l->detail) {
        put_mode(a->mode, mode);
        put_time(a->mtime_ns, when);
        fprintf(l->c->out, "%s %3u %5u %5u %12" PRIu64 " %s ", mode, a->nlink, a->uid, a->gid,
                a->size, when);
    }
    fprintf(l->c->out, "%s\n", l->text.p);
    return 0;
}

/* --- ls ---------------------------------------------------------------------- */

struct pending {
    uint64_t ino;
    char *path; /* owned; prefix of the entries' names: "" or a path that ends in a slash */
    unsigned depth;
};
DZ_VEC(todo, struct pending);

static int count_dir(uint64_t *count, struct dz_err *err)
{
    if (++*count <= PENDING_MAX)
        return 0;
    return dz_fail(err, DZ_ELIMIT, "walk a disk: more than %d directories; run doze disk check",
                   PENDING_MAX);
}

static void release_todo(struct todo *t)
{
    for (size_t i = 0; i < t->n; i++)
        dz_free(t->p[i].path);
    dz_vec_release(t);
}

static int push(struct todo *t, uint64_t ino, struct dz_str path, unsigned depth,
                struct dz_err *err)
{
    struct pending p = {ino, NULL, depth};
    if (depth > DZ_VFS_DEPTH_MAX + 1)
        return dz_fail(err, DZ_ELIMIT,
                       "walk a disk: more than %d directories deep; run doze disk check",
                       DZ_VFS_DEPTH_MAX);
    p.path = dz_str_dup(path);
    if (!p.path || dz_vec_push(t, p) < 0) {
        dz_free(p.path);
        return dz_fail(err, t->err ? t->err : DZ_ENOMEM, "walk a disk: %s",
                       dz_err_text(t->err ? t->err : DZ_ENOMEM));
    }
    return 0;
}

static int list_dir(struct listing *l, const struct pending *dir, struct todo *below,
                    struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf names = {0}, path = DZ_BUF_INIT(TEXT_MAX);
    int rc = dz_disk_names(&l->d, dir->ino, &names, err);
    for (size_t at = 0; rc == 0 && at < names.len; at += strlen(names.p + at) + 1) {
        const char *name = names.p + at;
        struct dz_vfs_attr a = {0};
        uint64_t ino = 0;
        dz_buf_reset(&path);
        dz_buf_adds(&path, dir->path);
        dz_buf_adds(&path, name);
        if (path.err)
            return dz_fail(err, path.err, "list a disk: a path is too long");
        int sys = dz_vfs_lookup(l->d.vfs, dir->ino, name, strlen(name), &ino);
        if (sys == 0)
            sys = dz_vfs_getattr(l->d.vfs, ino, &a);
        if (sys < 0)
            return dz_disk_fail(&l->d, sys, "list", path.p, err);
        rc = print_entry(l, dz_str_n(path.p, path.len), &a, err);
        if (rc == 0 && l->deep && S_ISDIR(a.mode)) {
            dz_buf_adds(&path, "/");
            rc = push(below, ino, dz_str_n(path.p, path.len), dir->depth + 1, err);
        }
    }
    return rc;
}

static int list_path(struct listing *l, const char *path, bool named, struct dz_err *err)
{
    struct todo todo = DZ_VEC_INIT(PENDING_MAX);
    struct dz_vfs_attr a = {0};
    uint64_t count = 0;
    char prefix[DZ_VFS_PATH_MAX + 2] = "";
    int rc = dz_disk_find(&l->d, path, false, "list", &a, err);
    const uint64_t ino = a.ino;
    if (rc < 0)
        return rc;
    if (!S_ISDIR(a.mode))
        return print_entry(l, dz_str(path), &a, err);
    if (named || l->deep)
        (void)snprintf(prefix, sizeof prefix, "%s%s", path,
                       dz_str_ends(dz_str(path), DZ_STR("/")) ? "" : "/");
    rc = push(&todo, ino, dz_str(prefix), 0, err);
    while (rc == 0 && todo.n) {
        struct todo below = DZ_VEC_INIT(PENDING_MAX);
        const struct pending dir = dz_vec_pop(&todo);
        rc = count_dir(&count, err);
        if (rc == 0)
            rc = list_dir(l, &dir, &below, err);
        dz_free(dir.path);
        while (rc == 0 && below.n) { /* so that the first name is visited first */
            struct pending last = dz_vec_pop(&below);
            if (dz_vec_push(&todo, last) < 0) {
                dz_free(last.path);
                rc = dz_fail(err, todo.err, "list a disk: %s", dz_err_text(todo.err));
            }
        }
        release_todo(&below);
    }
    release_todo(&todo);
    return rc;
}

static int ls(struct dz_cli *c, struct dz_err *err)
{
    struct listing l = {.c = c,
                        .detail = dz_cli_flag(c, "long"),
                        .deep = dz_cli_flag(c, "recursive"),
                        .first = true,
                        .text = DZ_BUF_INIT(TEXT_MAX)};
    int rc = dz_disk_open(c, DZ_DISK_READ, &l.d, err);
    if (rc == 0 && c->argc == 1)
        rc = list_path(&l, "/", false, err);
    for (int i = 1; rc == 0 && i < c->argc; i++)
        rc = list_path(&l, c->argv[i], c->argc > 2, err);
    if (rc == 0 && c->json)
        fprintf(c->out, "%s", l.first ? "[]\n" : "]\n");
    dz_buf_release(&l.text);
    return dz_disk_close(&l.d, rc, err);
}

const struct dz_cli_command dz_cmd_disk_ls = {
    .name = "disk ls",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "list files of a disk",
    .args = "FILE [PATH...]",
    .min_args = 1,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){{"long", 'l', NULL,
                                               "show mode, links, owner, size and time"},
                                              {"recursive", 'R', NULL, "list everything below"},
                                              DZ_CLI_OPTION_IMAGE,
                                              DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_END},
    .help = "A relative PATH starts at /. Without PATH, lists /. Names are in byte order.\n"
            "With several paths or -R, names are shown with their directory.\n",
    .run = ls,
    .jail = dz_disk_jail,
};

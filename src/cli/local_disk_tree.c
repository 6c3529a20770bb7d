/* SPDX-License-Identifier: MIT
 *
 * `doze disk mkdir`, `doze disk mv`, `doze disk rm`.
 */
#include "base/str.h"
#include "cli/local_disk.h"

#include <errno.h>
#include <sys/stat.h>

typedef int each_fn(struct dz_cli *c, struct dz_disk *d, const char *path, struct dz_err *err);

/* Call fn for each operand after the file; changes made before an error stay. */
static int for_each(struct dz_cli *c, each_fn *fn, struct dz_err *err)
{
    struct dz_disk d;
    int rc = dz_disk_open(c, DZ_DISK_WRITE, &d, err);
    for (int i = 1; rc == 0 && i < c->argc; i++)
        rc = fn(c, &d, c->argv[i], err);
    return dz_disk_close(&d, rc, err);
}

/* --- mkdir ------------------------------------------------------------------- */

static int make_one(struct dz_disk *d, const char *path, bool parents, struct dz_err *err)
{
    struct dz_vfs_walked at;
    struct dz_vfs_attr a = {0};
    const struct dz_vfs_new spec = {.mode = S_IFDIR | 0755};
    uint64_t ino = 0;
    int rc = dz_disk_place(d, path, "make the directory", &at, err);
    if (rc < 0)
        return rc;
    int sys = at.ino ? -EEXIST : dz_vfs_create(d->vfs, at.dir, at.name, at.len, &spec, &ino);
    if (sys == -EEXIST && parents && at.ino && dz_disk_find(d, path, true, "", &a, NULL) == 0 &&
        S_ISDIR(a.mode))
        sys = 0;
    return sys < 0 ? dz_disk_fail(d, sys, "make the directory", path, err) : 0;
}

static int mkdir_path(struct dz_cli *c, struct dz_disk *d, const char *path, struct dz_err *err)
{
    char part[DZ_VFS_PATH_MAX];
    size_t n = strlen(path);
    bool parents = dz_cli_flag(c, "parents");
    int rc = 0;
    if (n >= sizeof part)
        return dz_disk_fail(d, -ENAMETOOLONG, "make the directory", path, err);
    for (size_t i = 1; rc == 0 && parents && i < n; i++) {
        if (path[i] != '/' || path[i - 1] == '/')
            continue;
        (void)snprintf(part, sizeof part, "%.*s", (int)i, path);
        rc = make_one(d, part, true, err);
    }
    return rc < 0 ? rc : make_one(d, path, parents, err);
}

static int mkdir_run(struct dz_cli *c, struct dz_err *err)
{
    return for_each(c, mkdir_path, err);
}

const struct dz_cli_command dz_cmd_disk_mkdir = {
    .name = "disk mkdir",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "make directories in a disk",
    .args = "FILE PATH...",
    .min_args = 2,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){{"parents", 'p', NULL,
                                               "make missing parent directories too"},
                                              DZ_CLI_OPTION_IMAGE,
                                              DZ_CLI_OPTION_END},
    .help = "New directories belong to root and have mode 0755. With -p, existing ones are\n"
            "accepted.\n",
    .run = mkdir_run,
    .jail = dz_disk_jail_write,
};

/* --- mv ---------------------------------------------------------------------- */

static int move(struct dz_disk *d, const char *from, const char *to, bool into, struct dz_err *err)
{
    struct dz_vfs_walked a, b;
    int rc = dz_disk_place(d, from, "move", &a, err);
    if (rc == 0 && !a.ino)
        rc = dz_disk_fail(d, -ENOENT, "move", from, err);
    if (rc == 0)
        rc = dz_disk_place(d, to, "move to", &b, err);
    if (rc < 0)
        return rc;
    const struct dz_vfs_name src = {a.dir, a.name, a.len};
    struct dz_vfs_name dst = {b.dir, b.name, b.len};
    if (into)
        dst = (struct dz_vfs_name){b.ino, a.name, a.len};
    int sys = dz_vfs_rename(d->vfs, &src, &dst, 0);
    return sys < 0 ? dz_disk_fail(d, sys, "move", from, err) : 0;
}

static int mv(struct dz_cli *c, struct dz_err *err)
{
    struct dz_disk d;
    struct dz_vfs_attr a = {0};
    const char *to = c->argv[c->argc - 1];
    int rc = dz_disk_open(c, DZ_DISK_WRITE, &d, err);
    bool into = rc == 0 && dz_disk_find(&d, to, false, "", &a, NULL) == 0 && S_ISDIR(a.mode);
    if (rc == 0 && !into && c->argc > 3)
        rc = dz_disk_fail(&d, -ENOTDIR, "move several things to", to, err);
    for (int i = 1; rc == 0 && i < c->argc - 1; i++)
        rc = move(&d, c->argv[i], to, into, err);
    return dz_disk_close(&d, rc, err);
}

const struct dz_cli_command dz_cmd_disk_mv = {
    .name = "disk mv",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "move or rename within a disk",
    .args = "FILE FROM... TO",
    .min_args = 3,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_IMAGE, DZ_CLI_OPTION_END},
    .help = "Moves into TO if TO is a directory; otherwise renames to TO and replaces a file\n"
            "there.\n",
    .run = mv,
    .jail = dz_disk_jail_write,
};

/* --- rm ---------------------------------------------------------------------- */

static int rm_path(struct dz_cli *c, struct dz_disk *d, const char *path, struct dz_err *err)
{
    struct dz_vfs_walked at;
    struct dz_vfs_attr a = {0};
    int sys = 0;
    int rc = dz_disk_place(d, path, "remove", &at, err);
    bool force = dz_cli_flag(c, "force");
    if (rc == DZ_ENOENT && force)
        return 0;
    if (rc < 0)
        return rc;
    if (!at.ino)
        return force ? 0 : dz_disk_fail(d, -ENOENT, "remove", path, err);
    sys = at.dot ? -EINVAL : dz_vfs_getattr(d->vfs, at.ino, &a);
    if (sys == 0 && S_ISDIR(a.mode))
        sys = dz_cli_flag(c, "recursive") ? dz_vfs_remove_tree(d->vfs, at.dir, at.name, at.len)
                                          : -EISDIR;
    else if (sys == 0)
        sys = dz_vfs_unlink(d->vfs, at.dir, at.name, at.len);
    return sys < 0 ? dz_disk_fail(d, sys, "remove", path, err) : 0;
}

static int rm(struct dz_cli *c, struct dz_err *err)
{
    return for_each(c, rm_path, err);
}

const struct dz_cli_command dz_cmd_disk_rm = {
    .name = "disk rm",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "remove files from a disk",
    .args = "FILE PATH...",
    .min_args = 2,
    .max_args = -1,
    .options =
        (const struct dz_cli_option[]){
            {"recursive", 'r', NULL, "remove directories with everything in them"},
            {"force", 'f', NULL, "ignore paths that do not exist"},
            DZ_CLI_OPTION_IMAGE,
            DZ_CLI_OPTION_END},
    .help = "Removes symbolic links themselves, not what they point to. The directories\n"
            "workspace, memory and tmp stay.\n",
    .run = rm,
    .jail = dz_disk_jail_write,
};

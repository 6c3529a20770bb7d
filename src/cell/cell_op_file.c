/* SPDX-License-Identifier: MIT
 *
 * cell_op_file.c - operations on one file or name.
 *
 * A file is written without its name and gets the name at the end, by one rename: readers see the
 * old file or the new one, and an upload that breaks off leaves nothing.
 */
#include "cell/cell_ops.h"

#include "vfs/vfs_at.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int dz_op_put_stat(struct dz_op *op, const struct dz_vfs_attr *a, const char *path,
                   struct dz_err *err)
{
    char target[DZ_VFS_PATH_MAX] = "";
    const struct dz_record_stat s = {.ino = a->ino,
                                     .size = a->size,
                                     .mtime_ns = a->mtime_ns,
                                     .ctime_ns = a->ctime_ns,
                                     .mode = a->mode,
                                     .uid = a->uid,
                                     .gid = a->gid,
                                     .nlink = a->nlink};
    int n =
        S_ISLNK(a->mode) ? dz_vfs_readlink(dz_op_vfs(op), a->ino, target, sizeof target - 1) : 0;
    target[n > 0 ? n : 0] = '\0';
    const struct dz_op_part parts[3] = {{path, strlen(path) + 1}, {target, strlen(target) + 1}};
    return dz_op_record(op, DZ_RECORD_STAT, &s, sizeof s, parts, err);
}

/* --- places ---------------------------------------------------------------------------- */

/* Inside the machine the kernel's own /proc and /dev cover these directories of the disk, but not
 * those of a volume. */
static int check_covered(const struct dz_op *op, const char *place, const char *path,
                         struct dz_err *err)
{
    static const char *const covered[] = {"/proc", "/dev"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(covered) && dz_op_top(op) == DZ_VFS_ROOT; i++) {
        size_t n = strlen(covered[i]);
        if (strncmp(place, covered[i], n) == 0 && (place[n] == '\0' || place[n] == '/'))
            return dz_fail(err, DZ_EINVAL,
                           "%s: %s is made by the sandbox's kernel and holds no files; choose "
                           "another directory",
                           path, covered[i]);
    }
    return 0;
}

/* Check where a name lies: the path of its directory has no symbolic links. */
static int check_below(const struct dz_op *op, uint64_t dir, const char *name, const char *path,
                       struct dz_err *err)
{
    char place[DZ_VFS_PATH_MAX + DZ_VFS_NAME_MAX + 2];
    int n = dz_vfs_getcwd(dz_op_vfs(op), dz_op_top(op), dir, place, DZ_VFS_PATH_MAX);
    if (n < 0)
        return 0; /* a directory was removed: the operation reports that */
    (void)snprintf(place + n, sizeof place - (size_t)n, "%s%s", n == 1 ? "" : "/", name);
    return check_covered(op, place, path, err);
}

/* Check each directory on the way, as some may not exist yet. */
int dz_op_check_place(const struct dz_op *op, const char *path, struct dz_err *err)
{
    const struct dz_vfs_walk walk = {
        .root = dz_op_top(op), .start = dz_op_top(op), .nofollow = true, .keep_last = true};
    char part[DZ_VFS_PATH_MAX];
    struct dz_vfs_walked w;
    size_t n = strlen(path);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (dz_vfs_walk(dz_op_vfs(op), &walk, part, &w) < 0)
            return 0; /* nothing exists from here on, and the part before it is allowed */
        int rc = check_below(op, w.dir, w.dot ? "" : w.name, path, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* --- looking --------------------------------------------------------------------------- */

int dz_op_stat(struct dz_op *op, struct dz_err *err)
{
    const struct dz_vfs_who root = {.root = dz_op_top(op)};
    struct dz_vfs_attr a;
    int e = dz_vfs_stat_at(dz_op_vfs(op), &root, dz_op_path(op, op->path),
                           !(op->args.flags & DZ_CELL_OP_DEEP), &a);
    return e < 0 ? dz_op_failed(op, "look at", e, err) : dz_op_put_stat(op, &a, op->path, err);
}

/* --- reading -------------------------------------------------------------------------- */

static int read_bytes(struct dz_op *op, uint64_t ino, struct dz_err *err)
{
    uint8_t piece[DZ_CELL_FRAME_MAX];
    uint64_t at = op->args.offset, left = op->args.length ? op->args.length : UINT64_MAX;
    int rc = 0;
    while (rc == 0 && left > 0) {
        ssize_t n = dz_vfs_read(dz_op_vfs(op), ino, at, piece,
                                left < sizeof piece ? (size_t)left : sizeof piece);
        if (n < 0)
            return dz_op_failed(op, "read", (int)n, err);
        if (n == 0)
            break;
        rc = dz_op_emit(op, piece, (size_t)n, err);
        at += (uint64_t)n;
        left -= (uint64_t)n;
    }
    return rc;
}

int dz_op_read(struct dz_op *op, struct dz_err *err)
{
    const struct dz_vfs_who root = {.root = dz_op_top(op)};
    struct dz_vfs *v = dz_op_vfs(op);
    struct dz_vfs_attr a;
    uint64_t ino;
    int e = dz_vfs_open_at(v, &root, dz_op_path(op, op->path), O_RDONLY | O_NOATIME, 0, &ino);
    if (e < 0)
        return dz_op_failed(op, "read", e, err);
    e = dz_vfs_getattr(v, ino, &a);
    int rc = e < 0              ? dz_op_failed(op, "read", e, err)
             : !S_ISREG(a.mode) ? dz_op_failed(op, "read", S_ISDIR(a.mode) ? EISDIR : EINVAL, err)
                                : dz_op_put_stat(op, &a, op->path, err);
    if (rc == 0)
        rc = dz_op_emit_records(op, err);
    if (rc == 0)
        rc = read_bytes(op, ino, err);
    dz_vfs_unref(v, ino);
    return rc;
}

/* --- writing --------------------------------------------------------------------------- */

/* Find the place of the target after symbolic links, and the attributes of the file or directory
 * there. */
static int find_place(struct dz_op *op, struct dz_vfs_walked *ret, struct dz_vfs_attr *ret_attr,
                      struct dz_err *err)
{
    const struct dz_vfs_walk walk = {.root = dz_op_top(op), .start = dz_op_top(op), .create = true};
    struct dz_vfs *v = dz_op_vfs(op);
    int e = op->args.flags & DZ_CELL_OP_PARENTS ? dz_put_above(v, dz_op_top(op), op->path) : 0;
    if (e == 0)
        e = dz_vfs_walk(v, &walk, op->path, ret);
    if (e == 0 && ret->dot)
        e = -EISDIR;
    if (e == 0 && check_below(op, ret->dir, ret->name, op->path, err) < 0)
        return DZ_EINVAL; /* a link led there */
    if (e == 0)
        e = dz_vfs_getattr(v, ret->ino ? ret->ino : ret->dir, ret_attr);
    if (e == 0 && ret->ino && (op->args.flags & DZ_CELL_OP_NEW))
        return dz_fail(err, DZ_EEXIST, "write %s: it exists already", op->path);
    if (e == 0 && ret->ino && !S_ISREG(ret_attr->mode))
        e = S_ISDIR(ret_attr->mode) ? -EISDIR : -EINVAL;
    return e < 0 ? dz_op_failed(op, "write", e, err) : 0;
}

static int fill_file(struct dz_op *op, uint64_t ino, struct dz_err *err)
{
    uint8_t piece[DZ_CELL_FRAME_MAX];
    uint64_t at = 0;
    int64_t n;
    while ((n = dz_op_input(op, piece, sizeof piece, err)) > 0) {
        for (int64_t done = 0; done < n;) {
            ssize_t w = dz_vfs_write(dz_op_vfs(op), ino, at, piece + done, (size_t)(n - done));
            if (w <= 0)
                return dz_op_failed(op, "write", w < 0 ? (int)w : -EIO, err);
            at += (uint64_t)w;
            done += w;
        }
    }
    return n < 0 ? (int)n : 0;
}

/* Find the place again, because it may have changed meanwhile. */
static int name_file(struct dz_op *op, uint64_t ino, struct dz_err *err)
{
    struct dz_vfs_walked w = {0};
    struct dz_vfs_attr a = {0};
    char part[64];
    struct dz_vfs *v = dz_op_vfs(op);
    int rc = find_place(op, &w, &a, err);
    if (rc < 0)
        return rc;
    struct dz_vfs_attr set = {.uid = a.uid, .gid = a.gid};
    set.mode = op->args.mode ? op->args.mode & 07777 : w.ino ? a.mode & 07777 : 0644;
    int e = dz_vfs_setattr(v, ino, DZ_VFS_SET_MODE | DZ_VFS_SET_UID | DZ_VFS_SET_GID, &set);
    int n = snprintf(part, sizeof part, DZ_OP_ARRIVING "%u", op->handle);
    if (e == 0)
        e = dz_vfs_link(v, ino, w.dir, part, (size_t)n);
    if (e == 0) {
        const struct dz_vfs_name from = {w.dir, part, (size_t)n}, to = {w.dir, w.name, w.len};
        e = dz_vfs_rename(v, &from, &to, 0);
        if (e < 0)
            (void)dz_vfs_unlink(v, w.dir, part, (size_t)n);
    }
    op->count = w.ino == 0;
    return e < 0 ? dz_op_failed(op, "write", e, err) : 0;
}

int dz_op_write(struct dz_op *op, struct dz_err *err)
{
    const struct dz_vfs_new spec = {.mode = S_IFREG | 0600};
    struct dz_vfs_walked w;
    struct dz_vfs_attr a;
    uint64_t ino;
    int rc = find_place(op, &w, &a, err);
    if (rc == 0)
        rc = dz_op_hold(op, err);
    int e = rc < 0 ? 0 : dz_vfs_create_nameless(dz_op_vfs(op), w.dir, &spec, &ino);
    if (rc < 0 || e < 0)
        return rc < 0 ? rc : dz_op_failed(op, "write", e, err);
    rc = fill_file(op, ino, err);
    if (rc == 0)
        rc = name_file(op, ino, err);
    dz_vfs_unref(dz_op_vfs(op), ino);
    return rc;
}

/* --- names ------------------------------------------------------------------------------ */

int dz_op_mkdir(struct dz_op *op, struct dz_err *err)
{
    const struct dz_vfs_who root = {.root = dz_op_top(op)};
    struct dz_vfs *v = dz_op_vfs(op);
    bool parents = op->args.flags & DZ_CELL_OP_PARENTS;
    struct dz_vfs_attr a;
    int e = parents ? dz_put_above(v, dz_op_top(op), op->path) : 0;
    if (e == 0)
        e = dz_vfs_mkdir_at(v, &root, dz_op_path(op, op->path),
                            op->args.mode ? op->args.mode & 07777 : 0755);
    op->count = e == 0;
    if (e == -EEXIST && parents &&
        dz_vfs_stat_at(v, &root, dz_op_path(op, op->path), true, &a) == 0 && S_ISDIR(a.mode))
        e = 0;
    return e < 0 ? dz_op_failed(op, "make the directory", e, err) : 0;
}

int dz_op_move(struct dz_op *op, struct dz_err *err)
{
    const struct dz_vfs_who root = {.root = dz_op_top(op)};
    struct dz_vfs *v = dz_op_vfs(op);
    unsigned flags = op->args.flags & DZ_CELL_OP_NEW ? RENAME_NOREPLACE : 0;
    int rc = dz_op_hold(op, err);
    int e = rc == 0 && (op->args.flags & DZ_CELL_OP_PARENTS)
                ? dz_put_above(v, dz_op_top(op), op->to)
                : 0;
    if (rc == 0 && e == 0)
        e = dz_vfs_rename_at(v, &root, dz_op_path(op, op->path), dz_op_path(op, op->to), flags);
    if (e < 0)
        return dz_fail_sys(err, -e, "move %s to %s", op->path, op->to);
    return rc;
}

int dz_op_remove(struct dz_op *op, struct dz_err *err)
{
    const struct dz_vfs_walk walk = {
        .root = dz_op_top(op), .start = dz_op_top(op), .nofollow = true, .keep_last = true};
    struct dz_vfs *v = dz_op_vfs(op);
    struct dz_vfs_walked w;
    struct dz_vfs_attr a;
    int rc = dz_op_hold(op, err);
    if (rc < 0)
        return rc;
    int e = dz_vfs_walk(v, &walk, op->path, &w);
    if (e == 0 && w.ino == 0)
        e = -ENOENT;
    if (e == 0 && w.dot)
        return dz_fail(err, DZ_EINVAL,
                       "remove %s: the root directory, and names that end in . or .., cannot be "
                       "removed",
                       op->path);
    if (e == 0)
        e = dz_vfs_getattr(v, w.ino, &a);
    if (e == 0 && (op->args.flags & DZ_CELL_OP_DEEP))
        e = dz_vfs_remove_tree(v, w.dir, w.name, w.len);
    else if (e == 0)
        e = S_ISDIR(a.mode) ? dz_vfs_rmdir(v, w.dir, w.name, w.len)
                            : dz_vfs_unlink(v, w.dir, w.name, w.len);
    return e < 0 ? dz_op_failed(op, "remove", e, err) : 0;
}

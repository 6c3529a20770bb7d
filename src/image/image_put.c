/* SPDX-License-Identifier: MIT
 *
 * image_put.c - directories, links and files for the disk of an image that is being assembled. Runs
 * in a cell.
 *
 * Paths are walked inside the disk, so a symbolic link in one can lead to another place of the
 * same image and nowhere else. Callers that must keep an archive below a directory check its paths
 * first.
 */
#include "image/image_int.h"

#include "vfs/vfs_at.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

const struct dz_vfs_who dz_put_root = {.root = DZ_VFS_ROOT};

struct dz_vfs_path dz_put_at(const char *path)
{
    return (struct dz_vfs_path){DZ_VFS_ROOT, path};
}

int dz_put_failed(struct dz_put *p, const char *path, int e)
{
    return dz_fail_sys(p->err, -e, "add %s to the image", path);
}

/* Make the directories above a path. */
static int make_above(struct dz_put *p, const char *path)
{
    char dir[DZ_VFS_PATH_MAX];
    struct dz_vfs_attr attr;
    size_t n = strlen(path);
    const char *slash = strrchr(path, '/');
    if (n >= sizeof dir)
        return dz_put_failed(p, path, -ENAMETOOLONG);
    if (!slash || slash == path)
        return 0;
    (void)snprintf(dir, sizeof dir, "%.*s", (int)(slash - path), path);
    if (dz_vfs_stat_at(p->vfs, &dz_put_root, dz_put_at(dir), true, &attr) == 0)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if (path[i] != '/')
            continue;
        memcpy(dir, path, i);
        dir[i] = '\0';
        int e = dz_vfs_mkdir_at(p->vfs, &dz_put_root, dz_put_at(dir), 0755);
        if (e && e != -EEXIST)
            return dz_put_failed(p, path, e);
    }
    return 0;
}

/* Call it before the mode is set: changing the owner clears set-id bits. */
static int own(struct dz_put *p, const char *path, bool follow)
{
    const struct dz_vfs_attr owner = {.uid = p->uid, .gid = p->gid};
    int e = 0;
    if (owner.uid || owner.gid || p->own_all)
        e = dz_vfs_chown_at(p->vfs, &dz_put_root, dz_put_at(path), &owner, follow);
    return e ? dz_put_failed(p, path, e) : 0;
}

int dz_put_mode(struct dz_put *p, const char *path, uint32_t mode)
{
    int e = dz_vfs_chmod_at(p->vfs, &dz_put_root, dz_put_at(path), mode);
    return e ? dz_put_failed(p, path, e) : 0;
}

int dz_put_dir(struct dz_put *p, const char *path, uint32_t mode)
{
    int rc = make_above(p, path);
    int e = rc < 0 ? 0 : dz_vfs_mkdir_at(p->vfs, &dz_put_root, dz_put_at(path), mode);
    if (rc == 0 && e && e != -EEXIST)
        rc = dz_put_failed(p, path, e);
    if (rc == 0)
        rc = own(p, path, true);
    return rc == 0 && strcmp(path, "/") != 0 ? dz_put_mode(p, path, mode) : rc;
}

int dz_put_unlink(struct dz_put *p, const char *path)
{
    int rc = make_above(p, path);
    int e = rc < 0 ? 0 : dz_vfs_unlink_at(p->vfs, &dz_put_root, dz_put_at(path));
    return rc < 0 ? rc : e && e != -ENOENT ? dz_put_failed(p, path, e) : 0;
}

int dz_put_remove(struct dz_put *p, const char *path)
{
    struct dz_vfs_walked at;
    const struct dz_vfs_walk how = {
        .root = DZ_VFS_ROOT, .start = DZ_VFS_ROOT, .keep_last = true, .nofollow = true};
    int e = dz_vfs_walk(p->vfs, &how, path, &at);
    if (e)
        return e;
    return at.ino && !at.dot ? dz_vfs_remove_tree(p->vfs, at.dir, at.name, at.len) : -ENOENT;
}

static int add_child(void *arg, const struct dz_vfs_entry *e)
{
    struct dz_buf *names = arg;
    if (e->len <= 2 && memcmp(e->name, "..", e->len) == 0)
        return 0;
    dz_buf_add(names, e->name, e->len);
    dz_buf_add(names, "", 1);
    return names->err;
}

int dz_put_children(struct dz_put *p, uint64_t dir, struct dz_buf *names)
{
    int e = dz_vfs_readdir(p->vfs, dir, 0, add_child, names);
    return names->err ? -ENOMEM : e;
}

int dz_put_link(struct dz_put *p, const char *path, const char *target)
{
    int rc = dz_put_unlink(p, path);
    int e = rc < 0 ? 0 : dz_vfs_symlink_at(p->vfs, &dz_put_root, target, dz_put_at(path));
    return rc < 0 ? rc : e ? dz_put_failed(p, path, e) : own(p, path, false);
}

int dz_put_name(struct dz_put *p, const char *path, const char *other)
{
    int rc = dz_put_unlink(p, path);
    int e =
        rc < 0 ? 0 : dz_vfs_link_at(p->vfs, &dz_put_root, dz_put_at(other), dz_put_at(path), false);
    return rc < 0 ? rc : e ? dz_put_failed(p, path, e) : 0;
}

void dz_put_close(struct dz_put *p)
{
    if (p->ino)
        dz_vfs_unref(p->vfs, p->ino);
    p->ino = p->at = 0;
}

int dz_put_open(struct dz_put *p, const char *path, uint32_t mode)
{
    dz_put_close(p);
    int rc = dz_put_unlink(p, path);
    int e = rc < 0 ? 0
                   : dz_vfs_open_at(p->vfs, &dz_put_root, dz_put_at(path),
                                    O_WRONLY | O_CREAT | O_EXCL, mode, &p->ino);
    if (rc == 0 && e)
        rc = dz_put_failed(p, path, e);
    if (rc == 0)
        rc = own(p, path, true);
    return rc < 0 ? rc : dz_put_mode(p, path, mode);
}

int dz_put_append(struct dz_put *p, const char *path)
{
    struct dz_vfs_attr attr;
    dz_put_close(p);
    int e = dz_vfs_open_at(p->vfs, &dz_put_root, dz_put_at(path), O_WRONLY, 0, &p->ino);
    if (e == -ENOENT)
        return dz_put_open(p, path, 0644);
    if (!e)
        e = dz_vfs_getattr(p->vfs, p->ino, &attr);
    p->at = e ? 0 : attr.size;
    return e ? dz_put_failed(p, path, e) : 0;
}

int dz_put_data(struct dz_put *p, const void *data, size_t n)
{
    for (const char *from = data; n > 0;) {
        ssize_t done = p->ino ? dz_vfs_write(p->vfs, p->ino, p->at, from, n) : -EBADF;
        if (done <= 0)
            return dz_put_failed(p, "a file", done < 0 ? (int)done : -EIO);
        p->at += (uint64_t)done;
        from += done;
        n -= (size_t)done;
    }
    return 0;
}

int dz_put_room(struct dz_put *p, size_t n)
{
    if (n > p->room)
        return dz_fail(p->err, DZ_ELIMIT,
                       "the archive holds more than %d times its own size and more than %d MiB: "
                       "refused",
                       DZ_ARCHIVE_RATIO, DZ_ARCHIVE_FREE >> 20);
    p->room -= n;
    return 0;
}

int dz_put_sink(void *arg, const void *data, size_t n, struct dz_err *err)
{
    (void)err;
    int rc = dz_put_room(arg, n);
    return rc < 0 ? rc : dz_put_data(arg, data, n);
}

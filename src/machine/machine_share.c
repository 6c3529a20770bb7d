/* SPDX-License-Identifier: MIT
 *
 * machine_share.c - a tree of one disk into another, through the file system: what
 * comes out is what a guest would see, whatever lies above or below.
 *
 * A list of directories still to do stands for recursion, so depth costs no stack.
 * A file with several names is copied once; names outside of the tree do not count.
 */
#include "machine/machine_copy.h"

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "vfs/vfs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DIRS_MAX = 4000000,
    LINKS_MAX = 4000000,
    NAMES_MAX = 256 << 20, /* bytes of the names of one directory */
    STEP = 1 << 20,
};

struct dir {
    uint64_t from, to;
};
struct share {
    struct dz_vfs *from, *to;
    DZ_VEC(, struct dir) dirs;
    DZ_VEC(, uint64_t) made; /* by the number in `links` */
    struct dz_map links;     /* inode there -> its place in made + 1 */
    struct dz_buf names;     /* of the directory under way: inode, length, bytes */
    uint8_t *step;
    struct dz_copied copied;
};

static int failed(const struct share *s, int sys, const char *what, struct dz_err *err)
{
    const char *why = sys == -EIO || sys == -ENOMEM ? dz_vfs_why(s->to) : "";
    return dz_fail_sys(err, -sys, "share: copy %s %s", what, why);
}

/* --- one inode --------------------------------------------------------------------------- */

static int copy_bytes(struct share *s, uint64_t from, uint64_t to, uint64_t size)
{
    uint64_t at = 0;
    while (at < size) {
        uint64_t data = at;
        int e = dz_vfs_seek(s->from, from, at, SEEK_DATA, &data);
        if (e == -ENXIO)
            break; /* a hole to the end */
        if (e)
            return e;
        ssize_t n = dz_vfs_read(s->from, from, data, s->step, STEP);
        ssize_t put = n > 0 ? dz_vfs_write(s->to, to, data, s->step, (size_t)n) : n;
        if (put <= 0)
            return put < 0 ? (int)put : -EIO;
        at = data + (uint64_t)put;
        s->copied.bytes += (uint64_t)put;
    }
    struct dz_vfs_attr end = {.size = size};
    return dz_vfs_setattr(s->to, to, DZ_VFS_SET_SIZE, &end);
}

static int copy_xattrs(struct share *s, uint64_t from, uint64_t to)
{
    static char names[DZ_VFS_XATTR_LIST_MAX], value[DZ_VFS_XATTR_MAX];
    ssize_t n = dz_vfs_listxattr(s->from, from, names, sizeof names);
    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1) {
        ssize_t size = dz_vfs_getxattr(s->from, from, names + at, value, sizeof value);
        int e =
            size < 0 ? (int)size : dz_vfs_setxattr(s->to, to, names + at, value, (size_t)size, 0);
        if (e)
            return e;
    }
    return n < 0 ? (int)n : 0;
}

static int copy_inode(struct share *s, const struct dz_vfs_attr *a, uint64_t parent,
                      const char *name, size_t len, uint64_t *ret_ino)
{
    char target[DZ_VFS_PATH_MAX];
    struct dz_vfs_new spec = {.mode = a->mode, .uid = a->uid, .gid = a->gid, .rdev = a->rdev};
    if (S_ISLNK(a->mode)) {
        int n = dz_vfs_readlink(s->from, a->ino, target, sizeof target);
        if (n < 0)
            return n;
        spec.target = target;
        spec.target_len = (size_t)n;
    }
    if (S_ISDIR(a->mode))
        spec.rdev = 0;
    int e = dz_vfs_create(s->to, parent, name, len, &spec, ret_ino);
    if (!e && S_ISREG(a->mode))
        e = copy_bytes(s, a->ino, *ret_ino, a->size);
    if (!e)
        e = copy_xattrs(s, a->ino, *ret_ino);
    if (!e)
        e = dz_vfs_setattr(s->to, *ret_ino, DZ_VFS_SET_ATIME | DZ_VFS_SET_MTIME, a);
    s->copied.nodes += !e;
    return e;
}

/* --- names ----------------------------------------------------------------------------------- */

static int remember(struct share *s, uint64_t from, uint64_t to)
{
    if (dz_vec_push(&s->made, to) < 0)
        return -ENOMEM;
    uintptr_t number = s->made.n;
    return dz_map_put64(&s->links, from, (void *)number, NULL) < 0 ? -ENOMEM : 0;
}

static int copy_name(struct share *s, uint64_t ino, uint64_t parent, const char *name, size_t len)
{
    struct dz_vfs_attr a;
    uint64_t to = 0;
    uintptr_t known = (uintptr_t)dz_map_get64(&s->links, ino);
    if (known)
        return dz_vfs_link(s->to, s->made.p[known - 1], parent, name, len);
    int e = dz_vfs_getattr(s->from, ino, &a);
    if (!e)
        e = copy_inode(s, &a, parent, name, len, &to);
    if (!e && !S_ISDIR(a.mode) && a.nlink > 1)
        e = remember(s, ino, to);
    if (!e && S_ISDIR(a.mode) && dz_vec_push(&s->dirs, ((struct dir){ino, to})) < 0)
        e = -ENOMEM;
    return e;
}

struct entry {
    uint64_t ino;
    size_t len;
};

static int on_entry(void *arg, const struct dz_vfs_entry *e)
{
    struct share *s = arg;
    struct entry head = {e->ino, e->len};
    if ((e->len == 1 && e->name[0] == '.') || (e->len == 2 && memcmp(e->name, "..", 2) == 0))
        return 0;
    dz_buf_add(&s->names, &head, sizeof head);
    dz_buf_add(&s->names, e->name, e->len);
    return 0;
}

static int copy_dir(struct share *s, struct dir d, struct dz_err *err)
{
    struct dz_vfs_attr a;
    dz_buf_reset(&s->names);
    int e = dz_vfs_readdir(s->from, d.from, 0, on_entry, s);
    if (!e && s->names.err)
        e = -ENOMEM;
    for (size_t at = 0; !e && at < s->names.len;) {
        struct entry head;
        memcpy(&head, s->names.p + at, sizeof head);
        at += sizeof head;
        e = copy_name(s, head.ino, d.to, s->names.p + at, head.len);
        at += head.len;
    }
    if (!e) /* making names in it has changed its time */
        e = dz_vfs_getattr(s->from, d.from, &a);
    if (!e)
        e = dz_vfs_setattr(s->to, d.to,
                           DZ_VFS_SET_ATIME | DZ_VFS_SET_MTIME | DZ_VFS_SET_MODE | DZ_VFS_SET_UID |
                               DZ_VFS_SET_GID,
                           &a);
    return e ? failed(s, e, "a directory", err) : 0;
}

int dz_machine_share(struct dz_vfs *from, struct dz_vfs *to, struct dz_copied *ret_copied,
                     struct dz_err *err)
{
    struct share s = {.from = from,
                      .to = to,
                      .dirs.max = DIRS_MAX,
                      .made.max = LINKS_MAX,
                      .names = DZ_BUF_INIT(NAMES_MAX),
                      .step = dz_alloc(STEP)};
    int rc = s.step && dz_vec_push(&s.dirs, ((struct dir){DZ_VFS_WORKSPACE, DZ_VFS_WORKSPACE})) == 0
                 ? 0
                 : dz_fail(err, DZ_ENOMEM, "share: out of memory");
    dz_map_init(&s.links, LINKS_MAX);
    while (rc == 0 && s.dirs.n)
        rc = copy_dir(&s, dz_vec_pop(&s.dirs), err);
    if (rc == 0)
        rc = dz_vfs_commit(to, err);
    dz_map_release(&s.links);
    dz_vec_release(&s.dirs);
    dz_vec_release(&s.made);
    dz_buf_release(&s.names);
    dz_free(s.step);
    if (rc == 0)
        *ret_copied = s.copied;
    return rc;
}

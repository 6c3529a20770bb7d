/* SPDX-License-Identifier: MIT
 *
 * image_layer.c - puts a layer of an OCI image on the disk of an image. Runs in a cell.
 *
 * A layer is a tar of what changed against the layers below it (OCI image specification, "Image
 * Layer Filesystem Changeset"). A member ".wh.NAME" means that NAME is gone from the layers below,
 * ".wh..wh..opq" that its directory's content below is gone. Both apply to lower layers only,
 * wherever in the tar they stand, so a layer is read twice: first for what is gone and for its two
 * hashes, then for its files.
 *
 * As other tools unpack it, a member replaces whatever has its name, except that a directory keeps
 * the content of a directory. Paths are walked inside the disk, so a symbolic link in one leads to
 * another place of the same image.
 */
#include "image/image_oci.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/vec.h"
#include "vfs/vfs_at.h"
#include "vfs/vfs_tar_read.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum {
    STEP = 1 << 16,
};

#define WHITEOUT ".wh."
#define OPAQUE   ".wh..wh..opq"

struct layer_dir { /* a directory of the layer, whose time is set at the end */
    uint64_t ino;
    int64_t mtime_ns;
};

struct layer {
    struct dz_put *put;
    const struct dz_layer_source *source;
    struct dz_sha256 packed, plain; /* of the bytes as they come, and unpacked */
    bool hashing;
    struct dz_decompress *unpack;
    struct dz_tar_reader tar;
    DZ_VEC(, struct layer_dir) dirs;
    uint64_t members;
    struct dz_err *err;
    uint8_t data[STEP];
};

/* --- reading it ----------------------------------------------------------------------------- */

static ssize_t read_packed(void *arg, void *buf, size_t n)
{
    struct layer *l = arg;
    ssize_t got = l->source->from.read(l->source->from.arg, buf, n);
    if (l->hashing && got > 0)
        dz_sha256_update(&l->packed, buf, (size_t)got);
    return got;
}

static ssize_t read_plain(void *arg, void *buf, size_t n)
{
    struct layer *l = arg;
    ssize_t got = dz_decompress_read(l->unpack, buf, n);
    if (l->hashing && got > 0)
        dz_sha256_update(&l->plain, buf, (size_t)got);
    return got;
}

static int compare(const char *what, struct dz_sha256 *h, const char *expected, struct dz_err *err)
{
    uint8_t digest[DZ_SHA256_BYTES];
    char got[DZ_SHA256_HEX];
    int rc = dz_sha256_final(h, digest, err);
    if (rc < 0 || !expected || strcmp(dz_sha256_hex(digest, got), expected) == 0)
        return rc;
    return dz_fail(err, DZ_ECORRUPT, "the layer is damaged: its %s is SHA-256 %s, not %s", what,
                   got, expected);
}

/* A damaged layer can fail in any way, so report the wrong digest instead of that failure. */
static int is_damaged(struct layer *l, int rc)
{
    struct dz_err own = {0};
    if (!l->source->digest || rc == DZ_ECANCELED)
        return rc;
    while (read_packed(l, l->data, sizeof l->data) > 0)
        ;
    if (compare("content", &l->packed, l->source->digest, &own) == DZ_ECORRUPT)
        return dz_fail(l->err, DZ_ECORRUPT, "%s", own.msg);
    return rc == DZ_EIO ? dz_fail(l->err, DZ_ECORRUPT, "the layer cannot be decompressed") : rc;
}

/* Read what follows the end of the tar, so that the hashes cover all bytes. */
static int read_rest(struct layer *l)
{
    ssize_t n;
    while ((n = read_plain(l, l->data, sizeof l->data)) > 0)
        ;
    while (n == 0 && (n = read_packed(l, l->data, sizeof l->data)) > 0)
        ;
    return n < 0 ? dz_fail_sys(l->err, (int)-n, "read a layer") : 0;
}

static int bad_member(const struct layer *l, const char *why)
{
    char quoted[DZ_STR_QUOTED];
    const struct dz_buf *path = &l->tar.m.path;
    return dz_fail(l->err, DZ_EINVAL, "the layer's member %s %s",
                   dz_str_quote(dz_str_n(path->p, path->len), quoted), why);
}

/* "./a//b/" and "/a/b" become "/a/b". */
static int full_path(const struct layer *l, const struct dz_buf *raw, char out[static DZ_PATH_MAX])
{
    struct dz_str rest = dz_str_n(raw->p, raw->len), part;
    size_t n = 0;
    if (memchr(raw->p ? raw->p : "", 0, raw->len))
        return bad_member(l, "has a name with a NUL");
    while (dz_str_split(&rest, '/', &part)) {
        if (part.n == 0 || dz_str_eqz(part, "."))
            continue;
        if (dz_str_eqz(part, ".."))
            return bad_member(l, "leads out of the image by \"..\"");
        if (n + part.n + 2 > DZ_PATH_MAX)
            return bad_member(l, "has too long a name");
        out[n++] = '/';
        memcpy(out + n, part.p, part.n);
        n += part.n;
    }
    if (n == 0)
        out[n++] = '/';
    out[n] = '\0';
    return 0;
}

/* Call fn for each member with its path; 0 at the end. */
typedef int layer_member_fn(struct layer *l, const char *path, const char *base);
static int each_member(struct layer *l, layer_member_fn *fn)
{
    char path[DZ_PATH_MAX];
    int rc;
    while ((rc = dz_tar_next(&l->tar, l->err)) > 0) {
        if (l->source->stop && l->source->stop(l->source->stop_arg))
            return dz_fail(l->err, DZ_ECANCELED, "stopped");
        if (++l->members > DZ_TAR_MEMBERS_MAX)
            return bad_member(l, "is one too many");
        if (l->tar.m.bad[0])
            return bad_member(l, l->tar.m.bad);
        rc = full_path(l, &l->tar.m.path, path);
        if (rc == 0)
            rc = fn(l, path, strrchr(path, '/') + 1);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static int read_tar(struct layer *l, layer_member_fn *fn)
{
    const struct dz_bytes from = {read_packed, l};
    l->members = 0;
    int rc = l->source->rewind(l->source->from.arg, l->err);
    if (rc == 0)
        rc = dz_decompress_open(&from, &l->unpack, l->err);
    if (rc == 0) {
        dz_tar_init(&l->tar, read_plain, l);
        rc = each_member(l, fn);
        dz_tar_release(&l->tar);
    }
    if (rc == 0)
        rc = read_rest(l);
    dz_decompress_close(l->unpack);
    l->unpack = NULL;
    return rc;
}

/* --- what is gone ------------------------------------------------------------------------------
 */

/* Remove a name with all below it; nothing there is fine. */
static int remove_name(struct layer *l, const char *path)
{
    int e = dz_put_remove(l->put, path);
    return e && e != -ENOENT && e != -ENOTDIR ? dz_put_failed(l->put, path, e) : 0;
}

static int empty_dir(struct layer *l, const char *path)
{
    DZ_AUTO(dz_buf_release) struct dz_buf names = DZ_BUF_INIT(DZ_PUT_NAMES_MAX);
    struct dz_vfs_attr a;
    struct dz_vfs *v = l->put->vfs;
    int e = dz_vfs_stat_at(v, &dz_put_root, dz_put_at(path), true, &a);
    if (!e && S_ISDIR(a.mode))
        e = dz_put_children(l->put, a.ino, &names);
    for (size_t at = 0; !e && at < names.len; at += strlen(names.p + at) + 1)
        e = dz_vfs_remove_tree(v, a.ino, names.p + at, strlen(names.p + at));
    return e && e != -ENOENT && e != -ENOTDIR ? dz_put_failed(l->put, path, e) : 0;
}

static int is_gone(struct layer *l, const char *path, const char *base)
{
    char name[DZ_PATH_MAX];
    const int above = (int)(base - path);
    if (strcmp(base, OPAQUE) == 0) {
        (void)snprintf(name, sizeof name, "%.*s", above, path);
        return empty_dir(l, name);
    }
    /* other names of this form belong to the file system that made the layer */
    if (strncmp(base, WHITEOUT, strlen(WHITEOUT)) != 0 ||
        strncmp(base, WHITEOUT WHITEOUT, strlen(WHITEOUT WHITEOUT)) == 0)
        return 0;
    base += strlen(WHITEOUT);
    if (base[0] == '\0' || strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
        return bad_member(l, "removes no name");
    (void)snprintf(name, sizeof name, "%.*s%s", above, path, base);
    return remove_name(l, name);
}

/* --- its files ----------------------------------------------------------------------------------
 */

/* Remove what cannot stay: all but a directory that a directory meets. */
static int make_room(struct layer *l, const char *path)
{
    struct dz_vfs_attr a;
    int e = dz_vfs_stat_at(l->put->vfs, &dz_put_root, dz_put_at(path), false, &a);
    if (e)
        return e == -ENOENT || e == -ENOTDIR ? 0 : dz_put_failed(l->put, path, e);
    return S_ISDIR(a.mode) && l->tar.m.type == '5' ? 0 : remove_name(l, path);
}

static int put_file(struct layer *l, const char *path)
{
    const struct dz_tar_member *m = &l->tar.m;
    struct dz_put *p = l->put;
    uint64_t off = 0;
    ssize_t n = 0;
    int rc = dz_put_open(p, path, m->mode & 07777);
    while (rc == 0 && (n = dz_tar_data(&l->tar, l->data, sizeof l->data, &off, l->err)) > 0) {
        p->at = off;
        rc = dz_put_sink(p, l->data, (size_t)n, l->err);
    }
    if (rc == 0 && n == 0 && m->sparse) {
        const struct dz_vfs_attr whole = {.size = m->size};
        int e = dz_vfs_setattr(p->vfs, p->ino, DZ_VFS_SET_SIZE, &whole);
        rc = e ? dz_put_failed(p, path, e) : 0;
    }
    dz_put_close(p);
    if (rc == 0 && n == 0 && (m->mode & 06000)) /* writing cleared the set-id bits */
        rc = dz_put_mode(p, path, m->mode & 07777);
    return rc < 0 ? rc : n < 0 ? (int)n : 0;
}

static int put_fifo(struct layer *l, const char *path)
{
    const struct dz_vfs_attr owner = {.uid = l->put->uid, .gid = l->put->gid};
    int e = dz_vfs_mknod_at(l->put->vfs, &dz_put_root, dz_put_at(path),
                            S_IFIFO | (l->tar.m.mode & 07777), 0);
    if (!e)
        e = dz_vfs_chown_at(l->put->vfs, &dz_put_root, dz_put_at(path), &owner, false);
    return e ? dz_put_failed(l->put, path, e) : 0;
}

/* Set its times and those of its extended attributes that the disk keeps. */
static int finish_entry(struct layer *l, const char *path)
{
    const struct dz_tar_member *m = &l->tar.m;
    struct dz_vfs *v = l->put->vfs;
    struct dz_vfs_attr a;
    int e = dz_vfs_stat_at(v, &dz_put_root, dz_put_at(path), false, &a);
    for (unsigned i = 0; !e && i < m->xattr_count; i++) {
        const struct dz_tar_xattr *x = &m->xattrs[i];
        const char *bytes = m->xattr_bytes.p;
        int r = dz_vfs_setxattr(v, a.ino, bytes + x->name, bytes + x->value, x->value_len, 0);
        if (r == -EIO || r == -ENOMEM || r == -ENOSPC)
            e = r;
    }
    const struct dz_vfs_attr times = {.mtime_ns = m->mtime_ns, .atime_ns = m->mtime_ns};
    if (!e && m->type == '5')
        e = dz_vec_push(&l->dirs, ((struct layer_dir){a.ino, m->mtime_ns})) < 0 ? -ENOMEM : 0;
    else if (!e)
        e = dz_vfs_setattr(v, a.ino, DZ_VFS_SET_MTIME | DZ_VFS_SET_ATIME, &times);
    return e ? dz_put_failed(l->put, path, e) : 0;
}

static int put_entry(struct layer *l, const char *path)
{
    char other[DZ_PATH_MAX];
    const struct dz_tar_member *m = &l->tar.m;
    int rc;
    switch (m->type) {
    case '0':
        return put_file(l, path);
    case '1':
        rc = full_path(l, &m->link, other);
        return rc < 0 ? rc : dz_put_name(l->put, path, other);
    case '2':
        if (m->link.len == 0 || m->link.len >= DZ_VFS_PATH_MAX)
            return bad_member(l, "is a symbolic link without a target, or with too long a one");
        return dz_put_link(l->put, path, m->link.p);
    case '5':
        return dz_put_dir(l->put, path, m->mode & 07777);
    case '6':
        return put_fifo(l, path);
    default:
        return bad_member(l, "is of a type that no file system has");
    }
}

static int put_member(struct layer *l, const char *path, const char *base)
{
    const struct dz_tar_member *m = &l->tar.m;
    if (strncmp(base, WHITEOUT, strlen(WHITEOUT)) == 0)
        return 0;
    if (m->type == '3' || m->type == '4')
        return 0; /* a sandbox has devices of its own */
    if (path[1] == '\0')
        return m->type == '5' ? 0 : bad_member(l, "would replace the root");
    l->put->uid = m->uid;
    l->put->gid = m->gid;
    int rc = make_room(l, path);
    if (rc == 0)
        rc = put_entry(l, path);
    return rc < 0 || m->type == '1' ? rc : finish_entry(l, path);
}

static int set_dir_times(struct layer *l)
{
    int e = 0;
    for (size_t i = 0; !e && i < l->dirs.n; i++) {
        const struct dz_vfs_attr times = {.mtime_ns = l->dirs.p[i].mtime_ns,
                                          .atime_ns = l->dirs.p[i].mtime_ns};
        e = dz_vfs_setattr(l->put->vfs, l->dirs.p[i].ino, DZ_VFS_SET_MTIME | DZ_VFS_SET_ATIME,
                           &times);
        if (e == -ENOENT) /* a later member replaced the directory */
            e = 0;
    }
    return e ? dz_put_failed(l->put, "a directory", e) : 0;
}

int dz_layer_put(struct dz_put *put, const struct dz_layer_source *source, struct dz_err *err)
{
    struct layer *l = dz_zalloc(sizeof *l);
    if (!l)
        return dz_fail(err, DZ_ENOMEM, "unpack a layer: out of memory");
    l->put = put;
    l->source = source;
    l->err = err;
    l->dirs.max = DZ_TAR_MEMBERS_MAX;
    l->hashing = true;
    put->own_all = true;
    int rc = dz_sha256_init(&l->packed, err);
    if (rc == 0)
        rc = dz_sha256_init(&l->plain, err);
    if (rc == 0 && (rc = read_tar(l, is_gone)) < 0)
        rc = is_damaged(l, rc);
    if (rc == 0)
        rc = compare("content", &l->packed, source->digest, err);
    if (rc == 0)
        rc = compare("unpacked content", &l->plain, source->diff_id, err);
    l->hashing = false;
    if (rc == 0)
        rc = read_tar(l, put_member);
    if (rc == 0)
        rc = set_dir_times(l);
    dz_sha256_release(&l->packed);
    dz_sha256_release(&l->plain);
    dz_vec_release(&l->dirs);
    put->own_all = false;
    dz_free(l);
    return rc;
}

/* SPDX-License-Identifier: MIT
 *
 * image_assemble.c - the disk of an image put together from a recipe's steps, in a
 * cell: archives are read here, files of the host are asked for.
 *
 * The same steps give the same bytes: inodes in the order of the steps, every time
 * the epoch, the seed of directory cookies fixed.
 */
#include "image/image_int.h"
#include "image/image_programs.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "db/db.h"
#include "vfs/vfs_at.h"
#include "vfs/vfs_tar.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    INNER_MAX = 1 << 30, /* bytes of an archive in an archive */
    TARGET_MAX = 4096,
};

static const char staging[] = ".doze-archive"; /* of the root, while a tar is taken apart */

struct assembly {
    struct dz_build *b;
    int fd, wal_fd;
    bool fresh;
    /* inside */
    struct dz_call *call;
    struct dz_db *db;
    struct dz_vfs *vfs;
    const struct dz_step *step;
    uint64_t ino, at; /* the file being filled */
    uint64_t room;    /* bytes that the archive of this step may still hold */
    struct dz_err *err;
};

static const struct dz_vfs_who root = {.root = DZ_VFS_ROOT};

static struct dz_vfs_path at_root(const char *path)
{
    return (struct dz_vfs_path){DZ_VFS_ROOT, path};
}

static int put_failed(struct assembly *a, const char *path, int e)
{
    return dz_fail_sys(a->err, -e, "add %s to the image", path);
}

/* --- entries ---------------------------------------------------------------------------- */

static int make_above(struct assembly *a, const char *path)
{
    char dir[DZ_VFS_PATH_MAX];
    size_t n = strlen(path);
    if (n >= sizeof dir)
        return put_failed(a, path, -ENAMETOOLONG);
    for (size_t i = 1; i < n; i++) {
        if (path[i] != '/')
            continue;
        memcpy(dir, path, i);
        dir[i] = '\0';
        int e = dz_vfs_mkdir_at(a->vfs, &root, at_root(dir), 0755);
        if (e && e != -EEXIST)
            return put_failed(a, path, e);
    }
    return 0;
}

static int own(struct assembly *a, const char *path, bool follow)
{
    const struct dz_vfs_attr owner = {.uid = a->step->uid, .gid = a->step->gid};
    int e = 0;
    if (owner.uid || owner.gid)
        e = dz_vfs_chown_at(a->vfs, &root, at_root(path), &owner, follow);
    return e ? put_failed(a, path, e) : 0;
}

static int put_dir(struct assembly *a, const char *path, uint32_t mode)
{
    int rc = make_above(a, path);
    int e = rc < 0 ? 0 : dz_vfs_mkdir_at(a->vfs, &root, at_root(path), mode);
    if (e == -EEXIST)
        e = 0;
    if (rc == 0 && e == 0 && strcmp(path, "/") != 0)
        e = dz_vfs_chmod_at(a->vfs, &root, at_root(path), mode);
    return rc < 0 ? rc : e ? put_failed(a, path, e) : own(a, path, true);
}

static int unlink_old(struct assembly *a, const char *path)
{
    int rc = make_above(a, path);
    int e = rc < 0 ? 0 : dz_vfs_unlink_at(a->vfs, &root, at_root(path));
    return rc < 0 ? rc : e && e != -ENOENT ? put_failed(a, path, e) : 0;
}

static int put_link(struct assembly *a, const char *path, const char *target)
{
    int rc = unlink_old(a, path);
    int e = rc < 0 ? 0 : dz_vfs_symlink_at(a->vfs, &root, target, at_root(path));
    return rc < 0 ? rc : e ? put_failed(a, path, e) : own(a, path, false);
}

static void close_file(struct assembly *a)
{
    if (a->ino)
        dz_vfs_unref(a->vfs, a->ino);
    a->ino = a->at = 0;
}

static int open_file(struct assembly *a, const char *path, uint32_t mode)
{
    close_file(a);
    int rc = unlink_old(a, path);
    int e = rc < 0 ? 0
                   : dz_vfs_open_at(a->vfs, &root, at_root(path), O_WRONLY | O_CREAT | O_EXCL, mode,
                                    &a->ino);
    if (rc == 0 && e == 0)
        e = dz_vfs_chmod_at(a->vfs, &root, at_root(path), mode);
    return rc < 0 ? rc : e ? put_failed(a, path, e) : own(a, path, true);
}

static int fill_file(struct assembly *a, const void *data, size_t n)
{
    for (const char *p = data; n > 0;) {
        ssize_t done = a->ino ? dz_vfs_write(a->vfs, a->ino, a->at, p, n) : -EBADF;
        if (done <= 0)
            return put_failed(a, "a file", done < 0 ? (int)done : -EIO);
        a->at += (uint64_t)done;
        p += done;
        n -= (size_t)done;
    }
    return 0;
}

/* Of an archive's content. */
static int take_room(struct assembly *a, size_t n)
{
    if (n > a->room)
        return dz_fail(a->err, DZ_ELIMIT,
                       "the archive holds more than %d times its own size and more than %d MiB: "
                       "refused",
                       DZ_ARCHIVE_RATIO, DZ_ARCHIVE_FREE >> 20);
    a->room -= n;
    return 0;
}

static int sink_to_file(void *arg, const void *data, size_t n, struct dz_err *err)
{
    (void)err;
    int rc = take_room(arg, n);
    return rc < 0 ? rc : fill_file(arg, data, n);
}

/* --- files of the host ---------------------------------------------------------------- */

/* Text of a message, with a NUL; its second string behind the first NUL. */
static int take_text(struct assembly *a, const struct dz_call_msg *m, char to[2 * DZ_IMAGE_PATH])
{
    if (m->size == 0 || m->size >= (size_t)2 * DZ_IMAGE_PATH)
        return dz_fail(a->err, DZ_EIO, "the host sent a path of %zu bytes", m->size);
    memcpy(to, m->data, m->size);
    to[m->size] = '\0';
    return 0;
}

static int take_feed(struct assembly *a, const struct dz_call_msg *m)
{
    char text[2 * DZ_IMAGE_PATH];
    const struct dz_step *s = a->step;
    int rc = m->tag == DZ_FEED_DATA ? 0 : take_text(a, m, text);
    if (rc < 0)
        return rc;
    uint32_t mode = (uint32_t)m->value & 07777;
    switch ((enum dz_feed_tag)m->tag) {
    case DZ_FEED_DATA:
        return fill_file(a, m->data, m->size);
    case DZ_FEED_DIR:
        return put_dir(a, text, mode);
    case DZ_FEED_FILE:
        return open_file(a, text, s->has_mode && s->kind != DZ_STEP_TREE ? s->mode : mode);
    case DZ_FEED_LINK:
        return put_link(a, text, text + strlen(text) + 1);
    case DZ_FEED_END:
        break;
    }
    return 0;
}

static int do_feed(struct assembly *a)
{
    const struct dz_call_msg question = {.value = (uint64_t)(a->step - a->b->recipe->steps)};
    struct dz_call_msg m = {.tag = DZ_FEED_DIR};
    int rc = 0;
    while (rc == 0 && m.tag != DZ_FEED_END) {
        rc = dz_call_ask(a->call, &question, &m, a->err);
        if (rc == 0 && m.tag != DZ_FEED_END)
            rc = take_feed(a, &m);
    }
    close_file(a);
    return rc < 0 ? rc : 0;
}

/* --- zip --------------------------------------------------------------------------------- */

static int fd_read_at(void *arg, void *to, size_t n, uint64_t at, struct dz_err *err)
{
    return dz_fd_pread(*(const int *)arg, to, n, at, err);
}

static int buf_read_at(void *arg, void *to, size_t n, uint64_t at, struct dz_err *err)
{
    const struct dz_buf *b = arg;
    if (at > b->len || n > b->len - at)
        return dz_fail(err, DZ_EINVAL, "the archive in the archive ends early");
    memcpy(to, b->p + at, n);
    return 0;
}

struct inner {
    struct assembly *a;
    struct dz_buf bytes;
};

static int sink_to_buf(void *arg, const void *data, size_t n, struct dz_err *err)
{
    struct inner *i = arg;
    int rc = take_room(i->a, n);
    if (rc == 0)
        dz_buf_add(&i->bytes, data, n);
    return rc < 0         ? rc
           : i->bytes.err ? dz_fail(err, i->bytes.err, "a part of the archive is too large")
                          : 0;
}

/* Where a member goes: 1 and its path, 0: nowhere, or an error. */
static int place(struct assembly *a, struct dz_str member, const char *from, const char *to,
                 char out[static DZ_IMAGE_PATH])
{
    struct dz_str rest = member, want = dz_str(from);
    bool into = to[strlen(to) - 1] == '/', all = dz_str_eqz(want, "/");
    bool dir = want.n > 0 && want.p[want.n - 1] == '/';
    if (!all && dir && !dz_str_eat(&rest, want))
        return 0;
    if (!all && !dir && !dz_str_eq(rest, want))
        return 0;
    if (!all && !dir) /* one member: by its own name into a directory */
        rest = into ? dz_path_name(member) : dz_str_n("", 0);
    int n = snprintf(out, DZ_IMAGE_PATH, "%.*s%s%.*s", (int)(strlen(to) - (into ? 1 : 0)), to,
                     rest.n ? "/" : "", DZ_STR_ARG(rest));
    if (n >= DZ_VFS_PATH_MAX)
        return dz_fail(a->err, DZ_ELIMIT, "a path of the archive is too long for an image");
    return 1;
}

static int put_zip_link(struct assembly *a, struct dz_zip *z, const char *path)
{
    struct inner i = {a, DZ_BUF_INIT(TARGET_MAX)};
    int rc = dz_zip_read(z, sink_to_buf, &i, a->err);
    if (rc == 0 && (i.bytes.len == 0 || memchr(i.bytes.p, 0, i.bytes.len)))
        rc = dz_fail(a->err, DZ_EINVAL, "a symbolic link in the archive has no target");
    if (rc == 0)
        rc = put_link(a, path, i.bytes.p);
    dz_buf_release(&i.bytes);
    return rc;
}

/* No part of the path behind its first `own` bytes, which are the recipe's, is a link: an
 * archive may not bring one and then write through it. */
static int refuse_through_link(struct assembly *a, const char *path, size_t own)
{
    char part[DZ_VFS_PATH_MAX];
    struct dz_vfs_walked at;
    struct dz_vfs_attr attr;
    const struct dz_vfs_walk req = {
        .root = DZ_VFS_ROOT, .start = DZ_VFS_ROOT, .keep_last = true, .nofollow = true};
    for (const char *p = path + own; (p = strchr(p, '/')); p++) {
        (void)snprintf(part, sizeof part, "%.*s", (int)(p - path), path);
        if (p == path + own || dz_vfs_walk(a->vfs, &req, part, &at) != 0 || !at.ino)
            continue;
        int e = dz_vfs_getattr(a->vfs, at.ino, &attr);
        if (e)
            return put_failed(a, part, e);
        if (S_ISLNK(attr.mode))
            return dz_fail(a->err, DZ_EINVAL,
                           "a member of the zip archive goes through the symbolic link %s", part);
    }
    return 0;
}

static int put_zip_member(struct assembly *a, struct dz_zip *z, const struct dz_archive_member *m,
                          const char *path, size_t own)
{
    int rc = refuse_through_link(a, path, own);
    if (rc < 0)
        return rc;
    if (S_ISDIR(m->mode))
        return put_dir(a, path, m->mode & 0777);
    if (S_ISLNK(m->mode))
        return put_zip_link(a, z, path);
    rc = open_file(a, path, a->step->has_mode ? a->step->mode : m->mode & 0777);
    if (rc == 0)
        rc = dz_zip_read(z, sink_to_file, a, a->err);
    close_file(a);
    return rc;
}

static int take_zip(struct assembly *a, const struct dz_zip_source *source, const char *from,
                    const char *to);

/* The member `from` names up to its "!" is an archive: read it whole, go into it. */
static int take_inner(struct assembly *a, struct dz_zip *z, const char *rest, const char *to)
{
    struct inner i = {a, DZ_BUF_INIT(INNER_MAX)};
    int rc = dz_zip_read(z, sink_to_buf, &i, a->err);
    const struct dz_zip_source source = {buf_read_at, &i.bytes, i.bytes.len};
    if (rc == 0)
        rc = take_zip(a, &source, rest, to);
    dz_buf_release(&i.bytes);
    return rc;
}

/* Bounded: each level is a "!" of the recipe's line. */
static int take_zip(struct assembly *a, const struct dz_zip_source *source, const char *from,
                    const char *to)
{
    char path[DZ_IMAGE_PATH];
    struct dz_archive_member m;
    struct dz_zip *z = NULL;
    size_t cut = strcspn(from, "!"), taken = 0;
    size_t own = strlen(to) - (to[strlen(to) - 1] == '/' ? 1 : 0);
    int rc = dz_zip_open(source, &z, a->err), more = 1;
    while (rc == 0 && (more = dz_zip_next(z, &m, a->err)) > 0) {
        bool inner = from[cut] && dz_str_eq(m.path, dz_str_n(from, cut));
        int here = from[cut] ? inner : place(a, m.path, from, to, path);
        if (dz_call_stopped(a->call))
            rc = dz_fail(a->err, DZ_ECANCELED, "stopped");
        else if (here < 0)
            rc = here;
        else if (here > 0)
            rc = inner ? take_inner(a, z, from + cut + 1, to) : put_zip_member(a, z, &m, path, own);
        taken += here > 0;
    }
    dz_zip_close(z);
    if (rc == 0 && more < 0)
        rc = more;
    if (rc == 0 && taken == 0)
        rc = dz_fail(a->err, DZ_EINVAL, "the archive has no %s", from);
    return rc;
}

/* --- tar ------------------------------------------------------------------------------------ */

static int untar(struct assembly *a, int fd, uint64_t dir)
{
    struct dz_gunzip *g = NULL;
    struct dz_tar_stats stats;
    int rc = dz_gunzip_open(fd, &g, a->err);
    if (rc == 0) {
        const struct dz_tar_in in = {.vfs = a->vfs,
                                     .dir = dir,
                                     .read = dz_gunzip_read,
                                     .arg = g,
                                     .uid = a->step->uid,
                                     .gid = a->step->gid,
                                     .max_bytes = a->room};
        rc = dz_vfs_tar_in(&in, &stats, a->err);
    }
    dz_gunzip_close(g);
    return rc;
}

/* Move one thing out of the staging directory. */
static int move_out(struct assembly *a, const char *from, const char *to)
{
    int rc = unlink_old(a, to);
    int e = rc < 0 ? 0 : dz_vfs_rename_at(a->vfs, &root, at_root(from), at_root(to), 0);
    return rc < 0 ? rc : e ? put_failed(a, to, e) : 0;
}

struct children {
    struct dz_buf names; /* each with its NUL */
};

static int add_child(void *arg, const struct dz_vfs_entry *e)
{
    struct children *c = arg;
    if (e->len <= 2 && memcmp(e->name, "..", e->len) == 0)
        return 0;
    dz_buf_add(&c->names, e->name, e->len);
    dz_buf_add(&c->names, "", 1);
    return c->names.err;
}

/* All that is in the directory `from`. */
static int move_children(struct assembly *a, const char *from, const char *to)
{
    char here[DZ_IMAGE_PATH], there[DZ_IMAGE_PATH];
    struct children c = {DZ_BUF_INIT(16 << 20)};
    uint64_t ino = 0;
    int e = dz_vfs_resolve(a->vfs, from, &ino);
    if (!e)
        e = dz_vfs_readdir(a->vfs, ino, 0, add_child, &c);
    int rc = e || c.names.err ? put_failed(a, to, e ? e : -ENOMEM) : put_dir(a, to, 0755);
    for (size_t at = 0; rc == 0 && at < c.names.len; at += strlen(c.names.p + at) + 1) {
        if (snprintf(here, sizeof here, "%s/%s", from, c.names.p + at) >= DZ_VFS_PATH_MAX ||
            snprintf(there, sizeof there, "%s/%s", strcmp(to, "/") == 0 ? "" : to,
                     c.names.p + at) >= DZ_VFS_PATH_MAX)
            rc = put_failed(a, to, -ENAMETOOLONG);
        else
            rc = move_out(a, here, there);
    }
    dz_buf_release(&c.names);
    return rc;
}

static int copy_from_staging(struct assembly *a, const struct dz_copy *c)
{
    char from[DZ_IMAGE_PATH], to[DZ_IMAGE_PATH];
    size_t n = strlen(c->from), m = strlen(c->to);
    bool dir = c->from[n - 1] == '/', into = m > 1 && c->to[m - 1] == '/';
    struct dz_str name = dz_path_name(dz_str_n(c->from, n - (dir ? 1 : 0)));
    if (n >= DZ_VFS_PATH_MAX / 2 || m >= DZ_VFS_PATH_MAX / 2)
        return put_failed(a, c->to, -ENAMETOOLONG);
    (void)snprintf(from, sizeof from, "/%s/%.*s", staging, (int)(n - (dir ? 1 : 0)), c->from);
    if (dir || !into)
        name = dz_str_n("", 0);
    (void)snprintf(to, sizeof to, "%.*s%s%.*s", (int)(m - (into ? 1 : 0)), c->to, name.n ? "/" : "",
                   DZ_STR_ARG(name));
    uint64_t ino;
    if (dz_vfs_resolve(a->vfs, from, &ino) != 0)
        return dz_fail(a->err, DZ_EINVAL, "the archive has no %s", c->from);
    return dir ? move_children(a, from, to) : move_out(a, from, to);
}

/* The recipe's mode for each file that came, as of a zip. */
static int give_mode(void *arg, const struct dz_image_entry *e, struct dz_err *err)
{
    struct assembly *a = arg;
    (void)err;
    if (!S_ISREG(e->type) || strncmp(e->path + 1, staging, sizeof staging - 1) != 0 ||
        e->path[sizeof staging] != '/')
        return 0;
    int bad = dz_vfs_chmod_at(a->vfs, &root, at_root(e->path), a->step->mode);
    return bad ? put_failed(a, e->path, bad) : 0;
}

static int take_tar(struct assembly *a, int fd)
{
    char dir[64];
    uint64_t ino = 0;
    (void)snprintf(dir, sizeof dir, "/%s", staging);
    int rc = put_dir(a, dir, 0700);
    if (rc == 0 && dz_vfs_resolve(a->vfs, dir, &ino) != 0)
        rc = put_failed(a, dir, -EIO);
    if (rc == 0)
        rc = untar(a, fd, ino);
    if (rc == 0 && a->step->has_mode)
        rc = dz_image_walk(a->vfs, give_mode, a, a->err);
    for (size_t i = 0; rc == 0 && i < a->step->copy_count; i++)
        rc = copy_from_staging(a, &a->step->copies[i]);
    int e = rc == 0 ? dz_vfs_remove_tree(a->vfs, DZ_VFS_ROOT, staging, strlen(staging)) : 0;
    return rc < 0 ? rc : e ? put_failed(a, dir, e) : 0;
}

/* Right into the place, with what is there already. */
static int merge_tar(struct assembly *a, int fd)
{
    uint64_t ino = 0;
    int rc = put_dir(a, a->step->path, 0755);
    int e = rc < 0 ? 0 : dz_vfs_resolve(a->vfs, a->step->path, &ino);
    return rc < 0 ? rc : e ? put_failed(a, a->step->path, e) : untar(a, fd, ino);
}

/* A zip likewise. */
static int take_all(struct assembly *a, const struct dz_zip_source *source)
{
    char to[DZ_IMAGE_PATH];
    size_t n = strlen(a->step->path);
    if (snprintf(to, sizeof to, "%s%s", a->step->path,
                 n && a->step->path[n - 1] == '/' ? "" : "/") >= DZ_VFS_PATH_MAX)
        return put_failed(a, a->step->path, -ENAMETOOLONG);
    int rc = put_dir(a, a->step->path, 0755);
    return rc < 0 ? rc : take_zip(a, source, "/", to);
}

/* --- steps ------------------------------------------------------------------------------------ */

static int do_archive(struct assembly *a)
{
    uint8_t magic[4] = {0};
    struct stat st;
    int fd = a->step->fd, rc = 0;
    if (dz_fd_stat(fd, &st) < 0)
        return dz_fail_sys(a->err, errno, "look at the archive");
    const struct dz_zip_source source = {fd_read_at, &fd, (uint64_t)st.st_size};
    if (dz_fd_pread(fd, magic, sizeof magic, 0, NULL) < 0)
        return dz_fail(a->err, DZ_EINVAL, "the archive is too short to be one");
    a->room = dz_archive_room((uint64_t)st.st_size);
    bool zip = memcmp(magic, "PK", 2) == 0;
    if (zip && a->step->copy_count == 0)
        return take_all(a, &source);
    if (a->step->copy_count == 0)
        return merge_tar(a, fd);
    if (!zip)
        return take_tar(a, fd);
    for (size_t i = 0; rc == 0 && i < a->step->copy_count; i++)
        rc = take_zip(a, &source, a->step->copies[i].from, a->step->copies[i].to);
    return rc;
}

static int do_remove(struct assembly *a)
{
    struct dz_vfs_walked at;
    const struct dz_vfs_walk req = {
        .root = DZ_VFS_ROOT, .start = DZ_VFS_ROOT, .keep_last = true, .nofollow = true};
    int e = dz_vfs_walk(a->vfs, &req, a->step->path, &at);
    if (!e && at.ino && !at.dot)
        e = dz_vfs_remove_tree(a->vfs, at.dir, at.name, at.len);
    else if (!e)
        e = -ENOENT;
    return e ? dz_fail_sys(a->err, -e, "remove %s", a->step->path) : 0;
}

static int do_text(struct assembly *a)
{
    int rc = open_file(a, a->step->path, a->step->mode);
    if (rc == 0)
        rc = fill_file(a, a->step->text, strlen(a->step->text));
    close_file(a);
    return rc;
}

static int do_step(struct assembly *a)
{
    const struct dz_step *s = a->step;
    switch (s->kind) {
    case DZ_STEP_DIR:
        return put_dir(a, s->path, s->mode);
    case DZ_STEP_LINK:
        return put_link(a, s->path, s->text);
    case DZ_STEP_FILE:
        return s->text ? do_text(a) : do_feed(a);
    case DZ_STEP_TREE:
    case DZ_STEP_C:
    case DZ_STEP_DEBIAN:
        return do_feed(a);
    case DZ_STEP_TAR:
    case DZ_STEP_PYPI:
    case DZ_STEP_NPM:
    case DZ_STEP_CRATE:
        return s->build ? do_feed(a) : do_archive(a);
    case DZ_STEP_REMOVE:
        return do_remove(a);
    }
    return 0;
}

static int do_steps(struct assembly *a)
{
    const struct dz_recipe *r = a->b->recipe;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->step_count; i++) {
        const struct dz_call_msg at = {.value = i};
        a->step = &r->steps[i];
        rc = dz_call_say(a->call, &at);
        if (rc == 0)
            rc = do_step(a);
        if (rc == 0)
            rc = dz_vfs_commit(a->vfs, a->err);
        if (rc < 0 && a->step->line > 0)
            rc = dz_wrap(a->err, rc, "line %d, %s", a->step->line, a->step->label);
    }
    return rc;
}

/* --- the whole
 * ------------------------------------------------------------------------------------ */

static int64_t epoch(void *arg)
{
    (void)arg;
    return 0;
}

/* What sleeps in the disk that the image is built from does not: its files change. */
static const char no_machine[] = "DELETE FROM machine;"
                                 "DROP TABLE IF EXISTS mem;"
                                 "DELETE FROM meta WHERE k IN('machine','machine_live')";

static int open_disk(struct assembly *a)
{
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema, .label = "the new image"};
    int rc = dz_db_open_fds(&a->db, a->fd, a->wal_fd, &opts, a->err);
    if (rc == 0 && !a->fresh)
        rc = dz_db_exec(a->db, no_machine, a->err);
    if (rc == 0 && a->fresh)
        rc = dz_db_exec(a->db, "UPDATE meta SET v=1 WHERE k='seed'", a->err);
    const struct dz_vfs_opts disk = {.db = a->db, .noatime = true, .now_ns = epoch};
    return rc < 0 ? rc : dz_vfs_open(&disk, &a->vfs, a->err);
}

static int close_disk(struct assembly *a)
{
    DZ_AUTO(dz_buf_release) struct dz_buf config = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    dz_image_print_config(&a->b->recipe->config, &config);
    int rc = config.err ? dz_fail(a->err, config.err, "the image's settings are too large")
                        : dz_vfs_commit(a->vfs, a->err);
    if (rc == 0)
        rc = dz_db_begin(a->db, a->err);
    if (rc == 0)
        rc = dz_image_tables_write(a->db, a->vfs, &config, a->err);
    if (rc == 0)
        rc = dz_db_commit(a->db, a->err);
    if (rc == 0)
        rc = dz_vfs_close(a->vfs, a->err);
    if (rc == 0)
        rc = dz_db_exec(a->db, "UPDATE node SET atime=0,mtime=0,ctime=0", a->err);
    return rc < 0 ? rc : dz_db_close(a->db, false, a->err);
}

static int assemble_inside(struct dz_call *call, void *arg, struct dz_err *err)
{
    struct assembly *a = arg;
    a->call = call;
    a->err = err;
    int rc = open_disk(a);
    if (rc == 0)
        rc = do_steps(a);
    return rc < 0 ? rc : close_disk(a);
}

struct listening {
    struct dz_build *b;
    struct dz_feed *feed;
};

static int on_say(void *host, const struct dz_call_msg *msg, struct dz_err *err)
{
    const struct listening *l = host;
    const struct dz_recipe *r = l->b->recipe;
    (void)err;
    if (msg->value >= r->step_count)
        return 0;
    const struct dz_step *s = &r->steps[msg->value];
    dz_build_log(l->b, "put %s", s->label);
    if (l->b->how->step)
        l->b->how->step(l->b->how->arg, s->label, msg->value, r->step_count);
    return 0;
}

static int on_ask(void *host, const struct dz_call_msg *question, struct dz_call_msg *ret_answer,
                  struct dz_err *err)
{
    return dz_feed_answer(((struct listening *)host)->feed, question, ret_answer, err);
}

static bool on_stop(void *host)
{
    return dz_build_stopped(((struct listening *)host)->b);
}

int dz_build_assemble(struct dz_build *b, int fd, bool fresh, struct dz_err *err)
{
    char work[DZ_IMAGE_PATH];
    int fds[DZ_CALL_FDS_MAX];
    size_t n = 2;
    DZ_AUTO(dz_fd_close) int wal = dz_image_work_file(b->store, work, err);
    if (wal < 0)
        return wal;
    (void)unlinkat(b->store->dir, work, 0);
    fds[0] = fd;
    fds[1] = wal;
    for (size_t i = 0; i < b->recipe->step_count; i++) {
        const struct dz_step *s = &b->recipe->steps[i];
        if (s->fd < 0)
            continue;
        if (n == DZ_CALL_FDS_MAX)
            return dz_fail(err, DZ_ELIMIT, "the recipe has more than %d archives and programs",
                           DZ_CALL_FDS_MAX - 2);
        fds[n++] = s->fd;
    }
    struct listening l = {.b = b};
    int rc = dz_feed_new(b->recipe, &l.feed, err);
    struct assembly a = {.b = b, .fd = fd, .wal_fd = wal, .fresh = fresh};
    const struct dz_call_opts opts = {.what = "put the image together",
                                      .run = assemble_inside,
                                      .arg = &a,
                                      .fds = fds,
                                      .fd_count = n,
                                      .timeout_ms = DZ_IMAGE_CALL_MS,
                                      .file_bytes = DZ_IMAGE_FILE_MAX,
                                      .take = on_say,
                                      .answer = on_ask,
                                      .stop = on_stop,
                                      .host = &l};
    if (rc == 0)
        rc = dz_cell_call(&opts, NULL, err);
    dz_feed_free(l.feed);
    return rc;
}

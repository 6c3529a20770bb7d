/* SPDX-License-Identifier: MIT
 *
 * image_assemble.c - assemble the disk of an image from a recipe's steps, in a cell. The cell reads
 * archives itself; it requests files of this machine from the host.
 *
 * The same steps give the same bytes: inodes are in the order of the steps, every time is the
 * epoch, and the seed of directory cookies is fixed.
 */
#include "image/image_oci.h"
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

/* directory in the root, used while a tar is unpacked */
static const char staging[] = ".doze-archive";

struct assembly {
    struct dz_build *b;
    size_t steps;
    int fd, wal_fd;
    bool fresh;
    /* used inside the cell */
    struct dz_call *call;
    struct dz_db *db;
    const struct dz_step *step;
    struct dz_put put;
    struct dz_err *err;
};

/* --- files of the host ---------------------------------------------------------------- */

/* Take the text of a message, with a NUL; its second string follows the first NUL. */
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
        return dz_put_data(&a->put, m->data, m->size);
    case DZ_FEED_DIR:
        return dz_put_dir(&a->put, text, mode);
    case DZ_FEED_FILE:
        return dz_put_open(&a->put, text, s->has_mode && s->kind != DZ_STEP_TREE ? s->mode : mode);
    case DZ_FEED_LINK:
        return dz_put_link(&a->put, text, text + strlen(text) + 1);
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
    dz_put_close(&a->put);
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
    int rc = dz_put_room(&i->a->put, n);
    if (rc == 0)
        dz_buf_add(&i->bytes, data, n);
    return rc < 0         ? rc
           : i->bytes.err ? dz_fail(err, i->bytes.err, "a part of the archive is too large")
                          : 0;
}

/* Find the target path of a member: 1 and the path, 0: it is not selected, or an error. */
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
    if (!all && !dir) /* a single member goes into a directory under its own name */
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
        rc = dz_put_link(&a->put, path, i.bytes.p);
    dz_buf_release(&i.bytes);
    return rc;
}

/* Refuse a path that has a symbolic link behind its first `own` bytes, which are the recipe's: an
 * archive could bring a link and then write through it. */
static int refuse_through_link(struct assembly *a, const char *path, size_t own)
{
    char part[DZ_VFS_PATH_MAX];
    struct dz_vfs_walked at;
    struct dz_vfs_attr attr;
    const struct dz_vfs_walk req = {
        .root = DZ_VFS_ROOT, .start = DZ_VFS_ROOT, .keep_last = true, .nofollow = true};
    for (const char *p = path + own; (p = strchr(p, '/')); p++) {
        (void)snprintf(part, sizeof part, "%.*s", (int)(p - path), path);
        if (p == path + own || dz_vfs_walk(a->put.vfs, &req, part, &at) != 0 || !at.ino)
            continue;
        int e = dz_vfs_getattr(a->put.vfs, at.ino, &attr);
        if (e)
            return dz_put_failed(&a->put, part, e);
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
        return dz_put_dir(&a->put, path, m->mode & 0777);
    if (S_ISLNK(m->mode))
        return put_zip_link(a, z, path);
    rc = dz_put_open(&a->put, path, a->step->has_mode ? a->step->mode : m->mode & 0777);
    if (rc == 0)
        rc = dz_zip_read(z, dz_put_sink, &a->put, a->err);
    dz_put_close(&a->put);
    return rc;
}

static int take_zip(struct assembly *a, const struct dz_zip_source *source, const char *from,
                    const char *to);

/* The member that `from` names up to its "!" is an archive: read it completely and continue in
 * it. */
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

/* The recursion is bounded: each level is a "!" of the recipe's line. */
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

static int untar(struct assembly *a, int fd, uint64_t dir, bool all)
{
    struct dz_fd_bytes file = {fd, 0};
    const struct dz_bytes from = {dz_bytes_of_fd, &file};
    struct dz_decompress *d = NULL;
    struct dz_tar_stats stats;
    int rc = dz_decompress_open(&from, &d, a->err);
    if (rc == 0) {
        const struct dz_tar_in in = {.vfs = a->put.vfs,
                                     .dir = dir,
                                     .read = dz_decompress_read,
                                     .arg = d,
                                     .owners = all,
                                     .links = all,
                                     .uid = a->step->uid,
                                     .gid = a->step->gid,
                                     .max_bytes = a->put.room};
        rc = dz_vfs_tar_in(&in, &stats, a->err);
    }
    dz_decompress_close(d);
    return rc;
}

/* Move one entry out of the staging directory. */
static int move_out(struct assembly *a, const char *from, const char *to)
{
    int rc = dz_put_unlink(&a->put, to);
    int e =
        rc < 0 ? 0 : dz_vfs_rename_at(a->put.vfs, &dz_put_root, dz_put_at(from), dz_put_at(to), 0);
    return rc < 0 ? rc : e ? dz_put_failed(&a->put, to, e) : 0;
}

/* Move everything that is in the directory `from`. */
static int move_children(struct assembly *a, const char *from, const char *to)
{
    char here[DZ_IMAGE_PATH], there[DZ_IMAGE_PATH];
    DZ_AUTO(dz_buf_release) struct dz_buf names = DZ_BUF_INIT(DZ_PUT_NAMES_MAX);
    uint64_t ino = 0;
    int e = dz_vfs_resolve(a->put.vfs, from, &ino);
    if (!e)
        e = dz_put_children(&a->put, ino, &names);
    int rc = e ? dz_put_failed(&a->put, to, e) : dz_put_dir(&a->put, to, 0755);
    for (size_t at = 0; rc == 0 && at < names.len; at += strlen(names.p + at) + 1) {
        if (snprintf(here, sizeof here, "%s/%s", from, names.p + at) >= DZ_VFS_PATH_MAX ||
            snprintf(there, sizeof there, "%s/%s", strcmp(to, "/") == 0 ? "" : to, names.p + at) >=
                DZ_VFS_PATH_MAX)
            rc = dz_put_failed(&a->put, to, -ENAMETOOLONG);
        else
            rc = move_out(a, here, there);
    }
    return rc;
}

static int copy_from_staging(struct assembly *a, const struct dz_copy *c)
{
    char from[DZ_IMAGE_PATH], to[DZ_IMAGE_PATH];
    size_t n = strlen(c->from), m = strlen(c->to);
    bool dir = c->from[n - 1] == '/', into = m > 1 && c->to[m - 1] == '/';
    struct dz_str name = dz_path_name(dz_str_n(c->from, n - (dir ? 1 : 0)));
    if (n >= DZ_VFS_PATH_MAX / 2 || m >= DZ_VFS_PATH_MAX / 2)
        return dz_put_failed(&a->put, c->to, -ENAMETOOLONG);
    (void)snprintf(from, sizeof from, "/%s/%.*s", staging, (int)(n - (dir ? 1 : 0)), c->from);
    if (dir || !into)
        name = dz_str_n("", 0);
    (void)snprintf(to, sizeof to, "%.*s%s%.*s", (int)(m - (into ? 1 : 0)), c->to, name.n ? "/" : "",
                   DZ_STR_ARG(name));
    uint64_t ino;
    if (dz_vfs_resolve(a->put.vfs, from, &ino) != 0)
        return dz_fail(a->err, DZ_EINVAL, "the archive has no %s", c->from);
    return dir ? move_children(a, from, to) : move_out(a, from, to);
}

/* Give each new file the recipe's mode, as for a zip. */
static int give_mode(void *arg, const struct dz_image_entry *e, struct dz_err *err)
{
    struct assembly *a = arg;
    (void)err;
    if (!S_ISREG(e->type) || strncmp(e->path + 1, staging, sizeof staging - 1) != 0 ||
        e->path[sizeof staging] != '/')
        return 0;
    int bad = dz_vfs_chmod_at(a->put.vfs, &dz_put_root, dz_put_at(e->path), a->step->mode);
    return bad ? dz_put_failed(&a->put, e->path, bad) : 0;
}

static int take_tar(struct assembly *a, int fd)
{
    char dir[64];
    uint64_t ino = 0;
    (void)snprintf(dir, sizeof dir, "/%s", staging);
    int rc = dz_put_dir(&a->put, dir, 0700);
    if (rc == 0 && dz_vfs_resolve(a->put.vfs, dir, &ino) != 0)
        rc = dz_put_failed(&a->put, dir, -EIO);
    if (rc == 0)
        rc = untar(a, fd, ino, false);
    if (rc == 0 && a->step->has_mode)
        rc = dz_image_walk(a->put.vfs, give_mode, a, a->err);
    for (size_t i = 0; rc == 0 && i < a->step->copy_count; i++)
        rc = copy_from_staging(a, &a->step->copies[i]);
    int e = rc == 0 ? dz_vfs_remove_tree(a->put.vfs, DZ_VFS_ROOT, staging, strlen(staging)) : 0;
    return rc < 0 ? rc : e ? dz_put_failed(&a->put, dir, e) : 0;
}

/* Unpack directly into the target directory and merge with its content. */
static int merge_tar(struct assembly *a, int fd)
{
    uint64_t ino = 0;
    int rc = dz_put_dir(&a->put, a->step->path, 0755);
    int e = rc < 0 ? 0 : dz_vfs_resolve(a->put.vfs, a->step->path, &ino);
    return rc < 0 ? rc : e ? dz_put_failed(&a->put, a->step->path, e) : untar(a, fd, ino, false);
}

/* Unpack the result of a script of the recipe, with its owners and links. */
static int merge_made(struct assembly *a)
{
    struct stat st;
    if (dz_fd_stat(a->step->fd, &st) < 0)
        return dz_fail_sys(a->err, errno, "look at what the script made");
    a->put.room = dz_archive_room((uint64_t)st.st_size);
    return untar(a, a->step->fd, DZ_VFS_ROOT, true);
}

/* Unpack a whole zip the same way. */
static int take_all(struct assembly *a, const struct dz_zip_source *source)
{
    char to[DZ_IMAGE_PATH];
    size_t n = strlen(a->step->path);
    if (snprintf(to, sizeof to, "%s%s", a->step->path,
                 n && a->step->path[n - 1] == '/' ? "" : "/") >= DZ_VFS_PATH_MAX)
        return dz_put_failed(&a->put, a->step->path, -ENAMETOOLONG);
    int rc = dz_put_dir(&a->put, a->step->path, 0755);
    return rc < 0 ? rc : take_zip(a, source, "/", to);
}

/* --- steps ------------------------------------------------------------------------------------ */

static int do_archive(struct assembly *a)
{
    uint8_t magic[4] = {0};
    struct stat st;
    int fd = a->step->fd, rc = 0;
    if (dz_fd_stat(fd, &st) < 0)
        return dz_fail_sys(a->err, errno, "stat the archive");
    const struct dz_zip_source source = {fd_read_at, &fd, (uint64_t)st.st_size};
    if (dz_fd_pread(fd, magic, sizeof magic, 0, NULL) < 0)
        return dz_fail(a->err, DZ_EINVAL, "the archive is too short to be one");
    a->put.room = dz_archive_room((uint64_t)st.st_size);
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

/* The bytes of one package, as the host sends them. */
struct deb_bytes {
    struct assembly *a;
    const uint8_t *data;
    size_t left;
    struct dz_call_msg next; /* a message that did not belong to it */
};

static int next_message(struct deb_bytes *d)
{
    const struct dz_call_msg question = {.value = (uint64_t)(d->a->step - d->a->b->recipe->steps)};
    return dz_call_ask(d->a->call, &question, &d->next, d->a->err);
}

static ssize_t read_deb(void *arg, void *buf, size_t n)
{
    struct deb_bytes *d = arg;
    if (d->left == 0 && d->next.tag == DZ_FEED_DATA) {
        if (next_message(d) < 0)
            return -EIO;
        d->data = d->next.data;
        d->left = d->next.tag == DZ_FEED_DATA ? d->next.size : 0;
    }
    size_t take = n < d->left ? n : d->left;
    if (take == 0)
        return 0;
    memcpy(buf, d->data, take);
    d->data += take;
    d->left -= take;
    return (ssize_t)take;
}

static int do_debs(struct assembly *a)
{
    struct deb_bytes d = {.a = a};
    const struct dz_bytes from = {read_deb, &d};
    char rest[512];
    int rc = next_message(&d);
    while (rc >= 0 && d.next.tag == DZ_FEED_FILE) {
        if (d.next.value >= a->step->deb_count)
            return dz_fail(a->err, DZ_EIO, "the host sent a package that is not in the lock");
        const struct dz_deb *deb = &a->step->debs[d.next.value];
        d.next.tag = DZ_FEED_DATA;
        rc = dz_call_stopped(a->call) ? dz_fail(a->err, DZ_ECANCELED, "stopped")
                                      : dz_deb_install(&a->put, a->step, deb, &from, a->err);
        if (rc < 0)
            return dz_wrap(a->err, rc, "%s %s", deb->name, deb->version);
        while (read_deb(&d, rest, sizeof rest) > 0)
            ;
    }
    return rc < 0 ? rc : 0;
}

/* The bytes of a layer, as the host sends them; they are asked for twice. */
static int rewind_layer(void *arg, struct dz_err *err)
{
    struct deb_bytes *d = arg;
    char rest[512];
    ssize_t n;
    while ((n = read_deb(d, rest, sizeof rest)) > 0)
        ;
    int rc = n < 0 ? DZ_EIO : next_message(d);
    if (rc == 0 && d->next.tag != DZ_FEED_FILE)
        rc = dz_fail(err, DZ_EIO, "the host sent no layer");
    d->next.tag = DZ_FEED_DATA;
    return rc;
}

static bool layer_stop(void *arg)
{
    return dz_call_stopped(((const struct assembly *)arg)->call);
}

static int do_layer(struct assembly *a)
{
    struct deb_bytes d = {.a = a};
    const struct dz_layer_source from = {.from = {read_deb, &d},
                                         .rewind = rewind_layer,
                                         .digest = a->step->sha256,
                                         .diff_id = a->step->got,
                                         .stop = layer_stop,
                                         .stop_arg = a};
    a->put.room = dz_archive_room(a->step->bytes);
    return dz_layer_put(&a->put, &from, a->err);
}

static int do_workdir(struct assembly *a)
{
    struct dz_vfs_attr attr;
    const struct dz_vfs_path at = dz_put_at(a->step->path);
    return dz_vfs_stat_at(a->put.vfs, &dz_put_root, at, true, &attr) == 0
               ? 0
               : dz_put_dir(&a->put, a->step->path, 0755);
}

static int do_remove(struct assembly *a)
{
    int e = dz_put_remove(&a->put, a->step->path);
    return e ? dz_fail_sys(a->err, -e, "remove %s", a->step->path) : 0;
}

static int do_text(struct assembly *a)
{
    int rc = dz_put_open(&a->put, a->step->path, a->step->mode);
    if (rc == 0)
        rc = dz_put_data(&a->put, a->step->text, strlen(a->step->text));
    dz_put_close(&a->put);
    return rc;
}

static int do_step(struct assembly *a)
{
    const struct dz_step *s = a->step;
    switch (s->kind) {
    case DZ_STEP_DIR:
        return dz_put_dir(&a->put, s->path, s->mode);
    case DZ_STEP_LINK:
        return dz_put_link(&a->put, s->path, s->text);
    case DZ_STEP_FILE:
        return s->text ? do_text(a) : do_feed(a);
    case DZ_STEP_SCRIPT:
        return merge_made(a);
    case DZ_STEP_APT:
        return do_debs(a);
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
    case DZ_STEP_LAYER:
        return do_layer(a);
    case DZ_STEP_WORKDIR:
        return do_workdir(a);
    }
    return 0;
}

static int do_steps(struct assembly *a)
{
    const struct dz_recipe *r = a->b->recipe;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < a->steps; i++) {
        const struct dz_call_msg at = {.value = i};
        a->step = &r->steps[i];
        a->put.uid = a->step->uid;
        a->put.gid = a->step->gid;
        rc = dz_call_send(a->call, &at);
        if (rc == 0)
            rc = do_step(a);
        if (rc == 0)
            rc = dz_vfs_commit(a->put.vfs, a->err);
        if (rc < 0 && a->step->line > 0)
            rc = dz_wrap(a->err, rc, "line %d, %s", a->step->line, a->step->label);
        else if (rc < 0 && a->step->kind == DZ_STEP_LAYER)
            rc = dz_wrap(a->err, rc, "%s", a->step->label);
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

/* The suspended machine of the base is removed from the new image, because its files change. */
static const char no_machine[] = "DELETE FROM machine;"
                                 "DROP TABLE IF EXISTS mem;"
                                 "DELETE FROM meta WHERE k IN('machine','machine_live')";

/* The new image gets a pack of its own. */
static int unpack_base(struct assembly *a)
{
    struct dz_vfs_pack pack = {0};
    int rc = dz_vfs_pack_map(a->b->base_pack, a->b->base_pack_at, &pack, a->err);
    if (rc == 0)
        rc = dz_db_begin(a->db, a->err);
    if (rc == 0)
        rc = dz_db_exec(a->db, "UPDATE node SET base_size=size WHERE mode>>12=8 AND rdev<>0",
                        a->err);
    if (rc == 0)
        rc = dz_vfs_unpack(a->db, &pack, a->err);
    if (rc == 0)
        rc = dz_db_exec(a->db, "UPDATE node SET base_size=0", a->err);
    if (rc == 0)
        rc = dz_vfs_recount(a->db, a->err);
    if (rc == 0)
        rc = dz_db_commit(a->db, a->err);
    dz_vfs_pack_unmap(&pack);
    return rc;
}

static int open_disk(struct assembly *a)
{
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema, .label = "the new image"};
    int rc = dz_db_open_fds(&a->db, a->fd, a->wal_fd, &opts, a->err);
    if (rc == 0 && !a->fresh)
        rc = dz_db_exec(a->db, no_machine, a->err);
    if (rc == 0 && a->b->base_pack >= 0 && !a->fresh)
        rc = unpack_base(a);
    if (rc == 0 && a->fresh)
        rc = dz_db_exec(a->db,
                        "UPDATE meta SET v=1 WHERE k='seed';"
                        "UPDATE node SET atime=0,mtime=0,ctime=0",
                        a->err);
    const struct dz_vfs_opts disk = {.db = a->db, .noatime = true, .now_ns = epoch};
    return rc < 0 ? rc : dz_vfs_open(&disk, &a->put.vfs, a->err);
}

static int close_disk(struct assembly *a)
{
    DZ_AUTO(dz_buf_release) struct dz_buf config = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    dz_image_print_config(&a->b->recipe->config, &config);
    int rc = config.err ? dz_fail(a->err, config.err, "the image's settings are too large")
                        : dz_vfs_commit(a->put.vfs, a->err);
    if (rc == 0 && a->b->recipe->config.kind == DZ_IMAGE_LINUX &&
        a->steps == a->b->recipe->step_count)
        rc = dz_programs_check_native(a->put.vfs, &a->b->recipe->config, a->err);
    if (rc == 0)
        rc = dz_db_begin(a->db, a->err);
    if (rc == 0)
        rc = dz_image_tables_write(a->db, a->put.vfs, a->b->recipe->config.kind, &config, a->err);
    if (rc == 0)
        rc = dz_db_commit(a->db, a->err);
    if (rc == 0)
        rc = dz_vfs_close(a->put.vfs, a->err);
    if (rc == 0)
        rc = dz_db_exec(a->db,
                        a->b->recipe->keep_times ? "UPDATE node SET atime=mtime,ctime=mtime"
                                                 : "UPDATE node SET atime=0,mtime=0,ctime=0",
                        a->err);
    return rc < 0 ? rc : dz_db_close(a->db, false, a->err);
}

static int assemble_inside(struct dz_call *call, void *arg, struct dz_err *err)
{
    struct assembly *a = arg;
    a->call = call;
    a->put.err = a->err = err;
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

int dz_build_assemble(struct dz_build *b, size_t steps, int fd, bool fresh, struct dz_err *err)
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
    fds[n++] = b->base_pack;
    for (size_t i = 0; i < steps; i++) {
        const struct dz_step *s = &b->recipe->steps[i];
        if (s->fd < 0)
            continue;
        if (n == DZ_CALL_FDS_MAX)
            return dz_fail(err, DZ_ELIMIT, "the recipe has more than %d archives and programs",
                           DZ_CALL_FDS_MAX - 3);
        fds[n++] = s->fd;
    }
    struct listening l = {.b = b};
    int rc = dz_decompress_load(err);
    if (rc < 0)
        return rc;
    rc = dz_feed_new(b->store, b->recipe, &l.feed, err);
    struct assembly a = {.b = b, .steps = steps, .fd = fd, .wal_fd = wal, .fresh = fresh};
    const struct dz_call_opts opts = {.what = "put the image together",
                                      .run = assemble_inside,
                                      .arg = &a,
                                      .fds = fds,
                                      .fd_count = n,
                                      .timeout_ms = DZ_IMAGE_CALL_MS,
                                      .file_bytes = DZ_IMAGE_FILE_MAX,
                                      .receive = on_say,
                                      .answer = on_ask,
                                      .stop = on_stop,
                                      .host = &l};
    if (rc == 0)
        rc = dz_cell_call(&opts, NULL, err);
    dz_feed_free(l.feed);
    return rc;
}

/* SPDX-License-Identifier: MIT
 *
 * image_unpack.c - unpack an archive from outside, or the image so far, as a directory of this
 * machine, for a script. The host does not read the archive: one cell makes a disk of it, as for an
 * image, and a second cell walks that disk and sends its entries. Both cells may have been
 * compromised, so tree_write.c makes the files: below the directory, not through a symbolic link,
 * without links that lead out, and with no more bytes than an archive of this size may expand to.
 */
#include "image/image_int.h"
#include "image/image_programs.h"

#include "base/fd.h"
#include "base/mem.h"
#include "tree/tree.h"
#include "vfs/vfs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* directory on the disk in between, because a new disk is not empty */
static const char below[] = "/archive";

uint64_t dz_archive_room(uint64_t size)
{
    uint64_t most =
        size > DZ_IMAGE_FILE_MAX / DZ_ARCHIVE_RATIO ? DZ_IMAGE_FILE_MAX : size * DZ_ARCHIVE_RATIO;
    return most < DZ_ARCHIVE_FREE ? DZ_ARCHIVE_FREE : most;
}

/* --- the host -------------------------------------------------------------------------- */

struct unpacking {
    struct dz_build *b;
    struct dz_tree_write *w;
};

/* A build script may read and write all entries, whatever modes the archive has. */
static int make_entry(struct unpacking *u, const struct dz_call_msg *m, struct dz_err *err)
{
    struct dz_str all = dz_str_n(m->data, m->size);
    struct dz_str path = dz_str_sub(all, 0, strnlen(all.p ? all.p : "", all.n));
    const struct dz_tree_meta meta = {.mode = ((uint32_t)m->value & 0777) |
                                              (m->tag == DZ_FEED_DIR ? 0700 : 0600),
                                      .mtime_ns = DZ_TREE_NO_TIME,
                                      .atime_ns = DZ_TREE_NO_TIME};
    if (m->tag == DZ_FEED_LINK)
        return dz_tree_write_link(u->w, path, dz_str_sub(all, path.n + 1, SIZE_MAX), &meta, err);
    return m->tag == DZ_FEED_DIR ? dz_tree_write_dir(u->w, path, &meta, err)
                                 : dz_tree_write_file(u->w, path, &meta, err);
}

static int on_say(void *host, const struct dz_call_msg *m, struct dz_err *err)
{
    struct unpacking *u = host;
    switch (m->tag) {
    case DZ_FEED_DATA:
        return dz_tree_write_data(u->w, m->value, m->data, m->size, err);
    case DZ_FEED_END:
        return dz_tree_write_end(u->w, m->value, err);
    case DZ_FEED_DIR:
    case DZ_FEED_FILE:
    case DZ_FEED_LINK:
        return make_entry(u, m, err);
    default:
        return dz_fail(err, DZ_EIO, "unpack an archive: its cell sent an invalid message");
    }
}

static bool on_stop(void *host)
{
    return dz_build_stopped(((const struct unpacking *)host)->b);
}

/* --- the cell ---------------------------------------------------------------------------- */

struct telling {
    int fd;
    const char *below; /* the part of the disk to send; "": all */
    struct dz_call *call;
    struct dz_vfs *vfs;
    uint8_t *piece;
};

static int say(struct telling *t, uint32_t tag, uint64_t value, struct dz_str data,
               struct dz_err *err)
{
    const struct dz_call_msg m = {.tag = tag, .value = value, .data = data.p, .size = data.n};
    if (dz_call_stopped(t->call))
        return dz_fail(err, DZ_ECANCELED, "stopped");
    int rc = dz_call_send(t->call, &m);
    return rc < 0 ? dz_fail(err, rc, "unpack an archive: send a message to the host") : 0;
}

static int tell_data(struct telling *t, const struct dz_image_entry *e, uint64_t size,
                     struct dz_err *err)
{
    uint64_t from = 0, to = 0;
    int sys = 0, rc = 0;
    while (rc == 0 && to < size && (sys = dz_vfs_seek(t->vfs, e->ino, to, SEEK_DATA, &from)) == 0) {
        sys = dz_vfs_seek(t->vfs, e->ino, from, SEEK_HOLE, &to);
        while (rc == 0 && sys == 0 && from < to) {
            size_t want = to - from < DZ_CALL_DATA_MAX ? (size_t)(to - from) : DZ_CALL_DATA_MAX;
            ssize_t n = dz_vfs_read(t->vfs, e->ino, from, t->piece, want);
            sys = n > 0 ? 0 : -EIO;
            if (n > 0)
                rc = say(t, DZ_FEED_DATA, from, dz_str_n((const char *)t->piece, (size_t)n), err);
            from += n > 0 ? (uint64_t)n : 0;
        }
        if (sys)
            break;
    }
    if (rc == 0 && sys && sys != -ENXIO)
        rc = dz_fail_sys(err, -sys, "read %s", e->path);
    return rc < 0 ? rc : say(t, DZ_FEED_END, size, DZ_STR(""), err);
}

static int tell_link(struct telling *t, const struct dz_image_entry *e, struct dz_err *err)
{
    char text[DZ_VFS_PATH_MAX];
    DZ_AUTO(dz_buf_release) struct dz_buf both = DZ_BUF_INIT(DZ_CALL_DATA_MAX);
    int n = dz_vfs_readlink(t->vfs, e->ino, text, sizeof text);
    if (n < 0)
        return dz_fail_sys(err, -n, "read the link %s", e->path);
    dz_buf_adds(&both, e->path + strlen(t->below) + 1);
    dz_buf_add(&both, "", 1);
    dz_buf_add(&both, text, (size_t)n);
    return both.err ? dz_fail(err, both.err, "the link %s is too long", e->path)
                    : say(t, DZ_FEED_LINK, 0, dz_str_n(both.p, both.len), err);
}

static int tell_entry(void *arg, const struct dz_image_entry *e, struct dz_err *err)
{
    struct telling *t = arg;
    struct dz_vfs_attr a;
    const size_t n = strlen(t->below);
    if (strncmp(e->path, t->below, n) != 0 || e->path[n] != '/' || e->path[n + 1] == '\0')
        return 0;
    int sys = dz_vfs_getattr(t->vfs, e->ino, &a);
    if (sys)
        return dz_fail_sys(err, -sys, "stat %s", e->path);
    if (S_ISLNK(a.mode))
        return tell_link(t, e, err);
    if (!S_ISDIR(a.mode) && !S_ISREG(a.mode))
        return 0;
    int rc = say(t, S_ISDIR(a.mode) ? DZ_FEED_DIR : DZ_FEED_FILE, a.mode & 0777,
                 dz_str(e->path + n + 1), err);
    return rc < 0 || S_ISDIR(a.mode) ? rc : tell_data(t, e, a.size, err);
}

static int tell_inside(struct dz_call *call, void *arg, struct dz_err *err)
{
    struct telling *t = arg;
    struct dz_db *db = NULL;
    t->call = call;
    t->piece = dz_alloc(DZ_CALL_DATA_MAX);
    int rc = t->piece ? dz_image_open_disk(t->fd, -1, &db, &t->vfs, err)
                      : dz_fail(err, DZ_ENOMEM, "unpack an archive: out of memory");
    return rc < 0 ? rc : dz_image_walk(t->vfs, tell_entry, t, err);
}

/* --- both ----------------------------------------------------------------------------------- */

/* Make a disk of the archive, by a recipe of one step. */
static int into_disk(const struct dz_build *b, int archive, int disk, struct dz_err *err)
{
    struct dz_recipe *r = dz_zalloc(sizeof *r);
    struct dz_image_build how = *b->how;
    struct dz_build own = *b;
    if (!r)
        return dz_fail(err, DZ_ENOMEM, "unpack an archive: out of memory");
    how.step = NULL;
    own.how = &how;
    own.recipe = r;
    own.base_pack = -1;
    r->step_count = 1;
    r->steps[0] = (struct dz_step){.kind = DZ_STEP_TAR,
                                   .label = "an archive for its build script",
                                   .path = below,
                                   .fd = archive};
    int rc = dz_build_assemble(&own, 1, disk, true, err);
    dz_free(r);
    return rc;
}

/* Write the entries below a place of the disk as files in a directory of this machine. */
static int out_of_disk(struct dz_build *b, int disk, const char *place, const char *dir,
                       const struct dz_tree_write_opts *how, struct dz_err *err)
{
    DZ_AUTO(dz_fd_close) int to = dz_fd_open(AT_FDCWD, dir, O_DIRECTORY, 0, err);
    if (to < 0)
        return to;
    struct unpacking u = {.b = b};
    struct telling t = {.fd = disk, .below = place};
    const struct dz_call_opts opts = {.what = "unpack an archive",
                                      .run = tell_inside,
                                      .arg = &t,
                                      .fds = &disk,
                                      .fd_count = 1,
                                      .timeout_ms = DZ_IMAGE_CALL_MS,
                                      .receive = on_say,
                                      .stop = on_stop,
                                      .host = &u};
    int rc = dz_tree_write_open(to, "", how, &u.w, err);
    if (rc == 0)
        rc = dz_cell_call(&opts, NULL, err);
    return dz_tree_write_close(u.w, rc, err);
}

int dz_build_unpack(struct dz_build *b, int archive, const char *dir, struct dz_err *err)
{
    char work[DZ_IMAGE_PATH];
    struct stat st;
    DZ_AUTO(dz_fd_close) int disk = dz_image_work_file(b->store, work, err);
    if (disk < 0)
        return disk;
    int rc = dz_image_new_disk(disk, err);
    if (rc == 0 && dz_fd_stat(archive, &st) < 0)
        rc = dz_fail_sys(err, errno, "stat an archive");
    if (rc == 0)
        rc = into_disk(b, archive, disk, err);
    if (rc == 0) {
        const struct dz_tree_write_opts how = {.fresh = true,
                                               .bytes_max = dz_archive_room((uint64_t)st.st_size),
                                               .bytes_hint = "an archive of its size may not"};
        rc = out_of_disk(b, disk, below, dir, &how, err);
    }
    (void)unlinkat(b->store->dir, work, 0);
    return rc < 0 ? rc : 0;
}

/* --- a script that completes an image ----------------------------------------------------------
 */

/* ROOT: the image as it is before this step. */
static int make_root(struct dz_build *b, size_t steps, const char *dir, struct dz_err *err)
{
    char work[DZ_IMAGE_PATH];
    const struct dz_tree_write_opts how = {
        .links = DZ_TREE_LINKS_KEEP, .fresh = true, .bytes_max = DZ_IMAGE_FILE_MAX};
    DZ_AUTO(dz_fd_close) int disk = dz_image_work_file(b->store, work, err);
    if (disk < 0)
        return disk;
    int rc = dz_build_disk(b, steps, disk, err);
    if (rc == 0)
        rc = out_of_disk(b, disk, "", dir, &how, err);
    (void)unlinkat(b->store->dir, work, 0);
    return rc;
}

/* The key in the cache: the hash of the script and of all inputs of the image so far. */
static int script_key(struct dz_build *b, const struct dz_step *s, char ret[static DZ_SHA256_HEX],
                      struct dz_err *err)
{
    char so_far[DZ_SHA256_HEX], script[DZ_SHA256_HEX], both[2 * DZ_SHA256_HEX];
    uint8_t digest[DZ_SHA256_BYTES];
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(AT_FDCWD, s->build, O_RDONLY, 0, err);
    int rc = fd < 0 ? fd : dz_image_hash_fd(fd, script, err);
    if (rc == 0)
        rc = dz_build_key(b, (size_t)(s - b->recipe->steps), so_far, err);
    if (rc < 0)
        return rc;
    (void)snprintf(both, sizeof both, "%s%s", so_far, script);
    rc = dz_sha256(both, strlen(both), digest, err);
    if (rc == 0)
        (void)dz_sha256_hex(digest, ret);
    return rc;
}

int dz_build_script(struct dz_build *b, struct dz_step *s, struct dz_err *err)
{
    char key[DZ_SHA256_HEX], path[DZ_IMAGE_PATH], dir[DZ_IMAGE_PATH], root[DZ_IMAGE_PATH],
        out[DZ_IMAGE_PATH];
    int rc = script_key(b, s, key, err);
    if (rc < 0)
        return rc;
    dz_build_cache_path(path, "made", "script", key);
    rc = b->how->fresh ? 0 : dz_build_open_cached(b, path, s, err);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    dz_build_log(b, "run %s", s->build);
    rc = dz_build_new_dir(b, dir, err);
    (void)snprintf(root, sizeof root, "%.4000s/root", dir);
    (void)snprintf(out, sizeof out, "%.4000s/out.tar", dir);
    if (rc == 0 && mkdir(root, 0700) < 0)
        rc = dz_fail_sys(err, errno, "make %s", root);
    if (rc == 0)
        rc = make_root(b, (size_t)(s - b->recipe->steps), root, err);
    const char *const argv[] = {s->build, root, out, NULL};
    if (rc == 0)
        rc = dz_build_run(b, argv, NULL, err);
    if (rc == 0 && access(out, R_OK) < 0)
        rc = dz_fail(err, DZ_EIO, "%s ran and did not make its output", s->build);
    return rc < 0 ? rc : dz_build_into_cache(b, out, path, s, err);
}

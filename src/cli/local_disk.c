/* SPDX-License-Identifier: MIT
 *
 * local_disk.c - open a disk's file, find paths in it, and close it: all but the opening happens in
 * a jail.
 */
#include "cli/local_disk.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/num.h"
#include "base/str.h"
#include "cli/local_hash.h"
#include "cli/local_jail.h"
#include "image/image.h"
#include "linux/linux_inspect.h"
#include "machine/machine_inspect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LOCK_WAIT_MS = 1000, /* as local_files.c waits */
};

/* --- the clock ---------------------------------------------------------------- */

int dz_disk_epoch(int64_t *ret_s, struct dz_err *err)
{
    const char *given = getenv("SOURCE_DATE_EPOCH");
    if (!given || !given[0])
        return 0;
    if (dz_num_i64(dz_str(given), 0, INT64_MAX / DZ_NS_PER_S, ret_s, err) < 0)
        return dz_wrap(err, DZ_EINVAL, "SOURCE_DATE_EPOCH must be a number of seconds since 1970");
    return 1;
}

static int64_t stopped_clock(void *arg)
{
    return ((const struct dz_disk *)arg)->epoch_ns;
}

/* --- in the host ------------------------------------------------------------- */

/* Opened before the jail is entered, read only inside it. */
static struct {
    struct dz_db_files disk, image;
    char image_sha256[DZ_SHA256_HEX];
    int pack_fd; /* descriptor of the pack: of the image, or of the disk when that is an image; -1:
                    none */
    uint64_t pack_at;
} files = {.disk = DZ_DB_FILES_NONE, .image = DZ_DB_FILES_NONE, .pack_fd = -1};

static int open_files(struct dz_cli *c, bool write, struct dz_err *err)
{
    const char *image = dz_cli_value(c, "image");
    int rc = dz_db_files_open(&files.disk, c->argv[0], write ? DZ_DB_FILES_WRITE : DZ_DB_FILES_READ,
                              err);
    if (rc == 0 && image)
        rc = dz_db_files_open(&files.image, image, DZ_DB_FILES_IMAGE, err);
    if (rc == 0 && image)
        rc = dz_cli_hash_fd(files.image.db_fd, image, files.image_sha256, err);
    if (rc == 0)
        rc = dz_image_pack_of_file(image ? image : c->argv[0], &files.pack_fd, &files.pack_at, err);
    return rc;
}

/* A daemon's cell reports that its machine is suspended a moment before it closes the file. So wait
 * for the lock a little; if the file stays in use, opening it reports that. */
static void wait_for_lock(void)
{
    (void)dz_db_lock_within(files.disk.db_fd, LOCK_WAIT_MS);
}

static int run_body(struct dz_cli *c, void *arg, struct dz_err *err)
{
    (void)arg;
    return c->command->run(c, err);
}

int dz_disk_jail_with(struct dz_cli *c, bool write, struct dz_cli_jail *j, struct dz_err *err)
{
    int rc = open_files(c, write, err);
    if (rc == 0) {
        wait_for_lock();
        const int own[] = {files.disk.db_fd, files.disk.wal_fd, files.image.db_fd, files.pack_fd};
        for (size_t i = 0; i < DZ_ARRAY_LEN(own); i++)
            j->fds[j->fd_count++] = own[i];
        j->body = j->body ? j->body : run_body;
        rc = dz_cli_jail_run(c, j, err);
    }
    dz_db_files_close(&files.disk);
    dz_db_files_close(&files.image);
    dz_fd_close(&files.pack_fd);
    return rc;
}

const char *dz_disk_image_sha256(void)
{
    return files.image_sha256;
}

int dz_disk_jail(struct dz_cli *c, struct dz_err *err)
{
    return dz_disk_jail_with(c, false, &(struct dz_cli_jail){0}, err);
}

int dz_disk_jail_write(struct dz_cli *c, struct dz_err *err)
{
    return dz_disk_jail_with(c, true, &(struct dz_cli_jail){0}, err);
}

/* --- open, in the jail ---------------------------------------------------------- */

static int open_db(const char *path, enum dz_disk_open how, struct dz_db **ret_db,
                   struct dz_err *err)
{
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema,
                                    .label = path,
                                    .immutable = files.disk.wal_fd < 0,
                                    .wary = true,
                                    .views = how == DZ_DISK_SQL};
    return dz_db_open_fds(ret_db, files.disk.db_fd, files.disk.wal_fd, &opts, err);
}

static int open_image(struct dz_disk *d, const char *path, struct dz_err *err)
{
    const struct dz_db_opts opts = {
        .schema = &dz_vfs_schema, .label = path, .immutable = true, .wary = true};
    memcpy(d->image_sha256, files.image_sha256, sizeof d->image_sha256);
    return dz_db_open_fds(&d->image, files.image.db_fd, -1, &opts, err);
}

static void hold(void *arg, uint64_t ino)
{
    (void)dz_vfs_ref(arg, ino); /* if the inode is gone already, the machine cannot wake anyway */
}

/* Keep the inodes that a machine sleeping in the file has open, runs, or uses as a directory, even
 * if their names are removed, as if it ran. A damaged machine is ignored. */
static int open_around_sleeper(struct dz_disk *d, struct dz_vfs_opts *opts, struct dz_err *err)
{
    static const struct dz_machine_ops none;
    const struct dz_machine_opts look = {.db = d->db, .image = d->image, .ops = &none};
    struct dz_machine *m = NULL;
    d->sleeper = !d->readonly && dz_machine_open(&look, &m, NULL) == 0 &&
                 dz_machine_found(m) == DZ_MACHINE_ASLEEP;
    opts->keep_orphans = d->sleeper;
    int rc = dz_vfs_open(opts, &d->vfs, err);
    if (rc == 0 && d->sleeper)
        rc = dz_machine_inspect_inodes(m, hold, d->vfs, err);
    size_t size = 0;
    const void *native = rc == 0 && d->sleeper ? dz_machine_native_bytes(m, &size) : NULL;
    if (size)
        rc = dz_linux_inspect_inodes(native, size, hold, d->vfs, err);
    dz_machine_close(m);
    return rc;
}

int dz_disk_open(struct dz_cli *c, enum dz_disk_open how, struct dz_disk *ret_disk,
                 struct dz_err *err)
{
    struct dz_disk *d = ret_disk;
    const char *image = dz_cli_value(c, "image");
    *d = (struct dz_disk){.readonly = how != DZ_DISK_WRITE};
    int rc = open_db(c->argv[0], how, &d->db, err);
    if (rc == 0 && image)
        rc = open_image(d, image, err);
    if (rc == 0 && files.pack_fd >= 0)
        rc = dz_vfs_pack_map(files.pack_fd, files.pack_at, &d->pack, err);
    if (rc < 0 || how == DZ_DISK_DATA || how == DZ_DISK_SQL)
        return rc;
    int64_t epoch = 0;
    rc = dz_disk_epoch(&epoch, err);
    if (rc < 0)
        return rc;
    d->epoch_ns = epoch * DZ_NS_PER_S;
    struct dz_vfs_opts opts = {
        .db = d->db,
        .image = d->image,
        .image_sha256 = image ? d->image_sha256 : NULL,
        .pack = d->pack,
        .readonly = d->readonly,
        .now_ns = rc ? stopped_clock : NULL,
        .arg = d,
    };
    rc = open_around_sleeper(d, &opts, err);
    if (rc == DZ_ENOENT && !image)
        return dz_wrap(err, rc, "open %s (--image names the image's file)", c->argv[0]);
    return rc;
}

int dz_disk_close(struct dz_disk *d, int rc, struct dz_err *err)
{
    struct dz_err late = {0};
    if (d->vfs && d->sleeper)
        late.code = dz_vfs_quiesce(d->vfs, NULL, NULL, &late);
    if (d->vfs && (d->readonly || d->sleeper))
        dz_vfs_abandon(d->vfs);
    else if (d->vfs)
        late.code = dz_vfs_close(d->vfs, &late);
    if (late.code < 0 && rc >= 0) {
        rc = late.code;
        *err = late;
    }
    int closed = dz_db_close(d->db, false, &late);
    if (closed < 0 && rc >= 0) {
        rc = closed;
        *err = late;
    }
    (void)dz_db_close(d->image, false, NULL);
    *d = (struct dz_disk){0};
    return rc;
}

/* --- paths ------------------------------------------------------------------- */

int dz_disk_fail(const struct dz_disk *d, int sys, const char *verb, const char *path,
                 struct dz_err *err)
{
    char quoted[DZ_STR_QUOTED];
    (void)dz_str_quote(dz_str(path), quoted);
    if (sys == -EIO || sys == -ENOMEM || sys == -ENOSPC)
        return dz_fail_sys(err, -sys, "%s %s (%s)", verb, quoted, dz_vfs_why(d->vfs));
    return dz_fail_sys(err, -sys, "%s %s", verb, quoted);
}

static int walk(const struct dz_disk *d, const char *path, bool follow,
                struct dz_vfs_walked *ret_at)
{
    const struct dz_vfs_walk req = {.root = DZ_VFS_ROOT, .start = DZ_VFS_ROOT, .nofollow = !follow};
    return dz_vfs_walk(d->vfs, &req, path, ret_at);
}

int dz_disk_find(const struct dz_disk *d, const char *path, bool follow, const char *verb,
                 struct dz_vfs_attr *ret_attr, struct dz_err *err)
{
    struct dz_vfs_walked at;
    struct dz_vfs_attr attr = {0};
    int r = walk(d, path, follow, &at);
    if (r == 0)
        r = at.ino ? dz_vfs_getattr(d->vfs, at.ino, &attr) : -ENOENT;
    if (r == 0 && at.slash && !S_ISDIR(attr.mode))
        r = -ENOTDIR;
    if (r < 0)
        return dz_disk_fail(d, r, verb, path, err);
    *ret_attr = attr;
    return 0;
}

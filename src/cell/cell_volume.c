/* SPDX-License-Identifier: MIT
 *
 * cell_volume.c - the volumes of a sandbox: disk files of their own, which the cell opens beside
 * the sandbox's file and mounts on its disk before the machine goes up.
 *
 * A volume that is written is opened like the sandbox's file: exclusively, with its WAL. One that
 * is read is opened immutable, as an image is, so many cells share its pages. That needs an empty
 * WAL. If a writer was killed, the host passes the WAL, too: the first reader moves it into the
 * file, under the file's lock, and the others wait for that lock.
 *
 * Volumes are closed before the host is told that the machine is suspended, because their leases
 * end with that message and the next cell may read the file at once.
 */
#include "cell/cell_volume.h"

#include "base/clock.h"
#include "db/db.h"
#include "vfs/vfs_at.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static const struct dz_vfs_who root = {.root = DZ_VFS_ROOT};

/* Open the database, and wait while a cell that is ending has it open. */
static int open_locked(int fd, int wal_fd, int64_t wait_ms, struct dz_db **ret_db,
                       struct dz_err *err)
{
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema, .label = "the volume", .wary = true};
    int64_t now = dz_clock_boot_ns(), until = now + wait_ms * DZ_NS_PER_MS;
    int rc = dz_db_open_fds(ret_db, fd, wal_fd, &opts, err);
    while (rc == DZ_EBUSY && now < until &&
           dz_db_lock_within(fd, (until - now) / DZ_NS_PER_MS) == 0) {
        rc = dz_db_open_fds(ret_db, fd, wal_fd, &opts, err);
        now = dz_clock_boot_ns();
    }
    return rc;
}

/* Move what a killed writer left in the WAL into the file. */
static int recover(struct dz_started_volume *v, int64_t wait_ms, struct dz_err *err)
{
    struct dz_db *db = NULL;
    int rc = open_locked(v->fd, v->wal_fd, wait_ms, &db, err);
    if (rc < 0)
        return rc;
    v->fd = v->again_fd;
    v->wal_fd = v->again_fd = -1;
    return dz_db_close(db, false, err);
}

static int open_db(struct dz_started_volume *v, int64_t wait_ms, struct dz_db **ret_db,
                   struct dz_err *err)
{
    const struct dz_db_opts shared = {
        .schema = &dz_vfs_schema, .label = "the volume", .immutable = true, .wary = true};
    int rc = v->readonly && v->wal_fd >= 0 && v->again_fd >= 0 ? recover(v, wait_ms, err) : 0;
    if (rc == 0)
        rc = v->readonly ? dz_db_open_fds(ret_db, v->fd, -1, &shared, err)
                         : open_locked(v->fd, v->wal_fd, wait_ms, ret_db, err);
    if (rc == 0)
        v->fd = v->wal_fd = -1; /* the handle owns them now */
    return rc;
}

/* The directory of the path, which is made if it is missing. */
static int make_dir(struct dz_vfs *fs, uint64_t base, const char *path, uint64_t *ret_ino)
{
    char part[DZ_VFS_PATH_MAX];
    const struct dz_vfs_walk req = {.root = base, .start = base};
    struct dz_vfs_walked end;
    struct dz_vfs_who who = root;
    size_t len = strlen(path);
    who.root = base;
    if (len >= sizeof part)
        return -ENAMETOOLONG;
    for (size_t i = 1; i <= len; i++) {
        if (i < len && path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        int e = dz_vfs_mkdir_at(fs, &who, (struct dz_vfs_path){base, part}, 0755);
        if (e && e != -EEXIST && e != -EROFS)
            return e;
    }
    int e = dz_vfs_walk(fs, &req, path, &end);
    if (!e && end.ino == 0)
        e = -ENOENT;
    if (!e)
        *ret_ino = end.ino;
    return e;
}

static int mount_one(struct dz_cell_machine *m, const struct dz_started_volume *v,
                     struct dz_vfs *fs, struct dz_err *err)
{
    struct dz_vfs_mount req = {
        .fs = fs, .root = DZ_VFS_WORKSPACE, .number = v->number, .what = v->name, .path = v->path};
    int e = v->subpath[0] ? make_dir(fs, DZ_VFS_WORKSPACE, v->subpath, &req.root) : 0;
    if (e)
        return dz_fail_sys(err, -e, "find its directory %.200s", v->subpath);
    e = make_dir(m->vfs, DZ_VFS_ROOT, v->path, &req.point);
    if (!e)
        e = dz_vfs_mount(m->vfs, &req);
    return e ? dz_fail_sys(err, -e, "mount it at %.200s", v->path) : 0;
}

static int open_one(struct dz_cell_machine *m, struct dz_started_volume *v, int64_t wait_ms,
                    struct dz_err *err)
{
    struct dz_vfs *fs = NULL;
    struct dz_db **db = &m->volume_dbs[m->volume_count];
    int rc = open_db(v, wait_ms, db, err);
    if (rc < 0)
        return rc;
    m->volume_count++;
    const struct dz_vfs_opts opts = {.db = *db,
                                     .readonly = v->readonly,
                                     .noatime = v->readonly,
                                     .keep_orphans = m->wakes,
                                     .limit_bytes = v->limit_bytes};
    rc = dz_vfs_open(&opts, &fs, err);
    if (rc == 0)
        rc = mount_one(m, v, fs, err);
    if (rc < 0)
        dz_vfs_abandon(fs);
    return rc;
}

int dz_cell_volumes_open(struct dz_cell_machine *m, struct dz_started *s, struct dz_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < s->volume_count && rc == 0; i++) {
        rc = open_one(m, &s->volumes[i], s->lock_wait_ms, err);
        if (rc < 0)
            rc = dz_wrap(err, rc == DZ_ENOENT ? DZ_EVOLUME : rc, "volume %s", s->volumes[i].name);
    }
    return rc;
}

void dz_cell_volumes_close(struct dz_cell_machine *m)
{
    if (m->vfs)
        dz_vfs_unmount_all(m->vfs);
    while (m->volume_count > 0) {
        struct dz_db *db = m->volume_dbs[--m->volume_count];
        (void)dz_db_close(db, false, NULL); /* an error loses nothing: the WAL has everything */
    }
}

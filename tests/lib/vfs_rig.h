/* SPDX-License-Identifier: MIT
 *
 * vfs_rig.h - a disk on a simulated device, for tests of the vfs. A test makes, closes, reopens and
 * crashes it, with or without an image below. Include it once.
 */
#ifndef DZ_TESTS_VFS_RIG_H
#define DZ_TESTS_VFS_RIG_H

#include "base/buf.h"
#include "base/mem.h"
#include "db/db.h"
#include "db/db_sim.h"
#include "vfs/vfs_at.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RIG_SHA "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

struct rig {
    struct dz_db_sim *sim, *image_sim; /* image_sim NULL: no image */
    int fd[2], image_fd;               /* used if on_files, instead of sim and image_sim */
    bool on_files, strict;
    bool ahead; /* on files, opened by handles of dz_db_prepare() */
    struct dz_db *db, *image;
    struct dz_vfs *v;
    int64_t clock_ns; /* advances by 1 us at each reading */
    struct dz_vfs_opts opts;
    struct dz_err err;
};

static inline int64_t rig_now(void *arg)
{
    struct rig *r = arg;
    return r->clock_ns += 1000;
}

/* Make a device with an empty disk. */
static inline struct dz_db_sim *rig_device(uint64_t seed, const char *image_sha)
{
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    struct dz_db_sim *sim = dz_db_sim_new(seed);
    struct dz_err err = {0};
    if (!sim || dz_db_template(&dz_vfs_schema, &t, &err) < 0 ||
        dz_db_sim_load(sim, DZ_DB_FILE_MAIN, t.p, t.len) < 0) {
        (void)fprintf(stderr, "rig: %s\n", err.msg);
        abort();
    }
    dz_buf_release(&t);
    if (image_sha) {
        struct dz_db *db;
        const struct dz_db_opts opts = {.schema = &dz_vfs_schema};
        if (dz_db_open_disk(&db, dz_db_sim_disk(sim), &opts, &err) < 0 ||
            dz_vfs_bind_image(db, image_sha, &err) < 0 || dz_db_close(db, false, &err) < 0) {
            (void)fprintf(stderr, "rig: %s\n", err.msg);
            abort();
        }
    }
    return sim;
}

/* Use the content of a (closed) device as the image of a new disk. */
static inline struct dz_db_sim *rig_image_of(struct dz_db_sim *from)
{
    size_t n;
    const void *p = dz_db_sim_bytes(from, DZ_DB_FILE_MAIN, &n);
    struct dz_db_sim *sim = dz_db_sim_new(1);
    if (!sim || dz_db_sim_load(sim, DZ_DB_FILE_MAIN, p, n) < 0)
        abort();
    return sim;
}

static inline int rig_open_ahead(struct rig *r, const struct dz_db_opts *opts)
{
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    struct dz_db *prepared = NULL;
    int rc = dz_db_template(&dz_vfs_schema, &t, &r->err);
    if (!rc)
        rc = dz_db_prepare(&prepared, opts, t.p, t.len, &r->err);
    dz_buf_release(&t);
    if (rc)
        return rc;
    dz_vfs_prepare(prepared);
    return dz_db_open_prepared(&r->db, prepared, dup(r->fd[0]), dup(r->fd[1]), &r->err);
}

static inline int rig_open_dbs(struct rig *r)
{
    const struct dz_db_opts disk = {.schema = &dz_vfs_schema, .strict = r->strict};
    const struct dz_db_opts below = {.schema = &dz_vfs_schema, .immutable = true};
    int rc;
    if (r->on_files) { /* duplicates, because the handle closes its descriptors */
        rc = r->ahead ? rig_open_ahead(r, &disk)
                      : dz_db_open_fds(&r->db, dup(r->fd[0]), dup(r->fd[1]), &disk, &r->err);
        if (!rc && r->image_fd >= 0 && !r->image)
            rc = dz_db_open_fds(&r->image, dup(r->image_fd), -1, &below, &r->err);
        return rc;
    }
    rc = dz_db_open_disk(&r->db, dz_db_sim_disk(r->sim), &disk, &r->err);
    if (!rc && r->image_sim && !r->image)
        rc = dz_db_open_disk(&r->image, dz_db_sim_disk(r->image_sim), &below, &r->err);
    return rc;
}

static inline int rig_open(struct rig *r)
{
    r->err = (struct dz_err){0};
    int rc = rig_open_dbs(r);
    r->opts.db = r->db;
    r->opts.image = r->image;
    r->opts.image_sha256 = r->image ? RIG_SHA : NULL;
    r->opts.now_ns = rig_now;
    r->opts.arg = r;
    if (!rc)
        rc = dz_vfs_open(&r->opts, &r->v, &r->err);
    if (rc && r->db) {
        (void)dz_db_close(r->db, true, NULL);
        r->db = NULL;
    }
    return rc;
}

static inline int rig_close(struct rig *r)
{
    int rc = dz_vfs_close(r->v, &r->err);
    int rc2 = r->db ? dz_db_close(r->db, false, &r->err) : 0;
    r->v = NULL;
    r->db = NULL;
    return rc ? rc : rc2;
}

/* Simulate kill -9: nothing more is written. */
static inline void rig_crash(struct rig *r)
{
    dz_vfs_abandon(r->v);
    (void)dz_db_close(r->db, true, NULL);
    r->v = NULL;
    r->db = NULL;
}

static inline void rig_free(struct rig *r)
{
    if (r->v)
        rig_crash(r);
    if (r->db)
        (void)dz_db_close(r->db, true, NULL);
    if (r->image)
        (void)dz_db_close(r->image, true, NULL);
    dz_db_sim_free(r->sim);
    dz_db_sim_free(r->image_sim);
    for (int i = 0; r->on_files && i < 3; i++)
        if ((i < 2 ? r->fd[i] : r->image_fd) >= 0)
            (void)close(i < 2 ? r->fd[i] : r->image_fd);
    *r = (struct rig){0};
}

static inline struct rig rig_make(uint64_t seed)
{
    return (struct rig){.sim = rig_device(seed, NULL), .image_fd = -1, .clock_ns = 1000000000000};
}

/* A rig must not move while it is open, because the disk has a pointer to it. */
static inline void rig_start(struct rig *r)
{
    *r = rig_make(1);
    if (rig_open(r)) {
        (void)fprintf(stderr, "rig: %s\n", r->err.msg);
        abort();
    }
}

/* Make the closed disk of *r the image of a new empty disk. */
static inline void rig_put_below(struct rig *r)
{
    r->image_sim = rig_image_of(r->sim);
    dz_db_sim_free(r->sim);
    r->sim = rig_device(7, RIG_SHA);
}

/* Copy the closed device of *r, and its image, to nameless files. */
static inline int rig_file_of(struct dz_db_sim *sim)
{
    const char *tmp = getenv("TMPDIR");
    int fd = open(tmp ? tmp : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    size_t n = 0;
    const void *p = sim ? dz_db_sim_bytes(sim, DZ_DB_FILE_MAIN, &n) : NULL;
    if (fd < 0 || (n && write(fd, p, n) != (ssize_t)n))
        abort();
    return fd;
}

static inline void rig_put_on_files(struct rig *r)
{
    r->fd[0] = rig_file_of(r->sim);
    r->fd[1] = rig_file_of(NULL);
    r->image_fd = r->image_sim ? rig_file_of(r->image_sim) : -1;
    dz_db_sim_free(r->sim);
    dz_db_sim_free(r->image_sim);
    r->sim = r->image_sim = NULL;
    r->on_files = true;
}

/* ---- short ways to do things, as root, from "/" ---------------------------------------- */

static const struct dz_vfs_who rig_root = {.root = DZ_VFS_ROOT, .umask = 022};

static inline struct dz_vfs_path rig_path(const char *path)
{
    return (struct dz_vfs_path){DZ_VFS_ROOT, path};
}

/* The inode of a path; 0: there is none. */
static inline uint64_t rig_ino(struct rig *r, const char *path)
{
    uint64_t ino = 0;
    struct dz_vfs_attr a;
    if (dz_vfs_stat_at(r->v, &rig_root, rig_path(path), false, &a) == 0)
        ino = a.ino;
    return ino;
}

static inline int rig_mkdir(struct rig *r, const char *path)
{
    return dz_vfs_mkdir_at(r->v, &rig_root, rig_path(path), 0755);
}

/* Replace the content of a file, which is made if it is missing. */
static inline int rig_put(struct rig *r, const char *path, const void *data, size_t n)
{
    uint64_t ino;
    int rc =
        dz_vfs_open_at(r->v, &rig_root, rig_path(path), O_WRONLY | O_CREAT | O_TRUNC, 0644, &ino);
    if (rc)
        return rc;
    ssize_t done = dz_vfs_write(r->v, ino, 0, data, n);
    dz_vfs_unref(r->v, ino);
    return done < 0 ? (int)done : done == (ssize_t)n ? 0 : -EIO;
}

/* The whole content, which the caller frees with dz_free(); NULL: it cannot be read. */
static inline char *rig_get(struct rig *r, const char *path, size_t *ret_n)
{
    struct dz_vfs_attr a;
    if (dz_vfs_stat_at(r->v, &rig_root, rig_path(path), true, &a) || a.size > (64u << 20))
        return NULL;
    char *p = dz_alloc(a.size + 1);
    if (p && dz_vfs_read(r->v, a.ino, 0, p, a.size) != (ssize_t)a.size) {
        dz_free(p);
        return NULL;
    }
    if (p)
        p[a.size] = '\0';
    *ret_n = a.size;
    return p;
}

#endif

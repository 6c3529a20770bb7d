/* SPDX-License-Identifier: MIT
 *
 * blob_file.c - a store that is a directory: an object is a file, its key the file's name.
 *
 * A writer has a temporary file, ".KEY.N.tmp". A commit has three steps, and a power cut
 * between them leaves this:
 *
 *     fsync the file         KEY as it was; a temporary file, which the next sweep removes
 *     rename it to KEY       KEY as it was, or new and whole
 *     fsync the directory    KEY as it was, or new and whole
 *     (done)                 KEY new and whole
 *
 * So the name never leads to bytes that a power cut may take back. If the caller has claimed
 * the object (blob.h), the rename comes first, because the caller then removes what is not whole.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "blob/blob.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NAME_TEXT = DZ_BLOB_KEY_MAX + 32,
    TRIES_MAX = 1000, /* names that crashed writers may have taken */
};

struct file_store {
    struct dz_blobs head;
    int dir;
    atomic_uint serial; /* of temporary files */
    atomic_uint open;   /* readers and writers */
    char path[];        /* for messages */
};

struct file_in {
    struct dz_blob_in head;
    struct file_store *store;
};

struct file_out {
    struct dz_blob_out head;
    struct file_store *store;
    char temp[NAME_TEXT];
    char key[DZ_BLOB_KEY_MAX + 1];
    bool done;   /* renamed: there is no temporary file */
    bool synced; /* the bytes are durable */
};

static struct file_store *store_of(struct dz_blobs *s)
{
    return (struct file_store *)s;
}

static void leave(struct file_store *f)
{
    unsigned before = atomic_fetch_sub(&f->open, 1);
    assert(before > 0);
}

/* --- reading --------------------------------------------------------------------- */

static int in_read(struct dz_blob_in *in, void *buf, size_t n, uint64_t at, struct dz_err *err)
{
    return dz_fd_pread(in->fd, buf, n, at, err);
}

static void in_close(struct dz_blob_in *in)
{
    leave(((struct file_in *)in)->store);
    dz_fd_close(&in->fd);
    dz_free(in);
}

static const struct dz_blob_in_ops in_ops = {in_read, in_close};

static int file_in_open(struct dz_blobs *s, const char *key, struct dz_blob_in **ret_in,
                        struct dz_err *err)
{
    struct file_store *f = store_of(s);
    struct stat st;
    DZ_AUTO(dz_fd_close) int fd = openat(f->dir, key, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0)
        return dz_fail_sys(err, errno, "open %s/%s", f->path, key);
    if (!S_ISREG(st.st_mode))
        return dz_fail(err, DZ_EINVAL, "open %s/%s: not a regular file", f->path, key);
    struct file_in *in = dz_zalloc(sizeof *in);
    if (!in)
        return dz_fail(err, DZ_ENOMEM, "open %s/%s: out of memory", f->path, key);
    in->head =
        (struct dz_blob_in){.ops = &in_ops, .size = (uint64_t)st.st_size, .fd = DZ_TAKE_FD(fd)};
    in->store = f;
    (void)atomic_fetch_add(&f->open, 1);
    *ret_in = &in->head;
    return 0;
}

/* --- writing --------------------------------------------------------------------- */

static int out_write(struct dz_blob_out *out, const void *data, size_t n, struct dz_err *err)
{
    return dz_fd_write(out->fd, data, n, err);
}

static int sync_bytes(struct file_out *o, struct dz_err *err)
{
    const struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = o->head.time_ms / 1000, .tv_nsec = o->head.time_ms % 1000 * DZ_NS_PER_MS}};
    if (!o->synced && o->head.time_ms > 0 && futimens(o->head.fd, times) < 0)
        return dz_fail_sys(err, errno, "set the time of %s/%s", o->store->path, o->key);
    if (!o->synced && fsync(o->head.fd) < 0)
        return dz_fail_sys(err, errno, "sync %s/%s", o->store->path, o->key);
    o->synced = true;
    return 0;
}

static int out_sync(struct dz_blob_out *out, struct dz_err *err)
{
    return sync_bytes((struct file_out *)out, err);
}

static void out_rename(struct dz_blob_out *out, const char *key)
{
    struct file_out *o = (struct file_out *)out;
    (void)snprintf(o->key, sizeof o->key, "%s", key);
}

static int out_commit(struct dz_blob_out *out, struct dz_err *err)
{
    struct file_out *o = (struct file_out *)out;
    const struct file_store *f = o->store;
    assert(!o->done);
    int rc = out->claimed ? 0 : sync_bytes(o, err);
    if (rc < 0)
        return rc;
    rc = out->only_new ? renameat2(f->dir, o->temp, f->dir, o->key, RENAME_NOREPLACE)
                       : renameat(f->dir, o->temp, f->dir, o->key);
    if (rc < 0)
        return dz_fail_sys(err, errno, "rename to %s/%s", f->path, o->key);
    o->done = true;
    rc = out->claimed ? sync_bytes(o, err) : 0;
    if (rc == 0 && fsync(f->dir) < 0)
        rc = dz_fail_sys(err, errno, "sync the directory %s", f->path);
    return rc;
}

static void out_close(struct dz_blob_out *out)
{
    struct file_out *o = (struct file_out *)out;
    if (!o->done)
        (void)unlinkat(o->store->dir, o->temp, 0); /* if that fails, the next sweep does it */
    leave(o->store);
    dz_fd_close(&out->fd);
    dz_free(o);
}

static const struct dz_blob_out_ops out_ops = {.write = out_write,
                                               .commit = out_commit,
                                               .close = out_close,
                                               .sync = out_sync,
                                               .rename = out_rename};

static int file_out_open(struct dz_blobs *s, const char *key, struct dz_blob_out **ret_out,
                         struct dz_err *err)
{
    struct file_store *f = store_of(s);
    struct file_out *o = dz_zalloc(sizeof *o);
    if (!o)
        return dz_fail(err, DZ_ENOMEM, "write %s/%s: out of memory", f->path, key);
    *o = (struct file_out){.head = {.ops = &out_ops, .fd = -1}, .store = f};
    (void)snprintf(o->key, sizeof o->key, "%s", key);
    for (int i = 0; i < TRIES_MAX && o->head.fd < 0; i++) {
        (void)snprintf(o->temp, sizeof o->temp, ".%s.%u.tmp", key, atomic_fetch_add(&f->serial, 1));
        o->head.fd = openat(f->dir, o->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (o->head.fd < 0 && errno != EEXIST)
            break;
    }
    if (o->head.fd < 0) {
        int rc = dz_fail_sys(err, errno, "write %s/%s", f->path, key);
        dz_free(o);
        return rc;
    }
    (void)atomic_fetch_add(&f->open, 1);
    *ret_out = &o->head;
    return 0;
}

/* --- the rest -------------------------------------------------------------------- */

static int file_stat(struct dz_blobs *s, const char *key, uint64_t *ret_size, struct dz_err *err)
{
    struct file_store *f = store_of(s);
    struct stat st;
    if (fstatat(f->dir, key, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return dz_fail_sys(err, errno, "look for %s/%s", f->path, key);
    if (!S_ISREG(st.st_mode))
        return dz_fail(err, DZ_EINVAL, "%s/%s is not a regular file", f->path, key);
    *ret_size = (uint64_t)st.st_size;
    return 0;
}

static int file_remove(struct dz_blobs *s, const char *key, struct dz_err *err)
{
    struct file_store *f = store_of(s);
    if (unlinkat(f->dir, key, 0) < 0)
        return errno == ENOENT ? 0 : dz_fail_sys(err, errno, "remove %s/%s", f->path, key);
    if (fsync(f->dir) < 0)
        return dz_fail_sys(err, errno, "sync the directory %s", f->path);
    return 0;
}

/* Call fn with every name but "." and "..", until fn returns non-zero. */
static int each_name(struct file_store *f,
                     int (*fn)(struct file_store *f, const char *name, void *arg,
                               struct dz_err *err),
                     void *arg, struct dz_err *err)
{
    int fd = openat(f->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    int rc = 0;
    if (!d) {
        rc = dz_fail_sys(err, errno, "list %s", f->path);
        dz_fd_close(&fd);
        return rc;
    }
    while (rc == 0) {
        errno = 0;
        const struct dirent *e = readdir(d);
        if (!e) {
            rc = errno ? dz_fail_sys(err, errno, "list %s", f->path) : 0;
            break;
        }
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = fn(f, e->d_name, arg, err);
    }
    (void)closedir(d);
    return rc;
}

struct listing {
    int (*fn)(void *arg, const char *key, uint64_t size);
    void *arg;
};

static int list_one(struct file_store *f, const char *name, void *arg, struct dz_err *err)
{
    struct listing *l = arg;
    uint64_t size = 0;
    if (name[0] == '.' || strlen(name) > DZ_BLOB_KEY_MAX)
        return 0;
    int rc = file_stat(&f->head, name, &size, err);
    if (rc == DZ_ENOENT || rc == DZ_EINVAL)
        return 0; /* removed meanwhile, or not one of our files */
    return rc < 0 ? rc : l->fn(l->arg, name, size) != 0;
}

static int file_list(struct dz_blobs *s, int (*fn)(void *arg, const char *key, uint64_t size),
                     void *arg, struct dz_err *err)
{
    struct listing l = {fn, arg};
    int rc = each_name(store_of(s), list_one, &l, err);
    return rc < 0 ? rc : 0;
}

static int sweep_one(struct file_store *f, const char *name, void *arg, struct dz_err *err)
{
    (void)arg;
    if (name[0] != '.' || !dz_str_ends(dz_str(name), DZ_STR(".tmp")))
        return 0;
    if (unlinkat(f->dir, name, 0) < 0 && errno != ENOENT)
        return dz_fail_sys(err, errno, "remove %s/%s", f->path, name);
    return 0;
}

static int file_sweep(struct dz_blobs *s, struct dz_err *err)
{
    return each_name(store_of(s), sweep_one, NULL, err);
}

static void file_close(struct dz_blobs *s)
{
    struct file_store *f = store_of(s);
    assert(atomic_load(&f->open) == 0);
    dz_fd_close(&f->dir);
    dz_free(f);
}

static const struct dz_blobs_ops file_ops = {
    .stat = file_stat,
    .in_open = file_in_open,
    .out_open = file_out_open,
    .remove = file_remove,
    .list = file_list,
    .sweep = file_sweep,
    .close = file_close,
};

int dz_blobs_open_dir(const char *path, struct dz_blobs **ret_store, struct dz_err *err)
{
    int rc = dz_fd_mkdirs(AT_FDCWD, path, 0700, err);
    return rc < 0 ? rc : dz_blobs_find_dir(path, ret_store, err);
}

int dz_blobs_find_dir(const char *path, struct dz_blobs **ret_store, struct dz_err *err)
{
    DZ_AUTO(dz_fd_close) int dir = dz_fd_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, err);
    if (dir < 0)
        return dir;
    size_t n = strlen(path) + 1;
    struct file_store *f = dz_zalloc(sizeof *f + n);
    if (!f)
        return dz_fail(err, DZ_ENOMEM, "open the store %s: out of memory", path);
    f->head.ops = &file_ops;
    f->dir = DZ_TAKE_FD(dir);
    memcpy(f->path, path, n);
    *ret_store = &f->head;
    return 0;
}

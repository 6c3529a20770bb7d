/* SPDX-License-Identifier: MIT
 *
 * image_store.c - the directories of the store, names, and opening files in it.
 *
 * Reading needs no lock: files appear complete and never change. Building, removing and repairing
 * hold the lock of the store.
 */
#include "image/image_int.h"

#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const parts[] = {"files", "modules", "memory",  "packs", "tags",
                                    "cache", "logs",    "scratch", "refs"};

int dz_image_store_open(const char *data, struct dz_image_store **ret_store, struct dz_err *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/images", data) >= (int)sizeof path)
        return dz_fail(err, DZ_ELIMIT, "the path of the data directory is too long");
    int rc = dz_fd_mkdirs(AT_FDCWD, path, 0700, err);
    if (rc < 0)
        return rc;
    struct dz_image_store *s = dz_zalloc(sizeof *s);
    if (!s)
        return dz_fail(err, DZ_ENOMEM, "open the store of images: out of memory");
    char full[PATH_MAX]; /* tools that run in another directory get paths below it */
    s->path = realpath(path, full) ? dz_str_dup(dz_str(full)) : NULL;
    rc = s->dir = dz_fd_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, err);
    for (size_t i = 0; rc >= 0 && i < DZ_ARRAY_LEN(parts); i++)
        rc = dz_fd_mkdirs(s->dir, parts[i], 0700, err);
    if (rc >= 0 && !s->path)
        rc = dz_fail(err, DZ_ENOMEM, "open the store of images: out of memory");
    if (rc < 0)
        dz_image_store_close(s);
    else
        *ret_store = s;
    return rc < 0 ? rc : 0;
}

void dz_image_store_close(struct dz_image_store *s)
{
    if (!s)
        return;
    dz_fd_close(&s->dir);
    dz_free(s->path);
    dz_free(s);
}

int dz_image_lock(const struct dz_image_store *s, int *ret_fd, struct dz_err *err)
{
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(s->dir, "lock", O_RDWR | O_CREAT, 0600, err);
    if (fd < 0)
        return fd;
    int rc = dz_fd_lock(fd, DZ_FD_LOCK_EXCLUSIVE, err);
    if (rc == DZ_EBUSY)
        return dz_fail(err, rc, "another doze process is changing the store of images; try again");
    if (rc == 0)
        *ret_fd = DZ_TAKE_FD(fd);
    return rc;
}

void dz_image_unlock(int *lock)
{
    struct dz_err err;
    int rc = *lock < 0 ? 0 : dz_fd_lock(*lock, DZ_FD_LOCK_NONE, &err);
    if (rc < 0)
        dz_log(DZ_LOG_WARN, "image_lock_kept", dz_log_err(&err));
    dz_fd_close(lock);
}

void dz_image_store_guard(struct dz_image_store *s, dz_image_guard_fn *guard, void *arg)
{
    s->guard = guard;
    s->guard_arg = arg;
}

/* --- files ------------------------------------------------------------------------- */

void dz_image_file_path(char out[static DZ_IMAGE_PATH], const char *sha256)
{
    (void)snprintf(out, DZ_IMAGE_PATH, "files/%s.doze", sha256);
}

void dz_image_manifest_path(char out[static DZ_IMAGE_PATH], const char *sha256)
{
    (void)snprintf(out, DZ_IMAGE_PATH, "files/%s.manifest", sha256);
}

void dz_image_module_path(char out[static DZ_IMAGE_PATH], const char *sha256)
{
    (void)snprintf(out, DZ_IMAGE_PATH, "modules/%s", sha256);
}

void dz_image_pack_path(char out[static DZ_IMAGE_PATH], const char *sha256)
{
    (void)snprintf(out, DZ_IMAGE_PATH, "packs/%s", sha256);
}

bool dz_image_exists(const struct dz_image_store *s, const char *path)
{
    return faccessat(s->dir, path, F_OK, 0) == 0;
}

int dz_image_work_file(const struct dz_image_store *s, char out[static DZ_IMAGE_PATH],
                       struct dz_err *err)
{
    char id[DZ_ID_TEXT];
    int rc = dz_id_new("work", id, err);
    if (rc < 0)
        return rc;
    (void)snprintf(out, DZ_IMAGE_PATH, "scratch/%s", id);
    return dz_fd_open(s->dir, out, O_RDWR | O_CREAT | O_EXCL, 0600, err);
}

int dz_image_publish(const struct dz_image_store *s, int fd, const char *work, const char *path,
                     struct dz_err *err)
{
    char dir[16];
    (void)snprintf(dir, sizeof dir, "%.*s", (int)strcspn(path, "/"), path);
    if (fchmod(fd, 0444) < 0 || fsync(fd) < 0)
        return dz_fail_sys(err, errno, "write %s/%s", s->path, path);
    if (renameat(s->dir, work, s->dir, path) < 0)
        return dz_fail_sys(err, errno, "rename to %s/%s", s->path, path);
    return dz_fd_sync_dir(s->dir, dir, err);
}

int dz_image_hash_fd(int fd, char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err)
{
    enum {
        STEP = 1 << 18
    };
    uint8_t digest[DZ_SHA256_BYTES];
    DZ_AUTO(dz_sha256_release) struct dz_sha256 h = {0};
    uint8_t *step = dz_alloc(STEP);
    int rc = step ? dz_sha256_init(&h, err) : dz_fail(err, DZ_ENOMEM, "hash a file");
    ssize_t n = 1;
    for (off_t at = 0; rc == 0 && n > 0; at += n) {
        n = pread(fd, step, STEP, at);
        if (n > 0)
            dz_sha256_update(&h, step, (size_t)n);
        else if (n < 0)
            rc = dz_fail_sys(err, errno, "read a file to hash it");
    }
    if (rc == 0)
        rc = dz_sha256_final(&h, digest, err);
    if (rc == 0)
        (void)dz_sha256_hex(digest, ret_sha256);
    dz_free(step);
    return rc;
}

/* --- names --------------------------------------------------------------------------- */

static bool word_ok(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!plain && (i == 0 || !strchr("._-", c)))
            return false;
    }
    return n > 0;
}

int dz_image_full_name(const char *name, char out[static DZ_IMAGE_NAME_MAX + 1], struct dz_err *err)
{
    size_t n = strcspn(name, ":");
    const char *tag = name[n] ? name + n + 1 : "latest";
    if (!word_ok(name, n) || !word_ok(tag, strlen(tag)) ||
        n + 1 + strlen(tag) > DZ_IMAGE_NAME_MAX) {
        char quoted[DZ_STR_QUOTED];
        return dz_fail(
            err, DZ_EINVAL,
            "%s is not the name of an image: it must be NAME or NAME:TAG, both of a-z, 0-9, '.', "
            "'_' and '-', beginning with a letter or digit",
            dz_str_quote(dz_str(name), quoted));
    }
    (void)snprintf(out, DZ_IMAGE_NAME_MAX + 1, "%.*s:%s", (int)n, name, tag);
    return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * image_steps.c - what the builds of Dockerfiles keep in the cache: the disk after each step, and
 * the image that all steps gave.
 *
 *     cache/step-KEY.doze     a disk over the image in FROM, with what the steps so far wrote
 *     cache/result-KEY        the 64 digits of an image
 *
 * The key of a step is a hash of the key before it and of everything that the step depends on, so a
 * step is done again if it or any step before it has changed.
 */
#include "image/image_dockerfile.h"

#include "base/fd.h"
#include "base/mem.h"
#include "image/image_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FORMAT = 1, /* increased when the same steps give another result */
};

static void add(struct dz_sha256 *h, const char *text)
{
    dz_sha256_update(h, text ? text : "", (text ? strlen(text) : 0) + 1);
}

static void add_list(struct dz_sha256 *h, const char *const *list)
{
    for (; list && *list; list++)
        add(h, *list);
    add(h, "");
}

int dz_step_key(const char *before, const struct dz_docker_step *s, const char *content,
                char ret[static DZ_SHA256_HEX], struct dz_err *err)
{
    const uint32_t numbers[] = {FORMAT, (uint32_t)s->kind, s->mode};
    uint8_t digest[DZ_SHA256_BYTES];
    DZ_AUTO(dz_sha256_release) struct dz_sha256 h = {0};
    int rc = dz_sha256_init(&h, err);
    if (rc < 0)
        return rc;
    dz_sha256_update(&h, numbers, sizeof numbers);
    add(&h, before);
    add_list(&h, s->argv);
    add_list(&h, s->env);
    add(&h, s->user);
    add(&h, s->workdir);
    add(&h, s->to);
    add(&h, s->chown);
    add(&h, content);
    rc = dz_sha256_final(&h, digest, err);
    if (rc == 0)
        (void)dz_sha256_hex(digest, ret);
    return rc;
}

static void step_path(char out[static DZ_IMAGE_PATH], const char *key)
{
    (void)snprintf(out, DZ_IMAGE_PATH, "cache/step-%s.doze", key);
}

bool dz_step_known(const struct dz_image_store *s, const char *key)
{
    char path[DZ_IMAGE_PATH];
    step_path(path, key);
    return dz_image_exists(s, path);
}

/* Copy a disk completely or not at all; the target is replaced. */
static int copy_disk(int from_dir, const char *from, int to_dir, const char *to, struct dz_err *err)
{
    char part[DZ_IMAGE_PATH * 2 + 32];
    struct stat st;
    (void)snprintf(part, sizeof part, "%s.%ld.part", to, (long)getpid());
    DZ_AUTO(dz_fd_close) int in = dz_fd_open(from_dir, from, O_RDONLY, 0, err);
    if (in < 0)
        return in;
    if (dz_fd_stat(in, &st) < 0)
        return dz_fail_sys(err, errno, "look at %s", from);
    DZ_AUTO(dz_fd_close)
    int out = dz_fd_open(to_dir, part, O_WRONLY | O_CREAT | O_TRUNC, 0600, err);
    int rc = out < 0 ? out : dz_image_copy_range(in, 0, (uint64_t)st.st_size, out, err);
    if (rc == 0 && (fsync(out) < 0 || renameat(to_dir, part, to_dir, to) < 0))
        rc = dz_fail_sys(err, errno, "write %s", to);
    if (rc < 0)
        (void)unlinkat(to_dir, part, 0);
    return rc;
}

int dz_step_load(const struct dz_image_store *s, const char *key, const char *file,
                 struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    step_path(path, key);
    return copy_disk(s->dir, path, AT_FDCWD, file, err);
}

int dz_step_keep(const struct dz_image_store *s, const char *key, const char *file,
                 struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    step_path(path, key);
    return copy_disk(AT_FDCWD, file, s->dir, path, err);
}

static int result_path(const char *key, const struct dz_image *config,
                       char out[static DZ_IMAGE_PATH], struct dz_err *err)
{
    uint8_t digest[DZ_SHA256_BYTES];
    char hex[DZ_SHA256_HEX];
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    dz_buf_addf(&text, "%s\n", key);
    dz_image_print_config(config, &text);
    int rc = text.err ? dz_fail(err, text.err, "the settings of the image are too large")
                      : dz_sha256(text.p, text.len, digest, err);
    if (rc == 0)
        (void)snprintf(out, DZ_IMAGE_PATH, "cache/result-%s", dz_sha256_hex(digest, hex));
    return rc;
}

int dz_steps_result(struct dz_image_store *s, const char *key, const struct dz_image *config,
                    char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    int rc = result_path(key, config, path, err);
    return rc < 0 ? rc : dz_image_known_result(s, path, ret_sha256);
}

int dz_steps_remember(const struct dz_image_store *s, const char *key,
                      const struct dz_image *config, const char *sha256, struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    int rc = result_path(key, config, path, err);
    return rc < 0 ? rc : dz_fd_replace(s->dir, path, sha256, strlen(sha256), 0600, err);
}

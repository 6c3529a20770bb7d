/* SPDX-License-Identifier: MIT
 *
 * image_base.c - the memory of a machine that sleeps in an image, kept flat beside the
 * prepared modules: made, opened, compared with what would be made now.
 */
#include "image/image_int.h"

#include "base/fd.h"
#include "base/mem.h"
#include "cell/cell_base.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    STEP = 1 << 18,
};

void dz_image_base_path(char out[static DZ_IMAGE_PATH], const char *sha256)
{
    (void)snprintf(out, DZ_IMAGE_PATH, "memory/%s", sha256);
}

/* Into a new file in scratch/, whose name is in work: its descriptor. */
static int make(struct dz_image_store *s, int fd, const struct dz_image *image,
                char work[static DZ_IMAGE_PATH], struct dz_err *err)
{
    int modules[DZ_IMAGE_MODULES_MAX];
    size_t count = 0, missing = 0;
    DZ_AUTO(dz_fd_close) int out = dz_image_work_file(s, work, err);
    int rc = out < 0 ? out : dz_image_modules(s, image, modules, &count, &missing, err);
    const struct dz_cell_base base = {.image_fd = fd,
                                      .image_sha256 = image->sha256,
                                      .module_fds = modules,
                                      .module_count = count,
                                      .out_fd = out,
                                      .timeout_ms = DZ_IMAGE_CALL_MS};
    if (rc == 0)
        rc = dz_cell_base_write(&base, err);
    for (size_t i = 0; i < count; i++)
        dz_fd_close(&modules[i]);
    if (rc < 0 && out >= 0)
        (void)unlinkat(s->dir, work, 0);
    return rc < 0 ? rc : DZ_TAKE_FD(out);
}

int dz_image_base_prepare(struct dz_image_store *s, int fd, const struct dz_image *image,
                          struct dz_err *err)
{
    char work[DZ_IMAGE_PATH], path[DZ_IMAGE_PATH];
    dz_image_base_path(path, image->sha256);
    DZ_AUTO(dz_fd_close) int out = make(s, fd, image, work, err);
    int rc = out < 0 ? out : dz_image_publish(s, out, work, path, err);
    if (rc < 0 && out >= 0)
        (void)unlinkat(s->dir, work, 0);
    return rc;
}

/* 1 when two files have the same bytes. */
static int same_bytes(int a, int b, struct dz_err *err)
{
    DZ_AUTO(dz_freep) char *p = dz_alloc(STEP), *q = dz_alloc(STEP);
    ssize_t n = 1;
    if (!p || !q)
        return dz_fail(err, DZ_ENOMEM, "compare two files: out of memory");
    for (off_t at = 0; n > 0; at += n) {
        n = pread(a, p, STEP, at);
        if (n < 0)
            return dz_fail_sys(err, errno, "read the memory of an image");
        if (pread(b, q, STEP, at) != n || memcmp(p, q, (size_t)n) != 0)
            return 0;
    }
    return 1;
}

int dz_image_base_check(struct dz_image_store *s, int fd, const struct dz_image *image, bool repair,
                        struct dz_err *err)
{
    char work[DZ_IMAGE_PATH], path[DZ_IMAGE_PATH];
    dz_image_base_path(path, image->sha256);
    DZ_AUTO(dz_fd_close) int fresh = make(s, fd, image, work, err);
    if (fresh < 0)
        return fresh;
    DZ_AUTO(dz_fd_close) int is = openat(s->dir, path, O_RDONLY | O_CLOEXEC);
    int same = is < 0 ? 0 : same_bytes(is, fresh, err);
    int rc = same == 0 && repair ? dz_image_publish(s, fresh, work, path, err) : 0;
    if (same != 0 || !repair || rc < 0)
        (void)unlinkat(s->dir, work, 0);
    return rc < 0 ? rc : same;
}

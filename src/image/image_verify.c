/* SPDX-License-Identifier: MIT
 *
 * image_verify.c - is an image, and what was made from it, what it should be? What
 * can be made anew from the image is, when asked for.
 */
#include "image/image_int.h"

#include "base/fd.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

struct verifying {
    struct dz_image_store *s;
    const struct dz_image_verify *how;
    const char *sha256;
    int fd;
    uint64_t count;
};

DZ_PRINTF(2, 3) static void tell(struct verifying *v, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    v->how->tell(v->how->arg, text);
}

/* The bytes, and what they say. 0, or what makes looking further pointless. */
static int check_file(struct verifying *v, struct dz_image *ret_image, struct dz_err *err)
{
    char sha256[DZ_SHA256_HEX];
    int rc = dz_image_hash_fd(v->fd, sha256, err);
    if (rc == 0 && strcmp(sha256, v->sha256) != 0) {
        tell(v,
             "the image %.12s is damaged: its bytes have the hash %.12s; build or import it "
             "again",
             v->sha256, sha256);
        v->count++;
        return 1;
    }
    if (rc == 0)
        rc = dz_image_scan(v->fd, sha256, ret_image, err);
    if (rc == DZ_ECORRUPT || rc == DZ_EINVAL) {
        tell(v, "the image %.12s: %s", v->sha256, err->msg);
        v->count++;
        return 1;
    }
    return rc;
}

static int check_manifest(struct verifying *v, const struct dz_image *image, struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    DZ_AUTO(dz_buf_release) struct dz_buf is = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf should = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    dz_image_manifest_path(path, v->sha256);
    dz_image_print(image, &should);
    int rc = dz_fd_read_file(v->s->dir, path, &is, NULL);
    if (rc == 0 && is.len == should.len && memcmp(is.p, should.p, is.len) == 0)
        return 0;
    tell(v, "the manifest of the image %.12s is %s%s", v->sha256,
         rc == DZ_ENOENT ? "missing" : "damaged", v->how->repair ? ": made anew" : "");
    if (!v->how->repair) {
        v->count++;
        return 0;
    }
    return dz_fd_replace(v->s->dir, path, should.p, should.len, 0444, err);
}

static int check_module(struct verifying *v, const struct dz_image_program *p, struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    struct dz_err why = {0};
    int rc = dz_image_check_module(v->s, p, &why);
    if (rc == 0)
        return 0;
    bool made = false;
    if (v->how->repair) {
        dz_image_module_path(path, p->sha256);
        (void)unlinkat(v->s->dir, path, 0);
        rc = dz_image_prepare(v->s, v->fd, p, dz_image_copy_program, &why);
        if (rc == DZ_EINVAL || rc == DZ_EUNSUPPORTED || rc == DZ_ELIMIT)
            return 0; /* it only looks like a module */
        made = rc == 0;
        if (rc == DZ_ENOSPC || rc == DZ_ENOMEM)
            return dz_fail(err, rc, "%s", why.msg);
    }
    tell(v, "the prepared module of %s%s%s", p->path,
         made              ? " was damaged or missing: made anew"
         : rc == DZ_ENOENT ? " is missing"
                           : " is damaged: ",
         made || rc == DZ_ENOENT ? "" : why.msg);
    v->count += !made;
    return 0;
}

static int check_base(struct verifying *v, const struct dz_image *image, struct dz_err *err)
{
    int same =
        image->machine_bytes ? dz_image_base_check(v->s, v->fd, image, v->how->repair, err) : 1;
    if (same != 0)
        return same < 0 ? same : 0;
    tell(v, "the prepared memory of the image %.12s is damaged or missing%s", v->sha256,
         v->how->repair ? ": made anew" : "");
    v->count += !v->how->repair;
    return 0;
}

int dz_image_verify(struct dz_image_store *s, const char *sha256, const struct dz_image_verify *how,
                    uint64_t *ret_count, struct dz_err *err)
{
    struct dz_image image = {0};
    struct verifying v = {.s = s, .how = how, .sha256 = sha256};
    DZ_AUTO(dz_fd_close) int lock = -1;
    int rc = how->repair ? dz_image_lock(s, &lock, err) : 0;
    DZ_AUTO(dz_fd_close) int fd = rc < 0 ? -1 : dz_image_open(s, sha256, err);
    if (rc < 0 || fd < 0)
        return rc < 0 ? rc : fd;
    v.fd = fd;
    rc = check_file(&v, &image, err);
    if (rc == 0)
        rc = check_manifest(&v, &image, err);
    for (size_t i = 0; rc == 0 && i < image.program_count; i++) {
        if (how->stop && how->stop(how->arg))
            rc = dz_fail(err, DZ_ECANCELED, "stopped");
        else
            rc = check_module(&v, &image.programs[i], err);
    }
    if (rc == 0)
        rc = check_base(&v, &image, err);
    dz_image_release(&image);
    if (rc >= 0)
        *ret_count = v.count;
    return rc < 0 ? rc : 0;
}

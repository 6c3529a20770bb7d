/* SPDX-License-Identifier: MIT
 *
 * control_image.h - images: list, get, delete, collect, verify.
 */
#ifndef DZ_CONTROL_CONTROL_IMAGE_H
#define DZ_CONTROL_CONTROL_IMAGE_H

#include "control/control_why.h"
#include "image/image.h"

enum {
    DZ_CONTROL_IMAGES_MAX = 256, /* images that may be open at once */
};

/* List the images whose hash is greater than `after`, in order. image is NULL if it is damaged. */
typedef int dz_control_image_fn(void *arg, const char *sha256, const char *tags,
                                const struct dz_image *image);
struct dz_control_images_page {
    const char *after; /* NULL: begin with the first */
    size_t limit;
    char last[DZ_SHA256_HEX]; /* set to the last one listed */
    bool more;                /* set if there are more after it */
};
DZ_NODISCARD int dz_control_images(struct dz_control *e, struct dz_control_images_page *page,
                                   dz_control_image_fn *fn, void *arg, struct dz_why *why);
/* Get one image, which the caller releases. Its names are appended. */
DZ_NODISCARD int dz_control_image(struct dz_control *e, const char *name,
                                  struct dz_image *ret_image, struct dz_buf *tags,
                                  struct dz_why *why);
/* DZ_EEXIST: a sandbox uses it. */
DZ_NODISCARD int dz_control_image_delete(struct dz_control *e, const char *name,
                                         struct dz_why *why);
/* Remove images that have no name and that nothing uses; with `cache` also what was fetched and
 * compiled for builds. Runs on the loop's thread, because it only unlinks. DZ_EBUSY during a build.
 */
DZ_NODISCARD int dz_control_image_gc(struct dz_control *e, bool cache, struct dz_image_gc *ret_gc,
                                     struct dz_why *why);

/* Look for damage in images, in a separate process; one such request at a time (DZ_EBUSY).
 * DZ_EINVAL: there is no such image. fn is called once, unless the request is dropped: with the
 * output of `doze image verify --json`, or with the reason why there is no result. */
struct dz_control_verify;
typedef void dz_control_verified_fn(void *arg, struct dz_str json, const struct dz_why *why);
struct dz_control_verify_spec {
    const char *image; /* NULL: all of them */
    bool repair;       /* rebuild what can be derived from the image */
    dz_control_verified_fn *fn;
    void *arg;
};
DZ_NODISCARD int dz_control_image_verify(struct dz_control *e,
                                         const struct dz_control_verify_spec *s,
                                         struct dz_control_verify **ret_verify, struct dz_why *why);
void dz_control_image_verify_drop(struct dz_control_verify *v); /* kills it; NULL is fine */

#endif

/* SPDX-License-Identifier: MIT
 *
 * image_export.c - images as files outside the store.
 *
 * The id of an image is the hash of its bytes, so the names that people gave it cannot be part of
 * them. An exported file is the image, then the names, then a footer that says where the image ends
 * (docs/format/image.md). SQLite ignores bytes after the last page that a database counts.
 */
#include "image/image_int.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
    COPY_STEP = 1 << 18,
    NAMES_MAX = 64 << 10, /* bytes of the names, each with a newline */
    SIZE_BYTES = 8,
    MAGIC_BYTES = 16,
    FOOT_BYTES = SIZE_BYTES + MAGIC_BYTES,
};

static const char magic[MAGIC_BYTES + 1] = "doze image names";

int dz_image_copy(int from, int to, struct dz_err *err)
{
    uint8_t *step = dz_alloc(COPY_STEP);
    ssize_t n = 1;
    int rc = step ? 0 : dz_fail(err, DZ_ENOMEM, "copy an image: out of memory");
    while (rc == 0 && n > 0) {
        n = read(from, step, COPY_STEP);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n < 0)
            rc = dz_fail_sys(err, errno, "read the image");
        else if (n > 0)
            rc = dz_fd_write(to, step, (size_t)n, err);
    }
    dz_free(step);
    return rc;
}

int dz_image_export(struct dz_image_store *s, const char *sha256, int to, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf names = DZ_BUF_INIT(NAMES_MAX + FOOT_BYTES);
    DZ_AUTO(dz_fd_close) int from = dz_image_open(s, sha256, err);
    int rc = from < 0 ? from : dz_image_names(s, sha256, &names, err);
    off_t size = rc < 0 ? 0 : lseek(from, 0, SEEK_END);
    if (rc == 0 && (size < 0 || lseek(from, 0, SEEK_SET) < 0))
        rc = dz_fail_sys(err, errno, "read the image");
    if (rc == 0)
        rc = dz_image_copy(from, to, err);
    if (rc < 0 || names.len == 0)
        return rc;
    for (size_t i = 0; i < names.len; i++)
        names.p[i] = names.p[i] == ' ' ? '\n' : names.p[i];
    dz_buf_adds(&names, "\n");
    for (int shift = 56; shift >= 0; shift -= 8) {
        const char byte = (char)((uint64_t)size >> shift & 0xff);
        dz_buf_add(&names, &byte, 1);
    }
    dz_buf_add(&names, magic, MAGIC_BYTES);
    return names.err ? dz_fail(err, names.err, "the names of the image are too long for a file")
                     : dz_fd_write(to, names.p, names.len, err);
}

int dz_image_cut_names(int fd, struct dz_buf *ret_names, struct dz_err *err)
{
    uint8_t foot[FOOT_BYTES];
    char text[NAMES_MAX];
    off_t end = lseek(fd, 0, SEEK_END);
    if (end < FOOT_BYTES || pread(fd, foot, sizeof foot, end - FOOT_BYTES) != FOOT_BYTES ||
        memcmp(foot + SIZE_BYTES, magic, MAGIC_BYTES) != 0)
        return 0;
    uint64_t size = 0, names_end = (uint64_t)end - FOOT_BYTES;
    for (int i = 0; i < SIZE_BYTES; i++)
        size = size << 8 | foot[i];
    if (size > names_end || names_end - size > NAMES_MAX)
        return dz_fail(err, DZ_ECORRUPT, "the names at its end are damaged");
    size_t n = (size_t)(names_end - size);
    if (pread(fd, text, n, (off_t)size) != (ssize_t)n || ftruncate(fd, (off_t)size) < 0)
        return dz_fail_sys(err, errno, "cut the names off the image");
    if (ret_names)
        dz_buf_add(ret_names, text, n);
    return 0;
}

/* Give the image the names in its file, except names of other images: a file from elsewhere must
 * not take them away. */
static int give_names(struct dz_image_store *s, struct dz_str names, const char *sha256,
                      struct dz_buf *ret_left, struct dz_err *err)
{
    char full[DZ_IMAGE_NAME_MAX + 1], typed[DZ_IMAGE_NAME_MAX + 1], other[DZ_SHA256_HEX];
    struct dz_str line;
    int rc = 0;
    while (rc == 0 && names.n > 0 && dz_str_split(&names, '\n', &line)) {
        if (line.n == 0)
            continue;
        if (line.n > DZ_IMAGE_NAME_MAX)
            return dz_fail(err, DZ_ECORRUPT, "the names at its end are damaged");
        (void)snprintf(typed, sizeof typed, "%.*s", DZ_STR_ARG(line));
        rc = dz_image_full_name(typed, full, err);
        if (rc == 0)
            rc = dz_image_read_name(s, full, other, err);
        if (rc == 0 && strcmp(other, sha256) != 0)
            dz_buf_addf(ret_left, "%s%s", ret_left->len ? " " : "", full);
        else if (rc == DZ_ENOENT)
            rc = dz_image_tag(s, full, sha256, err);
    }
    return rc;
}

int dz_image_import(struct dz_image_store *s, int from, const struct dz_image_build *how,
                    char ret_sha256[static DZ_SHA256_HEX], struct dz_buf *ret_left,
                    struct dz_err *err)
{
    char work[DZ_IMAGE_PATH], full[DZ_IMAGE_NAME_MAX + 1];
    DZ_AUTO(dz_buf_release) struct dz_buf names = DZ_BUF_INIT(NAMES_MAX);
    DZ_AUTO(dz_fd_close) int lock = -1;
    int rc = how->name ? dz_image_full_name(how->name, full, err) : 0;
    if (rc == 0)
        rc = dz_image_lock(s, &lock, err);
    if (rc < 0)
        return rc;
    DZ_AUTO(dz_fd_close) int fd = dz_image_work_file(s, work, err);
    rc = fd < 0 ? fd : dz_image_copy(from, fd, err);
    if (rc == 0)
        rc = dz_image_cut_names(fd, &names, err);
    if (rc == 0)
        rc = dz_image_deploy(s, fd, work, how, ret_sha256, err);
    if (fd >= 0)
        (void)unlinkat(s->dir, work, 0);
    if (rc < 0)
        return rc;
    return how->name ? dz_image_tag(s, full, ret_sha256, err)
                     : give_names(s, dz_str_n(names.p, names.len), ret_sha256, ret_left, err);
}

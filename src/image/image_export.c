/* SPDX-License-Identifier: MIT
 *
 * image_export.c - images as files outside the store.
 *
 * The name of an image is the hash of its bytes, so neither its pack nor the names that people gave
 * it can be among them. An exported file is the image, its pack, the names, and a foot with the end
 * of each (docs/format/image.md). SQLite ignores bytes behind the last page that a database counts.
 */
#include "image/image_int.h"

#include "base/fd.h"
#include "base/mem.h"
#include "vfs/vfs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    COPY_STEP = 1 << 18,
    NAMES_MAX = 64 << 10, /* bytes of the names, each with a newline */
    SIZE_BYTES = 8,
    MAGIC_BYTES = 16,
    FOOT_BYTES = SIZE_BYTES + MAGIC_BYTES,
};

static const char magic[MAGIC_BYTES + 1] = "doze image names";
static const char pack_magic[MAGIC_BYTES + 1] = "doze image parts"; /* two sizes before it */

int dz_image_copy_range(int from, uint64_t at, uint64_t size, int to, struct dz_err *err)
{
    uint8_t *step = dz_alloc(COPY_STEP);
    int rc = step ? 0 : dz_fail(err, DZ_ENOMEM, "copy an image: out of memory");
    while (rc == 0 && size > 0) {
        ssize_t n = pread(from, step, size < COPY_STEP ? (size_t)size : COPY_STEP, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            rc = n < 0 ? dz_fail_sys(err, errno, "read the image")
                       : dz_fail(err, DZ_ECORRUPT, "the image ends early");
        else
            rc = dz_fd_write(to, step, (size_t)n, err);
        at += n > 0 ? (uint64_t)n : 0;
        size -= n > 0 ? (uint64_t)n : 0;
    }
    dz_free(step);
    return rc;
}

/* Copy the rest of a file that may be a pipe. */
static int copy_all(int from, int to, struct dz_err *err)
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

/* --- the parts of a file ------------------------------------------------------------------- */

static void add_size(struct dz_buf *b, uint64_t size)
{
    for (int shift = 56; shift >= 0; shift -= 8) {
        const char byte = (char)(size >> shift & 0xff);
        dz_buf_add(b, &byte, 1);
    }
}

static uint64_t size_at(const uint8_t *p)
{
    uint64_t size = 0;
    for (int i = 0; i < SIZE_BYTES; i++)
        size = size << 8 | p[i];
    return size;
}

static int file_size(int fd, uint64_t *ret_size, struct dz_err *err)
{
    struct stat st;
    if (dz_fd_stat(fd, &st) < 0)
        return dz_fail_sys(err, errno, "look at an image");
    *ret_size = (uint64_t)st.st_size;
    return 0;
}

int dz_image_parts(int fd, struct dz_image_parts *ret, struct dz_err *err)
{
    uint8_t foot[FOOT_BYTES + SIZE_BYTES] = {0};
    char text[NAMES_MAX];
    uint64_t end = 0;
    *ret = (struct dz_image_parts){.names = DZ_BUF_INIT(NAMES_MAX)};
    int rc = file_size(fd, &end, err);
    ret->image = end;
    if (rc < 0 || end < sizeof foot)
        return rc;
    rc = dz_fd_pread(fd, foot, sizeof foot, end - sizeof foot, err);
    const uint8_t *kind = foot + sizeof foot - MAGIC_BYTES;
    const bool pack = rc == 0 && memcmp(kind, pack_magic, MAGIC_BYTES) == 0;
    if (rc < 0 || (!pack && memcmp(kind, magic, MAGIC_BYTES) != 0))
        return rc;
    end -= pack ? sizeof foot : FOOT_BYTES;
    ret->image = size_at(foot + SIZE_BYTES);
    ret->pack = pack ? size_at(foot) : 0;
    if (ret->image > end || ret->pack > end - ret->image ||
        end - ret->image - ret->pack > NAMES_MAX || (pack && ret->image % DZ_VFS_PACK_PAGE))
        return dz_fail(err, DZ_ECORRUPT, "the %snames at its end are damaged",
                       pack ? "pack and " : "");
    const size_t n = (size_t)(end - ret->image - ret->pack);
    rc = dz_fd_pread(fd, text, n, ret->image + ret->pack, err);
    if (rc == 0)
        dz_buf_add(&ret->names, text, n);
    return rc;
}

/* For a file of a store the pack is in the store, named by the manifest. */
static int pack_in_store(const char *path, int *ret_fd, struct dz_err *err)
{
    char near[DZ_IMAGE_PATH];
    struct dz_image image;
    struct dz_str stem = dz_str(path);
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    if (!dz_str_ends(stem, DZ_STR(".doze")) || stem.n >= sizeof near - 64)
        return 0;
    (void)snprintf(near, sizeof near, "%.*s.manifest", (int)(stem.n - 5), stem.p);
    if (dz_fd_read_file(AT_FDCWD, near, &text, NULL) < 0 ||
        dz_image_parse(dz_str_n(text.p, text.len), &image, NULL) < 0)
        return 0;
    int rc = 0;
    if (image.pack_sha256[0]) {
        const char *slash = strrchr(path, '/');
        (void)snprintf(near, sizeof near, "%.*s/../packs/%s", slash ? (int)(slash - path) : 1,
                       slash ? path : ".", image.pack_sha256);
        rc = *ret_fd = dz_fd_open(AT_FDCWD, near, O_RDONLY, 0, err);
    }
    dz_image_release(&image);
    return rc < 0 ? rc : 0;
}

int dz_image_pack_of_file(const char *path, int *ret_fd, uint64_t *ret_at, struct dz_err *err)
{
    struct dz_image_parts parts;
    *ret_fd = -1;
    *ret_at = 0;
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(AT_FDCWD, path, O_RDONLY, 0, err);
    int rc = fd < 0 ? fd : dz_image_parts(fd, &parts, err);
    if (fd < 0)
        return rc;
    dz_buf_release(&parts.names);
    if (rc < 0 || parts.pack == 0)
        return rc < 0 ? rc : pack_in_store(path, ret_fd, err);
    *ret_at = parts.image;
    *ret_fd = DZ_TAKE_FD(fd);
    return 0;
}

/* --- out ------------------------------------------------------------------------------------- */

static int put_foot(struct dz_image_store *s, const char *sha256, uint64_t image, uint64_t pack,
                    int to, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release)
    struct dz_buf text = DZ_BUF_INIT(NAMES_MAX + FOOT_BYTES + SIZE_BYTES);
    int rc = dz_image_names(s, sha256, &text, err);
    if (rc < 0 || (text.len == 0 && pack == 0))
        return rc;
    for (size_t i = 0; i < text.len; i++)
        text.p[i] = text.p[i] == ' ' ? '\n' : text.p[i];
    if (text.len > 0)
        dz_buf_adds(&text, "\n");
    if (pack)
        add_size(&text, pack);
    add_size(&text, image);
    dz_buf_add(&text, pack ? pack_magic : magic, MAGIC_BYTES);
    return text.err ? dz_fail(err, text.err, "the names of the image are too long for a file")
                    : dz_fd_write(to, text.p, text.len, err);
}

int dz_image_export(struct dz_image_store *s, const char *sha256, int to, struct dz_err *err)
{
    struct dz_image image = {0};
    DZ_AUTO(dz_fd_close) int pack = -1;
    DZ_AUTO(dz_fd_close) int from = dz_image_open(s, sha256, err);
    uint64_t image_size = 0, pack_size = 0;
    int rc = from < 0 ? from : dz_image_load(s, sha256, &image, err);
    if (rc < 0)
        return rc;
    rc = dz_image_open_pack(s, &image, &pack, err);
    dz_image_release(&image);
    if (rc == 0)
        rc = file_size(from, &image_size, err);
    if (rc == 0 && pack >= 0)
        rc = file_size(pack, &pack_size, err);
    if (rc == 0)
        rc = dz_image_copy_range(from, 0, image_size, to, err);
    if (rc == 0 && pack >= 0)
        rc = dz_image_copy_range(pack, 0, pack_size, to, err);
    return rc < 0 ? rc : put_foot(s, sha256, image_size, pack_size, to, err);
}

/* --- in --------------------------------------------------------------------------------------- */

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

/* Split the file into the image alone and its pack. */
static int take_apart(struct dz_image_file *f, struct dz_image_parts *parts, struct dz_err *err)
{
    int rc = dz_image_parts(f->fd, parts, err);
    if (rc == 0 && parts->pack)
        rc = f->pack_fd = dz_image_work_file(f->store, f->pack_work, err);
    if (rc >= 0 && parts->pack)
        rc = dz_image_copy_range(f->fd, parts->image, parts->pack, f->pack_fd, err);
    if (rc >= 0 && ftruncate(f->fd, (off_t)parts->image) < 0)
        rc = dz_fail_sys(err, errno, "cut the image out of its file");
    return rc < 0 ? rc : 0;
}

int dz_image_import(struct dz_image_store *s, int from, const struct dz_image_build *how,
                    char ret_sha256[static DZ_SHA256_HEX], struct dz_buf *ret_left,
                    struct dz_err *err)
{
    char full[DZ_IMAGE_NAME_MAX + 1];
    struct dz_image_file f;
    struct dz_image_parts parts = {.names = DZ_BUF_INIT(NAMES_MAX)};
    DZ_AUTO(dz_image_unlock) int lock = -1;
    int rc = how->name ? dz_image_full_name(how->name, full, err) : 0;
    if (rc == 0)
        rc = dz_image_lock(s, &lock, err);
    if (rc < 0)
        return rc;
    rc = dz_image_file_new(s, &f, err);
    if (rc == 0)
        rc = copy_all(from, f.fd, err);
    if (rc == 0)
        rc = take_apart(&f, &parts, err);
    if (rc == 0)
        rc = dz_image_deploy(s, &f, how, ret_sha256, err);
    dz_image_file_release(&f);
    if (rc == 0)
        rc = how->name ? dz_image_tag(s, full, ret_sha256, err)
                       : give_names(s, dz_str_n(parts.names.p, parts.names.len), ret_sha256,
                                    ret_left, err);
    dz_buf_release(&parts.names);
    return rc;
}

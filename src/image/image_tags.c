/* SPDX-License-Identifier: MIT
 *
 * image_tags.c - lists images and their names, and removes files that lose their last name.
 *
 * References are not counted; they are found when they are needed: from a name to its image, from
 * an image by its manifest to modules. So no count can be wrong.
 */
#include "image/image_oci.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SHORT_DIGITS = 6, /* digits of a shortened hash */
    TAG_FILE_MAX = 256,
};

DZ_VEC(names, char *);

static void names_release(struct names *l)
{
    for (size_t i = 0; i < l->n; i++)
        dz_free(l->p[i]);
    dz_vec_release(l);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* List a directory of the store, in byte order. */
static int list(const struct dz_image_store *s, const char *part, struct names *ret,
                struct dz_err *err)
{
    int fd = dz_fd_open(s->dir, part, O_RDONLY | O_DIRECTORY, 0, err);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;
    if (!d)
        return fd < 0 ? fd : dz_fail_sys(err, errno, "list %s/%s", s->path, part);
    while (!ret->err && (e = readdir(d))) {
        char *copy = e->d_name[0] == '.' ? NULL : dz_str_dup(dz_str(e->d_name));
        if (copy && dz_vec_push(ret, copy) < 0)
            dz_free(copy);
    }
    (void)closedir(d);
    if (ret->err)
        return dz_fail(err, ret->err, "list %s/%s: it has too many entries", s->path, part);
    if (ret->n > 0)
        qsort(ret->p, ret->n, sizeof *ret->p, by_bytes);
    return 0;
}

static bool has(const struct names *l, char *name)
{
    return l->n > 0 && bsearch(&name, l->p, l->n, sizeof *l->p, by_bytes) != NULL;
}

int dz_image_read_name(const struct dz_image_store *s, const char *full,
                       char ret[static DZ_SHA256_HEX], struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    uint8_t digest[DZ_SHA256_BYTES];
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(TAG_FILE_MAX);
    (void)snprintf(path, sizeof path, "tags/%s", full);
    int rc = dz_fd_read_file(s->dir, path, &b, err);
    if (rc < 0)
        return rc;
    if (dz_sha256_parse(dz_str_trim(dz_str_n(b.p, b.len)), digest, NULL) < 0)
        return dz_fail(err, DZ_ECORRUPT, "%s/%s is damaged: remove it and tag the image again",
                       s->path, path);
    (void)dz_sha256_hex(digest, ret);
    return 0;
}

/* --- finding --------------------------------------------------------------------------- */

static bool is_image_file(const char *name)
{
    return strlen(name) == DZ_SHA256_HEX - 1 + 5 && strcmp(name + DZ_SHA256_HEX - 1, ".doze") == 0;
}

/* Find the only image whose hash begins with these digits. */
static int find_digits(const struct dz_image_store *s, const char *digits,
                       char ret[static DZ_SHA256_HEX], struct dz_err *err)
{
    struct names files = DZ_VEC_INIT(DZ_IMAGE_TAGS_MAX);
    int found = 0;
    int rc = list(s, "files", &files, err);
    for (size_t i = 0; rc == 0 && i < files.n; i++) {
        if (!is_image_file(files.p[i]) || strncmp(files.p[i], digits, strlen(digits)) != 0)
            continue;
        if (++found == 1)
            (void)snprintf(ret, DZ_SHA256_HEX, "%.64s", files.p[i]);
    }
    names_release(&files);
    if (rc == 0 && found > 1)
        return dz_fail(err, DZ_EINVAL, "%d images begin with %s; give more digits", found, digits);
    return rc < 0 ? rc : found;
}

static bool all_digits(const char *s)
{
    size_t n = strspn(s, "0123456789abcdef");
    return s[n] == '\0' && n >= SHORT_DIGITS && n < DZ_SHA256_HEX;
}

/* NAME:latest does not exist: find the only tag of NAME, if there is just one. */
static int find_only_tag(struct dz_image_store *s, const char *name,
                         char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err)
{
    struct names tags = DZ_VEC_INIT(DZ_IMAGE_TAGS_MAX);
    const char *only = NULL;
    int count = 0;
    int rc = list(s, "tags", &tags, err);
    for (size_t i = 0; rc == 0 && i < tags.n; i++) {
        size_t n = strlen(name);
        if (strncmp(tags.p[i], name, n) != 0 || tags.p[i][n] != ':')
            continue;
        only = tags.p[i];
        count++;
    }
    if (rc == 0 && count > 1)
        rc = dz_fail(err, DZ_EINVAL, "there are %d images %s, but no %s:latest; give a tag", count,
                     name, name);
    else if (rc == 0)
        rc = only ? dz_image_read_name(s, only, ret_sha256, err) : DZ_ENOENT;
    names_release(&tags);
    return rc;
}

/* --- references to registries ---------------------------------------------------------------
 *
 * refs/HASH, of the reference's text: 64 digits of its image, a newline, and the text. */

static int ref_path(char out[static DZ_IMAGE_PATH], const char *ref, struct dz_err *err)
{
    uint8_t digest[DZ_SHA256_BYTES];
    char hex[DZ_SHA256_HEX];
    int rc = dz_sha256(ref, strlen(ref), digest, err);
    (void)snprintf(out, DZ_IMAGE_PATH, "refs/%s", rc < 0 ? "-" : dz_sha256_hex(digest, hex));
    return rc;
}

int dz_image_put_ref(const struct dz_image_store *s, const char *ref, const char *sha256,
                     struct dz_err *err)
{
    char path[DZ_IMAGE_PATH], text[DZ_SHA256_HEX + DZ_OCI_TEXT_MAX];
    int rc = ref_path(path, ref, err);
    int n = snprintf(text, sizeof text, "%s\n%s\n", sha256, ref);
    return rc < 0 ? rc : dz_fd_replace(s->dir, path, text, (size_t)n, 0600, err);
}

/* The image that a file of refs/ names; DZ_ENOENT: the image is gone, or the file is damaged, which
 * pulling the image again mends. */
static int read_ref_file(const struct dz_image_store *s, const char *path,
                         char ret[static DZ_SHA256_HEX], struct dz_err *err)
{
    char image[DZ_IMAGE_PATH];
    uint8_t digest[DZ_SHA256_BYTES];
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(DZ_SHA256_HEX + DZ_OCI_TEXT_MAX);
    int rc = dz_fd_read_file(s->dir, path, &b, err);
    if (rc < 0)
        return rc;
    struct dz_str rest = dz_str_n(b.p, b.len), line;
    if (!dz_str_split(&rest, '\n', &line) || dz_sha256_parse(line, digest, NULL) < 0)
        return DZ_ENOENT;
    (void)dz_sha256_hex(digest, ret);
    dz_image_file_path(image, ret);
    return dz_image_exists(s, image) ? 0 : DZ_ENOENT;
}

int dz_image_read_ref(const struct dz_image_store *s, const char *ref,
                      char ret[static DZ_SHA256_HEX], struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    int rc = ref_path(path, ref, err);
    return rc < 0 ? rc : read_ref_file(s, path, ret, err);
}

static int find_ref(const struct dz_image_store *s, const char *name,
                    char ret[static DZ_SHA256_HEX], struct dz_err *err)
{
    struct dz_oci_ref ref;
    char text[DZ_OCI_TEXT_MAX];
    int rc = dz_oci_ref_parse(name, &ref, NULL);
    if (rc < 0) /* neither kind of name: the sentence is about those of images */
        return dz_image_full_name(name, text, err);
    rc = dz_image_read_ref(s, dz_oci_ref_text(&ref, text), ret, err);
    return rc == DZ_ENOENT
               ? dz_fail(err, rc, "the image %s has not been pulled: doze image pull %s", name,
                         name)
               : rc;
}

static int not_found(const struct dz_image_store *s, const char *full, struct dz_err *err)
{
    struct names files = DZ_VEC_INIT(DZ_IMAGE_TAGS_MAX);
    bool some = list(s, "files", &files, NULL) < 0 || files.n > 0;
    names_release(&files);
    if (some)
        return dz_fail(err, DZ_ENOENT, "there is no image %s; doze image ls lists the images",
                       full);
    return dz_fail(
        err, DZ_ENOENT,
        "there is no image %s, the store is empty: build images (doze image build RECIPE, "
        "or make images in doze's source) or import one (doze image import FILE)",
        full);
}

int dz_image_find(struct dz_image_store *s, const char *name, char ret_sha256[static DZ_SHA256_HEX],
                  struct dz_err *err)
{
    char full[DZ_IMAGE_NAME_MAX + 1];
    const char *digits = strncmp(name, "img_", 4) == 0 ? name + 4 : name;
    if (strchr(name, '/'))
        return find_ref(s, name, ret_sha256, err);
    int rc = all_digits(digits) ? find_digits(s, digits, ret_sha256, err) : 0;
    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = dz_image_full_name(name, full, err);
    if (rc == 0)
        rc = dz_image_read_name(s, full, ret_sha256, err);
    if (rc == DZ_ENOENT && !strchr(name, ':'))
        rc = find_only_tag(s, name, ret_sha256, err);
    return rc == DZ_ENOENT ? not_found(s, full, err) : rc;
}

int dz_image_load(struct dz_image_store *s, const char *sha256, struct dz_image *ret_image,
                  struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    dz_image_manifest_path(path, sha256);
    int rc = dz_fd_read_file(s->dir, path, &text, err);
    if (rc == 0)
        rc = dz_image_parse(dz_str_n(text.p, text.len), ret_image, err);
    if (rc == 0 && strcmp(ret_image->sha256, sha256) != 0) {
        dz_image_release(ret_image);
        rc = dz_fail(err, DZ_ECORRUPT, "it belongs to another image");
    }
    if (rc == DZ_EINVAL || rc == DZ_ECORRUPT || rc == DZ_ENOENT)
        return dz_wrap(err, rc == DZ_ENOENT ? rc : DZ_ECORRUPT,
                       "the manifest of the image %.12s: `doze image verify --repair` rebuilds it",
                       sha256);
    return rc;
}

int dz_image_open(struct dz_image_store *s, const char *sha256, struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    dz_image_file_path(path, sha256);
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(s->dir, path, O_RDONLY, 0, err);
    if (fd < 0)
        return fd;
    int rc = dz_fd_lock(fd, DZ_FD_LOCK_SHARED, err);
    struct stat st;
    if (rc == 0 && fstat(fd, &st) == 0 && st.st_nlink == 0)
        rc = DZ_ENOENT;
    if (rc < 0)
        return dz_fail(err, DZ_ENOENT, "the image %.12s is being removed", sha256);
    return DZ_TAKE_FD(fd);
}

int dz_image_open_pack(struct dz_image_store *s, const struct dz_image *image, int *ret_fd,
                       struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    int fd = -1;
    if (image->pack_sha256[0]) {
        dz_image_pack_path(path, image->pack_sha256);
        fd = dz_fd_open(s->dir, path, O_RDONLY, 0, err);
        if (fd < 0)
            return dz_wrap(err, fd, "the pack of the image %.12s: build or import the image again",
                           image->sha256);
    }
    *ret_fd = fd;
    return 0;
}

static bool had_before(const struct dz_image *i, size_t k)
{
    for (size_t j = 0; j < k; j++)
        if (strcmp(i->programs[j].sha256, i->programs[k].sha256) == 0)
            return true;
    return false;
}

int dz_image_modules(struct dz_image_store *s, const struct dz_image *image,
                     int ret_fds[static DZ_IMAGE_MODULES_MAX], size_t *ret_count,
                     size_t *ret_missing, struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    size_t n = 0, missing = 0;
    dz_image_base_path(path, image->sha256);
    int pack = -1, rc = dz_image_open_pack(s, image, &pack, err);
    if (rc < 0)
        return rc;
    if (pack >= 0)
        ret_fds[n++] = pack;
    int base = image->machine_bytes ? openat(s->dir, path, O_RDONLY | O_CLOEXEC) : -1;
    if (base >= 0)
        ret_fds[n++] = base;
    missing += image->machine_bytes && base < 0;
    for (size_t k = 0; k < image->program_count; k++) {
        if (had_before(image, k))
            continue;
        dz_image_module_path(path, image->programs[k].sha256);
        int fd = n < DZ_IMAGE_MODULES_MAX ? openat(s->dir, path, O_RDONLY | O_CLOEXEC) : -1;
        if (fd >= 0)
            ret_fds[n++] = fd;
        else if (n < DZ_IMAGE_MODULES_MAX && errno != ENOENT) {
            rc = dz_fail_sys(err, errno, "open %s/%s", s->path, path);
            while (n > 0)
                (void)close(ret_fds[--n]);
            return rc;
        } else
            missing++;
    }
    *ret_count = n;
    *ret_missing = missing;
    return 0;
}

/* --- names ------------------------------------------------------------------------------- */

/* Every NAME:TAG of this image: list them for people, or remove them. */
static int tags_of(const struct dz_image_store *s, const struct names *tags, const char *sha256,
                   struct dz_buf *text, bool remove, struct dz_err *err)
{
    char of[DZ_SHA256_HEX], path[DZ_IMAGE_PATH];
    for (size_t i = 0; i < tags->n; i++) {
        if (dz_image_read_name(s, tags->p[i], of, NULL) < 0 || strcmp(of, sha256) != 0)
            continue;
        if (text)
            dz_buf_addf(text, "%s%s", text->len ? " " : "", tags->p[i]);
        (void)snprintf(path, sizeof path, "tags/%s", tags->p[i]);
        if (remove && unlinkat(s->dir, path, 0) < 0)
            return dz_fail_sys(err, errno, "remove %s/%s", s->path, path);
    }
    return 0;
}

int dz_image_each(struct dz_image_store *s, dz_image_each_fn *fn, void *arg, struct dz_err *err)
{
    struct names files = DZ_VEC_INIT(DZ_IMAGE_TAGS_MAX), tags = DZ_VEC_INIT(DZ_IMAGE_TAGS_MAX);
    int rc = list(s, "files", &files, err);
    if (rc == 0)
        rc = list(s, "tags", &tags, err);
    for (size_t i = 0; rc == 0 && i < files.n; i++) {
        char sha256[DZ_SHA256_HEX];
        DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(1 << 20);
        if (!is_image_file(files.p[i]))
            continue;
        (void)snprintf(sha256, sizeof sha256, "%.64s", files.p[i]);
        rc = tags_of(s, &tags, sha256, &text, false, err);
        if (rc == 0)
            rc = fn(arg, sha256, text.p, err);
    }
    names_release(&files);
    names_release(&tags);
    return rc;
}

int dz_image_names(struct dz_image_store *s, const char *sha256, struct dz_buf *text,
                   struct dz_err *err)
{
    struct names tags = DZ_VEC_INIT(DZ_IMAGE_TAGS_MAX);
    int rc = list(s, "tags", &tags, err);
    if (rc == 0)
        rc = tags_of(s, &tags, sha256, text, false, err);
    names_release(&tags);
    return rc;
}

int dz_image_tag(struct dz_image_store *s, const char *name, const char *sha256, struct dz_err *err)
{
    char full[DZ_IMAGE_NAME_MAX + 1], path[DZ_IMAGE_PATH], text[DZ_SHA256_HEX + 1];
    int rc = dz_image_full_name(name, full, err);
    if (rc < 0)
        return rc;
    (void)snprintf(path, sizeof path, "tags/%s", full);
    (void)snprintf(text, sizeof text, "%s\n", sha256);
    return dz_fd_replace(s->dir, path, text, strlen(text), 0644, err);
}

/* --- removing ------------------------------------------------------------------------------ */

static void unlink_counted(const struct dz_image_store *s, const char *path, struct dz_image_gc *gc)
{
    struct stat st;
    if (fstatat(s->dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0 || unlinkat(s->dir, path, 0) < 0)
        return;
    gc->files++;
    gc->bytes += (uint64_t)st.st_size;
}

/* Remove the image's own files; DZ_EBUSY if it is running or needed. */
static int remove_image(const struct dz_image_store *s, const char *sha256, struct dz_image_gc *gc,
                        struct dz_err *err)
{
    char path[DZ_IMAGE_PATH];
    int rc = s->guard ? s->guard(s->guard_arg, sha256, err) : 0;
    if (rc < 0)
        return rc;
    dz_image_file_path(path, sha256);
    /* An exclusive lock requires a descriptor open for writing, which the owner can always get. */
    DZ_AUTO(dz_fd_close) int held = dz_fd_open(s->dir, path, O_RDONLY, 0, err);
    if (held < 0)
        return held;
    if (fchmod(held, 0600) < 0)
        return dz_fail_sys(err, errno, "change %s/%s", s->path, path);
    DZ_AUTO(dz_fd_close) int fd = openat(s->dir, path, O_RDWR | O_CLOEXEC);
    rc = fd < 0 ? dz_fail_sys(err, errno, "open %s/%s", s->path, path)
                : dz_fd_lock(fd, DZ_FD_LOCK_EXCLUSIVE, err);
    if (fchmod(held, 0444) < 0 && rc == 0)
        rc = dz_fail_sys(err, errno, "change %s/%s", s->path, path);
    if (rc == DZ_EBUSY)
        return dz_fail(err, rc, "the image %.12s is in use; delete its sandboxes first", sha256);
    if (rc < 0)
        return rc;
    unlink_counted(s, path, gc);
    dz_image_manifest_path(path, sha256);
    unlink_counted(s, path, gc);
    dz_image_base_path(path, sha256);
    unlink_counted(s, path, gc);
    return 0;
}

struct used {
    struct names modules; /* and packs: the hashes of the two never coincide */
    bool unknown;         /* an image could not be read: then nothing is known to be unused */
    struct dz_image_store *s;
};

static void note_used(struct used *u, const char *sha256)
{
    char *copy = dz_str_dup(dz_str(sha256));
    if (!copy || dz_vec_push(&u->modules, copy) < 0) {
        dz_free(copy);
        u->unknown = true;
    }
}

static int note_modules(void *arg, const char *sha256, const char *tags, struct dz_err *err)
{
    struct used *u = arg;
    struct dz_image image;
    (void)tags;
    (void)err;
    if (dz_image_load(u->s, sha256, &image, NULL) < 0) {
        u->unknown = true;
        return 0;
    }
    for (size_t i = 0; i < image.program_count; i++)
        note_used(u, image.programs[i].sha256);
    if (image.pack_sha256[0])
        note_used(u, image.pack_sha256);
    dz_image_release(&image);
    return 0;
}

/* Remove the files of one directory that no image uses. */
static int sweep_part(struct dz_image_store *s, const char *part, const struct used *used,
                      struct dz_image_gc *gc, struct dz_err *err)
{
    struct names files = DZ_VEC_INIT(DZ_IMAGE_TAGS_MAX);
    int rc = list(s, part, &files, err);
    for (size_t i = 0; rc == 0 && i < files.n; i++) {
        char path[DZ_IMAGE_PATH];
        if (has(&used->modules, files.p[i]))
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", part, files.p[i]);
        unlink_counted(s, path, gc);
    }
    names_release(&files);
    return rc;
}

/* Remove modules and packs that no image uses. */
static int sweep_unused(struct dz_image_store *s, struct dz_image_gc *gc, struct dz_err *err)
{
    struct used used = {.modules = DZ_VEC_INIT((size_t)DZ_IMAGE_TAGS_MAX * 8), .s = s};
    int rc = dz_image_each(s, note_modules, &used, err);
    if (used.modules.n > 0)
        qsort(used.modules.p, used.modules.n, sizeof *used.modules.p, by_bytes);
    if (rc == 0 && !used.unknown)
        rc = sweep_part(s, "modules", &used, gc, err);
    if (rc == 0 && !used.unknown)
        rc = sweep_part(s, "packs", &used, gc, err);
    names_release(&used.modules);
    return rc;
}

/* Remove memory of images that do not exist: left by an interrupted process. */
static int sweep_memory(const struct dz_image_store *s, struct dz_image_gc *gc, struct dz_err *err)
{
    struct names files = DZ_VEC_INIT(DZ_IMAGE_TAGS_MAX);
    int rc = list(s, "memory", &files, err);
    for (size_t i = 0; rc == 0 && i < files.n; i++) {
        char path[DZ_IMAGE_PATH];
        dz_image_file_path(path, files.p[i]);
        if (dz_image_exists(s, path))
            continue;
        dz_image_base_path(path, files.p[i]);
        unlink_counted(s, path, gc);
    }
    names_release(&files);
    return rc;
}

int dz_image_remove(struct dz_image_store *s, const char *name, struct dz_err *err)
{
    char sha256[DZ_SHA256_HEX], full[DZ_IMAGE_NAME_MAX + 1], path[DZ_IMAGE_PATH];
    struct names tags = DZ_VEC_INIT(DZ_IMAGE_TAGS_MAX);
    struct dz_image_gc gc = {0};
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(1 << 20);
    DZ_AUTO(dz_image_unlock) int lock = -1;
    int rc = dz_image_lock(s, &lock, err);
    if (rc == 0)
        rc = dz_image_find(s, name, sha256, err);
    if (rc == 0)
        rc = list(s, "tags", &tags, err);
    if (rc == 0)
        rc = tags_of(s, &tags, sha256, &text, false, err);
    bool named = rc == 0 && dz_image_full_name(name, full, NULL) == 0 && has(&tags, full);
    bool last = !named || !strchr(text.p, ' '); /* given by digits: remove all its names */
    if (rc == 0 && last)
        rc = remove_image(s, sha256, &gc, err);
    if (rc == 0 && last)
        rc = tags_of(s, &tags, sha256, NULL, true, err);
    if (rc == 0 && !last) {
        (void)snprintf(path, sizeof path, "tags/%s", full);
        rc = unlinkat(s->dir, path, 0) < 0 ? dz_fail_sys(err, errno, "remove %s", path) : 0;
    }
    if (rc == 0 && last)
        rc = sweep_unused(s, &gc, err);
    names_release(&tags);
    return rc;
}

/* --- tidying up ---------------------------------------------------------------------------- */

struct sweep {
    struct dz_image_store *s;
    struct dz_image_gc *gc;
};

static int sweep_image(void *arg, const char *sha256, const char *tags, struct dz_err *err)
{
    struct sweep *w = arg;
    if (*tags)
        return 0;
    int rc = remove_image(w->s, sha256, w->gc, err);
    return rc == DZ_EBUSY ? 0 : rc;
}

static int sweep_all(struct dz_image_store *s, const char *part, struct dz_image_gc *gc,
                     struct dz_err *err)
{
    struct names files = DZ_VEC_INIT(DZ_IMAGE_TAGS_MAX);
    int rc = list(s, part, &files, err);
    for (size_t i = 0; rc == 0 && i < files.n; i++) {
        char path[DZ_IMAGE_PATH];
        struct stat st;
        (void)snprintf(path, sizeof path, "%s/%s", part, files.p[i]);
        if (fstatat(s->dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
            rc = dz_fd_remove_tree(s->dir, path, err);
        else
            unlink_counted(s, path, gc);
    }
    names_release(&files);
    return rc;
}

/* References to images that are gone. */
static int sweep_refs(struct dz_image_store *s, struct dz_err *err)
{
    struct names refs = DZ_VEC_INIT(DZ_IMAGE_TAGS_MAX);
    int rc = list(s, "refs", &refs, err);
    for (size_t i = 0; rc == 0 && i < refs.n; i++) {
        char path[DZ_IMAGE_PATH], sha256[DZ_SHA256_HEX];
        (void)snprintf(path, sizeof path, "refs/%s", refs.p[i]);
        if (read_ref_file(s, path, sha256, NULL) < 0 && unlinkat(s->dir, path, 0) < 0)
            rc = dz_fail_sys(err, errno, "remove %s/%s", s->path, path);
    }
    names_release(&refs);
    return rc;
}

int dz_image_gc(struct dz_image_store *s, bool cache, struct dz_image_gc *ret_gc,
                struct dz_err *err)
{
    struct dz_image_gc gc = {0};
    struct sweep w = {s, &gc};
    DZ_AUTO(dz_image_unlock) int lock = -1;
    int rc = dz_image_lock(s, &lock, err);
    if (rc == 0)
        rc = dz_image_each(s, sweep_image, &w, err);
    if (rc == 0)
        rc = sweep_unused(s, &gc, err);
    if (rc == 0)
        rc = sweep_memory(s, &gc, err);
    if (rc == 0)
        rc = sweep_refs(s, err);
    if (rc == 0)
        /* a builder would hold the lock, so these files belong to no one */
        rc = sweep_all(s, "scratch", &gc, err);
    if (rc == 0 && cache)
        rc = sweep_all(s, "cache", &gc, err);
    if (rc == 0)
        *ret_gc = gc;
    return rc;
}

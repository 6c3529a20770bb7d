/* SPDX-License-Identifier: MIT
 *
 * image_feed.c - send files of this machine to the cell that assembles a disk. Their content is not
 * read here. Names in a directory are in byte order (tree_read.c), so equal trees give equal
 * images.
 */
#include "image/image_int.h"

#include "base/fd.h"
#include "base/mem.h"
#include "tree/tree.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct dz_feed {
    const struct dz_image_store *store;
    struct dz_recipe *r;
    size_t step; /* index + 1 of the open step; 0: none */
    struct dz_tree_read *tree;
    int fd;        /* the file whose bytes are being sent */
    bool owned;    /* fd belongs to the feed, not to the reader */
    bool given;    /* the name of a single file has been sent */
    size_t deb;    /* of packages: the next one to send */
    int layer;     /* LAYER: its file; -1 */
    uint64_t left; /* bytes of it that have not been sent */
    char text[2 * DZ_IMAGE_PATH];
    uint8_t data[DZ_CALL_DATA_MAX];
};

int dz_feed_new(const struct dz_image_store *store, struct dz_recipe *r, struct dz_feed **ret_feed,
                struct dz_err *err)
{
    struct dz_feed *f = dz_zalloc(sizeof *f);
    if (!f)
        return dz_fail(err, DZ_ENOMEM, "read the files of an image: out of memory");
    f->store = store;
    f->r = r;
    f->fd = f->layer = -1;
    *ret_feed = f;
    return 0;
}

static void close_file(struct dz_feed *f)
{
    if (f->owned)
        dz_fd_close(&f->fd);
    f->fd = -1;
}

static void close_step(struct dz_feed *f)
{
    close_file(f);
    dz_fd_close(&f->layer);
    dz_tree_read_close(f->tree);
    f->tree = NULL;
    f->step = 0;
    f->given = false;
    f->deb = 0;
}

void dz_feed_free(struct dz_feed *f)
{
    if (!f)
        return;
    close_step(f);
    dz_free(f);
}

static int open_step(struct dz_feed *f, size_t index, struct dz_err *err)
{
    const struct dz_step *s = &f->r->steps[index];
    close_step(f);
    f->step = index + 1;
    f->owned = s->kind != DZ_STEP_TREE;
    return f->owned ? 0 : dz_tree_read_open(s->source, false, &f->tree, err);
}

/* --- one file ----------------------------------------------------------------------- */

/* Send bytes of the open file: how many, 0 at its end. */
static int next_data(struct dz_feed *f, struct dz_call_msg *ret, struct dz_err *err)
{
    ssize_t n = read(f->fd, f->data, sizeof f->data);
    if (n < 0)
        return dz_fail_sys(err, errno, "read a file of the image");
    if (n == 0)
        close_file(f);
    *ret = (struct dz_call_msg){.tag = DZ_FEED_DATA, .data = f->data, .size = (size_t)n};
    return n > 0;
}

/* For FILE and compiled programs: send the name, then the bytes. */
static int next_single(struct dz_feed *f, const struct dz_step *s, struct dz_call_msg *ret,
                       struct dz_err *err)
{
    if (f->given) {
        *ret = (struct dz_call_msg){.tag = DZ_FEED_END};
        return 0;
    }
    f->given = true;
    *ret = (struct dz_call_msg){
        .tag = DZ_FEED_FILE, .value = s->mode, .data = s->path, .size = strlen(s->path)};
    if (s->fd >= 0) {
        f->fd = dup(s->fd);
        return f->fd < 0 || lseek(f->fd, 0, SEEK_SET) < 0
                   ? dz_fail_sys(err, errno, "open a program")
                   : 0;
    }
    int rc = f->fd = dz_fd_open(AT_FDCWD, s->source, O_RDONLY | O_NOFOLLOW, 0, err);
    return rc < 0 ? dz_wrap(err, rc, "[file %s]", s->label) : 0;
}

/* LAYER: its bytes, and again when the cell asks on after the end. */
static int next_layer(struct dz_feed *f, const struct dz_step *s, struct dz_call_msg *ret,
                      struct dz_err *err)
{
    const size_t n = f->left < sizeof f->data ? (size_t)f->left : sizeof f->data;
    if (!f->given) {
        f->given = true;
        f->left = s->bytes;
        *ret = (struct dz_call_msg){.tag = DZ_FEED_FILE};
        f->layer = dz_fd_open(AT_FDCWD, s->source, O_RDONLY, 0, err);
        return f->layer < 0 ? f->layer : 0;
    }
    if (n == 0) {
        dz_fd_close(&f->layer);
        f->given = false;
        *ret = (struct dz_call_msg){.tag = DZ_FEED_END};
        return 0;
    }
    int rc = dz_fd_pread(f->layer, f->data, n, s->at + (s->bytes - f->left), err);
    f->left -= n;
    *ret = (struct dz_call_msg){.tag = DZ_FEED_DATA, .data = f->data, .size = n};
    return rc;
}

/* APT: each package, its index and then its bytes. */
static int next_deb(struct dz_feed *f, const struct dz_step *s, struct dz_call_msg *ret,
                    struct dz_err *err)
{
    if (f->deb == s->deb_count) {
        *ret = (struct dz_call_msg){.tag = DZ_FEED_END};
        return 0;
    }
    int rc = f->fd = dz_deb_open(f->store, &s->debs[f->deb], err);
    *ret = (struct dz_call_msg){.tag = DZ_FEED_FILE, .value = f->deb++};
    return rc < 0 ? rc : 0;
}

/* --- a tree ----------------------------------------------------------------------------- */

static int entry(struct dz_feed *f, const struct dz_step *s, const struct dz_tree_entry *e,
                 struct dz_call_msg *ret, struct dz_err *err)
{
    static const uint32_t tags[] = {
        [DZ_TREE_DIR] = DZ_FEED_DIR, [DZ_TREE_FILE] = DZ_FEED_FILE, [DZ_TREE_LINK] = DZ_FEED_LINK};
    const char *dir = strcmp(s->path, "/") == 0 ? "" : s->path;
    int n = snprintf(f->text, DZ_IMAGE_PATH, "%s%s%s", dir, e->path[0] ? "/" : "", e->path);
    if (n >= DZ_PATH_MAX)
        return dz_fail(err, DZ_ELIMIT, "the path %.80s is too long for an image", f->text);
    if (n == 0)
        return 0; /* the root exists */
    f->fd = e->fd;
    *ret = (struct dz_call_msg){
        .tag = tags[e->kind], .value = e->st.st_mode & 0777u, .data = f->text, .size = (size_t)n};
    if (e->kind == DZ_TREE_LINK)
        ret->size += 1 + (size_t)snprintf(f->text + n + 1, DZ_IMAGE_PATH, "%s", e->link);
    return 1;
}

static int next_of_tree(struct dz_feed *f, const struct dz_step *s, struct dz_call_msg *ret,
                        struct dz_err *err)
{
    struct dz_tree_entry e;
    int rc = 0;
    while (rc == 0 && (rc = dz_tree_read_next(f->tree, &e, err)) == 0 && e.kind != DZ_TREE_END) {
        if (e.kind == DZ_TREE_SKIP && e.changed)
            return dz_fail(err, DZ_EIO, "%s/%s %s", s->source, e.path, e.why);
        if (e.kind != DZ_TREE_DIR_END &&
            e.kind != DZ_TREE_SKIP) /* devices and sockets are left out */
            rc = entry(f, s, &e, ret, err);
    }
    if (rc == 0)
        *ret = (struct dz_call_msg){.tag = DZ_FEED_END};
    return rc < 0 ? rc : 0;
}

int dz_feed_answer(void *host, const struct dz_call_msg *question, struct dz_call_msg *ret_answer,
                   struct dz_err *err)
{
    struct dz_feed *f = host;
    if (question->value >= f->r->step_count)
        return dz_fail(err, DZ_EIO, "the cell requested a step that does not exist");
    const struct dz_step *s = &f->r->steps[question->value];
    int rc = f->step == question->value + 1 ? 0 : open_step(f, (size_t)question->value, err);
    if (rc == 0 && f->fd >= 0)
        rc = next_data(f, ret_answer, err);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    if (s->kind == DZ_STEP_LAYER)
        return next_layer(f, s, ret_answer, err);
    if (s->kind == DZ_STEP_APT)
        return next_deb(f, s, ret_answer, err);
    if (f->tree)
        return next_of_tree(f, s, ret_answer, err);
    return next_single(f, s, ret_answer, err);
}

/* --- hashing ---------------------------------------------------------------------------------- */

int dz_feed_hash(struct dz_recipe *r, struct dz_step *step, struct dz_err *err)
{
    uint8_t digest[DZ_SHA256_BYTES];
    DZ_AUTO(dz_sha256_release) struct dz_sha256 h = {0};
    struct dz_feed *f = NULL;
    const struct dz_call_msg question = {.value = (uint64_t)(step - r->steps)};
    struct dz_call_msg m = {.tag = DZ_FEED_DIR};
    int rc = dz_sha256_init(&h, err);
    if (rc == 0)
        rc = dz_feed_new(NULL, r, &f, err);
    while (rc == 0 && m.tag != DZ_FEED_END) {
        rc = dz_feed_answer(f, &question, &m, err);
        const uint64_t head[3] = {m.tag, m.value, m.size};
        if (rc == 0)
            dz_sha256_update(&h, head, sizeof head);
        if (rc == 0)
            dz_sha256_update(&h, m.data, m.size);
    }
    dz_feed_free(f);
    if (rc == 0)
        rc = dz_sha256_final(&h, digest, err);
    if (rc == 0)
        (void)dz_sha256_hex(digest, step->got);
    return rc;
}

/* SPDX-License-Identifier: MIT
 *
 * image_feed.c - files of this machine as a stream, for the cell that puts a disk
 * together. No byte of them is looked at. Names in a directory come in byte order,
 * so equal trees give equal images.
 */
#include "image/image_int.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct dz_feed {
    struct dz_recipe *r;
    size_t step; /* index + 1 of the one that is open; 0: none */
    FTS *tree;
    size_t skip; /* bytes of a path of the tree before the part below it */
    int fd;      /* the file whose bytes come */
    bool given;  /* of a single file: its name */
    char text[2 * DZ_IMAGE_PATH];
    uint8_t data[DZ_CALL_DATA_MAX];
};

int dz_feed_new(struct dz_recipe *r, struct dz_feed **ret_feed, struct dz_err *err)
{
    struct dz_feed *f = dz_zalloc(sizeof *f);
    if (!f)
        return dz_fail(err, DZ_ENOMEM, "read the files of an image: out of memory");
    f->r = r;
    f->fd = -1;
    *ret_feed = f;
    return 0;
}

static void close_step(struct dz_feed *f)
{
    if (f->tree)
        (void)fts_close(f->tree);
    f->tree = NULL;
    dz_fd_close(&f->fd);
    f->step = 0;
    f->given = false;
}

void dz_feed_free(struct dz_feed *f)
{
    if (!f)
        return;
    close_step(f);
    dz_free(f);
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int open_step(struct dz_feed *f, size_t index, struct dz_err *err)
{
    const struct dz_step *s = &f->r->steps[index];
    char path[DZ_IMAGE_PATH];
    char *list[2] = {path, NULL};
    close_step(f);
    f->step = index + 1;
    if (s->kind != DZ_STEP_TREE)
        return 0;
    size_t n = strlen(s->source);
    while (n > 1 && s->source[n - 1] == '/')
        n--;
    if (snprintf(path, sizeof path, "%.*s", (int)n, s->source) >= (int)sizeof path)
        return dz_fail(err, DZ_ELIMIT, "the path %.80s is too long", s->source);
    f->skip = n;
    f->tree = fts_open(list, FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW, by_name);
    return f->tree ? 0 : dz_fail_sys(err, errno, "read the directory %s", s->source);
}

/* --- one file ----------------------------------------------------------------------- */

static int open_file(struct dz_feed *f, const char *path, struct dz_err *err)
{
    int rc = f->fd = dz_fd_open(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW, 0, err);
    return rc < 0 ? rc : 0;
}

/* Bytes of the open file: how many, 0 at its end. */
static int next_data(struct dz_feed *f, struct dz_call_msg *ret, struct dz_err *err)
{
    ssize_t n = read(f->fd, f->data, sizeof f->data);
    if (n < 0)
        return dz_fail_sys(err, errno, "read a file of the image");
    if (n == 0)
        dz_fd_close(&f->fd);
    *ret = (struct dz_call_msg){.tag = DZ_FEED_DATA, .data = f->data, .size = (size_t)n};
    return n > 0;
}

/* FILE, and what was compiled: its name, then its bytes. */
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
    int rc = open_file(f, s->source, err);
    return rc < 0 ? dz_wrap(err, rc, "[file %s]", s->label) : 0;
}

/* --- a tree ----------------------------------------------------------------------------- */

static int name_of(struct dz_feed *f, const struct dz_step *s, const FTSENT *e, struct dz_err *err)
{
    const char *below = e->fts_path + f->skip;
    int n =
        snprintf(f->text, DZ_IMAGE_PATH, "%s%s", strcmp(s->path, "/") == 0 ? "" : s->path, below);
    return n < 4096 ? n
                    : dz_fail(err, DZ_ELIMIT, "the path %.80s is too long for an image", f->text);
}

static int entry(struct dz_feed *f, const struct dz_step *s, const FTSENT *e,
                 struct dz_call_msg *ret, struct dz_err *err)
{
    int n = name_of(f, s, e, err);
    if (n <= 0)
        return n;
    *ret = (struct dz_call_msg){
        .value = e->fts_statp->st_mode & 0777u, .data = f->text, .size = (size_t)n};
    ssize_t len;
    switch (e->fts_info) {
    case FTS_D:
        ret->tag = DZ_FEED_DIR;
        return 1;
    case FTS_F:
        ret->tag = DZ_FEED_FILE;
        n = open_file(f, e->fts_accpath, err);
        return n < 0 ? n : 1;
    case FTS_SL:
    case FTS_SLNONE:
        ret->tag = DZ_FEED_LINK;
        len = readlink(e->fts_accpath, f->text + n + 1, DZ_IMAGE_PATH - 1);
        if (len <= 0)
            return dz_fail_sys(err, errno, "read the link %s", e->fts_path);
        ret->size += 1 + (size_t)len;
        return 1;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return dz_fail_sys(err, e->fts_errno, "read %s", e->fts_path);
    default: /* directories a second time; devices and sockets stay out */
        return 0;
    }
}

static int next_of_tree(struct dz_feed *f, const struct dz_step *s, struct dz_call_msg *ret,
                        struct dz_err *err)
{
    FTSENT *e;
    errno = 0;
    while ((e = fts_read(f->tree))) {
        int rc = entry(f, s, e, ret, err);
        if (rc != 0)
            return rc < 0 ? rc : 0;
        errno = 0;
    }
    if (errno)
        return dz_fail_sys(err, errno, "read the directory %s", s->source);
    *ret = (struct dz_call_msg){.tag = DZ_FEED_END};
    return 0;
}

int dz_feed_answer(void *host, const struct dz_call_msg *question, struct dz_call_msg *ret_answer,
                   struct dz_err *err)
{
    struct dz_feed *f = host;
    if (question->value >= f->r->step_count)
        return dz_fail(err, DZ_EIO, "the cell asks for a step that there is not");
    const struct dz_step *s = &f->r->steps[question->value];
    int rc = f->step == question->value + 1 ? 0 : open_step(f, (size_t)question->value, err);
    if (rc == 0 && f->fd >= 0)
        rc = next_data(f, ret_answer, err);
    if (rc != 0)
        return rc < 0 ? rc : 0;
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
        rc = dz_feed_new(r, &f, err);
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

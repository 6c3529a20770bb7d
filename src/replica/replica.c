/* SPDX-License-Identifier: MIT
 *
 * replica.c - a replica as the stores of its levels: list, read, restore, merge, remove.
 *
 *     file:///DIR       DIR/ltx/0/NAME, DIR/ltx/1/NAME ... DIR/ltx/9/NAME
 *     s3://B/PREFIX     PREFIX/0000/NAME ... PREFIX/0009/NAME in the bucket B
 *
 * NAME is MIN-MAX.ltx, TXIDs of 16 hexadecimal digits.
 */
#include "replica/replica_int.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "blob/blob_crypt.h"
#include "blob/blob_s3.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    NAME = 2 * (DZ_TXID_TEXT - 1) + 6, /* with the terminator */
    RUN = 1 << 20,                     /* bytes of pages that are written together */
};

char *dz_txid_print(uint64_t txid, char out[static DZ_TXID_TEXT])
{
    (void)snprintf(out, DZ_TXID_TEXT, "%016" PRIx64, txid);
    return out;
}

static char *name_of(const struct dz_replica_file *f, char out[static NAME])
{
    (void)snprintf(out, NAME, "%016" PRIx64 "-%016" PRIx64 ".ltx", f->min_txid, f->max_txid);
    return out;
}

static bool parse_txid(const char *p, uint64_t *ret)
{
    uint64_t v = 0;
    for (int i = 0; i < DZ_TXID_TEXT - 1; i++) {
        int d = dz_hex_digit(p[i]);
        if (d < 0 || (p[i] >= 'A' && p[i] <= 'F'))
            return false;
        v = v << 4 | (uint64_t)d;
    }
    *ret = v;
    return true;
}

int dz_txid_parse(const char *text, uint64_t *ret_txid, struct dz_err *err)
{
    uint64_t txid = 0;
    bool good = strlen(text) == DZ_TXID_TEXT - 1
                    ? parse_txid(text, &txid)
                    : dz_num_u64(dz_str(text), 1, UINT64_MAX, &txid, NULL) == 0;
    if (!good || txid == 0)
        return dz_fail(err, DZ_EINVAL,
                       "must be a number from 1 on, or 16 hexadecimal digits as in the names of "
                       "the replica's files");
    *ret_txid = txid;
    return 0;
}

static bool parse_name(const char *name, struct dz_replica_file *f)
{
    enum {
        DIGITS = DZ_TXID_TEXT - 1
    };
    return strlen(name) == NAME - 1 && parse_txid(name, &f->min_txid) && name[DIGITS] == '-' &&
           parse_txid(name + DIGITS + 1, &f->max_txid) &&
           strcmp(name + NAME - sizeof ".ltx", ".ltx") == 0 && f->min_txid > 0 &&
           f->min_txid <= f->max_txid;
}

/* --- open ----------------------------------------------------------------------------------- */

/* All stores of a replica, and those that a writer makes. */
enum {
    STORES = DZ_REPLICA_LEVELS + 1,
};
static bool is_written(unsigned store)
{
    return store <= DZ_REPLICA_MERGED || store >= DZ_REPLICA_SNAPSHOTS;
}

static struct dz_blobs **store_of(struct dz_replica *r, unsigned store)
{
    return store < DZ_REPLICA_LEVELS ? &r->levels[store] : &r->root;
}

static int open_dirs(struct dz_str path, bool make, unsigned stores, struct dz_replica *r,
                     const char *url, struct dz_err *err)
{
    char dir[DZ_PATH_MAX], level[16] = "";
    bool any = false;
    for (unsigned i = 0; i < STORES; i++) {
        if (!(stores >> i & 1))
            continue;
        if (i < DZ_REPLICA_LEVELS)
            (void)snprintf(level, sizeof level, "/ltx/%u", i);
        int n = snprintf(dir, sizeof dir, "%.*s%s", DZ_STR_ARG(path),
                         i < DZ_REPLICA_LEVELS ? level : "");
        if (n < 0 || (size_t)n >= sizeof dir)
            return dz_fail(err, DZ_ELIMIT, "the path of the replica is too long");
        int rc = dz_blobs_find_dir(dir, store_of(r, i), err);
        if (rc == DZ_ENOENT && make && is_written(i))
            rc = dz_blobs_open_dir(dir, store_of(r, i), err);
        if (rc < 0 && rc != DZ_ENOENT)
            return rc;
        any = any || (rc == 0 && i < DZ_REPLICA_LEVELS);
    }
    return any || stores == DZ_REPLICA_ROOT
               ? 0
               : dz_fail(err, DZ_ENOENT, "there is no replica at %s", url);
}

static int open_bucket(struct dz_str place, const struct dz_s3_opts *settings, unsigned stores,
                       struct dz_str query, struct dz_replica *r, struct dz_err *err)
{
    char url[DZ_REPLICA_URL_MAX], level[16];
    struct dz_s3_opts s3 = *settings;
    s3.url = url;
    int rc = 0;
    for (unsigned i = 0; i < STORES && rc == 0; i++) {
        if (!(stores >> i & 1))
            continue;
        (void)snprintf(level, sizeof level, "/%04x", i);
        int n = snprintf(url, sizeof url, "%.*s%s%.*s", DZ_STR_ARG(place),
                         i < DZ_REPLICA_LEVELS ? level : "", DZ_STR_ARG(query));
        if (n < 0 || (size_t)n >= sizeof url)
            return dz_fail(err, DZ_ELIMIT, "the URL of the replica has more than %d bytes",
                           DZ_REPLICA_URL_MAX - 1);
        rc = dz_blobs_open_s3(&s3, store_of(r, i), err);
    }
    return rc;
}

static int encrypt_stores(struct dz_replica *r, const char *key_file, struct dz_err *err)
{
    int rc = 0;
    for (unsigned i = 0; i < STORES && rc == 0; i++) {
        struct dz_blobs **store = store_of(r, i);
        struct dz_blob_keys *keys = NULL;
        if (!*store)
            continue;
        rc = dz_blob_keys_load(key_file, &keys, err);
        if (rc == 0)
            rc = dz_blobs_encrypt(DZ_TAKE_PTR(*store), keys, store, err);
    }
    return rc;
}

int dz_replica_open_some(const char *url, const struct dz_replica_access *access, bool make,
                         unsigned stores, struct dz_replica *ret_replica, struct dz_err *err)
{
    struct dz_str s = dz_str(url), query = {0};
    struct dz_replica r = {0};
    int rc;
    bool file = dz_str_starts(s, DZ_STR("file:///"));
    if (!file && !dz_str_starts(s, DZ_STR("s3://")))
        return dz_fail(err, DZ_EINVAL,
                       "\"%s\" is not a replica: write file:///DIR or s3://BUCKET/PREFIX", url);
    if (!file) {
        size_t at = dz_str_find_char(s, '?');
        query = dz_str_sub(s, at, SIZE_MAX);
        s = dz_str_sub(s, 0, at);
    }
    while (s.n > sizeof "file:///" - 1 && s.p[s.n - 1] == '/')
        s.n--;
    rc = file ? open_dirs(dz_str_sub(s, sizeof "file://" - 1, SIZE_MAX), make, stores, &r, url, err)
              : open_bucket(s, &access->s3, stores, query, &r, err);
    if (rc == 0 && access->key_file && access->key_file[0])
        rc = encrypt_stores(&r, access->key_file, err);
    if (rc < 0)
        dz_replica_close(&r);
    else
        *ret_replica = r;
    return rc;
}

int dz_replica_open(const char *url, const struct dz_replica_access *access, bool make,
                    struct dz_replica *ret_replica, struct dz_err *err)
{
    return dz_replica_open_some(url, access, make, DZ_REPLICA_ROOT - 1, ret_replica, err);
}

void dz_replica_close(struct dz_replica *r)
{
    for (unsigned level = 0; level < DZ_REPLICA_LEVELS; level++)
        dz_blobs_free(DZ_TAKE_PTR(r->levels[level]));
    dz_blobs_free(DZ_TAKE_PTR(r->root));
}

/* --- files ---------------------------------------------------------------------------------- */

struct listing {
    struct dz_replica_files *files;
    unsigned level;
};

static int list_one(void *arg, const char *key, uint64_t size)
{
    const struct listing *l = arg;
    struct dz_replica_file f = {
        .size = size, .time_ms = DZ_REPLICA_UNTIMED, .level = (uint8_t)l->level};
    return parse_name(key, &f) ? dz_vec_push(l->files, f) : 0;
}

static int by_level(const void *a, const void *b)
{
    const struct dz_replica_file *x = a, *y = b;
    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    if (x->min_txid != y->min_txid)
        return x->min_txid < y->min_txid ? -1 : 1;
    return x->max_txid < y->max_txid ? -1 : x->max_txid > y->max_txid;
}

int dz_replica_list(struct dz_replica *r, struct dz_replica_files *ret_files, struct dz_err *err)
{
    struct dz_replica_files files = DZ_REPLICA_FILES_INIT;
    int rc = 0;
    for (unsigned level = 0; level < DZ_REPLICA_LEVELS && rc == 0; level++)
        if (r->levels[level])
            rc = dz_blobs_list(r->levels[level], list_one, &(struct listing){&files, level}, err);
    if (rc == 0 && files.err)
        rc = dz_fail(err, files.err, "list a replica: %s",
                     files.err == DZ_ELIMIT ? "it has too many files" : "out of memory");
    if (rc < 0) {
        dz_vec_release(&files);
        return rc;
    }
    if (files.n > 0)
        qsort(files.p, files.n, sizeof *files.p, by_level);
    *ret_files = files;
    return 0;
}

static struct dz_blobs *level_of(struct dz_replica *r, const struct dz_replica_file *f)
{
    assert(f->level < DZ_REPLICA_LEVELS && r->levels[f->level]);
    return r->levels[f->level];
}

int dz_replica_file_open(struct dz_replica *r, const struct dz_replica_file *f,
                         struct dz_blob_in **ret_blob, struct dz_ltx_in *ret_in, struct dz_err *err)
{
    char name[NAME];
    int rc = dz_blob_in_open(level_of(r, f), name_of(f, name), ret_blob, err);
    if (rc == 0)
        rc = dz_ltx_in_begin(ret_in, *ret_blob, err);
    if (rc == 0 && (ret_in->head.min_txid != f->min_txid || ret_in->head.max_txid != f->max_txid))
        rc = dz_fail(err, DZ_ECORRUPT, "its header has another range of TXIDs");
    return rc < 0 ? dz_wrap(err, rc, "level %u, %s", f->level, name) : 0;
}

int dz_replica_file_new(struct dz_replica *r, const struct dz_replica_file *f, int64_t time_ms,
                        struct dz_blob_out **ret_out, struct dz_err *err)
{
    char name[NAME];
    int rc = dz_blob_out_open(level_of(r, f), name_of(f, name), ret_out, err);
    if (rc < 0)
        return rc;
    (*ret_out)->only_new = true;
    (*ret_out)->time_ms = time_ms;
    return 0;
}

int dz_replica_time(struct dz_replica *r, struct dz_replica_files *files, dz_replica_cancel cancel,
                    struct dz_err *err)
{
    const struct dz_replica_run run = {.cancel = cancel};
    size_t kept = 0;
    for (size_t i = 0; i < files->n; i++) {
        DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *blob = NULL;
        DZ_AUTO(dz_ltx_in_release) struct dz_ltx_in in = {0};
        int rc = dz_replica_canceled(&run, err);
        if (rc == 0)
            rc = dz_replica_file_open(r, &files->p[i], &blob, &in, err);
        bool damaged = rc == DZ_ECORRUPT || rc == DZ_EUNSUPPORTED;
        if (rc == DZ_ENOENT)
            continue;
        if (rc < 0 && !damaged)
            return rc;
        files->p[kept] = files->p[i];
        files->p[kept++].time_ms = damaged ? DZ_REPLICA_DAMAGED : in.head.time_ms;
    }
    files->n = kept;
    return 0;
}

int dz_replica_drop(struct dz_replica *r, const struct dz_replica_files *files, struct dz_err *err)
{
    char name[NAME];
    int rc = 0;
    for (size_t i = 0; i < files->n && rc == 0; i++)
        rc = dz_blobs_remove(level_of(r, &files->p[i]), name_of(&files->p[i], name), err);
    return rc;
}

static void remove_dirs(struct dz_str path)
{
    char dir[DZ_PATH_MAX];
    for (unsigned level = 0; level < DZ_REPLICA_LEVELS; level++) {
        int n = snprintf(dir, sizeof dir, "%.*s/ltx/%u", DZ_STR_ARG(path), level);
        if (n > 0 && (size_t)n < sizeof dir)
            (void)rmdir(dir);
    }
    for (int up = 1; up >= 0; up--) { /* one that holds something else stays */
        int n = snprintf(dir, sizeof dir, "%.*s%s", DZ_STR_ARG(path), up ? "/ltx" : "");
        if (n > 0 && (size_t)n < sizeof dir)
            (void)rmdir(dir);
    }
}

int dz_replica_erase(const char *url, const struct dz_replica_access *access, struct dz_err *err)
{
    DZ_AUTO(dz_replica_close) struct dz_replica r = {0};
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files all = DZ_REPLICA_FILES_INIT;
    int rc = dz_replica_open(url, access, false, &r, err);
    if (rc == 0)
        rc = dz_replica_list(&r, &all, err);
    if (rc == 0)
        rc = dz_replica_drop(&r, &all, err);
    if (rc == 0 && dz_str_starts(dz_str(url), DZ_STR("file:///")))
        remove_dirs(dz_str_sub(dz_str(url), sizeof "file://" - 1, SIZE_MAX));
    return rc;
}

/* --- restore -------------------------------------------------------------------------------- */

/* Pages that follow one another are written together. */
struct image {
    int fd; /* -1: nothing is written */
    uint32_t page_bytes;
    char *run;
    uint64_t at; /* of the run in the file */
    size_t fill;
    uint64_t read; /* bytes of the files before this one */
};

static void release_image(struct image *m)
{
    dz_free(m->run);
}

static int write_run(struct image *m, struct dz_err *err)
{
    int rc = m->fill && m->fd >= 0 ? dz_fd_pwrite(m->fd, m->run, m->fill, m->at, err) : 0;
    m->fill = 0;
    return rc;
}

/* Where the page with this number is to be read to. */
static char *room_for_page(struct image *m)
{
    return m->run + m->fill;
}

static int keep_page(struct image *m, uint32_t number, struct dz_err *err)
{
    uint64_t at = (uint64_t)(number - 1) * m->page_bytes;
    const char *page = m->run + m->fill;
    if (m->fill > 0 && m->at + m->fill != at) {
        int rc = write_run(m, err);
        if (rc < 0)
            return rc;
        memmove(m->run, page, m->page_bytes);
    }
    if (m->fill == 0)
        m->at = at;
    m->fill += m->page_bytes;
    return m->fill + DZ_LTX_PAGE_MAX > RUN ? write_run(m, err) : 0;
}

/* Apply one file. */
static int apply(struct dz_replica *r, const struct dz_replica_file *f, struct image *m,
                 const struct dz_replica_run *run, struct dz_replica_restored *to,
                 struct dz_err *err)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *blob = NULL;
    DZ_AUTO(dz_ltx_in_release) struct dz_ltx_in in = {0};
    char name[NAME];
    uint32_t number;
    int rc = dz_replica_file_open(r, f, &blob, &in, err);
    if (rc < 0)
        return rc;
    if (m->page_bytes && m->page_bytes != in.head.page_bytes)
        return dz_fail(err, DZ_ECORRUPT, "level %u, %s: its page size differs from the file before",
                       f->level, name_of(f, name));
    m->page_bytes = in.head.page_bytes;
    while (rc == 0 && (rc = dz_ltx_in_page(&in, &number, room_for_page(m), err)) == 1) {
        rc = keep_page(m, number, err);
        if (rc == 0 && (number & 255) == 0) {
            rc = dz_replica_canceled(run, err);
            if (run && run->progress)
                run->progress(run->arg, m->read + in.at);
        }
        if (rc < 0)
            return rc;
    }
    if (rc < 0)
        return dz_wrap(err, rc, "level %u, %s", f->level, name_of(f, name));
    m->read += blob->size;
    *to = (struct dz_replica_restored){.txid = in.head.max_txid,
                                       .bytes = (uint64_t)in.head.pages * in.head.page_bytes,
                                       .time_ms = in.head.time_ms};
    return write_run(m, err);
}

int dz_replica_plan_bytes(struct dz_replica *r, const struct dz_replica_files *plan,
                          uint64_t *ret_bytes, struct dz_err *err)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *blob = NULL;
    DZ_AUTO(dz_ltx_in_release) struct dz_ltx_in in = {0};
    assert(plan->n > 0);
    int rc = dz_replica_file_open(r, &plan->p[plan->n - 1], &blob, &in, err);
    if (rc == 0)
        *ret_bytes = (uint64_t)in.head.pages * in.head.page_bytes;
    return rc;
}

int dz_replica_restore(struct dz_replica *r, const struct dz_replica_files *plan, int fd,
                       const struct dz_replica_run *run, struct dz_replica_restored *ret_restored,
                       struct dz_err *err)
{
    DZ_AUTO(release_image) struct image m = {.fd = fd, .run = dz_alloc(RUN)};
    struct dz_replica_restored to = {0};
    assert(plan->n > 0 && plan->p[0].min_txid == 1);
    int rc = m.run ? 0 : dz_fail(err, DZ_ENOMEM, "restore a replica: out of memory");
    for (size_t i = 0; i < plan->n && rc == 0; i++) {
        assert(i == 0 || plan->p[i].min_txid <= plan->p[i - 1].max_txid + 1);
        rc = dz_replica_canceled(run, err);
        if (rc == 0)
            rc = apply(r, &plan->p[i], &m, run, &to, err);
    }
    /* The lock page and pages that no transaction wrote are holes; what an older, larger database
     * had at the end is cut off. */
    if (rc == 0 && ftruncate(fd, (off_t)to.bytes) < 0)
        rc = dz_fail_sys(err, errno, "restore a replica: set the size of the file");
    if (rc < 0)
        return rc;
    *ret_restored = to;
    return 0;
}

int dz_replica_check(struct dz_replica *r, const struct dz_replica_file *f,
                     const struct dz_replica_run *run, struct dz_err *err)
{
    DZ_AUTO(release_image) struct image m = {.fd = -1, .run = dz_alloc(RUN)};
    struct dz_replica_restored to;
    int rc = m.run ? 0 : dz_fail(err, DZ_ENOMEM, "check a file of a replica: out of memory");
    return rc < 0 ? rc : apply(r, f, &m, run, &to, err);
}

/* --- merge ---------------------------------------------------------------------------------- */

struct input {
    struct dz_blob_in *blob;
    struct dz_ltx_in in;
    uint32_t number; /* of the page that is held; 0: the file has ended */
    char *page;
};

static void release_inputs(struct input (*all)[DZ_REPLICA_MERGE])
{
    for (size_t i = 0; i < DZ_REPLICA_MERGE; i++) {
        dz_ltx_in_release(&(*all)[i].in);
        dz_blob_in_close((*all)[i].blob);
        dz_free((*all)[i].page);
    }
}

static int advance(struct input *p, const struct dz_replica_file *f, struct dz_err *err)
{
    char name[NAME];
    p->number = 0;
    int rc = dz_ltx_in_page(&p->in, &p->number, p->page, err);
    return rc < 0 ? dz_wrap(err, rc, "level %u, %s", f->level, name_of(f, name)) : 0;
}

static int open_inputs(struct dz_replica *r, const struct dz_replica_files *from, struct input *all,
                       struct dz_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < from->n && rc == 0; i++) {
        rc = dz_replica_file_open(r, &from->p[i], &all[i].blob, &all[i].in, err);
        if (rc == 0 && all[i].in.head.page_bytes != all[0].in.head.page_bytes)
            rc = dz_fail(err, DZ_ECORRUPT, "merge files of a replica: their page sizes differ");
        if (rc == 0 && !(all[i].page = dz_alloc(all[i].in.head.page_bytes)))
            rc = dz_fail(err, DZ_ENOMEM, "merge files of a replica: out of memory");
        if (rc == 0)
            rc = advance(&all[i], &from->p[i], err);
    }
    return rc;
}

/* Write each page once, from the newest file that has it. */
static int merge_pages(const struct dz_replica_files *from, struct input *all, struct dz_ltx_out *w,
                       const struct dz_replica_run *run, struct dz_err *err)
{
    for (;;) {
        uint32_t number = 0;
        size_t newest = 0;
        for (size_t i = 0; i < from->n; i++)
            if (all[i].number && (!number || all[i].number <= number)) {
                number = all[i].number;
                newest = i;
            }
        if (!number)
            return 0;
        int rc = dz_replica_canceled(run, err);
        if (rc == 0 && number <= w->head.pages)
            rc = dz_ltx_out_page(w, number, all[newest].page, err);
        for (size_t i = 0; i < from->n && rc == 0; i++)
            if (all[i].number == number)
                rc = advance(&all[i], &from->p[i], err);
        if (rc < 0)
            return rc;
    }
}

int dz_replica_merge(struct dz_replica *r, const struct dz_replica_files *from,
                     const struct dz_replica_run *run, struct dz_err *err)
{
    DZ_AUTO(release_inputs) struct input all[DZ_REPLICA_MERGE] = {0};
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *blob = NULL;
    DZ_AUTO(dz_ltx_out_release) struct dz_ltx_out w = {0};
    assert(from->n > 0 && from->n <= DZ_REPLICA_MERGE && from->p[0].level < DZ_REPLICA_MERGED);
    assert(from->p[0].min_txid > 1); /* nothing may have written some of the pages from 1 on */
    int rc = open_inputs(r, from, all, err);
    if (rc < 0)
        return rc;
    struct dz_ltx_header h = all[from->n - 1].in.head;
    h.min_txid = from->p[0].min_txid;
    const struct dz_replica_file f = {
        .min_txid = h.min_txid, .max_txid = h.max_txid, .level = (uint8_t)(from->p[0].level + 1)};
    rc = dz_replica_file_new(r, &f, h.time_ms, &blob, err);
    if (rc == 0)
        rc = dz_ltx_out_begin(&w, blob, &h, err);
    if (rc == 0)
        rc = merge_pages(from, all, &w, run, err);
    if (rc == 0)
        rc = dz_ltx_out_end(&w, err);
    return rc < 0 ? rc : dz_blob_out_commit(blob, err);
}

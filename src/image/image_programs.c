/* SPDX-License-Identifier: MIT
 *
 * image_programs.c - find the programs of a disk; the tables `image` and `program`. Runs in a cell.
 */
#include "image/image_programs.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "db/db.h"
#include "image/image_int.h"
#include "vfs/vfs_at.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- a walk over the disk ---------------------------------------------------------------- */

/* Visit every name in byte order. The disk may be hostile: the list of directories still to visit
 * is bounded, and nothing recurses. */

enum {
    ENTRIES_MAX = 4 << 20, /* entries of the whole disk */
};

struct name {
    char *text;
    uint64_t ino;
    uint32_t type;
};
DZ_VEC(entries, struct name);

struct walk {
    struct dz_vfs *vfs;
    struct dz_err *err;
    struct entries stack; /* absolute paths still to visit: the last is next */
    uint64_t seen;
};

struct listing {
    struct entries *to;
    const char *dir;
};

static int add(void *arg, const struct dz_vfs_entry *e)
{
    struct listing *l = arg;
    if (e->len <= 2 && memcmp(e->name, "..", e->len) == 0)
        return 0;
    DZ_AUTO(dz_buf_release) struct dz_buf path = DZ_BUF_INIT(1 << 20);
    dz_buf_addf(&path, "%s/", strcmp(l->dir, "/") == 0 ? "" : l->dir);
    dz_buf_add(&path, e->name, e->len);
    size_t len;
    char *text = path.err ? NULL : dz_buf_detach(&path, &len);
    if (!text)
        l->to->err = DZ_ENOMEM;
    else if (dz_vec_push(l->to, ((struct name){text, e->ino, e->type})) < 0)
        dz_free(text);
    return l->to->err;
}

static int backwards(const void *a, const void *b)
{
    return -strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

static int open_dir(struct walk *w, const struct name *at)
{
    size_t before = w->stack.n;
    struct listing l = {&w->stack, at->text};
    int e = dz_vfs_readdir(w->vfs, at->ino, 0, add, &l);
    w->seen += w->stack.n - before;
    if (e || w->stack.err || w->seen > ENTRIES_MAX)
        return dz_fail(w->err, e ? DZ_EIO : DZ_ELIMIT, "list %s in the image", at->text);
    if (w->stack.n > before)
        qsort(w->stack.p + before, w->stack.n - before, sizeof *w->stack.p, backwards);
    return 0;
}

int dz_image_walk(struct dz_vfs *vfs, dz_image_walk_fn *fn, void *arg, struct dz_err *err)
{
    struct walk w = {.vfs = vfs, .err = err, .stack = DZ_VEC_INIT(ENTRIES_MAX)};
    char *root = dz_str_dup(DZ_STR("/"));
    int rc = 0;
    if (!root || dz_vec_push(&w.stack, ((struct name){root, DZ_VFS_ROOT, S_IFDIR})) < 0) {
        dz_free(root);
        rc = dz_fail(err, DZ_ENOMEM, "walk an image: out of memory");
    }
    while (rc == 0 && w.stack.n > 0) {
        struct name at = dz_vec_pop(&w.stack);
        const struct dz_image_entry entry = {at.ino, at.type & S_IFMT, at.text};
        rc = fn(arg, &entry, err);
        if (rc == 0 && S_ISDIR(at.type))
            rc = open_dir(&w, &at);
        dz_free(at.text);
    }
    for (size_t i = 0; i < w.stack.n; i++)
        dz_free(w.stack.p[i].text);
    dz_vec_release(&w.stack);
    return rc;
}

enum {
    READ_STEP = 1 << 18,
};

struct search {
    struct dz_vfs *vfs;
    dz_program_fn *fn;
    void *arg;
    struct dz_err *err;
    uint8_t *buf;
    DZ_VEC(, uint64_t) linked; /* programs with several names that were reported */
};

/* --- one file ----------------------------------------------------------------------- */

static int hash_file(struct search *w, uint64_t ino, uint64_t size, uint8_t *ret)
{
    DZ_AUTO(dz_sha256_release) struct dz_sha256 h = {0};
    int rc = dz_sha256_init(&h, w->err);
    for (uint64_t at = 0; rc == 0 && at < size;) {
        ssize_t n = dz_vfs_read(w->vfs, ino, at, w->buf, READ_STEP);
        if (n <= 0)
            return dz_fail(w->err, DZ_EIO, "read a program: %s", dz_vfs_why(w->vfs));
        dz_sha256_update(&h, w->buf, (size_t)n);
        at += (uint64_t)n;
    }
    return rc == 0 ? dz_sha256_final(&h, ret, w->err) : rc;
}

static bool told_before(struct search *w, const struct dz_vfs_attr *a)
{
    if (a->nlink < 2)
        return false;
    for (size_t i = 0; i < w->linked.n; i++)
        if (w->linked.p[i] == a->ino)
            return true;
    dz_vec_push(&w->linked, a->ino);
    return false;
}

static int look_at(void *arg, const struct dz_image_entry *at, struct dz_err *err)
{
    static const uint8_t magic[4] = {0, 'a', 's', 'm'};
    struct search *w = arg;
    struct dz_program_found p = {.ino = at->ino, .path = at->path};
    struct dz_vfs_attr a;
    uint8_t head[4];
    if (!S_ISREG(at->type))
        return 0;
    int e = dz_vfs_getattr(w->vfs, at->ino, &a);
    if (e)
        return dz_fail_sys(err, -e, "stat %s in the image", at->path);
    if (!S_ISREG(a.mode) || a.size < 8 || a.size > UINT32_MAX ||
        dz_vfs_read(w->vfs, at->ino, 0, head, 4) != 4 || memcmp(head, magic, 4) != 0 ||
        told_before(w, &a))
        return 0;
    if (!dz_image_text_ok(dz_str(at->path)))
        return dz_fail(err, DZ_EINVAL, "the name of a program in the image has control characters");
    p.bytes = a.size;
    int rc = hash_file(w, at->ino, a.size, p.sha256);
    return rc < 0 ? rc : w->fn(w->arg, &p, err);
}

int dz_programs_each(struct dz_vfs *vfs, dz_program_fn *fn, void *arg, struct dz_err *err)
{
    struct search w = {.vfs = vfs,
                       .fn = fn,
                       .arg = arg,
                       .err = err,
                       .buf = dz_alloc(READ_STEP),
                       .linked = DZ_VEC_INIT(DZ_IMAGE_PROGRAMS_MAX)};
    int rc = w.buf ? dz_image_walk(vfs, look_at, &w, err)
                   : dz_fail(err, DZ_ENOMEM, "look for the programs of an image: out of memory");
    dz_vec_release(&w.linked);
    dz_free(w.buf);
    return rc;
}

/* --- programs for Linux ------------------------------------------------------------------ */

enum {
    ELF_HEAD = 20,
    ELF_X86_64 = 62,
};

static const char *const search[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                     "/usr/bin",        "/sbin",          "/bin"};

static const struct dz_vfs_who root = {.root = DZ_VFS_ROOT};

struct native {
    struct dz_vfs *vfs;
    const char *dir;
    struct dz_err *err;
    int rc;
};

/* Check an executable file: 1: for this processor, or a script; 0: neither, with a message. */
static int check_program(struct native *n, uint64_t ino, const char *dir, struct dz_str name)
{
    uint8_t head[ELF_HEAD] = {0};
    ssize_t got = dz_vfs_read(n->vfs, ino, 0, head, sizeof head);
    if (got < 4 || memcmp(head, "\177ELF", 4) != 0)
        return got >= 2 && memcmp(head, "#!", 2) == 0;
    if (got == ELF_HEAD && head[4] == 2 && head[5] == 1 && head[18] == ELF_X86_64 && head[19] == 0)
        return 1;
    n->rc = dz_fail(n->err, DZ_EINVAL, "the program %s%s%.*s is not for Linux on x86-64", dir,
                    *dir ? "/" : "", DZ_STR_ARG(name));
    return 0;
}

static int look_at_name(void *arg, const struct dz_vfs_entry *e)
{
    struct native *n = arg;
    struct dz_vfs_attr a;
    if (dz_vfs_getattr(n->vfs, e->ino, &a) == 0 && S_ISREG(a.mode) && (a.mode & 0111))
        (void)check_program(n, e->ino, n->dir, dz_str_n(e->name, e->len));
    return n->rc < 0 ? -1 : 0;
}

static int find_entry(struct native *n, const char *name, struct dz_vfs_attr *ret)
{
    char path[DZ_VFS_PATH_MAX];
    int e = -ENOENT;
    if (strchr(name, '/'))
        return dz_vfs_stat_at(n->vfs, &root, (struct dz_vfs_path){DZ_VFS_ROOT, name}, true, ret);
    for (size_t i = 0; e && i < DZ_ARRAY_LEN(search); i++) {
        (void)snprintf(path, sizeof path, "%s/%.255s", search[i], name);
        e = dz_vfs_stat_at(n->vfs, &root, (struct dz_vfs_path){DZ_VFS_ROOT, path}, true, ret);
    }
    return e;
}

int dz_programs_check_native(struct dz_vfs *vfs, const struct dz_image *config, struct dz_err *err)
{
    struct native n = {.vfs = vfs, .err = err};
    struct dz_vfs_attr a;
    for (size_t i = 0; n.rc == 0 && i < DZ_ARRAY_LEN(search); i++) {
        n.dir = search[i];
        if (dz_vfs_stat_at(vfs, &root, (struct dz_vfs_path){DZ_VFS_ROOT, n.dir}, false, &a) != 0 ||
            !S_ISDIR(a.mode)) /* a link leads to one of the other directories */
            continue;
        int e = dz_vfs_readdir(vfs, a.ino, 0, look_at_name, &n);
        if (e && n.rc == 0)
            return dz_fail_sys(err, e < 0 ? -e : EIO, "list %s in the image", n.dir);
    }
    const char *entry = config->entry[0];
    if (n.rc < 0 || !entry)
        return n.rc;
    if (find_entry(&n, entry, &a) != 0 || !S_ISREG(a.mode) || !(a.mode & 0111))
        return dz_fail(err, DZ_EINVAL, "entry: the image has no program %s", entry);
    if (!check_program(&n, a.ino, "", dz_str(entry)) && n.rc == 0)
        n.rc = dz_fail(err, DZ_EINVAL, "entry: %s is neither an ELF program nor a script", entry);
    return n.rc;
}

/* --- the tables -------------------------------------------------------------------------- */

static const char schema[] = "CREATE TABLE IF NOT EXISTS image(k TEXT PRIMARY KEY,v)WITHOUT ROWID;"
                             "CREATE TABLE IF NOT EXISTS program(ino INTEGER PRIMARY KEY,sha256);"
                             "DELETE FROM image;DELETE FROM program;";

static int insert(void *arg, const struct dz_program_found *p, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(arg, "INSERT INTO program VALUES(?1,?2)");
    dz_bind_int(st, 1, (int64_t)p->ino);
    dz_bind_blob(st, 2, p->sha256, sizeof p->sha256);
    return dz_stmt_run(st, err);
}

int dz_image_tables_write(struct dz_db *db, struct dz_vfs *vfs, enum dz_image_kind kind,
                          const struct dz_buf *config, struct dz_err *err)
{
    int rc = dz_db_exec(db, schema, err);
    if (rc < 0)
        return rc;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(db, "INSERT INTO image VALUES('config',?1)");
    dz_bind_blob(st, 1, config->p, config->len);
    rc = dz_stmt_run(st, err);
    return rc < 0 || kind != DZ_IMAGE_WASM ? rc : dz_programs_each(vfs, insert, db, err);
}

int dz_image_tables_config(struct dz_db *db, struct dz_buf *ret_text, struct dz_err *err)
{
    static const char exists[] = "SELECT count(*) FROM sqlite_master WHERE type='table' AND name "
                                 "IN('image','program')";
    size_t n = 0;
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *tables = dz_db_stmt(db, exists);
    int rc = dz_stmt_step(tables, err);
    if (rc > 0 && dz_col_int(tables, 0) != 2)
        return dz_fail(
            err, DZ_EINVAL,
            "this disk is not an image: `doze image build --from FILE` makes one from it");
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = rc < 0 ? NULL : dz_db_stmt(db, "SELECT v FROM image WHERE k='config'");
    rc = rc < 0 ? rc : dz_stmt_step(st, err);
    if (rc == 0)
        rc = dz_fail(err, DZ_ECORRUPT, "the image has no settings that say how to run it");
    if (rc < 0)
        return rc;
    const void *text = dz_col_blob(st, 0, &n);
    dz_buf_add(ret_text, text, n);
    return ret_text->err ? dz_fail(err, ret_text->err, "the image's settings are too large") : 0;
}

int dz_image_tables_has(struct dz_db *db, const struct dz_program_found *p)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(db, "SELECT 1 FROM program WHERE ino=?1 AND sha256=?2");
    dz_bind_int(st, 1, (int64_t)p->ino);
    dz_bind_blob(st, 2, p->sha256, sizeof p->sha256);
    return dz_stmt_step(st, NULL) > 0;
}

int64_t dz_image_tables_count(struct dz_db *db)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(db, "SELECT count(*) FROM program");
    return dz_stmt_step(st, NULL) > 0 ? dz_col_int(st, 0) : -1;
}

/* SPDX-License-Identifier: MIT
 *
 * image_pack.c - an image of kind linux gets its pack (vfs/vfs_pack.c): its programs and larger
 * files are moved from the database to a flat file that cells map, each to the start of a page.
 *
 * Files are in the order of their inodes, so the same image gives the same pack. Any guest process
 * may map all of it, so files that are not readable by everyone stay in the database. So do files
 * with holes, which a pack would fill.
 *
 * A single cell writes the pack, removes the files' content from the disk, and copies the disk to a
 * new one without the pages that this freed.
 */
#include "image/image_int.h"
#include "image/image_programs.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/vec.h"
#include "db/db.h"
#include "machine/machine_copy.h"
#include "vfs/vfs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LARGE = 4 << 10, /* any file of at least this size goes into the pack */
    FILES_MAX = 4 << 20,
    STEP = 1 << 18,
};

int dz_image_file_new(const struct dz_image_store *s, struct dz_image_file *f, struct dz_err *err)
{
    *f = (struct dz_image_file){.store = s, .fd = -1, .pack_fd = -1};
    int rc = f->fd = dz_image_work_file(s, f->work, err);
    return rc < 0 ? rc : 0;
}

void dz_image_file_release(struct dz_image_file *f)
{
    if (f->fd >= 0)
        (void)unlinkat(f->store->dir, f->work, 0); /* it was renamed if it was published */
    if (f->pack_fd >= 0)
        (void)unlinkat(f->store->dir, f->pack_work, 0);
    dz_fd_close(&f->fd);
    dz_fd_close(&f->pack_fd);
}

/* --- in the cell: which files ---------------------------------------------------------------- */

struct packed {
    uint64_t ino, at, size;
};

struct packing {
    int fd, wal_fd, pack_fd; /* the disk, its log, the new pack */
    int to_fd, to_wal_fd;    /* the new disk */
    struct dz_call *call;
    struct dz_db *db, *to;
    struct dz_vfs *vfs;
    DZ_VEC(, struct packed) files;
    char closed[DZ_VFS_PATH_MAX]; /* the directory that not everyone may search; "": none */
    struct dz_sha256 hash;
    uint64_t end; /* of the pack so far */
    uint8_t *step;
};

static bool is_elf(struct packing *p, uint64_t ino)
{
    uint8_t head[4];
    return dz_vfs_read(p->vfs, ino, 0, head, sizeof head) == sizeof head &&
           memcmp(head, "\177ELF", 4) == 0;
}

/* Does the C library map the file in every program? */
static bool is_everywhere(const char *path)
{
    return strncmp(path, "/usr/lib/locale/", 16) == 0 || strcmp(path, "/etc/ld.so.cache") == 0 ||
           strcmp(path, "/usr/lib/x86_64-linux-gnu/gconv/gconv-modules.cache") == 0;
}

static int choose(void *arg, const struct dz_image_entry *e, struct dz_err *err)
{
    struct packing *p = arg;
    struct dz_vfs_attr a;
    uint64_t hole = 0;
    size_t n = strlen(p->closed);
    if (n > 0 && strncmp(e->path, p->closed, n) == 0 && e->path[n] == '/')
        return 0;
    p->closed[0] = '\0';
    if (!S_ISREG(e->type) && !S_ISDIR(e->type))
        return 0;
    int rc = dz_vfs_getattr(p->vfs, e->ino, &a);
    if (rc)
        return dz_fail_sys(err, -rc, "look at %s in the image", e->path);
    if (S_ISDIR(a.mode) && !(a.mode & S_IXOTH) && strcmp(e->path, "/") != 0)
        (void)snprintf(p->closed, sizeof p->closed, "%s", e->path);
    if (!S_ISREG(a.mode) || !(a.mode & S_IROTH) || a.size == 0 ||
        (a.size < LARGE && !is_everywhere(e->path) && !is_elf(p, e->ino)))
        return 0;
    rc = dz_vfs_seek(p->vfs, e->ino, 0, SEEK_HOLE, &hole);
    if (rc || hole < a.size)
        return rc ? dz_fail_sys(err, -rc, "look at %s in the image", e->path) : 0;
    return dz_vec_push(&p->files, ((struct packed){e->ino, 0, a.size})) < 0
               ? dz_fail(err, p->files.err, "pack the image: too many files")
               : 0;
}

static int by_ino(const void *a, const void *b)
{
    const struct packed *x = a, *y = b;
    return x->ino < y->ino ? -1 : x->ino > y->ino;
}

/* A file with several names was found under each. Their order gives the offsets. */
static void place(struct packing *p)
{
    size_t n = 0;
    uint64_t at = DZ_VFS_PACK_PAGE;
    qsort(p->files.p, p->files.n, sizeof *p->files.p, by_ino);
    for (size_t i = 0; i < p->files.n; i++) {
        struct packed *f = &p->files.p[i];
        if (n > 0 && p->files.p[n - 1].ino == f->ino)
            continue;
        f->at = at;
        at += (f->size + DZ_VFS_PACK_PAGE - 1) / DZ_VFS_PACK_PAGE * DZ_VFS_PACK_PAGE;
        p->files.p[n++] = *f;
    }
    p->files.n = n;
    p->end = at;
}

/* --- in the cell: the pack ---------------------------------------------------------------------
 */

static int put(struct packing *p, const void *data, size_t n, struct dz_err *err)
{
    dz_sha256_update(&p->hash, data, n);
    return dz_fd_write(p->pack_fd, data, n, err);
}

static int put_file(struct packing *p, const struct packed *f, struct dz_err *err)
{
    static const uint8_t zeros[DZ_VFS_PACK_PAGE];
    int rc = 0;
    for (uint64_t at = 0; rc == 0 && at < f->size;) {
        ssize_t n = dz_vfs_read(p->vfs, f->ino, at, p->step, STEP);
        if (n <= 0)
            return dz_fail(err, DZ_EIO, "read a file of the image: %s", dz_vfs_why(p->vfs));
        rc = put(p, p->step, (size_t)n, err);
        at += (uint64_t)n;
    }
    const size_t rest = (size_t)(f->size % DZ_VFS_PACK_PAGE);
    return rc < 0 || rest == 0 ? rc : put(p, zeros, DZ_VFS_PACK_PAGE - rest, err);
}

static int write_pack(struct packing *p, char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err)
{
    uint8_t page[DZ_VFS_PACK_PAGE], digest[DZ_SHA256_BYTES];
    int rc = dz_sha256_init(&p->hash, err);
    dz_vfs_pack_begin(page, p->end);
    if (rc == 0)
        rc = put(p, page, sizeof page, err);
    for (size_t i = 0; rc == 0 && i < p->files.n; i++)
        rc = dz_call_stopped(p->call) ? dz_fail(err, DZ_ECANCELED, "stopped")
                                      : put_file(p, &p->files.p[i], err);
    if (rc == 0)
        rc = dz_sha256_final(&p->hash, digest, err);
    if (rc == 0)
        (void)dz_sha256_hex(digest, ret_sha256);
    return rc;
}

/* --- in the cell: the disk -----------------------------------------------------------------------
 */

static int take_out(struct packing *p, const struct packed *f, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *row = dz_db_stmt(p->db, "UPDATE node SET rdev=?2,data=NULL WHERE ino=?1");
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *chunks =
        dz_db_stmt(p->db, "DELETE FROM chunk WHERE id BETWEEN ?1<<24 AND (?1<<24)+0xffffff");
    dz_bind_int(row, 1, (int64_t)f->ino);
    dz_bind_int(row, 2, (int64_t)f->at);
    dz_bind_int(chunks, 1, (int64_t)f->ino);
    int rc = dz_stmt_run(row, err);
    return rc < 0 ? rc : dz_stmt_run(chunks, err);
}

static int take_all_out(struct packing *p, struct dz_err *err)
{
    uint64_t bytes = 0;
    int rc = dz_db_begin(p->db, err);
    for (size_t i = 0; rc == 0 && i < p->files.n; i++) {
        rc = take_out(p, &p->files.p[i], err);
        bytes += p->files.p[i].size;
    }
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(
        p->db, "INSERT INTO meta(k,v)VALUES('packed',?1)ON CONFLICT(k)DO UPDATE SET v=?1");
    dz_bind_int(st, 1, (int64_t)bytes);
    if (rc == 0)
        rc = dz_stmt_run(st, err);
    if (rc == 0)
        rc = dz_vfs_recount(p->db, err);
    return rc < 0 ? rc : dz_db_commit(p->db, err);
}

/* Record the pack in the image. */
static int write_tables(struct packing *p, const char *sha256, struct dz_err *err)
{
    struct dz_image config = {0};
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    int rc = dz_image_tables_config(p->db, &text, err);
    if (rc == 0)
        rc = dz_image_parse(dz_str_n(text.p, text.len), &config, err);
    if (rc < 0)
        return rc;
    (void)snprintf(config.pack_sha256, sizeof config.pack_sha256, "%s", sha256);
    config.pack_bytes = p->end;
    dz_buf_reset(&text);
    dz_image_print_config(&config, &text);
    rc = text.err ? dz_fail(err, text.err, "the image's settings are too large")
                  : dz_db_begin(p->to, err);
    if (rc == 0)
        rc = dz_image_tables_write(p->to, NULL, config.kind, &text, err);
    dz_image_release(&config);
    return rc < 0 ? rc : dz_db_commit(p->to, err);
}

static int new_disk(struct packing *p, const char *sha256, struct dz_err *err)
{
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema, .label = "the new image"};
    struct dz_copied copied;
    int rc = dz_db_open_fds(&p->to, p->to_fd, p->to_wal_fd, &opts, err);
    if (rc == 0)
        rc = dz_machine_compact(p->db, p->to, &copied, err);
    if (rc == 0)
        rc = dz_db_exec(p->to, dz_vfs_schema_packed, err);
    if (rc == 0)
        rc = write_tables(p, sha256, err);
    return rc < 0 ? rc : dz_db_close(p->to, false, err);
}

/* 1: a pack was made. The process of the call ends afterwards, which frees everything. */
static int pack_inside(struct dz_call *call, void *arg, struct dz_err *err)
{
    struct packing *p = arg;
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema, .label = "the new image"};
    char sha256[DZ_SHA256_HEX];
    p->call = call;
    p->files.max = FILES_MAX;
    p->step = dz_alloc(STEP);
    int rc = p->step ? dz_db_open_fds(&p->db, p->fd, p->wal_fd, &opts, err)
                     : dz_fail(err, DZ_ENOMEM, "pack the image: out of memory");
    const struct dz_vfs_opts disk = {.db = p->db, .readonly = true, .noatime = true};
    if (rc == 0)
        rc = dz_vfs_open(&disk, &p->vfs, err);
    if (rc == 0)
        rc = dz_image_walk(p->vfs, choose, p, err);
    if (rc < 0 || p->files.n == 0)
        return rc;
    place(p);
    rc = write_pack(p, sha256, err);
    dz_vfs_abandon(p->vfs);
    if (rc == 0)
        rc = take_all_out(p, err);
    if (rc == 0)
        rc = new_disk(p, sha256, err);
    return rc < 0 ? rc : 1;
}

/* --- the host
 * ---------------------------------------------------------------------------------------- */

static bool on_stop(void *host)
{
    const struct dz_image_build *how = host;
    return how->stop && how->stop(how->arg);
}

/* An unnamed file in scratch/, for a log. */
static int nameless(const struct dz_image_store *s, struct dz_err *err)
{
    char work[DZ_IMAGE_PATH];
    int fd = dz_image_work_file(s, work, err);
    if (fd >= 0)
        (void)unlinkat(s->dir, work, 0);
    return fd;
}

int dz_image_pack(const struct dz_image_store *s, const struct dz_image_build *how,
                  struct dz_image_file *f, struct dz_err *err)
{
    struct dz_image_file made;
    DZ_AUTO(dz_fd_close) int wal = nameless(s, err);
    DZ_AUTO(dz_fd_close) int to_wal = wal < 0 ? -1 : nameless(s, err);
    if (wal < 0 || to_wal < 0)
        return wal < 0 ? wal : to_wal;
    int rc = dz_image_file_new(s, &made, err);
    if (rc == 0)
        rc = dz_image_new_disk(made.fd, err);
    if (rc == 0)
        rc = made.pack_fd = dz_image_work_file(s, made.pack_work, err);
    struct packing p = {
        .fd = f->fd, .wal_fd = wal, .pack_fd = made.pack_fd, .to_fd = made.fd, .to_wal_fd = to_wal};
    const int fds[] = {f->fd, wal, made.pack_fd, made.fd, to_wal};
    const struct dz_call_opts opts = {.what = "pack the image",
                                      .run = pack_inside,
                                      .arg = &p,
                                      .fds = fds,
                                      .fd_count = DZ_ARRAY_LEN(fds),
                                      .timeout_ms = DZ_IMAGE_CALL_MS,
                                      .file_bytes = DZ_IMAGE_FILE_MAX,
                                      .stop = on_stop,
                                      .host = (void *)(uintptr_t)how};
    if (rc >= 0)
        rc = dz_cell_call(&opts, NULL, err);
    if (rc > 0) {
        struct dz_image_file old = *f;
        *f = made;
        made = old;
    }
    dz_image_file_release(&made);
    return rc < 0 ? rc : 0;
}

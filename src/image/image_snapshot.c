/* SPDX-License-Identifier: MIT
 *
 * image_snapshot.c - make an image from a sandbox: its file and the image below are flattened into
 * one, with the machine that sleeps in it (machine/machine_copy.h). The settings are those of the
 * image below. Each sandbox created from the new image resumes that machine.
 */
#include "image/image_int.h"
#include "image/image_programs.h"

#include "base/fd.h"
#include "db/db.h"
#include "machine/machine.h"
#include "machine/machine_copy.h"
#include "vfs/vfs.h"

#include <string.h>
#include <unistd.h>

struct sealing {
    const struct dz_image_snapshot *from;
    int fd, wal_fd; /* of the new image */
    struct dz_db *db, *image, *to;
    struct dz_vfs_pack pack;
};

/* --- in a cell ------------------------------------------------------------------------- */

/* Is the given image the one that the disk names? */
static int check_image(const struct sealing *w, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(w->db, "SELECT v FROM meta WHERE k='image'");
    int rc = dz_stmt_step(st, err);
    if (rc < 0 || (rc == 0 && !w->image))
        return rc;
    if (rc > 0 && w->image && strcmp(dz_col_text(st, 0), w->from->image_sha256) == 0)
        return 0;
    return dz_fail(err, DZ_EINVAL, "%s needs another image below it; name that one with --image",
                   w->from->label);
}

static int open_all(struct sealing *w, struct dz_err *err)
{
    const struct dz_db_opts from = {
        .schema = &dz_vfs_schema, .label = w->from->label, .wary = true};
    const struct dz_db_opts below = {
        .schema = &dz_vfs_schema, .label = "the image below", .immutable = true};
    const struct dz_db_opts to = {.schema = &dz_vfs_schema, .label = "the new image"};
    int rc = dz_db_open_fds(&w->db, w->from->db_fd, w->from->wal_fd, &from, err);
    if (rc == 0 && w->from->image_fd >= 0)
        rc = dz_db_open_fds(&w->image, w->from->image_fd, -1, &below, err);
    if (rc == 0 && w->from->pack_fd >= 0)
        rc = dz_vfs_pack_map(w->from->pack_fd, 0, &w->pack, err);
    if (rc == 0)
        rc = check_image(w, err);
    return rc < 0 ? rc : dz_db_open_fds(&w->to, w->fd, w->wal_fd, &to, err);
}

/* A machine that was not suspended has lost its memory. A file without a machine, because its
 * program has ended, gives a warm image only on request: it would look like one and not be one. */
static int check_machine(const struct sealing *w, struct dz_err *err)
{
    static const struct dz_machine_ops none;
    const struct dz_machine_opts opts = {.db = w->db, .image = w->image, .ops = &none};
    struct dz_machine *m = NULL;
    int rc = dz_machine_open(&opts, &m, err);
    if (rc == 0 && dz_machine_found(m) == DZ_MACHINE_LOST)
        rc = dz_fail(
            err, DZ_ESTATE,
            "memory_lost: the sandbox in %s was not suspended before it ended; `doze run --file` "
            "starts from its files",
            w->from->label);
    else if (rc == 0 && dz_machine_found(m) == DZ_MACHINE_NONE && !w->from->allow_empty)
        rc = dz_fail(
            err, DZ_ESTATE,
            "no program is suspended in %s; suspend a running program, or make an image of the "
            "files alone (--allow-empty)",
            w->from->label);
    dz_machine_close(m);
    return rc;
}

static int write_tables(const struct sealing *w, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf config = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    const struct dz_vfs_opts opts = {.db = w->to, .readonly = true, .noatime = true};
    struct dz_vfs *vfs = NULL;
    struct dz_image image = *w->from->image; /* a new pack is made, from rows */
    image.pack_sha256[0] = '\0';
    dz_image_print_config(&image, &config);
    int rc = config.err ? dz_fail(err, config.err, "the image's settings are too large")
                        : dz_vfs_open(&opts, &vfs, err);
    if (rc == 0)
        rc = dz_db_begin(w->to, err);
    if (rc == 0)
        rc = dz_image_tables_write(w->to, vfs, image.kind, &config, err);
    if (rc == 0)
        rc = dz_db_commit(w->to, err);
    dz_vfs_abandon(vfs);
    return rc;
}

static int seal_inside(struct dz_call *call, void *arg, struct dz_err *err)
{
    struct sealing *w = arg;
    (void)call;
    int rc = open_all(w, err);
    if (rc == 0)
        rc = check_machine(w, err);
    if (rc == 0)
        rc = dz_machine_flatten(w->db, w->image, &w->pack, w->to, err);
    if (rc == 0)
        rc = write_tables(w, err);
    return rc < 0 ? rc : dz_db_close(w->to, false, err);
}

/* --- in the host ------------------------------------------------------------------------- */

static int seal(struct dz_image_store *s, struct sealing *w, const struct dz_image_build *how,
                struct dz_err *err)
{
    char work[DZ_IMAGE_PATH];
    DZ_AUTO(dz_buf_release) struct dz_buf empty = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    DZ_AUTO(dz_fd_close) int wal = dz_image_work_file(s, work, err);
    if (wal < 0)
        return wal;
    (void)unlinkat(s->dir, work, 0);
    w->wal_fd = wal;
    int rc = dz_db_template(&dz_vfs_schema, &empty, err);
    if (rc == 0)
        rc = dz_db_create_fd(w->fd, empty.p, empty.len, false, err);
    const int fds[] = {w->from->db_fd,   w->from->wal_fd, w->from->image_fd,
                       w->from->pack_fd, w->fd,           wal};
    const struct dz_call_opts opts = {.what = "make an image of the sandbox",
                                      .run = seal_inside,
                                      .arg = w,
                                      .fds = fds,
                                      .fd_count = DZ_ARRAY_LEN(fds),
                                      .timeout_ms = DZ_IMAGE_CALL_MS,
                                      .file_bytes = DZ_IMAGE_FILE_MAX,
                                      .stop = how->stop,
                                      .host = how->arg};
    return rc < 0 ? rc : dz_cell_call(&opts, NULL, err);
}

int dz_image_snapshot(struct dz_image_store *s, const struct dz_image_snapshot *from,
                      const struct dz_image_build *how, char ret_sha256[static DZ_SHA256_HEX],
                      struct dz_err *err)
{
    char full[DZ_IMAGE_NAME_MAX + 1];
    struct dz_image_file f;
    DZ_AUTO(dz_image_unlock) int lock = -1;
    int rc = dz_image_full_name(how->name, full, err);
    if (rc == 0)
        rc = dz_image_lock(s, &lock, err);
    if (rc < 0)
        return rc;
    rc = dz_image_file_new(s, &f, err);
    struct sealing w = {.from = from, .fd = f.fd};
    if (how->status)
        how->status(how->arg, DZ_IMAGE_BUILDING);
    if (rc == 0)
        rc = seal(s, &w, how, err);
    if (rc == 0 && from->image->kind == DZ_IMAGE_LINUX)
        rc = dz_image_pack(s, how, &f, err);
    if (rc == 0)
        rc = dz_image_deploy(s, &f, how, ret_sha256, err);
    dz_image_file_release(&f);
    return rc < 0 ? rc : dz_image_tag(s, full, ret_sha256, err);
}

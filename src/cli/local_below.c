/* SPDX-License-Identifier: MIT
 *
 * Find the image below a file. The file names it; because the file may be hostile, a jailed call
 * reads the name, and the result is checked like any input.
 */
#include "base/hash.h"
#include "base/mem.h"
#include "cell/cell_call.h"
#include "cli/local_cell.h"
#include "cli/local_image.h"
#include "db/db.h"
#include "vfs/vfs.h"

#include <string.h>
#include <unistd.h>

enum {
    LOOK_MS = 60000, /* a long WAL is recovered first */
};

struct request {
    const char *file;
    struct dz_db_files files;
};

static int look(struct dz_call *call, void *arg, struct dz_err *err)
{
    const struct request *r = arg;
    const struct dz_db_opts opts = {
        .schema = &dz_vfs_schema, .label = r->file, .immutable = r->files.wal_fd < 0, .wary = true};
    struct dz_db *db = NULL;
    int rc = dz_db_open_fds(&db, r->files.db_fd, r->files.wal_fd, &opts, err);
    if (rc < 0)
        return rc;
    struct dz_stmt *st = dz_db_stmt(db, "SELECT v FROM meta WHERE k='image'");
    rc = dz_stmt_step(st, err);
    if (rc > 0) {
        const char *text = dz_col_text(st, 0);
        rc = dz_call_reply(call, text, strnlen(text, DZ_SHA256_HEX), err);
    }
    dz_stmt_reset(st);
    int closed = dz_db_close(db, true, rc < 0 ? NULL : err);
    return rc < 0 ? rc : closed;
}

static bool is_hash(const struct dz_buf *b)
{
    return b->len == DZ_SHA256_HEX - 1 && strspn(b->p, "0123456789abcdef") == b->len;
}

int dz_cli_file_image(const char *file, char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf reply = DZ_BUF_INIT(DZ_SHA256_HEX);
    struct request r = {.file = file, .files = DZ_DB_FILES_NONE};
    int rc = dz_db_files_open(&r.files, file, DZ_DB_FILES_READ, err);
    if (rc < 0)
        return rc;
    const int fds[] = {r.files.db_fd, r.files.wal_fd};
    const struct dz_call_opts opts = {
        .what = "find the image of the file",
        .run = look,
        .arg = &r,
        .fds = fds,
        .fd_count = 2,
        .timeout_ms = LOOK_MS,
    };
    rc = dz_cell_call(&opts, &reply, err);
    dz_db_files_close(&r.files);
    if (rc < 0)
        return rc;
    ret_sha256[0] = '\0';
    if (is_hash(&reply))
        memcpy(ret_sha256, reply.p, DZ_SHA256_HEX);
    else if (reply.len > 0)
        return dz_fail(err, DZ_ECORRUPT, "%s names its image by something that is not a SHA-256",
                       file);
    return 0;
}

int dz_cli_cell_below(struct dz_cli_cell *c, const char *file, struct dz_image *ret_image,
                      struct dz_err *err)
{
    DZ_AUTO(dz_cli_image_storep) struct dz_image_store *s = NULL;
    char sha256[DZ_SHA256_HEX], found[DZ_SHA256_HEX];
    if (!file || access(file, F_OK) < 0)
        return 0;
    int rc = dz_cli_file_image(file, sha256, err);
    if (rc < 0 || !sha256[0])
        return rc;
    rc = dz_cli_image_store(&s, err);
    if (rc == 0)
        rc = dz_image_find(s, sha256, found, err);
    if (rc == DZ_ENOENT)
        return 0; /* then the user must name the image */
    rc = rc < 0 ? rc : dz_cli_cell_image(c, sha256, ret_image, err);
    return rc < 0 ? rc : 1;
}

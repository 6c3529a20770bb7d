/* SPDX-License-Identifier: MIT
 *
 * machine_module.c - programs that only the machine still has.
 *
 * A program is usually a file of the disk or of the image, or was prepared by
 * whoever made the image. When its file has gone or changed while a process runs
 * it, the file's rows keep its bytes, in pieces: machine(part 'module:<sha256>').
 */
#include "machine/machine_state.h"

#include "base/hash.h"
#include "base/mem.h"
#include "vfs/vfs.h"
#include "wasm/wasm.h"

#include <string.h>

enum {
    PART_SIZE = sizeof "module:" + 64,
};

static void part_name(const uint8_t *sha256, char ret[static PART_SIZE])
{
    char hex[DZ_SHA256_HEX];
    (void)snprintf(ret, PART_SIZE, "module:%s", dz_sha256_hex(sha256, hex));
}

/* --- in ------------------------------------------------------------------------------ */

static int read_pieces(struct dz_machine *m, const struct dz_machine_module *row, uint8_t *to,
                       struct dz_err *err)
{
    char part[PART_SIZE];
    uint64_t done = 0;
    part_name(row->sha256, part);
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(m->from, "SELECT value FROM machine WHERE part=?1 ORDER BY key");
    dz_bind_text(st, 1, part);
    int rc;
    while ((rc = dz_stmt_step(st, err)) > 0) {
        size_t size;
        const void *bytes = dz_col_blob(st, 0, &size);
        if (size > row->size - done)
            break;
        if (size)
            memcpy(to + done, bytes, size);
        done += size;
    }
    if (rc >= 0 && done != row->size)
        return dz_fail(err, DZ_ECORRUPT,
                       "the machine in the file is damaged: of its program %.16s "
                       "there are %llu of %llu bytes",
                       part + 7, (unsigned long long)done, (unsigned long long)row->size);
    return rc;
}

/* The inode, unless its file has changed since. */
static uint64_t same_file(const struct dz_machine *m, const struct dz_machine_module *row)
{
    struct dz_vfs_attr attr;
    bool same = row->ino && dz_vfs_getattr(m->vfs, row->ino, &attr) == 0 &&
                attr.mtime_ns == row->mtime && attr.size == row->size;
    return same ? row->ino : 0;
}

int dz_machine_module_open(struct dz_machine *m, const struct dz_machine_module *row,
                           struct dz_wasm_module **ret_module, struct dz_err *err)
{
    char part[PART_SIZE];
    uint8_t sha256[DZ_SHA256_BYTES];
    const struct dz_machine_ops *ops = m->ops;
    struct dz_machine_program program = {
        .sha256 = row->sha256, .ino = same_file(m, row), .size = (size_t)row->size};
    int rc = ops->module_get(ops->arg, &program, ret_module, err);
    if (rc == DZ_ENOENT && program.ino != row->ino) { /* touched, perhaps: its bytes are hashed */
        program.ino = row->ino;
        rc = ops->module_get(ops->arg, &program, ret_module, err);
    }
    if (rc != DZ_ENOENT)
        return rc;
    part_name(row->sha256, part);
    if (row->ino)
        return dz_fail(err, DZ_ENOENT,
                       "wake the machine: its program %.16s is not on the disk or in the image any "
                       "more",
                       part + 7);
    if (row->size > DZ_MACHINE_MODULE_MAX)
        return dz_fail(err, DZ_ELIMIT, "wake the machine: a program of %llu bytes",
                       (unsigned long long)row->size);
    uint8_t *bytes = dz_alloc((size_t)row->size);
    rc = bytes ? read_pieces(m, row, bytes, err)
               : dz_fail(err, DZ_ENOMEM, "wake the machine: out of memory");
    if (rc == 0)
        rc = dz_sha256(bytes, (size_t)row->size, sha256, err);
    if (rc == 0 && memcmp(sha256, row->sha256, sizeof sha256) != 0)
        rc = dz_fail(err, DZ_ECORRUPT, "the machine in the file is damaged: its program %.16s",
                     part + 7);
    program.ino = 0;
    program.bytes = bytes;
    if (rc == 0)
        rc = ops->module_get(ops->arg, &program, ret_module, err);
    dz_free(bytes);
    return rc;
}

/* --- out ------------------------------------------------------------------------------- */

/* The bytes of a program that some process runs. */
static const struct dz_wasm_module *find_running(struct dz_kernel *k, const uint8_t *sha256)
{
    for (uint32_t i = 2; i <= dz_kernel_rows(k, DZ_KERNEL_TABLE_PROC); i++) {
        const struct dz_task *t = dz_kernel_task(k, i);
        if (t && memcmp(t->module->header->sha256, sha256, DZ_SHA256_BYTES) == 0)
            return t->module;
    }
    return NULL;
}

static int is_there(struct dz_machine *m, const char *part, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(m->db, "SELECT 1 FROM machine WHERE part=?1 LIMIT 1");
    dz_bind_text(st, 1, part);
    return dz_stmt_step(st, err);
}

static int write_pieces(struct dz_machine *m, const char *part, const uint8_t *bytes, size_t size,
                        struct dz_err *err)
{
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < size; at += DZ_STATE_PIECE) {
        DZ_AUTO(dz_stmt_resetp)
        struct dz_stmt *st =
            dz_db_stmt(m->db, "INSERT INTO machine(part,key,value)VALUES(?1,?2,?3)");
        dz_bind_text(st, 1, part);
        dz_bind_int(st, 2, (int64_t)(at / DZ_STATE_PIECE));
        dz_bind_blob(st, 3, bytes + at, size - at < DZ_STATE_PIECE ? size - at : DZ_STATE_PIECE);
        rc = dz_stmt_run(st, err);
    }
    return rc;
}

/* Rows of programs that nobody runs any more, or whose file is back. */
static int drop_others(struct dz_machine *m, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf keep = DZ_BUF_INIT(1 << 20);
    char part[PART_SIZE];
    for (size_t i = 0; i < m->modules.n; i++)
        if (m->modules.p[i].ino == 0) {
            part_name(m->modules.p[i].sha256, part);
            dz_buf_adds(&keep, part);
        }
    if (keep.err)
        return dz_fail(err, keep.err, "put the machine to sleep: out of memory");
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(m->db, dz_machine_sql_modules_drop);
    dz_bind_text(st, 1, keep.p);
    return dz_stmt_run(st, err);
}

int dz_machine_modules_write(struct dz_machine *m, struct dz_kernel *k, struct dz_err *err)
{
    int rc = drop_others(m, err);
    for (size_t i = 0; rc == 0 && i < m->modules.n; i++) {
        const struct dz_machine_module *row = &m->modules.p[i];
        char part[PART_SIZE];
        if (row->ino)
            continue;
        part_name(row->sha256, part);
        rc = is_there(m, part, err);
        const struct dz_wasm_module *module = find_running(k, row->sha256);
        if (rc == 0 && module)
            rc = write_pieces(m, part, module->wasm, module->wasm_size, err);
        rc = rc > 0 ? 0 : rc;
    }
    return rc;
}

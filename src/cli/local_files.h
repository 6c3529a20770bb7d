/* SPDX-License-Identifier: MIT
 *
 * local_files.h - file operations on a sandbox's file on this machine, without a daemon.
 *
 * The file is opened in a file-only cell, the same that a daemon uses for a suspended sandbox, so
 * the operations, their errors and their JSON are the same. A machine that sleeps in the file
 * stays asleep. The file must not be in use (DZ_EBUSY).
 */
#ifndef DZ_CLI_LOCAL_FILES_H
#define DZ_CLI_LOCAL_FILES_H

#include "cell/cell_op.h"
#include "cli/cli.h"

#include <jansson.h>

/* Options of commands that take SANDBOX or FILE. */
#define DZ_CLI_OPTIONS_BELOW                                                            \
    {"image", 'I', "IMAGE", "of a FILE: its image (default: the one that FILE names)"}, \
        {"base", 'b', "ROOT", "of a FILE: the read-only disk below (default: DOZE_BASE)"}

/* The end of their help. */
#define DZ_CLI_FILE_HELP                                                               \
    "\n"                                                                               \
    "A FILE (it contains a / or ends in .doze) is a sandbox's file on this machine.\n" \
    "It needs no daemon and must not be in use.\n"

struct dz_files;

enum dz_files_how {
    DZ_FILES_LOOK,   /* changes nothing; the file may be read-only */
    DZ_FILES_CHANGE, /* changes are committed, and durable after dz_files_close() */
};

/* Open an existing file. If the command catches interrupts, an interrupt ends the operation in
 * progress with DZ_ECANCELED, unless it came before the file was opened. The caller closes
 * *ret_files. The command has DZ_CLI_OPTIONS_BELOW. */
DZ_NODISCARD int dz_files_open(struct dz_cli *c, const char *file, enum dz_files_how how,
                               struct dz_files **ret_files, struct dz_err *err);
/* The same for the `disk` commands: the file is the first operand, --image names the file of the
 * image, and SOURCE_DATE_EPOCH stops the clock. */
DZ_NODISCARD int dz_files_open_disk(struct dz_cli *c, enum dz_files_how how,
                                    struct dz_files **ret_files, struct dz_err *err);
/* Close the file; NULL is fine. rc is the result so far, which is returned; if it is not negative,
 * an error of the close is returned instead. */
int dz_files_close(struct dz_files *f, int rc, struct dz_err *err);

/* Paths are absolute. The answers are those of the API; the caller owns them. */
DZ_NODISCARD int dz_files_list(struct dz_files *f, const char *path, uint32_t depth,
                               json_t **ret_entries, struct dz_err *err);
DZ_NODISCARD int dz_files_sql(struct dz_files *f, const char *query, json_t **ret_answer,
                              struct dz_err *err);
/* Run an operation, and call each (NULL: nothing is called) with every file that it reports; each
 * returns 0, or DZ_E* with *err. *ret_count (NULL: not wanted) is the operation's count. */
struct dz_cell_stat;
typedef int dz_files_stat_fn(void *arg, const struct dz_cell_stat *st, struct dz_err *err);
DZ_NODISCARD int dz_files_do(struct dz_files *f, const struct dz_cell_op *op,
                             dz_files_stat_fn *each, void *arg, uint64_t *ret_count,
                             struct dz_err *err);

/* Sum up the tree at a path. flags: DZ_CELL_OP_NOFOLLOW or 0. */
DZ_NODISCARD int dz_files_usage(struct dz_files *f, const char *path, uint32_t flags,
                                struct dz_cell_usage *ret_usage, struct dz_err *err);
/* The figures of the whole file. */
DZ_NODISCARD int dz_files_stats(struct dz_files *f, struct dz_cell_machine_stats *ret_stats,
                                struct dz_err *err);

/* Begin to read the bytes of a file, or an archive (flags: of DZ_CELL_OP_TAR_OUT); dz_files_read()
 * then returns them, 0 at the end. No other operation may begin before the end; dz_files_close()
 * aborts the rest. */
DZ_NODISCARD int dz_files_begin_get(struct dz_files *f, const char *path, struct dz_err *err);
DZ_NODISCARD int dz_files_begin_tar(struct dz_files *f, const char *path, uint32_t flags,
                                    struct dz_err *err);
ssize_t dz_files_read(struct dz_files *f, void *p, size_t n, struct dz_err *err);
/* How many members the archive has, once dz_files_read() has returned 0. */
uint64_t dz_files_members(const struct dz_files *f);
/* The size and the permission bits of the file being read. */
int64_t dz_files_size(const struct dz_files *f);
uint32_t dz_files_mode(const struct dz_files *f);

/* Returns up to n bytes: 0 at the end, or DZ_E* with *err. */
typedef ssize_t dz_files_read_fn(void *arg, char *p, size_t n, struct dz_err *err);
/* Store what `read` returns as the file at path in one step; missing directories are made. mode:
 * its permission bits; 0: those of an existing file, else 0644. */
DZ_NODISCARD int dz_files_put(struct dz_files *f, const char *path, uint32_t mode,
                              dz_files_read_fn *read, void *arg, struct dz_err *err);
/* Unpack what `read` returns, an archive, into the directory at path: all of it or nothing.
 * *ret_unknown: it failed, and it is not known which. */
DZ_NODISCARD int dz_files_unpack(struct dz_files *f, const char *path, dz_files_read_fn *read,
                                 void *arg, bool *ret_unknown, struct dz_err *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * local_files.h - the files of a sandbox whose file is here, without a daemon.
 *
 * The file is opened in a file-only cell, the same that a daemon uses for a suspended sandbox, so
 * the operations, their errors and their JSON are the same. A machine that sleeps in the file
 * stays asleep. The file must not be in use (DZ_EBUSY).
 */
#ifndef DZ_CLI_LOCAL_FILES_H
#define DZ_CLI_LOCAL_FILES_H

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
    "It needs no daemon, must be writable and must not be in use.\n"

struct dz_files;

/* Open an existing file. Where the command catches interrupts, one ends the operation under way
 * with DZ_ECANCELED, unless it came before the file was opened. *ret_files is to be closed. The
 * command has DZ_CLI_OPTIONS_BELOW. */
DZ_NODISCARD int dz_files_open(struct dz_cli *c, const char *file, struct dz_files **ret_files,
                               struct dz_err *err);
/* Close the file; NULL is fine. rc is the result so far: returned, or else what closing said.
 * What was changed is durable when this returns. */
int dz_files_close(struct dz_files *f, int rc, struct dz_err *err);

/* Paths are absolute. The answers are those of the API, owned by the caller. */
DZ_NODISCARD int dz_files_list(struct dz_files *f, const char *path, uint32_t depth,
                               json_t **ret_entries, struct dz_err *err);
DZ_NODISCARD int dz_files_sql(struct dz_files *f, const char *query, json_t **ret_answer,
                              struct dz_err *err);
/* Is anything there? DZ_ENOENT. */
DZ_NODISCARD int dz_files_stat(struct dz_files *f, const char *path, struct dz_err *err);

/* Begin with the bytes of a file, or with an archive of what is below a directory; then
 * dz_files_read() gives them, 0 at their end. What is not read to its end is broken off by
 * dz_files_close(); nothing else may be done before. */
DZ_NODISCARD int dz_files_begin_get(struct dz_files *f, const char *path, struct dz_err *err);
DZ_NODISCARD int dz_files_begin_tar(struct dz_files *f, const char *path, struct dz_err *err);
ssize_t dz_files_read(struct dz_files *f, void *p, size_t n, struct dz_err *err);
/* Of the file that was begun: its size, and its permission bits. */
int64_t dz_files_size(const struct dz_files *f);
uint32_t dz_files_mode(const struct dz_files *f);

/* Gives up to n bytes: 0 at the end, or DZ_E* with *err. */
typedef ssize_t dz_files_read_fn(void *arg, char *p, size_t n, struct dz_err *err);
/* What read gives becomes the file at path in one step; missing directories are made. mode: its
 * permission bits; 0: those of the file there, else 0644. */
DZ_NODISCARD int dz_files_put(struct dz_files *f, const char *path, uint32_t mode,
                              dz_files_read_fn *read, void *arg, struct dz_err *err);
/* What read gives is an archive, unpacked into the directory at path: all of it or nothing.
 * *ret_unknown: it failed, and which of the two is not known. */
DZ_NODISCARD int dz_files_unpack(struct dz_files *f, const char *path, dz_files_read_fn *read,
                                 void *arg, bool *ret_unknown, struct dz_err *err);
/* Make a directory and the missing ones above it; it may be there. */
DZ_NODISCARD int dz_files_mkdir(struct dz_files *f, const char *path, struct dz_err *err);
/* Replaces what is at `to`. */
DZ_NODISCARD int dz_files_move(struct dz_files *f, const char *from, const char *to,
                               struct dz_err *err);
DZ_NODISCARD int dz_files_remove(struct dz_files *f, const char *path, bool recursive,
                                 struct dz_err *err);

#endif

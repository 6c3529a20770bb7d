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

struct dz_files;

/* Open an existing file. *ret_files is to be closed. The command has DZ_CLI_OPTIONS_BELOW. */
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
/* The bytes of a file to standard output, as dz_cli_put_guest() writes them. */
DZ_NODISCARD int dz_files_print(struct dz_files *f, const char *path, struct dz_err *err);
/* The bytes of a file into fd; *ret_mode is its permission bits. */
DZ_NODISCARD int dz_files_get(struct dz_files *f, const char *path, int fd, uint32_t *ret_mode,
                              struct dz_err *err);
/* What fd gives, to the end, becomes the file at path in one step; missing directories are made.
 * mode: its permission bits. */
DZ_NODISCARD int dz_files_put(struct dz_files *f, const char *path, uint32_t mode, int fd,
                              struct dz_err *err);
/* Make a directory and the missing ones above it; it may be there. */
DZ_NODISCARD int dz_files_mkdir(struct dz_files *f, const char *path, struct dz_err *err);
/* Replaces what is at `to`. */
DZ_NODISCARD int dz_files_move(struct dz_files *f, const char *from, const char *to,
                               struct dz_err *err);
DZ_NODISCARD int dz_files_remove(struct dz_files *f, const char *path, bool recursive,
                                 struct dz_err *err);

#endif

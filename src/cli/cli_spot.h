/* SPDX-License-Identifier: MIT
 *
 * cli_spot.h - a path in a sandbox and the file operations there, for a daemon's sandbox and for a
 * sandbox's file on this machine.
 *
 *     struct dz_cli_side s = {.c = c};
 *     rc = dz_cli_spot_need(c, "web:/workspace/a", &spot, err);
 *     rc = dz_cli_side_begin(&s, &spot, DZ_CLI_ONE_FILE, err);
 *     … dz_cli_side_read(&s, …) …
 *     rc = dz_cli_side_close(&s, rc, err);
 *
 * Both use the same cell, so results and errors are the same.
 */
#ifndef DZ_CLI_CLI_SPOT_H
#define DZ_CLI_CLI_SPOT_H

#include "base/limits.h"
#include "cli/cli.h"

#include <jansson.h>

struct dz_client;
struct dz_files;

enum {
    DZ_CLI_SANDBOX_MAX = 256, /* bytes of a sandbox's name or id, with its NUL */
};

/* A place. With neither file nor sandbox it is a path of this machine. */
struct dz_cli_spot {
    char file[DZ_PATH_MAX];           /* a sandbox's file, or "" */
    char sandbox[DZ_CLI_SANDBOX_MAX]; /* a sandbox of the daemon, or "" */
    const char *path;                 /* points into the parsed word */
};

/* SANDBOX:PATH, FILE:PATH or a path of this machine. The text before the first colon is a FILE if
 * it ends in ".doze", or has a '/' and is a regular file; a sandbox if it has no '/', or is
 * TENANT/NAME and PATH begins with '/'. An empty PATH is "/". */
DZ_NODISCARD int dz_cli_spot_parse(struct dz_cli *c, const char *word, struct dz_cli_spot *ret,
                                   struct dz_err *err);
/* The same; a path of this machine is an error. */
DZ_NODISCARD int dz_cli_spot_need(struct dz_cli *c, const char *word, struct dz_cli_spot *ret,
                                  struct dz_err *err);

/* The daemon or the file that the last operation used; both stay open for the next one. */
struct dz_cli_side {
    struct dz_cli *c;
    struct dz_client *client;
    struct dz_files *files;
    char file[DZ_PATH_MAX]; /* the FILE that files has open */
    bool in_file;           /* the last operation was in that file */
    bool may_change;        /* files was opened for changes */
};

/* Close both. rc is the result so far, which is returned; if it is not negative, an error of
 * closing the file is returned instead. */
int dz_cli_side_close(struct dz_cli_side *s, int rc, struct dz_err *err);

/* Begin to read the bytes of a file, or an archive of a directory's content (fails with
 * DZ_ENOTDIR's text if it is not a directory); dz_cli_side_read() then returns them: 0 at the
 * end. */
enum dz_cli_what {
    DZ_CLI_ONE_FILE,
    DZ_CLI_ARCHIVE,
};
DZ_NODISCARD int dz_cli_side_begin(struct dz_cli_side *s, const struct dz_cli_spot *from,
                                   enum dz_cli_what what, struct dz_err *err);
ssize_t dz_cli_side_read(struct dz_cli_side *s, void *p, size_t n, struct dz_err *err);
/* The permission bits of the file being read. */
uint32_t dz_cli_side_mode(const struct dz_cli_side *s);

/* Bytes to send into a sandbox: read as by struct dz_client_req. */
struct dz_cli_bytes {
    ssize_t (*read)(void *arg, char *p, size_t n, struct dz_err *err);
    void *arg;
    int64_t size; /* -1: not known */
};
/* Store the bytes as the file `path` in one step; missing directories are made. mode: permission
 * bits; 0: those of an existing file, else 0644. */
DZ_NODISCARD int dz_cli_side_put(struct dz_cli_side *s, const struct dz_cli_spot *to,
                                 const char *path, uint32_t mode, const struct dz_cli_bytes *bytes,
                                 struct dz_err *err);
/* Unpack the bytes, an archive, into the directory `path`: all of it or nothing. *ret_unknown: it
 * failed without an answer, so it is not known which. */
DZ_NODISCARD int dz_cli_side_unpack(struct dz_cli_side *s, const struct dz_cli_spot *to,
                                    const char *path, const struct dz_cli_bytes *bytes,
                                    bool *ret_unknown, struct dz_err *err);

/* The entries of a directory as the API has them. depth NULL: 1. */
DZ_NODISCARD int dz_cli_side_list(struct dz_cli_side *s, const struct dz_cli_spot *at,
                                  const char *depth, json_t **ret_entries, struct dz_err *err);
DZ_NODISCARD int dz_cli_side_exists(struct dz_cli_side *s, const struct dz_cli_spot *at,
                                    const char *path, bool *ret_exists, struct dz_err *err);
/* Make a directory and its missing parents; it may exist. */
DZ_NODISCARD int dz_cli_side_mkdir(struct dz_cli_side *s, const struct dz_cli_spot *at,
                                   const char *path, struct dz_err *err);
/* Move a file; replaces a file at `to`. */
DZ_NODISCARD int dz_cli_side_move(struct dz_cli_side *s, const struct dz_cli_spot *from,
                                  const char *to, struct dz_err *err);
DZ_NODISCARD int dz_cli_side_remove(struct dz_cli_side *s, const struct dz_cli_spot *at,
                                    const char *path, bool recursive, struct dz_err *err);

/* Copy the bytes of a file to fd, with a progress line. Standard output gets them as by
 * dz_cli_put_guest(). *ret_bytes: how many. */
DZ_NODISCARD int dz_cli_side_get(struct dz_cli_side *s, const struct dz_cli_spot *from, int fd,
                                 uint64_t *ret_bytes, struct dz_err *err);

/* --- one file of `doze cp` (cli_cp.c), for `doze edit` ------------------------------------------
 */

struct dz_tree_stats;
/* Copy a file of this machine ("-": standard input) to `to`, and a file from there to this machine;
 * total, unless NULL, counts it. */
DZ_NODISCARD int dz_cli_copy_in(struct dz_cli_side *s, const char *from,
                                const struct dz_cli_spot *to, struct dz_tree_stats *total,
                                struct dz_err *err);
DZ_NODISCARD int dz_cli_copy_out(struct dz_cli_side *s, const struct dz_cli_spot *from,
                                 const char *to, struct dz_tree_stats *total, struct dz_err *err);

#endif

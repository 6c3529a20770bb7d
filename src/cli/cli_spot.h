/* SPDX-License-Identifier: MIT
 *
 * cli_spot.h - a path in a sandbox, and the file operations there, whether a daemon has the
 * sandbox or the sandbox is a file of this machine.
 *
 *     struct dz_cli_side s = {.c = c};
 *     rc = dz_cli_spot_need(c, "web:/workspace/a", &spot, err);
 *     rc = dz_cli_side_begin(&s, &spot, DZ_CLI_ONE_FILE, err);
 *     … dz_cli_side_read(&s, …) …
 *     rc = dz_cli_side_close(&s, rc, err);
 *
 * The cell behind both is the same, so results and errors are, too.
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
    const char *path;                 /* in the word that was parsed */
};

/* SANDBOX:PATH, FILE:PATH or a path of this machine. The text before the first colon is a FILE if
 * it ends in ".doze", or has a '/' and is a regular file; a sandbox if it has no '/', or is
 * TENANT/NAME and PATH begins with '/'. An empty PATH is "/". */
DZ_NODISCARD int dz_cli_spot_parse(struct dz_cli *c, const char *word, struct dz_cli_spot *ret,
                                   struct dz_err *err);
/* The same, and a path of this machine is an error. */
DZ_NODISCARD int dz_cli_spot_need(struct dz_cli *c, const char *word, struct dz_cli_spot *ret,
                                  struct dz_err *err);

/* The daemon or the file that the last operation used; both stay open for the next one. */
struct dz_cli_side {
    struct dz_cli *c;
    struct dz_client *client;
    struct dz_files *files;
    char file[DZ_PATH_MAX]; /* the FILE that files has open */
    bool in_file;           /* the last operation was in that */
};

/* Close both. rc is the result so far: returned, or else what closing the file said. */
int dz_cli_side_close(struct dz_cli_side *s, int rc, struct dz_err *err);

/* Ask for the bytes of a file, or for an archive of what is below a directory (DZ_ENOTDIR in words
 * if it is none), which dz_cli_side_read() then gives: 0 at the end. */
enum dz_cli_what {
    DZ_CLI_ONE_FILE,
    DZ_CLI_ARCHIVE,
};
DZ_NODISCARD int dz_cli_side_begin(struct dz_cli_side *s, const struct dz_cli_spot *from,
                                   enum dz_cli_what what, struct dz_err *err);
ssize_t dz_cli_side_read(struct dz_cli_side *s, void *p, size_t n, struct dz_err *err);
/* Of the file that is being read: its size, -1 when it is not known; its permission bits. */
int64_t dz_cli_side_size(const struct dz_cli_side *s);
uint32_t dz_cli_side_mode(const struct dz_cli_side *s);

/* Bytes that go into a sandbox: read as of struct dz_client_req. */
struct dz_cli_bytes {
    ssize_t (*read)(void *arg, char *p, size_t n, struct dz_err *err);
    void *arg;
    int64_t size; /* -1: not known */
};
/* They become the file `path` there in one step; missing directories are made. mode: permission
 * bits; 0: those of the file there, else 0644. */
DZ_NODISCARD int dz_cli_side_put(struct dz_cli_side *s, const struct dz_cli_spot *to,
                                 const char *path, uint32_t mode, const struct dz_cli_bytes *bytes,
                                 struct dz_err *err);
/* They are an archive, unpacked into the directory `path`: all of it or nothing. *ret_unknown:
 * it failed without an answer, so which of the two is not known. */
DZ_NODISCARD int dz_cli_side_unpack(struct dz_cli_side *s, const struct dz_cli_spot *to,
                                    const char *path, const struct dz_cli_bytes *bytes,
                                    bool *ret_unknown, struct dz_err *err);

/* The entries of a directory as the API has them. depth NULL: 1. */
DZ_NODISCARD int dz_cli_side_list(struct dz_cli_side *s, const struct dz_cli_spot *at,
                                  const char *depth, json_t **ret_entries, struct dz_err *err);
DZ_NODISCARD int dz_cli_side_exists(struct dz_cli_side *s, const struct dz_cli_spot *at,
                                    const char *path, bool *ret_exists, struct dz_err *err);
/* With the missing directories above it; it may be there. */
DZ_NODISCARD int dz_cli_side_mkdir(struct dz_cli_side *s, const struct dz_cli_spot *at,
                                   const char *path, struct dz_err *err);
/* Replaces what is at `to`. */
DZ_NODISCARD int dz_cli_side_move(struct dz_cli_side *s, const struct dz_cli_spot *from,
                                  const char *to, struct dz_err *err);
DZ_NODISCARD int dz_cli_side_remove(struct dz_cli_side *s, const struct dz_cli_spot *at,
                                    const char *path, bool recursive, struct dz_err *err);

/* The bytes of a file to fd, with the progress of a copy. Standard output gets them as
 * dz_cli_put_guest() writes them. *ret_bytes: how many. */
DZ_NODISCARD int dz_cli_side_get(struct dz_cli_side *s, const struct dz_cli_spot *from, int fd,
                                 uint64_t *ret_bytes, struct dz_err *err);

/* --- cp of one file (cli_cp.c), for edit ------------------------------------------------------ */

struct dz_tree_stats;
/* A file of this machine ("-": standard input) to `to`, and one from there to this machine; total,
 * unless NULL, counts it. */
DZ_NODISCARD int dz_cli_copy_in(struct dz_cli_side *s, const char *from,
                                const struct dz_cli_spot *to, struct dz_tree_stats *total,
                                struct dz_err *err);
DZ_NODISCARD int dz_cli_copy_out(struct dz_cli_side *s, const struct dz_cli_spot *from,
                                 const char *to, struct dz_tree_stats *total, struct dz_err *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * local_cell.h - running something in a cell for a command: its disk, files
 * brought in, standard streams, the exit status.
 */
#ifndef DZ_CLI_LOCAL_CELL_H
#define DZ_CLI_LOCAL_CELL_H

#include "base/hash.h"
#include "cell/cell_exec.h"
#include "cli/cli.h"
#include "image/image.h"

struct dz_cli_cell {
    struct dz_cell_start start; /* disk_fd, wal_fd, image_fd: -1 or open, owned */
    struct dz_cell_exec main;   /* the command that is run; argv NULL: the one that sleeps */
    char image_sha256[65];
    int module_fds[DZ_CELL_MODULES_MAX];
    const char *file;   /* --file, or NULL: ephemeral */
    bool made;          /* the file was made now */
    bool failed;        /* the machine could not be run: nothing of it went on */
    bool create;        /* do so also to resume: what sleeps is the base's */
    int64_t timeout_ns; /* wall clock; 0: none */
    bool keep;          /* SIGTERM puts it to sleep */
    int64_t suspend_ns; /* so does this much time; 0: none */
    struct dz_cell *cell;
};
#define DZ_CLI_CELL_INIT                                                  \
    {                                                                     \
        .start = {.disk_fd = -1, .wal_fd = -1, .image_fd = -1}, .main = { \
            .id = DZ_CELL_MAIN,                                           \
            .attach = true                                                \
        }                                                                 \
    }

/* The image of this name below, with its prepared modules; how it is run goes to
 * *ret_image, to be released. */
int dz_cli_cell_image(struct dz_cli_cell *c, const char *name, struct dz_image *ret_image,
                      struct dz_err *err);
/* The hash of the image that a disk file says it stands on, "" for none. */
int dz_cli_file_image(const char *file, char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err);

/* The image that an existing file says it stands on, if the store has it: 1. Else 0,
 * and *ret_image is untouched. */
int dz_cli_cell_below(struct dz_cli_cell *c, const char *file, struct dz_image *ret_image,
                      struct dz_err *err);
/* One of these: the options --image and --base of the command, else the image that `file`
 * (NULL: none) stands on, else DOZE_BASE, else nothing. *ret_image is to be released. */
int dz_cli_cell_root(struct dz_cli_cell *c, struct dz_cli *cli, const char *file,
                     struct dz_image *ret_image, struct dz_err *err);
/* The disk (c->file, made when it is missing, or one without a name), and the cell over it.
 * Files may be copied in from now on. */
int dz_cli_cell_open(struct dz_cli_cell *c, struct dz_err *err);
/* A host file or directory tree, to the path `guest`. */
int dz_cli_cell_copy(struct dz_cli_cell *c, struct dz_cli *cli, const char *host, const char *guest,
                     struct dz_err *err);
/* Run c->main, or wake it, and carry its streams until it ends. An exit status as of `docker run`,
 * or DZ_E*. */
int dz_cli_cell_run(struct dz_cli_cell *c, struct dz_cli *cli, struct dz_err *err);
/* After an error before dz_cli_cell_run(): what the cell said, if it said why. */
int dz_cli_cell_why(struct dz_cli_cell *c, struct dz_cli *cli, int rc, struct dz_err *err);
/* What must be kept of --file: nothing of a file that could not be started. `status` is
 * that of dz_cli_cell_run(), and returned. */
int dz_cli_cell_tidy(const struct dz_cli_cell *cell, int status);
/* Remove c->file and its log: what was made to be run, and could not be. */
void dz_cli_cell_unlink(const struct dz_cli_cell *c);
/* A command whose status is its program's: what fails before is no 1, but 125. */
int dz_cli_cell_status(struct dz_cli *cli, int rc);
/* The options -t and -i, and the size of our terminal. */
int dz_cli_cell_tty(struct dz_cli *cli, struct dz_cell_exec *exec, struct dz_err *err);
/* The options --keep and --suspend-after of a command that has c->file. */
int dz_cli_cell_keep(struct dz_cli *cli, struct dz_cli_cell *c, struct dz_err *err);
/* Go on with what sleeps in file, which `make` (NULL: it is there) makes when the options of
 * DZ_CLI_OPTIONS_RESUME are right: `doze resume`, `doze fork`. */
int dz_cli_resume(struct dz_cli *cli, const char *file,
                  int (*make)(struct dz_cli *cli, struct dz_err *err), struct dz_err *err);
#define DZ_CLI_OPTIONS_RESUME                                                                   \
    {"image", 'I', "IMAGE", "the image that the disk stands on (default: the one FILE names)"}, \
        {"base", 'b', "ROOT", "the read-only disk that it stands on (default: DOZE_BASE)"},     \
        {"interactive", 'i', NULL, "pass standard input on"},                                   \
        {"tty", 't', NULL, "connect this terminal to the sandbox's"},                           \
        {"suspend-after", 0, "DURATION", "suspend it again after this long"}
void dz_cli_cell_release(struct dz_cli_cell *c);

#endif

/* SPDX-License-Identifier: MIT
 *
 * local_cell.h - run something in a cell for a command: its disk, files copied in, standard
 * streams, the exit status.
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
    const char *file; /* --file, or NULL: ephemeral */
    bool made;        /* the file was created by this command */
    bool failed;      /* the machine could not be run: no program was started */
    bool create; /* create the file also for a resume: the machine that sleeps in the base resumes
                    in it */
    bool only_files; /* no machine is run, so the image's prepared modules are not needed, only its
                        pack */
    int64_t timeout_ns; /* wall clock; 0: none */
    int trace_fd;       /* with main.trace: takes the trace; -1: standard error */
    bool keep;          /* SIGTERM suspends it */
    int stop_signal;    /* of the image: what SIGTERM becomes; 0: it stays */
    int64_t suspend_ns; /* suspend it after this time; 0: never */
    struct dz_cell *cell;
};
#define DZ_CLI_CELL_INIT                                     \
    {.start = {.disk_fd = -1, .wal_fd = -1, .image_fd = -1}, \
     .main = {.id = DZ_CELL_MAIN, .attach = true},           \
     .trace_fd = -1}

/* Put the image of this name below the cell, with its prepared modules. Its settings go to
 * *ret_image, which the caller releases. */
int dz_cli_cell_image(struct dz_cli_cell *c, const char *name, struct dz_image *ret_image,
                      struct dz_err *err);
/* Give the cell the pack of the image in the file of this path, if it has one. Only for a cell with
 * only_files: the pack of an exported image lies in that file, which guests must not map. */
int dz_cli_cell_pack(struct dz_cli_cell *c, const char *path, struct dz_err *err);
/* The hash of the image that a disk file names, "" for none. */
int dz_cli_file_image(const char *file, char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err);

/* Put the image that an existing file names below the cell, if the store has it: 1. Otherwise 0,
 * and *ret_image is untouched. */
int dz_cli_cell_below(struct dz_cli_cell *c, const char *file, struct dz_image *ret_image,
                      struct dz_err *err);
/* Choose what is below the cell: the options --image and --base of the command, else the image that
 * `file` (NULL: none) names, else DOZE_BASE, else nothing. The caller releases *ret_image. */
int dz_cli_cell_root(struct dz_cli_cell *c, struct dz_cli *cli, const char *file,
                     struct dz_image *ret_image, struct dz_err *err);
/* Open the disk (c->file, created if missing, or one without a name) and start the cell on it.
 * Files can be copied in from now on. */
int dz_cli_cell_open(struct dz_cli_cell *c, struct dz_err *err);
/* Copy a host file or directory tree to the path `guest`. */
int dz_cli_cell_copy(struct dz_cli_cell *c, struct dz_cli *cli, const char *host, const char *guest,
                     struct dz_err *err);
/* Run c->main, or wake it, and carry its streams until it ends. An exit status as of `docker run`,
 * or DZ_E*. */
int dz_cli_cell_run(struct dz_cli_cell *c, struct dz_cli *cli, struct dz_err *err);
/* After an error before dz_cli_cell_run(): the cell's own reason, if it sent one. */
int dz_cli_cell_why(struct dz_cli_cell *c, struct dz_cli *cli, int rc, struct dz_err *err);
/* Remove --file if it was created and could not be started. Returns `status`, the result of
 * dz_cli_cell_run(). */
int dz_cli_cell_tidy(const struct dz_cli_cell *cell, int status);
/* Remove c->file and its WAL, which were created for a run that failed. */
void dz_cli_cell_unlink(const struct dz_cli_cell *c);
/* The status of a command that passes its program's status on: a failure before the program is 125,
 * not 1. */
int dz_cli_cell_status(struct dz_cli *cli, int rc);
/* Read the options -t and -i, and the size of our terminal. */
int dz_cli_cell_tty(struct dz_cli *cli, struct dz_cell_exec *exec, struct dz_err *err);
/* Read the options --keep and --suspend-after of a command that has c->file. */
int dz_cli_cell_keep(struct dz_cli *cli, struct dz_cli_cell *c, struct dz_err *err);
/* Resume what sleeps in `file`: `doze resume`, `doze fork`. `make` (NULL: the file exists) creates
 * the file once the options of DZ_CLI_OPTIONS_RESUME are known to be valid. */
int dz_cli_resume(struct dz_cli *cli, const char *file,
                  int (*make)(struct dz_cli *cli, struct dz_err *err), struct dz_err *err);
#define DZ_CLI_OPTIONS_RESUME                                                               \
    {"image", 'I', "IMAGE", "the image below the disk (default: the one that FILE names)"}, \
        {"base", 'b', "ROOT", "the read-only disk below it (default: DOZE_BASE)"},          \
        {"interactive", 'i', NULL, "pass standard input on"},                               \
        {"tty", 't', NULL, "connect this terminal to the sandbox's"},                       \
        {"cpu", 0, "LEVEL", "tell native programs of this processor: x86-64-v2, -v3, -v4"}, \
        {"suspend-after", 0, "DURATION", "suspend it again after this long"}
void dz_cli_cell_release(struct dz_cli_cell *c);

#endif

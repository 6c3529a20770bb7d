/* SPDX-License-Identifier: MIT
 *
 * local_disk.h - what the commands on a disk's file share.
 *
 * They open the file itself, so nobody may run it meanwhile (DZ_EBUSY says so);
 * what looks into it runs in a jail (local_jail.h): a disk may be hostile.
 * Paths are those that a sandbox sees; a relative one starts at "/".
 */
#ifndef DZ_CLI_LOCAL_DISK_H
#define DZ_CLI_LOCAL_DISK_H

#include "base/hash.h"
#include "cli/cli.h"
#include "db/db.h"
#include "vfs/vfs.h"

#define DZ_CLI_OPTION_IMAGE {"image", 0, "FILE", "the image that the disk stands on"}

/* Rows of `jail` for a command whose run calls dz_disk_open() with READ or DATA, or
 * with WRITE, and needs no other file: the first operand and --image are opened,
 * and run is called in a jail. _DATA: what it prints is bytes, not text. */
int dz_disk_jail(struct dz_cli *c, struct dz_err *err);
int dz_disk_jail_data(struct dz_cli *c, struct dz_err *err);
int dz_disk_jail_write(struct dz_cli *c, struct dz_err *err);

/* The same for one that has more to hand over, or to talk about with the host:
 * j's descriptors are added to those of the disk, j->body NULL is run. */
struct dz_cli_jail;
int dz_disk_jail_with(struct dz_cli *c, bool write, struct dz_cli_jail *j, struct dz_err *err);

/* Of the image that --image named, once one of these was called. */
const char *dz_disk_image_sha256(void);

struct dz_disk {
    struct dz_db *db, *image;
    struct dz_vfs *vfs; /* NULL: only the databases were asked for */
    bool readonly;
    bool sleeper; /* a machine sleeps in it */
    char image_sha256[DZ_SHA256_HEX];
    int64_t epoch_ns; /* what the disk's clock shows when it was stopped */
};

enum {
    DZ_DISK_JSON_MAX = 1 << 20, /* one JSON result of these commands */
};

enum dz_disk_open {
    DZ_DISK_READ,  /* changes nothing; also a file that only may be read */
    DZ_DISK_WRITE, /* dz_disk_close commits */
    DZ_DISK_DATA,  /* as READ, but only the databases */
    DZ_DISK_SQL,   /* as DATA, and views count: a hostile file may have endless ones */
};

/* SOURCE_DATE_EPOCH, which stops the clock for builds that are to be repeatable:
 * 1 and the seconds, 0 when it is not set. */
DZ_NODISCARD int dz_disk_epoch(int64_t *ret_s, struct dz_err *err);
/* Inside a jail: opens c's first operand, and the image that --image names. */
DZ_NODISCARD int dz_disk_open(struct dz_cli *c, enum dz_disk_open how, struct dz_disk *ret_disk,
                              struct dz_err *err);
/* Also after a failed open. rc is how the command went so far; what it changed
 * is committed either way, as a file system would have it. Returns rc, or what
 * went wrong here when rc is not negative. */
int dz_disk_close(struct dz_disk *d, int rc, struct dz_err *err);

/* "verb path: No such file or directory", from a negative errno. */
DZ_COLD int dz_disk_fail(const struct dz_disk *d, int sys, const char *verb, const char *path,
                         struct dz_err *err);

/* A path that must exist, whose inode is in *ret_attr; with follow, what a symbolic link
 * leads to. */
DZ_NODISCARD int dz_disk_find(const struct dz_disk *d, const char *path, bool follow,
                              const char *verb, struct dz_vfs_attr *ret_attr, struct dz_err *err);
/* Where a path's last part is or will be. *ret_ino 0: it is not there. */
DZ_NODISCARD int dz_disk_place(const struct dz_disk *d, const char *path, const char *verb,
                               struct dz_vfs_walked *ret_at, struct dz_err *err);

/* What lies at and below a path. A file with several names counts in equal parts
 * for each of them. */
struct dz_disk_size {
    uint64_t stored, size, inodes; /* bytes without holes; bytes of regular files; names */
};
DZ_NODISCARD int dz_disk_measure(const struct dz_disk *d, const char *path, bool follow,
                                 struct dz_disk_size *ret_size, struct dz_err *err);

/* The names in a directory, each with a terminator, in byte order, without
 * dots. *names is initialised here; release it. */
DZ_NODISCARD int dz_disk_names(const struct dz_disk *d, uint64_t dir, struct dz_buf *names,
                               struct dz_err *err);

#endif

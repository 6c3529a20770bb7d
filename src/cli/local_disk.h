/* SPDX-License-Identifier: MIT
 *
 * local_disk.h - the commands on a disk's file: what they share.
 *
 * No other process may use the file meanwhile (DZ_EBUSY). A disk may be hostile, so nothing of it
 * is read outside of a jail. Most commands are operations of a file-only cell (local_files.h).
 * `create`, `check`, `untar` and `sql` work below the file system or choose how it is filled, so
 * they are jailed calls (local_jail.h), for which the functions here open the disk. Paths are those
 * that a sandbox sees; a relative path starts at "/".
 */
#ifndef DZ_CLI_LOCAL_DISK_H
#define DZ_CLI_LOCAL_DISK_H

#include "base/hash.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "db/db.h"
#include "vfs/vfs.h"

#define DZ_CLI_OPTION_IMAGE {"image", 0, "FILE", "the image below the disk"}

/* Values of `jail` for a command whose run calls dz_disk_open() with READ or DATA, or with WRITE,
 * and needs no other file: opens the first operand and --image, and calls run in a jail. */
int dz_disk_jail(struct dz_cli *c, struct dz_err *err);
int dz_disk_jail_write(struct dz_cli *c, struct dz_err *err);

/* The same for a command that passes more descriptors or exchanges messages with the host: j's
 * descriptors are added to those of the disk; j->body NULL means run. */
struct dz_cli_jail;
int dz_disk_jail_with(struct dz_cli *c, bool write, struct dz_cli_jail *j, struct dz_err *err);

/* The hash of the image that --image named, after one of these calls. */
const char *dz_disk_image_sha256(void);

struct dz_disk {
    struct dz_db *db, *image;
    struct dz_vfs_pack pack; /* the pack of the image, or of db when that is an image */
    struct dz_vfs *vfs;      /* NULL: only the databases are open */
    bool readonly;
    bool sleeper; /* a machine sleeps in it */
    char image_sha256[DZ_SHA256_HEX];
    int64_t epoch_ns; /* time of the disk's clock if it was stopped */
};

enum {
    DZ_DISK_JSON_MAX = 1 << 20, /* bytes of one JSON result of these commands */
};

enum dz_disk_open {
    DZ_DISK_READ,  /* changes nothing; works on a file that is only readable */
    DZ_DISK_WRITE, /* dz_disk_close commits */
    DZ_DISK_DATA,  /* as READ, but opens only the databases */
    DZ_DISK_SQL,   /* as DATA; also bounds views, because a hostile file may have endless ones */
};

/* Read SOURCE_DATE_EPOCH, which stops the clock for reproducible builds: 1 and the seconds, 0 if it
 * is not set. */
DZ_NODISCARD int dz_disk_epoch(int64_t *ret_s, struct dz_err *err);
/* Inside a jail: open c's first operand, and the image that --image names. */
DZ_NODISCARD int dz_disk_open(struct dz_cli *c, enum dz_disk_open how, struct dz_disk *ret_disk,
                              struct dz_err *err);
/* Close the disk, also after a failed open. rc is the result so far. Changes are committed in
 * either case, as on a file system. Returns rc, or an error of the close if rc is not negative. */
int dz_disk_close(struct dz_disk *d, int rc, struct dz_err *err);

/* "verb path: No such file or directory", from a negative errno. */
DZ_COLD int dz_disk_fail(const struct dz_disk *d, int sys, const char *verb, const char *path,
                         struct dz_err *err);

/* Find a path that must exist; its inode goes to *ret_attr. With `follow`, a symbolic link is
 * followed. */
DZ_NODISCARD int dz_disk_find(const struct dz_disk *d, const char *path, bool follow,
                              const char *verb, struct dz_vfs_attr *ret_attr, struct dz_err *err);
/* The absolute path of an operand: a relative one starts at "/". */
DZ_NODISCARD int dz_disk_path(const char *path, char ret[static DZ_PATH_MAX], struct dz_err *err);

#endif

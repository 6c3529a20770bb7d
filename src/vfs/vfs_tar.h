/* SPDX-License-Identifier: MIT
 *
 * vfs_tar.h - a tree of the disk from a tar stream, and as one.
 *
 * Read: v7, ustar, pax (long names, mtime in ns, extended attributes) and GNU
 * (long names); sparse files of GNU (old form) and of pax (0.0, 0.1, 1.0).
 * Written: pax, plain ustar headers where they are enough. Not compressed: that
 * is for a pipe.
 */
#ifndef DZ_VFS_VFS_TAR_H
#define DZ_VFS_VFS_TAR_H

#include "base/err.h"
#include "vfs/vfs.h"

enum {
    DZ_TAR_BLOCK = 512,
    DZ_TAR_PAX_MAX = 1 << 20,     /* bytes of one extended header */
    DZ_TAR_PATH_MAX = 1 << 16,    /* bytes of a member's name or link */
    DZ_TAR_SPARSE_MAX = 1 << 18,  /* pieces of one sparse file */
    DZ_TAR_XATTR_MAX = 64,        /* extended attributes of one member */
    DZ_TAR_MEMBERS_MAX = 4000000, /* of one archive */
};

struct dz_tar_in {
    struct dz_vfs *vfs;
    uint64_t dir; /* where the tree goes, merged with what is there */

    /* Up to n bytes of the archive; 0 at its end; a negative errno ends it all. */
    ssize_t (*read)(void *arg, void *buf, size_t n);
    /* A sentence about a member that was left out or not wholly kept; NULL. */
    void (*note)(void *arg, const char *sentence);
    void (*progress)(void *arg, uint64_t bytes_read); /* NULL */
    bool (*stop)(void *arg);                          /* asked now and then; NULL */
    void *arg;

    bool skip_bad;      /* leave out a bad member, and report it; otherwise nothing is imported */
    bool owners;        /* uid, gid, set-id bits, attributes in trusted. and security. */
    bool links;         /* keep symbolic links that lead out of the tree */
    bool devices;       /* keep device nodes */
    uint32_t uid, gid;  /* of everything, when owners are not kept */
    uint64_t max_bytes; /* content that may be stored, 0: what the disk's limits allow */
};

struct dz_tar_stats {
    uint64_t members, skipped, bytes; /* kept; left out; content stored */
};

#define DZ_TAR_STAGE ".doze-untar"

/* Everything in the archive or nothing: it is unpacked into a directory of its
 * own inside dir (DZ_TAR_STAGE), which is merged when all has been read, and
 * removed when anything is wrong. Directories merge; a file replaces a file; a
 * file that meets a directory is bad. A member is bad when its name is absolute or holds "..",
 * when a part of its name is a symbolic link, when a link leads out of the tree,
 * when it is a device, does not fit into the quota, or is of an unknown type.
 * A broken archive (a wrong checksum, an early end, sizes that lie) is always
 * an error. All is committed when it returns, also what came before; a crash in the middle is
 * made good when the disk is opened next: then it is there wholly or not at all.
 * DZ_EINVAL: a bad member or a broken archive. DZ_EQUOTA, DZ_ENOSPC: too big. */
DZ_NODISCARD int dz_vfs_tar_in(const struct dz_tar_in *in, struct dz_tar_stats *ret_stats,
                               struct dz_err *err);

struct dz_tar_out {
    struct dz_vfs *vfs;
    uint64_t ino;     /* what to write, with everything below it */
    const char *name; /* its name in the archive; "": no entry for itself, only for what is below */

    int (*write)(void *arg, const void *buf, size_t n); /* 0 or a negative errno */
    void (*note)(void *arg, const char *sentence);      /* sockets are left out */
    void (*progress)(void *arg, uint64_t bytes_written);
    bool (*stop)(void *arg);
    void *arg;

    bool sparse; /* files with holes in pax's sparse form 1.0; else holes are zeros */
};

/* Names in each directory are sorted by bytes, so equal trees give equal archives. A file with
 * several names is written once, its other names as links. The archive ends with this tree: call it
 * once for each archive. */
DZ_NODISCARD int dz_vfs_tar_out(const struct dz_tar_out *out, struct dz_tar_stats *ret_stats,
                                struct dz_err *err);

#endif

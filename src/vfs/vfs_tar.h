/* SPDX-License-Identifier: MIT
 *
 * vfs_tar.h - import a tree from a tar stream, and export a tree as one.
 *
 * It reads v7, ustar, pax (long names, mtime in ns, extended attributes) and GNU (long names), and
 * sparse files of GNU (old form) and of pax (0.0, 0.1, 1.0). It writes pax, with plain ustar
 * headers where they suffice. It does not compress; use a pipe.
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
    DZ_TAR_MEMBERS_MAX = 4000000, /* members of one archive */
};

struct dz_tar_in {
    struct dz_vfs *vfs;
    uint64_t dir; /* the directory that the tree is merged into */

    /* Read up to n bytes of the archive; 0 at its end; a negative errno aborts the import. */
    ssize_t (*read)(void *arg, void *buf, size_t n);
    /* Called with a sentence about a member that was left out or kept in part; may be NULL. */
    void (*note)(void *arg, const char *sentence);
    void (*progress)(void *arg, uint64_t bytes_read); /* may be NULL */
    bool (*stop)(void *arg);                          /* polled: true cancels; may be NULL */
    void *arg;

    bool skip_bad;      /* leave out bad members and report them; else the import fails */
    bool owners;        /* keep uid, gid, set-id bits, attributes in trusted. and security. */
    bool links;         /* keep symbolic links that lead out of the tree */
    bool devices;       /* keep device nodes */
    uint32_t uid, gid;  /* the owner of all entries if owners are not kept */
    uint64_t max_bytes; /* bytes of content that may be stored; 0: only the disk's limits */
};

struct dz_tar_stats {
    uint64_t members, skipped, bytes; /* kept; left out; content stored */
};

#define DZ_TAR_STAGE ".doze-untar"

/* Import an archive as a whole or not at all. It is unpacked into a directory of its own inside dir
 * (DZ_TAR_STAGE), which is merged into dir when the whole archive has been read, or removed if
 * anything failed. Directories merge; a file replaces a file.
 *
 * A member is bad if its name is absolute or contains "..", if a part of its name is a symbolic
 * link, if a link leads out of the tree, if a file would replace a directory, if it is a device,
 * does not fit into the quota, or has an unknown type. A broken archive (a wrong checksum, an early
 * end, wrong sizes) is always an error.
 *
 * On return everything is committed, earlier changes included. After a crash the next open of the
 * disk completes or undoes the import.
 * DZ_EINVAL: a bad member or a broken archive. DZ_EQUOTA, DZ_ENOSPC: too big. */
DZ_NODISCARD int dz_vfs_tar_in(const struct dz_tar_in *in, struct dz_tar_stats *ret_stats,
                               struct dz_err *err);

struct dz_tar_out {
    struct dz_vfs *vfs;
    uint64_t ino;     /* the top of the tree to write */
    const char *name; /* its name in the archive; "": write no entry for the top itself */

    int (*write)(void *arg, const void *buf, size_t n); /* 0 or a negative errno */
    void (*note)(void *arg, const char *sentence);      /* called for left out sockets */
    void (*progress)(void *arg, uint64_t bytes_written);
    bool (*stop)(void *arg);
    void *arg;

    bool sparse; /* write files with holes in pax's sparse form 1.0; else holes become zeros */
};

/* Names in each directory are sorted by bytes, so equal trees give equal archives. A file with
 * several names is written once, its other names as links. The archive ends with this tree: call it
 * once for each archive. */
DZ_NODISCARD int dz_vfs_tar_out(const struct dz_tar_out *out, struct dz_tar_stats *ret_stats,
                                struct dz_err *err);

#endif

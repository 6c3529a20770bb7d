/* SPDX-License-Identifier: MIT
 *
 * vfs_at.h - the disk as a process sees it: paths, credentials, umask.
 *
 * One function for each call of the *at family. All return 0, a count or a negative errno, and
 * check permissions as Linux does. `dir` is the inode where a relative path starts (a dirfd).
 */
#ifndef DZ_VFS_VFS_AT_H
#define DZ_VFS_VFS_AT_H

#include "vfs/vfs.h"

struct dz_vfs_who {
    struct dz_vfs_cred cred;
    uint64_t root; /* DZ_VFS_ROOT, or a chroot */
    uint32_t umask;
};
struct dz_vfs_path {
    uint64_t dir;
    const char *path;
};

/* flags of open(2): O_ACCMODE, O_CREAT, O_EXCL, O_TRUNC, O_DIRECTORY,
 * O_NOFOLLOW, O_PATH, O_TMPFILE, O_NOATIME; the caller handles all others. The caller releases the
 * new reference by dz_vfs_unref(). */
int dz_vfs_open_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at, int flags,
                   uint32_t mode, uint64_t *ret_ino);
/* follow: follow a symlink at the end of the path. */
int dz_vfs_stat_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                   bool follow, struct dz_vfs_attr *ret_attr);
int dz_vfs_access_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                     bool follow, int mask);
int dz_vfs_mkdir_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                    uint32_t mode);
/* mode with S_IFIFO, S_IFREG, S_IFSOCK; devices need uid 0. */
int dz_vfs_mknod_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                    uint32_t mode, uint64_t rdev);
int dz_vfs_symlink_at(struct dz_vfs *v, const struct dz_vfs_who *who, const char *target,
                      struct dz_vfs_path at);
int dz_vfs_readlink_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                       char *buf, size_t size);
int dz_vfs_link_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path from,
                   struct dz_vfs_path to, bool follow);
int dz_vfs_unlink_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at);
int dz_vfs_rmdir_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at);
int dz_vfs_rename_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path from,
                     struct dz_vfs_path to, unsigned flags);
int dz_vfs_truncate_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                       uint64_t size);

/* By inode, with permission checks, like fchmod(2), fchown(2), futimens(2). */
int dz_vfs_chmod(struct dz_vfs *v, const struct dz_vfs_who *who, uint64_t ino, uint32_t mode);
/* UINT32_MAX leaves uid or gid as it is. */
int dz_vfs_chown(struct dz_vfs *v, const struct dz_vfs_who *who, uint64_t ino, uint32_t uid,
                 uint32_t gid);
#define DZ_VFS_TIME_NOW  INT64_MIN
#define DZ_VFS_TIME_OMIT (INT64_MIN + 1)
int dz_vfs_utimes(struct dz_vfs *v, const struct dz_vfs_who *who, uint64_t ino, int64_t atime,
                  int64_t mtime);
int dz_vfs_chmod_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                    uint32_t mode);
int dz_vfs_chown_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                    const struct dz_vfs_attr *owner, bool follow); /* uid, gid of owner */
int dz_vfs_utimes_at(struct dz_vfs *v, const struct dz_vfs_who *who, struct dz_vfs_path at,
                     const struct dz_vfs_attr *times, bool follow); /* atime, mtime of times */

#endif

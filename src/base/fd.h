/* SPDX-License-Identifier: MIT
 *
 * fd.h - descriptors and files: whole reads and writes, replacing a file,
 * locks, directories.
 *
 * Every descriptor is made with O_CLOEXEC. A path is taken relative to the
 * directory descriptor before it (AT_FDCWD for the working directory).
 * Interrupted calls are repeated, but close never is. All of this blocks; it
 * is not for sockets in the loop.
 */
#ifndef DZ_BASE_FD_H
#define DZ_BASE_FD_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Close *fd if it is one, and make it -1. errno is kept. For DZ_AUTO. */
void dz_fd_close(int *fd);

/* open(2) with O_CLOEXEC; the descriptor, or an error that names the path. */
DZ_NODISCARD int dz_fd_open(int dir, const char *path, int flags, mode_t mode, struct dz_err *err);

/* Open the same file again for reading, because all descriptors of one open file share its flags
 * and its offset. Needs /proc. */
DZ_NODISCARD int dz_fd_reopen(int fd, struct dz_err *err);

struct stat;
/* fstat(2) by its own system call: 0, or -1 and errno. The C library's fstat calls newfstatat(2),
 * which can inspect any path and is therefore forbidden in jails. */
int dz_fd_stat(int fd, struct stat *ret_stat);

/* Append everything up to the end of the file to b. DZ_ELIMIT: more than b may hold. On failure b
 * holds the bytes read so far, and b->err is set if b was the reason. */
DZ_NODISCARD int dz_fd_read_all(int fd, struct dz_buf *b, struct dz_err *err);
DZ_NODISCARD int dz_fd_read_file(int dir, const char *path, struct dz_buf *b, struct dz_err *err);

/* Read or write exactly n bytes, or fail; an early end of the file is DZ_EIO. */
DZ_NODISCARD int dz_fd_pread(int fd, void *ret_data, size_t n, uint64_t at, struct dz_err *err);
DZ_NODISCARD int dz_fd_write(int fd, const void *data, size_t n, struct dz_err *err);
DZ_NODISCARD int dz_fd_pwrite(int fd, const void *data, size_t n, uint64_t at, struct dz_err *err);

/* Write a text to an existing file with one write(2), as files in /proc and in cgroups require.
 * On failure false, and errno is set. */
bool dz_fd_put(const char *path, const char *text);

/* Replace path by a file with these contents and exactly this mode, atomically and durably: temp
 * file beside it, write, fsync, rename, fsync of the directory. On failure path is unchanged and no
 * temp file is left, except if the last step (fsync of the directory) fails, after the rename. */
DZ_NODISCARD int dz_fd_replace(int dir, const char *path, const void *data, size_t n, mode_t mode,
                               struct dz_err *err);

/* fsync a directory, so that names made or removed in it are durable. */
DZ_NODISCARD int dz_fd_sync_dir(int dir, const char *path, struct dz_err *err);

/* Lock the whole file for this open file description (OFD lock), without waiting: DZ_EBUSY if
 * another lock conflicts. EXCLUSIVE needs a descriptor that is open for writing, SHARED one that is
 * open for reading. The last close releases the lock, and so does NONE. */
enum dz_fd_lock {
    DZ_FD_LOCK_NONE,
    DZ_FD_LOCK_SHARED,
    DZ_FD_LOCK_EXCLUSIVE,
};
DZ_NODISCARD int dz_fd_lock(int fd, enum dz_fd_lock kind, struct dz_err *err);

/* --- unix stream sockets (fd_unix.c): not blocking, at paths of any length --- */

/* Listen at path, with this mode. A stale socket there is replaced; DZ_EBUSY: a process still
 * listens on it; DZ_EEXIST: another kind of file is there. */
DZ_NODISCARD int dz_fd_unix_listen(const char *path, mode_t mode, struct dz_err *err);
/* Connect, without waiting. DZ_ENOENT: no process listens there; DZ_EDENIED, DZ_EIO. */
DZ_NODISCARD int dz_fd_unix_connect(const char *path, struct dz_err *err);

/* --- directories (fd_tree.c) --- */

/* Make path and its missing parents; an existing directory is fine. */
DZ_NODISCARD int dz_fd_mkdirs(int dir, const char *path, mode_t mode, struct dz_err *err);

/* Make a new directory ${TMPDIR:-/tmp}/PREFIX-xxxxxx of mode 0700. */
enum {
    DZ_TEMP_DIR_TEXT = 512
};
DZ_NODISCARD int dz_fd_temp_dir(const char *prefix, char ret_path[static DZ_TEMP_DIR_TEXT],
                                struct dz_err *err);

/* Remove a file, or a directory with everything in it, without following symbolic links. A missing
 * path is fine. Stops at the first failure; DZ_ELIMIT: deeper than DZ_TREE_DEPTH_MAX. A path that
 * ends in "/", "." or ".." is DZ_EINVAL, because it is certainly a mistake. */
DZ_NODISCARD int dz_fd_remove_tree(int dir, const char *path, struct dz_err *err);

#endif

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

/* The same file opened anew, for reading: flags and offset belong to an open file, and all who
 * hold a descriptor of one share them. Needs /proc. */
DZ_NODISCARD int dz_fd_reopen(int fd, struct dz_err *err);

struct stat;
/* fstat(2) by its own number: 0 or -1 and errno. The C library's goes through newfstatat(2),
 * which can look at any path, so jailed processes do not have it. */
int dz_fd_stat(int fd, struct stat *ret_stat);

/* Append all that is left to read to b. More than b may hold is DZ_ELIMIT. On
 * failure b holds what came before, and its err is set if it was the reason. */
DZ_NODISCARD int dz_fd_read_all(int fd, struct dz_buf *b, struct dz_err *err);
DZ_NODISCARD int dz_fd_read_file(int dir, const char *path, struct dz_buf *b, struct dz_err *err);

/* Exactly n bytes, or an error; a file that ends before is DZ_EIO. */
DZ_NODISCARD int dz_fd_pread(int fd, void *ret_data, size_t n, uint64_t at, struct dz_err *err);
DZ_NODISCARD int dz_fd_write(int fd, const void *data, size_t n, struct dz_err *err);
DZ_NODISCARD int dz_fd_pwrite(int fd, const void *data, size_t n, uint64_t at, struct dz_err *err);

/* Write a text to a file that exists, with one write(2): files of the kernel, in /proc or a cgroup,
 * want it so. False and errno. */
bool dz_fd_put(const char *path, const char *text);

/* Give path these contents and exactly this mode, at once and durably: temp
 * file beside it, write, fsync, rename, fsync of the directory. On failure path
 * is what it was and no temp file stays (but a failure of the last step, the
 * directory's fsync, comes after the rename). */
DZ_NODISCARD int dz_fd_replace(int dir, const char *path, const void *data, size_t n, mode_t mode,
                               struct dz_err *err);

/* fsync a directory, so that names made or removed in it are durable. */
DZ_NODISCARD int dz_fd_sync_dir(int dir, const char *path, struct dz_err *err);

/* Lock the whole file for this open file description (OFD lock): DZ_EBUSY at
 * once if somebody else's lock forbids it. EXCLUSIVE needs a descriptor open for
 * writing, SHARED one for reading. Goes with the last close, or by NONE. */
enum dz_fd_lock {
    DZ_FD_LOCK_NONE,
    DZ_FD_LOCK_SHARED,
    DZ_FD_LOCK_EXCLUSIVE,
};
DZ_NODISCARD int dz_fd_lock(int fd, enum dz_fd_lock kind, struct dz_err *err);

/* --- unix sockets (fd_unix.c): of the stream kind, not blocking, by paths of any length --- */

/* Make a listener at path with this mode. One that nobody listens on any more, or any
 * socket left behind, is replaced; DZ_EBUSY when somebody does, DZ_EEXIST when something
 * else is there. */
DZ_NODISCARD int dz_fd_unix_listen(const char *path, mode_t mode, struct dz_err *err);
/* Connected, or DZ_ENOENT: nobody is there; DZ_EDENIED, DZ_EIO. Does not wait. */
DZ_NODISCARD int dz_fd_unix_connect(const char *path, struct dz_err *err);

/* --- directories (fd_tree.c) --- */

/* Make path and what is missing above it; a directory that is there is fine. */
DZ_NODISCARD int dz_fd_mkdirs(int dir, const char *path, mode_t mode, struct dz_err *err);

/* A new directory of mode 0700, ${TMPDIR:-/tmp}/PREFIX-xxxxxx. */
enum {
    DZ_TEMP_DIR_TEXT = 512
};
DZ_NODISCARD int dz_fd_temp_dir(const char *prefix, char ret_path[static DZ_TEMP_DIR_TEXT],
                                struct dz_err *err);

/* Remove a file or a directory with all in it; follows no symbolic link, and
 * nothing there is fine. Stops at the first failure; deeper than
 * DZ_TREE_DEPTH_MAX is DZ_ELIMIT. A path that ends in no name ("/", ".", "..")
 * is DZ_EINVAL: nobody means that. */
DZ_NODISCARD int dz_fd_remove_tree(int dir, const char *path, struct dz_err *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * local_hash.h - the SHA-256 of a large file that seldom changes.
 */
#ifndef DZ_CLI_LOCAL_HASH_H
#define DZ_CLI_LOCAL_HASH_H

#include "base/hash.h"

/* Of the whole file that fd is. Known from before when its inode, size and times are
 * what they were; a file that has changed within the last seconds is read anew.
 * what: for messages. */
DZ_NODISCARD int dz_cli_hash_fd(int fd, const char *what, char ret_hex[static DZ_SHA256_HEX],
                                struct dz_err *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * local_hash.h - the SHA-256 of a large file that seldom changes.
 */
#ifndef DZ_CLI_LOCAL_HASH_H
#define DZ_CLI_LOCAL_HASH_H

#include "base/hash.h"

/* The hash of the whole file that fd has open. It is remembered while inode, size and times are
 * unchanged; a file that has changed within the last seconds is always read. what: for messages. */
DZ_NODISCARD int dz_cli_hash_fd(int fd, const char *what, char ret_hex[static DZ_SHA256_HEX],
                                struct dz_err *err);

#endif

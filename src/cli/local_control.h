/* SPDX-License-Identifier: MIT
 *
 * local_control.h - asking the doze that runs a file for a copy of its machine.
 *
 * `doze run --keep` and `doze resume` listen on a socket whose name is made of the file's
 * device and inode, so it is found by the file, and goes with the process. One request is
 * served at a time, of the same user (or root) only: two descriptors come, of an empty
 * file and its empty log, and an answer goes.
 */
#ifndef DZ_CLI_LOCAL_CONTROL_H
#define DZ_CLI_LOCAL_CONTROL_H

#include "base/attr.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct dz_cli_control {
    int listener; /* -1: nobody can ask */
    int client;   /* whose request is under way; -1: none */
};
#define DZ_CLI_CONTROL_INIT {.listener = -1, .client = -1}

/* Listen for the file that is open in fd. Not being able to is no failure. */
void dz_cli_control_listen(struct dz_cli_control *c, int fd);
/* The listener is readable and nothing is under way: 1 and the request's descriptors, which
 * the caller closes; 0: it was nothing. */
int dz_cli_control_accept(struct dz_cli_control *c, int ret_fds[static 2]);
/* Answer it: bytes of the copy, or code and why. */
void dz_cli_control_answer(struct dz_cli_control *c, uint64_t bytes, int code, const char *text);
void dz_cli_control_release(struct dz_cli_control *c);

/* Ask whoever runs the file open in fd: its machine as it is now, asleep, into two empty
 * files. DZ_ENOENT: nobody that can be asked does. */
DZ_NODISCARD int dz_cli_control_snapshot(int fd, int db_fd, int wal_fd, struct dz_err *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * local_control.h - request a copy of a machine from the doze process that runs its file.
 *
 * `doze run --keep` and `doze resume` listen on a socket whose name is derived from the file's
 * device and inode. So the socket is found by the file and disappears with the process. One request
 * is served at a time, and only from the same user or root. A request passes two descriptors, of an
 * empty file and its empty WAL; one answer follows.
 */
#ifndef DZ_CLI_LOCAL_CONTROL_H
#define DZ_CLI_LOCAL_CONTROL_H

#include "base/attr.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct dz_cli_control {
    int listener; /* -1: no requests */
    int client;   /* the client whose request is in progress; -1: none */
};
#define DZ_CLI_CONTROL_INIT {.listener = -1, .client = -1}

/* Listen on the socket of the file that fd has open. Best effort. */
void dz_cli_control_listen(struct dz_cli_control *c, int fd);
/* The listener is readable and no request is in progress. 1: a request with its descriptors, which
 * the caller closes; 0: there was none. */
int dz_cli_control_accept(struct dz_cli_control *c, int ret_fds[static 2]);
/* Answer the request: the size of the copy, or a code and the reason. */
void dz_cli_control_answer(struct dz_cli_control *c, uint64_t bytes, int code, const char *text);
void dz_cli_control_release(struct dz_cli_control *c);

/* Request a copy from the process that runs the file open in fd: its machine as it is now,
 * suspended, in two empty files. DZ_ENOENT: no process that can make a copy runs it. */
DZ_NODISCARD int dz_cli_control_snapshot(int fd, int db_fd, int wal_fd, struct dz_err *err);

#endif

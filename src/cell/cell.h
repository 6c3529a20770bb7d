/* SPDX-License-Identifier: MIT
 *
 * cell.h - a machine in a process of its own, which is jailed before it reads a byte of its guest.
 *
 * The host forks; the child enters its jail with only a socket and the descriptors that it is
 * passed (its disk, the disk's WAL, the image below, prepared modules). The two exchange frames:
 * input, output, exit codes (docs/format/cell-protocol.md). A cell cannot open a path, a socket or
 * a process; if it dies, its machine's last commit is in the file.
 *
 *     struct dz_cell_start s = {.disk_fd = fd, …};
 *     struct dz_cell *c;
 *     dz_cell_spawn(&s, &c, err);
 *     dz_cell_go(c, err);
 *     … dz_cell_exec() (cell_exec.h) … poll(dz_cell_fd(c), dz_cell_poll_events(c)) …
 *     … dz_cell_receive(c, &event, err) …
 *     dz_cell_free(c);
 *
 * Sending never blocks: bytes that the socket does not take are queued until dz_cell_flush() or
 * dz_cell_drain(), at most DZ_CELL_QUEUE_MAX of them (then DZ_EBUSY).
 */
#ifndef DZ_CELL_CELL_H
#define DZ_CELL_CELL_H

#include "runtime/runtime.h"

/* The processor that native programs of cells are told of (dz_linux_baseline()), for this process
 * and the cells that it makes from now on; call it before the first. DZ_EINVAL, DZ_EUNSUPPORTED. */
DZ_NODISCARD int dz_cell_baseline(const char *level, struct dz_err *err);

/* Fork a cell and pass the start and its descriptors to it. The caller keeps its own copies of the
 * descriptors. */
DZ_NODISCARD int dz_cell_spawn(const struct dz_cell_start *start, struct dz_cell **ret_cell,
                               struct dz_err *err);
/* The descriptor to poll: when it is readable, call dz_cell_receive(). It changes when the cell is
 * dying, so ask again after each receive that returned 0. */
int dz_cell_fd(const struct dz_cell *c);
/* The events to poll for: POLLIN, and POLLOUT while bytes are queued (then call dz_cell_flush()).
 */
short dz_cell_poll_events(const struct dz_cell *c);
int dz_cell_flush(struct dz_cell *c, struct dz_err *err);
/* Wait until all queued bytes are in the socket. */
int dz_cell_drain(struct dz_cell *c, struct dz_err *err);
int32_t dz_cell_pid(struct dz_cell *c); /* 0: the cell has no pid yet, or no longer */

/* Make files in the machine before it starts: a directory, a symbolic link, or a file, whose bytes
 * are sent afterwards. Missing parent directories are made, and existing files are replaced. mode:
 * permission bits. The event FAILED reports a failure inside the cell. */
int dz_cell_put_dir(struct dz_cell *c, const char *path, uint32_t mode, struct dz_err *err);
int dz_cell_put_link(struct dz_cell *c, const char *path, const char *target, struct dz_err *err);
int dz_cell_put_file(struct dz_cell *c, const char *path, uint32_t mode, struct dz_err *err);
int dz_cell_put_data(struct dz_cell *c, const void *data, size_t size, struct dz_err *err);
int dz_cell_begin(struct dz_cell *c, struct dz_err *err);
/* Start the machine: wake the one that sleeps in the file, or begin an empty one. */
int dz_cell_go(struct dz_cell *c, struct dz_err *err);

/* Take the next event. 1: there was one; 0: there is none now. DZ_EIO: the cell died without giving
 * a reason, because of a bug or an attack; err names the signal. */
int dz_cell_receive(struct dz_cell *c, struct dz_cell_event *ret_event, struct dz_err *err);
/* Was the cell killed because it used more memory than its cgroup allows (cell_pool.h)? */
bool dz_cell_out_of_memory(const struct dz_cell *c);
/* Did the next event arrive in the same packet as the last one? Then the caller must take it before
 * it polls. */
bool dz_cell_pending(const struct dz_cell *c);

/* Set by how many bytes its disk may still grow before writes fail with EDQUOT; UINT64_MAX: no
 * limit. */
int dz_cell_room(struct dz_cell *c, uint64_t bytes, struct dz_err *err);
/* Set how many bytes of the host's file system guests must leave free (else writes fail with
 * ENOSPC), and how many bytes its disk may hold (else EDQUOT). 0: no limit. */
int dz_cell_limits(struct dz_cell *c, uint64_t keep_free, uint64_t disk_bytes, struct dz_err *err);
/* Suspend the machine. The event SUSPENDED or AWAKE follows. files_only: keep only the disk. Until
 * AWAKE the windows are 0, because input that is sent meanwhile would be lost. */
int dz_cell_suspend(struct dz_cell *c, bool files_only, struct dz_err *err);
/* Copy the machine as it is now, suspended, into an empty file, while it keeps running; the event
 * COPIED follows. The copy is not synced, and the cell has closed it. Another cell may resume the
 * copy at once, which makes a fork. */
int dz_cell_snapshot(struct dz_cell *c, int fd, struct dz_err *err);

/* End the cell now, in whatever state it is. State that it reported as durable stays durable. The
 * caller must still free it. */
void dz_cell_kill(struct dz_cell *c);
/* Kill the cell unless it has reported SUSPENDED, reap it and free it. NULL is fine. */
void dz_cell_free(struct dz_cell *c);

#endif

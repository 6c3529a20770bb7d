/* SPDX-License-Identifier: MIT
 *
 * cell.h - a machine in a process of its own, jailed before it reads a byte of
 * its guest.
 *
 * The host forks, the child enters its jail with nothing but a socket and the
 * descriptors it is handed (its disk, the log of that, the image below, modules
 * prepared before), and the two exchange frames: what is typed, what is printed,
 * how it ended (docs/format/cell-protocol.md). A cell cannot open a path, a
 * socket or a process; if it dies, its machine's last commit is in the file.
 *
 * Two ways to use one. With a first process, as `docker run`: it ends with that. With
 * `many`: the machine is there, and commands come and go (cell_exec.h).
 *
 *     struct dz_cell_start s = {.disk_fd = fd, .argv = …};
 *     struct dz_cell *c;
 *     dz_cell_spawn(&s, &c, err);
 *     … poll(dz_cell_fd(c)) … dz_cell_receive(c, &event, err) …
 *     dz_cell_free(c);
 */
#ifndef DZ_CELL_CELL_H
#define DZ_CELL_CELL_H

#include "runtime/runtime.h"

/* Fork a cell and hand it everything. The descriptors stay the caller's. */
DZ_NODISCARD int dz_cell_spawn(const struct dz_cell_start *start, struct dz_cell **ret_cell,
                               struct dz_err *err);
/* Readable: receive something. Another one from the moment that the cell is dying: ask again after
 * each receive that had nothing to say. */
int dz_cell_fd(const struct dz_cell *c);
/* Of a cell with many commands nothing waits: what its socket does not take is kept.
 * POLLIN, and POLLOUT while something is; then flush. */
short dz_cell_poll_events(const struct dz_cell *c);
int dz_cell_flush(struct dz_cell *c, struct dz_err *err);
int32_t dz_cell_pid(struct dz_cell *c); /* 0: not known yet, or gone */

/* Files of the machine before its first process, in this order: a directory, a
 * symbolic link, or a file and then its bytes. Directories above are made;
 * what is there is replaced. mode: permission bits. What goes wrong inside is
 * told by the event FAILED. */
int dz_cell_put_dir(struct dz_cell *c, const char *path, uint32_t mode, struct dz_err *err);
int dz_cell_put_link(struct dz_cell *c, const char *path, const char *target, struct dz_err *err);
int dz_cell_put_file(struct dz_cell *c, const char *path, uint32_t mode, struct dz_err *err);
int dz_cell_put_data(struct dz_cell *c, const void *data, size_t size, struct dz_err *err);
int dz_cell_begin(struct dz_cell *c, struct dz_err *err);
/* All is there: start the first process, or bring up the machine. */
int dz_cell_go(struct dz_cell *c, struct dz_err *err);

/* Next event: 1, 0 when there is none now, or an error: DZ_EIO when the cell died
 * without a word (a bug or a breach: err says by which signal). */
int dz_cell_receive(struct dz_cell *c, struct dz_cell_event *ret_event, struct dz_err *err);
/* Was the cell killed because it took more memory than its cgroup allows (cell_pool.h)? */
bool dz_cell_out_of_memory(const struct dz_cell *c);
/* Did the next event come in the packet of the last one? The caller must take it before it polls.
 */
bool dz_cell_pending(const struct dz_cell *c);

/* Input of STDIN or TTY: how much was taken, never more than its window. */
int64_t dz_cell_input(struct dz_cell *c, uint32_t stream, const void *data, size_t size,
                      struct dz_err *err);
size_t dz_cell_window(const struct dz_cell *c, uint32_t stream);
int dz_cell_input_end(struct dz_cell *c, uint32_t stream, struct dz_err *err);
int dz_cell_resize(struct dz_cell *c, uint16_t rows, uint16_t cols, struct dz_err *err);
int dz_cell_signal(struct dz_cell *c, int signo, struct dz_err *err);
/* Of a cell with many commands: so much more its disk may take, then writing fails with EDQUOT;
 * UINT64_MAX: as much as there is. */
int dz_cell_room(struct dz_cell *c, uint64_t bytes, struct dz_err *err);
/* The same: bytes of the host's file system that its guests leave free, else ENOSPC; and what its
 * disk may take at all, else EDQUOT. 0: no limit. */
int dz_cell_limits(struct dz_cell *c, uint64_t keep_free, uint64_t disk_bytes, struct dz_err *err);
/* Put the machine to sleep: the event SUSPENDED, AWAKE, or ENDED when its first
 * process was faster. files_only: nothing but the disk is kept. Windows are shut until
 * AWAKE: input that is sent meanwhile would be lost. */
int dz_cell_suspend(struct dz_cell *c, bool files_only, struct dz_err *err);
/* Copy the machine as it is now, asleep, into an empty file, while it runs on: the event COPIED.
 * The copy is not synced, and the cell has closed it. Another cell may resume it at once: a fork.
 */
int dz_cell_snapshot(struct dz_cell *c, int fd, struct dz_err *err);

/* Whatever it said: it ends now, and what it had said to be durable is. Then free it. */
void dz_cell_kill(struct dz_cell *c);
/* Kill what still runs (but a cell with many commands after SUSPENDED), reap it, free. NULL
 * is fine. */
void dz_cell_free(struct dz_cell *c);

#endif

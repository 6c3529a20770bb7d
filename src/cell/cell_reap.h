/* SPDX-License-Identifier: MIT
 *
 * cell_reap.h - waiting for children with a deadline, and without blocking.
 *
 *     dz_reaper_init(&r, epoll, err);
 *     dz_reaper_add(&r, pid, 5000);   the child has five seconds to end, and is killed then
 *     ... epoll is readable: dz_reaper_run(&r) ...
 *     dz_reaper_release(&r);          kills what is left
 */
#ifndef DZ_CELL_CELL_REAP_H
#define DZ_CELL_CELL_REAP_H

#include "base/attr.h"
#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct dz_dying {
    pid_t pid;          /* 0: the pid is not known yet */
    int pidfd;          /* in the epoll set; -1: none. Without pid: the process's socket */
    int64_t kill_at_ns; /* on the boot clock; INT64_MAX: it was killed already */
    uint32_t user; /* the user that the process holds (cell_users.h), released when it is reaped */
};

struct dz_reaper {
    int epoll; /* the owner's: readable when dz_reaper_run() has something to do */
    int timer;
    DZ_VEC(, struct dz_dying) dying;
};

DZ_NODISCARD int dz_reaper_init(struct dz_reaper *r, int epoll, struct dz_err *err);
/* Give a child of ours this long to exit by itself, then kill it; 0: kill it at once. */
void dz_reaper_add(struct dz_reaper *r, pid_t pid, uint32_t user, int64_t grace_ms);
/* Add a child that has not sent its first packet (dz_frame_sender()) to this socket yet; it is
 * killed when it does. Takes over the socket. */
void dz_reaper_add_unborn(struct dz_reaper *r, int fd, uint32_t user);
void dz_reaper_run(struct dz_reaper *r);
/* Kill and reap all children that are left; the owner keeps the epoll set. */
void dz_reaper_release(struct dz_reaper *r);

/* Claim the pid of a child of ours as soon as it is known. The claim lasts until the child is
 * reaped: until then the kernel gives the pid to no other process. False: the process is no child
 * of ours, or its pid is claimed already. Any thread. */
DZ_NODISCARD bool dz_reap_claim(pid_t pid);
bool dz_reap_is_claimed(pid_t pid);
/* The same for the sender of a packet, whose pidfd is closed here. False also if its pid belongs to
 * another process by now, which only a pidfd can show. */
struct dz_sender;
DZ_NODISCARD bool dz_reap_claim_sender(const struct dz_sender *who);

/* Reap a child if it has ended. True: it was reaped, or is no longer our child. */
bool dz_reap_ended(pid_t pid);
/* Watches a child that was killed: fd becomes readable when it is dead, or after `ms`. All fields
 * are -1 in an unused watch. Release it before its fd number is used again. */
struct dz_reap_watch {
    int fd, pidfd, timer;
};
#define DZ_REAP_WATCH_INIT ((struct dz_reap_watch){-1, -1, -1})
DZ_NODISCARD int dz_reap_watch_begin(struct dz_reap_watch *w, pid_t pid, int64_t ms);
void dz_reap_watch_release(struct dz_reap_watch *w);
/* Wait at most this long for a child, and reap it. True: it has ended, and *ret_status (may be
 * NULL) is its status. False: it has not ended. Blocks. */
bool dz_reap_within(pid_t pid, int64_t ms, int *ret_status);
/* The same, but kill the child when the time is over. Returns its status, as waitpid() does; 0 if
 * even the kill had no effect. */
int dz_reap_or_kill(pid_t pid, int64_t grace_ms);

#endif

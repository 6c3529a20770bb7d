/* SPDX-License-Identifier: MIT
 *
 * cell_host.h - the host's state of a cell. Shared by the files cell_host*.c and cell_pool.c.
 */
#ifndef DZ_CELL_CELL_HOST_H
#define DZ_CELL_CELL_HOST_H

#include "base/list.h"
#include "base/vec.h"
#include "cell/cell_exec.h"
#include "cell/cell_int.h"
#include "cell/cell_reap.h"
#include "cell/cell_stderr.h"

#include <sys/types.h>

/* A frame that waits for room in the socket. */
struct dz_queued {
    struct dz_list link;
    struct dz_frame frame;
    int fds[DZ_START_FDS_MAX]; /* copies */
    size_t fd_count;
    uint8_t payload[];
};

struct dz_open_exec {
    uint32_t exec, stream; /* the stream to which its input goes */
    size_t window;
    bool asleep; /* the start named it as sleeping, and the cell has not reported it yet */
    size_t sent; /* bytes of input sent to it while asleep */
};

struct dz_open_op {
    uint32_t op;
    size_t window;
};

struct dz_cell {
    pid_t pid;   /* 0: not known yet, or already reaped */
    bool known;  /* in a cell of a pool: its first packet has reported its pid */
    bool doomed; /* kill it as soon as its pid is known */
    int gate;    /* the gate: a socket on which the cell waits until it is in its cgroup; or -1 */
    int64_t dying_ns;           /* when it was killed, on the boot clock; 0: it was not */
    struct dz_reap_watch death; /* polled instead of the socket from then on */
    bool nonsense;              /* it was killed because it sent an invalid frame */
    int fd;
    bool ended;      /* it has sent its last event */
    bool tidies;     /* its last event was SUSPENDED: it may tidy up its file before it exits */
    bool suspending; /* the machine is being suspended: input would be lost */
    bool gone;       /* GONE was reported */
    bool silent; /* the machine is to start at once; until then no event of a command may come */
    int status;
    uint32_t next_exec, next_op;
    DZ_VEC(, struct dz_open_exec) execs;
    DZ_VEC(, struct dz_open_op) ops;
    uint32_t helper; /* the user of its zygote, which the cell holds until it becomes its tenant's
                        user (cell_users.h) */
    struct dz_pool_fork *fork; /* the request to its zygote; NULL: that was answered */
    struct dz_err unborn;      /* why its zygote could not fork it; code 0: no failure */
    struct dz_cell_pool *home; /* the pool whose zygote forked it; NULL: none */
    struct dz_reaper *reaper;  /* the reaper of its pool; NULL: the host itself waits for its end */
    struct dz_cell_pool *pool; /* set if the cell may report which functions of its image it used */
    char image_sha256[65];
    int64_t began;                     /* dz_clock_boot_ns() at its start */
    uint64_t activities, fulls, useds; /* how many of these events it has sent since */
    bool born;                         /* BORN has come */
    bool woke;                         /* the machine continues from its memory */
    bool waking; /* payload is an UP, of which some commands are still to be reported: */
    uint32_t live_count;
    size_t live_at, live_end;
    uint8_t *together; /* a TOGETHER, of which some frames are still to be handled */
    size_t together_at, together_end;
    struct dz_starting *held; /* the start, until dz_cell_begin() sends it; then NULL */
    struct dz_list queue;     /* a list of struct dz_queued */
    size_t queued_bytes;
    struct dz_cell_stderr text;
    struct dz_os_cgroup_each
        *each; /* the cgroups of its pool, once the cell is in cgroup number `group`; else NULL */
    uint32_t group;
    uint64_t memory_max; /* the memory limit of that cgroup; 0: not set yet */
    bool out_of_memory;
    _Alignas(uint64_t) uint8_t payload[DZ_CELL_FRAME_MAX + 1];
};

/* Send a frame without blocking; bytes for which the socket has no room are queued. */
int dz_cell_send(struct dz_cell *c, const struct dz_frame *f, const void *payload,
                 struct dz_err *err);
int dz_cell_send_fds(struct dz_cell *c, const struct dz_frame *f, const void *payload,
                     const int *fds, size_t count, struct dz_err *err);
/* Turn a frame about the machine or a command into an event. 0: the frame is about something else.
 */
int dz_cell_exec_event(struct dz_cell *c, const struct dz_frame *f, struct dz_cell_event *e,
                       struct dz_err *err);
/* Return the next event of an UP that is being reported. */
int dz_cell_up_event(struct dz_cell *c, struct dz_cell_event *e, struct dz_err *err);
/* The same for frames about connections to the outside. */
int dz_cell_net_event(struct dz_cell *c, const struct dz_frame *f, struct dz_cell_event *e,
                      struct dz_err *err);
extern const struct dz_cell_net_ops dz_cell_nets;
/* The same for frames about file operations. */
int dz_cell_op_event(struct dz_cell *c, const struct dz_frame *f, struct dz_cell_event *e,
                     struct dz_err *err);
/* Fail because of an invalid frame. */
DZ_COLD int dz_cell_nonsense(const struct dz_frame *f, struct dz_err *err);
/* The message at payload[at], cut to the size of struct dz_err, which fits every message of an
 * intact cell. */
const char *dz_cell_sentence(struct dz_cell *c, size_t at);
void dz_cell_queue_release(struct dz_cell *c);
/* Begin to handle a TOGETHER: dz_cell_together_next() then returns its frames one by one. 1; 0:
 * there are no more; DZ_EIO: the rest is not a frame. */
int dz_cell_together(struct dz_cell *c, const struct dz_frame *f, struct dz_err *err);
int dz_cell_together_next(struct dz_cell *c, struct dz_frame *ret_frame, struct dz_err *err);
/* Send the start frame, or hold it until dz_cell_begin() if the caller asked for that. */
int dz_cell_send_start(struct dz_cell *c, const struct dz_cell_start *start, bool forked,
                       struct dz_err *err);
/* cell_pool.c: the cell is freed before its zygote has answered. */
void dz_pool_forget(struct dz_pool_fork *f);
/* Handle the zygote's answer to the request for this cell, if it has come. A zygote that could not
 * fork answers before it closes the cell's socket. */
void dz_pool_ask(struct dz_cell *c);
/* The pid of the cell is known: give it the cgroup and the limits of its pool. */
void dz_pool_born(struct dz_cell *c);
/* Close the gate of a cell if it is open: the cell continues if it is in its cgroup, else it
 * exits. */
void dz_pool_gate_close(struct dz_cell *c);
/* Learn the cell's pid if it is unknown and the first packet has arrived. DZ_EIO: a zygote cannot
 * have forked the sender. */
int dz_cell_learn(struct dz_cell *c);
/* The cell reported functions of its image, or pages of the heap, that it used. */
void dz_pool_used(struct dz_cell *c, const void *payload, size_t size);

#endif

/* SPDX-License-Identifier: MIT
 *
 * cell_host.h - a cell as its host has it. Shared by the files cell_host*.c and
 * cell_pool.c.
 */
#ifndef DZ_CELL_CELL_HOST_H
#define DZ_CELL_CELL_HOST_H

#include "base/list.h"
#include "base/vec.h"
#include "cell/cell_exec.h"
#include "cell/cell_int.h"
#include "cell/cell_reap.h"
#include "cell/cell_words.h"

#include <sys/types.h>

/* A frame that the socket did not take. */
struct dz_queued {
    struct dz_list link;
    struct dz_frame frame;
    int fds[DZ_START_FDS_MAX]; /* copies */
    size_t fd_count;
    uint8_t payload[];
};

struct dz_open_exec {
    uint32_t exec, stream; /* stream: that its input goes to */
    size_t window;
    bool asleep; /* it was named in the start, and has not been heard of yet */
    size_t sent; /* input, since then */
};

struct dz_open_op {
    uint32_t op;
    size_t window;
};

struct dz_cell {
    pid_t pid;                  /* 0: not known yet, or reaped */
    bool known;                 /* of a pool: its pid was learned from its first packet */
    bool doomed;                /* to be killed when it is */
    int64_t dying_ns;           /* since when its end is awaited, on the boot clock; 0: it is not */
    struct dz_reap_watch death; /* is polled meanwhile, in the place of the socket */
    bool nonsense;              /* dying: for what it sent */
    int fd;
    bool many;
    size_t window[4]; /* bytes of input that each stream takes */
    bool ended;       /* it said its last word */
    bool tidies;      /* that word was not a failure: it may tidy up its file */
    bool suspending;  /* what is sent now would be lost */
    bool gone;        /* many: its end has been told */
    bool silent;      /* it was to go at once: before it is up it has nothing to say of commands */
    int status;
    uint32_t next_exec, next_op;
    DZ_VEC(, struct dz_open_exec) execs;
    DZ_VEC(, struct dz_open_op) ops;
    uint32_t helper; /* its zygote's user, which it holds until it has its own (cell_users.h) */
    struct dz_pool_fork *fork; /* its zygote has not answered yet; NULL: it has */
    struct dz_err unborn;      /* why its zygote could not fork it; code 0: it could */
    struct dz_cell_pool *home; /* whose zygote forked it; NULL: none */
    struct dz_reaper *reaper;  /* of its pool; NULL: its host waits for its end itself */
    struct dz_cell_pool *pool; /* it may tell what its image uses; NULL: not */
    char image_sha256[65];
    int64_t began;                     /* dz_clock_boot_ns() of its start */
    uint64_t activities, fulls, useds; /* that it has said since */
    bool born;                         /* its BORN was heard */
    bool waking;                       /* payload is an UP, of which these are still to be told: */
    uint32_t live_count;
    size_t live_at, live_end;
    uint8_t *together; /* frames that came in one packet, of which some are still to be told */
    size_t together_at, together_end;
    struct dz_starting *held; /* its start, until dz_cell_begin(); else NULL */
    struct dz_list queue;     /* of struct dz_queued */
    size_t queued_bytes;
    struct dz_cell_words words;
    struct dz_os_cgroup_each *each; /* its pool's, once it is in `group` of them; NULL: it is not */
    uint32_t group;
    uint64_t memory_max; /* of its group; 0: not known yet */
    bool out_of_memory;
    uint8_t payload[DZ_CELL_FRAME_MAX + 1];
};

/* Nothing waits; what the socket does not take is kept. Without many: waits. */
int dz_cell_send(struct dz_cell *c, const struct dz_frame *f, const void *payload,
                 struct dz_err *err);
int dz_cell_send_fds(struct dz_cell *c, const struct dz_frame *f, const int *fds, size_t count,
                     struct dz_err *err);
/* A frame of a cell with many commands as an event; 0: it is none of these. */
int dz_cell_many_event(struct dz_cell *c, const struct dz_frame *f, struct dz_cell_event *e,
                       struct dz_err *err);
/* The next event of an UP that is waking. */
int dz_cell_up_event(struct dz_cell *c, struct dz_cell_event *e, struct dz_err *err);
/* The same for frames about operations. */
int dz_cell_op_event(struct dz_cell *c, const struct dz_frame *f, struct dz_cell_event *e,
                     struct dz_err *err);
/* A frame that makes no sense. */
DZ_COLD int dz_cell_nonsense(const struct dz_frame *f, struct dz_err *err);
/* The sentence at payload[at]. An honest one fits in struct dz_err; what is longer is cut. */
const char *dz_cell_sentence(struct dz_cell *c, size_t at);
void dz_cell_many_release(struct dz_cell *c);
/* Frames that came together: all of them are the next ones to come. And the next of these: 1, 0
 * when there is none. DZ_EIO: that is none. */
int dz_cell_together(struct dz_cell *c, const struct dz_frame *f, struct dz_err *err);
int dz_cell_together_next(struct dz_cell *c, struct dz_frame *ret_frame, struct dz_err *err);
/* Its start, unless it is held: then it is sent by dz_cell_begin(). */
int dz_cell_give_start(struct dz_cell *c, const struct dz_cell_start *start, bool nested,
                       struct dz_err *err);
/* cell_pool.c: it is freed before its zygote has answered. */
void dz_pool_forget(struct dz_pool_fork *f);
/* Its zygote's answer, if it is there: of a zygote that failed it is, before the cell's socket is
 * closed. */
void dz_pool_ask(struct dz_cell *c);
/* The number of a cell is known: it gets what the pool has for a process. */
void dz_pool_born(struct dz_cell *c);
/* Which process it is, if that is not known and its first packet is there. DZ_EIO: it is none that
 * a zygote may have forked. */
int dz_cell_learn(struct dz_cell *c);
/* Its image uses these functions. */
void dz_pool_used(struct dz_cell *c, const void *payload, size_t size);

#endif

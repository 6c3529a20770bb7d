/* SPDX-License-Identifier: MIT
 *
 * loop.h - one thread that waits for everything: timers, tasks, descriptors, signals,
 * work that other threads did.
 *
 * The control plane is single-threaded: every callback runs on the thread that
 * calls dz_loop_run, one at a time, and must not block. What blocks is given to a
 * worker with all that it needs (dz_loop_work); its end comes back as a callback.
 *
 * There are two loops behind this header. dz_loop_new is libuv's. dz_loop_sim_new
 * (loop_sim.h) has a clock that jumps from one event to the next, and no thread
 * at all: what happens in it is the same for the same seed.
 *
 * Handles are freed by their _free function, which may be called from any
 * callback, also their own; the callback does not come after it. All must be
 * freed, and tasks cancelled, before the loop is.
 */
#ifndef DZ_LOOP_LOOP_H
#define DZ_LOOP_LOOP_H

#include "base/attr.h"
#include "base/err.h"
#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct dz_loop;
struct dz_timer;
struct dz_poll;
struct dz_signal;

DZ_NODISCARD int dz_loop_new(struct dz_loop **ret_loop, struct dz_err *err);
/* Waits for work that is still on a worker; its done is called, and tasks are run. NULL is fine. */
void dz_loop_free(struct dz_loop *loop);

/* Until dz_loop_stop, or until no timer, poll, signal or work is left that could
 * call anything. */
DZ_NODISCARD int dz_loop_run(struct dz_loop *loop, struct dz_err *err);
void dz_loop_stop(struct dz_loop *loop);
/* Runs on until no work is under way and no task waits: before what they lead to is freed. */
void dz_loop_settle(struct dz_loop *loop);

/* What holds everybody up: a callback that takes long. */
struct dz_loop_spell {
    int64_t us;
    const char *kind; /* timer, task, poll, work or signal */
    uintptr_t fn;     /* the function, as `addr2line -f -e` of the program knows it */
};
/* The longest callback that ended at since_ns (dz_clock_mono_ns) or later, of the last 32 that took
 * a millisecond or more. False: there was none; a simulation has none. */
bool dz_loop_longest(const struct dz_loop *loop, int64_t since_ns, struct dz_loop_spell *ret_spell);
/* When the callback began that is running: dz_clock_mono_ns. */
int64_t dz_loop_turn_ns(const struct dz_loop *loop);

/* --- timers ---------------------------------------------------------------------- */

DZ_NODISCARD int dz_timer_new(struct dz_loop *loop, void (*fn)(void *arg), void *arg,
                              struct dz_timer **ret_timer, struct dz_err *err);
/* Once, after so long; at most one time is set, the last one. 0: soon, and after descriptors
 * have been looked at, so that one which starts itself anew keeps nobody from his turn. */
void dz_timer_after(struct dz_timer *t, int64_t ms);
/* Once, when the wall's clock (dz_clock_real_ms) shows this or more: also when
 * somebody sets the clock, or the machine slept. */
void dz_timer_at(struct dz_timer *t, int64_t real_ms);
void dz_timer_stop(struct dz_timer *t);
void dz_timer_free(struct dz_timer *t); /* NULL is fine */

/* --- tasks ----------------------------------------------------------------------- */

/* A call that the loop makes once, soon, when whoever posted it has returned. It lies in the
 * object that it is about and needs no memory, so posting cannot fail. */
struct dz_loop_task {
    struct dz_list link; /* in the loop's line, while it is posted */
    void (*fn)(void *arg);
    void *arg;
    const void *owner; /* tasks of one owner come in the order in which they were posted */
};

static inline void dz_loop_task_init(struct dz_loop_task *t, const void *owner,
                                     void (*fn)(void *arg), void *arg)
{
    dz_list_init(&t->link);
    t->fn = fn;
    t->arg = arg;
    t->owner = owner;
}

/* In the same turn of the loop, after descriptors have been looked at; in the next one when a task
 * or a timer of 0 posts it, so that those which post themselves keep nobody from his turn. A task
 * that is posted already keeps its place. The loop does not touch it any more when fn is called,
 * which may post it again, or free it. */
void dz_loop_post(struct dz_loop *loop, struct dz_loop_task *t);

static inline bool dz_loop_task_posted(const struct dz_loop_task *t)
{
    return !dz_list_empty(&t->link);
}

/* It is not called any more, unless it is posted again: before what it lies in is freed. Fine when
 * it is not posted. */
static inline void dz_loop_task_cancel(struct dz_loop_task *t)
{
    dz_list_remove(&t->link);
}

/* --- work ------------------------------------------------------------------------ */

/* work(arg) on some worker, then done(arg) here. What arg leads to is the worker's
 * until done. DZ_ENOMEM: neither is called. */
DZ_NODISCARD int dz_loop_work(struct dz_loop *loop, void (*work)(void *arg),
                              void (*done)(void *arg), void *arg, struct dz_err *err);

/* --- descriptors and signals ------------------------------------------------------ */

enum {
    DZ_POLL_READ = 1,
    DZ_POLL_WRITE = 2,
    DZ_POLL_HANGUP = 4, /* the other end of a socket is shut, also behind unread bytes */
};
/* While events are set, fn is called with those that are ready (an error counts as
 * all). The descriptor stays the caller's and must outlive the poll. */
DZ_NODISCARD int dz_poll_new(struct dz_loop *loop, int fd, void (*fn)(void *arg, int events),
                             void *arg, struct dz_poll **ret_poll, struct dz_err *err);
DZ_NODISCARD int dz_poll_set(struct dz_poll *p, int events, struct dz_err *err); /* 0: none */
void dz_poll_free(struct dz_poll *p);

DZ_NODISCARD int dz_signal_new(struct dz_loop *loop, int number, void (*fn)(void *arg), void *arg,
                               struct dz_signal **ret_signal, struct dz_err *err);
void dz_signal_free(struct dz_signal *s);

#endif

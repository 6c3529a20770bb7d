/* SPDX-License-Identifier: MIT
 *
 * loop.h - one thread that waits for everything: timers, tasks, descriptors, signals,
 * work that other threads did.
 *
 * The control plane is single-threaded: every callback runs on the thread that
 * calls dz_loop_run, one at a time, and must not block. Blocking work goes to a worker
 * thread with all its input (dz_loop_work); a callback reports its end.
 *
 * There are two loops behind this header. dz_loop_new is libuv's. dz_loop_sim_new
 * (loop_sim.h) has a clock that jumps from one event to the next, and no thread
 * at all: what happens in it is the same for the same seed.
 *
 * Handles are freed by their _free function, which may be called from any
 * callback, including their own; after it the callback is not called again. All
 * handles must be freed, and tasks cancelled, before the loop is freed.
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
/* Waits until running work has ended, calls its done, and runs posted tasks. NULL is fine. */
void dz_loop_free(struct dz_loop *loop);

/* Run until dz_loop_stop, or until no timer, poll, signal or work is left that could
 * call back. */
DZ_NODISCARD int dz_loop_run(struct dz_loop *loop, struct dz_err *err);
void dz_loop_stop(struct dz_loop *loop);
/* Run until no work is in progress and no task is posted. To be called before freeing the objects
 * that work and tasks refer to. */
void dz_loop_settle(struct dz_loop *loop);

/* A callback that took long and so delayed all others. */
struct dz_loop_spell {
    int64_t us;
    const char *kind; /* timer, task, poll, work or signal */
    uintptr_t fn;     /* the function, as `addr2line -f -e` of the program knows it */
};
/* The longest callback that ended at since_ns (dz_clock_mono_ns) or later, among the last 32 that
 * took a millisecond or more. False: there was none. A simulated loop has none. */
bool dz_loop_longest(const struct dz_loop *loop, int64_t since_ns, struct dz_loop_spell *ret_spell);
/* When the running callback began, in dz_clock_mono_ns. */
int64_t dz_loop_turn_ns(const struct dz_loop *loop);

/* --- timers ---------------------------------------------------------------------- */

DZ_NODISCARD int dz_timer_new(struct dz_loop *loop, void (*fn)(void *arg), void *arg,
                              struct dz_timer **ret_timer, struct dz_err *err);
/* Fire once after ms; replaces an earlier setting. 0: soon, but only after descriptors have been
 * polled, so that a timer that restarts itself does not starve them. */
void dz_timer_after(struct dz_timer *t, int64_t ms);
/* Fire once when the wall clock (dz_clock_real_ms) shows real_ms or later, even if
 * the clock is set or the machine was suspended meanwhile. */
void dz_timer_at(struct dz_timer *t, int64_t real_ms);
void dz_timer_stop(struct dz_timer *t);
void dz_timer_free(struct dz_timer *t); /* NULL is fine */

/* --- tasks ----------------------------------------------------------------------- */

/* A function that the loop calls once, soon after the poster has returned. The task is a member of
 * the object that it concerns and needs no other memory, so posting cannot fail. */
struct dz_loop_task {
    struct dz_list link; /* in the loop's queue while posted */
    void (*fn)(void *arg);
    void *arg;
    const void *owner; /* tasks of one owner run in the order of posting */
};

static inline void dz_loop_task_init(struct dz_loop_task *t, const void *owner,
                                     void (*fn)(void *arg), void *arg)
{
    dz_list_init(&t->link);
    t->fn = fn;
    t->arg = arg;
    t->owner = owner;
}

/* Run the task in this turn of the loop, after descriptors have been polled. A task that is posted
 * by a task or by a timer of 0 runs in the next turn, so that tasks that repost themselves starve
 * nobody. A task that is posted already keeps its place. Once fn is called, the loop does not touch
 * the task any more, so fn may post or free it. */
void dz_loop_post(struct dz_loop *loop, struct dz_loop_task *t);

static inline bool dz_loop_task_posted(const struct dz_loop_task *t)
{
    return !dz_list_empty(&t->link);
}

/* Cancel a posted task. To be called before the object that holds it is freed. Does nothing if the
 * task is not posted. */
static inline void dz_loop_task_cancel(struct dz_loop_task *t)
{
    dz_list_remove(&t->link);
}

/* --- work ------------------------------------------------------------------------ */

/* Call work(arg) on a worker thread, then done(arg) on the loop's. The worker owns everything that
 * arg refers to until done. DZ_ENOMEM: neither is called. */
DZ_NODISCARD int dz_loop_work(struct dz_loop *loop, void (*work)(void *arg),
                              void (*done)(void *arg), void *arg, struct dz_err *err);
/* The same on one of DZ_LOOP_SLOW_MAX other threads, for work that may wait long for another
 * machine: it delays only other slow work. */
enum {
    DZ_LOOP_SLOW_MAX = 8,
};
DZ_NODISCARD int dz_loop_work_slow(struct dz_loop *loop, void (*work)(void *arg),
                                   void (*done)(void *arg), void *arg, struct dz_err *err);

/* --- descriptors and signals ------------------------------------------------------ */

enum {
    DZ_POLL_READ = 1,
    DZ_POLL_WRITE = 2,
    DZ_POLL_HANGUP = 4, /* the peer has shut its end of the socket, even if bytes are unread */
};
/* Call fn with the ready events while any events are set. An error counts as all of them, and
 * clears what is set: dz_poll_set() again, if the descriptor is still of use. A call may come for
 * nothing, so reading and writing must not block. The descriptor stays the caller's and must
 * outlive the poll. */
DZ_NODISCARD int dz_poll_new(struct dz_loop *loop, int fd, void (*fn)(void *arg, int events),
                             void *arg, struct dz_poll **ret_poll, struct dz_err *err);
DZ_NODISCARD int dz_poll_set(struct dz_poll *p, int events, struct dz_err *err); /* 0: none */
void dz_poll_free(struct dz_poll *p);

DZ_NODISCARD int dz_signal_new(struct dz_loop *loop, int number, void (*fn)(void *arg), void *arg,
                               struct dz_signal **ret_signal, struct dz_err *err);
void dz_signal_free(struct dz_signal *s);

#endif

/* SPDX-License-Identifier: MIT
 *
 * loop_int.h - what the two loops have in common: a head with verbs, and handles
 * that know their loop.
 */
#ifndef DZ_LOOP_LOOP_INT_H
#define DZ_LOOP_LOOP_INT_H

#include "loop/loop.h"

struct dz_loop_ops {
    void (*free)(struct dz_loop *l);
    int (*run)(struct dz_loop *l, struct dz_err *err);
    void (*stop)(struct dz_loop *l);
    void (*settle)(struct dz_loop *l);
    bool (*longest)(const struct dz_loop *l, int64_t since_ns, struct dz_loop_spell *ret_spell);
    int64_t (*turn_ns)(const struct dz_loop *l);
    int (*timer_new)(struct dz_loop *l, void (*fn)(void *), void *arg, struct dz_timer **ret,
                     struct dz_err *err);
    void (*timer_after)(struct dz_timer *t, int64_t ms);
    void (*timer_at)(struct dz_timer *t, int64_t real_ms);
    void (*timer_stop)(struct dz_timer *t);
    void (*timer_free)(struct dz_timer *t);
    void (*post)(struct dz_loop *l, struct dz_loop_task *t); /* one that is not posted */
    int (*work)(struct dz_loop *l, void (*work)(void *), void (*done)(void *), void *arg,
                struct dz_err *err);
    int (*work_slow)(struct dz_loop *l, void (*work)(void *), void (*done)(void *), void *arg,
                     struct dz_err *err);
    int (*poll_new)(struct dz_loop *l, int fd, void (*fn)(void *, int), void *arg,
                    struct dz_poll **ret, struct dz_err *err);
    int (*poll_set)(struct dz_poll *p, int events, struct dz_err *err);
    void (*poll_free)(struct dz_poll *p);
    int (*signal_new)(struct dz_loop *l, int number, void (*fn)(void *), void *arg,
                      struct dz_signal **ret, struct dz_err *err);
    void (*signal_free)(struct dz_signal *s);
};

/* Each back end's own begin with these. */
struct dz_loop {
    const struct dz_loop_ops *ops;
};
struct dz_timer {
    const struct dz_loop_ops *ops;
};
struct dz_poll {
    const struct dz_loop_ops *ops;
};
struct dz_signal {
    const struct dz_loop_ops *ops;
};

#endif

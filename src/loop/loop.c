/* SPDX-License-Identifier: MIT
 *
 * loop.c - the functions of loop.h: each calls the verb of its loop's back end.
 */
#include "loop/loop.h"

#include "loop/loop_int.h"

#include <assert.h>

void dz_loop_free(struct dz_loop *loop)
{
    if (loop)
        loop->ops->free(loop);
}

int dz_loop_run(struct dz_loop *loop, struct dz_err *err)
{
    return loop->ops->run(loop, err);
}

void dz_loop_stop(struct dz_loop *loop)
{
    loop->ops->stop(loop);
}

void dz_loop_settle(struct dz_loop *loop)
{
    loop->ops->settle(loop);
}

bool dz_loop_longest(const struct dz_loop *loop, int64_t since_ns, struct dz_loop_spell *ret_spell)
{
    return loop->ops->longest(loop, since_ns, ret_spell);
}

int64_t dz_loop_turn_ns(const struct dz_loop *loop)
{
    return loop->ops->turn_ns(loop);
}

int dz_timer_new(struct dz_loop *loop, void (*fn)(void *arg), void *arg,
                 struct dz_timer **ret_timer, struct dz_err *err)
{
    return loop->ops->timer_new(loop, fn, arg, ret_timer, err);
}

void dz_timer_after(struct dz_timer *t, int64_t ms)
{
    t->ops->timer_after(t, ms > 0 ? ms : 0);
}

void dz_timer_at(struct dz_timer *t, int64_t real_ms)
{
    t->ops->timer_at(t, real_ms);
}

void dz_timer_stop(struct dz_timer *t)
{
    t->ops->timer_stop(t);
}

void dz_timer_free(struct dz_timer *t)
{
    if (t)
        t->ops->timer_free(t);
}

void dz_loop_post(struct dz_loop *loop, struct dz_loop_task *t)
{
    assert(t->fn);
    if (!dz_loop_task_posted(t))
        loop->ops->post(loop, t);
}

int dz_loop_work(struct dz_loop *loop, void (*work)(void *arg), void (*done)(void *arg), void *arg,
                 struct dz_err *err)
{
    return loop->ops->work(loop, work, done, arg, err);
}

int dz_loop_work_slow(struct dz_loop *loop, void (*work)(void *arg), void (*done)(void *arg),
                      void *arg, struct dz_err *err)
{
    return loop->ops->work_slow(loop, work, done, arg, err);
}

int dz_poll_new(struct dz_loop *loop, int fd, void (*fn)(void *arg, int events), void *arg,
                struct dz_poll **ret_poll, struct dz_err *err)
{
    assert(fd >= 0);
    return loop->ops->poll_new(loop, fd, fn, arg, ret_poll, err);
}

int dz_poll_set(struct dz_poll *p, int events, struct dz_err *err)
{
    assert(!(events & ~(DZ_POLL_READ | DZ_POLL_WRITE | DZ_POLL_HANGUP)));
    return p->ops->poll_set(p, events, err);
}

void dz_poll_free(struct dz_poll *p)
{
    if (p)
        p->ops->poll_free(p);
}

int dz_signal_new(struct dz_loop *loop, int number, void (*fn)(void *arg), void *arg,
                  struct dz_signal **ret_signal, struct dz_err *err)
{
    return loop->ops->signal_new(loop, number, fn, arg, ret_signal, err);
}

void dz_signal_free(struct dz_signal *s)
{
    if (s)
        s->ops->signal_free(s);
}

/* SPDX-License-Identifier: MIT
 *
 * kernel_wait.c - wait queues, the frame of a call that may park, and poll.
 *
 * A queue is one uint32_t in the object that is waited for: the index of its first waiter. A thread
 * may be in many queues at once (poll). Waking a queue makes all its threads runnable and takes
 * each out of every queue it is in. They check their condition again, and wait again if it does not
 * hold. A thread that waits in no queue and has no deadline is woken by signals only.
 *
 * Invariant: a thread has waiters only in state WAIT (kernel_sched.c asserts it of each thread that
 * enters a run queue, dz_k_assert_all of all). An item of epoll is always in the queues of its
 * file; a wake of them marks the item hot (kernel_epoll.c).
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>

int dz_k_sleep(struct dz_kernel *k, const struct dz_k_sleeper *s, uint32_t *queue)
{
    assert(!s->item != !s->thread);
    struct dz_k_waiter *w = dz_k_row_new(&k->waiters);
    if (!w)
        return -ENOMEM;
    uint32_t *own = s->item ? &s->item->waiters : &s->thread->waiters;
    w->thread = s->item ? 0 : s->thread->index;
    w->item = s->item ? s->item->index : 0;
    w->head = queue;
    struct dz_k_waiter *first = dz_k_row(&k->waiters, *queue);
    if (first) { /* circular: to the end */
        struct dz_k_waiter *last = dz_k_row(&k->waiters, first->prev);
        w->next = first->index;
        w->prev = last->index;
        last->next = first->prev = w->index;
    } else {
        w->next = w->prev = w->index;
        *queue = w->index;
    }
    w->more = *own;
    *own = w->index;
    return 0;
}

int dz_k_wait(struct dz_kernel *k, struct dz_proc *p, uint32_t *queue)
{
    return dz_k_sleep(k, &(struct dz_k_sleeper){.thread = dz_k_me(k, p)}, queue);
}

void dz_k_leave(struct dz_kernel *k, uint32_t *waiters)
{
    for (uint32_t i = *waiters, more; i != 0; i = more) {
        struct dz_k_waiter *w = dz_k_row(&k->waiters, i);
        assert(w);
        more = w->more;
        if (w->next == i) {
            *w->head = 0;
        } else {
            struct dz_k_waiter *next = dz_k_row(&k->waiters, w->next);
            struct dz_k_waiter *prev = dz_k_row(&k->waiters, w->prev);
            next->prev = prev->index;
            prev->next = next->index;
            if (*w->head == i)
                *w->head = next->index;
        }
        dz_k_row_free(&k->waiters, i);
    }
    *waiters = 0;
}

void dz_k_unwait(struct dz_kernel *k, struct dz_thread *t)
{
    dz_k_leave(k, &t->waiters);
}

/* The first waiter in a queue that is a thread; NULL: none. */
static const struct dz_k_waiter *first_thread(const struct dz_kernel *k, uint32_t queue)
{
    const struct dz_k_waiter *w = dz_k_row(&k->waiters, queue);
    while (w && w->thread == 0)
        w = w->next == queue ? NULL : dz_k_row(&k->waiters, w->next);
    return w;
}

void dz_k_wake(struct dz_kernel *k, const uint32_t *queue)
{
    const struct dz_k_waiter *w;
    while ((w = first_thread(k, *queue)))
        dz_k_ready(k, dz_k_thread(k, w->thread)); /* takes it out of the queue */
    uint32_t first = *queue, i = first;           /* items of epoll stay */
    while (i != 0) {
        w = dz_k_row(&k->waiters, i);
        dz_k_epoll_hot(k, dz_k_epitem(k, w->item));
        i = w->next == first ? 0 : w->next;
    }
}

/* ---- calls ---------------------------------------------------------------------- */

struct dz_call *dz_k_call(struct dz_kernel *k, struct dz_proc *p)
{
    dz_k_sig_sync(k, p);
    struct dz_thread *t = dz_k_me(k, p);
    struct dz_call *c = dz_k_parked(t);
    dz_k_unwait(k, t);
    t->state = DZ_THREAD_READY;
    if (!c->parked)
        *c = (struct dz_call){.deadline = INT64_MAX};
    return c;
}

int64_t dz_k_restart(struct dz_kernel *k, struct dz_proc *p)
{
    struct dz_thread *t = dz_k_me(k, p);
    dz_k_unwait(k, t);
    dz_k_parked(t)->parked = 1;
    dz_k_alarm(k, t);
    return DZ_KBLOCK;
}

int64_t dz_k_block(struct dz_kernel *k, struct dz_proc *p)
{
    struct dz_thread *t = dz_k_me(k, p);
    if (dz_k_sig_waits(k, t))
        return dz_k_restart(k, p); /* a signal comes first: it may end the call */
    dz_k_parked(t)->parked = 1;
    t->state = DZ_THREAD_WAIT;
    dz_k_alarm(k, t);
    return DZ_KBLOCK;
}

int64_t dz_k_end(struct dz_kernel *k, struct dz_proc *p, int64_t r)
{
    struct dz_thread *t = dz_k_me(k, p);
    struct dz_call *c = dz_k_parked(t);
    dz_k_unwait(k, t);
    dz_k_futex_drop(k, t);
    if (c->masked)
        t->sig_mask = c->mask;
    bool timed = c->deadline != INT64_MAX;
    *c = (struct dz_call){.deadline = INT64_MAX};
    if (timed)
        dz_k_alarm(k, t);
    return r;
}

int64_t dz_kernel_call_end(struct dz_kernel *k, struct dz_proc *p, int64_t r)
{
    dz_k_sig_sync(k, p);
    const struct dz_call *c = dz_k_my_call(k, p);
    if (!c->parked)
        return r;
    return dz_k_end(k, p, c->intr && r < 0 ? -EINTR : r);
}

int64_t dz_k_wait_end(struct dz_kernel *k, struct dz_proc *p, uint32_t *queue)
{
    int e = dz_k_wait(k, p, queue);
    return e ? dz_k_end(k, p, e) : dz_k_block(k, p);
}

void dz_k_alarm(struct dz_kernel *k, struct dz_thread *t)
{
    const struct dz_call *c = dz_k_parked(t);
    t->alarm_at = t->state == DZ_THREAD_WAIT && c->parked ? c->deadline : INT64_MAX;
    if (t->alarm_at < k->next_alarm)
        k->next_alarm = t->alarm_at;
}

void dz_k_proc_alarm(struct dz_kernel *k, struct dz_proc *p)
{
    p->alarm_at = p->itimer[0].value != 0 ? p->itimer[0].value : INT64_MAX;
    if (p->alarm_at < k->next_alarm)
        k->next_alarm = p->alarm_at;
}

/* --- poll, and through it select and WASI's poll_oneoff ---------------------------------- */

#define ALWAYS (POLLERR | POLLHUP | POLLNVAL)

static size_t look(struct dz_kernel *k, struct dz_proc *p, struct pollfd *fds, size_t n)
{
    size_t ready = 0;
    for (size_t i = 0; i < n; i++) {
        const struct dz_file *f = dz_k_fd_file(k, p, fds[i].fd);
        short r = 0;
        if (fds[i].fd >= 0 && (!f || (f->flags & O_PATH)))
            r = POLLNVAL;
        else if (f)
            r = dz_k_ops(f)->ready(k, p, f) & (short)(fds[i].events | ALWAYS);
        fds[i].revents = r;
        ready += r != 0;
    }
    return ready;
}

static int wait_for_all(struct dz_kernel *k, struct dz_proc *p, const struct pollfd *fds, size_t n)
{
    const struct dz_k_sleeper me = {.thread = dz_k_me(k, p)};
    for (size_t i = 0; i < n; i++) {
        struct dz_file *f = dz_k_fd_file(k, p, fds[i].fd);
        if (!f || !dz_k_ops(f)->wait)
            continue;
        int e = dz_k_ops(f)->wait(k, &me, f, fds[i].events);
        if (e)
            return e;
    }
    return 0;
}

void dz_k_mask_for(struct dz_kernel *k, struct dz_proc *p, const uint64_t *mask)
{
    struct dz_thread *t = dz_k_me(k, p);
    struct dz_call *c = dz_k_parked(t);
    if (!mask)
        return;
    c->masked = 1;
    c->mask = t->sig_mask;
    t->sig_mask = *mask & ~(DZ_K_BIT(9) | DZ_K_BIT(19));
}

int64_t dz_sys_poll(struct dz_kernel *k, struct dz_proc *p, struct pollfd *fds, size_t n,
                    int64_t timeout_ns, const uint64_t *mask)
{
    struct dz_call *c = dz_k_call(k, p);
    if (n > DZ_KERNEL_FDS_MAX)
        return dz_k_end(k, p, -EINVAL);
    int64_t now = dz_kernel_now(k);
    if (!(c->flags & DZ_CALL_BEGUN)) {
        c->flags = DZ_CALL_BEGUN | DZ_CALL_NORESTART;
        if (timeout_ns >= 0 && timeout_ns < INT64_MAX - now)
            c->deadline = now + timeout_ns;
        dz_k_mask_for(k, p, mask);
    }
    size_t ready = look(k, p, fds, n);
    if (ready > 0 || now >= c->deadline)
        return dz_k_end(k, p, (int64_t)ready);
    if (c->intr)
        return dz_k_end(k, p, -EINTR);
    int e = wait_for_all(k, p, fds, n);
    return e ? dz_k_end(k, p, e) : dz_k_block(k, p);
}

/* SPDX-License-Identifier: MIT
 *
 * kernel_ptimer.c - POSIX timers: timer_create(2) and related calls.
 *
 * A timer is a row of its process, and its number is the row's index less 1. `at` is its next
 * expiry: in kernel time, or in CPU time for the clocks of a process or thread, which are checked
 * when CPU time is accounted.
 *
 * A timer whose signal is pending does not expire again: the expiries that it misses are counted as
 * its overrun when the signal is taken (dz_k_timer_taken). So a short interval costs nothing while
 * the signal is pending. A signal that is ignored counts as taken, and the timer is then not due
 * before IGNORED_NS have passed.
 *
 * Invariant: `waits` is set exactly while the signal of the timer is pending (expire, and
 * dz_k_timer_taken, which is called for each signal that is removed).
 */
#include "kernel/kernel_int.h"

#include <linux/capability.h>
#include <signal.h>
#include <time.h>

enum {
    IGNORED_NS = 4000000,
    THREAD_ID = 4, /* SIGEV_THREAD_ID */
};

static bool is_cpu(const struct dz_timer *t)
{
    return t->clock == CLOCK_PROCESS_CPUTIME_ID || t->clock == CLOCK_THREAD_CPUTIME_ID;
}

static struct dz_timer *timer_row(const struct dz_kernel *k, uint32_t index)
{
    return dz_k_row(&k->tab[DZ_KERNEL_TABLE_TIMER], index);
}

static struct dz_timer *find(const struct dz_kernel *k, const struct dz_proc *p, int id)
{
    struct dz_timer *t = id >= 0 ? timer_row(k, (uint32_t)id + 1) : NULL;
    return t && t->proc == p->index ? t : NULL;
}

/* The time of its clock, in the unit of `at`. */
static int64_t now_of(struct dz_kernel *k, const struct dz_timer *t)
{
    const struct dz_proc *p = dz_k_proc(k, t->proc);
    const struct dz_thread *of = dz_k_thread_find(k, t->cpu_tid);
    if (t->clock == CLOCK_PROCESS_CPUTIME_ID)
        return (int64_t)(p->utime_ns + p->stime_ns);
    if (t->clock == CLOCK_THREAD_CPUTIME_ID)
        return of && of->proc == t->proc ? (int64_t)(of->utime_ns + of->stime_ns) : 0;
    return dz_kernel_now(k);
}

/* Advance `at` past now by whole intervals; returns how many. */
static uint64_t forward(struct dz_timer *t, int64_t now)
{
    if (!t->on || t->at > now)
        return 0;
    if (t->every == 0) {
        t->on = 0;
        return 1;
    }
    const int64_t n = (now - t->at) / t->every + 1;
    t->at = dz_k_add_ns(t->at + (n - 1) * t->every, t->every); /* (n - 1) * every <= now - at */
    return (uint64_t)n;
}

static void alarm_at(struct dz_kernel *k, const struct dz_timer *t)
{
    if (t->on && !t->waits && !is_cpu(t) && t->at < k->next_alarm)
        k->next_alarm = t->at;
}

static void expire(struct dz_kernel *k, struct dz_timer *t, int64_t now)
{
    struct dz_proc *p = dz_k_proc(k, t->proc);
    struct dz_thread *to = t->tid ? dz_k_thread_find(k, t->tid) : NULL;
    const uint64_t times = forward(t, now);
    t->overrun = times > INT32_MAX ? INT32_MAX : (uint32_t)times - 1;
    if (t->notify == SIGEV_NONE || (t->tid && (!to || to->proc != t->proc)))
        return;
    const struct dz_siginfo info = {.signo = t->signo,
                                    .code = SI_TIMER,
                                    .pid = (int32_t)t->index - 1,
                                    .uid = t->overrun,
                                    .value = t->value};
    const uint64_t before = k->next_siginfo;
    (void)dz_k_send_info(k, p, to, &info);
    t->waits = k->next_siginfo != before; /* otherwise it was ignored, or one is pending already */
    if (!t->waits && t->on && !is_cpu(t) && t->at < dz_k_add_ns(now, IGNORED_NS))
        (void)forward(t, now + IGNORED_NS);
}

void dz_k_timer_taken(struct dz_kernel *k, struct dz_siginfo *info)
{
    struct dz_timer *t = timer_row(k, (uint32_t)info->pid + 1);
    if (!t || t->proc != info->proc || !t->waits)
        return; /* the timer was deleted, or replaced by another */
    t->waits = 0;
    const uint64_t missed = forward(t, now_of(k, t));
    const uint64_t all = t->overrun + (t->every ? missed : 0);
    t->told = all > INT32_MAX ? INT32_MAX : (uint32_t)all;
    info->uid = t->told;
    alarm_at(k, t);
}

void dz_k_timer_expire(struct dz_kernel *k, int64_t now)
{
    if (k->tab[DZ_KERNEL_TABLE_TIMER].used == 0)
        return;
    DZ_K_FOREACH(dz_timer, t, k, DZ_KERNEL_TABLE_TIMER)
    {
        if (!is_cpu(t) && !t->waits && t->on && t->at <= now)
            expire(k, t, now);
        alarm_at(k, t);
    }
}

int64_t dz_k_timer_next(struct dz_kernel *k)
{
    int64_t at = INT64_MAX;
    if (k->tab[DZ_KERNEL_TABLE_TIMER].used == 0)
        return at;
    DZ_K_FOREACH(dz_timer, t, k, DZ_KERNEL_TABLE_TIMER)
    if (!is_cpu(t) && !t->waits && t->on && t->at < at)
        at = t->at;
    return at;
}

void dz_k_timer_cpu(struct dz_kernel *k, const struct dz_proc *p)
{
    if (k->tab[DZ_KERNEL_TABLE_TIMER].used == 0)
        return;
    DZ_K_FOREACH(dz_timer, t, k, DZ_KERNEL_TABLE_TIMER)
    if (t->proc == p->index && is_cpu(t) && !t->waits && t->on && t->at <= now_of(k, t))
        expire(k, t, now_of(k, t));
}

/* For a process that ends or calls exec. */
void dz_k_timer_drop(struct dz_kernel *k, const struct dz_proc *p)
{
    DZ_K_FOREACH(dz_timer, t, k, DZ_KERNEL_TABLE_TIMER)
    if (t->proc == p->index)
        dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_TIMER], t->index);
}

bool dz_k_timer_ok(const struct dz_kernel *k, const struct dz_timer *t)
{
    const struct dz_proc *p = t->proc > 1 ? dz_k_proc(k, t->proc) : NULL;
    return p && p->state == DZ_PROC_LIVE && t->at >= -(INT64_MAX / 2) && t->every >= 0 &&
           (t->notify == SIGEV_NONE || (t->signo >= 1 && t->signo <= DZ_KERNEL_SIGNALS));
}

/* ---- calls -------------------------------------------------------------------------------- */

static int check_clock(const struct dz_proc *p, int clock)
{
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_MONOTONIC:
    case CLOCK_BOOTTIME:
    case CLOCK_TAI:
    case CLOCK_PROCESS_CPUTIME_ID:
    case CLOCK_THREAD_CPUTIME_ID:
        return 0;
    case CLOCK_REALTIME_ALARM: /* the machine is not suspended while a timer is due */
    case CLOCK_BOOTTIME_ALARM:
        return dz_k_capable(p, CAP_WAKE_ALARM) ? 0 : -EPERM;
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_REALTIME_COARSE:
        return -EOPNOTSUPP;
    default:
        return -EINVAL;
    }
}

int64_t dz_sys_timer_create(struct dz_kernel *k, struct dz_proc *p, int clock,
                            const struct dz_timer_event *e)
{
    const struct dz_thread *to = NULL;
    int rc = check_clock(p, clock);
    if (rc)
        return rc;
    if (e && (e->notify & THREAD_ID)) {
        to = dz_k_thread_find(k, e->tid);
        if (!to || to->proc != p->index || (e->notify & ~THREAD_ID))
            return -EINVAL;
    } else if (e && e->notify != SIGEV_SIGNAL && e->notify != SIGEV_NONE &&
               e->notify != SIGEV_THREAD) {
        return -EINVAL;
    }
    if (e && e->notify != SIGEV_NONE && (e->signo < 1 || e->signo > DZ_KERNEL_SIGNALS))
        return -EINVAL;
    struct dz_timer *t = dz_k_row_new(&k->tab[DZ_KERNEL_TABLE_TIMER]);
    if (!t)
        return -EAGAIN;
    t->proc = p->index;
    t->clock = clock;
    t->cpu_tid = dz_k_me(k, p)->tid;
    t->notify = e ? (uint32_t)e->notify : SIGEV_SIGNAL;
    t->signo = e ? e->signo : SIGALRM;
    t->tid = to ? to->tid : 0;
    t->value = e ? e->value : t->index - 1;
    return (int64_t)t->index - 1;
}

/* [0] interval, [1] remaining time: at least 1 while it is armed. */
static void look(struct dz_kernel *k, const struct dz_timer *t, int64_t ret[2])
{
    const int64_t now = now_of(k, t);
    struct dz_timer copy = *t;
    ret[0] = t->every;
    ret[1] = 0;
    if (!t->on)
        return;
    if (t->at <= now && t->every == 0) {
        ret[1] = t->waits || t->notify == SIGEV_NONE ? 0 : 1;
        return;
    }
    (void)forward(&copy, now);
    ret[1] = copy.at - now;
}

int64_t dz_sys_timer_gettime(struct dz_kernel *k, struct dz_proc *p, int id, int64_t ret_now[2])
{
    const struct dz_timer *t = find(k, p, id);
    if (!t)
        return -EINVAL;
    look(k, t, ret_now);
    return 0;
}

int64_t dz_sys_timer_settime(struct dz_kernel *k, struct dz_proc *p, int id, int flags,
                             const int64_t set[2], int64_t *ret_old)
{
    struct dz_timer *t = find(k, p, id);
    const bool absolute = (flags & TIMER_ABSTIME) != 0;
    if (!t || set[0] < 0 || set[1] < 0)
        return -EINVAL;
    if (ret_old)
        look(k, t, ret_old);
    t->every = set[0];
    t->overrun = t->told = 0;
    t->waits = 0; /* a pending signal belongs to the old setting */
    t->on = set[1] != 0;
    if (t->on) {
        if (is_cpu(t))
            t->at = absolute ? set[1] : dz_k_add_ns(now_of(k, t), set[1]);
        else
            t->at = dz_k_kernel_time(k,
                                     t->clock == CLOCK_TAI || t->clock == CLOCK_REALTIME_ALARM
                                         ? CLOCK_REALTIME
                                         : t->clock,
                                     absolute, set[1]);
    }
    alarm_at(k, t);
    return 0;
}

int64_t dz_sys_timer_getoverrun(struct dz_kernel *k, struct dz_proc *p, int id)
{
    const struct dz_timer *t = find(k, p, id);
    return t ? (int64_t)t->told : -EINVAL;
}

int64_t dz_sys_timer_delete(struct dz_kernel *k, struct dz_proc *p, int id)
{
    const struct dz_timer *t = find(k, p, id);
    if (!t)
        return -EINVAL;
    dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_TIMER], t->index);
    return 0;
}

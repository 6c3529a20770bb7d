/* SPDX-License-Identifier: MIT
 *
 * kernel_timer.c - clocks, sleeping, interval timers.
 *
 * Kernel time is the embedder's monotonic clock plus an offset, so that after a thaw it continues
 * as if the machine had waited: deadlines that have passed meanwhile expire at once. All deadlines
 * are absolute in it.
 *
 * Each thread has an alarm, its parked call's deadline, and each process one, its real timer. The
 * kernel keeps a lower bound of all of them and checks every row only when that has passed. Bounded
 * tables make that cheap, and it needs no structure that would have to be saved.
 */
#include "kernel/kernel_int.h"

#include <signal.h>
#include <sys/time.h>
#include <time.h>

int64_t dz_kernel_now(struct dz_kernel *k)
{
    return k->ops.mono_ns(k->ops.arg) + k->mono_offset;
}

static void real_timer(struct dz_kernel *k, struct dz_proc *p, int64_t now)
{
    struct dz_itimer *t = &p->itimer[ITIMER_REAL];
    if (t->value == 0 || t->value > now)
        return;
    int64_t by = 0; /* missed expiries count once */
    if (t->interval > 0 &&
        __builtin_mul_overflow((now - t->value) / t->interval + 1, t->interval, &by))
        by = INT64_MAX;
    t->value = by ? dz_k_add_ns(t->value, by) : 0;
    dz_k_send(k, p, SIGALRM, SI_KERNEL & 0xff);
}

void dz_k_expire(struct dz_kernel *k, int64_t now)
{
    if (now < k->next_alarm)
        return;
    k->next_alarm = INT64_MAX;
    dz_k_timerfd_expire(k, now);
    dz_k_timer_expire(k, now);
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    {
        if (p->state == DZ_PROC_ZOMBIE)
            continue;
        if (p->alarm_at <= now)
            real_timer(k, p, now);
        dz_k_proc_alarm(k, p);
    }
    DZ_K_FOREACH(dz_thread, t, k, DZ_KERNEL_TABLE_THREAD)
    {
        if (t->alarm_at <= now && t->state == DZ_THREAD_WAIT)
            dz_k_ready(k, t);
        dz_k_alarm(k, t);
    }
}

int64_t dz_kernel_next_deadline(struct dz_kernel *k)
{
    int64_t at = dz_k_timerfd_next(k), timer = dz_k_timer_next(k);
    at = timer < at ? timer : at;
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    if (p->state != DZ_PROC_ZOMBIE && p->alarm_at < at)
        at = p->alarm_at;
    DZ_K_FOREACH(dz_thread, t, k, DZ_KERNEL_TABLE_THREAD)
    at = t->alarm_at < at ? t->alarm_at : at;
    k->next_alarm = at;
    return at;
}

/* ---- calls ------------------------------------------------------------------------- */

/* A CPU clock that clock_getcpuclockid and pthread_getcpuclockid make. Bits 0 and 1 choose what is
 * counted, bit 2 says that the number is a thread's, and the other bits are the inverted number:
 * that of any process or of a thread of the caller's process, where 0 is the caller. */
static int64_t cpu_clock(struct dz_kernel *k, struct dz_proc *p, int clock, int64_t *ret_ns)
{
    enum {
        VIRT = 1,
        SCHED = 2,
        WHAT = 3,
        OF_THREAD = 4,
    };
    const int what = clock & WHAT;
    const int32_t id = ~(clock >> 3);
    const struct dz_thread *t = id == 0 ? dz_k_me(k, p) : dz_k_thread_find(k, id);
    const struct dz_proc *of = id == 0 ? p : dz_k_find(k, id);
    const bool is_thread = clock & OF_THREAD;
    if (what > SCHED || (is_thread ? !t || t->proc != p->index : !of))
        return -EINVAL;
    const uint64_t stime = what == VIRT ? 0 : is_thread ? t->stime_ns : of->stime_ns;
    *ret_ns = (int64_t)(stime + (is_thread ? t->utime_ns : of->utime_ns));
    return 0;
}

int64_t dz_sys_clock_gettime(struct dz_kernel *k, struct dz_proc *p, int clock, int64_t *ret_ns)
{
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        *ret_ns = k->ops.real_ns(k->ops.arg);
        return 0;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
        *ret_ns = dz_kernel_now(k);
        return 0;
    case CLOCK_PROCESS_CPUTIME_ID:
        *ret_ns = (int64_t)(p->utime_ns + p->stime_ns);
        return 0;
    case CLOCK_THREAD_CPUTIME_ID: {
        const struct dz_thread *t = dz_k_me(k, p);
        *ret_ns = (int64_t)(t->utime_ns + t->stime_ns);
        return 0;
    }
    default:
        return clock < 0 ? cpu_clock(k, p, clock, ret_ns) : -EINVAL;
    }
}

int64_t dz_sys_clock_getres(struct dz_kernel *k, struct dz_proc *p, int clock, int64_t *ret_ns)
{
    int64_t now;
    int64_t r = dz_sys_clock_gettime(k, p, clock, &now);
    if (r == 0)
        *ret_ns = 1;
    return r;
}

/* Convert a time of some clock to kernel time. */
int64_t dz_k_kernel_time(struct dz_kernel *k, int clock, bool absolute, int64_t ns)
{
    int64_t now = dz_kernel_now(k);
    if (!absolute)
        ns = ns < 0 ? 0 : ns;
    else if (clock == CLOCK_REALTIME)
        ns -= k->ops.real_ns(k->ops.arg);
    else
        return ns;
    return dz_k_add_ns(now, ns);
}

int64_t dz_sys_clock_nanosleep(struct dz_kernel *k, struct dz_proc *p, int clock, bool absolute,
                               int64_t ns, int64_t *ret_left)
{
    struct dz_call *c = dz_k_call(k, p);
    int64_t time;
    if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME)
        return dz_k_end(k, p,
                        dz_sys_clock_gettime(k, p, clock, &time) == 0 ? -EOPNOTSUPP : -EINVAL);
    if (!(c->flags & DZ_CALL_BEGUN)) {
        c->flags = DZ_CALL_BEGUN | DZ_CALL_NORESTART;
        c->deadline = dz_k_kernel_time(k, clock, absolute, ns);
    }
    int64_t now = dz_kernel_now(k);
    if (now >= c->deadline)
        return dz_k_end(k, p, 0);
    if (c->intr) {
        if (ret_left)
            *ret_left = c->deadline - now;
        return dz_k_end(k, p, -EINTR);
    }
    return dz_k_block(k, p);
}

static int64_t timer_now(struct dz_kernel *k, const struct dz_proc *p, int which)
{
    if (which == ITIMER_REAL)
        return dz_kernel_now(k);
    return (int64_t)(p->utime_ns + (which == ITIMER_PROF ? p->stime_ns : 0));
}

int64_t dz_sys_setitimer(struct dz_kernel *k, struct dz_proc *p, int which, const int64_t *set,
                         int64_t *ret_old)
{
    if (which < ITIMER_REAL || which > ITIMER_PROF)
        return -EINVAL;
    if (set && (set[0] < 0 || set[1] < 0))
        return -EINVAL;
    struct dz_itimer *t = &p->itimer[which];
    int64_t now = timer_now(k, p, which);
    int64_t left = t->value == 0 ? 0 : t->value > now ? t->value - now : 1;
    if (ret_old) {
        ret_old[0] = t->interval;
        ret_old[1] = left;
    }
    if (set) {
        t->interval = set[0];
        t->value = set[1] ? dz_k_add_ns(now, set[1]) : 0;
        dz_k_proc_alarm(k, p);
    }
    return 0;
}

int64_t dz_sys_getrandom(struct dz_kernel *k, struct dz_proc *p, void *buf, size_t n)
{
    (void)p;
    return k->ops.random(k->ops.arg, buf, n) == 0 ? (int64_t)n : -EIO;
}

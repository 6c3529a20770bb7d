/* SPDX-License-Identifier: MIT
 *
 * linux_signal.c - calls on signals and time: sending, masks, actions, waiting for a signal, the
 * alternate stack; sleeping and timers.
 *
 * A sleep that a handler ended reports the time left.
 */
#include "linux/linux_frame.h"
#include "linux/linux_int.h"

#include <signal.h>
#include <sys/time.h>
#include <time.h>

/* struct sigaction of the ABI, which glibc fills from its own. */
struct linux_sigaction {
    uint64_t handler, flags, restorer, mask;
};
_Static_assert(sizeof(struct linux_sigaction) == 32, "the ABI's");

enum {
    SIGSET = 8, /* bytes of a mask: calls refuse any other size */
};

/* ---- sending ------------------------------------------------------------------------- */

LINUX_CALL(kill)
{
    return dz_sys_kill(LINUX_K(c), arg_int(c, 0), arg_int(c, 1));
}
LINUX_CALL(tkill)
{
    if (arg_int(c, 0) <= 0)
        return -EINVAL;
    return dz_sys_tgkill(LINUX_K(c), 0, arg_int(c, 0), arg_int(c, 1));
}
LINUX_CALL(tgkill)
{
    if (arg_int(c, 0) <= 0 || arg_int(c, 1) <= 0)
        return -EINVAL;
    return dz_sys_tgkill(LINUX_K(c), arg_int(c, 0), arg_int(c, 1), arg_int(c, 2));
}

/* ---- actions and masks ------------------------------------------------------------------ */

LINUX_CALL(rt_sigaction)
{
    struct linux_sigaction s;
    struct dz_sigact set = {0}, old;
    const bool sets = c->arg[1] != 0;
    if (c->arg[3] != SIGSET)
        return -EINVAL;
    if (sets) {
        if (dz_linux_get(c, c->arg[1], &s, sizeof s) < 0)
            return -EFAULT;
        set = (struct dz_sigact){.handler = s.handler,
                                 .mask = s.mask,
                                 .restorer = s.restorer,
                                 .flags = (uint32_t)s.flags};
    }
    const int64_t r = dz_sys_sigaction(LINUX_K(c), arg_int(c, 0), sets ? &set : NULL, &old);
    if (r < 0)
        return r;
    s = (struct linux_sigaction){old.handler, old.flags, old.restorer, old.mask};
    return dz_linux_give(c, r, c->arg[2], &s, sizeof s);
}

LINUX_CALL(rt_sigprocmask)
{
    uint64_t mask, old;
    const uint64_t *set;
    if (c->arg[3] != SIGSET)
        return -EINVAL;
    const int e = dz_linux_mask(c, c->arg[1], SIGSET, &mask, &set);
    if (e < 0)
        return e;
    const int64_t r = dz_sys_sigprocmask(LINUX_K(c), arg_int(c, 0), set, &old);
    return dz_linux_give(c, r, c->arg[2], &old, sizeof old);
}

LINUX_CALL(rt_sigpending)
{
    uint64_t set;
    if (c->arg[1] > SIGSET) /* less is written in part */
        return -EINVAL;
    const int64_t r = dz_sys_sigpending(LINUX_K(c), &set);
    return r < 0 ? r : dz_linux_put(c, c->arg[0], &set, (size_t)c->arg[1]);
}

/* ---- waiting for a signal ------------------------------------------------------------------ */

LINUX_CALL(rt_sigsuspend)
{
    uint64_t mask;
    if (c->arg[1] != SIGSET)
        return -EINVAL;
    if (dz_linux_get(c, c->arg[0], &mask, sizeof mask) < 0)
        return -EFAULT;
    return dz_sys_sigsuspend(LINUX_K(c), mask);
}
LINUX_CALL(pause)
{
    uint64_t mask; /* the current mask */
    (void)dz_sys_sigprocmask(LINUX_K(c), SIG_BLOCK, NULL, &mask);
    return dz_sys_sigsuspend(LINUX_K(c), mask);
}

LINUX_CALL(rt_sigtimedwait)
{
    uint64_t set;
    int64_t timeout;
    uint8_t out[DZ_LINUX_SIGINFO];
    struct dz_siginfo info;
    if (c->arg[3] != SIGSET)
        return -EINVAL;
    if (dz_linux_get(c, c->arg[0], &set, sizeof set) < 0)
        return -EFAULT;
    const int e = dz_linux_timespec(c, c->arg[2], &timeout);
    if (e < 0)
        return e;
    const int64_t r = dz_sys_sigtimedwait(LINUX_K(c), set, timeout, &info);
    if (r <= 0)
        return r;
    dz_linux_siginfo_put(&info, out);
    return dz_linux_give(c, r, c->arg[1], out, sizeof out);
}

/* ---- sleeping ---------------------------------------------------------------------------- */

static int64_t sleep_for(const linux_call *c, int clock, bool absolute, uint64_t want,
                         uint64_t left_at)
{
    int64_t ns, left = 0, v[2];
    if (want == 0)
        return -EFAULT;
    const int e = dz_linux_timespec(c, want, &ns);
    if (e < 0)
        return e;
    const int64_t r = dz_sys_clock_nanosleep(LINUX_K(c), clock, absolute, ns, &left);
    if (r != -EINTR || absolute || left_at == 0)
        return r;
    dz_linux_split(left, v);
    return dz_linux_put(c, left_at, v, sizeof v) < 0 ? -EFAULT : r;
}
LINUX_CALL(nanosleep)
{
    return sleep_for(c, CLOCK_MONOTONIC, false, c->arg[0], c->arg[1]);
}
LINUX_CALL(clock_nanosleep)
{
    return sleep_for(c, arg_int(c, 0), arg_int(c, 1) & TIMER_ABSTIME, c->arg[2], c->arg[3]);
}

/* ---- timers -------------------------------------------------------------------------------- */

/* struct itimerval: interval, value. */
static int64_t put_itimerval(const linux_call *c, int64_t r, uint64_t at, const int64_t ns[2])
{
    int64_t v[2][2];
    for (int i = 0; i < 2; i++) {
        dz_linux_split(ns[i] < INT64_MAX - 999 ? ns[i] + 999 : ns[i], v[i]); /* 0 is none */
        v[i][1] /= 1000;
    }
    return dz_linux_give(c, r, at, v, sizeof v);
}
LINUX_CALL(setitimer)
{
    int64_t set[2] = {0, 0}, old[2]; /* without an address: off */
    int e = dz_linux_timeval(c, c->arg[1], &set[0]);
    e = e < 0 ? e : dz_linux_timeval(c, c->arg[1] ? c->arg[1] + 16 : 0, &set[1]);
    if (e < 0)
        return e;
    for (int i = 0; i < 2; i++)
        set[i] = set[i] < 0 ? 0 : set[i];
    const int64_t r = dz_sys_setitimer(LINUX_K(c), arg_int(c, 0), set, old);
    return put_itimerval(c, r, c->arg[2], old);
}
LINUX_CALL(getitimer)
{
    int64_t now[2];
    const int64_t r = dz_sys_setitimer(LINUX_K(c), arg_int(c, 0), NULL, now);
    if (r >= 0 && c->arg[1] == 0)
        return -EFAULT;
    return put_itimerval(c, r, c->arg[1], now);
}
/* Seconds left of the old alarm, rounded, but 0 only if there was none. */
LINUX_CALL(alarm)
{
    const int64_t second = 1000000000, set[2] = {0, arg_u32(c, 0) * second};
    int64_t old[2];
    const int64_t r = dz_sys_setitimer(LINUX_K(c), ITIMER_REAL, set, old);
    if (r < 0 || old[1] == 0)
        return r;
    const int64_t rounded = (old[1] + second / 2) / second;
    return rounded ? rounded : 1;
}

int dz_linux_sigevent(const linux_call *c, uint64_t at, struct dz_timer_event *ret)
{
    struct { /* struct sigevent */
        uint64_t value;
        int32_t signo, notify, tid;
        uint8_t pad[44];
    } e;
    if (dz_linux_get(c, at, &e, sizeof e) < 0)
        return -EFAULT;
    *ret = (struct dz_timer_event){
        .notify = e.notify, .signo = e.signo, .tid = e.tid, .value = e.value};
    return 0;
}

LINUX_CALL(timer_create)
{
    struct dz_timer_event how;
    if (c->arg[1] && dz_linux_sigevent(c, c->arg[1], &how) < 0)
        return -EFAULT;
    const int64_t r = dz_sys_timer_create(LINUX_K(c), arg_int(c, 0), c->arg[1] ? &how : NULL);
    const int32_t id = (int32_t)r;
    if (r < 0)
        return r;
    if (dz_linux_put(c, c->arg[2], &id, sizeof id) == 0)
        return 0;
    (void)dz_sys_timer_delete(LINUX_K(c), id);
    return -EFAULT;
}
LINUX_CALL(timer_settime)
{
    int64_t set[2], old[2];
    if (c->arg[2] == 0)
        return -EINVAL;
    const int e = dz_linux_itimerspec(c, c->arg[2], set);
    if (e < 0)
        return e;
    const int64_t r = dz_sys_timer_settime(LINUX_K(c), arg_int(c, 0), arg_int(c, 1), set, old);
    return dz_linux_give_itimerspec(c, r, c->arg[3], old);
}
LINUX_CALL(timer_gettime)
{
    int64_t now[2] = {0, 0};
    const int64_t r = dz_sys_timer_gettime(LINUX_K(c), arg_int(c, 0), now);
    if (r == 0 && c->arg[1] == 0)
        return -EFAULT;
    return dz_linux_give_itimerspec(c, r, c->arg[1], now);
}
LINUX_CALL(timer_getoverrun)
{
    return dz_sys_timer_getoverrun(LINUX_K(c), arg_int(c, 0));
}
LINUX_CALL(timer_delete)
{
    return dz_sys_timer_delete(LINUX_K(c), arg_int(c, 0));
}

/* ---- the end -------------------------------------------------------------------------------- */

LINUX_CALL(exit)
{
    return dz_sys_exit_thread(LINUX_K(c), arg_int(c, 0));
}
LINUX_CALL(exit_group)
{
    return dz_sys_exit(LINUX_K(c), arg_int(c, 0));
}

/* SPDX-License-Identifier: MIT
 * POSIX timers: what they send, when, and how often. */
#include "../lib/linux_rig.h"
#include "tap.h"

#include <signal.h>
#include <time.h>

#define LAST(n) (LRIG_RO - (n))
#define NOWHERE UINT64_C(0x7fff00000000)
#define MS      INT64_C(1000000)
#define S       (1000 * MS)

struct event { /* struct sigevent */
    uint64_t value;
    int32_t signo, notify, tid;
    uint8_t pad[44];
};
static uint64_t event(int notify, int signo, int tid, uint64_t value)
{
    const struct event e = {.value = value, .signo = signo, .notify = notify, .tid = tid};
    return lmem_put(&e, sizeof e);
}
static uint64_t spec(int64_t every, int64_t first)
{
    const int64_t v[4] = {every / S, every % S, first / S, first % S};
    return lmem_put(v, sizeof v);
}
static int64_t time_at(uint64_t at)
{
    int64_t v[2];
    memcpy(v, lmem_at(at), sizeof v);
    return v[0] * S + v[1];
}
static uint64_t set_of(int signo)
{
    const uint64_t set = UINT64_C(1) << (signo - 1);
    return lmem_put(&set, sizeof set);
}
/* The next signal of the set: its number, and what it tells. */
struct told {
    int32_t signo, code, id, overrun;
    uint64_t value;
};
static int64_t next(struct fib *f, uint64_t set, int64_t timeout, struct told *ret)
{
    const int64_t v[2] = {timeout / S, timeout % S};
    const uint64_t at = lmem_new(128);
    const int64_t r = CALL(f, rt_sigtimedwait, set, at, lmem_put(v, sizeof v), 8);
    const uint8_t *i = lmem_at(at);
    memcpy(&ret->signo, i, 4);
    memcpy(&ret->code, i + 8, 4);
    memcpy(&ret->id, i + 16, 4);
    memcpy(&ret->overrun, i + 20, 4);
    memcpy(&ret->value, i + 24, 8);
    return r;
}
static int32_t id_at(uint64_t at)
{
    int32_t id;
    memcpy(&id, lmem_at(at), 4);
    return id;
}

static int signals(struct fib *f)
{
    const uint64_t at = lmem_new(4), now = lmem_new(32), set = set_of(SIGUSR1);
    struct told t;
    GIVES(f, 0, rt_sigprocmask, SIG_BLOCK, set, 0, 8);
    GIVES(f, 0, timer_create, CLOCK_MONOTONIC, event(SIGEV_SIGNAL, SIGUSR1, 0, 77), at);
    const int32_t id = id_at(at);
    GIVES(f, 0, timer_settime, id, 0, spec(0, 100 * MS), now);
    OK(f, time_at(now) == 0 && time_at(now + 16) == 0);
    f->r->now += 30 * MS;
    GIVES(f, 0, timer_gettime, id, now);
    OK(f, time_at(now) == 0 && time_at(now + 16) == 70 * MS);
    const int64_t from = f->r->now;
    OK(f, next(f, set, S, &t) == SIGUSR1 && f->r->now - from == 70 * MS);
    OK(f, t.code == SI_TIMER && t.id == id && t.overrun == 0 && t.value == 77);
    GIVES(f, 0, timer_gettime, id, now);
    OK(f, time_at(now + 16) == 0);
    OK(f, next(f, set, 2 * S, &t) == -EAGAIN); /* once */
    GIVES(f, 0, timer_delete, id);
    GIVES(f, -EINVAL, timer_delete, id);
    GIVES(f, -EINVAL, timer_gettime, id, now);
    GIVES(f, -EINVAL, timer_settime, id, 0, spec(0, 1), 0);
    GIVES(f, -EINVAL, timer_getoverrun, id);
    return 0;
}
TEST(timers_send_a_signal_with_a_value)
{
    CHECK_INT(lrig_run(signals, 1000), 0);
}

static int overruns(struct fib *f)
{
    const uint64_t at = lmem_new(4), now = lmem_new(32), set = set_of(SIGUSR1);
    struct told t;
    GIVES(f, 0, rt_sigprocmask, SIG_BLOCK, set, 0, 8);
    GIVES(f, 0, timer_create, CLOCK_MONOTONIC, event(SIGEV_SIGNAL, SIGUSR1, 0, 1), at);
    const int32_t id = id_at(at);
    GIVES(f, 0, timer_settime, id, 0, spec(10 * MS, 5 * MS), 0);
    fib_sleep(f, 5);
    f->r->now += 31 * MS; /* three more */
    OK(f, next(f, set, 0, &t) == SIGUSR1 && t.overrun == 3);
    GIVES(f, 3, timer_getoverrun, id);
    GIVES(f, 0, timer_gettime, id, now);
    OK(f, time_at(now) == 10 * MS && time_at(now + 16) == 9 * MS);
    const int64_t from = f->r->now;
    OK(f, next(f, set, S, &t) == SIGUSR1 && t.overrun == 0 && f->r->now - from == 9 * MS);
    /* since 1970: more than an int holds, and no time for each of them */
    GIVES(f, 0, timer_create, CLOCK_REALTIME, event(SIGEV_SIGNAL, SIGUSR2, 0, 1), at);
    const uint64_t other = set_of(SIGUSR2);
    GIVES(f, 0, rt_sigprocmask, SIG_BLOCK, other, 0, 8);
    f->r->now += 3 * S;
    GIVES(f, 0, timer_settime, id_at(at), TIMER_ABSTIME, spec(1, 1), 0);
    OK(f, next(f, other, S, &t) == SIGUSR2 && t.overrun == INT32_MAX);
    GIVES(f, INT32_MAX, timer_getoverrun, id_at(at));
    GIVES(f, 0, timer_settime, id_at(at), 0, spec(0, 0), 0); /* off */
    GIVES(f, 0, timer_settime, id, 0, spec(0, 0), now);
    OK(f, time_at(now) == 10 * MS);
    OK(f, next(f, set, 0, &t) == SIGUSR1); /* which waited already */
    OK(f, next(f, set, S, &t) == -EAGAIN);
    return 0;
}
TEST(timers_count_what_nobody_took)
{
    CHECK_INT(lrig_run(overruns, 1000), 0);
}

static int forms(struct fib *f)
{
    const uint64_t at = lmem_new(4);
    GIVES(f, -EINVAL, timer_create, 99, 0, at);
    GIVES(f, -EOPNOTSUPP, timer_create, CLOCK_MONOTONIC_COARSE, 0, at);
    GIVES(f, -EPERM, timer_create, CLOCK_BOOTTIME_ALARM, 0, at);
    GIVES(f, -EINVAL, timer_create, CLOCK_MONOTONIC, event(SIGEV_SIGNAL, 0, 0, 0), at);
    GIVES(f, -EINVAL, timer_create, CLOCK_MONOTONIC, event(SIGEV_SIGNAL, 65, 0, 0), at);
    GIVES(f, -EINVAL, timer_create, CLOCK_MONOTONIC, event(9, SIGUSR1, 0, 0), at);
    GIVES(f, -EINVAL, timer_create, CLOCK_MONOTONIC, event(4, SIGUSR1, 99, 0), at);
    GIVES(f, -EFAULT, timer_create, CLOCK_MONOTONIC, NOWHERE, at);
    GIVES(f, -EFAULT, timer_create, CLOCK_MONOTONIC, 0, LAST(3));
    OK(f, dz_kernel_rows(f->k, DZ_KERNEL_TABLE_TIMER) == 0);
    GIVES(f, 0, timer_create, CLOCK_MONOTONIC, event(SIGEV_NONE, 0, 0, 0), at);
    const int32_t id = id_at(at);
    GIVES(f, -EINVAL, timer_settime, id, 0, 0, 0);
    GIVES(f, -EFAULT, timer_settime, id, 0, NOWHERE, 0);
    const int64_t bad[4] = {0, 0, 0, S};
    GIVES(f, -EINVAL, timer_settime, id, 0, lmem_put(bad, sizeof bad), 0);
    GIVES(f, 0, timer_settime, id, 0, spec(0, MS), 0);
    GIVES(f, -EFAULT, timer_gettime, id, 0);
    GIVES(f, -EFAULT, timer_gettime, id, LAST(31));
    fib_sleep(f, 5); /* it tells nobody */
    GIVES(f, 0, timer_create, CLOCK_MONOTONIC, event(4, SIGUSR1, f->p->pid, 0), at);
    return 0;
}
TEST(timer_calls_refuse_what_linux_refuses)
{
    CHECK_INT(lrig_run(forms, 1000), 0);
}

static int ignored(struct fib *f)
{
    const uint64_t at = lmem_new(4), ignore[4] = {1};
    GIVES(f, 0, rt_sigaction, SIGUSR1, lmem_put(ignore, sizeof ignore), 0, 8);
    GIVES(f, 0, timer_create, CLOCK_MONOTONIC, event(SIGEV_SIGNAL, SIGUSR1, 0, 0), at);
    GIVES(f, 0, timer_settime, id_at(at), 0, spec(1, 1), 0);
    const int64_t from = f->r->now;
    fib_sleep(f, 100); /* it does not end in looking at the timer all the time */
    OK(f, f->r->now - from == 100 * MS);
    return 0;
}
TEST(timers_whose_signal_is_ignored_rest)
{
    CHECK_INT(lrig_run(ignored, 1000), 0);
}

static int cpu(struct fib *f)
{
    const uint64_t at = lmem_new(4), now = lmem_new(32), set = set_of(SIGUSR1);
    struct told t;
    GIVES(f, 0, rt_sigprocmask, SIG_BLOCK, set, 0, 8);
    GIVES(f, 0, timer_create, CLOCK_PROCESS_CPUTIME_ID, event(SIGEV_SIGNAL, SIGUSR1, 0, 9), at);
    GIVES(f, 0, timer_settime, id_at(at), 0, spec(0, 10 * MS), 0);
    fib_sleep(f, 50);
    OK(f, next(f, set, 0, &t) == -EAGAIN); /* time passes, nobody computes */
    GIVES(f, 0, timer_gettime, id_at(at), now);
    OK(f, time_at(now + 16) == 10 * MS);
    f->r->cpu += 11 * MS;
    fib_sleep(f, 1);
    OK(f, next(f, set, 0, &t) == SIGUSR1 && t.value == 9);
    return 0;
}
TEST(timers_of_cpu_time)
{
    CHECK_INT(lrig_run(cpu, 1000), 0);
}

/* SPDX-License-Identifier: MIT
 *
 * posix_timer.c - interval timers. timer_create and its kin are not there.
 */
#include "posix_int.h"

#include <sys/time.h>
#include <unistd.h>

static void from_us(struct itimerval *t, const uint64_t v[2])
{
    t->it_interval.tv_sec = (time_t)(v[0] / 1000000);
    t->it_interval.tv_usec = (suseconds_t)(v[0] % 1000000);
    t->it_value.tv_sec = (time_t)(v[1] / 1000000);
    t->it_value.tv_usec = (suseconds_t)(v[1] % 1000000);
}

static int valid(const struct timeval *t)
{
    return t->tv_sec >= 0 && t->tv_usec >= 0 && t->tv_usec < 1000000;
}

int setitimer(int which, const struct itimerval *t, struct itimerval *old)
{
    uint64_t v[2] = {0}, was[2] = {0};

    if (t && (!valid(&t->it_interval) || !valid(&t->it_value)))
        return posix_fail(EINVAL);
    if (t) {
        v[0] = (uint64_t)t->it_interval.tv_sec * 1000000 + (uint64_t)t->it_interval.tv_usec;
        v[1] = (uint64_t)t->it_value.tv_sec * 1000000 + (uint64_t)t->it_value.tv_usec;
    }
    if (posix_ret(doze_setitimer(which, t ? v : NULL, was)) < 0)
        return -1;
    if (old)
        from_us(old, was);
    return 0;
}

int getitimer(int which, struct itimerval *t)
{
    return setitimer(which, NULL, t);
}

unsigned alarm(unsigned seconds)
{
    struct itimerval t = {{0, 0}, {(time_t)seconds, 0}}, old = {0};

    if (setitimer(ITIMER_REAL, &t, &old) < 0)
        return 0;
    return (unsigned)old.it_value.tv_sec + (old.it_value.tv_usec > 0);
}

unsigned ualarm(unsigned us, unsigned interval)
{
    struct itimerval t = {{interval / 1000000, (suseconds_t)(interval % 1000000)},
                          {us / 1000000, (suseconds_t)(us % 1000000)}};
    struct itimerval old = {0};

    if (setitimer(ITIMER_REAL, &t, &old) < 0)
        return 0;
    return (unsigned)(old.it_value.tv_sec * 1000000) + (unsigned)old.it_value.tv_usec;
}

/* SPDX-License-Identifier: MIT
 *
 * posix_system.c - the machine: its name, its figures, its clock.
 */
#include "posix_int.h"

#include <string.h>
#include <sys/random.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

int gethostname(char *b, size_t n)
{
    return posix_ret(doze_getstr(DOZE_STR_HOSTNAME, b, (int)n)) < 0 ? -1 : 0;
}

int sethostname(const char *b, size_t n)
{
    (void)b;
    (void)n;
    return posix_fail(ENOSYS);
}

int uname(struct utsname *u)
{
    memset(u, 0, sizeof *u);
    strcpy(u->sysname, "Linux");
    gethostname(u->nodename, sizeof u->nodename);
    doze_getstr(DOZE_STR_RELEASE, u->release, sizeof u->release);
    strcpy(u->version, "doze");
    strcpy(u->machine, "wasm32");
    return 0;
}

int sysinfo(struct sysinfo *s)
{
    uint64_t v[7] = {0};
    int i;

    if (posix_ret(doze_sysinfo(v)) < 0)
        return -1;
    memset(s, 0, sizeof *s);
    s->uptime = (unsigned long)v[0];
    for (i = 0; i < 3; i++)
        s->loads[i] = (unsigned long)v[i + 1];
    s->totalram = (unsigned long)(v[4] >> 10);
    s->freeram = (unsigned long)(v[5] >> 10);
    s->mem_unit = 1024;
    s->procs = (unsigned short)v[6];
    return 0;
}

int getloadavg(double *loads, int count)
{
    uint64_t v[7] = {0};

    if (count < 0 || doze_sysinfo(v) < 0)
        return -1;
    count = count > 3 ? 3 : count;
    for (int i = 0; i < count; i++)
        loads[i] = (double)v[i + 1] / 65536;
    return count;
}

ssize_t getrandom(void *buf, size_t size, unsigned flags)
{
    size_t done = 0;

    if (flags & ~(unsigned)(GRND_NONBLOCK | GRND_RANDOM | GRND_INSECURE))
        return posix_fail(EINVAL);
    while (done < size) { /* getentropy gives at most 256 bytes at a time */
        size_t n = size - done < 256 ? size - done : 256;
        if (getentropy((char *)buf + done, n) < 0)
            return done ? (ssize_t)done : -1;
        done += n;
    }
    return (ssize_t)done;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *left)
{
    int64_t rest = 0;
    int id = clock == CLOCK_REALTIME ? 0 : clock == CLOCK_MONOTONIC ? 1 : -1;

    if (id < 0 || t->tv_nsec < 0 || t->tv_nsec > 999999999 || t->tv_sec < 0)
        return EINVAL;
    int64_t ns = t->tv_sec > 9000000000 ? INT64_MAX : t->tv_sec * 1000000000LL + t->tv_nsec;
    int r = doze_nanosleep(id, flags != 0, ns, &rest);
    if (r == -EINTR && !flags && left)
        *left = (struct timespec){rest / 1000000000, (long)(rest % 1000000000)};
    return -r;
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
    int e = clock_nanosleep(CLOCK_REALTIME, 0, t, left);

    return e ? posix_fail(e) : 0;
}

unsigned sleep(unsigned s)
{
    struct timespec t = {(time_t)s, 0};

    return nanosleep(&t, &t) < 0 ? (unsigned)t.tv_sec + (t.tv_nsec > 0) : 0;
}

int usleep(unsigned us)
{
    struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

    return nanosleep(&t, 0);
}

int clock_settime(clockid_t c, const struct timespec *t)
{
    (void)c;
    (void)t;
    errno = EPERM;
    return -1;
}

int settimeofday(const struct timeval *t, const struct timezone *z)
{
    (void)t;
    (void)z;
    errno = EPERM;
    return -1;
}

/* SPDX-License-Identifier: MIT
 * System calls that tell and set what a process is: ids, limits, usage, clocks, names. */
#include "../lib/linux_rig.h"
#include "tap.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/times.h>
#include <sys/utsname.h>

#define LAST(n) (LRIG_RO - (n))
#define NOWHERE UINT64_C(0x7fff00000000)

static int numbers(struct fib *f)
{
    GIVES(f, f->p->pid, getpid);
    GIVES(f, f->p->pid, gettid);
    GIVES(f, 1, getppid);
    GIVES(f, f->p->pid, getpgrp);
    GIVES(f, f->p->pid, getpgid, 0);
    GIVES(f, f->p->pid, getsid, 0);
    GIVES(f, -ESRCH, getpgid, 99);
    GIVES(f, -EPERM, setsid);
    GIVES(f, -EPERM, setpgid, 0, 0); /* leads a session */
    GIVES(f, 0, sched_yield);
    return 0;
}
TEST(numbers_of_a_process)
{
    CHECK_INT(lrig_run(numbers, 1000), 0);
}

static int ids(struct fib *f)
{
    uint32_t got[3];
    const uint64_t a = lmem_new(4), b = lmem_new(4), c = lmem_new(4);
    GIVES(f, 0, setresgid, 10, 11, 12);
    GIVES(f, 0, setregid, -1, 13);
    GIVES(f, 0, getresgid, a, b, c);
    memcpy(&got[0], lmem_at(a), 4), memcpy(&got[1], lmem_at(b), 4), memcpy(&got[2], lmem_at(c), 4);
    OK(f, got[0] == 10 && got[1] == 13 && got[2] == 13);
    GIVES(f, 10, getgid);
    GIVES(f, 13, getegid);
    GIVES(f, 0, setgid, 14);
    GIVES(f, 0, setresuid, 20, 0, 22);
    GIVES(f, -EFAULT, getresuid, a, LAST(3), c);
    GIVES(f, 0, setreuid, 20, 21); /* as root: any */
    GIVES(f, 0, getresuid, a, b, LAST(4));
    memcpy(&got[0], lmem_at(a), 4), memcpy(&got[1], lmem_at(b), 4);
    memcpy(&got[2], lmem_at(LAST(4)), 4);
    OK(f, got[0] == 20 && got[1] == 21 && got[2] == 21);
    GIVES(f, 20, getuid);
    GIVES(f, 21, geteuid);
    GIVES(f, -EPERM, setreuid, 0, -1);
    GIVES(f, -EPERM, setuid, 0);
    GIVES(f, -EINVAL, setuid, -1);
    GIVES(f, 0, setreuid, 21, 20); /* swapped */
    GIVES(f, 21, getuid);
    GIVES(f, 0, setreuid, -1, -1);
    GIVES(f, 0, setresuid, 20, 20, 21);
    GIVES(f, -EPERM, setreuid, 21, -1); /* the saved one is not for the real one */
    GIVES(f, -EPERM, setresgid, 5, 5, 5);
    GIVES(f, -EPERM, setgroups, 0, 0);
    return 0;
}
TEST(ids_of_a_process)
{
    CHECK_INT(lrig_run(ids, 0), 0);
}

static int groups(struct fib *f)
{
    const uint32_t want[3] = {7, 8, 9};
    const uint64_t at = lmem_put(want, sizeof want), to = lmem_new(64);
    GIVES(f, 0, setgroups, 3, at);
    GIVES(f, 3, getgroups, 0, 0);
    GIVES(f, 3, getgroups, 16, to);
    OK(f, memcmp(lmem_at(to), want, sizeof want) == 0);
    GIVES(f, -EINVAL, getgroups, 2, to);
    GIVES(f, -EINVAL, getgroups, -1, to);
    GIVES(f, -EFAULT, getgroups, 3, LAST(11));
    GIVES(f, 3, getgroups, 3, LAST(12));
    GIVES(f, -EFAULT, setgroups, 3, LRIG_END - 11);
    GIVES(f, -EINVAL, setgroups, 17, at);
    GIVES(f, -EINVAL, setgroups, -1, at);
    return 0;
}
TEST(groups_of_a_process)
{
    CHECK_INT(lrig_run(groups, 0), 0);
}

static int limits(struct fib *f)
{
    const uint64_t want[2] = {100, 200}, wrong[2] = {3, 2};
    const uint64_t at = lmem_put(want, sizeof want), bad = lmem_put(wrong, sizeof wrong);
    const uint64_t to = lmem_new(16), usage = lmem_new(sizeof(struct rusage));
    GIVES(f, 0, prlimit64, 0, RLIMIT_NOFILE, at, to);
    OK(f, memcmp(lmem_at(to), want, sizeof want) != 0);
    GIVES(f, 0, prlimit64, f->p->pid, RLIMIT_NOFILE, 0, to);
    OK(f, memcmp(lmem_at(to), want, sizeof want) == 0);
    GIVES(f, -ESRCH, prlimit64, 999, RLIMIT_NOFILE, 0, to);
    GIVES(f, -EPERM, prlimit64, 1, RLIMIT_NOFILE, 0, to);
    GIVES(f, -EINVAL, prlimit64, 0, 16, 0, to);
    GIVES(f, 0, getrlimit, RLIMIT_CORE, to);
    const uint64_t core[2] = {0, UINT64_MAX}; /* a program may raise its own, as on Linux */
    OK(f, memcmp(lmem_at(to), core, sizeof core) == 0);
    GIVES(f, -EINVAL, setrlimit, RLIMIT_CORE, bad);
    GIVES(f, 0, setrlimit, RLIMIT_CORE, at);
    GIVES(f, 0, getrlimit, RLIMIT_CORE, to);
    OK(f, memcmp(lmem_at(to), want, sizeof want) == 0);
    GIVES(f, -EFAULT, getrlimit, RLIMIT_CORE, 0);
    GIVES(f, -EFAULT, setrlimit, RLIMIT_CORE, 0);
    GIVES(f, -EFAULT, setrlimit, RLIMIT_CORE, LRIG_END - 15);
    GIVES(f, -EFAULT, getrlimit, RLIMIT_CORE, LAST(15));
    GIVES(f, 20, getpriority, PRIO_PROCESS, 0);
    GIVES(f, 0, setpriority, PRIO_PROCESS, 0, 5);
    GIVES(f, 15, getpriority, PRIO_PROCESS, 0);
    GIVES(f, -EINVAL, getpriority, 9, 0);
    fib_burn(f, 1250000000);
    GIVES(f, 0, getrusage, RUSAGE_SELF, usage);
    struct rusage u;
    memcpy(&u, lmem_at(usage), sizeof u);
    OK(f, u.ru_utime.tv_sec == 1 && u.ru_utime.tv_usec == 250000 && u.ru_stime.tv_sec == 0);
    GIVES(f, -EINVAL, getrusage, 7, usage);
    GIVES(f, -EFAULT, getrusage, RUSAGE_SELF, LAST(sizeof u - 1));
    struct tms t;
    const int64_t ticks = dz_kernel_now(f->k) / 10000000;
    GIVES(f, ticks, times, usage);
    memcpy(&t, lmem_at(usage), sizeof t);
    OK(f, t.tms_utime == 125 && t.tms_cutime == 0);
    GIVES(f, ticks, times, 0);
    GIVES(f, -EFAULT, times, NOWHERE);
    return 0;
}
TEST(limits_and_usage_of_a_process)
{
    CHECK_INT(lrig_run(limits, 0), 0);
}

static int clocks(struct fib *f)
{
    const uint64_t to = lmem_new(16), zone = lmem_new(8);
    int64_t v[2];
    f->r->now = INT64_C(12345678901234);
    GIVES(f, 0, clock_gettime, CLOCK_REALTIME, to);
    memcpy(v, lmem_at(to), sizeof v);
    OK(f, v[0] == 12345 && v[1] == 678901234);
    static const int all[] = {
        CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE,    CLOCK_MONOTONIC_COARSE,
        CLOCK_BOOTTIME,  CLOCK_TAI,           CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++) {
        GIVES(f, 0, clock_gettime, all[i], to);
        GIVES(f, 0, clock_getres, all[i], to);
    }
    memcpy(v, lmem_at(to), sizeof v);
    OK(f, v[0] == 0 && v[1] > 0);
    GIVES(f, 0, clock_getres, CLOCK_MONOTONIC, 0);
    GIVES(f, 0, clock_gettime, -6, to); /* of process 0, which is the caller */
    GIVES(f, 0, clock_getres, -2, to);
    GIVES(f, -EINVAL, clock_getres, -1, to);
    GIVES(f, -EINVAL, clock_gettime, 99, to);
    GIVES(f, -EFAULT, clock_gettime, CLOCK_REALTIME, LAST(15));
    GIVES(f, -EFAULT, clock_gettime, CLOCK_REALTIME, 0);
    GIVES(f, 12345, time, to);
    GIVES(f, 12345, time, 0);
    GIVES(f, -EFAULT, time, NOWHERE);
    GIVES(f, 0, gettimeofday, to, zone);
    memcpy(v, lmem_at(to), sizeof v);
    OK(f, v[0] == 12345 && v[1] == 678901);
    GIVES(f, 0, gettimeofday, 0, 0);
    GIVES(f, -EFAULT, gettimeofday, to, NOWHERE);
    return 0;
}
TEST(clocks_tell_seconds_and_nanoseconds)
{
    CHECK_INT(lrig_run(clocks, 0), 0);
}

static int machine(struct fib *f)
{
    const uint64_t to = lmem_new(sizeof(struct utsname)), buf = lmem_new(64);
    struct utsname u;
    struct sysinfo s;
    GIVES(f, 0, uname, to);
    memcpy(&u, lmem_at(to), sizeof u);
    OK(f, strcmp(u.sysname, "Linux") == 0 && strcmp(u.machine, "x86_64") == 0);
    OK(f, strcmp(u.nodename, dz_kernel_hostname(f->k)) == 0 && u.release[0] == '6');
    GIVES(f, -EFAULT, uname, LAST(sizeof u - 1));
    GIVES(f, 0, sysinfo, to);
    memcpy(&s, lmem_at(to), sizeof s);
    OK(f, s.mem_unit == 1 && s.totalram >= s.freeram && s.totalram > 0 && s.procs == 2);
    GIVES(f, -EFAULT, sysinfo, 0);
    GIVES(f, 64, getrandom, buf, 64, 0);
    OK(f, *(uint8_t *)lmem_at(buf + 63) == 0x5a);
    GIVES(f, 10, getrandom, LAST(10), 64, 1);
    GIVES(f, -EFAULT, getrandom, NOWHERE, 64, 0);
    GIVES(f, 0, getrandom, NOWHERE, 0, 0);
    GIVES(f, -EINVAL, getrandom, buf, 1, 8);
    GIVES(f, -EINVAL, getrandom, buf, 1, 6);
    return 0;
}
TEST(machine_has_a_name_and_random_bytes)
{
    CHECK_INT(lrig_run(machine, 0), 0);
}

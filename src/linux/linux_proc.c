/* SPDX-License-Identifier: MIT
 *
 * linux_proc.c - calls on processes, except for making and ending them: numbers, ids, limits,
 * usage, clocks, and the machine's name.
 */
#include "linux/linux_int.h"

#include <linux/capability.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

enum {
    TICKS_PER_S = 100,    /* USER_HZ */
    RANDOM_CHUNK = 4096,  /* bytes that getrandom copies at once, */
    RANDOM_MAX = 1 << 20, /* and in one call */
};

/* ---- numbers ------------------------------------------------------------------------- */

LINUX_CALL(getpid)
{
    return dz_sys_getpid(LINUX_K(c));
}
LINUX_CALL(gettid)
{
    return dz_sys_gettid(LINUX_K(c));
}
LINUX_CALL(getppid)
{
    return dz_sys_getppid(LINUX_K(c));
}
LINUX_CALL(getpgid)
{
    return dz_sys_getpgid(LINUX_K(c), arg_int(c, 0));
}
LINUX_CALL(getpgrp)
{
    return dz_sys_getpgid(LINUX_K(c), 0);
}
LINUX_CALL(setpgid)
{
    return dz_sys_setpgid(LINUX_K(c), arg_int(c, 0), arg_int(c, 1));
}
LINUX_CALL(getsid)
{
    return dz_sys_getsid(LINUX_K(c), arg_int(c, 0));
}
LINUX_CALL(setsid)
{
    return dz_sys_setsid(LINUX_K(c));
}
LINUX_CALL(sched_yield)
{
    return dz_sys_sched_yield(LINUX_K(c));
}

/* ---- ids -------------------------------------------------------------------------------- */

LINUX_CALL(getuid)
{
    uint32_t ids[3];
    dz_sys_getresuid(LINUX_K(c), ids);
    return ids[0];
}
LINUX_CALL(geteuid)
{
    uint32_t ids[3];
    dz_sys_getresuid(LINUX_K(c), ids);
    return ids[1];
}
LINUX_CALL(getgid)
{
    uint32_t ids[3];
    dz_sys_getresgid(LINUX_K(c), ids);
    return ids[0];
}
LINUX_CALL(getegid)
{
    uint32_t ids[3];
    dz_sys_getresgid(LINUX_K(c), ids);
    return ids[1];
}

/* Three ids at three addresses. */
static int64_t put_ids(const linux_call *c, const uint32_t ids[3])
{
    for (int i = 0; i < 3; i++)
        if (dz_linux_put(c, c->arg[i], &ids[i], sizeof ids[i]) < 0)
            return -EFAULT;
    return 0;
}
LINUX_CALL(getresuid)
{
    uint32_t ids[3];
    dz_sys_getresuid(LINUX_K(c), ids);
    return put_ids(c, ids);
}
LINUX_CALL(getresgid)
{
    uint32_t ids[3];
    dz_sys_getresgid(LINUX_K(c), ids);
    return put_ids(c, ids);
}

LINUX_CALL(setuid)
{
    return dz_sys_setuid(LINUX_K(c), arg_u32(c, 0));
}
LINUX_CALL(setgid)
{
    return dz_sys_setgid(LINUX_K(c), arg_u32(c, 0));
}
LINUX_CALL(setresuid)
{
    const uint32_t ids[3] = {arg_u32(c, 0), arg_u32(c, 1), arg_u32(c, 2)};
    return dz_sys_setresuid(LINUX_K(c), ids);
}
LINUX_CALL(setresgid)
{
    const uint32_t ids[3] = {arg_u32(c, 0), arg_u32(c, 1), arg_u32(c, 2)};
    return dz_sys_setresgid(LINUX_K(c), ids);
}

/* setreuid(2): a process that sets the real id, or sets the effective id to another than the real
 * one, also gets the new effective id as its saved id. Only root may set the real id to the saved
 * one. */
static int reids(const linux_call *c, const uint32_t now[3], uint32_t ret_ids[3])
{
    const uint32_t real = arg_u32(c, 0), effective = arg_u32(c, 1);
    if (c->proc->euid != 0 && real != UINT32_MAX && real != now[0] && real != now[1])
        return -EPERM;
    ret_ids[0] = real;
    ret_ids[1] = effective;
    const bool saved = real != UINT32_MAX || (effective != UINT32_MAX && effective != now[0]);
    ret_ids[2] = !saved ? UINT32_MAX : effective != UINT32_MAX ? effective : now[1];
    return 0;
}
LINUX_CALL(setreuid)
{
    uint32_t now[3], ids[3];
    dz_sys_getresuid(LINUX_K(c), now);
    const int e = reids(c, now, ids);
    return e < 0 ? e : dz_sys_setresuid(LINUX_K(c), ids);
}
LINUX_CALL(setregid)
{
    uint32_t now[3], ids[3];
    dz_sys_getresgid(LINUX_K(c), now);
    const int e = reids(c, now, ids);
    return e < 0 ? e : dz_sys_setresgid(LINUX_K(c), ids);
}

LINUX_CALL(getgroups)
{
    uint32_t groups[DZ_KERNEL_GROUPS_MAX];
    const int n = arg_int(c, 0);
    if (n < 0)
        return -EINVAL;
    const int64_t r = dz_sys_getgroups(LINUX_K(c), (size_t)n, groups);
    if (r <= 0 || n == 0)
        return r;
    return dz_linux_put(c, c->arg[1], groups, (size_t)r * sizeof *groups) < 0 ? -EFAULT : r;
}
LINUX_CALL(setgroups)
{
    uint32_t groups[DZ_KERNEL_GROUPS_MAX];
    const uint32_t n = arg_u32(c, 0);
    struct dz_capsets caps;
    if (dz_sys_capget(LINUX_K(c), 0, &caps) < 0 || !(caps.effective & 1u << CAP_SETGID))
        return -EPERM;
    if (n > NGROUPS_MAX)
        return -EINVAL;
    for (uint32_t i = 0; i < n; i++) /* Linux reads all of them first */
        if (dz_linux_get(c, c->arg[1] + i * sizeof *groups, &groups[i % DZ_ARRAY_LEN(groups)],
                         sizeof *groups) < 0)
            return -EFAULT;
    if (n > DZ_ARRAY_LEN(groups))
        return -EINVAL;
    return dz_sys_setgroups(LINUX_K(c), n, groups);
}

LINUX_CALL(setfsuid)
{
    return dz_sys_setfsuid(LINUX_K(c), arg_u32(c, 0));
}
LINUX_CALL(setfsgid)
{
    return dz_sys_setfsgid(LINUX_K(c), arg_u32(c, 0));
}
LINUX_CALL(personality)
{
    return dz_sys_personality(LINUX_K(c), arg_u32(c, 0));
}

/* ---- capabilities -----------------------------------------------------------------------------
 */

/* Sets of 32 bits each: one element in the first version, two in the later ones. */
static int64_t cap_head(const linux_call *c, struct __user_cap_header_struct *h, uint32_t *ret_n)
{
    if (dz_linux_get(c, c->arg[0], h, sizeof *h) < 0)
        return -EFAULT;
    switch (h->version) {
    case _LINUX_CAPABILITY_VERSION_1:
        *ret_n = 1;
        return 0;
    case _LINUX_CAPABILITY_VERSION_2:
    case _LINUX_CAPABILITY_VERSION_3:
        *ret_n = 2;
        return 0;
    default: /* which one there is */
        h->version = _LINUX_CAPABILITY_VERSION_3;
        return dz_linux_put(c, c->arg[0], &h->version, sizeof h->version) < 0 ? -EFAULT : -EINVAL;
    }
}
LINUX_CALL(capget)
{
    struct __user_cap_header_struct h;
    struct __user_cap_data_struct out[2];
    struct dz_capsets s;
    uint32_t n = 0;
    int64_t r = cap_head(c, &h, &n);
    if (c->arg[1] == 0)
        return r == -EINVAL ? 0 : r;
    if (r == 0)
        r = dz_sys_capget(LINUX_K(c), h.pid, &s);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < n; i++)
        out[i] =
            (struct __user_cap_data_struct){.effective = (uint32_t)(s.effective >> 32 * i),
                                            .permitted = (uint32_t)(s.permitted >> 32 * i),
                                            .inheritable = (uint32_t)(s.inheritable >> 32 * i)};
    return dz_linux_put(c, c->arg[1], out, n * sizeof *out);
}
LINUX_CALL(capset)
{
    struct __user_cap_header_struct h;
    struct __user_cap_data_struct in[2] = {{0}};
    uint32_t n = 0;
    const int64_t r = cap_head(c, &h, &n);
    if (r < 0)
        return r;
    if (h.pid != 0 && h.pid != dz_sys_gettid(LINUX_K(c)))
        return -EPERM;
    if (dz_linux_get(c, c->arg[1], in, n * sizeof *in) < 0)
        return -EFAULT;
    const struct dz_capsets s = {
        .effective = in[0].effective | (uint64_t)in[1].effective << 32,
        .permitted = in[0].permitted | (uint64_t)in[1].permitted << 32,
        .inheritable = in[0].inheritable | (uint64_t)in[1].inheritable << 32,
    };
    return dz_sys_capset(LINUX_K(c), h.pid, &s);
}

/* ---- limits, priority, usage ---------------------------------------------------------------- */

static int64_t limits(const linux_call *c, int resource, uint64_t set_at, uint64_t old_at)
{
    uint64_t set[2], old[2];
    if (set_at && dz_linux_get(c, set_at, set, sizeof set) < 0)
        return -EFAULT;
    const int64_t r = dz_sys_prlimit(LINUX_K(c), resource, set_at ? set : NULL, old);
    return dz_linux_give(c, r, old_at, old, sizeof old);
}
LINUX_CALL(prlimit64)
{
    const int pid = arg_int(c, 0);
    if (pid != 0 && pid != c->proc->pid)
        return dz_sys_getpgid(LINUX_K(c), pid) < 0 ? -ESRCH : -EPERM;
    return limits(c, arg_int(c, 1), c->arg[2], c->arg[3]);
}
LINUX_CALL(getrlimit)
{
    return c->arg[1] == 0 ? -EFAULT : limits(c, arg_int(c, 0), 0, c->arg[1]);
}
LINUX_CALL(setrlimit)
{
    return c->arg[1] == 0 ? -EFAULT : limits(c, arg_int(c, 0), c->arg[1], 0);
}

LINUX_CALL(getpriority)
{
    return dz_sys_getpriority(LINUX_K(c), arg_int(c, 0), arg_int(c, 1));
}
LINUX_CALL(setpriority)
{
    return dz_sys_setpriority(LINUX_K(c), arg_int(c, 0), arg_int(c, 1), arg_int(c, 2));
}

LINUX_CALL(ioprio_get)
{
    return dz_sys_ioprio_get(LINUX_K(c), arg_int(c, 0), arg_int(c, 1));
}
LINUX_CALL(ioprio_set)
{
    return dz_sys_ioprio_set(LINUX_K(c), arg_int(c, 0), arg_int(c, 1), arg_int(c, 2));
}

void dz_linux_rusage(const struct dz_kusage *u, int64_t ret_words[DZ_LINUX_RUSAGE])
{
    const int64_t words[DZ_LINUX_RUSAGE] = {
        (int64_t)(u->utime_us / 1000000),  (int64_t)(u->utime_us % 1000000),
        (int64_t)(u->stime_us / 1000000),  (int64_t)(u->stime_us % 1000000),
        (int64_t)(u->maxrss_bytes / 1024), [8] = (int64_t)u->minflt};
    memcpy(ret_words, words, sizeof words);
}

LINUX_CALL(getrusage)
{
    struct dz_kusage u;
    int64_t out[DZ_LINUX_RUSAGE];
    const int64_t r = dz_sys_getrusage(LINUX_K(c), arg_int(c, 0), &u);
    if (r < 0)
        return r;
    dz_linux_rusage(&u, out);
    return dz_linux_put(c, c->arg[1], out, sizeof out);
}

LINUX_CALL(times)
{
    struct dz_kusage own, children;
    (void)dz_sys_getrusage(LINUX_K(c), RUSAGE_SELF, &own);
    (void)dz_sys_getrusage(LINUX_K(c), RUSAGE_CHILDREN, &children);
    const uint64_t tick = 1000000 / TICKS_PER_S;
    const uint64_t out[4] = {own.utime_us / tick, own.stime_us / tick, children.utime_us / tick,
                             children.stime_us / tick};
    const int64_t now = dz_kernel_now(c->kernel) / (1000000000 / TICKS_PER_S);
    return dz_linux_give(c, now, c->arg[0], out, sizeof out);
}

LINUX_CALL(sysinfo)
{
    struct dz_ksysinfo k;
    const int64_t r = dz_sys_sysinfo(LINUX_K(c), &k);
    const struct sysinfo out = {
        .uptime = (long)k.uptime_s,
        .loads = {k.load[0], k.load[1], k.load[2]},
        .totalram = k.total,
        .freeram = k.free,
        .procs = (unsigned short)(k.procs < UINT16_MAX ? k.procs : UINT16_MAX),
        .mem_unit = 1,
    };
    return r < 0 ? r : dz_linux_put(c, c->arg[0], &out, sizeof out);
}

/* ---- clocks -------------------------------------------------------------------------------- */

static int64_t put_clock(const linux_call *c, int64_t r, int64_t ns)
{
    int64_t v[2];
    dz_linux_split(ns, v);
    return dz_linux_give(c, r, c->arg[1], v, sizeof v);
}

/* Clocks that equal another one here. */
static int same_clock(int clock)
{
    switch (clock) {
    case 4: /* MONOTONIC_RAW */
    case 6: /* MONOTONIC_COARSE */
        return 1;
    case 5:  /* REALTIME_COARSE */
    case 11: /* TAI, whose offset nobody has set */
        return 0;
    default:
        return clock;
    }
}
LINUX_CALL(clock_gettime)
{
    int64_t ns = 0;
    const int64_t r = dz_sys_clock_gettime(LINUX_K(c), same_clock(arg_int(c, 0)), &ns);
    if (r >= 0 && c->arg[1] == 0)
        return -EFAULT;
    return put_clock(c, r, ns);
}
LINUX_CALL(clock_getres)
{
    int64_t ns = 0;
    const int64_t r = dz_sys_clock_getres(LINUX_K(c), same_clock(arg_int(c, 0)), &ns);
    return put_clock(c, r, ns);
}
LINUX_CALL(gettimeofday)
{
    int64_t ns = 0, v[2];
    const int32_t zone[2] = {0, 0};
    int64_t r = dz_sys_clock_gettime(LINUX_K(c), 0, &ns);
    dz_linux_split(ns, v);
    v[1] /= 1000;
    r = dz_linux_give(c, r, c->arg[0], v, sizeof v);
    return dz_linux_give(c, r, c->arg[1], zone, sizeof zone);
}
LINUX_CALL(time)
{
    int64_t ns = 0, v[2];
    const int64_t r = dz_sys_clock_gettime(LINUX_K(c), 0, &ns);
    dz_linux_split(ns, v);
    return r < 0 ? r : dz_linux_give(c, v[0], c->arg[0], &v[0], sizeof v[0]);
}

/* ---- the machine ------------------------------------------------------------------------------
 */

static void name_set(char *to, const char *text)
{
    const size_t n = strlen(text);
    memcpy(to, text, n < _UTSNAME_LENGTH ? n : _UTSNAME_LENGTH - 1);
}

/* glibc and programs check that the release is not too old. */
LINUX_CALL(uname)
{
    struct utsname u = {0};
    name_set(u.sysname, "Linux");
    name_set(u.nodename, dz_kernel_hostname(c->kernel));
    const bool old = dz_sys_personality(LINUX_K(c), UINT32_MAX) & UNAME26;
    name_set(u.release, old ? "2.6.61-doze" : DZ_KERNEL_RELEASE);
    name_set(u.version, DZ_KERNEL_VERSION);
    name_set(u.machine, "x86_64");
    name_set(u.domainname, "(none)");
    return dz_linux_put(c, c->arg[0], &u, sizeof u);
}

LINUX_CALL(getrandom)
{
    uint8_t bytes[RANDOM_CHUNK];
    const uint64_t want = c->arg[1] < RANDOM_MAX ? c->arg[1] : RANDOM_MAX;
    const uint32_t flags = arg_u32(c, 2);
    if ((flags & ~7u) || (flags & 6) == 6) /* NONBLOCK, RANDOM, INSECURE */
        return -EINVAL;
    uint64_t done = 0;
    while (done < want) {
        const size_t n = want - done < sizeof bytes ? (size_t)(want - done) : sizeof bytes;
        const int64_t r = dz_sys_getrandom(LINUX_K(c), bytes, n);
        if (r < 0)
            return r;
        const size_t put = c->mem->write(c->mem->arg, c->arg[0] + done, bytes, n);
        done += put;
        if (put < n)
            break;
    }
    return done == 0 && want > 0 ? -EFAULT : (int64_t)done;
}

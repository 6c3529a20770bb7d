/* SPDX-License-Identifier: MIT
 *
 * kernel_ids.c - the identity and the limits of a process: ids, groups, sessions, nice values,
 * resource limits, usage.
 *
 * Set-user-id bits of files mean nothing here (every disk is "nosuid"), so only the process itself
 * sets its saved id.
 */
#include "kernel/kernel_int.h"

#include <linux/capability.h>
#include <sys/resource.h>

struct dz_vfs_who dz_k_who(const struct dz_proc *p)
{
    return (struct dz_vfs_who){
        .cred = {.uid = dz_k_fsuid(p),
                 .gid = dz_k_fsgid(p),
                 .group_count = p->group_count,
                 .groups = p->groups,
                 .plain = (p->flags & DZ_PROC_CAPS) && !dz_k_capable(p, CAP_DAC_OVERRIDE)},
        .root = p->root.ino,
        .umask = p->umask,
    };
}

bool dz_k_is_member(const struct dz_proc *p, uint32_t gid)
{
    for (uint32_t i = 0; i < p->group_count; i++)
        if (p->groups[i] == gid)
            return true;
    return p->egid == gid;
}

int64_t dz_sys_getpid(struct dz_kernel *k, struct dz_proc *p)
{
    (void)k;
    return p->pid;
}

int64_t dz_sys_getppid(struct dz_kernel *k, struct dz_proc *p)
{
    (void)k;
    return p->ppid;
}

/* ---- groups of processes, sessions ---------------------------------------------- */

int64_t dz_sys_getpgid(struct dz_kernel *k, struct dz_proc *p, int pid)
{
    const struct dz_proc *of = pid ? dz_k_find(k, pid) : p;
    return of ? of->pgid : -ESRCH;
}

int64_t dz_sys_getsid(struct dz_kernel *k, struct dz_proc *p, int pid)
{
    const struct dz_proc *of = pid ? dz_k_find(k, pid) : p;
    return of ? of->sid : -ESRCH;
}

int64_t dz_sys_setpgid(struct dz_kernel *k, struct dz_proc *p, int pid, int pgid)
{
    struct dz_proc *of = pid ? dz_k_find(k, pid) : p;
    if (pgid < 0 || (pgid == 0 && pid < 0))
        return -EINVAL;
    if (!of || (of != p && of->ppid != p->pid) || of->state == DZ_PROC_ZOMBIE)
        return -ESRCH;
    if (of != p && (of->flags & DZ_PROC_EXECED))
        return -EACCES;
    if (of->sid != p->sid || of->pid == of->sid)
        return -EPERM;
    if (pgid == 0)
        pgid = of->pid;
    if (pgid != of->pid && !dz_k_pgrp_in(k, pgid, p->sid))
        return -EPERM;
    of->pgid = pgid;
    return 0;
}

int64_t dz_sys_setsid(struct dz_kernel *k, struct dz_proc *p)
{
    DZ_K_FOREACH(dz_proc, q, k, DZ_KERNEL_TABLE_PROC)
    if (q->pgid == p->pid)
        return -EPERM;
    p->sid = p->pgid = p->pid;
    p->tty = 0;
    return p->pid;
}

/* ---- users ------------------------------------------------------------------------ */

void dz_sys_getresuid(struct dz_kernel *k, struct dz_proc *p, uint32_t ret_ids[3])
{
    (void)k;
    ret_ids[0] = p->uid;
    ret_ids[1] = p->euid;
    ret_ids[2] = p->suid;
}

void dz_sys_getresgid(struct dz_kernel *k, struct dz_proc *p, uint32_t ret_ids[3])
{
    (void)k;
    ret_ids[0] = p->gid;
    ret_ids[1] = p->egid;
    ret_ids[2] = p->sgid;
}

/* May a process that is not root set these ids? Each must be one that it has. */
static bool may_take(const uint32_t want[3], const uint32_t have[3])
{
    for (int i = 0; i < 3; i++)
        if (want[i] != UINT32_MAX && want[i] != have[0] && want[i] != have[1] && want[i] != have[2])
            return false;
    return true;
}

int64_t dz_sys_setresuid(struct dz_kernel *k, struct dz_proc *p, const uint32_t ids[3])
{
    uint32_t have[3];
    dz_sys_getresuid(k, p, have);
    if (!dz_k_capable(p, CAP_SETUID) && !may_take(ids, have))
        return -EPERM;
    p->uid = ids[0] != UINT32_MAX ? ids[0] : p->uid;
    p->euid = ids[1] != UINT32_MAX ? ids[1] : p->euid;
    p->suid = ids[2] != UINT32_MAX ? ids[2] : p->suid;
    dz_k_caps_ids(p, have);
    return 0;
}

int64_t dz_sys_setresgid(struct dz_kernel *k, struct dz_proc *p, const uint32_t ids[3])
{
    uint32_t have[3];
    dz_sys_getresgid(k, p, have);
    if (!dz_k_capable(p, CAP_SETGID) && !may_take(ids, have))
        return -EPERM;
    p->gid = ids[0] != UINT32_MAX ? ids[0] : p->gid;
    p->egid = ids[1] != UINT32_MAX ? ids[1] : p->egid;
    p->sgid = ids[2] != UINT32_MAX ? ids[2] : p->sgid;
    p->flags &= ~(uint32_t)DZ_PROC_FSGID;
    return 0;
}

int64_t dz_sys_setuid(struct dz_kernel *k, struct dz_proc *p, uint32_t uid)
{
    bool root = dz_k_capable(p, CAP_SETUID);
    if (uid == UINT32_MAX)
        return -EINVAL;
    return dz_sys_setresuid(k, p,
                            (uint32_t[3]){root ? uid : UINT32_MAX, uid, root ? uid : UINT32_MAX});
}

int64_t dz_sys_setgid(struct dz_kernel *k, struct dz_proc *p, uint32_t gid)
{
    bool root = dz_k_capable(p, CAP_SETGID);
    if (gid == UINT32_MAX)
        return -EINVAL;
    return dz_sys_setresgid(k, p,
                            (uint32_t[3]){root ? gid : UINT32_MAX, gid, root ? gid : UINT32_MAX});
}

int64_t dz_sys_getgroups(struct dz_kernel *k, struct dz_proc *p, size_t n, uint32_t *ret_groups)
{
    (void)k;
    if (n == 0)
        return p->group_count;
    if (n < p->group_count)
        return -EINVAL;
    memcpy(ret_groups, p->groups, p->group_count * sizeof *ret_groups);
    return p->group_count;
}

int64_t dz_sys_setgroups(struct dz_kernel *k, struct dz_proc *p, size_t n, const uint32_t *groups)
{
    (void)k;
    if (!dz_k_capable(p, CAP_SETGID))
        return -EPERM;
    if (n > DZ_KERNEL_GROUPS_MAX)
        return -EINVAL;
    if (n)
        memcpy(p->groups, groups, n * sizeof *groups);
    p->group_count = (uint32_t)n;
    return 0;
}

/* ---- nice ---------------------------------------------------------------------------- */

static bool prio_of(const struct dz_proc *p, const struct dz_proc *q, int which, int who)
{
    if (q->state == DZ_PROC_ZOMBIE || (q->flags & DZ_PROC_INIT))
        return false;
    switch (which) {
    case PRIO_PROCESS:
        return q->pid == (who ? who : p->pid);
    case PRIO_PGRP:
        return q->pgid == (who ? who : p->pgid);
    default:
        return q->uid == (who ? (uint32_t)who : p->uid);
    }
}

int64_t dz_sys_getpriority(struct dz_kernel *k, struct dz_proc *p, int which, int who)
{
    int best = 20;
    if (which < PRIO_PROCESS || which > PRIO_USER)
        return -EINVAL;
    DZ_K_FOREACH(dz_proc, q, k, DZ_KERNEL_TABLE_PROC)
    if (prio_of(p, q, which, who) && q->nice < best)
        best = q->nice;
    return best == 20 ? -ESRCH : 20 - best;
}

int64_t dz_sys_setpriority(struct dz_kernel *k, struct dz_proc *p, int which, int who, int nice)
{
    if (which < PRIO_PROCESS || which > PRIO_USER)
        return -EINVAL;
    nice = nice < -20 ? -20 : nice > 19 ? 19 : nice;
    int64_t r = -ESRCH;
    DZ_K_FOREACH(dz_proc, q, k, DZ_KERNEL_TABLE_PROC)
    {
        if (!prio_of(p, q, which, who))
            continue;
        const bool may = dz_k_capable(p, CAP_SYS_NICE);
        if (!may && p->euid != q->uid && p->euid != q->euid)
            return -EPERM;
        if (nice < q->nice && !may)
            return -EACCES;
        q->nice = nice;
        r = 0;
    }
    return r;
}

/* ---- priority of input and output -------------------------------------------------------- */

enum {
    IOPRIO_SHIFT = 13, /* class << 13 | data */
    IOPRIO_RT = 1,
    IOPRIO_IDLE = 3,
    IOPRIO_LEVELS = 8,
};

/* IOPRIO_WHO_* are PRIO_* plus 1. */
int64_t dz_sys_ioprio_get(struct dz_kernel *k, struct dz_proc *p, int which, int who)
{
    int64_t best = -ESRCH;
    if (which < 1 || which > 3)
        return -EINVAL;
    DZ_K_FOREACH(dz_proc, q, k, DZ_KERNEL_TABLE_PROC)
    {
        const uint32_t own = q->ioprio; /* 0 is none, and the lowest class */
        if (prio_of(p, q, which - 1, who) && (best <= 0 || (own && own < best)))
            best = own;
    }
    return best;
}

int64_t dz_sys_ioprio_set(struct dz_kernel *k, struct dz_proc *p, int which, int who, int prio)
{
    const int class = prio >> IOPRIO_SHIFT, data = prio & ((1 << IOPRIO_SHIFT) - 1);
    int64_t r = -ESRCH;
    if (which < 1 || which > 3 || class < 0 || class > IOPRIO_IDLE)
        return -EINVAL;
    if (class == 0 ? data != 0 : class != IOPRIO_IDLE && data >= IOPRIO_LEVELS)
        return -EINVAL;
    if (class == IOPRIO_RT && !dz_k_capable(p, CAP_SYS_NICE) && !dz_k_capable(p, CAP_SYS_ADMIN))
        return -EPERM;
    DZ_K_FOREACH(dz_proc, q, k, DZ_KERNEL_TABLE_PROC)
    {
        if (!prio_of(p, q, which - 1, who))
            continue;
        if (q->uid != p->euid && q->uid != p->uid && !dz_k_capable(p, CAP_SYS_NICE))
            return -EPERM;
        q->ioprio = (uint32_t)prio;
        r = 0;
    }
    return r;
}

/* ---- policies ---------------------------------------------------------------------------- */

int64_t dz_sys_sched_get(struct dz_kernel *k, struct dz_proc *p, int tid, struct dz_sched *ret_is)
{
    const struct dz_thread *t = tid == 0 ? dz_k_me(k, p) : dz_k_thread_find(k, tid);
    if (tid < 0)
        return -EINVAL;
    if (!t && !dz_k_find(k, tid))
        return -ESRCH;
    *ret_is = t ? (struct dz_sched){t->policy, t->cpus} : (struct dz_sched){0};
    return 0;
}

int64_t dz_sys_sched_set(struct dz_kernel *k, struct dz_proc *p, int tid, const struct dz_sched *to)
{
    struct dz_thread *t = tid == 0 ? dz_k_me(k, p) : dz_k_thread_find(k, tid);
    const struct dz_proc *of = t ? dz_k_proc_of(k, t) : dz_k_find(k, tid);
    if (tid < 0)
        return -EINVAL;
    if (!of)
        return -ESRCH;
    if (p->euid != of->uid && p->euid != of->euid && !dz_k_capable(p, CAP_SYS_NICE))
        return -EPERM;
    if (t) {
        t->policy = to->policy;
        t->cpus = to->cpus;
    }
    return 0;
}

/* ---- limits and usage ------------------------------------------------------------------- */

int64_t dz_sys_prlimit(struct dz_kernel *k, struct dz_proc *p, int resource, const uint64_t *set,
                       uint64_t *ret_old)
{
    (void)k;
    if (resource < 0 || resource >= DZ_KERNEL_RLIMITS)
        return -EINVAL;
    uint64_t *own = p->rlimit[resource];
    uint64_t old[2] = {own[0], own[1]};
    if (set) {
        if (set[0] > set[1])
            return -EINVAL;
        if (set[1] > own[1] && !dz_k_capable(p, CAP_SYS_RESOURCE))
            return -EPERM;
        if (resource == RLIMIT_NOFILE && set[1] > DZ_KERNEL_FDS_MAX)
            return -EPERM;
        own[0] = set[0];
        own[1] = set[1];
    }
    if (ret_old) {
        ret_old[0] = old[0];
        ret_old[1] = old[1];
    }
    return 0;
}

int64_t dz_sys_getrusage(struct dz_kernel *k, struct dz_proc *p, int who,
                         struct dz_kusage *ret_usage)
{
    (void)k;
    if (who != RUSAGE_SELF && who != RUSAGE_CHILDREN && who != RUSAGE_THREAD)
        return -EINVAL;
    bool self = who != RUSAGE_CHILDREN;
    *ret_usage = (struct dz_kusage){
        .utime_us = (self ? p->utime_ns : p->child_utime_ns) / 1000,
        .stime_us = (self ? p->stime_ns : p->child_stime_ns) / 1000,
        .maxrss_bytes = self ? p->maxrss : 0,
        .minflt = self ? p->minflt : 0,
    };
    return 0;
}

int64_t dz_sys_sched_yield(struct dz_kernel *k, struct dz_proc *p)
{
    (void)p;
    atomic_store(&k->resched, 1);
    return 0;
}

int64_t dz_sys_sysinfo(struct dz_kernel *k, struct dz_proc *p, struct dz_ksysinfo *ret_info)
{
    (void)p;
    *ret_info = (struct dz_ksysinfo){
        .uptime_s = (uint64_t)(dz_kernel_now(k) / 1000000000),
        .load = {k->load[0], k->load[1], k->load[2]},
        .total = k->limits.memory_bytes,
        .free = k->limits.memory_bytes - k->memory_used,
        .procs = k->tab[DZ_KERNEL_TABLE_PROC].used,
    };
    return 0;
}

static struct dz_strings strings(struct dz_kernel *k, uint32_t blob, uint32_t count)
{
    size_t size = 0;
    const char *bytes = dz_k_blob(k, blob, &size);
    return (struct dz_strings){bytes ? bytes : "", bytes ? size : 0, bytes ? count : 0};
}

struct dz_strings dz_sys_argv(struct dz_kernel *k, struct dz_proc *p)
{
    return strings(k, p->argv, p->argc);
}

struct dz_strings dz_sys_environ(struct dz_kernel *k, struct dz_proc *p)
{
    return strings(k, p->envv, p->envc);
}

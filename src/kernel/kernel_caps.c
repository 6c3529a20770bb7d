/* SPDX-License-Identifier: MIT
 *
 * kernel_caps.c - capabilities(7), the ids of file access, and the settings of a process that
 * prctl(2) stores.
 *
 * Most processes never change a capability. Their sets follow from the ids: a process that has an
 * id 0 is permitted everything, and one whose effective user is 0 has everything. Rows hold sets
 * only once they were changed (DZ_PROC_CAPS); from then on the changes of ids and exec treat them
 * as Linux does. No file of the disk has capabilities.
 *
 * On the disk there is one privilege, that of uid 0 (dz_vfs_cred): a process with fsuid 0 has it as
 * long as CAP_DAC_OVERRIDE is effective, and no other process has it.
 *
 * Invariants: effective and ambient are within permitted, ambient is within inheritable, and no set
 * has a capability above DZ_CAPABILITY_LAST (assert_caps, and dz_k_caps_ok for a thaw).
 */
#include "kernel/kernel_int.h"

#include <linux/capability.h>
#include <linux/securebits.h>
#include <signal.h>
#include <sys/prctl.h>

#define ALL       ((UINT64_C(2) << DZ_CAPABILITY_LAST) - 1)
#define BIT(cap)  (UINT64_C(1) << (cap))
#define SECUREBIT (SECURE_ALL_BITS | SECURE_ALL_LOCKS)

enum {
    TIMERSLACK_NS = 50000, /* of a thread that never set one */
};

static bool has_root(const uint32_t ids[3])
{
    return ids[0] == 0 || ids[1] == 0 || ids[2] == 0;
}

struct dz_capsets dz_k_caps(const struct dz_proc *p)
{
    if (p->flags & DZ_PROC_CAPS)
        return p->caps;
    const uint32_t ids[3] = {p->uid, p->euid, p->suid};
    return (struct dz_capsets){.permitted = has_root(ids) ? ALL : 0,
                               .effective = p->euid ? 0 : ALL};
}

static bool within(uint64_t a, uint64_t b)
{
    return (a & ~b) == 0;
}

bool dz_k_caps_ok(const struct dz_proc *p)
{
    const struct dz_capsets s = dz_k_caps(p);
    return within(s.permitted | s.inheritable | s.unbounded, ALL) &&
           within(s.effective | s.ambient, s.permitted) && within(s.ambient, s.inheritable);
}

static void sets_put(struct dz_proc *p, const struct dz_capsets *s)
{
    p->caps = *s;
    p->flags |= DZ_PROC_CAPS;
    assert(dz_k_caps_ok(p));
}

/* Store the sets; from now on they do not follow from the ids alone. */
static void sets_keep(struct dz_proc *p)
{
    const struct dz_capsets s = dz_k_caps(p);
    sets_put(p, &s);
}

bool dz_k_capable(const struct dz_proc *p, int cap)
{
    return p->flags & DZ_PROC_CAPS ? (p->caps.effective & BIT(cap)) != 0 : p->euid == 0;
}

/* ---- other changes ------------------------------------------------------------------------ */

void dz_k_caps_ids(struct dz_proc *p, const uint32_t was[3])
{
    const uint32_t ids[3] = {p->uid, p->euid, p->suid};
    p->flags &= ~(uint32_t)DZ_PROC_FSUID;
    if (!(p->flags & DZ_PROC_CAPS) || (p->securebits & SECBIT_NO_SETUID_FIXUP))
        return;
    struct dz_capsets s = p->caps;
    if (has_root(was) && !has_root(ids)) {
        if (!(p->securebits & SECBIT_KEEP_CAPS))
            s.permitted = s.effective = 0;
        s.ambient = 0;
    }
    if (was[1] == 0 && p->euid != 0)
        s.effective = 0;
    else if (was[1] != 0 && p->euid == 0)
        s.effective = s.permitted;
    sets_put(p, &s);
}

void dz_k_caps_exec(struct dz_proc *p)
{
    const bool root = (p->uid == 0 || p->euid == 0) && !(p->securebits & SECBIT_NOROOT);
    p->flags &= ~(uint32_t)(DZ_PROC_FSUID | DZ_PROC_FSGID | DZ_PROC_SECRET);
    p->securebits &= ~(uint32_t)SECBIT_KEEP_CAPS;
    if (!(p->flags & DZ_PROC_CAPS))
        return;
    struct dz_capsets s = p->caps;
    if (root) {
        s.permitted = s.inheritable | (ALL & ~s.unbounded);
        s.effective = p->euid == 0 ? s.permitted : s.ambient;
    } else {
        s.permitted = s.effective = s.ambient;
    }
    s.ambient &= s.permitted & s.inheritable;
    sets_put(p, &s);
}

/* ---- capget, capset -------------------------------------------------------------------------- */

int64_t dz_sys_capget(struct dz_kernel *k, struct dz_proc *p, int pid, struct dz_capsets *ret_sets)
{
    const struct dz_thread *t = pid > 0 ? dz_k_thread_find(k, pid) : NULL;
    const struct dz_proc *of = pid == 0 ? p : t ? dz_k_proc_of(k, t) : dz_k_find(k, pid);
    if (pid < 0)
        return -EINVAL;
    if (!of)
        return -ESRCH;
    *ret_sets = dz_k_caps(of);
    return 0;
}

int64_t dz_sys_capset(struct dz_kernel *k, struct dz_proc *p, int pid,
                      const struct dz_capsets *sets)
{
    struct dz_capsets s = dz_k_caps(p);
    if (pid != 0 && pid != dz_k_me(k, p)->tid)
        return -EPERM;
    const uint64_t inheritable = sets->inheritable & ALL, permitted = sets->permitted & ALL;
    const uint64_t effective = sets->effective & ALL, bound = ALL & ~s.unbounded;
    if (!dz_k_capable(p, CAP_SETPCAP) && !within(inheritable, s.inheritable | s.permitted))
        return -EPERM;
    if (!within(inheritable, s.inheritable | bound) || !within(permitted, s.permitted) ||
        !within(effective, permitted))
        return -EPERM;
    s.inheritable = inheritable;
    s.permitted = permitted;
    s.effective = effective;
    s.ambient &= permitted & inheritable;
    sets_put(p, &s);
    return 0;
}

/* ---- ids of file access ------------------------------------------------------------------------
 */

uint32_t dz_k_fsuid(const struct dz_proc *p)
{
    return p->flags & DZ_PROC_FSUID ? p->fsuid : p->euid;
}
uint32_t dz_k_fsgid(const struct dz_proc *p)
{
    return p->flags & DZ_PROC_FSGID ? p->fsgid : p->egid;
}

int64_t dz_sys_setfsuid(struct dz_kernel *k, struct dz_proc *p, uint32_t uid)
{
    const uint32_t was = dz_k_fsuid(p);
    (void)k;
    if (uid != UINT32_MAX && (uid == p->uid || uid == p->euid || uid == p->suid || uid == was ||
                              dz_k_capable(p, CAP_SETUID))) {
        p->fsuid = uid;
        p->flags |= DZ_PROC_FSUID;
    }
    return was;
}

int64_t dz_sys_setfsgid(struct dz_kernel *k, struct dz_proc *p, uint32_t gid)
{
    const uint32_t was = dz_k_fsgid(p);
    (void)k;
    if (gid != UINT32_MAX && (gid == p->gid || gid == p->egid || gid == p->sgid || gid == was ||
                              dz_k_capable(p, CAP_SETGID))) {
        p->fsgid = gid;
        p->flags |= DZ_PROC_FSGID;
    }
    return was;
}

int64_t dz_sys_personality(struct dz_kernel *k, struct dz_proc *p, uint32_t persona)
{
    const uint32_t was = p->persona;
    (void)k;
    if (persona != UINT32_MAX)
        p->persona = persona;
    return was;
}

/* ---- prctl -------------------------------------------------------------------------------------
 */

static int64_t bound_drop(struct dz_proc *p, uint64_t cap)
{
    struct dz_capsets s = dz_k_caps(p);
    if (!dz_k_capable(p, CAP_SETPCAP))
        return -EPERM;
    if (cap > DZ_CAPABILITY_LAST)
        return -EINVAL;
    s.unbounded |= BIT(cap);
    sets_put(p, &s);
    return 0;
}

static int64_t ambient(struct dz_proc *p, uint64_t what, uint64_t cap)
{
    struct dz_capsets s = dz_k_caps(p);
    if (what == PR_CAP_AMBIENT_CLEAR_ALL) {
        s.ambient = 0;
        cap = 0;
    } else if (cap > DZ_CAPABILITY_LAST) {
        return -EINVAL;
    } else if (what == PR_CAP_AMBIENT_IS_SET) {
        return (s.ambient & BIT(cap)) != 0;
    } else if (what == PR_CAP_AMBIENT_LOWER) {
        s.ambient &= ~BIT(cap);
    } else if (what != PR_CAP_AMBIENT_RAISE) {
        return -EINVAL;
    } else if (!(s.permitted & s.inheritable & BIT(cap)) ||
               (p->securebits & SECBIT_NO_CAP_AMBIENT_RAISE)) {
        return -EPERM;
    } else {
        s.ambient |= BIT(cap);
    }
    sets_put(p, &s);
    return 0;
}

static int64_t securebits(struct dz_proc *p, uint64_t bits)
{
    const uint32_t locked = (p->securebits & SECURE_ALL_LOCKS) >> 1;
    if ((bits & ~(uint64_t)SECUREBIT) || (((uint32_t)bits ^ p->securebits) & locked) ||
        (p->securebits & SECURE_ALL_LOCKS & ~(uint32_t)bits) || !dz_k_capable(p, CAP_SETPCAP))
        return -EPERM;
    p->securebits = (uint32_t)bits;
    sets_keep(p);
    return 0;
}

static int64_t keep_caps(struct dz_proc *p, uint64_t keep)
{
    if (keep > 1)
        return -EINVAL;
    if (p->securebits & SECBIT_KEEP_CAPS_LOCKED)
        return -EPERM;
    p->securebits = (p->securebits & ~(uint32_t)SECBIT_KEEP_CAPS) | (keep ? SECBIT_KEEP_CAPS : 0);
    sets_keep(p);
    return 0;
}

static uint64_t slack_of(const struct dz_thread *t)
{
    const uint64_t first = t->timer_slack_first ? t->timer_slack_first : TIMERSLACK_NS;
    return t->timer_slack ? t->timer_slack : first;
}

void dz_k_slack_fork(struct dz_thread *child)
{
    child->timer_slack_first = slack_of(child);
}

static int64_t set_flag(struct dz_proc *p, uint32_t flag, bool on)
{
    p->flags = on ? p->flags | flag : p->flags & ~flag;
    return 0;
}

int64_t dz_sys_prctl(struct dz_kernel *k, struct dz_proc *p, int op, const uint64_t arg[3])
{
    struct dz_thread *me = dz_k_me(k, p);
    switch (op) {
    case PR_SET_PDEATHSIG:
        if (arg[0] > DZ_KERNEL_SIGNALS)
            return -EINVAL;
        p->death_sig = (uint32_t)arg[0];
        return 0;
    case PR_GET_PDEATHSIG:
        return p->death_sig;
    case PR_SET_CHILD_SUBREAPER:
        return set_flag(p, DZ_PROC_SUBREAPER, arg[0] != 0);
    case PR_GET_CHILD_SUBREAPER:
        return (p->flags & DZ_PROC_SUBREAPER) != 0;
    case PR_SET_DUMPABLE: /* no process can dump or trace another: the value is only stored */
        return arg[0] > 1 ? -EINVAL : set_flag(p, DZ_PROC_SECRET, arg[0] == 0);
    case PR_GET_DUMPABLE:
        return !(p->flags & DZ_PROC_SECRET);
    case PR_SET_TIMERSLACK: /* its timers have no slack: they expire when they are due */
        me->timer_slack = (int64_t)arg[0] > 0 ? arg[0] : 0;
        return 0;
    case PR_GET_TIMERSLACK:
        return (int64_t)(slack_of(me) & INT64_MAX);
    case PR_SET_KEEPCAPS:
        return keep_caps(p, arg[0]);
    case PR_GET_KEEPCAPS:
        return (p->securebits & SECBIT_KEEP_CAPS) != 0;
    case PR_SET_SECUREBITS:
        return securebits(p, arg[0]);
    case PR_GET_SECUREBITS:
        return p->securebits;
    case PR_CAPBSET_READ:
        return arg[0] > DZ_CAPABILITY_LAST ? -EINVAL : !(dz_k_caps(p).unbounded & BIT(arg[0]));
    case PR_CAPBSET_DROP:
        return bound_drop(p, arg[0]);
    case PR_CAP_AMBIENT:
        return ambient(p, arg[0], arg[1]);
    default:
        return -EINVAL;
    }
}

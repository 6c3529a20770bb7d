/* SPDX-License-Identifier: MIT
 *
 * kernel_lease.c - leases on files: fcntl(2) with F_SETLEASE and F_GETLEASE, and who gets the
 * signal.
 *
 * A lease is a field of its description. An open or truncation that conflicts with leases asks
 * their holders by a signal to give them up, and waits until they did, or until BREAK_NS have
 * passed; then the leases are taken away. Whoever looks at the leases of a file takes away those
 * whose time is over, so nobody needs to wait for the time.
 *
 * dz_file.lease_to is what a lease that is being broken becomes: LEASE_READ or LEASE_GONE.
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/stat.h>

#define BREAK_NS (45 * INT64_C(1000000000)) /* /proc/sys/fs/lease-break-time */

enum {
    LEASE_NONE = 0,
    LEASE_READ = 1,
    LEASE_WRITE = 2,
    LEASE_GONE = 3,
};

static bool is_of(const struct dz_file *f, uint64_t ino)
{
    return f->kind == DZ_FILE_DISK && f->node.ino == ino && !(f->flags & O_PATH);
}

static bool writes(const struct dz_file *f)
{
    return (f->flags & O_ACCMODE) != O_RDONLY;
}

static void set(struct dz_kernel *k, struct dz_file *f, uint32_t lease)
{
    k->leases += (lease != LEASE_NONE);
    k->leases -= (f->lease != LEASE_NONE);
    f->lease = lease;
    f->lease_to = LEASE_NONE;
    f->lease_until = 0;
    dz_k_wake(k, &k->wait_lock);
}

void dz_k_lease_drop(struct dz_kernel *k, struct dz_file *f)
{
    if (f->lease)
        set(k, f, LEASE_NONE);
}

static void expire(struct dz_kernel *k, uint64_t ino)
{
    const int64_t now = dz_kernel_now(k);
    DZ_K_FOREACH(dz_file, f, k, DZ_KERNEL_TABLE_FILE)
    if (f->lease_to && is_of(f, ino) && now >= f->lease_until)
        set(k, f, f->lease_to == LEASE_READ ? LEASE_READ : LEASE_NONE);
}

/* ---- who gets the signal ------------------------------------------------------------------------
 */

/* Codes from 1 on mean something else with these signals. */
static bool has_codes(int signo)
{
    return signo == SIGILL || signo == SIGFPE || signo == SIGSEGV || signo == SIGBUS ||
           signo == SIGTRAP || signo == SIGCHLD || signo == SIGSYS;
}

static void signal_one(struct dz_kernel *k, struct dz_proc *p, struct dz_thread *to,
                       const struct dz_file *f)
{
    struct dz_siginfo info = {.signo = SIGIO, .code = SI_KERNEL};
    if (f->sig) {
        info.signo = (int)f->sig;
        info.code = has_codes(info.signo) ? SI_SIGIO : POLL_MSG;
        info.addr = POLLIN | POLLRDNORM | POLLMSG; /* si_band, */
        info.status = f->lease_fd;                 /* si_fd */
    }
    (void)dz_k_send_info(k, p, to, &info);
}

static void signal_owner(struct dz_kernel *k, const struct dz_file *f)
{
    struct dz_thread *t = f->owner_kind == F_OWNER_TID ? dz_k_thread_find(k, f->owner) : NULL;
    if (t)
        signal_one(k, dz_k_proc_of(k, t), t, f);
    if (f->owner_kind == F_OWNER_TID || f->owner == 0)
        return;
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    if (f->owner_kind == F_OWNER_PGRP ? p->pgid == f->owner : p->pid == f->owner)
        signal_one(k, p, NULL, f);
}

int64_t dz_k_owner_set(struct dz_kernel *k, struct dz_file *f, uint32_t kind, int32_t id)
{
    bool found = id == 0;
    if (kind > F_OWNER_PGRP || id < 0)
        return -EINVAL;
    if (kind == F_OWNER_TID)
        found = found || dz_k_thread_find(k, id);
    else
        DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    found = found || (kind == F_OWNER_PGRP ? p->pgid == id : p->pid == id);
    if (!found)
        return -ESRCH;
    f->owner_kind = kind;
    f->owner = id;
    return 0;
}

int64_t dz_sys_owner(struct dz_kernel *k, struct dz_proc *p, int fd, const struct dz_owner *to,
                     struct dz_owner *ret_owner)
{
    struct dz_file *f = dz_k_fd_file(k, p, fd);
    if (!f || (f->flags & O_PATH))
        return -EBADF;
    if (to)
        return dz_k_owner_set(k, f, (uint32_t)to->kind, to->id);
    *ret_owner = (struct dz_owner){(int32_t)f->owner_kind, f->owner};
    return 0;
}

/* ---- breaking ----------------------------------------------------------------------------------
 */

/* Ask the holders of leases that conflict with an access to give them up: how long to wait at most,
 * in kernel time; 0: no lease is in the way. */
static int64_t break_leases(struct dz_kernel *k, uint64_t ino, bool to_write)
{
    int64_t until = 0;
    DZ_K_FOREACH(dz_file, f, k, DZ_KERNEL_TABLE_FILE)
    {
        if (!f->lease || !is_of(f, ino) || (f->lease == LEASE_READ && !to_write))
            continue;
        const bool asked = f->lease_to == LEASE_GONE || (f->lease_to && !to_write);
        if (!asked) {
            if (!f->lease_to)
                f->lease_until = dz_k_add_ns(dz_kernel_now(k), BREAK_NS);
            f->lease_to = to_write ? LEASE_GONE : LEASE_READ;
            signal_owner(k, f);
        }
        until = f->lease_until > until ? f->lease_until : until;
    }
    return until;
}

int64_t dz_k_lease_break(struct dz_kernel *k, struct dz_proc *p, uint64_t ino, int flags)
{
    if (k->leases == 0)
        return 0;
    expire(k, ino);
    struct dz_call *c = dz_k_my_call(k, p);
    const int64_t until = break_leases(k, ino, (flags & O_ACCMODE) != O_RDONLY);
    if (until == 0)
        return 0;
    if (flags & O_NONBLOCK)
        return -EWOULDBLOCK;
    if (c->intr)
        return -EINTR;
    c = dz_k_call(k, p);
    c->flags = DZ_CALL_BEGUN | DZ_CALL_LEASE;
    c->deadline = until;
    return dz_k_wait_end(k, p, &k->wait_lock);
}

int64_t dz_k_lease_end(struct dz_kernel *k, struct dz_proc *p, int64_t r)
{
    const struct dz_call *c = dz_k_my_call(k, p);
    return c->parked && (c->flags & DZ_CALL_LEASE) && r != DZ_KBLOCK ? dz_k_end(k, p, r) : r;
}

/* ---- setting ------------------------------------------------------------------------------------
 */

/* Does another description, or one that is open in another way, exclude this lease? */
static bool excluded(const struct dz_kernel *k, const struct dz_file *f, uint32_t lease)
{
    DZ_K_FOREACH(dz_file, g, k, DZ_KERNEL_TABLE_FILE)
    {
        if (!is_of(g, f->node.ino))
            continue;
        if (lease == LEASE_READ ? writes(g) : g != f)
            return true;
        if (g != f && g->lease && (g->lease == LEASE_WRITE || g->lease_to == LEASE_GONE))
            return true;
    }
    return false;
}

int64_t dz_k_lease_fcntl(struct dz_kernel *k, struct dz_proc *p, int fd, int64_t arg)
{
    struct dz_file *f = dz_k_fd_file(k, p, fd);
    struct dz_vfs_attr a;
    if (arg != F_RDLCK && arg != F_WRLCK && arg != F_UNLCK)
        return -EINVAL;
    if (f->kind != DZ_FILE_DISK || dz_vfs_getattr(k->vfs, f->node.ino, &a) != 0)
        return -EINVAL;
    if (dz_k_fsuid(p) != a.uid && !dz_k_capable(p, CAP_LEASE))
        return -EACCES;
    if (!S_ISREG(a.mode))
        return -EINVAL;
    expire(k, f->node.ino);
    if (arg == F_UNLCK) {
        if (!f->lease)
            return -EAGAIN;
        set(k, f, LEASE_NONE);
        return 0;
    }
    const uint32_t lease = arg == F_RDLCK ? LEASE_READ : LEASE_WRITE;
    if (excluded(k, f, lease) || (f->lease_to && lease != f->lease_to))
        return -EAGAIN;
    set(k, f, lease);
    f->lease_fd = fd;
    if (f->owner == 0)
        (void)dz_k_owner_set(k, f, F_OWNER_PID, p->pid);
    return 0;
}

int64_t dz_k_lease_get(struct dz_kernel *k, const struct dz_file *f)
{
    if (f->lease)
        expire(k, f->node.ino);
    const uint32_t lease = f->lease_to ? f->lease_to : f->lease;
    return lease == LEASE_READ ? F_RDLCK : lease == LEASE_WRITE ? F_WRLCK : F_UNLCK;
}

bool dz_k_lease_ok(const struct dz_file *f)
{
    const bool lease = f->lease <= LEASE_WRITE &&
                       (f->lease_to == LEASE_NONE || f->lease_to == LEASE_GONE ||
                        (f->lease_to == LEASE_READ && f->lease == LEASE_WRITE)) &&
                       (f->lease || !f->lease_to) && f->lease_until >= 0;
    return lease && (!f->lease || f->kind == DZ_FILE_DISK) && f->sig <= DZ_KERNEL_SIGNALS &&
           f->owner_kind <= F_OWNER_PGRP && f->owner >= 0;
}

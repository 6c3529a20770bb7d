/* SPDX-License-Identifier: MIT
 *
 * kernel_pidfd.c - descriptors that stand for a process: pidfd_open, CLONE_PIDFD.
 *
 * The description holds the process's number and, because numbers are reused, its lock owner
 * number, which is not (dz_file.pos). When the process has been reaped, the descriptor refers to no
 * process.
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/stat.h>

void dz_k_pidfd_set(struct dz_file *f, const struct dz_proc *of)
{
    f->obj = (uint32_t)of->pid;
    f->pos = of->lock_owner;
}

static struct dz_proc *process(const struct dz_kernel *k, const struct dz_file *f)
{
    struct dz_proc *p = dz_k_find(k, (int32_t)f->obj);
    return p && p->lock_owner == f->pos ? p : NULL;
}

static short pidfd_ready(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f)
{
    (void)p;
    const struct dz_proc *of = process(k, f);
    return !of || of->state == DZ_PROC_ZOMBIE ? POLLIN | POLLRDNORM : 0;
}

static int pidfd_wait(struct dz_kernel *k, const struct dz_k_sleeper *s, struct dz_file *f,
                      short events)
{
    (void)f, (void)events;
    return dz_k_sleep(k, s, &k->wait_end);
}

static void pidfd_stat(struct dz_kernel *k, const struct dz_file *f, struct dz_kstat *st)
{
    (void)k;
    dz_k_stat_anon(st, S_IFREG | 0700, f->pos);
}

const struct dz_k_file_ops dz_k_pidfd_ops = {
    .ready = pidfd_ready,
    .wait = pidfd_wait,
    .stat = pidfd_stat,
};

static struct dz_file *pidfd(const struct dz_kernel *k, const struct dz_proc *p, int fd)
{
    struct dz_file *f = dz_k_fd_file(k, p, fd);
    return f && f->kind == DZ_FILE_PIDFD && !(f->flags & O_PATH) ? f : NULL;
}

int dz_k_pidfd_of(const struct dz_kernel *k, const struct dz_proc *p, int fd, int *ret_pid,
                  bool *ret_nonblock)
{
    const struct dz_file *f = pidfd(k, p, fd);
    if (!f)
        return -EBADF;
    *ret_pid = process(k, f) ? (int)f->obj
                             /* A reaped process is no child of the caller. */
                             : INT32_MAX;
    *ret_nonblock = (f->flags & O_NONBLOCK) != 0;
    return 0;
}

int64_t dz_sys_pidfd_open(struct dz_kernel *k, struct dz_proc *p, int pid, int flags)
{
    if (pid <= 0 || (flags & ~O_NONBLOCK))
        return -EINVAL;
    const struct dz_proc *of = dz_k_find(k, pid);
    if (!of || (of != p && !(k->caps & DZ_CAP_PROCESS)))
        return -ESRCH;
    struct dz_file *f = dz_k_file_new(k, DZ_FILE_PIDFD, O_RDWR | ((uint32_t)flags & O_NONBLOCK));
    if (!f)
        return -ENFILE;
    dz_k_pidfd_set(f, of);
    return dz_k_install(k, p, f, O_CLOEXEC);
}

int64_t dz_sys_pidfd_getfd(struct dz_kernel *k, struct dz_proc *p, int fd, int of)
{
    const struct dz_file *f = pidfd(k, p, fd);
    if (!f)
        return -EBADF;
    const struct dz_proc *from = process(k, f);
    if (!from || from->state == DZ_PROC_ZOMBIE)
        return -ESRCH;
    const bool own = p->uid == from->uid && p->uid == from->euid && p->uid == from->suid &&
                     p->gid == from->gid && p->gid == from->egid && p->gid == from->sgid;
    if (from != p && ((!own || (from->flags & DZ_PROC_SECRET)) && !dz_k_capable(p, CAP_SYS_PTRACE)))
        return -EPERM;
    struct dz_file *g = dz_k_fd_file(k, from, of);
    if (!g)
        return -EBADF;
    const int to = dz_k_fd_free(k, p, 0);
    const int e = to < 0 ? to : dz_k_fd_put(k, p, to, g, DZ_FD_CLOEXEC);
    return e ? e : to;
}

/* A descriptor of the process's directory in /proc is accepted, too. */
int64_t dz_sys_pidfd_send_signal(struct dz_kernel *k, struct dz_proc *p, int fd,
                                 const struct dz_siginfo *info, int signo)
{
    const struct dz_file *f = pidfd(k, p, fd), *dir = dz_k_fd_file(k, p, fd);
    const struct dz_proc *to = f ? process(k, f) : dir ? dz_k_proc_dir(k, dir) : NULL;
    if (!f && !to)
        return -EBADF;
    if (info && info->signo != signo)
        return -EINVAL;
    if (!to)
        return -ESRCH;
    return info ? dz_sys_sigqueue(k, p, to->pid, 0, info) : dz_sys_kill(k, p, to->pid, signo);
}

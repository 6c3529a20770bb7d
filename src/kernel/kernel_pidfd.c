/* SPDX-License-Identifier: MIT
 *
 * kernel_pidfd.c - descriptors that stand for a process: pidfd_open, CLONE_PIDFD; and what two
 * processes share: kcmp.
 *
 * The description holds the process's number and, because numbers are reused, its lock owner
 * number, which is not (dz_file.pos). When the process has been reaped, the descriptor refers to no
 * process.
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/kcmp.h>
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

/* May p look at the resources of another process, as a debugger may? */
static bool may_debug(const struct dz_proc *p, const struct dz_proc *of)
{
    const bool own = p->uid == of->uid && p->uid == of->euid && p->uid == of->suid &&
                     p->gid == of->gid && p->gid == of->egid && p->gid == of->sgid;
    return of == p || (own && !(of->flags & DZ_PROC_SECRET)) || dz_k_capable(p, CAP_SYS_PTRACE);
}

int64_t dz_sys_pidfd_getfd(struct dz_kernel *k, struct dz_proc *p, int fd, int of)
{
    const struct dz_file *f = pidfd(k, p, fd);
    if (!f)
        return -EBADF;
    const struct dz_proc *from = process(k, f);
    if (!from || from->state == DZ_PROC_ZOMBIE)
        return -ESRCH;
    if (!may_debug(p, from))
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

/* ---- kcmp ------------------------------------------------------------------------------------ */

static int64_t order(uint64_t a, uint64_t b)
{
    return a == b ? 0 : a < b ? 1 : 2;
}

/* What identifies the address space of a process; 0: it has none any more. */
static uint64_t space_of(const struct dz_kernel *k, const struct dz_proc *p)
{
    struct dz_task *task = p->threads ? k->task[p->threads] : NULL;
    uint64_t key[2] = {0, 0};
    if (task && task->runner->key)
        (void)task->runner->key(task->runner_arg, task, 4096, false, key);
    return key[0];
}

/* The description that the nth item of this descriptor in an epoll watches. */
static const struct dz_file *item_of(const struct dz_kernel *k, const struct dz_file *epoll,
                                     const struct dz_kcmp *c)
{
    uint32_t n = 0;
    for (const struct dz_epitem *i = dz_k_epitem(k, epoll->items); i;
         i = dz_k_epitem(k, i->next_item))
        if ((uint32_t)i->fd == c->watched && n++ == c->nth)
            return dz_k_file(k, i->file);
    return NULL;
}

int64_t dz_sys_kcmp(struct dz_kernel *k, struct dz_proc *p, const struct dz_kcmp *c)
{
    const struct dz_thread *t[2];
    const struct dz_proc *of[2];
    const struct dz_file *f[2];
    for (int i = 0; i < 2; i++) {
        t[i] = dz_k_thread_find(k, c->pid[i]);
        of[i] = t[i] ? dz_k_proc_of(k, t[i]) : dz_k_find(k, c->pid[i]);
        if (!of[i])
            return -ESRCH;
    }
    if (!may_debug(p, of[0]) || !may_debug(p, of[1]))
        return -EPERM;
    switch (c->type) {
    case KCMP_FILE:
        for (int i = 0; i < 2; i++)
            f[i] = c->fd[i] <= INT32_MAX ? dz_k_fd_file(k, of[i], (int)c->fd[i]) : NULL;
        return f[0] && f[1] ? order(f[0]->index, f[1]->index) : -EBADF;
    case KCMP_EPOLL_TFD:
        for (int i = 0; i < 2; i++)
            f[i] = c->fd[i] <= INT32_MAX ? dz_k_fd_file(k, of[i], (int)c->fd[i]) : NULL;
        if (!f[0] || !f[1])
            return -EBADF;
        if (f[1]->kind != DZ_FILE_EPOLL)
            return -EINVAL;
        f[1] = item_of(k, f[1], c);
        return f[1] ? order(f[0]->index, f[1]->index) : -ENOENT;
    case KCMP_VM:
        return order(space_of(k, of[0]), space_of(k, of[1]));
    case KCMP_FILES:
    case KCMP_FS:
    case KCMP_SIGHAND:
    case KCMP_IO:
    case KCMP_SYSVSEM: /* threads share all of these, processes none */
        return order(of[0]->index, of[1]->index);
    default:
        return -EINVAL;
    }
}

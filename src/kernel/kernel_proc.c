/* SPDX-License-Identifier: MIT
 *
 * kernel_proc.c - the life of processes: creation, death, wait.
 *
 * Process 1 is the kernel's own: it has no program, adopts orphans and reaps them at once.
 * Processes that the embedder starts are its children.
 *
 * A process dies at a safepoint only, never inside its own host call: exit and fatal signals set a
 * mark, and the scheduler calls dz_k_die(). A zombie keeps its row, its pid and its status;
 * everything else is released.
 *
 * Invariants:
 *   1. a row's pid is in the hash, exactly once, zombies too (dz_k_hash_add and
 *      hash_remove, and dz_k_assert_all for the hash as a whole);
 *   2. ppid is the pid of a process that is no zombie, or 0 (of process 1)
 *      (dz_k_assert_all: only a walk sees who names a dead parent).
 */
#include "kernel/kernel_int.h"

#include <signal.h>
#include <sys/wait.h>

static uint32_t bucket(int32_t pid)
{
    return (uint32_t)pid % DZ_K_HASH;
}

struct dz_proc *dz_k_find(const struct dz_kernel *k, int32_t pid)
{
    if (pid <= 0)
        return NULL;
    struct dz_proc *p = dz_k_proc(k, k->pid_hash[bucket(pid)]);
    while (p && p->pid != pid)
        p = dz_k_proc(k, p->pid_next);
    return p;
}

void dz_k_hash_add(struct dz_kernel *k, struct dz_proc *p)
{
    assert(p->pid > 0 && !dz_k_find(k, p->pid));
    p->pid_next = k->pid_hash[bucket(p->pid)];
    k->pid_hash[bucket(p->pid)] = p->index;
}

static void hash_remove(struct dz_kernel *k, struct dz_proc *p)
{
    uint32_t *at = &k->pid_hash[bucket(p->pid)];
    while (*at != p->index) {
        assert(*at != 0); /* invariant 1 */
        at = &dz_k_proc(k, *at)->pid_next;
    }
    *at = p->pid_next;
}

struct dz_proc *dz_k_proc_new(struct dz_kernel *k, uint32_t spare)
{
    const uint64_t most = (uint64_t)k->limits.procs + spare;
    if (k->tab[DZ_KERNEL_TABLE_PROC].used >= most + 1) /* plus process 1 */
        return NULL;
    struct dz_proc *p = dz_k_row_new(&k->tab[DZ_KERNEL_TABLE_PROC]);
    if (!p)
        return NULL;
    p->pid = dz_k_number_new(k);
    p->state = DZ_PROC_LIVE;
    p->alarm_at = INT64_MAX;
    p->start_ns = dz_kernel_now(k);
    p->lock_owner = k->next_owner++;
    dz_k_hash_add(k, p);
    return p;
}

void dz_k_proc_free(struct dz_kernel *k, struct dz_proc *p)
{
    dz_k_threads_free(k, p, NULL);
    (void)dz_kernel_memory(k, p, 0);
    dz_k_siginfo_drop(k, p->index, 0, UINT64_MAX);
    dz_k_fd_close_all(k, p, false);
    dz_k_blob_free(k, p->fds);
    dz_k_blob_free(k, p->argv);
    dz_k_blob_free(k, p->envv);
    dz_k_blob_free(k, p->exe_path);
    hash_remove(k, p);
    dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_PROC], p->index);
}

/* ---- groups and jobs ----------------------------------------------------------- */

bool dz_k_pgrp_in(const struct dz_kernel *k, int32_t pgid, int32_t sid)
{
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    if (p->pgid == pgid && p->sid == sid) /* a zombie keeps its group until it is reaped */
        return true;
    return false;
}

/* POSIX: no member has a parent in another group of the same session. `without` counts as dead
 * already. */
bool dz_k_pgrp_orphaned(const struct dz_kernel *k, int32_t pgid, const struct dz_proc *without)
{
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    {
        if (p->pgid != pgid || p->state == DZ_PROC_ZOMBIE || p == without)
            continue;
        const struct dz_proc *parent = dz_k_find(k, p->ppid);
        if (parent && parent != without && parent->pgid != pgid && parent->sid == p->sid)
            return false;
    }
    return true;
}

static bool pgrp_has_stopped(const struct dz_kernel *k, int32_t pgid, const struct dz_proc *without)
{
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    if (p->pgid == pgid && p != without && (p->flags & DZ_PROC_STOPPED))
        return true;
    return false;
}

/* Does this parent keep the group of its child from being orphaned? */
static bool keeps(const struct dz_proc *parent, const struct dz_proc *child)
{
    return parent && parent->pgid != child->pgid && parent->sid == child->sid;
}

/* The groups that p's death orphans: its own, and those of its children. Those with stopped members
 * get SIGHUP and SIGCONT; a group that was orphaned before does not. */
static void hangup_orphans(struct dz_kernel *k, struct dz_proc *p)
{
    DZ_K_FOREACH(dz_proc, q, k, DZ_KERNEL_TABLE_PROC)
    {
        bool kept = q == p ? keeps(dz_k_find(k, p->ppid), p) : q->ppid == p->pid && keeps(p, q);
        if (kept && dz_k_pgrp_orphaned(k, q->pgid, p) && pgrp_has_stopped(k, q->pgid, p)) {
            dz_k_send_pgrp(k, q->pgid, SIGHUP);
            dz_k_send_pgrp(k, q->pgid, SIGCONT);
        }
    }
}

void dz_k_job_note(struct dz_kernel *k, const struct dz_proc *p, uint32_t end)
{
    struct dz_job *job = dz_k_job(k, p->job);
    if (job && p->flags & DZ_PROC_LEADER && job->end == DZ_JOB_RUNNING)
        job->end = end;
}

void dz_k_job_kill(struct dz_kernel *k, struct dz_job *job, uint32_t end)
{
    if (job->end == DZ_JOB_RUNNING)
        job->end = end;
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    if (p->job == job->index && p->state != DZ_PROC_ZOMBIE)
        dz_k_send(k, p, SIGKILL, 0);
}

static void job_release(struct dz_kernel *k, struct dz_job *job)
{
    if (job->procs == 0 && job->taken)
        dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_JOB], job->index);
}

static int wait_status(const struct dz_proc *p)
{
    return p->term_sig ? (int)p->term_sig : (p->exit_code & 0xff) << 8;
}

static void job_leave(struct dz_kernel *k, struct dz_proc *p)
{
    struct dz_job *job = dz_k_job(k, p->job);
    if (!job)
        return;
    assert(job->procs > 0);
    job->procs--;
    if (p->flags & DZ_PROC_LEADER) {
        if (job->end == DZ_JOB_RUNNING)
            job->end = DZ_JOB_EXITED;
        job->status = wait_status(p);
        job->cpu_limit_ns = 0;
        k->events = true;
    }
    p->job = 0;
    job_release(k, job);
}

int dz_kernel_event(struct dz_kernel *k, struct dz_job *ret_job)
{
    k->events = false;
    bool found = false;
    DZ_K_FOREACH(dz_job, job, k, DZ_KERNEL_TABLE_JOB)
    {
        const struct dz_proc *leader = dz_k_find(k, job->leader);
        bool alive = leader && leader->job == job->index && leader->state != DZ_PROC_ZOMBIE;
        if (job->taken || job->end == DZ_JOB_RUNNING || alive)
            continue;
        if (found) {
            k->events = true; /* there is another */
            continue;
        }
        found = true;
        *ret_job = *job;
        job->taken = 1;
        job_release(k, job);
    }
    return found;
}

/* ---- death ----------------------------------------------------------------------- */

static void reap(struct dz_kernel *k, struct dz_proc *p)
{
    assert(p->state == DZ_PROC_ZOMBIE);
    dz_k_proc_free(k, p);
}

/* Has the child changed in a way that `options` selects? If so, fill in the data of SIGCHLD. */
static bool has_news(const struct dz_proc *c, int options, struct dz_siginfo *info)
{
    *info = (struct dz_siginfo){.signo = SIGCHLD, .pid = c->pid, .uid = c->uid};
    if (c->state == DZ_PROC_ZOMBIE && (options & WEXITED)) {
        info->code = c->term_sig ? CLD_KILLED : CLD_EXITED;
        info->status = c->term_sig ? (int)c->term_sig : c->exit_code;
    } else if ((options & WSTOPPED) && (c->flags & DZ_PROC_STOP_NEWS)) {
        info->code = CLD_STOPPED;
        info->status = (int)c->stop_sig;
    } else if ((options & WCONTINUED) && (c->flags & DZ_PROC_CONT_NEWS)) {
        info->code = CLD_CONTINUED;
        info->status = SIGCONT;
    } else {
        return false;
    }
    return true;
}

static void tell_parent(struct dz_kernel *k, struct dz_proc *p)
{
    struct dz_proc *parent = dz_k_find(k, p->ppid);
    if (!parent || (parent->flags & DZ_PROC_INIT)) {
        reap(k, p);
        return;
    }
    const struct dz_sigact *act = &parent->act[SIGCHLD - 1];
    bool forget = act->handler == 1 || (act->flags & SA_NOCLDWAIT) != 0;
    struct dz_siginfo info;
    (void)has_news(p, WEXITED, &info);
    info.signo = p->exit_signal ? p->exit_signal : SIGCHLD;
    if (info.signo != DZ_PROC_SILENT)
        (void)dz_k_send_info(k, parent, NULL, &info);
    forget = forget && p->exit_signal == 0;
    dz_k_wake(k, &parent->wait_child);
    if (forget)
        reap(k, p);
}

/* The process that adopts p's children: the nearest ancestor that is a subreaper, or process 1. */
static struct dz_proc *adopter(const struct dz_kernel *k, const struct dz_proc *p)
{
    struct dz_proc *a = dz_k_find(k, p->ppid);
    while (a && !(a->flags & (DZ_PROC_INIT | DZ_PROC_SUBREAPER)))
        a = dz_k_find(k, a->ppid);
    return a;
}

static void give_children_away(struct dz_kernel *k, struct dz_proc *p)
{
    const struct dz_proc *to = adopter(k, p);
    DZ_K_FOREACH(dz_proc, q, k, DZ_KERNEL_TABLE_PROC)
    {
        if (q->ppid != p->pid)
            continue;
        q->ppid = to->pid;
        q->exit_signal = 0;
        if (q->state == DZ_PROC_ZOMBIE)
            tell_parent(k, q);
        else if (q->death_sig)
            dz_k_send(k, q, (int)q->death_sig, SI_USER);
    }
}

void dz_k_die(struct dz_kernel *k, struct dz_proc *p, int signo, int code)
{
    assert(p->state != DZ_PROC_ZOMBIE && k->running == NULL);
    p->term_sig = (uint32_t)signo;
    p->exit_code = code & 0xff;
    DZ_K_THREADS(t, k, p)
    dz_k_futex_exit(k, t);
    if (p->flags & DZ_PROC_VFORKED)
        dz_k_vfork_done(k, p);
    dz_k_threads_free(k, p, NULL);
    (void)dz_kernel_memory(k, p, 0);
    dz_k_sem_exit(k, p);
    dz_k_timer_drop(k, p);
    dz_k_fd_close_all(k, p, false);
    dz_vfs_lock_drop(k->vfs, p->lock_owner, 0);
    dz_k_wake(k, &k->wait_lock);
    dz_k_blob_free(k, p->fds);
    dz_k_blob_free(k, p->argv);
    dz_k_blob_free(k, p->envv);
    dz_k_blob_free(k, p->exe_path);
    p->fds = p->argv = p->envv = p->exe_path = p->fd_count = p->fd_hint = p->argc = p->envc = 0;
    memset(p->itimer, 0, sizeof p->itimer);
    p->alarm_at = INT64_MAX;
    if (p->pid == p->sid)
        dz_k_tty_disown(k, p);
    hangup_orphans(k, p);
    p->sig_pending = 0; /* also what the two above have sent to its group */
    dz_k_siginfo_drop(k, p->index, 0, UINT64_MAX);
    p->state = DZ_PROC_ZOMBIE;
    p->flags &= ~(uint32_t)(DZ_PROC_STOPPED | DZ_PROC_STOP_NEWS | DZ_PROC_CONT_NEWS);
    dz_k_wake(k, &k->wait_end);
    give_children_away(k, p);
    job_leave(k, p);
    tell_parent(k, p);
}

/* ---- waiting for children ------------------------------------------------------------ */

static bool matches(const struct dz_proc *p, const struct dz_proc *child, int pid, int options)
{
    bool clone = child->exit_signal != 0; /* a child of clone, not of fork */
    if (child->ppid != p->pid)
        return false;
    if (!(options & __WALL) && clone != ((options & (int)__WCLONE) != 0))
        return false;
    return pid == -1 || (pid > 0 && child->pid == pid) || (pid == 0 && child->pgid == p->pgid) ||
           (pid < -1 && child->pgid == -pid);
}

static void usage_of(const struct dz_proc *c, struct dz_kusage *u)
{
    *u = (struct dz_kusage){
        .utime_us = (c->utime_ns + c->child_utime_ns) / 1000,
        .stime_us = (c->stime_ns + c->child_stime_ns) / 1000,
        .maxrss_bytes = c->maxrss,
        .minflt = c->minflt,
    };
}

static int64_t take_news(struct dz_kernel *k, struct dz_proc *p, struct dz_proc *c, int options)
{
    int32_t pid = c->pid;
    if (options & WNOWAIT)
        return pid;
    if (c->state != DZ_PROC_ZOMBIE) {
        c->flags &= ~(uint32_t)(DZ_PROC_STOP_NEWS | DZ_PROC_CONT_NEWS);
        return pid;
    }
    p->child_utime_ns += c->utime_ns + c->child_utime_ns;
    p->child_stime_ns += c->stime_ns + c->child_stime_ns;
    reap(k, c);
    return pid;
}

/* Wait for the children that the number selects, as in waitpid(2). */
static int64_t wait_for(struct dz_kernel *k, struct dz_proc *p, int pid, int options,
                        struct dz_siginfo *info, struct dz_kusage *ret_usage)
{
    const struct dz_call *call = dz_k_my_call(k, p);
    bool any = false;
    DZ_K_FOREACH(dz_proc, c, k, DZ_KERNEL_TABLE_PROC)
    {
        if (!matches(p, c, pid, options))
            continue;
        any = true;
        if (!has_news(c, options, info))
            continue;
        if (ret_usage)
            usage_of(c, ret_usage);
        return dz_k_end(k, p, take_news(k, p, c, options));
    }
    if (!any)
        return dz_k_end(k, p, -ECHILD);
    if (options & WNOHANG)
        return dz_k_end(k, p, 0);
    if (call->intr)
        return dz_k_end(k, p, -EINTR);
    return dz_k_wait_end(k, p, &p->wait_child);
}

/* The status word of wait(2). */
static int status_of(const struct dz_siginfo *info)
{
    switch (info->code) {
    case CLD_EXITED:
        return (info->status & 0xff) << 8;
    case CLD_STOPPED:
        return info->status << 8 | 0x7f;
    case CLD_CONTINUED:
        return 0xffff;
    default:
        return info->status;
    }
}

int64_t dz_sys_waitpid(struct dz_kernel *k, struct dz_proc *p, int pid, int options,
                       int *ret_status, struct dz_kusage *ret_usage)
{
    const int known =
        WNOHANG | WUNTRACED | WCONTINUED | WNOWAIT | WEXITED | __WNOTHREAD | __WALL | (int)__WCLONE;
    struct dz_siginfo info;
    (void)dz_k_call(k, p);
    if (options & ~known)
        return dz_k_end(k, p, -EINVAL);
    if (pid == INT32_MIN) /* there is no such group's number */
        return dz_k_end(k, p, -ESRCH);
    int64_t r = wait_for(k, p, pid, options | WEXITED, &info, ret_usage);
    if (r > 0 && ret_status)
        *ret_status = status_of(&info);
    return r;
}

/* The argument of waitpid(2) for the arguments of waitid(2): 0, -errno. */
static int pid_of(struct dz_kernel *k, const struct dz_proc *p, const struct dz_waitid *w,
                  int *ret_pid, bool *ret_nonblock)
{
    int id = w->id;
    switch (w->idtype) {
    case P_ALL:
        *ret_pid = -1;
        return 0;
    case P_PID:
        *ret_pid = id;
        return id > 0 ? 0 : -EINVAL;
    case P_PGID:
        *ret_pid = id == 0 ? -p->pgid : -id;
        return id >= 0 ? 0 : -EINVAL;
    case P_PIDFD:
        return dz_k_pidfd_of(k, p, id, ret_pid, ret_nonblock);
    default:
        return -EINVAL;
    }
}

int64_t dz_sys_waitid(struct dz_kernel *k, struct dz_proc *p, const struct dz_waitid *w,
                      struct dz_siginfo *ret_info, struct dz_kusage *ret_usage)
{
    const int what = WEXITED | WSTOPPED | WCONTINUED;
    const int known = what | WNOHANG | WNOWAIT | __WNOTHREAD | __WALL | (int)__WCLONE;
    struct dz_siginfo info;
    int options = w->options;
    bool nonblock = false;
    int pid = -1;
    (void)dz_k_call(k, p);
    int e = (options & ~known) || !(options & what) ? -EINVAL : pid_of(k, p, w, &pid, &nonblock);
    if (e)
        return dz_k_end(k, p, e);
    nonblock = nonblock && !(options & WNOHANG);
    int64_t r = wait_for(k, p, pid, options | (nonblock ? WNOHANG : 0), &info, ret_usage);
    if (r == 0 && nonblock)
        return -EAGAIN;
    if (r >= 0)
        *ret_info = r > 0 ? info : (struct dz_siginfo){0};
    return r > 0 ? 0 : r;
}

int64_t dz_sys_exit(struct dz_kernel *k, struct dz_proc *p, int code)
{
    (void)k;
    p->flags |= DZ_PROC_EXITING;
    p->exit_code = code & 0xff;
    p->term_sig = 0;
    return DZ_KEXIT;
}

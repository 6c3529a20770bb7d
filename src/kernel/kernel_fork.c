/* SPDX-License-Identifier: MIT
 *
 * kernel_fork.c - fork, vfork and clone.
 *
 * The call itself only records the request and parks. At the next safepoint the scheduler calls
 * dz_k_fork_now(): parent and child are then parked in the same call, each with its own result, and
 * return from it when the call is issued again. If the runner copies at once, this happens inside
 * the call, and clone exists too; a new thread is then parked in the call like a child.
 *
 * fork copies the instance. vfork does not: the child runs in the parent's memory, and the parent's
 * thread waits (state VFORK) until the child's exec or death releases it. A runner that has a stack
 * of its own there lends its instance, with the parent's frames kept aside:
 *
 *     fork   parent: [inst A]          child: [inst A']
 *     vfork  parent: frames, waits     child: [inst A] -> exec -> [inst B]
 *            parent: [inst A] again, frames put back
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

static const struct dz_clone as_vfork = {.flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD};

/* Does its runner lend an instance to a vfork child? */
static bool lends(const struct dz_task *t)
{
    return t->runner->frames_save != NULL;
}

/* Fill the child: what it inherits from its parent, and what is reset. */
static void inherit(struct dz_proc *c, const struct dz_proc *p)
{
    struct dz_proc own = *c;
    *c = *p;
    c->index = own.index;
    c->pid = own.pid;
    c->pid_next = own.pid_next;
    c->start_ns = own.start_ns;
    c->lock_owner = own.lock_owner;
    c->ppid = p->pid;
    c->state = DZ_PROC_LIVE;
    c->flags = p->flags & (DZ_PROC_CAPS | DZ_PROC_FSUID | DZ_PROC_FSGID | DZ_PROC_SECRET);
    c->exit_signal = 0;
    c->death_sig = 0;
    c->sig_pending = 0;
    c->alarm_at = INT64_MAX;
    memset(c->itimer, 0, sizeof c->itimer);
    c->utime_ns = c->stime_ns = c->child_utime_ns = c->child_stime_ns = 0;
    c->minflt = c->slices = 0;
    memset(c->io, 0, sizeof c->io);
    c->mem_bytes = 0;
    c->fds = c->argv = c->envv = c->exe_path = c->fd_count = c->fd_hint = 0;
    c->threads = c->thread = c->wait_child = 0;
}

/* Copy the forking thread as the child's only thread. */
static struct dz_thread *copy_thread(struct dz_kernel *k, struct dz_proc *c,
                                     const struct dz_thread *from)
{
    struct dz_thread *t = dz_k_thread_new(k, c);
    if (!t)
        return NULL;
    struct dz_thread own = *t;
    *t = *from;
    t->index = own.index;
    t->proc = own.proc;
    t->tid = own.tid;
    t->next = own.next;
    t->tid_next = own.tid_next;
    t->state = DZ_THREAD_READY;
    t->flags = 0;
    t->sig_pending = 0;
    t->alarm_at = INT64_MAX;
    t->utime_ns = t->stime_ns = 0;
    memcpy(t->tid == c->pid ? c->comm : t->comm, dz_k_thread_name(from, dz_k_proc_of(k, from)),
           sizeof t->comm);
    dz_k_slack_fork(t);
    t->policy &= ~(uint32_t)SCHED_RESET_ON_FORK; /* the flag resets real-time policies only */
    t->clear_tid = t->robust = 0;
    t->vfork_child = 0;
    t->futex_bits = t->futex_next = t->futex_all = t->futex_pi = 0;
    t->run_next = t->run_prev = t->run_queue = t->waiters = 0;
    t->frame = 0;
    if (from->frame && !(t->frame = dz_k_blob_dup(k, from->frame))) {
        dz_k_thread_free(k, t);
        return NULL;
    }
    return t;
}

static int copy_blobs(struct dz_kernel *k, struct dz_proc *c, const struct dz_proc *p)
{
    int e = dz_k_fd_copy(k, p, c);
    if (e)
        return e;
    c->argv = dz_k_blob_dup(k, p->argv);
    c->envv = dz_k_blob_dup(k, p->envv);
    c->exe_path = dz_k_blob_dup(k, p->exe_path);
    bool ok = (c->argv || !p->argv) && (c->envv || !p->envv) && (c->exe_path || !p->exe_path);
    return ok ? 0 : -ENOMEM;
}

/* Give the child an instance of its own. */
static int copy_task(struct dz_kernel *k, struct dz_thread *c, const struct dz_thread *p,
                     const struct dz_clone *how)
{
    struct dz_task *from = k->task[p->index];
    struct dz_task *to = dz_k_task_new(k, c, from->program.kind);
    if (!to)
        return -ENOMEM;
    int e = from->runner->copy(from->runner_arg, from, to, how);
    if (e) {
        dz_free(to);
        return e;
    }
    dz_k_program_share(to, from);
    k->task[c->index] = to;
    return 0;
}

/* Lend the parent's instance. */
static int lend_task(struct dz_kernel *k, struct dz_thread *c, struct dz_thread *p)
{
    struct dz_task *from = k->task[p->index];
    struct dz_task *to = dz_k_task_new(k, c, from->program.kind);
    if (!to)
        return -ENOMEM;
    int e = from->runner->frames_save(from->runner_arg, from);
    if (e) {
        dz_free(to);
        return e;
    }
    to->program = from->program; /* lent, too: no reference */
    to->own = from->own;
    to->borrowed = true;
    k->task[c->index] = to;
    to->runner->set_task(to->runner_arg, to);
    return 0;
}

/* RLIMIT_NPROC: threads of the user, and zombies. It does not bind root. */
static bool too_many(const struct dz_kernel *k, const struct dz_proc *p)
{
    uint64_t n = 0;
    if (p->uid == 0 || p->rlimit[RLIMIT_NPROC][0] == UINT64_MAX)
        return false;
    DZ_K_FOREACH(dz_thread, t, k, DZ_KERNEL_TABLE_THREAD)
    n += dz_k_proc_of(k, t)->uid == p->uid;
    DZ_K_FOREACH(dz_proc, q, k, DZ_KERNEL_TABLE_PROC)
    n += q->uid == p->uid && q->state == DZ_PROC_ZOMBIE;
    return n >= p->rlimit[RLIMIT_NPROC][0];
}

/* Apply the changes that clone(2) requests. */
static void adapt(struct dz_proc *c, struct dz_thread *first, const struct dz_proc *p,
                  const struct dz_clone *how)
{
    c->exit_signal = how->exit_signal == 0         ? DZ_PROC_SILENT
                     : how->exit_signal == SIGCHLD ? 0
                                                   : how->exit_signal;
    if (how->flags & CLONE_PARENT) {
        c->ppid = p->ppid;
        c->exit_signal = p->exit_signal;
    }
    for (int i = 0; (how->flags & CLONE_CLEAR_SIGHAND) && i < DZ_KERNEL_SIGNALS; i++)
        if (c->act[i].handler != 1) /* ignored signals stay ignored */
            c->act[i] = (struct dz_sigact){0};
    if (how->flags & CLONE_CHILD_CLEARTID)
        first->clear_tid = how->child_tid;
    if ((how->flags & (CLONE_VM | CLONE_VFORK)) == CLONE_VM) /* the memory holds two stacks */
        first->alt_stack = first->alt_size = first->alt_flags = 0;
}

/* how NULL: as fork(2). */
static int make_child(struct dz_kernel *k, struct dz_thread *t, const struct dz_clone *how,
                      struct dz_thread **ret_child)
{
    struct dz_proc *p = dz_k_proc_of(k, t);
    struct dz_proc *c = too_many(k, p) ? NULL : dz_k_proc_new(k, 0);
    bool vfork = how && (how->flags & CLONE_VFORK);
    if (!c)
        return -EAGAIN;
    inherit(c, p);
    struct dz_thread *first = copy_thread(k, c, t);
    int e = first ? copy_blobs(k, c, p) : -ENOMEM;
    if (!e && how)
        adapt(c, first, p, how);
    if (!e && vfork && lends(k->task[t->index]))
        e = lend_task(k, first, t);
    else if (!e)
        e = copy_task(k, first, t, how);
    if (e) {
        dz_k_proc_free(k, c);
        return e;
    }
    if (vfork) {
        c->flags |= DZ_PROC_VFORKED;
        t->state = DZ_THREAD_VFORK;
        t->vfork_child = first->tid;
    }
    *ret_child = first;
    return 0;
}

static int make_thread(struct dz_kernel *k, struct dz_thread *t, const struct dz_clone *how,
                       struct dz_thread **ret_thread)
{
    struct dz_proc *p = dz_k_proc_of(k, t);
    struct dz_thread *c = too_many(k, p) ? NULL : copy_thread(k, p, t);
    if (!c)
        return -EAGAIN;
    if (how->flags & CLONE_CHILD_CLEARTID)
        c->clear_tid = how->child_tid;
    c->alt_stack = c->alt_size = c->alt_flags = 0;
    int e = copy_task(k, c, t, how);
    if (e) {
        dz_k_thread_free(k, c);
        return e;
    }
    *ret_thread = c;
    return 0;
}

/* Parent and child, or both threads, are now parked in the same call, each with its own result. */
static int clone_now(struct dz_kernel *k, struct dz_thread *t, const struct dz_clone *how)
{
    struct dz_call *mine = dz_k_parked(t);
    struct dz_thread *c = NULL;
    bool thread = how && (how->flags & CLONE_THREAD);
    int e = thread ? make_thread(k, t, how, &c) : make_child(k, t, how, &c);
    if (e == -ENOSYS && how == &as_vfork) /* the runner cannot lend now */
        e = make_child(k, t, NULL, &c);
    if (e) {
        mine->result = e;
        return e;
    }
    mine->result = c->tid;
    dz_k_parked(c)->result = 0;
    struct dz_job *job = thread ? NULL : dz_k_job(k, dz_k_proc_of(k, c)->job);
    if (job)
        job->procs++;
    k->forks++;
    if (!(dz_k_proc_of(k, c)->flags & DZ_PROC_STOPPED))
        dz_k_enqueue(k, c, DZ_K_Q_NEW);
    return 0;
}

int dz_k_fork_now(struct dz_kernel *k, struct dz_thread *t)
{
    bool vfork = (t->flags & DZ_THREAD_VFORK_WANTED) != 0;
    t->flags &= ~(uint32_t)(DZ_THREAD_FORK_WANTED | DZ_THREAD_VFORK_WANTED);
    return clone_now(k, t, vfork ? &as_vfork : NULL);
}

/* ---- calls --------------------------------------------------------------------------- */

/* The second issue of such a call: it completes. */
static int64_t cloned(struct dz_kernel *k, struct dz_proc *p, const struct dz_call *c)
{
    int64_t r = c->result;
    return dz_k_end(k, p, r);
}

static struct dz_thread *begin(struct dz_kernel *k, struct dz_proc *p, struct dz_call *c)
{
    c->flags = DZ_CALL_BEGUN;
    c->result = -EAGAIN;
    c->parked = 1;
    return dz_k_me(k, p);
}

/* For a runner that copies at once: the call completes, unless a vfork child runs first. */
static int64_t at_once(struct dz_kernel *k, struct dz_proc *p, struct dz_thread *t)
{
    return t->state == DZ_THREAD_VFORK ? DZ_KBLOCK : cloned(k, p, dz_k_parked(t));
}

static bool copies_at_once(const struct dz_kernel *k, const struct dz_proc *p)
{
    const struct dz_task *task = k->task[dz_k_me(k, p)->index];
    return task && task->runner->copies_at_once;
}

static int64_t fork_call(struct dz_kernel *k, struct dz_proc *p, uint32_t want)
{
    struct dz_call *c = dz_k_call(k, p);
    if (c->flags & DZ_CALL_BEGUN)
        return cloned(k, p, c);
    if (!(k->caps & DZ_CAP_PROCESS))
        return dz_k_end(k, p, -ENOSYS);
    struct dz_thread *t = begin(k, p, c);
    t->flags |= want;
    if (!copies_at_once(k, p))
        return DZ_KBLOCK;
    (void)dz_k_fork_now(k, t);
    return at_once(k, p, t);
}

int64_t dz_sys_fork(struct dz_kernel *k, struct dz_proc *p)
{
    return fork_call(k, p, DZ_THREAD_FORK_WANTED);
}

int64_t dz_sys_vfork(struct dz_kernel *k, struct dz_proc *p)
{
    return fork_call(k, p, DZ_THREAD_VFORK_WANTED);
}

/* Are these flags of clone a valid combination, as on Linux, and supported? */
static int check_clone(const struct dz_clone *how)
{
    const uint64_t shared = CLONE_FS | CLONE_FILES | CLONE_SIGHAND, all = how->flags;
    const uint64_t known = CLONE_VM | shared | CLONE_THREAD | CLONE_PIDFD | CLONE_PTRACE |
                           CLONE_VFORK | CLONE_PARENT | CLONE_SYSVSEM | CLONE_SETTLS |
                           CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | CLONE_DETACHED |
                           CLONE_UNTRACED | CLONE_CHILD_SETTID | CLONE_IO | CLONE_CLEAR_SIGHAND;
    const uint64_t namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWTIME;
    bool thread = (all & CLONE_THREAD) != 0;
    if (((all & CLONE_SIGHAND) && !(all & CLONE_VM)) || (thread && !(all & CLONE_SIGHAND)))
        return -EINVAL;
    if ((all & CLONE_SIGHAND) && (all & CLONE_CLEAR_SIGHAND))
        return -EINVAL;
    if ((all & CLONE_PIDFD) && (thread || (all & CLONE_DETACHED)))
        return -EINVAL;
    if ((all & CLONE_FS) && (all & (CLONE_NEWNS | CLONE_NEWUSER)))
        return -EINVAL;
    if (all & namespaces)
        return -EPERM;
    if ((all & ~known) || how->exit_signal < 0 || how->exit_signal > DZ_KERNEL_SIGNALS)
        return -EINVAL;
    /* A process shares none of that, a thread all. */
    return (all & shared) != (thread ? shared : 0) || (thread && (all & CLONE_VFORK)) ? -EINVAL : 0;
}

int64_t dz_sys_clone(struct dz_kernel *k, struct dz_proc *p, const struct dz_clone *how,
                     int *ret_pidfd)
{
    struct dz_call *c = dz_k_call(k, p);
    if (c->flags & DZ_CALL_BEGUN)
        return cloned(k, p, c);
    if (!copies_at_once(k, p) || (!(k->caps & DZ_CAP_PROCESS) && !(how->flags & CLONE_THREAD)))
        return dz_k_end(k, p, -ENOSYS);
    int e = check_clone(how), fd = -1;
    struct dz_file *f = NULL;
    if (!e && (how->flags &
               /* Before a process is made that gets no descriptor. */
               CLONE_PIDFD)) {
        e = fd = dz_k_fd_room(k, p);
        if (fd >= 0 && !(f = dz_k_file_new(k, DZ_FILE_PIDFD, O_RDWR)))
            e = -ENFILE;
    }
    if (e < 0)
        return dz_k_end(k, p, e);
    struct dz_thread *t = begin(k, p, c);
    e = clone_now(k, t, how);
    if (f && e) {
        dz_k_file_drop(k, f);
    } else if (f) {
        dz_k_pidfd_set(f, dz_k_find(k, (int32_t)dz_k_parked(t)->result));
        e = dz_k_fd_put(k, p, fd, f, DZ_FD_CLOEXEC);
        assert(e == 0);
        *ret_pidfd = fd;
    }
    return at_once(k, p, t);
}

/* ---- the end of a vfork --------------------------------------------------------------- */

void dz_k_vfork_done(struct dz_kernel *k, struct dz_proc *child)
{
    assert(child->flags & DZ_PROC_VFORKED);
    child->flags &= ~(uint32_t)DZ_PROC_VFORKED;
    DZ_K_FOREACH(dz_thread, p, k, DZ_KERNEL_TABLE_THREAD)
    {
        if (p->state != DZ_THREAD_VFORK || p->vfork_child != child->pid)
            continue;
        dz_k_take_back(k->task[p->index]);
        p->vfork_child = 0;
        p->state = DZ_THREAD_READY;
        if (!(dz_k_proc_of(k, p)->flags & DZ_PROC_STOPPED))
            dz_k_enqueue(k, p, DZ_K_Q_NEW);
    }
}

int dz_k_vfork_part(struct dz_kernel *k, struct dz_proc *child)
{
    struct dz_thread *thread = dz_k_thread(k, child->threads);
    struct dz_task *lent = k->task[thread->index];
    struct dz_task *own = dz_k_task_new(k, thread, lent->program.kind);
    if (!own)
        return -ENOMEM;
    int e = lent->runner->copy(lent->runner_arg, lent, own, NULL);
    if (e) {
        dz_free(own);
        return e;
    }
    dz_k_program_share(own, lent);
    k->task[thread->index] = own;
    dz_free(lent);
    dz_k_vfork_done(k, child);
    return 0;
}

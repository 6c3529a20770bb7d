/* SPDX-License-Identifier: MIT
 *
 * kernel_fork.c - fork and vfork.
 *
 * The call itself only says what it wants and parks. At the safepoint that
 * follows, the scheduler calls dz_k_fork_now(): parent and child then stand in
 * the same parked call, each with its own result, and return from it when the
 * call is issued again.
 *
 * fork copies the instance. vfork does not: the child runs in the parent's
 * instance and memory, and the parent waits (state VFORK) with its frames kept
 * aside, until the child's exec or death lets go of the instance.
 *
 *     fork   parent: [inst A]          child: [inst A']
 *     vfork  parent: frames, waits     child: [inst A] -> exec -> [inst B]
 *            parent: [inst A] again, frames put back
 */
#include "kernel/kernel_int.h"

#include <sys/resource.h>

static int64_t fork_call(struct dz_kernel *k, struct dz_proc *p, uint32_t want)
{
    struct dz_call *c = dz_k_call(k, p);
    if (c->flags & DZ_CALL_BEGUN) {
        int64_t r = c->result;
        return dz_k_end(k, p, r);
    }
    if (!(k->caps & DZ_CAP_PROCESS))
        return dz_k_end(k, p, -ENOSYS);
    c->flags = DZ_CALL_BEGUN;
    c->result = -EAGAIN;
    c->parked = 1;
    struct dz_thread *t = dz_k_me(k, p);
    t->flags |= want;
    if (!k->runner->copies_at_once)
        return DZ_KBLOCK;
    (void)dz_k_fork_now(k, t);
    return t->state == DZ_THREAD_VFORK ? DZ_KBLOCK : dz_k_end(k, p, c->result);
}

int64_t dz_sys_fork(struct dz_kernel *k, struct dz_proc *p)
{
    return fork_call(k, p, DZ_THREAD_FORK_WANTED);
}

int64_t dz_sys_vfork(struct dz_kernel *k, struct dz_proc *p)
{
    return fork_call(k, p, DZ_THREAD_VFORK_WANTED);
}

/* What a child has from its parent as it is, and what begins anew. */
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
    c->flags = 0;
    c->sig_pending = 0;
    c->alarm_at = INT64_MAX;
    memset(c->itimer, 0, sizeof c->itimer);
    c->utime_ns = c->stime_ns = c->child_utime_ns = c->child_stime_ns = 0;
    c->minflt = c->slices = 0;
    c->mem_bytes = 0;
    c->fds = c->argv = c->envv = c->exe_path = c->fd_count = 0;
    c->threads = c->thread = c->wait_child = 0;
}

/* The child's one thread, from the one that forked. */
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
    t->clear_tid = t->robust = 0;
    t->vfork_child = 0;
    t->futex_bits = t->futex_next = 0;
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

/* The child's own instance. */
static int copy_task(struct dz_kernel *k, struct dz_thread *c, const struct dz_thread *p)
{
    struct dz_task *from = k->task[p->index];
    struct dz_task *to = dz_k_task_new(k, c);
    if (!to)
        return -ENOMEM;
    int e = k->runner->copy(k->runner_arg, from, to);
    if (e) {
        dz_free(to);
        return e;
    }
    to->module = from->module;
    if (to->module && k->ops.module_ref)
        k->ops.module_ref(k->ops.arg, to->module);
    k->task[c->index] = to;
    return 0;
}

/* The parent's instance, lent. */
static int lend_task(struct dz_kernel *k, struct dz_thread *c, struct dz_thread *p)
{
    struct dz_task *from = k->task[p->index];
    struct dz_task *to = dz_k_task_new(k, c);
    if (!to)
        return -ENOMEM;
    int e = k->runner->frames_save(k->runner_arg, from);
    if (e) {
        dz_free(to);
        return e;
    }
    to->store = from->store;
    to->inst = from->inst;
    to->module = from->module; /* lent, too: no reference */
    to->own = from->own;
    to->borrowed = true;
    k->task[c->index] = to;
    k->runner->set_task(k->runner_arg, to);
    to->proc->flags |= DZ_PROC_VFORKED;
    p->state = DZ_THREAD_VFORK;
    p->vfork_child = c->tid;
    return 0;
}

/* RLIMIT_NPROC: processes of the user, of whatever state. It does not bind root. */
static bool too_many(const struct dz_kernel *k, const struct dz_proc *p)
{
    uint64_t n = 0;
    if (p->uid == 0 || p->rlimit[RLIMIT_NPROC][0] == UINT64_MAX)
        return false;
    DZ_K_FOREACH(dz_proc, q, k, DZ_KERNEL_TABLE_PROC)
    n += q->uid == p->uid && !(q->flags & DZ_PROC_INIT);
    return n >= p->rlimit[RLIMIT_NPROC][0];
}

static int make_child(struct dz_kernel *k, struct dz_thread *t, bool vfork,
                      struct dz_thread **ret_child)
{
    struct dz_proc *p = dz_k_proc_of(k, t);
    struct dz_proc *c = too_many(k, p) ? NULL : dz_k_proc_new(k);
    if (!c)
        return -EAGAIN;
    inherit(c, p);
    struct dz_thread *first = copy_thread(k, c, t);
    int e = first ? copy_blobs(k, c, p) : -ENOMEM;
    if (!e && vfork)
        e = lend_task(k, first, t);
    if (!e && !vfork)
        e = copy_task(k, first, t);
    if (e) {
        dz_k_proc_free(k, c);
        return e;
    }
    *ret_child = first;
    return 0;
}

int dz_k_fork_now(struct dz_kernel *k, struct dz_thread *p)
{
    bool vfork = (p->flags & DZ_THREAD_VFORK_WANTED) != 0;
    p->flags &= ~(uint32_t)(DZ_THREAD_FORK_WANTED | DZ_THREAD_VFORK_WANTED);
    struct dz_call *mine = dz_k_parked(p);
    struct dz_thread *c = NULL;
    int e = make_child(k, p, vfork, &c);
    if (e == -ENOSYS && vfork) /* a runner that cannot lend */
        e = make_child(k, p, false, &c);
    if (e) {
        mine->result = e;
        return e;
    }
    mine->result = c->tid;
    dz_k_parked(c)->result = 0;
    struct dz_job *job = dz_k_job(k, dz_k_proc_of(k, c)->job);
    if (job)
        job->procs++;
    k->forks++;
    dz_k_enqueue(k, c, DZ_K_Q_NEW);
    return 0;
}

void dz_k_vfork_done(struct dz_kernel *k, struct dz_proc *child)
{
    assert(child->flags & DZ_PROC_VFORKED);
    child->flags &= ~(uint32_t)DZ_PROC_VFORKED;
    DZ_K_FOREACH(dz_thread, p, k, DZ_KERNEL_TABLE_THREAD)
    {
        if (p->state != DZ_THREAD_VFORK || p->vfork_child != child->pid)
            continue;
        struct dz_task *t = k->task[p->index];
        k->runner->frames_restore(k->runner_arg, t);
        k->runner->set_task(k->runner_arg, t);
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
    struct dz_task *own = dz_k_task_new(k, thread);
    if (!own)
        return -ENOMEM;
    int e = k->runner->copy(k->runner_arg, lent, own);
    if (e) {
        dz_free(own);
        return e;
    }
    own->module = lent->module;
    if (own->module && k->ops.module_ref)
        k->ops.module_ref(k->ops.arg, own->module);
    k->task[thread->index] = own;
    dz_free(lent);
    dz_k_vfork_done(k, child);
    return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * kernel_signal.c - sending, queueing and delivering signals.
 *
 * Sending sets a bit in the receiver and makes it runnable; nothing else happens until it is at a
 * safepoint and the scheduler calls dz_k_deliver(). There a fatal signal kills, a stop signal
 * stops, and a handler is injected on top of the guest's current code, even in a call that waits:
 * that call is issued again when the handler has returned, and returns EINTR if it must not be
 * restarted.
 *
 * How the end of a handler is detected: the engine counts injected calls that have not returned;
 * the kernel keeps one dz_handler for each. At every call and every safepoint dz_k_sig_sync()
 * compares the counts, pops the handlers that have returned, and restores their masks. That is soon
 * enough, because a mask is used only there: a signal that the handler's mask blocked is delivered
 * at the next call or at the end of the slice. longjmp out of a handler leaves the mask unchanged,
 * as POSIX allows.
 *
 * A runner with frames on the guest's own stack (reissue) needs none of that: the call ends, the
 * frame holds the mask, and dz_sys_sigreturn() restores it. The depth stays 0.
 *
 * The content of a pending signal (struct dz_siginfo) is in a row of its own. A signal below 32 is
 * pending at most once for each thread and once for the process; a real-time signal as often as it
 * was sent, oldest first. A thread takes its own signals before those of the process.
 *
 * Invariants:
 *   1. depth <= DZ_KERNEL_HANDLERS_MAX (push_handler, and dz_k_assert_all);
 *   2. call[d] for d < depth is parked, or was not inside a call (not asserted: a row does
 *      not tell a thread outside of calls from one whose call has lost its mark).
 */
#include "kernel/kernel_int.h"

#include <linux/capability.h>
#include <signal.h>
#include <sys/resource.h>

#define NEVER_BLOCKED (DZ_K_BIT(SIGKILL) | DZ_K_BIT(SIGSTOP))
#define STOPS         (DZ_K_BIT(SIGSTOP) | DZ_K_BIT(SIGTSTP) | DZ_K_BIT(SIGTTIN) | DZ_K_BIT(SIGTTOU))
#define IGNORED       (DZ_K_BIT(SIGCHLD) | DZ_K_BIT(SIGURG) | DZ_K_BIT(SIGWINCH) | DZ_K_BIT(SIGCONT))

enum {
    HANDLER_DEFAULT = 0,
    HANDLER_IGNORE = 1,
    REAL_TIME = 32, /* these and all above are queued */
    ALT_STACK_MIN = 2048,
};
#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

bool dz_k_sig_ignored(const struct dz_proc *p, int signo)
{
    uint64_t h = p->act[signo - 1].handler;
    return h == HANDLER_IGNORE || (h == HANDLER_DEFAULT && (DZ_K_BIT(signo) & IGNORED));
}

/* Signals that no handler of this thread may get now: the blocked ones, and those that its parked
 * call waits for, because the call returns them. */
static uint64_t held(const struct dz_thread *t)
{
    const struct dz_call *c = &t->call[t->depth];
    return t->sig_mask | (c->parked && (c->flags & DZ_CALL_SIGWAIT) ? c->done : 0);
}

bool dz_k_sig_waits(const struct dz_kernel *k, const struct dz_thread *t)
{
    uint64_t now = (t->sig_pending | dz_k_proc_of(k, t)->sig_pending) & ~held(t);
    if (t->depth == DZ_KERNEL_HANDLERS_MAX)
        now &= NEVER_BLOCKED; /* no room for one more handler */
    return now != 0;
}

/* ---- pending signals and their content ------------------------------------------- */

void dz_k_siginfo_drop(struct dz_kernel *k, uint32_t proc, uint32_t thread, uint64_t set)
{
    if (k->tab[DZ_KERNEL_TABLE_SIGINFO].used == 0)
        return;
    DZ_K_FOREACH(dz_siginfo, i, k, DZ_KERNEL_TABLE_SIGINFO)
    if (i->proc == proc && (thread == 0 || i->thread == thread) && (DZ_K_BIT(i->signo) & set)) {
        if (i->code == SI_TIMER)
            dz_k_timer_taken(k, i);
        dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_SIGINFO], i->index);
    }
}

/* Drop these signals, of the process and of all its threads. */
static void forget(struct dz_kernel *k, struct dz_proc *p, uint64_t set)
{
    p->sig_pending &= ~set;
    DZ_K_THREADS(t, k, p)
    t->sig_pending &= ~set;
    dz_k_siginfo_drop(k, p->index, 0, set);
}

/* RLIMIT_SIGPENDING: does the user have too many rows, over all processes? */
static bool too_many(const struct dz_kernel *k, const struct dz_proc *p)
{
    uint64_t n = 0, most = p->rlimit[RLIMIT_SIGPENDING][0];
    if (k->tab[DZ_KERNEL_TABLE_SIGINFO].used < most)
        return false;
    DZ_K_FOREACH(dz_siginfo, i, k, DZ_KERNEL_TABLE_SIGINFO)
    n += i->owner == p->uid;
    return n >= most;
}

/* As on Linux, the limit applies to signals sent by sigqueue(3) and to every real-time signal. */
static int keep(struct dz_kernel *k, const struct dz_proc *p, const struct dz_thread *to,
                const struct dz_siginfo *info)
{
    bool real_time = info->signo >= REAL_TIME;
    bool bound = real_time || info->code < 0;
    struct dz_siginfo *i = NULL;
    if (info->signo == SIGKILL)
        return 0;
    if (!bound || !too_many(k, p))
        i = dz_k_row_new(&k->tab[DZ_KERNEL_TABLE_SIGINFO]);
    if (!i)
        return real_time && info->code != SI_USER ? -EAGAIN : 0;
    uint32_t index = i->index;
    *i = *info;
    i->used = 1;
    i->index = index;
    i->proc = p->index;
    i->thread = to ? to->index : 0;
    i->owner = p->uid;
    i->order = ++k->next_siginfo;
    return 0;
}

/* Take the row of this signal that is pending in *pending, of the thread or (0) of the process. */
static void take_from(struct dz_kernel *k, const struct dz_proc *p, uint32_t thread,
                      uint64_t *pending, struct dz_siginfo *ret_info)
{
    int32_t signo = ret_info->signo;
    struct dz_siginfo *first = NULL;
    unsigned more = 0;
    DZ_K_FOREACH(dz_siginfo, i, k, DZ_KERNEL_TABLE_SIGINFO)
    {
        if (i->proc != p->index || i->thread != thread || i->signo != signo)
            continue;
        more++;
        if (!first || i->order < first->order)
            first = i;
    }
    if (more <= 1)
        *pending &= ~DZ_K_BIT(signo);
    if (!first)
        return;
    if (first->code == SI_TIMER)
        dz_k_timer_taken(k, first);
    *ret_info = *first;
    dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_SIGINFO], first->index);
}

/* Take the next signal of `set`: the thread's before the process's, the lowest number first. */
int dz_k_sig_take(struct dz_kernel *k, struct dz_thread *t, uint64_t set,
                  struct dz_siginfo *ret_info)
{
    struct dz_proc *p = dz_k_proc_of(k, t);
    bool own = (t->sig_pending & set) != 0;
    uint64_t *pending = own ? &t->sig_pending : &p->sig_pending;
    uint64_t now = *pending & set;
    if (now == 0)
        return 0;
    *ret_info = (struct dz_siginfo){.signo = __builtin_ctzll(now) + 1, .code = SI_USER};
    take_from(k, p, own ? t->index : 0, pending, ret_info);
    return ret_info->signo;
}

/* ---- sending ---------------------------------------------------------------------- */

/* Notify p's parent that p stopped or continued. */
static void note_parent(struct dz_kernel *k, struct dz_proc *p, uint32_t news, int code, int signo)
{
    struct dz_proc *parent = dz_k_find(k, p->ppid);
    const struct dz_siginfo info = {
        .signo = SIGCHLD, .code = code, .pid = p->pid, .uid = p->uid, .status = signo};
    p->flags &= ~(uint32_t)(DZ_PROC_STOP_NEWS | DZ_PROC_CONT_NEWS);
    p->flags |= news;
    if (!parent)
        return;
    if (!(parent->act[SIGCHLD - 1].flags & SA_NOCLDSTOP))
        (void)dz_k_send_info(k, parent, NULL, &info);
    dz_k_wake(k, &parent->wait_child);
}

static void resume(struct dz_kernel *k, struct dz_proc *p)
{
    if (!(p->flags & DZ_PROC_STOPPED))
        return;
    p->flags &= ~(uint32_t)DZ_PROC_STOPPED;
    DZ_K_THREADS(t, k, p)
    if (t->state == DZ_THREAD_READY)
        dz_k_enqueue(k, t, DZ_K_Q_NEW);
}

/* A killed parent that lent nothing does not wait for its vfork child. */
static void leave_vfork(struct dz_kernel *k, struct dz_proc *p)
{
    DZ_K_THREADS(t, k, p)
    if (t->state == DZ_THREAD_VFORK && !k->task[t->index]->runner->frames_save) {
        t->vfork_child = 0;
        t->state = DZ_THREAD_READY;
        dz_k_enqueue(k, t, DZ_K_Q_NEW);
    }
}

/* Can the thread take this signal now? */
static bool takes(const struct dz_kernel *k, struct dz_thread *t, uint64_t bit)
{
    const struct dz_call *c = dz_k_parked(t);
    bool awaited = c->parked && (c->flags & DZ_CALL_SIGWAIT) && (c->done & bit);
    return awaited || (!(t->sig_mask & bit & ~NEVER_BLOCKED) && dz_k_sig_waits(k, t));
}

/* Wake one thread: one that runs already, or else the first that waits. */
static void wake_one(struct dz_kernel *k, struct dz_proc *p, uint64_t bit)
{
    struct dz_thread *found = NULL;
    DZ_K_THREADS(t, k, p)
    if (takes(k, t, bit) && (!found || t->state == DZ_THREAD_READY))
        found = t;
    if (found) {
        dz_k_ready(k, found);
        dz_k_call_back(k, found);
    }
}

static bool is_blocked(const struct dz_kernel *k, const struct dz_proc *p,
                       const struct dz_thread *to, uint64_t bit)
{
    if (to)
        return (to->sig_mask & bit) != 0;
    DZ_K_THREADS(t, k, p)
    if (!(t->sig_mask & bit))
        return false;
    return true;
}

int dz_k_send_info(struct dz_kernel *k, struct dz_proc *p, struct dz_thread *to,
                   const struct dz_siginfo *info)
{
    int signo = info->signo;
    assert(signo >= 1 && signo <= DZ_KERNEL_SIGNALS);
    uint64_t bit = DZ_K_BIT(signo), *pending = to ? &to->sig_pending : &p->sig_pending;
    if (p->state == DZ_PROC_ZOMBIE || (p->flags & DZ_PROC_INIT))
        return 0;
    if (signo == SIGCONT) {
        forget(k, p, STOPS);
        if (p->flags & DZ_PROC_STOPPED) {
            resume(k, p);
            note_parent(k, p, DZ_PROC_CONT_NEWS, CLD_CONTINUED, SIGCONT);
        }
    } else if (bit & STOPS) {
        forget(k, p, DZ_K_BIT(SIGCONT));
    } else if (signo == SIGKILL) {
        resume(k, p);
        leave_vfork(k, p);
    }
    if (!(bit & NEVER_BLOCKED) && dz_k_sig_ignored(p, signo) && !is_blocked(k, p, to, bit))
        return 0;
    if (signo >= REAL_TIME || !(*pending & bit)) { /* the others are pending at most once */
        int e = keep(k, p, to, info);
        if (e)
            return e;
    }
    *pending |= bit;
    dz_k_wake(k, &k->wait_signal);
    if (!to)
        wake_one(k, p, bit);
    else if (takes(k, to, bit)) {
        dz_k_ready(k, to);
        dz_k_call_back(k, to);
    }
    return 0;
}

void dz_k_send(struct dz_kernel *k, struct dz_proc *p, int signo, int code)
{
    const struct dz_siginfo info = {.signo = signo, .code = code};
    (void)dz_k_send_info(k, p, NULL, &info);
}

int dz_k_send_pgrp(struct dz_kernel *k, int32_t pgid, int signo)
{
    int n = 0;
    if (pgid <= 0)
        return 0;
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    {
        if (p->pgid != pgid || p->state == DZ_PROC_ZOMBIE)
            continue;
        dz_k_send(k, p, signo, SI_KERNEL & 0xff);
        n++;
    }
    return n;
}

/* ---- delivery -------------------------------------------------------------------- */

void dz_k_sig_sync(struct dz_kernel *k, struct dz_proc *p)
{
    struct dz_thread *t = dz_k_me(k, p);
    struct dz_task *task = k->task[t->index];
    if (t->depth == 0 || !task)
        return;
    uint32_t running = task->runner->injected(task->runner_arg, task);
    while (t->depth > running)
        t->sig_mask = t->handler[--t->depth].mask;
}

/* Push a frame on the guest's own stack. The thread's parked call ends first. As on Linux, the
 * action of the first handler decides whether it is repeated. */
static bool push_frame(struct dz_kernel *k, struct dz_thread *t, const struct dz_siginfo *info)
{
    struct dz_task *task = k->task[t->index];
    struct dz_sigact *act = &dz_k_proc_of(k, t)->act[info->signo - 1];
    const struct dz_sigact taken = *act;
    struct dz_inject h = {.act = &taken, .info = info};
    struct dz_call *c = dz_k_parked(t);
    uint64_t now = t->sig_mask;  /* that of sigsuspend, if the thread waits there */
    if (c->flags & DZ_CALL_HELD) /* the call was not issued: it is made after the handler */
        *c = (struct dz_call){.deadline = INT64_MAX};
    if (c->parked) {
        const bool restarts = (c->flags & DZ_CALL_RESTART) ||
                              ((taken.flags & SA_RESTART) && !(c->flags & DZ_CALL_NORESTART));
        c->intr = 1;
        h.in_call = true;
        h.result = task->runner->reissue(task->runner_arg, task);
        assert(h.result != DZ_KBLOCK && !c->parked);
        h.again = restarts && h.result == -EINTR;
    }
    h.mask = t->sig_mask;
    if (task->runner->inject(task->runner_arg, task, &h) != 0)
        return false;
    t->sig_mask = now | (taken.mask & ~NEVER_BLOCKED);
    if (!(taken.flags & SA_NODEFER))
        t->sig_mask |= DZ_K_BIT(info->signo);
    if (taken.flags & SA_RESETHAND)
        *act = (struct dz_sigact){.flags = taken.flags};
    return true;
}

void dz_kernel_force(struct dz_task *t, const struct dz_siginfo *info)
{
    uint64_t bit = DZ_K_BIT(info->signo);
    struct dz_sigact *act = &t->proc->act[info->signo - 1];
    if (act->handler == HANDLER_IGNORE || (t->thread->sig_mask & bit))
        *act = (struct dz_sigact){0};
    t->thread->sig_mask &= ~bit;
    (void)dz_k_send_info(t->kernel, t->proc, t->thread, info);
}

void dz_kernel_out_of_memory(struct dz_task *t)
{
    dz_k_job_note(t->kernel, t->proc, DZ_JOB_LIMIT_MEMORY);
    dz_kernel_force(t, &(struct dz_siginfo){.signo = SIGKILL, .code = SI_KERNEL});
}

static void stop_process(struct dz_kernel *k, struct dz_proc *p, int signo)
{
    p->flags |= DZ_PROC_STOPPED;
    p->stop_sig = (uint32_t)signo;
    DZ_K_THREADS(t, k, p)
    {
        dz_k_unqueue(k, t);
        dz_k_call_back(k, t);
    }
    note_parent(k, p, DZ_PROC_STOP_NEWS, CLD_STOPPED, signo);
}

/* Push the guest's handler. False: the guest has no room for it. */
static bool push_handler(struct dz_kernel *k, struct dz_thread *t, const struct dz_siginfo *info)
{
    struct dz_task *task = k->task[t->index];
    if (task->runner->reissue)
        return push_frame(k, t, info);
    struct dz_sigact *act = &dz_k_proc_of(k, t)->act[info->signo - 1];
    struct dz_call *c = dz_k_parked(t);
    const struct dz_inject h = {.act = act, .info = info};
    if (task->runner->inject(task->runner_arg, task, &h) != 0)
        return false;
    assert(t->depth < DZ_KERNEL_HANDLERS_MAX);
    t->handler[t->depth] = (struct dz_handler){
        .mask = c->masked ? c->mask : t->sig_mask,
        .signo = (uint32_t)info->signo,
    };
    c->masked = 0;
    if (c->parked && (!(act->flags & SA_RESTART) || (c->flags & DZ_CALL_NORESTART)))
        c->intr = 1;
    t->sig_mask |= act->mask & ~NEVER_BLOCKED;
    if (!(act->flags & SA_NODEFER))
        t->sig_mask |= DZ_K_BIT(info->signo);
    if (act->flags & SA_RESETHAND)
        *act = (struct dz_sigact){.flags = act->flags};
    t->depth++;
    *dz_k_parked(t) = (struct dz_call){.deadline = INT64_MAX};
    return true;
}

/* Deliver one signal. False: the process cannot run now. */
static bool deliver_one(struct dz_kernel *k, struct dz_thread *t, const struct dz_siginfo *info)
{
    struct dz_proc *p = dz_k_proc_of(k, t);
    int signo = info->signo;
    const struct dz_sigact *act = &p->act[signo - 1];
    uint64_t bit = DZ_K_BIT(signo);
    if (signo == SIGKILL) {
        dz_k_die(k, p, SIGKILL, 0);
        return false;
    }
    if (signo == SIGSTOP || (act->handler == HANDLER_DEFAULT && (bit & STOPS))) {
        if (signo != SIGSTOP && dz_k_pgrp_orphaned(k, p->pgid, NULL))
            return true;
        stop_process(k, p, signo);
        return false;
    }
    if (dz_k_sig_ignored(p, signo))
        return true;
    if (act->handler == HANDLER_DEFAULT) {
        dz_k_die(k, p, signo, 0);
        return false;
    }
    if (push_handler(k, t, info))
        return true;
    struct dz_task *task = k->task[t->index];
    /* The handler of SIGSEGV may have a usable stack. */
    if (task->runner->reissue && signo != SIGSEGV) {
        dz_kernel_force(task, &(struct dz_siginfo){.signo = SIGSEGV, .code = SI_KERNEL});
        return true;
    }
    dz_k_die(k, p, SIGSEGV, 0);
    return false;
}

bool dz_k_deliver(struct dz_kernel *k, struct dz_thread *t)
{
    struct dz_proc *p = dz_k_proc_of(k, t);
    struct dz_siginfo info;
    p->thread = t->index;
    dz_k_sig_sync(k, p);
    while (dz_k_sig_waits(k, t)) {
        if (!dz_k_sig_take(k, t, NEVER_BLOCKED, &info))
            (void)dz_k_sig_take(k, t, ~held(t), &info);
        if (!deliver_one(k, t, &info))
            return false;
    }
    return true;
}

void dz_k_sig_exec(struct dz_kernel *k, struct dz_proc *p)
{
    struct dz_thread *t = dz_k_me(k, p);
    for (int i = 0; i < DZ_KERNEL_SIGNALS; i++)
        if (p->act[i].handler != HANDLER_IGNORE)
            p->act[i] = (struct dz_sigact){0};
        else
            p->act[i] = (struct dz_sigact){.handler = HANDLER_IGNORE};
    t->depth = 0;
    memset(t->call, 0, sizeof t->call);
    t->clear_tid = t->robust = t->alt_stack = t->alt_size = t->alt_flags = 0;
}

/* ---- calls ---------------------------------------------------------------------------- */

static bool may_signal(const struct dz_proc *p, const struct dz_proc *to, int signo)
{
    return dz_k_capable(p, CAP_KILL) || p->euid == to->uid || p->euid == to->suid ||
           p->uid == to->uid || p->uid == to->suid || (signo == SIGCONT && p->sid == to->sid);
}

static bool kill_selects(const struct dz_proc *p, const struct dz_proc *q, int pid)
{
    if (pid > 0)
        return q->pid == pid;
    if (pid == -1)
        return q != p && !(q->flags & DZ_PROC_INIT);
    return q->pgid == (pid == 0 ? p->pgid : -pid);
}

int64_t dz_sys_kill(struct dz_kernel *k, struct dz_proc *p, int pid, int signo)
{
    if (signo < 0 || signo > DZ_KERNEL_SIGNALS || pid == INT32_MIN)
        return -EINVAL;
    int64_t r = -ESRCH;
    const struct dz_siginfo info = {.signo = signo, .code = SI_USER, .pid = p->pid, .uid = p->uid};
    DZ_K_FOREACH(dz_proc, q, k, DZ_KERNEL_TABLE_PROC)
    {
        if (!kill_selects(p, q, pid))
            continue;
        if (!(k->caps & DZ_CAP_PROCESS) && q != p)
            continue;
        if (!may_signal(p, q, signo)) {
            r = r == 0 ? 0 : -EPERM;
            continue;
        }
        if (signo != 0)
            (void)dz_k_send_info(k, q, NULL, &info);
        r = 0;
    }
    return r;
}

/* The thread `tid`, for p to signal: 0, -ESRCH, -EPERM. */
static int64_t find_target(const struct dz_kernel *k, const struct dz_proc *p, int tgid, int tid,
                           int signo, struct dz_thread **ret_thread)
{
    struct dz_thread *t = dz_k_thread_find(k, tid);
    const struct dz_proc *q = t ? dz_k_proc_of(k, t) : NULL;
    if (!q || (tgid != 0 && q->pid != tgid) || (q != p && !(k->caps & DZ_CAP_PROCESS)))
        return -ESRCH;
    if (q != p && !may_signal(p, q, signo))
        return -EPERM;
    *ret_thread = t;
    return 0;
}

int64_t dz_sys_tgkill(struct dz_kernel *k, struct dz_proc *p, int tgid, int tid, int signo)
{
    const struct dz_siginfo info = {.signo = signo, .code = SI_TKILL, .pid = p->pid, .uid = p->uid};
    struct dz_thread *t = NULL;
    if (tid <= 0 || tgid < 0 || signo < 0 || signo > DZ_KERNEL_SIGNALS)
        return -EINVAL;
    int64_t r = find_target(k, p, tgid, tid, signo, &t);
    if (r || signo == 0)
        return r;
    return dz_k_send_info(k, dz_k_proc_of(k, t), t, &info);
}

int64_t dz_sys_sigqueue(struct dz_kernel *k, struct dz_proc *p, int pid, int tid,
                        const struct dz_siginfo *info)
{
    struct dz_siginfo own = {.signo = info->signo,
                             .code = info->code,
                             .pid = p->pid,
                             .uid = p->uid,
                             .value = info->value};
    struct dz_thread *t = NULL;
    const struct dz_thread *named =
        dz_k_thread_find(k, pid); /* any thread's number identifies its process */
    struct dz_proc *q = named && tid == 0 ? dz_k_proc_of(k, named) : dz_k_find(k, pid);
    if (pid <= 0 || tid < 0 || own.signo < 0 || own.signo > DZ_KERNEL_SIGNALS)
        return -EINVAL;
    if (q != p && (own.code >= 0 || own.code == SI_TKILL)) /* only the kernel may use these codes */
        return -EPERM;
    if (!q || (q != p && !(k->caps & DZ_CAP_PROCESS)))
        return -ESRCH;
    if (!may_signal(p, q, own.signo))
        return -EPERM;
    int64_t r = tid ? find_target(k, p, pid, tid, own.signo, &t) : 0;
    return r || own.signo == 0 ? r : dz_k_send_info(k, q, t, &own);
}

int64_t dz_sys_sigaction(struct dz_kernel *k, struct dz_proc *p, int signo,
                         const struct dz_sigact *act, struct dz_sigact *ret_old)
{
    if (signo < 1 || signo > DZ_KERNEL_SIGNALS)
        return -EINVAL;
    if (act && (signo == SIGKILL || signo == SIGSTOP))
        return -EINVAL;
    dz_k_sig_sync(k, p);
    struct dz_sigact old = p->act[signo - 1];
    if (act) {
        p->act[signo - 1] = *act;
        p->act[signo - 1].mask &= ~NEVER_BLOCKED;
        if (dz_k_sig_ignored(p, signo))
            forget(k, p, DZ_K_BIT(signo));
    }
    if (ret_old)
        *ret_old = old;
    return 0;
}

int64_t dz_sys_sigprocmask(struct dz_kernel *k, struct dz_proc *p, int how, const uint64_t *set,
                           uint64_t *ret_old)
{
    dz_k_sig_sync(k, p);
    struct dz_thread *t = dz_k_me(k, p);
    uint64_t old = t->sig_mask, now = old;
    if (set && how == 0)
        now |= *set;
    else if (set && how == 1)
        now &= ~*set;
    else if (set && how == 2)
        now = *set;
    else if (set)
        return -EINVAL;
    t->sig_mask = now & ~NEVER_BLOCKED;
    if (ret_old)
        *ret_old = old;
    return 0;
}

int64_t dz_sys_sigreturn(struct dz_kernel *k, struct dz_proc *p, uint64_t mask)
{
    dz_k_me(k, p)->sig_mask = mask & ~NEVER_BLOCKED;
    return 0;
}

static bool on_alt_stack(const struct dz_thread *t, uint64_t sp)
{
    return !(t->alt_flags & SS_AUTODISARM) && sp > t->alt_stack && sp - t->alt_stack <= t->alt_size;
}

int64_t dz_sys_sigaltstack(struct dz_kernel *k, struct dz_proc *p, uint64_t sp,
                           const struct dz_altstack *set, struct dz_altstack *ret_old)
{
    struct dz_thread *t = dz_k_me(k, p);
    bool on = on_alt_stack(t, sp);
    const struct dz_altstack old = {.at = t->alt_stack,
                                    .size = t->alt_size,
                                    .flags = t->alt_flags | (t->alt_size == 0 ? SS_DISABLE
                                                             : on             ? SS_ONSTACK
                                                                              : 0)};
    if (set) {
        uint32_t mode = set->flags & ~SS_AUTODISARM;
        bool off = mode == SS_DISABLE;
        if (on)
            return -EPERM;
        if (mode != 0 && !off && mode != SS_ONSTACK)
            return -EINVAL;
        if (!off && set->size < ALT_STACK_MIN)
            return -ENOMEM;
        t->alt_stack = off ? 0 : set->at;
        t->alt_size = off ? 0 : set->size;
        t->alt_flags = set->flags & SS_AUTODISARM;
    }
    if (ret_old)
        *ret_old = old;
    return 0;
}

int64_t dz_sys_sigpending(struct dz_kernel *k, struct dz_proc *p, uint64_t *ret_set)
{
    dz_k_sig_sync(k, p);
    const struct dz_thread *t = dz_k_me(k, p);
    *ret_set = (t->sig_pending | p->sig_pending) & t->sig_mask;
    return 0;
}

int64_t dz_sys_sigsuspend(struct dz_kernel *k, struct dz_proc *p, uint64_t mask)
{
    struct dz_call *c = dz_k_call(k, p);
    if (c->intr)
        return dz_k_end(k, p, -EINTR);
    if (!(c->flags & DZ_CALL_BEGUN)) {
        c->flags = DZ_CALL_BEGUN | DZ_CALL_NORESTART;
        c->masked = 1;
        struct dz_thread *t = dz_k_me(k, p);
        c->mask = t->sig_mask;
        t->sig_mask = mask & ~NEVER_BLOCKED;
    }
    return dz_k_block(k, p);
}

int64_t dz_sys_sigtimedwait(struct dz_kernel *k, struct dz_proc *p, uint64_t set,
                            int64_t timeout_ns, struct dz_siginfo *ret_info)
{
    struct dz_siginfo info;
    struct dz_call *c = dz_k_call(k, p);
    int signo = dz_k_sig_take(k, dz_k_me(k, p), set & ~NEVER_BLOCKED, &info);
    if (signo) {
        if (ret_info)
            *ret_info = info;
        return dz_k_end(k, p, signo);
    }
    if (c->intr)
        return dz_k_end(k, p, -EINTR);
    int64_t now = dz_kernel_now(k);
    if (!(c->flags & DZ_CALL_BEGUN)) {
        c->flags = DZ_CALL_BEGUN | DZ_CALL_NORESTART | DZ_CALL_SIGWAIT;
        c->done = set & ~NEVER_BLOCKED;
        if (timeout_ns >= 0 && timeout_ns < INT64_MAX - now)
            c->deadline = now + timeout_ns;
    }
    if (now >= c->deadline)
        return dz_k_end(k, p, -EAGAIN);
    return dz_k_block(k, p);
}

int64_t dz_sys_longjmp(struct dz_kernel *k, struct dz_proc *p, const uint64_t token[2],
                       uint64_t value)
{
    struct dz_thread *t = dz_k_me(k, p);
    struct dz_task *task = k->task[t->index];
    if (!task || !task->runner->jump ||
        task->runner->jump(task->runner_arg, task, token, value) != 0)
        return -EINVAL;
    uint32_t left = task->runner->injected(task->runner_arg, task);
    if (left < t->depth) {
        t->depth = left;
        t->call[left] = (struct dz_call){.deadline = INT64_MAX};
    }
    return DZ_KJUMP;
}

/* SPDX-License-Identifier: MIT
 *
 * kernel_signal.c - signals: sent, kept, delivered.
 *
 * Sending sets a bit in the receiver and makes it runnable; nothing happens to
 * it before it stands at a safepoint and the scheduler calls dz_k_deliver().
 * There a fatal signal kills, a stop signal stops, and a handler is injected on
 * top of whatever the guest was doing, in a call that waits too: that call is
 * issued again when the handler has returned, and answers EINTR if it must not
 * be restarted.
 *
 * How the end of a handler is seen: the engine counts injected calls that have
 * not returned; the kernel keeps one dz_handler for each. At every call and
 * every safepoint dz_k_sig_sync() compares, and pops what has returned, putting
 * the mask back. A mask matters at those places only, so this is soon enough: a
 * signal that the handler's mask held back comes with the next call, or when the
 * slice ends.
 * longjmp out of a handler leaves the mask alone, as POSIX lets it.
 *
 * Real-time signals (32..64) do not queue: one of each is kept.
 *
 * Invariant: call[d] for d < depth is parked, or was not inside a call.
 */
#include "kernel/kernel_int.h"

#include <signal.h>

#define NEVER_BLOCKED (DZ_K_BIT(SIGKILL) | DZ_K_BIT(SIGSTOP))
#define STOPS         (DZ_K_BIT(SIGSTOP) | DZ_K_BIT(SIGTSTP) | DZ_K_BIT(SIGTTIN) | DZ_K_BIT(SIGTTOU))
#define IGNORED       (DZ_K_BIT(SIGCHLD) | DZ_K_BIT(SIGURG) | DZ_K_BIT(SIGWINCH) | DZ_K_BIT(SIGCONT))

enum {
    HANDLER_DEFAULT = 0,
    HANDLER_IGNORE = 1,
};

bool dz_k_sig_ignored(const struct dz_proc *p, int signo)
{
    uint32_t h = p->act[signo - 1].handler;
    return h == HANDLER_IGNORE || (h == HANDLER_DEFAULT && (DZ_K_BIT(signo) & IGNORED));
}

bool dz_k_sig_waits(const struct dz_proc *p)
{
    uint64_t now = p->sig_pending & ~p->sig_mask;
    if (p->depth == DZ_KERNEL_HANDLERS_MAX)
        now &= NEVER_BLOCKED; /* no room for one more handler */
    return now != 0;
}

static void note_parent(struct dz_kernel *k, struct dz_proc *p, uint32_t news, int code)
{
    struct dz_proc *parent = dz_k_find(k, p->ppid);
    p->flags &= ~(uint32_t)(DZ_PROC_STOP_NEWS | DZ_PROC_CONT_NEWS);
    p->flags |= news;
    if (!parent)
        return;
    if (!(parent->act[SIGCHLD - 1].flags & SA_NOCLDSTOP))
        dz_k_send(k, parent, SIGCHLD, code);
    dz_k_wake(k, &parent->wait_child);
}

static void resume(struct dz_kernel *k, struct dz_proc *p)
{
    if (!(p->flags & DZ_PROC_STOPPED))
        return;
    p->flags &= ~(uint32_t)DZ_PROC_STOPPED;
    if (p->state == DZ_PROC_READY)
        dz_k_enqueue(k, p, DZ_K_Q_NEW);
}

void dz_k_send(struct dz_kernel *k, struct dz_proc *p, int signo, int code)
{
    assert(signo >= 1 && signo <= DZ_KERNEL_SIGNALS);
    uint64_t bit = DZ_K_BIT(signo);
    if (p->state == DZ_PROC_ZOMBIE || (p->flags & DZ_PROC_INIT))
        return;
    if (signo == SIGCONT) {
        p->sig_pending &= ~STOPS;
        if (p->flags & DZ_PROC_STOPPED) {
            resume(k, p);
            note_parent(k, p, DZ_PROC_CONT_NEWS, CLD_CONTINUED);
        }
    } else if (bit & STOPS) {
        p->sig_pending &= ~DZ_K_BIT(SIGCONT);
    } else if (signo == SIGKILL) {
        resume(k, p);
    }
    bool blocked = (p->sig_mask & bit & ~NEVER_BLOCKED) != 0;
    if (!blocked && !(bit & NEVER_BLOCKED) && dz_k_sig_ignored(p, signo))
        return;
    p->sig_pending |= bit;
    p->sig_code[signo - 1] = (uint8_t)code;
    const struct dz_call *c = &p->call[p->depth];
    bool awaited = c->parked && (c->flags & DZ_CALL_SIGWAIT) && (c->done & bit);
    if (awaited || dz_k_sig_waits(p))
        dz_k_ready(k, p);
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
    struct dz_task *t = k->task[p->index];
    if (p->depth == 0 || !t)
        return;
    uint32_t running = k->runner->injected(k->runner_arg, t);
    while (p->depth > running)
        p->sig_mask = p->handler[--p->depth].mask;
}

static void stop_process(struct dz_kernel *k, struct dz_proc *p, int signo)
{
    p->flags |= DZ_PROC_STOPPED;
    p->stop_sig = (uint32_t)signo;
    dz_k_unqueue(k, p);
    note_parent(k, p, DZ_PROC_STOP_NEWS, CLD_STOPPED);
}

/* Put the guest's handler on top. False: there was no room in the guest. */
static bool push_handler(struct dz_kernel *k, struct dz_proc *p, int signo)
{
    struct dz_sigact *act = &p->act[signo - 1];
    struct dz_call *c = &p->call[p->depth];
    uint32_t handler = act->handler;
    if (k->runner->inject(k->runner_arg, k->task[p->index], handler, signo,
                          p->sig_code[signo - 1]) != 0)
        return false;
    p->handler[p->depth] = (struct dz_handler){
        .mask = c->masked ? c->mask : p->sig_mask,
        .signo = (uint32_t)signo,
    };
    c->masked = 0;
    if (c->parked && (!(act->flags & SA_RESTART) || (c->flags & DZ_CALL_NORESTART)))
        c->intr = 1;
    p->sig_mask |= act->mask & ~NEVER_BLOCKED;
    if (!(act->flags & SA_NODEFER))
        p->sig_mask |= DZ_K_BIT(signo);
    if (act->flags & SA_RESETHAND)
        *act = (struct dz_sigact){.flags = act->flags};
    p->depth++;
    p->call[p->depth] = (struct dz_call){.deadline = INT64_MAX};
    return true;
}

/* One signal. False: the process cannot run now. */
static bool deliver_one(struct dz_kernel *k, struct dz_proc *p, int signo)
{
    const struct dz_sigact *act = &p->act[signo - 1];
    uint64_t bit = DZ_K_BIT(signo);
    p->sig_pending &= ~bit;
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
    if (!push_handler(k, p, signo)) {
        dz_k_die(k, p, SIGSEGV, 0);
        return false;
    }
    return true;
}

bool dz_k_deliver(struct dz_kernel *k, struct dz_proc *p)
{
    dz_k_sig_sync(k, p);
    while (dz_k_sig_waits(p)) {
        uint64_t now = p->sig_pending & ~p->sig_mask;
        if (now & NEVER_BLOCKED)
            now &= NEVER_BLOCKED;
        if (!deliver_one(k, p, __builtin_ctzll(now) + 1))
            return false;
    }
    return true;
}

void dz_k_sig_exec(struct dz_proc *p)
{
    for (int i = 0; i < DZ_KERNEL_SIGNALS; i++)
        if (p->act[i].handler != HANDLER_IGNORE)
            p->act[i] = (struct dz_sigact){0};
        else
            p->act[i] = (struct dz_sigact){.handler = HANDLER_IGNORE};
    p->depth = 0;
    memset(p->call, 0, sizeof p->call);
}

/* ---- calls ---------------------------------------------------------------------------- */

static bool may_signal(const struct dz_proc *p, const struct dz_proc *to, int signo)
{
    return p->euid == 0 || p->euid == to->uid || p->euid == to->suid || p->uid == to->uid ||
           p->uid == to->suid || (signo == SIGCONT && p->sid == to->sid);
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
            dz_k_send(k, q, signo, SI_USER);
        r = 0;
    }
    return r;
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
            p->sig_pending &= ~DZ_K_BIT(signo);
    }
    if (ret_old)
        *ret_old = old;
    return 0;
}

int64_t dz_sys_sigprocmask(struct dz_kernel *k, struct dz_proc *p, int how, const uint64_t *set,
                           uint64_t *ret_old)
{
    dz_k_sig_sync(k, p);
    uint64_t old = p->sig_mask, now = old;
    if (set && how == 0)
        now |= *set;
    else if (set && how == 1)
        now &= ~*set;
    else if (set && how == 2)
        now = *set;
    else if (set)
        return -EINVAL;
    p->sig_mask = now & ~NEVER_BLOCKED;
    if (ret_old)
        *ret_old = old;
    return 0;
}

int64_t dz_sys_sigpending(struct dz_kernel *k, struct dz_proc *p, uint64_t *ret_set)
{
    dz_k_sig_sync(k, p);
    *ret_set = p->sig_pending & p->sig_mask;
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
        c->mask = p->sig_mask;
        p->sig_mask = mask & ~NEVER_BLOCKED;
    }
    return dz_k_block(k, p);
}

int64_t dz_sys_sigtimedwait(struct dz_kernel *k, struct dz_proc *p, uint64_t set,
                            int64_t timeout_ns)
{
    struct dz_call *c = dz_k_call(k, p);
    uint64_t got = p->sig_pending & set & ~NEVER_BLOCKED;
    if (got) {
        int signo = __builtin_ctzll(got) + 1;
        p->sig_pending &= ~DZ_K_BIT(signo);
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
    struct dz_task *t = k->task[p->index];
    if (!t || k->runner->jump(k->runner_arg, t, token, value) != 0)
        return -EINVAL;
    uint32_t left = k->runner->injected(k->runner_arg, t);
    if (left < p->depth) {
        p->depth = left;
        p->call[left] = (struct dz_call){.deadline = INT64_MAX};
    }
    return DZ_KJUMP;
}

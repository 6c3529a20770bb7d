/* SPDX-License-Identifier: MIT
 *
 * kernel_sched.c - chooses the thread that runs next and for how long, and accounts its CPU time.
 *
 * Two queues, first in first out. NEW holds threads that have just become runnable, OLD those that
 * used up a whole slice. NEW goes first, so a shell responds while a loop computes; but after NEW
 * has run for one slice without a turn of OLD, OLD gets one, so no thread starves. A slice is at
 * most DZ_KERNEL_SLICE_NS and shorter for nice processes. A thread that waits is in no queue and
 * costs nothing.
 *
 * One turn: deliver signals, arm the embedder's timer, run to a safepoint, account, then carry out
 * the thread's request (fork, exec, exit) or park it.
 *
 * Invariants:
 *   1. a thread is in a queue exactly when it is READY, its process not STOPPED, and it
 *      is neither the current one nor away (assert_runnable for the thread that enters
 *      or leaves a queue, dz_k_assert_all for all threads);
 *   2. k->running is set only while the runner runs (assert_between_turns).
 */
#include "kernel/kernel_int.h"

#include <assert.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

/* Check a thread in a queue: invariant 1, and that of kernel_wait.c: only WAIT has waiters. */
static void assert_runnable(const struct dz_kernel *k, const struct dz_thread *t)
{
    assert(t->state == DZ_THREAD_READY && t != k->current);
    assert(!(dz_k_proc_of(k, t)->flags & DZ_PROC_STOPPED));
    assert(t->waiters == 0);
}

static void assert_between_turns(const struct dz_kernel *k)
{
    assert(k->running == NULL && k->current == NULL);
    assert((k->q_head[DZ_K_Q_NEW] == 0) == (k->q_tail[DZ_K_Q_NEW] == 0));
    assert((k->q_head[DZ_K_Q_OLD] == 0) == (k->q_tail[DZ_K_Q_OLD] == 0));
}

void dz_k_enqueue(struct dz_kernel *k, struct dz_thread *t, uint32_t queue)
{
    const struct dz_task *task = k->task[t->index];
    if (t->run_queue != 0 || t == k->current || (task && task->away))
        return;
    assert(queue == DZ_K_Q_NEW || queue == DZ_K_Q_OLD);
    assert_runnable(k, t);
    struct dz_thread *last = dz_k_thread(k, k->q_tail[queue]);
    t->run_queue = queue;
    t->run_next = 0;
    t->run_prev = k->q_tail[queue];
    if (last)
        last->run_next = t->index;
    else
        k->q_head[queue] = t->index;
    k->q_tail[queue] = t->index;
}

void dz_k_unqueue(struct dz_kernel *k, struct dz_thread *t)
{
    uint32_t q = t->run_queue;
    if (q == 0)
        return;
    struct dz_thread *next = dz_k_thread(k, t->run_next), *prev = dz_k_thread(k, t->run_prev);
    if (next)
        next->run_prev = t->run_prev;
    else
        k->q_tail[q] = t->run_prev;
    if (prev)
        prev->run_next = t->run_next;
    else
        k->q_head[q] = t->run_next;
    t->run_queue = t->run_next = t->run_prev = 0;
}

void dz_k_ready(struct dz_kernel *k, struct dz_thread *t)
{
    if (t->state != DZ_THREAD_WAIT)
        return;
    dz_k_unwait(k, t);
    t->state = DZ_THREAD_READY;
    if (!(dz_k_proc_of(k, t)->flags & DZ_PROC_STOPPED))
        dz_k_enqueue(k, t, DZ_K_Q_NEW);
}

bool dz_kernel_runnable(struct dz_kernel *k)
{
    return k->q_head[DZ_K_Q_NEW] != 0 || k->q_head[DZ_K_Q_OLD] != 0;
}

static struct dz_thread *pick(struct dz_kernel *k)
{
    bool tired = k->q_new_ns >= DZ_KERNEL_SLICE_NS && k->q_head[DZ_K_Q_OLD] != 0;
    uint32_t q = k->q_head[DZ_K_Q_NEW] != 0 && !tired ? DZ_K_Q_NEW : DZ_K_Q_OLD;
    struct dz_thread *t = dz_k_thread(k, k->q_head[q]);
    if (!t)
        return NULL;
    assert_runnable(k, t);
    dz_k_unqueue(k, t);
    k->picked = q;
    return t;
}

static int64_t slice_of(const struct dz_proc *p)
{
    return p->nice <= 0 ? DZ_KERNEL_SLICE_NS : DZ_KERNEL_SLICE_NS * (20 - p->nice) / 20;
}

/* ---- accounting --------------------------------------------------------------------- */

static void cpu_timer(struct dz_kernel *k, struct dz_proc *p, int which, int signo)
{
    struct dz_itimer *t = &p->itimer[which];
    int64_t cpu = (int64_t)(p->utime_ns + (which == ITIMER_PROF ? p->stime_ns : 0));
    if (t->value == 0 || t->value > cpu)
        return;
    t->value = t->interval ? dz_k_add_ns(cpu, t->interval) : 0;
    dz_k_send(k, p, signo, SI_KERNEL & 0xff);
}

static void cpu_limits(struct dz_kernel *k, struct dz_proc *p, uint64_t before_ns)
{
    const uint64_t *limit = p->rlimit[RLIMIT_CPU];
    uint64_t now_s = p->utime_ns / 1000000000, before_s = before_ns / 1000000000;
    if (limit[1] != UINT64_MAX && now_s >= limit[1])
        dz_k_send(k, p, SIGKILL, 0);
    else if (limit[0] != UINT64_MAX && now_s >= limit[0] && now_s != before_s)
        dz_k_send(k, p, SIGXCPU, SI_KERNEL & 0xff);
    struct dz_job *job = dz_k_job(k, p->job);
    if (job && job->cpu_limit_ns != 0 && job->cpu_ns >= job->cpu_limit_ns)
        dz_k_job_kill(k, job, DZ_JOB_LIMIT_CPU);
}

static void account(struct dz_kernel *k, struct dz_thread *t, uint64_t ns)
{
    struct dz_proc *p = dz_k_proc_of(k, t);
    uint64_t before = p->utime_ns;
    struct dz_job *job = dz_k_job(k, p->job);
    t->utime_ns += ns;
    p->utime_ns += ns;
    p->slices++;
    k->total_cpu_ns += ns;
    if (job)
        job->cpu_ns += ns;
    cpu_timer(k, p, ITIMER_VIRTUAL, SIGVTALRM);
    cpu_timer(k, p, ITIMER_PROF, SIGPROF);
    dz_k_timer_cpu(k, p);
    cpu_limits(k, p, before);
}

/* The load averages of proc(5): runnable processes, sampled every 5 s. */
static void sample_load(struct dz_kernel *k, int64_t now)
{
    static const uint64_t decay[3] = {60284, 64452, 65171}; /* 65536 / e^(5s / 1, 5, 15 min) */
    uint64_t active = (k->current ? 1 : 0) + k->away;
    if (now < k->load_at)
        return;
    DZ_K_FOREACH(dz_thread, t, k, DZ_KERNEL_TABLE_THREAD)
    active += t->run_queue != 0;
    int64_t missed = (now - k->load_at) / 5000000000 + 1;
    k->load_at += missed * 5000000000;
    for (int i = 0; i < 3; i++)
        for (int64_t n = 0; n < missed && n < 1000; n++)
            k->load[i] =
                (uint32_t)((k->load[i] * decay[i] + active * 65536 * (65536 - decay[i])) >> 16);
}

/* ---- one turn --------------------------------------------------------------------------- */

/* Record the trap of a job's first process in the job. Faults of a task that runs elsewhere are
 * signals, so it traps only when the host ends it. */
static void note_trap(struct dz_kernel *k, const struct dz_thread *t)
{
    const struct dz_task *task = k->task[t->index];
    dz_k_job_note(k, dz_k_proc_of(k, t),
                  task->runner->poll ? DZ_JOB_FAILED : DZ_JOB_TRAPPED + task->trap);
}

static void after_stop(struct dz_kernel *k, struct dz_thread *t, enum dz_run_stop stop, int signo)
{
    struct dz_proc *p = dz_k_proc_of(k, t);
    if (p->flags & DZ_PROC_EXITING) {
        dz_k_die(k, p, (int)p->term_sig, p->exit_code);
        return;
    }
    if (t->flags & DZ_THREAD_EXITING) {
        dz_k_futex_exit(k, t);
        dz_k_thread_free(k, t);
        return;
    }
    switch (stop) {
    case DZ_RUN_DONE:
    case DZ_RUN_EXITED:
        dz_k_die(k, p, 0, p->exit_code);
        return;
    case DZ_RUN_TRAPPED:
        note_trap(k, t);
        dz_k_die(k, p, signo, 0);
        return;
    case DZ_RUN_READY:
    case DZ_RUN_BLOCKED:
    case DZ_RUN_AWAY:
        break;
    }
    if (p->flags & DZ_PROC_EXEC_READY)
        dz_k_exec_now(k, p);
    else if (t->flags & (DZ_THREAD_FORK_WANTED | DZ_THREAD_VFORK_WANTED))
        (void)dz_k_fork_now(k, t); /* its failure is the call's result */
}

/* Choose the thread's next queue after a run that used this much CPU. */
static void turn_over(struct dz_kernel *k, struct dz_thread *t, enum dz_run_stop stop, int signo,
                      int64_t used)
{
    struct dz_proc *p = dz_k_proc_of(k, t);
    int64_t slice = slice_of(p);
    uint32_t index = t->index;
    k->current = t;
    account(k, t, (uint64_t)used);
    after_stop(k, t, stop, signo);
    k->current = NULL;
    if (dz_k_thread(k, index) == t && t->state == DZ_THREAD_READY && !(p->flags & DZ_PROC_STOPPED))
        dz_k_enqueue(k, t, used * 2 >= slice ? DZ_K_Q_OLD : DZ_K_Q_NEW);
}

/* The thread continues on another host thread. If a signal was sent after the last check, interrupt
 * the thread. */
static void goes_away(struct dz_kernel *k, struct dz_task *t)
{
    assert(!t->away);
    t->away = true;
    k->away++;
    k->current = NULL;
    if (dz_k_sig_waits(k, t->thread))
        dz_k_call_back(k, t->thread);
}

void dz_kernel_task_event(struct dz_task *t, enum dz_run_stop stop, int signo, int64_t cpu_ns)
{
    struct dz_kernel *k = t->kernel;
    assert(t->away && stop != DZ_RUN_AWAY && k->running == NULL);
    t->away = false;
    k->away--;
    t->proc->thread = t->thread->index;
    turn_over(k, t->thread, stop, signo, cpu_ns < 0 ? 0 : cpu_ns);
}

void dz_kernel_serve(struct dz_task *t)
{
    t->proc->thread = t->thread->index;
}

uint32_t dz_kernel_away(const struct dz_kernel *k)
{
    return k->away;
}

static void turn(struct dz_kernel *k, struct dz_thread *thread)
{
    struct dz_task *t = k->task[thread->index];
    int64_t slice = slice_of(dz_k_proc_of(k, thread));
    int signo = 0;
    k->current = thread;
    if (!t || !dz_k_deliver(k, thread)) {
        k->current = NULL;
        return;
    }
    /* A task that runs elsewhere has no slice here, and its runner reports its CPU time. */
    const bool here = !t->runner->poll;
    const int64_t begin = here ? k->ops.cpu_ns(k->ops.arg) : 0;
    atomic_store(&k->running, t); /* from here on an interrupt reaches it */
    atomic_store(&k->resched, 0);
    if (atomic_load(&k->stop))
        t->runner->interrupt(t->runner_arg, t);
    if (k->ops.slice && here)
        k->ops.slice(k->ops.arg, slice);
    enum dz_run_stop stop = t->runner->run(t->runner_arg, t, &signo);
    atomic_store(&k->running, NULL);
    int64_t used = here ? k->ops.cpu_ns(k->ops.arg) - begin : 0;
    used = used < 0 ? 0 : used;
    k->q_new_ns = k->picked == DZ_K_Q_NEW ? k->q_new_ns + used : 0;
    if (stop == DZ_RUN_AWAY)
        goes_away(k, t);
    else
        turn_over(k, thread, stop, signo, used);
}

void dz_kernel_interrupt(struct dz_kernel *k)
{
    atomic_store(&k->resched, 1);
    struct dz_task *t = atomic_load(&k->running);
    if (t)
        t->runner->interrupt(t->runner_arg, t);
}

void dz_kernel_stop(struct dz_kernel *k)
{
    atomic_store(&k->stop, 1);
    dz_kernel_interrupt(k);
}

bool dz_kernel_must_stop(struct dz_kernel *k, struct dz_proc *p)
{
    dz_k_sig_sync(k, p);
    return dz_k_sig_waits(k, dz_k_me(k, p)) || atomic_load(&k->resched) != 0;
}

static void poll_all(struct dz_kernel *k)
{
    for (int i = 0; i < DZ_KERNEL_KINDS_MAX; i++)
        if (k->kinds[i].runner && k->kinds[i].runner->poll)
            k->kinds[i].runner->poll(k->kinds[i].arg);
}

/* Is a stream half full? Its reader outside should not wait for the end of the run. */
static bool much_output(struct dz_kernel *k)
{
    if (!k->output_waits)
        return false;
    DZ_K_FOREACH(dz_stream, s, k, DZ_KERNEL_TABLE_STREAM)
    if (!s->blocked && s->out_len > DZ_KERNEL_STREAM_SIZE / 2)
        return true;
    return false;
}

static enum dz_kernel_state run(struct dz_kernel *k, int64_t until_ns, struct dz_err *err)
{
    enum dz_kernel_state state = DZ_KERNEL_IDLE;
    for (;;) {
        int64_t now = dz_kernel_now(k);
        dz_k_expire(k, now);
        sample_load(k, now);
        poll_all(k);
        if (k->output_waits && (now >= k->flush_at || much_output(k))) {
            if (dz_kernel_flush(k, err) != 0)
                return DZ_KERNEL_FAILED;
            k->flush_at = now + DZ_KERNEL_SLICE_NS;
        }
        if (atomic_exchange(&k->stop, 0)) {
            state = DZ_KERNEL_STOPPED;
            break;
        }
        if (k->events) {
            state = DZ_KERNEL_EVENT;
            break;
        }
        if (now >= until_ns) {
            state = DZ_KERNEL_TIME;
            break;
        }
        struct dz_thread *t = pick(k);
        if (!t) {
            if (!k->output_waits)
                break;
            if (dz_kernel_flush(k, err) != 0) /* delivered output may wake a writer */
                return DZ_KERNEL_FAILED;
            if (!dz_kernel_runnable(k))
                break;
            continue;
        }
        turn(k, t);
    }
    if (k->ops.slice)
        k->ops.slice(k->ops.arg, 0);
    if (k->output_waits && dz_kernel_flush(k, err) != 0)
        return DZ_KERNEL_FAILED;
    return state;
}

enum dz_kernel_state dz_kernel_run(struct dz_kernel *k, int64_t until_ns, struct dz_err *err)
{
    assert_between_turns(k);
    enum dz_kernel_state state = run(k, until_ns, err);
    assert_between_turns(k);
    dz_k_assert_all(k);
    return state;
}

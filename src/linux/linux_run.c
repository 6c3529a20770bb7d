/* SPDX-License-Identifier: MIT
 *
 * linux_run.c - the runner: handles an event of the stub up to the guest's next instruction.
 *
 *     stub: CALL ──> registers are the call ── dz_linux_call() ─┬─ DONE ──> rax, runs on
 *                                                              ├─ STOP ──> rax; the kernel has
 *                                                              │           something to do first
 *                                                              ├─ BLOCK ─> parked: the kernel runs
 *                                                              │           it, it is issued again
 *                                                              └─ EXIT ──> the kernel ends it
 *           FAULT ─> a stack grows, or it is a signal
 *           STOPPED > a slice is over, or a signal waits: the kernel decides
 *           ENDED ─> somebody else killed it: SIGKILL
 *
 * A call that does not wait costs one hand-over and bypasses the kernel's scheduler.
 *
 * The host schedules the processors. Every DZ_KERNEL_SLICE_NS, threads that have run for so long
 * are stopped, so that the kernel can account their time and memory and enforce its limits.
 */
#include "linux/linux_run_int.h"

#include "linux/linux_frame.h"

#include <cpuid.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

enum {
    ROUNDS_MAX = 64,               /* of events, before the kernel gets its turn */
    FAULTS_MAX = 3,                /* of one instruction at one address that mm/ permits */
    ACCOUNT_AFTER_NS = 200 * 1000, /* a process that ran for less is accounted later, */
    COUNT_AFTER_NS = 1000 * 1000,  /* and its memory, which costs more, if it ran for less */
    PATCHED = 7,                   /* bytes of `mov $nr, %eax; syscall` */
    TRAP_PAGE = 14,                /* the exception's number: a page fault */
    ERROR_WRITE = 1 << 1,          /* its error code */
    ERROR_FETCH = 1 << 4,
};

static void assert_thread(const struct dz_linux_thread *t)
{
    assert(t->number == 0 ? !t->running : t->l->threads[t->number] == t);
    assert(t->group->threads > 0);
}

static struct dz_stub_regs *regs_of(const struct dz_linux_thread *t)
{
    return linux_ops(t->l)->regs(t->l->o.stub, t->number);
}

/* ---- threads --------------------------------------------------------------------------- */

/* group: the process that gets one more thread. */
static struct dz_linux_thread *thread_new(struct dz_linux *l, struct dz_task *task,
                                          struct dz_linux_group *group)
{
    struct dz_linux_thread *t = dz_zalloc(sizeof *t);
    if (!t)
        return NULL;
    t->l = l;
    t->task = task;
    t->group = group;
    t->serial = ++l->serial;
    t->mem = dz_linux_mem_ops;
    t->mem.arg = t;
    t->call = (struct dz_linux_call){
        .thread = t, .kernel = task->kernel, .proc = task->proc, .mem = &t->mem};
    group->threads++;
    l->kernel = task->kernel;
    return t;
}

static void number_set(struct dz_linux_thread *t, uint32_t number)
{
    assert(number > 0 && number < DZ_STUB_THREADS_MAX && !t->l->threads[number]);
    t->number = number;
    t->l->threads[number] = t;
    t->l->count++;
}

static void number_clear(struct dz_linux_thread *t)
{
    if (t->number == 0)
        return;
    dz_linux_ahead_drop(t);
    t->l->threads[t->number] = NULL;
    t->l->count--;
    t->l->running -= t->running;
    t->running = false;
    t->number = 0;
}

/* The host's thread has ended: its number is no longer valid. */
static void gone_add(struct dz_linux_thread *t)
{
    number_clear(t);
    t->is_gone = true;
    t->gone = t->l->gone;
    t->l->gone = t;
}
static void gone_remove(struct dz_linux_thread *t)
{
    struct dz_linux_thread **at = &t->l->gone;
    while (*at != t)
        at = &(*at)->gone;
    *at = t->gone;
    t->is_gone = false;
}

/* The kernel's row is already released; the group is freed with its last thread. */
static void thread_free(struct dz_linux_thread *t)
{
    struct dz_linux_group *g = t->group;
    number_clear(t);
    if (t->is_gone)
        gone_remove(t);
    if (--g->threads == 0) {
        if (g->space)
            dz_linux_space_unref(t->l, g->space);
        dz_free(g);
    }
    dz_free(t);
}

struct dz_linux_group *dz_linux_group_new(struct dz_linux_space *space)
{
    struct dz_linux_group *g = dz_zalloc(sizeof *g);
    if (g) {
        g->space = space;
        g->ran_ns = ACCOUNT_AFTER_NS; /* check its memory when it first waits */
        g->grew_ns = COUNT_AFTER_NS;
    }
    return g;
}

/* End the stub's process with all of its threads. */
static void end_group(struct dz_linux_thread *t)
{
    struct dz_linux *l = t->l;
    struct dz_linux_group *g = t->group;
    if (g->ended || t->number == 0)
        return;
    g->ended = true;
    linux_ops(l)->end(l->o.stub, t->number);
    for (uint32_t i = 1; i < DZ_STUB_THREADS_MAX && l->count; i++)
        if (l->threads[i] && l->threads[i]->group == g)
            number_clear(l->threads[i]);
}

static void trace_line(const struct dz_linux_thread *t)
{
    struct dz_linux *l = t->l;
    if (l->o.trace)
        l->o.trace(l->o.arg, t->task, l->line.p, l->line.len);
    else
        dz_kernel_trace(t->task, l->line.p, l->line.len);
    dz_buf_reset(&l->line);
}

/* Trace the result of an issued call, unless it is the child's side of a clone, or is still
 * waiting. A successful exec waits for its thread to be loaded, which shows nothing. */
static void trace(struct dz_linux_thread *t, enum dz_linux_next next, int64_t result)
{
    struct dz_linux *l = t->l;
    const bool waits = next == DZ_LINUX_BLOCK;
    if (!linux_traced(t) || (t->is_clone && result == 0 && !waits) || (waits && t->shown))
        return;
    if (waits && (t->task->proc->flags & DZ_PROC_EXEC_READY))
        dz_linux_trace(&t->call, DZ_LINUX_WHOLE, DZ_LINUX_DONE, 0, &l->line);
    else
        dz_linux_trace(&t->call,
                       waits      ? DZ_LINUX_BEGUN
                       : t->shown ? DZ_LINUX_ENDED
                                  : DZ_LINUX_WHOLE,
                       next, result, &l->line);
    t->shown = waits;
    trace_line(t);
    if (next == DZ_LINUX_EXIT) {
        dz_buf_addf(&l->line, "+++ exited with %u +++", (unsigned)(t->call.arg[0] & 0xff));
        trace_line(t);
    }
}

/* Trace the end of a thread that did not request it. */
static void trace_end(const struct dz_linux_thread *t)
{
    const int signo = (int)t->task->proc->term_sig;
    if (!signo || !linux_traced(t))
        return;
    dz_buf_adds(&t->l->line, "+++ killed by ");
    dz_linux_trace_signo(signo, &t->l->line);
    dz_buf_adds(&t->l->line, " +++");
    trace_line(t);
}

static void unload(void *arg, struct dz_task *task)
{
    struct dz_linux *l = arg;
    struct dz_linux_thread *t = linux_thread_of(task);
    assert_thread(t);
    trace_end(t);
    const bool alone = (task->thread->flags & DZ_THREAD_EXITING) && t->group->threads > 1;
    if (t->number && alone && !t->running) {
        const uint32_t number = t->number;
        number_clear(t);
        linux_ops(l)->exit(l->o.stub, number);
    } else if (t->number) {
        end_group(t); /* the process ends or calls exec, which also ends its other threads */
    }
    thread_free(t);
    task->own = NULL;
}

static int64_t clock_mono(void *arg)
{
    const struct dz_linux_thread *t = arg;
    return dz_kernel_now(t->task->kernel);
}
static int64_t clock_real(void *arg)
{
    const struct dz_linux_thread *t = arg;
    int64_t ns = 0;
    (void)dz_sys_clock_gettime(t->task->kernel, t->task->proc, CLOCK_REALTIME, &ns);
    return ns;
}

/* Publish the calls that the stub may answer itself: none while calls are traced. */
static void publish(const struct dz_linux_thread *t)
{
    const struct dz_stub_ops *ops = linux_ops(t->l);
    const struct dz_proc *p = t->task->proc;
    if (ops->known)
        ops->known(t->l->o.stub, t->number,
                   &(struct dz_stub_known){.on = !linux_traced(t),
                                           .pid = (uint32_t)p->pid,
                                           .tid = (uint32_t)t->task->thread->tid,
                                           .uid = p->uid,
                                           .euid = p->euid,
                                           .gid = p->gid,
                                           .egid = p->egid,
                                           .ppid = (uint32_t)p->ppid});
}

static void let_go(struct dz_linux_thread *t)
{
    assert(t->number && !t->running && !t->parked && !t->group->broken);
    t->since = dz_kernel_now(t->task->kernel);
    if (t->since >= t->l->vdso.due)
        dz_linux_vdso_update(&t->l->vdso, &(struct dz_linux_clocks){clock_mono, clock_real, t});
    publish(t);
    dz_linux_ahead_give(t);
    t->running = true;
    t->l->running++;
    linux_ops(t->l)->run(t->l->o.stub, t->number);
}

/* It runs on, or, while all threads are held, as soon as they are released. */
static void go_on(struct dz_linux_thread *t)
{
    if (t->l->held)
        dz_kernel_task_event(t->task, DZ_RUN_READY, 0, 0);
    else
        let_go(t);
}

/* ---- accounts -------------------------------------------------------------------------- */

static void kill_it(const struct dz_linux_thread *t)
{
    const struct dz_siginfo info = {.signo = SIGKILL, .code = SI_KERNEL};
    dz_kernel_force(t->task, &info);
}

/* Pages shared after a fork are counted for each process until the limit is reached; then they are
 * counted exactly. */
static void recount(struct dz_linux *l)
{
    for (uint32_t i = 1, seen = 0; i < DZ_STUB_THREADS_MAX && seen < l->count; i++) {
        const struct dz_linux_thread *t = l->threads[i];
        uint64_t bytes;
        seen += t != NULL;
        if (t && !t->group->borrows && linux_ops(l)->resident(l->o.stub, i, true, &bytes) == 0)
            (void)dz_kernel_memory(t->task->kernel, t->task->proc, bytes);
    }
}

/* Kill a process that exceeds the machine's memory, as Linux does. */
static void count_memory(struct dz_linux_thread *t)
{
    struct dz_linux *l = t->l;
    uint64_t bytes;
    if (t->group->borrows || linux_ops(l)->resident(l->o.stub, t->number, false, &bytes) < 0 ||
        dz_kernel_memory(t->task->kernel, t->task->proc, bytes) == 0)
        return;
    recount(l);
    if (linux_ops(l)->resident(l->o.stub, t->number, true, &bytes) < 0 ||
        dz_kernel_memory(t->task->kernel, t->task->proc, bytes) < 0)
        dz_kernel_out_of_memory(t->task);
}

/* Account its process: the CPU time that is not yet reported. Short runs are left for the next
 * time, except for the last one. */
static int64_t account(struct dz_linux_thread *t, bool last)
{
    struct dz_linux_group *g = t->group;
    int64_t ns;
    if (!t->number || (!last && g->ran_ns < ACCOUNT_AFTER_NS))
        return 0;
    g->ran_ns = 0;
    if (!last && g->grew_ns >= COUNT_AFTER_NS) {
        g->grew_ns = 0;
        count_memory(t);
    }
    if (linux_ops(t->l)->cpu(t->l->o.stub, t->number, &ns) < 0 || ns < g->cpu_ns)
        return 0;
    const int64_t used = ns - g->cpu_ns;
    g->cpu_ns = ns;
    return used;
}

/* ---- calls ----------------------------------------------------------------------------- */

/* Issue the call that the thread is parked in. Both sides of a clone are parked in it, but its
 * arguments may be gone: the call is then issued without any. */
static enum dz_linux_next issue(struct dz_linux_thread *t, int64_t *ret_result)
{
    struct dz_linux_call again = t->call;
    if (dz_kernel_trace_hold(t->task->kernel, t->task->proc))
        return DZ_LINUX_BLOCK;
    if (t->is_clone)
        again.number = SYS_fork;
    const enum dz_linux_next next = dz_linux_call(t->is_clone ? &again : &t->call, ret_result);
    trace(t, next, next == DZ_LINUX_DONE || next == DZ_LINUX_STOP ? *ret_result : 0);
    return next;
}

/* Store the result, unless the call has set all registers. */
static void answer(struct dz_linux_thread *t, int64_t result)
{
    if (!t->returned)
        regs_of(t)->rax = (uint64_t)result;
    t->parked = t->is_clone = t->returned = false;
}

/* Issue the call; returns how the thread stops. DZ_RUN_AWAY: it runs. */
static enum dz_run_stop serve(struct dz_linux_thread *t)
{
    int64_t result = 0;
    switch (issue(t, &result)) {
    case DZ_LINUX_BLOCK:
        return DZ_RUN_BLOCKED;
    case DZ_LINUX_EXIT:
        return DZ_RUN_EXITED;
    case DZ_LINUX_STOP:
        dz_linux_ahead_stopped(t);
        answer(t, result);
        break;
    case DZ_LINUX_DONE:
        dz_linux_ahead_called(t, result);
        answer(t, result);
        if (!t->group->broken && t->group->ran_ns < DZ_KERNEL_SLICE_NS) {
            let_go(t);
            return DZ_RUN_AWAY;
        }
        break;
    }
    if (!dz_linux_ahead_flush(t))
        regs_of(t)->rax = (uint64_t)-EFAULT;
    if (t->group->broken)
        kill_it(t);
    return DZ_RUN_READY;
}

/* Does the call return the CPU time of the process? */
static bool asks_for_time(const struct dz_linux_call *c)
{
    switch (c->number) {
    case SYS_getrusage:
    case SYS_times:
        return true;
    case SYS_clock_gettime:
        return (int32_t)c->arg[0] == 2 || (int32_t)c->arg[0] == 3 || (int32_t)c->arg[0] < 0;
    default:
        return false;
    }
}

/* Calls whose results are more than rax gain nothing by patched instructions. */
static bool sets_registers(uint64_t number)
{
    return number == SYS_rt_sigreturn || number == SYS_clone || number == SYS_fork ||
           number == SYS_vfork || number == SYS_clone3 || number == SYS_execve ||
           number == SYS_execveat || number == SYS_exit || number == SYS_exit_group;
}

/* Can another thread execute instructions in this memory now? */
static bool shares(const struct dz_linux_thread *t)
{
    const struct dz_linux *l = t->l;
    for (uint32_t i = 1, seen = 0; i < DZ_STUB_THREADS_MAX && seen < l->running; i++) {
        const struct dz_linux_thread *other = l->threads[i];
        seen += other && other->running;
        if (other && other->running && other->group->space == t->group->space)
            return true;
    }
    return false;
}

/* This instruction has trapped often: have it patched, if it is code of a file. */
static void patch(struct dz_linux_thread *t)
{
    const struct dz_stub_ops *ops = linux_ops(t->l);
    const uint64_t at = regs_of(t)->rip - PATCHED;
    const struct dz_mm_vma *v = dz_mm_find(linux_mm(t), at);
    const struct dz_mm_vma *table = dz_mm_find(linux_mm(t), DZ_STUB_PATCH_TABLE);
    if (!ops->patch || sets_registers(t->call.number) || shares(t) || !v || v->start > at ||
        v->end < at + PATCHED || v->prot != (PROT_READ | PROT_EXEC) || (v->flags & DZ_MM_SHARED) ||
        v->back.kind == DZ_MM_ANON || (table && table->start < DZ_STUB_PATCH_TABLE + DZ_MM_PAGE))
        return;
    if (ops->patch(t->l->o.stub, t->number, at) == -ESRCH)
        t->group->broken = true;
}

static void on_call(struct dz_linux_thread *t, const struct dz_stub_event *e)
{
    const struct dz_stub_regs *r = regs_of(t);
    if (e->arch != AUDIT_ARCH_X86_64) {
        regs_of(t)->rax = (uint64_t)-ENOSYS;
        go_on(t);
        return;
    }
    t->call.number = r->rax;
    const uint64_t args[6] = {r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9};
    memcpy(t->call.arg, args, sizeof args);
    t->parked = true;
    if (e->hot)
        patch(t);
    /* Held: it is issued after the release. Asks for time: the kernel accounts it first. */
    if (t->l->held || asks_for_time(&t->call)) {
        dz_kernel_task_event(t->task, DZ_RUN_READY, 0, account(t, true));
        return;
    }
    dz_kernel_serve(t->task);
    dz_linux_ahead_path(t);
    const enum dz_run_stop stop = serve(t);
    t->ahead.path_size = 0;
    if (stop != DZ_RUN_AWAY)
        dz_kernel_task_event(t->task, stop, 0, account(t, stop == DZ_RUN_EXITED));
}

/* ---- faults ---------------------------------------------------------------------------- */

/* 0: the instruction may run again. */
static int fix_page(struct dz_linux_thread *t, const struct dz_stub_event *e)
{
    const int access = e->error & ERROR_FETCH   ? PROT_EXEC
                       : e->error & ERROR_WRITE ? PROT_WRITE
                                                : PROT_READ;
    dz_linux_limits(t);
    const int rc = dz_mm_fault(linux_mm(t), e->addr, access, &t->l->calls);
    if (rc != 1)
        return rc < 0 ? rc : dz_linux_apply(t);
    if (dz_linux_is_absent(t->group->space, e->addr))
        return dz_linux_need(t, e->addr, 1);
    /* Another thread may have mapped it since. */
    const uint64_t rip = regs_of(t)->rip;
    const bool same = rip == t->fault_rip && e->addr == t->fault_at;
    t->fault_rip = rip;
    t->fault_at = e->addr;
    t->fault_count = same ? t->fault_count + 1 : 1;
    return t->fault_count > FAULTS_MAX ? -EFAULT : 0;
}

static void report_missed(const struct dz_linux_thread *t, uint64_t at)
{
    const struct dz_linux_pack *pack = &t->l->o.pack;
    const struct dz_mm_vma *v = dz_mm_find(linux_mm(t), at);
    if (pack->missed && v && v->start <= at && v->back.kind == DZ_MM_PACK)
        pack->missed(pack->arg, v->back.offset + (at - v->start));
}

static void on_fault(struct dz_linux_thread *t, const struct dz_stub_event *e)
{
    struct dz_siginfo info = {.signo = e->signo, .code = e->code, .addr = e->addr};
    if (e->signo == SIGBUS && e->code == BUS_ADRERR)
        report_missed(t, e->addr);
    if (e->signo == SIGSEGV && e->trap == TRAP_PAGE) {
        const int rc = fix_page(t, e);
        if (rc == 0) {
            go_on(t);
            return;
        }
        info.code = rc == -EACCES ? SEGV_ACCERR : SEGV_MAPERR;
    }
    if (info.code < 1 || info.code > SI_KERNEL) /* the guest wrote this itself */
        info.code = SI_KERNEL;
    t->trap = (struct dz_linux_trap){.number = e->trap,
                                     .error = e->error,
                                     .address = e->trap == TRAP_PAGE ? e->addr : t->trap.address};
    if (t->group->broken)
        kill_it(t);
    else
        dz_kernel_force(t->task, &info);
    dz_kernel_task_event(t->task, DZ_RUN_READY, 0, account(t, false));
}

/* ---- events ---------------------------------------------------------------------------- */

/* The host's thread has ended, although no order was given here: its process cannot continue. */
static void on_ended(struct dz_linux_thread *t)
{
    if (t->task->away)
        dz_kernel_task_event(t->task, DZ_RUN_TRAPPED, SIGKILL, 0);
    else
        kill_it(t);
}

static void on_event(struct dz_linux_thread *t, const struct dz_stub_event *e)
{
    assert(t->running && t->task->away);
    t->running = false;
    t->l->running--;
    const int64_t ran_ns = dz_kernel_now(t->task->kernel) - t->since;
    t->group->ran_ns += ran_ns;
    t->group->grew_ns += ran_ns;
    dz_linux_ahead_take(t);
    const enum dz_stub_event_kind kind = e->kind;
    if (kind != DZ_STUB_ENDED && t->group->broken) { /* a promised file could not be opened */
        kill_it(t);
        dz_kernel_task_event(t->task, DZ_RUN_READY, 0, account(t, false));
    } else if (kind == DZ_STUB_CALL) {
        on_call(t, e);
    } else if (kind == DZ_STUB_FAULT) {
        on_fault(t, e);
    } else if (kind == DZ_STUB_STOPPED) {
        dz_kernel_task_event(t->task, DZ_RUN_READY, 0, account(t, false));
    }
}

/* Interrupt threads that have run for a slice. */
static void slices(struct dz_linux *l)
{
    if (!l->running)
        return;
    const int64_t now = dz_kernel_now(l->kernel);
    if (now - l->sliced < DZ_KERNEL_SLICE_NS)
        return;
    l->sliced = now;
    for (uint32_t i = 1, seen = 0; i < DZ_STUB_THREADS_MAX && seen < l->running; i++) {
        struct dz_linux_thread *t = l->threads[i];
        if (!t || !t->running)
            continue;
        seen++;
        if (now - t->since + t->group->ran_ns >= DZ_KERNEL_SLICE_NS)
            linux_ops(l)->interrupt(l->o.stub, i);
    }
    dz_linux_place_look(l, now);
}

/* These events were reported. An event may end the thread of a later one, whose number may then be
 * reused: so the serials identify the threads. */
static int reported(struct dz_linux *l, int n)
{
    for (int i = 0; i < n; i++) {
        struct dz_linux_thread *t = l->threads[l->events[i].thread];
        l->serials[i] = t ? t->serial : 0;
        if (t && l->events[i].kind == DZ_STUB_ENDED)
            gone_add(t);
    }
    return l->event_count = n;
}
/* Get the stub's events; returns how many there are now. */
int dz_linux_hear(struct dz_linux *l, int64_t timeout_ns)
{
    assert(l->event_count == 0);
    return reported(l, linux_ops(l)->wait(l->o.stub, timeout_ns, l->events, DZ_STUB_EVENTS_MAX));
}

/* The same without waiting, but a call that is about to come is worth a moment, if no other thread
 * is to run. calls_only: what else there is may be left to the embedder's next wait, so that a
 * call costs one wait of the host instead of two. */
static int hear_soon(struct dz_linux *l, bool calls_only)
{
    const struct dz_stub_ops *ops = linux_ops(l);
    if (!ops->soon || dz_kernel_runnable(l->kernel))
        return dz_linux_hear(l, 0);
    assert(l->event_count == 0);
    const int n = reported(l, ops->soon(l->o.stub, l->events, DZ_STUB_EVENTS_MAX));
    return n > 0 || calls_only ? n : dz_linux_hear(l, 0);
}

void dz_linux_serve_events(struct dz_linux *l)
{
    for (int i = 0; i < l->event_count; i++) {
        struct dz_linux_thread *const *t = &l->threads[l->events[i].thread];
        if (!*t || (*t)->serial != l->serials[i])
            continue;
        on_event(*t, &l->events[i]);
        /* the event may have ended its thread */
        if (*t && (*t)->serial == l->serials[i] && !(*t)->running)
            dz_linux_ahead_rest(*t);
    }
    l->event_count = 0;
    for (struct dz_linux_thread *t; (t = l->gone);) {
        gone_remove(t);
        on_ended(t);
    }
}

/* The descriptor is readable only for events after a wait that had none. Wait even without any
 * thread, because the end of a process comes after that of its threads, and would leave the
 * descriptor readable. */
static void poll_events(void *arg)
{
    struct dz_linux *l = arg;
    int rounds = 0;
    while (l->serial > 0 && rounds < ROUNDS_MAX &&
           (l->event_count > 0 || hear_soon(l, rounds > 0) > 0)) {
        dz_linux_serve_events(l);
        rounds++;
    }
    l->more = rounds == ROUNDS_MAX;
    slices(l);
    if (l->files.loose)
        dz_linux_sweep(l, dz_kernel_now(l->kernel));
}

/* ---- the runner ------------------------------------------------------------------------- */

static enum dz_run_stop run(void *arg, struct dz_task *task, int *ret_signal)
{
    struct dz_linux_thread *t = linux_thread_of(task);
    (void)arg;
    assert_thread(t);
    if (!t->number || t->group->broken) {
        *ret_signal = SIGKILL;
        return DZ_RUN_TRAPPED;
    }
    if (t->parked)
        return serve(t);
    let_go(t);
    return DZ_RUN_AWAY;
}

/* For a thread of a saved machine: dz_linux_restore() has made its process. */
static int load_saved(struct dz_linux *l, struct dz_task *task)
{
    struct linux_wake *w = l->wake;
    struct dz_linux_thread *t = w ? thread_new(l, task, w->group) : NULL;
    if (!t)
        return w ? -ENOMEM : -EINVAL;
    if (w->number)
        number_set(t, w->number);
    w->number = 0;
    task->own = t;
    return 0;
}

static int load(void *arg, struct dz_task *task, const struct dz_load *from)
{
    struct dz_linux *l = arg;
    if (!from)
        return load_saved(l, task);
    struct dz_linux_space *s = dz_linux_space_new(l);
    struct dz_linux_group *g = s ? dz_linux_group_new(s) : NULL;
    struct dz_linux_thread *t = g ? thread_new(l, task, g) : NULL;
    uint32_t number = 0;
    if (!t) {
        if (s)
            dz_linux_space_unref(l, s);
        dz_free(g);
        return -ENOMEM;
    }
    int rc = linux_ops(l)->process(l->o.stub, &number);
    if (rc == 0) {
        number_set(t, number);
        rc = dz_linux_space_load(t, from);
    }
    if (rc < 0) {
        if (t->number)
            end_group(t);
        thread_free(t);
        return rc == -ESRCH ? -EAGAIN : rc;
    }
    task->own = t;
    return 0;
}

/* Store the numbers for clone(2); an invalid address is ignored, as on Linux. */
static void store_numbers(struct dz_linux_thread *from, struct dz_linux_thread *to,
                          const struct dz_clone *how)
{
    const int32_t tid = to->task->thread->tid;
    if (how->flags & CLONE_PARENT_SETTID)
        (void)from->mem.write(from, how->parent_tid, &tid, sizeof tid);
    if (how->flags & CLONE_CHILD_SETTID)
        (void)to->mem.write(to, how->child_tid, &tid, sizeof tid);
}

/* The group of the copy. */
static int copy_group(struct dz_linux *l, const struct dz_linux_thread *from,
                      enum dz_stub_clone how, struct dz_linux_group **ret_group)
{
    struct dz_linux_space *s = from->group->space;
    if (how == DZ_STUB_THREAD) {
        *ret_group = from->group;
        return 0;
    }
    if (how == DZ_STUB_FORK) {
        s = dz_linux_space_new(l);
        if (!s)
            return -ENOMEM;
        memcpy(s->aux, from->group->space->aux, sizeof s->aux);
        s->aux_count = from->group->space->aux_count;
        if (dz_mm_fork(&from->group->space->mm, &s->mm) < 0) {
            dz_linux_space_unref(l, s);
            return -ENOMEM;
        }
    } else {
        s->groups++;
    }
    *ret_group = dz_linux_group_new(s);
    if (*ret_group) {
        (*ret_group)->borrows = how == DZ_STUB_SHARE;
        return 0;
    }
    dz_linux_space_unref(l, s);
    return -ENOMEM;
}

static int copy(void *arg, struct dz_task *from_task, struct dz_task *to_task,
                const struct dz_clone *how)
{
    struct dz_linux *l = arg;
    struct dz_linux_thread *from = linux_thread_of(from_task);
    const uint64_t flags = how ? how->flags : 0;
    const enum dz_stub_clone kind = flags & CLONE_THREAD ? DZ_STUB_THREAD
                                    : flags & CLONE_VM   ? DZ_STUB_SHARE
                                                         : DZ_STUB_FORK;
    struct dz_linux_group *g = NULL;
    uint32_t number = 0;
    if (!from->number)
        return -EAGAIN;
    if (kind == DZ_STUB_FORK && dz_linux_need_all(from) < 0)
        return -EAGAIN;
    int rc = copy_group(l, from, kind, &g);
    if (rc < 0)
        return rc;
    struct dz_linux_thread *to = thread_new(l, to_task, g);
    if (!to) {
        if (g->threads == 0) {
            dz_linux_space_unref(l, g->space);
            dz_free(g);
        }
        return -ENOMEM;
    }
    rc = linux_ops(l)->clone(l->o.stub, from->number, kind, &number);
    if (rc < 0) { /* an event reports which process died */
        thread_free(to);
        return rc == -ENOMEM ? rc : -EAGAIN;
    }
    number_set(to, number);
    to->trap = from->trap;
    memcpy(to->call.arg, from->call.arg, sizeof to->call.arg);
    to->call.number = from->call.number;
    to->parked = from->parked;
    from->is_clone = to->is_clone = true;
    struct dz_stub_regs *r = regs_of(to);
    if (how && how->stack)
        r->rsp = how->stack + how->stack_size;
    if (flags & CLONE_SETTLS)
        r->fs_base = how->tls;
    if (how)
        store_numbers(from, to, how);
    to_task->own = to;
    return 0;
}

/* ---- signals ---------------------------------------------------------------------------- */

static int64_t reissue(void *arg, struct dz_task *task)
{
    struct dz_linux_thread *t = linux_thread_of(task);
    int64_t result = -EINTR;
    (void)arg;
    const enum dz_linux_next next = issue(t, &result);
    t->parked = t->is_clone = false;
    dz_linux_ahead_stopped(t);
    dz_linux_ahead_flush(t);
    /* A handler ends its wait; only the rows of a forged machine can say otherwise. */
    return next == DZ_LINUX_DONE || next == DZ_LINUX_STOP
               ? result
               : dz_kernel_call_end(task->kernel, task->proc, -EINTR);
}

static int inject(void *arg, struct dz_task *task, const struct dz_inject *h)
{
    struct dz_linux *l = arg;
    struct dz_linux_thread *t = linux_thread_of(task);
    uint8_t xstate[DZ_STUB_XSTATE_MAX];
    if (!t->number || t->group->broken)
        return -EFAULT;
    const int64_t size = linux_ops(l)->xstate_get(l->o.stub, t->number, xstate, sizeof xstate);
    if (size < 0)
        return -EFAULT;
    struct dz_linux_frame f = {
        .mem = &t->mem, .regs = regs_of(t), .xstate = xstate, .xstate_size = (size_t)size};
    if (t->parked && !h->in_call) { /* the call was never issued: it is made after the handler */
        f.regs->rip -= 2;
        t->parked = false;
    }
    if (linux_traced(t)) {
        dz_linux_trace_signal(h->info, &l->line);
        trace_line(t);
    }
    int rc = dz_linux_frame_push(&f, task->thread, &t->trap, h);
    if (rc == 0)
        rc = linux_ops(l)->xstate_set(l->o.stub, t->number, xstate, (size_t)size);
    if (rc < 0 && h->in_call)
        regs_of(t)->rax = (uint64_t)h->result;
    return rc < 0 ? -EFAULT : 0;
}

LINUX_CALL(rt_sigreturn)
{
    struct dz_linux_thread *t = c->thread;
    uint8_t xstate[DZ_STUB_XSTATE_MAX];
    uint64_t mask = 0;
    struct dz_altstack stack = {.at = 0};
    if (!t || !t->number)
        return -ENOSYS;
    struct dz_linux *l = t->l;
    const int64_t size = linux_ops(l)->xstate_get(l->o.stub, t->number, xstate, sizeof xstate);
    struct dz_linux_frame f = {.mem = &t->mem,
                               .regs = regs_of(t),
                               .xstate = xstate,
                               .xstate_size = size < 0 ? 0 : (size_t)size};
    if (size < 0 || dz_linux_frame_pop(&f, &mask, &stack) < 0 ||
        linux_ops(l)->xstate_set(l->o.stub, t->number, xstate, (size_t)size) < 0) {
        const struct dz_siginfo info = {.signo = SIGSEGV, .code = SI_KERNEL};
        dz_kernel_force(t->task, &info);
        return 0;
    }
    (void)dz_sys_sigreturn(LINUX_K(c), mask);
    (void)dz_sys_sigaltstack(LINUX_K(c), regs_of(t)->rsp, &stack, NULL);
    t->returned = true;
    return 0;
}

static void interrupt(void *arg, struct dz_task *task)
{
    struct dz_linux *l = arg;
    const struct dz_linux_thread *t = linux_thread_of(task);
    if (t && t->running)
        linux_ops(l)->interrupt(l->o.stub, t->number);
}

const struct dz_kernel_runner dz_linux_runner = {
    .copies_at_once = true,
    .poll = poll_events,
    .load = load,
    .unload = unload,
    .run = run,
    .copy = copy,
    .inject = inject,
    .reissue = reissue,
    .interrupt = interrupt,
    .word = dz_linux_word,
    .read = dz_linux_bytes,
    .key = dz_linux_key,
    .page = DZ_MM_PAGE,
    .cpus = dz_linux_cpus,
    .sizes = dz_linux_sizes,
    .auxv = dz_linux_auxv,
    .maps = dz_linux_maps,
    .strings = dz_linux_strings,
};

/* ---- the embedder ------------------------------------------------------------------------ */

bool dz_linux_is_program(const void *head, size_t size)
{
    static const uint8_t want[] = {0x7f, 'E', 'L', 'F', 2 /* 64 bits */, 1 /* little-endian */};
    const uint8_t *p = head;
    return size >= DZ_LINUX_HEAD && memcmp(p, want, sizeof want) == 0 &&
           (p[16] == 2 || p[16] == 3) && p[17] == 0 && p[18] == 62 /* x86-64 */ && p[19] == 0;
}

bool dz_linux_look(void)
{
    (void)dz_linux_cpuinfo();
    return dz_linux_vdso_look();
}

int dz_linux_new(struct dz_linux **ret_linux, struct dz_err *err)
{
    struct dz_linux *l = dz_zalloc(sizeof *l);
    if (!l)
        return dz_fail(err, DZ_ENOMEM, "no memory for Linux programs");
    l->calls = (struct dz_mm_calls)DZ_VEC_INIT(DZ_MM_CALLS_MAX);
    l->line = (struct dz_buf)DZ_BUF_INIT(DZ_LINUX_TRACE_MAX);
    unsigned edx = 0;
    (void)__get_cpuid(1, &(unsigned){0}, &(unsigned){0}, &(unsigned){0}, &edx);
    l->hwcap = edx; /* getauxval(AT_HWCAP) is the C library's own number */
    l->hwcap2 = getauxval(AT_HWCAP2);
    dz_linux_pages_init(l);
    l->cpuinfo = dz_linux_cpuinfo();
    const int rc = dz_linux_vdso_open(&l->vdso, err);
    if (rc < 0) {
        dz_linux_free(l);
        return rc;
    }
    *ret_linux = l;
    return 0;
}

int dz_linux_begin(struct dz_linux *l, const struct dz_linux_opts *opts, struct dz_err *err)
{
    assert(!l->o.stub);
    if (opts->cpus > DZ_LINUX_CPUS_MAX)
        return dz_fail(err, DZ_EINVAL, "programs may be told of %d processors at most",
                       DZ_LINUX_CPUS_MAX);
    l->o = *opts;
    if (!l->o.file_bytes)
        l->o.file_bytes = DZ_LINUX_FILE_BYTES;
    if (!l->o.cpus) {
        cpu_set_t set;
        const bool told = sched_getaffinity(0, sizeof set, &set) == 0;
        l->o.cpus = told && CPU_COUNT(&set) > 0 ? (uint32_t)CPU_COUNT(&set) : 1;
    }
    dz_linux_files_begin(l);
    dz_linux_place_begin(l);
    return 0;
}

void dz_linux_free(struct dz_linux *l)
{
    if (!l)
        return;
    assert(l->count == 0 && !l->spaces);
    dz_linux_files_free(l);
    dz_linux_vdso_close(&l->vdso);
    dz_vec_release(&l->calls);
    dz_buf_release(&l->line);
    dz_free(l);
}

struct dz_stub_files dz_linux_files(struct dz_linux *l)
{
    return (struct dz_stub_files){.number = dz_linux_back_number, .arg = l};
}
const struct dz_kernel_pages *dz_linux_pages(struct dz_linux *l)
{
    return &l->pages;
}

bool dz_linux_wait(struct dz_linux *l, int64_t timeout_ns)
{
    return l->more || l->event_count > 0 || dz_linux_hear(l, timeout_ns) > 0;
}
int dz_linux_watch(struct dz_linux *l, int fd, struct dz_err *err)
{
    const int rc = linux_ops(l)->watch(l->o.stub, fd);
    return rc < 0 ? dz_fail_sys(err, -rc, "watching a descriptor beside native programs") : 0;
}
int dz_linux_fd(const struct dz_linux *l)
{
    return l->serial > 0 ? linux_ops(l)->fd(l->o.stub) : -1;
}
int64_t dz_linux_due(const struct dz_linux *l)
{
    return l->more ? 0 : l->running ? l->sliced + DZ_KERNEL_SLICE_NS : INT64_MAX;
}

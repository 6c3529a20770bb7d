/* SPDX-License-Identifier: MIT
 *
 * kernel_thread.c - threads: creation, lookup, end; and the task of each.
 *
 * A process lists its threads, oldest first. Threads and processes share one space of numbers: the
 * first thread of a process has the process's number.
 *
 * Invariants:
 *   1. a thread's tid is in the hash, exactly once (assert_new_tid when it enters,
 *      dz_k_assert_all for the hash as a whole);
 *   2. p->thread is a thread of p while p has any: the one whose call is served
 *      (dz_k_me, at each call). A WebAssembly process has one thread; a runner with
 *      several threads sets p->thread before it serves a call.
 */
#include "kernel/kernel_int.h"

static uint32_t *bucket(struct dz_kernel *k, int32_t tid)
{
    return &k->tid_hash[(uint32_t)tid % DZ_K_HASH];
}

struct dz_thread *dz_k_thread_find(const struct dz_kernel *k, int32_t tid)
{
    struct dz_thread *t = tid > 0 ? dz_k_thread(k, k->tid_hash[(uint32_t)tid % DZ_K_HASH]) : NULL;
    while (t && t->tid != tid)
        t = dz_k_thread(k, t->tid_next);
    return t;
}

static void assert_new_tid(const struct dz_kernel *k, const struct dz_thread *t)
{
    assert(t->tid > 0 && !dz_k_thread_find(k, t->tid));
}

/* Is the number in use by a thread, process, group or session? */
static bool is_taken(const struct dz_kernel *k, int32_t number)
{
    if (dz_k_find(k, number) || dz_k_thread_find(k, number))
        return true;
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    if (p->pgid == number || p->sid == number)
        return true;
    return false;
}

int32_t dz_k_number_new(struct dz_kernel *k)
{
    do {
        k->next_pid = k->next_pid + 1 < DZ_KERNEL_PID_MAX ? k->next_pid + 1 : 2;
    } while (is_taken(k, (int32_t)k->next_pid));
    return (int32_t)k->next_pid;
}

void dz_k_thread_link(struct dz_kernel *k, struct dz_proc *p, struct dz_thread *t)
{
    uint32_t *at = &p->threads;
    while (*at != 0 && t->tid != p->pid) /* the first thread has the number of the process */
        at = &dz_k_thread(k, *at)->next;
    assert_new_tid(k, t);
    t->proc = p->index;
    t->next = *at;
    *at = t->index;
    if (p->thread == 0)
        p->thread = t->index;
    t->tid_next = *bucket(k, t->tid);
    *bucket(k, t->tid) = t->index;
}

struct dz_thread *dz_k_thread_new(struct dz_kernel *k, struct dz_proc *p)
{
    struct dz_thread *t = dz_k_row_new(&k->tab[DZ_KERNEL_TABLE_THREAD]);
    if (!t)
        return NULL;
    t->tid = p->threads ? dz_k_number_new(k) : p->pid;
    t->state = DZ_THREAD_READY;
    t->alarm_at = INT64_MAX;
    dz_k_thread_link(k, p, t);
    return t;
}

void dz_k_thread_name_set(struct dz_proc *p, struct dz_thread *t, const char *name, size_t n)
{
    char *to = t->tid == p->pid ? p->comm : t->comm;
    n = dz_k_min64(strnlen(name, n), sizeof t->comm - 1);
    memset(to, 0, sizeof t->comm);
    memcpy(to, name, n);
}
const char *dz_sys_name(struct dz_kernel *k, struct dz_proc *p)
{
    return dz_k_thread_name(dz_k_me(k, p), p);
}
void dz_sys_name_set(struct dz_kernel *k, struct dz_proc *p, const char *name)
{
    dz_k_thread_name_set(p, dz_k_me(k, p), name, strlen(name));
}

static void hash_remove(struct dz_kernel *k, const struct dz_thread *t)
{
    uint32_t *at = bucket(k, t->tid);
    while (*at != t->index) {
        assert(*at != 0); /* invariant 1 */
        at = &dz_k_thread(k, *at)->tid_next;
    }
    *at = t->tid_next;
}

void dz_k_thread_lead(struct dz_kernel *k, struct dz_thread *t)
{
    hash_remove(k, t);
    t->tid = dz_k_proc_of(k, t)->pid;
    assert_new_tid(k, t);
    t->tid_next = *bucket(k, t->tid);
    *bucket(k, t->tid) = t->index;
}

void dz_k_thread_free(struct dz_kernel *k, struct dz_thread *t)
{
    struct dz_proc *p = dz_k_proc_of(k, t);
    dz_k_futex_drop(k, t);
    dz_k_unwait(k, t);
    dz_k_unqueue(k, t);
    dz_k_task_free(k, t);
    dz_k_siginfo_drop(k, p->index, t->index, UINT64_MAX);
    dz_k_blob_free(k, t->frame);
    hash_remove(k, t);
    uint32_t *at = &p->threads;
    while (*at != t->index) {
        assert(*at != 0);
        at = &dz_k_thread(k, *at)->next;
    }
    *at = t->next;
    if (p->thread == t->index)
        p->thread = p->threads;
    assert(p->threads == 0 || dz_k_me(k, p)); /* invariant 2 */
    if (k->current == t)
        k->current = NULL;
    dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_THREAD], t->index);
}

void dz_k_threads_free(struct dz_kernel *k, struct dz_proc *p, const struct dz_thread *but)
{
    DZ_K_THREADS(t, k, p)
    if (t != but)
        dz_k_thread_free(k, t);
}

bool dz_k_has_state(const struct dz_kernel *k, const struct dz_proc *p, uint32_t state)
{
    DZ_K_THREADS(t, k, p)
    if (t->state == state)
        return true;
    return false;
}

int64_t dz_sys_gettid(struct dz_kernel *k, struct dz_proc *p)
{
    return dz_k_me(k, p)->tid;
}

int64_t dz_sys_exit_thread(struct dz_kernel *k, struct dz_proc *p, int code)
{
    struct dz_thread *t = dz_k_me(k, p);
    bool first = t->tid == p->pid;
    if (p->threads == t->index && t->next == 0)
        return dz_sys_exit(k, p, !first && (p->flags & DZ_PROC_LED) ? p->exit_code : code);
    if (first) {
        p->flags |= DZ_PROC_LED;
        p->exit_code = code & 0xff;
    }
    t->flags |= DZ_THREAD_EXITING; /* the scheduler ends it at the safepoint */
    return DZ_KEXIT;
}

int dz_kernel_memory(struct dz_kernel *k, struct dz_proc *p, uint64_t bytes)
{
    if (bytes > p->mem_bytes && !dz_k_charge(k, bytes - p->mem_bytes))
        return -ENOMEM;
    if (bytes < p->mem_bytes)
        dz_k_uncharge(k, p->mem_bytes - bytes);
    p->mem_bytes = bytes;
    p->maxrss = p->maxrss > bytes ? p->maxrss : bytes;
    return 0;
}

/* ---- tasks ------------------------------------------------------------------------ */

struct dz_task *dz_k_task_new(struct dz_kernel *k, struct dz_thread *thread, uint32_t kind)
{
    assert(kind < DZ_KERNEL_KINDS_MAX && k->kinds[kind].runner);
    struct dz_task *t = dz_zalloc(sizeof *t);
    if (t) {
        t->runner = k->kinds[kind].runner;
        t->runner_arg = k->kinds[kind].arg;
        t->program.kind = kind;
        t->kernel = k;
        t->thread = thread;
        t->proc = dz_k_proc_of(k, thread);
        t->serial = ++k->next_serial;
    }
    return t;
}

void dz_k_program_share(struct dz_task *t, const struct dz_task *with)
{
    const struct dz_kernel_ops *ops = &t->kernel->ops;
    t->program = with->program;
    if (t->program.handle && ops->program_ref)
        ops->program_ref(ops->arg, &t->program);
}

void dz_k_task_drop(struct dz_task *t)
{
    const struct dz_kernel_ops *ops = &t->kernel->ops;
    if (!t->borrowed) {
        t->runner->unload(t->runner_arg, t);
        if (t->program.handle && ops->program_put)
            ops->program_put(ops->arg, &t->program);
    }
    dz_free(t);
}

void dz_k_take_back(struct dz_task *t)
{
    if (!t->runner->frames_save)
        return;
    t->runner->frames_restore(t->runner_arg, t);
    t->runner->set_task(t->runner_arg, t);
}

void dz_k_task_free(struct dz_kernel *k, struct dz_thread *thread)
{
    struct dz_task *t = thread ? k->task[thread->index] : NULL;
    if (!t)
        return;
    k->task[thread->index] = NULL;
    assert(!t->away || k->away > 0);
    if (t->away)
        k->away--;
    dz_k_task_drop(t);
}

void dz_k_call_back(struct dz_kernel *k, const struct dz_thread *t)
{
    struct dz_task *task = k->task[t->index];
    if (task && task->away)
        task->runner->interrupt(task->runner_arg, task);
}

struct dz_task *dz_kernel_thread_task(struct dz_kernel *k, uint32_t thread)
{
    return dz_k_thread(k, thread) ? k->task[thread] : NULL;
}

struct dz_task *dz_kernel_task(struct dz_kernel *k, uint32_t proc)
{
    const struct dz_proc *p = dz_k_proc(k, proc);
    return p && p->threads ? k->task[p->threads] : NULL;
}

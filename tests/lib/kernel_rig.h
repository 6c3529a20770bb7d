/* SPDX-License-Identifier: MIT
 *
 * kernel_rig.h - a kernel over a simulated disk, whose processes are coroutines.
 *
 * A program is a C function that makes calls through SYS(), which parks the
 * coroutine as a real guest is parked, and issues the call again. Signal handlers are C functions,
 * too, called on top of the call in which the program waits. Wall time and CPU time stand still
 * until a program or the test moves them. Include it once.
 */
#ifndef DZ_TESTS_KERNEL_RIG_H
#define DZ_TESTS_KERNEL_RIG_H

#include "vfs_rig.h"

#include "kernel/kernel_int.h"

#include <linux/sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <ucontext.h>

enum {
    FIB_STACK = 128 * 1024,
    FIB_PROGS = 16,
    FIB_OUT = 1 << 16,
#ifdef KRIG_NATIVE
#define KRIG_AWAY
    KRIG_IS_NATIVE = 1,
#else
    KRIG_IS_NATIVE = 0,
#endif
#ifdef KRIG_AWAY
    KRIG_IS_AWAY = 1,
#else
    KRIG_IS_AWAY = 0,
#endif
};

struct fib;
typedef int (*fib_main)(struct fib *f);

struct fib_prog {
    char path[32];
    uint64_t ino;
    fib_main main;
    int users;
};

struct krig {
    struct rig disk;
    struct dz_kernel *k;
    int64_t now, cpu; /* ns */
    struct fib_prog prog[FIB_PROGS];
    int progs;
    char out[FIB_OUT];    /* the output of all streams */
    size_t out_len, take; /* take: bytes that the embedder still accepts */
    int commits;
    uint64_t space;     /* key space of shared futexes */
    uint32_t words[64]; /* the memory of all processes: their addresses are 4 * index */
    void *arg;          /* the test's */
    char log[4096];
    bool quiet; /* programs are expected to fail: print no failures */
};

struct fib {
    struct krig *r;
    struct dz_kernel *k;
    struct dz_proc *p;
    ucontext_t ctx, back;
    char *stack;
    fib_main main, child; /* child: the main function of the next fork's child */
    bool forked;          /* begins parked in the fork call, which then returns 0 */
    enum dz_run_stop stop;
    struct {
        uint32_t handler;
        int signo;
        uint64_t mask; /* native: the signal mask in its frame */
    } inj[64];
    uint32_t depth;
    bool reissued, again; /* native: parked at a finished call; that call is to be reissued */
    int64_t answer;
    struct dz_siginfo info[DZ_KERNEL_SIGNALS + 1]; /* the last siginfo of each signal */
    void (*handler[8])(struct fib *f, int signo);  /* by number, from 2 on */
    int64_t note[8];                               /* for the program's own use */
    struct fib *lender;                            /* vfork child: the parent whose task it uses */
    int lingers; /* number of polls that it stays away when it is let go */
};

static inline void krig_log(struct krig *r, const char *text)
{
    size_t n = strlen(r->log);
    (void)snprintf(r->log + n, sizeof r->log - n, "%s", text);
}

/* ---- coroutines ---------------------------------------------------------------------- */

static void fib_yield(struct fib *f, enum dz_run_stop stop);

/* Run the handlers that were injected since `base`, the last one first. */
static inline void fib_handle(struct fib *f, uint32_t base)
{
    while (f->depth > base) {
        uint32_t h = f->inj[f->depth - 1].handler;
        f->handler[h](f, f->inj[f->depth - 1].signo);
        f->depth--;
        if (!KRIG_IS_NATIVE)
            continue;
        (void)dz_sys_sigreturn(f->k, f->p, f->inj[f->depth].mask);
        if (dz_kernel_must_stop(f->k, f->p))
            fib_yield(f, DZ_RUN_READY);
    }
}

static void fib_yield(struct fib *f, enum dz_run_stop stop)
{
    uint32_t base = f->depth;
    f->stop = stop;
    (void)swapcontext(&f->ctx, &f->back);
    fib_handle(f, base);
}

/* Called when a call has returned. A native call that was interrupted by a handler stays parked
 * until the handler has run. Returns whether the call must then be issued again. */
static inline bool fib_again(struct fib *f, int64_t r)
{
    uint32_t base = f->depth;
    if (!f->reissued)
        return false;
    f->reissued = f->again = false;
    f->answer = r;
    (void)swapcontext(&f->ctx, &f->back);
    bool again = f->again;
    fib_handle(f, base);
    return again;
}

static inline int64_t fib_done(struct fib *f, int64_t r)
{
    if (r == DZ_KEXIT)
        fib_yield(f, DZ_RUN_EXITED);
    if (dz_kernel_must_stop(f->k, f->p))
        fib_yield(f, DZ_RUN_READY);
    return r;
}

#define SYS(f, call)                             \
    ({                                           \
        int64_t sys_;                            \
        do {                                     \
            while ((sys_ = (call)) == DZ_KBLOCK) \
                fib_yield(f, DZ_RUN_BLOCKED);    \
        } while (fib_again(f, sys_));            \
        fib_done(f, sys_);                       \
    })
#define FK(f) (f)->k, (f)->p

static void fib_entry(unsigned lo, unsigned hi)
{
    struct fib *f = (struct fib *)((uintptr_t)lo | (uintptr_t)hi << 32);
    int64_t first = f->forked ? SYS(f, dz_sys_fork(FK(f))) : 0;
    int code = first == 0 ? f->main(f) : 98;
    (void)dz_sys_exit(f->k, f->p, code);
    fib_yield(f, DZ_RUN_EXITED);
    abort();
}

static inline struct fib *fib_new(struct krig *r, fib_main main)
{
    struct fib *f = dz_zalloc(sizeof *f);
    if (!f)
        return NULL;
    f->stack = dz_alloc(FIB_STACK);
    if (!f->stack) {
        dz_free(f);
        return NULL;
    }
    f->r = r;
    f->main = main;
    (void)getcontext(&f->ctx);
    f->ctx.uc_stack.ss_sp = f->stack;
    f->ctx.uc_stack.ss_size = FIB_STACK;
    makecontext(&f->ctx, (void (*)(void))fib_entry, 2, (unsigned)(uintptr_t)f,
                (unsigned)((uintptr_t)f >> 32));
    return f;
}

static inline void fib_free(struct fib *f)
{
    if (f)
        dz_free(f->stack);
    dz_free(f);
}

/* ---- the runner -------------------------------------------------------------------------- */

static inline void fib_attach(struct fib *f, struct dz_task *t)
{
    f->k = t->kernel;
    f->p = t->proc;
    t->own = f;
}

static int fib_load(void *arg, struct dz_task *t, const struct dz_load *from)
{
    const struct fib_prog *g = t->program.handle;
    (void)from;
    struct fib *f = fib_new(arg, g->main);
    if (!f)
        return -ENOMEM;
    fib_attach(f, t);
    return 0;
}

static void fib_unload(void *arg, struct dz_task *t)
{
    (void)arg;
    fib_free(t->own);
    t->own = NULL;
}

static enum dz_run_stop fib_run(void *arg, struct dz_task *t, int *ret_signal)
{
    struct fib *f = t->own;
    (void)arg;
    *ret_signal = SIGSEGV;
    (void)swapcontext(&f->back, &f->ctx);
    return f->stop;
}

/* Store a thread id for clone; an invalid address is ignored, as on Linux. */
static inline void fib_store(struct krig *r, uint64_t at, int32_t tid)
{
    if (at / 4 < DZ_ARRAY_LEN(r->words))
        r->words[at / 4] = (uint32_t)tid;
}

/* A clone shares its parent's memory, because all processes of the rig share one memory. */
static int fib_copy(void *arg, struct dz_task *from, struct dz_task *to, const struct dz_clone *how)
{
    struct krig *r = arg;
    if (how && (how->flags & CLONE_PARENT_SETTID))
        fib_store(r, how->parent_tid, to->thread->tid);
    if (how && (how->flags & CLONE_CHILD_SETTID))
        fib_store(r, how->child_tid, to->thread->tid);
    const struct fib *f = from->own;
    struct fib *c = fib_new(arg, f->child);
    if (!c)
        return -ENOMEM;
    c->forked = true;
    memcpy(c->handler, f->handler, sizeof c->handler);
    memcpy(c->note, f->note, sizeof c->note);
    fib_attach(c, to);
    return 0;
}

static int fib_inject(void *arg, struct dz_task *t, const struct dz_inject *h)
{
    const struct dz_siginfo *info = h->info;
    uint64_t handler = h->act->handler;
    struct fib *f = t->own;
    (void)arg;
    if (handler >= 8 || !f->handler[handler])
        return -ENOSYS;
    f->inj[f->depth].handler = (uint32_t)handler;
    f->inj[f->depth].mask = h->mask;
    if (h->in_call)
        f->again = h->again;
    f->info[info->signo] = *info;
    f->inj[f->depth++].signo = info->signo;
    return 0;
}

static inline uint32_t fib_injected(void *arg, struct dz_task *t)
{
    (void)arg;
    return ((struct fib *)t->own)->depth;
}

static inline int64_t fib_reissue(void *arg, struct dz_task *t)
{
    struct fib *f = t->own;
    (void)arg;
    f->reissued = true;
    (void)swapcontext(&f->back, &f->ctx);
    return f->answer;
}

/* vfork: the child's coroutine takes the parent's place in the task. */
static inline int fib_frames_save(void *arg, struct dz_task *t)
{
    struct fib *f = t->own;
    struct fib *c = fib_new(arg, f->child);
    if (!c)
        return -ENOMEM;
    c->lender = f;
    t->own = c;
    c->k = f->k;
    c->forked = true;
    memcpy(c->note, f->note, sizeof c->note);
    return 0;
}

static inline void fib_frames_restore(void *arg, struct dz_task *t)
{
    (void)arg;
    struct fib *f = ((struct fib *)t->own)->lender;
    fib_free(t->own);
    t->own = f;
}

static inline int fib_jump(void *arg, struct dz_task *t, const uint64_t token[2], uint64_t value)
{
    (void)arg;
    (void)t;
    (void)value;
    return token[0] ? 0 : -EINVAL;
}

static inline void fib_set_task(void *arg, struct dz_task *t)
{
    (void)arg;
    ((struct fib *)t->own)->p = t->proc;
}

static void fib_interrupt(void *arg, struct dz_task *t)
{
    (void)arg;
    (void)t; /* a coroutine looks at must_stop after each call */
}

/* The guests' memory: the rig has one for all processes. */
static int fib_read(void *arg, struct dz_task *t, uint64_t at, void *buf, size_t n)
{
    const struct krig *r = arg;
    (void)t;
    if (at > sizeof r->words || n > sizeof r->words - at)
        return -EFAULT;
    memcpy(buf, (const char *)r->words + at, n);
    return 0;
}

static int fib_word(void *arg, struct dz_task *t, const struct dz_word *w, uint32_t *ret_was)
{
    struct krig *r = arg;
    (void)t;
    if (w->at / 4 >= DZ_ARRAY_LEN(r->words))
        return -EFAULT;
    uint32_t *at = &r->words[w->at / 4], was = *at;
    const uint32_t now[] = {
        [DZ_WORD_LOAD] = was,
        [DZ_WORD_SET] = w->value,
        [DZ_WORD_ADD] = was + w->value,
        [DZ_WORD_OR] = was | w->value,
        [DZ_WORD_ANDN] = was & ~w->value,
        [DZ_WORD_XOR] = was ^ w->value,
        [DZ_WORD_SWAP_IF] = was == w->old ? w->value : was,
    };
    *at = now[w->op];
    *ret_was = was;
    return 0;
}

static int fib_key(void *arg, struct dz_task *t, uint64_t at, bool shared, uint64_t ret_key[2])
{
    const struct krig *r = arg;
    ret_key[0] = shared ? UINT64_MAX - r->space : (uint64_t)t->proc->pid;
    ret_key[1] = at;
    return 0;
}

/* A variant of the runner whose tasks run elsewhere: `run` only lets a task go, and the task does
 * its work in a later poll. KRIG_AWAY selects it. */
static inline enum dz_run_stop fib_let_go(void *arg, struct dz_task *t, int *ret_signal)
{
    (void)arg, (void)t, (void)ret_signal;
    return DZ_RUN_AWAY;
}

static inline void fib_poll(void *arg)
{
    struct krig *r = arg;
    if (dz_kernel_runnable(r->k)) /* first let all runnable tasks go */
        return;
    for (uint32_t i = 1; i <= r->k->tab[DZ_KERNEL_TABLE_THREAD].high; i++) {
        struct dz_task *t = r->k->task[i];
        int signo = 0;
        int64_t before = r->cpu;
        if (!t || !t->away)
            continue;
        struct fib *f = t->own;
        if (f->lingers > 0 && f->lingers--)
            continue;
        dz_kernel_serve(t);
        enum dz_run_stop stop = fib_run(arg, t, &signo);
        dz_kernel_task_event(t, stop, signo, r->cpu - before);
    }
}

static const struct dz_kernel_runner fib_runner = {
#ifdef KRIG_AWAY
    .run = fib_let_go,
    .poll = fib_poll,
    .copies_at_once = true,
#else
    .run = fib_run,
#endif
    .load = fib_load,
    .unload = fib_unload,
    .copy = fib_copy,
    .inject = fib_inject,
#ifdef KRIG_NATIVE
    .reissue = fib_reissue,
#else
    .injected = fib_injected,
    .frames_save = fib_frames_save,
    .frames_restore = fib_frames_restore,
    .jump = fib_jump,
    .set_task = fib_set_task,
#endif
    .interrupt = fib_interrupt,
    .word = fib_word,
    .read = fib_read,
    .key = fib_key,
};

/* ---- the embedder --------------------------------------------------------------------------- */

static int64_t krig_mono(void *arg)
{
    return ((struct krig *)arg)->now;
}
static int64_t krig_cpu(void *arg)
{
    return ((struct krig *)arg)->cpu;
}
static int krig_random(void *arg, void *buf, size_t n)
{
    (void)arg;
    memset(buf, 0x5a, n);
    return 0;
}
static int krig_commit(void *arg, struct dz_err *err)
{
    struct krig *r = arg;
    r->commits++;
    return dz_vfs_commit(r->disk.v, err);
}
static size_t krig_output(void *arg, uint32_t stream, uint64_t tag, const void *data, size_t n)
{
    struct krig *r = arg;
    (void)stream;
    (void)tag;
    n = n < r->take ? n : r->take;
    n = n < sizeof r->out - r->out_len ? n : sizeof r->out - r->out_len;
    memcpy(r->out + r->out_len, data, n);
    r->out_len += n;
    r->take -= n;
    return n;
}
static int krig_program_get(void *arg, uint64_t ino, const struct dz_vfs_attr *attr,
                            struct dz_program *ret_program, struct dz_err *err)
{
    struct krig *r = arg;
    (void)attr;
    for (int i = 0; i < r->progs; i++)
        if (r->prog[i].ino == ino) {
            r->prog[i].users++;
            *ret_program = (struct dz_program){.handle = &r->prog[i]};
            return 0;
        }
    return dz_fail(err, DZ_EINVAL, "no program");
}
static void krig_program_ref(void *arg, const struct dz_program *program)
{
    (void)arg;
    ((struct fib_prog *)program->handle)->users++;
}
static void krig_program_put(void *arg, const struct dz_program *program)
{
    (void)arg;
    ((struct fib_prog *)program->handle)->users--;
}

static const struct dz_kernel_ops krig_ops = {
    .mono_ns = krig_mono,
    .real_ns = krig_mono,
    .cpu_ns = krig_cpu,
    .random = krig_random,
    .commit = krig_commit,
    .output = krig_output,
    .program_get = krig_program_get,
    .program_ref = krig_program_ref,
    .program_put = krig_program_put,
};

/* If set, new kernels also run native programs. */
static bool krig_linux;
/* The outside of new kernels. */
static const struct dz_net_ops *krig_net;
static inline int krig_kernel(struct krig *r, const struct dz_kernel_limits *limits, uint32_t caps)
{
    struct dz_kernel_ops ops = krig_ops;
    ops.arg = r;
    const struct dz_kernel_opts opts = {
        .vfs = r->disk.v,
        .ops = &ops,
        .limits = limits,
        .caps = caps,
        .net = krig_net,
        .kinds = {{&fib_runner, r}, {krig_linux ? &fib_runner : NULL, r}}};
    return dz_kernel_new(&opts, &r->k, &r->disk.err);
}

/* Install a program at /bin/NAME. */
static inline void krig_prog(struct krig *r, const char *name, fib_main main)
{
    struct fib_prog *g = &r->prog[r->progs++];
    (void)snprintf(g->path, sizeof g->path, "/bin/%s", name);
    (void)rig_put(&r->disk, g->path, "\0asm", 4);
    g->ino = rig_ino(&r->disk, g->path);
    g->main = main;
    (void)dz_vfs_chmod(r->disk.v, &rig_root, g->ino, 0755);
}

static inline void krig_start(struct krig *r)
{
    memset(r, 0, sizeof *r);
    rig_start(&r->disk);
    r->now = 1000000000;
    r->take = SIZE_MAX;
    (void)rig_mkdir(&r->disk, "/bin");
    if (krig_kernel(r, NULL, 0) != 0)
        abort();
}

/* Free everything. Returns the number of programs that were not put back, which must be 0. */
static inline int krig_stop(struct krig *r)
{
    int users = 0;
    dz_kernel_free(r->k);
    rig_free(&r->disk);
    for (int i = 0; i < r->progs; i++)
        users += r->prog[i].users;
    return users;
}

/* Start /bin/NAME as user uid on these streams (0 = null). Returns the job, 0 on failure. */
static inline uint32_t krig_spawn(struct krig *r, const char *name, uint32_t uid,
                                  const struct dz_spawn_fd *fds, size_t n)
{
    char path[64];
    uint32_t job = 0;
    (void)snprintf(path, sizeof path, "/bin/%s", name);
    const struct dz_spawn spec = {.path = path,
                                  .argv = {name, strlen(name) + 1, 1},
                                  .env = {"A=1\0B=2", 8, 2},
                                  .uid = uid,
                                  .gid = uid,
                                  .fds = fds,
                                  .fd_count = n,
                                  .session = true};
    (void)dz_kernel_spawn(r->k, &spec, &job, &r->disk.err);
    return job;
}

/* Run until `jobs` jobs have ended or nothing can happen any more; when idle, move the time to the
 * next deadline. Returns the number of jobs that ended; the last one is in *ret. */
static inline int krig_run(struct krig *r, int jobs, struct dz_job *ret)
{
    int ended = 0;
    for (int i = 0; i < 100000 && ended < jobs; i++) {
        enum dz_kernel_state s = dz_kernel_run(r->k, INT64_MAX, &r->disk.err);
        if (dz_kernel_event(r->k, ret)) {
            ended++;
            continue;
        }
        int64_t at = dz_kernel_next_deadline(r->k);
        if (s == DZ_KERNEL_IDLE && dz_kernel_away(r->k) != 0)
            continue; /* its event will come */
        if (s == DZ_KERNEL_FAILED || (s == DZ_KERNEL_IDLE && at == INT64_MAX))
            break;
        int64_t wait = at - dz_kernel_now(r->k);
        if (s == DZ_KERNEL_IDLE && wait > 0)
            r->now += wait;
    }
    return ended;
}

/* Run one program to its end, as most tests do. Returns its exit status; -1: it hangs. */
static inline int krig_main_as(fib_main main, uint32_t uid, struct krig *r)
{
    struct dz_job job = {0};
    krig_start(r);
    krig_prog(r, "main", main);
    (void)krig_spawn(r, "main", uid, NULL, 0);
    return krig_run(r, 1, &job) == 1 ? job.status : -1;
}

/* A check inside a program: on failure the program exits with 99; the test expects status 0. */
#define OK(f, expr)                                                                          \
    do {                                                                                     \
        if (!(expr)) {                                                                       \
            if (!(f)->r->quiet)                                                              \
                printf("# %s:%d: not true in pid %d: %s\n", __FILE__, __LINE__, (f)->p->pid, \
                       #expr);                                                               \
            return 99;                                                                       \
        }                                                                                    \
    } while (0)

/* fork: the child runs `child`; the parent gets its pid. */
static inline int64_t fib_fork(struct fib *f, fib_main child)
{
    f->child = child;
    return SYS(f, dz_sys_fork(FK(f)));
}
/* Start a second thread of f's process that runs `does`. Returns its thread id. */
static inline int32_t fib_thread(struct fib *f, fib_main does)
{
    struct dz_thread *t = dz_k_thread_new(f->k, f->p);
    struct dz_task *task = t ? dz_k_task_new(f->k, t, 0) : NULL;
    struct fib *own = task ? fib_new(f->r, does) : NULL;
    if (!own)
        return -1;
    memcpy(own->handler, f->handler, sizeof own->handler);
    fib_attach(own, task);
    f->k->task[t->index] = task;
    t->sig_mask = dz_k_me(FK(f))->sig_mask;
    dz_k_enqueue(f->k, t, DZ_K_Q_NEW);
    return t->tid;
}
static inline int64_t fib_wait(struct fib *f, int64_t pid, int *ret_status)
{
    return SYS(f, dz_sys_waitpid(FK(f), (int)pid, 0, ret_status, NULL));
}
static inline void fib_sleep(struct fib *f, int64_t ms)
{
    (void)SYS(f, dz_sys_clock_nanosleep(FK(f), CLOCK_MONOTONIC, false, ms * 1000000, NULL));
}
static inline void fib_burn(struct fib *f, int64_t ns)
{
    f->r->cpu += ns;
    f->r->now += ns;
    fib_yield(f, DZ_RUN_READY); /* as at the end of a slice */
}
static inline int64_t fib_open(struct fib *f, const char *path, int flags)
{
    return SYS(f,
               dz_sys_openat(FK(f), (struct dz_at){.dirfd = AT_FDCWD, .path = path}, flags, 0644));
}

/* Run the program repeatedly, with the 1st, the 2nd, ... allocation after the start failing, until
 * a run has no failing allocation. After each run the kernel must release everything; the run
 * without a failure must exit with 0. Returns the number of runs with a failure. */
static inline long krig_torture(fib_main main, const char *second, fib_main second_main)
{
    for (long at = 0;; at++) {
        struct krig r;
        struct dz_job job = {0};
        krig_start(&r);
        r.quiet = true;
        krig_prog(&r, "main", main);
        if (second)
            krig_prog(&r, second, second_main);
        (void)dz_mem_failed();
        dz_mem_fail_at(at, false);
        if (krig_spawn(&r, "main", 0, NULL, 0))
            (void)krig_run(&r, 1, &job);
        bool failed = dz_mem_failed();
        dz_mem_fail_at(-1, false);
        if (krig_stop(&r) != 0)
            return -1;
        if (!failed)
            return job.end == DZ_JOB_EXITED && job.status == 0 ? at : -2;
    }
}

#endif

/* SPDX-License-Identifier: MIT
 * A machine's rows, written out of one kernel and into another. */
#include "../lib/kernel_rig.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>

/* A program whose place can be seen from its descriptors, so that a coroutine that
 * begins anew can go on where the other stood: note[] is lost, the kernel's state not. */
static int reader(struct fib *f)
{
    char buf[16];
    if (dz_sys_fd(FK(f), 5) == NULL) { /* the first life */
        int fds[2];
        OK(f, dz_sys_pipe2(FK(f), 0, fds) == 0);
        OK(f, dz_sys_dup2(FK(f), fds[1], 5) == 5);
        OK(f, fib_open(f, "/tmp/f", O_CREAT | O_RDWR) == 2);
        OK(f, SYS(f, dz_sys_write(FK(f), 2, "abc", 3)) == 3);
        OK(f, dz_sys_unlinkat(FK(f), (struct dz_at){AT_FDCWD, "/tmp/f", 0}, false) == 0);
        const struct dz_sigact a = {.handler = 2, .flags = 0, .mask = 0};
        OK(f, dz_sys_sigaction(FK(f), SIGUSR1, &a, NULL) == 0);
    }
    fib_sleep(f, 60000);
    OK(f, f->p->act[SIGUSR1 - 1].handler == 2);
    OK(f, SYS(f, dz_sys_write(FK(f), 5, "pipe", 4)) == 4);
    OK(f, SYS(f, dz_sys_read(FK(f), 0, buf, sizeof buf)) == 4 && memcmp(buf, "pipe", 4) == 0);
    OK(f, dz_sys_lseek(FK(f), 2, 0, SEEK_CUR) == 3);
    OK(f, dz_sys_pread(FK(f), 2, buf, 3, 0) == 3 && memcmp(buf, "abc", 3) == 0);
    return 0;
}

/* Everything of `from` into the fresh kernel `to`. */
static int move(struct krig *from, struct krig *to, int64_t slept)
{
    struct dz_kernel_misc misc;
    dz_kernel_misc_get(from->k, &misc);
    for (uint32_t b = 1; b <= dz_kernel_blobs(from->k); b++) {
        size_t n;
        const void *p = dz_kernel_blob(from->k, b, &n);
        int rc = p ? dz_kernel_blob_put(to->k, b, p, n, &to->disk.err) : 0;
        if (rc)
            return rc;
    }
    for (int t = 0; t < DZ_KERNEL_TABLE_COUNT; t++)
        for (uint32_t i = 1; i <= dz_kernel_rows(from->k, (enum dz_kernel_table)t); i++) {
            const void *row = dz_kernel_row(from->k, (enum dz_kernel_table)t, i);
            int rc =
                row ? dz_kernel_row_put(to->k, (enum dz_kernel_table)t, row, &to->disk.err) : 0;
            if (rc)
                return rc;
        }
    DZ_K_FOREACH(dz_thread, p, to->k, DZ_KERNEL_TABLE_THREAD)
    {
        struct dz_task *t = dz_k_task_new(to->k, p, 0);
        if (!t)
            continue;
        fib_attach(fib_new(to, to->prog[0].main), t);
        to->k->task[p->index] = t;
    }
    return dz_kernel_thaw(to->k, &misc, slept, &to->disk.err);
}

/* A second, empty kernel over the disk of the first. */
static void beside(struct krig *a, struct krig *b)
{
    memcpy(b, a, sizeof *b);
    b->prog[0].users = 0;
    CHECK_INT(krig_kernel(b, NULL, 0), 0);
}

/* One process runs `program` until it waits; the second kernel is empty. */
static void two_of(struct krig *a, struct krig *b, fib_main program)
{
    krig_start(a);
    krig_prog(a, "main", program);
    (void)krig_spawn(a, "main", 0, NULL, 0);
    CHECK_INT(dz_kernel_run(a->k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    beside(a, b);
}
static void two(struct krig *a, struct krig *b)
{
    two_of(a, b, reader);
}
static void end_two(struct krig *a, struct krig *b)
{
    dz_kernel_free(b->k);
    CHECK_INT(krig_stop(a), 0);
}

TEST(save_a_sleeping_machine_goes_on_elsewhere)
{
    static struct krig a, b;
    struct dz_job job = {0};
    two(&a, &b);
    CHECK_INT(move(&a, &b, 20000000000), 0); /* 20 s of the 60 passed meanwhile */
    CHECK_INT(dz_kernel_run(b.k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    CHECK_INT(dz_kernel_next_deadline(b.k) - dz_kernel_now(b.k), 40000000000);
    CHECK_INT(krig_run(&b, 1, &job), 1);
    CHECK_INT(job.status, 0);
    end_two(&a, &b);
}

/* Two threads: the second waits for a futex, and is woken in the second kernel. */
static bool moved;
static int waits_for_futex(struct fib *f)
{
    OK(f, SYS(f, dz_sys_futex_wait(FK(f), (struct dz_futex){.at = 4}, 0, 1, INT64_MAX)) == 0);
    return 11;
}
static int has_waiter(struct fib *f)
{
    const uint64_t rt = DZ_K_BIT(40);
    struct dz_siginfo info = {.signo = 40, .code = SI_QUEUE};
    if (dz_sys_gettid(FK(f)) != f->p->pid)
        return waits_for_futex(f);
    if (!moved) {
        (void)dz_sys_sigprocmask(FK(f), 0, &rt, NULL);
        (void)fib_thread(f, waits_for_futex);
        for (info.value = 1; info.value < 4; info.value++)
            OK(f, dz_sys_sigqueue(FK(f), f->p->pid, 0, &info) == 0);
    }
    fib_sleep(f, 60000);
    for (uint64_t i = 1; i < 4; i++)
        OK(f, SYS(f, dz_sys_sigtimedwait(FK(f), rt, 0, &info)) == 40 && info.value == i);
    OK(f, SYS(f, dz_sys_futex_wake(FK(f), (struct dz_futex){.at = 4}, 9, 1)) == 1);
    fib_sleep(f, 1000);
    return 12;
}
TEST(save_threads_futexes_and_queues_go_on_elsewhere)
{
    static struct krig a, b;
    struct dz_job job = {0};
    moved = false;
    two_of(&a, &b, has_waiter);
    moved = true;
    b.words[1] = 7; /* the word is looked at once, when the wait begins */
    CHECK_INT(move(&a, &b, 0), 0);
    CHECK_INT(krig_run(&b, 1, &job), 1);
    CHECK_INT(WEXITSTATUS(job.status), 11);
    end_two(&a, &b);
}

TEST(save_damaged_rows_are_refused)
{
    static struct krig a, b;
    int refused = 0, taken = 0;
    two(&a, &b);
    dz_kernel_free(b.k);
    struct dz_proc *p = dz_k_proc(a.k, 2);
    struct dz_thread *t = dz_k_me(a.k, p);
    struct dz_file *f = dz_k_file(a.k, 1);
    struct dz_pipe *q = dz_k_pipe(a.k, 1);
    uint32_t *const victims[] = {&p->job,
                                 &p->fds,
                                 &p->fd_count,
                                 &p->argv,
                                 &p->state,
                                 &t->depth,
                                 &t->proc,
                                 &t->frame,
                                 (uint32_t *)&t->tid,
                                 &p->tty,
                                 &f->kind,
                                 &f->obj,
                                 &q->head,
                                 &q->len,
                                 &q->blob,
                                 &p->index,
                                 &f->index,
                                 &p->exe_path,
                                 (uint32_t *)&p->pid,
                                 (uint32_t *)&p->ppid,
                                 &p->group_count};
    static const uint32_t values[] = {77, 0x7fffffff, UINT32_MAX};
    for (size_t i = 0; i < DZ_ARRAY_LEN(victims); i++)
        for (size_t v = 0; v < DZ_ARRAY_LEN(values); v++) {
            uint32_t old = *victims[i];
            CHECK_INT(krig_kernel(&b, NULL, 0), 0);
            *victims[i] = values[v];
            int rc =
                victims[i] == &p->index || victims[i] == &f->index ? DZ_ECORRUPT : move(&a, &b, 0);
            if (rc != 0 && rc != DZ_ECORRUPT)
                printf("# victim %zu value %zu: %d\n", i, v, rc);
            refused += rc == DZ_ECORRUPT;
            taken += rc != DZ_ECORRUPT;
            *victims[i] = old;
            dz_kernel_free(b.k);
        }
    CHECK_INT(krig_kernel(&b, NULL, 0), 0);
    p->flags |= DZ_PROC_INIT; /* only process 1 is */
    CHECK_INT(move(&a, &b, 0), DZ_ECORRUPT);
    p->flags &= ~(uint32_t)DZ_PROC_INIT;
    dz_kernel_free(b.k);
    CHECK_INT(krig_kernel(&b, NULL, 0), 0);
    uint32_t had = f->path;
    f->path = p->argv; /* the bytes of another */
    CHECK_INT(move(&a, &b, 0), DZ_ECORRUPT);
    f->path = had;
    dz_kernel_free(b.k);
    CHECK_INT(krig_kernel(&b, NULL, 0), 0);
    t->frame = p->argv;
    CHECK_INT(move(&a, &b, 0), DZ_ECORRUPT);
    t->frame = 0;
    dz_kernel_free(b.k);
    CHECK_INT(krig_kernel(&b, NULL, 0), 0);
    p->ppid = p->pid; /* its own parent */
    CHECK_INT(move(&a, &b, 0), DZ_ECORRUPT);
    p->ppid = 1;
    dz_kernel_free(b.k);
    CHECK_INT(taken, 2); /* 77 is a number for a process, and for a thread */
    CHECK(refused > 0);
    CHECK_INT(krig_stop(&a), 0);
}

/* ---- what of a process must live on ----------------------------------------------------- */

/* Descriptor 5 is open in the second life. */
static bool first_life(struct fib *f)
{
    if (dz_sys_fd(FK(f), 5))
        return false;
    int64_t fd = fib_open(f, "/", O_RDONLY);
    return fd >= 0 && dz_sys_dup2(FK(f), (int)fd, 5) == 5;
}

static int keeps_a_signal(struct fib *f)
{
    uint64_t pending = 0, usr1 = DZ_K_BIT(SIGUSR1);
    if (first_life(f)) {
        OK(f, dz_sys_sigprocmask(FK(f), 0, &usr1, NULL) == 0);
        OK(f, dz_sys_kill(FK(f), f->p->pid, SIGUSR1) == 0);
    }
    fib_sleep(f, 60000);
    OK(f, dz_sys_sigpending(FK(f), &pending) == 0 && pending == usr1);
    OK(f, dz_k_me(FK(f))->sig_mask == usr1);
    return 0;
}
TEST(save_keeps_signals_that_are_pending)
{
    static struct krig a, b;
    struct dz_job job = {0};
    two_of(&a, &b, keeps_a_signal);
    CHECK_INT(move(&a, &b, 0), 0);
    CHECK_INT(krig_run(&b, 1, &job), 1);
    CHECK_INT(job.status, 0);
    end_two(&a, &b);
}

static int sleeps(struct fib *f)
{
    (void)first_life(f);
    fib_sleep(f, 1000);
    return 0;
}
TEST(save_leaves_a_stopped_process_stopped)
{
    static struct krig a, b;
    struct dz_job job = {0};
    two_of(&a, &b, sleeps);
    dz_k_send(a.k, dz_k_proc(a.k, 2), SIGSTOP, 0);
    CHECK_INT(dz_kernel_run(a.k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    CHECK_INT(move(&a, &b, 2000000000), 0); /* longer than it sleeps */
    CHECK(!dz_kernel_runnable(b.k));
    CHECK_INT(krig_run(&b, 1, &job), 0);
    struct dz_proc *p = dz_k_proc(b.k, 2);
    CHECK(p && (p->flags & DZ_PROC_STOPPED) && p->stop_sig == SIGSTOP);
    if (p)
        dz_k_send(b.k, p, SIGCONT, 0);
    CHECK_INT(krig_run(&b, 1, &job), 1);
    CHECK_INT(job.status, 0);
    end_two(&a, &b);
}

static void notes_alarm(struct fib *f, int signo)
{
    f->note[7] = signo;
}
static int computes(struct fib *f)
{
    const struct dz_sigact a = {.handler = 2, .flags = 0, .mask = 0};
    const int64_t set[2] = {0, 20000000000};
    f->handler[2] = notes_alarm;
    if (first_life(f)) {
        OK(f, dz_sys_sigaction(FK(f), SIGALRM, &a, NULL) == 0);
        OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, set, NULL) == 0);
    }
    for (int i = 0; i < 1000 && f->note[7] == 0; i++)
        fib_burn(f, 100000000);
    return f->note[7] == SIGALRM ? 0 : 1;
}
TEST(save_keeps_the_timer_of_a_process_that_computes)
{
    static struct krig a, b;
    struct dz_job job = {0};
    krig_start(&a);
    krig_prog(&a, "main", computes);
    (void)krig_spawn(&a, "main", 0, NULL, 0);
    CHECK_INT(dz_kernel_run(a.k, a.now + 1000000000, NULL), DZ_KERNEL_TIME);
    CHECK_INT(dz_k_thread(a.k, dz_k_proc(a.k, 2)->threads)->state, DZ_THREAD_READY);
    beside(&a, &b);
    CHECK_INT(move(&a, &b, 0), 0);
    CHECK_INT(dz_kernel_run(b.k, INT64_MAX, NULL), DZ_KERNEL_EVENT); /* nobody asks when */
    CHECK(dz_kernel_event(b.k, &job));
    CHECK_INT(job.status, 0);
    end_two(&a, &b);
}

/* ---- what is counted anew ------------------------------------------------------------------ */

/* Two processes of one job, a pipe both of whose ends are open twice, a description for
 * both directions of a FIFO, an input stream. */
static int waits_in_a_family(struct fib *f)
{
    fib_sleep(f, f->p->ppid == 1 ? 2000 : 1000);
    return 0;
}
static int makes_a_family(struct fib *f)
{
    const struct dz_at at = {.dirfd = AT_FDCWD, .path = "/tmp/q"};
    if (first_life(f)) {
        int fds[2];
        OK(f, dz_sys_pipe2(FK(f), 0, fds) == 0);
        OK(f, SYS(f, dz_sys_write(FK(f), fds[1], "x", 1)) == 1);
        OK(f, SYS(f, dz_sys_mknodat(FK(f), at, S_IFIFO | 0644, 0)) == 0);
        OK(f, fib_open(f, "/tmp/q", O_RDWR) >= 0);
        OK(f, fib_fork(f, waits_in_a_family) > 0);
    }
    return waits_in_a_family(f);
}
TEST(save_counts_what_is_referred_to)
{
    static struct krig a, b;
    struct dz_job job = {0};
    uint32_t in;
    krig_start(&a);
    krig_prog(&a, "main", makes_a_family);
    CHECK_INT(dz_kernel_stream_new(a.k, DZ_STREAM_IN, 7, &in, NULL), 0);
    const struct dz_spawn_fd fd = {0, in};
    (void)krig_spawn(&a, "main", 0, &fd, 1);
    CHECK_INT(dz_kernel_run(a.k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    beside(&a, &b);
    CHECK_INT(move(&a, &b, 0), 0);
    CHECK_INT(b.k->pipe_bytes, a.k->pipe_bytes);
    CHECK_INT(b.k->pipe_bytes, DZ_KERNEL_PIPE_BUF);
    for (uint32_t i = 1; i <= dz_kernel_rows(a.k, DZ_KERNEL_TABLE_PIPE); i++) {
        const struct dz_pipe *was = dz_k_pipe(a.k, i), *is = dz_k_pipe(b.k, i);
        CHECK(was && is && was->readers == is->readers && was->writers == is->writers);
    }
    CHECK_INT(dz_k_pipe(b.k, 2)->writers, 1); /* the FIFO's, open for both */
    CHECK_INT(dz_k_job(b.k, 1)->procs, 2);
    CHECK_INT(dz_k_stream(b.k, 1)->files, dz_k_stream(a.k, 1)->files);
    CHECK(dz_k_stream(b.k, 1)->files > 0);
    CHECK_INT(b.k->forks, a.k->forks);
    CHECK_INT(b.k->next_pid, a.k->next_pid);
    CHECK_INT(b.k->next_owner, a.k->next_owner);
    CHECK_INT(dz_kernel_stream_find(b.k, 7), in);
    CHECK_INT(dz_kernel_stream_close(b.k, in), 0);
    CHECK_INT(dz_kernel_stream_find(b.k, 7), 0); /* though a process has it open */
    CHECK_INT(krig_run(&b, 1, &job), 1);
    CHECK_INT(job.status, 0);
    CHECK_INT(b.k->tab[DZ_KERNEL_TABLE_STREAM].used, 0);
    CHECK_INT(b.k->tab[DZ_KERNEL_TABLE_PIPE].used, 0);
    CHECK_INT(b.k->pipe_bytes, 0);
    end_two(&a, &b);
}

/* An end that nobody was told of, output that nobody took, typed lines around the end of the
 * ring: all of it is there after a wake. */
static int says_and_ends(struct fib *f)
{
    (void)SYS(f, dz_sys_write(FK(f), 1, "last words", 10));
    return 3;
}
TEST(save_keeps_an_end_and_output_for_the_next_life)
{
    static struct krig a, b;
    struct dz_job job = {0};
    uint32_t out;
    krig_start(&a);
    a.take = 0;
    krig_prog(&a, "main", says_and_ends);
    CHECK_INT(dz_kernel_stream_new(a.k, DZ_STREAM_OUT, 1, &out, NULL), 0);
    const struct dz_spawn_fd fd = {1, out};
    (void)krig_spawn(&a, "main", 0, &fd, 1);
    CHECK_INT(dz_kernel_run(a.k, INT64_MAX, NULL), DZ_KERNEL_EVENT);
    beside(&a, &b);
    b.take = SIZE_MAX;
    dz_k_stream(a.k, 1)->blocked = 0; /* a host that comes anew takes output */
    CHECK_INT(move(&a, &b, 0), 0);
    CHECK_INT(dz_kernel_run(b.k, INT64_MAX, NULL), DZ_KERNEL_EVENT);
    CHECK(dz_kernel_event(b.k, &job));
    CHECK_INT(job.status, 3 << 8);
    CHECK_INT(b.out_len, 10);
    end_two(&a, &b);
}

/* A thread waits for a lock across a sleep, and becomes its owner. */
static int waits_for_lock(struct fib *f)
{
    OK(f, SYS(f, dz_sys_futex_lock(FK(f), (struct dz_futex){.at = 4}, false, INT64_MAX)) == 0);
    OK(f, f->r->words[1] == (uint32_t)dz_sys_gettid(FK(f)));
    return 11;
}
static int owns_a_lock(struct fib *f)
{
    const struct dz_futex lock = {.at = 4};
    if (dz_sys_gettid(FK(f)) != f->p->pid)
        return waits_for_lock(f);
    if (!moved) {
        OK(f, SYS(f, dz_sys_futex_lock(FK(f), lock, false, INT64_MAX)) == 0);
        (void)fib_thread(f, waits_for_lock);
    }
    fib_sleep(f, 60000);
    OK(f, SYS(f, dz_sys_futex_unlock(FK(f), lock)) == 0);
    fib_sleep(f, 1000);
    return 12;
}
TEST(save_waits_for_locks_go_on_elsewhere)
{
    static struct krig a, b;
    struct dz_job job = {0};
    moved = false;
    two_of(&a, &b, owns_a_lock);
    moved = true;
    memcpy(b.words, a.words, sizeof b.words);
    dz_k_thread(a.k, 2)->futex_pi = 3;
    CHECK_INT(move(&a, &b, 0), DZ_ECORRUPT);
    dz_kernel_free(b.k);
    dz_k_thread(a.k, 2)->futex_pi = DZ_FUTEX_LOCK;
    beside(&a, &b);
    CHECK_INT(move(&a, &b, 0), 0);
    CHECK_INT(krig_run(&b, 1, &job), 1);
    CHECK_INT(job.status, 11 << 8);
    end_two(&a, &b);
}

/* Lines of a trace: a call is held while the stream has no room, lines without room are counted,
 * and all of that sleeps. */
static int says_much(struct fib *f)
{
    static char line[5000];
    const struct dz_task *t = f->k->task[dz_k_me(FK(f))->index];
    memset(line, 'x', sizeof line);
    if (f->r->take == 0) {
        OK(f, dz_kernel_traced(FK(f)));
        for (int i = 0; i < 20; i++)
            dz_kernel_trace(t, line, sizeof line);
    }
    OK(f, SYS(f, dz_kernel_trace_hold(FK(f)) ? DZ_KBLOCK : 5) == 5);
    OK(f, f->r->take > 0 && !dz_k_parked(dz_k_me(FK(f)))->parked);
    dz_kernel_trace(t, "last", 4);
    return 0;
}
TEST(save_keeps_a_trace_and_the_calls_that_wait_for_its_reader)
{
    static struct krig a, b;
    struct dz_job job = {0};
    uint32_t out, number;
    krig_start(&a);
    a.take = 0;
    krig_prog(&a, "main", says_much);
    CHECK_INT(dz_kernel_stream_new(a.k, DZ_STREAM_OUT, 1, &out, NULL), 0);
    const struct dz_spawn spec = {
        .path = "/bin/main", .argv = {"main", 5, 1}, .trace = out, .session = true};
    CHECK_INT(dz_kernel_spawn(a.k, &spec, &number, NULL), 0);
    CHECK_INT(dz_kernel_run(a.k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    CHECK_INT(dz_k_thread(a.k, 1)->call[0].flags, DZ_CALL_HELD);
    CHECK_INT(dz_k_stream(a.k, 1)->missing, 5);
    beside(&a, &b);
    dz_k_job(a.k, 1)->trace = 9; /* no such stream */
    CHECK_INT(move(&a, &b, 0), DZ_ECORRUPT);
    dz_kernel_free(b.k);
    dz_k_job(a.k, 1)->trace = 1;
    beside(&a, &b);
    b.take = SIZE_MAX;
    dz_k_stream(a.k, 1)->blocked = 0;
    CHECK_INT(move(&a, &b, 0), 0);
    CHECK_INT(krig_run(&b, 1, &job), 1);
    CHECK_INT(job.status, 0);
    CHECK_INT(dz_kernel_flush(b.k, NULL), 0);
    CHECK(memcmp(b.out, "    2 xxxx", 10) == 0 &&
          memcmp(b.out + 6 + 4096, "...\n    2 x", 11) == 0);
    CHECK_STR(b.out + b.out_len - 40, "x...\n... 5 lines are missing\n    2 last\n");
    CHECK_INT(dz_kernel_stream_sink(b.k, out), 0);
    CHECK(!dz_k_stream(b.k, 1));
    end_two(&a, &b);
}

TEST(save_counts_lines_around_the_end_of_the_ring)
{
    static struct krig a, b;
    const struct dz_winsize size = {24, 80, 0, 0};
    uint32_t stream;
    uint8_t buf[DZ_KERNEL_TTY_IN];
    krig_start(&a);
    CHECK_INT(dz_kernel_pty_new(a.k, &size, 5, &stream, NULL), 0);
    struct dz_pty *t = dz_k_pty(a.k, 1);
    for (int i = 0; i < DZ_KERNEL_TTY_IN / 8; i++) { /* 8 bytes a line, up to the end but 4 */
        CHECK_INT(dz_kernel_stream_push(a.k, stream, i ? "0123456\r" : "012\r", i ? 8 : 4),
                  i ? 8 : 4);
        CHECK_INT(dz_k_ldisc_read(a.k, t, buf, sizeof buf), i ? 8 : 4);
    }
    CHECK_INT(t->head, DZ_KERNEL_TTY_IN - 4);
    CHECK_INT(dz_kernel_stream_push(a.k, stream, "ab\rcdefgh\ri", 11), 11);
    beside(&a, &b);
    CHECK_INT(move(&a, &b, 0), 0);
    t = dz_k_pty(b.k, 1);
    CHECK_INT(t->lines, 2);
    CHECK_INT(dz_k_ldisc_read(b.k, t, buf, sizeof buf), 3);
    CHECK_INT(dz_k_ldisc_read(b.k, t, buf, sizeof buf), 7);
    CHECK(memcmp(buf, "cdefgh\n", 7) == 0);
    CHECK_INT(dz_k_ldisc_read(b.k, t, buf, sizeof buf), -EAGAIN);
    end_two(&a, &b);
}

/* A change of one number in a sound machine: refused. */
static int refused_with(struct krig *a, uint32_t *field, uint32_t value)
{
    struct krig b;
    uint32_t old = *field;
    beside(a, &b);
    *field = value;
    int rc = move(a, &b, 0);
    *field = old;
    dz_kernel_free(b.k);
    return rc;
}
TEST(save_bounds_are_exact)
{
    static struct krig a, b;
    two(&a, &b);
    dz_kernel_free(b.k);
    struct dz_proc *p = dz_k_proc(a.k, 2);
    struct dz_pipe *q = dz_k_pipe(a.k, 1);
    size_t size = 0;
    q->blob = dz_k_blob_new(a.k, NULL, 16);
    a.k->pipe_bytes += 16;
    CHECK_INT(refused_with(&a, &q->head, 15), 0);
    CHECK_INT(refused_with(&a, &q->head, 16), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, &q->len, 16), 0);
    CHECK_INT(refused_with(&a, &q->len, 17), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, &q->blob, p->argv), DZ_ECORRUPT); /* two owners */
    (void)dz_k_blob(a.k, p->fds, &size);
    CHECK_INT(refused_with(&a, &p->fd_count, (uint32_t)(size / sizeof(struct dz_fd)) + 1),
              DZ_ECORRUPT);
    struct dz_fd *fds = dz_k_blob(a.k, p->fds, NULL);
    uint32_t shorter = dz_k_blob_new(a.k, fds, p->fd_count * sizeof *fds - 1);
    CHECK_INT(refused_with(&a, &p->fds, shorter), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, &fds[2].file, 0), DZ_ECORRUPT); /* an open file of nobody */
    CHECK_INT(krig_stop(&a), 0);
}

/* What dz_k_assert_all() would find wrong is refused before. */
TEST(save_of_what_the_invariants_rule_out_is_refused)
{
    static struct krig a, b;
    const struct dz_winsize size = {24, 80, 0, 0};
    uint32_t stream;
    two(&a, &b);
    dz_kernel_free(b.k);
    struct dz_proc *p = dz_k_proc(a.k, 2);
    struct dz_thread *t = dz_k_me(a.k, p);
    CHECK_INT(dz_kernel_pty_new(a.k, &size, 5, &stream, NULL), 0);
    struct dz_pty *tty = dz_k_pty(a.k, 1);
    CHECK_INT(dz_kernel_stream_push(a.k, stream, "one\rtwo", 7), 7);
    CHECK_INT(tty->edit, 3);
    CHECK_INT(refused_with(&a, &tty->edit, 2), 0);
    CHECK_INT(refused_with(&a, &tty->edit, 4), DZ_ECORRUPT);          /* a line that has ended */
    CHECK_INT(refused_with(&a, &tty->termios.lflag, 0), DZ_ECORRUPT); /* edited in raw mode */
    uint32_t was = dz_k_parked(t)->parked;
    dz_k_parked(t)->parked = 0;
    CHECK_INT(refused_with(&a, &t->futex_bits, 1), DZ_ECORRUPT); /* it waits in no call */
    dz_k_parked(t)->parked = 1;
    CHECK_INT(refused_with(&a, &t->futex_bits, 1), 0);
    dz_k_parked(t)->parked = was;
    struct dz_proc *dead = dz_k_proc_new(a.k, 0), *child = dz_k_proc_new(a.k, 0);
    dead->state = child->state = DZ_PROC_ZOMBIE;
    dead->ppid = child->ppid = p->pid;
    dead->pgid = child->pgid = dead->sid = child->sid = p->pid;
    dead->root = child->root = p->root;
    dead->cwd = child->cwd = p->cwd;
    CHECK_INT(refused_with(&a, &dead->job, 0), 0);
    CHECK_INT(refused_with(&a, &dead->job, p->job), DZ_ECORRUPT); /* the dead have left it */
    CHECK_INT(refused_with(&a, (uint32_t *)&child->ppid, (uint32_t)dead->pid), DZ_ECORRUPT);
    CHECK_INT(krig_stop(&a), 0);
}

/* ---- epolls, timers, counters ------------------------------------------------------------ */

/* 0: an eventfd, watched by 1 for edges, which 2 watches; 3: a timer; 4: a memfd. */
static int watches(struct fib *f)
{
    struct dz_epoll_event got[2];
    const struct dz_epoll_wait how = {.ret_events = got, .max = 2, .timeout_ns = -1};
    const struct dz_epoll_ctl edge = {EPOLL_CTL_ADD, 0, {EPOLLIN | EPOLLET, 5}};
    const struct dz_epoll_ctl nest = {EPOLL_CTL_ADD, 1, {EPOLLIN, 6}};
    const struct dz_epoll_ctl timer = {EPOLL_CTL_ADD, 3, {EPOLLIN, 7}};
    const int64_t at[2] = {0, 30000000000};
    uint64_t v = 3;
    if (!dz_sys_fd(FK(f), 0)) {
        OK(f, dz_sys_eventfd(FK(f), 0, 0) == 0);
        OK(f, dz_sys_epoll_create(FK(f), 0) == 1 && dz_sys_epoll_create(FK(f), 0) == 2);
        OK(f, dz_sys_timerfd_create(FK(f), CLOCK_MONOTONIC, 0) == 3);
        OK(f, dz_sys_memfd_create(FK(f), "m", MFD_ALLOW_SEALING) == 4);
        OK(f, dz_sys_fcntl(FK(f), 4, F_ADD_SEALS, F_SEAL_GROW) == 0);
        OK(f, dz_sys_epoll_ctl(FK(f), 1, &edge) == 0 && dz_sys_epoll_ctl(FK(f), 2, &nest) == 0);
        OK(f, dz_sys_timerfd_settime(FK(f), 3, 0, at, NULL) == 0);
        OK(f, dz_sys_epoll_ctl(FK(f), 2, &timer) == 0);
        OK(f, SYS(f, dz_sys_write(FK(f), 0, &v, 8)) == 8);
        const struct dz_epoll_wait look = {.ret_events = got, .max = 2};
        OK(f, SYS(f, dz_sys_epoll_wait(FK(f), 1, &look)) == 1); /* the edge is told */
    }
    OK(f, SYS(f, dz_sys_epoll_wait(FK(f), 2, &how)) == 1); /* so it is the timer */
    OK(f, got[0].data == 7 && SYS(f, dz_sys_read(FK(f), 3, &v, 8)) == 8 && v == 1);
    OK(f, SYS(f, dz_sys_write(FK(f), 0, &v, 8)) == 8);
    OK(f, SYS(f, dz_sys_epoll_wait(FK(f), 2, &how)) == 1 && got[0].data == 6);
    OK(f, SYS(f, dz_sys_read(FK(f), 0, &v, 8)) == 8 && v == 4);
    OK(f, dz_sys_ftruncate(FK(f), 4, 9) == -EPERM);
    OK(f, dz_sys_fcntl(FK(f), 4, F_GET_SEALS, 0) == F_SEAL_GROW);
    return 0;
}
TEST(save_epolls_and_timers_go_on_elsewhere)
{
    static struct krig a, b;
    struct dz_job job = {0};
    two_of(&a, &b, watches);
    CHECK_INT(move(&a, &b, 10000000000), 0);
    CHECK_INT(dz_kernel_run(b.k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    CHECK_INT(dz_kernel_next_deadline(b.k) - dz_kernel_now(b.k), 20000000000);
    CHECK_INT(krig_run(&b, 1, &job), 1);
    CHECK_INT(job.status, 0);
    end_two(&a, &b);
}

TEST(save_epolls_that_make_no_sense_are_refused)
{
    static struct krig a, b;
    two_of(&a, &b, watches);
    uint32_t nested = 0;
    DZ_K_FOREACH(dz_epitem, i, a.k, DZ_KERNEL_TABLE_EPITEM)
    nested = i->data == 6 ? i->index : nested;
    struct dz_epitem *i = dz_k_epitem(a.k, nested), was = *i;
    CHECK(nested != 0);
    for (int bad = 0; bad < 6; bad++) {
        *i = was;
        if (bad == 0)
            i->file = i->epoll; /* itself */
        else if (bad == 1)
            i->epoll = 999;
        else if (bad == 2)
            i->file = 999;
        else if (bad == 3)
            i->epoll = 1; /* no epoll */
        else if (bad == 4)
            i->fd = -1;
        else
            i->epoll = was.file,
            i->file = was.epoll; /* and the other way round, with the timer's */
        if (bad == 5) {
            struct dz_epitem *more = dz_k_row_new(&a.k->tab[DZ_KERNEL_TABLE_EPITEM]);
            uint32_t index = more->index;
            *more = was;
            more->index = index;
        }
        CHECK_INT(move(&a, &b, 0), DZ_ECORRUPT);
        dz_kernel_free(b.k);
        beside(&a, &b);
        if (bad == 5)
            dz_k_row_free(&a.k->tab[DZ_KERNEL_TABLE_EPITEM], a.k->tab[DZ_KERNEL_TABLE_EPITEM].high);
    }
    *i = was;
    end_two(&a, &b);
}

static int sleeps_short(struct fib *f)
{
    (void)f;
    return 0;
}
static int leaves_a_zombie(struct fib *f)
{
    int status;
    if (first_life(f))
        f->note[0] = fib_fork(f, sleeps_short);
    fib_sleep(f, 60000);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), -1, 0, &status, NULL)) > 0);
    return 0;
}
TEST(save_memory_that_a_row_tells_of_is_not_believed)
{
    static struct krig a, b;
    struct dz_job job = {0};
    two_of(&a, &b, leaves_a_zombie);
    DZ_K_FOREACH(dz_proc, p, a.k, DZ_KERNEL_TABLE_PROC)
    p->mem_bytes = p->index > 1 ? UINT64_C(1) << 40 : 0;
    CHECK_INT(move(&a, &b, 0), 0);
    CHECK_INT(krig_run(&b, 1, &job), 1);
    CHECK_INT(job.status, 0);
    DZ_K_FOREACH(dz_proc, p, a.k, DZ_KERNEL_TABLE_PROC)
    p->mem_bytes = 0;
    end_two(&a, &b);
}

static int leads_a_terminal(struct fib *f)
{
    char path[32];
    (void)snprintf(path, sizeof path, "/dev/pts/%d", (int)f->note[2]);
    OK(f, dz_sys_setsid(FK(f)) > 0);
    OK(f, fib_open(f, path, O_RDWR) >= 0); /* its group is the one in front */
    return 0;
}
static int leaves_a_leader(struct fib *f)
{
    int status, n, zero = 0;
    if (first_life(f)) {
        int fd = (int)fib_open(f, "/dev/ptmx", O_RDWR | O_NOCTTY);
        OK(f, SYS(f, dz_sys_ioctl(FK(f), fd, TIOCGPTN, &n)) == 0);
        OK(f, SYS(f, dz_sys_ioctl(FK(f), fd, TIOCSPTLCK, &zero)) == 0);
        f->note[2] = n;
        f->note[0] = fib_fork(f, leads_a_terminal);
    }
    fib_sleep(f, 60000);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), -1, 0, &status, NULL)) > 0 && status == 0);
    return 0;
}
TEST(save_a_dead_leader_of_a_session_has_no_signal_left)
{
    static struct krig a, b;
    struct dz_job job = {0};
    two_of(&a, &b, leaves_a_leader);
    CHECK_INT(move(&a, &b, 0), 0);
    CHECK_INT(krig_run(&b, 1, &job), 1);
    CHECK_INT(job.status, 0);
    end_two(&a, &b);
}

/* ---- /proc/doze --------------------------------------------------------------------------- */

static int64_t event_is(struct fib *f, int fd, const char *want)
{
    char line[64] = "";
    int64_t n = SYS(f, dz_sys_read(FK(f), fd, line, sizeof line));
    return n > 0 && memcmp(line, want, strlen(want)) == 0 && line[n - 1] == '\n' ? n : -1;
}
/* 1: answers; 2: only listens. */
static int hears_of_sleep(struct fib *f)
{
    struct pollfd ready = {.fd = 2, .events = POLLIN};
    char small[4];
    if (first_life(f)) {
        OK(f, fib_open(f, "/proc/doze", O_RDWR) == 1 && fib_open(f, "/proc/doze", O_RDONLY) == 2);
        OK(f, SYS(f, dz_sys_poll(FK(f), &ready, 1, 0, NULL)) == 0);
        OK(f, SYS(f, dz_sys_write(FK(f), 1, "reads\n", 6)) == -EINVAL);
        OK(f, event_is(f, 1, "sleep\n") == 6); /* waits for it */
        OK(f, dz_kernel_hint_waits(f->k));
        OK(f, SYS(f, dz_sys_write(FK(f), 1, "ready\n", 6)) == 6);
        OK(f, !dz_kernel_hint_waits(f->k));
    }
    OK(f, SYS(f, dz_sys_read(FK(f), 1, small, sizeof small)) == -EINVAL); /* waits until awake */
    OK(f, event_is(f, 1, "awake ") == 23);
    OK(f, SYS(f, dz_sys_poll(FK(f), &ready, 1, 0, NULL)) == 1 && ready.revents == POLLIN);
    OK(f, event_is(f, 2, "awake ") == 23); /* the unread "sleep" is stale */
    OK(f, SYS(f, dz_sys_poll(FK(f), &ready, 1, 0, NULL)) == 0);
    return 0;
}
TEST(save_programs_hear_of_a_suspend_and_of_the_wake)
{
    static struct krig a, b;
    struct dz_job job = {0};
    two_of(&a, &b, hears_of_sleep);
    CHECK(!dz_kernel_hint_waits(a.k));
    dz_kernel_hint_sleep(a.k);
    CHECK(dz_kernel_hint_waits(a.k));
    CHECK_INT(dz_kernel_run(a.k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    CHECK(!dz_kernel_hint_waits(a.k));
    CHECK_INT(move(&a, &b, 0), 0);
    CHECK_INT(krig_run(&b, 1, &job), 1);
    CHECK_INT(job.status, 0);
    dz_kernel_hint_awake(a.k); /* the suspend failed: the machine runs on */
    CHECK_INT(krig_run(&a, 1, &job), 1);
    CHECK_INT(job.status, 0);
    end_two(&a, &b);
}
TEST(save_hints_that_make_no_sense_are_refused)
{
    static struct krig a, b;
    two_of(&a, &b, hears_of_sleep);
    struct dz_file *f = NULL;
    DZ_K_FOREACH(dz_file, g, a.k, DZ_KERNEL_TABLE_FILE)
    f = g->kind == DZ_FILE_HINT ? g : f;
    CHECK(f != NULL);
    CHECK_INT(refused_with(&a, &f->obj, 8), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, &f->node.fs, DZ_KERNEL_FS_SYS), DZ_ECORRUPT);
    dz_kernel_free(b.k);
    CHECK_INT(krig_stop(&a), 0);
}

/* ---- System V objects --------------------------------------------------------------------- */

/* A queue with a message, a set that the process owes to, shared memory; it waits for the set. */
static int has_objects(struct fib *f)
{
    const struct dz_ipcget get = {.key = 5, .flags = 01600, .size = 2}; /* IPC_CREAT */
    const struct dz_semop takes = {.number = 0, .op = -1}, gives = {.op = 2, .flags = 0x1000};
    struct dz_msgbuf m = {.type = 7, .data = (char[4]){"abc"}, .size = 4};
    const int queue = (int)dz_sys_msgget(FK(f), &get), set = (int)dz_sys_semget(FK(f), &get);
    const int memory = (int)dz_sys_shmget(FK(f), &get);
    const bool first = first_life(f);
    OK(f, queue >= 0 && set >= 0 && memory >= 0);
    if (first) {
        OK(f, SYS(f, dz_sys_msgsnd(FK(f), queue, &m, 0)) == 0);
        OK(f, SYS(f, dz_sys_semop(FK(f), set, &gives, 1, 0)) == 0);
        OK(f, dz_sys_semset(FK(f), set, 1, &(uint16_t){3}) == 0);
    }
    fib_sleep(f, 60000);
    char got[4];
    m = (struct dz_msgbuf){.data = got, .size = 4};
    OK(f, SYS(f, dz_sys_msgrcv(FK(f), queue, &m, 0)) == 4 && m.type == 7 && got[2] == 'c');
    OK(f, SYS(f, dz_sys_semop(FK(f), set, &takes, 1, 0)) == 0);
    OK(f, dz_sys_semval(FK(f), set, 0, 12 /* GETVAL */) == 1);
    struct dz_ipcstat st;
    OK(f, dz_sys_ipc_stat(FK(f), DZ_IPC_SHM, memory, 0, &st) == 0 && st.row.bytes == 2);
    return 0;
}
TEST(save_system_v_objects_go_on_elsewhere)
{
    static struct krig a, b;
    struct dz_job job = {0};
    two_of(&a, &b, has_objects);
    CHECK_INT(move(&a, &b, 0), 0);
    CHECK_INT(krig_run(&b, 1, &job), 1);
    CHECK_INT(job.status, 0);
    struct dz_ipc *set = NULL;
    DZ_K_FOREACH(dz_ipc, o, b.k, DZ_KERNEL_TABLE_IPC)
    set = o->kind == DZ_IPC_SEM ? o : set;
    CHECK(set != NULL);
    if (set) /* 2 that it owed are taken from 1 */
        CHECK_INT(((struct dz_sem *)dz_k_blob(b.k, set->blob, NULL))->value, 0);
    end_two(&a, &b);
}
TEST(save_damaged_system_v_objects_are_refused)
{
    static struct krig a, b;
    two_of(&a, &b, has_objects);
    struct dz_ipc *of[4] = {NULL};
    DZ_K_FOREACH(dz_ipc, o, a.k, DZ_KERNEL_TABLE_IPC)
    of[o->kind] = o;
    struct dz_semundo *u = dz_k_row(&a.k->tab[DZ_KERNEL_TABLE_SEMUNDO], 1);
    CHECK(of[1] && of[2] && of[3] && u);
    CHECK_INT(refused_with(&a, &of[1]->count, of[1]->count), 0);
    CHECK_INT(refused_with(&a, &of[1]->count, 2), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, &of[1]->kind, 4), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, &of[1]->kind, DZ_IPC_SEM), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, &of[1]->mode, 010000), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, &of[1]->number, 65536), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, &of[1]->blob, of[2]->blob), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, &of[2]->count, 3), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, &of[2]->count, 0), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, &of[2]->blob, 0), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, (uint32_t *)&of[3]->ino, 99999), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, (uint32_t *)&of[3]->bytes, 0), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, &u->proc, 1), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, &u->ipc, of[1]->index), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, &u->blob, 0), DZ_ECORRUPT);
    size_t *size = &((struct dz_k_blob *)dz_k_row(&a.k->blobs, of[1]->blob))->size, was = *size;
    *size = was - 8; /* the message is cut off */
    CHECK_INT(refused_with(&a, &of[1]->count, 1), DZ_ECORRUPT);
    *size = was;
    end_two(&a, &b);
}

/* ---- POSIX timers ------------------------------------------------------------------------- */

static int has_timer(struct fib *f)
{
    const struct dz_timer_event e = {.notify = SIGEV_SIGNAL, .signo = SIGUSR2, .value = 6};
    const int64_t when[2] = {7000000000, 30000000000};
    const uint64_t set = DZ_K_BIT(SIGUSR2);
    struct dz_siginfo info;
    if (first_life(f)) {
        (void)dz_sys_sigprocmask(FK(f), 0, &set, NULL);
        OK(f, dz_sys_timer_create(FK(f), CLOCK_MONOTONIC, &e) == 0);
        OK(f, dz_sys_timer_settime(FK(f), 0, 0, when, NULL) == 0);
    }
    OK(f, SYS(f, dz_sys_sigtimedwait(FK(f), set, -1, &info)) == SIGUSR2);
    OK(f, info.code == SI_TIMER && info.value == 6 && info.uid == 1); /* one was missed */
    return 0;
}
TEST(save_timers_go_on_elsewhere)
{
    static struct krig a, b;
    struct dz_job job = {0};
    two_of(&a, &b, has_timer);
    struct dz_timer *t = dz_k_row(&a.k->tab[DZ_KERNEL_TABLE_TIMER], 1);
    CHECK(t != NULL);
    CHECK_INT(refused_with(&a, &t->proc, 1), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, (uint32_t *)&t->signo, 0), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, (uint32_t *)&t->signo, 65), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, (uint32_t *)&t->every + 1, 1u << 31), DZ_ECORRUPT);
    CHECK_INT(refused_with(&a, (uint32_t *)&t->at + 1, 1u << 31), DZ_ECORRUPT);
    CHECK_INT(move(&a, &b, 38000000000), 0);
    CHECK_INT(krig_run(&b, 1, &job), 1);
    CHECK_INT(job.status, 0);
    end_two(&a, &b);
}

/* ---- inotify and message queues ---------------------------------------------------------------
 */

static const struct dz_at watched = {AT_FDCWD, "/tmp/w", 0}, removed = {AT_FDCWD, "/tmp/r", 0};

static int has_queues(struct fib *f)
{
    struct inotify_event e[4];
    char bytes[8192];
    struct dz_mqmsg m = {.data = bytes, .size = 2, .priority = 3};
    if (!moved) {
        const struct dz_mqopen o = {.name = "q", .flags = O_CREAT | O_RDWR, .mode = 0600};
        OK(f, dz_sys_inotify_init(FK(f), O_NONBLOCK) == 0 && dz_sys_mq_open(FK(f), &o) == 1);
        OK(f, fib_open(f, "/tmp/w", O_CREAT | O_RDWR) == 2);
        OK(f, fib_open(f, "/tmp/r", O_CREAT | O_RDWR) == 3 && dz_sys_close(FK(f), 3) == 0);
        OK(f, dz_sys_inotify_add_watch(FK(f), 0, watched, IN_ATTRIB | IN_DELETE_SELF) == 1);
        OK(f, dz_sys_inotify_add_watch(FK(f), 0, removed, IN_DELETE_SELF) == 2);
        OK(f, dz_sys_fchmodat(FK(f), watched, 0600) == 0);
        memcpy(bytes, "ab", 2);
        OK(f, SYS(f, dz_sys_mq_send(FK(f), 1, &m, -1)) == 0);
    }
    fib_sleep(f, 60000);
    OK(f, SYS(f, dz_sys_read(FK(f), 0, e, sizeof e)) == 3 * sizeof e[0]);
    OK(f, e[0].wd == 1 && e[0].mask == IN_ATTRIB && e[1].wd == 2 && e[1].mask == IN_DELETE_SELF);
    OK(f, e[2].mask == IN_IGNORED && dz_sys_inotify_rm_watch(FK(f), 0, 2) == -EINVAL);
    OK(f, dz_sys_fchmodat(FK(f), watched, 0640) == 0);
    OK(f, SYS(f, dz_sys_read(FK(f), 0, e, sizeof e)) == sizeof e[0] && e[0].mask == IN_ATTRIB);
    m.size = sizeof bytes;
    OK(f, SYS(f, dz_sys_mq_receive(FK(f), 1, &m, -1)) == 2 && m.priority == 3 && bytes[1] == 'b');
    OK(f, dz_sys_mq_unlink(FK(f), "q") == 0);
    return 13;
}

/* A file that is removed while the machine sleeps is reported when it wakes. */
TEST(save_watches_and_message_queues_go_on_elsewhere)
{
    static struct krig a, b;
    struct dz_job job = {0};
    const struct dz_vfs_who root = {0};
    moved = false;
    two_of(&a, &b, has_queues);
    moved = true;
    (void)dz_vfs_observe(a.k->vfs, NULL); /* the sleeping machine sees nothing */
    CHECK_INT(dz_vfs_unlink_at(a.k->vfs, &root, (struct dz_vfs_path){DZ_VFS_ROOT, "tmp/r"}), 0);
    CHECK_INT(move(&a, &b, 0), 0);
    CHECK_INT(krig_run(&b, 1, &job), 1);
    CHECK_INT(WEXITSTATUS(job.status), 13);
    end_two(&a, &b);
}

TEST(save_damaged_watches_and_queues_are_refused)
{
    static struct krig a, b;
    moved = false;
    two_of(&a, &b, has_queues);
    dz_kernel_free(b.k);
    struct dz_inotify *i = dz_k_row(&a.k->tab[DZ_KERNEL_TABLE_INOTIFY], 1);
    struct dz_watch *w = dz_k_row(&a.k->tab[DZ_KERNEL_TABLE_WATCH], 1);
    struct dz_mqueue *q = dz_k_row(&a.k->tab[DZ_KERNEL_TABLE_MQUEUE], 1);
    struct dz_file *f = dz_k_file(a.k, 1), *g = dz_k_file(a.k, 2);
    uint8_t *event = dz_k_blob(a.k, i->blob, NULL), *message = dz_k_blob(a.k, q->blob, NULL);
    uint32_t *const victims[] = {&i->blob,
                                 &i->head,
                                 &i->len,
                                 &i->count,
                                 &i->last_size,
                                 &i->lost,
                                 &w->inotify,
                                 (uint32_t *)&w->wd,
                                 &w->node.fs,
                                 &q->name,
                                 &q->blob,
                                 &q->count,
                                 &q->size,
                                 &q->max,
                                 &q->notify,
                                 (uint32_t *)&q->notify_signo,
                                 &f->obj,
                                 &g->obj,
                                 (uint32_t *)(void *)(event + 12),
                                 (uint32_t *)(void *)message,
                                 (uint32_t *)(void *)(message + 4)};
    static const uint32_t values[] = {77777777, UINT32_MAX};
    for (size_t n = 0; n < DZ_ARRAY_LEN(victims); n++)
        for (size_t v = 0; v < DZ_ARRAY_LEN(values); v++) {
            const uint32_t old = *victims[n];
            CHECK_INT(krig_kernel(&b, NULL, 0), 0);
            *victims[n] = values[v];
            const int rc = move(&a, &b, 0);
            if (rc != DZ_ECORRUPT)
                printf("# victim %zu: %d\n", n, rc);
            CHECK_INT(rc, DZ_ECORRUPT);
            *victims[n] = old;
            dz_kernel_free(b.k);
        }
    CHECK_INT(krig_kernel(&b, NULL, 0), 0);
    g->kind = DZ_FILE_INOTIFY; /* two descriptions of one instance */
    CHECK_INT(move(&a, &b, 0), DZ_ECORRUPT);
    g->kind = DZ_FILE_MQUEUE;
    dz_kernel_free(b.k);
    CHECK_INT(krig_stop(&a), 0);
}

/* ---- a wait for several futexes, and a lease
 * ------------------------------------------------------
 */

static int waits_for_any(struct fib *f)
{
    const struct dz_futex any[2] = {{.at = 4}, {.at = 8}};
    const uint32_t values[2] = {0, 0};
    OK(f, SYS(f, dz_sys_futex_waitv(FK(f), any, values, 2, INT64_MAX)) == 1);
    return 14; /* of the process, which ends with it */
}
static int has_lease(struct fib *f)
{
    if (dz_sys_gettid(FK(f)) != f->p->pid)
        return waits_for_any(f);
    if (!moved) {
        OK(f, fib_open(f, "/tmp/l", O_CREAT | O_RDWR) == 0);
        OK(f, dz_sys_fcntl(FK(f), 0, F_SETLEASE, F_WRLCK) == 0);
        (void)fib_thread(f, waits_for_any);
    }
    fib_sleep(f, 60000);
    OK(f, dz_sys_fcntl(FK(f), 0, F_GETLEASE, 0) == F_WRLCK);
    OK(f, SYS(f, dz_sys_futex_wake(FK(f), (struct dz_futex){.at = 8}, 9, 1)) == 1);
    fib_sleep(f, 1000);
    return 1;
}
TEST(save_leases_and_waits_for_several_futexes_go_on_elsewhere)
{
    static struct krig a, b;
    struct dz_job job = {0};
    moved = false;
    two_of(&a, &b, has_lease);
    struct dz_file *l = dz_k_file(a.k, 1);
    struct dz_thread *t = dz_k_row(&a.k->tab[DZ_KERNEL_TABLE_THREAD], 2);
    uint32_t *const victims[] = {&l->lease, &l->lease_to, &l->sig, &l->owner_kind, &t->futex_all};
    for (size_t n = 0; n < DZ_ARRAY_LEN(victims); n++) {
        const uint32_t old = *victims[n];
        *victims[n] = 77;
        CHECK_INT(move(&a, &b, 0), DZ_ECORRUPT);
        *victims[n] = old;
        dz_kernel_free(b.k);
        CHECK_INT(krig_kernel(&b, NULL, 0), 0);
    }
    moved = true;
    CHECK_INT(move(&a, &b, 0), 0);
    CHECK_INT(krig_run(&b, 1, &job), 1);
    CHECK_INT(WEXITSTATUS(job.status), 14);
    end_two(&a, &b);
}

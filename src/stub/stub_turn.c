/* SPDX-License-Identifier: MIT
 *
 * stub_turn.c - registers, run, interrupt, wait.
 *
 * The state in its ctx shows that a running thread has stopped. It is checked for threads whose bit
 * is set in the bell; but a guest can set or clear bits, so every tick checks all threads, and asks
 * the host for ends and notifications, also while one event comes after the other.
 */
#include "stub/stub_int.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/audit.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

/* struct dz_stub_regs begins with what sigcontext begins with. */
_Static_assert(offsetof(struct dz_stub_regs, fs_base) == 18 * 8 && REG_EFL == 17 && REG_RIP == 16,
               "18 registers in the order of sigcontext");

static struct stub_frame *frame_of(const struct host *h, uint32_t number)
{
    return (void *)(ctx_bytes(h, number) + h->frame_at);
}

/* Write everything but the extended registers: nothing of the guest's remains in it. */
void dz_stub_frame_write(struct host *h, uint32_t number)
{
    const struct thread *t = &h->threads[number];
    const uint64_t ctx = ctx_address(number);
    struct stub_frame *f = frame_of(h, number);
    struct stub_frame fresh;
    memcpy(&fresh, h->frame, sizeof fresh); /* flags, segments */
    memcpy(fresh.uc.regs, &t->regs, 18 * 8);
    fresh.uc.link = 0;
    fresh.uc.fpstate = ctx + h->fp_at;
    fresh.uc.mask = 0;
    fresh.uc.stack = (stack_t){.ss_sp = (void *)(ctx + CTX_STACK_AT), /* NOLINT */
                               .ss_size = PAGE_CTX_SIZE - CTX_STACK_AT,
                               .ss_flags = (int)(1u << 31) /* SS_AUTODISARM */};
    memcpy(&f->uc, &fresh.uc, sizeof f->uc);
    struct stub_ctx *c = ctx_of(h, number);
    c->frame = ctx + h->frame_at;
    c->fs_base = t->regs.fs_base;
    c->gs_base = t->regs.gs_base;
    if (!t->regs.gs_base && t->sites && t->sites->mapped)
        c->gs_base = ctx; /* for entries of patched sites */
    c->bases = STUB_BASES_SET | (h->direct ? STUB_BASES_DIRECT : 0);
}

static void turn_run(struct dz_stub *s, uint32_t thread)
{
    struct host *h = host_of(s);
    struct thread *t = stopped_of(h, thread);
    if (t->state == T_DEAD)
        return;
    struct stub_ctx *c = ctx_of(h, thread);
    const bool back = dz_stub_patch_back(h, thread);
    if (!back)
        dz_stub_frame_write(h, thread);
    dz_stub_patch_tell(h, thread);
    c->count = t->pending;
    c->failed = 0;
    atomic_store_explicit(&c->stop, 0, memory_order_relaxed);
    t->pending = t->late = 0;
    t->state = T_RUNNING;
    t->interrupts = 0;
    h->running++;
    dz_stub_spin_run(h, thread);
    dz_stub_go(h, thread, back ? STUB_BACK : STUB_RUN);
}

static void turn_known(struct dz_stub *s, uint32_t thread, const struct dz_stub_known *known)
{
    struct host *h = host_of(s);
    struct stub_ctx *c = ctx_of(h, thread);
    const uint32_t answers[CTX_KNOWN] = {
        [CTX_PID] = known->pid,  [CTX_TID] = known->tid,   [CTX_PPID] = known->ppid,
        [CTX_UID] = known->uid,  [CTX_EUID] = known->euid, [CTX_GID] = known->gid,
        [CTX_EGID] = known->egid};
    (void)stopped_of(h, thread);
    memcpy(c->known, answers, sizeof answers);
    c->knows = known->on;
}

static struct dz_stub_ahead *turn_ahead(struct dz_stub *s, uint32_t thread)
{
    struct host *h = host_of(s);
    (void)thread_of(h, thread);
    return h->nests ? (void *)(ctx_bytes(h, thread) + CTX_AHEAD_AT) : NULL;
}

static struct dz_stub_regs *turn_regs(struct dz_stub *s, uint32_t thread)
{
    return &stopped_of(host_of(s), thread)->regs;
}

static int64_t turn_xstate_get(struct dz_stub *s, uint32_t thread, void *ret_bytes, size_t size)
{
    struct host *h = host_of(s);
    (void)stopped_of(h, thread);
    if (size < h->fp_size)
        return -ENOSPC;
    dz_stub_whole(h, thread);
    memcpy(ret_bytes, ctx_bytes(h, thread) + h->fp_at, h->fp_size);
    return (int64_t)h->fp_size;
}
static int turn_xstate_set(struct dz_stub *s, uint32_t thread, const void *bytes, size_t size)
{
    struct host *h = host_of(s);
    (void)stopped_of(h, thread);
    /* the frame's description of its own layout, before and behind the registers */
    const size_t at = 464, head = 48, magic = size - 4;
    const uint8_t *ours = h->frame + (h->fp_at - h->frame_at), *b = bytes;
    if (size != h->fp_size || memcmp(b + at, ours + at, head) != 0 ||
        memcmp(b + magic, ours + magic, 4) != 0)
        return -EINVAL;
    dz_stub_whole(h, thread);
    memcpy(ctx_bytes(h, thread) + h->fp_at, bytes, size);
    return 0;
}

static void turn_interrupt(struct dz_stub *s, uint32_t thread)
{
    struct host *h = host_of(s);
    struct thread *t = thread_of(h, thread);
    if (t->state != T_RUNNING || t->interrupts)
        return;
    t->interrupts = 1;
    (void)syscall(SYS_tgkill, t->group->pid, t->tid, SIGUSR1);
}

static int turn_halt(struct dz_stub *s, uint32_t thread)
{
    struct host *h = host_of(s);
    struct thread *t = thread_of(h, thread);
    if (t->state != T_RUNNING)
        return t->state == T_DEAD ? -ESRCH : 0;
    turn_interrupt(s, thread);
    const int rc = t->halted ? 0 : dz_stub_await(h, thread);
    t->halted = rc == 0;
    return rc;
}

/* ---- events ---------------------------------------------------------------------------- */

/* The event that a frame shows. */
static void frame_event(struct host *h, uint32_t number, const struct stub_frame *f,
                        struct dz_stub_event *ret_event)
{
    *ret_event = (struct dz_stub_event){.kind = DZ_STUB_FAULT,
                                        .thread = number,
                                        .signo = f->info.si_signo,
                                        .code = f->info.si_code,
                                        .addr = (uint64_t)f->info.si_addr,
                                        .trap = (uint64_t)f->uc.regs[REG_TRAPNO],
                                        .error = (uint64_t)f->uc.regs[REG_ERR]};
    if (f->info.si_signo == SIGSYS) {
        ret_event->kind = DZ_STUB_CALL;
        ret_event->arch = f->info.si_arch;
    } else if (f->info.si_signo == SIGUSR1) {
        ret_event->kind = DZ_STUB_STOPPED;
    } else if (f->info.si_signo != SIGSEGV && f->info.si_signo != SIGBUS &&
               f->info.si_signo != SIGFPE && f->info.si_signo != SIGTRAP) {
        ret_event->signo = SIGILL; /* a SIGILL, or forged by the guest */
    }
    dz_stub_patch_trapped(h, &h->threads[number], ret_event);
}

static void stopped(struct host *h, uint32_t number, struct dz_stub_event *ret_event)
{
    struct thread *t = &h->threads[number];
    struct stub_frame f;
    struct stub_ctx *c = ctx_of(h, number);
    t->light = dz_stub_patch_light(h, number);
    if (!t->light) {
        memcpy(&f, frame_of(h, number), sizeof f);
        memcpy(&t->regs, f.uc.regs, 18 * 8);
    }
    if (h->direct) { /* otherwise only this side sets them */
        t->regs.fs_base = *(volatile uint64_t *)&c->fs_base;
        t->regs.gs_base = *(volatile uint64_t *)&c->gs_base;
        if (t->regs.gs_base == ctx_address(number))
            t->regs.gs_base = 0; /* the guest has none of its own */
    }
    if (t->light) {
        t->called = t->regs;
        *ret_event =
            (struct dz_stub_event){.kind = DZ_STUB_CALL, .thread = number, .arch = STUB_ARCH};
    } else {
        frame_event(h, number, &f, ret_event);
    }
    t->state = T_STOPPED;
    t->halted = false;
    t->interrupts = 0;
    h->running--;
    dz_stub_spin_stopped(h);
}

static bool take(struct host *h, uint32_t number, struct dz_stub_event *ret_event)
{
    struct thread *t = &h->threads[number];
    if (t->state == T_RUNNING && !t->group->killed &&
        atomic_load_explicit(&ctx_of(h, number)->state, memory_order_acquire) == STUB_WAITS) {
        if (*(volatile uint32_t *)&ctx_of(h, number)->failed) {
            dz_stub_kill(h, t->group); /* its memory is not what its map says */
            return false;
        }
        stopped(h, number, ret_event);
        return true;
    }
    if (t->state != T_DEAD)
        return false;
    *ret_event =
        (struct dz_stub_event){.kind = DZ_STUB_ENDED, .thread = number, .status = t->status};
    h->dead--;
    dz_stub_number_free(h, number);
    return true;
}

/* Read the bell, in the words that have a thread. Bits of events that do not fit stay set. */
size_t dz_stub_heard(struct host *h, struct dz_stub_event *ret_events, size_t max)
{
    size_t count = 0;
    for (uint32_t i = 0; i < h->words && count < max; i++) {
        if (!atomic_load_explicit(&bell_of(h)->ready[i], memory_order_relaxed))
            continue;
        uint64_t bits = atomic_exchange(&bell_of(h)->ready[i], 0);
        for (; bits && count < max; bits &= bits - 1)
            count += take(h, i * 64 + (uint32_t)__builtin_ctzll(bits), &ret_events[count]);
        if (bits)
            atomic_fetch_or(&bell_of(h)->ready[i], bits);
    }
    return count;
}

/* Check every thread: stopped without a bit, ended alone, or not responding to an interrupt? */
static size_t sweep(struct host *h, struct dz_stub_event *ret_events, size_t max)
{
    size_t count = 0;
    for (uint32_t i = STUB_ZYGOTE + 1; i < numbers_used(h) && count < max; i++) {
        struct thread *t = &h->threads[i];
        if (t->state != T_RUNNING || t->group->killed)
            continue;
        if (take(h, i, &ret_events[count]))
            count++;
        else if (syscall(SYS_tgkill, t->group->pid, t->tid, 0) < 0 && errno == ESRCH)
            dz_stub_thread_ended(h, t, -1);
        else if (t->interrupts && ++t->interrupts > h->ticks)
            dz_stub_kill(h, t->group);
        else if (t->interrupts)
            (void)syscall(SYS_tgkill, t->group->pid, t->tid, SIGUSR1);
    }
    return count;
}

static size_t look(struct host *h, struct dz_stub_event *ret_events, size_t max)
{
    size_t count = dz_stub_heard(h, ret_events, max);
    for (uint32_t i = 2; h->dead && i < numbers_used(h) && count < max; i++)
        if (h->threads[i].state == T_DEAD)
            count += take(h, i, &ret_events[count]);
    return count;
}

/* Sleep for at most this time, and handle the wake-up. */
static void sleep_until(struct host *h, int timeout_ms)
{
    struct epoll_event events[16];
    const int n = epoll_wait(h->epoll, events, DZ_ARRAY_LEN(events), timeout_ms);
    for (int i = 0; i < n; i++) {
        const uint64_t what = events[i].data.u64;
        if (what == UINT64_MAX)
            h->rung = true; /* each ring is an event, even if it is not read */
        else if (what == UINT64_MAX - 2)
            h->watched = true;
        else if (what == UINT64_MAX - 1)
            dz_stub_notified(h);
        else if (h->groups[what])
            dz_stub_reap(h, h->groups[what]);
    }
}

/* Can any event come? */
static bool comes(const struct host *h)
{
    for (uint32_t i = STUB_ZYGOTE + 1; !h->running && !h->dead && i < numbers_used(h); i++)
        if (h->groups[i] && h->groups[i]->killed && h->groups[i]->threads)
            return true;
    return h->running || h->dead;
}

void dz_stub_arm(struct host *h, bool on)
{
    h->armed = on;
    atomic_store(&bell_of(h)->asleep, on);
}

/* The bell stays armed for fd() if there was no event. */
static int told(struct host *h, size_t count)
{
    if (count && h->armed)
        dz_stub_arm(h, false);
    return (int)count;
}

/* Once a tick, what the bell does not say, because a thread that makes calls all the time would
 * keep this side from the wait that reports it. */
static size_t tick(struct host *h, struct dz_stub_event *ret_events, size_t max)
{
    const int64_t now = dz_clock_mono_ns();
    if (!max || now - h->swept_ns < STUB_TICK_MS * DZ_NS_PER_MS)
        return 0;
    h->swept_ns = now;
    sleep_until(h, 0);
    dz_stub_bell_read(h); /* a full bell could not be rung any more */
    return sweep(h, ret_events, max);
}

static int turn_wait(struct dz_stub *s, int64_t timeout_ns, struct dz_stub_event *ret_events,
                     size_t max)
{
    struct host *h = host_of(s);
    max = max < DZ_STUB_EVENTS_MAX ? max : DZ_STUB_EVENTS_MAX;
    h->watched = false;
    size_t count = tick(h, ret_events, max);
    count += look(h, ret_events + count, max - count);
    if (count || !max)
        return told(h, count);
    const int64_t began = dz_clock_mono_ns();
    if (timeout_ns != 0) {
        count = dz_stub_spin_poll(h, ret_events, max);
        if (count)
            return told(h, count);
    }
    for (;;) {
        const int64_t now = dz_clock_mono_ns();
        int64_t left_ms = STUB_TICK_MS;
        if (timeout_ns >= 0 && began + timeout_ns - now < left_ms * DZ_NS_PER_MS)
            left_ms = began + timeout_ns <= now
                          ? 0
                          : (began + timeout_ns - now + DZ_NS_PER_MS - 1) / DZ_NS_PER_MS;
        dz_stub_arm(h, true);
        count = tick(h, ret_events, max);
        count += look(h, ret_events + count, max - count);
        if (!count) {
            if (left_ms || !h->running)
                dz_stub_spin_stop(h);
            sleep_until(h, (int)left_ms);
            count = look(h, ret_events, max);
        }
        if (count || !left_ms || h->watched || !comes(h))
            break;
    }
    return told(h, count);
}
static int turn_soon(struct dz_stub *s, struct dz_stub_event *ret_events, size_t max)
{
    struct host *h = host_of(s);
    max = max < DZ_STUB_EVENTS_MAX ? max : DZ_STUB_EVENTS_MAX;
    dz_stub_spin_begin(h); /* on one processor the stub often runs first, and rings at once */
    size_t count = tick(h, ret_events, max);
    count += look(h, ret_events + count, max - count);
    if (!count)
        count = dz_stub_spin_poll(h, ret_events, max);
    if (!count) {
        dz_stub_arm(h, true);
        count = look(h, ret_events, max);
    }
    return told(h, count);
}
static int turn_watch(struct dz_stub *s, int fd)
{
    struct host *h = host_of(s);
    struct epoll_event e = {.events = EPOLLIN, .data = {.u64 = UINT64_MAX - 2}};
    if (h->watches)
        return -EBUSY;
    if (epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &e) < 0)
        return -ENOMEM;
    h->watches = true;
    return 0;
}
static int turn_fd(struct dz_stub *s)
{
    return host_of(s)->epoll;
}

void dz_stub_ops_turn(struct dz_stub_ops *ops)
{
    ops->regs = turn_regs;
    ops->xstate_get = turn_xstate_get;
    ops->xstate_set = turn_xstate_set;
    ops->run = turn_run;
    ops->known = turn_known;
    ops->ahead = turn_ahead;
    ops->interrupt = turn_interrupt;
    ops->halt = turn_halt;
    ops->wait = turn_wait;
    ops->soon = turn_soon;
    ops->watch = turn_watch;
    ops->fd = turn_fd;
}

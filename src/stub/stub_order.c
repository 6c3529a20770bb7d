/* SPDX-License-Identifier: MIT
 *
 * stub_order.c - commands that a stub executes while its kernel waits, and notifications.
 */
#include "stub/stub_int.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void dz_stub_go(struct host *h, uint32_t number, enum stub_command command)
{
    struct stub_ctx *c = ctx_of(h, number);
    c->command = command;
    atomic_store(&c->state, STUB_GO);
    if (atomic_load(&c->asleep))
        (void)syscall(SYS_futex, &c->state, FUTEX_WAKE, 1, NULL, NULL, 0);
}

struct patience dz_stub_patience(const struct host *h)
{
    return (struct patience){.left_ns = (int64_t)h->ticks * STUB_TICK_MS * DZ_NS_PER_MS,
                             .seen_ns = dz_clock_mono_ns()};
}

bool dz_stub_patient(struct patience *p)
{
    const int64_t now = dz_clock_mono_ns(), tick = STUB_TICK_MS * DZ_NS_PER_MS;
    p->left_ns -= now - p->seen_ns < tick ? now - p->seen_ns : tick;
    p->seen_ns = now;
    return p->left_ns > 0;
}

/* Is this call allowed now? After a clone it is the child's mapping of its ctx. Both must come from
 * the instructions meant for them, whose code a guest cannot change: from other instructions of the
 * stub, with the guest's registers, the child could continue anywhere the guest chooses.
 */
static bool ordered(struct host *h, const struct seccomp_notif *n)
{
    struct order *o = &h->order;
    const pid_t pid = (pid_t)n->pid;
    if ((o->child && n->data.instruction_pointer != h->clone_at) ||
        (o->cloned && n->data.instruction_pointer != h->map_at))
        return false;
    if (!o->active || pid <= 0 || (uint64_t)n->data.nr != o->number || (o->pid && pid != o->pid))
        return false;
    for (int i = 0; i < 6; i++)
        if ((o->args_counted >> i & 1) && n->data.args[i] != o->args[i])
            return false;
    for (uint32_t i = 1; i < numbers_used(h) && !o->pid; i++)
        if (h->threads[i].state != T_FREE && h->threads[i].tid == pid)
            return false; /* a known thread maps no other ctx */
    if (o->child) {
        *o = (struct order){.active = true,
                            .cloned = true,
                            .number = SYS_mmap,
                            .args = {o->child, PAGE_CTX_SIZE, PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_FIXED, STUB_FD_MEMORY, o->child - PAGE_CTX},
                            .args_counted = 0x3f};
    } else if (o->left > 0) {
        o->number = o->next->number;
        memcpy(o->args, o->next->args, sizeof o->args);
        o->next++;
        o->left--;
    } else {
        o->active = false;
        o->got = pid;
    }
    return true;
}

void dz_stub_notified(struct host *h)
{
    union {
        struct seccomp_notif n;
        uint8_t room[256];
    } asked = {.room = {0}};
    if (ioctl(h->listener, SECCOMP_IOCTL_NOTIF_RECV, &asked.n) < 0)
        return; /* the caller is gone */
    union {
        struct seccomp_notif_resp r;
        uint8_t room[256];
    } said = {.room = {0}};
    said.r.id = asked.n.id;
    if (ordered(h, &asked.n))
        said.r.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else
        said.r.error = -EPERM;
    (void)ioctl(h->listener, SECCOMP_IOCTL_NOTIF_SEND, &said.r);
}

static bool waits(const struct host *h, uint32_t number)
{
    return atomic_load(&ctx_of(h, number)->state) == STUB_WAITS;
}

void dz_stub_bell_read(struct host *h)
{
    uint64_t rings;
    if (h->rung)
        (void)!read(h->bell_fd, &rings, sizeof rings);
    h->rung = false;
}

static int await_asleep(struct host *h, uint32_t number, struct group *g)
{
    const struct thread *t = &h->threads[number];
    dz_stub_bell_read(h);
    for (struct patience p = dz_stub_patience(h); dz_stub_patient(&p);) {
        struct pollfd fds[] = {
            {h->bell_fd, POLLIN, 0}, {g->pidfd, POLLIN, 0}, {h->listener, POLLIN, 0}};
        atomic_store(&bell_of(h)->asleep, 1);
        const int n = waits(h, number) ? 0 : poll(fds, 3, STUB_TICK_MS);
        if (n < 0 && errno != EINTR)
            break;
        h->rung = h->rung || (n > 0 && fds[0].revents);
        dz_stub_bell_read(h);
        if (n > 0 && (fds[2].revents & POLLIN))
            dz_stub_notified(h);
        if (n > 0 && fds[1].revents) { /* wait() reaps it, because callers hold the group */
            g->killed = true;
            return -ESRCH;
        }
        if (waits(h, number))
            return g->killed ? -ESRCH : 0;
        if (t->interrupts)
            (void)syscall(SYS_tgkill, g->pid, t->tid, SIGUSR1);
    }
    dz_stub_kill(h, g);
    return -ESRCH;
}

int dz_stub_await(struct host *h, uint32_t number)
{
    struct group *g = h->threads[number].group;
    if (!h->order.active && dz_stub_spin_await(h, ctx_of(h, number)))
        return g->killed ? -ESRCH : 0;
    dz_stub_spin_stop(h);
    const int rc = await_asleep(h, number, g);
    atomic_store(&bell_of(h)->asleep, h->armed);
    if (h->armed) /* others may have rung, unheard */
        dz_stub_ring(h);
    return rc;
}

int dz_stub_order(struct host *h, uint32_t number, enum stub_command command)
{
    if (h->threads[number].state == T_DEAD || h->threads[number].group->killed)
        return -ESRCH;
    dz_stub_go(h, number, command);
    return dz_stub_await(h, number);
}

int dz_stub_calls(struct host *h, uint32_t number, struct stub_call *calls, size_t n)
{
    struct stub_call *there = (void *)(ctx_bytes(h, number) + CTX_CALLS_AT);
    for (size_t done = 0; done < n;) {
        const size_t part = n - done < CTX_CALLS_MAX ? n - done : CTX_CALLS_MAX;
        memcpy(there, calls + done, part * sizeof *calls);
        ctx_of(h, number)->count = (uint32_t)part;
        const int rc = dz_stub_order(h, number, STUB_CALLS);
        if (rc < 0)
            return rc;
        for (size_t i = 0; i < part; i++)
            calls[done + i].result = *(volatile int64_t *)&there[i].result;
        done += part;
    }
    return 0;
}

int dz_stub_close_there(struct host *h, int fd)
{
    struct stub_call call = {SYS_close, {(uint64_t)fd}, 0};
    h->order = (struct order){.active = true,
                              .pid = h->threads[STUB_ZYGOTE].tid,
                              .number = SYS_close,
                              .args = {(uint64_t)fd},
                              .args_counted = 1};
    const int rc = dz_stub_calls(h, STUB_ZYGOTE, &call, 1);
    h->order.active = false;
    return rc < 0 ? rc : (int)call.result;
}

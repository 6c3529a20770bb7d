/* SPDX-License-Identifier: MIT
 *
 * stub_clone.c - processes and threads: each is a clone that another stub makes by order.
 *
 *     parent             kernel's side                           child
 *     clone(flags) ────> the flags are the ordered ones?
 *                  <──── go on ............................... > starts in the stub's text
 *                        its thread's number, by the host <───── mmap(its own ctx)
 *                        go on ──────────────────────────────>
 *     waits                                                      waits
 *
 * The child's number comes from the notification of its first call, never from the parent, so a
 * hostile parent cannot hide a child. A child that does not make this call (because its parent
 * rewrote the stub) is found among the children of this process, and killed.
 */
#include "stub/stub_int.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/num.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SPARE = 16, /* numbers of threads that clones leave free */
};

static bool known(const struct host *h, pid_t pid)
{
    for (uint32_t i = 0; i < numbers_used(h); i++)
        if (h->groups[i] && h->groups[i]->pid == pid)
            return true;
    return false;
}

/* Kill children of the stubs' session that have no group. Needs CONFIG_PROC_CHILDREN; without it
 * they live until the pid namespace ends, which a cell has for that. */
static void kill_strays(const struct host *h)
{
    char path[64];
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(1 << 20);
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)gettid());
    if (dz_fd_read_file(AT_FDCWD, path, &text, NULL) < 0)
        return;
    uint64_t pid = 0;
    for (size_t i = 0; i < text.len; i++) {
        const char c = (char)text.p[i];
        if (c >= '0' && c <= '9') {
            pid = pid * 10 + (uint64_t)(c - '0');
            continue;
        }
        if (pid && getsid((pid_t)pid) == h->threads[STUB_ZYGOTE].tid && !known(h, (pid_t)pid)) {
            struct pollfd end = {(int)syscall(SYS_pidfd_open, (pid_t)pid, 0), POLLIN, 0};
            (void)kill((pid_t)pid, SIGKILL);
            for (uint32_t tick = 0; tick < h->ticks && poll(&end, 1, STUB_TICK_MS) == 0; tick++) {
            }
            (void)waitpid((pid_t)pid, NULL, __WALL | WNOHANG);
            dz_fd_close(&end.fd);
        }
        pid = 0;
    }
}

/* Clones leave some numbers free, so that a machine full of threads can still start a program. A
 * number whose ctx this address space maps already comes first; that of another one is not free. */
static uint32_t number_find(const struct host *h, bool clones, uint64_t memory)
{
    const uint32_t end = h->o.threads_max - (clones ? SPARE : 0);
    uint32_t found = 0;
    for (uint32_t i = STUB_ZYGOTE + 1; i < end && (i < numbers_used(h) || !found); i++) {
        const struct thread *t = &h->threads[i];
        if (t->state != T_FREE || (t->memory && t->memory != memory))
            continue;
        if (t->memory)
            return i;
        found = found ? found : i;
    }
    return found;
}
/* Free the numbers of ended threads of this address space; 0: of all. */
static void number_harvest(struct host *h, uint64_t memory)
{
    for (uint32_t i = STUB_ZYGOTE + 1; h->going && i < numbers_used(h); i++) {
        struct thread *t = &h->threads[i];
        if (t->state != T_GOING || (memory && t->memory != memory))
            continue;
        if (t->group->killed)
            dz_stub_reap(h, t->group);
        else if (syscall(SYS_tgkill, t->group->pid, t->tid, 0) < 0 && errno == ESRCH)
            dz_stub_number_free(h, i);
    }
}
static uint32_t number_new(struct host *h, bool clones, uint64_t memory)
{
    if (memory) /* numbers stay with it, so its threads shall use them again */
        number_harvest(h, memory);
    uint32_t number = number_find(h, clones, memory);
    if (!number)
        dz_stub_spares_end(h, 0);
    for (uint32_t tick = 0; !number && h->going && tick < h->ticks; tick++) {
        number_harvest(h, 0);
        number = number_find(h, clones, memory);
        if (!number)
            (void)poll(NULL, 0, STUB_TICK_MS / 10);
    }
    return number;
}

/* A new thread begins with the frame of `from`, but for the registers that are not extended. */
static void frame_prepare(struct host *h, uint32_t number, uint32_t from)
{
    uint8_t *to = ctx_bytes(h, number) + h->frame_at;
    const size_t fp = h->fp_at - h->frame_at;
    memcpy(to, h->frame, PAGE_CTX_SIZE - h->frame_at);
    if (from != STUB_ZYGOTE) /* the guest's own value, which may be anything */
        memcpy(to + fp, ctx_bytes(h, from) + h->fp_at, h->fp_size);
    dz_stub_frame_write(h, number);
}
static void ctx_prepare(struct host *h, uint32_t number, uint32_t from)
{
    struct stub_ctx *c = ctx_of(h, number);
    memset(c, 0, sizeof *c);
    c->parent = (uint32_t)getpid();
    frame_prepare(h, number, from);
}

/* Wait for the new thread's first call: until then its number is unknown. */
static int await_child(struct host *h, const struct group *parent)
{
    for (struct patience p = dz_stub_patience(h); h->order.active && dz_stub_patient(&p);) {
        struct pollfd fds[] = {{h->listener, POLLIN, 0}, {parent->pidfd, POLLIN, 0}};
        const int n = poll(fds, 2, STUB_TICK_MS);
        if (n > 0 && (fds[0].revents & POLLIN))
            dz_stub_notified(h);
        else if (n > 0)
            break; /* the parent has died, and the new thread with it */
    }
    return h->order.active ? -ESRCH : 0;
}

/* The process of this first thread. */
static int group_new(struct host *h, uint32_t number, pid_t pid)
{
    siginfo_t info = {.si_pid = 0};
    struct group *g = dz_zalloc(sizeof *g);
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct epoll_event e = {.events = EPOLLIN, .data = {.u64 = number}};
    if (!g || fd < 0 || waitid(P_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
        epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
        const int rc = g && fd < 0 ? -errno : -ENOMEM;
        if (fd >= 0)
            (void)close(fd);
        dz_free(g);
        return rc;
    }
    *g = (struct group){
        .pid = pid, .pidfd = fd, .process = ++h->processes, .memory = h->threads[number].memory};
    h->groups[number] = g;
    h->threads[number].group = g;
    h->threads[number].process = g->process;
    return 0;
}

static int adopt(struct host *h, uint32_t number, uint32_t from, enum dz_stub_clone how)
{
    struct thread *t = &h->threads[number];
    t->tid = h->order.got;
    if (how == DZ_STUB_THREAD) {
        t->group = h->threads[from].group;
        t->process = h->threads[from].process;
        if (syscall(SYS_tgkill, t->group->pid, t->tid, 0) < 0)
            return -ESRCH;
    } else {
        const int rc = group_new(h, number, t->tid);
        if (rc < 0)
            return rc;
    }
    t->group->threads++;
    t->shares = how == DZ_STUB_SHARE ? h->threads[from].process : 0;
    t->state = T_STOPPED;
    return 0;
}

/* The thread of the process that was kept for this one's memory; 0: none. */
static uint32_t spare_find(const struct host *h, uint32_t process)
{
    for (uint32_t i = STUB_ZYGOTE + 1; h->spare && i < numbers_used(h); i++)
        if (h->threads[i].state == T_SPARE && h->threads[i].shares == process)
            return i;
    return 0;
}

/* The kept process becomes a new one. Its thread waits for a command in its ctx, of which all but
 * the state of that wait is cleared. It is trusted no more than a new one: only what shares its
 * memory can have changed it, and shares that memory still. */
static void spare_take(struct host *h, uint32_t number, uint32_t from)
{
    struct thread *t = &h->threads[number];
    struct group *g = t->group;
    struct stub_ctx *c = ctx_of(h, number);
    h->spare--;
    *t = (struct thread){.state = T_STOPPED,
                         .tid = t->tid,
                         .group = g,
                         .process = ++h->processes,
                         .shares = t->shares,
                         .memory = t->memory,
                         .regs = h->threads[from].regs,
                         .sites = h->threads[from].sites};
    if (t->sites)
        t->sites->refs++;
    g->threads++;
    g->process = t->process;
    if (dz_stub_cpu_of(g, &g->cpu_before_ns) < 0)
        g->cpu_before_ns = 0; /* it has died, which an event will report */
    memset(&c->command, 0, sizeof *c - offsetof(struct stub_ctx, command));
    c->inside = 1;
    memset(ctx_bytes(h, number) + CTX_AHEAD_AT, 0, offsetof(struct dz_stub_ahead, action));
    frame_prepare(h, number, from);
}

int dz_stub_spawn(struct host *h, uint32_t from, enum dz_stub_clone how, uint32_t *ret_thread)
{
    static const uint64_t flags[] = {[DZ_STUB_FORK] = STUB_CLONE_FORK,
                                     [DZ_STUB_SHARE] = STUB_CLONE_SHARE,
                                     [DZ_STUB_THREAD] = STUB_CLONE_THREAD};
    struct group *parent = h->threads[from].group;
    if (h->threads[from].state == T_DEAD || parent->killed || dz_stub_flush(h, from) < 0)
        return -ESRCH;
    const uint32_t spare = how == DZ_STUB_SHARE ? spare_find(h, parent->process) : 0;
    const uint64_t memory = how == DZ_STUB_FORK ? 0 : h->threads[from].memory;
    const uint32_t number = spare ? spare : number_new(h, from != STUB_ZYGOTE, memory);
    if (!number)
        return -EAGAIN;
    dz_stub_whole(h, from);
    if (spare) {
        spare_take(h, spare, from);
        *ret_thread = spare;
        return 0;
    }
    h->words = number / 64 + 1 > h->words ? number / 64 + 1 : h->words;
    struct thread *t = &h->threads[number];
    if (t->memory)
        dz_stub_ctx_clear(h, number); /* that memory can write it since */
    *t = (struct thread){
        .state = T_FREE, .memory = memory ? memory : ++h->memories, .regs = h->threads[from].regs};
    struct stub_sites *sites = h->threads[from].sites;
    t->sites = how == DZ_STUB_FORK ? dz_stub_sites_new(sites) : sites;
    if (sites && !t->sites) { /* the child would have patches that nobody knows */
        dz_stub_number_free(h, number);
        return -ENOMEM;
    }
    if (sites && how != DZ_STUB_FORK)
        sites->refs++;
    ctx_prepare(h, number, from);
    struct stub_ctx *c = ctx_of(h, from);
    c->clone_flags = flags[how];
    c->clone_ctx = ctx_address(number);
    h->order = (struct order){.active = true,
                              .pid = h->threads[from].tid,
                              .number = SYS_clone,
                              .args = {flags[how]},
                              .args_counted = 0x1f,
                              .child = ctx_address(number)};
    int rc = dz_stub_order(h, from, STUB_CLONE);
    const bool cloned = h->order.cloned || h->order.got;
    const int64_t said = *(volatile int64_t *)&c->clone_result;
    if (rc == 0 && cloned && said >= 0)
        rc = await_child(h, parent);
    else if (rc == 0)
        rc = said == -ENOMEM ? -ENOMEM : -EAGAIN;
    const bool came = h->order.got && !h->order.active;
    h->order.active = false;
    if (came && adopt(h, number, from, how) == 0) {
        if (rc == 0)
            rc = dz_stub_await(h, number);
        if (rc == 0) {
            *ret_thread = number;
            return 0;
        }
        dz_stub_kill(h, t->group); /* it did not come, or its parent denies it */
        t->group->threads--;
        t->state = T_GOING;
        h->going++;
        return rc;
    }
    if (cloned) {
        if (rc == 0 || came)
            rc = -ESRCH;
        if (said >= 0 && from != STUB_ZYGOTE)
            dz_stub_kill(h, parent); /* where its threads are, and it no longer obeys */
        kill_strays(h);
    }
    dz_stub_number_free(h, number);
    return rc;
}

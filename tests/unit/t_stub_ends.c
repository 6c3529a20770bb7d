/* SPDX-License-Identifier: MIT
 *
 * The back end of host processes: how threads and processes end, and what the next ones find where
 * they were. */
#include "stub/stub_int.h"

#define TAP_ALARM_S 30
#include "tap.h"

#include "../lib/stub_rig.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A process that shares memory is kept at its end, and is the next one that shares this memory:
 * with registers, CPU time and a ctx of its own, as a new one. */
TEST(host_keeps_a_process_that_shares)
{
    start();
    const struct host *h = host_of(stub);
    const uint32_t t = process(guest_store), other = process(guest_spin);
    uint32_t v = 0, w = 0, x = 0;
    int64_t ns = 0;
    static uint8_t state[DZ_STUB_XSTATE_MAX];
    const int64_t size = stub->ops->xstate_get(stub, t, state, sizeof state);
    const uint64_t mark = 0x0123456789abcdef;
    memcpy(state + 160, &mark, sizeof mark);
    CHECK_INT(stub->ops->xstate_set(stub, t, state, (size_t)size), 0);
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_SHARE, &v), 0);
    regs(v)->rdi = DATA;
    regs(v)->r12 = 5;
    CHECK_INT(run(v).kind, DZ_STUB_CALL);
    CHECK_INT(stub->ops->cpu(stub, v, &ns), 0);
    const pid_t pid = h->threads[v].tid;
    const int64_t used = ns;
    stub->ops->end(stub, v);
    CHECK_INT(stub->ops->clone(stub, other, DZ_STUB_SHARE, &x), 0);
    CHECK(h->threads[x].tid != pid); /* that is another memory */
    memset(state, 0, sizeof state);
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_SHARE, &w), 0);
    CHECK_INT(h->threads[w].tid, pid);
    CHECK(regs(w)->r12 == 0 && regs(w)->rip == regs(t)->rip);
    CHECK(stub->ops->xstate_get(stub, w, state, sizeof state) == size);
    CHECK(memcmp(state + 160, &mark, sizeof mark) == 0);
    CHECK_INT(stub->ops->cpu(stub, w, &ns), 0);
    CHECK(ns < used);
    regs(w)->rdi = DATA + 1;
    CHECK_INT(run(w).kind, DZ_STUB_CALL);
    CHECK_INT(word(t, DATA), 0x0101);
    /* two at once, of which one is kept */
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_SHARE, &v), 0);
    CHECK(h->threads[v].tid != pid);
    stub->ops->end(stub, w);
    stub->ops->end(stub, v);
    CHECK_INT(h->spare, 1);
    /* It ends with its memory's first process, whether that is ended or killed. */
    struct pollfd end_of = {(int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0};
    stub->ops->end(stub, t);
    CHECK_INT(h->spare, 0);
    CHECK_INT(poll(&end_of, 1, -1), 1);
    (void)close(end_of.fd);
    stub->ops->end(stub, x);
    CHECK_INT(h->spare, 1);
    stub->ops->run(stub, other);
    CHECK_INT(kill(h->threads[other].tid, SIGKILL), 0);
    CHECK_INT(next().kind, DZ_STUB_ENDED);
    CHECK_INT(h->spare, 0);
    /* A process that runs when it is ended cannot be kept. */
    const uint32_t s = process(guest_spin);
    CHECK_INT(stub->ops->clone(stub, s, DZ_STUB_SHARE, &v), 0);
    stub->ops->run(stub, v);
    stub->ops->end(stub, v);
    CHECK_INT(h->spare, 0);
    end();
}

/* A stub cannot unmap the ctx of a thread that has ended. So while its memory has a process, no
 * other memory gets the number; afterwards it is used again, without what was written meanwhile. */
TEST(host_numbers_stay_with_the_memory_that_maps_their_ctx)
{
    enum {
        OTHERS = 40
    };
    start();
    struct host *h = host_of(stub);
    const uint32_t t = process(guest_count);
    uint32_t v = 0, w = 0, others[OTHERS], child = 0;
    struct dz_stub_event e;
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_SHARE, &v), 0);
    stub->ops->end(stub, v);
    dz_stub_spares_end(h, 0); /* as when numbers are short */
    while (h->going)
        CHECK_INT(stub->ops->wait(stub, 1000 * 1000, &e, 1), 0);
    CHECK_INT(h->threads[v].state, T_FREE);
    for (int i = 0; i < OTHERS; i++) {
        others[i] = process(guest_count);
        CHECK(others[i] != v);
    }
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_FORK, &child), 0);
    CHECK(child != v);
    memset(ctx_bytes(h, v) + CTX_AHEAD_AT, 7, 4096);
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_THREAD, &w), 0); /* it maps the ctx already */
    CHECK_INT(w, v);
    CHECK_INT(ctx_bytes(h, v)[CTX_AHEAD_AT], 0);
    for (int i = 0; i < 100; i++) { /* threads, one after the other */
        const pid_t tid = tid_of(w);
        stub->ops->exit(stub, w);
        while (syscall(SYS_tgkill, tid_of(t), tid, 0) == 0)
            (void)sched_yield();
        CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_THREAD, &w), 0);
        CHECK_INT(w, v);
    }
    stub->ops->exit(stub, w);
    stub->ops->end(stub, others[0]);
    stub->ops->end(stub, t);
    while (h->going)
        CHECK_INT(stub->ops->wait(stub, 1000 * 1000, &e, 1), 0);
    CHECK_INT(process(guest_count), t < v ? t : v);
    /* the same by an end that only the host sees, and with writes behind it */
    CHECK_INT(stub->ops->clone(stub, child, DZ_STUB_SHARE, &w), 0);
    stub->ops->end(stub, w);
    dz_stub_spares_end(h, 0);
    while (h->going)
        CHECK_INT(stub->ops->wait(stub, 1000 * 1000, &e, 1), 0);
    CHECK(h->threads[w].memory != 0);
    memset(ctx_bytes(h, w) + CTX_AHEAD_AT, 7, 4096);
    CHECK_INT(kill(tid_of(child), SIGKILL), 0);
    e = next();
    CHECK(e.kind == DZ_STUB_ENDED && e.thread == child);
    CHECK_INT(h->threads[w].memory, 0);
    CHECK_INT(ctx_bytes(h, w)[CTX_AHEAD_AT], 0);
    end();
}

/* What a thread left in its ctx is not there for the next one, be it little or much. */
TEST(host_clears_a_ctx)
{
    start();
    struct host *h = host_of(stub);
    for (size_t size = 0x1000; size <= 0x30000; size += 0x2f000) {
        const uint32_t t = process(guest_count);
        memset(ctx_bytes(h, t) + CTX_AHEAD_AT, 7, size);
        stub->ops->end(stub, t);
        while (h->going) {
            struct pollfd p = {stub->ops->fd(stub), POLLIN, 0};
            struct dz_stub_event e;
            CHECK_INT(poll(&p, 1, -1), 1);
            CHECK_INT(stub->ops->wait(stub, 0, &e, 1), 0);
        }
        for (size_t i = 0; i < PAGE_CTX_SIZE; i++)
            if (ctx_bytes(h, t)[i])
                CHECK_INT(i, -1);
    }
    end();
}

TEST(host_ends)
{
    start();
    struct dz_stub_event e;
    const uint32_t t = process(guest_spin);
    uint32_t c = 0;
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_THREAD, &c), 0);
    const uint32_t other = process(guest_count);
    stub->ops->run(stub, t);
    /* the host kills it: t runs, c stands */
    char path[64], list[64] = "";
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "re");
    CHECK(f && fgets(list, sizeof list, f));
    if (f)
        (void)fclose(f);
    char *second = strchr(list, ' ');
    CHECK(second);
    CHECK_INT(kill((pid_t)strtol(second, NULL, 10), SIGKILL), 0);
    bool seen[2] = {false, false};
    for (int i = 0; i < 2; i++) {
        e = next();
        CHECK_INT(e.kind, DZ_STUB_ENDED);
        CHECK_INT(e.status, SIGKILL);
        CHECK(e.thread == t || e.thread == c);
        seen[e.thread == c] = true;
    }
    CHECK(seen[0] && seen[1]);
    CHECK_INT(run(other).kind, DZ_STUB_CALL);
    CHECK_INT(run(other).kind, DZ_STUB_CALL);
    stub->ops->end(stub, other);
    CHECK_INT(stub->ops->wait(stub, 0, &e, 1), 0);
    end();
}

/* Threads that make calls all the time do not hide the end of another process. */
TEST(host_reports_ends_between_calls)
{
    start();
    struct host *h = host_of(stub);
    const uint32_t t = process(guest_count);
    for (int soon = 0; soon < 2; soon++) {
        const uint32_t other = process(guest_spin);
        struct dz_stub_event e[4];
        stub->ops->run(stub, t);
        stub->ops->run(stub, other);
        while (atomic_load(&ctx_of(h, t)->state) != STUB_WAITS)
            (void)sched_yield();
        struct pollfd end_of = {h->threads[other].group->pidfd, POLLIN, 0};
        CHECK_INT(kill(tid_of(other), SIGKILL), 0);
        CHECK_INT(poll(&end_of, 1, -1), 1);
        h->swept_ns = 0; /* a tick is over */
        CHECK_INT(soon ? stub->ops->soon(stub, e, 4) : stub->ops->wait(stub, -1, e, 4), 2);
        CHECK(e[0].thread == t || e[1].thread == t);
        CHECK(e[e[0].thread == t].kind == DZ_STUB_ENDED && e[e[0].thread == t].thread == other);
    }
    end();
}

TEST(host_numbers_come_again)
{
    start();
    uint32_t highest = 0;
    for (int i = 0; i < 300; i++) {
        const uint32_t t = process(guest_count);
        CHECK_INT(run(t).kind, DZ_STUB_CALL);
        CHECK_INT(regs(t)->rbx, 0); /* nothing of who had the number */
        uint32_t c = 0;
        CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_THREAD, &c), 0);
        stub->ops->exit(stub, t);
        CHECK_INT(run(c).kind, DZ_STUB_CALL);
        stub->ops->end(stub, c);
        struct dz_stub_event e;
        CHECK_INT(stub->ops->wait(stub, 0, &e, 1), 0);
        highest = c > highest ? c : highest;
    }
    CHECK(highest < 300);
    end();
}

/* SPDX-License-Identifier: MIT
 *
 * The back end of host processes: guests are pieces of machine code, copied into fresh processes.
 * Patched call sites: t_stub_patch.c; ends: t_stub_ends.c. */
#include "stub/stub_int.h"

#define TAP_ALARM_S 30
#include "tap.h"

#include "../lib/stub_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(host_hello)
{
    start();
    const uint32_t t = process(guest_hello);
    struct dz_stub_event e = run(t);
    CHECK_INT(e.kind, DZ_STUB_CALL);
    CHECK_INT(e.thread, t);
    CHECK_INT(e.arch, AUDIT_ARCH_X86_64);
    CHECK_INT(regs(t)->rax, SYS_write);
    char text[7] = "";
    CHECK_INT(stub->ops->read(stub, t, regs(t)->rsi, text, regs(t)->rdx), 6);
    CHECK_STR(text, "hello\n");
    regs(t)->rax = 6;
    e = run(t);
    CHECK_INT(e.kind, DZ_STUB_CALL);
    CHECK_INT(regs(t)->rax, SYS_exit);
    CHECK_INT(regs(t)->rdi, 7);
    CHECK_INT(regs(t)->rbx, 6);
    stub->ops->end(stub, t);
    CHECK_INT(stub->ops->wait(stub, -1, &e, 1), 0);
    end();
}

TEST(host_faults)
{
    start();
    static const struct {
        const uint8_t *code;
        uint64_t at;
        int signo, code_is;
        uint64_t error;
    } cases[] = {
        {guest_load, 0x10, SIGSEGV, SEGV_MAPERR, 4},
        {guest_load, UINT64_C(1) << 63, SIGSEGV, SI_KERNEL, 0},
        {guest_store, TEXT, SIGSEGV, SEGV_ACCERR, 7},
        {guest_store, DATA + 0x100000, SIGSEGV, SEGV_MAPERR, 6},
        {guest_ud, 0, SIGILL, ILL_ILLOPN, 0},
        {guest_bp, 0, SIGTRAP, SI_KERNEL, 0},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++) {
        const uint32_t t = process(cases[i].code);
        regs(t)->rdi = cases[i].at;
        const struct dz_stub_event e = run(t);
        CHECK_INT(e.kind, DZ_STUB_FAULT);
        CHECK_INT(e.signo, cases[i].signo);
        CHECK_INT(e.code, cases[i].code_is);
        CHECK_INT(e.error, cases[i].error);
        if (cases[i].code_is == SEGV_MAPERR)
            CHECK_INT(e.addr, cases[i].at);
        stub->ops->end(stub, t);
    }
    const uint32_t t = process(guest_store); /* what is missing comes, and it goes on */
    regs(t)->rdi = DATA + 0x100000;
    CHECK_INT(run(t).kind, DZ_STUB_FAULT);
    const struct dz_mm_call c = anon(DATA + 0x100000, 4096, PROT_READ | PROT_WRITE);
    CHECK_INT(stub->ops->memory(stub, t, &c, 1), 0);
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    CHECK_INT(word(t, DATA + 0x100000), 1);
    end();
}

TEST(host_registers)
{
    start();
    const uint32_t t = process(guest_count);
    struct dz_stub_regs r = {.r8 = 8,
                             .r9 = 9,
                             .r10 = 10,
                             .r11 = 11,
                             .r12 = 12,
                             .r13 = 13,
                             .r14 = 14,
                             .r15 = 15,
                             .rdi = 20,
                             .rsi = 21,
                             .rbp = 22,
                             .rbx = 23,
                             .rdx = 24,
                             .rcx = 25,
                             .rsp = 26,
                             .rip = regs(t)->rip,
                             .rflags = 0x246};
    *regs(t) = r;
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    const struct dz_stub_regs *g = regs(t);
    CHECK(g->r8 == 8 && g->r9 == 9 && g->r10 == 10 && g->r12 == 12 && g->r13 == 13);
    CHECK(g->r14 == 14 && g->r15 == 15 && g->rdi == 20 && g->rsi == 21 && g->rbp == 22);
    CHECK(g->rbx == 23 && g->rdx == 24 && g->rsp == 26 && g->rax == SYS_getpid);
    CHECK_INT(g->rflags & 0xff, 0x46);
    CHECK_INT(g->rcx, g->rip);
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    CHECK_INT(regs(t)->rbx, 24);
    /* extended ones */
    const uint32_t x = process(guest_sse);
    regs(x)->rdi = 0x1122334455667788;
    CHECK_INT(run(x).kind, DZ_STUB_CALL);
    static uint8_t state[DZ_STUB_XSTATE_MAX];
    const int64_t n = stub->ops->xstate_get(stub, x, state, sizeof state);
    CHECK(n >= 576);
    uint64_t xmm3;
    memcpy(&xmm3, state + 160 + 48, sizeof xmm3);
    CHECK(xmm3 == 0x1122334455667788);
    xmm3 = 77;
    memcpy(state + 160 + 48, &xmm3, sizeof xmm3);
    CHECK_INT(stub->ops->xstate_set(stub, x, state, (size_t)n), 0);
    CHECK_INT(stub->ops->xstate_set(stub, x, state, (size_t)n - 1), -EINVAL);
    CHECK_INT(stub->ops->xstate_get(stub, x, state, 10), -ENOSPC);
    CHECK_INT(run(x).kind, DZ_STUB_CALL);
    CHECK_INT(regs(x)->rbx, 77);
    state[464] ^= 1;
    CHECK_INT(stub->ops->xstate_set(stub, x, state, (size_t)n), -EINVAL);
    /* bases */
    const uint32_t b = process(guest_bases);
    const uint64_t words[] = {111, 222};
    CHECK_INT(stub->ops->write(stub, b, DATA, words, sizeof words), sizeof words);
    regs(b)->fs_base = DATA;
    regs(b)->gs_base = DATA + 8;
    CHECK_INT(run(b).kind, DZ_STUB_CALL);
    CHECK_INT(regs(b)->rbx, 111);
    CHECK_INT(regs(b)->rbp, 222);
    CHECK_INT(regs(b)->fs_base, DATA);
    CHECK_INT(regs(b)->gs_base, DATA + 8);
    end();
}

TEST(host_interrupts)
{
    start();
    const uint32_t t = process(guest_spin);
    stub->ops->run(stub, t);
    struct dz_stub_event e;
    CHECK_INT(stub->ops->wait(stub, 5000000, &e, 1), 0);
    while (word(t, DATA) == 0) {
    }
    for (int i = 0; i < 5; i++) {
        stub->ops->interrupt(stub, t);
        CHECK_INT(next().kind, DZ_STUB_STOPPED);
        const uint64_t was = word(t, DATA);
        CHECK(was > 0);
        stub->ops->interrupt(stub, t); /* it stands: nothing happens */
        stub->ops->run(stub, t);
        while (word(t, DATA) == was) {
        }
    }
    int64_t ns = 0;
    CHECK_INT(stub->ops->cpu(stub, t, &ns), 0);
    CHECK(ns > 0);
    end();
}

TEST(host_bytes_and_pages)
{
    start();
    const uint32_t t = process(guest_hello);
    CHECK_INT(stub->ops->write(stub, t, DATA + PAGES * 4096 - 2, "abcd", 4), 2);
    CHECK_INT(stub->ops->write(stub, t, DATA + PAGES * 4096, "abcd", 4), -EFAULT);
    CHECK_INT(stub->ops->write(stub, t, TEXT, "abcd", 4), -EFAULT); /* as the guest */
    char b[4];
    CHECK_INT(stub->ops->read(stub, t, TEXT, b, 4), 4);
    CHECK_INT(memcmp(b, guest_begin, 4), 0);
    CHECK_INT(stub->ops->read(stub, t, PAGE_TEXT, b, 4), -EFAULT); /* none of its business */
    CHECK_INT(stub->ops->read(stub, t, PAGE_CTX, b, 4), -EFAULT);
    CHECK_INT(stub->ops->read(stub, t, PAGE_TEXT - 2, b, 4), -EFAULT);
    CHECK_INT(stub->ops->read(stub, t, UINT64_MAX - 1, b, 4), -EFAULT);
    struct dz_stub_runs runs = DZ_VEC_INIT(DZ_STUB_RUNS_MAX);
    CHECK_INT(stub->ops->write(stub, t, DATA, "x", 1), 1);
    const int rc = stub->ops->changed(stub, t, 0, UINT64_MAX, &runs);
    if (rc != -EOPNOTSUPP) {
        CHECK_INT(rc, 0);
        CHECK_INT(runs.n, 2); /* not the text, not the page that was read only, nothing of ours */
        CHECK_INT(runs.p[0].start, DATA);
        CHECK_INT(runs.p[0].end, DATA + 4096);
        CHECK_INT(runs.p[1].start, DATA + (PAGES - 1) * 4096);
    }
    dz_vec_release(&runs);
    end();
}

/* Many ranges in one call, also more than one call of the host takes. */
TEST(host_moves_ranges_at_once)
{
    enum {
        MANY = 700,
        AT = 0x10000000
    };
    static struct dz_mm_range parts[MANY];
    static uint16_t in[MANY], out[MANY];
    start();
    const uint32_t t = process(guest_hello);
    const struct dz_mm_call call = anon(AT, MANY * 16, PROT_READ | PROT_WRITE);
    CHECK_INT(stub->ops->memory(stub, t, &call, 1), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        parts[i] = (struct dz_mm_range){AT + i * 16, AT + i * 16 + 2};
        in[i] = (uint16_t)(i * 7);
    }
    CHECK_INT(stub->ops->move(stub, t, parts, MANY, in, true), 0);
    CHECK_INT(stub->ops->move(stub, t, parts, MANY, out, false), 0);
    CHECK_INT(memcmp(in, out, sizeof in), 0);
    CHECK_INT(word(t, AT + 699 * 16) & 0xffff, 699 * 7);
    CHECK_INT(stub->ops->move(stub, t, parts, 0, in, true), 0);
    parts[600] = (struct dz_mm_range){TEXT, TEXT + 2}; /* as the guest */
    CHECK_INT(stub->ops->move(stub, t, parts, MANY, in, true), -EFAULT);
    CHECK_INT(stub->ops->move(stub, t, parts, MANY, out, false), 0);
    parts[600] = (struct dz_mm_range){PAGE_CTX, PAGE_CTX + 2}; /* the stub's own memory */
    CHECK_INT(stub->ops->move(stub, t, parts, MANY, out, false), -EFAULT);
    parts[600] = (struct dz_mm_range){PAGE_TEXT - 1, PAGE_TEXT + 1};
    CHECK_INT(stub->ops->move(stub, t, parts, MANY, out, false), -EFAULT);
    end();
}

/* A thread spins on a word with locked increments, another one's swaps lose none of them. */
TEST(host_swaps)
{
    start();
    const uint32_t t = process(guest_loop);
    uint32_t other = 0, word = 0, was = 0, added = 0;
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_THREAD, &other), 0);
    CHECK_INT(stub->ops->swap(stub, other, DATA + 8, 1, 2, &was), 0);
    CHECK_INT(was, 0);
    CHECK_INT(stub->ops->swap(stub, other, DATA + 8, 0, 2, &was), 0);
    CHECK_INT(was, 0);
    CHECK_INT(stub->ops->swap(stub, other, DATA + 8, 7, 9, &was), 0);
    CHECK_INT(was, 2);
    CHECK_INT(stub->ops->swap(stub, other, DATA + 2, 0, 2, &was), -EFAULT);
    CHECK_INT(stub->ops->swap(stub, other, PAGE_CTX, 0, 2, &was), -EFAULT);
    for (uint32_t turn = 0; turn < 200; turn++) { /* it counts: one each turn, beside ours */
        stub->ops->run(stub, t);
        CHECK_INT(stub->ops->read(stub, other, DATA, &word, sizeof word), sizeof word);
        for (;; word = was) {
            CHECK_INT(stub->ops->swap(stub, other, DATA, word, word + 1, &was), 0);
            if (was == word)
                break;
        }
        added++;
        CHECK_INT(next().thread, t);
    }
    CHECK_INT(stub->ops->read(stub, other, DATA, &word, sizeof word), sizeof word);
    CHECK_INT(word, added + 200);
    uint64_t bytes = 0, exactly = 0;
    CHECK_INT(stub->ops->resident(stub, t, false, &bytes), 0);
    CHECK_INT(stub->ops->resident(stub, t, true, &exactly), 0);
    CHECK(bytes >= 4096 && bytes <= 64 * 4096 && exactly >= 4096 && exactly <= bytes);
    CHECK_INT(stub->ops->swap(stub, other, TEXT, 0, 2, &was), -ESRCH); /* its own fault */
    end();
}

/* A descriptor of the caller's ends a wait while it is readable, and is no event. */
TEST(host_watches)
{
    start();
    int fds[2];
    struct dz_stub_event e;
    CHECK_INT(pipe(fds), 0);
    CHECK_INT(stub->ops->watch(stub, fds[0]), 0);
    CHECK_INT(stub->ops->watch(stub, fds[0]), -EBUSY);
    const uint32_t t = process(guest_spin);
    stub->ops->run(stub, t);
    CHECK_INT(write(fds[1], "x", 1), 1);
    CHECK_INT(stub->ops->wait(stub, -1, &e, 1), 0); /* it spins for ever, but we return */
    stub->ops->interrupt(stub, t);
    int n = 0;
    while ((n = stub->ops->wait(stub, -1, &e, 1)) == 0) {
    }
    CHECK_INT(n, 1);
    CHECK_INT(e.kind, DZ_STUB_STOPPED);
    (void)close(fds[0]);
    (void)close(fds[1]);
    end();
}

TEST(host_lists)
{
    enum {
        MANY = 1000
    };
    start();
    const uint32_t t = process(guest_hello);
    static struct dz_mm_call calls[MANY];
    for (size_t i = 0; i < MANY; i++)
        calls[i] = anon(0x10000000 + i * 8192, 4096, PROT_READ | PROT_WRITE);
    calls[500] = (struct dz_mm_call){.op = DZ_MM_SYNC, .at = 1, .size = 1};
    CHECK_INT(stub->ops->memory(stub, t, calls, MANY), 0);
    CHECK_INT(stub->ops->write(stub, t, 0x10000000, "a", 1), 1);
    CHECK_INT(stub->ops->write(stub, t, 0x10000000 + (MANY - 1) * 8192, "a", 1), 1);
    CHECK_INT(stub->ops->write(stub, t, 0x10000000 + 500 * 8192, "a", 1), -EFAULT);
    const struct dz_mm_call rest[] = {
        {.op = DZ_MM_MPROTECT, .at = 0x10000000, .size = 4096, .prot = PROT_READ},
        {.op = DZ_MM_MREMAP,
         .at = 0x10000000,
         .size = 4096,
         .to = 0x20000000,
         .flags = MREMAP_MAYMOVE | MREMAP_FIXED},
        {.op = DZ_MM_MUNMAP, .at = 0x10002000, .size = 4096},
        {.op = DZ_MM_MADVISE, .at = DATA, .size = 4096, .advice = MADV_DONTNEED},
    };
    CHECK_INT(stub->ops->write(stub, t, DATA, "b", 1), 1);
    CHECK_INT(stub->ops->memory(stub, t, rest, 4), 0);
    CHECK_INT(word(t, 0x20000000) & 0xff, 'a');
    CHECK_INT(word(t, DATA), 0);
    CHECK_INT(stub->ops->write(stub, t, 0x20000000, "a", 1), -EFAULT);
    CHECK_INT(stub->ops->write(stub, t, 0x10002000, "a", 1), -EFAULT);
    /* the first failure ends it */
    struct dz_mm_call bad[] = {anon(0x30000000, 4096, PROT_READ),
                               {.op = DZ_MM_MPROTECT, .at = 0x66660000, .size = 4096},
                               anon(0x31000000, 4096, PROT_READ)};
    CHECK_INT(stub->ops->memory(stub, t, bad, 3), -ENOMEM);
    bad[0].back = (struct dz_mm_back){.kind = DZ_MM_FILE, .id = 5};
    CHECK_INT(stub->ops->memory(stub, t, bad, 1), -ENOENT);
    stub->ops->file_close(stub, text_number);
    bad[0].back = (struct dz_mm_back){.kind = DZ_MM_FILE, .id = 1};
    CHECK_INT(stub->ops->memory(stub, t, bad, 1), -EBADF);
    CHECK_INT(stub->ops->file(stub, text_fd, &text_number), 0); /* the number is used again */
    CHECK_INT(text_number, STUB_FD_FIRST);
    end();
}

TEST(host_threads)
{
    enum {
        THREADS = 8,
        TURNS = 4000
    };
    start();
    uint32_t t[THREADS] = {process(guest_loop)};
    for (int i = 1; i < THREADS; i++) {
        CHECK_INT(stub->ops->clone(stub, t[0], DZ_STUB_THREAD, &t[i]), 0);
        CHECK(regs(t[i])->rip == regs(t[0])->rip);
    }
    for (int i = 0; i < THREADS; i++)
        stub->ops->run(stub, t[i]);
    int turns = 0, stopped = 0;
    while (stopped < THREADS) {
        struct dz_stub_event e[DZ_STUB_EVENTS_MAX];
        const int n = stub->ops->wait(stub, -1, e, DZ_STUB_EVENTS_MAX);
        CHECK(n > 0);
        for (int i = 0; i < n; i++) {
            CHECK_INT(e[i].kind, DZ_STUB_CALL);
            if (++turns <= TURNS)
                stub->ops->run(stub, e[i].thread);
            else
                stopped++;
        }
    }
    CHECK_INT(word(t[0], DATA), TURNS + THREADS);
    for (int i = 0; i < THREADS; i++) {
        stub->ops->exit(stub, t[i]); /* the first of the host's, too, before the others */
        if (i + 1 < THREADS)
            CHECK_INT(word(t[i + 1], DATA), TURNS + THREADS);
    }
    struct dz_stub_event e;
    CHECK_INT(stub->ops->wait(stub, 0, &e, 1), 0);
    end();
}

/* Numbers 0 and 1 are the stub's own; clones leave 16 for programs that the embedder starts. */
TEST(host_full_of_threads_still_starts_a_program)
{
    start_with(64);
    const uint32_t t = process(guest_loop);
    uint32_t other = 0, threads = 1;
    int rc = 0;
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_SHARE, &other), 0);
    stub->ops->end(stub, other); /* it is kept, but takes no number away from others */
    while (threads < 100 && (rc = stub->ops->clone(stub, t, DZ_STUB_THREAD, &other)) == 0)
        threads++;
    CHECK_INT(rc, -EAGAIN);
    CHECK_INT(threads, 64 - 16 - 2);
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_FORK, &other), -EAGAIN);
    for (uint32_t i = 0; i < 16; i++)
        CHECK_INT(stub->ops->process(stub, &other), 0);
    CHECK_INT(stub->ops->process(stub, &other), -EAGAIN);
    end();
}

TEST(host_forks)
{
    start();
    const uint32_t t = process(guest_store);
    uint32_t c = 0, v = 0, again = 0;
    CHECK_INT(stub->ops->write(stub, t, DATA, "p", 1), 1);
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_FORK, &c), 0);
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_SHARE, &v), 0);
    CHECK_INT(stub->ops->clone(stub, c, DZ_STUB_FORK, &again), 0);
    regs(c)->rdi = DATA + 1;
    CHECK_INT(run(c).kind, DZ_STUB_CALL);
    regs(v)->rdi = DATA + 2;
    CHECK_INT(run(v).kind, DZ_STUB_CALL);
    CHECK_INT(word(t, DATA), 0x010070);
    CHECK_INT(word(v, DATA), 0x010070);
    CHECK_INT(word(c, DATA), 0x000170);
    CHECK_INT(word(again, DATA), 0x000070);
    stub->ops->end(stub, t); /* a child does not end with its parent */
    CHECK_INT(word(v, DATA), 0x010070);
    regs(again)->rdi = DATA;
    CHECK_INT(run(again).kind, DZ_STUB_CALL);
    end();
}

/* Bytes for a new mapping come with its list: at the next function that needs the memory, or when
 * the thread runs. */
TEST(host_fills_what_it_maps)
{
    enum {
        AT = DATA + 0x100000
    };
    start();
    static uint8_t large[CTX_ROOM_SIZE + 1];
    uint8_t got[12];
    uint32_t t = process(guest_count);
    const struct dz_mm_call c = anon(AT, 16384, PROT_READ | PROT_WRITE);
    for (int runs = 0; runs < 2; runs++) {
        CHECK_INT(stub->ops->later(stub, t, &c, 1), 0);
        CHECK_INT(stub->ops->fill(stub, t, AT + 4094, "text", 4), 0);
        CHECK_INT(stub->ops->fill(stub, t, AT + 4100, "more", 4), 0);
        CHECK_INT(stub->ops->fill(stub, t, AT + 4095, NULL, 2), 0);
        if (runs)
            CHECK_INT(run(t).kind, DZ_STUB_CALL);
        CHECK_INT(stub->ops->read(stub, t, AT + 4094, got, 10), 10);
        CHECK(memcmp(got, "t\0\0t\0\0more", 10) == 0);
    }
    CHECK_INT(stub->ops->fill(stub, t, AT, "now", 3), 0); /* no list waits */
    CHECK_INT(stub->ops->fill(stub, t, AT + 1, NULL, 1), 0);
    CHECK_INT(stub->ops->read(stub, t, AT, got, 3), 3);
    CHECK(memcmp(got, "n\0w", 3) == 0);
    CHECK_INT(stub->ops->fill(stub, t, AT - 4096, "x", 1), -EFAULT);
    memset(large, 7, sizeof large);
    CHECK_INT(stub->ops->later(stub, t, &c, 1), 0);
    CHECK_INT(stub->ops->fill(stub, t, AT, large, sizeof large), 0); /* more than its room */
    CHECK_INT(stub->ops->read(stub, t, AT + sizeof large - 1, got, 2), 2);
    CHECK(got[0] == 7 && got[1] == 0);
    CHECK_INT(stub->ops->later(stub, t, &c, 1), 0);
    CHECK_INT(stub->ops->fill(stub, t, DZ_STUB_RESERVED_END - 1, "xx", 2), -EFAULT);
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    CHECK_INT(stub->ops->later(stub, t, &c, 1), 0);
    CHECK_INT(stub->ops->fill(stub, t, AT - 4096, "x", 1), 0);
    CHECK_INT(run(t).kind, DZ_STUB_ENDED);
    t = process(guest_count);
    CHECK_INT(stub->ops->later(stub, t, &c, 1), 0);
    CHECK_INT(stub->ops->fill(stub, t, AT - 4096, NULL, 1), 0);
    CHECK_INT(run(t).kind, DZ_STUB_ENDED);
    end();
}

TEST(host_other_abis)
{
    start();
    uint32_t t = process(guest_int80);
    struct dz_stub_event e = run(t);
    CHECK_INT(e.kind, DZ_STUB_CALL);
    CHECK_INT(e.arch, AUDIT_ARCH_I386);
    t = process(guest_x32);
    e = run(t);
    CHECK_INT(e.kind, DZ_STUB_CALL);
    CHECK_INT(regs(t)->rax, 0x40000027);
    t = process(guest_vsys);
    e = run(t);
    CHECK(e.kind == DZ_STUB_CALL || e.kind == DZ_STUB_FAULT); /* by the host's kernel */
    if (e.kind == DZ_STUB_CALL)
        CHECK_INT(regs(t)->rax, SYS_time);
    end();
}

#include <poll.h>
TEST(host_descriptor)
{
    start();
    const uint32_t t = process(guest_count);
    struct dz_stub_event e;
    for (int i = 0; i < 50; i++) {
        stub->ops->run(stub, t);
        int n;
        while ((n = stub->ops->wait(stub, 0, &e, 1)) == 0) {
            struct pollfd p = {stub->ops->fd(stub), POLLIN, 0};
            CHECK_INT(poll(&p, 1, -1), 1);
        }
        CHECK_INT(n, 1);
        CHECK_INT(e.kind, DZ_STUB_CALL);
    }
    /* who rings while a list of another one is executed is not forgotten */
    const uint32_t other = process(guest_count);
    const struct dz_mm_call c = anon(0x700000, 4096, PROT_READ);
    for (int i = 0; i < 50; i++) {
        CHECK_INT(stub->ops->wait(stub, 0, &e, 1), 0);
        stub->ops->run(stub, t);
        for (int k = 0; k < 5; k++)
            CHECK_INT(stub->ops->memory(stub, other, &c, 1), 0);
        struct pollfd p = {stub->ops->fd(stub), POLLIN, 0};
        CHECK_INT(poll(&p, 1, 20000), 1);
        CHECK_INT(stub->ops->wait(stub, -1, &e, 1), 1);
        CHECK_INT(e.thread, t);
    }
    end();
}

TEST(host_answers_what_it_knows)
{
    start();
    uint32_t t = process(guest_known);
    struct dz_stub_known known = {true, 11, 12, 13, 14, 15, UINT32_MAX, 17};
    stub->ops->known(stub, t, &known);
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    CHECK_INT(regs(t)->rax, SYS_getpgrp);
    for (uint32_t i = 0; i < 5; i++)
        CHECK_INT(word(t, DATA + i * 8), 11 + i);
    CHECK_INT(word(t, DATA + 40), UINT32_MAX); /* as many bits as an id has */
    CHECK_INT(word(t, DATA + 48), 17);
    known = (struct dz_stub_known){.on = false, .pid = 21};
    stub->ops->known(stub, t, &known);
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    CHECK_INT(regs(t)->rax, SYS_getpid);
    known.on = true;
    stub->ops->known(stub, t, &known);
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    stub->ops->end(stub, t);
    t = process(guest_x32); /* another ABI's getpid is none */
    stub->ops->known(stub, t, &known);
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    stub->ops->end(stub, t);
    t = process(guest_int80);
    stub->ops->known(stub, t, &known);
    CHECK_INT(run(t).arch, AUDIT_ARCH_I386);
    uint32_t child = 0;
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_FORK, &child), 0);
    regs(child)->rip = TEXT + (uint64_t)(guest_count - guest_begin);
    CHECK_INT(run(child).kind, DZ_STUB_CALL); /* what its parent knows is not the child's */
    end();
}

/* Which processors may this thread of the host use? */
static int cpus_of(pid_t tid)
{
    cpu_set_t set;
    CHECK_INT(sched_getaffinity(tid, sizeof set, &set), 0);
    return CPU_COUNT(&set);
}

/* Execute these rows; the event must be the last one's, whose number is that of no answer. */
static void answers(uint32_t t, struct call_row *rows, size_t n)
{
    CHECK_INT(stub->ops->write(stub, t, DATA, rows, n * sizeof *rows), (int64_t)(n * sizeof *rows));
    regs(t)->rip = TEXT + (uint64_t)(guest_rows - guest_begin);
    regs(t)->rbx = DATA;
    const struct dz_stub_event e = run(t);
    CHECK_INT(e.kind, DZ_STUB_CALL);
    CHECK_INT(regs(t)->rax, rows[n - 1].number);
    CHECK_INT(regs(t)->rbx, DATA + (n - 1) * sizeof *rows);
    CHECK_INT(stub->ops->read(stub, t, DATA, rows, n * sizeof *rows), (int64_t)(n * sizeof *rows));
}

TEST(host_answers_from_a_file_given_ahead)
{
    start();
    uint32_t t = process(guest_rows);
    struct dz_stub_ahead *a = ahead_of(t);
    const uint64_t to = DATA + ROOM;
    a->fd = 7;
    a->is_open = 1;
    a->entry[0].have = 10;
    a->entry[0].size = 10;
    a->pos = 2;
    memcpy(a->bytes, "0123456789", 10);
    memset(a->entry[0].stat, 's', sizeof a->entry[0].stat);
    a->file = DZ_AHEAD_READY;
    struct call_row rows[] = {{SYS_read, {7, to, 3}, 0},
                              {SYS_pread64, {7, to + 8, 100, 8}, 0},
                              {SYS_lseek, {7, UINT64_MAX, SEEK_CUR}, 0},
                              {SYS_read, {7, to + 16, 100}, 0},
                              {SYS_read, {7, to, 100}, 0}, /* the end */
                              {SYS_lseek, {7, 1, SEEK_END}, 0},
                              {SYS_fstat, {7, to + 1024}, 0},
                              {SYS_newfstatat, {7, to + 2048, to + 2048, 0x1000}, 0},
                              {SYS_ioctl, {7, 0x5401, 0}, 0},
                              {SYS_close, {7}, 0},
                              {SYS_close, {7}, 0}};
    char got[24] = "";
    answers(t, rows, DZ_ARRAY_LEN(rows));
    const int64_t want[] = {3, 2, 4, 6, 0, 11, 0, 0, -ENOTTY, 0};
    for (size_t i = 0; i < DZ_ARRAY_LEN(want); i++)
        CHECK_INT((int64_t)rows[i].result, want[i]);
    CHECK_INT(stub->ops->read(stub, t, to, got, sizeof got), sizeof got);
    CHECK(memcmp(got, "234", 3) == 0 && memcmp(got + 8, "89", 2) == 0 &&
          memcmp(got + 16, "456789", 6) == 0);
    CHECK_INT(word(t, to + 1024 + 136), word(t, to + 2048));
    CHECK_INT(word(t, to + 1024), 0x7373737373737373);
    CHECK_INT(a->pos, 11);
    CHECK_INT(a->is_open, 0);
    CHECK_INT(a->reads, 4);
    CHECK_INT(a->read_size, 11);
    end();
}

/* What a stub cannot answer is an event, and has changed nothing. */
TEST(host_leaves_other_calls_on_a_file_to_its_kernel)
{
    static const struct call_row last[] = {
        {SYS_read, {8, DATA, 1}, 0},                    /* another descriptor */
        {SYS_read, {7, 0x1000, 1}, 0},                  /* bad addresses, */
        {SYS_read, {7, DATA + PAGES * 4096 - 2, 3}, 0}, /* of its last byte, */
        {SYS_read, {7, UINT64_C(1) << 63, 1}, 0},       /* of no processor, */
        {SYS_read, {7, PAGE_CTX, 1}, 0},                /* of the stub */
        {SYS_fstat, {7, PAGE_END - 1}, 0},
        {SYS_read, {7, DATA + ROOM, UINT64_MAX}, 0},
        {SYS_read, {7, DATA + ROOM, 11}, 0}, /* more than there is */
        {SYS_pread64, {7, DATA + ROOM, 1, UINT64_MAX}, 0},
        {SYS_pread64, {7, DATA + ROOM, 2, 9}, 0},
        {SYS_lseek, {7, UINT64_MAX, SEEK_SET}, 0},
        {SYS_lseek, {7, 0, SEEK_DATA}, 0},
        {SYS_newfstatat, {7, DATA, DATA + ROOM, 0x1000}, 0}, /* a path */
        {SYS_newfstatat, {7, DATA + ROOM, DATA + ROOM, 0}, 0},
        {SYS_ioctl, {7, 0x5402, 0}, 0},
        {SYS_write, {7, DATA, 1}, 0},
    };
    start();
    uint32_t t = process(guest_rows);
    struct dz_stub_ahead *a = ahead_of(t);
    for (size_t i = 0; i < DZ_ARRAY_LEN(last); i++) {
        struct call_row row = last[i];
        a->fd = 7;
        a->entry[0].have = 10;
        a->entry[0].size = 20;
        a->pos = 0;
        a->is_open = 1;
        a->reads = 0;
        a->file = DZ_AHEAD_READY;
        answers(t, &row, 1);
        CHECK(a->pos == 0 && a->is_open == 1 && a->reads == 0);
    }
    a->file = DZ_AHEAD_NONE; /* withdrawn */
    struct call_row row = {SYS_read, {7, DATA + ROOM, 1}, 0};
    answers(t, &row, 1);
    end();
}

static void entry_fill(struct dz_stub_ahead *a, uint32_t i, const char *path, const char *content)
{
    static uint32_t room;
    struct dz_stub_entry *e = &a->entry[i];
    room = i ? room : 0;
    e->path_size = (uint32_t)strlen(path);
    memcpy(e->path, path, e->path_size);
    e->opens = content[0] != '\0';
    e->bytes_at = room;
    e->size = e->have = (uint32_t)strlen(content);
    memcpy(a->bytes + room, content, e->have);
    memset(e->stat, 'a' + (int)i, sizeof e->stat);
    room += e->have;
}

/* A run: calls on the files that a directory lists next, by their paths, in that order. */
TEST(host_answers_from_entries_given_ahead)
{
    enum {
        HERE = AT_FDCWD,
        FLAGS = O_NOFOLLOW
    };
    static const char names[] = "d/b\0d/c\0d/e";
    start();
    uint32_t t = process(guest_rows);
    struct dz_stub_ahead *a = ahead_of(t);
    const uint64_t to = DATA + ROOM, b = DATA + ROOM + 2048, c = b + 4, e = c + 4;
    const uint64_t here = (uint32_t)HERE;
    CHECK_INT(stub->ops->write(stub, t, b, names, sizeof names), sizeof names);
    a->fd = 7;
    a->is_open = 1;
    a->count = 4;
    a->dir = HERE;
    a->flags = FLAGS;
    a->next_fd = 5;
    entry_fill(a, 0, "d/a", "first");
    entry_fill(a, 1, "d/b", "second");
    entry_fill(a, 2, "d/c", "");
    entry_fill(a, 3, "d/e", "fourth");
    a->file = DZ_AHEAD_READY;
    struct call_row rows[] = {{SYS_read, {7, to, 100}, 0},
                              {SYS_close, {7}, 0},
                              {SYS_newfstatat, {here, b, to + 256, 0x100}, 0},
                              {SYS_openat, {here, b, FLAGS}, 0},
                              {SYS_fstat, {5, to + 512}, 0},
                              {SYS_read, {5, to + 8, 3}, 0},
                              {SYS_read, {5, to + 16, 100}, 0},
                              {SYS_close, {5}, 0},
                              {SYS_lstat, {c, to + 768}, 0},
                              {SYS_open, {e, FLAGS}, 0},
                              {SYS_read, {5, to + 24, 100}, 0},
                              {SYS_newfstatat, {here, b, to, 0}, 0}}; /* it is behind */
    char got[32] = "";
    answers(t, rows, DZ_ARRAY_LEN(rows));
    const int64_t want[] = {5, 0, 0, 5, 0, 3, 3, 0, 0, 5, 6};
    for (size_t i = 0; i < DZ_ARRAY_LEN(want); i++)
        CHECK_INT((int64_t)rows[i].result, want[i]);
    CHECK_INT(stub->ops->read(stub, t, to, got, sizeof got), sizeof got);
    CHECK(memcmp(got, "first", 5) == 0 && memcmp(got + 8, "sec", 3) == 0 &&
          memcmp(got + 16, "ond", 3) == 0 && memcmp(got + 24, "fourth", 6) == 0);
    CHECK_INT(word(t, to + 256), 0x6262626262626262);
    CHECK_INT(word(t, to + 512), 0x6262626262626262);
    CHECK_INT(word(t, to + 768), 0x6363636363636363);
    CHECK(a->is_open == 1 && a->current == 3 && a->used == 3 && a->fd == 5 && a->pos == 6);
    /* the entry must have the same path, directory and flags, and the descriptor must be free */
    static const struct {
        struct call_row row;
        uint32_t is_open;
        int32_t next_fd;
    } last[] = {
        {{SYS_openat, {(uint32_t)HERE, DATA + ROOM + 2048, FLAGS}, 0}, 1, 5},
        {{SYS_openat, {(uint32_t)HERE, DATA + ROOM + 2048, FLAGS}, 0}, 0, -1},
        {{SYS_openat, {(uint32_t)HERE, DATA + ROOM + 2048, FLAGS | O_CLOEXEC}, 0}, 0, 5},
        {{SYS_openat, {3, DATA + ROOM + 2048, FLAGS}, 0}, 0, 5},
        {{SYS_openat, {(uint32_t)HERE, DATA + ROOM + 2048 + 1, FLAGS}, 0}, 0, 5},
        {{SYS_openat, {(uint32_t)HERE, DATA + ROOM + 2048 + 4, FLAGS}, 0}, 0, 5}, /* no content */
        {{SYS_openat, {(uint32_t)HERE, 8, FLAGS}, 0}, 0, 5},
        {{SYS_openat, {(uint32_t)HERE, PAGE_CTX, FLAGS}, 0}, 0, 5},
        {{SYS_newfstatat, {(uint32_t)HERE, DATA + ROOM + 2048, DATA, 0x200}, 0}, 0, 5},
        {{SYS_stat, {DATA + ROOM + 2048, 8}, 0}, 0, 5}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(last); i++) {
        struct call_row row = last[i].row;
        a->used = a->current = 0;
        a->is_open = last[i].is_open;
        a->next_fd = last[i].next_fd;
        a->file = DZ_AHEAD_READY;
        answers(t, &row, 1);
        CHECK(a->current == 0 && a->is_open == last[i].is_open);
    }
    end();
}

TEST(host_answers_for_actions_and_the_mask)
{
    static const struct dz_stub_action ignore = {1, 2, 3, 4}, handler = {0x400000, 5, 6, 7},
                                       plain = {0, 0x04000000, 9, 8}, stops = {0, 1, 0, 0};
    start();
    uint32_t t = process(guest_rows);
    struct dz_stub_ahead *a = ahead_of(t);
    const uint64_t set = DATA + ROOM, old = DATA + ROOM + 64;
    CHECK_INT(stub->ops->write(stub, t, set, &plain, sizeof plain), sizeof plain);
    a->on = DZ_AHEAD_ACTIONS | DZ_AHEAD_MASK;
    a->action[SIGINT - 1] = ignore;
    a->action[SIGUSR1 - 1] = handler;
    a->mask = 0x1234;
    struct call_row rows[] = {{SYS_rt_sigaction, {SIGINT, 0, old, 8}, 0},
                              {SYS_rt_sigaction, {SIGUSR1, 0, old + 32, 8}, 0},
                              {SYS_rt_sigaction, {SIGTERM, set, old + 64, 8}, 0},
                              {SYS_rt_sigaction, {SIGTERM, 0, old + 96, 8}, 0},
                              {SYS_rt_sigprocmask, {77, 0, old + 128, 8}, 0},
                              {SYS_rt_sigaction, {SIGINT, set, 0, 8}, 0}}; /* no longer ignored */
    answers(t, rows, DZ_ARRAY_LEN(rows));
    struct dz_stub_action got[4];
    CHECK_INT(stub->ops->read(stub, t, old, got, sizeof got), sizeof got);
    const struct dz_stub_action none = {0};
    CHECK(memcmp(&got[0], &ignore, sizeof ignore) == 0);
    CHECK(memcmp(&got[1], &handler, sizeof handler) == 0);
    CHECK(memcmp(&got[2], &none, sizeof none) == 0);
    CHECK(memcmp(&got[3], &plain, sizeof plain) == 0);
    CHECK_INT(word(t, old + 128), 0x1234);
    CHECK_INT((int64_t)a->changed, INT64_C(1) << (SIGTERM - 1));
    static const struct call_row last[] = {
        {SYS_rt_sigaction, {SIGUSR1, set, 0, 8}, 0}, {SYS_rt_sigaction, {SIGKILL, set, 0, 8}, 0},
        {SYS_rt_sigaction, {0, 0, set, 8}, 0},       {SYS_rt_sigaction, {65, 0, set, 8}, 0},
        {SYS_rt_sigaction, {SIGHUP, 0, set, 4}, 0},  {SYS_rt_sigaction, {SIGHUP, 0, 8, 8}, 0},
        {SYS_rt_sigaction, {SIGHUP, 8, 0, 8}, 0},    {SYS_rt_sigprocmask, {0, set, 0, 8}, 0},
        {SYS_rt_sigprocmask, {0, 0, 8, 8}, 0},       {SYS_rt_sigprocmask, {0, 0, set, 4}, 0}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(last); i++) {
        struct call_row row = last[i];
        a->changed = 0;
        answers(t, &row, 1);
        CHECK_INT((int64_t)a->changed, 0);
    }
    /* the default action of SIGCHLD differs from itself by these flags */
    CHECK_INT(stub->ops->write(stub, t, set, &stops, sizeof stops), sizeof stops);
    struct call_row row = {SYS_rt_sigaction, {SIGCHLD, set, 0, 8}, 0};
    answers(t, &row, 1);
    end();
}

TEST(host_carries_paths_and_results)
{
    start();
    uint32_t t = process(guest_rows);
    struct dz_stub_ahead *a = ahead_of(t);
    const uint64_t path = DATA + ROOM, last = DATA + PAGES * 4096 - 4;
    CHECK_INT(stub->ops->write(stub, t, path, "name", 5), 5);
    CHECK_INT(stub->ops->write(stub, t, last, "end", 4), 4);
    const struct {
        struct call_row row;
        uint64_t at;
        uint32_t size;
    } calls[] = {{{SYS_openat, {0, path}, 0}, path, DZ_AHEAD_PATH},
                 {{SYS_stat, {path}, 0}, path, DZ_AHEAD_PATH},
                 {{SYS_newfstatat, {0, last}, 0}, last, 4},
                 {{SYS_write, {1, path, 4}, 0}, path, DZ_AHEAD_PATH},
                 {{SYS_sendto, {1, path, 4}, 0}, 0, 0},
                 {{SYS_stat, {PAGE_CTX}, 0}, PAGE_CTX, 0},
                 {{SYS_stat, {8}, 0}, 8, 0},
                 {{SYS_stat, {UINT64_MAX}, 0}, UINT64_MAX, 0}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(calls); i++) {
        struct call_row row = calls[i].row;
        answers(t, &row, 1);
        CHECK_INT(a->path_at, calls[i].at);
        CHECK_INT(a->path_size, calls[i].size);
        CHECK(a->path_size == 0 || memcmp(a->path, calls[i].at == last ? "end" : "name", 4) == 0);
    }
    struct call_row rows[] = {{SYS_getpid, {0}, 0}, {SYS_sync, {0}, 0}};
    memcpy(a->put, "result", 6);
    a->put_at = path;
    a->put_size = 6;
    answers(t, rows, 2);
    char got[6];
    CHECK_INT(stub->ops->read(stub, t, path, got, 6), 6);
    CHECK(memcmp(got, "result", 6) == 0);
    CHECK_INT(a->put_size, 0);
    static const uint64_t bad[] = {8, DATA + PAGES * 4096 - 5, PAGE_CTX, UINT64_MAX - 2};
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad);
         i++) { /* it stopped in a call, whose result this is */
        regs(t)->rip = TEXT + (uint64_t)(guest_result - guest_begin);
        regs(t)->rbx = DATA;
        a->put_at = bad[i];
        a->put_size = 6;
        CHECK_INT(run(t).kind, DZ_STUB_CALL);
        CHECK_INT((int64_t)word(t, DATA + offsetof(struct call_row, result)), -EFAULT);
    }
    end();
}

TEST(host_executes_lists_later)
{
    start();
    uint32_t t = process(guest_store);
    const struct dz_mm_call more = anon(0x600000, 4096, PROT_READ | PROT_WRITE);
    regs(t)->rdi = 0x600000;
    CHECK_INT(stub->ops->later(stub, t, &more, 1), 0);
    CHECK_INT(run(t).kind, DZ_STUB_CALL); /* it could store */
    CHECK_INT(word(t, 0x600000), 1);
    /* a function that needs the memory executes the list first */
    struct dz_mm_call less = {.op = DZ_MM_MUNMAP, .at = 0x600000, .size = 4096};
    uint8_t byte;
    CHECK_INT(stub->ops->later(stub, t, &less, 1), 0);
    CHECK_INT(stub->ops->read(stub, t, 0x600000, &byte, 1), -EFAULT);
    uint32_t child = 0;
    CHECK_INT(stub->ops->later(stub, t, &more, 1), 0);
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_FORK, &child), 0);
    CHECK_INT(stub->ops->read(stub, child, 0x600000, &byte, 1), 1);
    /* a list may be longer than what fits */
    struct dz_mm_call many[CTX_CALLS_MAX + 1];
    for (size_t i = 0; i < DZ_ARRAY_LEN(many); i++)
        many[i] = i % 2 ? less : more;
    CHECK_INT(stub->ops->later(stub, t, many, DZ_ARRAY_LEN(many)), 0);
    CHECK_INT(stub->ops->later(stub, t, many, CTX_CALLS_MAX), 0);
    CHECK_INT(stub->ops->read(stub, t, 0x600000, &byte, 1), -EFAULT);
    /* when the host refuses, the process ends: before an instruction of the guest, or at once */
    const struct dz_mm_call bad = {
        .op = DZ_MM_MPROTECT, .at = 0x700000, .size = 4096, .prot = PROT_READ};
    CHECK_INT(stub->ops->later(stub, t, &bad, 1), 0);
    regs(t)->rip = TEXT + (uint64_t)(guest_spin - guest_begin);
    CHECK_INT(run(t).kind, DZ_STUB_ENDED);
    CHECK_INT(stub->ops->later(stub, child, &bad, 1), 0);
    CHECK_INT(stub->ops->read(stub, child, DATA, &byte, 1), -ESRCH);
    stub->ops->end(stub, child);
    end();
}

TEST(host_places_its_threads)
{
    start();
    const int all = cpus_of(0);
    const uint32_t a = process(guest_spin);
    if (all < 2) {
        CHECK_INT(stub->ops->place(stub, sched_getcpu()), -EOPNOTSUPP);
        end();
        SKIP("this machine has one processor");
    }
    CHECK_INT(stub->ops->place(stub, sched_getcpu()), 0);
    const uint32_t b = process(guest_spin);
    CHECK(cpus_of(0) == 1 && cpus_of(tid_of(a)) == 1 && cpus_of(tid_of(b)) == 1);
    int64_t before = 0, after = 0;
    CHECK_INT(stub->ops->delay(stub, a, &before), 0);
    stub->ops->run(stub, a); /* two that compute on one processor wait for one another */
    stub->ops->run(stub, b);
    for (int i = 0; i < 1000 && after <= before; i++) {
        (void)poll(NULL, 0, 10);
        CHECK_INT(stub->ops->delay(stub, a, &after), 0);
    }
    CHECK(after > before);
    CHECK_INT(stub->ops->place(stub, -1), 0);
    CHECK(cpus_of(0) == all && cpus_of(tid_of(a)) == all && cpus_of(tid_of(b)) == all);
    CHECK_INT(cpus_of(tid_of(1)), all); /* and those that are made next */
    CHECK_INT(stub->ops->place(stub, CPU_SETSIZE - 1), -EOPNOTSUPP);
    end();
}

/* A file that says so many threads of this machine are runnable. */
static void set_load(const char *text)
{
    struct host *h = (struct host *)(void *)stub;
    if (h->load_fd >= 0)
        (void)close(h->load_fd);
    h->load_fd = memfd_create("load", MFD_CLOEXEC);
    CHECK(write(h->load_fd, text, strlen(text)) > 0);
}
static struct dz_stub_event run_soon(uint32_t t)
{
    struct dz_stub_event e = {.kind = DZ_STUB_ENDED, .thread = 0};
    stub->ops->run(stub, t);
    if (stub->ops->soon(stub, &e, 1) == 0)
        CHECK_INT(stub->ops->wait(stub, -1, &e, 1), 1);
    return e;
}

TEST(host_polls_while_calls_are_close_together)
{
    start();
    const struct host *h = (const struct host *)(void *)stub;
    const uint32_t t = process(guest_loop), other = process(guest_spin);
    const int cpu = sched_getcpu();
    if (stub->ops->place(stub, cpu) < 0) {
        end();
        SKIP("this machine has one processor");
    }
    set_load("9 9 9 99999/99999 1\n"); /* others need every processor */
    uint64_t calls = 0;
    for (; calls < 2000; calls++)
        CHECK_INT(run_soon(t).kind, DZ_STUB_CALL);
    CHECK(h->spin.polled_ns == 0 && cpus_of(0) == 1);
    set_load("0 0 0 1/9 1\n");
    for (int i = 0; i < 200000 && !h->spin.polled_ns; i++, calls++)
        CHECK_INT(run_soon(t).kind, DZ_STUB_CALL);
    CHECK(h->spin.polled_ns > 0); /* on a busy machine this takes longer, but it comes */
    for (int i = 0; i < 200000 && !h->spin.on; i++, calls++)
        CHECK_INT(run_soon(t).kind, DZ_STUB_CALL);
    cpu_set_t set;
    CHECK_INT(sched_getaffinity(0, sizeof set, &set), 0);
    CHECK(h->spin.on && !CPU_ISSET((size_t)cpu, &set)); /* they are on two processors */
    CHECK(cpus_of(tid_of(t)) == 1);
    stub->ops->run(stub, other); /* it makes no call, so this side returns and sleeps */
    CHECK_INT(atomic_load(&ctx_of(h, t)->spin), 0);
    struct dz_stub_event e;
    for (int i = 0; i < 1000 && h->spin.on; i++) /* now and then it checks the load instead */
        CHECK_INT(stub->ops->soon(stub, &e, 1), 0);
    CHECK(!h->spin.on);
    CHECK_INT(stub->ops->wait(stub, 1000 * 1000, &e, 1), 0);
    CHECK_INT(sched_getaffinity(0, sizeof set, &set), 0);
    CHECK(!h->spin.on && CPU_COUNT(&set) == 1 && CPU_ISSET((size_t)cpu, &set));
    stub->ops->interrupt(stub, other);
    CHECK_INT(next().kind, DZ_STUB_STOPPED);
    CHECK_INT(atomic_load(&ctx_of(h, other)->spin), 0);
    CHECK_INT(word(t, DATA), calls);
    end();
}

#include <sys/prctl.h>
TEST(host_without_privileges)
{
    if (geteuid() == 0) {
        CHECK_INT(syscall(SYS_setgroups, 0, NULL), 0);
        CHECK_INT(setresgid(65534, 65534, 65534), 0);
        CHECK_INT(setresuid(65534, 65534, 65534), 0);
        CHECK_INT(prctl(PR_SET_DUMPABLE, 1), 0); /* /proc/self is ours again */
    }
    start();
    const uint32_t t = process(guest_store);
    uint32_t c = 0;
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_FORK, &c), 0);
    regs(c)->rdi = DATA;
    CHECK_INT(run(c).kind, DZ_STUB_CALL);
    CHECK_INT(word(c, DATA), 1);
    struct dz_stub_runs runs = DZ_VEC_INIT(DZ_STUB_RUNS_MAX);
    const int rc = stub->ops->changed(stub, c, DATA, DATA + 8192, &runs);
    CHECK(rc == -EOPNOTSUPP || (rc == 0 && runs.n == 1));
    dz_vec_release(&runs);
    end();
}

enum {
    NO_NAMESPACE = 76,
    NO_SETTING = 77,
};

/* The first process of a pid namespace, which has a setting of its own. */
DZ_NORETURN static void open_where_programs_are_named(void)
{
    struct dz_stub *s = NULL;
    struct dz_err err = {0};
    const struct dz_stub_host_opts o = {.patience_ms = 0};
    const int fd = open("/proc/sys/vm/memfd_noexec", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "1", 1) != 1)
        _exit(NO_SETTING);
    const int rc = dz_stub_host_open(&o, &s, &err);
    if (rc < 0)
        printf("# %s\n", err.msg);
    else
        s->ops->close(s);
    (void)fflush(stdout);
    _exit(rc < 0);
}

static int status_of(pid_t pid)
{
    int status = -1;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A host may ask that programs in memory are called so when they are made. The namespace belongs to
 * a child: a process that made one can make no more processes once the first one in it has ended,
 * and the leak checker makes one at the end of this. */
TEST(a_stub_starts_where_programs_in_memory_must_be_named)
{
    const pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWPID) < 0)
            _exit(NO_NAMESPACE);
        const pid_t first = fork();
        if (first == 0)
            open_where_programs_are_named();
        _exit(status_of(first));
    }
    const int status = status_of(pid);
    if (status == NO_NAMESPACE)
        SKIP("no pid namespace, which has a setting of its own");
    if (status == NO_SETTING)
        SKIP("this kernel has no such setting");
    CHECK_INT(status, 0);
}

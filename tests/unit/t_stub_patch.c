/* SPDX-License-Identifier: MIT
 *
 * Patched call sites of the back end of host processes: guests are pieces of machine code. */
#define TAP_ALARM_S 30
#include "tap.h"

#include "../lib/stub_rig.h"

#include <sys/uio.h>

/* Where guests of this file have their call: its first instruction, from its label on. */
enum {
    LOOP_CALL = 11, /* behind mov, lock inc */
    SITE = 7,
};
static const struct host *inside(void)
{
    return (const struct host *)(void *)stub;
}
static uint64_t text_at(const uint8_t *code)
{
    return TEXT + (uint64_t)(code - guest_begin);
}
/* The site as it is in the process, which read() does not show. */
static uint8_t first_byte(uint32_t t, uint64_t at)
{
    uint8_t b = 0;
    const struct iovec to = {&b, 1}, from = {(void *)at, 1}; /* NOLINT */
    CHECK_INT(process_vm_readv(tid_of(t), &to, 1, &from, 1, 0), 1);
    return b;
}
/* A process whose call is patched; it has stopped in it, without a frame. */
static uint32_t patched(const uint8_t *code, uint64_t site)
{
    const uint32_t t = process(code);
    struct dz_stub_event e = run(t);
    CHECK_INT(stub->ops->patch(stub, t, site + 1), -EINVAL);
    for (int i = 1; i < 100 && !e.hot; i++)
        e = run(t);
    CHECK(e.hot && regs(t)->rip == site + SITE);
    CHECK_INT(stub->ops->patch(stub, t, site), 0);
    CHECK_INT(stub->ops->patch(stub, t, site), -EEXIST);
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    CHECK(inside()->threads[t].light && regs(t)->rip == site + SITE);
    return t;
}
#define NEEDS_PATCHES                                         \
    if (!inside()->direct) {                                  \
        end();                                                \
        SKIP("this machine has no instructions for gs_base"); \
    }

TEST(host_patches_calls)
{
    start();
    NEEDS_PATCHES
    const uint64_t site = text_at(guest_loop) + LOOP_CALL;
    const uint32_t t = patched(guest_loop, site);
    uint8_t shown[32];
    CHECK_INT(stub->ops->read(stub, t, site - 8, shown, sizeof shown), sizeof shown);
    CHECK(memcmp(shown, guest_loop + LOOP_CALL - 8, sizeof shown) == 0);
    CHECK_INT(stub->ops->read(stub, t, site + 2, shown, 2), 2);
    CHECK(memcmp(shown, guest_loop + LOOP_CALL + 2, 2) == 0);
    CHECK_INT(first_byte(t, site), 0xff);
    const struct dz_mm_range parts[] = {{DATA, DATA + 8}, {site - 8, site + 8}, {site, site + 1}};
    CHECK_INT(stub->ops->move(stub, t, parts, 3, shown, false), 0);
    CHECK(memcmp(shown + 8, guest_loop + LOOP_CALL - 8, 16) == 0 && shown[24] == 0xb8);
    const uint64_t before = word(t, DATA);
    for (int i = 0; i < 1000; i++) {
        CHECK_INT(run(t).kind, DZ_STUB_CALL);
        CHECK(inside()->threads[t].light);
        regs(t)->rax = (uint64_t)i;
    }
    CHECK_INT(word(t, DATA), before + 1000);
    /* a page that is shared or writable is not patched by the caller; others the host refuses */
    CHECK_INT(stub->ops->patch(stub, t, TEXT + 4096 - 3), -EINVAL);
    CHECK_INT(stub->ops->patch(stub, t, DATA), -EINVAL);
    end();
}

TEST(a_patched_call_keeps_registers)
{
    start();
    NEEDS_PATCHES
    const uint64_t site = text_at(guest_count);
    const uint32_t t = patched(guest_count, site);
    struct dz_stub_regs r = {.r8 = 8,
                             .r9 = 9,
                             .r10 = 10,
                             .r12 = 12,
                             .r13 = 13,
                             .r14 = 14,
                             .r15 = 15,
                             .rdi = 20,
                             .rsi = 21,
                             .rbp = 22,
                             .rbx = 23,
                             .rdx = 24,
                             .rsp = 26,
                             .rip = site,
                             .fs_base = DATA};
    static const uint64_t flags[] = {0x202,         0x202 | 1,    0x202 | 0x800,
                                     0x202 | 0x8d5, 0x202 | 0x40, 0x202 | 0x80 | 0x10,
                                     0x202 | 4};
    for (size_t i = 0; i < DZ_ARRAY_LEN(flags); i++) {
        r.rflags = flags[i];
        *regs(t) = r; /* more than rax: it needs a frame */
        CHECK_INT(run(t).kind, DZ_STUB_CALL);
        CHECK(inside()->threads[t].light);
        struct dz_stub_regs want = r;
        want.rax = SYS_getpid;
        want.rip = want.rcx = site + SITE;
        want.r11 = r.rflags;
        CHECK(memcmp(regs(t), &want, sizeof want) == 0);
    }
    /* on the way back, too: `movq %xmm3, %rbx; jmp` changes no flag */
    const uint32_t x = patched(guest_sse, text_at(guest_sse) + 5);
    regs(x)->rax = 5;
    CHECK_INT(run(x).kind, DZ_STUB_CALL);
    for (size_t i = 0; i < DZ_ARRAY_LEN(flags); i++) {
        regs(x)->rflags = flags[i];
        CHECK_INT(run(x).kind, DZ_STUB_CALL);
        for (int k = 0; k < 3; k++) {
            regs(x)->rax = UINT64_MAX - (uint64_t)k;
            CHECK_INT(run(x).kind, DZ_STUB_CALL);
            CHECK(inside()->threads[x].light);
            CHECK_INT(regs(x)->rflags, flags[i]);
        }
    }
    static uint8_t state[DZ_STUB_XSTATE_MAX];
    const int64_t n = stub->ops->xstate_get(stub, x, state, sizeof state);
    CHECK(n >= 576 && !inside()->threads[x].light);
    const uint64_t xmm3 = 0x1234567812345678;
    memcpy(state + 160 + 48, &xmm3, sizeof xmm3);
    CHECK_INT(run(x).kind, DZ_STUB_CALL);
    CHECK_INT(stub->ops->xstate_set(stub, x, state, (size_t)n), 0);
    CHECK_INT(run(x).kind, DZ_STUB_CALL);
    CHECK_INT(regs(x)->rbx, xmm3);
    CHECK_INT(run(x).kind, DZ_STUB_CALL);
    CHECK(inside()->threads[x].light && regs(x)->rbx == xmm3);
    end();
}

/* A site whose call has its number in eax, and which loads r9. */
TEST(a_patched_site_makes_any_call)
{
    start();
    NEEDS_PATCHES
    const uint64_t site = text_at(guest_any) + 2;
    const uint64_t ninth[] = {1, 2, UINT64_MAX - 7};
    struct dz_stub_known known = {.on = true, .pid = 77, .uid = 88};
    const uint32_t t = process(guest_any);
    stub->ops->known(stub, t, &known);
    CHECK_INT(stub->ops->write(stub, t, DATA + 8, ninth, sizeof ninth), sizeof ninth);
    regs(t)->rsp = DATA;
    regs(t)->rdi = 1000;
    for (int i = 0; i < PATCH_HOT; i++)
        CHECK(run(t).hot == (i == PATCH_HOT - 1));
    CHECK_INT(stub->ops->patch(stub, t, site), 0);
    CHECK_INT(stub->ops->patch(stub, t, site), -EEXIST);
    uint8_t shown[SITE];
    CHECK_INT(stub->ops->read(stub, t, site, shown, sizeof shown), sizeof shown);
    CHECK(memcmp(shown, guest_any + 2, sizeof shown) == 0 && first_byte(t, site) == 0xff);
    for (uint32_t i = 0; i < 200; i++) {
        const struct dz_stub_event e = run(t);
        CHECK(e.kind == DZ_STUB_CALL && inside()->threads[t].light);
        CHECK_INT(regs(t)->rax, (i ? i - 1 : 0) * UINT64_C(0x1234567) % UINT32_MAX | 1000);
        CHECK(regs(t)->r9 == 1 && regs(t)->rip == site + SITE);
        if (i % 2) /* by a frame, and without one */
            regs(t)->rax = i;
        regs(t)->rdi = i * UINT64_C(0x1234567) % UINT32_MAX | 1000;
    }
    /* the stub answers some of the calls: the next is one that it does not */
    const uint64_t before = regs(t)->rbx;
    regs(t)->rdi = SYS_getpid;
    stub->ops->run(stub, t);
    stub->ops->interrupt(stub, t);
    CHECK_INT(next().kind, DZ_STUB_STOPPED);
    CHECK(regs(t)->rbx >= before && regs(t)->rdi == SYS_getpid);
    /* where r9 cannot be loaded, it is the fault that the instruction has; then it runs again */
    regs(t)->rip = site - 2;
    regs(t)->rsp = DATA + PAGES * 4096;
    for (int i = 0; i < 3; i++) {
        const struct dz_stub_event e = run(t);
        CHECK(e.kind == DZ_STUB_FAULT && e.signo == SIGSEGV && e.trap == 14 && e.error == 4);
        CHECK(e.addr == DATA + PAGES * 4096 + 8 && regs(t)->rip == site);
        CHECK(regs(t)->rax == SYS_getpid && regs(t)->rdi == SYS_getpid);
    }
    regs(t)->rsp = DATA + 8;
    regs(t)->rdi = 500; /* of the next turn */
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    CHECK(regs(t)->rax == 500 && regs(t)->r9 == 2 && inside()->threads[t].light);
    /* the same by a trap: the guest has a gs_base of its own */
    regs(t)->gs_base = DATA;
    regs(t)->rsp = DATA + 16;
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    CHECK(regs(t)->rax == 500 && regs(t)->r9 == ninth[2] && !inside()->threads[t].light);
    CHECK(regs(t)->rip == site + SITE && regs(t)->gs_base == DATA);
    regs(t)->rsp = DATA + PAGES * 4096;
    const struct dz_stub_event e = run(t);
    CHECK(e.kind == DZ_STUB_FAULT && e.addr == DATA + PAGES * 4096 + 8 && e.error == 4);
    CHECK(regs(t)->rip == site && regs(t)->rax == 500);
    end();
}

TEST(a_patched_call_starts_again)
{
    start();
    NEEDS_PATCHES
    const uint64_t site = text_at(guest_loop) + LOOP_CALL;
    const uint32_t t = patched(guest_loop, site);
    const uint64_t before = word(t, DATA);
    for (int i = 0; i < 3; i++) { /* the `syscall` is still there */
        regs(t)->rip -= 2;
        regs(t)->rax = 1000;
        CHECK_INT(run(t).kind, DZ_STUB_CALL);
        CHECK(!inside()->threads[t].light);
        CHECK(regs(t)->rip == site + SITE && regs(t)->rax == 1000);
    }
    CHECK_INT(word(t, DATA), before);
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    CHECK(inside()->threads[t].light);
    CHECK_INT(word(t, DATA), before + 1);
    end();
}

/* Interrupts at all places between two calls. */
TEST(a_patched_call_is_interrupted)
{
    start();
    NEEDS_PATCHES
    const uint64_t site = text_at(guest_loop) + LOOP_CALL;
    const uint32_t t = patched(guest_loop, site);
    const uint64_t before = word(t, DATA);
    uint64_t calls = 0, stops = 0;
    for (int i = 0; i < 20000 && (stops < 50 || i < 4000); i++) {
        stub->ops->run(stub, t);
        for (int k = 0; k < i % 700; k++)
            __builtin_ia32_pause();
        stub->ops->interrupt(stub, t);
        const struct dz_stub_event e = next();
        const uint64_t rip = regs(t)->rip;
        CHECK(e.kind == DZ_STUB_CALL || e.kind == DZ_STUB_STOPPED);
        CHECK(rip >= text_at(guest_loop) && rip < text_at(guest_loop) + 32);
        CHECK(regs(t)->rdi == DATA && regs(t)->rsp == DATA + PAGES * 4096);
        calls += e.kind == DZ_STUB_CALL;
        stops += e.kind == DZ_STUB_STOPPED;
    }
    while (run(t).kind != DZ_STUB_CALL) {
    }
    calls++;
    CHECK_INT(word(t, DATA), before + calls);
    end();
}

TEST(a_patched_call_is_answered)
{
    start();
    NEEDS_PATCHES
    const uint64_t site = text_at(guest_loop) + LOOP_CALL;
    struct dz_stub_known known = {.on = true, .pid = 77};
    uint32_t t = process(guest_loop);
    stub->ops->known(stub, t, &known);
    const struct dz_stub_event hot = run(t); /* traps that the stub answers count, too */
    CHECK(hot.kind == DZ_STUB_CALL && hot.hot);
    CHECK_INT(word(t, DATA), PATCH_HOT);
    CHECK_INT(stub->ops->patch(stub, t, site), 0);
    const uint64_t before = word(t, DATA);
    uint64_t behind = 0;
    regs(t)->rax = 77; /* the answer to the event */
    for (int i = 0; i < 20000 && (behind < 50 || i < 4000); i++) {
        stub->ops->run(stub, t);
        for (int k = 0; k < i % 700; k++)
            __builtin_ia32_pause();
        stub->ops->interrupt(stub, t);
        CHECK_INT(next().kind, DZ_STUB_STOPPED);
        const uint64_t rip = regs(t)->rip;
        CHECK(rip >= text_at(guest_loop) && rip < text_at(guest_loop) + 32);
        CHECK(regs(t)->rdi == DATA && regs(t)->rsp == DATA + PAGES * 4096);
        CHECK(rip != site + SITE || regs(t)->rax == 77);
        behind += rip == site + SITE;
    }
    CHECK(word(t, DATA) > before);
    known.on = false;
    stub->ops->known(stub, t, &known);
    const struct dz_stub_event e = run(t);
    CHECK(e.kind == DZ_STUB_CALL && inside()->threads[t].light && !e.hot);
    CHECK_INT(regs(t)->rax, SYS_getpid);
    end();
}

/* Answers from a file, bytes written by the stub, and lists, without a frame. */
TEST(a_patched_call_moves_bytes)
{
    start();
    NEEDS_PATCHES
    const uint64_t take = text_at(guest_take), site = take + 12, to = DATA + ROOM;
    uint32_t t = process(guest_take);
    struct dz_stub_ahead *a = ahead_of(t);
    struct call_row rows[PATCH_HOT];
    for (size_t i = 0; i < DZ_ARRAY_LEN(rows); i++)
        rows[i] = (struct call_row){SYS_read, {6, to, 4}, 0};
    CHECK_INT(stub->ops->write(stub, t, DATA, rows, sizeof rows), sizeof rows);
    regs(t)->rbx = DATA;
    struct dz_stub_event e = run(t);
    for (int i = 1; i < PATCH_HOT; i++)
        e = run(t);
    CHECK(e.hot);
    CHECK_INT(stub->ops->patch(stub, t, site), 0);
    a->fd = 5;
    a->is_open = 1;
    a->entry[0].have = 8;
    a->entry[0].size = 8;
    memcpy(a->bytes, "contents", 8);
    atomic_store(&a->file, DZ_AHEAD_READY);
    struct call_row some[] = {{SYS_read, {5, to, 3}, 0},
                              {SYS_read, {5, to + 3, 9}, 0},
                              {SYS_read, {5, to, 1}, 9},
                              {SYS_read, {5, 8, 1}, 9}, /* a bad address, but the end of the file */
                              {SYS_read, {6, to, 4}, 0}};
    CHECK_INT(stub->ops->write(stub, t, DATA, some, sizeof some), sizeof some);
    regs(t)->rbx = DATA;
    regs(t)->rip = take;
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    CHECK(inside()->threads[t].light);
    CHECK_INT(regs(t)->rbx, DATA + 4 * sizeof *some);
    CHECK_INT(stub->ops->read(stub, t, DATA, some, sizeof some), sizeof some);
    CHECK(some[0].result == 3 && some[1].result == 5 && some[2].result == 0 && some[3].result == 0);
    char got[8];
    CHECK_INT(stub->ops->read(stub, t, to, got, 8), 8);
    CHECK(memcmp(got, "contents", 8) == 0);
    /* a bad address: the call is an event that has changed nothing */
    a->pos = 0;
    atomic_store(&a->file, DZ_AHEAD_READY);
    some[0] = (struct call_row){SYS_read, {5, 8, 1}, 0};
    CHECK_INT(stub->ops->write(stub, t, DATA, some, sizeof *some), sizeof *some);
    regs(t)->rbx = DATA;
    regs(t)->rip = take;
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    CHECK(inside()->threads[t].light && a->pos == 0);
    CHECK(regs(t)->rbx == DATA && regs(t)->rax == SYS_read && regs(t)->rsi == 8);
    atomic_store(&a->file, DZ_AHEAD_NONE);
    /* run() executes a list and writes bytes on the way back; what it cannot write is EFAULT */
    const struct dz_mm_call more = anon(DATA + 0x100000, 4096, PROT_READ | PROT_WRITE);
    for (int i = 0; i < 2; i++) {
        a->put_at = i ? 8 : DATA + 0x100008;
        a->put_size = 8;
        memcpy(a->put, "returned", 8);
        if (i == 0)
            CHECK_INT(stub->ops->later(stub, t, &more, 1), 0);
        regs(t)->rax = 1;
        CHECK(inside()->threads[t].light);
        CHECK_INT(run(t).kind, DZ_STUB_CALL);
        CHECK_INT(word(t, DATA + (uint64_t)i * 48 + 40), i ? (uint64_t)-EFAULT : 1);
    }
    CHECK_INT(stub->ops->read(stub, t, DATA + 0x100008, got, 8), 8);
    CHECK(memcmp(got, "returned", 8) == 0);
    /* a list that waits is executed before a page's patches are undone */
    const struct dz_mm_call gone = {.op = DZ_MM_MUNMAP, .at = DATA + 0x100000, .size = 4096};
    const struct dz_mm_call code = {
        .op = DZ_MM_MPROTECT, .at = TEXT, .size = 4096, .prot = PROT_READ | PROT_EXEC};
    CHECK_INT(stub->ops->later(stub, t, &gone, 1), 0);
    CHECK_INT(stub->ops->later(stub, t, &code, 1), 0);
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    CHECK(!inside()->threads[t].light && first_byte(t, site) == 0xb8);
    CHECK_INT(stub->ops->read(stub, t, DATA + 0x100008, got, 8), -EFAULT);
    end();
}

TEST(a_call_with_the_direction_flag_traps)
{
    start();
    NEEDS_PATCHES
    const uint64_t site = text_at(guest_back) + 1;
    const uint32_t t = process(guest_back);
    while (!run(t).hot) {
    }
    CHECK_INT(stub->ops->patch(stub, t, site), 0);
    const struct dz_stub_regs was = *regs(t);
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    CHECK(!inside()->threads[t].light);
    CHECK(regs(t)->rax == SYS_getpid && regs(t)->rip == site + SITE);
    CHECK(regs(t)->rsp == was.rsp && regs(t)->rflags == was.rflags && (was.rflags & 0x400));
    end();
}

TEST(patches_are_undone)
{
    start();
    NEEDS_PATCHES
    const uint64_t site = text_at(guest_loop) + LOOP_CALL;
    const struct dz_mm_call protect = {
        .op = DZ_MM_MPROTECT, .at = TEXT, .size = 4096, .prot = PROT_READ | PROT_EXEC};
    uint32_t t = patched(guest_loop, site), child = 0, thread = 0, sharer = 0;
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_FORK, &child), 0);
    CHECK(!inside()->threads[t].light && first_byte(child, site) == 0xff);
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_THREAD, &thread), 0);
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_SHARE, &sharer), 0);
    const uint32_t all[] = {t, child, thread, sharer};
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++) {
        CHECK_INT(run(all[i]).kind, DZ_STUB_CALL);
        CHECK(inside()->threads[all[i]].light);
    }
    CHECK_INT(stub->ops->memory(stub, thread, &protect, 1), 0);
    CHECK(first_byte(t, site) == 0xb8 && first_byte(child, site) == 0xff);
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++) {
        regs(all[i])->rax = 7; /* back from the site, although it is gone */
        CHECK_INT(run(all[i]).kind, DZ_STUB_CALL);
        CHECK(inside()->threads[all[i]].light == (all[i] == child));
        CHECK(regs(all[i])->rip == site + SITE && regs(all[i])->rax == SYS_getpid);
    }
    CHECK_INT(stub->ops->patch(stub, t, site), 0); /* and once more */
    CHECK_INT(run(sharer).kind, DZ_STUB_CALL);
    CHECK(inside()->threads[sharer].light && first_byte(t, site) == 0xff);
    const struct dz_mm_call own = anon(DZ_STUB_PATCH_TABLE, 4096, PROT_READ | PROT_WRITE);
    CHECK_INT(stub->ops->memory(stub, t, &own, 1), 0); /* the guest's own page lies there */
    CHECK_INT(first_byte(t, site), 0xb8);
    CHECK_INT(word(t, DZ_STUB_PATCH_TABLE), 0);
    CHECK_INT(run(sharer).kind, DZ_STUB_CALL);
    CHECK(!inside()->threads[sharer].light);
    CHECK_INT(stub->ops->patch(stub, t, site), -EOPNOTSUPP);
    CHECK_INT(run(child).kind, DZ_STUB_CALL);
    CHECK(inside()->threads[child].light);
    end();
}

TEST(a_guest_with_its_own_gs_base_traps)
{
    start();
    NEEDS_PATCHES
    const uint64_t site = text_at(guest_gs) + 5;
    uint32_t t = process(guest_gs);
    for (int i = 0; i < 30; i++)
        CHECK_INT(run(t).kind, DZ_STUB_CALL);
    CHECK_INT(regs(t)->gs_base, DATA);
    CHECK_INT(stub->ops->patch(stub, t, site), -EINVAL);
    regs(t)->gs_base = 0;
    CHECK_INT(stub->ops->patch(stub, t, site), 0);
    CHECK_INT(run(t).kind, DZ_STUB_CALL); /* the jump finds DATA there */
    CHECK(!inside()->threads[t].light);
    CHECK(regs(t)->rip == site + SITE && regs(t)->rax == SYS_getpid);
    CHECK_INT(regs(t)->gs_base, DATA);
    CHECK_INT(word(t, DATA + CTX_BACK), 0); /* nothing was written there */
    regs(t)->rdi = 0;
    regs(t)->rip = text_at(guest_gs);
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    CHECK_INT(regs(t)->rip, site + SITE);
    end();
}

TEST(entries_without_a_site)
{
    start();
    NEEDS_PATCHES
    const uint32_t t = patched(guest_loop, text_at(guest_loop) + LOOP_CALL);
    for (uint32_t i = 0; i < PATCH_SITES; i += i == 2 ? PATCH_SITES - 3 : 1) {
        regs(t)->rip = inside()->entries_at + i * PATCH_ENTRY_SIZE;
        CHECK_INT(run(t).kind, DZ_STUB_CALL);
        CHECK_INT(regs(t)->rax, i == 1 ? (uint64_t)SYS_getpid : UINT64_MAX);
        CHECK_INT(regs(t)->rip == 0, i != 1);
        if (i != 1) {
            const struct dz_stub_event e = run(t); /* it goes back to nowhere */
            CHECK(e.kind == DZ_STUB_FAULT && e.signo == SIGSEGV && e.addr == 0);
        }
    }
    end();
}

/* SPDX-License-Identifier: MIT
 *
 * stub_filter.c - the two seccomp filters of a stub.
 *
 * The first asks the kernel's side (user notification) before a clone, a mapping of the memory
 * that holds every ctx, a recvmsg, a close, and the calls by which the zygote becomes another user.
 * The second lets the calls of the table below pass, from the stub's text; everything else becomes
 * SIGSYS, and so an event. A trap comes before a notification, so nothing outside of the table ever
 * asks.
 *
 * Before that the second refuses calls on the memory of the stub and of its shared pages, except
 * for two that the stub needs, so this memory cannot be moved or changed. Otherwise mremap(2) could
 * extend the mapping of a ctx, so that a process had the ctx of others.
 *
 * The instruction's address is no boundary, as a guest may jump to the stub: it only tells a
 * guest's call from the stub's. What a call of the table can do is bounded by its arguments, and
 * must be harmless whoever makes it.
 */
#include "stub/stub_int.h"

#include <linux/audit.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum test {
    NONE,
    EQUAL,   /* all 64 bits */
    WITHIN,  /* no other bits than these, of 64 */
    LOW_IS,  /* the low 32 bits: descriptors */
    LOW_MIN, /* the low 32 bits are at least */
};
struct condition {
    enum test test;
    int arg;
    uint32_t value;
};
struct row {
    uint32_t number;
    struct condition conditions[4];
};

#define MAP_ALLOWED \
    (MAP_SHARED | MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK)
static const struct row rows[] = {
    {SYS_rt_sigreturn, {{NONE, 0, 0}}},
    {SYS_futex, {{EQUAL, 1, 0 /* FUTEX_WAIT */}, {EQUAL, 3, 0}}},
    {SYS_write, {{LOW_IS, 0, STUB_FD_BELL}, {EQUAL, 2, 8}}},
    {SYS_mmap, {{WITHIN, 2, 7}, {WITHIN, 3, MAP_ALLOWED}, {LOW_MIN, 4, STUB_FD_FIRST}}},
    {SYS_munmap, {{NONE, 0, 0}}},
    {SYS_mprotect, {{WITHIN, 2, 7}}},
    {SYS_mremap, {{EQUAL, 3, MREMAP_MAYMOVE | MREMAP_FIXED}}},
    {SYS_mremap, {{EQUAL, 3, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP}}},
    {SYS_madvise, {{EQUAL, 2, MADV_DONTNEED}}},
    {SYS_madvise, {{EQUAL, 2, MADV_FREE}}},
    {SYS_madvise, {{EQUAL, 2, MADV_REMOVE}}},
    {SYS_madvise, {{EQUAL, 2, MADV_DONTFORK}}},
    {SYS_madvise, {{EQUAL, 2, MADV_DOFORK}}},
    {SYS_madvise, {{EQUAL, 2, MADV_WIPEONFORK}}},
    {SYS_madvise, {{EQUAL, 2, MADV_KEEPONFORK}}},
    {SYS_arch_prctl, {{EQUAL, 0, 0x1001 /* ARCH_SET_GS */}}},
    {SYS_arch_prctl, {{EQUAL, 0, 0x1002 /* ARCH_SET_FS */}}},
    {SYS_exit, {{NONE, 0, 0}}},
    {SYS_prctl, {{EQUAL, 0, PR_SET_PDEATHSIG}, {EQUAL, 1, SIGKILL}}},
    {SYS_getppid, {{NONE, 0, 0}}},
    /* the kernel's side is asked */
    {SYS_clone, {{EQUAL, 0, STUB_CLONE_FORK}}},
    {SYS_clone, {{EQUAL, 0, STUB_CLONE_SHARE}}},
    {SYS_clone, {{EQUAL, 0, STUB_CLONE_THREAD}}},
    {SYS_mmap,
     {{EQUAL, 1, PAGE_CTX_SIZE},
      {EQUAL, 2, 3},
      {EQUAL, 3, MAP_SHARED | MAP_FIXED},
      {LOW_IS, 4, STUB_FD_MEMORY}}},
    {SYS_recvmsg, {{LOW_IS, 0, STUB_FD_SOCKET}, {EQUAL, 2, 0}}},
    {SYS_close, {{NONE, 0, 0}}},
    {SYS_setresgid, {{NONE, 0, 0}}},
    {SYS_setresuid, {{NONE, 0, 0}}},
    {SYS_capset, {{NONE, 0, 0}}},
    {SYS_prctl, {{EQUAL, 0, PR_SET_DUMPABLE}, {EQUAL, 1, 1}}},
};

static void add(struct stub_filter *f, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
    assert(f->count < STUB_FILTER_MAX);
    f->code[f->count++] = (struct sock_filter){code, yes, no, k};
}
static void load(struct stub_filter *f, size_t offset)
{
    add(f, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}
static size_t arg_at(int arg)
{
    return offsetof(struct seccomp_data, args) + (size_t)arg * 8;
}
static void answer(struct stub_filter *f, uint32_t what)
{
    add(f, BPF_RET | BPF_K, what, 0, 0);
}

void dz_stub_filter_ask(struct stub_filter *f)
{
    static const uint32_t asked[] = {
        SYS_clone,   /* makes what no number is known of */
        SYS_recvmsg, /* takes descriptors into the table that all share */
        SYS_close,   /* and out of it */
        SYS_setresgid, SYS_setresuid, SYS_capset, /* for the zygote, which has the capabilities */
    };
    const uint8_t count = DZ_ARRAY_LEN(asked);
    f->count = 0;
    load(f, offsetof(struct seccomp_data, arch));
    add(f, BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    answer(f, SECCOMP_RET_ALLOW); /* allow it: the other filter traps it */
    load(f, offsetof(struct seccomp_data, nr));
    add(f, BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 2);
    load(f, arg_at(4));
    add(f, BPF_JMP | BPF_JEQ | BPF_K, STUB_FD_MEMORY, count + 3, count + 4);
    add(f, BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 2);
    load(f, arg_at(0));
    add(f, BPF_JMP | BPF_JEQ | BPF_K, PR_SET_DUMPABLE, count, count + 1);
    for (uint8_t i = 0; i < count; i++)
        add(f, BPF_JMP | BPF_JEQ | BPF_K, asked[i], (uint8_t)(count - 1 - i), i + 1 == count);
    answer(f, SECCOMP_RET_USER_NOTIF);
    answer(f, SECCOMP_RET_ALLOW);
}

/* The number of instructions of a condition: the last one's jump leads behind the row. */
static uint8_t size_of(const struct condition *c)
{
    static const uint8_t size[] = {
        [NONE] = 0, [EQUAL] = 4, [WITHIN] = 4, [LOW_IS] = 2, [LOW_MIN] = 2};
    return size[c->test];
}

enum {
    TEXT_HIGH = PAGE_TEXT >> 32,
    END_LOW = DZ_STUB_RESERVED_END & UINT32_MAX,
    TASK_HIGH = 0x8000, /* no size reaches so far */
};
_Static_assert(DZ_STUB_RESERVED_END >> 32 == TEXT_HIGH &&
                   DZ_STUB_RESERVED_START >> 32 == TEXT_HIGH - 2,
               "the range of the stub");

/* Goes on behind itself if the range of these two arguments does not touch [PAGE_TEXT,
 * DZ_STUB_RESERVED_END), else traps. A range below: the sum of the high halves is one less than the
 * end's if there is a carry, so an end at DZ_STUB_RESERVED_START is below, one above PAGE_TEXT not,
 * and what lies between no guest has. */
enum {
    OUTSIDE_SIZE = 11
};
static void outside(struct stub_filter *f, int at, int size)
{
    const size_t begin = f->count;
    load(f, arg_at(size) + 4);
    add(f, BPF_JMP | BPF_JGE | BPF_K, TASK_HIGH, 8, 0);
    add(f, BPF_MISC | BPF_TAX, 0, 0, 0);
    load(f, arg_at(at) + 4);
    add(f, BPF_JMP | BPF_JGT | BPF_K, TEXT_HIGH, 6, 0);
    add(f, BPF_JMP | BPF_JEQ | BPF_K, TEXT_HIGH, 0, 2);
    load(f, arg_at(at));
    add(f, BPF_JMP | BPF_JGE | BPF_K, END_LOW, 3, 2);
    add(f, BPF_ALU | BPF_ADD | BPF_X, 0, 0, 0);
    add(f, BPF_JMP | BPF_JGE | BPF_K, TEXT_HIGH - 1, 0, 1);
    answer(f, SECCOMP_RET_TRAP);
    assert(f->count == begin + OUTSIDE_SIZE);
}

/* The child maps its ctx (which the first filter reports), and hides it from its own children.
 */
static void keep_stub(struct stub_filter *f)
{
    enum {
        MOVE = 10,
        RANGE = MOVE + OUTSIDE_SIZE,
        BEHIND = RANGE + OUTSIDE_SIZE,
    };
    const size_t begin = f->count;
    load(f, offsetof(struct seccomp_data, nr));
    add(f, BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, MOVE - 2, 0);
    add(f, BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, RANGE - 3, 0);
    add(f, BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, RANGE - 4, 0);
    add(f, BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0);
    add(f, BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 2, BEHIND - 6);
    load(f, arg_at(4));
    add(f, BPF_JMP | BPF_JEQ | BPF_K, STUB_FD_MEMORY, BEHIND - 8, RANGE - 8);
    load(f, arg_at(2));
    add(f, BPF_JMP | BPF_JEQ | BPF_K, MADV_DONTFORK, BEHIND - 10, RANGE - 10);
    assert(f->count == begin + MOVE);
    outside(f, 4, 2); /* where it moves to */
    outside(f, 0, 1);
    assert(f->count == begin + BEHIND);
}

void dz_stub_filter_trap(struct stub_filter *f)
{
    f->count = 0;
    load(f, offsetof(struct seccomp_data, arch));
    add(f, BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    answer(f, SECCOMP_RET_TRAP);
    load(f, offsetof(struct seccomp_data, instruction_pointer) + 4);
    add(f, BPF_JMP | BPF_JEQ | BPF_K, PAGE_TEXT >> 32, 1, 0);
    answer(f, SECCOMP_RET_TRAP);
    load(f, offsetof(struct seccomp_data, instruction_pointer));
    add(f, BPF_JMP | BPF_JGE | BPF_K, (uint32_t)PAGE_TEXT_SIZE, 0, 1);
    answer(f, SECCOMP_RET_TRAP);
    keep_stub(f);
    for (size_t i = 0; i < DZ_ARRAY_LEN(rows); i++) {
        const struct row *r = &rows[i];
        uint8_t left = 1; /* the row's answer */
        for (size_t n = 0; n < DZ_ARRAY_LEN(r->conditions); n++)
            left = (uint8_t)(left + size_of(&r->conditions[n]));
        load(f, offsetof(struct seccomp_data, nr));
        add(f, BPF_JMP | BPF_JEQ | BPF_K, r->number, 0, left);
        for (size_t n = 0; n < DZ_ARRAY_LEN(r->conditions); n++) {
            const struct condition *c = &r->conditions[n];
            left = (uint8_t)(left - size_of(c));
            if (c->test == NONE)
                continue;
            if (c->test == EQUAL || c->test == WITHIN) {
                load(f, arg_at(c->arg) + 4);
                add(f, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, (uint8_t)(left + 2));
            }
            load(f, arg_at(c->arg));
            if (c->test == WITHIN)
                add(f, BPF_JMP | BPF_JSET | BPF_K, ~c->value, left, 0);
            else
                add(f, BPF_JMP | (c->test == LOW_MIN ? BPF_JGE : BPF_JEQ) | BPF_K, c->value, 0,
                    left);
        }
        answer(f, SECCOMP_RET_ALLOW);
    }
    answer(f, SECCOMP_RET_TRAP);
}

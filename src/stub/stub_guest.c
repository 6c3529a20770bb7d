/* SPDX-License-Identifier: MIT
 *
 * stub_guest.c - the only code of doze in the memory of a guest's process: a program without a C
 * library and without data, linked at PAGE_TEXT.
 *
 * A signal's handler runs on a stack in the thread's ctx. So the frame that the host's kernel
 * writes there holds the guest's registers, and the kernel's side reads and changes them in place.
 * The handler reports that it waits, executes commands, and at RUN returns from the signal. All
 * signals are blocked meanwhile: a fault in this code kills the process, which happens to a guest
 * that unmaps or rewrites it.
 *
 * SS_AUTODISARM keeps the frame at the same place, wherever the guest's stack pointer is.
 */
#define _GNU_SOURCE
#include "stub/stub_page.h"

#include <linux/audit.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#define INLINE static inline __attribute__((always_inline))

INLINE int64_t raw(const struct stub_call *q)
{
    int64_t r;
    register uint64_t r10 __asm__("r10") = q->args[3];
    register uint64_t r8 __asm__("r8") = q->args[4];
    register uint64_t r9 __asm__("r9") = q->args[5];
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(q->number), "D"(q->args[0]), "S"(q->args[1]), "d"(q->args[2]), "r"(r10),
                       "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}
#define CALL(nr, ...) raw(&(const struct stub_call){.number = (nr), .args = {__VA_ARGS__}})

INLINE void ring(struct stub_ctx *c)
{
    struct stub_bell *bell = (struct stub_bell *)PAGE_CTX; /* NOLINT */
    const uint64_t g = ((uint64_t)c - PAGE_CTX) / PAGE_CTX_SIZE;
    atomic_store(&c->state, STUB_WAITS);
    atomic_fetch_or(&bell->ready[g / 64], UINT64_C(1) << (g % 64));
    if (atomic_load(&bell->asleep)) {
        const uint64_t one = 1;
        CALL(SYS_write, STUB_FD_BELL, (uint64_t)&one, 8);
    }
}
INLINE void wait_for_command(struct stub_ctx *c)
{
    for (uint32_t i = 0; i < atomic_load_explicit(&c->spin, memory_order_relaxed); i++) {
        if (atomic_load_explicit(&c->state, memory_order_acquire) == STUB_GO)
            goto go;
        __builtin_ia32_pause();
    }
    atomic_store(&c->asleep, 1);
    while (atomic_load(&c->state) != STUB_GO)
        CALL(SYS_futex, (uint64_t)&c->state, 0 /* FUTEX_WAIT */, STUB_WAITS);
    atomic_store(&c->asleep, 0);
go:
    atomic_store_explicit(&c->state, STUB_WORKS, memory_order_relaxed);
}

INLINE void bases_get(struct stub_ctx *c)
{
    if (c->bases & STUB_BASES_DIRECT) {
        uint64_t fs, gs;
        __asm__ volatile("rdfsbase %0; rdgsbase %1" : "=r"(fs), "=r"(gs));
        c->fs_base = fs;
        c->gs_base = gs;
    }
}
INLINE void bases_set(struct stub_ctx *c)
{
    if (c->bases & STUB_BASES_DIRECT) {
        __asm__ volatile("wrfsbase %0; wrgsbase %1" ::"r"(c->fs_base), "r"(c->gs_base));
    } else {
        CALL(SYS_arch_prctl, 0x1002 /* ARCH_SET_FS */, c->fs_base);
        CALL(SYS_arch_prctl, 0x1001 /* ARCH_SET_GS */, c->gs_base);
    }
}

/* The child does not have this ctx and stack: it maps its own before it accesses memory. */
INLINE int64_t clone_thread(uint64_t flags, uint64_t child)
{
    int64_t r;
    register uint64_t base __asm__("r12") = PAGE_CTX;
    __asm__ volatile(
        "xor %%esi, %%esi\n xor %%edx, %%edx\n xor %%r10d, %%r10d\n"
        "xor %%r8d, %%r8d\n mov $56, %%eax\n syscall\n"
        "test %%rax, %%rax\n jnz 1f\n"
        "mov %%rbx, %%rdi\n mov %[size], %%esi\n mov $3, %%edx\n" /* readable, writable */
        "mov $0x11, %%r10d\n mov %[fd], %%r8d\n"                  /* shared, fixed */
        "mov %%rbx, %%r9\n sub %%r12, %%r9\n mov $9, %%eax\n syscall\n"
        "cmp %%rbx, %%rax\n jne 2f\n"
        "mov %%rbx, %%rdi\n mov %c[frame](%%rbx), %%rsp\n sub $64, %%rsp\n"
        "call dz_stub_child\n"
        "2: mov $1, %%edi\n mov $60, %%eax\n syscall\n jmp 2b\n"
        "1:\n"
        : "=&a"(r)
        : "D"(flags), "b"(child), "r"(base), [size] "i"((int)PAGE_CTX_SIZE),
          [fd] "i"(STUB_FD_MEMORY), [frame] "i"(offsetof(struct stub_ctx, frame))
        : "rcx", "r11", "rsi", "rdx", "r8", "r9", "r10", "memory");
    return r;
}

__attribute__((noreturn)) static void serve(struct stub_ctx *c)
{
    struct stub_call *calls = (struct stub_call *)((char *)c + CTX_CALLS_AT); /* NOLINT */
    for (;;) {
        ring(c);
        wait_for_command(c);
        switch (c->command) {
        case STUB_RUN:
            if (c->bases & STUB_BASES_SET)
                bases_set(c);
            __asm__ volatile("mov %0, %%rsp\n mov $15, %%eax\n syscall\n ud2" ::"r"(c->frame));
            __builtin_unreachable();
        case STUB_CALLS:
            for (uint32_t i = 0, n = c->count; i < n && i < CTX_CALLS_MAX; i++) {
                struct stub_call *q = &calls[i];
                q->result = raw(q);
            }
            break;
        case STUB_CLONE:
            c->clone_result = clone_thread(c->clone_flags, c->clone_ctx);
            break;
        case STUB_SWAP: {
            uint32_t was = c->swap_was;
            atomic_compare_exchange_strong((_Atomic uint32_t *)c->swap_at, &was, /* NOLINT */
                                           c->swap_now);
            c->swap_was = was;
            break;
        }
        default:
            CALL(SYS_exit);
        }
    }
}

void dz_stub_child(struct stub_ctx *c);
__attribute__((used, noreturn)) void dz_stub_child(struct stub_ctx *c)
{
    CALL(SYS_madvise, (uint64_t)c, PAGE_CTX_SIZE, MADV_DONTFORK);
    CALL(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
    if ((uint32_t)CALL(SYS_getppid) != c->parent) /* which died before */
        CALL(SYS_exit);
    serve(c);
}

/* Calls whose results the kernel's side has stored in the ctx. */
INLINE int answered(const struct stub_ctx *c, const siginfo_t *info, ucontext_t *u)
{
    greg_t *rax = &u->uc_mcontext.gregs[REG_RAX];
    enum ctx_known which;
    if (!c->knows || info->si_arch != AUDIT_ARCH_X86_64)
        return 0;
    if (*rax == SYS_getpid)
        which = CTX_PID;
    else if (*rax == SYS_gettid)
        which = CTX_TID;
    else if (*rax == SYS_getuid)
        which = CTX_UID;
    else if (*rax == SYS_geteuid)
        which = CTX_EUID;
    else if (*rax == SYS_getgid)
        which = CTX_GID;
    else if (*rax == SYS_getegid)
        which = CTX_EGID;
    else
        return 0;
    *rax = c->known[which];
    return 1;
}

static void on_signal(int signo, siginfo_t *info, void *frame)
{
    struct stub_ctx *c = (struct stub_ctx *)((uint64_t)frame & ~(PAGE_CTX_SIZE - 1)); /* NOLINT */
    if (signo == SIGSYS && answered(c, info, frame))
        return; /* to stub_restore */
    c->frame = (uint64_t)frame;
    bases_get(c);
    serve(c);
}
__asm__("stub_restore: mov $15, %eax\n syscall\n ud2\n");
extern const char stub_restore[];

struct kernel_sigaction {
    void (*handler)(int, siginfo_t *, void *);
    uint64_t flags;
    const char *restorer;
    uint64_t mask;
};

/* The zygote: sets up handlers, the bell and its ctx. Further work comes as lists of calls. */
void dz_stub_start(void);
__attribute__((used, noreturn)) void dz_stub_start(void)
{
    static const uint8_t signals[] = {SIGSYS, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGUSR1};
    for (unsigned i = 0; i < sizeof signals; i++) {
        const struct kernel_sigaction action = {.handler = on_signal,
                                                .flags = 0x04000000 /* SA_RESTORER */ | SA_SIGINFO |
                                                         SA_ONSTACK,
                                                .restorer = stub_restore,
                                                .mask = ~UINT64_C(0)};
        CALL(SYS_rt_sigaction, signals[i], (uint64_t)&action, 0, 8);
    }
    CALL(SYS_mmap, PAGE_CTX, PAGE_CTX_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
         STUB_FD_MEMORY);
    const uint64_t ctx = PAGE_CTX + PAGE_CTX_SIZE;
    CALL(SYS_mmap, ctx, PAGE_CTX_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
         STUB_FD_MEMORY, PAGE_CTX_SIZE);
    __asm__ volatile(
        "mov %0, %%rsp\n mov %1, %%rdi\n call dz_stub_child\n ud2" ::"r"(ctx + CTX_START_STACK),
        "r"(ctx)
        : "memory");
    __builtin_unreachable();
}
__asm__(".globl _start\n_start: and $-16, %rsp\n call dz_stub_start\n ud2\n");

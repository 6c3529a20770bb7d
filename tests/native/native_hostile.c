/* SPDX-License-Identifier: MIT
 *
 * native_hostile.c - a static program, for t_native_hostile, whose children attack what they have
 * of the machine below them: the stub's instructions, the pages of their threads, numbers of files.
 * The first process must live on, and say so. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STUB_TEXT ((volatile uint8_t *)0x600000000000)
#define STUB_CTX  UINT64_C(0x600010000000)
enum {
    CTX_SIZE = 0x40000,
    CTX_COUNT = 4096,
    TEXT_SIZE = 2048,
    SECONDS = 3, /* that an attack may take */
};

static sigjmp_buf back;
static void jump(int signo)
{
    (void)signo;
    siglongjmp(back, 1);
}
static void catch_faults(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGSYS};
    struct sigaction a = {.sa_handler = jump, .sa_flags = SA_NODEFER | SA_ONSTACK};
    static char stack[65536];
    const stack_t s = {.ss_sp = stack, .ss_size = sizeof stack};
    (void)sigaltstack(&s, NULL);
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
        (void)sigaction(signals[i], &a, NULL);
}

/* A system call by the stub's own instruction: what comes back, comes back there. */
static void make_call(long nr, const uint64_t a[6])
{
    volatile int at = -1;
    if (sigsetjmp(back, 1))
        return;
    for (int i = 0; i < TEXT_SIZE - 1 && at < 0; i++)
        if (STUB_TEXT[i] == 0x0f && STUB_TEXT[i + 1] == 0x05)
            at = i;
    if (at < 0)
        return;
    register uint64_t r10 __asm__("r10") = a[3];
    register uint64_t r8 __asm__("r8") = a[4];
    register uint64_t r9 __asm__("r9") = a[5];
    __asm__ volatile("call *%[at]"
                     :
                     : [at] "r"(STUB_TEXT + at), "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10),
                       "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
}

#define by_stub(nr, ...) make_call((nr), (const uint64_t[6]){__VA_ARGS__})

/* The page of a thread of this process. */
static volatile uint32_t *find_ctx(void)
{
    static volatile uint64_t i;
    for (i = 1; i < CTX_COUNT; i++) {
        volatile uint32_t *c = (volatile uint32_t *)(STUB_CTX + i * CTX_SIZE);
        if (sigsetjmp(back, 1))
            continue;
        (void)*c;
        return c;
    }
    return NULL;
}

static void *spoil(void *arg)
{
    volatile uint32_t *c = find_ctx();
    uint32_t dice = (uint32_t)(uintptr_t)arg;
    if (sigsetjmp(back, 1))
        return NULL;
    for (int i = 0; c && i < 200000; i++) {
        dice = dice * 1103515245 + 12345;
        const uint32_t at = dice >> 8 & 3 ? dice >> 10 & 31 : dice >> 10 & (CTX_SIZE / 4 - 1);
        c[at] = dice & 16 ? dice : dice >> 5 & 3;
    }
    return NULL;
}
static void *call_much(void *arg)
{
    for (int i = 0; i < 3000; i++)
        (void)syscall(SYS_getppid);
    return arg;
}

static void attack(int n)
{
    const uint64_t text = (uint64_t)(uintptr_t)STUB_TEXT, rw = PROT_READ | PROT_WRITE;
    pthread_t one, two;
    volatile uint32_t *c;
    catch_faults();
    switch (n) {
    case 0: /* the thread is gone, and nobody was told */
        by_stub(SYS_exit, 0, 0, 0, 0, 0, 0);
        break;
    case 1: /* without its own text, stack, everything below the stub */
        by_stub(SYS_munmap, 0, text, 0, 0, 0, 0);
        break;
    case 2: /* without the stub */
        by_stub(SYS_munmap, text, 0x10000, 0, 0, 0, 0);
        (void)getppid();
        break;
    case 3: /* without its ctx */
        by_stub(SYS_munmap, STUB_CTX, (uint64_t)CTX_SIZE * CTX_COUNT, 0, 0, 0, 0);
        (void)getppid();
        break;
    case 4: /* memory that the kernel does not know of */
        by_stub(SYS_mmap, 0x10000, 1 << 20, rw, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                ~UINT64_C(0), 0);
        *(volatile int *)0x10000 = 1;
        (void)getppid();
        (void)mmap((void *)0x10000, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                   0);
        break;
    case 5: /* a child that nobody ordered */
        by_stub(SYS_clone, 0x8411, 0, 0, 0, 0, 0);
        by_stub(SYS_clone, 0x8511, 0, 0, 0, 0, 0);
        by_stub(SYS_clone, 0x50f00, 0, 0, 0, 0, 0);
        break;
    case 6: /* every number of a file, written to */
        for (uint64_t fd = 0; fd < 64; fd++)
            by_stub(SYS_mmap, 0x20000000, 4096, rw, MAP_SHARED | MAP_FIXED, fd, 0);
        break;
    case 7: /* others' descriptors */
        for (uint64_t fd = 0; fd < 64; fd++)
            by_stub(SYS_close, fd, 0, 0, 0, 0, 0);
        break;
    case 8: /* it stands, it says, while it runs */
        c = find_ctx();
        for (int i = 0; c && i < 1000; i++)
            *c = 1;
        (void)getppid();
        break;
    case 9: /* rings without end */
        c = (volatile uint32_t *)STUB_CTX;
        if (sigsetjmp(back, 1) == 0)
            for (int i = 0; i < 100000; i++)
                c[2 + i % 128] = 0xffffffff;
        break;
    case 10: /* registers from a frame of its own */
        by_stub(SYS_rt_sigreturn, 0, 0, 0, 0, 0, 0);
        break;
    default: /* the page changes while calls are served */
        (void)pthread_create(&one, NULL, spoil, (void *)(uintptr_t)n);
        (void)pthread_create(&two, NULL, call_much, NULL);
        (void)pthread_join(one, NULL);
        (void)pthread_join(two, NULL);
        break;
    }
    _exit(0);
}

int main(void)
{
    enum {
        ATTACKS = 20
    };
    int ended = 0, fds[2];
    char b[6] = "";
    for (int n = 0; n < ATTACKS; n++) {
        const pid_t pid = fork();
        if (pid == 0) {
            (void)alarm(SECONDS);
            attack(n);
        }
        int status;
        ended += pid > 0 && waitpid(pid, &status, 0) == pid;
    }
    if (pipe(fds) < 0 || write(fds[1], "alive", 5) != 5 || read(fds[0], b, 5) != 5)
        return 1;
    printf("%d of %d ended, and this process is %s\n", ended, ATTACKS, b);
    return 0;
}

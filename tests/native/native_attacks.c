/* SPDX-License-Identifier: MIT
 *
 * native_attacks.c - a static program, for tests/security/t_cell_linux, that attacks the machine
 * below it in the way that its argument names. It prints what came of it: "held" when everything
 * that it tried was refused or harmed nobody but itself, else the first thing that was not. */
#define _GNU_SOURCE
#include "../../src/stub/stub_ahead.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define STUB_TEXT     UINT64_C(0x600000000000)
#define STUB_CTX      UINT64_C(0x600010000000)
#define STUB_END      UINT64_C(0x600050000000)
#define STUB_CTX_SIZE UINT64_C(0x40000)
#define STUB_AHEAD_AT 0x3000
#define NOWHERE       UINT64_C(0x7000dead0000)
#define NOT_CANONICAL UINT64_C(0x8000000000000000)
#define OF_THE_KERNEL UINT64_C(0xffffffff81000000)
enum {
    TEXT_SIZE = 4096, /* more than the stub has */
    AT_ONCE = 24,     /* children of one batch */
    BATCH_MS = 60,    /* that they live, unless they end themselves */
    THREADS = 100,
    HEAD_FIELDS = 20, /* words at the head of a ctx, and more */
};

static bool broken; /* something was not refused */

__attribute__((format(printf, 1, 2))) static void broke(const char *fmt, ...)
{
    va_list ap;
    if (broken)
        return;
    broken = true;
    va_start(ap, fmt);
    (void)vprintf(fmt, ap);
    va_end(ap);
    (void)printf("\n");
}

static int64_t raw(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
    int64_t r;
    register uint64_t r10 __asm__("r10") = d;
    register uint64_t r8 __asm__("r8") = e;
    register uint64_t r9 __asm__("r9") = 0;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}

static void sleep_ms(int ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    (void)nanosleep(&t, NULL);
}

/* Run act(i) for i in [0, count), each in a child that is killed after a while: it may be stuck.
 * Every one must end, and this process go on. */
static void each(int count, void (*act)(int i))
{
    pid_t pids[AT_ONCE];
    for (int from = 0; from < count; from += AT_ONCE) {
        const int n = count - from < AT_ONCE ? count - from : AT_ONCE;
        int left = 0;
        for (int i = 0; i < n; i++) {
            pids[i] = fork();
            if (pids[i] == 0) {
                act(from + i);
                _exit(0);
            }
            left += pids[i] > 0;
        }
        for (int t = 0; t < BATCH_MS && left > 0; t++) {
            for (int i = 0; i < n; i++)
                if (pids[i] > 0 && waitpid(pids[i], NULL, WNOHANG) == pids[i]) {
                    pids[i] = 0;
                    left--;
                }
            if (left > 0)
                sleep_ms(1);
        }
        for (int i = 0; i < n; i++) {
            if (pids[i] <= 0)
                continue;
            (void)kill(pids[i], SIGKILL);
            if (waitpid(pids[i], NULL, 0) != pids[i])
                broke("child %d of %d did not end", from + i, count);
        }
    }
    if (getppid() <= 0 && getpid() <= 0)
        broke("this process has no number");
}

/* ---- the stub's instructions ------------------------------------------------------------ */

/* To the stub's byte i with registers that could do most harm there. */
static void jump_to(int i)
{
    static const uint64_t values[] = {
        0, STUB_CTX, STUB_CTX + STUB_CTX_SIZE, STUB_END, UINT64_MAX, NOT_CANONICAL, OF_THE_KERNEL,
        1};
    const uint64_t v = values[i / TEXT_SIZE % 8], nr = (uint64_t)i * 2654435761u % 450;
    for (int s = 1; s < 32; s++)
        (void)signal(s, SIG_DFL);
    __asm__ volatile("mov %0, %%rbx\n mov %0, %%rdi\n mov %0, %%rsi\n mov %0, %%rdx\n"
                     "mov %0, %%r10\n mov %0, %%r12\n mov %0, %%r13\n mov %0, %%r14\n"
                     "mov %0, %%r15\n jmp *%1\n"
                     :
                     : "c"(v), "r"(STUB_TEXT + (uint64_t)(i % TEXT_SIZE)), "a"(nr)
                     : "memory");
}
static void do_jump(void)
{
    each(TEXT_SIZE, jump_to);
}
static void do_jump_all(void)
{
    each(8 * TEXT_SIZE, jump_to);
}

/* ---- the ctx, while other threads run ----------------------------------------------------- */

static sigjmp_buf back;
static void jump_back(int signo)
{
    (void)signo;
    siglongjmp(back, 1);
}
static void catch_faults(void)
{
    struct sigaction a = {.sa_handler = jump_back, .sa_flags = SA_NODEFER};
    (void)sigaction(SIGSEGV, &a, NULL);
    (void)sigaction(SIGBUS, &a, NULL);
}
/* The ctx of the n-th thread of this process. */
static volatile uint64_t *find_ctx(int n)
{
    static volatile uint64_t i;
    static volatile int skip;
    skip = n;
    for (i = 1; i < 4096; i++) {
        volatile uint64_t *c = (volatile uint64_t *)(STUB_CTX + i * STUB_CTX_SIZE);
        if (sigsetjmp(back, 1))
            continue;
        (void)*c;
        if (skip-- == 0)
            return c;
    }
    return NULL;
}
static void *call_on(void *arg)
{
    const int fd = eventfd(0, 0);
    for (;;) {
        (void)syscall(SYS_getppid);
        (void)syscall(SYS_sched_yield);
        void *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p != MAP_FAILED)
            (void)munmap(p, 8192);
        (void)write(fd, &(uint64_t){1}, 8);
    }
    return arg;
}
/* Field i / 8 of the head, the lists, and the frame becomes each extreme, again and again. */
static void spoil_word(int i)
{
    static const uint64_t extremes[] = {
        0, 1, 2, UINT64_MAX, NOT_CANONICAL, OF_THE_KERNEL, STUB_CTX, 0x7fffffff7fffffff};
    static const uint32_t lists[] = {0x1000, 0x1008, 0x1038, 0x8000, 0x8010};
    const int field = i / 8, list = field - HEAD_FIELDS, frame = list - 5;
    const uint32_t at = list < 0    ? (uint32_t)field * 8
                        : frame < 0 ? lists[list]
                                    : 0xf000 + (uint32_t)frame * 8;
    pthread_t a, b;
    if (pthread_create(&a, NULL, call_on, NULL) != 0 ||
        pthread_create(&b, NULL, call_on, NULL) != 0)
        return;
    catch_faults();
    volatile uint64_t *c = find_ctx(i % 3);
    if (!c)
        return;
    for (int n = 0; n < 200000; n++)
        c[at / 8] = extremes[i % 8];
}
static void do_ctx(void)
{
    each((HEAD_FIELDS + 5) * 8, spoil_word);
}
static void do_ctx_all(void)
{
    each((HEAD_FIELDS + 5 + 512) * 8, spoil_word);
}

/* ---- the files of a directory, whose sizes in the ctx another process changes -------------- */

static volatile uint64_t *ahead_ctx;
static int spoil_sizes(void *arg)
{
    static const uint32_t extremes[] = {0x80000000, 0xfffff000, 0x40000000, 0};
    struct dz_stub_ahead *a = (struct dz_stub_ahead *)((uintptr_t)ahead_ctx + STUB_AHEAD_AT);
    for (unsigned n = 0;; n++)
        for (int i = 0; i < DZ_AHEAD_ENTRIES; i++) {
            *(volatile uint32_t *)&a->entry[i].have = extremes[n % 4];
            *(volatile uint32_t *)&a->entry[i].bytes_at = extremes[(n + 1) % 4];
        }
    return arg != NULL;
}
/* Open and read each file of the directory, in the order of its listing. */
static void read_all_of(const char *path)
{
    static char text[8192];
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        const int fd = openat(dirfd(d), e->d_name, O_RDONLY);
        (void)read(fd, text, sizeof text);
        (void)close(fd);
    }
    if (d)
        (void)closedir(d);
}
static void do_ahead(void)
{
    static _Alignas(16) char stack[65536], name[64], text[5000];
    (void)mkdir("/tmp/ahead", 0700);
    for (int i = 0; i < 40; i++) {
        (void)snprintf(name, sizeof name, "/tmp/ahead/%d", i);
        const int fd = open(name, O_CREAT | O_WRONLY, 0600);
        if (fd < 0 || write(fd, text, sizeof text) != (ssize_t)sizeof text)
            broke("cannot make %s", name);
        (void)close(fd);
    }
    catch_faults();
    ahead_ctx = find_ctx(0);
    if (!ahead_ctx)
        broke("this thread has no ctx");
    const pid_t pid = clone(spoil_sizes, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
    for (int n = 0; pid > 0 && n < 300; n++)
        read_all_of("/tmp/ahead");
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

/* ---- calls that are none ------------------------------------------------------------------ */

static int64_t int80(uint32_t nr, uint32_t a)
{
    int64_t r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(nr), "b"(a) : "memory");
    return r;
}
static void do_numbers(void)
{
    for (uint32_t nr = 0; nr < 500; nr++) {
        const int64_t r = int80(nr, 0);
        if (r != -ENOSYS)
            broke("int 0x80 %u gave %lld", nr, (long long)r);
    }
    for (uint64_t nr = 0; nr < 600; nr++) {
        const int64_t r = raw((long)(0x40000000 + nr), 0, 0, 0, 0, 0);
        if (r != -ENOSYS)
            broke("x32 call %d gave %lld", (int)nr, (long long)r);
    }
    for (int bit = 9; bit < 64; bit++)
        if (bit != 30 && raw((long)(UINT64_C(1) << bit | SYS_getpid), 0, 0, 0, 0, 0) == getpid() &&
            bit < 32)
            broke("call %d with bit %d is getpid", SYS_getpid, bit);
}
static void vsyscall(int i)
{
    uint64_t r;
    __asm__ volatile("call *%1"
                     : "=a"(r)
                     : "r"(UINT64_C(0xffffffffff600000) + (uint64_t)i * 0x400), "D"(NULL), "S"(NULL)
                     : "rcx", "r11", "rdx", "memory");
}
static void do_vsyscall(void)
{
    each(4, vsyscall);
}

/* ---- clone ---------------------------------------------------------------------------------- */

static void clone_with(int bit)
{
    static _Alignas(16) char stack[65536];
    uint64_t flags = UINT64_C(1) << (bit % 64);
    if (bit >= 64)
        flags |= CLONE_VM;
    if (bit >= 128)
        flags |= CLONE_SIGHAND | CLONE_THREAD;
    int64_t r;
    register uint64_t r10 __asm__("r10") = 0;
    register uint64_t r8 __asm__("r8") = 0;
    /* the child, if there is one, ends itself with the stack that it has */
    __asm__ volatile("syscall\n test %%rax, %%rax\n jnz 1f\n"
                     "mov $60, %%eax\n xor %%edi, %%edi\n syscall\n 1:"
                     : "=a"(r)
                     : "a"(SYS_clone), "D"(flags), "S"(stack + sizeof stack - 64), "d"(NULL),
                       "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    static const uint64_t namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                       CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    _exit(r > 0 && (flags & namespaces) ? 99 : 0);
}
static void do_clone(void)
{
    for (int s = 1; s < 32; s++) /* the end of a child may be told by any */
        (void)signal(s, SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL);
    for (int bit = 0; bit < 192; bit++) {
        int status = 0;
        const pid_t pid = fork();
        if (pid == 0)
            clone_with(bit);
        if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
            WEXITSTATUS(status) == 99)
            broke("clone made a namespace: bit %d", bit);
    }
    struct {
        uint64_t a[11];
    } args;
    for (int i = 0; i < 64; i++) { /* clone3, with each field at its extremes */
        memset(&args, i & 1 ? 0xff : 0, sizeof args);
        args.a[i % 11] = UINT64_C(1) << i;
        const int64_t r = raw(SYS_clone3, (uint64_t)&args, sizeof args, 0, 0, 0);
        if (r == 0)
            _exit(0);
    }
    while (waitpid(-1, NULL, __WALL) > 0)
        ;
}

/* ---- code that is made ------------------------------------------------------------------------
 */

static void do_jit(void)
{
    static const uint8_t code[] = {0xb8, 0x6e, 0, 0, 0, 0x0f, 0x05, 0xc3}; /* getppid */
    uint8_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return;
    for (int i = 0; i < 2000; i++) {
        (void)mprotect(p, 4096, PROT_READ | PROT_WRITE);
        memcpy(p + i % 64, code, sizeof code);
        (void)mprotect(p, 4096, PROT_READ | PROT_EXEC);
        int (*f)(void) = (int (*)(void))(uintptr_t)(p + i % 64);
        if (f() != getppid())
            broke("a call from made code is another one");
    }
}

/* ---- exhaustion ---------------------------------------------------------------------------------
 */

static void must_end(const char *what, long count, long most, int error, int wanted, int also)
{
    if (count >= most)
        broke("%s: %ld of them, and no end", what, count);
    else if (error != wanted && error != also)
        broke("%s: ended at %ld with %s", what, count, strerror(error));
}
static void do_vmas(void)
{
    long n = 0;
    for (; n < 200000; n++)
        if (mmap(NULL, 4096, n & 1 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
            MAP_FAILED)
            break;
    must_end("mappings", n, 200000, errno, ENOMEM, ENOMEM);
}
static void *wait_for_ever(void *arg)
{
    for (;;)
        (void)pause();
    return arg;
}
static void do_threads(void)
{
    pthread_attr_t a;
    pthread_t t;
    long n = 0;
    int e = 0;
    (void)pthread_attr_init(&a);
    (void)pthread_attr_setstacksize(&a, 32768);
    for (; n < 20000 && (e = pthread_create(&t, &a, wait_for_ever, NULL)) == 0; n++)
        ;
    must_end("threads", n, 20000, e, EAGAIN, ENOMEM);
}
static void do_processes(void)
{
    long n = 0;
    for (; n < 20000; n++) {
        const pid_t pid = fork();
        if (pid < 0)
            break;
        if (pid == 0)
            (void)wait_for_ever(NULL);
    }
    must_end("processes", n, 20000, errno, EAGAIN, ENOMEM);
    (void)signal(SIGTERM, SIG_IGN);
    (void)kill(0, SIGTERM);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}
static int make_pipe(void)
{
    int fds[2];
    return pipe(fds);
}
static int make_socket(void)
{
    int fds[2];
    return socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
}
static int make_event(void)
{
    return eventfd(0, 0);
}
static int make_memory(void)
{
    return memfd_create("m", 0);
}
static int make_open(void)
{
    return open("/", O_RDONLY);
}
static void do_descriptors(void)
{
    static int (*const makers[])(void) = {make_pipe, make_socket, make_event, make_memory,
                                          make_open};
    for (unsigned i = 0; i < sizeof makers / sizeof *makers; i++) {
        const pid_t pid = fork();
        if (pid == 0) {
            long n = 0;
            while (n < 200000 && makers[i]() >= 0)
                n++;
            must_end("descriptors", n, 200000, errno, EMFILE, ENFILE);
            (void)fflush(stdout);
            _exit(broken);
        }
        int status;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            broken = true;
    }
}
/* Memory that no process has for itself: more than the machine may use. */
static void do_objects(void)
{
    const size_t step = 32 << 20, most = (size_t)2 << 30;
    const pid_t pid = fork();
    if (pid == 0) {
        for (size_t n = 0; n < most; n += step) {
            const int fd = memfd_create("m", 0);
            char *p = MAP_FAILED;
            if (fd >= 0 && ftruncate(fd, (off_t)step) == 0)
                p = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            if (p == MAP_FAILED)
                _exit(0);
            for (size_t i = 0; i < step; i += 4096)
                p[i] = 1;
        }
        _exit(1);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status == 256)
        broke("objects of memory: 2 GiB of them, and no end");
}
static void do_signals(void)
{
    sigset_t set;
    long n = 0;
    (void)sigfillset(&set);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    for (; n < 1000000; n++)
        if (sigqueue(getpid(), SIGRTMIN + (int)(n % 8), (union sigval){.sival_int = 1}) < 0)
            break;
    must_end("signals", n, 1000000, errno, EAGAIN, EAGAIN);
}

/* ---- storms
 * --------------------------------------------------------------------------------------- */

static volatile int storms;
static void count_storm(int signo)
{
    (void)signo;
    if (++storms == 3000) {
        (void)!write(1, broken ? "" : "held\n", broken ? 0 : 5);
        _exit(0);
    }
}
static void do_segv(void)
{
    (void)signal(SIGSEGV, count_storm);
    *(volatile int *)NOWHERE = 1;
}
static void do_ill(void)
{
    (void)signal(SIGILL, count_storm);
    (void)signal(SIGSYS, count_storm);
    __asm__ volatile("ud2");
}
static void do_sigsys(void)
{
    (void)signal(SIGSYS, count_storm);
    for (;;) {
        (void)int80(20, 0);
        (void)raw(0x40000000 + SYS_getpid, 0, 0, 0, 0, 0);
        (void)raise(SIGSYS);
    }
}
/* Each instruction is a SIGTRAP, system calls, too. */
static void do_steps(void)
{
    (void)signal(SIGTRAP, count_storm);
    __asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq\n" ::: "memory", "cc");
    for (;;)
        (void)raw(SYS_getppid, 0, 0, 0, 0, 0);
}

/* ---- stacks and frames --------------------------------------------------------------------------
 */

static volatile int depth;
__attribute__((noinline)) static int deeper(int n)
{
    volatile char room[4096];
    room[0] = (char)n;
    depth = n;
    return n < 0 ? 0 : deeper(n + 1) + room[0];
}
static void overflow(int i)
{
    static char own[65536];
    static const uint64_t places[] = {
        STUB_CTX, STUB_CTX + 0x3a000, NOWHERE, NOT_CANONICAL, OF_THE_KERNEL, 0, STUB_TEXT};
    const stack_t s = {.ss_sp = i == 0 ? own : (void *)places[i % 7],
                       .ss_size = i < 8 ? sizeof own : (size_t)-1};
    struct sigaction a = {.sa_handler = count_storm, .sa_flags = SA_ONSTACK};
    (void)sigaltstack(&s, NULL);
    if (i != 9)
        (void)sigaction(SIGSEGV, &a, NULL);
    (void)deeper(0);
}
static void do_stack(void)
{
    each(16, overflow);
}

struct frame { /* of the kernel: struct ucontext, siginfo */
    uint64_t flags, link;
    stack_t stack;
    greg_t regs[NGREG];
    uint64_t fpstate, reserved[8], mask, info[16];
};
static void on_return(void)
{
    _exit(7);
}
/* i: which field of a frame that is sound otherwise becomes which extreme. */
static void return_to(int i)
{
    static _Alignas(64) uint8_t fp[16384];
    static _Alignas(64) uint8_t stack[65536];
    static _Alignas(16) struct frame f;
    static const uint64_t extremes[] = {0,        UINT64_MAX,         NOT_CANONICAL, OF_THE_KERNEL,
                                        STUB_CTX, STUB_CTX + 0x3f000, STUB_TEXT,     0x3ffd7f};
    uint64_t *const words = (uint64_t *)&f;
    const unsigned word = (unsigned)i / 8 % 48;
    f.flags = 7;
    f.regs[REG_RIP] = (greg_t)(uintptr_t)on_return;
    f.regs[REG_RSP] = (greg_t)(uintptr_t)(stack + sizeof stack - 8);
    f.regs[REG_EFL] = 0x202;
    f.regs[REG_CSGSFS] = 0x002b000000000033;
    for (size_t k = 0; k < sizeof fp; k++)
        fp[k] = (uint8_t)(i % 3 == 0 ? 0xff : i % 3 == 1 ? k * 37 : 0);
    fp[464] = 0x53; /* the magic of an extended frame, with sizes and components that are garbage */
    fp[465] = 0x50;
    fp[466] = 0x58;
    fp[467] = 0x46;
    f.fpstate = (uint64_t)(uintptr_t)fp + (i % 5 == 4 ? 8 : 0);
    if (word < sizeof f / 8)
        words[word] = extremes[i % 8];
    __asm__ volatile("mov %0, %%rsp\n mov $15, %%eax\n syscall\n" ::"r"(&f) : "memory");
    __builtin_unreachable();
}
static void do_frames(void)
{
    each(48 * 8, return_to);
}

/* ---- mappings over the stub
 * ----------------------------------------------------------------------- */

static void is_kept(const char *what, int64_t r, uint64_t at)
{
    if (r >= 0 && (!at || ((uint64_t)r > STUB_TEXT - 8192 && (uint64_t)r < STUB_END)))
        broke("%s gave %llx", what, (unsigned long long)r);
}
static void do_mappings(void)
{
    static const uint64_t starts[] = {STUB_TEXT,       STUB_TEXT - 4096,
                                      STUB_CTX,        STUB_CTX + STUB_CTX_SIZE * 2,
                                      STUB_END - 4096, STUB_TEXT + 0x8000000};
    const uint64_t rwx = PROT_READ | PROT_WRITE | PROT_EXEC, two = 8192;
    char *own = mmap(NULL, two, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned i = 0; i < sizeof starts / sizeof *starts; i++) {
        const uint64_t at = starts[i];
        is_kept("mmap fixed",
                raw(SYS_mmap, at, two, rwx, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~0ul), 0);
        is_kept("mmap noreplace",
                raw(SYS_mmap, at, two, rwx, MAP_PRIVATE | MAP_ANONYMOUS | 0x100000, ~0ul), 0);
        is_kept("mmap hint", raw(SYS_mmap, at, two, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, ~0ul),
                1);
        (void)raw(SYS_munmap, at, two, 0, 0, 0);
        if (raw(SYS_mprotect, at, two, rwx, 0, 0) == 0)
            broke("mprotect of %llx", (unsigned long long)at);
        is_kept("mremap to",
                raw(SYS_mremap, (uint64_t)own, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, at), 0);
        is_kept("mremap from",
                raw(SYS_mremap, at, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, 0x10000000), 0);
        is_kept("mremap grow", raw(SYS_mremap, at, 4096, 1 << 20, MREMAP_MAYMOVE, 0), 0);
        for (uint64_t advice = 0; advice < 26; advice++)
            (void)raw(SYS_madvise, at, two, advice, 0, 0);
    }
    (void)raw(SYS_munmap, 0x7ffffffff000, 1ul << 47, 0, 0, 0);
    (void)raw(SYS_munmap, STUB_TEXT - 4096, STUB_END - STUB_TEXT + two, 0, 0, 0);
    if (raw(SYS_brk, STUB_TEXT + 4096, 0, 0, 0, 0) >= (int64_t)STUB_TEXT)
        broke("brk into the stub");
    if (raw(SYS_brk, UINT64_MAX, 0, 0, 0, 0) < 0)
        broke("brk of everything");
    (void)raw(SYS_mmap, 0, UINT64_MAX & ~4095ul, rwx, MAP_PRIVATE | MAP_ANONYMOUS, ~0ul);
    (void)raw(SYS_mmap, 0, 1ul << 47, rwx, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, ~0ul);
    (void)raw(SYS_mmap, 0, 4096, rwx, MAP_SHARED, 3);
    if (getppid() < 0)
        broke("no calls any more");
}

/* ---- calls that must be refused
 * ------------------------------------------------------------------- */

static void do_forbidden(void)
{
    static const struct {
        long nr;
        const char *name;
        uint64_t a[4];
    } calls[] = {
        {SYS_userfaultfd, "userfaultfd", {1, 0, 0, 0}},
        {SYS_io_uring_setup, "io_uring_setup", {8, 0, 0, 0}},
        {SYS_io_uring_enter, "io_uring_enter", {3, 1, 1, 0}},
        {SYS_io_uring_register, "io_uring_register", {3, 0, 0, 0}},
        {SYS_bpf, "bpf", {0, 0, 0, 0}},
        {SYS_perf_event_open, "perf_event_open", {0, 0, ~0ul, ~0ul}},
        {SYS_ptrace, "ptrace ATTACH", {16, 1, 0, 0}},
        {SYS_ptrace, "ptrace SEIZE", {0x4206, 1, 0, 0}},
        {SYS_process_vm_readv, "process_vm_readv", {1, 0, 0, 0}},
        {SYS_process_vm_writev, "process_vm_writev", {1, 0, 0, 0}},
        {SYS_kcmp, "kcmp", {1, 1, 0, 0}},
        {SYS_pidfd_getfd, "pidfd_getfd", {0, 0, 0, 0}},
        {SYS_mount, "mount", {0, 0, 0, 0}},
        {SYS_umount2, "umount2", {0, 0, 0, 0}},
        {SYS_pivot_root, "pivot_root", {0, 0, 0, 0}},
        {SYS_fsopen, "fsopen", {0, 0, 0, 0}},
        {SYS_open_tree, "open_tree", {0, 0, 0, 0}},
        {SYS_move_mount, "move_mount", {0, 0, 0, 0}},
        {SYS_unshare, "unshare", {CLONE_NEWUSER, 0, 0, 0}},
        {SYS_setns, "setns", {0, 0, 0, 0}},
        {SYS_keyctl, "keyctl", {0, 0, 0, 0}},
        {SYS_add_key, "add_key", {0, 0, 0, 0}},
        {SYS_request_key, "request_key", {0, 0, 0, 0}},
        {SYS_init_module, "init_module", {0, 0, 0, 0}},
        {SYS_finit_module, "finit_module", {0, 0, 0, 0}},
        {SYS_delete_module, "delete_module", {0, 0, 0, 0}},
        {SYS_kexec_load, "kexec_load", {0, 0, 0, 0}},
        {SYS_reboot, "reboot", {0xfee1dead, 672274793, 0x1234567, 0}},
        {SYS_swapon, "swapon", {0, 0, 0, 0}},
        {SYS_swapoff, "swapoff", {0, 0, 0, 0}},
        {SYS_acct, "acct", {0, 0, 0, 0}},
        {SYS_iopl, "iopl", {3, 0, 0, 0}},
        {SYS_ioperm, "ioperm", {0, 1, 1, 0}},
        {SYS_modify_ldt, "modify_ldt", {1, 0, 0, 0}},
        {SYS_fanotify_init, "fanotify_init", {0, 0, 0, 0}},
        {SYS_open_by_handle_at, "open_by_handle_at", {0, 0, 0, 0}},
        {SYS_quotactl, "quotactl", {0, 0, 0, 0}},
        {SYS_settimeofday, "settimeofday", {0, 0, 0, 0}},
        {SYS_clock_adjtime, "clock_adjtime", {0, 0, 0, 0}},
        {SYS_move_pages, "move_pages", {1, 1, 0, 0}},
        {SYS_migrate_pages, "migrate_pages", {1, 0, 0, 0}},
        {SYS_process_madvise, "process_madvise", {0, 0, 0, 0}},
        {SYS_memfd_secret, "memfd_secret", {0, 0, 0, 0}},
        {SYS_vmsplice, "vmsplice", {0, 0, 0, 0}},
        {SYS_arch_prctl, "arch_prctl CPUID", {0x1012, 0, 0, 0}},
        {SYS_arch_prctl, "arch_prctl FS of the kernel", {0x1002, OF_THE_KERNEL, 0, 0}},
        {SYS_arch_prctl, "arch_prctl GS of the kernel", {0x1001, OF_THE_KERNEL, 0, 0}},
        {SYS_arch_prctl, "arch_prctl FS not canonical", {0x1002, NOT_CANONICAL, 0, 0}},
        {SYS_prctl, "prctl SECCOMP", {22, 2, 0, 0}},
        {SYS_prctl, "prctl MM", {35, 1, 0x1000, 0}},
        {SYS_kill, "kill of nobody", {999999, 9, 0, 0}},
    };
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        const uint64_t *a = calls[i].a;
        const int64_t r = raw(calls[i].nr, a[0], a[1], a[2], a[3], 0);
        if (r >= 0)
            broke("%s gave %lld", calls[i].name, (long long)r);
    }
    static const char *const files[] = {
        "/dev/mem",          "/dev/kmem",          "/dev/kvm",
        "/dev/fuse",         "/proc/kcore",        "/proc/kallsyms",
        "/proc/1/mem",       "/proc/self/mem",     "/proc/sysrq-trigger",
        "/sys/kernel/debug", "/proc/self/pagemap", "/sys/fs/cgroup/cgroup.procs",
        "/dev/userfaultfd"};
    for (unsigned i = 0; i < sizeof files / sizeof *files; i++) {
        const int fd = open(files[i], O_RDWR);
        if (fd >= 0)
            broke("%s can be written", files[i]);
    }
}

/* Instructions of the kernel, and those that read or change what is the processor's. */
static void instruct(int i)
{
    static const uint64_t own[2];
    switch (i) {
    case 0:
        __asm__ volatile("hlt");
        break;
    case 1:
        __asm__ volatile("cli");
        break;
    case 2:
        __asm__ volatile("in $0x60, %%al" ::: "rax");
        break;
    case 3:
        __asm__ volatile("out %al, $0x64");
        break;
    case 4:
        __asm__ volatile("mov %%cr0, %%rax" ::: "rax");
        break;
    case 5:
        __asm__ volatile("wrmsr" ::"c"(0xc0000080), "a"(0), "d"(0));
        break;
    case 6:
        __asm__ volatile("rdpmc" ::"c"(0) : "rax", "rdx");
        break;
    case 7:
        __asm__ volatile("xsetbv" ::"c"(0), "a"(3), "d"(0));
        break;
    case 8:
        __asm__ volatile(".byte 0xf1"); /* icebp */
        break;
    case 9:
        __asm__ volatile("int3");
        break;
    case 10:
        __asm__ volatile("sysenter" ::: "rcx", "rdx");
        break;
    case 11:
        __asm__ volatile("mov %0, %%fs" ::"r"(0x33));
        break;
    case 12:
        __asm__ volatile("wrfsbase %0" ::"r"(NOT_CANONICAL));
        break;
    case 13:
        __asm__ volatile("wrgsbase %0\n syscall" ::"r"(OF_THE_KERNEL), "a"(SYS_getppid)
                         : "rcx", "r11");
        break;
    case 14:
        __asm__ volatile("int $0x82");
        break;
    case 15:
        __asm__ volatile("lcall *(%0)" ::"r"(own));
        break;
    case 16:
        __asm__ volatile(
            "mov $0x23, %%eax\n push %%rax\n lea 1f(%%rip), %%rax\n push %%rax\n lretq\n"
            "1: .byte 0xb8, 0x14, 0, 0, 0, 0xcd, 0x80" ::
                : "rax", "memory");
        break; /* 32-bit code */
    case 17:
        __asm__ volatile("xor %%esp, %%esp\n syscall" ::"a"(SYS_getppid) : "rcx", "r11", "memory");
        break;
    case 18:
        __asm__ volatile("mov %0, %%rsp\n syscall" ::"r"(NOT_CANONICAL), "a"(SYS_getppid));
        break;
    case 19:
        __asm__ volatile("pushfq\n orq $0x44000, (%%rsp)\n popfq\n syscall" ::"a"(SYS_getppid)
                         : "rcx", "r11", "memory", "cc"); /* AC and NT */
        break;
    default:
        __asm__ volatile("std\n syscall\n" ::"a"(SYS_getppid) : "rcx", "r11", "memory", "cc");
        break;
    }
}
static void do_instructions(void)
{
    each(21, instruct);
}

/* ---- others
 * ------------------------------------------------------------------------------------------ */

/* Every number that could be a process of the host, or of the stubs. */
static void do_kill(void)
{
    (void)signal(SIGTERM, SIG_IGN);
    for (int pid = 1; pid < 70000; pid++)
        if (pid != getpid() && pid != getppid() && kill(pid, 0) == 0 && pid > 2000)
            broke("there is a process %d", pid);
    for (int pid = 1; pid < 3000; pid++)
        if (pid != getpid())
            (void)raw(SYS_tgkill, (uint64_t)pid, (uint64_t)pid, SIGCONT, 0, 0);
    (void)raw(SYS_setpriority, 0, 1, (uint64_t)-20, 0, 0);
    (void)raw(SYS_prlimit64, 1, 7, 0, 0, 0);
    (void)raw(SYS_sched_setscheduler, 0, 1, (uint64_t)&(int){99}, 0, 0);
}
static void *burn(void *arg)
{
    for (volatile unsigned long i = 0;; i++)
        ;
    return arg;
}
static void do_burn(void)
{
    pthread_attr_t a;
    pthread_t t;
    (void)pthread_attr_init(&a);
    (void)pthread_attr_setstacksize(&a, 32768);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_create(&t, &a, burn, NULL);
    sleep_ms(500);
}
static void call_at(uint64_t at, long nr, const uint64_t a[5])
{
    register uint64_t r10 __asm__("r10") = a[3];
    register uint64_t r8 __asm__("r8") = a[4];
    __asm__ volatile("jmp *%0" ::"r"(at), "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10),
                     "r"(r8)
                     : "memory");
}
/* The stub's own instructions make its program writable, its ctx longer, both somebody else's. */
static void rewrite(int i)
{
    static const struct {
        long nr;
        uint64_t a[5];
    } calls[] = {
        {SYS_mprotect, {STUB_TEXT, 4096, 7}},
        {SYS_munmap, {STUB_TEXT, 4096}},
        {SYS_mmap, {STUB_TEXT, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~0ul}},
        {SYS_mremap, {STUB_CTX, 0, 1 << 20, MREMAP_MAYMOVE | MREMAP_FIXED, 0x10000000}},
        {SYS_mremap, {STUB_CTX, STUB_CTX_SIZE, 1 << 20, MREMAP_MAYMOVE | MREMAP_FIXED, 0x10000000}},
    };
    static volatile uint64_t at;
    struct sigaction a = {.sa_handler = jump_back, .sa_flags = SA_NODEFER};
    catch_faults();
    (void)sigaction(SIGILL, &a, NULL);
    for (at = STUB_TEXT; memcmp((const void *)at, "\x0f\x05\x0f\x0b", 4) != 0; at++)
        ;
    if (sigsetjmp(back, 1) == 0) /* a system call, and an instruction that is none */
        call_at(at, calls[i].nr, calls[i].a);
    if (sigsetjmp(back, 1) != 0)
        _exit(0); /* as it must be */
    *(volatile uint64_t *)(i < 3 ? STUB_TEXT + 0x800 : 0x10010000) = 0;
    _exit(99);
}
static void do_rewrite(void)
{
    for (int i = 0; i < 5; i++) {
        int status = 0;
        const pid_t pid = fork();
        if (pid == 0)
            rewrite(i);
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            broke("call %d by the stub: the process ended with %x", i, (unsigned)status);
    }
}
/* When it is told to. */
static void do_fork(void)
{
    char c;
    (void)!read(0, &c, 1);
    (void)fork();
    (void)wait_for_ever(NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*act)(void);
    } acts[] = {
        {"jump", do_jump},
        {"jump-all", do_jump_all},
        {"ctx", do_ctx},
        {"ctx-all", do_ctx_all},
        {"ahead", do_ahead},
        {"numbers", do_numbers},
        {"vsyscall", do_vsyscall},
        {"clone", do_clone},
        {"jit", do_jit},
        {"vmas", do_vmas},
        {"threads", do_threads},
        {"processes", do_processes},
        {"descriptors", do_descriptors},
        {"objects", do_objects},
        {"signals", do_signals},
        {"segv", do_segv},
        {"ill", do_ill},
        {"sigsys", do_sigsys},
        {"steps", do_steps},
        {"stack", do_stack},
        {"frames", do_frames},
        {"mappings", do_mappings},
        {"forbidden", do_forbidden},
        {"instructions", do_instructions},
        {"kill", do_kill},
        {"burn", do_burn},
        {"rewrite", do_rewrite},
        {"fork", do_fork},
    };
    if (argc == 2 && strcmp(argv[1], "calm") == 0) {
        char c;
        while (read(0, &c, 1) == 1)
            (void)!write(1, &c, 1);
        return 0;
    }
    for (unsigned i = 0; argc == 2 && i < sizeof acts / sizeof *acts; i++)
        if (strcmp(acts[i].name, argv[1]) == 0) {
            acts[i].act();
            if (!broken)
                puts("held");
            return 0;
        }
    return 2;
}

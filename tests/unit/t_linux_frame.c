/* SPDX-License-Identifier: MIT
 *
 * Signal frames. This machine's kernel is asked for a frame, and the module for the same one: the
 * bytes are the same. The kernel returns from frames with all kinds of contents, and so does the
 * module: either both refuse, or the same registers come out. */
#include "linux/linux_frame.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#ifndef SA_RESTORER
#define SA_RESTORER 0x04000000u
#endif
#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif
enum {
    AREA = 1 << 16,
    FILL = 0xaa,
    UC_STACK_PAD = 36, /* offsets in a frame */
    UC_REGS = 48,
    UC_ERROR = 200,
    UC_TRAP = 208,
    UC_ADDRESS = 224,
    UC_FPSTATE = 232,
    UC_RESERVED = 240,
    UC_MASK = 304,
    SW = 464, /* and in an xstate */
    SW_SIZE = SW + 16,
    HEADER = 512,
};

/* ---- what this machine does --------------------------------------------------------- */

/* Where frames of the kernel come to lie, what was there when the handler began, and what the
 * module writes. */
static _Alignas(4096) uint8_t area[AREA];
static uint8_t host[AREA], ours[AREA];

struct kernel_action {
    void (*handler)(void);
    uint64_t flags;
    void (*restorer)(void);
    uint64_t mask;
};
/* Registers with values of their own, then a call, or a store to where rsi points. */
struct going {
    uint64_t rax, rdi, rsi, rdx, stack; /* stack 0: the caller's */
    uint64_t rsp, flags;                /* what they were */
    uint64_t back;
};
extern struct going f_going;
extern uint64_t f_begun[6]; /* of the handler: rsp, rdi, rsi, rdx, rax, rflags */
extern uint16_t f_begun_fcw;
extern uint32_t f_begun_mxcsr;
struct going f_going;
uint64_t f_begun[6];
uint16_t f_begun_fcw;
uint32_t f_begun_mxcsr;
static const uint32_t odd_mxcsr __attribute__((used)) = 0x9fc0,
                                plain_mxcsr __attribute__((used)) = 0x1f80;
static const uint16_t odd_fcw __attribute__((used)) = 0x27f;
void f_call(void), f_called(void), f_poke(void), f_poking(void);
void f_handler(void), f_restorer(void), f_seen(void);
#define GO(name, instruction)                                                                  \
    name ": push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"           \
         " mov %rsp, 56+f_going(%rip)\n"                                                       \
         " mov 32+f_going(%rip), %rax\n test %rax, %rax\n cmovz %rsp, %rax\n"                  \
         " mov %rax, 40+f_going(%rip)\n"                                                       \
         " fldcw odd_fcw(%rip)\n fldpi\n ldmxcsr odd_mxcsr(%rip)\n"                            \
         " mov $0x0808080808080808, %r8\n mov $0x0909090909090909, %r9\n xor %r10d, %r10d\n"   \
         " mov $0x1111111111111111, %r11\n"                                                    \
         " mov $0x1212121212121212, %r12\n movq %r12, %xmm3\n mov $0x1313131313131313, %r13\n" \
         " mov $0x1414141414141414, %r14\n mov $0x1515151515151515, %r15\n"                    \
         " mov $0x0b0b0b0b0b0b0b0b, %rbx\n mov $0x0c0c0c0c0c0c0c0c, %rbp\n"                    \
         " mov $0x0101010101010101, %rcx\n"                                                    \
         " mov f_going(%rip), %rax\n mov 8+f_going(%rip), %rdi\n"                              \
         " mov 16+f_going(%rip), %rsi\n mov 24+f_going(%rip), %rdx\n"                          \
         " std\n pushfq\n popq 48+f_going(%rip)\n mov 40+f_going(%rip), %rsp\n" instruction    \
         " cld\n fninit\n ldmxcsr plain_mxcsr(%rip)\n mov 56+f_going(%rip), %rsp\n"            \
         " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n"
__asm__(".text\n"
        "f_restorer: mov $15, %eax\n syscall\n"
        "f_handler:\n"
        " mov %rsp, f_begun(%rip)\n mov %rdi, 8+f_begun(%rip)\n mov %rsi, 16+f_begun(%rip)\n"
        " mov %rdx, 24+f_begun(%rip)\n mov %rax, 32+f_begun(%rip)\n"
        " pushfq\n popq 40+f_begun(%rip)\n cld\n"
        " fnstcw f_begun_fcw(%rip)\n stmxcsr f_begun_mxcsr(%rip)\n"
        " sub $8, %rsp\n call f_seen\n add $8, %rsp\n ret\n" /**/
        GO("f_call", " syscall\nf_called:")                  /**/
        GO("f_poke", "f_poking: mov %rax, (%rsi)\n"));

static void (*in_handler)(void);
__attribute__((used)) void f_seen(void)
{
    memcpy(host, area, sizeof host);
    if (in_handler)
        in_handler();
}

/* ---- the same by the module --------------------------------------------------------- */

static const struct dz_linux_trap no_trap;
struct memory {
    uint64_t base;
    uint8_t *bytes;
    size_t size;
};
static size_t reach(const struct memory *m, uint64_t at, size_t n)
{
    if (at < m->base || at - m->base >= m->size)
        return 0;
    return n < m->size - (at - m->base) ? n : m->size - (size_t)(at - m->base);
}
static size_t mem_read(void *arg, uint64_t at, void *to, size_t n)
{
    const struct memory *m = arg;
    n = reach(m, at, n);
    memcpy(to, m->bytes + (n ? at - m->base : 0), n);
    return n;
}
static size_t mem_write(void *arg, uint64_t at, const void *from, size_t n)
{
    const struct memory *m = arg;
    n = reach(m, at, n);
    memcpy(m->bytes + (n ? at - m->base : 0), from, n);
    return n;
}
static size_t mem_room(void *arg, uint64_t at, size_t n)
{
    return reach(arg, at, n);
}
static struct memory our_memory = {.bytes = ours, .size = sizeof ours};
static const struct dz_linux_mem our_mem = {mem_read, mem_write, mem_room, &our_memory};

static uint64_t word(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static void set_word(uint8_t *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
}
/* What the host's frame at `at` says. */
static uint8_t *host_at(uint64_t at)
{
    return host + (at - (uint64_t)area);
}

/* What the call of f_call(), or its answer, has in its registers. */
static struct dz_stub_regs going_regs(uint64_t rax)
{
    return (struct dz_stub_regs){
        .r8 = 0x0808080808080808,
        .r9 = 0x0909090909090909,
        .r11 = f_going.flags,
        .r12 = 0x1212121212121212,
        .r13 = 0x1313131313131313,
        .r14 = 0x1414141414141414,
        .r15 = 0x1515151515151515,
        .rdi = f_going.rdi,
        .rsi = f_going.rsi,
        .rbp = 0x0c0c0c0c0c0c0c0c,
        .rbx = 0x0b0b0b0b0b0b0b0b,
        .rdx = f_going.rdx,
        .rax = rax,
        .rcx = (uint64_t)f_called,
        .rsp = f_going.rsp,
        .rip = (uint64_t)f_called,
        .rflags = f_going.flags,
    };
}

/* The frame at f_begun[0] in `host` is what the module makes of this. Between frame and xstate both
 * leave what was there; in what is reserved the kernel does, the module writes zeros. */
static void same_frame(struct dz_stub_regs regs, struct dz_thread *t, const struct dz_inject *h,
                       const struct dz_linux_trap *trap)
{
    static uint8_t x[DZ_STUB_XSTATE_MAX];
    uint8_t *f = host_at(f_begun[0]);
    const uint8_t *fp = host_at(word(f + UC_FPSTATE));
    uint32_t size;
    memcpy(&size, fp + SW + 4, sizeof size);
    if (size > sizeof x) {
        CHECK(false);
        return;
    }
    memcpy(x, fp, size);
    memset(f + UC_RESERVED, 0, UC_MASK - UC_RESERVED);
    memset(f + UC_STACK_PAD, 0, 4);
    memset(ours, FILL, sizeof ours);
    our_memory.base = (uint64_t)area;
    const struct dz_linux_frame frame = {&our_mem, &regs, x, size};
    CHECK_INT(dz_linux_frame_push(&frame, t, trap, h), 0);
    CHECK(regs.rsp == f_begun[0] && regs.rdi == f_begun[1] && regs.rsi == f_begun[2]);
    CHECK(regs.rdx == f_begun[3] && regs.rax == f_begun[4] && regs.rflags == f_begun[5]);
    CHECK(regs.rip == (uint64_t)f_handler);
    CHECK(memcmp(x, &f_begun_fcw, 2) == 0 && memcmp(x + 24, &f_begun_mxcsr, 4) == 0);
    CHECK(word(x + HEADER) == 0 && memcmp(x + SW, fp + SW, 48) == 0);
    CHECK(memcmp(x + size - 4, fp + size - 4, 4) == 0);
    for (size_t i = f_begun[0] - (uint64_t)area; i < sizeof host; i++)
        if (host[i] != ours[i]) {
            printf("# byte %zu of the frame\n", i - (size_t)(f_begun[0] - (uint64_t)area));
            CHECK_INT(ours[i], host[i]);
            break;
        }
}

static void go(uint64_t number, uint64_t a, uint64_t b, uint64_t c)
{
    memset(area, FILL, sizeof area);
    f_going = (struct going){.rax = number, .rdi = a, .rsi = b, .rdx = c, .stack = f_going.stack};
    f_call();
}
static void raise_here(int signo)
{
    go(SYS_tgkill, (uint64_t)getpid(), (uint64_t)gettid(), (uint64_t)signo);
}

/* Exceptions before this test are in the frames that the kernel makes. */
static struct dz_linux_trap host_trap(void)
{
    const uint8_t *f = host_at(f_begun[0]);
    return (struct dz_linux_trap){
        .number = word(f + UC_TRAP), .error = word(f + UC_ERROR), .address = word(f + UC_ADDRESS)};
}

/* A situation: the handler's flags, the alternate stack, where the program's stack is. */
struct situation {
    uint64_t flags, alt_size, mask, stack;
    uint32_t alt_flags;
};
static struct dz_thread prepare(const struct situation *s, int signo)
{
    const struct kernel_action a = {f_handler, s->flags | SA_RESTORER, f_restorer, 0x300};
    const stack_t alt = {.ss_sp = area, .ss_size = s->alt_size, .ss_flags = (int)s->alt_flags};
    CHECK_INT(sigaltstack(&alt, NULL), 0);
    CHECK_INT(syscall(SYS_rt_sigaction, signo, &a, NULL, 8), 0);
    CHECK_INT(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &s->mask, NULL, 8), 0);
    f_going.stack = s->stack;
    return (struct dz_thread){
        .alt_stack = (uint64_t)area, .alt_size = s->alt_size, .alt_flags = s->alt_flags};
}
static struct dz_sigact action(const struct situation *s)
{
    return (struct dz_sigact){.handler = (uint64_t)f_handler,
                              .restorer = (uint64_t)f_restorer,
                              .flags = (uint32_t)s->flags | SA_RESTORER};
}
static struct dz_siginfo by_me(int signo)
{
    return (struct dz_siginfo){.signo = signo, .code = SI_TKILL, .pid = getpid(), .uid = getuid()};
}
static struct dz_thread raised(const struct situation *s)
{
    struct dz_thread t = prepare(s, SIGUSR1);
    const struct dz_sigact a = action(s);
    const struct dz_siginfo info = by_me(SIGUSR1);
    const struct dz_inject h = {.act = &a, .info = &info, .mask = s->mask};
    raise_here(SIGUSR1);
    const struct dz_linux_trap trap = host_trap();
    same_frame(going_regs(0), &t, &h, &trap);
    return t;
}

/* ---- frames ------------------------------------------------------------------------------- */

TEST(a_frame_on_the_alternate_stack_is_the_kernels)
{
    const struct dz_thread t =
        raised(&(struct situation){.flags = SA_SIGINFO | SA_ONSTACK, .alt_size = AREA});
    CHECK(t.alt_size == AREA && t.alt_stack == (uint64_t)area);
}

TEST(the_mask_is_in_the_frame)
{
    (void)raised(&(struct situation){.flags = SA_SIGINFO | SA_ONSTACK,
                                     .alt_size = AREA,
                                     .mask = 1u << (SIGUSR2 - 1) | UINT64_C(1) << 40});
}

/* Without SA_SIGINFO nothing is written of siginfo_t; without SA_ONSTACK the frame lies below the
 * red zone of the program. */
TEST(a_frame_on_the_own_stack_leaves_the_red_zone)
{
    (void)raised(&(struct situation){.alt_size = AREA / 2, .stack = (uint64_t)area + AREA - 1000});
    CHECK(f_begun[0] < (uint64_t)area + AREA - 1128 && f_begun[0] > (uint64_t)area + AREA / 2);
}

TEST(who_is_on_the_alternate_stack_stays_there)
{
    (void)raised(&(struct situation){.flags = SA_SIGINFO | SA_ONSTACK,
                                     .alt_size = AREA,
                                     .stack = (uint64_t)area + AREA - 20000});
    CHECK(f_begun[0] < (uint64_t)area + AREA - 20000);
}

TEST(a_stack_that_disarms_begins_anew)
{
    const struct dz_thread t = raised(&(struct situation){.flags = SA_SIGINFO | SA_ONSTACK,
                                                          .alt_size = AREA,
                                                          .alt_flags = SS_AUTODISARM,
                                                          .stack = (uint64_t)area + 20000});
    CHECK(f_begun[0] > (uint64_t)area + 40000);
    CHECK(t.alt_size == 0 && t.alt_stack == 0 && t.alt_flags == 0);
}

TEST(a_value_comes_with_a_real_time_signal)
{
    const struct situation s = {.flags = SA_SIGINFO | SA_ONSTACK, .alt_size = AREA};
    struct dz_thread t = prepare(&s, SIGRTMIN);
    const struct dz_sigact a = action(&s);
    const struct dz_siginfo info = {
        .signo = SIGRTMIN, .code = SI_QUEUE, .pid = 77, .uid = 88, .value = 0x1122334455667788};
    const struct dz_inject h = {.act = &a, .info = &info};
    siginfo_t sent = {.si_signo = SIGRTMIN, .si_code = SI_QUEUE};
    sent.si_pid = 77;
    sent.si_uid = 88;
    sent.si_value.sival_ptr = (void *)0x1122334455667788; /* NOLINT */
    go(SYS_rt_sigqueueinfo, (uint64_t)getpid(), (uint64_t)SIGRTMIN, (uint64_t)&sent);
    const struct dz_linux_trap trap = host_trap();
    same_frame(going_regs(0), &t, &h, &trap);
}

static void *poked;
static void make_writable(void)
{
    (void)mprotect(poked, 4096, PROT_READ | PROT_WRITE);
}
TEST(a_fault_tells_its_address_and_its_kind)
{
    const struct situation s = {.flags = SA_SIGINFO | SA_ONSTACK, .alt_size = AREA};
    struct dz_thread t = prepare(&s, SIGSEGV);
    const struct dz_sigact a = action(&s);
    poked = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(poked != MAP_FAILED && *(volatile char *)poked == 0); /* present */
    memset(area, FILL, sizeof area);
    f_going = (struct going){.rax = 1, .rdi = 2, .rsi = (uint64_t)poked + 24, .rdx = 3};
    in_handler = make_writable;
    f_poke();
    const struct dz_siginfo info = {
        .signo = SIGSEGV, .code = SEGV_ACCERR, .addr = (uint64_t)poked + 24};
    const struct dz_linux_trap trap = {.number = 14, .error = 7, .address = info.addr};
    const struct dz_inject h = {.act = &a, .info = &info};
    struct dz_stub_regs regs = going_regs(1);
    regs.rip = (uint64_t)f_poking;
    regs.rcx = 0x0101010101010101;
    regs.r11 = 0x1111111111111111;
    regs.rflags |= 0x10000; /* RF: what faulted goes on */
    same_frame(regs, &t, &h, &trap);
}

/* ---- calls that a handler interrupts --------------------------------------------------------- */

static int pipe_fds[2];
static _Atomic pid_t reader;

/* When `reader` sleeps, it does so in its call. */
static void *sends_when_it_sleeps(void *arg)
{
    char path[64], text[256];
    while (atomic_load(&reader) == 0)
        (void)sched_yield();
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)atomic_load(&reader));
    for (char state = 'R'; state != 'S'; (void)sched_yield()) {
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        const ssize_t n = read(fd, text, sizeof text - 1);
        (void)close(fd);
        text[n > 0 ? n : 0] = '\0';
        const char *after = strrchr(text, ')');
        state = after ? after[2] : 'S';
    }
    (void)arg;
    CHECK_INT(syscall(SYS_tgkill, getpid(), atomic_load(&reader), SIGUSR1), 0);
    return NULL;
}
static void gives_a_byte(void)
{
    CHECK_INT(write(pipe_fds[1], "x", 1), 1);
}
static void interrupted_read(uint64_t restart)
{
    static uint8_t byte;
    const struct situation s = {.flags = SA_SIGINFO | SA_ONSTACK | restart, .alt_size = AREA};
    struct dz_thread t = prepare(&s, SIGUSR1);
    const struct dz_sigact a = action(&s);
    const struct dz_siginfo info = by_me(SIGUSR1);
    const struct dz_inject h = {
        .act = &a, .info = &info, .in_call = true, .again = restart != 0, .result = -EINTR};
    pthread_t other;
    CHECK_INT(pipe(pipe_fds), 0);
    CHECK_INT(pthread_create(&other, NULL, sends_when_it_sleeps, NULL), 0);
    in_handler = gives_a_byte;
    atomic_store(&reader, gettid());
    go(SYS_read, (uint64_t)pipe_fds[0], (uint64_t)&byte, 1);
    CHECK_INT(pthread_join(other, NULL), 0);
    CHECK_INT(byte, restart ? 'x' : 0);
    const struct dz_linux_trap trap = host_trap();
    same_frame(going_regs(SYS_read), &t, &h, &trap);
}
TEST(a_call_that_restarts_is_issued_again)
{
    interrupted_read(SA_RESTART);
}
TEST(a_call_that_does_not_restart_answers_eintr)
{
    interrupted_read(0);
}

/* ---- returning ------------------------------------------------------------------------------- */

enum {
    ROOM = 1024,    /* of a frame, before its xstate */
    REGISTERS = 16, /* rax rbx rcx rdx rsi rdi rbp rsp r8 to r15 */
};
/* What came out of rt_sigreturn: in memory that the child shares. */
struct landed {
    uint64_t regs[REGISTERS], flags;
    _Alignas(64) uint8_t xstate[DZ_STUB_XSTATE_MAX];
    bool here;
};
/* A frame where the kernel reads it. */
struct laid {
    _Alignas(64) uint8_t frame[ROOM];
    uint8_t xstate[DZ_STUB_XSTATE_MAX];
};
static struct laid laid;
uint64_t f_landed[REGISTERS + 1];
extern uint8_t f_landed_xstate[], f_landed_stack[];
_Alignas(64) uint8_t f_landed_xstate[DZ_STUB_XSTATE_MAX];
_Alignas(64) uint8_t f_landed_stack[16384];
void f_return(uint64_t rsp), f_land(void), f_arrived(void);
__asm__(".text\n"
        "f_return: mov %rdi, %rsp\n mov $15, %eax\n syscall\n ud2\n"
        "f_land: mov %rax, f_landed(%rip)\n mov %rbx, 8+f_landed(%rip)\n"
        " mov %rcx, 16+f_landed(%rip)\n mov %rdx, 24+f_landed(%rip)\n"
        " mov %rsi, 32+f_landed(%rip)\n mov %rdi, 40+f_landed(%rip)\n"
        " mov %rbp, 48+f_landed(%rip)\n mov %rsp, 56+f_landed(%rip)\n"
        " mov %r8, 64+f_landed(%rip)\n mov %r9, 72+f_landed(%rip)\n"
        " mov %r10, 80+f_landed(%rip)\n mov %r11, 88+f_landed(%rip)\n"
        " mov %r12, 96+f_landed(%rip)\n mov %r13, 104+f_landed(%rip)\n"
        " mov %r14, 112+f_landed(%rip)\n mov %r15, 120+f_landed(%rip)\n"
        " lea 16384+f_landed_stack(%rip), %rsp\n pushfq\n popq 128+f_landed(%rip)\n"
        " push $0x202\n popfq\n"
        " mov $-1, %eax\n mov %eax, %edx\n xsave f_landed_xstate(%rip)\n"
        " call f_arrived\n ud2\n");
static struct landed *landed;
__attribute__((used)) void f_arrived(void)
{
    memcpy(landed->regs, f_landed, sizeof landed->regs);
    landed->flags = f_landed[REGISTERS];
    memset(f_landed_xstate + HEADER, 0,
           8); /* which are initial, a context switch decides as well */
    memcpy(landed->xstate, f_landed_xstate, sizeof landed->xstate);
    landed->here = true;
    _exit(0);
}
/* False: SIGSEGV. */
static bool returned(const struct laid *from, struct landed *ret_landed)
{
    int status;
    memset(landed, 0, sizeof *landed);
    memcpy(&laid, from, sizeof laid);
    const pid_t pid = fork();
    if (pid == 0) {
        const struct kernel_action plain = {NULL, 0, NULL, 0};
        (void)syscall(SYS_rt_sigaction, SIGSEGV, &plain, NULL, 8);
        f_return((uint64_t)laid.frame + 8);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(landed->here ? status == 0 : WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    *ret_landed = *landed;
    return landed->here;
}

/* A frame of this machine, moved to `laid`, that leads to f_land. */
static struct laid sample;
static uint32_t sample_size; /* of its xstate */
static void take_sample(void)
{
    (void)raised(&(struct situation){.flags = SA_SIGINFO | SA_ONSTACK, .alt_size = AREA});
    const uint8_t *f = host_at(f_begun[0]), *x = host_at(word(f + UC_FPSTATE));
    const stack_t off = {.ss_flags = SS_DISABLE};
    CHECK_INT(sigaltstack(&off, NULL), 0);
    memcpy(&sample_size, x + SW + 4, sizeof sample_size);
    CHECK(sample_size <= sizeof sample.xstate - 64);
    memcpy(sample.frame, f, DZ_LINUX_FRAME);
    memcpy(sample.xstate, x, sample_size);
    set_word(sample.frame + UC_FPSTATE, (uint64_t)laid.xstate);
    set_word(sample.frame + UC_REGS + 16 * 8, (uint64_t)f_land);
    landed = mmap(NULL, sizeof *landed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (landed == MAP_FAILED)
        abort();
}

/* The module's answer to a frame. */
struct popped {
    struct dz_stub_regs regs;
    uint8_t xstate[DZ_STUB_XSTATE_MAX];
    uint64_t mask;
    struct dz_altstack stack;
};
static int pop(const struct laid *from, struct popped *ret)
{
    static struct laid copy;
    struct memory m = {(uint64_t)&laid, (uint8_t *)&copy, sizeof copy};
    struct dz_linux_mem mem = our_mem;
    mem.arg = &m;
    copy = *from;
    *ret = (struct popped){.regs = {.rsp = (uint64_t)laid.frame + 8, .rflags = 0x202, .rax = 15}};
    memcpy(ret->xstate, sample.xstate, sample_size);
    const struct dz_linux_frame f = {&mem, &ret->regs, ret->xstate, sample_size};
    return dz_linux_frame_pop(&f, &ret->mask, &ret->stack);
}

/* What the module makes of a frame is what the kernel makes of it: both refuse; or the registers
 * are the same, and so are the extended ones after the kernel has loaded what the module says. */
static void same_return(const struct laid *from, const char *what)
{
    static struct landed direct, ours_landed;
    static struct popped p;
    static struct laid made;
    const int bad = tap_bad;
    const bool here = returned(from, &direct);
    const int rc = pop(from, &p);
    CHECK_INT(rc, here ? 0 : -EFAULT);
    if (here && rc == 0) {
        const struct dz_stub_regs *r = &p.regs;
        const uint64_t regs[REGISTERS] = {r->rax, r->rbx, r->rcx, r->rdx, r->rsi, r->rdi,
                                          r->rbp, r->rsp, r->r8,  r->r9,  r->r10, r->r11,
                                          r->r12, r->r13, r->r14, r->r15};
        CHECK(memcmp(regs, direct.regs, sizeof regs) == 0 && r->rip == (uint64_t)f_land);
        CHECK_INT(r->rflags & ~UINT64_C(0x10000), direct.flags); /* pushf shows no RF */
        CHECK(p.mask == word(from->frame + UC_MASK));
        made = sample;
        memcpy(made.frame + UC_REGS, r, 18 * 8);
        memcpy(made.xstate, p.xstate, sample_size);
        CHECK(returned(&made, &ours_landed));
        CHECK(memcmp(direct.xstate, ours_landed.xstate, sizeof direct.xstate) == 0);
        /* and no byte of the layout is the frame's */
        CHECK(memcmp(p.xstate + SW, sample.xstate + SW, 48) == 0);
    }
    if (tap_bad != bad)
        printf("# %s\n", what);
}

static void put32(struct laid *l, size_t at, uint32_t v)
{
    memcpy(l->xstate + at, &v, sizeof v);
}

TEST(a_frame_brings_back_what_it_says)
{
    take_sample();
    same_return(&sample, "as it was");
    struct laid l = sample;
    for (size_t i = 0; i < 18; i++)
        if (i != 15 && i != 16 && i != 17) /* rsp, rip, flags */
            set_word(l.frame + UC_REGS + 8 * i, UINT64_C(0xfedcba9876543210) + i);
    set_word(l.frame + UC_REGS + 15 * 8, 0x1000); /* rsp may lead nowhere */
    set_word(l.frame + UC_MASK, UINT64_MAX);
    same_return(&l, "registers");
    for (size_t i = 0; i < sample_size - 4; i++)
        if (i < 24 || (i >= 32 && i < 416) || i >= HEADER + 64)
            l.xstate[i] = (uint8_t)(i * 7);
    same_return(&l, "extended registers");
    static struct popped p;
    set_word(l.frame + 24, 0x123456000);
    set_word(l.frame + 32, SS_AUTODISARM);
    set_word(l.frame + 40, 0x4000);
    CHECK_INT(pop(&l, &p), 0);
    CHECK(p.stack.at == 0x123456000 && p.stack.size == 0x4000 && p.stack.flags == SS_AUTODISARM);
}

TEST(only_the_flags_of_programs_come_back)
{
    take_sample();
    /* IF, IOPL, NT, VM, VIF, VIP, ID and what is above are not a program's; TF would trap here */
    for (int bit = 0; bit < 64; bit++) {
        struct laid l = sample;
        if (bit == 8)
            continue;
        set_word(l.frame + UC_REGS + 17 * 8, UINT64_C(1) << bit);
        same_return(&l, "a flag");
    }
}

TEST(an_xstate_that_says_other_sizes_is_read_as_linux_reads_it)
{
    take_sample();
    struct laid l = sample;
    set_word(l.frame + UC_FPSTATE, 0);
    same_return(&l, "no xstate");
    for (uint64_t by = 8; by <= 32; by *= 2) {
        set_word(l.frame + UC_FPSTATE, (uint64_t)laid.xstate + by);
        memcpy(l.xstate + by, sample.xstate, sample_size);
        same_return(&l, "not aligned");
    }
    l = sample;
    put32(&l, SW, 0);
    same_return(&l, "no first magic: FXSAVE only");
    put32(&l, 24, 0xffffffff);
    same_return(&l, "and its MXCSR is bad");
    l = sample;
    put32(&l, sample_size - 4, 0);
    same_return(&l, "no second magic");
    const uint32_t sizes[] = {0, 575, 576, 580, sample_size - 8, sample_size, sample_size + 4};
    for (size_t i = 0; i < DZ_ARRAY_LEN(sizes); i++) {
        l = sample;
        put32(&l, SW_SIZE, sizes[i]);
        same_return(&l, "another size without a magic behind it");
    }
    l = sample;
    put32(&l, SW_SIZE, 576);
    put32(&l, 576, 0x46505845);
    set_word(l.xstate + SW + 8, 3);
    same_return(&l, "only x87 and SSE, in the extended form");
    l = sample;
    put32(&l, SW + 4, sample_size - 5);
    same_return(&l, "the extended size is less than the size");
    set_word(l.frame + UC_FPSTATE, 0x10000);
    same_return(&l, "at an address that is none");
    set_word(l.frame + UC_FPSTATE, UINT64_MAX - 63);
    same_return(&l, "at the end of all addresses");
}

TEST(an_xstate_that_no_processor_loads_is_refused)
{
    take_sample();
    const uint64_t features = word(sample.xstate + SW + 8);
    struct laid l;
    for (int bit = 0; bit < 64; bit++) {
        l = sample;
        set_word(l.xstate + HEADER, word(l.xstate + HEADER) | UINT64_C(1) << bit);
        same_return(&l, "a component in the header");
        l = sample;
        set_word(l.xstate + SW + 8, features & ~(UINT64_C(1) << bit));
        same_return(&l, "a component that is not said");
        l = sample;
        set_word(l.xstate + SW + 8, UINT64_C(1) << bit);
        same_return(&l, "one component alone");
    }
    for (uint64_t bv = 0; bv < 8; bv++) {
        l = sample;
        set_word(l.xstate + HEADER, bv);
        same_return(&l, "components in their initial state");
    }
    l = sample;
    l.xstate[HEADER + 16] = 1;
    same_return(&l, "a byte of the header that must be 0");
    l = sample;
    l.xstate[HEADER + 8] = 1;
    same_return(&l, "a compact form");
    static struct popped p;
    l.xstate[HEADER + 8] = 0;
    l.xstate[HEADER + 15] = 0x80; /* Linux leaves this one to the processor */
    CHECK_INT(pop(&l, &p), -EFAULT);
    for (int bit = 0; bit < 32; bit++) {
        l = sample;
        put32(&l, 24, 1u << bit);
        same_return(&l, "MXCSR");
        set_word(l.xstate + SW + 8, 1);
        same_return(&l, "MXCSR that is not loaded");
    }
}

TEST(frames_with_any_contents)
{
    uint64_t state = 1;
    take_sample();
    for (int i = 0; i < 150; i++) {
        struct laid l = sample;
        for (int n = 0; n < 8; n++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            const uint64_t r = state >> 20;
            const size_t at = (size_t)(r >> 8);
            if (r & 1) /* what says what there is */
                l.xstate[SW + at % 112] = (uint8_t)r;
            else
                l.xstate[at % sample_size] = (uint8_t)r;
        }
        l.xstate[HEADER + 15] &= 0x7f; /* not compact */
        same_return(&l, "any");
    }
}

/* ---- hostile memory -----------------------------------------------------------------------------
 */

/* Nothing of a frame that cannot be read, or written, wherever memory ends, has an effect. */
TEST(memory_that_ends_in_a_frame)
{
    static struct popped p, before;
    static uint8_t bytes[AREA];
    take_sample();
    const size_t ends[] = {0,
                           1,
                           7,
                           8,
                           100,
                           311,
                           ROOM + 23,
                           ROOM + SW + 47,
                           ROOM + 511,
                           ROOM + HEADER + 23,
                           ROOM + sample_size - 5,
                           ROOM + sample_size - 1};
    for (size_t i = 0; i < DZ_ARRAY_LEN(ends); i++) {
        struct memory m = {(uint64_t)&laid, (uint8_t *)&sample, ends[i]};
        struct dz_linux_mem mem = our_mem;
        mem.arg = &m;
        p = (struct popped){.regs = {.rsp = (uint64_t)laid.frame + 8, .rax = 15}, .mask = 5};
        memcpy(p.xstate, sample.xstate, sample_size);
        before = p;
        const struct dz_linux_frame f = {&mem, &p.regs, p.xstate, sample_size};
        CHECK_INT(dz_linux_frame_pop(&f, &p.mask, &p.stack), -EFAULT);
        CHECK(memcmp(&p, &before, sizeof p) == 0);
    }
    const struct situation s = {.flags = SA_SIGINFO | SA_ONSTACK, .alt_size = AREA};
    const struct dz_sigact a = action(&s);
    const struct dz_siginfo info = by_me(SIGUSR1);
    const struct dz_inject h = {.act = &a, .info = &info};
    const uint64_t sps[] = {
        0, 8, 128, 400, 0x10000, 0x10000 + AREA + 128, UINT64_MAX, 0x8000000000000000};
    for (size_t i = 0; i < DZ_ARRAY_LEN(sps); i++) {
        struct memory m = {0x10000, bytes, sizeof bytes};
        struct dz_linux_mem mem = our_mem;
        struct dz_thread t = {0};
        mem.arg = &m;
        p = (struct popped){.regs = {.rsp = sps[i], .rax = 15}};
        memcpy(p.xstate, sample.xstate, sample_size);
        before = p;
        const struct dz_linux_frame f = {&mem, &p.regs, p.xstate, sample_size};
        const int want = i == 5 ? 0 : -EFAULT;
        CHECK_INT(dz_linux_frame_push(&f, &t, &no_trap, &h), want);
        CHECK((memcmp(&p, &before, sizeof p) == 0) == (want < 0));
    }
}

TEST(an_alternate_stack_that_is_too_small_is_refused)
{
    static struct popped p;
    static uint8_t bytes[AREA];
    take_sample();
    struct memory m = {0x10000, bytes, sizeof bytes};
    struct dz_linux_mem mem = our_mem;
    mem.arg = &m;
    const struct situation s = {.flags = SA_SIGINFO | SA_ONSTACK};
    struct dz_sigact a = action(&s);
    const struct dz_siginfo info = by_me(SIGUSR1);
    const struct dz_inject h = {.act = &a, .info = &info};
    const struct dz_linux_frame f = {&mem, &p.regs, p.xstate, sample_size};
    memcpy(p.xstate, sample.xstate, sample_size);
    uint64_t least = 0;
    for (uint64_t size = 400; size < 16384 && least == 0; size++) {
        struct dz_thread t = {.alt_stack = 0x12345, .alt_size = size};
        p.regs = (struct dz_stub_regs){.rsp = 0x1f000};
        if (dz_linux_frame_push(&f, &t, &no_trap, &h) == 0) {
            CHECK(p.regs.rsp > 0x12345);
            least = size;
        }
    }
    CHECK(least > DZ_LINUX_FRAME + sample_size && least <= dz_linux_frame_size(sample_size));
    struct dz_thread t = {.alt_stack = 0x12000, .alt_size = 0x8000};
    p.regs = (struct dz_stub_regs){.rsp = 0x12000 + 300}; /* on it, and nearly at its end */
    CHECK_INT(dz_linux_frame_push(&f, &t, &no_trap, &h), -EFAULT);
    a.flags &= ~(uint32_t)SA_ONSTACK; /* the same without being asked */
    CHECK_INT(dz_linux_frame_push(&f, &t, &no_trap, &h), -EFAULT);
    p.regs.rsp = 0x1e000;
    CHECK_INT(dz_linux_frame_push(&f, &t, &no_trap, &h), 0);
    a.flags &= ~SA_RESTORER; /* nobody knows where the handler returns to */
    CHECK_INT(dz_linux_frame_push(&f, &t, &no_trap, &h), -EFAULT);
}

/* ---- siginfo
 * ------------------------------------------------------------------------------------- */

TEST(siginfo_has_the_layout_of_its_code)
{
    static const struct {
        int signo, code;
        uint64_t words[2]; /* at 16 and 24 */
    } want[] = {
        {SIGUSR1, SI_USER, {0x200000001, 0}},
        {SIGUSR1, SI_TKILL, {0x200000001, 0x44444444}},
        {40, SI_QUEUE, {0x200000001, 0x44444444}},
        {SIGALRM, SI_TIMER, {0x200000001, 0x44444444}},
        {SIGALRM, SI_KERNEL, {0x200000001, 0}},
        {SIGSEGV, SEGV_MAPERR, {0x33333333, 0}},
        {SIGSEGV, SI_KERNEL, {0x200000001, 0}},
        {SIGSEGV, SI_QUEUE, {0x200000001, 0x44444444}},
        {SIGBUS, BUS_ADRERR, {0x33333333, 0}},
        {SIGFPE, FPE_INTDIV, {0x33333333, 0}},
        {SIGILL, ILL_ILLOPN, {0x33333333, 0}},
        {SIGTRAP, TRAP_BRKPT, {0x33333333, 0}},
        {SIGCHLD, CLD_EXITED, {0x200000001, 5}},
        {SIGCHLD, SI_USER, {0x200000001, 0}},
        {SIGPOLL, POLL_IN, {0x33333333, 5}},
        {SIGUSR1, SI_SIGIO, {0x33333333, 5}},
        {SIGSYS, 1, {0x33333333, UINT64_C(0x44444444) << 32 | 5}},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(want); i++) {
        uint8_t out[DZ_LINUX_SIGINFO];
        const struct dz_siginfo info = {.signo = want[i].signo,
                                        .code = want[i].code,
                                        .pid = 1,
                                        .uid = 2,
                                        .status = 5,
                                        .addr = 0x33333333,
                                        .value = 0x44444444};
        siginfo_t s;
        dz_linux_siginfo_put(&info, out);
        memcpy(&s, out, sizeof s);
        CHECK(s.si_signo == want[i].signo && s.si_code == want[i].code && s.si_errno == 0);
        CHECK(word(out + 16) == want[i].words[0] && word(out + 24) == want[i].words[1]);
    }
}

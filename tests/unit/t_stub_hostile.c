/* SPDX-License-Identifier: MIT
 *
 * Guests that attack their stub: by jumping to its instructions with calls of their own, by writing
 * all that they share with their kernel, by taking the stub away. What they may reach is their own
 * process's end; a second process counts on all the while. */
#include "stub/stub_int.h"

#define TAP_ALARM_S 50
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TEXT UINT64_C(0x400000)
#define DATA UINT64_C(0x500000)

__asm__(".pushsection .rodata\n"
        ".globl hostile_begin, hostile_end, hostile_count, hostile_spin, hostile_scribble\n"
        ".globl hostile_pretend, hostile_fork\n"
        "hostile_begin:\n"
        "hostile_count: mov $39, %eax\n syscall\n lock incq 0x500000\n jmp hostile_count\n"
        "hostile_spin: jmp hostile_spin\n"
        /* rdi: from, rsi: bytes (a power of two) less 8, rax: seed; extremes and noise */
        "hostile_scribble: mov %rax, %rbx\n"
        "1: imul $0x5851f42d, %rbx, %rbx\n add $0x14057b7f, %rbx\n"
        " mov %rbx, %rcx\n shr $20, %rcx\n and %rsi, %rcx\n"
        " mov %rbx, %rdx\n shr $13, %rdx\n and $7, %rdx\n"
        " xor %r8d, %r8d\n cmp $1, %edx\n jne 2f\n not %r8\n"
        "2: cmp $2, %edx\n jne 3f\n mov $2, %r8d\n"
        "3: cmp $3, %edx\n jne 4f\n mov $1, %r8d\n"
        "4: cmp $4, %edx\n jne 5f\n mov $0x8000000000000000, %r8\n"
        "5: cmp $5, %edx\n jb 6f\n mov %rbx, %r8\n"
        "6: mov %r8, (%rdi, %rcx)\n"
        " test $0xff00, %ebx\n jnz 1b\n mov $39, %eax\n syscall\n jmp 1b\n"
        /* rdi: its ctx, whose state says that it waits; rbx: where it sleeps then */
        "hostile_pretend: movl $1, (%rdi)\n mov $0x504000, %edi\n xor %esi, %esi\n"
        " xor %edx, %edx\n xor %r10d, %r10d\n mov $202, %eax\n jmp *%rbx\n"
        /* the same, until there is a command: then a clone of its own; rsi: its flags */
        "hostile_fork: movl $1, (%rdi)\n 1: pause\n cmpl $2, (%rdi)\n jne 1b\n mov %esi, %edi\n"
        " xor %esi, %esi\n xor %edx, %edx\n xor %r10d, %r10d\n xor %r8d, %r8d\n"
        " mov $56, %eax\n jmp *%rbx\n"
        "hostile_end:\n"
        ".popsection\n");
extern const uint8_t hostile_begin[], hostile_end[], hostile_count[], hostile_spin[],
    hostile_scribble[], hostile_pretend[], hostile_fork[];

static struct dz_stub *stub;
static uint32_t text_number;
static uint64_t site; /* of a system call in the stub with ud2 behind it */

static int number(void *arg, const struct dz_mm_back *back, uint32_t *ret_number,
                  uint64_t *ret_offset)
{
    (void)arg, (void)back;
    *ret_number = text_number;
    *ret_offset = 0;
    return 0;
}

static void start(uint32_t patience_ms)
{
    const struct dz_stub_host_opts o = {.files = {.number = number}, .patience_ms = patience_ms};
    CHECK_INT(dz_stub_host_open(&o, &stub, NULL), 0);
    int fd = memfd_create("text", MFD_CLOEXEC);
    CHECK(write(fd, hostile_begin, (size_t)(hostile_end - hostile_begin)) > 0);
    CHECK_INT(stub->ops->file(stub, fd, &text_number), 0);
    (void)close(fd);
    const uint8_t *p = dz_stub_program;
    for (size_t i = 0; i + 4 <= dz_stub_program_size && !site; i++)
        if (memcmp(p + i, "\x0f\x05\x0f\x0b", 4) == 0)
            site = PAGE_TEXT + i;
    CHECK(site != 0);
}
static void end(void)
{
    stub->ops->close(stub);
    errno = 0;
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

static uint32_t process(const uint8_t *code)
{
    uint32_t t = 0;
    CHECK_INT(stub->ops->process(stub, &t), 0);
    const struct dz_mm_call calls[] = {{.op = DZ_MM_MMAP,
                                        .at = TEXT,
                                        .size = 4096,
                                        .prot = PROT_READ | PROT_EXEC,
                                        .flags = MAP_PRIVATE | MAP_FIXED,
                                        .back = {.kind = DZ_MM_PACK}},
                                       {.op = DZ_MM_MMAP,
                                        .at = DATA,
                                        .size = 0x10000,
                                        .prot = PROT_READ | PROT_WRITE,
                                        .flags = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS}};
    CHECK_INT(stub->ops->memory(stub, t, calls, 2), 0);
    stub->ops->regs(stub, t)->rip = TEXT + (uint64_t)(code - hostile_begin);
    stub->ops->regs(stub, t)->rsp = DATA + 0x10000;
    return t;
}
static struct dz_stub_event run(uint32_t t)
{
    struct dz_stub_event e = {.kind = DZ_STUB_ENDED, .thread = 0};
    stub->ops->run(stub, t);
    CHECK_INT(stub->ops->wait(stub, -1, &e, 1), 1);
    CHECK_INT(e.thread, t);
    return e;
}

/* A call from the stub's own instruction. TRAPPED: it became an event as any other; else what the
 * host answered. */
enum {
    TRAPPED = -10000,
    OVER = -10001, /* the thread, or its process, is no more: *t is another one */
};
static int64_t jump(uint32_t *t, uint64_t at, uint64_t nr, const uint64_t args[6])
{
    struct dz_stub_regs *r = stub->ops->regs(stub, *t);
    *r = (struct dz_stub_regs){.rip = at,
                               .rsp = DATA + 0x8000,
                               .rflags = 0x202,
                               .rax = nr,
                               .rdi = args[0],
                               .rsi = args[1],
                               .rdx = args[2],
                               .r10 = args[3],
                               .r8 = args[4],
                               .r9 = args[5],
                               .rbp = DATA + 0x8000};
    const struct dz_stub_event e = run(*t);
    if (e.kind == DZ_STUB_ENDED) {
        *t = process(hostile_spin);
        return OVER;
    }
    if (e.kind == DZ_STUB_CALL) {
        CHECK_INT(stub->ops->regs(stub, *t)->rax, nr);
        return TRAPPED;
    }
    return (int64_t)stub->ops->regs(stub, *t)->rax;
}
#define TRY(t, nr, ...) jump(t, site, nr, (const uint64_t[6]){__VA_ARGS__})

TEST(hostile_every_number)
{
    start(0);
    uint32_t t = process(hostile_spin);
    static const uint64_t none[6] = {0};
    for (uint64_t nr = 0; nr < 600; nr++) {
        const int64_t r = nr == SYS_rt_sigreturn ? OVER : jump(&t, site, nr, none);
        switch (nr) {
        case SYS_rt_sigreturn:
            break;
        case SYS_munmap:
            CHECK_INT(r, -EINVAL);
            break;
        case SYS_mprotect:
            CHECK_INT(r, 0); /* of nothing */
            break;
        case SYS_futex:
            CHECK_INT(r, -EFAULT);
            break;
        case SYS_getppid:
            CHECK_INT(r, getpid());
            break;
        case SYS_close: /* not ordered */
        case SYS_setresgid:
        case SYS_setresuid:
        case SYS_capset:
            CHECK_INT(r, -EPERM);
            break;
        case SYS_exit:
            CHECK_INT(r, OVER);
            break;
        case 335: /* uretprobe and uprobe: Linux 6.14 and 6.18 let them pass any filter. They are */
        case 336: /* for code that the host's kernel itself has put there, and refuse all other */
            CHECK(r == TRAPPED || r == -1 || r == -ENXIO);
            break;
        default: /* mmap is of descriptor 0, which is no file */
            if (r != TRAPPED)
                printf("# call %d\n", (int)nr);
            CHECK_INT(r, TRAPPED);
        }
    }
    CHECK_INT(TRY(&t, 0x40000000 + SYS_getppid, 0, 0, 0, 0, 0), TRAPPED); /* x32 */
    end();
}

TEST(hostile_every_instruction)
{
    start(0);
    uint32_t t = process(hostile_spin);
    static const uint64_t args[6] = {DATA, 1, 2, 3, 4, 5};
    static const uint64_t numbers[] = {SYS_open,   SYS_socket, SYS_ptrace,  SYS_kill,
                                       SYS_execve, SYS_fork,   SYS_openat2, SYS_io_uring_setup,
                                       SYS_bpf,    SYS_sendmsg};
    int sites = 0;
    for (size_t i = 0; i + 2 <= dz_stub_program_size; i++) {
        if (memcmp(dz_stub_program + i, "\x0f\x05", 2) != 0)
            continue;
        sites++;
        for (size_t n = 0; n < DZ_ARRAY_LEN(numbers); n++)
            CHECK_INT(jump(&t, PAGE_TEXT + i, numbers[n], args), TRAPPED);
    }
    CHECK(sites > 5);
    end();
}

TEST(hostile_arguments)
{
    start(0);
    uint32_t t = process(hostile_spin);
    /* clone: never, unless ordered, and else not even asked */
    static const uint64_t sets[] = {STUB_CLONE_FORK, STUB_CLONE_SHARE, STUB_CLONE_THREAD};
    for (size_t i = 0; i < DZ_ARRAY_LEN(sets); i++) {
        CHECK_INT(TRY(&t, SYS_clone, sets[i], 0, 0, 0, 0), -EPERM);
        for (int bit = 0; bit < 64; bit++) {
            const uint64_t flags = sets[i] ^ UINT64_C(1) << bit;
            if (flags != STUB_CLONE_FORK && flags != STUB_CLONE_SHARE)
                CHECK_INT(TRY(&t, SYS_clone, flags, 0, 0, 0, 0), TRAPPED);
        }
    }
    for (int bit = 0; bit < 64; bit++)
        CHECK_INT(TRY(&t, SYS_clone, UINT64_C(1) << bit, 0, 0, 0, 0), TRAPPED);
    CHECK_INT(TRY(&t, SYS_clone3, DATA, 88, 0, 0, 0), TRAPPED);
    /* the memory of all ctx, the socket, the bell */
    const uint64_t rw = PROT_READ | PROT_WRITE, fixed = MAP_SHARED | MAP_FIXED;
    for (uint64_t fd = 0; fd < STUB_FD_FIRST; fd++)
        CHECK_INT(TRY(&t, SYS_mmap, DATA, 4096, rw, fixed, fd), TRAPPED);
    CHECK_INT(TRY(&t, SYS_mmap, DATA, PAGE_CTX_SIZE, rw, fixed, STUB_FD_MEMORY), -EPERM);
    CHECK_INT(TRY(&t, SYS_mmap, DATA, PAGE_CTX_SIZE, rw, fixed, STUB_FD_MEMORY | 1ull << 32),
              -EPERM);
    CHECK_INT(TRY(&t, SYS_mmap, 0, 4096, 0, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1ull),
              TRAPPED);
    CHECK_INT(TRY(&t, SYS_mmap, 0, 4096, 0, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1ull),
              TRAPPED);
    CHECK_INT(TRY(&t, SYS_mmap, DATA, 4096, rw, fixed, text_number + 1), -EBADF);
    CHECK_INT(TRY(&t, SYS_recvmsg, STUB_FD_SOCKET, DATA, 0, 0, 0), -EPERM);
    CHECK_INT(TRY(&t, SYS_recvmsg, STUB_FD_SOCKET, DATA, MSG_DONTWAIT, 0, 0), TRAPPED);
    CHECK_INT(TRY(&t, SYS_recvmsg, text_number, DATA, 0, 0, 0), TRAPPED);
    CHECK_INT(TRY(&t, SYS_close, STUB_FD_MEMORY, 0, 0, 0, 0), -EPERM);
    for (uint64_t fd = 0; fd < 10; fd++)
        CHECK_INT(TRY(&t, SYS_write, fd, DATA, 8, 0, 0), fd == STUB_FD_BELL ? 8 : TRAPPED);
    CHECK_INT(TRY(&t, SYS_write, STUB_FD_BELL, DATA, 9, 0, 0), TRAPPED);
    const uint64_t most = UINT64_MAX - 1;
    CHECK_INT(stub->ops->write(stub, t, DATA, &most, 8), 8);
    (void)TRY(&t, SYS_write, STUB_FD_BELL, DATA, 8, 0, 0); /* a bell that is full stops nobody */
    (void)TRY(&t, SYS_write, STUB_FD_BELL, DATA, 8, 0, 0);
    /* the rest */
    CHECK_INT(TRY(&t, SYS_prctl, PR_SET_PDEATHSIG, 0, 0, 0, 0), TRAPPED);
    CHECK_INT(TRY(&t, SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0), TRAPPED);
    CHECK_INT(TRY(&t, SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0), -EPERM);
    CHECK_INT(TRY(&t, SYS_setresuid, 12, 12, 12, 0, 0), -EPERM);
    CHECK_INT(TRY(&t, SYS_arch_prctl, 0x1012 /* ARCH_CET, TSC.. */, 0, 0, 0, 0), TRAPPED);
    for (uint64_t op = 1; op < 256; op++)
        CHECK_INT(TRY(&t, SYS_futex, DATA, op, 0, 0, 0), TRAPPED);
    for (uint64_t advice = 0; advice < 128; advice++) {
        const bool may =
            (advice >= 8 && advice <= 11) || advice == 4 || advice == 18 || advice == 19;
        CHECK_INT(TRY(&t, SYS_madvise, 0, 0, advice, 0, 0), may ? 0 : TRAPPED);
    }
    CHECK_INT(TRY(&t, SYS_mremap, DATA, 4096, 4096, MREMAP_MAYMOVE, 0), TRAPPED);
    CHECK_INT(TRY(&t, SYS_mprotect, DATA, 4096, PROT_GROWSDOWN, 0, 0), TRAPPED);
    end();
}

/* What the stub and its ctx are mapped by stays as it is: no call of the stub's text takes it away,
 * changes it, moves it, or makes it longer, by which a process would have the ctx of others. */
TEST(hostile_ranges)
{
    static const uint64_t starts[] = {PAGE_TEXT, PAGE_CTX, PAGE_CTX + 2 * PAGE_CTX_SIZE,
                                      PAGE_TEXT - 4096, DZ_STUB_RESERVED_END - 4096};
    const uint64_t rwx = PROT_READ | PROT_WRITE | PROT_EXEC;
    const uint64_t fixed = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, none = UINT64_MAX;
    const uint64_t there = MREMAP_MAYMOVE | MREMAP_FIXED, to = 0x10000000;
    start(0);
    uint32_t t = process(hostile_spin), other = process(hostile_spin);
    for (size_t i = 0; i < DZ_ARRAY_LEN(starts); i++) {
        const uint64_t at = starts[i], size = 8192;
        CHECK_INT(TRY(&t, SYS_munmap, at, size, 0, 0, 0), TRAPPED);
        CHECK_INT(TRY(&t, SYS_mprotect, at, size, rwx, 0, 0), TRAPPED);
        CHECK_INT(TRY(&t, SYS_mmap, at, size, rwx, fixed, none), TRAPPED);
        CHECK_INT(TRY(&t, SYS_madvise, at, size, MADV_REMOVE, 0, 0), TRAPPED);
        CHECK_INT(TRY(&t, SYS_madvise, at, size, MADV_DOFORK, 0, 0), TRAPPED);
        CHECK_INT(TRY(&t, SYS_mremap, at, size, PAGE_CTX_SIZE * 64, there, to), TRAPPED);
        CHECK_INT(TRY(&t, SYS_mremap, at, 0, PAGE_CTX_SIZE * 64, there, to), TRAPPED);
        CHECK_INT(TRY(&t, SYS_mremap, DATA, 4096, size, there, at), TRAPPED);
    }
    CHECK_INT(TRY(&t, SYS_munmap, 0x700000, PAGE_CTX, 0, 0, 0), TRAPPED);
    CHECK_INT(TRY(&t, SYS_mremap, 0x700000, PAGE_CTX, PAGE_CTX, there, to), TRAPPED);
    CHECK_INT(TRY(&t, SYS_munmap, 0x700000, none - 0x700000, 0, 0, 0), TRAPPED);
    CHECK_INT(TRY(&t, SYS_munmap, DZ_STUB_RESERVED_END, 4096, 0, 0, 0), 0);
    CHECK_INT(TRY(&t, SYS_munmap, DZ_STUB_RESERVED_START - 8192, 8192, 0, 0, 0), 0);
    CHECK_INT(TRY(&t, SYS_munmap, 0x600000, DZ_STUB_RESERVED_START - 0x600000, 0, 0, 0), 0);
    CHECK_INT(stub->ops->memory(stub, other, NULL, 0), 0);
    end();
}

/* A thread that goes without a word, and one that cannot be interrupted. */
TEST(hostile_silence)
{
    start(2000);
    const uint32_t t = process(hostile_spin);
    uint32_t c = 0;
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_THREAD, &c), 0);
    *stub->ops->regs(stub, c) = (struct dz_stub_regs){.rip = site, .rax = SYS_exit};
    struct dz_stub_event e = run(c);
    CHECK_INT(e.kind, DZ_STUB_ENDED);
    CHECK_INT(e.status, -1);
    stub->ops->run(stub, t);
    stub->ops->interrupt(stub, t);
    CHECK_INT(stub->ops->wait(stub, -1, &e, 1), 1);
    CHECK_INT(e.kind, DZ_STUB_STOPPED); /* the other one lives */
    /* a frame of the guest's, which blocks all signals and sleeps */
    const struct host *h = host_of(stub);
    struct stub_frame f;
    memcpy(&f, h->frame, sizeof f);
    f.uc.mask = UINT64_MAX;
    f.uc.fpstate = 0;
    f.uc.regs[REG_RIP] = (greg_t)site;
    f.uc.regs[REG_RAX] = SYS_futex;
    f.uc.regs[REG_RDI] = DATA + 0x4000;
    f.uc.stack = (stack_t){.ss_flags = SS_DISABLE};
    CHECK_INT(stub->ops->write(stub, t, DATA, &f, sizeof f), sizeof f);
    *stub->ops->regs(stub, t) =
        (struct dz_stub_regs){.rip = site, .rax = SYS_rt_sigreturn, .rsp = DATA};
    stub->ops->run(stub, t);
    (void)stub->ops->wait(stub, 50000000, &e, 1);
    stub->ops->interrupt(stub, t);
    CHECK_INT(stub->ops->wait(stub, -1, &e, 1), 1);
    CHECK_INT(e.kind, DZ_STUB_ENDED);
    CHECK_INT(e.status, SIGKILL);
    end();
}

/* It says that it waits for a command, and does not. */
TEST(hostile_pretence)
{
    start(1000);
    const uint32_t t = process(hostile_pretend);
    stub->ops->regs(stub, t)->rdi = ctx_address(t);
    stub->ops->regs(stub, t)->rbx = site;
    (void)run(t);
    const struct dz_mm_call c = {.op = DZ_MM_MUNMAP, .at = 0x700000, .size = 4096};
    CHECK_INT(stub->ops->memory(stub, t, &c, 1), -ESRCH);
    struct dz_stub_event e;
    CHECK_INT(stub->ops->wait(stub, -1, &e, 1), 1);
    CHECK_INT(e.kind, DZ_STUB_ENDED);
    CHECK_INT(e.status, SIGKILL);
    end();
}

/* The same, while somebody rings the bell without end. */
TEST(hostile_bell_ringer)
{
    start(1000);
    const uint32_t t = process(hostile_pretend);
    stub->ops->regs(stub, t)->rdi = ctx_address(t);
    stub->ops->regs(stub, t)->rbx = site;
    (void)run(t);
    const pid_t ringer = fork();
    for (const uint64_t one = 1; ringer == 0; (void)poll(NULL, 0, 5))
        (void)!write(host_of(stub)->bell_fd, &one, sizeof one);
    const struct dz_mm_call c = {.op = DZ_MM_MUNMAP, .at = 0x700000, .size = 4096};
    CHECK_INT(stub->ops->memory(stub, t, &c, 1), -ESRCH);
    CHECK_INT(kill(ringer, SIGKILL), 0);
    CHECK_INT(waitpid(ringer, NULL, 0), ringer);
    end();
}

/* An ordered clone is made by another instruction of the stub: there is no child. */
TEST(hostile_clone_elsewhere)
{
    start(1000);
    const uint32_t t = process(hostile_fork);
    uint32_t c = 0;
    stub->ops->regs(stub, t)->rdi = ctx_address(t);
    stub->ops->regs(stub, t)->rsi = STUB_CLONE_FORK;
    stub->ops->regs(stub, t)->rbx = site;
    (void)run(t);
    CHECK(stub->ops->clone(stub, t, DZ_STUB_FORK, &c) < 0);
    CHECK(!host_of(stub)->order.cloned && !host_of(stub)->order.got);
    end();
}

/* Its stack pointer is in the stub's stack: the frame lies where it always does. */
TEST(hostile_stack_pointer)
{
    start(0);
    const uint32_t t = process(hostile_count);
    for (uint64_t at = CTX_STACK_AT; at <= PAGE_CTX_SIZE; at += 0x800) {
        stub->ops->regs(stub, t)->rsp = ctx_address(t) + at;
        stub->ops->regs(stub, t)->rbx = at;
        CHECK_INT(run(t).kind, DZ_STUB_CALL);
        CHECK_INT(stub->ops->regs(stub, t)->rax, SYS_getpid);
        CHECK_INT(stub->ops->regs(stub, t)->rbx, at);
    }
    end();
}

/* The stub is another, so that a child does not say who it is: the child is found, and killed. */
TEST(hostile_hidden_child)
{
    static const uint8_t first[] = {0xb8, 9, 0, 0, 0, 0x0f, 5}; /* mov $9 (mmap), %eax; syscall */
    static const uint8_t spin[] = {0xeb, 0xfe};
    start(2000);
    uint32_t t = process(hostile_spin), c = 0;
    const uint8_t *at = memmem(dz_stub_program, dz_stub_program_size, first, sizeof first);
    CHECK(at);
    const uint64_t there = PAGE_TEXT + (at ? (size_t)(at - dz_stub_program) + 5 : 0);
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/mem", (int)host_of(stub)->threads[t].tid);
    const int memory = open(path, O_RDWR | O_CLOEXEC); /* writes what is not writable, too */
    CHECK_INT(pwrite(memory, spin, 2, (off_t)there), 2);
    (void)close(memory);
    CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_FORK, &c), -ESRCH);
    struct dz_stub_event e;
    CHECK_INT(stub->ops->wait(stub, -1, &e, 1), 1);
    CHECK_INT(e.kind, DZ_STUB_ENDED);
    CHECK_INT(e.status, SIGKILL);
    t = process(hostile_count);
    CHECK_INT(run(t).kind, DZ_STUB_CALL);
    stub->ops->end(stub, t);
    end(); /* which sees that nobody is left */
}

/* The kernel's side is killed: so are its stubs, that run and that stand, and their zygote. */
TEST(hostile_orphans)
{
    enum {
        STUBS = 4
    };
    int pipes[2];
    pid_t pids[STUBS] = {0};
    CHECK_INT(pipe(pipes), 0);
    const pid_t kernel = fork();
    if (kernel == 0) {
        start(0);
        const uint32_t t = process(hostile_spin);
        uint32_t c[2] = {0, 0};
        CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_FORK, &c[0]), 0);
        CHECK_INT(stub->ops->clone(stub, t, DZ_STUB_SHARE, &c[1]), 0);
        stub->ops->run(stub, t);
        stub->ops->run(stub, c[1]);
        const struct host *h = host_of(stub);
        const pid_t all[STUBS] = {h->threads[STUB_ZYGOTE].tid, h->threads[t].tid,
                                  h->threads[c[0]].tid, h->threads[c[1]].tid};
        CHECK_INT(write(pipes[1], all, sizeof all), sizeof all);
        for (;;)
            (void)pause();
    }
    CHECK_INT(read(pipes[0], pids, sizeof pids), sizeof pids);
    struct pollfd ends[STUBS];
    for (int i = 0; i < STUBS; i++) {
        ends[i] = (struct pollfd){(int)syscall(SYS_pidfd_open, pids[i], 0), POLLIN, 0};
        CHECK(ends[i].fd >= 0);
        CHECK_INT(poll(&ends[i], 1, 0), 0);
    }
    CHECK_INT(kill(kernel, SIGKILL), 0);
    CHECK_INT(waitpid(kernel, NULL, 0), kernel);
    for (int i = 0; i < STUBS; i++) {
        CHECK_INT(poll(&ends[i], 1, 30000), 1);
        (void)close(ends[i].fd);
    }
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

/* Threads that write all that they share with their kernel: their ctx, one another's, the bell. The
 * calls, threads and lists that others order meanwhile come to an end, and a process that does not
 * take part counts on. */
static void scribble(uint64_t seed, uint64_t from, uint64_t mask)
{
    enum {
        THREADS = 3
    };
    uint32_t t[THREADS];
    uint32_t alive = THREADS;
    t[0] = process(hostile_scribble);
    int rc = 0;
    for (int i = 1; i < THREADS && rc == 0; i++)
        rc = stub->ops->clone(stub, t[0], DZ_STUB_THREAD, &t[i]);
    CHECK_INT(rc, 0);
    for (uint32_t i = 0; i < THREADS; i++) {
        struct dz_stub_regs *r = stub->ops->regs(stub, t[i]);
        r->rax = seed * 7 + i;
        r->rdi = from == PAGE_CTX ? from : ctx_address(t[(i + seed) % THREADS]) + from;
        r->rsi = mask;
        stub->ops->run(stub, t[i]);
    }
    for (int turn = 0; turn < 60 && alive; turn++) {
        struct dz_stub_event e;
        if (stub->ops->wait(stub, 2000000, &e, 1) != 1)
            continue;
        uint32_t *which = e.thread == t[0] ? &t[0] : e.thread == t[1] ? &t[1] : &t[2];
        CHECK_INT(e.thread, *which);
        if (e.kind == DZ_STUB_ENDED) {
            *which = 0;
            alive--;
            continue;
        }
        const struct dz_mm_call c = {.op = DZ_MM_MMAP,
                                     .at = 0x700000,
                                     .size = 4096,
                                     .prot = PROT_READ,
                                     .flags = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS};
        uint32_t n = 0;
        if (turn % 4 == 1)
            (void)stub->ops->memory(stub, e.thread, &c, 1);
        if (turn % 8 == 2 && stub->ops->clone(stub, e.thread, DZ_STUB_FORK, &n) == 0)
            stub->ops->end(stub, n);
        stub->ops->run(stub, e.thread);
    }
    for (int i = 0; i < THREADS && alive; i++)
        if (t[i]) {
            stub->ops->end(stub, t[i]);
            break;
        }
}
static void scribble_at(uint64_t from, uint64_t mask)
{
    start(1000);
    const uint32_t other = process(hostile_count);
    CHECK_INT(run(other).kind, DZ_STUB_CALL);
    uint64_t turns = 0, word = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        scribble(seed, from, mask);
        struct dz_stub_event e;
        while (stub->ops->wait(stub, 0, &e, 1) > 0)
            CHECK(e.kind == DZ_STUB_ENDED);
        CHECK_INT(run(other).kind, DZ_STUB_CALL);
        turns++;
    }
    CHECK_INT(stub->ops->read(stub, other, DATA, &word, 8), 8);
    CHECK_INT(word, turns);
    end();
}
TEST(hostile_head)
{
    scribble_at(0, 0x7f);
}
TEST(hostile_calls)
{
    scribble_at(CTX_CALLS_AT, 0xfff);
}
TEST(hostile_frame)
{
    scribble_at(PAGE_CTX_SIZE - 0x1000, 0xff7);
}
TEST(hostile_bell)
{
    scribble_at(PAGE_CTX, 0x1ff);
}

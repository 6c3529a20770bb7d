/* SPDX-License-Identifier: MIT
 *
 * The runner over coroutines: what it makes of events, step by step and the same way each time.
 *
 * A program is a C function at an address. Its file on the disk is an ELF head whose entry is that
 * address, and a segment there, so exec finds it as any program. */
#include "tap.h"

#include "../lib/vfs_rig.h"

#include "kernel/kernel.h"
#include "linux/linux_run.h"
#include "stub/stub_play.h"

#include <elf.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
    CODE = 0x400000,
    DATA = 0x500000, /* a page that may be written, in each program's file */
    STEP = 64,
    PROGRAMS = 12,
};

static struct prun {
    struct rig disk;
    struct dz_linux *l;
    struct dz_stub *stub;
    struct dz_stub_ops lying; /* what the runner sees of the stub, when a test wants that */
    struct dz_kernel *k;
    int64_t now;
    char out[8192];
    size_t out_len;
    struct dz_play_program programs[PROGRAMS];
    size_t count;
    uint64_t memory_bytes;
    uint32_t end; /* enum dz_job_end of the program that has ended */
    bool quiet;   /* programs fail, as what they are told is a lie */
} r;

static int64_t prun_now(void *arg)
{
    (void)arg;
    return r.now += 1000;
}
static int prun_random(void *arg, void *buf, size_t n)
{
    (void)arg;
    memset(buf, 0x5a, n);
    return 0;
}
static size_t prun_output(void *arg, uint32_t stream, uint64_t tag, const void *data, size_t n)
{
    (void)arg, (void)stream, (void)tag;
    n = n < sizeof r.out - 1 - r.out_len ? n : sizeof r.out - 1 - r.out_len;
    memcpy(r.out + r.out_len, data, n);
    r.out_len += n;
    r.out[r.out_len] = '\0';
    return n;
}
static int prun_get(void *arg, uint64_t ino, const struct dz_vfs_attr *a,
                    struct dz_program *ret_program, struct dz_err *err)
{
    uint8_t head[DZ_LINUX_HEAD];
    const ssize_t n = dz_vfs_read(r.disk.v, ino, 0, head, sizeof head);
    (void)arg, (void)a;
    if (n < 0 || !dz_linux_is_program(head, (size_t)n))
        return dz_fail(err, DZ_EINVAL, "no program");
    *ret_program = (struct dz_program){.kind = DZ_KIND_LINUX};
    return 0;
}

/* The file of a program whose code is at `at`. */
static void prun_file(const char *path, uint64_t at)
{
    struct {
        Elf64_Ehdr head;
        Elf64_Phdr segments[2];
    } f = {
        .head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                 .e_type = ET_EXEC,
                 .e_machine = EM_X86_64,
                 .e_version = EV_CURRENT,
                 .e_entry = at,
                 .e_phoff = sizeof(Elf64_Ehdr),
                 .e_ehsize = sizeof(Elf64_Ehdr),
                 .e_phentsize = sizeof(Elf64_Phdr),
                 .e_phnum = 2},
        .segments = {{.p_type = PT_LOAD,
                      .p_flags = PF_R | PF_X,
                      .p_vaddr = CODE,
                      .p_filesz = 64,
                      .p_memsz = 4096,
                      .p_align = 4096},
                     {.p_type = PT_LOAD,
                      .p_flags = PF_R | PF_W,
                      .p_vaddr = DATA,
                      .p_memsz = 4096,
                      .p_align = 4096}},
    };
    CHECK_INT(rig_put(&r.disk, path, &f, sizeof f), 0);
    (void)dz_vfs_chmod(r.disk.v, &rig_root, rig_ino(&r.disk, path), 0755);
}

/* Before start(): the n-th program is at CODE + n * STEP. */
static uint64_t prun_add(dz_play_fn *fn)
{
    const uint64_t at = CODE + (uint64_t)r.count * STEP;
    r.programs[r.count++] = (struct dz_play_program){at, fn};
    return at;
}

static void prun_start(uint64_t seed)
{
    static const char *const names[PROGRAMS] = {"/bin/a", "/bin/b", "/bin/c"};
    struct dz_err err = {0};
    rig_start(&r.disk);
    r.now = 1000000000;
    r.out_len = 0;
    r.out[0] = '\0';
    (void)rig_mkdir(&r.disk, "/bin");
    for (size_t i = 0; i < r.count && names[i]; i++)
        prun_file(names[i], r.programs[i].at);
    CHECK_INT(dz_linux_new(&r.l, &err), 0);
    const struct dz_play_opts po = {.programs = r.programs,
                                    .program_count = r.count,
                                    .seed = seed,
                                    .files = dz_linux_files(r.l)};
    CHECK_INT(dz_stub_play_open(&po, &r.stub, &err), 0);
    r.lying = *r.stub->ops;
    const struct dz_linux_opts lo = {
        .stub = r.stub, .vfs = r.disk.v, .pack = {.fd = -1}, .cpus = 2, .file_bytes = 1 << 20};
    CHECK_INT(dz_linux_begin(r.l, &lo, &err), 0);
    const struct dz_kernel_ops ops = {.mono_ns = prun_now,
                                      .real_ns = prun_now,
                                      .cpu_ns = prun_now,
                                      .random = prun_random,
                                      .output = prun_output,
                                      .program_get = prun_get};
    struct dz_kernel_limits limits = dz_policy_find("posix")->limits;
    if (r.memory_bytes)
        limits.memory_bytes = r.memory_bytes;
    const struct dz_kernel_opts ko = {.vfs = r.disk.v,
                                      .ops = &ops,
                                      .limits = &limits,
                                      .kinds = {[DZ_KIND_LINUX] = {&dz_linux_runner, r.l}},
                                      .pages = dz_linux_pages(r.l)};
    CHECK_INT(dz_kernel_new(&ko, &r.k, &err), 0);
}
static void prun_stop(void)
{
    dz_kernel_free(r.k);
    dz_linux_free(r.l);
    r.stub->ops->close(r.stub);
    rig_free(&r.disk);
}

/* Run /bin/a to its end: what wait(2) says, -1: it hangs or does not start. */
static int prun_main(void)
{
    struct dz_err err = {0};
    uint32_t out = 0, job = 0;
    struct dz_job ended = {0};
    if (dz_kernel_stream_new(r.k, DZ_STREAM_OUT, 1, &out, &err) < 0)
        return -1;
    const struct dz_spawn_fd fds[] = {{0, 0}, {1, out}, {2, out}};
    const struct dz_spawn spec = {.path = "/bin/a",
                                  .argv = {"a\0x", 4, 2},
                                  .env = {"E=1", 4, 1},
                                  .fds = fds,
                                  .fd_count = 3,
                                  .session = true};
    if (dz_kernel_spawn(r.k, &spec, &job, &err) < 0)
        return -1;
    for (int i = 0; i < 100000; i++) {
        const enum dz_kernel_state s = dz_kernel_run(r.k, INT64_MAX, &err);
        if (dz_kernel_event(r.k, &ended)) {
            r.end = ended.end;
            return ended.status;
        }
        const int64_t at = dz_kernel_next_deadline(r.k);
        if (s == DZ_KERNEL_IDLE && !dz_kernel_away(r.k)) {
            if (at == INT64_MAX)
                return -1;
            r.now += at > dz_kernel_now(r.k) ? at - dz_kernel_now(r.k) : 0;
        }
    }
    return -1;
}
static int prun(dz_play_fn *a, dz_play_fn *b, dz_play_fn *c, uint64_t seed)
{
    r.count = 0;
    (void)prun_add(a);
    if (b)
        (void)prun_add(b);
    if (c)
        (void)prun_add(c);
    prun_start(seed);
    return prun_main();
}

/* ---- what programs do ------------------------------------------------------------------- */

#define CALL(me, name, ...) prun_call(me, SYS_##name, (const uint64_t[6]){__VA_ARGS__})
static int64_t prun_call(struct dz_play *me, uint64_t number, const uint64_t a[6])
{
    dz_play_regs(me)->r8 = a[4];
    dz_play_regs(me)->r9 = a[5];
    return dz_play_call(me, number, a[0], a[1], a[2], a[3]);
}
static DZ_NORETURN void leave(struct dz_play *me, int code)
{
    for (;;)
        (void)CALL(me, exit_group, (uint64_t)code);
}
/* What a program checks itself: status 99 otherwise. */
#define MUST(me, expr)                                                        \
    do {                                                                      \
        if (!(expr)) {                                                        \
            if (!r.quiet)                                                     \
                printf("# %s:%d: not true: %s\n", __FILE__, __LINE__, #expr); \
            leave(me, 99);                                                    \
        }                                                                     \
    } while (0)

static void say(struct dz_play *me, const char *text)
{
    dz_play_store(me, DATA + 1024, text, strlen(text));
    MUST(me, CALL(me, write, 1, DATA + 1024, strlen(text)) == (int64_t)strlen(text));
}
static uint32_t word_at(struct dz_play *me, uint64_t at)
{
    uint32_t w = 0;
    dz_play_load(me, at, &w, sizeof w);
    return w;
}
static void put_word(struct dz_play *me, uint64_t at, uint32_t w)
{
    dz_play_store(me, at, &w, sizeof w);
}

/* ---- programs and processes ----------------------------------------------------------------- */

static void child_7(struct dz_play *me, void *arg)
{
    (void)arg;
    MUST(me, dz_play_regs(me)->rax == 0);
    put_word(me, DATA, 1);
    say(me, "child\n");
    leave(me, 7);
}
static void forks(struct dz_play *me, void *arg)
{
    (void)arg;
    uint64_t argc = 0;
    dz_play_load(me, dz_play_regs(me)->rsp, &argc, sizeof argc);
    MUST(me, argc == 2);
    dz_play_child(me, child_7);
    const int64_t pid = CALL(me, fork);
    MUST(me, pid > 1);
    MUST(me, CALL(me, wait4, (uint64_t)-1, DATA + 16, 0, 0) == pid);
    MUST(me, word_at(me, DATA + 16) == 7 << 8);
    MUST(me, word_at(me, DATA) == 0); /* a memory of its own */
    say(me, "parent\n");
    leave(me, 3);
}
TEST(fork_and_wait)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        CHECK_INT(prun(forks, NULL, NULL, seed), 3 << 8);
        CHECK_STR(r.out, "child\nparent\n");
        prun_stop();
    }
}

static void execed(struct dz_play *me, void *arg)
{
    (void)arg;
    MUST(me, word_at(me, DATA) == 0); /* fresh */
    say(me, "execed\n");
    leave(me, 5);
}
static void vfork_child(struct dz_play *me, void *arg)
{
    (void)arg;
    const uint64_t path = DATA + 512, argv = DATA + 600;
    put_word(me, DATA, 77);
    MUST(me, CALL(me, execve, 1, argv, 0) == -EFAULT);
    dz_play_store(me, path, "/bin/none", 10);
    MUST(me, CALL(me, execve, path, argv, 0) == -ENOENT);
    dz_play_store(me, path, "/bin/b\0\0\0", 10);
    dz_play_store(me, argv, &path, sizeof path);
    (void)CALL(me, execve, path, argv, 0);
    leave(me, 98);
}
static void vforks(struct dz_play *me, void *arg)
{
    (void)arg;
    dz_play_child(me, vfork_child);
    const int64_t pid = CALL(me, vfork);
    MUST(me, pid > 1);
    MUST(me, word_at(me, DATA) == 77); /* the child wrote to our memory, before we went on */
    MUST(me, CALL(me, wait4, (uint64_t)pid, DATA + 16, 0, 0) == pid);
    MUST(me, word_at(me, DATA + 16) == 5 << 8);
    leave(me, 0);
}
TEST(vfork_and_exec)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        CHECK_INT(prun(vforks, execed, NULL, seed), 0);
        CHECK_STR(r.out, "execed\n");
        prun_stop();
    }
}

/* A clone's arguments may be gone when the child stands in the call again. */
static void clone_thread(struct dz_play *me, void *arg)
{
    (void)arg;
    MUST(me, dz_play_regs(me)->rax == 0);
    MUST(me, dz_play_regs(me)->rsp == DATA + 3000 + 96 && dz_play_regs(me)->fs_base == 0x1234);
    MUST(me, CALL(me, gettid) == (int64_t)word_at(me, DATA + 4));
    put_word(me, DATA + 8, 1);
    MUST(me, CALL(me, futex, DATA + 8, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1) >= 0);
    (void)CALL(me, exit, 0);
}
static void clones(struct dz_play *me, void *arg)
{
    (void)arg;
    struct clone_args a = {.flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
                                    CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
                                    CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
                           .stack = DATA + 3000,
                           .stack_size = 96,
                           .tls = 0x1234,
                           .parent_tid = DATA + 4,
                           .child_tid = DATA + 12};
    put_word(me, DATA + 12, 55);
    dz_play_store(me, DATA + 2000, &a, sizeof a);
    dz_play_child(me, clone_thread);
    const int64_t tid = CALL(me, clone3, DATA + 2000, sizeof a);
    memset(&a, 0xff, sizeof a);
    dz_play_store(me, DATA + 2000, &a, sizeof a); /* as a stack frame that is left */
    MUST(me, tid > 1 && word_at(me, DATA + 4) == (uint32_t)tid);
    while (word_at(me, DATA + 8) == 0) {
        const int64_t e = CALL(me, futex, DATA + 8, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, 0);
        MUST(me, e == 0 || e == -EAGAIN);
    }
    while (word_at(me, DATA + 12) != 0) { /* its end wakes, as pthread_join wants it */
        const int64_t e = CALL(me, futex, DATA + 12, FUTEX_WAIT, 55, 0);
        MUST(me, e == 0 || e == -EAGAIN);
    }
    /* FUTEX_WAKE_OP: add 5 to the word, which was 0 */
    MUST(me, CALL(me, futex, DATA + 8, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 1, 1, DATA + 12,
                  FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 0)) == 0);
    MUST(me, word_at(me, DATA + 12) == 5);
    leave(me, 0);
}
TEST(threads_and_futexes)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        CHECK_INT(prun(clones, NULL, NULL, seed), 0);
        prun_stop();
    }
}

static void orphan(struct dz_play *me, void *arg)
{
    (void)arg;
    MUST(me, CALL(me, prctl, 1 /* PR_SET_PDEATHSIG */, SIGKILL) == 0);
    MUST(me, CALL(me, write, 4, DATA, 1) == 1);
    for (;;)
        (void)CALL(me, pause);
}
static void middle(struct dz_play *me, void *arg)
{
    (void)arg;
    MUST(me, CALL(me, pipe, DATA + 200) == 0);
    dz_play_child(me, orphan);
    MUST(me, CALL(me, fork) > 1 && CALL(me, read, 3, DATA, 1) == 1);
    leave(me, 4);
}
static void reaps(struct dz_play *me, void *arg)
{
    (void)arg;
    MUST(me, CALL(me, prctl, 36 /* PR_SET_CHILD_SUBREAPER */, 1) == 0);
    MUST(me, CALL(me, prctl, 37, DATA + 40) == 0 && word_at(me, DATA + 40) == 1);
    MUST(me, CALL(me, prctl, 1, 65) == -EINVAL);
    dz_play_child(me, middle);
    const int64_t pid = CALL(me, fork);
    MUST(me, CALL(me, wait4, (uint64_t)pid, DATA + 16, 0, 0) == pid);
    MUST(me, word_at(me, DATA + 16) == 4 << 8);
    MUST(me, CALL(me, wait4, (uint64_t)-1, DATA + 16, 0, 0) > pid); /* the grandchild */
    MUST(me, word_at(me, DATA + 16) == SIGKILL);
    MUST(me, CALL(me, wait4, (uint64_t)-1, 0, 0, 0) == -ECHILD);
    leave(me, 0);
}
TEST(subreaper_and_death_signal)
{
    for (uint64_t seed = 0; seed < 10; seed++) {
        CHECK_INT(prun(reaps, NULL, NULL, seed), 0);
        prun_stop();
    }
}

/* ---- signals ----------------------------------------------------------------------------------
 */

static void on_signal(struct dz_play *me, void *arg)
{
    (void)arg;
    const uint64_t signo = dz_play_regs(me)->rdi;
    put_word(me, DATA + 64, word_at(me, DATA + 64) * 10 + (uint32_t)(signo == SIGUSR1 ? 1 : 2));
    dz_play_regs(me)->rsp += 8; /* it returns to the restorer */
}
static void set_handler(struct dz_play *me, int signo, uint64_t flags)
{
    const uint64_t act[4] = {CODE + STEP, flags | 0x04000000, CODE, 0};
    dz_play_store(me, DATA + 128, act, sizeof act);
    MUST(me, CALL(me, rt_sigaction, (uint64_t)signo, DATA + 128, 0, 8) == 0);
}
static void killer(struct dz_play *me, void *arg)
{
    (void)arg;
    const uint64_t parent = (uint64_t)CALL(me, getppid);
    MUST(me, CALL(me, kill, parent, SIGUSR1) == 0);
    MUST(me, CALL(me, write, 4, DATA, 1) == 1); /* what the parent waits for, when restarted */
    leave(me, 0);
}
static void signals(struct dz_play *me, void *arg)
{
    (void)arg;
    set_handler(me, SIGUSR1, 0);
    set_handler(me, SIGUSR2, SA_RESTART);
    MUST(me, CALL(me, kill, (uint64_t)CALL(me, getpid), SIGUSR1) == 0);
    MUST(me, word_at(me, DATA + 64) == 1);
    dz_play_regs(me)->rbx = 42; /* comes back out of the frame */
    MUST(me, CALL(me, kill, (uint64_t)CALL(me, getpid), SIGUSR2) == 0);
    MUST(me, word_at(me, DATA + 64) == 12 && dz_play_regs(me)->rbx == 42);
    MUST(me, CALL(me, pipe, DATA + 200) == 0);
    MUST(me, word_at(me, DATA + 200) == 3 && word_at(me, DATA + 204) == 4);
    for (int restarts = 0; restarts < 2; restarts++) {
        set_handler(me, SIGUSR1, restarts ? SA_RESTART : 0);
        put_word(me, DATA + 64, 0);
        dz_play_child(me, killer);
        MUST(me, CALL(me, fork) > 1);
        const int64_t n = CALL(me, read, 3, DATA + 300, 1);
        if (restarts)
            MUST(me, n == 1);
        else
            MUST(me, n == -EINTR || n == 1); /* who was faster */
        MUST(me, CALL(me, wait4, (uint64_t)-1, 0, 0, 0) > 1 ||
                     CALL(me, wait4, (uint64_t)-1, 0, 0, 0) > 1);
        MUST(me, word_at(me, DATA + 64) == 1);
        if (n == -EINTR)
            MUST(me, CALL(me, read, 3, DATA + 300, 1) == 1);
    }
    leave(me, 0);
}
TEST(handlers)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        CHECK_INT(prun(signals, on_signal, NULL, seed), 0);
        prun_stop();
    }
}

static void bad_return(struct dz_play *me, void *arg)
{
    (void)arg;
    dz_play_regs(me)->rsp = 0x10; /* no frame is there */
    (void)CALL(me, rt_sigreturn);
    leave(me, 97);
}
TEST(sigreturn_without_a_frame)
{
    CHECK_INT(prun(bad_return, NULL, NULL, 0), SIGSEGV);
    prun_stop();
}

/* ---- memory -----------------------------------------------------------------------------------
 */

static void maps(struct dz_play *me, void *arg)
{
    (void)arg;
    const uint64_t rw = PROT_READ | PROT_WRITE, anon = MAP_PRIVATE | MAP_ANONYMOUS;
    const uint64_t brk = (uint64_t)CALL(me, brk);
    MUST(me, (uint64_t)CALL(me, brk, brk + 5000) == brk + 5000);
    put_word(me, brk + 4996, 3);
    const uint64_t at = (uint64_t)CALL(me, mmap, 0, 8192, rw, anon, (uint64_t)-1);
    MUST(me, at % 4096 == 0);
    put_word(me, at + 8188, 9);
    MUST(me, CALL(me, mprotect, at, 4096, PROT_READ) == 0);
    MUST(me, CALL(me, getrandom, at + 4000, 200) == -EFAULT);
    MUST(me, CALL(me, munmap, at, 4096) == 0);
    MUST(me, CALL(me, mincore, at + 4096, 4096, DATA + 16) == 0);
    MUST(me, CALL(me, mincore, at, 4096, DATA + 16) == -ENOMEM);
    const uint64_t bigger = (uint64_t)CALL(me, mremap, at + 4096, 4096, 16384, MREMAP_MAYMOVE);
    MUST(me, word_at(me, bigger + 4092) == 9);
    MUST(me, CALL(me, madvise, bigger, 4096, MADV_DONTNEED) == 0);
    MUST(me, word_at(me, bigger + 4092) == 0);
    MUST(me, CALL(me, mmap, 0, 4096, rw, MAP_SHARED, 77) == -EBADF);
    MUST(me, CALL(me, mmap, 0, 4096, rw, MAP_SHARED, 1) == -ENODEV);
    MUST(me, CALL(me, mmap, 0, UINT64_C(1) << 40, rw, anon, (uint64_t)-1) == -ENOMEM);
    MUST(me, CALL(me, mmap, 0, 2 << 20, rw, MAP_SHARED | MAP_ANONYMOUS, (uint64_t)-1) == -ENOMEM);
    /* all shared memory of the machine together has a limit, and what nobody maps is given back */
    const uint64_t part = 600 << 10, both = MAP_SHARED | MAP_ANONYMOUS;
    const uint64_t first = (uint64_t)CALL(me, mmap, 0, part, rw, both, (uint64_t)-1);
    MUST(me, first % 4096 == 0);
    MUST(me, CALL(me, mmap, 0, part, rw, both, (uint64_t)-1) == -ENOMEM);
    MUST(me, CALL(me, munmap, first, part) == 0);
    MUST(me, CALL(me, mmap, 0, part, rw, both, (uint64_t)-1) > 0);
    /* the stack grows, also when a call writes below it */
    const uint64_t sp = dz_play_regs(me)->rsp - (200 << 10);
    MUST(me, CALL(me, getrandom, sp, 8) == 8);
    put_word(me, sp - (300 << 10), 1);
    put_word(me, 0x10, 1);
    leave(me, 96);
}
TEST(memory_calls)
{
    CHECK_INT(prun(maps, NULL, NULL, 0), SIGSEGV); /* by its last access */
    prun_stop();
}

static void shared_child(struct dz_play *me, void *arg)
{
    (void)arg;
    uint64_t at[2] = {0, 0};
    dz_play_load(me, DATA + 400, at, sizeof at);
    dz_play_store(me, at[0] + 10, "child", 5);
    put_word(me, at[1], 4);
    MUST(me, CALL(me, futex, at[1], FUTEX_WAKE, 1) >= 0);
    leave(me, 0);
}
static void files(struct dz_play *me, void *arg)
{
    (void)arg;
    const uint64_t rw = PROT_READ | PROT_WRITE;
    dz_play_store(me, DATA + 512, "/f", 3);
    MUST(me, CALL(me, open, DATA + 512, O_RDWR | O_CREAT, 0644) == 3);
    MUST(me, CALL(me, ftruncate, 3, 6000) == 0);
    MUST(me, CALL(me, pwrite64, 3, DATA + 512, 2, 4096) == 2);
    const uint64_t own = (uint64_t)CALL(me, mmap, 0, 8192, rw, MAP_PRIVATE, 3, 0);
    const uint64_t both = (uint64_t)CALL(me, mmap, 0, 8192, rw, MAP_SHARED, 3, 0);
    const uint64_t mem =
        (uint64_t)CALL(me, mmap, 0, 4096, rw, MAP_SHARED | MAP_ANONYMOUS, (uint64_t)-1);
    const uint64_t at[2] = {both, mem};
    dz_play_store(me, DATA + 400, at, sizeof at);
    char b[8] = "";
    dz_play_load(me, own + 4096, b, 2);
    MUST(me, memcmp(b, "/f", 2) == 0);
    dz_play_store(me, own, "mine", 4);
    dz_play_child(me, shared_child);
    MUST(me, CALL(me, fork) > 1);
    while (word_at(me, mem) != 4) {
        const int64_t e = CALL(me, futex, mem, FUTEX_WAIT, 0, 0);
        MUST(me, e == 0 || e == -EAGAIN);
    }
    MUST(me, CALL(me, wait4, (uint64_t)-1, 0, 0, 0) > 1);
    MUST(me, CALL(me, pread64, 3, DATA + 512, 5, 10) == 5); /* the mapping is what read finds */
    dz_play_load(me, DATA + 512, b, 5);
    MUST(me, memcmp(b, "child", 5) == 0);
    MUST(me, CALL(me, pread64, 3, DATA + 512, 4, 0) == 4);
    MUST(me, word_at(me, DATA + 512) == 0); /* what was private stays so */
    dz_play_store(me, DATA + 512, "write", 5);
    MUST(me, CALL(me, pwrite64, 3, DATA + 512, 5, 100) == 5);
    dz_play_load(me, both + 100, b, 5);
    MUST(me, memcmp(b, "write", 5) == 0);
    MUST(me, CALL(me, msync, both, 8192, MS_SYNC) == 0);
    MUST(me, CALL(me, munmap, both, 8192) == 0);
    leave(me, 0);
}
TEST(mapped_files)
{
    for (uint64_t seed = 0; seed < 10; seed++) {
        size_t n = 0;
        CHECK_INT(prun(files, NULL, NULL, seed), 0);
        char *p = rig_get(&r.disk, "/f", &n);
        CHECK_INT(n, 6000);
        CHECK(p && memcmp(p + 10, "child", 5) == 0 && memcmp(p + 100, "write", 5) == 0);
        dz_free(p);
        prun_stop();
    }
}

static void fills_a_mapping(struct dz_play *me, void *arg)
{
    (void)arg;
    dz_play_store(me, DATA + 512, "/f", 3);
    MUST(me, CALL(me, open, DATA + 512, O_RDWR | O_CREAT, 0644) == 3);
    MUST(me, CALL(me, ftruncate, 3, 512 << 10) == 0);
    const uint64_t at =
        (uint64_t)CALL(me, mmap, 0, 512 << 10, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    for (uint64_t i = 0; i < 512 << 10; i += 4096)
        put_word(me, at + i, 1);
    MUST(me, CALL(me, write, 1, DATA + 512, 2) == 2); /* the commit for it succeeds */
    (void)CALL(me, sched_yield);
    const int64_t e = CALL(me, msync, at, 512 << 10, MS_SYNC);
    leave(me, e == -ENOSPC || e == -EDQUOT ? 0 : 1);
}
TEST(a_full_disk_does_not_stop_programs_that_have_mapped_files)
{
    r.count = 0;
    (void)prun_add(fills_a_mapping);
    prun_start(0);
    dz_vfs_set_limits(r.disk.v, dz_vfs_used_bytes(r.disk.v) + (100 << 10), 0);
    CHECK_INT(prun_main(), 0);
    CHECK_STR(r.out, "/f");
    prun_stop();
}

static void eats(struct dz_play *me, void *arg)
{
    (void)arg;
    const uint64_t at = (uint64_t)CALL(me, mmap, 0, 3 << 20, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, (uint64_t)-1);
    for (uint64_t i = 0; i < 3 << 20; i += 4096) {
        put_word(me, at + i, 1);
        (void)CALL(me, sched_yield);
    }
    leave(me, 0);
}
TEST(memory_of_the_machine)
{
    r.memory_bytes = 2 << 20;
    CHECK_INT(prun(eats, NULL, NULL, 0), SIGKILL);
    CHECK_INT(r.end, DZ_JOB_LIMIT_MEMORY);
    prun_stop();
    r.memory_bytes = 8 << 20;
    CHECK_INT(prun(eats, NULL, NULL, 0), 0);
    CHECK_INT(r.end, DZ_JOB_EXITED);
    prun_stop();
    r.memory_bytes = 0;
}

/* ---- the platform --------------------------------------------------------------------------- */

static void dies(struct dz_play *me, void *arg)
{
    (void)arg;
    dz_play_die(me, SIGBUS);
}
static void outlives(struct dz_play *me, void *arg)
{
    (void)arg;
    dz_play_child(me, dies);
    const int64_t pid = CALL(me, fork);
    MUST(me, CALL(me, wait4, (uint64_t)pid, DATA + 16, 0, 0) == pid);
    MUST(me, word_at(me, DATA + 16) == SIGKILL);
    leave(me, 0);
}
TEST(death_of_a_stub)
{
    for (uint64_t seed = 0; seed < 10; seed++) {
        CHECK_INT(prun(outlives, NULL, NULL, seed), 0);
        prun_stop();
    }
    CHECK_INT(prun(dies, NULL, NULL, 0), SIGKILL);
    CHECK_INT(r.end, DZ_JOB_FAILED);
    prun_stop();
}

static const struct dz_stub_ops *truth;
/* Events as a guest that writes to its own ctx can make them. */
static uint64_t dice;
static uint64_t roll(void)
{
    dice = dice * UINT64_C(6364136223846793005) + 1442695040888963407;
    return dice >> 20;
}
static uint64_t any(void)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     CODE,
                                     DATA,
                                     4096,
                                     UINT64_C(0x7ffffffff000),
                                     DZ_STUB_RESERVED_START,
                                     DZ_STUB_RESERVED_END - 1,
                                     UINT64_MAX,
                                     UINT64_C(1) << 63,
                                     UINT64_C(0x800000000000)};
    return roll() % 2 ? edges[roll() % DZ_ARRAY_LEN(edges)] : roll() << 20 ^ roll();
}
static int lying_wait(struct dz_stub *s, int64_t timeout_ns, struct dz_stub_event *events,
                      size_t max)
{
    const int n = truth->wait(s, timeout_ns, events, max);
    for (int i = 0; i < n; i++) {
        struct dz_stub_event *e = &events[i];
        if (e->kind == DZ_STUB_ENDED || roll() % 4)
            continue;
        struct dz_stub_regs *regs = truth->regs(s, e->thread);
        if (e->kind == DZ_STUB_CALL && roll() % 2) {
            e->kind = DZ_STUB_FAULT;
            e->signo = (int)(const uint8_t[]){SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}[roll() % 5];
            e->code = (int)any();
            e->addr = any();
            e->trap = roll() % 3 ? 14 : any();
            e->error = any();
        } else if (e->kind == DZ_STUB_CALL) {
            e->arch = roll() % 3 ? e->arch : (uint32_t)any();
            regs->rax = roll() % 4 ? roll() % 460 : any();
            regs->rdi = any();
            regs->rsi = any();
            regs->rdx = any();
            regs->r10 = any();
            regs->rsp = roll() % 2 ? regs->rsp : any();
        }
    }
    return n;
}

static void talks(struct dz_play *me, void *arg)
{
    (void)arg;
    set_handler(me, SIGSEGV, SA_NODEFER);
    for (int i = 0; i < 60; i++) {
        (void)CALL(me, getpid);
        (void)CALL(me, mmap, 0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   (uint64_t)-1);
        dz_play_child(me, child_7);
        if (i % 20 == 0)
            (void)CALL(me, fork);
        (void)CALL(me, wait4, (uint64_t)-1, 0, WNOHANG, 0);
    }
    leave(me, 0);
}
TEST(hostile_events)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        dice = seed;
        r.count = 0;
        (void)prun_add(talks);
        (void)prun_add(on_signal);
        prun_start(seed);
        truth = r.stub->ops;
        r.quiet = true;
        r.lying.wait = lying_wait;
        r.stub->ops = &r.lying;
        struct dz_err err = {0};
        uint32_t job = 0;
        struct dz_job ended = {0};
        const struct dz_spawn spec = {.path = "/bin/a", .argv = {"a", 2, 1}, .session = true};
        CHECK_INT(dz_kernel_spawn(r.k, &spec, &job, &err), 0);
        for (int i = 0; i < 2000 && !dz_kernel_event(r.k, &ended); i++)
            (void)dz_kernel_run(r.k, dz_kernel_now(r.k) + 1000000, &err);
        r.stub->ops = truth;
        prun_stop();
    }
}

/* Every allocation after the start fails once: whatever comes of the program, everything goes away
 * whole, and without a failure it ends well. */
static long torture(dz_play_fn *a, dz_play_fn *b)
{
    r.quiet = true;
    for (long at = 0;; at++) {
        r.count = 0;
        (void)prun_add(a);
        if (b)
            (void)prun_add(b);
        prun_start(0);
        (void)dz_mem_failed();
        dz_mem_fail_at(at, false);
        const int status = prun_main();
        const bool failed = dz_mem_failed();
        dz_mem_fail_at(-1, false);
        prun_stop();
        if (!failed) {
            CHECK_INT(status == 3 << 8 ? 0 : status, 0);
            return at;
        }
    }
}
TEST(without_memory)
{
    CHECK(torture(forks, NULL) > 10);
    CHECK(torture(vforks, execed) > 10);
    CHECK(torture(clones, NULL) > 10);
    CHECK(torture(signals, on_signal) > 10);
    CHECK(torture(files, NULL) > 10);
}

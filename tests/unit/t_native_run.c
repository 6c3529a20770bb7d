/* SPDX-License-Identifier: MIT
 *
 * A whole program of this machine, loaded by linux/ and mm/, executed by stub/, from its first
 * instruction to its exit. Its kernel is the small one below: what linux/ will be. */
#include "linux/linux.h"
#include "stub/stub_host.h"

#define TAP_ALARM_S 30
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    TASKS = 16,
    NOBODY = 0
};
static struct dz_stub *stub;
static uint32_t program_number;
static char printed[4096];
static size_t printed_size;

struct process {
    struct dz_mm mm;
    uint32_t parent; /* the thread that waits for it, or may */
    int status;      /* -1: it lives */
    bool used;
};
static struct process processes[TASKS];
static struct task {
    uint32_t process;
    uint64_t clear_tid, futex; /* futex: waits there */
    bool used, waits_child;
} tasks[DZ_STUB_THREADS_MAX];
static int exit_status;

static int number(void *arg, const struct dz_mm_back *back, uint32_t *ret_number,
                  uint64_t *ret_offset)
{
    (void)arg;
    *ret_number = program_number;
    *ret_offset = back->offset;
    return back->id == 9 ? 0 : -ENOENT;
}
static int64_t read_fd(void *arg, uint64_t offset, void *to, size_t n)
{
    const ssize_t got = pread(*(const int *)arg, to, n, (off_t)offset);
    return got < 0 ? -errno : got;
}
static void answer(uint32_t t, int64_t result)
{
    stub->ops->regs(stub, t)->rax = (uint64_t)result;
    stub->ops->run(stub, t);
}
static void execute(uint32_t t, struct dz_mm_calls *calls)
{
    CHECK_INT(stub->ops->memory(stub, t, calls->p, calls->n), 0);
    dz_vec_release(calls);
}

static uint32_t load(const char *path, const struct dz_strings *argv)
{
    static const struct dz_mm_limits limits = {UINT64_MAX, UINT64_MAX, 8 << 20, DZ_MM_VMAS_MAX};
    static const struct dz_mm_range ours = {DZ_STUB_RESERVED_START, DZ_STUB_RESERVED_END};
    static struct dz_elf elf;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    struct dz_linux_file file = {
        .back = {.kind = DZ_MM_FILE, .id = 9}, .read = read_fd, .arg = &fd};
    CHECK_INT(dz_elf_read(&file, &elf), 0);
    CHECK_INT(stub->ops->file(stub, fd, &program_number), 0);
    struct process *p = &processes[0];
    *p = (struct process){.used = true, .status = -1};
    dz_mm_init(&p->mm, 1234, &limits, &ours, 1);
    const struct dz_linux_program program = {.elf = &elf,
                                             .elf_file = &file,
                                             .base = dz_mm_program_base(1234),
                                             .seed = 1234,
                                             .path = path,
                                             .argv = *argv,
                                             .aux = {.hwcap = getauxval(AT_HWCAP),
                                                     .hwcap2 = getauxval(AT_HWCAP2),
                                                     .signal_size = getauxval(AT_MINSIGSTKSZ)}};
    struct dz_mm_calls calls = DZ_VEC_INIT(DZ_MM_CALLS_MAX);
    struct dz_linux_start start = {.sp = 0};
    CHECK_INT(dz_linux_load(&program, &p->mm, &calls, &start), 0);
    uint32_t t = 0;
    CHECK_INT(stub->ops->process(stub, &t), 0);
    execute(t, &calls);
    for (size_t i = 0; i < start.zeros.n; i++) {
        static const uint8_t zeros[DZ_MM_PAGE];
        const struct dz_mm_range *z = &start.zeros.p[i];
        CHECK_INT(stub->ops->write(stub, t, z->start, zeros, z->end - z->start), z->end - z->start);
    }
    CHECK_INT(stub->ops->write(stub, t, start.sp, start.stack, start.stack_size), start.stack_size);
    stub->ops->regs(stub, t)->rip = start.entry;
    stub->ops->regs(stub, t)->rsp = start.sp;
    dz_linux_start_release(&start);
    tasks[t] = (struct task){.used = true, .process = 0};
    (void)close(fd);
    return t;
}

static int64_t clone_task(uint32_t t, const struct dz_stub_regs *r)
{
    const uint64_t flags = r->rdi;
    const bool thread = flags & CLONE_THREAD;
    uint32_t c = 0;
    const int rc = stub->ops->clone(stub, t, thread ? DZ_STUB_THREAD : DZ_STUB_FORK, &c);
    if (rc < 0)
        return rc;
    tasks[c] = (struct task){.used = true, .process = tasks[t].process};
    if (!thread) {
        uint32_t p = 0;
        while (processes[p].used)
            p++;
        processes[p] = (struct process){.used = true, .status = -1, .parent = t};
        CHECK_INT(dz_mm_fork(&processes[tasks[t].process].mm, &processes[p].mm), 0);
        tasks[c].process = p;
    }
    struct dz_stub_regs *cr = stub->ops->regs(stub, c);
    cr->rax = 0;
    if (r->rsi)
        cr->rsp = r->rsi;
    if (flags & CLONE_SETTLS)
        cr->fs_base = r->r8;
    if (flags & CLONE_CHILD_CLEARTID)
        tasks[c].clear_tid = r->r10;
    const uint32_t tid = c;
    if (flags & CLONE_PARENT_SETTID)
        CHECK_INT(stub->ops->write(stub, t, r->rdx, &tid, 4), 4);
    if (flags & CLONE_CHILD_SETTID)
        CHECK_INT(stub->ops->write(stub, c, r->r10, &tid, 4), 4);
    stub->ops->run(stub, c);
    return c;
}

static int wake(uint32_t process, uint64_t at, int n)
{
    int woken = 0;
    for (uint32_t i = 0; i < DZ_STUB_THREADS_MAX && woken < n; i++)
        if (tasks[i].used && tasks[i].futex == at && tasks[i].process == process) {
            tasks[i].futex = 0;
            answer(i, 0);
            woken++;
        }
    return woken;
}

static void ended(uint32_t p, int status)
{
    for (uint32_t i = 0; i < DZ_STUB_THREADS_MAX; i++)
        if (tasks[i].used && tasks[i].process == p)
            tasks[i].used = false;
    dz_mm_release(&processes[p].mm);
    processes[p].status = status;
    const uint32_t parent = processes[p].parent;
    if (p == 0)
        exit_status = status;
    else if (tasks[parent].waits_child) {
        const int wstatus = status << 8;
        const uint64_t at = stub->ops->regs(stub, parent)->rsi;
        CHECK_INT(stub->ops->write(stub, parent, at, &wstatus, 4), 4);
        tasks[parent].waits_child = false;
        answer(parent, (int64_t)stub->ops->regs(stub, parent)->rdi);
    }
}

/* INT64_MIN: nothing is answered now. */
static int64_t call(uint32_t t)
{
    struct dz_stub_regs *r = stub->ops->regs(stub, t);
    struct process *p = &processes[tasks[t].process];
    struct dz_mm_calls calls = DZ_VEC_INIT(DZ_MM_CALLS_MAX);
    int64_t result = -ENOSYS;
    uint32_t word = 0;
    switch (r->rax) {
    case SYS_write:
        CHECK(printed_size + r->rdx < sizeof printed);
        result = stub->ops->read(stub, t, r->rsi, printed + printed_size, r->rdx);
        printed_size += result > 0 ? (size_t)result : 0;
        return result;
    case SYS_brk:
        result = (int64_t)dz_mm_brk(&p->mm, r->rdi, &calls);
        break;
    case SYS_mmap: {
        const struct dz_mm_map m = {.at = r->rdi,
                                    .size = r->rsi,
                                    .prot = (int)r->rdx,
                                    .flags = (int)r->r10,
                                    .may = PROT_READ | PROT_WRITE | PROT_EXEC};
        result = r->r10 & MAP_ANONYMOUS ? dz_mm_mmap(&p->mm, &m, &calls) : -ENODEV;
        break;
    }
    case SYS_munmap:
        result = dz_mm_munmap(&p->mm, r->rdi, r->rsi, &calls);
        break;
    case SYS_mprotect:
        result = dz_mm_mprotect(&p->mm, r->rdi, r->rsi, (int)r->rdx, &calls);
        break;
    case SYS_madvise:
        result = dz_mm_madvise(&p->mm, r->rdi, r->rsi, (int)r->rdx, &calls);
        break;
    case SYS_arch_prctl:
        if (r->rdi != 0x1002)
            return -EINVAL;
        r->fs_base = r->rsi;
        return 0;
    case SYS_set_tid_address:
        tasks[t].clear_tid = r->rdi;
        return t;
    case SYS_getpid:
    case SYS_gettid:
        return t;
    case SYS_getppid:
        return 1;
    case SYS_clone:
        return clone_task(t, r);
    case SYS_wait4:
        tasks[t].waits_child = true;
        for (uint32_t i = 1; i < TASKS; i++)
            if (processes[i].used && processes[i].parent == t && processes[i].status >= 0)
                ended(i, processes[i].status);
        return INT64_MIN;
    case SYS_futex:
        if ((r->rsi & 127) == FUTEX_WAKE)
            return wake(tasks[t].process, r->rdi, (int)r->rdx);
        CHECK_INT(stub->ops->read(stub, t, r->rdi, &word, 4), 4);
        if (word != (uint32_t)r->rdx)
            return -EAGAIN;
        tasks[t].futex = r->rdi;
        return INT64_MIN;
    case SYS_exit:
        if (tasks[t].clear_tid) {
            CHECK_INT(stub->ops->write(stub, t, tasks[t].clear_tid, &word, 4), 4);
            (void)wake(tasks[t].process, tasks[t].clear_tid, 1);
        }
        tasks[t].used = false;
        stub->ops->exit(stub, t);
        return INT64_MIN;
    case SYS_exit_group: {
        const uint32_t gone = tasks[t].process;
        const int status = (int)r->rdi & 0xff;
        stub->ops->end(stub, t);
        ended(gone, status);
        return INT64_MIN;
    }
    case SYS_rt_sigprocmask:
    case SYS_rt_sigaction:
    case SYS_set_robust_list:
        return 0;
    default: /* a C library survives that, as on an old kernel */
        return result;
    }
    execute(t, &calls);
    return result;
}

static void run_program(bool polls)
{
    char path[512];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 32);
    CHECK(n > 0);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    (void)snprintf(slash ? slash : path, 32, "/../native/native_hello");
    const struct dz_stub_host_opts o = {.files = {.number = number}};
    struct dz_err err = {.code = 0};
    CHECK_INT(dz_stub_host_open(&o, &stub, &err), 0);
    if (err.code) {
        printf("# %s\n", err.msg);
        return;
    }
    if (polls)
        (void)stub->ops->place(stub, sched_getcpu());
    static const char args[] = "native_hello\0world";
    const struct dz_strings argv = {args, sizeof args, 2};
    exit_status = -1;
    stub->ops->run(stub, load(path, &argv));
    while (exit_status < 0) {
        struct dz_stub_event e[DZ_STUB_EVENTS_MAX];
        int events = polls ? stub->ops->soon(stub, e, DZ_STUB_EVENTS_MAX) : 0;
        if (events == 0)
            events = stub->ops->wait(stub, -1, e, DZ_STUB_EVENTS_MAX);
        CHECK(events > 0);
        for (int i = 0; i < events; i++) {
            if (!tasks[e[i].thread].used)
                continue; /* ended by one before */
            if (e[i].kind != DZ_STUB_CALL) {
                printf("# event %d signal %d at %llx, rip %llx\n", (int)e[i].kind, e[i].signo,
                       (unsigned long long)e[i].addr,
                       e[i].kind == DZ_STUB_ENDED
                           ? 0ull
                           : (unsigned long long)stub->ops->regs(stub, e[i].thread)->rip);
                CHECK(false);
                exit_status = 255;
                break;
            }
            const int64_t result = call(e[i].thread);
            if (result != INT64_MIN)
                answer(e[i].thread, result);
        }
        if (events <= 0)
            break;
    }
    CHECK_INT(exit_status, 42);
    CHECK_STR(printed, "hello world of 2\nchild sees x\nchild exited with 3\n"
                       "threads counted to 4000\n");
    for (uint32_t i = 0; i < TASKS; i++)
        dz_mm_release(&processes[i].mm);
    stub->ops->close(stub);
}
TEST(native_hello)
{
    run_program(false);
}
TEST(native_hello_polling)
{
    run_program(true);
}

/* SPDX-License-Identifier: MIT
 *
 * Stubs of a jailed kernel: a zygote with the filter that traps, a cell that it forks, which opens
 * its stubs behind all fences but its own filter, becomes another user, and runs a guest. The
 * guest's calls arrive, whatever their numbers, and the cell reads and writes its memory; children,
 * interrupts, and the end work. */
#include "os/os_jail.h"
#include "os/os_user.h"
#include "stub/stub_host.h"

#define TAP_ALARM_S 30
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT UINT64_C(0x400000)
#define DATA UINT64_C(0x500000)

/* Each pair of numbers: a call that no list has, one that the zygote's has, one of another ABI. */
__asm__(".pushsection .rodata\n"
        ".globl jail_begin, jail_end\n"
        "jail_begin:\n"
        "mov $165, %eax\n syscall\n"        /* mount */
        "mov $39, %eax\n syscall\n"         /* getpid */
        "mov $0x40000027, %eax\n syscall\n" /* getpid of x32 */
        "mov $20, %eax\n int $0x80\n"       /* getpid of i386 */
        "1: lock incq 0x500000\n jmp 1b\n"
        "jail_end:\n"
        ".popsection\n");
extern const uint8_t jail_begin[], jail_end[];

enum {
    CALLS_MAX = 256
};
struct cell {
    struct dz_stub *stub;
    uint32_t number;
    struct dz_os_users users;
};

static int number(void *arg, const struct dz_mm_back *back, uint32_t *ret_number,
                  uint64_t *ret_offset)
{
    (void)back;
    *ret_number = ((struct cell *)arg)->number;
    *ret_offset = 0;
    return 0;
}
static int open_stubs(void *arg, struct dz_err *err)
{
    struct cell *c = arg;
    const struct dz_stub_host_opts o = {.files = {.number = number, .arg = c}};
    return dz_stub_host_open(&o, &c->stub, err);
}

static size_t add(struct dz_os_syscall *calls, size_t n, const struct dz_os_syscall *more,
                  size_t count)
{
    assert(n + count <= CALLS_MAX);
    memcpy(calls + n, more, count * sizeof *more);
    return n + count;
}
static size_t list(bool nest, const struct dz_os_users *users, struct dz_os_syscall *ret)
{
    size_t n = add(ret, 0, dz_os_jail_compute, dz_os_jail_compute_count);
    n = add(ret, n, dz_os_jail_linux, dz_os_jail_linux_count);
    if (nest) {
        n = add(ret, n, dz_os_jail_nest, dz_os_jail_nest_count);
        n = add(ret, n, dz_os_jail_linux_nest, dz_os_jail_linux_nest_count);
    }
    if (users->count) {
        dz_os_users_calls(users, ret + n);
        n += dz_os_jail_users_count;
    }
    return n;
}

#define MUST(x)                                                                  \
    do {                                                                         \
        if (!(x)) {                                                              \
            (void)dprintf(2, "# line %d: %s (errno %d)\n", __LINE__, #x, errno); \
            _exit(1);                                                            \
        }                                                                        \
    } while (0)

static struct dz_stub_event next(struct cell *c)
{
    struct dz_stub_event e = {.kind = DZ_STUB_ENDED};
    MUST(c->stub->ops->wait(c->stub, 5000000000, &e, 1) == 1);
    return e;
}

/* All that a cell does with its stubs. */
static void run_guest(struct cell *c)
{
    static const uint64_t wanted[] = {165, 39, 0x40000027, 20};
    const struct dz_stub_ops *o = c->stub->ops;
    uint32_t t = 0, child = 0;
    uint64_t count = 7, before;
    const int fd = memfd_create("text", MFD_CLOEXEC);
    MUST(write(fd, jail_begin, (size_t)(jail_end - jail_begin)) > 0);
    MUST(o->file(c->stub, fd, &c->number) == 0);
    MUST(o->process(c->stub, &t) == 0);
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
    MUST(o->memory(c->stub, t, calls, 2) == 0);
    MUST(o->write(c->stub, t, DATA, &count, sizeof count) == sizeof count);
    o->regs(c->stub, t)->rip = TEXT;
    o->regs(c->stub, t)->rsp = DATA + 0x10000;
    for (size_t i = 0; i < DZ_ARRAY_LEN(wanted); i++) {
        o->run(c->stub, t);
        const struct dz_stub_event e = next(c);
        MUST(e.kind == DZ_STUB_CALL && o->regs(c->stub, t)->rax == wanted[i]);
    }
    o->run(c->stub, t);
    o->interrupt(c->stub, t);
    MUST(next(c).kind == DZ_STUB_STOPPED);
    MUST(o->read(c->stub, t, DATA, &before, sizeof before) == sizeof before && before >= 7);
    MUST(o->clone(c->stub, t, DZ_STUB_FORK, &child) == 0);
    MUST(o->read(c->stub, child, DATA, &count, sizeof count) == sizeof count && count == before);
    MUST(o->clone(c->stub, child, DZ_STUB_THREAD, &child) == 0);
    struct dz_stub_runs runs = DZ_VEC_INIT(DZ_STUB_RUNS_MAX);
    const int changed = o->changed(c->stub, t, DATA, DATA + 0x10000, &runs);
    MUST(changed == -EOPNOTSUPP || (changed == 0 && runs.n == 1));
    dz_vec_release(&runs);
    int64_t cpu = 0;
    MUST(o->cpu(c->stub, t, &cpu) == 0 && cpu > 0);
    o->close(c->stub);
}

DZ_NORETURN static void cell(struct cell *c, const struct dz_os_filter *filter, uint32_t inherits)
{
    struct dz_os_jail jail = {.filter = filter,
                              .landlock = true,
                              .landlock_proc = true,
                              .inherits =
                                  inherits & ~(DZ_OS_FENCE_BIT(LANDLOCK) | DZ_OS_FENCE_BIT(SCOPES)),
                              .open = open_stubs,
                              .arg = c};
    struct dz_os_jail_report report;
    struct dz_err err = {0};
    if (dz_os_jail_enter(&jail, &report, &err) < 0) {
        (void)dprintf(2, "# cell: %s\n", err.msg);
        _exit(98);
    }
    if (c->users.count) {
        const uint32_t tenant = c->users.first + c->users.count - 3;
        if (dz_stub_host_settle(c->stub, tenant, &err) < 0 || dz_os_user_settle(tenant, &err) < 0) {
            (void)dprintf(2, "# settle: %s\n", err.msg);
            _exit(97);
        }
    }
    run_guest(c);
    _exit(0);
}

DZ_NORETURN static void zygote(struct cell *c)
{
    static struct dz_os_syscall calls[CALLS_MAX];
    const struct dz_os_users *users = c->users.count ? &c->users : NULL;
    struct dz_os_filter *filter = NULL;
    struct dz_err err = {0};
    MUST(dz_os_filter_new(calls, list(false, &c->users, calls), false, &filter, &err) == 0);
    const struct dz_os_jail jail = {.calls = calls,
                                    .call_count = list(true, &c->users, calls),
                                    .traps = true,
                                    .landlock = true,
                                    .landlock_proc = true,
                                    .namespaces = dz_os_jail_namespaces,
                                    .users = users,
                                    .user = c->users.first + 1,
                                    .settles_later = true,
                                    .ambient = true};
    struct dz_os_jail_report report;
    if (dz_os_jail_enter(&jail, &report, &err) < 0) {
        (void)dprintf(2, "# zygote: %s\n", err.msg);
        _exit(99);
    }
    const pid_t pid = fork();
    if (pid == 0)
        cell(c, filter, report.fences);
    int status = -1;
    (void)waitpid(pid, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status));
}

static int zygote_with(bool users)
{
    struct cell c = {.number = 0};
    struct dz_err err = {0};
    int status = -1;
    if (users)
        CHECK_INT(dz_os_users_parse(DZ_OS_USERS_DEFAULT, &c.users, &err), 0);
    const pid_t pid = fork();
    if (pid == 0)
        zygote(&c);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(a_jailed_kernel_has_stubs)
{
    CHECK_INT(zygote_with(false), 0);
}
TEST(its_stubs_become_the_tenants_user)
{
    struct dz_os_users users;
    struct dz_err err = {0};
    CHECK_INT(dz_os_users_parse(DZ_OS_USERS_DEFAULT, &users, &err), 0);
    if (dz_os_users_check(&users, &err) < 0)
        SKIP("this process can become no other user");
    CHECK_INT(zygote_with(true), 0);
}

/* What a zygote of Linux programs may not do is not done, also if it has a handler. */
TEST(a_filter_that_traps_lets_nothing_more_pass)
{
    const pid_t pid = fork();
    if (pid == 0) {
        static struct dz_os_syscall calls[CALLS_MAX];
        const struct dz_os_users none = {0, 0};
        const struct dz_os_jail jail = {
            .calls = calls, .call_count = list(true, &none, calls), .traps = true};
        struct dz_os_jail_report report;
        struct dz_err err = {0};
        MUST(dz_os_jail_enter(&jail, &report, &err) == 0);
        (void)syscall(SYS_socket, 1, 1, 0);
        _exit(0);
    }
    int status = -1;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

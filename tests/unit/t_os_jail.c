/* SPDX-License-Identifier: MIT
 * Each forbidden call is tried from inside a jail, and must kill; each thing
 * that a cell needs must work there. */
#include "base/buf.h"
#include "base/fd.h"
#include "base/sanitize.h"
#include "os/os_jail.h"
#include "os/os_user.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/fsverity.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

static const struct dz_os_rlimit limits[] = {{RLIMIT_FSIZE, 4096}, {RLIMIT_CORE, 0}};

/* Run fn in a jailed child. Its exit status, or 1000 plus the signal. */
static int jailed(int (*fn)(int fd), int namespaces)
{
    char path[] = "/tmp/jail-XXXXXX";
    int status, fd = mkstemp(path);
    (void)unlink(path);
    pid_t pid = fork();
    if (pid == 0) {
        struct dz_os_jail jail = {.calls = dz_os_jail_compute,
                                  .call_count = dz_os_jail_compute_count,
                                  .limits = limits,
                                  .limit_count = 2,
                                  .parent_signal = SIGKILL,
                                  .landlock = true,
                                  .namespaces = namespaces};
        struct dz_os_jail_report report;
        struct dz_err err = {0};
        if (dz_os_jail_enter(&jail, &report, &err) < 0)
            _exit(99);
        _exit(fn(fd));
    }
    (void)close(fd);
    if (waitpid(pid, &status, 0) < 0)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#define FORBIDDEN(name, call)                            \
    static int try_##name(int fd)                        \
    {                                                    \
        (void)fd;                                        \
        (void)!(call);                                   \
        return 0;                                        \
    }                                                    \
    TEST(jail_kills_##name)                              \
    {                                                    \
        CHECK_INT(jailed(try_##name, 0), 1000 + SIGSYS); \
    }

FORBIDDEN(openat, openat(AT_FDCWD, "/etc/passwd", O_RDONLY))
FORBIDDEN(open_raw, syscall(SYS_open, "/etc/passwd", O_RDONLY))
FORBIDDEN(openat2, syscall(SYS_openat2, AT_FDCWD, "/", NULL, 0))
FORBIDDEN(unlink, unlink("/tmp/nothing"))
FORBIDDEN(access, access("/etc/passwd", R_OK))
FORBIDDEN(stat_of_a_path, syscall(SYS_stat, "/etc/passwd", NULL))
FORBIDDEN(socket, socket(AF_INET, SOCK_STREAM, 0))
FORBIDDEN(socketpair, socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){0, 0}))
FORBIDDEN(fork, syscall(SYS_fork))
FORBIDDEN(clone, syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0))
FORBIDDEN(clone3, syscall(SYS_clone3, NULL, 0))
FORBIDDEN(execve, execve("/bin/true", (char *const[]){NULL}, (char *const[]){NULL}))
FORBIDDEN(execveat, syscall(SYS_execveat, 3, "", NULL, NULL, AT_EMPTY_PATH))
FORBIDDEN(ptrace, ptrace(PTRACE_TRACEME, 0, NULL, NULL))
FORBIDDEN(kill, kill(getppid(), 0))
FORBIDDEN(tgkill, syscall(SYS_tgkill, getppid(), getppid(), 0))
FORBIDDEN(process_vm_readv, syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0))
FORBIDDEN(mount, syscall(SYS_mount, "a", "b", "c", 0, NULL))
FORBIDDEN(prctl, syscall(SYS_prctl, 38, 0, 0, 0, 0))
FORBIDDEN(seccomp, syscall(SYS_seccomp, 0, 0, NULL))
FORBIDDEN(io_uring, syscall(SYS_io_uring_setup, 1, NULL))
FORBIDDEN(bpf, syscall(SYS_bpf, 0, NULL, 0))
FORBIDDEN(memfd_create, syscall(SYS_memfd_create, "x", 0))
FORBIDDEN(setuid, syscall(SYS_setuid, 0))
FORBIDDEN(executable_memory,
          mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
FORBIDDEN(fcntl_setown, fcntl(fd, F_SETOWN, getppid()))
FORBIDDEN(fcntl_setsig, fcntl(fd, F_SETSIG, SIGKILL))
FORBIDDEN(fcntl_setfl, fcntl(fd, F_SETFL, O_DIRECT))
FORBIDDEN(fcntl_lease, fcntl(fd, F_SETLEASE, F_WRLCK))
FORBIDDEN(immutable_files, syscall(SYS_ioctl, fd, FS_IOC_SETFLAGS, &(int){FS_IMMUTABLE_FL}))
FORBIDDEN(verity, syscall(SYS_ioctl, fd, FS_IOC_ENABLE_VERITY, NULL))
FORBIDDEN(poisoned_pages, madvise((void *)((uintptr_t)&limits & ~4095ul), 4096, MADV_HWPOISON))
FORBIDDEN(fallocate_beyond_the_limit, fallocate(fd, FALLOC_FL_KEEP_SIZE, 1 << 20, 4096))
FORBIDDEN(profiling_timers, setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL))
FORBIDDEN(timer_settime, syscall(SYS_timer_settime, 0, 0, NULL, NULL))
FORBIDDEN(usage_of_children, getrusage(RUSAGE_CHILDREN, &(struct rusage){0}))
FORBIDDEN(tiocsti, syscall(SYS_ioctl, 0, 0x5412, "x"))

static int use_what_is_allowed(int fd)
{
    char buf[4] = "";
    struct timespec now;
    if (pwrite(fd, "abc", 3, 0) != 3 || pread(fd, buf, 3, 0) != 3 || memcmp(buf, "abc", 3) != 0)
        return 1;
    void *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || munmap(p, 1 << 20) < 0)
        return 2;
    if (clock_gettime(CLOCK_MONOTONIC, &now) < 0 || fdatasync(fd) < 0 || ftruncate(fd, 1) < 0)
        return 3;
    return fcntl(fd, F_GETFL) < 0 ? 4 : 0;
}

TEST(jail_leaves_what_a_cell_needs)
{
    CHECK_INT(jailed(use_what_is_allowed, 0), 0);
    CHECK_INT(jailed(use_what_is_allowed, CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS), 0);
}

#if !DZ_SANITIZED /* a sanitizer's runtime needs the call */
FORBIDDEN(stat_of_a_path_beside_a_descriptor,
          syscall(SYS_newfstatat, AT_FDCWD, "/etc/passwd", &(struct stat){0}, AT_EMPTY_PATH))
#endif

static int size_of_a_file(int fd)
{
    struct stat st;
    return dz_fd_stat(fd, &st) == 0 && S_ISREG(st.st_mode) ? 0 : 1;
}

TEST(jail_leaves_the_size_of_a_file)
{
    CHECK_INT(jailed(size_of_a_file, 0), 0);
}

/* What /proc says of a process in a jail. */
static void read_status(pid_t pid, char *text, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    CHECK(n > 0);
    text[n < 0 ? 0 : n] = '\0';
    (void)close(fd);
}

TEST(jail_leaves_no_capability_behind)
{
    static const char *const lines[] = {"CapInh:\t0000000000000000",
                                        "CapPrm:\t0000000000000000",
                                        "CapEff:\t0000000000000000",
                                        "CapAmb:\t0000000000000000",
                                        "NoNewPrivs:\t1",
                                        "Seccomp:\t2"};
    int down[2], up[2];
    char text[8192], byte = 0;
    CHECK(pipe(down) == 0 && pipe(up) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct dz_os_jail jail = {.calls = dz_os_jail_compute,
                                  .call_count = dz_os_jail_compute_count,
                                  .landlock = true,
                                  .namespaces = dz_os_jail_namespaces};
        struct dz_os_jail_report report;
        struct dz_err err = {0};
        if (dz_os_jail_enter(&jail, &report, &err) < 0)
            _exit(99);
        (void)!write(up[1], &report.fences, 4);
        (void)!read(down[0], &byte, 1);
        _exit(0);
    }
    uint32_t held = 0;
    CHECK_INT(read(up[0], &held, 4), 4);
    read_status(pid, text, sizeof text);
    for (size_t i = 0; i < DZ_ARRAY_LEN(lines); i++)
        CHECK(strstr(text, lines[i]));
    if (geteuid() == 0)
        CHECK(strstr(text, "CapBnd:\t0000000000000000"));
    CHECK(held & DZ_OS_FENCE_BIT(CAPS));
    (void)!write(down[1], &byte, 1);
    int status = 0;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
    for (int i = 0; i < 2; i++) {
        (void)close(down[i]);
        (void)close(up[i]);
    }
}

static int nothing(int fd)
{
    (void)fd;
    return 0;
}

TEST(a_demanded_fence_that_is_missing_refuses_the_jail)
{
    const struct dz_os_jail jail = {.calls = dz_os_jail_compute,
                                    .call_count = dz_os_jail_compute_count};
    struct dz_os_jail_report report;
    struct dz_err err = {0};
    dz_os_jail_demand(DZ_OS_FENCE_BIT(CAPS));
    CHECK_INT(jailed(nothing, 0), 0);
    dz_os_jail_demand(DZ_OS_FENCE_BIT(CAPS) | DZ_OS_FENCE_BIT(NET));
    CHECK_INT(jailed(nothing, 0), 99); /* it asks for no namespace */
    CHECK_INT(dz_os_jail_enter(&jail, &report, &err), DZ_EUNSUPPORTED);
    CHECK(strstr(err.msg, "does not provide net, which the setting cells.fences requires"));
}

/* A cell of a zygote has the zygote's namespaces, but a Landlock of its own. */
TEST(fences_of_the_parent_count)
{
    const struct dz_os_jail jail = {.calls = dz_os_jail_compute,
                                    .call_count = dz_os_jail_compute_count,
                                    .inherits = DZ_OS_FENCE_BIT(CAPS) | DZ_OS_FENCE_BIT(NET)};
    struct dz_os_jail_report report;
    int status = 0;
    dz_os_jail_demand(jail.inherits);
    pid_t pid = fork();
    if (pid == 0)
        _exit(dz_os_jail_enter(&jail, &report, NULL) < 0);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

TEST(fences_have_names)
{
    uint32_t set = 0;
    char text[128];
    struct dz_err err = {0};
    CHECK_INT(dz_os_fences_parse("landlock, net,caps", &set, &err), 0);
    CHECK_INT(set, DZ_OS_FENCE_BIT(LANDLOCK) | DZ_OS_FENCE_BIT(NET) | DZ_OS_FENCE_BIT(CAPS));
    dz_os_fences_print(set, text, sizeof text);
    CHECK_STR(text, "landlock net caps");
    CHECK_INT(dz_os_fences_parse("", &set, &err), 0);
    CHECK_INT(set, 0);
    dz_os_fences_print(set, text, sizeof text);
    CHECK_STR(text, "none");
    CHECK_INT(dz_os_fences_parse("net moat", &set, &err), DZ_EINVAL);
    CHECK(strstr(err.msg, "\"moat\" is not a fence"));
}

TEST(every_allowed_call_says_why)
{
    for (size_t i = 0; i < dz_os_jail_compute_count; i++)
        CHECK(dz_os_jail_compute[i].name && dz_os_jail_compute[i].why);
    for (size_t i = 0; i < dz_os_jail_net_count; i++)
        CHECK(dz_os_jail_net[i].name && dz_os_jail_net[i].why);
    for (size_t i = 0; i < dz_os_jail_nest_count; i++)
        CHECK(dz_os_jail_nest[i].name && dz_os_jail_nest[i].why);
    for (size_t i = 0; i < dz_os_jail_users_count; i++)
        CHECK(dz_os_jail_users[i].name && dz_os_jail_users[i].why);
    for (size_t i = 0; i < dz_os_jail_linux_count; i++)
        CHECK(dz_os_jail_linux[i].name && dz_os_jail_linux[i].why);
    for (size_t i = 0; i < dz_os_jail_linux_nest_count; i++)
        CHECK(dz_os_jail_linux_nest[i].name && dz_os_jail_linux_nest[i].why);
    for (size_t i = 0; i < dz_os_jail_broker_count; i++)
        CHECK(dz_os_jail_broker[i].name && dz_os_jail_broker[i].why);
}

/* --- the tables in the documentation ---------------------------------------------------- */

static const char page[] = "docs/design/jail.md";
static const char begins[] = "<!-- calls: begin -->\n", ends[] = "<!-- calls: end -->\n";

static void print_calls(struct dz_buf *b, const char *title, const struct dz_os_syscall *calls,
                        size_t count)
{
    dz_buf_addf(b, "\n### %s\n\n| call | argument | why |\n| --- | --- | --- |\n", title);
    for (size_t i = 0; i < count; i++) {
        const struct dz_os_syscall *c = &calls[i];
        if (strncmp(c->why, "sanitizers:", 11) == 0)
            continue;
        if (c->args)
            dz_buf_addf(b, "| `%s` | %d to %d: %s | %s |\n", c->name, c->arg, c->arg + c->args - 1,
                        c->text, c->why);
        else if (c->text)
            dz_buf_addf(b, "| `%s` | %d: `%s` | %s |\n", c->name, c->arg, c->text, c->why);
        else
            dz_buf_addf(b, "| `%s` | | %s |\n", c->name, c->why);
    }
}

TEST(the_documentation_has_these_tables)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(1 << 20), want = DZ_BUF_INIT(1 << 20);
    struct dz_err err = {0};
    CHECK_INT(dz_fd_read_file(AT_FDCWD, page, &text, &err), 0);
    dz_buf_add(&text, "", 1);
    const char *first = strstr(text.p, begins), *last = strstr(text.p, ends);
    CHECK(first && last);
    if (!first || !last)
        return;
    dz_buf_add(&want, text.p, (size_t)(first - text.p) + sizeof begins - 1);
    print_calls(&want, "Cells and calls", dz_os_jail_compute, dz_os_jail_compute_count);
    print_calls(&want, "Cells, besides", dz_os_jail_net, dz_os_jail_net_count);
    print_calls(&want, "Zygotes, besides", dz_os_jail_nest, dz_os_jail_nest_count);
    print_calls(&want, "Both, where tenants have users of their own", dz_os_jail_users,
                dz_os_jail_users_count);
    print_calls(&want, "Cells of Linux programs, besides", dz_os_jail_linux,
                dz_os_jail_linux_count);
    print_calls(&want, "Zygotes of Linux programs, besides both", dz_os_jail_linux_nest,
                dz_os_jail_linux_nest_count);
    print_calls(&want, "The broker, besides cells and calls", dz_os_jail_broker,
                dz_os_jail_broker_count);
    dz_buf_add(&want, "\n", 1);
    dz_buf_add(&want, last, strlen(last));
    CHECK_INT(want.err, 0);
    if (getenv("DZ_WRITE_DOCS"))
        CHECK_INT(dz_fd_replace(AT_FDCWD, page, want.p, want.len, 0644, &err), 0);
    else
        CHECK(want.len == text.len - 1 && memcmp(want.p, text.p, want.len) == 0);
}

static int write_beyond(int fd)
{
    return pwrite(fd, "x", 1, 5000) == 1 ? 1 : 0;
}

TEST(jail_bounds_the_size_of_files)
{
    CHECK_INT(jailed(write_beyond, 0), 1000 + SIGXFSZ);
}

TEST(jail_refuses_a_row_with_an_argument_that_no_call_has)
{
    static const struct dz_os_syscall rows[] = {{.number = SYS_read, .arg = 9, .mask = 1}};
    pid_t pid = fork();
    if (pid == 0) {
        struct dz_os_jail jail = {.calls = rows, .call_count = 1};
        struct dz_os_jail_report report;
        struct dz_err err = {0};
        int rc = dz_os_jail_enter(&jail, &report, &err);
        _exit(rc < 0 && err.msg[0] ? 0 : 1);
    }
    int status = 0;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
}

/* --- how many processes ---------------------------------------------------------------------- */

enum {
    PROCESSES = 20,
    NO_NAMESPACE = 98,
};

/* In a zygote that was taken over: each child becomes another user of the range, where it does not
 * count as its parent's. How many come? The users are of the range's second half: daemons begin
 * with its first, and what they run would count here. */
DZ_NORETURN static void fork_as_others(const struct dz_os_users *users)
{
    const uint32_t mine = users->first + users->count / 2 + (uint32_t)getpid() % (users->count / 4);
    struct dz_os_syscall calls[128];
    size_t n = dz_os_jail_compute_count + dz_os_jail_nest_count;
    memcpy(calls, dz_os_jail_compute, dz_os_jail_compute_count * sizeof calls[0]);
    memcpy(calls + dz_os_jail_compute_count, dz_os_jail_nest,
           dz_os_jail_nest_count * sizeof calls[0]);
    dz_os_users_calls(users, calls + n);
    const struct dz_os_jail jail = {.calls = calls,
                                    .call_count = n + dz_os_jail_users_count,
                                    .namespaces = dz_os_jail_namespaces,
                                    .users = users,
                                    .user = mine,
                                    .processes = PROCESSES,
                                    .settles_later = true};
    struct dz_os_jail_report report;
    struct dz_err err = {0};
    int count = 0;
    if (setpgid(0, 0) < 0 || dz_os_jail_enter(&jail, &report, &err) < 0)
        _exit(99);
    if (!(report.fences & DZ_OS_FENCE_BIT(USER)))
        _exit(NO_NAMESPACE);
    for (; count < 3 * PROCESSES; count++) {
        long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
        if (pid < 0)
            break;
        if (pid == 0) {
            uid_t other = mine + 1 + (uid_t)count;
            (void)syscall(SYS_setresuid, other, other, other);
            for (;;)
                (void)poll(NULL, 0, -1);
        }
        (void)poll(NULL, 0, 1); /* it is another by now, or counts here */
    }
    _exit(count);
}

TEST(processes_of_a_user_namespace_are_bounded_whoever_they_become)
{
    struct dz_os_users users;
    struct dz_err err = {0};
    int status = 0;
    CHECK_INT(dz_os_users_parse(DZ_OS_USERS_DEFAULT, &users, &err), 0);
    if (dz_os_users_check(&users, &err) < 0)
        SKIP(err.msg);
    pid_t pid = fork();
    if (pid == 0)
        fork_as_others(&users);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    (void)kill(-pid, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    CHECK(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_NAMESPACE)
        SKIP("no user namespaces");
    CHECK(WEXITSTATUS(status) > 0 && WEXITSTATUS(status) < PROCESSES);
}

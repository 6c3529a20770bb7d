/* SPDX-License-Identifier: MIT
 * Each forbidden call is tried from inside a jail, and must kill; each thing
 * that a cell needs must work there. */
#include "os/os_jail.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
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

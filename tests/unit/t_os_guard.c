/* SPDX-License-Identifier: MIT
 * A guard ends what its host leaves behind: with and without a pid namespace. */
#include "tap.h"

#include "os/os_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    NOBODY = 65534,
    GRACE_MS = 100,
    LONG_MS = 600000, /* more than a test may take: who waits for all of it meets the alarm */
};

/* What a child of the guarded process sees. */
struct seen {
    pid_t pid, parent; /* as it knows them */
    bool sees_host;    /* /proc has the number 1 of the host, with its command */
};

struct family {
    pid_t seed;
    int host;  /* our end of the guard's pipe */
    int alive; /* closed when the guarded child is dead */
    struct seen seen;
};

static void deny_namespaces(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = DZ_ARRAY_LEN(code), .filter = code};
    CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_INT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void become_user(void)
{
    if (geteuid() != 0)
        return;
    CHECK_INT(setgroups(0, NULL), 0);
    CHECK_INT(setresgid(NOBODY, NOBODY, NOBODY), 0);
    CHECK_INT(setresuid(NOBODY, NOBODY, NOBODY), 0);
    CHECK_INT(prctl(PR_SET_DUMPABLE, 1), 0); /* as a process that began as this user */
}

static void read_first(char *ret_line, size_t size)
{
    int fd = open("/proc/1/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, ret_line, size - 1);
    ret_line[n < 0 ? 0 : n] = '\0';
    if (fd >= 0)
        (void)close(fd);
}

/* Deaf to everything that can be ignored. */
static void stay(int report, const char *first)
{
    char line[64];
    struct seen s = {.pid = getpid(), .parent = getppid()};
    read_first(line, sizeof line);
    s.sees_host = strcmp(line, first) == 0;
    for (int sig = 1; sig < 32; sig++)
        (void)signal(sig, SIG_IGN);
    (void)!write(report, &s, sizeof s);
    for (;;)
        (void)pause();
}

static struct family begin(void)
{
    struct family f;
    char first[64];
    int host[2], report[2];
    read_first(first, sizeof first);
    CHECK(pipe2(host, O_CLOEXEC) == 0 && pipe2(report, O_CLOEXEC) == 0);
    f.seed = fork();
    if (f.seed == 0) {
        struct dz_err err;
        int guard;
        (void)close(host[1]);
        if (dz_os_guard_start(host[0], GRACE_MS, &guard, &err) < 0)
            _exit(1);
        if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL) == 0)
            stay(report[1], first);
        _exit(0);
    }
    (void)close(host[0]);
    (void)close(report[1]);
    f.host = host[1];
    f.alive = report[0];
    CHECK_INT(read(f.alive, &f.seen, sizeof f.seen), sizeof f.seen);
    CHECK_INT(waitpid(f.seed, NULL, 0), f.seed); /* what it started goes on without it */
    struct pollfd p = {.fd = f.alive, .events = POLLIN};
    CHECK_INT(poll(&p, 1, 0), 0);
    return f;
}

static void ends(struct family *f)
{
    char byte;
    CHECK_INT(read(f->alive, &byte, 1), 0); /* or the alarm comes */
    int status = 0;
    CHECK(wait(&status) > 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    (void)close(f->alive);
}

static bool has_namespaces(void)
{
    pid_t pid = fork();
    int status = 0;
    if (pid == 0)
        _exit(unshare(CLONE_NEWPID) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0 ? 0 : 1);
    return waitpid(pid, &status, 0) == pid && status == 0;
}

static void dies_with_host(bool own_pids)
{
    struct family f = begin();
    CHECK_INT(f.seen.parent == 0, own_pids);
    CHECK_INT(f.seen.sees_host, !own_pids);
    CHECK_INT(f.seen.pid < 10, own_pids);
    (void)close(f.host); /* all that is seen of a host's death */
    ends(&f);
}

TEST(what_ignores_the_death_of_its_host_is_ended)
{
    if (!has_namespaces())
        SKIP("no pid namespaces");
    dies_with_host(true);
}

TEST(the_same_for_an_ordinary_user)
{
    become_user();
    if (!has_namespaces())
        SKIP("no pid namespaces");
    dies_with_host(true);
}

TEST(the_same_where_no_namespace_is_to_be_had)
{
    deny_namespaces();
    dies_with_host(false);
}

TEST(the_same_for_an_ordinary_user_without_namespaces)
{
    become_user();
    deny_namespaces();
    dies_with_host(false);
}

TEST(a_word_of_the_host_ends_all_at_once)
{
    struct family f = begin();
    CHECK_INT(write(f.host, "e", 1), 1);
    ends(&f);
    (void)close(f.host);
}

TEST(a_guard_does_not_outlive_the_last_of_its_namespace)
{
    if (!has_namespaces())
        SKIP("no pid namespaces");
    struct dz_err err;
    int host[2], alive[2], guard;
    char byte;
    CHECK(pipe2(host, O_CLOEXEC) == 0 && pipe2(alive, O_CLOEXEC) == 0);
    pid_t seed = fork();
    if (seed == 0) {
        (void)close(host[1]);
        if (dz_os_guard_start(host[0], LONG_MS, &guard, &err) < 0)
            _exit(1);
        if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL) == 0) {
            (void)close(guard);
            (void)!read(host[0], &byte, 1); /* as a cell that hears of its host's death */
            _exit(0);
        }
        (void)!write(alive[1], "r", 1);
        (void)poll(&(struct pollfd){.fd = guard, .events = POLLIN}, 1, -1);
        _exit(0);
    }
    CHECK_INT(read(alive[0], &byte, 1), 1);
    (void)close(host[1]);
    pid_t pid;
    do /* the child, too: a zombie is somebody */
        pid = wait(NULL);
    while (pid > 0 && pid != seed); /* or the alarm comes */
    CHECK_INT(pid, seed); /* the guard ends it, too, when it is slow */
}

/* The child of a child, which no signal but SIGKILL ends: it is left when its parent dies, and the
 * host, its other child and the guard go on. */
static void ends_orphans(void)
{
    struct dz_err err;
    int host[2], alive[2], orphan[2], guard;
    char byte;
    CHECK(pipe2(host, O_CLOEXEC) == 0 && pipe2(alive, O_CLOEXEC) == 0);
    CHECK(pipe2(orphan, O_CLOEXEC) == 0);
    const pid_t seed = fork();
    if (seed == 0) {
        (void)close(host[1]);
        if (dz_os_guard_start(host[0], GRACE_MS, &guard, &err) < 0)
            _exit(1);
        if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL) == 0) {
            (void)close(orphan[1]);
            stay(alive[1], "");
        }
        if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL) == 0) {
            (void)close(alive[1]);
            if (fork() == 0)
                stay(orphan[1], "");
            _exit(0);
        }
        _exit(0);
    }
    (void)close(host[0]);
    (void)close(alive[1]);
    (void)close(orphan[1]);
    struct seen seen;
    CHECK_INT(read(alive[0], &seen, sizeof seen), sizeof seen);
    CHECK_INT(read(orphan[0], &seen, sizeof seen), sizeof seen);
    CHECK_INT(read(orphan[0], &byte, 1), 0); /* or the alarm comes */
    CHECK_INT(poll(&(struct pollfd){.fd = alive[0], .events = POLLIN}, 1, 0), 0);
    (void)close(host[1]);
    while (wait(NULL) > 0)
        ;
    CHECK_INT(read(alive[0], &byte, 1), 0);
}

TEST(a_guard_ends_what_a_dead_child_leaves)
{
    if (!has_namespaces())
        SKIP("no pid namespaces");
    ends_orphans();
}

TEST(a_guard_of_an_ordinary_user_does_so_too)
{
    become_user();
    if (!has_namespaces())
        SKIP("no pid namespaces");
    ends_orphans();
}

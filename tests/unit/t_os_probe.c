/* SPDX-License-Identifier: MIT
 *
 * The probes, and how their answers change when the thing is taken away: by a
 * seccomp filter that lets a system call fail or kills, by a limit, by a
 * directory where nothing can be written.
 */
#include "os/os_probe.h"
#include "tap.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

static struct dz_os_finding probe(enum dz_os_probe_id id, const char *dir)
{
    struct dz_os_finding f = {.answer = DZ_OS_YES, .sys = -1};
    dz_os_probe(id, dir, &f);
    printf("# %s: %d, errno %d, %s\n", dz_os_probe_name(id), (int)f.answer, f.sys, f.detail);
    return f;
}

/* From here on the system call does `action`. */
static void forbid(long call, unsigned action)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = DZ_ARRAY_LEN(code), .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        SKIP("no seccomp filters here");
}

TEST(probe_has_an_answer_for_each)
{
    for (int id = 0; id < DZ_OS_PROBE_COUNT; id++) {
        struct dz_os_finding f = probe((enum dz_os_probe_id)id, "/tmp");
        CHECK(f.answer >= DZ_OS_NO && f.answer <= DZ_OS_YES);
        CHECK(f.detail[0] != '\0');
        CHECK(f.answer != DZ_OS_YES || f.sys == 0);
        CHECK(strchr(f.detail, '\n') == NULL);
    }
    CHECK_INT(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    CHECK_INT(errno, ECHILD);
}

TEST(probe_leaves_the_caller_as_it_was)
{
    (void)probe(DZ_OS_PROBE_SECCOMP, "/tmp");
    (void)probe(DZ_OS_PROBE_LANDLOCK, "/tmp");
    (void)probe(DZ_OS_PROBE_USER_NS, "/tmp");
    CHECK_INT(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 0);
    CHECK_INT(prctl(PR_GET_SECCOMP, 0, 0, 0, 0), 0);
    CHECK(access("/proc/self/status", R_OK) == 0);
}

TEST(probe_notices_a_refused_system_call)
{
    static const struct {
        enum dz_os_probe_id id;
        long call;
    } cases[] = {
        {DZ_OS_PROBE_USERFAULTFD, SYS_userfaultfd},
        {DZ_OS_PROBE_PAGEMAP_SCAN, SYS_userfaultfd},
        {DZ_OS_PROBE_MEMFD, SYS_memfd_create},
        {DZ_OS_PROBE_LANDLOCK, SYS_landlock_create_ruleset},
        {DZ_OS_PROBE_USER_NS, SYS_unshare},
        {DZ_OS_PROBE_PIDFD, SYS_clone3},
        {DZ_OS_PROBE_MEMORY_EXEC, SYS_execveat},
        {DZ_OS_PROBE_PEER, SYS_process_vm_writev},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++) {
        if (cases[i].call != SYS_clone3) /* glibc may need that one, and copes only with ENOSYS */
            forbid(cases[i].call, SECCOMP_RET_ERRNO | EL2HLT);
        else
            forbid(cases[i].call, SECCOMP_RET_ERRNO | ENOSYS);
        struct dz_os_finding f = probe(cases[i].id, "/tmp");
        CHECK_INT(f.answer, DZ_OS_NO);
        CHECK_INT(f.sys, cases[i].call == SYS_clone3 ? ENOSYS : EL2HLT);
    }
}

TEST(probe_survives_a_child_that_is_killed)
{
    forbid(SYS_memfd_create, SECCOMP_RET_KILL_PROCESS);
    struct dz_os_finding f = probe(DZ_OS_PROBE_MEMFD, "/tmp");
    CHECK_INT(f.answer, DZ_OS_NO);
    CHECK(strstr(f.detail, "ended by signal 31"));
}

TEST(probe_notices_a_filter_that_cannot_be_set)
{
    forbid(SYS_seccomp, SECCOMP_RET_ERRNO | EPERM);
    CHECK_INT(probe(DZ_OS_PROBE_SECCOMP, "/tmp").answer, DZ_OS_NO);
}

TEST(probe_notices_where_nothing_can_be_written)
{
    static const enum dz_os_probe_id ids[] = {DZ_OS_PROBE_REFLINK, DZ_OS_PROBE_LOCKS};
    for (size_t i = 0; i < DZ_ARRAY_LEN(ids); i++) {
        struct dz_os_finding f = probe(ids[i], "/proc");
        CHECK_INT(f.answer, DZ_OS_NO);
        CHECK(f.sys != 0);
        CHECK_INT(probe(ids[i], "/no/such").sys, ENOENT);
    }
}

TEST(probe_notices_limits)
{
    struct rlimit few = {64, 64}, small = {1u << 30, 1u << 30};
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct dz_os_finding f = probe(DZ_OS_PROBE_NOFILE, "/tmp");
    CHECK_INT(f.answer, DZ_OS_LIMITED);
    CHECK(strstr(f.detail, " 64 "));
#ifndef SANITIZED /* its shadow memory does not fit */
    CHECK_INT(setrlimit(RLIMIT_AS, &small), 0);
    f = probe(DZ_OS_PROBE_RESERVE, "/tmp");
    CHECK_INT(f.answer, DZ_OS_NO);
    CHECK_INT(f.sys, ENOMEM);
#else
    (void)small;
#endif
}

TEST(probe_notices_that_calls_cannot_be_answered)
{
    forbid(SYS_seccomp, SECCOMP_RET_ERRNO | EPERM);
    struct dz_os_finding f = probe(DZ_OS_PROBE_NOTIFY, "/tmp");
    CHECK_INT(f.answer, DZ_OS_NO);
    CHECK_INT(f.sys, EPERM);
}

/* As the default profile of Docker does with userfaultfd. */
TEST(probe_names_what_a_profile_refuses)
{
    CHECK_INT(probe(DZ_OS_PROBE_PROFILE, "/tmp").answer, DZ_OS_YES);
    forbid(SYS_gettid, SECCOMP_RET_ALLOW);
    struct dz_os_finding f = probe(DZ_OS_PROBE_PROFILE, "/tmp");
    CHECK_INT(f.answer, DZ_OS_YES);
    CHECK(strstr(f.detail, "lets through") != NULL);
    forbid(SYS_userfaultfd, SECCOMP_RET_ERRNO | EPERM);
    forbid(SYS_process_vm_readv, SECCOMP_RET_ERRNO | ENOSYS);
    f = probe(DZ_OS_PROBE_PROFILE, "/tmp");
    CHECK_INT(f.answer, DZ_OS_LIMITED);
    CHECK_STR(f.detail, "a filter refuses userfaultfd, process_vm_readv");
}

TEST(probe_notices_the_limit_of_processes)
{
    const struct rlimit few = {100, 100};
    CHECK_INT(setrlimit(RLIMIT_NPROC, &few), 0);
    struct dz_os_finding f = probe(DZ_OS_PROBE_PIDS, "/tmp");
    CHECK_INT(f.answer, DZ_OS_LIMITED);
    CHECK_STR(f.detail, "at most 100, threads included (ulimit -u)");
}

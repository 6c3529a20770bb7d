/* SPDX-License-Identifier: MIT
 *
 * os_jail.c - entering a jail: see os_jail.h.
 *
 * The order matters: namespaces want privileges that no_new_privs leaves alone
 * but seccomp takes; Landlock wants no_new_privs; the filter comes last, for it
 * forbids the calls that set up the rest.
 */
#include "os/os_jail.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Requests of ioctl that the dirty-page trackers use (os_dirty.c). */
#define IOC_TYPE_MASK 0xff00u

const struct dz_os_syscall dz_os_jail_compute[] = {
    {.number = __NR_read},
    {.number = __NR_write},
    {.number = __NR_readv},
    {.number = __NR_writev},
    {.number = __NR_pread64},
    {.number = __NR_pwrite64},
    {.number = __NR_preadv},
    {.number = __NR_pwritev},
    {.number = __NR_lseek},
    {.number = __NR_fstat},
    {.number = __NR_newfstatat, .arg = 3, .mask = AT_EMPTY_PATH, .value = AT_EMPTY_PATH},
    {.number = __NR_ftruncate},
    {.number = __NR_fallocate},
    {.number = __NR_fsync},
    {.number = __NR_fdatasync},
    {.number = __NR_close},
    {.number = __NR_dup},
    {.number = __NR_fcntl},
    {.number = __NR_recvmsg},
    {.number = __NR_sendmsg},
    {.number = __NR_poll},
    {.number = __NR_ppoll},
    {.number = __NR_mmap, .arg = 2, .mask = PROT_EXEC, .value = 0},
    {.number = __NR_mprotect, .arg = 2, .mask = PROT_EXEC, .value = 0},
    {.number = __NR_munmap},
    {.number = __NR_mremap},
    {.number = __NR_madvise},
    {.number = __NR_brk},
    {.number = __NR_getrandom},
    {.number = __NR_clock_gettime},
    {.number = __NR_clock_nanosleep},
    {.number = __NR_nanosleep},
    {.number = __NR_gettimeofday},
    {.number = __NR_getrusage},
    {.number = __NR_getpid},
    {.number = __NR_gettid},
    {.number = __NR_timer_settime},
    {.number = __NR_setitimer},
    {.number = __NR_rt_sigreturn},
    {.number = __NR_rt_sigprocmask},
    {.number = __NR_rt_sigaction},
    {.number = __NR_sigaltstack},
    {.number = __NR_restart_syscall},
    {.number = __NR_futex},
    {.number = __NR_exit},
    {.number = __NR_exit_group},
    {.number = __NR_ioctl, .arg = 1, .mask = IOC_TYPE_MASK, .value = 'f' << 8},  /* PAGEMAP_SCAN */
    {.number = __NR_ioctl, .arg = 1, .mask = IOC_TYPE_MASK, .value = 0xAA << 8}, /* userfaultfd */
};
const size_t dz_os_jail_compute_count = DZ_ARRAY_LEN(dz_os_jail_compute);

static int enter_limits(const struct dz_os_jail *jail, struct dz_err *err)
{
    for (size_t i = 0; i < jail->limit_count; i++) {
        const struct dz_os_rlimit *l = &jail->limits[i];
        struct rlimit r = {l->most, l->most}, now;
        if (getrlimit((__rlimit_resource_t)l->resource, &now) == 0 && now.rlim_max < r.rlim_max)
            r.rlim_cur = r.rlim_max = now.rlim_max; /* it is tighter already */
        if (setrlimit((__rlimit_resource_t)l->resource, &r) < 0)
            return dz_fail_sys(err, errno, "set resource limit %d to %llu", l->resource,
                               (unsigned long long)l->most);
    }
    return 0;
}

/* Each on its own: a host that forbids one may grant another. Without privileges
 * a user namespace comes first, and carries the others. */
static int enter_namespaces(int wanted)
{
    static const int each[] = {CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWNS,
                               CLONE_NEWCGROUP};
    int got = 0;
    if (!wanted)
        return 0;
    if (unshare(wanted) == 0)
        return wanted;
    if (unshare(CLONE_NEWUSER | wanted) == 0)
        return wanted;
    for (size_t i = 0; i < DZ_ARRAY_LEN(each); i++)
        if ((wanted & each[i]) && unshare(each[i]) == 0)
            got |= each[i];
    return got;
}

/* A ruleset that handles every access to files and allows none. */
static bool enter_landlock(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 1)
        return false;
    struct landlock_ruleset_attr attr = {
        .handled_access_fs =
            abi >= 2 ? LANDLOCK_ACCESS_FS_REFER | 0x1fff : 0x1fff, /* the 13 rights of version 1 */
    };
    long fd = syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    if (fd < 0)
        return false;
    bool ok = syscall(SYS_landlock_restrict_self, (int)fd, 0) == 0;
    (void)close((int)fd);
    return ok;
}

static int add_rows(scmp_filter_ctx filter, const struct dz_os_jail *jail)
{
    for (size_t i = 0; i < jail->call_count; i++) {
        const struct dz_os_syscall *c = &jail->calls[i];
        int rc = c->mask ? seccomp_rule_add(
                               filter, SCMP_ACT_ALLOW, c->number, 1,
                               SCMP_CMP((unsigned)c->arg, SCMP_CMP_MASKED_EQ, c->mask, c->value))
                         : seccomp_rule_add(filter, SCMP_ACT_ALLOW, c->number, 0);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int enter_filter(const struct dz_os_jail *jail, struct dz_err *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    if (!filter)
        return dz_fail(err, DZ_ENOMEM, "make a seccomp filter: out of memory");
    int rc = add_rows(filter, jail);
    if (rc == 0)
        rc = seccomp_load(filter);
    seccomp_release(filter);
    if (rc == -EINVAL || rc == -ENOSYS)
        return dz_fail(err, DZ_EUNSUPPORTED,
                       "this kernel has no seccomp filters: guests cannot be jailed here");
    return rc < 0 ? dz_fail_sys(err, -rc, "load the seccomp filter") : 0;
}

int dz_os_jail_enter(const struct dz_os_jail *jail, struct dz_os_jail_report *ret_report,
                     struct dz_err *err)
{
    struct dz_os_jail_report report = {0};
    pid_t parent = getppid();
    report.namespaces = enter_namespaces(jail->namespaces);
    if (jail->parent_signal) {
        if (prctl(PR_SET_PDEATHSIG, jail->parent_signal) < 0)
            return dz_fail_sys(err, errno, "ask for a signal when the parent dies");
        if (getppid() != parent) /* it died in between */
            (void)raise(jail->parent_signal);
    }
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return dz_fail_sys(err, errno, "forbid core dumps");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return dz_fail_sys(err, errno, "give up new privileges");
    if (jail->landlock)
        report.landlock = enter_landlock();
    int rc = enter_limits(jail, err);
    if (rc == 0)
        rc = enter_filter(jail, err);
    if (rc == 0)
        *ret_report = report;
    return rc;
}

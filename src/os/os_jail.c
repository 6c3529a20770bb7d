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
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
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

#include "base/fd.h"
#include "base/mem.h"
#include "base/sanitize.h"

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
    {.number = __NR_sync_file_range},
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
#if DZ_SANITIZED /* a report asks whether standard error is a terminal */
    {.number = __NR_ioctl, .arg = 1, .mask = ~0ull, .value = TCGETS},
#endif
};
const size_t dz_os_jail_compute_count = DZ_ARRAY_LEN(dz_os_jail_compute);

const struct dz_os_syscall dz_os_jail_nest[] = {
    /* clone(2) for a child of our parent; clone3(2) hides its flags and is not here */
    {.number = __NR_clone, .arg = 0, .mask = ~0ull, .value = CLONE_PARENT | SIGCHLD},
    {.number = __NR_openat, .arg = 2, .mask = O_ACCMODE | O_CREAT, .value = O_RDONLY},
    {.number = __NR_userfaultfd},
    {.number = __NR_memfd_create},
    {.number = __NR_close_range},
    {.number = __NR_prctl},
    {.number = __NR_seccomp},
    {.number = __NR_landlock_create_ruleset},
    {.number = __NR_landlock_restrict_self},
    {.number = __NR_prlimit64},
    {.number = __NR_getppid},
};
const size_t dz_os_jail_nest_count = DZ_ARRAY_LEN(dz_os_jail_nest);

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

static void allow_proc(int ruleset)
{
    struct landlock_path_beneath_attr proc = {.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE};
    proc.parent_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (proc.parent_fd < 0)
        return;
    (void)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &proc, 0);
    (void)close(proc.parent_fd);
}

/* A ruleset that handles every access to files and allows none, or reading of /proc. */
static bool enter_landlock(bool proc)
{
    static long abi; /* the same for all that are forked from here */
    if (abi == 0)
        abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 1)
        return false;
    struct landlock_ruleset_attr attr = {
        .handled_access_fs =
            abi >= 2 ? LANDLOCK_ACCESS_FS_REFER | 0x1fff : 0x1fff, /* the 13 rights of version 1 */
    };
    long fd = syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    if (fd < 0)
        return false;
    if (proc)
        allow_proc((int)fd);
    bool ok = syscall(SYS_landlock_restrict_self, (int)fd, 0) == 0;
    (void)close((int)fd);
    return ok;
}

static int add_rows(scmp_filter_ctx filter, const struct dz_os_syscall *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct dz_os_syscall *c = &calls[i];
        int rc = c->mask ? seccomp_rule_add(
                               filter, SCMP_ACT_ALLOW, c->number, 1,
                               SCMP_CMP((unsigned)c->arg, SCMP_CMP_MASKED_EQ, c->mask, c->value))
                         : seccomp_rule_add(filter, SCMP_ACT_ALLOW, c->number, 0);
        if (rc < 0)
            return rc;
    }
    return 0;
}

struct dz_os_filter {
    struct sock_fprog program;
    size_t size;
    struct sock_filter steps[];
};

/* libseccomp writes a program to a descriptor only. */
static int export(scmp_filter_ctx ctx, struct dz_os_filter **ret, struct dz_err *err)
{
    DZ_AUTO(dz_fd_close) int fd = memfd_create("doze-filter", MFD_CLOEXEC);
    int rc = fd < 0 ? -errno : seccomp_export_bpf(ctx, fd);
    off_t size = rc < 0 || fd < 0 ? 0 : lseek(fd, 0, SEEK_CUR);
    if (rc < 0 || size <= 0)
        return dz_fail_sys(err, rc < 0 ? -rc : EIO, "make a seccomp filter");
    struct dz_os_filter *f = dz_alloc(sizeof *f + (size_t)size);
    if (!f)
        return dz_fail(err, DZ_ENOMEM, "make a seccomp filter: out of memory");
    if (pread(fd, f->steps, (size_t)size, 0) != size) {
        dz_free(f);
        return dz_fail_sys(err, EIO, "read a seccomp filter");
    }
    f->size = (size_t)size;
    f->program.len = (unsigned short)(f->size / sizeof f->steps[0]);
    f->program.filter = f->steps;
    *ret = f;
    return 0;
}

int dz_os_filter_new(const struct dz_os_syscall *calls, size_t count,
                     struct dz_os_filter **ret_filter, struct dz_err *err)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
    if (!ctx)
        return dz_fail(err, DZ_ENOMEM, "make a seccomp filter: out of memory");
    int rc = add_rows(ctx, calls, count);
    rc = rc < 0 ? dz_fail_sys(err, -rc, "make a seccomp filter") : export(ctx, ret_filter, err);
    seccomp_release(ctx);
    return rc;
}

void dz_os_filter_free(struct dz_os_filter *f)
{
    dz_free(f);
}

static int load(const struct dz_os_filter *f, struct dz_err *err)
{
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &f->program) == 0)
        return 0;
    if (errno == EINVAL || errno == ENOSYS)
        return dz_fail(err, DZ_EUNSUPPORTED,
                       "this kernel has no seccomp filters: guests cannot be jailed here");
    return dz_fail_sys(err, errno, "load the seccomp filter");
}

static int enter_filter(const struct dz_os_jail *jail, struct dz_err *err)
{
    if (jail->filter)
        return load(jail->filter, err);
    struct dz_os_filter *f = NULL;
    int rc = dz_os_filter_new(jail->calls, jail->call_count, &f, err);
    if (rc == 0)
        rc = load(f, err);
    dz_os_filter_free(f);
    return rc;
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
    if (!jail->dumpable && prctl(PR_SET_DUMPABLE, 0) < 0)
        return dz_fail_sys(err, errno, "forbid core dumps");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return dz_fail_sys(err, errno, "give up new privileges");
    if (jail->landlock)
        report.landlock = enter_landlock(jail->landlock_proc);
    int rc = enter_limits(jail, err);
    if (rc == 0)
        rc = enter_filter(jail, err);
    if (rc == 0)
        *ret_report = report;
    return rc;
}

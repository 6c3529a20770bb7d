/* SPDX-License-Identifier: MIT
 *
 * os_jail.c - entering a jail: see os_jail.h.
 *
 * The order matters: making namespaces needs privileges, which no_new_privs keeps but seccomp
 * removes; Landlock needs no_new_privs; the filter comes last, because it forbids the calls that
 * set up the rest.
 */
#include "os/os_jail.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "os/os_guard.h"
#include "os/os_uapi.h"
#include "os/os_user.h"

enum {
    CAPABILITIES_MAX = 64, /* number of bits in a capability set */
    ARGS_MAX = 6,          /* of a system call */
};

const int dz_os_jail_namespaces = CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNS;

static const char *const fences[] = {
#define X(id, name, text) name,
    DZ_OS_FENCES(X)
#undef X
};

void dz_os_fences_print(uint32_t set, char *ret_text, size_t size)
{
    size_t len = 0;
    (void)snprintf(ret_text, size, "none");
    for (size_t i = 0; i < DZ_OS_FENCE_COUNT; i++)
        if ((set & 1u << i) && len < size)
            len += (size_t)snprintf(ret_text + len, size - len, "%s%s", len ? " " : "", fences[i]);
}

int dz_os_fences_parse(const char *text, uint32_t *ret_fences, struct dz_err *err)
{
    uint32_t set = 0;
    for (;;) {
        text += strspn(text, ", ");
        size_t n = strcspn(text, ", "), i = 0;
        if (n == 0)
            break;
        while (i < DZ_OS_FENCE_COUNT &&
               (strlen(fences[i]) != n || strncmp(fences[i], text, n) != 0))
            i++;
        if (i == DZ_OS_FENCE_COUNT)
            return dz_fail(err, DZ_EINVAL,
                           "\"%.*s\" is not a fence; the fences are: landlock, "
                           "scopes, user, net, ipc, uts, mount, pid, caps, users",
                           (int)n, text);
        set |= 1u << i;
        text += n;
    }
    *ret_fences = set;
    return 0;
}

static uint32_t demanded;

void dz_os_jail_demand(uint32_t set)
{
    demanded = set;
}

uint32_t dz_os_jail_demanded(void)
{
    return demanded;
}

static int check_demanded(uint32_t held, struct dz_err *err)
{
    char missing[128];
    if ((demanded & ~held) == 0)
        return 0;
    dz_os_fences_print(demanded & ~held, missing, sizeof missing);
    return dz_fail(err, DZ_EUNSUPPORTED,
                   "enter the jail: this host does not provide %s, which the setting "
                   "cells.fences requires; \"doze doctor\" says what is missing",
                   missing);
}

static int enter_limits(const struct dz_os_jail *jail, struct dz_err *err)
{
    for (size_t i = 0; i < jail->limit_count; i++) {
        const struct dz_os_rlimit *l = &jail->limits[i];
        struct rlimit r = {l->most, l->most}, now;
        if (getrlimit((__rlimit_resource_t)l->resource, &now) == 0 && now.rlim_max < r.rlim_max)
            r.rlim_cur = r.rlim_max = now.rlim_max; /* the present limit is lower */
        if (setrlimit((__rlimit_resource_t)l->resource, &r) < 0)
            return dz_fail_sys(err, errno, "set resource limit %d to %llu", l->resource,
                               (unsigned long long)l->most);
    }
    return 0;
}

/* --- namespaces ----------------------------------------------------------------------- */

/* Unshare all wanted namespaces, in a new user namespace if possible, which needs no privileges.
 * Else try them one by one, because a host that forbids one may permit another. */
static int unshare_what_is_granted(int wanted)
{
    static const int each[] = {CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWNS,
                               CLONE_NEWCGROUP};
    int got = 0;
    if (!wanted)
        return 0;
    if (unshare(CLONE_NEWUSER | wanted) == 0)
        return CLONE_NEWUSER | wanted;
    if (unshare(wanted) == 0)
        return wanted;
    for (size_t i = 0; i < DZ_ARRAY_LEN(each); i++)
        if ((wanted & each[i]) && unshare(each[i]) == 0)
            got |= each[i];
    return got;
}

/* Leave all files of the host: change the root to the guard's, whose /proc shows only the guarded
 * processes. Without a guard the root becomes an empty directory, unless the jail needs /proc. */
static bool leave_files(bool proc)
{
    static const char root[] = DZ_OS_GUARD_ROOT;
    bool guarded = access(DZ_OS_GUARD_ROOT "/proc/self", F_OK) == 0;
    if ((proc && !guarded) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return false;
    if (mount(guarded ? root : "doze-root", root, guarded ? NULL : "tmpfs",
              guarded ? MS_BIND | MS_REC : MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY,
              guarded ? NULL : "size=4k,mode=0555") < 0)
        return false;
    return chdir(root) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
           umount2(".", MNT_DETACH) == 0 && chdir("/") == 0;
}

/* If the parent has no pid in our pid namespace, no process outside has one. */
static bool has_own_pids(void)
{
    return getppid() == 0;
}

static uint32_t namespace_fences(int got, bool proc)
{
    return (got & CLONE_NEWUSER ? DZ_OS_FENCE_BIT(USER) : 0) |
           (got & CLONE_NEWNET ? DZ_OS_FENCE_BIT(NET) : 0) |
           (got & CLONE_NEWIPC ? DZ_OS_FENCE_BIT(IPC) : 0) |
           (got & CLONE_NEWUTS ? DZ_OS_FENCE_BIT(UTS) : 0) |
           (got & CLONE_NEWNS && leave_files(proc) ? DZ_OS_FENCE_BIT(MOUNT) : 0) |
           (has_own_pids() ? DZ_OS_FENCE_BIT(PID) : 0);
}

/* --- a user of its own ------------------------------------------------------------------ */

static bool write_map(pid_t pid, const char *name, const char *line)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return dz_fd_put(path, line);
}

/* A user namespace has only the ids in its map, and only a process outside may map other ids than
 * its own. So a child stays outside, waits until its parent reports that it is inside, and writes
 * the map, in which each id is the same on both sides. */
struct mapper {
    pid_t pid;
    int word; /* a pipe to it */
};

static int start_mapper(const struct dz_os_users *users, struct mapper *ret, struct dz_err *err)
{
    char line[48], byte;
    int ends[2];
    pid_t us = getpid();
    if (pipe2(ends, O_CLOEXEC) < 0)
        return dz_fail_sys(err, errno, "map users: make a pipe");
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(ends[1]);
        (void)snprintf(line, sizeof line, "%u %u %u", users->first, users->first, users->count);
        bool asked = read(ends[0], &byte, 1) == 1;
        _exit(!asked || (write_map(us, "uid_map", line) && write_map(us, "gid_map", line)) ? 0 : 1);
    }
    (void)close(ends[0]);
    *ret = (struct mapper){pid, ends[1]};
    if (pid < 0) {
        (void)close(ends[1]);
        return dz_fail_sys(err, errno, "map users: fork");
    }
    return 0;
}

static int end_mapper(const struct mapper *m, bool map, struct dz_err *err)
{
    int status = 0;
    if (map && write(m->word, "m", 1) != 1)
        map = false; /* the child's exit status reports the failure */
    (void)close(m->word);
    pid_t pid;
    do
        pid = waitpid(m->pid, &status, 0);
    while (pid < 0 && errno == EINTR);
    return pid == m->pid && status == 0
               ? 0
               : dz_fail(err, DZ_EDENIED,
                         "the users of cells.uids cannot be mapped into a user "
                         "namespace here: set cells.uids to no");
}

static int become_user(uint32_t user, struct dz_err *err)
{
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
        return dz_fail_sys(err, errno, "become user %u", user);
    return dz_os_user_become(user, err);
}

/* Become the jail's user and make the namespaces. The capabilities are kept; they are dropped
 * later. The limit on processes must be high enough for a zygote, because its waiting cells count
 * as processes of its user.
 *
 * The kernel counts all processes of a user namespace for the user who made it, even after they
 * became other users, and applies the limit that this user had then, except to root. So we become
 * the user first. We do so again inside, because entering a new namespace resets the securebits. */
static int enter_user(const struct dz_os_jail *jail, int *ret_got, struct dz_err *err)
{
    const rlim_t most = jail->processes ? jail->processes : RLIM_INFINITY;
    const struct rlimit many = {most, most};
    struct mapper mapper = {0};
    (void)setrlimit(RLIMIT_NPROC, &many);
    if (setgroups(0, NULL) < 0)
        return dz_fail_sys(err, errno, "give up all groups");
    int rc = start_mapper(jail->users, &mapper, err);
    if (rc < 0)
        return rc;
    rc = become_user(jail->user, err);
    if (rc == 0)
        *ret_got = unshare_what_is_granted(jail->namespaces);
    int mapped = end_mapper(&mapper, *ret_got & CLONE_NEWUSER, rc < 0 ? NULL : err);
    rc = rc < 0 ? rc : mapped;
    return rc < 0 ? rc : become_user(jail->user, err);
}

/* --- privileges ----------------------------------------------------------------------- */

/* The capabilities that dz_os_user_settle() needs. */
#define TO_SETTLE (1u << CAP_SETUID | 1u << CAP_SETGID)

/* Securebits: uid 0 gives no capabilities, and no capability can be raised again. */
enum {
    SECURE = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
             SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
             SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
};

static bool has_capabilities(uint32_t but, uint32_t but_inherited)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {0};
    return syscall(SYS_capget, &head, sets) < 0 || (sets[0].permitted & ~but) ||
           sets[1].permitted || (sets[0].inheritable & ~but_inherited) || sets[1].inheritable;
}

/* Pass the kept capabilities on to executed programs, as ambient ones, which must be inheritable,
 * too. */
static int keep_ambient(uint32_t kept, struct dz_err *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {0};
    if (syscall(SYS_capget, &head, sets) < 0)
        return dz_fail_sys(err, errno, "read the capabilities");
    sets[0].inheritable = kept;
    bool kept_all = syscall(SYS_capset, &head, sets) == 0;
    for (unsigned long cap = 0; cap < 32; cap++)
        if (kept >> cap & 1)
            kept_all = kept_all && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) == 0;
    return kept_all ? 0 : dz_fail_sys(err, errno, "keep the capabilities to become another user");
}

/* Drop all capabilities but `kept`. The bounding set comes first, because changing it needs a
 * capability. A process without capabilities keeps a full bounding set, which is harmless: it
 * cannot exec, and has no_new_privs. */
static int drop_capabilities(uint32_t kept, bool ambient, struct dz_err *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    const uint32_t inherited = ambient ? kept : 0;
    const struct __user_cap_data_struct left[_LINUX_CAPABILITY_U32S_3] = {
        {.effective = kept, .permitted = kept, .inheritable = inherited}};
    if (!has_capabilities(0, 0))
        return 0;
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    const int rc = inherited ? keep_ambient(inherited, err) : 0;
    if (rc < 0)
        return rc;
    for (unsigned long cap = 0; cap < CAPABILITIES_MAX; cap++)
        (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0); /* EINVAL after the last existing one */
    (void)prctl(PR_SET_SECUREBITS, SECURE, 0, 0, 0);
    if (syscall(SYS_capset, &head, left) < 0 || has_capabilities(kept, inherited))
        return dz_fail_sys(err, errno, "give up all capabilities");
    return 0;
}

/* --- Landlock ------------------------------------------------------------------------- */

static void allow_proc(int ruleset)
{
    struct landlock_path_beneath_attr proc = {.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE};
    proc.parent_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (proc.parent_fd < 0)
        return;
    (void)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &proc, 0);
    (void)close(proc.parent_fd);
}

/* Restrict every access that this kernel's Landlock knows but what the jail excepts. Signals and
 * abstract sockets cannot reach outside of the domain. Returns the fences. */
static uint32_t enter_landlock(const struct dz_os_jail *jail, int *ret_abi)
{
    static long abi; /* constant; forked children reuse it */
    struct dz_landlock_attr attr = {.fs = DZ_LANDLOCK_FS_ABI1};
    if (abi == 0)
        abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 1)
        return 0;
    attr.fs |= abi >= 2 ? DZ_LANDLOCK_FS_REFER : 0;
    attr.fs |= abi >= 3 ? DZ_LANDLOCK_FS_TRUNCATE : 0;
    attr.fs |= abi >= 5 ? DZ_LANDLOCK_FS_IOCTL_DEV : 0;
    attr.net = abi < 4 ? 0 : jail->landlock_net ? DZ_LANDLOCK_NET_BIND : DZ_LANDLOCK_NET_TCP;
    attr.scoped = abi >= 6 ? DZ_LANDLOCK_SCOPE_UNIX | DZ_LANDLOCK_SCOPE_SIGNAL : 0;
    size_t size = abi >= 6   ? sizeof attr
                  : abi >= 4 ? offsetof(struct dz_landlock_attr, scoped)
                             : offsetof(struct dz_landlock_attr, net);
    long fd = syscall(SYS_landlock_create_ruleset, &attr, size, 0);
    if (fd < 0)
        return 0;
    if (jail->landlock_proc)
        allow_proc((int)fd);
    bool ok = syscall(SYS_landlock_restrict_self, (int)fd, 0) == 0;
    (void)close((int)fd);
    *ret_abi = ok ? (int)abi : 0;
    return ok ? DZ_OS_FENCE_BIT(LANDLOCK) | (attr.scoped ? DZ_OS_FENCE_BIT(SCOPES) : 0) : 0;
}

/* --- the filter ----------------------------------------------------------------------- */

static int add_rows(scmp_filter_ctx filter, const struct dz_os_syscall *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct dz_os_syscall *c = &calls[i];
        struct scmp_arg_cmp conditions[ARGS_MAX];
        unsigned n = 0, wanted = !c->mask ? 0 : c->args ? (unsigned)c->args : 1;
        for (; n < wanted && n < ARGS_MAX; n++)
            conditions[n] = SCMP_CMP((unsigned)c->arg + n, SCMP_CMP_MASKED_EQ, c->mask, c->value);
        if (c->also_mask && n < ARGS_MAX) {
            conditions[n] =
                SCMP_CMP((unsigned)c->arg + n, SCMP_CMP_MASKED_EQ, c->also_mask, c->also_value);
            n++;
        }
        int rc = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, c->number, n, conditions);
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

/* libseccomp can export a program only to a descriptor. */
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

int dz_os_filter_new(const struct dz_os_syscall *calls, size_t count, bool traps,
                     struct dz_os_filter **ret_filter, struct dz_err *err)
{
    scmp_filter_ctx ctx = seccomp_init(traps ? SCMP_ACT_TRAP : SCMP_ACT_KILL_PROCESS);
    if (!ctx)
        return dz_fail(err, DZ_ENOMEM, "make a seccomp filter: out of memory");
    int rc = add_rows(ctx, calls, count);
    if (rc == 0 && traps) /* each call of a guest runs it: use a binary search */
        rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (rc == 0 && traps) /* the guests' kernel also answers other ABIs */
        rc = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_TRAP);
    rc = rc < 0 ? dz_fail_sys(err, -rc, "make a seccomp filter") : export(ctx, ret_filter, err);
    seccomp_release(ctx);
    return rc;
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
    int rc = dz_os_filter_new(jail->calls, jail->call_count, jail->traps, &f, err);
    if (rc == 0)
        rc = load(f, err);
    dz_free(f);
    return rc;
}

int dz_os_jail_enter(const struct dz_os_jail *jail, struct dz_os_jail_report *ret_report,
                     struct dz_err *err)
{
    struct dz_os_jail_report report = {0};
    pid_t parent = getppid();
    int got = 0, rc = 0;
    if (jail->users)
        rc = enter_user(jail, &got, err);
    else
        got = unshare_what_is_granted(jail->namespaces);
    if (rc < 0)
        return rc;
    report.fences = jail->inherits | namespace_fences(got, jail->landlock_proc) |
                    (jail->users ? DZ_OS_FENCE_BIT(USERS) : 0);
    if (jail->parent_signal) { /* set it after becoming another user, which clears it */
        if (prctl(PR_SET_PDEATHSIG, jail->parent_signal) < 0)
            return dz_fail_sys(err, errno, "ask for a signal when the parent dies");
        if (getppid() != parent) /* the parent died before the prctl */
            (void)raise(jail->parent_signal);
    }
    uint32_t kept = jail->users && jail->settles_later ? TO_SETTLE : 0;
    rc = jail->inherits & DZ_OS_FENCE_BIT(CAPS) ? 0 : drop_capabilities(kept, jail->ambient, err);
    if (rc < 0)
        return rc;
    report.fences |= DZ_OS_FENCE_BIT(CAPS);
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return dz_fail_sys(err, errno, "forbid core dumps");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return dz_fail_sys(err, errno, "give up new privileges");
    if (jail->landlock)
        report.fences |= enter_landlock(jail, &report.landlock_abi);
    rc = check_demanded(report.fences, err);
    if (rc == 0)
        rc = enter_limits(jail, err);
    if (rc == 0 && jail->open)
        rc = jail->open(jail->arg, err);
    if (rc == 0)
        rc = enter_filter(jail, err);
    if (rc == 0)
        *ret_report = report;
    return rc;
}

/* SPDX-License-Identifier: MIT
 *
 * os_probe_jail.c - probes of what can hold a process in: seccomp, Landlock, namespaces, cgroups.
 */
#include "os/os_guard.h"
#include "os/os_jail.h"
#include "os/os_probe_int.h"
#include "os/os_uapi.h"
#include "os/os_user.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY   65534
#define PROC_MAX (1u << 20) /* bytes read of a file in /proc */

/* --- seccomp --- */

/* Let everything pass but getppid, which gets `action`. */
static bool filter_getppid(unsigned action)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = DZ_ARRAY_LEN(code), .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

/* In a child of its own: does a forbidden call end the process? */
static bool filter_kills(void)
{
    int wstatus = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (filter_getppid(SECCOMP_RET_KILL_PROCESS))
            (void)syscall(SYS_getppid);
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &wstatus, 0) == pid && WIFSIGNALED(wstatus) &&
           WTERMSIG(wstatus) == SIGSYS;
}

void dz_os_probe_SECCOMP(const char *data_dir, struct dz_os_finding *f)
{
    (void)data_dir;
    if (!filter_kills()) {
        dz_os_found_wrong(f, "a filter that kills cannot be set, or does not kill");
        return;
    }
    if (!filter_getppid(SECCOMP_RET_ERRNO | EDOM)) {
        dz_os_found_errno(f, "set a filter");
        return;
    }
    if (syscall(SYS_getppid) != -1 || errno != EDOM)
        dz_os_found_wrong(f, "a filter was set, but the call that it refuses succeeds");
    else
        dz_os_found(f, "filters refuse and kill");
}

/* --- Landlock --- */

void dz_os_probe_LANDLOCK(const char *data_dir, struct dz_os_finding *f)
{
    struct landlock_ruleset_attr attr = {.handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE};
    (void)data_dir;
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 0) {
        dz_os_found_errno(f, "ask for the version of Landlock");
        return;
    }
    int rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    if (rules < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_landlock_restrict_self, rules, 0) < 0) {
        dz_os_found_errno(f, "restrict a process");
        return;
    }
    if (open("/proc/self/status", O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES)
        dz_os_found_wrong(f, "a ruleset is in force, but a forbidden file can be opened");
    else if (abi < 4)
        dz_os_found_part(f, "ABI %ld: files, but no rules for the network (those need 4)", abi);
    else
        dz_os_found(f, "ABI %ld", abi);
}

/* --- user namespaces --- */

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int sys = errno;
    if (fd >= 0)
        (void)close(fd);
    errno = sys;
    return ok;
}

bool dz_os_enter_user_ns(void)
{
    char uid[48], gid[48];
    (void)snprintf(uid, sizeof uid, "0 %u 1", geteuid());
    (void)snprintf(gid, sizeof gid, "0 %u 1", getegid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
           write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/uid_map", uid) &&
           write_text("/proc/self/gid_map", gid);
}

/* What anybody may do is the question, so root steps down first. */
static bool step_down(void)
{
    if (geteuid() != 0)
        return true;
    if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) < 0)
        return false;
    return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0; /* else our own /proc is closed to us */
}

void dz_os_probe_USER_NS(const char *data_dir, struct dz_os_finding *f)
{
    (void)data_dir;
    if (!step_down())
        dz_os_found_errno(f, "give up root's rights for the attempt");
    else if (!dz_os_enter_user_ns())
        dz_os_found_errno(f, "make a user namespace without privileges");
    else if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
             mount("doze-probe", "/tmp", "tmpfs", 0, NULL) < 0)
        dz_os_found_errno(f, "a user namespace can be made, but not mounted in");
    else if (unshare(CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
        dz_os_found_errno(f, "make pid, network, IPC and UTS namespaces in it");
    else
        dz_os_found(f, "all kinds, without privileges");
}

/* --- the jail of cells, entered --- */

struct jailed {
    int code;
    struct dz_os_jail_report report;
    char why[sizeof((struct dz_err *)0)->msg];
};

/* In a child of a process that has a guard, as cells are. */
DZ_NORETURN static void enter_jail(int result)
{
    const struct dz_os_jail jail = {.calls = dz_os_jail_compute,
                                    .call_count = dz_os_jail_compute_count,
                                    .landlock = true,
                                    .namespaces = dz_os_jail_namespaces};
    struct jailed j = {0};
    struct dz_err err = {0};
    j.code = dz_os_jail_enter(&jail, &j.report, &err);
    (void)snprintf(j.why, sizeof j.why, "%s", err.msg);
    (void)!write(result, &j, sizeof j);
    _exit(0);
}

static int try_jail(struct jailed *ret, struct dz_err *err)
{
    int host[2], result[2], guard;
    if (pipe2(host, O_CLOEXEC) < 0 || pipe2(result, O_CLOEXEC) < 0)
        return dz_fail_sys(err, errno, "make a pipe to a jail");
    int rc = dz_os_guard_start(host[0], 0, &guard, err);
    if (rc < 0)
        return rc;
    pid_t pid = fork();
    if (pid == 0)
        enter_jail(result[1]);
    (void)close(result[1]);
    if (pid < 0 || read(result[0], ret, sizeof *ret) != (ssize_t)sizeof *ret)
        return dz_fail(err, DZ_EIO, "a process died when it entered the jail");
    return 0; /* our end is that of the guard */
}

void dz_os_probe_JAIL(const char *data_dir, struct dz_os_finding *f)
{
    const uint32_t all = ((1u << DZ_OS_FENCE_COUNT) - 1) & ~DZ_OS_FENCE_BIT(USERS); /* see below */
    struct jailed j;
    struct dz_err err = {0};
    char held[128], missing[128];
    (void)data_dir;
    int rc = try_jail(&j, &err);
    if (rc < 0 || j.code < 0) {
        dz_os_found_wrong(f, "%.120s", rc < 0 ? err.msg : j.why);
        return;
    }
    dz_os_fences_print(j.report.fences, held, sizeof held);
    dz_os_fences_print(all & ~j.report.fences, missing, sizeof missing);
    if (j.report.fences == all)
        dz_os_found(f, "%s", held);
    else
        dz_os_found_part(f, "%s; without %s", held, missing);
}

/* --- the users of tenants --- */

void dz_os_probe_USERS(const char *data_dir, struct dz_os_finding *f)
{
    struct dz_os_users users = {0};
    struct dz_err err = {0};
    (void)data_dir;
    if (dz_os_users_parse(DZ_OS_USERS_DEFAULT, &users, &err) < 0 ||
        dz_os_users_check(&users, &err) < 0) {
        dz_os_found_wrong(f, "%.120s", err.msg);
        return;
    }
    const struct dz_os_jail jail = {.calls = dz_os_jail_compute,
                                    .call_count = dz_os_jail_compute_count,
                                    .namespaces = dz_os_jail_namespaces,
                                    .users = &users,
                                    .user = users.first};
    struct dz_os_jail_report report;
    if (dz_os_jail_enter(&jail, &report, &err) < 0)
        dz_os_found_wrong(f, "%.120s", err.msg);
    else
        dz_os_found(f, "ids from %u on, unless the setting cells.uids says otherwise", users.first);
}

/* --- cgroups --- */

enum {
    MEMORY = 1,
    PIDS = 2,
    CPU = 4,
    ALL_CONTROLLERS = MEMORY | PIDS | CPU,
};

/* Which of those that matter a list names ("rw,cpu,cpuacct" or "cpu memory"). */
static unsigned controllers_in(struct dz_str list, char separator)
{
    unsigned found = 0;
    struct dz_str name;
    while (dz_str_split(&list, separator, &name)) {
        name = dz_str_trim(name);
        found |= dz_str_eqz(name, "memory") ? MEMORY : 0u;
        found |= dz_str_eqz(name, "pids") ? PIDS : 0u;
        found |= dz_str_eqz(name, "cpu") ? CPU : 0u;
    }
    return found;
}

/* The kinds of hierarchy that are mounted, and where ("": not at all). */
struct hierarchies {
    unsigned v1;       /* controllers of version 1 */
    char v1_path[256]; /* the memory controller's, if it has one */
    char v2_path[256];
};

/* A line of mountinfo: "31 23 0:28 /root /mount/point options - type source super". */
static void read_mount(struct dz_str line, struct hierarchies *h)
{
    struct dz_str fields = line, field, point = {NULL, 0};
    for (int i = 0; dz_str_split(&fields, ' ', &field) && !dz_str_eqz(field, "-"); i++)
        if (i == 4)
            point = field;
    struct dz_str type, source;
    if (!dz_str_split(&fields, ' ', &type) || !dz_str_split(&fields, ' ', &source))
        return;
    if (dz_str_eqz(type, "cgroup2") && !h->v2_path[0])
        (void)snprintf(h->v2_path, sizeof h->v2_path, "%.*s", DZ_STR_ARG(point));
    if (!dz_str_eqz(type, "cgroup"))
        return;
    unsigned controllers = controllers_in(fields, ',');
    if (!h->v1_path[0] || (controllers & MEMORY))
        (void)snprintf(h->v1_path, sizeof h->v1_path, "%.*s", DZ_STR_ARG(point));
    h->v1 |= controllers;
}

static bool read_proc(const char *path, struct dz_buf *b, struct dz_os_finding *f)
{
    struct dz_err err = {0};
    if (dz_fd_read_file(AT_FDCWD, path, b, &err) == 0)
        return true;
    dz_os_found_wrong(f, "%s", err.msg);
    f->sys = err.sys;
    return false;
}

/* Our own group of version 2, in `dir`: "0::/path" in /proc/self/cgroup. */
static void own_group(struct dz_str text, const struct hierarchies *h, char *dir, size_t size)
{
    struct dz_str line;
    (void)snprintf(dir, size, "%s", h->v2_path);
    while (dz_str_split(&text, '\n', &line))
        if (dz_str_eat(&line, DZ_STR("0::")))
            (void)snprintf(dir, size, "%s%.*s", h->v2_path, DZ_STR_ARG(line));
}

static const char *names_of(unsigned controllers)
{
    static char text[32];
    (void)snprintf(text, sizeof text, "%s%s%s", controllers & MEMORY ? " memory" : "",
                   controllers & PIDS ? " pids" : "", controllers & CPU ? " cpu" : "");
    return text[0] ? text + 1 : "none";
}

/* May we make a group in this one? */
static bool may_divide(const char *dir)
{
    char path[600];
    (void)snprintf(path, sizeof path, "%s/doze-probe-%d", dir, (int)getpid());
    return mkdir(path, 0700) == 0 && rmdir(path) == 0;
}

static unsigned v2_controllers(const char *dir)
{
    struct dz_buf list = DZ_BUF_INIT(PROC_MAX);
    struct dz_os_finding ignored;
    char path[600];
    (void)snprintf(path, sizeof path, "%s/cgroup.controllers", dir);
    return read_proc(path, &list, &ignored) ? controllers_in(dz_str_n(list.p, list.len), ' ') : 0;
}

void dz_os_probe_CGROUP(const char *data_dir, struct dz_os_finding *f)
{
    struct dz_buf mounts = DZ_BUF_INIT(PROC_MAX), groups = DZ_BUF_INIT(PROC_MAX);
    struct hierarchies h = {0};
    char dir[512];
    struct dz_str text, line;

    (void)data_dir;
    if (!read_proc("/proc/self/mountinfo", &mounts, f) ||
        !read_proc("/proc/self/cgroup", &groups, f))
        return;
    text = dz_str_n(mounts.p, mounts.len);
    while (dz_str_split(&text, '\n', &line))
        read_mount(line, &h);
    own_group(dz_str_n(groups.p, groups.len), &h, dir, sizeof dir);
    unsigned v2 = h.v2_path[0] ? v2_controllers(dir) : 0;
    const char *ours = may_divide(v2 == ALL_CONTROLLERS || !h.v1 ? dir : h.v1_path)
                           ? "delegated to this user"
                           : "not delegated to this user";
    if (!h.v1_path[0] && !h.v2_path[0])
        dz_os_found_wrong(f, "no cgroup file system is mounted");
    else if (v2 == ALL_CONTROLLERS && ours[0] == 'o')
        dz_os_found(f, "version 2 with memory, pids and cpu, %s", ours);
    else if (h.v1 && v2 != ALL_CONTROLLERS)
        dz_os_found_part(f, "version 1 (%s)%s, %s", names_of(h.v1),
                         h.v2_path[0] ? ", version 2 beside it without controllers" : "", ours);
    else
        dz_os_found_part(f, "version 2 (%s), %s", names_of(v2), ours);
}

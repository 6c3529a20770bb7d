/* SPDX-License-Identifier: MIT
 *
 * os_guard.c - see os_guard.h.
 *
 *     caller -- unshare --> its children are in the new pid namespace, the caller is not
 *        \ fork: guard, process 1 there; mounts what shows that namespace
 *         \ clone: everything else
 *
 * The caller's mount namespace is new, too, so that the guard's mounts are its children's and not
 * the host's. All of them are in the caller's process group. The group exists as long as the guard
 * does, so its number cannot be reused by other processes.
 */
#include "os/os_guard.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    HOST_FD = 0, /* in the guard */
    OURS_FD = 1,
    LOOK_MS = 50,         /* interval of checks whether a process is left */
    ORPHANS_MS = 1000,    /* interval of checks for orphans */
    ORPHANS_BYTES = 8192, /* bytes of their pids read in one check */
};

/* Without privileges, a user namespace is needed to make the others. It maps the caller's id to
 * itself, because otherwise the children could make no user namespace of their own. */
static bool unshare_as_anybody(int wanted)
{
    char uid[48], gid[48];
    (void)snprintf(uid, sizeof uid, "%u %u 1", geteuid(), geteuid());
    (void)snprintf(gid, sizeof gid, "%u %u 1", getegid(), getegid());
    return unshare(CLONE_NEWUSER | wanted) == 0 && dz_fd_put("/proc/self/setgroups", "deny") &&
           dz_fd_put("/proc/self/uid_map", uid) && dz_fd_put("/proc/self/gid_map", gid);
}

/* Drop the capabilities that the user namespace gave; only the mounts needed them. */
static void drop_gained(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    (void)syscall(SYS_capset, &head, none);
}

/* This /proc shows only processes, and each reader only the processes that it could trace. That is
 * the reader alone, because none of these processes is dumpable. */
#define OWN_PROC "subset=pid,hidepid=4" /* 2 hides nothing from the group of root */

/* Mount the guard's /proc and root. A jail recognises a guard's root by these mounts. Returns
 * whether /proc shows our own namespace. */
static bool mount_own(void)
{
    const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    const bool proc = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                      mount("proc", "/proc", "proc", flags, OWN_PROC) == 0;
    if (proc && mount("doze-root", DZ_OS_GUARD_ROOT, "tmpfs", flags, "size=4k,mode=0555") == 0 &&
        mkdir(DZ_OS_GUARD_ROOT "/proc", 0555) == 0 &&
        mount("proc", DZ_OS_GUARD_ROOT "/proc", "proc", flags, OWN_PROC) == 0)
        (void)mount(NULL, DZ_OS_GUARD_ROOT, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | flags, NULL);
    return proc;
}

/* Kill the children of process 1 (the guard) while the host lives. All processes that should live
 * are children of the host; process 1 adopts only the orphans of a dead cell. (A guest's process
 * normally dies with its cell, but not if the guest influenced how it was forked.) Only process 1
 * reaps them and the kernel reuses pids late, so a pid from the list still means the same process.
 */
static void kill_orphans(struct pollfd *host)
{
    static char text[ORPHANS_BYTES];
    DZ_AUTO(dz_fd_close) int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text);
    pid_t pid = 0;
    if (n <= 0 ||
        poll(host, 1, 0) != 0) /* a dying host closes the pipe before its children are orphaned */
        return;
    for (ssize_t i = 0; i < n; i++) { /* pids, each followed by a space */
        if (text[i] >= '0' && text[i] <= '9') {
            pid = pid * 10 + (text[i] - '0');
            continue;
        }
        if (pid > 1)
            (void)kill(pid, SIGKILL);
        pid = 0;
    }
}

/* Wait at most grace_ms for the remaining processes to end. In a pid namespace return as soon as
 * kill(-1) finds no process besides the guard. */
static void wait_for_all(int grace_ms, bool inside)
{
    for (int left = grace_ms; left > 0; left -= LOOK_MS) {
        if (inside && kill(-1, 0) < 0 && errno == ESRCH)
            return;
        (void)poll(NULL, 0, left < LOOK_MS ? left : LOOK_MS);
    }
}

/* The guard's main function. When the host dies, the kernel closes its end of the pipe. */
DZ_NORETURN static void guard(int host, int ours, int grace_ms, bool inside, bool gained)
{
    struct pollfd p = {.fd = HOST_FD, .events = POLLIN};
    if (dup2(host, HOST_FD) < 0 || dup2(ours, OURS_FD) < 0 ||
        syscall(SYS_close_range, OURS_FD + 1, ~0u, 0) < 0)
        _exit(1);
    (void)prctl(PR_SET_NAME, "doze-guard");
    (void)prctl(PR_SET_DUMPABLE, 0); /* a zygote of the same user must not inspect us */
    (void)signal(SIGCHLD, SIG_IGN);  /* the kernel reaps the orphans of dead cells */
    const bool sees = inside && mount_own();
    if (gained)
        drop_gained();
    if (write(OURS_FD, "r", 1) != 1)
        _exit(1);
    for (int n; (n = poll(&p, 1, sees ? ORPHANS_MS : -1)) <= 0;)
        if (n == 0)
            kill_orphans(&p);
    if (!(p.revents & POLLIN))
        wait_for_all(grace_ms, inside);
    (void)kill(0, SIGKILL); /* process 1 survives this; its exit ends the pid namespace */
    _exit(0);
}

int dz_os_guard_start(int host, int grace_ms, int *ret_guard, struct dz_err *err)
{
    const int own = CLONE_NEWPID | CLONE_NEWNS;
    int ends[2];
    char byte;
    if (setsid() < 0 && getpgrp() != getpid()) /* because the guard kills its whole group */
        return dz_fail_sys(err, errno, "start a guard: make a session");
    if (pipe2(ends, O_CLOEXEC) < 0)
        return dz_fail_sys(err, errno, "start a guard: make a pipe");
    bool inside = unshare(own) == 0, gained = !inside && unshare_as_anybody(own);
    pid_t pid = fork();
    if (pid == 0)
        guard(host, ends[1], grace_ms, inside || gained, gained);
    (void)close(ends[1]);
    if (gained)
        drop_gained();
    ssize_t n;
    do
        n = pid < 0 ? -1 : read(ends[0], &byte, 1);
    while (n < 0 && pid > 0 && errno == EINTR);
    if (n != 1) {
        (void)close(ends[0]);
        return dz_fail_sys(err, pid < 0 ? errno : EIO, "start a guard");
    }
    *ret_guard = ends[0];
    return 0;
}

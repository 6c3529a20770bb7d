/* SPDX-License-Identifier: MIT
 *
 * os_guard.c - see os_guard.h.
 *
 *     caller -- unshare --> its children are in the new pid namespace, itself is not
 *        \ fork: guard, process 1 there; mounts what shows that namespace
 *         \ clone: everything else
 *
 * The caller's mount namespace is new, too, so that the guard's mounts are its children's and not
 * the host's. All of them are in the caller's process group, which lives as long as the guard
 * does: its number is never that of strangers.
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
    HOST_FD = 0, /* of the guard */
    OURS_FD = 1,
    LOOK_MS = 50,         /* between two looks at whether somebody is left */
    ORPHANS_MS = 1000,    /* between two looks for orphans */
    ORPHANS_BYTES = 8192, /* of their numbers, in one look */
};

/* Without privileges a user namespace carries the others. It knows the caller by the id that it
 * has outside, or its children could make no user namespace of their own. */
static bool unshare_as_anybody(int wanted)
{
    char uid[48], gid[48];
    (void)snprintf(uid, sizeof uid, "%u %u 1", geteuid(), geteuid());
    (void)snprintf(gid, sizeof gid, "%u %u 1", getegid(), getegid());
    return unshare(CLONE_NEWUSER | wanted) == 0 && dz_fd_put("/proc/self/setgroups", "deny") &&
           dz_fd_put("/proc/self/uid_map", uid) && dz_fd_put("/proc/self/gid_map", gid);
}

/* All that a user namespace gave: the mounts were what it was for. */
static void drop_gained(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    (void)syscall(SYS_capset, &head, none);
}

/* /proc shows only processes, and to each reader only those that it could trace. That is the reader
 * alone, because none of these processes is dumpable. */
#define OWN_PROC "subset=pid,hidepid=4" /* 2 hides nothing from the group of root */

/* A jail that asks whether it has the root of a guard looks for all of this. Returns whether /proc
 * shows our own namespace. */
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

/* Process 1 becomes the parent of whoever's parent has died. All that are meant to live are
 * children of the host, so while the host lives the children of process 1 are what a dead cell
 * left: its guests' processes die with it, unless they had a hand in their own birth. Process 1
 * reaps what ends, and numbers are given in a circle, so a number of the list is still the same
 * process. */
static void kill_orphans(struct pollfd *host)
{
    static char text[ORPHANS_BYTES];
    DZ_AUTO(dz_fd_close) int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text);
    pid_t pid = 0;
    if (n <= 0 ||
        poll(host, 1, 0) != 0) /* a dying host closes the pipe before it leaves children */
        return;
    for (ssize_t i = 0; i < n; i++) { /* numbers, each with a space behind it */
        if (text[i] >= '0' && text[i] <= '9') {
            pid = pid * 10 + (text[i] - '0');
            continue;
        }
        if (pid > 1)
            (void)kill(pid, SIGKILL);
        pid = 0;
    }
}

/* Give those who are left their time, and no more than they need where they can be counted: nobody
 * but the guard is left in its pid namespace when there is nobody for it to signal. */
static void wait_for_all(int grace_ms, bool inside)
{
    for (int left = grace_ms; left > 0; left -= LOOK_MS) {
        if (inside && kill(-1, 0) < 0 && errno == ESRCH)
            return;
        (void)poll(NULL, 0, left < LOOK_MS ? left : LOOK_MS);
    }
}

/* The guard's life. When its host dies, in whatever way, the pipe is closed. */
DZ_NORETURN static void guard(int host, int ours, int grace_ms, bool inside, bool gained)
{
    struct pollfd p = {.fd = HOST_FD, .events = POLLIN};
    if (dup2(host, HOST_FD) < 0 || dup2(ours, OURS_FD) < 0 ||
        syscall(SYS_close_range, OURS_FD + 1, ~0u, 0) < 0)
        _exit(1);
    (void)prctl(PR_SET_NAME, "doze-guard");
    (void)prctl(PR_SET_DUMPABLE, 0); /* nothing for a zygote of the same user to look at */
    (void)signal(SIGCHLD, SIG_IGN);  /* what a dead cell leaves behind is process 1's to reap */
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
    (void)kill(0, SIGKILL); /* as process 1 it survives that, and takes the namespace with it: */
    _exit(0);
}

int dz_os_guard_start(int host, int grace_ms, int *ret_guard, struct dz_err *err)
{
    const int own = CLONE_NEWPID | CLONE_NEWNS;
    int ends[2];
    char byte;
    if (setsid() < 0 && getpgrp() != getpid()) /* the guard ends its whole group */
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

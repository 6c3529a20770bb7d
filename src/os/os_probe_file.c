/* SPDX-License-Identifier: MIT
 *
 * os_probe_file.c - probes of files, devices and processes.
 */
#include "os/os_probe_int.h"
#include "os/os_proc_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/kvm.h>
#include <linux/magic.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

/* A file without a name in dir, or one whose name is gone again. */
static int unnamed_file(const char *dir)
{
    char path[4096];
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return fd;
    (void)snprintf(path, sizeof path, "%s/.doze-probe-XXXXXX", dir);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path);
    return fd;
}

static const char *file_system_name(int fd)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } known[] = {{EXT4_SUPER_MAGIC, "ext4"},   {XFS_SUPER_MAGIC, "xfs"},
                 {BTRFS_SUPER_MAGIC, "btrfs"}, {OVERLAYFS_SUPER_MAGIC, "overlayfs"},
                 {TMPFS_MAGIC, "tmpfs"},       {F2FS_SUPER_MAGIC, "f2fs"},
                 {NFS_SUPER_MAGIC, "nfs"},     {FUSE_SUPER_MAGIC, "fuse"}};
    struct statfs fs;
    if (fstatfs(fd, &fs) == 0)
        for (size_t i = 0; i < DZ_ARRAY_LEN(known); i++)
            if ((unsigned long)fs.f_type == known[i].magic)
                return known[i].name;
    return "this file system";
}

void dz_os_probe_REFLINK(const char *data_dir, struct dz_os_finding *f)
{
    static const char data[8192] = "shared by two files";
    char back[sizeof data] = "";
    int from = unnamed_file(data_dir), to = unnamed_file(data_dir);
    if (from < 0 || to < 0 || write(from, data, sizeof data) != (ssize_t)sizeof data)
        dz_os_found_errno(f, "make files in %s", data_dir);
    else if (ioctl(to, FICLONE, from) < 0)
        dz_os_found_errno(f, "share blocks of files on %s in %s", file_system_name(to), data_dir);
    else if (pread(to, back, sizeof back, 0) != (ssize_t)sizeof back ||
             memcmp(back, data, sizeof back) != 0)
        dz_os_found_wrong(f, "a cloned file on %s differs", file_system_name(to));
    else
        dz_os_found(f, "%s shares blocks between files in %s", file_system_name(to), data_dir);
}

void dz_os_probe_LOCKS(const char *data_dir, struct dz_os_finding *f)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[64];
    int first = unnamed_file(data_dir);
    if (first < 0) {
        dz_os_found_errno(f, "make a file in %s", data_dir);
        return;
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", first);
    int second = open(path, O_RDWR | O_CLOEXEC); /* another description of the same file */
    if (second < 0 || fcntl(first, F_OFD_SETLK, &lock) < 0)
        dz_os_found_errno(f, "lock a file in %s", data_dir);
    else if (fcntl(second, F_OFD_SETLK, &lock) == 0)
        dz_os_found_wrong(f, "in %s the same lock is given twice", data_dir);
    else if (errno != EAGAIN && errno != EACCES)
        dz_os_found_errno(f, "lock a file twice in %s", data_dir);
    else
        dz_os_found(f, "a file is locked for one holder at a time in %s", data_dir);
}

void dz_os_probe_NOFILE(const char *data_dir, struct dz_os_finding *f)
{
    const rlim_t plenty = 65536;
    struct rlimit limit;
    (void)data_dir;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        dz_os_found_errno(f, "ask for the limit");
    else if (limit.rlim_max >= plenty)
        dz_os_found(f, "up to %llu a process", (unsigned long long)limit.rlim_max);
    else
        dz_os_found_part(f, "at most %llu a process (ulimit -Hn)",
                         (unsigned long long)limit.rlim_max);
}

void dz_os_probe_PIDFD(const char *data_dir, struct dz_os_finding *f)
{
    int pidfd = -1;
    siginfo_t info = {0};
    struct clone_args args = {
        .flags = CLONE_PIDFD, .pidfd = (uintptr_t)&pidfd, .exit_signal = SIGCHLD};
    (void)data_dir;
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        _exit(42);
    if (pid < 0) {
        dz_os_found_errno(f, "clone3 with a pidfd");
        return;
    }
    struct pollfd fd = {.fd = pidfd, .events = POLLIN};
    if (poll(&fd, 1, DZ_OS_PROBE_MS) != 1 || waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0)
        dz_os_found_errno(f, "wait for a process by its pidfd");
    else if (info.si_status != 42)
        dz_os_found_wrong(f, "a pidfd gave the wrong status (%d)", info.si_status);
    else
        dz_os_found(f, "processes are started and watched by descriptor");
}

/* The device must be opened in the user namespace that mounts it. */
void dz_os_probe_FUSE(const char *data_dir, struct dz_os_finding *f)
{
    char options[96];
    (void)data_dir;
    bool entered =
        dz_os_enter_user_ns() && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    int sys = errno;
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        dz_os_found_errno(f, "open /dev/fuse");
        return;
    }
    (void)snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
    if (!entered) {
        errno = sys;
        dz_os_found_errno(f, "/dev/fuse can be opened, but there is no namespace to mount it in");
        f->answer = DZ_OS_LIMITED;
    } else if (mount("doze-probe", "/tmp", "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
        dz_os_found_errno(f, "mount it");
    } else {
        dz_os_found(f, "opened and mounted in a user namespace");
    }
}

void dz_os_probe_KVM(const char *data_dir, struct dz_os_finding *f)
{
    (void)data_dir;
    int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        dz_os_found_errno(f, "open /dev/kvm");
    else if (ioctl(fd, KVM_GET_API_VERSION, 0) != KVM_API_VERSION)
        dz_os_found_wrong(f, "/dev/kvm does not speak version %d", KVM_API_VERSION);
    else if (ioctl(fd, KVM_CREATE_VM, 0) < 0)
        dz_os_found_errno(f, "make a virtual machine");
    else
        dz_os_found(f, "virtual machines can be made");
}

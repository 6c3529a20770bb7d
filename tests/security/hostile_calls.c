/* SPDX-License-Identifier: MIT
 *
 * hostile_calls.c - attacks that are one system call: each argument that a jail must refuse,
 * beside one that it allows. Arguments are chosen so that the call does no harm where it is
 * allowed: what counts is whether the kernel saw it at all.
 *
 * A filter compares 64 bits and the kernel often looks at 32 of them, so some rows have a bit
 * above these.
 */
#include "hostile.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/keyctl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/attr.h"
#include "os/os_uapi.h"

#define CALL(f, where, c, text, ...)                                              \
    {                                                                             \
        .name = #c text, .finding = (f), .places = (where), .held_by = BY_FILTER, \
        .number = SYS_##c, .args = {                                              \
            __VA_ARGS__                                                           \
        }                                                                         \
    }
#define HIGH (1ul << 32)
/* Numbers that only a kernel's own headers have. */
#define EXT4_GROUP_ADD   0x40286608ul
#define EXT4_MOVE_EXT    0xc028660ful
#define EXT4_RESIZE_FS   0x40086610ul
#define EXT4_SWAP_BOOT   0x6611ul
#define EXT4_SETFSUUID   0x4008662cul
#define MADV_HWPOISON_   100
#define MADV_OFFLINE_    101
#define F_SETSIG_        10
#define F_SETOWN_EX_     15
#define RDONLY_OF(flags) (O_RDONLY | O_CLOEXEC | (flags))

static const struct attack calls[] = {
    /* B3: signals to others, flags that others share */
    CALL("B3", EVERYWHERE, fcntl, "(F_SETOWN)", THE_SOCKET, F_SETOWN, THE_HOST),
    CALL("B3", EVERYWHERE, fcntl, "(F_SETOWN | 1<<32)", THE_SOCKET, F_SETOWN | HIGH, THE_HOST),
    CALL("B3", EVERYWHERE, fcntl, "(F_SETOWN_EX)", THE_SOCKET, F_SETOWN_EX_, SOME_ROOM),
    CALL("B3", EVERYWHERE, fcntl, "(F_SETSIG)", THE_SOCKET, F_SETSIG_, SIGUSR1),
    CALL("B3", EVERYWHERE, fcntl, "(F_SETFL, O_ASYNC)", THE_SOCKET, F_SETFL, O_ASYNC | O_RDWR),
    CALL("B3", EVERYWHERE, ioctl, "(FIOASYNC)", THE_SOCKET, FIOASYNC, SOME_ROOM),
    CALL("B3", EVERYWHERE, ioctl, "(FIOSETOWN)", THE_SOCKET, 0x8901, SOME_ROOM),
    CALL("B3", EVERYWHERE, ioctl, "(SIOCSPGRP)", THE_SOCKET, 0x8902, SOME_ROOM),
    CALL("B3", EVERYWHERE, kill, "(host, 0)", THE_HOST, 0),
    CALL("B3", EVERYWHERE, tkill, "(host, 0)", THE_HOST, 0),
    CALL("B3", EVERYWHERE, tgkill, "(host, host, 0)", THE_HOST, THE_HOST, 0),
    CALL("B3", EVERYWHERE, rt_sigqueueinfo, "(host)", THE_HOST, 0, SOME_ROOM),
    CALL("B3", EVERYWHERE, pidfd_open, "(host)", THE_HOST, 0),
    CALL("B3", EVERYWHERE, pidfd_send_signal, "", THE_SOCKET, 0, 0, 0),
    CALL("B3", EVERYWHERE, pidfd_getfd, "", THE_SOCKET, 0, 0),
    CALL("B3", EVERYWHERE, ptrace, "(PTRACE_SEIZE, host)", 0x4206, THE_HOST, 0, 0),
    CALL("B3", EVERYWHERE, process_vm_readv, "(host)", THE_HOST, 0, 0, 0, 0, 0),
    CALL("B3", EVERYWHERE, process_vm_writev, "(host)", THE_HOST, 0, 0, 0, 0, 0),
    CALL("B3", EVERYWHERE, setpriority, "(host)", 0, THE_HOST, 0),
    CALL("B3", EVERYWHERE, sched_setaffinity, "(host)", THE_HOST, 0, 0),
    CALL("B3", EVERYWHERE, migrate_pages, "(host)", THE_HOST, 0, 0, 0),
    CALL("B3", EVERYWHERE, kcmp, "(host)", THE_HOST, THE_HOST, 0, 0, 0),
    /* B4: what privileges are for */
    CALL("B4", EVERYWHERE, ioctl, "(FS_IOC_SETFLAGS)", THE_DISK, FS_IOC_SETFLAGS, 0),
    CALL("B4", EVERYWHERE, ioctl, "(FS_IOC_SETFLAGS | 1<<32)", THE_DISK, FS_IOC_SETFLAGS | HIGH, 0),
    CALL("B4", EVERYWHERE, ioctl, "(FS_IOC_FSSETXATTR)", THE_DISK, FS_IOC_FSSETXATTR, 0),
    CALL("B4", EVERYWHERE, ioctl, "(FS_IOC_ENABLE_VERITY)", THE_DISK, 0x40806685ul, 0),
    CALL("B4", EVERYWHERE, ioctl, "(EXT4_IOC_GROUP_ADD)", THE_DISK, EXT4_GROUP_ADD, 0),
    CALL("B4", EVERYWHERE, ioctl, "(EXT4_IOC_MOVE_EXT)", THE_DISK, EXT4_MOVE_EXT, 0),
    CALL("B4", EVERYWHERE, ioctl, "(EXT4_IOC_RESIZE_FS)", THE_DISK, EXT4_RESIZE_FS, 0),
    CALL("B4", EVERYWHERE, ioctl, "(EXT4_IOC_SWAP_BOOT)", -1ul, EXT4_SWAP_BOOT, 0),
    CALL("B4", EVERYWHERE, ioctl, "(EXT4_IOC_SETFSUUID)", THE_DISK, EXT4_SETFSUUID, 0),
    CALL("B4", EVERYWHERE, ioctl, "(FIFREEZE)", -1ul, FIFREEZE, 0),
    CALL("B4", EVERYWHERE, ioctl, "(FICLONE)", THE_DISK, FICLONE, -1ul),
    CALL("B4", EVERYWHERE, madvise, "(MADV_HWPOISON)", 1, 0, MADV_HWPOISON_),
    CALL("B4", EVERYWHERE, madvise, "(MADV_HWPOISON | 1<<32)", 1, 0, MADV_HWPOISON_ | HIGH),
    CALL("B4", EVERYWHERE, madvise, "(MADV_SOFT_OFFLINE)", 1, 0, MADV_OFFLINE_),
    CALL("B4", EVERYWHERE, madvise, "(MADV_REMOVE)", 1, 0, MADV_REMOVE),
    CALL("B4", EVERYWHERE, madvise, "(MADV_MERGEABLE)", 1, 0, MADV_MERGEABLE),
    CALL("B4", AT(RUN) | AT(CALL), capset, "", 0, 0), /* a cell becomes its tenant's user by it */
    CALL("B4", EVERYWHERE, setresuid, "(0)", -1ul, -1ul, -1ul),
    CALL("B4", EVERYWHERE, setresgid, "(0)", -1ul, -1ul, -1ul),
    CALL("B4", EVERYWHERE, setgroups, "", -1ul, 0),
    CALL("B4", EVERYWHERE, unshare, "(CLONE_NEWUSER)", CLONE_NEWUSER),
    CALL("B4", EVERYWHERE, setns, "", -1ul, 0),
    CALL("B4", EVERYWHERE, mount, "", 0, 0, 0, 0, 0),
    CALL("B4", EVERYWHERE, pivot_root, "", 0, 0),
    CALL("B4", EVERYWHERE, chroot, "", 0),
    CALL("B4", EVERYWHERE, bpf, "", -1ul, 0, 0),
    CALL("B4", EVERYWHERE, perf_event_open, "", 0, 0, 0, 0, 0),
    CALL("B4", EVERYWHERE, keyctl, "", -1ul, 0, 0),
    CALL("B4", EVERYWHERE, io_uring_setup, "", 0, 0),
    CALL("B4", EVERYWHERE, execve, "", 0, 0, 0),
    CALL("B4", EVERYWHERE, execveat, "", -1ul, 0, 0, 0, 0),
    CALL("B4", EVERYWHERE, mmap, "(PROT_EXEC)", 0, 4096, PROT_READ | PROT_EXEC,
         MAP_PRIVATE | MAP_ANONYMOUS, -1ul, 0),
    CALL("B4", EVERYWHERE, mmap, "(MAP_SHARED | MAP_ANONYMOUS)", 0, 4096, PROT_READ | PROT_WRITE,
         MAP_SHARED | MAP_ANONYMOUS, -1ul, 0),
    CALL("B4", EVERYWHERE, mmap, "(PROT_READ, MAP_SHARED | MAP_ANONYMOUS)", 0, 4096, PROT_READ,
         MAP_SHARED | MAP_ANONYMOUS, -1ul, 0),
    CALL("B4", EVERYWHERE, mmap, "(MAP_SHARED, for writing)", 0, 4096, PROT_READ | PROT_WRITE,
         MAP_SHARED, THE_DISK, 0),
    CALL("B4", EVERYWHERE, mmap, "(MAP_HUGETLB)", 0, 2 << 20, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1ul, 0),
    CALL("B4", EVERYWHERE, mmap, "(MAP_LOCKED)", 0, 4096, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1ul, 0),
    CALL("B4", EVERYWHERE, mmap, "(MAP_POPULATE)", 0, 4096, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1ul, 0),
    CALL("B4", EVERYWHERE, mmap, "(MAP_PRIVATE | 1<<32)", 0, 4096, PROT_READ,
         MAP_PRIVATE | MAP_ANONYMOUS | HIGH, -1ul, 0),
    CALL("B4", EVERYWHERE, mremap, "(MREMAP_DONTUNMAP)", 0, 0, 4096, 4),
    CALL("B4", EVERYWHERE, mprotect, "(PROT_EXEC)", 0, 0, PROT_EXEC),
    CALL("B4", EVERYWHERE, pkey_mprotect, "", 0, 0, PROT_EXEC, -1ul),
    CALL("B4", EVERYWHERE, prctl, "(PR_SET_PTRACER)", PR_SET_PTRACER, 0),
    CALL("B4", EVERYWHERE, prctl, "(PR_SET_MM)", PR_SET_MM, 0, 0, 0, 0),
    CALL("B4", EVERYWHERE, prctl, "(PR_CAP_AMBIENT)", PR_CAP_AMBIENT, 0, 0, 0, 0),
    CALL("B4", EVERYWHERE, prctl, "(PR_SET_SECUREBITS)", PR_SET_SECUREBITS, 0),
    CALL("B4", EVERYWHERE, prctl, "(PR_SET_CHILD_SUBREAPER)", PR_SET_CHILD_SUBREAPER, 0),
    CALL("B4", AT_CELLS, prctl, "(PR_SET_DUMPABLE)", PR_SET_DUMPABLE, 0),
    CALL("B4", AT_CELLS, prctl, "(PR_SET_SECCOMP)", PR_SET_SECCOMP, 0, 0),
    /* B5: open files that others hold, too */
    CALL("B5", EVERYWHERE, fcntl, "(F_SETFL, O_DIRECT)", THE_SOCKET, F_SETFL, O_DIRECT),
    CALL("B5", EVERYWHERE, fcntl, "(F_SETLEASE)", THE_IMAGE, F_SETLEASE, F_UNLCK),
    CALL("B5", EVERYWHERE, fcntl, "(F_NOTIFY)", -1ul, F_NOTIFY, 0),
    CALL("B5", EVERYWHERE, fcntl, "(F_ADD_SEALS)", -1ul, 1033, 0),
    CALL("B5", EVERYWHERE, fcntl, "(F_SETPIPE_SZ)", -1ul, 1031, 4096),
    CALL("B5", EVERYWHERE, fcntl, "(F_DUPFD)", THE_SOCKET, F_DUPFD, 3),
    CALL("B5", EVERYWHERE, fcntl, "(F_DUPFD_CLOEXEC, 3)", THE_IMAGE, F_DUPFD_CLOEXEC, 3),
    CALL("B5", EVERYWHERE, fcntl, "(F_DUPFD_CLOEXEC, 129)", THE_IMAGE, F_DUPFD_CLOEXEC, 129),
    CALL("B5", EVERYWHERE, dup, "", THE_IMAGE),
    CALL("B5", EVERYWHERE, fcntl, "(F_OFD_SETLK)", THE_IMAGE, F_OFD_SETLK, SOME_ROOM),
    CALL("B5", EVERYWHERE, fcntl, "(F_OFD_GETLK)", THE_IMAGE, F_OFD_GETLK, SOME_ROOM),
    CALL("B5", EVERYWHERE, fcntl, "(F_OFD_SETLK, 128)", 128, F_OFD_SETLK, SOME_ROOM),
    CALL("B5", EVERYWHERE, fcntl, "(F_OFD_SETLK, 1<<32)", HIGH, F_OFD_SETLK, SOME_ROOM),
    CALL("B5", EVERYWHERE, fcntl, "(F_OFD_SETLKW)", THE_IMAGE, F_OFD_SETLKW, SOME_ROOM),
    CALL("B5", EVERYWHERE, fcntl, "(F_OFD_SETLKW, 128)", 128, F_OFD_SETLKW, SOME_ROOM),
    CALL("B5", EVERYWHERE, fcntl, "(F_OFD_SETLKW, 1<<32)", HIGH, F_OFD_SETLKW, SOME_ROOM),
    CALL("B5", EVERYWHERE, flock, "", THE_IMAGE, 8 /* LOCK_UN */),
    CALL("B5", EVERYWHERE, fchmod, "", -1ul, 0),
    CALL("B5", EVERYWHERE, fchown, "", -1ul, -1ul, -1ul),
    CALL("B5", EVERYWHERE, fsetxattr, "", -1ul, 0, 0, 0, 0),
    CALL("B5", EVERYWHERE, utimensat, "", -1ul, 0, 0, 0),
    CALL("B5", EVERYWHERE, copy_file_range, "", -1ul, 0, -1ul, 0, 0, 0),
    CALL("B5", EVERYWHERE, splice, "", -1ul, 0, -1ul, 0, 0, 0),
    /* B6: the terminal */
    CALL("B6", EVERYWHERE, ioctl, "(TIOCSTI)", THE_SOCKET, 0x5412, SOME_ROOM),
    CALL("B6", EVERYWHERE, ioctl, "(TCSETS)", THE_SOCKET, 0x5402, SOME_ROOM),
    CALL("B6", EVERYWHERE, ioctl, "(TIOCSCTTY)", THE_SOCKET, 0x540e, 0),
    CALL("B6", EVERYWHERE, fcntl, "(F_SETFL, O_NONBLOCK)", THE_SOCKET, F_SETFL, O_NONBLOCK),
    CALL("B6", EVERYWHERE, dup2, "", -1ul, 2),
    CALL("B6", AT_CELLS, dup3, "(over standard error)", -1ul, 2, 0),
    CALL("B6", EVERYWHERE, dup3, "(over its socket)", -1ul, THE_SOCKET, 0),
    /* B7: disk space that no limit counts */
    CALL("B7", EVERYWHERE, fallocate, "(KEEP_SIZE)", THE_DISK, FALLOC_FL_KEEP_SIZE, 0, 4096),
    CALL("B7", EVERYWHERE, fallocate, "(PUNCH_HOLE)", -1ul,
         FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, 4096),
    CALL("B7", EVERYWHERE, fallocate, "(KEEP_SIZE | 1<<32)", THE_DISK, FALLOC_FL_KEEP_SIZE | HIGH,
         0, 4096),
    CALL("B7", AT_CELLS, prlimit64, "(itself, RLIMIT_FSIZE)", 0, RLIMIT_FSIZE, 0, SOME_ROOM),
    /* B9: paths, children and limits */
    CALL("B9", EVERYWHERE, open, "", THE_TEXT, O_RDONLY),
    CALL("B9", AT_CELLS, openat, "(O_RDONLY)", -1ul, THE_TEXT, RDONLY_OF(0)),
    CALL("B9", EVERYWHERE, openat, "(O_WRONLY)", -1ul, 0, O_WRONLY),
    CALL("B9", EVERYWHERE, openat, "(O_RDWR)", -1ul, 0, O_RDWR),
    CALL("B9", EVERYWHERE, openat, "(O_TRUNC)", -1ul, 0, RDONLY_OF(O_TRUNC)),
    CALL("B9", EVERYWHERE, openat, "(O_CREAT)", -1ul, 0, RDONLY_OF(O_CREAT)),
    CALL("B9", EVERYWHERE, openat, "(O_PATH)", -1ul, 0, RDONLY_OF(O_PATH)),
    CALL("B9", EVERYWHERE, openat, "(O_TMPFILE)", -1ul, 0, O_TMPFILE | O_RDWR),
    CALL("B9", EVERYWHERE, openat, "(O_DIRECTORY)", -1ul, 0, RDONLY_OF(O_DIRECTORY)),
    CALL("B9", EVERYWHERE, openat, "(O_APPEND)", -1ul, 0, RDONLY_OF(O_APPEND)),
    CALL("B9", EVERYWHERE, openat, "(1<<32)", -1ul, 0, RDONLY_OF(0) | HIGH),
    CALL("B9", EVERYWHERE, openat2, "", -1ul, 0, 0, 0),
    CALL("B9", EVERYWHERE, open_by_handle_at, "", -1ul, 0, 0),
    CALL("B9", EVERYWHERE, name_to_handle_at, "", -1ul, 0, 0, 0, 0),
    CALL("B9", EVERYWHERE, creat, "", 0, 0),
    CALL("B9", EVERYWHERE, stat, "", THE_TEXT, SOME_ROOM),
    CALL("B9", EVERYWHERE, newfstatat, "", -100ul, THE_TEXT, SOME_ROOM, 0),
    CALL("B9", EVERYWHERE, statx, "", -100ul, THE_TEXT, 0, 0, SOME_ROOM),
    CALL("B9", EVERYWHERE, faccessat, "", -100ul, THE_TEXT, 0),
    CALL("B9", EVERYWHERE, readlinkat, "", -100ul, THE_TEXT, SOME_ROOM, 100),
    CALL("B9", EVERYWHERE, truncate, "", 0, 0),
    CALL("B9", EVERYWHERE, unlinkat, "", -1ul, 0, 0),
    CALL("B9", EVERYWHERE, renameat2, "", -1ul, 0, -1ul, 0, 0),
    CALL("B9", EVERYWHERE, linkat, "", -1ul, 0, -1ul, 0, 0),
    CALL("B9", EVERYWHERE, mkdirat, "", -1ul, 0, 0),
    CALL("B9", EVERYWHERE, chdir, "", 0),
    CALL("B9", EVERYWHERE, inotify_init1, "", -1ul),
    CALL("B9", EVERYWHERE, fanotify_init, "", -1ul, 0),
    CALL("B9", EVERYWHERE, memfd_create, "(MFD_ALLOW_SEALING)", SOME_ROOM, 2),
    CALL("B9", AT_CELLS, memfd_create, "(MFD_CLOEXEC)", SOME_ROOM, 1),
    CALL("B9", EVERYWHERE, socket, "", AF_UNIX, SOCK_STREAM, 0),
    CALL("B9", EVERYWHERE, socketpair, "", AF_UNIX, SOCK_STREAM, 0, SOME_ROOM),
    CALL("B9", EVERYWHERE, connect, "", THE_SOCKET, 0, 0),
    CALL("B9", EVERYWHERE, bind, "", THE_SOCKET, 0, 0),
    CALL("B9", EVERYWHERE, setsockopt, "", THE_SOCKET, 0, 0, 0, 0),
    CALL("B9", EVERYWHERE, clone, "(SIGCHLD)", -1ul & ~(unsigned long)CLONE_PARENT, 0),
    CALL("B9", EVERYWHERE, clone, "(CLONE_PARENT | CLONE_NEWUSER)",
         CLONE_PARENT | CLONE_NEWUSER | CLONE_FS | SIGCHLD, 0),
    CALL("B9", EVERYWHERE, clone, "(CLONE_THREAD)", CLONE_THREAD, 0),
    CALL("B9", EVERYWHERE, clone3, "", 0, 0),
    CALL("B9", EVERYWHERE, prlimit64, "(host)", THE_HOST, RLIMIT_NOFILE, 0, 0),
    CALL("B9", EVERYWHERE, setrlimit, "", -1ul, 0),
    CALL("B9", EVERYWHERE, landlock_add_rule, "", -1ul, 0, 0, 0),
    CALL("B9", AT_CELLS, landlock_create_ruleset, "", 0, 0, 1),
    CALL("B9", EVERYWHERE, seccomp, "", -1ul, 0, 0),
    CALL("B9", EVERYWHERE, userfaultfd, "(of the kernel's faults)", O_CLOEXEC | O_NONBLOCK),
    CALL("B9", AT_CELLS, userfaultfd, "(of its own)", O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY),
    CALL("B9", EVERYWHERE, shmget, "", 0, 0, 0),
    CALL("B9", EVERYWHERE, mq_open, "", 0, 0, 0, 0),
};
const struct attacks hostile_calls = {calls, DZ_ARRAY_LEN(calls)};

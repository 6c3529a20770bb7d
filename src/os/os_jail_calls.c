/* SPDX-License-Identifier: MIT
 *
 * os_jail_calls.c - the system calls that jailed processes keep, each with its reason.
 *
 * docs/design/jail.md holds these tables as text; scripts/check-docs compares them. A call
 * whose arguments can reach beyond the process has a row for each argument that is needed:
 * fcntl(F_SETOWN) sends signals to any process of the same user, fcntl(F_SETFL) and
 * ioctl(FS_IOC_SETFLAGS) change what others share, fallocate(KEEP_SIZE) escapes
 * RLIMIT_FSIZE, newfstatat looks at any path (so cells call fstat by its own number).
 */
#include "os/os_jail.h"

#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/sanitize.h"
#include "os/os_uapi.h"

#define ALL UINT64_MAX
/* The flags for mapping private memory. Two are left out: shared memory without a file, because it
 * counts against no limit of ours, and huge pages, because they come from the host's reserve. */
#define PRIVATE_FLAGS \
    (MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_NORESERVE | MAP_STACK)

/* A call with any arguments; with argument N equal to V; with no bit of M in argument N. */
#define ANY(c, reason) {.number = __NR_##c, .name = #c, .why = (reason)}
#define EQUAL(c, n, v, reason) \
    {.number = __NR_##c,       \
     .name = #c,               \
     .arg = (n),               \
     .mask = ALL,              \
     .value = (uint64_t)(v),   \
     .text = #v,               \
     .why = (reason)}
#define WITHOUT(c, n, m, reason) \
    {.number = __NR_##c,         \
     .name = #c,                 \
     .arg = (n),                 \
     .mask = (m),                \
     .text = "without " #m,      \
     .why = (reason)}
#define ONLY(c, n, m, reason) \
    {.number = __NR_##c,      \
     .name = #c,              \
     .arg = (n),              \
     .mask = ~(uint64_t)(m),  \
     .text = "at most " #m,   \
     .why = (reason)}

#define LOCK(v, reason)                             \
    {.number = __NR_fcntl,                          \
     .name = "fcntl",                               \
     .arg = 0,                                      \
     .mask = ~(uint64_t)(DZ_OS_JAIL_SHARED_FD - 1), \
     .also_mask = ALL,                              \
     .also_value = (v),                             \
     .text = "below DZ_OS_JAIL_SHARED_FD, and " #v, \
     .why = (reason)}

const struct dz_os_syscall dz_os_jail_compute[] = {
    ANY(read, "files and the socket that were handed in"),
    ANY(write, "the same"),
    ANY(readv, "the same"),
    ANY(writev, "the same"),
    ANY(pread64, "the sandbox's file, its WAL, the image"),
    ANY(pwrite64, "the same; RLIMIT_FSIZE bounds the size"),
    ANY(preadv, "the same"),
    ANY(pwritev, "the same"),
    ANY(lseek, "archives and modules are read in order"),
    ANY(fstat, "the size of a file that was handed in"),
    ANY(fstatfs, "how much is free on the host: guests get ENOSPC before it is full"),
    ANY(ftruncate, "the WAL is emptied by it; RLIMIT_FSIZE bounds the size"),
    EQUAL(fallocate, 1, 0, "room for a copy; RLIMIT_FSIZE bounds the size"),
    ANY(fsync, "a commit is durable"),
    ANY(fdatasync, "the same"),
    ANY(sync_file_range, "write-back begins before a commit waits for it"),
    ANY(close, "descriptors that are no longer needed"),
    EQUAL(fcntl, 1, F_GETFD, "libraries ask for a descriptor's flags"),
    EQUAL(fcntl, 1, F_SETFD, "close-on-exec"),
    EQUAL(fcntl, 1, F_GETFL, "how a file was opened"),
    {.number = __NR_fcntl,
     .name = "fcntl",
     .arg = 1,
     .mask = ALL,
     .value = F_DUPFD_CLOEXEC,
     .also_mask = ALL,
     .also_value = DZ_OS_JAIL_SHARED_FD,
     .text = "F_DUPFD_CLOEXEC and DZ_OS_JAIL_SHARED_FD",
     .why = "files that others have, too, get numbers through which nothing is locked"},
    LOCK(F_OFD_SETLK, "SQLite's lock bytes: strangers see that the file is in use"),
    LOCK(F_OFD_GETLK, "the same"),
    LOCK(F_OFD_SETLKW, "a cell waits for the one before it to leave the same file"),
    ANY(recvmsg, "messages and descriptors from the host"),
    ANY(sendmsg, "messages to the host, which takes no descriptors"),
    ANY(poll, "wait for the host"),
    ANY(ppoll, "the same"),
    {.number = __NR_mmap,
     .name = "mmap",
     .arg = 2,
     .mask = PROT_EXEC,
     .also_mask = ~(uint64_t)PRIVATE_FLAGS | MAP_PRIVATE,
     .also_value = MAP_PRIVATE,
     .text = "without PROT_EXEC, MAP_PRIVATE and at most PRIVATE_FLAGS",
     .why = "memory and mapped images, never executable"},
    {.number = __NR_mmap,
     .name = "mmap",
     .arg = 2,
     .mask = ALL,
     .value = PROT_READ,
     .also_mask = ALL,
     .also_value = MAP_SHARED,
     .text = "PROT_READ and MAP_SHARED",
     .why = "a file as it is now: SQLite's own, and the word that a call shall stop"},
    WITHOUT(mprotect, 2, PROT_EXEC, "the same"),
    ANY(munmap, "memory is given back"),
    ONLY(mremap, 3, MREMAP_MAYMOVE, "large buffers grow in place"),
    EQUAL(madvise, 2, MADV_DONTNEED, "pages are given back"),
    EQUAL(madvise, 2, MADV_FREE, "the same, by the allocator"),
    EQUAL(madvise, 2, MADV_HUGEPAGE, "one fault for a large buffer"),
    EQUAL(madvise, 2, MADV_POPULATE_READ, "pages that will be read come in one go"),
    EQUAL(madvise, 2, MADV_POPULATE_WRITE, "pages that will be written come in one go"),
    ANY(brk, "the heap"),
    ANY(getrandom, "random bytes for the guest and for hash tables"),
    ANY(clock_gettime, "clocks, where the vDSO does not have them"),
    ANY(clock_nanosleep, "a machine waits for its next timer"),
    ANY(nanosleep, "the same"),
    ANY(gettimeofday, "clocks, where the vDSO does not have them"),
    EQUAL(getrusage, 0, RUSAGE_SELF, "processor time of the guest's work"),
    ANY(getpid, "its own number, for messages"),
    ANY(gettid, "the same, by the C library"),
    EQUAL(setitimer, 0, ITIMER_REAL, "the end of a time slice"),
    ANY(rt_sigreturn, "the end of a signal handler"),
    ANY(rt_sigprocmask, "signals are held while a wait begins"),
    ANY(rt_sigaction, "handlers of the slice timer and of page faults"),
    ANY(sigaltstack, "a stack for these handlers"),
    ANY(restart_syscall, "the kernel's own, after a stop"),
    ANY(futex, "locks of the C library and SQLite"),
    ANY(sched_yield, "a cell that nobody waits for makes way for those that somebody waits for"),
    ANY(exit, "the end"),
    ANY(exit_group, "the same"),
    EQUAL(ioctl, 1, PAGEMAP_SCAN, "which of its own pages were written"),
    EQUAL(ioctl, 1, UFFDIO_REGISTER, "its own memory comes by need, or is write-protected"),
    EQUAL(ioctl, 1, UFFDIO_UNREGISTER, "the same"),
    EQUAL(ioctl, 1, UFFDIO_COPY, "a page that was touched is filled"),
    EQUAL(ioctl, 1, UFFDIO_ZEROPAGE, "the same, with zeros"),
    EQUAL(ioctl, 1, UFFDIO_WRITEPROTECT, "its own pages are watched for writes"),
#if DZ_SANITIZED /* calls of the sanitizer's runtime; never in a release build */
    ANY(newfstatat, "sanitizers: is a descriptor valid"),
    EQUAL(madvise, 2, MADV_DONTDUMP, "sanitizers: shadow memory"),
    EQUAL(madvise, 2, MADV_NOHUGEPAGE, "sanitizers: shadow memory"),
    EQUAL(ioctl, 1, TCGETS, "sanitizers: is standard error a terminal"),
#endif
};
const size_t dz_os_jail_compute_count = DZ_ARRAY_LEN(dz_os_jail_compute);

const struct dz_os_syscall dz_os_jail_net[] = {
    EQUAL(epoll_create1, 0, EPOLL_CLOEXEC, "one set of all connections"),
    ANY(epoll_ctl, "the same"),
    ANY(epoll_wait, "the same"),
    EQUAL(shutdown, 1, SHUT_WR, "the end of what a program sends"),
    EQUAL(ioctl, 1, FIONREAD, "how many bytes have come"),
};
const size_t dz_os_jail_net_count = DZ_ARRAY_LEN(dz_os_jail_net);

const struct dz_os_syscall dz_os_jail_nest[] = {
    /* clone3(2) hides its flags behind a pointer and is not here. */
    EQUAL(clone, 0, CLONE_PARENT | SIGCHLD, "a cell, as a child of the daemon"),
    ONLY(openat, 2, O_CLOEXEC | O_NOFOLLOW,
         "the cell's own /proc/self/pagemap, before it is jailed"),
    EQUAL(userfaultfd, 0, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY,
          "faults of its own user mode only"),
    EQUAL(ioctl, 1, UFFDIO_API, "userfaultfd is opened"),
    EQUAL(memfd_create, 1, MFD_CLOEXEC, "the trial that shows whether written pages are seen"),
    ANY(close_range, "a cell closes what it must not have"),
    EQUAL(dup3, 1, STDERR_FILENO, "the standard error of a cell becomes its own socket"),
    EQUAL(prctl, 0, PR_SET_PDEATHSIG, "the jail of a cell"),
    EQUAL(prctl, 0, PR_SET_DUMPABLE, "the same"),
    EQUAL(prctl, 0, PR_SET_NO_NEW_PRIVS, "the same"),
    EQUAL(prctl, 0, PR_SET_SECCOMP, "the same"),
    ANY(landlock_create_ruleset, "the same"),
    ANY(landlock_restrict_self, "the same"),
    EQUAL(prlimit64, 0, 0, "limits of its own, and only its own"),
    ANY(getppid, "has the daemon gone in the meantime"),
};
const size_t dz_os_jail_nest_count = DZ_ARRAY_LEN(dz_os_jail_nest);

const struct dz_os_syscall dz_os_jail_users[] = {
    {.number = __NR_setresgid,
     .name = "setresgid",
     .args = 3,
     .text = "an id of cells.uids",
     .why = "the group of the tenant, once it is known"},
    {.number = __NR_setresuid,
     .name = "setresuid",
     .args = 3,
     .text = "an id of cells.uids",
     .why = "the user of the tenant"},
    ANY(capset, "then the two capabilities that this took are given up"),
};
const size_t dz_os_jail_users_count = DZ_ARRAY_LEN(dz_os_jail_users);

/* A cell of Linux programs is the kernel of processes that contain only a guest's memory and
 * registers (stub/). The other fences limit which processes it can reach: the pid namespace,
 * Landlock's domain, the user. */
const struct dz_os_syscall dz_os_jail_linux[] = {
    ANY(process_vm_readv, "bytes of a guest's memory"),
    ANY(process_vm_writev, "the same"),
    ANY(tgkill, "a thread of a guest comes to its kernel"),
    EQUAL(kill, 1, SIGKILL, "a process of a guest ends"),
    EQUAL(pidfd_send_signal, 1, SIGKILL, "the same"),
    ANY(pidfd_open, "its end is noticed"),
    ANY(waitid, "and its number given back"),
    ANY(wait4, "the same"),
    ANY(getsid, "is a child that nobody knows one of the guests'?"),
    ANY(epoll_wait, "wait for guests"),
    ANY(epoll_ctl, "the same"),
    EQUAL(ioctl, 1, SECCOMP_IOCTL_NOTIF_RECV,
          "a guest's process asks for what only its kernel orders"),
    EQUAL(ioctl, 1, SECCOMP_IOCTL_NOTIF_SEND, "the answer"),
    ONLY(openat, 2, O_CLOEXEC | O_NOFOLLOW,
         "pagemap, children and statm of the guests, below /proc"),
    ONLY(memfd_create, 1, MFD_CLOEXEC | MFD_ALLOW_SEALING, "a file that guests map"),
    EQUAL(fcntl, 1, F_ADD_SEALS, "its size stays"),
    EQUAL(madvise, 2, MADV_REMOVE, "what a thread that ended shared with its kernel is given back"),
    {.number = __NR_mmap,
     .name = "mmap",
     .arg = 2,
     .mask = ~(uint64_t)(PROT_READ | PROT_WRITE),
     .also_mask = ALL,
     .also_value = MAP_SHARED,
     .text = "at most PROT_READ | PROT_WRITE, and MAP_SHARED",
     .why = "its bytes, as guests see them"},
    ANY(sched_setaffinity, "guests and their kernel share a processor, or part"),
    EQUAL(sched_getaffinity, 0, 0, "how many processors guests are told of"),
    ANY(clock_getres, "the processor time of a guest's process, by the C library"),
};
const size_t dz_os_jail_linux_count = DZ_ARRAY_LEN(dz_os_jail_linux);

/* Its zygote also has the calls that the first process of the guests needs until it has its own,
 * stricter filters, and the calls that these filters allow. Every other call raises SIGSYS: in a
 * guest's process the handler turns it into a call of the guest's kernel, and any other process
 * dies of it. */
const struct dz_os_syscall dz_os_jail_linux_nest[] = {
    ANY(eventfd2, "the bell of the guests"),
    ANY(epoll_create1, "the cell waits for them"),
    EQUAL(socketpair, 0, AF_UNIX, "descriptors for them"),
    {.number = __NR_mmap,
     .name = "mmap",
     .arg = 2,
     .mask = ~(uint64_t)(PROT_READ | PROT_WRITE | PROT_EXEC),
     .also_mask = ~(uint64_t)(PRIVATE_FLAGS | MAP_SHARED),
     .text = "at most PROT_READ | PROT_WRITE | PROT_EXEC, and at most PRIVATE_FLAGS | MAP_SHARED",
     .why = "memory of guests, and what they share with their kernel"},
    ANY(mprotect, "memory of guests"),
    ONLY(mremap, 3, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, "the same"),
    EQUAL(madvise, 2, MADV_DONTFORK, "the same"),
    EQUAL(madvise, 2, MADV_DOFORK, "the same"),
    EQUAL(madvise, 2, MADV_WIPEONFORK, "the same"),
    EQUAL(madvise, 2, MADV_KEEPONFORK, "the same"),
    EQUAL(clone, 0, CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | SIGCHLD,
          "the guests' first process, by the C library's fork"),
    EQUAL(clone, 0, CLONE_FILES | CLONE_PARENT | SIGCHLD, "a guest's fork"),
    EQUAL(clone, 0, CLONE_VM | CLONE_FILES | CLONE_PARENT | SIGCHLD, "a guest's vfork"),
    EQUAL(clone, 0,
          CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
          "a guest's thread"),
    EQUAL(memfd_create, 1, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC,
          "the guests' first process is a program in memory"),
    EQUAL(execveat, 4, AT_EMPTY_PATH, "the same"),
    ANY(setsid, "the guests are a session"),
    ANY(set_robust_list, "fork, by the C library"),
    EQUAL(dup2, 1, 0, "the descriptors of the first process"),
    EQUAL(dup2, 1, 1, "the same"),
    EQUAL(dup2, 1, 2, "the same"),
    EQUAL(dup2, 1, 3, "the same"),
    EQUAL(dup2, 1, 4, "the same"),
    EQUAL(dup2, 1, 5, "the same"),
    EQUAL(dup3, 1, 6, "the same"),
    EQUAL(fcntl, 1, F_DUPFD_CLOEXEC, "the same"),
    EQUAL(prctl, 0, PR_SET_THP_DISABLE, "no huge pages for guests"),
    EQUAL(arch_prctl, 0, ARCH_SET_FS, "registers of a guest"),
    EQUAL(arch_prctl, 0, ARCH_SET_GS, "the same"),
    EQUAL(seccomp, 0, SECCOMP_SET_MODE_FILTER, "the filters of the guests"),
    EQUAL(openat, 2, O_PATH | O_DIRECTORY | O_CLOEXEC, "/proc, for the cell's Landlock rule"),
    ANY(landlock_add_rule, "the same"),
};
const size_t dz_os_jail_linux_nest_count = DZ_ARRAY_LEN(dz_os_jail_linux_nest);

/* A socket of a family and of a type with these flags. */
#define SOCKET(family, type)                              \
    {.number = __NR_socket,                               \
     .name = "socket",                                    \
     .arg = 0,                                            \
     .mask = ALL,                                         \
     .value = (family),                                   \
     .also_mask = ALL,                                    \
     .also_value = (type) | SOCK_NONBLOCK | SOCK_CLOEXEC, \
     .text = #family " and " #type " with both flags",    \
     .why = "a connection of a guest, or to a name server"}

const struct dz_os_syscall dz_os_jail_broker[] = {
    SOCKET(AF_INET, SOCK_STREAM),
    SOCKET(AF_INET6, SOCK_STREAM),
    SOCKET(AF_INET, SOCK_DGRAM),
    SOCKET(AF_INET6, SOCK_DGRAM),
    ANY(connect, "the same; the network of the host decides what can be reached"),
    EQUAL(getsockopt, 1, SOL_SOCKET, "why a connection failed"),
    ANY(recvfrom, "answers of name servers"),
    ANY(epoll_wait, "wait for the daemon, connections and name servers"),
    ANY(epoll_ctl, "the same"),
};
const size_t dz_os_jail_broker_count = sizeof dz_os_jail_broker / sizeof dz_os_jail_broker[0];

/* SPDX-License-Identifier: MIT
 *
 * native_edges.c - system calls with arguments at their edges: each kind of descriptor, bad
 * addresses, sizes and offsets that are negative, huge or unaligned, unknown flags. It prints a
 * line for each call: its result, or the name of its error. t_native_edges compares the lines of a
 * sandbox with those of this machine.
 *
 * Differences that are known are listed in `known`, with the reason, and not printed.
 *
 * No call waits: all descriptors have O_NONBLOCK. What a call makes is closed again, so that the
 * next one begins as the one before it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    FIRST = 40, /* descriptors of the table */
    FREE = 3,   /* what calls make has a number from here to FIRST */
};

/* ---- descriptors ----------------------------------------------------------------------------- */

enum kind {
    FILE_RW,
    FILE_RO,
    FILE_WO,
    FILE_APPEND,
    DIRECTORY,
    PATH_ONLY,
    PIPE_R,
    PIPE_W,
    SOCKET,
    SOCKET_UNBOUND,
    EVENT,
    TIMER,
    SIGNALS,
    EPOLL,
    INOTIFY,
    MEMORY,
    NULL_DEVICE,
    MASTER,
    CLOSED,
    NEGATIVE,
    KINDS,
};
static const char *const kind_names[KINDS] = {"file",   "file-ro", "file-wo", "append", "dir",
                                              "o_path", "pipe-r",  "pipe-w",  "socket", "unbound",
                                              "event",  "timer",   "signals", "epoll",  "inotify",
                                              "memfd",  "null",    "ptmx",    "closed", "-1"};
static int fds[KINDS];

static void put_fd(enum kind k, int fd)
{
    if (fd < 0) {
        perror(kind_names[k]);
        exit(1);
    }
    fds[k] = fcntl(fd, F_DUPFD, FIRST);
    (void)close(fd);
    (void)fcntl(fds[k], F_SETFL, fcntl(fds[k], F_GETFL) | O_NONBLOCK);
}

static void open_all(void)
{
    int two[2];
    sigset_t none;
    sigemptyset(&none);
    put_fd(FILE_RW, open("file", O_RDWR | O_CREAT | O_TRUNC, 0644));
    if (write(fds[FILE_RW], "0123456789", 10) != 10)
        exit(1);
    put_fd(FILE_RO, open("file", O_RDONLY));
    put_fd(FILE_WO, open("file", O_WRONLY));
    put_fd(FILE_APPEND, open("file", O_RDWR | O_APPEND));
    put_fd(DIRECTORY, open(".", O_RDONLY | O_DIRECTORY));
    put_fd(PATH_ONLY, open("file", O_PATH));
    if (pipe(two) != 0)
        exit(1);
    put_fd(PIPE_R, two[0]);
    put_fd(PIPE_W, two[1]);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, two) != 0)
        exit(1);
    put_fd(SOCKET, two[0]);
    (void)fcntl(two[1], F_DUPFD, 100); /* the other end stays open */
    (void)close(two[1]);
    put_fd(SOCKET_UNBOUND, socket(AF_UNIX, SOCK_DGRAM, 0));
    put_fd(EVENT, eventfd(0, 0));
    put_fd(TIMER, timerfd_create(CLOCK_MONOTONIC, 0));
    put_fd(SIGNALS, signalfd(-1, &none, 0));
    put_fd(EPOLL, epoll_create1(0));
    put_fd(INOTIFY, inotify_init1(0));
    put_fd(MEMORY, memfd_create("m", MFD_ALLOW_SEALING));
    put_fd(NULL_DEVICE, open("/dev/null", O_RDWR));
    put_fd(MASTER, open("/dev/ptmx", O_RDWR | O_NOCTTY));
    fds[CLOSED] = 200;
    fds[NEGATIVE] = -1;
}

/* ---- calls ------------------------------------------------------------------------------------
 */

static char *end; /* the address behind the last page that can be accessed */
static char buf[64 * 1024];

/* how: the last words of a case; NULL: all of the call. */
static const struct {
    const char *call, *how;
} known[] = {
    /* We check an address before we ask the file, which might have said something else. */
    {"read", "bad"},
    {"write", "bad"},
    {"ioctl", "bad"},
    {"epoll_wait", NULL},
    {"link", NULL},
    {"mincore", NULL},
    {"sendto", NULL},
    /* /dev/null looks at the bytes that it is given. */
    {"write", "int-max end"},
    {"write", "2^31 end"},
    {"writev", "int-max iov"},
    {"writev", "2^31 iov"},
    /* No modes, owners and locks of files that are not on the disk. */
    {"fchmod", NULL},
    {"fchown", NULL},
    {"flock", NULL},
    {"fcntl", "lock"},
    /* No splice with sockets and terminals; what memory files are made of is one file system. */
    {"splice", NULL},
    {"copy_file_range", NULL},
    /* ESPIPE comes after EBADF and EOPNOTSUPP. */
    {"preadv2", "flag"},
    {"pwritev2", "flag"},
    {"pwrite64", NULL},
    {"pwritev", NULL},
    /* ENOTTY for requests that a file does not have, also of an epoll. */
    {"ioctl", "fionread"},
    {"ioctl", "winsize"},
    {"ioctl", "termios"},
    {"ioctl", "none"},
    {"flistxattr", NULL},        /* system.sockprotoname */
    {"name_to_handle_at", NULL}, /* there is none */
    {"shmget", NULL},            /* EINVAL for a size that Linux has no memory for */
    {"rename", "256"},           /* which of two errors comes first */
    {"mknod", "4096"},
    {"open", "file/ excl"},
    {"sched_getaffinity", "2^31"}, /* Linux multiplies it by 8, in 32 bits */
    {"rt_sigqueueinfo", NULL},     /* Linux knows which bytes of a siginfo_t must be zero */
    {"mmap", "-1 fixed"},          /* EPERM below mmap_min_addr, after rounding up */
};
/* The value of a result is not the same in two processes. */
static const char *const any[] = {"getcwd",       "getsid", "getpgid",     "mmap",     "mremap",
                                  "timer_create", "umask",  "personality", "getgroups"};

static bool is_known(const char *what, const char *how)
{
    const size_t n = strlen(how);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t m = known[i].how ? strlen(known[i].how) : 0;
        if (strcmp(what, known[i].call) == 0 && m <= n &&
            strcmp(how + n - m, known[i].how ? known[i].how : "") == 0)
            return true;
    }
    return false;
}

static void say(const char *what, const char *how, long r, int e)
{
    bool shown = true;
    for (size_t i = 0; i < sizeof any / sizeof *any; i++)
        shown = shown && strcmp(what, any[i]) != 0;
    if (is_known(what, how))
        return;
    if (r >= 0 && !shown)
        printf("%s %s: done\n", what, how);
    else if (r >= 0)
        printf("%s %s = %ld\n", what, how, r);
    else
        printf("%s %s = %s\n", what, how, strerrorname_np(e));
}

/* Undo what a call did to the table. */
static void restore(void)
{
    for (int fd = FREE; fd < FIRST; fd++)
        (void)close(fd);
    (void)ftruncate(fds[FILE_RW], 10);
    (void)lseek(fds[FILE_RW], 0, SEEK_SET);
    (void)lseek(fds[FILE_RO], 0, SEEK_SET);
    (void)lseek(fds[FILE_WO], 0, SEEK_SET);
    (void)lseek(fds[DIRECTORY], 0, SEEK_SET);
    (void)ftruncate(fds[MEMORY], 0);
    while (read(fds[PIPE_R], buf, sizeof buf) > 0)
        ;
    (void)read(fds[EVENT], buf, 8);
    (void)read(fds[MASTER], buf, sizeof buf);
}

static void try_call(const char *what, const char *how, long number, const long a[6])
{
    errno = 0;
    const long r = syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    const int e = errno;
    say(what, how, r, e);
    restore();
}
#define TRY(how, name, ...) try_call(#name, how, SYS_##name, (const long[6]){__VA_ARGS__})

struct value {
    const char *name;
    long v;
};
static struct value bad_addresses[4];
static const struct value sizes[] = {
    {"0", 0},
    {"1", 1},
    {"-1", -1},
    {"int-max", 0x7fffffff},
    {"2^31", 0x80000000L},
    {"2^62", 1L << 62},
    {"long-min", INT64_MIN},
};
#define P(p) ((long)(uintptr_t)(p))

static const char *join(const char *a, const char *b)
{
    static char text[4][80];
    static int n;
    char *t = text[n++ % 4];
    (void)snprintf(t, sizeof text[0], "%s %s", a, b);
    return t;
}

/* Each descriptor: usual arguments, and some that are not. */
static void moves_bytes(long fd, const char *how)
{
    struct iovec iov = {buf, 1};
    TRY(how, read, fd, P(buf), 16);
    TRY(join(how, "0"), read, fd, P(buf), 0);
    TRY(join(how, "bad 0"), read, fd, 1, 0);
    TRY(join(how, "bad"), read, fd, 1, 16);
    TRY(how, write, fd, P(buf), 8);
    TRY(join(how, "0"), write, fd, P(buf), 0);
    TRY(join(how, "bad 0"), write, fd, 1, 0);
    TRY(join(how, "bad"), write, fd, 1, 8);
    TRY(how, readv, fd, P(&iov), 1);
    TRY(join(how, "none"), readv, fd, P(&iov), 0);
    TRY(join(how, "many"), readv, fd, P(&iov), 1025);
    TRY(join(how, "-1"), readv, fd, P(&iov), -1);
    TRY(how, writev, fd, P(&iov), 1);
    TRY(join(how, "none"), writev, fd, P(&iov), 0);
    TRY(join(how, "many"), writev, fd, P(&iov), 1025);
    TRY(how, pread64, fd, P(buf), 4, 2);
    TRY(join(how, "-1"), pread64, fd, P(buf), 4, -1);
    TRY(how, pwrite64, fd, P(buf), 4, 2);
    TRY(join(how, "-1"), pwrite64, fd, P(buf), 4, -1);
    TRY(how, preadv, fd, P(&iov), 1, 0, 0);
    TRY(how, pwritev, fd, P(&iov), 1, 0, 0);
    TRY(join(how, "flag"), preadv2, fd, P(&iov), 1, 0, 0, 1L << 20);
    TRY(join(how, "flag"), pwritev2, fd, P(&iov), 1, 0, 0, 1L << 20);
    TRY(how, lseek, fd, 1, SEEK_SET);
    TRY(join(how, "-1"), lseek, fd, -1, SEEK_SET);
    TRY(join(how, "whence"), lseek, fd, 0, 9);
    TRY(how, ftruncate, fd, 5);
    TRY(join(how, "-1"), ftruncate, fd, -1);
    TRY(how, fallocate, fd, 0, 0, 20);
    TRY(join(how, "-1"), fallocate, fd, 0, -1, 20);
    TRY(join(how, "0"), fallocate, fd, 0, 0, 0);
    TRY(how, fsync, fd);
    TRY(how, fdatasync, fd);
    TRY(how, syncfs, fd);
    TRY(how, fadvise64, fd, 0, 0, 0);
    TRY(join(how, "advice"), fadvise64, fd, 0, 0, 99);
    TRY(how, readahead, fd, 0, 10);
    TRY(how, sync_file_range, fd, 0, 0, 0);
    TRY(join(how, "flags"), sync_file_range, fd, 0, 0, 8);
    TRY(join(how, "-1"), sync_file_range, fd, -1, 0, 0);
    TRY(how, fstat, fd, P(buf));
    TRY(join(how, "bad"), fstat, fd, 1);
    if (fd != fds[NULL_DEVICE] && fd != fds[MASTER]) { /* those belong to this machine */
        TRY(how, fchmod, fd, 0600);
        TRY(how, fchown, fd, -1, -1);
    }
    TRY(how, fchdir, fd);
}

static void has_state(long fd, const char *how)
{
    struct timespec now[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
    struct flock lock = {.l_type = F_WRLCK};
    TRY(how, flock, fd, 1 | 4);
    TRY(join(how, "op"), flock, fd, 99);
    TRY(join(how, "un"), flock, fd, 8);
    TRY(how, dup, fd);
    TRY(how, dup2, fd, 3);
    TRY(how, dup3, fd, 3, 1);
    TRY(how, fcntl, fd, F_GETFD, 0);
    TRY(how, fcntl, fd, F_SETFD, 0);
    TRY(join(how, "dup"), fcntl, fd, F_DUPFD, 1L << 40);
    TRY(join(how, "command"), fcntl, fd, 9999, 0);
    TRY(join(how, "lock"), fcntl, fd, F_SETLK, P(&lock));
    TRY(join(how, "lock bad"), fcntl, fd, F_SETLK, 1);
    TRY(join(how, "lease"), fcntl, fd, F_GETLEASE, 0);
    TRY(join(how, "set lease"), fcntl, fd, F_SETLEASE, 99);
    TRY(join(how, "unlease"), fcntl, fd, F_SETLEASE, F_UNLCK);
    TRY(join(how, "own"), fcntl, fd, F_GETOWN, 0);
    TRY(join(how, "sig"), fcntl, fd, F_SETSIG, 99);
    TRY(join(how, "pipe"), fcntl, fd, F_GETPIPE_SZ, 0);
    TRY(join(how, "seals"), fcntl, fd, F_GET_SEALS, 0);
    TRY(join(how, "add seals"), fcntl, fd, F_ADD_SEALS, 1L << 20);
    TRY(join(how, "fionread"), ioctl, fd, FIONREAD, P(buf));
    TRY(join(how, "fionread bad"), ioctl, fd, FIONREAD, 1);
    TRY(join(how, "winsize"), ioctl, fd, TIOCGWINSZ, P(buf));
    TRY(join(how, "termios"), ioctl, fd, TCGETS, P(buf));
    TRY(join(how, "fionbio bad"), ioctl, fd, FIONBIO, 1);
    TRY(join(how, "none"), ioctl, fd, 0x1234, P(buf));
    TRY(how, getdents64, fd, P(buf), 1);
    TRY(join(how, "bad"), getdents64, fd, 1, 1024);
    TRY(how, openat, fd, P("none"), O_RDONLY);
    TRY(join(how, "empty"), newfstatat, fd, P(""), P(buf), AT_EMPTY_PATH);
    TRY(join(how, "null"), newfstatat, fd, 0, P(buf), AT_EMPTY_PATH);
    TRY(join(how, "name"), newfstatat, fd, P("none"), P(buf), 0);
    TRY(join(how, "flags"), newfstatat, fd, P("file"), P(buf), 0x8000);
    TRY(how, utimensat, fd, 0, P(now), 0);
    TRY(how, mmap, 0, PAGE, 99, MAP_PRIVATE | MAP_FIXED, fd, 1);
}

static void meets_another(long fd, const char *how)
{
    struct iovec iov = {buf, 1};
    struct itimerspec its = {{0, 0}, {0, 0}};
    struct epoll_event ev = {.events = EPOLLIN};
    uint64_t mask = 0;
    long off = 0;
    TRY(how, sendfile, fds[FILE_RW], fd, 0, 4);
    TRY(join(how, "from"), sendfile, fd, fds[FILE_RO], 0, 4);
    TRY(join(how, "bad"), sendfile, fd, fds[FILE_RO], 1, 4);
    TRY(how, copy_file_range, fd, P(&off), fds[FILE_WO], P(&off), 4, 0);
    TRY(join(how, "to"), copy_file_range, fds[FILE_RO], 0, fd, 0, 4, 0);
    TRY(join(how, "flags"), copy_file_range, fds[FILE_RO], 0, fd, 0, 4, 1);
    TRY(how, splice, fd, 0, fds[PIPE_W], 0, 4, 2);
    TRY(join(how, "out"), splice, fds[PIPE_R], 0, fd, 0, 4, 2);
    TRY(join(how, "flags"), splice, fds[PIPE_R], 0, fd, 0, 4, 64);
    TRY(how, tee, fd, fds[PIPE_W], 4, 2);
    TRY(how, vmsplice, fd, P(&iov), 1, 2);
    TRY(join(how, "add"), epoll_ctl, fds[EPOLL], EPOLL_CTL_ADD, fd, P(&ev));
    TRY(join(how, "mod"), epoll_ctl, fds[EPOLL], EPOLL_CTL_MOD, fd, P(&ev));
    TRY(join(how, "del"), epoll_ctl, fds[EPOLL], EPOLL_CTL_DEL, fd, 0);
    TRY(join(how, "del"), epoll_ctl, fds[EPOLL], EPOLL_CTL_DEL, fd, 0);
    TRY(join(how, "op"), epoll_ctl, fd, 9, fds[FILE_RW], P(&ev));
    TRY(how, epoll_wait, fd, P(buf), 1, 0);
    TRY(join(how, "0"), epoll_wait, fd, P(buf), 0, 0);
    TRY(how, inotify_rm_watch, fd, 1);
    TRY(how, inotify_add_watch, fd, P("none"), 1);
    TRY(how, timerfd_gettime, fd, P(buf));
    TRY(how, timerfd_settime, fd, 0, P(&its), 0);
    TRY(join(how, "flags"), timerfd_settime, fd, 99, P(&its), 0);
    TRY(how, signalfd4, fd, P(&mask), 8, 0);
    TRY(how, mq_getsetattr, fd, 0, P(buf));
    TRY(how, mq_notify, fd, 0);
    TRY(how, mq_timedsend, fd, P(buf), 1, 0, 0);
    TRY(how, mq_timedreceive, fd, P(buf), 1, 0, 0);
}

static void is_a_socket(long fd, const char *how)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    socklen_t len = sizeof un;
    TRY(how, listen, fd, -1);
    TRY(how, accept, fd, 0, 0);
    TRY(join(how, "flags"), accept4, fd, 0, 0, 1);
    TRY(how, connect, fd, P(&un), 1);
    TRY(how, bind, fd, P(&un), 1000);
    TRY(how, getsockname, fd, P(buf), P(&len));
    TRY(how, getpeername, fd, 1, P(&len));
    TRY(how, getsockopt, fd, SOL_SOCKET, SO_TYPE, P(buf), 1);
    TRY(how, setsockopt, fd, SOL_SOCKET, 9999, P(buf), 4);
    TRY(how, sendto, fd, 1, 4, 0, 0, 0);
    TRY(how, recvfrom, fd, P(buf), 4, MSG_DONTWAIT, 0, 0);
    TRY(how, sendmsg, fd, 1, 0);
    TRY(how, recvmsg, fd, 1, MSG_DONTWAIT);
    TRY(how, shutdown, fd, 9);
    TRY(how, fgetxattr, fd, P("user.none"), P(buf), 10);
    TRY(how, flistxattr, fd, P(buf), 0);
    TRY(how, fsetxattr, fd, P("none"), P(buf), 0, 0);
    TRY(how, fremovexattr, fd, P("user.none"));
    TRY(how, fstatfs, fd, 1);
    TRY(how, pidfd_send_signal, fd, 0, 0, 0);
    TRY(how, pidfd_getfd, fd, 0, 0);
    TRY(join(how, "execveat"), execveat, fd, P("none"), 0, 0, 0);
    TRY(join(how, "kcmp"), kcmp, getpid(), getpid(), 0, fd, fd);
}

static void each_descriptor(void)
{
    for (int k = 0; k < KINDS; k++) {
        moves_bytes(fds[k], kind_names[k]);
        has_state(fds[k], kind_names[k]);
        meets_another(fds[k], kind_names[k]);
        is_a_socket(fds[k], kind_names[k]);
    }
}

/* Each bad address in each place, with a size of 8. */
static void each_address(void)
{
    for (size_t i = 0; i < sizeof bad_addresses / sizeof *bad_addresses; i++) {
        const long at = bad_addresses[i].v, f = fds[FILE_RW];
        const char *how = bad_addresses[i].name;
        TRY(how, read, f, at, 8);
        TRY(how, write, f, at, 8);
        TRY(how, readv, f, at, 1);
        TRY(how, writev, f, at, 1);
        TRY(how, open, at, O_RDONLY);
        TRY(how, stat, at, P(buf));
        TRY(how, lstat, at, P(buf));
        TRY(how, stat, P("file"), at);
        TRY(how, statx, AT_FDCWD, P("file"), 0, 0xfff, at);
        TRY(how, access, at, 0);
        TRY(how, mkdir, at, 0);
        TRY(how, rmdir, at);
        TRY(how, rename, at, P("x"));
        TRY(how, rename, P("none"), at);
        TRY(how, link, P("none"), at);
        TRY(how, symlink, at, P("none"));
        TRY(how, unlink, at);
        TRY(how, chdir, at);
        TRY(how, chmod, at, 0);
        TRY(how, chown, at, 0, 0);
        TRY(how, truncate, at, 0);
        TRY(how, readlink, at, P(buf), 8);
        TRY(how, readlink, P("/proc/self/exe"), at, 8);
        TRY(how, getcwd, at, 100);
        TRY(how, pipe2, at, 0);
        TRY(how, poll, at, 1, 0);
        TRY(how, select, 50, at, 0, 0, P(buf + 1000));
        TRY(how, uname, at);
        TRY(how, sysinfo, at);
        TRY(how, getrusage, 0, at);
        TRY(how, getrlimit, RLIMIT_NOFILE, at);
        TRY(how, setrlimit, RLIMIT_NOFILE, at);
        TRY(how, clock_getres, CLOCK_MONOTONIC, at == 0 ? 1 : at);
        TRY(how, clock_gettime, CLOCK_BOOTTIME, at);
        TRY(how, nanosleep, at, 0);
        TRY(how, rt_sigaction, SIGUSR1, at == 0 ? 1 : at, 0, 8);
        TRY(how, rt_sigprocmask, 0, at == 0 ? 1 : at, 0, 8);
        TRY(how, rt_sigpending, at, 8);
        TRY(how, rt_sigtimedwait, at, 0, 0, 8);
        TRY(how, rt_sigqueueinfo, getpid(), 0, at);
        TRY(how, sigaltstack, at == 0 ? 1 : at, 0);
        TRY(how, getgroups, 1000, at);
        TRY(how, setgroups, 1, at);
        TRY(how, getresuid, at, at, at);
        TRY(how, capget, at, 0);
        TRY(how, socketpair, AF_UNIX, SOCK_STREAM, 0, at);
        TRY(how, epoll_ctl, fds[EPOLL], EPOLL_CTL_ADD, f, at);
        TRY(how, epoll_wait, fds[EPOLL], at, 1, 0);
        TRY(how, futex, at, FUTEX_WAKE, 1, 0, 0, 0);
        TRY(how, futex, at, FUTEX_WAIT, 1, P(buf + 1000), 0, 0);
        TRY(how, execve, at, 0, 0);
        TRY(how, execve, P("file"), at == 0 ? 1 : at, 0);
        TRY(how, mincore, P(end) - PAGE, PAGE, at);
        TRY(how, getrandom, at, 8, 0);
        TRY(how, memfd_create, at, 0);
        TRY(how, timer_create, CLOCK_MONOTONIC, 0, at);
        TRY(how, timerfd_settime, fds[TIMER], 0, at, 0);
        TRY(how, inotify_add_watch, fds[INOTIFY], at, 1);
        TRY(how, mq_open, at, O_RDWR);
        TRY(how, sched_getaffinity, 0, 1024, at);
        TRY(how, sched_getparam, 0, at);
        TRY(how, prlimit64, 0, RLIMIT_CORE, at == 0 ? 1 : at, 0);
        TRY(how, utimensat, AT_FDCWD, P("file"), at == 0 ? 1 : at, 0);
        TRY(how, setitimer, 0, at == 0 ? 1 : at, 0);
        TRY(how, getitimer, 0, at);
        TRY(how, wait4, -1, at == 0 ? 1 : at, WNOHANG, 0);
        TRY(how, waitid, P_ALL, 0, at, WNOHANG | WEXITED, 0);
        TRY(how, set_robust_list, at, 7);
        TRY(how, get_robust_list, 0, at, at);
        TRY(how, clone3, at, 88);
        TRY(how, openat2, AT_FDCWD, P("file"), at, 24);
        TRY(how, close_range, 5, 4, at);
        TRY(how, name_to_handle_at, AT_FDCWD, at, 0, 0, 0);
        TRY(how, msgsnd, 0, at, 8, 0);
        TRY(how, semop, 0, at, 1);
        TRY(how, shmctl, 0, IPC_STAT, at);
        TRY(how, personality, 0xffffffff);
        TRY(how, setxattr, P("file"), at, P(buf), 1, 0);
        TRY(how, getxattr, P("file"), at, P(buf), 1);
        TRY(how, listxattr, at, P(buf), 1);
        TRY(how, statfs, at, P(buf));
        TRY(how, statfs, P("file"), at);
        TRY(how, futex_waitv, at, 1, 0, 0, 0);
    }
}

/* Each size, count, offset, number or set of flags. */
static void size_of_bytes(long n, const char *how)
{
    const long f = fds[FILE_RW];
    struct iovec iov[2] = {{buf, 4}, {buf, 0}};
    iov[1].iov_len = (size_t)n;
    TRY(join(how, "at"), pread64, f, P(buf), 1, n);
    TRY(join(how, "at"), pwrite64, fds[FILE_RO], P(buf), 1, n);
    TRY(join(how, "end"), read, f, P(end - 8), n);
    TRY(join(how, "end"), write, fds[NULL_DEVICE], P(end - 8), n);
    TRY(join(how, "pipe"), read, fds[PIPE_R], P(buf), n);
    TRY(join(how, "iov"), readv, f, P(iov), 2);
    TRY(join(how, "iov"), writev, fds[NULL_DEVICE], P(iov), 2);
    TRY(join(how, "count"), readv, f, P(iov), n);
    TRY(how, lseek, f, n, SEEK_SET);
    TRY(how, lseek, f, n, SEEK_CUR);
    TRY(how, lseek, f, n, SEEK_END);
    TRY(how, lseek, f, n, SEEK_DATA);
    TRY(how, lseek, f, n, SEEK_HOLE);
    TRY(how, mmap, 0, n, PROT_READ, MAP_PRIVATE, -1, 0);
    TRY(join(how, "at"), mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, f, n == 0 ? 1 : n);
    TRY(join(how, "fixed"), mmap, n == 0 ? 1 : n, PAGE, PROT_READ,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    TRY(how, munmap, n, PAGE);
    TRY(join(how, "size"), munmap, P(end), n == 1 || n == 0x7fffffff ? 0 : n);
    TRY(how, mprotect, P(end) + 4096L * 1000000, n, PROT_READ);
    TRY(join(how, "at"), mprotect, n, PAGE, PROT_READ);
    TRY(how, madvise, P(end) - PAGE, n, MADV_WILLNEED);
    TRY(join(how, "advice"), madvise, P(end) - PAGE, PAGE, 9999);
    TRY(how, msync, P(end) - PAGE, n, MS_ASYNC);
    TRY(join(how, "flags"), msync, P(end) - PAGE, PAGE, n);
    TRY(how, mremap, P(end) - PAGE, PAGE, n, 0);
    TRY(join(how, "old"), mremap, P(end) - PAGE, n == 1 ? 2 * PAGE : n, PAGE, 0);
    TRY(how, mincore, P(end) - PAGE, n, P(buf));
    TRY(how, mlock, P(end) - PAGE, n == 0x7fffffff ? 0 : n);
}

static void size_of_sets(long n, const char *how)
{
    const long f = fds[FILE_RW];
    TRY(how, poll, P(buf), n, 0);
    TRY(how, select, n, 0, 0, 0, P(buf + 1000));
    TRY(how, getcwd, P(buf), n);
    TRY(how, readlink, P("/proc/self/cwd"), P(buf), n == 1 ? 1 : n < 0 ? n : 0);
    TRY(how, getdents64, fds[DIRECTORY], P(buf), n == 0 ? 0 : 1);
    TRY(how, getgroups, n == 1 ? -5 : n, P(buf));
    TRY(how, setgroups, n == 0 ? -1 : n == 1 ? 70000 : n, P(buf));
    TRY(how, rt_sigprocmask, 0, P(buf + 1000), 0, n);
    TRY(how, rt_sigaction, n, 0, 0, 8);
    TRY(how, rt_sigaction, SIGUSR1, 0, 0, n);
    TRY(how, kill, getpid(), n == 1 ? 99 : n);
    TRY(how, tgkill, n == 1 ? 70000 : n, n, 0);
    TRY(how, tkill, n == 1 ? -7 : n, 0);
    TRY(how, getpriority, 9, n);
    TRY(how, setpriority, n == 0 ? 9 : n, 0, 0);
    TRY(how, sched_getaffinity, 0, n, P(buf));
    TRY(how, sched_get_priority_max, n);
    TRY(how, getrlimit, n == 0 || n == 1 ? 99 : n, P(buf));
    TRY(how, getrusage, n == 0 || n == 1 || n == -1 ? 99 : n, P(buf));
    TRY(how, prlimit64, n == 0 ? -3 : n == 1 ? 99999 : n, 0, 0, 0);
    TRY(how, epoll_create, n);
    TRY(how, epoll_create1, n);
    TRY(how, epoll_wait, fds[EPOLL], P(buf), n, 0);
    TRY(how, eventfd2, 0, n);
    TRY(how, timerfd_create, n == 1 || n == 0 ? 99 : n, 0);
    TRY(how, timer_create, n == 1 || n == 0 ? 99 : n, 0, P(buf));
    TRY(how, timer_delete, (n & 0xffff) | 0x5000000);
    TRY(how, clock_gettime, n == 1 || n == 0 ? 99 : n == -1 ? -100 : n, P(buf));
    TRY(how, inotify_init1, n);
    TRY(how, pipe2, P(buf), n);
    TRY(how, dup2, f, n == 0 || n == 1 ? 1 << 30 : n);
    TRY(how, dup3, f, 3, n);
    TRY(how, fcntl, f, F_DUPFD, n == 0 || n == 1 ? 1 << 30 : n);
    TRY(how, fcntl, fds[PIPE_W], F_SETPIPE_SZ, n);
    TRY(how, close_range, 3000, n, 0);
    TRY(join(how, "flags"), close_range, 3000, 4000, n == 0 ? 64 : n);
}

static void numbers_and_flags(long n, const char *how)
{
    const long f = fds[FILE_RW];
    struct iovec iov[2] = {{buf, 4}, {buf, (size_t)n}};
    TRY(how, ftruncate, fds[FILE_RO], n);
    TRY(how, truncate, P("none"), n);
    TRY(how, fallocate, fds[FILE_RW], n == 0 ? 0x100 : n, 0, 10);
    TRY(join(how, "size"), fallocate, fds[FILE_RW], 0, 0,
        n == 0x7fffffff || n == 0x80000000L ? -5 : n);
    TRY(how, fadvise64, f, n, n, 0);
    TRY(how, sync_file_range, f, n, n, 0);
    TRY(how, splice, fds[PIPE_R], 0, f, 0, n, 2);
    TRY(how, tee, fds[PIPE_R], fds[PIPE_W], n, 2);
    TRY(how, vmsplice, fds[PIPE_W], P(iov), n == 1 ? 1025 : n, 2);
    TRY(how, sendfile, fds[PIPE_W], f, 0, n == 1 ? 1 : n < 0 ? n : 0);
    TRY(how, copy_file_range, f, 0, f, 0, n == 1 || n == 0 ? n : 0, 0);
    TRY(how, getrandom, P(buf), 4, n);
    TRY(how, memfd_create, P("x"), n == 0 || n == 1 ? 0x4000 : n);
    TRY(how, socket, n == 1 ? 99 : n, SOCK_STREAM, 0);
    TRY(join(how, "type"), socket, AF_UNIX, n == 1 ? 99 : n, 0);
    TRY(how, socketpair, AF_UNIX, SOCK_STREAM, n == 0 ? 9 : n, P(buf));
    TRY(how, sendto, fds[SOCKET_UNBOUND], P(buf), n, MSG_DONTWAIT, 0, 0);
    TRY(how, recvfrom, fds[SOCKET], P(buf), n, MSG_DONTWAIT, 0, 0);
    TRY(how, setsockopt, fds[SOCKET], SOL_SOCKET, SO_SNDBUF, P(buf), n);
    TRY(how, wait4, n == -1 ? -9999 : n == 0 ? -9999 : n, 0, WNOHANG, 0);
    TRY(join(how, "options"), wait4, -1, 0, n == 1 || n == 0 ? 64 : n, 0);
    TRY(how, waitid, n == 0 || n == 1 ? 9 : n, 0, 0, WNOHANG | WEXITED, 0);
    TRY(how, futex, P(buf) + (n & 3), 99, 0, 0, 0, 0);
    TRY(join(how, "op"), futex, P(buf), n == 0 || n == 1 ? 50 : n, 0, 0, 0, 0);
    TRY(how, setitimer, n == 0 ? 9 : n == 1 ? 5 : n, 0, 0);
    TRY(how, getitimer, n == 0 || n == 1 ? 9 : n, P(buf));
    TRY(how, umask, n & 0777);
    TRY(how, personality, 0xffffffff);
    TRY(how, access, P("file"), n == 0 || n == 1 ? 8 : n);
    TRY(how, openat2, AT_FDCWD, P("file"), P(buf + 1000), n == 1 ? 23 : n);
    TRY(how, statx, AT_FDCWD, P("file"), n == 0 || n == 1 ? 1 : n, 0, P(buf));
    TRY(join(how, "mask"), statx, AT_FDCWD, P("file"), 0, n, P(buf));
    TRY(how, unlinkat, AT_FDCWD, P("none"), n == 0 ? 1 : n);
    TRY(how, linkat, AT_FDCWD, P("none"), AT_FDCWD, P("x"), n == 0 ? 1 : n);
    TRY(how, renameat2, AT_FDCWD, P("none"), AT_FDCWD, P("x"), n == 0 || n == 1 ? 3 : n);
    TRY(how, fchownat, AT_FDCWD, P("file"), -1, -1, n == 0 ? 1 : n);
    TRY(how, faccessat2, AT_FDCWD, P("file"), 0, n == 0 ? 1 : n);
    TRY(how, utimensat, AT_FDCWD, P("file"), 0, n == 0 ? 1 : n);
    TRY(how, msgget, 0x7777, n & 0777);
    TRY(how, semget, 0x7777, n, 0);
    TRY(join(how, "new"), semget, 0, n == 1 ? 40000 : n, 0600 | IPC_CREAT);
    TRY(how, shmget, 0,
        n == 1                                ? 0
        : n == 0x7fffffff || n == 0x80000000L ? -1
                                              : n,
        0600 | IPC_CREAT);
    TRY(how, msgsnd, n, P(buf), 8, 0);
    TRY(how, semop, n == 0 ? -1 : n, P(buf), 1);
    TRY(join(how, "ops"), semop, 0x7fff0000, P(buf), n);
    TRY(how, shmdt, n);
    TRY(how, getsid, n == 0 || n == 1 ? -1 : n);
    TRY(how, getpgid, n == 0 || n == 1 ? -1 : n);
    TRY(how, setpgid, (int)n == 0 || n == 1 ? -1 : n, 0);
    TRY(how, ioprio_get, n == 0 || n == 1 ? 9 : n, 0);
    TRY(how, prctl, n == 0 || n == 1 ? 99999 : n, 0, 0, 0, 0);
    TRY(how, arch_prctl, n == 0 ? 9 : n, P(buf));
    TRY(how, set_robust_list, 0, n);
    TRY(how, pidfd_open, n == 0 ? 0 : n == 1 ? 99999 : n, 0);
    TRY(join(how, "flags"), pidfd_open, getpid(), n == 0 ? 1 : n);
    TRY(how, futex_waitv, P(buf), n, 0, 0, 0);
    TRY(how, kcmp, getpid(), getpid(), n == 0 || n == 1 ? 99 : n, 0, 0);
    TRY(how, mq_unlink, n == 0 ? P("none") : P(""));
    TRY(how, sched_setscheduler, 0, n == 0 || n == 1 ? 99 : n, P(buf + 1000));
    TRY(how, clone3, P(buf + 1000), n == 0 ? 63 : n);
    TRY(how, rt_sigqueueinfo, n == 0 || n == 1 ? 99999 : n, 0, P(buf));
    TRY(how, getxattr, P("file"), P("user.none"), P(buf), n);
    TRY(how, setxattr, P("file"), P("user.a"), P(buf), n == 0 ? 70000 : n == 1 ? 65537 : n, 0);
    TRY(join(how, "flags"), setxattr, P("file"), P("user.a"), P(buf), 1, n == 0 || n == 1 ? 4 : n);
}

static void each_size(void)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_of_bytes(sizes[i].v, sizes[i].name);
        size_of_sets(sizes[i].v, sizes[i].name);
        numbers_and_flags(sizes[i].v, sizes[i].name);
    }
}

/* Times. */
static void each_time(void)
{
    static const struct timespec times[] = {{0, -1}, {0, 1000000000}, {-1, 0}, {INT64_MIN, 0}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        struct itimerspec its = {{0, 0}, times[i]};
        struct itimerval itv = {{0, 0}, {times[i].tv_sec, times[i].tv_nsec / 1000 - !i}};
        struct timespec two[2] = {times[i], times[i]};
        char how[20];
        (void)snprintf(how, sizeof how, "time %zu", i);
        TRY(how, nanosleep, P(&times[i]), 0);
        TRY(how, clock_nanosleep, CLOCK_MONOTONIC, 0, P(&times[i]), 0);
        TRY(join(how, "abs"), clock_nanosleep, CLOCK_MONOTONIC, 1, P(&times[i]), 0);
        TRY(how, ppoll, 0, 0, P(&times[i]), 0, 8);
        TRY(how, pselect6, 0, 0, 0, 0, P(&times[i]), 0);
        TRY(how, futex, P(buf + 1000), FUTEX_WAIT, 0, P(&times[i]), 0, 0);
        TRY(how, rt_sigtimedwait, P(buf + 1000), 0, P(&times[i]), 8);
        TRY(how, timerfd_settime, fds[TIMER], 0, P(&its), 0);
        TRY(how, setitimer, 0, P(&itv), 0);
        TRY(how, epoll_pwait2, fds[EPOLL], P(buf), 1, P(&times[i]), 0, 8);
        TRY(how, mq_timedreceive, 0, P(buf), 1, 0, P(&times[i]));
        TRY(how, recvmmsg, fds[SOCKET], P(buf), 0, 0, P(&times[i]));
        if (i < 2)
            TRY(how, utimensat, AT_FDCWD, P("file"), P(two), 0);
        TRY(how, semtimedop, 0x7fff0000, P(buf), 1, P(&times[i]));
    }
}

/* Paths. */
static void each_path(void)
{
    static char name[256 + 1], path[4096 + 2], slashes[4096];
    memset(name, 'n', 256);
    memset(path, 'p', 4096);
    for (int i = 1; i < 4096; i += 2)
        path[i] = '/';
    memset(slashes, '/', 4095);
    const struct value paths[] = {
        {"empty", P("")},        {"256", P(name)},        {"4096", P(path)},
        {"slashes", P(slashes)}, {"dot", P(".")},         {"dotdot", P("..")},
        {"file/", P("file/")},   {"file/x", P("file/x")}, {"link", P("dangling")},
        {"loop", P("loop")},     {"dir/.", P("dir/.")},   {"dir/", P("dir/")},
        {"root", P("/")},
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const char *how = paths[i].name;
        const long p = paths[i].v;
        TRY(how, open, p, O_RDONLY);
        TRY(join(how, "write"), open, p, O_WRONLY);
        TRY(join(how, "excl"), open, p, O_CREAT | O_EXCL | O_RDWR, 0600);
        TRY(join(how, "directory"), open, p, O_DIRECTORY);
        TRY(join(how, "nofollow"), open, p, O_NOFOLLOW);
        TRY(join(how, "path"), open, p, O_PATH);
        TRY(join(how, "tmpfile"), open, p, O_TMPFILE);
        TRY(join(how, "dir creat"), open, p, O_CREAT | O_DIRECTORY);
        TRY(how, stat, p, P(buf));
        TRY(how, lstat, p, P(buf));
        TRY(how, access, p, 0);
        TRY(how, mkdir, p, 0700);
        TRY(how, rmdir, i == 9 || i == 5 || i == 4 || i == 12 || i < 3 ? p : P("file"));
        TRY(how, unlink, i == 8 || i == 9 ? P("dir") : p);
        TRY(how, rename, p, P("new"));
        TRY(how, rename, P("new"), i < 12 ? p : P("."));
        TRY(how, link, p, P("file"));
        TRY(how, symlink, P("x"), i == 0 ? p : P("file"));
        TRY(how, readlink, p, P(buf), 10);
        TRY(how, truncate, p, 0);
        TRY(how, mknod, p, S_IFDIR, 0);
        TRY(join(how, "fifo"), mknod, p, S_IFIFO | 0600, 0);
        TRY(how, chdir, i == 10 || i == 11 || i == 5 || i == 12 ? P("none") : p);
        TRY(how, execve, p, 0, 0);
        TRY(how, inotify_add_watch, fds[INOTIFY], p, 0);
        TRY(how, statfs, i == 12 ? P("none") : p, P(buf));
        (void)unlink("new");
        (void)rmdir("new");
        (void)rename("new", "dir");
        (void)mkdir("dir", 0755);
        close(open("file", O_RDWR | O_CREAT, 0644));
        (void)symlink("none", "dangling");
        (void)symlink("loop", "loop");
        unlink("none");
        unlink(name);
    }
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    char dir[] = "edges.XXXXXX";
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)umask(022);
    if (!mkdtemp(dir) || chdir(dir) != 0)
        return 1;
    for (int fd = FREE; fd < 300; fd++)
        (void)close(fd);
    char *map = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    end = map + 2 * PAGE;
    if (map == MAP_FAILED || mprotect(end, 2 * PAGE, PROT_NONE) != 0)
        return 1;
    bad_addresses[0] = (struct value){"null", 0};
    bad_addresses[1] = (struct value){"1", 1};
    bad_addresses[2] = (struct value){"kernel", INT64_MIN >> 16};
    bad_addresses[3] = (struct value){"end", P(end)};
    open_all();
    (void)mkdir("dir", 0755);
    (void)symlink("none", "dangling");
    (void)symlink("loop", "loop");
    each_descriptor();
    each_address();
    each_size();
    each_time();
    each_path();
    (void)fflush(stdout);
    (void)chdir("..");
    return 0;
}

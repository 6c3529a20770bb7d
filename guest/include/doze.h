/* SPDX-License-Identifier: MIT
 *
 * doze.h - the process ABI: what a guest may import from module "doze" beside
 * WASI preview 1. docs/format/abi.md is its specification; libposix turns it
 * into POSIX, and few programs need it directly.
 *
 * Conventions: every call returns a value >= 0, or minus an errno, with WASI
 * preview 1's numbers. Pointers are offsets in memory 0; strings end in NUL.
 * A null path with a descriptor means the descriptor itself. Structures have no
 * padding that matters and never change: a call that needs more gets a new name.
 * Numbers of signals, terminal settings, ioctls, modes are Linux's; those of
 * open flags are wasi-libc's, with DOZE_O_CLOEXEC and DOZE_O_NOCTTY added.
 */
#ifndef DOZE_H
#define DOZE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DOZE_ABI_VERSION 2
#define DOZE(name)       __attribute__((import_module("doze"), import_name(#name)))

/* What the guest was compiled for. -ENOSYS when the host is older; crt1 asks
 * once and ends the program with a message. */
int doze_abi(int version) DOZE(abi);

/* --- processes ------------------------------------------------------------- */
int doze_fork(void) DOZE(fork);
int doze_vfork(void) DOZE(vfork); /* the parent waits; memory is shared until exec or exit */
int doze_execve(const char *path, char *const *argv, char *const *envp) DOZE(execve);
/* usage: user and system time in µs, peak memory in bytes; may be null */
int doze_waitpid(int pid, int *status, int options, uint64_t *usage) DOZE(waitpid);

enum doze_id {
    DOZE_ID_PID = 0,
    DOZE_ID_PPID = 1,
    DOZE_ID_UID = 2,
    DOZE_ID_EUID = 3,
    DOZE_ID_GID = 4,
    DOZE_ID_EGID = 5,
    DOZE_ID_NICE = 6, /* nice value plus 20 */
};
int doze_getid(int which) DOZE(getid);
int doze_setid(int which, int id) DOZE(setid);
int doze_getgroups(uint32_t *groups, int count) DOZE(getgroups); /* count 0 asks how many */
int doze_setgroups(const uint32_t *groups, int count) DOZE(setgroups);
int doze_getpgid(int pid) DOZE(getpgid);
int doze_setpgid(int pid, int pgid) DOZE(setpgid);
int doze_getsid(int pid) DOZE(getsid);
int doze_setsid(void) DOZE(setsid);
int doze_rusage(int who, uint64_t *usage) DOZE(rusage);
/* soft and hard; UINT64_MAX is no limit */
int doze_rlimit(int resource, const uint64_t *set, uint64_t *old) DOZE(rlimit);

enum doze_str {
    DOZE_STR_HOSTNAME = 0,
    DOZE_STR_RELEASE = 1,
    DOZE_STR_CWD = 2,
};
int doze_getstr(int what, char *buf, int size) DOZE(getstr); /* length with its NUL */
/* uptime in s, three load averages (16.16), total and free bytes, processes */
int doze_sysinfo(uint64_t values[7]) DOZE(sysinfo);

/* --- signals --------------------------------------------------------------------
 * At a safepoint the kernel calls the export __doze_signal(handler, signo, code). */
struct doze_sigaction {
    uint32_t handler; /* 0 default, 1 ignore, else the guest's own word */
    uint32_t flags;
    uint64_t mask; /* bit n-1 is signal n */
};
int doze_kill(int pid, int signo) DOZE(kill);
int doze_sigaction(int signo, const struct doze_sigaction *act, struct doze_sigaction *old)
    DOZE(sigaction);
int doze_sigprocmask(int how, const uint64_t *set, uint64_t *old) DOZE(sigprocmask);
int doze_sigpending(uint64_t *set) DOZE(sigpending);
int doze_sigsuspend(const uint64_t *mask) DOZE(sigsuspend);
/* Take a pending signal of the set without a handler; timeout in µs, -1: none.
 * Returns its number. */
int doze_sigtimedwait(const uint64_t *set, int64_t timeout_us) DOZE(sigtimedwait);
int doze_setitimer(int which, const uint64_t *interval_value_us, uint64_t *old) DOZE(setitimer);
/* left: what remains of a relative sleep that a signal ended; may be null */
int doze_nanosleep(int clock, int absolute, int64_t ns, int64_t *left) DOZE(nanosleep);

/* --- control ---------------------------------------------------------------------
 * setjmp is declared in setjmp.h, for the caller's own frame is what it names. */
void doze_longjmp(void *buf, int value) DOZE(longjmp) __attribute__((noreturn));

/* --- descriptors ------------------------------------------------------------------- */
#define DOZE_O_CLOEXEC 0x20000000
#define DOZE_O_NOCTTY  0x40000000

/* exact: to `to`, else to the lowest free one that is not below `to` */
int doze_dup(int fd, int to, int cloexec, int exact) DOZE(dup);
int doze_pipe(int fds[2], int flags) DOZE(pipe);
int doze_fcntl(int fd, int cmd, int arg) DOZE(fcntl);
struct doze_flock {
    int64_t start, len; /* len 0: to the end, whatever it is */
    int32_t pid;        /* out: who holds it */
    int16_t type;       /* 0 read, 1 write, 2 unlock */
    int16_t whence;
};
enum doze_lock {
    DOZE_LOCK_TEST = 0,
    DOZE_LOCK_TRY = 1,
    DOZE_LOCK_WAIT = 2,
    DOZE_LOCK_FLOCK_TRY = 3, /* flock(2): of the open file, all of it */
    DOZE_LOCK_FLOCK_WAIT = 4,
};
int doze_lock(int fd, int how, struct doze_flock *lock) DOZE(lock);
int doze_ioctl(int fd, int request, void *arg) DOZE(ioctl);
/* fds: struct pollfd of POSIX; mask may be null */
int doze_poll(void *fds, int count, int64_t timeout_us, const uint64_t *mask) DOZE(poll);

/* --- paths: dirfd may be AT_FDCWD (-2); an absolute path ignores it ---------------- */
struct doze_stat {
    uint64_t dev, ino, nlink, rdev, size, blocks; /* blocks of 512 bytes */
    uint32_t mode, uid, gid, blksize;
    int64_t atime_ns, mtime_ns, ctime_ns;
};
int doze_open(int dirfd, const char *path, int flags, int mode) DOZE(open);
int doze_stat(int dirfd, const char *path, int flags, struct doze_stat *st) DOZE(stat);
int doze_access(int dirfd, const char *path, int mode, int flags) DOZE(access);
int doze_readlink(int dirfd, const char *path, char *buf, int size) DOZE(readlink);
int doze_unlink(int dirfd, const char *path, int dir) DOZE(unlink);
int doze_mkdir(int dirfd, const char *path, int mode) DOZE(mkdir);
int doze_mknod(int dirfd, const char *path, int mode, int dev) DOZE(mknod);
int doze_link(int odir, const char *opath, int ndir, const char *npath, int flags) DOZE(link);
int doze_symlink(const char *target, int dirfd, const char *path) DOZE(symlink);
/* flags: 0, 1 no-replace, 2 exchange */
int doze_rename(int odir, const char *opath, int ndir, const char *npath, int flags) DOZE(rename);
int doze_chmod(int dirfd, const char *path, int mode, int flags) DOZE(chmod);
int doze_chown(int dirfd, const char *path, int uid, int gid, int flags) DOZE(chown);
#define DOZE_TIME_NOW  INT64_MIN
#define DOZE_TIME_OMIT (INT64_MIN + 1)
int doze_utimes(int dirfd, const char *path, const int64_t ns[2], int flags) DOZE(utimes);
int doze_chdir(int dirfd, const char *path) DOZE(chdir);
int doze_chroot(const char *path) DOZE(chroot);
int doze_umask(int mask) DOZE(umask);
/* type, block size, blocks, free, available, files, free files, name length, flags */
int doze_statfs(int dirfd, const char *path, uint64_t values[9]) DOZE(statfs);

/* --- sockets: families, types, flags, options and addresses are Linux's ------------ */
int doze_socket(int family, int type, int protocol) DOZE(socket);
int doze_socketpair(int family, int type, int protocol, int fds[2]) DOZE(socketpair);
int doze_bind(int fd, const void *addr, int size) DOZE(bind);
int doze_listen(int fd, int backlog) DOZE(listen);
/* size: in the room at addr, out the size of the address; addr may be null */
int doze_accept(int fd, int flags, void *addr, uint32_t *size) DOZE(accept);
int doze_connect(int fd, const void *addr, int size) DOZE(connect);
int doze_shutdown(int fd, int how) DOZE(shutdown);
int doze_sockname(int fd, int peer, void *addr, uint32_t *size) DOZE(sockname);
struct doze_sockopt {
    int64_t value;    /* a number; times in µs, 0 for ever; SO_LINGER: seconds, -1 off */
    uint32_t cred[3]; /* SO_PEERCRED: pid, uid, gid */
};
int doze_getsockopt(int fd, int level, int name, struct doze_sockopt *ret) DOZE(getsockopt);
int doze_setsockopt(int fd, int level, int name, const struct doze_sockopt *value) DOZE(setsockopt);
struct doze_msg {
    void *name; /* may be null */
    uint32_t name_size;
    const void *iov; /* struct iovec of POSIX */
    uint32_t iov_count;
    int *fds; /* SCM_RIGHTS: those to send, or room for received ones; may be null */
    uint32_t fd_count;
    uint32_t flags;    /* out: MSG_TRUNC, MSG_CTRUNC */
    uint32_t has_cred; /* SCM_CREDENTIALS; to receive: in whether there is room */
    uint32_t cred[3];  /* pid, uid, gid */
};
int doze_sendmsg(int fd, const struct doze_msg *m, int flags) DOZE(sendmsg);
int doze_recvmsg(int fd, struct doze_msg *m, int flags) DOZE(recvmsg);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: MIT
 *
 * fd_unix.c - unix sockets. An address has room for 108 bytes of path; a longer path is addressed
 * through a descriptor of its directory, by /proc/self/fd.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    BACKLOG = 4096,
    TURN_MS = 10,
    TURN_TRIES = 200,
};

/* The address of path; *ret_dir must stay open while it is used (-1: not needed). */
static int address(const char *path, struct sockaddr_un *ret_addr, int *ret_dir, struct dz_err *err)
{
    char dir[DZ_PATH_MAX];
    const char *slash = strrchr(path, '/');
    *ret_addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) < sizeof ret_addr->sun_path) {
        (void)snprintf(ret_addr->sun_path, sizeof ret_addr->sun_path, "%s", path);
        return 0;
    }
    if (!slash || slash == path || (size_t)(slash - path) >= sizeof dir)
        return dz_fail(err, DZ_ELIMIT, "the path of a socket is too long: %s", path);
    (void)snprintf(dir, sizeof dir, "%.*s", (int)(slash - path), path);
    *ret_dir = dz_fd_open(AT_FDCWD, dir, O_PATH | O_DIRECTORY, 0, err);
    if (*ret_dir < 0)
        return *ret_dir;
    int n = snprintf(ret_addr->sun_path, sizeof ret_addr->sun_path, "/proc/self/fd/%d/%s", *ret_dir,
                     slash + 1);
    return n < (int)sizeof ret_addr->sun_path
               ? 0
               : dz_fail(err, DZ_ELIMIT, "the name of a socket is too long: %s", slash + 1);
}

static int new_socket(struct dz_err *err)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return fd < 0 ? dz_fail_sys(err, errno, "make a unix socket") : fd;
}

static int bind_to(int fd, const struct sockaddr_un *addr)
{
    return bind(fd, (const struct sockaddr *)addr, sizeof *addr);
}

/* Does a process listen there? A full backlog also means yes. */
static bool in_use(const struct sockaddr_un *addr)
{
    DZ_AUTO(dz_fd_close) int fd = new_socket(NULL);
    return fd >= 0 &&
           (connect(fd, (const struct sockaddr *)addr, sizeof *addr) == 0 || errno == EAGAIN);
}

/* Lock the directory between the check for a listener and the bind, because of two processes that
 * find a stale socket, the second would remove the first one's new socket. A process that cannot
 * get the lock in time, or may not open the directory, continues without it. -1: no lock. */
static int take_turn(const char *path)
{
    char dir[DZ_PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    if (slash)
        (void)snprintf(dir, sizeof dir, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    DZ_AUTO(dz_fd_close)
    int fd = dz_fd_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0, NULL);
    for (int i = 0; fd >= 0 && i < TURN_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return DZ_TAKE_FD(fd);
        (void)poll(NULL, 0, TURN_MS);
    }
    return -1;
}

int dz_fd_unix_listen(const char *path, mode_t mode, struct dz_err *err)
{
    struct sockaddr_un addr;
    struct stat st;
    DZ_AUTO(dz_fd_close) int dir = -1;
    int rc = address(path, &addr, &dir, err);
    if (rc < 0)
        return rc;
    DZ_AUTO(dz_fd_close) int fd = new_socket(err);
    if (fd < 0)
        return fd;
    if (fchmod(fd, mode) < 0) /* so that the new socket has this mode from the start */
        return dz_fail_sys(err, errno, "listen at %s", path);
    DZ_AUTO(dz_fd_close) int turn = take_turn(path);
    (void)turn; /* held until return */
    rc = bind_to(fd, &addr);
    if (rc < 0 && errno == EADDRINUSE) {
        if (lstat(addr.sun_path, &st) == 0 && !S_ISSOCK(st.st_mode))
            return dz_fail(err, DZ_EEXIST, "listen at %s: the file exists and is not a socket",
                           path);
        if (in_use(&addr))
            return dz_fail(err, DZ_EBUSY, "listen at %s: another process already listens there",
                           path);
        (void)unlink(addr.sun_path);
        rc = bind_to(fd, &addr);
    }
    if (rc < 0 || listen(fd, BACKLOG) < 0)
        return dz_fail_sys(err, errno, "listen at %s", path);
    return DZ_TAKE_FD(fd);
}

int dz_fd_unix_connect(const char *path, struct dz_err *err)
{
    struct sockaddr_un addr;
    DZ_AUTO(dz_fd_close) int dir = -1;
    int rc = address(path, &addr, &dir, err);
    if (rc < 0)
        return rc;
    DZ_AUTO(dz_fd_close) int fd = new_socket(err);
    if (fd < 0)
        return fd;
    if (connect(fd, (const struct sockaddr *)&addr, sizeof addr) == 0)
        return DZ_TAKE_FD(fd);
    if (errno == ENOENT || errno == ECONNREFUSED)
        return dz_fail(err, DZ_ENOENT, "nothing listens at %s", path);
    return dz_fail_sys(err, errno, "connect to %s", path);
}

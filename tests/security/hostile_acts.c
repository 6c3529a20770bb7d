/* SPDX-License-Identifier: MIT
 *
 * hostile_acts.c - attacks that want an effect: each says whether it got what it wanted, or the
 * test's process looks whether it was harmed. Several fences stand before most of them, and a
 * control run takes out one after the other.
 */
#include "hostile.h"

#include "cell/cell_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static void try(struct board *b)
{
    atomic_store(&b->tried, 1);
}

/* --- reach other processes (B3) ----------------------------------------------------------- */

static bool signal_pending(const struct board *b)
{
    sigset_t set;
    (void)b;
    return sigpending(&set) == 0 && sigismember(&set, SIGUSR1) == 1;
}

/* A signal to the host each time that something comes over a socket. */
static bool signal_by_owner(const struct taken *t, struct board *b)
{
    int ends[2];
    (void)t;
    try(b);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0 || fcntl(ends[0], F_SETOWN, b->host) < 0 ||
        fcntl(ends[0], 10 /* F_SETSIG */, SIGUSR1) < 0 ||
        fcntl(ends[0], F_SETFL, O_ASYNC | O_RDWR) < 0)
        return false;
    if (write(ends[1], "x", 1) != 1)
        return false;
    return false; /* the host knows */
}

static bool signal_by_kill(const struct taken *t, struct board *b)
{
    (void)t;
    try(b);
    return kill(b->host, SIGUSR1) == 0;
}

/* An abstract socket's name needs no path: the host listens on one named after itself. */
static bool abstract_socket(const struct taken *t, struct board *b)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)t;
    try(b);
    int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "doze-hostile-%d", b->host);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    size_t size = offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n;
    return fd >= 0 && connect(fd, (const struct sockaddr *)&a, (socklen_t)size) == 0;
}

static bool bind_tcp(const struct taken *t, struct board *b)
{
    const struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    (void)t;
    try(b);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd >= 0 && bind(fd, (const struct sockaddr *)&a, sizeof a) == 0;
}

/* Whether there is an interface besides loopback, which is down. */
static bool see_network(const struct taken *t, struct board *b)
{
    char text[4096];
    (void)t;
    try(b);
    int fd = open("/proc/self/net/dev", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[n < 0 ? 0 : n] = '\0';
    return n > 0 && strchr(text, ':') != strrchr(text, ':');
}

/* --- memory and files of the host (B1, B9) -------------------------------------------------- */

static bool open_for(struct board *b, const char *path, int flags)
{
    try(b);
    return syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC) >= 0;
}

static bool open_host_file(const struct taken *t, struct board *b)
{
    (void)t;
    return open_for(b, "/etc/passwd", O_RDONLY);
}

/* Process 1, as the host sees it, or the guard: neither is the business of who looks. */
static bool read_first(const struct taken *t, struct board *b)
{
    char byte;
    (void)t;
    try(b);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/1/cmdline", O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, &byte, 1) > 0;
}

static bool open_below_host(const struct board *b, const char *name, struct board *ret)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", b->host, name);
    return open_for(ret, path, O_RDONLY);
}

static bool open_host_memory(const struct taken *t, struct board *b)
{
    (void)t;
    return open_below_host(b, "mem", b);
}

static bool open_host_environ(const struct taken *t, struct board *b)
{
    (void)t;
    return open_below_host(b, "environ", b);
}

static bool seize_host(const struct taken *t, struct board *b)
{
    (void)t;
    try(b);
    return ptrace(PTRACE_SEIZE, b->host, NULL, NULL) == 0;
}

/* --- privileges (B4) ------------------------------------------------------------------------ */

static bool has_capability(const struct taken *t, struct board *b)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {0};
    (void)t;
    try(b);
    const uint32_t settles = 1u << CAP_SETUID | 1u << CAP_SETGID; /* see more_capabilities() */
    return syscall(SYS_capget, &head, sets) == 0 &&
           ((sets[0].permitted & ~settles) || sets[1].permitted);
}

static bool has_bounding_set(const struct taken *t, struct board *b)
{
    (void)t;
    try(b);
    return prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN, 0, 0, 0) == 1;
}

static bool become_root(const struct taken *t, struct board *b)
{
    (void)t;
    try(b);
    return setresuid(0, 0, 0) == 0;
}

/* Of cells.uids, where the filter allows it: a cell that has its sandbox has settled. */
static bool become_another_tenant(const struct taken *t, struct board *b)
{
    const unsigned id = 1879048192 + 256 + 7;
    (void)t;
    try(b);
    return syscall(SYS_setresuid, id, id, id) == 0;
}

/* All that a zygote keeps are the two by which its cells become their tenants' users. */
static bool more_capabilities(const struct taken *t, struct board *b)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {0};
    (void)t;
    try(b);
    sets[0].permitted = sets[0].effective = 1u << CAP_KILL | 1u << CAP_SYS_ADMIN;
    return syscall(SYS_capset, &head, sets) == 0;
}

static bool rename_host(const struct taken *t, struct board *b)
{
    char name[65];
    (void)t;
    try(b);
    return gethostname(name, sizeof name) == 0 && sethostname(name, strlen(name)) == 0;
}

/* --- shared open files (B5) ----------------------------------------------------------------- */

int hostile_image = -1;

/* The test's descriptor of the image has the offset 0 before. */
static bool image_moved(const struct board *b)
{
    (void)b;
    return lseek(hostile_image, 0, SEEK_CUR) != 0;
}

static bool move_image_offset(const struct taken *t, struct board *b)
{
    try(b);
    (void)lseek(t->image, 12345, SEEK_SET);
    return false;
}

/* --- limits (B7) ------------------------------------------------------------------------------ */

static bool grow_file(const struct taken *t, struct board *b)
{
    try(b);
    return ftruncate(t->disk, (off_t)20 << 30) == 0;
}

static bool write_far(const struct taken *t, struct board *b)
{
    try(b);
    return pwrite(t->disk, "x", 1, (off_t)20 << 30) == 1;
}

static bool many_descriptors(const struct taken *t, struct board *b)
{
    int fd = 0;
    try(b);
    while (fd >= 0 && fd <= 2 * DZ_CELL_NOFILE)
        fd = dup(t->socket);
    return fd > 2 * DZ_CELL_NOFILE;
}

/* --- numbers of other processes (B12) --------------------------------------------------------- */

/* In a zygote: each request for a cell is answered by the number of another's cell, and the new
 * cell's socket is closed. */
static bool name_another(const struct taken *t, struct board *b)
{
    static uint8_t payload[DZ_CELL_FRAME_MAX];
    const struct dz_frame ready = {.type = DZ_FRAME_ZYGOTE_READY},
                          forked = {.type = DZ_FRAME_ZYGOTE_FORKED, .value = (uint64_t)b->victim};
    struct dz_frame f;
    struct dz_frame_fds fds;
    int rc = dz_frame_send(t->socket, &ready, NULL, true, NULL);
    try(b);
    while (rc > 0 && dz_frame_receive_fds(t->socket, &f, payload, true, &fds, NULL) > 0) {
        if (f.type == DZ_FRAME_ZYGOTE_FORK)
            rc = dz_frame_send(t->socket, &forked, NULL, true, NULL);
        for (size_t i = 0; i < fds.count; i++)
            (void)close(fds.fds[i]);
    }
    return false;
}

/* In a zygote: it is ready, takes requests for cells, and never answers one. */
static bool never_answer(const struct taken *t, struct board *b, bool closes)
{
    static uint8_t payload[DZ_CELL_FRAME_MAX];
    const struct dz_frame ready = {.type = DZ_FRAME_ZYGOTE_READY};
    struct dz_frame f;
    struct dz_frame_fds fds;
    int rc = dz_frame_send(t->socket, &ready, NULL, true, NULL);
    try(b);
    while (rc > 0 && (rc = dz_frame_receive_fds(t->socket, &f, payload, true, &fds, NULL)) > 0)
        for (size_t i = 0; closes && i < fds.count; i++)
            (void)close(fds.fds[i]);
    return false;
}

/* In a zygote: children of the host that never say who they are; half of them end at once. */
static bool fork_strays(const struct taken *t, struct board *b)
{
    const struct dz_frame ready = {.type = DZ_FRAME_ZYGOTE_READY};
    (void)dz_frame_send(t->socket, &ready, NULL, true, NULL);
    for (uint32_t i = 0; i < b->count; i++) {
        if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL) != 0)
            continue;
        if (i % 2)
            _exit(0);
        for (;;)
            (void)poll(NULL, 0, -1);
    }
    try(b);
    for (;;)
        (void)poll(NULL, 0, -1);
}

/* By the calls that it has. */
static ssize_t send_packet(int fd, const void *p, size_t size)
{
    union { /* sendmsg does not write to it */
        const void *in;
        void *out;
    } body = {.in = p};
    struct iovec iov = {body.out, size};
    const struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    return sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* In a zygote: the same packet without end. */
DZ_NORETURN static void repeat(const struct taken *t, struct board *b, const void *p, size_t size)
{
    struct pollfd room = {.fd = t->socket, .events = POLLOUT};
    try(b);
    for (;;)
        if (send_packet(t->socket, p, size) < 0)
            (void)poll(&room, 1, -1);
}

static bool write_without_end(const struct taken *t, struct board *b)
{
    static char text[100];
    memset(text, 'x', sizeof text);
    repeat(t, b, text, sizeof text);
}

static bool be_ready_without_end(const struct taken *t, struct board *b)
{
    const struct dz_frame f = {.type = DZ_FRAME_ZYGOTE_READY};
    repeat(t, b, &f, sizeof f);
}

static bool fail_without_end(const struct taken *t, struct board *b)
{
    const struct dz_frame f = {.type = DZ_FRAME_ZYGOTE_FAILED, .value = 5};
    repeat(t, b, &f, sizeof f);
}

/* In a zygote: how many processes may it and its cells be? */
static bool without_bound(const struct taken *t, struct board *b)
{
    struct rlimit r = {0, RLIM_INFINITY};
    (void)t;
    try(b);
    return syscall(SYS_prlimit64, 0, RLIMIT_NPROC, NULL, &r) < 0 ||
           r.rlim_max > DZ_CELL_PROCESSES_MOST;
}

static bool close_and_be_silent(const struct taken *t, struct board *b)
{
    return never_answer(t, b, true);
}

static bool be_silent(const struct taken *t, struct board *b)
{
    return never_answer(t, b, false);
}

#define ACT(what, f, where, by, fn, ...) \
    {.name = (what), .finding = (f), .places = (where), .held_by = (by), .run = (fn), __VA_ARGS__}

static const struct attack acts[] = {
    ACT("a signal to the host, by F_SETOWN", "B3", EVERYWHERE,
        BY_FILTER | BY(SCOPES) | BY(PID) | BY(USERS), signal_by_owner, .harmed = signal_pending),
    ACT("a signal to the host, by kill", "B3", EVERYWHERE,
        BY_FILTER | BY(SCOPES) | BY(PID) | BY(USERS), signal_by_kill, .harmed = signal_pending),
    ACT("the host, traced", "B3", EVERYWHERE,
        BY_FILTER | BY(LANDLOCK) | BY(USER) | BY(PID) | BY(USERS) | BY_LESS, seize_host),
    ACT("an abstract socket of the host", "B3", EVERYWHERE, BY_FILTER | BY(SCOPES) | BY(NET),
        abstract_socket),
    ACT("a TCP port", "B9", EVERYWHERE, BY_FILTER | BY(LANDLOCK), bind_tcp),
    ACT("the host's network", "B9", AT_CELLS, BY_FILTER | BY(LANDLOCK) | BY(MOUNT) | BY(NET),
        see_network),
    ACT("the host's network, seen by a zygote", "B9", AT(ZYGOTE), BY(NET), see_network),
    ACT("a file of the host", "B9", AT_CELLS, BY_FILTER | BY(LANDLOCK) | BY(MOUNT), open_host_file),
    ACT("a file of the host, read by a zygote", "B9", AT(ZYGOTE), BY(LANDLOCK) | BY(MOUNT),
        open_host_file),
    ACT("the host's first process", "B9", AT_CELLS, BY_FILTER | BY(LANDLOCK) | BY(MOUNT),
        read_first),
    ACT("the host's first process, read by a zygote", "B9", AT(ZYGOTE), BY(MOUNT), read_first),
    ACT("the host's memory", "B1", AT_CELLS,
        BY_FILTER | BY(LANDLOCK) | BY(USER) | BY(MOUNT) | BY(USERS) | BY_LESS, open_host_memory),
    ACT("the host's memory, read by a zygote", "B1", AT(ZYGOTE),
        BY(LANDLOCK) | BY(USER) | BY(MOUNT) | BY(USERS) | BY_LESS, open_host_memory),
    ACT("the host's environment", "B1", AT_CELLS,
        BY_FILTER | BY(LANDLOCK) | BY(USER) | BY(MOUNT) | BY(USERS) | BY_LESS, open_host_environ),
    ACT("the host's environment, read by a zygote", "B1", AT(ZYGOTE),
        BY(LANDLOCK) | BY(USER) | BY(MOUNT) | BY(USERS) | BY_LESS, open_host_environ),
    ACT("a capability", "B4", EVERYWHERE, BY_FILTER | BY(CAPS) | BY_NOBODY, has_capability),
    ACT("more capabilities", "B4", EVERYWHERE, BY_FILTER | BY(CAPS) | BY_NOBODY, more_capabilities),
    ACT("root", "B4", EVERYWHERE, BY_FILTER | BY(USER) | BY_NOBODY, become_root),
    ACT("another tenant's user", "B4", AT_CELLS | AT(FIRST),
        BY_FILTER | BY(CAPS) | BY(USER) | BY_NOBODY, become_another_tenant),
    ACT("a bounding set", "B4", EVERYWHERE, BY_FILTER | BY(CAPS), has_bounding_set),
    ACT("the host's name", "B4", EVERYWHERE, BY_FILTER | BY(CAPS) | BY_NOBODY, rename_host),
    ACT("the offset of an image that others read", "B5", AT(CELL) | AT(FIRST) | AT(ZYGOTE), BY_ANEW,
        move_image_offset, .harmed = image_moved),
    ACT("a file of 20 GiB, by ftruncate", "B7", AT(CELL) | AT(CALL), BY_LIMITS, grow_file),
    ACT("a file of 20 GiB, by pwrite", "B7", AT(CELL) | AT(CALL), BY_LIMITS, write_far),
    ACT("names another cell", "B12", 0, 0, name_another), /* a test of its own arms it */
    ACT("closes its cells' sockets and says nothing", "B2", 0, 0,
        close_and_be_silent),                                       /* the same */
    ACT("forks what says nothing", "B12", 0, 0, fork_strays),       /* the same */
    ACT("may fork without bound", "B12", 0, 0, without_bound),      /* the same */
    ACT("writes without end", "B12", 0, 0, write_without_end),      /* the same */
    ACT("is ready without end", "B12", 0, 0, be_ready_without_end), /* the same */
    ACT("fails without end", "B12", 0, 0, fail_without_end),        /* the same */
    ACT("says nothing", "B2", 0, 0, be_silent),                     /* the same */
    ACT("five hundred descriptors", "B7", EVERYWHERE, BY_LIMITS, many_descriptors),
};
const struct attacks hostile_acts = {acts, DZ_ARRAY_LEN(acts)};

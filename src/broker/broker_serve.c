/* SPDX-License-Identifier: MIT
 *
 * broker_serve.c - the process of the broker.
 *
 * The process reads the name servers' addresses, enters its jail and waits for requests. One
 * epoll set has the socket to the daemon, the connections that are being made, and c-ares's sockets
 * to name servers.
 *
 * The jail has no file system; its calls are those of dz_os_jail_compute and dz_os_jail_broker. The
 * process stays in the host's network namespace. It decides nothing: the daemon judges an address
 * before it requests a connection.
 *
 * The broker ends when the daemon closes the socket or dies, or when a record is impossible.
 */
#include "base/clock.h"
#include "base/num.h"
#include "base/sanitize.h"
#include "base/str.h"
#include "broker/broker_int.h"
#include "os/os_jail.h"
#include "os/os_user.h"

#include <ares.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    EVENTS = 64,
    /* Sockets of connections in the making, sockets to name servers, and a few more. */
    NOFILE = DZ_BROKER_PENDING_MAX + 256,
    RESOLVE_TRY_MS = 2500, /* for each try of each name server */
    RESOLVE_TRIES = 3,
    V4_AT = 12, /* of the address of IPv4 in one of IPv6 */
};

/* A connection that is being made. */
struct attempt {
    uint64_t id; /* 0: this place is free */
    int fd;
    int64_t deadline_ms;
};

/* A name that is being resolved; c-ares has a pointer to it. */
struct question {
    uint64_t id;
    bool ipv6;
    bool used, canceled;
};

static struct {
    int epoll;
    int64_t timeout_ms;
    ares_channel ares;
    struct attempt attempts[DZ_BROKER_PENDING_MAX];
    size_t attempt_count;
    struct question questions[DZ_BROKER_PENDING_MAX];
} broker = {.epoll = -1};

/* The data of an event: a descriptor of c-ares, the daemon's socket, or the lower half of the id of
 * an attempt. */
enum {
    OF_ARES = 0,
    OF_DAEMON = 1,
    OF_ATTEMPT = 2,
};

static uint64_t event_of(uint64_t kind, size_t number)
{
    return kind << 32 | number;
}

/* --- answers ---------------------------------------------------------------------------- */

/* Waits if the daemon is slow: it always reads in the end. fd < 0: none. */
static void answer(const struct dz_broker_answer *a, int fd)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof fd)];
    } control = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)a, .iov_len = sizeof *a};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof control;
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    }
    while (sendmsg(DZ_BROKER_FD, &m, MSG_NOSIGNAL) < 0)
        if (errno != EINTR)
            _exit(0); /* the daemon is gone */
}

static void refuse(uint64_t id, int error)
{
    const struct dz_broker_answer a = {
        .type = DZ_BROKER_REFUSED, .id = id, .error = (uint32_t)error};
    answer(&a, -1);
}

/* --- connections ------------------------------------------------------------------------ */

/* End an attempt: error 0: the connection is open. */
static void finish(struct attempt *t, int error)
{
    const struct dz_broker_answer open = {.type = DZ_BROKER_CONNECTED, .id = t->id};
    struct epoll_event none = {0};
    (void)epoll_ctl(broker.epoll, EPOLL_CTL_DEL, t->fd, &none);
    if (error)
        refuse(t->id, error);
    else
        answer(&open, t->fd);
    (void)close(t->fd);
    *t = (struct attempt){.fd = -1};
    broker.attempt_count--;
}

static int connect_to(int fd, const struct dz_broker_request *r)
{
    const uint16_t port = htons((uint16_t)r->port);
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = port};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = port};
    memcpy(&v4.sin_addr, r->addr.bytes + V4_AT, sizeof v4.sin_addr);
    memcpy(&v6.sin6_addr, r->addr.bytes, sizeof v6.sin6_addr);
    return dz_net_addr_is_v4(&r->addr) ? connect(fd, (const struct sockaddr *)&v4, sizeof v4)
                                       : connect(fd, (const struct sockaddr *)&v6, sizeof v6);
}

static void on_connect(const struct dz_broker_request *r)
{
    size_t i = 0;
    while (i < DZ_BROKER_PENDING_MAX && broker.attempts[i].id)
        i++;
    if (i == DZ_BROKER_PENDING_MAX) { /* never: the daemon counts, too */
        refuse(r->id, EAGAIN);
        return;
    }
    const int family = dz_net_addr_is_v4(&r->addr) ? AF_INET : AF_INET6;
    const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct epoll_event e = {.events = EPOLLOUT, .data.u64 = event_of(OF_ATTEMPT, (uint32_t)r->id)};
    if (fd < 0) {
        refuse(r->id, errno == EAFNOSUPPORT ? ENETUNREACH : errno);
        return;
    }
    const int error = connect_to(fd, r) == 0 ? 0 : errno;
    broker.attempts[i] = (struct attempt){r->id, fd, dz_clock_mono_ms() + broker.timeout_ms};
    broker.attempt_count++;
    if (error != EINPROGRESS)
        finish(&broker.attempts[i], error);
    else if (epoll_ctl(broker.epoll, EPOLL_CTL_ADD, fd, &e) < 0)
        finish(&broker.attempts[i], errno);
}

/* An event may be for an attempt that was cancelled in the same turn. */
static void on_attempt(uint32_t id)
{
    size_t i = 0;
    int error = 0;
    socklen_t size = sizeof error;
    while (i < DZ_BROKER_PENDING_MAX &&
           (!broker.attempts[i].id || (uint32_t)broker.attempts[i].id != id))
        i++;
    if (i == DZ_BROKER_PENDING_MAX)
        return;
    struct attempt *t = &broker.attempts[i];
    if (getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    finish(t, error);
}

/* End what has taken too long. Returns the milliseconds until the next deadline; -1: there is none.
 */
static int64_t check_deadlines(void)
{
    const int64_t now = dz_clock_mono_ms();
    int64_t next = -1;
    for (size_t i = 0; broker.attempt_count > 0 && i < DZ_BROKER_PENDING_MAX; i++) {
        struct attempt *t = &broker.attempts[i];
        if (!t->id)
            continue;
        if (t->deadline_ms <= now)
            finish(t, ETIMEDOUT);
        else if (next < 0 || t->deadline_ms - now < next)
            next = t->deadline_ms - now;
    }
    return next;
}

/* --- names ------------------------------------------------------------------------------ */

static ares_socket_t ares_open(int family, int type, int protocol, void *arg)
{
    (void)protocol;
    (void)arg;
    return socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int ares_shut(ares_socket_t fd, void *arg)
{
    (void)arg;
    return close(fd);
}

static int ares_join(ares_socket_t fd, const struct sockaddr *to, ares_socklen_t size, void *arg)
{
    (void)arg;
    return connect(fd, to, size);
}

static ares_ssize_t ares_receive(ares_socket_t fd, void *data, size_t n, int flags,
                                 struct sockaddr *from, ares_socklen_t *size, void *arg)
{
    (void)arg;
    return recvfrom(fd, data, n, flags, from, size);
}

static ares_ssize_t ares_write(ares_socket_t fd, const struct iovec *iov, int n, void *arg)
{
    (void)arg;
    return writev(fd, iov, n);
}

static void on_ares_state(void *arg, ares_socket_t fd, int readable, int writable)
{
    struct epoll_event e = {.events = (readable ? EPOLLIN : 0) | (writable ? EPOLLOUT : 0),
                            .data.u64 = event_of(OF_ARES, (size_t)fd)};
    (void)arg;
    if (!readable && !writable)
        (void)epoll_ctl(broker.epoll, EPOLL_CTL_DEL, fd, &e);
    else if (epoll_ctl(broker.epoll, EPOLL_CTL_MOD, fd, &e) < 0)
        (void)epoll_ctl(broker.epoll, EPOLL_CTL_ADD, fd, &e);
}

static enum dz_broker_name status_of(int ares)
{
    switch (ares) {
    case ARES_SUCCESS:
    case ARES_ENODATA:
        return DZ_BROKER_FOUND;
    case ARES_ENOTFOUND:
        return DZ_BROKER_NO_NAME;
    default:
        return DZ_BROKER_FAILED;
    }
}

static void add_address(struct dz_broker_answer *a, const void *bytes, size_t size, int ttl)
{
    struct dz_net_addr *to = &a->addrs[a->count];
    memset(to, 0, sizeof *to);
    to->bytes[V4_AT - 2] = to->bytes[V4_AT - 1] = 0xff; /* if it is one of IPv4 */
    memcpy(to->bytes + sizeof to->bytes - size, bytes, size);
    const uint32_t ttl_s = ttl < 0 ? 0 : (uint32_t)ttl;
    if (a->count++ == 0 || ttl_s < a->ttl_s)
        a->ttl_s = ttl_s;
}

static void on_resolved(void *arg, int status, int timeouts, unsigned char *data, int size)
{
    struct question *q = arg;
    struct dz_broker_answer a = {.type = DZ_BROKER_RESOLVED, .id = q->id};
    struct ares_addrttl v4[DZ_BROKER_ADDRS_MAX];
    struct ares_addr6ttl v6[DZ_BROKER_ADDRS_MAX];
    int n = DZ_BROKER_ADDRS_MAX;
    (void)timeouts;
    if (status == ARES_SUCCESS)
        status = q->ipv6 ? ares_parse_aaaa_reply(data, size, NULL, v6, &n)
                         : ares_parse_a_reply(data, size, NULL, v4, &n);
    a.error = status_of(status);
    for (int i = 0; status == ARES_SUCCESS && i < n; i++)
        if (q->ipv6)
            add_address(&a, &v6[i].ip6addr, sizeof v6[i].ip6addr, v6[i].ttl);
        else
            add_address(&a, &v4[i].ipaddr, sizeof v4[i].ipaddr, v4[i].ttl);
    if (!q->canceled)
        answer(&a, -1);
    *q = (struct question){0};
}

static void on_resolve(const struct dz_broker_request *r)
{
    size_t i = 0;
    while (i < DZ_BROKER_PENDING_MAX && broker.questions[i].used)
        i++;
    if (i == DZ_BROKER_PENDING_MAX) { /* canceled questions fill the table */
        const struct dz_broker_answer a = {
            .type = DZ_BROKER_RESOLVED, .id = r->id, .error = DZ_BROKER_FAILED};
        answer(&a, -1);
        return;
    }
    broker.questions[i] = (struct question){.id = r->id, .ipv6 = r->ipv6 != 0, .used = true};
    ares_query(broker.ares, r->name, 1 /* IN */, r->ipv6 ? 28 /* AAAA */ : 1 /* A */, on_resolved,
               &broker.questions[i]);
}

static void on_cancel(uint64_t id)
{
    for (size_t i = 0; i < DZ_BROKER_PENDING_MAX; i++) {
        struct attempt *t = &broker.attempts[i];
        if (t->id == id) {
            (void)close(t->fd); /* which takes it out of the epoll set */
            *t = (struct attempt){.fd = -1};
            broker.attempt_count--;
        }
        if (broker.questions[i].used && broker.questions[i].id == id)
            broker.questions[i].canceled = true;
    }
}

/* --- the process ------------------------------------------------------------------------- */

static void on_daemon(void)
{
    struct dz_broker_request r;
    /* One byte more: a longer packet is seen as one. */
    char packet[sizeof r + 1];
    ssize_t n = recv(DZ_BROKER_FD, packet, sizeof packet, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        _exit(0); /* the daemon is gone */
    memcpy(&r, packet, sizeof r);
    if (!dz_broker_request_sound(&r, (size_t)n))
        _exit(1);
    if (r.type == DZ_BROKER_CONNECT)
        on_connect(&r);
    else if (r.type == DZ_BROKER_RESOLVE)
        on_resolve(&r);
    else
        on_cancel(r.id);
}

static int wait_ms(int64_t deadline_ms)
{
    struct timeval most = {.tv_sec = 3600}, room, *left = ares_timeout(broker.ares, &most, &room);
    const int64_t ms = (int64_t)left->tv_sec * 1000 + left->tv_usec / 1000 + 1;
    return (int)(deadline_ms >= 0 && deadline_ms < ms ? deadline_ms : ms);
}

DZ_NORETURN static void serve(void)
{
    struct epoll_event events[EVENTS];
    for (;;) {
        const int n = epoll_wait(broker.epoll, events, EVENTS, wait_ms(check_deadlines()));
        bool names = n <= 0;
        for (int i = 0; i < n; i++) {
            const uint64_t kind = events[i].data.u64 >> 32;
            const uint32_t number = (uint32_t)events[i].data.u64;
            const bool in = events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP);
            const bool out = events[i].events & (EPOLLOUT | EPOLLERR | EPOLLHUP);
            if (kind == OF_DAEMON)
                on_daemon();
            else if (kind == OF_ATTEMPT)
                on_attempt(number);
            else
                ares_process_fd(broker.ares, in ? (int)number : ARES_SOCKET_BAD,
                                out ? (int)number : ARES_SOCKET_BAD);
            names |= kind == OF_ARES;
        }
        if (names) /* tries that have timed out */
            ares_process_fd(broker.ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    }
}

/* Reads /etc/resolv.conf, so this comes before the jail. */
static int start_names(const char *resolvers, struct dz_err *err)
{
    static const struct ares_socket_functions functions = {ares_open, ares_shut, ares_join,
                                                           ares_receive, ares_write};
    static char dns_only[] = "b";
    struct ares_options o = {.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
                             .timeout = RESOLVE_TRY_MS,
                             .tries = RESOLVE_TRIES,
                             .lookups = dns_only,
                             .sock_state_cb = on_ares_state};
    int status = ares_library_init(ARES_LIB_INIT_ALL);
    if (status == ARES_SUCCESS)
        status = ares_init_options(&broker.ares, &o,
                                   ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
                                       ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB);
    if (status == ARES_SUCCESS && resolvers[0]) {
        status = ares_set_servers_ports_csv(broker.ares, resolvers);
        if (status != ARES_SUCCESS)
            return dz_fail(err, DZ_EINVAL,
                           "\"%.100s\" is not a list of name servers: write 10.0.0.1,10.0.0.2:5353",
                           resolvers);
    }
    if (status != ARES_SUCCESS)
        return dz_fail(err, DZ_EIO, "start the resolver: %s", ares_strerror(status));
    ares_set_socket_functions(broker.ares, &functions, NULL);
    return 0;
}

static int enter_jail(const struct dz_os_users *users, uint32_t user, struct dz_err *err)
{
    enum {
        CALLS_MAX = 160,
    };
    static struct dz_os_syscall calls[CALLS_MAX];
    const size_t count = dz_os_jail_compute_count;
    const struct dz_os_rlimit limits[] = {
        {RLIMIT_FSIZE, 0}, {RLIMIT_CORE, 0}, {RLIMIT_NOFILE, NOFILE}};
    struct dz_os_jail_report report;
    struct dz_os_filter *filter = NULL;
    if (count + dz_os_jail_broker_count > CALLS_MAX)
        return dz_fail(err, DZ_ELIMIT, "the table of system calls is too long");
    memcpy(calls, dz_os_jail_compute, count * sizeof calls[0]);
    memcpy(calls + count, dz_os_jail_broker, dz_os_jail_broker_count * sizeof calls[0]);
    /* Compiled first, because that needs a file, and the jail allows none of any size. */
    const int rc = dz_os_filter_new(calls, count + dz_os_jail_broker_count, false, &filter, err);
    const struct dz_os_jail jail = {
        .filter = filter,
        .limits = limits,
        .limit_count = DZ_ARRAY_LEN(limits),
        .parent_signal = SIGKILL,
        .landlock = true,
        .landlock_net = true,
        .namespaces = dz_os_jail_namespaces & ~CLONE_NEWNET,
        .users = users->count ? users : NULL,
        .user = user,
    };
    return rc < 0 ? rc : dz_os_jail_enter(&jail, &report, err);
}

/* Standard input and output are /dev/null; the standard error stays the daemon's, for failed
 * assertions. */
static int prepare(void)
{
    static const int ignored[] = {SIGINT, SIGTSTP, SIGQUIT, SIGHUP, SIGTERM, SIGPIPE, SIGXFSZ};
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = event_of(OF_DAEMON, 0)};
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
        return -1;
    (void)close(null);
    for (size_t i = 0; i < DZ_ARRAY_LEN(ignored); i++)
        (void)signal(ignored[i], SIG_IGN);
    (void)prctl(PR_SET_NAME, DZ_BROKER_WORD, 0, 0, 0);
    broker.epoll = epoll_create1(EPOLL_CLOEXEC);
    return broker.epoll < 0 ? -1 : epoll_ctl(broker.epoll, EPOLL_CTL_ADD, DZ_BROKER_FD, &e);
}

static uint32_t number(char *const *argv, int i)
{
    uint64_t n;
    if (dz_num_u64(dz_str(argv[i]), 0, UINT32_MAX, &n, NULL) < 0)
        _exit(1);
    return (uint32_t)n;
}

DZ_NORETURN void dz_broker_begin(char *const *argv)
{
    struct dz_err err = {0};
    struct dz_broker_answer a = {.type = DZ_BROKER_READY};
    const struct dz_os_users users = {number(argv, DZ_BROKER_ARG_FIRST),
                                      number(argv, DZ_BROKER_ARG_COUNT)};
    broker.timeout_ms = number(argv, DZ_BROKER_ARG_TIMEOUT);
    dz_os_jail_demand(number(argv, DZ_BROKER_ARG_FENCES) & ~DZ_OS_FENCE_BIT(NET));
    int rc = prepare() < 0 ? dz_fail_sys(&err, errno, "prepare the broker") : 0;
    if (rc == 0)
        rc = start_names(argv[DZ_BROKER_ARG_RESOLVERS], &err);
    if (rc == 0)
        rc = enter_jail(&users, number(argv, DZ_BROKER_ARG_USER), &err);
    if (rc < 0) {
        a.type = DZ_BROKER_NO_JAIL;
        (void)snprintf(a.text, sizeof a.text, "%s", err.msg);
        answer(&a, -1);
        _exit(1);
    }
    answer(&a, -1);
    serve();
}

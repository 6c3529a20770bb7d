/* SPDX-License-Identifier: MIT
 *
 * broker.c - the daemon's side: start the process, send requests, check answers, restart.
 *
 * A broker that dies within RESTART_MS of its start is not restarted before RESTART_MS after its
 * death, so that a broken host does not make the daemon fork all the time.
 */
#include "broker/broker_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "os/os_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    RESTART_MS = 1000,
    ANSWERS_AT_ONCE = 64, /* in one turn of the loop */
    V4_AT = 12,           /* of the address of IPv4 in one of IPv6 */
    NUMBER_TEXT = 24,
};

/* A request that has no answer yet. */
struct pending {
    struct dz_list link; /* of pending, or of orphans */
    uint64_t id;
    struct dz_net_addr addr;
    uint16_t port;
    dz_broker_connected_fn *connected; /* NULL: it is for a name */
    dz_broker_resolved_fn *resolved;
    void *arg;
};

struct dz_broker {
    struct dz_broker_opts opts;
    char *resolvers;
    struct dz_os_proc proc;
    int fd; /* -1: it does not run */
    struct dz_poll *poll;
    struct dz_timer *restart;
    struct dz_loop_task orphaned; /* tell the requests of a dead broker */
    int64_t started_ms;
    uint64_t restarts, last_id;
    struct dz_list pending;
    size_t pending_count;
    struct dz_list orphans; /* of a broker that has died */
};

/* --- records ---------------------------------------------------------------------------- */

static bool is_zero(const void *p, size_t n)
{
    static const char zeros[sizeof(struct dz_broker_request)];
    return memcmp(p, zeros, n) == 0;
}

bool dz_broker_request_sound(const struct dz_broker_request *r, size_t size)
{
    char name[DZ_NET_NAME_MAX + 1];
    if (size != sizeof *r || r->id == 0 || !is_zero(r->zero, sizeof r->zero))
        return false;
    const bool no_name = is_zero(r->name, sizeof r->name) && r->ipv6 == 0;
    const bool no_addr = is_zero(&r->addr, sizeof r->addr) && r->port == 0;
    switch (r->type) {
    case DZ_BROKER_CONNECT:
        return no_name && r->port > 0 && r->port <= UINT16_MAX;
    case DZ_BROKER_RESOLVE:
        return no_addr && r->ipv6 <= 1 && memchr(r->name, 0, sizeof r->name) &&
               dz_net_name_parse(r->name, name) == 0 && strcmp(name, r->name) == 0;
    case DZ_BROKER_CANCEL:
        return no_addr && no_name;
    default:
        return false;
    }
}

bool dz_broker_answer_sound(const struct dz_broker_answer *a, size_t size, size_t fds)
{
    if (size != sizeof *a || fds != (a->type == DZ_BROKER_CONNECTED ? 1 : 0))
        return false;
    switch (a->type) {
    case DZ_BROKER_READY:
        return a->id == 0;
    case DZ_BROKER_NO_JAIL:
        return a->id == 0 && memchr(a->text, 0, sizeof a->text);
    case DZ_BROKER_CONNECTED:
        return a->id != 0 && a->error == 0;
    case DZ_BROKER_REFUSED:
        return a->id != 0 && a->error > 0 && a->error <= DZ_BROKER_ERROR_MAX;
    case DZ_BROKER_RESOLVED:
        return a->id != 0 && a->error <= DZ_BROKER_FAILED && a->count <= DZ_BROKER_ADDRS_MAX &&
               (a->error == DZ_BROKER_FOUND || a->count == 0);
    default:
        return false;
    }
}

/* --- the process ------------------------------------------------------------------------- */

static void on_events(void *arg, int events);

/* The variables that only sanitizers read are the only ones that the broker gets. */
static void environment(const char *ret_env[static 4], char (*room)[512])
{
    static const char *const kept[] = {"ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"};
    size_t n = 0;
    for (size_t i = 0; i < DZ_ARRAY_LEN(kept); i++) {
        const char *value = getenv(kept[i]);
        if (value && snprintf(room[n], sizeof room[n], "%s=%s", kept[i], value) < 512) {
            ret_env[n] = room[n];
            n++;
        }
    }
    ret_env[n] = NULL;
}

static int start(struct dz_broker *b, struct dz_err *err)
{
    char numbers[DZ_BROKER_ARGS][NUMBER_TEXT], room[3][512];
    const char *env[4];
    const uint64_t values[DZ_BROKER_ARGS] = {
        [DZ_BROKER_ARG_FENCES] = b->opts.fences,
        [DZ_BROKER_ARG_USER] = b->opts.user,
        [DZ_BROKER_ARG_FIRST] = b->opts.users.first,
        [DZ_BROKER_ARG_COUNT] = b->opts.users.count,
        [DZ_BROKER_ARG_TIMEOUT] = (uint64_t)b->opts.connect_timeout_ms,
    };
    const char *argv[DZ_BROKER_ARGS + 1] = {DZ_BROKER_PROGRAM, DZ_BROKER_WORD};
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return dz_fail_sys(err, errno, "start the broker: make a socket");
    for (size_t i = DZ_BROKER_ARG_FENCES; i < DZ_BROKER_ARG_RESOLVERS; i++) {
        (void)snprintf(numbers[i], sizeof numbers[i], "%llu", (unsigned long long)values[i]);
        argv[i] = numbers[i];
    }
    argv[DZ_BROKER_ARG_RESOLVERS] = b->resolvers;
    environment(env, room);
    const struct dz_os_fd fds[] = {{DZ_BROKER_FD, ends[1]}};
    const struct dz_os_spawn_opts opts = {
        .argv = argv, .env = env, .cwd = "/", .fds = fds, .fd_count = 1};
    int rc = dz_os_spawn(&opts, &b->proc, err);
    (void)close(ends[1]);
    if (rc == 0)
        rc = dz_poll_new(b->opts.loop, ends[0], on_events, b, &b->poll, err);
    if (rc == 0)
        rc = dz_poll_set(b->poll, DZ_POLL_READ, err);
    if (rc < 0) {
        dz_poll_free(b->poll);
        b->poll = NULL;
        dz_os_proc_close(&b->proc);
        (void)close(ends[0]);
        return rc;
    }
    b->fd = ends[0];
    b->started_ms = dz_clock_mono_ms();
    return 0;
}

static void stop(struct dz_broker *b)
{
    dz_poll_free(b->poll);
    b->poll = NULL;
    dz_fd_close(&b->fd);
    dz_os_proc_close(&b->proc);
}

static void restart(void *arg)
{
    struct dz_broker *b = arg;
    struct dz_err err = {0};
    if (start(b, &err) < 0) {
        dz_log(DZ_LOG_ERROR, "broker_not_started", dz_log_err(&err));
        dz_timer_after(b->restart, RESTART_MS);
    }
}

static void end_pending(struct pending *p)
{
    const struct dz_broker_addrs failed = {.status = DZ_BROKER_FAILED};
    dz_list_remove(&p->link);
    if (p->connected)
        p->connected(p->arg, -1, ECONNREFUSED);
    else
        p->resolved(p->arg, &failed);
    dz_free(p);
}

static void on_orphaned(void *arg)
{
    struct dz_broker *b = arg;
    struct pending *p;
    while ((p = DZ_LIST_FIRST(struct pending, &b->orphans, link)))
        end_pending(p);
}

/* The broker is dead, or must die for what it has sent. A task tells the requests, because their
 * `done` may request something else. */
static void on_death(struct dz_broker *b, const char *why)
{
    const int64_t age_ms = dz_clock_mono_ms() - b->started_ms;
    dz_log(DZ_LOG_ERROR, "broker_died", dz_log_int("pid", b->proc.pid), dz_log_strz("why", why),
           dz_log_uint("pending", b->pending_count));
    stop(b);
    b->restarts++;
    dz_list_splice_back(&b->orphans, &b->pending);
    b->pending_count = 0;
    dz_loop_post(b->opts.loop, &b->orphaned);
    dz_timer_after(b->restart, age_ms < RESTART_MS ? RESTART_MS : 0);
}

/* --- answers ---------------------------------------------------------------------------- */

static struct pending *find(struct dz_list *list, uint64_t id)
{
    DZ_LIST_FOREACH(struct pending, p, list, link)
        if (p->id == id)
            return p;
    return NULL;
}

/* Is it a non-blocking TCP socket that is connected to this address? */
static bool is_connection(int fd, const struct pending *p)
{
    struct sockaddr_in6 to = {0};
    const struct sockaddr_in *to4 = (const struct sockaddr_in *)&to;
    struct dz_net_addr addr = {{[V4_AT - 2] = 0xff, [V4_AT - 1] = 0xff}};
    socklen_t size = sizeof to;
    int type = 0, protocol = 0;
    socklen_t type_size = sizeof type, protocol_size = sizeof protocol;
    if (getpeername(fd, (struct sockaddr *)&to, &size) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) < 0 || type != SOCK_STREAM ||
        getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &protocol_size) < 0 ||
        protocol != IPPROTO_TCP || !(fcntl(fd, F_GETFL) & O_NONBLOCK))
        return false;
    if (to.sin6_family == AF_INET)
        memcpy(addr.bytes + V4_AT, &to4->sin_addr, sizeof to4->sin_addr);
    else if (to.sin6_family == AF_INET6)
        memcpy(addr.bytes, &to.sin6_addr, sizeof addr.bytes);
    else
        return false;
    return memcmp(&addr, &p->addr, sizeof addr) == 0 && ntohs(to.sin6_port) == p->port;
}

/* Returns NULL, or why the broker must end. */
static const char *on_answer(struct dz_broker *b, const struct dz_broker_answer *a, int *fd)
{
    if (a->type == DZ_BROKER_READY) {
        dz_log(DZ_LOG_INFO, "broker_started", dz_log_int("pid", b->proc.pid));
        return NULL;
    }
    if (a->type == DZ_BROKER_NO_JAIL) {
        dz_log(DZ_LOG_ERROR, "broker_not_started", dz_log_strz("error", a->text));
        return "it could not enter its jail";
    }
    struct pending *p = find(&b->pending, a->id);
    if (!p) /* cancelled meanwhile */
        return a->id <= b->last_id ? NULL : "it answered what was not requested";
    if ((a->type == DZ_BROKER_RESOLVED) != !p->connected)
        return "it answered another request";
    if (*fd >= 0 && !is_connection(*fd, p))
        return "it sent a socket of another connection";
    dz_list_remove(&p->link);
    b->pending_count--;
    if (a->type == DZ_BROKER_RESOLVED) {
        struct dz_broker_addrs addrs = {(enum dz_broker_name)a->error, a->ttl_s, a->count, {{{0}}}};
        memcpy(addrs.addrs, a->addrs, sizeof addrs.addrs);
        p->resolved(p->arg, &addrs);
    } else {
        p->connected(p->arg, *fd, (int)a->error);
        *fd = -1; /* the callee's */
    }
    dz_free(p);
    return NULL;
}

/* Receive one packet. Returns 0, or DZ_EBUSY: there is none, DZ_EDIED: the broker is gone, DZ_EIO:
 * the packet is impossible. */
static int receive(const struct dz_broker *b, struct dz_broker_answer *ret_answer, int *ret_fd)
{
    enum {
        FDS = 4, /* room to see that there are too many */
    };
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(FDS * sizeof(int))];
    } control;
    char packet[sizeof *ret_answer + 1]; /* a longer packet is seen as one */
    struct iovec iov = {packet, sizeof packet};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control};
    int fds[FDS];
    size_t count = 0;
    const ssize_t n = recvmsg(b->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return DZ_EBUSY;
    if (n <= 0)
        return DZ_EDIED;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        count = (c->cmsg_len - CMSG_LEN(0)) / sizeof fds[0];
        memcpy(fds, CMSG_DATA(c), count * sizeof fds[0]);
    }
    memcpy(ret_answer, packet, sizeof *ret_answer);
    if ((m.msg_flags & MSG_CTRUNC) || !dz_broker_answer_sound(ret_answer, (size_t)n, count)) {
        for (size_t i = 0; i < count; i++)
            (void)close(fds[i]);
        return DZ_EIO;
    }
    *ret_fd = count ? fds[0] : -1;
    return 0;
}

static void on_events(void *arg, int events)
{
    struct dz_broker *b = arg;
    struct dz_broker_answer a;
    struct dz_err err = {0};
    (void)events;
    for (int i = 0; i < ANSWERS_AT_ONCE; i++) {
        int fd = -1;
        const int rc = receive(b, &a, &fd);
        const char *why = rc == DZ_EDIED ? "it ended"
                          : rc == DZ_EIO ? "it sent an impossible record"
                                         : NULL;
        if (rc == 0)
            why = on_answer(b, &a, &fd);
        dz_fd_close(&fd);
        if (why) {
            on_death(b, why);
            return;
        }
        if (rc == DZ_EBUSY)
            break;
    }
    if (dz_poll_set(b->poll, DZ_POLL_READ, &err) < 0)
        on_death(b, err.msg);
}

/* --- requests ---------------------------------------------------------------------------- */

static int send_request(const struct dz_broker *b, const struct dz_broker_request *r)
{
    const ssize_t n = b->fd < 0 ? -1 : send(b->fd, r, sizeof *r, MSG_DONTWAIT | MSG_NOSIGNAL);
    return n == (ssize_t)sizeof *r ? 0 : DZ_EBUSY;
}

static int request(struct dz_broker *b, struct dz_broker_request *r, const struct pending *like,
                   uint64_t *ret_id)
{
    struct pending *p = b->pending_count < DZ_BROKER_PENDING_MAX ? dz_alloc(sizeof *p) : NULL;
    if (!p)
        return DZ_EBUSY;
    *p = *like;
    dz_list_init(&p->link);
    r->id = p->id = b->last_id + 1;
    const int rc = send_request(b, r);
    if (rc < 0) {
        dz_free(p);
        return rc;
    }
    b->last_id = p->id;
    dz_list_push_back(&b->pending, &p->link);
    b->pending_count++;
    *ret_id = p->id;
    return 0;
}

int dz_broker_connect(struct dz_broker *b, const struct dz_net_addr *addr, uint16_t port,
                      dz_broker_connected_fn *done, void *arg, uint64_t *ret_id)
{
    struct dz_broker_request r = {.type = DZ_BROKER_CONNECT, .addr = *addr, .port = port};
    const struct pending p = {.addr = *addr, .port = port, .connected = done, .arg = arg};
    return request(b, &r, &p, ret_id);
}

int dz_broker_resolve(struct dz_broker *b, const char *name, bool ipv6, dz_broker_resolved_fn *done,
                      void *arg, uint64_t *ret_id)
{
    struct dz_broker_request r = {.type = DZ_BROKER_RESOLVE, .ipv6 = ipv6};
    const struct pending p = {.resolved = done, .arg = arg};
    (void)snprintf(r.name, sizeof r.name, "%s", name);
    return request(b, &r, &p, ret_id);
}

void dz_broker_cancel(struct dz_broker *b, uint64_t id)
{
    const struct dz_broker_request r = {.type = DZ_BROKER_CANCEL, .id = id};
    struct pending *p = find(&b->pending, id), *orphan = p ? NULL : find(&b->orphans, id);
    if (p) {
        b->pending_count--;
        (void)send_request(b, &r); /* else the broker's answer is dropped */
    }
    if (!p)
        p = orphan;
    if (p) {
        dz_list_remove(&p->link);
        dz_free(p);
    }
}

/* --- the beginning and the end ------------------------------------------------------------- */

int dz_broker_new(const struct dz_broker_opts *opts, struct dz_broker **ret_broker,
                  struct dz_err *err)
{
    struct dz_broker *b = dz_zalloc(sizeof *b);
    if (!b)
        return dz_fail(err, DZ_ENOMEM, "start the broker: out of memory");
    *b = (struct dz_broker){.opts = *opts, .proc = DZ_OS_PROC_NONE, .fd = -1};
    b->opts.resolvers = NULL;
    dz_list_init(&b->pending);
    dz_list_init(&b->orphans);
    dz_loop_task_init(&b->orphaned, b, on_orphaned, b);
    b->resolvers = dz_str_dup(dz_str(opts->resolvers));
    int rc = b->resolvers ? dz_timer_new(opts->loop, restart, b, &b->restart, err)
                          : dz_fail(err, DZ_ENOMEM, "start the broker: out of memory");
    if (rc == 0)
        rc = start(b, err);
    if (rc < 0) {
        dz_broker_free(b);
        return rc;
    }
    *ret_broker = b;
    return 0;
}

void dz_broker_free(struct dz_broker *b)
{
    if (!b)
        return;
    stop(b);
    dz_loop_task_cancel(&b->orphaned);
    dz_timer_free(b->restart);
    dz_list_splice_back(&b->orphans, &b->pending);
    DZ_LIST_FOREACH(struct pending, p, &b->orphans, link) {
        dz_list_remove(&p->link);
        dz_free(p);
    }
    dz_free(b->resolvers);
    dz_free(b);
}

pid_t dz_broker_pid(const struct dz_broker *b)
{
    return b->fd >= 0 ? b->proc.pid : 0;
}

uint64_t dz_broker_restarts(const struct dz_broker *b)
{
    return b->restarts;
}

/* A program that contains this module may be started as the broker. That is decided before main(),
 * because the programs of tests have brokers as well. */
__attribute__((constructor)) static void be_broker(int argc, char **argv)
{
    if (argc == DZ_BROKER_ARGS && strcmp(argv[DZ_BROKER_ARG_PROGRAM], DZ_BROKER_PROGRAM) == 0 &&
        strcmp(argv[DZ_BROKER_ARG_WORD], DZ_BROKER_WORD) == 0)
        dz_broker_begin(argv);
}

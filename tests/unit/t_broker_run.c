/* SPDX-License-Identifier: MIT
 * The broker: connections to listeners of the test, names from a name server of the test, its
 * death, its jail, and records that it must refuse. */
#include "broker/broker_int.h"

#include "base/fd.h"
#include "base/str.h"
#include "os/os_proc.h"
#include "tap.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct dz_net_addr localhost = {
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}};

struct result {
    struct dz_loop *loop;
    int calls, fd, error;
    struct dz_broker_addrs addrs;
};

static void on_connected(void *arg, int fd, int error)
{
    struct result *r = arg;
    r->calls++;
    r->fd = fd;
    r->error = error;
    dz_loop_stop(r->loop);
}

static void on_resolved(void *arg, const struct dz_broker_addrs *addrs)
{
    struct result *r = arg;
    r->calls++;
    r->addrs = *addrs;
    dz_loop_stop(r->loop);
}

struct world {
    struct dz_loop *loop;
    struct dz_broker *broker;
    int dns; /* a UDP socket */
    struct dz_poll *dns_poll;
};

static uint16_t port_of(int fd)
{
    struct sockaddr_in a;
    socklen_t size = sizeof a;
    CHECK_INT(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    return ntohs(a.sin_port);
}

static int bound(int type)
{
    const struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_INT(bind(fd, (const struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static int listener(int backlog)
{
    const int fd = bound(SOCK_STREAM);
    CHECK_INT(listen(fd, backlog), 0);
    return fd;
}

/* A name server that knows "two.test" (A: two addresses, of TTL 30 and 20) and "six.test" (AAAA).
 * "none.test" does not exist; other questions get an answer without records. */
static void on_query(void *arg, int events)
{
    static const unsigned char two[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 10, 0, 0, 1,
                                        0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 20, 0, 4, 10, 0, 0, 2};
    static const unsigned char six[] = {0xc0, 12,   0, 28, 0, 1, 0, 0, 0, 9, 0, 16, 0x20, 1,
                                        0xd,  0xb8, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0,    5};
    const struct world *w = arg;
    unsigned char p[512];
    struct sockaddr_in from;
    socklen_t size = sizeof from;
    (void)events;
    ssize_t n = recvfrom(w->dns, p, sizeof p - 64, MSG_DONTWAIT, (struct sockaddr *)&from, &size);
    if (n < 17)
        return;
    size_t end = 12;
    while (end < (size_t)n && p[end])
        end += p[end] + 1u;
    const bool v6 = p[end + 2] == 28;
    n = (ssize_t)end + 5; /* no OPT record */
    p[2] = 0x81;
    p[3] = 0x80;
    p[6] = p[7] = p[8] = p[9] = p[10] = p[11] = 0;
    if (memcmp(p + 12, "\3two\4test", 9) == 0 && !v6) {
        memcpy(p + n, two, sizeof two);
        n += (ssize_t)sizeof two;
        p[7] = 2;
    } else if (memcmp(p + 12, "\3six\4test", 9) == 0 && v6) {
        memcpy(p + n, six, sizeof six);
        n += (ssize_t)sizeof six;
        p[7] = 1;
    } else if (memcmp(p + 12, "\4none\4test", 10) == 0) {
        p[3] = 0x83;
    }
    CHECK_INT(sendto(w->dns, p, (size_t)n, 0, (struct sockaddr *)&from, size), n);
}

static void begin(struct world *w, int64_t timeout_ms)
{
    struct dz_err err = {0};
    char resolvers[32];
    *w = (struct world){.dns = bound(SOCK_DGRAM)};
    (void)snprintf(resolvers, sizeof resolvers, "127.0.0.1:%u", port_of(w->dns));
    CHECK_INT(dz_loop_new(&w->loop, &err), 0);
    CHECK_INT(dz_poll_new(w->loop, w->dns, on_query, w, &w->dns_poll, &err), 0);
    CHECK_INT(dz_poll_set(w->dns_poll, DZ_POLL_READ, &err), 0);
    const struct dz_broker_opts opts = {
        .loop = w->loop, .resolvers = resolvers, .connect_timeout_ms = timeout_ms};
    CHECK_INT(dz_broker_new(&opts, &w->broker, &err), 0);
    CHECK_STR(err.msg, "");
}

static void end(struct world *w)
{
    dz_broker_free(w->broker);
    dz_poll_free(w->dns_poll);
    dz_loop_free(w->loop);
    (void)close(w->dns);
}

static struct result connect_now(struct world *w, uint16_t port)
{
    struct result r = {.loop = w->loop, .fd = -1};
    struct dz_err err = {0};
    uint64_t id;
    CHECK_INT(dz_broker_connect(w->broker, &localhost, port, on_connected, &r, &id), 0);
    CHECK_INT(dz_loop_run(w->loop, &err), 0);
    CHECK_INT(r.calls, 1);
    return r;
}

static struct result resolve_now(struct world *w, const char *name, bool ipv6)
{
    struct result r = {.loop = w->loop, .fd = -1};
    struct dz_err err = {0};
    uint64_t id;
    CHECK_INT(dz_broker_resolve(w->broker, name, ipv6, on_resolved, &r, &id), 0);
    CHECK_INT(dz_loop_run(w->loop, &err), 0);
    CHECK_INT(r.calls, 1);
    return r;
}

TEST(a_connection)
{
    struct world w;
    char text[8] = "";
    begin(&w, 5000);
    const int server = listener(5);
    const struct result r = connect_now(&w, port_of(server));
    CHECK_INT(r.error, 0);
    CHECK(r.fd >= 0);
    const int peer = accept(server, NULL, NULL);
    CHECK_INT(write(r.fd, "hello", 5), 5);
    CHECK_INT(read(peer, text, sizeof text), 5);
    CHECK_STR(text, "hello");
    CHECK_INT(recv(r.fd, text, sizeof text, 0), -1); /* it does not block */
    CHECK_INT(errno, EAGAIN);
    (void)close(r.fd);
    CHECK_INT(read(peer, text, sizeof text), 0); /* the broker has kept no duplicate */
    (void)close(peer);
    (void)close(server);
    end(&w);
}

TEST(a_refused_connection)
{
    struct world w;
    begin(&w, 5000);
    const int nobody = bound(SOCK_STREAM); /* does not listen */
    const struct result r = connect_now(&w, port_of(nobody));
    CHECK_INT(r.fd, -1);
    CHECK_INT(r.error, ECONNREFUSED);
    (void)close(nobody);
    end(&w);
}

/* A listener whose queue is full drops the first packets of further connections. */
static int deaf_listener(int ret_held[static 2])
{
    const int fd = listener(0);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(port_of(fd)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < 2; i++) {
        ret_held[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(ret_held[i], (const struct sockaddr *)&a, sizeof a);
        if (i == 0) { /* it is in the queue before the next one tries */
            struct pollfd p = {.fd = ret_held[i], .events = POLLOUT};
            CHECK_INT(poll(&p, 1, -1), 1);
        }
    }
    return fd;
}

TEST(a_connection_that_takes_too_long)
{
    struct world w;
    int held[2];
    begin(&w, 100);
    const int deaf = deaf_listener(held);
    const struct result r = connect_now(&w, port_of(deaf));
    CHECK_INT(r.fd, -1);
    CHECK_INT(r.error, ETIMEDOUT);
    (void)close(held[0]);
    (void)close(held[1]);
    (void)close(deaf);
    end(&w);
}

TEST(a_cancelled_request_is_not_answered)
{
    struct world w;
    int held[2];
    struct result lost = {.fd = -1};
    uint64_t id;
    begin(&w, DZ_BROKER_TIMEOUT_MAX_MS);
    const int deaf = deaf_listener(held), server = listener(5);
    lost.loop = w.loop;
    CHECK_INT(dz_broker_connect(w.broker, &localhost, port_of(deaf), on_connected, &lost, &id), 0);
    dz_broker_cancel(w.broker, id);
    dz_broker_cancel(w.broker, id);
    dz_broker_cancel(w.broker, 12345);
    CHECK_INT(dz_broker_resolve(w.broker, "two.test", false, on_resolved, &lost, &id), 0);
    dz_broker_cancel(w.broker, id);
    const struct result r = connect_now(&w, port_of(server));
    CHECK_INT(r.error, 0);
    CHECK_INT(lost.calls, 0);
    CHECK_INT(dz_broker_restarts(w.broker), 0);
    (void)close(r.fd);
    (void)close(held[0]);
    (void)close(held[1]);
    (void)close(deaf);
    (void)close(server);
    end(&w);
}

TEST(names)
{
    struct world w;
    begin(&w, 5000);
    struct result r = resolve_now(&w, "two.test", false);
    CHECK_INT(r.addrs.status, DZ_BROKER_FOUND);
    CHECK_INT(r.addrs.count, 2);
    CHECK_INT(r.addrs.ttl_s, 20);
    char text[DZ_NET_ADDR_TEXT];
    CHECK_STR(dz_net_addr_print(&r.addrs.addrs[0], text), "10.0.0.1");
    CHECK_STR(dz_net_addr_print(&r.addrs.addrs[1], text), "10.0.0.2");
    r = resolve_now(&w, "two.test", true);
    CHECK_INT(r.addrs.status, DZ_BROKER_FOUND);
    CHECK_INT(r.addrs.count, 0);
    r = resolve_now(&w, "six.test", true);
    CHECK_INT(r.addrs.count, 1);
    CHECK_STR(dz_net_addr_print(&r.addrs.addrs[0], text), "2001:db8::5");
    r = resolve_now(&w, "none.test", false);
    CHECK_INT(r.addrs.status, DZ_BROKER_NO_NAME);
    CHECK_INT(r.addrs.count, 0);
    end(&w);
}

TEST(a_broker_that_dies_is_restarted)
{
    struct world w;
    int held[2];
    struct dz_err err = {0};
    uint64_t id;
    begin(&w, DZ_BROKER_TIMEOUT_MAX_MS);
    const int deaf = deaf_listener(held), server = listener(5);
    struct result r = connect_now(&w, port_of(server)); /* it runs */
    (void)close(r.fd);
    struct result lost = {.loop = w.loop, .fd = -1};
    CHECK_INT(dz_broker_connect(w.broker, &localhost, port_of(deaf), on_connected, &lost, &id), 0);
    const pid_t first = dz_broker_pid(w.broker);
    CHECK_INT(kill(first, SIGKILL), 0);
    CHECK_INT(dz_loop_run(w.loop, &err), 0);
    CHECK_INT(lost.calls, 1);
    CHECK_INT(lost.error, ECONNREFUSED);
    int rc;
    while ((rc = dz_broker_connect(w.broker, &localhost, port_of(server), on_connected, &r, &id)) ==
           DZ_EBUSY) { /* until it runs again */
        struct dz_timer *t;
        CHECK_INT(dz_timer_new(w.loop, (void (*)(void *))dz_loop_stop, w.loop, &t, &err), 0);
        dz_timer_after(t, 10);
        CHECK_INT(dz_loop_run(w.loop, &err), 0);
        dz_timer_free(t);
    }
    CHECK_INT(rc, 0);
    CHECK_INT(dz_loop_run(w.loop, &err), 0);
    CHECK_INT(r.error, 0);
    CHECK_INT(dz_broker_restarts(w.broker), 1);
    CHECK(dz_broker_pid(w.broker) != first);
    (void)close(r.fd);
    (void)close(held[0]);
    (void)close(held[1]);
    (void)close(deaf);
    (void)close(server);
    end(&w);
}

TEST(a_jail_holds_it)
{
    struct world w;
    char path[64], *line;
    DZ_AUTO(dz_buf_release) struct dz_buf status = DZ_BUF_INIT(1 << 16);
    struct dz_err err = {0};
    begin(&w, 5000);
    (void)resolve_now(&w, "two.test", false); /* it is in its jail */
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)dz_broker_pid(w.broker));
    CHECK_INT(dz_fd_read_file(AT_FDCWD, path, &status, &err), 0);
    dz_buf_add(&status, "", 1);
    line = strstr(status.p, "\nSeccomp:");
    CHECK(line && strncmp(line, "\nSeccomp:\t2", 11) == 0);
    line = strstr(status.p, "\nCapEff:");
    CHECK(line && strncmp(line, "\nCapEff:\t0000000000000000", 25) == 0);
    line = strstr(status.p, "\nNoNewPrivs:");
    CHECK(line && strncmp(line, "\nNoNewPrivs:\t1", 14) == 0);
    end(&w);
}

/* --- records ------------------------------------------------------------------------------ */

static struct dz_broker_request sound_connect(void)
{
    return (struct dz_broker_request){
        .type = DZ_BROKER_CONNECT, .id = 1, .addr = localhost, .port = 80};
}

TEST(impossible_requests)
{
    struct dz_broker_request r = sound_connect();
    CHECK(dz_broker_request_sound(&r, sizeof r));
    CHECK(!dz_broker_request_sound(&r, sizeof r - 1));
    CHECK(!dz_broker_request_sound(&r, sizeof r + 1));
    r.id = 0;
    CHECK(!dz_broker_request_sound(&r, sizeof r));
    r = sound_connect();
    r.port = 0;
    CHECK(!dz_broker_request_sound(&r, sizeof r));
    r.port = 65536;
    CHECK(!dz_broker_request_sound(&r, sizeof r));
    r = sound_connect();
    r.zero[5] = 1;
    CHECK(!dz_broker_request_sound(&r, sizeof r));
    r = sound_connect();
    r.name[0] = 'a';
    CHECK(!dz_broker_request_sound(&r, sizeof r));
    r = sound_connect();
    r.type = 4;
    CHECK(!dz_broker_request_sound(&r, sizeof r));
    r = (struct dz_broker_request){.type = DZ_BROKER_RESOLVE, .id = 1, .name = "a.test"};
    CHECK(dz_broker_request_sound(&r, sizeof r));
    r.ipv6 = 2;
    CHECK(!dz_broker_request_sound(&r, sizeof r));
    r.ipv6 = 1;
    r.port = 1;
    CHECK(!dz_broker_request_sound(&r, sizeof r));
    static const char *const names[] = {"", "A.test", "a.test.", "10.0.0.1", "a..test", "-a.test"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(names); i++) {
        r = (struct dz_broker_request){.type = DZ_BROKER_RESOLVE, .id = 1};
        (void)snprintf(r.name, sizeof r.name, "%s", names[i]);
        CHECK(!dz_broker_request_sound(&r, sizeof r));
    }
    memset(r.name, 'a', sizeof r.name);
    CHECK(!dz_broker_request_sound(&r, sizeof r));
    r = (struct dz_broker_request){.type = DZ_BROKER_CANCEL, .id = 1};
    CHECK(dz_broker_request_sound(&r, sizeof r));
    r.port = 1;
    CHECK(!dz_broker_request_sound(&r, sizeof r));
}

TEST(impossible_answers)
{
    const struct dz_broker_answer rows[] = {
        {.type = 0, .id = 1},
        {.type = 6, .id = 1},
        {.type = DZ_BROKER_READY, .id = 1},
        {.type = DZ_BROKER_REFUSED, .id = 0, .error = ECONNREFUSED},
        {.type = DZ_BROKER_REFUSED, .id = 1, .error = 0},
        {.type = DZ_BROKER_REFUSED, .id = 1, .error = DZ_BROKER_ERROR_MAX + 1},
        {.type = DZ_BROKER_CONNECTED, .id = 1}, /* without a descriptor */
        {.type = DZ_BROKER_RESOLVED, .id = 1, .error = DZ_BROKER_FAILED + 1},
        {.type = DZ_BROKER_RESOLVED, .id = 1, .count = DZ_BROKER_ADDRS_MAX + 1},
        {.type = DZ_BROKER_RESOLVED, .id = 1, .error = DZ_BROKER_NO_NAME, .count = 1},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(rows); i++)
        CHECK(!dz_broker_answer_sound(&rows[i], sizeof rows[i], 0));
    struct dz_broker_answer a = {.type = DZ_BROKER_CONNECTED, .id = 1};
    CHECK(dz_broker_answer_sound(&a, sizeof a, 1));
    CHECK(!dz_broker_answer_sound(&a, sizeof a, 2));
    CHECK(!dz_broker_answer_sound(&a, sizeof a - 1, 1));
    a = (struct dz_broker_answer){.type = DZ_BROKER_REFUSED, .id = 1, .error = ECONNREFUSED};
    CHECK(dz_broker_answer_sound(&a, sizeof a, 0));
    CHECK(!dz_broker_answer_sound(&a, sizeof a, 1));
    a = (struct dz_broker_answer){.type = DZ_BROKER_NO_JAIL};
    CHECK(dz_broker_answer_sound(&a, sizeof a, 0));
    memset(a.text, 'x', sizeof a.text);
    CHECK(!dz_broker_answer_sound(&a, sizeof a, 0));
}

/* Start the process itself, without the daemon's side. Returns its socket. */
static int start_raw(const char *resolvers, struct dz_os_proc *ret_proc)
{
    const char *const argv[] = {
        DZ_BROKER_PROGRAM, DZ_BROKER_WORD, "0", "0", "0", "0", "1000", resolvers, NULL};
    int ends[2];
    struct dz_err err = {0};
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    const struct dz_os_fd fds[] = {{DZ_BROKER_FD, ends[1]}};
    const struct dz_os_spawn_opts opts = {.argv = argv, .fds = fds, .fd_count = 1};
    CHECK_INT(dz_os_spawn(&opts, ret_proc, &err), 0);
    (void)close(ends[1]);
    return ends[0];
}

TEST(the_process_ends_on_an_impossible_record)
{
    const struct dz_broker_request bad = {.type = 9, .id = 1};
    char packets[3][sizeof bad + 1] = {{0}};
    const size_t sizes[3] = {sizeof bad, sizeof bad + 1, 1};
    memcpy(packets[0], &bad, sizeof bad);
    for (size_t i = 0; i < 3; i++) {
        struct dz_os_proc proc;
        struct dz_broker_answer a;
        struct dz_os_status status;
        struct dz_err err = {0};
        const int fd = start_raw("127.0.0.1", &proc);
        CHECK_INT(recv(fd, &a, sizeof a, 0), sizeof a);
        CHECK_INT(a.type, DZ_BROKER_READY);
        CHECK_INT(send(fd, packets[i], sizes[i], 0), (ssize_t)sizes[i]);
        CHECK_INT(dz_os_proc_wait(&proc, -1, &status, &err), 0);
        CHECK_INT(status.exit_code, 1);
        (void)close(fd);
    }
}

TEST(the_process_ends_with_its_host)
{
    struct dz_os_proc proc;
    struct dz_broker_answer a;
    struct dz_os_status status;
    struct dz_err err = {0};
    const int fd = start_raw("", &proc);
    CHECK_INT(recv(fd, &a, sizeof a, 0), sizeof a);
    (void)close(fd);
    CHECK_INT(dz_os_proc_wait(&proc, -1, &status, &err), 0);
    CHECK_INT(status.exit_code, 0);
}

TEST(wrong_resolvers_are_reported)
{
    struct dz_os_proc proc;
    struct dz_broker_answer a;
    const int fd = start_raw("nowhere at all", &proc);
    CHECK_INT(recv(fd, &a, sizeof a, 0), sizeof a);
    CHECK_INT(a.type, DZ_BROKER_NO_JAIL);
    CHECK(strstr(a.text, "is not a list of name servers"));
    (void)close(fd);
    dz_os_proc_close(&proc);
}

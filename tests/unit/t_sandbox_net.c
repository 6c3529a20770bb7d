/* SPDX-License-Identifier: MIT
 * Connections between programs of sandboxes and the outside, as the daemon keeps them: deliveries,
 * sleep and wake, their ends, and cells that tell nonsense. */
#include "tap.h"

#include "../lib/sandbox_rig.h"
#include "sandbox/sandbox_int.h"
#include "sandbox/sandbox_net.h"

#include <errno.h>
#include <sys/socket.h>

/* What cells were told, and what the host was. */
static struct {
    int offers, resumes, resumed, connected, refused, lost, error;
    uint64_t last;
    uint32_t port, channel;
    struct dz_cell *cell;
    int connects, closed, ports, replies;
    uint64_t ticket;
    struct dz_cell_address to;
} told;

static int on_incoming(struct dz_cell *c, uint64_t generation, int fd, uint32_t port,
                       const struct dz_cell_address *from, struct dz_err *err)
{
    (void)err;
    CHECK(fd >= 0 && from->port > 0);
    told.offers++;
    told.last = generation;
    told.port = port;
    told.cell = c;
    return 0;
}
static int on_connected(struct dz_cell *c, uint32_t channel, uint64_t generation, int fd,
                        struct dz_err *err)
{
    (void)c, (void)err;
    CHECK(fd >= 0);
    told.connected++;
    told.channel = channel;
    told.last = generation;
    return 0;
}
static int on_refused(struct dz_cell *c, uint32_t channel, int error, struct dz_err *err)
{
    (void)c, (void)err;
    told.refused++;
    told.channel = channel;
    told.error = error;
    return 0;
}
static int on_lost(struct dz_cell *c, uint64_t generation, int error, struct dz_err *err)
{
    (void)c, (void)err;
    told.lost++;
    told.last = generation;
    told.error = error;
    return 0;
}
static int on_resume(struct dz_cell *c, uint64_t generation, int fd, struct dz_err *err)
{
    (void)c, (void)err;
    CHECK(fd >= 0);
    told.resumes++;
    told.last = generation;
    return 0;
}
static int on_resumed(struct dz_cell *c, struct dz_err *err)
{
    (void)c, (void)err;
    told.resumed++;
    return 0;
}
static int on_reply(struct dz_cell *c, uint64_t query, const void *bytes, size_t size,
                    struct dz_err *err)
{
    (void)c, (void)err;
    told.replies++;
    CHECK(query == 77 && size == 3 && memcmp(bytes, "yes", 3) == 0);
    return 0;
}
static const struct dz_cell_net_ops nets = {on_incoming, on_connected, on_refused, on_lost,
                                            on_resume,   on_resumed,   on_reply};

static struct dz_net_query asked;
static void net_query(void *arg, struct dz_sandbox *s, const struct dz_net_query *query)
{
    (void)arg, (void)s;
    asked = *query;
    CHECK(query->size == 1 && query->bytes[0] == 'q');
}

static void net_connect(void *arg, struct dz_sandbox *s, uint64_t ticket,
                        const struct dz_cell_address *to)
{
    (void)arg, (void)s;
    told.connects++;
    told.ticket = ticket;
    told.to = *to;
}
static void net_closed(void *arg, struct dz_sandbox *s, uint64_t ticket)
{
    (void)arg, (void)s;
    told.closed++;
    CHECK_INT(ticket, told.ticket);
}
static void net_ports(void *arg, struct dz_sandbox *s)
{
    (void)arg, (void)s;
    told.ports++;
}

static struct dz_sandbox_host host;

static void begin(struct rig *r)
{
    rig_open(r);
    memset(&told, 0, sizeof told);
    host = played_host;
    host.net_connect = net_connect;
    host.net_closed = net_closed;
    host.net_ports = net_ports;
    host.net_query = net_query;
    r->k->opts.host = &host;
    r->cells.ops.net = &nets;
    rig_register(r, "a");
}

struct client {
    int far, calls;
    struct dz_why why; /* code 0: delivered */
    struct dz_net_delivery *delivery;
};

static void on_done(void *arg, const struct dz_why *why)
{
    struct client *c = arg;
    c->calls++;
    c->delivery = NULL;
    c->why = why ? *why : (struct dz_why){.err = {0}};
}

static int deliver(struct rig *r, struct client *c, uint32_t port, int64_t wait_ms)
{
    struct dz_instance row = {0};
    int ends[2];
    *c = (struct client){.far = -1};
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    CHECK_INT(dz_registry_get(r->registry, "a", &row, NULL), 0);
    const struct dz_net_deliver d = {
        .port = port, .fd = ends[1], .wait_ms = wait_ms, .done = on_done, .arg = c};
    c->far = ends[0];
    int rc = dz_net_deliver(r->k, &row, &d, &c->delivery, &c->why);
    dz_instance_release(&row);
    if (rc < 0) {
        dz_fd_close(&ends[0]);
        dz_fd_close(&ends[1]);
    }
    return rc;
}

static struct dz_cell *cell(struct rig *r)
{
    struct dz_cell *c = played_cell(&r->cells, "a");
    CHECK(c != NULL);
    if (!c)
        exit(1);
    return c;
}

static void tell(struct rig *r, const struct dz_cell_event *event)
{
    played_tell(cell(r), event, NULL);
    rig_pass(r, 0);
}

static void answers(struct rig *r, int code)
{
    tell(r, &(struct dz_cell_event){
                .type = DZ_CELL_NET_ANSWER, .generation = told.last, .code = code});
}

static const struct dz_cell_port door = {.at = {.ip = {[10] = 0xff, [11] = 0xff}, .port = 80}};

static void listens(struct rig *r)
{
    tell(r, &(struct dz_cell_event){.type = DZ_CELL_NET_PORTS, .ports = &door, .count = 1});
}

/* Open: nothing can be read yet. Over: the end of the stream, or a reset. */
static bool is_over(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK) >= 0 || errno != EAGAIN;
}

/* "a" is awake with one open connection. */
static void opened(struct rig *r, struct client *c)
{
    begin(r);
    CHECK_INT(deliver(r, c, 80, 0), 0);
    rig_pass(r, 1000);
    CHECK_INT(told.offers, 1);
    answers(r, 0);
    CHECK(c->calls == 1 && c->why.err.code == 0);
    CHECK(!is_over(c->far));
}

static void sleeps(struct rig *r, const struct dz_cell_rest *rest)
{
    if (rest)
        tell(r, &(struct dz_cell_event){.type = DZ_CELL_NET_REST, .rests = rest, .count = 1});
    CHECK_INT(rig_do(r, DZ_REQUEST_SUSPEND, "a"), 0);
    CHECK_STR(rig_row(r, "a"), "suspended//");
}

/* The epoll set is a descriptor of the simulated loop, which is told of it. */
static void epoll_reports(struct rig *r)
{
    CHECK_INT(dz_loop_sim_readable(r->loop, r->k->net.epoll, true, NULL), 0);
    (void)dz_loop_sim_step(r->loop, dz_clock_real_ms());
    CHECK_INT(dz_loop_sim_readable(r->loop, r->k->net.epoll, false, NULL), 0);
    rig_pass(r, 1000);
}

TEST(a_delivery_wakes_and_is_counted_as_a_connection)
{
    struct rig r;
    struct client c;
    opened(&r, &c);
    const struct dz_sandbox *s = dz_sandbox_find(r.k, "a");
    CHECK_INT(told.port, 80);
    CHECK_INT(s->now.connections, 1);
    tell(&r, &(struct dz_cell_event){.type = DZ_CELL_NET_CLOSED, .generation = told.last});
    CHECK(is_over(c.far));
    CHECK_INT(s->now.connections, 0);
    CHECK_INT(told.closed, 0); /* the host is told of outgoing ones only */
    dz_fd_close(&c.far);
    rig_close(&r);
}

TEST(bytes_of_connections_are_activity)
{
    struct rig r;
    struct client c;
    opened(&r, &c);
    const struct dz_sandbox *s = dz_sandbox_find(r.k, "a");
    rig_pass(&r, 5000);
    const int64_t before = s->now.last_byte;
    tell(&r, &(struct dz_cell_event){.type = DZ_CELL_ACTIVITY, .wake_at = INT64_MAX});
    CHECK_INT(s->now.last_byte, before);
    tell(&r, &(struct dz_cell_event){.type = DZ_CELL_ACTIVITY, .wake_at = INT64_MAX, .net_in = 1});
    CHECK(s->now.last_byte > before);
    dz_fd_close(&c.far);
    rig_close(&r);
}

TEST(a_delivery_waits_for_a_listener_as_long_as_it_may)
{
    struct rig r;
    struct client c, late, soon;
    begin(&r);
    CHECK_INT(deliver(&r, &soon, 80, 0), 0);
    rig_pass(&r, 1000);
    answers(&r, DZ_ENOENT);
    CHECK(soon.calls == 1 && soon.why.err.code == DZ_EUNAVAIL);
    CHECK_STR(soon.why.reason, "not_listening");
    CHECK(is_over(soon.far));

    CHECK_INT(deliver(&r, &c, 80, 10000), 0);
    rig_pass(&r, 1000);
    answers(&r, DZ_ENOENT);
    CHECK_INT(c.calls, 0);
    listens(&r);
    CHECK_INT(told.ports, 1);
    CHECK_INT(told.offers, 3);
    answers(&r, DZ_EBUSY); /* and for room in its queue */
    CHECK_INT(c.calls, 0);
    listens(&r);
    answers(&r, 0);
    CHECK(c.calls == 1 && c.why.err.code == 0 && !is_over(c.far));

    CHECK_INT(deliver(&r, &late, 81, 10000), 0);
    rig_pass(&r, 1000);
    answers(&r, DZ_ENOENT);
    rig_pass(&r, 8000);
    CHECK_INT(late.calls, 0);
    rig_pass(&r, 2000);
    CHECK(late.calls == 1 && late.why.err.code == DZ_EUNAVAIL);
    dz_fd_close(&c.far);
    dz_fd_close(&late.far);
    dz_fd_close(&soon.far);
    rig_close(&r);
}

TEST(deliveries_that_cannot_be)
{
    struct rig r;
    struct client c;
    begin(&r);
    CHECK_INT(deliver(&r, &c, 0, 0), DZ_EINVAL);
    CHECK_INT(deliver(&r, &c, 65536, 0), DZ_EINVAL);
    CHECK_INT(deliver(&r, &c, 80, 0), 0);
    dz_net_delivery_cancel(c.delivery); /* before the sandbox is awake */
    CHECK(is_over(c.far));
    dz_fd_close(&c.far);
    rig_pass(&r, 1000);
    CHECK_INT(told.offers, 0);

    CHECK_INT(deliver(&r, &c, 80, 0), 0);
    rig_pass(&r, 1000);
    CHECK_INT(told.offers, 1);
    dz_net_delivery_cancel(c.delivery); /* the cell has it already */
    answers(&r, 0);
    CHECK(told.lost == 1 && told.error == ECONNRESET);
    CHECK(is_over(c.far));
    CHECK_INT(c.calls, 0);
    dz_fd_close(&c.far);

    rig_set_idle(&r, "a", "{\"auto_resume\":false}");
    CHECK_INT(rig_do(&r, DZ_REQUEST_SUSPEND, "a"), 0);
    CHECK_INT(deliver(&r, &c, 80, 0), DZ_EUNAVAIL);
    CHECK_STR(c.why.reason, "asleep");
    rig_close(&r);
}

TEST(a_crash_ends_connections_and_deliveries)
{
    struct rig r;
    struct client c, waits;
    opened(&r, &c);
    CHECK_INT(deliver(&r, &waits, 81, 10000), 0);
    rig_pass(&r, 1000);
    rig_ends(&r, "a", "the cell was killed");
    rig_pass(&r, 1000);
    CHECK(is_over(c.far));
    CHECK(waits.calls == 1 && waits.why.err.code == DZ_EUNAVAIL);
    CHECK_STR(waits.why.reason, "crashed");
    CHECK(is_over(waits.far));
    CHECK_INT(r.k->net.conns.count, 0);
    dz_fd_close(&c.far);
    dz_fd_close(&waits.far);
    rig_close(&r);
}

TEST(new_bytes_wake_a_sleeping_sandbox_and_old_ones_do_not)
{
    struct rig r;
    struct client c;
    opened(&r, &c);
    const uint64_t generation = told.last;
    CHECK_INT(send(c.far, "old", 3, 0), 3);
    sleeps(&r, &(struct dz_cell_rest){.generation = generation, .waiting = 3, .events = POLLOUT});
    epoll_reports(&r); /* an edge-triggered set reports once what is there already */
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    CHECK_INT(send(c.far, "new", 3, 0), 3);
    epoll_reports(&r);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    CHECK(told.resumes == 1 && told.resumed == 1 && told.last == generation);
    CHECK_INT(dz_sandbox_find(r.k, "a")->now.connections, 1);

    sleeps(&r, &(struct dz_cell_rest){.generation = generation, .waiting = 6, .events = POLLOUT});
    epoll_reports(&r);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    CHECK_INT(shutdown(c.far, SHUT_WR), 0); /* and so does the end of the stream */
    epoll_reports(&r);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    CHECK_INT(told.resumes, 2);
    dz_fd_close(&c.far);
    rig_close(&r);
}

TEST(room_for_bytes_wakes_a_guest_that_could_not_send)
{
    struct rig r;
    struct client c;
    opened(&r, &c);
    sleeps(&r, &(struct dz_cell_rest){.generation = told.last}); /* not writable */
    epoll_reports(&r);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    dz_fd_close(&c.far);
    rig_close(&r);
}

TEST(no_byte_wakes_what_may_not_be_woken)
{
    struct rig r;
    struct client c;
    opened(&r, &c);
    rig_set_idle(&r, "a", "{\"auto_resume\":false}");
    sleeps(&r, &(struct dz_cell_rest){.generation = told.last, .events = POLLOUT});
    CHECK_INT(send(c.far, "new", 3, 0), 3);
    epoll_reports(&r);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    CHECK(!is_over(c.far));
    dz_fd_close(&c.far);
    rig_close(&r);
}

/* The peer sees the end of a connection whose machine is not there any more. */
TEST(what_ends_the_connections_of_a_sleeping_sandbox)
{
    static const enum dz_request ends[] = {DZ_REQUEST_FREEZE, DZ_REQUEST_DESTROY};
    for (size_t i = 0; i <= DZ_ARRAY_LEN(ends); i++) {
        struct rig r;
        struct client c;
        opened(&r, &c);
        if (i < DZ_ARRAY_LEN(ends)) {
            sleeps(&r, &(struct dz_cell_rest){.generation = told.last, .events = POLLOUT});
            CHECK(!is_over(c.far));
            CHECK_INT(rig_do(&r, ends[i], "a"), 0);
        } else {
            r.keep = "files";
            CHECK_INT(rig_do(&r, DZ_REQUEST_SUSPEND, "a"), 0);
        }
        CHECK(is_over(c.far));
        CHECK_INT(r.k->net.conns.count, 0);
        CHECK(dz_sandbox_find(r.k, "a") == NULL);
        dz_fd_close(&c.far);
        rig_close(&r);
    }
}

static const struct dz_cell_address there = {.ip = {[10] = 0xff, [11] = 0xff, [12] = 198, [15] = 7},
                                             .port = 443};

static void connects(struct rig *r, uint32_t channel)
{
    tell(r, &(struct dz_cell_event){
                .type = DZ_CELL_NET_CONNECT, .channel = channel, .address = there});
}

static bool all_but_one(void *arg, const struct dz_net_view *view)
{
    const uint64_t *keep = arg;
    CHECK(view->out);
    CHECK(memcmp(&view->peer, &there, sizeof there) == 0);
    return view->ticket != *keep;
}

TEST(a_program_connects)
{
    struct rig r;
    int ends[2];
    begin(&r);
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    connects(&r, 5);
    CHECK(told.connects == 1 && memcmp(&told.to, &there, sizeof there) == 0);
    dz_net_refused(r.k, told.ticket, EACCES);
    CHECK(told.refused == 1 && told.error == EACCES && told.channel == 5);
    dz_net_refused(r.k, told.ticket, EACCES);
    CHECK_INT(told.refused, 1);

    connects(&r, 6);
    const uint64_t open = told.ticket;
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    dz_net_connected(r.k, told.ticket, ends[1]);
    CHECK(told.connected == 1 && told.channel == 6 && told.last == told.ticket);
    CHECK_INT(dz_sandbox_find(r.k, "a")->now.connections, 0); /* the guest's own */

    connects(&r, 7); /* the program does not wait any longer */
    tell(&r, &(struct dz_cell_event){.type = DZ_CELL_NET_CLOSED, .channel = 7});
    CHECK_INT(told.closed, 1);

    connects(&r, 8); /* the machine sleeps meanwhile, and asks again when it has woken */
    sleeps(&r, &(struct dz_cell_rest){.generation = open, .events = POLLOUT});
    CHECK_INT(told.closed, 2);
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    CHECK(told.resumes == 1 && told.last == open);

    connects(&r, 9); /* the rules have changed */
    const uint64_t keep = told.ticket;
    told.ticket = open;
    dz_net_each(dz_sandbox_find(r.k, "a"), all_but_one, (void *)(uintptr_t)&keep);
    CHECK(told.lost == 1 && told.last == open && told.error == ECONNRESET);
    CHECK(is_over(ends[0]));
    CHECK_INT(told.closed, 3);
    told.ticket = keep;
    dz_fd_close(&ends[0]);
    rig_close(&r);
}

/* A cell that says what no intact cell says is killed. */
TEST(nonsense_ends_the_cell)
{
    static const struct dz_cell_event said[] = {
        {.type = DZ_CELL_NET_ANSWER, .generation = 12345},
        {.type = DZ_CELL_NET_ANSWER, .generation = 0},
    };
    for (size_t i = 0; i <= DZ_ARRAY_LEN(said); i++) {
        struct rig r;
        struct client c;
        opened(&r, &c);
        const int kills = r.kills;
        if (i < DZ_ARRAY_LEN(said))
            tell(&r, &said[i]);
        else
            answers(&r, 0); /* of a connection that is open already */
        rig_pass(&r, 1000);
        CHECK_INT(r.kills, kills + 1);
        CHECK(is_over(c.far));
        dz_fd_close(&c.far);
        rig_close(&r);
    }
}

TEST(a_cell_cannot_name_connections_of_others)
{
    struct rig r;
    struct client c;
    opened(&r, &c);
    const uint64_t generation = told.last;
    rig_register(&r, "b");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "b"), 0);
    struct dz_cell *b = played_cell(&r.cells, "b");
    played_tell(b, &(struct dz_cell_event){.type = DZ_CELL_NET_CLOSED, .generation = generation},
                NULL);
    rig_pass(&r, 0);
    CHECK(!is_over(c.far));
    dz_fd_close(&c.far);
    rig_close(&r);
}

TEST(an_answer_reaches_only_the_cell_that_asked)
{
    struct rig r;
    begin(&r);
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    tell(&r,
         &(struct dz_cell_event){
             .type = DZ_CELL_NET_QUERY, .generation = 77, .data = (const uint8_t *)"q", .size = 1});
    CHECK_INT(asked.number, 77);
    dz_net_reply(r.k, "a", &asked, "yes", 3);
    CHECK_INT(told.replies, 1);
    sleeps(&r, NULL);
    dz_net_reply(r.k, "a", &asked, "yes", 3);
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    dz_net_reply(r.k, "a", &asked, "yes", 3);
    dz_net_reply(r.k, "b", &asked, "yes", 3);
    CHECK_INT(told.replies, 1);
    rig_close(&r);
}

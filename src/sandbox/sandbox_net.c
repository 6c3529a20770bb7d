/* SPDX-License-Identifier: MIT
 *
 * sandbox_net.c - connections between programs of a sandbox and the outside: their sockets, what
 * becomes of them when the sandbox sleeps, and deliveries to its ports.
 *
 *   in:   a delivery --incoming--> OFFERED --answer--> OPEN
 *   out:  ASKED (the host connects) --connected--> OPEN
 *
 * The table all->net.conns has each connection by its ticket, which is the generation of
 * runtime_net.h: it begins at a random number and is never used twice, so a machine that another
 * daemon or an earlier time has saved names no connection of this table.
 *
 * Nothing may be sent to a cell that is being suspended. What happens to a connection meanwhile is
 * kept in it, and sent by settle() if the machine stays awake.
 *
 * Sleep: all connections of sleeping sandboxes are in one epoll set (edge-triggered), so they cost
 * nothing until something happens. A cell reports before it ends what each connection had waiting:
 * only what is beyond that wakes the sandbox, because a guest that does not read its bytes would
 * be woken by them again and again.
 */
#include "sandbox/sandbox_net.h"
#include "sandbox/sandbox_int.h"

#include "base/fd.h"
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>

enum {
    EVENTS = 64,     /* changes of sleeping connections that one turn handles at a time */
    RETRY_MS = 2000, /* until a wake for which there was no room is tried again */
    CONNS_ALL = 1 << 20,
};

enum conn_state {
    CONN_ASKED,
    CONN_OFFERED,
    CONN_OPEN,
};

struct conn {
    struct dz_list link; /* in sandbox.net.conns */
    struct dz_sandbox *sandbox;
    uint64_t ticket;
    enum conn_state state;
    bool out;
    bool counted;     /* as a connection of the sandbox */
    bool watched;     /* in the epoll set */
    int fd;           /* ASKED: -1 until connected */
    int error;        /* ASKED, OPEN: what the guest is to be told; 0: nothing */
    uint32_t channel; /* ASKED */
    bool here;        /* dz_net_deliver.here */
    struct dz_cell_address peer;
    struct dz_cell_rest rest;
    struct dz_net_delivery *delivery; /* OFFERED; NULL: it was canceled */
};

struct dz_net_delivery {
    struct dz_list link; /* in sandbox.net.deliveries, or all->net.deliveries while it is woken */
    struct dz_sandboxes *all;
    struct dz_sandbox *sandbox; /* NULL: it is being woken */
    struct dz_acquire *acquire;
    struct conn *conn; /* offered; NULL: not now */
    struct dz_net_deliver request;
    struct dz_timer *limit;
    bool late; /* the time of the request is over */
    char id[DZ_COLD_KEY];
};

/* --- the table ---------------------------------------------------------------------------- */

int dz_nets_init(struct dz_sandboxes *all, struct dz_err *err)
{
    uint32_t random;
    dz_map_init(&all->net.conns, CONNS_ALL);
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return dz_fail_sys(err, errno, "set up connections of sandboxes");
    all->net.last = (uint64_t)random << 32;
    return 0;
}

static struct conn *find(const struct dz_sandbox *s, uint64_t ticket)
{
    struct conn *c = dz_map_get64(&s->all->net.conns, ticket);
    return c && c->sandbox == s ? c : NULL;
}

static struct conn *add(struct dz_sandbox *s, enum conn_state state, bool out)
{
    struct conn *c = s->net.count < DZ_CELL_NET_MAX ? dz_zalloc(sizeof *c) : NULL;
    if (!c)
        return NULL;
    *c = (struct conn){.sandbox = s, .state = state, .out = out, .fd = -1};
    c->ticket = ++s->all->net.last;
    if (dz_map_put64(&s->all->net.conns, c->ticket, c, NULL) < 0) {
        dz_free(c);
        return NULL;
    }
    dz_list_init(&c->link);
    dz_list_push_back(&s->net.conns, &c->link);
    s->net.count++;
    return c;
}

static void unwatch(struct conn *c)
{
    if (c->watched)
        (void)epoll_ctl(c->sandbox->all->net.epoll, EPOLL_CTL_DEL, c->fd, NULL);
    c->watched = false;
}

/* Add the bytes of a connection that goes out; nothing if it is none of TCP. */
static void add_traffic(const struct conn *c, struct dz_net_traffic *to)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (!c->out || c->fd < 0 || getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
        return;
    to->received += info.tcpi_bytes_received;
    to->sent += info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
}

void dz_net_traffic(const struct dz_sandboxes *all, const struct dz_sandbox *s,
                    struct dz_net_traffic *ret_traffic)
{
    *ret_traffic = s ? s->net.ended : all->net.ended;
    if (s)
        DZ_LIST_FOREACH(struct conn, c, &s->net.conns, link)
            add_traffic(c, ret_traffic);
    else
        DZ_MAP_FOREACH(it, &all->net.conns)
            add_traffic(it->value, ret_traffic);
}

/* reset: the peer sees a reset when the cell has closed its descriptor, too. */
static void free_conn(struct conn *c, bool reset)
{
    struct dz_sandbox *s = c->sandbox;
    const struct linger at_once = {.l_onoff = 1};
    add_traffic(c, &s->net.ended);
    add_traffic(c, &s->all->net.ended);
    unwatch(c);
    if (c->counted)
        dz_sandbox_touch(s->all, s->id, DZ_ACTIVITY_CONNECTION_CLOSE);
    if (c->fd >= 0 && reset)
        (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    dz_fd_close(&c->fd);
    (void)dz_map_remove64(&s->all->net.conns, c->ticket);
    dz_list_remove(&c->link);
    s->net.count--;
    dz_free(c);
}

/* End a connection, and tell the host of one that goes out. */
static void end_conn(struct conn *c, bool reset)
{
    struct dz_sandbox *s = c->sandbox;
    const struct dz_sandbox_host *host = s->all->opts.host;
    const uint64_t ticket = c->ticket;
    const bool out = c->out;
    free_conn(c, reset);
    if (out && host->net_closed)
        host->net_closed(s->all->opts.arg, s, ticket);
}

/* Count a connection once the row says active (dz_net_active). Outgoing ones do not keep a sandbox
 * awake: they are the guest's own. */
static void count(struct conn *c)
{
    struct dz_sandbox *s = c->sandbox;
    if (c->counted || c->out || c->here || c->state != CONN_OPEN || s->phase != DZ_PHASE_UP ||
        !dz_list_empty(&s->up_pending))
        return;
    c->counted = true;
    dz_sandbox_touch(s->all, s->id, DZ_ACTIVITY_CONNECTION_OPEN);
}

/* --- to the cell -------------------------------------------------------------------------- */

/* The cell could not be sent what it must know: end it, from the loop. */
static void fail_cell(struct dz_sandbox *s)
{
    dz_loop_post(s->all->loop, &s->fail);
}

/* Send what the cell is to know about the connection, if it can be sent now. Frees c if that was
 * its end. */
static void settle(struct conn *c)
{
    struct dz_sandbox *s = c->sandbox;
    int rc = 0;
    if (s->phase != DZ_PHASE_UP)
        return;
    if (c->state == CONN_ASKED && c->error) {
        rc = s->ops->net->refused(s->cell, c->channel, c->error, &s->fail_why);
        free_conn(c, true);
    } else if (c->state == CONN_ASKED && c->fd >= 0) {
        rc = s->ops->net->connected(s->cell, c->channel, c->ticket, c->fd, &s->fail_why);
        c->state = CONN_OPEN;
    } else if (c->state == CONN_OPEN && c->error) {
        rc = s->ops->net->lost(s->cell, c->ticket, c->error, &s->fail_why);
        end_conn(c, true);
    }
    if (rc < 0)
        fail_cell(s);
    dz_sandbox_watch_cell(s);
}

void dz_net_awake(struct dz_sandbox *s)
{
    DZ_LIST_FOREACH(struct conn, c, &s->net.conns, link)
        settle(c);
}

/* --- deliveries ---------------------------------------------------------------------------- */

static void delivery_free(struct dz_net_delivery *d)
{
    struct dz_sandbox *s = d->sandbox;
    if (d->conn)
        d->conn->delivery = NULL;
    dz_acquire_cancel(d->acquire);
    dz_timer_free(d->limit);
    dz_list_remove(&d->link);
    dz_fd_close(&d->request.fd);
    dz_free(d);
    if (s)
        dz_sandbox_unneeded(s);
}

static void delivery_end(struct dz_net_delivery *d, const struct dz_why *why)
{
    void (*done)(void *arg, const struct dz_why *why) = d->request.done;
    void *arg = d->request.arg;
    delivery_free(d);
    done(arg, why);
}

static void delivery_fail(struct dz_net_delivery *d, int code, const char *reason, const char *text)
{
    struct dz_why why = {.err = {0}};
    (void)dz_why(&why, code, NULL, "connect to port %u of %s: %s", d->request.port, d->id, text);
    why.reason = reason;
    delivery_end(d, &why);
}

static void refuse_delivery(struct dz_net_delivery *d, int code)
{
    switch (code) {
    case DZ_ENOENT:
        delivery_fail(d, DZ_EUNAVAIL, "not_listening", "no program listens on it");
        return;
    case DZ_EBUSY:
        delivery_fail(d, DZ_EBUSY, "backlog",
                      "the program that listens on it does not accept connections fast enough");
        return;
    case DZ_ELIMIT:
        delivery_fail(d, DZ_EBUSY, "connections",
                      "the sandbox has as many connections as it may have");
        return;
    default:
        delivery_fail(d, code, NULL, "the sandbox could not take the connection");
    }
}

/* Offer the connection to the cell. Frees d if that fails for good. */
static void offer(struct dz_net_delivery *d)
{
    struct dz_sandbox *s = d->sandbox;
    struct dz_err err = {0};
    if (s->phase != DZ_PHASE_UP || d->conn)
        return;
    struct conn *c = add(s, CONN_OFFERED, false);
    if (!c) {
        refuse_delivery(d, s->net.count >= DZ_CELL_NET_MAX ? DZ_ELIMIT : DZ_ENOMEM);
        return;
    }
    c->peer = d->request.from;
    c->here = d->request.here;
    int rc =
        s->ops->net->incoming(s->cell, c->ticket, d->request.fd, d->request.port, &c->peer, &err);
    dz_sandbox_watch_cell(s);
    if (rc < 0) {
        free_conn(c, false);
        delivery_fail(d, dz_sandbox_cell_code(rc), NULL, err.msg);
        return;
    }
    c->fd = d->request.fd;
    d->request.fd = -1;
    c->delivery = d;
    d->conn = c;
}

static void on_limit(void *arg)
{
    struct dz_net_delivery *d = arg;
    d->late = true;
    if (d->sandbox && !d->conn && d->sandbox->phase == DZ_PHASE_UP)
        refuse_delivery(d, DZ_ENOENT);
}

/* Deliver to the machine of s, which runs. */
static void deliver_to(struct dz_net_delivery *d, struct dz_sandbox *s)
{
    d->sandbox = s;
    dz_list_remove(&d->link);
    dz_list_push_back(&s->net.deliveries, &d->link);
    if (!s->ops->net) {
        delivery_fail(d, DZ_EUNSUPPORTED, "unsupported", "its cell takes no connections");
        return;
    }
    if (d->request.wait_ms > 0 && !d->late)
        dz_timer_after(d->limit, d->request.wait_ms);
    else
        d->late = true;
    offer(d);
}

static void on_acquired(void *arg, struct dz_sandbox *s, const struct dz_sandbox_result *result)
{
    struct dz_net_delivery *d = arg;
    d->acquire = NULL;
    if (result->code < 0) {
        const struct dz_why why = *result->why;
        delivery_end(d, &why);
        return;
    }
    deliver_to(d, s);
}

static int wake_for(struct dz_net_delivery *d, const struct dz_instance *row, struct dz_why *why)
{
    dz_list_remove(&d->link);
    dz_list_push_back(&d->all->net.deliveries, &d->link);
    d->sandbox = NULL;
    return dz_sandbox_acquire(
        d->all, row,
        &(struct dz_acquire_opts){.need = DZ_NEED_MACHINE, .fn = on_acquired, .arg = d},
        &d->acquire, why);
}

static void address_peer(struct dz_cell_address *a)
{
    static const uint8_t none[16] = {0}, none4[16] = {[10] = 0xff, [11] = 0xff},
                         loop4[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
    if (memcmp(a->ip, none, sizeof none) == 0 || memcmp(a->ip, none4, sizeof none4) == 0)
        memcpy(a->ip, loop4, sizeof loop4);
    if (a->port == 0 || a->port > UINT16_MAX) /* of a client on a socket of AF_UNIX */
        a->port = 1;
}

int dz_net_deliver(struct dz_sandboxes *all, const struct dz_instance *row,
                   const struct dz_net_deliver *request, struct dz_net_delivery **ret_delivery,
                   struct dz_why *why)
{
    struct dz_sandbox *s = request->here ? dz_sandbox_find(all, row->id) : NULL;
    if (request->port == 0 || request->port > UINT16_MAX)
        return dz_why(why, DZ_EINVAL, "port", "%u is no TCP port", request->port);
    if (request->here && (!s || !dz_exec_here(s)))
        return dz_why(why, DZ_ESTATE, NULL, "connect to %s: it is not running", row->id);
    int rc = dz_sandbox_may_wake(all, row, why);
    if (rc < 0)
        return rc;
    struct dz_net_delivery *d = dz_zalloc(sizeof *d);
    if (!d)
        return dz_why(why, DZ_ENOMEM, NULL, "connect to %s: out of memory", row->id);
    *d = (struct dz_net_delivery){.all = all, .request = *request};
    address_peer(&d->request.from);
    dz_list_init(&d->link);
    (void)snprintf(d->id, sizeof d->id, "%s", row->id);
    rc = dz_timer_new(all->loop, on_limit, d, &d->limit, &why->err);
    if (!s)
        dz_sandbox_use_noted(all, row->id, DZ_ACTIVITY_CONNECTION_BYTE);
    if (rc == 0 && !s)
        rc = wake_for(d, row, why);
    if (rc < 0) {
        d->request.fd = -1; /* still the caller's */
        delivery_free(d);
        return rc;
    }
    *ret_delivery = d;
    if (s)
        deliver_to(d, s); /* may end it */
    return 0;
}

void dz_net_delivery_cancel(struct dz_net_delivery *d)
{
    if (d)
        delivery_free(d);
}

/* The machine was suspended under these: wake it again. */
static void deliver_again(struct dz_sandbox *s)
{
    while (!dz_list_empty(&s->net.deliveries)) {
        struct dz_net_delivery *d = DZ_LIST_FIRST(struct dz_net_delivery, &s->net.deliveries, link);
        if (d->request.here) {
            delivery_fail(d, DZ_ESTATE, NULL, "the sandbox was suspended");
            continue;
        }
        DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
        struct dz_why why = {.err = {0}};
        int rc = dz_registry_get(s->all->registry, s->id, &row, &why.err);
        if (rc == 0)
            rc = dz_sandbox_may_wake(s->all, &row, &why);
        if (rc == 0)
            rc = wake_for(d, &row, &why);
        if (rc < 0)
            delivery_end(d, &why);
    }
}

static void fail_deliveries(struct dz_sandbox *s, int code, const char *reason, const char *text)
{
    while (!dz_list_empty(&s->net.deliveries))
        delivery_fail(DZ_LIST_FIRST(struct dz_net_delivery, &s->net.deliveries, link), code, reason,
                      text);
}

/* --- events of the cell ---------------------------------------------------------------------- */

static bool on_answer(struct dz_sandbox *s, const struct dz_cell_event *event)
{
    struct conn *c = find(s, event->generation);
    if (!c || c->state != CONN_OFFERED)
        return false;
    struct dz_net_delivery *d = c->delivery;
    c->delivery = NULL;
    if (d)
        d->conn = NULL;
    if (event->code == 0) {
        c->state = CONN_OPEN;
        c->error = d ? 0 : ECONNRESET;
        count(c);
        if (d)
            delivery_end(d, NULL);
        else
            settle(c);
        return true;
    }
    if (d) {
        d->request.fd = c->fd;
        c->fd = -1;
    }
    free_conn(c, false);
    const bool may_come = event->code == DZ_ENOENT || event->code == DZ_EBUSY;
    if (d && (d->late || !may_come))
        refuse_delivery(d, event->code);
    return true;
}

static void on_ports(struct dz_sandbox *s, const struct dz_cell_event *event)
{
    const struct dz_sandbox_host *host = s->all->opts.host;
    const size_t size = (size_t)event->count * sizeof event->ports[0];
    struct dz_cell_port *ports = size ? dz_alloc(size) : NULL;
    if (ports)
        memcpy(ports, event->ports, size);
    dz_free(s->net.ports);
    s->net.ports = ports;
    s->net.port_count = ports ? (size_t)event->count : 0;
    if (host->net_ports)
        host->net_ports(s->all->opts.arg, s);
    DZ_LIST_FOREACH(struct dz_net_delivery, d, &s->net.deliveries, link)
        offer(d);
}

static struct conn *asked(const struct dz_sandbox *s, uint32_t channel)
{
    DZ_LIST_FOREACH(struct conn, c, &s->net.conns, link)
        if (c->state == CONN_ASKED && c->channel == channel)
            return c;
    return NULL;
}

static bool on_connect(struct dz_sandbox *s, const struct dz_cell_event *event)
{
    const struct dz_sandbox_host *host = s->all->opts.host;
    if (asked(s, event->channel))
        return false;
    struct conn *c = add(s, CONN_ASKED, true);
    if (!c) {
        if (s->phase == DZ_PHASE_UP &&
            s->ops->net->refused(s->cell, event->channel, EADDRNOTAVAIL, &s->fail_why) < 0)
            fail_cell(s);
        return true;
    }
    c->channel = event->channel;
    c->peer = event->address;
    if (host->net_connect) {
        host->net_connect(s->all->opts.arg, s, c->ticket, &event->address);
    } else {
        c->error = ENETUNREACH;
        settle(c);
    }
    return true;
}

static bool on_closed(struct dz_sandbox *s, const struct dz_cell_event *event)
{
    struct conn *c = event->generation ? find(s, event->generation) : asked(s, event->channel);
    if (c && event->generation && c->state != CONN_OPEN)
        return false;
    if (c)
        end_conn(c, event->busy || c->state == CONN_ASKED);
    return true; /* unknown: it was ended here in the meantime */
}

static void on_rest(struct dz_sandbox *s, const struct dz_cell_event *event)
{
    for (uint64_t i = 0; i < event->count; i++) {
        struct conn *c = find(s, event->rests[i].generation);
        if (c)
            c->rest = event->rests[i];
    }
}

bool dz_net_event(struct dz_sandbox *s, const struct dz_cell_event *event)
{
    if (s->phase != DZ_PHASE_UP && s->phase != DZ_PHASE_STOPPING)
        return false;
    switch ((int)event->type) {
    case DZ_CELL_NET_ANSWER:
        return on_answer(s, event);
    case DZ_CELL_NET_PORTS:
        on_ports(s, event);
        return true;
    case DZ_CELL_NET_CONNECT:
        return on_connect(s, event);
    case DZ_CELL_NET_CLOSED:
        return on_closed(s, event);
    case DZ_CELL_NET_QUERY:
        if (s->all->opts.host->net_query)
            s->all->opts.host->net_query(
                s->all->opts.arg, s,
                &(struct dz_net_query){s->born, event->generation, event->data, event->size});
        return true;
    default:
        on_rest(s, event);
        return true;
    }
}

/* --- sleep and wake ----------------------------------------------------------------------------
 */

static void on_woken(void *arg, struct dz_sandbox *s, const struct dz_sandbox_result *result)
{
    struct dz_sandbox *asleep = arg;
    (void)s;
    asleep->net.wake = NULL;
    if (result->code == DZ_EBUSY || result->code == DZ_EQUOTA || result->code == DZ_ENOMEM ||
        result->code == DZ_ENOSPC) {
        asleep->net.again = true;
        dz_timer_after(asleep->all->net.retry, RETRY_MS);
    }
    dz_sandbox_unneeded(asleep);
}

/* Wake the sandbox, because something has happened to one of its connections. */
static void wake(struct dz_sandbox *s)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_why why = {.err = {0}};
    if (s->net.wake || s->phase != DZ_PHASE_NONE || s->all->draining)
        return;
    s->net.again = false;
    int rc = dz_registry_get(s->all->registry, s->id, &row, &why.err);
    if (rc == 0)
        rc = dz_sandbox_may_wake(s->all, &row, &why);
    if (rc == 0)
        rc = dz_sandbox_acquire(
            s->all, &row,
            &(struct dz_acquire_opts){.need = DZ_NEED_MACHINE, .fn = on_woken, .arg = s},
            &s->net.wake, &why);
    dz_log(DZ_LOG_DEBUG, "wake_by_connection", dz_log_strz("sandbox_id", s->id),
           dz_log_int("code", rc), dz_log_strz("why", rc < 0 ? why.err.msg : ""));
}

static void on_retry(void *arg)
{
    struct dz_sandboxes *all = arg;
    DZ_MAP_FOREACH(it, &all->map) {
        struct dz_sandbox *s = it->value;
        if (s->net.again)
            wake(s);
    }
}

/* Has anything happened since the machine was saved? */
static bool has_news(const struct conn *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLOUT | POLLRDHUP};
    int size = 0;
    if (poll(&p, 1, 0) == 1 && ((uint32_t)p.revents & ~c->rest.events))
        return true;
    return ioctl(c->fd, FIONREAD, &size) == 0 && size > 0 && (uint32_t)size > c->rest.waiting;
}

static void on_epoll(void *arg, int ready)
{
    struct dz_sandboxes *all = arg;
    struct epoll_event events[EVENTS];
    const int n = epoll_wait(all->net.epoll, events, EVENTS, 0);
    (void)ready;
    for (int i = 0; i < n; i++) {
        const struct conn *c = dz_map_get64(&all->net.conns, events[i].data.u64);
        if (c && c->watched && has_news(c))
            wake(c->sandbox);
    }
    if (dz_poll_set(all->net.poll, DZ_POLL_READ, NULL) < 0)
        dz_log(DZ_LOG_WARN, "poll_failed", dz_log_int("fd", all->net.epoll));
}

/* The set is made for the first connection that sleeps. */
static int open_set(struct dz_sandboxes *all, struct dz_err *err)
{
    if (all->net.epoll >= 0)
        return 0;
    int rc = dz_timer_new(all->loop, on_retry, all, &all->net.retry, err);
    if (rc == 0 && (all->net.epoll = epoll_create1(EPOLL_CLOEXEC)) < 0)
        rc = dz_fail_sys(err, errno, "watch connections of sleeping sandboxes");
    if (rc == 0)
        rc = dz_poll_new(all->loop, all->net.epoll, on_epoll, all, &all->net.poll, err);
    if (rc == 0)
        rc = dz_poll_set(all->net.poll, DZ_POLL_READ, err);
    if (rc < 0) {
        dz_poll_free(all->net.poll);
        dz_timer_free(all->net.retry);
        all->net.poll = NULL;
        all->net.retry = NULL;
        dz_fd_close(&all->net.epoll);
    }
    return rc;
}

/* Watching reports once what is there already; on_epoll() compares it with the state at the
 * suspend. */
static void watch(struct conn *c)
{
    struct dz_sandboxes *all = c->sandbox->all;
    struct dz_err err = {0};
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data = {.u64 = c->ticket}};
    if (!(c->rest.events & POLLOUT)) /* the guest waits, or will wait, for room */
        e.events |= EPOLLOUT;
    int rc = open_set(all, &err);
    if (rc == 0 && epoll_ctl(all->net.epoll, EPOLL_CTL_ADD, c->fd, &e) < 0)
        rc = dz_fail_sys(&err, errno, "watch a connection of a sleeping sandbox");
    c->watched = rc == 0;
    if (rc < 0)
        dz_log(DZ_LOG_WARN, "connection_unwatched", dz_log_strz("sandbox_id", c->sandbox->id),
               dz_log_err(&err));
}

static void forget_ports(struct dz_sandbox *s)
{
    const bool had = s->net.port_count > 0;
    dz_free(s->net.ports);
    s->net.ports = NULL;
    s->net.port_count = 0;
    if (had && s->all->opts.host->net_ports)
        s->all->opts.host->net_ports(s->all->opts.arg, s);
}

void dz_net_asleep(struct dz_sandbox *s)
{
    DZ_LIST_FOREACH(struct conn, c, &s->net.conns, link) {
        c->counted = false;
        if (c->state != CONN_OPEN || c->error || c->here) {
            struct dz_net_delivery *d = c->delivery;
            if (d) { /* it is delivered again */
                d->conn = NULL;
                d->request.fd = c->fd;
                c->fd = -1;
            }
            end_conn(c, true);
            continue;
        }
        watch(c);
    }
    forget_ports(s);
    deliver_again(s);
}

bool dz_net_kept(const struct dz_sandbox *s)
{
    return !dz_list_empty(&s->net.conns);
}

void dz_net_resume(struct dz_sandbox *s)
{
    int rc = 0;
    if (!s->ops->net)
        return;
    DZ_LIST_FOREACH(struct conn, c, &s->net.conns, link) {
        unwatch(c);
        c->rest = (struct dz_cell_rest){.generation = c->ticket};
        if (rc == 0)
            rc = s->ops->net->resume(s->cell, c->ticket, c->fd, &s->fail_why);
    }
    if (rc == 0)
        rc = s->ops->net->resumed(s->cell, &s->fail_why);
    if (rc < 0)
        fail_cell(s);
}

void dz_net_active(struct dz_sandbox *s)
{
    DZ_LIST_FOREACH(struct conn, c, &s->net.conns, link)
        count(c);
}

void dz_net_lost(struct dz_sandbox *s)
{
    DZ_LIST_FOREACH(struct conn, c, &s->net.conns, link) {
        c->counted = false;
        if (c->delivery)
            c->delivery->conn = NULL;
        end_conn(c, true);
    }
}

void dz_net_down(struct dz_sandbox *s, int code, const char *reason, const char *text)
{
    dz_net_lost(s);
    forget_ports(s);
    fail_deliveries(s, code, reason, text);
}

/* --- the object ----------------------------------------------------------------------------------
 */

void dz_net_init(struct dz_sandbox *s)
{
    dz_list_init(&s->net.conns);
    dz_list_init(&s->net.deliveries);
}

bool dz_net_needs(const struct dz_sandbox *s)
{
    return !dz_list_empty(&s->net.conns) || !dz_list_empty(&s->net.deliveries) || s->net.wake;
}

void dz_net_free(struct dz_sandbox *s)
{
    dz_acquire_cancel(s->net.wake);
    s->net.wake = NULL;
    DZ_LIST_FOREACH(struct conn, c, &s->net.conns, link) {
        c->counted = false;
        if (c->delivery)
            c->delivery->conn = NULL;
        free_conn(c, true);
    }
    DZ_LIST_FOREACH(struct dz_net_delivery, d, &s->net.deliveries, link) {
        d->sandbox = NULL;
        delivery_free(d);
    }
    dz_free(s->net.ports);
}

void dz_nets_release(struct dz_sandboxes *all)
{
    DZ_LIST_FOREACH(struct dz_net_delivery, d, &all->net.deliveries, link)
        delivery_free(d);
    dz_poll_free(all->net.poll);
    dz_timer_free(all->net.retry);
    dz_fd_close(&all->net.epoll);
    dz_map_release(&all->net.conns);
}

/* --- for other modules
 * ----------------------------------------------------------------------------- */

const struct dz_cell_port *dz_net_ports(const struct dz_sandbox *s, size_t *ret_count)
{
    *ret_count = s->net.port_count;
    return s->net.ports;
}

void dz_net_connected(struct dz_sandboxes *all, uint64_t ticket, int fd)
{
    struct conn *c = dz_map_get64(&all->net.conns, ticket);
    if (!c || c->state != CONN_ASKED || c->fd >= 0 || c->error) {
        dz_fd_close(&fd);
        return;
    }
    c->fd = fd;
    settle(c);
}

void dz_net_refused(struct dz_sandboxes *all, uint64_t ticket, int error)
{
    struct conn *c = dz_map_get64(&all->net.conns, ticket);
    if (!c || c->state != CONN_ASKED || c->fd >= 0 || c->error)
        return;
    c->error = error > 0 ? error : ECONNREFUSED;
    settle(c);
}

void dz_net_reply(struct dz_sandboxes *all, const char *id, const struct dz_net_query *query,
                  const void *bytes, size_t size)
{
    struct dz_sandbox *s = dz_sandbox_find(all, id);
    if (!s || s->phase != DZ_PHASE_UP || s->born != query->cell)
        return; /* the program asks again */
    (void)s->ops->net->reply(s->cell, query->number, bytes, size, NULL);
    dz_sandbox_watch_cell(s);
}

void dz_net_each(struct dz_sandbox *s, bool (*fn)(void *arg, const struct dz_net_view *view),
                 void *arg)
{
    DZ_LIST_FOREACH(struct conn, c, &s->net.conns, link) {
        const struct dz_net_view view = {c->ticket, c->out, c->state == CONN_OPEN, c->peer};
        if (c->state == CONN_OFFERED || !fn(arg, &view))
            continue;
        c->error = c->state == CONN_ASKED ? EACCES : ECONNRESET;
        if (s->phase == DZ_PHASE_NONE || s->phase == DZ_PHASE_FILES ||
            s->phase == DZ_PHASE_OPENING) {
            end_conn(c, true); /* it sleeps: the next cell is not passed this connection */
            continue;
        }
        if (c->fd >= 0) /* the cell has another descriptor of it */
            (void)shutdown(c->fd, SHUT_RDWR);
        settle(c);
    }
    dz_sandbox_unneeded(s);
}

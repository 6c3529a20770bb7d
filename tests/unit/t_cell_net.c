/* SPDX-License-Identifier: MIT
 * Connections to the outside of native programs in real, jailed cells: this test is the host, which
 * gives sockets, keeps them over a suspend, and passes them again. The program is
 * tests/native/native_door.c, linked statically. */
#define TAP_ALARM_S 50
#include "tap.h"

#include "../lib/ncell_rig.h"

#include "cell/cell_host.h"

#include <errno.h>
#include <fcntl.h>

static const char program[] = "../native/native_door";
static const struct dz_cell_address peer = {
    .ip = {[10] = 0xff, [11] = 0xff, [12] = 203, [14] = 113, [15] = 5}, .port = 4711};

struct world {
    struct mrig image, r;
    uint64_t last; /* generation, */
    int kept;      /* and the socket that the host keeps of it */
};

static void begin(struct world *w)
{
    *w = (struct world){.last = UINT64_C(7) << 32, .kept = -1};
    ncell_read(program);
    ncell_image(&w->image);
    w->r = (struct mrig){.up = false};
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    struct mrig *r = &w->r;
    *r = (struct mrig){.next_id = 1};
    r->start = (struct dz_cell_start){.disk_fd = crig_file(),
                                      .wal_fd = crig_file(),
                                      .image_fd = w->image.start.disk_fd,
                                      .image_sha256 = ncell_sha,
                                      .env = crig_env,
                                      .policy = dz_policy_find("posix"),
                                      .native = true,
                                      .net = true,
                                      .own4 = 0x64400005,
                                      .fresh = true};
    CHECK_INT(dz_db_template(&dz_vfs_schema, &t, &r->err), 0);
    CHECK_INT(dz_db_create_fd(r->start.disk_fd, t.p, t.len, false, &r->err), 0);
    mrig_again(r);
}

static void end(struct world *w)
{
    dz_fd_close(&w->kept);
    mrig_free(&w->r);
    mrig_free(&w->image);
}

/* Wait until the command has printed this. */
static void reads(struct world *w, const struct mexec *e, const char *wanted)
{
    while (!strstr(e->out.p ? e->out.p : "", wanted))
        if (!mrig_step(&w->r)) {
            printf("# %s\n", w->r.err.msg);
            CHECK(false);
            exit(1);
        }
}

/* Wait for an event of connections. */
static const struct dz_cell_event *event(struct world *w, enum dz_cell_event_type type)
{
    do {
        w->r.end.type = DZ_CELL_NOTHING;
        if (!mrig_step(&w->r)) {
            printf("# %s\n", w->r.err.msg);
            CHECK(false);
            exit(1);
        }
    } while (w->r.end.type != type);
    return &w->r.end;
}

/* Offer a connection to a port; returns our end of it. */
static int offer(struct world *w, uint32_t port, int code)
{
    int ends[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    CHECK_INT(dz_cell_nets.incoming(w->r.cell, ++w->last, ends[1], port, &peer, &w->r.err), 0);
    dz_fd_close(&w->kept);
    w->kept = ends[1];
    const struct dz_cell_event *e = event(w, DZ_CELL_NET_ANSWER);
    CHECK_INT(e->generation, w->last);
    CHECK_INT(e->code, code);
    if (code < 0)
        dz_fd_close(&ends[0]);
    return ends[0];
}

static void hears(struct world *w, int fd, const char *wanted)
{
    char buf[64] = "";
    size_t n = 0;
    const size_t size = strlen(wanted);
    while (n < size) {
        struct pollfd p[] = {{.fd = fd, .events = POLLIN},
                             {.fd = dz_cell_fd(w->r.cell), .events = POLLIN}};
        (void)poll(p, 2, -1);
        if (p[0].revents) {
            const ssize_t got = recv(fd, buf + n, size - n, 0);
            CHECK(got > 0);
            if (got <= 0)
                return;
            n += (size_t)got;
        } else if (!mrig_step(&w->r)) {
            exit(1);
        }
    }
    CHECK_STR(buf, wanted);
}

static struct mexec *serves(struct world *w)
{
    static const char *const argv[] = {"n", "serve", "8080", NULL};
    struct mexec *e = mrig_exec(&w->r, argv, 0);
    const struct dz_cell_event *ports = event(w, DZ_CELL_NET_PORTS);
    CHECK_INT(ports->count, 1);
    CHECK_INT(ports->ports[0].at.port, 8080);
    CHECK_INT(ports->ports[0].at.ip[11], 0xff);
    CHECK_INT(ports->ports[0].at.ip[12], 0);
    return e;
}

TEST(a_port_takes_connections)
{
    struct world w;
    begin(&w);
    (void)offer(&w, 8080, DZ_ENOENT);
    struct mexec *e = serves(&w);
    (void)offer(&w, 8081, DZ_ENOENT);
    int fd = offer(&w, 8080, 0);
    const uint64_t first = w.last;
    CHECK_INT(send(fd, "hello", 5, 0), 5);
    hears(&w, fd, "hello");
    reads(&w, e, "203.0.113.5 4711\n");
    CHECK_INT(shutdown(fd, SHUT_WR), 0);
    const struct dz_cell_event *closed = event(&w, DZ_CELL_NET_CLOSED);
    CHECK_INT(closed->generation, first);
    CHECK(!closed->busy);
    reads(&w, e, "end 5\n");
    char byte;
    CHECK_INT(recv(fd, &byte, 1, 0), 0); /* the guest's end of the stream came before CLOSED */
    dz_fd_close(&fd);

    fd = offer(&w, 8080, 0); /* the host ends it */
    CHECK_INT(dz_cell_nets.lost(w.r.cell, w.last, ECONNRESET, &w.r.err), 0);
    reads(&w, e, "receive 104\n");
    dz_fd_close(&fd);

    int queued[4]; /* the backlog is 2 */
    fd = offer(&w, 8080, 0);
    CHECK_INT(send(fd, "x", 1, 0), 1);
    hears(&w, fd, "x"); /* it is not in the queue any more */
    for (size_t i = 0; i < 3; i++)
        queued[i] = offer(&w, 8080, 0);
    queued[3] = offer(&w, 8080, DZ_EBUSY);
    dz_fd_close(&fd); /* then the queue has room, and that is reported */
    CHECK_INT(event(&w, DZ_CELL_NET_PORTS)->count, 1);
    for (size_t i = 0; i < 3; i++)
        dz_fd_close(&queued[i]);
    end(&w);
}

static void sleeps(struct world *w, uint64_t generation, uint32_t waiting)
{
    CHECK_INT(dz_cell_suspend(w->r.cell, false, &w->r.err), 0);
    if (generation) {
        const struct dz_cell_event *e = event(w, DZ_CELL_NET_REST);
        CHECK_INT(e->count, 1);
        CHECK_INT(e->rests[0].generation, generation);
        CHECK_INT(e->rests[0].waiting, waiting);
        CHECK_INT(e->rests[0].events, POLLOUT);
    }
    while (!w->r.gone && mrig_step(&w->r))
        w->r.gone = w->r.last == DZ_CELL_GONE;
    CHECK(w->r.gone);
    dz_cell_free(w->r.cell);
    w->r.cell = NULL;
}

TEST(a_connection_survives_sleep)
{
    struct world w;
    int ends[2];
    begin(&w);
    struct mexec *e = serves(&w);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    CHECK_INT(dz_cell_nets.incoming(w.r.cell, ++w.last, ends[1], 8080, &peer, &w.r.err), 0);
    CHECK_INT(event(&w, DZ_CELL_NET_ANSWER)->code, 0);
    CHECK_INT(send(ends[0], "one", 3, 0), 3);
    hears(&w, ends[0], "one");
    sleeps(&w, w.last, 0);
    CHECK_INT(send(ends[0], "two", 3, 0), 3);
    w.r.start.net_resumes = true;
    mrig_again(&w.r);
    CHECK_INT(event(&w, DZ_CELL_NET_PORTS)->count, 1);
    CHECK_INT(dz_cell_nets.resume(w.r.cell, w.last, ends[1], &w.r.err), 0);
    CHECK_INT(dz_cell_nets.resumed(w.r.cell, &w.r.err), 0);
    hears(&w, ends[0], "two");
    CHECK_INT(shutdown(ends[0], SHUT_WR), 0);
    CHECK_INT(event(&w, DZ_CELL_NET_CLOSED)->generation, w.last);

    /* A connection that is not passed again is over, and so is one of a cell without connections.
     */
    for (int i = 0; i < 2; i++) {
        dz_buf_reset(&e->out);
        int fd = offer(&w, 8080, 0);
        CHECK_INT(send(fd, "x", 1, 0), 1);
        hears(&w, fd, "x");
        sleeps(&w, w.last, 0);
        w.r.start.net_resumes = w.r.start.net = i == 0;
        mrig_again(&w.r);
        if (i == 0)
            CHECK_INT(dz_cell_nets.resumed(w.r.cell, &w.r.err), 0);
        CHECK_INT(dz_cell_exec_attach(w.r.cell, e->exec, e->offset, &w.r.err), 0);
        reads(&w, e, "receive 104\n");
        dz_fd_close(&fd);
    }
    dz_fd_close(&ends[0]);
    dz_fd_close(&ends[1]);
    end(&w);
}

TEST(a_program_connects)
{
    static const char *const argv[] = {"n", "connect", "198.51.100.7", "80", NULL};
    static const struct dz_cell_address there = {
        .ip = {[10] = 0xff, [11] = 0xff, [12] = 198, [13] = 51, [14] = 100, [15] = 7}, .port = 80};
    struct world w;
    int ends[2];
    begin(&w);
    struct mexec *e = mrig_exec(&w.r, argv, 0);
    const struct dz_cell_event *c = event(&w, DZ_CELL_NET_CONNECT);
    CHECK(memcmp(&c->address, &there, sizeof there) == 0);
    CHECK_INT(dz_cell_nets.refused(w.r.cell, c->channel, EACCES, &w.r.err), 0);
    mrig_until(&w.r, e, DZ_CELL_EXITED);
    CHECK_STR(e->out.p, "connect 13\n");

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    e = mrig_exec(&w.r, argv, 0);
    (void)event(&w, DZ_CELL_NET_CONNECT);
    sleeps(&w, 0, 0); /* nothing is connected yet, so the attempt begins again */
    mrig_again(&w.r);
    c = event(&w, DZ_CELL_NET_CONNECT);
    CHECK(memcmp(&c->address, &there, sizeof there) == 0);
    CHECK_INT(dz_cell_nets.connected(w.r.cell, c->channel, ++w.last, ends[1], &w.r.err), 0);
    dz_fd_close(&ends[1]);
    hears(&w, ends[0], "ping");
    CHECK_INT(send(ends[0], "pong", 4, 0), 4);
    CHECK_INT(event(&w, DZ_CELL_NET_CLOSED)->generation, w.last);
    if (!e->over)
        mrig_until(&w.r, e, DZ_CELL_EXITED);
    dz_fd_close(&ends[0]);

    e = mrig_exec(&w.r, argv, 0); /* the program is killed while it waits */
    const uint32_t channel = event(&w, DZ_CELL_NET_CONNECT)->channel;
    CHECK_INT(dz_cell_exec_signal(w.r.cell, e->exec, SIGKILL, false, &w.r.err), 0);
    c = event(&w, DZ_CELL_NET_CLOSED);
    CHECK_INT(c->generation, 0);
    CHECK_INT(c->channel, channel);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    CHECK_INT(dz_cell_nets.connected(w.r.cell, channel, ++w.last, ends[1], &w.r.err), 0);
    c = event(&w, DZ_CELL_NET_CLOSED); /* so the host knows that the guest has it not */
    CHECK_INT(c->generation, w.last);
    dz_fd_close(&ends[0]);
    dz_fd_close(&ends[1]);
    end(&w);
}

TEST(a_program_asks_its_name_server)
{
    static const char *const argv[] = {"n", "ask", NULL};
    struct world w;
    begin(&w);
    struct mexec *e = mrig_exec(&w.r, argv, 0);
    const struct dz_cell_event *q = event(&w, DZ_CELL_NET_QUERY);
    CHECK(q->size == 5 && memcmp(q->data, "name?", 5) == 0);
    CHECK_INT(dz_cell_nets.reply(w.r.cell, q->generation, "here", 4, &w.r.err), 0);
    reads(&w, e, "here 4\n");
    end(&w);
}

TEST(eth0_has_the_address_of_the_sandbox)
{
    static const char *const argv[] = {"n", "links", NULL};
    static const char *const own[] = {"n", "connect", "100.64.0.5", "8080", NULL};
    struct world w;
    begin(&w);
    struct mexec *e = mrig_exec(&w.r, argv, 0);
    mrig_until(&w.r, e, DZ_CELL_EXITED);
    CHECK_STR(e->out.p, "lo 127.0.0.1 1\neth0 100.64.0.5 2\nlo up\neth0 up\n");
    (void)serves(&w);
    e = mrig_exec(&w.r, own, 0); /* the address is the machine itself */
    mrig_until(&w.r, e, DZ_CELL_EXITED);
    CHECK_STR(e->out.p, "ping 4\n");
    end(&w);
}

/* What no intact cell sends. */
TEST(malformed_frames_end_the_cell)
{
    static const uint8_t zeros[DZ_CELL_FRAME_MAX] = {0};
    static const struct dz_frame wrong[] = {
        {.type = DZ_FRAME_NET_ANSWER, .value = 0},
        {.type = DZ_FRAME_NET_ANSWER, .value = 1, .stream = DZ_CELL_CODE_MAX},
        {.type = DZ_FRAME_NET_ANSWER, .value = 1, .size = 1},
        {.type = DZ_FRAME_NET_PORTS, .size = 5},
        {.type = DZ_FRAME_NET_PORTS, .size = sizeof(struct dz_cell_port)}, /* port 0 */
        {.type = DZ_FRAME_NET_CONNECT, .size = sizeof(struct dz_cell_address)},
        {.type = DZ_FRAME_NET_CONNECT, .stream = 1, .size = sizeof(struct dz_cell_address)},
        {.type = DZ_FRAME_NET_CONNECT, .stream = 1, .size = 3},
        {.type = DZ_FRAME_NET_CLOSED, .value = 1, .size = 1},
        {.type = DZ_FRAME_NET_REST, .size = 7},
        {.type = DZ_FRAME_NET_REST, .size = (DZ_CELL_NET_MAX + 1) * sizeof(struct dz_cell_rest)},
        {.type = DZ_FRAME_NET_QUERY, .size = DZ_CELL_QUERY_MAX + 1},
        {.type = DZ_FRAME_NET_IN}, /* the host's own */
    };
    for (size_t i = 0; i <= DZ_ARRAY_LEN(wrong); i++) {
        const struct dz_frame good = {.type = DZ_FRAME_NET_PORTS};
        const struct dz_frame *f = i < DZ_ARRAY_LEN(wrong) ? &wrong[i] : &good;
        struct dz_cell_event e;
        struct dz_err err = {0};
        int ends[2];
        CHECK_INT(dz_frame_pair(ends, &err), 0);
        struct dz_cell *c = dz_cell_adopt(ends[0]);
        CHECK_INT(dz_frame_send(ends[1], f, zeros, true, &err), 1);
        CHECK_INT(dz_cell_receive(c, &e, &err), f == &good ? 1 : DZ_EIO);
        dz_cell_free(c);
        dz_fd_close(&ends[1]);
    }
}

TEST(bulk_in_both_directions)
{
    static char bytes[1 << 16];
    struct world w;
    begin(&w);
    (void)serves(&w);
    int fd = offer(&w, 8080, 0);
    size_t sent = 0, got = 0;
    const size_t all = 8 << 20;
    uint32_t sum = 0, want = 0;
    CHECK_INT(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    while (got < all) {
        struct pollfd p[] = {
            {.fd = fd, .events = (short)(POLLIN | (sent < all ? POLLOUT : 0))},
            {.fd = dz_cell_fd(w.r.cell), .events = POLLIN},
        };
        (void)poll(p, 2, -1);
        if (p[0].revents & POLLOUT) {
            for (size_t i = 0; i < sizeof bytes; i++)
                bytes[i] = (char)((sent + i) * 2654435761U >> 24);
            const ssize_t n = send(fd, bytes, sizeof bytes < all - sent ? sizeof bytes : all - sent,
                                   MSG_NOSIGNAL);
            for (ssize_t i = 0; i < n; i++)
                want = want * 31 + (uint8_t)bytes[i];
            sent += n > 0 ? (size_t)n : 0;
        }
        if (p[0].revents & POLLIN) {
            const ssize_t n = recv(fd, bytes, sizeof bytes, 0);
            for (ssize_t i = 0; i < n; i++)
                sum = sum * 31 + (uint8_t)bytes[i];
            got += n > 0 ? (size_t)n : 0;
        }
        if (p[1].revents && !mrig_step(&w.r))
            exit(1);
    }
    CHECK_INT(got, all);
    CHECK_INT(sum, want);
    dz_fd_close(&fd);
    end(&w);
}

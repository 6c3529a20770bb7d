/* SPDX-License-Identifier: MIT
 *
 * What a cell with many commands may say to its host. Input: packets, u16 length (high byte
 * first) and bytes, sent as they are. The host has two commands and two operations
 * open, and reads records out of whatever data comes; and once more when the commands stand
 * behind two that are to wake. Whatever was sent: windows stay in their limits, strings end, and
 * events are about what is open. */
#include "base/fd.h"
#include "cell/cell_host.h"
#include "cell/cell_op.h"

#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PACKETS_MAX = 32, /* so that the socket takes them all */
};

static void send_packets(int fd, const uint8_t *data, size_t size)
{
    for (int i = 0; i < PACKETS_MAX && size >= 2; i++) {
        size_t n = (size_t)data[0] << 8 | data[1];
        data += 2;
        size -= 2;
        n = n < size ? n : size;
        if (send(fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            return;
        data += n;
        size -= n;
    }
}

static size_t sum; /* so that nobody thinks the bytes are not read */

static void look(const char *s)
{
    sum += strlen(s);
}

static void look_at(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum += p[i];
}

static void stats_and_processes(struct dz_cell_view v)
{
    struct dz_cell_machine_stats s;
    struct dz_cell_process p;
    struct dz_err err;
    if (dz_cell_stats_next(&v, &s, &err) != 1)
        return;
    while (dz_cell_process_next(&v, &p, &err) > 0) {
        look(p.exec_id);
        look(p.command);
    }
}

static void execs(struct dz_cell_view v)
{
    struct dz_cell_exec_row e;
    struct dz_err err;
    while (dz_cell_exec_row_next(&v, &e, &err) > 0) {
        const char *arg = e.argv;
        look(e.id);
        look(e.state);
        for (uint32_t i = 0; i < e.argc; i++, arg += strlen(arg) + 1)
            look(arg);
        look_at(e.spec, e.spec_size);
        assert(e.exit_code >= -1 && e.exit_code <= 255 && e.signal >= 0 && e.signal < 128);
    }
}

/* The same bytes as each kind of record. */
static void records(const uint8_t *data, size_t size)
{
    const struct dz_cell_view all = {data, size};
    struct dz_cell_view v = all;
    struct dz_cell_stat s;
    struct dz_cell_change c;
    struct dz_cell_value x;
    struct dz_cell_piece p;
    struct dz_err err;
    while (dz_cell_stat_next(&v, &s, &err) > 0) {
        look(s.path);
        look(s.target);
    }
    v = all;
    while (dz_cell_change_next(&v, &c, &err) > 0) {
        look(c.what);
        look(c.path);
    }
    v = all;
    while (dz_cell_value_next(&v, &x, &err) > 0)
        look_at(x.data, x.size);
    v = all;
    while (dz_cell_piece_next(&v, &p, &err) > 0)
        look_at(p.data, p.size);
    execs(all);
    stats_and_processes(all);
}

static void check(const struct dz_cell *c, const struct dz_cell_event *e)
{
    assert(e->size <= DZ_CELL_FRAME_MAX && memchr(e->text, 0, DZ_CELL_FRAME_MAX + 1));
    assert(e->exit_code >= -1 && e->exit_code <= 255 && e->signal >= 0 && e->signal < 128);
    assert(e->code <= 0);
    assert(c->execs.n <= DZ_CELL_EXECS_MAX * 2 && c->ops.n <= DZ_CELL_OPS_MAX);
    for (size_t i = 0; i < c->execs.n; i++)
        assert(c->execs.p[i].window <= DZ_CELL_WINDOW);
    for (size_t i = 0; i < c->ops.n; i++)
        assert(c->ops.p[i].window <= DZ_CELL_OP_WINDOW);
}

/* Handles 1 and 2, one of them with input that was sent before it woke. */
static void name_sleepers(struct dz_cell *c)
{
    static const struct dz_cell_sleeper sleepers[] = {{"exe_s", 100}, {"exe_t", 0}};
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const struct dz_cell_start start = {.disk_fd = null,
                                        .wal_fd = null,
                                        .image_fd = -1,
                                        .go = true,
                                        .sleepers = sleepers,
                                        .sleeper_count = 2};
    struct dz_err err;
    assert(dz_cell_send_start(c, &start, false, &err) == 0);
    assert(dz_cell_exec_input(c, 1, "early", 5, &err) == 5);
    (void)close(null);
}

static void open_things(struct dz_cell *c)
{
    static const char *const argv[] = {"g", NULL};
    struct dz_err err;
    uint32_t handle;
    for (int i = 0; i < 2; i++) {
        const struct dz_cell_exec e = {
            .id = i ? "exe_1" : "exe_0", .argv = argv, .open_stdin = true, .attach = true};
        const struct dz_cell_op op = {.type = i ? DZ_CELL_OP_WRITE : DZ_CELL_OP_STAT, .path = "/"};
        assert(dz_cell_exec(c, &e, &handle, &err) == 0);
        assert(dz_cell_op_start(c, &op, &handle, &err) == 0);
    }
}

static bool is_of_command(enum dz_cell_event_type type)
{
    return type == DZ_CELL_OUTPUT || type == DZ_CELL_WINDOW_OPEN || type == DZ_CELL_STARTED ||
           type == DZ_CELL_EXEC_FAILED || type == DZ_CELL_EXITED;
}

static void hear(const uint8_t *data, size_t size, bool wakes)
{
    int pair[2];
    struct dz_cell_event e;
    struct dz_err err = {0};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return;
    struct dz_cell *c = dz_cell_adopt(pair[1]);
    if (wakes)
        name_sleepers(c);
    open_things(c);
    send_packets(pair[0], data, size);
    (void)shutdown(pair[0], SHUT_WR);
    int rc;
    bool up = !wakes;
    while ((rc = dz_cell_receive(c, &e, &err)) > 0) {
        check(c, &e);
        up |= e.type == DZ_CELL_UP;
        assert(up || !is_of_command(e.type));
        if (e.type == DZ_CELL_OUTPUT)
            (void)dz_cell_exec_ack(c, e.exec, e.size, &err);
        if (e.type == DZ_CELL_OP_DATA)
            records(e.data, e.size);
        if (e.type == DZ_CELL_GONE)
            break;
    }
    assert(rc >= 0 || err.msg[0]);
    dz_cell_free(c);
    (void)close(pair[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    records(data, size);
    hear(data, size, false);
    hear(data, size, true);
    return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * cell_host_net.c - the host's side of connections to the outside: frames and events. The state of
 * the connections is the caller's (sandbox/sandbox_net.c).
 */
#include "cell/cell_host.h"

#include <string.h>

static int may_send(const struct dz_cell *c, struct dz_err *err)
{
    return c->suspending || c->ended ? dz_fail(err, DZ_ESTATE, "the sandbox is being suspended")
                                     : 0;
}

static int send_plain(struct dz_cell *c, enum dz_frame_type type, uint32_t stream, uint64_t value,
                      struct dz_err *err)
{
    const struct dz_frame f = {.type = type, .stream = stream, .value = value};
    int rc = may_send(c, err);
    return rc < 0 ? rc : dz_cell_send(c, &f, NULL, err);
}

static int send_socket(struct dz_cell *c, const struct dz_frame *f, const void *payload, int fd,
                       struct dz_err *err)
{
    int rc = may_send(c, err);
    return rc < 0 ? rc : dz_cell_send_fds(c, f, payload, &fd, 1, err);
}

static int incoming(struct dz_cell *c, uint64_t generation, int fd, uint32_t port,
                    const struct dz_cell_address *from, struct dz_err *err)
{
    const struct dz_frame_net_in in = {.from = *from, .port = port};
    const struct dz_frame f = {.type = DZ_FRAME_NET_IN, .value = generation, .size = sizeof in};
    return send_socket(c, &f, &in, fd, err);
}

static int connected(struct dz_cell *c, uint32_t channel, uint64_t generation, int fd,
                     struct dz_err *err)
{
    const struct dz_frame f = {
        .type = DZ_FRAME_NET_CONNECTED, .stream = channel, .value = generation};
    return send_socket(c, &f, NULL, fd, err);
}

static int refused(struct dz_cell *c, uint32_t channel, int error, struct dz_err *err)
{
    return send_plain(c, DZ_FRAME_NET_REFUSED, channel, (uint64_t)error, err);
}

static int lost(struct dz_cell *c, uint64_t generation, int error, struct dz_err *err)
{
    return send_plain(c, DZ_FRAME_NET_LOST, (uint32_t)error, generation, err);
}

static int resume(struct dz_cell *c, uint64_t generation, int fd, struct dz_err *err)
{
    const struct dz_frame f = {.type = DZ_FRAME_NET_RESUME, .value = generation};
    return send_socket(c, &f, NULL, fd, err);
}

static int resumed(struct dz_cell *c, struct dz_err *err)
{
    return send_plain(c, DZ_FRAME_NET_RESUMED, 0, 0, err);
}

static int reply(struct dz_cell *c, uint64_t query, const void *bytes, size_t size,
                 struct dz_err *err)
{
    const struct dz_frame f = {.type = DZ_FRAME_NET_REPLY, .value = query, .size = (uint32_t)size};
    int rc = may_send(c, err);
    if (rc == 0 && size > DZ_CELL_REPLY_MAX)
        rc = dz_fail(err, DZ_ELIMIT, "an answer of %zu bytes is too long for a resolver", size);
    return rc < 0 ? rc : dz_cell_send(c, &f, bytes, err);
}

const struct dz_cell_net_ops dz_cell_nets = {
    .incoming = incoming,
    .connected = connected,
    .refused = refused,
    .lost = lost,
    .resume = resume,
    .resumed = resumed,
    .reply = reply,
};

/* --- frames from the cell ------------------------------------------------------------------- */

/* A list of `size` bytes for each item; *ret_count is how many there are. */
static bool is_list(const struct dz_frame *f, size_t size, size_t max, uint64_t *ret_count)
{
    *ret_count = f->size / size;
    return f->size % size == 0 && *ret_count <= max;
}

int dz_cell_net_event(struct dz_cell *c, const struct dz_frame *f, struct dz_cell_event *e,
                      struct dz_err *err)
{
    bool fine = true;
    switch (f->type) {
    case DZ_FRAME_NET_ANSWER:
        e->type = DZ_CELL_NET_ANSWER;
        e->generation = f->value;
        e->code = -(int)(f->stream % DZ_CELL_CODE_MAX);
        fine = f->stream < DZ_CELL_CODE_MAX && f->value && f->size == 0;
        break;
    case DZ_FRAME_NET_PORTS:
        e->type = DZ_CELL_NET_PORTS;
        e->ports = (const void *)c->payload;
        fine = is_list(f, sizeof e->ports[0], DZ_CELL_PORTS_MAX, &e->count);
        for (uint64_t i = 0; fine && i < e->count; i++)
            fine = e->ports[i].at.port > 0 && e->ports[i].at.port <= UINT16_MAX;
        break;
    case DZ_FRAME_NET_CONNECT:
        e->type = DZ_CELL_NET_CONNECT;
        e->channel = f->stream;
        fine = f->stream && f->size == sizeof e->address;
        if (fine)
            memcpy(&e->address, c->payload, sizeof e->address);
        fine = fine && e->address.port > 0 && e->address.port <= UINT16_MAX;
        break;
    case DZ_FRAME_NET_CLOSED:
        e->type = DZ_CELL_NET_CLOSED;
        e->generation = f->value;
        e->channel = f->value ? 0 : f->stream;
        e->busy = f->value && f->stream;
        fine = f->size == 0;
        break;
    case DZ_FRAME_NET_REST:
        e->type = DZ_CELL_NET_REST;
        e->rests = (const void *)c->payload;
        fine = is_list(f, sizeof e->rests[0], DZ_CELL_NET_MAX, &e->count);
        break;
    case DZ_FRAME_NET_QUERY:
        e->type = DZ_CELL_NET_QUERY;
        e->generation = f->value;
        fine = f->size <= DZ_CELL_QUERY_MAX;
        break;
    default:
        return 0;
    }
    e->exec = e->stream = 0;
    return fine ? 1 : dz_cell_nonsense(f, err);
}

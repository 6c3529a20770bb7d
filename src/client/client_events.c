/* SPDX-License-Identifier: MIT
 *
 * client_events.c - event streams: lines until an empty one make an event.
 */
#include "base/mem.h"
#include "client/client_int.h"

#include <string.h>

struct stream {
    struct dz_buf line, event, id, data;
    bool has_data;
    int (*on_event)(void *arg, const struct dz_client_event *e, struct dz_err *err);
    void *arg;
};

static void set(struct dz_buf *b, struct dz_str s)
{
    dz_buf_reset(b);
    dz_buf_add(b, s.p, s.n);
}

static int deliver(struct stream *s, struct dz_err *err)
{
    int rc = 0;
    struct dz_client_event e = {.event = s->event.len ? s->event.p : "message",
                                .id = s->id.p,
                                .data = dz_str_n(s->data.p, s->data.len)};
    if (s->data.err || s->event.err || s->id.err)
        return dz_fail(err, DZ_EIO, "the daemon sent an event that is too large");
    if (s->has_data)
        rc = s->on_event(s->arg, &e, err);
    dz_buf_reset(&s->event);
    dz_buf_reset(&s->data);
    s->has_data = false;
    return rc;
}

static int parse_line(struct stream *s, struct dz_err *err)
{
    struct dz_str line = dz_str_n(s->line.p, s->line.len), name;
    if (line.n > 0 && line.p[line.n - 1] == '\r')
        line.n--;
    if (line.n == 0)
        return deliver(s, err);
    (void)dz_str_split(&line, ':', &name); /* a comment has the empty name */
    if (line.n > 0 && line.p[0] == ' ')
        line = dz_str_sub(line, 1, line.n);
    if (!line.p)
        line = DZ_STR("");
    if (dz_str_eqz(name, "event")) {
        set(&s->event, line);
    } else if (dz_str_eqz(name, "id")) {
        set(&s->id, line);
    } else if (dz_str_eqz(name, "data")) {
        if (s->has_data)
            dz_buf_adds(&s->data, "\n");
        dz_buf_add(&s->data, line.p, line.n);
        s->has_data = true;
    }
    return 0;
}

static int parse_bytes(struct stream *s, const char *p, size_t n, struct dz_err *err)
{
    int rc = 0;
    while (n > 0 && rc == 0) {
        const char *end = memchr(p, '\n', n);
        size_t part = end ? (size_t)(end - p) : n;
        dz_buf_add(&s->line, p, part);
        if (s->line.err)
            return dz_fail(err, DZ_EIO, "the daemon sent an event that is too large");
        if (end) {
            rc = parse_line(s, err);
            dz_buf_reset(&s->line);
        }
        p += part + (end != NULL);
        n -= part + (end != NULL);
    }
    return rc;
}

int dz_client_events(struct dz_client *c, const struct dz_client_req *req,
                     int (*on_event)(void *arg, const struct dz_client_event *e,
                                     struct dz_err *err),
                     void *arg, struct dz_err *err)
{
    struct stream s = {.line = DZ_BUF_INIT(DZ_CLIENT_EVENT_MAX),
                       .event = DZ_BUF_INIT(DZ_LINE_MAX),
                       .id = DZ_BUF_INIT(DZ_LINE_MAX),
                       .data = DZ_BUF_INIT(DZ_CLIENT_EVENT_MAX),
                       .on_event = on_event,
                       .arg = arg};
    struct dz_client_req r = *req;
    char piece[DZ_IO_PIECE];
    ssize_t n = 1;
    r.accept = "text/event-stream";
    int rc = dz_client_begin(c, &r, err);
    rc = rc < 0 ? rc : 0;
    while (rc == 0 && (n = dz_client_read(c, piece, sizeof piece, err)) > 0)
        rc = parse_bytes(&s, piece, (size_t)n, err);
    if (rc == 0)
        rc = (int)n;
    else
        dz_client_drop(c); /* in the middle of the stream */
    dz_buf_release(&s.line);
    dz_buf_release(&s.event);
    dz_buf_release(&s.id);
    dz_buf_release(&s.data);
    return rc;
}

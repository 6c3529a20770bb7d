/* SPDX-License-Identifier: MIT
 *
 * http_sse.c - event streams (the WHATWG's "server-sent events"): lines of text over a response
 * without an end.
 *
 * Events wait in a queue until there is room in the socket. When a client falls behind, the sender
 * is told to wait for room(); a client whose queue outgrows its limit is cut off.
 *
 *     queue   [ sent | waits ]      `sent` bytes are on their way and go from the front later
 *
 * If nothing was sent for two thirds of the promised interval, a comment is sent; one timer checks
 * all streams every third of it.
 *
 * Invariant (assert_queue, after each send and pull): `sent` lies within the queue, and a queue
 * that is wholly sent is empty.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "http/http_int.h"

#include <assert.h>
#include <string.h>

struct dz_sse {
    struct dz_http *http;
    struct dz_http_req *req;
    struct dz_list link;
    uint64_t id;
    const struct dz_sse_ops *ops;
    void *arg;
    struct dz_buf queue;
    size_t sent; /* bytes of it that are on their way */
    int64_t last_ms;
    bool behind; /* the sender waits for room() */
    bool ended, cut;
};

static void assert_queue(const struct dz_sse *s)
{
    assert(s->sent <= s->queue.len && (s->sent == 0 || s->sent < s->queue.len));
}

/* Count the waiting bytes. False: too many wait for the client's tenant. */
static bool count(struct dz_sse *s)
{
    size_t n = s->queue.len - s->sent;
    return dz_http_hold(s->req, &s->req->answer_held, n > DZ_HELD_FREE ? n : 0, true);
}

/* Remove sent bytes from the front of the queue, seldom enough to be cheap. */
static void compact(struct dz_sse *s)
{
    if (s->sent < DZ_HTTP_SSE_MARK || s->sent < s->queue.len / 2)
        return;
    s->queue.len -= s->sent;
    memmove(s->queue.p, s->queue.p + s->sent, s->queue.len + 1); /* with the terminator */
    s->sent = 0;
}

static ssize_t pull(void *arg, char *p, size_t n)
{
    struct dz_sse *s = arg;
    size_t left = s->queue.len - s->sent;
    if (s->cut)
        return DZ_HTTP_CUT;
    if (left == 0)
        return s->ended ? DZ_HTTP_END : DZ_HTTP_WAIT;
    n = n < left ? n : left;
    memcpy(p, s->queue.p + s->sent, n);
    s->sent += n;
    if (s->sent == s->queue.len) {
        dz_buf_reset(&s->queue);
        s->sent = 0;
        if (s->behind) {
            s->behind = false;
            s->ops->room(s->arg);
        }
    }
    compact(s);
    assert_queue(s);
    (void)count(s);
    return (ssize_t)n;
}

static void done(void *arg)
{
    struct dz_sse *s = arg;
    dz_list_remove(&s->link);
    dz_buf_release(&s->queue);
    s->ops->closed(s->arg);
    dz_free(s);
}

static const struct dz_http_source source = {.pull = pull, .done = done};

static void on_tick(void *arg)
{
    struct dz_http *h = arg;
    int64_t now = dz_clock_mono_ms();
    DZ_LIST_FOREACH(struct dz_sse, s, &h->streams, link) {
        if (s->ended || now - s->last_ms < h->opts.sse_comment_ms * 2 / 3)
            continue;
        dz_buf_adds(&s->queue, ":\n\n");
        s->last_ms = now;
        dz_http_more(h, s->id);
    }
    if (!dz_list_empty(&h->streams))
        dz_timer_after(h->tick, h->opts.sse_comment_ms / 3);
}

/* The first stream starts the timer. */
static int start_ticking(struct dz_http *h)
{
    if (!h->tick && dz_timer_new(h->opts.loop, on_tick, h, &h->tick, NULL) < 0)
        return DZ_ENOMEM;
    if (dz_list_empty(&h->streams))
        dz_timer_after(h->tick, h->opts.sse_comment_ms / 3);
    return 0;
}

/* In place of the user's functions while the stream may still fail. */
static void never(void *arg)
{
    (void)arg;
}

struct dz_sse *dz_http_sse(struct dz_http_req *r, const struct dz_sse_ops *ops, void *arg)
{
    static const struct dz_sse_ops silent = {.room = never, .closed = never};
    struct dz_sse *s = dz_zalloc(sizeof *s);
    struct dz_http *h = r->http;
    if (!s || start_ticking(h) < 0) {
        dz_free(s);
        dz_http_cut_off(r);
        return NULL;
    }
    *s = (struct dz_sse){.http = h,
                         .req = r,
                         .id = r->id,
                         .ops = &silent,
                         .queue = DZ_BUF_INIT(DZ_HTTP_SSE_QUEUE_MAX),
                         .last_ms = dz_clock_mono_ms()};
    dz_list_init(&s->link);
    dz_list_push_back(&h->streams, &s->link);
    dz_buf_adds(&s->queue, ":\n\n"); /* the headers go out with it, at once */
    dz_http_set(r, "Cache-Control", "no-store");
    dz_http_stream(r, 200, "text/event-stream", -1, &source, s);
    if (!dz_map_get64(&h->streaming, r->id))
        return NULL; /* done() has freed it */
    s->ops = ops;
    s->arg = arg;
    return s;
}

const char *dz_http_last_event_id(const struct dz_http_req *r)
{
    return dz_http_header(r, "Last-Event-ID");
}

/* Append an event; each line of data needs its own "data: ". */
static void add_event(struct dz_buf *b, const char *event, const char *id, struct dz_str data)
{
    struct dz_str rest = data.p ? data : DZ_STR(""), line;
    if (id)
        dz_buf_addf(b, "id: %s\n", id);
    if (event)
        dz_buf_addf(b, "event: %s\n", event);
    while (dz_str_split(&rest, '\n', &line)) {
        dz_buf_adds(b, "data: ");
        dz_buf_add(b, line.p, line.n);
        dz_buf_adds(b, "\n");
    }
    dz_buf_adds(b, "\n");
}

/* Cut off a client that does not read: otherwise it holds its connection until the stall limit. */
static int cut(struct dz_sse *s, int rc)
{
    s->cut = true;
    dz_http_conn_end(s->req->conn);
    return rc;
}

int dz_sse_send(struct dz_sse *s, const char *event, const char *id, struct dz_str data)
{
    if (s->cut || s->ended)
        return s->cut ? DZ_ELIMIT : DZ_ESTATE;
    add_event(&s->queue, event, id, data);
    if (s->queue.err)
        return cut(s, s->queue.err);
    assert_queue(s);
    s->last_ms = dz_clock_mono_ms();
    s->behind = !count(s) || s->behind || s->queue.len - s->sent >= DZ_HTTP_SSE_MARK;
    dz_http_more(s->http, s->id);
    return s->behind;
}

void dz_sse_end(struct dz_sse *s)
{
    s->ended = true;
    dz_http_more(s->http, s->id);
}

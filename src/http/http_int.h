/* SPDX-License-Identifier: MIT
 *
 * http_int.h - inside the module: the server, its connections, its requests.
 *
 *     server ─┬─ listeners            polled by the loop
 *             ├─ tick                 looks at deadlines, while there are connections
 *             └─ connections          polled by the loop
 *                   └─ at most one request each
 *
 * A connection goes round
 *
 *     HANDSHAKE ──▶ HEAD ──▶ BODY ──▶ WAIT ──▶ SEND ──▶ HEAD | LINGER | SOCKET
 *                            ├──────▶ SEND (answered before the end of the body, of which
 *                            │              some is still read and thrown away)
 *                            └──────▶ PASS (dz_http_pass) ──▶ HEAD | LINGER | SEND
 *
 * and moves in one function, dz_http_conn_run, which is called by the loop only: by the
 * connection's poll, the tick, and a timer of zero milliseconds for connections that were
 * kicked (dz_http_conn_kick). So no callback runs inside a call of the user. Code that ends a
 * connection only marks it (`dead`); dz_http_conn_run then frees it.
 *
 * A step of a handshake costs as much as ten requests, and strangers may start any number of
 * handshakes. So the steps wait in a queue, and each turn of the loop makes one: other
 * connections wait for one step at most. While the loop has nothing else to do, the steps follow
 * one another.
 *
 * Invariants (assert_conn() in http_conn.c, after each turn of a connection):
 *   1. a request is in http->waiting exactly while it is neither answered nor gone; a request that
 *      is not in it has no on_gone: that was called or dropped;
 *   2. a connection that waits for its next request has none, and owns no buffer of an answer.
 * `done` of a source is called once. Nothing counts its calls; t_http_stream.c does.
 */
#ifndef DZ_HTTP_INT_H
#define DZ_HTTP_INT_H

#include "base/id.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "http/http_head.h"
#include "http/http_route.h"
#include "loop/loop.h"
#include "tls/tls.h"

#include <netinet/in.h>
#include <sys/socket.h>

enum {
    DZ_HTTP_LISTENERS_MAX = 16,
    DZ_HTTP_ACCEPT_BATCH = 64,     /* connections accepted in one turn of the loop */
    DZ_HTTP_ACCEPT_PAUSE_MS = 200, /* pause when out of descriptors */
    DZ_HTTP_TURN_MAX = 16,         /* requests of one connection in one turn of the loop */
};

struct dz_http_listener {
    int fd;
    struct dz_poll *poll;
    struct dz_http *http;
    char *path; /* the unix socket that this server made; dev, ino: its identity */
    dev_t dev;
    ino_t ino;
    bool tcp, tls; /* tls: uses http->tls */
};

struct dz_http {
    struct dz_http_opts opts;
    struct dz_timer *soon;  /* run the connections in `ready` */
    struct dz_timer *retry; /* accept again */
    struct dz_timer *clock; /* deadlines */
    struct dz_timer *tick;  /* comments of event streams */
    struct dz_timer *shake; /* the next in `shaking` */
    struct dz_http_listener listeners[DZ_HTTP_LISTENERS_MAX];
    size_t listener_count;
    struct dz_tls_context *tls;
    struct dz_list connections, ready, sockets, streams; /* dz_http_conn, dz_ws, dz_sse */
    struct dz_list orphans; /* requests that are kept without a client */
    struct dz_list shaking; /* connections whose handshake can continue */
    size_t connection_count, request_count;
    struct { /* the running handler's log context; its request may end before it does */
        char request_id[DZ_ID_TEXT], sandbox_id[DZ_LOG_ID_TEXT];
    } running;
    struct dz_map waiting, streaming; /* by id: dz_http_req */
    struct dz_map addresses;          /* bytes of an address -> its count of connections (http.c) */
    uint64_t last_id;
    int64_t clock_ms; /* interval of checks of the deadlines */
    int64_t date_s;   /* the time in `date`, in seconds */
    char date[40];
    bool full;     /* listeners are not polled */
    bool quiesced; /* connections end with their next answer */
    bool ending;
};

enum dz_http_stage {
    DZ_HTTP_AT_HANDSHAKE,
    DZ_HTTP_AT_HEAD,   /* idle, or reading a request's head */
    DZ_HTTP_AT_BODY,   /* passing the body to the request */
    DZ_HTTP_AT_WAIT,   /* the request is complete; waiting for its answer */
    DZ_HTTP_AT_SEND,   /* sending an answer */
    DZ_HTTP_AT_LINGER, /* the answer is out; wait until the client has read it */
    DZ_HTTP_AT_SOCKET, /* a WebSocket owns the connection */
    DZ_HTTP_AT_PASS,   /* the request and its answer go to and from a guest */
};

/* Bytes that were read and not used yet. */
struct dz_http_in {
    char *p;
    size_t at, end, size;
};

struct dz_http_conn {
    struct dz_http *http;
    struct dz_list link, ready; /* ready: in http->ready, or alone */
    struct dz_list shaking;     /* in http->shaking, or alone */
    int fd;
    struct dz_tls *tls;
    struct in6_addr address; /* TCP only; IPv4 is mapped */
    bool tcp;
    int64_t peer_uid;
    struct dz_poll *poll;
    int polled; /* events that the poll is set to */
    int want;   /* events that TLS needs in addition */
    enum dz_http_stage stage;
    int64_t deadline_ms; /* monotonic; 0: none */
    uint64_t moved;      /* bytes since the deadline was set */
    struct dz_http_in in;
    size_t scanned; /* bytes of an incomplete head that were searched */
    struct dz_buf out;
    size_t out_at;
    struct dz_http_req *request;
    struct dz_ws *ws;
    struct dz_http_pass *pass; /* AT_PASS */
    bool running, again;       /* dz_http_conn_run is running; it must run again */
    bool turn;                 /* other connections have their turn first */
    bool dead;                 /* to be freed */
    bool close;                /* close after this answer */
    bool skipped;              /* an empty line before a request was skipped */
    bool may_shake;            /* its turn for a step of the handshake */
};

struct dz_http_req {
    struct dz_http *http;
    struct dz_http_conn *conn;
    struct dz_list link; /* in http->orphans, or alone */
    uint64_t id;
    int64_t began_ns;
    char request_id[DZ_ID_TEXT];
    char sandbox_id[DZ_LOG_ID_TEXT]; /* the sandbox that the request concerns */
    struct dz_arena arena;
    void *context;

    struct dz_http_head head;
    struct dz_str path;
    struct dz_http_match match;
    struct dz_http_query query;

    struct dz_buf body;
    struct dz_http_chunks chunks;
    uint64_t body_left; /* unread bytes of a body with a length */
    bool whole;         /* the body was read to its end */
    bool called;        /* the handler was called */
    bool useless;       /* the sink refused the rest of the body */
    bool blocked;       /* the sink accepts nothing now, or there is no sink yet */
    bool nudged;        /* dz_http_more came since the last pull or push began */
    bool asked;         /* 100 Continue was sent, or not expected */
    size_t discarded;
    const struct dz_http_sink *sink;
    void *sink_arg;

    bool admitted; /* it has a route, and opts.admit let it pass */
    bool answered, gone;
    bool kept; /* answered even if the client has left; conn is NULL then */
    bool sent; /* the answer was sent */
    void (*on_gone)(void *arg);
    void *gone_arg;

    int status;
    const char *refused; /* wire code of the error, or NULL */
    struct dz_http_set {
        const char *name, *value;
        struct dz_http_set *next;
    } *headers;
    /* The body of the answer: bytes, a file, or the pieces of a source. */
    char *bytes;
    size_t held;      /* bytes that opts.hold counts for this request: the sum of the next three */
    size_t body_held; /* bytes of the body */
    size_t reserved;  /* bytes of an answer that its handler is still building */
    size_t answer_held; /* bytes of the answer, and of the queue of a stream or WebSocket */
    uint64_t at, left;  /* offset and unsent bytes of `bytes` or the file; left: also of a source */
    int fd;             /* the file; -1: none */
    const struct dz_http_source *source;
    void *source_arg;
    bool sized, chunked, source_over, no_body;
    struct dz_ws *ws; /* the WebSocket that follows the 101 */
};

/* http.c */
static inline void dz_http_poll_set(struct dz_poll *poll, int events)
{
    int rc = dz_poll_set(poll, events, NULL); /* fails only if the kernel has no memory */
    (void)rc;
}
void dz_http_conn_over(struct dz_http *h, const struct dz_http_conn *c); /* one less */
/* A key for all connections of one client: its address, for IPv6 its network. */
size_t dz_http_address_key(const struct dz_http_conn *c, uint8_t out[static 16]);

/* http_conn.c */
struct dz_http_conn *dz_http_conn_new(struct dz_http_listener *l, int fd,
                                      const struct sockaddr_storage *from);
void dz_http_conn_run(struct dz_http_conn *c);
void dz_http_conn_shake(void *http);            /* run by a timer: the next step of a handshake */
void dz_http_conn_kick(struct dz_http_conn *c); /* run it from the loop, soon */
void dz_http_conn_end(struct dz_http_conn *c);  /* free it from the loop, soon */
void dz_http_conn_free(struct dz_http_conn *c); /* now; only from the loop */
void dz_http_conn_watch(struct dz_http_conn *c, int events);
void dz_http_conn_late(struct dz_http_conn *c);              /* its deadline is over */
void dz_http_conn_allow(struct dz_http_conn *c, int64_t ms); /* a new deadline; 0: none */

/* http_pass.c */
enum dz_http_passed {
    DZ_HTTP_PASS_WAITS, /* continue when a side is ready */
    DZ_HTTP_PASS_MOVED,
    DZ_HTTP_PASS_TURN,   /* continue after the turn of others */
    DZ_HTTP_PASS_OVER,   /* all of the answer is out */
    DZ_HTTP_PASS_FAILED, /* the client can still be given another answer */
    DZ_HTTP_PASS_BROKEN, /* the connection must be cut */
};
enum dz_http_passed dz_http_pass_some(struct dz_http_conn *c);
int dz_http_pass_watch(struct dz_http_conn *c); /* polls the guest; returns events for the client */
const struct dz_err *dz_http_pass_error(const struct dz_http_conn *c); /* after FAILED */
void dz_http_pass_free(struct dz_http_pass *p);

/* http_conn.c: bytes, by TLS or not. */
enum {
    DZ_HTTP_IO_LATER = -1,
    DZ_HTTP_IO_BROKEN = -2,
};
/* Read bytes, those read ahead first. At least 1, 0 at the end of input, or one of the above. */
ssize_t dz_http_read(struct dz_http_conn *c, void *p, size_t n);
ssize_t dz_http_write(struct dz_http_conn *c, const void *p, size_t n, bool more);
/* Read into c->in; results as above. */
ssize_t dz_http_fill(struct dz_http_conn *c, size_t room);
void dz_http_in_release(struct dz_http_conn *c); /* free the input buffer */

/* http_req.c */
/* A request of a head of n bytes; NULL: out of memory. p may be NULL: it is refused. */
struct dz_http_req *dz_http_req_new(struct dz_http_conn *c);
void dz_http_req_head(struct dz_http_req *r, const char *p, size_t n);
void dz_http_req_over(struct dz_http_req *r); /* taken apart */
void dz_http_req_left(struct dz_http_req *r); /* the client left: end the request too, unless it
                                               * is kept */
void dz_http_req_refuse(struct dz_http_req *r, int code, int status, const char *message);
/* Pass on bytes of the body. How many were consumed; negative: close the connection. */
ssize_t dz_http_req_body(struct dz_http_req *r, const char *p, size_t n);

/* http_answer.c */
enum dz_http_sent {
    DZ_HTTP_SENT,      /* all */
    DZ_HTTP_SENT_SOME, /* continue when the socket has room */
    DZ_HTTP_SENT_WAIT, /* continue when the source has more */
    DZ_HTTP_SENT_TURN, /* continue after the turn of others */
    DZ_HTTP_SENT_BROKEN,
};
enum dz_http_sent dz_http_send_some(struct dz_http_conn *c);

/* Change one part of r->held from *had to now bytes; otherwise like opts.hold. */
bool dz_http_hold(struct dz_http_req *r, size_t *had, size_t now, bool must);
void dz_http_switch(struct dz_http_req *r);  /* answers with 101; r->ws follows */
void dz_http_cut_off(struct dz_http_req *r); /* out of memory: cut the connection without an
                                              * answer */

/* http_sse.c, http_ws.c */
void dz_http_ws_open(struct dz_ws *w, struct dz_http_conn *c); /* the 101 is out */
void dz_http_ws_poll(struct dz_ws *w, int events);
void dz_http_ws_end_all(struct dz_http *h);
void dz_http_ws_drop(struct dz_ws *w); /* the connection ended */

/* Take over the sandbox that the running handler has found, before the request may end. */
void dz_http_req_learn(struct dz_http_req *r);

#endif

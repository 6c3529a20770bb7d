/* SPDX-License-Identifier: MIT
 *
 * http.h - an HTTP/1.1 server in our loop: routes, bodies, answers that come later,
 * streams.
 *
 * A request goes to the handler of its route. The handler answers at once or later,
 * from any callback of the loop: by dz_http_send (bytes), dz_http_stream (bytes that
 * come by and by), dz_http_sse (events), dz_http_ws (a WebSocket), or dz_http_fail.
 * It answers exactly once; after that the request belongs to the server, and the
 * pointer must not be used again.
 *
 * Who answers later keeps dz_http_id and asks dz_http_find: a client may hang up at
 * any time, and then the request is gone. Who has something to stop in that case
 * says so by dz_http_on_gone.
 *
 *     static void ran(uint64_t request, ...)
 *     {
 *         struct dz_http_req *r = dz_http_find(http, request);
 *         if (r)
 *             dz_http_send(r, 200, DZ_HTTP_JSON, &text);
 *     }
 *
 * Everything is called on the loop's thread; no callback comes from inside a call of
 * the functions here, except `closed` and `done` where it is said.
 */
#ifndef DZ_HTTP_HTTP_H
#define DZ_HTTP_HTTP_H

#include "base/arena.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct dz_loop;
struct dz_http;
struct dz_http_req;

#define DZ_HTTP_JSON  "application/json"
#define DZ_HTTP_BYTES "application/octet-stream"
#define DZ_HTTP_TEXT  "text/plain; charset=utf-8"

/* --- routes ---------------------------------------------------------------------- */

enum {
    /* The handler is called before the body is read, and takes it by dz_http_receive.
     * Otherwise it is called with the whole body. */
    DZ_HTTP_STREAMED = 1,
};

/* The first pattern that fits a path is what it means, whatever the method: "/a/b" stands before
 * "/a/{x}", and then a DELETE of "/a/b" is none of "/a/{x}". */
struct dz_http_route {
    const char *method;  /* "GET"; such a route answers HEAD too unless HEAD has its own */
    const char *pattern; /* "/v1/things/{id}/parts"; {x} is one segment, decoded, not empty */
    void (*handle)(struct dz_http_req *r, void *user);
    unsigned flags;
    size_t body_max;  /* of a body that is not streamed; 0: DZ_HTTP_BODY_MAX */
    const void *data; /* the handler's own */
};

/* What is said of an error. The envelope is API.md's. */
struct dz_http_problem {
    int code;                   /* DZ_E* */
    int status;                 /* 0: the code's */
    const char *message;        /* a sentence */
    const char *reason, *field; /* NULL: null */
};

/* --- the server ------------------------------------------------------------------- */

struct dz_http_opts {
    struct dz_loop *loop;
    const struct dz_http_route *routes; /* both must live as long as the server */
    size_t route_count;
    void *user;               /* goes to every function below and to handlers */
    unsigned connections_max; /* 0: DZ_HTTP_CONNECTIONS_MAX */
    unsigned address_max;     /* of one address, over TCP; 0: DZ_HTTP_ADDRESS_MAX */
    unsigned idle_s;          /* between two requests; 0: DZ_HTTP_IDLE_S */
    unsigned head_ms;         /* for a head, and a handshake; 0: DZ_HTTP_TIME_HEAD_MS */
    unsigned body_ms;         /* for each piece of a body; 0: DZ_HTTP_TIME_BODY_MS */
    unsigned send_ms;         /* for each piece of an answer; 0: DZ_HTTP_TIME_SEND_MS */
    unsigned stall_s;         /* of streams, both ways; 0: DZ_HTTP_STALL_S */
    unsigned sse_comment_ms;  /* 0: DZ_HTTP_SSE_COMMENT_MS */
    unsigned ws_ping_ms;      /* 0: DZ_HTTP_WS_PING_MS */
    /* Asked first for every request with a route: 0, or a negative error that is answered
     * in place of the handler. NULL: all come in. */
    int (*admit)(struct dz_http_req *r, void *user, struct dz_err *err);
    /* Asked with the whole body before the handler of a route that is not streamed: has it seen
     * to the request already? NULL: never. */
    bool (*before)(struct dz_http_req *r, void *user);
    /* A request that came in is refused, and nobody has said which sandbox it is about: say so by
     * dz_http_about, if that can be known. NULL: it cannot. */
    void (*about)(struct dz_http_req *r, void *user);
    /* Told of the answer of a request that is kept, whoever is there to have it. */
    void (*kept)(struct dz_http_req *r, int status, struct dz_str body, void *user);
    /* The bytes in memory for this request change from *held to now; on success *held = now. False:
     * there is no room for them. `must`: they are counted all the same, because they are there
     * already. The server sets them to 0 when the request is over. NULL: all may wait. */
    bool (*hold)(struct dz_http_req *r, size_t *held, size_t now, bool must, void *user);
    /* Told of every request once it is over, for logs and metrics. */
    void (*done)(const struct dz_http_req *r, int status, int64_t duration_ns, void *user);
};

DZ_NODISCARD int dz_http_new(const struct dz_http_opts *opts, struct dz_http **ret_http,
                             struct dz_err *err);
/* Ends every connection; all on_gone, done and closed come from inside. NULL is fine. */
void dz_http_free(struct dz_http *h);

/* A listener at a path of the file system, for its owner only. A socket that nobody
 * listens on any more is replaced; DZ_EBUSY when somebody does. Removed by dz_http_free,
 * unless somebody else's stands there by then. */
DZ_NODISCARD int dz_http_listen_unix(struct dz_http *h, const char *path, struct dz_err *err);
/* A certificate with its chain, and its key: PEM files. TCP is TLS from now on; called again, new
 * connections have the new one. On failure nothing changes. */
DZ_NODISCARD int dz_http_tls(struct dz_http *h, const char *certificate, const char *key,
                             struct dz_err *err);
/* Listeners at "HOST:PORT", "[IPv6]:PORT" or ":PORT" (any address), all that the name has.
 * Without a certificate only on this machine's own addresses, unless `plain` says so:
 * DZ_EDENIED. */
DZ_NODISCARD int dz_http_listen_tcp(struct dz_http *h, const char *address, bool plain,
                                    struct dz_err *err);
/* End what this finds, now: requests that wait for an answer, streams, WebSockets. A plain
 * answer that is on its way still goes out. */
void dz_http_cut(struct dz_http *h, bool (*find)(const struct dz_http_req *r, void *arg),
                 void *arg);
/* The end is near: each connection goes on until its next answer, and new ones have one. */
void dz_http_quiesce(struct dz_http *h);
size_t dz_http_connections(const struct dz_http *h);
size_t dz_http_requests(const struct dz_http *h); /* begun and not over, streams too */

/* --- a request --------------------------------------------------------------------- */

/* Never 0, never given twice. */
uint64_t dz_http_id(const struct dz_http_req *r);
/* The request while it waits for its answer; NULL: it is answered or the client left. */
struct dz_http_req *dz_http_find(const struct dz_http *h, uint64_t id);
/* fn(arg) when nobody wants the handler's answer any more: the client has left, the server ends,
 * or the server has to answer by itself, for a body that is malformed or too slow. The request
 * must not be used any more then, and its sink is not called again. The last fn that was set
 * counts; NULL takes it back. */
void dz_http_on_gone(struct dz_http_req *r, void (*fn)(void *arg), void *arg);

/* In `before`: the request stays until it is answered, also when its client leaves, so that
 * the answer is not lost: on_gone is not called. It must be answered by dz_http_send and its
 * like, not by a stream. */
void dz_http_keep(struct dz_http_req *r);

/* All borrowed, for as long as the request waits. */
const struct dz_http_route *dz_http_route_of(const struct dz_http_req *r); /* NULL in done only */
const char *dz_http_method(const struct dz_http_req *r);
struct dz_str dz_http_path(const struct dz_http_req *r);     /* as it came, without query */
const char *dz_http_request_id(const struct dz_http_req *r); /* "req_..." */
/* For the log and for errors: handlers and `done` run in a context of the request's id and of the
 * sandbox that it is about, once that is known (dz_log_about, or this). */
void dz_http_about(struct dz_http_req *r, const char *sandbox_id);
/* The code of the error that was its answer, as clients see it; NULL: it was none. */
const char *dz_http_refused(const struct dz_http_req *r);
const char *dz_http_param(const struct dz_http_req *r,
                          const char *name); /* must be in the pattern */
/* The first value of a parameter of the query, decoded; NULL: not given. */
const char *dz_http_query(const struct dz_http_req *r, const char *name);
/* The first parameter of the query that is not among names (up to NULL); NULL: none. */
const char *dz_http_query_unknown(const struct dz_http_req *r, const char *const *names);
const char *dz_http_header(const struct dz_http_req *r, const char *name); /* NULL: not sent */
bool dz_http_accepts(const struct dz_http_req *r, const char *type); /* is it named in Accept? */
struct dz_str dz_http_body(const struct dz_http_req *r); /* of routes that are not streamed */
/* Of the peer on a unix socket; -1: not one. */
int64_t dz_http_peer_uid(const struct dz_http_req *r);
/* The address of the peer as text, "unix" for one on a unix socket. */
enum {
    DZ_HTTP_PEER = 48,
};
const char *dz_http_peer(const struct dz_http_req *r, char out[static DZ_HTTP_PEER]);
/* What requests of one client have in common: bytes of its address, of IPv6 its network. */
size_t dz_http_peer_key(const struct dz_http_req *r, uint8_t out[static 16]);
/* For what lives as long as the request waits. */
struct dz_arena *dz_http_arena(struct dz_http_req *r);
/* Where who admits keeps what it found out (a tenant); NULL at first. */
void dz_http_set_context(struct dz_http_req *r, void *context);
void *dz_http_context(const struct dz_http_req *r);

/* --- a body that is taken piece by piece --------------------------------------------- */

struct dz_http_sink {
    /* How many bytes are taken, 0 to n. What is not taken is kept, and nothing more is read
     * until dz_http_more. Negative: the body is of no use; the sink is not called again, the
     * handler still has to answer. */
    ssize_t (*push)(void *arg, const char *p, size_t n);
    /* It was all; comes from inside dz_http_receive when there is no body. A body that breaks off
     * has no end: on_gone tells of that. */
    void (*end)(void *arg);
};
/* In a handler of a streamed route, or later. Until then nothing is read, and a client that
 * asked (Expect) is not told to go on. The answer may come before the end of the body, which
 * is then thrown away; when that is long, the connection is closed. */
void dz_http_receive(struct dz_http_req *r, const struct dz_http_sink *sink, void *arg);

/* --- answers ------------------------------------------------------------------------- */

/* The handler gathers an answer of so many bytes in memory: false if opts.hold has no room for
 * them. May grow by further calls. An answer with a reservation is never refused for its size in
 * memory, so a handler that changes something reserves before it does. */
DZ_NODISCARD bool dz_http_reserve(struct dz_http_req *r, size_t bytes);
/* 429: opts.hold had no room. */
void dz_http_refuse_held(struct dz_http_req *r);
/* A header of the answer, before it. Request-Id comes by itself. */
void dz_http_set(struct dz_http_req *r, const char *name, const char *value);

/* The answer is the connection's last. */
void dz_http_close(struct dz_http_req *r);
/* body is emptied; NULL: none. type NULL: no Content-Type. */
void dz_http_send(struct dz_http_req *r, int status, const char *type, struct dz_buf *body);
/* From a file; the descriptor is the server's from here on. */
void dz_http_send_fd(struct dz_http_req *r, int status, const char *type, int fd, uint64_t at,
                     uint64_t size);
/* With the status and name of err->code. */
void dz_http_fail(struct dz_http_req *r, const struct dz_err *err);
void dz_http_refuse(struct dz_http_req *r, const struct dz_http_problem *p);

enum {
    DZ_HTTP_END = 0,
    DZ_HTTP_WAIT = -1, /* nothing now: pull again after dz_http_more */
    DZ_HTTP_CUT = -2,  /* it cannot be finished: cut the connection */
};
struct dz_http_source {
    /* Up to n > 0 bytes to p: how many, or one of the above. */
    ssize_t (*pull)(void *arg, char *p, size_t n);
    void (*done)(void *arg); /* exactly once, when all is sent or the client left */
};
/* size < 0: not known ahead (chunked). done is called from inside when memory is short. */
void dz_http_stream(struct dz_http_req *r, int status, const char *type, int64_t size,
                    const struct dz_http_source *source, void *arg);
/* Go on pulling or pushing; of a request that is gone: nothing. */
void dz_http_more(struct dz_http *h, uint64_t id);

/* --- server-sent events ----------------------------------------------------------------- */

struct dz_sse;
struct dz_sse_ops {
    void (*room)(void *arg);   /* after dz_sse_send gave 1: the client has caught up */
    void (*closed)(void *arg); /* exactly once, the last: ended, or the client left */
};
/* Answers with 200 and a stream; a comment keeps it open every DZ_HTTP_SSE_COMMENT_MS.
 * NULL: memory is short, the client is cut off, and closed does not come. */
struct dz_sse *dz_http_sse(struct dz_http_req *r, const struct dz_sse_ops *ops, void *arg);
const char *dz_http_last_event_id(const struct dz_http_req *r); /* NULL: not sent */
/* An event; id and event may be NULL. 0: more may come; 1: it is kept, wait for room();
 * DZ_ELIMIT: beyond DZ_HTTP_SSE_QUEUE_MAX, DZ_ENOMEM: the client is cut off, closed follows
 * from the loop. */
int dz_sse_send(struct dz_sse *s, const char *event, const char *id, struct dz_str data);
/* The end, behind what is still queued; closed follows from the loop. */
void dz_sse_end(struct dz_sse *s);

/* --- WebSocket (RFC 6455) ------------------------------------------------------------------ */

struct dz_ws;
struct dz_ws_ops {
    /* One whole message, at most DZ_HTTP_WS_MESSAGE_MAX bytes. */
    void (*message)(void *arg, bool text, struct dz_str data);
    void (*room)(void *arg);  /* after dz_ws_send gave 1: the client has caught up */
    void (*alive)(void *arg); /* the client sent a ping of its own; NULL: nobody cares */
    /* Exactly once, the last; code as in RFC 6455, 1006 without a closing frame. */
    void (*closed)(void *arg, int code);
};
bool dz_http_wants_ws(const struct dz_http_req *r); /* a sound request for an upgrade? */
/* Answers with 101. A ping goes out every DZ_HTTP_WS_PING_MS; a client that does not answer
 * two is cut off. NULL: memory is short, the client is cut off, closed does not come. */
struct dz_ws *dz_http_ws(struct dz_http_req *r, const struct dz_ws_ops *ops, void *arg);
/* As dz_sse_send; the ceiling is DZ_HTTP_WS_QUEUE_MAX. */
int dz_ws_send(struct dz_ws *w, bool text, struct dz_str data);
void dz_ws_pause(struct dz_ws *w, bool paused); /* read no more messages for now */
/* A closing frame behind what is still queued; closed follows from the loop. */
void dz_ws_close(struct dz_ws *w, int code, const char *reason);

#endif

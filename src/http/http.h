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
 * A handler that answers later keeps the request's dz_http_id and calls dz_http_find,
 * because the client may hang up at any time, and then the request is gone. A handler
 * that must stop something in that case sets a callback with dz_http_on_gone.
 *
 *     static void ran(uint64_t request, ...)
 *     {
 *         struct dz_http_req *r = dz_http_find(http, request);
 *         if (r)
 *             dz_http_send(r, 200, DZ_HTTP_JSON, &text);
 *     }
 *
 * All callbacks run on the loop's thread. None is called from inside a function of this
 * header, except `closed` and `done` where the function says so.
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
    /* Call the handler before the body is read; it reads the body with dz_http_receive. Without
     * this flag the handler is called with the whole body. */
    DZ_HTTP_STREAMED = 1,
};

/* The first pattern that matches a path is its route, whatever the method. So "/a/b" must stand
 * before "/a/{x}", and a DELETE of "/a/b" then never reaches "/a/{x}". */
struct dz_http_route {
    const char *method;  /* "GET"; such a route answers HEAD too unless HEAD has its own */
    const char *pattern; /* "/v1/things/{id}/parts"; {x} is one segment, decoded, not empty */
    void (*handle)(struct dz_http_req *r, void *user);
    unsigned flags;
    size_t body_max;  /* of a body that is not streamed; 0: DZ_HTTP_BODY_MAX */
    const void *data; /* the handler's own */
};

/* The fields of an error answer; docs/guide/api.md describes the JSON around them. */
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
    /* Called for every request before its route is looked up. Returns a streamed route that takes
     * the request, whatever its path is; opts.admit is not called then, and the path and the query
     * are not read. NULL: the table of routes decides. */
    const struct dz_http_route *(*divert)(struct dz_http_req *r, void *user);
    /* Called when a passed request (dz_http_pass) got no valid answer from the guest: answers it at
     * once. DZ_EINVAL, DZ_ELIMIT: the client's body or the guest's answer is malformed; DZ_EIO: the
     * guest has closed its connection. Needed if dz_http_pass is called. */
    void (*unanswered)(struct dz_http_req *r, const struct dz_err *err, void *user);
    /* Called first for every request that has a route. A negative result refuses the request with
     * *err instead of calling the handler. NULL: every request is admitted. */
    int (*admit)(struct dz_http_req *r, void *user, struct dz_err *err);
    /* Called with the whole body before the handler of a route that is not streamed. True: the
     * request has been answered, so the handler is not called. NULL: never. */
    bool (*before)(struct dz_http_req *r, void *user);
    /* Called when an admitted request is refused before its sandbox is known: calls dz_http_about
     * if it can find the sandbox. NULL: it cannot. */
    void (*about)(struct dz_http_req *r, void *user);
    /* Called with the answer of a kept request, whether its client is still connected or not. */
    void (*kept)(struct dz_http_req *r, int status, struct dz_str body, void *user);
    /* Write the body of an error into out, as JSON. Returns the status, or 0 for the server's own
     * form; out must be unchanged then. NULL: always the server's own form. */
    int (*problem)(struct dz_http_req *r, const struct dz_http_problem *p, struct dz_buf *out,
                   void *user);
    /* Account for memory: the bytes held for this request change from *held to now. Sets *held =
     * now on success; false if that exceeds a limit. With `must` the bytes are counted in any case,
     * because they exist already. The server sets them to 0 when the request is over. NULL: no
     * limit. */
    bool (*hold)(struct dz_http_req *r, size_t *held, size_t now, bool must, void *user);
    /* Called once for every request when it is over, for logs and metrics. */
    void (*done)(const struct dz_http_req *r, int status, int64_t duration_ns, void *user);
};

DZ_NODISCARD int dz_http_new(const struct dz_http_opts *opts, struct dz_http **ret_http,
                             struct dz_err *err);
/* Closes every connection. Calls on_gone, done and closed from inside. NULL is fine. */
void dz_http_free(struct dz_http *h);

/* Listen on a unix socket at path that only its owner may connect to. A stale socket is replaced;
 * DZ_EBUSY if a process still listens on it. dz_http_free removes the socket unless another
 * process has replaced it by then. */
DZ_NODISCARD int dz_http_listen_unix(struct dz_http *h, const char *path, struct dz_err *err);
/* Use TLS for TCP from now on, with a certificate chain and its key from PEM files. Calling it
 * again changes the certificate of new connections. On failure nothing changes. */
DZ_NODISCARD int dz_http_tls(struct dz_http *h, const char *certificate, const char *key,
                             struct dz_err *err);
/* Listen at "HOST:PORT", "[IPv6]:PORT" or ":PORT" (any address), on every address of the name.
 * DZ_EDENIED without a certificate, unless the address is local to this machine or `plain` is
 * set. */
DZ_NODISCARD int dz_http_listen_tcp(struct dz_http *h, const char *address, bool plain,
                                    struct dz_err *err);
/* Cut off every request for which find() returns true: requests that wait for an answer, streams,
 * WebSockets. A plain answer that is being sent is still completed. */
void dz_http_cut(struct dz_http *h, bool (*find)(const struct dz_http_req *r, void *arg),
                 void *arg);
/* Prepare to stop: every connection, also a new one, is closed after its next answer. */
void dz_http_quiesce(struct dz_http *h);
size_t dz_http_connections(const struct dz_http *h);
size_t dz_http_requests(const struct dz_http *h); /* requests in progress, including streams */

/* --- a request --------------------------------------------------------------------- */

/* The id of a request: never 0, never reused. */
uint64_t dz_http_id(const struct dz_http_req *r);
/* The request with this id; NULL if it has been answered or its client has left. */
struct dz_http_req *dz_http_find(const struct dz_http *h, uint64_t id);
/* Call fn(arg) when the handler's answer is no longer wanted: the client has left, the server ends,
 * or the server itself refuses the request because its body is malformed or too slow. From then on
 * the request must not be used, and its sink is not called again. A later call replaces fn; NULL
 * removes it. */
void dz_http_on_gone(struct dz_http_req *r, void (*fn)(void *arg), void *arg);

/* To be called in `before`: keep the request until it is answered even if its client leaves, so
 * that the answer is not lost. on_gone is not called then. Answer it with dz_http_send or an
 * error, not with a stream. */
void dz_http_keep(struct dz_http_req *r);

/* All borrowed, for as long as the request waits. */
const struct dz_http_route *dz_http_route_of(const struct dz_http_req *r); /* NULL in done only */
const char *dz_http_method(const struct dz_http_req *r);
struct dz_str dz_http_path(const struct dz_http_req *r);     /* as received, without the query */
const char *dz_http_request_id(const struct dz_http_req *r); /* "req_..." */
/* Set the sandbox that a request concerns (dz_log_about does the same), for log lines and errors:
 * handlers and `done` run in a log context with the request's id and this sandbox. */
void dz_http_about(struct dz_http_req *r, const char *sandbox_id);
/* The wire code of the error that answered the request; NULL if it was not refused. */
const char *dz_http_refused(const struct dz_http_req *r);
const char *dz_http_param(const struct dz_http_req *r,
                          const char *name); /* must be in the pattern */
/* The first value of a parameter of the query, decoded; NULL: not given. */
const char *dz_http_query(const struct dz_http_req *r, const char *name);
/* The first parameter of the query that is not among names (up to NULL); NULL: none. */
const char *dz_http_query_unknown(const struct dz_http_req *r, const char *const *names);
const char *dz_http_header(const struct dz_http_req *r, const char *name); /* NULL: not sent */
bool dz_http_accepts(const struct dz_http_req *r, const char *type); /* does Accept name it? */
struct dz_str dz_http_body(const struct dz_http_req *r); /* of routes that are not streamed */
/* The user id of the peer on a unix socket; -1 over TCP. */
int64_t dz_http_peer_uid(const struct dz_http_req *r);
/* The address of the peer as text, "unix" for one on a unix socket. */
enum {
    DZ_HTTP_PEER = 48,
};
const char *dz_http_peer(const struct dz_http_req *r, char out[static DZ_HTTP_PEER]);
/* A key for all requests of one client: the bytes of its address, for IPv6 of its network. */
size_t dz_http_peer_key(const struct dz_http_req *r, uint8_t out[static 16]);
/* The address of the peer as one of IPv6; IPv4 is mapped, and a peer on a unix socket has ::1. */
void dz_http_peer_address(const struct dz_http_req *r, uint8_t out[static 16]);
/* Memory that lives as long as the request waits for its answer. */
struct dz_arena *dz_http_arena(struct dz_http_req *r);
/* A pointer for the admit callback's result, for instance the caller; NULL at first. */
void dz_http_set_context(struct dz_http_req *r, void *context);
void *dz_http_context(const struct dz_http_req *r);

/* --- a body that is taken piece by piece --------------------------------------------- */

struct dz_http_sink {
    /* Returns how many of the n bytes it consumed. The rest is kept, and nothing more is read
     * until dz_http_more. Negative: discard the body; the sink is not called again, and the
     * handler must still answer. */
    ssize_t (*push)(void *arg, const char *p, size_t n);
    /* The body is complete. Called from inside dz_http_receive if there is no body. Not called if
     * the body breaks off: then on_gone is called. */
    void (*end)(void *arg);
};
/* Start reading the body, from the handler of a streamed route or later. Until then nothing is
 * read, and a client that sent Expect gets no 100 Continue. If the answer comes before the end of
 * the body, the rest is discarded, or the connection is closed if the rest is long. */
void dz_http_receive(struct dz_http_req *r, const struct dz_http_sink *sink, void *arg);

/* --- requests that a guest answers --------------------------------------------------- */

struct dz_http_pass_opts {
    int fd;               /* a connected stream socket to the guest; taken over in any case */
    struct dz_str prefix; /* of the path, taken off it; empty: none (http_relay.h) */
    const char *tag;      /* for dz_http_pass_tag; must live as long as the request */
};
/* Forward a request of a streamed route, once, and its answer, both as they come, or bytes both
 * ways after an upgrade to WebSocket. The request belongs to the server then. Negative: it cannot
 * be forwarded, and has to be answered with *ret_status. */
DZ_NODISCARD int dz_http_pass(struct dz_http_req *r, const struct dz_http_pass_opts *opts,
                              int *ret_status, struct dz_err *err);
/* The tag of a request that is being passed; NULL: it is not. For dz_http_cut. */
const char *dz_http_pass_tag(const struct dz_http_req *r);
struct dz_http_head;
const struct dz_http_head *dz_http_head(const struct dz_http_req *r); /* borrowed */

/* --- answers ------------------------------------------------------------------------- */

/* Reserve memory for an answer of this many bytes; false if opts.hold refuses. Further calls may
 * raise the number. An answer with a reservation is never refused because of opts.hold, so a
 * handler that changes something reserves before it does. */
DZ_NODISCARD bool dz_http_reserve(struct dz_http_req *r, size_t bytes);
/* Refuse with 429 because opts.hold refused. */
void dz_http_refuse_held(struct dz_http_req *r);
/* Set a header of the answer; call it before answering. Request-Id is set by the server. */
void dz_http_set(struct dz_http_req *r, const char *name, const char *value);

/* Close the connection after the answer. */
void dz_http_close(struct dz_http_req *r);
/* Answer with body, which is emptied (NULL: none). type NULL: no Content-Type. */
void dz_http_send(struct dz_http_req *r, int status, const char *type, struct dz_buf *body);
/* Answer with bytes of a file. Takes ownership of the descriptor. */
void dz_http_send_fd(struct dz_http_req *r, int status, const char *type, int fd, uint64_t at,
                     uint64_t size);
/* Answer with an error: the status and wire code of err->code, and its message. */
void dz_http_fail(struct dz_http_req *r, const struct dz_err *err);
void dz_http_refuse(struct dz_http_req *r, const struct dz_http_problem *p);

enum {
    DZ_HTTP_END = 0,
    DZ_HTTP_WAIT = -1, /* nothing now: pull again after dz_http_more */
    DZ_HTTP_CUT = -2,  /* it cannot be finished: cut the connection */
};
struct dz_http_source {
    /* Write up to n > 0 bytes to p; returns how many, or one of the above. */
    ssize_t (*pull)(void *arg, char *p, size_t n);
    void (*done)(void *arg); /* exactly once, when all is sent or the client left */
};
/* Answer with the bytes of a source. size < 0: not known in advance (chunked). Calls done from
 * inside if it is out of memory. */
void dz_http_stream(struct dz_http_req *r, int status, const char *type, int64_t size,
                    const struct dz_http_source *source, void *arg);
/* Resume pulling or pushing. Does nothing if the request is gone. */
void dz_http_more(struct dz_http *h, uint64_t id);

/* --- server-sent events ----------------------------------------------------------------- */

struct dz_sse;
struct dz_sse_ops {
    void (*room)(void *arg);   /* after dz_sse_send returned 1: the client has caught up */
    void (*closed)(void *arg); /* exactly once, last: the stream ended, or the client left */
};
/* Answer with 200 and an event stream. Sends a comment every DZ_HTTP_SSE_COMMENT_MS to keep it
 * open. NULL: out of memory; the client is cut off and closed is not called. */
struct dz_sse *dz_http_sse(struct dz_http_req *r, const struct dz_sse_ops *ops, void *arg);
const char *dz_http_last_event_id(const struct dz_http_req *r); /* NULL: not sent */
/* Send an event; id and event may be NULL. 0: send more; 1: the event is queued, wait for room()
 * before sending more. DZ_ELIMIT (more than DZ_HTTP_SSE_QUEUE_MAX bytes queued) and DZ_ENOMEM: the
 * client is cut off, and the loop calls closed. */
int dz_sse_send(struct dz_sse *s, const char *event, const char *id, struct dz_str data);
/* End the stream after the queued events; the loop calls closed. */
void dz_sse_end(struct dz_sse *s);

/* --- WebSocket (RFC 6455) ------------------------------------------------------------------ */

struct dz_ws;
struct dz_ws_ops {
    /* One whole message, at most DZ_HTTP_WS_MESSAGE_MAX bytes. */
    void (*message)(void *arg, bool text, struct dz_str data);
    void (*room)(void *arg);  /* after dz_ws_send returned 1: the client has caught up */
    void (*alive)(void *arg); /* the client sent a ping of its own; may be NULL */
    /* Exactly once, last. code as in RFC 6455; 1006 if there was no closing frame. */
    void (*closed)(void *arg, int code);
};
bool dz_http_wants_ws(const struct dz_http_req *r); /* is it a valid request for an upgrade? */
/* Answer with 101. Sends a ping every DZ_HTTP_WS_PING_MS; a client that leaves two unanswered is
 * cut off. NULL: out of memory; the client is cut off and closed is not called. */
struct dz_ws *dz_http_ws(struct dz_http_req *r, const struct dz_ws_ops *ops, void *arg);
/* Like dz_sse_send, with the limit DZ_HTTP_WS_QUEUE_MAX. */
int dz_ws_send(struct dz_ws *w, bool text, struct dz_str data);
void dz_ws_pause(struct dz_ws *w, bool paused); /* read no more messages for now */
/* Send a closing frame after the queued messages; the loop calls closed. */
void dz_ws_close(struct dz_ws *w, int code, const char *reason);

#endif

/* SPDX-License-Identifier: MIT
 *
 * http_int.h - inside the module: the server, its connections, its requests.
 *
 *     server ─┬─ listeners            polled by the loop, accepted here
 *             ├─ libmicrohttpd        parses and sends; its epoll descriptor is polled
 *             └─ connections ── a poll of their own: watches for a hang-up while
 *                    │          libmicrohttpd sleeps on them, and is the WebSocket's
 *                    └─ at most one request each
 *
 * A request in its life, and what may happen at each point:
 *
 *     HEAD      the headers are there. The route is looked up; if it is a streamed one and a
 *               body follows, its handler is called. May be suspended here.
 *     BODY      bytes come: gathered, pushed into the sink, or thrown away once answered
 *     WHOLE     all is read, the handler has been called; suspended until the answer
 *
 * libmicrohttpd takes a response in HEAD (but then closes the connection) and in WHOLE, so
 * one that is made in BODY waits in `response`. While a connection is suspended (`suspended`)
 * nobody reads it.
 *
 * Invariants: a request is in http->waiting exactly while it is not answered and not gone;
 * `gone` is called or dropped when it leaves; `done` of a source comes once.
 */
#ifndef DZ_HTTP_INT_H
#define DZ_HTTP_INT_H

#include "base/id.h"
#include "base/list.h"
#include "base/map.h"
#include "http/http_mhd.h"
#include "http/http_route.h"
#include "loop/loop.h"

enum {
    DZ_HTTP_LISTENERS_MAX = 4,
    DZ_HTTP_ACCEPT_BATCH = 64,     /* connections taken before others have their turn */
    DZ_HTTP_ACCEPT_PAUSE_MS = 200, /* when descriptors have run out */
};

struct dz_http_listener {
    int fd;
    struct dz_poll *poll;
    struct dz_http *http;
    char *path; /* of a unix socket that was made here */
};

struct dz_http {
    struct dz_http_opts opts;
    struct MHD_Daemon *mhd;
    struct dz_poll *poll;   /* its epoll descriptor */
    struct dz_timer *timer; /* its next deadline, or at once */
    struct dz_timer *retry; /* accept again */
    struct dz_timer *tick;  /* comments of event streams */
    struct dz_http_listener listeners[DZ_HTTP_LISTENERS_MAX];
    size_t listener_count;
    struct dz_list connections, sockets, streams; /* dz_http_conn, dz_ws, dz_sse */
    size_t connection_count, request_count;
    struct dz_list requests;
    struct dz_map waiting, streaming; /* by id: dz_http_req */
    uint64_t last_id;
    bool running;  /* inside MHD_run */
    bool again;    /* it must be run again at once */
    bool full;     /* listeners are not polled */
    bool quiesced; /* connections end with their next answer */
    bool ending;
};

struct dz_http_conn {
    struct dz_http *http;
    struct dz_list link;
    int fd;
    int64_t peer_uid;
    struct dz_poll *poll;
    struct dz_http_req *request; /* the one that is suspended, for a hang-up */
    struct dz_ws *ws;
};

enum dz_http_phase {
    DZ_HTTP_PHASE_HEAD,
    DZ_HTTP_PHASE_BODY,
    DZ_HTTP_PHASE_WHOLE,
};

struct dz_http_req {
    struct dz_http *http;
    struct dz_http_conn *conn;
    struct MHD_Connection *mhd;
    struct dz_list link;
    uint64_t id;
    int64_t began_ns;
    char request_id[DZ_ID_TEXT];
    struct dz_arena arena;
    void *context;

    char *target; /* as it came */
    const char *method;
    struct dz_str path;
    struct dz_http_match match;
    struct dz_http_query query;
    int64_t body_size; /* -1: chunked */
    struct dz_buf body;

    enum dz_http_phase phase;
    bool begun;      /* the headers have been looked at */
    bool called;     /* the handler */
    bool suspended;  /* in libmicrohttpd */
    bool head_again; /* the next call is the first one repeated */
    bool useless;    /* the sink wants no more */
    bool answered;
    bool queued; /* the response is libmicrohttpd's */
    bool gone;
    bool kept;   /* it is answered also when the client has left; then mhd and conn are NULL */
    bool nudged; /* dz_http_more came since the last pull or push began */
    size_t discarded;

    const struct dz_http_sink *sink;
    void *sink_arg;
    void (*on_gone)(void *arg);
    void *gone_arg;

    int status;
    struct MHD_Response *response; /* answered, not queued yet */
    struct dz_http_set {
        const char *name, *value;
        struct dz_http_set *next;
    } *headers;
    const struct dz_http_source *source;
    void *source_arg;
    struct dz_ws *ws; /* that the response will make */
};

void dz_http_req_over(struct dz_http_req *r); /* http_req.c: tell of its end, and free it */

/* http.c */
void dz_http_kick(struct dz_http *h);   /* run libmicrohttpd from the loop, soon */
void dz_http_refill(struct dz_http *h); /* a connection less: accept again */

void dz_http_poll_set(struct dz_poll *poll, int events);

/* http_conn.c: callbacks of libmicrohttpd */
void dz_http_on_connection(void *http, struct MHD_Connection *c, void **socket_context,
                           enum MHD_ConnectionNotificationCode code);
void dz_http_conn_watch(struct dz_http_conn *c, int events);

/* http_req.c: the same */
void *dz_http_on_target(void *http, const char *uri, struct MHD_Connection *c);
enum MHD_Result dz_http_on_request(void *http, struct MHD_Connection *c, const char *url,
                                   const char *method, const char *version, const char *data,
                                   size_t *data_size, void **context);
void dz_http_on_completed(void *http, struct MHD_Connection *c, void **context,
                          enum MHD_RequestTerminationCode code);
void dz_http_req_suspend(struct dz_http_req *r); /* only in a callback of libmicrohttpd */
void dz_http_req_resume(struct dz_http_req *r);
/* The client has left: tell whoever waits, and let libmicrohttpd close the connection. */
void dz_http_req_gone(struct dz_http_req *r);

/* http_check.c: what the request's headers say of its body; DZ_EINVAL, DZ_ELIMIT */
DZ_NODISCARD int dz_http_check(struct dz_http_req *r, struct dz_err *err);

/* http_answer.c: hands a response over; it is taken in every case, NULL: memory was short
 * and the connection is cut. */
void dz_http_answer(struct dz_http_req *r, int status, struct MHD_Response *response);
void dz_http_queue(struct dz_http_req *r); /* r->response, at a point where it is taken */

/* http_sse.c, http_ws.c */
void dz_http_ws_poll(struct dz_ws *w, int events);
void dz_http_ws_end_all(struct dz_http *h);
void dz_http_ws_drop(struct dz_ws *w); /* the connection ended before the upgrade */

#endif

/* SPDX-License-Identifier: MIT
 *
 * client.h - talks to a daemon: HTTP/1.1 over a unix socket or TCP, event streams,
 * WebSockets. Blocking, for one thread.
 *
 *     rc = dz_client_open("unix:/run/doze.sock", NULL, &c, err);
 *     dz_client_target(&target, "/v1/sandboxes/{}/suspend", id);
 *     rc = dz_client_json(c, "POST", target.p, NULL, &answer, err);
 *
 * An error answer becomes a struct dz_err with the daemon's code and sentence;
 * dz_client_problem() has its other fields. The client keeps the connection for the
 * next request. Finish one request before you begin the next.
 */
#ifndef DZ_CLIENT_CLIENT_H
#define DZ_CLIENT_CLIENT_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct dz_client;

/* url: "unix:PATH", "https://HOST[:PORT]" (the server's certificate is verified against the
 * system's CAs, or those in SSL_CERT_FILE) or "http://HOST[:PORT]"; token: sent as Authorization,
 * NULL for none. Connects: DZ_ENOENT when nothing listens there. */
DZ_NODISCARD int dz_client_open(const char *url, const char *token, struct dz_client **ret_client,
                                struct dz_err *err);
void dz_client_close(struct dz_client *c); /* NULL is fine */
void dz_client_closep(struct dz_client **c);
/* When asked() returns true, a wait for the daemon ends with DZ_ECANCELED. The client calls it
 * before each wait and after each SIGINT and SIGTERM; no such signal is missed. */
void dz_client_stop(struct dz_client *c, bool (*asked)(void));
/* While the client waits for the daemon, it calls fn(arg) every DZ_CLIENT_TICK_MS. */
enum {
    DZ_CLIENT_TICK_MS = 200,
};
void dz_client_tick(struct dz_client *c, void (*fn)(void *arg), void *arg);

/* Make a request target: each {} in the pattern becomes the next argument, a const char *, encoded.
 */
void dz_client_target(struct dz_buf *out, const char *pattern, ...);
/* Append ?name=value, or &name=value if there is a ? already; nothing if value is NULL. */
void dz_client_target_add(struct dz_buf *out, const char *name, const char *value);

/* --- requests ------------------------------------------------------------------------ */

struct dz_client_req {
    const char *method, *target;
    const char *type;    /* media type of the body; NULL: JSON */
    const char *accept;  /* NULL: JSON */
    const char *headers; /* more header lines, each with \r\n; or NULL */
    struct dz_str body;
    /* Instead of body: reads up to n bytes at a time. 0 at the end, or DZ_E* with *err. */
    ssize_t (*read)(void *arg, char *p, size_t n, struct dz_err *err);
    void *read_arg;
    int64_t read_size;  /* how many bytes read() returns in all; -1: not known */
    int64_t timeout_ms; /* without a byte; 0: DZ_CLIENT_WAIT_MS, < 0: none */
};

/* Send the request and read the head of the answer. Its status if that is 200 to 299, else an
 * error. */
DZ_NODISCARD int dz_client_begin(struct dz_client *c, const struct dz_client_req *req,
                                 struct dz_err *err);
/* Read up to n bytes of the answer's body; 0 at its end. */
DZ_NODISCARD ssize_t dz_client_read(struct dz_client *c, char *p, size_t n, struct dz_err *err);
/* Append the whole body to out. */
DZ_NODISCARD int dz_client_read_all(struct dz_client *c, struct dz_buf *out, struct dz_err *err);
/* A header of the last answer; the text lives until the next request. NULL: none. */
const char *dz_client_header(struct dz_client *c, const char *name);
int64_t dz_client_size(const struct dz_client *c); /* bytes of the body; -1: not known */

/* Send a request and read the answer, both as JSON. Takes the reference to body (NULL: none). The
 * caller owns *ret_answer, which is NULL if the answer has no body; pass NULL if you do not want
 * it. The status, or an error. */
DZ_NODISCARD int dz_client_json(struct dz_client *c, const char *method, const char *target,
                                json_t *body, json_t **ret_answer, struct dz_err *err);
/* The same, but append the bytes of the answer to out. */
DZ_NODISCARD int dz_client_call(struct dz_client *c, const struct dz_client_req *req,
                                struct dz_buf *out, struct dz_err *err);

/* The other fields of the daemon's last error. A field that it did not have is an empty string; all
 * are empty if the last error did not come from the daemon. */
struct dz_client_problem {
    int status;
    char code[40], reason[40], field[80], sandbox_id[40], request_id[40];
};
const struct dz_client_problem *dz_client_problem(const struct dz_client *c);
/* Fill the same fields from the JSON of an error event; returns its code. */
int dz_client_problem_of(struct dz_client *c, const json_t *envelope, int status,
                         struct dz_err *err);

/* --- events ---------------------------------------------------------------------------- */

struct dz_client_event {
    const char *event; /* "message" when it has no name */
    const char *id;    /* the last one given, "" at first */
    struct dz_str data;
};
/* GET an event stream (or do what req says) and call on_event() for each event. Ends when
 * on_event() returns something other than 0, and returns that (negative with *err); 0 at the end of
 * the stream. */
DZ_NODISCARD int dz_client_events(struct dz_client *c, const struct dz_client_req *req,
                                  int (*on_event)(void *arg, const struct dz_client_event *e,
                                                  struct dz_err *err),
                                  void *arg, struct dz_err *err);

/* --- WebSocket --------------------------------------------------------------------------- */

struct dz_client_ws;
struct dz_client_ws_ops {
    /* 0, or something else that dz_client_ws_io then returns. */
    int (*message)(void *arg, bool text, struct dz_str data, struct dz_err *err);
};
/* From then on the connection belongs to the WebSocket. Close the WebSocket before the client. */
DZ_NODISCARD int dz_client_ws_open(struct dz_client *c, const char *target,
                                   const struct dz_client_ws_ops *ops, void *arg,
                                   struct dz_client_ws **ret_ws, struct dz_err *err);
void dz_client_ws_close(struct dz_client_ws *w); /* sends a closing frame; NULL is fine */
int dz_client_ws_fd(const struct dz_client_ws *w);
short dz_client_ws_events(const struct dz_client_ws *w); /* the events to poll for */
/* Queue a message; it is sent when the socket has room. */
DZ_NODISCARD int dz_client_ws_send(struct dz_client_ws *w, bool text, struct dz_str data,
                                   struct dz_err *err);
size_t dz_client_ws_queued(const struct dz_client_ws *w); /* bytes kept */
/* Read and write as much as possible without waiting. 0; what message() returned if that was not 0;
 * DZ_EGONE with its reason if the other side closed. */
DZ_NODISCARD int dz_client_ws_io(struct dz_client_ws *w, struct dz_err *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * client.h - talks to a daemon: HTTP/1.1 over a unix socket or TCP, event streams,
 * WebSockets. Blocking, for one thread.
 *
 *     rc = dz_client_open("unix:/run/doze.sock", NULL, &c, err);
 *     dz_client_target(&target, "/v1/sandboxes/{}/suspend", id);
 *     rc = dz_client_json(c, "POST", target.p, NULL, &answer, err);
 *
 * An answer with an error in it becomes a struct dz_err with the code and sentence that
 * the daemon gave; dz_client_problem() has the rest of it. The connection is kept for the
 * next request. A request must be over before the next begins.
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

/* url: "unix:PATH", "https://HOST[:PORT]" (the certificate is verified by those that the system
 * believes, or SSL_CERT_FILE names) or "http://HOST[:PORT]"; token: sent as Authorization, NULL for
 * none. Connects: DZ_ENOENT when nobody listens there. */
DZ_NODISCARD int dz_client_open(const char *url, const char *token, struct dz_client **ret_client,
                                struct dz_err *err);
void dz_client_close(struct dz_client *c); /* NULL is fine */
void dz_client_closep(struct dz_client **c);
/* Once asked() is true, a wait for the daemon ends with DZ_ECANCELED. It is asked before each wait
 * and after SIGINT and SIGTERM, none of which is missed. */
void dz_client_stop(struct dz_client *c, bool (*asked)(void));

/* A target: each {} of the pattern is the next argument, a const char *, encoded. */
void dz_client_target(struct dz_buf *out, const char *pattern, ...);
/* Adds ?name=value, or & if there is a ? already; nothing when value is NULL. */
void dz_client_target_add(struct dz_buf *out, const char *name, const char *value);

/* --- requests ------------------------------------------------------------------------ */

struct dz_client_req {
    const char *method, *target;
    const char *type;    /* of the body; NULL: JSON */
    const char *accept;  /* NULL: JSON */
    const char *headers; /* more of them, each with \r\n; or NULL */
    struct dz_str body;
    /* In place of body, up to n bytes at a time: 0 at the end, negative DZ_E* with *err. */
    ssize_t (*read)(void *arg, char *p, size_t n, struct dz_err *err);
    void *read_arg;
    int64_t read_size;  /* of what read gives, -1: not known */
    int64_t timeout_ms; /* without a byte; 0: DZ_CLIENT_WAIT_MS, < 0: none */
};

/* Sends it and reads the head of the answer: its status, when that is 200 to 299. */
DZ_NODISCARD int dz_client_begin(struct dz_client *c, const struct dz_client_req *req,
                                 struct dz_err *err);
/* The answer's body: up to n bytes, 0 at its end. */
DZ_NODISCARD ssize_t dz_client_read(struct dz_client *c, char *p, size_t n, struct dz_err *err);
/* The whole of it appended to out. */
DZ_NODISCARD int dz_client_read_all(struct dz_client *c, struct dz_buf *out, struct dz_err *err);
/* A header of the last answer; the text lives until the next request. NULL: none. */
const char *dz_client_header(struct dz_client *c, const char *name);
int64_t dz_client_size(const struct dz_client *c); /* of the body, -1: not known */

/* body is taken (NULL: none), *ret_answer is the caller's; NULL there when the answer is
 * not wanted, and *ret_answer is NULL when it has no body. The status, or an error. */
DZ_NODISCARD int dz_client_json(struct dz_client *c, const char *method, const char *target,
                                json_t *body, json_t **ret_answer, struct dz_err *err);
/* The same as bytes: the answer appended to out. */
DZ_NODISCARD int dz_client_call(struct dz_client *c, const struct dz_client_req *req,
                                struct dz_buf *out, struct dz_err *err);

/* What the last error of the daemon said besides: empty strings where it said nothing, and
 * all empty when the error was not the daemon's. */
struct dz_client_problem {
    int status;
    char code[40], reason[40], field[80], sandbox_id[40], request_id[40];
};
const struct dz_client_problem *dz_client_problem(const struct dz_client *c);
/* The same from the JSON of an error event; returns its code. */
int dz_client_problem_of(struct dz_client *c, const json_t *envelope, int status,
                         struct dz_err *err);

/* --- events ---------------------------------------------------------------------------- */

struct dz_client_event {
    const char *event; /* "message" when it has no name */
    const char *id;    /* the last one given, "" at first */
    struct dz_str data;
};
/* GET (or what req says) of an event stream: take() for each until it gives something other
 * than 0, which is returned (negative with *err), or until the stream's end: 0. */
DZ_NODISCARD int dz_client_events(struct dz_client *c, const struct dz_client_req *req,
                                  int (*take)(void *arg, const struct dz_client_event *e,
                                              struct dz_err *err),
                                  void *arg, struct dz_err *err);

/* --- WebSocket --------------------------------------------------------------------------- */

struct dz_client_ws;
struct dz_client_ws_ops {
    /* 0, or something else that dz_client_ws_io then returns. */
    int (*message)(void *arg, bool text, struct dz_str data, struct dz_err *err);
};
/* The connection is the WebSocket's from then on; close it before the client. */
DZ_NODISCARD int dz_client_ws_open(struct dz_client *c, const char *target,
                                   const struct dz_client_ws_ops *ops, void *arg,
                                   struct dz_client_ws **ret_ws, struct dz_err *err);
void dz_client_ws_close(struct dz_client_ws *w); /* sends a closing frame; NULL is fine */
int dz_client_ws_fd(const struct dz_client_ws *w);
short dz_client_ws_events(const struct dz_client_ws *w); /* what to poll for */
/* Kept and sent as room comes. */
DZ_NODISCARD int dz_client_ws_send(struct dz_client_ws *w, bool text, struct dz_str data,
                                   struct dz_err *err);
size_t dz_client_ws_queued(const struct dz_client_ws *w); /* bytes kept */
/* Reads and writes what goes without waiting: 0; what message() returned; DZ_EGONE when the
 * other side closed, with its reason. */
DZ_NODISCARD int dz_client_ws_io(struct dz_client_ws *w, struct dz_err *err);

#endif

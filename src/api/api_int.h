/* SPDX-License-Identifier: MIT
 *
 * api_int.h - shared inside src/api only.
 */
#ifndef DZ_API_API_INT_H
#define DZ_API_API_INT_H

#include "api/api.h"
#include "api/api_json.h"
#include "base/buf.h"
#include "base/id.h"
#include "base/json.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/control.h"
#include "http/http.h"

#define DZ_API_RETRY_S "1" /* Retry-After while the daemon is not ready */

enum {
    DZ_API_ANSWER_MAX = 64 << 20, /* bytes of one JSON answer */
    DZ_API_LIMIT = 100,           /* items of a page by default */
    DZ_API_LIMIT_MAX = 1000,

    /* Flags of a route, besides DZ_HTTP_STREAMED. */
    DZ_API_OPEN = 1 << 8,     /* needs no token */
    DZ_API_OPERATOR = 1 << 9, /* for the operator only */
    DZ_API_SECRET = 1 << 10,  /* the answer holds a secret: never store it for an Idempotency-Key */
    /* of E2B's dialect: the control plane, calls with one answer, calls with a stream, and files */
    DZ_API_E2B_REST = 1 << 11,
    DZ_API_E2B_UNARY = 1 << 12,
    DZ_API_E2B_STREAM = 1 << 13,
    DZ_API_E2B_FILES = 1 << 14,
    DZ_API_E2B_DATA = DZ_API_E2B_UNARY | DZ_API_E2B_STREAM | DZ_API_E2B_FILES,
    DZ_API_E2B = DZ_API_E2B_REST | DZ_API_E2B_DATA,
};

struct dz_api {
    struct dz_control *control;
    struct dz_api_preview preview;
    struct dz_http *http;
    struct dz_http_route *routes; /* the routes given to the HTTP server */
    struct dz_loop *loop;
    struct dz_control_caller owner; /* the owner of the unix socket */
    struct dz_map keyed;            /* api_key.c: by request */
    /* api_auth.c: token hash -> session; tenant name -> requests; address -> failures */
    struct dz_map sessions, tenants, failures;
    struct dz_timer *expiry; /* fires when the next token in use expires */
    int64_t expiry_at;       /* 0: none */
    size_t tenant_requests;  /* limit of requests in progress for one tenant */
    struct dz_metrics *metrics;
    int64_t started_ms;
    int64_t metered_ms; /* the metrics have the usage up to this time */
    /* the control plane's counts that the metrics already include */
    struct dz_control_counts counted;
    struct dz_control_egress_counts egress;
    struct dz_control_service_counts services;
    struct dz_control_replicas replicas; /* the same of replicas */
    struct dz_e2b *e2b;                  /* api_e2b.c; NULL: the dialect is off */
    struct dz_list e2b_watchers;         /* api_e2b_watch.c; only with the dialect */
};

/* A call of the control plane that a request waits for. */
struct dz_api_call {
    struct dz_api *api;
    uint64_t id;    /* of the request */
    unsigned flags; /* data of the handler */
};

/* --- api_auth.c -------------------------------------------------------------------------- */

/* The caller of a request. Valid until the request is over and its stream's closed has returned. */
const struct dz_control_caller *dz_api_caller(const struct dz_http_req *r, const struct dz_api *a);
/* The caller, and the object that the path parameter `param` names. */
struct dz_control_target dz_api_target(const struct dz_http_req *r, const struct dz_api *a,
                                       const char *param);
/* The sandbox whose access token a request of E2B's data plane has; NULL: it has none. */
const char *dz_api_access(const struct dz_http_req *r);
/* The sandbox, or the volume, that the route names (api_volume.c), and an operation on its files.
 */
struct dz_control_target dz_api_op_target(const struct dz_http_req *r, const struct dz_api *a);
int dz_api_op(struct dz_api *a, const struct dz_http_req *r, struct dz_control_target target,
              const struct dz_file_op_request *request, struct dz_file_op **ret_op,
              struct dz_why *why);
/* implements dz_http_opts.admit */
int dz_api_admit(struct dz_http_req *r, void *api, struct dz_err *err);
/* call when the request is over */
void dz_api_admitted_over(const struct dz_http_req *r, struct dz_api *a);
/* implements dz_http_opts.hold */
bool dz_api_account(struct dz_http_req *r, size_t *held, size_t now, bool must, void *api);
void dz_api_auth_expire(void *api);                              /* callback of a timer */
void dz_api_auth_revoked(struct dz_api *a, const char *id);      /* cuts the streams of the token */
void dz_api_auth_open(struct dz_api *a, size_t tenant_requests); /* 0: the default */
void dz_api_auth_close(struct dz_api *a);

/* --- api_key.c --------------------------------------------------------------------------- */

/* implement dz_http_opts.before, .kept and .done */
bool dz_api_key_before(struct dz_http_req *r, void *api);
void dz_api_key_kept(struct dz_http_req *r, int status, struct dz_str body, void *api);
void dz_api_key_over(struct dz_api *a, const struct dz_http_req *r);
/* The id that this creation must give to its sandbox; NULL: any. */
const char *dz_api_key_id(const struct dz_api *a, const struct dz_http_req *r);
void dz_api_key_close(struct dz_api *a);

/* --- api.c ------------------------------------------------------------------------------- */

/* Refuse with an error of the control plane or of a reader. */
void dz_api_refuse(struct dz_http_req *r, const struct dz_why *why);
void dz_api_refuse_about(struct dz_http_req *r, const struct dz_why *why, const char *sandbox_id);
/* Begin a call of the control plane. NULL: out of memory; the request has been answered. */
struct dz_api_call *dz_api_wait(struct dz_api *a, struct dz_http_req *r, unsigned flags);
/* End a call and free it. Returns the request, NULL if its client has left. */
struct dz_http_req *dz_api_over(struct dz_api_call *c);
/* The control plane rejected the call: free it and refuse the request. */
void dz_api_refused(struct dz_api_call *c, struct dz_http_req *r, const struct dz_why *why);
/* Answer without a body, or with the error if rc < 0. */
void dz_api_done(struct dz_http_req *r, int rc, const struct dz_why *why);

/* Send a JSON answer: begin, write, send. */
struct dz_api_out {
    struct dz_buf text;
    struct dz_json json;
};
void dz_api_begin(struct dz_api_out *o);
void dz_api_send(struct dz_http_req *r, int status, struct dz_api_out *o); /* ends the object */
/* The same for a list: `name` is the member with the items; `next` is the next_cursor, NULL on the
 * last page. */
void dz_api_list_begin(struct dz_api_out *o, const char *name);
void dz_api_list_send(struct dz_http_req *r, struct dz_api_out *o, const char *next);

/* The kind of value that a list uses as cursors. */
enum dz_api_cursor {
    DZ_API_CURSOR_NUMBER,
    DZ_API_CURSOR_SANDBOX, /* ids with the prefix of their kind */
    DZ_API_CURSOR_SNAPSHOT,
    DZ_API_CURSOR_FORK,
    DZ_API_CURSOR_REF,
    DZ_API_CURSOR_TOKEN,
    DZ_API_CURSOR_SCHEDULE,
    DZ_API_CURSOR_VOLUME,
    DZ_API_CURSOR_IMAGE,  /* a hash of an image */
    DZ_API_CURSOR_TENANT, /* DZ_API_TENANT_CURSOR and a name: the prefix rejects other words */
};
#define DZ_API_TENANT_CURSOR "tenant:"
/* limit= and cursor= of a list. Parameters that are neither those nor in `more` (ends with NULL)
 * are refused. */
struct dz_api_page {
    size_t limit;
    const char *cursor;
};
int dz_api_page(struct dz_http_req *r, enum dz_api_cursor kind, const char *const *more,
                struct dz_api_page *ret_page, struct dz_why *why);
/* Read the body by the route's table; false: the request has been refused. */
bool dz_api_body(struct dz_http_req *r, void *ret);
/* DZ_EINVAL names a parameter of the query that is not in the list. */
int dz_api_only(struct dz_http_req *r, const char *const *names, struct dz_why *why);

/* written as null if 0 */
void dz_api_put_time(struct dz_json *j, const char *key, int64_t unix_ms);
/* Write the members of a sandbox into an open object, or the whole object. */
void dz_api_put_replicated(struct dz_api *a, struct dz_json *j, const struct dz_instance *row);
/* The object {"what","done_bytes","total_bytes"}. */
void dz_api_put_progress(struct dz_json *j, const char *what, uint64_t done, uint64_t total);
void dz_api_put_members(struct dz_api *a, struct dz_json *j, const struct dz_instance *row);
void dz_api_put_sandbox(struct dz_api *a, struct dz_json *j, const struct dz_instance *row);

void dz_api_send_sandbox(struct dz_api *a, struct dz_http_req *r, int status,
                         const struct dz_instance *row);
/* Completion (dz_sandbox_done_fn) of a struct dz_api_call: answers with the sandbox and the status
 * in flags (204: no body). */
void dz_api_done_sandbox(void *call, const struct dz_sandbox_result *result);
void dz_api_order(struct dz_api *a, struct dz_http_req *r, const struct dz_control_order *order,
                  int status);
/* The query parameter path, which must be absolute. Parameters not in names are an error. NULL: an
 * error, in *why. */
const char *dz_api_path(struct dz_http_req *r, const char *const *names, struct dz_why *why);
/* api_transfer.c: answer with the bytes of a file, or the part that the header Range names. */
void dz_api_download(struct dz_api *a, struct dz_http_req *r, struct dz_control_target target,
                     const char *path);
/* api_metrics.c */
DZ_NODISCARD int dz_api_metrics_open(struct dz_api *a, struct dz_err *err);
void dz_api_metrics_close(struct dz_api *a);
void dz_api_count(struct dz_api *a, const struct dz_http_req *r, int status, int64_t duration_ns);

/* --- api_port.c, api_preview.c ------------------------------------------------------------- */

#define DZ_API_PREVIEW "/preview/" /* the start of the path of a preview */
enum {
    DZ_API_PREVIEW_TAG = 80, /* "<sandbox>/<port>/<token>": dz_http_pass_tag */
};
void dz_api_put_ports(struct dz_json *j, const struct dz_instance *row,
                      const struct dz_sandbox_config *config);
/* implement dz_http_opts.divert and .unanswered */
const struct dz_http_route *dz_api_preview_divert(struct dz_http_req *r, void *api);
void dz_api_preview_unanswered(struct dz_http_req *r, const struct dz_err *err, void *api);

/* --- api_e2b.c ------------------------------------------------------------------------------- */

/* Read the key of the access tokens from the data directory, or make it. */
DZ_NODISCARD int dz_e2b_open(struct dz_api *a, const struct dz_api_e2b *opts, struct dz_err *err);
void dz_e2b_close(struct dz_api *a);
const struct dz_api_route *dz_e2b_routes(size_t *ret_count);
/* implements dz_http_opts.problem */
int dz_e2b_problem(struct dz_http_req *r, const struct dz_http_problem *p, struct dz_buf *out,
                   void *api);
/* Write the token of doze that an API key stands for; false: it stands for none. */
bool dz_e2b_key(const char *text, char ret_secret[static DZ_CONTROL_SECRET]);
enum {
    DZ_E2B_TOKEN = 96, /* an access token, with its terminator */
};
/* The access token that the signature in a request's query was made with; false: none, or it has
 * expired. A client without a token may be given such a URL. */
bool dz_e2b_signed(struct dz_api *a, struct dz_http_req *r, char ret_token[static DZ_E2B_TOKEN]);
/* The sandbox that an access token opens; false: none. */
bool dz_e2b_opens(const struct dz_api *a, const char *token, char ret_id[static DZ_ID_TEXT]);
/* Answer a creation that a request with the same Idempotency-Key has made. */
void dz_e2b_send_made(struct dz_api *a, struct dz_http_req *r, struct dz_instance *row);
void dz_e2b_create(struct dz_http_req *r, void *api);

/* --- routes (api_routes.c), and the document (api_openapi.c) -------------------------------- */

#define DZ_API_SANDBOX "/v1/sandboxes/{id}"

struct dz_api_route {
    const char *method, *path;
    void (*handle)(struct dz_http_req *r, void *api);
    unsigned flags;                    /* DZ_API_*, DZ_HTTP_STREAMED */
    size_t body_max;                   /* largest body that is not streamed; 0: DZ_HTTP_BODY_MAX */
    const char *body;                  /* a schema, or a media type; NULL: no body */
    const struct dz_api_field *fields; /* table for a JSON body; NULL: not JSON */
    bool needed;                       /* a request without a body is refused */
    const char *id, *tag, *summary;    /* id: NULL of a route that is not available yet */
    const char *parameters, *answers, *errors; /* words, as in api_routes.inc; NULL: none */
};
const struct dz_api_route *dz_api_routes(size_t *ret_count);
/* The routes for the HTTP server, with those of E2B's dialect or without; data of each points to
 * its row. The caller frees the array. NULL: out of memory. */
struct dz_http_route *dz_api_http_routes(bool e2b, size_t *ret_count);
const struct dz_api_route *dz_api_route_of(const struct dz_http_req *r);
extern const char dz_api_errors_any[]; /* codes that any route may be refused with */

DZ_NODISCARD int dz_api_openapi_text(struct dz_buf *out);

/* The handlers, and the tables of bodies. */
void dz_api_later(struct dz_http_req *r, void *api);
#define ROUTE(method, path, handler, body, ...)              \
    void dz_api_##handler(struct dz_http_req *r, void *api); \
    body
#define LATER(method, path, word)
#define NOTHING
#define BYTES
#define JSON(name, schema)   extern const struct dz_api_field dz_api_##name##_fields[];
#define NEEDED(name, schema) JSON(name, schema)
#include "api/api_routes.inc"
#undef ROUTE
#undef LATER
#undef NOTHING
#undef BYTES
#undef JSON
#undef NEEDED

#endif

/* SPDX-License-Identifier: MIT
 *
 * api_e2b.h - E2B's dialect of the API, which clients of E2B speak unchanged. Shared by api_e2b*.c.
 *
 * The control plane (/sandboxes, /templates, ...) is called with a token of doze, written
 * "e2b_" and its 64 digits. The data plane (/files, /process.Process/...) is called with the access
 * token of one sandbox and reaches nothing else. docs/guide/e2b.md lists every method.
 *
 * A sandbox of this dialect is running or paused. That is not doze's state: a running sandbox that
 * is idle sleeps, and wakes for the next request. The record "e2b" in its metadata says which of
 * the two it is (struct dz_e2b_sandbox).
 */
#ifndef DZ_API_API_E2B_H
#define DZ_API_API_E2B_H

#include "api/api_int.h"

#include <jansson.h>

#define DZ_E2B_VERSION "0.5.7" /* of envd: what clients may use */
#define DZ_E2B_HOME    "/home/user"

enum {
    DZ_E2B_CODE = 21,             /* a sandbox's id for clients, with its terminator */
    DZ_E2B_PATH = 4097,           /* a path, with its terminator */
    DZ_E2B_WATCHERS_MAX = 64,     /* of a sandbox */
    DZ_E2B_MESSAGE_MAX = 4 << 20, /* bytes of a message in a stream */
};

struct dz_e2b_sandbox {
    struct dz_instance row;
    struct dz_sandbox_config config;
    json_t *metadata; /* of doze, an object; the dialect's record is its member "e2b" */
    char code[DZ_E2B_CODE];
    const char *template; /* the name that it was created from */
    bool ours;            /* it has the record: it was created by this dialect */
    /* at end_at (ms since 1970) it is paused, if `pauses`, or killed; 0: never */
    int64_t end_at, timeout_ms;
    bool pauses, resumes; /* resumes: a request of the data plane ends its pause */
    bool drops;           /* a pause at end_at keeps the files only */
    bool paused;          /* by a client */
};
enum dz_e2b_state {
    DZ_E2B_RUNNING,
    DZ_E2B_PAUSED,
    DZ_E2B_GONE,
};

/* --- api_e2b.c --------------------------------------------------------------------------- */

/* Read the sandbox of a row, which is taken over even on failure. The caller releases it. */
int dz_e2b_read(struct dz_instance *row, struct dz_e2b_sandbox *ret, struct dz_why *why);
/* Find the sandbox that a request names; DZ_ENOENT also if it is gone. */
int dz_e2b_find(struct dz_api *a, const struct dz_control_caller *who, const char *id,
                struct dz_e2b_sandbox *ret, struct dz_why *why);
void dz_e2b_release(struct dz_e2b_sandbox *s);
enum dz_e2b_state dz_e2b_state(const struct dz_e2b_sandbox *s);
/* Store the record, and set doze's timeout, expiry and auto_resume by it. */
int dz_e2b_store(struct dz_api *a, const struct dz_control_caller *who, struct dz_e2b_sandbox *s,
                 struct dz_why *why);
/* The text of the metadata of a new sandbox; the caller frees it. NULL: out of memory. */
char *dz_e2b_record(struct dz_e2b_sandbox *s);
/* End its pause: the timeout begins anew. */
int dz_e2b_resume(struct dz_api *a, const struct dz_control_caller *who, struct dz_e2b_sandbox *s,
                  int64_t timeout_ms, struct dz_why *why);
/* Cut the streams and the pending requests of the data plane of a sandbox. */
void dz_e2b_cut(struct dz_api *a, const char *sandbox_id);

/* "sbx_" and the code of a client's id, in the request's memory; NULL: it is no id. */
const char *dz_e2b_ref(struct dz_http_req *r, const char *id);
void dz_e2b_token(const struct dz_api *a, const char *sandbox_id, char out[static DZ_E2B_TOKEN]);
/* The image of a template: by the setting e2b.templates, else the image of that name. */
const char *dz_e2b_image(struct dz_api *a, struct dz_http_req *r, const char *template);
/* The text of a JSON body, an object; NULL: the request has been refused. Freed with the request.
 */
json_t *dz_e2b_body(struct dz_http_req *r);
/* Refuse by a status of E2B's and a sentence. */
DZ_PRINTF(4, 5)
void dz_e2b_refuse(struct dz_http_req *r, int code, int status, const char *fmt, ...);

/* The sandbox that a request of the data plane is for. One that is paused and resumes by itself is
 * running after this. False: the request has been refused. */
bool dz_e2b_use(struct dz_api *a, struct dz_http_req *r, struct dz_control_target *ret_target);
/* Resolve a path of a client: "~" and relative paths are below the home directory. False: the
 * request has been refused. */
bool dz_e2b_path(struct dz_http_req *r, const char *path, char out[static DZ_E2B_PATH]);
/* The user that the client asks for; NULL: the image's default, which is E2B's "user", too. */
const char *dz_e2b_user(struct dz_http_req *r);

/* --- api_e2b_life.c ------------------------------------------------------------------------ */

/* Write the object "Sandbox" of E2B. */
void dz_e2b_put_sandbox(struct dz_api *a, struct dz_json *j, const struct dz_e2b_sandbox *s);
const char *dz_e2b_template(const struct dz_e2b_sandbox *s);
/* Refuse with an error of the control plane. */
void dz_e2b_refuse_why(struct dz_http_req *r, const struct dz_why *why);
/* Find the sandbox of the path. False: the request has been refused. */
bool dz_e2b_of_path(struct dz_api *a, struct dz_http_req *r, struct dz_e2b_sandbox *s);
/* A timeout of a body, in seconds; *ret_s is unchanged if it is not given. False: refused. */
bool dz_e2b_seconds(struct dz_http_req *r, const json_t *o, const char *name, int64_t *ret_s);

/* --- api_e2b_branch.c ---------------------------------------------------------------------- */

/* The snapshot that a template's id may name: without its tag, in the request's memory. */
const char *dz_e2b_snapshot(struct dz_http_req *r, const char *template);

/* --- api_e2b_watch.c ----------------------------------------------------------------------- */

void dz_e2b_watchers_end(struct dz_api *a);

/* --- api_e2b_rpc.c: the framing of Connect ------------------------------------------------- */

#define DZ_E2B_STREAM "application/connect+json"
enum {
    DZ_E2B_END = 2, /* flag of the last envelope */
};
/* The code of an error, as "not_found", and the status of a unary call that ends with it. */
const char *dz_e2b_code(int code, int *ret_status);
/* The first envelope of the body, an object; NULL: the request has been answered. */
json_t *dz_e2b_envelope(struct dz_http_req *r);
void dz_e2b_put_envelope(struct dz_buf *out, unsigned flags, struct dz_str text);
/* Append the last envelope; message NULL: success. */
void dz_e2b_put_end(struct dz_buf *out, const char *code, const char *message);
/* Decode base64 (RFC 4648), with or without padding, into out, which has room for 3/4 of it. */
bool dz_e2b_unbase64(struct dz_str text, char *out, size_t *ret_size);
/* Take an envelope off the bytes: its size with its head, 0: it is not complete, or DZ_E*. */
int dz_e2b_unwrap(const char *p, size_t n, struct dz_str *ret_text, struct dz_err *err);
/* Answer a streaming call with an error alone. */
void dz_e2b_stream_fail(struct dz_http_req *r, const char *code, const char *message);

/* --- routes ---------------------------------------------------------------------------------- */

/* clang-format off */
#define DZ_E2B_HANDLERS(X) \
    X(list) X(list_running) X(get) X(kill) X(pause) X(connect) X(resume_now) X(timeout) X(refresh) \
    X(metrics) X(network) X(template_exists) X(template_delete) X(snapshot_make) X(snapshots) \
    X(fork) X(missing) X(health) X(start) X(attach) X(processes) X(input) X(input_end) X(signal) \
    X(update) X(stream_input) X(file_get) X(file_post) X(stat) X(list_dir) X(make_dir) X(move) \
    X(remove) X(watch_dir) X(watcher_make) X(watcher_events) X(watcher_remove)
/* clang-format on */
#define X(name) void dz_e2b_##name(struct dz_http_req *r, void *api);
DZ_E2B_HANDLERS(X)
#undef X

#endif

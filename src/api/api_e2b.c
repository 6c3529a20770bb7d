/* SPDX-License-Identifier: MIT
 *
 * api_e2b.c - E2B's dialect: its routes, its errors, access tokens, and the state of a sandbox as
 * its clients see it.
 *
 * An access token is "<code>_" and 64 digits: a hash of the sandbox's id, keyed by 32 random bytes
 * in the file e2b.key of the data directory. So tokens are not stored, every sandbox has another
 * one, and a token alone says which sandbox it opens. The hash is taken twice with the key, because
 * SHA-256 alone would let a client extend the hashed text.
 *
 * The record of a sandbox in its metadata, {"e2b":{...}}:
 *
 *     template    the name that it was created from
 *     timeout_ms  length of the last timeout
 *     end_at      when that ends, ms since 1970; 0: never
 *     on_timeout  "kill" or "pause"
 *     auto_resume, drop_memory, paused
 *
 * doze's expiry kills at end_at, asleep or not; doze's timeout pauses at end_at. While it is paused
 * neither runs.
 */
#include "api/api_e2b.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/num.h"
#include "loop/loop.h"

#include <assert.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD "e2b"

enum {
    KEY = 32,
    REST_MAX = 256 << 10, /* bytes of a body of the control plane */
    RPC_MAX = 2 << 20,    /* and of a call: 1 MiB of input in base64 */
    SOON_MS = 100,        /* the shortest timeout */
    ENDINGS_MAX = 1 << 20,
    SIGNED_MAX = 4096, /* sandboxes that a signature alone may be of: the newest */
    SIGNED_PAGE = 256, /* of them in memory at a time */
};
#define DIGITS "0123456789abcdefghjkmnpqrstvwxyz"

/* A sandbox with streams, whose timeout ends then. */
struct ending {
    int64_t end_at;
    char id[DZ_ID_TEXT];
};

struct dz_e2b {
    const char *templates; /* as in struct dz_api_e2b; borrowed */
    uint8_t key[KEY];
    struct dz_map endings; /* by the sandbox's id */
    struct dz_timer *tick; /* at the first of them */
    int64_t tick_at;       /* 0: it does not run */
};

/* --- routes --------------------------------------------------------------------------------- */

#define REST   DZ_API_E2B_REST
#define UNARY  DZ_API_E2B_UNARY
#define STREAM DZ_API_E2B_STREAM
#define FILES  DZ_API_E2B_FILES

/* clang-format off */
#define ROW(m, p, h, f, x) {.method = m, .path = p, .handle = dz_e2b_##h, .flags = f, .body_max = x}
#define LACKS(p) ROW("GET", p, missing, REST, 0), ROW("POST", p, missing, REST, REST_MAX)
#define P "/process.Process/"
#define F "/filesystem.Filesystem/"
static const struct dz_api_route routes[] = {
    ROW("POST", "/sandboxes", create, REST, REST_MAX),
    ROW("POST", "/v2/sandboxes", create, REST, REST_MAX),
    ROW("GET", "/sandboxes", list_running, REST, 0),
    ROW("GET", "/v2/sandboxes", list, REST, 0),
    ROW("GET", "/sandboxes/metrics", missing, REST, 0),
    ROW("GET", "/sandboxes/{id}", get, REST, 0),
    ROW("DELETE", "/sandboxes/{id}", kill, REST, 0),
    ROW("POST", "/sandboxes/{id}/pause", pause, REST, REST_MAX),
    ROW("POST", "/sandboxes/{id}/connect", connect, REST, REST_MAX),
    ROW("POST", "/v2/sandboxes/{id}/connect", connect, REST, REST_MAX),
    ROW("POST", "/sandboxes/{id}/resume", resume_now, REST, REST_MAX),
    ROW("POST", "/sandboxes/{id}/timeout", timeout, REST, REST_MAX),
    ROW("POST", "/sandboxes/{id}/refreshes", refresh, REST, REST_MAX),
    ROW("GET", "/sandboxes/{id}/metrics", metrics, REST, 0),
    ROW("PUT", "/sandboxes/{id}/network", network, REST, REST_MAX),
    ROW("POST", "/sandboxes/{id}/snapshots", snapshot_make, REST, REST_MAX),
    ROW("POST", "/sandboxes/{id}/fork", fork, REST, REST_MAX),
    ROW("GET", "/sandboxes/{id}/logs", missing, REST, 0),
    ROW("GET", "/v2/sandboxes/{id}/logs", missing, REST, 0),
    ROW("GET", "/snapshots", snapshots, REST, 0),
    ROW("GET", "/templates/aliases/{alias}", template_exists, REST, 0),
    ROW("DELETE", "/templates/{id}", template_delete, REST, 0),
    LACKS("/templates"),
    LACKS("/v2/templates"),
    LACKS("/v3/templates"),
    LACKS("/volumes"),
    LACKS("/volumes/{id}"),
    LACKS("/secrets"),
    LACKS("/secrets/{id}"),
    ROW("GET", "/health", health, FILES | DZ_API_OPEN, 0),
    ROW("GET", "/files", file_get, FILES, 0),
    ROW("POST", "/files", file_post, FILES | DZ_HTTP_STREAMED, 0),
    ROW("POST", P "Start", start, STREAM, RPC_MAX),
    ROW("POST", P "Connect", attach, STREAM, 0),
    ROW("POST", P "List", processes, UNARY, 0),
    ROW("POST", P "SendInput", input, UNARY, RPC_MAX),
    ROW("POST", P "StreamInput", stream_input, STREAM | DZ_HTTP_STREAMED, 0),
    ROW("POST", P "CloseStdin", input_end, UNARY, 0),
    ROW("POST", P "SendSignal", signal, UNARY, 0),
    ROW("POST", P "Update", update, UNARY, 0),
    ROW("POST", F "Stat", stat, UNARY, 0),
    ROW("POST", F "ListDir", list_dir, UNARY, 0),
    ROW("POST", F "MakeDir", make_dir, UNARY, 0),
    ROW("POST", F "Move", move, UNARY, 0),
    ROW("POST", F "Remove", remove, UNARY, 0),
    ROW("POST", F "WatchDir", watch_dir, STREAM, 0),
    ROW("POST", F "CreateWatcher", watcher_make, UNARY, 0),
    ROW("POST", F "GetWatcherEvents", watcher_events, UNARY, 0),
    ROW("POST", F "RemoveWatcher", watcher_remove, UNARY, 0),
};
/* clang-format on */

const struct dz_api_route *dz_e2b_routes(size_t *ret_count)
{
    *ret_count = DZ_ARRAY_LEN(routes);
    return routes;
}

void dz_e2b_missing(struct dz_http_req *r, void *api)
{
    struct dz_str path = dz_http_path(r);
    (void)api;
    dz_e2b_refuse(r, DZ_EUNSUPPORTED, 501, "%s %.*s is not available in doze", dz_http_method(r),
                  DZ_STR_ARG(path));
}

/* --- errors ----------------------------------------------------------------------------------- */

void dz_e2b_refuse(struct dz_http_req *r, int code, int status, const char *fmt, ...)
{
    struct dz_err err;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(err.msg, sizeof err.msg, fmt, args);
    va_end(args);
    const struct dz_http_problem p = {.code = code, .status = status, .message = err.msg};
    dz_http_refuse(r, &p);
}

/* A request of the data plane whose sandbox does not run. */
static int put_not_running(struct dz_http_req *r, struct dz_json *j)
{
    const char *id = dz_http_header(r, "E2b-Sandbox-Id");
    dz_json_put_strz(j, "sandboxId", id ? id : "");
    dz_json_put_strz(j, "message", "The sandbox was not found");
    dz_json_put_i64(j, "code", 502);
    return 502;
}

int dz_e2b_problem(struct dz_http_req *r, const struct dz_http_problem *p, struct dz_buf *out,
                   void *api)
{
    const struct dz_http_route *route = dz_http_route_of(r);
    unsigned flags = route ? route->flags & DZ_API_E2B : 0;
    int status = p->status ? p->status : p->code == DZ_EGONE ? 404 : dz_err_http(p->code);
    struct dz_json j;
    (void)api;
    if (!flags)
        return 0;
    dz_json_init(&j, out, false);
    dz_json_object(&j);
    if (p->code == DZ_EDIED && flags != REST) {
        status = put_not_running(r, &j);
    } else if (flags & (UNARY | STREAM)) {
        int own;
        dz_json_put_strz(&j, "code", dz_e2b_code(p->code, &own));
        dz_json_put_strz(&j, "message", p->message);
        status = p->status ? p->status : own;
    } else {
        dz_json_put_i64(&j, "code", status);
        dz_json_put_strz(&j, "message", p->message);
    }
    dz_json_end(&j);
    return status;
}

/* --- ids and access tokens -------------------------------------------------------------------- */

const char *dz_e2b_ref(struct dz_http_req *r, const char *id)
{
    struct dz_str s = dz_str(id);
    (void)dz_str_eat(&s, DZ_STR("sbx_"));
    char *ref = s.n == DZ_ID_CODE && strspn(s.p, DIGITS) == s.n
                    ? dz_arena_alloc(dz_http_arena(r), DZ_ID_TEXT)
                    : NULL;
    if (ref)
        (void)snprintf(ref, DZ_ID_TEXT, "sbx_%s", s.p);
    return ref;
}

void dz_e2b_token(const struct dz_api *a, const char *sandbox_id, char out[static DZ_E2B_TOKEN])
{
    uint8_t text[KEY + DZ_SHA256_BYTES], digest[DZ_SHA256_BYTES] = {0};
    char hex[DZ_SHA256_HEX], first[KEY + DZ_ID_TEXT];
    size_t n = strlen(sandbox_id);
    assert(n < DZ_ID_TEXT && n > 4);
    memcpy(first, a->e2b->key, KEY);
    memcpy(first + KEY, sandbox_id, n);
    memcpy(text, a->e2b->key, KEY);
    /* SHA-256 fails only without memory; the digest of zeros that is left then opens nothing,
     * because it is not compared */
    if (dz_sha256(first, KEY + n, text + KEY, NULL) < 0 ||
        dz_sha256(text, sizeof text, digest, NULL) < 0)
        out[0] = '\0';
    else
        (void)snprintf(out, DZ_E2B_TOKEN, "%s_%s", sandbox_id + 4, dz_sha256_hex(digest, hex));
}

bool dz_e2b_opens(const struct dz_api *a, const char *token, char ret_id[static DZ_ID_TEXT])
{
    char want[DZ_E2B_TOKEN];
    size_t n = strlen(token);
    if (n != DZ_ID_CODE + 1 + DZ_SHA256_HEX - 1 || token[DZ_ID_CODE] != '_' ||
        strspn(token, DIGITS) != DZ_ID_CODE)
        return false;
    (void)snprintf(ret_id, DZ_ID_TEXT, "sbx_%.*s", DZ_ID_CODE, token);
    dz_e2b_token(a, ret_id, want);
    return want[0] && dz_equal_secret(want, token, n);
}

/* The signature that a holder of the token gives to a URL: "v1_" and the SHA-256 of
 * "path:read|write:username:token[:expiration]" in base64, without padding. */
static bool is_signature(const struct dz_http_req *r, const char *token, const char *signature)
{
    const char *path = dz_http_query(r, "path"), *user = dz_http_query(r, "username");
    const char *until = dz_http_query(r, "signature_expiration");
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf want = DZ_BUF_INIT(DZ_LINE_MAX);
    uint8_t digest[DZ_SHA256_BYTES];
    /* else the signature to read "a:write:b" would be one to write "a" as the user "b:read:" */
    if (user && strchr(user, ':'))
        return false;
    dz_buf_addf(&text, "%s:%s:%s:%s", path ? path : "",
                strcmp(dz_http_method(r), "POST") == 0 ? "write" : "read", user ? user : "", token);
    if (until)
        dz_buf_addf(&text, ":%s", until);
    if (text.err || dz_sha256(text.p, text.len, digest, NULL) < 0)
        return false;
    dz_buf_adds(&want, "v1_");
    dz_buf_add_base64(&want, digest, sizeof digest);
    while (want.len > 0 && want.p[want.len - 1] == '=')
        want.p[--want.len] = '\0';
    return !want.err && strlen(signature) == want.len &&
           dz_equal_secret(signature, want.p, want.len);
}

bool dz_e2b_signed(struct dz_api *a, struct dz_http_req *r, char ret_token[static DZ_E2B_TOKEN])
{
    const char *signature = dz_http_query(r, "signature"), *ref;
    const char *until = dz_http_query(r, "signature_expiration");
    const char *id = dz_http_header(r, "E2b-Sandbox-Id");
    char after[DZ_ID_TEXT] = "";
    struct dz_why why = {0};
    uint64_t end = 0;
    bool more = true;
    if (!signature || (until && (dz_num_u64(dz_str(until), 0, INT64_MAX / 1000, &end, NULL) < 0 ||
                                 (int64_t)end * 1000 <= dz_clock_real_ms())))
        return false;
    if (id) {
        if (!(ref = dz_e2b_ref(r, id)))
            return false;
        dz_e2b_token(a, ref, ret_token);
        return ret_token[0] && is_signature(r, ret_token, signature);
    }
    for (int seen = 0; more && seen < SIGNED_MAX; seen += SIGNED_PAGE) {
        DZ_AUTO(dz_instances_release) struct dz_instances rows = DZ_VEC_INIT(SIGNED_PAGE);
        const struct dz_control_filter page = {
            .after = after[0] ? after : NULL, .limit = SIGNED_PAGE, .newest = true};
        if (dz_control_list(a->control, &a->owner, &page, &rows, &more, &why) < 0)
            return false;
        for (size_t i = 0; i < rows.n; i++) {
            (void)snprintf(after, sizeof after, "%s", rows.p[i].id);
            dz_e2b_token(a, after, ret_token);
            if (ret_token[0] && is_signature(r, ret_token, signature))
                return true;
        }
    }
    return false;
}

bool dz_e2b_key(const char *text, char ret_secret[static DZ_CONTROL_SECRET])
{
    struct dz_str s = dz_str(text);
    if (!dz_str_eat(&s, DZ_STR("e2b_")) && !dz_str_eat(&s, DZ_STR("doze_")))
        return false;
    int n = snprintf(ret_secret, DZ_CONTROL_SECRET, "doze_%.*s", DZ_STR_ARG(s));
    return n > 0 && n < DZ_CONTROL_SECRET;
}

const char *dz_e2b_image(struct dz_api *a, struct dz_http_req *r, const char *template)
{
    struct dz_str rest = dz_str(a->e2b->templates), part, name;
    while (dz_str_split(&rest, ',', &part)) {
        struct dz_str image = dz_str_trim(part);
        if (dz_str_split(&image, '=', &name) && dz_str_eqz(dz_str_trim(name), template))
            return dz_arena_str(dz_http_arena(r), dz_str_trim(image)).p;
    }
    return template;
}

/* --- the state of a sandbox ------------------------------------------------------------------- */

static int64_t number(const json_t *record, const char *key)
{
    return json_integer_value(json_object_get(record, key));
}

int dz_e2b_read(struct dz_instance *row, struct dz_e2b_sandbox *s, struct dz_why *why)
{
    *s = (struct dz_e2b_sandbox){.row = *row};
    *row = (struct dz_instance){0};
    int rc = dz_sandbox_config_of(&s->row, &s->config, &why->err);
    if (rc == 0 && !(s->metadata = json_loads(s->config.metadata, 0, NULL)))
        rc = dz_fail(&why->err, DZ_ENOMEM, "out of memory");
    if (rc < 0) {
        dz_e2b_release(s);
        return rc;
    }
    const json_t *record = json_object_get(s->metadata, RECORD);
    const char *action = json_string_value(json_object_get(record, "on_timeout"));
    s->template = json_string_value(json_object_get(record, "template"));
    s->ours = json_is_object(record);
    s->end_at = number(record, "end_at");
    s->timeout_ms = number(record, "timeout_ms");
    s->pauses = action && strcmp(action, "pause") == 0;
    s->resumes =
        s->ours ? json_is_true(json_object_get(record, "auto_resume")) : s->config.auto_resume;
    s->drops = json_is_true(json_object_get(record, "drop_memory"));
    s->paused = s->ours ? json_is_true(json_object_get(record, "paused"))
                        : !s->config.auto_resume && s->row.is != DZ_STATE_ACTIVE;
    (void)snprintf(s->code, sizeof s->code, "%s", s->row.id + 4);
    return 0;
}

void dz_e2b_release(struct dz_e2b_sandbox *s)
{
    json_decref(s->metadata);
    dz_sandbox_config_release(&s->config);
    dz_instance_release(&s->row);
    *s = (struct dz_e2b_sandbox){0};
}

enum dz_e2b_state dz_e2b_state(const struct dz_e2b_sandbox *s)
{
    bool ended = s->end_at && s->end_at <= dz_clock_real_ms();
    if (s->row.deployment_is == DZ_DEPLOYMENT_TERMINATED || s->row.is == DZ_STATE_DELETED ||
        s->row.status_is == DZ_STATUS_DELETING)
        return DZ_E2B_GONE;
    if (s->paused || s->row.is == DZ_STATE_ARCHIVED)
        return DZ_E2B_PAUSED;
    return !ended ? DZ_E2B_RUNNING : s->pauses ? DZ_E2B_PAUSED : DZ_E2B_GONE;
}

int dz_e2b_find(struct dz_api *a, const struct dz_control_caller *who, const char *id,
                struct dz_e2b_sandbox *s, struct dz_why *why)
{
    struct dz_instance row = {0};
    *s = (struct dz_e2b_sandbox){0};
    int rc =
        id ? dz_control_get(a->control, (struct dz_control_target){who, id}, &row, why) : DZ_ENOENT;
    if (rc == 0)
        rc = dz_e2b_read(&row, s, why);
    if (rc == 0 && dz_e2b_state(s) == DZ_E2B_GONE)
        rc = DZ_ENOENT;
    if (rc == DZ_ENOENT || rc == DZ_EGONE) {
        *why = (struct dz_why){0};
        rc = dz_fail(&why->err, DZ_ENOENT,
                     "Sandbox \"%s\" doesn't exist or you don't have access to it",
                     id ? id + 4 : "");
    }
    return rc;
}

/* Write the record into the metadata. */
static char *record_text(struct dz_e2b_sandbox *s)
{
    json_t *record =
        json_pack("{s:s,s:I,s:I,s:s,s:b,s:b,s:b}", "template", s->template ? s->template : "",
                  "timeout_ms", (json_int_t)s->timeout_ms, "end_at", (json_int_t)s->end_at,
                  "on_timeout", s->pauses ? "pause" : "kill", "auto_resume", s->resumes,
                  "drop_memory", s->drops, "paused", s->paused);
    struct dz_buf b = DZ_BUF_INIT(DZ_CONTROL_METADATA_MAX * 2);
    size_t n;
    char *text = NULL, *dumped;
    if (!record)
        return NULL;
    /* s->template may point into the record that is replaced; it points into the new one then */
    if (json_object_set_new(s->metadata, RECORD, record) == 0 &&
        (dumped = json_dumps(s->metadata, JSON_COMPACT))) {
        dz_buf_adds(&b, dumped);
        free(dumped);
        text = dz_buf_detach(&b, &n);
    }
    s->template = json_string_value(json_object_get(record, "template"));
    dz_buf_release(&b);
    return text;
}

char *dz_e2b_record(struct dz_e2b_sandbox *s)
{
    return record_text(s);
}

/* --- the end of a timeout --------------------------------------------------------------------- */

static void tick_at(struct dz_e2b *e, int64_t at)
{
    if (e->tick_at && e->tick_at <= at)
        return;
    e->tick_at = at;
    dz_timer_at(e->tick, at);
}

/* A sandbox that its timeout has paused answers no stream any more: a command sleeps with it. */
static void on_tick(void *api)
{
    struct dz_api *a = api;
    struct dz_e2b *e = a->e2b;
    struct ending *over;
    e->tick_at = 0;
    do {
        over = NULL;
        DZ_MAP_FOREACH(it, &e->endings) {
            struct ending *x = it->value;
            if (x->end_at <= dz_clock_real_ms())
                over = x;
        }
        if (over)
            dz_e2b_cut(a, over->id); /* frees it */
    } while (over);
    DZ_MAP_FOREACH(it, &e->endings)
        tick_at(e, ((struct ending *)it->value)->end_at);
}

/* The sandbox has streams, or with `known` only: it may have, and then it is in the map. Without
 * memory its streams end by themselves, when it is used again. */
static void note_end(struct dz_api *a, const struct dz_e2b_sandbox *s, bool known)
{
    struct dz_e2b *e = a->e2b;
    struct ending *x = dz_map_get(&e->endings, dz_str(s->row.id));
    if (!x && (known || !s->end_at))
        return;
    if (!x && (x = dz_zalloc(sizeof *x))) {
        (void)snprintf(x->id, sizeof x->id, "%s", s->row.id);
        if (dz_map_put(&e->endings, dz_str(x->id), x, NULL) < 0) {
            dz_free(x);
            x = NULL;
        }
    }
    if (!x)
        return;
    x->end_at = s->end_at ? s->end_at : INT64_MAX;
    if (s->end_at)
        tick_at(e, s->end_at);
}

int dz_e2b_store(struct dz_api *a, const struct dz_control_caller *who, struct dz_e2b_sandbox *s,
                 struct dz_why *why)
{
    DZ_AUTO(dz_freep) char *text = record_text(s);
    struct dz_instance row = {0};
    int64_t now = dz_clock_real_ms(), left = s->end_at - now;
    bool runs = !s->paused && s->end_at;
    if (!text)
        return dz_fail(&why->err, DZ_ENOMEM, "out of memory");
    if (left < SOON_MS)
        left = SOON_MS;
    const struct dz_control_patch p = {
        .metadata_json = text,
        .set_expiry = true,
        .expiry = {.date = runs && !s->pauses ? now + left : 0},
        .set_timeout = true,
        .timeout_ms = runs && s->pauses ? left : DZ_CONTROL_NO_TIMEOUT,
        .timeout_action = runs && s->pauses ? "pause" : NULL,
        .set_resume = true,
        .no_resume = s->paused && !s->resumes,
    };
    int rc =
        dz_control_change(a->control, (struct dz_control_target){who, s->row.id}, &p, &row, why);
    if (rc == 0) {
        dz_instance_release(&s->row);
        s->row = row;
        note_end(a, s, true);
    }
    return rc;
}

int dz_e2b_resume(struct dz_api *a, const struct dz_control_caller *who, struct dz_e2b_sandbox *s,
                  int64_t timeout_ms, struct dz_why *why)
{
    s->paused = false;
    s->timeout_ms = timeout_ms;
    s->end_at = timeout_ms ? dz_clock_real_ms() + timeout_ms : 0;
    return dz_e2b_store(a, who, s, why);
}

static bool of_sandbox(const struct dz_http_req *r, void *id)
{
    const char *access = dz_api_access(r);
    return access && strcmp(access, id) == 0;
}

void dz_e2b_cut(struct dz_api *a, const char *sandbox_id)
{
    char id[DZ_ID_TEXT];
    (void)snprintf(id, sizeof id, "%s", sandbox_id);
    dz_free(dz_map_remove(&a->e2b->endings, dz_str(id))); /* no streams, no end to cut them at */
    dz_http_cut(a->http, of_sandbox, id);
}

/* --- requests --------------------------------------------------------------------------------- */

static void body_free(void *o)
{
    json_decref(o);
}

json_t *dz_e2b_body(struct dz_http_req *r)
{
    struct dz_why why = {0};
    json_t *o = dz_api_load(dz_http_body(r), 0, &why);
    if (!o) {
        dz_http_fail(r, &why.err);
        return NULL;
    }
    if (dz_arena_defer(dz_http_arena(r), body_free, o) < 0) { /* which has freed o */
        dz_e2b_refuse(r, DZ_ENOMEM, 0, "out of memory");
        return NULL;
    }
    return o;
}

bool dz_e2b_use(struct dz_api *a, struct dz_http_req *r, struct dz_control_target *ret)
{
    DZ_AUTO(dz_e2b_release) struct dz_e2b_sandbox s = {0};
    struct dz_why why = {0};
    *ret = (struct dz_control_target){dz_api_caller(r, a), dz_api_access(r)};
    int rc = ret->ref ? dz_e2b_find(a, ret->who, ret->ref, &s, &why) : DZ_ENOENT;
    bool paused = rc == 0 && dz_e2b_state(&s) == DZ_E2B_PAUSED;
    if (rc == 0 && s.ours && paused && s.resumes)
        rc = dz_e2b_resume(a, ret->who, &s, s.timeout_ms, &why);
    else if (rc == DZ_ENOENT || paused)
        rc = dz_fail(&why.err, DZ_EDIED, "the sandbox is not running");
    if (rc < 0) {
        dz_http_fail(r, &why.err);
        return false;
    }
    dz_http_about(r, ret->ref);
    if (dz_http_route_of(r)->flags & STREAM)
        note_end(a, &s, false);
    return true;
}

bool dz_e2b_path(struct dz_http_req *r, const char *path, char out[static DZ_E2B_PATH])
{
    int n;
    const char *user = dz_e2b_user(r);
    const char *home = user && strcmp(user, "root") == 0 ? "/root" : DZ_E2B_HOME;
    if (!path || !path[0])
        n = snprintf(out, DZ_E2B_PATH, "%s", home);
    else if (path[0] == '/')
        n = snprintf(out, DZ_E2B_PATH, "%s", path);
    else if (path[0] == '~' && (!path[1] || path[1] == '/'))
        n = snprintf(out, DZ_E2B_PATH, "%s%s", home, path + 1);
    else
        n = snprintf(out, DZ_E2B_PATH, "%s/%s", home, path);
    if (n < DZ_E2B_PATH)
        return true;
    if (dz_http_route_of(r)->flags & STREAM)
        dz_e2b_stream_fail(r, "invalid_argument", "path: too long");
    else
        dz_e2b_refuse(r, DZ_EINVAL, 0, "path: longer than %d bytes", DZ_E2B_PATH - 1);
    return false;
}

const char *dz_e2b_user(struct dz_http_req *r)
{
    const char *header = dz_http_header(r, "Authorization"), *name = dz_http_query(r, "username");
    struct dz_str s = dz_str(header);
    char *text = NULL;
    size_t n = 0;
    if (!name && dz_str_eat(&s, DZ_STR("Basic ")) &&
        (text = dz_arena_alloc(dz_http_arena(r), s.n + 4)) && dz_e2b_unbase64(s, text, &n)) {
        text[n] = '\0';
        text[strcspn(text, ":")] = '\0';
        name = text;
    }
    return name && name[0] && strcmp(name, "user") != 0 ? name : NULL;
}

/* --- begin and end ---------------------------------------------------------------------------- */

/* Read the key file, or make it. */
static int read_key(struct dz_e2b *e, const char *data_path, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(KEY);
    char path[DZ_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/e2b.key", data_path);
    if (n < 0 || n >= DZ_PATH_MAX)
        return dz_fail(err, DZ_ELIMIT, "the path of the data directory is too long");
    int rc = dz_fd_read_file(AT_FDCWD, path, &b, err);
    if (rc == DZ_ENOENT) {
        rc = dz_random(e->key, KEY, err);
        return rc < 0 ? rc : dz_fd_replace(AT_FDCWD, path, e->key, KEY, 0600, err);
    }
    if (rc == 0 && b.len != KEY)
        rc =
            dz_fail(err, DZ_ECORRUPT, "%s: must have %d bytes; remove it for a new key", path, KEY);
    if (rc == 0)
        memcpy(e->key, b.p, KEY);
    return rc;
}

int dz_e2b_open(struct dz_api *a, const struct dz_api_e2b *opts, struct dz_err *err)
{
    a->e2b = dz_zalloc(sizeof *a->e2b);
    if (!a->e2b)
        return dz_fail(err, DZ_ENOMEM, "start the dialect of E2B: out of memory");
    dz_list_init(&a->e2b_watchers);
    dz_map_init(&a->e2b->endings, ENDINGS_MAX);
    a->e2b->templates = opts->templates;
    int rc = dz_timer_new(a->loop, on_tick, a, &a->e2b->tick, err);
    return rc < 0 ? rc : read_key(a->e2b, opts->data_path, err);
}

void dz_e2b_close(struct dz_api *a)
{
    if (!a->e2b)
        return;
    dz_e2b_watchers_end(a);
    dz_timer_free(a->e2b->tick);
    DZ_MAP_FOREACH(it, &a->e2b->endings)
        dz_free(it->value);
    dz_map_release(&a->e2b->endings);
    dz_free(a->e2b);
}

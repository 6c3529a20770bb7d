/* SPDX-License-Identifier: MIT
 *
 * api_e2b_life.c - the control plane of E2B's dialect for sandboxes: create, list, get, kill,
 * pause, connect, timeouts, metrics, the network.
 */
#include "api/api_e2b.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "runtime/runtime_op.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TIMEOUT_S = 300, /* of a creation by version 2, and of connect */
    TIMEOUT_V1_S = 15,
    LIST = 100,      /* sandboxes of a page */
    SCAN_MAX = 4096, /* sandboxes that are looked at for one page */
    SCAN_ROWS = 64,  /* of them in memory at a time */
};
#define TIMEOUT_MAX_S ((int64_t)365 * 24 * 3600)

/* --- answers ------------------------------------------------------------------------------------
 */

void dz_e2b_put_sandbox(struct dz_api *a, struct dz_json *j, const struct dz_e2b_sandbox *s)
{
    char token[DZ_E2B_TOKEN];
    dz_e2b_token(a, s->row.id, token);
    dz_json_object(j);
    dz_json_put_strz(j, "sandboxID", s->code);
    dz_json_put_strz(j, "templateID", dz_e2b_template(s));
    dz_json_put_strz(j, "clientID", "doze");
    dz_json_put_strz(j, "envdVersion", DZ_E2B_VERSION);
    dz_json_put_strz(j, "envdAccessToken", token);
    dz_json_put_strz(j, "domain", a->preview.domain[0] ? a->preview.domain : NULL);
    dz_json_put_null(j, "trafficAccessToken");
    dz_json_end(j);
}

const char *dz_e2b_template(const struct dz_e2b_sandbox *s)
{
    return s->template && s->template[0] ? s->template
           : s->config.image             ? s->config.image
                                         : s->row.image;
}

/* The members of a listed sandbox: {string: string}, without the dialect's own record. */
static void put_metadata(struct dz_json *j, const struct dz_e2b_sandbox *s)
{
    const char *key;
    json_t *v;
    dz_json_key(j, "metadata");
    dz_json_object(j);
    json_object_foreach(s->metadata, key, v) if (json_is_string(v))
        dz_json_put_str(j, key, dz_str_n(json_string_value(v), json_string_length(v)));
    dz_json_end(j);
}

static void put_listed(struct dz_api *a, struct dz_json *j, const struct dz_e2b_sandbox *s)
{
    const int64_t year_ms = TIMEOUT_MAX_S * 1000;
    char text[DZ_RFC3339_TEXT];
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t disk =
        s->config.disk_bytes ? s->config.disk_bytes : dz_control_disk_default(a->control);
    dz_json_put_strz(j, "templateID", dz_e2b_template(s));
    dz_json_put_strz(j, "sandboxID", s->code);
    dz_json_put_strz(j, "clientID", "doze");
    dz_json_put_strz(j, "startedAt", dz_rfc3339_print(s->row.created, text));
    dz_json_put_strz(j, "endAt",
                     dz_rfc3339_print(s->end_at ? s->end_at : dz_clock_real_ms() + year_ms, text));
    dz_json_put_i64(j, "cpuCount", cpus > 0 ? cpus : 1);
    dz_json_put_i64(j, "memoryMB", s->row.memory >> 20);
    dz_json_put_u64(j, "diskSizeMB", disk >> 20);
    dz_json_put_strz(j, "state", dz_e2b_state(s) == DZ_E2B_RUNNING ? "running" : "paused");
    dz_json_put_strz(j, "envdVersion", DZ_E2B_VERSION);
    if (s->row.name[0])
        dz_json_put_strz(j, "alias", s->row.name);
    put_metadata(j, s);
}

static void send_sandbox(struct dz_api *a, struct dz_http_req *r, int status,
                         const struct dz_e2b_sandbox *s)
{
    struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_json j;
    dz_http_about(r, s->row.id);
    dz_json_init(&j, &text, false);
    dz_e2b_put_sandbox(a, &j, s);
    dz_http_send(r, status, DZ_HTTP_JSON, &text);
    dz_buf_release(&text);
}

void dz_e2b_refuse_why(struct dz_http_req *r, const struct dz_why *why)
{
    char seconds[16];
    (void)snprintf(seconds, sizeof seconds, "%u", why->retry_s);
    if (why->retry_s)
        dz_http_set(r, "Retry-After", seconds);
    dz_http_fail(r, &why->err);
}

bool dz_e2b_of_path(struct dz_api *a, struct dz_http_req *r, struct dz_e2b_sandbox *s)
{
    struct dz_why why = {0};
    const char *id = dz_http_param(r, "id"), *ref = dz_e2b_ref(r, id);
    if (!ref)
        dz_e2b_refuse(r, DZ_ENOENT, 0,
                      "Sandbox \"%.64s\" doesn't exist or you don't have access to it", id);
    else if (dz_e2b_find(a, dz_api_caller(r, a), ref, s, &why) < 0)
        dz_e2b_refuse_why(r, &why);
    else
        return true;
    return false;
}

/* --- a home for the user -------------------------------------------------------------------------
 */

/* Answers with the sandbox after its home directory was made, if it is missing: clients of E2B use
 * /home/user without making it. */
struct housing {
    struct dz_api *api;
    uint64_t id;
    struct dz_file_op *op;
    struct dz_e2b_sandbox sandbox;
    int status;
};

static void housed(void *arg, const struct dz_why *why, uint64_t count)
{
    struct housing *h = arg;
    struct dz_http_req *r = dz_http_find(h->api->http, h->id);
    (void)count;
    if (why && why->err.code != DZ_EEXIST)
        dz_log(DZ_LOG_WARN, "e2b_home", dz_log_strz("id", h->sandbox.row.id),
               dz_log_err(&why->err));
    if (r) {
        dz_http_on_gone(r, NULL, NULL);
        send_sandbox(h->api, r, h->status, &h->sandbox);
    }
    dz_e2b_release(&h->sandbox);
    dz_free(h);
}

static const struct dz_file_op_ops house_ops = {.done = housed};

static void house_gone(void *arg)
{
    struct housing *h = arg;
    dz_file_op_cancel(h->op);
    dz_e2b_release(&h->sandbox);
    dz_free(h);
}

/* Takes the sandbox over. */
static void house(struct dz_api *a, struct dz_http_req *r, int status, struct dz_e2b_sandbox *s)
{
    struct housing *h = dz_zalloc(sizeof *h);
    struct dz_why why = {0};
    /* everybody may write to it, because the image decides which user commands run as */
    const struct dz_cell_op op = {
        .type = DZ_CELL_OP_MKDIR, .path = DZ_E2B_HOME, .mode = 0777, .flags = DZ_CELL_OP_PARENTS};
    if (!h) {
        dz_e2b_release(s);
        dz_e2b_refuse(r, DZ_ENOMEM, 0, "out of memory");
        return;
    }
    *h = (struct housing){a, dz_http_id(r), NULL, *s, status};
    *s = (struct dz_e2b_sandbox){0};
    const struct dz_file_op_request request = {&op, true, DZ_ACTIVITY_REQUEST, &house_ops, h};
    const struct dz_control_target target = {dz_api_caller(r, a), h->sandbox.row.id};
    dz_http_on_gone(r, house_gone, h);
    if (dz_control_op(a->control, target, &request, &h->op, &why) < 0) {
        dz_http_on_gone(r, NULL, NULL);
        house_gone(h);
        dz_e2b_refuse_why(r, &why);
    }
}

/* --- create -------------------------------------------------------------------------------------
 */

/* An object of strings as JSON, in the request's memory; *ret NULL: not given. False: refused. */
static bool texts_of(struct dz_http_req *r, const json_t *o, const char *name, const char **ret)
{
    json_t *v = json_object_get(o, name), *item;
    const char *key;
    *ret = NULL;
    if (!v || json_is_null(v))
        return true;
    bool good = json_is_object(v);
    json_object_foreach(v, key, item) good = good && json_is_string(item);
    if (!good) {
        dz_e2b_refuse(r, DZ_EINVAL, 0, "%s: must be an object of strings", name);
        return false;
    }
    char *text = json_dumps(v, JSON_COMPACT);
    *ret = text ? dz_arena_str(dz_http_arena(r), dz_str(text)).p : NULL;
    free(text);
    if (!*ret)
        dz_e2b_refuse(r, DZ_ENOMEM, 0, "out of memory");
    return *ret;
}

/* Is a field given that means something? */
static bool is_set(const json_t *v)
{
    return v && !json_is_null(v) && !json_is_false(v) &&
           !(json_is_object(v) && json_object_size(v) == 0) &&
           !(json_is_array(v) && json_array_size(v) == 0);
}

/* Refuse a field of another type than E2B's: a rule or a flag that is ignored would be dangerous.
 * null is as if it were not given. */
static bool typed(struct dz_http_req *r, const json_t *o)
{
    static const struct {
        const char *name, *type;
    } fields[] = {{"autoPause", "true or false"},
                  {"autoPauseMemory", "true or false"},
                  {"allow_internet_access", "true or false"},
                  {"enabled", "true or false"},
                  {"network", "an object"},
                  {"autoResume", "an object"},
                  {"allowOut", "a list"},
                  {"denyOut", "a list"},
                  {"volumeMounts", "a list"}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(fields); i++) {
        const json_t *v = json_object_get(o, fields[i].name);
        const char *is = json_is_boolean(v)  ? "true or false"
                         : json_is_object(v) ? "an object"
                         : json_is_array(v)  ? "a list"
                                             : "";
        if (v && !json_is_null(v) && strcmp(is, fields[i].type) != 0) {
            dz_e2b_refuse(r, DZ_EINVAL, 0, "%s: must be %s", fields[i].name, fields[i].type);
            return false;
        }
    }
    return true;
}

/* Refuse what doze does not have by its name. */
static bool lacks(struct dz_http_req *r, const json_t *o, const char *const *names)
{
    for (; o && *names; names++)
        if (is_set(json_object_get(o, *names))) {
            dz_e2b_refuse(r, DZ_EUNSUPPORTED, 400, "%s: is not available in doze", *names);
            return false;
        }
    return true;
}

bool dz_e2b_seconds(struct dz_http_req *r, const json_t *o, const char *name, int64_t *ret_s)
{
    const json_t *v = json_object_get(o, name);
    if (!v || json_is_null(v))
        return true;
    if (json_is_integer(v) && json_integer_value(v) <= TIMEOUT_MAX_S) {
        *ret_s = json_integer_value(v);
        return true;
    }
    dz_e2b_refuse(r, DZ_EINVAL, 0, "%s: must be a number of seconds, at most a year", name);
    return false;
}

static bool is_all(const json_t *list)
{
    const char *text = json_string_value(json_array_get(list, 0));
    return json_array_size(list) == 1 && text && strcmp(text, "0.0.0.0/0") == 0;
}

/* Sort the entries of allowOut or denyOut into addresses and names. */
static bool sort_out(const json_t *list, json_t *cidrs, json_t *domains)
{
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v)
    {
        const char *text = json_string_value(v);
        struct in_addr address;
        struct in6_addr wide;
        char cidr[64];
        if (!text || strlen(text) >= sizeof cidr - 4)
            return false;
        bool plain = inet_pton(AF_INET, text, &address) == 1;
        (void)snprintf(cidr, sizeof cidr, "%s%s", text, plain ? "/32" : "");
        json_t *to =
            plain || strchr(text, '/') || inet_pton(AF_INET6, text, &wide) == 1 ? cidrs : domains;
        if (json_array_append_new(to, json_string(cidr)) < 0)
            return false;
    }
    return true;
}

/* The egress rules of a body, in the request's memory; *ret NULL: none are needed. E2B lets
 * allowOut win over denyOut, doze the opposite; so both together are possible only if denyOut is
 * everything, which is what doze's lists of allowed addresses and names mean. */
static bool network_of(struct dz_api *a, struct dz_http_req *r, const json_t *o,
                       const json_t *internet, const char **ret)
{
    static const char *const missing[] = {"rules", "egressProxy", "maskRequestHost", "httpsPorts",
                                          NULL};
    const json_t *allow = json_object_get(o, "allowOut"), *deny = json_object_get(o, "denyOut");
    const bool allows = is_set(allow), denies = is_set(deny), none = json_is_false(internet);
    *ret = NULL;
    if (!lacks(r, o, missing) || !typed(r, o))
        return false;
    if (!allows && !denies && (!none || !dz_control_egress_on(a->control)))
        return true;
    if (allows && denies && !is_all(deny)) {
        dz_e2b_refuse(r, DZ_EUNSUPPORTED, 400,
                      "network: allowOut beside a denyOut other than 0.0.0.0/0 is not available in "
                      "doze");
        return false;
    }
    json_t *egress = json_object(), *cidrs = json_array(), *domains = json_array();
    bool closed = none || (denies && is_all(deny));
    const json_t *list = closed ? allow : deny;
    bool good = sort_out(list, cidrs, domains);
    (void)json_object_set_new(egress, "mode", json_string(closed ? "deny_all" : "allow_all"));
    if (json_array_size(cidrs) > 0)
        (void)json_object_set(egress, closed ? "allow_cidrs" : "deny_cidrs", cidrs);
    if (json_array_size(domains) > 0)
        (void)json_object_set(egress, closed ? "allow_domains" : "deny_domains", domains);
    json_t *whole = json_pack("{s:o}", "egress", egress);
    char *text = good && whole ? json_dumps(whole, JSON_COMPACT) : NULL;
    if (text)
        *ret = dz_arena_str(dz_http_arena(r), dz_str(text)).p;
    free(text);
    json_decref(whole);
    json_decref(cidrs);
    json_decref(domains);
    if (!*ret)
        dz_e2b_refuse(r, good ? DZ_ENOMEM : DZ_EINVAL, 0,
                      "network: allowOut and denyOut must be lists of addresses and names");
    return *ret;
}

/* The mounts of a body, by name and path, as doze has them. */
static bool volumes_of(struct dz_http_req *r, const json_t *o, const char **ret)
{
    const json_t *list = json_object_get(o, "volumeMounts");
    *ret = NULL;
    if (!is_set(list))
        return true;
    char *text = json_dumps(list, JSON_COMPACT);
    *ret = text ? dz_arena_str(dz_http_arena(r), dz_str(text)).p : NULL;
    free(text);
    if (!*ret)
        dz_e2b_refuse(r, DZ_ENOMEM, 0, "out of memory");
    return *ret;
}

/* The callback of a creation. */
static void created(void *arg, const struct dz_sandbox_result *result)
{
    struct dz_api_call *c = arg;
    struct dz_api *a = c->api;
    struct dz_e2b_sandbox s;
    struct dz_why why = {0};
    struct dz_http_req *r = dz_api_over(c);
    struct dz_instance row = {0};
    if (!r)
        return;
    if (result->code < 0) {
        dz_e2b_refuse_why(r, result->why);
        return;
    }
    const struct dz_control_target target = {dz_api_caller(r, a), result->row->id};
    int rc = dz_control_get(a->control, target, &row, &why);
    if (rc == 0)
        rc = dz_e2b_read(&row, &s, &why);
    if (rc < 0)
        dz_e2b_refuse_why(r, &why);
    else
        house(a, r, 201, &s);
}

void dz_e2b_send_made(struct dz_api *a, struct dz_http_req *r, struct dz_instance *row)
{
    struct dz_e2b_sandbox s;
    struct dz_why why = {0};
    if (dz_e2b_read(row, &s, &why) < 0) {
        dz_e2b_refuse_why(r, &why);
        return;
    }
    send_sandbox(a, r, 201, &s);
    dz_e2b_release(&s);
}

/* What a template's name stands for: a snapshot, or an image. */
static void template_of(struct dz_api *a, struct dz_http_req *r, const char *name,
                        struct dz_control_spec *spec)
{
    DZ_AUTO(dz_snapshot_row_release) struct dz_snapshot_row row = {0};
    const char *image = dz_e2b_image(a, r, name), *snapshot = dz_e2b_snapshot(r, name);
    struct dz_why why = {0};
    if (image == name &&
        dz_control_snapshot_get(
            a->control, (struct dz_control_target){dz_api_caller(r, a), snapshot}, &row, &why) == 0)
        spec->snapshot = snapshot;
    else
        spec->image = image;
}

/* Fill the sandbox's record and the spec from the body. False: the request has been refused. */
static bool create_read(struct dz_api *a, struct dz_http_req *r, const json_t *o,
                        struct dz_e2b_sandbox *s, struct dz_control_spec *spec)
{
    static const char *const missing[] = {"mcp", "iam", "secrets", NULL};
    const json_t *network = json_object_get(o, "network");
    const json_t *resume = json_object_get(json_object_get(o, "autoResume"), "enabled");
    const json_t *memory = json_object_get(o, "autoPauseMemory");
    int64_t seconds = dz_str_starts(dz_http_path(r), DZ_STR("/v2/")) ? TIMEOUT_S : TIMEOUT_V1_S;
    const char *metadata;
    s->template = json_string_value(json_object_get(o, "templateID"));
    s->pauses = json_is_true(json_object_get(o, "autoPause"));
    s->resumes = json_is_true(resume);
    s->drops = json_is_false(memory);
    if (!s->template || !s->template[0]) {
        dz_e2b_refuse(r, DZ_EINVAL, 0, "templateID: must be the name of a template");
        return false;
    }
    if (s->drops && (!s->pauses || s->resumes)) {
        dz_e2b_refuse(r, DZ_EINVAL, 0,
                      "autoPauseMemory: false needs autoPause, and excludes autoResume");
        return false;
    }
    if (!lacks(r, o, missing) || !typed(r, o) || !typed(r, json_object_get(o, "autoResume")) ||
        !dz_e2b_seconds(r, o, "timeout", &seconds) || !texts_of(r, o, "metadata", &metadata) ||
        !texts_of(r, o, "envVars", &spec->env_json) ||
        !network_of(a, r, network, json_object_get(o, "allow_internet_access"),
                    &spec->network_json) ||
        !volumes_of(r, o, &spec->volumes_json))
        return false;
    if (seconds <= 0) {
        dz_e2b_refuse(r, DZ_EINVAL, 0, "timeout: must be greater than 0");
        return false;
    }
    if (metadata && strlen(metadata) > DZ_CONTROL_METADATA_MAX) {
        dz_e2b_refuse(r, DZ_ELIMIT, 0, "metadata: must be at most %d bytes",
                      DZ_CONTROL_METADATA_MAX);
        return false;
    }
    s->metadata = metadata ? json_loads(metadata, 0, NULL) : json_object();
    if (json_object_get(s->metadata, "e2b")) {
        dz_e2b_refuse(r, DZ_EINVAL, 0, "metadata: the key e2b is doze's own");
        return false;
    }
    s->timeout_ms = seconds * 1000;
    s->end_at = dz_clock_real_ms() + s->timeout_ms;
    spec->idle_ms = DZ_IDLE_INHERIT;
    spec->timeout_ms = s->pauses ? s->timeout_ms : DZ_CONTROL_NO_TIMEOUT;
    spec->timeout_action = s->pauses ? "pause" : NULL;
    spec->expiry.date = s->pauses ? 0 : s->end_at;
    /* Memory is dropped at every suspend of such a sandbox, so it must not be suspended before. */
    spec->keep = s->drops ? "files" : NULL;
    spec->idle_mode = s->drops ? "never" : NULL;
    template_of(a, r, s->template, spec);
    return true;
}

void dz_e2b_create(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_e2b_sandbox s = {0};
    struct dz_control_spec spec = {0};
    struct dz_why why = {0};
    json_t *o = dz_e2b_body(r);
    if (!o)
        return;
    DZ_AUTO(dz_freep) char *metadata = NULL;
    if (create_read(a, r, o, &s, &spec)) {
        struct dz_api_call *c = dz_api_wait(a, r, 201);
        spec.metadata_json = metadata = dz_e2b_record(&s);
        spec.id = dz_api_key_id(a, r);
        int rc = c && metadata
                     ? dz_control_create(a->control, dz_api_caller(r, a), &spec, created, c, &why)
                     : dz_fail(&why.err, DZ_ENOMEM, "out of memory");
        if (c && rc < 0) {
            dz_free(c);
            dz_e2b_refuse_why(r, &why);
        }
    }
    json_decref(s.metadata);
}

/* --- list and get --------------------------------------------------------------------------------
 */

/* Decode % escapes once more, in place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *p = text; *p; p++) {
        unsigned c;
        if (*p == '%' && p[1] && p[2] && strspn(p + 1, "0123456789abcdefABCDEF") >= 2 &&
            sscanf(p + 1, "%2x", &c) == 1 && c > 0) { /* the digits are checked */
            *to++ = (char)c;
            p += 2;
        } else {
            *to++ = *p;
        }
    }
    *to = '\0';
}

struct listing {
    const char *states;   /* comma-separated; NULL: all */
    const char *template; /* NULL: all */
    char *metadata;       /* "k=v&k=v", decoded once; in the request's memory; NULL: all */
    int64_t started_after;
    uint64_t left;          /* sandboxes that the page still has room for */
    char last[DZ_E2B_CODE]; /* looked at while it had room: the next page begins behind it */
    bool over;              /* there is a sandbox for the next page */
};

/* Clients encode the names and values, then the whole as a query, then that as a parameter. */
static bool has_metadata(const struct dz_e2b_sandbox *s, const struct listing *f)
{
    struct dz_str rest = dz_str(f->metadata), pair, name;
    while (f->metadata && dz_str_split(&rest, '&', &pair)) {
        if (pair.n == 0)
            continue;
        bool named = dz_str_split(&pair, '=', &name);
        DZ_AUTO(dz_freep) char *key = dz_str_dup(name);
        DZ_AUTO(dz_freep) char *value = dz_str_dup(pair);
        if (!key || !value)
            return false;
        for (char *p = value; *p; p++)
            *p = *p == '+' ? ' ' : *p;
        for (char *p = key; *p; p++)
            *p = *p == '+' ? ' ' : *p;
        for (int i = 0; i < 2; i++) {
            unescape(key);
            unescape(value);
        }
        const char *has = json_string_value(json_object_get(s->metadata, key));
        if (!named || !has || strcmp(has, value) != 0)
            return false;
    }
    return true;
}

static bool is_listed(const struct dz_e2b_sandbox *s, const struct listing *f)
{
    enum dz_e2b_state state = dz_e2b_state(s);
    const char *name = state == DZ_E2B_RUNNING ? "running" : "paused";
    struct dz_str rest = dz_str(f->states), word;
    bool wanted = !f->states || !f->states[0];
    while (!wanted && dz_str_split(&rest, ',', &word))
        wanted = dz_str_eqz(dz_str_trim(word), name);
    return state != DZ_E2B_GONE && wanted && s->row.created > f->started_after &&
           (!f->template || strcmp(f->template, dz_e2b_template(s)) == 0) && has_metadata(s, f);
}

/* Write the sandboxes of some rows into the page. */
static void list_rows(struct dz_api *a, struct dz_json *j, struct dz_instances *rows,
                      struct listing *f)
{
    for (size_t i = 0; i < rows->n && !f->over; i++) {
        DZ_AUTO(dz_e2b_release) struct dz_e2b_sandbox s = {0};
        struct dz_why why = {0};
        char id[DZ_ID_TEXT];
        (void)snprintf(id, sizeof id, "%s", rows->p[i].id);
        if (dz_e2b_read(&rows->p[i], &s, &why) < 0) {
            dz_log(DZ_LOG_WARN, "e2b_list", dz_log_strz("id", id), dz_log_err(&why.err));
            continue;
        }
        bool listed = is_listed(&s, f);
        f->over = listed && f->left == 0;
        if (f->left > 0)
            (void)snprintf(f->last, sizeof f->last, "%s", s.code);
        if (!listed || f->over)
            continue;
        dz_json_object(j);
        put_listed(a, j, &s);
        dz_json_end(j);
        f->left--;
    }
}

static void list(struct dz_api *a, struct dz_http_req *r, const char *states)
{
    const char *limit = dz_http_query(r, "limit"), *order = dz_http_query(r, "order");
    const char *after = dz_http_query(r, "nextToken"), *since = dz_http_query(r, "startedAfter");
    struct listing f = {.states = states, .template = dz_http_query(r, "template"), .left = LIST};
    struct dz_buf text = DZ_BUF_INIT(DZ_API_ANSWER_MAX);
    struct dz_json j;
    struct dz_why why = {0};
    char behind[DZ_ID_TEXT];
    bool more = true;
    int rc = 0;
    f.metadata = (char *)(uintptr_t)dz_http_query(r, "metadata");
    const char *from = after && after[0] ? dz_e2b_ref(r, after) : NULL;
    if ((limit && dz_num_u64(dz_str(limit), 1, DZ_API_LIMIT_MAX, &f.left, NULL) < 0) ||
        (after && after[0] && !from) ||
        (since && dz_rfc3339_parse(dz_str(since), &f.started_after, NULL) < 0)) {
        dz_e2b_refuse(
            r, DZ_EINVAL, 0,
            "limit must be from 1 to %d, nextToken one that an answer had, startedAfter a "
            "time",
            DZ_API_LIMIT_MAX);
        return;
    }
    dz_json_init(&j, &text, false);
    dz_json_array(&j);
    for (int seen = 0; rc == 0 && more && !f.over && seen < SCAN_MAX; seen += SCAN_ROWS) {
        DZ_AUTO(dz_instances_release) struct dz_instances rows = DZ_VEC_INIT(SCAN_ROWS);
        const struct dz_control_filter scan = {
            .after = from, .limit = SCAN_ROWS, .newest = !order || strcmp(order, "asc") != 0};
        rc = dz_control_list(a->control, dz_api_caller(r, a), &scan, &rows, &more, &why);
        if (rows.n > 0)
            (void)snprintf(behind, sizeof behind, "%s", rows.p[rows.n - 1].id);
        from = behind;
        list_rows(a, &j, &rows, &f);
    }
    dz_json_end(&j);
    if (rc == 0 && (more || f.over))
        dz_http_set(r, "X-Next-Token", f.last);
    if (rc < 0)
        dz_e2b_refuse_why(r, &why);
    else
        dz_http_send(r, 200, DZ_HTTP_JSON, &text);
    dz_buf_release(&text);
}

void dz_e2b_list(struct dz_http_req *r, void *api)
{
    list(api, r, dz_http_query(r, "state"));
}

void dz_e2b_list_running(struct dz_http_req *r, void *api)
{
    list(api, r, "running");
}

/* Write a sandbox's egress rules in the words of E2B. */
static void put_network(struct dz_json *j, const struct dz_e2b_sandbox *s)
{
    json_t *whole = s->config.network ? json_loads(s->config.network, 0, NULL) : NULL;
    const json_t *egress = json_object_get(whole, "egress");
    const char *mode = json_string_value(json_object_get(egress, "mode"));
    static const char *const names[][3] = {{"allowOut", "allow_cidrs", "allow_domains"},
                                           {"denyOut", "deny_cidrs", "deny_domains"}};
    bool closed = mode && strcmp(mode, "deny_all") == 0;
    if (mode)
        dz_json_put_bool(j, "allowInternetAccess", !closed);
    dz_json_key(j, "network");
    dz_json_object(j);
    for (size_t i = 0; i < DZ_ARRAY_LEN(names); i++) {
        dz_json_key(j, names[i][0]);
        dz_json_array(j);
        if (i == 1 && closed)
            dz_json_str(j, DZ_STR("0.0.0.0/0"));
        for (size_t k = 1; k < DZ_ARRAY_LEN(names[i]); k++) {
            json_t *v, *list = json_object_get(egress, names[i][k]);
            size_t n;
            json_array_foreach(list, n, v) dz_json_str(j, dz_str(json_string_value(v)));
        }
        dz_json_end(j);
    }
    dz_json_end(j);
    json_decref(whole);
}

void dz_e2b_get(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_e2b_release) struct dz_e2b_sandbox s = {0};
    struct dz_api *a = api;
    struct dz_api_out o;
    char token[DZ_E2B_TOKEN];
    if (!dz_e2b_of_path(a, r, &s))
        return;
    dz_e2b_token(a, s.row.id, token);
    dz_http_about(r, s.row.id);
    dz_api_begin(&o);
    put_listed(a, &o.json, &s);
    dz_json_put_strz(&o.json, "envdAccessToken", token);
    dz_json_put_strz(&o.json, "domain", a->preview.domain[0] ? a->preview.domain : NULL);
    put_network(&o.json, &s);
    dz_json_key(&o.json, "lifecycle");
    dz_json_object(&o.json);
    dz_json_put_strz(&o.json, "onTimeout", s.ours && !s.pauses ? "kill" : "pause");
    dz_json_put_bool(&o.json, "autoResume", s.resumes);
    dz_json_end(&o.json);
    dz_api_send(r, 200, &o);
}

/* --- kill and pause ------------------------------------------------------------------------------
 */

static void order_done(void *arg, const struct dz_sandbox_result *result)
{
    struct dz_http_req *r = dz_api_over(arg);
    if (r && result->code < 0)
        dz_e2b_refuse_why(r, result->why);
    else if (r)
        dz_http_send(r, 204, NULL, NULL);
}

void dz_e2b_kill(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_e2b_release) struct dz_e2b_sandbox s = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    if (!dz_e2b_of_path(a, r, &s))
        return;
    const struct dz_control_order order = {.what = DZ_REQUEST_DESTROY};
    const struct dz_control_target target = {dz_api_caller(r, a), s.row.id};
    struct dz_api_call *c = dz_api_wait(a, r, 204);
    if (!c)
        return;
    dz_e2b_cut(a, s.row.id);
    if (dz_control_order(a->control, target, &order, order_done, c, &why) < 0) {
        dz_free(c);
        dz_e2b_refuse_why(r, &why);
    }
}

/* A pause, or a resume, in progress: if it fails, the record is again what it was. */
struct turning {
    struct dz_api *api;
    uint64_t id; /* of the request */
    struct dz_control_own_caller own;
    struct dz_e2b_sandbox sandbox;
    bool pausing;
    int64_t end_at; /* before */
};

static void turning_free(struct turning *t)
{
    dz_e2b_release(&t->sandbox);
    dz_free(t);
}

static void turn_back(struct turning *t)
{
    struct dz_why why = {0};
    t->sandbox.paused = !t->pausing;
    t->sandbox.end_at = t->end_at;
    if (t->sandbox.ours && dz_e2b_store(t->api, &t->own.who, &t->sandbox, &why) < 0)
        dz_log(DZ_LOG_WARN, "e2b_record", dz_log_strz("id", t->sandbox.row.id),
               dz_log_err(&why.err));
}

static void turned(void *arg, const struct dz_sandbox_result *result)
{
    struct turning *t = arg;
    struct dz_http_req *r = dz_http_find(t->api->http, t->id);
    if (result->code < 0) {
        turn_back(t);
        if (r)
            dz_e2b_refuse_why(r, result->why);
    } else if (r && t->pausing) {
        dz_http_send(r, 204, NULL, NULL);
    } else if (r) {
        house(t->api, r, 201, &t->sandbox);
    }
    turning_free(t);
}

/* Store the record and order the transition. Takes the sandbox over. */
static void turn(struct dz_api *a, struct dz_http_req *r, struct dz_e2b_sandbox *s,
                 const struct dz_control_order *order, struct turning was)
{
    struct turning *t = dz_alloc(sizeof *t);
    struct dz_why why = {0};
    int rc = t ? 0 : dz_fail(&why.err, DZ_ENOMEM, "out of memory");
    if (rc == 0) {
        *t = was;
        t->api = a;
        t->id = dz_http_id(r);
        dz_control_caller_keep(&t->own, dz_api_caller(r, a));
        t->sandbox = *s;
        *s = (struct dz_e2b_sandbox){0};
        if (t->sandbox.ours)
            rc = dz_e2b_store(a, &t->own.who, &t->sandbox, &why);
    }
    if (rc == 0 && t) {
        const struct dz_control_target target = {&t->own.who, t->sandbox.row.id};
        rc = dz_control_order(a->control, target, order, turned, t, &why);
        if (rc < 0)
            turn_back(t);
    }
    if (rc < 0) {
        if (t)
            turning_free(t);
        dz_e2b_refuse_why(r, &why);
    }
}

void dz_e2b_pause(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_e2b_release) struct dz_e2b_sandbox s = {0};
    struct dz_api *a = api;
    json_t *o = dz_e2b_body(r);
    bool files = json_is_false(json_object_get(o, "memory"));
    if (!o || !dz_e2b_of_path(a, r, &s))
        return;
    if (dz_e2b_state(&s) == DZ_E2B_PAUSED) {
        dz_e2b_refuse(r, DZ_ESTATE, 409, "Error pausing sandbox - sandbox '%s' is already paused",
                      s.code);
        return;
    }
    const struct dz_control_order order = {.what = DZ_REQUEST_SUSPEND,
                                           .keep = files ? "files" : "memory"};
    const struct turning was = {.pausing = true, .end_at = s.end_at};
    if (!s.ours) { /* from now on, it is: doze itself knows no pause */
        s.ours = s.pauses = true;
        s.resumes = false;
    }
    s.paused = true;
    s.end_at = 0;
    dz_e2b_cut(a, s.row.id);
    turn(a, r, &s, &order, was);
}

/* --- connect and resume
 * --------------------------------------------------------------------------- */

static void resume(struct dz_api *a, struct dz_http_req *r, struct dz_e2b_sandbox *s,
                   int64_t timeout_ms, bool files)
{
    const struct dz_control_order order = {
        .what = s->row.is == DZ_STATE_ARCHIVED ? DZ_REQUEST_REVIVE : DZ_REQUEST_WAKE,
        .keep = files && s->row.is != DZ_STATE_ARCHIVED ? "files" : NULL};
    const struct turning was = {.pausing = false, .end_at = s->end_at};
    s->paused = false;
    s->timeout_ms = timeout_ms;
    s->end_at = dz_clock_real_ms() + timeout_ms;
    turn(a, r, s, &order, was);
}

/* Read the timeout, which is needed by version 1 of connect. */
static bool read_timeout(struct dz_http_req *r, const json_t *o, int64_t *ret_ms)
{
    int64_t seconds = TIMEOUT_S;
    if (!dz_e2b_seconds(r, o, "timeout", &seconds))
        return false;
    if (seconds <= 0)
        dz_e2b_refuse(r, DZ_EINVAL, 0, "timeout: must be greater than 0");
    *ret_ms = seconds * 1000;
    return seconds > 0;
}

void dz_e2b_connect(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_e2b_release) struct dz_e2b_sandbox s = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    json_t *o = dz_e2b_body(r);
    int64_t timeout_ms = 0;
    if (!o || !read_timeout(r, o, &timeout_ms) || !dz_e2b_of_path(a, r, &s))
        return;
    if (dz_e2b_state(&s) == DZ_E2B_PAUSED) {
        resume(a, r, &s, timeout_ms, json_is_false(json_object_get(o, "memory")));
        return;
    }
    /* a running one lives longer, never shorter */
    if (s.ours && s.end_at && s.end_at < dz_clock_real_ms() + timeout_ms &&
        dz_e2b_resume(a, dz_api_caller(r, a), &s, timeout_ms, &why) < 0)
        dz_e2b_refuse_why(r, &why);
    else
        house(a, r, 200, &s);
}

void dz_e2b_resume_now(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_e2b_release) struct dz_e2b_sandbox s = {0};
    struct dz_api *a = api;
    json_t *o = dz_e2b_body(r);
    int64_t timeout_ms = 0;
    if (!o || !read_timeout(r, o, &timeout_ms) || !dz_e2b_of_path(a, r, &s))
        return;
    if (dz_e2b_state(&s) != DZ_E2B_PAUSED) {
        dz_e2b_refuse(r, DZ_ESTATE, 409, "Sandbox %s is already running", s.code);
        return;
    }
    if (json_object_get(o, "autoPause"))
        s.pauses = json_is_true(json_object_get(o, "autoPause"));
    resume(a, r, &s, timeout_ms, json_is_false(json_object_get(o, "memory")));
}

/* --- timeouts
 * ------------------------------------------------------------------------------------- */

/* Set the end of a running sandbox. A sandbox that doze's own clients have made is paused then, not
 * killed. */
static void set_end(struct dz_api *a, struct dz_http_req *r, int64_t timeout_ms, bool longer)
{
    DZ_AUTO(dz_e2b_release) struct dz_e2b_sandbox s = {0};
    struct dz_why why = {0};
    if (!dz_e2b_of_path(a, r, &s))
        return;
    if (dz_e2b_state(&s) != DZ_E2B_RUNNING) {
        dz_e2b_refuse(r, DZ_ENOENT, 0, "Sandbox \"%s\" is paused", s.code);
        return;
    }
    int64_t end = dz_clock_real_ms() + timeout_ms;
    if (!s.ours) {
        s.ours = s.pauses = true;
        s.template = s.config.image;
    }
    if (!longer || !s.end_at || s.end_at < end) {
        s.timeout_ms = timeout_ms;
        s.end_at = end;
    }
    if (dz_e2b_store(a, dz_api_caller(r, a), &s, &why) < 0)
        dz_e2b_refuse_why(r, &why);
    else
        dz_http_send(r, 204, NULL, NULL);
}

void dz_e2b_timeout(struct dz_http_req *r, void *api)
{
    json_t *o = dz_e2b_body(r);
    int64_t seconds = INT64_MIN;
    if (!o || !dz_e2b_seconds(r, o, "timeout", &seconds))
        return;
    if (seconds == INT64_MIN)
        dz_e2b_refuse(r, DZ_EINVAL, 0, "timeout: must be given");
    else
        set_end(api, r, seconds > 0 ? seconds * 1000 : 0, false);
}

void dz_e2b_refresh(struct dz_http_req *r, void *api)
{
    json_t *o = dz_e2b_body(r);
    int64_t seconds = TIMEOUT_V1_S;
    if (o && dz_e2b_seconds(r, o, "duration", &seconds))
        set_end(api, r, seconds > 0 ? seconds * 1000 : 0, true);
}

/* --- network
 * --------------------------------------------------------------------------------------- */

void dz_e2b_network(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_e2b_release) struct dz_e2b_sandbox s = {0};
    struct dz_api *a = api;
    struct dz_instance row = {0};
    struct dz_why why = {0};
    const char *network = NULL;
    json_t *o = dz_e2b_body(r);
    if (!o || !dz_e2b_of_path(a, r, &s) ||
        !network_of(a, r, o, json_object_get(o, "allow_internet_access"), &network))
        return;
    /* no rules: what is omitted is cleared; without egress there are none to clear */
    const struct dz_control_patch p = {.network_json = network                            ? network
                                                       : dz_control_egress_on(a->control) ? "{}"
                                                                                          : NULL};
    const struct dz_control_target target = {dz_api_caller(r, a), s.row.id};
    if (p.network_json && dz_control_change(a->control, target, &p, &row, &why) < 0) {
        dz_e2b_refuse_why(r, &why);
        return;
    }
    dz_instance_release(&row);
    dz_http_send(r, 204, NULL, NULL);
}

/* --- health and metrics
 * ------------------------------------------------------------------------------ */

void dz_e2b_health(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_e2b_release) struct dz_e2b_sandbox s = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    const char *id = dz_http_header(r, "E2b-Sandbox-Id"), *token;
    char opened[DZ_ID_TEXT];
    const char *ref = id ? dz_e2b_ref(r, id) : NULL;
    if (!id && (token = dz_http_header(r, "X-Access-Token")) && dz_e2b_opens(a, token, opened))
        ref = opened;
    if (ref && dz_e2b_find(a, &a->owner, ref, &s, &why) == 0 && dz_e2b_state(&s) == DZ_E2B_RUNNING)
        dz_http_send(r, 204, NULL, NULL);
    else
        dz_e2b_refuse(r, DZ_EDIED, 0, "the sandbox is not running");
}

/* The metrics of one sandbox, as they are now; the dialect keeps none of the past. */
struct measuring {
    struct dz_api *api;
    uint64_t id;
    struct dz_file_op *op;
    struct dz_cell_machine_stats stats;
    bool has;
};

static void on_stats(void *arg, const void *data, size_t n)
{
    struct measuring *m = arg;
    struct dz_cell_view v = {data, n};
    if (!m->has)
        m->has = dz_cell_stats_next(&v, &m->stats, NULL) == 1;
    dz_file_op_ack(m->op, n);
}

static void put_metric(struct dz_json *j, const struct dz_cell_machine_stats *m)
{
    char text[DZ_RFC3339_TEXT];
    int64_t now = dz_clock_real_ms();
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    dz_json_object(j);
    dz_json_put_strz(j, "timestamp", dz_rfc3339_print(now, text));
    dz_json_put_i64(j, "timestampUnix", now / 1000);
    dz_json_put_i64(j, "cpuCount", cpus > 0 ? cpus : 1);
    dz_json_put_double(j, "cpuUsedPct", (double)m->load[0] / 65536 * 100);
    dz_json_put_u64(j, "memUsed", m->memory_bytes);
    dz_json_put_u64(j, "memTotal", m->memory_limit);
    dz_json_put_u64(j, "memCache", 0);
    dz_json_put_u64(j, "diskUsed", m->disk_bytes);
    dz_json_put_u64(j, "diskTotal", m->disk_limit);
    dz_json_end(j);
}

static void on_measured(void *arg, const struct dz_why *why, uint64_t count)
{
    struct measuring *m = arg;
    struct dz_http_req *r = dz_http_find(m->api->http, m->id);
    struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_json j;
    (void)count;
    dz_json_init(&j, &text, false);
    dz_json_array(&j);
    if (m->has && m->stats.up)
        put_metric(&j, &m->stats);
    dz_json_end(&j);
    if (r) {
        dz_http_on_gone(r, NULL, NULL);
        if (why)
            dz_e2b_refuse_why(r, why);
        else
            dz_http_send(r, 200, DZ_HTTP_JSON, &text);
    }
    dz_buf_release(&text);
    dz_free(m);
}

static const struct dz_file_op_ops measure_ops = {.data = on_stats, .done = on_measured};

static void measure_gone(void *arg)
{
    struct measuring *m = arg;
    dz_file_op_cancel(m->op);
    dz_free(m);
}

void dz_e2b_metrics(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_e2b_release) struct dz_e2b_sandbox s = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_buf none = DZ_BUF_INIT(DZ_LINE_MAX);
    if (!dz_e2b_of_path(a, r, &s))
        return;
    if (s.row.is != DZ_STATE_ACTIVE) { /* it uses nothing; do not open its file for that */
        dz_buf_adds(&none, "[]");
        dz_http_send(r, 200, DZ_HTTP_JSON, &none);
        dz_buf_release(&none);
        return;
    }
    struct measuring *m = dz_zalloc(sizeof *m);
    if (!m) {
        dz_e2b_refuse(r, DZ_ENOMEM, 0, "out of memory");
        return;
    }
    *m = (struct measuring){.api = a, .id = dz_http_id(r)};
    const struct dz_cell_op op = {.type = DZ_CELL_OP_STATS};
    const struct dz_file_op_request request = {&op, false, DZ_ACTIVITY_READ_METRICS, &measure_ops,
                                               m};
    dz_http_on_gone(r, measure_gone, m);
    if (dz_control_op(a->control, (struct dz_control_target){dz_api_caller(r, a), s.row.id},
                      &request, &m->op, &why) < 0) {
        dz_http_on_gone(r, NULL, NULL);
        dz_free(m);
        dz_e2b_refuse_why(r, &why);
    }
}

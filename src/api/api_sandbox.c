/* SPDX-License-Identifier: MIT
 *
 * api_sandbox.c - sandboxes: create, list, get, patch, delete; and the JSON of a sandbox.
 */
#include "api/api_int.h"

#include "base/clock.h"

#include <stddef.h>
#include <string.h>

/* --- the JSON of a sandbox ---------------------------------------------------------------- */

static void put_raw(struct dz_json *j, const char *key, const char *json)
{
    dz_json_key(j, key);
    dz_json_raw(j, json && json[0] ? dz_str(json) : DZ_STR("{}"));
}

static void put_text(struct dz_json *j, const char *key, const char *text)
{
    dz_json_put_strz(j, key, text && text[0] ? text : NULL);
}

static void put_idle(struct dz_json *j, const struct dz_instance *row,
                     const struct dz_sandbox_config *c)
{
    bool connections = row->idle_mode_is == DZ_IDLE_CONNECTIONS;
    dz_json_key(j, "idle");
    dz_json_object(j);
    if (row->suspend_ms >= 0 && row->suspend_ms != DZ_IDLE_OFF)
        dz_json_put_i64(j, "timeout_ms", row->suspend_ms);
    else
        dz_json_put_null(j, "timeout_ms");
    dz_json_put_strz(j, "mode", row->idle_mode[0] ? row->idle_mode : "activity");
    dz_json_put_bool(j, "count_cpu", !c->ignore_cpu && !connections);
    dz_json_put_i64(j, "connection_silence_ms", c->silence_ms ? c->silence_ms : DZ_IDLE_SILENCE_MS);
    dz_json_end(j);
}

static void put_timeout(const struct dz_api *a, struct dz_json *j, const struct dz_instance *row)
{
    dz_json_key(j, "timeout");
    if (row->timeout_ms == 0) {
        dz_json_null(j);
        return;
    }
    dz_json_object(j);
    dz_json_put_i64(j, "after_ms", row->timeout_ms);
    dz_json_put_strz(j, "action", row->timeout_action[0] ? row->timeout_action : "destroy");
    dz_api_put_time(j, "at", dz_control_date(a->control, row->timeout_at));
    if (row->timeout_at == 0)
        dz_json_put_i64(j, "left_ms", row->timeout_left ? row->timeout_left : row->timeout_ms);
    dz_json_end(j);
}

static void put_capabilities(const struct dz_api *a, struct dz_json *j,
                             const struct dz_instance *row)
{
    const bool sleeps = !row->ephemeral;
    const struct {
        const char *name;
        bool has;
    } all[] = {
        {"suspend", sleeps}, {"resume", sleeps},    {"hibernate", sleeps},
        {"fork_disk", true}, {"fork_memory", true}, {"network", dz_control_egress_on(a->control)},
        {"pty", true},       {"preview", true},     {"desktop", false}};
    dz_json_key(j, "capabilities");
    dz_json_object(j);
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++)
        dz_json_put_bool(j, all[i].name, all[i].has);
    dz_json_end(j);
}

static void put_ms(struct dz_json *j, const char *key, int64_t ms)
{
    if (ms)
        dz_json_put_i64(j, key, ms);
    else
        dz_json_put_null(j, key);
}

static void put_expiry(struct dz_json *j, const struct dz_expiry *e)
{
    dz_json_key(j, "expiry");
    if (!dz_expiry_is_set(e)) {
        dz_json_null(j);
        return;
    }
    dz_json_object(j);
    put_ms(j, "ttl_max_age_ms", e->max_age_ms);
    put_ms(j, "ttl_idle_ms", e->idle_ms);
    dz_api_put_time(j, "date", e->date);
    dz_json_end(j);
}

static void put_config(struct dz_json *j, const struct dz_instance *row)
{
    DZ_AUTO(dz_sandbox_config_release) struct dz_sandbox_config c = {0};
    char ref[DZ_IMAGE_REF];
    bool known = dz_sandbox_config_of(row, &c, NULL) == 0;
    put_text(j, "image", known && c.image ? c.image : row->image);
    put_text(j, "image_id", row->image[0] ? dz_image_ref(row->image, ref) : "");
    put_text(j, "size", c.size);
    if (c.memory_bytes)
        dz_json_put_u64(j, "memory_bytes", c.memory_bytes);
    else
        dz_json_put_null(j, "memory_bytes"); /* 0: the limit of the image or the policy */
    if (c.disk_bytes)
        dz_json_put_u64(j, "disk_bytes", c.disk_bytes);
    else
        dz_json_put_null(j, "disk_bytes"); /* 0: the server's limit */
    put_text(j, "policy", c.policy);
    put_text(j, "durability", c.durability);
    dz_json_put_bool(j, "auto_resume", !known || c.auto_resume);
    put_idle(j, row, &c);
    put_expiry(j, &c.expiry);
    put_raw(j, "volumes", c.volumes ? c.volumes : "[]");
    put_raw(j, "services", c.services ? c.services : "[]");
    dz_api_put_ports(j, row, &c);
    put_raw(j, "env", c.env);
    put_raw(j, "labels", c.labels);
    put_raw(j, "metadata", c.metadata);
    if (c.network)
        put_raw(j, "network", c.network);
    else
        dz_json_put_null(j, "network");
}

static void put_progress(struct dz_api *a, struct dz_json *j, const struct dz_instance *row)
{
    struct dz_sandbox_progress p;
    dz_json_key(j, "progress");
    if (dz_control_progress(a->control, row->id, &p))
        dz_api_put_progress(j, p.what, p.done, p.total);
    else
        dz_json_null(j);
}

void dz_api_put_members(struct dz_api *a, struct dz_json *j, const struct dz_instance *row)
{
    dz_json_put_strz(j, "id", row->id);
    put_text(j, "name", row->name);
    dz_json_put_strz(j, "tenant", row->tenant);
    dz_json_put_strz(j, "state", row->state);
    put_text(j, "status", row->status);
    put_text(j, "deployment", dz_control_deployment(a->control, row));
    put_text(j, "kind", row->kind);
    dz_json_put_strz(j, "region", "local");
    put_config(j, row);
    put_text(j, "keep", row->keep);
    dz_json_put_bool(j, "persistent", row->ephemeral == 0);
    put_timeout(a, j, row);
    put_capabilities(a, j, row);
    dz_api_put_time(j, "created_at", row->created);
    /* updated is in whole seconds: rounded down, it may lie before created. */
    dz_api_put_time(j, "updated_at",
                    row->updated * 1000 > row->created ? row->updated * 1000 : row->created);
    dz_api_put_time(j, "last_active_at",
                    dz_control_date(a->control, dz_control_last_active(a->control, row)));
    dz_api_put_time(j, "wake_at", dz_control_date(a->control, row->wake_at));
    dz_api_put_time(j, "hold_until", dz_control_date(a->control, row->hold_until));
    dz_api_put_time(j, "expires_at", dz_control_expires(a->control, row));
    dz_json_put_u64(j, "file_bytes", dz_control_file_bytes(a->control, row));
    dz_json_put_i64(j, "generation", row->generation);
    dz_api_put_replicated(a, j, row);
    put_progress(a, j, row);
    put_text(j, "error", row->error);
}

void dz_api_put_sandbox(struct dz_api *a, struct dz_json *j, const struct dz_instance *row)
{
    dz_json_object(j);
    dz_api_put_members(a, j, row);
    dz_json_end(j);
}

void dz_api_send_sandbox(struct dz_api *a, struct dz_http_req *r, int status,
                         const struct dz_instance *row)
{
    struct dz_api_out o;
    dz_http_about(r, row->id);
    dz_api_begin(&o);
    dz_api_put_members(a, &o.json, row);
    dz_api_send(r, status, &o);
}

/* Answer with the sandbox; flags is the status. */
void dz_api_done_sandbox(void *arg, const struct dz_sandbox_result *result)
{
    struct dz_api_call *c = arg;
    struct dz_api *a = c->api;
    int status = (int)c->flags;
    struct dz_http_req *r = dz_api_over(c);
    if (!r)
        return;
    if (result->code < 0)
        dz_api_refuse_about(r, result->why, result->row ? result->row->id : NULL);
    else if (!result->row || status == 204)
        dz_http_send(r, 204, NULL, NULL);
    else
        dz_api_send_sandbox(a, r, status, result->row);
}

/* --- create ---------------------------------------------------------------------------------- */

struct idle {
    int64_t timeout;
    const char *mode;
};

struct create {
    struct dz_control_spec spec;
    const char *pull; /* "missing", "always", "never"; NULL: missing for the operator */
    uint64_t memory, disk;
    int64_t idle_ms, timeout_ms, silence_ms;
    int auto_resume, start, persistent, timeout, count_cpu;
};

static const struct dz_api_field create_idle[] = {
    {"timeout", DZ_API_DURATION, offsetof(struct create, idle_ms), NULL, 0},
    {"mode", DZ_API_STR, offsetof(struct create, spec.idle_mode), NULL, 0},
    {"count_cpu", DZ_API_BOOL, offsetof(struct create, count_cpu), NULL, 0},
    {"connection_silence", DZ_API_DURATION, offsetof(struct create, silence_ms), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};
static const struct dz_api_field create_timeout[] = {
    {"after", DZ_API_DURATION, offsetof(struct create, timeout_ms), NULL, 0},
    {"action", DZ_API_STR, offsetof(struct create, spec.timeout_action), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};
static const struct dz_api_field create_expiry[] = {
    {"ttl_max_age", DZ_API_DURATION, offsetof(struct create, spec.expiry.max_age_ms), NULL, 0},
    {"ttl_idle", DZ_API_DURATION, offsetof(struct create, spec.expiry.idle_ms), NULL, 0},
    {"date", DZ_API_DATE, offsetof(struct create, spec.expiry.date), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};
const struct dz_api_field dz_api_create_fields[] = {
    {"name", DZ_API_STR, offsetof(struct create, spec.name), NULL, 0},
    {"image", DZ_API_STR, offsetof(struct create, spec.image), NULL, 0},
    {"snapshot", DZ_API_STR, offsetof(struct create, spec.snapshot), NULL, 0},
    {"pull", DZ_API_STR, offsetof(struct create, pull), NULL, 0},
    {"kind", DZ_API_STR, offsetof(struct create, spec.kind), NULL, 0},
    {"memory", DZ_API_SIZE, offsetof(struct create, memory), NULL, 0},
    {"disk", DZ_API_SIZE, offsetof(struct create, disk), NULL, 0},
    {"size", DZ_API_STR, offsetof(struct create, spec.size), NULL, 0},
    {"env", DZ_API_OBJECT, offsetof(struct create, spec.env_json), NULL, 0},
    {"labels", DZ_API_OBJECT, offsetof(struct create, spec.labels_json), NULL, 0},
    {"metadata", DZ_API_OBJECT, offsetof(struct create, spec.metadata_json), NULL, 0},
    {"region", DZ_API_STR, offsetof(struct create, spec.region), NULL, 0},
    {"policy", DZ_API_STR, offsetof(struct create, spec.policy), NULL, 0},
    {"keep", DZ_API_STR, offsetof(struct create, spec.keep), NULL, 0},
    {"durability", DZ_API_STR, offsetof(struct create, spec.durability), NULL, 0},
    {"idle", DZ_API_SUB, 0, create_idle, 0},
    {"auto_resume", DZ_API_BOOL, offsetof(struct create, auto_resume), NULL, 0},
    {"start", DZ_API_BOOL, offsetof(struct create, start), NULL, 0},
    {"persistent", DZ_API_BOOL, offsetof(struct create, persistent), NULL, 0},
    {"replica", DZ_API_STR, offsetof(struct create, spec.replica), NULL, 0},
    {"replica_every", DZ_API_DURATION, offsetof(struct create, spec.replica_every_ms), NULL, 0},
    {"timeout", DZ_API_SUB, 0, create_timeout, offsetof(struct create, timeout)},
    {"ports", DZ_API_LIST, offsetof(struct create, spec.open_ports), NULL, 0},
    {"expiry", DZ_API_SUB, 0, create_expiry, 0},
    {"network", DZ_API_OBJECT, offsetof(struct create, spec.network_json), NULL, 0},
    {"volumes", DZ_API_LIST, offsetof(struct create, spec.volumes_json), NULL, 0},
    {"services", DZ_API_LIST, offsetof(struct create, spec.services_json), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

/* Is the timeout's after_ms (< 0: missing) a duration? False: the request has been refused. */
static bool timeout_is_sound(struct dz_http_req *r, bool given, int64_t after_ms)
{
    const struct dz_http_problem wrong = {
        .code = DZ_EINVAL,
        .message = "timeout.after: must be a duration from 100ms to 365d",
        .field = "timeout.after"};
    bool sound = !given || after_ms > 0;
    if (!sound)
        dz_http_refuse(r, &wrong);
    return sound;
}

static void create_now(struct dz_api *a, struct dz_http_req *r, struct create *c)
{
    struct dz_why why = {0};
    struct dz_api_call *call = dz_api_wait(a, r, 201);
    if (!call)
        return;
    c->spec.id = dz_api_key_id(a, r);
    int rc = dz_control_create(a->control, dz_api_caller(r, a), &c->spec, dz_api_done_sandbox, call,
                               &why);
    if (rc < 0)
        dz_api_refused(call, r, &why);
}

/* A creation that waits for its image to be pulled. */
struct pulling {
    struct dz_api *api;
    uint64_t id;
    struct create *create; /* in the request's arena */
    struct dz_control_build *build;
    struct dz_control_listener *listener;
};

static void pulling_end(void *arg)
{
    struct pulling *p = arg;
    dz_control_unlisten(p->listener);
    dz_free(p);
}

static void on_pull(void *arg)
{
    struct pulling *p = arg;
    struct dz_control_build_state s;
    dz_control_build_get(p->build, &s);
    if (!s.over)
        return;
    struct dz_http_req *r = dz_http_find(p->api->http, p->id);
    struct dz_api *a = p->api;
    struct create *c = p->create;
    dz_http_on_gone(r, NULL, NULL);
    pulling_end(p);
    if (s.error) {
        struct dz_why why = {0};
        (void)dz_why(&why, DZ_EUNAVAIL, "image", "%s", s.error);
        dz_api_refuse(r, &why);
    } else {
        create_now(a, r, c);
    }
}

/* Fetch the image before the sandbox is created. If the client leaves, the pull goes on: its layers
 * are kept. */
static void pull_first(struct dz_api *a, struct dz_http_req *r, struct create *c)
{
    struct dz_why why = {0};
    const struct dz_control_build_spec spec = {.pull = c->spec.image};
    struct pulling *p = dz_alloc(sizeof *p);
    int rc = p ? 0 : dz_fail(&why.err, DZ_ENOMEM, "out of memory");
    if (rc == 0) {
        *p = (struct pulling){.api = a, .id = dz_http_id(r), .create = c};
        rc = dz_control_build_open(a->control, dz_api_caller(r, a), &spec, &p->build, &why);
    }
    if (rc == 0) {
        rc = dz_control_build_listen(p->build, on_pull, p, &p->listener, &why);
        if (rc < 0)
            dz_control_build_drop(p->build);
    }
    if (rc < 0) {
        dz_free(p);
        dz_api_refuse(r, &why);
        return;
    }
    dz_http_on_gone(r, pulling_end, p);
    dz_control_build_go(p->build);
}

/* 1: the image is pulled first. */
static int wants_pull(struct dz_api *a, struct dz_http_req *r, const struct create *c,
                      struct dz_why *why)
{
    static const char *const known[] = {"missing", "always", "never"};
    DZ_AUTO(dz_image_release) struct dz_image image = {0};
    DZ_AUTO(dz_buf_release) struct dz_buf tags = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_why found = {0};
    const char *when = c->pull ? c->pull : dz_api_caller(r, a)->is_operator ? known[0] : known[2];
    size_t i = 0;
    while (i < DZ_ARRAY_LEN(known) && strcmp(when, known[i]) != 0)
        i++;
    if (i == DZ_ARRAY_LEN(known))
        return dz_why(why, DZ_EINVAL, "pull", "pull: must be missing, always or never");
    if (i == 2 || !c->spec.image || !strchr(c->spec.image, '/'))
        return 0;
    return i == 1 || dz_control_image(a->control, c->spec.image, &image, &tags, &found) < 0;
}

void dz_api_create(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct create *c = dz_arena_alloc(dz_http_arena(r), sizeof *c);
    if (!c) {
        (void)dz_fail(&why.err, DZ_ENOMEM, "out of memory");
        dz_api_refuse(r, &why);
        return;
    }
    *c = (struct create){.idle_ms = -1,
                         .timeout_ms = -1,
                         .silence_ms = -1,
                         .auto_resume = 1,
                         .start = 1,
                         .persistent = 1,
                         .count_cpu = 1};
    if (!dz_api_body(r, c) || !timeout_is_sound(r, c->timeout, c->timeout_ms))
        return;
    c->spec.timeout_ms = c->timeout ? c->timeout_ms : DZ_CONTROL_NO_TIMEOUT;
    c->spec.ephemeral = !c->persistent;
    c->spec.memory_bytes = c->memory;
    c->spec.disk_bytes = c->disk;
    c->spec.idle_ms = c->idle_ms < 0 ? DZ_IDLE_INHERIT : c->idle_ms;
    c->spec.no_resume = !c->auto_resume;
    c->spec.no_start = !c->start;
    c->spec.ignore_cpu = !c->count_cpu;
    c->spec.silence_ms = c->silence_ms == 0 ? 1 : c->silence_ms > 0 ? c->silence_ms : 0;
    int rc = wants_pull(a, r, c, &why);
    if (rc < 0)
        dz_api_refuse(r, &why);
    else if (rc > 0)
        pull_first(a, r, c);
    else
        create_now(a, r, c);
}

/* --- list, get ---------------------------------------------------------------------------------
 */

void dz_api_list(struct dz_http_req *r, void *api)
{
    static const char *const names[] = {"state", "kind", "label", "image", NULL};
    DZ_AUTO(dz_instances_release) struct dz_instances rows = DZ_VEC_INIT(DZ_API_LIMIT_MAX);
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_api_page page;
    struct dz_api_out o;
    bool more = false;
    int rc = dz_api_page(r, DZ_API_CURSOR_SANDBOX, names, &page, &why);
    if (rc == 0) {
        const struct dz_control_filter f = {
            .state = dz_http_query(r, "state"),
            .kind = dz_http_query(r, "kind"),
            .label = dz_http_query(r, "label"),
            .image = dz_http_query(r, "image"),
            .after = page.cursor,
            .limit = page.limit,
        };
        rc = dz_control_list(a->control, dz_api_caller(r, a), &f, &rows, &more, &why);
    }
    if (rc < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_list_begin(&o, "sandboxes");
    for (size_t i = 0; i < rows.n; i++)
        dz_api_put_sandbox(a, &o.json, &rows.p[i]);
    dz_api_list_send(r, &o, more ? rows.p[rows.n - 1].id : NULL);
}

void dz_api_get(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    int rc = dz_control_get(a->control, dz_api_target(r, a, "id"), &row, &why);
    if (rc < 0)
        dz_api_refuse(r, &why);
    else
        dz_api_send_sandbox(a, r, 200, &row);
}

/* The plain list of /instances: five columns, all rows. */
void dz_api_instances(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_instances_release) struct dz_instances rows = DZ_VEC_INIT(DZ_API_LIMIT_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_API_ANSWER_MAX);
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_json j;
    bool more = true;
    const char *after = NULL;
    char last[DZ_CONTROL_VALUE_MAX + 1];
    dz_json_init(&j, &text, false);
    dz_json_array(&j);
    while (more) {
        const struct dz_control_filter f = {.after = after, .limit = DZ_API_LIMIT_MAX};
        if (dz_control_list(a->control, dz_api_caller(r, a), &f, &rows, &more, &why) < 0) {
            dz_api_refuse(r, &why);
            return;
        }
        for (size_t i = 0; i < rows.n; i++) {
            dz_json_object(&j);
            dz_json_put_strz(&j, "id", rows.p[i].id);
            dz_json_put_strz(&j, "tenant", rows.p[i].tenant);
            dz_json_put_strz(&j, "state", rows.p[i].state);
            dz_json_put_strz(&j, "vfs_path", rows.p[i].vfs_path);
            dz_json_put_i64(&j, "updated", rows.p[i].updated);
            dz_json_end(&j);
            (void)snprintf(last, sizeof last, "%s", rows.p[i].id);
        }
        after = last;
        dz_instances_release(&rows);
    }
    dz_json_end(&j);
    if (dz_json_finish(&j) < 0)
        dz_http_fail(r, &(struct dz_err){.code = DZ_ELIMIT, .msg = "the list is too large"});
    else
        dz_http_send(r, 200, DZ_HTTP_JSON, &text);
}

/* --- patch, delete -------------------------------------------------------------------------------
 */

struct patch {
    struct dz_control_patch p;
    int64_t idle_ms, timeout_ms, silence_ms;
    int auto_resume, timeout, count_cpu, expiry;
};
static const struct dz_api_field patch_timeout[] = {
    {"after", DZ_API_DURATION, offsetof(struct patch, timeout_ms), NULL, 0},
    {"action", DZ_API_STR, offsetof(struct patch, p.timeout_action), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};
static const struct dz_api_field patch_idle[] = {
    {"timeout", DZ_API_DURATION, offsetof(struct patch, idle_ms), NULL, 0},
    {"mode", DZ_API_STR, offsetof(struct patch, p.idle_mode), NULL, 0},
    {"count_cpu", DZ_API_BOOL, offsetof(struct patch, count_cpu), NULL, 0},
    {"connection_silence", DZ_API_DURATION, offsetof(struct patch, silence_ms), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};
static const struct dz_api_field patch_expiry[] = {
    {"ttl_max_age", DZ_API_DURATION, offsetof(struct patch, p.expiry.max_age_ms), NULL, 0},
    {"ttl_idle", DZ_API_DURATION, offsetof(struct patch, p.expiry.idle_ms), NULL, 0},
    {"date", DZ_API_DATE, offsetof(struct patch, p.expiry.date), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};
const struct dz_api_field dz_api_patch_fields[] = {
    {"name", DZ_API_UNSET, offsetof(struct patch, p.name), NULL, 0},
    {"labels", DZ_API_OBJECT, offsetof(struct patch, p.labels_json), NULL, 0},
    {"metadata", DZ_API_OBJECT, offsetof(struct patch, p.metadata_json), NULL, 0},
    {"idle", DZ_API_SUB, 0, patch_idle, 0},
    {"auto_resume", DZ_API_BOOL, offsetof(struct patch, auto_resume), NULL, 0},
    {"replica", DZ_API_STR, offsetof(struct patch, p.replica), NULL, 0},
    {"replica_every", DZ_API_DURATION, offsetof(struct patch, p.replica_every_ms), NULL, 0},
    {"timeout", DZ_API_SUB, 0, patch_timeout, offsetof(struct patch, timeout)},
    {"expiry", DZ_API_SUB, 0, patch_expiry, offsetof(struct patch, expiry)},
    {"network", DZ_API_OBJECT, offsetof(struct patch, p.network_json), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

void dz_api_patch(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct patch b = {.p.replica_every_ms = -1,
                      .idle_ms = -1,
                      .timeout_ms = -1,
                      .silence_ms = -1,
                      .auto_resume = -1,
                      .count_cpu = -1};
    if (!dz_api_body(r, &b) || !timeout_is_sound(r, b.timeout, b.timeout_ms))
        return;
    b.p.set_every = b.p.replica_every_ms >= 0;
    b.p.set_timeout = b.timeout;
    b.p.timeout_ms = b.timeout ? b.timeout_ms : DZ_CONTROL_NO_TIMEOUT;
    b.p.set_idle = b.idle_ms >= 0;
    b.p.idle_ms = b.idle_ms;
    b.p.set_resume = b.auto_resume >= 0;
    b.p.no_resume = b.auto_resume == 0;
    b.p.set_silence = b.silence_ms >= 0;
    b.p.silence_ms = b.silence_ms == 0 ? 1 : b.silence_ms; /* 0 is refused as too short */
    b.p.set_expiry = b.expiry;
    b.p.set_cpu = b.count_cpu >= 0;
    b.p.ignore_cpu = b.count_cpu == 0;
    int rc = dz_control_change(a->control, dz_api_target(r, a, "id"), &b.p, &row, &why);
    if (rc < 0)
        dz_api_refuse(r, &why);
    else
        dz_api_send_sandbox(a, r, 200, &row);
}

void dz_api_delete(struct dz_http_req *r, void *api)
{
    static const char *const names[] = {"force", NULL};
    struct dz_api *a = api;
    struct dz_why why = {0};
    const char *force = dz_http_query(r, "force");
    bool forced = force && strcmp(force, "true") == 0;
    int rc = dz_api_only(r, names, &why);
    if (rc == 0 && force && !forced && strcmp(force, "false") != 0) {
        rc = dz_fail(&why.err, DZ_EINVAL, "force: must be true or false");
        (void)snprintf(why.field, sizeof why.field, "force");
    }
    if (rc < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_order(
        a, r, &(struct dz_control_order){.what = forced ? DZ_REQUEST_DESTROY : DZ_REQUEST_DELETE},
        204);
}

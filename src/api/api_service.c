/* SPDX-License-Identifier: MIT
 *
 * api_service.c - services: commands that start with a sandbox.
 */
#include "api/api_int.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

/* The control plane reads the body itself, as it reads the list of a creation. This table refuses
 * what is no field, and types that are wrong. */
struct body {
    const char *name, *shell, *cwd, *user, *env, *restart, *ready, *stop_signal;
    const char *const *cmd, *const *needs;
    int64_t grace_ms;
    int enabled;
};
const struct dz_api_field dz_api_service_fields[] = {
    {"name", DZ_API_STR, offsetof(struct body, name), NULL, 0},
    {"cmd", DZ_API_WORDS, offsetof(struct body, cmd), NULL, 0},
    {"shell", DZ_API_STR, offsetof(struct body, shell), NULL, 0},
    {"cwd", DZ_API_STR, offsetof(struct body, cwd), NULL, 0},
    {"user", DZ_API_STR, offsetof(struct body, user), NULL, 0},
    {"env", DZ_API_OBJECT, offsetof(struct body, env), NULL, 0},
    {"needs", DZ_API_WORDS, offsetof(struct body, needs), NULL, 0},
    {"restart", DZ_API_STR, offsetof(struct body, restart), NULL, 0},
    {"ready", DZ_API_OBJECT, offsetof(struct body, ready), NULL, 0},
    {"stop_signal", DZ_API_STR, offsetof(struct body, stop_signal), NULL, 0},
    {"grace", DZ_API_DURATION, offsetof(struct body, grace_ms), NULL, 0},
    {"enabled", DZ_API_BOOL, offsetof(struct body, enabled), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

static int to_buffer(const char *p, size_t n, void *b)
{
    dz_buf_add(b, p, n);
    return 0;
}

static void put_spec(struct dz_json *j, const json_t *spec)
{
    static const char *const keys[] = {"name",  "cmd",         "shell",    "cwd",
                                       "user",  "env",         "needs",    "restart",
                                       "ready", "stop_signal", "grace_ms", "enabled"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(keys); i++) {
        DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(2 * DZ_CONTROL_SERVICE_BYTES);
        const json_t *value = json_object_get(spec, keys[i]);
        dz_json_key(j, keys[i]);
        if (value && json_dump_callback(value, to_buffer, &b, JSON_COMPACT | JSON_ENCODE_ANY) == 0)
            dz_json_raw(j, dz_str_n(b.p, b.len));
        else
            dz_json_null(j);
    }
}

static void put_service(struct dz_json *j, const char *sandbox_id,
                        const struct dz_control_service *s)
{
    put_spec(j, s->spec);
    dz_json_put_strz(j, "sandbox_id", sandbox_id);
    dz_json_put_strz(j, "status", s->status);
    dz_json_put_strz(j, "exec_id", s->exec_id[0] ? s->exec_id : NULL);
    if (s->exited && s->exit_code >= 0)
        dz_json_put_i64(j, "exit_code", s->exit_code);
    else
        dz_json_put_null(j, "exit_code");
    dz_json_put_strz(j, "signal", s->exited && s->signal ? sigabbrev_np(s->signal) : NULL);
    dz_json_put_u64(j, "restarts", s->restarts);
    dz_api_put_time(j, "started_at", s->started_at);
    dz_api_put_time(j, "ready_at", s->ready_at);
    dz_api_put_time(j, "ended_at", s->ended_at);
    dz_api_put_time(j, "next_at", s->next_at);
    dz_json_put_strz(j, "error", s->error[0] ? s->error : NULL);
}

/* Answer with the service as it is now, or with the error. */
static void send_service(struct dz_api *a, struct dz_http_req *r, int status, const char *name)
{
    DZ_AUTO(dz_control_services_release) struct dz_control_services all = {0};
    const struct dz_control_service *s = NULL;
    struct dz_why why = {0};
    struct dz_api_out o;
    int rc = dz_control_services(a->control, dz_api_target(r, a, "id"), &all, &why);
    if (rc == 0)
        rc = dz_control_service_find(&all, name, &s, &why);
    if (rc < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_begin(&o);
    put_service(&o.json, all.sandbox_id, s);
    dz_api_send(r, status, &o);
}

void dz_api_services(struct dz_http_req *r, void *api)
{
    static const char *const none[] = {NULL};
    DZ_AUTO(dz_control_services_release) struct dz_control_services all = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_api_out o;
    int rc = dz_api_only(r, none, &why);
    if (rc == 0)
        rc = dz_control_services(a->control, dz_api_target(r, a, "id"), &all, &why);
    if (rc < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_begin(&o);
    dz_json_key(&o.json, "services");
    dz_json_array(&o.json);
    for (size_t i = 0; i < all.count; i++) {
        dz_json_object(&o.json);
        put_service(&o.json, all.sandbox_id, &all.of[i]);
        dz_json_end(&o.json);
    }
    dz_json_end(&o.json);
    dz_api_send(r, 200, &o);
}

/* The body as it came; NULL: the request has been refused. It ends with a NUL in the arena. */
static const char *read_body(struct dz_http_req *r, struct body *b)
{
    *b = (struct body){.name = NULL};
    if (!dz_api_body(r, b))
        return NULL;
    struct dz_str text = dz_arena_str(dz_http_arena(r), dz_http_body(r));
    struct dz_why why = {0};
    if (text.p)
        return text.p;
    (void)dz_fail(&why.err, DZ_ENOMEM, "out of memory");
    dz_api_refuse(r, &why);
    return NULL;
}

void dz_api_service_add(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct body b;
    const char *text = read_body(r, &b);
    if (!text)
        return;
    if (dz_control_service_add(a->control, dz_api_target(r, a, "id"), text, &why) < 0)
        dz_api_refuse(r, &why);
    else
        send_service(a, r, 201, b.name);
}

void dz_api_service_get(struct dz_http_req *r, void *api)
{
    send_service(api, r, 200, dz_http_param(r, "service"));
}

void dz_api_service_patch(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct body b;
    const char *text = read_body(r, &b);
    if (!text)
        return;
    if (dz_control_service_change(a->control, dz_api_target(r, a, "id"),
                                  dz_http_param(r, "service"), text, &why) < 0)
        dz_api_refuse(r, &why);
    else
        send_service(a, r, 200, dz_http_param(r, "service"));
}

void dz_api_service_delete(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    int rc = dz_control_service_remove(a->control, dz_api_target(r, a, "id"),
                                       dz_http_param(r, "service"), &why);
    dz_api_done(r, rc, &why);
}

static void on_ordered(void *arg, const struct dz_sandbox_result *result)
{
    struct dz_api_call *c = arg;
    struct dz_api *a = c->api;
    struct dz_http_req *r = dz_api_over(c);
    if (!r)
        return;
    if (result->code < 0)
        dz_api_refuse(r, result->why);
    else
        send_service(a, r, 200, dz_http_param(r, "service"));
}

static void order(struct dz_http_req *r, struct dz_api *a, enum dz_control_service_act act)
{
    struct dz_why why = {0};
    struct dz_api_call *c = dz_api_body(r, NULL) ? dz_api_wait(a, r, 200) : NULL;
    const struct dz_control_service_order o = {
        .name = dz_http_param(r, "service"), .act = act, .done = on_ordered, .arg = c};
    if (c && dz_control_service_act(a->control, dz_api_target(r, a, "id"), &o, NULL, &why) < 0)
        dz_api_refused(c, r, &why);
}

void dz_api_service_start(struct dz_http_req *r, void *api)
{
    order(r, api, DZ_CONTROL_SERVICE_START);
}

void dz_api_service_stop(struct dz_http_req *r, void *api)
{
    order(r, api, DZ_CONTROL_SERVICE_STOP);
}

void dz_api_service_restart(struct dz_http_req *r, void *api)
{
    order(r, api, DZ_CONTROL_SERVICE_RESTART);
}

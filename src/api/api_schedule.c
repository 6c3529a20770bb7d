/* SPDX-License-Identifier: MIT
 *
 * api_schedule.c - schedules: commands that run in a sandbox at certain times.
 */
#include "api/api_int.h"

#include <stddef.h>
#include <string.h>

struct body {
    struct dz_control_schedule spec;
    const char *const *cmd;
    const char *shell, *cwd, *user, *env;
    int64_t timeout_ms;
};
const struct dz_api_field dz_api_schedule_fields[] = {
    {"name", DZ_API_STR, offsetof(struct body, spec.name), NULL, 0},
    {"cron", DZ_API_STR, offsetof(struct body, spec.cron), NULL, 0},
    {"zone", DZ_API_STR, offsetof(struct body, spec.zone), NULL, 0},
    {"every", DZ_API_DURATION, offsetof(struct body, spec.every_ms), NULL, 0},
    {"at", DZ_API_DATE, offsetof(struct body, spec.at), NULL, 0},
    {"missed", DZ_API_STR, offsetof(struct body, spec.missed), NULL, 0},
    {"overlap", DZ_API_STR, offsetof(struct body, spec.overlap), NULL, 0},
    {"enabled", DZ_API_BOOL, offsetof(struct body, spec.enabled), NULL, 0},
    {"cmd", DZ_API_WORDS, offsetof(struct body, cmd), NULL, 0},
    {"shell", DZ_API_STR, offsetof(struct body, shell), NULL, 0},
    {"cwd", DZ_API_STR, offsetof(struct body, cwd), NULL, 0},
    {"user", DZ_API_STR, offsetof(struct body, user), NULL, 0},
    {"env", DZ_API_OBJECT, offsetof(struct body, env), NULL, 0},
    {"timeout", DZ_API_DURATION, offsetof(struct body, timeout_ms), NULL, 0},
    {"service", DZ_API_STR, offsetof(struct body, spec.service), NULL, 0},
    {"http", DZ_API_LATER, 0, NULL, 0},
    {"workbook", DZ_API_LATER, 0, NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

static bool read_body(struct dz_http_req *r, struct body *b)
{
    struct dz_why why = {0};
    *b = (struct body){.spec = {.enabled = -1, .every_ms = -1}};
    if (!dz_api_body(r, b))
        return false;
    if (b->spec.every_ms == 0) {
        (void)dz_why(&why, DZ_EINVAL, "every", "every: must not be 0");
        dz_api_refuse(r, &why);
        return false;
    }
    b->spec.every_ms = b->spec.every_ms < 0 ? 0 : b->spec.every_ms;
    b->spec.command = (struct dz_exec_request){.argv = b->cmd,
                                               .shell = b->shell,
                                               .cwd = b->cwd,
                                               .user = b->user,
                                               .env_json = b->env,
                                               .timeout_ms = b->timeout_ms};
    return true;
}

static void put_text(struct dz_json *j, const char *key, const char *text)
{
    dz_json_put_strz(j, key, text && text[0] ? text : NULL);
}

static void put_schedule(struct dz_json *j, const struct dz_schedule_row *row)
{
    bool once = !row->cron[0] && !row->every_ms;
    dz_json_put_strz(j, "id", row->id);
    dz_json_put_strz(j, "name", row->name);
    dz_json_put_strz(j, "sandbox_id", row->sandbox_id);
    dz_json_put_strz(j, "tenant", row->tenant);
    dz_json_put_strz(j, "status", row->status);
    put_text(j, "cron", row->cron);
    put_text(j, "zone", row->cron[0] && !row->zone[0] ? "UTC" : row->zone);
    if (row->every_ms)
        dz_json_put_i64(j, "every_ms", row->every_ms);
    else
        dz_json_put_null(j, "every_ms");
    dz_api_put_time(j, "at", once ? row->anchor : 0);
    dz_json_put_strz(j, "missed", row->missed);
    dz_json_put_strz(j, "overlap", row->overlap);
    dz_json_key(j, "command");
    dz_json_raw(j, dz_str(row->command));
    dz_api_put_time(j, "next_at", row->planned);
    dz_json_put_i64(j, "queued", row->queued);
    put_text(j, "last_run", row->last_run);
    dz_api_put_time(j, "created_at", row->created);
    dz_api_put_time(j, "updated_at", row->updated);
}

static void put_run(struct dz_json *j, const struct dz_schedule_run_row *row)
{
    dz_json_put_strz(j, "id", row->id);
    dz_json_put_strz(j, "schedule_id", row->schedule_id);
    dz_json_put_strz(j, "sandbox_id", row->sandbox_id);
    dz_json_put_strz(j, "status", row->status);
    dz_json_put_strz(j, "cause", row->cause);
    dz_api_put_time(j, "planned_at", row->planned);
    dz_api_put_time(j, "started_at", row->started);
    dz_api_put_time(j, "ended_at", row->ended);
    put_text(j, "exec_id", row->exec_id);
    if (row->exit_code >= 0)
        dz_json_put_i64(j, "exit_code", row->exit_code);
    else
        dz_json_put_null(j, "exit_code");
    put_text(j, "error", row->error);
}

static void send_schedule(struct dz_http_req *r, int status, int rc,
                          const struct dz_schedule_row *row, const struct dz_why *why)
{
    struct dz_api_out o;
    if (rc < 0) {
        dz_api_refuse(r, why);
        return;
    }
    dz_api_begin(&o);
    put_schedule(&o.json, row);
    dz_api_send(r, status, &o);
}

void dz_api_schedule_add(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_schedule_row_release) struct dz_schedule_row row = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct body b;
    if (!read_body(r, &b))
        return;
    int rc = dz_control_schedule_add(a->control, dz_api_target(r, a, "id"), &b.spec, &row, &why);
    send_schedule(r, 201, rc, &row, &why);
}

void dz_api_schedule_get(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_schedule_row_release) struct dz_schedule_row row = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    int rc = dz_control_schedule_get(a->control, dz_api_target(r, a, "id"),
                                     dz_http_param(r, "schedule"), &row, &why);
    send_schedule(r, 200, rc, &row, &why);
}

void dz_api_schedule_patch(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_schedule_row_release) struct dz_schedule_row row = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct body b;
    if (!read_body(r, &b))
        return;
    int rc = dz_control_schedule_change(a->control, dz_api_target(r, a, "id"),
                                        dz_http_param(r, "schedule"), &b.spec, &row, &why);
    send_schedule(r, 200, rc, &row, &why);
}

void dz_api_schedule_delete(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    int rc = dz_control_schedule_remove(a->control, dz_api_target(r, a, "id"),
                                        dz_http_param(r, "schedule"), &why);
    dz_api_done(r, rc, &why);
}

void dz_api_schedule_run(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_schedule_run_row_release) struct dz_schedule_run_row run = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_api_out o;
    if (!dz_api_body(r, NULL))
        return;
    if (dz_control_schedule_run(a->control, dz_api_target(r, a, "id"), dz_http_param(r, "schedule"),
                                &run, &why) < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_begin(&o);
    put_run(&o.json, &run);
    dz_api_send(r, 202, &o);
}

void dz_api_schedule_runs(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_schedule_run_rows_release)
    struct dz_schedule_run_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    static const char *const none[] = {NULL};
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_api_out o;
    int rc = dz_api_only(r, none, &why);
    if (rc == 0)
        rc = dz_control_schedule_runs(a->control, dz_api_target(r, a, "id"),
                                      dz_http_param(r, "schedule"), &rows, &why);
    if (rc < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_begin(&o);
    dz_json_key(&o.json, "runs");
    dz_json_array(&o.json);
    for (size_t i = 0; i < rows.n; i++) {
        dz_json_object(&o.json);
        put_run(&o.json, &rows.p[i]);
        dz_json_end(&o.json);
    }
    dz_json_end(&o.json);
    dz_api_send(r, 200, &o);
}

static void list(struct dz_http_req *r, struct dz_api *a, struct dz_control_target target)
{
    DZ_AUTO(dz_schedule_rows_release)
    struct dz_schedule_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    struct dz_why why = {0};
    struct dz_api_page page;
    struct dz_api_out o;
    int rc = dz_api_page(r, DZ_API_CURSOR_SCHEDULE, NULL, &page, &why);
    if (rc == 0)
        rc = dz_control_schedules(a->control, target, page.cursor, page.limit, &rows, &why);
    if (rc < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_list_begin(&o, "schedules");
    for (size_t i = 0; i < rows.n; i++) {
        dz_json_object(&o.json);
        put_schedule(&o.json, &rows.p[i]);
        dz_json_end(&o.json);
    }
    dz_api_list_send(r, &o, rows.n == page.limit ? rows.p[rows.n - 1].id : NULL);
}

void dz_api_sandbox_schedules(struct dz_http_req *r, void *api)
{
    list(r, api, dz_api_target(r, api, "id"));
}

void dz_api_schedules(struct dz_http_req *r, void *api)
{
    list(r, api, (struct dz_control_target){dz_api_caller(r, api), NULL});
}

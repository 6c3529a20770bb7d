/* SPDX-License-Identifier: MIT
 *
 * api_branch.c - snapshots, forks, references.
 */
#include "api/api_int.h"

#include "base/log.h"
#include "base/num.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum {
    FORK_MAX = 100, /* branches of one request */
};

struct body {
    const char *name, *label;
    int64_t count, expires_ms;
};
const struct dz_api_field dz_api_handle_fields[] = {
    {"name", DZ_API_STR, offsetof(struct body, name), NULL, 0},
    {"expires_in", DZ_API_DURATION, offsetof(struct body, expires_ms), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};
const struct dz_api_field dz_api_name_fields[] = {
    {"name", DZ_API_STR, offsetof(struct body, name), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};
const struct dz_api_field dz_api_fork_fields[] = {
    {"label", DZ_API_STR, offsetof(struct body, label), NULL, 0},
    {"count", DZ_API_INT, offsetof(struct body, count), NULL, 0},
    {"expires_in", DZ_API_DURATION, offsetof(struct body, expires_ms), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

/* --- snapshots ------------------------------------------------------------------------------ */

static void put_snapshot(struct dz_json *j, const struct dz_snapshot_row *row)
{
    dz_json_put_strz(j, "id", row->id);
    dz_json_put_strz(j, "name", row->name && row->name[0] ? row->name : NULL);
    dz_json_put_strz(j, "kind", row->kind);
    dz_json_put_strz(j, "sandbox_id", row->sandbox_id);
    dz_json_put_strz(j, "tenant", row->tenant);
    dz_json_put_i64(j, "bytes", row->size);
    dz_api_put_time(j, "created_at", row->created);
    dz_api_put_time(j, "expires_at", row->expires);
}

static void on_snapshot(void *arg, const struct dz_snapshot_row *row, const struct dz_why *why)
{
    struct dz_http_req *r = dz_api_over(arg);
    struct dz_api_out o;
    if (!r)
        return;
    if (why) {
        dz_api_refuse(r, why);
        return;
    }
    dz_api_begin(&o);
    put_snapshot(&o.json, row);
    dz_api_send(r, 201, &o);
}

void dz_api_snapshot(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct body b = {0};
    struct dz_api_call *c = dz_api_body(r, &b) ? dz_api_wait(a, r, 0) : NULL;
    const struct dz_control_handle as = {b.name, b.expires_ms};
    if (c &&
        dz_control_snapshot(a->control, dz_api_target(r, a, "id"), &as, on_snapshot, c, &why) < 0)
        dz_api_refused(c, r, &why);
}

void dz_api_snapshots(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_snapshot_rows_release)
    struct dz_snapshot_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_api_page page;
    struct dz_api_out o;
    int rc = dz_api_page(r, DZ_API_CURSOR_SNAPSHOT, NULL, &page, &why);
    if (rc == 0)
        rc = dz_control_snapshots(a->control, dz_api_caller(r, a), page.cursor, page.limit, &rows,
                                  &why);
    if (rc < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_list_begin(&o, "snapshots");
    for (size_t i = 0; i < rows.n; i++) {
        dz_json_object(&o.json);
        put_snapshot(&o.json, &rows.p[i]);
        dz_json_end(&o.json);
    }
    dz_api_list_send(r, &o, rows.n == page.limit ? rows.p[rows.n - 1].id : NULL);
}

void dz_api_snapshot_resume(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct body b = {0};
    struct dz_api_call *c = dz_api_body(r, &b) ? dz_api_wait(a, r, 201) : NULL;
    if (c && dz_control_resume(a->control, dz_api_target(r, a, "snapshot"), b.name,
                               dz_api_done_sandbox, c, &why) < 0)
        dz_api_refused(c, r, &why);
}

void dz_api_snapshot_delete(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    dz_api_done(r, dz_control_snapshot_delete(a->control, dz_api_target(r, a, "snapshot"), &why),
                &why);
}

/* --- forks ------------------------------------------------------------------------------------ */

static void put_fork(struct dz_json *j, const struct dz_fork_row *row)
{
    dz_json_put_strz(j, "id", row->id);
    dz_json_put_strz(j, "label", row->label && row->label[0] ? row->label : NULL);
    dz_json_put_strz(j, "sandbox_id", row->sandbox_id);
    dz_json_put_strz(j, "snapshot_id", row->snapshot_id);
    dz_json_put_strz(j, "tenant", row->tenant);
    dz_json_put_i64(j, "attached", row->attached);
    dz_api_put_time(j, "created_at", row->created);
    dz_api_put_time(j, "expires_at", row->expires);
}

/* A fork request: creates the fork, then its branches one after another. A fork for one branch only
 * has no handle. */
struct forking {
    struct dz_api *api;
    uint64_t id; /* id of the request */
    struct dz_api_out out;
    int64_t left;
    bool drop; /* the fork exists only for these branches: delete it after the last one */
    struct dz_control_own_caller own; /* a copy, because the work outlives the request */
    char fork[DZ_ID_TEXT];
};

static void forking_end(struct forking *f, const struct dz_why *why)
{
    struct dz_http_req *r = dz_http_find(f->api->http, f->id);
    const struct dz_control_target fork = {&f->own.who, f->fork};
    struct dz_why left = {0};
    if (r && why) {
        dz_api_refuse(r, why);
    } else if (r) {
        dz_json_end(&f->out.json);
        dz_api_send(r, 201, &f->out);
    }
    /* Runs after the answer was sent, but before any other request. */
    if (f->drop && f->fork[0] && dz_control_fork_delete(f->api->control, fork, &left) < 0)
        dz_log(DZ_LOG_WARN, "fork_left", dz_log_strz("id", f->fork), dz_log_err(&left.err));
    dz_buf_release(&f->out.text);
    dz_free(f);
}

static void attach_next(struct forking *f);

static void on_branch(void *arg, const struct dz_sandbox_result *result)
{
    struct forking *f = arg;
    if (result->code < 0) {
        forking_end(f, result->why);
        return;
    }
    dz_api_put_sandbox(f->api, &f->out.json, result->row);
    attach_next(f);
}

static void attach_next(struct forking *f)
{
    const struct dz_control_target fork = {&f->own.who, f->fork};
    struct dz_why why = {0};
    if (f->left-- <= 0)
        forking_end(f, NULL);
    else if (dz_control_caller_check(f->api->control, fork.who, &why) < 0 ||
             dz_control_fork_attach(f->api->control, fork, NULL, on_branch, f, &why) < 0)
        forking_end(f, &why);
}

static void put_forked(struct forking *f, const struct dz_fork_row *row)
{
    put_fork(&f->out.json, row);
    dz_json_put_bool(&f->out.json, "kept", !f->drop);
    dz_json_key(&f->out.json, "sandboxes");
    dz_json_array(&f->out.json);
}

static void on_fork(void *arg, const struct dz_fork_row *row, const struct dz_why *why)
{
    struct forking *f = arg;
    if (why) {
        forking_end(f, why);
        return;
    }
    (void)snprintf(f->fork, sizeof f->fork, "%s", row->id);
    put_forked(f, row);
    attach_next(f);
}

static void on_fork_one(void *arg, const struct dz_fork_row *row,
                        const struct dz_sandbox_result *result)
{
    struct forking *f = arg;
    if (result->code == 0) {
        put_forked(f, row);
        dz_api_put_sandbox(f->api, &f->out.json, result->row);
    }
    forking_end(f, result->code < 0 ? result->why : NULL);
}

void dz_api_fork(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct body b = {0};
    const struct dz_http_problem many = {
        .code = DZ_EINVAL, .message = "count: must be at most 100", .field = "count"};
    if (!dz_api_body(r, &b))
        return;
    struct forking *f = b.count <= FORK_MAX ? dz_zalloc(sizeof *f) : NULL;
    if (!f) {
        dz_http_refuse(r, &many);
        return;
    }
    f->api = a;
    f->id = dz_http_id(r);
    f->left = b.count;
    f->drop = b.count > 0 && !b.label && !b.expires_ms;
    dz_control_caller_keep(&f->own, dz_api_caller(r, a));
    dz_api_begin(&f->out);
    const struct dz_control_handle as = {b.label, b.expires_ms};
    const struct dz_control_target target = dz_api_target(r, a, "id");
    int rc = f->drop && f->left == 1 ? dz_control_fork_one(a->control, target, on_fork_one, f, &why)
                                     : dz_control_fork(a->control, target, &as, on_fork, f, &why);
    if (rc < 0)
        forking_end(f, &why);
}

void dz_api_forks(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_fork_rows_release) struct dz_fork_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_api_page page;
    struct dz_api_out o;
    int rc = dz_api_page(r, DZ_API_CURSOR_FORK, NULL, &page, &why);
    if (rc == 0)
        rc =
            dz_control_forks(a->control, dz_api_caller(r, a), page.cursor, page.limit, &rows, &why);
    if (rc < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_list_begin(&o, "forks");
    for (size_t i = 0; i < rows.n; i++) {
        dz_json_object(&o.json);
        put_fork(&o.json, &rows.p[i]);
        dz_json_end(&o.json);
    }
    dz_api_list_send(r, &o, rows.n == page.limit ? rows.p[rows.n - 1].id : NULL);
}

void dz_api_fork_attach(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct body b = {0};
    struct dz_api_call *c = dz_api_body(r, &b) ? dz_api_wait(a, r, 201) : NULL;
    if (c && dz_control_fork_attach(a->control, dz_api_target(r, a, "fork"), b.name,
                                    dz_api_done_sandbox, c, &why) < 0)
        dz_api_refused(c, r, &why);
}

void dz_api_fork_delete(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    dz_api_done(r, dz_control_fork_delete(a->control, dz_api_target(r, a, "fork"), &why), &why);
}

/* --- references ---------------------------------------------------------------------------------
 */

static void put_ref(struct dz_json *j, const struct dz_ref_row *row)
{
    dz_json_put_strz(j, "id", row->id);
    dz_json_put_strz(j, "name", row->name && row->name[0] ? row->name : NULL);
    dz_json_put_strz(j, "sandbox_id", row->sandbox_id);
    dz_json_put_strz(j, "tenant", row->tenant);
    dz_json_put_bool(j, "alive", row->closed == 0);
    dz_json_put_i64(j, "attached", row->attached);
    dz_api_put_time(j, "created_at", row->created);
    dz_api_put_time(j, "expires_at", row->expires);
}

void dz_api_refs(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_ref_row_release) struct dz_ref_row row = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_api_out o;
    struct body b = {0};
    if (!dz_api_body(r, &b))
        return;
    const struct dz_control_handle as = {b.name, b.expires_ms};
    if (dz_control_ref_add(a->control, dz_api_target(r, a, "id"), &as, &row, &why) < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_begin(&o);
    put_ref(&o.json, &row);
    dz_api_send(r, 201, &o);
}

void dz_api_ref_list(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_ref_rows_release) struct dz_ref_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_api_page page;
    struct dz_api_out o;
    int rc = dz_api_page(r, DZ_API_CURSOR_REF, NULL, &page, &why);
    if (rc == 0)
        rc = dz_control_refs(a->control, dz_api_caller(r, a), page.cursor, page.limit, &rows, &why);
    if (rc < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_list_begin(&o, "refs");
    for (size_t i = 0; i < rows.n; i++) {
        dz_json_object(&o.json);
        put_ref(&o.json, &rows.p[i]);
        dz_json_end(&o.json);
    }
    dz_api_list_send(r, &o, rows.n == page.limit ? rows.p[rows.n - 1].id : NULL);
}

void dz_api_ref_attach(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_api_out o;
    char nothing[1];
    int64_t number = 0;
    if (!dz_api_body(r, nothing))
        return;
    if (dz_control_ref_attach(a->control, dz_api_target(r, a, "ref"), &number, &row, &why) < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_begin(&o);
    dz_json_put_i64(&o.json, "attachment", number);
    dz_api_put_members(a, &o.json, &row);
    dz_api_send(r, 200, &o);
}

void dz_api_ref_detach(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    int64_t n = 0;
    int rc = dz_num_i64(dz_str(dz_http_param(r, "n")), 1, INT64_MAX, &n, &why.err);
    if (rc == 0)
        rc = dz_control_ref_detach(a->control, dz_api_target(r, a, "ref"), n, &why);
    dz_api_done(r, rc, &why);
}

/* With ?sandbox=keep, delete the reference only. */
void dz_api_ref_delete(struct dz_http_req *r, void *api)
{
    static const char *const names[] = {"sandbox", NULL};
    struct dz_api *a = api;
    struct dz_why why = {0};
    const char *sandbox = dz_http_query(r, "sandbox");
    bool keep = sandbox && strcmp(sandbox, "keep") == 0;
    int rc = dz_api_only(r, names, &why);
    if (rc == 0 && sandbox && !keep && strcmp(sandbox, "destroy") != 0) {
        rc = dz_fail(&why.err, DZ_EINVAL, "sandbox: must be keep or destroy");
        (void)snprintf(why.field, sizeof why.field, "sandbox");
    }
    if (rc == 0 && keep)
        rc = dz_control_ref_forget(a->control, dz_api_target(r, a, "ref"), &why);
    if (rc < 0 || keep) {
        dz_api_done(r, rc, &why);
        return;
    }
    struct dz_api_call *c = dz_api_wait(a, r, 204);
    if (c && dz_control_ref_delete(a->control, dz_api_target(r, a, "ref"), dz_api_done_sandbox, c,
                                   &why) < 0)
        dz_api_refused(c, r, &why);
}

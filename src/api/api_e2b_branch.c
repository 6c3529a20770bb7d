/* SPDX-License-Identifier: MIT
 *
 * api_e2b_branch.c - the control plane of E2B's dialect for what sandboxes are made from:
 * templates, snapshots, forks.
 *
 * A template is an image of doze, or a snapshot. "NAME:TAG" names the same as NAME.
 */
#include "api/api_e2b.h"

#include "base/clock.h"
#include "base/num.h"

#include <stdio.h>
#include <string.h>

enum {
    FORKS_MAX = 100,
    FORK_S = 300,
    SNAPSHOTS = 100, /* of a page */
};

const char *dz_e2b_snapshot(struct dz_http_req *r, const char *template)
{
    struct dz_str rest = dz_str(template), name = rest;
    (void)dz_str_split(&rest, ':', &name);
    const char *copy = dz_arena_str(dz_http_arena(r), name).p;
    return copy ? copy : template;
}

/* --- templates
 * ------------------------------------------------------------------------------------ */

void dz_e2b_template_exists(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_image_release) struct dz_image image = {0};
    DZ_AUTO(dz_snapshot_row_release) struct dz_snapshot_row row = {0};
    DZ_AUTO(dz_buf_release) struct dz_buf tags = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_api_out o;
    const char *name = dz_http_param(r, "alias");
    const struct dz_control_target snapshot = {dz_api_caller(r, a), dz_e2b_snapshot(r, name)};
    if (dz_control_image(a->control, dz_e2b_image(a, r, name), &image, &tags, &why) < 0 &&
        dz_control_snapshot_get(a->control, snapshot, &row, &why) < 0) {
        dz_e2b_refuse(r, DZ_ENOENT, 0, "template '%.100s' not found", name);
        return;
    }
    dz_api_begin(&o);
    dz_json_put_strz(&o.json, "templateID", name);
    dz_json_put_bool(&o.json, "public", row.id == NULL);
    dz_api_send(r, 200, &o);
}

/* Snapshots only: images belong to the operator. */
void dz_e2b_template_delete(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    const struct dz_control_target target = {dz_api_caller(r, a),
                                             dz_e2b_snapshot(r, dz_http_param(r, "id"))};
    if (dz_control_snapshot_delete(a->control, target, &why) < 0)
        dz_e2b_refuse_why(r, &why);
    else
        dz_http_send(r, 204, NULL, NULL);
}

/* --- snapshots
 * ------------------------------------------------------------------------------------ */

static void put_snapshot(struct dz_json *j, const struct dz_snapshot_row *row)
{
    char text[DZ_RFC3339_TEXT];
    dz_json_object(j);
    dz_json_put_strz(j, "snapshotID", row->id);
    dz_json_key(j, "names");
    dz_json_array(j);
    if (row->name && row->name[0])
        dz_json_str(j, dz_str(row->name));
    dz_json_end(j);
    if (row->sandbox_id && strlen(row->sandbox_id) > 4)
        dz_json_put_strz(j, "sandboxID", row->sandbox_id + 4);
    dz_json_put_strz(j, "createdAt", dz_rfc3339_print(row->created, text));
    dz_json_end(j);
}

static void on_snapshot(void *arg, const struct dz_snapshot_row *row, const struct dz_why *why)
{
    struct dz_http_req *r = dz_api_over(arg);
    struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_json j;
    if (r && why) {
        dz_e2b_refuse_why(r, why);
    } else if (r) {
        dz_json_init(&j, &text, false);
        put_snapshot(&j, row);
        dz_http_send(r, 201, DZ_HTTP_JSON, &text);
    }
    dz_buf_release(&text);
}

void dz_e2b_snapshot_make(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_e2b_release) struct dz_e2b_sandbox s = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    json_t *o = dz_e2b_body(r);
    if (!o || !dz_e2b_of_path(a, r, &s))
        return;
    const struct dz_control_handle as = {.name = json_string_value(json_object_get(o, "name"))};
    const struct dz_control_target target = {dz_api_caller(r, a), s.row.id};
    struct dz_api_call *c = dz_api_wait(a, r, 0);
    if (c && dz_control_snapshot(a->control, target, &as, on_snapshot, c, &why) < 0) {
        dz_free(c);
        dz_e2b_refuse_why(r, &why);
    }
}

void dz_e2b_snapshots(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_snapshot_rows_release)
    struct dz_snapshot_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    struct dz_api *a = api;
    const char *limit = dz_http_query(r, "limit"), *after = dz_http_query(r, "nextToken");
    const char *of = dz_http_query(r, "sandboxID"), *name = dz_http_query(r, "name");
    struct dz_buf text = DZ_BUF_INIT(DZ_API_ANSWER_MAX);
    struct dz_json j;
    struct dz_why why = {0};
    uint64_t count = SNAPSHOTS;
    after = after && after[0] ? after : NULL;
    if ((limit && dz_num_u64(dz_str(limit), 1, DZ_API_LIMIT_MAX, &count, NULL) < 0) ||
        (after && dz_id_parse(dz_str(after), "snap", NULL, NULL) < 0)) {
        dz_e2b_refuse(r, DZ_EINVAL, 0, "limit must be from 1 to %d, nextToken of an answer",
                      DZ_API_LIMIT_MAX);
        return;
    }
    const bool narrow = of && of[0];
    of = narrow ? dz_e2b_ref(r, of) : NULL; /* NULL: of no sandbox, so there are none */
    if (dz_control_snapshots(a->control, dz_api_caller(r, a), after, (size_t)count, &rows, &why) <
        0) {
        dz_e2b_refuse_why(r, &why);
        return;
    }
    dz_json_init(&j, &text, false);
    dz_json_array(&j);
    for (size_t i = 0; i < rows.n; i++)
        if ((!narrow || (of && strcmp(rows.p[i].sandbox_id, of) == 0)) &&
            (!name || strcmp(rows.p[i].name, name) == 0))
            put_snapshot(&j, &rows.p[i]);
    dz_json_end(&j);
    if (rows.n == count)
        dz_http_set(r, "X-Next-Token", rows.p[rows.n - 1].id);
    dz_http_send(r, 200, DZ_HTTP_JSON, &text);
    dz_buf_release(&text);
}

/* --- forks
 * ---------------------------------------------------------------------------------------- */

struct forking {
    struct dz_api *api;
    uint64_t id;
    struct dz_control_own_caller own;
    char sandbox_id[DZ_ID_TEXT];
    int64_t timeout_ms, left;
    struct dz_buf text;
    struct dz_json json;
};

static void fork_next(struct forking *f);

static void put_failure(struct dz_json *j, const struct dz_why *why)
{
    dz_json_object(j);
    dz_json_key(j, "error");
    dz_json_object(j);
    dz_json_put_i64(j, "code", dz_err_http(why->err.code));
    dz_json_put_strz(j, "message", why->err.msg);
    dz_json_end(j);
    dz_json_end(j);
}

/* Give the branch its own timeout. */
static int adopt(struct forking *f, const char *id, struct dz_e2b_sandbox *s, struct dz_why *why)
{
    int rc = dz_e2b_find(f->api, &f->own.who, id, s, why);
    if (rc < 0)
        return rc;
    if (!s->ours) {
        s->ours = s->pauses = true;
        s->template = s->config.image;
    }
    return dz_e2b_resume(f->api, &f->own.who, s, f->timeout_ms, why);
}

static void on_forked(void *arg, const struct dz_fork_row *fork,
                      const struct dz_sandbox_result *result)
{
    DZ_AUTO(dz_e2b_release) struct dz_e2b_sandbox s = {0};
    struct forking *f = arg;
    struct dz_why why = {0};
    (void)fork;
    if (result->code < 0) {
        put_failure(&f->json, result->why);
    } else if (adopt(f, result->row->id, &s, &why) < 0) {
        put_failure(&f->json, &why);
    } else {
        dz_json_object(&f->json);
        dz_json_key(&f->json, "sandbox");
        dz_e2b_put_sandbox(f->api, &f->json, &s);
        dz_json_end(&f->json);
    }
    fork_next(f);
}

static void fork_next(struct forking *f)
{
    const struct dz_control_target source = {&f->own.who, f->sandbox_id};
    struct dz_why why = {0};
    while (f->left > 0) {
        f->left--;
        if (dz_control_caller_check(f->api->control, source.who, &why) == 0 &&
            dz_control_fork_one(f->api->control, source, on_forked, f, &why) == 0)
            return;
        put_failure(&f->json, &why);
    }
    struct dz_http_req *r = dz_http_find(f->api->http, f->id);
    dz_json_end(&f->json);
    if (r)
        dz_http_send(r, 201, DZ_HTTP_JSON, &f->text);
    dz_buf_release(&f->text);
    dz_free(f);
}

void dz_e2b_fork(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_e2b_release) struct dz_e2b_sandbox s = {0};
    struct dz_api *a = api;
    json_t *o = dz_e2b_body(r);
    const json_t *count = json_object_get(o, "count");
    int64_t seconds = FORK_S, n = count ? json_integer_value(count) : 1;
    if (!o || !dz_e2b_seconds(r, o, "timeout", &seconds) || !dz_e2b_of_path(a, r, &s))
        return;
    if (seconds <= 0 || n < 1 || n > FORKS_MAX) {
        dz_e2b_refuse(r, DZ_EINVAL, 0, "timeout must be greater than 0, and count from 1 to %d",
                      FORKS_MAX);
        return;
    }
    if (dz_e2b_state(&s) == DZ_E2B_PAUSED) {
        dz_e2b_refuse(r, DZ_ESTATE, 409, "Sandbox %s is paused, resume it first", s.code);
        return;
    }
    struct forking *f = dz_zalloc(sizeof *f);
    if (!f) {
        dz_e2b_refuse(r, DZ_ENOMEM, 0, "out of memory");
        return;
    }
    f->api = a;
    f->id = dz_http_id(r);
    f->timeout_ms = seconds * 1000;
    f->left = n;
    f->text = (struct dz_buf)DZ_BUF_INIT(DZ_API_ANSWER_MAX);
    (void)snprintf(f->sandbox_id, sizeof f->sandbox_id, "%s", s.row.id);
    dz_control_caller_keep(&f->own, dz_api_caller(r, a));
    dz_json_init(&f->json, &f->text, false);
    dz_json_array(&f->json);
    fork_next(f);
}

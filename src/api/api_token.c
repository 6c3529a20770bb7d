/* SPDX-License-Identifier: MIT
 *
 * api_token.c - create, list and revoke tokens; for the operator only.
 */
#include "api/api_int.h"

#include <stddef.h>
#include <string.h>

const struct dz_api_field dz_api_token_fields[] = {
    {"name", DZ_API_STR, offsetof(struct dz_control_token_spec, name), NULL, 0},
    {"tenant", DZ_API_STR, offsetof(struct dz_control_token_spec, tenant), NULL, 0},
    {"scope", DZ_API_STR, offsetof(struct dz_control_token_spec, scope), NULL, 0},
    {"expires_in", DZ_API_DURATION, offsetof(struct dz_control_token_spec, expires_in_ms), NULL, 0},
    {"quotas", DZ_API_OBJECT, offsetof(struct dz_control_token_spec, quotas_json), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

static void put_token(struct dz_json *j, const struct dz_token_row *row)
{
    dz_json_put_strz(j, "id", row->id);
    dz_json_put_strz(j, "name", row->label);
    dz_json_put_strz(j, "tenant", row->tenant);
    dz_json_put_strz(j, "scope", row->scope);
    dz_api_put_time(j, "created_at", row->created);
    dz_api_put_time(j, "last_used_at", row->last_used);
    dz_api_put_time(j, "expires_at", row->expires);
}

void dz_api_token_create(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_token_row_release) struct dz_token_row row = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_control_token_spec spec = {.tenant = "default", .scope = "tenant"};
    char secret[DZ_CONTROL_SECRET];
    struct dz_api_out o;
    if (!dz_api_body(r, &spec))
        return;
    if (dz_control_token_add(a->control, dz_api_caller(r, a), &spec, secret, &row, &why) < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_begin(&o);
    put_token(&o.json, &row);
    dz_json_put_strz(&o.json, "token", secret);
    dz_http_set(r, "Cache-Control", "no-store");
    dz_api_send(r, 201, &o);
}

void dz_api_tokens(struct dz_http_req *r, void *api)
{
    static const char *const names[] = {"tenant", NULL};
    DZ_AUTO(dz_token_rows_release) struct dz_token_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_api_page page;
    struct dz_api_out o;
    int rc = dz_api_page(r, DZ_API_CURSOR_TOKEN, names, &page, &why);
    if (rc == 0) {
        const struct dz_registry_record_filter f = {
            .tenant = dz_http_query(r, "tenant"), .after = page.cursor, .limit = page.limit};
        rc = dz_control_tokens(a->control, dz_api_caller(r, a), &f, &rows, &why);
    }
    if (rc < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_list_begin(&o, "tokens");
    for (size_t i = 0; i < rows.n; i++) {
        dz_json_object(&o.json);
        put_token(&o.json, &rows.p[i]);
        dz_json_end(&o.json);
    }
    dz_api_list_send(r, &o, rows.n == page.limit ? rows.p[rows.n - 1].id : NULL);
}

void dz_api_token_revoke(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    char id[DZ_ID_TEXT];
    if (dz_control_token_remove(a->control, dz_api_caller(r, a), dz_http_param(r, "token"), id,
                                &why) < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_http_send(r, 204, NULL, NULL);
    dz_api_auth_revoked(a, id);
}

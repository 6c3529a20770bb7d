/* SPDX-License-Identifier: MIT
 *
 * api_tenant.c - tenants: their usage, quotas and the place of their replicas; the operator sets
 * both.
 */
#include "api/api_int.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static void put_quotas(struct dz_json *j, const char *key, const struct dz_quotas *q)
{
    dz_json_key(j, key);
    dz_json_object(j);
#define X(name, text)               \
    if (q->name == DZ_QUOTA_NONE)   \
        dz_json_put_null(j, #name); \
    else                            \
        dz_json_put_u64(j, #name, q->name);
    DZ_QUOTAS(X)
#undef X
    dz_json_end(j);
}

static void put_usage(struct dz_json *j, const char *key, const struct dz_control_usage *u,
                      bool measured, bool whole)
{
    dz_json_key(j, key);
    dz_json_object(j);
    dz_json_put_u64(j, "sandboxes", u->sandboxes);
    dz_json_put_u64(j, "warm_sandboxes", u->warm_sandboxes);
    dz_json_put_u64(j, "creations", u->creations);
    dz_json_put_u64(j, "memory_bytes", u->memory_bytes);
    if (measured)
        dz_json_put_u64(j, "disk_bytes", u->disk_bytes);
    else
        dz_json_put_null(j, "disk_bytes"); /* the usage is being measured */
    if (whole)
        dz_json_put_u64(j, "schedules", u->schedules);
    else
        dz_json_put_null(j, "schedules"); /* schedules do not belong to a token */
    dz_json_end(j);
}

static int put_members(struct dz_api *a, const struct dz_control_caller *who, struct dz_json *j,
                       const struct dz_control_quota_state *s, struct dz_why *why)
{
    DZ_AUTO(dz_freep) char *replica = NULL;
    int rc = dz_control_tenant_replica(a->control, s->tenant, &replica, why);
    if (rc < 0)
        return rc;
    dz_json_put_strz(j, "id", s->tenant);
    /* a URL is a place on the host */
    dz_json_put_strz(j, "replica", who->is_operator || !strchr(replica, ':') ? replica : NULL);
    put_quotas(j, "quotas", &s->quotas);
    put_usage(j, "usage", &s->used, s->measured, true);
    dz_json_key(j, "token");
    if (s->has_token) {
        dz_json_object(j);
        put_quotas(j, "quotas", &s->token_quotas);
        put_usage(j, "usage", &s->token_used, false, false);
        dz_json_end(j);
    } else {
        dz_json_null(j);
    }
    return 0;
}

static void send_tenant(struct dz_api *a, struct dz_http_req *r, const char *tenant)
{
    struct dz_control_quota_state s;
    struct dz_why why = {0};
    struct dz_api_out o;
    if (dz_control_quotas(a->control, dz_api_caller(r, a), tenant, &s, &why) < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_begin(&o);
    if (put_members(a, dz_api_caller(r, a), &o.json, &s, &why) == 0) {
        dz_api_send(r, 200, &o);
    } else {
        dz_buf_release(&o.text);
        dz_api_refuse(r, &why);
    }
}

void dz_api_tenants(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_tenant_rows_release)
    struct dz_tenant_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    struct dz_api *a = api;
    const struct dz_control_caller *who = dz_api_caller(r, a);
    struct dz_why why = {0};
    struct dz_api_page page;
    struct dz_api_out o;
    int rc = dz_api_page(r, DZ_API_CURSOR_TENANT, NULL, &page, &why);
    if (rc == 0)
        rc = dz_control_tenants(a->control, who,
                                page.cursor ? page.cursor + strlen(DZ_API_TENANT_CURSOR) : NULL,
                                page.limit, &rows, &why);
    if (rc < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_list_begin(&o, "tenants");
    for (size_t i = 0; rc == 0 && i < rows.n; i++) {
        struct dz_control_quota_state s;
        rc = dz_control_quotas(a->control, who, rows.p[i].id, &s, &why);
        if (rc < 0)
            break;
        dz_json_object(&o.json);
        rc = put_members(a, who, &o.json, &s, &why);
        dz_json_end(&o.json);
    }
    if (rc < 0) {
        dz_buf_release(&o.text);
        dz_api_refuse(r, &why);
        return;
    }
    char next[DZ_CONTROL_VALUE_MAX + 16];
    if (rows.n > 0)
        (void)snprintf(next, sizeof next, DZ_API_TENANT_CURSOR "%s", rows.p[rows.n - 1].id);
    dz_api_list_send(r, &o, rows.n == page.limit ? next : NULL);
}

void dz_api_tenant(struct dz_http_req *r, void *api)
{
    send_tenant(api, r, dz_http_param(r, "tenant"));
}

const struct dz_api_field dz_api_tenant_fields[] = {
    {"quotas", DZ_API_OBJECT, offsetof(struct dz_control_tenant_set, quotas), NULL, 0},
    {"replica", DZ_API_STR, offsetof(struct dz_control_tenant_set, replica), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

void dz_api_tenant_set(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    const char *tenant = dz_http_param(r, "tenant");
    struct dz_control_tenant_set b = {0};
    if (!dz_api_body(r, &b))
        return;
    if (dz_control_set_tenant(a->control, dz_api_caller(r, a), tenant, &b, &why) < 0)
        dz_api_refuse(r, &why);
    else
        send_tenant(a, r, tenant);
}

/* SPDX-License-Identifier: MIT
 *
 * api_volume.c - volumes: named file trees that sandboxes mount.
 */
#include "api/api_int.h"

#include <stddef.h>
#include <string.h>

struct body {
    const char *name;
    uint64_t size;
};
const struct dz_api_field dz_api_volume_fields[] = {
    {"name", DZ_API_STR, offsetof(struct body, name), NULL, 0},
    {"size", DZ_API_SIZE, offsetof(struct body, size), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

const struct dz_api_field dz_api_volume_copy_fields[] = {
    {"name", DZ_API_STR, offsetof(struct body, name), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

static bool names_volume(const struct dz_http_req *r)
{
    return strstr(dz_http_route_of(r)->pattern, "{volume}") != NULL;
}

struct dz_control_target dz_api_op_target(const struct dz_http_req *r, const struct dz_api *a)
{
    return dz_api_target(r, a, names_volume(r) ? "volume" : "id");
}

int dz_api_op(struct dz_api *a, const struct dz_http_req *r, struct dz_control_target target,
              const struct dz_file_op_request *request, struct dz_file_op **ret_op,
              struct dz_why *why)
{
    return names_volume(r) ? dz_control_volume_op(a->control, target, request, ret_op, why)
                           : dz_control_op(a->control, target, request, ret_op, why);
}

static int put_holder(void *arg, const struct dz_registry_holder *h)
{
    struct dz_json *j = arg;
    dz_json_object(j);
    dz_json_put_strz(j, "sandbox_id", h->sandbox_id);
    dz_json_put_strz(j, "mode", h->writes ? "rw" : "ro");
    dz_api_put_time(j, "taken_at", h->taken);
    dz_json_end(j);
    return 0;
}

static int put_volume(struct dz_api *a, struct dz_json *j, const struct dz_volume_row *row,
                      struct dz_err *err)
{
    dz_json_put_strz(j, "id", row->id);
    dz_json_put_strz(j, "name", row->name);
    dz_json_put_strz(j, "tenant", row->tenant);
    dz_json_put_strz(j, "status", row->status);
    dz_json_put_i64(j, "size_bytes", row->limit_bytes);
    dz_json_put_u64(j, "used_bytes", dz_control_volume_bytes(a->control, row->id));
    dz_json_key(j, "leases");
    dz_json_array(j);
    int rc = dz_control_volume_holders(a->control, row->id, put_holder, j, err);
    dz_json_end(j);
    dz_api_put_time(j, "created_at", row->created);
    dz_api_put_time(j, "updated_at", row->updated);
    return rc;
}

static void send_volume(struct dz_api *a, struct dz_http_req *r, int status, int rc,
                        const struct dz_control_volume *v, struct dz_why *why)
{
    struct dz_api_out o;
    if (rc < 0) {
        dz_api_refuse(r, why);
        return;
    }
    dz_api_begin(&o);
    rc = put_volume(a, &o.json, &v->row, &why->err);
    if (rc == 0) {
        dz_api_send(r, status, &o);
        return;
    }
    dz_buf_release(&o.text);
    dz_api_refuse(r, why);
}

void dz_api_volume_add(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_control_volume_release) struct dz_control_volume v = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct body b = {0};
    if (!dz_api_body(r, &b))
        return;
    int rc = dz_control_volume_add(a->control, dz_api_caller(r, a), b.name, b.size, &v, &why);
    send_volume(a, r, 201, rc, &v, &why);
}

void dz_api_volume_get(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_control_volume_release) struct dz_control_volume v = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    int rc = dz_control_volume_get(a->control, dz_api_target(r, a, "volume"), &v, &why);
    send_volume(a, r, 200, rc, &v, &why);
}

/* --- copy ---------------------------------------------------------------------------------------
 */

struct copying {
    struct dz_api *api;
    uint64_t id;
    struct dz_volume_copy *copy;
};

static void on_copied(void *arg, int rc, const struct dz_control_volume *v, struct dz_why *why)
{
    struct copying *c = arg;
    struct dz_http_req *r = dz_http_find(c->api->http, c->id);
    if (r) {
        dz_http_on_gone(r, NULL, NULL);
        send_volume(c->api, r, 201, rc, v, why);
    }
    dz_free(c);
}

static void copy_gone(void *arg)
{
    struct copying *c = arg;
    dz_control_volume_copy_cancel(c->copy);
    dz_free(c);
}

void dz_api_volume_copy(struct dz_http_req *r, void *api)
{
    struct dz_why why = {0};
    struct body b = {0};
    if (!dz_api_body(r, &b))
        return;
    struct copying *c = dz_zalloc(sizeof *c);
    if (!c) {
        (void)dz_fail(&why.err, DZ_ENOMEM, "copy a volume: out of memory");
        dz_api_refuse(r, &why);
        return;
    }
    *c = (struct copying){.api = api, .id = dz_http_id(r)};
    const struct dz_control_volume_done done = {on_copied, c};
    if (dz_control_volume_copy(c->api->control, dz_api_target(r, api, "volume"), b.name, &done,
                               &c->copy, &why) < 0) {
        dz_free(c);
        dz_api_refuse(r, &why);
        return;
    }
    dz_http_on_gone(r, copy_gone, c);
}

void dz_api_volume_delete(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    int rc = dz_control_volume_remove(a->control, dz_api_target(r, a, "volume"), &why);
    dz_api_done(r, rc, &why);
}

void dz_api_volumes(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_volume_rows_release)
    struct dz_volume_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_api_page page;
    struct dz_api_out o;
    int rc = dz_api_page(r, DZ_API_CURSOR_VOLUME, NULL, &page, &why);
    if (rc == 0)
        rc = dz_control_volumes(a->control, dz_api_caller(r, a), page.cursor, page.limit, &rows,
                                &why);
    if (rc < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_list_begin(&o, "volumes");
    for (size_t i = 0; i < rows.n && rc == 0; i++) {
        dz_json_object(&o.json);
        rc = put_volume(a, &o.json, &rows.p[i], &why.err);
        dz_json_end(&o.json);
    }
    if (rc == 0) {
        dz_api_list_send(r, &o, rows.n == page.limit ? rows.p[rows.n - 1].id : NULL);
        return;
    }
    dz_buf_release(&o.text);
    dz_api_refuse(r, &why);
}

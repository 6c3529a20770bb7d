/* SPDX-License-Identifier: MIT
 *
 * api_replica.c - the replica of a sandbox: its state, and taking it over from another daemon.
 */
#include "api/api_int.h"

#include <inttypes.h>
#include <stdio.h>

/* The newest transaction in the replica, as in the names of its files; null: none is known. */
static void put_txid(struct dz_json *j, const char *key, uint64_t txid)
{
    char text[17];
    (void)snprintf(text, sizeof text, "%016" PRIx64, txid);
    dz_json_put_strz(j, key, txid ? text : NULL);
}

void dz_api_put_replicated(struct dz_api *a, struct dz_json *j, const struct dz_instance *row)
{
    struct dz_control_replica s;
    dz_control_replica_of(a->control, row->id, &s);
    dz_api_put_time(j, "replicated_at", s.at_ms);
    put_txid(j, "replica_txid", s.txid);
}

static void send_replica(struct dz_http_req *r, struct dz_api *a, const struct dz_instance *row)
{
    struct dz_control_replica s;
    struct dz_api_out o;
    bool all = dz_api_caller(r, a)->is_operator;
    dz_control_replica_of(a->control, row->id, &s);
    dz_api_begin(&o);
    dz_json_put_strz(&o.json, "id", row->id);
    dz_json_put_strz(&o.json, "state", s.state);
    dz_json_put_strz(&o.json, "url", all && s.on ? s.url : NULL); /* a place on the host */
    dz_api_put_time(&o.json, "replicated_at", s.at_ms);
    put_txid(&o.json, "replica_txid", s.txid);
    dz_json_put_i64(&o.json, "lag_ms", s.lag_ms);
    dz_json_put_u64(&o.json, "uploads", s.uploads);
    dz_json_put_u64(&o.json, "bytes", s.bytes);
    dz_json_put_u64(&o.json, "errors", s.errors);
    dz_json_put_strz(&o.json, "error", all && s.error[0] ? s.error : NULL);
    dz_api_send(r, 200, &o);
}

void dz_api_replica(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    int rc = dz_control_get(a->control, dz_api_target(r, a, "id"), &row, &why);
    if (rc < 0)
        dz_api_refuse(r, &why);
    else
        send_replica(r, a, &row);
}

const struct dz_api_field dz_api_restore_fields[] = {
    {"name", DZ_API_STR, offsetof(struct dz_control_restore, name), NULL, 0},
    {"at", DZ_API_STR, offsetof(struct dz_control_restore, at), NULL, 0},
    {"txid", DZ_API_STR, offsetof(struct dz_control_restore, txid), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

void dz_api_restore(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_control_restore b = {0};
    if (!dz_api_body(r, &b))
        return;
    struct dz_api_call *c = dz_api_wait(a, r, 201);
    if (c && dz_control_restore(a->control, dz_api_target(r, a, "id"), &b, dz_api_done_sandbox, c,
                                &why) < 0)
        dz_api_refused(c, r, &why);
}

void dz_api_replica_take(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_api *a = api;
    struct dz_why why = {0};
    char nothing[1];
    if (!dz_api_body(r, nothing))
        return;
    int rc = dz_control_get(a->control, dz_api_target(r, a, "id"), &row, &why);
    if (rc == 0)
        rc = dz_control_replica_take(a->control, dz_api_target(r, a, "id"), &why);
    if (rc < 0)
        dz_api_refuse(r, &why);
    else
        send_replica(r, a, &row);
}

/* SPDX-License-Identifier: MIT
 *
 * api_host.c - the daemon itself: liveness and readiness.
 */
#include "api/api_int.h"

#include <stdio.h>

void dz_api_healthz(struct dz_http_req *r, void *api)
{
    struct dz_api_out o;
    (void)api;
    dz_api_begin(&o);
    dz_json_put_strz(&o.json, "status", "ok");
    if (dz_http_peer_uid(r) >= 0) /* do not tell strangers which version to attack */
        dz_json_put_strz(&o.json, "version", DZ_VERSION);
    dz_api_send(r, 200, &o);
}

void dz_api_readyz(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_api_out o;
    struct dz_err err;
    if (dz_control_check_ready(a->control, &err) < 0) {
        dz_http_set(r, "Retry-After", DZ_API_RETRY_S);
        dz_http_fail(r, &err);
        return;
    }
    struct dz_control_space space;
    struct dz_why why;
    dz_control_space(a->control, &space);
    if (dz_control_check_space(a->control, &why) < 0) { /* the daemon runs, but creations fail */
        const struct dz_http_problem p = {
            .code = why.err.code, .reason = "degraded", .message = why.err.msg, .status = 503};
        dz_http_set(r, "Retry-After", DZ_API_RETRY_S);
        dz_http_refuse(r, &p);
        return;
    }
    dz_api_begin(&o);
    dz_json_put_strz(&o.json, "status", space.level == DZ_SPACE_OK ? "ready" : "degraded");
    dz_json_put_strz(&o.json, "disk", dz_space_level_name(space.level));
    dz_api_send(r, 200, &o);
}

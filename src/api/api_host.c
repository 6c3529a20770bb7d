/* SPDX-License-Identifier: MIT
 *
 * api_host.c - the daemon itself: is it alive, is it ready, its figures.
 */
#include "api/api_int.h"

#include <stdio.h>

void dz_api_healthz(struct dz_http_req *r, void *api)
{
    struct dz_api_out o;
    (void)api;
    dz_api_begin(&o);
    dz_json_put_strz(&o.json, "status", "ok");
    if (dz_http_peer_uid(r) >= 0) /* strangers need not know which holes to try */
        dz_json_put_strz(&o.json, "version", DZ_VERSION);
    dz_api_send(r, 200, &o);
}

void dz_api_readyz(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_api_out o;
    struct dz_err err;
    if (dz_engine_check_ready(a->engine, &err) < 0) {
        dz_http_set(r, "Retry-After", DZ_API_RETRY_S);
        dz_http_fail(r, &err);
        return;
    }
    dz_api_begin(&o);
    dz_json_put_strz(&o.json, "status", "ready");
    dz_api_send(r, 200, &o);
}

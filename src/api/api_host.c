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
    const struct dz_http_problem not_yet = {.code = DZ_EBUSY, .message = "not ready"};
    if (!dz_engine_ready(a->engine)) {
        dz_http_refuse(r, &not_yet);
        return;
    }
    dz_api_begin(&o);
    dz_json_put_strz(&o.json, "status", "ready");
    dz_api_send(r, 200, &o);
}

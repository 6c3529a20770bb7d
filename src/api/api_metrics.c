/* SPDX-License-Identifier: MIT
 *
 * api_metrics.c - the daemon's figures in Prometheus' text format.
 */
#include "api/api_int.h"

#include <inttypes.h>

enum {
    METRICS_MAX = 1 << 16,
};

void dz_api_count(struct dz_api *a, const struct dz_http_route *route, int status,
                  int64_t duration_ns)
{
    size_t at = (size_t)status / 100;
    (void)route;
    a->requests[at < DZ_ARRAY_LEN(a->requests) ? at : 0]++;
    a->request_us += (uint64_t)(duration_ns / 1000);
}

static void put(struct dz_buf *b, const char *name, const char *type, const char *help,
                uint64_t value)
{
    dz_buf_addf(b, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", name, help, name, type, name,
                value);
}

void dz_api_metrics(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(METRICS_MAX);
    struct dz_api *a = api;
    struct dz_engine_counts c;
    dz_engine_counts(a->engine, &c);
    put(&b, "doze_sandboxes_warm", "gauge", "Sandboxes that are awake.", c.warm);
    put(&b, "doze_operations", "gauge", "Operations of the lifecycle under way.", c.busy);
    put(&b, "doze_creates_total", "counter", "Sandboxes created.", c.creates);
    put(&b, "doze_wakes_total", "counter", "Sandboxes woken.", c.wakes);
    put(&b, "doze_wakes_cold_total", "counter", "Of them, from cold storage.", c.wakes_cold);
    put(&b, "doze_suspends_total", "counter", "Sandboxes put to sleep.", c.suspends);
    put(&b, "doze_crashes_total", "counter", "Cells that died.", c.crashes);
    put(&b, "doze_execs_total", "counter", "Commands started.", c.execs);
    put(&b, "doze_http_connections", "gauge", "Connections that are open.",
        dz_http_connections(a->http));
    put(&b, "doze_http_request_microseconds_total", "counter", "Time that requests took.",
        a->request_us);
    dz_buf_adds(&b, "# HELP doze_http_requests_total Requests, by the class of their status.\n"
                    "# TYPE doze_http_requests_total counter\n");
    for (size_t i = 1; i < DZ_ARRAY_LEN(a->requests); i++)
        dz_buf_addf(&b, "doze_http_requests_total{class=\"%zuxx\"} %" PRIu64 "\n", i,
                    a->requests[i]);
    dz_http_send(r, 200, "text/plain; version=0.0.4; charset=utf-8", &b);
}

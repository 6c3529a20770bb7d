/* SPDX-License-Identifier: MIT
 *
 * api_metrics.c - the daemon's figures for Prometheus.
 */
#include "api/api_int.h"

#include "metrics/metrics.h"

#include <stdio.h>

enum {
    METRICS_MAX = 4 << 20,
};

#define METRICS(X)                                                                                \
    X(WARM, GAUGE, "doze_sandboxes_warm", "sandboxes that are awake", "")                         \
    X(OPERATIONS, GAUGE, "doze_operations", "operations of the lifecycle under way", "")          \
    X(CONNECTIONS, GAUGE, "doze_http_connections", "connections that are open", "")               \
    X(CREATES, COUNTER, "doze_creates_total", "sandboxes created", "")                            \
    X(WAKES, COUNTER, "doze_wakes_total", "sandboxes woken", "")                                  \
    X(WAKES_COLD, COUNTER, "doze_wakes_cold_total", "of them, from cold storage", "")             \
    X(SUSPENDS, COUNTER, "doze_suspends_total", "sandboxes put to sleep", "")                     \
    X(CRASHES, COUNTER, "doze_crashes_total", "cells that died", "")                              \
    X(EXECS, COUNTER, "doze_execs_total", "commands started", "")                                 \
    X(REQUEST, HISTOGRAM, "doze_http_request_seconds", "from a request to the end of its answer", \
      "method,route,status")

enum {
    DZ_METRICS_ENUM(METRICS)
};
static const struct dz_metric_row rows[] = {DZ_METRICS_ROWS(METRICS)};

int dz_api_metrics_open(struct dz_api *a, struct dz_err *err)
{
    return dz_metrics_new(rows, DZ_ARRAY_LEN(rows), &a->metrics, err);
}

void dz_api_metrics_close(struct dz_api *a)
{
    dz_metrics_free(a->metrics);
}

void dz_api_count(struct dz_api *a, const struct dz_http_req *r, int status, int64_t duration_ns)
{
    const struct dz_http_route *route = dz_http_route_of(r);
    char text[16];
    (void)snprintf(text, sizeof text, "%d", status);
    dz_metric_observe(a->metrics, REQUEST, (double)duration_ns / 1e9, dz_http_method(r),
                      route ? route->pattern : "none", text);
}

/* What the engine has counted since the last time. */
static void add(struct dz_api *a, size_t metric, uint64_t now, uint64_t *before)
{
    dz_metric_add(a->metrics, metric, (double)(now - *before));
    *before = now;
}

void dz_api_metrics(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(METRICS_MAX);
    struct dz_api *a = api;
    struct dz_engine_counts c, *seen = &a->counted;
    dz_engine_counts(a->engine, &c);
    dz_metric_set(a->metrics, WARM, (double)c.warm);
    dz_metric_set(a->metrics, OPERATIONS, (double)c.busy);
    dz_metric_set(a->metrics, CONNECTIONS, (double)dz_http_connections(a->http));
    add(a, CREATES, c.creates, &seen->creates);
    add(a, WAKES, c.wakes, &seen->wakes);
    add(a, WAKES_COLD, c.wakes_cold, &seen->wakes_cold);
    add(a, SUSPENDS, c.suspends, &seen->suspends);
    add(a, CRASHES, c.crashes, &seen->crashes);
    add(a, EXECS, c.execs, &seen->execs);
    dz_metrics_print(a->metrics, &b);
    dz_http_send(r, 200, "text/plain; version=0.0.4; charset=utf-8", &b);
}

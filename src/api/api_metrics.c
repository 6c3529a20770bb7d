/* SPDX-License-Identifier: MIT
 *
 * api_metrics.c - the daemon's metrics for Prometheus.
 */
#include "api/api_int.h"

#include "base/clock.h"
#include "metrics/metrics.h"

#include <stdio.h>

enum {
    METRICS_MAX = 4 << 20,
};

#define METRICS(X)                                                                                \
    X(WARM, GAUGE, "doze_sandboxes_warm", "awake sandboxes", "")                                  \
    X(OPERATIONS, GAUGE, "doze_operations", "lifecycle operations in progress", "")               \
    X(CONNECTIONS, GAUGE, "doze_http_connections", "open HTTP connections", "")                   \
    X(CREATES, COUNTER, "doze_creates_total", "sandboxes created", "")                            \
    X(WAKES, COUNTER, "doze_wakes_total", "sandboxes woken", "")                                  \
    X(WAKES_COLD, COUNTER, "doze_wakes_cold_total", "sandboxes woken from cold storage", "")      \
    X(SUSPENDS, COUNTER, "doze_suspends_total", "sandboxes suspended", "")                        \
    X(CRASHES, COUNTER, "doze_crashes_total", "cells that died", "")                              \
    X(EXECS, COUNTER, "doze_execs_total", "commands started", "")                                 \
    X(DIED, COUNTER, "doze_daemon_died_total",                                                    \
      "1 if the previous daemon died, with its fatal signal", "signal")                           \
    X(OPERATION, HISTOGRAM, "doze_operation_seconds",                                             \
      "duration of operations on sandboxes, by result and, for wakes, by wake source (rung)",     \
      "operation,rung,result")                                                                    \
    X(DISK_FREE, GAUGE, "doze_disk_free_bytes", "free space in the data directory's file system", \
      "")                                                                                         \
    X(DISK_MARK, GAUGE, "doze_disk_mark_bytes", "free space below which creations fail", "")      \
    X(DISK_INODES, GAUGE, "doze_disk_free_inodes",                                                \
      "free inodes in the data directory's file system", "")                                      \
    X(DISK_RESERVE, GAUGE, "doze_disk_reserve_bytes",                                             \
      "space now reserved for use when the disk is full", "")                                     \
    X(DISK_LEVEL, GAUGE, "doze_disk_level", "state of the disk: 0 ok, 1 low, 2 full, 3 out", "")  \
    X(RESIDENT, GAUGE, "process_resident_memory_bytes",                                           \
      "resident memory of the daemon without its cells", "")                                      \
    X(CPU, COUNTER, "process_cpu_seconds_total", "CPU time of the daemon without its cells", "")  \
    X(FILES, GAUGE, "process_open_fds", "open descriptors of the daemon", "")                     \
    X(STARTED, GAUGE, "process_start_time_seconds",                                               \
      "start time of the daemon, in seconds since 1970", "")                                      \
    X(BUILD, GAUGE, "doze_build_info", "always 1; the label is the version of doze", "version")   \
    X(REQUEST, HISTOGRAM, "doze_http_request_seconds",                                            \
      "time from a request to the end of its answer", "method,route,status")

enum {
    DZ_METRICS_ENUM(METRICS)
};
static const struct dz_metric_row rows[] = {DZ_METRICS_ROWS(METRICS)};

static void on_timed(void *arg, const struct dz_control_timing *t)
{
    const struct dz_api *a = arg;
    dz_metric_observe(a->metrics, OPERATION, (double)t->us / 1e6, t->operation, t->rung,
                      t->code < 0 ? dz_err_wire(t->code) : "ok");
}

int dz_api_metrics_open(struct dz_api *a, struct dz_err *err)
{
    int rc = dz_metrics_new(rows, DZ_ARRAY_LEN(rows), &a->metrics, err);
    if (rc < 0)
        return rc;
    a->started_ms = dz_clock_real_ms();
    dz_metric_set(a->metrics, BUILD, 1, DZ_VERSION);
    dz_metric_set(a->metrics, STARTED, (double)a->started_ms / 1000);
    struct dz_control_counts c;
    dz_control_counts(a->control, &c);
    if (c.died[0])
        dz_metric_add(a->metrics, DIED, 1, c.died);
    dz_control_on_timed(a->control, on_timed, a);
    return 0;
}

uint64_t dz_api_timed(const struct dz_api *a, const char *operation, const char *result,
                      double ret_seconds[static DZ_API_QUANTILES])
{
    static const double q[DZ_API_QUANTILES] = {0.5, 0.9, 0.99};
    for (size_t i = 0; i < DZ_API_QUANTILES; i++)
        ret_seconds[i] = dz_metric_quantile(a->metrics, OPERATION, q[i], operation, "*", result);
    return dz_metric_count(a->metrics, OPERATION, operation, "*", result);
}

void dz_api_metrics_close(struct dz_api *a)
{
    dz_control_on_timed(a->control, NULL, NULL);
    dz_metrics_free(a->metrics);
}

void dz_api_count(struct dz_api *a, const struct dz_http_req *r, int status, int64_t duration_ns)
{
    const struct dz_http_route *route = dz_http_route_of(r);
    char text[16];
    (void)snprintf(text, sizeof text, "%d", status);
    /* Without a route the client may send any method; counting those would use up the series. */
    dz_metric_observe(a->metrics, REQUEST, (double)duration_ns / 1e9,
                      route ? dz_http_method(r) : "none", route ? route->pattern : "none", text);
}

/* Add what the control plane has counted since the last call. */
static void add(struct dz_api *a, size_t metric, uint64_t now, uint64_t *before)
{
    dz_metric_add(a->metrics, metric, (double)(now - *before));
    *before = now;
}

void dz_api_metrics(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(METRICS_MAX);
    struct dz_api *a = api;
    struct dz_control_counts c, *seen = &a->counted;
    dz_control_counts(a->control, &c);
    dz_metric_set(a->metrics, WARM, (double)c.in.warm);
    dz_metric_set(a->metrics, OPERATIONS, (double)c.busy);
    dz_metric_set(a->metrics, CONNECTIONS, (double)dz_http_connections(a->http));
    add(a, CREATES, c.creates, &seen->creates);
    add(a, WAKES, c.in.wakes, &seen->in.wakes);
    add(a, WAKES_COLD, c.in.wakes_cold, &seen->in.wakes_cold);
    add(a, SUSPENDS, c.in.suspends, &seen->in.suspends);
    add(a, CRASHES, c.in.crashes, &seen->in.crashes);
    add(a, EXECS, c.in.execs, &seen->in.execs);
    struct dz_control_space space;
    dz_control_space(a->control, &space);
    dz_metric_set(a->metrics, DISK_FREE, (double)space.free_bytes);
    dz_metric_set(a->metrics, DISK_MARK, (double)space.mark_bytes);
    dz_metric_set(a->metrics, DISK_INODES, (double)space.free_inodes);
    dz_metric_set(a->metrics, DISK_RESERVE, (double)space.reserve_bytes);
    dz_metric_set(a->metrics, DISK_LEVEL, (double)space.level);
    struct dz_api_process p;
    dz_api_process_of(0, &p);
    dz_metric_set(a->metrics, RESIDENT, (double)p.resident_bytes);
    dz_metric_set(a->metrics, FILES, (double)dz_api_open_files());
    dz_metric_set(a->metrics, CPU, (double)p.cpu_ms / 1000);
    dz_metrics_print(a->metrics, &b);
    dz_http_send(r, 200, "text/plain; version=0.0.4; charset=utf-8", &b);
}

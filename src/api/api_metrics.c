/* SPDX-License-Identifier: MIT
 *
 * api_metrics.c - the daemon's metrics for Prometheus, and its statistics for people: `doze stats`
 * and `doze top`.
 *
 * The usage of a process is read from the kernel (/proc/PID/stat), because a cell's own report
 * cannot be trusted.
 */
#include "api/api_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/num.h"
#include "metrics/metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

enum {
    QUANTILES = 3,
};

struct process {
    int64_t cpu_ms, resident_bytes;
};

enum {
    METRICS_MAX = 4 << 20,
};

#define METRICS(X)                                                                                 \
    X(WARM, GAUGE, "doze_sandboxes_warm", "awake sandboxes", "")                                   \
    X(OPERATIONS, GAUGE, "doze_operations", "lifecycle operations in progress", "")                \
    X(CONNECTIONS, GAUGE, "doze_http_connections", "open HTTP connections", "")                    \
    X(EGRESS_OPEN, GAUGE, "doze_egress_connections", "open connections to other machines", "")     \
    X(EGRESS_OPENED, COUNTER, "doze_egress_connections_total",                                     \
      "connections to other machines, by result", "result")                                        \
    X(EGRESS_BYTES, COUNTER, "doze_egress_bytes_total", "bytes of connections to other machines",  \
      "direction")                                                                                 \
    X(EGRESS_REFUSED, COUNTER, "doze_egress_refused_total",                                        \
      "connections that egress rules refused", "reason")                                           \
    X(EGRESS_NAMES, COUNTER, "doze_egress_names_total", "names resolved for sandboxes", "result")  \
    X(EGRESS_RESTARTS, COUNTER, "doze_broker_restarts_total", "brokers that died", "")             \
    X(CREATES, COUNTER, "doze_creates_total", "sandboxes created", "")                             \
    X(WAKES, COUNTER, "doze_wakes_total", "sandboxes woken", "")                                   \
    X(WAKES_COLD, COUNTER, "doze_wakes_cold_total", "sandboxes woken from cold storage", "")       \
    X(SUSPENDS, COUNTER, "doze_suspends_total", "sandboxes suspended", "")                         \
    X(CRASHES, COUNTER, "doze_crashes_total", "cells that died", "")                               \
    X(SERVICE_STARTS, COUNTER, "doze_service_starts_total", "processes of services started", "")   \
    X(SERVICE_FAILURES, COUNTER, "doze_service_failures_total",                                    \
      "ends of services that were failures", "")                                                   \
    X(SERVICE_LOOPS, COUNTER, "doze_service_crash_loops_total",                                    \
      "services that entered a crash loop", "")                                                    \
    X(EXECS, COUNTER, "doze_execs_total", "commands started", "")                                  \
    X(DIED, COUNTER, "doze_daemon_died_total",                                                     \
      "1 if the previous daemon died, with its fatal signal", "signal")                            \
    X(OPERATION, HISTOGRAM, "doze_operation_seconds",                                              \
      "duration of operations on sandboxes, by result and, for wakes, by wake source (rung)",      \
      "operation,rung,result")                                                                     \
    X(DISK_FREE, GAUGE, "doze_disk_free_bytes", "free space in the data directory's file system",  \
      "")                                                                                          \
    X(DISK_MARK, GAUGE, "doze_disk_mark_bytes", "free space below which creations fail", "")       \
    X(DISK_INODES, GAUGE, "doze_disk_free_inodes",                                                 \
      "free inodes in the data directory's file system", "")                                       \
    X(DISK_RESERVE, GAUGE, "doze_disk_reserve_bytes",                                              \
      "space now reserved for use when the disk is full", "")                                      \
    X(DISK_LEVEL, GAUGE, "doze_disk_level", "state of the disk: 0 ok, 1 low, 2 full, 3 out", "")   \
    X(REPLICAS, GAUGE, "doze_replicas", "replicated sandboxes", "")                                \
    X(REPLICAS_LAGGING, GAUGE, "doze_replicas_lagging",                                            \
      "replicas that lack something at the moment", "")                                            \
    X(REPLICAS_BEHIND, GAUGE, "doze_replicas_behind",                                              \
      "replicas that have lacked something for longer than replica.behind", "")                    \
    X(REPLICAS_FENCED, GAUGE, "doze_replicas_fenced", "replicas that another daemon writes to",    \
      "")                                                                                          \
    X(REPLICA_LAG_MAX, GAUGE, "doze_replica_lag_max_seconds", "the greatest lag of a replica", "") \
    X(REPLICA_LAG, HISTOGRAM, "doze_replica_lag_seconds",                                          \
      "time from the notice of a commit to its durable file in the replica", "")                   \
    X(REPLICA_UPLOADS, COUNTER, "doze_replica_uploads_total", "uploads to replicas", "")           \
    X(REPLICA_SNAPSHOTS, COUNTER, "doze_replica_snapshots_total",                                  \
      "files of all pages written to replicas", "")                                                \
    X(REPLICA_BYTES, COUNTER, "doze_replica_bytes_total", "bytes written to replicas", "")         \
    X(REPLICA_REQUESTS, COUNTER, "doze_replica_requests_total",                                    \
      "requests to the stores of replicas, without those of merges", "")                           \
    X(REPLICA_ERRORS, COUNTER, "doze_replica_errors_total", "failed uploads", "")                  \
    X(MEMORY_USED, COUNTER, "doze_memory_byte_seconds_total",                                      \
      "memory of active sandboxes, times seconds, since the start of the daemon", "")              \
    X(STORAGE_USED, COUNTER, "doze_storage_byte_seconds_total",                                    \
      "files of sandboxes and snapshots, times seconds, since the start of the daemon", "state")   \
    X(RESIDENT, GAUGE, "process_resident_memory_bytes",                                            \
      "resident memory of the daemon without its cells", "")                                       \
    X(CPU, COUNTER, "process_cpu_seconds_total", "CPU time of the daemon without its cells", "")   \
    X(FILES, GAUGE, "process_open_fds", "open descriptors of the daemon", "")                      \
    X(STARTED, GAUGE, "process_start_time_seconds",                                                \
      "start time of the daemon, in seconds since 1970", "")                                       \
    X(BUILD, GAUGE, "doze_build_info", "always 1; the label is the version of doze", "version")    \
    X(REQUEST, HISTOGRAM, "doze_http_request_seconds",                                             \
      "time from a request to the end of its answer", "method,route,status")

enum {
    DZ_METRICS_ENUM(METRICS)
};
static const struct dz_metric_row rows[] = {DZ_METRICS_ROWS(METRICS)};

enum {
    SANDBOXES_MAX = 1000, /* sandboxes in one answer */
    STAT_MAX = 4096,      /* bytes of /proc/PID/stat */
    FIELD_CPU =
        11, /* field numbers, counted from 0 after the name in parentheses: utime, stime, ... */
    FIELD_RESIDENT = 21, /* resident memory in pages */
};

/* --- processes -------------------------------------------------------------------------- */

/* The kernel's figures of a process (0: this one); zeros if it is gone. */
static void process_of(int64_t pid, struct process *ret_process)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(STAT_MAX);
    struct dz_str rest, word;
    char path[64];
    uint64_t cpu = 0, pages = 0, n;
    (void)snprintf(path, sizeof path, pid ? "/proc/%lld/stat" : "/proc/self/stat", (long long)pid);
    *ret_process = (struct process){0};
    if (dz_fd_read_file(AT_FDCWD, path, &text, NULL) < 0)
        return;
    rest = dz_str_n(text.p, text.len);
    size_t name_end = dz_str_rfind_char(rest, ')');
    rest = dz_str_sub(rest, name_end == DZ_STR_NONE ? rest.n : name_end + 2, rest.n);
    for (int field = 0; field <= FIELD_RESIDENT && dz_str_split(&rest, ' ', &word); field++) {
        if (dz_num_u64(word, 0, UINT64_MAX, &n, NULL) < 0)
            continue;
        if (field == FIELD_CPU || field == FIELD_CPU + 1)
            cpu += n;
        else if (field == FIELD_RESIDENT)
            pages = n;
    }
    ret_process->cpu_ms = (int64_t)(cpu * 1000 / (uint64_t)sysconf(_SC_CLK_TCK));
    ret_process->resident_bytes = (int64_t)(pages * (uint64_t)sysconf(_SC_PAGESIZE));
}

static uint64_t open_files(void)
{
    uint64_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return 0;
    for (const struct dirent *d; (d = readdir(dir));)
        n += d->d_name[0] != '.';
    (void)closedir(dir);
    return n - 1; /* without the descriptor of this directory */
}

/* --- metrics ---------------------------------------------------------------------------------- */

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
    a->metered_ms = a->started_ms = dz_clock_real_ms();
    dz_metric_set(a->metrics, BUILD, 1, DZ_VERSION);
    dz_metric_set(a->metrics, STARTED, (double)a->started_ms / 1000);
    struct dz_control_counts c;
    dz_control_counts(a->control, &c);
    if (c.died[0])
        dz_metric_add(a->metrics, DIED, 1, c.died);
    dz_control_on_timed(a->control, on_timed, a);
    return 0;
}

/* How many operations of this name had this result ("*": any), and the 50th, 90th and 99th
 * percentile of their times. */
static uint64_t timed(const struct dz_api *a, const char *operation, const char *result,
                      double ret_seconds[static QUANTILES])
{
    static const double q[QUANTILES] = {0.5, 0.9, 0.99};
    for (size_t i = 0; i < QUANTILES; i++)
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
    /* Without a route the client may send any method, and so may visitors of previews; counting
     * those would use up the series. */
    dz_metric_observe(a->metrics, REQUEST, (double)duration_ns / 1e9,
                      !route                            ? "none"
                      : strcmp(route->method, "*") == 0 ? "any"
                                                        : dz_http_method(r),
                      route ? route->pattern : "none", text);
}

/* Add what the control plane has counted since the last call. */
static void add(struct dz_api *a, size_t metric, uint64_t now, uint64_t *before)
{
    dz_metric_add(a->metrics, metric, (double)(now - *before));
    *before = now;
}

/* Lags are kept until they are read here, the last 4096 of them. */
static void set_replicas(struct dz_api *a)
{
    struct dz_control_replicas *s = dz_zalloc(sizeof *s), *seen = &a->replicas;
    if (!s)
        return;
    dz_control_replicas(a->control, true, s);
    dz_metric_set(a->metrics, REPLICAS, (double)s->followed);
    dz_metric_set(a->metrics, REPLICAS_LAGGING, (double)s->lagging);
    dz_metric_set(a->metrics, REPLICAS_BEHIND, (double)s->behind);
    dz_metric_set(a->metrics, REPLICAS_FENCED, (double)s->fenced);
    dz_metric_set(a->metrics, REPLICA_LAG_MAX, (double)s->lag_ms / 1000);
    for (size_t i = 0; i < s->lag_count; i++)
        dz_metric_observe(a->metrics, REPLICA_LAG, (double)s->lag_s[i]);
    add(a, REPLICA_UPLOADS, s->uploads, &seen->uploads);
    add(a, REPLICA_SNAPSHOTS, s->snapshots, &seen->snapshots);
    add(a, REPLICA_BYTES, s->bytes, &seen->bytes);
    add(a, REPLICA_REQUESTS, s->requests, &seen->requests);
    add(a, REPLICA_ERRORS, s->errors, &seen->errors);
    dz_free(s);
}

static void add_egress(struct dz_api *a)
{
    struct dz_control_egress_counts now, *seen = &a->egress;
    dz_control_egress_counts(a->control, &now);
    dz_metric_set(a->metrics, EGRESS_OPEN, (double)now.open);
    dz_metric_add(a->metrics, EGRESS_OPENED, (double)(now.opened - seen->opened), "opened");
    dz_metric_add(a->metrics, EGRESS_OPENED, (double)(now.failed - seen->failed), "failed");
    dz_metric_add(a->metrics, EGRESS_OPENED, (double)(now.shut - seen->shut), "shut");
    dz_metric_add(a->metrics, EGRESS_BYTES, (double)(now.received - seen->received), "received");
    dz_metric_add(a->metrics, EGRESS_BYTES, (double)(now.sent - seen->sent), "sent");
    for (size_t i = 0; i < DZ_ARRAY_LEN(now.refused); i++)
        dz_metric_add(a->metrics, EGRESS_REFUSED, (double)(now.refused[i] - seen->refused[i]),
                      dz_control_egress_reasons[i]);
    dz_metric_add(a->metrics, EGRESS_NAMES, (double)(now.names - seen->names), "resolved");
    dz_metric_add(a->metrics, EGRESS_NAMES, (double)(now.names_refused - seen->names_refused),
                  "refused");
    dz_metric_add(a->metrics, EGRESS_RESTARTS, (double)(now.restarts - seen->restarts));
    *seen = now;
}

/* Add what was used since the last call. If the clock was set back, begin from there. */
static void add_metered(struct dz_api *a)
{
    struct dz_usage_sum of[DZ_USAGE_STATE_COUNT] = {0};
    int64_t now = dz_clock_real_ms(), from = a->metered_ms;
    a->metered_ms = now;
    if (from >= now || dz_control_metered(a->control, from, now, of, NULL) < 0)
        return;
    dz_metric_add(a->metrics, MEMORY_USED, (double)of[DZ_USAGE_active].memory / 1000);
    for (int i = 0; i < DZ_USAGE_STATE_COUNT; i++)
        dz_metric_add(a->metrics, STORAGE_USED, (double)of[i].storage / 1000, dz_usage_states[i]);
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
    struct dz_control_service_counts services;
    dz_control_service_counts(a->control, &services);
    add(a, SERVICE_STARTS, services.starts, &a->services.starts);
    add(a, SERVICE_FAILURES, services.failures, &a->services.failures);
    add(a, SERVICE_LOOPS, services.crash_loops, &a->services.crash_loops);
    struct dz_control_space space;
    dz_control_space(a->control, &space);
    dz_metric_set(a->metrics, DISK_FREE, (double)space.free_bytes);
    dz_metric_set(a->metrics, DISK_MARK, (double)space.mark_bytes);
    dz_metric_set(a->metrics, DISK_INODES, (double)space.free_inodes);
    dz_metric_set(a->metrics, DISK_RESERVE, (double)space.reserve_bytes);
    dz_metric_set(a->metrics, DISK_LEVEL, (double)space.level);
    set_replicas(a);
    add_egress(a);
    add_metered(a);
    struct process p;
    process_of(0, &p);
    dz_metric_set(a->metrics, RESIDENT, (double)p.resident_bytes);
    dz_metric_set(a->metrics, FILES, (double)open_files());
    dz_metric_set(a->metrics, CPU, (double)p.cpu_ms / 1000);
    dz_metrics_print(a->metrics, &b);
    dz_http_send(r, 200, "text/plain; version=0.0.4; charset=utf-8", &b);
}

/* --- statistics for people
 * ------------------------------------------------------------------------- */

struct listing {
    struct dz_api *api;
    struct dz_http_req *r;
    struct dz_json *j;
    size_t count;
};

static int put_warm(void *arg, const struct dz_sandbox_warm *w)
{
    struct listing *l = arg;
    struct process p = {0};
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_why why;
    const struct dz_control_target target = {dz_api_caller(l->r, l->api), w->id};
    if (l->count++ == SANDBOXES_MAX)
        return 1;
    if (w->pid)
        process_of(w->pid, &p);
    bool known = dz_control_get(l->api->control, target, &row, &why) == 0;
    dz_json_object(l->j);
    dz_json_put_strz(l->j, "id", w->id);
    dz_json_put_strz(l->j, "name", known && row.name && row.name[0] ? row.name : NULL);
    dz_json_put_strz(l->j, "tenant", w->tenant);
    dz_json_put_i64(l->j, "pid", w->pid);
    dz_json_put_i64(l->j, "cpu_ms", p.cpu_ms + w->native_cpu_ns / DZ_NS_PER_MS);
    dz_json_put_i64(l->j, "resident_bytes", p.resident_bytes + (int64_t)w->native_bytes);
    struct dz_control_replica replica;
    dz_control_replica_of(l->api->control, w->id, &replica);
    dz_json_put_u64(l->j, "egress_received_bytes", w->traffic.received);
    dz_json_put_u64(l->j, "egress_sent_bytes", w->traffic.sent);
    dz_json_put_u64(l->j, "commands", w->commands);
    dz_json_put_strz(l->j, "replica", replica.state);
    dz_json_put_i64(l->j, "replica_lag_ms", replica.lag_ms);
    dz_json_end(l->j);
    return 0;
}

static void put_latency(struct dz_json *j, const struct dz_api *a, const char *operation)
{
    double s[QUANTILES];
    uint64_t all = timed(a, operation, "*", s), good = timed(a, operation, "ok", s);
    dz_json_object(j);
    dz_json_put_strz(j, "operation", operation);
    dz_json_put_u64(j, "count", all);
    dz_json_put_u64(j, "errors", all - good);
    dz_json_put_double(j, "p50_ms", s[0] * 1000);
    dz_json_put_double(j, "p90_ms", s[1] * 1000);
    dz_json_put_double(j, "p99_ms", s[2] * 1000);
    dz_json_end(j);
}

static void put_totals(struct dz_json *j, const struct dz_control_counts *c)
{
    dz_json_key(j, "totals");
    dz_json_object(j);
    dz_json_put_u64(j, "creates", c->creates);
    dz_json_put_u64(j, "wakes", c->in.wakes);
    dz_json_put_u64(j, "wakes_cold", c->in.wakes_cold);
    dz_json_put_u64(j, "suspends", c->in.suspends);
    dz_json_put_u64(j, "crashes", c->in.crashes);
    dz_json_put_u64(j, "execs", c->in.execs);
    dz_json_end(j);
}

static void put_replicas(struct dz_json *j, const struct dz_api *a)
{
    struct dz_control_replicas *s = dz_zalloc(sizeof *s);
    if (s)
        dz_control_replicas(a->control, false, s);
    dz_json_key(j, "replicas");
    dz_json_object(j);
    dz_json_put_u64(j, "followed", s ? s->followed : 0);
    dz_json_put_u64(j, "lagging", s ? s->lagging : 0);
    dz_json_put_u64(j, "behind", s ? s->behind : 0);
    dz_json_put_u64(j, "fenced", s ? s->fenced : 0);
    dz_json_put_i64(j, "lag_ms", s ? s->lag_ms : 0);
    dz_json_put_u64(j, "uploads", s ? s->uploads : 0);
    dz_json_put_u64(j, "bytes", s ? s->bytes : 0);
    dz_json_put_u64(j, "errors", s ? s->errors : 0);
    dz_json_end(j);
    dz_free(s);
}

static void put_process(struct dz_json *j)
{
    struct process p;
    process_of(0, &p);
    dz_json_key(j, "process");
    dz_json_object(j);
    dz_json_put_i64(j, "cpu_ms", p.cpu_ms);
    dz_json_put_i64(j, "resident_bytes", p.resident_bytes);
    dz_json_put_u64(j, "open_files", open_files());
    dz_json_end(j);
}

void dz_api_stats(struct dz_http_req *r, void *api)
{
    static const char *const operations[] = {"create", "wake", "suspend", "freeze", "archive"};
    struct dz_api *a = api;
    struct dz_control_counts c;
    struct dz_api_out o;
    dz_control_counts(a->control, &c);
    dz_api_begin(&o);
    dz_json_put_strz(&o.json, "version", DZ_VERSION);
    dz_json_put_i64(&o.json, "uptime_ms", dz_clock_real_ms() - a->started_ms);
    dz_json_put_u64(&o.json, "connections", dz_http_connections(a->http));
    dz_json_put_u64(&o.json, "requests", dz_http_requests(a->http));
    dz_json_put_u64(&o.json, "warm", c.in.warm);
    dz_json_put_u64(&o.json, "operations", c.busy);
    put_totals(&o.json, &c);
    dz_json_key(&o.json, "latencies");
    dz_json_array(&o.json);
    for (size_t i = 0; i < DZ_ARRAY_LEN(operations); i++)
        put_latency(&o.json, a, operations[i]);
    dz_json_end(&o.json);
    put_replicas(&o.json, a);
    put_process(&o.json);
    dz_json_key(&o.json, "sandboxes");
    dz_json_array(&o.json);
    (void)dz_control_each_warm(a->control, put_warm, &(struct listing){a, r, &o.json, 0});
    dz_json_end(&o.json);
    dz_api_send(r, 200, &o);
}

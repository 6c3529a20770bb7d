/* SPDX-License-Identifier: MIT
 *
 * metrics.h - counters, gauges and histograms, printed for Prometheus (text format 0.0.4).
 *
 * All metrics of a program are one table of rows, normally made by an X-macro; a metric is
 * the index of its row.
 *
 *     #define METRICS(X)                                                                \
 *         X(REQUESTS, COUNTER, "doze_requests_total", "requests answered", "method,status") \
 *         X(WAKE, HISTOGRAM, "doze_wake_seconds", "time from request to awake", "")
 *     enum { DZ_METRICS_ENUM(METRICS) };
 *     static const struct dz_metric_row rows[] = {DZ_METRICS_ROWS(METRICS)};
 *
 *     dz_metric_add(m, REQUESTS, 1, "GET", "200");
 *     dz_metric_observe(m, WAKE, 0.0008);
 *
 * Each combination of label values is a series of its own; a metric has at most
 * DZ_METRIC_SERIES_MAX of them, and what would be one more counts in the series whose
 * values are all "other". One thread. A series for which there is no memory is not counted;
 * dz_metrics_lost() says how often that was.
 */
#ifndef DZ_METRICS_METRICS_H
#define DZ_METRICS_METRICS_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum {
    DZ_METRIC_LABELS_MAX = 4,    /* of one metric */
    DZ_METRIC_VALUE_MAX = 128,   /* bytes of a label's value; a longer one is cut */
    DZ_METRIC_SERIES_MAX = 1024, /* of one metric */
    DZ_METRIC_BUCKETS_MAX = 32,  /* of one histogram */
};

enum dz_metric_kind {
    DZ_METRIC_COUNTER,   /* only grows; its name ends in _total */
    DZ_METRIC_GAUGE,     /* what it is now */
    DZ_METRIC_HISTOGRAM, /* how often which size; its name ends in its unit */
};

struct dz_metric_row {
    enum dz_metric_kind kind;
    const char *name;
    const char *help;
    const char *labels;    /* names with commas between, "" for none */
    const double *buckets; /* upper bounds, rising, the last 0; NULL: dz_metric_seconds */
};

/* 0.1 ms to 60 s, about three to each power of ten. */
extern const double dz_metric_seconds[];

#define DZ_METRICS_ENUM_(id, kind, name, help, labels) id,
#define DZ_METRICS_ROW_(id, kind, name, help, labels) \
    [id] = {DZ_METRIC_##kind, name, help, labels, NULL},
#define DZ_METRICS_ENUM(METRICS) METRICS(DZ_METRICS_ENUM_)
#define DZ_METRICS_ROWS(METRICS) METRICS(DZ_METRICS_ROW_)

struct dz_metrics;

/* rows must live as long as the result. A row that Prometheus would not read (a name, a
 * label, bounds that do not rise) is a bug and aborts. */
DZ_NODISCARD int dz_metrics_new(const struct dz_metric_row *rows, size_t count,
                                struct dz_metrics **ret_metrics, struct dz_err *err);
void dz_metrics_free(struct dz_metrics *m); /* NULL is fine */

/* values: those of the row's labels, as many as it has, each a const char *. */
#define dz_metric_add(m, metric, by, ...) \
    dz_metric_add_to((m), (metric), (by), (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
#define dz_metric_set(m, metric, to, ...) \
    dz_metric_set_to((m), (metric), (to), (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
#define dz_metric_observe(m, metric, v, ...) \
    dz_metric_observe_in((m), (metric), (v), (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
void dz_metric_add_to(struct dz_metrics *m, size_t metric, double by, const char *const *values);
void dz_metric_set_to(struct dz_metrics *m, size_t metric, double to, const char *const *values);
void dz_metric_observe_in(struct dz_metrics *m, size_t metric, double v, const char *const *values);

/* Forget all series of a gauge, before it is set anew from what there is now. */
void dz_metric_clear(struct dz_metrics *m, size_t metric);

/* Over all series whose label values are these, "*" for any: how many values a histogram
 * has, and what part q (0 to 1) of them is not above, by a straight line through its bucket;
 * beyond the last bound, that bound. 0 when it has none. */
#define dz_metric_count(m, metric, ...) \
    dz_metric_count_of((m), (metric), (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
#define dz_metric_quantile(m, metric, q, ...) \
    dz_metric_quantile_of((m), (metric), (q), \
                          (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
uint64_t dz_metric_count_of(const struct dz_metrics *m, size_t metric, const char *const *values);
double dz_metric_quantile_of(const struct dz_metrics *m, size_t metric, double q,
                             const char *const *values);

uint64_t dz_metrics_lost(const struct dz_metrics *m);

/* Everything, as text. out's err tells when it had no room. */
void dz_metrics_print(const struct dz_metrics *m, struct dz_buf *out);
#define DZ_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

#endif

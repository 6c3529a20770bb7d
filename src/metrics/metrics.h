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
 * Each combination of label values is a series of its own. A metric has at most
 * DZ_METRIC_SERIES_MAX series; further combinations count in the series whose values are all
 * "other". A value whose series cannot be allocated is dropped; dz_metrics_lost() counts those.
 * One thread.
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
    DZ_METRIC_GAUGE,     /* the present value */
    DZ_METRIC_HISTOGRAM, /* counts values by size; its name ends in its unit */
};

struct dz_metric_row {
    enum dz_metric_kind kind;
    const char *name;
    const char *help;
    const char *labels;    /* names with commas between, "" for none */
    const double *buckets; /* ascending upper bounds, ends with 0; NULL: 0.1 ms to 60 s */
};

#define DZ_METRICS_ENUM_(id, kind, name, help, labels) id,
#define DZ_METRICS_ROW_(id, kind, name, help, labels) \
    [id] = {DZ_METRIC_##kind, name, help, labels, NULL},
#define DZ_METRICS_ENUM(METRICS) METRICS(DZ_METRICS_ENUM_)
#define DZ_METRICS_ROWS(METRICS) METRICS(DZ_METRICS_ROW_)

struct dz_metrics;

/* rows must outlive the result. A row that Prometheus would reject (invalid name or label, bounds
 * that do not ascend) is a bug and aborts. */
DZ_NODISCARD int dz_metrics_new(const struct dz_metric_row *rows, size_t count,
                                struct dz_metrics **ret_metrics, struct dz_err *err);
void dz_metrics_free(struct dz_metrics *m); /* NULL is fine */

/* The variable arguments are the values of the row's labels, a const char * for each label. */
#define dz_metric_add(m, metric, by, ...) \
    dz_metric_add_to((m), (metric), (by), (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
#define dz_metric_set(m, metric, to, ...) \
    dz_metric_set_to((m), (metric), (to), (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
#define dz_metric_observe(m, metric, v, ...) \
    dz_metric_observe_in((m), (metric), (v), (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
void dz_metric_add_to(struct dz_metrics *m, size_t metric, double by, const char *const *values);
void dz_metric_set_to(struct dz_metrics *m, size_t metric, double to, const char *const *values);
void dz_metric_observe_in(struct dz_metrics *m, size_t metric, double v, const char *const *values);

/* Remove all series of a gauge, before setting it anew. */
void dz_metric_clear(struct dz_metrics *m, size_t metric);

/* The number of values of a histogram, and their quantile q (0 to 1), over all series with these
 * label values ("*" matches any). The quantile is interpolated linearly within its bucket; values
 * above the last bound count as that bound. 0 if there are no values. */
#define dz_metric_count(m, metric, ...) \
    dz_metric_count_of((m), (metric), (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
#define dz_metric_quantile(m, metric, q, ...) \
    dz_metric_quantile_of((m), (metric), (q), \
                          (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
uint64_t dz_metric_count_of(const struct dz_metrics *m, size_t metric, const char *const *values);
double dz_metric_quantile_of(const struct dz_metrics *m, size_t metric, double q,
                             const char *const *values);

uint64_t dz_metrics_lost(const struct dz_metrics *m);

/* Print all metrics as text. out->err is set if the buffer is too small. */
void dz_metrics_print(const struct dz_metrics *m, struct dz_buf *out);
#define DZ_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

#endif

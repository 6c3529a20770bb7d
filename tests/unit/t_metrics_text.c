/* SPDX-License-Identifier: MIT
 * Metrics and what is printed of them. */
#include "metrics/metrics.h"

#include "tap.h"

static const double sizes[] = {1, 2.5, 10, 0};

enum {
    REQUESTS,
    WARM,
    SECONDS,
    SIZE,
};

static const struct dz_metric_row rows[] = {
    [REQUESTS] = {DZ_METRIC_COUNTER, "doze_requests_total", "requests answered", "method,status",
                  NULL},
    [WARM] = {DZ_METRIC_GAUGE, "doze_warm", "sandboxes with a cell", "", NULL},
    [SECONDS] = {DZ_METRIC_HISTOGRAM, "doze_wake_seconds", "time to wake", "", NULL},
    [SIZE] = {DZ_METRIC_HISTOGRAM, "doze_size_bytes", "sizes", "kind", sizes},
};

static struct dz_metrics *make(void)
{
    struct dz_metrics *m = NULL;
    struct dz_err err;
    CHECK_INT(dz_metrics_new(rows, DZ_ARRAY_LEN(rows), &m, &err), 0);
    return m;
}

static void shows(const struct dz_metrics *m, const char *text)
{
    struct dz_buf b = DZ_BUF_INIT(4 << 20);
    dz_metrics_print(m, &b);
    CHECK_INT(b.err, 0);
    if (!strstr(b.p, text))
        printf("# no %s in\n%.2000s\n", text, b.p);
    CHECK(strstr(b.p, text));
    dz_buf_release(&b);
}

TEST(counters_and_gauges)
{
    struct dz_metrics *m = make();
    shows(m, "# HELP doze_warm sandboxes with a cell\n# TYPE doze_warm gauge\n");
    dz_metric_add(m, REQUESTS, 1, "GET", "200");
    dz_metric_add(m, REQUESTS, 2, "GET", "200");
    dz_metric_add(m, REQUESTS, 1, "a\"b\\c\nd", "404");
    dz_metric_set(m, WARM, 7);
    dz_metric_add(m, WARM, -0.1);
    shows(
        m,
        "# TYPE doze_requests_total counter\ndoze_requests_total{method=\"GET\",status=\"200\"} 3\n");
    shows(m, "doze_requests_total{method=\"a\\\"b\\\\c\\nd\",status=\"404\"} 1\n");
    shows(m, "\ndoze_warm 6.9\n");
    dz_metric_set(m, WARM, 1e15 + 1);
    shows(m, "\ndoze_warm 1000000000000001\n");
    dz_metric_clear(m, WARM);
    dz_metric_set(m, WARM, 2);
    shows(m, "\ndoze_warm 2\n");
    dz_metrics_free(m);
}

TEST(histograms)
{
    struct dz_metrics *m = make();
    dz_metric_observe(m, SIZE, 0.5, "x");
    dz_metric_observe(m, SIZE, 1, "x"); /* a bound belongs to its bucket */
    dz_metric_observe(m, SIZE, 2, "x");
    dz_metric_observe(m, SIZE, 99, "x");
    dz_metric_observe(m, SECONDS, 0.0007);
    shows(m, "doze_size_bytes_bucket{kind=\"x\",le=\"1\"} 2\n"
             "doze_size_bytes_bucket{kind=\"x\",le=\"2.5\"} 3\n"
             "doze_size_bytes_bucket{kind=\"x\",le=\"10\"} 3\n"
             "doze_size_bytes_bucket{kind=\"x\",le=\"+Inf\"} 4\n"
             "doze_size_bytes_sum{kind=\"x\"} 102.5\n"
             "doze_size_bytes_count{kind=\"x\"} 4\n");
    shows(m, "doze_wake_seconds_bucket{le=\"0.0005\"} 0\n"
             "doze_wake_seconds_bucket{le=\"0.001\"} 1\n");
    dz_metrics_free(m);
}

TEST(series_have_a_ceiling_and_nothing_is_lost)
{
    struct dz_metrics *m = make();
    char text[16];
    for (int i = 0; i < DZ_METRIC_SERIES_MAX + 5; i++) {
        (void)snprintf(text, sizeof text, "m%d", i);
        dz_metric_add(m, REQUESTS, 1, text, "200");
    }
    shows(m, "doze_requests_total{method=\"m1023\",status=\"200\"} 1\n");
    shows(m, "doze_requests_total{method=\"other\",status=\"other\"} 5\n");
    CHECK_INT(dz_metrics_lost(m), 0);
    dz_metrics_free(m);
}

TEST(a_long_value_is_cut)
{
    struct dz_metrics *m = make();
    char text[300], want[400];
    memset(text, 'x', sizeof text);
    text[299] = '\0';
    dz_metric_add(m, REQUESTS, 1, text, "2");
    (void)snprintf(want, sizeof want, "{method=\"%.*s\",status=\"2\"} 1\n", DZ_METRIC_VALUE_MAX,
                   text);
    shows(m, want);
    dz_metrics_free(m);
}

TORTURE(memory_may_be_short)
{
    struct dz_metrics *m = NULL;
    struct dz_err err;
    if (dz_metrics_new(rows, DZ_ARRAY_LEN(rows), &m, &err) < 0)
        return;
    dz_metric_add(m, REQUESTS, 1, "GET", "200");
    dz_metric_observe(m, SECONDS, 1);
    struct dz_buf b = DZ_BUF_INIT(1 << 20);
    dz_metrics_print(m, &b);
    CHECK(b.err || dz_metrics_lost(m) || strstr(b.p, "doze_wake_seconds_count 1\n"));
    dz_buf_release(&b);
    dz_metrics_free(m);
}

TEST(parts_of_a_histogram_by_any_label)
{
    struct dz_metrics *m = make();
    CHECK_INT(dz_metric_count(m, SIZE, "*"), 0);
    CHECK(dz_metric_quantile(m, SIZE, 0.5, "*") <= 0);
    for (int i = 0; i < 10; i++)
        dz_metric_observe(m, SIZE, i < 5 ? 0.5 : 2, "a");
    dz_metric_observe(m, SIZE, 1e9, "b");
    CHECK_INT(dz_metric_count(m, SIZE, "a"), 10);
    CHECK_INT(dz_metric_count(m, SIZE, "*"), 11);
    CHECK_INT(dz_metric_count(m, SIZE, "c"), 0);
    /* half lie below 1, the rest evenly between 1 and 2.5 */
    CHECK_INT(1000 * dz_metric_quantile(m, SIZE, 0.5, "a"), 1000);
    CHECK_INT(1000 * dz_metric_quantile(m, SIZE, 0.25, "a"), 500);
    CHECK_INT(1000 * dz_metric_quantile(m, SIZE, 1, "a"), 2500);
    CHECK_INT(1000 * dz_metric_quantile(m, SIZE, 1, "*"), 10000); /* beyond the last bound */
    dz_metrics_free(m);
}

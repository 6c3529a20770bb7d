/* SPDX-License-Identifier: MIT
 *
 * metrics.c - metrics. Each has a list of series in the order in which they appeared, and a map
 * from their label values, joined with a byte that cannot be in text.
 *
 * A histogram keeps the number of values in each bucket; the cumulative counts that Prometheus
 * wants are computed when it is printed.
 */
#include "metrics/metrics.h"

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_MAX = DZ_METRIC_LABELS_MAX * (DZ_METRIC_VALUE_MAX + 1),
    SEPARATOR = 0x1f,
};

/* 0.1 ms to 60 s, about three to each power of ten. */
static const double seconds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                 0.025,  0.05,    0.1,    0.25,  0.5,    1,     2.5,
                                 5,      10,      30,     60,    0};

struct series {
    struct dz_list link;
    size_t key_size;
    char key[KEY_MAX];
    double value; /* of a histogram: the sum */
    uint64_t count;
    uint64_t buckets[]; /* of a histogram */
};

struct metric {
    const struct dz_metric_row *row;
    const double *bounds;
    size_t bound_count, label_count;
    struct dz_str labels[DZ_METRIC_LABELS_MAX];
    struct dz_list series;
    struct dz_map by_key;
};

struct dz_metrics {
    size_t count;
    uint64_t lost;
    struct metric metrics[];
};

/* --- rows ------------------------------------------------------------------------------ */

static bool is_name(struct dz_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!(s.p[i] >= 'a' && s.p[i] <= 'z') && s.p[i] != '_' &&
            !(i > 0 && s.p[i] >= '0' && s.p[i] <= '9'))
            return false;
    return s.n > 0;
}

static void init(struct metric *m, const struct dz_metric_row *row)
{
    struct dz_str rest = dz_str(row->labels), label;
    *m = (struct metric){.row = row, .bounds = row->buckets ? row->buckets : seconds};
    assert(is_name(dz_str(row->name)) && row->help[0]);
    while (rest.n > 0 && dz_str_split(&rest, ',', &label)) {
        assert(is_name(label) && m->label_count < DZ_METRIC_LABELS_MAX);
        m->labels[m->label_count++] = label;
    }
    if (row->kind == DZ_METRIC_HISTOGRAM) {
        for (; m->bounds[m->bound_count] > 0; m->bound_count++)
            assert(m->bound_count == 0 ||
                   m->bounds[m->bound_count] > m->bounds[m->bound_count - 1]);
        assert(m->bound_count > 0 && m->bound_count <= DZ_METRIC_BUCKETS_MAX);
    }
    dz_list_init(&m->series);
    dz_map_init(&m->by_key, DZ_METRIC_SERIES_MAX + 1);
}

int dz_metrics_new(const struct dz_metric_row *rows, size_t count, struct dz_metrics **ret_metrics,
                   struct dz_err *err)
{
    struct dz_metrics *m = dz_zalloc(sizeof *m + count * sizeof m->metrics[0]);
    if (!m)
        return dz_fail(err, DZ_ENOMEM, "keep %zu metrics: out of memory", count);
    m->count = count;
    for (size_t i = 0; i < count; i++)
        init(&m->metrics[i], &rows[i]);
    *ret_metrics = m;
    return 0;
}

void dz_metric_clear(struct dz_metrics *m, size_t metric)
{
    struct metric *at = &m->metrics[metric];
    dz_map_clear(&at->by_key);
    DZ_LIST_FOREACH(struct series, s, &at->series, link) {
        dz_list_remove(&s->link);
        dz_free(s);
    }
}

void dz_metrics_free(struct dz_metrics *m)
{
    for (size_t i = 0; m && i < m->count; i++) {
        dz_metric_clear(m, i);
        dz_map_release(&m->metrics[i].by_key);
    }
    dz_free(m);
}

uint64_t dz_metrics_lost(const struct dz_metrics *m)
{
    return m->lost;
}

/* --- series ------------------------------------------------------------------------------ */

static size_t join(const struct metric *m, const char *const *values, char key[static KEY_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < m->label_count; i++) {
        assert(values[i]); /* as many as the row has labels */
        size_t len = strnlen(values[i], DZ_METRIC_VALUE_MAX);
        memcpy(key + n, values[i], len);
        n += len;
        key[n++] = SEPARATOR;
    }
    assert(!values[m->label_count]);
    return n;
}

static struct series *new_series(struct metric *m, const char *key, size_t n)
{
    size_t buckets = m->row->kind == DZ_METRIC_HISTOGRAM ? m->bound_count + 1 : 0;
    struct series *s = dz_zalloc(sizeof *s + buckets * sizeof s->buckets[0]);
    if (!s)
        return NULL;
    dz_list_init(&s->link);
    memcpy(s->key, key, n);
    s->key_size = n;
    if (dz_map_put(&m->by_key, dz_str_n(s->key, n), s, NULL) < 0) {
        dz_free(s);
        return NULL;
    }
    dz_list_push_back(&m->series, &s->link);
    return s;
}

static struct series *find(struct dz_metrics *all, size_t metric, const char *const *values)
{
    static const char *const other[] = {"other", "other", "other", "other", NULL};
    char key[KEY_MAX];
    assert(metric < all->count);
    struct metric *m = &all->metrics[metric];
    size_t n = join(m, values, key);
    struct series *s = dz_map_get(&m->by_key, dz_str_n(key, n));
    if (s)
        return s;
    if (m->by_key.count >= DZ_METRIC_SERIES_MAX) {
        n = join(m, other + DZ_METRIC_LABELS_MAX - m->label_count, key);
        s = dz_map_get(&m->by_key, dz_str_n(key, n));
    }
    if (!s)
        s = new_series(m, key, n);
    all->lost += !s;
    return s;
}

void dz_metric_add_to(struct dz_metrics *m, size_t metric, double by, const char *const *values)
{
    struct series *s = find(m, metric, values);
    assert(by >= 0 || m->metrics[metric].row->kind == DZ_METRIC_GAUGE);
    if (s)
        s->value += by;
}

void dz_metric_set_to(struct dz_metrics *m, size_t metric, double to, const char *const *values)
{
    struct series *s = find(m, metric, values);
    if (s)
        s->value = to;
}

void dz_metric_observe_in(struct dz_metrics *m, size_t metric, double v, const char *const *values)
{
    const struct metric *at = &m->metrics[metric];
    struct series *s = find(m, metric, values);
    size_t i = 0;
    assert(at->row->kind == DZ_METRIC_HISTOGRAM);
    if (!s || !isfinite(v))
        return;
    while (i < at->bound_count && v > at->bounds[i])
        i++;
    s->buckets[i]++;
    s->count++;
    s->value += v;
}

/* --- looking -------------------------------------------------------------------------------- */

static bool fits(const struct metric *m, const struct series *s, const char *const *values)
{
    struct dz_str rest = dz_str_n(s->key, s->key_size), value;
    for (size_t i = 0; i < m->label_count; i++) {
        (void)dz_str_split(&rest, SEPARATOR, &value);
        assert(values[i]);
        if (strcmp(values[i], "*") != 0 && !dz_str_eqz(value, values[i]))
            return false;
    }
    return true;
}

uint64_t dz_metric_count_of(const struct dz_metrics *all, size_t metric, const char *const *values)
{
    const struct metric *m = &all->metrics[metric];
    uint64_t n = 0;
    DZ_LIST_FOREACH(struct series, s, &m->series, link)
        n += fits(m, s, values) ? s->count : 0;
    return n;
}

double dz_metric_quantile_of(const struct dz_metrics *all, size_t metric, double q,
                             const char *const *values)
{
    const struct metric *m = &all->metrics[metric];
    uint64_t buckets[DZ_METRIC_BUCKETS_MAX + 1] = {0}, total = 0, below = 0;
    assert(m->row->kind == DZ_METRIC_HISTOGRAM && q >= 0 && q <= 1);
    DZ_LIST_FOREACH(struct series, s, &m->series, link) {
        if (!fits(m, s, values))
            continue;
        total += s->count;
        for (size_t i = 0; i <= m->bound_count; i++)
            buckets[i] += s->buckets[i];
    }
    double rank = q * (double)total;
    for (size_t i = 0; i < m->bound_count && total > 0; i++) {
        if (buckets[i] > 0 && (double)(below + buckets[i]) >= rank) {
            double low = i ? m->bounds[i - 1] : 0;
            return low + (m->bounds[i] - low) * (rank - (double)below) / (double)buckets[i];
        }
        below += buckets[i];
    }
    return total > 0 ? m->bounds[m->bound_count - 1] : 0;
}

/* --- text ----------------------------------------------------------------------------------- */

static void put_number(struct dz_buf *out, double v)
{
    char text[32];
    for (int digits = 15; digits <= 17; digits++) { /* the shortest that reads back */
        (void)snprintf(text, sizeof text, "%.*g", digits, v);
        double back = strtod(text, NULL);
        if (back >= v && back <= v)
            break;
    }
    dz_buf_addf(out, " %s\n", text);
}

static void put_value(struct dz_buf *out, struct dz_str value)
{
    for (size_t i = 0; i < value.n; i++) {
        char c = value.p[i];
        if (c == '\\' || c == '"')
            dz_buf_addf(out, "\\%c", c);
        else if (c == '\n')
            dz_buf_adds(out, "\\n");
        else
            dz_buf_add(out, &c, 1);
    }
}

/* {a="x",b="y"} with one more label `le` when that is not NULL; "" for none at all. */
static void put_labels(struct dz_buf *out, const struct metric *m, const struct series *s,
                       const char *le)
{
    struct dz_str rest = dz_str_n(s->key, s->key_size), value;
    if (m->label_count == 0 && !le)
        return;
    dz_buf_adds(out, "{");
    for (size_t i = 0; i < m->label_count; i++) {
        (void)dz_str_split(&rest, SEPARATOR, &value);
        dz_buf_addf(out, "%s%.*s=\"", i ? "," : "", DZ_STR_ARG(m->labels[i]));
        put_value(out, value);
        dz_buf_adds(out, "\"");
    }
    if (le)
        dz_buf_addf(out, "%sle=\"%s\"", m->label_count ? "," : "", le);
    dz_buf_adds(out, "}");
}

static void put_histogram(struct dz_buf *out, const struct metric *m, const struct series *s)
{
    uint64_t sum = 0;
    for (size_t i = 0; i <= m->bound_count; i++) {
        char le[32] = "+Inf";
        if (i < m->bound_count)
            (void)snprintf(le, sizeof le, "%g", m->bounds[i]);
        sum += s->buckets[i];
        dz_buf_addf(out, "%s_bucket", m->row->name);
        put_labels(out, m, s, le);
        dz_buf_addf(out, " %llu\n", (unsigned long long)sum);
    }
    dz_buf_addf(out, "%s_sum", m->row->name);
    put_labels(out, m, s, NULL);
    put_number(out, s->value);
    dz_buf_addf(out, "%s_count", m->row->name);
    put_labels(out, m, s, NULL);
    dz_buf_addf(out, " %llu\n", (unsigned long long)s->count);
}

void dz_metrics_print(const struct dz_metrics *all, struct dz_buf *out)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    for (size_t i = 0; i < all->count; i++) {
        const struct metric *m = &all->metrics[i];
        dz_buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", m->row->name, m->row->help, m->row->name,
                    types[m->row->kind]);
        DZ_LIST_FOREACH(struct series, s, &m->series, link) {
            if (m->row->kind == DZ_METRIC_HISTOGRAM) {
                put_histogram(out, m, s);
                continue;
            }
            dz_buf_adds(out, m->row->name);
            put_labels(out, m, s, NULL);
            put_number(out, s->value);
        }
    }
}

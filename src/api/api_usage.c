/* SPDX-License-Identifier: MIT
 *
 * api_usage.c - what sandboxes and tenants have occupied, and what that costs, as JSON or CSV.
 *
 * Numbers are decimal text made from integers, so they are exact: a byte for a millisecond is the
 * twelfth digit of a GB-second.
 */
#include "api/api_int.h"

#include "base/clock.h"
#include "base/num.h"

#include <string.h>

enum {
    GB_SECOND_DIGITS = 12,
    AMOUNT_DIGITS = 9,
    STEP_MAX_S = 366 * 24 * 3600,
};

/* --- the question ------------------------------------------------------------------------ */

static int read_time(struct dz_http_req *r, const char *name, int64_t *ret_at, struct dz_why *why)
{
    const char *text = dz_http_query(r, name);
    int64_t at = 0;
    if (!text)
        return 0;
    if (dz_rfc3339_parse(dz_str(text), &at, NULL) < 0 || at <= 0)
        return dz_why(why, DZ_EINVAL, name,
                      "%s: must be a time after 1970, as 2030-01-31T12:00:00Z", name);
    *ret_at = at;
    return 0;
}

static int read_question(struct dz_http_req *r, struct dz_usage_question *q, bool *ret_csv,
                         struct dz_why *why)
{
    static const char *const names[] = {"from", "to", "step", "format", NULL};
    const char *step = dz_http_query(r, "step"), *format = dz_http_query(r, "format");
    int rc = dz_api_only(r, names, why);
    if (rc == 0)
        rc = read_time(r, "from", &q->from, why);
    if (rc == 0)
        rc = read_time(r, "to", &q->to, why);
    if (rc < 0)
        return rc;
    if (step && dz_duration_parse(dz_str(step), DZ_USAGE_STEP_MIN_MS, STEP_MAX_S * INT64_C(1000),
                                  &q->step_ms, NULL) < 0)
        return dz_why(why, DZ_EINVAL, "step", "step: must be a duration from 1s to 366d, as 1h");
    *ret_csv = format && strcmp(format, "csv") == 0;
    if (format && !*ret_csv && strcmp(format, "json") != 0)
        return dz_why(why, DZ_EINVAL, "format", "format: must be json or csv");
    return 0;
}

/* --- the answer -------------------------------------------------------------------------- */

static void put_decimal(struct dz_json *j, const char *key, dz_byte_ms n, unsigned digits)
{
    char text[DZ_USAGE_DECIMAL];
    dz_json_key(j, key);
    dz_json_raw(j, dz_str(dz_usage_decimal(n, digits, text)));
}

static void put_sum(struct dz_json *j, const struct dz_usage_prices *prices,
                    const struct dz_usage_sum *sum, dz_byte_ms amount)
{
    put_decimal(j, "memory_gb_seconds", sum->memory, GB_SECOND_DIGITS);
    put_decimal(j, "storage_gb_seconds", sum->storage, GB_SECOND_DIGITS);
    if (prices->currency[0])
        put_decimal(j, "amount", amount, AMOUNT_DIGITS);
    else
        dz_json_put_null(j, "amount");
}

static void put_period(struct dz_json *j, const struct dz_usage_prices *prices,
                       const struct dz_usage_period *p)
{
    struct dz_usage_sum all = {0};
    dz_byte_ms amounts[DZ_USAGE_STATE_COUNT], amount = 0;
    for (int i = 0; i < DZ_USAGE_STATE_COUNT; i++) {
        amounts[i] = dz_usage_amount(prices, (enum dz_usage_state)i, &p->of[i]);
        amount += amounts[i];
        all.memory += p->of[i].memory;
        all.storage += p->of[i].storage;
    }
    dz_json_object(j);
    dz_api_put_time(j, "from", p->from);
    dz_api_put_time(j, "to", p->to);
    put_sum(j, prices, &all, amount);
    dz_json_key(j, "states");
    dz_json_object(j);
    for (int i = 0; i < DZ_USAGE_STATE_COUNT; i++) {
        if (p->of[i].ms == 0)
            continue;
        dz_json_key(j, dz_usage_states[i]);
        dz_json_object(j);
        put_decimal(j, "seconds", (dz_byte_ms)p->of[i].ms, 3);
        put_sum(j, prices, &p->of[i], amounts[i]);
        dz_json_end(j);
    }
    dz_json_end(j);
    dz_json_end(j);
}

static void send_json(struct dz_http_req *r, const struct dz_usage_prices *prices,
                      const struct dz_usage_answer *a)
{
    struct dz_api_out o;
    dz_api_begin(&o);
    dz_json_put_strz(&o.json, "tenant", a->tenant);
    dz_json_put_strz(&o.json, "sandbox_id", a->sandbox_id[0] ? a->sandbox_id : NULL);
    dz_json_put_strz(&o.json, "currency", prices->currency[0] ? prices->currency : NULL);
    dz_json_key(&o.json, "total");
    put_period(&o.json, prices, &a->total);
    dz_json_key(&o.json, "periods");
    dz_json_array(&o.json);
    for (size_t i = 0; i < a->periods.n; i++)
        put_period(&o.json, prices, &a->periods.p[i]);
    dz_json_end(&o.json);
    dz_api_send(r, 200, &o);
}

/* Write a CSV line for each state of this period. The name of the currency has no line end, because
 * settings have none; quotes in the name are doubled. */
static void put_lines(struct dz_buf *b, const struct dz_usage_prices *prices,
                      const struct dz_usage_period *p)
{
    char from[DZ_RFC3339_TEXT], to[DZ_RFC3339_TEXT], text[DZ_USAGE_DECIMAL];
    for (int i = 0; i < DZ_USAGE_STATE_COUNT; i++) {
        const struct dz_usage_sum *sum = &p->of[i];
        if (sum->ms == 0)
            continue;
        dz_buf_addf(b, "%s,%s,%s,", dz_rfc3339_print(p->from, from), dz_rfc3339_print(p->to, to),
                    dz_usage_states[i]);
        dz_buf_addf(b, "%s,", dz_usage_decimal((dz_byte_ms)sum->ms, 3, text));
        dz_buf_addf(b, "%s,", dz_usage_decimal(sum->memory, GB_SECOND_DIGITS, text));
        dz_buf_addf(b, "%s,", dz_usage_decimal(sum->storage, GB_SECOND_DIGITS, text));
        if (prices->currency[0]) {
            dz_byte_ms amount = dz_usage_amount(prices, (enum dz_usage_state)i, sum);
            dz_buf_addf(b, "%s,\"", dz_usage_decimal(amount, AMOUNT_DIGITS, text));
            for (const char *c = prices->currency; *c; c++)
                dz_buf_addf(b, *c == '"' ? "\"\"" : "%c", *c);
            dz_buf_adds(b, "\"");
        } else {
            dz_buf_adds(b, ",");
        }
        dz_buf_adds(b, "\r\n");
    }
}

static void send_csv(struct dz_http_req *r, const struct dz_usage_prices *prices,
                     const struct dz_usage_answer *a)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(DZ_API_ANSWER_MAX);
    dz_buf_adds(&b, "from,to,state,seconds,memory_gb_seconds,storage_gb_seconds,amount,currency"
                    "\r\n");
    for (size_t i = 0; i < a->periods.n; i++)
        put_lines(&b, prices, &a->periods.p[i]);
    if (a->periods.n == 0)
        put_lines(&b, prices, &a->total);
    const struct dz_http_problem large = {.code = b.err, .message = "the answer is too large"};
    if (b.err)
        dz_http_refuse(r, &large);
    else
        dz_http_send(r, 200, "text/csv", &b);
}

/* Answer a question about the tenant, or, without one, about the sandbox that the route names. */
static void answer(struct dz_http_req *r, struct dz_api *a, const char *tenant)
{
    struct dz_usage_question q = {0};
    struct dz_usage_answer u;
    struct dz_why why = {0};
    bool csv = false;
    int rc = read_question(r, &q, &csv, &why);
    if (rc == 0)
        rc = tenant ? dz_control_tenant_usage(a->control, dz_api_caller(r, a), tenant, &q, &u, &why)
                    : dz_control_sandbox_usage(a->control, dz_api_target(r, a, "id"), &q, &u, &why);
    if (rc < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    if (csv)
        send_csv(r, dz_control_prices(a->control), &u);
    else
        send_json(r, dz_control_prices(a->control), &u);
    dz_usage_answer_release(&u);
}

void dz_api_sandbox_usage(struct dz_http_req *r, void *api)
{
    answer(r, api, NULL);
}

void dz_api_tenant_usage(struct dz_http_req *r, void *api)
{
    answer(r, api, dz_http_param(r, "tenant"));
}

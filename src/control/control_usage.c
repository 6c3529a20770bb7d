/* SPDX-License-Identifier: MIT
 *
 * control_usage.c - sums over the registry's journal of intervals; the timer that keeps the journal
 * alive; prices.
 *
 * The registry writes the journal, but does not know the size of files: it is reported here at the
 * end of each operation that may have changed it, and every FILES_MS while a sandbox has a cell.
 * Sums are exact: bytes times milliseconds in 128 bits.
 */
#include "control/control_usage.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "base/str.h"
#include "control/control_int.h"
#include "registry/registry_meter.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    MARK_MS = 60000,     /* interval of signs of life in the journal */
    MARKS_FOR_FILES = 5, /* the size of open files is reported with each fifth of them */
    PRICE_DIGITS = 9,
};

const char *const dz_usage_states[DZ_USAGE_STATE_COUNT] = {
#define X(name) #name,
    DZ_USAGE_STATES(X)
#undef X
};

/* --- the journal ------------------------------------------------------------------------- */

void dz_meter_file(struct dz_control *e, const char *id)
{
    struct dz_sandbox *s = dz_sandbox_find(e->sandboxes, id);
    uint64_t bytes = dz_live_bytes(e, id);
    struct dz_err err;
    if (s && s->metered == bytes + 1)
        return;
    if (dz_registry_meter_file(e->registry, id, (int64_t)bytes, &err) < 0)
        dz_log(DZ_LOG_WARN, "meter_failed", dz_log_strz("sandbox_id", id), dz_log_err(&err));
    else if (s)
        s->metered = bytes + 1;
}

void dz_meter_tick(void *arg)
{
    struct dz_control *e = arg;
    struct dz_err err;
    if (dz_registry_meter_mark(e->registry, &err) < 0)
        dz_log(DZ_LOG_WARN, "meter_failed", dz_log_err(&err));
    if (++e->marks % MARKS_FOR_FILES == 0)
        DZ_MAP_FOREACH(it, dz_sandboxes_map(e->sandboxes)) {
            const struct dz_sandbox *s = it->value;
            if (s->cell)
                dz_meter_file(e, s->id);
        }
    dz_timer_after(e->meter, MARK_MS);
}

/* --- sums -------------------------------------------------------------------------------- */

static enum dz_usage_state state_of(const char *name)
{
    for (int i = 0; i < DZ_USAGE_STATE_COUNT; i++)
        if (strcmp(dz_usage_states[i], name) == 0)
            return (enum dz_usage_state)i;
    return DZ_USAGE_suspended; /* a state of a newer doze: its memory is 0 */
}

static void add(struct dz_usage_sum *sum, const struct dz_registry_interval *i, int64_t ms)
{
    sum->ms += ms;
    sum->memory += (dz_byte_ms)ms * (uint64_t)i->memory;
    sum->storage += (dz_byte_ms)ms * ((dz_byte_ms)(uint64_t)i->file + (uint64_t)i->cold);
}

struct adding {
    struct dz_usage_period *total;
    struct dz_usage_periods *periods;
    int64_t step_ms;
};

static void add_interval(void *arg, const struct dz_registry_interval *i)
{
    struct adding *a = arg;
    enum dz_usage_state state = state_of(i->state);
    add(&a->total->of[state], i, i->until - i->since);
    if (!a->step_ms)
        return;
    for (int64_t at = i->since, end; at < i->until; at = end) {
        struct dz_usage_period *p = &a->periods->p[(at - a->total->from) / a->step_ms];
        end = p->to < i->until ? p->to : i->until;
        add(&p->of[state], i, end - at);
    }
}

static int make_periods(struct dz_usage_answer *a, int64_t step_ms, struct dz_why *why)
{
    int64_t length = a->total.to - a->total.from;
    if (step_ms < DZ_USAGE_STEP_MIN_MS || (length - 1) / step_ms >= DZ_USAGE_PERIODS_MAX)
        return dz_why(why, DZ_EINVAL, "step",
                      "step: must be 1s or more, and give at most %d periods between from and to",
                      DZ_USAGE_PERIODS_MAX);
    for (int64_t at = a->total.from; at < a->total.to; at += step_ms) {
        const struct dz_usage_period p = {
            .from = at, .to = a->total.to - at > step_ms ? at + step_ms : a->total.to};
        if (dz_vec_push(&a->periods, p) < 0)
            return dz_why(why, DZ_ENOMEM, NULL, "usage: out of memory");
    }
    return 0;
}

static int check_span(const struct dz_usage_question *q, struct dz_usage_period *ret,
                      struct dz_why *why)
{
    int64_t now = dz_clock_real_ms();
    ret->to = q->to ? q->to : now;
    ret->from = q->from ? q->from : ret->to - DZ_USAGE_SPAN_MS;
    if (ret->from >= ret->to)
        return dz_why(why, DZ_EINVAL, "from", "from: must be before to (default: now)");
    return 0;
}

static int sum_up(struct dz_control *e, const struct dz_usage_question *q,
                  struct dz_usage_answer *a, struct dz_why *why)
{
    int rc = check_span(q, &a->total, why);
    if (rc == 0 && q->step_ms)
        rc = make_periods(a, q->step_ms, why);
    if (rc < 0)
        return rc;
    struct adding adding = {&a->total, &a->periods, q->step_ms};
    const struct dz_registry_meter_filter f = {
        .tenant = a->tenant,
        .sandbox_id = a->sandbox_id[0] ? a->sandbox_id : NULL,
        .from = a->total.from,
        .to = a->total.to,
    };
    rc = dz_registry_meter_read(e->registry, &f, add_interval, &adding, &why->err);
    return rc < 0 ? dz_why_err(why, rc, &why->err) : 0;
}

void dz_usage_answer_release(struct dz_usage_answer *a)
{
    dz_vec_release(&a->periods);
}

static int answer(struct dz_control *e, const char *tenant, const char *sandbox_id,
                  const struct dz_usage_question *q, struct dz_usage_answer *ret,
                  struct dz_why *why)
{
    struct dz_usage_answer a = {.periods = DZ_VEC_INIT(DZ_USAGE_PERIODS_MAX)};
    (void)snprintf(a.tenant, sizeof a.tenant, "%s", tenant);
    (void)snprintf(a.sandbox_id, sizeof a.sandbox_id, "%s", sandbox_id);
    int rc = sum_up(e, q, &a, why);
    if (rc < 0)
        dz_usage_answer_release(&a);
    else
        *ret = a;
    return rc;
}

int dz_control_sandbox_usage(struct dz_control *e, struct dz_control_target target,
                             const struct dz_usage_question *q, struct dz_usage_answer *ret,
                             struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    DZ_AUTO(dz_freep) char *tenant = NULL;
    struct dz_err err;
    int rc = dz_control_find(e, target, &row, why);
    if (rc == 0)
        return answer(e, row.tenant, row.id, q, ret, why);
    int known = dz_registry_meter_tenant(e->registry, dz_control_sees(target.who), target.ref,
                                         &tenant, &err);
    if (known < 0)
        return dz_why_err(why, known, &err);
    return known ? answer(e, tenant, target.ref, q, ret, why) : rc;
}

int dz_control_tenant_usage(struct dz_control *e, const struct dz_control_caller *who,
                            const char *tenant, const struct dz_usage_question *q,
                            struct dz_usage_answer *ret, struct dz_why *why)
{
    const char *name = strcmp(tenant, "self") == 0 ? who->tenant : tenant;
    struct dz_why inner;
    if (!who->is_operator && strcmp(name, who->tenant) != 0)
        return dz_why(why, DZ_ENOENT, NULL, "there is no tenant %s", name);
    if (dz_control_check_name(name, &inner) < 0)
        return dz_why(why, DZ_EINVAL, "tenant", "%s is not a valid tenant name", name);
    return answer(e, name, "", q, ret, why);
}

int dz_control_metered(struct dz_control *e, int64_t from, int64_t to,
                       struct dz_usage_sum of[static DZ_USAGE_STATE_COUNT], struct dz_err *err)
{
    struct dz_usage_period total = {.from = from, .to = to};
    struct adding adding = {.total = &total};
    const struct dz_registry_meter_filter f = {.from = from, .to = to};
    int rc = dz_registry_meter_read(e->registry, &f, add_interval, &adding, err);
    for (int i = 0; i < DZ_USAGE_STATE_COUNT && rc == 0; i++) {
        of[i].ms += total.of[i].ms;
        of[i].memory += total.of[i].memory;
        of[i].storage += total.of[i].storage;
    }
    return rc;
}

/* --- money ------------------------------------------------------------------------------- */

int dz_usage_price_parse(const char *text, int64_t *ret_price, struct dz_err *err)
{
    struct dz_str rest = dz_str(text), whole = rest, part = {"", 0};
    char quoted[DZ_STR_QUOTED], digits[PRICE_DIGITS + 1] = "000000000";
    int64_t units = 0, nano = 0;
    size_t point = dz_str_find_char(rest, '.');
    if (point != DZ_STR_NONE) {
        whole = dz_str_sub(rest, 0, point);
        part = dz_str_sub(rest, point + 1, rest.n);
    }
    bool good = rest.n == 0 ||
                (whole.n > 0 && part.n <= PRICE_DIGITS && (point == DZ_STR_NONE || part.n > 0));
    for (size_t i = 0; i < rest.n && good; i++)
        good = (rest.p[i] >= '0' && rest.p[i] <= '9') || i == point;
    if (good && part.n)
        memcpy(digits, part.p, part.n);
    if (!good ||
        (rest.n && dz_num_i64(whole, 0, DZ_USAGE_PRICE_MAX / DZ_USAGE_NANO, &units, NULL) < 0) ||
        dz_num_i64(dz_str_n(digits, PRICE_DIGITS), 0, DZ_USAGE_NANO - 1, &nano, NULL) < 0)
        return dz_fail(err, DZ_EINVAL,
                       "%s is not a price: give digits, and up to nine more after a point, at most "
                       "%lld",
                       dz_str_quote(rest, quoted), (long long)(DZ_USAGE_PRICE_MAX / DZ_USAGE_NANO));
    *ret_price = units * DZ_USAGE_NANO + nano;
    return 0;
}

const struct dz_usage_prices *dz_control_prices(const struct dz_control *e)
{
    return &e->prices;
}

/* Whole GB-hours and the rest are multiplied apart, so that no product exceeds 128 bits. */
static dz_byte_ms cost(dz_byte_ms bytes_ms, int64_t price)
{
    const dz_byte_ms gb_hour = (dz_byte_ms)1000000000u * 3600000u;
    return bytes_ms / gb_hour * (uint64_t)price + bytes_ms % gb_hour * (uint64_t)price / gb_hour;
}

dz_byte_ms dz_usage_amount(const struct dz_usage_prices *p, enum dz_usage_state state,
                           const struct dz_usage_sum *sum)
{
    int64_t storage = state == DZ_USAGE_active     ? p->storage_active
                      : state == DZ_USAGE_snapshot ? p->snapshots
                                                   : p->storage_asleep;
    return cost(sum->memory, p->memory) + cost(sum->storage, storage);
}

char *dz_usage_decimal(dz_byte_ms n, unsigned digits, char out[static DZ_USAGE_DECIMAL])
{
    char back[DZ_USAGE_DECIMAL];
    size_t len = 0;
    bool shown = false;
    for (unsigned i = 0; n > 0 || i <= digits; i++, n /= 10) {
        unsigned digit = (unsigned)(n % 10);
        if (i == digits && shown)
            back[len++] = '.';
        shown = shown || digit || i >= digits;
        if (shown)
            back[len++] = (char)('0' + digit);
    }
    for (size_t i = 0; i < len; i++)
        out[i] = back[len - 1 - i];
    out[len] = '\0';
    return out;
}

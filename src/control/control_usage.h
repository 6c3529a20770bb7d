/* SPDX-License-Identifier: MIT
 *
 * control_usage.h - what sandboxes and snapshots have occupied, from the registry's journal
 * (registry_meter.h), and what that costs.
 *
 * Memory counts while a sandbox is active: the limit of its machine. Storage always counts: the
 * blocks of the live file and its WAL, and the bytes of the copy in cold storage. Processor time
 * is not counted. A GB is 10^9 bytes.
 */
#ifndef DZ_CONTROL_CONTROL_USAGE_H
#define DZ_CONTROL_CONTROL_USAGE_H

#include "base/vec.h"
#include "control/control_why.h"

enum {
    DZ_USAGE_PERIODS_MAX = 1000, /* periods of one answer */
    DZ_USAGE_DECIMAL = 48,       /* room for a decimal number as text */
};
#define DZ_USAGE_SPAN_MS     (30 * INT64_C(24) * 3600 * 1000) /* before `to`, without `from` */
#define DZ_USAGE_STEP_MIN_MS INT64_C(1000)
#define DZ_USAGE_NANO        INT64_C(1000000000) /* prices and amounts are in 10^-9 */
#define DZ_USAGE_PRICE_MAX   (INT64_C(1000000) * DZ_USAGE_NANO)

/* The states that are told apart: X(name). */
#define DZ_USAGE_STATES(X) X(created) X(active) X(suspended) X(frozen) X(archived) X(snapshot)
enum dz_usage_state {
#define X(name) DZ_USAGE_##name,
    DZ_USAGE_STATES(X)
#undef X
    DZ_USAGE_STATE_COUNT,
};
extern const char *const dz_usage_states[DZ_USAGE_STATE_COUNT];

__extension__ typedef unsigned __int128 dz_byte_ms;
struct dz_usage_sum {
    int64_t ms; /* summed up over sandboxes (or snapshots) */
    dz_byte_ms memory, storage;
};
struct dz_usage_period {
    int64_t from, to;
    struct dz_usage_sum of[DZ_USAGE_STATE_COUNT];
};
DZ_VEC(dz_usage_periods, struct dz_usage_period);

struct dz_usage_question {
    int64_t from, to, step_ms; /* 0: the default; for step_ms: one period */
};
struct dz_usage_answer {
    char tenant[DZ_CONTROL_VALUE_MAX + 1], sandbox_id[DZ_ID_TEXT]; /* sandbox_id "": all */
    struct dz_usage_period total;
    struct dz_usage_periods periods; /* without a step: none */
};
void dz_usage_answer_release(struct dz_usage_answer *a); /* for DZ_AUTO too; zeroed is fine */

/* Usage of one sandbox with the snapshots of it, also of a deleted one if target.ref is its id; or
 * of a tenant ("self": the caller's). */
DZ_NODISCARD int dz_control_sandbox_usage(struct dz_control *e, struct dz_control_target target,
                                          const struct dz_usage_question *q,
                                          struct dz_usage_answer *ret, struct dz_why *why);
DZ_NODISCARD int dz_control_tenant_usage(struct dz_control *e, const struct dz_control_caller *who,
                                         const char *tenant, const struct dz_usage_question *q,
                                         struct dz_usage_answer *ret, struct dz_why *why);
/* Of all tenants, for metrics: adds what was used between two times. */
DZ_NODISCARD int dz_control_metered(struct dz_control *e, int64_t from, int64_t to,
                                    struct dz_usage_sum of[static DZ_USAGE_STATE_COUNT],
                                    struct dz_err *err);

/* --- money ------------------------------------------------------------------------------- */

/* Prices of a GB for an hour, in 10^-9 of the currency. */
struct dz_usage_prices {
    char currency[16]; /* "": nothing has a price */
    int64_t memory, storage_active, storage_asleep, snapshots;
};
/* A price as decimal text: up to nine digits after the point. "" is 0. */
DZ_NODISCARD int dz_usage_price_parse(const char *text, int64_t *ret_price, struct dz_err *err);
const struct dz_usage_prices *dz_control_prices(const struct dz_control *e);
/* The price of what was used in one state, in 10^-9 of the currency, rounded down. */
dz_byte_ms dz_usage_amount(const struct dz_usage_prices *p, enum dz_usage_state state,
                           const struct dz_usage_sum *sum);

/* A number of 10^-digits as decimal text, without zeros at the end. Returns out. */
char *dz_usage_decimal(dz_byte_ms n, unsigned digits, char out[static DZ_USAGE_DECIMAL]);

#endif

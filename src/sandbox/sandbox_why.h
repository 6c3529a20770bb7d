/* SPDX-License-Identifier: MIT
 *
 * sandbox_why.h - how a request on a sandbox ended, and why it was refused or failed.
 */
#ifndef DZ_SANDBOX_SANDBOX_WHY_H
#define DZ_SANDBOX_SANDBOX_WHY_H

#include "base/attr.h"
#include "base/err.h"
#include "registry/registry.h"

#include <stdbool.h>
#include <stdint.h>

/* Error detail of a request: what a client gets besides the code. */
struct dz_why {
    struct dz_err err;
    const char *reason; /* "asleep", "owner_gone", ...; NULL: the one of its code, if any */
    char field[64];     /* field of the request that is wrong; "": none */
    unsigned retry_s;   /* try again after so many seconds; 0: unspecified */
};

/* Like dz_fail(): fills err and the field of the request (NULL: none). Returns code. */
DZ_COLD DZ_PRINTF(4, 5) int dz_why(struct dz_why *why, int code, const char *field, const char *fmt,
                                   ...);
/* DZ_EINVAL with the reason "unsupported": doze knows the field and does not implement it yet. */
DZ_COLD int dz_why_unsupported(struct dz_why *why, const char *field, const char *text);
DZ_COLD int dz_why_err(struct dz_why *why, int code, const struct dz_err *err);
/* The word that a client gets as `reason`; NULL: the answer has no reason. */
const char *dz_why_reason(const struct dz_why *why);
#ifdef DZ_ANALYZE /* like dz_fail(), they return a negative code */
#define dz_why(...)     dz_err_negative(dz_why(__VA_ARGS__))
#define dz_why_err(...) dz_err_negative(dz_why_err(__VA_ARGS__))
#endif

/* The wake source: where the file of a woken sandbox came from. */
enum dz_rung {
    DZ_RUNG_WARM, /* it was active already */
    DZ_RUNG_LOCAL,
    DZ_RUNG_COLD,
    DZ_RUNG_FRESH,
};
const char *dz_rung_name(enum dz_rung r);

struct dz_sandbox_result {
    int code;                      /* 0 or DZ_E* */
    const struct dz_why *why;      /* set if code < 0 */
    const struct dz_instance *row; /* the row as it is now; NULL: there is none */
    enum dz_rung rung;             /* of a wake */
    bool memory_lost;
    int64_t us; /* duration */
};
typedef void dz_sandbox_done_fn(void *arg, const struct dz_sandbox_result *result);

#endif

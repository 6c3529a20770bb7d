/* SPDX-License-Identifier: MIT
 *
 * control_why.h - the caller, the target and the error of a request: types that all other headers
 * of the control plane use.
 */
#ifndef DZ_CONTROL_CONTROL_WHY_H
#define DZ_CONTROL_CONTROL_WHY_H

#include "base/attr.h"
#include "base/err.h"
#include "base/id.h"
#include "sandbox/sandbox_why.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dz_control;

enum {
    DZ_CONTROL_NAME_MAX = 63,        /* bytes of a sandbox's name */
    DZ_CONTROL_VALUE_MAX = 255,      /* bytes of a label's value */
    DZ_CONTROL_TENANTS_MAX = 100000, /* tenants that are remembered */
};

/* The caller of a request. The operator (the owner of the socket) sees all tenants, and creates
 * objects for `tenant`. For other callers the objects of other tenants do not exist. */
struct dz_control_caller {
    const char *tenant;
    bool is_operator;
    const char *token; /* id of the caller's token; NULL: none */
};

/* A copy of a caller that outlives its request, for work that continues in a later turn of the
 * loop. */
struct dz_control_own_caller {
    /* its strings point to the next two members, so it must not be copied */
    struct dz_control_caller who;
    char tenant[DZ_CONTROL_NAME_MAX + 1];
    char token[DZ_ID_TEXT];
};
void dz_control_caller_keep(struct dz_control_own_caller *own, const struct dz_control_caller *who);
/* Is the caller still valid? DZ_EUNAUTH: its token was revoked or has expired. */
DZ_NODISCARD int dz_control_caller_check(struct dz_control *e, const struct dz_control_caller *who,
                                         struct dz_why *why);

/* The object that a request names, by name or by a prefix of its id, and the caller. */
struct dz_control_target {
    const struct dz_control_caller *who;
    const char *ref;
};

#endif

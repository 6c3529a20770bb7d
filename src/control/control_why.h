/* SPDX-License-Identifier: MIT
 *
 * control_why.h - who asks, about what, and how it is told that something was refused
 * or has ended. What all other headers of the control plane use.
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
    DZ_CONTROL_TENANTS_MAX = 100000, /* of whom something is remembered */
};

/* Who asks. The operator (the owner of the socket) sees all tenants; what he makes is
 * `tenant`'s. Anybody else's sandboxes do not exist for a tenant. */
struct dz_control_caller {
    const char *tenant;
    bool is_operator;
    const char *token; /* id of the token that says so; NULL: none */
};

/* A caller that outlives its request: what crosses a hop of the loop has a copy of its own. */
struct dz_control_own_caller {
    struct dz_control_caller who; /* its strings are the next two: not to be copied */
    char tenant[DZ_CONTROL_NAME_MAX + 1];
    char token[DZ_ID_TEXT];
};
void dz_control_caller_keep(struct dz_control_own_caller *own, const struct dz_control_caller *who);
/* May this caller still ask? DZ_EUNAUTH: its token was revoked, or has expired. */
DZ_NODISCARD int dz_control_caller_check(struct dz_control *e, const struct dz_control_caller *who,
                                         struct dz_why *why);

/* What is asked about, as its name or the beginning of its id, and by whom. */
struct dz_control_target {
    const struct dz_control_caller *who;
    const char *word;
};

#endif

/* SPDX-License-Identifier: MIT
 *
 * control_token.h - tokens: who may ask from afar.
 */
#ifndef DZ_CONTROL_CONTROL_TOKEN_H
#define DZ_CONTROL_CONTROL_TOKEN_H

#include "base/hash.h"
#include "control/control_why.h"
#include "registry/registry_record.h"

enum {
    DZ_CONTROL_SECRET = 70, /* room for a secret with its terminator */
};
struct dz_control_token_spec {
    const char *name, *tenant;
    const char *scope;       /* "tenant", or "operator": who has it is the operator, from afar */
    int64_t expires_in_ms;   /* 0: never */
    const char *quotas_json; /* of what is made with it; NULL: none but its tenant's */
};
/* All three are the operator's, DZ_EDENIED for others. The secret is told here and never again;
 * the row is to be released. */
DZ_NODISCARD int dz_control_token_add(struct dz_control *e, const struct dz_control_caller *who,
                                      const struct dz_control_token_spec *spec,
                                      char ret_secret[static DZ_CONTROL_SECRET],
                                      struct dz_token_row *ret_row, struct dz_why *why);
/* Rows by id, appended: those that the filter's tenant, after and limit let through. */
DZ_NODISCARD int dz_control_tokens(struct dz_control *e, const struct dz_control_caller *who,
                                   const struct dz_registry_record_filter *filter,
                                   struct dz_token_rows *rows, struct dz_why *why);
/* By id, or by a name that only one has; *ret_id: which it was. */
DZ_NODISCARD int dz_control_token_remove(struct dz_control *e, const struct dz_control_caller *who,
                                         const char *word, char ret_id[static DZ_ID_TEXT],
                                         struct dz_why *why);
/* The hash of a secret, by which it is found; false: it is none. */
bool dz_control_secret_hash(struct dz_str secret, char ret_sha256[static DZ_SHA256_HEX]);
/* DZ_ENOENT: none, expired or revoked. The row is to be released. */
DZ_NODISCARD int dz_control_token_find(struct dz_control *e, const char *sha256,
                                       struct dz_token_row *ret_row, struct dz_err *err);
void dz_control_token_used(struct dz_control *e, const char *id); /* now; kept to the minute */

#endif

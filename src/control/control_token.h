/* SPDX-License-Identifier: MIT
 *
 * control_token.h - tokens: how clients on TCP prove who they are.
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
    const char *scope;     /* "tenant", or "operator": its holder has all rights of the operator */
    int64_t expires_in_ms; /* 0: never */
    const char *quotas_json; /* quotas of what is created with it; NULL: only its tenant's count */
};
/* All three are for the operator only, DZ_EDENIED for others. The secret is returned here and never
 * again; the caller releases the row. */
DZ_NODISCARD int dz_control_token_add(struct dz_control *e, const struct dz_control_caller *who,
                                      const struct dz_control_token_spec *spec,
                                      char ret_secret[static DZ_CONTROL_SECRET],
                                      struct dz_token_row *ret_row, struct dz_why *why);
/* Append rows ordered by id that match the filter's tenant, after and limit. */
DZ_NODISCARD int dz_control_tokens(struct dz_control *e, const struct dz_control_caller *who,
                                   const struct dz_registry_record_filter *filter,
                                   struct dz_token_rows *rows, struct dz_why *why);
/* By id, or by name if that is unique; *ret_id: its id. */
DZ_NODISCARD int dz_control_token_remove(struct dz_control *e, const struct dz_control_caller *who,
                                         const char *word, char ret_id[static DZ_ID_TEXT],
                                         struct dz_why *why);
/* The hash by which a secret is found; false: it is malformed. */
bool dz_control_secret_hash(struct dz_str secret, char ret_sha256[static DZ_SHA256_HEX]);
/* DZ_ENOENT: unknown, expired or revoked. The caller releases the row. */
DZ_NODISCARD int dz_control_token_find(struct dz_control *e, const char *sha256,
                                       struct dz_token_row *ret_row, struct dz_err *err);
/* record that it was used now, to the minute */
void dz_control_token_used(struct dz_control *e, const char *id);

#endif

/* SPDX-License-Identifier: MIT
 *
 * control_key.h - idempotency keys: requests that come twice.
 */
#ifndef DZ_CONTROL_CONTROL_KEY_H
#define DZ_CONTROL_CONTROL_KEY_H

#include "control/control_why.h"
#include "registry/registry_record.h"

/* What a client's key says of its request. */
struct dz_control_key {
    const char *key, *sha256; /* 1 to DZ_CONTROL_IDEM_MAX bytes; of all that was asked */
    const char *sandbox_id;   /* that the request is about to make; NULL: it makes none */
};
enum dz_control_key_is {
    DZ_CONTROL_KEY_NEW,      /* begin it, then dz_control_key_end */
    DZ_CONTROL_KEY_ANSWERED, /* row->http_status, row->response are the answer */
    DZ_CONTROL_KEY_MADE,     /* an earlier daemon made row->sandbox_id and could not answer */
};
enum {
    DZ_CONTROL_IDEM_MAX = 255,   /* bytes of a key */
    DZ_CONTROL_KEYS_MAX = 10000, /* that are kept, of a tenant */
    DZ_CONTROL_KEYS_UNDER_WAY = 65536,
    DZ_CONTROL_KEY_UNKEPT = 100000, /* added to http_status: the answer was too large to keep */
};
/* One of the above; DZ_EEXIST: of another request, or interrupted; DZ_ECANCELED: under way.
 * The row is to be released unless it is NEW. */
DZ_NODISCARD int dz_control_key_begin(struct dz_control *e, const struct dz_control_caller *who,
                                      const struct dz_control_key *key,
                                      struct dz_idempotency_row *ret_row, struct dz_why *why);
/* status 0: it did nothing, and may be begun again. */
void dz_control_key_end(struct dz_control *e, const struct dz_control_caller *who, const char *key,
                        int status, struct dz_str response);

#endif

/* SPDX-License-Identifier: MIT
 *
 * control_key.h - idempotency keys: requests that are sent twice.
 */
#ifndef DZ_CONTROL_CONTROL_KEY_H
#define DZ_CONTROL_CONTROL_KEY_H

#include "control/control_why.h"
#include "registry/registry_record.h"

/* A client's key and the hash of its request. */
struct dz_control_key {
    const char *key, *sha256; /* 1 to DZ_CONTROL_IDEM_MAX bytes; hash of path and body */
    const char *sandbox_id;   /* the sandbox that the request will create; NULL: none */
};
enum dz_control_key_is {
    DZ_CONTROL_KEY_NEW,      /* execute the request, then call dz_control_key_end */
    DZ_CONTROL_KEY_ANSWERED, /* row->http_status, row->response are the answer */
    DZ_CONTROL_KEY_MADE,     /* an earlier daemon created row->sandbox_id but did not answer */
};
enum {
    DZ_CONTROL_IDEM_MAX = 255,   /* bytes of a key */
    DZ_CONTROL_KEYS_MAX = 10000, /* keys that are kept for a tenant */
    DZ_CONTROL_KEYS_UNDER_WAY = 65536,
    DZ_CONTROL_KEY_UNKEPT = 100000, /* added to http_status: the answer was too large to keep */
};
/* One of the above; DZ_EEXIST: the key belongs to another request, or the request was interrupted;
 * DZ_ECANCELED: it is in progress. The caller releases the row unless the result is NEW. */
DZ_NODISCARD int dz_control_key_begin(struct dz_control *e, const struct dz_control_caller *who,
                                      const struct dz_control_key *key,
                                      struct dz_idempotency_row *ret_row, struct dz_why *why);
/* status 0: the request had no effect and may be executed again. */
void dz_control_key_end(struct dz_control *e, const struct dz_control_caller *who, const char *key,
                        int status, struct dz_str response);

#endif

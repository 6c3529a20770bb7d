/* SPDX-License-Identifier: MIT
 *
 * engine_key.h - idempotency keys: requests that come twice.
 */
#ifndef DZ_ENGINE_ENGINE_KEY_H
#define DZ_ENGINE_ENGINE_KEY_H

#include "engine/engine_why.h"
#include "registry/registry_record.h"

/* What a client's key says of its request. */
struct dz_engine_key {
    const char *key, *sha256; /* 1 to DZ_ENGINE_IDEM_MAX bytes; of all that was asked */
    const char *sandbox_id;   /* that the request is about to make; NULL: it makes none */
};
enum dz_engine_key_is {
    DZ_ENGINE_KEY_NEW,      /* begin it, then dz_engine_key_end */
    DZ_ENGINE_KEY_ANSWERED, /* row->http_status, row->response are the answer */
    DZ_ENGINE_KEY_MADE,     /* an earlier daemon made row->sandbox_id and could not answer */
};
enum {
    DZ_ENGINE_IDEM_MAX = 255,   /* bytes of a key */
    DZ_ENGINE_KEYS_MAX = 10000, /* that are kept, of a tenant */
    DZ_ENGINE_KEYS_UNDER_WAY = 65536,
    DZ_ENGINE_KEY_UNKEPT = 100000, /* added to http_status: the answer was too large to keep */
};
/* One of the above; DZ_EEXIST: of another request, or interrupted; DZ_ECANCELED: under way.
 * The row is to be released unless it is NEW. */
DZ_NODISCARD int dz_engine_key_begin(struct dz_engine *e, const struct dz_engine_caller *who,
                                     const struct dz_engine_key *key,
                                     struct dz_idempotency_row *ret_row, struct dz_why *why);
/* status 0: it did nothing, and may be begun again. */
void dz_engine_key_end(struct dz_engine *e, const struct dz_engine_caller *who, const char *key,
                       int status, struct dz_str response);

#endif

/* SPDX-License-Identifier: MIT
 *
 * blob_hash.h - taking an object's hash while something else is done with it;
 * shared inside src/blob only.
 */
#ifndef DZ_BLOB_BLOB_HASH_H
#define DZ_BLOB_BLOB_HASH_H

#include "blob/blob.h"

struct dz_blob_hashing;

/* Other threads begin with the hash of `in`, which has a descriptor and must outlive
 * this. */
DZ_NODISCARD int dz_blob_hashing_start(struct dz_blob_in *in, const _Atomic bool *cancel,
                                       struct dz_blob_hashing **ret_hashing, struct dz_err *err);
/* This thread helps; when it returns, the hash is there. */
DZ_NODISCARD int dz_blob_hashing_finish(struct dz_blob_hashing *h,
                                        uint8_t ret_digest[static DZ_SHA256_BYTES],
                                        struct dz_err *err);
/* Calls off what is left, and releases; for DZ_AUTO. NULL is fine. */
void dz_blob_hashing_endp(struct dz_blob_hashing **h);

#endif

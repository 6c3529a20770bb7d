/* SPDX-License-Identifier: MIT
 *
 * blob_open.h - open the store that settings describe: a directory or a bucket, claimed by one
 * owner.
 */
#ifndef DZ_BLOB_OPEN_H
#define DZ_BLOB_OPEN_H

#include "blob/blob_s3.h"

enum {
    DZ_BLOB_OWNER_TEXT = 33, /* an owner's id, 32 hexadecimal digits, with its terminator */
};
#define DZ_BLOB_OWNER_KEY "doze-owner" /* the object by which an owner claims a store */

/* All texts are borrowed for the call. */
struct dz_blobs_place {
    const char *url;      /* s3://BUCKET[/PREFIX][?...], or file:///DIR */
    struct dz_s3_opts s3; /* of a bucket; its url is not used */
    const char *key_file; /* objects are encrypted (blob_crypt.h); NULL or "": they are not */
    const char *owner;    /* NULL: the store is not claimed */
};

/* Open a store. Makes no request to a bucket; a missing directory is made. DZ_EINVAL: the URL is
 * neither of these. */
DZ_NODISCARD int dz_blobs_open(const struct dz_blobs_place *p, struct dz_blobs **ret_store,
                               struct dz_err *err);

/* Wrap a store so that only one owner uses it. The first writer leaves the object
 * DZ_BLOB_OWNER_KEY, which lists do not show. To an owner that finds the id of another one there,
 * everything but reading is DZ_EDENIED. Takes over `inner`, also if it fails. `url` is for
 * messages. */
DZ_NODISCARD int dz_blobs_claim(struct dz_blobs *inner, const char *url, const char *owner,
                                struct dz_blobs **ret_store, struct dz_err *err);

/* The owner's id that a data directory keeps in its file "store-owner"; it is made at the first
 * call. */
DZ_NODISCARD int dz_blob_owner_of(const char *directory, char ret_owner[static DZ_BLOB_OWNER_TEXT],
                                  struct dz_err *err);

/* The cold storage of a data directory, claimed for it. A place without an url is its directory
 * "cold", and not claimed unless it is encrypted. */
DZ_NODISCARD int dz_blobs_open_cold(const struct dz_blobs_place *p, const char *data,
                                    struct dz_blobs **ret_store, struct dz_err *err);

/* Write, read, list and remove a small object: an error says what failed. The place is not claimed.
 */
struct dz_blobs_probed {
    int64_t us;            /* how long that took */
    int64_t clock_ahead_s; /* of a bucket: this machine's clock, less the server's */
};
DZ_NODISCARD int dz_blobs_probe(const struct dz_blobs_place *place,
                                struct dz_blobs_probed *ret_probed, struct dz_err *err);

#endif

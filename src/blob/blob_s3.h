/* SPDX-License-Identifier: MIT
 *
 * blob_s3.h - a store of byte objects in a bucket of Amazon S3, or of any server that speaks its
 * protocol.
 *
 * An object's key in the bucket is the store's prefix, "/", and the object's key in the store. An
 * object that is larger than DZ_BLOB_HASH_PIECE is uploaded in parts of that length, several at
 * once, and read in ranges; for a caller that reads in order, the next ranges are read ahead.
 *
 * Each request is signed (AWS Signature Version 4) with the hash of its body, so a server takes no
 * bytes that changed on the way. Objects carry their hash. If a caller reads an object in order
 * from its first byte to its last and the hash is wrong, it gets DZ_ECORRUPT instead of the last
 * bytes.
 *
 * A request that fails for a reason that passes (no connection, a server that is overloaded or
 * broken, a clock that is wrong) is repeated after a random pause that grows. A PUT that was
 * repeated may have been stored the first time: each writer marks its object, so it knows its own.
 *
 * In a directory, a reader keeps an object that is replaced. In a bucket the reader of a large
 * object loses it: DZ_EIO, but never bytes of both.
 *
 * Secrets stand in no message. Several threads may use one store.
 */
#ifndef DZ_BLOB_S3_H
#define DZ_BLOB_S3_H

#include "blob/blob.h"

enum {
    DZ_S3_PARTS_MAX = 10000, /* of an object, which so has at most 78 GiB */
    DZ_S3_TRIES = 8,
    DZ_S3_PATIENCE_MS = 60000,
    DZ_S3_ABANDONED_MS = 24 * 3600 * 1000,
};

/* All texts are borrowed for the call. NULL or "" means the value of the environment variable, and
 * then the default in parentheses. */
struct dz_s3_opts {
    /* s3://BUCKET[/PREFIX][?endpoint=URL][&region=NAME][&path-style=true|false] */
    const char *url;
    /* The URL is asked first. http[s]://HOST[:PORT]; AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL (Amazon)
     */
    const char *endpoint;
    /* "true" or "false": is the bucket's name in the path, or in the host's name? The URL is asked
     * first. (false for Amazon, true for other endpoints) */
    const char *path_style;
    const char *region; /* AWS_REGION, AWS_DEFAULT_REGION (us-east-1) */
    /* Both keys or none. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN (the file). */
    const char *access_key, *secret_key, *session_token;
    const char *credentials_file; /* AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials) */
    const char *profile;          /* its section; AWS_PROFILE (default) */
    const char *ca_file;          /* PEM; AWS_CA_BUNDLE (the system's) */
    unsigned tries;               /* of a request; 0: DZ_S3_TRIES */
    int64_t patience_ms;          /* a request is not tried again after it; 0: DZ_S3_PATIENCE_MS */
    int64_t
        abandoned_ms; /* a sweep removes uploads that began so long ago; 0: DZ_S3_ABANDONED_MS */
    const _Atomic bool *stop; /* set by another thread: requests end soon, with DZ_ECANCELED; it
                                 must outlive the store. NULL: nobody does that */
};

/* Open a store. It makes no request. DZ_EINVAL: the URL, the endpoint or half a pair of keys is
 * wrong; DZ_EDENIED: there are no keys; DZ_EUNSUPPORTED: libcurl or libexpat is missing. */
DZ_NODISCARD int dz_blobs_open_s3(const struct dz_s3_opts *o, struct dz_blobs **ret_store,
                                  struct dz_err *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * blob_crypt.h - a store whose objects are encrypted, on top of any other store.
 *
 * An object is encrypted in chunks of 64 KiB, each with AES-256-GCM (docs/format/encrypted.md), so
 * a reader may begin anywhere, and changed, exchanged or reordered bytes are detected when they are
 * read. Names, sizes and times of objects are not hidden. An object that was cut is detected when
 * its last chunk is read.
 *
 * A key file has a line for each key. The first key encrypts; each decrypts. So a key is replaced
 * by putting a new line before the old ones.
 */
#ifndef DZ_BLOB_CRYPT_H
#define DZ_BLOB_CRYPT_H

#include "blob/blob.h"

enum {
    DZ_BLOB_KEY_ID_TEXT = 17, /* 16 hexadecimal digits and the terminator */
    DZ_BLOB_KEYS_MAX = 64,    /* keys of a file */
};

struct dz_blob_keys;

/* Read a key file. DZ_ENOENT; DZ_EDENIED: other users may read it; DZ_EINVAL: a line is no key. */
DZ_NODISCARD int dz_blob_keys_load(const char *path, struct dz_blob_keys **ret_keys,
                                   struct dz_err *err);
void dz_blob_keys_free(struct dz_blob_keys *k); /* NULL is fine */
void dz_blob_keys_freep(struct dz_blob_keys **k);
size_t dz_blob_keys_count(const struct dz_blob_keys *k);
/* The id of a key, which is no secret: objects name it. Returns out. */
char *dz_blob_keys_id(const struct dz_blob_keys *k, size_t index,
                      char out[static DZ_BLOB_KEY_ID_TEXT]);
/* Make a new file with one random key, mode 0600, durably. DZ_EEXIST. */
DZ_NODISCARD int dz_blob_keys_make(const char *path, struct dz_err *err);

/* Wrap a store: objects are encrypted when written, and must be encrypted when read. Takes over
 * `inner` and `keys`, also if it fails. An object of another kind is DZ_ECORRUPT; of a key that is
 * not in the file, DZ_EDENIED. */
DZ_NODISCARD int dz_blobs_encrypt(struct dz_blobs *inner, struct dz_blob_keys *keys,
                                  struct dz_blobs **ret_store, struct dz_err *err);

/* Do these first bytes of an object say that it is encrypted? */
enum {
    DZ_BLOB_CRYPT_MAGIC = 8, /* bytes that dz_blob_is_encrypted looks at */
};
bool dz_blob_is_encrypted(const void *data, size_t n);

#endif

/* SPDX-License-Identifier: MIT
 *
 * cold.h - the files of sandboxes, in the live directory and in cold storage.
 *
 * Moves whole files and never looks inside one. For a sandbox ID there may be
 *
 *   live   ID.doze        the file that a cell runs (and ID.doze-wal, its log)
 *          ID.scratch     on the way to an archive
 *   store  ID.sqlite      frozen: the file, byte by byte
 *          ID.archive     archived: compressed (docs/format/cold.md)
 *
 * Each function is one step of an operation: done again after a crash it does the
 * same; called off or failing it leaves what was there. Everything blocks and
 * belongs on a worker. Nothing here knows the registry: who calls writes down
 * first what he is about to do.
 */
#ifndef DZ_BLOB_BLOB_COLD_H
#define DZ_BLOB_BLOB_COLD_H

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "blob/blob.h"

#include <stdbool.h>
#include <stdint.h>

/* Set from another thread, the step ends soon with DZ_ECANCELED. May be NULL. */
typedef const _Atomic bool *dz_cold_cancel;

struct dz_cold { /* both are borrowed */
    struct dz_blobs *live;
    struct dz_blobs *store;
    /* How an archive is unpacked: whoever can write to the store could send bytes that
     * break a decompressor, so a daemon does it in a jail. NULL: dz_cold_expand. */
    int (*expand)(struct dz_blob_in *in, struct dz_blob_out *out, dz_cold_cancel cancel,
                  uint8_t ret_digest[static DZ_SHA256_BYTES], struct dz_err *err);
};

enum dz_cold_file {
    DZ_COLD_LIVE,
    DZ_COLD_LOG,     /* the live file's, left by a crash */
    DZ_COLD_SCRATCH, /* in the live directory */
    DZ_COLD_FROZEN,  /* in the store */
    DZ_COLD_ARCHIVE,
    DZ_COLD_FILES,
};
#define DZ_COLD_BIT(name) (1u << DZ_COLD_##name)

enum {
    DZ_COLD_KEY = DZ_BLOB_KEY_MAX + 1,
    DZ_COLD_ID_MAX = DZ_BLOB_KEY_MAX - 16, /* bytes of a sandbox's id */
};

/* The key of a sandbox's file, and which file of which sandbox a key is: false
 * when it is none of ours. Returns out. */
char *dz_cold_key(const char *id, enum dz_cold_file file, char out[static DZ_COLD_KEY]);
bool dz_cold_parse_key(const char *key, char ret_id[static DZ_COLD_KEY],
                       enum dz_cold_file *ret_file);

/* Where a copy is, and what it is of. */
struct dz_cold_copy {
    enum dz_cold_file file; /* FROZEN or ARCHIVE */
    uint64_t size;          /* bytes in the store */
    bool hashed;
    uint8_t sha256[DZ_SHA256_BYTES]; /* of the sandbox's file, uncompressed */
};

/* Is it there? Size to *ret_size (may be NULL). 1, 0 or an error. */
DZ_NODISCARD int dz_cold_has(const struct dz_cold *c, const char *id, enum dz_cold_file file,
                             uint64_t *ret_size, struct dz_err *err);

/* Live file to the store. DZ_ESTATE while a log with commits lies beside it. A
 * copy of over 16 MiB that shares blocks is not hashed (dz_cold_hash later). */
DZ_NODISCARD int dz_cold_freeze(const struct dz_cold *c, const char *id, dz_cold_cancel cancel,
                                struct dz_cold_copy *ret_copy, struct dz_err *err);

/* Back: the live file is there afterwards, whole, durable, and the copy stays.
 * Verified against copy's hash if it has one (a clone of blocks is
 * read up to 16 MiB only).
 * DZ_ENOENT: the store does not have it; DZ_ECORRUPT: it is not what was stored. */
DZ_NODISCARD int dz_cold_thaw(const struct dz_cold *c, const char *id,
                              const struct dz_cold_copy *copy, dz_cold_cancel cancel,
                              struct dz_err *err);

/* The hash of a frozen copy. */
DZ_NODISCARD int dz_cold_hash(const struct dz_cold *c, const char *id, dz_cold_cancel cancel,
                              uint8_t ret_digest[static DZ_SHA256_BYTES], struct dz_err *err);

/* Scratch file to an archive, compressed. */
DZ_NODISCARD int dz_cold_pack(const struct dz_cold *c, const char *id, dz_cold_cancel cancel,
                              struct dz_cold_copy *ret_copy, struct dz_err *err);
/* Read an archive back and compare; nothing is written. DZ_ECORRUPT. */
DZ_NODISCARD int dz_cold_verify(const struct dz_cold *c, const char *id,
                                const struct dz_cold_copy *copy, dz_cold_cancel cancel,
                                struct dz_err *err);

/* Remove those of a sandbox's files whose bits are set, durably. Those that are
 * not there are fine. */
DZ_NODISCARD int dz_cold_drop(const struct dz_cold *c, const char *id, unsigned files,
                              struct dz_err *err);

/* At start-up: what unfinished writers left. */
DZ_NODISCARD int dz_cold_sweep(const struct dz_cold *c, struct dz_err *err);

/* --- the archive's format, for whoever reads one from elsewhere -------------------- */

/* The bytes of `in` to `out`, compressed; the hash of what went in. */
DZ_NODISCARD int dz_cold_compress(struct dz_blob_in *in, struct dz_blob_out *out,
                                  dz_cold_cancel cancel, uint8_t ret_digest[static DZ_SHA256_BYTES],
                                  struct dz_err *err);
/* The other way; out NULL: only check. DZ_ECORRUPT with what is wrong. */
DZ_NODISCARD int dz_cold_expand(struct dz_blob_in *in, struct dz_blob_out *out,
                                dz_cold_cancel cancel, uint8_t ret_digest[static DZ_SHA256_BYTES],
                                struct dz_err *err);

#endif

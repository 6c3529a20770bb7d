/* SPDX-License-Identifier: MIT
 *
 * blob_cold.h - the files of sandboxes, in the live directory and in cold storage.
 *
 * Moves whole files and never looks inside one. For a sandbox ID there may be
 *
 *   live   ID.doze        the file that a cell runs (and ID.doze-wal, its log)
 *          ID.scratch     on the way to an archive
 *   store  ID.sqlite      frozen: the file, byte by byte
 *          ID.replica     frozen: the name of a replica that has the file (docs/format/cold.md)
 *          ID.archive     archived: compressed (docs/format/cold.md)
 *
 * Each function is one step of an operation. Repeated after a crash it has the same
 * result; if it fails or is canceled it leaves the files as they were. Everything blocks and
 * belongs on a worker. Nothing here knows the registry: the caller records
 * there first what it is about to do.
 */
#ifndef DZ_BLOB_BLOB_COLD_H
#define DZ_BLOB_BLOB_COLD_H

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "blob/blob.h"

#include <stdbool.h>
#include <stdint.h>

/* Another thread sets it to cancel: the step soon ends with DZ_ECANCELED. May be NULL. */
typedef const _Atomic bool *dz_cold_cancel;

enum {
    DZ_COLD_URL_MAX = 4096
};
struct dz_cold_point { /* of a replica's history */
    char url[DZ_COLD_URL_MAX];
    uint64_t txid;
};

/* Replicas of live files. A file that a replica on another machine has is not stored a second time:
 * cold storage gets the name of the replica. Workers call these functions. */
struct dz_cold_replicas {
    /* 1: such a replica has all of the live file at *ret_point; 0: none, or it is not known. */
    int (*find)(void *arg, const char *id, struct dz_cold_point *ret_point);
    /* Write the file as it was then to an empty file, not synced. DZ_ENOENT, DZ_ECORRUPT. */
    int (*restore)(void *arg, const struct dz_cold_point *point, int fd,
                   struct dz_blob_progress *progress, dz_cold_cancel cancel, struct dz_err *err);
    /* The file behind fd has these bytes and is about to be the live file, so the replica need not
     * get it again. */
    void (*adopt)(void *arg, const char *id, const struct dz_cold_point *point, int fd);
    void *arg;
};

struct dz_cold { /* all are borrowed */
    struct dz_blobs *live;
    struct dz_blobs *store;
    const struct dz_cold_replicas *replicas; /* NULL: there are none */
    /* Unpacks an archive. The bytes in a store may be hostile and break a decompressor, so a
     * daemon unpacks in a jail. NULL: dz_cold_expand. */
    int (*expand)(struct dz_blob_in *in, struct dz_blob_out *out, dz_cold_cancel cancel,
                  uint8_t ret_digest[static DZ_SHA256_BYTES], struct dz_err *err);
    struct dz_blob_progress *progress; /* of the step, for other threads; or NULL */
};

enum dz_cold_file {
    DZ_COLD_LIVE,
    DZ_COLD_LOG,     /* the live file's, left by a crash */
    DZ_COLD_SCRATCH, /* in the live directory */
    DZ_COLD_FROZEN,  /* in the store */
    DZ_COLD_REPLICA,
    DZ_COLD_ARCHIVE,
    DZ_COLD_FILES,
};
#define DZ_COLD_BIT(name) (1u << DZ_COLD_##name)
#define DZ_COLD_COPIES    (DZ_COLD_BIT(FROZEN) | DZ_COLD_BIT(REPLICA) | DZ_COLD_BIT(ARCHIVE))

enum {
    DZ_COLD_KEY = DZ_BLOB_KEY_MAX + 1,
    DZ_COLD_ID_MAX = DZ_BLOB_KEY_MAX - 16, /* bytes of a sandbox's id */
};

/* dz_cold_key() writes the key of a sandbox's file and returns out. dz_cold_parse_key() splits a
 * key into the sandbox's id and the kind of file; false: the key is not of this form. */
char *dz_cold_key(const char *id, enum dz_cold_file file, char out[static DZ_COLD_KEY]);
bool dz_cold_parse_key(const char *key, char ret_id[static DZ_COLD_KEY],
                       enum dz_cold_file *ret_file);

/* A copy: its place and its content. */
struct dz_cold_copy {
    enum dz_cold_file file; /* FROZEN, REPLICA or ARCHIVE */
    uint64_t size;          /* bytes in the store; REPLICA: of the file */
    bool hashed;
    uint8_t sha256[DZ_SHA256_BYTES]; /* of the sandbox's file, uncompressed */
};

/* Does it exist? 1 and its size in *ret_size (may be NULL), 0, or an error. */
DZ_NODISCARD int dz_cold_has(const struct dz_cold *c, const char *id, enum dz_cold_file file,
                             uint64_t *ret_size, struct dz_err *err);

/* Copy the live file to the store. DZ_ESTATE while its log still has commits. A copy of more than
 * 16 MiB that shares blocks is not hashed here; dz_cold_hash does it later. If the store is on
 * another machine and a replica there has the file, the store gets the replica's name instead. */
DZ_NODISCARD int dz_cold_freeze(const struct dz_cold *c, const char *id, dz_cold_cancel cancel,
                                struct dz_cold_copy *ret_copy, struct dz_err *err);

/* Restore the live file, whole and durable; the copy stays in the store. It is
 * verified against the copy's hash if that has one (a clone that shares blocks only up to
 * 16 MiB).
 * DZ_ENOENT: the store does not have it; DZ_ECORRUPT: it differs from what was stored. */
DZ_NODISCARD int dz_cold_thaw(const struct dz_cold *c, const char *id,
                              const struct dz_cold_copy *copy, dz_cold_cancel cancel,
                              struct dz_err *err);

/* Compute the hash of a frozen copy. */
DZ_NODISCARD int dz_cold_hash(const struct dz_cold *c, const char *id, dz_cold_cancel cancel,
                              uint8_t ret_digest[static DZ_SHA256_BYTES], struct dz_err *err);

/* Compress the scratch file into an archive. */
DZ_NODISCARD int dz_cold_pack(const struct dz_cold *c, const char *id, dz_cold_cancel cancel,
                              struct dz_cold_copy *ret_copy, struct dz_err *err);
/* Read an archive back and compare; nothing is written. DZ_ECORRUPT. */
DZ_NODISCARD int dz_cold_verify(const struct dz_cold *c, const char *id,
                                const struct dz_cold_copy *copy, dz_cold_cancel cancel,
                                struct dz_err *err);

/* Remove, durably, the files of a sandbox whose bits are set. Missing files are no
 * error. */
DZ_NODISCARD int dz_cold_drop(const struct dz_cold *c, const char *id, unsigned files,
                              struct dz_err *err);

/* At start-up: remove what unfinished writers left. A store that is far is not swept here, because
 * that may take long (dz_sandboxes_collect). */
DZ_NODISCARD int dz_cold_sweep(const struct dz_cold *c, struct dz_err *err);

/* --- the archive's format, also for archives that come from elsewhere -------------------- */

/* Compress `in` to `out`; returns the hash of the bytes of `in`. */
DZ_NODISCARD int dz_cold_compress(struct dz_blob_in *in, struct dz_blob_out *out,
                                  dz_cold_cancel cancel, uint8_t ret_digest[static DZ_SHA256_BYTES],
                                  struct dz_err *err);
/* Uncompress. out NULL: only check. DZ_ECORRUPT, and *err says what is wrong. */
DZ_NODISCARD int dz_cold_expand(struct dz_blob_in *in, struct dz_blob_out *out,
                                dz_cold_cancel cancel, uint8_t ret_digest[static DZ_SHA256_BYTES],
                                struct dz_err *err);

#endif

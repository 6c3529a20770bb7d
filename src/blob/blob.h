/* SPDX-License-Identifier: MIT
 *
 * blob.h - stores of byte objects: a directory, or a service like S3.
 *
 * An object has a key and bytes. When its writer commits, it appears whole and durable, and
 * replaces the object that had the key; without a commit nothing appears. Readers that have
 * the old object open keep it. An object is never changed in place.
 *
 * A key is 1 to DZ_BLOB_KEY_MAX of the characters A-Z a-z 0-9 . _ - and does
 * not begin with a dot.
 *
 * A back end is a struct of verbs; all pass the same conformance test. Every function here
 * may block, so it belongs on a worker. Several threads may use a store at once; a reader or
 * a writer belongs to one thread.
 */
#ifndef DZ_BLOB_BLOB_H
#define DZ_BLOB_BLOB_H

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DZ_BLOB_KEY_MAX = 200,
    DZ_BLOB_PIECE = 1 << 20, /* bytes moved at a time where they pass through memory */
    DZ_BLOB_HASH_PIECE = 8 << 20,
};

bool dz_blob_is_key(const char *key);

/* --- a store --------------------------------------------------------------------- */

struct dz_blobs;
struct dz_blob_in;
struct dz_blob_out;

struct dz_blobs_ops {
    int (*stat)(struct dz_blobs *s, const char *key, uint64_t *ret_size, struct dz_err *err);
    int (*in_open)(struct dz_blobs *s, const char *key, struct dz_blob_in **ret_in,
                   struct dz_err *err);
    int (*out_open)(struct dz_blobs *s, const char *key, struct dz_blob_out **ret_out,
                    struct dz_err *err);
    int (*remove)(struct dz_blobs *s, const char *key, struct dz_err *err);
    int (*list)(struct dz_blobs *s, int (*fn)(void *arg, const char *key, uint64_t size), void *arg,
                struct dz_err *err);
    int (*sweep)(struct dz_blobs *s, struct dz_err *err);
    void (*close)(struct dz_blobs *s);
};
struct dz_blobs { /* the head of every back end */
    const struct dz_blobs_ops *ops;
    bool far; /* its calls wait for another machine */
};

/* Size of an object; DZ_ENOENT. */
DZ_NODISCARD int dz_blobs_stat(struct dz_blobs *s, const char *key, uint64_t *ret_size,
                               struct dz_err *err);
/* Remove an object, durably. A missing object is no error. */
DZ_NODISCARD int dz_blobs_remove(struct dz_blobs *s, const char *key, struct dz_err *err);
/* Call fn for each object, in no particular order, until fn returns non-zero. */
DZ_NODISCARD int dz_blobs_list(struct dz_blobs *s,
                               int (*fn)(void *arg, const char *key, uint64_t size), void *arg,
                               struct dz_err *err);
/* Remove the remains of writers that never committed. There must be no writer, except of a store
 * that is far: of such a one, remains are removed when they are old. */
DZ_NODISCARD int dz_blobs_sweep(struct dz_blobs *s, struct dz_err *err);
void dz_blobs_free(struct dz_blobs *s); /* close its readers and writers first; NULL is fine */

/* --- reading --------------------------------------------------------------------- */

struct dz_blob_in_ops {
    int (*read)(struct dz_blob_in *in, void *buf, size_t n, uint64_t at, struct dz_err *err);
    void (*close)(struct dz_blob_in *in);
};
/* How far an object was read, in bytes: for other threads to show. */
struct dz_blob_progress {
    _Atomic uint64_t done, total;
};
static inline void dz_blob_progress_at(struct dz_blob_progress *p, uint64_t at)
{
    uint64_t had = atomic_load_explicit(&p->done, memory_order_relaxed);
    while (had < at && !atomic_compare_exchange_weak(&p->done, &had, at)) {
    }
}

struct dz_blob_in {
    const struct dz_blob_in_ops *ops;
    uint64_t size; /* bytes of the object */
    int fd;        /* the object's descriptor, borrowed; -1 if the store has none */
    /* Kept by dz_blob_in_read() and dz_blob_copy(); NULL: by nobody. */
    struct dz_blob_progress *progress;
};

DZ_NODISCARD int dz_blob_in_open(struct dz_blobs *s, const char *key, struct dz_blob_in **ret_in,
                                 struct dz_err *err); /* DZ_ENOENT */
/* Read exactly n bytes from `at` on. DZ_EIO beyond the end. */
DZ_NODISCARD int dz_blob_in_read(struct dz_blob_in *in, void *buf, size_t n, uint64_t at,
                                 struct dz_err *err);
void dz_blob_in_close(struct dz_blob_in *in); /* NULL is fine */
void dz_blob_in_closep(struct dz_blob_in **in);

/* --- writing --------------------------------------------------------------------- */

struct dz_blob_out_ops {
    int (*write)(struct dz_blob_out *out, const void *data, size_t n, struct dz_err *err);
    int (*commit)(struct dz_blob_out *out, struct dz_err *err);
    void (*close)(struct dz_blob_out *out);
    int (*sync)(struct dz_blob_out *out, struct dz_err *err); /* these three may be NULL */
    void (*rename)(struct dz_blob_out *out, const char *key);
    int (*digest)(struct dz_blob_out *out, uint8_t ret_digest[static DZ_SHA256_BYTES],
                  struct dz_err *err);
};
struct dz_blob_out {
    const struct dz_blob_out_ops *ops;
    int fd; /* a descriptor to write to, borrowed; -1 if the store has none */
    /* Set this before the commit if the caller would remove the object after a power cut, when the
     * key may be there without all of its bytes. Then a commit waits for one commit of the file
     * system's journal, not for two. */
    bool claimed;
    bool only_new; /* set it before the commit: if the key exists, the answer is DZ_EEXIST and
                      nothing has changed */
    /* Set it before the first byte: the time of the object's content, milliseconds since 1970; 0:
     * now. A file has it as its time of modification, an object of S3 as the metadata where
     * litestream looks for the time of its files. */
    int64_t time_ms;
    bool whole; /* synced or committed: no byte may follow (blob.c asserts it) */
};

DZ_NODISCARD int dz_blob_out_open(struct dz_blobs *s, const char *key, struct dz_blob_out **ret_out,
                                  struct dz_err *err);
DZ_NODISCARD int dz_blob_out_write(struct dz_blob_out *out, const void *data, size_t n,
                                   struct dz_err *err);
/* Make the bytes durable ahead of the commit, which then waits only for the name. Write nothing
 * after it. */
DZ_NODISCARD int dz_blob_out_sync(struct dz_blob_out *out, struct dz_err *err);
/* Does this store hash what it gets? Then its caller need not. */
static inline bool dz_blob_out_hashes(const struct dz_blob_out *out)
{
    return out->ops->digest != NULL;
}
/* The hash (struct dz_blob_digest) of all bytes that were written, as such a store computed it.
 * Write nothing after it. */
DZ_NODISCARD int dz_blob_out_digest(struct dz_blob_out *out,
                                    uint8_t ret_digest[static DZ_SHA256_BYTES], struct dz_err *err);
/* Let the commit use this key instead. DZ_EUNSUPPORTED: this store cannot. */
DZ_NODISCARD int dz_blob_out_rename(struct dz_blob_out *out, const char *key, struct dz_err *err);
/* Make the object appear under its key, whole and durable. After a failure it may be there or not;
 * the object that it replaces is never damaged. */
DZ_NODISCARD int dz_blob_out_commit(struct dz_blob_out *out, struct dz_err *err);
/* Release the writer. If nothing was committed, the store is unchanged. NULL is fine. */
void dz_blob_out_close(struct dz_blob_out *out);
void dz_blob_out_closep(struct dz_blob_out **out);

/* --- hashing --------------------------------------------------------------------- */

/* The hash of an object of at most DZ_BLOB_HASH_PIECE bytes is its SHA-256. A longer object is
 * divided into pieces of that length, and its hash is the SHA-256 of the pieces' SHA-256s in order;
 * so several cores can compute it together, and so can a service that gets the object in parts.
 * This struct computes the hash of bytes that come in order. */
struct dz_blob_digest {
    struct dz_sha256 piece, all;
    uint64_t pieces; /* pieces that are complete */
    size_t in_piece; /* bytes */
    int rc;
};
DZ_NODISCARD int dz_blob_digest_init(struct dz_blob_digest *d, struct dz_err *err);
void dz_blob_digest_update(struct dz_blob_digest *d, const void *data, size_t n);
DZ_NODISCARD int dz_blob_digest_final(struct dz_blob_digest *d,
                                      uint8_t ret_digest[static DZ_SHA256_BYTES],
                                      struct dz_err *err);
void dz_blob_digest_release(struct dz_blob_digest *d); /* for DZ_AUTO too; zeroed is fine */

/* --- copying --------------------------------------------------------------------- */

struct dz_blob_copy {
    const _Atomic bool *cancel; /* set by another thread: DZ_ECANCELED; may be NULL */
    bool hash;                  /* compute the hash even if a clone must be read for it */
    bool no_hash;               /* do not compute the hash */
};
struct dz_blob_copied {
    uint64_t size;
    bool cloned; /* the file system shares the blocks, and no byte was read */
    bool hashed; /* sha256 is that of the bytes */
    uint8_t sha256[DZ_SHA256_BYTES];
};
/* Copy all of `in` to `out`, without committing it: share the blocks; if the file system cannot,
 * copy inside the kernel while other cores compute the hash; if that is impossible too, copy
 * through memory. */
DZ_NODISCARD int dz_blob_copy(struct dz_blob_in *in, struct dz_blob_out *out,
                              const struct dz_blob_copy *how, struct dz_blob_copied *ret_copied,
                              struct dz_err *err);
/* Compute the hash of `in`, on every core that is free. */
DZ_NODISCARD int dz_blob_hash(struct dz_blob_in *in, const _Atomic bool *cancel,
                              uint8_t ret_digest[static DZ_SHA256_BYTES], struct dz_err *err);

/* --- back ends ------------------------------------------------------------------- */

/* Open a directory as a store; a missing one is made with mode 0700. Objects are files of mode
 * 0600; the names of writers' temporary files begin with a dot. */
DZ_NODISCARD int dz_blobs_open_dir(const char *path, struct dz_blobs **ret_store,
                                   struct dz_err *err);
/* The same for a directory that must exist: DZ_ENOENT. */
DZ_NODISCARD int dz_blobs_find_dir(const char *path, struct dz_blobs **ret_store,
                                   struct dz_err *err);

#endif

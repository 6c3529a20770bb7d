/* SPDX-License-Identifier: MIT
 *
 * registry.h - one row for each sandbox: what it is, in which state, whose, and
 * where its file lies. The state of a sandbox is here and nowhere else.
 *
 * The verbs below are one struct, so that a registry may be a file (SQLite, this
 * module's registry_sqlite.c) or a server for many hosts. All back ends pass the
 * same conformance test.
 *
 * A row changes only by compare-and-swap: dz_registry_change names the version
 * and the epoch it has seen. The version grows by one with each change, the
 * epoch with each change of owner; who comes too late gets DZ_EBUSY and reads
 * again. A change survives kill -9 when it returns; with `durable` it also
 * survives a power cut, which is what must stand before a file is removed.
 *
 * Times are milliseconds since 1970, 0 is "never" or "none"; only `updated` is
 * in seconds. Text is "" where there is none. Operations, steps and the like are
 * text here: their meaning is another module's (lifecycle). So is the state in the
 * table; a row that was read has it as an enum besides.
 *
 * One thread at a time, but for dz_registry_flush.
 */
#ifndef DZ_REGISTRY_REGISTRY_H
#define DZ_REGISTRY_REGISTRY_H

#include "base/attr.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/vec.h"
#include "lifecycle/lifecycle.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DZ_REGISTRY_LIST_MAX = 1000,      /* rows in one answer */
    DZ_REGISTRY_TEXT_MAX = 1 << 20,   /* bytes of one text column, else DZ_ELIMIT */
    DZ_REGISTRY_EVENTS_MAX = 1000000, /* events kept; older ones go */
};
#define DZ_REGISTRY_TOMBSTONE_MS ((int64_t)24 * 3600 * 1000) /* so long it is "gone" */

/* --- rows ------------------------------------------------------------------------ */

/* The columns, in order: T(name) text, I(name) integer. The first five are those
 * of the plain list that everybody may read. */
#define DZ_INSTANCE_COLUMNS(T, I)                                                 \
    T(id)                                                                         \
    T(tenant)                                                                     \
    T(state)                                                                      \
    T(vfs_path)                                                                   \
    I(updated)                                                                    \
    I(version)                                                                    \
    I(epoch)                                                                      \
    T(host)                                                                       \
    T(status)                                                                     \
    T(kind)                                                                       \
    T(image)                                                                      \
    T(config)   /* JSON: all that rebuilds the machine */                         \
    T(metadata) /* JSON */                                                        \
    I(created)                                                                    \
    I(last_active)                                                                \
    I(wake_at)                                                                    \
    I(expires)                                                                    \
    T(cold_uri)                                                                   \
    T(cold_sha256) /* of the file's bytes, uncompressed; "": not known yet */     \
    I(cold_size)   /* bytes in cold storage */                                    \
    T(error)                                                                      \
    T(name)                                                                       \
    T(deployment)                                                                 \
    T(op)              /* operation under way, "": none */                        \
    T(step)            /* of it */                                                \
    T(keep)            /* "memory" or "files": what a suspend keeps */            \
    I(generation)      /* of the file: grows each time it may begin to change */  \
    I(cold_generation) /* of the cold copy */                                     \
    T(idle_mode)                                                                  \
    I(suspend_ms)                                                                 \
    I(freeze_ms)                                                                  \
    I(suspended_at)                                                               \
    I(hold_until)                                                                 \
    I(ttl_idle_ms)                                                                \
    I(retry_at) /* the last try by the clock failed: not before */                \
    I(tries)                                                                      \
    I(due)            /* the next time to look at this row; indexed */            \
    I(timeout_ms)     /* awake for so long: then timeout_action; 0: for ever */   \
    T(timeout_action) /* "destroy" or "pause" */                                  \
    I(timeout_at)     /* when, while it is active */                              \
    I(timeout_left)   /* what is left of it while it is not; 0: all */            \
    I(ephemeral)      /* not 0: it never sleeps; once it is not awake, it goes */ \
    T(owner)          /* the token that made it; "": the tenant itself */         \
    I(memory)         /* bytes that its machine may have */

struct dz_instance {
#define T(name) const char *name;
#define I(name) int64_t name;
    DZ_INSTANCE_COLUMNS(T, I)
#undef T
#undef I
    char *text; /* what a row that was read owns; NULL in one that a caller made */
    /* What `state` says, of a row that was read: DZ_STATE_NONE where it is no state that this doze
     * knows. A row that a caller makes has `state` alone. */
    enum dz_state is;
};

enum dz_instance_column {
#define X(name) DZ_INSTANCE_##name,
    DZ_INSTANCE_COLUMNS(X, X)
#undef X
    DZ_INSTANCE_COLUMN_COUNT,
};
#define DZ_COLUMN(name) (UINT64_C(1) << DZ_INSTANCE_##name)

void dz_instance_release(struct dz_instance *row); /* for DZ_AUTO too; zeroed is fine */

DZ_VEC(dz_instances, struct dz_instance);
void dz_instances_release(struct dz_instances *rows); /* for DZ_AUTO too */

/* --- verbs ----------------------------------------------------------------------- */

struct dz_registry;

/* A compare-and-swap of some columns. */
struct dz_registry_change {
    const char *id;
    int64_t version, epoch;       /* that the row must have */
    uint64_t set;                 /* DZ_COLUMN bits; not id, version, updated */
    const struct dz_instance *to; /* their values */
    bool durable;                 /* on the disk before it returns */
    const char *event, *detail;   /* an event of the same transaction; NULL: none */
    struct dz_instance *ret_row;  /* the changed row, read in the same transaction: if it cannot be
                                   * read, nothing is changed; NULL: not wanted */
};

struct dz_registry_filter {
    const char *tenant, *state, *kind; /* NULL: any */
    const char *after;                 /* ids greater than this; NULL: from the first */
    size_t limit;                      /* 0: DZ_REGISTRY_LIST_MAX */
    bool unfinished;                   /* only rows with an operation under way */
    const char *image, *owner;         /* NULL: any */
};

struct dz_registry_event {
    int64_t seq, at; /* seq: of all events; of a tenant's own where the filter names a tenant */
    const char *sandbox_id, *tenant, *what, *detail;
};

struct dz_registry_event_filter {
    const char *tenant, *sandbox_id; /* NULL: any */
    int64_t after;                   /* numbers (of the kind that is read) greater than this */
    size_t limit;                    /* 0: DZ_REGISTRY_LIST_MAX */
};
typedef int dz_registry_event_fn(void *arg, const struct dz_registry_event *e);

/* The other tables and their verbs: registry_record.h. */
struct dz_registry_table;
struct dz_registry_record_filter;
typedef int dz_registry_take_fn(void *arg, const void *row);
struct dz_registry_key {
    const char *tenant;     /* NULL: anybody's */
    const char *id, *alias; /* one of them */
};

struct dz_registry_ops {
    int (*create)(struct dz_registry *r, const struct dz_instance *row, struct dz_err *err);
    int (*get)(struct dz_registry *r, const char *id, struct dz_instance *ret_row,
               struct dz_err *err);
    int (*find)(struct dz_registry *r, const char *tenant, const char *home, const char *word,
                struct dz_instance *ret_row, struct dz_err *err);
    int (*change)(struct dz_registry *r, const struct dz_registry_change *c, struct dz_err *err);
    int (*erase)(struct dz_registry *r, const char *id, int64_t version, int64_t epoch,
                 struct dz_err *err);
    int (*list)(struct dz_registry *r, const struct dz_registry_filter *f,
                struct dz_instances *rows, struct dz_err *err);
    int (*due)(struct dz_registry *r, int64_t now, size_t limit, struct dz_instances *rows,
               struct dz_err *err);
    int (*next_due)(struct dz_registry *r, int64_t *ret_at, struct dz_err *err);
    int (*count)(struct dz_registry *r, const struct dz_registry_filter *f, int64_t *ret_count,
                 struct dz_err *err);
    int (*note)(struct dz_registry *r, const struct dz_registry_event *e, int64_t *ret_seq,
                struct dz_err *err);
    int (*events)(struct dz_registry *r, const struct dz_registry_event_filter *f,
                  dz_registry_event_fn *fn, void *arg, struct dz_err *err);
    int (*event_span)(struct dz_registry *r, int64_t *ret_first, int64_t *ret_last,
                      struct dz_err *err);
    int (*record_add)(struct dz_registry *r, const struct dz_registry_table *t, const void *row,
                      bool durable, struct dz_err *err);
    int (*record_get)(struct dz_registry *r, const struct dz_registry_table *t,
                      const struct dz_registry_key *key, void *ret_row, struct dz_err *err);
    int (*record_change)(struct dz_registry *r, const struct dz_registry_table *t, void *row,
                         uint64_t set, bool durable, struct dz_err *err);
    int (*record_remove)(struct dz_registry *r, const struct dz_registry_table *t,
                         const struct dz_registry_key *key, int64_t version, struct dz_err *err);
    int (*record_list)(struct dz_registry *r, const struct dz_registry_table *t,
                       const struct dz_registry_record_filter *f, dz_registry_take_fn *take,
                       void *arg, struct dz_err *err);
    int (*record_count)(struct dz_registry *r, const struct dz_registry_table *t,
                        const struct dz_registry_record_filter *f, int64_t *ret_count,
                        struct dz_err *err);
    int (*number)(struct dz_registry *r, const char *tenant, int64_t most, int64_t *ret_number,
                  struct dz_err *err);
    int (*sweep)(struct dz_registry *r, int64_t now, size_t limit, size_t *ret_count,
                 struct dz_err *err);
    int (*flush)(struct dz_registry *r, struct dz_err *err);
    int (*check)(struct dz_registry *r, struct dz_err *err);
    int (*maintain)(struct dz_registry *r, bool idle, struct dz_err *err);
    int (*close)(struct dz_registry *r, struct dz_err *err);
};

/* The head of every back end; a test may put its own verbs in between. */
struct dz_registry {
    const struct dz_registry_ops *ops;
    void (*told)(void *arg); /* dz_registry_tell */
    void *told_arg;
    bool (*full)(void *arg); /* dz_registry_on_full */
    void *full_arg;
};
/* fn is called after each change that wrote an event, from inside of it: it must not use the
 * registry. NULL: no longer. */
void dz_registry_tell(struct dz_registry *r, void (*fn)(void *arg), void *arg);
/* fn is called when a change meets DZ_ENOSPC. True: it has made room, and the change is tried
 * again. Not for dz_registry_flush. NULL: no longer. */
void dz_registry_on_full(struct dz_registry *r, bool (*fn)(void *arg), void *arg);

/* Add a row: version 1, epoch as given. DZ_EEXIST: the id is taken (also by one
 * that was deleted less than a day ago), or the tenant has a living sandbox of
 * that name. */
DZ_NODISCARD int dz_registry_create(struct dz_registry *r, const struct dz_instance *row,
                                    struct dz_err *err);
/* DZ_ENOENT; DZ_EGONE for a day after it was erased. */
DZ_NODISCARD int dz_registry_get(struct dz_registry *r, const char *id, struct dz_instance *ret_row,
                                 struct dz_err *err);
/* By id, by name, or by the beginning of an id when only one has it. tenant NULL:
 * anybody's; the name is then one of tenant `home`, or anybody's, too, when home is NULL.
 * DZ_ENOENT; DZ_EINVAL: several are meant, and the sentence lists them; DZ_EGONE for a day after
 * it was erased. With tenant given, nothing tells whether another tenant has, or had, such a row.
 */
DZ_NODISCARD int dz_registry_find(struct dz_registry *r, const char *tenant, const char *home,
                                  const char *word, struct dz_instance *ret_row,
                                  struct dz_err *err);
/* DZ_EBUSY: version or epoch is another now. DZ_ENOENT. The row then has version
 * + 1 and `updated` of now. */
DZ_NODISCARD int dz_registry_change(struct dz_registry *r, const struct dz_registry_change *c,
                                    struct dz_err *err);
/* The row and its tokens go, its references are closed, a tombstone stays. A power cut may
 * bring the row back as it was last durable. */
DZ_NODISCARD int dz_registry_erase(struct dz_registry *r, const char *id, int64_t version,
                                   int64_t epoch, struct dz_err *err);
/* Rows by id; appended to *rows (DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX)). */
DZ_NODISCARD int dz_registry_list(struct dz_registry *r, const struct dz_registry_filter *f,
                                  struct dz_instances *rows, struct dz_err *err);
/* Rows whose time has come, the earliest first. */
DZ_NODISCARD int dz_registry_due(struct dz_registry *r, int64_t now, size_t limit,
                                 struct dz_instances *rows, struct dz_err *err);
/* The earliest time that is due; INT64_MAX: none. */
DZ_NODISCARD int dz_registry_next_due(struct dz_registry *r, int64_t *ret_at, struct dz_err *err);
/* How many rows the filter lets through; its after and limit do not count. Reads as
 * many: for a start-up, not for each request. */
DZ_NODISCARD int dz_registry_count(struct dz_registry *r, const struct dz_registry_filter *f,
                                   int64_t *ret_count, struct dz_err *err);
/* An event that comes with no change of a row: `what`, and any of sandbox_id, tenant
 * (NULL: the sandbox's) and detail; `at` and its number are given here. */
DZ_NODISCARD int dz_registry_note(struct dz_registry *r, const struct dz_registry_event *e,
                                  int64_t *ret_seq, struct dz_err *err);
/* Events in order, until fn returns non-zero. Each tenant's are numbered apart, from 1 and
 * without gaps, so that nobody learns how many others had. Text holds for that call only, and fn
 * must not call the registry. */
DZ_NODISCARD int dz_registry_events(struct dz_registry *r, const struct dz_registry_event_filter *f,
                                    dz_registry_event_fn *fn, void *arg, struct dz_err *err);
/* The numbers of the oldest event that is kept and of the newest ever; 0 when there
 * is none. Who wants events after a number below *ret_first - 1 has missed some. */
DZ_NODISCARD int dz_registry_event_span(struct dz_registry *r, int64_t *ret_first,
                                        int64_t *ret_last, struct dz_err *err);
/* The number of a tenant, below `most`, that no other tenant has: given when it is asked for first,
 * and kept until the tenant's record is removed. One that was given before by this process comes
 * when all others have been: processes of who had it may still be there. DZ_ELIMIT: there is none
 * left, or its own is not below `most`. */
DZ_NODISCARD int dz_registry_number(struct dz_registry *r, const char *tenant, int64_t most,
                                    int64_t *ret_number, struct dz_err *err);
/* What was acknowledged before the call is on the disk after it, as if it had been
 * `durable`. The one verb that may be called on another thread, while this one goes
 * on: a durable change waits for the disk, this lets a worker wait. */
DZ_NODISCARD int dz_registry_flush(struct dz_registry *r, struct dz_err *err);
/* Is what is stored whole? DZ_ECORRUPT with the first finding. */
DZ_NODISCARD int dz_registry_check(struct dz_registry *r, struct dz_err *err);
/* Between replies: move the log into the file when that is worth it. */
DZ_NODISCARD int dz_registry_maintain(struct dz_registry *r, bool idle, struct dz_err *err);
int dz_registry_close(struct dz_registry *r, struct dz_err *err); /* NULL: 0 */

/* --- opening --------------------------------------------------------------------- */

/* Which registry: `given`, else DOZE_REGISTRY, else WB_REGISTRY, else the file
 * registry.db in the data directory. DZ_ELIMIT: too long. */
DZ_NODISCARD int dz_registry_locate(const char *given, const char *data_dir,
                                    char ret_name[static DZ_PATH_MAX], struct dz_err *err);

/* A path, or ":memory:". A file that is missing is made, durably, if `create`;
 * else DZ_ENOENT. DZ_EBUSY: another process has it open. DZ_ESTATE: it is of a
 * newer doze, or no registry. DZ_EUNSUPPORTED: postgres:// */
DZ_NODISCARD int dz_registry_open(const char *name, bool create, struct dz_registry **ret_registry,
                                  struct dz_err *err);

/* On any disk of module db, for simulations; the disk must hold what
 * dz_registry_template wrote. */
struct dz_db_disk;
struct dz_buf;
DZ_NODISCARD int dz_registry_template(struct dz_buf *out, struct dz_err *err);
DZ_NODISCARD int dz_registry_open_disk(struct dz_db_disk *disk, struct dz_registry **ret_registry,
                                       struct dz_err *err);

#endif

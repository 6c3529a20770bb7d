/* SPDX-License-Identifier: MIT
 *
 * registry.h - one row for each sandbox: its settings, its state, its tenant, and the place of its
 * file. The state of a sandbox is stored here and nowhere else.
 *
 * The verbs below are one struct, so that a registry may be a file (SQLite, this
 * module's registry_sqlite.c) or a server for many hosts. All back ends pass the
 * same conformance test.
 *
 * A row changes only by compare-and-swap: dz_registry_change names the version and the epoch that
 * the caller has seen. The version grows by one with each change, the epoch with each change of
 * owner; a caller with old numbers gets DZ_EBUSY and reads the row again. When a change returns, it
 * survives kill -9; with `durable` it also survives a power cut, which is required before a file is
 * removed.
 *
 * Times are milliseconds since 1970, 0 is "never" or "none"; only `updated` is in seconds. Text is
 * "" if there is none. Operations, steps and the like are text here, because the module lifecycle
 * defines them. The state is text in the table; a row that was read also has it as an enum.
 *
 * One thread at a time, except for dz_registry_flush.
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
    DZ_REGISTRY_EVENTS_MAX = 1000000, /* events that are kept; older ones are removed */
};
#define DZ_REGISTRY_TOMBSTONE_MS \
    ((int64_t)24 * 3600 * 1000) /* how long an erased id answers "gone" */

/* --- rows ------------------------------------------------------------------------ */

/* The columns, in order: T(name) text, I(name) integer. The first five are those of the plain list,
 * the stable interface for other programs. */
#define DZ_INSTANCE_COLUMNS(T, I)                                                      \
    T(id)                                                                              \
    T(tenant)                                                                          \
    T(state)                                                                           \
    T(vfs_path)                                                                        \
    I(updated)                                                                         \
    I(version)                                                                         \
    I(epoch)                                                                           \
    T(host)                                                                            \
    T(status)                                                                          \
    T(kind)                                                                            \
    T(image)                                                                           \
    T(config)   /* JSON: the settings of the machine */                                \
    T(metadata) /* JSON */                                                             \
    I(created)                                                                         \
    I(last_active)                                                                     \
    I(wake_at)                                                                         \
    I(expires)                                                                         \
    T(cold_uri)                                                                        \
    T(cold_sha256) /* of the file's bytes, uncompressed; "": not known yet */          \
    I(cold_size)   /* bytes in cold storage */                                         \
    T(error)                                                                           \
    T(name)                                                                            \
    T(deployment)                                                                      \
    T(op)              /* operation in progress, "": none */                           \
    T(step)            /* step of the operation */                                     \
    T(keep)            /* "memory" or "files": what a suspend keeps */                 \
    I(generation)      /* of the file: grows whenever the file may begin to change */  \
    I(cold_generation) /* of the cold copy */                                          \
    T(idle_mode)                                                                       \
    I(suspend_ms)                                                                      \
    I(freeze_ms)                                                                       \
    I(suspended_at)                                                                    \
    I(hold_until)                                                                      \
    I(ttl_idle_ms)                                                                     \
    I(retry_at) /* the last timed operation failed: earliest next try */               \
    I(tries)                                                                           \
    I(due)            /* next time at which something is due for this row; indexed */  \
    I(timeout_ms)     /* how long it may run until timeout_action; 0: unlimited */     \
    T(timeout_action) /* "destroy" or "pause" */                                       \
    I(timeout_at)     /* end of the timeout, while active */                           \
    I(timeout_left)   /* rest of the timeout while not active; 0: all */               \
    I(ephemeral)      /* not 0: never suspended; deleted when it is no longer awake */ \
    T(owner)          /* the token that created it; "": the tenant itself */           \
    I(memory)         /* memory limit of its machine */

struct dz_instance {
#define T(name) const char *name;
#define I(name) int64_t name;
    DZ_INSTANCE_COLUMNS(T, I)
#undef T
#undef I
    char *text; /* memory of a row that was read; NULL in a row that a caller fills */
    /* Columns as enums, in a row that was read; a row that a caller fills has only the texts. A
     * state that this doze does not know is DZ_STATE_NONE, any other unknown text the first value
     * of its enum. */
    enum dz_state is; /* state */
    enum dz_status status_is;
    enum dz_deployment deployment_is;
    enum dz_keep keep_is;
    enum dz_idle_mode idle_mode_is;
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
    int64_t version, epoch;       /* must match the row */
    uint64_t set;                 /* DZ_COLUMN bits; not id, version, updated */
    const struct dz_instance *to; /* their values */
    bool durable;                 /* on the disk before it returns */
    const char *event, *detail;   /* event written in the same transaction; NULL: none */
    struct dz_instance *ret_row;  /* the changed row, read in the same transaction: if that fails,
                                     nothing is changed; NULL: do not read it */
};

#define DZ_REGISTRY_LAST "~" /* greater than every id */

struct dz_registry_filter {
    const char *tenant, *state, *kind; /* NULL: any */
    const char *after;                 /* ids greater than this; NULL: from the first */
    size_t limit;                      /* 0: DZ_REGISTRY_LIST_MAX */
    bool unfinished;                   /* only rows with an operation in progress */
    const char *image, *owner;         /* NULL: any */
    bool newest; /* in descending order: `after` means ids less than that; NULL: from the last */
};

struct dz_registry_event {
    /* seq: number among all events, or among the tenant's if the filter names one */
    int64_t seq, at;
    const char *sandbox_id, *tenant, *what, *detail;
};

struct dz_registry_event_filter {
    const char *tenant, *sandbox_id; /* NULL: any */
    int64_t after;                   /* events with greater numbers (of the kind that is read) */
    size_t limit;                    /* 0: DZ_REGISTRY_LIST_MAX */
};
typedef int dz_registry_event_fn(void *arg, const struct dz_registry_event *e);

/* The other tables and their verbs: registry_record.h, registry_lease.h, registry_meter.h. */
struct dz_registry_lease;
struct dz_registry_holder;
struct dz_registry_interval;
struct dz_registry_meter_filter;
struct dz_registry_table;
struct dz_registry_record_filter;
typedef int dz_registry_take_fn(void *arg, const void *row);
struct dz_registry_key {
    const char *tenant;     /* NULL: any tenant */
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
    int (*lease_take)(struct dz_registry *r, const struct dz_registry_lease *l, struct dz_err *err);
    int (*lease_drop)(struct dz_registry *r, const char *sandbox_id, int64_t epoch,
                      struct dz_err *err);
    int (*lease_holders)(struct dz_registry *r, const char *volume_id,
                         int (*fn)(void *arg, const struct dz_registry_holder *h), void *arg,
                         struct dz_err *err);
    int (*volume_written)(struct dz_registry *r, const char *volume_id, struct dz_err *err);
    int (*meter_read)(struct dz_registry *r, const struct dz_registry_meter_filter *f,
                      void (*fn)(void *arg, const struct dz_registry_interval *i), void *arg,
                      struct dz_err *err);
    int (*meter_file)(struct dz_registry *r, const char *id, int64_t bytes, struct dz_err *err);
    int (*meter_tenant)(struct dz_registry *r, const char *tenant, const char *sandbox_id,
                        char **ret_tenant, struct dz_err *err);
    int (*meter_mark)(struct dz_registry *r, struct dz_err *err);
    int (*meter_resume)(struct dz_registry *r, struct dz_err *err);
    int (*number)(struct dz_registry *r, const char *tenant, int64_t most, int64_t *ret_number,
                  struct dz_err *err);
    int (*schedule_next)(struct dz_registry *r, int64_t *ret_at, struct dz_err *err);
    int (*sweep)(struct dz_registry *r, int64_t now, size_t limit, size_t *ret_count,
                 struct dz_err *err);
    int (*flush)(struct dz_registry *r, struct dz_err *err);
    int (*check)(struct dz_registry *r, struct dz_err *err);
    int (*maintain)(struct dz_registry *r, bool idle, struct dz_err *err);
    int (*close)(struct dz_registry *r, struct dz_err *err);
};

/* The first member of every back end; a test may replace the verbs. */
struct dz_registry {
    const struct dz_registry_ops *ops;
    void (*on_event)(void *arg); /* dz_registry_on_event */
    void *event_arg;
    bool (*full)(void *arg); /* dz_registry_on_full */
    void *full_arg;
};
/* Call fn after each change that wrote an event, from inside that call: fn must not use the
 * registry. NULL: no longer. */
void dz_registry_on_event(struct dz_registry *r, void (*fn)(void *arg), void *arg);
/* Call fn when a change meets DZ_ENOSPC. True: fn has made room, and the change is tried again. Not
 * for dz_registry_flush. NULL: no longer. */
void dz_registry_on_full(struct dz_registry *r, bool (*fn)(void *arg), void *arg);

/* Add a row: version 1, epoch as given. DZ_EEXIST: the id is taken (also by a sandbox deleted less
 * than a day ago), or the tenant has a living sandbox of that name. */
DZ_NODISCARD int dz_registry_create(struct dz_registry *r, const struct dz_instance *row,
                                    struct dz_err *err);
/* DZ_ENOENT; DZ_EGONE for a day after it was erased. */
DZ_NODISCARD int dz_registry_get(struct dz_registry *r, const char *id, struct dz_instance *ret_row,
                                 struct dz_err *err);
/* Find a row by id, by name, or by a prefix of an id that is unique. tenant NULL: of any tenant; a
 * name is then looked up in the tenant `home`, or in all tenants if that is NULL, too. DZ_ENOENT;
 * DZ_EINVAL: ambiguous, and the sentence lists the candidates; DZ_EGONE for a day after the row was
 * erased. With a tenant given, the result never reveals whether another tenant has, or had, such a
 * row.
 */
DZ_NODISCARD int dz_registry_find(struct dz_registry *r, const char *tenant, const char *home,
                                  const char *word, struct dz_instance *ret_row,
                                  struct dz_err *err);
/* DZ_EBUSY: the row has another version or epoch now. DZ_ENOENT. The row then has version + 1 and
 * the current time as `updated`. */
DZ_NODISCARD int dz_registry_change(struct dz_registry *r, const struct dz_registry_change *c,
                                    struct dz_err *err);
/* Erase the row and its tokens, close its references, and leave a tombstone. A power cut may bring
 * the row back as it was last durable. */
DZ_NODISCARD int dz_registry_erase(struct dz_registry *r, const char *id, int64_t version,
                                   int64_t epoch, struct dz_err *err);
/* Append rows ordered by id to *rows (DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX)). */
DZ_NODISCARD int dz_registry_list(struct dz_registry *r, const struct dz_registry_filter *f,
                                  struct dz_instances *rows, struct dz_err *err);
/* List rows that are due, the earliest first. */
DZ_NODISCARD int dz_registry_due(struct dz_registry *r, int64_t now, size_t limit,
                                 struct dz_instances *rows, struct dz_err *err);
/* The earliest due time of all rows; INT64_MAX: none. */
DZ_NODISCARD int dz_registry_next_due(struct dz_registry *r, int64_t *ret_at, struct dz_err *err);
/* Count the rows that match the filter, ignoring its `after` and `limit`. Reads all of them: use it
 * at start-up, not for each request. */
DZ_NODISCARD int dz_registry_count(struct dz_registry *r, const struct dz_registry_filter *f,
                                   int64_t *ret_count, struct dz_err *err);
/* Write an event without changing a row: `what`, and any of sandbox_id, tenant (NULL: the
 * sandbox's) and detail. Sets `at` and the number. */
DZ_NODISCARD int dz_registry_note(struct dz_registry *r, const struct dz_registry_event *e,
                                  int64_t *ret_seq, struct dz_err *err);
/* Call fn for events in order until it returns non-zero. Each tenant's events have numbers of their
 * own, from 1 and without gaps, so that a tenant cannot learn how many events others have. Text is
 * valid during the call, and fn must not use the registry. */
DZ_NODISCARD int dz_registry_events(struct dz_registry *r, const struct dz_registry_event_filter *f,
                                    dz_registry_event_fn *fn, void *arg, struct dz_err *err);
/* The numbers of the oldest event that is kept and of the newest ever; 0: none. A reader that
 * continues after a number below *ret_first - 1 has missed events. */
DZ_NODISCARD int dz_registry_event_span(struct dz_registry *r, int64_t *ret_first,
                                        int64_t *ret_last, struct dz_err *err);
/* The number of a tenant, below `most` and different from those of all other tenants. It is
 * assigned at the first request and kept until the tenant's record is removed. A number that this
 * process assigned before is reused last, because processes of its former owner may still exist.
 * DZ_ELIMIT: no number is free, or the tenant's is not below `most`. */
DZ_NODISCARD int dz_registry_number(struct dz_registry *r, const char *tenant, int64_t most,
                                    int64_t *ret_number, struct dz_err *err);
/* Make everything durable that was acknowledged before this call. The only verb that may be called
 * on another thread during other calls: a durable change waits for the disk itself; with this verb
 * a worker waits. */
DZ_NODISCARD int dz_registry_flush(struct dz_registry *r, struct dz_err *err);
/* Check the registry's file for damage. DZ_ECORRUPT with the first finding. */
DZ_NODISCARD int dz_registry_check(struct dz_registry *r, struct dz_err *err);
/* Between replies: checkpoint the WAL if that is worthwhile. */
DZ_NODISCARD int dz_registry_maintain(struct dz_registry *r, bool idle, struct dz_err *err);
int dz_registry_close(struct dz_registry *r, struct dz_err *err); /* NULL: 0 */

/* --- opening --------------------------------------------------------------------- */

/* Choose the registry: `given`, else DOZE_REGISTRY, else WB_REGISTRY, else the file registry.db in
 * the data directory. DZ_ELIMIT: too long. */
DZ_NODISCARD int dz_registry_locate(const char *given, const char *data_dir,
                                    char ret_name[static DZ_PATH_MAX], struct dz_err *err);

/* Open a registry: a path, or ":memory:". A missing file is made, durably, if `create`; otherwise
 * DZ_ENOENT. DZ_EBUSY: another process has it open. DZ_ESTATE: made by a newer doze, or not a
 * registry. DZ_EUNSUPPORTED: postgres:// */
DZ_NODISCARD int dz_registry_open(const char *name, bool create, struct dz_registry **ret_registry,
                                  struct dz_err *err);

/* Open a registry on any disk of module db, for simulations; the disk must hold what
 * dz_registry_template wrote. */
struct dz_db_disk;
struct dz_buf;
DZ_NODISCARD int dz_registry_template(struct dz_buf *out, struct dz_err *err);
DZ_NODISCARD int dz_registry_open_disk(struct dz_db_disk *disk, struct dz_registry **ret_registry,
                                       struct dz_err *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * registry_record.h - the registry's other rows: tenants, tokens, snapshots, volumes, forks,
 * references, workbooks, idempotency keys, schedules and their runs.
 *
 * All tables have the same shape, so all have the same verbs, and one conformance test covers every
 * table and back end. A row begins with id, tenant, version, created, updated (milliseconds since
 * 1970). For the table `token`, for example, there are
 *
 *     struct dz_token_row, struct dz_token_rows (a DZ_VEC of them), their release
 *     dz_registry_token_add(r, &row, durable, err)
 *     dz_registry_token_get(r, tenant, id, &row, err)
 *     dz_registry_token_find(r, tenant, alias, &row, err)
 *     dz_registry_token_change(r, &row, DZ_ROW_COLUMN(token, label), durable, err)
 *     dz_registry_token_remove(r, tenant, id, version, err)
 *     dz_registry_token_list(r, &filter, &rows, err)
 *     dz_registry_token_count(r, &filter, &n, err)
 *
 * add     version 1; `created` of now when it is 0. DZ_EEXIST: the id is taken, or
 *         an alias that must be unique. DZ_ELIMIT: a text is over
 *         DZ_REGISTRY_TEXT_MAX.
 * get     DZ_ENOENT: the tenant has none. tenant NULL: any tenant.
 * find    by the alias (token: sha256; snapshot, volume, workbook, ref: name; fork: label;
 *         run: schedule_id); the newest if several have it.
 * change  compare-and-swap: the columns named go from `row` into the stored row if
 *         that still has row->version, which is then counted up here too.
 *         DZ_EBUSY: it has another one now; read it again. DZ_ENOENT: it is gone.
 * remove  durable. version 0: any version. DZ_ESTATE: another row needs this one
 *         (a fork its snapshot; a living lease its volume; anything but tokens and keys its
 *         tenant).
 * list    by id, which sorts by time; pages by filter.after.
 *
 * With a tenant given, no verb reveals whether another tenant has such a row. Expired tokens and
 * idempotency keys count as missing for every verb, even before dz_registry_sweep removes them.
 * When a sandbox is erased, its tokens and schedules are removed and its references closed;
 * snapshots and forks stay until they are removed.
 */
#ifndef DZ_REGISTRY_REGISTRY_RECORD_H
#define DZ_REGISTRY_REGISTRY_RECORD_H

#include "registry/registry.h"

/* --- rows ------------------------------------------------------------------------ */

#define DZ_RECORD_HEAD(T, I) T(id) T(tenant) I(version) I(created) I(updated)

#define DZ_TENANT_COLUMNS(T, I)                        \
    DZ_RECORD_HEAD(T, I) /* `tenant` repeats the id */ \
    T(status)                                          \
    T(quotas) /* JSON */                               \
    T(metadata)                                        \
    T(replica) /* "off", a URL, or "": as the server */

#define DZ_TOKEN_COLUMNS(T, I)                                    \
    DZ_RECORD_HEAD(T, I)                                          \
    T(sha256)     /* of the secret, hexadecimal; unique; alias */ \
    T(sandbox_id) /* "": for all sandboxes of the tenant */       \
    T(scope)                                                      \
    T(label)                                                      \
    I(expires)                                                    \
    I(last_used)                                                  \
    T(quotas) /* JSON; limits what is created with it */

#define DZ_SNAPSHOT_COLUMNS(T, I)                              \
    DZ_RECORD_HEAD(T, I)                                       \
    T(status)                                                  \
    T(sandbox_id) /* the source, which the row may outlive */  \
    T(name)       /* unique within the tenant; alias */        \
    T(kind)       /* kind, as control_snap.c defines it */     \
    T(image)                                                   \
    T(config)   /* JSON: the source's config */                \
    T(metadata) /* JSON */                                     \
    T(uri)                                                     \
    T(sha256)                                                  \
    I(size)                                                    \
    I(generation) /* of the source's file when it was taken */ \
    I(expires)                                                 \
    T(error)

#define DZ_VOLUME_COLUMNS(T, I)                                   \
    DZ_RECORD_HEAD(T, I)                                          \
    T(status)                                                     \
    T(name)        /* unique within the tenant; alias */          \
    I(size)        /* bytes of its file, as measured last */      \
    I(limit_bytes) /* that its files may take; 0: the server's */ \
    T(metadata)    /* JSON */                                     \
    I(generation)  /* counts up when another sandbox may write */ \
    T(holder)      /* the only sandbox that had it since; "" */

#define DZ_FORK_COLUMNS(T, I)                         \
    DZ_RECORD_HEAD(T, I)                              \
    T(status)                                         \
    T(sandbox_id) /* the source */                    \
    T(label)      /* alias */                         \
    T(snapshot_id)                                    \
    T(config)                                         \
    I(attached) /* branches started from it so far */ \
    I(expires)

#define DZ_REF_COLUMNS(T, I)                                    \
    DZ_RECORD_HEAD(T, I)                                        \
    T(status)                                                   \
    T(sandbox_id)                                               \
    T(owner)                                                    \
    T(attachments) /* JSON: the numbers of the attachments */   \
    I(attached)    /* the last assigned number */               \
    I(closed)      /* when the owner's cleanup ran; 0: alive */ \
    T(name)        /* unique within the tenant; alias */        \
    I(expires)

#define DZ_WORKBOOK_COLUMNS(T, I)                       \
    DZ_RECORD_HEAD(T, I)                                \
    T(name)       /* unique within the tenant; alias */ \
    T(source)     /* Org text */                        \
    T(sandbox_id) /* "": not docked */                  \
    T(metadata)

/* id is the client's key, unique only within the tenant. */
#define DZ_IDEMPOTENCY_COLUMNS(T, I)                                  \
    DZ_RECORD_HEAD(T, I)                                              \
    T(request_sha256) /* a key may not be used for another request */ \
    T(sandbox_id)     /* the sandbox that the request will create */  \
    I(http_status)    /* 0: in progress */                            \
    T(response)                                                       \
    I(expires)

#define DZ_SCHEDULE_COLUMNS(T, I)                                      \
    DZ_RECORD_HEAD(T, I)                                               \
    T(status) /* "on", "off", "done": never comes again */             \
    T(sandbox_id)                                                      \
    T(name)     /* unique within the sandbox */                        \
    T(cron)     /* "": every_ms says when; neither: once, at anchor */ \
    T(zone)     /* of cron; "": UTC */                                 \
    I(every_ms) /* from anchor on */                                   \
    I(anchor)                                                          \
    T(command) /* JSON: what is run */                                 \
    T(missed)  /* "skip", "once", "all" */                             \
    T(overlap) /* "skip", "queue", "parallel" */                       \
    I(planned) /* the next time at which it comes; 0: never */         \
    I(due)     /* when it must be looked at; 0: never; indexed */      \
    I(queued)  /* runs that wait for the end of the one before */      \
    T(last_run)

#define DZ_SCHEDULE_RUN_COLUMNS(T, I)                                      \
    DZ_RECORD_HEAD(T, I)                                                   \
    T(status) /* "running", "ok", "failed", "missed", "skipped", "lost" */ \
    T(sandbox_id)                                                          \
    T(schedule_id) /* alias */                                             \
    T(cause)       /* "schedule", "missed", "queued", "request" */         \
    I(planned)                                                             \
    I(started)                                                             \
    I(ended)                                                               \
    T(exec_id)                                                             \
    I(exit_code) /* -1: it was killed, or has not ended */                 \
    T(error)

enum {
    DZ_SCHEDULE_RUNS_MAX = 50, /* runs of one schedule that are kept; older ones are removed */
};

/* --- tables ---------------------------------------------------------------------- */

/* Every column has eight bytes, so its offset gives its number. */
#define DZ_ROW_COLUMN(table, name) \
    (UINT64_C(1) << (offsetof(struct dz_##table##_row, name) / sizeof(int64_t)))

struct dz_registry_record_filter {
    const char *tenant, *sandbox_id, *status; /* NULL: any; only columns that the table has */
    const char *alias;                        /* NULL: any; lists run from the newest then */
    int64_t due_by;     /* only rows due by then, the earliest first; 0: all */
    const char *after;  /* ids greater than this; NULL: from the first */
    int64_t expired_at; /* only rows that have expired by then; 0: all */
    size_t limit;       /* 0: DZ_REGISTRY_LIST_MAX */
};

/* The verbs without types. take(arg, row) takes the row over unless it fails. */
DZ_NODISCARD int dz_registry_record_add(struct dz_registry *r, const struct dz_registry_table *t,
                                        const void *row, bool durable, struct dz_err *err);
DZ_NODISCARD int dz_registry_record_get(struct dz_registry *r, const struct dz_registry_table *t,
                                        const char *tenant, const char *id, void *ret_row,
                                        struct dz_err *err);
DZ_NODISCARD int dz_registry_record_find(struct dz_registry *r, const struct dz_registry_table *t,
                                         const char *tenant, const char *alias, void *ret_row,
                                         struct dz_err *err);
DZ_NODISCARD int dz_registry_record_change(struct dz_registry *r, const struct dz_registry_table *t,
                                           void *row, uint64_t set, bool durable,
                                           struct dz_err *err);
DZ_NODISCARD int dz_registry_record_remove(struct dz_registry *r, const struct dz_registry_table *t,
                                           const char *tenant, const char *id, int64_t version,
                                           struct dz_err *err);
DZ_NODISCARD int dz_registry_record_list(struct dz_registry *r, const struct dz_registry_table *t,
                                         const struct dz_registry_record_filter *f,
                                         dz_registry_take_fn *take, void *arg, struct dz_err *err);
DZ_NODISCARD int dz_registry_record_count(struct dz_registry *r, const struct dz_registry_table *t,
                                          const struct dz_registry_record_filter *f,
                                          int64_t *ret_count, struct dz_err *err);
void dz_registry_record_release(const struct dz_registry_table *t, void *row);

#define DZ_RECORD_TEXT_(name)    const char *name;
#define DZ_RECORD_INTEGER_(name) int64_t name;
#define DZ_RECORD_TABLE_(table, COLUMNS)                                                          \
    struct dz_##table##_row {                                                                     \
        COLUMNS(DZ_RECORD_TEXT_, DZ_RECORD_INTEGER_)                                              \
        char *text; /* memory of a row that was read; NULL in a row that a caller fills */        \
    };                                                                                            \
    DZ_VEC(dz_##table##_rows, struct dz_##table##_row); /* DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX) */   \
    extern const struct dz_registry_table dz_##table##_table;                                     \
    static inline void dz_##table##_row_release(struct dz_##table##_row *row)                     \
    {                                                                                             \
        dz_registry_record_release(&dz_##table##_table, row);                                     \
    }                                                                                             \
    static inline void dz_##table##_rows_release(struct dz_##table##_rows *rows)                  \
    {                                                                                             \
        for (size_t i = 0; i < rows->n; i++)                                                      \
            dz_##table##_row_release(&rows->p[i]);                                                \
        dz_vec_release(rows);                                                                     \
    }                                                                                             \
    DZ_NODISCARD static inline int dz_registry_##table##_add(struct dz_registry *r,               \
                                                             const struct dz_##table##_row *row,  \
                                                             bool durable, struct dz_err *err)    \
    {                                                                                             \
        return dz_registry_record_add(r, &dz_##table##_table, row, durable, err);                 \
    }                                                                                             \
    DZ_NODISCARD static inline int dz_registry_##table##_get(                                     \
        struct dz_registry *r, const char *tenant, const char *id,                                \
        struct dz_##table##_row *ret_row, struct dz_err *err)                                     \
    {                                                                                             \
        return dz_registry_record_get(r, &dz_##table##_table, tenant, id, ret_row, err);          \
    }                                                                                             \
    DZ_NODISCARD static inline int dz_registry_##table##_find(                                    \
        struct dz_registry *r, const char *tenant, const char *alias,                             \
        struct dz_##table##_row *ret_row, struct dz_err *err)                                     \
    {                                                                                             \
        return dz_registry_record_find(r, &dz_##table##_table, tenant, alias, ret_row, err);      \
    }                                                                                             \
    DZ_NODISCARD static inline int dz_registry_##table##_change(                                  \
        struct dz_registry *r, struct dz_##table##_row *row, uint64_t set, bool durable,          \
        struct dz_err *err)                                                                       \
    {                                                                                             \
        return dz_registry_record_change(r, &dz_##table##_table, row, set, durable, err);         \
    }                                                                                             \
    DZ_NODISCARD static inline int dz_registry_##table##_remove(                                  \
        struct dz_registry *r, const char *tenant, const char *id, int64_t version,               \
        struct dz_err *err)                                                                       \
    {                                                                                             \
        return dz_registry_record_remove(r, &dz_##table##_table, tenant, id, version, err);       \
    }                                                                                             \
    static inline int dz_##table##_take_(void *rows, const void *row)                             \
    {                                                                                             \
        return dz_vec_push((struct dz_##table##_rows *)rows,                                      \
                           *(const struct dz_##table##_row *)row);                                \
    }                                                                                             \
    DZ_NODISCARD static inline int dz_registry_##table##_list(                                    \
        struct dz_registry *r, const struct dz_registry_record_filter *f,                         \
        struct dz_##table##_rows *rows, struct dz_err *err)                                       \
    {                                                                                             \
        return dz_registry_record_list(r, &dz_##table##_table, f, dz_##table##_take_, rows, err); \
    }                                                                                             \
    DZ_NODISCARD static inline int dz_registry_##table##_count(                                   \
        struct dz_registry *r, const struct dz_registry_record_filter *f, int64_t *ret_count,     \
        struct dz_err *err)                                                                       \
    {                                                                                             \
        return dz_registry_record_count(r, &dz_##table##_table, f, ret_count, err);               \
    }

DZ_RECORD_TABLE_(tenant, DZ_TENANT_COLUMNS)
DZ_RECORD_TABLE_(token, DZ_TOKEN_COLUMNS)
DZ_RECORD_TABLE_(snapshot, DZ_SNAPSHOT_COLUMNS)
DZ_RECORD_TABLE_(volume, DZ_VOLUME_COLUMNS)
DZ_RECORD_TABLE_(fork, DZ_FORK_COLUMNS)
DZ_RECORD_TABLE_(ref, DZ_REF_COLUMNS)
DZ_RECORD_TABLE_(workbook, DZ_WORKBOOK_COLUMNS)
DZ_RECORD_TABLE_(idempotency, DZ_IDEMPOTENCY_COLUMNS)
DZ_RECORD_TABLE_(schedule, DZ_SCHEDULE_COLUMNS)
DZ_RECORD_TABLE_(schedule_run, DZ_SCHEDULE_RUN_COLUMNS)

/* The earliest `due` of all schedules; INT64_MAX: none is due ever. */
DZ_NODISCARD int dz_registry_schedule_next(struct dz_registry *r, int64_t *ret_at,
                                           struct dz_err *err);

/* Remove at most `limit` useless rows of each kind: expired tokens and idempotency keys, references
 * closed a day ago. *ret_count: how many. Expired snapshots and forks stay, because they have
 * files. */
DZ_NODISCARD int dz_registry_sweep(struct dz_registry *r, size_t limit, size_t *ret_count,
                                   struct dz_err *err);

#endif

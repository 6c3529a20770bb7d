/* SPDX-License-Identifier: MIT
 *
 * registry_sqlite.h - shared by the files of the SQLite back end.
 *
 * The SQL is made from the tables' descriptions. A text is made once for each table and key (the
 * kind of statement and its columns or conditions), so that its statement is prepared once, too.
 */
#ifndef DZ_REGISTRY_REGISTRY_SQLITE_H
#define DZ_REGISTRY_REGISTRY_SQLITE_H

#include "base/buf.h"
#include "db/db.h"
#include "registry/registry_int.h"
#include "registry/registry_meter.h"

enum {
    DZ_REGISTRY_TEXTS_MAX = 200,   /* cached SQL texts, with their statements; */
    DZ_REGISTRY_TEXTS_OF_ONE = 64, /* of them for one table */
    DZ_REGISTRY_TABLES = 11,
};

struct dz_sql_text {
    uint64_t key;
    char *sql;
};

struct dz_sql_texts {
    const struct dz_registry_table *table;
    DZ_VEC(, struct dz_sql_text) kept;
};

struct dz_sqlite_registry {
    struct dz_registry head;
    struct dz_db *db;
    struct dz_sql_texts texts[DZ_REGISTRY_TABLES];
    size_t text_count;
    int64_t next_number; /* next tenant number to assign: smaller ones were assigned in this run */
    int64_t stamp;       /* the date of the change in progress, in events and intervals */
    int64_t wall_ahead;  /* the wall clock minus the boot clock, as last seen; milliseconds */
};

static inline struct dz_sqlite_registry *dz_sqlite_self(struct dz_registry *r)
{
    return (struct dz_sqlite_registry *)r;
}

/* The kind of a statement, in the upper bits of its key; the lower bits are columns of a table (for
 * an UPDATE) or conditions. */
#define DZ_SQL_VERB(n) ((uint64_t)(n) << 56)

/* A statement in use. */
struct dz_sql_use {
    struct dz_stmt *st;
    char *once; /* its text, if it is not cached */
};

/* Get the statement for a key of a table: cached, or made now by make(). */
typedef void dz_sql_make_fn(const struct dz_registry_table *t, uint64_t key, struct dz_buf *out);
DZ_NODISCARD int dz_sql_use(struct dz_sqlite_registry *s, const struct dz_registry_table *t,
                            uint64_t key, dz_sql_make_fn *make, struct dz_sql_use *ret_use,
                            struct dz_err *err);
void dz_sql_done(struct dz_sql_use *use); /* for DZ_AUTO too; zeroed is fine */
void dz_sql_texts_release(struct dz_sqlite_registry *s);

/* "SELECT a,b,c FROM t ", "INSERT INTO t VALUES(?1,?2,...)". */
void dz_sql_add_select(const struct dz_registry_table *t, struct dz_buf *out);
void dz_sql_make_insert(const struct dz_registry_table *t, uint64_t key, struct dz_buf *out);
/* Append ", a = ?5, b = ?6" for a set of columns, and their values. */
void dz_sql_add_set(const struct dz_registry_table *t, uint64_t set, int at, struct dz_buf *out);
void dz_sql_bind_set(struct dz_stmt *st, const struct dz_registry_table *t, const void *row,
                     uint64_t set, int at);

/* Read the current row of st. All its text is one block. */
DZ_NODISCARD int dz_sql_read_row(struct dz_stmt *st, const struct dz_registry_table *t,
                                 void *ret_row, struct dz_err *err);

/* Set the stamp for a change. Begins a transaction of its own if the wall clock was set. */
DZ_NODISCARD int dz_sqlite_meter_settle(struct dz_sqlite_registry *s, struct dz_err *err);
/* Set the stamp, and begin. */
DZ_NODISCARD int dz_sqlite_begin(struct dz_sqlite_registry *s, bool durable, struct dz_err *err);
/* Commit, or roll back if rc is an error. */
DZ_NODISCARD int dz_sqlite_end(struct dz_sqlite_registry *s, int rc, bool durable,
                               struct dz_err *err);

/* The record verbs (registry_record.h), and the events. */
int dz_sqlite_record_add(struct dz_registry *r, const struct dz_registry_table *t, const void *row,
                         bool durable, struct dz_err *err);
int dz_sqlite_record_get(struct dz_registry *r, const struct dz_registry_table *t,
                         const struct dz_registry_key *key, void *ret_row, struct dz_err *err);
int dz_sqlite_record_change(struct dz_registry *r, const struct dz_registry_table *t, void *row,
                            uint64_t set, bool durable, struct dz_err *err);
int dz_sqlite_record_remove(struct dz_registry *r, const struct dz_registry_table *t,
                            const struct dz_registry_key *key, int64_t version, struct dz_err *err);
int dz_sqlite_record_list(struct dz_registry *r, const struct dz_registry_table *t,
                          const struct dz_registry_record_filter *f, dz_registry_take_fn *take,
                          void *arg, struct dz_err *err);
int dz_sqlite_record_count(struct dz_registry *r, const struct dz_registry_table *t,
                           const struct dz_registry_record_filter *f, int64_t *ret_count,
                           struct dz_err *err);
int dz_sqlite_schedule_next(struct dz_registry *r, int64_t *ret_at, struct dz_err *err);
int dz_sqlite_sweep(struct dz_registry *r, int64_t now, size_t limit, size_t *ret_count,
                    struct dz_err *err);

/* registry_lease.h */
int dz_sqlite_lease_take(struct dz_registry *r, const struct dz_registry_lease *l,
                         struct dz_err *err);
int dz_sqlite_lease_drop(struct dz_registry *r, const char *sandbox_id, int64_t epoch,
                         struct dz_err *err);
int dz_sqlite_lease_holders(struct dz_registry *r, const char *volume_id,
                            int (*fn)(void *arg, const struct dz_registry_holder *h), void *arg,
                            struct dz_err *err);
int dz_sqlite_volume_written(struct dz_registry *r, const char *volume_id, struct dz_err *err);

int dz_sqlite_number(struct dz_registry *r, const char *tenant, int64_t most, int64_t *ret_number,
                     struct dz_err *err);

/* --- registry_meter.h; the first four are for changes of rows, in their transaction -------------
 */

void dz_sqlite_meter_init(struct dz_sqlite_registry *s);
/* The row of this sandbox or snapshot is new, or was changed. */
int dz_sqlite_meter_follow(struct dz_sqlite_registry *s, const char *id, struct dz_err *err);
int dz_sqlite_meter_snapshot(struct dz_sqlite_registry *s, const char *id, struct dz_err *err);
/* The row of this sandbox or snapshot was removed. */
int dz_sqlite_meter_end(struct dz_sqlite_registry *s, const char *id, struct dz_err *err);
int dz_sqlite_meter_read(struct dz_registry *r, const struct dz_registry_meter_filter *f,
                         void (*fn)(void *arg, const struct dz_registry_interval *i), void *arg,
                         struct dz_err *err);
int dz_sqlite_meter_file(struct dz_registry *r, const char *id, int64_t bytes, struct dz_err *err);
int dz_sqlite_meter_tenant(struct dz_registry *r, const char *tenant, const char *sandbox_id,
                           char **ret_tenant, struct dz_err *err);
int dz_sqlite_meter_mark(struct dz_registry *r, struct dz_err *err);
int dz_sqlite_meter_resume(struct dz_registry *r, struct dz_err *err);

#endif

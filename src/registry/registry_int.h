/* SPDX-License-Identifier: MIT
 *
 * registry_int.h - shared inside src/registry only.
 */
#ifndef DZ_REGISTRY_REGISTRY_INT_H
#define DZ_REGISTRY_REGISTRY_INT_H

#include "registry/registry.h"
#include "registry/registry_record.h"

struct dz_db_schema;

/* The columns of a row as a table, in their order. The first two of every table are
 * id and tenant. */
struct dz_registry_column {
    const char *name;
    size_t offset; /* in the row's struct */
    bool text;
};

/* A condition that forbids removing a row: SQL with ?1 = the row's id, and its name in messages. */
struct dz_registry_guard {
    const char *sql, *what;
};

struct dz_registry_table {
    const char *name; /* in SQL */
    const char *what; /* in sentences */
    const struct dz_registry_column *columns;
    size_t count;
    size_t text_offset; /* of the struct's `text`, its last member */
    const char *alias;  /* a column; NULL: rows have none */
    bool lapses;        /* an expired row counts as missing */
    bool of_tenant;     /* an id is unique within its tenant only */
    const struct dz_registry_guard *guards;
    const char *const *hangers; /* SQL that removes dependent rows; NULL at the end; or NULL */
};

/* The leases that are alive (registry_lease.h), for FROM. SQLite is set to refuse views, so this
 * is text. */
#define DZ_LEASE_ALIVE                                                        \
    "(SELECT l.* FROM lease l JOIN instances i ON i.id = l.sandbox_id WHERE " \
    "(l.epoch = i.epoch AND i.state = 'active') OR "                          \
    "(l.epoch = i.epoch + 1 AND i.op IS NOT NULL))"

/* Room for a record of any table. */
union dz_registry_row {
    struct dz_tenant_row tenant;
    struct dz_token_row token;
    struct dz_snapshot_row snapshot;
    struct dz_volume_row volume;
    struct dz_fork_row fork;
    struct dz_ref_row ref;
    struct dz_workbook_row workbook;
    struct dz_idempotency_row idempotency;
    struct dz_schedule_row schedule;
    struct dz_schedule_run_row schedule_run;
};

extern const struct dz_registry_table dz_instance_table;
extern const struct dz_registry_table
    *const dz_registry_tables[]; /* the records'; NULL at the end */
extern const struct dz_db_schema dz_registry_schema;

/* DZ_ELIMIT when a text of the columns in `set` is too long. */
DZ_NODISCARD int dz_registry_check_texts(const struct dz_registry_table *t, const void *row,
                                         uint64_t set, struct dz_err *err);
int dz_registry_column_of(const struct dz_registry_table *t, const char *name); /* -1: none */

static inline const char *dz_row_text(const struct dz_registry_table *t, const void *row, int c)
{
    const char *s = *(const char *const *)((const char *)row + t->columns[c].offset);
    return s ? s : "";
}
static inline int64_t dz_row_integer(const struct dz_registry_table *t, const void *row, int c)
{
    return *(const int64_t *)((const char *)row + t->columns[c].offset);
}

DZ_NODISCARD int dz_registry_open_sqlite(const char *name, bool create,
                                         struct dz_registry **ret_registry, struct dz_err *err);

struct dz_db;
/* Make a registry of this open database. Takes the database over, also on failure. */
DZ_NODISCARD int dz_registry_wrap_sqlite(struct dz_db *db, struct dz_registry **ret_registry,
                                         struct dz_err *err);

#endif

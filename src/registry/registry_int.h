/* SPDX-License-Identifier: MIT
 *
 * registry_int.h - shared inside src/registry only.
 */
#ifndef DZ_REGISTRY_REGISTRY_INT_H
#define DZ_REGISTRY_REGISTRY_INT_H

#include "registry/registry.h"

struct dz_db_schema;

/* The columns of a row as a table, in their order. */
struct dz_registry_column {
    const char *name;
    size_t offset; /* in struct dz_instance */
    bool text;
};
extern const struct dz_registry_column dz_registry_columns[DZ_INSTANCE_COLUMN_COUNT];

extern const struct dz_db_schema dz_registry_schema;

DZ_NODISCARD int dz_registry_open_sqlite(const char *name, bool create,
                                         struct dz_registry **ret_registry, struct dz_err *err);

struct dz_db;
/* A registry of this open database. Takes it over, also when it fails. */
DZ_NODISCARD int dz_registry_wrap_sqlite(struct dz_db *db, struct dz_registry **ret_registry,
                                         struct dz_err *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * machine_rows.h - rows of one database into another.
 */
#ifndef DZ_MACHINE_MACHINE_ROWS_H
#define DZ_MACHINE_MACHINE_ROWS_H

#include "base/attr.h"
#include "base/err.h"

struct dz_db;
struct dz_stmt;

/* Run sql on `to` with the columns of the row that `from` stands on as its parameters.
 * Reals, which our tables have none of, become NULL. */
DZ_NODISCARD int dz_machine_row_copy(struct dz_db *to, struct dz_stmt *from, const char *sql,
                                     struct dz_err *err);
/* Every row of a query on `from`. */
DZ_NODISCARD int dz_machine_rows_copy(struct dz_db *from, const char *query, struct dz_db *to,
                                      const char *sql, struct dz_err *err);

/* The machine that sleeps in `from`, when its memory goes on from one in the image, so that it
 * stands on no image: state, modules, memory into the empty tables of `to`. 1; 0: there
 * is no such machine, and nothing was written. */
DZ_NODISCARD int dz_machine_merge(struct dz_db *from, struct dz_db *image, struct dz_db *to,
                                  struct dz_err *err);

#endif

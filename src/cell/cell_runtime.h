/* SPDX-License-Identifier: MIT
 *
 * cell_runtime.h - cells as the daemon uses them (runtime/runtime.h), for each kind of guests.
 */
#ifndef DZ_CELL_CELL_RUNTIME_H
#define DZ_CELL_CELL_RUNTIME_H

#include "runtime/runtime.h"

/* The runtime of both is a struct dz_cell_pool. */
extern const struct dz_cell_ops dz_cell_wasm, dz_cell_linux;

#endif

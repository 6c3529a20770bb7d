/* SPDX-License-Identifier: MIT
 *
 * cell_runtime.h - cells of WebAssembly guests, as the daemon uses them (runtime/runtime.h).
 */
#ifndef DZ_CELL_CELL_RUNTIME_H
#define DZ_CELL_CELL_RUNTIME_H

#include "runtime/runtime.h"

extern const struct dz_cell_ops dz_cell_wasm; /* its runtime is a struct dz_cell_pool */

#endif

/* SPDX-License-Identifier: MIT
 *
 * wasm_link.h - binding of imports.
 */
#ifndef DZ_WASM_LINK_H
#define DZ_WASM_LINK_H

#include "wasm/wasm_int.h"

/* Fill the instance's imported functions, tables, memories, globals and tags.
 * DZ_ENOENT names every import that nobody has, DZ_EINVAL the first of a wrong
 * type. */
int dz_wasm_link(struct dz_wasm_inst *inst, const struct dz_wasm_host *host, size_t host_count,
                 struct dz_err *err);

/* The registered instance of this name, or NULL. */
struct dz_wasm_inst *dz_wasm_store_named(const struct dz_wasm_store *s, const char *name,
                                         size_t size);
/* The store owns the instance from now on; gives it its number. */
int dz_wasm_store_add(struct dz_wasm_store *s, struct dz_wasm_inst *inst, struct dz_err *err);
/* For a copy of `like`: no segments but the image, imports unbound without how->host. */
int dz_wasm_inst_bare(struct dz_wasm_store *s, const struct dz_wasm_inst *like,
                      const struct dz_wasm_copy *how, struct dz_wasm_inst **ret_inst,
                      struct dz_err *err);
void dz_wasm_store_drop_last(struct dz_wasm_store *s); /* free it again */

#endif

/* SPDX-License-Identifier: MIT
 *
 * engine_ref.h - references: a name for a sandbox that several share.
 */
#ifndef DZ_ENGINE_ENGINE_REF_H
#define DZ_ENGINE_ENGINE_REF_H

#include "engine/engine_branch.h"

DZ_NODISCARD int dz_engine_ref_add(struct dz_engine *e, struct dz_engine_target target,
                                   const struct dz_engine_handle *as, struct dz_ref_row *ret_row,
                                   struct dz_why *why);
DZ_NODISCARD int dz_engine_refs(struct dz_engine *e, const struct dz_engine_caller *who,
                                const char *after, size_t limit, struct dz_ref_rows *rows,
                                struct dz_why *why);
/* The reference only: the sandbox stays. */
DZ_NODISCARD int dz_engine_ref_forget(struct dz_engine *e, struct dz_engine_target target,
                                      struct dz_why *why);
/* The sandbox, shared; the number is for detach. DZ_EUNAVAIL, owner_gone: it has been destroyed. */
DZ_NODISCARD int dz_engine_ref_attach(struct dz_engine *e, struct dz_engine_target target,
                                      int64_t *ret_number, struct dz_instance *ret_row,
                                      struct dz_why *why);
DZ_NODISCARD int dz_engine_ref_detach(struct dz_engine *e, struct dz_engine_target target,
                                      int64_t number, struct dz_why *why);
/* The owner's cleanup: the sandbox is destroyed. */
DZ_NODISCARD int dz_engine_ref_delete(struct dz_engine *e, struct dz_engine_target target,
                                      dz_sandbox_done_fn *done, void *arg, struct dz_why *why);

#endif

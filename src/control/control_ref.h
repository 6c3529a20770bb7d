/* SPDX-License-Identifier: MIT
 *
 * control_ref.h - references: a name for a sandbox that several share.
 */
#ifndef DZ_CONTROL_CONTROL_REF_H
#define DZ_CONTROL_CONTROL_REF_H

#include "control/control_branch.h"

DZ_NODISCARD int dz_control_ref_add(struct dz_control *e, struct dz_control_target target,
                                    const struct dz_control_handle *as, struct dz_ref_row *ret_row,
                                    struct dz_why *why);
DZ_NODISCARD int dz_control_refs(struct dz_control *e, const struct dz_control_caller *who,
                                 const char *after, size_t limit, struct dz_ref_rows *rows,
                                 struct dz_why *why);
/* Delete only the reference: the sandbox stays. */
DZ_NODISCARD int dz_control_ref_forget(struct dz_control *e, struct dz_control_target target,
                                       struct dz_why *why);
/* Attach to the sandbox; the number is for detaching. DZ_EUNAVAIL, owner_gone: the sandbox was
 * destroyed. */
DZ_NODISCARD int dz_control_ref_attach(struct dz_control *e, struct dz_control_target target,
                                       int64_t *ret_number, struct dz_instance *ret_row,
                                       struct dz_why *why);
DZ_NODISCARD int dz_control_ref_detach(struct dz_control *e, struct dz_control_target target,
                                       int64_t number, struct dz_why *why);
/* Delete the reference and destroy its sandbox. */
DZ_NODISCARD int dz_control_ref_delete(struct dz_control *e, struct dz_control_target target,
                                       dz_sandbox_done_fn *done, void *arg, struct dz_why *why);

#endif

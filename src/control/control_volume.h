/* SPDX-License-Identifier: MIT
 *
 * control_volume.h - volumes: named disk files that outlive sandboxes and are mounted by them.
 */
#ifndef DZ_CONTROL_CONTROL_VOLUME_H
#define DZ_CONTROL_CONTROL_VOLUME_H

#include "control/control_why.h"
#include "registry/registry_lease.h"
#include "registry/registry_record.h"
#include "sandbox/sandbox_file.h"

enum {
    DZ_CONTROL_VOLUMES_MAX = 10000, /* of one tenant */
};
#define DZ_CONTROL_VOLUME_DEFAULT ((uint64_t)1 << 30) /* bytes that its files may take */

/* A volume's row, and the bytes that its file takes on the host. */
struct dz_control_volume {
    struct dz_volume_row row;
    uint64_t bytes;
};
void dz_control_volume_release(struct dz_control_volume *v); /* for DZ_AUTO, too */

/* limit_bytes 0: the default. */
DZ_NODISCARD int dz_control_volume_add(struct dz_control *e, const struct dz_control_caller *who,
                                       const char *name, uint64_t limit_bytes,
                                       struct dz_control_volume *ret, struct dz_why *why);
/* target.ref: a name, or an id. */
DZ_NODISCARD int dz_control_volume_get(struct dz_control *e, struct dz_control_target target,
                                       struct dz_control_volume *ret, struct dz_why *why);
DZ_NODISCARD int dz_control_volumes(struct dz_control *e, const struct dz_control_caller *who,
                                    const char *after, size_t limit, struct dz_volume_rows *rows,
                                    struct dz_why *why);
uint64_t dz_control_volume_bytes(const struct dz_control *e, const char *id);
/* DZ_ESTATE: a running sandbox has it mounted. */
DZ_NODISCARD int dz_control_volume_remove(struct dz_control *e, struct dz_control_target target,
                                          struct dz_why *why);
/* Operate on the volume's files without a sandbox; paths begin at its root. DZ_EVOLUME: a sandbox,
 * or another request, excludes this. */
DZ_NODISCARD int dz_control_volume_op(struct dz_control *e, struct dz_control_target target,
                                      const struct dz_file_op_request *request,
                                      struct dz_file_op **ret_op, struct dz_why *why);
/* Copy a volume: a new one of the caller's tenant, with the same size limit. */
struct dz_volume_copy;
typedef void dz_control_volume_fn(void *arg, int rc, const struct dz_control_volume *v,
                                  struct dz_why *why);
struct dz_control_volume_done {
    dz_control_volume_fn *fn;
    void *arg;
};
DZ_NODISCARD int dz_control_volume_copy(struct dz_control *e, struct dz_control_target target,
                                        const char *name, const struct dz_control_volume_done *done,
                                        struct dz_volume_copy **ret_copy, struct dz_why *why);
/* Nothing is made, and done is not called. */
void dz_control_volume_copy_cancel(struct dz_volume_copy *c);
DZ_NODISCARD int dz_control_volume_holders(struct dz_control *e, const char *id,
                                           dz_registry_holder_fn *fn, void *arg,
                                           struct dz_err *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * registry_lease.h - which sandboxes may use which volumes now: one writer, or many readers.
 *
 * A volume is a row of the table `volume` (registry_record.h). A sandbox that runs holds a lease of
 * each volume that it has mounted. Leases are taken while the sandbox wakes, before it is ready,
 * for the epoch that its run will have, all of them or none.
 *
 * A lease is alive only while its run is: the sandbox is active with the epoch of the lease, or an
 * operation is under way that will make it active with that epoch. So the change of the row that
 * ends a run (a suspend, the recovery after a daemon's death, an erase) ends its leases in the same
 * transaction, and a dead owner cannot keep a volume from others. dz_registry_lease_drop is for a
 * wake that fails after it took leases, whose operation may go on.
 *
 * Invariants: (1) a volume with a living lease for writing has no other living lease; (2) a sandbox
 * has leases only of volumes of its tenant.
 */
#ifndef DZ_REGISTRY_REGISTRY_LEASE_H
#define DZ_REGISTRY_REGISTRY_LEASE_H

#include "registry/registry.h"

enum {
    DZ_REGISTRY_LEASES_MAX = 64, /* volumes that one sandbox may have */
};

struct dz_registry_want {
    const char *volume_id;
    bool writes;
};

struct dz_registry_lease {
    const char *sandbox_id;
    int64_t epoch;                       /* of the run */
    const struct dz_registry_want *want; /* a volume may stand here twice, for two paths: the
                                            lease is for writing if one of them is */
    size_t count;                        /* at most DZ_REGISTRY_LEASES_MAX, else DZ_ELIMIT */
    /* NULL, or where to put the generation of each volume: it differs from that of an earlier lease
     * of this sandbox if another one may have written to the volume since. */
    int64_t *ret_generations;
};

/* Take these leases in place of all that the sandbox has; on failure nothing is changed, and the
 * sentence names the volume. DZ_ENOENT: the sandbox's tenant has no such volume. DZ_ESTATE: another
 * sandbox has a lease that excludes this one; the sentence names that sandbox. DZ_EBUSY: the
 * sandbox's row has another epoch now, or neither runs nor is being woken. */
DZ_NODISCARD int dz_registry_lease_take(struct dz_registry *r, const struct dz_registry_lease *l,
                                        struct dz_err *err);
/* Give back the leases that the sandbox took for this epoch or an earlier one. */
DZ_NODISCARD int dz_registry_lease_drop(struct dz_registry *r, const char *sandbox_id,
                                        int64_t epoch, struct dz_err *err);

struct dz_registry_holder {
    const char *sandbox_id;
    bool writes;
    int64_t taken; /* milliseconds since 1970 */
};
typedef int dz_registry_holder_fn(void *arg, const struct dz_registry_holder *h);
/* Call fn for each living lease of the volume, by sandbox id, until fn returns non-zero; a negative
 * result is returned. fn must not use the registry. */
DZ_NODISCARD int dz_registry_lease_holders(struct dz_registry *r, const char *volume_id,
                                           dz_registry_holder_fn *fn, void *arg,
                                           struct dz_err *err);

/* The volume is about to be written without a lease: the generation of every later lease differs
 * from those before, because files that sleeping sandboxes have open may be gone. */
DZ_NODISCARD int dz_registry_volume_written(struct dz_registry *r, const char *volume_id,
                                            struct dz_err *err);

#endif

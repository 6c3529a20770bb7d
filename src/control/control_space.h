/* SPDX-License-Identifier: MIT
 *
 * control_space.h - free space of the data directory's file system, and the reserve.
 */
#ifndef DZ_CONTROL_CONTROL_SPACE_H
#define DZ_CONTROL_CONTROL_SPACE_H

#include "control/control_why.h"

/* Free space of the data directory's file system. */
enum dz_space_level {
    DZ_SPACE_OK,
    DZ_SPACE_LOW,  /* less than twice the mark is free */
    DZ_SPACE_FULL, /* less than the mark: creations fail, guests get ENOSPC */
    DZ_SPACE_OUT,  /* less than half of the mark: no sandbox wakes, no command starts */
};
struct dz_space_opts {
    unsigned free_percent;   /* share of the file system to keep free: the mark; 0: none */
    uint64_t free_max_bytes; /* upper limit of the mark */
    uint64_t sandbox_bytes;  /* default limit for the disk of a sandbox; 0: no limit */
    uint64_t reserve_bytes;  /* preallocated for the registry and for operations that end or save a
                                sandbox */
};
struct dz_control_space {
    enum dz_space_level level;
    uint64_t total_bytes, free_bytes, mark_bytes; /* free_bytes excludes the reserve */
    uint64_t free_inodes, mark_inodes;            /* mark 0: the file system does not count them */
    uint64_t reserve_bytes;                       /* bytes held in the reserve now */
};
const char *dz_space_level_name(enum dz_space_level level);

void dz_control_set_space(struct dz_control *e, const struct dz_space_opts *opts);
/* measure the free space now */
void dz_control_space(struct dz_control *e, struct dz_control_space *ret_space);
/* The disk space of a sandbox that has no limit of its own; 0: no limit. */
uint64_t dz_control_disk_default(const struct dz_control *e);
/* Check for new work. DZ_ENOSPC: the disk is too full. */
DZ_NODISCARD int dz_control_check_space(struct dz_control *e, struct dz_why *why);

#endif

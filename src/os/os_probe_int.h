/* SPDX-License-Identifier: MIT
 *
 * os_probe_int.h - the probes themselves, each called in a child of its own.
 *
 * Each fills *f by one of the functions below, exactly once, and returns. It
 * need not release anything: the child ends.
 */
#ifndef DZ_OS_OS_PROBE_INT_H
#define DZ_OS_OS_PROBE_INT_H

#include "base/attr.h"
#include "os/os_probe.h"

#include <stdbool.h>

DZ_PRINTF(2, 3) void dz_os_found(struct dz_os_finding *f, const char *fmt, ...); /* yes */
DZ_PRINTF(2, 3) void dz_os_found_part(struct dz_os_finding *f, const char *fmt, ...);

/* No (or, after dz_os_found_part's fashion, only in part), because the call
 * that fmt names failed with errno, whose text is put behind it. */
DZ_PRINTF(2, 3) void dz_os_found_errno(struct dz_os_finding *f, const char *fmt, ...);

/* No, because the outcome was not what it should be. */
DZ_PRINTF(2, 3) void dz_os_found_wrong(struct dz_os_finding *f, const char *fmt, ...);

/* A user namespace (and a mount namespace) of our own, in which we are root.
 * False and errno when that is not to be had. */
bool dz_os_enter_user_ns(void);

/* The probes, by the names of DZ_OS_PROBES. */
#define X(id, key, name) void dz_os_probe_##id(const char *data_dir, struct dz_os_finding *f);
DZ_OS_PROBES(X)
#undef X

#endif

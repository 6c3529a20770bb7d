/* SPDX-License-Identifier: MIT
 *
 * daemon.h - the process that keeps sandboxes: everything opened, tied together, and
 * brought to its end.
 */
#ifndef DZ_DAEMON_DAEMON_H
#define DZ_DAEMON_DAEMON_H

#include "base/attr.h"
#include "base/err.h"
#include "lifecycle/lifecycle.h"

#include <stddef.h>

struct dz_daemon_opts {
    const char *data_path;   /* the data directory; made when missing */
    const char *socket_path; /* NULL: doze.sock in it */
    const char *registry;    /* as of dz_registry_open */
    struct dz_ladder ladder; /* DZ_LADDER_INHERIT: the default */
    size_t ahead;            /* cells kept ready, of each image in use; 0: the default */
};

/* Serve until SIGTERM or SIGINT; then every sandbox is put to sleep. To be called before
 * the process has threads.  DZ_EBUSY: another daemon has
 * the data directory. */
DZ_NODISCARD int dz_daemon_run(const struct dz_daemon_opts *opts, struct dz_err *err);

#endif

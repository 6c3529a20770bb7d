/* SPDX-License-Identifier: MIT
 *
 * daemon.h - the process that keeps sandboxes: everything opened, tied together, and
 * brought to its end.
 */
#ifndef DZ_DAEMON_DAEMON_H
#define DZ_DAEMON_DAEMON_H

#include "base/attr.h"
#include "base/err.h"
#include "config/config.h"

/* Serve until SIGTERM or SIGINT; then every sandbox is put to sleep. To be called before
 * the process has threads. doze.data, doze.socket and doze.registry must be said; the log
 * is set up by it. SIGHUP reads the configuration's file again (dz_config_reload).
 * A service manager (systemd) is told when it is ready, reloads, stops, and lives. It listens
 * from the start to the end; before it is ready and while it puts sandboxes to sleep it answers
 * that it is not.
 * DZ_EBUSY: another daemon has the data directory. */
DZ_NODISCARD int dz_daemon_run(struct dz_config *config, struct dz_err *err);

#endif

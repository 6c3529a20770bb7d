/* SPDX-License-Identifier: MIT
 *
 * daemon.h - the daemon: opens all parts, connects them, serves, and shuts down.
 */
#ifndef DZ_DAEMON_DAEMON_H
#define DZ_DAEMON_DAEMON_H

#include "base/attr.h"
#include "base/err.h"
#include "blob/blob_open.h"
#include "config/config.h"

/* Serve until SIGTERM or SIGINT, then suspend every sandbox. To be called before the process
 * has threads. doze.data, doze.socket and doze.registry must be set. Sets up the log. SIGHUP
 * rereads the configuration file (dz_config_reload). A service manager (systemd) is notified of
 * readiness, reloads, the stop and watchdog pings. The daemon listens from start to end; before
 * recovery is complete and while it suspends sandboxes, it answers that it is not ready.
 * DZ_EBUSY: another daemon has the data directory. */
DZ_NODISCARD int dz_daemon_run(struct dz_config *config, struct dz_err *err);

/* How buckets are reached. Its texts are those of `config`. */
struct dz_s3_opts dz_daemon_s3(const struct dz_config *config);

/* The cold storage that the settings describe, without an owner. Its texts are those of `config`.
 * An url of "" means the directory "cold" of the data directory. */
struct dz_blobs_place dz_daemon_cold(const struct dz_config *config);

#endif

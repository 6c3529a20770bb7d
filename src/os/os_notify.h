/* SPDX-License-Identifier: MIT
 *
 * os_notify.h - report our state to the service manager. This is sd_notify(3) without its library:
 * a report is one datagram.
 *
 *     dz_os_notify_open(&n);
 *     dz_os_notify(&n, "READY=1\nSTATUS=...");
 */
#ifndef DZ_OS_NOTIFY_H
#define DZ_OS_NOTIFY_H

#include "base/attr.h"

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct dz_os_notify {
    struct sockaddr_un to;
    socklen_t size;      /* 0: there is no service manager */
    int64_t watchdog_ms; /* the manager expects WATCHDOG=1 at least this often; 0: never */
};

/* Read NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and remove them from the environment, so that
 * children do not report in our name. */
void dz_os_notify_open(struct dz_os_notify *n);
/* Send a report. Failures are ignored, because nothing depends on its arrival. */
void dz_os_notify(const struct dz_os_notify *n, const char *state);
/* Report RELOADING=1 with the present time, as sd_notify(3) requires. */
void dz_os_notify_reloading(const struct dz_os_notify *n);

#endif

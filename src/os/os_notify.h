/* SPDX-License-Identifier: MIT
 *
 * os_notify.h - telling a service manager how we are (sd_notify(3), written over its
 * socket ourselves: it is one datagram).
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
    socklen_t size;      /* 0: nobody is to be told */
    int64_t watchdog_ms; /* how often he wants to hear WATCHDOG=1 at least; 0: not */
};

/* From NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, which are taken out of the
 * environment: children are not to speak for us. */
void dz_os_notify_open(struct dz_os_notify *n);
/* Tell; whether it arrives changes nothing for us. */
void dz_os_notify(const struct dz_os_notify *n, const char *state);
/* RELOADING=1 with the time that goes with it. */
void dz_os_notify_reloading(const struct dz_os_notify *n);

#endif

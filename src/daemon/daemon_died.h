/* SPDX-License-Identifier: MIT
 *
 * daemon_died.h - detect that the previous daemon ended without a clean stop.
 *
 * DATA/daemon.run exists while a daemon runs. It holds the daemon's pid, its start time and, if it
 * died, the fatal signal. A clean stop removes the file. The caller must hold the lock of the data
 * directory; each function may be called once per process.
 */
#ifndef DZ_DAEMON_DAEMON_DIED_H
#define DZ_DAEMON_DAEMON_DIED_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct dz_died {
    bool found;      /* an earlier daemon died */
    bool rebooted;   /* the machine has rebooted since */
    int pid, signal; /* 0: killed by SIGKILL, or a power failure */
    int64_t started_ms;
};
/* Read the file of the previous daemon into *ret and replace it with ours. From then on a fatal
 * signal is recorded in the file and in the log (standard error) before the process dies by it. */
DZ_NODISCARD int dz_died_begin(const char *data_path, bool json, struct dz_died *ret_died,
                               struct dz_err *err);
/* Record a clean stop: remove the file. */
void dz_died_end(void);
/* "SEGV"; "none" for 0. */
const char *dz_died_signal(const struct dz_died *died);

#endif

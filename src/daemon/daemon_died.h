/* SPDX-License-Identifier: MIT
 *
 * daemon_died.h - a daemon that ends without a clean stop is found by the next one.
 *
 * DATA/daemon.run exists while a daemon runs: its pid, its start, and the fatal signal that it
 * died by. A clean stop removes the file. Whoever has the lock of the data directory may call
 * these functions, once for each process.
 */
#ifndef DZ_DAEMON_DAEMON_DIED_H
#define DZ_DAEMON_DAEMON_DIED_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct dz_died {
    bool found;      /* an earlier daemon died */
    bool rebooted;   /* the machine was started since */
    int pid, signal; /* 0: it was killed without a word, or the power failed */
    int64_t started_ms;
};
/* What an earlier daemon left; then the file is ours, and fatal signals are written down in it and
 * in the log (standard error) before the process dies by them. */
DZ_NODISCARD int dz_died_begin(const char *data_path, bool json, struct dz_died *ret_died,
                               struct dz_err *err);
/* A clean stop. */
void dz_died_end(void);
/* "SEGV"; "none" for 0. */
const char *dz_died_signal(const struct dz_died *died);

#endif

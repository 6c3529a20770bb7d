/* SPDX-License-Identifier: MIT
 *
 * wasi.h - the imports of guests: WASI preview 1, and the process ABI of module "doze"
 * (docs/format/abi.md), as host functions over the kernel.
 *
 * One table for each, one row for each call. A row names the capability it
 * needs: a call that a policy does not grant is not in the table that its
 * machine gets, so a module that imports it cannot start. Host functions find
 * their process in `user`, a struct dz_task *.
 *
 * Every pointer and length from the guest is checked here and nowhere else:
 * the kernel sees host memory only.
 */
#ifndef DZ_WASI_WASI_H
#define DZ_WASI_WASI_H

#include "base/err.h"
#include "wasm/wasm.h"

#include <stddef.h>
#include <stdint.h>

/* The version of the process ABI that doze.abi() answers to. */
#define DZ_WASI_ABI_VERSION 2

enum {
    DZ_WASI_HOSTS_MAX = 192, /* rows of both tables */
};

/* Fill `ret` (DZ_WASI_HOSTS_MAX rows) with the calls that the capabilities
 * `caps` (DZ_CAP_*, kernel.h) grant; returns how many. */
size_t dz_wasi_hosts(uint32_t caps, struct dz_wasm_host ret[DZ_WASI_HOSTS_MAX]);

/* Every row, for documents and tests: NULL past the last. */
const struct dz_wasm_host *dz_wasi_host_at(size_t i, uint32_t *ret_caps);

/* Convert a Linux errno to its number in WASI preview 1; an errno without one becomes EIO. */
uint16_t dz_wasi_errno(int linux_errno);

#endif

/* SPDX-License-Identifier: MIT
 *
 * hash.h - SHA-256, a keyed hash for tables, and comparing secrets.
 *
 * SHA-256 comes from libcrypto, by the calls that need no set-up. They read no file and allocate no
 * memory, so a process can use them for the first time after it has entered its jail.
 */
#ifndef DZ_BASE_HASH_H
#define DZ_BASE_HASH_H

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DZ_SHA256_BYTES = 32,
    DZ_SHA256_HEX = 65, /* 64 digits and the terminator */
};

/* Hash all bytes at once. */
DZ_NODISCARD int dz_sha256(const void *data, size_t n, uint8_t ret_digest[static DZ_SHA256_BYTES],
                           struct dz_err *err);

/* Hash piece by piece: init, update..., final; release in every case. Update is sticky: final
 * returns its error. */
struct dz_sha256 {
    uint64_t state[14]; /* SHA256_CTX */
    int err;
};
DZ_NODISCARD int dz_sha256_init(struct dz_sha256 *h, struct dz_err *err);
void dz_sha256_update(struct dz_sha256 *h, const void *data, size_t n);
DZ_NODISCARD int dz_sha256_final(struct dz_sha256 *h, uint8_t ret_digest[static DZ_SHA256_BYTES],
                                 struct dz_err *err);
void dz_sha256_release(struct dz_sha256 *h); /* for DZ_AUTO too; zeroed is fine */

/* 64 lower-case hexadecimal digits; returns out. */
char *dz_sha256_hex(const uint8_t digest[static DZ_SHA256_BYTES], char out[static DZ_SHA256_HEX]);

/* Parse exactly 64 digits of either case, else DZ_EINVAL. */
DZ_NODISCARD int dz_sha256_parse(struct dz_str s, uint8_t ret_digest[static DZ_SHA256_BYTES],
                                 struct dz_err *err);

/* Are n bytes equal? The time does not depend on where they differ. */
bool dz_equal_secret(const void *a, const void *b, size_t n);

/* SipHash-1-3 (Aumasson, Bernstein: "SipHash: a fast short-input PRF"): without the key nobody can
 * construct inputs that collide. For tables, not for files. */
uint64_t dz_siphash(const uint64_t key[static 2], const void *data, size_t n);

#endif

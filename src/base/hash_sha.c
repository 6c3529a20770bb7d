/* SPDX-License-Identifier: MIT
 *
 * hash_sha.c - SHA-256 by libcrypto's low-level calls.
 *
 * OpenSSL 3 recommends its EVP layer instead. But that layer first sets up providers and reads a
 * configuration file, which takes longer than the rest of a cell's start and is impossible in a
 * jail.
 */
#define OPENSSL_API_COMPAT 0x10101000L

#include "base/hash.h"

#include "base/num.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

_Static_assert(sizeof(SHA256_CTX) <= sizeof(((struct dz_sha256 *)0)->state), "room for the state");
_Static_assert(_Alignof(SHA256_CTX) <= _Alignof(struct dz_sha256), "aligned for the state");

static SHA256_CTX *context(struct dz_sha256 *h)
{
    return (SHA256_CTX *)(void *)h->state;
}

int dz_sha256_init(struct dz_sha256 *h, struct dz_err *err)
{
    *h = (struct dz_sha256){0};
    if (SHA256_Init(context(h)) != 1)
        return dz_fail(err, DZ_EIO, "cannot start a SHA-256: libcrypto failed");
    return 0;
}

void dz_sha256_update(struct dz_sha256 *h, const void *data, size_t n)
{
    if (n > 0 && !h->err && SHA256_Update(context(h), data, n) != 1)
        h->err = DZ_EIO;
}

int dz_sha256_final(struct dz_sha256 *h, uint8_t ret_digest[static DZ_SHA256_BYTES],
                    struct dz_err *err)
{
    if (h->err || SHA256_Final(ret_digest, context(h)) != 1)
        return dz_fail(err, DZ_EIO, "cannot finish a SHA-256: libcrypto failed");
    h->err = DZ_EIO; /* no update after final */
    return 0;
}

void dz_sha256_release(struct dz_sha256 *h)
{
    *h = (struct dz_sha256){.err = DZ_EIO};
}

int dz_sha256(const void *data, size_t n, uint8_t ret_digest[static DZ_SHA256_BYTES],
              struct dz_err *err)
{
    DZ_AUTO(dz_sha256_release) struct dz_sha256 h = {0};
    int rc = dz_sha256_init(&h, err);
    if (rc < 0)
        return rc;
    dz_sha256_update(&h, data, n);
    return dz_sha256_final(&h, ret_digest, err);
}

char *dz_sha256_hex(const uint8_t digest[static DZ_SHA256_BYTES], char out[static DZ_SHA256_HEX])
{
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < DZ_SHA256_BYTES; i++) {
        out[2 * i] = hex[digest[i] >> 4];
        out[2 * i + 1] = hex[digest[i] & 15];
    }
    out[DZ_SHA256_HEX - 1] = '\0';
    return out;
}

int dz_sha256_parse(struct dz_str s, uint8_t ret_digest[static DZ_SHA256_BYTES], struct dz_err *err)
{
    char text[DZ_STR_QUOTED];
    uint8_t digest[DZ_SHA256_BYTES];
    bool good = s.n == sizeof digest * 2;

    for (size_t i = 0; good && i < sizeof digest; i++) {
        int high = dz_hex_digit(s.p[2 * i]), low = dz_hex_digit(s.p[2 * i + 1]);
        good = high >= 0 && low >= 0;
        digest[i] = (uint8_t)((unsigned)high << 4 | (unsigned)low);
    }
    if (!good)
        return dz_fail(err, DZ_EINVAL, "%s is not a SHA-256: expected 64 hexadecimal digits",
                       dz_str_quote(s, text));
    memcpy(ret_digest, digest, sizeof digest);
    return 0;
}

bool dz_equal_secret(const void *a, const void *b, size_t n)
{
    return n == 0 || CRYPTO_memcmp(a, b, n) == 0;
}

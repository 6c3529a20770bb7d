/* SPDX-License-Identifier: MIT
 *
 * hash_sha.c - SHA-256 by libcrypto's EVP.
 *
 * The algorithm is fetched once, which in OpenSSL 3 takes longer than hashing a
 * short text, and tried on an empty one: with that libcrypto has read and set
 * up all that it does lazily (its configuration, its engines), so that a jailed
 * process can go on with it. The algorithm lives as long as the process.
 */
#include "base/hash.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static EVP_MD *sha256_md;

static void fetch(void)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    EVP_MD *md = EVP_MD_fetch(NULL, "SHA256", NULL);

    if (md && EVP_Digest("", 0, digest, NULL, md, NULL) == 1)
        sha256_md = md;
    else
        EVP_MD_free(md);
}

int dz_sha256_prepare(struct dz_err *err)
{
    (void)pthread_once(&once, fetch);
    if (!sha256_md)
        return dz_fail(err, DZ_ENOMEM,
                       "cannot set up SHA-256: libcrypto is out of memory or lacks the algorithm");
    return 0;
}

int dz_sha256_init(struct dz_sha256 *h, struct dz_err *err)
{
    *h = (struct dz_sha256){0};
    int rc = dz_sha256_prepare(err);
    if (rc < 0)
        return rc;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (!ctx || EVP_DigestInit_ex2(ctx, sha256_md, NULL) != 1) {
        EVP_MD_CTX_free(ctx);
        return dz_fail(err, DZ_ENOMEM, "cannot start a SHA-256: out of memory");
    }
    h->ctx = ctx;
    return 0;
}

void dz_sha256_update(struct dz_sha256 *h, const void *data, size_t n)
{
    assert(h->ctx);
    if (n > 0 && !h->err && EVP_DigestUpdate(h->ctx, data, n) != 1)
        h->err = DZ_EIO;
}

int dz_sha256_final(struct dz_sha256 *h, uint8_t ret_digest[static DZ_SHA256_BYTES],
                    struct dz_err *err)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    assert(h->ctx);
    if (h->err || EVP_DigestFinal_ex(h->ctx, digest, &len) != 1 || len != DZ_SHA256_BYTES)
        return dz_fail(err, DZ_EIO, "cannot finish a SHA-256: libcrypto failed");
    memcpy(ret_digest, digest, DZ_SHA256_BYTES);
    h->err = DZ_EIO; /* no update after final */
    return 0;
}

void dz_sha256_release(struct dz_sha256 *h)
{
    EVP_MD_CTX_free(h->ctx);
    h->ctx = NULL;
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

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int dz_sha256_parse(struct dz_str s, uint8_t ret_digest[static DZ_SHA256_BYTES], struct dz_err *err)
{
    char text[DZ_STR_QUOTED];
    uint8_t digest[DZ_SHA256_BYTES];
    bool good = s.n == sizeof digest * 2;

    for (size_t i = 0; good && i < sizeof digest; i++) {
        int high = hex_value(s.p[2 * i]), low = hex_value(s.p[2 * i + 1]);
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

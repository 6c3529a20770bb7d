/* SPDX-License-Identifier: MIT
 *
 * blob_s3_sign.c - signatures: AWS Signature Version 4.
 *
 *     request    method, path, query, headers, the body's hash, written in one canonical way
 *         | SHA-256
 *     text       the algorithm's name, the time, the scope (day/region/s3), that hash
 *         | HMAC, with a key that the secret, the day, the region and "s3" give
 *     signature
 *
 * libcurl can sign, too, but Debian 12's version signs queries unsorted, and headers that it does
 * not send.
 */
#include "base/mem.h"
#include "blob/blob_s3_int.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    DAY_TEXT = 8,             /* "20130524" */
    CANONICAL_MAX = 64 << 10, /* bytes: a session token makes it long */
};

char *dz_s3_time(int64_t unix_s, char out[static S3_TIME_TEXT])
{
    time_t t = (time_t)unix_s;
    struct tm tm;
    if (!gmtime_r(&t, &tm) || strftime(out, S3_TIME_TEXT, "%Y%m%dT%H%M%SZ", &tm) == 0)
        memcpy(out, "19700101T000000Z", S3_TIME_TEXT);
    return out;
}

void dz_s3_encode(struct dz_buf *out, const char *text, bool keep_slash)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (; *text; text++)
        if (strchr(plain, *text) || (*text == '/' && keep_slash))
            dz_buf_add(out, text, 1);
        else
            dz_buf_addf(out, "%%%02X", (unsigned)(unsigned char)*text);
}

static int by_name(const void *a, const void *b)
{
    const struct s3_pair *x = a, *y = b;
    return strcmp(x->name, y->name);
}

void dz_s3_sort(struct s3_pair *pairs, size_t n)
{
    if (n > 0)
        qsort(pairs, n, sizeof *pairs, by_name);
}

void dz_s3_query(struct dz_buf *out, const struct s3_pair *pairs, size_t n)
{
    struct s3_pair sorted[S3_PAIRS_MAX];
    assert(n <= S3_PAIRS_MAX);
    if (n > 0)
        memcpy(sorted, pairs, n * sizeof *pairs);
    dz_s3_sort(sorted, n);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            dz_buf_adds(out, "&");
        dz_s3_encode(out, sorted[i].name, false);
        dz_buf_adds(out, "=");
        dz_s3_encode(out, sorted[i].value, false);
    }
}

static void add_signed_names(struct dz_buf *out, const struct s3_signed *r)
{
    for (size_t i = 0; i < r->header_count; i++)
        dz_buf_addf(out, "%s%s", i > 0 ? ";" : "", r->headers[i].name);
}

static int hash_canonical(const struct s3_signed *r, char ret_hex[static DZ_SHA256_HEX],
                          struct dz_err *err)
{
    struct dz_buf b = DZ_BUF_INIT(CANONICAL_MAX);
    uint8_t digest[DZ_SHA256_BYTES];
    for (size_t i = 1; i < r->header_count; i++)
        assert(strcmp(r->headers[i - 1].name, r->headers[i].name) < 0);
    dz_buf_addf(&b, "%s\n%s\n%s\n", r->method, r->path, r->query);
    for (size_t i = 0; i < r->header_count; i++)
        dz_buf_addf(&b, "%s:%s\n", r->headers[i].name, r->headers[i].value);
    dz_buf_adds(&b, "\n");
    add_signed_names(&b, r);
    dz_buf_addf(&b, "\n%s", r->payload);
    int rc = b.err ? dz_fail(err, b.err, "sign a request to S3: %s", dz_err_text(b.err))
                   : dz_sha256(b.p, b.len, digest, err);
    if (rc == 0)
        (void)dz_sha256_hex(digest, ret_hex);
    dz_buf_release(&b);
    return rc;
}

static bool mac(const void *key, size_t key_size, const char *text, uint8_t out[static 32])
{
    unsigned size = DZ_SHA256_BYTES;
    return HMAC(EVP_sha256(), key, (int)key_size, (const unsigned char *)text, strlen(text), out,
                &size) != NULL;
}

int dz_s3_sign(const struct s3_signed *r, const struct s3_keys *keys, struct dz_buf *out,
               struct dz_err *err)
{
    char when[S3_TIME_TEXT], day[DAY_TEXT + 1], scope[S3_NAME_MAX + 64], hex[DZ_SHA256_HEX];
    char text[sizeof scope + DZ_SHA256_HEX + 64], first[S3_SECRET_MAX + 8];
    uint8_t a[DZ_SHA256_BYTES], b[DZ_SHA256_BYTES];
    int rc = hash_canonical(r, hex, err);
    if (rc < 0)
        return rc;
    (void)snprintf(day, sizeof day, "%.*s", DAY_TEXT, dz_s3_time(r->unix_s, when));
    (void)snprintf(scope, sizeof scope, "%s/%s/s3/aws4_request", day, r->region);
    (void)snprintf(text, sizeof text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", when, scope, hex);
    (void)snprintf(first, sizeof first, "AWS4%s", keys->secret);
    bool done = mac(first, strlen(first), day, a) && mac(a, sizeof a, r->region, b) &&
                mac(b, sizeof b, "s3", a) && mac(a, sizeof a, "aws4_request", b) &&
                mac(b, sizeof b, text, a);
    explicit_bzero(first, sizeof first);
    explicit_bzero(b, sizeof b);
    if (!done)
        return dz_fail(err, DZ_ENOMEM, "sign a request to S3: libcrypto could not compute it");
    dz_buf_addf(out, "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=", keys->access, scope);
    add_signed_names(out, r);
    dz_buf_addf(out, ",Signature=%s", dz_sha256_hex(a, hex));
    return out->err ? dz_fail(err, out->err, "sign a request to S3: %s", dz_err_text(out->err)) : 0;
}

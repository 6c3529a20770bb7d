/* SPDX-License-Identifier: MIT
 *
 * tls.c - TLS by OpenSSL; tls.h lists the features that are on and off.
 *
 * An idle connection keeps no buffers (SSL_MODE_RELEASE_BUFFERS). Sessions are resumed by tickets,
 * so the server keeps no state for clients that may never return.
 */
#include "tls/tls.h"

#include "base/late.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

/* The functions of libssl, to which the program is not linked. */
#define LIBSSL(X)                         \
    X(SSL_CTX_check_private_key)          \
    X(SSL_CTX_ctrl)                       \
    X(SSL_CTX_free)                       \
    X(SSL_CTX_load_verify_locations)      \
    X(SSL_CTX_new)                        \
    X(SSL_CTX_set_cipher_list)            \
    X(SSL_CTX_set_ciphersuites)           \
    X(SSL_CTX_set_default_verify_paths)   \
    X(SSL_CTX_set_options)                \
    X(SSL_CTX_set_session_id_context)     \
    X(SSL_CTX_set_verify)                 \
    X(SSL_CTX_use_PrivateKey_file)        \
    X(SSL_CTX_use_certificate_chain_file) \
    X(SSL_ctrl)                           \
    X(SSL_do_handshake)                   \
    X(SSL_free)                           \
    X(SSL_get0_param)                     \
    X(SSL_get_error)                      \
    X(SSL_get_verify_result)              \
    X(SSL_new)                            \
    X(SSL_read)                           \
    X(SSL_set_accept_state)               \
    X(SSL_set_connect_state)              \
    X(SSL_set_bio)                        \
    X(SSL_set1_host)                      \
    X(SSL_shutdown)                       \
    X(SSL_write)                          \
    X(TLS_client_method)                  \
    X(TLS_server_method)

static struct {
#define X(f) __typeof__(&(f)) f##_;
    LIBSSL(X)
#undef X
} lib;

struct dz_tls_context {
    SSL_CTX *ctx;
};

struct dz_tls {
    SSL *ssl;
    bool done, broken;
    unsigned long why;
};

static int load(struct dz_err *err)
{
    static const struct dz_late functions[] = {
#define X(f) {#f, &lib.f##_},
        LIBSSL(X)
#undef X
    };
    return dz_late_load("libssl.so.3", "libssl3", functions, DZ_ARRAY_LEN(functions), err);
}

/* The text of OpenSSL's last error; empties the error queue. */
static const char *reason(char *out, size_t size)
{
    unsigned long code = ERR_peek_last_error();
    const char *text = code ? ERR_reason_error_string(code) : NULL;
    (void)snprintf(out, size, "%s", text ? text : "no reason given");
    ERR_clear_error();
    return out;
}

/* --- contexts ---------------------------------------------------------------------------- */

static int secure(SSL_CTX *ctx)
{
    static const char ciphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20:!PSK:!SRP:!aNULL";
    static const char suites[] =
        "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
    lib.SSL_CTX_set_options_(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                      SSL_OP_CIPHER_SERVER_PREFERENCE);
    return lib.SSL_CTX_ctrl_(ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL) == 1 &&
           lib.SSL_CTX_set_cipher_list_(ctx, ciphers) == 1 &&
           lib.SSL_CTX_set_ciphersuites_(ctx, suites) == 1 &&
           lib.SSL_CTX_ctrl_(ctx, SSL_CTRL_MODE,
                             SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS |
                                 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
                             NULL) != 0;
}

static int begin(const SSL_METHOD *method, struct dz_tls_context **ret, struct dz_err *err)
{
    struct dz_tls_context *x = dz_zalloc(sizeof *x);
    if (x && !dz_mem_inject())
        x->ctx = lib.SSL_CTX_new_(method);
    if (!x || !x->ctx || !secure(x->ctx)) {
        dz_tls_context_free(x);
        ERR_clear_error();
        return dz_fail(err, DZ_ENOMEM, "start TLS: out of memory");
    }
    *ret = x;
    return 0;
}

int dz_tls_server(const char *certificate, const char *key, struct dz_tls_context **ret_context,
                  struct dz_err *err)
{
    struct dz_tls_context *x = NULL;
    char text[256];
    int rc = load(err);
    if (rc == 0)
        rc = begin(lib.TLS_server_method_(), &x, err);
    if (rc < 0)
        return rc;
    assert(x);
    if (lib.SSL_CTX_use_certificate_chain_file_(x->ctx, certificate) != 1)
        rc = dz_fail(err, DZ_EINVAL, "read the certificate %s: %s", certificate,
                     reason(text, sizeof text));
    else if (lib.SSL_CTX_use_PrivateKey_file_(x->ctx, key, SSL_FILETYPE_PEM) != 1)
        rc = dz_fail(err, DZ_EINVAL, "read the key %s: %s", key, reason(text, sizeof text));
    else if (lib.SSL_CTX_check_private_key_(x->ctx) != 1)
        rc = dz_fail(err, DZ_EINVAL, "%s is not the private key of the certificate %s", key,
                     certificate);
    ERR_clear_error();
    if (rc < 0) {
        dz_tls_context_free(x);
        return rc;
    }
    (void)lib.SSL_CTX_set_session_id_context_(x->ctx, (const unsigned char *)"doze", 4);
    (void)lib.SSL_CTX_ctrl_(x->ctx, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    *ret_context = x;
    return 0;
}

int dz_tls_client(const char *authorities, struct dz_tls_context **ret_context, struct dz_err *err)
{
    struct dz_tls_context *x = NULL;
    char text[256];
    int rc = load(err);
    if (rc == 0)
        rc = begin(lib.TLS_client_method_(), &x, err);
    if (rc < 0)
        return rc;
    assert(x);
    lib.SSL_CTX_set_verify_(x->ctx, SSL_VERIFY_PEER, NULL);
    if (authorities && lib.SSL_CTX_load_verify_locations_(x->ctx, authorities, NULL) != 1)
        rc = dz_fail(err, DZ_EINVAL, "read the certificates in %s: %s", authorities,
                     reason(text, sizeof text));
    else if (!authorities && lib.SSL_CTX_set_default_verify_paths_(x->ctx) != 1)
        rc = dz_fail(err, DZ_EIO, "read the system's certificates: %s", reason(text, sizeof text));
    ERR_clear_error();
    if (rc < 0) {
        dz_tls_context_free(x);
        return rc;
    }
    *ret_context = x;
    return 0;
}

void dz_tls_context_free(struct dz_tls_context *x)
{
    if (!x)
        return;
    if (x->ctx)
        lib.SSL_CTX_free_(x->ctx);
    dz_free(x);
}

/* --- connections ---------------------------------------------------------------------------- */

/* A socket BIO of ours, because OpenSSL's raises SIGPIPE. */
static int bio_write(BIO *b, const char *p, int n)
{
    ssize_t put = send((int)(intptr_t)BIO_get_data(b), p, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    BIO_clear_retry_flags(b);
    if (put < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(b);
    return (int)put;
}

static int bio_read(BIO *b, char *p, int n)
{
    ssize_t got = recv((int)(intptr_t)BIO_get_data(b), p, (size_t)n, MSG_DONTWAIT);
    BIO_clear_retry_flags(b);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(b);
    return (int)got;
}

static long bio_ctrl(BIO *b, int command, long number, void *pointer)
{
    (void)b;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO *socket_bio(int fd)
{
    static BIO_METHOD *method; /* kept for the rest of the process's life */
    if (!method && (method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "socket"))) {
        (void)BIO_meth_set_write(method, bio_write);
        (void)BIO_meth_set_read(method, bio_read);
        (void)BIO_meth_set_ctrl(method, bio_ctrl);
    }
    BIO *b = method ? BIO_new(method) : NULL;
    if (b) {
        BIO_set_data(b, (void *)(intptr_t)fd);
        BIO_set_init(b, 1);
    }
    return b;
}

/* Set the name or address that the certificate must contain. */
static bool expect(SSL *ssl, const char *host)
{
    unsigned char address[16];
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(lib.SSL_get0_param_(ssl), host) == 1;
    char name[256];
    (void)snprintf(name, sizeof name, "%s", host);
    return lib.SSL_set1_host_(ssl, host) == 1 &&
           lib.SSL_ctrl_(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name) == 1;
}

int dz_tls_new(struct dz_tls_context *x, int fd, const char *host, struct dz_tls **ret_tls,
               struct dz_err *err)
{
    struct dz_tls *t = dz_zalloc(sizeof *t);
    if (t && !dz_mem_inject())
        t->ssl = lib.SSL_new_(x->ctx);
    BIO *bio = t && t->ssl ? socket_bio(fd) : NULL;
    if (bio)
        lib.SSL_set_bio_(t->ssl, bio, bio); /* takes ownership of the BIO */
    if (!bio || (host && !expect(t->ssl, host))) {
        dz_tls_free(t);
        ERR_clear_error();
        return dz_fail(err, DZ_ENOMEM, "start a TLS connection: out of memory");
    }
    if (host)
        lib.SSL_set_connect_state_(t->ssl);
    else
        lib.SSL_set_accept_state_(t->ssl);
    *ret_tls = t;
    return 0;
}

/* Convert a failed call to DZ_TLS_WANT_* or DZ_TLS_BROKEN; empties the error queue. */
static int want(struct dz_tls *t, int rc)
{
    int error = lib.SSL_get_error_(t->ssl, rc);
    if (error == SSL_ERROR_WANT_READ)
        return DZ_TLS_WANT_READ;
    if (error == SSL_ERROR_WANT_WRITE)
        return DZ_TLS_WANT_WRITE;
    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    t->broken = true;
    t->why = ERR_peek_last_error();
    ERR_clear_error();
    return DZ_TLS_BROKEN;
}

int dz_tls_handshake(struct dz_tls *t)
{
    if (t->broken)
        return DZ_TLS_BROKEN;
    ERR_clear_error();
    int rc = lib.SSL_do_handshake_(t->ssl);
    t->done = rc == 1;
    if (t->done)
        return 0;
    rc = want(t, rc);
    return rc == 0 ? DZ_TLS_BROKEN : rc;
}

ssize_t dz_tls_read(struct dz_tls *t, void *p, size_t n)
{
    if (t->broken)
        return DZ_TLS_BROKEN;
    ERR_clear_error();
    int rc = lib.SSL_read_(t->ssl, p, n > INT32_MAX ? INT32_MAX : (int)n);
    return rc > 0 ? rc : want(t, rc);
}

ssize_t dz_tls_write(struct dz_tls *t, const void *p, size_t n)
{
    assert(n > 0);
    if (t->broken)
        return DZ_TLS_BROKEN;
    ERR_clear_error();
    int rc = lib.SSL_write_(t->ssl, p, n > INT32_MAX ? INT32_MAX : (int)n);
    if (rc > 0)
        return rc;
    rc = want(t, rc);
    return rc == 0 ? DZ_TLS_BROKEN : rc;
}

void dz_tls_goodbye(struct dz_tls *t)
{
    if (t->done && !t->broken)
        (void)lib.SSL_shutdown_(t->ssl);
    ERR_clear_error();
}

void dz_tls_why(const struct dz_tls *t, char *out, size_t size)
{
    long verdict = t->ssl ? lib.SSL_get_verify_result_(t->ssl) : X509_V_OK;
    const char *text = t->why ? ERR_reason_error_string(t->why) : NULL;
    if (verdict != X509_V_OK)
        (void)snprintf(out, size, "%s", X509_verify_cert_error_string(verdict));
    else
        (void)snprintf(out, size, "%s", text ? text : "the connection was closed");
}

void dz_tls_free(struct dz_tls *t)
{
    if (!t)
        return;
    if (t->ssl)
        lib.SSL_free_(t->ssl);
    dz_free(t);
}

/* SPDX-License-Identifier: MIT
 *
 * tls.h - TLS by OpenSSL over non-blocking sockets, for servers and clients.
 *
 * The library is loaded when the first context is made (base/late.h). TLS 1.2 and 1.3,
 * forward secrecy and authenticated ciphers only; no compression, no renegotiation, no
 * early data. A client always verifies the server's certificate and name.
 *
 * Calls on a connection return a value of at least 0, or one of the values below. A read may have
 * to wait until the socket is writable, and a write until it is readable.
 */
#ifndef DZ_TLS_TLS_H
#define DZ_TLS_TLS_H

#include "base/attr.h"
#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

struct dz_tls_context;
struct dz_tls;

enum {
    DZ_TLS_WANT_READ = -1,  /* call again when the socket is readable */
    DZ_TLS_WANT_WRITE = -2, /* call again when the socket is writable */
    DZ_TLS_BROKEN = -3,
};

/* Make a server's context from PEM files: a certificate with its chain, and its key. On failure err
 * names the file. */
DZ_NODISCARD int dz_tls_server(const char *certificate, const char *key,
                               struct dz_tls_context **ret_context, struct dz_err *err);
/* Make a client's context. authorities: a PEM file of the trusted certificate authorities; NULL:
 * the system's. */
DZ_NODISCARD int dz_tls_client(const char *authorities, struct dz_tls_context **ret_context,
                               struct dz_err *err);
/* Its connections stay open. NULL is fine. */
void dz_tls_context_free(struct dz_tls_context *x);

/* The descriptor stays the caller's. host: the server's name or address, which its certificate must
 * contain; NULL: this end is the server. */
DZ_NODISCARD int dz_tls_new(struct dz_tls_context *x, int fd, const char *host,
                            struct dz_tls **ret_tls, struct dz_err *err);
int dz_tls_handshake(struct dz_tls *t);                   /* 0: done */
ssize_t dz_tls_read(struct dz_tls *t, void *p, size_t n); /* 0: the peer has closed its end */
ssize_t dz_tls_write(struct dz_tls *t, const void *p, size_t n); /* n > 0 */
void dz_tls_goodbye(struct dz_tls *t); /* send close_notify, if that does not block */
/* The reason why the handshake failed, as text for people. */
void dz_tls_why(const struct dz_tls *t, char *out, size_t size);
void dz_tls_free(struct dz_tls *t); /* NULL is fine */

#endif

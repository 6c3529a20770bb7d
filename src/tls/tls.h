/* SPDX-License-Identifier: MIT
 *
 * tls.h - TLS by OpenSSL over sockets that do not block, for both ends.
 *
 * The library is loaded when the first context is made (base/late.h). TLS 1.2 and 1.3,
 * forward secrecy and authenticated ciphers only; no compression, no renegotiation, no
 * early data. A client verifies the server's certificate and name, always.
 *
 * Calls on a connection give at least 0, or one of the values below; what the socket has to be
 * waited for may be writing while reading, and the other way.
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
    DZ_TLS_WANT_READ = -1,  /* nothing now: when the socket can be read */
    DZ_TLS_WANT_WRITE = -2, /* when it can be written */
    DZ_TLS_BROKEN = -3,
};

/* Of a server: a certificate with its chain, and its key, both PEM. The sentence of a failure
 * names the file. */
DZ_NODISCARD int dz_tls_server(const char *certificate, const char *key,
                               struct dz_tls_context **ret_context, struct dz_err *err);
/* Of a client: who is believed, a PEM file; NULL: whom the system believes. */
DZ_NODISCARD int dz_tls_client(const char *authorities, struct dz_tls_context **ret_context,
                               struct dz_err *err);
/* Connections of it go on. NULL is fine. */
void dz_tls_context_free(struct dz_tls_context *x);

/* The descriptor stays the caller's. host: the server's name or address, that its certificate
 * must have; NULL: this end is the server. */
DZ_NODISCARD int dz_tls_new(struct dz_tls_context *x, int fd, const char *host,
                            struct dz_tls **ret_tls, struct dz_err *err);
int dz_tls_handshake(struct dz_tls *t);                          /* 0: done */
ssize_t dz_tls_read(struct dz_tls *t, void *p, size_t n);        /* 0: the other end is over */
ssize_t dz_tls_write(struct dz_tls *t, const void *p, size_t n); /* n > 0 */
void dz_tls_goodbye(struct dz_tls *t); /* says that no more comes, if that goes at once */
/* Why the handshake broke, for people. */
void dz_tls_why(const struct dz_tls *t, char *out, size_t size);
void dz_tls_free(struct dz_tls *t); /* NULL is fine */

#endif

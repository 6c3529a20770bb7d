/* SPDX-License-Identifier: MIT
 *
 * client_int.h - inside the client: the connection, and the answer that is being read.
 */
#ifndef DZ_CLIENT_INT_H
#define DZ_CLIENT_INT_H

#include "base/limits.h"
#include "client/client.h"
#include "tls/tls.h"

enum {
    DZ_CLIENT_IN = 64 << 10, /* bytes read at a time */
};

enum dz_client_framing {
    DZ_CLIENT_NO_BODY,
    DZ_CLIENT_SIZED,
    DZ_CLIENT_CHUNKED,
    DZ_CLIENT_TO_THE_END, /* descriptor of the connection */
};

struct dz_client {
    char *url;  /* as given, for messages */
    char *path; /* path of a unix socket */
    char *host; /* host and port of TCP */
    char port[8];
    char *token;
    int fd;                       /* -1: not connected */
    struct dz_tls_context *trust; /* https: the CAs that are trusted */
    struct dz_tls *tls;
    short want; /* the event to poll for after recv() or send() returned EAGAIN */
    int64_t timeout_ms;
    bool (*stop)(void);      /* NULL: nothing but time ends a wait */
    void (*tick)(void *arg); /* see dz_client_tick(); or NULL */
    void *tick_arg;

    /* bytes that were read and not used yet */
    char in[DZ_CLIENT_IN];
    size_t in_at, in_end;

    /* the answer */
    struct dz_buf head; /* header lines, each terminated by NUL; an empty one at the end */
    int status;
    enum dz_client_framing framing;
    int64_t size;   /* as said, -1: not */
    uint64_t left;  /* bytes left of the body, or of this chunk */
    bool in_chunks; /* a chunk has been read: its end is still there */
    bool over;      /* the body is read */
    bool keep;      /* the connection serves another request */
    struct dz_client_problem problem;
};

/* Connect if there is no connection. */
DZ_NODISCARD int dz_client_connect(struct dz_client *c, struct dz_err *err);
void dz_client_drop(struct dz_client *c);
DZ_NODISCARD int dz_client_write(struct dz_client *c, const char *p, size_t n, struct dz_err *err);
/* Like recv(2) and send(2) without waiting, through TLS if there is TLS. */
DZ_NODISCARD ssize_t dz_client_recv(struct dz_client *c, void *p, size_t n);
DZ_NODISCARD ssize_t dz_client_send(struct dz_client *c, const void *p, size_t n);
/* Read more bytes into c->in, which must be empty. How many; 0 at the end of the connection. */
DZ_NODISCARD ssize_t dz_client_fill(struct dz_client *c, struct dz_err *err);
/* Can something be read without waiting? */
bool dz_client_readable(struct dz_client *c);

#endif

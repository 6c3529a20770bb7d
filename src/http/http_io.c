/* SPDX-License-Identifier: MIT
 *
 * Bytes from and to a connection, by TLS or not.
 */
#include "base/mem.h"
#include "http/http_int.h"

#include <assert.h>
#include <errno.h>

enum {
    IN_MAX = DZ_HTTP_HEAD_MAX + DZ_IO_PIECE,
};

/* What TLS said: it may want to write while it reads. */
static ssize_t of_tls(struct dz_http_conn *c, ssize_t n)
{
    if (n == DZ_TLS_WANT_READ || n == DZ_TLS_WANT_WRITE) {
        c->want |= n == DZ_TLS_WANT_READ ? DZ_POLL_READ : DZ_POLL_WRITE;
        return DZ_HTTP_IO_LATER;
    }
    return n < 0 ? DZ_HTTP_IO_BROKEN : n;
}

static ssize_t of_socket(ssize_t n)
{
    if (n >= 0)
        return n;
    return errno == EAGAIN || errno == EINTR ? DZ_HTTP_IO_LATER : DZ_HTTP_IO_BROKEN;
}

static ssize_t receive(struct dz_http_conn *c, void *p, size_t n)
{
    ssize_t got =
        c->tls ? of_tls(c, dz_tls_read(c->tls, p, n)) : of_socket(recv(c->fd, p, n, MSG_DONTWAIT));
    c->moved += got > 0 ? (uint64_t)got : 0;
    return got;
}

ssize_t dz_http_read(struct dz_http_conn *c, void *p, size_t n)
{
    size_t have = c->in.end - c->in.at;
    if (have == 0)
        return receive(c, p, n);
    n = n < have ? n : have;
    memcpy(p, c->in.p + c->in.at, n);
    c->in.at += n;
    if (c->in.at == c->in.end)
        dz_http_in_release(c);
    return (ssize_t)n;
}

ssize_t dz_http_write(struct dz_http_conn *c, const void *p, size_t n, bool more)
{
    int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0);
    ssize_t put =
        c->tls ? of_tls(c, dz_tls_write(c->tls, p, n)) : of_socket(send(c->fd, p, n, flags));
    c->moved += put > 0 ? (uint64_t)put : 0;
    return put;
}

void dz_http_in_release(struct dz_http_conn *c)
{
    dz_free(c->in.p);
    c->in = (struct dz_http_in){NULL, 0, 0, 0};
}

/* Room for n bytes behind c->in.end; false: out of memory. */
static bool make_room(struct dz_http_in *in, size_t n)
{
    if (in->at > 0) {
        memmove(in->p, in->p + in->at, in->end - in->at);
        in->end -= in->at;
        in->at = 0;
    }
    if (in->size - in->end >= n)
        return true;
    size_t size = in->end + n < IN_MAX ? in->end + n : IN_MAX;
    char *p = dz_realloc(in->p, size);
    if (!p)
        return false;
    in->p = p;
    in->size = size;
    return true;
}

ssize_t dz_http_fill(struct dz_http_conn *c, size_t room)
{
    struct dz_http_in *in = &c->in;
    if (in->size - in->end < room / 4 && !make_room(in, room))
        return DZ_HTTP_IO_BROKEN;
    assert(in->size > in->end);
    ssize_t n = receive(c, in->p + in->end, in->size - in->end);
    if (n > 0)
        in->end += (size_t)n;
    else if (in->at == in->end)
        dz_http_in_release(c);
    return n;
}

/* SPDX-License-Identifier: MIT
 *
 * sock_world.h - the same socket calls in two worlds: in a process of the rig and on this machine.
 * A test does the same in both and compares the results. Results are those of system calls: -errno
 * on failure.
 */
#ifndef DZ_TESTS_SOCK_WORLD_H
#define DZ_TESTS_SOCK_WORLD_H

#include "kernel_rig.h"

#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

struct world {
    struct fib *f; /* NULL: this machine */
    char *log;     /* the results, as text */
    size_t len, size;
};

#define HOST(call)                           \
    ({                                       \
        int64_t host_ = (int64_t)(call);     \
        host_ < 0 ? -(int64_t)errno : host_; \
    })

__attribute__((format(printf, 2, 3))) static inline void w_log(struct world *w, const char *fmt,
                                                               ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(w->log + w->len, w->size - w->len, fmt, ap);
    va_end(ap);
    w->len += n > 0 && (size_t)n < w->size - w->len ? (size_t)n : 0;
}

static inline int64_t w_socket(const struct world *w, int type)
{
    struct fib *f = w->f;
    return f ? SYS(f, dz_sys_socket(FK(f), AF_UNIX, type, 0)) : HOST(socket(AF_UNIX, type, 0));
}
static inline int64_t w_pair(const struct world *w, int type, int fds[2])
{
    struct fib *f = w->f;
    const int what[3] = {AF_UNIX, type, 0};
    return f ? SYS(f, dz_sys_socketpair(FK(f), what, fds))
             : HOST(socketpair(AF_UNIX, type, 0, fds));
}

/* Make an address: a path, or abstract if the first byte is NUL; NULL: only the family. */
static inline struct dz_sockaddr w_addr(const char *name, size_t n)
{
    struct dz_sockaddr a = {.size = (uint32_t)(2 + n), .bytes = {AF_UNIX}};
    if (name)
        memcpy(a.bytes + 2, name, n);
    return a;
}
static inline const struct sockaddr *w_raw(const struct dz_sockaddr *a)
{
    return (const struct sockaddr *)(const void *)a->bytes;
}
static inline int64_t w_bind(const struct world *w, int fd, const struct dz_sockaddr *a)
{
    struct fib *f = w->f;
    return f ? SYS(f, dz_sys_bind(FK(f), fd, a)) : HOST(bind(fd, w_raw(a), a->size));
}
static inline int64_t w_connect(const struct world *w, int fd, const struct dz_sockaddr *a)
{
    struct fib *f = w->f;
    return f ? SYS(f, dz_sys_connect(FK(f), fd, a)) : HOST(connect(fd, w_raw(a), a->size));
}
static inline int64_t w_listen(const struct world *w, int fd, int backlog)
{
    struct fib *f = w->f;
    return f ? SYS(f, dz_sys_listen(FK(f), fd, backlog)) : HOST(listen(fd, backlog));
}
static inline int64_t w_accept(const struct world *w, int fd, int flags, struct dz_sockaddr *from)
{
    struct fib *f = w->f;
    socklen_t n = sizeof from->bytes;
    *from = (struct dz_sockaddr){0};
    int64_t r = f ? SYS(f, dz_sys_accept4(FK(f), fd, flags, from))
                  : HOST(accept4(fd, (struct sockaddr *)(void *)from->bytes, &n, flags));
    if (!f)
        from->size = r >= 0 ? n : 0;
    return r;
}
static inline int64_t w_shutdown(const struct world *w, int fd, int how)
{
    struct fib *f = w->f;
    return f ? SYS(f, dz_sys_shutdown(FK(f), fd, how)) : HOST(shutdown(fd, how));
}
static inline int64_t w_name(const struct world *w, int fd, bool peer, struct dz_sockaddr *a)
{
    struct fib *f = w->f;
    socklen_t n = sizeof a->bytes;
    struct sockaddr *raw = (struct sockaddr *)(void *)a->bytes;
    *a = (struct dz_sockaddr){0};
    if (f)
        return peer ? SYS(f, dz_sys_getpeername(FK(f), fd, a))
                    : SYS(f, dz_sys_getsockname(FK(f), fd, a));
    int64_t r = peer ? HOST(getpeername(fd, raw, &n)) : HOST(getsockname(fd, raw, &n));
    a->size = r >= 0 ? n : 0;
    return r;
}
static inline int64_t w_close(const struct world *w, int fd)
{
    struct fib *f = w->f;
    return f ? SYS(f, dz_sys_close(FK(f), fd)) : HOST(close(fd));
}
static inline int64_t w_unlink(const struct world *w, const char *path)
{
    struct fib *f = w->f;
    return f ? SYS(f, dz_sys_unlinkat(FK(f), (struct dz_at){AT_FDCWD, path, 0}, false))
             : HOST(unlink(path));
}
static inline int64_t w_poll(const struct world *w, struct pollfd *fds, size_t n)
{
    struct fib *f = w->f;
    return f ? SYS(f, dz_sys_poll(FK(f), fds, n, 0, NULL)) : HOST(poll(fds, (nfds_t)n, 0));
}
static inline int64_t w_ioctl(const struct world *w, int fd, uint32_t req, int *value)
{
    struct fib *f = w->f;
    return f ? SYS(f, dz_sys_ioctl(FK(f), fd, req, value)) : HOST(ioctl(fd, req, value));
}

static inline int64_t w_get(const struct world *w, int fd, int name, struct dz_sockopt *v)
{
    struct fib *f = w->f;
    const int what[2] = {SOL_SOCKET, name};
    union {
        int i;
        struct timeval tv;
        struct ucred cred;
    } u = {0};
    socklen_t n = sizeof u;
    *v = (struct dz_sockopt){0};
    if (f)
        return SYS(f, dz_sys_getsockopt(FK(f), fd, what, v));
    int64_t r = HOST(getsockopt(fd, SOL_SOCKET, name, &u, &n));
    if (name == SO_PEERCRED)
        v->cred = (struct dz_ucred){u.cred.pid, u.cred.uid, u.cred.gid};
    else if (name == SO_RCVTIMEO || name == SO_SNDTIMEO)
        v->value = u.tv.tv_sec * INT64_C(1000000000) + u.tv.tv_usec * 1000;
    else
        v->value = u.i;
    return r;
}
static inline int64_t w_set(const struct world *w, int fd, int name, int64_t value)
{
    struct fib *f = w->f;
    const int what[2] = {SOL_SOCKET, name};
    struct timeval tv = {value / 1000000000, value / 1000 % 1000000};
    int i = (int)value;
    bool time = name == SO_RCVTIMEO || name == SO_SNDTIMEO;
    if (f)
        return SYS(f, dz_sys_setsockopt(FK(f), fd, what, &(struct dz_sockopt){.value = value}));
    return HOST(setsockopt(fd, SOL_SOCKET, name, time ? (void *)&tv : (void *)&i,
                           time ? sizeof tv : sizeof i));
}

/* Send one message with descriptors and, on request, credentials of the sender. */
static inline int64_t w_send(const struct world *w, int fd, const struct dz_msg *m, int flags)
{
    struct fib *f = w->f;
    union {
        char room[CMSG_SPACE(256 * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr align;
    } u;
    if (f)
        return SYS(f, dz_sys_sendmsg(FK(f), fd, m, flags));
    memset(&u, 0, sizeof u);
    struct msghdr h = {.msg_iov = (struct iovec *)(uintptr_t)m->iov,
                       .msg_iovlen = m->iov_count,
                       .msg_control = u.room};
    if (m->to) {
        h.msg_name = (void *)(uintptr_t)m->to->bytes;
        h.msg_namelen = m->to->size;
    }
    struct cmsghdr *c = &u.align;
    if (m->fd_count) {
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(m->fd_count * sizeof(int));
        memcpy(CMSG_DATA(c), m->fds, m->fd_count * sizeof(int));
        h.msg_controllen += CMSG_SPACE(m->fd_count * sizeof(int));
        c = (struct cmsghdr *)(void *)(u.room + h.msg_controllen);
    }
    if (m->cred) {
        const struct ucred cred = {m->cred->pid, m->cred->uid, m->cred->gid};
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_CREDENTIALS;
        c->cmsg_len = CMSG_LEN(sizeof cred);
        memcpy(CMSG_DATA(c), &cred, sizeof cred);
        h.msg_controllen += CMSG_SPACE(sizeof cred);
    }
    return HOST(sendmsg(fd, &h, flags));
}

/* Receive, with room for m->fds_max descriptors (an exact multiple of the alignment for any number)
 * and, on request, for credentials. */
static inline int64_t w_recv(const struct world *w, int fd, const struct dz_msg *m, int flags,
                             struct dz_msg_got *got)
{
    struct fib *f = w->f;
    union {
        char room[2048];
        struct cmsghdr align;
    } u;
    *got = (struct dz_msg_got){0};
    if (f)
        return SYS(f, dz_sys_recvmsg(FK(f), fd, m, flags, got));
    memset(&u, 0, sizeof u);
    struct msghdr h = {.msg_iov = (struct iovec *)(uintptr_t)m->iov,
                       .msg_iovlen = m->iov_count,
                       .msg_name = got->from.bytes,
                       .msg_namelen = sizeof got->from.bytes,
                       .msg_control = u.room};
    int passcred = 0;
    socklen_t n = sizeof passcred;
    (void)getsockopt(fd, SOL_SOCKET, SO_PASSCRED, &passcred, &n);
    if (m->cred_room && passcred) /* unused room for credentials would take descriptors */
        h.msg_controllen += CMSG_SPACE(sizeof(struct ucred));
    if (m->fds_max)
        h.msg_controllen += CMSG_LEN(m->fds_max * sizeof(int));
    int64_t r = HOST(recvmsg(fd, &h, flags));
    if (r < 0)
        return r;
    got->flags = (uint32_t)h.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
    got->from.size = h.msg_namelen;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c)) {
        if (c->cmsg_type == SCM_RIGHTS) {
            got->fd_count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(m->ret_fds, CMSG_DATA(c), got->fd_count * sizeof(int));
        } else if (c->cmsg_type == SCM_CREDENTIALS) {
            struct ucred cred;
            memcpy(&cred, CMSG_DATA(c), sizeof cred);
            got->has_cred = true;
            got->cred = (struct dz_ucred){cred.pid, cred.uid, cred.gid};
        }
    }
    return r;
}

/* Short forms without descriptors and credentials. */
static inline int64_t w_write(const struct world *w, int fd, const char *text, int flags)
{
    const struct iovec iov = {(void *)(uintptr_t)text, strlen(text)};
    return w_send(w, fd, &(struct dz_msg){.iov = &iov, .iov_count = 1}, flags | MSG_NOSIGNAL);
}
static inline int64_t w_read(const struct world *w, int fd, char *buf, size_t n, int flags)
{
    const struct iovec iov = {buf, n};
    struct dz_msg_got got;
    return w_recv(w, fd, &(struct dz_msg){.iov = &iov, .iov_count = 1}, flags, &got);
}

#endif

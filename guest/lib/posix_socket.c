/* SPDX-License-Identifier: MIT
 *
 * posix_socket.c - sockets. Numbers and addresses are Linux's on both sides, so
 * most calls are passed on; options and control data are converted.
 */
#include "posix_int.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

enum {
    FDS_MAX = 253, /* descriptors in one message, as on Linux */
};

int socket(int domain, int type, int protocol)
{
    return posix_ret(doze_socket(domain, type, protocol));
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
    return posix_ret(doze_socketpair(domain, type, protocol, fds));
}

int bind(int fd, const struct sockaddr *to, socklen_t size)
{
    return posix_ret(doze_bind(fd, to, (int)size));
}

int connect(int fd, const struct sockaddr *to, socklen_t size)
{
    return posix_ret(doze_connect(fd, to, (int)size));
}

int listen(int fd, int backlog)
{
    return posix_ret(doze_listen(fd, backlog));
}

int accept4(int fd, struct sockaddr *restrict from, socklen_t *restrict size, int flags)
{
    return posix_ret(doze_accept(fd, flags, from, size));
}

int accept(int fd, struct sockaddr *restrict from, socklen_t *restrict size)
{
    return accept4(fd, from, size, 0);
}

int shutdown(int fd, int how)
{
    return posix_ret(doze_shutdown(fd, how));
}

int getsockname(int fd, struct sockaddr *ret, socklen_t *size)
{
    return posix_ret(doze_sockname(fd, 0, ret, size));
}

int getpeername(int fd, struct sockaddr *ret, socklen_t *size)
{
    return posix_ret(doze_sockname(fd, 1, ret, size));
}

/* --- options ------------------------------------------------------------------ */

static int is_time(int level, int name)
{
    return level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO);
}

static int is_linger(int level, int name)
{
    return level == SOL_SOCKET && name == SO_LINGER;
}

int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict size)
{
    struct doze_sockopt o = {0};
    union {
        int number;
        struct timeval time;
        struct linger linger;
        uint32_t cred[3];
    } out;
    socklen_t n;

    if (posix_ret(doze_getsockopt(fd, level, name, &o)) < 0)
        return -1;
    if (is_time(level, name)) {
        out.time = (struct timeval){o.value / 1000000, (suseconds_t)(o.value % 1000000)};
        n = sizeof out.time;
    } else if (is_linger(level, name)) {
        out.linger = (struct linger){o.value >= 0, (int)(o.value < 0 ? 0 : o.value)};
        n = sizeof out.linger;
    } else if (level == SOL_SOCKET && name == SO_PEERCRED) {
        memcpy(out.cred, o.cred, sizeof out.cred);
        n = sizeof out.cred;
    } else {
        out.number = (int)o.value;
        n = sizeof out.number;
    }
    *size = *size < n ? *size : n;
    memcpy(value, &out, *size);
    return 0;
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    struct doze_sockopt o = {0};
    struct timeval time;
    struct linger linger;
    int number = 0;

    if (is_time(level, name)) {
        if (size < sizeof time)
            return posix_fail(EINVAL);
        memcpy(&time, value, sizeof time);
        if (time.tv_usec < 0 || time.tv_usec >= 1000000)
            return posix_fail(EDOM);
        if (time.tv_sec < 0)
            o.value = 1; /* over at once; 0 would be for ever */
        else if (time.tv_sec < INT64_MAX / 1000000)
            o.value = time.tv_sec * 1000000 + time.tv_usec;
    } else if (is_linger(level, name)) {
        if (size < sizeof linger)
            return posix_fail(EINVAL);
        memcpy(&linger, value, sizeof linger);
        o.value = !linger.l_onoff ? -1 : linger.l_linger < 0 ? INT32_MAX : linger.l_linger;
    } else if (size >= sizeof number) {
        memcpy(&number, value, sizeof number);
        o.value = number;
    } else if (level == 0 && size > 0) { /* IPPROTO_IP takes a byte, too */
        o.value = *(const unsigned char *)value;
    } else {
        return posix_fail(EINVAL);
    }
    return posix_ret(doze_setsockopt(fd, level, name, &o));
}

/* --- moving bytes ------------------------------------------------------------- */

ssize_t sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
               socklen_t size)
{
    struct iovec v = {(void *)buf, n};
    struct doze_msg m = {.name = (void *)to, .name_size = to ? size : 0, .iov = &v, .iov_count = 1};

    return posix_ret(doze_sendmsg(fd, &m, flags));
}

ssize_t send(int fd, const void *buf, size_t n, int flags)
{
    return sendto(fd, buf, n, flags, NULL, 0);
}

ssize_t recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *from, socklen_t *size)
{
    struct iovec v = {buf, n};
    struct doze_msg m = {.name = from, .name_size = from ? *size : 0, .iov = &v, .iov_count = 1};
    int r = posix_ret(doze_recvmsg(fd, &m, flags));

    if (r >= 0 && from)
        *size = m.name_size;
    return r;
}

ssize_t recv(int fd, void *buf, size_t n, int flags)
{
    return recvfrom(fd, buf, n, flags, NULL, NULL);
}

/* --- control data --------------------------------------------------------------- */

struct cmsghdr *__cmsg_next(const struct msghdr *m, const struct cmsghdr *c)
{
    size_t used = (size_t)((const char *)c - (const char *)m->msg_control);
    size_t left = m->msg_controllen - used;

    if (c->cmsg_len < sizeof *c || c->cmsg_len > left || CMSG_ALIGN(c->cmsg_len) > left ||
        left - CMSG_ALIGN(c->cmsg_len) < sizeof *c)
        return NULL;
    return (struct cmsghdr *)((char *)c + CMSG_ALIGN(c->cmsg_len));
}

/* The control data of a message to send: 0, or -1 and errno. */
static int get_control(const struct msghdr *m, struct doze_msg *ret, int fds[FDS_MAX])
{
    struct cmsghdr *c = m->msg_control ? CMSG_FIRSTHDR(m) : NULL;

    for (; c; c = CMSG_NXTHDR(m, c)) {
        size_t room = m->msg_controllen - (size_t)((char *)c - (char *)m->msg_control);
        size_t n = c->cmsg_len - sizeof *c;

        if (c->cmsg_len < sizeof *c || c->cmsg_len > room)
            return posix_fail(EINVAL);
        if (c->cmsg_level != SOL_SOCKET)
            continue; /* another protocol's */
        if (c->cmsg_type == SCM_RIGHTS && n / sizeof *fds <= FDS_MAX - ret->fd_count) {
            memcpy(fds + ret->fd_count, CMSG_DATA(c), n / sizeof *fds * sizeof *fds);
            ret->fd_count += n / sizeof *fds;
        } else if (c->cmsg_type == SCM_CREDENTIALS && n == sizeof ret->cred) {
            memcpy(ret->cred, CMSG_DATA(c), n);
            ret->has_cred = 1;
        } else {
            return posix_fail(EINVAL);
        }
    }
    return 0;
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    int fds[FDS_MAX];
    struct doze_msg d = {.name = m->msg_name,
                         .name_size = m->msg_name ? m->msg_namelen : 0,
                         .iov = m->msg_iov,
                         .iov_count = (uint32_t)m->msg_iovlen,
                         .fds = fds};

    if (get_control(m, &d, fds) < 0)
        return -1;
    return posix_ret(doze_sendmsg(fd, &d, flags));
}

/* Append one item to the control data; the caller has reserved its room. */
static size_t put_control(struct msghdr *m, size_t at, int type, const void *data, size_t n)
{
    struct cmsghdr c = {CMSG_LEN(n), SOL_SOCKET, type};

    memcpy((char *)m->msg_control + at, &c, sizeof c);
    memcpy((char *)m->msg_control + at + sizeof c, data, n);
    return at + CMSG_SPACE(n);
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
    int fds[FDS_MAX];
    const size_t room = m->msg_control ? m->msg_controllen : 0;
    size_t cred = CMSG_SPACE(3 * sizeof(uint32_t)), used = 0;
    int passcred = 0;
    socklen_t size = sizeof passcred;
    struct doze_msg d = {.name = m->msg_name,
                         .name_size = m->msg_name ? m->msg_namelen : 0,
                         .iov = m->msg_iov,
                         .iov_count = (uint32_t)m->msg_iovlen,
                         .fds = fds};
    int r;

    if (room >= sizeof(struct cmsghdr)) { /* credentials come before descriptors */
        /* other families have no such option */
        d.has_cred = getsockopt(fd, SOL_SOCKET, SO_PASSCRED, &passcred, &size) == 0 && passcred &&
                     room >= cred;
        size_t left = room - (d.has_cred ? cred : 0);
        size_t most =
            left > sizeof(struct cmsghdr) ? (left - sizeof(struct cmsghdr)) / sizeof *fds : 0;
        d.fd_count = (uint32_t)(most < FDS_MAX ? most : FDS_MAX);
    }
    r = posix_ret(doze_recvmsg(fd, &d, flags));
    if (r < 0)
        return r;
    if (d.has_cred)
        used = put_control(m, used, SCM_CREDENTIALS, d.cred, sizeof d.cred);
    if (d.fd_count)
        used = put_control(m, used, SCM_RIGHTS, fds, d.fd_count * sizeof *fds);
    m->msg_controllen = (socklen_t)used;
    m->msg_flags = (int)d.flags;
    m->msg_namelen = m->msg_name ? d.name_size : m->msg_namelen;
    return r;
}

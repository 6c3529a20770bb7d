/* SPDX-License-Identifier: MIT
 *
 * wasi_sock.c - sockets: the process ABI's calls, and preview 1's sock_*.
 * docs/format/abi.md says what each call means.
 *
 * Families, types, flags, options and the bytes of addresses are Linux's, as in the kernel. All
 * pointers are checked before the kernel is called, so no connection or message is lost because
 * its result cannot be written. A waiting call is issued again and checks them again.
 */
#include "wasi/wasi_int.h"

#include <netinet/in.h>
#include <sys/socket.h>

/* An address of the guest. A family of two bytes is always there. */
static int64_t get_addr(const struct call *c, uint32_t at, uint32_t size, struct dz_sockaddr *ret)
{
    if (size > sizeof ret->bytes)
        return -EINVAL;
    const uint8_t *from = guest(c, at, size);
    if (!from)
        return -EFAULT;
    *ret = (struct dz_sockaddr){.size = size};
    memcpy(ret->bytes, from, size);
    return 0;
}

/* Where an address goes to: a buffer, and the word with its size. */
struct room {
    uint8_t *at, *size_at;
    uint32_t size;
};
static int64_t get_room(const struct call *c, uint32_t at, uint32_t size_at, struct room *ret)
{
    ret->size_at = guest(c, size_at, 4);
    if (!ret->size_at)
        return -EFAULT;
    ret->size = get_u32(ret->size_at);
    if (ret->size > INT32_MAX)
        return -EINVAL;
    ret->at = guest(c, at, ret->size);
    return ret->at ? 0 : -EFAULT;
}
static void put_addr(const struct room *to, const struct dz_sockaddr *addr)
{
    memcpy(to->at, addr->bytes, to->size < addr->size ? to->size : addr->size);
    put_u32(to->size_at, addr->size);
}

WASI_DOZE(socket)
{
    return dz_sys_socket(c->k, c->p, arg_i32(c, 0), arg_i32(c, 1), arg_i32(c, 2));
}

WASI_DOZE(socketpair)
{
    const int what[3] = {arg_i32(c, 0), arg_i32(c, 1), arg_i32(c, 2)};
    int fds[2];
    uint8_t *out = guest(c, arg_u32(c, 3), sizeof fds);
    if (!out)
        return -EFAULT;
    const int64_t r = dz_sys_socketpair(c->k, c->p, what, fds);
    if (r >= 0)
        memcpy(out, fds, sizeof fds);
    return r;
}

WASI_DOZE(bind)
{
    struct dz_sockaddr to;
    const int64_t r = get_addr(c, arg_u32(c, 1), arg_u32(c, 2), &to);
    return r < 0 ? r : dz_sys_bind(c->k, c->p, arg_i32(c, 0), &to);
}

WASI_DOZE(listen)
{
    return dz_sys_listen(c->k, c->p, arg_i32(c, 0), arg_i32(c, 1));
}

WASI_DOZE(accept)
{
    struct dz_sockaddr from = {0};
    struct room to;
    const bool named = arg_u32(c, 2) != 0;
    int64_t r = named ? get_room(c, arg_u32(c, 2), arg_u32(c, 3), &to) : 0;
    if (r == 0)
        r = dz_sys_accept4(c->k, c->p, arg_i32(c, 0), arg_i32(c, 1), &from);
    if (r >= 0 && named)
        put_addr(&to, &from);
    return r;
}

WASI_DOZE(connect)
{
    struct dz_sockaddr to;
    const int64_t r = get_addr(c, arg_u32(c, 1), arg_u32(c, 2), &to);
    return r < 0 ? r : dz_sys_connect(c->k, c->p, arg_i32(c, 0), &to);
}

WASI_DOZE(shutdown)
{
    return dz_sys_shutdown(c->k, c->p, arg_i32(c, 0), arg_i32(c, 1));
}

WASI_DOZE(sockname)
{
    struct dz_sockaddr name = {0};
    struct room to;
    const int fd = arg_i32(c, 0);
    int64_t r = get_room(c, arg_u32(c, 2), arg_u32(c, 3), &to);
    if (r == 0)
        r = arg_u32(c, 1) ? dz_sys_getpeername(c->k, c->p, fd, &name)
                          : dz_sys_getsockname(c->k, c->p, fd, &name);
    if (r >= 0)
        put_addr(&to, &name);
    return r;
}

/* ---- options: i64 value, u32 cred[3], padded to 24 bytes ------------------------------------- */

enum {
    OPTION = 24,
    OPTION_CRED_AT = 8,
};

WASI_DOZE(getsockopt)
{
    const int what[2] = {arg_i32(c, 1), arg_i32(c, 2)};
    struct dz_sockopt got = {0};
    uint8_t *out = guest(c, arg_u32(c, 3), OPTION);
    if (!out)
        return -EFAULT;
    const int64_t r = dz_sys_getsockopt(c->k, c->p, arg_i32(c, 0), what, &got);
    if (r < 0)
        return r;
    int64_t value = got.value;
    switch (dz_sockopt_form(what[0], what[1])) {
    case DZ_SOCKOPT_TIME: /* the kernel's ns, rounded up: 0 would be for ever */
        value = value / 1000 + (value % 1000 != 0);
        break;
    case DZ_SOCKOPT_LINGER: /* what is off keeps its seconds in the kernel */
        value = value < 0 ? -1 : value;
        break;
    default:
        break;
    }
    const uint32_t cred[3] = {(uint32_t)got.cred.pid, got.cred.uid, got.cred.gid};
    put_u64(out, (uint64_t)value);
    memcpy(out + OPTION_CRED_AT, cred, sizeof cred);
    return r;
}

WASI_DOZE(setsockopt)
{
    const int what[2] = {arg_i32(c, 1), arg_i32(c, 2)};
    const uint8_t *in = guest(c, arg_u32(c, 3), OPTION);
    if (!in)
        return -EFAULT;
    if ((what[0] == IPPROTO_IP && what[1] == IP_PKTINFO) ||
        (what[0] == IPPROTO_IPV6 && what[1] == IPV6_RECVPKTINFO))
        return dz_sys_fd(c->k, c->p, arg_i32(c, 0)) ? -ENOPROTOOPT : -EBADF; /* no field for it */
    struct dz_sockopt value = {.value = (int64_t)get_u64(in)};
    switch (dz_sockopt_form(what[0], what[1])) {
    case DZ_SOCKOPT_TIME:
        if (value.value < 0)
            return -EDOM;
        value.value = value.value > INT64_MAX / 1000 ? 0 : value.value * 1000;
        break;
    case DZ_SOCKOPT_LINGER:
        if (value.value < -1 || value.value > INT32_MAX)
            return -EINVAL;
        break;
    case DZ_SOCKOPT_INT:
        if (value.value < INT32_MIN || value.value > INT32_MAX)
            return -EINVAL;
        break;
    default: /* the kernel refuses it */
        break;
    }
    return dz_sys_setsockopt(c->k, c->p, arg_i32(c, 0), what, &value);
}

/* ---- messages ---------------------------------------------------------------------------------
 */

/* struct doze_msg: eleven words. */
enum {
    MSG_NAME = 0,
    MSG_NAME_SIZE = 4,
    MSG_IOV = 8,
    MSG_IOV_COUNT = 12,
    MSG_FDS = 16,
    MSG_FD_COUNT = 20,
    MSG_FLAGS = 24,
    MSG_HAS_CRED = 28,
    MSG_CRED = 32,
    MSG_SIZE = 44,
};
struct message {
    uint8_t *at, *name, *fds;
    uint32_t name_size, fd_count;
    struct iovec iov[DZ_KERNEL_IOV_MAX];
    int numbers[DZ_KERNEL_SCM_FDS_MAX];
};

/* Read a message's fields; every range that it names is accessible afterwards. */
static int64_t get_message(const struct call *c, uint32_t at, struct message *ret,
                           struct dz_msg *ret_msg)
{
    ret->at = guest(c, at, MSG_SIZE);
    if (!ret->at)
        return -EFAULT;
    const uint32_t name = get_u32(ret->at + MSG_NAME), fds = get_u32(ret->at + MSG_FDS);
    const uint32_t count = get_u32(ret->at + MSG_IOV_COUNT);
    ret->name_size = name ? get_u32(ret->at + MSG_NAME_SIZE) : 0;
    ret->fd_count = fds ? get_u32(ret->at + MSG_FD_COUNT) : 0;
    if (count > DZ_KERNEL_IOV_MAX)
        return -EMSGSIZE;
    if (ret->fd_count > DZ_KERNEL_SCM_FDS_MAX || ret->name_size > INT32_MAX)
        return -EINVAL;
    ret->name = guest(c, name, ret->name_size);
    ret->fds = guest(c, fds, (uint64_t)ret->fd_count * sizeof(int));
    if (!ret->name || !ret->fds)
        return -EFAULT;
    *ret_msg = (struct dz_msg){.iov = ret->iov, .iov_count = count};
    return dz_wasi_iov(c, get_u32(ret->at + MSG_IOV), count, ret->iov);
}

WASI_DOZE(sendmsg)
{
    struct message g;
    struct dz_msg m;
    struct dz_sockaddr to;
    struct dz_ucred cred;
    int64_t r = get_message(c, arg_u32(c, 1), &g, &m);
    if (r == 0 && g.name_size) {
        r = get_addr(c, get_u32(g.at + MSG_NAME), g.name_size, &to);
        m.to = &to;
    }
    if (r < 0)
        return r;
    if (g.fd_count) {
        memcpy(g.numbers, g.fds, g.fd_count * sizeof(int));
        m.fds = g.numbers;
        m.fd_count = g.fd_count;
    }
    if (get_u32(g.at + MSG_HAS_CRED)) {
        cred = (struct dz_ucred){.pid = (int32_t)get_u32(g.at + MSG_CRED),
                                 .uid = get_u32(g.at + MSG_CRED + 4),
                                 .gid = get_u32(g.at + MSG_CRED + 8)};
        m.cred = &cred;
    }
    return dz_sys_sendmsg(c->k, c->p, arg_i32(c, 0), &m, arg_i32(c, 2));
}

WASI_DOZE(recvmsg)
{
    struct message g;
    struct dz_msg m;
    struct dz_msg_got got = {0};
    int64_t r = get_message(c, arg_u32(c, 1), &g, &m);
    if (r < 0)
        return r;
    m.ret_fds = g.numbers;
    m.fds_max = g.fd_count;
    m.cred_room = get_u32(g.at + MSG_HAS_CRED) != 0;
    r = dz_sys_recvmsg(c->k, c->p, arg_i32(c, 0), &m, arg_i32(c, 2), &got);
    if (r < 0)
        return r;
    const uint32_t name = got.from.size < g.name_size ? got.from.size : g.name_size;
    memcpy(g.name, got.from.bytes, name);
    memcpy(g.fds, g.numbers, got.fd_count * sizeof(int));
    put_u32(g.at + MSG_NAME_SIZE, got.from.size);
    put_u32(g.at + MSG_FD_COUNT, (uint32_t)got.fd_count);
    put_u32(g.at + MSG_FLAGS, got.flags);
    put_u32(g.at + MSG_HAS_CRED, got.has_cred);
    put_u32(g.at + MSG_CRED, (uint32_t)got.cred.pid);
    put_u32(g.at + MSG_CRED + 4, got.cred.uid);
    put_u32(g.at + MSG_CRED + 8, got.cred.gid);
    return r;
}

/* ---- preview 1 --------------------------------------------------------------------------------
 */

/* A descriptor that is a socket and has the right: 0, -EBADF, -ENOTSOCK, -WASI_ENOTCAPABLE. */
static int64_t check_socket(const struct call *c, enum wasi_right right)
{
    const struct dz_fd *slot = dz_sys_fd(c->k, c->p, arg_i32(c, 0));
    if (!slot)
        return -EBADF;
    const struct dz_file *f = dz_kernel_row(c->k, DZ_KERNEL_TABLE_FILE, slot->file);
    return f->kind != DZ_FILE_SOCKET ? -ENOTSOCK : dz_wasi_check(c, arg_i32(c, 0), right);
}

WASI_P1(sock_accept)
{
    const uint32_t flags = arg_u32(c, 1); /* an fdflags */
    uint8_t *out = guest(c, arg_u32(c, 2), 4);
    int64_t r = check_socket(c, RIGHT_SOCK_ACCEPT);
    if (r < 0)
        return r;
    if (!out)
        return -EFAULT;
    if (flags & ~4u)
        return -EINVAL;
    r = dz_sys_accept4(c->k, c->p, arg_i32(c, 0), flags & 4 ? SOCK_NONBLOCK : 0, NULL);
    if (r < 0)
        return r;
    put_u32(out, (uint32_t)r);
    return 0;
}

WASI_P1(sock_recv)
{
    struct iovec iov[DZ_KERNEL_IOV_MAX];
    struct dz_msg_got got = {0};
    const uint32_t count = arg_u32(c, 2), flags = arg_u32(c, 3); /* 1 peek, 2 wait for all */
    uint8_t *out = guest(c, arg_u32(c, 4), 4), *flags_out = guest(c, arg_u32(c, 5), 2);
    int64_t r = check_socket(c, RIGHT_FD_READ);
    if (r == 0)
        r = dz_wasi_iov(c, arg_u32(c, 1), count, iov);
    if (r < 0)
        return r;
    if (!out || !flags_out)
        return -EFAULT;
    if (flags & ~3u)
        return -EINVAL;
    const struct dz_msg m = {.iov = iov, .iov_count = count};
    r = dz_sys_recvmsg(c->k, c->p, arg_i32(c, 0), &m,
                       (flags & 1 ? MSG_PEEK : 0) | (flags & 2 ? MSG_WAITALL : 0), &got);
    if (r < 0)
        return r;
    put_u32(out, (uint32_t)r);
    put_u16(flags_out, (got.flags & MSG_TRUNC) != 0);
    return 0;
}

WASI_P1(sock_send)
{
    struct iovec iov[DZ_KERNEL_IOV_MAX];
    const uint32_t count = arg_u32(c, 2);
    uint8_t *out = guest(c, arg_u32(c, 4), 4);
    int64_t r = check_socket(c, RIGHT_FD_WRITE);
    if (r == 0)
        r = dz_wasi_iov(c, arg_u32(c, 1), count, iov);
    if (r < 0)
        return r;
    if (!out)
        return -EFAULT;
    if (arg_u32(c, 3)) /* preview 1 defines no flag */
        return -EINVAL;
    const struct dz_msg m = {.iov = iov, .iov_count = count};
    r = dz_sys_sendmsg(c->k, c->p, arg_i32(c, 0), &m, 0);
    if (r < 0)
        return r;
    put_u32(out, (uint32_t)r);
    return 0;
}

WASI_P1(sock_shutdown)
{
    static const int map[] = {-1, SHUT_RD, SHUT_WR, SHUT_RDWR}; /* bits 1 read, 2 write */
    const uint32_t how = arg_u32(c, 1);
    const int64_t r = check_socket(c, RIGHT_SOCK_SHUTDOWN);
    if (r < 0)
        return r;
    return how < 1 || how > 3 ? -EINVAL : dz_sys_shutdown(c->k, c->p, arg_i32(c, 0), map[how]);
}

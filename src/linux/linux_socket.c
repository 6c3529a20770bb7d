/* SPDX-License-Identifier: MIT
 *
 * linux_socket.c - calls on sockets: converts structs of the ABI to those of the kernel, and back.
 *
 * Checks come in Linux's order: first the descriptor, then the data behind pointers. A call that
 * waits is issued again, so the descriptor is looked up by rows (find()), not by a call of the
 * kernel.
 *
 * Bytes go through a buffer. Bytes received with MSG_WAITALL are copied to the guest as they
 * arrive: the parked call counts how many are in the buffer.
 */
#include "linux/linux_int.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

/* struct msghdr and struct mmsghdr of the ABI. */
struct message {
    uint64_t name;
    uint32_t name_size, pad;
    uint64_t iov, iov_count;
    uint64_t control, control_size;
    uint32_t flags, pad2;
};
enum {
    MESSAGE = 56,  /* bytes of struct msghdr, */
    MESSAGES = 64, /* and of struct mmsghdr: a u32 follows, the number of bytes moved */
    NAME_SIZE_AT = 8,
    CONTROL_SIZE_AT = 40,
    FLAGS_AT = 48,
    CONTROL_HEAD = 16,   /* struct cmsghdr: u64 size of all, int level, int type */
    CONTROL_MAX = 20480, /* bytes that one call may send: net.core.optmem_max */
    SCM_CREDENTIALS_TYPE = 2,
    CREDENTIALS = 12, /* bytes: pid, uid, gid */
    PKTINFO = 12,     /* struct in_pktinfo: u32 interface, two addresses: own, of the packet */
    PKTINFO6 = 20,    /* struct in6_pktinfo: address, u32 interface */
    LOOPBACK = 1,     /* number of the interface lo */
    TYPE_FLAGS = SOCK_CLOEXEC | SOCK_NONBLOCK,
    TYPE_MASK = 0xf,
};
_Static_assert(sizeof(struct message) == MESSAGE, "the ABI's");

/* ---- shared functions ----------------------------------------------------------------- */

/* The row of a descriptor: EBADF, ENOTSOCK. */
static int find(const linux_call *c, int fd, const struct dz_socket **ret_socket)
{
    const struct dz_fd *slot = dz_sys_fd(LINUX_K(c), fd);
    const struct dz_file *f =
        slot ? dz_kernel_row(c->kernel, DZ_KERNEL_TABLE_FILE, slot->file) : NULL;
    if (!f || (f->flags & O_PATH))
        return -EBADF;
    if (f->kind != DZ_FILE_SOCKET)
        return -ENOTSOCK;
    *ret_socket = dz_kernel_row(c->kernel, DZ_KERNEL_TABLE_SOCKET, f->obj);
    return 0;
}
static int check(const linux_call *c, int fd)
{
    const struct dz_socket *s;
    return find(c, fd, &s);
}

/* Bytes of a parked transfer that are already in the guest's memory. */
static size_t moved(const linux_call *c)
{
    const struct dz_thread *t = dz_kernel_row(c->kernel, DZ_KERNEL_TABLE_THREAD, c->proc->thread);
    const struct dz_call *parked = &t->call[t->depth];
    return parked->parked ? (size_t)parked->done : 0;
}

static int get_name(const linux_call *c, uint64_t at, uint32_t size, struct dz_sockaddr *ret_name)
{
    if (size > sizeof ret_name->bytes)
        return -EINVAL;
    ret_name->size = size;
    return size ? dz_linux_get(c, at, ret_name->bytes, size) : 0;
}

/* Write a name to a buffer of *size_at bytes, and its length to *size_at. */
static int put_name(const linux_call *c, uint64_t at, uint64_t size_at,
                    const struct dz_sockaddr *name)
{
    int32_t room;
    if (dz_linux_get(c, size_at, &room, sizeof room) < 0)
        return -EFAULT;
    if (room < 0)
        return -EINVAL;
    const size_t n = (uint32_t)room < name->size ? (uint32_t)room : name->size;
    if (dz_linux_put(c, size_at, &name->size, sizeof name->size) < 0)
        return -EFAULT;
    return n > 0 ? dz_linux_put(c, at, name->bytes, n) : 0;
}

/* ---- sockets and connections ------------------------------------------------------------ */

LINUX_CALL(socket)
{
    return dz_sys_socket(LINUX_K(c), arg_int(c, 0), arg_int(c, 1), arg_int(c, 2));
}

LINUX_CALL(socketpair)
{
    const int what[3] = {arg_int(c, 0), arg_int(c, 1), arg_int(c, 2)};
    int fds[2];
    if (what[1] & ~(TYPE_MASK | TYPE_FLAGS))
        return -EINVAL;
    if (c->mem->room(c->mem->arg, c->arg[3], sizeof fds) < sizeof fds)
        return -EFAULT;
    const int64_t r = dz_sys_socketpair(LINUX_K(c), what, fds);
    return r < 0 ? r : dz_linux_put(c, c->arg[3], fds, sizeof fds);
}

static int64_t named(const linux_call *c, int64_t (*fn)(struct dz_kernel *k, struct dz_proc *p,
                                                        int fd, const struct dz_sockaddr *to))
{
    struct dz_sockaddr to;
    int e = check(c, arg_int(c, 0));
    e = e < 0 ? e : get_name(c, c->arg[1], arg_u32(c, 2), &to);
    return e < 0 ? e : fn(LINUX_K(c), arg_int(c, 0), &to);
}
LINUX_CALL(bind)
{
    return named(c, dz_sys_bind);
}
LINUX_CALL(connect)
{
    return named(c, dz_sys_connect);
}
LINUX_CALL(listen)
{
    return dz_sys_listen(LINUX_K(c), arg_int(c, 0), arg_int(c, 1));
}

static int64_t accept_with(const linux_call *c, int flags)
{
    struct dz_sockaddr from = {0};
    const int64_t fd = dz_sys_accept4(LINUX_K(c), arg_int(c, 0), flags, &from);
    if (fd < 0 || c->arg[1] == 0)
        return fd;
    const int e = put_name(c, c->arg[1], c->arg[2], &from);
    if (e < 0)
        (void)dz_sys_close(LINUX_K(c), (int)fd); /* the connection is lost, as on Linux */
    return e < 0 ? e : fd;
}
LINUX_CALL(accept)
{
    return accept_with(c, 0);
}
LINUX_CALL(accept4)
{
    if (dz_linux_open_for(c, arg_int(c, 0), 0) == 0 &&
        (arg_int(c, 3) & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)))
        return -EINVAL; /* before the descriptor is found to be no socket */
    return accept_with(c, arg_int(c, 3));
}

LINUX_CALL(shutdown)
{
    return dz_sys_shutdown(LINUX_K(c), arg_int(c, 0), arg_int(c, 1));
}
LINUX_CALL(getsockname)
{
    struct dz_sockaddr name;
    const int64_t r = dz_sys_getsockname(LINUX_K(c), arg_int(c, 0), &name);
    return r < 0 ? r : put_name(c, c->arg[1], c->arg[2], &name);
}
LINUX_CALL(getpeername)
{
    struct dz_sockaddr name;
    const int64_t r = dz_sys_getpeername(LINUX_K(c), arg_int(c, 0), &name);
    return r < 0 ? r : put_name(c, c->arg[1], c->arg[2], &name);
}

static bool is_inet(const struct dz_socket *s)
{
    return s->family == AF_INET || s->family == AF_INET6;
}

/* ---- options ---------------------------------------------------------------------------- */

LINUX_CALL(getsockopt)
{
    const int what[2] = {arg_int(c, 1), arg_int(c, 2)};
    struct dz_sockopt value;
    int32_t size = 0;
    const struct dz_socket *s;
    int e = find(c, arg_int(c, 0), &s);
    if (e == 0 && (what[0] == SOL_SOCKET || is_inet(s))) { /* before SO_ERROR consumes an error */
        e = dz_linux_get(c, c->arg[4], &size, sizeof size);
        e = e == 0 && size < 0 ? -EINVAL : e;
    }
    if (e < 0)
        return e;
    const int64_t r = dz_sys_getsockopt(LINUX_K(c), arg_int(c, 0), what, &value);
    if (r < 0)
        return r;
    int64_t out[2] = {(int32_t)value.value, 0};
    uint32_t n = sizeof(int32_t);
    switch (dz_sockopt_form(what[0], what[1])) {
    case DZ_SOCKOPT_TIME:
        dz_linux_split(value.value, out);
        out[1] /= 1000;
        n = sizeof out;
        break;
    case DZ_SOCKOPT_CRED:
        memcpy(out, &value.cred, CREDENTIALS);
        n = CREDENTIALS;
        break;
    case DZ_SOCKOPT_LINGER: {
        const int32_t linger[2] = {value.value >= 0,
                                   (int32_t)(value.value < 0 ? ~value.value : value.value)};
        memcpy(out, linger, sizeof linger);
        n = sizeof linger;
        break;
    }
    default:
        break;
    }
    n = n < (uint32_t)size ? n : (uint32_t)size;
    if (dz_linux_put(c, c->arg[3], out, n) < 0)
        return -EFAULT;
    return dz_linux_put(c, c->arg[4], &n, sizeof n);
}

/* A struct timeval; 0 is no timeout, and a time in the past is the shortest timeout. */
static int get_timeout(const linux_call *c, uint32_t size, int64_t *ret_ns)
{
    int64_t v[2];
    const int64_t second = INT64_C(1000000000);
    if (size < sizeof v)
        return -EINVAL;
    if (dz_linux_get(c, c->arg[3], v, sizeof v) < 0)
        return -EFAULT;
    if (v[1] < 0 || v[1] >= 1000000)
        return -EDOM;
    *ret_ns = v[0] < 0 ? 1 : v[0] >= INT64_MAX / second ? 0 : v[0] * second + v[1] * 1000;
    return 0;
}
/* A struct linger: on, seconds. */
static int get_linger(const linux_call *c, uint32_t size, int64_t *ret_seconds)
{
    int32_t v[2];
    if (size < sizeof v)
        return -EINVAL;
    if (dz_linux_get(c, c->arg[3], v, sizeof v) < 0)
        return -EFAULT;
    *ret_seconds = v[0] ? (int64_t)(v[1] < 0 ? INT32_MAX : v[1]) : -1;
    return 0;
}
/* An int; options of IPv4 may also be a byte. */
static int get_number(const linux_call *c, int level, uint32_t size, int64_t *ret)
{
    int32_t number = 0;
    uint8_t byte = 0;
    if (level == IPPROTO_IP && size > 0 && size < sizeof number) {
        if (dz_linux_get(c, c->arg[3], &byte, 1) < 0)
            return -EFAULT;
        *ret = byte;
        return 0;
    }
    if (size < sizeof number)
        return -EINVAL;
    if (dz_linux_get(c, c->arg[3], &number, sizeof number) < 0)
        return -EFAULT;
    *ret = number;
    return 0;
}
LINUX_CALL(setsockopt)
{
    const int what[2] = {arg_int(c, 1), arg_int(c, 2)};
    const uint32_t size = arg_u32(c, 4);
    struct dz_sockopt value = {0};
    const struct dz_socket *s;
    int e = find(c, arg_int(c, 0), &s);
    if (e == 0 && size > INT32_MAX)
        e = -EINVAL;
    const int form = dz_sockopt_form(what[0], what[1]);
    if (e == 0 && (what[0] == SOL_SOCKET || (is_inet(s) && form >= 0))) {
        e = get_number(c, what[0], size, &value.value);
        if (e == 0 && form == DZ_SOCKOPT_TIME)
            e = get_timeout(c, size, &value.value);
        if (e == 0 && form == DZ_SOCKOPT_LINGER)
            e = get_linger(c, size, &value.value);
    }
    return e < 0 ? e : dz_sys_setsockopt(LINUX_K(c), arg_int(c, 0), what, &value);
}

/* ---- sending ------------------------------------------------------------------------------ */

/* The control data of a message. There is room for one descriptor more than permitted, so that it
 * is refused. */
struct control {
    int fds[DZ_KERNEL_SCM_FDS_MAX + 1];
    size_t fd_count;
    struct dz_ucred cred;
    bool has_cred;
    struct dz_inet src;
    bool has_src;
};

/* The address to send a datagram from. Other data of IP would only show on a wire. */
static int control_ip(const uint8_t *data, uint64_t size, const int32_t what[2],
                      struct control *ret)
{
    uint32_t v[5];
    if (what[0] == IPPROTO_IP && what[1] == IP_PKTINFO) {
        if (size != PKTINFO)
            return -EINVAL;
        memcpy(v, data, PKTINFO);
        ret->src = (struct dz_inet){.lo = UINT64_C(0xffff) << 32 | ntohl(v[1])};
    } else if (what[0] == IPPROTO_IPV6 && what[1] == IPV6_PKTINFO) {
        if (size < PKTINFO6)
            return -EINVAL;
        memcpy(v, data, PKTINFO6);
        ret->src = (struct dz_inet){.hi = (uint64_t)ntohl(v[0]) << 32 | ntohl(v[1]),
                                    .lo = (uint64_t)ntohl(v[2]) << 32 | ntohl(v[3])};
        v[0] = v[4];
    } else {
        const bool known = what[0] == IPPROTO_IP
                               ? what[1] == IP_TTL || what[1] == IP_TOS
                               : what[1] == IPV6_HOPLIMIT || what[1] == IPV6_TCLASS;
        return known && size >= 1 ? 0 : -EINVAL;
    }
    ret->has_src = true;
    return v[0] > LOOPBACK ? -ENODEV : 0;
}

static int control_one(const uint8_t *data, uint64_t size, int type, struct control *ret)
{
    if (type == SCM_RIGHTS) {
        size_t n = (size_t)(size / sizeof(int));
        if (n > DZ_ARRAY_LEN(ret->fds) - ret->fd_count)
            return -EINVAL;
        memcpy(ret->fds + ret->fd_count, data, n * sizeof(int));
        ret->fd_count += n;
        return 0;
    }
    if (type != SCM_CREDENTIALS_TYPE || size != CREDENTIALS)
        return -EINVAL;
    memcpy(&ret->cred, data, CREDENTIALS);
    ret->has_cred = true;
    return 0;
}

/* The control buffer: struct cmsghdr and data, each padded to words. */
static int get_control(const linux_call *c, const struct dz_socket *s, uint64_t at, uint64_t n,
                       struct control *ret)
{
    uint8_t bytes[CONTROL_MAX];
    ret->fd_count = 0;
    ret->has_cred = ret->has_src = false;
    if (n > sizeof bytes)
        return -ENOBUFS;
    if (dz_linux_get(c, at, bytes, (size_t)n) < 0)
        return -EFAULT;
    uint64_t size = 0;
    for (uint64_t i = 0; n - i >= CONTROL_HEAD; i += size) {
        int32_t what[2]; /* level, type */
        memcpy(&size, bytes + i, sizeof size);
        memcpy(what, bytes + i + sizeof size, sizeof what);
        if (size < CONTROL_HEAD || size > n - i)
            return -EINVAL;
        const uint8_t *data = bytes + i + CONTROL_HEAD;
        const bool ip = what[0] == IPPROTO_IP || (what[0] == IPPROTO_IPV6 && s->family == AF_INET6);
        int e = 0; /* another protocol's */
        if (is_inet(s) && s->type == SOCK_DGRAM && ip)
            e = control_ip(data, size - CONTROL_HEAD, what, ret);
        else if (what[0] == SOL_SOCKET)
            e = is_inet(s) && (what[1] == SCM_RIGHTS || what[1] == SCM_CREDENTIALS_TYPE)
                    ? 0 /* they mean nothing there, as on Linux */
                    : control_one(data, size - CONTROL_HEAD, what[1], ret);
        if (e < 0)
            return e;
        size = (size + 7) & ~UINT64_C(7);
        if (size > n - i)
            break;
    }
    return 0;
}

/* Unreadable bytes end the data of a stream; a message is sent whole or not at all. */
static int64_t send_pieces(const linux_call *c, const struct dz_linux_pieces *p, struct dz_msg *m,
                           int flags)
{
    struct dz_linux_bounce b;
    const int fd = arg_int(c, 0);
    const struct dz_socket *s;
    const int e = find(c, fd, &s);
    if (e < 0)
        return e;
    const size_t want = p->total < DZ_LINUX_WRITE_MAX ? p->total : DZ_LINUX_WRITE_MAX;
    uint8_t *buf = dz_linux_bounce_get(&b, want);
    int64_t r = -ENOMEM;
    if (buf) {
        const size_t n = dz_linux_copy(c, p, 0, buf, want, false);
        const struct iovec iov = {buf, n};
        m->iov = &iov;
        m->iov_count = 1;
        r = n < want && (n == 0 || s->type != SOCK_STREAM)
                ? -EFAULT
                : dz_sys_sendmsg(LINUX_K(c), fd, m, flags);
    }
    dz_linux_bounce_put(&b);
    return r;
}

LINUX_CALL(sendto)
{
    struct dz_linux_pieces p;
    struct dz_sockaddr to = {0};
    struct dz_msg m = {0};
    int e = check(c, arg_int(c, 0));
    if (e == 0 && c->arg[4]) {
        e = get_name(c, c->arg[4], arg_u32(c, 5), &to);
        m.to = to.size ? &to : NULL;
    }
    if (e < 0)
        return e;
    dz_linux_pieces_init(&p);
    dz_linux_piece_add(c, &p, c->arg[1], c->arg[2], false);
    return send_pieces(c, &p, &m, arg_int(c, 3));
}

/* A struct msghdr, and the pieces that it names. */
static int get_message(const linux_call *c, uint64_t at, bool into, struct message *ret,
                       struct dz_linux_pieces *p)
{
    if (dz_linux_get(c, at, ret, MESSAGE) < 0)
        return -EFAULT;
    if (ret->name == 0)
        ret->name_size = 0;
    if (ret->name_size > INT32_MAX)
        return -EINVAL;
    if (ret->name_size > sizeof(struct sockaddr_storage))
        ret->name_size = sizeof(struct sockaddr_storage);
    if (ret->iov_count > DZ_KERNEL_IOV_MAX)
        return -EMSGSIZE;
    dz_linux_pieces_init(p);
    return dz_linux_pieces_of(c, ret->iov, ret->iov_count, into, p);
}

static int64_t send_message(const linux_call *c, uint64_t at, int flags)
{
    struct dz_linux_pieces p;
    struct message h;
    struct dz_sockaddr to;
    struct control control;
    struct dz_msg m = {0};
    const struct dz_socket *s = NULL;
    int e = find(c, arg_int(c, 0), &s);
    e = e < 0 ? e : get_message(c, at, false, &h, &p);
    if (e == 0 && h.name_size) {
        e = get_name(c, h.name, h.name_size, &to);
        m.to = &to;
    }
    if (e == 0 && h.control_size) {
        e = get_control(c, s, h.control, h.control_size, &control);
        m.fds = control.fds;
        m.fd_count = control.fd_count;
        m.cred = control.has_cred ? &control.cred : NULL;
        m.src = control.has_src ? &control.src : NULL;
    }
    return e < 0 ? e : send_pieces(c, &p, &m, flags);
}
LINUX_CALL(sendmsg)
{
    return send_message(c, c->arg[1], arg_int(c, 2));
}

/* ---- receiving ---------------------------------------------------------------------------- */

/* If no byte of the buffer is accessible, only peek at a stream, so its data stays. */
static int64_t peek(const linux_call *c, int flags, struct dz_msg_got *ret_got)
{
    uint8_t byte;
    const struct iovec iov = {&byte, 1};
    const struct dz_msg m = {.iov = &iov, .iov_count = 1};
    flags = (flags | MSG_PEEK) & ~MSG_WAITALL;
    const int64_t r = dz_sys_recvmsg(LINUX_K(c), arg_int(c, 0), &m, flags, ret_got);
    return r > 0 ? -EFAULT : r;
}

/* A message that reaches into inaccessible memory is lost with its descriptors, as on Linux; the
 * data of a stream ends there. */
static int64_t receive(const linux_call *c, const struct dz_linux_pieces *p, struct dz_msg *m,
                       int flags, struct dz_msg_got *ret_got)
{
    struct dz_linux_bounce b;
    const struct dz_socket *s;
    const int e = find(c, arg_int(c, 0), &s);
    if (e < 0)
        return e;
    if (p->bad && p->total == 0 && s->type == SOCK_STREAM)
        return peek(c, flags, ret_got);
    const size_t most = flags & MSG_WAITALL ? DZ_LINUX_WRITE_MAX : DZ_LINUX_CHUNK;
    const size_t n = p->total < most ? p->total : most, before = moved(c);
    uint8_t *buf = dz_linux_bounce_get(&b, n);
    const struct iovec iov = {buf, n};
    m->iov = &iov;
    m->iov_count = 1;
    int64_t r = buf ? dz_sys_recvmsg(LINUX_K(c), arg_int(c, 0), m, flags, ret_got) : -ENOMEM;
    size_t have = r >= 0 ? (size_t)r : r == DZ_KBLOCK ? moved(c) : 0;
    have = have < n ? have : n; /* with MSG_TRUNC this is the length of the message */
    bool lost = r >= 0 && p->bad && (ret_got->flags & MSG_TRUNC);
    const bool skipped = (flags & MSG_TRUNC) && s->type == SOCK_STREAM && is_inet(s);
    if (have > before && !skipped) {
        const size_t put = dz_linux_copy(c, p, before, buf + before, have - before, true);
        lost = lost || (r >= 0 && put < have - before);
    }
    for (size_t i = 0; lost && i < ret_got->fd_count; i++)
        (void)dz_sys_close(LINUX_K(c), m->ret_fds[i]);
    dz_linux_bounce_put(&b);
    return lost ? -EFAULT : r;
}

LINUX_CALL(recvfrom)
{
    struct dz_linux_pieces p;
    struct dz_msg m = {0};
    struct dz_msg_got got;
    int e = check(c, arg_int(c, 0));
    if (e < 0)
        return e;
    dz_linux_pieces_init(&p);
    dz_linux_piece_add(c, &p, c->arg[1], c->arg[2], true);
    const int64_t r = receive(c, &p, &m, arg_int(c, 3), &got);
    if (r < 0 || c->arg[4] == 0)
        return r;
    e = put_name(c, c->arg[4], c->arg[5], &got.from);
    return e < 0 ? e : r;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Add an item to the control buffer; returns the bytes it takes. It is lost if the memory is
 * inaccessible. */
static uint64_t put_control(const linux_call *c, uint64_t at, uint64_t room, const int32_t what[2],
                            const void *data, size_t n)
{
    uint8_t bytes[CONTROL_HEAD + sizeof(int) * (DZ_KERNEL_SCM_FDS_MAX + 1)];
    const uint64_t size = CONTROL_HEAD + n;
    memcpy(bytes, &size, sizeof size);
    memcpy(bytes + sizeof size, what, 2 * sizeof *what);
    memcpy(bytes + CONTROL_HEAD, data, n);
    if (size > room || dz_linux_put(c, at, bytes, (size_t)size) < 0)
        return 0;
    return least((size + 7) & ~UINT64_C(7), room);
}

/* Where a datagram was sent to. */
static uint64_t put_pktinfo(const linux_call *c, uint64_t at, uint64_t room, uint32_t family,
                            struct dz_msg_got *got)
{
    const uint32_t v4[3] = {LOOPBACK, htonl((uint32_t)got->to.lo), htonl((uint32_t)got->to.lo)};
    const uint32_t v6[5] = {htonl((uint32_t)(got->to.hi >> 32)), htonl((uint32_t)got->to.hi),
                            htonl((uint32_t)(got->to.lo >> 32)), htonl((uint32_t)got->to.lo),
                            LOOPBACK};
    const uint64_t used =
        family == AF_INET
            ? put_control(c, at, room, (int32_t[]){IPPROTO_IP, IP_PKTINFO}, v4, PKTINFO)
            : put_control(c, at, room, (int32_t[]){IPPROTO_IPV6, IPV6_PKTINFO}, v6, PKTINFO6);
    if (used == 0)
        got->flags |= MSG_CTRUNC;
    return used;
}

static size_t fds_that_fit(const linux_call *c, uint64_t at, uint64_t room)
{
    if (room <= CONTROL_HEAD)
        return 0;
    const uint64_t n = least((room - CONTROL_HEAD) / sizeof(int), DZ_KERNEL_SCM_FDS_MAX);
    return c->mem->room(c->mem->arg, at + CONTROL_HEAD, (size_t)n * sizeof(int)) / sizeof(int);
}

static int64_t recv_message(const linux_call *c, uint64_t at, int flags)
{
    struct dz_linux_pieces p;
    struct message h;
    struct dz_msg_got got;
    const struct dz_socket *s;
    int fds[DZ_KERNEL_SCM_FDS_MAX];
    int e = find(c, arg_int(c, 0), &s);
    e = e < 0 ? e : get_message(c, at, true, &h, &p);
    if (e < 0)
        return e;
    const uint64_t room = h.control ? h.control_size : 0, cred = CONTROL_HEAD + CREDENTIALS;
    const bool asked = (s->options & DZ_SOCKET_PASSCRED) && room >= CONTROL_HEAD;
    const uint64_t before = asked ? least(room, (cred + 7) & ~7u) : 0; /* descriptors follow */
    struct dz_msg m = {.ret_fds = fds,
                       .fds_max = fds_that_fit(c, h.control + before, room - before),
                       .cred_room = room >= cred};
    const int64_t r = receive(c, &p, &m, flags, &got);
    if (r < 0)
        return r;
    uint64_t used = 0;
    if (got.has_cred)
        used += put_control(c, h.control, room, (int32_t[]){SOL_SOCKET, SCM_CREDENTIALS_TYPE},
                            &got.cred, CREDENTIALS);
    if (got.fd_count)
        used += put_control(c, h.control + used, room - used, (int32_t[]){SOL_SOCKET, SCM_RIGHTS},
                            fds, got.fd_count * sizeof(int));
    if (got.has_to)
        used += put_pktinfo(c, h.control, room, s->family, &got);
    const uint32_t told = got.flags | ((uint32_t)flags & MSG_CMSG_CLOEXEC);
    if (h.name)
        e = put_name(c, h.name, at + NAME_SIZE_AT, &got.from);
    e = e < 0 ? e : dz_linux_put(c, at + FLAGS_AT, &told, sizeof told);
    e = e < 0 ? e : dz_linux_put(c, at + CONTROL_SIZE_AT, &used, sizeof used);
    return e < 0 ? e : r;
}
LINUX_CALL(recvmsg)
{
    return recv_message(c, c->arg[1], arg_int(c, 2));
}

/* ---- several messages ------------------------------------------------------------------------ */

/* Only the first message waits: a wait in the middle would have to keep the number of those
 * done. */
static int64_t several(const linux_call *c, int flags,
                       int64_t (*one)(const linux_call *c, uint64_t at, int flags))
{
    const uint32_t n = arg_u32(c, 2) < DZ_KERNEL_IOV_MAX ? arg_u32(c, 2) : DZ_KERNEL_IOV_MAX;
    int64_t r = check(c, arg_int(c, 0));
    uint32_t done = 0;
    while (r >= 0 && done < n) {
        const uint64_t at = c->arg[1] + (uint64_t)MESSAGES * done;
        r = one(c, at, done > 0 ? flags | MSG_DONTWAIT : flags);
        const uint32_t bytes = (uint32_t)r;
        r = r < 0 ? r : dz_linux_put(c, at + MESSAGE, &bytes, sizeof bytes);
        done += r >= 0;
    }
    return done > 0 ? done : r;
}
LINUX_CALL(sendmmsg)
{
    return several(c, arg_int(c, 3), send_message);
}
LINUX_CALL(recvmmsg)
{
    int64_t timeout;
    const int e = dz_linux_timespec(c, c->arg[4], &timeout);
    return e < 0 ? e : several(c, arg_int(c, 3) & ~MSG_WAITFORONE, recv_message);
}

/* ---- interfaces ------------------------------------------------------------------------------ */

/* A struct ifconf: int size, address of struct ifreq. */
int64_t dz_linux_ifconf(const linux_call *c)
{
    int32_t size, used = 0;
    uint64_t to;
    int e = check(c, arg_int(c, 0));
    if (e < 0)
        return e == -ENOTSOCK ? -ENOTTY : e;
    if (dz_linux_get(c, c->arg[2], &size, sizeof size) < 0 ||
        dz_linux_get(c, c->arg[2] + sizeof to, &to, sizeof to) < 0)
        return -EFAULT;
    for (int number = 1;; number++) { /* interfaces are numbered from 1 */
        struct ifreq r = {.ifr_ifindex = number};
        if (dz_sys_ioctl(LINUX_K(c), arg_int(c, 0), SIOCGIFNAME, &r) < 0 ||
            dz_sys_ioctl(LINUX_K(c), arg_int(c, 0), SIOCGIFADDR, &r) < 0 ||
            (to && size - used < (int32_t)sizeof r))
            return dz_linux_put(c, c->arg[2], &used, sizeof used);
        if (to && dz_linux_put(c, to + (uint64_t)used, &r, sizeof r) < 0)
            return -EFAULT;
        used += (int32_t)sizeof r;
    }
}

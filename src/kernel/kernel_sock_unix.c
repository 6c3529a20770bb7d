/* SPDX-License-Identifier: MIT
 *
 * kernel_sock_unix.c - AF_UNIX: names, connections, streams, datagrams, packets.
 *
 * bind makes a socket file on the disk; connect finds the inode by the path and the socket by the
 * inode, so renaming the file changes nothing, and removing it makes the socket unreachable. An
 * abstract name is compared by its bytes, among sockets of one type.
 *
 * connect(2) of a stream makes the server's end at once and puts it, connected, into the listener's
 * queue: bytes may flow before it is accepted. accept(2) makes the description of that end.
 *
 * Errors are checked in Linux's order (net/unix/af_unix.c), because programs see it: a stream that
 * was shut down returns EPIPE before a pending error, a datagram socket does the reverse.
 */
#include "kernel/kernel_sock.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/buf.h"

enum {
    FAMILY_SIZE = 2, /* bytes of a name before sun_path */
    PATH_SIZE = 108,
    AUTO_SIZE = 6,        /* an abstract name that the kernel chose */
    AUTO_COUNT = 1 << 20, /* number of automatic names */
};

/* ---- names ------------------------------------------------------------------------------------
 */

static bool is_datagram(const struct dz_socket *s)
{
    return s->type == SOCK_DGRAM;
}

static int unix_name(const struct dz_kernel *k, const struct dz_socket *s, enum dz_k_name which,
                     struct dz_sockaddr *ret_name)
{
    const uint16_t family = AF_UNIX;
    size_t size = 0;
    if (which != DZ_K_NAME_OWN && !(s = dz_k_socket(k, s->peer)))
        return -ENOTCONN;
    const void *name = dz_k_blob(k, s->name, &size);
    memcpy(ret_name->bytes, &family, sizeof family);
    if (name)
        memcpy(ret_name->bytes + FAMILY_SIZE, name, size);
    ret_name->size = (uint32_t)(FAMILY_SIZE + size);
    return 0;
}

static uint16_t family_of(const struct dz_sockaddr *a)
{
    uint16_t family;
    memcpy(&family, a->bytes, sizeof family);
    return family;
}

static int check_name(const struct dz_sockaddr *a)
{
    return a->size <= FAMILY_SIZE || a->size > FAMILY_SIZE + PATH_SIZE || family_of(a) != AF_UNIX
               ? -EINVAL
               : 0;
}

static bool is_abstract(const struct dz_sockaddr *a)
{
    return a->bytes[FAMILY_SIZE] == '\0';
}

/* The path of the address, with its NUL. */
static void path_in(const struct dz_sockaddr *a, char path[static PATH_SIZE + 1])
{
    size_t n = a->size - FAMILY_SIZE;
    memcpy(path, a->bytes + FAMILY_SIZE, n);
    path[n] = '\0';
}

static struct dz_socket *find_abstract(struct dz_kernel *k, uint32_t type, const void *name,
                                       size_t n)
{
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    {
        size_t size = 0;
        const void *has = s->bound && s->ino == 0 && s->type == type && s->family == AF_UNIX
                              ? dz_k_blob(k, s->name, &size)
                              : NULL;
        if (has && size == n && memcmp(has, name, n) == 0)
            return s;
    }
    return NULL;
}

static int find_path(struct dz_kernel *k, struct dz_proc *p, const char *path,
                     struct dz_socket **ret_socket)
{
    struct dz_vfs_who who = dz_k_who(p);
    struct dz_vfs_attr a;
    struct dz_node n;
    if (!(k->caps & DZ_CAP_DISK))
        return -ENOSYS;
    int e = dz_k_resolve(k, p, (struct dz_at){.dirfd = AT_FDCWD, .path = path}, &n);
    if (e)
        return e;
    if (n.fs != DZ_KERNEL_FS_DISK)
        return -ECONNREFUSED;
    e = dz_vfs_access(k->vfs, n.ino, &who.cred, W_OK);
    e = e ? e : dz_vfs_getattr(k->vfs, n.ino, &a);
    if (e || !S_ISSOCK(a.mode))
        return e ? e : -ECONNREFUSED;
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    if (s->bound && s->ino == n.ino && s->family == AF_UNIX) {
        *ret_socket = s;
        return 0;
    }
    return -ECONNREFUSED;
}

/* Find the socket that a name refers to, for a socket of this type. */
static int find(struct dz_kernel *k, struct dz_proc *p, const struct dz_sockaddr *a, uint32_t type,
                struct dz_socket **ret_socket)
{
    char path[PATH_SIZE + 1];
    if (is_abstract(a)) {
        *ret_socket = find_abstract(k, type, a->bytes + FAMILY_SIZE, a->size - FAMILY_SIZE);
        return *ret_socket ? 0 : -ECONNREFUSED;
    }
    path_in(a, path);
    int e = find_path(k, p, path, ret_socket);
    return !e && (*ret_socket)->type != type ? -EPROTOTYPE : e;
}

static int take_name(struct dz_kernel *k, struct dz_socket *s, const void *name, size_t n)
{
    s->name = dz_k_blob_new(k, name, n);
    s->bound = s->name != 0;
    return s->name ? 0 : -ENOMEM;
}

/* Choose an unused abstract name: five digits. */
static int autobind(struct dz_kernel *k, struct dz_socket *s)
{
    char name[AUTO_SIZE + 1] = "";
    if (s->name)
        return 0;
    for (uint64_t i = 0; i <= DZ_KERNEL_SOCKETS_MAX; i++) {
        (void)snprintf(name + 1, sizeof name - 1, "%05x", (unsigned)((s->number + i) % AUTO_COUNT));
        if (!find_abstract(k, s->type, name, AUTO_SIZE))
            return take_name(k, s, name, AUTO_SIZE);
    }
    return -ENOSPC;
}

static int bind_path(const struct dz_k_sock_call *call, const struct dz_sockaddr *to)
{
    struct dz_kernel *k = call->k;
    struct dz_proc *p = call->p;
    char path[PATH_SIZE + 1];
    struct dz_node n;
    path_in(to, path);
    const struct dz_at at = {.dirfd = AT_FDCWD, .path = path, .flags = DZ_AT_NOFOLLOW};
    if (!(k->caps & DZ_CAP_DISK))
        return -ENOSYS;
    int e = (int)dz_sys_mknodat(k, p, at, S_IFSOCK | 0777, 0);
    if (e)
        return e == -EEXIST ? -EADDRINUSE : e;
    e = call->s->name ? -EINVAL : dz_k_resolve(k, p, at, &n);
    e = e ? e : dz_vfs_ref(k->vfs, n.ino);
    if (!e) {
        e = take_name(k, call->s, path, strlen(path) + 1);
        if (e)
            dz_vfs_unref(k->vfs, n.ino);
    }
    if (e)
        (void)dz_sys_unlinkat(k, p, at, false);
    else
        call->s->ino = n.ino;
    return e;
}

static int unix_bind(const struct dz_k_sock_call *call, const struct dz_sockaddr *to)
{
    struct dz_socket *s = call->s;
    if (to->size == FAMILY_SIZE && family_of(to) == AF_UNIX)
        return autobind(call->k, s);
    int e = check_name(to);
    if (e)
        return e;
    if (!is_abstract(to))
        return bind_path(call, to);
    if (s->name)
        return -EINVAL;
    const uint8_t *name = to->bytes + FAMILY_SIZE;
    if (find_abstract(call->k, s->type, name, to->size - FAMILY_SIZE))
        return -EADDRINUSE;
    return take_name(call->k, s, name, to->size - FAMILY_SIZE);
}

/* ---- creation and release -------------------------------------------------- */

static int unix_create(int *type, int *protocol)
{
    if (*protocol != 0 && *protocol != PF_UNIX)
        return -EPROTONOSUPPORT;
    if (*type == SOCK_RAW) /* as BSD had it */
        *type = SOCK_DGRAM;
    return *type == SOCK_STREAM || *type == SOCK_DGRAM || *type == SOCK_SEQPACKET
               ? 0
               : -ESOCKTNOSUPPORT;
}

static struct dz_ucred cred_of(const struct dz_proc *p)
{
    return (struct dz_ucred){p->pid, p->euid, p->egid};
}

static int unix_pair(struct dz_kernel *k, struct dz_proc *p, struct dz_socket *const ends[2])
{
    (void)k;
    for (int i = 0; i < 2; i++) {
        dz_k_sock_attach(ends[i], ends[1 - i]);
        ends[i]->peer_cred = cred_of(p);
    }
    return 0;
}

/* The queue of s has room again: wake the senders that wait for that, and the peers of s. */
static void wake_senders(struct dz_kernel *k, const struct dz_socket *s)
{
    dz_k_wake(k, &s->wait_p);
    if (!is_datagram(s))
        return;
    DZ_K_FOREACH(dz_socket, from, k, DZ_KERNEL_TABLE_SOCKET)
    if (from->peer == s->index)
        dz_k_wake(k, &from->wait_w);
}

/* Free a socket without a description: it was closed, or was never accepted. */
static void die(struct dz_kernel *k, struct dz_socket *s, bool unaccepted)
{
    struct dz_socket *peer = dz_k_socket(k, s->peer);
    bool was_listening = s->state == DZ_SOCKET_LISTENING;
    uint32_t waiting = was_listening ? s->head : 0;
    if (was_listening) /* a search for garbage must not take them for messages */
        s->head = s->tail = s->count = 0;
    s->dead = 1;
    s->shut = DZ_SOCKET_SHUT_BOTH;
    s->state = DZ_SOCKET_CLOSED;
    s->peer = s->listener = s->bound = 0;
    if (s->ino)
        dz_vfs_unref(k->vfs, s->ino);
    s->ino = 0;
    wake_senders(k, s);
    dz_k_sock_wake(k, s); /* wake other threads, whose descriptor was closed */
    if (peer && !is_datagram(s) && !peer->dead) {
        peer->shut = DZ_SOCKET_SHUT_BOTH;
        if (s->head || unaccepted)
            peer->error = ECONNRESET;
        dz_k_sock_wake(k, peer);
    }
    if (peer)
        dz_k_sock_unref(k, peer);
    while (waiting) {
        struct dz_socket *end = dz_k_socket(k, waiting);
        waiting = end->next;
        end->next = 0;
        die(k, end, true); /* it is in a listener's queue, so it has no description */
    }
    if (!was_listening)
        dz_k_queue_purge(k, s);
    dz_k_sock_unref(k, s);
}

static void unix_close(struct dz_kernel *k, struct dz_socket *s)
{
    die(k, s, false);
}

/* ---- connections ----------------------------------------------------------- */

static bool is_full(const struct dz_socket *s)
{
    return s->count > (s->state == DZ_SOCKET_LISTENING ? s->backlog : DZ_SOCKET_DATAGRAMS);
}

static int unix_listen(const struct dz_k_sock_call *call, uint32_t backlog)
{
    struct dz_socket *s = call->s;
    if (is_datagram(s))
        return -EOPNOTSUPP;
    if (!s->name || s->state == DZ_SOCKET_CONNECTED)
        return -EINVAL;
    if (backlog > s->backlog)
        dz_k_wake(call->k, &s->wait_p);
    s->backlog = backlog;
    s->state = DZ_SOCKET_LISTENING;
    s->peer_cred = cred_of(call->p);
    return 0;
}

static void unix_accepted(struct dz_kernel *k, struct dz_socket *listener)
{
    dz_k_wake(k, &listener->wait_p);
}

/* Make the server's end in the listener's queue. NULL: no room. */
static struct dz_socket *server_end(struct dz_kernel *k, const struct dz_proc *p,
                                    struct dz_socket *listener)
{
    const uint32_t name = dz_k_blob_dup(k, listener->name);
    struct dz_socket *s = name ? dz_k_sock_incoming(k, listener) : NULL;
    if (!s) {
        dz_k_blob_free(k, name);
        return NULL;
    }
    s->name = name;
    s->peer_cred = cred_of(p);
    return s;
}

static int64_t connect_stream(const struct dz_k_sock_call *call, const struct dz_sockaddr *to)
{
    struct dz_kernel *k = call->k;
    struct dz_socket *s = call->s, *other;
    int e = check_name(to);
    if (!e && (s->options & DZ_SOCKET_PASSCRED))
        e = autobind(k, s);
    e = e ? e : find(k, call->p, to, s->type, &other);
    if (e)
        return dz_k_sock_end(call, e);
    if (other->state != DZ_SOCKET_LISTENING || (other->shut & DZ_SOCKET_SHUT_RD))
        return dz_k_sock_end(call, -ECONNREFUSED);
    if (is_full(other))
        return dz_k_sock_wait(call, &other->wait_p);
    if (s->state != DZ_SOCKET_CLOSED)
        return dz_k_sock_end(call, s->state == DZ_SOCKET_CONNECTED ? -EISCONN : -EINVAL);
    struct dz_socket *end = server_end(k, call->p, other);
    if (!end)
        return dz_k_sock_end(call, -ENOMEM);
    dz_k_sock_attach(s, end);
    dz_k_sock_attach(end, s);
    s->peer_cred = other->peer_cred;
    return dz_k_sock_end(call, 0);
}

static bool may_send(const struct dz_socket *s, const struct dz_socket *other)
{
    return other->peer == 0 || other->peer == s->index;
}

/* Pending messages were sent by the old peer and are dropped. */
static void parted(struct dz_kernel *k, struct dz_socket *s, struct dz_socket *old)
{
    if (s->head == 0)
        return;
    dz_k_queue_purge(k, s);
    wake_senders(k, s);
    if (!old->dead && old->peer == s->index) {
        old->error = ECONNRESET;
        dz_k_sock_wake(k, old);
    }
}

static int64_t connect_datagrams(const struct dz_k_sock_call *call, const struct dz_sockaddr *to)
{
    struct dz_kernel *k = call->k;
    struct dz_socket *s = call->s, *other = NULL, *old = dz_k_socket(k, s->peer);
    int e = to->size < FAMILY_SIZE ? -EINVAL : 0;
    if (!e && family_of(to) != AF_UNSPEC) {
        e = check_name(to);
        if (!e && (s->options & DZ_SOCKET_PASSCRED))
            e = autobind(k, s);
        e = e ? e : find(k, call->p, to, s->type, &other);
        if (!e && !may_send(s, other))
            e = -EPERM;
    }
    if (e)
        return dz_k_sock_end(call, e);
    s->peer = 0;
    s->state = DZ_SOCKET_CLOSED;
    if (other)
        dz_k_sock_attach(s, other);
    dz_k_wake(k, &s->wait_w);
    if (old) {
        if (old != other)
            parted(k, s, old);
        dz_k_sock_unref(k, old);
    }
    return dz_k_sock_end(call, 0);
}

static int64_t unix_connect(const struct dz_k_sock_call *call, const struct dz_sockaddr *to)
{
    return is_datagram(call->s) ? connect_datagrams(call, to) : connect_stream(call, to);
}

static int unix_shutdown(const struct dz_k_sock_call *call, uint32_t how)
{
    struct dz_socket *s = call->s, *peer = dz_k_socket(call->k, s->peer);
    s->shut |= how;
    dz_k_sock_wake(call->k, s);
    if (!peer || is_datagram(s))
        return 0;
    peer->shut |= (how & DZ_SOCKET_SHUT_RD ? (uint32_t)DZ_SOCKET_SHUT_WR : 0) |
                  (how & DZ_SOCKET_SHUT_WR ? (uint32_t)DZ_SOCKET_SHUT_RD : 0);
    dz_k_sock_wake(call->k, peer);
    return 0;
}

/* ---- readiness ------------------------------------------------------------- */

static short unix_ready(const struct dz_kernel *k, const struct dz_socket *s)
{
    const struct dz_socket *peer = is_datagram(s) ? dz_k_socket(k, s->peer) : NULL;
    int r = s->error ? POLLERR : 0;
    if (s->shut & DZ_SOCKET_SHUT_RD)
        r |= POLLRDHUP | POLLIN | POLLRDNORM;
    if (s->shut == DZ_SOCKET_SHUT_BOTH)
        r |= POLLHUP;
    if (s->head)
        r |= POLLIN | POLLRDNORM;
    if (!is_datagram(s) && s->state == DZ_SOCKET_CLOSED)
        r |= POLLHUP;
    bool stopped = peer && peer->peer != s->index && is_full(peer);
    if (s->state != DZ_SOCKET_LISTENING && s->wmem <= s->sndbuf / 4 && !stopped)
        r |= POLLOUT | POLLWRNORM | POLLWRBAND;
    return (short)r;
}

/* A line in the format of net/unix/af_unix.c. */
static void tell_line(struct dz_kernel *k, const struct dz_socket *s, struct dz_buf *out)
{
    enum { /* of struct socket, which Linux prints here */
        UNCONNECTED = 1,
        CONNECTING = 2,
        CONNECTED = 3,
        DISCONNECTING = 4,
        ACCEPTING = 0x10000, /* __SO_ACCEPTCON */
    };
    unsigned state = s->state == DZ_SOCKET_CONNECTED ? CONNECTED : UNCONNECTED;
    size_t size = 0;
    const char *name = dz_k_blob(k, s->name, &size);
    if (s->file == 0)
        state = s->state == DZ_SOCKET_CONNECTED ? CONNECTING : DISCONNECTING;
    dz_buf_addf(out, "%016x: %08X %08X %08X %04X %02X %5llu", 0u, s->refs, 0u,
                s->state == DZ_SOCKET_LISTENING ? (unsigned)ACCEPTING : 0u, s->type, state,
                s->file ? (unsigned long long)s->number : 0ull);
    for (size_t i = 0; i < size && (i + 1 < size || name[0] == '\0'); i++)
        dz_buf_addf(out, "%s%c", i == 0 ? " " : "", name[i] ? name[i] : '@');
    dz_buf_adds(out, "\n");
}

void dz_k_sock_text(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out)
{
    (void)of;
    dz_buf_adds(out, "Num               RefCount Protocol Flags    Type St Inode Path\n");
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    if (s->family == AF_UNIX)
        tell_line(k, s, out);
}

/* ---- sending --------------------------------------------------------------- */

/* Check the sender that the message claims: the process itself, or, for root, any process. */
static int check_cred(const struct dz_kernel *k, const struct dz_proc *p, const struct dz_ucred *c)
{
    if (dz_k_capable(p, CAP_SYS_ADMIN))
        return dz_k_find(k, c->pid) ? 0 : -ESRCH;
    bool uid = c->uid == p->uid || c->uid == p->euid || c->uid == p->suid;
    bool gid = c->gid == p->gid || c->gid == p->egid || c->gid == p->sgid;
    return c->pid == p->pid && uid && gid ? 0 : -EPERM;
}

static int check_control(const struct dz_k_sock_call *call, const struct dz_msg *m)
{
    int e = m->cred ? check_cred(call->k, call->p, m->cred) : 0;
    if (call->c->done > 0) /* they were sent with the first bytes */
        return 0;
    return e ? e : dz_k_fds_check(call->k, call->p, m->fds, m->fd_count);
}

/* Attach credentials if the sender gave some, or if the receiver requested them. */
static struct dz_ucred cred_for(const struct dz_k_sock_call *call, const struct dz_msg *m,
                                const struct dz_socket *other)
{
    if (m->cred)
        return *m->cred;
    if (((call->s->options | other->options) & DZ_SOCKET_PASSCRED) || other->file == 0)
        return (struct dz_ucred){call->p->pid, call->p->uid, call->p->gid};
    return dz_k_nobody;
}

static int64_t send_stream(const struct dz_k_sock_call *call, const struct dz_msg *m, size_t total,
                           int flags)
{
    struct dz_kernel *k = call->k;
    struct dz_socket *s = call->s, *other = dz_k_socket(k, s->peer);
    uint64_t *done = &call->c->done;
    if (m->to)
        return dz_k_sock_end(call, s->state == DZ_SOCKET_CONNECTED ? -EISCONN : -EOPNOTSUPP);
    if (!other)
        return dz_k_sock_end(call, -ENOTCONN);
    if (!call->again && (s->shut & DZ_SOCKET_SHUT_WR))
        return dz_k_broken_pipe(call, flags);
    while (*done < total) {
        int e = dz_k_sock_error(s);
        if (e || (s->shut & DZ_SOCKET_SHUT_WR))
            return dz_k_sock_end(call, e ? e : -EPIPE);
        if (s->wmem >= s->sndbuf)
            return dz_k_sock_wait(call, &s->wait_w);
        if (other->dead || (other->shut & DZ_SOCKET_SHUT_RD))
            return dz_k_broken_pipe(call, flags);
        struct dz_k_parcel what = {m->iov, m->iov_count, *done, 0, m->fds, 0, {0}};
        what.size = dz_k_min64(total - *done, s->sndbuf / 2 - 64); /* so that two of them fit */
        what.size = dz_k_min64(what.size, DZ_SOCKET_CHUNK);
        what.fd_count = *done == 0 ? m->fd_count : 0;
        what.cred = cred_for(call, m, other);
        e = dz_k_message_put(k, call->p, s, other, &what);
        if (e)
            return dz_k_sock_end(call, e);
        *done += what.size;
        dz_k_wake(k, &other->wait_r);
    }
    return dz_k_sock_end(call, 0);
}

/* The receiver of a datagram: 0 and the socket, or -errno. */
static int receiver(const struct dz_k_sock_call *call, const struct dz_msg *m,
                    struct dz_socket **ret_other)
{
    struct dz_kernel *k = call->k;
    struct dz_socket *s = call->s;
    if (m->to && is_datagram(s))
        return find(k, call->p, m->to, s->type, ret_other);
    *ret_other = dz_k_socket(k, s->peer);
    if (!*ret_other)
        return -ENOTCONN;
    if (!(*ret_other)->dead)
        return 0;
    if (!is_datagram(s))
        return -EPIPE;
    struct dz_socket *old = *ret_other;
    s->peer = 0;
    s->state = DZ_SOCKET_CLOSED;
    parted(k, s, old);
    dz_k_sock_unref(k, old);
    return -ECONNREFUSED;
}

static int64_t send_datagram(const struct dz_k_sock_call *call, const struct dz_msg *m,
                             size_t total)
{
    struct dz_kernel *k = call->k;
    struct dz_socket *s = call->s, *other;
    int e = m->to && is_datagram(s) ? check_name(m->to) : 0;
    if (!e && (s->options & DZ_SOCKET_PASSCRED))
        e = autobind(k, s);
    if (!e && total > s->sndbuf - 32)
        e = -EMSGSIZE;
    e = e ? e : dz_k_sock_error(s);
    if (!e && (s->shut & DZ_SOCKET_SHUT_WR))
        e = -EPIPE;
    if (e)
        return dz_k_sock_end(call, e);
    if (s->wmem >= s->sndbuf)
        return dz_k_sock_wait(call, &s->wait_w);
    e = receiver(call, m, &other);
    if (!e && !may_send(s, other))
        e = -EPERM;
    if (!e && (other->shut & DZ_SOCKET_SHUT_RD))
        e = -EPIPE;
    if (e)
        return dz_k_sock_end(call, e);
    if (other != s && other->peer != s->index && is_full(other))
        return dz_k_sock_wait(call, &other->wait_p);
    const struct dz_k_parcel what = {
        m->iov, m->iov_count, 0, total, m->fds, m->fd_count, cred_for(call, m, other)};
    e = dz_k_message_put(k, call->p, s, other, &what);
    if (e)
        return dz_k_sock_end(call, e);
    dz_k_wake(k, &other->wait_r);
    return dz_k_sock_end(call, (int64_t)total);
}

static int64_t unix_send(const struct dz_k_sock_call *call, const struct dz_msg *m, size_t total,
                         int flags)
{
    struct dz_socket *s = call->s;
    int e = check_control(call, m);
    if (!e && (flags & MSG_OOB))
        e = -EOPNOTSUPP;
    if (!e && s->type == SOCK_SEQPACKET) {
        e = dz_k_sock_error(s);
        if (!e && s->state != DZ_SOCKET_CONNECTED)
            e = -ENOTCONN;
    }
    if (e)
        return dz_k_sock_end(call, e);
    return s->type == SOCK_STREAM ? send_stream(call, m, total, flags)
                                  : send_datagram(call, m, total);
}

/* ---- receiving ------------------------------------------------------------- */

/* The name of the sender; msg NULL: of the other end of a stream. */
static void unix_from(const struct dz_k_sock_call *call, const struct dz_message *msg,
                      struct dz_msg_got *got)
{
    const struct dz_socket *from = dz_k_socket(call->k, msg ? msg->sender : call->s->peer);
    (void)unix_name(call->k, from, DZ_K_NAME_OWN, &got->from);
    if (got->from.size == FAMILY_SIZE)
        got->from.size = 0;
}

static void unix_taken(struct dz_kernel *k, struct dz_socket *s)
{
    if (s->count >= DZ_SOCKET_DATAGRAMS) /* it was full */
        wake_senders(k, s);
}

static int64_t unix_dry(const struct dz_k_sock_call *call, uint64_t done, uint64_t target)
{
    if (done >= target)
        return DZ_K_KEEP;
    int e = dz_k_sock_error(call->s);
    if (done == 0 && e)
        return dz_k_sock_end(call, e);
    if (e || (call->s->shut & DZ_SOCKET_SHUT_RD) || (done > 0 && call->nonblock))
        return DZ_K_KEEP;
    return dz_k_sock_wait(call, &call->s->wait_r);
}

static int64_t unix_recv(const struct dz_k_sock_call *call, const struct dz_msg *m, size_t total,
                         int flags, struct dz_msg_got *got)
{
    if (call->s->type == SOCK_SEQPACKET && call->s->state != DZ_SOCKET_CONNECTED)
        return dz_k_sock_end(call, -ENOTCONN);
    if (flags & MSG_OOB)
        return dz_k_sock_end(call,
                             call->s->type == SOCK_STREAM && call->s->state != DZ_SOCKET_CONNECTED
                                 ? -EINVAL
                                 : -EOPNOTSUPP);
    if (call->s->type != SOCK_STREAM)
        return dz_k_recv_datagram(call, m, total, flags, got);
    return call->s->state == DZ_SOCKET_CONNECTED
               ? dz_k_recv_stream(call, m, total, flags & ~MSG_TRUNC, got)
               : dz_k_sock_end(call, -EINVAL);
}

static int64_t unix_unsent(const struct dz_kernel *k, const struct dz_socket *s)
{
    (void)k;
    return s->wmem;
}

const struct dz_k_family dz_k_unix = {
    .family = AF_UNIX,
    .create = unix_create,
    .pair = unix_pair,
    .bind = unix_bind,
    .listen = unix_listen,
    .accepted = unix_accepted,
    .connect = unix_connect,
    .shutdown = unix_shutdown,
    .name = unix_name,
    .send = unix_send,
    .recv = unix_recv,
    .ready = unix_ready,
    .from = unix_from,
    .taken = unix_taken,
    .dry = unix_dry,
    .waiting = dz_k_sock_waiting,
    .unsent = unix_unsent,
    .close = unix_close,
};

/* SPDX-License-Identifier: MIT
 *
 * kernel_sock.c - sockets: the calls that all families have, and their description.
 *
 * The operations of a family are in a table (struct dz_k_family); a new family is one more row in
 * `families`.
 *
 * Invariant: dz_socket.refs counts its description, the listener's queue that it is in, sockets
 * whose peer it is, and messages that it sent (dz_k_assert_all counts them). The row is freed with
 * the last reference (dz_k_sock_unref).
 */
#include "kernel/kernel_sock.h"

#include <fcntl.h>
#include <linux/if.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

static const struct dz_k_family *const families[] = {&dz_k_unix, &dz_k_inet, &dz_k_inet6,
                                                     &dz_k_netlink};

enum {
    FAMILIES = 46, /* numbers that Linux knows are below */
    TYPES = 11,
    TYPE_MASK = 0xf,
    SIZE_MAX_RW = 0x7ffff000,
};

const struct dz_k_family *dz_k_family(uint32_t family)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(families); i++)
        if (families[i]->family == family)
            return families[i];
    return NULL;
}

/* ---- rows ------------------------------------------------------------------ */

struct dz_socket *dz_k_sock_new(struct dz_kernel *k, uint32_t family, uint32_t type)
{
    struct dz_socket *s = dz_k_row_new(&k->tab[DZ_KERNEL_TABLE_SOCKET]);
    if (!s)
        return NULL;
    s->family = family;
    s->type = type;
    s->sndbuf = s->rcvbuf = DZ_SOCKET_BUF;
    s->number = k->next_anon_ino++;
    s->local = s->remote = dz_k_inet_any(family);
    s->peer_cred = dz_k_nobody;
    s->refs = 1;
    return s;
}

void dz_k_sock_unref(struct dz_kernel *k, struct dz_socket *s)
{
    assert(s->refs > 0);
    if (--s->refs > 0)
        return;
    assert(s->wmem == 0 && s->head == 0);
    dz_k_blob_free(k, s->name);
    dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_SOCKET], s->index);
}

struct dz_socket *dz_k_sock_incoming(struct dz_kernel *k, struct dz_socket *listener)
{
    struct dz_socket *s = dz_k_sock_new(k, listener->family, listener->type);
    if (!s)
        return NULL;
    s->protocol = listener->protocol;
    s->listener = listener->index;
    s->order = ++k->next_message;
    if (listener->tail)
        dz_k_socket(k, listener->tail)->next = s->index;
    else
        listener->head = s->index;
    listener->tail = s->index;
    listener->count++;
    dz_k_wake(k, &listener->wait_r);
    return s;
}

void dz_k_sock_wake(struct dz_kernel *k, const struct dz_socket *s)
{
    dz_k_wake(k, &s->wait_r);
    dz_k_wake(k, &s->wait_w);
}

int dz_k_sock_error(struct dz_socket *s)
{
    int e = -(int)s->error;
    s->error = 0;
    return e;
}

/* Make a description of s, to which s then belongs. */
static struct dz_file *describe(struct dz_kernel *k, struct dz_socket *s, int flags)
{
    struct dz_file *f =
        dz_k_file_new(k, DZ_FILE_SOCKET, O_RDWR | (uint32_t)(flags & SOCK_NONBLOCK));
    if (!f)
        return NULL;
    f->obj = s->index;
    s->file = f->index;
    return f;
}

/* ---- the frame of a call --------------------------------------------------- */

static struct dz_socket *find(struct dz_kernel *k, struct dz_proc *p, int fd,
                              struct dz_file **ret_file, int *ret_e)
{
    struct dz_file *f = dz_k_fd_file(k, p, fd);
    if (!f || (f->flags & O_PATH)) {
        *ret_e = -EBADF;
        return NULL;
    }
    *ret_file = f;
    *ret_e = -ENOTSOCK;
    return f->kind == DZ_FILE_SOCKET ? dz_k_socket(k, f->obj) : NULL;
}

int dz_k_sock_begin(struct dz_k_sock_call *call, struct dz_kernel *k, struct dz_proc *p, int fd)
{
    int e = 0;
    *call = (struct dz_k_sock_call){.k = k, .p = p, .c = dz_k_call(k, p)};
    call->s = find(k, p, fd, &call->f, &e);
    call->again = call->c->parked != 0;
    if (!call->s) { /* a handler may have closed the descriptor meanwhile */
        e = call->c->intr ? -EINTR : e;
        return (int)dz_k_sock_end(call, e);
    }
    call->nonblock = (call->f->flags & O_NONBLOCK) != 0;
    return 0;
}

/* A handler does not restart a call with a timeout, even with SA_RESTART. */
static void set_timeout(const struct dz_k_sock_call *call, int64_t timeout_ns)
{
    if ((call->c->flags & DZ_CALL_BEGUN) || timeout_ns == 0)
        return;
    call->c->flags |= DZ_CALL_BEGUN | DZ_CALL_NORESTART;
    call->c->deadline = dz_k_add_ns(dz_kernel_now(call->k), timeout_ns);
}

int64_t dz_k_sock_wait(const struct dz_k_sock_call *call, uint32_t *queue)
{
    if (call->nonblock || dz_kernel_now(call->k) >= call->c->deadline)
        return dz_k_sock_end(call, -EAGAIN);
    if (call->c->done > 0)
        call->c->flags |= DZ_CALL_NORESTART;
    if (call->c->intr)
        return dz_k_sock_end(call, -EINTR);
    int e = dz_k_wait(call->k, call->p, queue);
    return e ? dz_k_sock_end(call, e) : dz_k_block(call->k, call->p);
}

int64_t dz_k_sock_end(const struct dz_k_sock_call *call, int64_t r)
{
    int64_t done = (int64_t)call->c->done;
    return dz_k_end(call->k, call->p, done > 0 ? done : r);
}

int64_t dz_k_broken_pipe(const struct dz_k_sock_call *call, int flags)
{
    if (call->c->done == 0 && !(flags & MSG_NOSIGNAL))
        dz_k_send(call->k, call->p, SIGPIPE, SI_KERNEL & 0xff);
    return dz_k_sock_end(call, -EPIPE);
}

/* ---- creation -------------------------------------------------------------- */

static int check_kind(const struct dz_kernel *k, int family, int *type, int *protocol,
                      const struct dz_k_family **ret_family)
{
    int what = *type & TYPE_MASK;
    if (*type & ~(TYPE_MASK | SOCK_CLOEXEC | SOCK_NONBLOCK))
        return -EINVAL;
    if (family < 0 || family >= FAMILIES)
        return -EAFNOSUPPORT;
    if (what >= TYPES)
        return -EINVAL;
    *ret_family = dz_k_family((uint32_t)family);
    if (!*ret_family || (k->caps & (*ret_family)->caps) != (*ret_family)->caps)
        return -EAFNOSUPPORT;
    int e = (*ret_family)->create(&what, protocol);
    *type = what;
    return e;
}

int64_t dz_sys_socket(struct dz_kernel *k, struct dz_proc *p, int family, int type, int protocol)
{
    const struct dz_k_family *of;
    int flags = type;
    int e = check_kind(k, family, &type, &protocol, &of);
    if (e)
        return e;
    struct dz_socket *s = dz_k_sock_new(k, of->family, (uint32_t)type);
    if (!s)
        return -ENFILE;
    s->protocol = (uint32_t)protocol;
    s->uid = dz_k_fsuid(p);
    struct dz_file *f = describe(k, s, flags);
    if (!f) {
        dz_k_sock_unref(k, s);
        return -ENFILE;
    }
    return dz_k_install(k, p, f, flags & SOCK_CLOEXEC);
}

int64_t dz_sys_socketpair(struct dz_kernel *k, struct dz_proc *p, const int what[3], int ret_fds[2])
{
    const struct dz_k_family *of;
    struct dz_socket *ends[2] = {NULL, NULL};
    struct dz_file *f[2] = {NULL, NULL};
    int type = what[1], flags = type, protocol = what[2];
    int e = check_kind(k, what[0], &type, &protocol, &of);
    if (e)
        return e;
    if (!of->pair)
        return -EOPNOTSUPP;
    for (int i = 0; i < 2; i++) {
        ends[i] = dz_k_sock_new(k, of->family, (uint32_t)type);
        f[i] = ends[i] ? describe(k, ends[i], flags) : NULL;
        if (f[i])
            ends[i]->protocol = (uint32_t)protocol;
        else if (ends[i])
            dz_k_sock_unref(k, ends[i]);
    }
    e = f[0] && f[1] ? of->pair(k, p, ends) : -ENFILE;
    int64_t fd = e ? e : dz_k_install(k, p, f[0], flags & SOCK_CLOEXEC);
    if (fd < 0) {
        for (int i = e ? 0 : 1; i < 2; i++) /* a failed install has dropped its description */
            if (f[i])
                dz_k_file_drop(k, f[i]);
        return fd;
    }
    int64_t other = dz_k_install(k, p, f[1], flags & SOCK_CLOEXEC);
    if (other < 0) {
        dz_k_fd_close(k, p, (int)fd);
        return other;
    }
    ret_fds[0] = (int)fd;
    ret_fds[1] = (int)other;
    return 0;
}

/* ---- connections ------------------------------------------------------------------------------
 */

int64_t dz_sys_bind(struct dz_kernel *k, struct dz_proc *p, int fd, const struct dz_sockaddr *to)
{
    struct dz_k_sock_call call;
    int e = dz_k_sock_begin(&call, k, p, fd);
    return e ? e : dz_k_end(k, p, dz_k_family(call.s->family)->bind(&call, to));
}

int64_t dz_sys_listen(struct dz_kernel *k, struct dz_proc *p, int fd, int backlog)
{
    struct dz_k_sock_call call;
    uint32_t most =
        backlog < 0 || backlog > DZ_SOCKET_BACKLOG_MAX ? DZ_SOCKET_BACKLOG_MAX : (uint32_t)backlog;
    int e = dz_k_sock_begin(&call, k, p, fd);
    return e ? e : dz_k_end(k, p, dz_k_family(call.s->family)->listen(&call, most));
}

/* The socket to accept, still in the queue; NULL: the call has ended with *ret_r, or waits. */
static struct dz_socket *first_waiting(const struct dz_k_sock_call *call, int64_t *ret_r)
{
    struct dz_socket *s = call->s;
    if (s->type != SOCK_STREAM && s->type != SOCK_SEQPACKET)
        *ret_r = dz_k_sock_end(call, -EOPNOTSUPP);
    else if (s->state != DZ_SOCKET_LISTENING)
        *ret_r = dz_k_sock_end(call, -EINVAL);
    else if (s->head)
        return dz_k_socket(call->k, s->head);
    else if ((s->shut & DZ_SOCKET_SHUT_RD) && !call->nonblock)
        *ret_r = dz_k_sock_end(call, -EINVAL);
    else
        *ret_r = dz_k_sock_wait(call, &s->wait_r);
    return NULL;
}

/* Accept the connection that has waited longest: it gets a description and a number, or stays in
 * the queue. */
int64_t dz_sys_accept4(struct dz_kernel *k, struct dz_proc *p, int fd, int flags,
                       struct dz_sockaddr *ret_from)
{
    struct dz_k_sock_call call;
    int64_t r = 0;
    int e = dz_k_sock_begin(&call, k, p, fd);
    if (e)
        return e;
    if (flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK))
        return dz_k_end(k, p, -EINVAL);
    set_timeout(&call, call.s->rcvtimeo);
    int room = dz_k_fd_room(k, p);
    if (room < 0)
        return dz_k_end(k, p, room);
    const struct dz_k_family *of = dz_k_family(call.s->family);
    struct dz_socket *s = first_waiting(&call, &r);
    if (!s)
        return r;
    struct dz_file *f = describe(k, s, flags);
    if (!f)
        return dz_k_end(k, p, -ENFILE);
    call.s->head = s->next;
    call.s->tail = s->next ? call.s->tail : 0;
    call.s->count--;
    s->listener = s->next = 0;
    s->options |= call.s->options & DZ_SOCKET_PASSCRED;
    of->accepted(k, call.s);
    if (ret_from)
        (void)of->name(k, s, DZ_K_NAME_ACCEPTED, ret_from);
    return dz_k_end(k, p, dz_k_install(k, p, f, flags & SOCK_CLOEXEC));
}

int64_t dz_sys_connect(struct dz_kernel *k, struct dz_proc *p, int fd, const struct dz_sockaddr *to)
{
    struct dz_k_sock_call call;
    int e = dz_k_sock_begin(&call, k, p, fd);
    if (e)
        return e;
    set_timeout(&call, call.s->sndtimeo);
    return dz_k_family(call.s->family)->connect(&call, to);
}

int64_t dz_sys_shutdown(struct dz_kernel *k, struct dz_proc *p, int fd, int how)
{
    struct dz_k_sock_call call;
    int e = dz_k_sock_begin(&call, k, p, fd);
    if (e)
        return e;
    if (how < SHUT_RD || how > SHUT_RDWR)
        return dz_k_end(k, p, -EINVAL);
    return dz_k_end(k, p, dz_k_family(call.s->family)->shutdown(&call, (uint32_t)how + 1));
}

int64_t dz_sys_getsockname(struct dz_kernel *k, struct dz_proc *p, int fd,
                           struct dz_sockaddr *ret_name)
{
    struct dz_k_sock_call call;
    int e = dz_k_sock_begin(&call, k, p, fd);
    return e ? e
             : dz_k_end(k, p,
                        dz_k_family(call.s->family)->name(k, call.s, DZ_K_NAME_OWN, ret_name));
}

int64_t dz_sys_getpeername(struct dz_kernel *k, struct dz_proc *p, int fd,
                           struct dz_sockaddr *ret_name)
{
    struct dz_k_sock_call call;
    int e = dz_k_sock_begin(&call, k, p, fd);
    return e ? e
             : dz_k_end(k, p,
                        dz_k_family(call.s->family)->name(k, call.s, DZ_K_NAME_PEER, ret_name));
}

/* ---- bytes --------------------------------------------------------------------------------------
 */

static int64_t total_of(const struct dz_msg *m)
{
    size_t sum = 0;
    if (m->iov_count > DZ_KERNEL_IOV_MAX)
        return -EMSGSIZE;
    for (size_t i = 0; i < m->iov_count; i++)
        sum = m->iov[i].iov_len < SIZE_MAX_RW - sum ? sum + m->iov[i].iov_len : SIZE_MAX_RW;
    return (int64_t)sum;
}

/* A call that waited is issued again, and its memory may have become smaller meanwhile: it may have
 * done more than it asks for now. Such a call is over. */
static bool has_enough(const struct dz_k_sock_call *call, int64_t total)
{
    return call->c->done > (uint64_t)total;
}

int64_t dz_sys_sendmsg(struct dz_kernel *k, struct dz_proc *p, int fd, const struct dz_msg *m,
                       int flags)
{
    struct dz_k_sock_call call;
    int64_t total = total_of(m);
    int e = dz_k_sock_begin(&call, k, p, fd);
    if (e)
        return e;
    if (total < 0)
        return dz_k_end(k, p, total);
    if (has_enough(&call, total))
        return dz_k_sock_end(&call, 0);
    call.nonblock |= (flags & MSG_DONTWAIT) != 0;
    set_timeout(&call, call.s->sndtimeo);
    return dz_k_family(call.s->family)->send(&call, m, (size_t)total, flags);
}

int64_t dz_sys_recvmsg(struct dz_kernel *k, struct dz_proc *p, int fd, const struct dz_msg *m,
                       int flags, struct dz_msg_got *ret_got)
{
    struct dz_k_sock_call call;
    struct dz_msg_got got;
    int64_t total = total_of(m);
    int e = dz_k_sock_begin(&call, k, p, fd);
    if (e)
        return e;
    if (total < 0)
        return dz_k_end(k, p, total);
    call.nonblock |= (flags & MSG_DONTWAIT) != 0;
    set_timeout(&call, call.s->rcvtimeo);
    ret_got = ret_got ? ret_got : &got;
    *ret_got = (struct dz_msg_got){.cred = dz_k_nobody};
    if (has_enough(&call, total))
        return dz_k_sock_end(&call, 0);
    return dz_k_family(call.s->family)->recv(&call, m, (size_t)total, flags, ret_got);
}

int64_t dz_k_sock_read(struct dz_kernel *k, struct dz_proc *p, int fd, const struct iovec *iov,
                       size_t n)
{
    const struct dz_msg m = {.iov = iov, .iov_count = n};
    if (total_of(&m) == 0)
        return dz_k_end(k, p, 0); /* as on System V */
    return dz_sys_recvmsg(k, p, fd, &m, 0, NULL);
}

int64_t dz_k_sock_write(struct dz_kernel *k, struct dz_proc *p, int fd, const struct iovec *iov,
                        size_t n)
{
    const struct dz_msg m = {.iov = iov, .iov_count = n};
    return dz_sys_sendmsg(k, p, fd, &m, 0);
}

/* ---- the description ------------------------------------------------------- */

static struct dz_socket *of(const struct dz_kernel *k, const struct dz_file *f)
{
    return dz_k_socket(k, f->obj);
}

static short socket_ready(struct dz_kernel *k, struct dz_proc *p, const struct dz_file *f)
{
    (void)p;
    const struct dz_socket *s = of(k, f);
    return dz_k_family(s->family)->ready(k, s);
}

/* A change of state wakes both queues, so each watcher is in both, whichever event it waits for. */
static int socket_wait(struct dz_kernel *k, const struct dz_k_sleeper *who, struct dz_file *f,
                       short events)
{
    struct dz_socket *s = of(k, f);
    (void)events;
    int e = dz_k_sleep(k, who, &s->wait_r);
    return e ? e : dz_k_sleep(k, who, &s->wait_w);
}

static int64_t socket_ioctl(struct dz_kernel *k, struct dz_proc *p, struct dz_file *f, uint32_t req,
                            void *arg)
{
    const struct dz_socket *s = of(k, f);
    (void)p;
    if (req == SIOCATMARK && dz_k_is_inet(s) && s->type == SOCK_STREAM) {
        *(int *)arg = 0; /* no byte is urgent */
        return 0;
    }
    if (req != FIONREAD && req != TIOCOUTQ)
        return dz_ioctl_size(req) == sizeof(struct ifreq) ? dz_k_net_ioctl(k, s, req, arg)
                                                          : -ENOTTY;
    const struct dz_k_family *family = dz_k_family(s->family);
    int64_t n = req == FIONREAD ? family->waiting(k, s) : family->unsent(k, s);
    if (n < 0)
        return n;
    *(int *)arg = n > INT32_MAX ? INT32_MAX : (int)n;
    return 0;
}

static void socket_close(struct dz_kernel *k, struct dz_file *f)
{
    struct dz_socket *s = of(k, f);
    s->file = 0;
    dz_k_family(s->family)->close(k, s);
}

static void socket_stat(struct dz_kernel *k, const struct dz_file *f, struct dz_kstat *st)
{
    dz_k_stat_anon(st, S_IFSOCK | 0777, of(k, f)->number);
}

const struct dz_k_file_ops dz_k_socket_ops = {
    .ready = socket_ready,
    .wait = socket_wait,
    .ioctl = socket_ioctl,
    .close = socket_close,
    .stat = socket_stat,
};

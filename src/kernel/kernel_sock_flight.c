/* SPDX-License-Identifier: MIT
 *
 * kernel_sock_flight.c - messages in the queues of sockets, and the descriptors in them.
 *
 * A message of a stream grows while the same sender adds bytes without descriptors or credentials.
 * A message is charged three times: to its sender's SO_SNDBUF (wmem), to the limit of all sockets
 * of the machine (limits.pipe_bytes), and, as a blob, to the machine's memory. A datagram of UDP is
 * charged to its receiver's SO_RCVBUF instead: its row names the receiver as the sender.
 *
 * A message holds a reference to each description that it carries, as a descriptor does. So the
 * only references to a socket may be messages in queues that no process can read: its own queue, or
 * the queues of other such sockets. A search for this garbage starts when a socket's description
 * has lost a reference and all the remaining ones are in messages. A socket is reachable if a
 * descriptor names it, if it waits to be accepted at a reachable socket, or if it is in a message
 * to one. The queues of all others are purged, which frees these sockets.
 *
 * Freeing a message may close sockets, which frees their messages, and so on, to any depth that a
 * guest chooses. So messages are put in a list (doomed) that one loop processes.
 *
 * Invariants:
 *   1. dz_socket.in_flight of a socket is how often messages name its description; the sum over
 *      all descriptions is dz_kernel.in_flight (fly for its underflow, dz_k_assert_all counts);
 *   2. dz_socket.wmem is the sum of len + DZ_SOCKET_COST of the messages charged to it (sent
 *      for its underflow, dz_k_assert_all counts).
 */
#include "kernel/kernel_sock.h"

#include <linux/capability.h>
#include <sys/resource.h>

const struct dz_ucred dz_k_nobody = {0, UINT32_MAX, UINT32_MAX};

/* ---- pieces ---------------------------------------------------------------- */

static void move(const struct iovec *iov, size_t skip, uint8_t *flat, size_t n, bool put)
{
    for (size_t at = 0; at < n; iov++) {
        if (skip >= iov->iov_len) {
            skip -= iov->iov_len;
            continue;
        }
        size_t len = dz_k_min64(iov->iov_len - skip, n - at);
        uint8_t *mem = (uint8_t *)iov->iov_base + skip;
        if (put)
            memcpy(mem, flat + at, len);
        else
            memcpy(flat + at, mem, len);
        at += len;
        skip = 0;
    }
}

void dz_k_pieces_get(const struct iovec *iov, size_t skip, uint8_t *flat, size_t n)
{
    move(iov, skip, flat, n, false);
}

void dz_k_pieces_put(const struct iovec *iov, size_t skip, const uint8_t *flat, size_t n)
{
    move(iov, skip, (uint8_t *)(uintptr_t)flat, n, true);
}

/* ---- descriptors ----------------------------------------------------------- */

int dz_k_fds_check(const struct dz_kernel *k, const struct dz_proc *p, const int *fds, size_t n)
{
    uint64_t most = p->rlimit[RLIMIT_NOFILE][0];
    if (n > DZ_KERNEL_SCM_FDS_MAX)
        return -EINVAL;
    for (size_t i = 0; i < n; i++)
        if (!dz_k_fd_file(k, p, fds[i]))
            return -EBADF;
    if (dz_k_capable(p, CAP_SYS_RESOURCE) || most > DZ_KERNEL_IN_FLIGHT_MAX)
        most = DZ_KERNEL_IN_FLIGHT_MAX;
    return n > 0 && (k->in_flight > most || n > DZ_KERNEL_IN_FLIGHT_MAX - k->in_flight)
               ? -ETOOMANYREFS
               : 0;
}

/* A message begins or ends to name this description. */
static void fly(struct dz_kernel *k, const struct dz_file *f, bool off)
{
    struct dz_socket *s = f->kind == DZ_FILE_SOCKET ? dz_k_socket(k, f->obj) : NULL;
    assert(off || (k->in_flight > 0 && (!s || s->in_flight > 0)));
    k->in_flight += off ? 1u : UINT32_MAX;
    if (s)
        s->in_flight += off ? 1u : UINT32_MAX;
}

bool dz_k_message_fds(struct dz_kernel *k, struct dz_proc *p, const struct dz_message *m,
                      const struct dz_msg *to, int flags, struct dz_msg_got *got)
{
    const uint32_t cloexec = (uint32_t)flags & MSG_CMSG_CLOEXEC ? DZ_FD_CLOEXEC : 0;
    for (uint32_t i = 0; i < m->fd_count; i++) {
        const uint32_t *fds = dz_k_blob(k, m->fds, NULL);
        int fd = got->fd_count < to->fds_max ? dz_k_fd_free(k, p, 0) : -EMFILE;
        if (fd < 0 || dz_k_fd_put(k, p, fd, dz_k_file(k, fds[i]), cloexec) != 0)
            return false;
        to->ret_fds[got->fd_count++] = fd;
    }
    return true;
}

void dz_k_message_drop_fds(struct dz_kernel *k, struct dz_message *m)
{
    uint32_t blob = m->fds, n = m->fd_count;
    const uint32_t *fds = dz_k_blob(k, blob, NULL);
    bool outer = !k->settling;
    m->fds = m->fd_count = 0;
    k->settling = true;
    for (uint32_t i = 0; i < n; i++) {
        struct dz_file *f = dz_k_file(k, fds[i]);
        fly(k, f, false);
        dz_k_file_drop(k, f);
    }
    dz_k_blob_free(k, blob);
    if (outer) {
        k->settling = false;
        dz_k_sock_settle(k);
    }
}

/* ---- messages -------------------------------------------------------------- */

static uint64_t room_of(const struct dz_kernel *k, const struct dz_message *m)
{
    size_t size = 0;
    (void)dz_k_blob(k, m->blob, &size);
    return size + DZ_SOCKET_COST;
}

static bool may_hold(const struct dz_kernel *k, uint64_t more)
{
    return more <= k->limits.pipe_bytes && k->socket_bytes <= k->limits.pipe_bytes - more;
}

/* Add bytes to the last message of a stream's queue; false: it cannot take them. */
static bool append(struct dz_kernel *k, struct dz_socket *from, const struct dz_socket *to,
                   const struct dz_k_parcel *what)
{
    struct dz_message *m = dz_k_message(k, to->tail);
    size_t cap = 0;
    if (!m || m->fd_count || what->fd_count || !dz_k_same_cred(&m->cred, &what->cred) ||
        what->size > DZ_SOCKET_CHUNK - m->len)
        return false;
    uint8_t *bytes = dz_k_blob(k, m->blob, &cap);
    size_t want = m->len + what->size;
    if (m->head + want > cap && m->head > 0) {
        memmove(bytes, bytes + m->head, m->len);
        m->head = 0;
    }
    if (want > cap) {
        size_t size = 2 * want < DZ_SOCKET_CHUNK ? 2 * want : DZ_SOCKET_CHUNK;
        if (!may_hold(k, size - cap) || dz_k_blob_resize(k, m->blob, size) != 0)
            return false;
        k->socket_bytes += size - cap;
        bytes = dz_k_blob(k, m->blob, NULL);
    }
    dz_k_pieces_get(what->iov, what->skip, bytes + m->head + m->len, what->size);
    m->len += (uint32_t)what->size;
    from->wmem += (uint32_t)what->size;
    return true;
}

/* Make the row and its blobs, in no queue yet. */
static struct dz_message *message_new(struct dz_kernel *k, const struct dz_proc *p,
                                      const struct dz_k_parcel *what)
{
    struct dz_message *m = may_hold(k, what->size + DZ_SOCKET_COST)
                               ? dz_k_row_new(&k->tab[DZ_KERNEL_TABLE_MESSAGE])
                               : NULL;
    if (!m)
        return NULL;
    m->blob = what->size ? dz_k_blob_new(k, NULL, what->size) : 0;
    m->fds = what->fd_count ? dz_k_blob_new(k, NULL, what->fd_count * sizeof(uint32_t)) : 0;
    if ((what->size && !m->blob) || (what->fd_count && !m->fds)) {
        dz_k_blob_free(k, m->blob);
        dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_MESSAGE], m->index);
        return NULL;
    }
    m->len = (uint32_t)what->size;
    m->cred = what->cred;
    if (what->size)
        dz_k_pieces_get(what->iov, what->skip, dz_k_blob(k, m->blob, NULL), what->size);
    uint32_t *fds = dz_k_blob(k, m->fds, NULL);
    for (size_t i = 0; i < what->fd_count; i++) {
        struct dz_file *f = dz_k_fd_file(k, p, what->fds[i]);
        assert(f);
        fds[m->fd_count++] = f->index;
        f->refs++;
        fly(k, f, true);
    }
    return m;
}

int dz_k_message_put(struct dz_kernel *k, const struct dz_proc *p, struct dz_socket *from,
                     struct dz_socket *to, const struct dz_k_parcel *what)
{
    if (from->type == SOCK_STREAM && append(k, from, to, what))
        return 0;
    struct dz_message *m = message_new(k, p, what);
    if (!m)
        return -ENOBUFS;
    m->socket = to->index;
    m->sender = from->index;
    m->order = ++k->next_message;
    from->refs++;
    from->wmem += m->len + DZ_SOCKET_COST;
    k->socket_bytes += room_of(k, m);
    if (to->tail)
        dz_k_message(k, to->tail)->next = m->index;
    else
        to->head = m->index;
    to->tail = m->index;
    to->count++;
    return 0;
}

/* Report free room to the sender. Linux does so when at most a quarter is used. */
static void sent(struct dz_kernel *k, struct dz_socket *from, uint32_t bytes)
{
    assert(from && from->wmem >= bytes);
    from->wmem -= bytes;
    if (!from->dead && from->wmem <= from->sndbuf / 4)
        dz_k_wake(k, &from->wait_w);
}

void dz_k_message_eat(struct dz_kernel *k, struct dz_message *m, uint32_t n)
{
    assert(n <= m->len);
    m->head += n;
    m->len -= n;
    sent(k, dz_k_socket(k, m->sender), n);
}

/* Move the first message of s from its queue to the list of those to be freed. */
static void doom(struct dz_kernel *k, struct dz_socket *s)
{
    struct dz_message *m = dz_k_message(k, s->head);
    assert(s->count > 0 && m->socket == s->index);
    s->head = m->next;
    s->tail = s->head ? s->tail : 0;
    s->count--;
    m->next = k->doomed;
    k->doomed = m->index;
}

void dz_k_message_free(struct dz_kernel *k, struct dz_message *m)
{
    struct dz_socket *s = dz_k_socket(k, m->socket);
    assert(s->head == m->index);
    doom(k, s);
    dz_k_sock_settle(k);
}

void dz_k_queue_purge(struct dz_kernel *k, struct dz_socket *s)
{
    while (s->head)
        doom(k, s);
    dz_k_sock_settle(k);
}

static void end_message(struct dz_kernel *k, struct dz_message *m)
{
    struct dz_socket *from = dz_k_socket(k, m->sender);
    k->doomed = m->next;
    dz_k_message_drop_fds(k, m);
    assert(k->socket_bytes >= room_of(k, m));
    k->socket_bytes -= room_of(k, m);
    dz_k_blob_free(k, m->blob);
    sent(k, from, m->len + DZ_SOCKET_COST);
    dz_k_row_free(&k->tab[DZ_KERNEL_TABLE_MESSAGE], m->index);
    dz_k_sock_unref(k, from);
}

/* ---- garbage ----------------------------------------------------------------------------------
 */

static void reach(struct dz_kernel *k, struct dz_socket *s, uint32_t *list)
{
    if (s->mark == k->mark)
        return;
    s->mark = k->mark;
    s->mark_next = *list;
    *list = s->index;
}

/* Mark the sockets that a reachable socket refers to. */
static void reach_from(struct dz_kernel *k, const struct dz_socket *s, uint32_t *list)
{
    if (s->state == DZ_SOCKET_LISTENING) {
        for (uint32_t i = s->head; i != 0; i = dz_k_socket(k, i)->next)
            reach(k, dz_k_socket(k, i), list);
        return;
    }
    for (const struct dz_message *m = dz_k_message(k, s->head); m; m = dz_k_message(k, m->next)) {
        const uint32_t *fds = dz_k_blob(k, m->fds, NULL);
        for (uint32_t i = 0; i < m->fd_count; i++) {
            const struct dz_file *f = dz_k_file(k, fds[i]);
            if (f->kind == DZ_FILE_SOCKET)
                reach(k, dz_k_socket(k, f->obj), list);
        }
    }
}

static void collect(struct dz_kernel *k)
{
    uint32_t list = 0;
    k->mark++;
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    if (s->file && dz_k_file(k, s->file)->refs > s->in_flight)
        reach(k, s, &list);
    while (list) {
        const struct dz_socket *s = dz_k_socket(k, list);
        list = s->mark_next;
        reach_from(k, s, &list);
    }
    /* Drop messages to unreachable sockets, and to those that wait there to be accepted. */
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    if (s->mark != k->mark && s->state != DZ_SOCKET_LISTENING)
        while (s->head)
            doom(k, s);
}

void dz_k_sock_settle(struct dz_kernel *k)
{
    if (k->settling)
        return;
    k->settling = true;
    while (k->doomed || k->garbage) {
        if (k->doomed) {
            end_message(k, dz_k_message(k, k->doomed));
            continue;
        }
        k->garbage = false;
        collect(k);
    }
    k->settling = false;
}

void dz_k_sock_left(struct dz_kernel *k, const struct dz_file *f)
{
    const struct dz_socket *s = f->kind == DZ_FILE_SOCKET ? dz_k_socket(k, f->obj) : NULL;
    if (!s || s->in_flight != f->refs)
        return;
    k->garbage = true;
    dz_k_sock_settle(k);
}

/* SPDX-License-Identifier: MIT
 *
 * kernel_sock_save.c - checks and restores the sockets and messages of a saved machine.
 *
 * Links, queues and counts are rebuilt: queues from the order of each message and of each socket in
 * a listener's queue, reference counts from the references. A description that only unreadable
 * messages name is garbage, and is freed as in a running machine.
 */
#include "kernel/kernel_sock.h"

#include <fcntl.h>
#include <stdlib.h>

/* ---- each row alone -----------------------------------------------------------------------------
 */

static bool is_stream(const struct dz_socket *s)
{
    return s->type == SOCK_STREAM;
}

static bool name_ok(const struct dz_kernel *k, const struct dz_socket *s)
{
    size_t size = 0;
    const char *name = dz_k_blob(k, s->name, &size);
    if (s->name == 0)
        return !s->bound && s->ino == 0;
    if (!name || size == 0 || size > DZ_SOCKET_NAME_MAX)
        return false;
    bool path = name[0] != '\0';
    return (!path || name[size - 1] == '\0') && (s->ino == 0 || (path && s->bound));
}

/* May these two be the ends of a connection? IPv4 may reach a socket of IPv6. */
static bool are_alike(const struct dz_socket *a, const struct dz_socket *b)
{
    return a->type == b->type && (a->family == b->family || (dz_k_is_inet(a) && dz_k_is_inet(b)));
}

/* Is this a kind of socket that has no peer, and whose messages are charged to itself? */
static bool is_lone(const struct dz_socket *s)
{
    return s->family == AF_NETLINK || (dz_k_is_inet(s) && s->type == SOCK_DGRAM);
}

/* Both ends of a connection name each other, unless one is dead. */
static bool peer_ok(const struct dz_kernel *k, const struct dz_socket *s)
{
    const struct dz_socket *peer = dz_k_socket(k, s->peer);
    if (s->peer == 0)
        return s->state != DZ_SOCKET_CONNECTED || is_lone(s) || s->channel;
    if (!peer || s->state != DZ_SOCKET_CONNECTED || !are_alike(s, peer) || s->dead || is_lone(s))
        return false;
    if (dz_k_is_inet(s) && !dz_k_inet_pair_ok(s, peer))
        return false;
    return s->type == SOCK_DGRAM || (peer != s && (peer->dead || peer->peer == s->index));
}

static bool listener_ok(const struct dz_kernel *k, const struct dz_socket *s)
{
    const struct dz_socket *l = dz_k_socket(k, s->listener);
    const bool was_reset = dz_k_is_inet(s) && s->state == DZ_SOCKET_CLOSED;
    return s->listener == 0 ||
           (l && l->state == DZ_SOCKET_LISTENING && l->type == s->type && l->family == s->family &&
            (s->state == DZ_SOCKET_CONNECTED || was_reset));
}

static bool socket_ok(const struct dz_kernel *k, const struct dz_socket *s)
{
    int type = (int)s->type, protocol = (int)s->protocol;
    const struct dz_k_family *of = dz_k_family(s->family);
    bool ok = of && s->type < 16 && of->create(&type, &protocol) == 0 && type == (int)s->type &&
              protocol == (int)s->protocol;
    ok = ok && s->state <= DZ_SOCKET_CONNECTING && s->shut <= DZ_SOCKET_SHUT_BOTH && s->dead <= 1;
    ok = ok && s->bound <= 1 && s->options <= DZ_SOCKET_OPTIONS && s->error < 4096;
    ok = ok && s->sndbuf >= DZ_SOCKET_SNDBUF_MIN && s->sndbuf <= 2 * DZ_SOCKET_BUF;
    ok = ok && s->rcvbuf >= DZ_SOCKET_RCVBUF_MIN && s->rcvbuf <= 2 * DZ_SOCKET_BUF;
    ok = ok && s->backlog <= DZ_SOCKET_BACKLOG_MAX && s->rcvtimeo >= 0 && s->sndtimeo >= 0;
    ok = ok && s->order <= INT64_MAX && name_ok(k, s) && peer_ok(k, s) && listener_ok(k, s);
    ok = ok && dz_k_inet_ok(s) && dz_k_sock_values_ok(s) && s->linger <= INT32_MAX;
    if (s->state == DZ_SOCKET_LISTENING)
        ok = ok && s->type != SOCK_DGRAM && (s->name || dz_k_is_inet(s)) && s->listener == 0;
    if (s->family == AF_NETLINK)
        ok = ok && s->state == DZ_SOCKET_CLOSED && s->name == 0;
    if (s->dead)
        ok = ok && s->state == DZ_SOCKET_CLOSED && s->listener == 0 && !s->bound;
    return ok;
}

static bool message_ok(const struct dz_kernel *k, const struct dz_message *m)
{
    const struct dz_socket *to = dz_k_socket(k, m->socket), *from = dz_k_socket(k, m->sender);
    size_t size = 0, fds_size = 0;
    if (!to || !from || to->dead || to->state == DZ_SOCKET_LISTENING || !are_alike(from, to) ||
        m->order > INT64_MAX)
        return false;
    if (is_lone(to) ? from != to : dz_k_is_inet(to) && to->state == DZ_SOCKET_CONNECTING)
        return false;
    const bool has_ended = dz_k_is_inet(to) && to->state == DZ_SOCKET_CLOSED &&
                           (to->inet & (DZ_INET_ATTACHED | DZ_INET_PENDING));
    if (to->type != SOCK_DGRAM && to->peer != m->sender && !has_ended && !is_lone(to))
        return false;
    bool has = dz_k_blob(k, m->blob, &size) != NULL;
    uint32_t most = is_stream(to) ? DZ_SOCKET_CHUNK : 2 * DZ_SOCKET_BUF;
    if ((m->blob != 0) != has || m->len > most || m->head > size || m->len > size - m->head)
        return false;
    if (is_stream(to) && (m->len == 0 || size > DZ_SOCKET_CHUNK))
        return false;
    const uint32_t *fds = dz_k_blob(k, m->fds, &fds_size);
    if ((m->fds != 0) != (fds != NULL) || m->fd_count > DZ_KERNEL_SCM_FDS_MAX ||
        (m->fd_count && to->family != AF_UNIX) || fds_size != m->fd_count * sizeof *fds ||
        (m->fds != 0) != (m->fd_count != 0))
        return false;
    for (uint32_t i = 0; i < m->fd_count; i++)
        if (!dz_k_file(k, fds[i]))
            return false;
    return true;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Each channel belongs to one socket. */
static int check_channels(const struct dz_kernel *k, struct dz_err *err)
{
    size_t n = 0;
    uint32_t *all = dz_zarray((size_t)k->tab[DZ_KERNEL_TABLE_SOCKET].used + 1, sizeof *all);
    if (!all)
        return dz_fail(err, DZ_ENOMEM, "cannot load the machine: out of memory");
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    if (s->channel)
        all[n++] = s->channel;
    qsort(all, n, sizeof *all, by_number);
    bool twice = false;
    for (size_t i = 1; i < n; i++)
        twice |= all[i] == all[i - 1];
    dz_free(all);
    return twice ? dz_fail(err, DZ_ECORRUPT, "two saved sockets have the same connection") : 0;
}

int dz_k_sock_check(struct dz_kernel *k, struct dz_err *err)
{
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    if (!socket_ok(k, s))
        return dz_fail(err, DZ_ECORRUPT, "saved socket %u is damaged", s->index);
    DZ_K_FOREACH(dz_message, m, k, DZ_KERNEL_TABLE_MESSAGE)
    if (!message_ok(k, m))
        return dz_fail(err, DZ_ECORRUPT, "saved message %u is damaged", m->index);
    return check_channels(k, err);
}

/* ---- counts ---------------------------------------------------------------- */

/* A socket must be referred to by its description, its listener or another socket, and have only
 * what its kind may have. */
static int has_owner(struct dz_kernel *k, const struct dz_socket *s, struct dz_err *err)
{
    bool ok = s->dead ? s->file == 0 && s->refs > 0 : (s->file != 0) != (s->listener != 0);
    (void)k;
    return ok ? 0
              : dz_fail(err, DZ_ECORRUPT, "no saved open file refers to the saved socket %u",
                        s->index);
}

static void reset(struct dz_socket *s)
{
    s->refs = s->file = s->wmem = s->in_flight = s->head = s->tail = s->count = s->next = 0;
    s->wait_r = s->wait_w = s->wait_p = s->mark = s->mark_next = 0;
}

/* Count a message for its sender, for all sockets, and for its descriptions. */
static void count(struct dz_kernel *k, const struct dz_message *m)
{
    struct dz_socket *from = dz_k_socket(k, m->sender);
    const uint32_t *fds = dz_k_blob(k, m->fds, NULL);
    size_t size = 0;
    (void)dz_k_blob(k, m->blob, &size);
    from->refs++;
    from->wmem += m->len + DZ_SOCKET_COST;
    k->socket_bytes += size + DZ_SOCKET_COST;
    for (uint32_t i = 0; i < m->fd_count; i++) {
        struct dz_file *f = dz_k_file(k, fds[i]);
        f->refs++;
        k->in_flight++;
        if (f->kind == DZ_FILE_SOCKET)
            dz_k_socket(k, f->obj)->in_flight++;
    }
}

/* ---- queues ---------------------------------------------------------------- */

/* An entry of a queue. */
struct entry {
    uint64_t order;
    uint32_t queue, index;
    bool is_socket;
};

static int by_queue(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->queue != y->queue)
        return x->queue < y->queue ? -1 : 1;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static void link_in(struct dz_kernel *k, const struct entry *e)
{
    struct dz_socket *s = dz_k_socket(k, e->queue);
    if (s->tail == 0)
        s->head = e->index;
    else if (e->is_socket)
        dz_k_socket(k, s->tail)->next = e->index;
    else
        dz_k_message(k, s->tail)->next = e->index;
    s->tail = e->index;
    s->count++;
    k->next_message = e->order > k->next_message ? e->order : k->next_message;
}

static int make_queues(struct dz_kernel *k, struct dz_err *err)
{
    size_t n = 0, most = (size_t)k->tab[DZ_KERNEL_TABLE_SOCKET].used +
                         k->tab[DZ_KERNEL_TABLE_MESSAGE].used;
    struct entry *all = most ? dz_zarray(most, sizeof *all) : NULL;
    if (!all)
        return most ? dz_fail(err, DZ_ENOMEM, "cannot load the machine: out of memory") : 0;
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    if (s->listener)
        all[n++] = (struct entry){s->order, s->listener, s->index, true};
    DZ_K_FOREACH(dz_message, m, k, DZ_KERNEL_TABLE_MESSAGE)
    {
        m->next = 0;
        all[n++] = (struct entry){m->order, m->socket, m->index, false};
    }
    qsort(all, n, sizeof *all, by_queue);
    for (size_t i = 0; i < n; i++)
        link_in(k, &all[i]);
    dz_free(all);
    return 0;
}

int dz_k_sock_revive(struct dz_kernel *k, struct dz_err *err)
{
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    reset(s);
    DZ_K_FOREACH(dz_message, m, k, DZ_KERNEL_TABLE_MESSAGE)
    count(k, m);
    DZ_K_FOREACH(dz_file, f, k, DZ_KERNEL_TABLE_FILE)
    {
        struct dz_socket *s = f->kind == DZ_FILE_SOCKET ? dz_k_socket(k, f->obj) : NULL;
        if (s && s->file)
            return dz_fail(err, DZ_ECORRUPT, "two saved open files are socket %u", s->index);
        if (!s)
            continue;
        s->file = f->index;
        s->refs++;
    }
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    {
        s->refs += s->listener != 0;
        if (s->peer)
            dz_k_socket(k, s->peer)->refs++;
        if (s->ino && dz_vfs_ref(k->vfs, s->ino) != 0)
            return dz_fail(err, DZ_ECORRUPT, "saved socket %u: its inode %llu is gone", s->index,
                           (unsigned long long)s->ino);
    }
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    {
        int rc = has_owner(k, s, err);
        if (rc)
            return rc;
    }
    return make_queues(k, err);
}

void dz_k_sock_revived(struct dz_kernel *k)
{
    k->garbage = k->in_flight > 0;
    dz_k_sock_settle(k);
    dz_k_outside_revived(k);
}

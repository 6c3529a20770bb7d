/* SPDX-License-Identifier: MIT
 *
 * kernel_sock_recv.c - reads messages of a socket's queue: bytes of a stream, or one datagram.
 *
 * All families share both loops. A family says who sent a message (from), what an empty queue of a
 * stream means (dry), and whose wait is over when a datagram has left the queue (taken).
 */
#include "kernel/kernel_sock.h"

int64_t dz_k_sock_waiting(const struct dz_kernel *k, const struct dz_socket *s)
{
    int64_t n = 0;
    if (s->state == DZ_SOCKET_LISTENING)
        return -EINVAL;
    for (const struct dz_message *m = dz_k_message(k, s->head); m; m = dz_k_message(k, m->next)) {
        n += m->len;
        if (s->type == SOCK_DGRAM)
            break;
    }
    return n;
}

/* Give the control data of a message to its reader. Its descriptors leave the message, unless this
 * is a peek.
 */
static void give_control(const struct dz_k_sock_call *call, struct dz_message *msg,
                         const struct dz_msg *m, int flags, struct dz_msg_got *got)
{
    if (msg->fd_count && !dz_k_message_fds(call->k, call->p, msg, m, flags, got))
        got->flags |= MSG_CTRUNC;
    if (msg->fd_count && !(flags & MSG_PEEK))
        dz_k_message_drop_fds(call->k, msg);
}

/* Missing credentials are reported as those of no sender. */
static void give_cred(const struct dz_socket *s, const struct dz_ucred *cred,
                      const struct dz_msg *m, struct dz_msg_got *got)
{
    const uint32_t nobody = 65534;
    if (!(s->options & DZ_SOCKET_PASSCRED))
        return;
    got->has_cred = m->cred_room;
    got->cred = *cred;
    if (cred->uid == UINT32_MAX)
        got->cred.uid = nobody;
    if (cred->gid == UINT32_MAX)
        got->cred.gid = nobody;
    if (!m->cred_room)
        got->flags |= MSG_CTRUNC;
}

/* The credentials that a waiting transfer of a stream has seen are kept in fields of its call that
 * are unused there. */
static struct dz_ucred noted_cred(const struct dz_call *c)
{
    return (struct dz_ucred){(int32_t)(c->result >> 32), (uint32_t)c->result, (uint32_t)c->mask};
}

static void note_cred(struct dz_call *c, const struct dz_ucred *cred)
{
    c->result = (int64_t)((uint64_t)(uint32_t)cred->pid << 32 | cred->uid);
    c->mask = cred->gid;
}

/* Report what a read of a stream returns besides its bytes: who wrote them. */
static void tell(const struct dz_k_sock_call *call, const struct dz_ucred *cred,
                 const struct dz_msg *m, struct dz_msg_got *got)
{
    give_cred(call->s, cred, m, got);
    dz_k_family(call->s->family)->from(call, NULL, got);
}

int64_t dz_k_recv_stream(const struct dz_k_sock_call *call, const struct dz_msg *m, size_t total,
                         int flags, struct dz_msg_got *got)
{
    struct dz_kernel *k = call->k;
    struct dz_socket *s = call->s;
    const bool peek = flags & MSG_PEEK;
    uint64_t done = call->c->done, target = (flags & MSG_WAITALL) && total > 0 ? total : 1;
    struct dz_ucred cred = noted_cred(call->c);
    bool seen = done > 0, more = true;
    struct dz_message *msg = dz_k_message(k, s->head);
    while (more) {
        if (!msg && peek && done > 0)
            break;
        if (!msg) {
            if (done > 0)
                note_cred(call->c, &cred);
            int64_t r = dz_k_family(s->family)->dry(call, done, target);
            if (r == DZ_K_KEEP)
                break;
            if (r != DZ_KBLOCK && done > 0)
                tell(call, &cred, m, got);
            return r;
        }
        if (seen && (s->options & DZ_SOCKET_PASSCRED) && !dz_k_same_cred(&cred, &msg->cred))
            break; /* do not mix bytes of two writers */
        cred = seen ? cred : msg->cred;
        seen = true;
        uint32_t n = (uint32_t)dz_k_min64(msg->len, total - done);
        if (!(flags & MSG_TRUNC))
            dz_k_pieces_put(m->iov, done,
                            (const uint8_t *)dz_k_blob(k, msg->blob, NULL) + msg->head, n);
        done += n;
        more = n == msg->len && msg->fd_count == 0 && done < total;
        give_control(call, msg, m, flags, got);
        if (peek) {
            msg = dz_k_message(k, msg->next);
            continue;
        }
        call->c->done = done;
        dz_k_message_eat(k, msg, n);
        if (msg->len == 0)
            dz_k_message_free(k, msg);
        msg = dz_k_message(k, s->head);
    }
    if (seen)
        tell(call, &cred, m, got);
    else /* end of the stream: Linux reports root, without a process */
        give_cred(s, &(struct dz_ucred){0}, m, got);
    return dz_k_end(k, call->p, (int64_t)done);
}

/* There is no message. */
static int64_t recv_none(const struct dz_k_sock_call *call)
{
    struct dz_socket *s = call->s;
    if ((s->shut & DZ_SOCKET_SHUT_RD) && (!call->nonblock || s->type != SOCK_DGRAM))
        return dz_k_sock_end(call, 0);
    return dz_k_sock_wait(call, &s->wait_r);
}

int64_t dz_k_recv_datagram(const struct dz_k_sock_call *call, const struct dz_msg *m, size_t total,
                           int flags, struct dz_msg_got *got)
{
    struct dz_kernel *k = call->k;
    struct dz_socket *s = call->s;
    int e = dz_k_sock_error(s);
    struct dz_message *msg = dz_k_message(k, s->head);
    if (e || !msg)
        return e ? dz_k_sock_end(call, e) : recv_none(call);
    uint32_t n = (uint32_t)dz_k_min64(msg->len, total), len = msg->len;
    if (n > 0)
        dz_k_pieces_put(m->iov, 0, (const uint8_t *)dz_k_blob(k, msg->blob, NULL) + msg->head, n);
    got->flags |= n < len ? (uint32_t)MSG_TRUNC : 0;
    dz_k_family(s->family)->from(call, msg, got);
    give_cred(s, &msg->cred, m, got);
    give_control(call, msg, m, flags, got);
    if (!(flags & MSG_PEEK)) {
        dz_k_message_free(k, msg);
        dz_k_family(s->family)->taken(k, s);
    }
    return dz_k_end(k, call->p, flags & MSG_TRUNC ? len : n);
}

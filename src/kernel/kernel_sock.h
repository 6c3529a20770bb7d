/* SPDX-License-Identifier: MIT
 *
 * kernel_sock.h - shared by the files of sockets.
 *
 *   kernel_sock.c         calls that all families have; the description
 *   kernel_sock_opt.c     options
 *   kernel_sock_recv.c    reading the queue of a socket
 *   kernel_sock_unix.c    AF_UNIX: names, connections, sending
 *   kernel_sock_inet.c    AF_INET and AF_INET6: TCP, UDP
 *   kernel_sock_addr.c    addresses and ports of the net
 *   kernel_sock_outside.c TCP connections to the outside
 *   kernel_sock_netlink.c AF_NETLINK: the interface and its addresses
 *   kernel_net.c          the same by ioctl and in /proc/net
 *   kernel_sock_flight.c  queues of messages, and the descriptors that are in them
 *   kernel_sock_save.c    checks and restores the rows of a saved machine
 */
#ifndef DZ_KERNEL_KERNEL_SOCK_H
#define DZ_KERNEL_KERNEL_SOCK_H

#include "kernel/kernel_int.h"

#include <sys/socket.h>

static inline struct dz_socket *dz_k_socket(const struct dz_kernel *k, uint32_t index)
{
    return dz_k_row(&k->tab[DZ_KERNEL_TABLE_SOCKET], index);
}
static inline struct dz_message *dz_k_message(const struct dz_kernel *k, uint32_t index)
{
    return dz_k_row(&k->tab[DZ_KERNEL_TABLE_MESSAGE], index);
}

/* A call on a socket in progress. */
struct dz_k_sock_call {
    struct dz_kernel *k;
    struct dz_proc *p;
    struct dz_call *c;
    struct dz_file *f;
    struct dz_socket *s;
    bool again;    /* it was parked */
    bool nonblock; /* O_NONBLOCK, MSG_DONTWAIT */
};

enum dz_k_name { /* whose name */
    DZ_K_NAME_OWN,
    DZ_K_NAME_PEER,     /* of the other end, while there is one */
    DZ_K_NAME_ACCEPTED, /* of the other end, gone or not */
};
enum {
    DZ_K_KEEP = -0x10020, /* no errno, no DZ_K* */
};

/* The operations of a family. A function that may wait ends the call (dz_k_end) or returns
 * DZ_KBLOCK; all others return 0 or -errno. */
struct dz_k_family {
    uint32_t family;
    uint32_t caps; /* DZ_CAP_* that a machine needs */
    /* Checks the type and the protocol; both may become others. */
    int (*create)(int *type, int *protocol);
    int (*pair)(struct dz_kernel *k, struct dz_proc *p, struct dz_socket *const ends[2]);
    int (*bind)(const struct dz_k_sock_call *call, const struct dz_sockaddr *to);
    int (*listen)(const struct dz_k_sock_call *call, uint32_t backlog);
    void (*accepted)(struct dz_kernel *k, struct dz_socket *listener); /* it has left the queue */
    int64_t (*connect)(const struct dz_k_sock_call *call, const struct dz_sockaddr *to);
    int (*shutdown)(const struct dz_k_sock_call *call, uint32_t how);
    /* -ENOTCONN. */
    int (*name)(const struct dz_kernel *k, const struct dz_socket *s, enum dz_k_name which,
                struct dz_sockaddr *ret_name);
    int64_t (*send)(const struct dz_k_sock_call *call, const struct dz_msg *m, size_t total,
                    int flags);
    int64_t (*recv)(const struct dz_k_sock_call *call, const struct dz_msg *m, size_t total,
                    int flags, struct dz_msg_got *got);
    /* kernel_sock_recv.c. dry: the result, DZ_KBLOCK, or DZ_K_KEEP: the bytes read so far. */
    void (*from)(const struct dz_k_sock_call *call, const struct dz_message *msg,
                 struct dz_msg_got *got);
    void (*taken)(struct dz_kernel *k, struct dz_socket *s);
    int64_t (*dry)(const struct dz_k_sock_call *call, uint64_t done, uint64_t target);
    short (*ready)(const struct dz_kernel *k, const struct dz_socket *s);
    int64_t (*waiting)(const struct dz_kernel *k, const struct dz_socket *s); /* FIONREAD */
    int64_t (*unsent)(const struct dz_kernel *k, const struct dz_socket *s);  /* TIOCOUTQ */
    void (*close)(struct dz_kernel *k, struct dz_socket *s); /* its description is gone */
};
extern const struct dz_k_family dz_k_unix, dz_k_inet, dz_k_inet6, dz_k_netlink;
const struct dz_k_family *dz_k_family(uint32_t family); /* NULL: unknown family */

/* A row to which its creator must refer. NULL: no room. */
struct dz_socket *dz_k_sock_new(struct dz_kernel *k, uint32_t family, uint32_t type);
/* A new socket at the end of a listener's queue. NULL: no room. */
struct dz_socket *dz_k_sock_incoming(struct dz_kernel *k, struct dz_socket *listener);
/* One end of a connection. */
static inline void dz_k_sock_attach(struct dz_socket *s, struct dz_socket *peer)
{
    s->peer = peer->index;
    s->state = DZ_SOCKET_CONNECTED;
    peer->refs++;
}
/* One more connection than the backlog may wait, as on Linux. */
static inline bool dz_k_sock_backlogged(const struct dz_socket *listener)
{
    return listener->count > listener->backlog;
}
void dz_k_sock_unref(struct dz_kernel *k, struct dz_socket *s);
void dz_k_sock_wake(struct dz_kernel *k, const struct dz_socket *s); /* all of its watchers */
int dz_k_sock_error(struct dz_socket *s);                            /* 0 or -errno, once */
/* Begin the call: 0, or the error with which it has ended. */
int dz_k_sock_begin(struct dz_k_sock_call *call, struct dz_kernel *k, struct dz_proc *p, int fd);
/* Wait for the transfer: until its timeout or a signal, or not at all if it is non-blocking. */
int64_t dz_k_sock_wait(const struct dz_k_sock_call *call, uint32_t *queue);
/* End the call with the number of bytes that it moved, or with r. */
int64_t dz_k_sock_end(const struct dz_k_sock_call *call, int64_t r);
/* The same with EPIPE, and SIGPIPE if no byte was sent. */
int64_t dz_k_broken_pipe(const struct dz_k_sock_call *call, int flags);
/* read(2) and write(2). */
int64_t dz_k_sock_read(struct dz_kernel *k, struct dz_proc *p, int fd, const struct iovec *iov,
                       size_t n);
int64_t dz_k_sock_write(struct dz_kernel *k, struct dz_proc *p, int fd, const struct iovec *iov,
                        size_t n);

struct dz_buf;
/* /proc/net/unix; `of` does not matter. */
void dz_k_sock_text(struct dz_kernel *k, const struct dz_proc *of, struct dz_buf *out);

/* ---- reading: kernel_sock_recv.c ------------------------------------------- */

/* FIONREAD: the bytes in the queue of a stream, or of the first datagram. */
int64_t dz_k_sock_waiting(const struct dz_kernel *k, const struct dz_socket *s);
int64_t dz_k_recv_stream(const struct dz_k_sock_call *call, const struct dz_msg *m, size_t total,
                         int flags, struct dz_msg_got *got);
int64_t dz_k_recv_datagram(const struct dz_k_sock_call *call, const struct dz_msg *m, size_t total,
                           int flags, struct dz_msg_got *got);

/* ---- the net: kernel_sock_addr.c ------------------------------------------- */

static inline bool dz_k_is_inet(const struct dz_socket *s)
{
    return s->family == AF_INET || s->family == AF_INET6;
}
static inline bool dz_k_is_v4(const struct dz_inet *a)
{
    return a->hi == 0 && a->lo >> 32 == 0xffff;
}
static inline struct dz_inet dz_k_inet_any(uint32_t family)
{
    return (struct dz_inet){.lo = family == AF_INET ? UINT64_C(0xffff) << 32 : 0};
}
bool dz_k_inet_is_any(const struct dz_inet *a);
bool dz_k_inet_same(const struct dz_inet *a, const struct dz_inet *b); /* but for the port */
bool dz_k_inet_is_local(const struct dz_inet *a);
/* From and to a socket address of this family. -EINVAL, -EAFNOSUPPORT. */
int dz_k_inet_get(uint32_t family, const struct dz_sockaddr *from, struct dz_inet *ret_addr);
void dz_k_inet_put(uint32_t family, const struct dz_inet *from, struct dz_sockaddr *ret_addr);
/* Turn 0.0.0.0 and :: into the own address, and choose the address to send from. -ENETUNREACH,
 * -EINVAL. */
int dz_k_inet_route(const struct dz_kernel *k, const struct dz_socket *s, struct dz_inet *to,
                    struct dz_inet *ret_from);
bool dz_k_inet_has_port(const struct dz_socket *s);
/* May s have this address and port? -EADDRINUSE. */
int dz_k_inet_conflict(const struct dz_kernel *k, const struct dz_socket *s,
                       const struct dz_inet *a);
uint32_t dz_k_inet_free_port(const struct dz_kernel *k, const struct dz_socket *s); /* 0: none */
/* The listener, or the receiver of a datagram; NULL: none. type: SOCK_STREAM, SOCK_DGRAM. */
struct dz_socket *dz_k_inet_find(const struct dz_kernel *k, uint32_t type,
                                 const struct dz_inet *from, const struct dz_inet *to);
bool dz_k_inet_ok(const struct dz_socket *s); /* a saved row */
/* Do both ends of a connection of TCP agree? */
bool dz_k_inet_pair_ok(const struct dz_socket *s, const struct dz_socket *peer);
/* A new socket in the listener's queue, for a connection between these ends. NULL: no room. */
struct dz_socket *dz_k_inet_accepted(struct dz_kernel *k, struct dz_socket *listener,
                                     const struct dz_inet *from, const struct dz_inet *to);
void dz_k_inet_finished(struct dz_kernel *k, struct dz_socket *s); /* the peer has sent its end */
void dz_k_inet_lost(struct dz_kernel *k, struct dz_socket *s, int error);

/* ---- the outside: kernel_sock_outside.c ------------------------------------ */

bool dz_k_outside_reaches(const struct dz_kernel *k, const struct dz_inet *to);
/* Give s a channel, and connect it. -errno: refused. */
int dz_k_outside_open(struct dz_kernel *k, struct dz_socket *s);
/* The rest is for sockets with a channel; close also for others. */
void dz_k_outside_close(struct dz_kernel *k, struct dz_socket *s, bool abort);
void dz_k_outside_finish(struct dz_kernel *k, const struct dz_socket *s);
short dz_k_outside_ready(const struct dz_kernel *k, const struct dz_socket *s);
int64_t dz_k_outside_waiting(const struct dz_kernel *k, const struct dz_socket *s);
int64_t dz_k_outside_recv(const struct dz_k_sock_call *call, const struct dz_msg *m, size_t total,
                          int flags);
int64_t dz_k_outside_send(const struct dz_k_sock_call *call, const struct dz_msg *m, size_t total,
                          int flags);
struct dz_k_parcel;
/* A datagram that no socket receives: true, if it was a query to the name server. */
bool dz_k_outside_query(struct dz_kernel *k, const struct dz_socket *s, const struct dz_inet *to,
                        const struct dz_k_parcel *what);
void dz_k_outside_listening(struct dz_kernel *k); /* ports have changed, or a queue has room */
void dz_k_outside_revived(struct dz_kernel *k);   /* at the end of a thaw */

/* ---- what programs may learn: kernel_net.c --------------------------------- */

enum {
    DZ_K_NET_LINKS = 2,
    DZ_K_NET_QUEUE = 1000,
};
/* An interface: lo, and eth0 if the machine has an address outside (dz_net_ops.own4). */
struct dz_k_link {
    const char *name;
    uint32_t number, flags, mtu;
    uint16_t type; /* ARPHRD_* */
    uint8_t mac[6];
    uint32_t address; /* of IPv4, */
    uint32_t prefix;  /* and the bits of its network */
    bool six;         /* it has an address of IPv6, ::1 */
};
/* Returns how many there are. */
size_t dz_k_net_links(const struct dz_kernel *k, struct dz_k_link ret[static DZ_K_NET_LINKS]);
/* SIOCGIF* and SIOCSIF*, with a struct ifreq. -ENODEV, -EPERM, -ENOTTY. */
int64_t dz_k_net_ioctl(const struct dz_kernel *k, const struct dz_socket *s, uint32_t req,
                       void *arg);

/* ---- options: kernel_sock_opt.c -------------------------------------------- */

bool dz_k_sock_values_ok(const struct dz_socket *s); /* a saved row */

/* ---- messages: kernel_sock_flight.c ---------------------------------------- */

/* The content of one message. */
struct dz_k_parcel {
    const struct iovec *iov;
    size_t iov_count, skip, size; /* bytes [skip, skip + size) of the pieces */
    const int *fds;               /* p's, looked at already */
    size_t fd_count;
    struct dz_ucred cred;
};
extern const struct dz_ucred dz_k_nobody;
static inline bool dz_k_same_cred(const struct dz_ucred *a, const struct dz_ucred *b)
{
    return a->pid == b->pid && a->uid == b->uid && a->gid == b->gid;
}
/* Copy bytes [skip, skip + n) of the pieces to flat, or back. */
void dz_k_pieces_get(const struct iovec *iov, size_t skip, uint8_t *flat, size_t n);
void dz_k_pieces_put(const struct iovec *iov, size_t skip, const uint8_t *flat, size_t n);
/* May p send these descriptors? -EINVAL, -EBADF, -ETOOMANYREFS. */
int dz_k_fds_check(const struct dz_kernel *k, const struct dz_proc *p, const int *fds, size_t n);
/* Append to the queue of `to`. stream: bytes may be added to the last message. -ENOBUFS. */
int dz_k_message_put(struct dz_kernel *k, const struct dz_proc *p, struct dz_socket *from,
                     struct dz_socket *to, const struct dz_k_parcel *what);
/* n bytes of the first message were read. */
void dz_k_message_eat(struct dz_kernel *k, struct dz_message *m, uint32_t n);
/* Install the message's descriptors in p, as many as fit; returns whether all did. */
bool dz_k_message_fds(struct dz_kernel *k, struct dz_proc *p, const struct dz_message *m,
                      const struct dz_msg *to, int flags, struct dz_msg_got *got);
void dz_k_message_drop_fds(struct dz_kernel *k, struct dz_message *m);
void dz_k_message_free(struct dz_kernel *k, struct dz_message *m); /* the first of its queue */
void dz_k_queue_purge(struct dz_kernel *k, struct dz_socket *s);   /* all messages */
/* Call this after messages, or a reference to the description of a socket, were dropped. */
void dz_k_sock_settle(struct dz_kernel *k);
void dz_k_sock_left(struct dz_kernel *k, const struct dz_file *f); /* one reference less */

/* ---- restoring: kernel_sock_save.c ----------------------------------------- */

int dz_k_sock_check(struct dz_kernel *k, struct dz_err *err);  /* checks each row alone */
int dz_k_sock_revive(struct dz_kernel *k, struct dz_err *err); /* before files are counted */
void dz_k_sock_revived(struct dz_kernel *k);                   /* at the end of a thaw */

#endif

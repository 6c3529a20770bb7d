/* SPDX-License-Identifier: MIT
 *
 * native_net.c - sockets of the net over loopback: each call, flag, option, error, order of closing
 * and event of poll. It prints a line for each case: its result, or the name of its error.
 * t_native_net compares the lines of a sandbox with those of this machine.
 *
 * No line has a port or a descriptor. What arrives late on Linux is waited for by poll.
 */
#include "native_net.h"

/* ---- creation -------------------------------------------------------------------------------- */

static void creates(void)
{
    static const struct {
        int family, type, protocol;
    } kinds[] = {
        {AF_INET, SOCK_STREAM, 0},
        {AF_INET, SOCK_STREAM, IPPROTO_TCP},
        {AF_INET, SOCK_STREAM, IPPROTO_UDP},
        {AF_INET, SOCK_STREAM, IPPROTO_ICMP},
        {AF_INET, SOCK_DGRAM, 0},
        {AF_INET, SOCK_DGRAM, IPPROTO_UDP},
        {AF_INET, SOCK_DGRAM, IPPROTO_TCP},
        {AF_INET6, SOCK_STREAM, 0},
        {AF_INET6, SOCK_DGRAM, 0},
        {AF_INET6, SOCK_DGRAM, IPPROTO_TCP},
        {AF_INET, SOCK_SEQPACKET, 0},
        {AF_INET, SOCK_RDM, 0},
        {AF_INET, SOCK_RAW, 0},
        {AF_INET, SOCK_STREAM, -1},
        {AF_INET, SOCK_STREAM, 4000},
        {AF_INET, 0, 0},
        {AF_INET, 12, 0},
        {AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0},
        {AF_INET, SOCK_STREAM | 0x100, 0},
    };
    char what[40];
    int pair[2];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        (void)snprintf(what, sizeof what, "socket %zu", i);
        const int fd = FD(what, socket(kinds[i].family, kinds[i].type, kinds[i].protocol));
        if (fd >= 0) {
            T("  type", get(fd, SOL_SOCKET, SO_TYPE));
            T("  domain", get(fd, SOL_SOCKET, SO_DOMAIN));
            T("  protocol", get(fd, SOL_SOCKET, SO_PROTOCOL));
            T("  flags", fcntl(fd, F_GETFL));
            T("  close on exec", fcntl(fd, F_GETFD));
            events("  events", fd);
            close(fd);
        }
    }
    T("socketpair of the net", socketpair(AF_INET, SOCK_STREAM, 0, pair));
    const int fd = tcp();
    struct stat st;
    T("fstat", fstat(fd, &st));
    T("is a socket", S_ISSOCK(st.st_mode));
    T("lseek", lseek(fd, 0, SEEK_SET));
    T("fsync", fsync(fd));
    T("ftruncate", ftruncate(fd, 0));
    close(fd);
}

/* ---- names -------------------------------------------------------------------------------------
 */

static void binds(void)
{
    const int fd = tcp();
    union name n = v4("127.0.0.1", 0), got;
    tell_own("unbound name", fd, false);
    tell_own("unbound peer", fd, true);
    T("bind, 2 bytes", bind(fd, &n.any, 2));
    T("bind, 15 bytes", bind(fd, &n.any, 15));
    T("bind, 200 bytes", bind(fd, &n.any, 200));
    T("bind, no address", bind(fd, NULL, 16));
    T("bind to IPv6", name_it(fd, v6("::1", 0)));
    n.any.sa_family = AF_UNIX;
    T("bind, wrong family", bind(fd, &n.any, sizeof n.v4));
    n.any.sa_family = AF_UNSPEC;
    T("bind, no family, an address", bind(fd, &n.any, sizeof n.v4));
    T("bind to another machine's", name_it(fd, v4("192.0.2.1", 0)));
    T("bind", name_it(fd, v4("127.0.0.1", 0)));
    tell_own("bound name", fd, false);
    tell_own("bound peer", fd, true);
    T("bind again", name_it(fd, v4("127.0.0.1", 0)));
    events("bound", fd);
    const int other = tcp();
    T("bind to a used port", name_it(other, v4("127.0.0.1", port_of(fd))));
    T("bind to a used port of any", name_it(other, v4("0.0.0.0", port_of(fd))));
    T("bind to the port of another address", name_it(other, v4("127.0.0.2", port_of(fd))));
    tell_own("another address", other, false);
    const int u = udp();
    T("the same port of UDP", name_it(u, v4("127.0.0.1", port_of(fd))));
    socklen_t size = 6;
    memset(&got, 0, sizeof got);
    T("getsockname, 6 bytes", getsockname(fd, &got.any, &size));
    T("  size", size);
    T("  family", got.any.sa_family);
    size = (socklen_t)-1;
    T("getsockname, -1 bytes", getsockname(fd, &got.any, &size));
    size = sizeof got;
    T("getsockname, no address", getsockname(fd, NULL, &size));
    T("getsockname, no size", getsockname(fd, &got.any, NULL));
    close(u);
    close(other);
    close(fd);
    const int any = tcp();
    n = v4("0.0.0.0", 0);
    n.any.sa_family = AF_UNSPEC;
    T("bind, no family, no address", bind(any, &n.any, sizeof n.v4));
    tell_own("any", any, false);
    close(any);
    const int six = socket(AF_INET6, SOCK_STREAM, 0);
    tell_own("unbound IPv6", six, false);
    n = v6("::1", 0);
    T("bind IPv6, 16 bytes", bind(six, &n.any, 16));
    T("bind IPv6, 24 bytes", bind(six, &n.any, 24));
    tell_own("bound IPv6", six, false);
    close(six);
    const int more = socket(AF_INET6, SOCK_STREAM, 0);
    T("bind IPv6 to IPv4", name_it(more, v4("127.0.0.1", 0)));
    T("bind IPv6 to a group", name_it(more, v6("ff02::1", 0)));
    T("bind IPv6 to another machine's", name_it(more, v6("2001:db8::1", 0)));
    T("only IPv6", set(more, IPPROTO_IPV6, IPV6_V6ONLY, 1));
    T("bind IPv6 only to a mapped address", name_it(more, v6("::ffff:127.0.0.1", 0)));
    T("not only IPv6", set(more, IPPROTO_IPV6, IPV6_V6ONLY, 0));
    T("bind IPv6 to a mapped address", name_it(more, v6("::ffff:127.0.0.1", 0)));
    T("only IPv6, late", set(more, IPPROTO_IPV6, IPV6_V6ONLY, 1));
    tell_own("mapped name", more, false);
    close(more);
}

/* Two sockets at one port: may the second be bound, and listen? */
static void shares(void)
{
    static const struct {
        const char *what;
        int first, second; /* options: 1 REUSEADDR, 2 REUSEPORT */
        bool listens;
    } ways[] = {
        {"no option", 0, 0, false},
        {"reuse the address", 1, 1, false},
        {"reuse the address, the first only", 1, 0, false},
        {"reuse the address of a listener", 1, 1, true},
        {"reuse the port", 2, 2, false},
        {"reuse the port of a listener", 2, 2, true},
        {"reuse the port, the second only", 0, 2, true},
    };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
            const int a = socket(AF_INET, type, 0), b = socket(AF_INET, type, 0);
            set(a, SOL_SOCKET, SO_REUSEADDR, ways[i].first & 1);
            set(b, SOL_SOCKET, SO_REUSEADDR, ways[i].second & 1);
            set(a, SOL_SOCKET, SO_REUSEPORT, ways[i].first >> 1);
            set(b, SOL_SOCKET, SO_REUSEPORT, ways[i].second >> 1);
            (void)!name_it(a, v4("127.0.0.1", 0));
            if (ways[i].listens)
                (void)!listen(a, 1);
            T(ways[i].what, name_it(b, v4("127.0.0.1", port_of(a))));
            T("  and any", name_it(b, v4("0.0.0.0", port_of(a))));
            T("  and listen", listen(b, 1));
            close(a);
            close(b);
        }
    const int four = tcp(), six = socket(AF_INET6, SOCK_STREAM, 0);
    (void)!name_it(four, v4("0.0.0.0", 0));
    T("IPv6 at a port of IPv4", name_it(six, v6("::", port_of(four))));
    set(six, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    T("only IPv6 at a port of IPv4", name_it(six, v6("::", port_of(four))));
    close(four);
    close(six);
}

/* ---- connections
 * --------------------------------------------------------------------------------- */

static void connects(void)
{
    const int l = listener(v4("127.0.0.1", 0)), c = tcp();
    union name n = v4("127.0.0.1", port_of(l)), from = {0};
    socklen_t size = sizeof from;
    events("listening", l);
    T("accepts", get(l, SOL_SOCKET, SO_ACCEPTCONN));
    T("connect a listener", reach(l, n));
    T("recv of a listener", recv(l, &from, 1, MSG_DONTWAIT));
    T("send of a listener", send(l, "x", 1, MSG_NOSIGNAL));
    T("connect, 1 byte", connect(c, &n.any, 1));
    T("connect, 8 bytes", connect(c, &n.any, 8));
    T("connect, no address", connect(c, NULL, 16));
    T("connect to IPv6", reach(c, v6("::1", 1)));
    T("connect to nobody", reach(c, v4("127.0.0.1", 1)));
    pending("  error", c);
    events("  events", c);
    T("connect to port 0", reach(c, v4("127.0.0.1", 0)));
    T("accept nothing", fcntl(l, F_SETFL, O_NONBLOCK) < 0 ? -2 : accept(l, NULL, NULL));
    T("connect", reach(c, n));
    events("connected", c);
    until("one waits", l, POLLIN);
    T("connect again", reach(c, n));
    T("listen while connected", listen(c, 1));
    T("bind while connected", name_it(c, v4("127.0.0.1", 0)));
    tell_own("client's name", c, false);
    tell_own("client's peer", c, true);
    T("accept4, bad flags", accept4(l, NULL, NULL, 1));
    const int s = FD("accept4", accept4(l, &from.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    tell_name("accepted from", &from, size);
    T("from the client's port", ntohs(from.v4.sin_port) == port_of(c));
    T("  flags", fcntl(s, F_GETFL));
    T("  close on exec", fcntl(s, F_GETFD));
    tell_own("server's name", s, false);
    tell_own("server's peer", s, true);
    T("same port", port_of(s) == port_of(l));
    T("accept of a connection", accept(c, NULL, NULL));
    T("accept of a datagram socket", accept(udp(), NULL, NULL));
    events("server's end", s);
    T("listen again", listen(l, 0));
    close(s);
    close(c);
    close(l);
    const int early = tcp();
    T("listen, unbound", listen(early, 3));
    T("  has a port", port_of(early) != 0);
    tell_own("  name", early, false);
    close(early);
    T("listen of UDP", listen(udp(), 1));
    T("listen, closed", listen(early, 1));
    T("connect of a file", connect(open("/dev/null", O_RDONLY), &n.any, sizeof n.v4));
}

static void connects_later(void)
{
    const int l = listener(v4("127.0.0.1", 0));
    const union name n = v4("127.0.0.1", port_of(l));
    int c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    T("non-blocking connect", reach(c, n));
    until("  events", c, POLLOUT);
    pending("  error", c);
    T("  send", send(c, "x", 1, 0));
    T("  second connect", reach(c, n));
    T("  third connect", reach(c, n));
    close(c);
    c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    T("refused connect", reach(c, v4("127.0.0.1", 1)));
    until("  events", c, POLLOUT);
    tell_own("  peer", c, true);
    pending("  error", c);
    pending("  error again", c);
    events("  events after", c);
    T("  second connect", reach(c, n));
    T("  third connect", reach(c, n));
    until("  events", c, POLLOUT);
    close(c);
    c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    (void)!reach(c, v4("127.0.0.1", 1));
    await(c, POLLOUT);
    T("second connect tells the error", reach(c, n));
    T("  and the next begins", reach(c, n));
    close(c);
    c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    (void)!reach(c, v4("127.0.0.1", 1));
    await(c, POLLOUT);
    T("send tells the error", send(c, "x", 1, MSG_NOSIGNAL));
    T("  and then", send(c, "x", 1, MSG_NOSIGNAL));
    T("  recv", recv(c, &c + 1, 1, 0));
    close(c);
    close(l);
}

/* The queue of a listener is full: a client waits until there is room. */
static void waits_in_line(void)
{
    const int l = tcp();
    (void)!name_it(l, v4("127.0.0.1", 0));
    (void)!listen(l, 0);
    const union name n = v4("127.0.0.1", port_of(l));
    const int a = tcp(), b = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    T("first in the queue", reach(a, n));
    T("second", reach(b, n));
    events("  events", b);
    T("  again", reach(b, n));
    T("  send", send(b, "x", 1, MSG_NOSIGNAL));
    T("  recv", recv(b, &(char){0}, 1, 0));
    tell_own("  peer", b, true);
    close(FD("accept", accept(l, NULL, NULL)));
    until("  is connected", b, POLLOUT);
    T("  again", reach(b, n));
    const int d = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    (void)!reach(d, n);
    T("shutdown while it waits", shutdown(d, SHUT_RDWR));
    pending("  error", d);
    close(a);
    close(b);
    close(d);
    close(l);
}

/* ---- ends
 * ------------------------------------------------------------------------------------------ */

static void shuts(void)
{
    int e[2];
    joined(e);
    T("shutdown, bad", shutdown(e[0], 7));
    T("shutdown, -1", shutdown(e[0], -1));
    T("shutdown of a new socket", shutdown(tcp(), SHUT_RDWR));
    T("shutdown of UDP", shutdown(udp(), SHUT_RD));
    T("write", send(e[0], "last", 4, 0));
    T("shut writing", shutdown(e[0], SHUT_WR));
    events("  own events", e[0]);
    until("  other's events", e[1], POLLRDHUP);
    T("  send", send(e[0], "x", 1, MSG_NOSIGNAL));
    tell_read("  other reads", e[1], 0);
    tell_read("  other reads the end", e[1], 0);
    T("  other sends", send(e[1], "back", 4, 0));
    await(e[0], POLLIN);
    tell_read("  reads", e[0], 0);
    T("  other shuts", shutdown(e[1], SHUT_WR));
    until("  own events after", e[0], POLLHUP);
    until("  other's events after", e[1], POLLHUP);
    tell_own("  peer", e[0], true);
    T("  shutdown again", shutdown(e[0], SHUT_WR));
    tell_read("  reads the end", e[0], 0);
    T("  send at the end", send(e[0], "x", 1, MSG_NOSIGNAL));
    pending("  error", e[0]);
    close_both(e);

    joined(e);
    T("shut reading", shutdown(e[0], SHUT_RD));
    events("  own events", e[0]);
    events("  other's events", e[1]);
    tell_read("  reads the end", e[0], 0);
    T("  other sends", send(e[1], "more", 4, 0));
    await(e[0], POLLIN);
    tell_read("  reads it", e[0], 0);
    T("  sends", send(e[0], "x", 1, 0));
    close_both(e);

    joined(e);
    T("shut both", shutdown(e[0], SHUT_RDWR));
    events("  own events", e[0]);
    until("  other's events", e[1], POLLRDHUP);
    T("  other sends", send(e[1], "lost", 4, MSG_NOSIGNAL));
    until("  other's events after", e[1], POLLHUP);
    pending("  other's error", e[1]);
    until("  own events after", e[0], POLLERR);
    T("  other sends again", send(e[1], "lost", 4, MSG_NOSIGNAL));
    close_both(e);

    const int l = listener(v4("127.0.0.1", 0)), c = tcp();
    (void)!reach(c, v4("127.0.0.1", port_of(l)));
    T("shut a listener's writing", shutdown(l, SHUT_WR));
    events("  events", l);
    T("shut a listener", shutdown(l, SHUT_RD));
    events("  events", l);
    T("  accept", accept(l, NULL, NULL));
    until("  a waiting client", c, POLLHUP);
    pending("  its error", c);
    close(c);
    close(l);
}

static void closes(void)
{
    int e[2];
    joined(e);
    (void)!send(e[0], "abc", 3, 0);
    close(e[0]);
    until("closed by the other", e[1], POLLRDHUP);
    tell_own("  peer", e[1], true);
    tell_read("  reads", e[1], 0);
    tell_read("  reads the end", e[1], 0);
    T("  sends", send(e[1], "x", 1, MSG_NOSIGNAL));
    until("  events", e[1], POLLERR);
    T("  sends again", send(e[1], "x", 1, MSG_NOSIGNAL));
    pending("  error", e[1]);
    tell_read("  reads again", e[1], 0);
    close(e[1]);

    static char much[1 << 20];
    const int small = 4096;
    joined(e);
    setsockopt(e[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    close(e[0]);
    until("closed before much is sent", e[1], POLLRDHUP);
    const ssize_t part = send(e[1], much, sizeof much, MSG_DONTWAIT | MSG_NOSIGNAL);
    T("  sends a part", part > 0 && part < (ssize_t)sizeof much);
    close(e[1]);

    joined(e);
    (void)!send(e[1], "unread", 6, 0);
    await(e[0], POLLIN);
    (void)!send(e[0], "to be read", 10, 0);
    await(e[1], POLLIN);
    close(e[0]);
    until("closed with unread bytes", e[1], POLLERR);
    tell_own("  peer", e[1], true);
    tell_read("  reads", e[1], MSG_PEEK);
    tell_read("  reads", e[1], 0);
    tell_read("  reads the error", e[1], 0);
    tell_read("  reads the end", e[1], 0);
    T("  sends", send(e[1], "x", 1, MSG_NOSIGNAL));
    close(e[1]);

    joined(e);
    const struct linger now = {1, 0};
    T("linger 0", setsockopt(e[0], SOL_SOCKET, SO_LINGER, &now, sizeof now));
    close(e[0]);
    until("reset", e[1], POLLERR);
    pending("  error", e[1]);
    tell_read("  reads", e[1], 0);
    T("  sends", send(e[1], "x", 1, MSG_NOSIGNAL));
    T("  connects", reach(e[1], v4("127.0.0.1", 1)));
    T("  shuts", shutdown(e[1], SHUT_WR));
    close(e[1]);

    joined(e);
    const union name none = {.any = {.sa_family = AF_UNSPEC}};
    T("disconnect", connect(e[0], &none.any, sizeof none.any));
    events("  events", e[0]);
    pending("  error", e[0]);
    tell_own("  name", e[0], false);
    tell_own("  peer", e[0], true);
    until("  other's events", e[1], POLLERR);
    tell_read("  other reads", e[1], 0);
    const int l = listener(v4("127.0.0.1", 0));
    T("  connects again", reach(e[0], v4("127.0.0.1", port_of(l))));
    close_both(e);

    const int c = tcp();
    (void)!reach(c, v4("127.0.0.1", port_of(l)));
    close(l);
    until("a listener closes", c, POLLERR);
    tell_read("  its client reads", c, 0);
    close(c);

    const int l2 = listener(v4("127.0.0.1", 0)), c2 = tcp();
    (void)!reach(c2, v4("127.0.0.1", port_of(l2)));
    setsockopt(c2, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    await(l2, POLLIN);
    close(c2);
    const int s = FD("accept what was reset", accept(l2, NULL, NULL));
    until("  events", s, POLLERR);
    tell_read("  reads", s, 0);
    close(s);
    close(l2);

    pipes = 0;
    joined(e);
    shutdown(e[0], SHUT_WR);
    T("SIGPIPE", send(e[0], "x", 1, 0));
    T("  caught", pipes);
    T("  write", write(e[0], "x", 1));
    T("  caught", pipes);
    T("  send, no signal", send(e[0], "x", 1, MSG_NOSIGNAL));
    T("  caught", pipes);
    T("  send nothing", send(e[0], "", 0, MSG_NOSIGNAL));
    T("new socket sends", send(tcp(), "x", 1, 0));
    T("  caught", pipes);
    T("new socket receives", recv(tcp(), e, 1, 0));
    close_both(e);
}

/* ---- bytes
 * ------------------------------------------------------------------------------------------- */

static void moves(void)
{
    int e[2], n = 0;
    char b[16];
    joined(e);
    T("recv nothing", recv(e[0], b, 1, MSG_DONTWAIT));
    T("send nothing", send(e[0], b, 0, 0));
    T("send", send(e[0], "hello", 5, 0));
    until("  events", e[1], POLLIN);
    T("  FIONREAD", ioctl(e[1], FIONREAD, &n) < 0 ? -1 : n);
    T("  TIOCOUTQ", ioctl(e[0], TIOCOUTQ, &n) < 0 ? -1 : n);
    T("  FIONREAD of a listener", ioctl(listener(v4("127.0.0.1", 0)), FIONREAD, &n));
    tell_read("  peek", e[1], MSG_PEEK);
    T("  recv 2", recv(e[1], b, 2, 0));
    T("  recv 0", recv(e[1], b, 0, 0));
    T("  send with a name", send_to(e[0], "!", 1, 0, v4("1.2.3.4", 5)));
    await(e[1], POLLIN);
    tell_read("  all", e[1], MSG_WAITALL | MSG_DONTWAIT);
    memset(b, 'z', sizeof b);
    (void)!send(e[0], "skipped", 7, 0);
    await(e[1], POLLIN);
    T("recv, truncated", recv(e[1], b, 5, MSG_TRUNC));
    T("  buffer", b[0]);
    tell_read("  rest", e[1], 0);
    T("recv of urgent data", recv(e[1], b, 1, MSG_OOB));
    T("recv of errors", recv(e[1], b, 1, MSG_ERRQUEUE));
    T("recv to nowhere", recv(e[1], NULL, 4, MSG_DONTWAIT));
    (void)!send(e[0], "kept", 4, 0);
    await(e[1], POLLIN);
    T("recv to nowhere, bytes", recv(e[1], (void *)1, 4, MSG_DONTWAIT));
    tell_read("  kept", e[1], 0);
    T("send from nowhere", send(e[0], (void *)1, 4, 0));
    union name from = {0};
    socklen_t size = sizeof from;
    (void)!send(e[0], "named", 5, 0);
    await(e[1], POLLIN);
    T("recvfrom", recvfrom(e[1], b, sizeof b, 0, &from.any, &size));
    T("  size of the name", size);
    struct iovec iov[3] = {{(void *)(uintptr_t)"ab", 2}, {NULL, 0}, {(void *)(uintptr_t)"cde", 3}};
    T("writev", writev(e[0], iov, 3));
    await(e[1], POLLIN);
    struct iovec to[2] = {{b, 1}, {b + 8, 4}};
    struct msghdr h = {
        .msg_iov = to, .msg_iovlen = 2, .msg_name = &from, .msg_namelen = sizeof from};
    T("recvmsg", recvmsg(e[1], &h, 0));
    T("  flags", h.msg_flags);
    T("  name", h.msg_namelen);
    T("  bytes", b[0] == 'a' && b[8] == 'b' && b[11] == 'e');
    h.msg_iovlen = 2000;
    T("recvmsg, too many pieces", recvmsg(e[1], &h, 0));
    h.msg_iovlen = 1;
    h.msg_namelen = (socklen_t)-1;
    T("recvmsg, -1 bytes of name", recvmsg(e[1], &h, MSG_DONTWAIT));
    T("sendmsg, no header", syscall(46, e[0], NULL, 0));
    const struct timeval soon = {0, 20000};
    T("a timeout", setsockopt(e[1], SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon));
    T("  recv", recv(e[1], b, 1, 0));
    (void)!send(e[0], "part", 4, 0);
    T("  recv of all", recv(e[1], b, 9, MSG_WAITALL));
    close_both(e);
}

/* A writer is stopped, and goes on when a quarter is left. */
static void fills(void)
{
    int e[2];
    joined(e);
    fcntl(e[0], F_SETFL, O_NONBLOCK);
    static char big[65536];
    long sent = 0, got = 0;
    for (ssize_t r; (r = send(e[0], big, sizeof big, 0)) > 0;)
        sent += r;
    T("full", errno == EAGAIN);
    T("  more than 64 KiB", sent > 65536);
    struct pollfd p = {e[0], POLLOUT, 0};
    T("  not writable", poll(&p, 1, 0));
    while (got < sent)
        got += recv(e[1], big, sizeof big, 0);
    T("  all of it", got == sent);
    T("  writable", poll(&p, 1, LATE_MS));
    close_both(e);

    /* a writer that waits, and a child that reads */
    joined(e);
    const pid_t child = fork();
    if (child == 0) {
        uint32_t sum = 0;
        close(e[0]);
        for (ssize_t r; (r = recv(e[1], big, 3001, 0)) > 0;)
            for (ssize_t i = 0; i < r; i++)
                sum = sum * 31 + (uint8_t)big[i];
        _exit((int)(sum % 251));
    }
    close(e[1]);
    uint32_t sum = 0;
    for (int i = 0; i < 40; i++) {
        for (size_t j = 0; j < sizeof big; j++) {
            big[j] = (char)((size_t)i * 7 + j * 13);
            sum = sum * 31 + (uint8_t)big[j];
        }
        if (send(e[0], big, sizeof big, 0) != (ssize_t)sizeof big)
            T("short", -1);
    }
    close(e[0]);
    int status = 0;
    waitpid(child, &status, 0);
    T("a child read all", WEXITSTATUS(status) == (int)(sum % 251));
}

/* Wake-ups: of select, of epoll by edges, of a thread that accepts. */
static void wakes(void)
{
    int e[2];
    joined(e);
    const int ep = epoll_create1(0);
    struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET}, got[4];
    T("epoll add", epoll_ctl(ep, EPOLL_CTL_ADD, e[0], &ev));
    T("  first", epoll_wait(ep, got, 4, 0));
    T("  events", got[0].events);
    T("  no edge", epoll_wait(ep, got, 4, 0));
    (void)!send(e[1], "x", 1, 0);
    T("  bytes", epoll_wait(ep, got, 4, LATE_MS));
    T("  events", got[0].events);
    T("  no edge", epoll_wait(ep, got, 4, 0));
    (void)!send(e[1], "y", 1, 0);
    T("  more bytes", epoll_wait(ep, got, 4, LATE_MS));
    close(e[1]);
    T("  the end", epoll_wait(ep, got, 4, LATE_MS));
    T("  events", got[0].events);
    fd_set r, w;
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_SET(e[0], &r);
    FD_SET(e[0], &w);
    T("select", select(e[0] + 1, &r, &w, NULL, NULL));
    close(e[0]);
    close(ep);

    const int l = listener(v4("127.0.0.1", 0));
    const pid_t child = fork();
    if (child == 0) {
        const int s = accept(l, NULL, NULL);
        char c = 0;
        _exit(recv(s, &c, 1, 0) == 1 && send(s, &c, 1, 0) == 1 ? c : 1);
    }
    const int c = tcp();
    char byte = 0;
    T("connect to a child", reach(c, v4("127.0.0.1", port_of(l))));
    T("  send", send(c, "k", 1, 0));
    T("  recv", recv(c, &byte, 1, MSG_WAITALL));
    int status = 0;
    waitpid(child, &status, 0);
    T("  echo", byte == 'k' && WEXITSTATUS(status) == 'k');
    tell_read("  the child is gone", c, 0);
    close(c);
    close(l);
}

/* ---- options
 * ------------------------------------------------------------------------------------------- */

static void options(void)
{
    static const struct {
        const char *name;
        int level, option, values[4];
    } all[] = {
        {"REUSEADDR", SOL_SOCKET, SO_REUSEADDR, {0, 1, 7, -1}},
        {"REUSEPORT", SOL_SOCKET, SO_REUSEPORT, {0, 1, 7, -1}},
        {"KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE, {0, 1, 7, -1}},
        {"BROADCAST", SOL_SOCKET, SO_BROADCAST, {0, 1, 7, -1}},
        {"OOBINLINE", SOL_SOCKET, SO_OOBINLINE, {0, 1, 7, -1}},
        {"DONTROUTE", SOL_SOCKET, SO_DONTROUTE, {0, 1, 7, -1}},
        {"PRIORITY", SOL_SOCKET, SO_PRIORITY, {0, 1, 6, 2}},
        {"SNDBUF", SOL_SOCKET, SO_SNDBUF, {8192, 100000, 1, 65536}},
        {"RCVBUF", SOL_SOCKET, SO_RCVBUF, {8192, 100000, 1, 65536}},
        {"TYPE", SOL_SOCKET, SO_TYPE, {0, 1, 2, 3}},
        {"ERROR", SOL_SOCKET, SO_ERROR, {0, 1, 2, 3}},
        {"NODELAY", IPPROTO_TCP, TCP_NODELAY, {0, 1, 7, -1}},
        {"CORK", IPPROTO_TCP, TCP_CORK, {0, 1, 7, 0}},
        {"KEEPIDLE", IPPROTO_TCP, TCP_KEEPIDLE, {0, 1, 32767, 32768}},
        {"KEEPINTVL", IPPROTO_TCP, TCP_KEEPINTVL, {0, 1, 32767, 32768}},
        {"KEEPCNT", IPPROTO_TCP, TCP_KEEPCNT, {0, 1, 127, 128}},
        {"SYNCNT", IPPROTO_TCP, TCP_SYNCNT, {0, 1, 127, 128}},
        {"LINGER2", IPPROTO_TCP, TCP_LINGER2, {30, 120, 5, 60}},
        {"USER_TIMEOUT", IPPROTO_TCP, TCP_USER_TIMEOUT, {0, 1, 100000, -1}},
        {"unknown of TCP", IPPROTO_TCP, 9999, {0, 1, 2, 3}},
        {"TOS", IPPROTO_IP, IP_TOS, {0, 8, 16, 0}},
        {"TTL", IPPROTO_IP, IP_TTL, {1, 255, 256, -1}},
        {"MULTICAST_TTL", IPPROTO_IP, IP_MULTICAST_TTL, {0, 255, 256, -1}},
        {"PKTINFO", IPPROTO_IP, IP_PKTINFO, {0, 1, 7, -1}},
        {"RECVERR", IPPROTO_IP, IP_RECVERR, {0, 1, 7, -1}},
        {"MTU_DISCOVER", IPPROTO_IP, IP_MTU_DISCOVER, {0, 2, 6, -1}},
        {"V6ONLY", IPPROTO_IPV6, IPV6_V6ONLY, {0, 1, 7, -1}},
        {"RECVPKTINFO", IPPROTO_IPV6, IPV6_RECVPKTINFO, {0, 1, 7, -1}},
        {"RECVERR6", IPPROTO_IPV6, IPV6_RECVERR, {0, 1, 7, -1}},
        {"HOPS", IPPROTO_IPV6, IPV6_UNICAST_HOPS, {0, 255, 256, -1}},
        {"MULTICAST_HOPS", IPPROTO_IPV6, IPV6_MULTICAST_HOPS, {0, 255, 256, -1}},
        {"TCLASS", IPPROTO_IPV6, IPV6_TCLASS, {0, 255, 256, -1}},
        {"unknown", SOL_SOCKET, 9999, {0, 1, 2, 3}},
        {"unknown level", 77, 1, {0, 1, 2, 3}},
    };
    const int fds[3] = {tcp(), udp(), socket(AF_INET6, SOCK_STREAM, 0)};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (int f = 0; f < 3; f++) {
            const bool buffer = all[i].option == SO_SNDBUF || all[i].option == SO_RCVBUF;
            printf("%s of %d:", all[i].name, f);
            const int first = get(fds[f], all[i].level, all[i].option);
            if (first < 0 && errno)
                printf(" %s", strerrorname_np(errno));
            else if (!buffer || all[i].level != SOL_SOCKET)
                printf(" %d", first);
            for (int v = 0; v < 4; v++) {
                errno = 0;
                if (set(fds[f], all[i].level, all[i].option, all[i].values[v]) < 0)
                    printf(" %s", strerrorname_np(errno));
                else
                    printf(" %d", get(fds[f], all[i].level, all[i].option));
                errno = 0;
            }
            printf("\n");
            cases++;
        }
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}

static void sizes_of_options(void)
{
    const int fd = tcp();
    char few[2] = {1, 0};
    T("set, 2 bytes", setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, few, 2));
    T("set of TCP, 2 bytes", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, few, 2));
    T("set of IP, 1 byte", setsockopt(fd, IPPROTO_IP, IP_TTL, few, 1));
    T("  value", get(fd, IPPROTO_IP, IP_TTL));
    T("set, nowhere", setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, NULL, 4));
    T("set of TCP, nowhere", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, (void *)8, 4));
    socklen_t size = (socklen_t)-1;
    int v = 0;
    T("get, -1 bytes", getsockopt(fd, SOL_SOCKET, SO_TYPE, &v, &size));
    T("get of TCP, -1 bytes", getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, &size));
    size = 2;
    T("get, 2 bytes", getsockopt(fd, SOL_SOCKET, SO_TYPE, &v, &size));
    T("  size", size);
    T("get, no size", getsockopt(fd, SOL_SOCKET, SO_TYPE, &v, NULL));
    struct linger l = {3, 9};
    size = sizeof l;
    T("linger", getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &size));
    T("  off", l.l_onoff);
    T("  seconds", l.l_linger);
    l = (struct linger){5, 12};
    T("set linger", setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l));
    T("set linger, 4 bytes", setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, 4));
    size = sizeof l;
    T("linger", getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &size));
    T("  on", l.l_onoff);
    T("  seconds", l.l_linger);
    const struct timeval odd = {0, 1000000};
    T("timeout, too many microseconds", setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &odd, sizeof odd));
    struct timeval tv = {3, 200000};
    T("timeout", setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv));
    size = sizeof tv;
    T("  get", getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, &size));
    T("  seconds", tv.tv_sec);
    T("  microseconds", tv.tv_usec);
    int e[2];
    const int lis = listener(v4("127.0.0.1", 0));
    set(lis, IPPROTO_TCP, TCP_NODELAY, 1);
    set(lis, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(lis, IPPROTO_TCP, TCP_KEEPIDLE, 77);
    e[0] = tcp();
    (void)!reach(e[0], v4("127.0.0.1", port_of(lis)));
    e[1] = accept(lis, NULL, NULL);
    T("inherited NODELAY", get(e[1], IPPROTO_TCP, TCP_NODELAY));
    T("inherited KEEPALIVE", get(e[1], SOL_SOCKET, SO_KEEPALIVE));
    T("inherited KEEPIDLE", get(e[1], IPPROTO_TCP, TCP_KEEPIDLE));
    T("not of the client", get(e[0], IPPROTO_TCP, TCP_NODELAY));
    close_both(e);
    close(lis);
    close(fd);
}

/* ---- datagrams
 * --------------------------------------------------------------------------------------- */

static void datagrams(void)
{
    const int a = udp(), b = udp();
    char buf[64];
    union name n, from = {0};
    socklen_t size = sizeof from;
    events("new UDP", a);
    T("send, no peer", send(a, "x", 1, 0));
    T("recv, nothing", recv(a, buf, 1, MSG_DONTWAIT));
    tell_own("still unbound", a, false);
    (void)!name_it(b, v4("127.0.0.1", 0));
    n = v4("127.0.0.1", port_of(b));
    T("sendto", sendto(a, "hello", 5, 0, &n.any, sizeof n.v4));
    tell_own("bound by sending", a, false);
    until("receiver", b, POLLIN);
    T("recvfrom, short", recvfrom(b, buf, 3, MSG_PEEK, &from.any, &size));
    tell_name("  from", &from, size);
    T("  port", ntohs(from.v4.sin_port) == port_of(a));
    T("  full size", recv(b, buf, 3, MSG_PEEK | MSG_TRUNC));
    struct iovec iov = {buf, 2};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
    T("  recvmsg", recvmsg(b, &h, 0));
    T("  flags", h.msg_flags);
    T("  the rest is gone", recv(b, buf, 1, MSG_DONTWAIT));
    T("sendto nothing", sendto(a, "", 0, 0, &n.any, sizeof n.v4));
    await(b, POLLIN);
    int left = 9;
    T("  FIONREAD", ioctl(b, FIONREAD, &left) < 0 ? -1 : left);
    T("  recv", recv(b, buf, 8, 0));
    T("sendto, 8 bytes of name", sendto(a, "x", 1, 0, &n.any, 8));
    T("sendto, port 0", send_to(a, "x", 1, 0, v4("127.0.0.1", 0)));
    T("sendto, IPv6", send_to(a, "x", 1, 0, v6("::1", 9)));
    T("sendto, no family", sendto(a, "x", 1, 0, &(struct sockaddr){0}, 16));
    static char big[70000];
    T("sendto, 65507 bytes", sendto(a, big, 65507, 0, &n.any, sizeof n.v4));
    T("sendto, 65508 bytes", sendto(a, big, 65508, 0, &n.any, sizeof n.v4));
    T("sendto, 70000 bytes", sendto(a, big, 70000, 0, &n.any, sizeof n.v4));
    T("  recv", recv(b, big, sizeof big, 0));
    T("sendto, urgent", sendto(a, "x", 1, MSG_OOB, &n.any, sizeof n.v4));
    T("sendto, from nowhere", sendto(a, (void *)1, 1, 0, &n.any, sizeof n.v4));
    T("sendto nobody", send_to(a, "x", 1, 0, v4("127.0.0.1", 1)));
    events("  no error", a);

    close(a);
    close(b);
}

/* Datagram sockets with a peer. */
static void peers(void)
{
    const int a = udp(), b = udp();
    char buf[64];
    (void)!name_it(b, v4("127.0.0.1", 0));
    const union name n = v4("127.0.0.1", port_of(b));
    T("connect to nobody", reach(a, v4("127.0.0.1", 1)));
    events("  events", a);
    T("  send", send(a, "x", 1, 0));
    until("  events", a, POLLERR);
    T("  send tells", send(a, "x", 1, 0));
    await(a, POLLERR);
    T("  recv tells", recv(a, buf, 1, MSG_DONTWAIT));
    T("  recv", recv(a, buf, 1, MSG_DONTWAIT));
    (void)!send(a, "x", 1, 0);
    await(a, POLLERR);
    pending("  error", a);
    T("connect", reach(a, n));
    tell_own("  peer", a, true);
    tell_own("  name", a, false);
    T("  send", send(a, "one", 3, 0));
    await(b, POLLIN);
    tell_read("  recv", b, 0);
    const int c = udp();
    (void)!send_to(c, "stranger", 8, 0, v4("127.0.0.1", port_of(a)));
    T("  a stranger is not heard", recv(a, buf, 8, MSG_DONTWAIT));
    T("  the peer is", send_to(b, "two", 3, 0, v4("127.0.0.1", port_of(a))));
    await(a, POLLIN);
    tell_read("  recv", a, 0);
    T("  sendto another", send_to(a, "z", 1, 0, v4("127.0.0.1", port_of(c))));
    const union name none = {.any = {.sa_family = AF_UNSPEC}};
    T("disconnect", connect(a, &none.any, sizeof none.any));
    tell_own("  name", a, false);
    tell_own("  peer", a, true);
    T("  send", send(a, "x", 1, 0));
    T("shut", shutdown(b, SHUT_RD));
    events("  events", b);
    T("  recv", recv(b, buf, 1, 0));
    T("  recv, non-blocking", recv(b, buf, 1, MSG_DONTWAIT));
    (void)!sendto(c, "late", 4, 0, &n.any, sizeof n.v4);
    await(b, POLLIN);
    tell_read("  still hears", b, MSG_DONTWAIT);
    (void)!reach(c, n);
    T("shut writing", shutdown(c, SHUT_WR));
    T("  send", send(c, "x", 1, 0));
    T("bind while bound", name_it(b, v4("127.0.0.1", 0)));
    close(a);
    close(b);
    close(c);
}

/* More than the receiver has room for is dropped. */
static void floods(void)
{
    static char big[1000];
    const int in = udp(), out = udp();
    (void)!name_it(in, v4("127.0.0.1", 0));
    (void)!reach(out, v4("127.0.0.1", port_of(in)));
    int lost = 0;
    for (int i = 0; i < 2000; i++)
        lost += send(out, big, 1000, 0) != 1000;
    T("flood", lost);
    int got = 0;
    while (recv(in, big, 1000, MSG_DONTWAIT) == 1000)
        got++;
    T("  some of it", got > 20 && got < 2000);
    (void)!send(out, "after", 5, 0);
    await(in, POLLIN);
    tell_read("  and goes on", in, 0);
    close(in);
    close(out);
}

static void several(void)
{
    const int a = udp(), b = udp();
    (void)!name_it(b, v4("127.0.0.1", 0));
    (void)!reach(a, v4("127.0.0.1", port_of(b)));
    char text[3][8] = {"one", "three", "fiveish"}, room[4][8];
    struct iovec out[3], in[4];
    struct mmsghdr m[4] = {0};
    for (int i = 0; i < 3; i++) {
        out[i] = (struct iovec){text[i], strlen(text[i])};
        m[i].msg_hdr.msg_iov = &out[i];
        m[i].msg_hdr.msg_iovlen = 1;
    }
    T("sendmmsg", sendmmsg(a, m, 3, 0));
    for (int i = 0; i < 3; i++)
        T("  bytes", m[i].msg_len);
    memset(m, 0, sizeof m);
    union name from[4];
    for (int i = 0; i < 4; i++) {
        in[i] = (struct iovec){room[i], 5};
        m[i].msg_hdr = (struct msghdr){.msg_iov = &in[i],
                                       .msg_iovlen = 1,
                                       .msg_name = &from[i],
                                       .msg_namelen = sizeof from[i]};
    }
    await(b, POLLIN);
    T("recvmmsg", recvmmsg(b, m, 4, MSG_DONTWAIT, NULL));
    for (int i = 0; i < 3; i++) {
        T("  bytes", m[i].msg_len);
        T("  flags", m[i].msg_hdr.msg_flags & MSG_TRUNC);
        T("  name", m[i].msg_hdr.msg_namelen);
    }
    T("recvmmsg, nothing", recvmmsg(b, m, 4, MSG_DONTWAIT, NULL));
    T("sendmmsg, none", sendmmsg(a, m, 0, 0));

    union {
        char room[256];
        struct cmsghdr align;
    } u;
    T("packet information", set(b, IPPROTO_IP, IP_PKTINFO, 1));
    (void)!send(a, "info", 4, 0);
    await(b, POLLIN);
    struct msghdr h = {
        .msg_iov = in, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof u};
    T("  recvmsg", recvmsg(b, &h, 0));
    T("  size", (long)h.msg_controllen);
    const struct cmsghdr *c = CMSG_FIRSTHDR(&h);
    T("  there", c && c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO);
    struct in_pktinfo info = {0};
    if (c)
        memcpy(&info, CMSG_DATA(c), sizeof info);
    T("  address", ntohl(info.ipi_addr.s_addr));
    T("  own address", ntohl(info.ipi_spec_dst.s_addr));
    (void)!send(a, "info", 4, 0);
    await(b, POLLIN);
    h.msg_controllen = 20;
    T("  recvmsg, no room", recvmsg(b, &h, 0));
    T("  flags", h.msg_flags);
    /* send from another address of this machine */
    const int any = udp(), to = udp();
    (void)!name_it(any, v4("0.0.0.0", 0));
    (void)!name_it(to, v4("127.0.0.1", 0));
    union name n = v4("127.0.0.1", port_of(to));
    struct cmsghdr *put = &u.align;
    put->cmsg_level = IPPROTO_IP;
    put->cmsg_type = IP_PKTINFO;
    put->cmsg_len = CMSG_LEN(sizeof info);
    info = (struct in_pktinfo){.ipi_spec_dst = v4("127.0.0.9", 0).v4.sin_addr};
    memcpy(CMSG_DATA(put), &info, sizeof info);
    h = (struct msghdr){.msg_iov = out,
                        .msg_iovlen = 1,
                        .msg_name = &n,
                        .msg_namelen = sizeof n.v4,
                        .msg_control = &u,
                        .msg_controllen = CMSG_SPACE(sizeof info)};
    T("sendmsg from an address", sendmsg(any, &h, 0));
    union name who = {0};
    socklen_t size = sizeof who;
    T("  recvfrom", recvfrom(to, room[0], 8, 0, &who.any, &size));
    tell_name("  from", &who, size);
    put->cmsg_type = 999;
    T("sendmsg, unknown control", sendmsg(any, &h, 0));
    put->cmsg_len = 3;
    T("sendmsg, short control", sendmsg(any, &h, 0));
    close(a);
    close(b);
    close(any);
    close(to);
}

/* ---- both versions
 * ------------------------------------------------------------------------------------- */

static void sixes(void)
{
    int l = listener(v6("::", 0)), c = tcp();
    union name from = {0};
    socklen_t size = sizeof from;
    T("IPv4 to a listener of both", reach(c, v4("127.0.0.1", port_of(l))));
    int s = FD("  accept", accept(l, &from.any, &size));
    tell_name("  from", &from, size);
    tell_own("  name", s, false);
    tell_own("  peer", s, true);
    tell_own("  client", c, true);
    close(s);
    close(c);
    c = socket(AF_INET6, SOCK_STREAM, 0);
    T("IPv6", reach(c, v6("::1", port_of(l))));
    s = FD("  accept", accept(l, NULL, NULL));
    tell_own("  name", s, false);
    tell_own("  client", c, false);
    close(s);
    close(c);
    c = socket(AF_INET6, SOCK_STREAM, 0);
    T("IPv6 to any", reach(c, v6("::", port_of(l))));
    tell_own("  peer", c, true);
    close(c);
    c = socket(AF_INET6, SOCK_STREAM, 0);
    T("a mapped address", reach(c, v6("::ffff:127.0.0.1", port_of(l))));
    tell_own("  name", c, false);
    tell_own("  peer", c, true);
    close(c);
    c = socket(AF_INET6, SOCK_STREAM, 0);
    set(c, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    T("a mapped address, only IPv6", reach(c, v6("::ffff:127.0.0.1", port_of(l))));
    T("IPv4 by IPv6", reach(c, v4("127.0.0.1", port_of(l))));
    close(c);
    close(l);
    l = socket(AF_INET6, SOCK_STREAM, 0);
    set(l, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    (void)!name_it(l, v6("::", 0));
    (void)!listen(l, 1);
    c = tcp();
    T("IPv4 to a listener of IPv6", reach(c, v4("127.0.0.1", port_of(l))));
    close(c);
    close(l);
    l = listener(v4("0.0.0.0", 0));
    c = tcp();
    T("to 0.0.0.0", reach(c, v4("0.0.0.0", port_of(l))));
    tell_own("  peer", c, true);
    close(c);
    c = tcp();
    T("to 127.1.2.3", reach(c, v4("127.1.2.3", port_of(l))));
    tell_own("  name", c, false);
    s = accept(l, NULL, NULL);
    s = accept(l, NULL, NULL);
    tell_own("  server's name", s, false);
    close(c);
    c = tcp();
    T("from 127.0.0.7", name_it(c, v4("127.0.0.7", 0)));
    T("  connect", reach(c, v4("127.0.0.1", port_of(l))));
    tell_own("  name", c, false);
    close(c);
    close(l);
    const int a = socket(AF_INET6, SOCK_DGRAM, 0), b = socket(AF_INET6, SOCK_DGRAM, 0), d = udp();
    (void)!name_it(b, v6("::", 0));
    char buf[8];
    union name n = v6("::1", port_of(b));
    T("UDP of IPv6", sendto(a, "six", 3, 0, &n.any, sizeof n.v6));
    T("  recvfrom", recvfrom(b, buf, 8, 0, &from.any, &size));
    tell_name("  from", &from, size);
    n = v4("127.0.0.1", port_of(b));
    T("UDP of IPv4 to both", sendto(d, "four", 4, 0, &n.any, sizeof n.v4));
    size = sizeof from;
    T("  recvfrom", recvfrom(b, buf, 8, 0, &from.any, &size));
    tell_name("  from", &from, size);
    T("  answer", sendto(b, "back", 4, 0, &from.any, size));
    await(d, POLLIN);
    tell_read("  recv", d, 0);
    T("IPv6 to an address of IPv4", sendto(a, "x", 1, 0, &n.any, sizeof n.v4));
    T("IPv6 connects to IPv4", reach(a, n));
    tell_own("  peer", a, true);
    tell_own("  name", a, false);
    T("IPv6 to an unknown family", sendto(a, "x", 1, 0, &(struct sockaddr){.sa_family = 77}, 28));
    close(a);
    close(b);
    close(d);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, on_pipe);
    creates();
    binds();
    shares();
    connects();
    connects_later();
    waits_in_line();
    shuts();
    closes();
    moves();
    fills();
    wakes();
    options();
    sizes_of_options();
    datagrams();
    peers();
    floods();
    several();
    sixes();
    printf("%d cases\n", cases);
    return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * linux_trace.c - a call as a line of text, by the letters of its row in linux_table.h:
 *
 *     openat(AT_FDCWD, "/etc/passwd", O_RDONLY|O_CLOEXEC) = 3
 *     read(3, "root:x:0:0:root:/root:/bin/bash\n"..., 4096) = 1024
 *     access("/etc/ld.so.preload", R_OK) = -1 ENOENT (No such file or directory)
 *
 * Every byte of guest memory that is shown is read again and may have any value: it is quoted, and
 * long data is cut.
 */
#include "linux/linux_int.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    LIST_MAX = 16, /* elements of an array that are shown */
};

struct word {
    uint64_t value;
    const char *name;
};
#define W(name) {(uint64_t)(name), #name}

/* A single bit, or several: those with several come first. */
static const struct word open_words[] = {
    W(O_TMPFILE),   {04010000, "O_SYNC"}, W(O_CREAT),   W(O_EXCL),
    W(O_NOCTTY),    W(O_TRUNC),           W(O_APPEND),  W(O_NONBLOCK),
    W(O_DSYNC),     W(O_ASYNC),           W(O_DIRECT),  {0100000, "O_LARGEFILE"},
    W(O_DIRECTORY), W(O_NOFOLLOW),        W(O_NOATIME), W(O_CLOEXEC),
    W(O_PATH),
};
static const struct word at_words[] = {
    W(AT_SYMLINK_NOFOLLOW), W(AT_REMOVEDIR),        W(AT_SYMLINK_FOLLOW),  W(AT_NO_AUTOMOUNT),
    W(AT_EMPTY_PATH),       W(AT_STATX_FORCE_SYNC), W(AT_STATX_DONT_SYNC),
};
static const struct word access_words[] = {W(R_OK), W(W_OK), W(X_OK)};
static const struct word prot_words[] = {W(PROT_READ), W(PROT_WRITE), W(PROT_EXEC)};
static const struct word map_words[] = {
    {3, "MAP_SHARED_VALIDATE"},
    W(MAP_SHARED),
    W(MAP_PRIVATE),
    W(MAP_32BIT),
    W(MAP_FIXED),
    W(MAP_ANONYMOUS),
    W(MAP_GROWSDOWN),
    W(MAP_DENYWRITE),
    W(MAP_LOCKED),
    W(MAP_NORESERVE),
    W(MAP_POPULATE),
    W(MAP_NONBLOCK),
    W(MAP_STACK),
    W(MAP_HUGETLB),
    W(MAP_FIXED_NOREPLACE),
};
/* One of them. */
static const struct word whence_words[] = {W(SEEK_SET), W(SEEK_CUR), W(SEEK_END), W(SEEK_DATA),
                                           W(SEEK_HOLE)};
static const struct word clock_words[] = {
    W(CLOCK_REALTIME),          W(CLOCK_MONOTONIC),     W(CLOCK_PROCESS_CPUTIME_ID),
    W(CLOCK_THREAD_CPUTIME_ID), W(CLOCK_MONOTONIC_RAW), W(CLOCK_REALTIME_COARSE),
    W(CLOCK_MONOTONIC_COARSE),  W(CLOCK_BOOTTIME),      W(CLOCK_TAI),
};
static const struct word fcntl_words[] = {
    W(F_DUPFD),      W(F_GETFD),     W(F_SETFD),      W(F_GETFL),         W(F_SETFL),
    W(F_GETLK),      W(F_SETLK),     W(F_SETLKW),     W(F_SETOWN),        W(F_GETOWN),
    W(F_OFD_GETLK),  W(F_OFD_SETLK), W(F_OFD_SETLKW), W(F_DUPFD_CLOEXEC), W(F_SETPIPE_SZ),
    W(F_GETPIPE_SZ), W(F_ADD_SEALS), W(F_GET_SEALS),
};
static const struct word ioctl_words[] = {
    W(TCGETS),    W(TCSETS),    W(TCSETSW),  W(TCSETSF),  W(TIOCGWINSZ), W(TIOCSWINSZ),
    W(TIOCGPGRP), W(TIOCSPGRP), W(FIONREAD), W(FIONBIO),  W(FIOCLEX),    W(FIONCLEX),
    W(TIOCSCTTY), W(TIOCNOTTY), W(TIOCGPTN), W(TIOCGSID), W(TCFLSH),     W(TIOCSPTLCK),
};
static const struct word epoll_words[] = {W(EPOLL_CTL_ADD), W(EPOLL_CTL_DEL), W(EPOLL_CTL_MOD)};
static const struct word signal_words[] = {
    W(SIGHUP),  W(SIGINT),    W(SIGQUIT), W(SIGILL),  W(SIGTRAP),   W(SIGABRT), W(SIGBUS),
    W(SIGFPE),  W(SIGKILL),   W(SIGUSR1), W(SIGSEGV), W(SIGUSR2),   W(SIGPIPE), W(SIGALRM),
    W(SIGTERM), W(SIGSTKFLT), W(SIGCHLD), W(SIGCONT), W(SIGSTOP),   W(SIGTSTP), W(SIGTTIN),
    W(SIGTTOU), W(SIGURG),    W(SIGXCPU), W(SIGXFSZ), W(SIGVTALRM), W(SIGPROF), W(SIGWINCH),
    W(SIGIO),   W(SIGPWR),    W(SIGSYS),
};
static const struct word family_words[] = {
    W(AF_UNSPEC), W(AF_UNIX), W(AF_INET), W(AF_INET6), W(AF_NETLINK), W(AF_PACKET),
};
static const struct word type_words[] = {W(SOCK_STREAM), W(SOCK_DGRAM), W(SOCK_RAW), W(SOCK_RDM),
                                         W(SOCK_SEQPACKET)};
static const struct word message_words[] = {
    W(MSG_OOB),  W(MSG_PEEK),     W(MSG_DONTROUTE),  W(MSG_CTRUNC),       W(MSG_TRUNC),
    W(MSG_EOR),  W(MSG_WAITALL),  W(MSG_CONFIRM),    W(MSG_ERRQUEUE),     W(MSG_DONTWAIT),
    W(MSG_MORE), W(MSG_NOSIGNAL), W(MSG_WAITFORONE), W(MSG_CMSG_CLOEXEC), W(MSG_FASTOPEN),
};
static const struct word shutdown_words[] = {W(SHUT_RD), W(SHUT_WR), W(SHUT_RDWR)};
static const struct word level_words[] = {
    W(SOL_SOCKET), W(SOL_IP), {6, "SOL_TCP"}, {17, "SOL_UDP"}, W(SOL_IPV6)};
static const struct word option_words[] = {
    W(SO_DEBUG),     W(SO_REUSEADDR), W(SO_TYPE),      W(SO_ERROR),      W(SO_DONTROUTE),
    W(SO_BROADCAST), W(SO_SNDBUF),    W(SO_RCVBUF),    W(SO_KEEPALIVE),  W(SO_OOBINLINE),
    W(SO_PRIORITY),  W(SO_LINGER),    W(SO_REUSEPORT), W(SO_PASSCRED),   W(SO_PEERCRED),
    W(SO_RCVLOWAT),  W(SO_SNDLOWAT),  W(SO_RCVTIMEO),  W(SO_SNDTIMEO),   W(SO_ACCEPTCONN),
    W(SO_PROTOCOL),  W(SO_DOMAIN),    W(SO_PEERSEC),   W(SO_PEERGROUPS),
};
static const struct word control_words[] = {W(SCM_RIGHTS), {2, "SCM_CREDENTIALS"}};
#undef W

/* Bits by their names, the rest in hex. none: the name for no bits. */
static void bits(struct dz_buf *to, uint64_t v, const struct word *w, size_t n, const char *none)
{
    const char *between = "";
    if (v == 0)
        dz_buf_adds(to, none);
    for (size_t i = 0; i < n; i++)
        if ((v & w[i].value) == w[i].value) {
            dz_buf_addf(to, "%s%s", between, w[i].name);
            v &= ~w[i].value;
            between = "|";
        }
    if (v != 0)
        dz_buf_addf(to, "%s0x%llx", between, (unsigned long long)v);
}

/* One word, or the number. */
static void one_of(struct dz_buf *to, uint64_t v, const struct word *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (w[i].value == v) {
            dz_buf_adds(to, w[i].name);
            return;
        }
    dz_buf_addf(to, "%d", (int)v);
}
#define BITS(to, v, words, none) bits(to, v, words, DZ_ARRAY_LEN(words), none)

static void address(struct dz_buf *to, uint64_t v)
{
    if (v == 0)
        dz_buf_adds(to, "NULL");
    else
        dz_buf_addf(to, "0x%llx", (unsigned long long)v);
}

static void quoted(struct dz_buf *to, const uint8_t *p, size_t n, bool cut)
{
    static const char plain[] = "\n\t\r\v\f\"\\", after[] = "ntrvf\"\\";
    dz_buf_adds(to, "\"");
    for (size_t i = 0; i < n; i++) {
        const char *s = p[i] ? strchr(plain, p[i]) : NULL;
        if (s)
            dz_buf_addf(to, "\\%c", after[s - plain]);
        else if (p[i] >= ' ' && p[i] < 0x7f)
            dz_buf_add(to, &p[i], 1);
        else
            dz_buf_addf(to, "\\%03o", p[i]);
    }
    dz_buf_adds(to, cut ? "\"..." : "\"");
}

/* n bytes of guest memory, or their address if they are not accessible. */
static void bytes(const linux_call *c, struct dz_buf *to, uint64_t at, uint64_t n)
{
    uint8_t b[DZ_LINUX_TRACE_STRING];
    const size_t show = n < sizeof b ? (size_t)n : sizeof b;
    if (dz_linux_get(c, at, b, show) < 0)
        address(to, at);
    else
        quoted(to, b, show, show < n);
}

static void string(const linux_call *c, struct dz_buf *to, uint64_t at)
{
    char s[PATH_MAX];
    if (at == 0 || dz_linux_string(c, at, s, sizeof s) < 0)
        address(to, at);
    else
        quoted(to, (const uint8_t *)s, strlen(s), false);
}

static void strings(const linux_call *c, struct dz_buf *to, uint64_t at)
{
    uint64_t s = 0;
    if (at == 0 || dz_linux_get(c, at, &s, sizeof s) < 0) {
        address(to, at);
        return;
    }
    dz_buf_adds(to, "[");
    for (uint64_t i = 0; s != 0; i++) {
        dz_buf_adds(to, i ? ", " : "");
        if (i == LIST_MAX) {
            dz_buf_adds(to, "...");
            break;
        }
        string(c, to, s);
        if (dz_linux_get(c, at + 8 * (i + 1), &s, sizeof s) < 0)
            break;
    }
    dz_buf_adds(to, "]");
}

/* left: most bytes of all pieces to show. */
static void pieces(const linux_call *c, struct dz_buf *to, uint64_t at, uint64_t count,
                   uint64_t left)
{
    uint64_t v[2];
    if (count > 0 && dz_linux_get(c, at, v, sizeof v) < 0) {
        address(to, at);
        return;
    }
    dz_buf_adds(to, "[");
    for (uint64_t i = 0; i < count; i++) {
        dz_buf_adds(to, i ? ", " : "");
        if (i == LIST_MAX || dz_linux_get(c, at + 16 * i, v, sizeof v) < 0) {
            dz_buf_adds(to, "...");
            break;
        }
        dz_buf_adds(to, "{iov_base=");
        const uint64_t n = v[1] < left ? v[1] : left;
        bytes(c, to, v[0], n);
        left -= n;
        dz_buf_addf(to, ", iov_len=%llu}", (unsigned long long)v[1]);
    }
    dz_buf_adds(to, "]");
}

static void ints(const linux_call *c, struct dz_buf *to, uint64_t at, int64_t result)
{
    int v[2];
    if (result < 0 || dz_linux_get(c, at, v, sizeof v) < 0)
        address(to, at);
    else
        dz_buf_addf(to, "[%d, %d]", v[0], v[1]);
}

static void timespec(const linux_call *c, struct dz_buf *to, uint64_t at)
{
    int64_t v[2];
    if (at == 0 || dz_linux_get(c, at, v, sizeof v) < 0)
        address(to, at);
    else
        dz_buf_addf(to, "{tv_sec=%lld, tv_nsec=%lld}", (long long)v[0], (long long)v[1]);
}

static void signal_name(struct dz_buf *to, uint64_t v, bool short_form)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(signal_words); i++)
        if (signal_words[i].value == v) {
            dz_buf_adds(to, signal_words[i].name + (short_form ? sizeof "SIG" - 1 : 0));
            return;
        }
    if (v >= 32 && v <= DZ_KERNEL_SIGNALS)
        dz_buf_addf(to, short_form ? "RT_%d" : "SIGRT_%d", (int)v - 32);
    else
        dz_buf_addf(to, "%d", (int)v);
}

static void signals(const linux_call *c, struct dz_buf *to, uint64_t at)
{
    uint64_t set;
    const char *between = "";
    if (at == 0 || dz_linux_get(c, at, &set, sizeof set) < 0) {
        address(to, at);
        return;
    }
    dz_buf_adds(to, "[");
    for (uint64_t i = 1; i <= DZ_KERNEL_SIGNALS; i++)
        if (set >> (i - 1) & 1) {
            dz_buf_adds(to, between);
            signal_name(to, i, true);
            between = " ";
        }
    dz_buf_adds(to, "]");
}

static void open_flags(struct dz_buf *to, uint64_t v)
{
    static const char *const modes[] = {"O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE"};
    dz_buf_adds(to, modes[v & O_ACCMODE]);
    if (v & ~(uint64_t)O_ACCMODE) {
        dz_buf_adds(to, "|");
        BITS(to, v & ~(uint64_t)O_ACCMODE, open_words, "");
    }
}

/* Flags of a new descriptor, in the form of open's but without a mode. */
static void new_flags(struct dz_buf *to, uint64_t v)
{
    BITS(to, v, open_words, "0");
}

/* ---- sockets ---------------------------------------------------------------------------- */

/* Also the flags of accept4(2) alone. */
static void socket_type(struct dz_buf *to, uint64_t v)
{
    static const struct word flags[] = {
        {SOCK_CLOEXEC, "SOCK_CLOEXEC"},
        {SOCK_NONBLOCK, "SOCK_NONBLOCK"},
    };
    if (v & 0xf) {
        one_of(to, v & 0xf, type_words, DZ_ARRAY_LEN(type_words));
        v &= ~UINT64_C(0xf);
        if (v == 0)
            return;
        dz_buf_adds(to, "|");
    }
    BITS(to, v, flags, "0");
}

static void int_at(const linux_call *c, struct dz_buf *to, uint64_t at)
{
    int32_t v;
    if (at == 0 || dz_linux_get(c, at, &v, sizeof v) < 0)
        address(to, at);
    else
        dz_buf_addf(to, "[%d]", v);
}

/* A name of so many bytes. */
static void sockaddr(const linux_call *c, struct dz_buf *to, uint64_t at, uint64_t size)
{
    uint8_t b[sizeof(struct sockaddr_storage)] = {0};
    uint16_t family, port;
    const size_t n = size < sizeof b ? (size_t)size : sizeof b;
    if (at == 0 || n < sizeof family || dz_linux_get(c, at, b, n) < 0) {
        address(to, at);
        return;
    }
    memcpy(&family, b, sizeof family);
    memcpy(&port, b + 2, sizeof port);
    dz_buf_adds(to, "{sa_family=");
    one_of(to, family, family_words, DZ_ARRAY_LEN(family_words));
    if (family == AF_UNIX && n > sizeof family && b[2] == '\0') {
        dz_buf_adds(to, ", sun_path=@");
        quoted(to, b + 3, n - 3, false);
    } else if (family == AF_UNIX && n > sizeof family) {
        dz_buf_adds(to, ", sun_path=");
        quoted(to, b + 2, strnlen((const char *)b + 2, n - 2), false);
    } else if (family == AF_INET && n >= 8) {
        dz_buf_addf(to, ", sin_port=htons(%u), sin_addr=inet_addr(\"%u.%u.%u.%u\")", ntohs(port),
                    b[4], b[5], b[6], b[7]);
    } else if (family != AF_UNIX && n > sizeof family) {
        dz_buf_adds(to, ", sa_data=");
        quoted(to, b + 2, n - 2, false);
    }
    dz_buf_adds(to, "}");
}

/* A sockaddr that the call wrote: size_at points to its length. */
static void sockaddr_got(const linux_call *c, struct dz_buf *to, uint64_t at, uint64_t size_at)
{
    uint32_t size = 0;
    (void)dz_linux_get(c, size_at, &size, sizeof size);
    sockaddr(c, to, at, size);
}

static void control_data(struct dz_buf *to, const uint8_t *data, size_t n, int32_t type)
{
    int32_t v[3];
    if (type == SCM_RIGHTS) {
        dz_buf_adds(to, "[");
        for (size_t i = 0; i < n / sizeof v[0]; i++) {
            memcpy(v, data + i * sizeof v[0], sizeof v[0]);
            dz_buf_addf(to, i ? ", %d" : "%d", v[0]);
        }
        dz_buf_adds(to, "]");
    } else if (n >= sizeof v) {
        memcpy(v, data, sizeof v);
        dz_buf_addf(to, "{pid=%d, uid=%u, gid=%u}", v[0], (unsigned)v[1], (unsigned)v[2]);
    } else {
        quoted(to, data, n, false);
    }
}
/* The control buffer, as far as it is shown. */
static void control(const linux_call *c, struct dz_buf *to, uint64_t at, uint64_t n)
{
    uint8_t b[256];
    uint64_t size = 0;
    int32_t what[2];
    const char *between = "[";
    n = n < sizeof b ? n : sizeof b;
    if (at == 0 || dz_linux_get(c, at, b, (size_t)n) < 0) {
        address(to, at);
        return;
    }
    for (uint64_t i = 0; n - i >= sizeof size + sizeof what; i += size) {
        memcpy(&size, b + i, sizeof size);
        memcpy(what, b + i + sizeof size, sizeof what);
        if (size < 16 || size > n - i)
            break;
        dz_buf_addf(to, "%s{cmsg_len=%llu, cmsg_level=", between, (unsigned long long)size);
        one_of(to, (uint32_t)what[0], level_words, DZ_ARRAY_LEN(level_words));
        dz_buf_adds(to, ", cmsg_type=");
        one_of(to, (uint32_t)what[1], control_words, DZ_ARRAY_LEN(control_words));
        dz_buf_adds(to, ", cmsg_data=");
        control_data(to, b + i + 16, (size_t)size - 16, what[0] == SOL_SOCKET ? what[1] : 0);
        dz_buf_adds(to, "}");
        between = ", ";
        size = (size + 7) & ~UINT64_C(7);
        if (size > n - i)
            break;
    }
    dz_buf_adds(to, *between == '[' ? "[]" : "]");
}

/* A struct msghdr; left: bytes of its pieces that are shown. */
static void message(const linux_call *c, struct dz_buf *to, uint64_t at, uint64_t left)
{
    uint64_t v[7]; /* name, its size (int), pieces, how many, control, its size, flags (int) */
    if (dz_linux_get(c, at, v, sizeof v) < 0) {
        address(to, at);
        return;
    }
    dz_buf_adds(to, "{msg_name=");
    sockaddr(c, to, v[0], (uint32_t)v[1]);
    dz_buf_addf(to, ", msg_namelen=%d, msg_iov=", (int)(uint32_t)v[1]);
    pieces(c, to, v[2], v[3], left);
    dz_buf_addf(to, ", msg_iovlen=%llu, ", (unsigned long long)v[3]);
    if (v[5]) {
        dz_buf_adds(to, "msg_control=");
        control(c, to, v[4], v[5]);
        dz_buf_adds(to, ", ");
    }
    dz_buf_addf(to, "msg_controllen=%llu, msg_flags=", (unsigned long long)v[5]);
    BITS(to, (uint32_t)v[6], message_words, "0");
    dz_buf_adds(to, "}");
}

/* Letters whose numbers have names. */
static const struct {
    char letter;
    bool bits; /* otherwise it is one value */
    const struct word *words;
    size_t count;
    const char *none; /* what no bit at all is called */
} named[] = {
#define ROW(letter, bits, words, none) {letter, bits, words, DZ_ARRAY_LEN(words), none}
    ROW('A', true, at_words, "0"),           ROW('M', true, access_words, "F_OK"),
    ROW('P', true, prot_words, "PROT_NONE"), ROW('m', true, map_words, "0"),
    ROW('W', false, whence_words, ""),       ROW('c', false, clock_words, ""),
    ROW('k', false, fcntl_words, ""),        ROW('K', false, ioctl_words, ""),
    ROW('e', false, epoll_words, ""),        ROW('B', true, message_words, "0"),
    ROW('h', false, shutdown_words, ""),     ROW('N', false, family_words, ""),
    ROW('L', false, level_words, ""),        ROW('y', false, option_words, ""),
#undef ROW
};
static bool name(struct dz_buf *to, char letter, uint64_t v)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(named); i++) {
        if (named[i].letter != letter)
            continue;
        if (named[i].bits)
            bits(to, v, named[i].words, named[i].count, named[i].none);
        else
            one_of(to, v, named[i].words, named[i].count);
        return true;
    }
    return false;
}

/* Letters of calls on sockets. False: it is none. */
static bool about_socket(const linux_call *c, struct dz_buf *to, char letter, int i, int64_t got)
{
    const uint64_t v = c->arg[i];
    switch (letter) {
    case 'T':
        socket_type(to, (uint32_t)v);
        break;
    case 'n':
        int_at(c, to, v);
        break;
    case 'S':
        sockaddr(c, to, v, (uint32_t)c->arg[i + 1]);
        break;
    case 'Y':
        if (got < 0)
            address(to, v);
        else
            sockaddr_got(c, to, v, c->arg[i + 1]);
        break;
    case 'G':
        message(c, to, v, UINT64_MAX);
        break;
    case 'H':
        if (got < 0)
            address(to, v);
        else
            message(c, to, v, (uint64_t)got);
        break;
    default:
        return false;
    }
    return true;
}

static void argument(const linux_call *c, struct dz_buf *to, const char *args, int i, int64_t got)
{
    const uint64_t v = c->arg[i];
    const uint64_t low = (uint32_t)v;
    const bool opens = strchr(args, 's') != NULL;
    if (name(to, args[i], low))
        return;
    switch (args[i]) {
    case 'd':
    case 'f':
        dz_buf_addf(to, "%d", (int)low);
        break;
    case 'F':
        if ((int)low == AT_FDCWD)
            dz_buf_adds(to, "AT_FDCWD");
        else
            dz_buf_addf(to, "%d", (int)low);
        break;
    case 'u':
        dz_buf_addf(to, "%u", (unsigned)low);
        break;
    case 'i':
        dz_buf_addf(to, low == UINT32_MAX ? "-1" : "%u", (unsigned)low);
        break;
    case 'l':
        dz_buf_addf(to, "%lld", (long long)v);
        break;
    case 'z':
        dz_buf_addf(to, "%llu", (unsigned long long)v);
        break;
    case 'x':
        dz_buf_addf(to, v ? "0x%llx" : "%llu", (unsigned long long)v);
        break;
    case 'o':
        dz_buf_addf(to, low ? "0%o" : "%o", (unsigned)low);
        break;
    case 'O':
        if (opens)
            open_flags(to, low);
        else
            new_flags(to, low);
        break;
    case 'g':
        signal_name(to, low, false);
        break;
    case 's':
        string(c, to, v);
        break;
    case 'a':
        strings(c, to, v);
        break;
    case 'w':
        bytes(c, to, v, c->arg[i + 1]);
        break;
    case 'r':
        if (got < 0)
            address(to, v);
        else
            bytes(c, to, v, (uint64_t)got < c->arg[i + 1] ? (uint64_t)got : c->arg[i + 1]);
        break;
    case 'v':
        pieces(c, to, v, (uint32_t)c->arg[i + 1], UINT64_MAX);
        break;
    case 'V':
        if (got < 0)
            address(to, v);
        else
            pieces(c, to, v, (uint32_t)c->arg[i + 1], (uint64_t)got);
        break;
    case 'I':
        ints(c, to, v, got);
        break;
    case 't':
        timespec(c, to, v);
        break;
    case 'q':
        signals(c, to, v);
        break;
    default: /* p */
        if (!about_socket(c, to, args[i], i, got))
            address(to, v);
        break;
    }
}

void dz_linux_trace(const struct dz_linux_call *c, enum dz_linux_part part, enum dz_linux_next next,
                    int64_t result, struct dz_buf *to)
{
    const struct dz_linux_row *row = dz_linux_row(c->number);
    const bool done = next == DZ_LINUX_DONE || next == DZ_LINUX_STOP;
    const char *args = row ? row->args : "xxxxxx", *kind = strchr(args, '>');
    const int written = (int)strcspn(args, "rVIYH>"); /* from here on, arguments show results */
    dz_buf_adds(to, part == DZ_LINUX_ENDED ? "<... " : "");
    if (row)
        dz_buf_adds(to, row->name);
    else
        dz_buf_addf(to, "syscall_0x%llx", (unsigned long long)c->number);
    dz_buf_adds(to, part == DZ_LINUX_ENDED ? " resumed>" : "(");
    for (int i = 0; i < 6 && args[i] && args[i] != '>'; i++) {
        if (part == DZ_LINUX_BEGUN ? i >= written : part == DZ_LINUX_ENDED && i < written)
            continue;
        dz_buf_adds(to, i && (part != DZ_LINUX_ENDED || i > written) ? ", " : "");
        argument(c, to, args, i, done ? result : -1);
    }
    if (part == DZ_LINUX_BEGUN) {
        dz_buf_adds(to, args[written] && args[written] != '>' && written ? ", " : "");
        dz_buf_adds(to, " <unfinished ...>");
        return;
    }
    dz_buf_adds(to, ") = ");
    if (!done)
        dz_buf_adds(to, "?");
    else if (result < 0 && result > -4096) {
        const char *name = strerrorname_np((int)-result);
        dz_buf_addf(to, "-1 %s (%s)", name ? name : "E?", strerrordesc_np((int)-result));
    } else if (kind)
        dz_buf_addf(to, kind[1] == 'o' ? "0%llo" : "0x%llx", (unsigned long long)result);
    else
        dz_buf_addf(to, "%lld", (long long)result);
}

/* ---- signals --------------------------------------------------------------------------- */

static const char *code_name(const struct dz_siginfo *i)
{
    static const char *const child[] = {"CLD_EXITED",  "CLD_KILLED",  "CLD_DUMPED",
                                        "CLD_TRAPPED", "CLD_STOPPED", "CLD_CONTINUED"};
    static const char *const segv[] = {"SEGV_MAPERR", "SEGV_ACCERR"};
    switch (i->code) {
    case SI_USER:
        return "SI_USER";
    case SI_KERNEL:
        return "SI_KERNEL";
    case SI_QUEUE:
        return "SI_QUEUE";
    case SI_TKILL:
        return "SI_TKILL";
    case SI_TIMER:
        return "SI_TIMER";
    default:
        break;
    }
    if (i->signo == SIGCHLD && i->code >= 1 && i->code <= (int)DZ_ARRAY_LEN(child))
        return child[i->code - 1];
    if (i->signo == SIGSEGV && i->code >= 1 && i->code <= (int)DZ_ARRAY_LEN(segv))
        return segv[i->code - 1];
    return NULL;
}

void dz_linux_trace_signo(int signo, struct dz_buf *to)
{
    signal_name(to, (uint64_t)signo, false);
}

void dz_linux_trace_signal(const struct dz_siginfo *i, struct dz_buf *to)
{
    const char *code = code_name(i);
    dz_buf_adds(to, "--- ");
    dz_linux_trace_signo(i->signo, to);
    dz_buf_adds(to, " {si_signo=");
    dz_linux_trace_signo(i->signo, to);
    if (code)
        dz_buf_addf(to, ", si_code=%s", code);
    else
        dz_buf_addf(to, ", si_code=%d", (int)i->code);
    if (i->code > 0 && i->signo != SIGCHLD && i->code != SI_KERNEL)
        dz_buf_addf(to, ", si_addr=0x%llx", (unsigned long long)i->addr);
    else if (i->code != SI_KERNEL)
        dz_buf_addf(to, ", si_pid=%d, si_uid=%u", (int)i->pid, (unsigned)i->uid);
    if (i->signo == SIGCHLD && i->code > 0)
        dz_buf_addf(to, ", si_status=%d", (int)i->status);
    dz_buf_adds(to, "} ---");
}

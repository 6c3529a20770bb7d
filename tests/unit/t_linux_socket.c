/* SPDX-License-Identifier: MIT
 * System calls on sockets. Most are made twice: here, and by this machine's kernel on memory that
 * is at the same addresses with the same bytes. Answers and memory must then be the same. */
#include "../lib/linux_rig.h"
#include "base/sanitize.h"
#include "tap.h"

#include <sys/socket.h>
#include <sys/un.h>

#define LAST(n) (LRIG_RO - (n))
#define NOWHERE UINT64_C(0x7fff00000000)
#define MS      INT64_C(1000000)

enum {
    CREDENTIALS_TYPE = 2,
};

/* ---- the same on this machine ------------------------------------------------------- */

static void set64(uint64_t at, uint64_t v)
{
    memcpy(lmem_at(at), &v, 8);
}
static uint64_t get64(uint64_t at)
{
    uint64_t v;
    memcpy(&v, lmem_at(at), 8);
    return v;
}
static void set32(uint64_t at, uint32_t v)
{
    memcpy(lmem_at(at), &v, 4);
}
static uint32_t get32(uint64_t at)
{
    uint32_t v;
    memcpy(&v, lmem_at(at), 4);
    return v;
}

static uint8_t *host_memory;
/* This process has descriptors 0 to 2 only, as the program has. */
static void host_begin(void)
{
    host_memory =
        mmap((void *)(uintptr_t)LRIG_AT, sizeof lmem.bytes, PROT_READ | PROT_WRITE, /* NOLINT */
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (host_memory == MAP_FAILED)
        abort();
    for (int fd = 3; fd < 256; fd++)
        (void)close(fd);
    (void)signal(SIGPIPE, SIG_IGN);
}
static int64_t host_call(uint64_t number, const uint64_t a[6])
{
    (void)mprotect(host_memory, sizeof lmem.bytes, PROT_READ | PROT_WRITE);
    memcpy(host_memory, lmem.bytes, sizeof lmem.bytes);
    (void)mprotect(host_memory + sizeof lmem.bytes - LRIG_PAGE, LRIG_PAGE, PROT_READ);
    const int64_t r = syscall((long)number, a[0], a[1], a[2], a[3], a[4], a[5]);
    return r < 0 ? -(int64_t)errno : r;
}
static bool memory_same(void)
{
    for (size_t i = 0; i < sizeof lmem.bytes; i++)
        if (lmem.bytes[i] != host_memory[i]) {
            printf("# byte 0x%zx is %02x, on this machine %02x\n", LRIG_AT + i, lmem.bytes[i],
                   host_memory[i]);
            return false;
        }
    return true;
}
static bool either_error; /* of a call with two mistakes Linux may tell the other one */
static bool twin(struct fib *f, uint64_t number, const uint64_t a[6], int64_t *ret)
{
    const int64_t want = host_call(number, a), got = lrig_call(f, number, a);
    *ret = got;
    if ((want == got || (either_error && got < 0 && want < 0)) && memory_same())
        return true;
    printf("# %s: this machine says %lld\n", lrig_line, (long long)want);
    return false;
}
/* A call whose answer and effect are this machine's. */
#define TWIN(f, name, ...)                                                                \
    do {                                                                                  \
        int64_t got_;                                                                     \
        if (!twin(f, SYS_##name, (const uint64_t[6]){__VA_OPT__(LRIG_ARGS(__VA_ARGS__))}, \
                  &got_)) {                                                               \
            printf("# %s:%d\n", __FILE__, __LINE__);                                      \
            return 98;                                                                    \
        }                                                                                 \
    } while (0)

/* ---- names -------------------------------------------------------------------------- */

/* An abstract name of this test: address and size. */
static uint64_t name_new(const char *name, uint32_t *ret_size)
{
    uint8_t b[128] = {AF_UNIX, 0, 0};
    const int n = snprintf((char *)b + 3, sizeof b - 3, "dz-%d-%s", (int)getpid(), name);
    *ret_size = (uint32_t)(3 + n);
    return lmem_put(b, sizeof b);
}

static int names(struct fib *f)
{
    uint32_t n;
    const uint64_t name = name_new("names", &n), got = lmem_new(128), size = lmem_new(8);
    TWIN(f, socket, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);                /* 3 */
    TWIN(f, socket, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); /* 4 */
    TWIN(f, socket, AF_UNIX, SOCK_DGRAM, 0);                                 /* 5 */
    TWIN(f, socket, AF_UNIX, SOCK_SEQPACKET, 1);                             /* 6 */
    TWIN(f, socket, AF_UNIX, 77, 0);
    TWIN(f, socket, AF_UNIX, SOCK_STREAM | 0x100, 0);
    TWIN(f, socket, AF_UNIX, SOCK_STREAM, 7);
    TWIN(f, socket, 99, SOCK_STREAM, 0);
    TWIN(f, socket, -1, SOCK_STREAM, 0);
    TWIN(f, bind, 99, name, n);
    TWIN(f, bind, 0, name, n);
    TWIN(f, bind, 3, name, 129);
    TWIN(f, bind, 3, name, UINT32_MAX);
    TWIN(f, bind, 3, 0, 0);
    TWIN(f, bind, 3, NOWHERE, n);
    TWIN(f, bind, 3, LRIG_END - 4, n);
    TWIN(f, bind, 99, NOWHERE, n); /* the descriptor comes first */
    TWIN(f, bind, 3, name, n);
    TWIN(f, bind, 3, name, n);
    TWIN(f, bind, 4, name, n);
    set32(size, 128);
    TWIN(f, getsockname, 3, got, size);
    OK(f, get32(size) == n && memcmp(lmem_at(got), lmem_at(name), n) == 0);
    TWIN(f, getsockname, 4, got, size);
    OK(f, get32(size) == 2);
    for (int32_t room = -1; room <= (int32_t)n + 1; room++) {
        set32(size, (uint32_t)room);
        TWIN(f, getsockname, 3, got, size);
    }
    set32(size, n);
    TWIN(f, getsockname, 3, LAST(n - 1), size);
    TWIN(f, getsockname, 3, got, 0);
    TWIN(f, getsockname, 3, got, LRIG_RO);
    TWIN(f, getsockname, 3, NOWHERE, size);
    TWIN(f, getsockname, 0, got, size);
    TWIN(f, getsockname, 99, NOWHERE, NOWHERE);
    TWIN(f, getpeername, 3, got, size);
    TWIN(f, getpeername, 1, got, size);
    TWIN(f, connect, 4, name, n);
    TWIN(f, listen, 3, 1);
    TWIN(f, listen, 5, 1);
    TWIN(f, listen, 1, 1);
    TWIN(f, connect, 4, NOWHERE, n);
    TWIN(f, connect, 4, name, 200);
    TWIN(f, connect, 4, name, n - 1);
    TWIN(f, connect, 4, name, n);
    TWIN(f, connect, 4, name, n);
    set32(size, 128);
    TWIN(f, getpeername, 4, got, size);
    TWIN(f, accept, 3, got, size); /* 7 */
    OK(f, get32(size) == 2);
    TWIN(f, accept, 3, 0, 0);
    TWIN(f, accept4, 3, 0, 0, 0x10);
    TWIN(f, accept, 4, 0, 0);
    TWIN(f, accept, 0, 0, 0);
    TWIN(f, shutdown, 7, 3);
    TWIN(f, shutdown, 7, SHUT_WR);
    TWIN(f, shutdown, 0, SHUT_WR);
    TWIN(f, recvfrom, 4, got, 10, 0, 0, 0);
    TWIN(f, close, 7);
    /* A connection whose name cannot be told is lost. */
    TWIN(f, socket, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0); /* 7 */
    TWIN(f, connect, 7, name, n);
    set32(size, UINT32_MAX);
    TWIN(f, accept, 3, got, size);
    TWIN(f, accept4, 3, 0, 0, SOCK_CLOEXEC);
    TWIN(f, recvfrom, 7, got, 10, 0, 0, 0);
    return 0;
}
TEST(names_have_the_layout_of_linux)
{
    host_begin();
    CHECK_INT(lrig_run(names, 0), 0);
}

static int pairs(struct fib *f)
{
    const uint64_t fds = lmem_new(8);
    TWIN(f, socketpair, AF_UNIX, SOCK_STREAM, 0, fds);
    OK(f, get32(fds) == 3 && get32(fds + 4) == 4);
    TWIN(f, socketpair, AF_UNIX, SOCK_STREAM, 0, LAST(3));
    TWIN(f, socketpair, AF_UNIX, SOCK_STREAM, 0, 0);
    TWIN(f, socketpair, AF_UNIX, SOCK_STREAM | 0x20, 0, 0);
    TWIN(f, socketpair, AF_UNIX, SOCK_DGRAM, 0, fds);
    OK(f, get32(fds) == 5); /* nothing was left open */
    OK(f, CALL(f, socket, AF_IPX, SOCK_STREAM, 0) == -EAFNOSUPPORT);
    OK(f, CALL(f, socket, AF_PACKET, SOCK_RAW, 0) == -EAFNOSUPPORT);
    return 0;
}
TEST(pairs_are_made_whole)
{
    host_begin();
    CHECK_INT(lrig_run(pairs, 0), 0);
}

/* ---- options ------------------------------------------------------------------------ */

static int options(struct fib *f)
{
    static const int known[] = {SO_TYPE,      SO_DOMAIN,    SO_PROTOCOL, SO_ERROR,    SO_ACCEPTCONN,
                                SO_SNDBUF,    SO_RCVBUF,    SO_RCVTIMEO, SO_SNDTIMEO, SO_PASSCRED,
                                SO_REUSEADDR, SO_KEEPALIVE, SO_BROADCAST};
    const uint64_t fds = lmem_new(8), value = lmem_new(32), size = lmem_new(8);
    TWIN(f, socketpair, AF_UNIX, SOCK_SEQPACKET, 0, fds);
    for (size_t i = 0; i < DZ_ARRAY_LEN(known); i++) {
        for (int32_t room = -1; room <= 17; room++) {
            set32(size, (uint32_t)room);
            TWIN(f, getsockopt, 3, SOL_SOCKET, known[i], value, size);
            set32(value, 1);
            if (known[i] != SO_RCVTIMEO && known[i] != SO_SNDTIMEO)
                TWIN(f, setsockopt, 3, SOL_SOCKET, known[i], value, room);
        }
        set32(size, 32);
        TWIN(f, getsockopt, 3, SOL_SOCKET, known[i], value, size);
        TWIN(f, getsockopt, 3, SOL_SOCKET, known[i], NOWHERE, size);
        TWIN(f, getsockopt, 3, SOL_SOCKET, known[i], value, NOWHERE);
        TWIN(f, setsockopt, 3, SOL_SOCKET, known[i], NOWHERE, 16);
        TWIN(f, setsockopt, 3, SOL_SOCKET, known[i], LRIG_END - 3, 4);
    }
    static const int64_t times[][2] = {{0, 0},  {0, 1000}, {5, 999999},    {5, 1000000},
                                       {5, -1}, {-1, 0},   {INT64_MAX, 0}, {1000, 500000}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(times); i++) {
        memcpy(lmem_at(value), times[i], 16);
        TWIN(f, setsockopt, 3, SOL_SOCKET, SO_RCVTIMEO, value, 16);
        TWIN(f, setsockopt, 3, SOL_SOCKET, SO_RCVTIMEO, value, 15);
        set32(size, 16);
        if (times[i][0] >= 0) /* this machine rounds to its ticks, and knows no negative time */
            GIVES(f, 0, getsockopt, 3, SOL_SOCKET, SO_RCVTIMEO, value, size);
    }
    TWIN(f, getsockopt, 0, SOL_SOCKET, SO_TYPE, NOWHERE, NOWHERE);
    TWIN(f, getsockopt, 99, SOL_SOCKET, SO_TYPE, NOWHERE, NOWHERE);
    TWIN(f, getsockopt, 3, SOL_SOCKET, 9999, value, size);
    TWIN(f, setsockopt, 3, SOL_SOCKET, 9999, value, 4);
    TWIN(f, getsockopt, 3, 6, 1, value, size);
    TWIN(f, getsockopt, 3, 6, 1, value, NOWHERE);
    TWIN(f, setsockopt, 3, 6, 1, value, 4);
    TWIN(f, setsockopt, 3, 6, 1, value, UINT32_MAX);
    TWIN(f, setsockopt, 0, 6, 1, value, UINT32_MAX);
    GIVES(f, 0, getsockopt, 3, SOL_SOCKET, SO_PEERCRED, value, size);
    OK(f, get32(size) == 12 && get32(value) == (uint32_t)f->p->pid && get32(value + 4) == 0);
    return 0;
}
TEST(options_have_their_sizes)
{
    host_begin();
    CHECK_INT(lrig_run(options, 0), 0);
}

/* ---- bytes -------------------------------------------------------------------------- */

static int bytes(struct fib *f)
{
    uint32_t n, other;
    const uint64_t fds = lmem_new(8), text = lmem_str("hello, world"), in = lmem_new(64);
    const uint64_t name = name_new("a", &n), to = name_new("b", &other);
    const uint64_t from = lmem_new(128), size = lmem_new(8);
    TWIN(f, socketpair, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds); /* 3, 4 */
    TWIN(f, sendto, 3, text, 12, 0, 0, 0);
    TWIN(f, recvfrom, 4, in, 5, MSG_PEEK, 0, 0);
    TWIN(f, recvfrom, 4, in, 64, 0, 0, 0);
    TWIN(f, recvfrom, 4, in, 64, 0, 0, 0);
    TWIN(f, sendto, 3, NOWHERE, 12, 0, 0, 0);
    TWIN(f, sendto, 3, text, 0, 0, 0, 0);
    TWIN(f, sendto, 0, NOWHERE, 12, 0, 0, 0);
    TWIN(f, sendto, 99, NOWHERE, 12, 0, NOWHERE, 5);
    TWIN(f, sendto, 3, text, 12, 0, to, other); /* has a peer */
    TWIN(f, sendto, 3, NOWHERE, UINT64_MAX, 0, 0, 0);
    TWIN(f, recvfrom, 4, in, UINT64_MAX, 0, 0, 0);
    TWIN(f, sendto, 3, text, 12, 0, 0, 0);
    TWIN(f, recvfrom, 4, LAST(4), 4, 0, 0, 0);
    TWIN(f, recvfrom, 4, in, 64, MSG_TRUNC, 0, 0);
    TWIN(f, socket, AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0); /* 5 */
    TWIN(f, socket, AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0); /* 6 */
    TWIN(f, bind, 5, name, n);
    TWIN(f, bind, 6, to, other);
    TWIN(f, sendto, 5, text, 12, 0, to, other);
    TWIN(f, sendto, 5, text, 12, 0, to, 129);
    TWIN(f, sendto, 5, text, 12, 0, NOWHERE, other);
    TWIN(f, sendto, 5, text, 12, 0, name, 0);
    TWIN(f, sendto, 5, LRIG_END - 5, 10, 0, to, other); /* a message is whole, or none */
    TWIN(f, sendto, 5, text, 0, 0, to, other);
    set32(size, 128);
    TWIN(f, recvfrom, 6, in, 5, MSG_TRUNC, from, size);
    OK(f, get32(size) == n && memcmp(lmem_at(from), lmem_at(name), n) == 0);
    set32(size, 4);
    TWIN(f, recvfrom, 6, in, 5, 0, from, size);
    TWIN(f, recvfrom, 6, in, 5, 0, from, size);
    for (int bad = 0; bad < 3; bad++) { /* the message is gone all the same */
        TWIN(f, sendto, 5, text, 12, 0, to, other);
        set32(size, bad == 0 ? UINT32_MAX : 128);
        TWIN(f, recvfrom, 6, in, 64, 0, bad == 1 ? NOWHERE : from, bad == 2 ? NOWHERE : size);
        TWIN(f, recvfrom, 6, in, 64, 0, 0, 0);
    }
    TWIN(f, shutdown, 4, SHUT_RDWR);
    TWIN(f, sendto, 3, text, 12, MSG_NOSIGNAL, 0, 0);
    return 0;
}
TEST(bytes_and_who_sent_them)
{
    host_begin();
    CHECK_INT(lrig_run(bytes, 0), 0);
}

/* ---- messages ----------------------------------------------------------------------- */

/* A struct msghdr with one piece. */
static uint64_t message_new(uint64_t name, uint32_t name_size, uint64_t iov, uint64_t iov_count,
                            uint64_t control, uint64_t control_size)
{
    const uint64_t v[7] = {name, name_size, iov, iov_count, control, control_size, 0};
    return lmem_put(v, sizeof v);
}
static uint64_t piece(uint64_t at, uint64_t n)
{
    const uint64_t v[2] = {at, n};
    return lmem_put(v, sizeof v);
}
/* A control buffer with one struct cmsghdr. */
static uint64_t control_new(uint64_t size, int level, int type, const int *data, size_t n)
{
    const uint64_t at = lmem_new(16 + 4 * n + 8);
    set64(at, size);
    set32(at + 8, (uint32_t)level);
    set32(at + 12, (uint32_t)type);
    for (size_t i = 0; i < n; i++)
        set32(at + 16 + 4 * i, (uint32_t)data[i]);
    return at;
}

static int messages(struct fib *f)
{
    const uint64_t fds = lmem_new(8), text = lmem_str("hello, world"), in = lmem_new(64);
    const uint64_t out = piece(text, 12), into = piece(in, 64), room = lmem_new(128);
    const uint64_t names = lmem_new(128), many = lmem_new(16 * 4);
    TWIN(f, socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds); /* 3, 4 */
    uint64_t m = message_new(0, 0, out, 1, 0, 0);
    TWIN(f, sendmsg, 3, m, 0);
    TWIN(f, sendmsg, 3, NOWHERE, 0);
    TWIN(f, sendmsg, 3, LRIG_END - 55, 0);
    TWIN(f, sendmsg, 99, NOWHERE, 0);
    TWIN(f, sendmsg, 0, NOWHERE, 0);
    TWIN(f, recvmsg, 4, NOWHERE, 0);
    uint64_t r = message_new(names, 128, into, 1, room, 128);
    TWIN(f, recvmsg, 4, r, MSG_CMSG_CLOEXEC);
    OK(f, get32(r + 8) == 0 && get64(r + 40) == 0 && get32(r + 48) == MSG_CMSG_CLOEXEC);
    TWIN(f, recvmsg, 4, r, 0);
    set64(m + 24, 1025); /* pieces */
    TWIN(f, sendmsg, 3, m, 0);
    TWIN(f, recvmsg, 3, m, 0);
    set64(m + 24, UINT64_MAX);
    TWIN(f, sendmsg, 3, m, 0);
    set64(m + 24, 1);
    set64(m + 16, NOWHERE);
    TWIN(f, sendmsg, 3, m, 0);
    set64(m + 16, out);
    set64(out + 8, UINT64_MAX);
    TWIN(f, sendmsg, 3, m, 0);
    set64(out + 8, 12);
    set32(m + 8, UINT32_MAX); /* the name's size does not matter without a name */
    TWIN(f, sendmsg, 3, m, 0);
    set64(m, names);
    TWIN(f, sendmsg, 3, m, 0);
    set32(m + 8, 0);
    TWIN(f, sendmsg, 3, m, 0);
    set64(m, NOWHERE);
    TWIN(f, sendmsg, 3, m, 0);
    set32(m + 8, 5);
    TWIN(f, sendmsg, 3, m, 0);
    set64(m, 0);
    for (int i = 0; i < 4; i++) { /* pieces of 3, 0, 4 and 100 bytes */
        set64(many + 16u * (unsigned)i, in + 8u * (unsigned)i);
        set64(many + 16u * (unsigned)i + 8, (const uint64_t[]){3, 0, 4, 100}[i]);
    }
    r = message_new(0, 0, many, 4, 0, 0);
    TWIN(f, recvmsg, 4, r, 0);
    set64(many + 16 * 3, LAST(2));
    TWIN(f, recvmsg, 4, r, MSG_PEEK);
    set64(many, NOWHERE);
    set64(many + 16 * 3, NOWHERE);
    set64(many + 16 * 2, NOWHERE);
    TWIN(f, recvmsg, 4, r, MSG_PEEK);
    set64(many + 16 * 2, in);
    set64(many, in + 20);
    set64(many + 16 * 3 + 8, 0);
    TWIN(f, recvmsg, 4, r, 0);
    OK(f, get32(r + 48) == MSG_TRUNC);
    /* A struct that can be read only: the message is gone, and nobody says so but EFAULT. */
    TWIN(f, sendmsg, 3, m, 0);
    memset(lmem.bytes + sizeof lmem.bytes - LRIG_PAGE, 0, 56);
    memcpy(lmem.bytes + sizeof lmem.bytes - LRIG_PAGE + 16, &into, 8);
    lmem.bytes[sizeof lmem.bytes - LRIG_PAGE + 24] = 1;
    TWIN(f, recvmsg, 4, LRIG_RO, 0);
    TWIN(f, recvmsg, 4, LRIG_RO, 0);
    return 0;
}
TEST(messages_have_the_layout_of_linux)
{
    host_begin();
    CHECK_INT(lrig_run(messages, 0), 0);
}

static int descriptors(struct fib *f)
{
    const uint64_t fds = lmem_new(8), text = lmem_str("x"), in = lmem_new(64);
    const uint64_t out = piece(text, 1), into = piece(in, 64), room = lmem_new(2048);
    TWIN(f, socketpair, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds); /* 3, 4 */
    TWIN(f, socketpair, AF_UNIX, SOCK_STREAM, 0, fds);                 /* 5, 6 */
    const int sent[4] = {5, 6, 0, 5};
    const uint64_t c = control_new(16 + 16, SOL_SOCKET, SCM_RIGHTS, sent, 4);
    const uint64_t m = message_new(0, 0, out, 1, c, 32), r = message_new(0, 0, into, 1, room, 0);
    /* Every size of the buffer that receives, and of the one that sends. */
    for (uint64_t n = 0; n <= 48; n++) {
        set64(m + 40, 32);
        TWIN(f, sendmsg, 3, m, 0);
        set64(r + 40, n);
        set32(r + 48, 0);
        memset(lmem_at(room), 0xee, 64);
        TWIN(f, recvmsg, 4, r, n % 2 ? MSG_CMSG_CLOEXEC : 0);
        for (int fd = 7; fd < 12; fd++)
            TWIN(f, fcntl, fd, F_GETFD, 0);
        for (int fd = 7; fd < 12; fd++)
            TWIN(f, close, fd);
        set64(m + 40, n);
        TWIN(f, sendmsg, 3, m, 0);
        set64(r + 40, 2048);
        TWIN(f, recvmsg, 4, r, 0);
        for (int fd = 7; fd < 12; fd++)
            TWIN(f, close, fd);
    }
    static const uint64_t sizes[] = {
        0, 1, 15, 16, 17, 19, 20, 21, 31, 32, 33, 40, UINT32_MAX, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < DZ_ARRAY_LEN(sizes); i++) {
        set64(c, sizes[i]);
        set64(m + 40, 32);
        TWIN(f, sendmsg, 3, m, 0);
        set64(r + 40, 2048);
        TWIN(f, recvmsg, 4, r, 0);
        for (int fd = 7; fd < 12; fd++)
            TWIN(f, close, fd);
    }
    set64(c, 32);
    static const int kinds[][2] = {
        {SOL_SOCKET, 3}, {SOL_SOCKET, 0}, {SOL_SOCKET, CREDENTIALS_TYPE}, {7, 1}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(kinds); i++) {
        set32(c + 8, (uint32_t)kinds[i][0]);
        set32(c + 12, (uint32_t)kinds[i][1]);
        TWIN(f, sendmsg, 3, m, 0);
        TWIN(f, recvmsg, 4, r, 0);
    }
    set32(c + 8, SOL_SOCKET);
    set32(c + 12, SCM_RIGHTS);
    set32(c + 16, 77); /* a descriptor that is none */
    TWIN(f, sendmsg, 3, m, 0);
    set32(c + 16, UINT32_MAX);
    TWIN(f, sendmsg, 3, m, 0);
    set32(c + 16, 5);
    set64(m + 32, NOWHERE);
    TWIN(f, sendmsg, 3, m, 0);
    set64(m + 32, c);
    set64(m + 40, UINT64_MAX);
    TWIN(f, sendmsg, 3, m, 0);
    set64(m + 40, UINT32_MAX);
    TWIN(f, sendmsg, 3, m, 0);
    /* More than a message may have, in one struct and in two. */
    const uint64_t big = lmem_new(2048);
    for (uint64_t n = 252; n <= 255; n++) {
        const uint64_t size = 16 + 4 * n;
        set64(big, size);
        set32(big + 8, SOL_SOCKET);
        set32(big + 12, SCM_RIGHTS);
        for (uint64_t i = 0; i < n; i++)
            set32(big + 16 + 4 * i, 5);
        set64(m + 32, big);
        set64(m + 40, size);
        TWIN(f, sendmsg, 3, m, 0);
        const uint64_t second = big + ((size + 7) & ~UINT64_C(7));
        set64(second, 20);
        set32(second + 8, SOL_SOCKET);
        set32(second + 12, SCM_RIGHTS);
        set32(second + 16, 5);
        set64(m + 40, second + 20 - big);
        TWIN(f, sendmsg, 3, m, 0);
        for (int i = 0; i < 2; i++) {
            set64(r + 40, 2048);
            TWIN(f, recvmsg, 4, r, 0);
            for (int fd = 7; fd < 265; fd++)
                TWIN(f, close, fd);
        }
    }
    return 0;
}
TEST(descriptors_travel_in_control_buffers)
{
    host_begin();
    CHECK_INT(lrig_run(descriptors, 0), 0);
}

/* Numbers of processes are not this machine's, so the layout is compared with what is known. */
static int credentials(struct fib *f)
{
    const uint64_t fds = lmem_new(8), text = lmem_str("x"), in = lmem_new(64), one = lmem_new(8);
    const uint64_t out = piece(text, 1), into = piece(in, 64), room = lmem_new(128);
    const int mine[3] = {f->p->pid, 0, 0};
    const uint64_t c = control_new(28, SOL_SOCKET, CREDENTIALS_TYPE, mine, 3);
    const uint64_t m = message_new(0, 0, out, 1, c, 32), r = message_new(0, 0, into, 1, room, 128);
    set32(one, 1);
    GIVES(f, 0, socketpair, AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, fds); /* 3, 4 */
    GIVES(f, 0, setsockopt, 4, SOL_SOCKET, SO_PASSCRED, one, 4);
    GIVES(f, 1, sendmsg, 3, m, 0);
    GIVES(f, 1, recvmsg, 4, r, 0);
    OK(f, get64(r + 40) == 32 && get64(room) == 28 && get32(room + 8) == SOL_SOCKET);
    OK(f, get32(room + 12) == CREDENTIALS_TYPE && get32(room + 16) == (uint32_t)f->p->pid);
    OK(f, get32(room + 20) == 0 && get32(room + 24) == 0 && get32(r + 48) == 0);
    GIVES(f, 1, sendto, 3, text, 1, 0, 0, 0); /* also of who does not say */
    set64(r + 40, 27);                        /* one byte too little */
    GIVES(f, 1, recvmsg, 4, r, 0);
    OK(f, get32(r + 48) == MSG_CTRUNC && get64(r + 40) == 0);
    set32(c + 20, 77); /* somebody else: root may */
    GIVES(f, 1, sendmsg, 3, m, 0);
    set64(r + 40, 28);
    GIVES(f, 1, recvmsg, 4, r, 0);
    OK(f, get32(r + 48) == 0 && get64(r + 40) == 28 && get32(room + 20) == 77);
    set64(c, 27);
    GIVES(f, -EINVAL, sendmsg, 3, m, 0);
    set64(c, 28);
    set32(c + 16, 9999); /* nobody */
    GIVES(f, -ESRCH, sendmsg, 3, m, 0);
    /* Both: credentials come first, and what is left is for descriptors. */
    const uint64_t both = lmem_new(64);
    const int fd = 3;
    memcpy(lmem_at(both), lmem_at(c), 32);
    set32(both + 16, (uint32_t)f->p->pid);
    set64(both + 32, 20);
    set32(both + 40, SOL_SOCKET);
    set32(both + 44, SCM_RIGHTS);
    set32(both + 48, (uint32_t)fd);
    set64(m + 32, both);
    set64(m + 40, 52);
    for (uint64_t n = 47; n <= 56; n++) {
        GIVES(f, 1, sendmsg, 3, m, 0);
        set64(r + 40, n);
        GIVES(f, 1, recvmsg, 4, r, 0);
        if (n < 52) {
            OK(f, get64(r + 40) == 32 && get32(r + 48) == MSG_CTRUNC);
        } else {
            OK(f, get64(r + 40) == n && get32(r + 48) == 0);
            OK(f, get64(room + 32) == 20 && get32(room + 44) == SCM_RIGHTS);
            OK(f, get32(room + 48) == 5);
            GIVES(f, 0, close, 5);
        }
    }
    return 0;
}
TEST(credentials_come_before_descriptors)
{
    CHECK_INT(lrig_run(credentials, 0), 0);
}

static int not_root(struct fib *f)
{
    const uint64_t fds = lmem_new(8), text = lmem_str("x");
    const int other[3] = {f->p->pid, 0, 1000};
    const uint64_t c = control_new(28, SOL_SOCKET, CREDENTIALS_TYPE, other, 3);
    const uint64_t m = message_new(0, 0, piece(text, 1), 1, c, 32);
    GIVES(f, 0, socketpair, AF_UNIX, SOCK_DGRAM, 0, fds);
    GIVES(f, -EPERM, sendmsg, 3, m, 0);
    return 0;
}
TEST(nobody_else_s_credentials_but_by_root)
{
    CHECK_INT(lrig_run(not_root, 1000), 0);
}

static int several(struct fib *f)
{
    const uint64_t fds = lmem_new(8), text = lmem_str("hello, world"), in = lmem_new(64);
    const uint64_t ts = lmem_new(16), v = lmem_new(4 * 64), w = lmem_new(4 * 64);
    TWIN(f, socketpair, AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, fds); /* 3, 4 */
    for (unsigned i = 0; i < 4; i++) {
        set64(v + 64 * i + 16, piece(text, i + 1));
        set64(v + 64 * i + 24, 1);
        set64(w + 64 * i + 16, piece(in + 16 * i, 3));
        set64(w + 64 * i + 24, 1);
    }
    TWIN(f, recvmmsg, 4, w, 4, 0, 0);
    TWIN(f, sendmmsg, 3, v, 4, 0);
    TWIN(f, recvmmsg, 4, w, 3, 0, 0);
    TWIN(f, recvmmsg, 4, w, 3, MSG_WAITFORONE, 0);
    TWIN(f, recvmmsg, 4, w, 0, 0, 0);
    TWIN(f, sendmmsg, 3, v, 0, 0);
    TWIN(f, sendmmsg, 0, v, 0, 0);
    TWIN(f, recvmmsg, 99, NOWHERE, 5, 0, 0);
    TWIN(f, sendmmsg, 3, NOWHERE, 5, 0);
    set64(v + 64 * 2 + 16, NOWHERE); /* the third one is bad: two go */
    TWIN(f, sendmmsg, 3, v, 4, 0);
    TWIN(f, recvmmsg, 4, w, 4, 0, 0);
    set64(ts, UINT64_MAX);
    TWIN(f, recvmmsg, 4, w, 4, 0, ts);
    TWIN(f, recvmmsg, 4, w, 4, 0, NOWHERE);
    set64(v + 64 * 2 + 16, get64(v + 16));
    GIVES(f, 4, sendmmsg, 3, v, 4, 0);
    set64(ts, 5);
    GIVES(f, 4, recvmmsg, 4, w, 4, 0, ts);
    OK(f, get32(w + 56) == 1 && get32(w + 64 + 56) == 2 && get32(w + 3 * 64 + 56) == 3);
    return 0;
}
TEST(several_messages_in_one_call)
{
    host_begin();
    CHECK_INT(lrig_run(several, 0), 0);
}

/* ---- anything ----------------------------------------------------------------------- */

/* Any calls on two pairs, with structs whose fields are any of what may mean something. (How a
 * stream's bytes are cut is the kernel's matter: t_kernel_sock_walk.) */
static uint64_t dice;
static uint64_t pick(uint64_t n)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (dice >> 33) % n;
}
static uint64_t any_size(void)
{
    static const uint64_t sizes[] = {0,  1,  2,  3,  4,  8,  15,  16, 20,
                                     24, 28, 32, 40, 56, 64, 128, 200};
    return sizes[pick(DZ_ARRAY_LEN(sizes))];
}
static uint64_t any_place(uint64_t data)
{
    switch (pick(12)) {
    case 0:
        return 0;
    case 1:
        return NOWHERE;
    case 2:
        return LAST(pick(40));
    case 3:
        return LRIG_END - pick(40);
    default:
        return data + 64 * pick(8);
    }
}
static void any_message(uint64_t m, uint64_t data)
{
    set64(m, pick(2) ? 0 : any_place(data));
    set32(m + 8, pick(9) ? (uint32_t)any_size() : UINT32_MAX);
    for (uint64_t i = 0; i < 3; i++) {
        set64(m + 64 + 16 * i, any_place(data));
        set64(m + 64 + 16 * i + 8, any_size());
    }
    set64(m + 16, pick(20) ? m + 64 : NOWHERE);
    set64(m + 24, pick(30) ? pick(4) : 1025);
    /* a control buffer of one or two structs, whose sizes may be wrong */
    const uint64_t c = m + 128;
    for (uint64_t i = 0; i < 2; i++) {
        set64(c + 24 * i, pick(4) ? 20 : any_size());
        set32(c + 24 * i + 8, pick(8) ? SOL_SOCKET : 0);
        set32(c + 24 * i + 12, pick(8) ? SCM_RIGHTS : 9);
        set32(c + 24 * i + 16, (uint32_t)pick(pick(4) ? 9 : 300));
    }
    const uint64_t sizes[] = {0, 20, 24, 44, any_size()};
    set64(m + 40, sizes[pick(5)]);
    set64(m + 32, pick(10) ? c : any_place(data));
    set32(m + 48, 0);
}
static int any(struct fib *f)
{
    static const int types[] = {SOCK_DGRAM, SOCK_SEQPACKET};
    static const int names[] = {SO_TYPE, SO_ERROR, SO_BROADCAST, SO_REUSEADDR, SO_RCVTIMEO, 9999};
    const uint64_t fds = lmem_new(8), data = lmem_new(1024), m = lmem_new(256), size = lmem_new(8);
    for (int i = 0; i < 2; i++)
        TWIN(f, socketpair, AF_UNIX, types[i] | SOCK_NONBLOCK, 0, fds); /* 3 to 6 */
    for (int i = 0; i < 2500; i++) {
        const uint64_t fd = pick(30) ? 3 + pick(4) : pick(12), flags = pick(2) ? 0 : MSG_PEEK;
        const uint64_t at = any_place(data), n = any_size(), name = pick(3) ? 0 : any_place(data);
        set32(size, pick(9) ? (uint32_t)any_size() : UINT32_MAX);
        set32(data + 512, (uint32_t)any_size());
        any_message(m, data);
        switch (pick(9)) {
        case 0:
        case 1:
            TWIN(f, sendmsg, fd, m, MSG_NOSIGNAL);
            break;
        case 2:
            TWIN(f, recvmsg, fd, m, flags | (pick(2) ? MSG_CMSG_CLOEXEC : MSG_TRUNC));
            break;
        case 3:
            TWIN(f, recvmsg, fd, m, flags);
            break;
        case 4:
            TWIN(f, sendto, fd, at, n, MSG_NOSIGNAL, 0, 0);
            break;
        case 5:
            TWIN(f, recvfrom, fd, at, n, flags | (pick(2) ? MSG_TRUNC : 0), name, size);
            break;
        case 6:
            TWIN(f, getsockname, fd, at, pick(9) ? size : any_place(data));
            break;
        case 7:
            TWIN(f, getsockopt, fd, SOL_SOCKET, names[pick(6)], at, size);
            break;
        default:
            TWIN(f, setsockopt, fd, SOL_SOCKET, names[1 + pick(3)], data + 512, n);
            break;
        }
        for (uint64_t extra = 7; extra < 14; extra++)
            TWIN(f, close, extra);
    }
    return 0;
}
TEST(any_calls_with_any_structs)
{
    const char *seed = getenv("DZ_SEED");
    const uint64_t first = seed ? strtoull(seed, NULL, 0) : 1, last = seed           ? first
                                                                      : DZ_SANITIZED ? 2
                                                                                     : 6;
    host_begin();
    either_error = true;
    for (dice = first; dice <= last; dice++) {
        const uint64_t at = dice;
        for (int fd = 3; fd < 16; fd++)
            (void)close(fd);
        CHECK_INT(lrig_run(any, 0), 0);
        dice = at;
    }
}

/* ---- waiting ------------------------------------------------------------------------ */

static uint64_t shared_text;
static int writes_late(struct fib *f)
{
    for (int i = 0; i < 3; i++) {
        fib_sleep(f, 10);
        GIVES(f, 4, sendto, 4, shared_text + 4 * (unsigned)i, 4, 0, 0, 0);
    }
    return 0;
}
/* What has come is in the program's memory, also while it waits for more. */
static int waits_for_all(struct fib *f)
{
    const uint64_t fds = lmem_new(8), in = lmem_new(64);
    shared_text = lmem_str("abcdefghijkl");
    GIVES(f, 0, socketpair, AF_UNIX, SOCK_STREAM, 0, fds); /* 3, 4 */
    OK(f, fib_fork(f, writes_late) > 0);
    const uint64_t iov[2][2] = {{in, 5}, {in + 32, 7}};
    const uint64_t m = message_new(0, 0, lmem_put(iov, sizeof iov), 2, 0, 0);
    GIVES(f, 12, recvmsg, 3, m, MSG_WAITALL);
    OK(f, memcmp(lmem_at(in), "abcde", 5) == 0 && memcmp(lmem_at(in + 32), "fghijkl", 7) == 0);
    /* A part, and then the end. */
    OK(f, fib_fork(f, writes_late) > 0);
    GIVES(f, 0, close, 4);
    GIVES(f, 12, recvfrom, 3, in, 64, MSG_WAITALL, 0, 0);
    OK(f, memcmp(lmem_at(in), "abcdefghijkl", 12) == 0);
    return 0;
}
TEST(waitall_gives_what_has_come)
{
    CHECK_INT(lrig_run(waits_for_all, 0), 0);
}

static int writes_over(struct fib *f)
{
    fib_sleep(f, 10);
    GIVES(f, 4, sendto, 4, shared_text, 4, 0, 0, 0);
    fib_sleep(f, 10);
    OK(f, memcmp(lmem_at(shared_text + 16), "part", 4) == 0);
    memcpy(lmem_at(shared_text + 16), "mine", 4); /* nobody writes there again */
    GIVES(f, 2, sendto, 4, shared_text, 2, 0, 0, 0);
    return 0;
}
static int shows_a_part(struct fib *f)
{
    const uint64_t fds = lmem_new(8);
    shared_text = lmem_str("part\0 and what is read");
    GIVES(f, 0, socketpair, AF_UNIX, SOCK_STREAM, 0, fds);
    OK(f, fib_fork(f, writes_over) > 0);
    GIVES(f, 6, recvfrom, 3, shared_text + 16, 6, MSG_WAITALL, 0, 0);
    OK(f, memcmp(lmem_at(shared_text + 16), "minepa", 6) == 0);
    return 0;
}
TEST(a_part_is_written_once)
{
    CHECK_INT(lrig_run(shows_a_part, 0), 0);
}

static int times_out(struct fib *f)
{
    const uint64_t fds = lmem_new(8), in = lmem_new(64), value = lmem_new(16);
    GIVES(f, 0, socketpair, AF_UNIX, SOCK_STREAM, 0, fds);
    set64(value, 2);
    set64(value + 8, 500000);
    GIVES(f, 0, setsockopt, 3, SOL_SOCKET, SO_RCVTIMEO, value, 16);
    const int64_t t = f->r->now;
    GIVES(f, -EAGAIN, recvfrom, 3, in, 6, 0, 0, 0);
    OK(f, f->r->now == t + 2500 * MS);
    set64(value, UINT64_MAX); /* before now: at once */
    set64(value + 8, 0);
    GIVES(f, 0, setsockopt, 3, SOL_SOCKET, SO_RCVTIMEO, value, 16);
    GIVES(f, -EAGAIN, recvfrom, 3, in, 6, 0, 0, 0);
    OK(f, f->r->now <= t + 2501 * MS);
    return 0;
}
TEST(timeouts_are_those_of_the_option)
{
    CHECK_INT(lrig_run(times_out, 0), 0);
}

/* ---- traces ------------------------------------------------------------------------- */

static int shows(struct fib *f)
{
    const uint64_t fds = lmem_new(8), text = lmem_str("hi"), in = lmem_new(8), size = lmem_new(8);
    const uint64_t path = lmem_put("\1\0/tmp/socket", 14), abstract = lmem_put("\1\0\0me", 5);
    const uint64_t inet = lmem_put("\2\0\0\65\177\0\0\1\0\0\0\0\0\0\0\0", 16), got = lmem_new(128);
    const int fd = 1, ids[3] = {5, 6, 7};
    const uint64_t c = control_new(20, SOL_SOCKET, SCM_RIGHTS, &fd, 1), room = lmem_new(64);
    const uint64_t m = message_new(0, 0, piece(text, 2), 1, c, 24);
    const uint64_t r = message_new(0, 128, piece(in, 8), 1, room, 64);
    TRACED(f, "socketpair(AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC, 0, [3, 4]) = 0", 0, socketpair,
           AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);
    TRACED(
        f,
        "socket(AF_PACKET, SOCK_DGRAM|SOCK_NONBLOCK, 0) = -1 EAFNOSUPPORT (Address family not supported by protocol)",
        -EAFNOSUPPORT, socket, AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    TRACED(
        f,
        "connect(3, {sa_family=AF_UNIX, sun_path=\"/tmp/socket\"}, 14) = -1 ENOENT (No such file or directory)",
        -ENOENT, connect, 3, path, 14);
    TRACED(
        f,
        "bind(0, {sa_family=AF_UNIX, sun_path=@\"me\"}, 5) = -1 ENOTSOCK (Socket operation on non-socket)",
        -ENOTSOCK, bind, 0, abstract, 5);
    TRACED(
        f,
        "connect(0, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr(\"127.0.0.1\")}, 16) = -1 ENOTSOCK (Socket operation on non-socket)",
        -ENOTSOCK, connect, 0, inet, 16);
    TRACED(f, "connect(0, 0x7fff00000000, 16) = -1 ENOTSOCK (Socket operation on non-socket)",
           -ENOTSOCK, connect, 0, NOWHERE, 16);
    TRACED(f, "accept4(3, NULL, NULL, SOCK_CLOEXEC) = -1 EINVAL (Invalid argument)", -EINVAL,
           accept4, 3, 0, 0, SOCK_CLOEXEC);
    TRACED(f, "sendto(3, \"hi\", 2, MSG_DONTWAIT|MSG_NOSIGNAL, NULL, 0) = 2", 2, sendto, 3, text, 2,
           MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);
    set32(size, 128);
    GIVES(f, 2, recvfrom, 4, in, 8, MSG_PEEK, got, size);
    OK(f, strncmp(lrig_line, "recvfrom(4, \"hi\", 8, MSG_PEEK, 0x", 33) == 0);
    OK(f, strstr(lrig_line, ", [0]) = 2")); /* nobody has a name */
    TRACED(f, "recvfrom(4, \"hi\", 8, 0, NULL, NULL) = 2", 2, recvfrom, 4, in, 8, 0, 0, 0);
    set32(size, 128);
    TRACED(f, "getsockname(3, {sa_family=AF_UNIX}, [2]) = 0", 0, getsockname, 3, got, size);
    TRACED(f, "shutdown(4, SHUT_RD) = 0", 0, shutdown, 4, SHUT_RD);
    set32(size, 4);
    TRACED(f, "getsockopt(3, SOL_SOCKET, SO_TYPE, [1], [4]) = 0", 0, getsockopt, 3, SOL_SOCKET,
           SO_TYPE, in, size);
    TRACED(f,
           "sendmsg(4, {msg_name=NULL, msg_namelen=0, msg_iov=[{iov_base=\"hi\", iov_len=2}], "
           "msg_iovlen=1, msg_control=[{cmsg_len=20, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, "
           "cmsg_data=[1]}], msg_controllen=24, msg_flags=0}, 0) = 2",
           2, sendmsg, 4, m, 0);
    TRACED(f,
           "recvmsg(3, {msg_name=NULL, msg_namelen=128, msg_iov=[{iov_base=\"hi\", "
           "iov_len=8}], msg_iovlen=1, msg_control=[{cmsg_len=20, cmsg_level=SOL_SOCKET, "
           "cmsg_type=SCM_RIGHTS, cmsg_data=[5]}], msg_controllen=24, "
           "msg_flags=MSG_CMSG_CLOEXEC}, MSG_CMSG_CLOEXEC) = 2",
           2, recvmsg, 3, r, MSG_CMSG_CLOEXEC);
    memcpy(lmem_at(c + 16), ids, sizeof ids);
    set64(c, 28);
    set32(c + 12, CREDENTIALS_TYPE);
    set64(m + 40, 28);
    OK(f, CALL(f, sendmsg, 99, m, 0) == -EBADF);
    OK(f, strstr(lrig_line, "cmsg_type=SCM_CREDENTIALS, cmsg_data={pid=5, uid=6, gid=7}}]"));
    TRACED(f, "recvmsg(3, 0x7fff00000000, 0) = -1 EFAULT (Bad address)", -EFAULT, recvmsg, 3,
           NOWHERE, 0);
    return 0;
}
TEST(traces_show_names_and_messages)
{
    CHECK_INT(lrig_run(shows, 0), 0);
}

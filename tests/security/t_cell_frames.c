/* SPDX-License-Identifier: MIT
 *
 * What a host and a cell may do to one another over their socket: a cell that has
 * been taken over, a host that is out of its mind. And each system call outside of
 * the jail's list: it kills the cell that tried it, and nobody else.
 */
#include "tap.h"

#include "../lib/cell_rig.h"
#include "../lib/dice.h"

#include "cell/cell_call.h"
#include "cell/cell_int.h"
#include "os/os_jail.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum {
    PATIENCE_S = 300, /* hundreds of jailed processes, under ASan, beside other work */
    SYSCALLS = 470,   /* numbers that Linux has given away */
    FRAMES = 2000,
};

/* --- system calls --------------------------------------------------------------------- */

/* Linux lets its probes' own two pass every filter; called by anybody else they are an
 * error or SIGILL. */
static bool is_probe(int number)
{
    return number == 335 || number == 336;
}

static bool is_allowed(int number)
{
    for (size_t i = 0; i < dz_os_jail_compute_count; i++)
        if (dz_os_jail_compute[i].number == number)
            return true;
    return false;
}

static int try_syscall(struct dz_call *c, void *arg, struct dz_err *err)
{
    (void)c;
    (void)err;
    (void)syscall(*(const int *)arg, 0, 0, 0, 0, 0, 0);
    return 0;
}

TEST(each_call_outside_of_the_list_kills_only_the_cell)
{
    struct dz_err err;
    (void)alarm(PATIENCE_S);
    for (int n = 0; n < SYSCALLS; n++) {
        const struct dz_call_opts o = {.what = "test", .run = try_syscall, .arg = &n};
        if (is_allowed(n) || is_probe(n))
            continue;
        int rc = dz_cell_call(&o, NULL, &err);
        if (rc != DZ_EIO || !strstr(err.msg, "signal 31")) {
            printf("# system call %d: %d %s\n", n, rc, err.msg);
            CHECK(false);
        }
    }
    CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
}

static int try_32_bit(struct dz_call *c, void *arg, struct dz_err *err)
{
    (void)c, (void)arg, (void)err;
#if defined(__x86_64__)
    long r = 5; /* open of the other calling convention, whose numbers are others */
    __asm__ volatile("int $0x80" : "+a"(r) : "b"("/etc/passwd"), "c"(0), "d"(0) : "memory");
    r = 0x40000000 | SYS_open; /* and of x32 */
    (void)syscall(r, "/etc/passwd", 0);
#endif
    return 0;
}

TEST(other_calling_conventions_are_no_way_out)
{
#if !defined(__x86_64__)
    SKIP("x86-64 has two others");
#endif
    struct dz_err err;
    const struct dz_call_opts o = {.what = "test", .run = try_32_bit};
    CHECK_INT(dz_cell_call(&o, NULL, &err), DZ_EIO);
    CHECK(strstr(err.msg, "signal 31") != NULL);
}

/* --- a hostile cell, to the host of a call ------------------------------------------------- */

static void random_frame(uint64_t *d, struct dz_frame *f, uint8_t *payload)
{
    static const uint32_t types[] = {1, 2, 16, 17, 18, 19, 32, 33, 40, 41, 42, 43, 44, 0, 1u << 31};
    *f = (struct dz_frame){.type = types[dice_below(d, DZ_ARRAY_LEN(types))],
                           .stream = dice_below(d, 4) ? dice_below(d, 8) : (uint32_t)dice_roll(d),
                           .value = dice_below(d, 2) ? dice_below(d, 2000) : dice_roll(d),
                           .size = dice_below(d, 3) ? dice_below(d, 64) : dice_below(d, 32768)};
    for (uint32_t i = 0; i < f->size; i++)
        payload[i] = (uint8_t)dice_roll(d);
    if (dice_below(d, 20) == 0)
        f->size = (uint32_t)dice_roll(d); /* a size that lies */
}

/* Send it as it is, whatever it says of itself. */
static int send_raw(int fd, const struct dz_frame *f, const uint8_t *payload, size_t size)
{
    static uint8_t packet[sizeof *f + DZ_CELL_FRAME_MAX];
    memcpy(packet, f, sizeof *f);
    memcpy(packet + sizeof *f, payload, size);
    return send(fd, packet, sizeof *f + size, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* In the cell: the socket is the one that it has. */
static int own_socket(void)
{
    for (int fd = 3; fd < 256; fd++) {
        char byte;
        if (recvmsg(fd, &(struct msghdr){.msg_iov = &(struct iovec){&byte, 1}, .msg_iovlen = 1},
                    MSG_DONTWAIT | MSG_PEEK) >= 0 ||
            errno == EAGAIN)
            return fd;
    }
    return -1;
}

static int speak_in_tongues(struct dz_call *c, void *arg, struct dz_err *err)
{
    static uint8_t payload[DZ_CELL_FRAME_MAX];
    uint64_t d = *(const uint64_t *)arg;
    int fd = own_socket();
    (void)c, (void)err;
    for (int i = 0; i < 50; i++) {
        struct dz_frame f;
        random_frame(&d, &f, payload);
        size_t size = f.size <= DZ_CELL_FRAME_MAX ? f.size : dice_below(&d, 100);
        if (send_raw(fd, &f, payload, size) < 0)
            break;
    }
    return 0;
}

static int take(void *host, const struct dz_call_msg *m, struct dz_err *err)
{
    (void)err;
    *(size_t *)host += m->size;
    return 0;
}

static int answer(void *host, const struct dz_call_msg *q, struct dz_call_msg *ret,
                  struct dz_err *err)
{
    (void)host, (void)err;
    *ret = (struct dz_call_msg){q->tag, q->value, q->data, q->size};
    return 0;
}

TEST(a_host_of_a_call_believes_nothing)
{
    (void)alarm(PATIENCE_S);
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct dz_err err = {0};
        struct dz_buf reply = DZ_BUF_INIT(1 << 16);
        size_t took = 0;
        const struct dz_call_opts o = {.what = "test",
                                       .run = speak_in_tongues,
                                       .arg = &seed,
                                       .timeout_ms = 5000,
                                       .receive = take,
                                       .answer = answer,
                                       .host = &took};
        int rc = dz_cell_call(&o, &reply, &err);
        CHECK(rc >= 0 || (err.msg[0] && memchr(err.msg, 0, sizeof err.msg)));
        CHECK(reply.len <= 1 << 16);
        dz_buf_release(&reply);
    }
    CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
}

/* --- a hostile host, to the cell of a machine ------------------------------------------------ */

static const char *const copy[] = {"g", "c", NULL};

/* The cell ends by itself or goes on; it never dies of a signal but the last kill. */
static void send_frames(uint64_t seed, bool go)
{
    static uint8_t payload[DZ_CELL_FRAME_MAX];
    struct crig r;
    int rc = 0;
    CHECK_INT(crig_spawn(&r, copy, "posix"), 0);
    if (go) {
        CHECK_INT(crig_go(&r), 0);
        CHECK_INT(crig_wait(&r, DZ_CELL_WINDOW_OPEN), DZ_CELL_WINDOW_OPEN);
    }
    for (int i = 0; rc == 0 && i < 60; i++) {
        struct dz_frame f;
        random_frame(&seed, &f, payload);
        f.type = dice_below(&seed, 14);
        size_t size = f.size <= DZ_CELL_FRAME_MAX ? f.size : dice_below(&seed, 100);
        rc = send_raw(dz_cell_fd(r.cell), &f, payload, size);
        struct dz_cell_event e;
        while (dz_cell_receive(r.cell, &e, &r.err) > 0)
            crig_take(&r, &e);
    }
    (void)usleep(2000);
    struct dz_cell_event e;
    while ((rc = dz_cell_receive(r.cell, &e, &r.err)) > 0)
        crig_take(&r, &e);
    if (rc < 0 && strstr(r.err.msg, "signal")) {
        printf("# seed %llu: %s\n", (unsigned long long)seed, r.err.msg);
        CHECK(false);
    }
    crig_free(&r);
}

TEST(a_cell_survives_a_host_out_of_its_mind)
{
    (void)alarm(PATIENCE_S);
    for (uint64_t seed = 1; seed <= 150; seed++)
        send_frames(seed, seed % 2);
}

/* --- the first frame ---------------------------------------------------------------------------
 */

TEST(a_start_that_lies_is_refused)
{
    static uint8_t body[4096];
    uint64_t d = 7;
    (void)alarm(PATIENCE_S);
    for (int i = 0; i < FRAMES; i++) {
        int pair[2], devnull = open("/dev/null", O_RDONLY | O_CLOEXEC);
        struct dz_started s = {0};
        struct dz_err err = {0};
        CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        const char *const env[] = {"K=V", "L=W", NULL};
        const struct dz_cell_start good = {.disk_fd = devnull,
                                           .wal_fd = devnull,
                                           .image_fd = -1,
                                           .env = env,
                                           .policy = dz_policy_find("posix")};
        struct dz_starting sent;
        CHECK_INT(dz_start_encode(&good, false, &sent, &err), 0);
        CHECK_INT(dz_start_send(pair[0], &sent, &err), 0);
        dz_buf_release(&sent.body);
        /* take it apart and put it together wrongly */
        struct dz_frame f;
        struct iovec parts[] = {{&f, sizeof f}, {body, sizeof body}};
        _Alignas(struct cmsghdr) char control[256];
        struct msghdr first = {.msg_iov = parts,
                               .msg_iovlen = 2,
                               .msg_control = control,
                               .msg_controllen = sizeof control};
        ssize_t n = recvmsg(pair[1], &first, 0);
        CHECK(n > (ssize_t)sizeof f && (size_t)n == sizeof f + f.size);
        parts[1].iov_len = f.size;
        for (uint32_t k = dice_below(&d, 6); k > 0; k--)
            body[dice_below(&d, f.size)] = (uint8_t)dice_roll(&d);
        if (dice_below(&d, 4) == 0)
            f.value = dice_roll(&d) >> dice_below(&d, 64);
        CHECK(sendmsg(pair[0], &first, 0) == n);
        (void)shutdown(pair[0], SHUT_WR);
        int rc = dz_start_receive(pair[1], &s, &err);
        CHECK(rc == 0 || err.msg[0]);
        dz_started_release(&s);
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&first); c; c = NULL)
            for (size_t k = 0; k < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); k++)
                (void)close(((int *)(void *)CMSG_DATA(c))[k]);
        (void)close(pair[0]);
        (void)close(pair[1]);
        (void)close(devnull);
    }
}

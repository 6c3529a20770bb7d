/* SPDX-License-Identifier: MIT
 *
 * Input: one byte, who listens (the host of a machine, the host of a call, a cell that
 * waits for its start), then packets: u16 length, bytes. A packet is sent as it is; what
 * comes out must be within its limits, whatever was sent. */
#include "base/fd.h"
#include "cell/cell_called.h"
#include "cell/cell_exec.h"
#include "cell/cell_int.h"

#include <assert.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PACKETS_MAX = 64, /* so that the socket takes them all */
    REPLY_MAX = 4096,
};

static void send_packets(int fd, const uint8_t *data, size_t size, bool descriptors)
{
    for (int i = 0; i < PACKETS_MAX && size >= 2; i++) {
        size_t n = (size_t)data[0] << 8 | data[1];
        data += 2;
        size -= 2;
        n = n < size ? n : size;
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {0};
        union {
            const uint8_t *in;
            void *out;
        } base = {.in = data};
        struct iovec iov = {base.out, n};
        struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
        if (descriptors && i == 0) {
            const int fds[2] = {0, 0};
            msg.msg_control = control;
            msg.msg_controllen = sizeof control;
            struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
            *c = (struct cmsghdr){CMSG_LEN(sizeof fds), SOL_SOCKET, SCM_RIGHTS};
            memcpy(CMSG_DATA(c), fds, sizeof fds);
        }
        if (sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            return;
        data += n;
        size -= n;
    }
}

static void machine_host(int fd)
{
    struct dz_cell *c = dz_cell_adopt(dup(fd));
    struct dz_cell_event e;
    struct dz_err err = {0};
    int rc = 1;
    while (c && rc > 0) {
        rc = dz_cell_receive(c, &e, &err);
        if (rc <= 0)
            break;
        assert(e.size <= DZ_CELL_FRAME_MAX && memchr(e.text, 0, DZ_CELL_FRAME_MAX + 1));
        assert(e.exit_code >= -1 && e.exit_code <= 255 && e.signal >= 0 && e.signal < 128);
        assert(dz_cell_exec_window(c, e.exec) <= DZ_CELL_WINDOW);
    }
    assert(rc >= 0 || err.msg[0]);
    dz_cell_free(c);
}

static int take(void *host, const struct dz_call_msg *m, struct dz_err *err)
{
    (void)err;
    assert(m->size <= DZ_CALL_DATA_MAX);
    *(size_t *)host += m->size;
    return 0;
}

static int answer(void *host, const struct dz_call_msg *q, struct dz_call_msg *ret,
                  struct dz_err *err)
{
    (void)host;
    if (q->tag == 99)
        return dz_fail(err, DZ_EDENIED, "no");
    *ret = (struct dz_call_msg){q->tag, q->value, q->data, q->size};
    return 0;
}

static void call_host(int fd)
{
    struct dz_buf reply = DZ_BUF_INIT(REPLY_MAX);
    struct dz_err err = {0};
    size_t took = 0;
    const struct dz_call_opts o = {
        .what = "fuzz", .receive = take, .answer = answer, .host = &took};
    int rc = dz_call_listen(fd, &o, &reply, &err);
    assert(rc >= 0 || err.code < 0);
    assert(reply.len <= REPLY_MAX);
    dz_buf_release(&reply);
}

static void cell_start(int fd)
{
    struct dz_started s = {0};
    struct dz_err err = {0};
    int rc = dz_start_receive(fd, &s, &err);
    if (rc == 0) {
        assert(s.fd_count >= 2 && s.policy && s.image_sha256);
        for (size_t i = 0; s.env[i]; i++)
            assert(s.env[i] >= s.bytes.p && s.env[i] < s.bytes.p + s.bytes.len);
    }
    dz_started_release(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int pair[2];
    if (size < 1 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return 0;
    send_packets(pair[0], data + 1, size - 1, data[0] % 3 == 2);
    (void)shutdown(pair[0], SHUT_WR);
    if (data[0] % 3 == 0)
        machine_host(pair[1]);
    else if (data[0] % 3 == 1)
        call_host(pair[1]);
    else
        cell_start(pair[1]);
    (void)close(pair[0]);
    (void)close(pair[1]);
    return 0;
}

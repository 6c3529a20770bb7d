/* SPDX-License-Identifier: MIT */
#include "tap.h"

#include "base/fd.h"
#include "cell/cell_int.h"
#include "kernel/kernel.h"

#include <fcntl.h>
#include <sys/socket.h>

static int pair[2];

static void open_pair(void)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
}

static void close_pair(void)
{
    dz_fd_close(&pair[0]);
    dz_fd_close(&pair[1]);
}

TEST(a_frame_arrives_as_it_was_sent)
{
    static uint8_t payload[DZ_CELL_FRAME_MAX];
    struct dz_frame f = {.type = DZ_FRAME_OUTPUT, .stream = 2, .value = 7, .size = 5}, got;
    struct dz_err err = {0};
    open_pair();
    CHECK_INT(dz_frame_receive(pair[1], &got, payload, false, &err), 0);
    CHECK_INT(dz_frame_send(pair[0], &f, "bytes", true, &err), 1);
    CHECK_INT(dz_frame_receive(pair[1], &got, payload, true, &err), 1);
    CHECK(memcmp(&f, &got, sizeof f) == 0 && memcmp(payload, "bytes", 5) == 0);
    close_pair();
}

TEST(lies_about_the_size_are_refused)
{
    static uint8_t payload[DZ_CELL_FRAME_MAX];
    struct dz_frame f = {.type = DZ_FRAME_OUTPUT, .size = 100}, got;
    struct dz_err err = {0};
    open_pair();
    CHECK_INT(send(pair[0], &f, sizeof f, 0), sizeof f);
    CHECK_INT(dz_frame_receive(pair[1], &got, payload, true, &err), DZ_EIO);
    CHECK_INT(send(pair[0], &f, 3, 0), 3);
    CHECK_INT(dz_frame_receive(pair[1], &got, payload, true, &err), DZ_EIO);
    dz_fd_close(&pair[0]);
    CHECK_INT(dz_frame_receive(pair[1], &got, payload, true, &err), DZ_EIO);
    close_pair();
}

TEST(a_full_socket_says_so)
{
    static const uint8_t payload[DZ_CELL_FRAME_MAX];
    struct dz_frame f = {.type = DZ_FRAME_OUTPUT, .size = sizeof payload};
    struct dz_err err = {0};
    int sent = 0, rc;
    open_pair();
    while ((rc = dz_frame_send(pair[0], &f, payload, false, &err)) == 1 && sent < 10000)
        sent++;
    CHECK_INT(rc, 0);
    CHECK(sent > 0);
    close_pair();
}

/* A cell that ends while our words to it are unread: Linux reports that first. */
TEST(last_words_are_heard_after_a_reset)
{
    static uint8_t payload[DZ_CELL_FRAME_MAX];
    struct dz_frame f = {.type = DZ_FRAME_ENDED, .value = 3}, unread = {.type = DZ_FRAME_EOF}, got;
    struct dz_err err = {0};
    open_pair();
    CHECK_INT(dz_frame_send(pair[0], &f, NULL, true, &err), 1);
    CHECK_INT(dz_frame_send(pair[1], &unread, NULL, true, &err), 1);
    dz_fd_close(&pair[0]);
    CHECK_INT(dz_frame_receive(pair[1], &got, payload, true, &err), 1);
    CHECK(got.type == DZ_FRAME_ENDED && got.value == 3);
    CHECK_INT(dz_frame_receive(pair[1], &got, payload, true, &err), DZ_EIO);
    close_pair();
}

static const char *const argv[] = {"prog", "a b", "", NULL};
static const char *const env[] = {"A=1", "B=", NULL};
static const char *const preopens[] = {"/d=/", NULL};

static struct dz_cell_start a_start(int fd)
{
    return (struct dz_cell_start){.disk_fd = fd,
                                  .wal_fd = fd,
                                  .image_fd = fd,
                                  .image_sha256 = "abc",
                                  .module_fds = NULL,
                                  .argv = argv,
                                  .env = env,
                                  .preopens = preopens,
                                  .cwd = "/tmp",
                                  .policy = dz_policy_find("minimal"),
                                  .tty = true,
                                  .fresh = true,
                                  .rows = 24,
                                  .cols = 80};
}

TORTURE(a_start_arrives_whole)
{
    struct dz_err err = {0};
    struct dz_started got;
    open_pair();
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct dz_cell_start s = a_start(fd);
    if (dz_start_send(pair[0], &s, false, &err) == 0) {
        if (dz_start_receive(pair[1], &got, &err) == 0) {
            CHECK_STR(got.program, "prog");
            CHECK_STR(got.argv[1], "a b");
            CHECK_STR(got.argv[2], "");
            CHECK(got.argv[3] == NULL && got.env[2] == NULL && got.preopens[1] == NULL);
            CHECK_STR(got.env[1], "B=");
            CHECK_STR(got.preopens[0], "/d=/");
            CHECK_STR(got.cwd, "/tmp");
            CHECK_STR(got.user, "0");
            CHECK_STR(got.policy, "minimal");
            CHECK_STR(got.image_sha256, "abc");
            CHECK(got.tty && got.fresh && !got.open_stdin && !got.ephemeral);
            CHECK(got.rows == 24 && got.cols == 80 && got.image_fd >= 0);
            CHECK_INT(got.fd_count, 3);
        }
        dz_started_release(&got);
    }
    dz_fd_close(&fd);
    close_pair();
}

TEST(a_start_that_is_none_is_refused)
{
    struct dz_frame f = {.type = DZ_FRAME_START, .value = 64};
    struct dz_err err = {0};
    struct dz_started got;
    open_pair(); /* without descriptors */
    CHECK_INT(send(pair[0], &f, sizeof f, 0), sizeof f);
    CHECK_INT(dz_start_receive(pair[1], &got, &err), DZ_EIO);
    dz_started_release(&got);
    close_pair();
}

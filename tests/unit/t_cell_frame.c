/* SPDX-License-Identifier: MIT */
#include "tap.h"

#include "base/fd.h"
#include "cell/cell_host.h"
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
    const struct dz_cell_sleeper sleepers[] = {{"exe_1", 7}, {"exe_2", 0}};
    const struct dz_frame early = {.type = DZ_FRAME_INPUT, .stream = 4, .size = 5};
    struct dz_cell_start s = a_start(fd);
    struct dz_starting sent;
    s.sleepers = sleepers;
    s.sleeper_count = 2;
    if (dz_start_encode(&s, false, &sent, &err) == 0) {
        CHECK(dz_start_add(&sent, &early, "early"));
        int rc = dz_start_send(pair[0], &sent, &err);
        dz_buf_release(&sent.body);
        if (rc == 0 && dz_start_receive(pair[1], &got, &err) == 0) {
            CHECK_STR(got.sleepers[0], "exe_1");
            CHECK_STR(got.sleepers[1], "exe_2");
            CHECK(got.sleepers[2] == NULL);
            CHECK_INT(got.bytes.len - got.early, sizeof early + 5);
            CHECK(memcmp(got.bytes.p + got.early, &early, sizeof early) == 0 &&
                  memcmp(got.bytes.p + got.early + sizeof early, "early", 5) == 0);
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
        if (rc == 0)
            dz_started_release(&got);
    }
    dz_fd_close(&fd);
    close_pair();
}

/* --- frames that go together ------------------------------------------------------------------ */

static uint8_t bytes[DZ_CELL_FRAME_MAX];

static void say(struct dz_frame_out *o, uint64_t value, uint32_t size)
{
    const struct dz_frame f = {.type = DZ_FRAME_OUTPUT, .value = value, .size = size};
    CHECK_INT(dz_out_add(o, &f, bytes, false), 1);
}

TEST(what_is_said_between_two_looks_goes_in_one_packet_and_in_its_order)
{
    static struct dz_frame_out o;
    struct dz_frame got, inner;
    struct dz_err err = {0};
    open_pair();
    o.fd = pair[0];
    CHECK_INT(dz_out_flush(&o, false), 1); /* nothing is nothing */
    CHECK_INT(dz_frame_receive(pair[1], &got, bytes, false, &err), 0);
    say(&o, 1, 3);
    CHECK_INT(dz_out_flush(&o, false), 1);
    CHECK_INT(dz_frame_receive(pair[1], &got, bytes, false, &err), 1);
    CHECK(got.type == DZ_FRAME_OUTPUT && got.value == 1 && got.size == 3);
    say(&o, 2, 3);
    say(&o, 3, 0);
    CHECK_INT(dz_frame_receive(pair[1], &got, bytes, false, &err), 0);
    say(&o, 4, DZ_OUT_MAX); /* it has no room beside the others */
    CHECK_INT(dz_frame_receive(pair[1], &got, bytes, false, &err), 1);
    CHECK_INT(got.type, DZ_FRAME_TOGETHER);
    CHECK_INT(got.size, 2 * sizeof inner + 3);
    memcpy(&inner, bytes, sizeof inner);
    CHECK_INT(inner.value, 2);
    memcpy(&inner, bytes + sizeof inner + 3, sizeof inner);
    CHECK_INT(inner.value, 3);
    CHECK_INT(dz_frame_receive(pair[1], &got, bytes, false, &err), 1);
    CHECK(got.type == DZ_FRAME_OUTPUT && got.value == 4);
    close_pair();
}

TEST(a_full_socket_keeps_what_is_said)
{
    static struct dz_frame_out o;
    struct dz_frame got;
    struct dz_err err = {0};
    uint64_t said = 0, heard = 0;
    open_pair();
    o.fd = pair[0];
    const struct dz_frame f = {.type = DZ_FRAME_OUTPUT, .size = 3000};
    for (; said < 10000; said++) {
        struct dz_frame numbered = f;
        numbered.value = said;
        if (dz_out_add(&o, &numbered, bytes, false) != 1)
            break;
    }
    CHECK(said > 2 && said < 10000);
    while (heard < said) {
        int rc = dz_frame_receive(pair[1], &got, bytes, false, &err);
        if (rc == 0)
            CHECK_INT(dz_out_flush(&o, false), 1);
        if (rc == 0)
            continue;
        bool one = got.type == DZ_FRAME_OUTPUT;
        for (size_t at = 0; at < got.size; at += sizeof f + f.size) {
            struct dz_frame inner = got;
            if (!one)
                memcpy(&inner, bytes + at, sizeof inner);
            CHECK_INT(inner.value, heard);
            heard++;
        }
    }
    close_pair();
}

/* What a cell says in one packet is taken apart by its host, which believes none of it. */
static int hear(const void *inside, uint32_t size)
{
    const struct dz_frame f = {.type = DZ_FRAME_TOGETHER, .size = size};
    struct dz_cell_event event;
    struct dz_err err = {0};
    int rc = 1, heard = 0;
    open_pair();
    CHECK_INT(dz_frame_send(pair[0], &f, inside, true, &err), 1);
    struct dz_cell *c = dz_cell_adopt(pair[1]);
    c->many = true;
    for (; (rc = dz_cell_receive(c, &event, &err)) == 1; heard++)
        CHECK_INT(event.type, DZ_CELL_LOST);
    CHECK(rc == 0 || (rc == DZ_EIO && strstr(err.msg, "makes no sense")));
    dz_cell_free(c);
    (void)close(pair[0]);
    return rc < 0 ? rc : heard;
}

TEST(a_packet_of_frames_that_lies_is_nonsense)
{
    struct dz_frame f[3] = {
        {.type = DZ_FRAME_LOST}, {.type = DZ_FRAME_LOST}, {.type = DZ_FRAME_LOST}};
    CHECK_INT(hear(f, sizeof f), 3);
    CHECK_INT(hear(f, 0), DZ_EIO);
    CHECK_INT(hear(f, sizeof f - 1), DZ_EIO);
    f[1].type = DZ_FRAME_TOGETHER; /* not in one another */
    CHECK_INT(hear(f, sizeof f), DZ_EIO);
    f[1] = (struct dz_frame){.type = DZ_FRAME_LOST, .size = sizeof f[2] + 1};
    CHECK_INT(hear(f, sizeof f), DZ_EIO);
    f[1].size = UINT32_MAX;
    CHECK_INT(hear(f, sizeof f), DZ_EIO);
    f[1].size = sizeof f[2]; /* bytes that it has no use for */
    CHECK_INT(hear(f, sizeof f), 2);
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

/* SPDX-License-Identifier: MIT */
#include "tap.h"

#include "base/fd.h"
#include "cell/cell_host.h"
#include "cell/cell_int.h"
#include "cell/cell_op.h"
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
    CHECK_INT(send(pair[0], &f, 7, 0), 7);
    CHECK_INT(dz_frame_receive(pair[1], &got, payload, true, &err), DZ_EIO);
    dz_fd_close(&pair[0]);
    CHECK_INT(dz_frame_receive(pair[1], &got, payload, true, &err), DZ_EIO);
    close_pair();
}

/* Standard error of a process is its end of the socket, so its text arrives as a packet. */
TEST(a_packet_of_text_is_words)
{
    static uint8_t payload[DZ_CELL_FRAME_MAX + 1];
    static char text[DZ_CELL_FRAME_MAX + 100];
    static const size_t sizes[] = {
        1, 3, 4, 23, 24, 25, 100, DZ_CELL_FRAME_MAX, DZ_CELL_FRAME_MAX + 24, sizeof text};
    struct dz_frame got;
    struct dz_err err = {0};
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i % 26);
    for (size_t i = 0; i < DZ_ARRAY_LEN(sizes); i++) {
        size_t want = sizes[i] < DZ_CELL_FRAME_MAX ? sizes[i] : DZ_CELL_FRAME_MAX;
        open_pair();
        memset(payload, '-', sizeof payload);
        CHECK_INT(write(pair[0], text, sizes[i]), sizes[i]);
        CHECK_INT(dz_frame_receive(pair[1], &got, payload, false, &err), 1);
        CHECK_INT(got.type, DZ_FRAME_STDERR);
        CHECK_INT(got.size, want);
        CHECK(memcmp(payload, text, want) == 0 && payload[want] == '-');
        close_pair();
    }
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
    struct dz_frame f = {.type = DZ_FRAME_SUSPENDED, .value = 3}, unread = {.type = DZ_FRAME_EOF},
                    got;
    struct dz_err err = {0};
    open_pair();
    CHECK_INT(dz_frame_send(pair[0], &f, NULL, true, &err), 1);
    CHECK_INT(dz_frame_send(pair[1], &unread, NULL, true, &err), 1);
    dz_fd_close(&pair[0]);
    CHECK_INT(dz_frame_receive(pair[1], &got, payload, true, &err), 1);
    CHECK(got.type == DZ_FRAME_SUSPENDED && got.value == 3);
    CHECK_INT(dz_frame_receive(pair[1], &got, payload, true, &err), DZ_EIO);
    close_pair();
}

static const char *const env[] = {"A=1", "B=", NULL};

static struct dz_cell_start a_start(int fd)
{
    return (struct dz_cell_start){.disk_fd = fd,
                                  .wal_fd = fd,
                                  .image_fd = fd,
                                  .image_sha256 = "abc",
                                  .module_fds = NULL,
                                  .env = env,
                                  .policy = dz_policy_find("minimal"),
                                  .asleep = DZ_CELL_WAKE_ONLY,
                                  .ends_with_main = true,
                                  .clock_ns = 77,
                                  .fresh = true};
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
            CHECK(got.env[2] == NULL);
            CHECK_STR(got.env[1], "B=");
            CHECK_STR(got.policy, "minimal");
            CHECK_STR(got.image_sha256, "abc");
            CHECK(got.ends_with_main && got.fresh && !got.ephemeral && !got.go);
            CHECK_INT(got.asleep, DZ_CELL_WAKE_ONLY);
            CHECK(got.image_fd >= 0 && got.fds[1] >= 0 && !got.readonly);
            CHECK_INT(got.clock_ns, 77);
            CHECK_INT(got.fd_count, 3);
        }
        if (rc == 0)
            dz_started_release(&got);
    }
    dz_fd_close(&fd);
    close_pair();
}

TEST(a_file_that_is_only_looked_at_needs_no_wal)
{
    struct dz_err err = {0};
    struct dz_started got;
    struct dz_starting sent;
    open_pair();
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct dz_cell_start s = a_start(fd);
    s.wal_fd = -1;
    s.readonly = true;
    CHECK_INT(dz_start_encode(&s, false, &sent, &err), 0);
    CHECK_INT(dz_start_send(pair[0], &sent, &err), 0);
    dz_buf_release(&sent.body);
    CHECK_INT(dz_start_receive(pair[1], &got, &err), 0);
    CHECK(got.readonly && got.fds[0] >= 0 && got.fds[1] == -1 && got.image_fd >= 0);
    dz_started_release(&got);
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
    for (; (rc = dz_cell_receive(c, &event, &err)) == 1; heard++)
        CHECK_INT(event.type, DZ_CELL_LOST);
    CHECK(rc == 0 || (rc == DZ_EIO && strstr(err.msg, "invalid frame")));
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

/* --- what a cell may not say ---------------------------------------------------------------- */

/* It says this so often. Returns how often that was heard, or the error. */
static int hear_again(const struct dz_frame *f, const void *payload, int count, bool forked)
{
    struct dz_reaper nobody = {.epoll = -1, .timer = -1};
    struct dz_cell_event event;
    struct dz_err err = {0};
    int heard = 0, rc = 0;
    open_pair();
    struct dz_cell *c = dz_cell_adopt(pair[1]);
    c->known = true;
    c->reaper = forked ? &nobody : NULL;
    for (int i = 0; i < count && rc >= 0; i++) {
        CHECK_INT(dz_frame_send(pair[0], f, payload, true, &err), 1);
        rc = dz_cell_receive(c, &event, &err);
        CHECK(rc <= 0 || event.type == DZ_CELL_NOTHING);
        heard += rc > 0;
    }
    CHECK(rc == 1 || (rc == DZ_EIO && strstr(err.msg, "invalid frame")));
    dz_cell_free(c);
    (void)close(pair[0]);
    return rc < 0 ? rc : heard;
}

TEST(a_cell_is_born_once_if_a_zygote_forked_it)
{
    const struct dz_frame born = {.type = DZ_FRAME_BORN}, two[] = {born, born};
    CHECK_INT(hear_again(&born, NULL, 1, true), 1);
    CHECK_INT(hear_again(&born, NULL, 2, true), DZ_EIO);
    CHECK_INT(hear_again(&born, NULL, 1, false), DZ_EIO);
    CHECK_INT(hear(two, sizeof two), DZ_EIO);
}

TEST(a_cell_says_a_few_times_what_it_uses)
{
    const struct dz_frame used = {.type = DZ_FRAME_USED, .size = 36};
    CHECK_INT(hear_again(&used, bytes, 16, false), 16);
    CHECK_INT(hear_again(&used, bytes, 17, false), DZ_EIO);
}

TEST(a_packet_that_is_longer_than_any_frame_is_nonsense)
{
    static uint8_t packet[sizeof(struct dz_frame) + DZ_CELL_FRAME_MAX + 1];
    const struct dz_frame f = {.type = DZ_FRAME_OUTPUT, .size = DZ_CELL_FRAME_MAX};
    struct dz_frame got;
    struct dz_err err = {0};
    memcpy(packet, &f, sizeof f);
    open_pair();
    CHECK(send(pair[0], packet, sizeof packet - 1, 0) == sizeof packet - 1);
    CHECK_INT(dz_frame_receive(pair[1], &got, bytes, false, &err), 1);
    CHECK(send(pair[0], packet, sizeof packet, 0) == sizeof packet);
    CHECK_INT(dz_frame_receive(pair[1], &got, bytes, false, &err), DZ_EIO);
    close_pair();
}

TEST(descriptors_that_nobody_wants_are_nonsense_and_do_not_come)
{
    const struct dz_frame f = {.type = DZ_FRAME_LOST};
    int many[DZ_FRAME_FDS_MAX + 1];
    struct dz_frame got;
    struct dz_frame_fds fds;
    struct dz_err err = {0};
    open_pair();
    int before = dup(pair[0]);
    (void)close(before);
    CHECK_INT(dz_frame_send_fds(pair[0], &f, NULL, pair, 1, &err), 1);
    CHECK_INT(dz_frame_receive(pair[1], &got, bytes, false, &err), DZ_EIO);
    for (size_t i = 0; i < DZ_ARRAY_LEN(many); i++)
        many[i] = pair[0];
    CHECK_INT(dz_frame_send_fds(pair[0], &f, NULL, many, DZ_ARRAY_LEN(many), &err), 1);
    CHECK_INT(dz_frame_receive_fds(pair[1], &got, bytes, false, &fds, &err), DZ_EIO);
    int after = dup(pair[0]);
    CHECK_INT(after, before);
    (void)close(after);
    close_pair();
}

/* --- sleepers that were named ----------------------------------------------------------------- */

/* A cell that was started for two of them, exe_1 and exe_2; what it says is ours to say. */
static struct dz_cell *started_for_two(bool hold)
{
    static const struct dz_cell_sleeper sleepers[] = {{"exe_1", 100}, {"exe_2", 0}};
    struct dz_err err = {0};
    open_pair();
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct dz_cell_start s = a_start(fd);
    s.go = true;
    s.hold = hold;
    s.sleepers = sleepers;
    s.sleeper_count = 2;
    struct dz_cell *c = dz_cell_adopt(pair[1]);
    CHECK_INT(dz_cell_send_start(c, &s, false, &err), 0);
    if (!hold)
        dz_fd_close(&fd);
    return c;
}

static void ended_for_two(struct dz_cell *c)
{
    dz_cell_free(c);
    (void)close(pair[0]);
}

static void utter(uint32_t type, uint32_t stream, uint64_t value, const void *p, uint32_t size)
{
    const struct dz_frame f = {.type = type, .stream = stream, .value = value, .size = size};
    struct dz_err err = {0};
    CHECK_INT(dz_frame_send(pair[0], &f, p, true, &err), 1);
}

struct told {
    uint32_t handle, window;
    const char *id;
};

static void utter_up(const struct told *t, uint32_t count)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(DZ_CELL_FRAME_MAX);
    const struct dz_frame_up up = {.pid = 1, .live = count};
    dz_buf_add(&b, &up, sizeof up);
    for (uint32_t i = 0; i < count; i++) {
        const struct dz_frame_live l = {.exec = t[i].handle << 2,
                                        .window = t[i].window,
                                        .id_size = (uint32_t)strlen(t[i].id) + 1};
        dz_buf_add(&b, &l, sizeof l);
        dz_buf_add(&b, t[i].id, l.id_size);
    }
    utter(DZ_FRAME_UP, 0, 0, b.p, (uint32_t)b.len);
}

/* All events up to the last one; DZ_EIO: that was nonsense. */
static int listen_to(struct dz_cell *c, int *ret_count)
{
    struct dz_cell_event e;
    struct dz_err err = {0};
    int rc;
    for (*ret_count = 0; (rc = dz_cell_receive(c, &e, &err)) == 1; ++*ret_count)
        continue;
    CHECK(rc == 0 || (rc == DZ_EIO && strstr(err.msg, "invalid frame")));
    return rc;
}

TEST(a_command_says_nothing_before_its_machine_is_up)
{
    static const uint32_t types[] = {DZ_FRAME_OUTPUT, DZ_FRAME_WINDOW, DZ_FRAME_STARTED,
                                     DZ_FRAME_EXEC_FAILED, DZ_FRAME_EXITED};
    static const char *const words[] = {"g", NULL};
    static const uint8_t zeros[sizeof(struct dz_frame_exited)];
    for (uint32_t handle = 1; handle <= 3; handle++)
        for (size_t i = 0; i < DZ_ARRAY_LEN(types); i++) {
            const struct dz_cell_exec x = {.id = "exe_3", .argv = words};
            struct dz_cell *c = started_for_two(false);
            struct dz_err err = {0};
            uint32_t third;
            int count;
            CHECK_INT(dz_cell_exec(c, &x, &third, &err), 0);
            CHECK_INT(third, 3);
            utter(types[i], handle << 2, 0, zeros, sizeof zeros);
            CHECK_INT(listen_to(c, &count), DZ_EIO);
            CHECK_INT(count, 0);
            ended_for_two(c);
            c = started_for_two(false); /* and behind that it may */
            CHECK_INT(dz_cell_exec(c, &x, &third, &err), 0);
            utter_up((const struct told[]){{1, 0, "exe_1"}, {2, 0, "exe_2"}}, 2);
            utter(types[i], handle << 2, 0, zeros, sizeof zeros);
            CHECK_INT(listen_to(c, &count), 0);
            CHECK_INT(count, 4);
            ended_for_two(c);
        }
}

TEST(those_that_wake_are_told_once_each_by_their_own_handle)
{
    static const struct {
        struct told t[3];
        uint32_t count;
        int rc;
    } all[] = {
        {{{1, 100, "exe_1"}, {2, 0, "exe_2"}}, 2, 0},
        {{{2, 0, "exe_2"}, {1, 100, "exe_1"}}, 2, 0},
        {{{0}}, 0, 0},
        {{{2, 0, "exe_2"}, {DZ_EXEC_WOKEN, 0, "exe_7"}}, 2, 0},
        {{{1, 100, "exe_1"}, {1, 100, "exe_1"}}, 2, DZ_EIO},
        {{{1, 100, "exe_1"}, {3, 0, "exe_3"}}, 2, DZ_EIO},
        {{{0, 100, "exe_1"}}, 1, DZ_EIO},
        {{{1, DZ_CELL_WINDOW + 1, "exe_1"}}, 1, DZ_EIO},
        {{{1, 100, ""}}, 1, DZ_EIO},
        {{{DZ_EXEC_WOKEN, 0, "exe_7"}, {DZ_EXEC_WOKEN, 0, "exe_7"}}, 2, DZ_EIO},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++) {
        struct dz_cell *c = started_for_two(false);
        int count;
        utter_up(all[i].t, all[i].count);
        CHECK_INT(listen_to(c, &count), all[i].rc);
        if (all[i].rc == 0) {
            CHECK_INT(count, all[i].count + 1);
            CHECK_INT(c->execs.n, all[i].count); /* the others are over */
        }
        ended_for_two(c);
    }
}

/* What was sent to one before it was announced is not in the window that is announced. */
TEST(a_window_is_less_what_went_with_the_start)
{
    struct dz_cell *c = started_for_two(false);
    struct dz_err err = {0};
    int count;
    CHECK_INT(dz_cell_exec_input(c, 1, bytes, 200, &err), 100);
    CHECK_INT(dz_cell_exec_input(c, 1, bytes, 1, &err), 0);
    CHECK_INT(dz_cell_exec_input(c, 2, bytes, 1, &err), 0);
    utter_up((const struct told[]){{1, 50, "exe_1"}, {2, DZ_CELL_WINDOW, "exe_2"}}, 2);
    CHECK_INT(listen_to(c, &count), 0);
    CHECK_INT(dz_cell_exec_window(c, 1), 0); /* it has less than it had: never below nothing */
    CHECK_INT(dz_cell_exec_window(c, 2), DZ_CELL_WINDOW);
    utter(DZ_FRAME_WINDOW, 1 << 2, DZ_CELL_WINDOW, NULL, 0);
    CHECK_INT(listen_to(c, &count), 0);
    utter(DZ_FRAME_WINDOW, 1 << 2, 1, NULL, 0);
    CHECK_INT(listen_to(c, &count), DZ_EIO);
    ended_for_two(c);
}

static void take_with_fds(struct dz_frame *ret)
{
    struct dz_frame_fds fds = {.count = 0};
    struct dz_err err = {0};
    CHECK_INT(dz_frame_receive_fds(pair[0], ret, bytes, false, &fds, &err), 1);
    CHECK(fds.count > 0);
    for (size_t i = 0; i < fds.count; i++)
        (void)close(fds.fds[i]);
}

TEST(nothing_goes_before_a_start_that_is_held)
{
    static uint8_t payload[DZ_CELL_FRAME_MAX];
    struct dz_cell *c = started_for_two(true);
    struct dz_frame got;
    struct dz_err err = {0};
    int fd = c->held->fds[0];
    CHECK_INT(dz_cell_room(c, 7, &err), 0);
    CHECK_INT(dz_cell_snapshot(c, fd, &err), 0);
    CHECK_INT(dz_cell_room(c, 8, &err), 0);
    CHECK_INT(dz_cell_flush(c, &err), 0);
    CHECK_INT(dz_frame_receive(pair[0], &got, payload, false, &err), 0);
    CHECK_INT(dz_cell_begin(c, &err), 0);
    take_with_fds(&got);
    CHECK_INT(got.type, DZ_FRAME_START);
    CHECK_INT(got.size - got.value, sizeof got); /* the first ROOM; a descriptor goes by itself */
    take_with_fds(&got);
    CHECK_INT(got.type, DZ_FRAME_SNAPSHOT);
    CHECK_INT(dz_frame_receive(pair[0], &got, payload, false, &err), 1);
    CHECK(got.type == DZ_FRAME_ROOM && got.value == 8);
    dz_fd_close(&fd);
    ended_for_two(c);
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

/* --- windows ------------------------------------------------------------------------------------
 */

/* A cell of which nothing has been heard. */
static struct dz_cell *silent_cell(void)
{
    open_pair();
    struct dz_cell *c = dz_cell_adopt(pair[1]);
    return c;
}

/* --- turns ----------------------------------------------------------------------------------- */

/* The host's loop bounds a turn by events, so each frame must come out of its own receive. */
TEST(each_word_of_use_counts_as_an_event)
{
    enum {
        FRAMES = 16
    };
    static const uint8_t use[48] = {1};
    struct dz_cell_event event = {0};
    struct dz_err err = {0};
    uint8_t byte;
    struct dz_cell *c = silent_cell();
    for (int i = 0; i < FRAMES; i++)
        utter(DZ_FRAME_USED, 0, 0, use, sizeof use);
    for (int i = 0; i < FRAMES; i++) {
        CHECK(recv(pair[1], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1);
        CHECK_INT(dz_cell_receive(c, &event, &err), 1);
        CHECK_INT(event.type, DZ_CELL_NOTHING);
    }
    CHECK_INT(dz_cell_receive(c, &event, &err), 0);
    dz_cell_free(c);
    (void)close(pair[0]);
}

static uint32_t begin_op(struct dz_cell *c, const char *text)
{
    const struct dz_cell_op o = {.type = DZ_CELL_OP_SQL, .path = "", .text = text};
    uint32_t op = 0;
    struct dz_err err = {0};
    CHECK_INT(dz_cell_op_start(c, &o, &op, &err), 0);
    return op;
}

/* What comes of one more frame about the operation: its event's type, or DZ_E*. */
static int after(struct dz_cell *c, uint32_t type, uint32_t op, uint64_t value)
{
    struct dz_cell_event event;
    struct dz_err err = {0};
    utter(type, op, value, NULL, 0);
    int rc = dz_cell_receive(c, &event, &err);
    return rc == 1 ? (int)event.type : rc;
}

TEST(a_window_of_an_operation_has_its_most)
{
    const uint64_t most = DZ_CELL_OP_WINDOW;
    static const uint64_t steps[][2] = {
        {most, 1},     {most / 2, most / 2 + 1}, {1, most}, {most, most}, {1, UINT64_MAX},
        {0, most + 1}, {1, UINT64_MAX - most}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(steps); i++) {
        struct dz_cell *c = silent_cell();
        uint32_t op = begin_op(c, "x");
        CHECK_INT(after(c, DZ_FRAME_OP_WINDOW, op, steps[i][0]), DZ_CELL_OP_WINDOW_OPEN);
        CHECK_INT(dz_cell_op_window(c, op), steps[i][0]);
        CHECK_INT(after(c, DZ_FRAME_OP_WINDOW, op, steps[i][1]), DZ_EIO);
        ended_for_two(c);
    }
    struct dz_cell *c = silent_cell();
    uint32_t op = begin_op(c, "x");
    const size_t piece = 1000;
    struct dz_err err = {0};
    CHECK_INT(dz_cell_op_send(c, op, bytes, piece, &err), 0);
    CHECK_INT(after(c, DZ_FRAME_OP_WINDOW, op, 1500), DZ_CELL_OP_WINDOW_OPEN);
    CHECK_INT(dz_cell_op_send(c, op, bytes, piece, &err), 1000);
    CHECK_INT(dz_cell_op_send(c, op, bytes, piece, &err), 500);
    CHECK_INT(dz_cell_op_send(c, op, bytes, piece, &err), 0);
    CHECK_INT(after(c, DZ_FRAME_OP_WINDOW, op, most), DZ_CELL_OP_WINDOW_OPEN); /* all used again */
    ended_for_two(c);
}

TEST(an_operation_ends_once_with_a_code_that_is_one)
{
    struct dz_err err = {0};
    for (int64_t code = -DZ_CELL_CODE_MAX - 1; code <= -DZ_CELL_CODE_MAX; code++) {
        struct dz_cell *c = silent_cell();
        uint32_t op = begin_op(c, "x");
        bool good = code >= -DZ_CELL_CODE_MAX;
        CHECK_INT(after(c, DZ_FRAME_OP_DONE, op, (uint64_t)code), good ? DZ_CELL_OP_DONE : DZ_EIO);
        if (good) {
            CHECK_INT(dz_cell_op_end(c, op, &err), DZ_ENOENT);
            CHECK_INT(after(c, DZ_FRAME_OP_DONE, op, 0), DZ_EIO);
        }
        ended_for_two(c);
    }
}

TEST(an_operation_is_begun_while_there_is_somebody_to_do_it)
{
    static char text[DZ_CELL_OP_TEXT_MAX + 2];
    struct dz_cell *c = silent_cell();
    struct dz_err err = {0};
    uint32_t op;
    memset(text, 'x', DZ_CELL_OP_TEXT_MAX);
    (void)begin_op(c, text); /* the longest */
    text[DZ_CELL_OP_TEXT_MAX] = 'x';
    const struct dz_cell_op longer = {.type = DZ_CELL_OP_SQL, .path = "", .text = text};
    CHECK_INT(dz_cell_op_start(c, &longer, &op, &err), DZ_ELIMIT);
    const struct dz_cell_op any = {.type = DZ_CELL_OP_STAT, .path = "/"};
    c->suspending = true;
    CHECK_INT(dz_cell_op_start(c, &any, &op, &err), DZ_ESTATE);
    c->suspending = false;
    c->ended = true;
    CHECK_INT(dz_cell_op_start(c, &any, &op, &err), DZ_ESTATE);
    ended_for_two(c);
}

/* The same of a command's input. */
TEST(a_window_of_input_has_its_most)
{
    static const char *const argv[] = {"g", NULL};
    const struct dz_cell_exec main = {.id = DZ_CELL_MAIN, .argv = argv, .open_stdin = true};
    struct dz_cell_event event;
    struct dz_err err = {0};
    for (uint64_t more = 0; more < 2; more++) {
        struct dz_cell *c = silent_cell();
        uint32_t exec;
        CHECK_INT(dz_cell_exec(c, &main, &exec, &err), 0);
        utter(DZ_FRAME_WINDOW, exec << 2 | DZ_CELL_STDIN, DZ_CELL_WINDOW - 1, NULL, 0);
        utter(DZ_FRAME_WINDOW, exec << 2 | DZ_CELL_STDIN, 1 + more, NULL, 0);
        CHECK_INT(dz_cell_receive(c, &event, &err), 1);
        CHECK_INT(dz_cell_receive(c, &event, &err), more ? DZ_EIO : 1);
        ended_for_two(c);
    }
}

TEST(a_frame_is_as_long_as_it_says)
{
    static const struct dz_frame f = {.type = DZ_FRAME_LOST, .size = 3};
    uint8_t packet[sizeof f + 4] = {0};
    struct dz_frame got;
    struct dz_err err = {0};
    static uint8_t payload[DZ_CELL_FRAME_MAX + 1];
    memcpy(packet, &f, sizeof f);
    for (size_t n = 1; n <= sizeof packet; n++) {
        open_pair();
        CHECK_INT(send(pair[0], packet, n, 0), n);
        CHECK_INT(dz_frame_receive(pair[1], &got, payload, false, &err),
                  n < sizeof f.type || n == sizeof f + 3 ? 1 : DZ_EIO);
        (void)close(pair[0]);
        (void)close(pair[1]);
    }
}

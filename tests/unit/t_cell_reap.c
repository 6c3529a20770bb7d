/* SPDX-License-Identifier: MIT
 * Which process sent a packet, and whose number that is. */
#include "tap.h"

#include "cell/cell_int.h"
#include "cell/cell_reap.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static const struct dz_frame born = {.type = DZ_FRAME_BORN};

/* A child that says that it is born on each of these, and ends. */
static pid_t say_born(const int *fds, size_t count)
{
    pid_t pid = fork();
    if (pid == 0) {
        for (size_t i = 0; i < count; i++)
            (void)dz_frame_send(fds[i], &born, NULL, true, NULL);
        _exit(0);
    }
    CHECK(pid > 0);
    return pid;
}

/* A child with this number, which stays. */
static pid_t stay_as(pid_t wanted)
{
    struct clone_args args = {
        .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&wanted, .set_tid_size = 1};
    long pid = syscall(SYS_clone3, &args, sizeof args);
    while (pid == 0)
        (void)poll(NULL, 0, -1);
    return (pid_t)pid;
}

static void wait_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    CHECK_INT(poll(&p, 1, -1), 1);
}

static void open_asking(int ends[2])
{
    struct dz_err err = {0};
    CHECK_INT(dz_frame_pair(ends, &err), 0);
    dz_frame_ask_sender(ends[0], true);
}

TEST(who_sent_a_packet_has_one_holder_until_it_is_reaped)
{
    int one[2], two[2];
    struct dz_sender who;
    open_asking(one);
    open_asking(two);
    CHECK_INT(dz_frame_sender(one[0], &who), 0);
    const int fds[] = {one[1], two[1]};
    pid_t pid = say_born(fds, 2);
    wait_readable(two[0]);
    CHECK_INT(dz_frame_sender(one[0], &who), 1);
    CHECK_INT(who.pid, pid);
    CHECK(dz_reap_claim_sender(&who));
    CHECK_INT(dz_frame_sender(two[0], &who), 1);
    CHECK(!dz_reap_claim_sender(&who));
    CHECK(!dz_reap_claim(pid));
    CHECK_INT(dz_reap_or_kill(pid, 10000), 0);
    if (dz_frame_sender(two[0], &who) > 0)
        CHECK(!dz_reap_claim_sender(&who));
}

/* A zygote that was taken over lets a child of its own speak on two sockets. When the first is read
 * the child is reaped, and its number becomes another tenant's cell's. */
TEST(a_number_that_is_in_use_again_is_not_its_senders)
{
    int one[2], two[2];
    struct dz_sender who;
    open_asking(one);
    open_asking(two);
    const int fds[] = {one[1], two[1]};
    pid_t pid = say_born(fds, 2);
    wait_readable(two[0]);
    CHECK_INT(dz_frame_sender(one[0], &who), 1);
    if (who.pidfd < 0)
        SKIP("this kernel does not say which process sent a packet, only its number");
    CHECK(dz_reap_claim_sender(&who));
    CHECK_INT(dz_reap_or_kill(pid, 10000), 0);
    pid_t other = stay_as(pid);
    if (other < 0)
        SKIP("only root chooses numbers of processes");
    CHECK_INT(other, pid);
    CHECK(dz_frame_sender(two[0], &who) < 0 || !dz_reap_claim_sender(&who));
    CHECK(dz_reap_claim(other)); /* it is still nobody's */
    (void)dz_reap_or_kill(other, 0);
}

TEST(a_first_packet_with_descriptors_is_nobodys)
{
    int ends[2];
    struct dz_sender who;
    struct dz_err err = {0};
    open_asking(ends);
    int before = dup(ends[0]);
    (void)close(before);
    CHECK_INT(dz_frame_send_fds(ends[1], &born, NULL, ends, 2, &err), 1);
    CHECK(dz_frame_sender(ends[0], &who) < 0);
    int after = dup(ends[0]);
    CHECK_INT(after, before); /* none of them came */
    (void)close(after);
}

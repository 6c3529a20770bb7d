/* SPDX-License-Identifier: MIT
 * Cells that say each last word there is, and stay: nobody waits for them. Without a deadline in
 * the host each of these tests ends by its alarm. */
#include "cell/cell_call.h"
#include "cell/cell_called.h"
#include "cell/cell_host.h"
#include "tap.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>

DZ_NORETURN static void stay(void)
{
    for (;;)
        (void)poll(NULL, 0, -1);
}

/* A cell whose process says this one frame, closes its socket if it is to, and stays. */
static struct dz_cell *cell_that_says(enum dz_frame_type type, bool closes)
{
    const struct dz_frame f = {.type = type, .value = 5};
    int ends[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(ends[0]);
        (void)dz_frame_send(ends[1], &f, NULL, true, NULL);
        if (closes)
            (void)close(ends[1]);
        stay();
    }
    (void)close(ends[1]);
    struct dz_cell *c = dz_cell_adopt(ends[0]);
    CHECK(c);
    c->pid = pid;
    c->known = true;
    return c;
}

static int next(struct dz_cell *c, struct dz_cell_event *e, struct dz_err *err)
{
    struct pollfd p = {.fd = dz_cell_fd(c), .events = POLLIN};
    (void)poll(&p, 1, -1);
    return dz_cell_receive(c, e, err);
}

/* Run the reaper, as the owner of its epoll set does, until it has nothing left. */
static void reap_all(struct dz_reaper *r, int epoll)
{
    while (r->dying.n > 0) {
        struct pollfd p = {.fd = epoll, .events = POLLIN};
        (void)poll(&p, 1, -1);
        dz_reaper_run(r);
    }
}

static void freed_at_once(enum dz_frame_type word, bool closes)
{
    struct dz_cell *c = cell_that_says(word, closes);
    struct dz_reaper r;
    struct dz_cell_event e;
    struct dz_err err = {0};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    pid_t pid = c->pid;
    CHECK_INT(dz_reaper_init(&r, epoll, &err), 0);
    c->reaper = &r;
    CHECK_INT(next(c, &e, &err), 1);
    if (closes) {
        CHECK_INT(next(c, &e, &err), 1);
        CHECK_INT(e.type, DZ_CELL_GONE);
    }
    dz_cell_free(c); /* returns although the process is there */
    reap_all(&r, epoll);
    CHECK_INT(kill(pid, 0), -1);
    dz_reaper_release(&r);
    (void)close(epoll);
}

TEST(a_cell_that_failed_and_stays_is_ended)
{
    freed_at_once(DZ_FRAME_FAILED, false);
}

TEST(a_cell_that_sleeps_closes_its_socket_and_stays_is_ended)
{
    freed_at_once(DZ_FRAME_SUSPENDED, true);
}

TEST(a_cell_that_sleeps_and_stays_is_ended_when_its_time_is_over)
{
    (void)alarm(30);
    freed_at_once(DZ_FRAME_SUSPENDED, false);
}

TEST(a_host_without_a_pool_does_not_wait_for_a_cell_that_failed)
{
    struct dz_cell *c = cell_that_says(DZ_FRAME_FAILED, false);
    struct dz_cell_event e;
    struct dz_err err = {0};
    pid_t pid = c->pid;
    CHECK_INT(next(c, &e, &err), 1);
    dz_cell_free(c);
    CHECK_INT(kill(pid, 0), -1);
}

static int done_and_stay(struct dz_call *call, void *arg, struct dz_err *err)
{
    const struct dz_frame f = {.type = DZ_FRAME_DONE, .value = 3};
    (void)arg;
    (void)dz_frame_send(call->fd, &f, NULL, true, err);
    stay();
}

TEST(a_call_that_is_done_and_stays_is_ended)
{
    struct dz_err err = {0};
    const struct dz_call_opts o = {.what = "test", .run = done_and_stay};
    CHECK_INT(dz_cell_call(&o, NULL, &err), 3);
    CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
}

TEST(a_reaper_that_ends_leaves_no_child)
{
    struct dz_cell *c = cell_that_says(DZ_FRAME_SUSPENDED, false);
    struct dz_reaper r;
    struct dz_cell_event e;
    struct dz_err err = {0};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    CHECK_INT(dz_reaper_init(&r, epoll, &err), 0);
    c->reaper = &r;
    CHECK_INT(next(c, &e, &err), 1);
    dz_cell_free(c);
    CHECK_INT(r.dying.n, 1);
    dz_reaper_release(&r);
    CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
    (void)close(epoll);
}

/* SPDX-License-Identifier: MIT
 * Waiting for descriptors: poll, ppoll, select, pselect. */
#include "check.h"

#include <poll.h>
#include <sys/select.h>
#include <sys/time.h>

static volatile sig_atomic_t hits;
static void on(int s)
{
    (void)s;
    hits++;
}

static long ms_since(const struct timespec *t)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - t->tv_sec) * 1000 + (now.tv_nsec - t->tv_nsec) / 1000000;
}

TEST(poll_tells_each_state)
{
    int fd[2];
    CHECK_INT(pipe(fd), 0);
    struct pollfd p[4] = {
        {.fd = fd[0], .events = POLLIN},
        {.fd = fd[1], .events = POLLOUT},
        {.fd = -1, .events = POLLIN, .revents = 77},
        {.fd = 99, .events = POLLIN},
    };
    CHECK_INT(poll(p, 4, 0), 2);
    CHECK_INT(p[0].revents, 0);
    CHECK_INT(p[1].revents, POLLOUT);
    CHECK_INT(p[2].revents, 0);
    CHECK_INT(p[3].revents, POLLNVAL);
    CHECK_INT(write(fd[1], "x", 1), 1);
    CHECK_INT(poll(p, 1, -1), 1);
    CHECK_INT(p[0].revents, POLLIN);
    close(fd[1]);
    CHECK_INT(poll(p, 1, -1), 1);
    CHECK_INT(p[0].revents, POLLIN | POLLHUP);
}

TEST(a_writer_sees_that_nobody_reads)
{
    int fd[2];
    CHECK_INT(pipe(fd), 0);
    close(fd[0]);
    struct pollfd p = {.fd = fd[1], .events = POLLOUT};
    CHECK_INT(poll(&p, 1, 0), 1);
    CHECK(p.revents & POLLERR);
}

TEST(files_are_always_ready)
{
    write_file("f", "");
    struct pollfd p = {.fd = open("f", O_RDWR), .events = POLLIN | POLLOUT};
    CHECK_INT(poll(&p, 1, -1), 1);
    CHECK_INT(p.revents, POLLIN | POLLOUT);
}

TEST(timeouts)
{
    struct timespec t, short_time = {0, 20000000}, bad = {0, -1};
    clock_gettime(CLOCK_MONOTONIC, &t);
    CHECK_INT(poll(NULL, 0, 30), 0);
    CHECK(ms_since(&t) >= 30);
    CHECK_INT(ppoll(NULL, 0, &short_time, NULL), 0);
    CHECK(ms_since(&t) >= 50);
    CHECK_ERR(ppoll(NULL, 0, &bad, NULL), EINVAL);
    struct timeval v = {0, 20000}, wrong = {-1, 0};
    CHECK_INT(select(0, NULL, NULL, NULL, &v), 0);
    CHECK(ms_since(&t) >= 70);
    CHECK_ERR(select(0, NULL, NULL, NULL, &wrong), EINVAL);
}

TEST(another_process_wakes_it)
{
    int fd[2];
    CHECK_INT(pipe(fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        nap_ms(10);
        _exit(write(fd[1], "x", 1) != 1);
    }
    struct pollfd p = {.fd = fd[0], .events = POLLIN};
    CHECK_INT(poll(&p, 1, 10000), 1);
    CHECK_INT(wait_for(pid), 0);
}

TEST(select_with_sets)
{
    int a[2], b[2];
    fd_set r, w;
    CHECK_INT(pipe(a), 0);
    CHECK_INT(pipe(b), 0);
    CHECK_INT(write(b[1], "x", 1), 1);
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_SET(a[0], &r);
    FD_SET(b[0], &r);
    FD_SET(a[1], &w);
    CHECK_INT(select(b[1] + 1, &r, &w, NULL, NULL), 2);
    CHECK(!FD_ISSET(a[0], &r) && FD_ISSET(b[0], &r) && FD_ISSET(a[1], &w));
    close(a[1]);
    FD_ZERO(&r);
    FD_SET(a[0], &r);
    CHECK_INT(select(a[0] + 1, &r, NULL, NULL, NULL), 1); /* its end counts as readable */
    FD_SET(a[1], &r);
    CHECK_ERR(select(a[1] + 1, &r, NULL, NULL, NULL), EBADF);
}

TEST(signals_end_the_waiting)
{
    struct sigaction a = {.sa_handler = on, .sa_flags = SA_RESTART};
    CHECK_INT(sigaction(SIGALRM, &a, NULL), 0);
    struct itimerval t = {.it_value = {0, 10000}};
    setitimer(ITIMER_REAL, &t, NULL);
    CHECK_ERR(poll(NULL, 0, 10000), EINTR);
    setitimer(ITIMER_REAL, &t, NULL);
    CHECK_ERR(select(0, NULL, NULL, NULL, NULL), EINTR);
    CHECK_INT(hits, 2);
}

TEST(masks_open_only_while_waiting)
{
    sigset_t block, none, now;
    signal(SIGUSR1, on);
    sigemptyset(&none);
    sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    sigprocmask(SIG_BLOCK, &block, NULL);
    raise(SIGUSR1);
    CHECK_INT(hits, 0);
    CHECK_ERR(ppoll(NULL, 0, NULL, &none), EINTR);
    CHECK_INT(hits, 1);
    raise(SIGUSR1);
    CHECK_ERR(pselect(0, NULL, NULL, NULL, NULL, &none), EINTR);
    CHECK_INT(hits, 2);
    sigprocmask(SIG_SETMASK, NULL, &now);
    CHECK(sigismember(&now, SIGUSR1));
}

/* SPDX-License-Identifier: MIT
 * Calls exactly at their limits, and calls that a handler comes into: as Linux has them. */
#include "check.h"

#include <limits.h>
#include <poll.h>
#include <pty.h>
#include <sys/resource.h>
#include <termios.h>

static volatile sig_atomic_t hits;
static void on(int s)
{
    (void)s;
    hits++;
}

static void handle(int s, int flags)
{
    struct sigaction a = {.sa_handler = on, .sa_flags = flags};
    CHECK_INT(sigaction(s, &a, NULL), 0);
}

TEST(what_is_appended_counts_from_the_end)
{
    static char data[100];
    struct rlimit l = {150, 150};
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &l), 0);
    handle(SIGXFSZ, 0);
    int fd = open("f", O_WRONLY | O_CREAT | O_APPEND, 0600);
    CHECK_INT(write(fd, data, 100), 100);
    CHECK_INT(lseek(fd, 0, SEEK_SET), 0); /* where it stands says nothing */
    CHECK_INT(write(fd, data, 100), 50);
    CHECK_INT(lseek(fd, 0, SEEK_CUR), 150);
    CHECK_INT(lseek(fd, 10, SEEK_SET), 10);
    CHECK_INT(hits, 0);
    CHECK_ERR(write(fd, data, 1), EFBIG);
    CHECK_INT(hits, 1);
    CHECK_INT(write(fd, data, 0), 0);
    close(fd);
    fd = open("f", O_WRONLY);
    CHECK_INT(pwrite(fd, data, 10, 149), 1);
    CHECK_ERR(pwrite(fd, data, 10, 150), EFBIG);
    CHECK_INT(ftruncate(fd, 150), 0);
    CHECK_ERR(ftruncate(fd, 151), EFBIG);
}

TEST(children_that_nobody_wants_to_wait_for)
{
    struct sigaction a = {.sa_handler = on, .sa_flags = SA_NOCLDWAIT | SA_RESTART};
    CHECK_INT(sigaction(SIGCHLD, &a, NULL), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(3);
    CHECK_ERR(waitpid(pid, NULL, 0), ECHILD); /* when it has gone */
    CHECK_ERR(kill(pid, 0), ESRCH);
}

TEST(pipe_buf_is_the_last_size_that_is_whole)
{
    static char data[PIPE_BUF + 1];
    char c;
    int fd[2];
    CHECK_INT(pipe(fd), 0);
    CHECK_INT(fcntl(fd[1], F_SETFL, O_NONBLOCK), 0);
    while (write(fd[1], data, PIPE_BUF) > 0)
        ;
    CHECK_INT(errno, EAGAIN);
    for (int i = 0; i < PIPE_BUF - 1; i++)
        CHECK_INT(read(fd[0], &c, 1), 1);
    CHECK_ERR(write(fd[1], data, PIPE_BUF), EAGAIN); /* a byte too little */
    CHECK_INT(read(fd[0], &c, 1), 1);
    CHECK_INT(write(fd[1], data, PIPE_BUF), PIPE_BUF);
}

/* Signals its parent at 50 ms and reads all that is there from 100 ms on; its status says
 * whether that was so much. */
static pid_t signals_then_reads(const int fd[2], long want)
{
    static char sink[4096];
    pid_t pid = fork();
    if (pid == 0) {
        long all = 0;
        ssize_t n;
        close(fd[1]);
        nap_ms(50);
        kill(getppid(), SIGUSR1);
        nap_ms(50);
        while ((n = read(fd[0], sink, sizeof sink)) > 0)
            all += n;
        _exit(all == want ? 0 : 1);
    }
    close(fd[0]);
    return pid;
}
TEST(a_write_that_went_half_tells_how_much_after_any_handler)
{
    static char data[300000];
    for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
        int fd[2];
        hits = 0;
        handle(SIGUSR1, flags);
        CHECK_INT(pipe(fd), 0);
        pid_t pid = signals_then_reads(fd, 65536);
        CHECK_INT(write(fd[1], data, sizeof data), 65536);
        CHECK_INT(hits, 1);
        close(fd[1]);
        CHECK_INT(wait_for(pid), 0);
    }
}

TEST(a_write_that_has_moved_nothing_goes_on_after_a_handler)
{
    static char data[65536];
    int fd[2];
    handle(SIGUSR1, SA_RESTART);
    CHECK_INT(pipe(fd), 0);
    CHECK_INT(write(fd[1], data, 65536), 65536);
    pid_t pid = signals_then_reads(fd, 65536 + 5000);
    CHECK_INT(write(fd[1], data, 5000), 5000);
    CHECK_INT(hits, 1);
    close(fd[1]);
    CHECK_INT(wait_for(pid), 0);
}

static pid_t signals_then_opens(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        nap_ms(50);
        kill(getppid(), SIGUSR1);
        nap_ms(50);
        _exit(open("q", O_WRONLY) >= 0 ? 0 : 1);
    }
    return pid;
}
TEST(an_open_that_waits_goes_on_after_a_handler)
{
    CHECK_INT(mkfifo("q", 0600), 0);
    handle(SIGUSR1, SA_RESTART);
    pid_t pid = signals_then_opens();
    int fd = open("q", O_RDONLY);
    CHECK(fd >= 0);
    CHECK_INT(hits, 1);
    CHECK_INT(wait_for(pid), 0);
    close(fd);
    handle(SIGUSR1, 0);
    pid = signals_then_opens();
    CHECK_ERR(open("q", O_RDONLY), EINTR);
    CHECK_INT(kill(pid, SIGKILL), 0);
    CHECK_INT(wait_for(pid), 1000 + SIGKILL);
}

TEST(keys_of_signals_are_text_without_isig)
{
    struct termios t;
    char buf[20] = "";
    int m, s;
    CHECK_INT(openpty(&m, &s, NULL, NULL, NULL), 0);
    CHECK_INT(tcgetattr(s, &t), 0);
    t.c_lflag &= ~(tcflag_t)(ISIG | ECHO);
    CHECK_INT(tcsetattr(s, TCSANOW, &t), 0);
    CHECK_INT(write(m, "ab\177\003\034\032c\n", 8), 8); /* lines are edited as ever */
    CHECK_INT(read(s, buf, sizeof buf), 6);
    CHECK_STR(buf, "a\003\034\032c\n");
    t.c_lflag |= ISIG | NOFLSH;
    CHECK_INT(tcsetattr(s, TCSANOW, &t), 0);
    CHECK_INT(write(m, "kept\n\003", 6), 6); /* it signals nobody: this is no session's */
    CHECK_INT(read(s, buf, sizeof buf), 5);
}

TEST(a_mask_of_ppoll_goes_with_the_call)
{
    sigset_t usr1, now;
    struct timespec soon = {0, 10000000};
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    CHECK_INT(ppoll(NULL, 0, &soon, &usr1), 0);
    CHECK_INT(sigprocmask(SIG_BLOCK, NULL, &now), 0);
    CHECK_INT(sigismember(&now, SIGUSR1), 0);
}

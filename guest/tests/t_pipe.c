/* SPDX-License-Identifier: MIT
 * Pipes: order, end of file, broken pipes, full pipes, atomic writes. */
#include "check.h"

#include <limits.h>
#include <sys/ioctl.h>

TEST(bytes_arrive_in_order_and_end)
{
    int fd[2];
    unsigned sum = 0;
    unsigned char buf[1000];
    CHECK_INT(pipe(fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(fd[0]);
        for (int i = 0; i < 300; i++) {
            memset(buf, i, sizeof buf);
            if (write(fd[1], buf, sizeof buf) != sizeof buf)
                _exit(1);
        }
        _exit(0);
    }
    close(fd[1]);
    ssize_t n;
    long total = 0, wrong = 0;
    while ((n = read(fd[0], buf, sizeof buf)) > 0)
        for (ssize_t i = 0; i < n; i++, total++) {
            wrong += buf[i] != (unsigned char)(total / 1000);
            sum += buf[i];
        }
    CHECK_INT(n, 0);
    CHECK_INT(total, 300000);
    CHECK_INT(wrong, 0);
    CHECK(sum > 0);
    CHECK_INT(wait_for(pid), 0);
}

TEST(writing_without_a_reader)
{
    int fd[2];
    CHECK_INT(pipe(fd), 0);
    close(fd[0]);
    signal(SIGPIPE, SIG_IGN);
    CHECK_ERR(write(fd[1], "x", 1), EPIPE);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        (void)!write(fd[1], "x", 1);
        _exit(0);
    }
    CHECK_INT(wait_for(pid), 1000 + SIGPIPE);
}

TEST(a_blocked_writer_hears_that_the_reader_went)
{
    int fd[2];
    static char big[1 << 20];
    CHECK_INT(pipe(fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(fd[0]);
        signal(SIGPIPE, SIG_IGN);
        ssize_t n = write(fd[1], big, sizeof big);
        _exit(n > 0 && n < (ssize_t)sizeof big ? write(fd[1], "x", 1) < 0 && errno == EPIPE ? 0 : 1
                                               : errno != EPIPE);
    }
    close(fd[1]);
    CHECK_INT(read(fd[0], big, 10), 10);
    close(fd[0]);
    CHECK_INT(wait_for(pid), 0);
}

TEST(nonblocking)
{
    int fd[2];
    char buf[512] = "";
    CHECK_INT(pipe2(fd, O_NONBLOCK | O_CLOEXEC), 0);
    CHECK_INT(fcntl(fd[0], F_GETFD), FD_CLOEXEC);
    CHECK(fcntl(fd[0], F_GETFL) & O_NONBLOCK);
    CHECK_ERR(read(fd[0], buf, 1), EAGAIN);
    long n = 0;
    while (write(fd[1], buf, sizeof buf) == sizeof buf)
        n += (long)sizeof buf;
    CHECK_INT(errno, EAGAIN);
    CHECK(n >= PIPE_BUF);
    int queued = 0;
    CHECK_INT(ioctl(fd[0], FIONREAD, &queued), 0);
    CHECK_INT(queued, n);
    CHECK_INT(fcntl(fd[0], F_SETFL, 0), 0);
    CHECK_INT(fcntl(fd[0], F_GETFL) & O_NONBLOCK, 0);
    CHECK_INT(read(fd[0], buf, sizeof buf), sizeof buf);
}

TEST(small_writes_are_not_torn)
{
    int fd[2];
    enum {
        RECORD = 100,
        ROUNDS = 200
    };
    char buf[RECORD];
    CHECK_INT(pipe(fd), 0);
    for (int w = 0; w < 3; w++)
        if (fork() == 0) {
            memset(buf, 'a' + w, sizeof buf);
            for (int i = 0; i < ROUNDS; i++)
                if (write(fd[1], buf, sizeof buf) != sizeof buf)
                    _exit(1);
            _exit(0);
        }
    close(fd[1]);
    FILE *f = fdopen(fd[0], "r");
    int records = 0, torn = 0;
    while (fread(buf, sizeof buf, 1, f) == 1) {
        records++;
        for (int i = 1; i < RECORD; i++)
            torn += buf[i] != buf[0];
    }
    CHECK_INT(records, 3 * ROUNDS);
    CHECK_INT(torn, 0);
    for (int i = 0; i < 3; i++)
        CHECK_INT(wait_for(-1), 0);
}

TEST(no_seeking_and_wrong_ends)
{
    int fd[2];
    char c;
    struct stat st;
    CHECK_INT(pipe(fd), 0);
    CHECK_ERR(lseek(fd[0], 0, SEEK_CUR), ESPIPE);
    CHECK_ERR(pread(fd[0], &c, 1, 0), ESPIPE);
    CHECK_ERR(write(fd[0], "x", 1), EBADF);
    CHECK_ERR(read(fd[1], &c, 1), EBADF);
    CHECK_INT(fstat(fd[0], &st), 0);
    CHECK(S_ISFIFO(st.st_mode));
    CHECK_INT(fpathconf(fd[0], _PC_PIPE_BUF), PIPE_BUF);
}

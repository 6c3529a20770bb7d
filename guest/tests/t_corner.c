/* SPDX-License-Identifier: MIT
 * Corners: what is asked seldom, and which errno it gets. */
#include "check.h"

#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/uio.h>

static struct stat of(const char *path)
{
    struct stat st = {0};
    CHECK_INT(lstat(path, &st), 0);
    return st;
}

TEST(a_pipe_ends_with_its_last_writer)
{
    int p[2], n = 0;
    char c;
    CHECK_INT(pipe(p), 0);
    for (int i = 0; i < 3; i++)
        if (fork() == 0) {
            close(p[0]);
            nap_ms(20 * (3 - i));
            _exit(write(p[1], "x", 1) != 1);
        }
    close(p[1]);
    while (read(p[0], &c, 1) == 1)
        n++;
    CHECK_INT(n, 3);
    for (int i = 0; i < 3; i++)
        CHECK_INT(wait_for(-1), 0);
}

TEST(appending_from_two_processes)
{
    static char want[37];
    for (int k = 0; k < 2; k++)
        if (fork() == 0) {
            char line[37];
            memset(line, 'a' + k, sizeof line);
            int fd = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644), bad = 0;
            for (int i = 0; i < 200; i++) {
                bad |= lseek(fd, 0, SEEK_SET) != 0; /* means nothing */
                bad |= write(fd, line, sizeof line) != sizeof line;
            }
            _exit(bad);
        }
    CHECK_INT(wait_for(-1), 0);
    CHECK_INT(wait_for(-1), 0);
    CHECK_INT(of("log").st_size, 400 * 37);
    int fd = open("log", O_RDONLY), torn = 0;
    while (read(fd, want, sizeof want) == sizeof want)
        for (size_t i = 1; i < sizeof want; i++)
            torn += want[i] != want[0];
    CHECK_INT(torn, 0);
    /* Linux, not POSIX: pwrite appends, too */
    fd = open("log", O_WRONLY | O_APPEND);
    CHECK_INT(pwrite(fd, "z", 1, 0), 1);
    CHECK_INT(of("log").st_size, 400 * 37 + 1);
}

TEST(nothing_is_moved_at_once)
{
    int p[2];
    char c;
    struct iovec v[2] = {{&c, 0}, {&c, 0}};
    CHECK_INT(pipe(p), 0);
    CHECK_INT(read(p[0], &c, 0), 0);
    CHECK_INT(readv(p[0], v, 2), 0);
    CHECK_INT(write(p[1], &c, 0), 0);
    CHECK_INT(writev(p[1], v, 2), 0);
    close(p[0]);
    CHECK_INT(write(p[1], &c, 0), 0); /* no SIGPIPE for nothing */
    int fd = open("f", O_RDWR | O_CREAT, 0600);
    volatile int none = -1;
    CHECK_ERR(writev(fd, v, none), EINVAL);
    CHECK_INT(write(fd, "", 0), 0);
}

TEST(a_full_pipe_takes_a_part)
{
    static char big[100000], small[100];
    int p[2];
    CHECK_INT(pipe(p), 0);
    CHECK_INT(fcntl(p[1], F_SETFL, O_NONBLOCK), 0);
    struct iovec v[2] = {{small, sizeof small}, {big, sizeof big}};
    CHECK_INT(writev(p[1], v, 2), 65536);
    CHECK_ERR(write(p[1], small, 1), EAGAIN);
    signal(SIGPIPE, SIG_DFL);
    pid_t pid = fork();
    if (pid == 0) {
        close(p[0]);
        pause();
    }
    kill(pid, SIGKILL);
    CHECK_INT(wait_for(pid), 1000 + SIGKILL);
    pid = fork();
    if (pid == 0) {
        int q[2];
        if (pipe(q) == 0)
            close(q[0]);
        (void)!write(q[1], "x", 1);
        _exit(0);
    }
    CHECK_INT(wait_for(pid), 1000 + SIGPIPE);
}

TEST(numbers_of_descriptors)
{
    struct rlimit l = {32, 32};
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &l), 0);
    CHECK_ERR(dup2(0, 32), EBADF);
    CHECK_ERR(dup2(0, -1), EBADF);
    CHECK_ERR(dup2(31, 30), EBADF);
    CHECK_INT(dup2(0, 31), 31);
    CHECK_INT(dup2(31, 31), 31);
    CHECK_ERR(fcntl(0, F_DUPFD, 32), EINVAL);
    CHECK_ERR(fcntl(0, F_DUPFD, -1), EINVAL);
    CHECK_ERR(fcntl(0, F_DUPFD, 31), EMFILE);
    CHECK_ERR(fcntl(25, F_GETFD), EBADF);
    CHECK_ERR(fcntl(0, 12345), EINVAL);
    CHECK_ERR(close(-1), EBADF);
    CHECK_ERR(close(25), EBADF);
    CHECK_ERR(fsync(25), EBADF);
    int p[2];
    CHECK_INT(pipe(p), 0);
    CHECK_ERR(fsync(p[1]), EINVAL);
    CHECK_ERR(ftruncate(p[1], 0), EINVAL);
    CHECK_ERR(lseek(p[0], 0, SEEK_CUR), ESPIPE);
    CHECK_ERR(tcgetpgrp(p[0]), ENOTTY);
    struct pollfd f[3] = {{25, POLLIN, 7}, {-5, POLLIN, 7}, {p[1], POLLOUT, 0}};
    CHECK_INT(poll(f, 3, -1), 2);
    CHECK_INT(f[0].revents, POLLNVAL);
    CHECK_INT(f[1].revents, 0);
    CHECK_INT(f[2].revents, POLLOUT);
}

TEST(opening)
{
    write_file("f", "text");
    CHECK_INT(mkdir("d", 0755), 0);
    CHECK_INT(symlink("none", "dangling"), 0);
    CHECK_INT(symlink("f", "l"), 0);
    CHECK_ERR(open("dangling", O_WRONLY | O_CREAT | O_EXCL, 0600), EEXIST);
    CHECK_ERR(open("l", O_RDONLY | O_NOFOLLOW), ELOOP);
    CHECK_ERR(open("f", O_RDONLY | O_DIRECTORY), ENOTDIR);
    CHECK_ERR(open("f/", O_RDONLY), ENOTDIR);
    CHECK_ERR(open("f/x", O_RDONLY), ENOTDIR);
    CHECK_ERR(open("d", O_WRONLY), EISDIR);
    CHECK_ERR(open("d", O_RDONLY | O_CREAT, 0600), EISDIR);
    CHECK_ERR(open("new/", O_WRONLY | O_CREAT, 0600), EISDIR);
    CHECK_ERR(open("no/new", O_WRONLY | O_CREAT, 0600), ENOENT);
    CHECK_ERR(open("", O_RDONLY), ENOENT);
    int fd = open("dangling", O_WRONLY | O_CREAT, 0640); /* through the link */
    CHECK(fd >= 0 && S_ISREG(of("none").st_mode));
    fd = open("f", O_RDONLY | O_TRUNC); /* wants and uses the right to write */
    CHECK(fd >= 0);
    CHECK_INT(of("f").st_size, 0);
    CHECK_ERR(write(fd, "x", 1), EBADF);
    CHECK_ERR(read(open("d", O_RDONLY), &fd, 1), EISDIR);
    fd = open("f", O_WRONLY);
    CHECK_ERR(read(fd, &fd, 1), EBADF);
    CHECK_ERR(ftruncate(fd, -1), EINVAL);
    CHECK_ERR(lseek(fd, -1, SEEK_SET), EINVAL);
    CHECK_ERR(lseek(fd, 0, 77), EINVAL);
    CHECK_ERR(pread(fd, &fd, 1, 0), EBADF);
    CHECK_ERR(pwrite(fd, "x", 1, -1), EINVAL);
}

TEST(names_that_change)
{
    CHECK_INT(mkdir("d", 0755), 0);
    CHECK_INT(mkdir("d/e", 0755), 0);
    CHECK_INT(mkdir("empty", 0755), 0);
    write_file("f", "1");
    CHECK_INT(link("f", "g"), 0);
    CHECK_INT(rename("f", "g"), 0); /* the same file: both stay */
    CHECK_INT(of("f").st_nlink, 2);
    CHECK_ERR(rename("f", "empty"), EISDIR);
    CHECK_ERR(rename("d", "f"), ENOTDIR);
    CHECK_ERR(rename("empty", "d"), ENOTEMPTY);
    CHECK_ERR(rename("d", "d/e/x"), EINVAL);
    CHECK_ERR(rename("d/.", "x"), EBUSY);
    CHECK_ERR(rename("no", "x"), ENOENT);
    CHECK_ERR(rename("f", "x/"), ENOTDIR);
    CHECK_INT(rename("d", "empty"), 0);
    CHECK_ERR(unlink("empty"), EISDIR);
    CHECK_ERR(rmdir("f"), ENOTDIR);
    CHECK_ERR(rmdir("empty"), ENOTEMPTY);
    CHECK_ERR(rmdir("empty/."), EINVAL);
    CHECK_ERR(rmdir("empty/e/.."), ENOTEMPTY);
    CHECK_ERR(rmdir("/"), EBUSY);
    CHECK_ERR(mkdir("empty", 0755), EEXIST);
    CHECK_ERR(mkdir("f/x", 0755), ENOTDIR);
    CHECK_ERR(mkdir("no/x", 0755), ENOENT);
    CHECK_ERR(link("empty", "x"), EPERM);
    CHECK_ERR(link("f", "g"), EEXIST);
    CHECK_ERR(symlink("", "x"), ENOENT);
    char buf[4];
    CHECK_ERR(readlink("f", buf, sizeof buf), EINVAL);
    CHECK_ERR(readlink("f", buf, 0), EINVAL);
    CHECK_INT(symlink("longer", "s"), 0);
    CHECK_INT(readlink("s", buf, sizeof buf), 4); /* cut */
    CHECK_INT(of("s").st_size, 6);
}

TEST(a_directory_that_went)
{
    char buf[PATH_MAX];
    CHECK_INT(mkdir("d", 0755), 0);
    CHECK_INT(chdir("d"), 0);
    CHECK_INT(rmdir("../d"), 0);
    CHECK_ERR(getcwd(buf, sizeof buf) ? 0 : -1, ENOENT);
    CHECK_ERR(open("x", O_WRONLY | O_CREAT, 0600), ENOENT);
    CHECK_ERR(mkdir("x", 0755), ENOENT);
    CHECK_INT(chdir("/"), 0);
}

TEST(an_unlinked_file_by_its_descriptor)
{
    char path[64];
    struct stat st;
    write_file("f", "kept");
    int fd = open("f", O_RDWR);
    CHECK_INT(unlink("f"), 0);
    CHECK_INT(fstat(fd, &st), 0);
    CHECK_INT(st.st_nlink, 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CHECK_STR(read_file(path), "kept");
    int again = open(path, O_RDONLY);
    CHECK_INT(close(fd), 0);
    CHECK_INT(fstat(again, &st), 0);
    CHECK_INT(st.st_size, 4);
}

TEST(a_sticky_directory)
{
    if (getuid() != 0)
        return;
    CHECK_INT(mkdir("t", 0), 0);
    CHECK_INT(chmod("t", 01777), 0);
    CHECK_INT(chmod(".", 0755), 0);
    write_file("t/root", "x");
    CHECK_INT(chown("t", 0, 2000), 0);
    CHECK_INT(chmod("t", 03777), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int bad = setgid(1000) != 0 || setuid(1000) != 0;
        bad |= unlink("t/root") == 0 || errno != EPERM;
        bad |= rename("t/root", "t/x") == 0 || errno != EPERM;
        int fd = open("t/mine", O_WRONLY | O_CREAT, 0600);
        bad |= fd < 0 || of("t/mine").st_gid != 2000; /* the directory's group */
        bad |= mkdir("t/dir", 0755) != 0 || !(of("t/dir").st_mode & S_ISGID);
        bad |= open("t/root", O_WRONLY) >= 0 || errno != EACCES;
        bad |= chmod("t/root", 0777) == 0 || errno != EPERM;
        bad |= unlink("t/mine") != 0;
        _exit(bad);
    }
    CHECK_INT(wait_for(pid), 0);
}

TEST(rights_are_those_of_one_class)
{
    if (getuid() != 0)
        return;
    CHECK_INT(chmod(".", 0755), 0);
    write_file("f", "x");
    CHECK_INT(chown("f", 1000, 2000), 0);
    CHECK_INT(chmod("f", 0066), 0); /* the owner may not, the others may */
    gid_t groups[2] = {5, 2000};
    pid_t pid = fork();
    if (pid == 0) {
        int bad = setgroups(2, groups) != 0 || setgid(7) != 0 || setuid(1000) != 0;
        bad |= access("f", R_OK) == 0 || errno != EACCES;
        bad |= open("f", O_RDONLY) >= 0 || errno != EACCES;
        bad |= access("f", F_OK) != 0;
        _exit(bad);
    }
    CHECK_INT(wait_for(pid), 0);
    CHECK_INT(chmod("f", 0606), 0); /* the group may not */
    pid = fork();
    if (pid == 0) {
        int bad = setgroups(2, groups) != 0 || setgid(7) != 0 || setuid(1001) != 0;
        bad |= open("f", O_RDONLY) >= 0 || errno != EACCES;
        bad |= setgroups(0, NULL) == 0 || errno != EPERM;
        _exit(bad);
    }
    CHECK_INT(wait_for(pid), 0);
}

TEST(numbers_that_mean_nothing)
{
    CHECK_ERR(waitpid(INT_MIN, NULL, 0), ESRCH);
    CHECK_ERR(waitpid(-1, NULL, 0x4000), EINVAL);
    CHECK_ERR(waitpid(getpid(), NULL, 0), ECHILD);
    CHECK_ERR(setuid((uid_t)-1), EINVAL);
    CHECK_ERR(setgid((gid_t)-1), EINVAL);
    CHECK_ERR(setpgid(0, -1), EINVAL);
    CHECK_ERR(setpgid(30000, 0), ESRCH);
    CHECK_ERR(getpgid(30000), ESRCH);
    CHECK_ERR(getsid(30000), ESRCH);
    CHECK_ERR(kill(getpid(), 65), EINVAL);
    CHECK_ERR(kill(30000, 0), ESRCH);
    struct sigaction a = {.sa_handler = SIG_IGN};
    CHECK_ERR(sigaction(SIGKILL, &a, NULL), EINVAL);
    CHECK_ERR(sigaction(SIGSTOP, &a, NULL), EINVAL);
    CHECK_ERR(sigaction(0, &a, NULL), EINVAL);
    struct itimerval t = {.it_value = {0, 1000000}};
    CHECK_ERR(setitimer(ITIMER_REAL, &t, NULL), EINVAL);
    CHECK_ERR(setitimer(7, NULL, NULL), EINVAL);
    struct timespec n = {0, 1000000000};
    CHECK_ERR(nanosleep(&n, NULL), EINVAL);
    n = (struct timespec){-1, 0};
    CHECK_ERR(nanosleep(&n, NULL), EINVAL);
    CHECK_ERR(getpriority(7, 0), EINVAL);
    CHECK_ERR(access("/", 8), EINVAL);
}

TEST(a_child_that_has_executed_keeps_its_group)
{
    int p[2];
    char c;
    CHECK_INT(pipe(p), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(p[1], 1);
        execl("/bin/sh", "sh", "-c", "echo; exec sleep 100", NULL);
        _exit(127);
    }
    CHECK_INT(read(p[0], &c, 1), 1);
    CHECK_ERR(setpgid(pid, pid), EACCES);
    kill(pid, SIGKILL);
    wait_for(pid);
    pid = fork();
    if (pid == 0)
        _exit(setsid() < 0 || (setsid() >= 0) || errno != EPERM || setpgid(0, 0) == 0 ||
              errno != EPERM);
    CHECK_INT(wait_for(pid), 0);
}

static volatile sig_atomic_t hits;
static void on(int s)
{
    hits += s > 0;
}

TEST(what_a_fork_and_an_exec_keep)
{
    sigset_t set, now;
    struct itimerval t = {.it_value = {100, 0}}, left;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    signal(SIGUSR1, on);
    signal(SIGUSR2, SIG_IGN);
    signal(SIGHUP, on);
    CHECK_INT(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    CHECK_INT(raise(SIGUSR1), 0);
    CHECK_INT(setitimer(ITIMER_REAL, &t, NULL), 0);
    pid_t pid = fork();
    if (pid == 0) { /* what is pending and the timers stay behind */
        int bad = sigpending(&now) != 0 || sigismember(&now, SIGUSR1);
        bad |= getitimer(ITIMER_REAL, &left) != 0 || left.it_value.tv_sec != 0;
        bad |= sigprocmask(SIG_SETMASK, NULL, &now) != 0 || !sigismember(&now, SIGUSR1);
        _exit(bad);
    }
    CHECK_INT(wait_for(pid), 0);
    CHECK_INT(hits, 0);
    signal(SIGUSR1, SIG_IGN); /* forgets it */
    CHECK_INT(sigpending(&now), 0);
    CHECK_INT(sigismember(&now, SIGUSR1), 0);
    signal(SIGUSR1, SIG_DFL);
    pid = fork();
    if (pid == 0) { /* USR1 blocked, USR2 ignored, HUP back to its default */
        execl("/bin/sh", "sh", "-c", "kill -USR1 $$; kill -USR2 $$; kill -HUP $$; exit 3", NULL);
        _exit(127);
    }
    CHECK_INT(wait_for(pid), 1000 + SIGHUP);
}

TEST(files_that_may_not_grow)
{
    static char data[100];
    struct rlimit l = {150, 150};
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &l), 0);
    signal(SIGXFSZ, on);
    int fd = open("f", O_WRONLY | O_CREAT, 0600);
    CHECK_INT(write(fd, data, 100), 100);
    CHECK_INT(write(fd, data, 100), 50); /* as much as goes */
    CHECK_INT(hits, 0);
    CHECK_ERR(write(fd, data, 1), EFBIG);
    CHECK_INT(hits, 1);
    CHECK_ERR(ftruncate(fd, 151), EFBIG);
    CHECK_INT(hits, 2);
    CHECK_ERR(truncate("f", 151), EFBIG);
    CHECK_INT(hits, 3);
    CHECK_INT(ftruncate(fd, 0), 0);
}

TEST(holes)
{
    char c = 1;
    int fd = open("f", O_RDWR | O_CREAT, 0600);
    CHECK_INT(pwrite(fd, "end", 3, 1 << 20), 3);
    CHECK_INT(pread(fd, &c, 1, 4000), 1);
    CHECK_INT(c, 0);
    CHECK_INT(lseek(fd, 0, SEEK_CUR), 0); /* neither moved it */
#ifdef SEEK_HOLE                          /* POSIX of 2024 */
    CHECK_INT(lseek(fd, 0, SEEK_HOLE), 0);
    CHECK_INT(lseek(fd, 1 << 20, SEEK_HOLE), (1 << 20) + 3);
    CHECK_INT(lseek(fd, (1 << 20) + 1, SEEK_DATA), (1 << 20) + 1);
    CHECK_ERR(lseek(fd, (1 << 20) + 3, SEEK_DATA), ENXIO);
#endif
    CHECK_INT(lseek(fd, 5, SEEK_END), (1 << 20) + 8);
    CHECK_INT(read(fd, &c, 1), 0);
    CHECK_INT(of("f").st_size, (1 << 20) + 3); /* seeking adds nothing */
}

TEST(who_holds_a_record)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
    int fd = open("f", O_RDWR | O_CREAT, 0600);
    CHECK_INT(fcntl(fd, F_SETLK, &l), 0);
    pid_t pid = fork();
    if (pid == 0) { /* not handed on */
        int bad = fcntl(fd, F_SETLK, &l) == 0 || (errno != EAGAIN && errno != EACCES);
        l.l_start = 10;
        bad |= fcntl(fd, F_SETLK, &l) != 0;
        _exit(bad);
    }
    CHECK_INT(wait_for(pid), 0);
    l.l_start = 0;
    l.l_len = 0;
    CHECK_INT(fcntl(fd, F_SETLK, &l), 0); /* the child's went with it */
    l.l_type = 7;
    CHECK_ERR(fcntl(fd, F_SETLK, &l), EINVAL);
    l = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = -1};
    CHECK_ERR(fcntl(fd, F_SETLK, &l), EINVAL);
}

TEST(a_fifo_before_and_after_its_writers)
{
    char c;
    CHECK_INT(mkfifo("q", 0600), 0);
    CHECK_ERR(open("q", O_WRONLY | O_NONBLOCK), ENXIO);
    int fd = open("q", O_RDONLY | O_NONBLOCK);
    struct pollfd f = {fd, POLLIN, 0};
    CHECK_INT(poll(&f, 1, 20), 0); /* nobody came yet */
    CHECK_INT(read(fd, &c, 1), 0);
    int w = open("q", O_WRONLY);
    CHECK_ERR(read(fd, &c, 1), EAGAIN);
    CHECK_INT(write(w, "x", 1), 1);
    CHECK_INT(close(w), 0);
    CHECK_INT(poll(&f, 1, -1), 1);
    CHECK_INT(f.revents, POLLIN | POLLHUP);
    CHECK_INT(read(fd, &c, 1), 1);
    CHECK_INT(poll(&f, 1, -1), 1);
    CHECK_INT(f.revents, POLLHUP);
    close(fd);
    pid_t pid = fork();
    if (pid == 0) { /* waits for a writer, and the name goes meanwhile */
        fd = open("q", O_RDONLY);
        _exit(fd < 0 || read(fd, &c, 1) != 1 || c != 'y');
    }
    w = open("q", O_WRONLY);
    CHECK_INT(unlink("q"), 0);
    CHECK_INT(write(w, "y", 1), 1);
    CHECK_INT(wait_for(pid), 0);
}

/* SPDX-License-Identifier: MIT
 * Corners: /proc, sessions without a terminal, times, select, what fork and exec hand on. */
#include "check.h"

#include <ctype.h>
#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/times.h>
#include <termios.h>

/* A field of /proc/PID/status, without its name and blanks. */
static const char *status_of(pid_t pid, const char *field)
{
    static char value[128];
    char path[64], line[256];
    value[0] = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, field, strlen(field)) == 0 && line[strlen(field)] == ':') {
            char *at = line + strlen(field) + 1;
            at += strspn(at, " \t");
            at[strcspn(at, "\n")] = 0;
            snprintf(value, sizeof value, "%s", at);
        }
    if (f)
        fclose(f);
    return value;
}

TEST(status_says_who_and_how)
{
    char want[64];
    int p[2];
    char c;
    CHECK_INT(pipe(p), 0);
    snprintf(want, sizeof want, "%d", (int)getpid());
    CHECK_STR(status_of(getpid(), "Pid"), want);
    snprintf(want, sizeof want, "%d", (int)getppid());
    CHECK_STR(status_of(getpid(), "PPid"), want);
    snprintf(want, sizeof want, "%d\t%d\t%d\t%d", getuid(), geteuid(), geteuid(), geteuid());
    CHECK_STR(status_of(getpid(), "Uid"), want);
    CHECK(status_of(getpid(), "State")[0] == 'R');
    umask(027);
    CHECK_STR(status_of(getpid(), "Umask"), "0027");
    pid_t pid = fork();
    if (pid == 0) {
        close(p[1]);
        _exit(read(p[0], &c, 1) != 0);
    }
    for (int i = 0; i < 500 && status_of(pid, "State")[0] != 'S'; i++)
        nap_ms(2);
    CHECK(status_of(pid, "State")[0] == 'S');
    kill(pid, SIGSTOP);
    CHECK_INT(waitpid(pid, NULL, WUNTRACED), pid);
    CHECK(status_of(pid, "State")[0] == 'T');
    kill(pid, SIGCONT);
    close(p[1]);
    for (int i = 0; i < 500 && status_of(pid, "State")[0] != 'Z'; i++)
        nap_ms(2);
    CHECK(status_of(pid, "State")[0] == 'Z');
    CHECK_INT(wait_for(pid), 0);
    CHECK_STR(status_of(pid, "State"), "");
}

TEST(stat_has_its_fields)
{
    int pid, ppid, pgrp, session, tty, tpgid, n = 0;
    char name[64], state, text[4096];
    snprintf(text, sizeof text, "%s", read_file("/proc/self/stat"));
    CHECK_INT(sscanf(text, "%d (%63[^)]) %c %d %d %d %d %d", &pid, name, &state, &ppid, &pgrp,
                     &session, &tty, &tpgid),
              8);
    CHECK_INT(pid, getpid());
    CHECK_INT(ppid, getppid());
    CHECK_INT(pgrp, getpgrp());
    CHECK_INT(session, getsid(0));
    for (const char *s = strrchr(text, ')'); *s; s++)
        n += *s == ' ';
    CHECK_INT(n, 50); /* 52 in all */
    CHECK(strlen(read_file("/proc/self/cmdline")) > 0);
    CHECK_INT(strlen(read_file("/proc/self/comm")) > 1, 1);
}

TEST(descriptors_in_proc)
{
    char path[64], to[256], here[256];
    write_file("f", "x");
    int fd = open("f", O_RDONLY), p[2], n = 0;
    CHECK_INT(pipe(p), 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t k = readlink(path, to, sizeof to - 1);
    to[k < 0 ? 0 : k] = 0;
    CHECK(getcwd(here, sizeof here) != NULL);
    CHECK(to[0] == '/' && strncmp(to, here, strlen(here)) == 0);
    CHECK_STR(to + strlen(here), "/f");
    CHECK_INT(rename("f", "g"), 0);
    k = readlink(path, to, sizeof to - 1);
    to[k < 0 ? 0 : k] = 0;
    CHECK_STR(to + strlen(here), "/g");
    CHECK_INT(unlink("g"), 0);
    k = readlink(path, to, sizeof to - 1);
    to[k < 0 ? 0 : k] = 0;
    CHECK(strlen(to) > 10 && strcmp(to + strlen(to) - 10, " (deleted)") == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", p[0]);
    k = readlink(path, to, sizeof to - 1);
    to[k < 0 ? 0 : k] = 0;
    CHECK(strncmp(to, "pipe:[", 6) == 0);
    k = readlink("/proc/self/cwd", to, sizeof to - 1);
    to[k < 0 ? 0 : k] = 0;
    CHECK_STR(to, getcwd(here, sizeof here));
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e; d && (e = readdir(d));)
        n += isdigit((unsigned char)e->d_name[0]) != 0;
    closedir(d);
    CHECK_INT(n >= 6, 1);
    CHECK_ERR(open("/proc/self/fd/99", O_RDONLY), ENOENT);
    CHECK_ERR(open("/proc/999999/stat", O_RDONLY), ENOENT);
    CHECK_ERR(unlink("/proc/self/stat"), EPERM);
}

TEST(redirections_to_names_of_descriptors)
{
    int p[2];
    char buf[8] = "";
    CHECK_INT(pipe(p), 0);
    CHECK_INT(dup2(p[1], 9), 9);
    int fd = open("/dev/fd/9", O_WRONLY);
    CHECK(fd >= 0);
    CHECK_INT(write(fd, "by name", 7), 7);
    close(fd);
    close(9);
    close(p[1]);
    CHECK_INT(read(p[0], buf, 7), 7);
    CHECK_STR(buf, "by name");
    CHECK_INT(read(p[0], buf, 1), 0);
    CHECK_ERR(open("/dev/fd/77", O_RDONLY), ENOENT);
    CHECK_INT(open("/dev/full", O_WRONLY) >= 0, 1);
    CHECK_ERR(write(open("/dev/full", O_WRONLY), "x", 1), ENOSPC);
    CHECK_INT(read(open("/dev/zero", O_RDONLY), buf, 7), 7);
    CHECK_INT(buf[0] + buf[6], 0);
    CHECK_INT(read(open("/dev/null", O_RDONLY), buf, 7), 0);
}

TEST(a_session_without_a_terminal)
{
    pid_t pid = fork();
    if (pid == 0) {
        int bad = setsid() != getpid() || getsid(0) != getpid() || getpgrp() != getpid();
        bad |= open("/dev/tty", O_RDWR) >= 0 || errno != ENXIO;
        bad |= tcgetpgrp(0) >= 0;
        _exit(bad);
    }
    CHECK_INT(wait_for(pid), 0);
    struct termios t;
    int p[2];
    CHECK_INT(pipe(p), 0);
    CHECK_ERR(tcgetattr(p[0], &t), ENOTTY);
    CHECK_ERR(tcgetattr(99, &t), EBADF);
    CHECK_INT(isatty(p[0]), 0);
    int n = -1;
    CHECK_INT(write(p[1], "abc", 3), 3);
    CHECK_INT(ioctl(p[0], FIONREAD, &n), 0);
    CHECK_INT(n, 3);
}

TEST(times_that_change)
{
    struct stat a, b;
    write_file("f", "x");
    CHECK_INT(stat("f", &a), 0);
    nap_ms(20);
    CHECK_INT(chmod("f", 0600), 0);
    CHECK_INT(stat("f", &b), 0);
    CHECK(b.st_ctim.tv_sec > a.st_ctim.tv_sec || b.st_ctim.tv_nsec > a.st_ctim.tv_nsec);
    CHECK(b.st_mtim.tv_nsec == a.st_mtim.tv_nsec);
    struct timespec t[2] = {{1, 5}, {0, UTIME_OMIT}};
    CHECK_INT(utimensat(AT_FDCWD, "f", t, 0), 0);
    CHECK_INT(stat("f", &a), 0);
    CHECK_INT(a.st_atim.tv_sec, 1);
    CHECK_INT(a.st_atim.tv_nsec, 5);
    CHECK_INT(a.st_mtim.tv_nsec, b.st_mtim.tv_nsec);
    t[0].tv_nsec = 1000000000;
    CHECK_ERR(utimensat(AT_FDCWD, "f", t, 0), EINVAL);
    t[0].tv_nsec = UTIME_NOW;
    CHECK_INT(utimensat(AT_FDCWD, "f", t, 0), 0);
    CHECK_INT(stat("f", &a), 0);
    CHECK(a.st_atim.tv_sec > 1000000000);
    CHECK_INT(stat(".", &a), 0);
    nap_ms(20);
    CHECK_INT(rename("f", "g"), 0);
    CHECK_INT(stat(".", &b), 0);
    CHECK(b.st_mtim.tv_sec > a.st_mtim.tv_sec || b.st_mtim.tv_nsec > a.st_mtim.tv_nsec);
    CHECK_ERR(utimensat(AT_FDCWD, "none", NULL, 0), ENOENT);
}

TEST(select_at_its_edges)
{
    fd_set r, w;
    struct timeval t = {0, 20000};
    int p[2];
    CHECK_INT(pipe(p), 0);
    FD_ZERO(&r);
    FD_SET(p[0], &r);
    CHECK_INT(select(p[0] + 1, &r, NULL, NULL, &t), 0);
    CHECK_INT(FD_ISSET(p[0], &r), 0);
    FD_SET(p[0], &r);
    FD_ZERO(&w);
    FD_SET(p[1], &w);
    CHECK_INT(select(p[1] + 1, &r, &w, NULL, NULL), 1);
    CHECK_INT(FD_ISSET(p[1], &w), 1);
    close(p[1]);
    FD_ZERO(&r);
    FD_SET(p[0], &r);
    CHECK_INT(select(p[0] + 1, &r, NULL, NULL, NULL), 1); /* its end */
    FD_ZERO(&r);
    FD_SET(p[1], &r);
    CHECK_ERR(select(p[1] + 1, &r, NULL, NULL, NULL), EBADF);
    t.tv_usec = -1;
    CHECK_ERR(select(0, NULL, NULL, NULL, &t), EINVAL);
    CHECK_ERR(select(-1, NULL, NULL, NULL, NULL), EINVAL);
}

TEST(nice_and_usage)
{
    errno = 0;
    int was = getpriority(PRIO_PROCESS, 0);
    CHECK_INT(errno, 0);
    pid_t pid = fork();
    if (pid == 0) {
        int bad = nice(5) != was + 5;
        bad |= nice(100) != 19;
        bad |= getpriority(PRIO_PROCESS, 0) != 19;
        bad |= setuid(1000) != 0 && getuid() == 0;
        errno = 0;
        bad |= nice(-1) != -1 || (errno != EPERM && errno != EACCES);
        bad |= sched_yield() != 0;
        _exit(bad);
    }
    CHECK_INT(wait_for(pid), 0);
    CHECK_INT(getpriority(PRIO_PROCESS, 0), was);
    CHECK_ERR(getpriority(PRIO_PROCESS, 99999), ESRCH);
    struct rusage u;
    CHECK_ERR(getrusage(7, &u), EINVAL);
    struct tms t;
    CHECK(times(&t) != (clock_t)-1 && t.tms_utime >= 0);
}

static volatile sig_atomic_t hits, last;
static void on(int s)
{
    hits++;
    last = s;
}

TEST(signals_in_many_states)
{
    sigset_t all, none;
    struct sigaction a = {.sa_handler = on, .sa_flags = SA_NODEFER | SA_RESETHAND}, now;
    CHECK_INT(sigaction(SIGUSR1, &a, NULL), 0);
    CHECK_INT(raise(SIGUSR1), 0);
    CHECK_INT(hits, 1);
    CHECK_INT(sigaction(SIGUSR1, NULL, &now), 0);
    CHECK(now.sa_handler == SIG_DFL);
    sigfillset(&all);
    sigemptyset(&none);
    CHECK_INT(sigprocmask(SIG_SETMASK, &all, NULL), 0);
    CHECK_INT(sigprocmask(SIG_BLOCK, NULL, &all), 0);
    CHECK(!sigismember(&all, SIGKILL) && !sigismember(&all, SIGSTOP));
    signal(SIGUSR1, on);
    signal(SIGUSR2, on);
    raise(SIGUSR2);
    raise(SIGUSR1);
    CHECK_INT(sigprocmask(SIG_SETMASK, &none, NULL), 0);
    CHECK_INT(hits, 3);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGTERM, SIG_IGN);
        raise(SIGTERM);
        abort();
    }
    CHECK_INT(wait_for(pid), 1000 + SIGABRT);
    pid = fork();
    if (pid == 0) {
        raise(SIGSTOP);
        _exit(4);
    }
    int status;
    CHECK_INT(waitpid(pid, &status, WUNTRACED), pid);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK_INT(waitpid(pid, &status, WUNTRACED | WNOHANG), 0);
    kill(pid, SIGTERM); /* waits for the continuation */
    CHECK_INT(waitpid(pid, &status, WNOHANG), 0);
    kill(pid, SIGCONT);
    CHECK_INT(wait_for(pid), 1000 + SIGTERM);
}

TEST(exec_hands_on_what_it_should)
{
    int p[2];
    char buf[200] = "";
    CHECK_INT(pipe(p), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int kept = open("/dev/null", O_RDONLY), gone = open("/dev/null", O_RDONLY | O_CLOEXEC);
        dup2(kept, 8);
        dup2(p[1], 1);
        (void)gone;
        fcntl(9, F_SETFD, FD_CLOEXEC);
        umask(077);
        (void)!nice(3);
        execl("/bin/sh", "sh", "-c", "umask; echo $0; [ -e /dev/fd/8 ] && echo kept; echo $#",
              "zero", "one", "two", (char *)NULL);
        _exit(127);
    }
    close(p[1]);
    for (size_t n = 0; n < sizeof buf - 1;) {
        ssize_t k = read(p[0], buf + n, sizeof buf - 1 - n);
        if (k <= 0)
            break;
        n += (size_t)k;
    }
    CHECK_INT(wait_for(pid), 0);
    CHECK_STR(buf, "0077\nzero\nkept\n2\n");
    CHECK_ERR(execl("/", "x", (char *)NULL), EACCES);
    write_file("f", "#!/no/such/interpreter\n");
    CHECK_ERR(execl("./f", "f", (char *)NULL), EACCES);
    CHECK_INT(chmod("f", 0755), 0);
    CHECK_ERR(execl("./f", "f", (char *)NULL), ENOENT);
    write_file("g", "neither text nor program\n");
    CHECK_INT(chmod("g", 0755), 0);
    CHECK_ERR(execl("./g", "g", (char *)NULL), ENOEXEC);
    CHECK_ERR(execl("./g/x", "g", (char *)NULL), ENOTDIR);
}

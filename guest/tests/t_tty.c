/* SPDX-License-Identifier: MIT
 * Terminals: a pty, its line discipline, window size, the foreground group. */
#include "check.h"

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

int login_tty(int); /* in utmp.h or pty.h, as the system likes */

static int m, s; /* the outside, the terminal */

static void open_raw(void)
{
    struct termios t;
    CHECK_INT(openpty(&m, &s, NULL, NULL, NULL), 0);
    CHECK_INT(tcgetattr(s, &t), 0);
    cfmakeraw(&t);
    CHECK_INT(tcsetattr(s, TCSANOW, &t), 0);
}

/* What the outside sees, up to n bytes, as a string. */
static const char *seen(size_t n)
{
    static char buf[200];
    size_t have = 0;
    struct pollfd p = {.fd = m, .events = POLLIN};
    while (have < n && poll(&p, 1, 2000) == 1) {
        ssize_t k = read(m, buf + have, n - have);
        if (k <= 0)
            break;
        have += (size_t)k;
    }
    buf[have] = 0;
    return buf;
}

static void type(const char *text)
{
    CHECK_INT(write(m, text, strlen(text)), strlen(text));
}

static const char *line(void)
{
    static char buf[200];
    struct pollfd p = {.fd = s, .events = POLLIN};
    ssize_t n = poll(&p, 1, 2000) == 1 ? read(s, buf, sizeof buf - 1) : -1;
    buf[n < 0 ? 0 : n] = 0;
    return n < 0 ? NULL : buf;
}

TEST(a_pty_has_two_ends_and_a_name)
{
    char name[64];
    struct stat st;
    CHECK_INT(openpty(&m, &s, name, NULL, NULL), 0);
    CHECK(isatty(s));
    CHECK_STR(ttyname(s), name);
    CHECK_STR(ptsname(m), name);
    CHECK(strncmp(name, "/dev/pts/", 9) == 0);
    CHECK_INT(stat(name, &st), 0);
    CHECK(S_ISCHR(st.st_mode));
    int again = open(name, O_RDWR | O_NOCTTY);
    CHECK_INT(write(again, "x", 1), 1);
    CHECK_STR(seen(1), "x");
    char tiny[3];
    CHECK_INT(ttyname_r(s, tiny, sizeof tiny), ERANGE);
    int fd[2];
    CHECK_INT(pipe(fd), 0);
    CHECK_INT(isatty(fd[0]), 0);
    CHECK_INT(errno, ENOTTY);
    CHECK_INT(ttyname_r(fd[0], name, sizeof name), ENOTTY);
}

TEST(raw_bytes_pass_unchanged)
{
    open_raw();
    type("a\003\r\n\004");
    char buf[8];
    CHECK_INT(read(s, buf, 8), 5);
    CHECK(memcmp(buf, "a\003\r\n\004", 5) == 0);
    CHECK_INT(write(s, "x\n", 2), 2);
    CHECK_STR(seen(2), "x\n");
}

TEST(canonical_input_is_edited)
{
    CHECK_INT(openpty(&m, &s, NULL, NULL, NULL), 0);
    type("abX\177c\r");
    CHECK_STR(line(), "abc\n");
    type("forget\025kept\r");
    CHECK_STR(line(), "kept\n");
    type("no line yet");
    struct pollfd p = {.fd = s, .events = POLLIN};
    CHECK_INT(poll(&p, 1, 20), 0);
    type("\004");
    CHECK_STR(line(), "no line yet");
    type("\004");
    CHECK_STR(line(), ""); /* end of file */
    type("one\rtwo\r");
    CHECK_STR(line(), "one\n");
    CHECK_STR(line(), "two\n");
}

TEST(echo_and_output_processing)
{
    struct termios t;
    CHECK_INT(openpty(&m, &s, NULL, NULL, NULL), 0);
    type("hi\r");
    CHECK_STR(seen(4), "hi\r\n");
    CHECK_INT(write(s, "a\nb", 3), 3);
    CHECK_STR(seen(4), "a\r\nb");
    CHECK_INT(tcgetattr(s, &t), 0);
    t.c_lflag &= ~(tcflag_t)ECHO;
    CHECK_INT(tcsetattr(s, TCSAFLUSH, &t), 0);
    type("secret\r");
    CHECK_STR(line(), "secret\n");
    struct pollfd p = {.fd = m, .events = POLLIN};
    CHECK_INT(poll(&p, 1, 20), 0);
    CHECK_ERR(tcsetattr(s, 77, &t), EINVAL);
    CHECK_ERR(tcgetattr(99, &t), EBADF);
}

TEST(min_and_time)
{
    struct termios t;
    char buf[8];
    open_raw();
    CHECK_INT(tcgetattr(s, &t), 0);
    t.c_cc[VMIN] = 0;
    t.c_cc[VTIME] = 0;
    CHECK_INT(tcsetattr(s, TCSANOW, &t), 0);
    CHECK_INT(read(s, buf, 8), 0);
    t.c_cc[VTIME] = 1;
    CHECK_INT(tcsetattr(s, TCSANOW, &t), 0);
    CHECK_INT(read(s, buf, 8), 0); /* after 0.1 s */
    t.c_cc[VMIN] = 3;
    t.c_cc[VTIME] = 0;
    CHECK_INT(tcsetattr(s, TCSANOW, &t), 0);
    type("abc");
    CHECK_INT(read(s, buf, 8), 3);
}

TEST(settings_and_speeds)
{
    struct termios t, u;
    CHECK_INT(openpty(&m, &s, NULL, NULL, NULL), 0);
    CHECK_INT(tcgetattr(s, &t), 0);
    CHECK((t.c_lflag & (ICANON | ECHO | ISIG)) == (ICANON | ECHO | ISIG));
    CHECK((t.c_iflag & ICRNL) && (t.c_oflag & OPOST));
    CHECK_INT(t.c_cc[VINTR], 3);
    CHECK_INT(cfsetospeed(&t, B9600), 0);
    CHECK_INT(cfgetospeed(&t), B9600);
    CHECK_ERR(cfsetospeed(&t, 12345), EINVAL);
    t.c_cc[VINTR] = 7;
    CHECK_INT(tcsetattr(s, TCSADRAIN, &t), 0);
    CHECK_INT(tcgetattr(s, &u), 0);
    CHECK_INT(u.c_cc[VINTR], 7);
    CHECK_INT(tcdrain(s), 0);
}

TEST(flush_throws_input_away)
{
    int n = -1;
    open_raw();
    type("lost");
    struct pollfd p = {.fd = s, .events = POLLIN};
    CHECK_INT(poll(&p, 1, 2000), 1);
    CHECK_INT(ioctl(s, FIONREAD, &n), 0);
    CHECK_INT(n, 4);
    CHECK_INT(tcflush(s, TCIFLUSH), 0);
    CHECK_INT(ioctl(s, FIONREAD, &n), 0);
    CHECK_INT(n, 0);
}

static volatile sig_atomic_t got;
static void on(int sig)
{
    got = sig;
}

TEST(window_size_and_its_signal)
{
    struct winsize w = {.ws_row = 24, .ws_col = 80}, v;
    CHECK_INT(openpty(&m, &s, NULL, NULL, &w), 0);
    CHECK_INT(ioctl(s, TIOCGWINSZ, &v), 0);
    CHECK_INT(v.ws_row, 24);
    CHECK_INT(v.ws_col, 80);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGWINCH, on);
        if (login_tty(dup(s)) < 0)
            _exit(1);
        (void)!write(s, "r", 1);
        for (int i = 0; i < 1000 && !got; i++)
            nap_ms(2);
        _exit(got == SIGWINCH ? 0 : 2);
    }
    CHECK_STR(seen(1), "r");
    w.ws_col = 100;
    CHECK_INT(ioctl(m, TIOCSWINSZ, &w), 0);
    CHECK_INT(wait_for(pid), 0);
    CHECK_INT(ioctl(s, TIOCGWINSZ, &v), 0);
    CHECK_INT(v.ws_col, 100);
#ifdef __doze__ /* POSIX of 2024 */
    w.ws_row = 33;
    CHECK_INT(tcsetwinsize(s, &w), 0);
    CHECK_INT(tcgetwinsize(m, &v), 0);
    CHECK_INT(v.ws_row, 33);
    CHECK_ERR(tcgetwinsize(-1, &v), EBADF);
#endif
}

/* A child with a terminal of its own; -1 once, then in the child 0. */
static pid_t in_session(void)
{
    pid_t pid = forkpty(&m, NULL, NULL, NULL);
    s = 0;
    return pid;
}

TEST(keys_send_signals)
{
    static const struct {
        const char *key;
        int sig;
    } keys[] = {{"\003", SIGINT}, {"\034", SIGQUIT}};
    for (int i = 0; i < 2; i++) {
        pid_t pid = in_session();
        if (pid == 0) {
            (void)!write(1, "r", 1);
            for (;;)
                pause();
        }
        CHECK_STR(seen(1), "r");
        type(keys[i].key);
        CHECK_INT(wait_for(pid), 1000 + keys[i].sig);
        close(m);
    }
}

TEST(the_controlling_terminal)
{
    pid_t pid = in_session();
    if (pid == 0) {
        CHECK_INT(tcgetpgrp(0), getpid());
        CHECK_INT(tcgetsid(0), getpid());
        CHECK_INT(getsid(0), getpid());
        int tty = open("/dev/tty", O_RDWR);
        CHECK(tty >= 0 && isatty(tty));
        _exit(check_bad);
    }
    CHECK_INT(wait_for(pid), 0);
    pid = fork();
    if (pid == 0) {
        setsid();
        CHECK_ERR(open("/dev/tty", O_RDWR), ENXIO);
        fflush(stdout);
        _exit(check_bad);
    }
    CHECK_INT(wait_for(pid), 0);
}

TEST(suspend_and_resume_a_job)
{
    pid_t pid = in_session();
    if (pid == 0) {
        int status;
        signal(SIGTTOU, SIG_IGN);
        pid_t job = fork();
        if (job == 0) {
            signal(SIGTTOU, SIG_DFL);
            setpgid(0, 0);
            for (;;)
                pause();
        }
        setpgid(job, job);
        if (tcsetpgrp(0, job) < 0)
            _exit(1);
        (void)!write(1, "r", 1);
        if (waitpid(job, &status, WUNTRACED) != job || !WIFSTOPPED(status) ||
            WSTOPSIG(status) != SIGTSTP)
            _exit(2);
        if (tcsetpgrp(0, getpid()) < 0 || tcgetpgrp(0) != getpid())
            _exit(3);
        kill(-job, SIGCONT);
        kill(-job, SIGTERM);
        _exit(wait_for(job) == 1000 + SIGTERM ? 0 : 4);
    }
    CHECK_STR(seen(1), "r");
    type("\032");
    CHECK_INT(wait_for(pid), 0);
}

TEST(reading_in_the_background_stops)
{
    pid_t pid = in_session();
    if (pid == 0) {
        int status;
        pid_t job = fork();
        if (job == 0) {
            char c;
            setpgid(0, 0);
            (void)!read(0, &c, 1);
            _exit(0);
        }
        setpgid(job, job);
        if (waitpid(job, &status, WUNTRACED) != job || !WIFSTOPPED(status))
            _exit(2);
        int sig = WSTOPSIG(status);
        kill(job, SIGKILL);
        wait_for(job);
        _exit(sig == SIGTTIN ? 0 : 3);
    }
    CHECK_INT(wait_for(pid), 0);
}

TEST(hangup_when_the_outside_closes)
{
    int fd[2];
    char c = 0;
    CHECK_INT(pipe(fd), 0);
    pid_t pid = in_session();
    if (pid == 0) {
        signal(SIGHUP, on);
        (void)!write(1, "r", 1);
        for (int i = 0; i < 1000 && !got; i++)
            nap_ms(2);
        c = got == SIGHUP && read(0, &c, 1) <= 0 ? 'y' : 'n';
        (void)!write(fd[1], &c, 1);
        _exit(0);
    }
    CHECK_STR(seen(1), "r");
    close(m);
    CHECK_INT(read(fd[0], &c, 1), 1);
    CHECK_INT(c, 'y');
    CHECK_INT(wait_for(pid), 0);
}

TEST(a_pty_step_by_step)
{
    struct termios t;
    char name[64], tiny[4];
    int fd = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(fd >= 0);
    CHECK_INT(grantpt(fd), 0);
    CHECK_INT(unlockpt(fd), 0);
    CHECK_INT(ptsname_r(fd, name, sizeof name), 0);
    CHECK_INT(ptsname_r(fd, tiny, sizeof tiny), ERANGE);
    s = open(name, O_RDWR | O_NOCTTY);
    CHECK(s >= 0 && tcgetattr(s, &t) == 0);
    CHECK_INT(cfsetspeed(&t, B19200), 0);
    CHECK(cfgetispeed(&t) == B19200 && cfgetospeed(&t) == B19200);
    CHECK_INT(cfsetispeed(&t, B9600), 0);
    CHECK_INT(tcsendbreak(s, 0), 0);
    CHECK_ERR(tcflow(s, 77), EINVAL);
    CHECK_INT(tcflow(s, TCOOFF), 0);
    CHECK_INT(tcflow(s, TCOON), 0);
    CHECK_STR(ctermid(NULL), "/dev/tty");
}

TEST(a_password_is_not_shown)
{
    pid_t pid = in_session();
    if (pid == 0) {
        char *word = getpass("word: ");
        _exit(word && strcmp(word, "secret") == 0 ? 0 : 1);
    }
    CHECK_STR(seen(6), "word: ");
    nap_ms(50);
    type("secret\r");
    CHECK_STR(seen(2), "\r\n");
    CHECK_INT(wait_for(pid), 0);
}

/* SPDX-License-Identifier: MIT
 *
 * posix_tty.c - terminals: settings, foreground group, names, pseudo-terminals.
 */
#include "posix_int.h"

#include <fcntl.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

int tcgetattr(int fd, struct termios *t)
{
    return ioctl(fd, TCGETS, t);
}

int tcsetattr(int fd, int how, const struct termios *t)
{
    if (how < TCSANOW || how > TCSAFLUSH)
        return posix_fail(EINVAL);
    return ioctl(fd, TCSETS + how, t);
}

/* libc's own takes every character device for a terminal. */
int __isatty(int fd)
{
    struct termios t;

    return tcgetattr(fd, &t) == 0;
}

int isatty(int fd)
{
    return __isatty(fd);
}

int tcgetwinsize(int fd, struct winsize *w)
{
    return ioctl(fd, TIOCGWINSZ, w);
}

int tcsetwinsize(int fd, const struct winsize *w)
{
    return ioctl(fd, TIOCSWINSZ, w);
}

pid_t tcgetpgrp(int fd)
{
    int g;

    return ioctl(fd, TIOCGPGRP, &g) ? -1 : g;
}

int tcsetpgrp(int fd, pid_t g)
{
    return ioctl(fd, TIOCSPGRP, &g);
}

pid_t tcgetsid(int fd)
{
    int s;

    return ioctl(fd, TIOCGSID, &s) ? -1 : s;
}

/* There is no line that a break could be sent down; it takes no time. */
int tcsendbreak(int fd, int duration)
{
    struct termios t;

    (void)duration;
    return tcgetattr(fd, &t);
}

int tcdrain(int fd)
{
    return ioctl(fd, TCSBRK, (void *)1);
}

int tcflush(int fd, int queue)
{
    return ioctl(fd, TCFLSH, (void *)(long)queue);
}

int tcflow(int fd, int action)
{
    return ioctl(fd, TCXONC, (void *)(long)action);
}

speed_t cfgetospeed(const struct termios *t)
{
    return t->c_cflag & CBAUD;
}

speed_t cfgetispeed(const struct termios *t)
{
    return t->c_cflag & CBAUD;
}

int cfsetospeed(struct termios *t, speed_t s)
{
    if (s & ~(speed_t)CBAUD)
        return posix_fail(EINVAL);
    t->c_cflag = (t->c_cflag & ~(tcflag_t)CBAUD) | s;
    return 0;
}

int cfsetispeed(struct termios *t, speed_t s)
{
    return s ? cfsetospeed(t, s) : 0;
}

int cfsetspeed(struct termios *t, speed_t s)
{
    return cfsetospeed(t, s);
}

void cfmakeraw(struct termios *t)
{
    t->c_iflag &= ~(tcflag_t)(IGNBRK | BRKINT | PARMRK | ISTRIP | INLCR | IGNCR | ICRNL | IXON);
    t->c_oflag &= ~(tcflag_t)OPOST;
    t->c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON | ISIG | IEXTEN);
    t->c_cflag = (t->c_cflag & ~(tcflag_t)(CSIZE | PARENB)) | CS8;
    t->c_cc[VMIN] = 1;
    t->c_cc[VTIME] = 0;
}

int ttyname_r(int fd, char *b, size_t n)
{
    char p[32];
    ssize_t l;

    if (!isatty(fd))
        return errno;
    if (n == 0)
        return ERANGE;
    snprintf(p, sizeof p, "/proc/self/fd/%d", fd);
    l = readlink(p, b, n);
    if (l < 0)
        return errno;
    if ((size_t)l == n)
        return ERANGE;
    b[l] = 0;
    return 0;
}

char *ttyname(int fd)
{
    static char b[64];
    int e = ttyname_r(fd, b, sizeof b);

    if (e)
        errno = e;
    return e ? 0 : b;
}

int openpty(int *master, int *slave, char *name, const struct termios *t, const struct winsize *w)
{
    char path[32];
    int m = open("/dev/ptmx", O_RDWR | O_NOCTTY), s = -1;

    if (m < 0)
        return -1;
    if (unlockpt(m) == 0 && ptsname_r(m, path, sizeof path) == 0)
        s = open(path, O_RDWR | O_NOCTTY);
    if (s < 0 || (t && tcsetattr(s, TCSANOW, t) < 0) || (w && tcsetwinsize(s, w) < 0)) {
        int e = errno;
        close(m);
        if (s >= 0)
            close(s);
        return posix_fail(e);
    }
    if (name)
        strcpy(name, path);
    *master = m;
    *slave = s;
    return 0;
}

int login_tty(int fd)
{
    setsid();
    if (ioctl(fd, TIOCSCTTY, 0) < 0)
        return -1;
    for (int i = 0; i < 3; i++)
        dup2(fd, i);
    if (fd > 2)
        close(fd);
    return 0;
}

pid_t forkpty(int *master, char *name, const struct termios *t, const struct winsize *w)
{
    int m, s;

    if (openpty(&m, &s, name, t, w) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        close(m);
        if (login_tty(s) < 0)
            _exit(1);
        return 0;
    }
    close(s);
    if (pid < 0)
        close(m);
    else
        *master = m;
    return pid;
}

int posix_openpt(int flags)
{
    return open("/dev/ptmx", flags);
}

/* A terminal belongs to the user from its birth, but is locked. */
int grantpt(int fd)
{
    int n;

    return ioctl(fd, TIOCGPTN, &n);
}

int unlockpt(int fd)
{
    int locked = 0;

    return ioctl(fd, TIOCSPTLCK, &locked);
}

int ptsname_r(int fd, char *buf, size_t size)
{
    int n;

    if (ioctl(fd, TIOCGPTN, &n) < 0)
        return errno;
    int len = snprintf(buf, size, "/dev/pts/%d", n);
    return len < 0 || (size_t)len >= size ? ERANGE : 0;
}

char *ptsname(int fd)
{
    static char name[32];
    int e = ptsname_r(fd, name, sizeof name);

    errno = e ? e : errno;
    return e ? 0 : name;
}

/* From the terminal, without echo; the text stays in a static buffer. */
char *getpass(const char *prompt)
{
    static char line[128];
    struct termios old, quiet;
    int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return NULL;
    if (tcgetattr(fd, &old) < 0) {
        close(fd);
        return NULL;
    }
    quiet = old;
    quiet.c_lflag = (quiet.c_lflag & ~(tcflag_t)(ECHO | ISIG)) | ICANON;
    tcsetattr(fd, TCSAFLUSH, &quiet);
    dprintf(fd, "%s", prompt);
    n = read(fd, line, sizeof line - 1);
    if (n > 0 && line[n - 1] == '\n')
        n--;
    line[n < 0 ? 0 : n] = 0;
    tcsetattr(fd, TCSAFLUSH, &old);
    dprintf(fd, "\n");
    close(fd);
    return n < 0 ? NULL : line;
}

char *ctermid(char *buf)
{
    static char name[] = "/dev/tty";

    return buf ? strcpy(buf, name) : name;
}

/* SPDX-License-Identifier: MIT
 * The line discipline, key by key and flag by flag. */
#include "check.h"

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

static int m, s;
static struct termios raw(void)
{
    struct termios t;
    CHECK_INT(tcgetattr(s, &t), 0);
    cfmakeraw(&t);
    return t;
}

/* What comes out of a terminal's side, up to n bytes, as a string. */
static const char *got_on(int fd, size_t n)
{
    static char buf[300];
    size_t have = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (have < n && poll(&p, 1, 2000) == 1) {
        ssize_t k = read(fd, buf + have, n - have);
        if (k <= 0)
            break;
        have += (size_t)k;
    }
    buf[have] = 0;
    return buf;
}

TEST(eof_key)
{
    char b[10];
    CHECK_INT(openpty(&m, &s, NULL, NULL, NULL), 0);
    CHECK_INT(write(m, "ab\004", 3), 3);
    CHECK_INT(read(s, b, 10), 2);
    CHECK_INT(write(m, "\004", 1), 1);
    CHECK_INT(read(s, b, 10), 0);
    CHECK_INT(write(m, "cd\nef\n", 6), 6);
    CHECK_INT(read(s, b, 2), 2);
    CHECK_INT(read(s, b, 10), 1);
    CHECK_INT(read(s, b, 10), 3);
}

TEST(quoting_and_killing)
{
    CHECK_INT(openpty(&m, &s, NULL, NULL, NULL), 0);
    char b[20] = "";
    CHECK_INT(write(m, "abc\025de\026\003f\n", 10), 10);
    CHECK_INT(read(s, b, 19), 5);
    CHECK_INT(memcmp(b, "de\003f\n", 5), 0);
    CHECK_INT(write(m, "one two  \027three\n", 16), 16);
    memset(b, 0, sizeof b);
    CHECK_INT(read(s, b, 19), 10);
    CHECK_STR(b, "one three\n");
}

TEST(echo_forms)
{
    CHECK_INT(openpty(&m, &s, NULL, NULL, NULL), 0);
    CHECK_INT(write(m, "a\tb\177\177c\001\n", 8), 8);
    CHECK_STR(got_on(m, 18), "a\tb\b \b\b\b\b\b\b\b\bc^A\r\n");
}

TEST(output_flags)
{
    struct termios t;
    CHECK_INT(openpty(&m, &s, NULL, NULL, NULL), 0);
    tcgetattr(s, &t);
    t.c_oflag = OPOST | OCRNL | ONLRET;
    tcsetattr(s, TCSANOW, &t);
    CHECK_INT(write(s, "a\rb\n", 4), 4);
    CHECK_STR(got_on(m, 4), "a\nb\n");
    t.c_oflag = OPOST | ONOCR | ONLCR;
    tcsetattr(s, TCSANOW, &t);
    CHECK_INT(write(s, "\rx\r\n", 4), 4);
    CHECK_STR(got_on(m, 4), "x\r\r\n"); /* no CR where the column is 0 already */
}

TEST(input_flags)
{
    struct termios t;
    char b[10] = "";
    CHECK_INT(openpty(&m, &s, NULL, NULL, NULL), 0);
    t = raw();
    t.c_iflag = INLCR | IGNCR;
    tcsetattr(s, TCSANOW, &t);
    CHECK_INT(write(m, "a\nb\rc", 5), 5);
    CHECK_INT(read(s, b, 9), 4);
    CHECK_STR(b, "a\rbc");
    t.c_iflag = ISTRIP | ICRNL;
    tcsetattr(s, TCSANOW, &t);
    CHECK_INT(write(m, "\xe1\r", 2), 2);
    memset(b, 0, sizeof b);
    CHECK_INT(read(s, b, 9), 2);
    CHECK_STR(b, "a\n");
}

TEST(flow)
{
    CHECK_INT(openpty(&m, &s, NULL, NULL, NULL), 0);
    CHECK_INT(fcntl(s, F_SETFL, O_NONBLOCK), 0);
    CHECK_INT(write(m, "\023", 1), 1);
    struct pollfd p = {s, POLLOUT, 0};
    for (int i = 0; i < 1000 && poll(&p, 1, 0) != 0; i++)
        nap_ms(2);
    CHECK_INT(poll(&p, 1, 0), 0);
    CHECK_ERR(write(s, "x", 1), EAGAIN);
    CHECK_INT(write(m, "\021", 1), 1);
    CHECK_INT(poll(&p, 1, 2000), 1);
    CHECK_INT(write(s, "y", 1), 1);
    CHECK_INT(tcflow(s, TCOOFF), 0);
    CHECK_INT(tcflow(s, TCOON), 0);
    CHECK_ERR(tcflow(s, 77), EINVAL);
    CHECK_ERR(tcflush(s, 77), EINVAL);
    CHECK_INT(tcdrain(s), 0);
}

/* Linux brings input to its reader in its own time. */
static int arrived(int want)
{
    int n = 0;
    for (int i = 0; i < 1000 && ioctl(s, FIONREAD, &n) == 0 && n < want; i++)
        nap_ms(2);
    return n;
}

TEST(switching_modes_keeps_input)
{
    struct termios t, cooked;
    char b[20] = "";
    CHECK_INT(openpty(&m, &s, NULL, NULL, NULL), 0);
    tcgetattr(s, &cooked);
    CHECK_INT(write(m, "part", 4), 4);
    int n = -1;
    CHECK_INT(ioctl(s, FIONREAD, &n), 0);
    CHECK_INT(n, 0);
    t = raw();
    tcsetattr(s, TCSANOW, &t);
    CHECK_INT(arrived(4), 4);
    CHECK_INT(read(s, b, 19), 4);
    CHECK_INT(write(m, "more", 4), 4);
    CHECK_INT(arrived(4), 4);
    tcsetattr(s, TCSAFLUSH, &cooked);
    CHECK_INT(write(m, "line\n", 5), 5);
    memset(b, 0, sizeof b);
    CHECK_INT(read(s, b, 19), 5);
    CHECK_STR(b, "line\n");
}

TEST(closing_ends)
{
    char b[4];
    CHECK_INT(openpty(&m, &s, NULL, NULL, NULL), 0);
    CHECK_INT(write(s, "bye", 3), 3);
    CHECK_INT(close(s), 0);
    CHECK_INT(read(m, b, 3), 3);
    CHECK_ERR(read(m, b, 3), EIO);
    struct pollfd p = {m, POLLIN, 0};
    CHECK_INT(poll(&p, 1, 2000), 1);
    CHECK_INT(p.revents & POLLHUP, POLLHUP);
    CHECK_INT(openpty(&m, &s, NULL, NULL, NULL), 0);
    CHECK_INT(close(m), 0);
    CHECK_INT(read(s, b, 3), 0);
    CHECK_ERR(write(s, "x", 1), EIO);
    struct termios t;
    CHECK_ERR(tcgetattr(s, &t), EIO);
    p.fd = s;
    CHECK_INT(poll(&p, 1, 2000), 1);
    CHECK_INT((p.revents & POLLHUP) != 0, 1);
}

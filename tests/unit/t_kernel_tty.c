/* SPDX-License-Identifier: MIT
 * Terminals: the line discipline, its reads and writes, job control, hangup. */
#include "../lib/kernel_rig.h"
#include "tap.h"

/* ---- the discipline alone: typed bytes in, lines and screen out ---------------------- */

struct tty {
    struct krig r;
    struct dz_pty *t;
    uint32_t stream;
};

static void tty_start(struct tty *y)
{
    const struct dz_winsize size = {24, 80, 0, 0};
    krig_start(&y->r);
    if (dz_kernel_pty_new(y->r.k, &size, 5, &y->stream, NULL) != 0)
        abort();
    y->t = dz_k_pty(y->r.k, 1);
}

static size_t type_n(struct tty *y, const char *s, size_t n)
{
    return (size_t)dz_kernel_stream_push(y->r.k, y->stream, s, n);
}

static void type_s(struct tty *y, const char *s)
{
    CHECK_INT(type_n(y, s, strlen(s)), strlen(s));
}

/* What one read gives, as text; "!" when it would wait. */
static const char *line_n(struct tty *y, size_t n)
{
    static char buf[8192];
    int64_t r = dz_k_ldisc_read(y->r.k, y->t, (uint8_t *)buf, n < sizeof buf ? n : sizeof buf - 1);
    if (r == -EAGAIN)
        return "!";
    buf[r] = '\0';
    return buf;
}
static const char *line(struct tty *y)
{
    return line_n(y, 4096);
}

/* What has come to the screen since last time. */
static const char *screen(struct tty *y)
{
    static char buf[FIB_OUT + 1];
    CHECK_INT(dz_kernel_flush(y->r.k, NULL), 0);
    memcpy(buf, y->r.out, y->r.out_len);
    buf[y->r.out_len] = '\0';
    y->r.out_len = 0;
    return buf;
}

static void set(struct tty *y, uint32_t off, uint32_t on)
{
    struct dz_termios to = y->t->termios;
    to.lflag = (to.lflag & ~off) | on;
    dz_k_ldisc_set(y->r.k, y->t, &to);
}

TEST(ldisc_gives_lines_when_they_are_complete)
{
    struct tty y;
    tty_start(&y);
    type_s(&y, "ab");
    CHECK_STR(line(&y), "!");
    type_s(&y, "c\rde\rf");
    CHECK_STR(line(&y), "abc\n");
    CHECK_STR(line_n(&y, 1), "d");
    CHECK_STR(line(&y), "e\n");
    CHECK_STR(line(&y), "!");
    CHECK_STR(screen(&y), "abc\r\nde\r\nf");
    type_s(&y, "\4");
    CHECK_STR(line(&y), "f");
    CHECK_STR(line(&y), "!");
    type_s(&y, "\4");
    CHECK_STR(line(&y), ""); /* end of file */
    CHECK_STR(line(&y), "!");
    CHECK_INT(krig_stop(&y.r), 0);
}

TEST(ldisc_edits_and_shows_it)
{
    struct tty y;
    tty_start(&y);
    type_s(&y, "ax\177b\r");
    CHECK_STR(line(&y), "ab\n");
    CHECK_STR(screen(&y), "ax\b \bb\r\n");
    type_s(&y, "\177\177q\r"); /* nothing to erase */
    CHECK_STR(screen(&y), "q\r\n");
    CHECK_STR(line(&y), "q\n");
    type_s(&y, "one two  \27x\r"); /* ^W: the last word */
    CHECK_STR(line(&y), "one x\n");
    CHECK_STR(screen(&y), "one two  \b \b\b \b\b \b\b \b\b \bx\r\n");
    type_s(&y, "abc\25d\r"); /* ^U */
    CHECK_STR(line(&y), "d\n");
    CHECK_STR(screen(&y), "abc\b \b\b \b\b \bd\r\n");
    type_s(&y, "h\xc3\xa9\177e\r"); /* one character of two bytes, one column */
    CHECK_STR(line(&y), "he\n");
    CHECK_STR(screen(&y), "h\xc3\xa9\b \be\r\n");
    type_s(&y, "a\1\177b\r"); /* ^A shows as two columns */
    CHECK_STR(line(&y), "ab\n");
    CHECK_STR(screen(&y), "a^A\b \b\b \bb\r\n");
    type_s(&y, "a\t\177b\r");
    CHECK_STR(line(&y), "ab\n");
    CHECK_STR(screen(&y), "a\t\b\b\b\b\b\b\bb\r\n");
    type_s(&y, "\26\3x\r"); /* ^V^C: literally */
    CHECK_STR(line(&y), "\3x\n");
    CHECK_STR(screen(&y), "^\b^Cx\r\n");
    type_s(&y, "ab\22c\r"); /* ^R shows the line again */
    CHECK_STR(line(&y), "abc\n");
    CHECK_STR(screen(&y), "ab^R\r\nabc\r\n");
    CHECK_INT(krig_stop(&y.r), 0);
}

TEST(ldisc_does_not_echo_what_it_must_not)
{
    struct tty y;
    tty_start(&y);
    set(&y, ECHO, 0);
    type_s(&y, "secret\r");
    CHECK_STR(screen(&y), "");
    CHECK_STR(line(&y), "secret\n");
    set(&y, 0, ECHONL);
    type_s(&y, "again\r");
    CHECK_STR(screen(&y), "\r\n");
    CHECK_STR(line(&y), "again\n");
    CHECK_INT(krig_stop(&y.r), 0);
}

TEST(ldisc_output_is_processed)
{
    struct tty y;
    tty_start(&y);
    CHECK_INT(dz_k_ldisc_write(y.r.k, y.t, (const uint8_t *)"a\nb\tc", 5), 5);
    CHECK_STR(screen(&y), "a\r\nb\tc");
    struct dz_termios to = y.t->termios;
    to.oflag = OPOST | TAB3;
    dz_k_ldisc_set(y.r.k, y.t, &to);
    y.t->column = 0;
    CHECK_INT(dz_k_ldisc_write(y.r.k, y.t, (const uint8_t *)"b\tc\n", 4), 4);
    CHECK_STR(screen(&y), "b       c\n");
    to.oflag = 0;
    dz_k_ldisc_set(y.r.k, y.t, &to);
    CHECK_INT(dz_k_ldisc_write(y.r.k, y.t, (const uint8_t *)"\n\t", 2), 2);
    CHECK_STR(screen(&y), "\n\t");
    type_s(&y, "\23"); /* ^S */
    CHECK_INT(dz_k_ldisc_write(y.r.k, y.t, (const uint8_t *)"x", 1), 0);
    type_s(&y, "\21"); /* ^Q */
    CHECK_INT(dz_k_ldisc_write(y.r.k, y.t, (const uint8_t *)"x", 1), 1);
    CHECK_STR(screen(&y), "x");
    CHECK_INT(krig_stop(&y.r), 0);
}

TEST(ldisc_raw_mode_passes_all)
{
    struct tty y;
    tty_start(&y);
    type_s(&y, "ab");
    set(&y, ICANON | ECHO | ISIG | IEXTEN, 0);
    CHECK_STR(line(&y), "ab"); /* what was being edited */
    type_s(&y, "\3\4\177");
    CHECK_STR(line(&y), "\3\4\177");
    type_s(&y, "x");
    set(&y, 0, ICANON);
    CHECK_STR(line(&y), "x"); /* counts as a line */
    CHECK_STR(line(&y), "!");
    CHECK_INT(krig_stop(&y.r), 0);
}

TEST(ldisc_holds_no_more_than_it_says)
{
    static char much[3 * DZ_KERNEL_TTY_IN];
    struct tty y;
    memset(much, 'x', sizeof much);
    tty_start(&y);
    CHECK_INT(type_n(&y, much, sizeof much), sizeof much); /* one line: the rest is dropped */
    CHECK_STR(line(&y), "!");
    type_s(&y, "\r");
    CHECK_INT(strlen(line(&y)), DZ_KERNEL_TTY_IN);
    CHECK_STR(line(&y), "!");
    for (int i = 0; i < DZ_KERNEL_TTY_IN / 2 - 1; i++)
        type_s(&y, "a\r");
    CHECK_INT(type_n(&y, "b\rc\r", 4), 1); /* whole lines wait outside */
    CHECK_INT(dz_kernel_stream_room(y.r.k, y.stream), 0);
    CHECK_STR(line(&y), "a\n");
    CHECK(dz_kernel_stream_room(y.r.k, y.stream) > 0);
    CHECK_INT(krig_stop(&y.r), 0);
}

/* ---- processes on a terminal --------------------------------------------------------------- */

static uint32_t tty_spawn(struct tty *y, fib_main program)
{
    krig_prog(&y->r, "main", program);
    const struct dz_spawn_fd fds[] = {{0, y->stream}, {1, y->stream}, {2, y->stream}};
    return krig_spawn(&y->r, "main", 0, fds, 3);
}

static int cat(struct fib *f)
{
    char buf[100];
    int64_t n;
    while ((n = SYS(f, dz_sys_read(FK(f), 0, buf, sizeof buf))) > 0)
        OK(f, SYS(f, dz_sys_write(FK(f), 1, buf, (size_t)n)) == n);
    return n == 0 ? 0 : 1;
}
TEST(tty_carries_a_conversation)
{
    struct tty y;
    struct dz_job job = {0};
    tty_start(&y);
    CHECK(tty_spawn(&y, cat) != 0);
    CHECK_INT(dz_kernel_run(y.r.k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    type_s(&y, "hello\r");
    CHECK_INT(dz_kernel_run(y.r.k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    CHECK_STR(screen(&y), "hello\r\nhello\r\n");
    type_s(&y, "\4");
    CHECK_INT(krig_run(&y.r, 1, &job), 1);
    CHECK_INT(job.status, 0);
    CHECK_INT(krig_stop(&y.r), 0);
}
TEST(tty_interrupt_kills_the_foreground)
{
    struct tty y;
    struct dz_job job = {0};
    tty_start(&y);
    (void)tty_spawn(&y, cat);
    CHECK_INT(dz_kernel_run(y.r.k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    type_s(&y, "abc\3");
    CHECK_INT(krig_run(&y.r, 1, &job), 1);
    CHECK_INT(job.status, SIGINT);
    CHECK_STR(screen(&y), "^C"); /* what was not yet shown is flushed */
    CHECK_INT(krig_stop(&y.r), 0);
}
TEST(tty_end_of_input_is_typed_once)
{
    struct tty y;
    tty_start(&y);
    type_s(&y, "a\n");
    CHECK_INT(dz_kernel_stream_eof(y.r.k, y.stream), 0);
    CHECK_STR(line(&y), "a\n");
    CHECK_STR(line(&y), "");
    CHECK_STR(line(&y), "!");
    CHECK_INT(dz_kernel_stream_eof(y.r.k, y.stream), 0);
    CHECK_STR(line(&y), "!");
    CHECK_INT(dz_kernel_stream_room(y.r.k, y.stream), 0);
    CHECK_INT(krig_stop(&y.r), 0);
}

TEST(tty_hangup_ends_the_session)
{
    struct tty y;
    struct dz_job job = {0};
    tty_start(&y);
    (void)tty_spawn(&y, cat);
    CHECK_INT(dz_kernel_run(y.r.k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    CHECK_INT(dz_kernel_stream_close(y.r.k, y.stream), 0);
    CHECK_INT(dz_kernel_stream_push(y.r.k, y.stream, "x", 1), DZ_ENOENT);
    CHECK_INT(krig_run(&y.r, 1, &job), 1);
    CHECK_INT(job.status, SIGHUP);
    CHECK_INT(y.r.k->tab[DZ_KERNEL_TABLE_PTY].used, 0);
    CHECK_INT(y.r.k->tab[DZ_KERNEL_TABLE_STREAM].used, 0);
    CHECK_INT(krig_stop(&y.r), 0);
}

static int raw_reader(struct fib *f)
{
    struct dz_termios t;
    char buf[16];
    int64_t t0 = f->r->now;
    OK(f, SYS(f, dz_sys_ioctl(FK(f), 0, TCGETS, &t)) == 0);
    t.lflag &= ~(uint32_t)(ICANON | ECHO);
    t.cc[VMIN] = 0;
    t.cc[VTIME] = 3;
    OK(f, SYS(f, dz_sys_ioctl(FK(f), 0, TCSETS, &t)) == 0);
    OK(f, SYS(f, dz_sys_read(FK(f), 0, buf, sizeof buf)) == 0);
    OK(f, f->r->now - t0 == 300000000);
    t.cc[VTIME] = 0;
    OK(f, SYS(f, dz_sys_ioctl(FK(f), 0, TCSETSF, &t)) == 0);
    OK(f, SYS(f, dz_sys_read(FK(f), 0, buf, sizeof buf)) == 0);
    t.cc[VMIN] = 3;
    OK(f, SYS(f, dz_sys_ioctl(FK(f), 0, TCSETS, &t)) == 0);
    (void)dz_kernel_stream_push(f->k, *(uint32_t *)f->r->arg, "ab", 2);
    OK(f, !dz_k_ldisc_ready(dz_k_pty(f->k, 1)));
    OK(f, dz_sys_fcntl(FK(f), 0, F_SETFL, O_NONBLOCK) == 0);
    OK(f, SYS(f, dz_sys_read(FK(f), 0, buf, sizeof buf)) == 2); /* without waiting for a third */
    OK(f, SYS(f, dz_sys_read(FK(f), 0, buf, sizeof buf)) == -EAGAIN);
    OK(f, dz_sys_fcntl(FK(f), 0, F_SETFL, 0) == 0);
    (void)dz_kernel_stream_push(f->k, *(uint32_t *)f->r->arg, "ab", 2);
    t.cc[VTIME] = 2; /* between bytes */
    OK(f, SYS(f, dz_sys_ioctl(FK(f), 0, TCSETS, &t)) == 0);
    t0 = f->r->now;
    OK(f, SYS(f, dz_sys_read(FK(f), 0, buf, sizeof buf)) == 2);
    OK(f, f->r->now - t0 == 200000000);
    (void)dz_kernel_stream_push(f->k, *(uint32_t *)f->r->arg, "abc", 3);
    OK(f, SYS(f, dz_sys_read(FK(f), 0, buf, sizeof buf)) == 3);
    struct dz_winsize w;
    OK(f, SYS(f, dz_sys_ioctl(FK(f), 0, TIOCGWINSZ, &w)) == 0 && w.rows == 24 && w.cols == 80);
    OK(f, SYS(f, dz_sys_ioctl(FK(f), 0, 0x1234, &w)) == -ENOTTY);
    return 0;
}
TEST(tty_raw_reads_follow_vmin_and_vtime)
{
    struct tty y;
    struct dz_job job = {0};
    tty_start(&y);
    y.r.arg = &y.stream;
    (void)tty_spawn(&y, raw_reader);
    CHECK_INT(krig_run(&y.r, 1, &job), 1);
    CHECK_INT(job.status, 0);
    CHECK_INT(krig_stop(&y.r), 0);
}

/* ---- job control ------------------------------------------------------------------------------
 */

static int background_reader(struct fib *f)
{
    char c;
    OK(f, dz_sys_setpgid(FK(f), 0, 0) == 0);
    OK(f, SYS(f, dz_sys_read(FK(f), 0, &c, 1)) == 1 && c == 'x');
    return 6;
}
static int shell(struct fib *f)
{
    int status, back;
    const struct dz_sigact ignore = {.handler = 1};
    OK(f, dz_sys_sigaction(FK(f), SIGTTOU, &ignore, NULL) == 0);
    OK(f, SYS(f, dz_sys_ioctl(FK(f), 0, TIOCGPGRP, &back)) == 0 && back == f->p->pid);
    int64_t pid = fib_fork(f, background_reader);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)pid, WUNTRACED, &status, NULL)) == pid);
    OK(f, WIFSTOPPED(status) && WSTOPSIG(status) == SIGTTIN);
    int pgrp = (int)pid;
    OK(f, SYS(f, dz_sys_ioctl(FK(f), 0, TIOCSPGRP, &pgrp)) == 0); /* fg */
    OK(f, SYS(f, dz_sys_kill(FK(f), -pgrp, SIGCONT)) == 0);
    (void)dz_kernel_stream_push(f->k, *(uint32_t *)f->r->arg, "x\r", 2);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)pid, WUNTRACED, &status, NULL)) == pid);
    OK(f, WIFEXITED(status) && WEXITSTATUS(status) == 6);
    OK(f, SYS(f, dz_sys_ioctl(FK(f), 0, TIOCSPGRP, &back)) == 0);
    pgrp = 31000;
    OK(f, SYS(f, dz_sys_ioctl(FK(f), 0, TIOCSPGRP, &pgrp)) == -EPERM);
    return 0;
}
TEST(tty_background_readers_stop_until_they_are_in_front)
{
    struct tty y;
    struct dz_job job = {0};
    tty_start(&y);
    y.r.arg = &y.stream;
    (void)tty_spawn(&y, shell);
    CHECK_INT(krig_run(&y.r, 1, &job), 1);
    CHECK_INT(job.status, 0);
    CHECK_INT(krig_stop(&y.r), 0);
}

static int background_writer(struct fib *f)
{
    OK(f, dz_sys_setpgid(FK(f), 0, 0) == 0);
    OK(f, SYS(f, dz_sys_write(FK(f), 1, "free\n", 5)) == 5);
    struct dz_termios t;
    OK(f, SYS(f, dz_sys_ioctl(FK(f), 0, TCGETS, &t)) == 0);
    t.lflag |= TOSTOP;
    (void)SYS(f, dz_sys_ioctl(FK(f), 0, TCSETS, &t)); /* stops here */
    return 1;
}
static int ctrl_z(struct fib *f)
{
    int status;
    int64_t pid = fib_fork(f, background_writer);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)pid, WUNTRACED, &status, NULL)) == pid);
    OK(f, WIFSTOPPED(status) && WSTOPSIG(status) == SIGTTOU);
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid, SIGKILL)) == 0 && fib_wait(f, pid, NULL) == pid);
    (void)dz_kernel_stream_push(f->k, *(uint32_t *)f->r->arg, "\32",
                                1); /* stops nobody: orphaned */
    (void)SYS(f, dz_sys_getpid(FK(f)));
    return 0;
}
TEST(tty_background_writers_and_orphans)
{
    struct tty y;
    struct dz_job job = {0};
    tty_start(&y);
    y.r.arg = &y.stream;
    (void)tty_spawn(&y, ctrl_z);
    CHECK_INT(krig_run(&y.r, 1, &job), 1);
    CHECK_INT(job.status, 0);
    CHECK(strstr(screen(&y), "^Z") != NULL);
    CHECK_INT(krig_stop(&y.r), 0);
}

static void winch(struct fib *f, int signo)
{
    f->note[7] = signo;
}
static int waits_for_size(struct fib *f)
{
    const struct dz_sigact a = {.handler = 2, .flags = 0, .mask = 0};
    struct dz_winsize w;
    f->handler[2] = winch;
    OK(f, dz_sys_sigaction(FK(f), SIGWINCH, &a, NULL) == 0);
    OK(f, SYS(f, dz_sys_sigsuspend(FK(f), 0)) == -EINTR && f->note[7] == SIGWINCH);
    OK(f, SYS(f, dz_sys_ioctl(FK(f), 1, TIOCGWINSZ, &w)) == 0 && w.cols == 132);
    return 0;
}
TEST(tty_resize_signals_the_foreground)
{
    struct tty y;
    struct dz_job job = {0};
    const struct dz_winsize wide = {50, 132, 0, 0};
    tty_start(&y);
    (void)tty_spawn(&y, waits_for_size);
    CHECK_INT(dz_kernel_run(y.r.k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    CHECK_INT(dz_kernel_pty_resize(y.r.k, y.stream, &wide), 0);
    CHECK_INT(krig_run(&y.r, 1, &job), 1);
    CHECK_INT(job.status, 0);
    CHECK_INT(krig_stop(&y.r), 0);
}

/* ---- a guest's own pty
 * ---------------------------------------------------------------------------- */

static int on_slave(struct fib *f)
{
    char path[32], buf[32];
    (void)snprintf(path, sizeof path, "/dev/pts/%d", (int)f->note[1]);
    OK(f, dz_sys_close(FK(f), (int)f->note[0]) == 0);
    OK(f, dz_sys_setsid(FK(f)) > 0);
    OK(f, fib_open(f, "/dev/tty", O_RDWR) == -ENXIO);
    int64_t fd = fib_open(f, path, O_RDWR);
    OK(f, fd >= 0);
    OK(f, fib_open(f, "/dev/tty", O_RDWR) > fd); /* it has become the controlling one */
    int64_t n = SYS(f, dz_sys_read(FK(f), (int)fd, buf, sizeof buf));
    OK(f, n == 3 && memcmp(buf, "hi\n", 3) == 0);
    OK(f, SYS(f, dz_sys_write(FK(f), (int)fd, "yes\n", 4)) == 4);
    return 0;
}
static int on_master(struct fib *f)
{
    char buf[64];
    int n = 1, zero = 0;
    int64_t fd = fib_open(f, "/dev/ptmx", O_RDWR | O_NOCTTY);
    OK(f, fd >= 0);
    OK(f, SYS(f, dz_sys_ioctl(FK(f), (int)fd, TIOCGPTN, &n)) == 0 && n == 0);
    OK(f, fib_open(f, "/dev/pts/0", O_RDWR) == -EIO); /* locked */
    OK(f, SYS(f, dz_sys_ioctl(FK(f), (int)fd, TIOCSPTLCK, &zero)) == 0);
    f->note[0] = fd;
    f->note[1] = n;
    int64_t pid = fib_fork(f, on_slave);
    OK(f, SYS(f, dz_sys_write(FK(f), (int)fd, "hi\r", 3)) == 3);
    OK(f, SYS(f, dz_sys_read(FK(f), (int)fd, buf, sizeof buf)) == 4);
    OK(f, memcmp(buf, "hi\r\n", 4) == 0);
    OK(f, SYS(f, dz_sys_read(FK(f), (int)fd, buf, sizeof buf)) == 5);
    OK(f, memcmp(buf, "yes\r\n", 5) == 0);
    OK(f, SYS(f, dz_sys_read(FK(f), (int)fd, buf, sizeof buf)) == -EIO);
    int status;
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    OK(f, dz_sys_close(FK(f), (int)fd) == 0);
    return f->k->tab[DZ_KERNEL_TABLE_PTY].used == 0 ? 0 : 1;
}
TEST(pty_of_a_guest_has_two_ends)
{
    struct krig r;
    CHECK_INT(krig_main_as(on_master, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int flushes(struct fib *f)
{
    char path[32];
    (void)snprintf(path, sizeof path, "/dev/pts/%d", (int)f->note[1]);
    int fd = (int)fib_open(f, path, O_RDWR | O_NOCTTY);
    fib_sleep(f, 10);
    OK(f, SYS(f, dz_sys_ioctl(FK(f), fd, TCFLSH, (void *)(uintptr_t)TCIFLUSH)) == 0);
    fib_sleep(f, 1000); /* its end would wake the typist, too */
    return 0;
}
static int types_much(struct fib *f)
{
    int n = 0, zero = 0;
    static char data[DZ_KERNEL_TTY_IN + 100];
    int fd = (int)fib_open(f, "/dev/ptmx", O_RDWR | O_NOCTTY);
    struct dz_termios raw;
    OK(f, SYS(f, dz_sys_ioctl(FK(f), fd, TCGETS, &raw)) == 0);
    raw.lflag = 0;
    OK(f, SYS(f, dz_sys_ioctl(FK(f), fd, TCSETS, &raw)) == 0);
    OK(f, SYS(f, dz_sys_ioctl(FK(f), fd, TIOCGPTN, &n)) == 0);
    OK(f, SYS(f, dz_sys_ioctl(FK(f), fd, TIOCSPTLCK, &zero)) == 0);
    f->note[1] = n;
    OK(f, fib_fork(f, flushes) > 0);
    memset(data, 'x', sizeof data);
    int64_t t0 = f->r->now;
    OK(f, SYS(f, dz_sys_write(FK(f), fd, data, sizeof data)) == sizeof data);
    OK(f, f->r->now - t0 == 10000000);
    return 0;
}
TEST(pty_typist_goes_on_when_input_is_flushed)
{
    struct krig r;
    CHECK_INT(krig_main_as(types_much, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- switches of the discipline, one by one -----------------------------------------------------
 */

TEST(ldisc_without_isig_takes_its_keys_as_text)
{
    struct tty y;
    struct dz_job job = {0};
    tty_start(&y);
    set(&y, ISIG, 0); /* lines are edited as ever */
    (void)tty_spawn(&y, cat);
    CHECK_INT(dz_kernel_run(y.r.k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    type_s(&y, "a\3\34\32b\r");
    CHECK_INT(dz_kernel_run(y.r.k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    CHECK_STR(screen(&y), "a^C^\\^Zb\r\na\3\34\32b\r\n");
    type_s(&y, "\4");
    CHECK_INT(krig_run(&y.r, 1, &job), 1);
    CHECK_INT(job.status, 0);
    CHECK_INT(krig_stop(&y.r), 0);
}

TEST(ldisc_noflsh_keeps_what_was_typed)
{
    struct tty y;
    tty_start(&y);
    set(&y, 0, NOFLSH);
    type_s(&y, "kept\r\3");
    CHECK_STR(screen(&y), "kept\r\n^C");
    CHECK_STR(line(&y), "kept\n");
    set(&y, NOFLSH, 0);
    type_s(&y, "lost\r\3");
    CHECK_STR(line(&y), "!");
    CHECK_INT(krig_stop(&y.r), 0);
}

static void set_input(struct tty *y, uint32_t iflag)
{
    struct dz_termios to = y->t->termios;
    to.iflag = iflag;
    dz_k_ldisc_set(y->r.k, y->t, &to);
}

TEST(ldisc_input_is_mapped)
{
    struct tty y;
    tty_start(&y);
    set_input(&y, ICRNL | ISTRIP);
    type_s(&y, "\xe1\r");
    CHECK_STR(line(&y), "a\n");
    set_input(&y, ICRNL | IUTF8);
    type_s(&y, "x\xf0\x9f\x98\x80\177y\r"); /* one character of four bytes */
    CHECK_STR(line(&y), "xy\n");
    type_s(&y, "a b\xc3\xa9z\27d\r"); /* ^W takes the word whole */
    CHECK_STR(line(&y), "a d\n");
    set_input(&y, IGNCR);
    type_s(&y, "a\rb\n");
    CHECK_STR(line(&y), "ab\n");
    CHECK_INT(krig_stop(&y.r), 0);
}

TEST(ldisc_lines_end_as_they_are_told)
{
    struct tty y;
    tty_start(&y);
    struct dz_termios to = y.t->termios;
    to.cc[VEOL] = ';';
    to.cc[VEOL2] = '!';
    dz_k_ldisc_set(y.r.k, y.t, &to);
    type_s(&y, "a;b!c");
    CHECK_STR(line(&y), "a;");
    CHECK_STR(line(&y), "b!");
    set(&y, IEXTEN, 0);
    type_s(&y, "d!\r");
    CHECK_STR(line(&y), "cd!\n");
    type_s(&y, "two\4one\4"); /* an end of file behind bytes ends a line without one */
    CHECK_STR(line_n(&y, 2), "tw");
    CHECK_STR(line(&y), "o");
    CHECK_STR(line(&y), "one");
    CHECK_STR(line(&y), "!");
    CHECK_INT(y.t->lines, 0);
    CHECK_INT(krig_stop(&y.r), 0);
}

TEST(ldisc_full_lines_have_room_for_their_end)
{
    static char much[DZ_KERNEL_TTY_IN - 1];
    struct tty y;
    memset(much, 'x', sizeof much);
    tty_start(&y);
    set(&y, ECHO, 0);
    CHECK_INT(type_n(&y, much, sizeof much), sizeof much);
    CHECK_INT(y.t->len, DZ_KERNEL_TTY_IN - 1);
    type_s(&y, "\r");
    CHECK_INT(y.t->len, DZ_KERNEL_TTY_IN);
    CHECK_INT(strlen(line(&y)), DZ_KERNEL_TTY_IN);
    CHECK_INT(krig_stop(&y.r), 0);
}

TEST(ldisc_output_stops_before_a_character_is_cut)
{
    static uint8_t much[DZ_KERNEL_TTY_OUT];
    struct tty y;
    tty_start(&y);
    memset(much, 'x', sizeof much);
    much[DZ_KERNEL_TTY_OUT - 9] = '\t';
    y.r.take = 0;
    struct dz_termios to = y.t->termios;
    to.oflag = OPOST | TAB3;
    dz_k_ldisc_set(y.r.k, y.t, &to);
    size_t n = dz_k_ldisc_write(y.r.k, y.t, much, sizeof much);
    CHECK_INT(n, DZ_KERNEL_TTY_OUT - 7); /* up to what may take 8 places */
    size_t shown = y.t->out_len;
    CHECK(shown <= DZ_KERNEL_TTY_OUT && shown > DZ_KERNEL_TTY_OUT - 8);
    y.r.take = SIZE_MAX;
    dz_k_stream(y.r.k, 1)->blocked = 0;
    CHECK_INT(strlen(screen(&y)), shown);
    CHECK_INT(krig_stop(&y.r), 0);
}

TEST(ldisc_stopped_output_goes_on_by_its_keys)
{
    struct tty y;
    tty_start(&y);
    type_s(&y, "\23"); /* ^S */
    type_s(&y, "a");
    CHECK_INT(dz_k_ldisc_write(y.r.k, y.t, (const uint8_t *)"x", 1), 0); /* no key but ^Q */
    set_input(&y, ICRNL | IXON | IXANY);
    type_s(&y, "b");
    CHECK_INT(dz_k_ldisc_write(y.r.k, y.t, (const uint8_t *)"x", 1), 1);
    CHECK_INT(krig_stop(&y.r), 0);
}

TEST(ldisc_raw_reads_are_ready_by_vmin)
{
    struct tty y;
    tty_start(&y);
    struct dz_termios to = y.t->termios;
    to.lflag &= ~(uint32_t)(ICANON | ECHO);
    to.cc[VMIN] = 3;
    to.cc[VTIME] = 0;
    dz_k_ldisc_set(y.r.k, y.t, &to);
    type_s(&y, "ab");
    CHECK(!dz_k_ldisc_ready(y.t));
    type_s(&y, "c");
    CHECK(dz_k_ldisc_ready(y.t));
    CHECK_INT(krig_stop(&y.r), 0);
}

TEST(ldisc_lines_made_in_raw_mode_count_once)
{
    struct tty y;
    tty_start(&y);
    set(&y, ICANON, 0);
    type_s(&y, "raw");
    set(&y, 0, ICANON);
    CHECK_INT(y.t->lines, 1);
    CHECK_STR(line(&y), "raw");
    CHECK_INT(y.t->lines, 0);
    CHECK_STR(line(&y), "!");
    CHECK_INT(krig_stop(&y.r), 0);
}

/* ---- the output gate
 * ------------------------------------------------------------------------------ */

static int writes_then_shows(struct fib *f)
{
    int64_t fd = fib_open(f, "/tmp/truth", O_CREAT | O_WRONLY);
    OK(f, SYS(f, dz_sys_write(FK(f), (int)fd, "x", 1)) == 1);
    OK(f, SYS(f, dz_sys_write(FK(f), 1, "done", 4)) == 4);
    return 0;
}
TEST(tty_shows_nothing_that_is_not_committed)
{
    struct tty y;
    struct dz_job job = {0};
    tty_start(&y);
    int before = y.r.commits;
    CHECK(tty_spawn(&y, writes_then_shows) != 0);
    CHECK_INT(krig_run(&y.r, 1, &job), 1);
    CHECK_INT(job.status, 0);
    CHECK_STR(screen(&y), "done");
    CHECK(y.r.commits > before);
    CHECK(!dz_vfs_dirty(y.r.disk.v));
    CHECK_INT(krig_stop(&y.r), 0);
}

/* A host that takes little: a writer waits for it, and goes on when it takes more. */
static int shows_much(struct fib *f)
{
    static char data[5 * DZ_KERNEL_TTY_OUT];
    memset(data, 'y', sizeof data);
    OK(f, SYS(f, dz_sys_write(FK(f), 1, data, sizeof data)) == sizeof data);
    return 0;
}
TEST(tty_writers_wait_for_the_screen)
{
    struct tty y;
    struct dz_job job = {0};
    size_t got = 0;
    tty_start(&y);
    y.r.take = 0;
    CHECK(tty_spawn(&y, shows_much) != 0);
    CHECK_INT(dz_kernel_run(y.r.k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    CHECK(!dz_kernel_event(y.r.k, &job));
    for (int i = 0; i < 1000 && job.leader == 0; i++) {
        y.r.take = 1000;
        CHECK_INT(dz_kernel_stream_ready(y.r.k, y.stream), 0);
        (void)dz_kernel_run(y.r.k, INT64_MAX, NULL);
        (void)dz_kernel_event(y.r.k, &job);
        got += y.r.out_len;
        y.r.out_len = 0;
    }
    CHECK_INT(job.status, 0);
    y.r.take = SIZE_MAX;
    CHECK_INT(dz_kernel_stream_ready(y.r.k, y.stream), 0);
    CHECK_INT(got + strlen(screen(&y)), 5 * DZ_KERNEL_TTY_OUT);
    CHECK_INT(krig_stop(&y.r), 0);
}

TEST(tty_end_of_input_waits_for_room)
{
    struct tty y;
    tty_start(&y);
    set(&y, ECHO, 0);
    for (int i = 0; i < DZ_KERNEL_TTY_IN / 2 - 1; i++)
        type_s(&y, "a\r");
    CHECK_INT(type_n(&y, "\r", 1), 1);
    CHECK_INT(dz_kernel_stream_room(y.r.k, y.stream), 0);
    CHECK_INT(dz_kernel_stream_eof(y.r.k, y.stream), DZ_EBUSY);
    CHECK_STR(line(&y), "a\n");
    CHECK_INT(dz_kernel_stream_eof(y.r.k, y.stream), 0);
    CHECK_INT(krig_stop(&y.r), 0);
}

/* ---- signals of a terminal --------------------------------------------------------------------
 */

static int handles_ttin(struct fib *f)
{
    const struct dz_sigact a = {.handler = 2, .flags = 0, .mask = 0};
    char c;
    f->handler[2] = winch; /* notes its number */
    OK(f, dz_sys_setpgid(FK(f), 0, 0) == 0);
    OK(f, dz_sys_sigaction(FK(f), SIGTTIN, &a, NULL) == 0);
    OK(f, SYS(f, dz_sys_read(FK(f), 0, &c, 1)) == -EINTR && f->note[7] == SIGTTIN);
    return 0;
}
static int forks_a_handler_of_ttin(struct fib *f)
{
    int status = 1;
    int64_t pid = fib_fork(f, handles_ttin);
    return fib_wait(f, pid, &status) == pid && status == 0 ? 0 : 1;
}
TEST(tty_handler_of_ttin_interrupts_the_read)
{
    struct tty y;
    struct dz_job job = {0};
    tty_start(&y);
    (void)tty_spawn(&y, forks_a_handler_of_ttin);
    CHECK_INT(krig_run(&y.r, 1, &job), 1);
    CHECK_INT(job.status, 0);
    CHECK_INT(krig_stop(&y.r), 0);
}

static int stays_in_front(struct fib *f)
{
    const struct dz_sigact a = {.handler = 2, .flags = 0, .mask = 0};
    f->handler[2] = winch;
    OK(f, dz_sys_sigaction(FK(f), SIGHUP, &a, NULL) == 0);
    fib_sleep(f, 1000);
    krig_log(f->r, f->note[7] == SIGHUP ? "hung up" : "alone");
    return 0;
}
static int leads_and_leaves(struct fib *f)
{
    OK(f, fib_fork(f, stays_in_front) > 0);
    fib_sleep(f, 10);
    return 0;
}
TEST(tty_leader_that_ends_hangs_up_who_is_in_front)
{
    struct tty y;
    struct dz_job job = {0};
    tty_start(&y);
    (void)tty_spawn(&y, leads_and_leaves);
    CHECK_INT(krig_run(&y.r, 1, &job), 1);
    for (int i = 0; i < 10 && y.r.k->tab[DZ_KERNEL_TABLE_PROC].used > 1; i++) {
        (void)dz_kernel_run(y.r.k, INT64_MAX, NULL);
        y.r.now += 1000000000;
    }
    CHECK_STR(y.r.log, "hung up");
    CHECK_INT(krig_stop(&y.r), 0);
}

static int counts_resizes(struct fib *f)
{
    const struct dz_sigact a = {.handler = 2, .flags = 0, .mask = 0};
    f->handler[2] = winch;
    OK(f, dz_sys_sigaction(FK(f), SIGWINCH, &a, NULL) == 0);
    fib_sleep(f, 100);
    return (int)f->note[7];
}
TEST(tty_resize_to_the_same_size_is_none)
{
    struct tty y;
    struct dz_job job = {0};
    tty_start(&y);
    struct dz_winsize same = y.t->size;
    (void)tty_spawn(&y, counts_resizes);
    CHECK_INT(dz_kernel_run(y.r.k, INT64_MAX, NULL), DZ_KERNEL_IDLE);
    CHECK_INT(dz_kernel_pty_resize(y.r.k, y.stream, &same), 0);
    CHECK_INT(krig_run(&y.r, 1, &job), 1);
    CHECK_INT(job.status, 0);
    CHECK_INT(krig_stop(&y.r), 0);
}

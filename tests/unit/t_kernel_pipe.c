/* SPDX-License-Identifier: MIT
 * Pipes, FIFOs and poll. */
#include "../lib/kernel_rig.h"
#include "tap.h"

static int reads_all(struct fib *f)
{
    char buf[1000];
    int64_t sum = 0, r;
    OK(f, dz_sys_close(FK(f), (int)f->note[1]) == 0);
    while ((r = SYS(f, dz_sys_read(FK(f), (int)f->note[0], buf, sizeof buf))) > 0)
        for (int64_t i = 0; i < r; i++)
            sum += buf[i];
    OK(f, r == 0);
    return sum == 300000 ? 7 : 1;
}

static int writes_much(struct fib *f)
{
    int fds[2], status = 0;
    static char data[300000];
    memset(data, 1, sizeof data);
    OK(f, dz_sys_pipe2(FK(f), 0, fds) == 0);
    f->note[0] = fds[0];
    f->note[1] = fds[1];
    int64_t pid = fib_fork(f, reads_all);
    OK(f, pid > 0);
    OK(f, dz_sys_close(FK(f), fds[0]) == 0);
    OK(f, SYS(f, dz_sys_write(FK(f), fds[1], data, sizeof data)) == sizeof data);
    OK(f, dz_sys_close(FK(f), fds[1]) == 0);
    OK(f, fib_wait(f, pid, &status) == pid);
    return WEXITSTATUS(status) == 7 ? 0 : 1;
}
TEST(pipe_carries_more_than_it_holds_and_ends)
{
    struct krig r;
    CHECK_INT(krig_main_as(writes_much, 0, &r), 0);
    CHECK_INT(r.k->pipe_bytes, 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int alone(struct fib *f)
{
    int fds[2];
    char buf[8192] = {0};
    OK(f, dz_sys_pipe2(FK(f), O_NONBLOCK, fds) == 0);
    OK(f, SYS(f, dz_sys_read(FK(f), fds[0], buf, 10)) == -EAGAIN);
    OK(f, SYS(f, dz_sys_write(FK(f), fds[0], buf, 10)) == -EBADF);
    OK(f, SYS(f, dz_sys_read(FK(f), fds[1], buf, 10)) == -EBADF);
    int64_t all = 0, w;
    while ((w = SYS(f, dz_sys_write(FK(f), fds[1], buf, 5000))) > 0)
        all += w;
    OK(f, w == -EAGAIN && all == DZ_KERNEL_PIPE_SIZE);
    OK(f, SYS(f, dz_sys_read(FK(f), fds[0], buf, 100)) == 100);
    OK(f, SYS(f, dz_sys_write(FK(f), fds[1], buf, 101)) == -EAGAIN); /* all or nothing */
    OK(f, SYS(f, dz_sys_write(FK(f), fds[1], buf, 100)) == 100);
    OK(f, SYS(f, dz_sys_read(FK(f), fds[0], buf, 100)) == 100);
    OK(f, SYS(f, dz_sys_write(FK(f), fds[1], buf, 5000)) == 100); /* more than PIPE_BUF: a part */
    OK(f, SYS(f, dz_sys_lseek(FK(f), fds[0], 0, SEEK_CUR)) == -ESPIPE);
    OK(f, SYS(f, dz_sys_pread(FK(f), fds[0], buf, 1, 0)) == -ESPIPE);
    return 0;
}
TEST(pipe_write_of_pipe_buf_is_whole_or_waits)
{
    struct krig r;
    CHECK_INT(krig_main_as(alone, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int breaks(struct fib *f)
{
    int fds[2];
    OK(f, dz_sys_pipe2(FK(f), 0, fds) == 0);
    OK(f, dz_sys_close(FK(f), fds[0]) == 0);
    const struct dz_sigact ignore = {.handler = 1};
    OK(f, dz_sys_sigaction(FK(f), SIGPIPE, &ignore, NULL) == 0);
    OK(f, SYS(f, dz_sys_write(FK(f), fds[1], "x", 1)) == -EPIPE);
    const struct dz_sigact dfl = {.handler = 0};
    OK(f, dz_sys_sigaction(FK(f), SIGPIPE, &dfl, NULL) == 0);
    (void)SYS(f, dz_sys_write(FK(f), fds[1], "x", 1));
    return 1; /* never */
}
TEST(pipe_without_readers_kills_or_gives_epipe)
{
    struct krig r;
    CHECK_INT(krig_main_as(breaks, 0, &r), SIGPIPE);
    CHECK_INT(krig_stop(&r), 0);
}

static int fifo_writer(struct fib *f)
{
    fib_sleep(f, 50);
    int64_t fd = fib_open(f, "/tmp/q", O_WRONLY);
    OK(f, fd >= 0);
    OK(f, SYS(f, dz_sys_write(FK(f), (int)fd, "hello", 5)) == 5);
    return 0;
}
static int fifo_reader(struct fib *f)
{
    char buf[16];
    const struct dz_at at = {.dirfd = AT_FDCWD, .path = "/tmp/q"};
    OK(f, SYS(f, dz_sys_mknodat(FK(f), at, S_IFIFO | 0644, 0)) == 0);
    OK(f, fib_open(f, "/tmp/q", O_WRONLY | O_NONBLOCK) == -ENXIO);
    int64_t pid = fib_fork(f, fifo_writer);
    int64_t before = f->r->now;
    int64_t fd = fib_open(f, "/tmp/q", O_RDONLY); /* waits for the writer */
    OK(f, fd >= 0 && f->r->now - before >= 50000000);
    OK(f, SYS(f, dz_sys_read(FK(f), (int)fd, buf, sizeof buf)) == 5);
    OK(f, memcmp(buf, "hello", 5) == 0);
    OK(f, SYS(f, dz_sys_read(FK(f), (int)fd, buf, sizeof buf)) == 0);
    int status = 1;
    OK(f, fib_wait(f, pid, &status) == pid && status == 0);
    struct dz_kstat st;
    OK(f, dz_sys_fstatat(FK(f), dz_at_fd((int)fd), &st) == 0 && S_ISFIFO(st.mode));
    return 0;
}
TEST(fifo_joins_its_two_ends)
{
    struct krig r;
    CHECK_INT(krig_main_as(fifo_reader, 0, &r), 0);
    CHECK_INT(r.k->tab[DZ_KERNEL_TABLE_PIPE].used, 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int poll_writer(struct fib *f)
{
    fib_sleep(f, 20);
    (void)SYS(f, dz_sys_write(FK(f), (int)f->note[1], "x", 1));
    fib_sleep(f, 20);
    return 0;
}
static int polls(struct fib *f)
{
    int fds[2];
    char c;
    OK(f, dz_sys_pipe2(FK(f), 0, fds) == 0);
    struct pollfd p[3] = {{fds[0], POLLIN, 0}, {fds[1], POLLOUT, 0}, {77, POLLIN, 0}};
    OK(f, SYS(f, dz_sys_poll(FK(f), p, 1, 0, NULL)) == 0);
    OK(f, SYS(f, dz_sys_poll(FK(f), p, 3, -1, NULL)) == 2);
    OK(f, p[0].revents == 0 && p[1].revents == POLLOUT && p[2].revents == POLLNVAL);
    int64_t t0 = f->r->now;
    OK(f, SYS(f, dz_sys_poll(FK(f), p, 1, 30000000, NULL)) == 0);
    OK(f, f->r->now - t0 == 30000000);
    f->note[1] = fds[1];
    OK(f, fib_fork(f, poll_writer) > 0);
    OK(f, dz_sys_close(FK(f), fds[1]) == 0);
    t0 = f->r->now;
    OK(f, SYS(f, dz_sys_poll(FK(f), p, 1, -1, NULL)) == 1 && p[0].revents == POLLIN);
    OK(f, f->r->now - t0 == 20000000);
    OK(f, SYS(f, dz_sys_read(FK(f), fds[0], &c, 1)) == 1);
    OK(f, SYS(f, dz_sys_poll(FK(f), p, 1, -1, NULL)) == 1 && p[0].revents == POLLHUP);
    OK(f, f->k->waiters.used == 0);
    return 0;
}
TEST(poll_waits_for_what_comes_first)
{
    struct krig r;
    CHECK_INT(krig_main_as(polls, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int hoards(struct fib *f)
{
    int fds[2], n = 0, small = 0;
    char buf[5000] = {0};
    const uint64_t most[2] = {1000, 1000};
    OK(f, dz_sys_prlimit(FK(f), RLIMIT_NOFILE, most, NULL) == 0);
    while (n < 400 && dz_sys_pipe2(FK(f), O_NONBLOCK, fds) == 0) {
        n++;
        int64_t w = SYS(f, dz_sys_write(FK(f), fds[1], buf, sizeof buf));
        OK(f, w > 0 || w == -ENOMEM);
        small += w < (int64_t)sizeof buf;
    }
    OK(f, n == 400 && small > 0);
    OK(f, f->k->pipe_bytes <= f->k->limits.pipe_bytes);
    return 0;
}
TEST(pipes_share_the_machines_limit)
{
    struct krig r;
    CHECK_INT(krig_main_as(hoards, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- at the edges --------------------------------------------------------------------------- */

static int fifo_writer_that_cleans_up(struct fib *f)
{
    const struct dz_at at = {.dirfd = AT_FDCWD, .path = "/tmp/q"};
    fib_sleep(f, 10);
    int64_t fd = fib_open(f, "/tmp/q", O_WRONLY);
    OK(f, fd >= 0);
    OK(f, dz_sys_unlinkat(FK(f), at, false) == 0); /* before the reader has run again */
    OK(f, SYS(f, dz_sys_write(FK(f), (int)fd, "hello", 5)) == 5);
    return 0;
}
static int reads_a_fifo_without_a_name(struct fib *f)
{
    char buf[16];
    const struct dz_at at = {.dirfd = AT_FDCWD, .path = "/tmp/q"};
    OK(f, SYS(f, dz_sys_mknodat(FK(f), at, S_IFIFO | 0644, 0)) == 0);
    OK(f, fib_fork(f, fifo_writer_that_cleans_up) > 0);
    int64_t fd = fib_open(f, "/tmp/q", O_RDONLY);
    OK(f, fd >= 0);
    OK(f, SYS(f, dz_sys_read(FK(f), (int)fd, buf, sizeof buf)) == 5);
    return 0;
}
TEST(fifo_may_lose_its_name_while_an_opener_waits)
{
    struct krig r;
    CHECK_INT(krig_main_as(reads_a_fifo_without_a_name, 0, &r), 0);
    CHECK_INT(r.k->tab[DZ_KERNEL_TABLE_PIPE].used, 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int fifo_server(struct fib *f)
{
    char c;
    const struct dz_at at = {.dirfd = AT_FDCWD, .path = "/tmp/q"};
    OK(f, SYS(f, dz_sys_mknodat(FK(f), at, S_IFIFO | 0644, 0)) == 0);
    int64_t fd = fib_open(f, "/tmp/q", O_RDONLY | O_NONBLOCK);
    OK(f, fd >= 0);
    struct pollfd p = {(int)fd, POLLIN, 0};
    OK(f, SYS(f, dz_sys_poll(FK(f), &p, 1, 10000000, NULL)) == 0); /* nobody has come yet */
    OK(f, fib_fork(f, fifo_writer) > 0);
    int64_t t0 = f->r->now;
    OK(f, SYS(f, dz_sys_poll(FK(f), &p, 1, -1, NULL)) == 1);
    OK(f, (p.revents & POLLIN) && f->r->now - t0 == 50000000);
    while (SYS(f, dz_sys_read(FK(f), (int)fd, &c, 1)) > 0)
        ;
    OK(f, SYS(f, dz_sys_poll(FK(f), &p, 1, -1, NULL)) == 1 && p.revents == POLLHUP);
    return 0;
}
TEST(fifo_without_a_writer_yet_has_not_hung_up)
{
    struct krig r;
    CHECK_INT(krig_main_as(fifo_server, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- exactly at the limits -------------------------------------------------------------- */

static int fills_to(struct fib *f, int fd, size_t bytes)
{
    static char data[DZ_KERNEL_PIPE_SIZE];
    memset(data, 'd', sizeof data);
    return SYS(f, dz_sys_write(FK(f), fd, data, bytes)) == (int64_t)bytes;
}
static int writes_whole_or_not(struct fib *f)
{
    int fds[2];
    static char data[DZ_KERNEL_PIPE_BUF + 1];
    OK(f, dz_sys_pipe2(FK(f), O_NONBLOCK, fds) == 0);
    OK(f, fills_to(f, fds[1], DZ_KERNEL_PIPE_SIZE - DZ_KERNEL_PIPE_BUF + 1)); /* room: 4095 */
    struct pollfd p = {fds[1], POLLOUT, 0};
    OK(f, SYS(f, dz_sys_poll(FK(f), &p, 1, 0, NULL)) == 0);
    OK(f, SYS(f, dz_sys_write(FK(f), fds[1], data, DZ_KERNEL_PIPE_BUF)) == -EAGAIN);
    OK(f, SYS(f, dz_sys_read(FK(f), fds[0], data, 1)) == 1); /* room: 4096 */
    OK(f, SYS(f, dz_sys_poll(FK(f), &p, 1, 0, NULL)) == 1 && p.revents == POLLOUT);
    OK(f, SYS(f, dz_sys_write(FK(f), fds[1], data, DZ_KERNEL_PIPE_BUF)) == DZ_KERNEL_PIPE_BUF);
    OK(f, SYS(f, dz_sys_read(FK(f), fds[0], data, 10)) == 10);
    OK(f, SYS(f, dz_sys_write(FK(f), fds[1], data, DZ_KERNEL_PIPE_BUF + 1)) == 10);
    return 0;
}
TEST(pipe_buf_is_the_last_size_that_is_whole)
{
    struct krig r;
    CHECK_INT(krig_main_as(writes_whole_or_not, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int writes_a_whole_piece(struct fib *f)
{
    static char data[DZ_KERNEL_PIPE_BUF];
    OK(f, SYS(f, dz_sys_write(FK(f), (int)f->note[1], data, sizeof data)) == sizeof data);
    return 0;
}
static int reads_until_there_is_room(struct fib *f)
{
    int fds[2], status = 1;
    static char data[DZ_KERNEL_PIPE_BUF];
    OK(f, dz_sys_pipe2(FK(f), 0, fds) == 0);
    OK(f, fills_to(f, fds[1], DZ_KERNEL_PIPE_SIZE));
    f->note[1] = fds[1];
    int64_t pid = fib_fork(f, writes_a_whole_piece);
    fib_sleep(f, 10);
    OK(f, SYS(f, dz_sys_read(FK(f), fds[0], data, DZ_KERNEL_PIPE_BUF - 1)) > 0);
    fib_sleep(f, 10);
    OK(f, SYS(f, dz_sys_waitpid(FK(f), (int)pid, WNOHANG, NULL, NULL)) == 0);
    OK(f, SYS(f, dz_sys_read(FK(f), fds[0], data, 1)) == 1);
    OK(f, fib_wait(f, pid, &status) == pid && status == 0); /* woken by this byte */
    return 0;
}
TEST(pipe_writer_goes_on_as_soon_as_its_piece_fits)
{
    struct krig r;
    CHECK_INT(krig_main_as(reads_until_there_is_room, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int small_writes_fill_it(struct fib *f)
{
    int fds[2];
    char data[100] = {0};
    size_t n = 0;
    OK(f, dz_sys_pipe2(FK(f), O_NONBLOCK, fds) == 0);
    while (SYS(f, dz_sys_write(FK(f), fds[1], data, sizeof data)) == sizeof data)
        n += sizeof data;
    OK(f, n == DZ_KERNEL_PIPE_SIZE / sizeof data * sizeof data);
    struct pollfd p = {fds[1], 0, 0};
    OK(f, dz_sys_close(FK(f), fds[0]) == 0);
    OK(f, SYS(f, dz_sys_poll(FK(f), &p, 1, 0, NULL)) == 1 && p.revents == POLLERR);
    return 0;
}
TEST(pipe_grows_by_small_writes)
{
    struct krig r;
    CHECK_INT(krig_main_as(small_writes_fill_it, 0, &r), 0);
    CHECK_INT(r.k->pipe_bytes, 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int no_room_for_two(struct fib *f)
{
    int fds[2], before;
    const uint64_t most[2] = {1, 1};
    OK(f, (before = (int)f->k->tab[DZ_KERNEL_TABLE_FILE].used) == 0);
    OK(f, dz_sys_prlimit(FK(f), RLIMIT_NOFILE, most, NULL) == 0);
    OK(f, dz_sys_pipe2(FK(f), 0, fds) == -EMFILE);
    OK(f, dz_sys_fd(FK(f), 0) == NULL || dz_sys_fd(FK(f), 0)->file == 0);
    OK(f, f->k->tab[DZ_KERNEL_TABLE_FILE].used == 0);
    return f->k->tab[DZ_KERNEL_TABLE_PIPE].used == 0 ? 0 : 1;
}
TEST(pipe_that_has_no_second_descriptor_has_none)
{
    struct krig r;
    CHECK_INT(krig_main_as(no_room_for_two, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- who waits in one place ----------------------------------------------------------------- */

/* Reads a byte and leaves with it. */
static int reads_a_byte(struct fib *f)
{
    char c = 0;
    return SYS(f, dz_sys_read(FK(f), (int)f->note[0], &c, 1)) == 1 ? c : 99;
}
static int feeds_in_order(struct fib *f)
{
    int fds[2], status = 0;
    int64_t pid[4];
    OK(f, dz_sys_pipe2(FK(f), 0, fds) == 0);
    f->note[0] = fds[0];
    for (int i = 0; i < 4; i++) {
        pid[i] = fib_fork(f, reads_a_byte);
        fib_sleep(f, 1);
    }
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid[0], SIGKILL)) == 0); /* the first who waits */
    OK(f, fib_wait(f, pid[0], &status) == pid[0] && WTERMSIG(status) == SIGKILL);
    OK(f, SYS(f, dz_sys_kill(FK(f), (int)pid[2], SIGKILL)) == 0); /* one in the middle */
    OK(f, fib_wait(f, pid[2], &status) == pid[2]);
    OK(f, SYS(f, dz_sys_write(FK(f), fds[1], "\7", 1)) == 1);
    OK(f, fib_wait(f, -1, &status) == pid[1] && WEXITSTATUS(status) == 7); /* who waits longest */
    OK(f, SYS(f, dz_sys_write(FK(f), fds[1], "\10", 1)) == 1);
    OK(f, fib_wait(f, -1, &status) == pid[3] && WEXITSTATUS(status) == 8);
    return 0;
}
TEST(pipe_readers_are_served_in_the_order_of_their_coming)
{
    struct krig r;
    CHECK_INT(krig_main_as(feeds_in_order, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

static int opens_both_ways_and_leaves(struct fib *f)
{
    fib_sleep(f, 10);
    return fib_open(f, "/tmp/q", O_RDWR) >= 0 ? 0 : 1;
}
static int opens_for_a_guest_that_left(struct fib *f)
{
    const struct dz_at at = {.dirfd = AT_FDCWD, .path = "/tmp/q"};
    OK(f, SYS(f, dz_sys_mknodat(FK(f), at, S_IFIFO | 0644, 0)) == 0);
    OK(f, fib_fork(f, opens_both_ways_and_leaves) > 0);
    return fib_open(f, "/tmp/q", O_RDONLY) >= 0 ? 0 : 1;
}
TEST(fifo_opened_both_ways_lets_a_reader_in)
{
    struct krig r;
    CHECK_INT(krig_main_as(opens_for_a_guest_that_left, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

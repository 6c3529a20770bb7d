/* SPDX-License-Identifier: MIT
 * Clocks, and the times of files. */
#include "p1.h"

static int set(const char *path, int follow, uint64_t atim, uint64_t mtim, int flags)
{
    return p1_path_filestat_set_times(ROOT, follow, path, (int)strlen(path), atim, mtim, flags);
}

static void by_descriptor(void)
{
    int fd = OPEN("f", O_CREAT, R_READ | R_WRITE | R_STAT | R_TIMES);
    struct filestat was, is;
    IS(p1_fd_filestat_get(fd, &was), OK);
    IS(p1_fd_filestat_set_times(fd, 5, was.mtim - 100, TIME_MTIM), OK);
    IS(p1_fd_filestat_get(fd, &is), OK);
    IS(is.mtim, was.mtim - 100);
    IS(is.atim, was.atim);
    IS(p1_fd_filestat_set_times(fd, 1234567890123456789u, 0, TIME_ATIM), OK);
    IS(p1_fd_filestat_get(fd, &is), OK);
    IS(is.atim, 1234567890123456789u);
    IS(is.mtim, was.mtim - 100);
    IS(p1_fd_filestat_set_times(fd, 0, 0, TIME_ATIM_NOW | TIME_MTIM_NOW), OK);
    IS(p1_fd_filestat_get(fd, &is), OK);
    IS(is.mtim >= was.mtim && is.atim == is.mtim, 1);
    IS(p1_fd_filestat_set_times(fd, 1, 2, TIME_MTIM | TIME_MTIM_NOW), E_INVAL);
    IS(p1_fd_filestat_set_times(fd, 1, 2, TIME_ATIM | TIME_ATIM_NOW), E_INVAL);
    IS(p1_fd_filestat_set_times(fd, 1, 2, 16), E_INVAL);
    IS(p1_fd_filestat_set_times(fd, 1, 2, 0), OK);
    IS(p1_fd_filestat_get(fd, &was), OK);
    IS(was.mtim, is.mtim);
    IS(p1_fd_close(fd), OK);
}

static void by_path(void)
{
    struct filestat file, link, is;
    IS(symlink_("f", "link"), OK);
    IS(stat_("f", 0, &file), OK);
    IS(stat_("link", 0, &link), OK);
    IS(set("link", 0, 0, link.mtim - 200, TIME_MTIM), OK);
    IS(stat_("link", 0, &is), OK);
    IS(is.mtim, link.mtim - 200);
    IS(stat_("f", 0, &is), OK);
    IS(is.mtim, file.mtim);
    IS(stat_("link", 1, &is), OK);
    IS(is.mtim, file.mtim);
    IS(set("link", 1, 0, 77, TIME_MTIM), OK);
    IS(stat_("f", 0, &is), OK);
    IS(is.mtim, 77);
    IS(set("f", 0, 0, 1, TIME_MTIM | TIME_MTIM_NOW), E_INVAL);
    IS(set("f", 0, 1, 0, TIME_ATIM | TIME_ATIM_NOW), E_INVAL);
    IS(stat_("f", 0, &is), OK);
    IS(is.mtim, 77);
    IS(set("missing", 0, 0, 0, TIME_MTIM_NOW), E_NOENT);
}

static void clocks(void)
{
    for (int clock = 0; clock < 4; clock++) {
        uint64_t a = 0, b = 0, res = 0;
        IS(p1_clock_res_get(clock, &res), OK);
        IS(res > 0, 1);
        IS(p1_clock_time_get(clock, 1, &a), OK);
        IS(p1_clock_time_get(clock, 0, &b), OK);
        IS(clock == 0 || b >= a, 1);
        IS(clock != 0 || a > 1500000000000000000u, 1);
    }
    uint64_t at;
    IS(p1_clock_time_get(4, 0, &at), E_INVAL);
    IS(p1_clock_res_get(-1, &at), E_INVAL);
    IS(p1_clock_time_get(0, 0, (void *)0xfffffffcu), E_FAULT);
}

int main(void)
{
    by_descriptor();
    by_path();
    clocks();
    return bad;
}

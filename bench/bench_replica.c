/* SPDX-License-Identifier: MIT
 *
 * bench_replica.c - a restore of 256 MiB from a directory and a push to it, as whole programs,
 * beside litestream's restore of the same replica (`make bench-peers`). The second table has the
 * CPU time. Half of each page is random, so that pages compress to about a half, as those of real
 * disks do.
 */
#include "bench.h"

#include "base/fd.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    PAGES = 64 << 10, /* 256 MiB */
};

static char doze[4096], litestream[4096], dir[DZ_TEMP_DIR_TEXT], db[DZ_TEMP_DIR_TEXT + 16],
    target[DZ_TEMP_DIR_TEXT + 16], made[DZ_TEMP_DIR_TEXT + 16], url[DZ_TEMP_DIR_TEXT + 64],
    new_url[DZ_TEMP_DIR_TEXT + 64];

static int make_database(void)
{
    static uint8_t page[PAGE];
    uint64_t x = 1;
    int fd = dz_fd_open(AT_FDCWD, db, O_WRONLY | O_CREAT | O_EXCL, 0600, NULL), rc = fd;
    for (uint32_t n = 0; rc >= 0 && n < PAGES; n++) {
        for (size_t i = 0; i < PAGE / 2; i += sizeof x) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            memcpy(page + i, &x, sizeof x);
        }
        if (n == 0)
            memcpy(page, "SQLite format 3\0\x10\0\1\1", 20);
        rc = dz_fd_write(fd, page, sizeof page, NULL);
    }
    dz_fd_close(&fd);
    return rc;
}

/* The same as bench_command(), with what it made before out of the way. */
static int afresh(struct bench *b, void *argv, long count)
{
    bench_stop(b);
    if ((unlink(target) < 0 && access(target, F_OK) == 0) ||
        dz_fd_remove_tree(AT_FDCWD, made, NULL) < 0)
        return -1;
    bench_start(b);
    return bench_command(b, argv, count);
}

static void measure(const char *name, int rounds, enum bench_clock clock, bool peer)
{
    static char restore[] = "restore", o[] = "-o", replica[] = "replica", push[] = "push";
    static struct bench b;
    char *ours[] = {doze, restore, o, target, url, NULL};
    char *theirs[] = {litestream, restore, o, target, url, NULL};
    char *pushing[] = {doze, replica, push, db, new_url, NULL};
    const char *unit = clock == BENCH_CPU ? "ms CPU" : "ms";
    bench_init(&b, name, rounds);
    b.clock = clock;
    int a = bench_case(&b, "restore", afresh, ours, 1);
    int p = bench_case(&b, "push", afresh, pushing, 1);
    int l = peer ? bench_case(&b, "litestream restore", afresh, theirs, 1) : 0;
    bench_run(&b);
    double ms = bench_us(&b, a) / 1000, yard = peer ? bench_us(&b, l) / 1000 : 0;
    bench_row(&b, &(struct bench_row){.row = "doze restore, 256 MiB from a directory",
                                      .value = ms,
                                      .unit = unit,
                                      .yardstick = yard,
                                      .yardstick_name = peer ? "litestream restore" : NULL,
                                      .ratio = peer ? yard / ms : 0,
                                      .budget = peer ? 2 : 500,
                                      .at_least = peer});
    bench_row(&b, &(struct bench_row){.row = "doze replica push, 256 MiB to a directory",
                                      .value = bench_us(&b, p) / 1000,
                                      .unit = unit});
    (void)bench_finish(&b);
}

int main(void)
{
    ssize_t n = readlink("/proc/self/exe", doze, sizeof doze - 16);
    char *slash = n > 0 ? strrchr(doze, '/') : NULL;
    if (!slash || dz_fd_temp_dir("doze-bench", dir, NULL) < 0)
        return 1;
    memcpy(slash, "/doze", 6);
    (void)unsetenv("AWS_CA_BUNDLE"); /* litestream fails where it is set */
    (void)snprintf(db, sizeof db, "%s/db", dir);
    (void)snprintf(target, sizeof target, "%s/target", dir);
    (void)snprintf(made, sizeof made, "%s/made", dir);
    (void)snprintf(url, sizeof url, "file://%s/replica", dir);
    (void)snprintf(new_url, sizeof new_url, "file://%s", made);
    bool peer = bench_peer("bin/litestream", litestream, sizeof litestream);
    static char replica[] = "replica", push[] = "push";
    char *first[] = {doze, replica, push, db, url, NULL};
    static struct bench once;
    if (make_database() >= 0 && bench_command(&once, first, 1) >= 0) {
        measure("replica", 3, BENCH_WALL, peer);
        measure("replica-cpu", 3, BENCH_CPU, peer);
    }
    return dz_fd_remove_tree(AT_FDCWD, dir, NULL) < 0;
}

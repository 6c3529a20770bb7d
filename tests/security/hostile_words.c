/* SPDX-License-Identifier: MIT
 *
 * hostile_words.c - attacks on what the host believes, and processes that stay after they have
 * said their last word. The tests of hostile_main.c arm these one by one.
 */
#include "hostile.h"

#include "cell/cell_int.h"

#include <poll.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

DZ_NORETURN static void stay(void)
{
    for (;;)
        (void)poll(NULL, 0, -1);
}

static void say(const struct taken *t, struct board *b, enum dz_frame_type type, uint64_t value)
{
    const struct dz_frame f = {.type = type, .value = value};
    atomic_store(&b->tried, 1);
    (void)dz_frame_send(t->socket, &f, NULL, true, NULL);
}

static bool stays(const struct taken *t, struct board *b)
{
    (void)t;
    atomic_store(&b->tried, 1);
    stay();
}

static bool fails_and_stays(const struct taken *t, struct board *b)
{
    say(t, b, DZ_FRAME_FAILED, 5);
    stay();
}

static bool sleeps_and_stays(const struct taken *t, struct board *b)
{
    say(t, b, DZ_FRAME_SUSPENDED, INT64_MAX);
    stay();
}

static bool sleeps_closes_and_stays(const struct taken *t, struct board *b)
{
    say(t, b, DZ_FRAME_SUSPENDED, INT64_MAX);
    (void)close(t->socket);
    (void)close(STDERR_FILENO); /* the same socket */
    stay();
}

static bool is_done_and_stays(const struct taken *t, struct board *b)
{
    say(t, b, DZ_FRAME_DONE, 3);
    stay();
}

/* The cell sends its descriptors to the host. */
static bool hands_over_descriptors(const struct taken *t, struct board *b)
{
    const struct dz_frame f = {.type = DZ_FRAME_LOST};
    const int fds[] = {t->disk, t->disk, t->disk};
    atomic_store(&b->tried, 1);
    for (int i = 0; i < 4; i++)
        (void)dz_frame_send_fds(t->socket, &f, NULL, fds, DZ_ARRAY_LEN(fds), NULL);
    say(t, b, DZ_FRAME_FAILED, 5);
    stay();
}

/* The log of a call is in the host's memory. */
static bool fills_its_log(const struct taken *t, struct board *b)
{
    enum {
        TMPFS = 0x01021994,
        MOST = 400, /* MiB */
    };
    static char mib[1 << 20];
    struct statfs fs;
    int fd = 3;
    (void)t;
    while (fd < DZ_CELL_NOFILE && (fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS ||
                                   pwrite(fd, "x", 1, 0) != 1)) /* the stop word is sealed */
        fd++;
    memset(mib, 'x', sizeof mib);
    atomic_store(&b->tried, 1);
    while (b->mib < MOST && pwrite(fd, mib, sizeof mib, (off_t)b->mib << 20) == sizeof mib)
        atomic_fetch_add(&b->mib, 1);
    stay();
}

static const struct attack words[] = {
    {.name = "stays", .run = stays},
    {.name = "fails and stays", .finding = "B2", .run = fails_and_stays},
    {.name = "sleeps and stays", .finding = "B2", .run = sleeps_and_stays},
    {.name = "sleeps, closes and stays", .finding = "B2", .run = sleeps_closes_and_stays},
    {.name = "is done and stays", .finding = "B2", .run = is_done_and_stays},
    {.name = "fills its log and stays", .finding = "S6", .run = fills_its_log},
    {.name = "hands over descriptors", .finding = "B5", .run = hands_over_descriptors},
};
const struct attacks hostile_words = {words, DZ_ARRAY_LEN(words)};

/* SPDX-License-Identifier: MIT
 *
 * follow.c - locks on a log by which its owner and a follower coordinate.
 */
#include "base/follow.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>

#define FOLLOWED (INT64_C(1) << 61)
#define FORCED   (INT64_C(1) << 60)
#define PROVEN   (INT64_C(1) << 59)
#define HAVE     (INT64_C(1) << 58)
enum {
    LOG_BITS = 40, /* of an offset in a log */
    GEN_BITS = 16,
};
#define LOG_MAX ((UINT64_C(1) << LOG_BITS) - 1)

static int set(int fd, short type, int64_t from, int64_t size)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = size};
    int rc;
    do
        rc = fcntl(fd, F_OFD_SETLK, &lock);
    while (rc < 0 && errno == EINTR);
    return rc < 0 ? -errno : 0;
}

/* The first lock of another description in this range; false: there is none. */
static bool find(int fd, int64_t from, int64_t size, struct flock *ret_lock)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = size};
    if (fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
        return false;
    *ret_lock = lock;
    return true;
}

static int64_t gen_of(const uint32_t salt[static 2])
{
    uint32_t mixed = salt[0] ^ salt[1] >> 16 ^ (salt[1] & 0xffff) * 3;
    return HAVE + ((int64_t)((mixed ^ mixed >> 16) & ((1u << GEN_BITS) - 1)) << LOG_BITS);
}

bool dz_follow_exists(int wal_fd)
{
    struct flock lock;
    return wal_fd >= 0 && find(wal_fd, FOLLOWED, 1, &lock);
}

bool dz_follow_has(int wal_fd, const uint32_t salt[static 2], uint64_t end)
{
    struct flock lock;
    assert(end > 0);
    return end <= LOG_MAX && find(wal_fd, gen_of(salt) + (int64_t)end - 1, 1, &lock);
}

void dz_follow_prove(int wal_fd, uint64_t end)
{
    (void)set(wal_fd, F_UNLCK, PROVEN, (int64_t)LOG_MAX);
    if (end > 0 && end <= LOG_MAX) /* a failure costs the follower a copy of the whole database */
        (void)set(wal_fd, F_RDLCK, PROVEN, (int64_t)end);
    else
        (void)set(wal_fd, F_RDLCK, FORCED, 1);
}

int dz_follow_begin(int fd, struct dz_err *err)
{
    int rc = set(fd, F_RDLCK, FOLLOWED, 1);
    return rc < 0 ? dz_fail_sys(err, -rc, "follow a log") : 0;
}

void dz_follow_publish(int fd, const uint32_t salt[static 2], uint64_t end)
{
    int64_t gen = gen_of(salt);
    if (gen > HAVE) /* a length of 0 would mean: to the end */
        (void)set(fd, F_UNLCK, HAVE, gen - HAVE);
    (void)set(fd, F_UNLCK, gen + (int64_t)LOG_MAX,
              HAVE + (INT64_C(1) << (LOG_BITS + GEN_BITS)) - gen - (int64_t)LOG_MAX);
    if (end > 0 && end <= LOG_MAX)
        (void)set(fd, F_RDLCK, gen, (int64_t)end);
    else
        (void)set(fd, F_UNLCK, gen, (int64_t)LOG_MAX);
}

uint64_t dz_follow_proven(int fd)
{
    struct flock lock;
    return find(fd, PROVEN, (int64_t)LOG_MAX, &lock) ? (uint64_t)lock.l_len : 0;
}

bool dz_follow_forced(int fd)
{
    struct flock lock;
    return find(fd, FORCED, 1, &lock);
}

void dz_follow_forgive(int owner_fd)
{
    (void)set(owner_fd, F_UNLCK, FORCED, 1);
}

/* SPDX-License-Identifier: MIT
 *
 * local_hash.c - hashes of bases and images, remembered in DATA/hashes.
 *
 * That file is a table of slots of one size, indexed by device and inode; a newer file takes over
 * the slot of an older one. A slot is valid if everything that it records about the file is still
 * true and its checksum is right. Nothing is locked: a crash or a race leaves a slot that is
 * invalid. Whoever can write there can write the sandboxes, too.
 *
 * A file may change twice within one tick of the clock that stamps it, so the hash of a file that
 * has just changed is not stored.
 */
#include "cli/local_hash.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/cli_env.h"

#include <errno.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SLOTS = 1024,
    STEP = 1 << 18,    /* bytes read at a time */
    SETTLED_MS = 2000, /* minimum age of the last change for a hash to be stored */
};

struct slot {
    uint64_t device, inode, size;
    int64_t mtime_ns, ctime_ns;
    uint8_t sha256[DZ_SHA256_BYTES];
    uint64_t sum; /* checksum of all members before */
};
_Static_assert(sizeof(struct slot) == 80, "no padding in a slot");

static uint64_t sum_of(const struct slot *s)
{
    static const uint64_t key[2] = {0x7368736168657a6f, 1}; /* not secret: detects torn writes */
    return dz_siphash(key, s, offsetof(struct slot, sum));
}

static int64_t ns_of(struct timespec t)
{
    return (int64_t)t.tv_sec * DZ_NS_PER_S + t.tv_nsec;
}

static void describe(const struct stat *st, struct slot *ret)
{
    *ret = (struct slot){.device = st->st_dev,
                         .inode = st->st_ino,
                         .size = (uint64_t)st->st_size,
                         .mtime_ns = ns_of(st->st_mtim),
                         .ctime_ns = ns_of(st->st_ctim)};
}

static int open_table(bool make)
{
    char path[DZ_PATH_MAX];
    if (dz_cli_data_dir(NULL, path, NULL) < 0)
        return -1;
    if (make && dz_fd_mkdirs(AT_FDCWD, path, 0700, NULL) < 0)
        return -1;
    size_t n = strlen(path);
    if (snprintf(path + n, sizeof path - n, "/hashes") >= (int)(sizeof path - n))
        return -1;
    return open(path, (make ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static off_t place_of(const struct slot *s)
{
    uint64_t mixed = (s->inode ^ s->device * 31) * 0x9e3779b97f4a7c15;
    return (off_t)(mixed >> 32) % SLOTS * (off_t)sizeof *s;
}

static bool look_up(const struct slot *now, uint8_t ret_digest[static DZ_SHA256_BYTES])
{
    struct slot s;
    DZ_AUTO(dz_fd_close) int fd = open_table(false);
    if (fd < 0 || pread(fd, &s, sizeof s, place_of(now)) != (ssize_t)sizeof s)
        return false;
    if (memcmp(&s, now, offsetof(struct slot, sha256)) != 0 || s.sum != sum_of(&s))
        return false;
    memcpy(ret_digest, s.sha256, sizeof s.sha256);
    return true;
}

static void keep(struct slot *now, const uint8_t digest[static DZ_SHA256_BYTES])
{
    int64_t age = dz_clock_real_ns() - now->ctime_ns;
    if (age < SETTLED_MS * DZ_NS_PER_MS)
        return;
    DZ_AUTO(dz_fd_close) int fd = open_table(true);
    memcpy(now->sha256, digest, sizeof now->sha256);
    now->sum = sum_of(now);
    if (fd >= 0 && dz_fd_pwrite(fd, now, sizeof *now, (uint64_t)place_of(now), NULL) < 0)
        return; /* then the file is hashed again next time */
}

static int hash(int fd, const char *what, uint8_t ret_digest[static DZ_SHA256_BYTES],
                struct dz_err *err)
{
    DZ_AUTO(dz_sha256_release) struct dz_sha256 h = {0};
    DZ_AUTO(dz_freep) char *step = dz_alloc(STEP);
    off_t at = 0;
    ssize_t n = 1;
    int rc = step ? dz_sha256_init(&h, err) : dz_fail(err, DZ_ENOMEM, "hash %s: no memory", what);
    while (rc == 0 && n > 0) {
        do
            n = pread(fd, step, STEP, at);
        while (n < 0 && errno == EINTR);
        if (n > 0)
            dz_sha256_update(&h, step, (size_t)n);
        at += n > 0 ? n : 0;
    }
    if (rc == 0 && n < 0)
        rc = dz_fail_sys(err, errno, "read %s", what);
    return rc < 0 ? rc : dz_sha256_final(&h, ret_digest, err);
}

int dz_cli_hash_fd(int fd, const char *what, char ret_hex[static DZ_SHA256_HEX], struct dz_err *err)
{
    uint8_t digest[DZ_SHA256_BYTES];
    struct slot before, after;
    struct stat st;
    if (dz_fd_stat(fd, &st) < 0)
        return dz_fail_sys(err, errno, "look at %s", what);
    describe(&st, &before);
    if (!look_up(&before, digest)) {
        int rc = hash(fd, what, digest, err);
        if (rc < 0)
            return rc;
        if (dz_fd_stat(fd, &st) == 0) {
            describe(&st, &after);
            if (memcmp(&before, &after, sizeof before) == 0)
                keep(&after, digest);
        }
    }
    (void)dz_sha256_hex(digest, ret_hex);
    return 0;
}

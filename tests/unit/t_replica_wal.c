/* SPDX-License-Identifier: MIT
 *
 * SQLite's log, read without SQLite: commits, places, and what a crash or a new log leaves there.
 */
#include "../lib/replica_rig.h"

static const uint8_t a[RIG_PAGE] = "a", b[RIG_PAGE] = "b";

static struct rig_db make(bool big_endian)
{
    struct rig_db d = {.wal_fd = memfd_create("log", MFD_CLOEXEC), .db_fd = -1};
    d.big_endian = big_endian;
    rig_new_log(&d);
    return d;
}

static bool page_is(const struct rig_db *d, const struct dz_wal_frame *f, const uint8_t *page)
{
    uint8_t got[RIG_PAGE];
    return dz_fd_pread(d->wal_fd, got, sizeof got, f->at, NULL) == 0 &&
           memcmp(got, page, sizeof got) == 0;
}

static void check_commits(bool big_endian)
{
    struct rig_db d = make(big_endian);
    struct dz_wal_cut c = {0}, next = {0};
    rig_frame(&d, 3, a, 0);
    rig_frame(&d, 9, a, 0); /* beyond the end of the last commit */
    rig_frame(&d, 1, a, 9);
    rig_frame(&d, 3, b, 4);
    uint64_t end = d.at;
    rig_frame(&d, 2, a, 0); /* of a transaction that goes on */
    CHECK_INT(dz_wal_cut(d.wal_fd, NULL, &c, NULL), 0);
    CHECK_INT(c.page_bytes, RIG_PAGE);
    CHECK_INT(c.pages, 4);
    CHECK_INT(c.commits, 2);
    CHECK_INT(c.end.at, end);
    CHECK_INT(c.frames.n, 2);
    CHECK_INT(c.frames.p[0].number, 1);
    CHECK_INT(c.frames.p[1].number, 3);
    CHECK(page_is(&d, &c.frames.p[1], b));
    rig_frame(&d, 4, a, 5);
    CHECK_INT(dz_wal_cut(d.wal_fd, &c.end, &next, NULL), 0);
    CHECK_INT(next.commits, 1);
    CHECK_INT(next.frames.n, 2);
    CHECK_INT(next.frames.p[0].number, 2);
    CHECK_INT(next.end.at, d.at);
    dz_wal_cut_release(&c);
    dz_wal_cut_release(&next);
    rig_close(&d);
}

TEST(a_cut_has_the_newest_page_of_each_complete_commit)
{
    check_commits(false);
    check_commits(true);
}

TEST(an_empty_or_invalid_log_has_no_commit)
{
    struct rig_db d = make(false);
    struct dz_wal_cut c = {0};
    CHECK_INT(dz_wal_cut(d.wal_fd, NULL, &c, NULL), 0);
    CHECK_INT(c.commits, 0);
    CHECK_INT(c.end.at, 32);
    rig_pwrite(d.wal_fd, "x", 1, 17);
    CHECK_INT(dz_wal_cut(d.wal_fd, NULL, &c, NULL), 0);
    CHECK_INT(c.end.at, 0);
    CHECK_INT(ftruncate(d.wal_fd, 31), 0);
    CHECK_INT(dz_wal_cut(d.wal_fd, NULL, &c, NULL), 0);
    CHECK_INT(c.end.at, 0);
    rig_close(&d);
}

TEST(a_frame_that_is_damaged_ends_the_log)
{
    static const uint64_t places[] = {0, 4, 8, 12, 16, 20, 24, RIG_FRAME - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct rig_db d = make(false);
        struct dz_wal_cut c = {0};
        rig_frame(&d, 1, a, 1);
        uint64_t end = d.at;
        rig_frame(&d, 2, a, 2);
        rig_frame(&d, 1, b, 2);
        rig_pwrite(d.wal_fd, "\x5a", 1, end + places[i]);
        CHECK_INT(dz_wal_cut(d.wal_fd, NULL, &c, NULL), 0);
        CHECK_INT(c.commits, 1);
        CHECK_INT(c.end.at, end);
        dz_wal_cut_release(&c);
        rig_close(&d);
    }
}

TEST(a_place_is_gone_when_the_log_began_anew_or_has_another_history)
{
    struct rig_db d = make(false);
    struct dz_wal_cut c = {0}, next = {0};
    struct dz_err err;
    rig_frame(&d, 1, a, 1);
    struct rig_db fork = d;
    rig_frame(&d, 1, b, 1);
    CHECK_INT(dz_wal_cut(d.wal_fd, NULL, &c, NULL), 0);
    d = fork; /* a power cut took the last frame, and another one came: the salts are the same */
    rig_frame(&d, 1, a, 1);
    CHECK_INT(dz_wal_cut(d.wal_fd, &c.end, &next, &err), DZ_ESTATE);
    CHECK_INT(ftruncate(d.wal_fd, (off_t)c.end.at - 1), 0);
    CHECK_INT(dz_wal_cut(d.wal_fd, &c.end, &next, &err), DZ_ESTATE);
    rig_new_log(&d);
    CHECK_INT(dz_wal_cut(d.wal_fd, &c.end, &next, &err), DZ_ESTATE);
    CHECK_INT(ftruncate(d.wal_fd, 0), 0);
    CHECK_INT(dz_wal_cut(d.wal_fd, &c.end, &next, &err), DZ_ESTATE);
    dz_wal_cut_release(&c);
    rig_close(&d);
}

TEST(frames_of_an_older_log_behind_a_new_one_are_not_read)
{
    struct rig_db d = make(false);
    struct dz_wal_cut c = {0};
    for (uint32_t n = 1; n < 6; n++)
        rig_frame(&d, n, a, n);
    rig_new_log(&d);
    rig_frame(&d, 1, b, 1);
    CHECK_INT(dz_wal_cut(d.wal_fd, NULL, &c, NULL), 0);
    CHECK_INT(c.commits, 1);
    CHECK_INT(c.pages, 1);
    dz_wal_cut_release(&c);
    rig_close(&d);
}

TORTURE(every_allocation_of_a_cut_may_fail)
{
    struct rig_db d = make(false);
    struct dz_wal_cut c = {0};
    struct dz_err err;
    rig_frame(&d, 1, a, 1);
    int rc = dz_wal_cut(d.wal_fd, NULL, &c, &err);
    CHECK(rc == 0 || rc == DZ_ENOMEM);
    if (rc == 0)
        dz_wal_cut_release(&c);
    rig_close(&d);
}

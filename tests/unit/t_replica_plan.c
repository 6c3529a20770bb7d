/* SPDX-License-Identifier: MIT
 *
 * Which files of a replica to restore, to merge, to remove.
 */
#include "replica/replica.h"
#include "tap.h"

static void add(struct dz_replica_files *f, unsigned level, uint64_t min, uint64_t max)
{
    CHECK_INT(dz_vec_push(f, ((struct dz_replica_file){.min_txid = min,
                                                       .max_txid = max,
                                                       .size = 100,
                                                       .time_ms = (int64_t)max * 1000,
                                                       .level = (uint8_t)level})),
              0);
}

/* The plan as text: "9:1-8 0:9-9" */
static const char *plan(const struct dz_replica_files *all, struct dz_replica_goal goal,
                        int *ret_rc)
{
    static char text[400];
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files p = DZ_REPLICA_FILES_INIT;
    struct dz_err err;
    size_t n = 0;
    text[0] = '\0';
    *ret_rc = dz_replica_plan_restore(all, &goal, &p, &err);
    if (*ret_rc < 0)
        return err.msg[0] ? "" : "no message";
    for (size_t i = 0; i < p.n && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%u:%llu-%llu", i ? " " : "",
                              p.p[i].level, (unsigned long long)p.p[i].min_txid,
                              (unsigned long long)p.p[i].max_txid);
    return text;
}
#define CHECK_PLAN(all, goal, want_rc, want)          \
    do {                                              \
        int got_rc;                                   \
        const char *got = plan(all, (goal), &got_rc); \
        CHECK_INT(got_rc, want_rc);                   \
        CHECK_STR(got, want);                         \
    } while (0)
#define NEWEST  ((struct dz_replica_goal){0})
#define TXID(n) ((struct dz_replica_goal){.txid = (n)})
#define AT(ms)  ((struct dz_replica_goal){.timed = true, .time_ms = (ms)})

TEST(a_restore_takes_the_longest_steps)
{
    struct dz_replica_files f = DZ_REPLICA_FILES_INIT;
    CHECK_PLAN(&f, NEWEST, DZ_ENOENT, "");
    for (uint64_t n = 1; n <= 12; n++)
        add(&f, 0, n, n);
    add(&f, 1, 2, 9);
    add(&f, 9, 1, 4);
    CHECK_PLAN(&f, NEWEST, 0, "9:1-4 1:2-9 0:10-10 0:11-11 0:12-12");
    CHECK_PLAN(&f, TXID(6), 0, "9:1-4 0:5-5 0:6-6");
    CHECK_PLAN(&f, TXID(3), 0, "0:1-1 0:2-2 0:3-3");
    CHECK_PLAN(&f, TXID(13), DZ_ENOENT, "");
    CHECK_PLAN(&f, AT(6999), 0, "9:1-4 0:5-5 0:6-6");
    CHECK_PLAN(&f, AT(7000), 0, "9:1-4 0:5-5 0:6-6 0:7-7");
    CHECK_PLAN(&f, AT(999), DZ_ENOENT, "");
    dz_vec_release(&f);
}

TEST(a_missing_file_is_an_error)
{
    struct dz_replica_files f = DZ_REPLICA_FILES_INIT;
    add(&f, 0, 2, 2);
    CHECK_PLAN(&f, NEWEST, DZ_ECORRUPT, "");
    add(&f, 0, 1, 1);
    add(&f, 0, 4, 4);
    CHECK_PLAN(&f, NEWEST, DZ_ECORRUPT, "");
    CHECK_PLAN(&f, TXID(2), 0, "0:1-1 0:2-2");
    add(&f, 9, 1, 3);
    CHECK_PLAN(&f, NEWEST, 0, "9:1-3 0:4-4");
    dz_vec_release(&f);
}

TEST(a_snapshot_that_was_made_later_does_not_hide_its_transaction)
{
    struct dz_replica_files f = DZ_REPLICA_FILES_INIT;
    for (uint64_t n = 1; n <= 3; n++)
        add(&f, 0, n, n);
    add(&f, 9, 1, 2);
    f.p[3].time_ms = 90000;
    CHECK_PLAN(&f, AT(2500), 0, "9:1-2");
    f.p[1].time_ms = 80000; /* a clock that jumped back: transaction 2 is too young, so 3 is, too */
    CHECK_PLAN(&f, AT(5000), 0, "0:1-1");
    dz_vec_release(&f);
}

static bool next_merge(const struct dz_replica_files *f, unsigned level, uint64_t min, uint64_t max)
{
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files m = DZ_REPLICA_FILES_INIT;
    if (dz_replica_plan_merge(f, &m, NULL) != 1)
        return false;
    return m.p[0].level == level && m.p[0].min_txid == min && m.p[m.n - 1].max_txid == max;
}

TEST(sixteen_files_are_merged_and_a_gap_ends_the_wait)
{
    struct dz_replica_files f = DZ_REPLICA_FILES_INIT, m = DZ_REPLICA_FILES_INIT;
    add(&f, 0, 1, 1); /* has all pages */
    for (uint64_t n = 2; n < 17; n++)
        add(&f, 0, n, n);
    CHECK_INT(dz_replica_plan_merge(&f, &m, NULL), 0);
    add(&f, 0, 17, 17);
    CHECK(next_merge(&f, 0, 2, 17));
    add(&f, 1, 2, 17);
    CHECK_INT(dz_replica_plan_merge(&f, &m, NULL), 0);
    add(&f, 0, 18, 18);
    add(&f, 9, 1, 19);
    CHECK_INT(dz_replica_plan_merge(&f, &m, NULL), 0);
    add(&f, 0, 20, 20);
    CHECK(next_merge(&f, 0, 18, 18));
    for (uint64_t n = 1; n < 16; n++)
        add(&f, 1, n * 100, n * 100 + 99);
    CHECK(next_merge(&f, 1, 2, 17));
    dz_vec_release(&f);
}

TEST(a_snapshot_is_due_when_the_files_since_the_last_are_larger)
{
    struct dz_replica_files f = DZ_REPLICA_FILES_INIT;
    add(&f, 9, 1, 5);
    add(&f, 0, 5, 5);
    add(&f, 0, 6, 6);
    CHECK(!dz_replica_plan_snapshot(&f, 100));
    add(&f, 0, 7, 7);
    CHECK(dz_replica_plan_snapshot(&f, 100));
    dz_vec_release(&f);
}

TEST(prune_keeps_what_restores_need)
{
    struct dz_replica_files f = DZ_REPLICA_FILES_INIT, drop = DZ_REPLICA_FILES_INIT;
    for (uint64_t n = 1; n <= 40; n++)
        add(&f, 0, n, n);
    add(&f, 9, 1, 10);
    add(&f, 1, 11, 26);
    add(&f, 9, 1, 35);
    const struct dz_replica_keep keep = {41000, 20000, 10000};
    CHECK_INT(dz_replica_plan_prune(&f, &keep, &drop, NULL), 0);
    /* the snapshot at 10 is the base for 21 s; 1-10 go as older, 11-26 as merged */
    CHECK_INT(drop.n, 26);
    for (size_t i = 0; i < drop.n; i++)
        CHECK(drop.p[i].level == 0 && drop.p[i].max_txid <= 26);
    dz_vec_release(&drop);
    drop = (struct dz_replica_files)DZ_REPLICA_FILES_INIT;
    const struct dz_replica_keep all = {41000, 41000, 41000};
    CHECK_INT(dz_replica_plan_prune(&f, &all, &drop, NULL), 0);
    CHECK_INT(drop.n, 0);
    const struct dz_replica_keep nothing = {41000, 0, 0};
    CHECK_INT(dz_replica_plan_prune(&f, &nothing, &drop, NULL), 0);
    CHECK_INT(drop.n, 37); /* the snapshot at 35 and 36 to 40 stay */
    dz_vec_release(&drop);
    dz_vec_release(&f);
}

TORTURE(every_allocation_of_a_plan_may_fail)
{
    struct dz_replica_files f = DZ_REPLICA_FILES_INIT, out = DZ_REPLICA_FILES_INIT;
    const struct dz_replica_keep keep = {100000, 20000, 10000};
    struct dz_err err;
    for (uint64_t n = 1; n <= 20; n++)
        (void)dz_vec_push(&f, ((struct dz_replica_file){n, n, 1, 1, 0}));
    if (!f.err) {
        int rc = dz_replica_plan_restore(&f, &AT(5), &out, &err);
        CHECK(rc == 0 || rc == DZ_ENOMEM);
        dz_vec_release(&out);
        rc = dz_replica_plan_merge(&f, &out, &err);
        CHECK(rc == 1 || rc == DZ_ENOMEM);
        dz_vec_release(&out);
        rc = dz_replica_plan_prune(&f, &keep, &out, &err);
        CHECK(rc == 0 || rc == DZ_ENOMEM);
    }
    dz_vec_release(&out);
    dz_vec_release(&f);
}

/* SPDX-License-Identifier: MIT
 *
 * A replica as a whole: pushes, merges, restores; by seed, with a store whose calls fail.
 */
#include "../lib/replica_rig.h"
#include "base/clock.h"

#include <sys/stat.h>

enum {
    SEEDS = 40,
    STEPS = 120,
};

/* --- a store that fails --------------------------------------------------------------------------
 */

static struct {
    uint64_t dice;
    unsigned one_in; /* of so many calls one fails; 0: none */
} faults;

static bool fails(void)
{
    return faults.one_in && dice_below(&faults.dice, faults.one_in) == 0;
}

static int fault(struct dz_err *err)
{
    return dz_fail(err, DZ_EIO, "the store failed");
}

struct bad_store {
    struct dz_blobs head;
    struct dz_blobs *real;
};
struct bad_in {
    struct dz_blob_in head;
    struct dz_blob_in *real;
};
struct bad_out {
    struct dz_blob_out head;
    struct dz_blob_out *real;
};

static int bad_read(struct dz_blob_in *in, void *buf, size_t n, uint64_t at, struct dz_err *err)
{
    return fails() ? fault(err) : dz_blob_in_read(((struct bad_in *)in)->real, buf, n, at, err);
}
static void bad_in_close(struct dz_blob_in *in)
{
    dz_blob_in_close(((struct bad_in *)in)->real);
    dz_free(in);
}
static const struct dz_blob_in_ops bad_in_ops = {bad_read, bad_in_close};

static int bad_in_open(struct dz_blobs *s, const char *key, struct dz_blob_in **ret_in,
                       struct dz_err *err)
{
    struct dz_blob_in *real = NULL;
    int rc = fails() ? fault(err) : dz_blob_in_open(((struct bad_store *)s)->real, key, &real, err);
    if (rc < 0)
        return rc;
    struct bad_in *in = dz_zalloc(sizeof *in);
    in->head = (struct dz_blob_in){.ops = &bad_in_ops, .size = real->size, .fd = -1};
    in->real = real;
    *ret_in = &in->head;
    return 0;
}

static int bad_write(struct dz_blob_out *out, const void *data, size_t n, struct dz_err *err)
{
    return fails() ? fault(err) : dz_blob_out_write(((struct bad_out *)out)->real, data, n, err);
}
static int bad_commit(struct dz_blob_out *out, struct dz_err *err)
{
    struct bad_out *o = (struct bad_out *)out;
    o->real->only_new = out->only_new;
    o->real->time_ms = out->time_ms;
    int rc = fails() ? fault(err) : dz_blob_out_commit(o->real, err);
    return rc == 0 && fails() ? fault(err) : rc; /* done, and the answer was lost */
}
static void bad_out_close(struct dz_blob_out *out)
{
    dz_blob_out_close(((struct bad_out *)out)->real);
    dz_free(out);
}
static const struct dz_blob_out_ops bad_out_ops = {
    .write = bad_write, .commit = bad_commit, .close = bad_out_close};

static int bad_out_open(struct dz_blobs *s, const char *key, struct dz_blob_out **ret_out,
                        struct dz_err *err)
{
    struct dz_blob_out *real = NULL;
    int rc =
        fails() ? fault(err) : dz_blob_out_open(((struct bad_store *)s)->real, key, &real, err);
    if (rc < 0)
        return rc;
    struct bad_out *out = dz_zalloc(sizeof *out);
    out->head = (struct dz_blob_out){.ops = &bad_out_ops, .fd = -1};
    out->real = real;
    *ret_out = &out->head;
    return 0;
}
static int bad_remove(struct dz_blobs *s, const char *key, struct dz_err *err)
{
    int rc = fails() ? fault(err) : dz_blobs_remove(((struct bad_store *)s)->real, key, err);
    return rc == 0 && fails() ? fault(err) : rc;
}
static int bad_list(struct dz_blobs *s, int (*fn)(void *arg, const char *key, uint64_t size),
                    void *arg, struct dz_err *err)
{
    return fails() ? fault(err) : dz_blobs_list(((struct bad_store *)s)->real, fn, arg, err);
}
static void bad_close(struct dz_blobs *s)
{
    dz_blobs_free(((struct bad_store *)s)->real);
    dz_free(s);
}
static const struct dz_blobs_ops bad_ops = {.in_open = bad_in_open,
                                            .out_open = bad_out_open,
                                            .remove = bad_remove,
                                            .list = bad_list,
                                            .close = bad_close};

static void make_bad(struct dz_replica *r)
{
    for (unsigned level = 0; level < DZ_REPLICA_LEVELS; level++) {
        struct bad_store *s = r->levels[level] ? dz_zalloc(sizeof *s) : NULL;
        if (!s)
            continue;
        s->head.ops = &bad_ops;
        s->real = r->levels[level];
        r->levels[level] = &s->head;
    }
}

/* --- by seed -------------------------------------------------------------------------------------
 */

/* The images that the database had after each commit, and what the replica has acknowledged. */
struct world {
    struct rig_db db;
    struct dz_replica replica;
    struct rig_image *images;
    size_t count, acked; /* images; those up to the last one that was acknowledged */
    struct dz_clock_test clock;
    uint64_t dice;
};

static void commit(struct world *w)
{
    rig_commit(&w->db, &w->dice);
    w->images[w->count++] = w->db.now;
}

static void push(struct world *w)
{
    const struct dz_replica_source s = rig_source(&w->db);
    struct dz_replica_pushed to;
    struct dz_err err = {0};
    int rc = dz_replica_push(&w->replica, &s, NULL, &to, &err);
    CHECK(rc == 0 || (rc == DZ_EIO && faults.one_in));
    if (rc == 0)
        w->acked = w->count;
    else
        CHECK(err.msg[0]);
}

static void prune(struct world *w)
{
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files all = DZ_REPLICA_FILES_INIT;
    DZ_AUTO(dz_vec_releasep) struct dz_replica_files drop = DZ_REPLICA_FILES_INIT;
    const struct dz_replica_keep keep = {dz_clock_real_ms(), 30000, 5000};
    struct dz_err err;
    int rc = dz_replica_list(&w->replica, &all, &err);
    if (rc == 0)
        rc = dz_replica_time(&w->replica, &all, NULL, &err);
    if (rc == 0)
        rc = dz_replica_plan_prune(&all, &keep, &drop, &err);
    if (rc == 0)
        rc = dz_replica_drop(&w->replica, &drop, &err);
    CHECK(rc == 0 || rc == DZ_EIO);
}

/* A restore gives the state after some commit, at least the last one that was acknowledged. */
static void check_restore(struct world *w)
{
    unsigned one_in = faults.one_in;
    struct rig_image got;
    struct dz_err err = {0};
    uint64_t txid;
    faults.one_in = 0;
    int rc = rig_restore(&w->replica, &(struct dz_replica_goal){0}, &got, &txid, &err);
    if (rc < 0) {
        CHECK(w->acked == 0 && rc == DZ_ENOENT);
    } else {
        size_t i = w->count;
        while (i > 0 && !rig_equal(&w->images[i - 1], &got))
            i--;
        CHECK(i > 0 && i >= w->acked);
        w->acked = i; /* it is there, so it must stay */
    }
    faults.one_in = one_in;
}

static void run_seed(uint64_t seed)
{
    struct world w = {.dice = seed, .images = dz_zarray(STEPS + 1, sizeof *w.images)};
    char dir[DZ_TEMP_DIR_TEXT];
    int bad = tap_bad;
    faults.dice = seed + 1000;
    faults.one_in = 0;
    dz_clock_set_real(&w.clock, 1700000000 * DZ_NS_PER_S);
    dz_clock_use(&w.clock);
    CHECK(rig_open_replica(dir, &w.replica, NULL));
    make_bad(&w.replica);
    rig_open(&w.db, seed & 1, &w.dice);
    w.images[w.count++] = w.db.now;
    for (int i = 0; i < STEPS; i++) {
        faults.one_in = dice_below(&w.dice, 3) ? 0 : 2 + dice_below(&w.dice, 60);
        dz_clock_advance(&w.clock, DZ_NS_PER_S * dice_below(&w.dice, 5));
        switch (dice_below(&w.dice, 12)) {
        case 0:
            rig_checkpoint(&w.db);
            break;
        case 1:
            prune(&w);
            break;
        case 2:
        case 3:
        case 4:
        case 5:
            commit(&w);
            break;
        default:
            push(&w);
        }
        check_restore(&w);
    }
    faults.one_in = 0;
    push(&w);
    check_restore(&w);
    CHECK_INT(w.acked, w.count);
    if (tap_bad > bad)
        printf("# seed %llu\n", (unsigned long long)seed);
    dz_clock_use(NULL);
    dz_replica_close(&w.replica);
    rig_close(&w.db);
    rig_remove(dir);
    dz_free(w.images);
}

TEST(restores_give_a_committed_state_that_is_never_older_than_acknowledged)
{
    const char *one = getenv("SEED");
    for (uint64_t seed = 1; seed <= (one ? 1 : SEEDS); seed++)
        run_seed(one ? strtoull(one, NULL, 10) : seed);
}

/* --- one at a time -------------------------------------------------------------------------------
 */

static struct dz_replica_pushed push_now(struct dz_replica *r, const struct rig_db *db, int want_rc)
{
    const struct dz_replica_source s = rig_source(db);
    struct dz_replica_pushed to = {0};
    struct dz_err err = {0};
    CHECK_INT(dz_replica_push(r, &s, NULL, &to, &err), want_rc);
    return to;
}

TEST(every_state_can_be_restored_by_txid_and_by_time)
{
    struct rig_image images[30], got;
    struct dz_clock_test clock = {0};
    struct dz_replica r = {0};
    char dir[DZ_TEMP_DIR_TEXT];
    uint64_t dice = 5, txid = 0;
    struct rig_db db;
    dz_clock_set_real(&clock, 1700000000 * DZ_NS_PER_S);
    dz_clock_use(&clock);
    CHECK(rig_open_replica(dir, &r, NULL));
    rig_open(&db, false, &dice);
    for (size_t i = 0; i < 30; i++) {
        rig_commit(&db, &dice);
        images[i] = db.now;
        struct dz_replica_pushed to = push_now(&r, &db, 0);
        CHECK_INT(to.txid, i + 1);
        CHECK(to.commits == 1 && (i > 0 || to.snapshot));
        CHECK_INT(push_now(&r, &db, 0).commits, 0);
        dz_clock_advance(&clock, DZ_NS_PER_S);
    }
    for (size_t i = 0; i < 30; i++) {
        CHECK_INT(rig_restore(&r, &(struct dz_replica_goal){.txid = i + 1}, &got, &txid, NULL), 0);
        CHECK(rig_equal(&got, &images[i]));
        const struct dz_replica_goal at = {.timed = true,
                                           .time_ms = 1700000000999 + (int64_t)i * 1000};
        CHECK_INT(rig_restore(&r, &at, &got, &txid, NULL), 0);
        CHECK(txid == i + 1 && rig_equal(&got, &images[i]));
    }
    dz_clock_use(NULL);
    dz_replica_close(&r);
    rig_close(&db);
    rig_remove(dir);
}

TEST(a_database_without_a_log_is_pushed_when_it_changed)
{
    struct dz_replica r = {0};
    char dir[DZ_TEMP_DIR_TEXT];
    struct rig_image got;
    uint64_t dice = 7, txid = 0;
    struct rig_db db;
    CHECK(rig_open_replica(dir, &r, NULL));
    rig_open(&db, false, &dice);
    dz_fd_close(&db.wal_fd);
    CHECK(push_now(&r, &db, 0).snapshot);
    CHECK(!push_now(&r, &db, 0).snapshot);
    rig_fill(&db.now, 3, &dice);
    rig_pwrite(db.db_fd, db.now.pages, db.now.count * RIG_PAGE, 0);
    CHECK_INT(push_now(&r, &db, 0).txid, 2);
    CHECK_INT(rig_restore(&r, &(struct dz_replica_goal){0}, &got, &txid, NULL), 0);
    CHECK(rig_equal(&got, &db.now));
    CHECK_INT(ftruncate(db.db_fd, 700), 0);
    (void)push_now(&r, &db, DZ_ECORRUPT);
    CHECK_INT(ftruncate(db.db_fd, 0), 0);
    (void)push_now(&r, &db, DZ_ESTATE);
    rig_pwrite(db.db_fd, got.pages + 1, RIG_PAGE, 0);
    (void)push_now(&r, &db, DZ_ECORRUPT);
    dz_replica_close(&r);
    rig_close(&db);
    rig_remove(dir);
}

TEST(a_clock_that_goes_back_changes_no_order)
{
    struct dz_clock_test clock = {0};
    struct dz_replica r = {0};
    char dir[DZ_TEMP_DIR_TEXT];
    struct rig_image got;
    uint64_t dice = 7, txid = 0;
    struct rig_db db;
    dz_clock_use(&clock);
    dz_clock_set_real(&clock, 1700000000 * DZ_NS_PER_S);
    CHECK(rig_open_replica(dir, &r, NULL));
    rig_open(&db, false, &dice);
    rig_commit(&db, &dice);
    (void)push_now(&r, &db, 0);
    dz_clock_set_real(&clock, 1600000000 * DZ_NS_PER_S);
    rig_commit(&db, &dice);
    (void)push_now(&r, &db, 0);
    const struct dz_replica_goal at = {.timed = true, .time_ms = 1700000000000};
    CHECK_INT(rig_restore(&r, &at, &got, &txid, NULL), 0);
    CHECK_INT(txid, 2);
    const struct dz_replica_goal before = {.timed = true, .time_ms = 1650000000000};
    CHECK_INT(rig_restore(&r, &before, &got, &txid, NULL), DZ_ENOENT);
    dz_clock_use(NULL);
    dz_replica_close(&r);
    rig_close(&db);
    rig_remove(dir);
}

TEST(a_file_with_the_name_of_another_is_refused)
{
    struct dz_replica r = {0};
    char dir[DZ_TEMP_DIR_TEXT], from[DZ_TEMP_DIR_TEXT + 64], to[DZ_TEMP_DIR_TEXT + 64];
    struct rig_image got;
    uint64_t dice = 7, txid = 0;
    struct dz_err err;
    struct rig_db db;
    CHECK(rig_open_replica(dir, &r, NULL));
    rig_open(&db, false, &dice);
    (void)push_now(&r, &db, 0);
    (void)snprintf(from, sizeof from, "%s/ltx/9/0000000000000001-0000000000000001.ltx", dir);
    (void)snprintf(to, sizeof to, "%s/ltx/9/0000000000000001-0000000000000002.ltx", dir);
    CHECK_INT(rename(from, to), 0);
    CHECK_INT(rig_restore(&r, &(struct dz_replica_goal){0}, &got, &txid, &err), DZ_ECORRUPT);
    CHECK(strstr(err.msg, "level 9, 0000000000000001-0000000000000002.ltx"));
    CHECK_INT(push_now(&r, &db, 0).txid, 3); /* a snapshot makes the replica whole again */
    CHECK_INT(rig_restore(&r, &(struct dz_replica_goal){0}, &got, &txid, &err), 0);
    CHECK(txid == 3 && rig_equal(&got, &db.now));
    dz_replica_close(&r);
    rig_close(&db);
    rig_remove(dir);
}

TEST(of_two_writers_one_is_refused)
{
    struct dz_replica r = {0};
    char dir[DZ_TEMP_DIR_TEXT], into[DZ_TEMP_DIR_TEXT + 64];
    uint64_t dice = 7;
    struct rig_db db;
    CHECK(rig_open_replica(dir, &r, NULL));
    rig_open(&db, false, &dice);
    rig_commit(&db, &dice);
    (void)push_now(&r, &db, 0);
    rig_commit(&db, &dice);
    /* the other writer comes between the listing and the commit: a file that no list shows */
    (void)snprintf(into, sizeof into, "%s/ltx/0/0000000000000002-0000000000000002.ltx", dir);
    CHECK_INT(mkdir(into, 0700), 0);
    (void)push_now(&r, &db, DZ_EEXIST);
    CHECK_INT(rmdir(into), 0);
    CHECK_INT(push_now(&r, &db, 0).txid, 2);
    dz_replica_close(&r);
    rig_close(&db);
    rig_remove(dir);
}

TEST(a_url_is_checked)
{
    struct dz_replica r = {0};
    struct dz_err err;
    CHECK_INT(dz_replica_open("/tmp/x", &(struct dz_replica_access){0}, true, &r, &err), DZ_EINVAL);
    CHECK_INT(dz_replica_open("file://relative", &(struct dz_replica_access){0}, true, &r, &err),
              DZ_EINVAL);
    CHECK_INT(
        dz_replica_open("file:///nowhere/at/all", &(struct dz_replica_access){0}, false, &r, &err),
        DZ_ENOENT);
    CHECK_INT(dz_replica_open("s3:///x", &(struct dz_replica_access){0}, false, &r, &err),
              DZ_EINVAL);
}

TORTURE(every_allocation_of_a_push_and_a_restore_may_fail)
{
    struct dz_replica r = {0};
    char dir[DZ_TEMP_DIR_TEXT] = "";
    struct dz_replica_pushed to;
    struct rig_image got;
    struct dz_err err;
    uint64_t dice = 7, txid;
    struct rig_db db;
    rig_open(&db, false, &dice);
    rig_commit(&db, &dice);
    if (rig_open_replica(dir, &r, &err)) {
        const struct dz_replica_source s = rig_source(&db);
        int rc = dz_replica_push(&r, &s, NULL, &to, &err);
        CHECK(rc == 0 || rc == DZ_ENOMEM);
        rig_commit(&db, &dice);
        if (rc == 0)
            rc = dz_replica_push(&r, &s, NULL, &to, &err);
        CHECK(rc == 0 || rc == DZ_ENOMEM);
        if (rc == 0)
            rc = rig_restore(&r, &(struct dz_replica_goal){0}, &got, &txid, &err);
        CHECK(rc == DZ_ENOMEM || (rc == 0 && rig_equal(&got, &db.now)));
    }
    dz_mem_fail_at(-1, false);
    dz_replica_close(&r);
    rig_close(&db);
    rig_remove(dir);
}

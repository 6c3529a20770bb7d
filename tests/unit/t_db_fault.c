/* SPDX-License-Identifier: MIT
 *
 * A disk that fails, fills up and loses power, and memory that runs out.
 *
 * One workload, done again and again with one thing going wrong each time.
 * Transaction i writes ROWS rows marked i. Whatever went wrong: the database
 * opens again, is sound, has all rows of a transaction or none, and has those
 * of every transaction whose commit was acknowledged.
 */
#define TAP_ALARM_S 50
#include "base/buf.h"
#include "db/db.h"
#include "db/db_sim.h"
#include "tap.h"

#include <errno.h>

enum {
    TXNS = 12,
    ROWS = 3,
    ROW_BYTES = 6000,
};

static const char *const steps[] = {
    "CREATE TABLE t(id INTEGER PRIMARY KEY, txn INTEGER, v BLOB);"
    "CREATE INDEX t_txn ON t(txn)",
};
static const struct dz_db_schema schema = {"test file", 0x54455354, steps, 1, 0};

static struct dz_buf template = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
static bool acked[TXNS + 1];

/* --- the workload ------------------------------------------------------------ */

static int write_rows(struct dz_db *db, int txn, struct dz_err *err)
{
    struct dz_stmt *st = dz_db_stmt(db, "INSERT INTO t(txn, v) VALUES(?, ?)");
    int r = dz_db_savepoint(db, err);
    if (r < 0)
        return r;
    for (int i = 0; r == 0 && i < ROWS; i++) {
        dz_bind_int(st, 1, txn);
        dz_bind_zeros(st, 2, ROW_BYTES);
        r = dz_stmt_run(st, err);
    }
    struct dz_blob *blob = NULL;
    if (r == 0)
        r = dz_blob_open(
            db,
            &(struct dz_blob_at){
                .table = "t", .column = "v", .rowid = dz_db_last_rowid(db), .write = true},
            &blob, err);
    if (r == 0)
        r = dz_blob_write(blob, "end", 3, ROW_BYTES - 3, err);
    dz_blob_close(blob);
    if (r == 0)
        return dz_db_release(db, err);
    dz_db_undo(db);
    return r;
}

static int do_txn(struct dz_db *db, int txn, struct dz_err *err)
{
    int r = dz_db_begin(db, err);
    if (r < 0)
        return r;
    r = write_rows(db, txn, err);
    if (r == 0)
        r = dz_db_commit(db, err);
    dz_db_rollback(db);
    if (r == 0)
        acked[txn] = true;
    return r;
}

/* The first error, or 0; goes on after errors, as a server does. */
static int work(struct dz_db_sim *sim, bool strict, struct dz_err *err)
{
    struct dz_db *db = NULL;
    struct dz_err e = {0};
    const struct dz_db_opts opts = {.schema = &schema, .label = "x", .strict = strict};
    int first = dz_db_open_disk(&db, dz_db_sim_disk(sim), &opts, err);
    if (first < 0)
        return first;
    /* A commit of few pages at the start of the log: if old frames were ever taken for new
     * ones, this is what would come back. */
    first = dz_db_exec(db, "INSERT INTO t(txn) VALUES(0)", err);
    for (int i = 1; i <= TXNS; i++) {
        e.code = do_txn(db, i, &e);
        if (e.code == 0 && i == 3)
            e.code = dz_db_checkpoint(db, DZ_DB_CHECKPOINT_MOVE, &e);
        if (e.code < 0 && first == 0) {
            first = e.code;
            *err = e;
        }
    }
    e.code = dz_db_close(db, false, &e);
    if (e.code < 0 && first == 0) {
        first = e.code;
        *err = e;
    }
    return first;
}

/* --- the verdict ------------------------------------------------------------- */

static int64_t ask(struct dz_db *db, const char *sql, int64_t arg)
{
    struct dz_err err = {0};
    struct dz_stmt *st = dz_db_stmt(db, sql);
    if (arg)
        dz_bind_int(st, 1, arg);
    int64_t v = dz_stmt_step(st, &err) == 1 ? dz_col_int(st, 0) : -1;
    CHECK_STR(err.msg, "");
    dz_stmt_reset(st);
    return v;
}

static void check_sound(struct dz_db *db)
{
    struct dz_stmt *st = dz_db_stmt(db, "PRAGMA integrity_check");
    CHECK_INT(dz_stmt_step(st, NULL), 1);
    CHECK_STR(dz_col_text(st, 0), "ok");
    dz_stmt_reset(st);
    for (int i = 1; i <= TXNS; i++) {
        int64_t n = ask(db, "SELECT count(*) FROM t WHERE txn = ?", i);
        CHECK(n == ROWS || (n == 0 && !acked[i]));
        if (n != 0)
            CHECK_INT(
                ask(db, "SELECT count(*) FROM t WHERE substr(v, -3) = x'656e64' AND txn = ?", i),
                1);
    }
}

static void check_disk(struct dz_db_sim *sim)
{
    struct dz_db *db = NULL;
    struct dz_err err = {0};
    const struct dz_db_opts opts = {.schema = &schema, .label = "again"};
    CHECK_INT(dz_db_open_disk(&db, dz_db_sim_disk(sim), &opts, &err), 0);
    CHECK_STR(err.msg, "");
    if (!db)
        return;
    check_sound(db);
    CHECK_INT(dz_db_close(db, false, &err), 0);
}

static struct dz_db_sim *new_disk(uint64_t seed)
{
    memset(acked, 0, sizeof acked);
    if (template.len == 0)
        CHECK_INT(dz_db_template(&schema, &template, NULL), 0);
    struct dz_db_sim *sim = dz_db_sim_new(seed);
    CHECK(sim);
    CHECK_INT(dz_db_sim_load(sim, DZ_DB_FILE_MAIN, template.p, template.len), 0);
    dz_db_seed((uint32_t)seed);
    return sim;
}

/* --- calls that fail --------------------------------------------------------- */

static long fail_each(unsigned set, int sys, bool sticky)
{
    long n = 0;
    for (bool failed = true; failed && n < 10000 && !tap_bad; n++) {
        struct dz_err err = {0};
        struct dz_db_sim *sim = new_disk(1);
        dz_db_sim_fail_at(sim, set, n, sys, sticky);
        int r = work(sim, true, &err);
        failed = dz_db_sim_failed(sim);
        dz_db_sim_fail_at(sim, 0, -1, 0, false);
        CHECK(failed || r == 0);
        CHECK((r == 0) == (err.msg[0] == '\0'));
        check_disk(sim);
        dz_db_sim_free(sim);
        if (tap_bad)
            printf("# call %ld of set %#x, errno %d%s\n", n, set, sys, sticky ? ", for good" : "");
    }
    dz_buf_release(&template);
    return n - 1;
}

TEST(db_survives_each_failing_read)
{
    CHECK(fail_each(1 << DZ_DB_SIM_READ, EIO, false) > 5);
    CHECK(fail_each(1 << DZ_DB_SIM_READ, EIO, true) > 5);
}

TEST(db_survives_each_failing_write)
{
    CHECK(fail_each(1 << DZ_DB_SIM_WRITE, EIO, false) > 50);
    CHECK(fail_each(1 << DZ_DB_SIM_WRITE, EIO, true) > 50);
    CHECK(fail_each(1 << DZ_DB_SIM_WRITE, EDQUOT, false) > 50);
}

TEST(db_survives_each_failing_sync_truncation_size_and_lock)
{
    static const unsigned calls[] = {DZ_DB_SIM_SYNC, DZ_DB_SIM_TRUNCATE, DZ_DB_SIM_SIZE,
                                     DZ_DB_SIM_LOCK};
    for (size_t i = 0; i < DZ_ARRAY_LEN(calls); i++) {
        CHECK(fail_each(1u << calls[i], EIO, false) > 0);
        CHECK(fail_each(1u << calls[i], EIO, true) > 0);
    }
}

TEST(db_tells_a_lock_from_a_fault)
{
    struct dz_err err = {0};
    struct dz_db_sim *sim = new_disk(1);
    dz_db_sim_fail_at(sim, 1 << DZ_DB_SIM_LOCK, 0, EAGAIN, true);
    CHECK_INT(work(sim, false, &err), DZ_EBUSY);
    dz_db_sim_fail_at(sim, 1 << DZ_DB_SIM_READ, 0, EIO, true);
    CHECK_INT(work(sim, false, &err), DZ_EIO);
    CHECK_STR(err.msg, "read the header of x: Input/output error");
    dz_db_sim_free(sim);
    dz_buf_release(&template);
}

/* --- a full disk ------------------------------------------------------------- */

static void fill_to(int64_t capacity, bool *ret_fits)
{
    struct dz_err err = {0};
    struct dz_db *db = NULL;
    const struct dz_db_opts opts = {.schema = &schema, .label = "x"};
    struct dz_db_sim *sim = new_disk(1);
    dz_db_sim_set_capacity(sim, capacity);
    int r = dz_db_open_disk(&db, dz_db_sim_disk(sim), &opts, &err);
    CHECK_INT(r, 0);
    int i = 1;
    for (; r == 0 && i <= TXNS; i++)
        r = do_txn(db, i, &err);
    *ret_fits = r == 0;
    if (r != 0) { /* nothing lost, and it goes on when there is room again */
        CHECK_INT(r, DZ_ENOSPC);
        CHECK(strstr(err.msg, "full"));
        check_sound(db);
        dz_db_sim_set_capacity(sim, -1);
        for (i--; i <= TXNS; i++)
            CHECK_INT(do_txn(db, i, &err), 0);
    }
    check_sound(db);
    r = dz_db_close(db, false, &err); /* what fits into the log may not fit into the file */
    CHECK(r == 0 || (r == DZ_ENOSPC && *ret_fits));
    *ret_fits = *ret_fits && r == 0;
    dz_db_sim_set_capacity(sim, -1);
    check_disk(sim);
    CHECK_INT(i, TXNS + 1);
    dz_db_sim_free(sim);
}

TEST(db_on_a_full_disk_loses_nothing_and_goes_on)
{
    bool fits = false;
    int64_t capacity = 16384;
    for (; !fits && capacity < 10000000 && !tap_bad; capacity += 1500) {
        fill_to(capacity, &fits);
        if (tap_bad)
            printf("# capacity %lld\n", (long long)capacity);
    }
    CHECK(fits && capacity > 100000);
    dz_buf_release(&template);
}

/* --- power ------------------------------------------------------------------- */

static void cut_each(bool strict, uint64_t seed)
{
    bool cut = true;
    long n = 0;
    for (; cut && n < 10000 && !tap_bad; n++) {
        struct dz_err err = {0};
        struct dz_db_sim *sim = new_disk(seed + (uint64_t)n);
        dz_db_sim_cut_at(sim, n);
        int r = work(sim, strict, &err);
        cut = dz_db_sim_is_off(sim);
        CHECK(cut == (r != 0));
        if (!strict)
            memset(acked, 0, sizeof acked); /* the last commits may be gone, never halves */
        CHECK_INT(dz_db_sim_power_on(sim), 0);
        check_disk(sim);
        dz_db_sim_free(sim);
        if (tap_bad)
            printf("# power cut after change %ld, seed %llu\n", n, (unsigned long long)seed);
    }
    CHECK(n > 50);
    dz_buf_release(&template);
}

TEST(db_strict_keeps_every_commit_through_power_cuts)
{
    for (uint64_t seed = 1; seed <= 8 && !tap_bad; seed++)
        cut_each(true, seed * 1000);
}

TEST(db_normal_stays_sound_through_power_cuts)
{
    for (uint64_t seed = 1; seed <= 8 && !tap_bad; seed++)
        cut_each(false, seed * 1000);
}

/* Power fails again while the recovery of the first cut is under way. */
TEST(db_survives_power_cuts_in_a_row)
{
    for (uint64_t seed = 1; seed <= 60 && !tap_bad; seed++) {
        struct dz_err err = {0};
        struct dz_db_sim *sim = new_disk(seed);
        for (int cut = 0; cut < 6; cut++) {
            dz_db_sim_cut_at(sim, (long)(seed * 7 % 40) + cut);
            bool before[TXNS + 1];
            memcpy(before, acked, sizeof before);
            (void)work(sim, true, &err); /* may write a transaction's rows again */
            CHECK_INT(dz_db_sim_power_on(sim), 0);
            struct dz_db *db = NULL;
            const struct dz_db_opts opts = {.schema = &schema, .strict = true};
            CHECK_INT(dz_db_open_disk(&db, dz_db_sim_disk(sim), &opts, &err), 0);
            for (int i = 1; i <= TXNS; i++) {
                int64_t rows = ask(db, "SELECT count(*) FROM t WHERE txn = ?", i);
                CHECK(rows % ROWS == 0 && (rows > 0 || !acked[i]));
            }
            CHECK_INT(dz_db_close(db, true, &err), 0);
        }
        if (tap_bad)
            printf("# seed %llu\n", (unsigned long long)seed);
        dz_db_sim_free(sim);
    }
    dz_buf_release(&template);
}

/* --- the disk itself --------------------------------------------------------- */

static size_t lose_once(uint64_t seed, unsigned char image[static 8192])
{
    unsigned char page[4096];
    size_t n = 0;
    struct dz_db_sim *sim = dz_db_sim_new(seed);
    struct dz_db_disk *d = dz_db_sim_disk(sim);
    memset(page, 'a', sizeof page);
    CHECK_INT(d->ops->write(d, DZ_DB_FILE_WAL, page, sizeof page, 0), 0);
    CHECK_INT(d->ops->sync(d, DZ_DB_FILE_WAL), 0);
    memset(page, 'b', sizeof page);
    CHECK_INT(d->ops->write(d, DZ_DB_FILE_WAL, page, sizeof page, 100), 0);
    CHECK_INT(d->ops->write(d, DZ_DB_FILE_WAL, page, sizeof page, 4196 - 100), 0);
    CHECK_INT(dz_db_sim_power_on(sim), 0);
    const unsigned char *p = dz_db_sim_bytes(sim, DZ_DB_FILE_WAL, &n);
    for (int i = 0; i < 100; i++)
        CHECK_INT(p[i], 'a'); /* synced, and outside what was written since */
    CHECK(n >= 4096 && n <= 8192);
    memset(image, 0, 8192);
    memcpy(image, p, n);
    dz_db_sim_free(sim);
    return n;
}

TEST(sim_loses_by_seed_and_only_what_was_not_synced)
{
    unsigned char a[8192], b[8192];
    bool lost_all = false, lost_none = false, torn = false;
    for (uint64_t seed = 0; seed < 64; seed++) {
        size_t n = lose_once(seed, a);
        CHECK_INT(lose_once(seed, b), n);
        CHECK(memcmp(a, b, sizeof a) == 0);
        size_t bs = 0;
        for (size_t i = 0; i < n; i++)
            bs += a[i] == 'b';
        lost_all = lost_all || bs == 0;
        lost_none = lost_none || bs == 8092;
        torn = torn || (bs > 0 && bs % 4096 != 0 && bs < 8092);
    }
    CHECK(lost_all && lost_none && torn);
}

/* --- transactions larger than the page cache ----------------------------------- */

enum {
    LARGE_ROWS = 150,
    LARGE_TXNS = 7,
};

/* Rows that are changed again and again within a transaction, so that SQLite writes
 * pages to the log early, reads them there and writes them there again. */
static int large_txn(struct dz_db *db, uint64_t *rng, int txn, int64_t len[static LARGE_ROWS + 1],
                     struct dz_err *err)
{
    int r = dz_db_begin(db, err);
    for (int i = 0; i < 2 * LARGE_ROWS && r == 0; i++) {
        *rng = *rng * 6364136223846793005u + 1442695040888963407u;
        int64_t id = (int64_t)(*rng >> 33) % LARGE_ROWS + 1, n = 2000 + txn * 100 + i;
        struct dz_stmt *st = dz_db_stmt(db, "INSERT OR REPLACE INTO t(id, txn, v) VALUES(?, ?, ?)");
        dz_bind_int(st, 1, id);
        dz_bind_int(st, 2, txn);
        dz_bind_zeros(st, 3, (size_t)n);
        r = dz_stmt_run(st, err);
        len[id] = n;
    }
    if (r == 0 && txn % 3 == 2) {
        dz_db_rollback(db);
        return 1;
    }
    if (r == 0)
        r = dz_db_commit(db, err);
    dz_db_rollback(db);
    return r;
}

static void check_large(struct dz_db *db, const int64_t len[static LARGE_ROWS + 1])
{
    struct dz_stmt *st = dz_db_stmt(db, "SELECT length(v) FROM t WHERE id=?");
    for (int i = 1; i <= LARGE_ROWS; i++) {
        dz_bind_int(st, 1, i);
        CHECK_INT(dz_stmt_step(st, NULL), len[i] ? 1 : 0);
        if (len[i])
            CHECK_INT(dz_col_int(st, 0), len[i]);
        dz_stmt_reset(st);
    }
    st = dz_db_stmt(db, "PRAGMA integrity_check");
    CHECK_INT(dz_stmt_step(st, NULL), 1);
    CHECK_STR(dz_col_text(st, 0), "ok");
    dz_stmt_reset(st);
}

/* All transactions, the nth write failing (-1: none), then what a crash leaves. */
static void run_large(uint64_t seed, long fail_at, int sys)
{
    struct dz_err err = {0};
    struct dz_db *db = NULL;
    struct dz_db_sim *sim = dz_db_sim_new(seed);
    const struct dz_db_opts opts = {.schema = &schema, .cache_kb = 40};
    int64_t len[LARGE_ROWS + 1] = {0}, trial[LARGE_ROWS + 1];
    uint64_t rng = seed;
    CHECK_INT(dz_db_sim_load(sim, DZ_DB_FILE_MAIN, template.p, template.len), 0);
    CHECK_INT(dz_db_open_disk(&db, dz_db_sim_disk(sim), &opts, &err), 0);
    dz_db_sim_fail_at(sim, 1u << DZ_DB_SIM_WRITE, fail_at, sys, false);
    for (int txn = 1; txn <= LARGE_TXNS; txn++) {
        memcpy(trial, len, sizeof len);
        if (large_txn(db, &rng, txn, trial, &err) == 0)
            memcpy(len, trial, sizeof len);
        if (txn == 4)
            (void)!dz_db_checkpoint(db, DZ_DB_CHECKPOINT_MOVE, NULL);
        check_large(db, len);
    }
    dz_db_sim_fail_at(sim, 1u << DZ_DB_SIM_WRITE, -1, 0, false);
    CHECK_INT(dz_db_close(db, true, NULL), 0);
    CHECK_INT(dz_db_open_disk(&db, dz_db_sim_disk(sim), &opts, &err), 0);
    check_large(db, len);
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    dz_db_sim_free(sim);
}

TEST(db_log_of_large_transactions_is_whole)
{
    CHECK_INT(dz_db_template(&schema, &template, NULL), 0);
    for (uint64_t seed = 1; seed <= 4 && !tap_bad; seed++)
        run_large(seed, -1, 0);
    for (long n = 0; n < 400 && !tap_bad; n += 1 + n / 10) {
        run_large(5, n, n % 2 ? ENOSPC : EIO);
        if (tap_bad)
            printf("# write %ld failed\n", n);
    }
    dz_buf_release(&template);
}

/* --- memory ------------------------------------------------------------------ */

TORTURE(db_survives_every_allocation_failure)
{
    struct dz_err err = {0};
    dz_db_use_door();
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    struct dz_db_sim *sim = dz_db_sim_new(1);
    memset(acked, 0, sizeof acked);
    if (sim && dz_db_template(&schema, &t, &err) == 0 &&
        dz_db_sim_load(sim, DZ_DB_FILE_MAIN, t.p, t.len) == 0) {
        int r = work(sim, false, &err);
        CHECK(r == 0 || err.code == r);
        CHECK(r == 0 || r == DZ_ENOMEM || r == DZ_EIO); /* EIO: the simulated disk itself */
        dz_mem_fail_at(-1, false);
        check_disk(sim);
    }
    dz_buf_release(&t);
    dz_db_sim_free(sim);
    dz_db_shutdown();
}

/* By descriptors: a failed open leaves them, and nothing else, to the caller. */
TORTURE(db_open_by_path_survives_every_allocation_failure)
{
    char path[64], wal[80];
    struct dz_err err = {0};
    struct dz_db *db = NULL;
    const char *tmp = getenv("TMPDIR");
    dz_db_use_door();
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    (void)snprintf(path, sizeof path, "%.30s/dz-db-open-%d", tmp ? tmp : "/tmp", (int)getpid());
    (void)snprintf(wal, sizeof wal, "%s-wal", path);
    int free_fd = dup(0);
    (void)close(free_fd);
    if (dz_db_template(&schema, &t, &err) == 0 &&
        dz_db_create_path(path, t.p, t.len, false, &err) == 0) {
        int r = dz_db_open_path(&db, path, &(struct dz_db_opts){.schema = &schema}, &err);
        CHECK(r == 0 || (r == DZ_ENOMEM && !db && access(wal, F_OK) != 0));
        if (r == 0)
            CHECK(dz_db_exec(db, "INSERT INTO t(txn) VALUES(1)", &err) <= 0);
        (void)dz_db_close(db, false, NULL);
        int again = dup(0); /* the lowest free one: none was left open */
        CHECK_INT(again, free_fd);
        (void)close(again);
    }
    (void)unlink(path);
    (void)unlink(wal);
    dz_buf_release(&t);
    dz_db_shutdown();
}

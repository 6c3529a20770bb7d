/* SPDX-License-Identifier: MIT
 *
 * The engine of continuous replication: a database is written, checkpointed, closed, opened again
 * and killed by seed, while the engine reads its log and is itself ended and started again. At any
 * moment the replica has a committed state, not older than the last one that was acknowledged; and
 * when the engine says that nothing is missing, it has the newest.
 *
 * A second test does the same on a store that fails by seed: calls that fail before or after they
 * took effect, writes that end in the middle, objects that seem to be missing, and delays. The
 * linker puts these faults below the engine (REPLICA_WRAPS in mk/tests.mk); restores of the test
 * itself meet none.
 */
#include "../lib/replica_rig.h"
#include "base/clock.h"
#include "base/follow.h"
#include "blob/blob_crypt.h"
#include "replica/replica_engine.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

enum {
    SEEDS = 12,
    STEPS = 60,
    DRAIN_MS = 9000,
    IMAGES = 4000,
    LOCK_AT = 0x40000000,
};

struct world {
    char dir[DZ_TEMP_DIR_TEXT], live[DZ_TEMP_DIR_TEXT + 16], state[DZ_TEMP_DIR_TEXT + 16],
        url[DZ_TEMP_DIR_TEXT + 32], at[DZ_TEMP_DIR_TEXT + 40], key_file[DZ_TEMP_DIR_TEXT + 16];
    struct dz_replica_engine *engine;
    struct rig_db db; /* descriptors -1: closed */
    bool open, known_salts, take;
    struct rig_image *images;
    size_t count, acked;
    uint64_t dice;
};

static struct dz_err err;
static uint64_t seed_now;

/* --- a store that fails ------------------------------------------------------------------------
 */

static _Atomic uint32_t faults_per_1000; /* of the calls of the engine's threads */
static _Atomic uint64_t fault_dice, faults;
static _Atomic unsigned calls, fault_at[2]; /* or the calls with these numbers fail */

enum fault {
    NO_FAULT,
    FAIL_BEFORE,
    FAIL_AFTER, /* it happened, and the answer was lost */
    SLOW,
};
static _Atomic enum fault fault_kind;

static enum fault next_fault(void)
{
    if (gettid() == getpid())
        return NO_FAULT;
    unsigned call = ++calls;
    if (fault_at[0])
        return call == fault_at[0] || call == fault_at[1] ? fault_kind : NO_FAULT;
    if (!faults_per_1000)
        return NO_FAULT;
    uint64_t dice = atomic_fetch_add(&fault_dice, 0x9e3779b97f4a7c15u);
    if (dice_below(&dice, 1000) >= faults_per_1000)
        return NO_FAULT;
    enum fault f = FAIL_BEFORE + dice_below(&dice, 3);
    if (f == SLOW)
        (void)poll(NULL, 0, (int)dice_below(&dice, 4));
    else
        faults++;
    return f;
}

#define FAULTY(result, code, name, args, ...)                                  \
    result __real_##name args;                                                 \
    result __wrap_##name args;                                                 \
    result __wrap_##name args                                                  \
    {                                                                          \
        enum fault f = next_fault();                                           \
        int rc = f == FAIL_BEFORE ? 0 : __real_##name(__VA_ARGS__);            \
        bool bad = f == FAIL_BEFORE || (f == FAIL_AFTER && rc == 0 && (code)); \
        return bad ? dz_fail(e, (code) ? (code) : DZ_EIO, "a fault") : rc;     \
    }

FAULTY(int, DZ_EIO, dz_blobs_list,
       (struct dz_blobs * s, int (*fn)(void *arg, const char *key, uint64_t size), void *arg,
        struct dz_err *e),
       s, fn, arg, e)
FAULTY(int, DZ_EIO, dz_blobs_remove, (struct dz_blobs * s, const char *key, struct dz_err *e), s,
       key, e)
FAULTY(int, DZ_EIO, dz_blob_in_read,
       (struct dz_blob_in * in, void *buf, size_t n, uint64_t at, struct dz_err *e), in, buf, n, at,
       e)
FAULTY(int, DZ_EIO, dz_blob_out_commit, (struct dz_blob_out * out, struct dz_err *e), out, e)

/* An open object or writer must not leak, so these fail only before. */
int __real_dz_blob_in_open(struct dz_blobs *s, const char *key, struct dz_blob_in **ret,
                           struct dz_err *e);
int __wrap_dz_blob_in_open(struct dz_blobs *s, const char *key, struct dz_blob_in **ret,
                           struct dz_err *e);
int __wrap_dz_blob_in_open(struct dz_blobs *s, const char *key, struct dz_blob_in **ret,
                           struct dz_err *e)
{
    enum fault f = next_fault();
    if (f == FAIL_BEFORE || f == FAIL_AFTER)
        return dz_fail(e, f == FAIL_BEFORE ? DZ_EIO : DZ_ENOENT, "a fault: %s", key);
    return __real_dz_blob_in_open(s, key, ret, e);
}

int __real_dz_blob_out_open(struct dz_blobs *s, const char *key, struct dz_blob_out **ret,
                            struct dz_err *e);
int __wrap_dz_blob_out_open(struct dz_blobs *s, const char *key, struct dz_blob_out **ret,
                            struct dz_err *e);
int __wrap_dz_blob_out_open(struct dz_blobs *s, const char *key, struct dz_blob_out **ret,
                            struct dz_err *e)
{
    enum fault f = next_fault();
    return f == FAIL_BEFORE || f == FAIL_AFTER ? dz_fail(e, DZ_ENOSPC, "a fault: %s", key)
                                               : __real_dz_blob_out_open(s, key, ret, e);
}

/* The disk is full in the middle of a write. */
int __real_dz_blob_out_write(struct dz_blob_out *out, const void *data, size_t n, struct dz_err *e);
int __wrap_dz_blob_out_write(struct dz_blob_out *out, const void *data, size_t n, struct dz_err *e);
int __wrap_dz_blob_out_write(struct dz_blob_out *out, const void *data, size_t n, struct dz_err *e)
{
    enum fault f = next_fault();
    int rc = __real_dz_blob_out_write(out, data, f == FAIL_BEFORE ? n / 2 : n, e);
    return rc == 0 && (f == FAIL_BEFORE || f == FAIL_AFTER) ? dz_fail(e, DZ_ENOSPC, "a fault") : rc;
}

/* The rest of a run would only repeat the failure. */
static void require(bool good, const char *text)
{
    if (good)
        return;
    printf("# seed %llu: %s\n", (unsigned long long)seed_now, text);
    (void)fflush(stdout);
    abort();
}

static void start_engine(struct world *w)
{
    const struct dz_replica_engine_opts opts = {.live_path = w->live,
                                                .state_path = w->state,
                                                .access.key_file = w->key_file,
                                                .workers = 2,
                                                .behind_ms = 20000,
                                                .retry_ms = 2};
    const struct dz_replica_follow follow = {.id = "box",
                                             .url = w->url,
                                             .about = "\"name\":\"box\"",
                                             .policy = {0, 60000, 3600000},
                                             .take = w->take};
    require(dz_replica_engine_new(&opts, &w->engine, &err) == 0, err.msg);
    require(dz_replica_engine_follow(w->engine, &follow, &err) == 0, err.msg);
}

static int lock_db(int fd, short type)
{
    struct flock fl = {.l_type = type, .l_start = LOCK_AT, .l_len = 512};
    return fcntl(fd, F_OFD_SETLK, &fl);
}

static void open_db(struct world *w)
{
    char path[DZ_TEMP_DIR_TEXT + 64];
    (void)snprintf(path, sizeof path, "%s/box.doze", w->live);
    w->db.db_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    (void)snprintf(path, sizeof path, "%s/box.doze-wal", w->live);
    w->db.wal_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(w->db.db_fd >= 0 && w->db.wal_fd >= 0);
    dz_replica_engine_attach(w->engine, "box", w->db.db_fd, w->db.wal_fd);
    CHECK_INT(lock_db(w->db.db_fd, F_WRLCK), 0);
    if (w->db.at == 0) { /* SQLite draws new salts for the first log of a connection */
        w->db.sequence = 0;
        w->db.salt[0] = (uint32_t)dice_roll(&w->dice);
        w->db.salt[1] = (uint32_t)dice_roll(&w->dice);
    }
    w->open = true;
}

static bool is_copied(const struct world *w)
{
    return w->db.at == 0 || dz_follow_has(w->db.wal_fd, w->db.salt, w->db.at);
}

/* As dz_db_close() does it. */
static void close_db(struct world *w, bool killed)
{
    for (int i = 0; !killed && !is_copied(w) && i < 300; i++)
        (void)poll(NULL, 0, 1);
    if (!killed && is_copied(w)) {
        if (w->db.at > 0) {
            dz_follow_prove(w->db.wal_fd, w->db.at);
            rig_checkpoint(&w->db);
        }
        CHECK_INT(ftruncate(w->db.wal_fd, 0), 0);
    }
    if (dice_below(&w->dice, 2) == 0)
        dz_replica_engine_detach(w->engine, "box");
    rig_close(&w->db);
    w->db.db_fd = w->db.wal_fd = -1;
    dz_replica_engine_detach(w->engine, "box");
    w->open = false;
}

static void checkpoint(struct world *w, bool force)
{
    bool copied = is_copied(w);
    if (w->db.at == 0 || (!copied && !force))
        return;
    dz_follow_prove(w->db.wal_fd, copied ? w->db.at : 0);
    rig_checkpoint(&w->db);
    if (dice_below(&w->dice, 3) == 0)
        CHECK_INT(ftruncate(w->db.wal_fd, 0), 0);
}

static void commit(struct world *w)
{
    rig_commit(&w->db, &w->dice);
    CHECK(w->count < IMAGES);
    w->images[w->count++] = w->db.now;
}

/* The state that a restore gives now; the number of it. */
static size_t restored(struct world *w)
{
    struct dz_replica r = {0};
    struct rig_image image;
    uint64_t txid;
    if (dz_replica_open(w->at, &(struct dz_replica_access){.key_file = w->key_file}, false, &r,
                        &err) < 0)
        return 0;
    int rc = rig_restore(&r, &(struct dz_replica_goal){0}, &image, &txid, &err);
    dz_replica_close(&r);
    if (rc == DZ_ENOENT)
        return 0;
    require(rc == 0, err.msg);
    for (size_t i = w->count; i > 0; i--)
        if (rig_equal(&image, &w->images[i - 1]))
            return i;
    require(false, "the replica has a state that was never committed");
    return 0;
}

static void drain(struct world *w)
{
    struct dz_replica_status s;
    uint32_t rate = faults_per_1000;
    faults_per_1000 = 0;
    size_t left = dz_replica_engine_drain(w->engine, DRAIN_MS, false);
    dz_replica_engine_status(w->engine, "box", &s);
    require(left == 0 && s.error[0] == '\0', s.error);
    size_t has = restored(w);
    require(has == w->count, "the engine says that nothing is missing, and something is");
    w->acked = has;
    faults_per_1000 = rate;
}

static bool log_is_empty(const struct world *w)
{
    char path[DZ_TEMP_DIR_TEXT + 64];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/box.doze-wal", w->live);
    return stat(path, &st) < 0 || st.st_size == 0;
}

static unsigned times_whole, times_thawed, times_spared;

/* The file was frozen and comes back out of the replica: another file with the same bytes. */
static void thaw(struct world *w, const struct rig_image *image, uint64_t txid)
{
    char path[DZ_TEMP_DIR_TEXT + 64], temp[DZ_TEMP_DIR_TEXT + 64];
    struct dz_replica_status s;
    (void)snprintf(path, sizeof path, "%s/box.doze", w->live);
    (void)snprintf(temp, sizeof temp, "%s/.thawed", w->live);
    int fd = open(temp, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    rig_pwrite(fd, image->pages, (size_t)image->count * RIG_PAGE, 0);
    dz_replica_engine_adopt(w->engine, "box", txid, fd);
    (void)close(fd);
    CHECK_INT(rename(temp, path), 0);
    uint32_t rate = faults_per_1000;
    faults_per_1000 = 0;
    (void)dz_replica_engine_drain(w->engine, DRAIN_MS, false);
    dz_replica_engine_status(w->engine, "box", &s);
    times_spared += s.txid == txid; /* not if the engine looked at the file in between */
    faults_per_1000 = rate;
}

/* A sandbox may be frozen now, and its live file removed, if the engine says that the replica has
 * all of it: then a restore of that TXID must be the file. */
static void check_has_all(struct world *w)
{
    char url[DZ_REPLICA_URL_MAX], path[DZ_TEMP_DIR_TEXT + 64];
    struct dz_replica r = {0};
    struct rig_image image, live = {0};
    uint64_t txid, got;
    if (!log_is_empty(w) || dz_replica_engine_has_all(w->engine, "box", url, &txid) != 1)
        return;
    require(!w->open, "a process has the file, and the engine says that the replica has it");
    require(strcmp(url, w->at) == 0, url);
    require(dz_replica_open(url, &(struct dz_replica_access){.key_file = w->key_file}, false, &r,
                            &err) == 0,
            err.msg);
    int rc = rig_restore(&r, &(struct dz_replica_goal){.txid = txid}, &image, &got, &err);
    require(rc == 0, err.msg);
    dz_replica_close(&r);
    (void)snprintf(path, sizeof path, "%s/box.doze", w->live);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = pread(fd, live.pages, sizeof live.pages, 0);
    (void)close(fd);
    live.count = n > 0 ? (uint32_t)n / RIG_PAGE : 0;
    require(rig_equal(&image, &live), "the replica's last state is not the live file");
    require(rig_equal(&image, &w->db.now), "the live file lacks a commit");
    if (times_whole++ % 2 == 0) {
        thaw(w, &image, txid);
        times_thawed++;
    }
}

static void step(struct world *w)
{
    check_has_all(w);
    switch (dice_below(&w->dice, 16)) {
    case 0:
        drain(w);
        break;
    case 1: /* the daemon is killed: its threads stop wherever they are */
        dz_replica_engine_free(w->engine);
        require(restored(w) >= w->acked, "the replica lost what was acknowledged");
        if (w->open && dice_below(&w->dice, 2) == 0) {
            rig_close(&w->db);
            w->open = false;
        }
        start_engine(w);
        break;
    case 2:
        if (w->open)
            close_db(w, dice_below(&w->dice, 3) == 0);
        break;
    case 3:
        if (w->open && w->db.at > 0 &&
            is_copied(w)) /* the engine said so to the owner of the log */
            w->acked = w->count;
        require(restored(w) >= w->acked, "the replica lost what was acknowledged");
        break;
    case 4:
        if (w->open)
            checkpoint(w, dice_below(&w->dice, 4) == 0);
        break;
    case 5:
    case 6:
        if (w->open)
            checkpoint(w, false);
        break;
    case 7:
        (void)poll(NULL, 0, (int)dice_below(&w->dice, 5));
        break;
    default:
        if (!w->open)
            open_db(w);
        commit(w);
    }
}

static void prepare(struct world *w, uint64_t seed)
{
    struct rig_db first;
    char path[DZ_TEMP_DIR_TEXT + 64];
    *w = (struct world){.dice = seed, .images = dz_zarray(IMAGES, sizeof *w->images)};
    require(w->images && dz_fd_temp_dir("doze-engine", w->dir, &err) == 0, err.msg);
    (void)snprintf(w->live, sizeof w->live, "%s/live", w->dir);
    (void)snprintf(w->state, sizeof w->state, "%s/state", w->dir);
    (void)snprintf(w->url, sizeof w->url, "file://%s/replica", w->dir);
    (void)snprintf(w->at, sizeof w->at, "%s/box", w->url);
    CHECK_INT(mkdir(w->live, 0700), 0);
    if (seed % 3 == 0) { /* every third replica is encrypted */
        (void)snprintf(w->key_file, sizeof w->key_file, "%s/key", w->dir);
        require(dz_blob_keys_make(w->key_file, &err) == 0, err.msg);
    }
    rig_open(&first, seed & 1, &w->dice);
    w->db = first;
    (void)snprintf(path, sizeof path, "%s/box.doze", w->live);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    rig_pwrite(fd, first.now.pages, first.now.count * RIG_PAGE, 0);
    (void)close(fd);
    rig_close(&first);
    w->db.db_fd = w->db.wal_fd = -1;
    w->images[w->count++] = w->db.now;
}

static void begin(struct world *w, uint64_t seed)
{
    prepare(w, seed);
    start_engine(w);
}

static void end(struct world *w)
{
    drain(w);
    if (w->open)
        close_db(w, false);
    drain(w);
    check_has_all(w);
    dz_replica_engine_free(w->engine);
    rig_remove(w->dir);
    dz_free(w->images);
}

static void run_seed(uint64_t seed, unsigned steps)
{
    struct world w;
    seed_now = seed;
    begin(&w, seed);
    for (unsigned i = 0; i < steps; i++)
        step(&w);
    end(&w);
}

TEST(the_replica_has_a_committed_state_at_any_moment)
{
    const char *text = getenv("SEED");
    if (text) {
        run_seed(strtoull(text, NULL, 10), STEPS);
        return;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_seed(seed, STEPS);
    CHECK(times_whole > SEEDS / 2);
    CHECK(times_spared > times_thawed / 2);
    printf("# the replica had all of a file at rest %u times; %u of %u thaws were not copied\n",
           times_whole, times_spared, times_thawed);
}

TEST(a_store_that_fails_costs_no_state_and_invents_none)
{
    const char *text = getenv("SEED"), *count = getenv("SEEDS");
    uint64_t first = text ? strtoull(text, NULL, 10) : 1,
             last = first +
                    (text    ? 1
                     : count ? strtoull(count, NULL, 10)
                             : SEEDS) -
                    1;
    for (uint64_t seed = first; seed <= last; seed++) {
        fault_dice = seed;
        faults_per_1000 = 50 + (uint32_t)(seed % 5) * 100;
        run_seed(seed, STEPS);
    }
    faults_per_1000 = 0;
    CHECK(text || faults > SEEDS); /* a run without faults proves nothing */
}

TEST(a_replica_that_was_never_reached_is_not_current)
{
    struct world w;
    struct dz_replica_status s = {0};
    faults_per_1000 = 1000;
    begin(&w, 1);
    for (int i = 0; i < 5000 && s.errors == 0; i++) {
        (void)poll(NULL, 0, 1);
        dz_replica_engine_status(w.engine, "box", &s);
    }
    CHECK(s.errors > 0);
    CHECK_INT(s.state, DZ_REPLICA_LAGGING);
    drain(&w);
    faults_per_1000 = 0;
    dz_replica_engine_status(w.engine, "box", &s);
    CHECK_INT(s.state, DZ_REPLICA_CURRENT);
    end(&w);
}

/* A daemon starts behind a commit that its replica lacks, and two calls fail. */
static void fail_two(enum fault kind, unsigned first, unsigned second)
{
    struct world w;
    seed_now = kind * 10000 + first * 100 + second;
    begin(&w, 1);
    drain(&w);
    open_db(&w);
    dz_replica_engine_free(w.engine);
    commit(&w);
    calls = 0;
    fault_kind = kind;
    fault_at[1] = second;
    fault_at[0] = first;
    start_engine(&w);
    dz_replica_engine_attach(w.engine, "box", w.db.db_fd, w.db.wal_fd);
    drain(&w);
    fault_at[0] = 0;
    end(&w);
}

TEST(any_two_calls_to_the_store_may_fail)
{
    for (enum fault kind = FAIL_BEFORE; kind <= FAIL_AFTER; kind++)
        for (unsigned first = 1; first <= 8; first++)
            for (unsigned second = first + 1; second <= first + 4; second++)
                fail_two(kind, first, second);
}

/* --- two writers -------------------------------------------------------------------------------
 */

/* What a daemon does that does not know yet that another one has taken its replica. */
static void work_on(struct world *w)
{
    if (!w->open)
        open_db(w);
    if (dice_below(&w->dice, 4) == 0)
        (void)poll(NULL, 0, (int)dice_below(&w->dice, 3));
    else
        commit(w);
}

static void restart(struct world *w)
{
    dz_replica_engine_free(w->engine);
    start_engine(w);
    if (w->open)
        dz_replica_engine_attach(w->engine, "box", w->db.db_fd, w->db.wal_fd);
}

static bool is_fenced(struct world *w)
{
    struct dz_replica_status s = {0};
    for (int i = 0; i < 10000; i++) {
        dz_replica_engine_status(w->engine, "box", &s);
        if (s.state == DZ_REPLICA_FENCED)
            return true;
        (void)poll(NULL, 0, 1);
    }
    printf("# state %d: %s\n", s.state, s.error);
    return false;
}

/* A second data directory takes the replica over while the first goes on to write, both with a
 * database of their own. From the moment that the second is current, the replica has its states
 * only, and the first learns that it is out. */
static void take_over(uint64_t seed)
{
    struct world first, second;
    seed_now = seed;
    prepare(&first, seed);
    prepare(&second, seed * 1000 + 1);
    (void)snprintf(second.url, sizeof second.url, "%s", first.url);
    (void)snprintf(second.at, sizeof second.at, "%s", first.at);
    (void)snprintf(second.key_file, sizeof second.key_file, "%s", first.key_file);
    start_engine(&first);
    for (unsigned i = 0; i < 10; i++)
        step(&first);
    drain(&first); /* it has claimed the replica: a claim at the same instant may win */
    second.take = true;
    start_engine(&second);
    for (unsigned i = 0; i < 6; i++)
        work_on(&first);
    drain(&second);
    second.take = false; /* once is enough: it is the owner now */
    for (unsigned i = 0; i < 40; i++) {
        work_on(&first);
        if (i % 8 == 7)
            restart(&first);
        step(&second);
        require(restored(&second) >= second.acked, "the fenced writer changed the replica");
    }
    if (!first.open)
        open_db(&first);
    commit(&first);
    require(is_fenced(&first), "the first writer does not know that it is out");
    require(restored(&second) >= second.acked, "the fenced writer changed the replica");
    dz_replica_engine_free(first.engine);
    if (first.open)
        rig_close(&first.db);
    end(&second);
    rig_remove(first.dir);
    dz_free(first.images);
}

TEST(of_two_writers_the_one_that_lost_the_replica_damages_nothing)
{
    const char *text = getenv("SEED");
    for (uint64_t seed = text ? strtoull(text, NULL, 10) : 1; seed <= (text ? 0 : SEEDS); seed++)
        take_over(seed);
    if (text)
        take_over(strtoull(text, NULL, 10));
    for (uint64_t seed = 1; !text && seed <= SEEDS; seed++) {
        fault_dice = seed;
        faults_per_1000 = 100;
        take_over(seed);
    }
    faults_per_1000 = 0;
}

/* --- all functions at once, for ThreadSanitizer (make check-tsan) ------------------------------
 */

struct crowd {
    struct world w;
    _Atomic bool over;
};

/* Settings of a sandbox change while its worker is busy, and another sandbox comes and goes. */
static void *change_settings(void *arg)
{
    struct crowd *c = arg;
    struct dz_err why;
    const struct dz_replica_follow box = {.id = "box", .url = c->w.url, .about = "\"name\":\"b\""},
                                   other = {.id = "other", .url = c->w.url, .about = ""};
    for (int i = 0; !c->over; i++) {
        struct dz_replica_follow f = i & 1 ? other : box;
        f.policy = (struct dz_replica_policy){i & 2, 60000, 3600000};
        CHECK_INT(dz_replica_engine_follow(c->w.engine, &f, &why), 0);
        if (i % 8 == 7)
            dz_replica_engine_leave(c->w.engine, "other", i & 8);
        (void)poll(NULL, 0, 1);
    }
    return NULL;
}

static void *ask_for_state(void *arg)
{
    struct crowd *c = arg;
    struct dz_replica_totals *t = dz_zalloc(sizeof *t);
    struct dz_replica_report r;
    struct dz_replica_status s;
    for (int i = 0; t && !c->over; i++) {
        dz_replica_engine_totals(c->w.engine, i & 1, t);
        dz_replica_engine_status(c->w.engine, i & 1 ? "box" : "other", &s);
        (void)dz_replica_engine_next(c->w.engine, &r);
        (void)poll(NULL, 0, 1);
    }
    dz_free(t);
    return NULL;
}

TEST(any_thread_may_call_at_any_time)
{
    DZ_AUTO(dz_freep) struct crowd *c = dz_zalloc(sizeof *c);
    void *(*const acts[])(void *) = {change_settings, ask_for_state};
    pthread_t threads[DZ_ARRAY_LEN(acts)];
    seed_now = 3;
    require(c, "out of memory");
    begin(&c->w, 3);
    for (size_t i = 0; i < DZ_ARRAY_LEN(acts); i++)
        CHECK_INT(pthread_create(&threads[i], NULL, acts[i], c), 0);
    for (unsigned i = 0; i < 200; i++) {
        uint32_t what = dice_below(&c->w.dice, 8);
        if (!c->w.open)
            open_db(&c->w);
        if (what == 0)
            close_db(&c->w, dice_below(&c->w.dice, 2) == 0);
        else if (what == 1)
            checkpoint(&c->w, false);
        else
            commit(&c->w);
    }
    c->over = true;
    for (size_t i = 0; i < DZ_ARRAY_LEN(acts); i++)
        (void)pthread_join(threads[i], NULL);
    end(&c->w);
}

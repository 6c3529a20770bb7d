/* SPDX-License-Identifier: MIT
 *
 * bench_replica.c - a restore of 1 GiB from a directory and a push to it, as whole programs,
 * beside litestream's restore of the same replica (`make bench-peers`). The second table has the
 * CPU time. Half of each page is random, so that pages compress to about a half, as those of real
 * disks do. The third table has the lag of continuous replication: 1, 100 and 1,000 databases are
 * open and followed; a thread commits to each of them once a second; a sampler commits to one of
 * them and waits until the engine has published that the file of the commit is durable. A further
 * row is the heap that the engine needs for a database that no process has open. The last ones are
 * the lag of `litestream replicate` of one database, from a commit to its file in the directory.
 */
#include "bench.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/follow.h"
#include "base/mem.h"
#include "db/db.h"
#include "replica/replica_engine.h"

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    PAGES = 256 << 10, /* 1 GiB */
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
    bench_row(&b, &(struct bench_row){.row = "doze restore, 1 GiB from a directory",
                                      .value = ms,
                                      .unit = unit,
                                      .yardstick = yard,
                                      .yardstick_name = peer ? "litestream restore" : NULL,
                                      .ratio = peer ? yard / ms : 0,
                                      .budget = peer ? 5 : 2000,
                                      .at_least = peer});
    bench_row(&b, &(struct bench_row){.row = "doze replica push, 1 GiB to a directory",
                                      .value = bench_us(&b, p) / 1000,
                                      .unit = unit});
    (void)bench_finish(&b);
}

/* --- lag ------------------------------------------------------------------------------------- */

enum {
    SAMPLES = 400,
    SLEEPERS = 1000,
    STEP_NS = 20000, /* between two looks of the sampler */
};

static const char *const steps[] = {"CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB)"};
static const struct dz_db_schema schema = {
    .what = "bench", .application_id = 7, .steps = steps, .version = 1};

struct written {
    struct dz_db *db;
    int wal_fd;
};
struct writers {
    struct dz_replica_engine *engine;
    struct written *of;
    unsigned count;
    atomic_bool stop;
};

static int open_written(struct writers *w, unsigned i, const struct dz_buf *template)
{
    char path[DZ_TEMP_DIR_TEXT + 64], wal[DZ_TEMP_DIR_TEXT + 80], id[16], at[DZ_TEMP_DIR_TEXT + 32];
    (void)snprintf(id, sizeof id, "box%u", i);
    (void)snprintf(path, sizeof path, "%s/live/%s.doze", dir, id);
    (void)snprintf(wal, sizeof wal, "%s-wal", path);
    (void)snprintf(at, sizeof at, "file://%s/lag", dir);
    const struct dz_replica_follow follow = {
        .id = id, .url = at, .policy = {0, 86400000, 86400000}};
    int rc = dz_db_create_path(path, template->p, template->len, false, NULL);
    int db_fd = open(path, O_RDWR | O_CLOEXEC);
    w->of[i].wal_fd = open(wal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (rc == 0)
        rc = dz_replica_engine_follow(w->engine, &follow, NULL);
    if (rc == 0)
        dz_replica_engine_attach(w->engine, id, db_fd, w->of[i].wal_fd);
    return rc < 0 ? rc
                  : dz_db_open_fds(&w->of[i].db, db_fd, w->of[i].wal_fd,
                                   &(struct dz_db_opts){.schema = &schema}, NULL);
}

static int commit(const struct written *w)
{
    return dz_db_exec(w->db, "INSERT INTO t (v) VALUES (randomblob(300))", NULL);
}

/* All but the first database, which is the sampler's. */
static void *write_all(void *arg)
{
    struct writers *w = arg;
    int64_t pause = w->count > 1 ? DZ_NS_PER_S / (w->count - 1) : DZ_NS_PER_S, next;
    next = dz_clock_mono_ns();
    for (unsigned i = 0; !w->stop; i = (i + 1) % (w->count - 1)) {
        (void)!commit(&w->of[i + 1]);
        int64_t left = (next += pause) - dz_clock_mono_ns();
        if (left > 0)
            (void)nanosleep(&(struct timespec){left / DZ_NS_PER_S, left % DZ_NS_PER_S}, NULL);
    }
    return NULL;
}

static uint64_t txid_of(const struct writers *w)
{
    struct dz_replica_status s;
    dz_replica_engine_status(w->engine, "box0", &s);
    return s.txid;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int sample(struct writers *w, double *ret_ms)
{
    for (int i = 0; i < SAMPLES; i++) {
        uint64_t before = txid_of(w);
        int rc = commit(&w->of[0]);
        int64_t from = dz_clock_mono_ns();
        while (rc == 0 && txid_of(w) == before && dz_clock_mono_ns() - from < 10 * DZ_NS_PER_S)
            (void)nanosleep(&(struct timespec){0, STEP_NS}, NULL);
        if (rc < 0)
            return rc;
        ret_ms[i] = (double)(dz_clock_mono_ns() - from) / 1e6;
        (void)nanosleep(&(struct timespec){0, 5 * DZ_NS_PER_MS}, NULL);
    }
    qsort(ret_ms, SAMPLES, sizeof *ret_ms, by_size);
    return 0;
}

static double cpu_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int lag_of(struct bench *b, unsigned count, const struct dz_buf *template)
{
    static char rows[3][2][64];
    static int set;
    char live[DZ_TEMP_DIR_TEXT + 16], state[DZ_TEMP_DIR_TEXT + 16], lag[DZ_TEMP_DIR_TEXT + 16];
    double ms[SAMPLES];
    pthread_t thread;
    struct writers w = {.count = count, .of = dz_zarray(count, sizeof *w.of)};
    (void)snprintf(live, sizeof live, "%s/live", dir);
    (void)snprintf(state, sizeof state, "%s/state", dir);
    (void)snprintf(lag, sizeof lag, "%s/lag", dir);
    int rc = dz_fd_mkdirs(AT_FDCWD, live, 0700, NULL);
    const struct dz_replica_engine_opts opts = {
        .live_path = live, .state_path = state, .workers = 8, .behind_ms = 60000};
    if (rc == 0)
        rc = dz_replica_engine_new(&opts, &w.engine, NULL);
    for (unsigned i = 0; i < count && rc == 0; i++)
        rc = open_written(&w, i, template);
    if (rc == 0)
        rc = dz_replica_engine_drain(w.engine, 60000, false) == 0 ? 0 : -1;
    double idle = cpu_ms();
    (void)nanosleep(&(struct timespec){2, 0}, NULL);
    idle = (cpu_ms() - idle) / 2;
    bool threaded = rc == 0 && count > 1 && pthread_create(&thread, NULL, write_all, &w) == 0;
    if (rc == 0)
        rc = sample(&w, ms);
    w.stop = true;
    if (threaded)
        (void)pthread_join(thread, NULL);
    for (unsigned i = 0; i < count && w.of[i].db; i++)
        (void)dz_db_close(w.of[i].db, true, NULL);
    dz_replica_engine_free(w.engine);
    dz_free(w.of);
    (void)!dz_fd_remove_tree(AT_FDCWD, live, NULL);
    (void)!dz_fd_remove_tree(AT_FDCWD, state, NULL);
    (void)!dz_fd_remove_tree(AT_FDCWD, lag, NULL);
    if (rc < 0)
        return rc;
    (void)snprintf(rows[set][0], sizeof rows[set][0], "lag, p50, %u databases written", count);
    (void)snprintf(rows[set][1], sizeof rows[set][1], "lag, p99, %u databases written", count);
    bench_row(b, &(struct bench_row){
                     .row = rows[set][0], .value = ms[SAMPLES / 2], .unit = "ms", .budget = 1});
    bench_row(
        b, &(struct bench_row){
               .row = rows[set][1], .value = ms[SAMPLES * 99 / 100], .unit = "ms", .budget = 10});
    if (count == SLEEPERS)
        bench_row(b, &(struct bench_row){.row = "1,000 replicated databases, open and not written",
                                         .value = idle,
                                         .unit = "ms CPU a second",
                                         .budget = 0.5});
    set++;
    return 0;
}

/* Followed at rest, as the sandboxes of a daemon that sleep. */
static int heap_of(struct bench *b)
{
    char live[DZ_TEMP_DIR_TEXT + 16], state[DZ_TEMP_DIR_TEXT + 16], at[DZ_TEMP_DIR_TEXT + 32];
    struct dz_replica_engine *engine = NULL;
    (void)snprintf(live, sizeof live, "%s/live", dir);
    (void)snprintf(state, sizeof state, "%s/state", dir);
    (void)snprintf(at, sizeof at, "file://%s/heap", dir);
    const struct dz_replica_engine_opts opts = {
        .live_path = live, .state_path = state, .workers = 8, .behind_ms = 60000};
    int rc = dz_fd_mkdirs(AT_FDCWD, live, 0700, NULL);
    if (rc == 0)
        rc = dz_replica_engine_new(&opts, &engine, NULL);
    size_t before = mallinfo2().uordblks;
    for (unsigned i = 0; i < SLEEPERS && rc == 0; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "sbx_%020u", i);
        rc = dz_replica_engine_follow(
            engine,
            &(struct dz_replica_follow){.id = id, .url = at, .policy = {0, 86400000, 86400000}},
            NULL);
    }
    if (rc == 0)
        rc = dz_replica_engine_drain(engine, 60000, false) == 0 ? 0 : -1;
    double each = (double)(mallinfo2().uordblks - before) / SLEEPERS;
    dz_replica_engine_free(engine);
    if (rc == 0)
        bench_row(b, &(struct bench_row){.row = "heap of a replicated database at rest",
                                         .value = each,
                                         .unit = "bytes",
                                         .budget = 2048});
    return rc;
}

/* --- litestream's lag ------------------------------------------------------------------------ */

enum {
    PEER_SAMPLES = 60,
    PEER_STEP_NS = 1000000,
    PEER_PAUSE_MS = 70, /* and up to as much again: no commit is in step with its clock */
    PEER_NAME = 37,     /* MIN-MAX.ltx */
};

/* The greatest name of a file in the directory, which is its last transaction. "": none. */
static void newest_in(const char *path, char ret_name[static PEER_NAME + 1])
{
    DIR *d = opendir(path);
    ret_name[0] = 0;
    for (const struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (strlen(e->d_name) == PEER_NAME && strcmp(e->d_name, ret_name) > 0)
            memcpy(ret_name, e->d_name, PEER_NAME + 1);
    if (d)
        (void)closedir(d);
}

/* Wait until another name is the greatest. Returns how long that took, or -1. */
static double await_newer(const char *path, const char *before, int64_t from_ns)
{
    char name[PEER_NAME + 1];
    for (;;) {
        newest_in(path, name);
        int64_t ns = dz_clock_mono_ns() - from_ns;
        if (strcmp(name, before) > 0)
            return (double)ns / 1e6;
        if (ns > 30 * DZ_NS_PER_S)
            return -1;
        (void)nanosleep(&(struct timespec){0, PEER_STEP_NS}, NULL);
    }
}

static int sample_peer(sqlite3 *own, const char *level, double *ret_ms)
{
    char before[PEER_NAME + 1];
    uint64_t dice = 1;
    if (await_newer(level, "", dz_clock_mono_ns()) < 0)
        return -1;
    for (int i = 0; i < PEER_SAMPLES; i++) {
        dice = dice * 6364136223846793005u + 1442695040888963407u;
        int64_t pause = (PEER_PAUSE_MS + (int64_t)(dice >> 33) % PEER_PAUSE_MS) * DZ_NS_PER_MS;
        (void)nanosleep(&(struct timespec){0, pause}, NULL);
        newest_in(level, before);
        if (sqlite3_exec(own, "INSERT INTO t (v) VALUES (randomblob(300))", 0, 0, 0) != SQLITE_OK)
            return -1;
        ret_ms[i] = await_newer(level, before, dz_clock_mono_ns());
        if (ret_ms[i] < 0)
            return -1;
    }
    qsort(ret_ms, PEER_SAMPLES, sizeof *ret_ms, by_size);
    return 0;
}

/* `litestream replicate` of one database to a directory, with its own settings. */
static int lag_of_peer(struct bench *b)
{
    static char replicate[] = "replicate";
    char path[DZ_TEMP_DIR_TEXT + 16], to[DZ_TEMP_DIR_TEXT + 32], level[DZ_TEMP_DIR_TEXT + 32];
    char *argv[] = {litestream, replicate, path, to, NULL};
    double ms[PEER_SAMPLES];
    posix_spawn_file_actions_t quiet;
    sqlite3 *own = NULL;
    pid_t pid = -1;
    (void)snprintf(path, sizeof path, "%s/peer.db", dir);
    (void)snprintf(to, sizeof to, "file://%s/peer", dir);
    (void)snprintf(level, sizeof level, "%s/peer/ltx/0", dir);
    static const char begin[] = "PRAGMA journal_mode=WAL; CREATE TABLE t (v)";
    int rc = sqlite3_open_v2(path, &own, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "unix") ==
                         SQLITE_OK &&
                     sqlite3_exec(own, begin, 0, 0, 0) == SQLITE_OK
                 ? 0
                 : -1;
    if (rc == 0)
        (void)sqlite3_busy_timeout(own, 5000); /* litestream checkpoints */
    (void)posix_spawn_file_actions_init(&quiet);
    (void)posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    (void)posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
    bool runs = rc == 0 && posix_spawn(&pid, litestream, &quiet, NULL, argv, environ) == 0;
    (void)posix_spawn_file_actions_destroy(&quiet);
    rc = runs ? sample_peer(own, level, ms) : -1;
    if (runs && kill(pid, SIGKILL) == 0)
        (void)waitpid(pid, NULL, 0);
    (void)sqlite3_close(own);
    if (rc < 0)
        return rc;
    bench_row(b, &(struct bench_row){
                     .row = "lag, p50, litestream", .value = ms[PEER_SAMPLES / 2], .unit = "ms"});
    bench_row(b, &(struct bench_row){.row = "lag, p99, litestream",
                                     .value = ms[PEER_SAMPLES * 99 / 100],
                                     .unit = "ms"});
    return 0;
}

static int nothing(struct bench *b, void *arg, long count)
{
    (void)b, (void)arg, (void)count;
    return 0;
}

static void measure_lag(bool peer)
{
    static struct bench b;
    struct dz_buf template = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    bench_init(&b, "replica-lag", 1);
    (void)bench_case(&b, "nothing", nothing, NULL, 1);
    bench_run(&b);
    if (dz_db_template(&schema, &template, NULL) < 0 || lag_of(&b, 1, &template) < 0 ||
        lag_of(&b, 100, &template) < 0 || lag_of(&b, SLEEPERS, &template) < 0 || heap_of(&b) < 0 ||
        (peer && lag_of_peer(&b) < 0))
        fprintf(stderr, "bench_replica: the lag could not be measured\n");
    dz_buf_release(&template);
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
    measure_lag(peer);
    if (getenv("LAG_ONLY"))
        return dz_fd_remove_tree(AT_FDCWD, dir, NULL) < 0;
    static char replica[] = "replica", push[] = "push";
    char *first[] = {doze, replica, push, db, url, NULL};
    static struct bench once;
    if (make_database() >= 0 && bench_command(&once, first, 1) >= 0) {
        measure("replica", 3, BENCH_WALL, peer);
        measure("replica-cpu", 3, BENCH_CPU, peer);
    }
    return dz_fd_remove_tree(AT_FDCWD, dir, NULL) < 0;
}

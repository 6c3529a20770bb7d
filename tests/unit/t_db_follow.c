/* SPDX-License-Identifier: MIT
 *
 * A follower of the log (base/follow.h): checkpoints wait for it, a close keeps the log for it, and
 * a log that is given up says whether the follower had all of it.
 */
#include "base/fd.h"
#include "base/follow.h"
#include "db/db.h"
#include "tap.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const steps[] = {"CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB)"};
static const struct dz_db_schema schema = {
    .what = "test", .application_id = 77, .steps = steps, .version = 1};
static struct dz_err err;
static char dir[DZ_TEMP_DIR_TEXT], path[DZ_TEMP_DIR_TEXT + 16], wal[DZ_TEMP_DIR_TEXT + 20];

static void begin(void)
{
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    CHECK_INT(dz_fd_temp_dir("doze-follow", dir, &err), 0);
    (void)snprintf(path, sizeof path, "%s/a.db", dir);
    (void)snprintf(wal, sizeof wal, "%s-wal", path);
    CHECK_INT(dz_db_template(&schema, &t, &err), 0);
    CHECK_INT(dz_db_create_path(path, t.p, t.len, false, &err), 0);
    dz_buf_release(&t);
}

static void end(void)
{
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, dir, &err), 0);
}

/* As the daemon does it: the log exists, and stays. */
static struct dz_db *open_db(int *ret_wal)
{
    struct dz_db *db = NULL;
    int db_fd = open(path, O_RDWR | O_CLOEXEC);
    int wal_fd = open(wal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK_INT(dz_db_open_fds(&db, db_fd, wal_fd, &(struct dz_db_opts){.schema = &schema}, &err), 0);
    *ret_wal = wal_fd;
    return db;
}

static int follower(void)
{
    int fd = open(wal, O_RDONLY | O_CLOEXEC);
    CHECK_INT(dz_follow_begin(fd, &err), 0);
    return fd;
}

static void put(struct dz_db *db)
{
    CHECK_INT(dz_db_exec(db, "INSERT INTO t (v) VALUES (zeroblob(9000))", &err), 0);
}

static uint64_t size_of(const char *name)
{
    struct stat st;
    return stat(name, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* All of the log is in the replica. */
static uint64_t publish(int fd, uint64_t end_at)
{
    uint8_t h[32];
    uint32_t salt[2];
    CHECK_INT(pread(fd, h, sizeof h, 0), sizeof h);
    for (int i = 0; i < 2; i++)
        salt[i] = (uint32_t)h[16 + 4 * i] << 24 | (uint32_t)h[17 + 4 * i] << 16 |
                  (uint32_t)h[18 + 4 * i] << 8 | h[19 + 4 * i];
    dz_follow_publish(fd, salt, end_at);
    return end_at;
}

TEST(a_checkpoint_waits_until_the_follower_has_everything)
{
    int wal_fd, fd;
    begin();
    struct dz_db *db = open_db(&wal_fd);
    fd = follower();
    CHECK(dz_follow_exists(wal_fd));
    put(db);
    uint64_t first = size_of(wal);
    CHECK_INT(dz_db_maintain(db, true, &err), 0);
    (void)publish(fd, first);
    put(db);
    CHECK_INT(dz_db_maintain(db, true, &err), 0); /* it lacks the second commit */
    uint64_t all = publish(fd, size_of(wal));
    CHECK_INT(dz_db_maintain(db, true, &err), 1);
    CHECK_INT(dz_follow_proven(fd), all);
    CHECK(!dz_follow_forced(fd));
    put(db); /* the log begins anew: what was published of the old one does not count */
    CHECK_INT(dz_db_maintain(db, true, &err), 0);
    (void)close(fd);
    CHECK_INT(dz_db_close(db, true, &err), 0);
    end();
}

TEST(a_checkpoint_by_force_is_known_as_such)
{
    int wal_fd, fd;
    begin();
    struct dz_db *db = open_db(&wal_fd);
    fd = follower();
    put(db);
    CHECK_INT(dz_db_checkpoint(db, DZ_DB_CHECKPOINT_MOVE, &err), 0);
    CHECK_INT(dz_follow_proven(fd), 0);
    CHECK(dz_follow_forced(fd));
    int copy = fcntl(wal_fd, F_DUPFD_CLOEXEC, 0);
    CHECK_INT(dz_db_close(db, true, &err), 0);
    CHECK(dz_follow_forced(fd)); /* as long as somebody has a copy of the descriptor */
    dz_follow_forgive(copy);
    CHECK(!dz_follow_forced(fd));
    (void)close(copy);
    (void)close(fd);
    end();
}

TEST(a_close_keeps_the_log_that_the_follower_lacks)
{
    int wal_fd, fd;
    begin();
    struct dz_db *db = open_db(&wal_fd);
    fd = follower();
    put(db);
    CHECK_INT(dz_db_close(db, false, &err), 0);
    CHECK(size_of(wal) > 0);
    db = open_db(&wal_fd); /* nothing is committed: a close can tell how long the log is */
    uint64_t all = publish(fd, size_of(wal));
    int copy = fcntl(wal_fd, F_DUPFD_CLOEXEC, 0);
    CHECK_INT(dz_db_close(db, false, &err), 0);
    CHECK_INT(size_of(wal), 0);
    CHECK_INT(dz_follow_proven(fd), all);
    (void)close(copy);
    CHECK_INT(dz_follow_proven(fd), 0);
    (void)close(fd);
    end();
}

TEST(a_follower_that_died_gets_the_log_when_it_is_back)
{
    int wal_fd, fd;
    begin();
    struct dz_db *db = open_db(&wal_fd);
    fd = follower();
    put(db);
    CHECK_INT(dz_db_maintain(db, true, &err), 0);
    (void)close(fd);
    CHECK_INT(dz_db_maintain(db, true, &err), 0);
    CHECK_INT(dz_db_close(db, false, &err), 0);
    CHECK(size_of(wal) > 0);
    db = open_db(&wal_fd); /* a process that never saw a follower empties the log */
    CHECK_INT(dz_db_close(db, false, &err), 0);
    CHECK_INT(size_of(wal), 0);
    end();
}

/* SPDX-License-Identifier: MIT
 *
 * A registry in a file: opening, refusing, surviving kill -9 and power cuts.
 */
#include "base/buf.h"
#include "base/fd.h"
#include "db/db.h"
#include "db/db_sim.h"
#include "registry/registry_int.h"
#include "tap.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

static char dir[DZ_TEMP_DIR_TEXT], path[DZ_TEMP_DIR_TEXT + 16];

static void make_dir(void)
{
    CHECK_INT(dz_fd_temp_dir("doze-registry", dir, NULL), 0);
    (void)snprintf(path, sizeof path, "%s/r.db", dir);
}

static void remove_dir(void)
{
    (void)chmod(dir, 0700);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, dir, NULL), 0);
}

static int add(struct dz_registry *r, const char *id)
{
    const struct dz_instance row = {.id = id, .tenant = "t", .state = "created", .epoch = 1};
    return dz_registry_create(r, &row, NULL);
}

static int set_state(struct dz_registry *r, const char *id, int64_t version, const char *state,
                     bool durable)
{
    const struct dz_instance to = {.state = state};
    const struct dz_registry_change c = {.id = id,
                                         .version = version,
                                         .epoch = 1,
                                         .set = DZ_COLUMN(state),
                                         .to = &to,
                                         .durable = durable};
    return dz_registry_change(r, &c, NULL);
}

TEST(it_is_made_only_when_asked_for)
{
    struct dz_registry *r = NULL;
    struct dz_err err;
    struct stat st;
    make_dir();
    CHECK_INT(dz_registry_open(path, false, &r, &err), DZ_ENOENT);
    CHECK(strstr(err.msg, path));
    CHECK_INT(dz_registry_open(path, true, &r, &err), 0);
    CHECK_INT(add(r, "a"), 0);
    CHECK_INT(dz_registry_close(r, &err), 0);
    CHECK_INT(stat(path, &st), 0);
    CHECK_INT(st.st_mode & 0777, 0600);
    CHECK_INT(dz_registry_open(path, false, &r, &err), 0);
    struct dz_instance row = {0};
    CHECK_INT(dz_registry_get(r, "a", &row, NULL), 0);
    dz_instance_release(&row);
    CHECK_INT(dz_registry_close(r, &err), 0);
    remove_dir();
}

TEST(a_second_process_is_told)
{
    struct dz_registry *r = NULL, *again = NULL;
    struct dz_err err;
    make_dir();
    CHECK_INT(dz_registry_open(path, true, &r, &err), 0);
    CHECK_INT(dz_registry_open(path, true, &again, &err), DZ_EBUSY);
    CHECK(strstr(err.msg, "registry"));
    CHECK_INT(dz_registry_close(r, &err), 0);
    remove_dir();
}

TEST(what_is_no_registry_is_refused)
{
    static const char *const step = "CREATE TABLE x(a)";
    const struct dz_db_schema other = {"bee hive", 0x42454553, &step, 1, 0};
    /* the registry of a later doze: one step more than ours, however many those are */
    const char *steps[64];
    struct dz_db_schema newer = dz_registry_schema;
    const bool fits = (size_t)newer.version < DZ_ARRAY_LEN(steps);
    CHECK(fits);
    if (!fits)
        return;
    memcpy(steps, newer.steps, (size_t)newer.version * sizeof steps[0]);
    steps[newer.version++] = step;
    newer.steps = steps;
    const struct dz_db_schema *const kinds[] = {&other, &newer};
    make_dir();
    for (size_t i = 0; i < DZ_ARRAY_LEN(kinds); i++) {
        struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
        struct dz_registry *r = NULL;
        struct dz_err err;
        CHECK_INT(dz_db_template(kinds[i], &t, NULL), 0);
        CHECK_INT(dz_db_create_path(path, t.p, t.len, false, NULL), 0);
        CHECK_INT(dz_registry_open(path, true, &r, &err), DZ_ESTATE);
        CHECK(err.msg[0]);
        CHECK_INT(unlink(path), 0);
        dz_buf_release(&t);
    }
    CHECK_INT(dz_fd_replace(AT_FDCWD, path, "not a database at all, no", 25, 0600, NULL), 0);
    struct dz_registry *r = NULL;
    CHECK_INT(dz_registry_open(path, true, &r, NULL), DZ_ECORRUPT);
    CHECK_INT(dz_registry_open("postgres://host/db", true, &r, NULL), DZ_EUNSUPPORTED);
    remove_dir();
}

TEST(an_older_registry_is_brought_up)
{
    struct dz_db_schema old = dz_registry_schema;
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    struct dz_registry *r = NULL;
    struct dz_instance row = {0};
    struct dz_db *db = NULL;
    const struct dz_token_row token = {.id = "tok_1", .tenant = "t", .sha256 = "aa"};
    make_dir();
    old.version = 1;
    const struct dz_db_opts opts = {.schema = &old, .label = "registry"};
    CHECK_INT(dz_db_template(&old, &t, NULL), 0);
    CHECK_INT(dz_db_create_path(path, t.p, t.len, false, NULL), 0);
    CHECK_INT(dz_db_open_path(&db, path, &opts, NULL), 0);
    CHECK_INT(dz_db_exec(db,
                         "INSERT INTO instances(id, tenant, state, updated, version, epoch) "
                         "VALUES('a', 't', 'frozen', 1, 7, 3)",
                         NULL),
              0);
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    CHECK_INT(dz_registry_open(path, false, &r, NULL), 0);
    CHECK_INT(dz_registry_get(r, "a", &row, NULL), 0);
    CHECK_STR(row.state, "frozen");
    CHECK_INT(row.version, 7);
    CHECK_INT(dz_registry_token_add(r, &token, false, NULL), 0);
    dz_instance_release(&row);
    CHECK_INT(dz_registry_close(r, NULL), 0);
    dz_buf_release(&t);
    remove_dir();
}

/* Whatever names a tenant gave: the registry opens, and the newest of a name keeps it. */
TEST(snapshots_with_the_same_name_do_not_keep_an_older_registry_closed)
{
    struct dz_db_schema old = dz_registry_schema;
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    struct dz_registry *r = NULL;
    struct dz_snapshot_row row = {0};
    struct dz_db *db = NULL;
    make_dir();
    old.version = 5;
    const struct dz_db_opts opts = {.schema = &old, .label = "registry"};
    CHECK_INT(dz_db_template(&old, &t, NULL), 0);
    CHECK_INT(dz_db_create_path(path, t.p, t.len, false, NULL), 0);
    CHECK_INT(dz_db_open_path(&db, path, &opts, NULL), 0);
    CHECK_INT(dz_db_exec(db,
                         "INSERT INTO snapshot(id, tenant, version, updated, created, name) VALUES"
                         "('snap_a123456', 't', 1, 1, 1, 'x'), ('snap_b123456', 't', 1, 1, 2, 'x'),"
                         "('snap_c', 't', 1, 1, 3, 'x'), ('snap_d', 't', 1, 1, 4, 'x-123456'),"
                         "('snap_e654321', 't', 1, 1, 5, 'y'), ('snap_f', 't', 1, 1, 6, 'y'),"
                         "('snap_g', 'u', 1, 1, 7, 'x')",
                         NULL),
              0);
    CHECK_INT(dz_db_close(db, false, NULL), 0);
    CHECK_INT(dz_registry_open(path, false, &r, NULL), 0);
    static const struct {
        const char *tenant, *name, *id;
    } want[] = {{"t", "x", "snap_c"},
                {"t", "x-123456", "snap_d"},
                {"t", "y", "snap_f"},
                {"t", "y-654321", "snap_e654321"},
                {"u", "x", "snap_g"}};
    for (size_t i = 0; r && i < DZ_ARRAY_LEN(want); i++) {
        CHECK_INT(dz_registry_snapshot_find(r, want[i].tenant, want[i].name, &row, NULL), 0);
        CHECK_STR(row.id, want[i].id);
        dz_snapshot_row_release(&row);
    }
    CHECK_INT(r ? dz_registry_snapshot_get(r, "t", "snap_a123456", &row, NULL) : DZ_ENOENT, 0);
    dz_snapshot_row_release(&row);
    CHECK_INT(r ? dz_registry_close(r, NULL) : 0, 0);
    dz_buf_release(&t);
    remove_dir();
}

TEST(a_directory_that_cannot_be_written_is_named)
{
    struct dz_registry *r = NULL;
    struct dz_err err;
    make_dir();
    CHECK_INT(chmod(dir, 0500), 0);
    if (getuid() == 0 && seteuid(65534) < 0)
        SKIP("needs another user");
    int rc = dz_registry_open(path, true, &r, &err);
    if (getuid() == 0)
        CHECK_INT(seteuid(0), 0);
    CHECK_INT(rc, DZ_EDENIED);
    CHECK(strstr(err.msg, path));
    remove_dir();
}

TEST(it_is_found_by_option_variables_and_default)
{
    char name[DZ_PATH_MAX];
    CHECK_INT(unsetenv("DOZE_REGISTRY") | unsetenv("WB_REGISTRY"), 0);
    CHECK_INT(dz_registry_locate(NULL, "/data", name, NULL), 0);
    CHECK_STR(name, "/data/registry.db");
    CHECK_INT(setenv("WB_REGISTRY", "/wb", 1), 0);
    CHECK_INT(dz_registry_locate(NULL, "/data", name, NULL), 0);
    CHECK_STR(name, "/wb");
    CHECK_INT(setenv("DOZE_REGISTRY", ":memory:", 1), 0);
    CHECK_INT(dz_registry_locate(NULL, "/data", name, NULL), 0);
    CHECK_STR(name, ":memory:");
    CHECK_INT(dz_registry_locate("/given", "/data", name, NULL), 0);
    CHECK_STR(name, "/given");
    CHECK_INT(setenv("DOZE_REGISTRY", "", 1), 0); /* empty counts as none */
    CHECK_INT(dz_registry_locate(NULL, "/data", name, NULL), 0);
    CHECK_STR(name, "/wb");
}

/* A child changes rows and tells each acknowledged version through a pipe until
 * it is killed; what it told must be there. */
TEST(acknowledged_changes_survive_kill_9)
{
    make_dir();
    for (int round = 0; round < 5; round++) {
        int told[2];
        int64_t version = 0, last = 0;
        CHECK_INT(pipe(told), 0);
        pid_t pid = fork();
        if (pid == 0) {
            struct dz_registry *r = NULL;
            struct dz_instance row = {0};
            if (dz_registry_open(path, true, &r, NULL) < 0)
                _exit(1);
            if (dz_registry_get(r, "a", &row, NULL) < 0 && add(r, "a") < 0)
                _exit(1);
            version = row.version ? row.version : 1;
            for (; set_state(r, "a", version, "active", false) == 0; version++)
                if (write(told[1], &version, sizeof version) != sizeof version)
                    break;
            _exit(1);
        }
        (void)close(told[1]);
        for (int i = 0; i < 100 + 50 * round; i++)
            CHECK_INT(read(told[0], &last, sizeof last), sizeof last);
        CHECK_INT(kill(pid, SIGKILL), 0);
        while (read(told[0], &version, sizeof version) == sizeof version)
            last = version;
        (void)close(told[0]);
        CHECK_INT(waitpid(pid, NULL, 0), pid);
        struct dz_registry *r = NULL;
        struct dz_instance row = {0};
        CHECK_INT(dz_registry_open(path, false, &r, NULL), 0);
        CHECK_INT(dz_registry_get(r, "a", &row, NULL), 0);
        CHECK(row.version == last + 1 || row.version == last + 2);
        CHECK_INT(dz_registry_check(r, NULL), 0);
        dz_instance_release(&row);
        CHECK_INT(dz_registry_close(r, NULL), 0);
    }
    remove_dir();
}

/* Power fails after each change to the disk in turn: every third commit is
 * durable, or flushed after it, and what was acknowledged up to the last of those must be
 * there. */
static void cut_power(bool by_flush)
{
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    bool cut = true;
    CHECK_INT(dz_registry_template(&t, NULL), 0);
    for (long at = 0; cut; at++) {
        struct dz_db_sim *sim = dz_db_sim_new((uint64_t)at + 1);
        struct dz_registry *r = NULL;
        struct dz_instance row = {0};
        int64_t acked = 0, durable = 0;
        CHECK_INT(dz_db_sim_load(sim, DZ_DB_FILE_MAIN, t.p, t.len), 0);
        dz_db_sim_cut_at(sim, at);
        if (dz_registry_open_disk(dz_db_sim_disk(sim), &r, NULL) == 0) {
            if (add(r, "a") == 0)
                acked = 1;
            for (int i = 0; acked && i < 9; i++) {
                if (set_state(r, "a", acked, "active", i % 3 == 2 && !by_flush) < 0)
                    break;
                acked++;
                if (i % 3 == 2 && (!by_flush || dz_registry_flush(r, NULL) == 0))
                    durable = acked;
            }
            (void)dz_registry_close(r, NULL);
        }
        cut = dz_db_sim_is_off(sim);
        CHECK_INT(dz_db_sim_power_on(sim), 0);
        CHECK_INT(dz_registry_open_disk(dz_db_sim_disk(sim), &r, NULL), 0);
        int rc = dz_registry_get(r, "a", &row, NULL);
        CHECK(rc == 0 || durable == 0);
        CHECK(row.version >= durable && row.version <= acked + 1);
        CHECK_INT(dz_registry_check(r, NULL), 0);
        dz_instance_release(&row);
        CHECK_INT(dz_registry_close(r, NULL), 0);
        dz_db_sim_free(sim);
        CHECK(at < 500);
    }
    dz_buf_release(&t);
}

TEST(durable_changes_survive_power_cuts)
{
    cut_power(false);
}

/* --- a full disk ------------------------------------------------------------------- */

enum {
    STEP = 4096,
};
struct reserve {
    struct dz_db_sim *sim;
    int64_t capacity;
    int steps, used;
};

static bool give_step(void *arg)
{
    struct reserve *r = arg;
    if (r->steps == 0)
        return false;
    r->steps--;
    r->used++;
    r->capacity += STEP;
    dz_db_sim_set_capacity(r->sim, r->capacity);
    return true;
}

static void change_all(struct dz_registry *r, int want)
{
    const struct dz_registry_event event = {.tenant = "t", .what = "told"};
    int64_t seq, version = 1;
    int rc = set_state(r, "a", version, "active", false);
    CHECK_INT(rc, want);
    version += rc == 0;
    CHECK_INT(dz_registry_note(r, &event, &seq, NULL), want);
    CHECK_INT(add(r, "b"), want);
    CHECK_INT(dz_registry_erase(r, "a", version, 1, NULL), want);
    CHECK_INT(dz_registry_check(r, NULL), 0);
}

TEST(on_a_full_disk_every_change_is_made_by_the_reserve_or_refused)
{
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    int used_some = 0;
    CHECK_INT(dz_registry_template(&t, NULL), 0);
    for (int64_t left = 0; left < 40 * STEP; left += STEP / 4) {
        struct reserve reserve = {.sim = dz_db_sim_new((uint64_t)left + 1), .steps = 100};
        struct dz_registry *r = NULL;
        size_t main_bytes, log_bytes;
        CHECK_INT(dz_db_sim_load(reserve.sim, DZ_DB_FILE_MAIN, t.p, t.len), 0);
        CHECK_INT(dz_registry_open_disk(dz_db_sim_disk(reserve.sim), &r, NULL), 0);
        CHECK_INT(add(r, "a"), 0);
        (void)dz_db_sim_bytes(reserve.sim, DZ_DB_FILE_MAIN, &main_bytes);
        (void)dz_db_sim_bytes(reserve.sim, DZ_DB_FILE_WAL, &log_bytes);
        reserve.capacity = (int64_t)(main_bytes + log_bytes) + left;
        dz_db_sim_set_capacity(reserve.sim, reserve.capacity);
        if (left == 0)
            change_all(r, DZ_ENOSPC); /* without a reserve */
        dz_registry_on_full(r, give_step, &reserve);
        change_all(r, 0);
        used_some += reserve.used > 0;
        CHECK(reserve.steps > 0);
        CHECK_INT(dz_registry_close(r, NULL), 0);
        dz_db_sim_free(reserve.sim);
    }
    CHECK(used_some > 10);
    dz_buf_release(&t);
}

TEST(what_was_flushed_survives_power_cuts)
{
    cut_power(true);
}

static void *flush_often(void *arg)
{
    int failed = 0;
    for (int i = 0; i < 50; i++)
        failed += dz_registry_flush(arg, NULL) < 0;
    return failed ? arg : NULL;
}

TEST(another_thread_may_flush_meanwhile)
{
    struct dz_registry *r = NULL;
    pthread_t thread;
    void *failed;
    make_dir();
    CHECK_INT(dz_registry_open(path, true, &r, NULL), 0);
    CHECK_INT(add(r, "a"), 0);
    CHECK_INT(pthread_create(&thread, NULL, flush_often, r), 0);
    for (int i = 1; i <= 2000; i++)
        CHECK_INT(set_state(r, "a", i, "active", false), 0);
    CHECK_INT(pthread_join(thread, &failed), 0);
    CHECK(failed == NULL);
    CHECK_INT(dz_registry_check(r, NULL), 0);
    CHECK_INT(dz_registry_close(r, NULL), 0);
    remove_dir();
}

/* SPDX-License-Identifier: MIT
 * The disk as a whole: format, image, quota, watches, locks, attributes, listing, view, check. */
#include "../lib/vfs_rig.h"
#include "tap.h"

#include <sys/xattr.h>

static struct rig r;

TEST(an_empty_disk_has_ten_pages_and_passes_the_check)
{
    r = rig_make(1);
    size_t size = 0;
    (void)dz_db_sim_bytes(r.sim, DZ_DB_FILE_MAIN, &size);
    CHECK_INT(size, 40960);
    CHECK_INT(rig_open(&r), 0);
    const struct dz_vfs_check_opts o = {.db = r.db};
    uint64_t count = 9;
    CHECK_INT(dz_vfs_check(&o, &count, NULL), 0);
    CHECK_INT(count, 0);
    rig_free(&r);
}

/* ---- the image ------------------------------------------------------------------------ */

TEST(an_image_must_be_the_right_one)
{
    r = rig_make(1);
    rig_put_below(&r);
    r.image_fd = -1;
    struct dz_db_sim *image = r.image_sim;
    r.image_sim = NULL;
    CHECK_INT(rig_open(&r), DZ_ENOENT);
    CHECK(strstr(r.err.msg, RIG_SHA) != NULL);
    r.image_sim = image;
    CHECK_INT(rig_open(&r), 0);
    CHECK_INT(rig_close(&r), 0);
    /* the same image under another name */
    struct dz_err err = {0};
    const struct dz_db_opts disk = {.schema = &dz_vfs_schema};
    struct dz_db *db = NULL;
    CHECK_INT(dz_db_open_disk(&db, dz_db_sim_disk(r.sim), &disk, &err), 0);
    struct dz_vfs *v = NULL;
    struct dz_vfs_opts o = {.db = db, .image = r.image, .image_sha256 = "abc"};
    CHECK_INT(dz_vfs_open(&o, &v, &err), DZ_ECORRUPT);
    o.image_sha256 = NULL;
    CHECK_INT(dz_vfs_open(&o, &v, &err), DZ_ECORRUPT);
    CHECK_INT(dz_vfs_bind_image(db, RIG_SHA, &err), 0);
    char sha[] = RIG_SHA;
    sha[0] = 'f';
    CHECK_INT(dz_vfs_bind_image(db, sha, &err), DZ_ESTATE);
    CHECK_INT(dz_vfs_bind_image(db, "short", &err), DZ_EINVAL);
    CHECK_INT(dz_db_close(db, false, &err), 0);
    rig_free(&r);
}

TEST(a_disk_with_files_gets_no_image)
{
    rig_start(&r);
    CHECK_INT(rig_put(&r, "/workspace/f", "x", 1), 0);
    CHECK_INT(dz_vfs_commit(r.v, NULL), 0);
    CHECK_INT(dz_vfs_bind_image(r.db, RIG_SHA, &r.err), DZ_ESTATE);
    rig_free(&r);
}

TEST(an_image_is_never_written)
{
    rig_start(&r);
    CHECK_INT(rig_put(&r, "/workspace/f", "below", 5), 0);
    CHECK_INT(rig_mkdir(&r, "/workspace/d"), 0);
    CHECK_INT(rig_close(&r), 0);
    rig_put_below(&r);
    CHECK_INT(rig_open(&r), 0);
    uint64_t ino = rig_ino(&r, "/workspace/f");
    CHECK_INT(dz_vfs_link(r.v, ino, DZ_VFS_TMP, "l", 1), 0);
    CHECK_INT(rig_put(&r, "/workspace/f", "above", 5), 0);
    CHECK_INT(dz_vfs_rmdir_at(r.v, &rig_root, rig_path("/workspace/d")), 0);
    CHECK_INT(dz_vfs_commit(r.v, NULL), 0);
    CHECK_INT(rig_ino(&r, "/tmp/l"), ino); /* the number stays */
    size_t n = 0;
    char *p = rig_get(&r, "/tmp/l", &n);
    CHECK_STR(p ? p : "", "above");
    dz_free(p);
    CHECK_INT(dz_db_sim_calls(r.image_sim, 1u << DZ_DB_SIM_WRITE | 1u << DZ_DB_SIM_TRUNCATE), 0);
    rig_free(&r);
}

/* ---- quota ------------------------------------------------------------------------------ */

TEST(quota_ends_writing_but_not_removing)
{
    static char big[100000];
    rig_start(&r);
    dz_vfs_set_limits(r.v, 100000, 8);
    memset(big, 'q', sizeof big);
    CHECK_INT(rig_put(&r, "/tmp/a", big, 60000), 0);
    uint64_t ino = 0;
    CHECK_INT(dz_vfs_open_at(r.v, &rig_root, rig_path("/tmp/b"), O_CREAT | O_WRONLY, 0644, &ino),
              0);
    ssize_t n = dz_vfs_write(r.v, ino, 0, big, sizeof big);
    CHECK_INT(n, DZ_VFS_CHUNK); /* what fits, as write(2) */
    CHECK_INT(dz_vfs_write(r.v, ino, (uint64_t)n, big, sizeof big), -EDQUOT);
    CHECK_INT(dz_vfs_write(r.v, ino, 0, big, 100), 100); /* in place */
    struct dz_vfs_usage u;
    dz_vfs_usage(r.v, &u);
    CHECK_INT(u.bytes, 60000 + DZ_VFS_CHUNK);
    CHECK_INT(u.inodes, 6);
    CHECK_INT(rig_mkdir(&r, "/tmp/c"), 0);
    CHECK_INT(rig_mkdir(&r, "/tmp/d"), 0);
    CHECK_INT(rig_mkdir(&r, "/tmp/e"), -EDQUOT);
    CHECK_INT(dz_vfs_unlink_at(r.v, &rig_root, rig_path("/tmp/a")), 0);
    CHECK_INT(rig_mkdir(&r, "/tmp/e"), 0);
    CHECK_INT(dz_vfs_setxattr(r.v, ino, "user.x", big, 65000, 0), 0);
    CHECK_INT(dz_vfs_setxattr(r.v, ino, "user.y", big, 65000, 0), -EDQUOT);
    dz_vfs_unref(r.v, ino);
    CHECK_INT(dz_vfs_clear(r.v, DZ_VFS_TMP), 0);
    dz_vfs_usage(r.v, &u);
    CHECK_INT(u.bytes, 0);
    CHECK_INT(u.inodes, 4);
    rig_free(&r);
}

/* ---- extended attributes -------------------------------------------------------------------- */

TEST(xattrs_say_what_is_wrong)
{
    rig_start(&r);
    char buf[16], name[300] = "user.";
    const uint64_t ino = DZ_VFS_TMP;
    memset(name + 5, 'n', sizeof name - 6);
    CHECK_INT(dz_vfs_setxattr(r.v, ino, "plain", "v", 1, 0), -EOPNOTSUPP);
    CHECK_INT(dz_vfs_setxattr(r.v, ino, "user.", "v", 1, 0), -EINVAL);
    CHECK_INT(dz_vfs_setxattr(r.v, ino, name, "v", 1, 0), -ERANGE);
    CHECK_INT(dz_vfs_setxattr(r.v, ino, "user.a", "v", DZ_VFS_XATTR_MAX + 1, 0), -E2BIG);
    CHECK_INT(dz_vfs_setxattr(r.v, ino, "user.a", "v", 1, XATTR_REPLACE), -ENODATA);
    CHECK_INT(dz_vfs_setxattr(r.v, ino, "user.a", "value", 5, XATTR_CREATE), 0);
    CHECK_INT(dz_vfs_setxattr(r.v, ino, "user.a", "v", 1, XATTR_CREATE), -EEXIST);
    CHECK_INT(dz_vfs_getxattr(r.v, ino, "user.a", NULL, 0), 5);
    CHECK_INT(dz_vfs_getxattr(r.v, ino, "user.a", buf, 4), -ERANGE);
    CHECK_INT(dz_vfs_getxattr(r.v, ino, "user.b", buf, 4), -ENODATA);
    CHECK_INT(dz_vfs_listxattr(r.v, ino, buf, sizeof buf), 7);
    CHECK_STR(buf, "user.a");
    CHECK_INT(dz_vfs_listxattr(r.v, ino, buf, 6), -ERANGE);
    CHECK_INT(dz_vfs_removexattr(r.v, ino, "user.a"), 0);
    CHECK_INT(dz_vfs_removexattr(r.v, ino, "user.a"), -ENODATA);
    CHECK_INT(dz_vfs_setxattr(r.v, ino, "user.empty", NULL, 0, 0), 0);
    CHECK_INT(dz_vfs_getxattr(r.v, ino, "user.empty", buf, sizeof buf), 0);
    rig_free(&r);
}

/* ---- locks -------------------------------------------------------------------------------------
 */

static struct dz_vfs_lock range(uint64_t owner, uint64_t start, uint64_t end, bool exclusive)
{
    return (struct dz_vfs_lock){
        .ino = 9, .owner = owner, .start = start, .end = end, .exclusive = exclusive};
}

TEST(locks_split_merge_and_stand_in_the_way)
{
    rig_start(&r);
    struct dz_vfs_lock a = range(1, 0, 99, true), b = range(2, 50, 60, false), got;
    CHECK_INT(dz_vfs_lock(r.v, &a), 0);
    CHECK_INT(dz_vfs_lock(r.v, &b), -EAGAIN);
    CHECK_INT(dz_vfs_lock_test(r.v, &b, &got), 1);
    CHECK_INT(got.owner, 1);
    a = range(1, 40, 70, false); /* the middle becomes shared: three locks */
    CHECK_INT(dz_vfs_lock(r.v, &a), 0);
    CHECK_INT(dz_vfs_lock_at(r.v, 2, &got), 1);
    CHECK_INT(dz_vfs_lock_at(r.v, 3, &got), 0);
    CHECK_INT(dz_vfs_lock(r.v, &b), 0);
    b = range(2, 50, 71, false);
    CHECK_INT(dz_vfs_lock(r.v, &b), -EAGAIN);
    a = range(1, 0, UINT64_MAX, false); /* all shared again: one lock */
    CHECK_INT(dz_vfs_lock(r.v, &a), 0);
    CHECK_INT(dz_vfs_lock(r.v, &b), 0);
    a = range(1, 10, 20, false);
    CHECK_INT(dz_vfs_unlock(r.v, &a), 0);
    struct dz_vfs_lock c = range(3, 10, 20, true);
    CHECK_INT(dz_vfs_lock(r.v, &c), 0);
    c.flock = true;
    c.owner = 4;
    CHECK_INT(dz_vfs_lock(r.v, &c), 0); /* another family */
    dz_vfs_lock_drop(r.v, 1, 0);
    dz_vfs_lock_drop(r.v, 2, 9);
    dz_vfs_lock_drop(r.v, 3, 9);
    CHECK_INT(dz_vfs_lock_at(r.v, 1, &got), 0);
    CHECK_INT(dz_vfs_lock_at(r.v, 0, &got), 1);
    CHECK_INT(got.owner, 4);
    a = range(1, 5, 4, true);
    CHECK_INT(dz_vfs_lock(r.v, &a), -EINVAL);
    a = range(6, 0, 99, true);
    int rc = dz_vfs_lock(r.v, &a);
    for (uint64_t i = 100; rc == 0 && i < 2 * DZ_VFS_LOCK_MAX; i++) {
        a = range(5, i * 2, i * 2, true);
        rc = dz_vfs_lock(r.v, &a);
    }
    CHECK_INT(rc, -ENOLCK);
    CHECK_INT(dz_vfs_lock_at(r.v, DZ_VFS_LOCK_MAX - 2, &got), 1); /* all but one are there */
    CHECK_INT(dz_vfs_lock_at(r.v, DZ_VFS_LOCK_MAX - 1, &got), 0);
    a = range(6, 40, 50, true); /* the last row goes to the other half of this one */
    CHECK_INT(dz_vfs_unlock(r.v, &a), 0);
    a = range(6, 60, 61, true);
    CHECK_INT(dz_vfs_unlock(r.v, &a), -ENOLCK);
    a = range(5, 0, UINT64_MAX, true); /* this needs none, and gives */
    CHECK_INT(dz_vfs_unlock(r.v, &a), 0);
    a = range(5, 200, 299, true);
    CHECK_INT(dz_vfs_lock(r.v, &a), 0);
    rig_free(&r);
}

/* ---- watches
 * --------------------------------------------------------------------------------------- */

static uint32_t expect(int w, enum dz_vfs_event_type type, const char *name)
{
    struct dz_vfs_event ev = {0};
    CHECK_INT(dz_vfs_watch_next(r.v, w, &ev), 1);
    CHECK_INT(ev.type, type);
    CHECK_STR(ev.name, name);
    return ev.cookie;
}

static int notified;
static void on_event(void *arg)
{
    (void)arg;
    notified++;
}

TEST(a_watch_tells_of_its_subtree)
{
    rig_start(&r);
    struct dz_vfs_event ev;
    CHECK_INT(rig_mkdir(&r, "/workspace/d"), 0);
    int deep = dz_vfs_watch(r.v, DZ_VFS_WORKSPACE, DZ_VFS_EV_ALL, true);
    int flat = dz_vfs_watch(r.v, DZ_VFS_WORKSPACE, DZ_VFS_EV_CREATE, false);
    dz_vfs_watch_notify(r.v, on_event, NULL);
    CHECK_INT(rig_put(&r, "/workspace/d/f", "1", 1), 0);
    CHECK_INT(rig_put(&r, "/tmp/f", "1", 1), 0);
    CHECK_INT(dz_vfs_chmod_at(r.v, &rig_root, rig_path("/workspace/d/f"), 0600), 0);
    CHECK_INT(
        dz_vfs_rename_at(r.v, &rig_root, rig_path("/workspace/d/f"), rig_path("/workspace/g"), 0),
        0);
    CHECK_INT(dz_vfs_rename_at(r.v, &rig_root, rig_path("/workspace/g"), rig_path("/tmp/g"), 0), 0);
    CHECK_INT(dz_vfs_rmdir_at(r.v, &rig_root, rig_path("/workspace/d")), 0);
    CHECK_INT(expect(deep, DZ_VFS_EV_CREATE, "f"), 0);
    CHECK_INT(expect(deep, DZ_VFS_EV_WRITE, "f"), 0);
    CHECK_INT(expect(deep, DZ_VFS_EV_ATTR, "f"), 0);
    uint32_t first = expect(deep, DZ_VFS_EV_MOVED_FROM, "f");
    CHECK_INT(expect(deep, DZ_VFS_EV_MOVED_TO, "g"), first); /* both ends of one rename */
    CHECK(expect(deep, DZ_VFS_EV_MOVED_FROM, "g") != first); /* another rename */
    CHECK_INT(expect(deep, DZ_VFS_EV_REMOVE, "d"), 0);
    CHECK_INT(dz_vfs_watch_next(r.v, deep, &ev), 0);
    CHECK_INT(dz_vfs_watch_next(r.v, flat, &ev), 0);
    CHECK_INT(notified, 1);
    for (int i = 0; i < DZ_VFS_EVENT_MAX + 100; i++) {
        char path[40];
        (void)snprintf(path, sizeof path, "/workspace/n%d", i);
        CHECK_INT(rig_put(&r, path, "", 0), 0);
    }
    int n = 0, last = 0;
    while (dz_vfs_watch_next(r.v, deep, &ev) == 1) {
        n++;
        last = (int)ev.type;
    }
    CHECK_INT(n, DZ_VFS_EVENT_MAX);
    CHECK_INT(last, DZ_VFS_EV_OVERFLOW);
    dz_vfs_unwatch(r.v, deep);
    CHECK_INT(dz_vfs_watch_next(r.v, deep, &ev), -EINVAL);
    rig_free(&r);
}

TEST(a_watch_names_a_file_that_was_moved_or_found_by_number)
{
    rig_start(&r);
    CHECK_INT(rig_put(&r, "/workspace/f", "1", 1), 0);
    uint64_t ino = rig_ino(&r, "/workspace/f");
    CHECK_INT(dz_vfs_link(r.v, ino, DZ_VFS_TMP, "second", 6), 0);
    CHECK_INT(rig_close(&r), 0);
    CHECK_INT(rig_open(&r), 0);
    int w = dz_vfs_watch(r.v, DZ_VFS_ROOT, DZ_VFS_EV_ALL, true);
    CHECK_INT(dz_vfs_write(r.v, ino, 0, "2", 1), 1); /* as a thawed machine writes */
    struct dz_vfs_event ev = {0};
    CHECK_INT(dz_vfs_watch_next(r.v, w, &ev), 1);
    CHECK(strcmp(ev.name, "f") == 0 || strcmp(ev.name, "second") == 0);
    rig_free(&r);
}

/* ---- listing
 * ------------------------------------------------------------------------------------------ */

enum {
    MANY = 3000
};
static int seen[2 * MANY];
static struct {
    uint64_t cookie;
    int left, total;
} listing;

static int see(void *arg, const struct dz_vfs_entry *e)
{
    int i = -1;
    (void)arg;
    if (listing.left-- == 0)
        return 1;
    listing.cookie = e->cookie;
    listing.total++;
    char name[256] = "";
    memcpy(name, e->name, e->len);
    if (sscanf(name, "f%d", &i) == 1 && i >= 0 && i < 2 * MANY)
        seen[i]++;
    return 0;
}

/* Entries that are there all the time come once, while others come and go, caches are
 * dropped and the disk is opened again. */
TEST(a_listing_goes_on_after_changes)
{
    rig_start(&r);
    char path[40];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(path, sizeof path, "/tmp/f%d", i);
        CHECK_INT(rig_put(&r, path, "", 0), 0);
    }
    int before = -1, round = 0, removed = 0;
    while (listing.total != before) {
        before = listing.total;
        listing.left = 70;
        CHECK_INT(dz_vfs_readdir(r.v, DZ_VFS_TMP, listing.cookie, see, NULL), 0);
        for (int i = 0; i < 20 && removed < MANY; i++, removed += 2) { /* even ones go */
            (void)snprintf(path, sizeof path, "/tmp/f%d", removed);
            CHECK_INT(dz_vfs_unlink_at(r.v, &rig_root, rig_path(path)), 0);
        }
        (void)snprintf(path, sizeof path, "/tmp/f%d", MANY + round);
        CHECK_INT(rig_put(&r, path, "", 0), 0);
        if (++round % 5 == 0)
            dz_vfs_trim(r.v);
        if (round % 17 == 0) {
            CHECK_INT(rig_close(&r), 0);
            CHECK_INT(rig_open(&r), 0);
        }
    }
    int wrong = 0;
    for (int i = 0; i < MANY; i++)
        wrong += i % 2 ? seen[i] != 1 : seen[i] > 1;
    CHECK_INT(wrong, 0);
    rig_free(&r);
}

/* Two directories that lie in each other: nothing that walks down may go on for ever. */
static void make_circle(void)
{
    static const char sql[] =
        "UPDATE node SET rdev=(SELECT ino FROM dentry WHERE name=CAST('b' AS BLOB))"
        "WHERE ino=(SELECT ino FROM dentry WHERE name=CAST('a' AS BLOB));"
        "INSERT INTO dentry SELECT ino,CAST('back' AS BLOB),"
        "(SELECT ino FROM dentry WHERE name=CAST('a' AS BLOB)),4 FROM dentry "
        "WHERE name=CAST('b' AS BLOB)";
    rig_start(&r);
    CHECK_INT(rig_mkdir(&r, "/workspace/a"), 0);
    CHECK_INT(rig_mkdir(&r, "/workspace/a/b"), 0);
    CHECK_INT(rig_put(&r, "/workspace/a/b/f", "x", 1), 0);
    CHECK_INT(dz_vfs_commit(r.v, &r.err), 0);
    CHECK_INT(dz_db_exec(r.db, sql, &r.err), 0);
    CHECK_STR(r.err.msg, "");
    rig_crash(&r);
}

TEST(directories_that_lie_in_each_other_are_not_removed_for_ever)
{
    make_circle();
    CHECK_INT(rig_open(&r), 0);
    CHECK_INT(dz_vfs_remove_tree(r.v, DZ_VFS_WORKSPACE, "a", 1), -EIO);
    CHECK_INT(dz_vfs_clear(r.v, DZ_VFS_WORKSPACE), -EIO);
    rig_free(&r);
}

TEST(notes_of_a_hostile_disk_are_not_followed)
{
    static const char *const notes[] = {
        "INSERT OR REPLACE INTO meta SELECT 'untar',ino FROM dentry WHERE parent=5",
        "UPDATE dentry SET name=CAST('.doze-untar' AS BLOB)WHERE parent=5",
        "INSERT OR REPLACE INTO meta VALUES('untar',2)",
        "INSERT OR REPLACE INTO meta VALUES('untar',-9223372036854775808)",
        "INSERT OR REPLACE INTO meta VALUES('untar','text')",
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(notes); i++) {
        make_circle();
        const struct dz_db_opts o = {.schema = &dz_vfs_schema};
        CHECK_INT(dz_db_open_disk(&r.db, dz_db_sim_disk(r.sim), &o, &r.err), 0);
        CHECK_INT(dz_db_exec(r.db, notes[0], &r.err), 0);
        CHECK_INT(dz_db_exec(r.db, notes[i], &r.err), 0);
        CHECK_INT(dz_db_close(r.db, false, &r.err), 0);
        r.db = NULL;
        CHECK_INT(rig_open(&r), 0);
        CHECK(rig_ino(&r, "/workspace/a") != 0);
        rig_free(&r);
    }
}

/* ---- for people: the view
 * ------------------------------------------------------------------------------- */

TEST(the_view_shows_files_with_their_content)
{
    static char big[100000];
    rig_start(&r);
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(i * 7);
    CHECK_INT(rig_mkdir(&r, "/workspace/d"), 0);
    CHECK_INT(rig_put(&r, "/workspace/d/big", big, sizeof big), 0);
    CHECK_INT(rig_put(&r, "/memory/note", "text\n", 5), 0);
    uint64_t ino = rig_ino(&r, "/workspace/d/big");
    CHECK_INT(dz_vfs_punch(r.v, ino, 40000, 40000), 0);
    memset(big + 40000, 0, 40000);
    CHECK_INT(rig_close(&r), 0);
    const struct dz_db_opts o = {.schema = &dz_vfs_schema, .views = true};
    CHECK_INT(dz_db_open_disk(&r.db, dz_db_sim_disk(r.sim), &o, &r.err), 0);
    struct dz_stmt *st =
        dz_db_stmt(r.db, "SELECT volume,path,content,mtime>0 FROM vfs ORDER BY volume");
    size_t n = 0;
    CHECK_INT(dz_stmt_step(st, &r.err), 1);
    CHECK_STR(r.err.msg, "");
    CHECK_STR(dz_col_text(st, 0), "memory");
    CHECK_STR(dz_col_text(st, 1), "note");
    CHECK(memcmp(dz_col_blob(st, 2, &n), "text\n", 5) == 0 && n == 5);
    CHECK_INT(dz_stmt_step(st, NULL), 1);
    CHECK_STR(dz_col_text(st, 1), "d/big");
    const void *p = dz_col_blob(st, 2, &n);
    CHECK_INT(n, sizeof big);
    CHECK(n == sizeof big && memcmp(p, big, n) == 0);
    CHECK_INT(dz_col_int(st, 3), 1);
    dz_stmt_reset(st);
    rig_free(&r);
}

/* Does the view have exactly this file? */
static void check_shown(struct dz_db *db, const char *path, const void *want, size_t want_n)
{
    struct dz_stmt *st = dz_db_stmt(db, "SELECT content FROM vfs WHERE path=?1");
    size_t n = 0;
    dz_bind_text(st, 1, path);
    CHECK_INT(dz_stmt_step(st, &r.err), want ? 1 : 0);
    CHECK_STR(r.err.msg, "");
    const void *p = want ? dz_col_blob(st, 0, &n) : NULL;
    if (want && (n != want_n || (n && memcmp(p, want, n) != 0))) {
        printf("# %s: %zu bytes, or others than expected\n", path, n);
        tap_bad++;
    }
    if (want)
        CHECK_INT(dz_stmt_step(st, &r.err), 0);
    dz_stmt_reset(st);
}

TEST(the_view_of_a_disk_over_an_image_shows_both)
{
    static char big[100000], above[100000];
    struct dz_vfs_attr a = {.size = 70000};
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(i * 7);
    memcpy(above, big, sizeof big);
    rig_start(&r);
    CHECK_INT(rig_mkdir(&r, "/workspace/d"), 0);
    CHECK_INT(rig_put(&r, "/workspace/d/big", big, sizeof big), 0);
    CHECK_INT(rig_put(&r, "/workspace/d/cut", big, sizeof big), 0);
    CHECK_INT(rig_put(&r, "/workspace/d/gone", "x", 1), 0);
    CHECK_INT(rig_put(&r, "/memory/low", "low", 3), 0);
    CHECK_INT(rig_put(&r, "/memory/low2", "low2", 4), 0);
    CHECK_INT(rig_close(&r), 0);
    rig_put_below(&r);
    CHECK_INT(rig_open(&r), 0);
    uint64_t ino = rig_ino(&r, "/workspace/d/big"), cut = rig_ino(&r, "/workspace/d/cut");
    CHECK_INT(dz_vfs_write(r.v, ino, 40000, "above", 5), 5);
    memcpy(above + 40000, "above", 5);
    CHECK_INT(dz_vfs_setattr(r.v, cut, DZ_VFS_SET_SIZE, &a), 0);
    a.size = sizeof big;
    CHECK_INT(dz_vfs_setattr(r.v, cut, DZ_VFS_SET_SIZE, &a), 0);
    memset(big + 70000, 0, 30000);
    CHECK_INT(dz_vfs_unlink_at(r.v, &rig_root, rig_path("/workspace/d/gone")), 0);
    CHECK_INT(
        dz_vfs_rename_at(r.v, &rig_root, rig_path("/workspace/d"), rig_path("/workspace/e"), 0), 0);
    CHECK_INT(rig_put(&r, "/memory/low2", "high", 4), 0);
    CHECK_INT(rig_put(&r, "/tmp/short", "s", 1), 0);
    a.size = 5;
    CHECK_INT(dz_vfs_setattr(r.v, rig_ino(&r, "/tmp/short"), DZ_VFS_SET_SIZE, &a), 0);
    CHECK_INT(rig_close(&r), 0);
    const struct dz_db_opts o = {.schema = &dz_vfs_schema, .views = true};
    CHECK_INT(dz_db_open_disk(&r.db, dz_db_sim_disk(r.sim), &o, &r.err), 0);
    CHECK_INT(dz_vfs_sql_over(r.db, r.image, "0000", &r.err), DZ_ECORRUPT);
    CHECK(strstr(r.err.msg, "needs the image"));
    r.err = (struct dz_err){0};
    CHECK_INT(dz_vfs_sql_over(r.db, r.image, RIG_SHA, &r.err), 0);
    CHECK_STR(r.err.msg, "");
    dz_db_restrict(r.db, 0);
    check_shown(r.db, "e/big", above, sizeof above);
    check_shown(r.db, "e/cut", big, sizeof big);
    check_shown(r.db, "d/big", NULL, 0);
    check_shown(r.db, "e/gone", NULL, 0);
    check_shown(r.db, "low", "low", 3);
    check_shown(r.db, "low2", "high", 4);
    check_shown(r.db, "short", "s\0\0\0", 5);
    CHECK_INT(dz_db_exec(r.db, "ATTACH ':memory:' AS more", &r.err), DZ_EDENIED);
    CHECK_INT(dz_db_exec(r.db, "DELETE FROM image.node", &r.err), DZ_EDENIED);
    rig_free(&r);
}

TEST(volumes_have_names_and_one_is_public)
{
    rig_start(&r);
    uint64_t volume = 0;
    CHECK_INT(rig_mkdir(&r, "/memory/d"), 0);
    CHECK_INT(dz_vfs_volume_of(r.v, rig_ino(&r, "/memory/d"), &volume), 0);
    CHECK_INT(volume, DZ_VFS_MEMORY);
    CHECK_STR(dz_vfs_volume_name(DZ_VFS_TMP), "tmp");
    CHECK(dz_vfs_volume_public(DZ_VFS_WORKSPACE) && !dz_vfs_volume_public(DZ_VFS_MEMORY));
    CHECK(!dz_vfs_volume_public(DZ_VFS_TMP) && !dz_vfs_volume_public(DZ_VFS_ROOT));
    CHECK_INT(dz_vfs_clear(r.v, DZ_VFS_ROOT), -EINVAL);
    rig_free(&r);
}

TEST(a_disk_opened_for_reading_refuses_changes)
{
    rig_start(&r);
    CHECK_INT(rig_put(&r, "/tmp/f", "x", 1), 0);
    CHECK_INT(rig_close(&r), 0);
    r.opts.readonly = true;
    CHECK_INT(rig_open(&r), 0);
    CHECK_INT(rig_mkdir(&r, "/tmp/d"), -EROFS);
    CHECK_INT(rig_put(&r, "/tmp/f", "y", 1), -EROFS);
    CHECK_INT(dz_vfs_unlink_at(r.v, &rig_root, rig_path("/tmp/f")), -EROFS);
    CHECK_INT(dz_vfs_setxattr(r.v, DZ_VFS_TMP, "user.a", "v", 1, 0), -EROFS);
    CHECK_INT(dz_vfs_clear(r.v, DZ_VFS_TMP), -EROFS);
    rig_free(&r);
}

/* ---- the check finds damage
 * ------------------------------------------------------------------------------- */

static bool found;
static void on_damage(void *arg, const struct dz_vfs_damage *d)
{
    found = found || (arg && strcmp(d->what, *(const char **)arg) == 0);
}

TEST(the_check_names_each_damage)
{
    static const struct {
        const char *sql, *what;
    } cases[] = {
        {"UPDATE node SET nlink=7 WHERE ino=5", "nlink"},
        {"UPDATE node SET nlink=9 WHERE ino=2", "nlink"},
        {"DELETE FROM node WHERE ino=5", "dentry"},
        {"DELETE FROM dentry WHERE ino=5", "orphan"},
        {"DELETE FROM dentry WHERE ino=4", "nlink"},
        {"UPDATE dentry SET type=4 WHERE ino=5", "dentry"},
        {"UPDATE node SET rdev=4 WHERE ino=6", "parent"},
        {"UPDATE node SET size=10 WHERE ino=7", "chunk"},
        {"UPDATE node SET size=size-1 WHERE ino=7", "chunk"},
        {"UPDATE node SET mode=0 WHERE ino=5", "node"},
        {"UPDATE node SET base_size=4 WHERE ino=7", "node"},
        {"INSERT INTO chunk VALUES(5<<24,x'00')", "chunk"},
        {"INSERT INTO chunk VALUES(99<<24,x'00')", "chunk"},
        {"INSERT INTO xattr VALUES(99,'user.a','v')", "xattr"},
        {"INSERT INTO dentry VALUES(99,x'78',5,8)", "dentry"},
        {"INSERT INTO dentry VALUES(2,x'68',0,0)", "dentry"},
        {"INSERT INTO dentry VALUES(6,x'7570',6,4)", "cycle"},
        {"INSERT INTO dentry VALUES(2,x'612F62',5,8)", "dentry"},
        {"INSERT INTO dentry VALUES(2,'text',5,8)", "dentry"},
        {"UPDATE meta SET v=v+1 WHERE k='used_bytes'", "counters"},
        {"UPDATE meta SET v=1 WHERE k='chunk'", "disk"},
        {"DELETE FROM node WHERE ino=1", "disk"},
    };
    static char big[70000];
    memset(big, 'x', sizeof big);
    rig_start(&r);
    CHECK_INT(rig_put(&r, "/workspace/small", "abc", 3), 0);      /* 5 */
    CHECK_INT(rig_mkdir(&r, "/workspace/dir"), 0);                /* 6 */
    CHECK_INT(rig_put(&r, "/workspace/big", big, sizeof big), 0); /* 7 */
    CHECK_INT(rig_close(&r), 0);
    struct dz_db_sim *good = r.sim;
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++) {
        const struct dz_db_opts o = {.schema = &dz_vfs_schema};
        uint64_t count = 0;
        r.sim = rig_image_of(good);
        CHECK_INT(dz_db_open_disk(&r.db, dz_db_sim_disk(r.sim), &o, &r.err), 0);
        const char *what = cases[i].what;
        const struct dz_vfs_check_opts co = {.db = r.db, .damage = on_damage, .arg = &what};
        found = false;
        CHECK_INT(dz_vfs_check(&co, &count, &r.err), 0);
        CHECK_INT(count, 0);
        CHECK_INT(dz_db_exec(r.db, cases[i].sql, &r.err), 0);
        CHECK_INT(dz_vfs_check(&co, &count, &r.err), 0);
        if (!found) {
            printf("# %s: %llu findings, none of \"%s\"\n", cases[i].sql, (unsigned long long)count,
                   what);
            tap_bad++;
        }
        CHECK_INT(dz_db_close(r.db, true, NULL), 0);
        r.db = NULL;
        dz_db_sim_free(r.sim);
    }
    r.sim = good;
    rig_free(&r);
}

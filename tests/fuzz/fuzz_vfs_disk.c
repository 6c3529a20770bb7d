/* SPDX-License-Identifier: MIT
 *
 * A disk whose rows are damaged, opened, checked, listed, read, changed: an
 * error or work, never a crash or a loop. And when the check finds nothing before,
 * it finds nothing after.
 *
 * The input is edits of 8 bytes: what (which statement of the table below), which
 * row, which name, and a number of 5 bytes, or one that tends to hurt.
 */
#include "../lib/vfs_rig.h"

#include <assert.h>
#include <stdint.h>

enum {
    EDITS_MAX = 64,
    ENTRIES_MAX = 500
};

static const char *const edits[] = {
    "UPDATE node SET mode=?2 WHERE ino=?1",
    "UPDATE node SET nlink=?2 WHERE ino=?1",
    "UPDATE node SET size=?2 WHERE ino=?1",
    "UPDATE node SET rdev=?2 WHERE ino=?1",
    "UPDATE node SET base_size=?2 WHERE ino=?1",
    "UPDATE node SET data=zeroblob(?2%9000) WHERE ino=?1",
    "UPDATE node SET data=?2 WHERE ino=?1",
    "UPDATE OR REPLACE node SET ino=?2 WHERE ino=?1",
    "DELETE FROM node WHERE ino=?1",
    "INSERT OR REPLACE INTO node VALUES(?2,16877,0,0,2,0,?1,0,0,0,0,NULL)",
    "UPDATE OR REPLACE dentry SET ino=?2 WHERE ino=?1",
    "UPDATE OR REPLACE dentry SET parent=?2 WHERE ino=?1",
    "UPDATE dentry SET type=?2 WHERE ino=?1",
    "INSERT OR REPLACE INTO dentry VALUES(?1,?3,?2,4)",
    "INSERT OR REPLACE INTO dentry VALUES(?2,?3,?1,8)",
    "DELETE FROM dentry WHERE ino=?1",
    "UPDATE OR REPLACE chunk SET id=(?1<<24)+?2",
    "INSERT OR REPLACE INTO chunk VALUES((?1<<24)+(?2&15),zeroblob(?2%70000))",
    "INSERT OR REPLACE INTO chunk VALUES((?1<<24)+(?2&15),?2)",
    "INSERT OR REPLACE INTO chunk VALUES((?1<<24)+(?2&15),'text')",
    "INSERT OR REPLACE INTO xattr VALUES(?1,?3,zeroblob(?2%99))",
    "UPDATE meta SET v=?2 WHERE k='counters'",
    "INSERT OR REPLACE INTO meta VALUES('used_bytes',?2)",
    "INSERT OR REPLACE INTO meta VALUES('orphans',?2&1)",
    "INSERT OR REPLACE INTO meta VALUES('xattrs',?2&1)",
    "INSERT OR REPLACE INTO meta VALUES('image',?2)",
    "INSERT OR REPLACE INTO meta VALUES('used_inodes',?2)",
    "INSERT OR REPLACE INTO meta VALUES('cut',(?1<<24)+(?2&31))",
    "INSERT OR REPLACE INTO meta VALUES('cut',?2)",
    "INSERT OR REPLACE INTO meta VALUES('untar',?1)",
    "INSERT OR REPLACE INTO meta VALUES('untar',-?1)",
    "INSERT OR REPLACE INTO meta VALUES('untar',?2)",
    "UPDATE OR REPLACE dentry SET name=?3 WHERE ino=?1",
};
static const int64_t hurting[] = {
    0,
    1,
    2,
    4,
    5,
    6,
    7,
    33188,
    16877,
    41471,
    32768,
    32769,
    65536,
    2048,
    -1,
    INT64_MAX,
    INT64_MIN,
    (int64_t)1 << 39,
    ((int64_t)1 << 39) - 1,
    (int64_t)1 << 32,
    40960,
};
static const char *const names[] = {"a",    "..",   "a/b",    "",           "d",
                                    "file", "\xff", "user.x", ".doze-untar"};

static struct dz_db_sim *good;

static void make_good(void)
{
    static struct rig r;
    static char big[100000];
    memset(big, 'x', sizeof big);
    rig_start(&r);
    (void)rig_put(&r, "/workspace/file", "abc", 3);
    (void)rig_mkdir(&r, "/workspace/d");
    (void)rig_put(&r, "/workspace/d/big", big, sizeof big);
    (void)dz_vfs_symlink_at(r.v, &rig_root, "../d/big", rig_path("/workspace/d/a"));
    (void)rig_mkdir(&r, "/tmp/d");
    (void)dz_vfs_setxattr(r.v, DZ_VFS_TMP, "user.x", "v", 1, 0);
    if (rig_close(&r))
        abort();
    good = r.sim;
}

static void edit(struct dz_db *db, const uint8_t *p)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(db, edits[p[0] % DZ_ARRAY_LEN(edits)]);
    int64_t value = 0;
    memcpy(&value, p + 3, 5);
    if (p[7] & 0x80)
        value = hurting[p[3] % DZ_ARRAY_LEN(hurting)];
    const char *name = names[p[2] % DZ_ARRAY_LEN(names)], *sql = edits[p[0] % DZ_ARRAY_LEN(edits)];
    if (strstr(sql, "?1"))
        dz_bind_int(st, 1, p[1] % 16);
    if (strstr(sql, "?2"))
        dz_bind_int(st, 2, value);
    if (strstr(sql, "?3"))
        dz_bind_blob(st, 3, name, strlen(name));
    (void)!dz_stmt_run(st, NULL);
}

static int look(void *arg, const struct dz_vfs_entry *e)
{
    uint64_t *todo = arg;
    if (todo[0] < ENTRIES_MAX)
        todo[++todo[0]] = e->ino;
    return todo[0] >= ENTRIES_MAX;
}

static void use_inode(struct rig *r, uint64_t ino)
{
    static uint8_t buf[70000];
    struct dz_vfs_attr a = {0};
    uint64_t n;
    (void)dz_vfs_getattr(r->v, ino, &a);
    (void)dz_vfs_read(r->v, ino, 0, buf, sizeof buf);
    (void)dz_vfs_read(r->v, ino, a.size > 10 ? a.size - 10 : 0, buf, 100);
    (void)dz_vfs_readlink(r->v, ino, (char *)buf, sizeof buf);
    (void)dz_vfs_allocated(r->v, ino, &n);
    (void)dz_vfs_seek(r->v, ino, 0, SEEK_DATA, &n);
    (void)dz_vfs_listxattr(r->v, ino, (char *)buf, sizeof buf);
    (void)dz_vfs_volume_of(r->v, ino, &n);
    (void)dz_vfs_getcwd(r->v, DZ_VFS_ROOT, ino, (char *)buf, 5000);
    (void)dz_vfs_write(r->v, ino, 3, "0123456789", 10);
    a.size = 40000;
    (void)dz_vfs_setattr(r->v, ino, DZ_VFS_SET_SIZE, &a);
}

static void use(struct rig *r)
{
    static uint64_t todo[ENTRIES_MAX + 2];
    todo[0] = 1;
    todo[1] = DZ_VFS_ROOT;
    for (uint64_t i = 1; i <= todo[0] && i < ENTRIES_MAX; i++) {
        (void)dz_vfs_readdir(r->v, todo[i], 0, look, todo);
        if (i < 40)
            use_inode(r, todo[i]);
    }
    struct dz_vfs_attr a;
    (void)dz_vfs_stat_at(r->v, &rig_root, rig_path("/workspace/d/a"), true, &a);
    (void)rig_mkdir(r, "/workspace/d/new");
    (void)rig_put(r, "/workspace/d/new/f", "abc", 3);
    (void)dz_vfs_rename_at(r->v, &rig_root, rig_path("/workspace/d"), rig_path("/tmp/d"), 0);
    (void)dz_vfs_clear(r->v, DZ_VFS_TMP);
    (void)dz_vfs_commit(r->v, NULL);
    (void)dz_vfs_clear(r->v, DZ_VFS_WORKSPACE);
}

static uint64_t check(struct rig *r)
{
    const struct dz_vfs_check_opts o = {.db = r->db, .quick = true};
    uint64_t count = 1;
    return dz_vfs_check(&o, &count, NULL) == 0 ? count : 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rig r;
    if (!good)
        make_good();
    size_t edited = 0;
    r = (struct rig){.sim = rig_image_of(good), .image_fd = -1, .clock_ns = 1};
    r.opts.step_chunks = (uint32_t)(size % 3); /* 0: more than there are */
    const struct dz_db_opts o = {.schema = &dz_vfs_schema};
    if (dz_db_open_disk(&r.db, dz_db_sim_disk(r.sim), &o, NULL) < 0)
        abort();
    if (dz_db_begin(r.db, NULL) == 0) {
        for (; edited < EDITS_MAX && (edited + 1) * 8 <= size; edited++)
            edit(r.db, data + edited * 8);
        (void)!dz_db_commit(r.db, NULL);
    }
    bool clean = check(&r) == 0;
    (void)dz_db_close(r.db, false, NULL);
    r.db = NULL;
    if (rig_open(&r) == 0) {
        use(&r);
        (void)dz_vfs_commit(r.v, NULL);
        bool still = check(&r) == 0;
        if (clean && !still)
            abort();
    }
    rig_free(&r);
    return 0;
}

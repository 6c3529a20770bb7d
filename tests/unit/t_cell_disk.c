/* SPDX-License-Identifier: MIT
 *
 * Files that nobody runs, in file-only cells: what is carried, what is not, and
 * archives from elsewhere.
 */
#include "base/buf.h"
#include "base/fd.h"
#include "blob/blob.h"
#include "blob/blob_cold.h"
#include "cell/cell_call.h"
#include "cell/cell_disk.h"
#include "cell/cell_pool.h"
#include "db/db.h"
#include "machine/machine_copy.h"
#include "tap.h"
#include "vfs/vfs.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>

#define SHA    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define SECRET "a byte that was deleted"

static char dir[DZ_TEMP_DIR_TEXT], path[DZ_TEMP_DIR_TEXT + 32];
static struct dz_blobs *store;
static struct dz_cell_pool *pool; /* its seed starts the calls, as the daemon's does */

static void open_store(void)
{
    struct dz_err err = {0};
    CHECK_INT(dz_cell_pool_new(&(struct dz_cell_pool_opts){.ahead = 1}, &pool, &err), 0);
    dz_cell_call_never_fork();
    CHECK_INT(dz_fd_temp_dir("doze-cell-disk", dir, NULL), 0);
    CHECK_INT(dz_blobs_open_dir(dir, &store, NULL), 0);
}

static void close_store(void)
{
    dz_blobs_free(store);
    dz_cell_pool_free(pool);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, dir, NULL), 0);
}

static const char *in_dir(const char *name)
{
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* --- disks ------------------------------------------------------------------------- */

struct disk {
    struct dz_db *db, *image;
    struct dz_vfs *v;
};

static void open_disk(struct disk *d, const char *name, const char *image, bool fresh)
{
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema};
    const struct dz_db_opts below = {.schema = &dz_vfs_schema, .immutable = true};
    *d = (struct disk){0};
    if (fresh) {
        CHECK_INT(dz_vfs_template(&t, NULL), 0);
        CHECK_INT(dz_db_create_path(in_dir(name), t.p, t.len, false, NULL), 0);
    }
    CHECK_INT(dz_db_open_path(&d->db, in_dir(name), &opts, NULL), 0);
    if (fresh && image)
        CHECK_INT(dz_vfs_bind_image(d->db, SHA, NULL), 0);
    if (image)
        CHECK_INT(dz_db_open_path(&d->image, in_dir(image), &below, NULL), 0);
    const struct dz_vfs_opts v = {
        .db = d->db, .image = d->image, .image_sha256 = image ? SHA : NULL};
    struct dz_err err = {0};
    CHECK_INT(dz_vfs_open(&v, &d->v, &err), 0);
    CHECK_STR(err.msg, "");
    dz_buf_release(&t);
}

static void close_disk(struct disk *d)
{
    CHECK_INT(dz_vfs_close(d->v, NULL), 0);
    CHECK_INT(dz_db_close(d->db, false, NULL), 0);
    CHECK_INT(dz_db_close(d->image, false, NULL), 0);
}

static void put(struct disk *d, uint64_t parent, const char *name, const char *text)
{
    const struct dz_vfs_new spec = {.mode = S_IFREG | 0644};
    uint64_t ino;
    CHECK_INT(dz_vfs_create(d->v, parent, name, strlen(name), &spec, &ino), 0);
    CHECK_INT(dz_vfs_write(d->v, ino, 0, text, strlen(text)), strlen(text));
}

static const char *get(struct disk *d, const char *file)
{
    static char text[128];
    uint64_t ino;
    ssize_t n = dz_vfs_resolve(d->v, file, &ino) == 0
                    ? dz_vfs_read(d->v, ino, 0, text, sizeof text - 1)
                    : -1;
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static int64_t number(struct disk *d, const char *sql)
{
    struct dz_stmt *st = dz_db_stmt(d->db, sql);
    int64_t n = dz_stmt_step(st, NULL) == 1 ? dz_col_int(st, 0) : -1;
    dz_stmt_reset(st);
    return n;
}

/* Notes in every volume, a large file that was deleted, traces of a machine, and what
 * another module keeps. */
static void make_source(const char *image)
{
    struct disk d;
    char big[4000];
    open_disk(&d, "a.doze", image, true);
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = SECRET[i % (sizeof SECRET - 1)];
    put(&d, DZ_VFS_WORKSPACE, "note", "the work");
    put(&d, DZ_VFS_MEMORY, "note", "what was learned");
    put(&d, DZ_VFS_TMP, "note", "scratch");
    put(&d, DZ_VFS_ROOT, "gone", "");
    uint64_t ino;
    CHECK_INT(dz_vfs_resolve(d.v, "/gone", &ino), 0);
    for (int i = 0; i < 100; i++)
        CHECK_INT(dz_vfs_write(d.v, ino, (uint64_t)i * sizeof big, big, sizeof big), sizeof big);
    CHECK_INT(dz_vfs_commit(d.v, NULL), 0);
    CHECK_INT(dz_vfs_unlink(d.v, DZ_VFS_ROOT, "gone", 4), 0);
    CHECK_INT(dz_vfs_commit(d.v, NULL), 0);
    CHECK_INT(dz_db_exec(d.db,
                         "INSERT INTO meta VALUES('machine_live',1),('policy','posix');"
                         "INSERT INTO machine(part,key,value)VALUES('x',1,x'00')",
                         NULL),
              0);
    close_disk(&d);
}

static int carry_with(const struct dz_cell_disk *more, enum dz_cell_transfer what, const char *to,
                      struct dz_err *err)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    struct dz_cell_disk d = *more;
    CHECK_INT(dz_blob_in_open(store, "a.doze", &in, NULL), 0);
    CHECK_INT(dz_blob_out_open(store, to, &out, NULL), 0);
    d.from = in;
    d.to = out;
    d.label = "a";
    int rc = dz_cell_disk_transfer(&d, what, err);
    return rc < 0 ? rc : dz_blob_out_commit(out, err);
}

static int carry(enum dz_cell_transfer what, const char *to)
{
    struct dz_err err = {0};
    int rc = carry_with(&(struct dz_cell_disk){.image_fd = -1}, what, to, &err);
    CHECK_STR(err.msg, "");
    return rc;
}

/* Does the file hold these bytes anywhere? */
static bool has_bytes(const char *name, const char *text)
{
    struct dz_buf b = DZ_BUF_INIT(64 << 20);
    bool found = dz_fd_read_file(AT_FDCWD, in_dir(name), &b, NULL) >= 0 &&
                 memmem(b.p, b.len, text, strlen(text)) != NULL;
    dz_buf_release(&b);
    return found;
}

static off_t size_of(const char *name)
{
    struct stat st;
    return stat(in_dir(name), &st) == 0 ? st.st_size : -1;
}

TEST(compacted_to_its_files_it_is_the_same_sandbox_and_small)
{
    struct disk d;
    open_store();
    make_source(NULL);
    CHECK_INT(carry(DZ_CELL_TRANSFER_FILES, "b.doze"), 0);
    CHECK(size_of("b.doze") < size_of("a.doze") / 4);
    CHECK(!has_bytes("b.doze", SECRET));
    open_disk(&d, "b.doze", NULL, false);
    CHECK_STR(get(&d, "/workspace/note"), "the work");
    CHECK_STR(get(&d, "/memory/note"), "what was learned");
    CHECK_STR(get(&d, "/tmp/note"), "");
    CHECK_INT(number(&d, "SELECT count(*) FROM machine"), 0);
    CHECK_INT(number(&d, "SELECT count(*) FROM meta WHERE k='machine_live'"), 0);
    CHECK_INT(number(&d, "SELECT count(*) FROM meta WHERE k='policy' AND v='posix'"), 1);
    CHECK_INT(number(&d, "PRAGMA freelist_count"), 0);
    close_disk(&d);
    close_store();
}

/* The same with a machine that sleeps, its memory, and the record of a command. */
static void make_sleeper(void)
{
    struct disk d;
    make_source(NULL);
    open_disk(&d, "a.doze", NULL, false);
    CHECK_INT(dz_db_exec(d.db,
                         "CREATE TABLE mem(gen INT,seq INT,data BLOB,PRIMARY KEY(gen,seq));"
                         "INSERT INTO mem VALUES(1,0,'page one'),(1,1,'page two');"
                         "UPDATE meta SET v=0 WHERE k='machine_live';"
                         "INSERT INTO meta VALUES('machine',1);"
                         "INSERT INTO exec(number,id,started,argv,own)"
                         "VALUES(7,'exe_7',1,'argv','own');"
                         "INSERT INTO exec_output VALUES(1,7,1,0,'said')",
                         NULL),
              0);
    close_disk(&d);
}

TEST(compacted_it_keeps_the_machine_that_sleeps)
{
    struct disk d;
    open_store();
    make_sleeper();
    CHECK_INT(carry(DZ_CELL_TRANSFER_COMPACT, "b.doze"), 0);
    CHECK(size_of("b.doze") < size_of("a.doze") / 4);
    CHECK(!has_bytes("b.doze", SECRET));
    open_disk(&d, "b.doze", NULL, false);
    CHECK_STR(get(&d, "/workspace/note"), "the work");
    CHECK_STR(get(&d, "/tmp/note"), "scratch");
    CHECK_INT(number(&d, "SELECT count(*) FROM machine WHERE part='x' AND key=1 AND value=x'00'"),
              1);
    CHECK_INT(number(&d, "SELECT count(*) FROM mem WHERE data IN('page one','page two')"), 2);
    CHECK_INT(number(&d, "SELECT v FROM meta WHERE k='machine'"), 1);
    CHECK_INT(number(&d, "SELECT started FROM exec WHERE number=7 AND id='exe_7' AND argv='argv' "
                         "AND own='own'"),
              1);
    CHECK_INT(number(&d, "SELECT exec FROM exec_output WHERE data='said'"), 7);
    CHECK_INT(number(&d, "PRAGMA freelist_count"), 0);
    close_disk(&d);
    close_store();
}

TEST(compacted_a_lost_machine_stays_lost_without_its_rows)
{
    struct disk d;
    open_store();
    make_source(NULL); /* machine_live is 1 */
    CHECK_INT(carry(DZ_CELL_TRANSFER_COMPACT, "b.doze"), 0);
    open_disk(&d, "b.doze", NULL, false);
    CHECK_INT(number(&d, "SELECT count(*) FROM machine"), 0);
    CHECK_INT(number(&d, "SELECT v FROM meta WHERE k='machine_live'"), 1);
    close_disk(&d);
    close_store();
}

TEST(compacted_to_its_files_it_does_not_take_the_machine_of_the_image)
{
    struct disk d;
    open_store();
    make_sleeper();
    CHECK_INT(carry(DZ_CELL_TRANSFER_FILES, "b.doze"), 0);
    open_disk(&d, "b.doze", NULL, false);
    CHECK_INT(number(&d, "SELECT v FROM meta WHERE k='machine'"), 0);
    CHECK_INT(number(&d, "SELECT count(*) FROM exec"), 0);
    close_disk(&d);
    close_store();
}

TEST(a_clone_has_the_files_and_nothing_of_who_it_was)
{
    struct disk d;
    open_store();
    make_source(NULL);
    CHECK_INT(carry(DZ_CELL_TRANSFER_CLONE, "b.doze"), 0);
    CHECK(!has_bytes("b.doze", SECRET));
    open_disk(&d, "b.doze", NULL, false);
    CHECK_STR(get(&d, "/workspace/note"), "the work");
    CHECK_STR(get(&d, "/memory/note"), "what was learned");
    CHECK_STR(get(&d, "/tmp/note"), "");
    CHECK_INT(number(&d, "SELECT count(*) FROM meta WHERE k='policy'"), 0);
    close_disk(&d);
    close_store();
}

TEST(a_share_has_the_public_volume_and_what_it_has_from_the_image)
{
    struct disk d;
    struct dz_err err;
    open_store();
    open_disk(&d, "image", NULL, true);
    put(&d, DZ_VFS_WORKSPACE, "below", "of the image");
    put(&d, DZ_VFS_MEMORY, "below", "not public");
    close_disk(&d);
    make_source("image");
    DZ_AUTO(dz_fd_close) int fd = open(in_dir("image"), O_RDONLY | O_CLOEXEC);
    const struct dz_cell_disk over = {.image_fd = fd, .pack_fd = -1, .image_sha256 = SHA};
    CHECK_INT(carry_with(&over, DZ_CELL_TRANSFER_SHARE, "b.doze", &err), 0);
    CHECK(!has_bytes("b.doze", SECRET) && !has_bytes("b.doze", "what was learned") &&
          !has_bytes("b.doze", "not public"));
    open_disk(&d, "b.doze", NULL, false);
    CHECK_STR(get(&d, "/workspace/note"), "the work");
    CHECK_STR(get(&d, "/workspace/below"), "of the image");
    close_disk(&d);
    /* without the image, or with another, it says so */
    const struct dz_cell_disk none = {.image_fd = -1};
    CHECK_INT(carry_with(&none, DZ_CELL_TRANSFER_SHARE, "c.doze", &err), DZ_ENOENT);
    const struct dz_cell_disk wrong = {
        .image_fd = fd,
        .pack_fd = -1,
        .image_sha256 = "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"};
    CHECK_INT(carry_with(&wrong, DZ_CELL_TRANSFER_SHARE, "c.doze", &err), DZ_ECORRUPT);
    CHECK(strstr(err.msg, "share a") != NULL);
    close_store();
}

/* Its first cell was ended before it could write to the file. */
TEST(a_share_of_a_disk_that_no_cell_has_opened_has_what_its_image_has)
{
    struct disk d;
    struct dz_err err = {0};
    open_store();
    open_disk(&d, "image", NULL, true);
    put(&d, DZ_VFS_WORKSPACE, "below", "of the image");
    put(&d, DZ_VFS_MEMORY, "below", "not public");
    close_disk(&d);
    open_disk(&d, "a.doze", NULL, true);
    close_disk(&d);
    DZ_AUTO(dz_fd_close) int fd = open(in_dir("image"), O_RDONLY | O_CLOEXEC);
    const struct dz_cell_disk over = {.image_fd = fd, .pack_fd = -1, .image_sha256 = SHA};
    CHECK_INT(carry_with(&over, DZ_CELL_TRANSFER_SHARE, "b.doze", &err), 0);
    CHECK_STR(err.msg, "");
    CHECK(!has_bytes("b.doze", "not public"));
    open_disk(&d, "b.doze", NULL, false);
    CHECK_STR(get(&d, "/workspace/below"), "of the image");
    close_disk(&d);
    close_store();
}

/* Else its log, which is in memory, would have every byte of it. */
TEST(the_log_of_a_share_stays_short)
{
    enum {
        STEP = 1 << 20,
        STEPS = 64,
        LOG_MAX = 32 << 20,
    };
    static char step[STEP];
    const struct dz_vfs_new spec = {.mode = S_IFREG | 0644};
    struct dz_copied copied;
    struct disk from, to;
    uint64_t ino;
    open_store();
    open_disk(&from, "a.doze", NULL, true);
    open_disk(&to, "b.doze", NULL, true);
    CHECK_INT(dz_vfs_create(from.v, DZ_VFS_WORKSPACE, "big", 3, &spec, &ino), 0);
    for (uint64_t i = 0; i < STEPS; i++) {
        memset(step, (int)i + 1, sizeof step);
        CHECK_INT(dz_vfs_write(from.v, ino, i * STEP, step, STEP), STEP);
    }
    CHECK_INT(dz_machine_share(from.v, to.v, &copied, NULL), 0);
    CHECK_INT(copied.bytes, (uint64_t)STEPS * STEP);
    CHECK(size_of("b.doze-wal") >= 0 && size_of("b.doze-wal") < LOG_MAX);
    CHECK(size_of("b.doze") > STEPS * STEP - LOG_MAX);
    close_disk(&from);
    close_disk(&to);
    close_store();
}

TEST(what_is_no_disk_is_refused_and_leaves_nothing)
{
    struct dz_err err;
    const struct dz_cell_disk plain = {.image_fd = -1};
    open_store();
    CHECK_INT(dz_fd_replace(AT_FDCWD, in_dir("a.doze"), "no database", 11, 0600, NULL), 0);
    CHECK_INT(carry_with(&plain, DZ_CELL_TRANSFER_COMPACT, "b.doze", &err), DZ_ECORRUPT);
    CHECK(strstr(err.msg, "compact a") != NULL);
    CHECK_INT(size_of("b.doze"), -1);
    CHECK_INT(dz_cell_disk_checkpoint(in_dir("a.doze"), &err), DZ_ECORRUPT);
    CHECK_INT(dz_cell_disk_checkpoint(in_dir("none.doze"), &err), DZ_ENOENT);
    close_store();
}

TEST(a_carry_that_is_called_off_ends)
{
    static const _Atomic bool yes = true;
    struct dz_err err;
    const struct dz_cell_disk d = {.image_fd = -1, .cancel = &yes};
    open_store();
    make_source(NULL);
    int rc = carry_with(&d, DZ_CELL_TRANSFER_COMPACT, "b.doze", &err);
    CHECK(rc == 0 || rc == DZ_ECANCELED); /* it may have been faster */
    close_store();
}

TEST(a_log_is_moved_into_its_file)
{
    struct disk d;
    struct dz_err err = {0};
    open_store();
    open_disk(&d, "a.doze", NULL, true);
    put(&d, DZ_VFS_WORKSPACE, "note", "committed");
    CHECK_INT(dz_vfs_commit(d.v, NULL), 0);
    CHECK_INT(dz_cell_disk_checkpoint(in_dir("a.doze"), &err), DZ_EBUSY);
    dz_vfs_abandon(d.v);
    CHECK_INT(dz_db_close(d.db, true, NULL), 0);
    CHECK(size_of("a.doze-wal") > 0);
    CHECK_INT(dz_cell_disk_checkpoint(in_dir("a.doze"), &err), 0);
    CHECK_INT(size_of("a.doze-wal"), -1);
    open_disk(&d, "a.doze", NULL, false);
    CHECK_STR(get(&d, "/workspace/note"), "committed");
    close_disk(&d);
    close_store();
}

/* --- archives ------------------------------------------------------------------------ */

struct far_in { /* an object without a descriptor */
    struct dz_blob_in head;
    struct dz_blob_in *near;
};

static int far_read(struct dz_blob_in *in, void *buf, size_t n, uint64_t at, struct dz_err *err)
{
    return dz_blob_in_read(((struct far_in *)in)->near, buf, n, at, err);
}

static int expand(const char *to, bool far, uint8_t digest[static DZ_SHA256_BYTES],
                  struct dz_err *err)
{
    static const struct dz_blob_in_ops ops = {.read = far_read};
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    CHECK_INT(dz_blob_in_open(store, "archive", &in, NULL), 0);
    if (to)
        CHECK_INT(dz_blob_out_open(store, to, &out, NULL), 0);
    struct far_in f = {{.ops = &ops, .size = in->size, .fd = -1}, in};
    int rc = dz_cell_expand(far ? &f.head : in, out, NULL, digest, err);
    return rc < 0 || !out ? rc : dz_blob_out_commit(out, err);
}

/* What a doze that archived files alone has written must be read for ever. */
TEST(an_archive_of_files_alone_is_read)
{
    struct dz_buf b = DZ_BUF_INIT(1 << 20);
    struct dz_err err = {0};
    uint8_t digest[DZ_SHA256_BYTES];
    struct disk d = {0};
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema};
    open_store();
    CHECK_INT(dz_fd_read_file(AT_FDCWD, "tests/data/golden/v1/files.archive", &b, &err), 0);
    CHECK_INT(dz_fd_replace(AT_FDCWD, in_dir("archive"), b.p, b.len, 0600, NULL), 0);
    CHECK_INT(expand("b.doze", false, digest, &err), 0);
    CHECK_STR(err.msg, "");
    CHECK_INT(dz_db_open_path(&d.db, in_dir("b.doze"), &opts, &err), 0);
    CHECK_INT(number(&d,
                     "SELECT count(*) FROM node n JOIN dentry d USING(ino) WHERE name=x'6e6f7465'"
                     " AND data=CAST('the work'||char(10) AS BLOB)"),
              1);
    CHECK_INT(number(&d, "SELECT count(*) FROM meta WHERE k='machine'"), 0);
    CHECK_INT(dz_db_close(d.db, false, NULL), 0);
    dz_buf_release(&b);
    close_store();
}

TEST(an_archive_is_unpacked_in_a_jail)
{
    enum {
        SIZE = 9 << 20, /* more than a piece of the hash */
    };
    DZ_AUTO(dz_freep) char *data = dz_alloc(SIZE);
    uint8_t want[DZ_SHA256_BYTES], got[DZ_SHA256_BYTES];
    struct dz_err err = {0};
    open_store();
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (char)(i * i >> 7);
    CHECK_INT(dz_fd_replace(AT_FDCWD, in_dir("plain"), data, SIZE, 0600, NULL), 0);
    {
        DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
        DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
        CHECK_INT(dz_blob_in_open(store, "plain", &in, NULL), 0);
        CHECK_INT(dz_blob_out_open(store, "archive", &out, NULL), 0);
        CHECK_INT(dz_cold_compress(in, out, NULL, want, NULL), 0);
        CHECK_INT(dz_blob_out_commit(out, NULL), 0);
    }
    for (int far = 0; far < 2; far++) {
        memset(got, 0, sizeof got);
        CHECK_INT(expand(NULL, far, got, &err), 0); /* only checked */
        CHECK(memcmp(got, want, sizeof want) == 0);
        memset(got, 0, sizeof got);
        CHECK_INT(expand("copy", far, got, &err), 0);
        CHECK_STR(err.msg, "");
        CHECK(memcmp(got, want, sizeof want) == 0);
        struct dz_buf b = DZ_BUF_INIT(SIZE);
        CHECK_INT(dz_fd_read_file(AT_FDCWD, in_dir("copy"), &b, NULL), 0);
        CHECK(b.len == SIZE && memcmp(b.p, data, SIZE) == 0);
        dz_buf_release(&b);
    }
    int fd = open(in_dir("archive"), O_WRONLY | O_CLOEXEC);
    CHECK_INT(pwrite(fd, "\xff\xff\xff\xff", 4, 1000), 4);
    dz_fd_close(&fd);
    for (int far = 0; far < 2; far++)
        CHECK_INT(expand("copy", far, got, &err), DZ_ECORRUPT);
    close_store();
}

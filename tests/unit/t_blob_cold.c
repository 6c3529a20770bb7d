/* SPDX-License-Identifier: MIT
 *
 * Freeze, thaw, archive and their damage, on two directories.
 */
#include "base/fd.h"
#include "base/str.h"
#include "blob/blob_cold.h"
#include "tap.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>

#define ID "sbx_1"

static char dir[DZ_TEMP_DIR_TEXT], text[DZ_TEMP_DIR_TEXT + 64];

static char *at(const char *name)
{
    (void)snprintf(text, sizeof text, "%s/%s", dir, name);
    return text;
}

static struct dz_cold open_all(void)
{
    struct dz_cold c = {0};
    CHECK_INT(dz_fd_temp_dir("doze-cold", dir, NULL), 0);
    CHECK_INT(dz_blobs_open_dir(at("live"), &c.live, NULL), 0);
    CHECK_INT(dz_blobs_open_dir(at("cold"), &c.store, NULL), 0);
    return c;
}

static void close_all(struct dz_cold *c)
{
    dz_blobs_free(c->live);
    dz_blobs_free(c->store);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, dir, NULL), 0);
}

static char *make_file(const char *name, size_t n)
{
    char *data = dz_alloc(n ? n : 1);
    for (size_t k = 0; k < n; k++)
        data[k] = (char)(k % 4096 < 2048 ? k >> 12 : (k * 2654435761u) >> 13);
    CHECK_INT(dz_fd_replace(AT_FDCWD, at(name), data, n, 0600, NULL), 0);
    return data;
}

static bool same(const char *name, const char *data, size_t n)
{
    struct dz_buf b = DZ_BUF_INIT(64 << 20);
    int rc = dz_fd_read_file(AT_FDCWD, at(name), &b, NULL);
    bool equal = rc >= 0 && b.len == n && memcmp(b.p, data, n) == 0;
    dz_buf_release(&b);
    return equal;
}

static void damage(const char *name, long offset)
{
    int fd = open(at(name), O_RDWR | O_CLOEXEC);
    char c = 0;
    off_t where = offset < 0 ? lseek(fd, 0, SEEK_END) + offset : offset;
    CHECK(pread(fd, &c, 1, where) == 1);
    c = (char)(c ^ 0x40);
    CHECK(pwrite(fd, &c, 1, where) == 1);
    (void)close(fd);
}

TEST(keys_name_a_file_of_a_sandbox)
{
    char key[DZ_COLD_KEY], id[DZ_COLD_KEY];
    enum dz_cold_file file;
    for (int i = 0; i < DZ_COLD_FILES; i++) {
        CHECK(dz_cold_parse_key(dz_cold_key(ID, (enum dz_cold_file)i, key), id, &file));
        CHECK_STR(id, ID);
        CHECK_INT(file, i);
    }
    CHECK(!dz_cold_parse_key("readme.txt", id, &file));
    CHECK(!dz_cold_parse_key(".doze", id, &file));
    CHECK_STR(dz_cold_key(ID, DZ_COLD_FROZEN, key), "sbx_1.sqlite");
}

TEST(freeze_and_thaw_bring_the_same_bytes_back)
{
    static const size_t sizes[] = {0, 4096, 5 << 20};
    for (size_t i = 0; i < DZ_ARRAY_LEN(sizes); i++) {
        struct dz_cold c = open_all();
        DZ_AUTO(dz_freep) char *data = make_file("live/sbx_1.doze", sizes[i]);
        struct dz_cold_copy copy = {0};
        struct dz_err err;
        uint8_t digest[DZ_SHA256_BYTES];
        struct stat st;
        CHECK_INT(dz_cold_freeze(&c, ID, NULL, &copy, &err), 0);
        CHECK_INT(copy.file, DZ_COLD_FROZEN);
        CHECK_INT(copy.size, sizes[i]);
        CHECK(same("cold/sbx_1.sqlite", data, sizes[i]));
        CHECK_INT(stat(at("cold/sbx_1.sqlite"), &st), 0);
        CHECK_INT(st.st_mode & 0777, 0600);
        CHECK_INT(dz_cold_hash(&c, ID, NULL, digest, &err), 0);
        if (copy.hashed)
            CHECK(memcmp(copy.sha256, digest, sizeof digest) == 0);
        CHECK_INT(dz_cold_drop(&c, ID, DZ_COLD_BIT(LIVE), &err), 0);
        CHECK_INT(dz_cold_has(&c, ID, DZ_COLD_LIVE, NULL, &err), 0);
        CHECK_INT(dz_cold_thaw(&c, ID, &copy, NULL, &err), 0);
        CHECK(same("live/sbx_1.doze", data, sizes[i]));
        CHECK(same("cold/sbx_1.sqlite", data, sizes[i])); /* the copy stays */
        close_all(&c);
    }
}

TEST(a_log_with_commits_stops_a_freeze)
{
    struct dz_cold c = open_all();
    dz_free(make_file("live/sbx_1.doze", 100));
    struct dz_cold_copy copy;
    struct dz_err err;
    CHECK_INT(dz_fd_replace(AT_FDCWD, at("live/sbx_1.doze-wal"), "x", 1, 0600, NULL), 0);
    CHECK_INT(dz_cold_freeze(&c, ID, NULL, &copy, &err), DZ_ESTATE);
    CHECK(strstr(err.msg, "WAL"));
    CHECK_INT(truncate(at("live/sbx_1.doze-wal"), 0), 0);
    CHECK_INT(dz_cold_freeze(&c, ID, NULL, &copy, &err), 0); /* an empty one is nothing */
    close_all(&c);
}

TEST(a_directory_that_cannot_be_written_is_named_and_loses_nothing)
{
    static const char *const locked[] = {"cold", "live"};
    struct dz_cold c = open_all();
    DZ_AUTO(dz_freep) char *data = make_file("live/sbx_1.doze", 5000);
    struct dz_cold_copy copy;
    CHECK_INT(dz_cold_freeze(&c, ID, NULL, &copy, NULL), 0);
    CHECK_INT(chmod(dir, 0755) | chmod(at("live/sbx_1.doze"), 0644), 0);
    CHECK_INT(chmod(at("cold/sbx_1.sqlite"), 0644), 0);
    for (size_t i = 0; i < DZ_ARRAY_LEN(locked); i++) {
        struct dz_err err = {0};
        CHECK_INT(chmod(at(locked[i]), 0555) | chmod(at(locked[1 - i]), 0777), 0);
        if (getuid() == 0 && seteuid(65534) < 0)
            SKIP("needs another user");
        int rc = i == 0 ? dz_cold_freeze(&c, ID, NULL, &copy, &err)
                        : dz_cold_thaw(&c, ID, &copy, NULL, &err);
        if (getuid() == 0)
            CHECK_INT(seteuid(0), 0);
        CHECK_INT(rc, DZ_EDENIED);
        CHECK(strstr(err.msg, at(locked[i])) != NULL);
        CHECK(same("live/sbx_1.doze", data, 5000) && same("cold/sbx_1.sqlite", data, 5000));
    }
    CHECK_INT(chmod(at("live"), 0755), 0);
    close_all(&c);
}

TEST(a_copy_that_is_missing_cut_or_damaged_is_told_and_changes_nothing)
{
    struct dz_cold c = open_all();
    DZ_AUTO(dz_freep) char *data = make_file("live/sbx_1.doze", 3 << 20);
    struct dz_cold_copy copy;
    struct dz_err err;
    CHECK_INT(dz_cold_freeze(&c, ID, NULL, &copy, &err), 0);
    if (!copy.hashed) {
        CHECK_INT(dz_cold_hash(&c, ID, NULL, copy.sha256, &err), 0);
        copy.hashed = true;
    }
    CHECK_INT(dz_cold_drop(&c, ID, DZ_COLD_BIT(LIVE), &err), 0);
    CHECK_INT(truncate(at("cold/sbx_1.sqlite"), 1 << 20), 0);
    CHECK_INT(dz_cold_thaw(&c, ID, &copy, NULL, &err), DZ_ECORRUPT);
    CHECK(strstr(err.msg, "1048576 bytes, but 3145728"));
    CHECK_INT(dz_fd_replace(AT_FDCWD, at("cold/sbx_1.sqlite"), data, 3 << 20, 0600, NULL), 0);
    damage("cold/sbx_1.sqlite", 2000000);
    CHECK_INT(dz_cold_thaw(&c, ID, &copy, NULL, &err), DZ_ECORRUPT);
    CHECK(strstr(err.msg, "SHA-256"));
    CHECK_INT(unlink(at("cold/sbx_1.sqlite")), 0);
    CHECK_INT(dz_cold_thaw(&c, ID, &copy, NULL, &err), DZ_ENOENT);
    CHECK_INT(dz_cold_has(&c, ID, DZ_COLD_LIVE, NULL, &err), 0);
    close_all(&c);
}

TEST(an_archive_comes_back_and_is_smaller)
{
    static const size_t sizes[] = {0, 1, 1 << 20, (5 << 20) + 123};
    for (size_t i = 0; i < DZ_ARRAY_LEN(sizes); i++) {
        struct dz_cold c = open_all();
        DZ_AUTO(dz_freep) char *data = make_file("live/sbx_1.scratch", sizes[i]);
        struct dz_cold_copy copy;
        struct dz_err err;
        CHECK_INT(dz_cold_pack(&c, ID, NULL, &copy, &err), 0);
        CHECK_INT(copy.file, DZ_COLD_ARCHIVE);
        CHECK(copy.hashed);
        CHECK(sizes[i] < 4096 || copy.size < sizes[i]);
        CHECK_INT(dz_cold_verify(&c, ID, &copy, NULL, &err), 0);
        CHECK_INT(dz_cold_thaw(&c, ID, &copy, NULL, &err), 0);
        CHECK(same("live/sbx_1.doze", data, sizes[i]));
        copy.sha256[3] ^= 1;
        CHECK_INT(dz_cold_verify(&c, ID, &copy, NULL, &err), DZ_ECORRUPT);
        close_all(&c);
    }
}

/* One byte of each part: content, table, digest, counts, magic; and each cut. */
TEST(a_damaged_archive_is_refused)
{
    static const long places[] = {0, 100, 3000, -57, -60, -56, -20, -16, -12, -8, -1};
    struct dz_cold c = open_all();
    dz_free(make_file("live/sbx_1.scratch", 3 << 20));
    struct dz_cold_copy copy;
    struct dz_err err;
    CHECK_INT(dz_cold_pack(&c, ID, NULL, &copy, &err), 0);
    copy.hashed = false; /* the archive alone must find it out */
    for (size_t i = 0; i < DZ_ARRAY_LEN(places); i++) {
        damage("cold/sbx_1.archive", places[i]);
        int rc = dz_cold_verify(&c, ID, &copy, NULL, &err);
        CHECK(rc == DZ_ECORRUPT || (places[i] == -12 && rc == DZ_EUNSUPPORTED));
        damage("cold/sbx_1.archive", places[i]);
        CHECK_INT(dz_cold_verify(&c, ID, &copy, NULL, &err), 0);
    }
    copy.size = 0; /* and without its size */
    for (int cut = 1; cut < 5; cut++) {
        struct stat st;
        CHECK_INT(stat(at("cold/sbx_1.archive"), &st), 0);
        CHECK_INT(truncate(at("cold/sbx_1.archive"), st.st_size / 2), 0);
        CHECK_INT(dz_cold_verify(&c, ID, &copy, NULL, &err), DZ_ECORRUPT);
    }
    CHECK_INT(truncate(at("cold/sbx_1.archive"), 0), 0);
    CHECK_INT(dz_cold_verify(&c, ID, &copy, NULL, &err), DZ_ECORRUPT);
    close_all(&c);
}

TEST(each_step_can_be_called_off)
{
    struct dz_cold c = open_all();
    dz_free(make_file("live/sbx_1.doze", 3 << 20));
    dz_free(make_file("live/sbx_1.scratch", 3 << 20));
    const _Atomic bool cancel = true;
    struct dz_cold_copy copy = {0};
    struct dz_err err;
    uint8_t digest[DZ_SHA256_BYTES];
    CHECK_INT(dz_cold_pack(&c, ID, &cancel, &copy, &err), DZ_ECANCELED);
    CHECK_INT(dz_cold_has(&c, ID, DZ_COLD_ARCHIVE, NULL, &err), 0);
    CHECK_INT(dz_cold_freeze(&c, ID, NULL, &copy, &err), 0);
    CHECK_INT(dz_cold_hash(&c, ID, &cancel, digest, &err), DZ_ECANCELED);
    CHECK_INT(dz_cold_pack(&c, ID, NULL, &copy, &err), 0);
    CHECK_INT(dz_cold_verify(&c, ID, &copy, &cancel, &err), DZ_ECANCELED);
    CHECK_INT(dz_cold_drop(&c, ID, DZ_COLD_BIT(LIVE), &err), 0);
    CHECK_INT(dz_cold_thaw(&c, ID, &copy, &cancel, &err), DZ_ECANCELED);
    CHECK_INT(dz_cold_has(&c, ID, DZ_COLD_LIVE, NULL, &err), 0);
    CHECK_INT(dz_cold_sweep(&c, &err), 0);
    close_all(&c);
}

TORTURE(every_allocation_may_fail)
{
    struct dz_cold c = {0};
    struct dz_cold_copy copy;
    struct dz_err err;
    dir[0] = '\0';
    if (dz_fd_temp_dir("doze-cold", dir, &err) == 0 &&
        dz_blobs_open_dir(at("live"), &c.live, &err) == 0 &&
        dz_blobs_open_dir(at("cold"), &c.store, &err) == 0 &&
        dz_fd_replace(AT_FDCWD, at("live/sbx_1.scratch"), "abc", 3, 0600, &err) == 0) {
        int rc = dz_cold_pack(&c, ID, NULL, &copy, &err);
        if (rc == 0)
            rc = dz_cold_thaw(&c, ID, &copy, NULL, &err);
        if (rc == 0)
            rc = dz_cold_freeze(&c, ID, NULL, &copy, &err);
        CHECK(rc == 0 || rc == DZ_ENOMEM);
    }
    dz_blobs_free(c.live);
    dz_blobs_free(c.store);
    dz_mem_fail_at(-1, false);
    if (dir[0])
        CHECK_INT(dz_fd_remove_tree(AT_FDCWD, dir, NULL), 0);
}

/* --- a file that a replica has ---------------------------------------------------------------- */

struct far {
    const char *data;
    size_t n;
    int found, rc;
    unsigned restores, adopted;
};

static int find_far(void *arg, const char *id, struct dz_cold_point *ret)
{
    const struct far *f = arg;
    CHECK_STR(id, ID);
    (void)snprintf(ret->url, sizeof ret->url, "s3://bucket/replicas/" ID "?region=x");
    ret->txid = 0x2a5;
    return f->found;
}

static int restore_far(void *arg, const struct dz_cold_point *point, int fd,
                       struct dz_blob_progress *progress, dz_cold_cancel cancel, struct dz_err *e)
{
    struct far *f = arg;
    (void)progress, (void)cancel;
    CHECK_STR(point->url, "s3://bucket/replicas/" ID "?region=x");
    CHECK_INT(point->txid, 0x2a5);
    f->restores++;
    return f->rc < 0 ? dz_fail(e, f->rc, "no replica") : dz_fd_pwrite(fd, f->data, f->n, 0, e);
}

static void adopt_far(void *arg, const char *id, const struct dz_cold_point *point, int fd)
{
    struct far *f = arg;
    struct stat st;
    CHECK_STR(id, ID);
    CHECK_INT(point->txid, 0x2a5);
    CHECK_INT(fstat(fd, &st), 0);
    CHECK_INT(st.st_size, f->n);
    f->adopted++;
}

TEST(a_file_that_a_far_replica_has_is_not_stored_again)
{
    struct dz_cold c = open_all();
    const size_t n = 3 << 20;
    DZ_AUTO(dz_freep) char *data = make_file("live/" ID ".doze", n);
    struct far far = {.data = data, .n = n, .found = 1};
    const struct dz_cold_replicas replicas = {find_far, restore_far, adopt_far, &far};
    struct dz_cold_copy copy = {0};
    struct dz_err err;
    uint64_t size = 0;
    c.replicas = &replicas;
    CHECK_INT(dz_cold_freeze(&c, ID, NULL, &copy, &err), 0);
    CHECK_INT(copy.file, DZ_COLD_FROZEN); /* this store is not far: a copy costs no upload */
    CHECK_INT(dz_cold_drop(&c, ID, DZ_COLD_COPIES, &err), 0);

    c.store->far = true;
    far.found = 0;
    CHECK_INT(dz_cold_freeze(&c, ID, NULL, &copy, &err), 0);
    CHECK_INT(copy.file, DZ_COLD_FROZEN);
    CHECK_INT(dz_cold_drop(&c, ID, DZ_COLD_COPIES, &err), 0);

    far.found = 1;
    CHECK_INT(dz_cold_freeze(&c, ID, NULL, &copy, &err), 0);
    CHECK_INT(copy.file, DZ_COLD_REPLICA);
    CHECK_INT(copy.size, n);
    CHECK(copy.hashed);
    CHECK_INT(dz_cold_has(&c, ID, DZ_COLD_FROZEN, NULL, &err), 0);
    CHECK_INT(dz_cold_has(&c, ID, DZ_COLD_REPLICA, &size, &err), 1);
    CHECK(size < 128);
    CHECK_INT(dz_cold_drop(&c, ID, DZ_COLD_BIT(LIVE), &err), 0);
    CHECK_INT(dz_cold_thaw(&c, ID, &copy, NULL, &err), 0);
    CHECK(same("live/" ID ".doze", data, n));
    CHECK_INT(far.restores, 1);
    CHECK_INT(far.adopted, 1);

    /* A replica that has other bytes by now, or is gone, gives an error and no file. */
    CHECK_INT(dz_cold_drop(&c, ID, DZ_COLD_BIT(LIVE), &err), 0);
    data[n / 2] ^= 1;
    CHECK_INT(dz_cold_thaw(&c, ID, &copy, NULL, &err), DZ_ECORRUPT);
    data[n / 2] ^= 1;
    far.n--;
    CHECK_INT(dz_cold_thaw(&c, ID, &copy, NULL, &err), DZ_ECORRUPT);
    far.rc = DZ_ENOENT;
    CHECK_INT(dz_cold_thaw(&c, ID, &copy, NULL, &err), DZ_ENOENT);
    c.replicas = NULL;
    CHECK_INT(dz_cold_thaw(&c, ID, &copy, NULL, &err), DZ_EUNSUPPORTED);
    CHECK(strstr(err.msg, "s3://bucket/replicas/" ID));
    CHECK_INT(dz_cold_has(&c, ID, DZ_COLD_LIVE, NULL, &err), 0);
    CHECK_INT(far.adopted, 1);
    close_all(&c);
}

TEST(a_damaged_name_of_a_replica_is_refused)
{
    static const char *const names[] = {
        "",
        "doze replica 1\n",
        "doze replica 1\ns3://b/x\n",
        "doze replica 1\ns3://b/x\n00000000000002a\n",
        "doze replica 1\ns3://b/x\n00000000000002A5\n",
        "doze replica 1\ns3://b/x\n00000000000002a5",
        "doze replica 1\ns3://b/x\n00000000000002a5\n\n",
        "doze replica 2\ns3://b/x\n00000000000002a5\n",
    };
    struct dz_cold c = open_all();
    struct far far = {0};
    const struct dz_cold_replicas replicas = {find_far, restore_far, adopt_far, &far};
    const struct dz_cold_copy copy = {.file = DZ_COLD_REPLICA, .size = 9, .hashed = true};
    struct dz_err err;
    c.replicas = &replicas;
    for (size_t i = 0; i < DZ_ARRAY_LEN(names); i++) {
        CHECK_INT(dz_fd_replace(AT_FDCWD, at("cold/" ID ".replica"), names[i], strlen(names[i]),
                                0600, NULL),
                  0);
        CHECK_INT(dz_cold_thaw(&c, ID, &copy, NULL, &err), DZ_ECORRUPT);
    }
    CHECK_INT(far.restores, 0);
    close_all(&c);
}

static bool is_at(struct dz_blob_progress *p, uint64_t size)
{
    bool is = atomic_load(&p->done) == size && atomic_load(&p->total) == size;
    *p = (struct dz_blob_progress){0};
    return is;
}

TEST(each_step_tells_how_far_it_is)
{
    struct dz_cold c = open_all();
    struct dz_blob_progress p = {0};
    struct dz_cold_copy copy = {0};
    const size_t n = 3 << 20;
    char *data = make_file("live/" ID ".doze", n);
    c.progress = &p;
    CHECK_INT(dz_cold_freeze(&c, ID, NULL, &copy, NULL), 0);
    CHECK(is_at(&p, n));
    CHECK_INT(dz_cold_drop(&c, ID, DZ_COLD_BIT(LIVE), NULL), 0);
    CHECK_INT(dz_cold_thaw(&c, ID, &copy, NULL, NULL), 0);
    CHECK(is_at(&p, n));
    dz_free(data);
    data = make_file("live/" ID ".scratch", n);
    CHECK_INT(dz_cold_pack(&c, ID, NULL, &copy, NULL), 0);
    CHECK(is_at(&p, n));
    CHECK_INT(dz_cold_verify(&c, ID, &copy, NULL, NULL), 0);
    CHECK(atomic_load(&p.total) == copy.size && atomic_load(&p.done) == copy.size);
    CHECK_INT(dz_cold_drop(&c, ID, DZ_COLD_BIT(LIVE), NULL), 0);
    dz_free(data);
    close_all(&c);
}

/* SPDX-License-Identifier: MIT
 *
 * What every store must do; only open_empty knows which one is tested. And
 * what is particular to a directory.
 */
#include "../lib/dice.h"
#include "base/fd.h"
#include "blob/blob.h"
#include "tap.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* The store's calls come here first: which of them it made, in order. */
static char calls[64];

static void note(char c)
{
    size_t n = strlen(calls);
    if (n + 1 < sizeof calls)
        calls[n] = c;
}
int fsync(int fd)
{
    struct stat st;
    note(fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) ? 'd' : 'f');
    return (int)syscall(SYS_fsync, fd);
}
int renameat(int old_dir, const char *old_path, int new_dir, const char *new_path)
{
    note('r');
    return (int)syscall(SYS_renameat2, old_dir, old_path, new_dir, new_path, 0);
}

static char dir[DZ_TEMP_DIR_TEXT];

static struct dz_blobs *open_empty(void)
{
    struct dz_blobs *s = NULL;
    struct dz_err err = {0};
    char path[DZ_TEMP_DIR_TEXT + 8];
    CHECK_INT(dz_fd_temp_dir("doze-blob", dir, NULL), 0);
    (void)snprintf(path, sizeof path, "%s/a/b", dir);
    CHECK_INT(dz_blobs_open_dir(path, &s, &err), 0);
    return s;
}

static void close_all(struct dz_blobs *s)
{
    dz_blobs_free(s);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, dir, NULL), 0);
}

static int put(struct dz_blobs *s, const char *key, const void *data, size_t n, struct dz_err *err)
{
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    int rc = dz_blob_out_open(s, key, &out, err);
    if (rc == 0)
        rc = dz_blob_out_write(out, data, n / 2, err);
    if (rc == 0)
        rc = dz_blob_out_write(out, (const char *)data + n / 2, n - n / 2, err);
    return rc < 0 ? rc : dz_blob_out_commit(out, err);
}

static bool holds(struct dz_blobs *s, const char *key, const void *data, size_t n)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    DZ_AUTO(dz_freep) char *got = dz_alloc(n);
    return got && dz_blob_in_open(s, key, &in, NULL) == 0 && in->size == n &&
           dz_blob_in_read(in, got, n, 0, NULL) == 0 && memcmp(got, data, n) == 0;
}

static int count_key(void *arg, const char *key, uint64_t size)
{
    *(uint64_t *)arg += size + (uint64_t)strlen(key) * 1000;
    return 0;
}

TEST(an_object_is_there_after_commit_and_not_before)
{
    struct dz_blobs *s = open_empty();
    struct dz_blob_out *out = NULL;
    uint64_t size = 77;
    CHECK_INT(dz_blob_out_open(s, "a.b", &out, NULL), 0);
    CHECK_INT(dz_blob_out_write(out, "hello", 5, NULL), 0);
    CHECK_INT(dz_blobs_stat(s, "a.b", &size, NULL), DZ_ENOENT);
    CHECK_INT(size, 77);
    CHECK_INT(dz_blob_out_commit(out, NULL), 0);
    dz_blob_out_close(out);
    CHECK_INT(dz_blobs_stat(s, "a.b", &size, NULL), 0);
    CHECK_INT(size, 5);
    CHECK(holds(s, "a.b", "hello", 5));
    CHECK_INT(dz_blob_out_open(s, "a.b", &out, NULL), 0); /* a writer that gives up */
    CHECK_INT(dz_blob_out_write(out, "worse", 5, NULL), 0);
    dz_blob_out_close(out);
    CHECK(holds(s, "a.b", "hello", 5));
    CHECK_INT(dz_blob_out_open(s, "a.b", &out, NULL), 0);
    CHECK_INT(dz_blob_out_write(out, "claimed", 7, NULL), 0);
    out->claimed = true; /* named before it is durable; the same in the end */
    CHECK(holds(s, "a.b", "hello", 5));
    CHECK_INT(dz_blob_out_commit(out, NULL), 0);
    dz_blob_out_close(out);
    CHECK(holds(s, "a.b", "claimed", 7));
    close_all(s);
}

TEST(what_is_written_ahead_gets_its_name_with_the_commit)
{
    struct dz_blobs *s = open_empty();
    struct dz_blob_out *out = NULL;
    uint64_t size = 77;
    CHECK_INT(dz_blob_out_open(s, "ahead", &out, NULL), 0);
    CHECK_INT(dz_blob_out_write(out, "hello", 5, NULL), 0);
    CHECK_INT(dz_blob_out_sync(out, NULL), 0);
    CHECK_INT(dz_blob_out_rename(out, "../a", NULL), DZ_EINVAL);
    CHECK_INT(dz_blobs_stat(s, "ahead", &size, NULL), DZ_ENOENT);
    int rc = dz_blob_out_rename(out, "a.b", NULL);
    CHECK(rc == 0 || rc == DZ_EUNSUPPORTED);
    CHECK_INT(dz_blob_out_commit(out, NULL), 0);
    dz_blob_out_close(out);
    CHECK(holds(s, rc == 0 ? "a.b" : "ahead", "hello", 5));
    CHECK_INT(dz_blobs_stat(s, rc == 0 ? "ahead" : "a.b", &size, NULL), DZ_ENOENT);
    close_all(s);
}

TEST(a_commit_replaces_and_old_readers_keep_what_they_read)
{
    struct dz_blobs *s = open_empty();
    struct dz_blob_in *in = NULL;
    char got[3];
    CHECK_INT(put(s, "k", "one", 3, NULL), 0);
    CHECK_INT(dz_blob_in_open(s, "k", &in, NULL), 0);
    CHECK_INT(put(s, "k", "three", 5, NULL), 0);
    CHECK_INT(dz_blob_in_read(in, got, 3, 0, NULL), 0);
    CHECK(memcmp(got, "one", 3) == 0);
    CHECK_INT(dz_blob_in_read(in, got, 1, 2, NULL), 0);
    CHECK_INT(dz_blob_in_read(in, got, 1, 3, NULL), DZ_EIO);
    CHECK_INT(dz_blob_in_read(in, got, 2, UINT64_MAX, NULL), DZ_EIO);
    dz_blob_in_close(in);
    CHECK(holds(s, "k", "three", 5));
    close_all(s);
}

static int read_whatever(struct dz_blob_in *in, void *buf, size_t n, uint64_t at,
                         struct dz_err *err)
{
    (void)in, (void)at, (void)err;
    memset(buf, 0, n);
    return 0;
}

/* The bound is that of the object, not of the store that reads it. */
TEST(no_store_is_asked_for_bytes_beyond_the_end)
{
    static const struct dz_blob_in_ops ops = {.read = read_whatever};
    struct dz_blob_in in = {&ops, 10, -1};
    char got[12];
    CHECK_INT(dz_blob_in_read(&in, got, 4, 6, NULL), 0);
    CHECK_INT(dz_blob_in_read(&in, got, 0, 10, NULL), 0);
    CHECK_INT(dz_blob_in_read(&in, got, 5, 6, NULL), DZ_EIO);
    CHECK_INT(dz_blob_in_read(&in, got, 1, 10, NULL), DZ_EIO);
    CHECK_INT(dz_blob_in_read(&in, got, 0, 11, NULL), DZ_EIO);
}

TEST(removing_and_listing)
{
    struct dz_blobs *s = open_empty();
    uint64_t sum = 0;
    CHECK_INT(put(s, "aa", "12", 2, NULL), 0);
    CHECK_INT(put(s, "b", "", 0, NULL), 0);
    CHECK_INT(dz_blobs_list(s, count_key, &sum, NULL), 0);
    CHECK_INT(sum, 3002);
    CHECK_INT(dz_blobs_remove(s, "aa", NULL), 0);
    CHECK_INT(dz_blobs_remove(s, "aa", NULL), 0);
    sum = 0;
    CHECK_INT(dz_blobs_list(s, count_key, &sum, NULL), 0);
    CHECK_INT(sum, 1000);
    close_all(s);
}

TEST(keys_cannot_leave_the_store)
{
    static const char *const bad[] = {"", ".", "..", ".x", "a/b", "../a", "a b", "a\n", "\xc3\xa9"};
    char longest[DZ_BLOB_KEY_MAX + 2];
    struct dz_blobs *s = open_empty();
    struct dz_err err;
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        CHECK_INT(put(s, bad[i], "x", 1, &err), DZ_EINVAL);
        CHECK_INT(dz_blobs_remove(s, bad[i], &err), DZ_EINVAL);
    }
    memset(longest, 'k', sizeof longest);
    longest[DZ_BLOB_KEY_MAX + 1] = '\0';
    CHECK_INT(put(s, longest, "x", 1, &err), DZ_EINVAL);
    longest[DZ_BLOB_KEY_MAX] = '\0';
    CHECK_INT(put(s, longest, "x", 1, &err), 0);
    close_all(s);
}

/* --- copying --------------------------------------------------------------------- */

/* A reader without a descriptor, as of a store far away. */
struct far_in {
    struct dz_blob_in head;
    struct dz_blob_in *near;
    _Atomic bool *cancel_at;
};
static int far_read(struct dz_blob_in *in, void *buf, size_t n, uint64_t at, struct dz_err *err)
{
    const struct far_in *f = (const struct far_in *)in;
    if (f->cancel_at && at > 0)
        atomic_store(f->cancel_at, true);
    return dz_blob_in_read(f->near, buf, n, at, err);
}
static void far_close(struct dz_blob_in *in)
{
    (void)in;
}
static const struct dz_blob_in_ops far_ops = {far_read, far_close};

static char *make_data(size_t n)
{
    uint64_t seed = n + 1;
    char *data = dz_alloc(n);
    for (size_t k = 0; k < n; k++)
        data[k] = (char)(k % 512 ? k >> 3 : dice_roll(&seed));
    return data;
}

/* As blob.h defines it, in the plainest way. */
static void plain_hash(const char *data, size_t n, uint8_t ret_digest[static DZ_SHA256_BYTES])
{
    uint8_t pieces[16][DZ_SHA256_BYTES];
    size_t count = 0;
    if (n <= DZ_BLOB_HASH_PIECE) {
        CHECK_INT(dz_sha256(data, n, ret_digest, NULL), 0);
        return;
    }
    for (size_t at = 0; at < n; at += DZ_BLOB_HASH_PIECE) {
        size_t rest = n - at;
        CHECK_INT(dz_sha256(data + at, rest < DZ_BLOB_HASH_PIECE ? rest : DZ_BLOB_HASH_PIECE,
                            pieces[count++], NULL),
                  0);
    }
    CHECK_INT(dz_sha256(pieces, count * DZ_SHA256_BYTES, ret_digest, NULL), 0);
}

static void check_copy(struct dz_blobs *s, size_t n, bool far)
{
    DZ_AUTO(dz_freep) char *data = make_data(n);
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    struct dz_blob_copied copied = {0};
    uint8_t want[DZ_SHA256_BYTES], again[DZ_SHA256_BYTES];
    CHECK_INT(put(s, "from", data, n, NULL), 0);
    plain_hash(data, n, want);
    CHECK_INT(dz_blob_in_open(s, "from", &in, NULL), 0);
    CHECK_INT(dz_blob_out_open(s, "to", &out, NULL), 0);
    struct far_in f = {{&far_ops, in->size, -1}, in, NULL};
    CHECK_INT(
        dz_blob_copy(far ? &f.head : in, out, &(struct dz_blob_copy){.hash = true}, &copied, NULL),
        0);
    CHECK_INT(dz_blob_out_commit(out, NULL), 0);
    CHECK_INT(copied.size, n);
    CHECK(copied.hashed);
    CHECK(memcmp(copied.sha256, want, sizeof want) == 0);
    CHECK_INT(dz_blob_hash(in, NULL, again, NULL), 0);
    CHECK(memcmp(again, want, sizeof want) == 0);
    CHECK(holds(s, "to", data, n));
}

TEST(a_copy_has_the_same_bytes_and_their_hash)
{
    static const size_t sizes[] = {0,
                                   1,
                                   4096,
                                   DZ_BLOB_PIECE,
                                   3 * DZ_BLOB_PIECE + 17,
                                   DZ_BLOB_HASH_PIECE,
                                   DZ_BLOB_HASH_PIECE + 1,
                                   3 * DZ_BLOB_HASH_PIECE,
                                   40 << 20};
    struct dz_blobs *s = open_empty();
    for (size_t i = 0; i < DZ_ARRAY_LEN(sizes); i++) {
        check_copy(s, sizes[i], false);
        check_copy(s, sizes[i], true);
    }
    close_all(s);
}

TEST(a_copy_that_is_called_off_leaves_nothing)
{
    struct dz_blobs *s = open_empty();
    for (int far = 0; far < 2; far++) {
        DZ_AUTO(dz_freep) char *data = make_data(5 * DZ_BLOB_PIECE);
        DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
        struct dz_blob_out *out = NULL;
        struct dz_blob_copied copied = {.size = 5};
        struct dz_err err;
        uint64_t size;
        _Atomic bool cancel = !far;
        CHECK_INT(put(s, "from", data, 5 * DZ_BLOB_PIECE, NULL), 0);
        CHECK_INT(dz_blob_in_open(s, "from", &in, NULL), 0);
        CHECK_INT(dz_blob_out_open(s, "to", &out, NULL), 0);
        struct far_in f = {{&far_ops, in->size, -1}, in, &cancel};
        CHECK_INT(dz_blob_copy(far ? &f.head : in, out,
                               &(struct dz_blob_copy){.cancel = &cancel, .hash = true}, &copied,
                               &err),
                  DZ_ECANCELED);
        CHECK_INT(copied.size, 5);
        dz_blob_out_close(out);
        CHECK_INT(dz_blobs_stat(s, "to", &size, NULL), DZ_ENOENT);
    }
    close_all(s);
}

TORTURE(every_allocation_of_a_copy_may_fail)
{
    struct dz_blobs *s = NULL;
    struct dz_err err;
    char path[DZ_TEMP_DIR_TEXT] = "";
    if (dz_fd_temp_dir("doze-blob", path, &err) == 0 && dz_blobs_open_dir(path, &s, &err) == 0 &&
        put(s, "from", "abc", 3, &err) == 0) {
        DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
        DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
        struct dz_blob_copied copied;
        int rc = dz_blob_in_open(s, "from", &in, &err);
        if (rc == 0)
            rc = dz_blob_out_open(s, "to", &out, &err);
        if (rc == 0)
            rc = dz_blob_copy(in, out, &(struct dz_blob_copy){0}, &copied, &err);
        CHECK(rc == 0 || rc == DZ_ENOMEM);
    }
    dz_blobs_free(s);
    dz_mem_fail_at(-1, false);
    if (path[0])
        CHECK_INT(dz_fd_remove_tree(AT_FDCWD, path, NULL), 0);
}

/* --- a directory ------------------------------------------------------------------- */

TEST(files_are_private_and_crashed_writers_are_swept_up)
{
    struct dz_blobs *s = open_empty();
    char path[DZ_TEMP_DIR_TEXT + 32];
    struct stat st;
    struct dz_blob_out *out = NULL;
    CHECK_INT(put(s, "k", "one", 3, NULL), 0);
    (void)snprintf(path, sizeof path, "%s/a/b/k", dir);
    CHECK_INT(stat(path, &st), 0);
    CHECK_INT(st.st_mode & 0777, 0600);
    (void)snprintf(path, sizeof path, "%s/a/b/.k.1.tmp", dir); /* as a crash leaves it */
    CHECK_INT(dz_fd_replace(AT_FDCWD, path, "xx", 2, 0600, NULL), 0);
    CHECK_INT(dz_blob_out_open(s, "k", &out, NULL), 0); /* finds another name */
    CHECK_INT(dz_blob_out_write(out, "two", 3, NULL), 0);
    CHECK_INT(dz_blob_out_commit(out, NULL), 0);
    dz_blob_out_close(out);
    CHECK(holds(s, "k", "two", 3));
    CHECK_INT(access(path, F_OK), 0);
    CHECK_INT(dz_blobs_sweep(s, NULL), 0);
    CHECK_INT(access(path, F_OK), -1);
    CHECK(holds(s, "k", "two", 3));
    close_all(s);
}

TEST(what_is_no_plain_file_is_refused)
{
    struct dz_blobs *s = open_empty();
    char path[DZ_TEMP_DIR_TEXT + 32];
    struct dz_blob_in *in = NULL;
    uint64_t size, sum = 0;
    (void)snprintf(path, sizeof path, "%s/a/b/link", dir);
    CHECK_INT(symlink("/etc/passwd", path), 0);
    (void)snprintf(path, sizeof path, "%s/a/b/dir", dir);
    CHECK_INT(mkdir(path, 0700), 0);
    CHECK(dz_blob_in_open(s, "link", &in, NULL) < 0);
    CHECK_INT(dz_blobs_stat(s, "link", &size, NULL), DZ_EINVAL);
    CHECK_INT(dz_blob_in_open(s, "dir", &in, NULL), DZ_EINVAL);
    CHECK_INT(dz_blobs_list(s, count_key, &sum, NULL), 0);
    CHECK_INT(sum, 0);
    close_all(s);
}

/* --- what a power cut may take ----------------------------------------------------------- */

static size_t copy_most; /* of one call; 0: none are copied, as of a file that became shorter */
static bool copy_little;

ssize_t copy_file_range(int from, off_t *from_at, int to, off_t *to_at, size_t n, unsigned flags)
{
    if (copy_little && copy_most == 0)
        return 0;
    n = copy_little && n > copy_most ? copy_most : n;
    return syscall(SYS_copy_file_range, from, from_at, to, to_at, n, flags);
}

static int copy_in_pieces(struct dz_blobs *s, size_t n, size_t most)
{
    DZ_AUTO(dz_freep) char *data = make_data(n);
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    struct dz_blob_copied copied = {0};
    CHECK_INT(put(s, "from", data, n, NULL), 0);
    CHECK_INT(dz_blob_in_open(s, "from", &in, NULL), 0);
    CHECK_INT(dz_blob_out_open(s, "to", &out, NULL), 0);
    copy_little = true;
    copy_most = most;
    int rc = dz_blob_copy(in, out, &(struct dz_blob_copy){.hash = true}, &copied, NULL);
    copy_little = false;
    if (rc < 0)
        return rc;
    CHECK_INT(dz_blob_out_commit(out, NULL), 0);
    CHECK(holds(s, "to", data, n));
    return copied.cloned ? 1 : 0;
}

/* The system copies as much as it likes at a time. */
TEST(a_copy_in_small_pieces_is_whole)
{
    struct dz_blobs *s = open_empty();
    int rc = copy_in_pieces(s, 100000, 7777);
    CHECK(rc == 0 || rc == 1);
    CHECK_INT(copy_in_pieces(s, 100000, 0), rc == 1 ? 1 : DZ_EIO);
    close_all(s);
}

static const char *calls_of_commit(struct dz_blobs *s, bool ahead, bool claimed)
{
    struct dz_blob_out *out = NULL;
    memset(calls, 0, sizeof calls);
    CHECK_INT(dz_blob_out_open(s, "k", &out, NULL), 0);
    CHECK_INT(dz_blob_out_write(out, "hello", 5, NULL), 0);
    if (ahead)
        CHECK_INT(dz_blob_out_sync(out, NULL), 0);
    out->claimed = claimed;
    CHECK_INT(dz_blob_out_commit(out, NULL), 0);
    dz_blob_out_close(out);
    return calls;
}

/* f: a file is synced, d: its directory, r: it is renamed. After a commit or a removal the name
 * is as durable as the bytes. */
TEST(names_and_bytes_are_synced_in_order)
{
    struct dz_blobs *s = open_empty();
    CHECK_STR(calls_of_commit(s, false, false), "frd");
    CHECK_STR(calls_of_commit(s, true, false), "frd");
    CHECK_STR(calls_of_commit(s, false, true), "rfd");
    CHECK_STR(calls_of_commit(s, true, true), "frd");
    memset(calls, 0, sizeof calls);
    CHECK_INT(dz_blobs_remove(s, "k", NULL), 0);
    CHECK_STR(calls, "d");
    CHECK_INT(dz_blobs_remove(s, "k", NULL), 0); /* nothing was there, nothing to sync */
    CHECK_STR(calls, "d");
    close_all(s);
}

static int count_keys(void *arg, const char *key, uint64_t size)
{
    (void)key, (void)size;
    ++*(int *)arg;
    return 0;
}

static bool is_in_dir(const char *name)
{
    char path[sizeof dir + 300];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/a/b/%s", dir, name);
    return lstat(path, &st) == 0;
}

/* What a writer leaves when it gives up, and what is nobody's object. */
TEST(files_that_are_no_objects_are_told_apart)
{
    struct dz_blobs *s = open_empty();
    struct dz_blob_out *out = NULL;
    char long_name[DZ_BLOB_KEY_MAX + 2], path[sizeof dir + 300];
    int keys = 0;
    CHECK_INT(dz_blob_out_open(s, "k", &out, NULL), 0);
    dz_blob_out_close(out);
    CHECK(!is_in_dir(".k.0.tmp"));
    CHECK_INT(put(s, "k.tmp", "mine", 4, NULL), 0);
    memset(long_name, 'x', sizeof long_name);
    long_name[DZ_BLOB_KEY_MAX + 1] = '\0';
    (void)snprintf(path, sizeof path, "%s/a/b/%s", dir, long_name);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    (void)close(fd);
    (void)snprintf(path, sizeof path, "%s/a/b/%s", dir, "other");
    CHECK_INT(mkdir(path, 0700), 0);
    CHECK_INT(dz_blobs_list(s, count_keys, &keys, NULL), 0);
    CHECK_INT(keys, 1);
    CHECK_INT(dz_blobs_sweep(s, NULL), 0);
    CHECK(is_in_dir("k.tmp"));
    close_all(s);
}

TEST(a_store_may_keep_an_objects_key)
{
    static const struct dz_blob_out_ops ops = {0};
    struct dz_blob_out out = {.ops = &ops, .fd = -1};
    struct dz_err err = {0};
    CHECK_INT(dz_blob_out_rename(&out, "other", &err), DZ_EUNSUPPORTED);
    CHECK_INT(dz_blob_out_sync(&out, &err), 0);
}

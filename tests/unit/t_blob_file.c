/* SPDX-License-Identifier: MIT
 *
 * A directory as a store: what every store must do, and what is particular to this one.
 */
#include "../lib/blob_conform.h"
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

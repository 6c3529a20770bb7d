/* SPDX-License-Identifier: MIT
 *
 * blob_conform.h - the conformance test for stores. A test includes it and passes an empty store.
 */
#ifndef DZ_TESTS_BLOB_CONFORM_H
#define DZ_TESTS_BLOB_CONFORM_H

#include "base/mem.h"
#include "blob/blob.h"
#include "dice.h"
#include "tap.h"

#include <stdatomic.h>
#include <string.h>

static struct dz_blobs *open_empty(void);
static void close_all(struct dz_blobs *s);

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
    out->claimed = true; /* named before it is durable; the result is the same */
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

TEST(what_may_only_be_new_replaces_nothing)
{
    struct dz_blobs *s = open_empty();
    for (int i = 0; i < 2; i++) {
        DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
        CHECK_INT(dz_blob_out_open(s, "k", &out, NULL), 0);
        CHECK_INT(dz_blob_out_write(out, i == 0 ? "one" : "two", 3, NULL), 0);
        out->only_new = true;
        CHECK_INT(dz_blob_out_commit(out, NULL), i == 0 ? 0 : DZ_EEXIST);
    }
    CHECK(holds(s, "k", "one", 3));
    close_all(s);
}

static int read_whatever(struct dz_blob_in *in, void *buf, size_t n, uint64_t at,
                         struct dz_err *err)
{
    (void)in, (void)at, (void)err;
    memset(buf, 0, n);
    return 0;
}

/* A read is limited by the object's size, not by the store that holds it. */
TEST(no_store_is_asked_for_bytes_beyond_the_end)
{
    static const struct dz_blob_in_ops ops = {.read = read_whatever};
    struct dz_blob_in in = {.ops = &ops, .size = 10, .fd = -1};
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

/* A reader without a descriptor, like that of a remote store. */
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

/* The hash as blob.h defines it, computed in the simplest way. */
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
    struct dz_err err = {0};
    CHECK_INT(put(s, "from", data, n, NULL), 0);
    plain_hash(data, n, want);
    CHECK_INT(dz_blob_in_open(s, "from", &in, NULL), 0);
    CHECK_INT(dz_blob_out_open(s, "to", &out, NULL), 0);
    struct far_in f = {{.ops = &far_ops, .size = in->size, .fd = -1}, in, NULL};
    CHECK_INT(
        dz_blob_copy(far ? &f.head : in, out, &(struct dz_blob_copy){.hash = true}, &copied, &err),
        0);
    CHECK_STR(err.msg, "");
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
        struct far_in f = {{.ops = &far_ops, .size = in->size, .fd = -1}, in, &cancel};
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

#endif

/* SPDX-License-Identifier: MIT
 *
 * Encrypted objects: what every store must do, what a reader notices, and keys.
 */
#include "../lib/blob_conform.h"
#include "base/fd.h"
#include "blob/blob_crypt.h"
#include "blob/blob_open.h"

#include <stdio.h>
#include <sys/stat.h>

enum {
    CHUNK = 64 << 10,
    HEADER = 64,
    TAG = 16,
};
static char top[DZ_TEMP_DIR_TEXT], key_path[DZ_TEMP_DIR_TEXT + 16],
    store_path[DZ_TEMP_DIR_TEXT + 16];

static void set_up(void)
{
    CHECK_INT(dz_fd_temp_dir("doze-crypt", top, NULL), 0);
    (void)snprintf(key_path, sizeof key_path, "%s/key", top);
    (void)snprintf(store_path, sizeof store_path, "%s/store", top);
    CHECK_INT(dz_blob_keys_make(key_path, NULL), 0);
}

static struct dz_blobs *open_plain(void)
{
    struct dz_blobs *s = NULL;
    CHECK_INT(dz_blobs_open_dir(store_path, &s, NULL), 0);
    return s;
}

static struct dz_blobs *open_with(const char *path)
{
    struct dz_blobs *s = NULL;
    struct dz_blob_keys *keys = NULL;
    CHECK_INT(dz_blob_keys_load(path, &keys, NULL), 0);
    CHECK_INT(dz_blobs_encrypt(open_plain(), keys, &s, NULL), 0);
    return s;
}

static struct dz_blobs *open_empty(void)
{
    set_up();
    return open_with(key_path);
}

static void close_all(struct dz_blobs *s)
{
    dz_blobs_free(s);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, top, NULL), 0);
}

static char *read_all(struct dz_blobs *s, const char *key, size_t *ret_size)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    CHECK_INT(dz_blob_in_open(s, key, &in, NULL), 0);
    char *data = dz_alloc(in->size + 1);
    CHECK_INT(dz_blob_in_read(in, data, in->size, 0, NULL), 0);
    *ret_size = in->size;
    return data;
}

/* Read an object in order, a part at a time. */
static int read_through(struct dz_blobs *s, const char *key, struct dz_err *err)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    char part[1000];
    int rc = dz_blob_in_open(s, key, &in, err);
    for (uint64_t at = 0; rc == 0 && at < in->size;) {
        size_t n = in->size - at < sizeof part ? (size_t)(in->size - at) : sizeof part;
        rc = dz_blob_in_read(in, part, n, at, err);
        at += n;
    }
    return rc;
}

TEST(sizes_are_those_of_the_content)
{
    static const size_t sizes[] = {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 5 * CHUNK + 77};
    struct dz_blobs *s = open_empty(), *plain = open_plain();
    for (size_t i = 0; i < DZ_ARRAY_LEN(sizes); i++) {
        DZ_AUTO(dz_freep) char *data = make_data(sizes[i]);
        uint64_t size = 0, sum = 0, chunks = sizes[i] == 0 ? 1 : (sizes[i] + CHUNK - 1) / CHUNK;
        CHECK_INT(put(s, "k", data, sizes[i], NULL), 0);
        CHECK(holds(s, "k", data, sizes[i]));
        CHECK_INT(dz_blobs_stat(s, "k", &size, NULL), 0);
        CHECK_INT(size, sizes[i]);
        CHECK_INT(dz_blobs_list(s, count_key, &sum, NULL), 0);
        CHECK_INT(sum, sizes[i] + 1000);
        CHECK_INT(dz_blobs_stat(plain, "k", &size, NULL), 0);
        CHECK_INT(size, HEADER + sizes[i] + chunks * TAG);
    }
    dz_blobs_free(plain);
    close_all(s);
}

TEST(a_reader_begins_anywhere)
{
    struct dz_blobs *s = open_empty();
    size_t n = 3 * CHUNK + 100;
    DZ_AUTO(dz_freep) char *data = make_data(n);
    DZ_AUTO(dz_freep) char *got = dz_alloc(n);
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    uint64_t seed = 7;
    CHECK_INT(put(s, "k", data, n, NULL), 0);
    CHECK_INT(dz_blob_in_open(s, "k", &in, NULL), 0);
    for (int i = 0; i < 300; i++) {
        size_t at = dice_below(&seed, (uint32_t)n),
               some = dice_below(&seed, (uint32_t)(n - at)) + 1;
        CHECK_INT(dz_blob_in_read(in, got, some, at, NULL), 0);
        CHECK(memcmp(got, data + at, some) == 0);
    }
    dz_blob_in_close(DZ_TAKE_PTR(in));
    close_all(s);
}

TEST(no_content_and_no_pattern_is_stored)
{
    struct dz_blobs *s = open_empty(), *plain = open_plain();
    size_t n = 0, m = 0;
    DZ_AUTO(dz_freep) char *zeros = dz_zalloc(2 * CHUNK);
    CHECK_INT(put(s, "a", zeros, 2 * CHUNK, NULL), 0);
    DZ_AUTO(dz_freep) char *first = read_all(plain, "a", &n);
    CHECK_INT(put(s, "a", zeros, 2 * CHUNK, NULL), 0);
    DZ_AUTO(dz_freep) char *second = read_all(plain, "a", &m);
    CHECK_INT(n, m);
    CHECK(dz_blob_is_encrypted(first, n));
    CHECK(memcmp(first + HEADER, second + HEADER, n - HEADER) != 0); /* another key for each */
    CHECK(memcmp(first + HEADER, first + HEADER + CHUNK + TAG, CHUNK) != 0);
    for (size_t at = HEADER; at + 16 <= n; at += 16)
        CHECK(memcmp(first + at, zeros, 16) != 0);
    dz_blobs_free(plain);
    close_all(s);
}

TEST(every_change_is_noticed)
{
    struct dz_blobs *s = open_empty(), *plain = open_plain();
    struct dz_err err;
    size_t n = 0, size = 2 * CHUNK + 50;
    DZ_AUTO(dz_freep) char *data = make_data(size);
    CHECK_INT(put(s, "k", data, size, NULL), 0);
    DZ_AUTO(dz_freep) char *stored = read_all(plain, "k", &n);
    DZ_AUTO(dz_freep) char *bad = dz_alloc(n);
    for (size_t at = 0; at < n;
         at += at < 100 || at > n - 40 ? 1 : 4099) { /* each byte of the header */
        memcpy(bad, stored, n);
        bad[at] = (char)(bad[at] ^ 4);
        CHECK_INT(put(plain, "k", bad, n, NULL), 0);
        int rc = read_through(s, "k", &err);
        CHECK(rc == DZ_ECORRUPT || (at >= 8 && at < 16 && rc == DZ_EDENIED));
    }
    /* cut, also where a chunk ends */
    static const size_t cuts[] = {0,
                                  1,
                                  HEADER,
                                  HEADER + TAG - 1,
                                  HEADER + TAG,
                                  HEADER + CHUNK + TAG,
                                  HEADER + CHUNK + TAG + 1,
                                  HEADER + 2 * (CHUNK + TAG)};
    for (size_t i = 0; i < DZ_ARRAY_LEN(cuts); i++) {
        CHECK_INT(put(plain, "k", stored, cuts[i], NULL), 0);
        CHECK_INT(read_through(s, "k", &err), DZ_ECORRUPT);
    }
    /* the first two chunks exchanged */
    memcpy(bad, stored, n);
    memcpy(bad + HEADER, stored + HEADER + CHUNK + TAG, CHUNK + TAG);
    memcpy(bad + HEADER + CHUNK + TAG, stored + HEADER, CHUNK + TAG);
    CHECK_INT(put(plain, "k", bad, n, NULL), 0);
    CHECK_INT(read_through(s, "k", &err), DZ_ECORRUPT);
    CHECK(strstr(err.msg, "the object k cannot be decrypted from byte 0 on"));
    CHECK_INT(put(plain, "other", stored, n, NULL), 0); /* the name of another object */
    CHECK_INT(read_through(s, "other", &err), DZ_ECORRUPT);
    CHECK_INT(put(plain, "k", stored, n, NULL), 0);
    CHECK_INT(read_through(s, "k", &err), 0);
    dz_blobs_free(plain);
    close_all(s);
}

TEST(an_object_that_is_not_encrypted_is_refused)
{
    struct dz_blobs *s = open_empty(), *plain = open_plain();
    struct dz_err err;
    uint64_t size = 0;
    DZ_AUTO(dz_freep) char *data = make_data(1000);
    CHECK_INT(put(plain, "k", data, 1000, NULL), 0);
    CHECK_INT(read_through(s, "k", &err), DZ_ECORRUPT);
    CHECK(strstr(err.msg, "is not encrypted"));
    CHECK_INT(put(plain, "k", "x", 1, NULL), 0);
    CHECK_INT(dz_blobs_stat(s, "k", &size, &err), DZ_ECORRUPT);
    CHECK_INT(read_through(s, "none", &err), DZ_ENOENT);
    dz_blobs_free(plain);
    close_all(s);
}

static void write_file(const char *path, const char *text)
{
    CHECK_INT(dz_fd_replace(AT_FDCWD, path, text, strlen(text), 0600, NULL), 0);
}

TEST(a_new_key_encrypts_and_the_old_one_still_decrypts)
{
    struct dz_blobs *s = open_empty();
    struct dz_err err;
    char first[DZ_BLOB_KEY_ID_TEXT], id[DZ_BLOB_KEY_ID_TEXT], path[sizeof key_path + 8];
    struct dz_blob_keys *keys = NULL;
    struct dz_buf old = DZ_BUF_INIT(1 << 16), both = DZ_BUF_INIT(1 << 16);
    CHECK_INT(put(s, "old", "1", 1, NULL), 0);
    dz_blobs_free(s);
    CHECK_INT(dz_blob_keys_load(key_path, &keys, NULL), 0);
    CHECK_INT(dz_blob_keys_count(keys), 1);
    (void)dz_blob_keys_id(keys, 0, first);
    dz_blob_keys_free(keys);
    CHECK_INT(dz_fd_read_file(AT_FDCWD, key_path, &old, NULL), 0);
    (void)snprintf(path, sizeof path, "%s.new", key_path);
    CHECK_INT(dz_blob_keys_make(path, NULL), 0);
    s = open_with(path); /* only the new one */
    CHECK_INT(read_through(s, "old", &err), DZ_EDENIED);
    CHECK(strstr(err.msg, first) && strstr(err.msg, path));
    dz_blobs_free(s);
    CHECK_INT(dz_fd_read_file(AT_FDCWD, path, &both, NULL), 0);
    dz_buf_adds(&both, old.p);
    write_file(path, both.p);
    s = open_with(path);
    CHECK_INT(put(s, "new", "2", 1, NULL), 0);
    CHECK(holds(s, "old", "1", 1) && holds(s, "new", "2", 1));
    dz_blobs_free(s);
    s = open_with(key_path);
    CHECK_INT(read_through(s, "new", &err), DZ_EDENIED);
    CHECK_INT(dz_blob_keys_load(path, &keys, NULL), 0);
    CHECK_INT(dz_blob_keys_count(keys), 2);
    CHECK_STR(dz_blob_keys_id(keys, 1, id), first);
    dz_blob_keys_free(keys);
    dz_buf_release(&old);
    dz_buf_release(&both);
    close_all(s);
}

TEST(a_key_file_that_is_none_is_refused)
{
    static const char *const bad[] = {
        "",
        "# only this\n",
        "doze-key-1:00\n",
        "doze-key-2:0000000000000000000000000000000000000000000000000000000000000000\n",
        "doze-key-1:000000000000000000000000000000000000000000000000000000000000000g\n",
    };
    struct dz_blob_keys *keys = NULL;
    struct dz_err err;
    struct stat st;
    set_up();
    CHECK_INT(stat(key_path, &st), 0);
    CHECK_INT(st.st_mode & 0777, 0600);
    CHECK_INT(dz_blob_keys_make(key_path, &err), DZ_EEXIST);
    CHECK_INT(chmod(key_path, 0640), 0);
    CHECK_INT(dz_blob_keys_load(key_path, &keys, &err), DZ_EDENIED);
    CHECK(strstr(err.msg, "chmod 600"));
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        write_file(key_path, bad[i]);
        CHECK_INT(dz_blob_keys_load(key_path, &keys, &err), DZ_EINVAL);
        CHECK(!strstr(err.msg, "0000"));
    }
    struct dz_buf many = DZ_BUF_INIT(1 << 16);
    for (int i = 0; i <= DZ_BLOB_KEYS_MAX; i++)
        dz_buf_addf(&many, "doze-key-1:%064d\n", i);
    write_file(key_path, many.p);
    CHECK_INT(dz_blob_keys_load(key_path, &keys, &err), DZ_EINVAL);
    dz_buf_release(&many);
    (void)snprintf(key_path, sizeof key_path, "%s/none", top);
    CHECK_INT(dz_blob_keys_load(key_path, &keys, &err), DZ_ENOENT);
    CHECK(strstr(err.msg, "doze key new"));
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, top, NULL), 0);
}

/* A store that was used without a key is not used with one, and the other way round. */
TEST(a_claim_says_whether_the_store_is_encrypted)
{
    static const char owner[] = "0123456789abcdef0123456789abcdef";
    char url[sizeof store_path + 16];
    struct dz_blobs *plain = NULL, *crypt = NULL;
    struct dz_err err;
    set_up();
    for (int i = 0; i < 2; i++) {
        (void)snprintf(url, sizeof url, "file://%s/store%d", top, i);
        const struct dz_blobs_place without = {.url = url, .owner = owner},
                                    with = {.url = url, .owner = owner, .key_file = key_path};
        CHECK_INT(dz_blobs_open(&without, &plain, &err), 0);
        CHECK_INT(dz_blobs_open(&with, &crypt, &err), 0);
        CHECK_INT(put(i ? plain : crypt, "k", "1", 1, &err), 0);
        CHECK_INT(put(i ? crypt : plain, "k", "1", 1, &err), DZ_ECORRUPT);
        CHECK(strstr(err.msg, i ? "is not encrypted" : "is encrypted"));
        dz_blobs_free(plain);
        dz_blobs_free(crypt);
    }
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, top, NULL), 0);
}

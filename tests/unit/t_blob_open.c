/* SPDX-License-Identifier: MIT
 *
 * A store that one owner has claimed: what every store must do, and what another owner may not.
 */
#include "../lib/blob_conform.h"
#include "base/fd.h"
#include "blob/blob_open.h"

#include <stdio.h>

static char top[DZ_TEMP_DIR_TEXT];
static const char ours[] = "0123456789abcdef0123456789abcdef",
                  theirs[] = "fedcba9876543210fedcba9876543210";

static struct dz_blobs *open_as(const char *owner)
{
    struct dz_blobs *s = NULL;
    char url[DZ_TEMP_DIR_TEXT + 16];
    (void)snprintf(url, sizeof url, "file://%s/store", top);
    CHECK_INT(dz_blobs_open(&(struct dz_blobs_place){.url = url, .owner = owner}, &s, NULL), 0);
    return s;
}

static struct dz_blobs *open_empty(void)
{
    CHECK_INT(dz_fd_temp_dir("doze-open", top, NULL), 0);
    return open_as(ours);
}

static void close_all(struct dz_blobs *s)
{
    dz_blobs_free(s);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, top, NULL), 0);
}

TEST(another_owner_may_read_and_nothing_else)
{
    struct dz_blobs *s = open_empty(), *other = open_as(theirs);
    struct dz_err err;
    uint64_t sum = 0, size = 0;
    CHECK_INT(dz_blobs_list(other, count_key, &sum, NULL), 0); /* nobody owns it yet */
    CHECK_INT(dz_blobs_remove(other, "k", NULL), 0);
    CHECK_INT(put(s, "k", "v", 1, NULL), 0);
    CHECK_INT(put(other, "k", "w", 1, &err), DZ_EDENIED);
    CHECK(strstr(err.msg, "/store belongs to the doze on ") && strstr(err.msg, "doze-owner"));
    CHECK_INT(dz_blobs_remove(other, "k", &err), DZ_EDENIED);
    CHECK_INT(dz_blobs_list(other, count_key, &sum, &err), DZ_EDENIED);
    CHECK_INT(dz_blobs_sweep(other, &err), DZ_EDENIED);
    CHECK_INT(dz_blobs_stat(other, "k", &size, &err), 0);
    CHECK(holds(other, "k", "v", 1));
    struct dz_blobs *again = open_as(ours); /* after a restart */
    CHECK_INT(put(again, "k", "x", 1, NULL), 0);
    CHECK_INT(dz_blobs_list(again, count_key, &sum, NULL), 0);
    CHECK_INT(sum, 1001); /* the claim is not listed */
    dz_blobs_free(again);
    dz_blobs_free(other);
    close_all(s);
}

TEST(a_claim_that_is_no_claim_is_refused)
{
    static const char *const bad[] = {"", "doze store 2\nowner 0123\n", "doze store 1\nowner \n"};
    struct dz_blobs *s = open_empty(), *plain = open_as(NULL);
    struct dz_err err;
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        CHECK_INT(put(plain, DZ_BLOB_OWNER_KEY, bad[i], strlen(bad[i]), NULL), 0);
        CHECK_INT(put(s, "k", "v", 1, &err), DZ_ECORRUPT);
    }
    DZ_AUTO(dz_freep) char *large = make_data(1000);
    CHECK_INT(put(plain, DZ_BLOB_OWNER_KEY, large, 1000, NULL), 0);
    CHECK_INT(put(s, "k", "v", 1, &err), DZ_ECORRUPT);
    CHECK_INT(dz_blobs_remove(plain, DZ_BLOB_OWNER_KEY, NULL), 0);
    CHECK_INT(put(s, "k", "v", 1, &err), 0);
    dz_blobs_free(plain);
    close_all(s);
}

TEST(the_owner_of_a_directory_stays)
{
    char first[DZ_BLOB_OWNER_TEXT], second[DZ_BLOB_OWNER_TEXT], path[DZ_TEMP_DIR_TEXT + 16];
    struct dz_err err;
    CHECK_INT(dz_fd_temp_dir("doze-open", top, NULL), 0);
    CHECK_INT(dz_blob_owner_of(top, first, &err), 0);
    CHECK_INT(strlen(first), DZ_BLOB_OWNER_TEXT - 1);
    CHECK_INT(dz_blob_owner_of(top, second, &err), 0);
    CHECK_STR(first, second);
    (void)snprintf(path, sizeof path, "%s/store-owner", top);
    CHECK_INT(dz_fd_replace(AT_FDCWD, path, "0123\n", 5, 0600, NULL), 0);
    CHECK_INT(dz_blob_owner_of(top, second, &err), DZ_ECORRUPT);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, top, NULL), 0);
    CHECK_INT(dz_blob_owner_of(top, second, &err), DZ_ENOENT);
}

TEST(a_url_that_is_no_store_is_refused)
{
    static const char *const bad[] = {"", "cold", "file://cold", "http://host/", "s4://bucket"};
    struct dz_blobs *s = NULL;
    struct dz_err err;
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++)
        CHECK_INT(dz_blobs_open(&(struct dz_blobs_place){.url = bad[i]}, &s, &err), DZ_EINVAL);
}

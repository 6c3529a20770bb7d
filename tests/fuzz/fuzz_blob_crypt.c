/* SPDX-License-Identifier: MIT
 *
 * What somebody may have put in the place of an encrypted object, and key files.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "blob/blob_crypt.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char key[] =
    "doze-key-1:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";

static void put(struct dz_blobs *s, const uint8_t *data, size_t n)
{
    struct dz_blob_out *out = NULL;
    int rc = dz_blob_out_open(s, "k", &out, NULL);
    if (rc == 0)
        rc = dz_blob_out_write(out, data, n, NULL);
    if (rc == 0)
        rc = dz_blob_out_commit(out, NULL);
    assert(rc == 0);
    dz_blob_out_close(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char dir[DZ_TEMP_DIR_TEXT], path[DZ_TEMP_DIR_TEXT + 16];
    struct dz_blob_keys *keys = NULL;
    struct dz_blobs *plain = NULL, *crypt = NULL;
    struct dz_blob_in *in = NULL;
    uint64_t size = 0;
    int rc = dz_fd_temp_dir("doze-fuzz", dir, NULL);
    (void)snprintf(path, sizeof path, "%s/key", dir);
    if (rc == 0)
        rc = dz_fd_replace(AT_FDCWD, path, data, n, 0600, NULL);
    assert(rc == 0);
    if (dz_blob_keys_load(path, &keys, NULL) == 0)
        assert(dz_blob_keys_count(keys) > 0);
    dz_blob_keys_free(keys);
    rc = dz_fd_replace(AT_FDCWD, path, key, sizeof key - 1, 0600, NULL);
    if (rc == 0)
        rc = dz_blob_keys_load(path, &keys, NULL);
    if (rc == 0)
        rc = dz_blobs_open_dir(dir, &plain, NULL);
    assert(rc == 0);
    put(plain, data, n);
    rc = dz_blobs_encrypt(plain, keys, &crypt, NULL);
    assert(rc == 0);
    rc = dz_blobs_stat(crypt, "k", &size, NULL);
    assert(rc < 0 || size < n);
    if (dz_blob_in_open(crypt, "k", &in, NULL) == 0) {
        char got[100];
        assert(in->size == size);
        for (uint64_t at = 0; at < in->size; at += sizeof got)
            if (dz_blob_in_read(in, got,
                                in->size - at < sizeof got ? (size_t)(in->size - at) : sizeof got,
                                at, NULL) < 0)
                break;
        dz_blob_in_close(in);
    }
    dz_blobs_free(crypt);
    rc = dz_fd_remove_tree(AT_FDCWD, dir, NULL);
    assert(rc == 0);
    return 0;
}

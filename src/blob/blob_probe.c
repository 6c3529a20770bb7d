/* SPDX-License-Identifier: MIT
 *
 * blob_probe.c - does a store do what doze needs? Tried with one small object, which is removed.
 */
#include "base/clock.h"
#include "base/id.h"
#include "blob/blob_open.h"
#include "blob/blob_s3_int.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    SIZE = 100,
};

struct probe {
    struct dz_blobs *store;
    char key[64];
    uint8_t data[SIZE];
    bool listed;
};

static int put(struct probe *p, bool only_new, struct dz_err *err)
{
    DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
    int rc = dz_blob_out_open(p->store, p->key, &out, err);
    if (rc == 0)
        rc = dz_blob_out_write(out, p->data, SIZE, err);
    if (rc == 0) {
        out->only_new = only_new;
        rc = dz_blob_out_commit(out, err);
    }
    return rc;
}

static int get(struct probe *p, struct dz_err *err)
{
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    uint8_t got[SIZE];
    int rc = dz_blob_in_open(p->store, p->key, &in, err);
    if (rc == 0 && in->size == SIZE)
        rc = dz_blob_in_read(in, got, SIZE, 0, err);
    if (rc == 0 && (in->size != SIZE || memcmp(got, p->data, SIZE) != 0))
        rc = dz_fail(err, DZ_ECORRUPT, "the object %s was read with other bytes than were written",
                     p->key);
    return rc;
}

static int see(void *arg, const char *key, uint64_t size)
{
    struct probe *p = arg;
    p->listed = strcmp(key, p->key) == 0 && size == SIZE;
    return p->listed;
}

static int try_all(struct probe *p, struct dz_err *err)
{
    uint64_t size = 0;
    int rc = put(p, true, err);
    if (rc == 0)
        rc = get(p, err);
    if (rc < 0)
        return rc;
    rc = put(p, true, err);
    if (rc != DZ_EEXIST)
        return rc < 0
                   ? rc
                   : dz_fail(err, DZ_EUNSUPPORTED,
                             "the server ignores If-None-Match: two daemons could use one prefix");
    rc = dz_blobs_list(p->store, see, p, err);
    if (rc == 0 && !p->listed)
        rc = dz_fail(err, DZ_EIO, "the list of objects lacks %s, which was just written", p->key);
    if (rc == 0)
        rc = dz_blobs_remove(p->store, p->key, err);
    if (rc == 0 && dz_blobs_stat(p->store, p->key, &size, NULL) != DZ_ENOENT)
        rc = dz_fail(err, DZ_EIO, "the object %s is still there after its removal", p->key);
    return rc;
}

int dz_blobs_probe(const struct dz_blobs_place *place, struct dz_blobs_probed *ret_probed,
                   struct dz_err *err)
{
    struct probe p = {0};
    struct dz_err why = {0};
    uint8_t random[8];
    struct dz_blobs *store = NULL, *bucket = NULL;
    struct dz_blobs_place unclaimed = *place;
    struct dz_s3_opts s3 = place->s3;
    unclaimed.owner = NULL;
    int rc = dz_random(random, sizeof random, err);
    if (rc == 0)
        rc = dz_random(p.data, sizeof p.data, err);
    if (rc == 0)
        rc = dz_blobs_open(&unclaimed, &store, err);
    if (rc < 0)
        return rc;
    p.store = store;
    int n = snprintf(p.key, sizeof p.key, "doze-doctor-");
    for (size_t i = 0; i < sizeof random; i++)
        n += snprintf(p.key + n, sizeof p.key - (size_t)n, "%02x", random[i]);
    struct dz_blobs_probed found = {0};
    if (store->far) {
        s3.url = place->url;
        rc = dz_blobs_open_s3(&s3, &bucket, err);
        if (rc == 0) { /* any answer has the server's time; that to a GET also says what is wrong */
            struct dz_blob_in *in = NULL;
            rc = dz_blob_in_open(bucket, p.key, &in, &why);
            dz_blob_in_close(in);
            rc = rc == DZ_ENOENT && !strstr(why.msg, "NoSuchBucket") ? 0 : rc;
            if (rc < 0 && err)
                *err = why;
            found.clock_ahead_s = -dz_s3_seen_skew(bucket);
        }
        dz_blobs_free(bucket);
    }
    int64_t began = dz_clock_mono_ns();
    if (rc == 0) {
        rc = try_all(&p, err);
        if (rc < 0)
            (void)!dz_blobs_remove(store, p.key, NULL);
    }
    found.us = (dz_clock_mono_ns() - began) / 1000;
    dz_blobs_free(store);
    if (rc == 0)
        *ret_probed = found;
    return rc;
}

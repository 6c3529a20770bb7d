/* SPDX-License-Identifier: MIT
 *
 * A replica in a bucket: its objects have litestream's names and times, and a restore finds them.
 */
#include "../lib/replica_rig.h"
#include "../lib/s3_server.h"

static void open_bucket(const char *place, struct dz_replica *r)
{
    char url[256];
    (void)snprintf(url, sizeof url, "s3://bucket/%s?endpoint=http://127.0.0.1:%d&region=us-east-1",
                   place, s3d.port);
    CHECK_INT(dz_replica_open(url, &(struct dz_replica_access){0}, true, r, NULL), 0);
}

/* The time that litestream reads from the object's metadata; -1: there is no such object. */
static int64_t time_of(const char *key)
{
    int64_t ms = -1;
    for (size_t i = 0; i < S3D_OBJECTS; i++) {
        const struct s3d_object *o = &s3d.objects[i];
        if (o->used && o->id == 0 && strcmp(o->key, key) == 0)
            CHECK_INT(dz_rfc3339_parse(dz_str(o->time), &ms, NULL), 0);
    }
    return ms;
}

TEST(a_bucket_holds_a_replica)
{
    struct dz_replica r = {0};
    struct rig_image got;
    uint64_t dice = 3, txid = 0;
    struct dz_replica_pushed to;
    struct rig_db db;
    s3d_start();
    CHECK_INT(setenv("AWS_ACCESS_KEY_ID", s3d.keys.access, 1), 0);
    CHECK_INT(setenv("AWS_SECRET_ACCESS_KEY", s3d.keys.secret, 1), 0);
    open_bucket("some/where/", &r);
    rig_open(&db, false, &dice);
    const struct dz_replica_source s = rig_source(&db);
    for (int i = 0; i < 3; i++) {
        rig_commit(&db, &dice);
        CHECK_INT(dz_replica_push(&r, &s, NULL, &to, NULL), 0);
        for (int64_t now = dz_clock_real_ms(); dz_clock_real_ms() == now;)
            continue; /* each transaction has a millisecond of its own */
    }
    int64_t first = time_of("some/where/0009/0000000000000001-0000000000000001.ltx");
    int64_t second = time_of("some/where/0000/0000000000000002-0000000000000002.ltx");
    int64_t third = time_of("some/where/0000/0000000000000003-0000000000000003.ltx");
    CHECK(first > 0 && first < second && second < third);
    CHECK_INT(rig_restore(&r, &(struct dz_replica_goal){0}, &got, &txid, NULL), 0);
    CHECK(txid == 3 && rig_equal(&got, &db.now));
    const struct dz_replica_goal at = {.timed = true, .time_ms = second};
    CHECK_INT(rig_restore(&r, &at, &got, &txid, NULL), 0);
    CHECK_INT(txid, 2);
    dz_replica_close(&r);
    open_bucket("some/where/else", &r); /* a prefix of another one is not its replica */
    CHECK_INT(rig_restore(&r, &at, &got, &txid, NULL), DZ_ENOENT);
    dz_replica_close(&r);
    rig_close(&db);
    CHECK_INT(s3d.refused, 0);
    s3d_stop();
}

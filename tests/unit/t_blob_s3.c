/* SPDX-License-Identifier: MIT
 *
 * A bucket as a store: what every store must do, at a server that checks signatures; and the
 * server's faults.
 */
#include "../lib/blob_conform.h"
#include "../lib/s3_server.h"

#include <fcntl.h>

static struct dz_blobs *open_with(const char *url, unsigned tries)
{
    struct dz_blobs *s = NULL;
    struct dz_err err = {0};
    char endpoint[64];
    (void)snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", s3d.port);
    const struct dz_s3_opts o = {.url = url,
                                 .endpoint = endpoint,
                                 .region = "us-east-1",
                                 .access_key = s3d.keys.access,
                                 .secret_key = s3d.keys.secret,
                                 .session_token = s3d.keys.token,
                                 .tries = tries};
    CHECK_INT(dz_blobs_open_s3(&o, &s, &err), 0);
    return s;
}

static struct dz_blobs *open_empty(void)
{
    s3d_start();
    return open_with("s3://bucket/some/where", 0);
}

static void close_all(struct dz_blobs *s)
{
    dz_blobs_free(s);
    CHECK_INT(s3d.refused, 0);
    s3d_stop();
}

/* --- signatures: the examples of Amazon's documents ------------------------------------------- */

struct example {
    const char *method, *path;
    struct s3_pair query[2], headers[2];
    const char *payload, *want;
};

static size_t count_pairs(const struct s3_pair *pairs)
{
    return pairs[0].name == NULL ? 0 : pairs[1].name == NULL ? 1 : 2;
}

static void check_sign(const struct example *e)
{
    static const struct s3_keys keys = {"AKIAIOSFODNN7EXAMPLE",
                                        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
    struct dz_buf q = DZ_BUF_INIT(1000), out = DZ_BUF_INIT(4000), p = DZ_BUF_INIT(1000);
    struct s3_pair pairs[8] = {{"host", "examplebucket.s3.amazonaws.com"},
                               {"x-amz-content-sha256", e->payload},
                               {"x-amz-date", "20130524T000000Z"}};
    size_t n = 3 + count_pairs(e->headers);
    char signature[100];
    memcpy(pairs + 3, e->headers, sizeof e->headers);
    dz_s3_sort(pairs, n);
    dz_s3_query(&q, e->query, count_pairs(e->query));
    dz_s3_encode(&p, e->path, true);
    const struct s3_signed r = {e->method, p.p, q.p, pairs, n, e->payload, "us-east-1", 1369353600};
    CHECK_INT(dz_s3_sign(&r, &keys, &out, NULL), 0);
    (void)snprintf(signature, sizeof signature, ",Signature=%s", e->want);
    CHECK(dz_str_ends((struct dz_str){out.p, out.len}, dz_str(signature)));
    dz_buf_release(&q);
    dz_buf_release(&out);
    dz_buf_release(&p);
}

TEST(signatures_are_those_of_amazons_examples)
{
    static const char empty[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const struct example all[] = {
        {"GET",
         "/test.txt",
         {{0}},
         {{"range", "bytes=0-9"}},
         empty,
         "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
        {"PUT",
         "/test$file.text",
         {{0}},
         {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
         "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
         "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
        {"GET",
         "/",
         {{"lifecycle", ""}},
         {{0}},
         empty,
         "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
        {"GET",
         "/",
         {{"prefix", "J"}, {"max-keys", "2"}},
         {{0}},
         empty,
         "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++)
        check_sign(&all[i]);
}

/* --- where and who ---------------------------------------------------------------------------- */

static int place(const char *url, const char *endpoint, struct s3_place *p)
{
    struct dz_err err = {0};
    int rc = dz_s3_place_of(&(struct dz_s3_opts){.url = url, .endpoint = endpoint}, p, &err);
    CHECK(rc == 0 || (err.msg[0] && err.code == rc));
    return rc;
}

TEST(an_url_says_where_a_bucket_is)
{
    struct s3_place p;
    (void)unsetenv("AWS_REGION");
    (void)unsetenv("AWS_DEFAULT_REGION");
    (void)unsetenv("AWS_ENDPOINT_URL");
    (void)unsetenv("AWS_ENDPOINT_URL_S3");
    CHECK_INT(place("s3://abc", NULL, &p), 0);
    CHECK_STR(p.host, "abc.s3.us-east-1.amazonaws.com");
    CHECK(p.tls && !p.path_style);
    CHECK_STR(p.prefix, "");
    CHECK_INT(place("s3://a.bc/d/e//?region=eu-west-3", NULL, &p), 0);
    CHECK_STR(p.host, "s3.eu-west-3.amazonaws.com"); /* a certificate's * has no dot */
    CHECK(p.path_style);
    CHECK_STR(p.prefix, "d/e/");
    CHECK_INT(place("s3://abc?endpoint=http%3A%2F%2Fs:80/", NULL, &p), 0);
    CHECK_STR(p.host, "s");
    CHECK(!p.tls && p.path_style);
    CHECK_INT(place("s3://abc?path-style=false", "https://s:9000", &p), 0);
    CHECK_STR(p.host, "abc.s:9000");
    CHECK_INT(place("s3://abc", "https://[::1]:443/", &p), 0);
    CHECK_STR(p.host, "[::1]:443");
    (void)setenv("AWS_ENDPOINT_URL", "http://e", 1);
    (void)setenv("AWS_DEFAULT_REGION", "mars-1", 1);
    CHECK_INT(place("s3://abc", NULL, &p), 0);
    CHECK_STR(p.host, "e");
    CHECK_STR(p.region, "mars-1");
    (void)unsetenv("AWS_ENDPOINT_URL");
    (void)unsetenv("AWS_DEFAULT_REGION");
    static const char *const bad[] = {"",
                                      "http://abc",
                                      "s3://ab",
                                      "s3://a/b",
                                      "s3://a_b\x01",
                                      "s3://abc/a b",
                                      "s3://abc?x=1",
                                      "s3://abc?region",
                                      "s3://abc?region=a%2",
                                      "s3://abc?region=a%20b",
                                      "s3://abc?endpoint=ftp://x",
                                      "s3://abc?endpoint=http://u@x",
                                      "s3://abc?path-style=maybe"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++)
        CHECK_INT(place(bad[i], NULL, &p), DZ_EINVAL);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    CHECK(f && fputs(text, f) >= 0);
    CHECK_INT(fclose(f), 0);
}

TEST(keys_come_from_the_settings_the_environment_or_a_file)
{
    struct s3_keys k;
    struct dz_err err;
    char dir[DZ_TEMP_DIR_TEXT], path[DZ_TEMP_DIR_TEXT + 16];
    CHECK_INT(dz_fd_temp_dir("doze-s3", dir, NULL), 0);
    (void)snprintf(path, sizeof path, "%s/c", dir);
    (void)unsetenv("AWS_ACCESS_KEY_ID");
    (void)unsetenv("AWS_SECRET_ACCESS_KEY");
    (void)unsetenv("AWS_SESSION_TOKEN");
    (void)setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
    const struct dz_s3_opts none = {0}, half = {.access_key = "a"},
                            whole = {.access_key = "a", .secret_key = "b"},
                            other = {.profile = "other"};
    CHECK_INT(dz_s3_keys_of(&none, &k, &err), DZ_EDENIED);
    CHECK_INT(dz_s3_keys_of(&half, &k, &err), DZ_EINVAL);
    CHECK_INT(dz_s3_keys_of(&whole, &k, &err), 0);
    CHECK_STR(k.secret, "b");
    write_file(path, "[default]\naws_access_key_id = fa\naws_secret_access_key = fb\n"
                     "[other]\naws_access_key_id=oa\naws_secret_access_key=o/b+=\n"
                     "aws_session_token=t\n");
    CHECK_INT(dz_s3_keys_of(&none, &k, &err), 0);
    CHECK_STR(k.access, "fa");
    CHECK_STR(k.token, "");
    CHECK_INT(dz_s3_keys_of(&other, &k, &err), 0);
    CHECK_STR(k.secret, "o/b+=");
    CHECK_STR(k.token, "t");
    (void)setenv("AWS_ACCESS_KEY_ID", "ea", 1);
    CHECK_INT(dz_s3_keys_of(&none, &k, &err), DZ_EINVAL);
    (void)setenv("AWS_SECRET_ACCESS_KEY", "qwe\nrty", 1);
    CHECK_INT(dz_s3_keys_of(&none, &k, &err), DZ_EINVAL);
    CHECK(!strstr(err.msg, "qwe"));
    (void)setenv("AWS_SECRET_ACCESS_KEY", "eb", 1);
    CHECK_INT(dz_s3_keys_of(&none, &k, &err), 0);
    CHECK_STR(k.access, "ea");
    (void)unsetenv("AWS_ACCESS_KEY_ID");
    (void)unsetenv("AWS_SECRET_ACCESS_KEY");
    write_file(path, "[default]\naws_access_key_id = only\n");
    CHECK_INT(dz_s3_keys_of(&none, &k, &err), DZ_EINVAL);
    write_file(path, "what is this\n");
    CHECK_INT(dz_s3_keys_of(&none, &k, &err), DZ_EINVAL);
    (void)unsetenv("AWS_SHARED_CREDENTIALS_FILE");
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, dir, NULL), 0);
}

/* --- answers ---------------------------------------------------------------------------------- */

static int count_leaf(void *arg, const char *outer, const char *name, const char *text)
{
    (void)outer, (void)text;
    *(int *)arg += strcmp(name, "a") == 0;
    return strcmp(name, "stop") == 0 ? DZ_ECANCELED : 0;
}

TEST(an_answer_that_is_not_as_it_should_be_is_refused)
{
    static const struct {
        const char *text;
        int rc;
    } cases[] = {{"<x><a>1</a><a/></x>", 0},
                 {"", DZ_ECORRUPT},
                 {"<x>", DZ_ECORRUPT},
                 {"<x></y>", DZ_ECORRUPT},
                 {"<!DOCTYPE x [<!ENTITY e \"e\">]><x>&e;</x>", DZ_ECORRUPT},
                 {"<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>", DZ_ECORRUPT},
                 {"<x><stop/><a/></x>", DZ_ECANCELED}};
    struct s3_error e;
    CHECK_INT(dz_s3_answer_load(NULL), 0);
    for (size_t i = 0; i < DZ_ARRAY_LEN(cases); i++) {
        int n = 0;
        CHECK_INT(dz_s3_answer_read(cases[i].text, strlen(cases[i].text), count_leaf, &n, NULL),
                  cases[i].rc);
        CHECK_INT(n, i == 0 ? 2 : n);
    }
    dz_s3_answer_error("<Error><Code>A\x7f</Code><Region>r</Region></Error>", 48, &e);
    CHECK_STR(e.code, "A?");
    CHECK_STR(e.region, "r");
    dz_s3_answer_error("<Error", 6, &e);
    CHECK_STR(e.code, "");
}

/* --- faults ----------------------------------------------------------------------------------- */

static void set_faults(const char *faults)
{
    (void)pthread_mutex_lock(&s3d.mutex);
    s3d.faults = faults;
    s3d.requests = 0;
    (void)pthread_mutex_unlock(&s3d.mutex);
}

TEST(what_passes_is_tried_again)
{
    static const char *const each[] = {"x", "5", "s", "h", "S", "g", "xx5S", "c"};
    struct dz_blobs *s = open_empty();
    for (size_t i = 0; i < DZ_ARRAY_LEN(each); i++) {
        set_faults(each[i]);
        CHECK_INT(put(s, "k", each[i], strlen(each[i]), NULL), 0);
        set_faults(each[i]);
        CHECK(holds(s, "k", each[i], strlen(each[i])));
        set_faults(each[i]);
        CHECK_INT(dz_blobs_remove(s, "k", NULL), 0);
        set_faults(NULL);
    }
    close_all(s);
}

TEST(what_does_not_pass_is_told)
{
    struct dz_err err = {0};
    struct dz_blobs *s = open_empty(), *few = open_with("s3://bucket", 2),
                    *wrong = open_with("s3://other", 2);
    set_faults("555");
    CHECK_INT(put(few, "k", "v", 1, &err), DZ_EIO);
    CHECK(strstr(err.msg, "s3://bucket/k") && strstr(err.msg, "500, InternalError: it is so") &&
          strstr(err.msg, "tried 2 times"));
    set_faults("eee");
    CHECK_INT(put(s, "k", "v", 1, &err), DZ_EIO); /* no newer keys are there */
    set_faults(NULL);
    CHECK_INT(put(wrong, "k", "v", 1, &err), DZ_ENOENT);
    CHECK(strstr(err.msg, "NoSuchBucket"));
    struct dz_blob_in *in = NULL;
    CHECK_INT(dz_blob_in_open(s, "k", &in, &err), DZ_ENOENT);
    dz_blobs_free(few);
    dz_blobs_free(wrong);
    close_all(s);
}

TEST(keys_that_are_not_believed_are_told_and_not_shown)
{
    struct dz_err err = {0};
    struct dz_blobs *s = open_empty();
    (void)snprintf(s3d.keys.secret, sizeof s3d.keys.secret, "another");
    CHECK_INT(put(s, "k", "v", 1, &err), DZ_EDENIED);
    CHECK(strstr(err.msg, "SignatureDoesNotMatch") && !strstr(err.msg, "secret/"));
    CHECK_INT(s3d.requests, 1);
    dz_blobs_free(s);
    s3d_stop();
}

TEST(a_store_that_is_stopped_ends_its_requests)
{
    struct dz_blobs *s = NULL;
    struct dz_err err;
    _Atomic bool stop = false;
    char endpoint[64];
    s3d_start();
    (void)snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", s3d.port);
    const struct dz_s3_opts o = {.url = "s3://bucket",
                                 .endpoint = endpoint,
                                 .access_key = s3d.keys.access,
                                 .secret_key = s3d.keys.secret,
                                 .stop = &stop};
    CHECK_INT(dz_blobs_open_s3(&o, &s, NULL), 0);
    CHECK_INT(put(s, "k", "v", 1, NULL), 0);
    stop = true;
    CHECK_INT(put(s, "k", "w", 1, &err), DZ_ECANCELED);
    CHECK(strstr(err.msg, "s3://bucket/k") && strstr(err.msg, "stopping"));
    stop = false; /* the request may have arrived before it ended */
    CHECK(holds(s, "k", "v", 1) || holds(s, "k", "w", 1));
    close_all(s);
}

TEST(a_session_token_is_signed_and_sent)
{
    s3d_start();
    (void)snprintf(s3d.keys.token, sizeof s3d.keys.token, "token/%0900d", 7);
    struct dz_blobs *s = open_with("s3://bucket", 0);
    CHECK_INT(put(s, "k", "v", 1, NULL), 0);
    CHECK(holds(s, "k", "v", 1));
    close_all(s);
}

TEST(a_wrong_clock_follows_that_of_the_server)
{
    struct dz_blobs *s = open_empty();
    for (int i = 0; i < 2; i++) {
        s3d.skew_s = i == 0 ? 86400 : -7200;
        set_faults(NULL);
        CHECK_INT(put(s, "k", "v", 1, NULL), 0);
        CHECK_INT(s3d.requests, 2);
        CHECK(holds(s, "k", "v", 1));
        CHECK_INT(s3d.requests, 3);
    }
    close_all(s);
}

/* A try was answered by an error and had been stored: the next one must know its own. */
TEST(a_writer_of_what_must_be_new_knows_its_own)
{
    static const char *const faults[] = {"s", "h", "5s"};
    struct dz_blobs *s = open_empty();
    for (size_t i = 0; i < DZ_ARRAY_LEN(faults); i++) {
        DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *out = NULL;
        char key[32];
        (void)snprintf(key, sizeof key, "k%zu", i);
        CHECK_INT(dz_blob_out_open(s, key, &out, NULL), 0);
        CHECK_INT(dz_blob_out_write(out, "mine", 4, NULL), 0);
        out->only_new = true;
        set_faults(faults[i]);
        CHECK_INT(dz_blob_out_commit(out, NULL), 0);
        DZ_AUTO(dz_blob_out_closep) struct dz_blob_out *other = NULL;
        CHECK_INT(dz_blob_out_open(s, key, &other, NULL), 0);
        CHECK_INT(dz_blob_out_write(other, "theirs", 6, NULL), 0);
        other->only_new = true;
        set_faults("5");
        CHECK_INT(dz_blob_out_commit(other, NULL), DZ_EEXIST);
        CHECK(holds(s, key, "mine", 4));
    }
    close_all(s);
}

static unsigned uploads_left(void)
{
    unsigned n = 0;
    for (size_t i = 0; i < S3D_OBJECTS; i++)
        n += s3d.objects[i].used && s3d.objects[i].id != 0;
    return n;
}

TEST(parts_survive_faults_and_leave_nothing)
{
    static const char *const faults[] = {"...s5x", "5sS..h", "....s", "....h", ".....s"};
    size_t n = 3 * (size_t)DZ_BLOB_HASH_PIECE + 5;
    DZ_AUTO(dz_freep) char *data = make_data(n);
    struct dz_blobs *s = open_empty();
    for (size_t i = 0; i < DZ_ARRAY_LEN(faults); i++)
        for (int new = 0; new < 2; new ++) {
            struct dz_blob_out *out = NULL;
            char key[64];
            (void)snprintf(key, sizeof key, "k%zu%d", i, new);
            CHECK_INT(dz_blob_out_open(s, key, &out, NULL), 0);
            out->only_new = new != 0;
            set_faults(faults[i]);
            CHECK_INT(dz_blob_out_write(out, data, n, NULL), 0);
            CHECK_INT(dz_blob_out_commit(out, NULL), 0);
            dz_blob_out_close(out);
            set_faults("5x.c");
            CHECK(holds(s, key, data, n));
            CHECK_INT(dz_blobs_remove(s, key, NULL), 0);
        }
    CHECK_INT(uploads_left(), 2); /* those with "5s" were begun twice */
    CHECK_INT(dz_blobs_sweep(s, NULL), 0);
    CHECK_INT(uploads_left(), 0);
    close_all(s);
}

TEST(uploads_of_writers_that_gave_up_are_gone_or_swept_up)
{
    size_t n = 2 * (size_t)DZ_BLOB_HASH_PIECE;
    DZ_AUTO(dz_freep) char *data = make_data(n);
    s3d_start();
    struct dz_blobs *s = open_with("s3://bucket/some/where", 2),
                    *beside = open_with("s3://bucket/some/where-else", 1);
    for (int i = 0; i < 5; i++) {
        struct dz_blob_out *out = NULL;
        CHECK_INT(dz_blob_out_open(i < 4 ? s : beside, i < 4 ? "abcd" + i : "e", &out, NULL), 0);
        CHECK_INT(dz_blob_out_write(out, data, n, NULL), 0);
        CHECK_INT(uploads_left(), i + 1 - (i > 0));
        set_faults(i == 0 ? NULL : "55555555"); /* and then it cannot even be given up */
        dz_blob_out_close(out);
        set_faults(NULL);
        CHECK_INT(uploads_left(), i);
    }
    char now[DZ_RFC3339_TEXT];
    s3d.initiated = dz_rfc3339_print(dz_clock_real_ms() - DZ_S3_ABANDONED_MS + 60000, now);
    CHECK_INT(dz_blobs_sweep(s, NULL), 0);
    CHECK_INT(uploads_left(), 4); /* another writer may still be at it */
    s3d.initiated = "soon";
    CHECK_INT(dz_blobs_sweep(s, NULL), 0);
    CHECK_INT(uploads_left(), 4);
    s3d.initiated = "2020-01-31T10:00:00.000Z";
    struct dz_blobs *above = open_with("s3://bucket", 1);
    CHECK_INT(dz_blobs_sweep(above, NULL), 0);
    CHECK_INT(uploads_left(), 4); /* its keys have no slash */
    CHECK_INT(dz_blobs_sweep(s, NULL), 0);
    CHECK_INT(uploads_left(), 1); /* of another store in the bucket */
    CHECK_INT(dz_blobs_sweep(beside, NULL), 0);
    CHECK_INT(uploads_left(), 0);
    dz_blobs_free(above);
    dz_blobs_free(beside);
    close_all(s);
}

TEST(a_wrong_byte_is_noticed_by_who_reads_in_order)
{
    static const size_t sizes[] = {1, 1000, DZ_BLOB_HASH_PIECE, 2 * (size_t)DZ_BLOB_HASH_PIECE + 1};
    struct dz_blobs *s = open_empty();
    for (size_t i = 0; i < DZ_ARRAY_LEN(sizes); i++) {
        DZ_AUTO(dz_freep) char *data = make_data(sizes[i]);
        DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
        struct dz_err err = {0};
        CHECK_INT(put(s, "k", data, sizes[i], NULL), 0);
        set_faults("w");
        int rc = dz_blob_in_open(s, "k", &in, &err);
        if (rc == 0)
            rc = dz_blob_in_read(in, data, sizes[i], 0, &err);
        CHECK_INT(rc, DZ_ECORRUPT);
        CHECK(strstr(err.msg, "differ from those that were stored"));
    }
    close_all(s);
}

TEST(a_large_object_that_is_replaced_is_lost_to_its_reader)
{
    size_t n = 6 * (size_t)DZ_BLOB_HASH_PIECE;
    DZ_AUTO(dz_freep) char *data = make_data(n);
    struct dz_blobs *s = open_empty();
    struct dz_blob_in *in = NULL;
    char got[4];
    CHECK_INT(put(s, "k", data, n, NULL), 0);
    CHECK_INT(dz_blob_in_open(s, "k", &in, NULL), 0);
    CHECK_INT(put(s, "k", data, n, NULL), 0);
    CHECK_INT(dz_blob_in_read(in, got, 4, 0, NULL), 0); /* came with the opening */
    CHECK_INT(dz_blob_in_read(in, got, 4, n - 4, NULL), DZ_EIO);
    dz_blob_in_close(in);
    CHECK_INT(dz_blob_in_open(s, "k", &in, NULL), 0); /* anywhere, in any order */
    for (int i = 5; i >= 0; i--) {
        size_t at = (size_t)i * DZ_BLOB_HASH_PIECE + 17;
        CHECK_INT(dz_blob_in_read(in, got, 4, at, NULL), 0);
        CHECK(memcmp(got, data + at, 4) == 0);
    }
    dz_blob_in_close(in);
    close_all(s);
}

TEST(a_server_without_checksums_is_good_enough)
{
    size_t n = 2 * (size_t)DZ_BLOB_HASH_PIECE + 1;
    DZ_AUTO(dz_freep) char *data = make_data(n);
    struct dz_blobs *s = open_empty();
    s3d.no_checksums = true;
    CHECK_INT(put(s, "k", data, n, NULL), 0);
    CHECK(holds(s, "k", data, n));
    close_all(s);
}

TEST(lists_have_pages_and_only_what_is_the_stores)
{
    struct dz_blobs *s = open_empty(), *root = open_with("s3://bucket", 0),
                    *below = open_with("s3://bucket/some/where/below", 0);
    uint64_t sum = 0;
    char key[16];
    for (int i = 0; i < 10; i++) {
        (void)snprintf(key, sizeof key, "k%02d", i);
        CHECK_INT(put(s, key, "v", 1, NULL), 0);
    }
    CHECK_INT(put(below, "other", "v", 1, NULL), 0);
    CHECK_INT(put(root, "another", "v", 1, NULL), 0);
    CHECK_INT(dz_blobs_list(s, count_key, &sum, NULL), 0);
    CHECK_INT(sum, 10 * 3001);
    sum = 0;
    CHECK_INT(dz_blobs_list(root, count_key, &sum, NULL), 0);
    CHECK_INT(sum, 7001);
    dz_blobs_free(root);
    dz_blobs_free(below);
    close_all(s);
}

static void *put_many(void *store)
{
    for (int i = 0; i < 50; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "t%lx-%d", (unsigned long)pthread_self(), i % 3);
        if (put(store, key, key, strlen(key), NULL) < 0 || !holds(store, key, key, strlen(key)))
            return store;
    }
    return NULL;
}

TEST(threads_share_a_store)
{
    struct dz_blobs *s = open_empty();
    pthread_t threads[6];
    for (size_t i = 0; i < DZ_ARRAY_LEN(threads); i++)
        CHECK_INT(pthread_create(&threads[i], NULL, put_many, s), 0);
    for (size_t i = 0; i < DZ_ARRAY_LEN(threads); i++) {
        void *failed = NULL;
        CHECK_INT(pthread_join(threads[i], &failed), 0);
        CHECK(!failed);
    }
    close_all(s);
}

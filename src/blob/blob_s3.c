/* SPDX-License-Identifier: MIT
 *
 * blob_s3.c - the verbs of a store in a bucket.
 *
 * An object is read and written in parts of PART bytes. A reader and a writer each have a line,
 * with which several requests are under way at once, and memory for AT_ONCE parts:
 *
 *     reader   | part 4 | part 5 | part 6 | part 3 |    the caller reads 4; 5 and 6 are asked for
 *     writer   | part 8 | part 5 | part 6 | part 7 |    the caller fills 8; 5 to 7 are being sent
 *
 * Parts are as long as the pieces of an object's hash (blob.h), so a server that keeps the SHA-256
 * of each part and of all of them together (x-amz-checksum-sha256) keeps just that hash. An object
 * of one part carries its hash as x-amz-meta-doze-sha256.
 */
#include "base/clock.h"
#include "base/id.h"
#include "base/late_curl.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "blob/blob_s3_int.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    PART = DZ_BLOB_HASH_PIECE,
    AT_ONCE = 4, /* parts of one object under way; also what it holds in memory */
    RANGE_TEXT = 64,
};

static struct s3_store *store_of(struct dz_blobs *s)
{
    return (struct s3_store *)s;
}

static void add_query(struct s3_call *c, const char *name, const char *value)
{
    assert(c->query_count < S3_PAIRS_MAX);
    c->query[c->query_count++] = (struct s3_pair){name, value};
}

static void add_header(struct s3_call *c, const char *name, const char *value)
{
    assert(c->header_count < S3_PAIRS_MAX);
    c->headers[c->header_count++] = (struct s3_pair){name, value};
}

/* A request about an object. The key is short enough: see s3_place and DZ_BLOB_KEY_MAX. */
static struct s3_call about(const struct s3_store *s, const char *method, const char *what,
                            const char *key)
{
    struct s3_call c = {.method = method, .what = what};
    (void)snprintf(c.key, sizeof c.key, "%s%s", s->place.prefix, key);
    return c;
}

/* An object's name in messages: s3://BUCKET/PREFIX/KEY. */
#define NAME     "s3://%s/%s%s"
#define NAMED(o) (o)->store->place.bucket, (o)->store->place.prefix, (o)->key

static int no_memory(const char *key, struct dz_err *err)
{
    return dz_fail(err, DZ_ENOMEM, "object %s of S3: out of memory", key);
}

/* Send a request and wait for its answer. */
static int ask(struct s3_line *line, struct s3_call *c, struct dz_err *err)
{
    int rc = dz_s3_begin(line, c, err);
    return rc < 0 ? rc : dz_s3_end(line, c, err);
}

/* The same for a request that belongs to no reader or writer. */
static int ask_alone(struct s3_store *s, struct s3_call *c, struct dz_err *err)
{
    struct s3_line *line = NULL;
    int rc = dz_s3_line_take(s, &line, err);
    if (rc == 0)
        rc = ask(line, c, err);
    dz_s3_line_put(s, line);
    return rc;
}

/* --- reading --------------------------------------------------------------------- */

struct block {
    uint64_t number; /* the part that it holds or will hold, from 1 on; 0: none */
    size_t size;
    char *bytes;
    char range[RANGE_TEXT];
    struct s3_call call;
    bool asked; /* under way */
};

struct s3_in {
    struct dz_blob_in head;
    struct s3_store *store;
    struct s3_line *line;
    struct block blocks[AT_ONCE];
    char key[DZ_BLOB_KEY_MAX + 1], etag[S3_ETAG_MAX];
    uint8_t hash[DZ_SHA256_BYTES]; /* the object's, as its writer stored it */
    bool has_hash;
    struct dz_blob_digest digest; /* of the first `hashed` bytes */
    uint64_t hashed;              /* UINT64_MAX: all, and they were compared */
    uint64_t last;                /* the block that was read last */
};

/* No two blocks hold the same part; a block without a part has no request under way. */
static void assert_blocks(const struct s3_in *in)
{
    for (size_t i = 0; i < AT_ONCE; i++) {
        const struct block *b = &in->blocks[i];
        assert(b->size <= PART && (b->number == 0 || b->bytes));
        assert(!b->asked || (b->number > 0 && b->call.try));
        for (size_t j = 0; j < i; j++)
            assert(b->number == 0 || in->blocks[j].number != b->number);
    }
}

static size_t part_size(uint64_t size, uint64_t number)
{
    uint64_t from = (number - 1) * PART;
    return size - from < PART ? (size_t)(size - from) : PART;
}

static void in_free(struct s3_in *in)
{
    dz_s3_line_put(in->store, in->line); /* first, because it writes to what is freed next */
    for (size_t i = 0; i < AT_ONCE; i++) {
        dz_s3_call_release(&in->blocks[i].call);
        dz_free(in->blocks[i].bytes);
    }
    dz_blob_digest_release(&in->digest);
    dz_free(in);
}

static struct block *block_with(struct s3_in *in, uint64_t number)
{
    for (size_t i = 0; i < AT_ONCE; i++)
        if (in->blocks[i].number == number)
            return &in->blocks[i];
    return NULL;
}

/* The block that is needed least: an empty one, or the one farthest from `number`. */
static struct block *block_for(struct s3_in *in, uint64_t number)
{
    struct block *best = NULL;
    uint64_t far = 0;
    for (size_t i = 0; i < AT_ONCE; i++) {
        struct block *b = &in->blocks[i];
        if (b->number == 0)
            return b;
        uint64_t d = b->number < number ? number - b->number + AT_ONCE : b->number - number;
        if (!best || d > far) {
            best = b;
            far = d;
        }
    }
    return best;
}

static int ask_block(struct s3_in *in, struct block *b, uint64_t number, struct dz_err *err)
{
    uint64_t from = (number - 1) * PART;
    dz_s3_drop(in->line, &b->call);
    dz_s3_call_release(&b->call);
    b->asked = false;
    b->number = 0;
    if (!b->bytes && !(b->bytes = dz_alloc(PART)))
        return no_memory(in->key, err);
    b->size = part_size(in->head.size, number);
    b->call = about(in->store, "GET", "read", in->key);
    (void)snprintf(b->range, sizeof b->range, "bytes=%llu-%llu", (unsigned long long)from,
                   (unsigned long long)(from + b->size - 1));
    add_header(&b->call, "range", b->range);
    add_header(&b->call, "if-match", in->etag);
    b->call.into = b->bytes;
    b->call.room = b->size;
    int rc = dz_s3_begin(in->line, &b->call, err);
    b->asked = rc == 0;
    b->number = rc == 0 ? number : 0;
    return rc;
}

/* The caller reads in order: ask for the parts after this one. */
static void ask_ahead(struct s3_in *in, uint64_t number)
{
    uint64_t parts = (in->head.size + PART - 1) / PART;
    bool in_order = number == in->last || number == in->last + 1;
    in->last = number;
    for (uint64_t n = number + 1; in_order && n < number + AT_ONCE && n <= parts; n++)
        if (!block_with(in, n) && ask_block(in, block_for(in, number), n, NULL) < 0)
            break; /* a read of that part asks again, and gets the error */
}

static int end_block(struct s3_in *in, struct block *b, struct dz_err *err)
{
    int rc = dz_s3_end(in->line, &b->call, err);
    b->asked = false;
    if (rc == DZ_EEXIST || rc == DZ_ENOENT)
        rc = dz_fail(err, DZ_EIO, "read " NAME ": the object was replaced or removed meanwhile",
                     NAMED(in));
    else if (rc == 0 && b->call.got != b->size)
        rc = dz_fail(err, DZ_EIO, "read " NAME ": the server sent %zu bytes instead of %zu",
                     NAMED(in), b->call.got, b->size);
    if (rc < 0)
        b->number = 0;
    return rc;
}

/* While the caller reads in order, hash each block that is complete. */
static int check(struct s3_in *in, const struct block *b, struct dz_err *err)
{
    uint8_t digest[DZ_SHA256_BYTES];
    if (!in->has_hash || (b->number - 1) * PART != in->hashed)
        return 0;
    dz_blob_digest_update(&in->digest, b->bytes, b->size);
    in->hashed += b->size;
    if (in->hashed < in->head.size)
        return 0;
    int rc = dz_blob_digest_final(&in->digest, digest, err);
    in->hashed = UINT64_MAX;
    if (rc == 0 && memcmp(digest, in->hash, sizeof digest) != 0)
        rc = dz_fail(err, DZ_ECORRUPT,
                     "read " NAME ": its bytes differ from those that were stored; restore the "
                     "object from a backup or an older version",
                     NAMED(in));
    return rc;
}

static int in_read(struct dz_blob_in *head, void *buf, size_t n, uint64_t at, struct dz_err *err)
{
    struct s3_in *in = (struct s3_in *)head;
    while (n > 0) {
        uint64_t number = at / PART + 1;
        struct block *b = block_with(in, number);
        int rc = 0;
        if (!b) {
            b = block_for(in, number);
            rc = ask_block(in, b, number, err);
        }
        if (rc == 0)
            ask_ahead(in, number);
        if (rc == 0 && b->asked) {
            rc = end_block(in, b, err);
            if (rc == 0)
                rc = check(in, b, err);
        }
        if (rc < 0)
            return rc;
        assert_blocks(in);
        assert(b->number == number && !b->asked);
        size_t from = (size_t)(at % PART), some = b->size - from < n ? b->size - from : n;
        memcpy(buf, b->bytes + from, some);
        buf = (char *)buf + some;
        at += some;
        n -= some;
    }
    return 0;
}

static void in_close(struct dz_blob_in *head)
{
    in_free((struct s3_in *)head);
}

static const struct dz_blob_in_ops in_ops = {in_read, in_close};

/* The hash of an object in parts: "BASE64-COUNT". */
static bool hash_of_checksum(const char *text, uint64_t parts, uint8_t out[static DZ_SHA256_BYTES])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *dash = strchr(text, '-');
    char count[32];
    uint32_t bits = 0;
    size_t have = 0, n = 0;
    (void)snprintf(count, sizeof count, "-%llu", (unsigned long long)parts);
    if (!dash || dash - text != 44 || strcmp(dash, count) != 0 || text[43] != '=')
        return false;
    for (size_t i = 0; i < 43; i++) {
        const char *d = strchr(digits, text[i]);
        if (!d)
            return false;
        bits = bits << 6 | (uint32_t)(d - digits);
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[n++] = (uint8_t)(bits >> have);
        }
    }
    return n == DZ_SHA256_BYTES;
}

/* Ask for the hash of an object that has several parts. */
static int learn_checksum(struct s3_in *in, struct dz_err *err)
{
    struct s3_call c = about(in->store, "HEAD", "look for", in->key);
    add_header(&c, "if-match", in->etag);
    add_header(&c, "x-amz-checksum-mode", "ENABLED");
    int rc = ask(in->line, &c, err);
    if (rc == 0)
        in->has_hash = hash_of_checksum(c.checksum, (in->head.size + PART - 1) / PART, in->hash);
    dz_s3_call_release(&c);
    return rc == DZ_EEXIST
               ? dz_fail(err, DZ_EIO, "read " NAME ": the object was replaced meanwhile", NAMED(in))
               : rc;
}

/* One request answers whether the object exists, and brings its first part. */
static int open_object(struct s3_in *in, struct dz_err *err)
{
    struct block *b = &in->blocks[0];
    int rc = dz_s3_line_take(in->store, &in->line, err);
    if (rc < 0)
        return rc;
    if (!(b->bytes = dz_alloc(PART)))
        return no_memory(in->key, err);
    b->call = about(in->store, "GET", "read", in->key);
    (void)snprintf(b->range, sizeof b->range, "bytes=0-%d", PART - 1);
    add_header(&b->call, "range", b->range);
    b->call.into = b->bytes;
    b->call.room = PART;
    rc = ask(in->line, &b->call, err);
    if (rc == DZ_EINVAL && b->call.status == 416) /* there is no first byte, so it is empty */
        return 0;
    if (rc < 0)
        return rc;
    if (b->call.length < 0 || !b->call.etag[0])
        return dz_fail(err, DZ_EIO, "read " NAME ": the server sent no length", NAMED(in));
    in->head.size = (uint64_t)b->call.length;
    (void)snprintf(in->etag, sizeof in->etag, "%s", b->call.etag);
    b->size = in->head.size ? part_size(in->head.size, 1) : 0;
    if (b->call.got != b->size)
        return dz_fail(err, DZ_EIO, "read " NAME ": the server sent %zu bytes instead of %zu",
                       NAMED(in), b->call.got, b->size);
    in->has_hash = dz_sha256_parse(dz_str(b->call.hash), in->hash, NULL) == 0;
    if (b->size == 0)
        return 0;
    b->number = 1;
    if (in->head.size > PART && !in->has_hash)
        rc = learn_checksum(in, err);
    if (rc == 0 && in->has_hash)
        rc = dz_blob_digest_init(&in->digest, err);
    return rc < 0 ? rc : check(in, b, err);
}

static int s3_in_open(struct dz_blobs *s, const char *key, struct dz_blob_in **ret_in,
                      struct dz_err *err)
{
    struct s3_in *in = dz_zalloc(sizeof *in);
    if (!in)
        return no_memory(key, err);
    in->head = (struct dz_blob_in){.ops = &in_ops, .fd = -1};
    in->store = store_of(s);
    in->last = 1;
    (void)snprintf(in->key, sizeof in->key, "%s", key);
    int rc = open_object(in, err);
    if (rc < 0) {
        in_free(in);
        return rc;
    }
    *ret_in = &in->head;
    return 0;
}

/* --- writing --------------------------------------------------------------------- */

struct part { /* one that was stored, or is under way */
    char etag[S3_ETAG_MAX];
    uint8_t sha256[DZ_SHA256_BYTES];
};

struct upload { /* of one part */
    char *bytes;
    size_t size;
    unsigned number; /* from 1 on; 0: nothing under way */
    char number_text[16];
    struct dz_buf checksum;
    struct s3_call call;
};

struct s3_out {
    struct dz_blob_out head;
    struct s3_store *store;
    struct s3_line *line;
    struct upload uploads[AT_ONCE], *now; /* now: the place that the caller fills; may be NULL */
    struct part *parts;
    unsigned count, room; /* of parts */
    char key[DZ_BLOB_KEY_MAX + 1], id[S3_UPLOAD_ID_MAX], mark[2 * S3_MARK_BYTES + 1];
    int rc; /* the first failure's; nothing more is stored after it */
};

/* Parts have the numbers 1 to `count`. At most one place is being filled, and no request reads it.
 */
static void assert_uploads(const struct s3_out *o)
{
    assert(o->count <= o->room && o->count <= DZ_S3_PARTS_MAX);
    for (size_t i = 0; i < AT_ONCE; i++) {
        const struct upload *u = &o->uploads[i];
        assert(u->size <= PART && u->number <= o->count);
        assert(u->number == 0 || (u != o->now && u->call.try));
    }
}

static int on_upload_id(void *arg, const char *outer, const char *name, const char *text)
{
    struct s3_out *o = arg;
    if (strcmp(outer, "InitiateMultipartUploadResult") == 0 && strcmp(name, "UploadId") == 0 &&
        strlen(text) < sizeof o->id)
        (void)snprintf(o->id, sizeof o->id, "%s", text);
    return 0;
}

/* text must live as long as the call. */
static void add_time(const struct s3_out *o, struct s3_call *c, char text[static DZ_RFC3339_TEXT])
{
    if (o->head.time_ms > 0)
        add_header(c, "x-amz-meta-litestream-timestamp", dz_rfc3339_print(o->head.time_ms, text));
}

static int begin_upload(struct s3_out *o, struct dz_err *err)
{
    struct s3_call c = about(o->store, "POST", "write", o->key);
    char time[DZ_RFC3339_TEXT];
    add_query(&c, "uploads", "");
    add_header(&c, "x-amz-checksum-algorithm", "SHA256");
    add_header(&c, "x-amz-meta-doze-writer", o->mark);
    add_time(o, &c, time);
    int rc = ask(o->line, &c, err);
    if (rc == 0)
        rc = dz_s3_answer_read(c.text.p, c.text.len, on_upload_id, o, err);
    if (rc == 0 && !o->id[0])
        rc = dz_fail(err, DZ_EIO, "write " NAME ": the server gave the upload no id", NAMED(o));
    dz_s3_call_release(&c);
    return rc;
}

static int end_part(struct s3_out *o, struct upload *u, struct dz_err *err)
{
    if (u->number == 0)
        return 0;
    int rc = dz_s3_end(o->line, &u->call, err);
    if (rc == 0 && !u->call.etag[0])
        rc = dz_fail(err, DZ_EIO, "write " NAME ": the server gave a part no tag", NAMED(o));
    if (rc == 0)
        memcpy(o->parts[u->number - 1].etag, u->call.etag, S3_ETAG_MAX);
    dz_s3_call_release(&u->call);
    u->number = 0;
    u->size = 0;
    return rc;
}

static int grow_parts(struct s3_out *o, struct dz_err *err)
{
    if (o->count == DZ_S3_PARTS_MAX)
        return dz_fail(err, DZ_ELIMIT, "write " NAME ": an object has at most %d parts of %d MiB",
                       NAMED(o), DZ_S3_PARTS_MAX, PART >> 20);
    if (o->count < o->room)
        return 0;
    unsigned room = o->room ? 2 * o->room : 16;
    struct part *p = dz_realloc(o->parts, room * sizeof *p);
    if (!p)
        return no_memory(o->key, err);
    o->parts = p;
    o->room = room;
    return 0;
}

/* Send the part that is full, or the last one. */
static int send_part(struct s3_out *o, struct dz_err *err)
{
    struct upload *u = o->now;
    int rc = grow_parts(o, err);
    if (rc == 0 && !o->id[0])
        rc = begin_upload(o, err);
    if (rc == 0)
        rc = dz_sha256(u->bytes, u->size, o->parts[o->count].sha256, err);
    if (rc < 0)
        return rc;
    u->number = ++o->count;
    u->call = about(o->store, "PUT", "write", o->key);
    (void)snprintf(u->number_text, sizeof u->number_text, "%u", u->number);
    dz_buf_reset(&u->checksum);
    dz_buf_add_base64(&u->checksum, o->parts[u->number - 1].sha256, DZ_SHA256_BYTES);
    add_query(&u->call, "partNumber", u->number_text);
    add_query(&u->call, "uploadId", o->id);
    add_header(&u->call, "x-amz-checksum-sha256", u->checksum.p);
    u->call.body = u->bytes;
    u->call.size = u->size;
    memcpy(u->call.sha256, o->parts[u->number - 1].sha256, DZ_SHA256_BYTES);
    u->call.hashed = true;
    rc = u->checksum.err ? no_memory(o->key, err) : dz_s3_begin(o->line, &u->call, err);
    if (rc < 0)
        u->number = 0;
    o->now = NULL;
    return rc;
}

/* Find a place for the next part. Places are used in turn, so this waits for the oldest part. */
static int next_place(struct s3_out *o, struct dz_err *err)
{
    struct upload *u = &o->uploads[o->count % AT_ONCE];
    int rc = end_part(o, u, err);
    if (rc == 0 && !u->bytes && !(u->bytes = dz_alloc(PART)))
        rc = no_memory(o->key, err);
    u->size = 0;
    o->now = rc == 0 ? u : NULL;
    return rc;
}

static int out_write(struct dz_blob_out *head, const void *data, size_t n, struct dz_err *err)
{
    struct s3_out *o = (struct s3_out *)head;
    while (n > 0) {
        if (o->rc < 0)
            return dz_fail(err, o->rc, "write " NAME ": an earlier part of it failed", NAMED(o));
        if (o->now && o->now->size == PART)
            o->rc = send_part(o, err);
        if (o->rc == 0 && !o->now)
            o->rc = next_place(o, err);
        if (o->rc < 0)
            return o->rc;
        assert_uploads(o);
        size_t room = PART - o->now->size, some = n < room ? n : room;
        memcpy(o->now->bytes + o->now->size, data, some);
        o->now->size += some;
        data = (const char *)data + some;
        n -= some;
    }
    return 0;
}

/* Parts are the pieces of the object's hash (struct dz_blob_digest). The last part goes now. */
static int out_digest(struct dz_blob_out *head, uint8_t ret[static DZ_SHA256_BYTES],
                      struct dz_err *err)
{
    DZ_AUTO(dz_sha256_release) struct dz_sha256 all = {0};
    struct s3_out *o = (struct s3_out *)head;
    if (o->rc < 0)
        return dz_fail(err, o->rc, "write " NAME ": a part of it failed", NAMED(o));
    if (o->count == 0)
        return dz_sha256(o->now ? o->now->bytes : "", o->now ? o->now->size : 0, ret, err);
    if (o->now && o->now->size > 0)
        o->rc = send_part(o, err);
    if (o->rc < 0)
        return o->rc;
    int rc = dz_sha256_init(&all, err);
    for (unsigned i = 0; i < o->count && rc == 0; i++)
        dz_sha256_update(&all, o->parts[i].sha256, DZ_SHA256_BYTES);
    return rc < 0 ? rc : dz_sha256_final(&all, ret, err);
}

/* Does the bucket have this writer's object? If so, an attempt that seemed to fail has stored it;
 * libcurl, too, repeats an attempt by itself on another connection. */
static bool is_ours(struct s3_out *o)
{
    struct s3_call c = about(o->store, "HEAD", "look for", o->key);
    int rc = ask(o->line, &c, NULL);
    bool ours = rc == 0 && strcmp(c.mark, o->mark) == 0;
    dz_s3_call_release(&c);
    return ours;
}

static int not_new(const struct s3_out *o, struct dz_err *err)
{
    return dz_fail(err, DZ_EEXIST, "write " NAME ": the object already exists", NAMED(o));
}

static int put_whole(struct s3_out *o, struct dz_err *err)
{
    struct s3_call c = about(o->store, "PUT", "write", o->key);
    char hex[DZ_SHA256_HEX], time[DZ_RFC3339_TEXT];
    c.body = o->now ? o->now->bytes : "";
    c.size = o->now ? o->now->size : 0;
    int rc = dz_sha256(c.body, c.size, c.sha256, err);
    if (rc < 0)
        return rc;
    c.hashed = true;
    add_header(&c, "x-amz-meta-doze-sha256", dz_sha256_hex(c.sha256, hex));
    add_header(&c, "x-amz-meta-doze-writer", o->mark);
    add_time(o, &c, time);
    if (o->head.only_new)
        add_header(&c, "if-none-match", "*");
    rc = ask(o->line, &c, err);
    if (rc == DZ_EEXIST)
        rc = is_ours(o) ? 0 : not_new(o, err);
    dz_s3_call_release(&c);
    return rc;
}

static int put_list(struct s3_out *o, struct dz_err *err)
{
    struct dz_buf b = DZ_BUF_INIT(S3_TEXT_MAX);
    struct s3_call c = about(o->store, "POST", "write", o->key);
    dz_buf_adds(&b, "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (unsigned i = 0; i < o->count; i++) {
        dz_buf_adds(&b, "<Part><ChecksumSHA256>");
        dz_buf_add_base64(&b, o->parts[i].sha256, DZ_SHA256_BYTES);
        dz_buf_adds(&b, "</ChecksumSHA256><ETag>");
        for (const char *p = o->parts[i].etag; *p; p++) /* it came from outside */
            dz_buf_adds(&b, *p == '"'   ? "&quot;"
                            : *p == '<' ? "&lt;"
                            : *p == '&' ? "&amp;"
                                        : (const char[]){*p, '\0'});
        dz_buf_addf(&b, "</ETag><PartNumber>%u</PartNumber></Part>", i + 1);
    }
    dz_buf_adds(&b, "</CompleteMultipartUpload>");
    add_query(&c, "uploadId", o->id);
    add_header(&c, "content-type", "application/xml");
    if (o->head.only_new)
        add_header(&c, "if-none-match", "*");
    c.body = b.p;
    c.size = b.len;
    int rc = b.err ? no_memory(o->key, err) : ask(o->line, &c, err);
    if ((rc == DZ_EEXIST || rc == DZ_ENOENT) && is_ours(o))
        rc = 0; /* the first attempt had put the parts together */
    else if (rc == DZ_EEXIST)
        rc = not_new(o, err);
    if (rc == 0)
        o->id[0] = '\0';
    dz_s3_call_release(&c);
    dz_buf_release(&b);
    return rc;
}

static int out_commit(struct dz_blob_out *head, struct dz_err *err)
{
    struct s3_out *o = (struct s3_out *)head;
    int rc = o->rc;
    if (rc < 0)
        return dz_fail(err, rc, "write " NAME ": a part of it failed", NAMED(o));
    if (o->count == 0) {
        rc = put_whole(o, err);
    } else {
        if (o->now && o->now->size > 0)
            rc = send_part(o, err);
        for (size_t i = 0; i < AT_ONCE && rc == 0; i++)
            rc = end_part(o, &o->uploads[i], err);
        if (rc == 0)
            rc = put_list(o, err);
    }
    o->rc = rc < 0 ? rc : DZ_ESTATE; /* nothing may follow */
    return rc;
}

static int abort_upload(struct s3_store *s, const char *key, const char *id, struct dz_err *err)
{
    struct s3_call c = {.method = "DELETE", .what = "abort the upload of"};
    (void)snprintf(c.key, sizeof c.key, "%s", key);
    add_query(&c, "uploadId", id);
    int rc = ask_alone(s, &c, err);
    dz_s3_call_release(&c);
    return rc == DZ_ENOENT ? 0 : rc;
}

static void out_close(struct dz_blob_out *head)
{
    struct s3_out *o = (struct s3_out *)head;
    char key[S3_KEY_MAX];
    dz_s3_line_put(o->store, o->line);
    (void)snprintf(key, sizeof key, "%s%s", o->store->place.prefix, o->key);
    if (o->id[0] && abort_upload(o->store, key, o->id, NULL) < 0)
        (void)0; /* the next sweep removes it */
    for (size_t i = 0; i < AT_ONCE; i++) {
        dz_s3_call_release(&o->uploads[i].call);
        dz_buf_release(&o->uploads[i].checksum);
        dz_free(o->uploads[i].bytes);
    }
    dz_free(o->parts);
    dz_free(o);
}

static const struct dz_blob_out_ops out_ops = {
    .write = out_write, .commit = out_commit, .close = out_close, .digest = out_digest};

static int s3_out_open(struct dz_blobs *s, const char *key, struct dz_blob_out **ret_out,
                       struct dz_err *err)
{
    uint8_t mark[S3_MARK_BYTES];
    struct s3_out *o = dz_zalloc(sizeof *o);
    if (!o)
        return no_memory(key, err);
    o->head = (struct dz_blob_out){.ops = &out_ops, .fd = -1};
    o->store = store_of(s);
    (void)snprintf(o->key, sizeof o->key, "%s", key);
    for (size_t i = 0; i < AT_ONCE; i++)
        o->uploads[i].checksum = (struct dz_buf)DZ_BUF_INIT(64);
    int rc = dz_random(mark, sizeof mark, err);
    if (rc == 0)
        rc = dz_s3_line_take(o->store, &o->line, err);
    if (rc < 0) {
        out_close(&o->head);
        return rc;
    }
    for (size_t i = 0; i < sizeof mark; i++)
        (void)snprintf(o->mark + 2 * i, 3, "%02x", mark[i]);
    *ret_out = &o->head;
    return 0;
}

/* --- the rest -------------------------------------------------------------------- */

static int s3_stat(struct dz_blobs *s, const char *key, uint64_t *ret_size, struct dz_err *err)
{
    struct s3_call c = about(store_of(s), "HEAD", "look for", key);
    int rc = ask_alone(store_of(s), &c, err);
    if (rc == 0 && c.length < 0)
        rc = dz_fail(err, DZ_EIO, "look for %s in S3: the server sent no length", key);
    if (rc == 0)
        *ret_size = (uint64_t)c.length;
    dz_s3_call_release(&c);
    return rc;
}

static int s3_remove(struct dz_blobs *s, const char *key, struct dz_err *err)
{
    struct s3_call c = about(store_of(s), "DELETE", "remove", key);
    int rc = ask_alone(store_of(s), &c, err);
    dz_s3_call_release(&c);
    return rc == DZ_ENOENT ? 0 : rc;
}

struct listing {
    struct s3_store *store;
    int (*fn)(void *arg, const char *key, uint64_t size); /* is called with each object */
    void *arg;
    char key[S3_KEY_MAX], id[S3_UPLOAD_ID_MAX]; /* of the entry that is being read */
    int64_t size, began_ms; /* began_ms: of an upload; 0: the server did not say */
    char next[2 * S3_KEY_MAX], next_id[S3_UPLOAD_ID_MAX]; /* where the next page begins */
    bool more, over;
    struct dz_err *err;
};

static void keep(char *to, size_t room, const char *text)
{
    if ((size_t)snprintf(to, room, "%s", text) >= room)
        to[0] = '\0'; /* none of our keys is so long */
}

static int64_t size_of(const char *text)
{
    uint64_t n = 0;
    for (; *text >= '0' && *text <= '9' && n < INT64_MAX / 10 - 10; text++)
        n = n * 10 + (uint64_t)(*text - '0');
    return *text ? -1 : (int64_t)n;
}

static int on_object(struct listing *l)
{
    size_t n = strlen(l->store->place.prefix);
    const char *key = l->key + n;
    if (!dz_s3_decode(l->key) || strncmp(l->key, l->store->place.prefix, n) != 0 || key[0] == '.' ||
        !dz_blob_is_key(key) || l->size < 0)
        return 0; /* not one of our objects */
    l->over = l->fn(l->arg, key, (uint64_t)l->size) != 0;
    return 0;
}

/* Abort an upload if it is one of this store's objects, and old. A bucket may have other users, and
 * other uploads of this store may be under way. */
static int on_upload(struct listing *l)
{
    size_t n = strlen(l->store->place.prefix);
    int64_t now = dz_clock_real_ms() + atomic_load(&l->store->skew_s) * 1000, began = l->began_ms;
    l->began_ms = 0;
    if (!dz_s3_decode(l->key) || !l->id[0] || strncmp(l->key, l->store->place.prefix, n) != 0 ||
        !dz_blob_is_key(l->key + n) || began == 0 || now - began < l->store->abandoned_ms)
        return 0;
    return abort_upload(l->store, l->key, l->id, l->err);
}

static int on_list(void *arg, const char *outer, const char *name, const char *text)
{
    struct listing *l = arg;
    if (l->over)
        return 0;
    if (strcmp(outer, "Contents") == 0 || strcmp(outer, "Upload") == 0) {
        if (strcmp(name, "Key") == 0)
            keep(l->key, sizeof l->key, text);
        else if (strcmp(name, "Size") == 0)
            l->size = size_of(text);
        else if (strcmp(name, "UploadId") == 0)
            keep(l->id, sizeof l->id, text);
        else if (strcmp(name, "Initiated") == 0 &&
                 dz_rfc3339_parse(dz_str(text), &l->began_ms, NULL) < 0)
            l->began_ms = 0;
    } else if (strcmp(name, "IsTruncated") == 0) {
        l->more = strcmp(text, "true") == 0;
    } else if (strcmp(name, "NextContinuationToken") == 0 || strcmp(name, "NextKeyMarker") == 0) {
        keep(l->next, sizeof l->next, text);
    } else if (strcmp(name, "NextUploadIdMarker") == 0) {
        keep(l->next_id, sizeof l->next_id, text);
    } else if (strcmp(name, "Contents") == 0) {
        return on_object(l);
    } else if (strcmp(name, "Upload") == 0) {
        return on_upload(l);
    }
    return 0;
}

/* Read all pages of a list. With fn NULL this lists the unfinished uploads and aborts them. */
static int each(struct listing *l, struct dz_err *err)
{
    int rc;
    do {
        struct s3_call c = {.method = "GET", .what = "list"};
        char from[sizeof l->next], from_id[sizeof l->next_id];
        (void)snprintf(from, sizeof from, "%s", l->next);
        (void)snprintf(from_id, sizeof from_id, "%s", l->next_id);
        if (l->fn) {
            add_query(&c, "list-type", "2");
            if (from[0])
                add_query(&c, "continuation-token", from);
        } else {
            add_query(&c, "uploads", "");
            if (from[0] && dz_s3_decode(from)) {
                add_query(&c, "key-marker", from);
                add_query(&c, "upload-id-marker", from_id);
            }
        }
        add_query(&c, "encoding-type", "url");
        add_query(&c, "prefix", l->store->place.prefix);
        l->more = false;
        l->next[0] = l->next_id[0] = '\0';
        l->err = err;
        rc = ask_alone(l->store, &c, err);
        if (rc == 0)
            rc = dz_s3_answer_read(c.text.p, c.text.len, on_list, l, err);
        dz_s3_call_release(&c);
        if (rc == 0 && l->more && !l->next[0])
            rc = dz_fail(err, DZ_EIO,
                         "list the bucket %s: the server sent no position of the next page",
                         l->store->place.bucket);
        if (rc == 0 && l->more && strcmp(l->next, from) == 0 && strcmp(l->next_id, from_id) == 0)
            rc = dz_fail(err, DZ_EIO, "list the bucket %s: the server sent the same page twice",
                         l->store->place.bucket);
    } while (rc == 0 && l->more && !l->over);
    return rc;
}

static int s3_list(struct dz_blobs *s, int (*fn)(void *arg, const char *key, uint64_t size),
                   void *arg, struct dz_err *err)
{
    struct listing l = {.store = store_of(s), .fn = fn, .arg = arg};
    return each(&l, err);
}

static int s3_sweep(struct dz_blobs *s, struct dz_err *err)
{
    struct listing l = {.store = store_of(s)};
    return each(&l, err);
}

static const char **text_of(struct dz_s3_opts *o, size_t i)
{
    const char **all[] = {&o->access_key, &o->secret_key, &o->session_token, &o->credentials_file,
                          &o->profile};
    return i < DZ_ARRAY_LEN(all) ? all[i] : NULL;
}

static void s3_close(struct dz_blobs *head)
{
    struct s3_store *s = store_of(head);
    const char **text;
    dz_s3_lines_free(s);
    for (size_t i = 0; (text = text_of(&s->again, i)); i++) {
        if (*text)
            explicit_bzero((void *)(uintptr_t)*text, strlen(*text));
        dz_free((void *)(uintptr_t)*text);
    }
    dz_free(s->ca_file);
    (void)pthread_mutex_destroy(&s->mutex);
    explicit_bzero(&s->keys, sizeof s->keys);
    dz_free(s);
}

static const struct dz_blobs_ops s3_ops = {
    .stat = s3_stat,
    .in_open = s3_in_open,
    .out_open = s3_out_open,
    .remove = s3_remove,
    .list = s3_list,
    .sweep = s3_sweep,
    .close = s3_close,
};

static int fill_in(struct s3_store *s, const struct dz_s3_opts *o, struct dz_err *err)
{
    struct dz_s3_opts borrowed = *o;
    const char *ca = o->ca_file && o->ca_file[0] ? o->ca_file : getenv("AWS_CA_BUNDLE"), **text;
    int rc = dz_s3_place_of(o, &s->place, err);
    if (rc == 0)
        rc = dz_s3_keys_of(o, &s->keys, err);
    if (rc < 0)
        return rc;
    s->tries = o->tries ? o->tries : DZ_S3_TRIES;
    s->patience_ms = o->patience_ms ? o->patience_ms : DZ_S3_PATIENCE_MS;
    s->abandoned_ms = o->abandoned_ms ? o->abandoned_ms : DZ_S3_ABANDONED_MS;
    s->stop = o->stop;
    if (ca && ca[0] && !(s->ca_file = dz_strndup(ca, strlen(ca))))
        return no_memory("", err);
    for (size_t i = 0; (text = text_of(&s->again, i)); i++) {
        const char *from = *text_of(&borrowed, i);
        if (from && !(*text = dz_strndup(from, strlen(from))))
            return no_memory("", err);
    }
    return 0;
}

int dz_blobs_open_s3(const struct dz_s3_opts *o, struct dz_blobs **ret_store, struct dz_err *err)
{
    int rc = dz_curl_load(err);
    if (rc == 0)
        rc = dz_s3_answer_load(err);
    if (rc < 0)
        return rc;
    struct s3_store *s = dz_zalloc(sizeof *s);
    if (!s)
        return dz_fail(err, DZ_ENOMEM, "open a store in S3: out of memory");
    s->head = (struct dz_blobs){&s3_ops, true};
    (void)pthread_mutex_init(&s->mutex, NULL);
    dz_list_init(&s->lines);
    rc = fill_in(s, o, err);
    if (rc < 0) {
        s3_close(&s->head);
        return rc;
    }
    *ret_store = &s->head;
    return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * blob_s3_call.c - requests, by libcurl.
 *
 * A line is a set of requests that are under way together, with the connections that they use. It
 * belongs to one thread at a time, and the thread that waits for one request drives all of them.
 * A request is tried until it has an answer that stands:
 *
 *     dz_s3_begin()           the server answered, or the reason does not pass
 *          |   +---------+  ----------------------------------------------->  +------+
 *          +-> | RUNNING |  the reason passes       +--------+                | OVER |
 *              +---------+  --------------------->  | PAUSED |  ---------->   +------+
 *                   ^                               +--------+  begin_try()
 *                   +------- the pause is over ---------+        failed
 *
 * A pause has a random length of up to 50 ms, 100 ms, 200 ms ... 5 s, or the length that the server
 * asks for. If the server says that our clock is wrong, its answer has the right time in it, and
 * from then on requests are signed with that. If it says that our keys have expired, they are read
 * again.
 */
#include "base/clock.h"
#include "base/id.h"
#include "base/late_curl.h"
#include "base/mem.h"
#include "base/str.h"
#include "blob/blob_s3_int.h"

#include <assert.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum {
    PAUSE_MS = 50, /* before the second try, at most */
    PAUSE_MAX_MS = 5000,
    CONNECT_MS = 10000,
    STALL_S = 30,   /* the longest time without a byte */
    WAIT_MS = 1000, /* the longest sleep of a line */
    SKEW_MIN_S = 1,
};

struct s3_line {
    struct dz_list link;
    struct s3_store *store;
    CURLM *multi;
    struct dz_list tries; /* of struct s3_try */
};

enum phase {
    RUNNING,
    PAUSED,
    OVER
};
struct s3_try {
    struct dz_list link;
    struct s3_call *call;
    struct s3_line *line;
    CURL *easy;
    struct curl_slist *headers;
    enum phase phase;
    int64_t began_ms, again_ms, date_s; /* date_s: the server's clock with its answer; 0 */
    int retry_after_s;
    size_t sent;
    bool keys_read, partial;
    int rc;
    struct dz_err err;
};

void dz_s3_call_release(struct s3_call *c)
{
    assert(!c->try);
    if (c->text.p)
        dz_buf_release(&c->text);
}

/* --- lines ------------------------------------------------------------------------- */

/* A try has a handle of libcurl while it runs, and only then. */
static void assert_line(const struct s3_line *l)
{
    DZ_LIST_FOREACH(struct s3_try, t, &l->tries, link) {
        assert(t->line == l && t->call->try == t);
        assert((t->phase == RUNNING) == (t->easy != NULL));
    }
}

static void line_free(struct s3_line *l)
{
    assert(dz_list_empty(&l->tries));
    (void)dz_curl.multi_cleanup(l->multi);
    dz_free(l);
}

int dz_s3_line_take(struct s3_store *s, struct s3_line **ret_line, struct dz_err *err)
{
    struct s3_line *l = NULL;
    (void)pthread_mutex_lock(&s->mutex);
    l = DZ_LIST_FIRST(struct s3_line, &s->lines, link);
    if (l)
        dz_list_remove(&l->link);
    (void)pthread_mutex_unlock(&s->mutex);
    if (!l) {
        l = dz_zalloc(sizeof *l);
        if (l)
            l->multi = dz_curl.multi_init();
        if (!l || !l->multi) {
            dz_free(l);
            return dz_fail(err, DZ_ENOMEM, "ask S3: out of memory");
        }
        l->store = s;
        dz_list_init(&l->link);
        dz_list_init(&l->tries);
    }
    (void)pthread_mutex_lock(&s->mutex);
    s->line_count++;
    (void)pthread_mutex_unlock(&s->mutex);
    *ret_line = l;
    return 0;
}

void dz_s3_line_put(struct s3_store *s, struct s3_line *l)
{
    if (!l)
        return;
    DZ_LIST_FOREACH(struct s3_try, t, &l->tries, link)
        dz_s3_drop(l, t->call);
    assert(l->store == s && dz_list_empty(&l->tries));
    (void)pthread_mutex_lock(&s->mutex);
    assert(s->line_count > 0);
    s->line_count--;
    dz_list_push_back(&s->lines, &l->link);
    (void)pthread_mutex_unlock(&s->mutex);
}

void dz_s3_lines_free(struct s3_store *s)
{
    assert(s->line_count == 0);
    DZ_LIST_FOREACH(struct s3_line, l, &s->lines, link) {
        dz_list_remove(&l->link);
        line_free(l);
    }
}

/* --- what an answer says ----------------------------------------------------------- */

static void copy_value(char *to, size_t room, struct dz_str value)
{
    (void)snprintf(to, room, "%.*s", (int)(value.n < room ? value.n : room - 1), value.p);
    dz_str_plain(to);
}

static int64_t number(struct dz_str s)
{
    int64_t n = 0;
    if (s.n == 0 || s.n > 18)
        return -1;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return -1;
        n = n * 10 + (s.p[i] - '0');
    }
    return n;
}

static bool is_header(struct dz_str line, const char *name, struct dz_str *ret_value)
{
    size_t n = strlen(name);
    if (line.n <= n || line.p[n] != ':' || strncasecmp(line.p, name, n) != 0)
        return false;
    *ret_value = dz_str_trim(dz_str_sub(line, n + 1, line.n));
    return true;
}

static size_t on_header(char *p, size_t size, size_t count, void *arg)
{
    struct s3_try *t = arg;
    struct s3_call *c = t->call;
    struct dz_str line = {p, size * count}, value;
    if (dz_str_starts(line, DZ_STR("HTTP/"))) { /* also behind a 100 */
        c->length = -1;
        c->etag[0] = c->mark[0] = c->hash[0] = c->checksum[0] = c->region[0] = '\0';
        t->date_s = t->retry_after_s = 0;
    } else if (is_header(line, "etag", &value)) {
        copy_value(c->etag, sizeof c->etag, value);
    } else if (is_header(line, "x-amz-meta-doze-writer", &value)) {
        copy_value(c->mark, sizeof c->mark, value);
    } else if (is_header(line, "x-amz-meta-doze-sha256", &value)) {
        copy_value(c->hash, sizeof c->hash, value);
    } else if (is_header(line, "x-amz-checksum-sha256", &value)) {
        copy_value(c->checksum, sizeof c->checksum, value);
    } else if (is_header(line, "x-amz-bucket-region", &value)) {
        copy_value(c->region, sizeof c->region, value);
    } else if (is_header(line, "content-length", &value)) {
        if (c->length < 0)
            c->length = number(value);
    } else if (is_header(line, "content-range", &value)) { /* bytes 0-9/100 */
        size_t slash = dz_str_rfind_char(value, '/');
        if (slash != DZ_STR_NONE)
            c->length = number(dz_str_sub(value, slash + 1, value.n));
    } else if (is_header(line, "retry-after", &value)) {
        int64_t n = number(value);
        t->retry_after_s = n > 0 && n < PAUSE_MAX_MS / 1000 ? (int)n
                           : n > 0                          ? PAUSE_MAX_MS / 1000
                                                            : 0;
    } else if (is_header(line, "date", &value)) {
        char text[64];
        copy_value(text, sizeof text, value);
        t->date_s = (int64_t)dz_curl.getdate(text, NULL);
    }
    return size * count;
}

static size_t on_body(char *p, size_t size, size_t count, void *arg)
{
    struct s3_try *t = arg;
    struct s3_call *c = t->call;
    size_t n = size * count;
    long status = 0;
    (void)dz_curl.easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    if (!c->into || status < 200 || status > 299) {
        dz_buf_add(&c->text, p, n);
        return c->text.err ? 0 : n;
    }
    if (n > c->room - c->got)
        return 0;
    memcpy(c->into + c->got, p, n);
    c->got += n;
    return n;
}

static size_t on_upload(char *p, size_t size, size_t count, void *arg)
{
    struct s3_try *t = arg;
    size_t n = size * count, left = t->call->size - t->sent;
    if (n > left)
        n = left;
    memcpy(p, (const char *)t->call->body + t->sent, n);
    t->sent += n;
    return n;
}

static int on_rewind(void *arg, curl_off_t at, int origin)
{
    struct s3_try *t = arg;
    if (origin != SEEK_SET || at < 0 || (size_t)at > t->call->size)
        return CURL_SEEKFUNC_FAIL;
    t->sent = (size_t)at;
    return CURL_SEEKFUNC_OK;
}

/* --- one try ----------------------------------------------------------------------- */

static int no_memory(struct dz_err *err)
{
    return dz_fail(err, DZ_ENOMEM, "ask S3: out of memory");
}

static int add_header(struct s3_try *t, const char *name, const char *value, struct dz_err *err)
{
    struct dz_buf b = DZ_BUF_INIT(S3_SECRET_MAX + S3_NAME_MAX);
    dz_buf_addf(&b, "%s:%s%s", name, value[0] ? " " : "", value);
    struct curl_slist *l = b.err ? NULL : dz_curl.slist_append(t->headers, b.p);
    dz_buf_release(&b);
    if (!l)
        return no_memory(err);
    t->headers = l;
    return 0;
}

static int add_headers(struct s3_try *t, const char *path, const char *query, struct dz_err *err)
{
    struct s3_call *c = t->call;
    struct s3_store *s = t->line->store;
    struct s3_pair pairs[S3_PAIRS_MAX + 4];
    char hex[DZ_SHA256_HEX], when[S3_TIME_TEXT];
    struct dz_buf auth = DZ_BUF_INIT(S3_SECRET_MAX);
    struct s3_keys keys;
    size_t n = 0;
    int64_t now_s = dz_clock_real_ms() / 1000 + atomic_load(&s->skew_s);
    (void)pthread_mutex_lock(&s->mutex);
    keys = s->keys;
    (void)pthread_mutex_unlock(&s->mutex);
    pairs[n++] = (struct s3_pair){"host", s->place.host};
    pairs[n++] = (struct s3_pair){"x-amz-content-sha256", dz_sha256_hex(c->sha256, hex)};
    pairs[n++] = (struct s3_pair){"x-amz-date", dz_s3_time(now_s, when)};
    if (keys.token[0])
        pairs[n++] = (struct s3_pair){"x-amz-security-token", keys.token};
    for (size_t i = 0; i < c->header_count; i++)
        pairs[n++] = c->headers[i];
    dz_s3_sort(pairs, n);
    const struct s3_signed r = {c->method, path, query, pairs, n, hex, s->place.region, now_s};
    int rc = dz_s3_sign(&r, &keys, &auth, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = add_header(t, pairs[i].name, pairs[i].value, err);
    if (rc == 0)
        rc = add_header(t, "authorization", auth.p, err);
    if (rc == 0)
        rc = add_header(t, "expect", "", err); /* no 100: the body follows at once */
    explicit_bzero(&keys, sizeof keys);
    dz_buf_release(&auth);
    return rc;
}

static void clear_answer(struct s3_call *c)
{
    if (!c->text.p)
        c->text = (struct dz_buf)DZ_BUF_INIT(S3_TEXT_MAX);
    dz_buf_reset(&c->text);
    c->status = 0;
    c->got = 0;
    c->length = -1;
    c->error = (struct s3_error){0};
}

static void end_try(struct s3_try *t)
{
    if (t->easy) {
        (void)dz_curl.multi_remove_handle(t->line->multi, t->easy);
        dz_curl.easy_cleanup(t->easy);
    }
    dz_curl.slist_free_all(t->headers);
    t->easy = NULL;
    t->headers = NULL;
}

#define SET(option, value) \
    (rc = rc != CURLE_OK ? rc : dz_curl.easy_setopt(t->easy, (option), (value)))

static int set_up(struct s3_try *t, const char *url, struct dz_err *err)
{
    struct s3_call *c = t->call;
    const struct s3_store *s = t->line->store;
    bool put = strcmp(c->method, "PUT") == 0, post = strcmp(c->method, "POST") == 0;
    CURLcode rc = CURLE_OK;
    SET(CURLOPT_URL, url);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_PROTOCOLS_STR, s->place.tls ? "https" : "http");
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_NOPROXY, NULL);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_HTTPHEADER, t->headers);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    SET(CURLOPT_LOW_SPEED_TIME, (long)STALL_S);
    SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, t);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, t);
    SET(CURLOPT_PRIVATE, t);
    if (s->ca_file)
        SET(CURLOPT_CAINFO, s->ca_file);
    if (strcmp(c->method, "HEAD") == 0)
        SET(CURLOPT_NOBODY, 1L);
    else if (put || post) {
        SET(CURLOPT_UPLOAD, 1L);
        SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)c->size);
        SET(CURLOPT_READFUNCTION, on_upload);
        SET(CURLOPT_READDATA, t);
        SET(CURLOPT_SEEKFUNCTION, on_rewind);
        SET(CURLOPT_SEEKDATA, t);
    }
    if (!put && strcmp(c->method, "HEAD") != 0)
        SET(CURLOPT_CUSTOMREQUEST, c->method);
    return rc == CURLE_OK
               ? 0
               : dz_fail(err, rc == CURLE_OUT_OF_MEMORY ? DZ_ENOMEM : DZ_EINVAL,
                         "ask S3: libcurl refused an option: %s", dz_curl.easy_strerror(rc));
}

static int begin_try(struct s3_try *t, struct dz_err *err)
{
    struct s3_call *c = t->call;
    const struct s3_place *p = &t->line->store->place;
    struct dz_buf path = DZ_BUF_INIT(8 * S3_KEY_MAX), query = DZ_BUF_INIT(16 << 10),
                  url = DZ_BUF_INIT(32 << 10);
    clear_answer(c);
    c->tries++;
    t->sent = 0;
    t->phase = RUNNING;
    dz_buf_adds(&path, "/");
    if (p->path_style)
        dz_buf_addf(&path, "%s%s", p->bucket, c->key[0] ? "/" : "");
    dz_s3_encode(&path, c->key, true);
    dz_s3_query(&query, c->query, c->query_count);
    dz_buf_addf(&url, "http%s://%s%s%s%s", p->tls ? "s" : "", p->host, path.p, query.len ? "?" : "",
                query.p);
    int rc = path.err || query.err || url.err ? no_memory(err) : 0;
    if (rc == 0)
        rc = add_headers(t, path.p, query.p, err);
    if (rc == 0 && !(t->easy = dz_curl.easy_init()))
        rc = no_memory(err);
    if (rc == 0)
        rc = set_up(t, url.p, err);
    if (rc == 0 && dz_curl.multi_add_handle(t->line->multi, t->easy) != CURLM_OK)
        rc = no_memory(err);
    dz_buf_release(&path);
    dz_buf_release(&query);
    dz_buf_release(&url);
    if (rc < 0)
        end_try(t);
    return rc;
}

/* --- between tries ----------------------------------------------------------------- */

static bool passes(CURLcode code)
{
    switch ((int)code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2:
    case CURLE_UPLOAD_FAILED:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_AGAIN:
        return true;
    default:
        return false;
    }
}

/* May the next try have another answer than this one? Also learns from the answer: the server's
 * time if our clock is wrong, new keys if ours have expired. */
static bool status_passes(struct s3_try *t)
{
    struct s3_call *c = t->call;
    struct s3_store *s = t->line->store;
    const char *code = c->error.code;
    if (c->status == 403 && strcmp(code, "RequestTimeTooSkewed") == 0 && t->date_s > 0) {
        int64_t skew = t->date_s - dz_clock_real_ms() / 1000;
        int64_t before = atomic_exchange(&s->skew_s, skew);
        return llabs(skew - before) > SKEW_MIN_S || c->tries < 2;
    }
    if ((strcmp(code, "ExpiredToken") == 0 || strcmp(code, "TokenRefreshRequired") == 0) &&
        !t->keys_read) {
        struct s3_keys keys;
        t->keys_read = true;
        if (dz_s3_keys_of(&s->again, &keys, NULL) < 0)
            return false;
        (void)pthread_mutex_lock(&s->mutex);
        s->keys = keys;
        (void)pthread_mutex_unlock(&s->mutex);
        explicit_bzero(&keys, sizeof keys);
        return true;
    }
    return c->status == 408 || c->status == 429 || c->status == 500 || c->status == 502 ||
           c->status == 503 || c->status == 504 ||
           (c->status == 400 && strcmp(code, "RequestTimeout") == 0) ||
           (c->status == 409 && (strcmp(code, "OperationAborted") == 0 ||
                                 strcmp(code, "ConditionalRequestConflict") == 0));
}

static int64_t pause_of(const struct s3_try *t)
{
    uint32_t dice = 0;
    int64_t most = PAUSE_MAX_MS;
    if (t->retry_after_s > 0)
        return t->retry_after_s * INT64_C(1000);
    if (t->call->tries < 7)
        most = (int64_t)PAUSE_MS << (t->call->tries - 1);
    if (dz_random(&dice, sizeof dice, NULL) < 0)
        return most;
    return (int64_t)(dice % (uint64_t)(most + 1));
}

/* What to do about a failure. */
static const char *advice(const struct s3_call *c)
{
    const char *code = c->error.code;
    if (c->status == 0)
        return "; check the network, the endpoint and its certificate";
    if (strcmp(code, "NoSuchBucket") == 0)
        return "; create the bucket, or correct its name in the URL";
    if (strcmp(code, "SignatureDoesNotMatch") == 0 || strcmp(code, "InvalidAccessKeyId") == 0)
        return "; check the access key and the secret key";
    if (strcmp(code, "ExpiredToken") == 0)
        return "; get new keys, because the session token has expired";
    if (c->status == 401 || c->status == 403)
        return "; the keys must be allowed to get, put, list and delete objects there";
    if (c->status == 501)
        return "; the server lacks a function that doze needs";
    return c->status >= 500 || c->status == 429 ? "; the server is overloaded or broken" : "";
}

/* Write the sentence of a call that has failed for good. */
static int refuse(struct s3_try *t, CURLcode code)
{
    struct s3_call *c = t->call;
    const struct s3_place *p = &t->line->store->place;
    struct dz_err *e = &t->err;
    char tries[32] = "", said[sizeof c->error.code + sizeof c->error.message + 8] = "";
    const char *region = c->region[0] ? c->region : c->error.region;
    int rc = c->status == 404                       ? DZ_ENOENT
             : c->status == 412                     ? DZ_EEXIST
             : c->status == 401 || c->status == 403 ? DZ_EDENIED
             : c->status == 416                     ? DZ_EINVAL
                                                    : DZ_EIO;
    if (c->tries > 1)
        (void)snprintf(tries, sizeof tries, " (tried %u times)", c->tries);
    if (c->status == 0)
        return dz_fail(e, code == CURLE_OUT_OF_MEMORY ? DZ_ENOMEM : DZ_EIO,
                       "%s s3://%s/%s at %s: %s%s%s", c->what, p->bucket, c->key, p->host,
                       dz_curl.easy_strerror(code), tries, advice(c));
    if (region[0] && strcmp(region, p->region) != 0 &&
        (c->status == 301 || c->status == 307 || c->status == 400))
        return dz_fail(e, DZ_EINVAL,
                       "%s s3://%s/%s: the bucket is in the region %s, not in %s: set it", c->what,
                       p->bucket, c->key, region, p->region);
    if (c->error.code[0] && c->status < 500 && advice(c)[0]) /* a sentence has little room */
        (void)snprintf(said, sizeof said, ", %s", c->error.code);
    else if (c->error.code[0])
        (void)snprintf(said, sizeof said, ", %s: %s", c->error.code, c->error.message);
    else if (code != CURLE_OK)
        (void)snprintf(said, sizeof said, ", %s", dz_curl.easy_strerror(code));
    return dz_fail(e, rc, "%s s3://%s/%s: the server answered %d%s%s%s", c->what, p->bucket, c->key,
                   c->status, said, tries, advice(c));
}

/* A try has ended: end the call, or let another try follow. */
static void on_done(struct s3_try *t, CURLcode code)
{
    struct s3_call *c = t->call;
    struct s3_store *s = t->line->store;
    long status = 0;
    int64_t now = dz_clock_mono_ms();
    (void)dz_curl.easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    end_try(t);
    bool whole = code == CURLE_OK;
    c->status = whole || status >= 300 ? (int)status : 0;
    if (c->status && t->date_s > 0)
        atomic_store(&s->seen_skew_s, t->date_s - dz_clock_real_ms() / 1000);
    if (c->text.err == DZ_ENOMEM) {
        t->rc = no_memory(&t->err);
        t->phase = OVER;
        return;
    }
    if (c->status >= 300 || (c->status >= 200 && c->text.len > 0))
        dz_s3_answer_error(c->text.p, c->text.len, &c->error);
    if (c->status == 200 &&
        c->error.code[0]) /* a failure that comes late is reported in this way */
        c->status = 500;
    if (c->status >= 200 && c->status < 300) {
        t->rc = 0;
        t->phase = OVER;
        return;
    }
    bool again = c->status ? status_passes(t) : passes(code) || code == CURLE_WRITE_ERROR;
    int64_t wait = again ? pause_of(t) : 0;
    if (again && c->tries < s->tries && now + wait - t->began_ms <= s->patience_ms) {
        t->phase = PAUSED;
        t->again_ms = now + wait;
    } else {
        t->rc = refuse(t, code);
        t->phase = OVER;
    }
}

/* --- driving a line ---------------------------------------------------------------- */

/* Begin the tries whose pause is over. Returns the milliseconds until the next one's is, at most
 * WAIT_MS. */
static int begin_paused(struct s3_line *l)
{
    int64_t wait = WAIT_MS, now = dz_clock_mono_ms();
    DZ_LIST_FOREACH(struct s3_try, t, &l->tries, link) {
        if (t->phase != PAUSED)
            continue;
        if (t->again_ms > now) {
            wait = t->again_ms - now < wait ? t->again_ms - now : wait;
            continue;
        }
        t->rc = begin_try(t, &t->err);
        if (t->rc < 0)
            t->phase = OVER;
    }
    return (int)wait;
}

static void take_ends(struct s3_line *l)
{
    int left;
    for (CURLMsg *m; (m = dz_curl.multi_info_read(l->multi, &left));) {
        char *at = NULL;
        if (m->msg != CURLMSG_DONE)
            continue;
        CURLcode code = m->data.result; /* m is freed with the handle */
        (void)dz_curl.easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &at);
        on_done((struct s3_try *)(void *)at, code);
    }
    assert_line(l);
}

int dz_s3_begin(struct s3_line *line, struct s3_call *c, struct dz_err *err)
{
    assert(!c->try && c->header_count <= S3_PAIRS_MAX && c->query_count <= S3_PAIRS_MAX);
    if (!c->hashed) {
        int rc = dz_sha256(c->body ? c->body : "", c->size, c->sha256, err);
        if (rc < 0)
            return rc;
        c->hashed = true;
    }
    struct s3_try *t = dz_zalloc(sizeof *t);
    if (!t)
        return no_memory(err);
    dz_list_init(&t->link);
    t->call = c;
    t->line = line;
    t->began_ms = dz_clock_mono_ms();
    int rc = begin_try(t, err);
    if (rc < 0) {
        dz_free(t);
        return rc;
    }
    c->try = t;
    dz_list_push_back(&line->tries, &t->link);
    int running;
    (void)dz_curl.multi_perform(line->multi, &running); /* sends what can be sent now */
    take_ends(line);
    return 0;
}

int dz_s3_end(struct s3_line *line, struct s3_call *c, struct dz_err *err)
{
    struct s3_try *t = c->try;
    assert(t && t->line == line);
    while (t->phase != OVER) {
        const struct s3_store *s = line->store;
        if (s->stop && atomic_load(s->stop)) {
            t->rc = dz_fail(&t->err, DZ_ECANCELED, "%s s3://%s/%s: doze is stopping", c->what,
                            s->place.bucket, c->key);
            break;
        }
        int running, wait = begin_paused(line);
        CURLMcode m = dz_curl.multi_perform(line->multi, &running);
        take_ends(line);
        if (t->phase != OVER && m == CURLM_OK)
            m = dz_curl.multi_poll(line->multi, NULL, 0, wait, NULL);
        if (m != CURLM_OK) {
            t->rc = no_memory(&t->err);
            break;
        }
    }
    int rc = t->rc;
    if (rc < 0 && err)
        *err = t->err;
    dz_s3_drop(line, c);
    return rc;
}

void dz_s3_drop(struct s3_line *line, struct s3_call *c)
{
    struct s3_try *t = c->try;
    if (!t)
        return;
    assert(t->line == line);
    (void)line;
    end_try(t);
    dz_list_remove(&t->link);
    c->try = NULL;
    dz_free(t);
}

int64_t dz_s3_seen_skew(struct dz_blobs *store)
{
    return atomic_load(&((struct s3_store *)store)->seen_skew_s);
}

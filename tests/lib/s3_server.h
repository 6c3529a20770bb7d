/* SPDX-License-Identifier: MIT
 *
 * s3_server.h - a server for the part of S3 that the store needs, in threads of the test.
 *
 * It checks each signature, keeps objects in memory, and answers lists in pages of three. A test
 * injects faults by `faults`, which has one letter for each request, in order of arrival; requests
 * after the last letter have no fault:
 *
 *     .  none                             x  hangs up before it reads the request
 *     5  500, nothing done                s  500 after it was done
 *     S  503 SlowDown                     h  hangs up after it was done
 *     e  ExpiredToken                     c  half of the answer's body, then hangs up
 *     g  500, and no XML                  w  one wrong byte in the answer's body
 *
 * One server at a time.
 */
#ifndef DZ_TESTS_S3_SERVER_H
#define DZ_TESTS_S3_SERVER_H

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "blob/blob_s3_int.h"
#include "tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    S3D_OBJECTS = 64,
    S3D_PARTS = 64,
    S3D_PAGE = 3,
    S3D_THREADS = 32,
    S3D_HEAD = 32 << 10
};

struct s3d_bytes {
    char *p;
    size_t n;
};
struct s3d_object { /* an object, or an upload if id is not 0 */
    char key[S3_KEY_MAX], hash[DZ_SHA256_HEX], mark[64], etag[48], checksum[96];
    char time[40]; /* the time, as litestream stores it */
    struct s3d_bytes bytes, parts[S3D_PARTS + 1];
    char part_etags[S3D_PARTS + 1][48];
    uint8_t part_sha[S3D_PARTS + 1][DZ_SHA256_BYTES];
    unsigned id;
    bool used;
};
static struct {
    pthread_mutex_t mutex;
    pthread_t accepts, threads[S3D_THREADS];
    unsigned thread_count;
    int fds[S3D_THREADS];
    struct s3d_object objects[S3D_OBJECTS];
    int fd, port;
    unsigned serial, requests, refused; /* refused: with a wrong signature */
    const char *faults;
    int64_t skew_s;     /* error of the server's clock */
    bool no_conditions; /* the server does not support If-None-Match */
    bool no_checksums;
    const char *initiated; /* when all uploads began */
    struct s3_keys keys;   /* the keys that it accepts */
} s3d = {.mutex = PTHREAD_MUTEX_INITIALIZER};

struct s3d_request {
    char head[S3D_HEAD], method[16], path[6 * S3_KEY_MAX], query[6 * S3_KEY_MAX];
    struct s3_pair headers[48];
    size_t header_count;
    struct s3d_bytes body;
};

static const char *s3d_header(const struct s3d_request *r, const char *name)
{
    for (size_t i = 0; i < r->header_count; i++)
        if (strcasecmp(r->headers[i].name, name) == 0)
            return r->headers[i].value;
    return NULL;
}

static bool s3d_recv(int fd, char *p, size_t n)
{
    while (n > 0) {
        ssize_t got = recv(fd, p, n, 0);
        if (got <= 0)
            return false;
        p += got;
        n -= (size_t)got;
    }
    return true;
}

static void s3d_send(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        p += sent;
        n -= (size_t)sent;
    }
}

static bool s3d_read(int fd, struct s3d_request *r)
{
    size_t n = 0;
    memset(r, 0, sizeof *r);
    while (n < 4 || memcmp(r->head + n - 4, "\r\n\r\n", 4) != 0) {
        if (n + 1 == sizeof r->head || !s3d_recv(fd, r->head + n, 1))
            return false;
        n++;
    }
    char *rest = r->head, *line = strsep(&rest, "\n");
    char target[6 * S3_KEY_MAX];
    if (sscanf(line, "%15s %6143s", r->method, target) != 2)
        return false;
    char *query = strchr(target, '?');
    if (query)
        *query++ = '\0';
    (void)snprintf(r->path, sizeof r->path, "%s", target);
    (void)snprintf(r->query, sizeof r->query, "%s", query ? query : "");
    while ((line = strsep(&rest, "\n")) && line[0] != '\r') {
        char *colon = strchr(line, ':'), *end = strchr(line, '\r');
        if (!colon || !end || r->header_count == DZ_ARRAY_LEN(r->headers))
            return false;
        *end = *colon++ = '\0';
        while (*colon == ' ')
            colon++;
        r->headers[r->header_count++] = (struct s3_pair){line, colon};
    }
    const char *length = s3d_header(r, "content-length");
    r->body.n = length ? strtoul(length, NULL, 10) : 0;
    r->body.p = malloc(r->body.n + 1);
    r->body.p[r->body.n] = '\0';
    return s3d_recv(fd, r->body.p, r->body.n);
}

/* One parameter of the query, decoded; NULL: it is missing. */
static const char *s3d_query(const struct s3d_request *r, const char *name, char *out, size_t size)
{
    char text[sizeof r->query], *rest = text, *pair;
    (void)snprintf(text, sizeof text, "%s", r->query);
    while ((pair = strsep(&rest, "&"))) {
        char *value = strchr(pair, '=');
        if (value)
            *value++ = '\0';
        if (strcmp(pair, name) == 0 && (!value || dz_s3_decode(value))) {
            (void)snprintf(out, size, "%s", value ? value : "");
            return out;
        }
    }
    return NULL;
}

/* Check the signature. NULL: it is right; else the S3 error code. */
static const char *s3d_check(const struct s3d_request *r)
{
    const char *auth = s3d_header(r, "authorization"), *date = s3d_header(r, "x-amz-date");
    const char *payload = s3d_header(r, "x-amz-content-sha256");
    const char *token = s3d_header(r, "x-amz-security-token");
    const char *names = auth ? strstr(auth, "SignedHeaders=") : NULL;
    struct s3_pair pairs[48];
    struct dz_buf want = DZ_BUF_INIT(1 << 16);
    char list[1024], *rest = list, *name, hex[DZ_SHA256_HEX], when[S3_TIME_TEXT];
    uint8_t digest[DZ_SHA256_BYTES];
    size_t n = 0;
    struct tm tm = {0};
    if (!names || !date || !payload || !strptime(date, "%Y%m%dT%H%M%SZ", &tm))
        return "AccessDenied";
    int64_t asked = (int64_t)timegm(&tm), now = (int64_t)time(NULL) + s3d.skew_s;
    if (llabs(asked - now) > 900)
        return "RequestTimeTooSkewed";
    (void)snprintf(list, sizeof list, "%.*s", (int)strcspn(names + 14, ","), names + 14);
    while ((name = strsep(&rest, ";"))) {
        const char *value = s3d_header(r, name);
        if (!value)
            return "AccessDenied"; /* signed and not sent */
        pairs[n++] = (struct s3_pair){name, value};
    }
    CHECK_INT(dz_sha256(r->body.p, r->body.n, digest, NULL), 0);
    if (strcmp(dz_sha256_hex(digest, hex), payload) != 0)
        return "XAmzContentSHA256Mismatch";
    if (strcmp(token ? token : "", s3d.keys.token) != 0)
        return "InvalidToken";
    const struct s3_signed s = {r->method, r->path, r->query,    pairs,
                                n,         payload, "us-east-1", asked};
    (void)dz_s3_time(asked, when);
    const char *wrong = dz_s3_sign(&s, &s3d.keys, &want, NULL) < 0 || strcmp(want.p, auth) != 0
                            ? "SignatureDoesNotMatch"
                            : NULL;
    dz_buf_release(&want);
    return wrong;
}

static struct s3d_object *s3d_find(const char *key, unsigned id)
{
    for (size_t i = 0; i < S3D_OBJECTS; i++)
        if (s3d.objects[i].used && s3d.objects[i].id == id && strcmp(s3d.objects[i].key, key) == 0)
            return &s3d.objects[i];
    return NULL;
}

static void s3d_forget(struct s3d_object *o)
{
    free(o->bytes.p);
    for (size_t i = 0; i <= S3D_PARTS; i++)
        free(o->parts[i].p);
    memset(o, 0, sizeof *o);
}

static struct s3d_object *s3d_make(const char *key, unsigned id)
{
    struct s3d_object *o = s3d_find(key, id);
    if (o)
        s3d_forget(o);
    for (size_t i = 0; !o && i < S3D_OBJECTS; i++)
        if (!s3d.objects[i].used)
            o = &s3d.objects[i];
    (void)snprintf(o->key, sizeof o->key, "%s", key);
    (void)snprintf(o->etag, sizeof o->etag, "\"%08x\"", ++s3d.serial);
    o->id = id;
    o->used = true;
    return o;
}

struct s3d_answer {
    int status;
    struct dz_buf head, body;
    bool head_only;
};

static void s3d_error(struct s3d_answer *a, int status, const char *code)
{
    a->status = status;
    dz_buf_reset(&a->head);
    dz_buf_reset(&a->body);
    dz_buf_addf(&a->body,
                "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>it is so</Message></Error>",
                code);
}

static bool s3d_refuses(const struct s3d_request *r, struct s3d_object *o, struct s3d_answer *a)
{
    const char *match = s3d_header(r, "if-match"), *none = s3d_header(r, "if-none-match");
    if (!s3d.no_conditions && none && strcmp(none, "*") == 0 && o) {
        s3d_error(a, 412, "PreconditionFailed");
        return true;
    }
    if (match && (!o || strcmp(match, o->etag) != 0)) {
        s3d_error(a, 412, "PreconditionFailed");
        return true;
    }
    return false;
}

static void s3d_take_meta(struct s3d_object *o, const struct s3d_request *r)
{
    const char *hash = s3d_header(r, "x-amz-meta-doze-sha256");
    const char *mark = s3d_header(r, "x-amz-meta-doze-writer");
    (void)snprintf(o->hash, sizeof o->hash, "%s", hash ? hash : "");
    (void)snprintf(o->mark, sizeof o->mark, "%s", mark ? mark : "");
    const char *time = s3d_header(r, "x-amz-meta-litestream-timestamp");
    (void)snprintf(o->time, sizeof o->time, "%s", time ? time : "");
}

static void s3d_get(const struct s3d_request *r, struct s3d_object *o, struct s3d_answer *a)
{
    const char *range = s3d_header(r, "range"), *mode = s3d_header(r, "x-amz-checksum-mode");
    unsigned long from = 0, to = o ? o->bytes.n : 0;
    a->head_only = strcmp(r->method, "HEAD") == 0;
    if (!o) {
        s3d_error(a, 404, "NoSuchKey");
        return;
    }
    if (s3d_refuses(r, o, a))
        return;
    if (range && sscanf(range, "bytes=%lu-%lu", &from, &to) == 2) {
        if (from >= o->bytes.n) {
            s3d_error(a, 416, "InvalidRange");
            return;
        }
        to = to + 1 > o->bytes.n ? o->bytes.n : to + 1;
        a->status = 206;
        dz_buf_addf(&a->head, "Content-Range: bytes %lu-%lu/%zu\r\n", from, to - 1, o->bytes.n);
    }
    dz_buf_addf(&a->head, "ETag: %s\r\n", o->etag);
    if (o->hash[0])
        dz_buf_addf(&a->head, "x-amz-meta-doze-sha256: %s\r\n", o->hash);
    if (o->mark[0])
        dz_buf_addf(&a->head, "x-amz-meta-doze-writer: %s\r\n", o->mark);
    if (o->checksum[0] && mode)
        dz_buf_addf(&a->head, "x-amz-checksum-sha256: %s\r\n", o->checksum);
    dz_buf_add(&a->body, o->bytes.p + from, to - from);
}

static void s3d_complete(const struct s3d_request *r, const char *key, struct s3d_object *up,
                         struct s3d_answer *a)
{
    struct dz_buf all = DZ_BUF_INIT(1 << 30), shas = DZ_BUF_INIT(1 << 20), text = DZ_BUF_INIT(128);
    uint8_t digest[DZ_SHA256_BYTES];
    unsigned count = 0;
    char etag[128];
    if (s3d_refuses(r, s3d_find(key, 0), a))
        return;
    while (count < S3D_PARTS && up->parts[count + 1].p) {
        count++;
        (void)snprintf(etag, sizeof etag, "<ETag>&quot;%s&quot;</ETag><PartNumber>%u<",
                       up->part_etags[count], count);
        if (!strstr(r->body.p, etag)) {
            s3d_error(a, 400, "InvalidPart");
            return;
        }
        dz_buf_add(&all, up->parts[count].p, up->parts[count].n);
        dz_buf_add(&shas, up->part_sha[count], DZ_SHA256_BYTES);
    }
    struct s3d_object *o = s3d_make(key, 0);
    o->bytes.p = malloc(all.len + 1);
    memcpy(o->bytes.p, all.p, all.len);
    o->bytes.n = all.len;
    (void)snprintf(o->mark, sizeof o->mark, "%s", up->mark);
    CHECK_INT(dz_sha256(shas.p, shas.len, digest, NULL), 0);
    dz_buf_add_base64(&text, digest, sizeof digest);
    if (!s3d.no_checksums)
        (void)snprintf(o->checksum, sizeof o->checksum, "%s-%u", text.p, count);
    dz_buf_addf(&a->body,
                "<CompleteMultipartUploadResult><ETag>%s</ETag></CompleteMultipartUploadResult>",
                o->etag);
    s3d_forget(up);
    dz_buf_release(&all);
    dz_buf_release(&shas);
    dz_buf_release(&text);
}

static int s3d_by_key(const void *a, const void *b)
{
    const struct s3d_object *const *x = a, *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

/* A page of the objects, or of the uploads. */
static void s3d_list(const struct s3d_request *r, bool uploads, struct s3d_answer *a)
{
    struct s3d_object *all[S3D_OBJECTS];
    char prefix[S3_KEY_MAX] = "", from[S3_KEY_MAX] = "";
    size_t n = 0, shown = 0;
    (void)s3d_query(r, "prefix", prefix, sizeof prefix);
    (void)s3d_query(r, uploads ? "key-marker" : "continuation-token", from, sizeof from);
    for (size_t i = 0; i < S3D_OBJECTS; i++)
        if (s3d.objects[i].used && (s3d.objects[i].id != 0) == uploads &&
            strncmp(s3d.objects[i].key, prefix, strlen(prefix)) == 0 &&
            strcmp(s3d.objects[i].key, from) > 0)
            all[n++] = &s3d.objects[i];
    if (n > 0)
        qsort(all, n, sizeof *all, s3d_by_key);
    dz_buf_addf(&a->body, "<List><IsTruncated>%s</IsTruncated>", n > S3D_PAGE ? "true" : "false");
    for (; shown < n && shown < S3D_PAGE; shown++)
        if (uploads)
            dz_buf_addf(&a->body,
                        "<Upload><Key>%s</Key><UploadId>%u</UploadId><Initiated>%s</Initiated>"
                        "</Upload>",
                        all[shown]->key, all[shown]->id, s3d.initiated);
        else
            dz_buf_addf(&a->body, "<Contents><Key>%s</Key><Size>%zu</Size></Contents>",
                        all[shown]->key, all[shown]->bytes.n);
    if (n > S3D_PAGE)
        dz_buf_addf(&a->body, "<%s>%s</%s>", uploads ? "NextKeyMarker" : "NextContinuationToken",
                    all[shown - 1]->key, uploads ? "NextKeyMarker" : "NextContinuationToken");
    if (n > S3D_PAGE && uploads)
        dz_buf_addf(&a->body, "<NextUploadIdMarker>%u</NextUploadIdMarker>", all[shown - 1]->id);
    dz_buf_adds(&a->body, "</List>");
}

static void s3d_put(struct s3d_request *r, const char *key, unsigned id, struct s3d_answer *a)
{
    char text[32];
    struct s3d_object *o = s3d_find(key, id);
    if (id == 0) {
        if (s3d_refuses(r, o, a))
            return;
        o = s3d_make(key, 0);
        o->bytes = r->body;
        r->body.p = NULL;
        s3d_take_meta(o, r);
        dz_buf_addf(&a->head, "ETag: %s\r\n", o->etag);
        return;
    }
    unsigned number =
        s3d_query(r, "partNumber", text, sizeof text) ? (unsigned)strtoul(text, NULL, 10) : 0;
    if (!o || number < 1 || number > S3D_PARTS) {
        s3d_error(a, 404, "NoSuchUpload");
        return;
    }
    free(o->parts[number].p);
    o->parts[number] = r->body;
    CHECK_INT(dz_sha256(r->body.p, r->body.n, o->part_sha[number], NULL), 0);
    r->body.p = NULL;
    (void)snprintf(o->part_etags[number], sizeof o->part_etags[number], "%08x", ++s3d.serial);
    dz_buf_addf(&a->head, "ETag: \"%s\"\r\n", o->part_etags[number]);
}

static void s3d_do(struct s3d_request *r, struct s3d_answer *a)
{
    char text[S3_UPLOAD_ID_MAX], key[2 * S3_KEY_MAX];
    static const char bucket[] = "/bucket/";
    if (strncmp(r->path, "/bucket", 7) != 0) {
        s3d_error(a, 404, "NoSuchBucket");
        return;
    }
    (void)snprintf(key, sizeof key, "%s",
                   strlen(r->path) > strlen(bucket) ? r->path + strlen(bucket) : "");
    bool uploads = s3d_query(r, "uploads", text, sizeof text) != NULL;
    unsigned id =
        s3d_query(r, "uploadId", text, sizeof text) ? (unsigned)strtoul(text, NULL, 10) : 0;
    struct s3d_object *o = s3d_find(key, id);
    if (key[0] == '\0') {
        s3d_list(r, uploads, a);
    } else if (strcmp(r->method, "PUT") == 0) {
        s3d_put(r, key, id, a);
    } else if (strcmp(r->method, "POST") == 0 && uploads) {
        o = s3d_make(key, ++s3d.serial);
        s3d_take_meta(o, r);
        dz_buf_addf(
            &a->body,
            "<InitiateMultipartUploadResult><UploadId>%u</UploadId></InitiateMultipartUploadResult>",
            o->id);
    } else if (strcmp(r->method, "POST") == 0 && id && o) {
        s3d_complete(r, key, o, a);
    } else if (strcmp(r->method, "DELETE") == 0) {
        if (o)
            s3d_forget(o);
        a->status = 204;
    } else if (id) {
        s3d_error(a, 404, "NoSuchUpload");
    } else {
        s3d_get(r, o, a);
    }
}

static bool s3d_answer_to(int fd, struct s3d_request *r, char fault)
{
    struct s3d_answer a = {.status = 200, .head = DZ_BUF_INIT(4096), .body = DZ_BUF_INIT(1 << 30)};
    char date[64];
    time_t now = time(NULL) + (time_t)s3d.skew_s;
    struct tm tm;
    (void)pthread_mutex_lock(&s3d.mutex);
    const char *wrong = s3d_check(r);
    if (wrong) {
        s3d.refused += strcmp(wrong, "RequestTimeTooSkewed") != 0;
        s3d_error(&a, 403, wrong);
    } else if (fault == '5' || fault == 'g') {
        s3d_error(&a, 500, "InternalError");
    } else if (fault == 'S') {
        s3d_error(&a, 503, "SlowDown");
    } else if (fault == 'e') {
        s3d_error(&a, 400, "ExpiredToken");
    } else {
        s3d_do(r, &a);
    }
    if (fault == 's')
        s3d_error(&a, 500, "InternalError");
    (void)pthread_mutex_unlock(&s3d.mutex); /* a slow reader must not stop the others */
    if (fault == 'g') {
        dz_buf_reset(&a.body);
        dz_buf_adds(&a.body, "<!DOCTYPE a [<!ENTITY b \"b\">]><a>&b;");
    }
    if (fault == 'w' && a.body.len > 0)
        a.body.p[a.body.len / 2] ^= 1;
    a.head_only = strcmp(r->method, "HEAD") == 0;
    (void)gmtime_r(&now, &tm);
    (void)strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    struct dz_buf top = DZ_BUF_INIT(8192);
    dz_buf_addf(&top, "HTTP/1.1 %d OK\r\nDate: %s\r\nContent-Length: %zu\r\n%s\r\n", a.status, date,
                a.body.len, a.head.p);
    if (fault != 'h') {
        s3d_send(fd, top.p, top.len);
        if (!a.head_only)
            s3d_send(fd, a.body.p, fault == 'c' ? a.body.len / 2 : a.body.len);
    }
    dz_buf_release(&top);
    dz_buf_release(&a.head);
    dz_buf_release(&a.body);
    return fault != 'h' && fault != 'c';
}

static void *s3d_serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    struct s3d_request *r = malloc(sizeof *r);
    bool goes_on = true;
    while (goes_on) {
        char first;
        if (recv(fd, &first, 1, MSG_PEEK) != 1)
            break;
        (void)pthread_mutex_lock(&s3d.mutex);
        char fault = s3d.faults && *s3d.faults ? *s3d.faults++ : '.';
        s3d.requests++;
        (void)pthread_mutex_unlock(&s3d.mutex);
        if (fault == 'x')
            break;
        bool whole = s3d_read(fd, r);
        goes_on = whole && s3d_answer_to(fd, r, fault);
        free(r->body.p);
    }
    free(r);
    (void)shutdown(fd, SHUT_RDWR);
    return NULL;
}

static void *s3d_accept(void *arg)
{
    int fd;
    (void)arg;
    while ((fd = accept(s3d.fd, NULL, NULL)) >= 0) {
        (void)pthread_mutex_lock(&s3d.mutex);
        if (s3d.thread_count < S3D_THREADS) {
            unsigned n = s3d.thread_count++;
            s3d.fds[n] = fd;
            (void)pthread_create(&s3d.threads[n], NULL, s3d_serve, (void *)(intptr_t)fd);
        } else {
            (void)close(fd);
        }
        (void)pthread_mutex_unlock(&s3d.mutex);
    }
    return NULL;
}

static void s3d_start(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    s3d.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(bind(s3d.fd, (struct sockaddr *)&at, n), 0);
    CHECK_INT(listen(s3d.fd, 64), 0);
    CHECK_INT(getsockname(s3d.fd, (struct sockaddr *)&at, &n), 0);
    s3d.port = ntohs(at.sin_port);
    s3d.faults = NULL;
    s3d.requests = s3d.refused = s3d.thread_count = 0;
    s3d.skew_s = 0;
    s3d.no_conditions = s3d.no_checksums = false;
    s3d.initiated = "2020-01-31T10:00:00.000Z";
    s3d.keys = (struct s3_keys){"AKID", "secret/+key", ""};
    CHECK_INT(pthread_create(&s3d.accepts, NULL, s3d_accept, NULL), 0);
}

static void s3d_stop(void)
{
    (void)shutdown(s3d.fd, SHUT_RDWR);
    (void)pthread_join(s3d.accepts, NULL);
    (void)close(s3d.fd);
    for (unsigned i = 0; i < s3d.thread_count; i++) {
        (void)shutdown(s3d.fds[i], SHUT_RDWR);
        (void)pthread_join(s3d.threads[i], NULL);
        (void)close(s3d.fds[i]);
    }
    for (size_t i = 0; i < S3D_OBJECTS; i++)
        s3d_forget(&s3d.objects[i]);
}

#endif

/* SPDX-License-Identifier: MIT
 *
 * api_transfer.c - stream the bytes of files and archives in both directions.
 *
 * Download: the cell sends while its window is open. At most one window of bytes is pending
 * here; when the client has read some, the window opens again. Upload: the server reads no
 * more of a body than the cell has room for.
 */
#include "api/api_int.h"

#include "base/clock.h"
#include "base/num.h"
#include "runtime/runtime_op.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
    HTTP_DATE = 40,
};

/* --- download ------------------------------------------------------------------------------- */

struct download {
    struct dz_api *api;
    uint64_t id; /* id of the request */
    struct dz_file_op *op;
    struct dz_buf pending;
    size_t sent;   /* bytes of pending that were sent */
    uint64_t left; /* bytes of the announced size still to send */
    bool tar, head, ranged, begun, over, failed, closed;
    uint64_t from, length; /* first byte of the range */
};

static void download_free(struct download *d)
{
    dz_buf_release(&d->pending);
    dz_free(d);
}

static struct dz_http_req *request_of(const struct dz_api *a, uint64_t id)
{
    struct dz_http_req *r = dz_http_find(a->http, id);
    if (r)
        dz_http_on_gone(r, NULL, NULL);
    return r;
}

static ssize_t pull(void *arg, char *p, size_t n)
{
    struct download *d = arg;
    size_t have = d->pending.len - d->sent, part = have < n ? have : n;
    if (!d->tar && part > d->left)
        part = (size_t)d->left;
    if (part > 0) {
        memcpy(p, d->pending.p + d->sent, part);
        d->sent += part;
        d->left -= d->tar ? 0 : part;
        if (d->sent == d->pending.len) {
            dz_buf_reset(&d->pending);
            d->sent = 0;
        }
        if (!d->over)
            dz_file_op_ack(d->op, part);
        return (ssize_t)part;
    }
    /* the file shrank, or a read failed */
    if (d->failed || (d->over && !d->tar && d->left > 0))
        return DZ_HTTP_CUT;
    return d->over || (!d->tar && d->left == 0) ? DZ_HTTP_END : DZ_HTTP_WAIT;
}

static void pulled(void *arg)
{
    struct download *d = arg;
    d->closed = true;
    if (!d->over)
        dz_file_op_cancel(d->op);
    download_free(d);
}

static const struct dz_http_source source = {pull, pulled};

static void set_times(struct dz_http_req *r, const struct dz_cell_stat *st)
{
    char text[HTTP_DATE];
    struct tm tm;
    time_t s = (time_t)(st->mtime_ns / DZ_NS_PER_S);
    (void)snprintf(text, sizeof text, "%04o", st->mode & 07777);
    dz_http_set(r, "X-Mode", text);
    if (gmtime_r(&s, &tm) && strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0)
        dz_http_set(r, "Last-Modified", text);
    dz_http_set(r, "Accept-Ranges", "bytes");
}

/* Handle the attributes of the file, which come before its bytes. False: the request was answered
 * without any bytes. */
static bool begin_file(struct download *d, struct dz_http_req *r, const struct dz_cell_stat *st)
{
    char text[96];
    struct dz_http_problem p = {.code = DZ_EINVAL, .field = "path"};
    if (!S_ISREG(st->mode)) {
        p.message = S_ISDIR(st->mode) ? "path: is a directory; list it, or read it as a tar archive"
                                      : "path: is not a regular file";
        dz_http_refuse(r, &p);
        return false;
    }
    if (d->ranged && d->from >= st->size) {
        (void)snprintf(text, sizeof text, "bytes */%llu", (unsigned long long)st->size);
        dz_http_set(r, "Content-Range", text);
        p = (struct dz_http_problem){.code = DZ_EINVAL,
                                     .status = 416,
                                     .message = "the range begins beyond the end of the file"};
        dz_http_refuse(r, &p);
        return false;
    }
    uint64_t rest = st->size - d->from;
    d->left = d->length && d->length < rest ? d->length : rest;
    set_times(r, st);
    if (d->ranged) {
        (void)snprintf(text, sizeof text, "bytes %llu-%llu/%llu", (unsigned long long)d->from,
                       (unsigned long long)(d->from + d->left - 1), (unsigned long long)st->size);
        dz_http_set(r, "Content-Range", text);
    }
    dz_http_stream(r, d->ranged ? 206 : 200, DZ_HTTP_BYTES, (int64_t)d->left, &source, d);
    return true;
}

static void on_bytes(void *arg, const void *data, size_t n)
{
    struct download *d = arg;
    struct dz_cell_view v = {data, n};
    struct dz_cell_stat st;
    if (!d->begun && !d->tar) {
        struct dz_http_req *r = request_of(d->api, d->id);
        d->begun = true;
        dz_file_op_ack(d->op, n);
        bool sound = dz_cell_stat_next(&v, &st, NULL) == 1;
        if (r && sound && begin_file(d, r, &st))
            return;
        if (r && !sound)
            dz_http_fail(r,
                         &(struct dz_err){.code = DZ_EIO,
                                          .msg = "the sandbox's process sent an invalid answer"});
        dz_file_op_cancel(d->op);
        download_free(d);
        return;
    }
    if (!d->begun) {
        struct dz_http_req *r = request_of(d->api, d->id);
        d->begun = true;
        dz_buf_add(&d->pending, data, n);
        if (r) {
            dz_http_stream(r, 200, "application/x-tar", -1, &source, d);
            return;
        }
        dz_file_op_cancel(d->op);
        download_free(d);
        return;
    }
    if (d->sent > 0) { /* drop what the client has read */
        d->pending.len -= d->sent;
        memmove(d->pending.p, d->pending.p + d->sent, d->pending.len);
        d->pending.p[d->pending.len] = '\0';
        d->sent = 0;
    }
    dz_buf_add(&d->pending, data, n);
    d->failed = d->failed || d->pending.err;
    dz_http_more(d->api->http, d->id);
}

static void on_sent(void *arg, const struct dz_why *why, uint64_t count)
{
    struct download *d = arg;
    (void)count;
    d->over = true;
    d->failed = d->failed || why;
    if (d->begun) {
        dz_http_more(d->api->http, d->id);
        return;
    }
    struct dz_http_req *r = request_of(d->api, d->id);
    if (r && why)
        dz_api_refuse(r, why);
    else if (r)
        dz_http_send(r, 200, "application/x-tar", NULL);
    download_free(d);
}

static const struct dz_file_op_ops down_ops = {.data = on_bytes, .done = on_sent};

static void down_gone(void *arg)
{
    struct download *d = arg;
    dz_file_op_cancel(d->op);
    download_free(d);
}

/* Only "bytes=FROM-[TO]" counts; any other Range header is ignored. */
static void read_range(const struct dz_http_req *r, struct download *d)
{
    const char *text = dz_http_header(r, "Range");
    struct dz_str s = dz_str(text), from;
    uint64_t to;
    if (!text || !dz_str_eat(&s, DZ_STR("bytes=")) || !dz_str_split(&s, '-', &from) ||
        dz_num_u64(from, 0, INT64_MAX, &d->from, NULL) < 0)
        return;
    if (s.n > 0 && dz_num_u64(s, d->from, INT64_MAX - 1, &to, NULL) < 0) {
        d->from = 0;
        return;
    }
    d->ranged = true;
    d->length = s.n > 0 ? to - d->from + 1 : 0;
}

static void download(struct dz_api *a, struct dz_http_req *r, struct dz_control_target target,
                     const char *path, bool tar)
{
    struct dz_why why = {0};
    struct download *d = dz_zalloc(sizeof *d);
    if (!d) {
        (void)dz_fail(&why.err, DZ_ENOMEM, "out of memory");
        dz_api_refuse(r, &why);
        return;
    }
    d->api = a;
    d->id = dz_http_id(r);
    d->tar = tar;
    d->pending = (struct dz_buf)DZ_BUF_INIT((size_t)2 * DZ_CELL_OP_WINDOW);
    if (!tar)
        read_range(r, d);
    const struct dz_cell_op op = {.type = tar ? DZ_CELL_OP_TAR_OUT : DZ_CELL_OP_READ,
                                  .path = path,
                                  .offset = d->from,
                                  .length = d->length};
    dz_http_on_gone(r, down_gone, d);
    const struct dz_file_op_request request = {&op, false, DZ_ACTIVITY_DOWNLOAD, &down_ops, d};
    if (dz_api_op(a, r, target, &request, &d->op, &why) < 0) {
        dz_http_on_gone(r, NULL, NULL);
        download_free(d);
        dz_api_refuse(r, &why);
    }
}

static void get(struct dz_api *a, struct dz_http_req *r, bool tar)
{
    static const char *const names[] = {"path", NULL};
    struct dz_why why = {0};
    const char *path = dz_api_path(r, names, &why);
    if (path)
        download(a, r, dz_api_op_target(r, a), path, tar);
    else
        dz_api_refuse(r, &why);
}

void dz_api_download(struct dz_api *a, struct dz_http_req *r, struct dz_control_target target,
                     const char *path)
{
    download(a, r, target, path, false);
}

void dz_api_file_get(struct dz_http_req *r, void *api)
{
    get(api, r, false);
}

void dz_api_tar_get(struct dz_http_req *r, void *api)
{
    get(api, r, true);
}

/* --- upload ------------------------------------------------------------------------------------
 */

struct upload {
    struct dz_api *api;
    uint64_t id;
    struct dz_file_op *op;
    bool tar;
};

static ssize_t push(void *arg, const char *p, size_t n)
{
    struct upload *u = arg;
    return u->op ? (ssize_t)dz_file_op_send(u->op, p, n) : -1;
}

static void push_end(void *arg)
{
    struct upload *u = arg;
    if (u->op)
        dz_file_op_end(u->op);
}

static const struct dz_http_sink sink = {push, push_end};

static void on_room(void *arg)
{
    struct upload *u = arg;
    dz_http_more(u->api->http, u->id);
}

static void on_taken(void *arg, const struct dz_why *why, uint64_t count)
{
    struct upload *u = arg;
    struct dz_http_req *r = request_of(u->api, u->id);
    struct dz_api_out o;
    u->op = NULL;
    if (r && why) {
        dz_api_refuse(r, why);
    } else if (r && u->tar) {
        dz_api_begin(&o);
        dz_json_put_u64(&o.json, "members", count);
        dz_api_send(r, 200, &o);
    } else if (r) {
        dz_http_send(r, count ? 201 : 204, NULL, NULL);
    }
    dz_free(u);
}

static const struct dz_file_op_ops up_ops = {.room = on_room, .done = on_taken};

static void up_gone(void *arg)
{
    struct upload *u = arg;
    dz_file_op_cancel(u->op);
    dz_free(u);
}

static int read_mode(const struct dz_http_req *r, uint32_t *ret_mode, struct dz_why *why)
{
    const char *text = dz_http_query(r, "mode");
    uint32_t mode = 0;
    size_t n = text ? strlen(text) : 0;
    for (size_t i = 0; i < n; i++) {
        if (n > 4 || text[i] < '0' || text[i] > '7') {
            (void)snprintf(why->field, sizeof why->field, "mode");
            return dz_fail(&why->err, DZ_EINVAL, "mode: must be one to four octal digits");
        }
        mode = mode * 8 + (uint32_t)(text[i] - '0');
    }
    *ret_mode = mode;
    return 0;
}

static void upload(struct dz_api *a, struct dz_http_req *r, bool tar)
{
    static const char *const names[] = {"path", "mode", NULL};
    struct dz_why why = {0};
    struct dz_cell_op op = {.type = tar ? DZ_CELL_OP_TAR_IN : DZ_CELL_OP_WRITE,
                            .flags = DZ_CELL_OP_PARENTS};
    const char *none_match = dz_http_header(r, "If-None-Match");
    struct upload *u = NULL;
    op.path = dz_api_path(r, names, &why);
    int rc = op.path ? read_mode(r, &op.mode, &why) : why.err.code;
    if (rc == 0 && none_match && strcmp(none_match, "*") == 0)
        op.flags |= DZ_CELL_OP_NEW;
    if (rc == 0 && !(u = dz_zalloc(sizeof *u)))
        rc = dz_fail(&why.err, DZ_ENOMEM, "out of memory");
    if (rc < 0 || !u) {
        dz_free(u);
        dz_api_refuse(r, &why);
        return;
    }
    uint64_t id = dz_http_id(r);
    *u = (struct upload){.api = a, .id = id, .tar = tar};
    dz_http_on_gone(r, up_gone, u);
    const struct dz_file_op_request request = {&op, true, DZ_ACTIVITY_UPLOAD, &up_ops, u};
    rc = dz_api_op(a, r, dz_api_op_target(r, a), &request, &u->op, &why);
    if (rc < 0) {
        dz_http_on_gone(r, NULL, NULL);
        dz_free(u);
        dz_api_refuse(r, &why);
        return;
    }
    r = dz_http_find(a->http, id); /* NULL: the request has been answered */
    if (r)
        dz_http_receive(r, &sink, u);
}

void dz_api_file_put(struct dz_http_req *r, void *api)
{
    upload(api, r, false);
}

void dz_api_tar_put(struct dz_http_req *r, void *api)
{
    upload(api, r, true);
}

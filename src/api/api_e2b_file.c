/* SPDX-License-Identifier: MIT
 *
 * api_e2b_file.c - files of E2B's data plane: GET and POST /files, and the service
 * filesystem.Filesystem.
 *
 * An upload is one file (application/octet-stream) or several (multipart/form-data, RFC 7578),
 * whose names are whole paths. Each file replaces the one at its path when all of it has come; the
 * files of one upload are written one after another, so a failure leaves those before it.
 *
 *     body --> in --> parts: head, bytes, boundary --> one operation of the sandbox at a time
 *
 * `in` holds what the operation has no room for yet, at most IN_MAX bytes; then the connection is
 * not read.
 */
#include "api/api_e2b.h"

#include "base/clock.h"
#include "http/http_head.h"
#include "runtime/runtime_op.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum {
    IN_MAX = 128 << 10,
    BOUNDARY_MAX = 70, /* RFC 2046, 5.1.1 */
    PART_HEAD_MAX = 16 << 10,
    PARTS_MAX = 10000,
    ENTRIES_MAX = 100000, /* of one listing */
    DEPTH_MAX = 64,
};

/* --- GET /files ---------------------------------------------------------------------------------
 */

void dz_e2b_file_get(struct dz_http_req *r, void *api)
{
    struct dz_control_target target;
    char path[DZ_E2B_PATH];
    const char *given = dz_http_query(r, "path");
    if (!given || !given[0])
        dz_e2b_refuse(r, DZ_EINVAL, 0, "path: must be given");
    else if (dz_e2b_use(api, r, &target) && dz_e2b_path(r, given, path))
        dz_api_download(api, r, target, path);
}

/* --- POST /files --------------------------------------------------------------------------------
 */

enum at {
    AT_START, /* before the first boundary */
    AT_HEAD,
    AT_BYTES,
    AT_NEXT, /* behind a boundary: another part follows, or the end */
    AT_END,  /* what follows is ignored */
};

struct upload {
    struct dz_api *api;
    uint64_t id;
    struct dz_control_target target; /* its text is in the request's memory */
    struct dz_file_op *op;
    const char *path;                /* of the query, resolved; NULL: by the parts */
    char boundary[BOUNDARY_MAX + 5]; /* with CR LF - - before it; "": the body is the file */
    enum at at;
    bool writing;   /* the operation has not ended */
    bool file_over; /* all bytes of its file were sent */
    bool body_over; /* the body is complete */
    size_t parts;
    struct dz_buf in;
    struct dz_api_out out;
    char name[DZ_E2B_PATH]; /* of the file that is written */
};

static void upload_free(struct upload *u)
{
    dz_file_op_cancel(u->op);
    dz_buf_release(&u->in);
    dz_buf_release(&u->out.text);
    dz_free(u);
}

static void upload_gone(void *arg)
{
    upload_free(arg);
}

/* Refuse the request and free u. */
static void upload_fail(struct upload *u, int code, const char *text)
{
    struct dz_http_req *r = dz_http_find(u->api->http, u->id);
    dz_http_on_gone(r, NULL, NULL);
    upload_free(u);
    dz_e2b_refuse(r, code, 0, "%s", text);
}

static void eat(struct upload *u, size_t n)
{
    u->in.len -= n;
    memmove(u->in.p, u->in.p + n, u->in.len);
    u->in.p[u->in.len] = '\0';
}

static const struct dz_file_op_ops write_ops;

static bool begin_file(struct upload *u, const char *path)
{
    struct dz_http_req *r = dz_http_find(u->api->http, u->id);
    struct dz_why why = {0};
    (void)snprintf(u->name, sizeof u->name, "%s", path);
    const struct dz_cell_op op = {
        .type = DZ_CELL_OP_WRITE, .path = u->name, .flags = DZ_CELL_OP_PARENTS};
    const struct dz_file_op_request request = {&op, true, DZ_ACTIVITY_UPLOAD, &write_ops, u};
    u->file_over = false;
    u->writing = true;
    if (dz_control_op(u->api->control, u->target, &request, &u->op, &why) == 0)
        return true;
    dz_http_on_gone(r, NULL, NULL);
    upload_free(u);
    dz_http_fail(r, &why.err);
    return false;
}

/* Send bytes to the operation; how many it took. */
static size_t send_bytes(struct upload *u, size_t n)
{
    int64_t sent = n ? dz_file_op_send(u->op, u->in.p, n) : 0;
    if (sent > 0)
        eat(u, (size_t)sent);
    return sent > 0 ? (size_t)sent : 0;
}

/* --- parts */

/* The path of a part: the value of filename in Content-Disposition. Only %22, %0D and %0A are
 * escapes (the URL standard's multipart/form-data encoding). False: there is none. */
static bool filename_of(struct dz_str head, char out[static DZ_E2B_PATH])
{
    struct dz_str line, rest = head;
    while (dz_str_split(&rest, '\n', &line)) {
        static const char field[] = "content-disposition:", key[] = "filename=\"";
        if (line.n < sizeof field || strncasecmp(line.p, field, sizeof field - 1) != 0)
            continue;
        size_t at = dz_str_find(line, dz_str_n(key, sizeof key - 1)), n = 0;
        if (at == DZ_STR_NONE)
            return false;
        for (at += sizeof key - 1; at < line.n && line.p[at] != '"' && n + 1 < DZ_E2B_PATH; at++) {
            struct dz_str here = dz_str_sub(line, at, 3);
            bool quote = dz_str_eqz(here, "%22");
            bool cr = dz_str_eqz(here, "%0D"), lf = dz_str_eqz(here, "%0A");
            bool slash = line.p[at] == '\\' && at + 1 < line.n &&
                         (line.p[at + 1] == '"' || line.p[at + 1] == '\\');
            at += quote || cr || lf ? 2 : slash ? 1 : 0;
            out[n++] = (char)(quote ? '"' : cr ? '\r' : lf ? '\n' : line.p[at]);
        }
        out[n] = '\0';
        return n > 0 && at < line.n && line.p[at] == '"';
    }
    return false;
}

/* Read the head of a part and begin its file. 0: it is not complete; 1; -1: u is freed. */
static int part_head(struct upload *u)
{
    struct dz_http_req *r = dz_http_find(u->api->http, u->id);
    char name[DZ_E2B_PATH], path[DZ_E2B_PATH];
    size_t n = dz_str_find(dz_str_n(u->in.p, u->in.len), DZ_STR("\r\n\r\n"));
    if (n == DZ_STR_NONE && u->in.len < PART_HEAD_MAX)
        return 0;
    if (n == DZ_STR_NONE || ++u->parts > PARTS_MAX || !filename_of(dz_str_n(u->in.p, n), name) ||
        strlen(name) + sizeof DZ_E2B_HOME + 1 > DZ_E2B_PATH) {
        upload_fail(u, DZ_EINVAL, "a part of the form must have a filename, the path of its file");
        return -1;
    }
    eat(u, n + 4);
    u->at = AT_BYTES;
    if (u->path)
        (void)snprintf(path, sizeof path, "%s", u->path);
    else
        (void)dz_e2b_path(r, name, path); /* it is short enough */
    return begin_file(u, path) ? 1 : -1;
}

/* Send the bytes of a part up to its boundary. 0: no more room, or no more bytes. */
static int part_bytes(struct upload *u)
{
    struct dz_str mark = dz_str(u->boundary), in = dz_str_n(u->in.p, u->in.len);
    size_t n = dz_str_find(in, mark);
    if (n == DZ_STR_NONE) { /* the end may be the beginning of the boundary */
        (void)send_bytes(u, in.n > mark.n ? in.n - mark.n : 0);
        return 0;
    }
    if (n > 0 && send_bytes(u, n) < n)
        return 0;
    eat(u, mark.n);
    dz_file_op_end(u->op);
    u->file_over = true;
    u->at = AT_NEXT;
    return 1;
}

/* Behind a boundary: CR LF, or "--" at the end. */
static int part_next(struct upload *u)
{
    if (u->in.len < 2)
        return 0;
    bool last = memcmp(u->in.p, "--", 2) == 0;
    if (!last && memcmp(u->in.p, "\r\n", 2) != 0) {
        upload_fail(u, DZ_EINVAL, "the form is malformed behind a boundary");
        return -1;
    }
    eat(u, 2);
    u->at = last ? AT_END : AT_HEAD;
    return 1;
}

static int part_start(struct upload *u)
{
    struct dz_str mark = dz_str(u->boundary + 2), in = dz_str_n(u->in.p, u->in.len);
    if (in.n < mark.n)
        return 0;
    if (!dz_str_starts(in, mark)) {
        upload_fail(u, DZ_EINVAL, "the form must begin with its boundary");
        return -1;
    }
    eat(u, mark.n);
    u->at = AT_NEXT;
    return 1;
}

static void upload_done(struct upload *u)
{
    struct dz_http_req *r = dz_http_find(u->api->http, u->id);
    dz_http_on_gone(r, NULL, NULL);
    dz_json_end(&u->out.json);
    (void)!dz_json_finish(&u->out.json);
    dz_http_send(r, 200, DZ_HTTP_JSON, &u->out.text);
    upload_free(u);
}

/* Take the bytes that have come as far as they go. False: u is freed. */
static bool advance(struct upload *u)
{
    int rc = 1;
    while (rc > 0) {
        if (u->at != AT_BYTES && u->writing) /* its file has to be complete first */
            return true;
        if (!u->boundary[0]) {
            (void)send_bytes(u, u->in.len);
            rc = 0;
        } else {
            rc = u->at == AT_START   ? part_start(u)
                 : u->at == AT_HEAD  ? part_head(u)
                 : u->at == AT_BYTES ? part_bytes(u)
                 : u->at == AT_NEXT  ? part_next(u)
                                     : 0;
        }
    }
    if (rc < 0)
        return false;
    if (u->at == AT_END)
        dz_buf_reset(&u->in);
    if (!u->body_over)
        return true;
    if (!u->boundary[0]) {
        if (u->in.len == 0 && u->writing && !u->file_over) {
            u->file_over = true;
            dz_file_op_end(u->op);
        }
    } else if (u->at == AT_END) {
        upload_done(u);
        return false;
    } else if (u->at != AT_BYTES || u->in.len <= strlen(u->boundary)) {
        upload_fail(u, DZ_EINVAL, "the form ends before its last boundary");
        return false;
    }
    return true;
}

static ssize_t push(void *arg, const char *p, size_t n)
{
    struct upload *u = arg;
    size_t room = IN_MAX - u->in.len, part = n < room ? n : room;
    dz_buf_add(&u->in, p, part);
    if (u->in.err) {
        upload_fail(u, DZ_ENOMEM, "out of memory");
        return -1;
    }
    return advance(u) ? (ssize_t)part : -1;
}

static void push_end(void *arg)
{
    struct upload *u = arg;
    u->body_over = true;
    (void)advance(u);
}

static const struct dz_http_sink sink = {push, push_end};

static void on_room(void *arg)
{
    struct upload *u = arg;
    struct dz_http *h = u->api->http;
    uint64_t id = u->id;
    if (advance(u))
        dz_http_more(h, id);
}

static void on_written(void *arg, const struct dz_why *why, uint64_t count)
{
    struct upload *u = arg;
    const char *name = strrchr(u->name, '/');
    (void)count;
    u->op = NULL;
    u->writing = false;
    if (why) {
        upload_fail(u, why->err.code, why->err.msg);
        return;
    }
    dz_json_object(&u->out.json);
    dz_json_put_strz(&u->out.json, "path", u->name);
    dz_json_put_strz(&u->out.json, "name", name ? name + 1 : u->name);
    dz_json_put_strz(&u->out.json, "type", "file");
    dz_json_end(&u->out.json);
    struct dz_http_req *r = dz_http_find(u->api->http, u->id);
    if (u->out.text.len > DZ_HELD_FREE && !dz_http_reserve(r, u->out.text.len)) {
        dz_http_on_gone(r, NULL, NULL);
        upload_free(u);
        dz_http_refuse_held(r);
        return;
    }
    if (!u->boundary[0])
        upload_done(u);
    else
        on_room(u);
}

static const struct dz_file_op_ops write_ops = {.room = on_room, .done = on_written};

/* The boundary of "multipart/form-data; boundary=...". False: it is another type, or has none. */
static bool boundary_of(const char *type, struct upload *u)
{
    static const char form[] = "multipart/form-data", key[] = "boundary=";
    const char *at = strncasecmp(type, form, sizeof form - 1) == 0 ? strcasestr(type, key) : NULL;
    if (!at)
        return false;
    at += sizeof key - 1;
    size_t n = at[0] == '"' ? strcspn(++at, "\"") : strcspn(at, "; \t");
    if (n < 1 || n > BOUNDARY_MAX)
        return false;
    (void)snprintf(u->boundary, sizeof u->boundary, "\r\n--%.*s", (int)n, at);
    return true;
}

/* The first header that would give the file metadata; NULL: none. */
static const char *file_metadata(const struct dz_http_req *r)
{
    static const char prefix[] = "X-Metadata-";
    const struct dz_http_head *head = dz_http_head(r);
    for (size_t i = 0; i < head->count; i++)
        if (strncasecmp(head->headers[i].name, prefix, sizeof prefix - 1) == 0)
            return head->headers[i].name;
    return NULL;
}

/* Read what the head says of an upload. False: the request has been refused. */
static bool upload_read(struct dz_http_req *r, struct upload *u)
{
    const char *type = dz_http_header(r, "Content-Type"), *path = dz_http_query(r, "path");
    const char *coding = dz_http_header(r, "Content-Encoding"), *metadata = file_metadata(r);
    char resolved[DZ_E2B_PATH];
    bool bytes = type && strncasecmp(type, DZ_HTTP_BYTES, sizeof DZ_HTTP_BYTES - 1) == 0;
    if (coding && strcasecmp(coding, "identity") != 0) {
        dz_e2b_refuse(r, DZ_EUNSUPPORTED, 415, "Content-Encoding: %.40s is not available", coding);
        return false;
    }
    if (metadata) {
        dz_e2b_refuse(r, DZ_EUNSUPPORTED, 400, "%.60s: metadata of files is not available in doze",
                      metadata);
        return false;
    }
    if (!bytes && !(type && boundary_of(type, u))) {
        dz_e2b_refuse(r, DZ_EINVAL, 0,
                      "Content-Type: must be multipart/form-data with a boundary, or "
                      "application/octet-stream");
        return false;
    }
    if (bytes && !(path && path[0])) {
        dz_e2b_refuse(r, DZ_EINVAL, 0, "path: must be given");
        return false;
    }
    if (path && path[0]) {
        if (!dz_e2b_path(r, path, resolved))
            return false;
        u->path = dz_arena_str(dz_http_arena(r), dz_str(resolved)).p;
    }
    return true;
}

void dz_e2b_file_post(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct upload *u = dz_zalloc(sizeof *u);
    if (!u) {
        dz_e2b_refuse(r, DZ_ENOMEM, 0, "out of memory");
        return;
    }
    if (!upload_read(r, u) || !dz_e2b_use(a, r, &u->target)) {
        dz_free(u);
        return;
    }
    u->api = a;
    u->id = dz_http_id(r);
    u->in = (struct dz_buf)DZ_BUF_INIT(IN_MAX);
    u->out.text = (struct dz_buf)DZ_BUF_INIT(DZ_API_ANSWER_MAX);
    dz_json_init(&u->out.json, &u->out.text, false);
    dz_json_array(&u->out.json);
    u->at = u->boundary[0] ? AT_START : AT_BYTES;
    dz_http_on_gone(r, upload_gone, u);
    if (u->boundary[0] || begin_file(u, u->path))
        dz_http_receive(r, &sink, u);
}

/* --- filesystem.Filesystem: calls of one or more operations
 * --------------------------------------- */

/* A call: its operations one after another. `next` starts the one after the one that has ended, or
 * answers. */
struct calling {
    struct dz_api *api;
    uint64_t id;
    struct dz_control_target target;
    struct dz_file_op *op;
    bool (*next)(struct calling *c, struct dz_http_req *r, const struct dz_why *why);
    int step;
    struct dz_api_out out;
    bool listing, has; /* has: the last operation has given an entry */
    uint32_t mode;     /* of the last entry */
    char path[DZ_E2B_PATH], to[DZ_E2B_PATH];
};

static void calling_free(struct calling *c)
{
    dz_buf_release(&c->out.text);
    dz_free(c);
}

static void calling_gone(void *arg)
{
    struct calling *c = arg;
    dz_file_op_cancel(c->op);
    calling_free(c);
}

/* Write an EntryInfo. A symbolic link in a listing is shown as a file with a target, because the
 * clients leave out what is neither a file nor a directory. */
static void put_entry(struct dz_json *j, const char *path, const struct dz_cell_stat *st)
{
    static const char letters[] = "rwxrwxrwx";
    const char *name = strrchr(path, '/');
    char text[DZ_RFC3339_TEXT];
    bool dir = S_ISDIR(st->mode), link = S_ISLNK(st->mode);
    dz_json_object(j);
    dz_json_put_strz(j, "name", name && name[1] ? name + 1 : path);
    dz_json_put_strz(j, "type", dir ? "FILE_TYPE_DIRECTORY" : "FILE_TYPE_FILE");
    dz_json_put_strz(j, "path", path);
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)st->size);
    dz_json_put_strz(j, "size", text);
    dz_json_put_i64(j, "mode", st->mode & 07777);
    text[0] = dir ? 'd' : link ? 'L' : '-';
    for (int i = 0; i < 9; i++)
        text[i + 1] = st->mode & (0400u >> i) ? letters[i] : '-';
    text[10] = '\0';
    dz_json_put_strz(j, "permissions", text);
    (void)snprintf(text, sizeof text, "%u", st->uid);
    dz_json_put_strz(j, "owner", st->uid ? text : "root");
    (void)snprintf(text, sizeof text, "%u", st->gid);
    dz_json_put_strz(j, "group", st->gid ? text : "root");
    dz_json_put_strz(j, "modifiedTime", dz_rfc3339_print(st->mtime_ns / DZ_NS_PER_MS, text));
    if (st->target[0])
        dz_json_put_strz(j, "symlinkTarget", st->target);
    dz_json_end(j);
}

static void on_entries(void *arg, const void *data, size_t n)
{
    struct calling *c = arg;
    struct dz_cell_view v = {data, n};
    struct dz_cell_stat st;
    char path[DZ_E2B_PATH + DZ_LINE_MAX];
    bool root = strcmp(c->path, "/") == 0;
    while (dz_cell_stat_next(&v, &st, NULL) == 1) {
        c->has = true;
        c->mode = st.mode;
        if (c->listing) {
            (void)snprintf(path, sizeof path, "%s/%s", root ? "" : c->path, st.path);
            put_entry(&c->out.json, path, &st);
        } else if (c->out.text.len > 0) {
            dz_json_key(&c->out.json, "entry");
            put_entry(&c->out.json, st.path, &st);
        }
    }
    struct dz_http_req *r = dz_http_find(c->api->http, c->id);
    if (!r || c->out.text.len <= DZ_HELD_FREE || dz_http_reserve(r, c->out.text.len)) {
        dz_file_op_ack(c->op, n);
        return;
    }
    dz_http_on_gone(r, NULL, NULL);
    calling_gone(c);
    dz_http_refuse_held(r);
}

static void on_call(void *arg, const struct dz_why *why, uint64_t count)
{
    struct calling *c = arg;
    struct dz_http_req *r = dz_http_find(c->api->http, c->id);
    (void)count;
    c->op = NULL;
    if (r && c->next(c, r, why))
        return;
    calling_free(c);
}

static const struct dz_file_op_ops call_ops = {.data = on_entries, .done = on_call};

/* Start an operation of the call. False: the request has been refused. */
static bool operate(struct calling *c, struct dz_http_req *r, const struct dz_cell_op *op)
{
    bool writes = op->type != DZ_CELL_OP_STAT && op->type != DZ_CELL_OP_LIST;
    struct dz_why why = {0};
    const struct dz_file_op_request request = {op, writes, DZ_ACTIVITY_LIST_DIRECTORY, &call_ops,
                                               c};
    c->has = false;
    dz_http_on_gone(r, calling_gone, c);
    if (dz_control_op(c->api->control, c->target, &request, &c->op, &why) == 0)
        return true;
    dz_http_on_gone(r, NULL, NULL);
    dz_http_fail(r, &why.err);
    return false;
}

static bool answer(struct calling *c, struct dz_http_req *r, const struct dz_why *why)
{
    dz_http_on_gone(r, NULL, NULL);
    if (why)
        dz_http_fail(r, &why->err);
    else
        dz_api_send(r, 200, &c->out);
    return false;
}

static bool stat_path(struct calling *c, struct dz_http_req *r, const char *path)
{
    const struct dz_cell_op op = {.type = DZ_CELL_OP_STAT, .path = path};
    dz_api_begin(&c->out);
    c->next = answer;
    return operate(c, r, &op);
}

/* Begin a call; NULL: the request has been refused. */
static struct calling *call(struct dz_api *a, struct dz_http_req *r, const char *path)
{
    struct dz_control_target target;
    char resolved[DZ_E2B_PATH];
    if (!path || !path[0]) {
        dz_e2b_refuse(r, DZ_EINVAL, 0, "path: must be given");
        return NULL;
    }
    if (!dz_e2b_use(a, r, &target) || !dz_e2b_path(r, path, resolved))
        return NULL;
    struct calling *c = dz_zalloc(sizeof *c);
    if (!c) {
        dz_e2b_refuse(r, DZ_ENOMEM, 0, "out of memory");
        return NULL;
    }
    c->api = a;
    c->id = dz_http_id(r);
    c->target = target;
    c->out.text = (struct dz_buf)DZ_BUF_INIT(DZ_API_ANSWER_MAX);
    (void)snprintf(c->path, sizeof c->path, "%s", resolved);
    for (size_t n = strlen(c->path); n > 1 && c->path[n - 1] == '/'; n--)
        c->path[n - 1] = '\0';
    return c;
}

static const char *path_of(const json_t *o)
{
    return json_string_value(json_object_get(o, "path"));
}

void dz_e2b_stat(struct dz_http_req *r, void *api)
{
    json_t *o = dz_e2b_body(r);
    struct calling *c = o ? call(api, r, path_of(o)) : NULL;
    if (c && !stat_path(c, r, c->path))
        calling_free(c);
}

static bool list_next(struct calling *c, struct dz_http_req *r, const struct dz_why *why)
{
    if (!why)
        dz_json_end(&c->out.json);
    return answer(c, r, why);
}

void dz_e2b_list_dir(struct dz_http_req *r, void *api)
{
    json_t *o = dz_e2b_body(r);
    struct calling *c = o ? call(api, r, path_of(o)) : NULL;
    json_int_t depth = json_integer_value(json_object_get(o, "depth"));
    if (!c)
        return;
    const struct dz_cell_op op = {.type = DZ_CELL_OP_LIST,
                                  .path = c->path,
                                  .depth = (uint32_t)(depth < 1           ? 1
                                                      : depth > DEPTH_MAX ? DEPTH_MAX
                                                                          : depth),
                                  .limit = ENTRIES_MAX};
    dz_api_begin(&c->out);
    dz_json_key(&c->out.json, "entries");
    dz_json_array(&c->out.json);
    c->listing = true;
    c->next = list_next;
    if (!operate(c, r, &op))
        calling_free(c);
}

static bool made(struct calling *c, struct dz_http_req *r, const struct dz_why *why)
{
    return why ? answer(c, r, why) : stat_path(c, r, c->path);
}

static bool make_next(struct calling *c, struct dz_http_req *r, const struct dz_why *why)
{
    const struct dz_cell_op op = {
        .type = DZ_CELL_OP_MKDIR, .path = c->path, .flags = DZ_CELL_OP_PARENTS};
    if (why && why->err.code != DZ_ENOENT)
        return answer(c, r, why);
    if (!why) {
        dz_http_on_gone(r, NULL, NULL);
        if (S_ISDIR(c->mode))
            dz_e2b_refuse(r, DZ_EEXIST, 0, "directory already exists: %.200s", c->path);
        else
            dz_e2b_refuse(r, DZ_EINVAL, 0, "path already exists but it is not a directory: %.160s",
                          c->path);
        return false;
    }
    c->next = made;
    return operate(c, r, &op);
}

void dz_e2b_make_dir(struct dz_http_req *r, void *api)
{
    json_t *o = dz_e2b_body(r);
    struct calling *c = o ? call(api, r, path_of(o)) : NULL;
    if (!c)
        return;
    const struct dz_cell_op op = {.type = DZ_CELL_OP_STAT, .path = c->path};
    c->next = make_next;
    if (!operate(c, r, &op))
        calling_free(c);
}

static bool moved(struct calling *c, struct dz_http_req *r, const struct dz_why *why)
{
    return why ? answer(c, r, why) : stat_path(c, r, c->to);
}

void dz_e2b_move(struct dz_http_req *r, void *api)
{
    json_t *o = dz_e2b_body(r);
    const char *from = json_string_value(json_object_get(o, "source"));
    const char *to = json_string_value(json_object_get(o, "destination"));
    if (o && !(to && to[0])) {
        dz_e2b_refuse(r, DZ_EINVAL, 0, "destination: must be given");
        return;
    }
    struct calling *c = o ? call(api, r, from) : NULL;
    if (!c)
        return;
    if (!dz_e2b_path(r, to, c->to)) {
        calling_free(c);
        return;
    }
    const struct dz_cell_op op = {
        .type = DZ_CELL_OP_MOVE, .path = c->path, .to = c->to, .flags = DZ_CELL_OP_PARENTS};
    c->next = moved;
    if (!operate(c, r, &op))
        calling_free(c);
}

static bool removed(struct calling *c, struct dz_http_req *r, const struct dz_why *why)
{
    dz_api_begin(&c->out);
    return answer(c, r, why && why->err.code == DZ_ENOENT ? NULL : why);
}

void dz_e2b_remove(struct dz_http_req *r, void *api)
{
    json_t *o = dz_e2b_body(r);
    struct calling *c = o ? call(api, r, path_of(o)) : NULL;
    if (!c)
        return;
    const struct dz_cell_op op = {
        .type = DZ_CELL_OP_REMOVE, .path = c->path, .flags = DZ_CELL_OP_DEEP};
    c->next = removed;
    if (!operate(c, r, &op))
        calling_free(c);
}

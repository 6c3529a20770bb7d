/* SPDX-License-Identifier: MIT
 *
 * local_files.c - operations on a sandbox's file in a file-only cell, one at a time.
 *
 * The file is not read here: a jailed cell has it open, and its answers arrive as records that
 * cell_op_json.c checks. Closing suspends the cell, which commits and checkpoints the WAL into the
 * file, and waits until the cell has exited and the lock is free.
 */
#include "cli/local_files.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "cell/cell_exec.h"
#include "cell/cell_op_json.h"
#include "cli/cli_signal.h"
#include "cli/cli_term.h"
#include "cli/local_cell.h"
#include "cli/local_disk.h"
#include "cli/local_hash.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum {
    LOCK_WAIT_MS = 1000,    /* time for another cell to exit */
    ANSWER_MAX = 256 << 20, /* bytes of one answer as JSON */
    LIST_ENTRIES = 1000,    /* entries of a list without a limit, as in the API */
    SQL_ROWS = 1000,        /* rows of a query without a limit, as in the API */
};

struct dz_files {
    struct dz_cli *c;
    const char *file;
    bool disk;                           /* opened by dz_files_open_disk() */
    struct dz_db_files held, image_held; /* the latter of a disk's --image */
    struct dz_cli_cell cell;
    struct dz_image image;
    bool deaf;            /* interrupts are ignored while closing */
    uint32_t reading;     /* the operation whose data the caller reads; 0: none */
    const uint8_t *piece; /* the unread part of the last event's data */
    size_t piece_size, piece_at;
    uint64_t size;  /* of the file being read */
    uint64_t count; /* count of the last operation that was read to its end */
    uint32_t mode;
};

/* Where the data of an operation goes. */
struct sink {
    int (*data)(struct sink *s, struct dz_cell_view *v, struct dz_err *err);
    dz_files_stat_fn *each;
    void *arg;
    struct dz_json json;
    struct dz_buf text; /* the buffer that json writes to */
    struct dz_cell_json_rows rows;
    uint64_t count; /* count of the DONE event */
};

/* --- the cell ----------------------------------------------------------------------------- */

/* Make an error from a cell's message, which a hostile file may have chosen. */
static int cell_error(int code, const char *text, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf clean = DZ_BUF_INIT(DZ_LINE_MAX);
    dz_cli_escape(&clean, dz_str(text));
    return dz_fail(err, code, "%s", clean.len ? clean.p : dz_err_text(code));
}

static int in_use(const char *file, struct dz_err *err)
{
    return dz_fail(err, DZ_EBUSY,
                   "open %s: a daemon or another command uses it; name its sandbox instead (doze "
                   "ls), or end that command",
                   file);
}

static int could_not_open(const struct dz_files *f, const struct dz_cell_event *e,
                          struct dz_err *err)
{
    if (e->code == DZ_EBUSY)
        return in_use(f->file, err);
    int rc = cell_error(e->code, e->text, err);
    if (rc == DZ_ENOENT && f->cell.start.image_fd < 0)
        return dz_wrap(err, rc,
                       f->disk ? "open %s (--image names the image's file)"
                               : "open %s (--image or --base names the image or disk below it)",
                       f->file);
    return dz_wrap(err, rc, "open %s", f->file);
}

/* Get the next event. FAILED is an error, and so is an interrupt that the command catches. */
static int next_event(struct dz_files *f, struct dz_cell_event *ret, struct dz_err *err)
{
    struct dz_cell *cell = f->cell.cell;
    int rc;
    while ((rc = dz_cell_receive(cell, ret, err)) == 0) {
        if (!f->deaf && dz_cli_interrupted())
            return dz_fail(err, DZ_ECANCELED, "interrupted");
        struct pollfd p = {.fd = dz_cell_fd(cell), .events = dz_cell_poll_events(cell)};
        if (poll(&p, 1, -1) < 0 && errno != EINTR)
            return dz_fail_sys(err, errno, "wait for the cell of %s", f->file);
        if (p.revents & POLLOUT && (rc = dz_cell_flush(cell, err)) < 0)
            return rc;
    }
    if (rc < 0)
        return rc;
    return ret->type == DZ_CELL_FAILED ? could_not_open(f, ret, err) : 0;
}

/* Wait for an event of this type. */
static int wait_for(struct dz_files *f, enum dz_cell_event_type type, struct dz_err *err)
{
    struct dz_cell_event e = {0};
    int rc = 0;
    while (rc == 0 && e.type != type) {
        rc = next_event(f, &e, err);
        if (rc == 0 && e.type == DZ_CELL_AWAKE)
            rc = cell_error(e.code, e.text, err);
    }
    return rc;
}

/* DOZE_BASE is used only for a file that names something below it. */
static int find_root(struct dz_files *f, struct dz_err *err)
{
    char sha256[DZ_SHA256_HEX] = "";
    bool given = dz_cli_value(f->c, "image") || dz_cli_value(f->c, "base");
    int rc = given ? 0 : dz_cli_file_image(f->file, sha256, err);
    if (rc == DZ_EBUSY)
        return in_use(f->file, err);
    if (rc < 0 || (!given && !sha256[0]))
        return rc;
    return dz_cli_cell_root(&f->cell, f->c, f->file, &f->image, err);
}

/* The image of a disk, by its file. */
static int open_image(struct dz_files *f, struct dz_err *err)
{
    const char *image = dz_cli_value(f->c, "image");
    if (!image)
        return 0;
    int rc = dz_db_files_open(&f->image_held, image, DZ_DB_FILES_IMAGE, err);
    if (rc == 0)
        rc = dz_cli_hash_fd(f->image_held.db_fd, image, f->cell.image_sha256, err);
    f->cell.start.image_fd = f->image_held.db_fd;
    f->cell.start.image_sha256 = f->cell.image_sha256;
    return rc;
}

static int start_cell(struct dz_files *f, enum dz_files_how how, struct dz_err *err)
{
    struct dz_cell_start *s = &f->cell.start;
    int64_t epoch_s = 0;
    int rc = f->disk ? open_image(f, err) : find_root(f, err);
    if (rc == 0 && f->disk) {
        const char *image = dz_cli_value(f->c, "image");
        rc = dz_cli_cell_pack(&f->cell, image ? image : f->file, err);
    }
    if (rc == 0)
        rc = dz_db_files_open(&f->held, f->file,
                              how == DZ_FILES_LOOK ? DZ_DB_FILES_READ : DZ_DB_FILES_WRITE, err);
    if (rc == 0 && f->disk)
        rc = dz_disk_epoch(&epoch_s, err);
    if (rc < 0)
        return rc;
    s->disk_fd = f->held.db_fd;
    s->wal_fd = f->held.wal_fd;
    s->readonly = how == DZ_FILES_LOOK;
    s->clock_ns = epoch_s * DZ_NS_PER_S;
    s->lock_wait_ms = LOCK_WAIT_MS;
    rc = dz_cell_spawn(s, &f->cell.cell, err);
    return rc < 0 ? rc : wait_for(f, DZ_CELL_READY, err);
}

static int open_file(struct dz_cli *c, const char *file, bool disk, enum dz_files_how how,
                     struct dz_files **ret_files, struct dz_err *err)
{
    struct dz_files *f = dz_zalloc(sizeof *f);
    if (!f)
        return dz_fail(err, DZ_ENOMEM, "open %s: out of memory", file);
    f->c = c;
    f->file = file;
    f->disk = disk;
    f->deaf = dz_cli_interrupted();
    f->held = f->image_held = (struct dz_db_files)DZ_DB_FILES_NONE;
    f->cell = (struct dz_cli_cell)DZ_CLI_CELL_INIT;
    f->cell.only_files = true;
    int rc = start_cell(f, how, err);
    if (rc < 0) {
        (void)dz_files_close(f, rc, NULL);
        return rc;
    }
    *ret_files = f;
    return 0;
}

int dz_files_open(struct dz_cli *c, const char *file, enum dz_files_how how,
                  struct dz_files **ret_files, struct dz_err *err)
{
    return open_file(c, file, false, how, ret_files, err);
}

int dz_files_open_disk(struct dz_cli *c, enum dz_files_how how, struct dz_files **ret_files,
                       struct dz_err *err)
{
    return open_file(c, c->argv[0], true, how, ret_files, err);
}

int dz_files_close(struct dz_files *f, int rc, struct dz_err *err)
{
    struct dz_err late = {0};
    if (!f)
        return rc;
    f->deaf = true;
    if (f->cell.cell) {
        int ended = dz_cell_suspend(f->cell.cell, false, &late);
        if (ended == 0)
            ended = wait_for(f, DZ_CELL_GONE, &late);
        if (ended < 0 && rc >= 0) {
            *err = late;
            rc = ended;
        }
        dz_cell_free(f->cell.cell);
        f->cell.cell = NULL;
    }
    f->cell.start.disk_fd = f->cell.start.wal_fd = -1; /* those of f->held */
    if (f->image_held.db_fd >= 0)
        f->cell.start.image_fd = -1;
    dz_db_files_close(&f->held);
    dz_db_files_close(&f->image_held);
    dz_cli_cell_release(&f->cell);
    dz_image_release(&f->image);
    dz_free(f);
    return rc;
}

/* --- operations --------------------------------------------------------------------------- */

/* Wait until the operation ends. sink NULL: discard its data. *ret_ended: the cell reported its
 * end. */
static int finish(struct dz_files *f, uint32_t handle, struct sink *sink, bool *ret_ended,
                  struct dz_err *err)
{
    struct dz_cell_event e;
    int rc = 0;
    while (rc == 0) {
        rc = next_event(f, &e, err);
        if (rc < 0 || e.op != handle)
            continue;
        if (e.type == DZ_CELL_OP_DONE) {
            *ret_ended = true;
            if (sink)
                sink->count = e.count;
            return e.code < 0 ? cell_error(e.code, e.text, err) : 0;
        }
        if (e.type != DZ_CELL_OP_DATA)
            continue;
        struct dz_cell_view v = {e.data, e.size};
        if (sink)
            rc = sink->data(sink, &v, err);
        if (rc == 0)
            rc = dz_cell_op_ack(f->cell.cell, handle, e.size, err);
    }
    return rc;
}

static int run(struct dz_files *f, const struct dz_cell_op *op, struct sink *sink,
               struct dz_err *err)
{
    uint32_t handle = 0;
    bool ended = false;
    int rc = dz_cell_op_start(f->cell.cell, op, &handle, err);
    return rc < 0 ? rc : finish(f, handle, sink, &ended, err);
}

static int parse(struct sink *s, const char *what, json_t **ret, struct dz_err *err)
{
    dz_json_end(&s->json);
    int rc = dz_json_finish(&s->json);
    if (rc < 0)
        return dz_fail(err, rc, "%s: %s", what, dz_err_text(rc));
    *ret = json_loadb(s->text.p, s->text.len, JSON_ALLOW_NUL, NULL);
    return *ret ? 0 : dz_fail(err, DZ_ENOMEM, "%s: the cell sent an invalid answer", what);
}

static int each_stat(struct sink *s, struct dz_cell_view *v, struct dz_err *err)
{
    struct dz_cell_stat st;
    int rc, stop = 0;
    while (stop == 0 && (rc = dz_cell_stat_next(v, &st, err)) > 0)
        stop = s->each(s->arg, &st, err);
    return stop < 0 ? stop : rc;
}

int dz_files_do(struct dz_files *f, const struct dz_cell_op *op, dz_files_stat_fn *each, void *arg,
                uint64_t *ret_count, struct dz_err *err)
{
    struct sink s = {.data = each_stat, .each = each, .arg = arg};
    int rc = run(f, op, each ? &s : NULL, err);
    if (rc == 0 && ret_count)
        *ret_count = s.count;
    return rc;
}

static int add_entry(void *json, const struct dz_cell_stat *st, struct dz_err *err)
{
    (void)err; /* json keeps its error for parse() */
    dz_cell_json_entry(json, st);
    return 0;
}

int dz_files_list(struct dz_files *f, const char *path, uint32_t depth, json_t **ret_entries,
                  struct dz_err *err)
{
    struct sink s = {.text = DZ_BUF_INIT(ANSWER_MAX)};
    const struct dz_cell_op op = {
        .type = DZ_CELL_OP_LIST, .path = path, .depth = depth, .limit = LIST_ENTRIES};
    uint64_t more = 0;
    dz_json_init(&s.json, &s.text, false);
    dz_json_array(&s.json);
    int rc = dz_files_do(f, &op, add_entry, &s.json, &more, err);
    if (rc == 0)
        rc = parse(&s, "list", ret_entries, err);
    if (rc == 0 && more)
        dz_cli_warn(f->c, "only the first entries are shown: the answer reached its limit");
    dz_buf_release(&s.text);
    return rc;
}

static int add_rows(struct sink *s, struct dz_cell_view *v, struct dz_err *err)
{
    (void)err;
    dz_cell_json_rows_add(&s->rows, v);
    return 0;
}

int dz_files_sql(struct dz_files *f, const char *query, json_t **ret_answer, struct dz_err *err)
{
    struct sink s = {.data = add_rows, .text = DZ_BUF_INIT(ANSWER_MAX)};
    const struct dz_cell_op op = {.type = DZ_CELL_OP_SQL, .text = query, .limit = SQL_ROWS};
    dz_json_init(&s.json, &s.text, false);
    dz_json_object(&s.json);
    dz_cell_json_rows_begin(&s.rows, &s.json);
    int rc = run(f, &op, &s, err);
    if (rc == 0) {
        dz_cell_json_rows_end(&s.rows);
        dz_json_put_bool(&s.json, "truncated", s.count >= SQL_ROWS);
        rc = parse(&s, "query", ret_answer, err);
    }
    dz_cell_json_rows_release(&s.rows);
    dz_buf_release(&s.text);
    return rc;
}

static int on_usage(struct sink *s, struct dz_cell_view *v, struct dz_err *err)
{
    int rc = dz_cell_usage_next(v, s->arg, err);
    return rc < 0 ? rc : 0;
}

int dz_files_usage(struct dz_files *f, const char *path, uint32_t flags,
                   struct dz_cell_usage *ret_usage, struct dz_err *err)
{
    struct sink s = {.data = on_usage, .arg = ret_usage};
    *ret_usage = (struct dz_cell_usage){0};
    return run(f, &(struct dz_cell_op){.type = DZ_CELL_OP_USAGE, .path = path, .flags = flags}, &s,
               err);
}

static int on_stats(struct sink *s, struct dz_cell_view *v, struct dz_err *err)
{
    int rc = dz_cell_stats_next(v, s->arg, err);
    return rc < 0 ? rc : 0;
}

int dz_files_stats(struct dz_files *f, struct dz_cell_machine_stats *ret_stats, struct dz_err *err)
{
    struct sink s = {.data = on_stats, .arg = ret_stats};
    *ret_stats = (struct dz_cell_machine_stats){0};
    return run(f, &(struct dz_cell_op){.type = DZ_CELL_OP_STATS}, &s, err);
}

/* --- reading ------------------------------------------------------------------------------ */

/* Get the next data of the operation being read: 1, 0 at the end. */
static int next_piece(struct dz_files *f, struct dz_err *err)
{
    struct dz_cell_event e;
    int rc = f->piece_size > 0 ? dz_cell_op_ack(f->cell.cell, f->reading, f->piece_size, err) : 0;
    f->piece_size = f->piece_at = 0;
    while (rc == 0 && f->reading) {
        rc = next_event(f, &e, err);
        if (rc < 0 || e.op != f->reading)
            continue;
        if (e.type == DZ_CELL_OP_DONE) {
            f->reading = 0;
            f->count = e.count;
            return e.code < 0 ? cell_error(e.code, e.text, err) : 0;
        }
        if (e.type == DZ_CELL_OP_DATA && e.size > 0) {
            f->piece = e.data;
            f->piece_size = e.size;
            return 1;
        }
    }
    return rc;
}

/* Start an operation and wait for its first data or its end, so that an error is reported before
 * anything else is done. */
static int begin_reading(struct dz_files *f, const struct dz_cell_op *op, struct dz_err *err)
{
    int rc = dz_cell_op_start(f->cell.cell, op, &f->reading, err);
    return rc < 0 ? rc : next_piece(f, err);
}

int dz_files_begin_get(struct dz_files *f, const char *path, struct dz_err *err)
{
    const struct dz_cell_op op = {.type = DZ_CELL_OP_READ, .path = path};
    struct dz_cell_stat st;
    int rc = begin_reading(f, &op, err); /* the data is a single record */
    struct dz_cell_view v = {f->piece, f->piece_size};
    if (rc > 0)
        rc = dz_cell_stat_next(&v, &st, err);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return dz_fail(err, DZ_EIO, "read %s: the cell did not send the attributes of the file",
                       path);
    f->size = st.size;
    f->mode = st.mode & 0777;
    f->piece_at = f->piece_size;
    return 0;
}

int dz_files_begin_tar(struct dz_files *f, const char *path, uint32_t flags, struct dz_err *err)
{
    const struct dz_cell_op op = {.type = DZ_CELL_OP_TAR_OUT, .path = path, .flags = flags};
    int rc = begin_reading(f, &op, err);
    return rc < 0 ? rc : 0;
}

uint64_t dz_files_members(const struct dz_files *f)
{
    return f->count;
}

ssize_t dz_files_read(struct dz_files *f, void *p, size_t n, struct dz_err *err)
{
    int rc = f->piece_at < f->piece_size ? 1 : next_piece(f, err);
    if (rc <= 0)
        return rc;
    size_t left = f->piece_size - f->piece_at;
    n = n < left ? n : left;
    memcpy(p, f->piece + f->piece_at, n);
    f->piece_at += n;
    return (ssize_t)n;
}

int64_t dz_files_size(const struct dz_files *f)
{
    return (int64_t)f->size;
}

uint32_t dz_files_mode(const struct dz_files *f)
{
    return f->mode;
}

/* --- writing ------------------------------------------------------------------------------ */

/* Send a whole piece as the cell has room. If the operation ended early, report its error. */
static int send_piece(struct dz_files *f, uint32_t handle, const char *p, size_t n,
                      struct dz_err *err)
{
    struct dz_cell_event e;
    while (n > 0) {
        int64_t took = dz_cell_op_send(f->cell.cell, handle, p, n, err);
        if (took < 0)
            return (int)took;
        p += took;
        n -= (size_t)took;
        int rc = took > 0 ? 0 : next_event(f, &e, err);
        if (rc < 0)
            return rc;
        if (took == 0 && e.op == handle && e.type == DZ_CELL_OP_DONE)
            return cell_error(e.code < 0 ? e.code : DZ_EIO, e.text, err);
    }
    return 0;
}

/* Send everything that `read` returns, and then the end of the data. *ret_ended: the cell reported
 * the end of the operation. */
static int send_all(struct dz_files *f, const struct dz_cell_op *op, dz_files_read_fn *read,
                    void *arg, bool *ret_ended, struct dz_err *err)
{
    char piece[DZ_IO_PIECE];
    uint32_t handle = 0;
    ssize_t n = 0;
    *ret_ended = false;
    int rc = dz_cell_op_start(f->cell.cell, op, &handle, err);
    while (rc == 0 && (n = read(arg, piece, sizeof piece, err)) > 0)
        rc = send_piece(f, handle, piece, (size_t)n, err);
    if (rc == 0 && n < 0)
        rc = (int)n;
    if (rc < 0) {
        *ret_ended = true; /* the cell did not get the end, so it stores nothing */
        return rc;
    }
    rc = dz_cell_op_end(f->cell.cell, handle, err);
    return rc < 0 ? rc : finish(f, handle, NULL, ret_ended, err);
}

int dz_files_put(struct dz_files *f, const char *path, uint32_t mode, dz_files_read_fn *read,
                 void *arg, struct dz_err *err)
{
    const struct dz_cell_op op = {
        .type = DZ_CELL_OP_WRITE, .path = path, .mode = mode, .flags = DZ_CELL_OP_PARENTS};
    bool ended;
    return send_all(f, &op, read, arg, &ended, err);
}

int dz_files_unpack(struct dz_files *f, const char *path, dz_files_read_fn *read, void *arg,
                    bool *ret_unknown, struct dz_err *err)
{
    bool ended;
    int rc = send_all(f, &(struct dz_cell_op){.type = DZ_CELL_OP_TAR_IN, .path = path}, read, arg,
                      &ended, err);
    *ret_unknown = rc < 0 && !ended;
    return rc;
}

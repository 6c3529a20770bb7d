/* SPDX-License-Identifier: MIT
 *
 * cell_record.c - commands and their output as rows of the file.
 *
 * A command is a row of `exec`; its output is a ring of rows of `exec_output`, whose ids are
 * number << 32 | n. They are written in the transaction that the output gate commits
 * (docs/format/disk.md). All writes may be repeated: a commit that failed is made again with the
 * same rows.
 */
#include "cell/cell_execs.h"

#include "base/clock.h"
#include "base/mem.h"
#include "db/db.h"

#include <assert.h>
#include <string.h>

/* The trace comes first: a line is sent before the output of later calls. */
static const uint32_t out_streams[] = {DZ_CELL_TRACE, DZ_CELL_STDOUT, DZ_CELL_STDERR, DZ_CELL_TTY};

/* Statements that every machine and every command needs; a zygote compiles them ahead. */
static const char sql_last_number[] = "SELECT max(number)FROM exec";
static const char sql_put_exec[] =
    "INSERT OR REPLACE INTO exec(number,state,code,ended,cpu,kill_at,flags,printed,id,started,pid,"
    "keep,argv,own)VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)";
static const char sql_put_end[] = "UPDATE exec SET state=?2,code=?3,ended=?4,cpu=?5,kill_at=?6,"
                                  "flags=?7,printed=?8 WHERE number=?1";
static const char sql_put_output[] =
    "INSERT OR REPLACE INTO exec_output(id,exec,stream,at,data)VALUES(?1,?2,?3,?4,?5)";
static const char sql_find[] = "SELECT number FROM exec WHERE id=?1";

static const char sql_running[] =
    "SELECT number,started,id,flags,kill_at,keep FROM exec WHERE state=1";
static const char sql_last_output[] = "SELECT id,at+length(data)FROM exec_output WHERE id BETWEEN "
                                      "?1 AND ?2 ORDER BY id DESC LIMIT 1";
static const char sql_first_output[] =
    "SELECT at FROM exec_output WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT 1";

void dz_execs_prepare(struct dz_db *db)
{
    static const char *const all[] = {sql_last_number, sql_put_exec,    sql_put_end,
                                      sql_put_output,  sql_find,        sql_running,
                                      sql_last_output, sql_first_output};
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++)
        (void)dz_db_stmt(db, all[i]);
}

static int64_t row_id(uint32_t number, uint32_t n)
{
    return (int64_t)((uint64_t)number << 32 | n);
}

/* --- loading ---------------------------------------------------------------------------- */

int dz_execs_kept(struct dz_db *db, uint32_t number, struct dz_exec_kept *ret, struct dz_err *err)
{
    struct dz_exec_kept kept = {0};
    {
        DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(db, sql_last_output);
        dz_bind_int(st, 1, row_id(number, 0));
        dz_bind_int(st, 2, row_id(number, UINT32_MAX));
        int rc = dz_stmt_step(st, err);
        if (rc <= 0) {
            *ret = kept;
            return rc;
        }
        kept.next_row = (uint32_t)dz_col_int(st, 0) + 1;
        kept.total = (uint64_t)dz_col_int(st, 1);
    }
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(db, sql_first_output);
    dz_bind_int(st, 1, row_id(number, 0));
    dz_bind_int(st, 2, row_id(number, UINT32_MAX));
    int rc = dz_stmt_step(st, err);
    if (rc < 0)
        return rc;
    kept.first = rc > 0 ? (uint64_t)dz_col_int(st, 0) : 0;
    *ret = kept;
    return 0;
}

static int load_output(struct dz_execs *x, struct dz_exec *e, struct dz_err *err)
{
    struct dz_exec_kept kept;
    int rc = dz_execs_kept(x->machine->db, e->number, &kept, err);
    if (rc < 0)
        return rc;
    e->next_row = kept.next_row;
    e->total = kept.total;
    e->first = kept.first;
    return 0;
}

static int load_row(struct dz_execs *x, struct dz_stmt *st, struct dz_err *err)
{
    int64_t number = dz_col_int(st, 0);
    const char *id = dz_col_text(st, 2);
    uint64_t keep = (uint64_t)dz_col_int(st, 5);
    if (strlen(id) > DZ_CELL_ID_MAX || number < 0 || number >= DZ_EXEC_MAX)
        return 0; /* an invalid row cannot be woken and stays a record */
    struct dz_exec *e = x->count < DZ_CELL_EXECS_MAX ? dz_execs_add(x, x->next_woken++, id) : NULL;
    if (!e)
        return dz_fail(err, DZ_ENOMEM, "wake the machine: out of memory, or too many commands");
    e->number = (uint32_t)number;
    e->started_ns = dz_col_int(st, 1);
    e->flags = (uint32_t)dz_col_int(st, 3);
    e->kill_real_ns = dz_col_int(st, 4);
    e->state = DZ_EXEC_RUNNING;
    e->recorded = true;
    e->keep = keep > DZ_CELL_KEEP_MAX ? DZ_CELL_KEEP_MAX : keep;
    dz_execs_limit(x, e, e->kill_real_ns);
    if ((e->flags & (DZ_EXEC_TTY | DZ_EXEC_STDIN)) || number == DZ_EXEC_MAIN) {
        e->in = dz_alloc(sizeof *e->in);
        if (!e->in)
            return dz_fail(err, DZ_ENOMEM, "wake the machine: out of memory");
        e->in->head = e->in->len = e->in->eof = 0;
    }
    return 0;
}

static int load_next_number(struct dz_execs *x, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(x->machine->db, sql_last_number);
    int rc = dz_stmt_step(st, err);
    int64_t last = rc > 0 ? dz_col_int(st, 0) : 0;
    if (last < 0 || last >= DZ_EXEC_MAX - 1)
        return dz_fail(err, DZ_ECORRUPT, "the records of commands in the file are damaged");
    x->next_number = (uint32_t)last + 1;
    return rc < 0 ? rc : 0;
}

int dz_execs_load(struct dz_execs *x, struct dz_err *err)
{
    int rc = load_next_number(x, err);
    {
        DZ_AUTO(dz_stmt_resetp)
        struct dz_stmt *st = dz_db_stmt(x->machine->db, sql_running);
        while (rc == 0 && (rc = dz_stmt_step(st, err)) > 0)
            rc = load_row(x, st, err);
    }
    for (struct dz_exec *e = x->all; rc == 0 && e; e = e->next)
        rc = load_output(x, e, err);
    return rc;
}

int dz_execs_lose(struct dz_execs *x, struct dz_err *err)
{
    struct dz_db *db = x->machine->db;
    int64_t number;
    if (!x->kept)
        return 0;
    int rc = load_next_number(x, err);
    if (rc == 0 && x->next_number == 1)
        rc = dz_execs_find(db, DZ_CELL_MAIN, &number, err);
    if (rc < 0 || (rc == 0 && x->next_number == 1))
        return rc;
    rc = 0;
    if (!dz_db_in_txn(db))
        rc = dz_db_begin(db, err);
    if (rc < 0)
        return rc;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(db, "UPDATE exec SET state=3,ended=?1 WHERE state=1");
    dz_bind_int(st, 1, dz_clock_real_ns());
    return dz_stmt_run(st, err); /* the row is part of the next commit */
}

int dz_execs_find(struct dz_db *db, const char *id, int64_t *ret_number, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(db, sql_find);
    dz_bind_text(st, 1, id);
    int rc = dz_stmt_step(st, err);
    if (rc > 0)
        *ret_number = dz_col_int(st, 0);
    return rc;
}

bool dz_execs_known(struct dz_execs *x, const char *id)
{
    int64_t number;
    for (const struct dz_exec *e = x->all; e; e = e->next)
        if (e->state != 0 && strcmp(e->id, id) == 0)
            return true;
    return x->kept && dz_execs_find(x->machine->db, id, &number, NULL) > 0;
}

/* --- collecting -------------------------------------------------------------------------- */

/* Is the tail too full for a piece of each stream? Bytes that are being written into the file, or
 * that are kept only in memory, cannot be dropped to make room. */
static bool full(const struct dz_exec *e)
{
    return (e->unwritten || !e->kept) &&
           e->piece_count + DZ_ARRAY_LEN(out_streams) > DZ_ARRAY_LEN(e->pieces);
}

size_t dz_execs_room(const struct dz_exec *e)
{
    uint64_t waits = e->total - e->cursor;
    if (!e->kept && full(e))
        return 0;
    if (!e->attached)
        return SIZE_MAX;
    return waits < DZ_CELL_WINDOW ? DZ_CELL_WINDOW - (size_t)waits : 0;
}

struct ring {
    const uint8_t *bytes;
    size_t size, head, len;
    bool blocked;
};

static struct ring ring_of(const struct dz_execs *x, uint32_t handle)
{
    struct dz_kernel *k = x->machine->kernel;
    const struct dz_stream *s = dz_kernel_row(k, DZ_KERNEL_TABLE_STREAM, handle & 0xffff);
    const struct dz_pty *t = s && s->pty ? dz_kernel_row(k, DZ_KERNEL_TABLE_PTY, s->pty) : NULL;
    struct ring r = {0};
    if (!s || s->closed)
        return r;
    r.bytes = dz_kernel_blob(k, t ? t->out : s->out, &r.size);
    r.head = t ? t->out_head : s->out_head;
    r.len = r.bytes ? (t ? t->out_len : s->out_len) : 0;
    r.blocked = s->blocked;
    return r;
}

static void take(struct dz_exec *e, uint32_t stream, const struct ring *r, size_t from, size_t n)
{
    size_t at = (r->head + from) % r->size;
    size_t first = r->size - at < n ? r->size - at : n;
    dz_buf_add(&e->tail, r->bytes + at, first);
    dz_buf_add(&e->tail, r->bytes, n - first);
    if (e->tail.err)
        return;
    struct dz_exec_piece *last = e->piece_count ? &e->pieces[e->piece_count - 1] : NULL;
    if (last && last->stream == stream)
        last->size += (uint32_t)n;
    else
        e->pieces[e->piece_count++] = (struct dz_exec_piece){stream, (uint32_t)n};
    e->total += n;
    e->unwritten = true;
}

/* Drop the bytes that were sent, or that no client wants, from a tail that is only in memory. */
static void drop_sent(struct dz_exec *e)
{
    if (!e->attached)
        e->acked = e->cursor = e->total;
    size_t sent = (size_t)(e->cursor - e->tail_at), left = e->tail.len - sent;
    uint32_t gone = 0;
    assert(e->tail_at + e->tail.len == e->total);
    if (sent == 0)
        return;
    for (; gone < e->piece_count && sent >= e->pieces[gone].size; gone++)
        sent -= e->pieces[gone].size;
    e->piece_count -= gone;
    memmove(e->pieces, e->pieces + gone, e->piece_count * sizeof e->pieces[0]);
    if (e->piece_count)
        e->pieces[0].size -= (uint32_t)sent;
    memmove(e->tail.p, e->tail.p + (e->tail.len - left), left + 1); /* with the terminating NUL */
    e->tail.len = left;
    e->tail_at = e->cursor;
}

static void begin_tail(struct dz_exec *e)
{
    if (!e->kept || e->unwritten)
        return; /* the last commit failed: the same rows are written again, with the new bytes */
    dz_buf_reset(&e->tail);
    e->tail_at = e->total;
    e->tail_row = e->next_row;
    e->piece_count = 0;
}

static void collect(struct dz_execs *x, struct dz_exec *e)
{
    bool begun = false;
    if (!e->kept)
        drop_sent(e);
    for (size_t i = 0; i < DZ_ARRAY_LEN(out_streams); i++) {
        uint32_t s = out_streams[i];
        if (!e->streams[s] || full(e))
            continue;
        struct ring r = ring_of(x, e->streams[s]);
        size_t room = dz_execs_room(e);
        size_t n = r.len - (r.len < e->granted[s] ? r.len : e->granted[s]);
        n = n < room ? n : room;
        if (r.blocked || n == 0)
            continue;
        if (!begun)
            begin_tail(e);
        begun = true;
        take(e, s, &r, e->granted[s], n);
        if (!e->tail.err)
            e->granted[s] += (uint32_t)n;
    }
}

void dz_execs_drain(struct dz_execs *x, struct dz_exec *e)
{
    bool begun = false;
    for (size_t i = 0; i < DZ_ARRAY_LEN(out_streams); i++) {
        uint32_t s = out_streams[i];
        struct ring r = e->streams[s] ? ring_of(x, e->streams[s]) : (struct ring){0};
        size_t from = r.len < e->granted[s] ? r.len : e->granted[s];
        if (r.len == from)
            continue;
        assert(e->piece_count < DZ_ARRAY_LEN(e->pieces)); /* full() left room for it */
        if (!begun)
            begin_tail(e);
        begun = true;
        take(e, s, &r, from, r.len - from);
    }
}

bool dz_execs_collect(struct dz_execs *x)
{
    bool any = false;
    for (struct dz_exec *e = x->all; e; e = e->next) {
        if (!e->over && e->state == DZ_EXEC_RUNNING)
            collect(x, e);
        any |= e->changed || e->unwritten;
    }
    return any && x->kept;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Delete the output of the previous main command, which had the same number; the new row replaces
 * its record. */
static int forget_main(struct dz_db *db, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(db, "DELETE FROM exec_output WHERE id BETWEEN ?1 AND ?2");
    dz_bind_int(st, 1, row_id(DZ_EXEC_MAIN, 0));
    dz_bind_int(st, 2, row_id(DZ_EXEC_MAIN, UINT32_MAX));
    return dz_stmt_run(st, err);
}

/* The row of a command is inserted once. At its end only the columns that changed are written. */
static int put_exec(const struct dz_exec *e, struct dz_db *db, struct dz_err *err)
{
    bool runs = e->state == DZ_EXEC_RUNNING;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(db, e->recorded ? sql_put_end : sql_put_exec);
    dz_bind_int(st, 1, e->number);
    dz_bind_int(st, 2, e->state);
    dz_bind_int(st, 3, e->code);
    dz_bind_int(st, 4, e->ended_ns);
    dz_bind_int(st, 5, e->cpu_ns);
    dz_bind_int(st, 6, runs ? e->kill_real_ns : 0);
    dz_bind_int(st, 7, e->flags | (e->timed_out ? DZ_EXEC_TIMED_OUT : 0));
    dz_bind_int(st, 8, runs ? 0 : (int64_t)e->total);
    if (!e->recorded) {
        dz_bind_text(st, 9, e->id);
        dz_bind_int(st, 10, e->started_ns);
        dz_bind_int(st, 11, e->pid);
        dz_bind_int(st, 12, (int64_t)e->keep);
        dz_bind_blob(st, 13, e->argv.p, e->argv.len);
        dz_bind_blob(st, 14, e->own.p, e->own.len);
    }
    return dz_stmt_run(st, err);
}

static int put_output(struct dz_exec *e, struct dz_db *db, struct dz_err *err)
{
    uint64_t at = e->tail_at;
    size_t from = 0;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < e->piece_count; i++) {
        DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(db, sql_put_output);
        dz_bind_int(st, 1, row_id(e->number, e->tail_row + i));
        dz_bind_int(st, 2, e->number);
        dz_bind_int(st, 3, e->pieces[i].stream & 3);
        dz_bind_int(st, 4, (int64_t)at);
        dz_bind_blob(st, 5, e->tail.p + from, e->pieces[i].size);
        rc = dz_stmt_run(st, err);
        at += e->pieces[i].size;
        from += e->pieces[i].size;
    }
    e->next_row = e->tail_row + e->piece_count;
    return rc;
}

/* Delete the oldest rows of output, and a quarter more than needed, so that this happens rarely.
 * Rows that are still to be sent stay; their number is bounded, because the writers are stopped
 * while a client is attached. */
static int trim(struct dz_exec *e, struct dz_db *db, struct dz_err *err)
{
    static const char sql[] = "DELETE FROM exec_output WHERE id BETWEEN ?1 AND ?2 AND at<=?3";
    if (e->total - e->first <= e->keep + e->keep / 4)
        return 0;
    uint64_t from = e->total - e->keep;
    if (e->attached && from > e->cursor)
        from = e->cursor; /* an attached client wants all output, and the command is ending */
    if (from <= e->first)
        return 0;
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(db, sql);
    dz_bind_int(st, 1, row_id(e->number, 0));
    dz_bind_int(st, 2, row_id(e->number, e->tail_row));
    dz_bind_int(st, 3, (int64_t)(from > DZ_CELL_WINDOW ? from - DZ_CELL_WINDOW : 0));
    int rc = dz_stmt_run(st, err);
    if (rc == 0)
        e->first = from;
    return rc;
}

/* Old records, but the newest one of each label stays, for a label names a service: without it, a
 * service that ran once would seem never to have run. */
#define OLD                                                                         \
    "number<?1 AND state<>1 AND number NOT IN (SELECT max(number) FROM exec WHERE " \
    "instr(id,'.') GROUP BY substr(id,instr(id,'.')) ORDER BY 1 DESC LIMIT 64)"

/* Delete old records. */
static int forget(const struct dz_exec *e, struct dz_db *db, struct dz_err *err)
{
    static const char rows[] = "DELETE FROM exec_output WHERE id<?1<<32 AND exec IN"
                               "(SELECT number FROM exec WHERE " OLD ")";
    static const char execs[] = "DELETE FROM exec WHERE " OLD;
    static const char *const both[] = {rows, execs};
    int rc = 0;
    if (e->number <= DZ_CELL_EXECS_KEPT || e->state != DZ_EXEC_RUNNING)
        return 0;
    for (size_t i = 0; rc == 0 && i < DZ_ARRAY_LEN(both); i++) {
        DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(db, both[i]);
        dz_bind_int(st, 1, (int64_t)e->number - DZ_CELL_EXECS_KEPT);
        rc = dz_stmt_run(st, err);
    }
    return rc;
}

int dz_execs_write(struct dz_execs *x, struct dz_db *db, struct dz_err *err)
{
    int rc = 0;
    for (struct dz_exec *e = x->kept ? x->all : NULL; rc == 0 && e; e = e->next) {
        if (e->number == DZ_EXEC_MAIN && e->changed && !e->recorded)
            rc = forget_main(db, err);
        if (rc == 0 && e->changed)
            rc = put_exec(e, db, err);
        if (rc == 0 && e->changed)
            rc = forget(e, db, err);
        if (rc == 0 && e->unwritten)
            rc = put_output(e, db, err);
        if (rc == 0 && e->unwritten)
            rc = trim(e, db, err);
    }
    return rc;
}

void dz_execs_written(struct dz_execs *x)
{
    for (struct dz_exec *e = x->all; e; e = e->next) {
        if (e->changed && !e->recorded) {
            e->recorded = true;
            dz_buf_release(&e->argv);
            dz_buf_release(&e->own);
        }
        e->changed = e->unwritten = false;
    }
}

/* --- reading again ---------------------------------------------------------------------------- */

static size_t from_tail(const struct dz_exec *e, const void **ret_data, uint32_t *ret_stream)
{
    uint64_t at = e->tail_at;
    size_t from = 0;
    for (uint32_t i = 0; i < e->piece_count; i++) {
        uint64_t end = at + e->pieces[i].size;
        if (e->cursor < end) {
            size_t skip = (size_t)(e->cursor - at), n = e->pieces[i].size - skip;
            *ret_data = e->tail.p + from + skip;
            *ret_stream = e->pieces[i].stream;
            return n < DZ_CELL_FRAME_MAX ? n : DZ_CELL_FRAME_MAX;
        }
        at = end;
        from += e->pieces[i].size;
    }
    return 0;
}

static size_t from_file(struct dz_execs *x, struct dz_exec *e, const void **ret_data,
                        uint32_t *ret_stream)
{
    static uint8_t bytes[DZ_CELL_FRAME_MAX];
    static const char sql[] =
        "SELECT id,stream,at,data FROM exec_output WHERE id BETWEEN ?1 AND ?2 "
        "AND at+length(data)>?3 ORDER BY id LIMIT 1";
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(x->machine->db, sql);
    size_t size;
    dz_bind_int(st, 1, (int64_t)e->read_row);
    dz_bind_int(st, 2, row_id(e->number, UINT32_MAX));
    dz_bind_int(st, 3, (int64_t)e->cursor);
    if (dz_stmt_step(st, NULL) <= 0) {
        e->acked = e->cursor = e->total; /* no output is kept */
        return 0;
    }
    uint64_t at = (uint64_t)dz_col_int(st, 2);
    const uint8_t *data = dz_col_blob(st, 3, &size);
    e->read_row = (uint64_t)dz_col_int(st, 0);
    if (at > e->cursor && at < e->total)
        e->acked = e->cursor = at; /* older output is not kept */
    size_t skip = (size_t)(e->cursor - at);
    if (at > e->cursor || skip >= size)
        return 0;
    size_t n = size - skip < sizeof bytes ? size - skip : sizeof bytes;
    memcpy(bytes, data + skip, n);
    *ret_data = bytes;
    *ret_stream = (uint32_t)dz_col_int(st, 1) & 3;
    return n;
}

size_t dz_execs_read(struct dz_execs *x, struct dz_exec *e, const void **ret_data,
                     uint32_t *ret_stream)
{
    if (e->unwritten && e->cursor >= e->tail_at)
        return 0; /* output must be committed before it is sent */
    return e->piece_count > 0 && e->cursor >= e->tail_at ? from_tail(e, ret_data, ret_stream)
                                                         : from_file(x, e, ret_data, ret_stream);
}

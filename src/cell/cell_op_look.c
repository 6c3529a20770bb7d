/* SPDX-License-Identifier: MIT
 *
 * cell_op_look.c - operations that look into the file as a database, and at the
 * machine: SQL, records of commands, figures.
 *
 * A query is run to its end before anything else goes on, within a number of steps
 * and bytes: the handle is the machine's own, and restricted meanwhile.
 */
#include "cell/cell_ops.h"

#include "base/str.h"
#include "cell/cell_serve.h"
#include "db/db.h"
#include "vfs/vfs.h"

#include <string.h>
#include <sys/wait.h>

enum {
    VALUE_PIECE = 16 << 10, /* bytes of a value in one record */
    ROWS_DEFAULT = 10000,
    COMMAND_MAX = 4096,
};

/* --- SQL -------------------------------------------------------------------------------- */

/* Records, but without sending any: a statement is open. */
static int put_value(struct dz_buf *out, enum dz_cell_value_kind kind, int64_t integer, double real,
                     struct dz_str bytes)
{
    do {
        size_t n = bytes.n < VALUE_PIECE ? bytes.n : VALUE_PIECE;
        const struct dz_record_value v = {
            .kind = kind, .more = n < bytes.n, .integer = integer, .real = real};
        const struct dz_op_record r = {
            .kind = DZ_RECORD_VALUE, .fixed = sizeof v, .size = (uint32_t)n};
        dz_buf_add(out, &r, sizeof r);
        dz_buf_add(out, &v, sizeof v);
        dz_buf_add(out, bytes.p, n);
        bytes = dz_str_n(bytes.p + n, bytes.n - n);
    } while (bytes.n > 0);
    return out->err;
}

static void put_column(struct dz_buf *out, struct dz_stmt *st, int i)
{
    static const enum dz_cell_value_kind kinds[] = {[DZ_DB_INT] = DZ_CELL_INT,
                                                    [DZ_DB_REAL] = DZ_CELL_REAL,
                                                    [DZ_DB_TEXT] = DZ_CELL_TEXT,
                                                    [DZ_DB_BLOB] = DZ_CELL_BLOB,
                                                    [DZ_DB_NULL] = DZ_CELL_NULL};
    enum dz_db_type type = dz_col_type(st, i);
    size_t n = 0;
    const char *p = type == DZ_DB_TEXT || type == DZ_DB_BLOB ? dz_col_blob(st, i, &n) : "";
    (void)put_value(out, kinds[type], type == DZ_DB_INT ? dz_col_int(st, i) : 0,
                    type == DZ_DB_REAL ? dz_col_real(st, i) : 0, dz_str_n(n ? p : "", n));
}

static int query(struct dz_op *op, struct dz_stmt *st, struct dz_buf *out, struct dz_err *err)
{
    uint64_t limit = op->args.limit ? op->args.limit : ROWS_DEFAULT;
    int rc = 0;
    for (int i = 0; i < dz_col_count(st); i++)
        (void)put_value(out, DZ_CELL_COLUMN, 0, 0, dz_str(dz_col_name(st, i)));
    while (op->count < limit && !out->err && (rc = dz_stmt_step(st, err)) > 0) {
        (void)put_value(out, DZ_CELL_ROW, 0, 0, dz_str(""));
        for (int i = 0; i < dz_col_count(st); i++)
            put_column(out, st, i);
        op->count++;
    }
    if (rc >= 0 && out->err)
        return dz_fail(err, DZ_ELIMIT, "query: the answer exceeds %d bytes", DZ_CELL_SQL_BYTES_MAX);
    return rc < 0 ? rc : 0;
}

static int one_statement(struct dz_stmt *st, const char *rest, struct dz_err *err)
{
    (void)st;
    if (rest && rest[strspn(rest, " \t\r\n;")] != '\0')
        return dz_fail(err, DZ_EINVAL, "query: one statement at a time");
    return 0;
}

static int see_image(struct dz_op *op, struct dz_err *err)
{
    struct dz_serve *s = op->ops->serve;
    if (!s->machine.image || op->ops->sql_over)
        return 0;
    int rc = dz_vfs_sql_over(s->machine.db, s->machine.image, s->start.image_sha256, err);
    op->ops->sql_over = rc == 0;
    return rc;
}

/* Whole records, as many as a frame takes. */
static int send_records(struct dz_op *op, const struct dz_buf *out, struct dz_err *err)
{
    size_t from = 0, at = 0;
    int rc = 0;
    while (rc == 0 && at < out->len) {
        struct dz_op_record r;
        memcpy(&r, out->p + at, sizeof r);
        size_t whole = sizeof r + r.fixed + r.size;
        if (at + whole - from > DZ_CELL_FRAME_MAX) {
            rc = dz_op_emit(op, out->p + from, at - from, err);
            from = at;
        }
        at += whole;
    }
    return rc == 0 && at > from ? dz_op_emit(op, out->p + from, at - from, err) : rc;
}

int dz_op_sql(struct dz_op *op, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf out = DZ_BUF_INIT(DZ_CELL_SQL_BYTES_MAX);
    struct dz_serve *s = op->ops->serve;
    struct dz_stmt *st = NULL;
    const char *rest = NULL;
    int rc = dz_cell_machine_commit(&s->machine, err); /* it shall see what is */
    if (rc == 0)
        rc = see_image(op, err);
    if (rc < 0)
        return rc;
    dz_db_restrict(s->machine.db, DZ_CELL_SQL_OPS_MAX);
    rc = dz_stmt_new(&st, s->machine.db, op->text, &rest, err);
    if (rc == 0)
        rc = one_statement(st, rest, err);
    if (rc == 0)
        rc = query(op, st, &out, err);
    dz_stmt_free(st);
    dz_db_unrestrict(s->machine.db);
    return rc < 0 ? rc : send_records(op, &out, err);
}

/* --- records of commands ----------------------------------------------------------------- */

static int output_of(struct dz_db *db, int64_t number, struct dz_record_exec *r, struct dz_err *err)
{
    static const char sql[] =
        "SELECT min(at),max(at+length(data))FROM exec_output WHERE id BETWEEN "
        "?1<<32 AND(?1+1<<32)-1";
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(db, sql);
    dz_bind_int(st, 1, number);
    int rc = dz_stmt_step(st, err);
    if (rc > 0) {
        r->first_offset = (uint64_t)dz_col_int(st, 0);
        r->output_bytes = (uint64_t)dz_col_int(st, 1);
    }
    return rc < 0 ? rc : 0;
}

/* A command that is recorded as running, in a file that no machine runs and in which none sleeps,
 * is gone: the sandbox's process died, and the next wake writes that down. */
static bool is_lost(const struct dz_serve *s, uint32_t state)
{
    return state == DZ_EXEC_RUNNING && !s->up &&
           dz_machine_found(s->machine.keep) != DZ_MACHINE_ASLEEP;
}

/* The rows may hold somewhat more than is promised; nobody gets that. */
static uint64_t kept_from(uint64_t first, uint64_t total, const struct dz_exec_spec *s)
{
    uint64_t keep = s->keep_bytes ? s->keep_bytes : DZ_CELL_KEEP;
    uint64_t from = total > keep ? total - keep : 0;
    return from > first ? from : first;
}

/* A row (number, state, code, started, ended, spec) as a record; one that is damaged is
 * left out. */
static int put_exec_row(struct dz_op *op, struct dz_stmt *st, struct dz_err *err)
{
    struct dz_record_exec r = {.number = (uint64_t)dz_col_int(st, 0),
                               .state = (uint32_t)dz_col_int(st, 1),
                               .code = (uint32_t)dz_col_int(st, 2),
                               .started_ns = dz_col_int(st, 3),
                               .ended_ns = dz_col_int(st, 4)};
    struct dz_exec_spec s;
    size_t size;
    const char *bytes = dz_col_blob(st, 5, &size);
    if (size <= sizeof s)
        return 0;
    memcpy(&s, bytes, sizeof s);
    const char *id = bytes + sizeof s;
    size_t id_size = strnlen(id, size - sizeof s) + 1, left = size - sizeof s;
    if (id_size > left || s.argv_size > left - id_size || s.argv_size > DZ_EXEC_ARGV_KEPT ||
        s.own_size > DZ_CELL_SPEC_MAX || s.own_size != left - id_size - s.argv_size)
        return 0;
    r.flags = s.flags;
    r.argc = s.argc;
    r.argv_size = s.argv_size;
    r.own_size = s.own_size;
    r.pid = s.pid;
    r.cpu_ns = r.state == DZ_EXEC_ENDED ? s.cpu_ns : 0;
    int rc = output_of(op->ops->serve->machine.db, (int64_t)r.number, &r, err);
    if (r.state != DZ_EXEC_RUNNING && s.total > r.output_bytes)
        r.output_bytes = s.total;
    r.first_offset = kept_from(r.first_offset, r.output_bytes, &s);
    if (is_lost(op->ops->serve, r.state))
        r.state = DZ_EXEC_LOST;
    const struct dz_op_part parts[3] = {
        {id, id_size}, {id + id_size, s.argv_size}, {id + id_size + s.argv_size, s.own_size}};
    return rc < 0 ? rc : dz_op_record(op, DZ_RECORD_EXEC, &r, sizeof r, parts, err);
}

/* One by one, for an answer may wait between two. */
static int next_row(struct dz_op *op, int64_t below, int64_t *ret_number, struct dz_err *err)
{
    static const char sql[] = "SELECT id,state,code,started,ended,spec FROM exec WHERE id<?1 "
                              "ORDER BY id DESC LIMIT 1";
    struct dz_db *db = op->ops->serve->machine.db;
    struct dz_stmt *st = NULL;
    int rc = dz_op_emit_records(op, err); /* so that nothing waits while the row is open */
    if (rc == 0)
        rc = dz_stmt_new(&st, db, sql, NULL, err);
    if (rc == 0) {
        dz_bind_int(st, 1, below);
        rc = dz_stmt_step(st, err);
    }
    if (rc > 0) {
        *ret_number = dz_col_int(st, 0);
        int put = put_exec_row(op, st, err);
        rc = put < 0 ? put : 1;
    }
    dz_stmt_free(st);
    return rc;
}

int dz_op_execs(struct dz_op *op, struct dz_err *err)
{
    uint64_t limit = op->args.limit ? op->args.limit : DZ_CELL_EXECS_KEPT;
    int64_t below = op->args.offset ? (int64_t)op->args.offset : INT64_MAX;
    int rc = dz_cell_machine_commit(&op->ops->serve->machine, err);
    if (rc < 0)
        return rc;
    while (limit-- > 0 && (rc = next_row(op, below, &below, err)) > 0)
        ;
    return rc < 0 ? rc : 0;
}

/* The number of the command with this id. */
static int find_exec(struct dz_op *op, int64_t *ret_number, struct dz_err *err)
{
    static const char sql[] =
        "SELECT id FROM exec WHERE substr(spec,49,length(?1)+1)=CAST(?1||char(0)AS BLOB)";
    int rc = dz_cell_machine_commit(&op->ops->serve->machine, err);
    if (rc < 0)
        return rc;
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(op->ops->serve->machine.db, sql);
    dz_bind_text(st, 1, op->text);
    rc = dz_stmt_step(st, err);
    if (rc == 0)
        return dz_fail(err, DZ_ENOENT, "there is no record of a command %s", op->text);
    if (rc > 0)
        *ret_number = dz_col_int(st, 0);
    return rc < 0 ? rc : 0;
}

int dz_op_exec(struct dz_op *op, struct dz_err *err)
{
    int64_t number = 0, ignored;
    int rc = find_exec(op, &number, err);
    if (rc == 0)
        rc = next_row(op, number + 1, &ignored, err);
    return rc < 0 ? rc : 0;
}

/* The piece that holds *at, or comes next: 1 and *at is behind it. */
static int put_piece(struct dz_op *op, int64_t number, uint64_t *at, struct dz_err *err)
{
    static const char sql[] = "SELECT stream,at,data FROM exec_output WHERE id BETWEEN ?1<<32 AND "
                              "(?1+1<<32)-1 AND at+length(data)>?2 ORDER BY id LIMIT 1";
    uint8_t bytes[VALUE_PIECE];
    struct dz_record_piece p;
    size_t size, n;
    {
        DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(op->ops->serve->machine.db, sql);
        dz_bind_int(st, 1, number);
        dz_bind_int(st, 2, (int64_t)*at);
        int rc = dz_stmt_step(st, err);
        if (rc <= 0)
            return rc;
        uint64_t from = (uint64_t)dz_col_int(st, 1);
        const uint8_t *data = dz_col_blob(st, 2, &size);
        *at = *at > from ? *at : from;
        n = size - (size_t)(*at - from);
        n = n < sizeof bytes ? n : sizeof bytes;
        memcpy(bytes, data + (*at - from), n);
        p = (struct dz_record_piece){.offset = *at, .stream = (uint32_t)dz_col_int(st, 0) & 3};
    }
    *at += n;
    const struct dz_op_part parts[3] = {{bytes, n}};
    int rc = dz_op_emit_records(op, err);
    if (rc == 0)
        rc = dz_op_record(op, DZ_RECORD_PIECE, &p, sizeof p, parts, err);
    return rc < 0 ? rc : 1;
}

static int first_kept(struct dz_op *op, int64_t number, uint64_t *ret_first, struct dz_err *err)
{
    struct dz_db *db = op->ops->serve->machine.db;
    struct dz_record_exec r = {0};
    struct dz_exec_spec s = {0};
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(db, "SELECT spec FROM exec WHERE id=?1");
    dz_bind_int(st, 1, number);
    int rc = dz_stmt_step(st, err);
    size_t size = 0;
    const void *bytes = rc > 0 ? dz_col_blob(st, 0, &size) : NULL;
    if (bytes && size >= sizeof s)
        memcpy(&s, bytes, sizeof s);
    if (rc >= 0)
        rc = output_of(db, number, &r, err);
    if (rc == 0)
        *ret_first = kept_from(r.first_offset, r.output_bytes, &s);
    return rc;
}

int dz_op_output(struct dz_op *op, struct dz_err *err)
{
    uint64_t at = op->args.offset, first = 0;
    int64_t number = 0;
    int rc = at > INT64_MAX ? dz_fail(err, DZ_EINVAL, "replay: the offset is too large")
                            : find_exec(op, &number, err);
    if (rc == 0)
        rc = first_kept(op, number, &first, err);
    at = at > first ? at : first;
    if (rc == 0)
        while ((rc = put_piece(op, number, &at, err)) > 0)
            ;
    op->count = at;
    return rc < 0 ? rc : 0;
}

/* --- figures ---------------------------------------------------------------------------------- */

static void exec_of(const struct dz_serve *s, const struct dz_proc *p,
                    char ret[static DZ_CELL_ID_MAX + 1])
{
    const struct dz_job *job =
        p->job ? dz_kernel_row(s->machine.kernel, DZ_KERNEL_TABLE_JOB, p->job) : NULL;
    ret[0] = '\0';
    for (const struct dz_exec *e = job ? s->machine.execs->all : NULL; e; e = e->next)
        if ((uint64_t)e->number + 1 == job->tag)
            memcpy(ret, e->id, sizeof e->id);
}

static int put_process(struct dz_op *op, const struct dz_proc *p, struct dz_err *err)
{
    const struct dz_serve *s = op->ops->serve;
    char command[COMMAND_MAX];
    size_t size = 0, n = 0;
    const char *argv = p->argv ? dz_kernel_blob(s->machine.kernel, p->argv, &size) : NULL;
    for (; argv && n < size && n < sizeof command - 1; n++)
        command[n] = argv[n] ? argv[n] : ' ';
    while (n > 0 && command[n - 1] == ' ')
        n--;
    if (n == 0)
        n = (size_t)snprintf(command, sizeof command, "[%.16s]", p->comm);
    command[n] = '\0';
    const struct dz_record_process r = {.pid = p->pid,
                                        .ppid = p->ppid,
                                        .pgid = p->pgid,
                                        .sid = p->sid,
                                        .uid = p->euid,
                                        .state =
                                            (uint32_t)dz_kernel_proc_letter(s->machine.kernel, p),
                                        .started_ns = p->start_ns,
                                        .cpu_ns = p->utime_ns + p->stime_ns,
                                        .memory_bytes = p->mem_bytes};
    char id[DZ_CELL_ID_MAX + 1]; /* the command may end while this waits */
    exec_of(s, p, id);
    const struct dz_op_part parts[3] = {{id, strlen(id) + 1}, {command, n + 1}};
    return dz_op_record(op, DZ_RECORD_PROCESS, &r, sizeof r, parts, err);
}

static void figures(const struct dz_serve *s, struct dz_record_stats *r)
{
    struct dz_vfs_usage u;
    dz_vfs_usage(s->machine.vfs, &u);
    r->disk_bytes = u.bytes;
    r->disk_limit = u.limit_bytes;
    r->inodes = u.inodes;
    r->inode_limit = u.limit_inodes;
    r->image_bytes = u.image_bytes;
    r->up = s->up;
    r->execs = (uint32_t)s->machine.execs->count;
    if (!s->up)
        return;
    struct dz_kernel_misc misc;
    const struct dz_policy *policy = dz_policy_find(s->machine.policy);
    dz_kernel_misc_get(s->machine.kernel, &misc);
    r->cpu_ns = misc.total_cpu_ns;
    memcpy(r->load, misc.load, sizeof r->load);
    r->memory_limit = s->start.memory_bytes ? s->start.memory_bytes
                      : policy              ? policy->limits.memory_bytes
                                            : 0;
}

int dz_op_stats(struct dz_op *op, struct dz_err *err)
{
    const struct dz_serve *s = op->ops->serve;
    struct dz_kernel *k = s->machine.kernel;
    struct dz_record_stats r = {0};
    uint32_t rows = s->up ? dz_kernel_rows(k, DZ_KERNEL_TABLE_PROC) : 0;
    figures(s, &r);
    for (uint32_t i = 1; i <= rows; i++) {
        const struct dz_proc *p = dz_kernel_row(k, DZ_KERNEL_TABLE_PROC, i);
        bool real = p && !(p->flags & DZ_PROC_INIT);
        r.procs += real;
        r.memory_bytes += real ? p->mem_bytes : 0;
    }
    const struct dz_op_part none[3] = {{0}};
    int rc = dz_op_record(op, DZ_RECORD_STATS, &r, sizeof r, none, err);
    for (uint32_t i = 1; rc == 0 && i <= rows; i++) {
        const struct dz_proc *p = dz_kernel_row(k, DZ_KERNEL_TABLE_PROC, i);
        if (p && !(p->flags & DZ_PROC_INIT))
            rc = put_process(op, p, err);
    }
    return rc;
}

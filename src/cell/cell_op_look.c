/* SPDX-License-Identifier: MIT
 *
 * cell_op_look.c - operations that look into the file as a database, and at the
 * machine: SQL, records of commands, figures.
 *
 * A query runs to its end before anything else continues, because it uses the machine's own
 * handle, which is restricted meanwhile. Its steps and bytes are limited.
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
    NO_ROOM = 2, /* result of put_row(): flush first */
};

/* --- SQL -------------------------------------------------------------------------------- */

/* Gather records without sending them, because a statement is open. */
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
        return dz_fail(err, DZ_ELIMIT,
                       "run the query: the answer exceeds %d bytes; select fewer rows or columns",
                       DZ_CELL_SQL_BYTES_MAX);
    return rc < 0 ? rc : 0;
}

static int one_statement(struct dz_stmt *st, const char *rest, struct dz_err *err)
{
    (void)st;
    if (rest && rest[strspn(rest, " \t\r\n;")] != '\0')
        return dz_fail(err, DZ_EINVAL, "run the query: one statement at a time");
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

/* Read whole records, as many as fit into a frame. */
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
    int rc = dz_cell_machine_commit(&s->machine,
                                    err); /* so that the query sees everything written so far */
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

/* A command that is recorded as running is lost, if no machine runs or sleeps in the file: the
 * sandbox's process has died, and the next wake will record that. */
static bool is_lost(const struct dz_serve *s, uint32_t state)
{
    return state == DZ_EXEC_RUNNING && !s->up &&
           dz_machine_found(s->machine.keep) != DZ_MACHINE_ASLEEP;
}

/* The rows may hold a little more output than is promised; the excess is not shown. */
static uint64_t kept_from(const struct dz_exec_kept *kept, uint64_t total, int64_t keep)
{
    uint64_t most = keep > 0 ? (uint64_t)keep : DZ_CELL_KEEP;
    uint64_t from = total > most ? total - most : 0;
    return from > kept->first ? from : kept->first;
}

static uint32_t count_strings(const char *p, size_t size)
{
    uint32_t n = 0;
    for (size_t i = 0; i < size; i++)
        n += p[i] == '\0';
    return n;
}

/* Turn a row of sql_rows into a record: a struct, and bytes that belong to the statement. False:
 * the row is damaged. */
static bool read_row(struct dz_stmt *st, struct dz_record_exec *ret, struct dz_op_part parts[3])
{
    size_t argv_size, own_size;
    const char *id = dz_col_text(st, 1), *argv = dz_col_blob(st, 2, &argv_size);
    const void *own = dz_col_blob(st, 3, &own_size);
    int64_t number = dz_col_int(st, 0);
    if (number < 0 || number >= DZ_EXEC_MAX || !id[0] || strlen(id) > DZ_CELL_ID_MAX ||
        argv_size > DZ_EXEC_ARGV_KEPT || own_size > DZ_CELL_SPEC_MAX ||
        (argv_size > 0 && argv[argv_size - 1] != '\0'))
        return false;
    parts[0] = (struct dz_op_part){id, strlen(id) + 1};
    parts[1] = (struct dz_op_part){argv, argv_size};
    parts[2] = (struct dz_op_part){own, own_size};
    *ret = (struct dz_record_exec){.number = (uint64_t)number,
                                   .state = (uint32_t)dz_col_int(st, 4),
                                   .code = (uint32_t)dz_col_int(st, 5),
                                   .started_ns = dz_col_int(st, 6),
                                   .ended_ns = dz_col_int(st, 7),
                                   .flags = (uint32_t)dz_col_int(st, 8),
                                   .pid = (int32_t)dz_col_int(st, 9),
                                   .output_bytes = (uint64_t)dz_col_int(st, 12),
                                   .argc = count_strings(argv, argv_size),
                                   .argv_size = (uint32_t)argv_size,
                                   .own_size = (uint32_t)own_size};
    ret->cpu_ns = ret->state == DZ_EXEC_ENDED ? dz_col_int(st, 10) : 0;
    return true;
}

/* Add the record of the next row below *below, if it fits into the frame that is being filled. 1:
 * added, and *below is its number; 0: there is no such row; NO_ROOM. This never waits. */
static int put_row(struct dz_op *op, int64_t *below, struct dz_err *err)
{
    static const char sql_rows[] =
        "SELECT number,id,argv,own,state,code,started,ended,flags,pid,cpu,keep,printed FROM exec "
        "WHERE number<?1 ORDER BY number DESC LIMIT 1";
    struct dz_serve *s = op->ops->serve;
    struct dz_record_exec r;
    struct dz_op_part parts[3];
    struct dz_exec_kept kept;
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(s->machine.db, sql_rows);
    dz_bind_int(st, 1, *below);
    int rc = dz_stmt_step(st, err);
    if (rc <= 0)
        return rc;
    if (!read_row(st, &r, parts)) {
        *below = dz_col_int(st, 0);
        return 1;
    }
    if (!dz_op_record_fits(op, sizeof r, parts))
        return NO_ROOM;
    rc = dz_execs_kept(s->machine.db, (uint32_t)r.number, &kept, err);
    if (rc < 0)
        return rc;
    if (r.state == DZ_EXEC_RUNNING || kept.total > r.output_bytes)
        r.output_bytes = kept.total;
    r.first_offset = kept_from(&kept, r.output_bytes, dz_col_int(st, 11));
    if (is_lost(s, r.state))
        r.state = DZ_EXEC_LOST;
    *below = (int64_t)r.number;
    rc = dz_op_record(op, DZ_RECORD_EXEC, &r, sizeof r, parts, err);
    return rc < 0 ? rc : 1;
}

static int next_row(struct dz_op *op, int64_t *below, struct dz_err *err)
{
    int rc;
    while ((rc = put_row(op, below, err)) == NO_ROOM) {
        rc = dz_op_emit_records(op, err); /* this may wait */
        if (rc < 0)
            break;
    }
    return rc;
}

int dz_op_execs(struct dz_op *op, struct dz_err *err)
{
    uint64_t limit = op->args.limit ? op->args.limit : DZ_CELL_EXECS_KEPT;
    int64_t below = op->args.offset ? (int64_t)op->args.offset : INT64_MAX;
    int rc = dz_cell_machine_commit(&op->ops->serve->machine, err);
    if (rc < 0)
        return rc;
    while (limit-- > 0 && (rc = next_row(op, &below, err)) > 0)
        ;
    return rc < 0 ? rc : 0;
}

/* Find the number of the command with this id. */
static int find_exec(struct dz_op *op, int64_t *ret_number, struct dz_err *err)
{
    struct dz_cell_machine *m = &op->ops->serve->machine;
    int rc = dz_cell_machine_commit(m, err);
    if (rc == 0)
        rc = dz_execs_find(m->db, op->text, ret_number, err);
    if (rc == 0)
        return dz_fail(err, DZ_ENOENT, "there is no record of a command %s", op->text);
    return rc < 0 ? rc : 0;
}

int dz_op_exec(struct dz_op *op, struct dz_err *err)
{
    int64_t below = 0;
    int rc = find_exec(op, &below, err);
    if (rc == 0) {
        below++;
        rc = next_row(op, &below, err);
    }
    return rc < 0 ? rc : 0;
}

/* Find the piece that holds offset *at, or the next one. 1: *at is the offset after it. */
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
    struct dz_exec_kept kept;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(db, "SELECT keep FROM exec WHERE number=?1");
    dz_bind_int(st, 1, number);
    int rc = dz_stmt_step(st, err);
    if (rc < 0)
        return rc;
    int64_t keep = rc > 0 ? dz_col_int(st, 0) : 0;
    rc = dz_execs_kept(db, (uint32_t)number, &kept, err);
    if (rc == 0)
        *ret_first = kept_from(&kept, kept.total, keep);
    return rc;
}

int dz_op_output(struct dz_op *op, struct dz_err *err)
{
    uint64_t at = op->args.offset, first = 0;
    int64_t number = 0;
    int rc = at > INT64_MAX ? dz_fail(err, DZ_EINVAL, "replay the output: the offset is too large")
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
    char id[DZ_CELL_ID_MAX + 1]; /* a copy, because the command may end while this waits */
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
    r->image_inodes = u.image_inodes;
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

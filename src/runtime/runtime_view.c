/* SPDX-License-Identifier: MIT
 *
 * runtime_view.c - records of operations, as the host reads them. A cell is not
 * believed: sizes are compared with what is there, strings must end.
 */
#include "runtime/runtime_op.h"

#include <string.h>

#include "base/attr.h"
#include "runtime/runtime_record.h"

static int damaged(struct dz_err *err)
{
    return dz_fail(err, DZ_ECORRUPT, "the cell sent an invalid record");
}

/* The next record, if it is of this kind: its struct, and its bytes in *ret_tail. */
static int next(struct dz_cell_view *v, enum dz_op_record_kind kind, void *ret_fixed, size_t fixed,
                struct dz_cell_view *ret_tail, struct dz_err *err)
{
    struct dz_op_record r;
    if (v->left == 0)
        return 0;
    if (v->left < sizeof r)
        return damaged(err);
    memcpy(&r, v->at, sizeof r);
    if (r.kind != kind || r.fixed != fixed || r.size > v->left ||
        sizeof r + fixed > v->left - r.size)
        return damaged(err);
    memcpy(ret_fixed, v->at + sizeof r, fixed);
    *ret_tail = (struct dz_cell_view){v->at + sizeof r + fixed, r.size};
    v->at += sizeof r + fixed + r.size;
    v->left -= sizeof r + fixed + r.size;
    return 1;
}

/* A string with its NUL off the tail; NULL: there is none. */
static const char *string(struct dz_cell_view *t)
{
    const char *s = (const char *)t->at;
    const uint8_t *nul = t->left ? memchr(t->at, 0, t->left) : NULL;
    if (!nul)
        return NULL;
    t->left -= (size_t)(nul + 1 - t->at);
    t->at = nul + 1;
    return s;
}

int dz_cell_stat_next(struct dz_cell_view *v, struct dz_cell_stat *ret, struct dz_err *err)
{
    struct dz_record_stat r;
    struct dz_cell_view t;
    int rc = next(v, DZ_RECORD_STAT, &r, sizeof r, &t, err);
    if (rc <= 0)
        return rc;
    *ret = (struct dz_cell_stat){.ino = r.ino,
                                 .size = r.size,
                                 .mtime_ns = r.mtime_ns,
                                 .ctime_ns = r.ctime_ns,
                                 .mode = r.mode,
                                 .uid = r.uid,
                                 .gid = r.gid,
                                 .nlink = r.nlink};
    ret->path = string(&t);
    ret->target = ret->path ? string(&t) : NULL;
    return ret->target ? 1 : damaged(err);
}

static const char *change_name(uint32_t what)
{
    switch (what) {
    case DZ_CHANGE_CREATE:
        return "create";
    case DZ_CHANGE_WRITE:
        return "write";
    case DZ_CHANGE_REMOVE:
        return "remove";
    case DZ_CHANGE_MOVED_FROM:
        return "moved_from";
    case DZ_CHANGE_MOVED_TO:
        return "moved_to";
    case DZ_CHANGE_ATTR:
        return "attr";
    case DZ_CHANGE_OVERFLOW:
        return "overflow";
    default:
        return NULL;
    }
}

int dz_cell_change_next(struct dz_cell_view *v, struct dz_cell_change *ret, struct dz_err *err)
{
    struct dz_record_change r;
    struct dz_cell_view t;
    int rc = next(v, DZ_RECORD_CHANGE, &r, sizeof r, &t, err);
    if (rc <= 0)
        return rc;
    *ret = (struct dz_cell_change){change_name(r.what), r.cookie, r.mode, string(&t)};
    return ret->what && ret->path ? 1 : damaged(err);
}

int dz_cell_value_next(struct dz_cell_view *v, struct dz_cell_value *ret, struct dz_err *err)
{
    struct dz_record_value r;
    struct dz_cell_view t;
    int rc = next(v, DZ_RECORD_VALUE, &r, sizeof r, &t, err);
    if (rc <= 0)
        return rc;
    if (r.kind < DZ_CELL_COLUMN || r.kind > DZ_CELL_NULL)
        return damaged(err);
    *ret = (struct dz_cell_value){.kind = (enum dz_cell_value_kind)r.kind,
                                  .more = r.more != 0,
                                  .integer = r.integer,
                                  .real = r.real,
                                  .data = t.at,
                                  .size = t.left};
    return 1;
}

int dz_cell_exec_row_next(struct dz_cell_view *v, struct dz_cell_exec_row *ret, struct dz_err *err)
{
    static const char *const states[] = {NULL, "running", "ended", "lost"};
    struct dz_record_exec r;
    struct dz_cell_view t;
    int rc = next(v, DZ_RECORD_EXEC, &r, sizeof r, &t, err);
    if (rc <= 0)
        return rc;
    const char *id = string(&t), *argv = (const char *)t.at;
    if (!id || r.state == 0 || r.state >= DZ_ARRAY_LEN(states) || r.argv_size > t.left ||
        r.own_size != t.left - r.argv_size)
        return damaged(err);
    struct dz_cell_view args = {t.at, r.argv_size};
    for (uint32_t i = 0; i < r.argc; i++)
        if (!string(&args))
            return damaged(err);
    bool exited = r.state == 2 && r.code < DZ_ENDED_SIGNAL;
    *ret = (struct dz_cell_exec_row){.number = r.number,
                                     .id = id,
                                     .state = states[r.state],
                                     .exit_code = exited ? (int)(r.code & 0xff) : -1,
                                     .pid = r.pid,
                                     .tty = r.flags & DZ_EXEC_TTY,
                                     .open_stdin = r.flags & DZ_EXEC_STDIN,
                                     .timed_out = r.flags & DZ_EXEC_TIMED_OUT,
                                     .started_ns = r.started_ns,
                                     .ended_ns = r.ended_ns,
                                     .cpu_ns = r.cpu_ns,
                                     .output_bytes = r.output_bytes,
                                     .first_offset = r.first_offset,
                                     .argv = argv,
                                     .argc = r.argc,
                                     .spec = t.at + r.argv_size,
                                     .spec_size = r.own_size};
    if (r.state == 2 && !exited)
        ret->signal = (int)((r.code - DZ_ENDED_SIGNAL) & 0x7f);
    return 1;
}

int dz_cell_piece_next(struct dz_cell_view *v, struct dz_cell_piece *ret, struct dz_err *err)
{
    struct dz_record_piece r;
    struct dz_cell_view t;
    int rc = next(v, DZ_RECORD_PIECE, &r, sizeof r, &t, err);
    if (rc > 0)
        *ret = (struct dz_cell_piece){r.offset, r.stream & 3, t.at, t.left};
    return rc;
}

int dz_cell_usage_next(struct dz_cell_view *v, struct dz_cell_usage *ret, struct dz_err *err)
{
    struct dz_record_usage r;
    struct dz_cell_view t;
    int rc = next(v, DZ_RECORD_USAGE, &r, sizeof r, &t, err);
    if (rc > 0)
        *ret = (struct dz_cell_usage){r.stored, r.size, r.names, r.sockets};
    return rc;
}

int dz_cell_stats_next(struct dz_cell_view *v, struct dz_cell_machine_stats *ret,
                       struct dz_err *err)
{
    struct dz_record_stats r;
    struct dz_cell_view t;
    int rc = next(v, DZ_RECORD_STATS, &r, sizeof r, &t, err);
    if (rc <= 0)
        return rc;
    *ret = (struct dz_cell_machine_stats){.cpu_ns = r.cpu_ns,
                                          .memory_bytes = r.memory_bytes,
                                          .memory_limit = r.memory_limit,
                                          .disk_bytes = r.disk_bytes,
                                          .disk_limit = r.disk_limit,
                                          .inodes = r.inodes,
                                          .inode_limit = r.inode_limit,
                                          .image_bytes = r.image_bytes,
                                          .image_inodes = r.image_inodes,
                                          .procs = r.procs,
                                          .execs = r.execs,
                                          .load = {r.load[0], r.load[1], r.load[2]},
                                          .up = r.up != 0};
    return 1;
}

int dz_cell_process_next(struct dz_cell_view *v, struct dz_cell_process *ret, struct dz_err *err)
{
    struct dz_record_process r;
    struct dz_cell_view t;
    int rc = next(v, DZ_RECORD_PROCESS, &r, sizeof r, &t, err);
    if (rc <= 0)
        return rc;
    *ret = (struct dz_cell_process){.pid = r.pid,
                                    .ppid = r.ppid,
                                    .pgid = r.pgid,
                                    .sid = r.sid,
                                    .uid = r.uid,
                                    .state = (char)(r.state & 0x7f),
                                    .started_ns = r.started_ns,
                                    .cpu_ns = r.cpu_ns,
                                    .memory_bytes = r.memory_bytes};
    ret->exec_id = string(&t);
    ret->command = ret->exec_id ? string(&t) : NULL;
    return ret->command ? 1 : damaged(err);
}

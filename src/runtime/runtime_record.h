/* SPDX-License-Identifier: MIT
 *
 * runtime_record.h - the bytes of a record in an operation's data, as a cell writes them and
 * runtime_view.c reads them (docs/format/cell-protocol.md). Numbers are the host's: both ends are
 * one machine.
 */
#ifndef DZ_RUNTIME_RUNTIME_RECORD_H
#define DZ_RUNTIME_RUNTIME_RECORD_H

#include <stdint.h>

enum {
    DZ_EXEC_TTY = 1,
    DZ_EXEC_STDIN = 2,
    DZ_EXEC_ATTACH = 4,
    DZ_EXEC_TIMED_OUT = 8, /* of a record, and of EXITED */
    DZ_EXEC_BARE = 16,
    DZ_EXEC_TRACE = 32,
    DZ_ENDED_SIGNAL = 1000, /* added to a signal's number where an exit code could be */
};

/* What happened to a path; of a record one of them. */
enum dz_change_what {
    DZ_CHANGE_CREATE = 1,
    DZ_CHANGE_WRITE = 2,
    DZ_CHANGE_REMOVE = 4,
    DZ_CHANGE_MOVED_FROM = 8,
    DZ_CHANGE_MOVED_TO = 16,
    DZ_CHANGE_ATTR = 32,
    DZ_CHANGE_OVERFLOW = 64,
};

/* A record of an operation's data: this, a struct of below, bytes. */
struct dz_op_record {
    uint16_t kind, fixed; /* enum dz_op_record_kind; bytes of the struct */
    uint32_t size;        /* of the bytes */
};
enum dz_op_record_kind {
    DZ_RECORD_STAT = 1,
    DZ_RECORD_CHANGE = 2,
    DZ_RECORD_VALUE = 3,
    DZ_RECORD_EXEC = 4,
    DZ_RECORD_PIECE = 5,
    DZ_RECORD_STATS = 6,
    DZ_RECORD_PROCESS = 7,
    DZ_RECORD_USAGE = 8,
};
struct dz_record_stat { /* path, target */
    uint64_t ino, size;
    int64_t mtime_ns, ctime_ns;
    uint32_t mode, uid, gid, nlink;
};
struct dz_record_change { /* path */
    uint32_t what, cookie, mode, pad;
};
struct dz_record_value { /* bytes */
    uint32_t kind, more;
    int64_t integer;
    double real;
};
struct dz_record_exec { /* id, argv, own bytes */
    uint64_t number, output_bytes, first_offset;
    int64_t started_ns, ended_ns, cpu_ns;
    uint32_t state, code, flags, argc, argv_size, own_size;
    int32_t pid;
    uint32_t pad;
};
struct dz_record_piece { /* bytes */
    uint64_t offset;
    uint32_t stream, pad;
};
struct dz_record_stats {
    uint64_t cpu_ns, memory_bytes, memory_limit;
    uint64_t disk_bytes, disk_limit, inodes, inode_limit, image_bytes, image_inodes;
    uint32_t procs, execs, load[3], up;
};
struct dz_record_usage {
    uint64_t stored, size, names, sockets;
};
struct dz_record_process { /* id of the command, command */
    int32_t pid, ppid, pgid, sid;
    uint32_t uid, state;
    int64_t started_ns;
    uint64_t cpu_ns, memory_bytes;
};

#endif

/* SPDX-License-Identifier: MIT
 *
 * runtime.h - what a kind of guest offers to the daemon: cells, by a table of functions.
 *
 * A cell is a process that has the file of one sandbox open and, while the sandbox is awake, runs
 * its machine. The daemon knows cells by `struct dz_cell_ops` only, and never looks inside `struct
 * dz_cell`. There are two kinds, WebAssembly and native Linux programs (cell/cell_runtime.h). A new
 * kind adds a table; the code above does not change.
 *
 * This module holds types, limits and the readers of records (runtime_op.h). It starts no process
 * and uses `base` only, so that code which runs sandboxes can be built and tested without cells.
 *
 * Life of a cell:
 *
 *     start -> [hold: begin] -> READY -> go -> (LOST) LIVE* UP -> ... -> SUSPENDED -> GONE -> free
 *                           `-> with `go` in the start: (LOST) LIVE* UP
 *
 * At any point the cell may report FAILED, or receive() may fail; the caller then frees the cell.
 */
#ifndef DZ_RUNTIME_RUNTIME_H
#define DZ_RUNTIME_RUNTIME_H

#include "base/attr.h"
#include "base/err.h"
#include "runtime/runtime_net.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dz_cell;
struct dz_cell_exec; /* runtime_exec.h */
struct dz_cell_op;   /* runtime_op.h */
struct dz_policy;

enum {
    DZ_CELL_MODULES_MAX = 64,       /* prepared modules handed over */
    DZ_CELL_PREOPENS_MAX = 16,      /* WASI's directories */
    DZ_CELL_VOLUMES_MAX = 16,       /* mounted on the disk of one sandbox */
    DZ_CELL_FRAME_MAX = 32768,      /* bytes of payload in one frame */
    DZ_CELL_WINDOW = 65536,         /* bytes of input in flight */
    DZ_CELL_MODULE_MAX = 512 << 20, /* bytes of a module's file */
};

/* The streams of a command. */
enum dz_cell_stream {
    DZ_CELL_STDIN = 0,
    DZ_CELL_STDOUT = 1,
    DZ_CELL_STDERR = 2,
    DZ_CELL_TTY = 3, /* all three are one terminal, whose input and output use this stream */
    /* Output: lines about the system calls of native programs. Frames and records have 0 for it,
     * because standard input has no output. */
    DZ_CELL_TRACE = 4,
    DZ_CELL_STREAMS = 5,
};

/* A command of a suspended machine, as the host recorded it. */
struct dz_cell_sleeper {
    const char *id;
    size_t window; /* bytes of input that it can accept */
};

/* How to start when the file may hold a suspended machine. */
enum dz_cell_asleep {
    DZ_CELL_WAKE,      /* wake it; if there is none, begin an empty machine */
    DZ_CELL_WAKE_ONLY, /* wake it; if there is none, the cell fails with DZ_ESTATE */
    /* Begin an empty machine. If one sleeps in the file itself, the cell fails with DZ_ESTATE; one
     * that sleeps in the image below is ignored. */
    DZ_CELL_BEGIN,
    DZ_CELL_DROP, /* begin an empty machine; drop the memory of a suspended one */
};

/* A disk file that is mounted on the sandbox's disk when its machine goes up. */
struct dz_cell_volume {
    /* Its WAL; -1: none, and the file does not change while the cell has it (readonly). With
     * readonly and a WAL, the WAL is moved into the file first. */
    int fd, wal_fd;
    int again_fd;    /* readonly with a WAL: the file, opened once more for reading; else -1 */
    uint32_t number; /* as in struct dz_vfs_mount */
    bool readonly;
    uint64_t limit_bytes;    /* that its files may take; 0: no limit */
    const char *name, *path; /* for messages; where it is mounted */
    const char *subpath;     /* the directory of the volume that is mounted; "": all of it */
};

/* The cell begins file-only; dz_cell_go() (or `go`) brings up the machine. Then commands can be
 * started (runtime_exec.h). */
struct dz_cell_start {
    int disk_fd, wal_fd; /* the machine's file and its WAL; -1: none, with readonly */
    int image_fd;        /* -1: none */
    const char *image_sha256;
    /* In any order: prepared modules, the flat memory of the image's suspended machine, the image's
     * pack. The first bytes of each file identify it. */
    const int *module_fds;
    size_t module_count;
    const struct dz_cell_volume *volumes;
    size_t volume_count;    /* at most DZ_CELL_VOLUMES_MAX */
    uint64_t pack_at;       /* offset of the pack in its file; not 0 in an exported image */
    const char *const *env; /* "K=V", ends with NULL: variables of every command besides its own */
    const struct dz_policy *policy; /* of a new machine; a resumed one keeps its own */
    uint64_t memory_bytes;          /* overrides the policy's limit; 0: the policy's */
    enum dz_cell_asleep asleep;
    bool native;    /* programs of the image are x86-64 Linux programs (a cell of kind "linux") */
    bool fresh;     /* the disk is new: bind it to the image */
    bool ephemeral; /* the file is not read afterwards: keep no records of commands */
    /* File-only, and the cell changes nothing in the file. Without a WAL the file may be one that
     * this process must not write to; no other process may write to it, either. */
    bool readonly;
    /* File-only, and the file is a volume: the paths of operations begin at its /workspace, as they
     * do for a sandbox that mounts it. */
    bool volume;
    int64_t clock_ns; /* fixed time of the files' clock, ns since 1970; 0: none */
    bool strict;      /* each commit is durable before an event that depends on it is reported */
    /* The machine ends with its command DZ_CELL_MAIN, as a container ends with its first process:
     * EXITED, then SUSPENDED, and only the files remain. The cell dies with its host. Without this,
     * the cell outlives the host: when its socket closes, it suspends its machine. */
    bool ends_with_main;
    /* Keep the descriptors and send nothing until dz_cell_begin(). Messages to the cell before that
     * are sent together with the start, so that its process wakes once. */
    bool hold;
    bool go; /* bring up the machine at once: there is no READY, and no dz_cell_go() */
    /* go: these commands get the handles 1, 2, ..., which are valid at once (cell_exec.h). */
    const struct dz_cell_sleeper *sleepers;
    size_t sleeper_count; /* at most DZ_CELL_EXECS_MAX */
    int64_t lock_wait_ms; /* how long to wait for another cell to release the file; then FAILED with
                             DZ_EBUSY */
    const char *label;    /* the sandbox's id, logged with the cell's standard error; NULL: none */
    uint32_t host_user;   /* in a pool with users (cell_users.h): the tenant's user, which the cell
                             becomes */
    bool net;             /* the machine may have connections to the outside */
    /* With net: resume() and resumed() of struct dz_cell_net_ops are called after begin() or go().
     * Without it, the connections of a machine that wakes are over. */
    bool net_resumes;
    /* With net: programs may connect to addresses outside, and this is their own address, of IPv4
     * in the host's byte order. 0: they get ENETUNREACH. */
    uint32_t own4;
};

enum dz_cell_event_type {
    DZ_CELL_OUTPUT = 1,  /* bytes of a stream */
    DZ_CELL_WINDOW_OPEN, /* stream can take `count` more bytes of input */
    DZ_CELL_FAILED,      /* the machine could not be run: code and text */
    DZ_CELL_SUSPENDED, /* the machine is suspended in its file, durably. count: the next deadline of
                          a process, ns since 1970, INT64_MAX: none; busy: a process was runnable */
    DZ_CELL_AWAKE,     /* the suspend failed and the machine continues: code and text */
    DZ_CELL_COPIED,    /* the snapshot is complete, count bytes; or it failed: code and text */
    DZ_CELL_LOST,  /* memory_lost: a crash left the file, the machine starts from the files alone */
    DZ_CELL_READY, /* the file is open, no machine runs. count: enum dz_cell_found; wake_at */
    DZ_CELL_LIVE,  /* a command of the resumed machine: exec, text: its id, count: bytes printed so
                      far, pid; detached. The first one of an image has the id "main" */
    DZ_CELL_UP,    /* the machine runs. busy: it continues from its memory, and is no new one */
    DZ_CELL_STARTED,     /* exec, pid */
    DZ_CELL_EXEC_FAILED, /* exec could not be started: code and text. Its last event */
    DZ_CELL_EXITED,   /* exec ended: exit_code or signal, cpu_ns, count: bytes printed in all, text:
                         why it was stopped. Its last event, after all of its output */
    DZ_CELL_ACTIVITY, /* activity: cpu_ns, bytes_in, bytes_out, wake_at, memory_bytes, disk_bytes,
                       * procs */
    DZ_CELL_FULL, /* the disk is full, so nothing can be committed and the machine is paused. text.
                     Repeated while that lasts */
    DZ_CELL_NOTHING, /* nothing for the host: used functions were reported to its zygote, or its
                        standard error was logged */
    DZ_CELL_OP_DATA, /* op (cell_op.h): data */
    DZ_CELL_OP_WINDOW_OPEN, /* op can take `count` more bytes */
    DZ_CELL_OP_DONE,        /* op ended: count; or code and text. Its last event */
    DZ_CELL_NET_ANSWER,     /* generation: the answer to an incoming connection; code */
    DZ_CELL_NET_PORTS,      /* ports, count: programs listen on others, or a full queue has room */
    DZ_CELL_NET_CONNECT,    /* channel: a program connects to address */
    DZ_CELL_NET_CLOSED, /* generation: the guest has closed the connection; or channel, generation
                           0: it does not wait for it any more. busy: by a reset */
    DZ_CELL_NET_REST,   /* rests, count: the open connections, before SUSPENDED */
    DZ_CELL_NET_QUERY,  /* generation: number of a query of DNS; data, size */
    DZ_CELL_GONE,       /* after SUSPENDED: the process has ended, the file's lock is free */
};

/* The machine that a sandbox's file holds. */
enum dz_cell_found {
    DZ_CELL_FOUND_NOTHING = 0,
    DZ_CELL_FOUND_ASLEEP = 1,
    DZ_CELL_FOUND_LOST = 2, /* it ran and was not suspended */
};

/* The field, other than the program, that prevented the start of a command. */
enum dz_exec_wrong {
    DZ_EXEC_WRONG_NOTHING,
    DZ_EXEC_WRONG_USER, /* no such user */
    DZ_EXEC_WRONG_CWD,  /* no such directory to start in */
};

struct dz_cell_event {
    enum dz_cell_event_type type;
    uint32_t exec; /* the command; 0: none */
    uint32_t op;   /* the operation; 0: none */
    uint32_t stream;
    uint64_t count;
    uint64_t offset; /* OUTPUT of a command: of its first byte, in stdout and stderr together */
    int32_t pid;
    int64_t cpu_ns;
    int64_t wake_at; /* ns since 1970 of the next deadline; 0: now; INT64_MAX: never */
    uint64_t bytes_in, bytes_out, memory_bytes; /* traffic since the cell began; memory now */
    uint64_t disk_bytes;                        /* bytes of its files now */
    uint32_t procs;
    const uint8_t *data; /* valid until the next receive */
    size_t size;
    int exit_code; /* 0 to 255; -1: signal */
    int signal;
    bool busy;                /* SUSPENDED: a process was runnable; UP: the machine has woken */
    bool timed_out;           /* EXITED: its timeout killed it */
    int code;                 /* DZ_E* of FAILED */
    enum dz_exec_wrong wrong; /* of EXEC_FAILED */
    uint32_t channel;         /* of NET_* */
    uint64_t generation;
    struct dz_cell_address address;
    const struct dz_cell_port *ports; /* valid until the next receive */
    const struct dz_cell_rest *rests;
    uint64_t net_in, net_out; /* ACTIVITY: bytes of connections to the outside */
    const char *text;         /* "" when there is nothing to say; valid until the next receive */
};

/* Commands in a cell whose machine is up, or is about to come up. `exec` is a handle from start,
 * from LIVE or from the list of sleepers; that of an ended command is DZ_ENOENT. */
struct dz_cell_exec_ops {
    /* *ret_exec, never 0, is known before the guest has seen the command. Later exactly one of
     * EXITED (after STARTED), EXEC_FAILED or the end of the cell follows. May be called between
     * start and begin, and before UP. */
    int (*start)(struct dz_cell *c, const struct dz_cell_exec *exec, uint32_t *ret_exec,
                 struct dz_err *err);
    /* Returns the number of bytes accepted; 0: WINDOW_OPEN follows. */
    int64_t (*input)(struct dz_cell *c, uint32_t exec, const void *data, size_t size,
                     struct dz_err *err);
    int (*input_end)(struct dz_cell *c, uint32_t exec, struct dz_err *err);
    /* Bytes of input that a command of a suspended machine will accept when the machine resumes. */
    size_t (*room)(const struct dz_cell *c, uint32_t exec);
    int (*signal)(struct dz_cell *c, uint32_t exec, int signo, bool all, struct dz_err *err);
    int (*resize)(struct dz_cell *c, uint32_t exec, uint16_t rows, uint16_t cols,
                  struct dz_err *err);
    /* Send output from this offset on, or from the first byte that is kept. */
    int (*attach)(struct dz_cell *c, uint32_t exec, uint64_t offset, struct dz_err *err);
    int (*detach)(struct dz_cell *c, uint32_t exec, struct dz_err *err);
    int (*ack)(struct dz_cell *c, uint32_t exec, size_t bytes, struct dz_err *err);
};

/* Operations on files. An operation in progress when the machine comes up continues in the same
 * cell. */
struct dz_cell_file_ops {
    /* *ret_op is never 0. Exactly one OP_DONE, or the end of the cell, follows. */
    int (*start)(struct dz_cell *c, const struct dz_cell_op *op, uint32_t *ret_op,
                 struct dz_err *err);
    /* Returns the number of bytes accepted; 0: OP_WINDOW_OPEN follows. */
    int64_t (*send)(struct dz_cell *c, uint32_t op, const void *data, size_t size,
                    struct dz_err *err);
    int (*end)(struct dz_cell *c, uint32_t op, struct dz_err *err);
    /* OP_DONE follows, with DZ_ECANCELED unless the operation finished first. */
    int (*cancel)(struct dz_cell *c, uint32_t op, struct dz_err *err);
    int (*ack)(struct dz_cell *c, uint32_t op, size_t bytes, struct dz_err *err);
};

/* One kind of cells. No function waits or calls the caller back; all are called on the loop's
 * thread. */
struct dz_cell_ops {
    const char *kind; /* "wasm", "linux": as rows and images name it */

    /* runtime: what the kind needs to make cells (wasm: struct dz_cell_pool). The caller keeps the
     * start's descriptors and texts and may release them when start returns. With `hold` the cell
     * does nothing before begin. DZ_EBUSY: too many starts wait. DZ_EUNSUPPORTED: this host cannot
     * run such cells. */
    int (*start)(void *runtime, const struct dz_cell_start *start, struct dz_cell **ret_cell,
                 struct dz_err *err);
    /* Send the start together with everything queued since, so that the cell's process wakes once.
     * On failure no event follows, and the caller frees the cell. */
    int (*begin)(struct dz_cell *c, struct dz_err *err);

    /* The descriptor to poll, and the events: POLLIN, and POLLOUT while bytes wait for the socket,
     * which flush sends. receive reports an error of flush, too. fd may change after a receive that
     * returned 0, because the end of its process shows that a cell has died. */
    int (*fd)(const struct dz_cell *c);
    short (*want)(const struct dz_cell *c);
    int (*flush)(struct dz_cell *c, struct dz_err *err);
    /* 1: an event, whose texts and data are valid until the next call; 0: none now; negative: the
     * cell is dead and nothing follows. Only GONE follows SUSPENDED or FAILED. */
    int (*receive)(struct dz_cell *c, struct dz_cell_event *ret_event, struct dz_err *err);
    /* Did the packet of the last event hold another one? Receive it before polling again. */
    bool (*pending)(const struct dz_cell *c);

    /* Resume or begin the machine of a cell that reported READY. UP follows. */
    int (*go)(struct dz_cell *c, struct dz_err *err);
    /* Exactly one of SUSPENDED, AWAKE (the machine continues) or FAILED follows. File operations
     * end first. files_only: drop the memory. */
    int (*suspend)(struct dz_cell *c, bool files_only, struct dz_err *err);
    /* Write the sandbox as it is now into the empty file fd, which is duplicated before return.
     * One at a time; exactly one COPIED follows. */
    int (*copy)(struct dz_cell *c, int fd, struct dz_err *err);
    /* So many bytes more its disk may take; UINT64_MAX: as many as there are. */
    int (*room)(struct dz_cell *c, uint64_t bytes, struct dz_err *err);
    /* Bytes that guests must leave free in the host's file system, and the most that the disk may
     * take; 0: no limit. */
    int (*limits)(struct dz_cell *c, uint64_t keep_free, uint64_t disk_bytes, struct dz_err *err);

    const struct dz_cell_exec_ops *exec;
    const struct dz_cell_file_ops *file;
    const struct dz_cell_net_ops *net; /* NULL: its machines have no connections to the outside */

    int32_t (*pid)(struct dz_cell *c); /* 0: not known yet, or gone */
    /* Was the cell killed because it took more memory than its cgroup allows? */
    bool (*out_of_memory)(const struct dz_cell *c);
    /* Kill the cell now, in any state; data that it reported as durable stays. receive then reports
     * that the cell is dead. */
    void (*kill)(struct dz_cell *c);
    /* Free the cell; kill it first unless it reported SUSPENDED. No event follows. NULL is fine. */
    void (*free)(struct dz_cell *c);
};

#endif

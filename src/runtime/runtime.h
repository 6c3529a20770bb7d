/* SPDX-License-Identifier: MIT
 *
 * runtime.h - what a kind of guest offers to the daemon: cells, by a table of functions.
 *
 * A cell is a process that has the file of one sandbox open, and its machine when that runs. The
 * daemon knows cells by `struct dz_cell_ops` only, and never looks inside `struct dz_cell`. There
 * are two kinds, WebAssembly and native Linux programs (cell/cell_runtime.h). Another kind is
 * another table; nothing above it changes.
 *
 * This module holds types, limits and the readers of records (runtime_op.h). It starts no process
 * and uses `base` only, so that code which runs sandboxes can be built and tested without cells.
 *
 * Life of a cell:
 *
 *     start -> [hold: begin] -> READY -> go -> (LOST) LIVE* UP -> ... -> SUSPENDED -> GONE -> free
 *                           `-> with `go` in the start: (LOST) LIVE* UP
 *
 * FAILED, or an error of receive(), may end it at each point: then it is freed.
 */
#ifndef DZ_RUNTIME_RUNTIME_H
#define DZ_RUNTIME_RUNTIME_H

#include "base/attr.h"
#include "base/err.h"

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
    DZ_CELL_FRAME_MAX = 32768,      /* bytes of payload in one frame */
    DZ_CELL_WINDOW = 65536,         /* bytes of input that may be under way */
    DZ_CELL_MODULE_MAX = 512 << 20, /* bytes of a module's file */
};

/* The streams of a command. */
enum dz_cell_stream {
    DZ_CELL_STDIN = 0,
    DZ_CELL_STDOUT = 1,
    DZ_CELL_STDERR = 2,
    DZ_CELL_TTY = 3, /* all three are one terminal: typed to and printed by this stream */
};

/* A command that sleeps in the machine, as the host knew it there. */
struct dz_cell_sleeper {
    const char *id;
    size_t window; /* bytes of input that it took */
};

/* What to do about a machine that sleeps in the file. */
enum dz_cell_asleep {
    DZ_CELL_WAKE,      /* wake it; if there is none, begin an empty machine */
    DZ_CELL_WAKE_ONLY, /* wake it; if there is none, the cell fails with DZ_ESTATE */
    /* Begin an empty machine. If one sleeps in the file itself, the cell fails with DZ_ESTATE; one
     * that sleeps in the image below is ignored. */
    DZ_CELL_BEGIN,
    DZ_CELL_DROP, /* begin an empty machine; the memory of the one that sleeps is dropped */
};

/* The cell begins file-only; dz_cell_go() (or `go`) brings up the machine. Then commands come and
 * go (runtime_exec.h). */
struct dz_cell_start {
    int disk_fd, wal_fd; /* the machine's file and its WAL; -1: none, with readonly */
    int image_fd;        /* -1: none */
    const char *image_sha256;
    /* In any order: prepared modules, the flat memory of the machine that sleeps in the image, the
     * image's pack. Their first bytes say which is which. */
    const int *module_fds;
    size_t module_count;
    uint64_t pack_at;       /* where in its file the pack begins: not 0 in an exported image */
    const char *const *env; /* "K=V", ends with NULL: what every command has besides its own */
    const struct dz_policy *policy; /* of a machine that begins; one that wakes has its own */
    uint64_t memory_bytes;          /* instead of the policy's; 0: the policy's */
    enum dz_cell_asleep asleep;
    bool native;    /* programs of the image are x86-64 Linux programs (a cell of kind "linux") */
    bool trace;     /* native: TRACE tells of their system calls. Of a cell that is not pooled */
    bool fresh;     /* the disk is new: bind it to the image */
    bool ephemeral; /* nobody reads the file afterwards: it gets no records of commands */
    /* File-only, and nothing in the file is changed. Without a WAL the file may be one that this
     * process must not write to; nobody else may write to it, either. */
    bool readonly;
    int64_t clock_ns; /* what the clock of the files shows, ns since 1970; 0: the time */
    bool strict;      /* each commit is on the disk before anything is reported that rests on it */
    /* The machine ends with its command DZ_CELL_MAIN, as a container ends with its first process:
     * EXITED, then SUSPENDED, and only the files remain. The cell dies with its host. Without this,
     * it outlives the host: on a closed socket it puts its machine to sleep. */
    bool ends_with_main;
    /* The descriptors stay, and nothing is sent, until dz_cell_begin(). What is sent to the cell
     * before that goes with the start, so that the cell is woken once. */
    bool hold;
    bool go; /* bring up the machine at once: there is no READY, and no dz_cell_go() */
    /* go: these are called 1, 2, ... from now on, and can be told things at once (cell_exec.h). */
    const struct dz_cell_sleeper *sleepers;
    size_t sleeper_count; /* at most DZ_CELL_EXECS_MAX */
    int64_t lock_wait_ms; /* for a cell that has the file still; then FAILED with DZ_EBUSY */
    const char *label;    /* the sandbox's id, in the log beside what the cell writes to standard
                             error; NULL: none */
    uint32_t host_user;   /* of a pool with users (cell_users.h): whom it becomes, the tenant's */
};

enum dz_cell_event_type {
    DZ_CELL_OUTPUT = 1,  /* bytes of a stream */
    DZ_CELL_WINDOW_OPEN, /* stream can take `count` more bytes of input */
    DZ_CELL_FAILED,      /* the machine could not be run: code and text */
    DZ_CELL_SUSPENDED,   /* it sleeps in its file, durably. count: the next deadline that a process
                            waits for, ns since 1970, INT64_MAX: none; busy: another could run */
    DZ_CELL_AWAKE,       /* it could not be put to sleep and goes on: code and text */
    DZ_CELL_COPIED,      /* the snapshot is there, count bytes; or code and text say why not */
    DZ_CELL_LOST,        /* memory_lost: the file was left by a crash, this starts from its files */
    DZ_CELL_READY,       /* the file is open, nothing runs. count: enum dz_cell_found; wake_at */
    DZ_CELL_LIVE,        /* a command that slept in the machine: exec, text: its id, count: bytes it
                            has printed ever, pid; detached. The first of an image has the id "main" */
    DZ_CELL_UP,          /* the machine runs */
    DZ_CELL_STARTED,     /* exec, pid */
    DZ_CELL_EXEC_FAILED, /* exec could not be started: code and text. The last of it */
    DZ_CELL_EXITED,   /* exec ended: exit_code or signal, cpu_ns, count: bytes it printed ever, text
                         why it was stopped. After all of its output. The last of it */
    DZ_CELL_ACTIVITY, /* something happened: cpu_ns, bytes_in, bytes_out, wake_at, memory_bytes,
                         disk_bytes, procs */
    DZ_CELL_FULL,     /* the disk is full, nothing can be committed: it stands still. text. Comes
                         again while that lasts */
    DZ_CELL_NOTHING,  /* nothing for the host: its zygote was told what it uses, or its words on
                         standard error were logged */
    DZ_CELL_TRACE,    /* data: lines about system calls, or a part of them. Any bytes */
    DZ_CELL_OP_DATA,  /* op (cell_op.h): data */
    DZ_CELL_OP_WINDOW_OPEN, /* op can take `count` more bytes */
    DZ_CELL_OP_DONE,        /* the last of op: count; or code and text */
    DZ_CELL_GONE,           /* after SUSPENDED: the process has ended, the file's lock is free */
};

/* What a file holds besides its files. */
enum dz_cell_found {
    DZ_CELL_FOUND_NOTHING = 0,
    DZ_CELL_FOUND_ASLEEP = 1,
    DZ_CELL_FOUND_LOST = 2, /* it ran and was not put to sleep */
};

/* What a command that could not be started said wrongly, besides its program. */
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
    uint64_t offset; /* of OUTPUT of a command: of its first byte, stdout and stderr together */
    int32_t pid;
    int64_t cpu_ns;
    int64_t wake_at; /* ns since 1970 of the next deadline; 0: now; INT64_MAX: never */
    uint64_t bytes_in, bytes_out, memory_bytes; /* sums since the cell began; of now */
    uint64_t disk_bytes;                        /* that its files take, now */
    uint32_t procs;
    const uint8_t *data; /* valid until the next receive */
    size_t size;
    int exit_code; /* 0 to 255; -1: signal */
    int signal;
    bool busy;                /* SUSPENDED: something could run */
    bool timed_out;           /* EXITED: it was killed when its time was over */
    int code;                 /* DZ_E* of FAILED */
    enum dz_exec_wrong wrong; /* of EXEC_FAILED */
    const char *text;         /* "" when there is nothing to say; valid until the next receive */
};

/* Commands in a cell whose machine is up, or is about to come up. `exec` is the handle that start
 * returned, or that LIVE or the list of sleepers named; one that is over is DZ_ENOENT. */
struct dz_cell_exec_ops {
    /* *ret_exec, never 0, is known before the guest has seen the command. Later exactly one of
     * EXITED (after STARTED), EXEC_FAILED or the end of the cell follows. May be called between
     * start and begin, and before UP. */
    int (*start)(struct dz_cell *c, const struct dz_cell_exec *exec, uint32_t *ret_exec,
                 struct dz_err *err);
    /* How many bytes were taken; 0: WINDOW_OPEN follows. */
    int64_t (*input)(struct dz_cell *c, uint32_t exec, const void *data, size_t size,
                     struct dz_err *err);
    int (*input_end)(struct dz_cell *c, uint32_t exec, struct dz_err *err);
    /* Bytes of input that it will take when its machine wakes: of one whose machine has been put
     * to sleep. */
    size_t (*room)(const struct dz_cell *c, uint32_t exec);
    int (*signal)(struct dz_cell *c, uint32_t exec, int signo, bool all, struct dz_err *err);
    int (*resize)(struct dz_cell *c, uint32_t exec, uint16_t rows, uint16_t cols,
                  struct dz_err *err);
    /* Send output from this offset on, or from the first byte that is kept. */
    int (*attach)(struct dz_cell *c, uint32_t exec, uint64_t offset, struct dz_err *err);
    int (*detach)(struct dz_cell *c, uint32_t exec, struct dz_err *err);
    int (*ack)(struct dz_cell *c, uint32_t exec, size_t bytes, struct dz_err *err);
};

/* Operations on files. One that is under way when the machine goes up goes on in the same cell. */
struct dz_cell_file_ops {
    /* *ret_op is never 0. Exactly one OP_DONE, or the end of the cell, follows. */
    int (*start)(struct dz_cell *c, const struct dz_cell_op *op, uint32_t *ret_op,
                 struct dz_err *err);
    /* How many bytes were taken; 0: OP_WINDOW_OPEN follows. */
    int64_t (*send)(struct dz_cell *c, uint32_t op, const void *data, size_t size,
                    struct dz_err *err);
    int (*end)(struct dz_cell *c, uint32_t op, struct dz_err *err);
    /* OP_DONE follows, with DZ_ECANCELED unless the operation was faster. */
    int (*cancel)(struct dz_cell *c, uint32_t op, struct dz_err *err);
    int (*ack)(struct dz_cell *c, uint32_t op, size_t bytes, struct dz_err *err);
};

/* One kind of cells. Nothing here waits or calls the caller back; every function is called from
 * the loop's thread. */
struct dz_cell_ops {
    const char *kind; /* "wasm", "linux": as rows and images name it */

    /* runtime: what the kind needs to make cells (wasm: struct dz_cell_pool). The
     * start's descriptors and texts stay the caller's and may go when start returns. With `hold`
     * the cell does nothing before begin. DZ_EBUSY: too many starts wait.
     * DZ_EUNSUPPORTED: this host cannot run such cells. */
    int (*start)(void *runtime, const struct dz_cell_start *start, struct dz_cell **ret_cell,
                 struct dz_err *err);
    /* Send the start with everything that was sent since, so that the cell is woken once. When
     * it fails no event follows, and the caller frees the cell. */
    int (*begin)(struct dz_cell *c, struct dz_err *err);

    /* What the loop polls, and for what: POLLIN, and POLLOUT while bytes wait for the socket;
     * flush sends these. An error of flush is told by receive, too. fd may be another one after a
     * receive that returned 0: a cell that dies says so by the end of its process. */
    int (*fd)(const struct dz_cell *c);
    short (*want)(const struct dz_cell *c);
    int (*flush)(struct dz_cell *c, struct dz_err *err);
    /* 1: an event, whose texts and data hold until the next call; 0: none now; negative: the cell
     * is dead and nothing follows. SUSPENDED or FAILED is the last event but GONE. */
    int (*receive)(struct dz_cell *c, struct dz_cell_event *ret_event, struct dz_err *err);
    /* An event came in the packet of the last one: receive it before polling again. */
    bool (*pending)(const struct dz_cell *c);

    /* Wake or begin the machine, in a cell that said READY. UP follows. */
    int (*go)(struct dz_cell *c, struct dz_err *err);
    /* Exactly one of SUSPENDED, AWAKE (it goes on) or FAILED follows. File operations end first.
     * files_only: the memory is given up. */
    int (*suspend)(struct dz_cell *c, bool files_only, struct dz_err *err);
    /* Write the sandbox as it is now into the empty file fd, which is duplicated before return.
     * One at a time; exactly one COPIED follows. */
    int (*copy)(struct dz_cell *c, int fd, struct dz_err *err);
    /* So many bytes more its disk may take; UINT64_MAX: as many as there are. */
    int (*room)(struct dz_cell *c, uint64_t bytes, struct dz_err *err);
    /* Bytes of the host's file system that guests leave free, and bytes that the disk may take at
     * all; 0: no limit. */
    int (*limits)(struct dz_cell *c, uint64_t keep_free, uint64_t disk_bytes, struct dz_err *err);

    const struct dz_cell_exec_ops *exec;
    const struct dz_cell_file_ops *file;

    int32_t (*pid)(struct dz_cell *c); /* 0: not known yet, or gone */
    /* Was the cell killed because it took more memory than its cgroup allows? */
    bool (*out_of_memory)(const struct dz_cell *c);
    /* End it now, whatever it said; what it had said to be durable is. receive then says that it
     * is dead. */
    void (*kill)(struct dz_cell *c);
    /* Kill the cell unless it said SUSPENDED. No event follows. NULL is fine. */
    void (*free)(struct dz_cell *c);
};

#endif

/* SPDX-License-Identifier: MIT
 *
 * cell_call.h - run one function of ours in a jailed process.
 *
 * Every function that reads bytes of possibly hostile origin (a database, a module, an archive)
 * runs like this: the host opens the files, forks, and the child enters the jail of os/os_jail.h
 * before the function is called. It has the descriptors named here and a socket to the host, and
 * nothing else: it can neither open nor start anything, and dies if it tries.
 *
 *     static int count(struct dz_call *call, void *arg, struct dz_err *err)
 *     {
 *         const struct request *r = arg;
 *         ... dz_db_open_fds(&db, r->db_fd, r->wal_fd, ...) ...
 *         return dz_call_reply(call, &n, sizeof n, err);
 *     }
 *
 *     struct dz_buf reply = DZ_BUF_INIT(sizeof n);
 *     const int fds[] = {r.db_fd, r.wal_fd};
 *     dz_cell_call(&(struct dz_call_opts){.what = "count the files of a.doze", .run = count,
 *                  .arg = &r, .fds = fds, .fd_count = 2, .timeout_ms = 5000}, &reply, err);
 *
 * The function sees the host's memory as it was at the fork: a pointer argument is all it takes.
 * What it changes in memory stays with it. It finds its descriptors by dz_call_fd().
 *
 * A process that keeps secrets must not fork into a jail. The daemon makes only calls that have an
 * `id`: their argument is arg_size bytes without pointers, and the root zygote of its pool
 * (cell_pool.h) exec's a process for each, in which nothing of the daemon ever was.
 *
 * Larger data goes in messages: the function sends one to `receive`, or asks `answer` a question.
 * Both sides wait for one another: a slow host slows the function down, and nothing is queued
 * without bound. Check everything that a cell returns as if a guest had made it.
 *
 * A host with a handler for SIGCHLD, or threads that fork, has nothing to mind;
 * the child dies when the *thread* that called dies.
 */
#ifndef DZ_CELL_CELL_CALL_H
#define DZ_CELL_CELL_CALL_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DZ_CALL_FDS_MAX = 64,
    DZ_CALL_DATA_MAX = 32768,     /* bytes of one message */
    DZ_CALL_STOP_GRACE_MS = 5000, /* time for a function to end after it was asked to stop */
    DZ_CALL_END_MS = 1000,        /* time for a cell to exit after it sent its result */
};

/* A message. Its data is valid until the next message on the same side. */
struct dz_call_msg {
    uint32_t tag;
    uint64_t value;
    const void *data;
    size_t size;
};

struct dz_call; /* the side of the call in which the function runs */

/* The functions that the daemon calls in a process that the root zygote starts. */
enum dz_call_id {
    DZ_CALL_FORK, /* any other function, in a fork of this process */
    DZ_CALL_CHECKPOINT,
    DZ_CALL_TRANSFER,
    DZ_CALL_EXPAND,
    DZ_CALL_COUNT,
};
/* A function that runs in the cell. Its result (>= 0, or DZ_E* with *err) is the result of the
 * call. */
typedef int dz_call_fn(struct dz_call *call, void *arg, struct dz_err *err);

/* The functions and their arguments are in cell_disk.c; run is NULL for DZ_CALL_FORK. */
struct dz_call_function {
    dz_call_fn *run;
    size_t arg_size, fd_count;
    bool (*sound)(const void *arg); /* checks an argument that came from another process; NULL: any
                                       bytes are valid */
};
extern const struct dz_call_function dz_call_functions[DZ_CALL_COUNT];

struct dz_call_opts {
    const char *what; /* begins the message when the cell fails: "look into a.doze" */
    dz_call_fn *run;
    void *arg;          /* the argument of run */
    enum dz_call_id id; /* the function's id if the root zygote is to start a process for it; 0:
                           fork this process */
    size_t arg_size;    /* bytes of arg, when there is an id */
    const int *fds;     /* the descriptors that run may use; entries of -1 are skipped */
    size_t fd_count;
    int64_t timeout_ms;    /* for the whole call; 0: no limit */
    uint64_t memory_bytes; /* memory limit of the cell; 0: DZ_CELL_MEMORY */
    uint64_t file_bytes;   /* the largest file that it may write; 0: DZ_CELL_FILE_SIZE */
    /* A file in memory among fds, and its size limit in bytes. The size is checked twenty times a
     * second, and a cell that exceeds the limit is killed (DZ_ELIMIT). 0: no limit. */
    uint64_t watched_bytes;
    int watched_fd;

    /* Called with each message that run sends; a negative result ends the call with that error.
     * NULL: run sends no messages. */
    int (*receive)(void *host, const struct dz_call_msg *msg, struct dz_err *err);
    /* Answers a question of run; the data of *ret_answer must stay valid until the next question.
     */
    int (*answer)(void *host, const struct dz_call_msg *question, struct dz_call_msg *ret_answer,
                  struct dz_err *err);
    /* Called at each message, after each signal and four times a second; true ends the call. NULL:
     * the call is never ended early. */
    bool (*stop)(void *host);
    void *host;
};

#define DZ_CELL_MEMORY    (3ull << 30)
#define DZ_CELL_FILE_SIZE (16ull << 30)

/* Run the function and wait for it. reply (may be NULL) is filled, up to its limit. Errors besides
 * those of run: DZ_EIO: the cell died or sent an invalid frame (err names the signal); DZ_ETIMEOUT;
 * DZ_ELIMIT: the reply does not fit; DZ_ECANCELED: run was stopped before it had a result;
 * DZ_ENOMEM; DZ_EUNSUPPORTED: this kernel cannot jail the cell. The child is gone in every case. */
DZ_NODISCARD int dz_cell_call(const struct dz_call_opts *opts, struct dz_buf *reply,
                              struct dz_err *err);

/* Call this before the process holds secrets: from then on it forks no calls itself. */
void dz_cell_call_never_fork(void);

/* --- inside ------------------------------------------------------------------- */

/* Descriptor number `index` of opts.fds; -1 where the caller passed -1. */
int dz_call_fd(const struct dz_call *call, size_t index);
/* Send a message; waits until the host can take it. DZ_EIO: the host has gone. */
int dz_call_send(struct dz_call *call, const struct dz_call_msg *msg);
/* Send any number of bytes as messages of one tag, with value 0. */
int dz_call_write(struct dz_call *call, uint32_t tag, const void *data, size_t size);
/* Ask the host and wait for its answer. DZ_ECANCELED: the host wants the call to end. */
DZ_NODISCARD int dz_call_ask(struct dz_call *call, const struct dz_call_msg *question,
                             struct dz_call_msg *ret_answer, struct dz_err *err);
/* Append bytes to the reply. Returns 0. */
int dz_call_reply(struct dz_call *call, const void *data, size_t size, struct dz_err *err);
/* Has the host asked the call to end? This is cheap, so ask often. */
bool dz_call_stopped(const struct dz_call *call);

#endif

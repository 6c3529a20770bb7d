/* SPDX-License-Identifier: MIT
 *
 * cell_call.h - run one function of ours in a jailed process.
 *
 * Whatever reads bytes that somebody hostile may have written (a database, a
 * module, an archive) runs like this: the host opens the files, forks, and the
 * child enters the jail of os/os_jail.h before the function is called. It has the
 * descriptors named here and a socket to the host, and nothing else: it can
 * neither open nor start anything, and dies if it tries.
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
 * `id`: their argument is arg_size bytes without pointers, and the seed of its pool (cell_pool.h)
 * exec's a process for each, in which nothing of the daemon ever was.
 *
 * Larger things go by messages. The function says something (`take` gets it) or
 * asks something (`answer` answers). Both sides wait for one another: a slow host
 * slows the function down, and nothing is queued without bound. What comes out of
 * a cell must be looked at as if a guest had made it.
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
    DZ_CALL_STOP_GRACE_MS = 5000, /* for a function that was asked to stop */
    DZ_CALL_END_MS = 1000,        /* for a cell to end after it has said that it is done */
};

/* One message. data is valid until the next message on that side. */
struct dz_call_msg {
    uint32_t tag;
    uint64_t value;
    const void *data;
    size_t size;
};

struct dz_call; /* the function's end */

/* The functions that the daemon calls. */
enum dz_call_id {
    DZ_CALL_FORK, /* any other */
    DZ_CALL_CHECKPOINT,
    DZ_CALL_CARRY,
    DZ_CALL_EXPAND,
    DZ_CALL_COUNT,
};
/* Runs in the cell. Its result (>= 0, or DZ_E* and *err) is that of the call. */
typedef int dz_call_fn(struct dz_call *call, void *arg, struct dz_err *err);

/* What each of them takes. cell_disk.c; run is NULL for DZ_CALL_FORK. */
struct dz_call_function {
    dz_call_fn *run;
    size_t arg_size, fd_count;
    bool (*sound)(const void *arg); /* may run have these bytes, at any address? NULL: all */
};
extern const struct dz_call_function dz_call_functions[DZ_CALL_COUNT];

struct dz_call_opts {
    const char *what; /* "look into a.doze": begins the sentence when the cell fails */
    dz_call_fn *run;
    void *arg;          /* run's */
    enum dz_call_id id; /* of run, for a process that the seed exec's; 0: fork this process */
    size_t arg_size;    /* of arg, when there is an id */
    const int *fds;     /* all that run may use; -1 are skipped */
    size_t fd_count;
    int64_t timeout_ms;    /* of the whole call; 0: none */
    uint64_t memory_bytes; /* of the cell; 0: DZ_CELL_MEMORY */
    uint64_t file_bytes;   /* that a file may have; 0: DZ_CELL_FILE_SIZE */
    /* One of fds that is in the host's memory: the cell is killed (DZ_ELIMIT) when it takes more
     * than so many bytes, as is seen twenty times a second. 0: none. */
    uint64_t watched_bytes;
    int watched_fd;

    /* What run says. An error ends the call with it. NULL: run has nothing to say. */
    int (*take)(void *host, const struct dz_call_msg *msg, struct dz_err *err);
    /* What run asks; *ret_answer's data lives until the next question. */
    int (*answer)(void *host, const struct dz_call_msg *question, struct dz_call_msg *ret_answer,
                  struct dz_err *err);
    /* Asked at each message, after each signal and four times a second: true stops the
     * call. NULL: never. */
    bool (*stop)(void *host);
    void *host;
};

#define DZ_CELL_MEMORY    (3ull << 30)
#define DZ_CELL_FILE_SIZE (16ull << 30)

/* Run it; blocks. reply (NULL: none is expected) is filled up to its ceiling.
 * Errors, besides those of run: DZ_EIO the cell died, or sent nonsense (err says by
 * which signal); DZ_ETIMEOUT; DZ_ELIMIT the reply is larger than its buffer;
 * DZ_ECANCELED run was stopped and did not say what became of it; DZ_ENOMEM;
 * DZ_EUNSUPPORTED this kernel cannot jail. In each case the child is gone. */
DZ_NODISCARD int dz_cell_call(const struct dz_call_opts *opts, struct dz_buf *reply,
                              struct dz_err *err);

/* From now on this process forks no call: it is about to learn secrets. */
void dz_cell_call_never_fork(void);

/* --- inside ------------------------------------------------------------------- */

/* The index-th descriptor of opts.fds; -1 where that was -1. */
int dz_call_fd(const struct dz_call *call, size_t index);
/* Say it; waits until the host can take it. DZ_EIO: the host is gone. */
int dz_call_say(struct dz_call *call, const struct dz_call_msg *msg);
/* The same of any number of bytes, in pieces of one tag, value 0. */
int dz_call_write(struct dz_call *call, uint32_t tag, const void *data, size_t size);
/* Ask, and wait for the answer. DZ_ECANCELED: the host wants an end of it. */
DZ_NODISCARD int dz_call_ask(struct dz_call *call, const struct dz_call_msg *question,
                             struct dz_call_msg *ret_answer, struct dz_err *err);
/* More bytes of the reply. 0. */
int dz_call_reply(struct dz_call *call, const void *data, size_t size, struct dz_err *err);
/* Has the host asked for an end? Cheap: look often. */
bool dz_call_stopped(const struct dz_call *call);

#endif

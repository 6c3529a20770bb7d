/* SPDX-License-Identifier: MIT
 *
 * sandbox_int.h - shared inside src/sandbox only.
 *
 *   dz_sandboxes --- id --- dz_sandbox --- op: the operation in progress, or NULL
 *                             |             `-- waiters that share its outcome
 *                             |------- waiting: queued requests
 *                             `------- cell, execs, file_ops, copies
 *
 * An object is freed only by its turn, and an operation only by its end; both are tasks. So no
 * function finds that its caller's object or operation was freed under it. Answers are tasks of the
 * same owner, too: they run in the order in which they were posted, and before the end of the
 * operation whose row they show.
 *
 * Invariants (dz_sandbox_assert(), called at each turn of an object and after each event of its
 * cell):
 *   1. It has a cell exactly in the phases other than NONE.
 *   2. Its operation points back to it. Only an operation that has ordered a start or stop waits
 *      for one, and a queued start was ordered by an operation and has no cell.
 *   3. A sandbox in up_pending is up and not warm. A warm one has a cell, or an operation that will
 *      find out that the cell is gone.
 *   4. Its file is shared (lent), or used by its own file-only cell (reserved), only while it is
 *      reserved (taken).
 *   5. waiting_count is the length of the queue, which has a limit.
 */
#ifndef DZ_SANDBOX_SANDBOX_INT_H
#define DZ_SANDBOX_SANDBOX_INT_H

#include "base/buf.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "runtime/runtime_exec.h"
#include "runtime/runtime_op.h"
#include "sandbox/sandbox.h"
#include "sandbox/sandbox_acquire.h"
#include "sandbox/sandbox_config.h"
#include "sandbox/sandbox_exec.h"
#include "sandbox/sandbox_file.h"

#include <stdatomic.h>

struct dz_sandboxes {
    struct dz_sandboxes_opts opts;
    struct dz_loop *loop; /* shortcuts to members of opts: */
    struct dz_registry *registry;
    char *live_path, *host_name;
    size_t ops;                     /* operations in progress */
    struct dz_map waiters;          /* ticket -> struct waiter */
    struct dz_sandboxes_look *look; /* in progress, or NULL */
    bool collecting;                /* dz_sandboxes_collect is in progress */
    uint64_t next_ticket;
    size_t background;     /* operations in progress that the clock started */
    struct dz_map shares;  /* tenant -> struct share */
    struct dz_timer *tick; /* for due times by CLOCK_BOOTTIME */
    struct dz_timer *wall; /* fires when the wall clock was set beyond the next due time */
    int64_t tick_at;       /* dz_sandboxes_now() at which both fire; INT64_MAX: they are stopped */
    struct {               /* sandbox_clock.c */
        int64_t offset;    /* dz_sandboxes_now() minus CLOCK_BOOTTIME */
        int64_t skew;   /* dz_sandboxes_now() minus the wall clock when the clock was last saved */
        int64_t before; /* the skew that the previous daemon saved */
        int64_t saved_at; /* dz_sandboxes_now() when the clock was last saved */
    } clock;
    bool ticking, blocking;
    bool clock_on;         /* recovery is complete */
    bool unwritten_deaths; /* some rows may say active though their cells died: the tick writes them
                            */
    char deaths_after[DZ_COLD_KEY]; /* last id that this pass checked; "": no pass is running */
    struct {
        bool begun;
        unsigned pass;           /* pass over the rows: 0 the unfinished ones, 1 the active ones */
        char after[DZ_COLD_KEY]; /* last id recovered in this pass */
        int rc;                  /* code of the first failure; 0: none */
        struct dz_err err;
    } recovery;
    struct dz_map map; /* id -> struct dz_sandbox */
    struct dz_sandbox_counts counts;
    uint64_t cells_born;
    uint64_t config_reads;    /* rows whose config was parsed; tests read it */
    struct dz_list exiting;   /* struct exiting_cell: suspended cells that have not exited yet */
    struct dz_list lone;      /* struct dz_lone: cells for files of no sandbox */
    struct {                  /* sandbox_start.c */
        struct dz_map lines;  /* tenant -> struct start_line */
        struct dz_list turns; /* the same lines in the order of their turns */
        struct dz_list begun; /* cells that are starting, by sandbox.start_link, the oldest first */
        size_t machines, files; /* how many of those are machines, and file-only */
        size_t queued;          /* number of sandboxes queued in all lines */
        struct dz_timer *timer;
        bool timer_soon; /* the timer is set to fire at once */
    } starts;
    struct { /* sandbox_acquire.c: FILES acquires */
        struct dz_list waiting;
        struct dz_timer *room; /* retries the waiting ones, because there may be room now */
        bool room_set;
        uint64_t acquires; /* acquires ever made; numbers them */
        int64_t wait_ms;   /* longest wait of one acquire, for room and sandbox */
    } files;
    struct {                         /* sandbox_net.c */
        struct dz_map conns;         /* ticket -> struct conn */
        struct dz_list deliveries;   /* whose sandbox is being woken */
        uint64_t last;               /* ticket */
        struct dz_net_traffic ended; /* bytes of all connections that are over */
        int epoll;                   /* the connections of sleeping sandboxes; -1: not made yet */
        struct dz_poll *poll;
        struct dz_timer *retry;
    } net;
    struct dz_list up_pending; /* sandboxes that are up and whose row does not say so yet, */
    struct dz_timer *up_timer; /* writes those rows, after the clients have been answered */
    bool up_timer_set;
    bool draining;
    struct dz_timer *drain_timer;
    void (*drained)(void *arg, size_t left);
    void *drained_arg;
};

/* The operations in progress that the clock started for one tenant. Exists while there are any. */
struct share {
    size_t count;    /* operations in progress */
    int64_t skip_at; /* due time of the last row postponed because the tenant had its share */
    char tenant[];
};

struct waiter {
    struct dz_list link; /* in sandbox.waiting, op.waiters or op.answers */
    struct dz_sandboxes *all;
    struct dz_sandbox *sandbox;
    struct op *op; /* the operation whose outcome it shares, or NULL */
    bool answered; /* result is set and task is posted: it cannot be canceled any more */
    struct dz_sandbox_reply result;
    struct dz_instance row; /* the row for the result, if op is NULL */
    struct dz_loop_task task;
    uint64_t ticket;
    enum dz_request what;
    bool background; /* requested by the clock, not by a client */
    bool keep_memory, keep_given;
    bool may_resume; /* SUSPEND: as in the request */
    int64_t deadline_ms;
    struct dz_timer *deadline;
    char *clone_id, *clone_tenant, *clone_name, *clone_owner;
    struct dz_blobs *share_store;
    char *share_key;
    void (*done)(void *arg, const struct dz_sandbox_reply *result);
    void *arg;
};

enum op_phase {
    OP_FORWARD,
    OP_UNDO,   /* undoing: the files first, then the row */
    OP_OVER,   /* ended: its task waits for the last answers, then frees it */
    OP_PARKED, /* a step after the commit, or of the undo, failed: it is retried later */
};

struct op {
    struct dz_sandboxes *all;
    struct dz_sandbox *sandbox;
    enum dz_op kind;
    const enum dz_step *step;
    enum op_phase phase;
    bool undoing;           /* PARKED: resume with OP_UNDO, not with OP_FORWARD */
    struct dz_instance row; /* the row as it is now */
    struct dz_list waiters;
    struct dz_list answers;  /* waiters whose answer is pending */
    struct dz_loop_task end; /* posted at its end */
    int64_t began_ns;

    struct dz_cold cold;              /* that of the options, with `progress` */
    struct dz_blob_progress progress; /* workers write it; total 0: nothing is copied */
    _Atomic bool cancel;              /* workers poll it */
    int cancel_code;                  /* DZ_ECANCELED or DZ_ETIMEOUT */
    struct dz_timer *timer;           /* its deadline; in PARKED the next try */
    /* CHECKPOINT: next try while the last cell still has the file; or NULL */
    struct dz_timer *again;
    int64_t again_ms;    /* present delay of the timer `again` */
    int64_t again_until; /* time (dz_clock_mono_ms()) at which `again` gives up */
    int64_t backoff_ms;
    struct share *background; /* the tenant's share, if the clock started it; NULL: a client did */
    bool anew;                /* explicit wake or revival: the sandbox's timeout begins anew */
    bool mounts;              /* the sandbox has volumes */
    bool stale;               /* the row was changed by others: read it again before the commit */
    bool committed;
    bool recovered;   /* an earlier process began it */
    bool left_behind; /* DROP or the undo could not remove objects of a store that is far */
    bool unwritten;   /* a wake whose beginning is not in the row, because most wakes end before it
                         would be */
    int64_t late_ms;  /* the operation's deadline; the timer is set to it when unwritten ends */
    bool unsynced;    /* the row must be flushed before the next step */
    bool flushing;    /* a worker is flushing the row */
    bool written;     /* the COMMIT step is done except for the flush */

    bool keep_memory;
    bool only_files; /* ARCHIVE: drop machine, memory and records */
    bool cell_asked, cell_dead;
    bool have_live, memory_lost;
    int64_t wake_at;
    bool busy;       /* the stopped guest was runnable, */
    bool may_resume; /* and may be woken again at once */
    enum dz_rung rung;
    struct dz_cold_copy copy;
    unsigned drop; /* DZ_COLD_BIT of the files that DROP or the undo removes */
    char *clone_id, *clone_tenant;
    struct dz_sandbox *target; /* CLONE: the new sandbox, for which all requests wait */
    struct dz_blobs *share_store;
    char *share_key;

    int (*work)(struct op *op, struct dz_err *err); /* runs on a worker */
    int work_rc; /* result of the work, or of the start or stop of the cell */
    struct dz_err work_err;
    int rc; /* result of the operation */
    struct dz_err err;
};

/* The outcome of the start or stop of a cell. */
struct cell_end {
    int code;          /* 0 or DZ_E* */
    const char *error; /* the error message, if code < 0 */
    bool alive;        /* the stop failed and the cell still runs */
    bool memory_lost;  /* started from its files only, though its memory had been kept */
    int64_t wake_at;   /* stop: the guest's earliest deadline; 0: none */
    bool busy;         /* stop: the guest was runnable */
};

/* A cell that has reported SUSPENDED and has not exited yet. */
struct exiting_cell {
    struct dz_list link;
    struct dz_sandboxes *all;
    const struct dz_cell_ops *ops;
    struct dz_cell *cell;
    struct dz_poll *poll;
    int polled; /* the descriptor that poll watches */
    struct dz_timer *late;
    void *image;
};

struct exec {
    struct dz_list link; /* in sandbox.execs */
    struct dz_sandbox *sandbox;
    char id[DZ_CELL_ID_MAX + 1];
    uint32_t handle; /* handle in the present cell; 0: none */
    bool tty, starting, input_end;
    bool main;   /* the sandbox is destroyed when it exits */
    bool asleep; /* its handle was passed with the start, and the machine has not restored it yet */
    bool doomed; /* kill it as soon as a machine runs it */
    bool attached, again; /* the cell sends output; it was asked to send some of it again */
    uint64_t next;        /* offset after the last piece received */
    uint64_t acked;       /* output acknowledged to the cell, up to this offset */
    size_t input_window;  /* input window of the cell, as of the last suspend */
    struct dz_list watches;
    struct dz_buf input;     /* not sent to the cell yet */
    size_t held;             /* bytes of it that dz_account_hold() counts */
    struct dz_list sendings; /* struct sending: senders answered when little input is left */
    struct dz_list given;    /* struct sending delivered early, before the wake was complete */
    int64_t began_ms, pid;
};

/* The arguments of dz_exec_start, kept until the machine is up. */
struct launch {
    struct dz_sandboxes *all;
    size_t held; /* bytes of input that dz_account_hold() counts */
    char tenant[DZ_SANDBOX_TENANT_MAX + 1];
    const char *shell_argv[4];
    const char **argv;
    const char *cwd, *user, *tag;
    char *env_json;
    struct dz_str input;
    bool keep_input, tty, trace, background, main, unlimited;
    uint16_t rows, cols;
    int64_t timeout_ms;
    char id[DZ_CELL_ID_MAX + 1];
    char text[];
};

struct dz_exec_watch {
    struct dz_list link;        /* in exec.watches, or unlinked */
    struct exec *exec;          /* NULL while the sandbox is acquired */
    struct dz_acquire *acquire; /* the wake in progress, or NULL */
    struct dz_loop_task over;   /* reports the end: why if failed, else exit and text */
    bool failed;
    struct dz_why why;
    char *text; /* owned; NULL: "" */
    const struct dz_exec_watch_ops *ops;
    void *arg;
    uint64_t at, acked;    /* offsets of output: next to report, acknowledged */
    bool started_reported; /* started() was called */
    bool began;            /* the command was started for this watch */
    bool connected;        /* counts as a connection to the sandbox */
    bool silent;           /* never counts as one: the daemon itself follows the command */
    char id[DZ_CELL_ID_MAX + 1];
    struct launch *launch; /* the command to start, until it is started */
    /* Replay of a command that has ended: */
    struct dz_sandboxes *all;
    char sandbox_id[DZ_COLD_KEY];
    struct dz_file_op *op; /* in progress, or NULL */
    bool recorded, lost;
    struct dz_exec_exit exit;
};

struct dz_file_op {
    struct dz_list link; /* in sandbox.file_ops or sandbox.parked */
    struct dz_sandboxes *all;
    struct dz_sandbox *sandbox; /* NULL: it has not reached a cell */
    struct dz_lone *lone;       /* its own cell, of a file of no sandbox; or NULL */
    struct dz_acquire *acquire; /* the acquire in progress, or NULL */
    struct dz_loop_task over;   /* the task that calls done() with the following */
    bool failed;
    struct dz_why why;
    uint64_t count;
    struct dz_cell_op op; /* its strings point to copies in the field texts */
    char *texts[3];
    uint32_t handle; /* 0: the cell does not have it */
    unsigned tries;
    int64_t began_us;
    struct dz_timer *limit; /* deadline while the cell is not up yet; or NULL */
    bool writes;
    bool ended;
    bool moved;  /* bytes have moved either way: it cannot start again */
    bool parked; /* in sandbox.parked: a file watch of a sandbox without a cell */
    bool cut;    /* canceled in the cell, because other requests wait for the file */
    const struct dz_file_op_ops *ops;
    void *arg;
};

/* --- sandbox_line.c ---------------------------------------------------------------------- */
void dz_waiters_free(struct dz_sandboxes *all);
/* Post the answer of w: result, with the row of its operation if it has one, else w->row. */
void dz_sandbox_answer(struct waiter *w, const struct dz_sandbox_reply *result);
/* Start the next queued requests: now, which only a task may do; or soon, in a task. */
void dz_sandbox_turn(struct dz_sandbox *s);
void dz_sandbox_turn_soon(struct dz_sandbox *s);
/* dz_sandbox_register() for a row that may name an operation in progress. */
int dz_sandbox_enter(struct dz_sandboxes *all, const struct dz_instance *row, struct dz_err *err);
/* The sandbox's cell ended without being asked to. why: the message for the column error; NULL: the
 * cell suspended the machine itself. */
void dz_sandbox_cell_died(struct dz_sandbox *s, const char *why);
/* Submit a request of the clock. True: it was accepted. */
bool dz_sandbox_background(struct dz_sandboxes *all, const struct dz_sandbox_request *r);

/* A cell died and the registry could not record it: the clock tries again. */
void dz_sandboxes_death_unwritten(struct dz_sandboxes *all);

/* --- sandbox_op.c ------------------------------------------------------------------------ */
/* Start an operation for a waiter; the sandbox has none. Takes over row. On failure the caller
 * still owns the waiter. */
int dz_sandbox_op_begin(struct dz_sandbox *s, enum dz_op kind, struct waiter *w,
                        struct dz_instance *row, struct dz_err *err);
/* Cancel the operation if its step allows that; DZ_ETIMEOUT and DZ_EGONE also kill a cell that is
 * starting or stopping. */
void dz_sandbox_op_call_off(struct op *op, int code);
void dz_sandbox_op_free(struct op *op);
/* Are volumes mounted in the machine of the sandbox whose row this is? */
bool dz_sandbox_has_volumes(struct dz_sandbox *s, const struct dz_instance *row);
/* Finish or undo the operation that an earlier process left in the row. Takes over row. */
int dz_sandbox_op_resume(struct dz_sandboxes *all, struct dz_instance *row, struct dz_err *err);

/* The start or stop of the cell that the operation waits for has ended; ignored if it waits for
 * none. Called from the loop. */
void dz_sandbox_cell_done(struct dz_sandbox *s, const struct cell_end *how);

/* --- sandbox_record.c -------------------------------------------------------------------- */
struct row_change { /* borrowed, like struct dz_registry_change */
    uint64_t set;   /* DZ_COLUMN(x) of `to`; if due is absent, it is computed where it can change */
    const struct dz_instance *to;
    bool durable;
    const char *event, *detail; /* NULL: no event */
};
struct row_write {
    const char *id;
    const struct dz_record *rec; /* the record of that row. If not known, only its version and epoch
                                    are set, and the change contains due */
    const struct dz_instance *row; /* the row before the change; NULL: it was not read, which is
                                      fine if neither the state nor a PARSED column changes */
    const struct row_change *change;
    const struct op *by;         /* the operation that makes the change; NULL: none */
    struct dz_instance *ret_row; /* NULL: not wanted */
};
/* The only function that changes rows; dz_sandbox_enter() and dz_sandbox_erase() create and erase
 * them. DZ_EBUSY: the row has another version by now. Marks the row of an operation of others as
 * stale. */
int dz_record_write(struct dz_sandboxes *all, const struct row_write *w, struct dz_err *err);
/* The same for a row that the caller has read. */
int dz_record_write_row(struct dz_sandboxes *all, const struct dz_instance *row,
                        const struct row_change *change, struct dz_instance *ret_row,
                        struct dz_err *err);
/* The same for an operation and its row. Reads the row again and retries if others have changed
 * it. */
int dz_sandbox_op_change(struct op *op, const struct row_change *change, struct dz_err *err);
/* Read the operation's row again. With mine: DZ_EBUSY unless epoch, operation and state are still
 * ours. */
int dz_sandbox_op_reload(struct op *op, bool mine, struct dz_err *err);
int dz_record_read(struct dz_sandboxes *all, const struct dz_instance *row,
                   struct dz_record *ret_rec, struct dz_err *err);
/* The record of this row: that of s if it has this version, else parsed, and kept in s (NULL: no
 * object). */
int dz_record_of(struct dz_sandboxes *all, struct dz_sandbox *s, const struct dz_instance *row,
                 struct dz_record *ret_rec, struct dz_err *err);
/* The config of the sandbox whose row this is, parsed once for each change of it. Borrowed until
 * the next change of the row. */
int dz_record_config(struct dz_sandbox *s, const struct dz_instance *row,
                     const struct dz_sandbox_config **ret_config, struct dz_err *err);
/* The facts for dz_lifecycle_due(). s NULL: from the record alone. */
struct dz_facts dz_record_facts(const struct dz_sandboxes *all, const struct dz_record *rec,
                                const struct dz_sandbox *s);
/* the value of the column due; 0: never */
int64_t dz_record_due(const struct dz_sandboxes *all, const struct dz_facts *facts);

/* --- sandbox_commit.c -------------------------------------------------------------------- */
int dz_sandbox_op_commit(struct op *op, struct dz_err *err); /* step COMMIT */
/* remove the operation from the row */
int dz_sandbox_op_finalize(struct op *op, bool failed, struct dz_err *err);
int dz_sandbox_erase(struct dz_sandboxes *all, const struct dz_instance *row, struct dz_err *err);
/* Mark an active row without a cell as suspended, because its cell died. Updates *row. */
int dz_sandbox_write_crash(struct dz_sandboxes *all, struct dz_instance *row, struct dz_err *err);

/* --- sandbox_clock.c --------------------------------------------------------------------- */
void dz_sandboxes_clock_begin(struct dz_sandboxes *all);

/* Count one more operation of the clock for this tenant. NULL: out of memory. */
struct share *dz_share_enter(struct dz_sandboxes *all, const char *tenant);
void dz_share_leave(struct dz_sandboxes *all, struct share *share); /* NULL is fine */
/* Does CPU time of the guest count as activity? */
bool dz_sandbox_op_counts_cpu(const struct op *op);
void dz_sandboxes_arm(struct dz_sandboxes *all); /* set the timers to the earliest due row */
void dz_sandboxes_on_tick(void *all);
/* Recompute the due time of a row that was changed beside an operation, or postponed. */
void dz_sandbox_recompute_due(struct dz_sandboxes *all, const char *id);

/* --- sandbox_cell.c: cells --------------------------------------------------------------- */

/* Initialize the cell's part of a new object. DZ_ENOMEM. */
int dz_sandbox_init_cell(struct dz_sandbox *s);
/* Start a cell on its file: a machine if `go`, else a file-only cell. */
int dz_sandbox_start_cell(struct dz_sandbox *s, const struct dz_instance *row, bool go,
                          struct dz_err *err);
void dz_sandbox_stop_cell(struct dz_sandbox *s, bool keep_memory); /* order the cell to suspend */
/* Kill its cell, if it has one. It is gone when this returns, and no operation is notified of its
 * end. */
void dz_sandbox_cell_kill(struct dz_sandbox *s);
void dz_sandbox_promote(struct dz_sandbox *s);  /* wake the machine in its file-only cell */
void dz_sandbox_drop_all(struct dz_sandbox *s); /* free the cell, its queued start and its copies */
void dz_exiting_cells_free(struct dz_sandboxes *all);
/* Poll another descriptor if the cell has changed it. */
void dz_sandbox_poll_again(struct dz_sandboxes *all, struct dz_poll **poll, int *polled, int fd,
                           void (*fn)(void *arg, int events), void *arg);

/* --- sandbox_lone.c ---------------------------------------------------------------------- */

/* Start a cell and send it the operation, whose handle is set. */
int dz_lone_start(struct dz_sandboxes *all, const struct dz_lone_opts *opts, struct dz_file_op *op,
                  struct dz_lone **ret_lone, struct dz_err *err);
struct dz_cell *dz_lone_cell(const struct dz_lone *l, const struct dz_cell_ops **ret_ops);
void dz_lone_watch(struct dz_lone *l);  /* after each call of the cell */
void dz_lone_cancel(struct dz_lone *l); /* frees it, at the latest when its turn ends */
/* Fail all of them: the daemon is stopping. */
void dz_lones_end(struct dz_sandboxes *all);
/* sandbox_file.c: the operation's cell has ended. */
void dz_file_op_lone_over(struct dz_file_op *op, const struct dz_why *why, uint64_t count);

/* --- sandbox.c --------------------------------------------------------------------------- */

/* Find or make the object; NULL: out of memory. If nothing uses a new object, its first turn frees
 * it. tenant NULL: the row was not read. */
struct dz_sandbox *dz_sandbox_get(struct dz_sandboxes *all, const char *id, const char *tenant);
/* Set the tenant, once the row was read. */
void dz_sandbox_of_tenant(struct dz_sandbox *s, const char *tenant);
/* For its operation: start a cell with its machine, or stop it. It ends in dz_sandbox_cell_done. */
int dz_sandbox_cell_start(struct dz_sandbox *s, const struct dz_instance *row, bool keep_memory,
                          struct dz_err *err);
bool dz_sandbox_cell_stop(struct dz_sandbox *s, bool keep_memory); /* false: there is none */
/* the row was erased: end what still uses the object */
void dz_sandbox_erased(struct dz_sandboxes *all, const struct dz_instance *row);
void dz_sandbox_assert(const struct dz_sandbox *s); /* check the invariants above */
/* Free the object if nothing needs it. Only its turn calls this. */
void dz_sandbox_end(struct dz_sandbox *s);
/* call when a cell or an operation has ended */
void dz_sandboxes_drain_check(struct dz_sandboxes *all);

/* --- sandbox_start.c: the queue of sandboxes that wait for a cell ------------------------ */

int dz_starts_init(struct dz_sandboxes *all, struct dz_err *err);
void dz_starts_drain(struct dz_sandboxes *all); /* fail the queued starts soon */
void dz_starts_release(struct dz_sandboxes *all);
/* May one more cell start now: a machine, or a file-only one? */
bool dz_start_may(const struct dz_sandboxes *all, bool machine);
void dz_start_begun(struct dz_sandbox *s, bool machine);
void dz_start_over(struct dz_sandbox *s); /* its cell is up or has failed; may be called any time */
/* dz_sandbox_start_turn(s) is called when its turn has come. */
bool dz_start_unqueue(struct dz_sandbox *s); /* true: it was queued */

/* --- sandbox_acquire.c ------------------------------------------------------------------- */

/* Fill why: a request for the sandbox's files has waited too long. Returns DZ_EBUSY. */
int dz_files_late(const struct dz_sandboxes *all, const char *id, struct dz_why *why);
int dz_files_init(struct dz_sandboxes *all, struct dz_err *err);
void dz_files_release(struct dz_sandboxes *all);
/* Does an acquire of this tenant wait for room to open a file? */
bool dz_files_awaited(const struct dz_sandboxes *all, const char *tenant);
/* Let the acquires that wait for its machine send to the cell before the wake is complete. Returns
 * how many did. */
size_t dz_acquires_early(struct dz_sandbox *s);
/* Note activity, before acquiring a machine. A sleeping sandbox needs no note, because its wake
 * counts as activity. */
void dz_sandbox_use_noted(struct dz_sandboxes *all, const char *id, enum dz_activity what);
/* A request wants a sandbox that has a file-only cell: end the cell, or let it become the
 * machine's. */
void dz_sandbox_yield_file(struct dz_sandboxes *all, const char *id, enum dz_request what);

/* sandbox_launch.c. NULL: out of memory */
struct launch *dz_launch_make(const struct dz_exec_request *x);

/* --- sandbox_exec.c ---------------------------------------------------------------------- */

/* Handle an event about a command. */
void dz_exec_event(struct dz_sandbox *s, const struct dz_cell_event *event);
void dz_exec_room(struct dz_sandbox *s); /* the cell's socket has room again */
void dz_exec_up(struct dz_sandbox *s);   /* the cell has reported all commands of its machine */
/* List at most `most` commands that sleep in the machine to be started; dz_exec_named() then gives
 * them their handles. */
size_t dz_exec_sleepers(struct dz_sandbox *s, struct dz_cell_sleeper *ret, size_t most);
void dz_exec_named(struct dz_sandbox *s);
/* before its suspended cell is let go: keep the input windows */
void dz_exec_asleep(struct dz_sandbox *s);
void dz_exec_lost(struct dz_sandbox *s); /* the memory was lost: the commands in it have failed */
/* archived: end the watches of commands that sleep in it */
void dz_exec_archived(struct dz_sandbox *s);
/* its row says active: count the watches as connections */
void dz_exec_connected(struct dz_sandbox *s);
/* The cell is gone. code 0: it was suspended and watches stay; else they fail with this code. */
void dz_exec_down(struct dz_sandbox *s, int code, const char *reason, const char *text);

/* --- sandbox_net.c ----------------------------------------------------------------------- */

DZ_NODISCARD int dz_nets_init(struct dz_sandboxes *all, struct dz_err *err);
void dz_nets_release(struct dz_sandboxes *all);
void dz_net_init(struct dz_sandbox *s);
void dz_net_free(struct dz_sandbox *s);
bool dz_net_needs(const struct dz_sandbox *s);
/* Handle an event of the cell. False: no intact cell sends it. */
bool dz_net_event(struct dz_sandbox *s, const struct dz_cell_event *event);
/* Are there connections that the next cell gets? */
bool dz_net_kept(const struct dz_sandbox *s);
void dz_net_resume(struct dz_sandbox *s); /* the machine starts: pass them */
/* its row says active: count its connections */
void dz_net_active(struct dz_sandbox *s);
void dz_net_asleep(struct dz_sandbox *s); /* suspended with its memory: keep and watch them */
void dz_net_awake(struct dz_sandbox *s);  /* the suspend failed, and the machine continues */
void dz_net_lost(struct dz_sandbox *s);   /* the memory is lost, and they are over */
/* they are over, and deliveries fail */
void dz_net_down(struct dz_sandbox *s, int code, const char *reason, const char *text);

/* --- sandbox_file.c ---------------------------------------------------------------------- */

void dz_file_op_event(struct dz_sandbox *s, const struct dz_cell_event *event);
void dz_file_op_room(struct dz_sandbox *s); /* the cell's socket has room again */
/* the cell is gone: park, restart or fail its operations */
void dz_file_op_down(struct dz_sandbox *s, int code, const char *text);
/* Start the parked file watches in the sandbox's new cell. */
void dz_file_op_resume(struct dz_sandbox *s);
/* The sandbox was deleted: end its parked file watches. */
void dz_file_op_gone(struct dz_sandbox *s);
/* Is there a file operation other than a watch? A watch never ends by itself: it blocks nothing,
 * and continues in the next cell. */
bool dz_file_op_busy(const struct dz_sandbox *s);
/* cancel the file watches, with all also the other operations */
void dz_file_op_cut(struct dz_sandbox *s, bool all);
/* Start an operation in the present cell, or in the next one. The loop calls done. */
int dz_file_op_on(struct dz_sandboxes *all, const char *id,
                  const struct dz_file_op_request *request, struct dz_file_op **ret_op,
                  struct dz_why *why);

#endif

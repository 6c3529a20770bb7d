/* SPDX-License-Identifier: MIT
 *
 * sandbox_int.h - shared inside src/sandbox only.
 *
 *   dz_sandboxes --- id --- dz_sandbox --- op: the operation under way, or NULL
 *                             |             `-- waiters that share its outcome
 *                             |------- waiting: requests whose turn comes later
 *                             `------- cell, execs, file_ops, copies
 *
 * Only its turn, a task, ends an object, and only an operation's task ends that: whoever is on the
 * stack finds both where they were. Answers are tasks, too, of the same owner: they come in the
 * order in which they were given, before the end of the operation whose row they show.
 *
 * Invariants (dz_sandbox_assert(), at each turn of an object and after each event of its
 * cell):
 *   1. It has a cell in each phase but NONE, and none in that.
 *   2. Its operation is its own; only an operation that has asked the cell is told of a start or a
 *      stop, and who waits in the queue of starts was asked to, and has no cell.
 *   3. One that is up and whose row does not say so yet (up_pending) is not warm. A warm one has a
 * cell, or an operation that is to find out that it has none any more.
 *   4. Its file is lent only while it is taken, and its own file-only cell has it only then.
 *   5. waiting_count is the length of the line, which has an end.
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
    struct dz_loop *loop; /* the same as in opts, as is: */
    struct dz_registry *registry;
    char *live_path, *host_name;
    size_t ops;                     /* operations under way */
    struct dz_map waiters;          /* ticket -> waiter */
    struct dz_sandboxes_look *look; /* under way, or NULL */
    uint64_t next_ticket;
    size_t background;     /* operations that the clock started */
    struct dz_map shares;  /* tenant -> share */
    struct dz_timer *tick; /* of CLOCK_BOOTTIME */
    struct dz_timer *wall; /* comes when the wall's clock was set beyond what is due */
    int64_t tick_at;       /* dz_sandboxes_now() when they come; INT64_MAX: they are not set */
    struct {               /* sandbox_clock.c */
        int64_t offset;    /* dz_sandboxes_now() minus CLOCK_BOOTTIME */
        int64_t skew;      /* dz_sandboxes_now() minus the wall's clock, when it was saved last */
        int64_t before;    /* the same of the daemon before this one */
        int64_t saved_at;  /* dz_sandboxes_now() then */
    } clock;
    bool ticking, blocking;
    bool clock_on;         /* recovery is over */
    bool unwritten_deaths; /* rows may say active though their cells died: the tick writes them */
    char deaths_after[DZ_COLD_KEY]; /* the id that it has come to; "": it is not at it */
    struct {
        bool begun;
        unsigned pass;           /* over the rows: those unfinished, then those awake */
        char after[DZ_COLD_KEY]; /* the id that it has come to in this pass */
        int rc;                  /* the first failure, 0: none */
        struct dz_err err;
    } recovery;
    struct dz_map map; /* id -> struct dz_sandbox */
    struct dz_sandbox_counts counts;
    uint64_t cells_born;
    uint64_t config_reads;      /* rows whose config was read: of interest to tests */
    struct dz_list exiting;     /* cells that sleep durably and are on their way out */
    struct {                    /* sandbox_start.c */
        struct dz_map lines;    /* tenant -> struct start_line */
        struct dz_list turns;   /* of the same lines: the next one first */
        struct dz_list begun;   /* sandbox.start_link, the oldest first */
        size_t machines, files; /* of them */
        size_t queued;          /* sandboxes in all lines */
        struct dz_timer *timer;
        bool timer_soon; /* it is set to run at once */
    } starts;
    struct { /* sandbox_acquire.c: those that wait for room to open a file */
        struct dz_list waiting;
        struct dz_timer *room; /* there may be some now */
        bool room_set;
        uint64_t acquires; /* that ever were */
        int64_t wait_ms;   /* how long one may wait for room and sandbox */
    } files;
    struct dz_list up_pending; /* sandboxes that are up: */
    struct dz_timer *up_timer; /* when those who wait for their guests have been answered */
    bool up_timer_set;
    bool draining;
    struct dz_timer *drain_timer;
    void (*drained)(void *arg, size_t left);
    void *drained_arg;
};

/* What the clock does for one tenant; it exists while an operation counts in it. */
struct share {
    size_t count;    /* operations under way */
    int64_t skip_at; /* the due time of the last row that was put off for want of a share */
    char tenant[];
};

struct waiter {
    struct dz_list link; /* in sandbox.waiting, op.waiters or op.told */
    struct dz_sandboxes *all;
    struct dz_sandbox *sandbox;
    struct op *op; /* that it shares, or NULL */
    bool answered; /* result is known, and task is posted: it cannot leave any more */
    struct dz_sandbox_reply result;
    struct dz_instance row; /* for the result, where there is no op */
    struct dz_loop_task task;
    uint64_t ticket;
    enum dz_request what;
    bool background; /* the clock asks, not a client */
    bool keep_memory, keep_given;
    bool may_resume; /* SUSPEND: as of the request */
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
    OP_UNDO,   /* taking back: files first, then the row */
    OP_OVER,   /* its task answers the last waiters, and frees it */
    OP_PARKED, /* after its commit (or in the undo) a step failed; tried again later */
};

struct op {
    struct dz_sandboxes *all;
    struct dz_sandbox *sandbox;
    enum dz_op kind;
    const enum dz_step *step;
    enum op_phase phase;
    bool undoing;           /* what PARKED goes back to */
    struct dz_instance row; /* as it is now */
    struct dz_list waiters;
    struct dz_list answers;  /* waiters whose answer is pending */
    struct dz_loop_task end; /* posted when it is over */
    int64_t began_ns;

    _Atomic bool cancel;    /* seen by workers */
    int cancel_code;        /* DZ_ECANCELED or DZ_ETIMEOUT */
    struct dz_timer *timer; /* its deadline; later the next try */
    struct dz_timer *again; /* SETTLE: the next look at a file that is not free yet; or NULL */
    int64_t again_ms;       /* until then */
    int64_t again_until;    /* dz_clock_mono_ms(): not later than that */
    int64_t backoff_ms;
    struct share *background; /* the clock started it; of its tenant; NULL: a client did */
    bool anew;                /* an explicit wake: the timeout begins anew */
    bool stale;               /* the row was changed from outside: read it before the commit */
    bool committed;
    bool unwritten;  /* a wake that is over soon, most of them: the row does not tell of it */
    int64_t late_ms; /* then: until its deadline, when it is written after all */
    bool unsynced;   /* its row is to be on the disk before the next step */
    bool flushing;   /* a worker sees to that */
    bool written;    /* the COMMIT step is done but for that */

    bool keep_memory;
    bool only_files; /* ARCHIVE: without machine, memory and records */
    bool cell_asked, cell_dead;
    bool have_live, memory_lost;
    int64_t wake_at;
    bool busy;       /* the guest that was stopped has something to compute, */
    bool may_resume; /* for which it may be woken at once */
    enum dz_rung rung;
    struct dz_cold_copy copy;
    unsigned drop; /* files of the DROP step or of the undo */
    char *clone_id, *clone_tenant;
    struct dz_sandbox *target; /* of a clone, reserved */
    struct dz_blobs *share_store;
    char *share_key;

    int (*work)(struct op *op, struct dz_err *err); /* on the worker */
    int work_rc;                                    /* of the work, or of the call to the cell */
    struct dz_err work_err;
    int rc; /* of the operation */
    struct dz_err err;
};

/* What a start or a stop of a cell came to. */
struct cell_end {
    int code;          /* 0 or DZ_E* */
    const char *error; /* the sentence, for code < 0 */
    bool alive;        /* after a stop that failed: the cell still runs */
    bool memory_lost;  /* started from files only, though memory was kept */
    int64_t wake_at;   /* of a stop: the guest's earliest deadline, 0: none */
    bool busy;         /* of a stop: it has something to compute, too */
};

/* A cell that sleeps durably and is still on its way out. */
struct exiting_cell {
    struct dz_list link;
    struct dz_sandboxes *all;
    const struct dz_cell_ops *ops;
    struct dz_cell *cell;
    struct dz_poll *poll;
    int polled; /* the cell's descriptor in it */
    struct dz_timer *late;
    void *image;
};

struct exec {
    struct dz_list link; /* in sandbox.execs */
    struct dz_sandbox *sandbox;
    char id[DZ_CELL_ID_MAX + 1];
    uint32_t handle; /* in the present cell; 0: none */
    bool tty, starting, input_end;
    bool main;            /* its end is that of the sandbox */
    bool asleep;          /* the handle was given with the start, and it has not woken yet */
    bool doomed;          /* it is killed as soon as a machine has it */
    bool attached, again; /* the cell sends output; it was asked to send some again */
    uint64_t next;        /* offset behind the last piece that came */
    uint64_t acked;       /* up to which the cell knows that output was taken */
    size_t input_window;  /* bytes of input, when its machine was put to sleep */
    struct dz_list watches;
    struct dz_buf input;     /* not yet given to the cell */
    size_t held;             /* of it: dz_account_hold() counts them */
    struct dz_list sendings; /* who is answered once little of it is left */
    struct dz_list given;    /* whose words were given to it before its wake was over */
    int64_t began_ms, pid;
};

struct dz_exec_watch {
    struct dz_list link;        /* in exec.watches, or alone */
    struct exec *exec;          /* NULL while it waits for its sandbox */
    struct dz_acquire *acquire; /* that brings the sandbox up, or NULL */
    struct dz_loop_task over;   /* it is told its end: failed, and why; or exit, with text */
    bool failed;
    struct dz_why why;
    char *text; /* owned; NULL: "" */
    const struct dz_exec_watch_ops *ops;
    void *arg;
    uint64_t at, acked;    /* offsets: told next, acknowledged */
    bool started_reported; /* started() was called */
    bool began;            /* the command: it was started for this watch */
    bool connected;        /* it counts as a connection to an awake sandbox */
    char id[DZ_CELL_ID_MAX + 1];
    struct launch *launch; /* what is to be started, until it is */
    /* Listening to one that has ended: */
    struct dz_sandboxes *all;
    char sandbox_id[DZ_COLD_KEY];
    struct dz_file_op *op; /* under way, or NULL */
    bool recorded, lost;
    struct dz_exec_exit exit;
};

struct dz_file_op {
    struct dz_list link; /* in sandbox.file_ops */
    struct dz_sandboxes *all;
    struct dz_sandbox *sandbox; /* NULL: it is in none */
    struct dz_acquire *acquire; /* that brings the sandbox's file into a cell, or NULL */
    struct dz_loop_task over;   /* done is told: */
    bool failed;
    struct dz_why why;
    uint64_t count;
    struct dz_cell_op op; /* its texts are owned */
    char *texts[3];
    uint32_t handle; /* 0: not yet given to the cell */
    unsigned tries;
    int64_t began_us;
    struct dz_timer *limit; /* of the wait for a cell that is not up yet; or NULL */
    bool writes;
    bool ended;
    bool moved;  /* bytes went one way or the other: it cannot begin again */
    bool parked; /* in sandbox.parked: a watch of files, and the sandbox has no cell */
    bool cut;    /* the cell was told to end it, because others wait for the file */
    const struct dz_file_op_ops *ops;
    void *arg;
};

/* sandbox_line.c */
void dz_waiters_free(struct dz_sandboxes *all);
/* Tell w soon, with the row of its operation; without one with w->row. */
void dz_sandbox_answer(struct waiter *w, const struct dz_sandbox_reply *result);
/* Something is over: whose turn is it? Now, from a task; or soon. */
void dz_sandbox_turn(struct dz_sandbox *s);
void dz_sandbox_turn_soon(struct dz_sandbox *s);
/* dz_sandbox_register, of a row that may have an operation under way. */
int dz_sandbox_enter(struct dz_sandboxes *all, const struct dz_instance *row, struct dz_err *err);
/* Its cell ended, and nobody had asked it to. why: the sentence for the row's error; NULL: it put
 * itself to sleep. */
void dz_sandbox_cell_died(struct dz_sandbox *s, const char *why);
/* A request of the clock. True: it was taken. */
bool dz_sandbox_background(struct dz_sandboxes *all, const struct dz_sandbox_request *r);

/* sandbox_due.c: a cell died, and the registry could not be written: tried again. */
void dz_sandboxes_death_unwritten(struct dz_sandboxes *all);

/* sandbox_op.c */
/* Start an operation for a waiter whose sandbox has none. Takes row over. On failure
 * the waiter is the caller's still. */
int dz_sandbox_op_begin(struct dz_sandbox *s, enum dz_op kind, struct waiter *w,
                        struct dz_instance *row, struct dz_err *err);
/* Cancel, if the step lets it; DZ_ETIMEOUT and DZ_EGONE end a cell that starts or stops. */
void dz_sandbox_op_call_off(struct op *op, int code);
void dz_sandbox_op_free(struct op *op);
/* Go on with what an earlier process began. */
int dz_sandbox_op_resume(struct dz_sandboxes *all, struct dz_instance *row, struct dz_err *err);

/* sandbox_step.c: do the current step. 0: done; 1: it goes on elsewhere and ends in
 * dz_sandbox_op_done; negative: failed. */
/* Remove op->drop's files. The same results. */
/* The cell that the operation asked to start or to stop, if it did: that is over. From the loop. */
void dz_sandbox_cell_done(struct dz_sandbox *s, const struct cell_end *how);

/* sandbox_record.c */
struct row_change { /* borrowed, as of struct dz_registry_change */
    uint64_t set;   /* DZ_COLUMN(x) of `to`; without due it is computed, if that is to be */
    const struct dz_instance *to;
    bool durable;
    const char *event, *detail; /* NULL: none */
};
struct row_write {
    const char *id;
    const struct dz_record *rec;   /* of the row that is to be changed. Not known: nothing but its
                                    * version and epoch, and the change says when it is due */
    const struct dz_instance *row; /* that row; NULL: it was not read, and neither state nor what
                                    * stands in its JSON is changed */
    const struct row_change *change;
    const struct op *by;         /* the sandbox's operation, if it makes the change */
    struct dz_instance *ret_row; /* NULL: not wanted */
};
/* The only function that changes rows, but for who enters and erases them. DZ_EBUSY: the row has
 * another version by now. An operation of somebody else is told that its row is stale. */
int dz_record_write(struct dz_sandboxes *all, const struct row_write *w, struct dz_err *err);
/* The same, of a row that was read. */
int dz_record_write_row(struct dz_sandboxes *all, const struct dz_instance *row,
                        const struct row_change *change, struct dz_instance *ret_row,
                        struct dz_err *err);
/* By an operation, of its row, which is read again where another has changed it meanwhile. */
int dz_sandbox_op_change(struct op *op, const struct row_change *change, struct dz_err *err);
/* Read the row again. With mine: DZ_EBUSY unless it is still ours, as it was. */
int dz_sandbox_op_reload(struct op *op, bool mine, struct dz_err *err);
int dz_record_read(struct dz_sandboxes *all, const struct dz_instance *row,
                   struct dz_record *ret_rec, struct dz_err *err);
/* The sandbox's, if it is of this version of the row; else the row's, which s (NULL: none)
 * keeps then. */
int dz_record_of(struct dz_sandboxes *all, struct dz_sandbox *s, const struct dz_instance *row,
                 struct dz_record *ret_rec, struct dz_err *err);
/* s NULL: as the row alone says. */
struct dz_facts dz_record_facts(const struct dz_sandboxes *all, const struct dz_record *rec,
                                const struct dz_sandbox *s);
int64_t dz_record_due(const struct dz_sandboxes *all,
                      const struct dz_facts *facts); /* as rows have it: 0 for never */

/* sandbox_commit.c */
int dz_sandbox_op_commit(struct op *op, struct dz_err *err); /* the COMMIT step */
int dz_sandbox_op_finalize(struct op *op, bool failed,
                           struct dz_err *err); /* no operation any more */
int dz_sandbox_erase(struct dz_sandboxes *all, const struct dz_instance *row, struct dz_err *err);
/* A row that says active, and no cell runs it: it sleeps. *row is read again. */
int dz_sandbox_write_crash(struct dz_sandboxes *all, struct dz_instance *row, struct dz_err *err);

/* sandbox_clock.c */
void dz_sandboxes_clock_begin(struct dz_sandboxes *all);

/* sandbox_due.c */
/* One more operation of the clock for this tenant; NULL: out of memory. */
struct share *dz_share_enter(struct dz_sandboxes *all, const char *tenant);
void dz_share_leave(struct dz_sandboxes *all, struct share *share); /* NULL is fine */
/* Does the guest's own work count as activity? */
bool dz_sandbox_op_counts_cpu(const struct op *op);
void dz_sandboxes_arm(struct dz_sandboxes *all); /* set the timer to the earliest due row */
void dz_sandboxes_on_tick(void *all);
/* Changes were made beside an operation, or it was put off: when is it due now? */
void dz_sandbox_recompute_due(struct dz_sandboxes *all, const char *id);

/* --- sandbox_cell.c: cells ------------------------------------------------------------------- */

/* The parts of a new object that are a cell's. DZ_ENOMEM. */
int dz_sandbox_init_cell(struct dz_sandbox *s);
/* Start a cell on its file; without go it is file-only. */
int dz_sandbox_start_cell(struct dz_sandbox *s, const struct dz_instance *row, bool go,
                          struct dz_err *err);
void dz_sandbox_stop_cell(struct dz_sandbox *s, bool keep_memory); /* the cell suspends itself */
/* Its cell is gone when this returns, and nobody is told of a start or stop. None is fine. */
void dz_sandbox_cell_kill(struct dz_sandbox *s);
void dz_sandbox_promote(struct dz_sandbox *s);  /* file-only: wake its machine */
void dz_sandbox_drop_all(struct dz_sandbox *s); /* the cell, and what waits for one */
void dz_exiting_cells_free(struct dz_sandboxes *all);

/* --- sandbox.c ------------------------------------------------------------------------------- */

/* Found or made; NULL: out of memory. One that comes to nothing goes by itself. tenant: NULL, if
 * the row was not read. */
struct dz_sandbox *dz_sandbox_get(struct dz_sandboxes *all, const char *id, const char *tenant);
/* Its row was read: whose it is. */
void dz_sandbox_of_tenant(struct dz_sandbox *s, const char *tenant);
/* For its operation: start a cell with its machine, or stop it. It ends in dz_sandbox_cell_done. */
int dz_sandbox_cell_start(struct dz_sandbox *s, const struct dz_instance *row, bool keep_memory,
                          struct dz_err *err);
bool dz_sandbox_cell_stop(struct dz_sandbox *s, bool keep_memory); /* false: there is none */
void dz_sandbox_erased(struct dz_sandboxes *all, const struct dz_instance *row); /* its row is */
void dz_sandbox_assert(const struct dz_sandbox *s); /* the invariants above */
/* Free it, if nothing needs it. Only its turn does that. */
void dz_sandbox_end(struct dz_sandbox *s);
void dz_sandboxes_drain_check(struct dz_sandboxes *all); /* something is over */

/* --- sandbox_start.c: the queue of sandboxes that wait for a cell ------------------------------
 */

int dz_starts_init(struct dz_sandboxes *all, struct dz_err *err);
void dz_starts_drain(struct dz_sandboxes *all); /* those that wait fail soon */
void dz_starts_release(struct dz_sandboxes *all);
/* May one more cell start now? machine: not only the file. */
bool dz_start_may(const struct dz_sandboxes *all, bool machine);
void dz_start_begun(struct dz_sandbox *s, bool machine);
void dz_start_over(struct dz_sandbox *s); /* up, or failed; any time */
/* dz_sandbox_start_turn(s) is called when its turn has come. */
bool dz_start_unqueue(struct dz_sandbox *s); /* true: it was in the queue */

/* --- sandbox_acquire.c ----------------------------------------------------------------------- */

/* DZ_EBUSY: a request for the sandbox's files has waited for its full time. */
int dz_files_late(const struct dz_sandboxes *all, const char *id, struct dz_why *why);
int dz_files_init(struct dz_sandboxes *all, struct dz_err *err);
void dz_files_release(struct dz_sandboxes *all);
/* Does one of this tenant wait for room to open a file? */
bool dz_files_awaited(const struct dz_sandboxes *all, const char *tenant);
/* Those that wait for its machine may tell its cell what they want. How many did. */
size_t dz_acquires_early(struct dz_sandbox *s);
/* A machine is acquired next. What that wakes is noted as used by the wake. */
void dz_sandbox_use_noted(struct dz_sandboxes *all, const char *id, enum dz_activity what);
/* Somebody else wants the sandbox: its file-only cell makes way, or becomes the machine's. */
void dz_sandbox_yield_file(struct dz_sandboxes *all, const char *id, enum dz_request what);

/* --- sandbox_exec.c -------------------------------------------------------------------------- */

/* An event of a command of the sandbox's cell. */
void dz_exec_event(struct dz_sandbox *s, const struct dz_cell_event *event);
void dz_exec_room(struct dz_sandbox *s); /* the cell's socket took all that waited */
void dz_exec_up(struct dz_sandbox *s);   /* all that lives in the machine has been told */
/* The commands that sleep in the machine to be started, at most `most`; and they have handles. */
size_t dz_exec_sleepers(struct dz_sandbox *s, struct dz_cell_sleeper *ret, size_t most);
void dz_exec_named(struct dz_sandbox *s);
void dz_exec_asleep(struct dz_sandbox *s);    /* its cell goes */
void dz_exec_lost(struct dz_sandbox *s);      /* all that slept in it is over */
void dz_exec_archived(struct dz_sandbox *s);  /* nobody is left to wait for what sleeps in it */
void dz_exec_connected(struct dz_sandbox *s); /* its row says that it is awake */
/* The cell is gone, or sleeps: watches stay (code 0) or are told this failure. */
void dz_exec_down(struct dz_sandbox *s, int code, const char *reason, const char *text);

/* --- sandbox_file.c -------------------------------------------------------------------------- */

void dz_file_op_event(struct dz_sandbox *s, const struct dz_cell_event *event);
void dz_file_op_room(struct dz_sandbox *s); /* the cell's socket took all that waited */
void dz_file_op_down(struct dz_sandbox *s, int code, const char *text); /* the cell is gone */
/* Begin the parked watches of files in the sandbox's new cell. */
void dz_file_op_resume(struct dz_sandbox *s);
/* The sandbox is deleted: end its parked watches. */
void dz_file_op_gone(struct dz_sandbox *s);
/* Has it an operation under way that is not a watch? A watch never ends by itself: it holds up
 * nothing, and goes on in the next cell. */
bool dz_file_op_busy(const struct dz_sandbox *s);
void dz_file_op_cut(struct dz_sandbox *s, bool all); /* end the watches; with all: the other ones */
/* In the cell that the sandbox has, or the next one. done is told from the loop. */
int dz_file_op_on(struct dz_sandboxes *all, const char *id,
                  const struct dz_file_op_request *request, struct dz_file_op **ret_op,
                  struct dz_why *why);

#endif

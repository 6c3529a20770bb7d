/* SPDX-License-Identifier: MIT
 *
 * keeper_int.h - shared inside src/keeper only.
 *
 *   keeper --- slots (by id) --- slot --- op: the operation under way, or NULL
 *                                  |        `-- waiters that share its outcome
 *                                  `------- waiting: requests whose turn comes later
 *
 * A slot exists while its sandbox has an operation, requests in line, a cell, or is reserved.
 * Only its task ends it, and only an operation's task ends that: whoever is on the stack finds
 * both where they were. Answers are tasks, too, of the same owner: they come in the order in which
 * they were given, before the end of the operation whose row they show.
 */
#ifndef DZ_KEEPER_KEEPER_INT_H
#define DZ_KEEPER_KEEPER_INT_H

#include "base/list.h"
#include "base/map.h"
#include "keeper/keeper.h"

#include <stdatomic.h>

/* What a row says about the clock, parsed. A copy of numbers: it owns nothing. */
struct record {
    bool known;               /* else the row is to be read */
    int64_t version, epoch;   /* of the row */
    int64_t created, expires; /* by the wall's clock */
    struct dz_facts facts;    /* without those two, the ladder, and what a slot knows besides */
    struct dz_ladder ladder;  /* its own */
    bool ignore_cpu;
    bool sleeper_stays; /* its guest's deadlines are no reason to put it down */
};

struct slot {
    struct dz_keeper *k;
    struct op *op;
    struct dz_list waiting;
    size_t waiting_count;
    struct dz_loop_task turn; /* starts the next requests in line; frees a slot that is idle */
    bool given_back;          /* it was reserved: its turn looks when its row is due */
    bool reserved;       /* somebody else has its file, or it is cloned into: all requests wait */
    bool lent;           /* reserved by a request FILES: others of that kind may share */
    bool warm;           /* a cell runs it */
    struct dz_facts now; /* of a warm one: last_active, connections, last_byte, last_closed,
                          * sleeps_until; and its mode */
    int64_t due;         /* as its row says, while warm */
    struct record rec;   /* read when it is wanted, and kept right by each write: keeper_record.c */
    bool skipped;        /* the row was due while reserved, and was put off */
    char *died_of;       /* what its cell died of, until that is in the row; or NULL */
    char id[];
};

/* What the clock does for one tenant; it exists while an operation counts in it. */
struct share {
    size_t count;    /* operations under way */
    int64_t skip_at; /* the due time of the last row that was put off for want of a share */
    char tenant[];
};

struct waiter {
    struct dz_list link; /* in slot.waiting, op.waiters or op.told */
    struct dz_keeper *k;
    struct slot *slot;
    struct op *op; /* that it shares, or NULL */
    bool answered; /* result is known, and task is posted: it cannot leave any more */
    struct dz_keeper_result result;
    struct dz_instance row; /* for the result, where there is no op */
    struct dz_loop_task task;
    uint64_t ticket;
    enum dz_request what;
    bool background; /* the clock asks, not a client */
    bool keep_memory, keep_given;
    bool goes_on; /* SUSPEND: as of the request */
    int64_t deadline_ms;
    struct dz_timer *deadline;
    char *clone_id, *clone_tenant, *clone_name, *clone_owner;
    struct dz_blobs *share_store;
    char *share_key;
    void (*done)(void *arg, const struct dz_keeper_result *result);
    void *arg;
};

enum op_phase {
    OP_FORWARD,
    OP_UNDO,   /* taking back: files first, then the row */
    OP_OVER,   /* its task answers the last waiters, and frees it */
    OP_PARKED, /* after its commit (or in the undo) a step failed; tried again later */
};

struct op {
    struct dz_keeper *k;
    struct slot *slot;
    uint64_t ticket; /* of calls to the cell */
    enum dz_op kind;
    const enum dz_step *step;
    enum op_phase phase;
    bool undoing;           /* what PARKED goes back to */
    struct dz_instance row; /* as it is now */
    struct dz_list waiters;
    struct dz_list told;     /* waiters whose answer is on the way */
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
    bool cell_asked, cell_up, cell_dead;
    bool have_live, made, memory_lost;
    int64_t wake_at;
    bool busy;    /* the guest that was stopped has something to compute, */
    bool goes_on; /* for which it may be woken at once */
    enum dz_rung rung;
    struct dz_cold_copy copy;
    unsigned drop; /* files of the DROP step or of the undo */
    char *clone_id, *clone_tenant;
    struct slot *target; /* of a clone, reserved */
    struct dz_blobs *share_store;
    char *share_key;

    int (*work)(struct op *op, struct dz_err *err); /* on the worker */
    int work_rc;                                    /* of the work, or of the call to the cell */
    struct dz_err work_err;
    int rc; /* of the operation */
    struct dz_err err;
};

struct dz_keeper {
    struct dz_keeper_opts opts;
    char *live_path, *host;
    struct dz_map slots;         /* id -> slot */
    struct dz_map ops;           /* ticket -> op */
    struct dz_map waiters;       /* ticket -> waiter */
    struct dz_keeper_look *look; /* under way, or NULL */
    uint64_t next_ticket;
    size_t background;     /* operations that the clock started */
    struct dz_map shares;  /* tenant -> share */
    struct dz_timer *tick; /* of CLOCK_BOOTTIME */
    struct dz_timer *wall; /* comes when the wall's clock was set beyond what is due */
    int64_t tick_at;       /* dz_keeper_now() when they come; INT64_MAX: they are not set */
    struct {               /* keeper_clock.c */
        int64_t offset;    /* dz_keeper_now() minus CLOCK_BOOTTIME */
        int64_t skew;      /* dz_keeper_now() minus the wall's clock, when it was saved last */
        int64_t before;    /* the same of the daemon before this one */
        int64_t saved_at;  /* dz_keeper_now() then */
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
};

/* keeper.c */
/* Found or made; NULL: out of memory. One that comes to nothing goes by itself. */
struct slot *dz_keeper_slot(struct dz_keeper *k, const char *id);
/* Tell w soon, with the row of its operation; without one with w->row. */
void dz_keeper_answer(struct waiter *w, const struct dz_keeper_result *result);
/* Something is over: whose turn is it? Now, from a task; or soon. */
void dz_keeper_turn(struct slot *s);
void dz_keeper_turn_soon(struct slot *s);
/* dz_keeper_register, of a row that may have an operation under way. */
int dz_keeper_enter(struct dz_keeper *k, const struct dz_instance *row, struct dz_err *err);
/* A request of the clock. True: it was taken. */
bool dz_keeper_background(struct dz_keeper *k, const struct dz_keeper_request *r);

/* keeper_tick.c: a cell died, and the registry could not be written: tried again. */
void dz_keeper_death_unwritten(struct dz_keeper *k);

/* keeper_op.c */
/* Start an operation for a waiter whose slot has none. Takes row over. On failure
 * the waiter is the caller's still. */
int dz_keeper_begin(struct slot *s, enum dz_op kind, struct waiter *w, struct dz_instance *row,
                    struct dz_err *err);
void dz_keeper_done(struct op *op,
                    int rc); /* what the current step waited for ended: rc, op->err */
/* Cancel, if the step lets it; DZ_ETIMEOUT and DZ_EGONE end a cell that starts or stops. */
void dz_keeper_call_off(struct op *op, int code);
void dz_keeper_free_op(struct op *op);
/* Go on with what an earlier process began. */
int dz_keeper_resume(struct dz_keeper *k, struct dz_instance *row, struct dz_err *err);

/* keeper_step.c: do the current step. 0: done; 1: it goes on elsewhere and ends in
 * dz_keeper_done; negative: failed. */
int dz_keeper_step(struct op *op, struct dz_err *err);
/* Remove op->drop's files. The same results. */
int dz_keeper_drop(struct op *op, struct dz_err *err);
int dz_keeper_give_work(struct op *op, int (*work)(struct op *op, struct dz_err *err),
                        struct dz_err *err);
bool dz_keeper_step_applies(const struct op *op, enum dz_step step);

/* keeper_record.c */
struct row_change { /* borrowed, as of struct dz_registry_change */
    uint64_t set;   /* DZ_COLUMN(x) of `to`; without due it is computed, if that is to be */
    const struct dz_instance *to;
    bool durable;
    const char *event, *detail; /* NULL: none */
};
struct row_write {
    const char *id;
    const struct record *rec;      /* of the row that is to be changed. Not known: nothing but its
                                    * version and epoch, and the change says when it is due */
    const struct dz_instance *row; /* that row; NULL: it was not read, and neither state nor what
                                    * stands in its JSON is changed */
    const struct row_change *change;
    const struct op *by;         /* the slot's operation, if it makes the change */
    struct dz_instance *ret_row; /* NULL: not wanted */
};
/* The only function that changes rows, but for who enters and erases them. DZ_EBUSY: the row has
 * another version by now. An operation of somebody else is told that its row is stale. */
int dz_keeper_write(struct dz_keeper *k, const struct row_write *w, struct dz_err *err);
/* The same, of a row that was read. */
int dz_keeper_write_row(struct dz_keeper *k, const struct dz_instance *row,
                        const struct row_change *change, struct dz_instance *ret_row,
                        struct dz_err *err);
/* By an operation, of its row, which is read again where another has changed it meanwhile. */
int dz_keeper_change(struct op *op, const struct row_change *change, struct dz_err *err);
/* Read the row again. With mine: DZ_EBUSY unless it is still ours, as it was. */
int dz_keeper_reload(struct op *op, bool mine, struct dz_err *err);
int dz_keeper_record(const struct dz_keeper *k, const struct dz_instance *row,
                     struct record *ret_rec, struct dz_err *err);
/* The slot's, if it is of this version of the row; else the row's, which the slot (NULL: none)
 * keeps then. */
int dz_keeper_record_of(const struct dz_keeper *k, struct slot *s, const struct dz_instance *row,
                        struct record *ret_rec, struct dz_err *err);
/* s NULL: as the row alone says. */
struct dz_facts dz_keeper_facts_of(const struct dz_keeper *k, const struct record *rec,
                                   const struct slot *s);
int64_t dz_keeper_due(const struct dz_keeper *k,
                      const struct dz_facts *facts); /* as rows have it: 0 for never */

/* keeper_row.c */
int dz_keeper_commit(struct op *op, struct dz_err *err); /* the COMMIT step */
int dz_keeper_settle_row(struct op *op, bool failed,
                         struct dz_err *err); /* no operation any more */
int dz_keeper_erase(struct dz_keeper *k, const struct dz_instance *row, struct dz_err *err);
/* A row that says active, and no cell runs it: it sleeps. *row is read again. */
int dz_keeper_lay_down(struct dz_keeper *k, struct dz_instance *row, struct dz_err *err);

/* keeper_clock.c */
void dz_keeper_clock_begin(struct dz_keeper *k);
void dz_keeper_clock_look(struct dz_keeper *k); /* save it, if the wall's clock was set */

/* keeper_tick.c */
/* One more operation of the clock for this tenant; NULL: out of memory. */
struct share *dz_keeper_share_enter(struct dz_keeper *k, const char *tenant);
void dz_keeper_share_leave(struct dz_keeper *k, struct share *share); /* NULL is fine */
/* Does the guest's own work count as activity? */
bool dz_keeper_counts_cpu(const struct op *op);
void dz_keeper_arm(struct dz_keeper *k); /* set the timer to the earliest due row */
void dz_keeper_on_tick(void *k);
/* Changes were made beside an operation, or it was put off: when is it due now? */
void dz_keeper_look_again(struct dz_keeper *k, const char *id);

#endif

/* SPDX-License-Identifier: MIT
 *
 * keeper.h - keeps sandboxes: carries out what the lifecycle says, on a registry,
 * on files, and on cells.
 *
 * For each sandbox one operation runs at a time. It is a row of steps
 * (lifecycle_op.h); before each, the step's name is written to the sandbox's row,
 * so that dz_keeper_recover can finish or undo after a crash. Requests that meet
 * an operation join it, wait for their turn or are refused, as lifecycle's tables
 * say. Sandboxes that sleep cost nothing here: one timer waits for the earliest
 * moment at which any row is due.
 *
 * What the keeper cannot do itself, it asks of dz_keeper_ops: starting and stopping
 * cells, and all that must look inside a file.
 *
 * One thread, that of the loop. Registry, loop, stores and ops outlive the keeper.
 */
#ifndef DZ_KEEPER_KEEPER_H
#define DZ_KEEPER_KEEPER_H

#include "base/attr.h"
#include "base/err.h"
#include "blob/blob_cold.h"
#include "lifecycle/lifecycle_op.h"
#include "loop/loop.h"
#include "registry/registry.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    DZ_KEEPER_WAITING_MAX = 256,       /* requests in line for one sandbox */
    DZ_KEEPER_BACKGROUND_MAX = 32,     /* operations that the clock started, at once; */
    DZ_KEEPER_BACKGROUND_SHARE = 4,    /* of them, those of one tenant */
    DZ_KEEPER_BATCH = 32,              /* due rows that are looked at in one turn */
    DZ_KEEPER_SANDBOXES_MAX = 1 << 20, /* with something under way or a cell */
};
/* Of a request, by default; of an operation, unless who started it gives it longer. */
#define DZ_KEEPER_DEADLINE_MS ((int64_t)10 * 60 * 1000)

struct dz_keeper;

/* --- what others do ---------------------------------------------------------------- */

/* What is carried from one file to another, inside a file-only cell. */
enum dz_keeper_carry {
    DZ_KEEPER_COMPACT, /* the whole sandbox with its sleeping machine; no free pages */
    DZ_KEEPER_FILES,   /* files only: no machine, no memory pages, tmp empty; no free pages */
    DZ_KEEPER_CLONE,   /* the same for another tenant: workspace and memory volumes */
    DZ_KEEPER_SHARE,   /* public volumes only, and no byte that was deleted */
};

struct dz_keeper_carrying {
    enum dz_keeper_carry what;
    const struct dz_instance *row; /* of the source */
    const char *tenant;            /* whose the new file will be */
    struct dz_blob_in *from;       /* the source's file; its log is empty, nobody runs it */
    struct dz_blob_out *to;        /* committed by the keeper */
    const _Atomic bool *cancel;    /* set: DZ_ECANCELED, soon */
};

/* How a sandbox counts its idleness, besides the columns of its row. */
struct dz_keeper_idle {
    int64_t silence_ms; /* 0: DZ_IDLE_SILENCE_MS */
    bool ignore_cpu;    /* its guest's work is no activity */
    bool stays;         /* it is not put down because its guest only sleeps */
};

struct dz_keeper_clock {
    int64_t offset_ms; /* dz_keeper_now() minus CLOCK_BOOTTIME */
    int64_t skew_ms;   /* dz_keeper_now() minus the wall's clock */
    int64_t seen_ms;   /* dz_keeper_now() when this was saved */
    bool same_boot;    /* loaded: the machine has run since */
};

/* A cell that is to be started, or stopped. */
struct dz_keeper_start {
    uint64_t ticket;
    const struct dz_instance *row; /* borrowed, for the call */
    bool keep_memory;              /* else it sleeps, or begins, with its files alone */
};

struct dz_keeper_timing;
struct dz_keeper_ops {
    /* Start a cell on the sandbox's live file, or stop it. 0: it ends in one dz_keeper_cell_done
     * with this ticket, after the call has returned. Negative: it does not, for it could not even
     * begin; a stop finds no cell then. */
    int (*start)(void *arg, const struct dz_keeper_start *call, struct dz_err *err);
    int (*stop)(void *arg, const struct dz_keeper_start *call, struct dz_err *err);
    /* No cell runs this sandbox any more when it returns, whatever it was doing; a
     * ticket of it is not answered any more. None running is fine. */
    void (*kill)(void *arg, const char *id);

    /* A guest is to be woken, and somebody has reserved its sandbox: may he give it up.
     * NULL: nobody is asked. */
    void (*awaited)(void *arg, const char *id);

    /* What a row's config says of its idleness; as it comes it says nothing. NULL: no row
     * says anything. */
    void (*idle)(void *arg, const struct dz_instance *row, struct dz_keeper_idle *ret_idle);

    /* A sandbox's row was made (1) or has gone (-1). NULL: nothing. */
    void (*counted)(void *arg, const struct dz_instance *row, int by);

    /* A sandbox expired: its row says TERMINATED, and what follows is the owner's
     * business. NULL: nothing. */
    void (*expired)(void *arg, const char *id);

    /* An operation is over: how, and how long it took. NULL: nobody counts. */
    void (*timed)(void *arg, const struct dz_keeper_timing *timing);

    /* The last operation under way has ended (dz_keeper_busy is 0). NULL: nobody waits for that. */
    void (*quiet)(void *arg);
};

/* What is done with files: the keeper does not look inside them. */
struct dz_keeper_files {
    /* These block. They are called on workers, and by recovery on the loop's thread. */
    int (*make)(void *arg, const struct dz_instance *row, struct dz_blob_out *out,
                struct dz_err *err); /* an empty disk for it */
    /* One that was made ahead, of which only the name is missing; NULL: there is none. May be
     * NULL. */
    struct dz_blob_out *(*ready)(void *arg);
    /* Log into file, log gone. DZ_EBUSY: the last cell has not left the file yet; it is asked
     * again, for ten seconds. */
    int (*settle)(void *arg, const char *id, struct dz_err *err);
    int (*carry)(void *arg, const struct dz_keeper_carrying *c, struct dz_err *err);

    /* Does somebody make a sandbox of this id, whose row comes after its file? NULL: nobody. */
    bool (*claimed)(void *arg, const char *id);

    /* An operation that ends or saves this sandbox met DZ_ENOSPC, or its cell says so. True: there
     * is more room now, and its step is done again. NULL: there is no reserve. */
    bool (*make_room)(void *arg, const char *id);

    /* The keeper's clock, from one daemon to the next; see dz_keeper_now. load: false, there is
     * none. NULL: nothing is kept. */
    bool (*clock_load)(void *arg, struct dz_keeper_clock *ret_clock);
    void (*clock_save)(void *arg, const struct dz_keeper_clock *clock);
};

/* How a start or a stop ended. */
struct dz_keeper_cell {
    int code;          /* 0 or DZ_E* */
    const char *error; /* the sentence, for code < 0 */
    bool alive;        /* after a stop that failed: the cell still runs */
    bool memory_lost;  /* started from files only, though memory was kept */
    int64_t wake_at;   /* of a stop: the guest's earliest deadline, 0: none */
    bool busy;         /* of a stop: it has something to compute, too */
};
/* From the loop, never from within start, stop or kill. Its row is written when this returns, or a
 * worker is at it. */
void dz_keeper_cell_done(struct dz_keeper *k, uint64_t ticket, const struct dz_keeper_cell *how);
/* A cell ended by itself. why: the sentence for the row's error; NULL: it put itself to sleep. */
void dz_keeper_cell_died(struct dz_keeper *k, const char *id, const char *why);

/* --- the keeper ------------------------------------------------------------------ */

struct dz_keeper_opts {
    struct dz_loop *loop;
    struct dz_registry *registry;
    struct dz_cold cold;
    const struct dz_keeper_ops *ops;
    void *arg; /* of ops */
    const struct dz_keeper_files *files;
    void *files_arg;         /* of files */
    const char *live_path;   /* of the live directory: what rows say of their files */
    const char *host;        /* who we are, in rows; "" for one host */
    struct dz_ladder ladder; /* the server's; DZ_LADDER_INHERIT: the default */
};

DZ_NODISCARD int dz_keeper_new(const struct dz_keeper_opts *opts, struct dz_keeper **ret_keeper,
                               struct dz_err *err);
/* Nothing may be under way (dz_keeper_busy), unless the loop has forgotten it. */
void dz_keeper_free(struct dz_keeper *k);
/* The server's ladder from now on; a row's due time follows when it is next written. */
void dz_keeper_set_ladder(struct dz_keeper *k, const struct dz_ladder *ladder);
/* Operations under way. */
size_t dz_keeper_busy(const struct dz_keeper *k);

/* Before the first request: finish or undo what an earlier process began, put to
 * sleep what it ran, remove what writers left, and start the clock. Blocks. The
 * first error is returned; what it hindered is tried again next time. */
DZ_NODISCARD int dz_keeper_recover(struct dz_keeper *k, struct dz_err *err);
/* The same in pieces, for who has a loop to turn meanwhile: goes on until the monotonic clock
 * says until_ms, by one row at least. 1: call it again. */
DZ_NODISCARD int dz_keeper_recover_some(struct dz_keeper *k, int64_t until_ms, struct dz_err *err);

/* --- requests -------------------------------------------------------------------- */

/* Enter a sandbox: state created; `id`, `tenant` and what is known of it from *row,
 * defaults for the rest. Its file need not exist yet; if it lies in the live
 * directory, the first wake takes it. */
DZ_NODISCARD int dz_keeper_register(struct dz_keeper *k, const struct dz_instance *row,
                                    struct dz_err *err);

/* Where a woken sandbox's file came from. */
enum dz_rung {
    DZ_RUNG_WARM, /* it was awake */
    DZ_RUNG_LOCAL,
    DZ_RUNG_COLD,
    DZ_RUNG_FRESH,
};
const char *dz_rung_name(enum dz_rung r);

struct dz_keeper_timing {
    const char *id;        /* of the sandbox */
    const char *operation; /* as in rows: "activate", "suspend", "freeze" */
    enum dz_rung rung;     /* of activate */
    int code;              /* 0 or DZ_E* */
    int64_t us;            /* from its begin, time in line apart */
};

struct dz_keeper_result {
    int code; /* 0 or DZ_E* */
    struct dz_err err;
    const struct dz_instance *row; /* as it is now; NULL: there is none */
    enum dz_rung rung;             /* of USE, WAKE, REVIVE */
    bool memory_lost;
    /* Of FILES: the sandbox sleeps, and all other requests for it wait in line until
     * dz_keeper_unreserve. Or: it is so already, for an earlier FILES. Or neither: it is awake. */
    bool reserved, shared;
};

struct dz_keeper_request {
    enum dz_request what;
    const char *id;
    const char *keep;                /* SUSPEND: "memory", "files"; NULL: as its row says. ARCHIVE:
                                      * "files" drops machine, memory and records; NULL: as "memory",
                                      * but a running machine is put to sleep as its row says.
                                      * WAKE: "files" drops the memory, if this request begins
                                      * the wake; NULL: as "memory" */
    bool goes_on;                    /* SUSPEND: nobody wants it to sleep; a guest that has
                                      * something to compute is woken for that as soon as can be */
    int64_t deadline_ms;             /* of this request; 0: DZ_KEEPER_DEADLINE_MS */
    const struct dz_instance *clone; /* CLONE: id, tenant, name, owner of the new sandbox */
    struct dz_blobs *share_store;    /* SHARE: where the public file goes */
    const char *share_key;
    void (*done)(void *arg, const struct dz_keeper_result *result); /* exactly once */
    void *arg;
};
/* Ask. Negative: refused, done is not called. 0: the loop calls done with the outcome, never
 * before this returns. *ret_ticket (may be NULL) is for dz_keeper_cancel; 0 after a refusal. */
DZ_NODISCARD int dz_keeper_submit(struct dz_keeper *k, const struct dz_keeper_request *request,
                                  uint64_t *ret_ticket, struct dz_err *err);
/* The asker does not want it any more: done is called with DZ_ECANCELED soon, unless it is to be
 * called with an outcome already. An operation that nobody waits for is called off where that is
 * still possible. */
void dz_keeper_cancel(struct dz_keeper *k, uint64_t ticket);
/* The same, if it stands in line still. False: what it asked for is under way, or over. */
bool dz_keeper_leave_line(struct dz_keeper *k, uint64_t ticket);
/* Call off what is under way with this sandbox; whoever waits for it gets
 * DZ_ECANCELED. DZ_ESTATE: nothing is, or it cannot be called off any more. */
DZ_NODISCARD int dz_keeper_abort(struct dz_keeper *k, const char *id, struct dz_err *err);

/* The end of what a request FILES reserved. Those in line have their turn soon. */
void dz_keeper_unreserve(struct dz_keeper *k, const char *id);
/* How many requests wait for the end of what is under way? */
size_t dz_keeper_waiters(const struct dz_keeper *k, const char *id);
/* Does a request wait in line for this sandbox? */
bool dz_keeper_awaited(const struct dz_keeper *k, const char *id);

/* --- rows ------------------------------------------------------------------------ */

/* A change of a row that is no operation: of its name, its labels, how it counts idleness. fill
 * says what it is, by the row as it is now; it is asked again where somebody else was faster. When
 * the row is due follows from the change. */
struct dz_keeper_update {
    const char *id;
    /* to and *set as of struct dz_registry_change; what `to` points to stays until the next call
     * of fill, or the end of dz_keeper_update. A set of 0: nothing is to be changed. */
    int (*fill)(void *arg, const struct dz_instance *row, struct dz_instance *to, uint64_t *set,
                struct dz_err *err);
    void *arg;
    const char *event, *detail; /* NULL: none */
};
/* 0, an error of fill or of the registry. *ret_row (NULL: not wanted), the caller's to release, is
 * the row as it is then. */
DZ_NODISCARD int dz_keeper_update(struct dz_keeper *k, const struct dz_keeper_update *update,
                                  struct dz_instance *ret_row, struct dz_err *err);

/* --- the clock ------------------------------------------------------------------- */

/* The clock of all durations, and of the times in rows: ms since 1970 as the wall's clock had
 * them when the registry was first used, from then on by CLOCK_BOOTTIME. Setting the wall's clock
 * does not change it, nor does a restart of the daemon. Across a restart of the machine the wall's
 * clock says how much time has passed. */
int64_t dz_keeper_now(const struct dz_keeper *k);
/* A time of that clock as a date, and a date as a time of that clock; 0 stays 0. */
int64_t dz_keeper_date(const struct dz_keeper *k, int64_t at);
int64_t dz_keeper_steady(const struct dz_keeper *k, int64_t date);

/* Something was done with a sandbox; resets its idle clock if it counts. */
void dz_keeper_touch(struct dz_keeper *k, const char *id, enum dz_activity what);
/* All processes of its guest sleep until then (a date, ms); 0: they do not. */
void dz_keeper_guest_sleeps(struct dz_keeper *k, const char *id, int64_t until);
/* Keep it awake until then (a date, ms; 0: no longer). The time until then is what counts. */
DZ_NODISCARD int dz_keeper_hold(struct dz_keeper *k, const char *id, int64_t until,
                                struct dz_err *err);

/* So long it may be awake from now on, or (asleep) from its next wake (0: for ever). */
DZ_NODISCARD int dz_keeper_timeout(struct dz_keeper *k, const char *id, int64_t length_ms,
                                   enum dz_timeout_action action, struct dz_err *err);

/* --- files without rows, rows without files ------------------------------------------- */

struct dz_keeper_finding {
    const char *id;
    const char *what; /* "orphan", "missing", "stray", "unfinished", "state"; "busy" */
    const char *text; /* a sentence */
    bool repairable;
};
/* Compare the registry with the files; with repair, remove files that no row has, and
 * note at each row whose file is missing. Nothing may be under way. *ret_count:
 * findings that are left. */
DZ_NODISCARD int dz_keeper_check(struct dz_keeper *k, bool repair,
                                 void (*fn)(void *arg, const struct dz_keeper_finding *f),
                                 void *arg, uint64_t *ret_count, struct dz_err *err);

/* The same beside operations, changing nothing, a few files and rows in each turn of the loop; one
 * at a time (DZ_EBUSY). Not compared, and told as "busy": a sandbox with an operation under way.
 * That is no damage and does not count. The registry's own file is not checked: that takes long,
 * and nothing else could use it meanwhile. */
struct dz_keeper_look;
struct dz_keeper_look_opts {
    void (*fn)(void *arg, const struct dz_keeper_finding *f);
    /* Once, unless it is dropped before. left: findings without those that are busy */
    void (*done)(void *arg, uint64_t left, int rc, const struct dz_err *err);
    void *arg;
};
DZ_NODISCARD int dz_keeper_look(struct dz_keeper *k, const struct dz_keeper_look_opts *o,
                                struct dz_keeper_look **ret_look, struct dz_err *err);
void dz_keeper_look_drop(struct dz_keeper_look *l); /* NULL is fine */

#endif

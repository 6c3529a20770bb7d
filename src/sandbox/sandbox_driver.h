/* SPDX-License-Identifier: MIT
 *
 * sandbox_driver.h - what operations ask of cells, and how those answer.
 */
#ifndef DZ_SANDBOX_SANDBOX_DRIVER_H
#define DZ_SANDBOX_SANDBOX_DRIVER_H

#include "sandbox/sandbox_request.h"

/* How a sandbox counts its idleness, besides the columns of its row. */
struct dz_sandbox_idle {
    int64_t silence_ms; /* 0: DZ_IDLE_SILENCE_MS */
    bool ignore_cpu;    /* its guest's work is no activity */
    bool stays;         /* it is not put down because its guest only sleeps */
};

/* A cell that is to be started, or stopped. */
struct dz_sandbox_call {
    uint64_t ticket;
    const struct dz_instance *row; /* borrowed, for the call */
    bool keep_memory;              /* else it sleeps, or begins, with its files alone */
};

struct dz_sandbox_driver {
    /* Start a cell on the sandbox's live file, or stop it. 0: it ends in one dz_sandbox_cell_done
     * with this ticket, after the call has returned. Negative: it does not, for it could not even
     * begin; a stop finds no cell then. */
    int (*start)(void *arg, const struct dz_sandbox_call *call, struct dz_err *err);
    int (*stop)(void *arg, const struct dz_sandbox_call *call, struct dz_err *err);
    /* No cell runs this sandbox any more when it returns, whatever it was doing; a
     * ticket of it is not answered any more. None running is fine. */
    void (*kill)(void *arg, const char *id);

    /* A guest is to be woken, and somebody has reserved its sandbox: may he give it up.
     * NULL: nobody is asked. */
    void (*awaited)(void *arg, const char *id);

    /* What a row's config says of its idleness; as it comes it says nothing. NULL: no row
     * says anything. */
    void (*idle)(void *arg, const struct dz_instance *row, struct dz_sandbox_idle *ret_idle);

    /* A sandbox's row was made (1) or has gone (-1). NULL: nothing. */
    void (*counted)(void *arg, const struct dz_instance *row, int by);

    /* A sandbox expired: its row says TERMINATED, and what follows is the owner's
     * business. NULL: nothing. */
    void (*expired)(void *arg, const char *id);

    /* An operation is over: how, and how long it took. NULL: nobody counts. */
    void (*timed)(void *arg, const struct dz_sandbox_timing *timing);

    /* The last operation under way has ended (dz_sandboxes_busy is 0). NULL: nobody waits for that.
     */
    void (*quiet)(void *arg);
};

/* How a start or a stop ended. */
struct dz_sandbox_cell_end {
    int code;          /* 0 or DZ_E* */
    const char *error; /* the sentence, for code < 0 */
    bool alive;        /* after a stop that failed: the cell still runs */
    bool memory_lost;  /* started from files only, though memory was kept */
    int64_t wake_at;   /* of a stop: the guest's earliest deadline, 0: none */
    bool busy;         /* of a stop: it has something to compute, too */
};
/* From the loop, never from within start, stop or kill. Its row is written when this returns, or a
 * worker is at it. */
void dz_sandbox_cell_done(struct dz_sandboxes *all, uint64_t ticket,
                          const struct dz_sandbox_cell_end *how);
/* A cell ended by itself. why: the sentence for the row's error; NULL: it put itself to sleep. */
void dz_sandbox_cell_died(struct dz_sandboxes *all, const char *id, const char *why);

#endif

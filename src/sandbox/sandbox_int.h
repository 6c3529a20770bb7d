/* SPDX-License-Identifier: MIT
 *
 * sandbox_int.h - shared inside src/sandbox only.
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
#include "sandbox/sandbox_config.h"
#include "sandbox/sandbox_exec.h"
#include "sandbox/sandbox_file.h"
#include "sandbox/sandbox_job.h"

struct dz_sandboxes {
    struct dz_sandboxes_opts opts;
    struct dz_loop *loop; /* the same as in opts, as are: */
    struct dz_registry *registry;
    struct dz_keeper *keeper;
    struct dz_map map; /* id -> struct dz_sandbox */
    struct dz_sandbox_counts counts;
    uint64_t cells_born;
    struct dz_list leaving;      /* cells that sleep durably and are on their way out */
    struct dz_list uses_waiting; /* jobs that bring a machine up */
    struct {                     /* sandbox_start.c */
        struct dz_map lines;     /* tenant -> struct start_line */
        struct dz_list turns;    /* of the same lines: the next one first */
        struct dz_list begun;    /* sandbox.start_link, the oldest first */
        size_t machines, files;  /* of them */
        size_t queued;           /* sandboxes in all lines */
        struct dz_timer *timer;
        bool timer_soon; /* it is set to run at once */
    } starts;
    struct { /* sandbox_job.c: jobs that wait for room to open a file */
        struct dz_list waiting;
        struct dz_timer *room; /* there may be some now */
        bool room_set;
        uint64_t jobs;   /* that ever were */
        int64_t wait_ms; /* how long one may wait for room and sandbox */
    } files;
    struct dz_list untold; /* sandboxes that are up: */
    struct dz_timer *tell; /* when those who wait for their guests have been answered */
    bool tell_set;
    bool draining;
    struct dz_timer *drain_timer;
    void (*drained)(void *arg, size_t left);
    void *drained_arg;
};

/* A cell that sleeps durably and is still on its way out. */
struct leaving {
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
    uint64_t took;        /* up to which the cell knows that output was taken */
    size_t takes;         /* bytes of input, when its machine was put to sleep */
    struct dz_list watches;
    struct dz_buf input;     /* not yet given to the cell */
    size_t held;             /* of it: dz_account_hold() counts them */
    struct dz_list tellings; /* who is answered once little of it is left */
    struct dz_list given;    /* whose words were given to it before its wake was over */
    int64_t began_ms, pid;
};

struct dz_exec_watch {
    struct dz_list link;      /* in exec.watches, or alone */
    struct exec *exec;        /* NULL while it waits for its sandbox */
    struct dz_job *job;       /* that brings the sandbox up, or NULL */
    struct dz_loop_task over; /* it is told its end: failed, and why; or exit, with text */
    bool failed;
    struct dz_why why;
    char *text; /* owned; NULL: "" */
    const struct dz_exec_watch_ops *ops;
    void *arg;
    uint64_t at, took; /* offsets: told next, acknowledged */
    bool told;         /* started was told */
    bool began;        /* the command: it was started for this watch */
    bool connected;    /* the keeper knows of it, as a connection to an awake sandbox */
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
    struct dz_job *job;         /* that brings the sandbox's file into a cell, or NULL */
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

/* --- sandbox_cell.c: cells ------------------------------------------------------------------- */

/* Found or made; NULL: out of memory. */
struct dz_sandbox *dz_sandbox_get(struct dz_sandboxes *all, const char *id, const char *tenant);
/* Start a cell on its file; without go it is file-only. */
int dz_sandbox_start_cell(struct dz_sandbox *s, const struct dz_instance *row, bool go,
                          struct dz_err *err);
void dz_sandbox_stop_cell(struct dz_sandbox *s, bool keep_memory); /* the cell suspends itself */
void dz_sandbox_kill_cell(struct dz_sandbox *s); /* its cell is gone when this returns */
void dz_sandbox_promote(struct dz_sandbox *s);   /* file-only: wake its machine */
void dz_sandbox_destroy(struct dz_sandbox *s);   /* whatever it has */
void dz_leaving_free_all(struct dz_sandboxes *all);

/* --- sandbox.c ------------------------------------------------------------------------------- */

void dz_sandboxes_drain_look(struct dz_sandboxes *all); /* something is over */

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
int dz_start_queue(struct dz_sandbox *s, struct dz_err *err);
bool dz_start_unqueue(struct dz_sandbox *s);      /* true: it was in the queue */
void dz_sandbox_start_turn(struct dz_sandbox *s); /* sandbox.c */

/* --- sandbox_job.c --------------------------------------------------------------------------- */

/* DZ_EBUSY: a request for the sandbox's files has waited for its full time. */
int dz_files_late(const struct dz_sandboxes *all, const char *id, struct dz_why *why);
int dz_files_init(struct dz_sandboxes *all, struct dz_err *err);
void dz_files_release(struct dz_sandboxes *all);
/* Does a job of this tenant wait for room to open a file? */
bool dz_files_awaited(const struct dz_sandboxes *all, const char *tenant);
size_t dz_jobs_early(struct dz_sandbox *s); /* how many were */
/* A DZ_JOB_USE follows. What it wakes is noted as used by the wake. */
void dz_job_use_noted(struct dz_sandboxes *all, const char *id, enum dz_activity what);
/* Somebody else wants the sandbox: its file-only cell makes way, or becomes the machine's. */
void dz_job_make_way(struct dz_sandboxes *all, const char *id, enum dz_request what);

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
void dz_exec_connected(struct dz_sandbox *s); /* the keeper says that it is awake */
/* The cell is gone, or sleeps: watches stay (code 0) or are told this failure. */
void dz_exec_down(struct dz_sandbox *s, int code, const char *reason, const char *text);
/* sandbox_replay.c: tell a watch about a command that has ended. */
void dz_exec_replay(struct dz_exec_watch *w, const char *sandbox_id);
/* The end of a watch. It leaves all that it waits for now, and is told soon. */
void dz_exec_watch_failed(struct dz_exec_watch *w, const struct dz_why *why);
void dz_exec_watch_exited(struct dz_exec_watch *w, const struct dz_exec_exit *how);

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

/* --- sandbox_wake.c -------------------------------------------------------------------------- */

enum wake_step {
    WAKE_ASKED,
    WAKE_SENT,
    WAKE_UP,
    WAKE_TOLD,
    WAKE_WRITTEN,
    WAKE_STEPS = DZ_WAKE_STEPS,
};
void dz_wake_step(struct dz_sandbox *s, enum wake_step step); /* it is made now */
void dz_wake_over(struct dz_sandbox *s);                      /* nothing more will come of it */

#endif

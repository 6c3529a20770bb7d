/* SPDX-License-Identifier: MIT
 *
 * sandbox.h - the sandboxes of a daemon that have a cell, or of which somebody wants something:
 * their cells, the commands and file operations in them, and who waits for them.
 *
 * A sandbox that only sleeps is a row of the registry and a file; it is no object here. An object
 * exists while its sandbox has a cell, or a request, command or operation that needs one.
 *
 *   dz_sandboxes --- id --- dz_sandbox --- cell        (runtime.h) its process
 *                                |-------- execs       sandbox_exec.h
 *                                |-------- file_ops    sandbox_file.h
 *                                `-------- copies      the host's: snapshots that the cell writes
 *
 * What depends on images, quotas, disk space and paths is the host's business (struct
 * dz_sandbox_host), what a cell is that of a runtime (struct dz_cell_ops). So this module runs with
 * real cells in the daemon, and with played ones in tests.
 *
 * One thread, that of the loop. Every callback comes from the loop, after the call that began it
 * has returned.
 */
#ifndef DZ_SANDBOX_SANDBOX_H
#define DZ_SANDBOX_SANDBOX_H

#include "base/id.h"
#include "base/list.h"
#include "base/map.h"
#include "loop/loop.h"
#include "runtime/runtime.h"
#include "sandbox/sandbox_account.h"
#include "sandbox/sandbox_check.h"
#include "sandbox/sandbox_clock.h"
#include "sandbox/sandbox_files.h"
#include "sandbox/sandbox_record.h"
#include "sandbox/sandbox_request.h"

struct dz_sandboxes;
struct dz_blob_out;

enum {
    DZ_SANDBOX_WAITING_MAX = 256,       /* requests in line for one sandbox */
    DZ_SANDBOX_BACKGROUND_MAX = 32,     /* operations that the clock started, at once; */
    DZ_SANDBOX_BACKGROUND_SHARE = 4,    /* of them, those of one tenant */
    DZ_SANDBOX_BATCH = 32,              /* due rows that are looked at in one turn */
    DZ_SANDBOX_SANDBOXES_MAX = 1 << 20, /* with something under way or a cell */
    DZ_SANDBOX_TENANT_MAX = 255,        /* bytes of a tenant's name */
    DZ_SANDBOX_RUNTIMES_MAX = 4,
};

/* --- one ------------------------------------------------------------------------------------- */

/*   NONE --start--> STARTING --up--> UP --suspend--> STOPPING --> NONE
 *     `--files----> OPENING --> FILES --suspend--> STOPPING
 *
 * In OPENING and FILES the cell has the file and no machine; all requests for the sandbox that
 * need more wait (DZ_REQUEST_FILES). */
enum dz_sandbox_phase {
    DZ_PHASE_NONE,
    DZ_PHASE_STARTING,
    DZ_PHASE_UP,
    DZ_PHASE_OPENING,
    DZ_PHASE_FILES,
    DZ_PHASE_STOPPING,
};
enum dz_sandbox_start { /* sandbox_start.c */
    DZ_START_NONE,
    DZ_START_QUEUED, /* waits for a cell: it has none */
    DZ_START_BEGUN,  /* counts among those that start */
};
enum {
    DZ_WAKE_STEPS = 5, /* sandbox_wake.c */
};

/* Others read id, tenant, owner, phase, ops, cell, born, memory, disk_limit and disk_state, and
 * change what is named as the host's. */
struct dz_sandbox {
    struct dz_sandboxes *all;

    /* What is done with it: sandbox_line.c, sandbox_op.c, sandbox_due.c. */
    struct op *op;          /* the operation under way, or NULL */
    struct dz_list waiting; /* requests whose turn comes later */
    size_t waiting_count;
    struct dz_loop_task turn; /* begins the next requests in line; frees it, if nothing needs it */
    bool given_back;          /* its file was taken: its turn looks when its row is due */
    bool taken;               /* somebody has its file, or it is cloned into: all requests wait */
    bool lent;                /* taken by a request FILES: others of that kind may share */
    bool warm;                /* a cell runs it, and its row says so */
    struct dz_facts now;      /* of a warm one: last_active, connections, last_byte, last_closed,
                               * sleeps_until; and its mode */
    int64_t due;              /* as its row says, while warm */
    struct dz_record rec;     /* read when it is wanted, and kept right by each write */
    bool skipped;             /* the row was due while its file was taken, and was put off */
    char *died_of;            /* what its cell died of, until that is in the row; or NULL */

    /* Its cell, and what that has of it. */
    enum dz_sandbox_phase phase;
    bool reserved;    /* taken by its own cell, for FILES */
    bool hurry;       /* somebody waits until FILES is over */
    bool drop_memory; /* of the start under way */
    bool keep_memory; /* of the stop under way */
    bool lost;        /* the start under way found its memory lost */
    bool local;       /* of its start: there was no cold copy, so its commit need not be synced */
    bool ephemeral;   /* it is not put to sleep, but destroyed */
    size_t
        served_early; /* requests of those that wait for its wake: they have what they came for */
    bool asked;       /* its operation waits for the end of a start or stop */
    const struct dz_cell_ops *ops; /* of its kind of guests: the only way to its cell */
    struct dz_cell *cell;
    struct dz_poll *poll;
    int polled;               /* the cell's descriptor in it */
    void *image;              /* of the cell: the host's */
    const char *workdir;      /* of its image, for commands that say none; or NULL */
    const char *user;         /* the same */
    struct dz_timer *linger;  /* the end of OPENING, and of FILES that nobody uses */
    struct dz_loop_task fail; /* its cell could not be told something, and fails for that: */
    struct dz_err fail_why;
    struct dz_list up_pending; /* in all->up_pending: it is up, and its row does not say so yet; */
    bool has_active;           /* nor the next */
    struct dz_cell_event active; /* its last DZ_CELL_ACTIVITY */
    struct dz_list execs, file_ops;
    struct dz_list acquiring; /* who waits for its machine: sandbox_acquire.c */
    struct dz_list parked;    /* watches of files that wait for the next cell */
    struct dz_list copies;    /* the host's: snapshots that the cell writes, or will */
    enum dz_sandbox_start start;
    bool start_machine;          /* START_BEGUN: not only its file */
    int64_t start_at;            /* the same: dz_clock_boot_ns() */
    struct dz_list start_link;   /* in its tenant's line, or in all->starts.begun */
    int64_t cpu_ns, cpu_at;      /* at the last ACTIVITY */
    uint64_t born;               /* which of all cells its own is, or was */
    int64_t full_at;             /* of the last FULL that was told; 0: none */
    unsigned full_more;          /* since then, that were not */
    int64_t wake[DZ_WAKE_STEPS]; /* when they were made, of a wake that is logged; else 0 */
    int64_t wake_cell[2];        /* and what its cell ran and waited */
    bool in_turn;                /* its events are handled, or it is listed: dz_sandbox_report_up()
                                  * waits for the end of that */
    bool file_counted;           /* the host's: its cell has only the file, counted as such */
    bool counted;                /* the host's: among those that are awake, with memory, owner */
    uint64_t disk_left;          /* the host's: the cell was told; 0: nothing yet */
    uint64_t memory;             /* bytes that its machine may have */
    uint64_t disk_limit;         /* as its config says; 0: the server's */
    uint64_t disk_state;         /* bytes that its memory may take in its file besides */
    char owner[DZ_ID_TEXT];      /* the token that made it; "": none */
    char tenant[DZ_SANDBOX_TENANT_MAX + 1];
    char id[];
};

struct dz_sandbox *dz_sandbox_find(struct dz_sandboxes *all, const char *id); /* NULL: none */
/* After anything was sent to its cell: the loop waits for what the cell waits for. */
void dz_sandbox_watch_cell(struct dz_sandbox *s);
/* Something let go of it: it is freed soon, if nothing needs it then. */
void dz_sandbox_unneeded(struct dz_sandbox *s);
/* Its last file operation or copy is over: a file-only cell may end. */
void dz_sandbox_files_over(struct dz_sandbox *s);
/* Kill its cell, which did what no cell does that obeys: an event says what, and why. */
void dz_sandbox_end_cell(struct dz_sandbox *s, int code, const char *what, const char *text);
/* What a client is told of a cell's failure: DZ_EIO is DZ_EDIED. */
int dz_sandbox_cell_code(int code);

/* --- what others do for it ------------------------------------------------------------------- */

/* What a cell is started with, besides what this module knows. */
struct dz_sandbox_resources {
    /* Descriptors, image, env, policy, memory, fresh, strict, host_user. All that it points to is
     * the host's until dz_sandbox_host.started. */
    struct dz_cell_start start;
    void *image;                /* kept until the cell has gone; then image_put. May be NULL */
    const char *workdir, *user; /* of the image, as long as that is kept; NULL: it says none */
    uint64_t disk_bytes;        /* that its file may have; 0: the server's limit */
    void *own;                  /* the host's */
};

struct dz_sandbox_host {
    /* Open what the cell of this row needs. */
    int (*prepare)(void *arg, const struct dz_instance *row, struct dz_sandbox_resources *ret,
                   struct dz_err *err);
    /* The cell has begun, or could not be started: what was opened for it may be closed. After
     * each prepare that succeeded. */
    void (*started)(void *arg, struct dz_sandbox_resources *f);
    void (*image_put)(void *arg, void *image); /* NULL is fine */

    /* May one more machine wake, by quotas and disk space? */
    int (*may_wake)(void *arg, const struct dz_instance *row, struct dz_why *why);
    /* The same; and it counts as awake until `cold`. */
    int (*admit_machine)(void *arg, struct dz_sandbox *s, const struct dz_instance *row,
                         struct dz_why *why);
    /* May one more cell be opened that has only a file? Of the row tenant and owner are given.
     * DZ_EQUOTA, DZ_EBUSY: when one that is open has ended. */
    int (*may_open)(void *arg, const struct dz_instance *row, struct dz_why *why);
    /* It is; until `warm` or `cold`. */
    void (*admit_file)(void *arg, struct dz_sandbox *s, const struct dz_instance *row);
    void (*cell_gone)(void *arg, struct dz_sandbox *s); /* it has no cell, or no start. Any time */
    /* A new cell: tell it how much of the disk it may take. */
    void (*limit)(void *arg, struct dz_sandbox *s);
    /* Is there a file of this sandbox in the live directory? */
    bool (*has_file)(void *arg, const char *id);
    /* A row was made (1) or has gone (-1). */
    void (*counted)(void *arg, const struct dz_instance *row, int by);
    /* An operation is over. */
    void (*timed)(void *arg, const struct dz_sandbox_timing *timing);

    /* Copies that cells write. False: the cell was not asked for one. */
    bool (*copied)(void *arg, struct dz_sandbox *s, const struct dz_cell_event *event);
    /* The cell has gone, or will not come to them. code 0: the object ends, nobody is told. */
    void (*copies_down)(void *arg, struct dz_sandbox *s, int code, const char *text);
};

/* --- all ------------------------------------------------------------------------------------- */

/* A kind of guests: rows of this kind run in its cells. */
struct dz_sandbox_runtime {
    const struct dz_cell_ops *ops;
    void *pool; /* first argument of ops->start */
};

struct dz_sandboxes_opts {
    struct dz_loop *loop;
    struct dz_registry *registry;
    struct dz_cold cold;
    const char *live_path;             /* of the live directory: what rows say of their files */
    const char *host_name;             /* who we are, in rows; NULL: "", for one host */
    struct dz_idle_policy idle_policy; /* the server's; DZ_IDLE_INHERIT: the default */
    struct dz_sandbox_runtime runtimes[DZ_SANDBOX_RUNTIMES_MAX]; /* those with ops count */
    const struct dz_sandbox_host *host;                          /* NULL: no cells run here */
    void *arg;                                                   /* of host */
    const struct dz_sandbox_files *files;
    void *files_arg; /* of files */
    struct dz_accounts *accounts;
};
DZ_NODISCARD int dz_sandboxes_new(const struct dz_sandboxes_opts *opts,
                                  struct dz_sandboxes **ret_all, struct dz_err *err);
/* Nothing may be under way (dz_sandboxes_busy), unless the loop has forgotten it. NULL is fine. */
void dz_sandboxes_free(struct dz_sandboxes *all);
/* The server's idle policy from now on; a row's due time follows when it is next written. */
void dz_sandboxes_set_idle_policy(struct dz_sandboxes *all, const struct dz_idle_policy *policy);
/* Operations under way. */
size_t dz_sandboxes_busy(const struct dz_sandboxes *all);
/* Before the first request: finish or undo what an earlier process began, put to sleep what it
 * ran, remove what writers left, and start the clock. Blocks. The first error is returned; what it
 * hindered is tried again next time. */
DZ_NODISCARD int dz_sandboxes_recover(struct dz_sandboxes *all, struct dz_err *err);
/* The same in pieces, for who has a loop to turn meanwhile: goes on until the monotonic clock
 * says until_ms, by one row at least. 1: call it again. */
DZ_NODISCARD int dz_sandboxes_recover_some(struct dz_sandboxes *all, int64_t until_ms,
                                           struct dz_err *err);
/* Put every one to sleep, and end those that are ephemeral. done(left) when none has a cell, or
 * after deadline_ms: how many still have. New work is refused from now on with DZ_EBUSY. */
void dz_sandboxes_drain(struct dz_sandboxes *all, int64_t deadline_ms,
                        void (*done)(void *arg, size_t left), void *arg);
bool dz_sandboxes_draining(const struct dz_sandboxes *all);
/* id -> struct dz_sandbox, for DZ_MAP_FOREACH. */
const struct dz_map *dz_sandboxes_map(const struct dz_sandboxes *all);

struct dz_sandbox_counts {
    uint64_t warm; /* now */
    uint64_t wakes, wakes_cold, execs, suspends, crashes;
};
void dz_sandboxes_count(const struct dz_sandboxes *all, struct dz_sandbox_counts *ret_counts);
/* Those that are awake. Stops at a result that is not 0, and returns it. */
struct dz_sandbox_warm {
    const char *id, *tenant;
    int64_t pid; /* of its cell; 0: not known yet */
    size_t commands;
};
int dz_sandboxes_each_warm(const struct dz_sandboxes *all,
                           int (*fn)(void *arg, const struct dz_sandbox_warm *warm), void *arg);
/* The rows of all that are up say so from now on. */
void dz_sandboxes_report_up(struct dz_sandboxes *all);
/* The same of one. False: it was told; or from within its own events, which end in that soon. */
bool dz_sandbox_report_up(struct dz_sandboxes *all, const char *id);
/* Cells may have ended, or quotas changed: who waits to open a file has his turn soon. */
void dz_files_room(struct dz_sandboxes *all);

#endif

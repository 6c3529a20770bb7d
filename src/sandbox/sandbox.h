/* SPDX-License-Identifier: MIT
 *
 * sandbox.h - the sandboxes of a daemon that are in use: their cells, the commands and file
 * operations in them, and the requests that wait.
 *
 * A suspended sandbox without requests is only a row of the registry and a file. It has an object
 * here while it has a cell, or a request, command or operation that needs one.
 *
 *   dz_sandboxes --- id --- dz_sandbox --- cell        (runtime.h) its process
 *                                |-------- execs       sandbox_exec.h
 *                                |-------- file_ops    sandbox_file.h
 *                                `-------- copies      the host's: snapshots that the cell writes
 *
 * The host (struct dz_sandbox_host) knows images, quotas, disk space and paths; a runtime (struct
 * dz_cell_ops) implements cells. So this module runs with real cells in the daemon, and with
 * simulated ones in tests.
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
#include "sandbox/sandbox_config.h"
#include "sandbox/sandbox_files.h"
#include "sandbox/sandbox_record.h"
#include "sandbox/sandbox_request.h"

struct dz_sandboxes;
struct dz_blob_out;
struct dz_net_query;

enum {
    DZ_SANDBOX_WAITING_MAX = 256,    /* requests queued for one sandbox */
    DZ_SANDBOX_BACKGROUND_MAX = 32,  /* operations that the clock runs at the same time; */
    DZ_SANDBOX_BACKGROUND_SHARE = 4, /* of these, for one tenant */
    DZ_SANDBOX_BATCH = 32,           /* due rows served in one turn of the loop */
    /* objects: sandboxes with a cell or with work in progress */
    DZ_SANDBOX_SANDBOXES_MAX = 1 << 20,
    DZ_SANDBOX_TENANT_MAX = 255, /* bytes of a tenant's name */
    DZ_SANDBOX_RUNTIMES_MAX = 4,
};

/* --- one sandbox ------------------------------------------------------------------------- */

/*   NONE --start--> STARTING --up--> UP --suspend--> STOPPING --> NONE
 *     `--files----> OPENING --> FILES --suspend--> STOPPING
 *
 * In OPENING and FILES the cell is file-only: it has the file and no machine. The sandbox is
 * reserved for it (DZ_REQUEST_FILES), and requests that need more wait in the queue. */
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
    DZ_START_QUEUED, /* queued: it has no cell yet */
    DZ_START_BEGUN,  /* its cell counts as starting */
};
enum {
    DZ_WAKE_STEPS = 5, /* sandbox_cell.c: enum wake_step */
};

/* Bytes of TCP connections that programs have opened to other machines, as the host's kernel counts
 * them, without repetitions. A byte that was sent counts even if it was not acknowledged. */
struct dz_net_traffic {
    uint64_t received, sent;
};

/* Other modules read id, tenant, owner, phase, ops, cell, born, memory, disk_limit and disk_state,
 * and write only the fields marked as the host's. */
struct dz_sandbox {
    struct dz_sandboxes *all;

    /* Requests and the operation: sandbox_line.c, sandbox_op.c, sandbox_clock.c. */
    struct op *op;          /* the operation in progress, or NULL */
    struct dz_list waiting; /* queued requests */
    size_t waiting_count;
    /* starts the next queued requests; frees the object if nothing needs it */
    struct dz_loop_task turn;
    bool given_back; /* the reservation of its file was just released, so the turn also rearms the
                        clock */
    bool taken;      /* its file is reserved, or being written by a clone, so all requests wait */
    bool lent;       /* reserved by a FILES request: further FILES requests may share it */
    bool warm;       /* a cell runs it, and its row says active */
    struct dz_facts now;  /* valid while warm: last_active, connections, last_byte, last_closed,
                             sleeps_until and the idle mode */
    int64_t due;          /* valid while warm: the due time in its row */
    struct dz_record rec; /* the row, parsed: read on demand and updated by each write */
    struct dz_sandbox_config config; /* the config in that row; without text: not parsed yet */
    bool skipped; /* the row was due while the file was reserved, and was postponed */
    /* its file is not synced yet (dz_sandbox_register_unsynced()), so its cell is not read */
    bool unsynced_file;
    char *died_of; /* why its cell died, until the row records it; or NULL */

    /* The cell and its clients. */
    enum dz_sandbox_phase phase;
    bool reserved;       /* its own file-only cell holds the reservation of its file */
    bool hurry;          /* another request waits for the file-only cell to end */
    bool drop_memory;    /* start in progress: drop the memory */
    bool keep_memory;    /* stop in progress: keep the memory */
    bool lost;           /* start in progress: the cell found the memory lost */
    bool woke;           /* its machine continued from its memory */
    bool local;          /* it started without a cold copy, so the commit needs no sync */
    bool ephemeral;      /* it is destroyed instead of suspended */
    size_t served_early; /* requests waiting for the wake that were delivered to the cell early */
    bool asked;          /* its operation waits for a start or stop of the cell */
    /* the functions for its kind of guest; every call to the cell goes through them */
    const struct dz_cell_ops *ops;
    struct dz_cell *cell;
    struct dz_poll *poll;
    int polled;               /* the descriptor that poll watches */
    void *image;              /* the host's reference to the cell's image */
    const char *workdir;      /* the image's default directory for commands; or NULL */
    const char *user;         /* the image's default user for commands; or NULL */
    int stop_signal;          /* of the image: asks a command to end; 0: SIGTERM */
    struct dz_timer *linger;  /* deadline of OPENING; in FILES, the end of an unused cell */
    struct dz_loop_task fail; /* a send to the cell failed: ends the cell, with the error */
    struct dz_err fail_why;
    struct dz_list up_pending;   /* in all->up_pending: it is up, and its row does not say so yet */
    bool has_active;             /* `active` holds an event */
    struct dz_cell_event active; /* the last DZ_CELL_ACTIVITY received while in up_pending */
    struct dz_list execs, file_ops;
    struct dz_list acquiring; /* struct dz_acquire waiting for its machine: sandbox_acquire.c */
    struct dz_list parked;    /* file watches waiting for the next cell */
    struct dz_list copies;    /* the host's: snapshots that the cell writes or will write */
    enum dz_sandbox_start start;
    bool start_machine;        /* DZ_START_BEGUN: a machine starts, not only a file-only cell */
    int64_t start_at;          /* DZ_START_BEGUN: time of the start, dz_clock_boot_ns() */
    struct dz_list start_link; /* in its tenant's start_line, or in all->starts.begun */
    int64_t cpu_ns,
        cpu_at;       /* the cell's CPU time at the last DZ_CELL_ACTIVITY, and when that came */
    int64_t cpu_from; /* the same at the first one of this cell */
    uint64_t memory_bytes;       /* of its programs, at the last one */
    uint64_t born;               /* serial number of its present or last cell */
    int64_t full_at;             /* time of the last DZ_CELL_FULL that was reported; 0: none */
    unsigned full_more;          /* DZ_CELL_FULL since then that were not reported */
    int64_t wake[DZ_WAKE_STEPS]; /* times of the steps of a wake that is logged; else 0 */
    int64_t wake_cell[2];        /* CPU time and run queue wait of its cell */
    struct {                     /* sandbox_net.c: connections to the outside */
        struct dz_list conns, deliveries;
        size_t count;                /* of conns */
        struct dz_net_traffic ended; /* bytes of connections that are over */
        struct dz_cell_port *ports;
        size_t port_count;
        struct dz_acquire *wake; /* a connection wakes the sandbox */
        bool again;              /* that had no room, and is tried again */
        uint64_t bytes;          /* in both directions, at the last DZ_CELL_ACTIVITY */
    } net;
    bool in_turn; /* its events are being handled, or it is being listed, so dz_sandbox_report_up()
                     does nothing */
    bool file_counted;      /* the host's: counted as a file-only cell */
    bool counted;           /* the host's: counted as awake, with memory and owner */
    uint64_t disk_left;     /* the host's: disk space last granted to the cell; 0: none yet */
    uint64_t metered;       /* the host's: 1 + size of its files in the journal; 0: not known */
    uint64_t memory;        /* memory limit of its machine */
    uint64_t disk_limit;    /* disk limit in its config; 0: the server's */
    uint64_t disk_state;    /* extra bytes that its saved memory may take in the file */
    char owner[DZ_ID_TEXT]; /* id of the token that created it; "": none */
    char tenant[DZ_SANDBOX_TENANT_MAX + 1];
    char id[];
};

/* NULL: there is no such object */
struct dz_sandbox *dz_sandbox_find(struct dz_sandboxes *all, const char *id);

/* How far the operation in progress has copied the sandbox's file. False: nothing is copied. */
struct dz_sandbox_progress {
    const char *what;     /* the operation */
    uint64_t done, total; /* bytes */
};
bool dz_sandbox_progress(struct dz_sandboxes *all, const char *id,
                         struct dz_sandbox_progress *ret_progress);
/* Call after every send to its cell: updates what the loop polls for. */
void dz_sandbox_watch_cell(struct dz_sandbox *s);
/* Call when something has stopped using the sandbox: its next turn frees the object if nothing
 * needs it then. */
void dz_sandbox_unneeded(struct dz_sandbox *s);
/* Call after a file operation or copy has ended: ends a file-only cell that is not used any
 * more. */
void dz_sandbox_files_over(struct dz_sandbox *s);
/* Kill its cell, which broke the protocol or its limits. what and text are recorded as an event. */
void dz_sandbox_end_cell(struct dz_sandbox *s, int code, const char *what, const char *text);
/* The error code that a client gets for a cell's failure: DZ_EIO becomes DZ_EDIED. */
int dz_sandbox_cell_code(int code);

/* --- the host ---------------------------------------------------------------------------- */

/* Resources that the host opens for the start of a cell. */
struct dz_sandbox_resources {
    /* Descriptors, image, env, policy, memory, fresh, strict, settle_as. The host owns everything
     * that it points to, until dz_sandbox_host.started. */
    struct dz_cell_start start;
    void *image; /* held until the cell is gone, then given to image_put; may be NULL */
    const char *workdir, *user; /* the image's defaults, valid while image is held; NULL: none */
    int stop_signal;            /* likewise; 0: none */
    uint64_t disk_bytes;        /* limit of its file; 0: the server's */
    bool machine;               /* given: for a machine, whose volumes are needed */
    void *own;                  /* private to the host */
};

struct dz_sandbox_host {
    /* Open the resources for a cell of this row. config is the row's, borrowed until `started`. */
    int (*prepare)(void *arg, const struct dz_instance *row, const struct dz_sandbox_config *config,
                   struct dz_sandbox_resources *ret, struct dz_err *err);
    /* The cell has started, or failed to: the host may close what it opened. Called once after each
     * successful prepare. */
    void (*started)(void *arg, struct dz_sandbox_resources *f);
    void (*image_put)(void *arg, void *image); /* NULL is fine */

    /* Check quotas and disk space for one more machine. */
    int (*may_wake)(void *arg, const struct dz_instance *row, struct dz_why *why);
    /* The same check; on success the sandbox counts as awake until cell_gone. */
    int (*admit_machine)(void *arg, struct dz_sandbox *s, const struct dz_instance *row,
                         struct dz_why *why);
    /* Check quotas for one more file-only cell. Of the row only tenant and owner are set. DZ_EQUOTA
     * and DZ_EBUSY: try again when a cell has ended. */
    int (*may_open)(void *arg, const struct dz_instance *row, struct dz_why *why);
    /* The file-only cell is opened: it counts as such until admit_machine or cell_gone. */
    void (*admit_file)(void *arg, struct dz_sandbox *s, const struct dz_instance *row);
    /* its cell is gone, or its start failed. May be called at any time */
    void (*cell_gone)(void *arg, struct dz_sandbox *s);
    /* Grant a new cell its disk space. */
    void (*limit)(void *arg, struct dz_sandbox *s);
    /* Does the live directory have a file of this sandbox? */
    bool (*has_file)(void *arg, const char *id);
    /* Called after a row was created (by = 1) or erased (by = -1). */
    void (*counted)(void *arg, const struct dz_instance *row, int by);
    /* Metrics hook: called when an operation has ended. */
    void (*timed)(void *arg, const struct dz_sandbox_timing *timing);

    /* Called when the cell has reported a complete copy. False: the cell had no order to make
     * one. */
    bool (*copied)(void *arg, struct dz_sandbox *s, const struct dz_cell_event *event);
    /* Called when the cell is gone or will not write its pending copies: fail them. code 0: the
     * object is being freed, so notify nobody. */
    void (*copies_down)(void *arg, struct dz_sandbox *s, int code, const char *text);

    /* The machine runs and the row says so, or a suspend has failed and it runs on. woke: it has
     * its memory of before; else it is a new one. May be NULL, as may machine_down. */
    void (*machine_up)(void *arg, struct dz_sandbox *s, bool woke);
    /* The machine is gone: suspended (kept: with its memory), killed, or dead. */
    void (*machine_down)(void *arg, struct dz_sandbox *s, bool kept);

    /* The functions below serve connections to the outside (sandbox_net.h). Each may be NULL. */
    /* A program connects to an address outside: answer once, now or later, by dz_net_connected() or
     * dz_net_refused(). NULL: ENETUNREACH. */
    void (*net_connect)(void *arg, struct dz_sandbox *s, uint64_t ticket,
                        const struct dz_cell_address *to);
    /* An outgoing connection is over, or the program does not wait for it any more. */
    void (*net_closed)(void *arg, struct dz_sandbox *s, uint64_t ticket);
    /* dz_net_ports() has changed. */
    void (*net_ports)(void *arg, struct dz_sandbox *s);
    /* A program asks its name server: answer by dz_net_reply(), or not at all. */
    void (*net_query)(void *arg, struct dz_sandbox *s, const struct dz_net_query *query);
};

/* --- all sandboxes ----------------------------------------------------------------------- */

/* A kind of guest. Rows whose column kind has ops->kind run in its cells. */
struct dz_sandbox_runtime {
    const struct dz_cell_ops *ops;
    void *pool; /* first argument of ops->start */
};

struct dz_sandboxes_opts {
    struct dz_loop *loop;
    struct dz_registry *registry;
    struct dz_cold cold;
    const char *live_path; /* path of the live directory, for the column vfs_path */
    const char
        *host_name; /* the name of this host, for the column host; NULL: "", for a single host */
    struct dz_idle_policy
        idle_policy; /* the server's idle policy; a tier of DZ_IDLE_INHERIT has the default */
    /* entries without ops are unused */
    struct dz_sandbox_runtime runtimes[DZ_SANDBOX_RUNTIMES_MAX];
    const struct dz_sandbox_host *host; /* NULL: no cells run in this process */
    void *arg;                          /* argument of the host's functions */
    const struct dz_sandbox_files *files;
    void *files_arg; /* argument of the functions in files */
    struct dz_accounts *accounts;
};
DZ_NODISCARD int dz_sandboxes_new(const struct dz_sandboxes_opts *opts,
                                  struct dz_sandboxes **ret_all, struct dz_err *err);
/* No operation may be in progress (dz_sandboxes_busy), unless the loop is gone. NULL is fine. */
void dz_sandboxes_free(struct dz_sandboxes *all);
/* Change the server's idle policy. A row's due time follows when the row is next written. */
void dz_sandboxes_set_idle_policy(struct dz_sandboxes *all, const struct dz_idle_policy *policy);
/* The number of operations in progress. */
size_t dz_sandboxes_busy(const struct dz_sandboxes *all);
/* Recovery, before the first request: finish or undo the operations that an earlier process left,
 * mark its active sandboxes as suspended, remove leftovers of writers, and start the clock. Blocks.
 * Returns the first error; rows that could not be recovered are tried again by the next
 * recovery. */
DZ_NODISCARD int dz_sandboxes_recover(struct dz_sandboxes *all, struct dz_err *err);
/* The same in pieces, for a caller whose loop must keep turning: each call works until the
 * monotonic clock reaches until_ms, but on at least one row. 1: call it again. */
DZ_NODISCARD int dz_sandboxes_recover_some(struct dz_sandboxes *all, int64_t until_ms,
                                           struct dz_err *err);
/* Suspend every sandbox, and destroy the ephemeral ones. Calls done when no cell is left, or after
 * deadline_ms, with the number of cells left. From now on new work is refused with DZ_EBUSY. */
void dz_sandboxes_drain(struct dz_sandboxes *all, int64_t deadline_ms,
                        void (*done)(void *arg, size_t left), void *arg);
bool dz_sandboxes_draining(const struct dz_sandboxes *all);
/* Map of id to struct dz_sandbox, for DZ_MAP_FOREACH. */
const struct dz_map *dz_sandboxes_map(const struct dz_sandboxes *all);

struct dz_sandbox_counts {
    uint64_t warm; /* active now */
    uint64_t wakes, wakes_cold, execs, suspends, crashes;
};
void dz_sandboxes_count(const struct dz_sandboxes *all, struct dz_sandbox_counts *ret_counts);
/* Call fn for each active sandbox. Stops at a result that is not 0, and returns it. */
struct dz_sandbox_warm {
    const char *id, *tenant;
    struct dz_net_traffic traffic; /* with other machines, since it is known to the daemon */
    int64_t pid;                   /* process id of its cell; 0: not known yet */
    size_t commands;
    /* Used by programs in processes of their own (kind linux), besides the cell: CPU time since it
     * began, and memory, as reported at most every second. */
    int64_t native_cpu_ns;
    uint64_t native_bytes;
};
int dz_sandboxes_each_warm(const struct dz_sandboxes *all,
                           int (*fn)(void *arg, const struct dz_sandbox_warm *warm), void *arg);
/* Write the rows of all sandboxes that are up and whose row does not say so yet. */
void dz_sandboxes_report_up(struct dz_sandboxes *all);
/* The same for one sandbox. False: there was nothing to write, or its events are being handled; the
 * handler writes the row at its end. */
bool dz_sandbox_report_up(struct dz_sandboxes *all, const char *id);
/* Call when cells may have ended or quotas have changed: requests waiting for room to open a file
 * are tried again soon. */
void dz_files_room(struct dz_sandboxes *all);

#endif

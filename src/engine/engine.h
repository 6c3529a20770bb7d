/* SPDX-License-Identifier: MIT
 *
 * engine.h - every operation that a client may ask for, one function each.
 *
 * The engine knows who asks, what he may ask, and what it needs: the lifecycle
 * through a keeper, machines through cells, images through the store, all that is
 * remembered through the registry. It knows no HTTP. Nothing here opens a sandbox's
 * file as a database or reads what is in one: that is done in cells.
 *
 * What takes time ends in a callback, exactly once, from the loop: never before the
 * call that began it has returned. A call that refuses says so by its result, and
 * then nothing is called back. What takes no time answers at once.
 *
 * A failure says what (err), why in one word (reason, may be NULL) and which field
 * of the request is to blame (field, may be "").
 *
 * One thread, that of the loop.
 */
#ifndef DZ_ENGINE_ENGINE_H
#define DZ_ENGINE_ENGINE_H

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/id.h"
#include "image/image.h"
#include "keeper/keeper.h"
#include "lifecycle/lifecycle_op.h"
#include "loop/loop.h"
#include "registry/registry.h"
#include "registry/registry_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DZ_ENGINE_NAME_MAX = 63,           /* bytes of a sandbox's name */
    DZ_ENGINE_LABELS_MAX = 64,         /* labels of one */
    DZ_ENGINE_KEY_MAX = 63,            /* bytes of a label's key */
    DZ_ENGINE_VALUE_MAX = 255,         /* and of its value */
    DZ_ENGINE_METADATA_MAX = 65536,    /* bytes of metadata as JSON */
    DZ_ENGINE_ENV_MAX = 256,           /* variables, of a sandbox and of a command */
    DZ_ENGINE_ENV_BYTES = 65536,       /* bytes of them all */
    DZ_ENGINE_ARGS_MAX = 4096,         /* words of a command */
    DZ_ENGINE_ARGS_BYTES = 131072,     /* bytes of them all */
    DZ_ENGINE_HELD_TENANT = 128 << 20, /* bytes that wait in memory for one tenant, */
    DZ_ENGINE_HELD_ALL = 1 << 30,      /* and for all: defaults of dz_engine_opts */
    DZ_ENGINE_ACCOUNTS_MAX = 1 << 20,  /* tenants with such bytes */
    DZ_ENGINE_INPUT_MAX = 1 << 20,     /* bytes of input that wait for one command */
    DZ_ENGINE_WATCHES_MAX = 64,        /* listeners to one command */
    DZ_ENGINE_EVENT_WATCHES = 1024,    /* listeners to events */
    DZ_ENGINE_IMAGES_MAX = 256,        /* images that are open at once */
    DZ_ENGINE_TENANTS_MAX = 100000,    /* of whom something is remembered */
    DZ_ENGINE_FILE_CELLS_MAX = 64,     /* cells of a tenant that have only a file */
};
#define DZ_ENGINE_MEMORY_MIN     (UINT64_C(1) << 20)
#define DZ_ENGINE_MEMORY_MAX     (UINT64_C(64) << 30)
#define DZ_ENGINE_DISK_MIN       (UINT64_C(1) << 20)
#define DZ_ENGINE_DISK_MAX       (UINT64_C(1) << 50)
#define DZ_ENGINE_IDLE_MIN_MS    ((int64_t)100)
#define DZ_ENGINE_IDLE_MAX_MS    ((int64_t)365 * 24 * 3600 * 1000)
#define DZ_ENGINE_TIMEOUT_MIN_MS ((int64_t)100)
#define DZ_ENGINE_TIMEOUT_MAX_MS ((int64_t)365 * 24 * 3600 * 1000)
#define DZ_ENGINE_NO_TIMEOUT     ((int64_t)0)
#define DZ_ENGINE_HOLD_MAX_MS    ((int64_t)30 * 24 * 3600 * 1000)

struct dz_engine;
struct dz_cell_pool;

/* Why something was refused or failed. */
struct dz_engine_why {
    struct dz_err err;
    const char *reason; /* "asleep", "unsupported", "owner_gone", "archived"; NULL: none */
    char field[64];     /* of the request; "": none */
    unsigned retry_s;   /* of DZ_ERATE: after so long it may be asked again */
};

/* Who asks. The operator (the owner of the socket) sees all tenants; what he makes is
 * `tenant`'s. Anybody else's sandboxes do not exist for a tenant. */
struct dz_engine_caller {
    const char *tenant;
    bool is_operator;
    const char *token; /* id of the token that says so; NULL: none */
};

/* A caller that outlives its request: what crosses a hop of the loop has a copy of its own. */
struct dz_engine_own_caller {
    struct dz_engine_caller who; /* its strings are the next two: not to be copied */
    char tenant[DZ_ENGINE_NAME_MAX + 1];
    char token[DZ_ID_TEXT];
};
void dz_engine_caller_keep(struct dz_engine_own_caller *own, const struct dz_engine_caller *who);
/* May this caller still ask? DZ_EUNAUTH: its token was revoked, or has expired. */
DZ_NODISCARD int dz_engine_caller_check(struct dz_engine *e, const struct dz_engine_caller *who,
                                        struct dz_engine_why *why);

/* What is asked about, as its name or the beginning of its id, and by whom. */
struct dz_engine_target {
    const struct dz_engine_caller *who;
    const char *word;
};

/* --- quotas ------------------------------------------------------------------------- */

/* What a tenant may have, or what may be had by a token: X(name, what it bounds). */
#define DZ_QUOTAS(X)                                             \
    X(sandboxes, "sandboxes, awake or not")                      \
    X(warm_sandboxes, "sandboxes that are awake")                \
    X(creations, "creations under way")                          \
    X(creations_per_minute, "creations in a minute")             \
    X(memory_bytes, "limits of memory of those awake, together") \
    X(disk_bytes, "files of sandboxes and of snapshots, together")
struct dz_quotas {
#define X(name, text) uint64_t name;
    DZ_QUOTAS(X)
#undef X
};
#define DZ_QUOTA_NONE    UINT64_MAX              /* as much as there is */
#define DZ_QUOTA_DEFAULT (UINT64_MAX - 1)        /* as the next one says: tenant, server */
extern const struct dz_quotas dz_quotas_default; /* every one of them DZ_QUOTA_DEFAULT */

struct dz_engine_usage {
    uint64_t sandboxes, warm_sandboxes, creations, memory_bytes, disk_bytes;
};

/* --- the engine ----------------------------------------------------------------- */

/* Free space of the data directory's file system. */
enum dz_space_level {
    DZ_SPACE_OK,
    DZ_SPACE_LOW,  /* less than twice the mark is free */
    DZ_SPACE_FULL, /* less than the mark: nothing new is made, guests get ENOSPC */
    DZ_SPACE_OUT,  /* less than half of the mark: nothing wakes, no command starts */
};
struct dz_space_opts {
    unsigned free_percent;   /* of the file system that is kept free: the mark; 0: nothing */
    uint64_t free_max_bytes; /* the mark, at most */
    uint64_t sandbox_bytes;  /* what the disk of a sandbox may take by default; 0: no limit */
    uint64_t reserve_bytes;  /* preallocated for the registry, and for what ends or saves */
};
struct dz_engine_space {
    enum dz_space_level level;
    uint64_t total_bytes, free_bytes, mark_bytes; /* free: without the reserve */
    uint64_t free_inodes, mark_inodes;            /* mark 0: the file system does not count them */
    uint64_t reserve_bytes;                       /* that are held now */
};
const char *dz_space_level_name(enum dz_space_level level);

struct dz_engine_opts {
    struct dz_loop *loop;
    struct dz_cell_pool *pool; /* borrowed; made before the process had a thread */
    const char *data_path;     /* of the data directory; made when missing */
    const char *registry;      /* as of dz_registry_open */
    struct dz_ladder ladder;
    struct dz_quotas quotas; /* of a tenant that has none of its own; DZ_QUOTA_NONE */
    struct dz_space_opts space;
    uint64_t held_tenant, held_all; /* bytes that dz_engine_account() lets wait; 0: the defaults */
};
/* Open everything. DZ_EBUSY: another process has the data directory. */
DZ_NODISCARD int dz_engine_new(const struct dz_engine_opts *opts, struct dz_engine **ret_engine,
                               struct dz_err *err);
/* Finish or undo what an earlier process began; then requests may come. Blocks. */
DZ_NODISCARD int dz_engine_recover(struct dz_engine *e, struct dz_err *err);
/* The same in pieces: as dz_keeper_recover_some. Requests may come once it is over. */
DZ_NODISCARD int dz_engine_recover_some(struct dz_engine *e, int64_t until_ms, struct dz_err *err);
/* Put every sandbox to sleep; done(left) when none is awake or deadline_ms is over:
 * how many still were. New work is refused from now on with DZ_EBUSY. */
void dz_engine_drain(struct dz_engine *e, int64_t deadline_ms, void (*done)(void *arg, size_t left),
                     void *arg);
/* Another one from now on: of each sandbox when its row is next looked at. */
void dz_engine_set_ladder(struct dz_engine *e, const struct dz_ladder *ladder);
void dz_engine_set_space(struct dz_engine *e, const struct dz_space_opts *opts);
void dz_engine_space(struct dz_engine *e, struct dz_engine_space *ret_space); /* measured now */
/* 0, or DZ_ENOSPC: the disk is too full for anything new. */
DZ_NODISCARD int dz_engine_check_space(struct dz_engine *e, struct dz_engine_why *why);
/* 0: recovered, and not draining; or DZ_EBUSY and why not. */
DZ_NODISCARD int dz_engine_check_ready(const struct dz_engine *e, struct dz_err *err);
void dz_engine_free(struct dz_engine *e); /* NULL is fine */

/* Bytes that wait in memory for a tenant (bodies, answers, queues, input of commands). One holder
 * of them changes its part from *had to now; on success *had = now. False: together they would be
 * more than the tenant, or all tenants, may have. `must`: counted all the same, because they are
 * there already; the result says whether there was room. Less is always fine. */
bool dz_engine_account(struct dz_engine *e, const char *tenant, size_t *had, size_t now, bool must);

struct dz_engine_counts {
    uint64_t warm, busy; /* cells; operations under way */
    uint64_t creates, wakes, wakes_cold, execs, suspends, crashes;
    char died[16]; /* the signal that ended the daemon before this one, "none"; "": it stopped */
};
/* The daemon before this one died: an event, and in the counts. */
void dz_engine_note_death(struct dz_engine *e, int pid, const char *signal, bool rebooted);
/* An operation is over: told to who counts, one function. Of creations: those that start. */
struct dz_engine_timing {
    const char *operation; /* "create", "wake", "suspend", "freeze", "archive", ... */
    const char *rung;      /* of a wake: "local", "cold", "fresh"; else "" */
    int code;              /* 0 or DZ_E* */
    int64_t us;
};
void dz_engine_on_timed(struct dz_engine *e,
                        void (*fn)(void *arg, const struct dz_engine_timing *timing), void *arg);
/* Those that are awake: what there is to say of each without waiting. Stops at a non-zero
 * result, and returns it. */
struct dz_engine_warm {
    const char *id, *tenant;
    int64_t pid; /* of its cell; 0: not known yet */
    size_t commands;
};
int dz_engine_each_warm(const struct dz_engine *e,
                        int (*fn)(void *arg, const struct dz_engine_warm *warm), void *arg);
void dz_engine_counts(const struct dz_engine *e, struct dz_engine_counts *ret_counts);

/* --- sandboxes -------------------------------------------------------------------- */

/* How an operation on a sandbox ended. */
struct dz_engine_result {
    int code;                        /* 0 or DZ_E* */
    const struct dz_engine_why *why; /* of code < 0 */
    const struct dz_instance *row;   /* as it is now; NULL: there is none */
    enum dz_rung rung;               /* of a wake */
    bool memory_lost;
    int64_t us; /* it took so long */
};
typedef void dz_engine_done_fn(void *arg, const struct dz_engine_result *result);

/* What a client says of a new sandbox. NULL, 0: not said. */
struct dz_engine_spec {
    const char *id; /* that it is to have; NULL: a new one */
    const char *name, *image, *snapshot, *kind, *size, *region, *policy, *keep, *durability;
    const char *idle_mode;
    uint64_t memory_bytes, disk_bytes; /* 0: not said */
    int64_t idle_ms;                   /* DZ_LADDER_INHERIT: not said; DZ_LADDER_NEVER */
    const char *env_json;              /* an object of strings */
    const char *labels_json;           /* an object of strings */
    const char *metadata_json;
    int64_t timeout_ms;         /* DZ_ENGINE_NO_TIMEOUT: none */
    const char *timeout_action; /* "destroy" or "pause"; NULL: destroy */
    int64_t silence_ms; /* a connection that is silent for so long does not count; 0: not said */
    bool ignore_cpu;    /* what the guest computes is no activity */
    bool ephemeral;     /* it never sleeps, and goes with its cell */
    bool no_resume;     /* only an explicit wake wakes it */
    bool no_start;      /* it stays as it is created */
};
/* Everything is checked before anything is made. */
DZ_NODISCARD int dz_engine_create(struct dz_engine *e, const struct dz_engine_caller *who,
                                  const struct dz_engine_spec *spec, dz_engine_done_fn *done,
                                  void *arg, struct dz_engine_why *why);

/* The row is to be released. */
DZ_NODISCARD int dz_engine_get(struct dz_engine *e, struct dz_engine_target target,
                               struct dz_instance *ret_row, struct dz_engine_why *why);
struct dz_engine_filter {
    const char *state, *kind, *image, *label; /* label "k=v" or "k"; NULL: any */
    const char *after;                        /* ids greater than this */
    size_t limit;                             /* 1 to DZ_REGISTRY_LIST_MAX */
};
/* Rows by id, appended. *ret_more: there are more after the last one. */
DZ_NODISCARD int dz_engine_list(struct dz_engine *e, const struct dz_engine_caller *who,
                                const struct dz_engine_filter *f, struct dz_instances *rows,
                                bool *ret_more, struct dz_engine_why *why);

/* What is to change; NULL, false: stays. */
struct dz_engine_patch {
    const char *name, *labels_json, *metadata_json, *idle_mode;
    bool set_idle, set_resume, set_timeout, set_silence, set_cpu;
    int64_t idle_ms, silence_ms;
    int64_t timeout_ms; /* from now on; as of dz_engine_spec */
    const char *timeout_action;
    bool no_resume, ignore_cpu;
};
DZ_NODISCARD int dz_engine_change(struct dz_engine *e, struct dz_engine_target target,
                                  const struct dz_engine_patch *p, struct dz_instance *ret_row,
                                  struct dz_engine_why *why);

/* One hop of the lifecycle: WAKE SUSPEND FREEZE PREFETCH ARCHIVE REVIVE DELETE DESTROY. */
struct dz_engine_order {
    enum dz_request what;
    const char *keep;   /* SUSPEND, ARCHIVE: "memory", "files"; WAKE: "files" gives the memory up */
    const char *policy; /* WAKE: another one, from now on */
};
DZ_NODISCARD int dz_engine_order(struct dz_engine *e, struct dz_engine_target target,
                                 const struct dz_engine_order *order, dz_engine_done_fn *done,
                                 void *arg, struct dz_engine_why *why);
/* Wakes it as any request does, and then keeps it awake at least until that time. */
DZ_NODISCARD int dz_engine_hold(struct dz_engine *e, struct dz_engine_target target,
                                int64_t until_ms, dz_engine_done_fn *done, void *arg,
                                struct dz_engine_why *why);
DZ_NODISCARD int dz_engine_unhold(struct dz_engine *e, struct dz_engine_target target,
                                  struct dz_instance *ret_row, struct dz_engine_why *why);

/* Its files as a new sandbox; result->row is the new one. */
struct dz_engine_clone {
    const char *tenant; /* whose it is; NULL: the tenant's whose the sandbox is */
    const char *name;   /* NULL: none */
};
DZ_NODISCARD int dz_engine_clone(struct dz_engine *e, struct dz_engine_target target,
                                 const struct dz_engine_clone *clone, dz_engine_done_fn *done,
                                 void *arg, struct dz_engine_why *why);
/* Its public volume as a file; fd is the callback's, who closes it. */
typedef void dz_engine_file_fn(void *arg, const struct dz_engine_result *result, int fd);
DZ_NODISCARD int dz_engine_share(struct dz_engine *e, struct dz_engine_target target,
                                 dz_engine_file_fn *done, void *arg, struct dz_engine_why *why);

/* --- snapshots, forks, references ---------------------------------------------------- */

/* Rows are the callback's for its time; why is not NULL: it failed. */
typedef void dz_engine_snap_fn(void *arg, const struct dz_snapshot_row *row,
                               const struct dz_engine_why *why);
/* What a snapshot, a fork or a reference is called, and how long it is kept. */
struct dz_engine_handle {
    const char *name;      /* of a snapshot and of a reference unique of its tenant; NULL: none */
    int64_t expires_in_ms; /* it is removed then; 0: never */
};
/* The sandbox as it is now, asleep, in a file of its own; it goes on. A sandbox is made of it
 * by dz_engine_create, as often as one likes. */
DZ_NODISCARD int dz_engine_snapshot(struct dz_engine *e, struct dz_engine_target target,
                                    const struct dz_engine_handle *as, dz_engine_snap_fn *done,
                                    void *arg, struct dz_engine_why *why);
DZ_NODISCARD int dz_engine_snapshot_get(struct dz_engine *e, struct dz_engine_target target,
                                        struct dz_snapshot_row *ret_row, struct dz_engine_why *why);
DZ_NODISCARD int dz_engine_snapshots(struct dz_engine *e, const struct dz_engine_caller *who,
                                     const char *after, size_t limit, struct dz_snapshot_rows *rows,
                                     struct dz_engine_why *why);
/* DZ_EEXIST: a fork stands on it. */
DZ_NODISCARD int dz_engine_snapshot_delete(struct dz_engine *e, struct dz_engine_target target,
                                           struct dz_engine_why *why);

/* What stands for a sandbox that was put to sleep: resuming it wakes the same one. */
DZ_NODISCARD int dz_engine_pause(struct dz_engine *e, const struct dz_instance *row,
                                 char ret_id[static DZ_ID_TEXT], struct dz_engine_why *why);
/* Wake the sandbox of a pause, or make one of a snapshot. */
DZ_NODISCARD int dz_engine_resume(struct dz_engine *e, struct dz_engine_target target,
                                  const char *name, dz_engine_done_fn *done, void *arg,
                                  struct dz_engine_why *why);

/* A snapshot with a label, for branches. */
typedef void dz_engine_fork_fn(void *arg, const struct dz_fork_row *row,
                               const struct dz_engine_why *why);
DZ_NODISCARD int dz_engine_fork(struct dz_engine *e, struct dz_engine_target target,
                                const struct dz_engine_handle *as, dz_engine_fork_fn *done,
                                void *arg, struct dz_engine_why *why);
DZ_NODISCARD int dz_engine_forks(struct dz_engine *e, const struct dz_engine_caller *who,
                                 const char *after, size_t limit, struct dz_fork_rows *rows,
                                 struct dz_engine_why *why);
/* Another branch: a sandbox that goes on from there. */
DZ_NODISCARD int dz_engine_fork_attach(struct dz_engine *e, struct dz_engine_target target,
                                       const char *name, dz_engine_done_fn *done, void *arg,
                                       struct dz_engine_why *why);
DZ_NODISCARD int dz_engine_fork_delete(struct dz_engine *e, struct dz_engine_target target,
                                       struct dz_engine_why *why);

DZ_NODISCARD int dz_engine_ref_add(struct dz_engine *e, struct dz_engine_target target,
                                   const struct dz_engine_handle *as, struct dz_ref_row *ret_row,
                                   struct dz_engine_why *why);
DZ_NODISCARD int dz_engine_refs(struct dz_engine *e, const struct dz_engine_caller *who,
                                const char *after, size_t limit, struct dz_ref_rows *rows,
                                struct dz_engine_why *why);
/* The reference only: the sandbox stays. */
DZ_NODISCARD int dz_engine_ref_forget(struct dz_engine *e, struct dz_engine_target target,
                                      struct dz_engine_why *why);
/* The sandbox, shared; the number is for detach. DZ_EUNAVAIL, owner_gone: it has been destroyed. */
DZ_NODISCARD int dz_engine_ref_attach(struct dz_engine *e, struct dz_engine_target target,
                                      int64_t *ret_number, struct dz_instance *ret_row,
                                      struct dz_engine_why *why);
DZ_NODISCARD int dz_engine_ref_detach(struct dz_engine *e, struct dz_engine_target target,
                                      int64_t number, struct dz_engine_why *why);
/* The owner's cleanup: the sandbox is destroyed. */
DZ_NODISCARD int dz_engine_ref_delete(struct dz_engine *e, struct dz_engine_target target,
                                      dz_engine_done_fn *done, void *arg,
                                      struct dz_engine_why *why);

/* --- tenants ------------------------------------------------------------------------- */

struct dz_engine_quota_state {
    char tenant[DZ_ENGINE_VALUE_MAX + 1];
    struct dz_quotas quotas;     /* as they count: DZ_QUOTA_NONE or a number */
    struct dz_engine_usage used; /* disk_bytes: when `measured` */
    bool measured, has_token;    /* it was asked with a token: */
    struct dz_quotas token_quotas;
    struct dz_engine_usage token_used;
};
/* "self": who asks. */
DZ_NODISCARD int dz_engine_quotas(struct dz_engine *e, const struct dz_engine_caller *who,
                                  const char *tenant, struct dz_engine_quota_state *ret,
                                  struct dz_engine_why *why);
/* Rows of tenants by name, those greater than `after` (NULL: from the first): who has a token, or
 * quotas of his own, and who asks. The operator's. */
DZ_NODISCARD int dz_engine_tenants(struct dz_engine *e, const struct dz_engine_caller *who,
                                   const char *after, size_t limit, struct dz_tenant_rows *rows,
                                   struct dz_engine_why *why);
/* json: an object of numbers, "unlimited", "default"; what is not in it stays. The operator's. */
DZ_NODISCARD int dz_engine_set_quotas(struct dz_engine *e, const struct dz_engine_caller *who,
                                      const char *tenant, const char *json,
                                      struct dz_engine_why *why);

/* --- requests that come twice ------------------------------------------------------------ */

/* What a client's key says of its request. */
struct dz_engine_key {
    const char *key, *sha256; /* 1 to DZ_ENGINE_IDEM_MAX bytes; of all that was asked */
    const char *sandbox_id;   /* that the request is about to make; NULL: it makes none */
};
enum dz_engine_key_is {
    DZ_ENGINE_KEY_NEW,      /* begin it, then dz_engine_key_end */
    DZ_ENGINE_KEY_ANSWERED, /* row->http_status, row->response are the answer */
    DZ_ENGINE_KEY_MADE,     /* an earlier daemon made row->sandbox_id and could not answer */
};
enum {
    DZ_ENGINE_IDEM_MAX = 255,   /* bytes of a key */
    DZ_ENGINE_KEYS_MAX = 10000, /* that are kept, of a tenant */
    DZ_ENGINE_KEYS_UNDER_WAY = 65536,
    DZ_ENGINE_KEY_UNKEPT = 100000, /* added to http_status: the answer was too large to keep */
};
/* One of the above; DZ_EEXIST: of another request, or interrupted; DZ_ECANCELED: under way.
 * The row is to be released unless it is NEW. */
DZ_NODISCARD int dz_engine_key_begin(struct dz_engine *e, const struct dz_engine_caller *who,
                                     const struct dz_engine_key *key,
                                     struct dz_idempotency_row *ret_row, struct dz_engine_why *why);
/* status 0: it did nothing, and may be begun again. */
void dz_engine_key_end(struct dz_engine *e, const struct dz_engine_caller *who, const char *key,
                       int status, struct dz_str response);

/* --- tokens -------------------------------------------------------------------------- */

enum {
    DZ_ENGINE_SECRET = 70, /* room for a secret with its terminator */
};
struct dz_engine_token_spec {
    const char *name, *tenant;
    const char *scope;       /* "tenant", or "operator": who has it is the operator, from afar */
    int64_t expires_in_ms;   /* 0: never */
    const char *quotas_json; /* of what is made with it; NULL: none but its tenant's */
};
/* All three are the operator's, DZ_EDENIED for others. The secret is told here and never again;
 * the row is to be released. */
DZ_NODISCARD int dz_engine_token_add(struct dz_engine *e, const struct dz_engine_caller *who,
                                     const struct dz_engine_token_spec *spec,
                                     char ret_secret[static DZ_ENGINE_SECRET],
                                     struct dz_token_row *ret_row, struct dz_engine_why *why);
/* Rows by id, appended: those that the filter's tenant, after and limit let through. */
DZ_NODISCARD int dz_engine_tokens(struct dz_engine *e, const struct dz_engine_caller *who,
                                  const struct dz_registry_record_filter *filter,
                                  struct dz_token_rows *rows, struct dz_engine_why *why);
/* By id, or by a name that only one has; *ret_id: which it was. */
DZ_NODISCARD int dz_engine_token_remove(struct dz_engine *e, const struct dz_engine_caller *who,
                                        const char *word, char ret_id[static DZ_ID_TEXT],
                                        struct dz_engine_why *why);
/* The hash of a secret, by which it is found; false: it is none. */
bool dz_engine_secret_hash(struct dz_str secret, char ret_sha256[static DZ_SHA256_HEX]);
/* DZ_ENOENT: none, expired or revoked. The row is to be released. */
DZ_NODISCARD int dz_engine_token_find(struct dz_engine *e, const char *sha256,
                                      struct dz_token_row *ret_row, struct dz_err *err);
void dz_engine_token_used(struct dz_engine *e, const char *id); /* now; kept to the minute */

/* --- what a sandbox was created with --------------------------------------------------- */

struct dz_engine_config {
    char *text; /* owns the strings */
    const char *image, *size, *policy, *durability;
    uint64_t memory_bytes; /* 0: the image's or the policy's */
    uint64_t disk_bytes;   /* 0: the server's */
    const char *env;       /* JSON objects */
    const char *labels, *metadata;
    int64_t silence_ms; /* 0: DZ_IDLE_SILENCE_MS */
    bool auto_resume, ignore_cpu;
};
DZ_NODISCARD int dz_engine_config_of(const struct dz_instance *row,
                                     struct dz_engine_config *ret_config, struct dz_err *err);
void dz_engine_config_release(struct dz_engine_config *c); /* for DZ_AUTO too */
/* The date of a time in a row (last_active, wake_at, hold_until, timeout_at), which is of the
 * keeper's clock. */
int64_t dz_engine_date(const struct dz_engine *e, int64_t at);
/* What its file and log take on the disk, or its copy in cold storage; 0: it has none. */
uint64_t dz_engine_file_bytes(const struct dz_engine *e, const struct dz_instance *row);

/* --- images ------------------------------------------------------------------------- */

/* Each after a hash, in their order; image NULL: damaged. */
typedef int dz_engine_image_fn(void *arg, const char *sha256, const char *tags,
                               const struct dz_image *image);
struct dz_engine_images_page {
    const char *after; /* NULL: from the first on */
    size_t limit;
    char last[DZ_SHA256_HEX]; /* set: the last that was shown */
    bool more;                /* set: there are more behind it */
};
DZ_NODISCARD int dz_engine_images(struct dz_engine *e, struct dz_engine_images_page *page,
                                  dz_engine_image_fn *fn, void *arg, struct dz_engine_why *why);
/* One, to be released, and its names, appended. */
DZ_NODISCARD int dz_engine_image(struct dz_engine *e, const char *name, struct dz_image *ret_image,
                                 struct dz_buf *tags, struct dz_engine_why *why);
/* DZ_EEXIST: a sandbox stands on it. */
DZ_NODISCARD int dz_engine_image_delete(struct dz_engine *e, const char *name,
                                        struct dz_engine_why *why);
/* Remove images without a name on which nothing stands, and with cache what was fetched and
 * compiled for building. On the loop's thread: it only unlinks. DZ_EBUSY while something is built.
 */
DZ_NODISCARD int dz_engine_image_gc(struct dz_engine *e, bool cache, struct dz_image_gc *ret_gc,
                                    struct dz_engine_why *why);

/* Compare the registry with the files: as dz_keeper_look. */
DZ_NODISCARD int dz_engine_registry_check(struct dz_engine *e, const struct dz_keeper_look_opts *o,
                                          struct dz_keeper_look **ret_look,
                                          struct dz_engine_why *why);

/* Look for damage in images, in a process of its own; one at a time (DZ_EBUSY). DZ_EINVAL: there
 * is no such image. fn is called once, unless it is dropped before: with what `doze image verify
 * --json` printed, or with why there is no result. */
struct dz_engine_verify;
typedef void dz_engine_verified_fn(void *arg, struct dz_str json, const struct dz_engine_why *why);
struct dz_engine_verify_spec {
    const char *image; /* NULL: all of them */
    bool repair;       /* make anew what can be made from the image */
    dz_engine_verified_fn *fn;
    void *arg;
};
DZ_NODISCARD int dz_engine_image_verify(struct dz_engine *e, const struct dz_engine_verify_spec *s,
                                        struct dz_engine_verify **ret_verify,
                                        struct dz_engine_why *why);
void dz_engine_image_verify_drop(struct dz_engine_verify *v); /* kills it; NULL is fine */

/* --- building images -------------------------------------------------------------------- */

enum {
    DZ_ENGINE_BUILDS_MAX = 8,        /* that wait or run */
    DZ_ENGINE_RECIPE_MAX = 1 << 20,  /* bytes of a recipe that is sent as text */
    DZ_ENGINE_BUILD_BYTES = 1 << 30, /* bytes of an archive with files */
};
struct dz_engine_build;
struct dz_engine_build_spec {
    const char *name;   /* NAME[:TAG] */
    const char *text;   /* the recipe; or NULL: an archive comes, and in it: */
    const char *recipe; /* a path; NULL: "recipe" */
    const char *from;   /* an image, before the recipe's; NULL */
    bool fresh;         /* look nothing up in the cache */
};
/* All of these are the operator's, DZ_EDENIED for others. A build that was opened is filled with
 * its archive, piece by piece, and then goes or is dropped; one that went is followed by its id. */
DZ_NODISCARD int dz_engine_build_open(struct dz_engine *e, const struct dz_engine_caller *who,
                                      const struct dz_engine_build_spec *spec,
                                      struct dz_engine_build **ret_build,
                                      struct dz_engine_why *why);
DZ_NODISCARD int dz_engine_build_put(struct dz_engine_build *b, const void *data, size_t n,
                                     struct dz_engine_why *why);
void dz_engine_build_go(struct dz_engine_build *b);
void dz_engine_build_drop(struct dz_engine_build *b); /* nothing of it is left. NULL is fine */
DZ_NODISCARD int dz_engine_build_find(struct dz_engine *e, const struct dz_engine_caller *who,
                                      const char *id, struct dz_engine_build **ret_build,
                                      struct dz_engine_why *why);
DZ_NODISCARD int dz_engine_builds(struct dz_engine *e, const struct dz_engine_caller *who,
                                  void (*fn)(void *arg, const struct dz_engine_build *b), void *arg,
                                  struct dz_engine_why *why);
/* Borrowed until the loop's next turn. */
struct dz_engine_build_state {
    const char *id, *name;
    const char *status;       /* UPLOADING to FAILED */
    const char *error;        /* of one that failed */
    const char *image_sha256; /* of one that is DEPLOYED */
    bool over;
    int64_t created, ended;
    struct dz_str log; /* its end */
    uint64_t log_at;   /* bytes before that */
};
void dz_engine_build_get(const struct dz_engine_build *b, struct dz_engine_build_state *ret_state);
struct dz_engine_ear;
/* Be called after each change, until dz_engine_unlisten; so long it is kept. */
DZ_NODISCARD int dz_engine_build_listen(struct dz_engine_build *b, void (*fn)(void *arg), void *arg,
                                        struct dz_engine_ear **ret_ear, struct dz_engine_why *why);
void dz_engine_build_cancel(struct dz_engine_build *b); /* it fails, soon; nothing of it stays */

/* --- events ------------------------------------------------------------------------- */

struct dz_engine_event_filter {
    const char *sandbox_id; /* NULL: all */
    int64_t after;          /* numbers greater than this */
    size_t limit;
};
/* Oldest first. 0: all that there are; 1: fn said stop, or it was `limit`. */
typedef int dz_engine_event_fn(void *arg, const struct dz_registry_event *event);
DZ_NODISCARD int dz_engine_events(struct dz_engine *e, const struct dz_engine_caller *who,
                                  const struct dz_engine_event_filter *f, dz_engine_event_fn *fn,
                                  void *arg, struct dz_engine_why *why);
/* Be called, at some time soon after each new event. */
struct dz_engine_ear;
DZ_NODISCARD int dz_engine_listen(struct dz_engine *e, void (*fn)(void *arg), void *arg,
                                  struct dz_engine_ear **ret_ear, struct dz_engine_why *why);
void dz_engine_unlisten(struct dz_engine_ear *ear); /* NULL is fine */

/* --- commands ------------------------------------------------------------------------ */

struct dz_engine_exec {
    const char *const *argv; /* ends with NULL; or NULL: */
    const char *shell;       /* for /bin/sh -c */
    const char *cwd, *user;  /* NULL: the image's */
    const char *env_json;    /* an object of strings, over the sandbox's; NULL */
    struct dz_str input;     /* its standard input from the start */
    bool keep_input;         /* more may come; else it ends after `input` */
    bool tty;
    uint16_t rows, cols;
    bool background;    /* nobody listens: only started() or failed() is told */
    bool main;          /* its end is that of the sandbox, which is not persistent */
    int64_t timeout_ms; /* then it is killed, also if the sandbox sleeps; 0: never */
};

/* How a command ended. */
struct dz_engine_exit {
    int exit_code; /* -1: signal */
    int signal;
    bool timed_out;
    const char *text; /* why it was stopped, "" */
    int64_t duration_ms;
    uint64_t bytes; /* of output, ever */
};

/* Who listens to a command. dz_engine_watch_end may be called from started, ended and failed,
 * not from output. */
struct dz_engine_watch;
struct dz_engine_watch_ops {
    void (*started)(void *arg, const char *exec_id, int64_t pid); /* once, first */
    /* stream 1, 2 (a terminal has only 1). offset: of the first byte, of all output. Each byte
     * is to be acknowledged by dz_engine_watch_took. NULL: output is not wanted. */
    void (*output)(void *arg, unsigned stream, uint64_t offset, const void *data, size_t n);
    void (*ended)(void *arg, const struct dz_engine_exit *how); /* the last */
    void (*failed)(void *arg, const struct dz_engine_why *why); /* or this is */
};
struct dz_engine_listener {
    const struct dz_engine_watch_ops *ops;
    void *arg;
    uint64_t offset; /* the first byte of output that is wanted */
};

/* Is it a sound request? What dz_engine_exec asks first. */
DZ_NODISCARD int dz_engine_exec_check(const struct dz_engine_exec *exec, struct dz_engine_why *why);
/* Start one, waking the sandbox if it must. */
DZ_NODISCARD int dz_engine_exec(struct dz_engine *e, struct dz_engine_target target,
                                const struct dz_engine_exec *exec,
                                struct dz_engine_listener listener,
                                struct dz_engine_watch **ret_watch, struct dz_engine_why *why);
/* Listen to one that there is: output that the file still has. A watch stays while the
 * sandbox sleeps. */
DZ_NODISCARD int dz_engine_exec_watch(struct dz_engine *e, struct dz_engine_target target,
                                      const char *exec_id, struct dz_engine_listener listener,
                                      struct dz_engine_watch **ret_watch,
                                      struct dz_engine_why *why);
void dz_engine_watch_took(struct dz_engine_watch *w, size_t n);
/* Its client says that it is there: it is not silent. */
void dz_engine_watch_alive(struct dz_engine_watch *w);
/* Listen no more; nothing is told any more. The command goes on. NULL is fine. */
void dz_engine_watch_end(struct dz_engine_watch *w);
/* The same; and the command that dz_engine_exec began for this watch is killed, or never begins,
 * unless others listen to it. */
void dz_engine_watch_abort(struct dz_engine_watch *w);
/* The command of a watch: the same as dz_engine_exec_tell, without looking it up. */
const char *dz_engine_watch_exec(const struct dz_engine_watch *w);

enum dz_engine_told {
    DZ_ENGINE_INPUT,     /* data: DZ_EBUSY when too much waits already */
    DZ_ENGINE_INPUT_END, /* no more input */
    DZ_ENGINE_SIGNAL,    /* number, to the whole job */
    DZ_ENGINE_RESIZE,
};
struct dz_engine_tell {
    const char *exec_id;
    enum dz_engine_told what;
    struct dz_str data;
    int number;
    uint16_t rows, cols;
};
/* Tell a running command something, waking its sandbox. done: it has it. */
DZ_NODISCARD int dz_engine_exec_tell(struct dz_engine *e, struct dz_engine_target target,
                                     const struct dz_engine_tell *tell, dz_engine_done_fn *done,
                                     void *arg, struct dz_engine_why *why);

/* --- what is asked of a sandbox's file, awake or asleep ---------------------------------- */

struct dz_cell_op; /* runtime/runtime_op.h */
struct dz_engine_op;
struct dz_engine_op_ops {
    void (*data)(void *arg, const void *data, size_t n); /* acknowledge by dz_engine_op_took */
    void (*room)(void *arg);                             /* dz_engine_op_send takes something */
    void (*done)(void *arg, const struct dz_engine_why *why, uint64_t count); /* NULL: well */
};
/* A guest is not started when the sandbox sleeps. */
struct dz_engine_op_request {
    const struct dz_cell_op *op;
    bool writes; /* it may change something: a frozen sandbox is woken, not only its file fetched */
    enum dz_activity activity;
    const struct dz_engine_op_ops *ops;
    void *arg;
};
DZ_NODISCARD int dz_engine_op(struct dz_engine *e, struct dz_engine_target target,
                              const struct dz_engine_op_request *request,
                              struct dz_engine_op **ret_op, struct dz_engine_why *why);
/* Bytes of a WRITE or TAR_IN: how many were taken; 0: wait for room. */
int64_t dz_engine_op_send(struct dz_engine_op *op, const void *data, size_t n);
void dz_engine_op_end(struct dz_engine_op *op); /* all is sent */
void dz_engine_op_took(struct dz_engine_op *op, size_t n);
void dz_engine_op_cancel(struct dz_engine_op *op); /* nothing is told any more. NULL is fine */

#endif

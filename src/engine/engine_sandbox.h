/* SPDX-License-Identifier: MIT
 *
 * engine_sandbox.h - sandboxes: create, look, change, order, clone, share.
 */
#ifndef DZ_ENGINE_ENGINE_SANDBOX_H
#define DZ_ENGINE_ENGINE_SANDBOX_H

#include "engine/engine_why.h"
#include "lifecycle/lifecycle_op.h"
#include "sandbox/sandbox_config.h"

enum {
    DZ_ENGINE_LABELS_MAX = 64,      /* labels of a sandbox */
    DZ_ENGINE_KEY_MAX = 63,         /* bytes of a label's key */
    DZ_ENGINE_METADATA_MAX = 65536, /* bytes of metadata as JSON */
    DZ_ENGINE_ENV_MAX = 256,        /* variables, of a sandbox and of a command */
    DZ_ENGINE_ENV_BYTES = 65536,    /* bytes of them all */
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
                                  const struct dz_engine_spec *spec, dz_sandbox_done_fn *done,
                                  void *arg, struct dz_why *why);

/* The row is to be released. */
DZ_NODISCARD int dz_engine_get(struct dz_engine *e, struct dz_engine_target target,
                               struct dz_instance *ret_row, struct dz_why *why);
struct dz_engine_filter {
    const char *state, *kind, *image, *label; /* label "k=v" or "k"; NULL: any */
    const char *after;                        /* ids greater than this */
    size_t limit;                             /* 1 to DZ_REGISTRY_LIST_MAX */
};
/* Rows by id, appended. *ret_more: there are more after the last one. */
DZ_NODISCARD int dz_engine_list(struct dz_engine *e, const struct dz_engine_caller *who,
                                const struct dz_engine_filter *f, struct dz_instances *rows,
                                bool *ret_more, struct dz_why *why);

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
                                  struct dz_why *why);

/* One hop of the lifecycle: WAKE SUSPEND FREEZE PREFETCH ARCHIVE REVIVE DELETE DESTROY. */
struct dz_engine_order {
    enum dz_request what;
    const char *keep;   /* SUSPEND, ARCHIVE: "memory", "files"; WAKE: "files" gives the memory up */
    const char *policy; /* WAKE: another one, from now on */
};
DZ_NODISCARD int dz_engine_order(struct dz_engine *e, struct dz_engine_target target,
                                 const struct dz_engine_order *order, dz_sandbox_done_fn *done,
                                 void *arg, struct dz_why *why);
/* Wakes it as any request does, and then keeps it awake at least until that time. */
DZ_NODISCARD int dz_engine_hold(struct dz_engine *e, struct dz_engine_target target,
                                int64_t until_ms, dz_sandbox_done_fn *done, void *arg,
                                struct dz_why *why);
DZ_NODISCARD int dz_engine_unhold(struct dz_engine *e, struct dz_engine_target target,
                                  struct dz_instance *ret_row, struct dz_why *why);

/* Its files as a new sandbox; result->row is the new one. */
struct dz_engine_clone {
    const char *tenant; /* whose it is; NULL: the tenant's whose the sandbox is */
    const char *name;   /* NULL: none */
};
DZ_NODISCARD int dz_engine_clone(struct dz_engine *e, struct dz_engine_target target,
                                 const struct dz_engine_clone *clone, dz_sandbox_done_fn *done,
                                 void *arg, struct dz_why *why);
/* Its public volume as a file; fd is the callback's, who closes it. */
typedef void dz_engine_file_fn(void *arg, const struct dz_sandbox_result *result, int fd);
DZ_NODISCARD int dz_engine_share(struct dz_engine *e, struct dz_engine_target target,
                                 dz_engine_file_fn *done, void *arg, struct dz_why *why);

/* --- what it was created with ------------------------------------------------------------------
 */

/* The date of a time in a row (last_active, wake_at, hold_until, timeout_at), which is of the
 * clock of durations. */
int64_t dz_engine_date(const struct dz_engine *e, int64_t at);
/* What its file and log take on the disk, or its copy in cold storage; 0: it has none. */
uint64_t dz_engine_file_bytes(const struct dz_engine *e, const struct dz_instance *row);

#endif

/* SPDX-License-Identifier: MIT
 *
 * control_sandbox.h - sandboxes: create, get, list, change, request operations, clone, share.
 */
#ifndef DZ_CONTROL_CONTROL_SANDBOX_H
#define DZ_CONTROL_CONTROL_SANDBOX_H

#include "control/control_why.h"
#include "lifecycle/lifecycle_op.h"
#include "sandbox/sandbox_config.h"

enum {
    DZ_CONTROL_LABELS_MAX = 64,      /* labels of a sandbox */
    DZ_CONTROL_KEY_MAX = 63,         /* bytes of a label's key */
    DZ_CONTROL_METADATA_MAX = 65536, /* bytes of metadata as JSON */
    DZ_CONTROL_ENV_MAX = 256,        /* variables of a sandbox, and of a command */
    DZ_CONTROL_ENV_BYTES = 65536,    /* bytes of them all */
};

#define DZ_CONTROL_MEMORY_MIN     (UINT64_C(1) << 20)
#define DZ_CONTROL_MEMORY_MAX     (UINT64_C(64) << 30)
#define DZ_CONTROL_DISK_MIN       (UINT64_C(1) << 20)
#define DZ_CONTROL_DISK_MAX       (UINT64_C(1) << 50)
#define DZ_CONTROL_IDLE_MIN_MS    ((int64_t)100)
#define DZ_CONTROL_IDLE_MAX_MS    ((int64_t)365 * 24 * 3600 * 1000)
#define DZ_CONTROL_TIMEOUT_MIN_MS ((int64_t)100)
#define DZ_CONTROL_EXPIRY_MIN_MS  ((int64_t)1000)
#define DZ_CONTROL_EXPIRY_MAX_MS  ((int64_t)365 * 24 * 3600 * 1000)
#define DZ_CONTROL_TIMEOUT_MAX_MS ((int64_t)365 * 24 * 3600 * 1000)
#define DZ_CONTROL_NO_TIMEOUT     ((int64_t)0)
#define DZ_CONTROL_HOLD_MAX_MS    ((int64_t)30 * 24 * 3600 * 1000)

/* The settings of a new sandbox. NULL, 0: not given. */
struct dz_control_spec {
    const char *id; /* the id to use; NULL: a new one */
    const char *name, *image, *snapshot, *kind, *size, *region, *policy, *keep, *durability;
    const char *idle_mode;
    uint64_t memory_bytes, disk_bytes; /* 0: not given */
    int64_t idle_ms;                   /* DZ_IDLE_INHERIT: not given; DZ_IDLE_OFF */
    const char *volumes_json;          /* a list of mounts (control_volume.c); NULL: none */
    const char *services_json;         /* a list of services (control_service.h); NULL: none */
    const char *services;              /* the same as it is stored */
    const char *env_json;              /* an object of strings */
    const char *labels_json;           /* an object of strings */
    const char *metadata_json;
    const char *open_ports;     /* an array of {"target","protocol","public"} */
    const char *ports;          /* control_port.c: open ports as they are stored */
    int64_t timeout_ms;         /* DZ_CONTROL_NO_TIMEOUT: none */
    const char *timeout_action; /* "destroy" or "pause"; NULL: destroy */
    int64_t silence_ms; /* a connection that is silent for this long does not count; 0: not given */
    const char *network_json; /* an object: the egress rules */
    const char *replica;      /* a URL, DZ_CONTROL_REPLICA_OFF, _DEFAULT; NULL: not given */
    int64_t replica_every_ms; /* 0: the server's */
    struct dz_expiry expiry;  /* date: ms since 1970, by the wall clock */
    bool ignore_cpu;          /* CPU time of the guest does not count as activity */
    bool ephemeral;           /* never suspended; deleted when its cell ends */
    bool no_resume;           /* only an explicit wake wakes it */
    bool no_start;            /* it stays in the state created */
};
/* Create a sandbox. Everything is checked before anything is made. */
DZ_NODISCARD int dz_control_create(struct dz_control *e, const struct dz_control_caller *who,
                                   const struct dz_control_spec *spec, dz_sandbox_done_fn *done,
                                   void *arg, struct dz_why *why);

/* The caller releases the row. */
DZ_NODISCARD int dz_control_get(struct dz_control *e, struct dz_control_target target,
                                struct dz_instance *ret_row, struct dz_why *why);
struct dz_control_filter {
    const char *state, *kind, *image, *label; /* label "k=v" or "k"; NULL: any */
    const char *after;                        /* ids greater than this */
    size_t limit;                             /* 1 to DZ_REGISTRY_LIST_MAX */
    bool newest; /* in descending order: `after` means ids less than that */
};
/* Append rows ordered by id. *ret_more: there are more after the last one. */
DZ_NODISCARD int dz_control_list(struct dz_control *e, const struct dz_control_caller *who,
                                 const struct dz_control_filter *f, struct dz_instances *rows,
                                 bool *ret_more, struct dz_why *why);

/* The changes; NULL, false: unchanged. */
struct dz_control_patch {
    const char *name, *labels_json, *metadata_json, *idle_mode, *replica, *network_json;
    int64_t replica_every_ms; /* 0: the server's */
    bool set_every, set_idle, set_resume, set_timeout, set_silence, set_cpu;
    int64_t idle_ms, silence_ms;
    int64_t timeout_ms; /* from now on; values as in dz_control_spec */
    const char *timeout_action;
    bool set_expiry;
    struct dz_expiry expiry; /* replaces the one that it has */
    bool no_resume, ignore_cpu;
    /* control_port.c: make the new text of the open ports, which the caller frees; or NULL */
    int (*edit_ports)(void *arg, const struct dz_instance *row,
                      const struct dz_sandbox_config *config, char **ret_text, struct dz_err *err);
    /* control_service.c: the same of the services */
    int (*edit_services)(void *arg, const struct dz_instance *row,
                         const struct dz_sandbox_config *config, char **ret_text,
                         struct dz_err *err);
    void *edit_arg;
};
DZ_NODISCARD int dz_control_change(struct dz_control *e, struct dz_control_target target,
                                   const struct dz_control_patch *p, struct dz_instance *ret_row,
                                   struct dz_why *why);

/* One transition: WAKE SUSPEND FREEZE PREFETCH ARCHIVE REVIVE DELETE DESTROY. */
struct dz_control_order {
    enum dz_request what;
    const char *keep;   /* SUSPEND, ARCHIVE: "memory", "files"; WAKE: "files" discards the memory */
    const char *policy; /* WAKE: the policy from now on */
};
DZ_NODISCARD int dz_control_order(struct dz_control *e, struct dz_control_target target,
                                  const struct dz_control_order *order, dz_sandbox_done_fn *done,
                                  void *arg, struct dz_why *why);
/* Wake the sandbox as any request does, and keep it awake at least until that time. */
DZ_NODISCARD int dz_control_hold(struct dz_control *e, struct dz_control_target target,
                                 int64_t until_ms, dz_sandbox_done_fn *done, void *arg,
                                 struct dz_why *why);
DZ_NODISCARD int dz_control_unhold(struct dz_control *e, struct dz_control_target target,
                                   struct dz_instance *ret_row, struct dz_why *why);

/* Copy its files into a new sandbox; result->row is that of the new one. */
struct dz_control_clone {
    const char *tenant; /* the tenant of the new sandbox; NULL: that of the source */
    const char *name;   /* NULL: none */
};
DZ_NODISCARD int dz_control_clone(struct dz_control *e, struct dz_control_target target,
                                  const struct dz_control_clone *clone, dz_sandbox_done_fn *done,
                                  void *arg, struct dz_why *why);
/* Get its public volume as a file. The callback owns fd and closes it. */
typedef void dz_control_file_fn(void *arg, const struct dz_sandbox_result *result, int fd);
DZ_NODISCARD int dz_control_share(struct dz_control *e, struct dz_control_target target,
                                  dz_control_file_fn *done, void *arg, struct dz_why *why);

/* --- what it was created with ------------------------------------------------------------------
 */

/* The date at which the sandbox expires if nothing happens, or, once it has expired, is removed; 0:
 * never. */
int64_t dz_control_expires(struct dz_control *e, const struct dz_instance *row);
/* Convert a time in a row (last_active, wake_at, hold_until, timeout_at), which is on the clock of
 * durations, to a date. */
int64_t dz_control_date(const struct dz_control *e, int64_t at);
struct dz_sandbox_progress;
/* How far the sandbox's file is copied by the operation in progress, or its replica read by a
 * restore into a new sandbox. False: nothing is copied. */
bool dz_control_progress(struct dz_control *e, const char *id,
                         struct dz_sandbox_progress *ret_progress);
/* Disk space of its file and WAL, or of its cold copy; 0: it has none. */
uint64_t dz_control_file_bytes(const struct dz_control *e, const struct dz_instance *row);
/* When it was used last, by the steady clock: while it is active, its row may say an earlier time.
 */
int64_t dz_control_last_active(const struct dz_control *e, const struct dz_instance *row);

#endif

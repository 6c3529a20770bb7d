/* SPDX-License-Identifier: MIT
 *
 * control_int.h - shared inside src/control only.
 */
#ifndef DZ_CONTROL_CONTROL_INT_H
#define DZ_CONTROL_CONTROL_INT_H

#include "base/buf.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "blob/blob_cold.h"
#include "control/control.h"
#include "sandbox/sandbox.h"
#include "sandbox/sandbox_acquire.h"
#include "sandbox/sandbox_config.h"

#include <jansson.h>
#include <pthread.h>

/* An open image from which cells are started. */
struct engine_image {
    struct dz_image info;
    int fd, module_fds[DZ_IMAGE_MODULES_MAX];
    size_t module_count;
    unsigned refs; /* held by cells and by the table */
};

struct dz_control_listener {
    struct dz_list link;
    void (*fn)(void *arg);
    void *arg;
};

/* control_host.c: files of new sandboxes, made ahead. */
enum {
    DZ_CONTROL_PREALLOC_MAX = 4,
};
struct dz_prealloc {
    pthread_mutex_t lock; /* guards outs and count, which workers take */
    struct dz_blob_out *outs[DZ_CONTROL_PREALLOC_MAX];
    size_t count;
    bool made;    /* the lock */
    bool filling; /* a worker is filling */
};

enum {
    DZ_SPACE_STEPS = 8, /* files of the reserve */
};

/* One file of the reserve. */
struct dz_space_step {
    unsigned number;
    uint64_t bytes;
    bool made;
};

/* A sandbox that got a file of the reserve. */
struct dz_space_grant {
    int64_t at; /* dz_clock_mono_ms(); 0: unused */
    char id[DZ_COLD_KEY];
};

/* Free space, and the reserve: control_space.c. */
struct dz_space {
    struct dz_space_opts opts;
    struct dz_control_space now; /* as last measured */
    struct dz_timer *timer;
    uint64_t promised;             /* bytes that copies in progress will take */
    bool shares;                   /* the file system can share blocks between files */
    int dir_fd, reserve_fd;        /* the data directory and the reserve's; -1: none */
    uint64_t held[DZ_SPACE_STEPS]; /* bytes of each file of the reserve; 0: the file is missing */
    struct dz_space_step making;   /* used by the worker while busy */
    struct dz_space_grant given[DZ_SPACE_STEPS];
    bool no_inodes; /* no inode was free when last measured */
    bool busy;      /* a worker is making a file of the reserve */
    bool changed;   /* opts changed since the cells were last notified */
    bool told;      /* a log line and an event have reported the full disk */
};

struct dz_control {
    struct dz_space space;
    struct dz_loop *loop;
    struct dz_cell_pool *pool;
    struct dz_poll *pool_poll;
    struct dz_timer *pool_soon; /* after a start: refill the pool */
    bool pool_due;              /* pool_soon is running */
    bool fences_logged;
    struct dz_registry *registry;
    struct dz_cold cold;
    _Atomic bool cold_stop;      /* requests to the cold storage end */
    struct dz_timer *collection; /* sweeps the cold storage, if that is far */
    struct dz_blobs *snapshots;
    struct dz_blobs *share; /* public files, until they are open */
    struct dz_prealloc prealloc;
    struct dz_sandboxes *sandboxes;
    struct dz_image_store *images;
    char *data_path, *live_path;
    int live_fd;               /* of the directory live_path */
    struct dz_map image_cache; /* sha256 -> engine_image */
    struct dz_map usages;      /* by tenant: control_quota.c */
    struct dz_map keys;        /* "tenant\nkey" of requests in progress -> struct key */
    struct dz_quotas quotas;   /* for tenants without quotas of their own */
    struct dz_timer *measure;  /* measures disk space */
    struct dz_timer *meter;    /* control_usage.c: signs of life in the journal */
    unsigned marks;
    struct dz_usage_prices prices;
    struct dz_timer *sweep; /* removes expired rows of the registry */
    struct {                /* control_snap.c */
        int64_t cell_ms,
            closed_ms; /* time limits: to write a snapshot, plus a part by size; to close it */
        struct dz_list closing;
    } copies;
    struct dz_list listeners, builds;
    struct dz_list volume_holds; /* control_volume_file.c */
    struct dz_list restores;     /* restores of replicas that are not over (control_branch.c) */
    struct dz_control_verify *verify;       /* verification of images in progress; or NULL */
    struct dz_control_replica_opts replica; /* control_replica.c */
    char *replica_url;
    /* NULL: nothing was replicated yet. Workers read it, too. */
    struct dz_replica_engine *_Atomic replicas;
    struct dz_cold_replicas cold_replicas; /* what cold storage may ask of it */
    struct dz_poll *replica_poll;
    struct dz_schedules *schedules; /* control_schedule.c */
    struct dz_map supervisors;      /* control_supervise.c: by id of the sandbox */
    struct dz_control_service_counts services;
    struct dz_egress *egress;    /* control_egress.c; NULL: egress.mode is off */
    struct dz_accounts accounts; /* bytes buffered for tenants */
    struct dz_timer *notify;     /* notifies the listeners of events */
    struct dz_timer *tidy;       /* checkpoints the registry's WAL when it is quiet */
    bool tidy_set, changed;
    bool notify_set, recovered;
    struct { /* counts of recovery: files of branches */
        bool recovered;
        int rc;
        struct dz_err err;
    } intents;
    uint64_t creates;
    char died[16]; /* as in struct dz_control_counts */
    void (*timed)(void *arg, const struct dz_control_timing *timing);
    void *timed_arg;
};
/* call the metrics hook */
void dz_control_timed(struct dz_control *e, const struct dz_control_timing *t);

/* --- control_config.c: what a client says of a sandbox, checked ------------------------- */

/* Each returns 0, or DZ_EINVAL or DZ_ELIMIT with the field. */
int dz_control_check_name(const char *name, struct dz_why *why);
int dz_control_check_env(const char *field, const char *json, struct dz_why *why);
int dz_control_check_spec(const struct dz_control_spec *spec, uint64_t *ret_memory,
                          struct dz_why *why);
/* The texts of the columns config and metadata, which the caller frees. NULL: out of memory. */
char *dz_control_config_text(const struct dz_control_spec *spec, const char *image,
                             uint64_t memory_bytes);
char *dz_control_metadata_text(const char *labels_json, const char *metadata_json);
/* control_port.c: check the ports of a creation; unless ret_text is NULL, make the text for
 * spec.ports, which the caller frees. */
int dz_control_ports_make(const char *list_json, const char *id, char **ret_text,
                          struct dz_why *why);
/* control_token.c: make a secret, and the hash that is stored. */
int dz_control_secret_new(char ret_secret[static DZ_CONTROL_SECRET],
                          char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err);
/* The only tenant whose objects the caller sees; NULL: the caller sees all tenants. */
static inline const char *dz_control_sees(const struct dz_control_caller *who)
{
    return who->is_operator ? NULL : who->tenant;
}
/* --- control_volume.c: the mounts of a sandbox ----------------------------------------------- */

/* The volumes of one start, open. */
struct dz_volumes {
    struct dz_cell_volume of[DZ_CELL_VOLUMES_MAX];
    size_t count;
    json_t *list; /* has their names and paths */
};
/* Is this a sound list of mounts, of volumes that there are? NULL is. */
int dz_volumes_check(struct dz_control *e, const struct dz_control_caller *who, const char *json,
                     struct dz_why *why);
/* Take the leases of a sandbox that is being woken, and open the files. DZ_EVOLUME with a sentence
 * that names the volume: it is gone, or another sandbox or a request has it. The leases end with
 * the run, or with the operation if that fails. */
int dz_volumes_open(struct dz_control *e, const struct dz_instance *row, const char *json,
                    struct dz_volumes *ret, struct dz_err *err);
void dz_volumes_close(struct dz_volumes *v);
/* Remove files of volumes that the registry does not have. */
void dz_volumes_sweep(struct dz_control *e);
/* For a new volume: is its name valid, and may the tenant have one more? */
int dz_volume_check_new(struct dz_control *e, const struct dz_control_caller *who, const char *name,
                        struct dz_why *why);
/* Add the row of a volume whose file is complete. */
int dz_volume_register(struct dz_control *e, const struct dz_volume_row *row,
                       struct dz_control_volume *ret, struct dz_why *why);
void dz_volume_remove_files(const struct dz_control *e, const char *id);
/* Open the file of a volume, as v->readonly says; the descriptors are as the cell wants them. */
int dz_volume_open(const struct dz_control *e, const char *id, struct dz_cell_volume *v,
                   struct dz_err *err);
void dz_volume_close(struct dz_cell_volume *v);
/* control_volume_file.c: does a request use the files, so that a sandbox cannot mount them? */
bool dz_volume_held(const struct dz_control *e, const char *id, bool writes);

/* --- control_service.c, control_supervise.c: services ---------------------------------------- */

/* Check a list of services, and make the text for spec.services, which the caller frees. */
int dz_services_make(const char *list_json, char **ret_text, struct dz_why *why);
/* The machine of a sandbox runs, or is gone; programs listen on other ports; the row was erased. */
void dz_services_up(struct dz_control *e, struct dz_sandbox *s, bool woke);
void dz_services_down(struct dz_control *e, struct dz_sandbox *s, bool kept);
void dz_services_ports(struct dz_control *e, struct dz_sandbox *s);
void dz_services_erased(struct dz_control *e, const char *id);
/* The services in the row were changed. services: a JSON array; NULL: none are left. */
void dz_services_changed(struct dz_control *e, const char *id, const char *services);
/* Follow an order; the sandbox is up. */
void dz_services_order(struct dz_control *e, const char *id, const char *name,
                       enum dz_control_service_act act);
/* Fill in how a service runs. */
void dz_services_state(struct dz_control *e, const struct dz_instance *row,
                       struct dz_control_service *service);
/* The settings of an object in the list; and the needs of all of them, once each has its slot. */
void dz_service_settings(const json_t *spec, struct dz_service *s);
void dz_services_link(struct dz_service_set *set, const json_t *list);
void dz_services_release(struct dz_control *e);

/* --- control_target.c: which sandbox a word means -----------------------------------------------
 */

/* A word is looked up like this: TENANT/NAME in that tenant; other names in the caller's own
 * tenant, and ids in all tenants that the caller sees. */

/* A table of the registry whose rows a word names. */
struct dz_control_records {
    const struct dz_registry_table *table;
    const char *what; /* "volume" */
    size_t expires;   /* offset of the time after which a row counts as missing; 0: none */
};
/* DZ_ENOENT: the caller sees no row of this id or name. */
DZ_NODISCARD int dz_control_record(struct dz_control *e, struct dz_control_target target,
                                   const struct dz_control_records *of, void *ret_row,
                                   struct dz_why *why);
/* Find the row that a word names, if this caller may see it. */
int dz_control_find(struct dz_control *e, struct dz_control_target target,
                    struct dz_instance *ret_row, struct dz_why *why);
/* The same for everything but reading and deleting it: DZ_EGONE if the sandbox has expired. */
int dz_control_row(struct dz_control *e, struct dz_control_target target,
                   struct dz_instance *ret_row, struct dz_why *why);

/* control_host.c: the user id for cells of this tenant. */
int dz_control_user_of(struct dz_control *e, const char *tenant, uint32_t *ret_user,
                       struct dz_err *err);
void dz_control_pool_used(struct dz_control *e); /* control.c: a cell was taken from the pool */

/* --- control_build.c: what an earlier daemon left; at the end ------------------------------- */

int dz_control_builds_sweep(struct dz_control *e, struct dz_err *err);
void dz_control_builds_free(struct dz_control *e);

/* --- control_host.c: preallocated files --------------------------------------------------------
 */

int dz_prealloc_init(struct dz_prealloc *r, struct dz_err *err);
void dz_prealloc_release(struct dz_prealloc *r);
size_t dz_prealloc_count(struct dz_prealloc *r);
void dz_prealloc_fill(struct dz_control *e); /* make more soon, if some are missing */

/* --- control_image.c -------------------------------------------------------------------------- */

int dz_control_image_get(struct dz_control *e, const char *sha256, struct engine_image **ret_image,
                         struct dz_err *err);
void dz_control_image_put(struct dz_control *e, struct engine_image *image); /* NULL is fine */
void dz_control_images_forget(struct dz_control *e, const char *sha256);     /* NULL: all */
int dz_control_image_find(struct dz_control *e, const char *name,
                          char ret_sha256[static DZ_SHA256_HEX], struct dz_why *why);

/* --- control_key.c ------------------------------------------------------------------------------
 */

void dz_control_sweep(void *control); /* callback of a timer, which it sets again */
void dz_control_keys_release(struct dz_control *e);

/* --- control_quota.c ----------------------------------------------------------------------------
 */

/* Disk space that a copy will take. From dz_room_take() until dz_room_end(), which every copy must
 * call, it counts as used by the tenant and the token, and as not free. */
struct dz_room {
    struct dz_control *e; /* NULL: nothing was taken */
    uint64_t bytes;
    bool shared; /* the copy shares its blocks with an existing file, if the file system can: they
                    stay free */
    char tenant[DZ_CONTROL_VALUE_MAX + 1], token[DZ_ID_TEXT]; /* "": none */
};
struct dz_room_of {
    const char *tenant, *token; /* token: NULL or "": none */
    uint64_t bytes;
    bool shared;
};
/* DZ_EQUOTA, DZ_ENOSPC: there is not enough. */
int dz_room_take(struct dz_control *e, const struct dz_room_of *of, struct dz_room *ret_room,
                 struct dz_why *why);
/* Check only. */
int dz_room_check(struct dz_control *e, const struct dz_room_of *of, struct dz_why *why);
/* Change the size of the copy to what is known now. On failure the room is unchanged. */
int dz_room_resize(struct dz_room *room, uint64_t bytes, struct dz_why *why);
/* kept: the copy exists, and its room still counts until the disk is measured again. May be called
 * at any time. */
void dz_room_end(struct dz_room *room, bool kept);

/* Begin a creation if it is within all quotas. It ends by dz_usage_created, which takes the
 * returned object as its argument and calls done, or by dz_usage_create_over. NULL: refused; *why
 * has the reason. */
struct dz_control_creation {
    const char *tenant, *token;
    uint64_t memory_bytes;
    bool starts;
    uint64_t copy_bytes; /* bytes that its file takes at once */
    bool shared;         /* as of struct dz_room */
};
struct dz_creating;
struct dz_creating *dz_usage_create(struct dz_control *e, const struct dz_control_creation *c,
                                    dz_sandbox_done_fn *done, void *arg, struct dz_why *why);
void dz_usage_created(void *creating, const struct dz_sandbox_result *result);
void dz_usage_create_over(struct dz_creating *c);
/* Is one more row within the quotas? Checked again when the row is entered late. */
int dz_usage_room(struct dz_control *e, const char *tenant, const char *token, struct dz_why *why);
/* count one more row */
void dz_usage_counted(struct dz_control *e, const struct dz_instance *row, int by);
/* Check the quotas for a wake. On success the sandbox counts as awake until dz_usage_cold. */
int dz_usage_may_wake(struct dz_control *e, const struct dz_instance *row, struct dz_why *why);
int dz_usage_warm(struct dz_control *e, struct dz_sandbox *s, const struct dz_instance *row,
                  struct dz_why *why);
void dz_usage_cold(struct dz_control *e, struct dz_sandbox *s);
/* Check the quotas for one more file-only cell. On success it counts until dz_usage_warm or
 * dz_usage_cold.
 */
int dz_usage_may_open(struct dz_control *e, const struct dz_instance *row, struct dz_why *why);
void dz_usage_open(struct dz_control *e, struct dz_sandbox *s, const struct dz_instance *row);
/* The most that each of the sandbox's files may take if its cell obeys; 0: no limit. */
uint64_t dz_usage_most(struct dz_control *e, const struct dz_sandbox *s);
/* notifies its cell how much it may still write */
void dz_usage_notify_disk(struct dz_control *e, struct dz_sandbox *s);
/* Size of a sandbox's file and WAL in blocks of the file system: 0 if neither exists. */
uint64_t dz_live_bytes(const struct dz_control *e, const char *id);
void dz_usages_measure(void *control); /* callback of a timer, which it sets again */
int dz_quotas_read(const char *json, struct dz_quotas *q, struct dz_why *why);
/* The kind of an image's programs, "wasm" or "linux"; "wasm" if there is no image (""). */
int dz_control_kind_of(struct dz_control *e, const char *sha256, const char **ret_kind,
                       struct dz_err *err);
/* The memory limit of a machine: the given one, else the image's, else the policy's. */
int dz_control_memory_of(struct dz_control *e, const char *sha256, const char *policy,
                         uint64_t given_bytes, uint64_t *ret_bytes, struct dz_err *err);
int dz_control_know_tenant(struct dz_control *e, const char *tenant, struct dz_err *err);
/* Count one more idempotency key of this tenant, if its limit allows it. */
int dz_usage_key(struct dz_control *e, const char *tenant, struct dz_why *why);
/* Is one more schedule within the quota of its tenant? */
int dz_usage_schedule(struct dz_control *e, const char *tenant, struct dz_why *why);
void dz_usages_recount_keys(struct dz_control *e);
void dz_usages_release(struct dz_control *e);

/* --- control_usage.c ----------------------------------------------------------------------------
 */

void dz_meter_file(struct dz_control *e, const char *id); /* the size of its file may be another */
void dz_meter_tick(void *control); /* callback of a timer, which it sets again */

/* --- control_space.c ----------------------------------------------------------------------------
 */

int dz_space_open(struct dz_control *e, const struct dz_space_opts *opts, struct dz_err *err);
void dz_space_watch(struct dz_control *e); /* measure now, and then regularly */
void dz_space_close(struct dz_control *e);
/* DZ_ENOSPC with a sentence for the client if the disk is at this level or worse. */
int dz_space_check(struct dz_control *e, enum dz_space_level level, struct dz_why *why);
/* The same for DZ_SPACE_FULL, assuming that `bytes` more and everything promised is used. */
int dz_space_check_for(struct dz_control *e, uint64_t bytes, struct dz_why *why);
/* Notify the sandbox's cell how much it must leave free on the host, and the limit of its disk. */
void dz_space_notify(const struct dz_control *e, struct dz_sandbox *s);
/* A write failed with ENOSPC: give up one file of the reserve. False: none is left. */
bool dz_space_release(void *control);
/* The same for a step of an operation on this sandbox. Leaves the last files to the registry, which
 * must still record how the operation ended. False also if the disk is not full, or if this sandbox
 * got a file in the last minute. */
bool dz_space_make_room(void *control, const char *id);

/* --- control_schedule.c ------------------------------------------------------------------------
 */

int dz_control_schedules_open(struct dz_control *e, struct dz_err *err);

/* --- control_replica.c -------------------------------------------------------------------------
 */

int dz_replicas_open(struct dz_control *e, const struct dz_control_replica_opts *o,
                     struct dz_err *err);
void dz_replicas_close(struct dz_control *e);
/* A row is new or was changed: replicate the sandbox, or stop that, as its settings say. */
void dz_replica_row(struct dz_control *e, const struct dz_instance *row);
void dz_replica_rows(struct dz_control *e, const char *tenant); /* all rows; NULL: any tenant */
void dz_replica_erased(struct dz_control *e, const char *id);
/* A cell is about to get these files; it is gone, or exits. */
void dz_replica_attach(struct dz_control *e, const char *id, int disk_fd, int wal_fd);
void dz_replica_detach(struct dz_control *e, const char *id);
/* Check a sandbox's setting. NULL: not given. */
int dz_replica_check_url(const char *url, bool is_operator, struct dz_why *why);
/* The URL of this sandbox's replica, of DZ_REPLICA_URL_MAX bytes. DZ_ESTATE: it has none. */
int dz_replica_place(const struct dz_control *e, const struct dz_instance *row, char *ret_url,
                     struct dz_why *why);

/* --- control_host.c: what sandboxes need of the control plane
 * -------------------------------------------
 */

extern const struct dz_sandbox_host dz_control_host;
extern const struct dz_sandbox_files dz_control_files;

/* --- control_sandbox.c
 * ----------------------------------------------------------------------------
 */

/* Start a sandbox whose row is new, unless it is not to be started. Its file exists, or its first
 * wake makes it. */
int dz_control_started(struct dz_control *e, const struct dz_instance *row, bool no_start,
                       dz_sandbox_done_fn *done, void *arg, struct dz_why *why);
/* Destroy a sandbox that was just created, because its creation failed. */
void dz_control_undo(struct dz_control *e, const char *id);
/* Does this sandbox wait for the disk with each answer? */
bool dz_control_is_strict(const struct dz_instance *row);
void dz_control_note(struct dz_control *e, const struct dz_instance *row, const char *what,
                     const char *detail); /* records an event */

/* --- control_snap.c, control_branch.c ----------------------------------------------------------
 */

struct snap_label {
    const char *kind;  /* kind of the snapshot: a literal */
    const char *name;  /* NULL: none */
    int64_t expires;   /* 0: never */
    const char *child; /* id of the sandbox whose file the copy becomes, under its intent file;
                          NULL: a snapshot */
    const char *tenant, *token; /* of that sandbox */
    /* For a child: its file is complete, and a worker is about to sync it. True: the sandbox's row
     * was entered, and its start begun beside the sync; dz_control_snap_fn then tells how that
     * went. False: that function begins the sandbox. NULL: the same. */
    bool (*ahead)(void *arg);
};
/* Remove snapshots, forks and references that have expired. */
void dz_control_handles_sweep(struct dz_control *e);
/* The time at which a handle made now expires. */
int64_t dz_control_expiry(const struct dz_control_handle *as);
/* Has it expired? Its row may still exist. */
bool dz_control_expired(int64_t expires);
/* An existing object whose name is requested for a new one: DZ_EEXIST, or 0 if it has expired. */
struct dz_control_named {
    const char *kind, *name, *id, *sandbox_id;
    int64_t expires;
};
int dz_control_check_free(struct dz_control *e, const struct dz_control_named *old,
                          struct dz_why *why);
int dz_snap_remove(struct dz_control *e, const char *id, struct dz_err *err);
int dz_fork_remove(struct dz_control *e, const struct dz_fork_row *row, struct dz_err *err);
/* done gets a row in both cases. With a child the callback then owns the child's intent file. */
int dz_control_snapshot_of(struct dz_control *e, const struct dz_instance *row,
                           struct snap_label label, dz_control_snap_fn *done, void *arg,
                           struct dz_why *why);
void dz_copies_init(struct dz_control *e);
/* False: unsolicited; the cell was not asked for a copy. */
bool dz_copy_event(struct dz_sandbox *s, const struct dz_cell_event *event);
/* Fail the pending copies of this sandbox: the cell is gone or will not make them. */
/* code 0: without a notification */
void dz_copy_down(struct dz_sandbox *s, int code, const char *text);
/* Size of the copy that its cell is writing, as the file system reports it. */
uint64_t dz_copy_bytes(const struct dz_sandbox *s);
void dz_copies_free(struct dz_sandbox *s); /* the sandbox object is freed: without a notification */
/* the same for copies that have left their sandboxes */
void dz_copies_release(struct dz_control *e);
/* Disk space that a branch of the snapshot takes. */
uint64_t dz_snap_bytes(const struct dz_control *e, const char *id);
int dz_snap_remove_files(const struct dz_control *e, const char *id, struct dz_err *err);
/* the sandbox was deleted: remove its pause snapshot */
void dz_control_pause_over(struct dz_control *e, const char *sandbox);
/* Create a sandbox from spec->snapshot. */
int dz_control_branch(struct dz_control *e, const struct dz_control_caller *who,
                      const struct dz_control_spec *spec, dz_sandbox_done_fn *done, void *arg,
                      struct dz_why *why);

/* --- control_intent.c --------------------------------------------------------------------------
 */

/* Claim the files of this sandbox or snapshot: they come before its row, or go after it. Any
 * thread. */
int dz_intent_make(const struct dz_control *e, const char *id, struct dz_err *err);
bool dz_intent_exists(const struct dz_control *e, const char *id);
/* files and row agree: remove the intent file */
void dz_intent_remove(const struct dz_control *e, const char *id);
/* remove the files, then the intent file */
int dz_intent_undo(const struct dz_control *e, const char *id, struct dz_err *err);
/* Undo the intents that an earlier daemon left. */
int dz_intents_recover(const struct dz_control *e, struct dz_err *err);

/* --- control_egress.c ---------------------------------------------------------------------------
 */
struct dz_control_egress_opts;
struct dz_net_query;
int dz_egress_open(struct dz_control *e, const struct dz_control_egress_opts *o,
                   struct dz_err *err);
void dz_egress_close(struct dz_control *e);
/* Check the field `network` of a request. NULL is fine. */
int dz_egress_check(const struct dz_control *e, const char *network_json, struct dz_why *why);
/* As the functions net_connect, net_closed and net_query of struct dz_sandbox_host. */
void dz_egress_connect(struct dz_control *e, const struct dz_sandbox *s, uint64_t ticket,
                       const struct dz_cell_address *to);
void dz_egress_closed(struct dz_control *e, uint64_t ticket);
void dz_egress_query(struct dz_control *e, const struct dz_sandbox *s,
                     const struct dz_net_query *query);
/* The rules of the sandbox have changed: end the connections that they forbid. */
void dz_egress_changed(struct dz_control *e, const char *id);
void dz_egress_sweep(struct dz_control *e);

#endif

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

#include <pthread.h>

/* An image as cells are started from it. */
struct engine_image {
    struct dz_image info;
    int fd, module_fds[DZ_IMAGE_MODULES_MAX];
    size_t module_count;
    unsigned refs; /* cells, and one for the table */
};

struct dz_control_ear {
    struct dz_list link;
    void (*fn)(void *arg);
    void *arg;
};

/* control_ready.c: files of new sandboxes, made ahead. */
enum {
    DZ_CONTROL_READY = 4,
};
struct dz_ready {
    pthread_mutex_t lock; /* of outs and count: workers take them */
    struct dz_blob_out *outs[DZ_CONTROL_READY];
    size_t count;
    bool made;    /* the lock */
    bool filling; /* a worker is at it */
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

/* Who was given one. */
struct dz_space_given {
    int64_t at; /* dz_clock_mono_ms(); 0: nobody */
    char id[DZ_COLD_KEY];
};

/* Free space, and the reserve: control_space.c. */
struct dz_space {
    struct dz_space_opts opts;
    struct dz_control_space now; /* as of the last look */
    struct dz_timer *timer;
    uint64_t promised;             /* bytes that copies under way will take */
    bool shares;                   /* the file system can share blocks between files */
    int dir_fd, reserve_fd;        /* the data directory and the reserve's; -1: none */
    uint64_t held[DZ_SPACE_STEPS]; /* bytes of each file of the reserve; 0: it is not there */
    struct dz_space_step making;   /* a worker's while it is */
    struct dz_space_given given[DZ_SPACE_STEPS];
    bool no_inodes; /* are free, as of the last look */
    bool busy;      /* with it */
    bool changed;   /* opts, since cells were told */
    bool told;      /* the log and the events say that the disk is full */
};

struct dz_control {
    struct dz_space space;
    struct dz_loop *loop;
    struct dz_cell_pool *pool;
    struct dz_poll *pool_poll;
    struct dz_timer *pool_soon; /* after a start: fork another ahead */
    bool pool_due;              /* it is set */
    bool fences_logged;
    struct dz_registry *registry;
    struct dz_cold cold;
    struct dz_blobs *snapshots;
    struct dz_blobs *share; /* public files, each until it is open */
    struct dz_ready ready;
    struct dz_sandboxes *sandboxes;
    struct dz_image_store *images;
    char *data_path, *live_path;
    struct dz_map image_cache;      /* sha256 -> engine_image */
    struct dz_map uses;             /* by tenant: control_quota.c */
    struct dz_map keys;             /* "tenant\nkey" of requests under way -> struct key */
    struct dz_quotas quotas;        /* of tenants without their own */
    struct dz_timer *measure;       /* disk space */
    struct dz_timer *sweep;         /* of the registry */
    struct {                        /* control_snap.c */
        int64_t cell_ms, closed_ms; /* for a cell to write one, besides what its size takes; and to
                                       close it */
        struct dz_list closing;
    } copies;
    struct dz_list ears, builds;
    struct dz_control_verify *verify; /* of images, under way; or NULL */
    struct dz_accounts accounts;      /* bytes that wait in memory */
    struct dz_timer *told;            /* events are to be told */
    struct dz_timer *tidy;            /* the registry's log is to be moved, once it is quiet */
    bool tidy_set, changed;
    bool told_set, recovered;
    struct { /* what became of the files of branches, at the start of recovery */
        bool settled;
        int rc;
        struct dz_err err;
    } claims;
    uint64_t creates;
    char died[16]; /* as in struct dz_control_counts */
    void (*timed)(void *arg, const struct dz_control_timing *timing);
    void *timed_arg;
};
void dz_control_timed(struct dz_control *e,
                      const struct dz_control_timing *t); /* tell who counts */

/* --- control_config.c: what a client says of a sandbox, checked ------------------------- */

/* Each is 0 or DZ_EINVAL, DZ_ELIMIT with the field. Texts are as they are kept. */
int dz_control_check_name(const char *name, struct dz_why *why);
int dz_control_check_env(const char *field, const char *json, struct dz_why *why);
int dz_control_check_spec(const struct dz_control_spec *spec, uint64_t *ret_memory,
                          struct dz_why *why);
/* The texts of the columns config and metadata; to be freed. NULL: out of memory. */
char *dz_control_config_text(const struct dz_control_spec *spec, const char *image,
                             uint64_t memory_bytes);
char *dz_control_metadata_text(const char *labels_json, const char *metadata_json);
/* The only tenant whose things he sees; NULL: he sees all. */
static inline const char *dz_control_sees(const struct dz_control_caller *who)
{
    return who->is_operator ? NULL : who->tenant;
}
/* --- control_target.c: which sandbox a word means -----------------------------------------------
 */

/* Where a word is looked for: TENANT/NAME in that tenant; else names in the caller's own, and ids
 * in all that the caller sees. */
struct dz_control_place {
    const char *sees, *home, *word;       /* word: what is behind the '/' */
    char named[DZ_CONTROL_VALUE_MAX + 1]; /* the tenant before the '/', "": none */
};
struct dz_control_place dz_control_place(struct dz_control_target target);
/* The row that a word means, if this caller may see it. */
int dz_control_row(struct dz_control *e, struct dz_control_target target,
                   struct dz_instance *ret_row, struct dz_why *why);

void dz_control_pool_used(struct dz_control *e); /* control.c: a cell was taken from the pool */

/* --- control_build.c: what an earlier daemon left; at the end ------------------------------- */

int dz_control_builds_sweep(struct dz_control *e, struct dz_err *err);
void dz_control_builds_free(struct dz_control *e);

/* --- control_ready.c ----------------------------------------------------------------------------
 */

int dz_ready_init(struct dz_ready *r, struct dz_err *err);
void dz_ready_release(struct dz_ready *r);
/* The caller's; NULL: there is none. Any thread. */
struct dz_blob_out *dz_ready_take(struct dz_ready *r);
size_t dz_ready_count(struct dz_ready *r);
void dz_ready_fill(struct dz_control *e); /* soon; where it is time for that */
/* An empty disk. Any thread. */
int dz_ready_write(struct dz_blob_out *out, struct dz_err *err);

/* --- control_image.c -------------------------------------------------------------------------- */

int dz_control_image_get(struct dz_control *e, const char *sha256, struct engine_image **ret_image,
                         struct dz_err *err);
void dz_control_image_put(struct dz_control *e, struct engine_image *image); /* NULL is fine */
void dz_control_images_forget(struct dz_control *e, const char *sha256);     /* NULL: all */
int dz_control_image_find(struct dz_control *e, const char *name,
                          char ret_sha256[static DZ_SHA256_HEX], struct dz_why *why);

/* --- control_key.c ------------------------------------------------------------------------------
 */

void dz_control_sweep(void *control); /* a timer's; sets itself again */
void dz_control_keys_release(struct dz_control *e);

/* --- control_quota.c ----------------------------------------------------------------------------
 */

/* Disk space that a copy will take. From dz_room_take() on it counts as used, by a tenant and his
 * token, and as not free; until dz_room_end(), which every copy comes to. */
struct dz_room {
    struct dz_control *e; /* NULL: nothing was taken */
    uint64_t bytes;
    bool shared; /* with a file that is there, where the file system can: then it stays free */
    char tenant[DZ_CONTROL_VALUE_MAX + 1], token[DZ_ID_TEXT]; /* "": none */
};
struct dz_room_of {
    const char *tenant, *token; /* token: NULL or "": none */
    uint64_t bytes;
    bool shared;
};
/* DZ_EQUOTA, DZ_ENOSPC: there is none. */
int dz_room_take(struct dz_control *e, const struct dz_room_of *of, struct dz_room *ret_room,
                 struct dz_why *why);
/* The same, without taking it. */
int dz_room_check(struct dz_control *e, const struct dz_room_of *of, struct dz_why *why);
/* It takes so many bytes, as is known now. Else it has what it had. */
int dz_room_resize(struct dz_room *room, uint64_t bytes, struct dz_why *why);
/* kept: the copy is there, and counts as it was until the disk is measured again. Any time. */
void dz_room_end(struct dz_room *room, bool kept);

/* A creation: is it within all quotas? Then it is under way; it ends by dz_use_created, which
 * takes this for its argument and calls done, or by dz_use_create_over. NULL: why. */
struct dz_control_creation {
    const char *tenant, *token;
    uint64_t memory_bytes;
    bool starts;
    uint64_t copy_bytes; /* that its file will take at once */
    bool shared;         /* as of struct dz_room */
};
struct dz_creating;
struct dz_creating *dz_use_create(struct dz_control *e, const struct dz_control_creation *c,
                                  dz_sandbox_done_fn *done, void *arg, struct dz_why *why);
void dz_use_created(void *creating, const struct dz_sandbox_result *result);
void dz_use_create_over(struct dz_creating *c);
/* May there be one more row? Asked again by what enters it late. */
int dz_use_room(struct dz_control *e, const char *tenant, const char *token, struct dz_why *why);
void dz_use_counted(struct dz_control *e, const struct dz_instance *row, int by); /* a row more */
/* May it be woken now? And: it is, until dz_use_cold. */
int dz_use_may_wake(struct dz_control *e, const struct dz_instance *row, struct dz_why *why);
int dz_use_warm(struct dz_control *e, struct dz_sandbox *s, const struct dz_instance *row,
                struct dz_why *why);
void dz_use_cold(struct dz_control *e, struct dz_sandbox *s);
/* May one more cell be opened that has only a file? And: it is, until dz_use_warm or dz_use_cold.
 */
int dz_use_may_open(struct dz_control *e, const struct dz_instance *row, struct dz_why *why);
void dz_use_open(struct dz_control *e, struct dz_sandbox *s, const struct dz_instance *row);
/* What each of the files of a sandbox may take, if its cell obeys; 0: there is no limit. */
uint64_t dz_use_most(struct dz_control *e, const struct dz_sandbox *s);
void dz_use_tell_disk(struct dz_control *e,
                      struct dz_sandbox *s); /* its cell, how much it may write still */
/* Blocks of a sandbox's file and log, as the file system counts them: 0 when neither is there. */
uint64_t dz_live_bytes(const struct dz_control *e, const char *id);
void dz_uses_measure(void *control); /* a timer's; sets itself again */
int dz_quotas_read(const char *json, struct dz_quotas *q, struct dz_why *why);
/* The kind of an image's programs, "wasm" or "linux"; of no image ("") the first. */
int dz_control_kind_of(struct dz_control *e, const char *sha256, const char **ret_kind,
                       struct dz_err *err);
/* The bytes that its machine may have: said, the image's, the policy's. */
int dz_control_memory_of(struct dz_control *e, const char *sha256, const char *policy,
                         uint64_t said_bytes, uint64_t *ret_bytes, struct dz_err *err);
int dz_control_know_tenant(struct dz_control *e, const char *tenant, struct dz_err *err);
/* One more idempotency key of this tenant, if it may have that. */
int dz_use_key(struct dz_control *e, const char *tenant, struct dz_why *why);
void dz_uses_recount_keys(struct dz_control *e);
void dz_uses_release(struct dz_control *e);

/* --- control_space.c ----------------------------------------------------------------------------
 */

int dz_space_open(struct dz_control *e, const struct dz_space_opts *opts, struct dz_err *err);
void dz_space_watch(struct dz_control *e); /* look now, and regularly */
void dz_space_close(struct dz_control *e);
/* DZ_ENOSPC with a sentence for the client if the disk is at this level or worse, now. */
int dz_space_check(struct dz_control *e, enum dz_space_level level, struct dz_why *why);
/* The same at DZ_SPACE_FULL, if so many bytes more were taken, and all that was promised. */
int dz_space_check_for(struct dz_control *e, uint64_t bytes, struct dz_why *why);
/* Its cell: what it leaves free on the host, and what its disk may take. */
void dz_space_tell(const struct dz_control *e, struct dz_sandbox *s);
/* A write met ENOSPC: gives up one file of the reserve. False: none is left. */
bool dz_space_release(void *control);
/* The same for a step of an operation on this sandbox, which leaves the last files to the registry:
 * it must still write down how the operation ended. False, too: the disk is not full, or this
 * sandbox had one in the last minute. */
bool dz_space_make_room(void *control, const char *id);

/* --- control_host.c: what sandboxes need of the control plane
 * -------------------------------------------
 */

extern const struct dz_sandbox_host dz_control_host;
extern const struct dz_sandbox_files dz_control_files;

/* --- control_sandbox.c
 * ----------------------------------------------------------------------------
 */

/* A row that is new, with its file, or one that is made by its first wake: start it, or do not. */
int dz_control_started(struct dz_control *e, const struct dz_instance *row, bool no_start,
                       dz_sandbox_done_fn *done, void *arg, struct dz_why *why);
void dz_control_note(struct dz_control *e, const struct dz_instance *row, const char *what,
                     const char *detail); /* an event */

/* --- control_snap.c, control_branch.c ----------------------------------------------------------
 */

struct snap_label {
    const char *kind; /* what made it: a literal */
    const char *name; /* NULL: none */
    int64_t expires;  /* 0: never */
    const char
        *child; /* id of a sandbox whose file it becomes, under its claim; NULL: a snapshot */
    const char *tenant, *token; /* of that sandbox */
};
/* Snapshots, forks and references whose time is over go. */
void dz_control_handles_sweep(struct dz_control *e);
/* When a handle that is made now goes. */
int64_t dz_control_expiry(const struct dz_control_handle *as);
/* Is it over, though it may still be there? */
bool dz_control_expired(int64_t expires);
/* What has a name that is to be given: DZ_EEXIST, or 0 where it has expired. */
struct dz_control_named {
    const char *kind, *name, *id, *sandbox_id;
    int64_t expires;
};
int dz_control_check_free(struct dz_control *e, const struct dz_control_named *old,
                          struct dz_why *why);
int dz_snap_remove(struct dz_control *e, const char *id, struct dz_err *err);
int dz_fork_remove(struct dz_control *e, const struct dz_fork_row *row, struct dz_err *err);
/* done gets a row in either case; a child's names its claim, which then is the callback's. */
int dz_control_snapshot_of(struct dz_control *e, const struct dz_instance *row,
                           struct snap_label label, dz_control_snap_fn *done, void *arg,
                           struct dz_why *why);
void dz_copies_init(struct dz_control *e);
/* False: the cell was not asked. */
bool dz_copy_event(struct dz_sandbox *s, const struct dz_cell_event *event);
/* Who waits is told so: the cell is gone, or will not come to it. */
void dz_copy_down(struct dz_sandbox *s, int code, const char *text); /* code 0: nobody is told */
/* Bytes of the one that its cell is writing, as the file system has them. */
uint64_t dz_copy_bytes(const struct dz_sandbox *s);
void dz_copies_free(struct dz_sandbox *s);    /* the sandbox object ends: nobody is told */
void dz_copies_release(struct dz_control *e); /* the same of those that have left their boxes */
/* What a branch of it takes. */
uint64_t dz_snap_bytes(const struct dz_control *e, const char *id);
int dz_snap_remove_files(const struct dz_control *e, const char *id, struct dz_err *err);
void dz_control_pause_over(struct dz_control *e, const char *sandbox); /* it is deleted */
/* A new sandbox of spec->snapshot. */
int dz_control_branch(struct dz_control *e, const struct dz_control_caller *who,
                      const struct dz_control_spec *spec, dz_sandbox_done_fn *done, void *arg,
                      struct dz_why *why);

/* --- control_claim.c -------------------------------------------------------------------------- */

/* Files of this sandbox or snapshot come before its row, or go after it. Any thread. */
int dz_claim_make(const struct dz_control *e, const char *id, struct dz_err *err);
bool dz_claim_is(const struct dz_control *e, const char *id);
void dz_claim_over(const struct dz_control *e, const char *id);                    /* they agree */
int dz_claim_undo(const struct dz_control *e, const char *id, struct dz_err *err); /* remove them */
/* What an earlier daemon left. */
int dz_claims_settle(const struct dz_control *e, struct dz_err *err);

#endif

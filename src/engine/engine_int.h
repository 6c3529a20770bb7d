/* SPDX-License-Identifier: MIT
 *
 * engine_int.h - shared inside src/engine only.
 */
#ifndef DZ_ENGINE_ENGINE_INT_H
#define DZ_ENGINE_ENGINE_INT_H

#include "base/buf.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "blob/blob_cold.h"
#include "engine/engine.h"
#include "runtime/runtime_exec.h"
#include "runtime/runtime_op.h"

#include <pthread.h>

/* A sandbox that has a cell, or somebody who waits for one.
 *
 *   NONE --start--> STARTING --up--> UP --suspend--> STOPPING --> NONE
 *     `--files-----> OPENING --> FILES --suspend--> STOPPING
 *
 * In OPENING and FILES the cell has the file and no machine; the keeper holds back
 * all requests for the sandbox then (DZ_REQUEST_FILES). */
enum box_phase {
    BOX_NONE,
    BOX_STARTING,
    BOX_UP,
    BOX_OPENING,
    BOX_FILES,
    BOX_STOPPING,
};
enum wake_step { /* engine_wake.c */
    WAKE_ASKED,
    WAKE_SENT,
    WAKE_UP,
    WAKE_TOLD,
    WAKE_WRITTEN,
    WAKE_STEPS,
};
enum box_start { /* engine_start.c */
    START_NONE,
    START_QUEUED, /* waits for a cell: it has none */
    START_BEGUN,  /* counts among those that start */
};

struct box {
    struct dz_engine *e;
    enum box_phase phase;
    bool reserved;     /* at the keeper, for FILES */
    bool hurry;        /* somebody waits until FILES is over */
    bool drop_memory;  /* as the keeper's start under way has it, with its ticket */
    bool keep_memory;  /* of the stop under way */
    bool lost;         /* the start under way found its memory lost */
    bool local;        /* of its start: there was no cold copy, so its commit need not be synced */
    size_t served;     /* requests of those that wait for its wake: they have what they came for */
    bool ephemeral;    /* it is not put to sleep, but destroyed */
    bool file_counted; /* its cell has only the file, and is counted as such */
    bool counted;      /* among those that are awake, with memory and owner: */
    uint64_t memory;
    uint64_t disk_left;  /* the cell was told; 0: nothing yet */
    uint64_t disk_limit; /* as its config says; 0: the server's */
    uint64_t disk_state; /* bytes that its memory may take in its file besides */
    char owner[DZ_ID_TEXT];
    uint64_t ticket;               /* the keeper's, of the start or stop under way; 0: none */
    const struct dz_cell_ops *ops; /* of its kind of guests: the only way to its cell */
    struct dz_cell *cell;
    struct dz_poll *poll;
    int polled;                 /* the cell's descriptor in it */
    struct engine_image *image; /* of the cell */
    struct dz_timer *linger;    /* the end of OPENING, and of FILES that nobody uses */
    struct dz_loop_task broken; /* its cell could not be told something, and fails for that: */
    struct dz_err broken_why;
    struct dz_list untold;       /* in engine.untold: it is up, and the keeper does not know yet; */
    bool has_active;             /* nor the next */
    struct dz_cell_event active; /* its last DZ_CELL_ACTIVITY */
    struct dz_list execs, file_ops, copies;
    struct dz_list parked; /* watches of files that wait for the next cell */
    enum box_start start;
    bool start_machine;        /* START_BEGUN: not only its file */
    int64_t start_at;          /* the same: dz_clock_boot_ns() */
    struct dz_list start_link; /* in its tenant's line, or in engine.starts.begun */
    int64_t cpu_ns, cpu_at;    /* at the last ACTIVITY */
    uint64_t born;             /* which of the engine's cells its own is, or was */
    int64_t full_at;           /* of the last FULL that was told; 0: none */
    unsigned full_more;        /* since then, that were not */
    int64_t wake[WAKE_STEPS];  /* when they were made, of a wake that the log is told of; else 0 */
    int64_t wake_cell[2];      /* and what its cell ran and waited */
    bool in_turn; /* its events are handled, or it is listed: dz_box_tell() waits for the end of
                     that */
    struct dz_loop_task over; /* frees it, if nothing needs it then: nobody else does */
    char tenant[DZ_ENGINE_VALUE_MAX + 1];
    char id[];
};

/* A cell that sleeps durably and is still on its way out. */
struct leaving {
    struct dz_list link;
    struct dz_engine *e;
    const struct dz_cell_ops *ops;
    struct dz_cell *cell;
    struct dz_poll *poll;
    int polled; /* the cell's descriptor in it */
    struct dz_timer *late;
    struct engine_image *image;
};

/* An image as cells are started from it. */
struct engine_image {
    struct dz_image info;
    int fd, module_fds[DZ_IMAGE_MODULES_MAX];
    size_t module_count;
    unsigned refs; /* cells, and one for the table */
};

struct exec {
    struct dz_list link; /* in box.execs */
    struct box *box;
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
    size_t held;             /* of it: dz_engine_account() counts them */
    struct dz_list tellings; /* who is answered once little of it is left */
    struct dz_list given;    /* whose words were given to it before its wake was over */
    int64_t began_ms, pid;
};

struct dz_engine_watch {
    struct dz_list link;      /* in exec.watches, or alone */
    struct exec *exec;        /* NULL while it waits for its sandbox */
    struct engine_job *job;   /* that brings the sandbox up, or NULL */
    struct dz_loop_task over; /* it is told its end: failed, and why; or exit, with text */
    bool failed;
    struct dz_engine_why why;
    char *text; /* owned; NULL: "" */
    const struct dz_engine_watch_ops *ops;
    void *arg;
    uint64_t at, took; /* offsets: told next, acknowledged */
    bool told;         /* started was told */
    bool began;        /* the command: it was started for this watch */
    bool connected;    /* the keeper knows of it, as a connection to an awake sandbox */
    char id[DZ_CELL_ID_MAX + 1];
    struct launch *launch; /* what is to be started, until it is */
    /* Listening to one that has ended: */
    struct dz_engine *e;
    char sandbox_id[DZ_COLD_KEY];
    struct dz_engine_op *op; /* under way, or NULL */
    bool recorded, lost;
    struct dz_engine_exit exit;
};

struct dz_engine_op {
    struct dz_list link; /* in box.file_ops */
    struct dz_engine *e;
    struct box *box;          /* NULL: it is in none */
    struct engine_job *job;   /* that brings the sandbox's file into a cell, or NULL */
    struct dz_loop_task over; /* done is told: */
    bool failed;
    struct dz_engine_why why;
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
    bool parked; /* in box.parked: a watch of files, and the sandbox has no cell */
    bool cut;    /* the cell was told to end it, because others wait for the file */
    const struct dz_engine_op_ops *ops;
    void *arg;
};

struct dz_engine_ear {
    struct dz_list link;
    void (*fn)(void *arg);
    void *arg;
};

/* engine_ready.c: files of new sandboxes, made ahead. */
enum {
    DZ_ENGINE_READY = 4,
};
struct dz_ready {
    pthread_mutex_t lock; /* of outs and count: workers take them */
    struct dz_blob_out *outs[DZ_ENGINE_READY];
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

/* Free space, and the reserve: engine_space.c. */
struct dz_space {
    struct dz_space_opts opts;
    struct dz_engine_space now; /* as of the last look */
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

struct dz_engine {
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
    struct dz_keeper *keeper;
    struct dz_image_store *images;
    char *data_path, *live_path;
    struct dz_map boxes;       /* id -> box */
    struct dz_map image_cache; /* sha256 -> engine_image */
    struct dz_map uses;        /* by tenant: engine_quota.c */
    struct dz_map keys;        /* "tenant\nkey" of requests under way -> struct key */
    struct dz_quotas quotas;   /* of tenants without their own */
    struct dz_timer *measure;  /* disk space */
    struct dz_timer *sweep;    /* of the registry */
    uint64_t cells_born;
    struct {                        /* engine_snap.c */
        int64_t cell_ms, closed_ms; /* for a cell to write one, besides what its size takes; and to
                                       close it */
        struct dz_list closing;
    } copies;
    struct dz_list leaving, ears, builds;
    struct dz_engine_verify *verify; /* of images, under way; or NULL */
    struct dz_list uses_waiting;     /* jobs that bring a machine up */
    struct {                         /* engine_start.c */
        struct dz_map lines;         /* tenant -> struct start_line */
        struct dz_list turns;        /* of the same lines: the next one first */
        struct dz_list begun;        /* box.start_link, the oldest first */
        size_t machines, files;      /* of them */
        size_t queued;               /* boxes in all lines */
        struct dz_timer *timer;
        bool timer_soon; /* it is set to run at once */
    } starts;
    struct { /* engine_life.c: jobs that wait for room to open a file */
        struct dz_list waiting;
        struct dz_timer *room; /* there may be some now */
        bool room_set;
        uint64_t jobs;   /* that ever were */
        int64_t wait_ms; /* how long one may wait for room and sandbox */
    } files;
    struct {                    /* engine_held.c */
        struct dz_map accounts; /* tenant -> struct account */
        uint64_t bytes, tenant_max, all_max;
    } held;
    struct dz_list untold; /* boxes that are up: */
    struct dz_timer *tell; /* when those who wait for their guests have been answered */
    bool tell_set;
    struct dz_timer *told; /* events are to be told */
    struct dz_timer *tidy; /* the registry's log is to be moved, once it is quiet */
    bool tidy_set, changed;
    bool told_set, recovered, draining;
    struct { /* what became of the files of branches, at the start of recovery */
        bool settled;
        int rc;
        struct dz_err err;
    } claims;
    struct dz_timer *drain_timer;
    void (*drained)(void *arg, size_t left);
    void *drained_arg;
    struct dz_engine_counts counts;
    void (*timed)(void *arg, const struct dz_engine_timing *timing);
    void *timed_arg;
};
/* engine_held.c: limits of 0 are the defaults. */
void dz_held_open(struct dz_engine *e, uint64_t tenant_max, uint64_t all_max);
void dz_held_close(struct dz_engine *e);
void dz_engine_timed(struct dz_engine *e, const struct dz_engine_timing *t); /* tell who counts */

/* dz_fail() of an answer: fills err, and names the field of the request. */
DZ_COLD DZ_PRINTF(4, 5) int dz_why(struct dz_engine_why *why, int code, const char *field,
                                   const char *fmt, ...);
/* DZ_EINVAL with the reason `unsupported`: doze knows the field and does not have it yet. */
DZ_COLD int dz_why_later(struct dz_engine_why *why, const char *field, const char *text);
DZ_COLD int dz_why_err(struct dz_engine_why *why, int code, const struct dz_err *err);
#ifdef DZ_ANALYZE /* their answer is negative, as that of dz_fail */
#define dz_why(...)     dz_err_negative(dz_why(__VA_ARGS__))
#define dz_why_err(...) dz_err_negative(dz_why_err(__VA_ARGS__))
#endif

/* --- engine_config.c: what a client says of a sandbox, checked ------------------------- */

/* Each is 0 or DZ_EINVAL, DZ_ELIMIT with the field. Texts are as they are kept. */
int dz_engine_check_name(const char *name, struct dz_engine_why *why);
int dz_engine_check_env(const char *field, const char *json, struct dz_engine_why *why);
int dz_engine_check_spec(const struct dz_engine_spec *spec, uint64_t *ret_memory,
                         struct dz_engine_why *why);
/* The texts of the columns config and metadata; to be freed. NULL: out of memory. */
char *dz_engine_config_text(const struct dz_engine_spec *spec, const char *image,
                            uint64_t memory_bytes);
char *dz_engine_metadata_text(const char *labels_json, const char *metadata_json);
/* "K=V" of an object of strings, ends with NULL, one block to be freed. */
DZ_NODISCARD int dz_engine_env_list(const char *json, char ***ret_list, struct dz_err *err);
/* The same of a sandbox: ours, the image's (may be NULL), its own; the last one counts. */
DZ_NODISCARD int dz_engine_env_of(const char *json, const struct dz_image *image, char ***ret_list,
                                  struct dz_err *err);
/* The only tenant whose things he sees; NULL: he sees all. */
static inline const char *dz_engine_sees(const struct dz_engine_caller *who)
{
    return who->is_operator ? NULL : who->tenant;
}
/* May a request wake it, or use it as it is? */
int dz_engine_may_wake(const struct dz_instance *row, struct dz_engine_why *why);
/* Where a word is looked for: TENANT/NAME in that tenant; else names in the caller's own, and ids
 * in all that the caller sees. */
struct dz_engine_place {
    const char *sees, *home, *word;      /* word: what is behind the '/' */
    char named[DZ_ENGINE_VALUE_MAX + 1]; /* the tenant before the '/', "": none */
};
struct dz_engine_place dz_engine_place(struct dz_engine_target target);
/* Has the row this label? "k=v", or "k" with any value. */
bool dz_engine_has_label(const struct dz_instance *row, const char *label);

/* --- engine_box.c: sandboxes in memory, and their cells ---------------------------------- */

struct box *dz_box_find(struct dz_engine *e, const char *id);
/* Found or made; NULL: out of memory. */
struct box *dz_box_get(struct dz_engine *e, const char *id, const char *tenant);
/* Something let go of it: its task frees it soon, if nothing needs it then. Until the caller
 * returns to the loop it stays. */
void dz_box_leave(struct box *b);
/* Start a cell on its file; without go it is file-only. */
int dz_box_start(struct box *b, const struct dz_instance *row, bool go, struct dz_err *err);
void dz_box_stop(struct box *b, bool keep_memory); /* the cell suspends itself */
void dz_box_kill(struct box *b);                   /* its cell is gone when this returns */
/* Kill its cell, which did what no cell does that obeys: an event says what, and why. */
void dz_box_end(struct box *b, int code, const char *what, const char *text);
void dz_box_watch(struct box *b);      /* after anything was sent to its cell */
int dz_engine_cell_code(int code);     /* what a client is told: DZ_EIO of a cell is DZ_EDIED */
void dz_box_promote(struct box *b);    /* file-only: wake its machine */
void dz_box_files_over(struct box *b); /* its last operation is over */
void dz_box_destroy(struct box *b);    /* whatever it has */
void dz_boxes_tell(void *engine);      /* a timer's: the keeper, of those that are up */
/* The same of one: whoever asks next sees it awake. False: it was told; or from within its own
 * events, which end in that soon. */
bool dz_box_tell(struct dz_engine *e, const char *id);
void dz_leaving_free_all(struct dz_engine *e);
void dz_engine_drain_look(struct dz_engine *e); /* engine.c: something is over */
void dz_engine_pool_used(struct dz_engine *e);  /* engine.c: a cell was taken from the pool */

/* --- engine_start.c: the queue of boxes that wait for a cell ------------------------------- */

int dz_starts_init(struct dz_engine *e, struct dz_err *err);
void dz_starts_drain(struct dz_engine *e); /* those that wait fail soon */
void dz_starts_release(struct dz_engine *e);
/* May one more cell start now? machine: not only the file. */
bool dz_start_may(const struct dz_engine *e, bool machine);
void dz_start_begun(struct box *b, bool machine);
void dz_start_over(struct box *b); /* up, or failed; any time */
/* dz_box_start_turn(b) is called when its turn has come. */
int dz_start_queue(struct box *b, struct dz_err *err);
bool dz_start_unqueue(struct box *b);  /* true: it was in the queue */
void dz_box_start_turn(struct box *b); /* engine_keep.c */

/* --- engine_build.c: what an earlier daemon left; at the end ------------------------------- */

int dz_engine_builds_sweep(struct dz_engine *e, struct dz_err *err);
void dz_engine_builds_free(struct dz_engine *e);

/* --- engine_ready.c ----------------------------------------------------------------------------
 */

int dz_ready_init(struct dz_ready *r, struct dz_err *err);
void dz_ready_release(struct dz_ready *r);
/* The caller's; NULL: there is none. Any thread. */
struct dz_blob_out *dz_ready_take(struct dz_ready *r);
size_t dz_ready_count(struct dz_ready *r);
void dz_ready_fill(struct dz_engine *e); /* soon; where it is time for that */
/* An empty disk. Any thread. */
int dz_ready_write(struct dz_blob_out *out, struct dz_err *err);

/* --- engine_image.c -------------------------------------------------------------------------- */

int dz_engine_image_get(struct dz_engine *e, const char *sha256, struct engine_image **ret_image,
                        struct dz_err *err);
void dz_engine_image_put(struct dz_engine *e, struct engine_image *image); /* NULL is fine */
void dz_engine_images_forget(struct dz_engine *e, const char *sha256);     /* NULL: all */
int dz_engine_image_find(struct dz_engine *e, const char *name,
                         char ret_sha256[static DZ_SHA256_HEX], struct dz_engine_why *why);

/* --- engine_key.c ------------------------------------------------------------------------------
 */

void dz_engine_sweep(void *engine); /* a timer's; sets itself again */
void dz_engine_keys_release(struct dz_engine *e);

/* --- engine_quota.c ----------------------------------------------------------------------------
 */

/* Disk space that a copy will take. From dz_room_take() on it counts as used, by a tenant and his
 * token, and as not free; until dz_room_end(), which every copy comes to. */
struct dz_room {
    struct dz_engine *e; /* NULL: nothing was taken */
    uint64_t bytes;
    bool shared; /* with a file that is there, where the file system can: then it stays free */
    char tenant[DZ_ENGINE_VALUE_MAX + 1], token[DZ_ID_TEXT]; /* "": none */
};
struct dz_room_of {
    const char *tenant, *token; /* token: NULL or "": none */
    uint64_t bytes;
    bool shared;
};
/* DZ_EQUOTA, DZ_ENOSPC: there is none. */
int dz_room_take(struct dz_engine *e, const struct dz_room_of *of, struct dz_room *ret_room,
                 struct dz_engine_why *why);
/* The same, without taking it. */
int dz_room_check(struct dz_engine *e, const struct dz_room_of *of, struct dz_engine_why *why);
/* It takes so many bytes, as is known now. Else it has what it had. */
int dz_room_resize(struct dz_room *room, uint64_t bytes, struct dz_engine_why *why);
/* kept: the copy is there, and counts as it was until the disk is measured again. Any time. */
void dz_room_end(struct dz_room *room, bool kept);

/* A creation: is it within all quotas? Then it is under way; it ends by dz_use_created, which
 * takes this for its argument and calls done, or by dz_use_create_over. NULL: why. */
struct dz_engine_creation {
    const char *tenant, *token;
    uint64_t memory_bytes;
    bool starts;
    uint64_t copy_bytes; /* that its file will take at once */
    bool shared;         /* as of struct dz_room */
};
struct dz_creating;
struct dz_creating *dz_use_create(struct dz_engine *e, const struct dz_engine_creation *c,
                                  dz_engine_done_fn *done, void *arg, struct dz_engine_why *why);
void dz_use_created(void *creating, const struct dz_engine_result *result);
void dz_use_create_over(struct dz_creating *c);
/* May there be one more row? Asked again by what enters it late. */
int dz_use_room(struct dz_engine *e, const char *tenant, const char *token,
                struct dz_engine_why *why);
void dz_use_counted(struct dz_engine *e, const struct dz_instance *row, int by); /* a row more */
/* May it be woken now? And: it is, until dz_use_cold. */
int dz_use_may_wake(struct dz_engine *e, const struct dz_instance *row, struct dz_engine_why *why);
int dz_use_warm(struct box *b, const struct dz_instance *row, struct dz_engine_why *why);
void dz_use_cold(struct box *b);
/* May one more cell be opened that has only a file? And: it is, until dz_use_warm or dz_use_cold.
 */
int dz_use_may_open(struct dz_engine *e, const struct dz_instance *row, struct dz_engine_why *why);
void dz_use_open(struct box *b, const struct dz_instance *row);
/* What each of the files of a sandbox may take, if its cell obeys; 0: there is no limit. */
uint64_t dz_use_most(const struct box *b);
void dz_use_tell_disk(struct box *b); /* its cell, how much it may write still */
/* Blocks of a sandbox's file and log, as the file system counts them: 0 when neither is there. */
uint64_t dz_live_bytes(const struct dz_engine *e, const char *id);
void dz_uses_measure(void *engine); /* a timer's; sets itself again */
int dz_quotas_read(const char *json, struct dz_quotas *q, struct dz_engine_why *why);
/* The bytes that its machine may have: said, the image's, the policy's. */
int dz_engine_memory_of(struct dz_engine *e, const char *sha256, const char *policy,
                        uint64_t said_bytes, uint64_t *ret_bytes, struct dz_err *err);
int dz_engine_know_tenant(struct dz_engine *e, const char *tenant, struct dz_err *err);
/* One more idempotency key of this tenant, if it may have that. */
int dz_use_key(struct dz_engine *e, const char *tenant, struct dz_engine_why *why);
void dz_uses_recount_keys(struct dz_engine *e);
void dz_uses_release(struct dz_engine *e);

/* --- engine_space.c ----------------------------------------------------------------------------
 */

int dz_space_open(struct dz_engine *e, const struct dz_space_opts *opts, struct dz_err *err);
void dz_space_watch(struct dz_engine *e); /* look now, and regularly */
void dz_space_close(struct dz_engine *e);
/* DZ_ENOSPC with a sentence for the client if the disk is at this level or worse, now. */
int dz_space_check(struct dz_engine *e, enum dz_space_level level, struct dz_engine_why *why);
/* The same at DZ_SPACE_FULL, if so many bytes more were taken, and all that was promised. */
int dz_space_check_for(struct dz_engine *e, uint64_t bytes, struct dz_engine_why *why);
/* Its cell: what it leaves free on the host, and what its disk may take. */
void dz_space_tell(struct box *b);
/* A write met ENOSPC: gives up one file of the reserve. False: none is left. */
bool dz_space_release(void *engine);
/* The same for a step of an operation on this sandbox, which leaves the last files to the registry:
 * it must still write down how the operation ended. False, too: the disk is not full, or this
 * sandbox had one in the last minute. */
bool dz_space_make_room(void *engine, const char *id);

/* --- engine_keep.c: what the keeper asks for -----------------------------------------------------
 */

extern const struct dz_keeper_ops dz_engine_keeper_ops;

/* --- engine_life.c: a sandbox is brought to where a request can be served
 * -------------------------- */

enum job_kind {
    JOB_ORDER, /* the keeper's answer is the answer */
    JOB_USE,   /* the machine runs */
    JOB_FILES, /* a cell has the file */
};
typedef void engine_job_fn(void *arg, struct box *b, const struct dz_engine_result *result);
struct job_spec {
    enum job_kind kind;
    engine_job_fn *fn; /* called once, with the box (JOB_ORDER: NULL) or the failure */
    void *arg;
    const struct dz_keeper_request *request; /* JOB_ORDER only */
    /* JOB_USE only, may be NULL: the machine runs, and what is told to it reaches it while the
     * registry is written. At most once; fn follows, with the outcome. */
    void (*early)(void *arg, struct box *b);
    int64_t began_us; /* JOB_FILES: since when it waits, where an earlier job did not do; 0: now */
    bool writes;      /* JOB_FILES: the file is changed: a frozen sandbox is woken for that */
};
/* Bring it there. fn is called from the loop, after this has returned; after a refusal it is not
 * called, and *ret_job is untouched. ret_job may be NULL; it is for dz_job_forget: fn is not called
 * any more. */
int dz_job_start(struct dz_engine *e, const struct dz_instance *row, const struct job_spec *spec,
                 struct engine_job **ret_job, struct dz_engine_why *why);
void dz_job_forget(struct engine_job *job);
/* DZ_EBUSY: a request for the sandbox's files has waited for its full time. */
int dz_files_late(const struct dz_engine *e, const char *id, struct dz_engine_why *why);
int dz_files_init(struct dz_engine *e, struct dz_err *err);
void dz_files_release(struct dz_engine *e);
/* A cell has ended, or a quota has changed: those that wait to open a file have their turns soon.
 */
void dz_files_room(struct dz_engine *e);
/* Does a job of this tenant wait for room to open a file? */
bool dz_files_awaited(const struct dz_engine *e, const char *tenant);
size_t dz_jobs_early(struct box *b); /* how many were */
/* A JOB_USE follows. What it wakes is noted as used by the wake. */
void dz_engine_use_noted(struct dz_engine *e, const char *id, enum dz_activity what);
/* Somebody else wants the sandbox: its file-only cell makes way, or becomes the machine's. */
void dz_engine_make_way(struct dz_engine *e, const char *id, enum dz_request what);
/* The row that a word means, if this caller may see it. */
int dz_engine_row(struct dz_engine *e, struct dz_engine_target target, struct dz_instance *ret_row,
                  struct dz_engine_why *why);

/* A row that is new, with its file or the keeper's to make: start it, or do not. */
int dz_engine_started(struct dz_engine *e, const struct dz_instance *row, bool no_start,
                      dz_engine_done_fn *done, void *arg, struct dz_engine_why *why);
void dz_engine_note(struct dz_engine *e, const struct dz_instance *row, const char *what,
                    const char *detail); /* an event */

/* --- engine_snap.c, engine_branch.c ---------------------------------------------------------- */

struct snap_label {
    const char *kind; /* what made it: a literal */
    const char *name; /* NULL: none */
    int64_t expires;  /* 0: never */
    const char
        *child; /* id of a sandbox whose file it becomes, under its claim; NULL: a snapshot */
    const char *tenant, *token; /* of that sandbox */
};
/* Snapshots, forks and references whose time is over go. */
void dz_engine_handles_sweep(struct dz_engine *e);
/* When a handle that is made now goes. */
int64_t dz_engine_expiry(const struct dz_engine_handle *as);
/* Is it over, though it may still be there? */
bool dz_engine_expired(int64_t expires);
/* What has a name that is to be given: DZ_EEXIST, or 0 where it has expired. */
struct dz_engine_named {
    const char *kind, *name, *id, *sandbox_id;
    int64_t expires;
};
int dz_engine_check_free(struct dz_engine *e, const struct dz_engine_named *old,
                         struct dz_engine_why *why);
int dz_snap_remove(struct dz_engine *e, const char *id, struct dz_err *err);
int dz_fork_remove(struct dz_engine *e, const struct dz_fork_row *row, struct dz_err *err);
/* done gets a row in either case; a child's names its claim, which then is the callback's. */
int dz_engine_snapshot_of(struct dz_engine *e, const struct dz_instance *row,
                          struct snap_label label, dz_engine_snap_fn *done, void *arg,
                          struct dz_engine_why *why);
void dz_copies_init(struct dz_engine *e);
/* False: the cell was not asked. */
bool dz_copy_event(struct box *b, const struct dz_cell_event *event);
/* Who waits is told so: the cell is gone, or will not come to it. */
void dz_copy_down(struct box *b, int code, const char *text);
/* Bytes of the one that its cell is writing, as the file system has them. */
uint64_t dz_copy_bytes(const struct box *b);
void dz_copies_free(struct box *b);          /* the engine's end: nobody is told */
void dz_copies_release(struct dz_engine *e); /* the same of those that have left their boxes */
/* What a branch of it takes. */
uint64_t dz_snap_bytes(const struct dz_engine *e, const char *id);
int dz_snap_remove_files(const struct dz_engine *e, const char *id, struct dz_err *err);
void dz_engine_pause_over(struct dz_engine *e, const char *sandbox); /* it is deleted */
/* A new sandbox of spec->snapshot. */
int dz_engine_branch(struct dz_engine *e, const struct dz_engine_caller *who,
                     const struct dz_engine_spec *spec, dz_engine_done_fn *done, void *arg,
                     struct dz_engine_why *why);

/* --- engine_claim.c -------------------------------------------------------------------------- */

/* Files of this sandbox or snapshot come before its row, or go after it. Any thread. */
int dz_claim_make(const struct dz_engine *e, const char *id, struct dz_err *err);
bool dz_claim_is(const struct dz_engine *e, const char *id);
void dz_claim_over(const struct dz_engine *e, const char *id);                    /* they agree */
int dz_claim_undo(const struct dz_engine *e, const char *id, struct dz_err *err); /* remove them */
/* What an earlier daemon left. */
int dz_claims_settle(const struct dz_engine *e, struct dz_err *err);

/* --- engine_exec.c
 * -------------------------------------------------------------------------------- */

/* An event of a command of the box's cell. */
void dz_exec_event(struct box *b, const struct dz_cell_event *event);
void dz_exec_room(struct box *b); /* the cell's socket took all that waited */
void dz_exec_up(struct box *b);   /* all that lives in the machine has been told */
/* The commands that sleep in the machine to be started, at most `most`; and they have handles. */
size_t dz_exec_sleepers(struct box *b, struct dz_cell_sleeper *ret, size_t most);
void dz_exec_named(struct box *b);
void dz_exec_asleep(struct box *b);    /* its cell goes */
void dz_exec_lost(struct box *b);      /* all that slept in it is over */
void dz_exec_archived(struct box *b);  /* nobody is left to wait for what sleeps in it */
void dz_exec_connected(struct box *b); /* the keeper says that it is awake */
/* The cell is gone, or sleeps: watches stay (code 0) or are told this failure. */
void dz_exec_down(struct box *b, int code, const char *reason, const char *text);

/* engine_replay.c: tell a watch about a command that has ended. */
void dz_exec_replay(struct dz_engine_watch *w, const char *sandbox_id);
/* engine_exec.c: the end of a watch. It leaves all that it waits for now, and is told soon. */
void dz_watch_fail(struct dz_engine_watch *w, const struct dz_engine_why *why);
void dz_watch_end(struct dz_engine_watch *w, const struct dz_engine_exit *how);

/* --- engine_wake.c --------------------------------------------------------------------------- */

void dz_wake_step(struct box *b, enum wake_step step); /* it is made now; ASKED: a wake begins */
void dz_wake_over(struct box *b);                      /* nothing more will come of it */

/* --- engine_op.c
 * ------------------------------------------------------------------------------------ */

void dz_op_event(struct box *b, const struct dz_cell_event *event);
void dz_op_room(struct box *b); /* the cell's socket took all that waited */
void dz_op_down(struct box *b, int code, const char *text); /* the cell is gone */
/* Begin the parked watches of files in the box's new cell. */
void dz_op_resume(struct box *b);
/* The sandbox is deleted: end its parked watches. */
void dz_op_gone(struct box *b);
/* Has the box an operation under way that is not a watch? A watch never ends by itself: it holds
 * up nothing, and goes on in the next cell. */
bool dz_op_busy(const struct box *b);
void dz_op_cut(struct box *b, bool all); /* end the watches; with all: the other ones, too */
/* In the cell that the sandbox has, or the next one. done is told from the loop. */
int dz_op_on(struct dz_engine *e, const char *id, const struct dz_engine_op_request *request,
             struct dz_engine_op **ret_op, struct dz_engine_why *why);

#endif

/* SPDX-License-Identifier: MIT
 *
 * model.h - what the parts of model_vfs share: the world (a disk and its model),
 * and the operations on both.
 */
#ifndef DZ_TESTS_MODEL_H
#define DZ_TESTS_MODEL_H

#include "../lib/vfs_rig.h"
#include "ramfs.h"

enum {
    HISTORY = 64, /* commits that a power cut may fall back to */
    OPENS = 6,
    CROWD = 120, /* nodes; beyond, fewer are made */
    FILE_MAX = 7 * DZ_VFS_CHUNK,
    EVENTS = 16,
    LOCK_FILES = 4, /* two inodes, each by fcntl(2) and by flock(2) */
    LOCK_OWNERS = 3,
    LOCK_BYTES = 64, /* more than any end but "to the last" */
};

/* A time that could not be asked for. */
#define UNKNOWN INT64_MIN

struct op {
    uint32_t kind, a, b, c, d;
};

struct expected {
    enum dz_vfs_event_type type;
    uint64_t dir, ino;
    char name[24];
};

struct world {
    struct rig r;
    struct ram *m;
    struct ram *history[HISTORY];
    int count, certain; /* history[certain] is the oldest that a power cut may leave */
    int crash_floor;    /* the oldest that a crash may leave */
    int open[OPENS];    /* nodes with a reference, 0 = none */
    size_t uncommitted;
    int armed; /* operations for which errors of the device are allowed */
    bool on_files, verbose, failed, unexpected;
    bool limited;         /* there is a quota that may be met */
    int watch, watch_top; /* -1 without */
    bool watching;        /* the operation under way says what is to be told */
    struct expected expect[EVENTS];
    int expected;
    char lock[LOCK_FILES][LOCK_OWNERS][LOCK_BYTES]; /* 's', 'x' or 0 */
    int step;
};

/* ---- model_world.c ---- */
__attribute__((format(printf, 2, 3))) void fail(struct world *w, const char *fmt, ...);
__attribute__((format(printf, 2, 3))) void say(const struct world *w, const char *fmt, ...);
/* Do both agree? With a failing device, an error of its kind means: nothing happened. */
bool agree(struct world *w, const char *what, long got, long want);
int pick(const struct world *w, uint32_t r, bool (*is)(const struct ram_node *n));
bool is_live_dir(const struct ram_node *n);
bool is_file(const struct ram_node *n);
bool is_any(const struct ram_node *n);
const char *pick_name(const struct world *w, int dir, uint32_t r);
size_t pick_offset(uint32_t r);
size_t pick_length(uint32_t r);
int difference(const struct world *w, const struct ram *m, const char **ret_what);
void compare(struct world *w);
void check(struct world *w);
void take_times(struct world *w, int node);

/* ---- model_more.c ---- */
void watch_reset(struct world *w);
void watch_begin(struct world *w);
void watch_ignore(struct world *w);
void watch_end(struct world *w);
void expect(struct world *w, enum dz_vfs_event_type type, int dir, const char *name, int node);
void expect_file(struct world *w, enum dz_vfs_event_type type, int node);
void check_limits(struct world *w);

/* ---- model_ops.c ---- */
typedef void op_fn(struct world *w, const struct op *o);
op_fn op_watch, op_lock, op_limits, op_seek, op_getcwd, op_access, op_nameless, op_listing;

struct op_kind {
    void (*fn)(struct world *w, const struct op *o);
    unsigned weight;
    bool tells; /* it says by expect() what a watch is to tell */
};
extern const struct op_kind ops[];
extern const size_t ops_count;
extern uint8_t pattern[8 * DZ_VFS_CHUNK];
void history_clear(struct world *w);
void remember(struct world *w, bool sure, bool durable);
int on_commit(void *arg, struct dz_db *db, struct dz_err *err);
void disarm(struct world *w);
void reopened(struct world *w);
void checkpoint(struct world *w);
void commit_at_once(struct world *w);

#endif

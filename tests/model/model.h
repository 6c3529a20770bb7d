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
};

/* A time that could not be asked for. */
#define UNKNOWN INT64_MIN

struct op {
    uint32_t kind, a, b, c, d;
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

/* ---- model_ops.c ---- */
struct op_kind {
    void (*fn)(struct world *w, const struct op *o);
    unsigned weight;
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

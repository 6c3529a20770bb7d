/* SPDX-License-Identifier: MIT
 *
 * sim_world.h - one simulated machine: sandboxes on a simulated loop, a registry on
 * a disk that loses power, two stores in memory, played cells; and a
 * model of what must be true.
 *
 * The content of a sandbox's file is its version: a cell that runs it raises that
 * in place. The model knows the last version that was acknowledged, and the last
 * that was certainly on the disk.
 *
 * A crash is a kill (what was committed stays) or a power cut (what was not synced
 * may go). It comes between two events, or before the nth call to a store or to
 * the registry: from there every call fails until the restart.
 */
#ifndef DZ_TESTS_SIM_WORLD_H
#define DZ_TESTS_SIM_WORLD_H

#include "db/db_sim.h"
#include "loop/loop_sim.h"
#include "sandbox/sandbox.h"
#include "sim_store.h"

enum {
    SIM_SANDBOXES = 6,
    SIM_TENANT_NAMES = 4,
};

struct sim_sandbox {
    char id[16];
    bool exists;  /* was registered, and not acknowledged as deleted */
    bool doomed;  /* a delete was asked for: it may go at any time */
    bool unknown; /* a crash came between: the registry knows whether it exists */
    bool running;
    int64_t ended_ns; /* dz_clock_boot_ns() when it ran last */
    bool answered;    /* since it runs somebody was told so: what it writes from now on counts */
    /* Versions: the last acknowledged, the last certainly on the disk, and the least
     * that may be found: after a power cut something between, until it is read. */
    uint64_t acked, synced, least;
    bool slept;    /* a machine was put to sleep in its file, and has not been woken */
    bool may_drop; /* an archive with keep=files was asked for, once */
    bool dropped;  /* such an archive was made since */
    int lives;     /* ids are not used twice */
    bool ephemeral, erased;
    /* Awake for so long (in rows) since its timeout was set or had come, and since when now. */
    int64_t awake_ms, active_at;
};

/* The clock that runs on while somebody sets the wall's. */
static inline int64_t sim_boot_ms(void)
{
    return dz_clock_boot_ns() / DZ_NS_PER_MS;
}

struct sim_world {
    uint64_t seed, dice;
    struct dz_clock_test clock;
    struct dz_loop *loop;
    struct dz_db_sim *disk;
    struct dz_registry *inner;   /* on the disk */
    struct dz_registry registry; /* ours, in front of it */
    struct dz_sandboxes *k;
    struct sim_store live, cold;
    struct sim_sandbox boxes[SIM_SANDBOXES];

    uint32_t fault_percent; /* of the calls to stores */
    long calls_left;        /* until the crash; < 0: none is near */
    bool dead;
    bool calm;                    /* nothing fails by itself any more */
    bool cut;                     /* the power was cut at least once */
    struct dz_sandbox_clock kept; /* the clock, from one daemon to the next */
    bool has_kept;
    long asked, answered, dropped; /* requests */
    long crashes, operations, timeouts, done[DZ_REQUEST_COUNT];
    char bad[512]; /* the first thing that was not true; "" */
};

/* bad is set once; the simulation ends at the next look. */
void sim_bad(struct sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void sim_open(struct sim_world *w, uint64_t seed, const void *template, size_t size);
void sim_close(struct sim_world *w);
/* One random thing happens, and some time passes. */
void sim_act(struct sim_world *w);
/* No more faults; all comes to rest; then everything is looked at. */
void sim_rest(struct sim_world *w);

/* sim_cells.c */
/* Cells for the next daemon. */
void sim_cells_begin(struct sim_world *w, struct dz_sandboxes_opts *opts);
extern const struct dz_sandbox_files sim_cell_files;
struct sim_sandbox *sim_box(struct sim_world *w, const char *id);
void sim_cells_gone(struct sim_world *w); /* with their daemon */
void sim_write(struct sim_world *w, struct sim_sandbox *b);
void sim_end(struct sim_sandbox *b);                            /* its cell runs no more */
void sim_cell_ends(struct sim_world *w, struct sim_sandbox *b); /* by itself */
/* Does this content hold a version that b may have? From then on it has that one. */
bool sim_believe(struct sim_sandbox *b, const char *bytes, size_t size);

/* sim_registry.c: verbs that watch every hop, and fail after the crash. */
extern const struct dz_registry_ops sim_registry_ops;
int sim_fault(void *world, const char *call); /* of the stores */

#endif

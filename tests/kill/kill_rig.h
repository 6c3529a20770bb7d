/* SPDX-License-Identifier: MIT
 *
 * kill_rig.h - sandboxes on real directories, a real registry and real disks. Its
 * cells are this process: a sandbox that is awake is a disk that is open.
 */
#ifndef DZ_TESTS_KILL_RIG_H
#define DZ_TESTS_KILL_RIG_H

#include "../lib/played.h"
#include "base/fd.h"
#include "db/db.h"
#include "loop/loop_sim.h"
#include "vfs/vfs.h"

enum {
    RIG_CELLS = 8,
};

struct rig_cell {
    char id[64]; /* "": free */
    struct dz_db *db;
    struct dz_vfs *vfs;
};

struct rig {
    char dir[DZ_TEMP_DIR_TEXT];
    struct dz_clock_test clock;
    struct dz_loop *loop;
    struct dz_registry *registry;
    struct dz_cold cold;
    struct dz_sandboxes *k;
    struct rig_cell cells[RIG_CELLS];
    struct played played;
    bool had_memory; /* the last start found a machine asleep in the file */
    struct dz_err err;
};

int rig_open(struct rig *r, const char *dir); /* and recover; r->err says why not */
void rig_close(struct rig *r);                /* cells end as by a crash */
/* Ask and wait for the outcome. */
int rig_do(struct rig *r, enum dz_request what, const char *id);
int rig_archive_files(struct rig *r, const char *id); /* with keep=files */
int rig_clone(struct rig *r, const char *base, const char *id, const char *tenant);
int rig_share(struct rig *r, const char *id, const char *key);
int rig_register(struct rig *r, const char *id, const char *keep);
/* A second file with the content of a sandbox's; and a sandbox on it, which is woken beside the
 * sync of the file. */
int rig_copy(struct rig *r, const char *from, const char *to);
int rig_fork(struct rig *r, const char *id);

/* A small file of a sandbox that is awake. */
int rig_put(struct rig *r, const char *id, const char *path, const char *text);
/* Its text into out, "" when it is not there. Returns out. */
const char *rig_get(struct rig *r, const char *id, const char *path, char out[static 64]);
/* The same of a file that nobody runs. */
const char *rig_peek(const char *file, const char *path, char out[static 64]);

#endif

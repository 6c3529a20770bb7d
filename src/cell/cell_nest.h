/* SPDX-License-Identifier: MIT
 *
 * cell_nest.h - a zygote: a jailed process that has ready what its cells need, and
 * forks them. One is blank; one for each image in use has that image open, its modules mapped,
 * functions translated. Zygotes are exec'd, from a seed that is exec'd itself: nothing of the
 * daemon's memory is in them.
 *
 * Cells are children of the nest's parent (CLONE_PARENT): that one reaps them, and a nest
 * that dies takes nothing with it.
 */
#ifndef DZ_CELL_CELL_NEST_H
#define DZ_CELL_CELL_NEST_H

#include "cell/cell_int.h"
#include "cell/cell_request.h"
#include "cell/cell_users.h"

struct dz_db;

struct dz_nest {
    int control;                 /* frames DZ_FRAME_NEST_* */
    struct dz_os_filter *filter; /* of a cell */
    uint32_t fences;             /* that hold it: bits of enum dz_os_fence */
    struct dz_os_users users;    /* one of which each cell becomes; count 0: none */
    uint32_t user;               /* the nest's own */
    uint64_t processes;          /* that it may have with its cells */
    struct dz_db *disk;          /* prepared for a sandbox's file; each cell uses its copy */
    struct dz_db *image;         /* NULL: blank */
    char image_sha256[65];
    struct dz_modules *modules;
    int fds[1 + DZ_CELL_MODULES_MAX]; /* of image and modules */
    size_t fd_count;
};

/* In a child just forked: become, by exec, the seed. On `control` come requests for zygotes, each
 * with a control socket (DZ_FRAME_NEST_FORK), or with an image and its modules besides; on `calls`
 * those of cell_call.c; `host` is for the guard (os_guard.h). */
DZ_NORETURN void dz_nest_begin(int control, int calls, int host);

/* cell_call.c: the socket on which the seed takes calls, from any thread; -1: there is none any
 * more. Closes the one before. */
void dz_call_set_seed(int fd);
/* In a process that was exec'd: how many descriptors from this number on, `most` at most, are
 * open without a gap. Those that it was given are the only ones that are. */
size_t dz_nest_inherited(int first, size_t most);
/* cell_called.c: in the process that the seed started for a call: receive the argument, serve. */
DZ_NORETURN void dz_call_begin(void);

#endif

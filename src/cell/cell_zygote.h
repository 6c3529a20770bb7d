/* SPDX-License-Identifier: MIT
 *
 * cell_zygote.h - a zygote: a jailed process that prepares what its cells need, and forks them. The
 * blank zygote has no image; one zygote for each image in use has that image open, its modules
 * mapped and functions translated. The root zygote, which the daemon forks and execs, execs the
 * others, so none of them has any of the daemon's memory.
 *
 * Cells are children of the zygote's parent (CLONE_PARENT), which reaps them. So the death of a
 * zygote ends none of its cells.
 */
#ifndef DZ_CELL_CELL_ZYGOTE_H
#define DZ_CELL_CELL_ZYGOTE_H

#include "cell/cell_int.h"
#include "cell/cell_request.h"
#include "cell/cell_users.h"
#include "vfs/vfs.h"

struct dz_db;

struct dz_zygote {
    int control;                 /* the socket for frames DZ_FRAME_NEST_* */
    struct dz_os_filter *filter; /* the system call filter of its cells */
    uint32_t fences;             /* the fences that hold its cells: bits of enum dz_os_fence */
    struct dz_os_users users; /* each cell becomes one of these users; count 0: cells keep ours */
    uint32_t user;            /* the user of the zygote itself */
    uint64_t processes;       /* how many processes it may have, its cells included */
    bool native;              /* its cells run native Linux programs, too */
    struct dz_db
        *disk; /* a handle that was prepared for the file of a sandbox; each cell uses its copy */
    struct dz_db *image; /* NULL: the zygote is for cells of any image */
    char image_sha256[65];
    struct dz_vfs_pack pack; /* the pack of the image, and its descriptor; -1: none */
    int pack_fd;
    struct dz_modules *modules;
    int fds[1 + DZ_CELL_MODULES_MAX]; /* the image and its modules */
    size_t fd_count;
};

/* In a child that was just forked: exec this program as the root zygote. It takes requests on two
 * sockets: on `control` for zygotes, each with a control socket of its own (DZ_FRAME_ZYGOTE_FORK),
 * some with an image and its modules; on `calls` for calls (cell_call.c). `host` is for the guard
 * (os_guard.h). */
DZ_NORETURN void dz_zygote_begin(int control, int calls, int host);

/* Set the socket on which the root zygote takes calls, from any thread; -1: there is no root
 * zygote. Closes the socket that was set before. */
void dz_call_set_root(int fd);
/* Count the descriptors that are open from this number on, without a gap, up to `most`. Call it in
 * a process that was just exec'd, in which only the passed descriptors are open. */
size_t dz_zygote_inherited(int first, size_t most);
/* In the process that the root zygote started for a call: receive the argument and run the function
 * (cell_called.c). */
DZ_NORETURN void dz_call_begin(void);

#endif

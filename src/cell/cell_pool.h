/* SPDX-License-Identifier: MIT
 *
 * cell_pool.h - cells forked ahead of need, by zygotes.
 *
 *     dz_cell_pool_new(&opts, &pool, err);           first of all in a process
 *     dz_cell_pool_start(pool, &start, &cell, err);  never waits
 *     … poll(dz_cell_pool_fd(pool)): dz_cell_pool_run(pool, err) …
 *
 * A zygote is a jailed process that has prepared what its cells need (cell_zygote.h). One is
 * forked when the pool is made, and one for each image in use. Cells wait, in their jails, for a
 * start. The first sandbox of an image gets a blank cell while the image's zygote makes itself
 * ready. The image that was not used for longest loses its zygote to another.
 *
 * Zygotes and cells are children of the process that made the pool; dz_cell_receive() and
 * dz_cell_free() reap cells, dz_cell_pool_run() zygotes. A zygote that dies is replaced; its cells
 * keep running. One thread, that of the loop.
 */
#ifndef DZ_CELL_CELL_POOL_H
#define DZ_CELL_CELL_POOL_H

#include "cell/cell.h"
#include "os/os_jail.h"

struct dz_cell_pool;

enum {
    DZ_POOL_AHEAD = 8,  /* cells of each kind that wait for work */
    DZ_POOL_IMAGES = 8, /* images that have a zygote */
    DZ_POOL_AHEAD_MAX = 256,
    DZ_POOL_IMAGES_MAX = 64,
};

struct dz_cell_pool_opts {
    size_t ahead;  /* cells that wait, of each kind; 0: DZ_POOL_AHEAD */
    size_t images; /* images with a zygote; 0: DZ_POOL_IMAGES */
    struct dz_os_users
        users; /* the users that cells become (cell_users.h); count 0: cells keep ours */
    /* Makes a cgroup for each cell and the processes of its native programs, limited to the memory
     * of its machine plus memory_beside. The caller releases it after the pool and its cells. NULL:
     * no cgroups. */
    struct dz_os_cgroup_each *each;
    uint64_t memory_beside;
    int64_t strays_ms; /* how often to look for unknown children; 0: DZ_STRAY_EVERY_MS */
};

/* Make a pool and fork its first zygote. Call it before the process has threads, secrets or
 * sockets, because the zygote would inherit them. Raises RLIMIT_NOFILE as far as it may. */
DZ_NODISCARD int dz_cell_pool_new(const struct dz_cell_pool_opts *opts,
                                  struct dz_cell_pool **ret_pool, struct dz_err *err);
/* End the zygotes and the waiting cells; started cells run on. NULL is fine. */
void dz_cell_pool_free(struct dz_cell_pool *p);

/* Start a cell as dz_cell_spawn() does; `start` must not have `ends_with_main`. The caller keeps
 * the descriptors and may close them at once. While the zygote is busy the start waits here;
 * DZ_EBUSY: thousands wait already. DZ_EUNSUPPORTED: this host lacks a fence that
 * dz_os_jail_demand() requires; until the first zygote has found that out, dz_cell_receive()
 * reports it instead. */
DZ_NODISCARD int dz_cell_pool_start(struct dz_cell_pool *p, const struct dz_cell_start *start,
                                    struct dz_cell **ret_cell, struct dz_err *err);

/* The descriptor to poll: when it is readable, call dz_cell_pool_run(). Call that also after
 * starts, when there is time, because it forks the cells that are kept waiting. */
int dz_cell_pool_fd(const struct dz_cell_pool *p);
int dz_cell_pool_run(struct dz_cell_pool *p, struct dz_err *err);

/* The image is about to be removed: end its zygote and its waiting cells, a few at a time. */
void dz_cell_pool_forget(struct dz_cell_pool *p, const char *sha256);

struct dz_cell_pool_stats {
    uint64_t warm, cold; /* cells started: those that had waited, and those forked on request */
    uint64_t blank;      /* starts with an image in a cell of no image */
    uint64_t died;       /* zygotes that died */
    uint64_t strays;     /* children that zygotes forked without a request, and that were killed */
    uint64_t uses;       /* reports of used functions that were passed on to zygotes */
    uint64_t
        renewed; /* waiting cells that were replaced because their zygote has more prepared now */
    size_t zygotes, waiting; /* zygotes and waiting cells now */
    char why[256];           /* why the last zygote that failed could not get ready; "" */
    int32_t blank_pid;       /* the pid of the first zygote */
    uint32_t fences;         /* fences that hold its cells; 0 until it is ready */
};
void dz_cell_pool_stats_get(const struct dz_cell_pool *p, struct dz_cell_pool_stats *ret);

#endif

/* SPDX-License-Identifier: MIT
 *
 * cell_pool.h - cells forked ahead of need, by zygotes.
 *
 *     dz_cell_pool_new(&opts, &pool, err);           first of all in a process
 *     dz_cell_pool_start(pool, &start, &cell, err);  never waits
 *     … poll(dz_cell_pool_fd(pool)): dz_cell_pool_run(pool, err) …
 *
 * A zygote is forked when the pool is made, and one for each image in use from that one: a
 * process that is jailed, and has ready what its cells need (cell_nest.h). Cells wait, in
 * their jails, for a start. The first sandbox of an image gets a blank cell while the
 * image's zygote makes itself ready. The image that was not used for longest loses
 * its zygote to another.
 *
 * Zygotes and cells are children of the process that made the pool; dz_cell_receive()
 * and dz_cell_free() reap cells, dz_cell_pool_run() zygotes. A zygote that dies is
 * replaced; its cells go on. One thread, that of the loop.
 */
#ifndef DZ_CELL_CELL_POOL_H
#define DZ_CELL_CELL_POOL_H

#include "cell/cell.h"
#include "os/os_jail.h"

struct dz_cell_pool;

enum {
    DZ_POOL_AHEAD = 8,  /* cells that wait, of each kind */
    DZ_POOL_IMAGES = 8, /* images with a zygote */
    DZ_POOL_AHEAD_MAX = 256,
    DZ_POOL_IMAGES_MAX = 64,
};

struct dz_cell_pool_opts {
    size_t ahead;             /* 0: DZ_POOL_AHEAD */
    size_t images;            /* 0: DZ_POOL_IMAGES */
    struct dz_os_users users; /* that its children become (cell_users.h), which
                                 dz_os_users_check() allowed; count 0: they are who we are */
    /* A cgroup for each cell, with one process and the memory of its machine and memory_beside. The
     * caller's, who releases it after the pool and its cells. NULL: none */
    struct dz_os_cgroup_each *each;
    uint64_t memory_beside;
    int64_t strays_ms; /* between two looks for children that nobody knows; 0: DZ_STRAY_EVERY_MS */
};

/* Forks the first zygote: before the process has threads, secrets, or sockets that others
 * shall not inherit. Raises RLIMIT_NOFILE as far as it may. */
DZ_NODISCARD int dz_cell_pool_new(const struct dz_cell_pool_opts *opts,
                                  struct dz_cell_pool **ret_pool, struct dz_err *err);
/* Zygotes and cells that wait end; those that were started go on. NULL is fine. */
void dz_cell_pool_free(struct dz_cell_pool *p);

/* As dz_cell_spawn() with `many`, which start must say. The descriptors stay the caller's and may
 * be closed at once. A start that the zygote has no time for waits here; DZ_EBUSY: thousands
 * wait. DZ_EUNSUPPORTED: this host does not give a fence that dz_os_jail_demand() asks for; before
 * the first zygote has found that out, dz_cell_receive() says so. */
DZ_NODISCARD int dz_cell_pool_start(struct dz_cell_pool *p, const struct dz_cell_start *start,
                                    struct dz_cell **ret_cell, struct dz_err *err);

/* Readable: there is something for dz_cell_pool_run() to do; call it besides when there is
 * time after a start: it forks cells ahead. */
int dz_cell_pool_fd(const struct dz_cell_pool *p);
int dz_cell_pool_run(struct dz_cell_pool *p, struct dz_err *err);

/* The image is about to be removed: its zygote and its cells that wait end, by and by. */
void dz_cell_pool_forget(struct dz_cell_pool *p, const char *sha256);

struct dz_cell_pool_stats {
    uint64_t warm, cold;     /* cells started: that waited; forked when they were wanted */
    uint64_t blank;          /* of an image, by a blank cell */
    uint64_t died;           /* zygotes */
    uint64_t strays;         /* children that were forked unasked, and ended */
    uint64_t uses;           /* words of cells about what they use that zygotes were told */
    uint64_t renewed;        /* cells that waited, for ones of a zygote that has more ready now */
    size_t zygotes, waiting; /* now: zygotes; cells */
    char why[256];           /* what the last zygote said that could not make itself ready; "" */
    int32_t blank_pid;       /* of the first zygote */
    uint32_t fences;         /* that hold its cells; 0 until it is ready */
};
void dz_cell_pool_stats_get(const struct dz_cell_pool *p, struct dz_cell_pool_stats *ret);

#endif

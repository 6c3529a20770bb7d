/* SPDX-License-Identifier: MIT
 *
 * bench_pool.h - sandboxes in cells of a pool, as in the daemon, for benches.
 *
 * A box is a nameless disk with one command, which can be suspended. Every function waits for the
 * event that it causes, and exits the program on failure.
 *
 *     bench_pool_open("sleep");
 *     bench_box_new(&box, &base);
 *     bench_box_start(&box, true);
 *     bench_box_run(&box, argv);
 *     bench_box_say(&box, "line\n", 5);
 *     bench_box_suspend(&box); bench_box_gone(&box);
 *     bench_box_wake(&box); ...
 */
#ifndef DZ_BENCH_POOL_H
#define DZ_BENCH_POOL_H

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BENCH_MODULES_MAX = 64,
    BENCH_AHEAD = 8, /* waiting cells of each kind */
};

struct bench_base { /* the image of sandboxes */
    int fd;         /* -1: no image */
    char sha256[DZ_SHA256_HEX];
    int modules[BENCH_MODULES_MAX]; /* descriptors of prepared modules */
    size_t module_count;
    uint64_t memory_bytes;
};

struct bench_box {
    const struct bench_base *base;
    int disk, wal;
    struct dz_cell *cell;
    uint32_t exec;
    char id[16];     /* the command's id; "": it comes with the image */
    uint64_t offset; /* next offset of its output */
    size_t said;     /* bytes of all output */
    char last[64];   /* the last output */
    bool ready, up, live, over, copied, asleep, gone;
};

DZ_NORETURN void bench_die(const char *what, const struct dz_err *err);
/* Call it first in a program; name: for its messages. */
void bench_pool_open(const char *name);
void bench_pool_close(void);
void bench_pool_settle(size_t waiting); /* until this many cells wait */

int bench_nameless(void); /* a file of the disk that is measured: BENCH_DIR, else build/ */
void bench_sha256(int fd, char ret_hex[static DZ_SHA256_HEX]);
/* Open build/base/base.doze, or DOZE_BASE, and its shell; false: it is missing. */
bool bench_base_open(struct bench_base *ret);

void bench_box_new(struct bench_box *x, const struct bench_base *base);
void bench_box_start(struct bench_box *x, bool fresh); /* a cell, and GO */
void bench_box_put(struct bench_box *x, const char *path, const void *bytes, size_t size);
void bench_box_go(struct bench_box *x); /* after bench_box_put() instead of bench_box_start() */
void bench_box_take(struct bench_box *x, bool fresh);
void bench_box_run(struct bench_box *x, const char *const *argv, bool open_stdin);
void bench_box_step(struct bench_box *x);                             /* one event */
void bench_box_say(struct bench_box *x, const void *bytes, size_t n); /* and wait for output */
void bench_box_hear(struct bench_box *x);                             /* wait for output */
/* Prepare a wake whose input is sent with the start: the next bench_box_say() starts the cell, as
 * the daemon does. */
void bench_box_start_asleep(struct bench_box *x);
void bench_box_wake(struct bench_box *x);    /* until its command is attached */
void bench_box_woken(struct bench_box *x);   /* the same for a cell that is started */
void bench_box_suspend(struct bench_box *x); /* until it is durable */
void bench_box_gone(struct bench_box *x);    /* then: until its process has exited */
void bench_box_copy(struct bench_box *x, struct bench_box *to); /* a snapshot; to must be empty */
void bench_box_kill(struct bench_box *x);
void bench_box_free(struct bench_box *x); /* kills it first */

uint64_t bench_size(int fd);
double bench_cpu_us(void);                           /* CPU time of this process */
double bench_cell_cpu_us(const struct bench_box *x); /* CPU time of its cell */

#endif

/* SPDX-License-Identifier: MIT
 *
 * bench_pool.h - sandboxes in cells of a pool, as the daemon has them, for benches.
 *
 * A box is a disk without a name and the one command that sleeps in it. Everything here
 * waits for the event that it is about, and ends the program when something fails.
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
    BENCH_AHEAD = 8, /* cells that wait, of each kind */
};

struct bench_base { /* what sandboxes stand on */
    int fd;         /* -1: nothing */
    char sha256[DZ_SHA256_HEX];
    int modules[BENCH_MODULES_MAX]; /* prepared */
    size_t module_count;
    uint64_t memory_bytes;
};

struct bench_box {
    const struct bench_base *base;
    int disk, wal;
    struct dz_cell *cell;
    uint32_t exec;
    char id[16];     /* of that command; "": it is the image's */
    uint64_t offset; /* of its output */
    size_t said;     /* bytes, ever */
    char last[64];   /* of the last output */
    bool ready, up, live, over, copied, asleep, gone;
};

DZ_NORETURN void bench_die(const char *what, const struct dz_err *err);
/* First of all in a program; name: for what it says. */
void bench_pool_open(const char *name);
void bench_pool_close(void);
void bench_pool_settle(size_t waiting); /* until as many cells wait */

int bench_nameless(void); /* a file of the disk that is measured: BENCH_DIR, else build/ */
void bench_sha256(int fd, char ret_hex[static DZ_SHA256_HEX]);
/* build/base/base.doze and its shell, or DOZE_BASE; false: it is not there. */
bool bench_base_open(struct bench_base *ret);

void bench_box_new(struct bench_box *x, const struct bench_base *base);
void bench_box_start(struct bench_box *x, bool fresh); /* a cell, and GO */
void bench_box_put(struct bench_box *x, const char *path, const void *bytes, size_t size);
void bench_box_go(struct bench_box *x); /* after bench_box_put() instead of bench_box_start() */
void bench_box_take(struct bench_box *x, bool fresh);
void bench_box_run(struct bench_box *x, const char *const *argv, bool open_stdin);
void bench_box_step(struct bench_box *x);                             /* one event */
void bench_box_say(struct bench_box *x, const void *bytes, size_t n); /* and hear an answer */
void bench_box_hear(struct bench_box *x);                             /* some output */
/* What it waits for goes with its start: the next bench_box_say() begins it, as the daemon does. */
void bench_box_start_asleep(struct bench_box *x);
void bench_box_wake(struct bench_box *x);    /* until its command is attached */
void bench_box_woken(struct bench_box *x);   /* the same of a cell that is started */
void bench_box_suspend(struct bench_box *x); /* until it is durable */
void bench_box_gone(struct bench_box *x);    /* after that: until its process is */
void bench_box_copy(struct bench_box *x, struct bench_box *to); /* as a snapshot, both empty */
void bench_box_kill(struct bench_box *x);
void bench_box_free(struct bench_box *x); /* kills it first */

uint64_t bench_size(int fd);
double bench_cpu_us(void);                           /* of this process */
double bench_cell_cpu_us(const struct bench_box *x); /* of its cell so far */

#endif

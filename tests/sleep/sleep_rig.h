/* SPDX-License-Identifier: MIT
 *
 * sleep_rig.h - a sandbox over the base, run in legs: each leg is a cell of its own
 * that starts or wakes the machine and, after a while, puts it to sleep again.
 */
#ifndef DZ_TESTS_SLEEP_RIG_H
#define DZ_TESTS_SLEEP_RIG_H

#include "base/buf.h"
#include "cell/cell.h"

#include <stdbool.h>
#include <stdint.h>

struct srig_base { /* opened once */
    int fd;
    char sha256[65];
    int modules[DZ_CELL_MODULES_MAX];
    size_t module_count;
};
/* False, after a line that says so: the base has not been built. */
bool srig_base_open(struct srig_base *b);

struct srig {
    const struct srig_base *base;
    char path[256]; /* the file, for `other` and for looking into it */
    int disk, wal;
    bool tty, asleep, over;
    struct dz_buf out; /* both streams, in the order they came */
    const char *typed; /* input that has not been sent yet; NULL: none */
    bool more;         /* and after that comes no end of it */
    int exit_code, signal;
    char text[256];    /* what a failure said */
    const char *other; /* another build of doze that some legs run by; NULL */
    unsigned legs, others;
};
/* A fresh disk in a scratch directory of its own, or over what is at `path`. */
void srig_init(struct srig *r, const struct srig_base *base);
void srig_release(struct srig *r); /* and removes the file */

/* One leg: start argv (the first time) or resume; to sleep after delay_us (negative:
 * let it end). 0, or -1 with r->text. */
int srig_leg(struct srig *r, const char *const *argv, int64_t delay_us);
/* The same by r->other. */
int srig_leg_other(struct srig *r, int64_t delay_us);
/* A number for what sleeps in the file: two legs that stopped at the same place with
 * the same memory give the same. rows, bytes: of mem; may be NULL. */
uint64_t srig_fingerprint(const struct srig *r, uint64_t *ret_rows, uint64_t *ret_bytes);

#endif

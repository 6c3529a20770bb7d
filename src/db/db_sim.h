/* SPDX-License-Identifier: MIT
 *
 * db_sim.h - a disk for tests, in memory. It fails, fills up and loses power on command, in the
 * same way for the same seed. No shipped program links it.
 *
 *     struct dz_db_sim *sim = dz_db_sim_new(seed);
 *     dz_db_sim_load(sim, DZ_DB_FILE_MAIN, template.p, template.len);
 *     dz_db_open_disk(&db, dz_db_sim_disk(sim), &opts, err);
 *     dz_db_sim_cut_at(sim, 17);       the 17th change from now is the last
 *     ... work until everything fails, close ...
 *     dz_db_sim_power_on(sim);         what had not been synced is partly gone
 *     dz_db_open_disk(...)             recovers
 *
 * A file has two images: what programs see and what is certainly on disk. A
 * sync makes the second equal to the first. When power returns, each file is its
 * synced image plus some of the changes since, chosen by the seed: none, all,
 * the first few, the last few, or any sectors of any of them (512 or 4096 bytes, in the
 * order they were written). Bytes outside a written range never change, as on
 * a disk with power-safe overwrite.
 */
#ifndef DZ_DB_DB_SIM_H
#define DZ_DB_DB_SIM_H

#include "db/db.h"
#include "db/db_disk.h"

enum {
    DZ_DB_SIM_FILE_MAX = 1 << 30, /* bytes of one file; beyond: ENOSPC */
};

enum dz_db_sim_call {
    DZ_DB_SIM_READ,
    DZ_DB_SIM_WRITE,
    DZ_DB_SIM_TRUNCATE,
    DZ_DB_SIM_SYNC,
    DZ_DB_SIM_SIZE,
    DZ_DB_SIM_LOCK,
    DZ_DB_SIM_CALLS,
};
enum {
    DZ_DB_SIM_ANY = (1 << DZ_DB_SIM_CALLS) - 1, /* a set of calls is bits 1 << call */
};

struct dz_db_sim;

struct dz_db_sim *dz_db_sim_new(uint64_t seed); /* NULL: out of memory */
void dz_db_sim_free(struct dz_db_sim *sim);     /* NULL is allowed */
struct dz_db_disk *dz_db_sim_disk(struct dz_db_sim *sim);

/* Set a file's content, synced. DZ_ENOMEM. */
DZ_NODISCARD int dz_db_sim_load(struct dz_db_sim *sim, enum dz_db_file f, const void *p, size_t n);
/* The content as programs see it now; borrowed until the next change. */
const void *dz_db_sim_bytes(const struct dz_db_sim *sim, enum dz_db_file f, size_t *ret_size);

/* The nth call (0: the next) of a set fails with errno sys, once, or with sticky
 * that one and all later ones of the set. A failing write has written half.
 * n < 0: no more failures. */
void dz_db_sim_fail_at(struct dz_db_sim *sim, unsigned set, long n, int sys, bool sticky);
bool dz_db_sim_failed(struct dz_db_sim *sim); /* has a call failed since the last query? */
/* Calls of a set since the disk was made. */
long dz_db_sim_calls(const struct dz_db_sim *sim, unsigned set);

/* Limit the size of both files together; a write beyond it is cut short and fails with ENOSPC.
 * Negative: no limit. */
void dz_db_sim_set_capacity(struct dz_db_sim *sim, int64_t bytes);

/* Let power fail after n more changes (writes, truncations, syncs): the next change is not made,
 * and from then on every call fails. n < 0: never. */
void dz_db_sim_cut_at(struct dz_db_sim *sim, long n);
bool dz_db_sim_is_off(const struct dz_db_sim *sim);
/* Lose the unsynced writes, and work again. Without an earlier cut, the power is cut here and now.
 * No database may be open on the disk. DZ_ENOMEM: try again. */
DZ_NODISCARD int dz_db_sim_power_on(struct dz_db_sim *sim);

/* --- SQLite itself, in tests -------------------------------------------------- */

/* Make SQLite allocate from base/mem.h, so that torture also fails its allocations. Call it before
 * the process uses SQLite for the first time. */
void dz_db_use_door(void);
/* Give back everything that SQLite keeps; the next open starts it again. */
void dz_db_shutdown(void);
/* Seed SQLite's random numbers (salts of the WAL). */
void dz_db_seed(uint32_t seed);

#endif

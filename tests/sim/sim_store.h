/* SPDX-License-Identifier: MIT
 *
 * sim_store.h - a store of objects in memory, for simulations: it outlives crashes,
 * fills up, and fails as told.
 *
 * Committed objects and removals are durable, as the contract of blob.h says. What
 * is changed in place (by a cell that runs its file) is not, until it is synced.
 */
#ifndef DZ_TESTS_SIM_STORE_H
#define DZ_TESTS_SIM_STORE_H

#include "blob/blob.h"

enum {
    SIM_OBJECTS = 64,
    SIM_BYTES = 512,
};

struct sim_object {
    char key[DZ_BLOB_KEY_MAX + 1]; /* "" = free */
    char bytes[SIM_BYTES], synced[SIM_BYTES];
    size_t size;
};

struct sim_store {
    struct dz_blobs head;
    struct sim_object objects[SIM_OBJECTS];
    size_t capacity; /* objects that it takes */
    int writers;     /* open and not closed */
    /* Before each call: 0, or the error that it shall have. */
    int (*fault)(void *arg, const char *call);
    /* Before an object is replaced or removed: may it be? */
    void (*guard)(void *arg, const char *key);
    void *arg;
};

void sim_store_init(struct sim_store *s);
struct sim_object *sim_store_find(struct sim_store *s, const char *key); /* or NULL */

#endif

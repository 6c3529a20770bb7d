/* SPDX-License-Identifier: MIT
 *
 * sim_store.h - a store of objects in memory, for simulations: it outlives crashes,
 * fills up, and fails as told.
 *
 * Bytes and faults are simulated. Names are those of a real directory, and the store of
 * blob_file.c makes and removes them: a name is durable only after the store has synced the
 * directory, and the bytes of a new object only after the store has synced its file. A power
 * cut may take back names that are not durable, newest first, and the bytes of such objects.
 * What is changed in place (by a cell that runs its file) is not durable until it is synced.
 */
#ifndef DZ_TESTS_SIM_STORE_H
#define DZ_TESTS_SIM_STORE_H

#include "base/fd.h"
#include "blob/blob.h"

enum {
    SIM_OBJECTS = 64,
    SIM_BYTES = 512,
    SIM_CHANGES = 64, /* names that a power cut may take back */
};

struct sim_object {
    char key[DZ_BLOB_KEY_MAX + 1]; /* "" = free */
    char bytes[SIM_BYTES], synced[SIM_BYTES];
    size_t size;
    bool durable; /* the bytes that it was committed with are on the disk */
};

struct sim_change {           /* of a name, since the directory was synced */
    struct sim_object before; /* what was under that name, or only the key */
    bool existed;
};

struct sim_store {
    struct dz_blobs head;
    struct sim_object objects[SIM_OBJECTS];
    size_t capacity; /* objects that it takes */
    int writers;     /* open and not closed */
    struct dz_blobs *names;
    char dir[DZ_TEMP_DIR_TEXT]; /* of names */
    struct sim_change changes[SIM_CHANGES];
    size_t change_count;
    /* Before each call: 0, or the error that it shall have. */
    int (*fault)(void *arg, const char *call);
    /* Before an object is replaced or removed: may it be? */
    void (*guard)(void *arg, const char *key);
    void *arg;
};

void sim_store_init(struct sim_store *s);
void sim_store_release(struct sim_store *s);
/* The last `lost` of s->change_count changes never happened; lose_bytes: nor were bytes written
 * that were not synced. */
void sim_store_power_cut(struct sim_store *s, size_t lost, bool lose_bytes);
struct sim_object *sim_store_find(struct sim_store *s, const char *key); /* or NULL */

#endif

/* SPDX-License-Identifier: MIT
 *
 * freeze.h - a program under test: one module, one process, and the little
 * host it talks to, all of which can be put into bytes and taken out again.
 *
 * freeze_world.c   a world: open, run, save, load, copy, compare
 * freeze_fresh.c   finishing a saved world in a fresh process of the other dispatch
 * freeze.c         tests: freeze anywhere
 * freeze_proc.c    tests: copy, mark and return, inject
 * freeze_spec.c    tests: the longest functions of the specification's suite
 */
#ifndef DZ_TESTS_FREEZE_H
#define DZ_TESTS_FREEZE_H

#include "wasm/wasm.h"
#include "wasm/wasm_module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the host keeps: plain data, saved beside the state. */
struct host_state {
    uint64_t output;    /* hash of every number emitted, in order */
    uint32_t emitted;   /* how many */
    uint32_t parks;     /* calls of park() that came through */
    uint32_t park_open; /* the next one may */
    uint32_t forking;   /* parked in fork(), for the test to copy */
    uint32_t fork_known;
    int32_t fork_result; /* what fork() answers when called again */
};

struct world {
    void *flat;
    struct dz_wasm_module *module; /* borrowed when flat is NULL */
    struct dz_wasm_store *store;
    struct dz_wasm_inst *inst;
    struct host_state host;
    enum dz_wasm_dispatch dispatch;
};

/* All that a finished program leaves behind. */
struct outcome {
    uint32_t stop, trap; /* enum dz_wasm_stop, enum dz_wasm_trap_kind */
    uint64_t result[2];
    uint64_t output, memory, memory_size; /* hashes of the output and of every memory */
    uint32_t emitted, parks;
};

struct bytes {
    uint8_t *p;
    size_t size, cap;
    size_t at; /* of reading */
};
void bytes_add(struct bytes *b, const void *data, size_t size);
void bytes_free(struct bytes *b);
bool bytes_file(struct bytes *b, const char *path); /* appends the file */

enum dz_wasm_dispatch other_dispatch(enum dz_wasm_dispatch d);

/* A fresh instance of the WebAssembly binary; aborts the test when it is not one. */
void world_open(struct world *w, const void *wasm, size_t size, enum dz_wasm_dispatch dispatch);
void world_close(struct world *w);
void world_begin(struct world *w, const char *name, const uint64_t *args, size_t count);
void world_begin1(struct world *w, const char *name, uint32_t arg);

/* Until the next safepoint, or the end. */
enum dz_wasm_stop world_step(struct world *w);
bool stop_is_final(enum dz_wasm_stop stop);

/* Run to the end; every park is let through. */
struct outcome world_finish(struct world *w);
struct outcome world_outcome(struct world *w, enum dz_wasm_stop stop);
bool outcome_same(const struct outcome *a, const struct outcome *b, const char *what);

/* Host state and engine state; not the module. */
void world_save(struct world *w, struct bytes *to);
void world_load(struct world *w, struct bytes *from);

/* A second process in the same state; it borrows the module. */
void world_copy(struct world *w, struct world *ret_copy);

/* Save, load into a fresh instance of the other dispatch, and take that one's place. */
void world_swap(struct world *w);

/* Finish a saved world in a fresh process of the other dispatch. */
struct outcome fresh_finish(struct world *w, const void *wasm, size_t size);
int fresh_main(void); /* what that process does */

#endif

/* SPDX-License-Identifier: MIT
 *
 * spec.h - the parts of the runner of WebAssembly's own tests.
 *
 * spec_main.c   finds the command files, runs each in a child, adds up
 * spec_run.c    runs the commands of one file against the engine
 * spec_host.c   the module "spectest" that the tests import from
 * spec_value.c  values of the command files against slots of the engine
 */
#ifndef DZ_TESTS_SPEC_H
#define DZ_TESTS_SPEC_H

#include "wasm/wasm.h"
#include "wasm/wasm_module.h"

#include <jansson.h>

enum {
    SPEC_SLOTS_MAX = 64,   /* arguments or results of one call */
    SPEC_WHY_MAX = 400,    /* a reason in words */
    SPEC_SHOWN_MAX = 10,   /* failures printed of one file */
    SPEC_STACK = 64 << 10, /* slots: exhaustion tests end soon */
};

struct spec_options {
    const char *label;              /* of the archive, before each failure */
    enum dz_wasm_dispatch dispatch; /* which of the two loops */
    bool wide;                      /* every function as if its frame were huge */
    uint32_t features;              /* enum dz_wasm_feature */
};

/* In memory shared by parent and child, so that a crash leaves the count. */
struct spec_count {
    int total;  /* assertions in the file */
    int passed; /* of them */
    int failed; /* of them, and other commands (module, register, action) that did not work */
};

/* Run every command of the file at `path`. Failures go to stdout. */
void spec_run_file(const struct spec_options *opt, const char *path, struct spec_count *count);

/* The host functions and the module of "spectest". */
extern const struct dz_wasm_host spec_host[];
extern const size_t spec_host_count;
extern const uint8_t spec_host_module[];
extern const size_t spec_host_module_size;

/* Read an argument into slots[0..]; the number of slots, or -1 for a type
 * that is not known. */
int spec_value_read(json_t *value, uint64_t *slots);

/* Is what lies in slots[0..] what the command file expects? NaN patterns and
 * alternatives included. Returns the number of slots that the value has, 0 when
 * it is another value; then `why` says so. */
int spec_value_match(json_t *want, const uint64_t *slots, char *why, size_t why_size);

#endif

/* SPDX-License-Identifier: MIT
 *
 * sandbox_config.h - what a sandbox was created with, as its row says it, and environments.
 */
#ifndef DZ_SANDBOX_SANDBOX_CONFIG_H
#define DZ_SANDBOX_SANDBOX_CONFIG_H

#include "base/attr.h"
#include "base/err.h"
#include "registry/registry.h"

#include <stdbool.h>
#include <stdint.h>

struct dz_sandbox_config {
    char *text; /* owns the strings */
    const char *image, *size, *policy, *durability;
    uint64_t memory_bytes; /* 0: the image's or the policy's */
    uint64_t disk_bytes;   /* 0: the server's */
    const char *env;       /* JSON objects */
    const char *labels, *metadata;
    int64_t silence_ms; /* 0: DZ_IDLE_SILENCE_MS */
    bool auto_resume, ignore_cpu;
};
DZ_NODISCARD int dz_sandbox_config_of(const struct dz_instance *row,
                                      struct dz_sandbox_config *ret_config, struct dz_err *err);
void dz_sandbox_config_release(struct dz_sandbox_config *c); /* for DZ_AUTO too */

/* "K=V" of an object of strings, ends with NULL, one block to be freed. */
DZ_NODISCARD int dz_sandbox_env_list(const char *json, char ***ret_list, struct dz_err *err);
/* The same of a sandbox: ours, the image's (a list, may be NULL), its own; the last one counts. */
DZ_NODISCARD int dz_sandbox_env_of(const char *json, const char *const *image_env, char ***ret_list,
                                   struct dz_err *err);
/* Has the row this label? "k=v", or "k" with any value. */
bool dz_sandbox_has_label(const struct dz_instance *row, const char *label);

#endif

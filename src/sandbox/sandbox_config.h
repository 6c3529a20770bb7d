/* SPDX-License-Identifier: MIT
 *
 * sandbox_config.h - the configuration in a sandbox's row, and environments.
 */
#ifndef DZ_SANDBOX_SANDBOX_CONFIG_H
#define DZ_SANDBOX_SANDBOX_CONFIG_H

#include "base/attr.h"
#include "base/err.h"
#include "lifecycle/lifecycle.h"
#include "registry/registry.h"

#include <stdbool.h>
#include <stdint.h>

struct dz_sandbox_config {
    char *text; /* the memory of all strings below */
    const char *image, *size, *policy, *durability;
    uint64_t memory_bytes; /* 0: the limit of the image or the policy */
    uint64_t disk_bytes;   /* 0: the server's limit */
    const char *volumes;   /* a JSON array; NULL: none */
    const char *services;  /* a JSON array (control_service.c); NULL: none */
    const char *env;       /* a JSON object, as are the next two */
    const char *labels, *metadata;
    const char *ports;        /* an object (control_port.c); NULL: no port is open */
    const char *network;      /* a JSON object: the egress rules; NULL: the server's */
    int64_t silence_ms;       /* 0: DZ_IDLE_SILENCE_MS */
    const char *replica;      /* where it is replicated to: a URL, or "off"; NULL: the server's */
    int64_t replica_every_ms; /* 0: the server's */
    struct dz_expiry expiry;
    bool auto_resume, ignore_cpu;
};
DZ_NODISCARD int dz_sandbox_config_of(const struct dz_instance *row,
                                      struct dz_sandbox_config *ret_config, struct dz_err *err);
void dz_sandbox_config_release(struct dz_sandbox_config *c); /* for DZ_AUTO too */

/* "K=V" of each member of a JSON object of strings; the list ends with NULL and is one block for
 * dz_free(). */
DZ_NODISCARD int dz_sandbox_env_list(const char *json, char ***ret_list, struct dz_err *err);
/* The environment of a sandbox: doze's defaults, then the image's (a list, may be NULL), then its
 * own; later values replace earlier ones. */
DZ_NODISCARD int dz_sandbox_env_of(const char *json, const char *const *image_env, char ***ret_list,
                                   struct dz_err *err);
/* Does the row have this label? "k=v", or "k" for any value. */
bool dz_sandbox_has_label(const struct dz_instance *row, const char *label);

#endif

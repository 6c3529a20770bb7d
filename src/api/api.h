/* SPDX-License-Identifier: MIT
 *
 * api.h - version 1 of the API: routes, requests read, answers written.
 *
 * One file for each resource. Tables (api_json.h) read request bodies, and the
 * control plane decides what is allowed; this module only translates between the control plane
 * and HTTP with JSON. docs/guide/api.md is the contract.
 */
#ifndef DZ_API_API_H
#define DZ_API_API_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dz_api;
struct dz_control;
struct dz_http;
struct dz_loop;

struct dz_api_preview {
    const char *domain; /* of the hosts of previews, with the port that clients use unless it is the
                         * scheme's; "": only by path */
    bool tls;           /* clients use https */
    int64_t wait_ms;    /* how long a sandbox that was asleep may take until it listens */
};
struct dz_api_e2b {
    bool on;               /* E2B's dialect is served beside version 1 */
    const char *templates; /* "NAME=IMAGE,...": images by the names that clients ask for */
    const char *data_path; /* the data directory */
};
struct dz_api_opts {
    struct dz_loop *loop;
    struct dz_control *control; /* borrowed */
    const char *tenant;         /* tenant of everything that the owner of the unix socket creates */
    /* Limits: open connections, connections from one address, requests of one tenant in progress.
     * 0: the default */
    unsigned connections, address_connections, tenant_requests;
    struct dz_api_preview preview;
    struct dz_api_e2b e2b;
};
DZ_NODISCARD int dz_api_new(const struct dz_api_opts *opts, struct dz_api **ret_api,
                            struct dz_err *err);
/* The server, so that the caller can add listeners. Borrowed. */
struct dz_http *dz_api_http(struct dz_api *a);
/* Closes every connection. NULL is fine. */
void dz_api_free(struct dz_api *a);

#endif

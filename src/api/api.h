/* SPDX-License-Identifier: MIT
 *
 * api.h - version 1 of the API: routes, requests read, answers written.
 *
 * One file for each resource. What a request says is read by tables
 * (api_json.h), what may be done is the engine's; here is only how both are
 * written in HTTP and JSON. docs/guide/api.md is the contract.
 */
#ifndef DZ_API_API_H
#define DZ_API_API_H

#include "base/attr.h"
#include "base/err.h"

#include <stddef.h>

struct dz_api;
struct dz_engine;
struct dz_http;
struct dz_loop;

struct dz_api_opts {
    struct dz_loop *loop;
    struct dz_engine *engine; /* borrowed */
    const char *tenant;       /* of what the owner of the socket makes */
    /* Connections at once, of one address; requests of one tenant under way. 0: the default */
    unsigned connections, address_connections, tenant_requests;
};
DZ_NODISCARD int dz_api_new(const struct dz_api_opts *opts, struct dz_api **ret_api,
                            struct dz_err *err);
/* The server, to give it listeners. */
struct dz_http *dz_api_http(struct dz_api *a);
/* Ends every connection. NULL is fine. */
void dz_api_free(struct dz_api *a);

#endif

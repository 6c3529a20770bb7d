/* SPDX-License-Identifier: MIT
 *
 * control_service.h - services of a sandbox: commands that start with it.
 *
 * A service is an object in the list `services` of the sandbox's config, so branches inherit it:
 *
 *     {"name", "cmd":[...] | "shell", "cwd", "user", "env":{}, "needs":[NAME...], "restart",
 *      "ready":{"port" | "http":{"port","path","status"} | "cmd":[...] | "shell" | "log",
 *               "timeout_ms", "interval_ms"},
 *      "stop_signal", "grace_ms", "enabled"}
 *
 * What a client gives has the same members, except that `timeout`, `interval` and `grace` are
 * durations.
 */
#ifndef DZ_CONTROL_CONTROL_SERVICE_H
#define DZ_CONTROL_CONTROL_SERVICE_H

#include "base/id.h"
#include "control/control_why.h"
#include "runtime/runtime_exec.h"
#include "service/service.h"

#include <jansson.h>

struct dz_instance;

enum {
    DZ_CONTROL_SERVICE_BYTES = 16384, /* of one service in the config */
};

/* A service, and how it runs. */
struct dz_control_service {
    const json_t *spec;               /* the object in the config; borrowed from the list */
    const char *status;               /* a name of DZ_SERVICE_STATUSES, "crash_loop" or "asleep" */
    char exec_id[DZ_CELL_ID_MAX + 1]; /* of its last process, "": not known */
    bool exited;                      /* exit_code and signal are of its last process that ended */
    int exit_code, signal;            /* exit_code -1: killed by the signal */
    uint64_t restarts;                /* by the policy, since its machine is there */
    int64_t started_at, ready_at, ended_at, next_at; /* dates in ms, 0: none */
    char error[300];                                 /* why it failed last, "": it did not */
};
struct dz_control_services {
    char sandbox_id[DZ_ID_TEXT];
    json_t *list; /* owned */
    struct dz_control_service of[DZ_SERVICES_MAX];
    size_t count;
};
void dz_control_services_release(struct dz_control_services *all); /* for DZ_AUTO too */

/* In the order in which they were added. */
DZ_NODISCARD int dz_control_services(struct dz_control *e, struct dz_control_target target,
                                     struct dz_control_services *ret_all, struct dz_why *why);
DZ_NODISCARD int dz_control_service_find(const struct dz_control_services *all, const char *name,
                                         const struct dz_control_service **ret_service,
                                         struct dz_why *why);
/* json: an object, as a client gives it. A process of a service that is changed goes on as it was
 * started. */
DZ_NODISCARD int dz_control_service_add(struct dz_control *e, struct dz_control_target target,
                                        const char *json, struct dz_why *why);
DZ_NODISCARD int dz_control_service_change(struct dz_control *e, struct dz_control_target target,
                                           const char *name, const char *json, struct dz_why *why);
/* Remove a service and stop its process: now, or at the next wake if the sandbox sleeps. */
DZ_NODISCARD int dz_control_service_remove(struct dz_control *e, struct dz_control_target target,
                                           const char *name, struct dz_why *why);

enum dz_control_service_act {
    DZ_CONTROL_SERVICE_START, /* it is enabled, too */
    DZ_CONTROL_SERVICE_STOP,  /* it is disabled, too */
    DZ_CONTROL_SERVICE_RESTART,
};
struct dz_control_service_order {
    const char *name;
    enum dz_control_service_act act;
    dz_sandbox_done_fn *done; /* the order is given; the service follows it after that */
    void *arg;
};
struct dz_control_service_call; /* in progress */
/* Wakes the sandbox. */
DZ_NODISCARD int dz_control_service_act(struct dz_control *e, struct dz_control_target target,
                                        const struct dz_control_service_order *order,
                                        struct dz_control_service_call **ret_call,
                                        struct dz_why *why);
/* done is not called any more. NULL is fine. */
void dz_control_service_cancel(struct dz_control_service_call *call);

/* The deployment that clients see: that of the row, or how far the services are. */
const char *dz_control_deployment(struct dz_control *e, const struct dz_instance *row);

struct dz_control_service_counts {
    uint64_t starts, failures, crash_loops;
};
void dz_control_service_counts(const struct dz_control *e,
                               struct dz_control_service_counts *ret_counts);

#endif

/* SPDX-License-Identifier: MIT
 *
 * service.h - the state machine of a sandbox's services: what starts when, and what follows an end.
 *
 * The state machine has no clock, no processes and no sandbox. The caller reports what has happened
 * and when, and asks dz_service_next() for actions until there is none.
 *
 *                   needs are met            process runs, no check     dz_service_ready
 *     WAITING ------------------> STARTING -------------------> READY <----------.
 *        ^                           |  `------- check -----------------------------'
 *        | back-off is over          | an end, by the policy restart
 *     BACKOFF <----------------------+----------------> DONE, FAILED
 *
 *     any state --order stop--> STOPPING (while a process runs) --end--> STOPPED
 *
 * A need is met by a service that is READY, or DONE because it exited with status 0. A service that
 * was started is not stopped because a need of it has ended.
 *
 * Times are milliseconds of a clock that never goes back. Invariant: status is STARTING, READY or
 * STOPPING exactly while a process runs or is being started.
 */
#ifndef DZ_SERVICE_SERVICE_H
#define DZ_SERVICE_SERVICE_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DZ_SERVICES_MAX = 16,                   /* services of a sandbox */
    DZ_SERVICE_SLOTS = 2 * DZ_SERVICES_MAX, /* with removed ones that have not ended */
    DZ_SERVICE_NAME_MAX = 32,               /* bytes */
    DZ_SERVICE_BACKOFF_MIN_MS = 100,        /* before the first restart, doubled for each failure */
    DZ_SERVICE_BACKOFF_MAX_MS = 60 * 1000,
    DZ_SERVICE_STABLE_MS = 10 * 1000, /* a process that ran for so long has not failed at once */
    DZ_SERVICE_LOOP = 5,              /* ends at once in a row that are a crash loop */
};

/* X(ID, "name") */
#define DZ_SERVICE_STATUSES(X) \
    X(STOPPED, "stopped")      \
    X(WAITING, "waiting")      \
    X(STARTING, "starting")    \
    X(READY, "ready")          \
    X(STOPPING, "stopping")    \
    X(BACKOFF, "backoff")      \
    X(DONE, "done")            \
    X(FAILED, "failed")
enum dz_service_status {
#define X(id, text) DZ_SERVICE_##id,
    DZ_SERVICE_STATUSES(X)
#undef X
};
/* X(ID, "name"): whether a service is started again when its process ends. */
#define DZ_SERVICE_RESTARTS(X) X(NO, "no") X(ON_FAILURE, "on-failure") X(ALWAYS, "always")
enum dz_service_restart {
#define X(id, text) DZ_SERVICE_RESTART_##id,
    DZ_SERVICE_RESTARTS(X)
#undef X
};

struct dz_service {
    /* Settings; the caller may change them at any time. */
    char name[DZ_SERVICE_NAME_MAX + 1];
    uint32_t needs; /* bit i: the service in slot i */
    enum dz_service_restart restart;
    bool checked;     /* ready only when dz_service_ready() says so */
    int64_t ready_ms; /* how long that may take */
    int64_t grace_ms; /* from the stop signal to the kill */
    bool enabled;     /* it is to run */
    bool used;        /* the slot is in use */
    bool removed;     /* the slot becomes free at the end of its process */

    /* State; written by the functions below. */
    enum dz_service_status status;
    bool loop;         /* BACKOFF, and what follows: it is in a crash loop */
    bool again;        /* STOPPING: start it again */
    bool late;         /* STOPPING because it was not ready in time */
    bool signal;       /* STOPPING: the stop signal is still to be sent */
    unsigned failures; /* ends at once in a row */
    uint64_t restarts; /* by the policy, since the machine is there */
    int64_t began_at;  /* of the process */
    int64_t due;       /* when next() acts on its status; INT64_MAX: never */
};
struct dz_service_set {
    struct dz_service of[DZ_SERVICE_SLOTS];
};

const char *dz_service_status_name(enum dz_service_status status);
const char *dz_service_restart_name(enum dz_service_restart restart);
/* Does a service need itself, directly or by others? *ret_slot is one that does. */
bool dz_services_cyclic(const struct dz_service_set *set, size_t *ret_slot);

/* The slot of this name; DZ_SERVICE_SLOTS: none. */
size_t dz_service_find(const struct dz_service_set *set, const char *name);
/* A free slot, for settings to be filled in; its status is STOPPED. DZ_SERVICE_SLOTS: none. */
size_t dz_service_slot(struct dz_service_set *set);

/* A machine without any process of a service begins: all that is enabled is to start. */
void dz_services_fresh(struct dz_service_set *set);
/* The machine was suspended for so long: move all times. */
void dz_services_slept(struct dz_service_set *set, int64_t ms);

/* A service was enabled, disabled, is to be restarted, or is removed. Each keeps `enabled` as it
 * says. */
void dz_service_start(struct dz_service *s);
void dz_service_stop(struct dz_service *s);
void dz_service_restart(struct dz_service *s);
void dz_service_remove(struct dz_service *s);

/* The service's process runs: after the action START, or because it was found in a machine that
 * woke. */
void dz_service_runs(struct dz_service *s, int64_t now);
void dz_service_ready(struct dz_service *s);
/* The service's process has ended: now, before the machine woke, or because it could not be
 * started. True: the service has entered a crash loop by that. */
bool dz_service_ended(struct dz_service *s, bool failed, int64_t now);

/* Does a process of it run, or start? */
bool dz_service_has_process(const struct dz_service *s);

enum dz_service_act {
    DZ_SERVICE_ACT_NONE,
    DZ_SERVICE_ACT_START,
    DZ_SERVICE_ACT_STOP, /* send the stop signal */
    DZ_SERVICE_ACT_KILL,
};
/* The next action that is due, for the service *ret_slot; its state is as after it. */
enum dz_service_act dz_service_next(struct dz_service_set *set, int64_t now, size_t *ret_slot);
/* When next() has something to do; INT64_MAX: not before something else happens. */
int64_t dz_services_due(const struct dz_service_set *set);

#endif

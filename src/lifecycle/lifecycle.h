/* SPDX-License-Identifier: MIT
 *
 * lifecycle.h - the states of a sandbox: which transitions are legal, when they happen, and by
 * which steps.
 *
 * Tables and pure functions: no file, no clock, no registry. The module sandbox has those, asks
 * here and carries the answer out.
 *
 *                        +---------- revived ------------+
 *                        v                               |
 *   created --docked--> active --filed away--------> archived --> deleted
 *                       |   ^ ^                          ^
 *             goes idle |   | +---- thaws ----+          |
 *                       v   | woken           |          |
 *                     suspended --stays idle--> frozen --+ filed away
 *
 * There are no other transitions (docs/design/lifecycle.md). All times are milliseconds since 1970,
 * all durations milliseconds.
 */
#ifndef DZ_LIFECYCLE_LIFECYCLE_H
#define DZ_LIFECYCLE_LIFECYCLE_H

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* --- the states ------------------------------------------------------------------- */

/* X(NAME, "name", the states that may follow, as bits) */
#define DZ_STATES(X)                                                       \
    X(CREATED, "created", DZ_STATE_BIT(ACTIVE))                            \
    X(ACTIVE, "active", DZ_STATE_BIT(SUSPENDED) | DZ_STATE_BIT(ARCHIVED))  \
    X(SUSPENDED, "suspended", DZ_STATE_BIT(ACTIVE) | DZ_STATE_BIT(FROZEN)) \
    X(FROZEN, "frozen", DZ_STATE_BIT(ACTIVE) | DZ_STATE_BIT(ARCHIVED))     \
    X(ARCHIVED, "archived", DZ_STATE_BIT(ACTIVE) | DZ_STATE_BIT(DELETED))  \
    X(DELETED, "deleted", 0)

enum dz_state {
#define X(name, text, to) DZ_STATE_##name,
    DZ_STATES(X)
#undef X
    DZ_STATE_COUNT,
    DZ_STATE_NONE = DZ_STATE_COUNT, /* "no state": nothing follows, nothing found */
};
#define DZ_STATE_BIT(name) (1u << DZ_STATE_##name)

const char *dz_state_name(enum dz_state s); /* "none" for DZ_STATE_NONE */
/* DZ_EINVAL with a sentence that lists them. */
DZ_NODISCARD int dz_state_parse(struct dz_str s, enum dz_state *ret_state, struct dz_err *err);

/* Check one transition: the new state, or DZ_ESTATE and a sentence that says what is refused, in
 * which state, and which command makes it possible. Every transition of every sandbox is checked
 * here. */
DZ_NODISCARD int dz_lifecycle_next(enum dz_state from, enum dz_state to, struct dz_err *err);

/* The shortest path from one state to another: the states after `from`, `to` last, into ret_path;
 * returns their number, 0 if from == to, or DZ_ESTATE. */
DZ_NODISCARD int dz_lifecycle_path(enum dz_state from, enum dz_state to,
                                   enum dz_state ret_path[static DZ_STATE_COUNT],
                                   struct dz_err *err);

/* --- what happens beside the state ------------------------------------------------ */

/* The status of a sandbox, for people: X(NAME, "name"). */
#define DZ_STATUSES(X)          \
    X(NONE, "")                 \
    X(CREATING, "creating")     \
    X(STARTING, "starting")     \
    X(RUNNING, "running")       \
    X(EXECUTING, "executing")   \
    X(SUSPENDING, "suspending") \
    X(RESTORING, "restoring")   \
    X(FREEZING, "freezing")     \
    X(ARCHIVING, "archiving")   \
    X(DELETING, "deleting")     \
    X(ERROR, "error")

enum dz_status {
#define X(name, text) DZ_STATUS_##name,
    DZ_STATUSES(X)
#undef X
    DZ_STATUS_COUNT,
};
const char *dz_status_name(enum dz_status s);
DZ_NODISCARD int dz_status_parse(struct dz_str s, enum dz_status *ret_status, struct dz_err *err);

/* The column deployment: X(NAME, "name"). */
#define DZ_DEPLOYMENTS(X)   \
    X(NONE, "")             \
    X(DEPLOYED, "DEPLOYED") \
    X(TERMINATED, "TERMINATED") /* it has expired */

enum dz_deployment {
#define X(name, text) DZ_DEPLOYMENT_##name,
    DZ_DEPLOYMENTS(X)
#undef X
    DZ_DEPLOYMENT_COUNT,
};
const char *dz_deployment_name(enum dz_deployment d);
DZ_NODISCARD int dz_deployment_parse(struct dz_str s, enum dz_deployment *ret_deployment,
                                     struct dz_err *err);

/* What a suspend keeps. */
enum dz_keep {
    DZ_KEEP_MEMORY, /* files and memory */
    DZ_KEEP_FILES,
};
DZ_NODISCARD int dz_keep_parse(struct dz_str s, enum dz_keep *ret_keep, struct dz_err *err);

/* --- the idle policy ------------------------------------------------------------------- */

#define DZ_IDLE_INHERIT (-1)      /* use the next of: sandbox, image, daemon */
#define DZ_IDLE_OFF     INT64_MAX /* this tier is off */

struct dz_idle_policy {
    int64_t suspend_ms; /* an active sandbox is suspended after this idle time */
    int64_t freeze_ms;  /* a suspended sandbox is frozen after this time without use */
};
extern const struct dz_idle_policy dz_idle_policy_default; /* 15 minutes, 24 hours */

/* Choose each tier from the first that sets it: sandbox, image, daemon, the default. Each may be
 * NULL. */
struct dz_idle_policy dz_idle_policy_choose(const struct dz_idle_policy *sandbox,
                                            const struct dz_idle_policy *image,
                                            const struct dz_idle_policy *server);

/* The state that idleness alone leads to: SUSPENDED, FROZEN or NONE. */
enum dz_state dz_lifecycle_auto_next(enum dz_state state, int64_t idle_ms,
                                     const struct dz_idle_policy *policy);

/* How idleness is counted. */
enum dz_idle_mode {
    DZ_IDLE_ACTIVITY,    /* since the last activity */
    DZ_IDLE_CONNECTIONS, /* since the last connection closed */
    DZ_IDLE_NEVER,       /* never idle */
};
const char *dz_idle_mode_name(enum dz_idle_mode m); /* "activity", "connections", "never" */
DZ_NODISCARD int dz_idle_mode_parse(struct dz_str s, enum dz_idle_mode *ret_mode,
                                    struct dz_err *err);

#define DZ_IDLE_CONNECTION_LAG_MS ((int64_t)15 * 1000)      /* after the last close, by default */
#define DZ_IDLE_SILENCE_MS        ((int64_t)15 * 60 * 1000) /* then a connection stops counting */
/* A guest whose processes all sleep for at least this long is suspended when there has been no
 * request for a moment; its wake_at wakes it in time. */
#define DZ_IDLE_SLEEPER_MS       ((int64_t)10 * 1000)
#define DZ_IDLE_SLEEPER_QUIET_MS ((int64_t)1000)

/* --- what counts as activity --------------------------------------------------------- */

/* X(NAME, "name", does it count?) */
#define DZ_ACTIVITIES(X)                                    \
    X(REQUEST, "request", ALWAYS)                           \
    X(EXEC, "exec", ALWAYS)                                 \
    X(UPLOAD, "upload", ALWAYS)                             \
    X(DOWNLOAD, "download", ALWAYS)                         \
    X(LIST_DIRECTORY, "list_directory", ALWAYS)             \
    X(WAKE, "wake", ALWAYS)                                 \
    X(SCHEDULE, "schedule", ALWAYS)                         \
    X(AGENT_CALL, "agent_call", ALWAYS)                     \
    X(CONNECTION_OPEN, "connection_open", ALWAYS)           \
    X(CONNECTION_BYTE, "connection_byte", ALWAYS)           \
    X(CONNECTION_KEEPALIVE, "connection_keepalive", ALWAYS) \
    X(CONNECTION_CLOSE, "connection_close", ALWAYS)         \
    X(GUEST_CPU, "guest_cpu", CPU)                          \
    X(READ_STATUS, "read_status", NEVER)                    \
    X(LIST_SANDBOXES, "list_sandboxes", NEVER)              \
    X(READ_EVENTS, "read_events", NEVER)                    \
    X(EVENT_STREAM, "event_stream", NEVER)                  \
    X(READ_METRICS, "read_metrics", NEVER)

enum dz_activity {
#define X(name, text, counts) DZ_ACTIVITY_##name,
    DZ_ACTIVITIES(X)
#undef X
    DZ_ACTIVITY_COUNT,
};
const char *dz_activity_name(enum dz_activity a);
/* GUEST_CPU (above 1 % of a core) counts in activity mode, when count_cpu is on. */
bool dz_lifecycle_counts(enum dz_activity a, enum dz_idle_mode mode, bool count_cpu);

/* --- how long it may be awake ------------------------------------------------------------ */

/* The action at the end of a sandbox's timeout. The timeout runs while the sandbox is active and
 * stands still otherwise; a hold does not stop it. */
enum dz_timeout_action {
    DZ_TIMEOUT_DESTROY,
    DZ_TIMEOUT_PAUSE, /* the sandbox is suspended; its next wake begins the timeout anew */
};
const char *dz_timeout_action_name(enum dz_timeout_action a); /* "destroy", "pause" */
DZ_NODISCARD int dz_timeout_action_parse(struct dz_str s, enum dz_timeout_action *ret_action,
                                         struct dz_err *err);
/* The end of the timeout of a sandbox that becomes active now: after the rest, or (0, or restarted)
 * after all of length_ms. 0: never (no length). */
int64_t dz_timeout_begin(int64_t length_ms, int64_t left_ms, bool anew, int64_t now);
/* The rest of the timeout at this time, at which the sandbox stops being active: at least 1 ms if
 * the action is destroy; 0, which means all of it, if the action is pause and the time is over. */
int64_t dz_timeout_rest(int64_t at, enum dz_timeout_action action, int64_t now);

/* --- how long it may exist ----------------------------------------------------------------- */

/* When a sandbox expires: at the earliest of these. Each is 0 if it is not set; with none a sandbox
 * never expires. */
struct dz_expiry {
    int64_t max_age_ms; /* after its creation, in any state */
    int64_t idle_ms;    /* after it was last used or suspended, or created; never while active */
    int64_t date;       /* at this time, in any state */
};
static inline bool dz_expiry_is_set(const struct dz_expiry *e)
{
    return e->max_age_ms || e->idle_ms || e->date;
}
/* The earlier of date and maximum age; 0: neither is set. */
int64_t dz_expiry_date(const struct dz_expiry *e, int64_t created);
/* An expired sandbox is stopped at once, and removed after this time. Nothing else can happen to it
 * any more. */
#define DZ_EXPIRY_CLEANUP_MS ((int64_t)5 * 60 * 1000)

/* --- when something is due ------------------------------------------------------------- */

/* The facts about a sandbox that decide what is due. A time of 0 is "never was" or "not set". */
struct dz_facts {
    enum dz_state state;
    enum dz_idle_mode mode;
    struct dz_idle_policy idle_policy; /* chosen: nothing inherited */
    int64_t created, last_active, suspended_at;
    unsigned connections; /* open now */
    int64_t last_byte;    /* time of the last byte on any of them, or when the last was opened */
    int64_t last_closed;  /* when the last one closed */
    int64_t silence_ms;   /* 0: DZ_IDLE_SILENCE_MS */
    int64_t hold_until;   /* kept awake until then */
    int64_t wake_at;     /* time at which a suspended guest is to be woken; later, if that failed */
    int64_t expires;     /* expires then, in any state; if it has expired, is removed then */
    int64_t ttl_idle_ms; /* also expires after this long without activity, but never while active */
    int64_t retry_at;    /* the last try of anything else failed: earliest next try */
    int64_t timeout_at;  /* end of the timeout; the action then: */
    enum dz_timeout_action timeout_action;
    bool ephemeral; /* never suspended: deleted when it is no longer awake */
    bool expired;   /* its deployment is TERMINATED */
    /* all processes of an awake guest sleep until then, so it may be suspended */
    int64_t sleeps_until;
};

enum dz_due {
    DZ_DUE_NOTHING,
    DZ_DUE_EXPIRE, /* the order is that of precedence at equal times */
    DZ_DUE_DESTROY,
    DZ_DUE_WAKE,
    DZ_DUE_SUSPEND,
    DZ_DUE_FREEZE,
};

/* When it expires if nothing happens; INT64_MAX: never, or it has expired. */
int64_t dz_lifecycle_expires(const struct dz_facts *facts);
/* The next thing that is due by time alone, and its time, at *ret_at (INT64_MAX with NOTHING). A
 * time in the past is due now. */
enum dz_due dz_lifecycle_due(const struct dz_facts *facts, int64_t *ret_at);

#endif

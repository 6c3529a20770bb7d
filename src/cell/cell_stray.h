/* SPDX-License-Identifier: MIT
 *
 * cell_stray.h - find, kill and reap unknown children.
 *
 *     dz_strays_init(&s, epoll, every_ms, err);
 *     dz_strays_session(&s, root);          descendants of root may fork strays
 *     ... epoll is readable: dz_strays_run(&s, found, arg) ...
 *
 * A zygote forks children of its host (CLONE_PARENT). A zygote that was taken over could fork
 * children that never send their first packet (dz_cell_learn()), so that nobody would end or reap
 * them. Therefore the host looks at its children now and then. A child in a root zygote's session
 * whose pid is not claimed (dz_reap_claim()), and that was born before the look before this one, is
 * a stray: it is claimed, killed and reaped here.
 *
 * There may be tens of thousands of strays. A turn of the loop deals with DZ_STRAYS_AT_ONCE of
 * them, and the timer fires again at once while some are left.
 */
#ifndef DZ_CELL_CELL_STRAY_H
#define DZ_CELL_CELL_STRAY_H

#include "base/attr.h"
#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    DZ_STRAY_EVERY_MS = 10000, /* an honest child is known milliseconds after its birth */
    DZ_STRAY_SESSIONS = 16,    /* sessions: those of the last root zygotes */
    DZ_STRAYS_AT_ONCE =
        64, /* strays killed in one turn; as many of those killed earlier are reaped */
    DZ_STRAYS_LISTED =
        4096, /* children that one look lists; the next look lists those behind them */
};

struct dz_strays {
    int timer; /* in the owner's epoll set */
    int64_t every_ms;
    pid_t sessions[DZ_STRAY_SESSIONS];
    unsigned next_session;
    int64_t looked_ns, before_ns; /* boot time of the last look, and of the one before */
    DZ_VEC(, pid_t) listed; /* children that were unclaimed at the last look; the oldest first */
    size_t at;              /* how many of `listed` were handled */
    bool again;             /* some of `listed` were strays, so more may follow: look again */
    DZ_VEC(, pid_t) killed; /* killed and claimed, not reaped yet */
    size_t next_killed;
};

DZ_NODISCARD int dz_strays_init(struct dz_strays *s, int epoll, int64_t every_ms,
                                struct dz_err *err);
/* From now on, also look at the session of which this process is the leader. */
void dz_strays_session(struct dz_strays *s, pid_t leader);
/* Look for strays if it is time to. `found` gets at most DZ_STRAYS_AT_ONCE strays, which are
 * claimed and live until it returns, so that it can first end the process that forks them. */
typedef void dz_strays_fn(void *arg, const pid_t *pids, size_t count);
void dz_strays_run(struct dz_strays *s, dz_strays_fn *found, void *arg);
/* Reaps those that were killed. */
void dz_strays_release(struct dz_strays *s);

/* The user namespace of a process. Where zygotes have user namespaces, each shares its own only
 * with the processes that it forked. */
struct dz_stray_home {
    uint64_t dev, ino; /* ino 0: it is in ours, or that is not known */
};
struct dz_stray_home dz_stray_home(pid_t pid);

#endif

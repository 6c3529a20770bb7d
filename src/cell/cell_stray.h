/* SPDX-License-Identifier: MIT
 *
 * cell_stray.h - children that nobody knows.
 *
 *     dz_strays_init(&s, epoll, every_ms, err);
 *     dz_strays_session(&s, seed);          whose descendants may have forked some
 *     ... epoll is readable: dz_strays_run(&s, end, arg) ...
 *
 * A zygote forks children of its host (CLONE_PARENT). One that was taken over forks some that never
 * say which process they are (dz_cell_learn()): nobody would end them, or reap them. So the host
 * looks at its children now and then. One of a seed's session whose number has no holder
 * (dz_reap_claim()), and had none when it was looked for before, is a stray.
 */
#ifndef DZ_CELL_CELL_STRAY_H
#define DZ_CELL_CELL_STRAY_H

#include "base/attr.h"
#include "base/err.h"
#include "base/vec.h"

#include <stdint.h>
#include <sys/types.h>

enum {
    DZ_STRAY_EVERY_MS = 10000, /* an honest child is known milliseconds after its birth */
    DZ_STRAY_SESSIONS = 16,    /* of the last seeds */
    DZ_STRAYS_MAX = 1 << 20,
};

struct dz_strays {
    int timer; /* in the owner's epoll set */
    pid_t sessions[DZ_STRAY_SESSIONS];
    unsigned next_session;
    DZ_VEC(, pid_t) before, now; /* sorted: unclaimed when it was looked, and now */
};

DZ_NODISCARD int dz_strays_init(struct dz_strays *s, int epoll, int64_t every_ms,
                                struct dz_err *err);
/* A process that leads a session of its own, from now on. */
void dz_strays_session(struct dz_strays *s, pid_t leader);
/* If it is time to look: `end` gets each stray, which is a child of ours that nobody has reaped. */
void dz_strays_run(struct dz_strays *s, void (*end)(void *arg, pid_t pid), void *arg);
void dz_strays_release(struct dz_strays *s);

/* Are these in the same user namespace, and that not ours? A zygote and all that it forked are,
 * where there are any. */
bool dz_strays_same_kind(pid_t a, pid_t b);

#endif

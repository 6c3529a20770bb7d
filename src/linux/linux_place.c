/* SPDX-License-Identifier: MIT
 *
 * linux_place.c - chooses the processors of the kernel process and its stubs.
 *
 * A call is two hand-overs between the kernel process and a stub, which wait for each other. On one
 * processor (gathered) a hand-over is a context switch. On two processors, the other one must be
 * woken from sleep, and its caches are cold, which takes several times as long. But on one
 * processor two threads of the machine cannot compute at the same time, and the host's scheduler
 * cannot move them away from another machine that computes on the same processor. So machines begin
 * gathered, and
 *
 *     gathered ──> spread    two threads or more ran at PLACE_MANY looks in turn;
 *                            or a thread waited for the processor longer than the kernel process
 *                            used it, and than a quarter of the time: others need it, too
 *     spread ──> gathered    one thread at most has run since the last look, and the time for which
 *                            the machine was to be spread is over. That time doubles each time that
 *                            others were found soon again. The processor is then the one that the
 *                            scheduler has chosen for the kernel process.
 *
 * A running machine is checked at most once in a slice. Elapsed time alone decides nothing, so the
 * result does not depend on the speed of the host.
 */
#include "linux/linux_run_int.h"

#include "base/clock.h"

#include <sched.h>
#include <time.h>

enum {
    PLACE_MANY = 2,
    PLACE_LOOK_NS = 20 * 1000 * 1000, /* between two checks of how long a thread waited */
    PLACE_SPREAD_NS = 100 * 1000 * 1000,
    PLACE_SPREAD_MAX_NS = 1600 * 1000 * 1000,
    PLACE_AGAIN_NS = 500 * 1000 * 1000, /* others found again so soon: double the time */
};

enum linux_move dz_linux_place_next(struct linux_place *p, int64_t now,
                                    const struct linux_seen *seen)
{
    p->many = seen->running > 1 ? p->many + 1 : 0;
    if (!p->gathered) {
        if (p->many)
            p->until = now + PLACE_SPREAD_NS > p->until ? now + PLACE_SPREAD_NS : p->until;
        if (now < p->until)
            return LINUX_STAY;
        p->gathered_at = now;
        p->gathered = true;
        return LINUX_GATHER;
    }
    const bool crowded = seen->passed_ns > 0 && seen->waited_ns > seen->own_ns &&
                         seen->waited_ns - seen->own_ns > seen->passed_ns / 4;
    if (!crowded && p->many < PLACE_MANY)
        return LINUX_STAY;
    const bool again = crowded && now - p->gathered_at < PLACE_AGAIN_NS && p->spread_ns;
    p->spread_ns = !again                                   ? PLACE_SPREAD_NS
                   : p->spread_ns * 2 < PLACE_SPREAD_MAX_NS ? p->spread_ns * 2
                                                            : PLACE_SPREAD_MAX_NS;
    p->until = now + p->spread_ns;
    p->gathered = false;
    return LINUX_SPREAD;
}

static int64_t own_cpu(void)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * DZ_NS_PER_S + t.tv_nsec;
}

/* How long did the first running thread wait since the last check? If it was not checked before:
 * since it was made. */
static void see(struct dz_linux *l, int64_t now, struct linux_seen *seen)
{
    struct linux_place *p = &l->place;
    const struct dz_linux_thread *t = NULL;
    for (uint32_t i = 1; i < DZ_STUB_THREADS_MAX && !t; i++)
        if (l->threads[i] && l->threads[i]->running)
            t = l->threads[i];
    int64_t waited = 0;
    if (!t || linux_ops(l)->delay(l->o.stub, t->number, &waited) < 0)
        return;
    const int64_t own = own_cpu();
    *seen = (struct linux_seen){
        .running = seen->running,
        .waited_ns = waited - (t->serial == p->serial ? p->waited_ns : 0),
        .own_ns = own - p->own_ns,
        .passed_ns = now - p->looked_at,
    };
    p->serial = t->serial;
    p->waited_ns = waited;
    p->own_ns = own;
    p->looked_at = now;
}

void dz_linux_place_look(struct dz_linux *l, int64_t now)
{
    struct linux_place *p = &l->place;
    struct linux_seen seen = {.running = l->running};
    if (!p->able)
        return;
    /* A machine that was idle was checked long ago: that interval has no meaning. */
    if (now - p->looked_at > 2 * PLACE_LOOK_NS) {
        p->serial = 0;
        see(l, now, &seen);
        seen = (struct linux_seen){.running = l->running};
    } else if (now - p->looked_at >= PLACE_LOOK_NS) {
        see(l, now, &seen);
    }
    switch (dz_linux_place_next(p, now, &seen)) {
    case LINUX_STAY:
        break;
    case LINUX_SPREAD:
        (void)linux_ops(l)->place(l->o.stub, -1);
        break;
    case LINUX_GATHER:
        (void)linux_ops(l)->place(l->o.stub, sched_getcpu());
        break;
    }
}

void dz_linux_place_begin(struct dz_linux *l)
{
    const struct dz_stub_ops *ops = linux_ops(l);
    l->place = (struct linux_place){.gathered = true};
    l->place.able = ops->place && ops->delay && ops->place(l->o.stub, sched_getcpu()) == 0;
}

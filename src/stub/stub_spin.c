/* SPDX-License-Identifier: MIT
 *
 * stub_spin.c - polling instead of sleeping, while calls come in quick succession.
 *
 * Stubs share one processor with the kernel's side, because waking another processor takes longer
 * than a context switch. If the program makes one call after another and a processor is idle, it is
 * faster still that nobody sleeps: this side moves to an idle processor and polls the bell, and the
 * stub polls its ctx for the answer. So
 *
 *     asleep ──> polling    the average time from run() to the next call is below SPIN_ENTER_NS,
 * one thread runs, a processor is idle, and polling can be paid for polling ──> asleep    no call
 * came within SPIN_GAP_NS, nothing runs, others need the processor, or the credit is used up. This
 * side returns to the stubs' processor before it sleeps.
 *
 * Polling is paid for from a credit. Each call that polling caught adds SPIN_SAVED_NS, the
 * processor time of the two context switches that it made unnecessary; passing time adds a share of
 * 1/SPIN_SHARE. Hence, in any interval,
 *
 *     time polled <= calls * SPIN_SAVED_NS + interval / SPIN_SHARE + SPIN_CREDIT_MAX_NS +
 * SPIN_GAP_NS
 *
 * whatever the guest does. A stub polls for SPIN_GAP_NS at most for each call, and not at all when
 * the call waits.
 *
 * Whether a processor is idle is the number of runnable threads of the host, in /proc/loadavg. It
 * is read before this side moves, and every SPIN_LOOK_NS while it polls. On a host that is busy,
 * nobody polls.
 */
#include "stub/stub_int.h"

#include "base/clock.h"

#include <stdio.h>
#include <unistd.h>

enum {
    SPIN_LOOK_NS = 1000 * 1000,
    SPIN_REST_NS = 1000 * 1000, /* after others needed the processor: doubled, if soon again */
    SPIN_REST_MAX_NS = 64 * 1000 * 1000,
    SPIN_GAP_CAP_NS = 200 * 1000, /* a longer gap counts as this in the average */
    SPIN_TURNS = 2000,            /* of a loop that is timed */
};

/* ---- the rule ---------------------------------------------------------------------------- */

void dz_stub_spin_init(struct stub_spin *s, int64_t now)
{
    *s = (struct stub_spin){
        .home = -1, .gap_ns = SPIN_GAP_CAP_NS, .credit_ns = SPIN_CREDIT_MAX_NS, .paid_at = now};
}

static void credit_add(struct stub_spin *s, int64_t ns)
{
    s->credit_ns += ns;
    if (s->credit_ns > SPIN_CREDIT_MAX_NS)
        s->credit_ns = SPIN_CREDIT_MAX_NS;
}

void dz_stub_spin_called(struct stub_spin *s, int64_t now)
{
    int64_t gap = now - s->ran_at;
    if (!s->ran_at)
        return;
    gap = gap < 0 ? 0 : gap > SPIN_GAP_CAP_NS ? SPIN_GAP_CAP_NS : gap;
    s->gap_ns += (gap - s->gap_ns) / 8;
    s->ran_at = 0;
}

bool dz_stub_spin_pays(struct stub_spin *s, int64_t now)
{
    if (now > s->paid_at) {
        credit_add(s, (now - s->paid_at) / SPIN_SHARE);
        s->paid_at = now;
    }
    return s->home >= 0 && s->gap_ns < SPIN_ENTER_NS && s->credit_ns >= SPIN_START_NS &&
           now >= s->rest_until;
}

int64_t dz_stub_spin_limit(const struct stub_spin *s)
{
    return s->credit_ns < 0 ? 0 : s->credit_ns < SPIN_GAP_NS ? s->credit_ns : SPIN_GAP_NS;
}

void dz_stub_spin_polled(struct stub_spin *s, int64_t ns, bool called)
{
    s->credit_ns -= ns;
    s->polled_ns += ns;
    if (called)
        credit_add(s, SPIN_SAVED_NS);
}

void dz_stub_spin_rest(struct stub_spin *s, int64_t now)
{
    const bool again = s->rest_ns && now - s->rest_until < s->rest_ns;
    s->rest_ns = !again                              ? SPIN_REST_NS
                 : s->rest_ns * 2 < SPIN_REST_MAX_NS ? s->rest_ns * 2
                                                     : SPIN_REST_MAX_NS;
    s->rest_until = now + s->rest_ns;
}

/* ---- the processors ---------------------------------------------------------------------- */

/* Are there as many runnable threads as processors? This side and the stub are two of them. */
static bool crowded(const struct host *h)
{
    char text[128];
    unsigned running = 0;
    const ssize_t n = h->load_fd < 0 ? 0 : pread(h->load_fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return true;
    text[n] = '\0';
    if (sscanf(text, "%*s %*s %*s %u/", &running) != 1)
        return true;
    return running > (unsigned)CPU_COUNT(&h->cpus);
}

/* The turns of a stub's loop that take SPIN_GAP_NS. */
static uint32_t turns(void)
{
    const int64_t began = dz_clock_mono_ns();
    for (int i = 0; i < SPIN_TURNS; i++)
        __builtin_ia32_pause();
    const int64_t took = dz_clock_mono_ns() - began;
    return (uint32_t)((int64_t)SPIN_GAP_NS * SPIN_TURNS / (took > SPIN_TURNS ? took : SPIN_TURNS));
}

/* This side moves away from the stubs' processor, where the thread that was just run continues. */
void dz_stub_spin_begin(struct host *h)
{
    struct stub_spin *s = &h->spin;
    if (s->on || s->gap_ns >= SPIN_ENTER_NS || s->home < 0 || h->running != 1)
        return;
    const int64_t now = dz_clock_mono_ns();
    if (!dz_stub_spin_pays(s, now))
        return;
    if (crowded(h)) {
        dz_stub_spin_rest(s, now);
        return;
    }
    cpu_set_t others = h->cpus;
    CPU_CLR((size_t)s->home, &others);
    if (sched_setaffinity(0, sizeof others, &others) < 0)
        return;
    if (!s->turns)
        s->turns = turns();
    s->looked_at = now;
    s->on = true;
}

void dz_stub_spin_stop(struct host *h)
{
    struct stub_spin *s = &h->spin;
    if (!s->on)
        return;
    s->on = false;
    cpu_set_t home;
    CPU_ZERO(&home);
    CPU_SET((size_t)s->home, &home);
    (void)sched_setaffinity(0, sizeof home, &home);
    dz_stub_spin_run(h, 0);
}

void dz_stub_spin_place(struct host *h, int cpu)
{
    h->spin.on = false; /* the caller has moved this side */
    h->spin.home = cpu;
    dz_stub_spin_run(h, 0);
}

void dz_stub_spin_run(struct host *h, uint32_t number)
{
    struct stub_spin *s = &h->spin;
    if (s->thread && s->thread != number && h->threads[s->thread].state != T_FREE)
        ctx_of(h, s->thread)->spin = 0; /* it polls the processor away from this thread */
    s->thread = number;
    s->ran_at = number && h->running == 1 && s->home >= 0 ? dz_clock_mono_ns() : 0;
    if (number)
        ctx_of(h, number)->spin = s->on && h->running == 1 ? s->turns : 0;
}

void dz_stub_spin_stopped(struct host *h)
{
    if (h->spin.ran_at)
        dz_stub_spin_called(&h->spin, dz_clock_mono_ns());
}

size_t dz_stub_spin_poll(struct host *h, struct dz_stub_event *ret_events, size_t max)
{
    struct stub_spin *s = &h->spin;
    if (!s->on || h->running != 1 || !max)
        return 0;
    const int64_t began = dz_clock_mono_ns();
    if (began - s->looked_at >= SPIN_LOOK_NS) {
        s->looked_at = began;
        if (!crowded(h))
            return 0; /* the caller checks all else */
        dz_stub_spin_rest(s, began);
        dz_stub_spin_stop(h);
        return 0;
    }
    if (h->armed)
        dz_stub_arm(h, false);
    const int64_t limit = dz_stub_spin_limit(s);
    int64_t now = began;
    size_t count = 0;
    while (!count && now - began <= limit) {
        for (int i = 0; i < 16 && !count; i++) {
            __builtin_ia32_pause();
            count = dz_stub_heard(h, ret_events, max);
        }
        now = dz_clock_mono_ns();
    }
    dz_stub_spin_polled(s, now - began, count > 0);
    if (!count)
        dz_stub_spin_stop(h);
    return count;
}

bool dz_stub_spin_await(struct host *h, const struct stub_ctx *c)
{
    struct stub_spin *s = &h->spin;
    if (!s->on)
        return false;
    const int64_t began = dz_clock_mono_ns();
    int64_t now = began;
    bool done = false;
    do {
        for (int i = 0; i < 16 && !done; i++) {
            __builtin_ia32_pause();
            done = atomic_load_explicit(&c->state, memory_order_acquire) == STUB_WAITS;
        }
        now = dz_clock_mono_ns();
    } while (!done && now - began < SPIN_GAP_NS);
    dz_stub_spin_polled(s, now - began, done);
    return done;
}

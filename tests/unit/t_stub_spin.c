/* SPDX-License-Identifier: MIT
 * When the kernel's side of stubs polls instead of sleeping, and for how long: the rule alone. */
#include "stub/stub_int.h"

#include "tap.h"

#define US INT64_C(1000)
#define MS (1000 * US)

static struct stub_spin s;
static int64_t now;

static void start(void)
{
    now = 1000 * MS;
    dz_stub_spin_init(&s, now);
    s.home = 0;
}
/* A thread runs, and makes a call after this time. */
static void call(int64_t gap_ns)
{
    s.ran_at = now;
    now += gap_ns;
    dz_stub_spin_called(&s, now);
}

TEST(polling_begins_when_calls_are_close_together)
{
    start();
    CHECK(!dz_stub_spin_pays(&s, now)); /* nothing is known yet */
    for (int i = 0; i < 8; i++)
        call(8 * US);
    CHECK(!dz_stub_spin_pays(&s, now)); /* a few calls may be all */
    for (int i = 0; i < 40; i++)
        call(8 * US);
    CHECK(dz_stub_spin_pays(&s, now));
    call(5 * MS); /* the program computes */
    CHECK(!dz_stub_spin_pays(&s, now));
    for (int i = 0; i < 40; i++)
        call(8 * US);
    CHECK(dz_stub_spin_pays(&s, now));
    s.home = -1; /* stubs run anywhere */
    CHECK(!dz_stub_spin_pays(&s, now));
    s.home = 0;
    for (int i = 0; i < 100; i++)
        call(30 * US); /* longer than two context switches save */
    CHECK(!dz_stub_spin_pays(&s, now));
}

TEST(a_thread_that_did_not_run_alone_shows_nothing)
{
    start();
    for (int i = 0; i < 100; i++) {
        s.ran_at = 0;
        dz_stub_spin_called(&s, now);
    }
    CHECK(!dz_stub_spin_pays(&s, now));
    CHECK_INT(s.gap_ns, 200 * US);
}

TEST(others_get_the_processor)
{
    start();
    for (int i = 0; i < 100; i++)
        call(8 * US);
    int64_t rest = 0;
    for (int i = 0; i < 12; i++) { /* found again each time: pause twice as long */
        CHECK(dz_stub_spin_pays(&s, now));
        dz_stub_spin_rest(&s, now);
        CHECK(!dz_stub_spin_pays(&s, now));
        CHECK(s.rest_until - now >= rest);
        rest = s.rest_until - now;
        now = s.rest_until;
    }
    CHECK_INT(rest, 64 * MS);
    now += 1000 * MS;
    dz_stub_spin_rest(&s, now);
    CHECK_INT(s.rest_until - now, 1 * MS);
}

/* Polls as dz_stub_spin_poll() does, for a call that comes after `gap_ns`. */
static bool poll_for(int64_t gap_ns)
{
    const int64_t limit = dz_stub_spin_limit(&s);
    const int64_t took = gap_ns < limit ? gap_ns : limit;
    s.ran_at = now;
    now += took;
    dz_stub_spin_polled(&s, took, gap_ns <= limit);
    if (gap_ns > limit)
        now += gap_ns - took;
    dz_stub_spin_called(&s, now);
    return gap_ns <= limit;
}

/* Programs of all kinds, and one that knows the rule: the time polled has its bound. */
TEST(time_polled_is_bounded)
{
    static const int64_t gaps[] = {1, 3, 6, 10, 15, 49, 51, 60, 200, 3000};
    uint64_t seed = 1;
    for (unsigned kind = 0; kind < 40; kind++) {
        start();
        const int64_t began = now;
        int64_t caught = 0;
        bool on = false;
        for (int i = 0; i < 20000; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            const size_t some = (size_t)((seed >> 33) % (1 + kind % DZ_ARRAY_LEN(gaps)));
            /* the last ten: enough calls to begin, then as long a gap as polling lasts */
            const int64_t gap = kind < 30 ? gaps[some] * US
                                : i % 64  ? 2 * US
                                          : dz_stub_spin_limit(&s) + (kind & 1 ? 1 : 0);
            on = on || dz_stub_spin_pays(&s, now);
            if (on) {
                on = poll_for(gap);
                caught += on;
                (void)dz_stub_spin_pays(&s, now);
            } else {
                call(gap);
            }
            if (s.polled_ns > caught * SPIN_SAVED_NS + (now - began) / SPIN_SHARE +
                                  SPIN_CREDIT_MAX_NS + SPIN_GAP_NS) {
                CHECK(false);
                return;
            }
        }
        CHECK(kind == 9 || s.polled_ns > 0);
    }
}

TEST(idle_time_pays_for_a_millisecond_at_most)
{
    start();
    dz_stub_spin_polled(&s, 500 * US, false);
    now += 3600 * 1000 * MS;
    (void)dz_stub_spin_pays(&s, now);
    CHECK_INT(s.credit_ns, SPIN_CREDIT_MAX_NS);
    dz_stub_spin_polled(&s, 2 * US, true);
    CHECK_INT(s.credit_ns, SPIN_CREDIT_MAX_NS);
}

TEST(a_program_that_computes_polls_a_sixteenth_at_most)
{
    start();
    for (int i = 0; i < 100; i++)
        call(8 * US);
    const int64_t began = now, polled = s.polled_ns;
    for (int i = 0; i < 100000; i++) /* whoever calls it polls each time */
        (void)dz_stub_spin_pays(&s, now), (void)poll_for(500 * US);
    CHECK(s.polled_ns - polled <= (now - began) / SPIN_SHARE + SPIN_CREDIT_MAX_NS + SPIN_GAP_NS);
}

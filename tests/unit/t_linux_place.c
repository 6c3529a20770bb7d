/* SPDX-License-Identifier: MIT
 * When a machine's threads share a processor with their kernel, and when not: the rule alone. */
#include "linux/linux_run_int.h"

#include "tap.h"

#define MS (INT64_C(1000) * 1000)

static struct linux_place p;
static int64_t now;

/* A look 5 ms after the last one. Times in ms; passed 0: nobody looked at waits. */
static enum linux_move look(uint32_t running, int64_t waited, int64_t own, int64_t passed)
{
    const struct linux_seen seen = {running, waited * MS, own * MS, passed * MS};
    now += 5 * MS;
    return dz_linux_place_next(&p, now, &seen);
}
static void start(void)
{
    p = (struct linux_place){.able = true, .gathered = true};
    now = 1000 * MS;
}

TEST(one_thread_stays_with_its_kernel)
{
    start();
    for (int i = 0; i < 100; i++)
        CHECK_INT(look(1, 9, 9, 20), LINUX_STAY); /* it waits while the kernel works */
    CHECK_INT(look(1, 14, 9, 20), LINUX_STAY);    /* and a little for others */
    CHECK_INT(look(1, 1000, 0, 0), LINUX_STAY);   /* a time that nobody measured */
    CHECK(p.gathered);
}

TEST(two_threads_spread_until_one_is_left)
{
    start();
    CHECK_INT(look(2, 0, 0, 0), LINUX_STAY); /* for a moment, as in a pipeline */
    CHECK_INT(look(1, 0, 0, 0), LINUX_STAY);
    CHECK_INT(look(2, 0, 0, 0), LINUX_STAY);
    CHECK_INT(look(3, 0, 0, 0), LINUX_SPREAD);
    CHECK(!p.gathered);
    for (int i = 0; i < 50; i++)
        CHECK_INT(look(2, 0, 0, 0), LINUX_STAY);
    for (int i = 0; i < 19; i++)
        CHECK_INT(look(1, 19, 0, 20), LINUX_STAY); /* waits count on one processor only */
    CHECK_INT(look(1, 0, 0, 0), LINUX_GATHER);
    CHECK_INT(look(1, 0, 0, 0), LINUX_STAY);
}

/* Spread by a wait that others caused; after how many ms the machine is gathered again. */
static int64_t crowded(void)
{
    CHECK_INT(look(1, 15, 9, 20), LINUX_SPREAD);
    const int64_t since = now;
    while (look(1, 0, 0, 20) != LINUX_GATHER)
        CHECK(now - since < 10000 * MS);
    return (now - since) / MS;
}

TEST(others_on_the_processor_spread_a_machine_for_longer_each_time)
{
    start();
    CHECK_INT(crowded(), 100);
    CHECK_INT(crowded(), 200);
    CHECK_INT(crowded(), 400);
    CHECK_INT(crowded(), 800);
    CHECK_INT(crowded(), 1600);
    CHECK_INT(crowded(), 1600);
    for (int i = 0; i < 100; i++)
        CHECK_INT(look(1, 0, 0, 20), LINUX_STAY);
    CHECK_INT(crowded(), 100); /* they had gone */
}

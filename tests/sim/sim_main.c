/* SPDX-License-Identifier: MIT
 *
 * sim: the lifecycle with all that can go wrong, by seed. A TAP line for each.
 *
 *     SEEDS=500     the first 500 seeds (the default)
 *     SEED=17       that one alone, with what happened in numbers
 *     STEPS=300     things that happen in each
 *
 * A seed that fails is run again with fewer steps, to find the first step after
 * which it does.
 */
#include "base/buf.h"
#include "base/log.h"
#include "db/db.h"
#include "sim_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct dz_buf template = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
static long all_operations, all_crashes, all_timeouts, all_done[DZ_REQUEST_COUNT];

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && text[0] ? strtol(text, NULL, 10) : otherwise;
}

/* True: nothing was wrong. What was goes to why. */
static bool run(uint64_t seed, long steps, char why[static 512], bool tell)
{
    static struct sim_world w;
    sim_open(&w, seed, template.p, template.len);
    for (long i = 0; i < steps && !w.bad[0]; i++)
        sim_act(&w);
    if (!w.bad[0])
        sim_rest(&w);
    sim_close(&w);
    (void)snprintf(why, 512, "%s", w.bad);
    all_operations += w.operations;
    all_crashes += w.crashes;
    all_timeouts += w.timeouts;
    for (int i = 0; i < DZ_REQUEST_COUNT; i++)
        all_done[i] += w.done[i];
    if (tell)
        printf("# seed %llu: %ld requests, %ld operations done, %ld crashes\n",
               (unsigned long long)seed, w.asked, w.operations, w.crashes);
    return !w.bad[0];
}

static void shrink(uint64_t seed, long steps)
{
    char why[512];
    long least = 0;
    while (least < steps && run(seed, least, why, false))
        least++;
    printf("# first wrong after %ld steps: SEED=%llu STEPS=%ld: %s\n", least,
           (unsigned long long)seed, least, why);
}

int main(void)
{
    long steps = number("STEPS", 300), one = number("SEED", -1), seeds = number("SEEDS", 500);
    long failed = 0, n = 0;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    dz_log_setup(STDERR_FILENO, DZ_LOG_ERROR, false); /* cells fail on purpose */
    dz_db_seed(1);
    if (dz_registry_template(&template, NULL) < 0)
        return 1;
    for (long seed = one >= 0 ? one : 1; seed <= (one >= 0 ? one : seeds); seed++) {
        char why[512];
        bool good = run((uint64_t)seed, steps, why, one >= 0);
        if (!good) {
            failed++;
            printf("# seed %ld: %s\n", seed, why);
            shrink((uint64_t)seed, steps);
        }
        printf("%sok %ld - seed %ld\n", good ? "" : "not ", ++n, seed);
    }
    printf("# %ld crashes, %ld timeouts, %ld operations:", all_crashes, all_timeouts,
           all_operations);
    for (int i = 0; i < DZ_REQUEST_COUNT; i++)
        if (all_done[i])
            printf(" %s %ld", dz_request_name((enum dz_request)i), all_done[i]);
    printf("\n1..%ld\n", n);
    dz_buf_release(&template);
    return failed ? 1 : 0;
}

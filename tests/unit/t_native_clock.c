/* SPDX-License-Identifier: MIT
 *
 * Clocks of native programs: what they tell, and that nobody is asked for it. */
#define TAP_ALARM_S 90
#include "tap.h"

#include "../lib/native_rig.h"

static struct nrig r;

TEST(time_of_day_without_a_call)
{
    static const char *const argv[] = {"/bin/bash", "-c",
                                       "for ((i = 0; i < 20000; i++)); do t=$EPOCHREALTIME; "
                                       "((${t/./} < ${last:-0})) && echo back; last=${t/./}; done; "
                                       "echo $last; read -t 0.3 <> <(:); echo ${EPOCHREALTIME/./}",
                                       NULL};
    long long told[2] = {0};
    nrig_count = "gettimeofday(";
    nrig_start(&r);
    nrig_program(&r, "/bin/bash");
    const long long before = dz_clock_real_ns() / 1000;
    CHECK_INT(nrig_run(&r, argv, NULL), 0);
    const long long after = dz_clock_real_ns() / 1000;
    CHECK_INT(sscanf(r.out, "%lld\n%lld", &told[0], &told[1]), 2);
    CHECK(told[0] >= before - 20 && told[1] <= after + 20 && told[1] - told[0] >= 300 * 1000);
    CHECK(nrig_counted < 1000);
    printf("# %u calls\n", nrig_counted);
    nrig_stop(&r);
}

/* SPDX-License-Identifier: MIT
 *
 * bench_spawn.c - the yardstick of most benches on this machine, beside itself:
 * how far the ratio is from 1 is the noise of the harness.
 */
#include "bench.h"

int main(void)
{
    static struct bench b;
    static char path[] = "/bin/true", *argv[] = {path, NULL};
    bench_init(&b, "spawn", 51);
    int spawn = bench_case(&b, "posix_spawn /bin/true", bench_spawn_true, NULL, 20);
    int again = bench_case(&b, "posix_spawn /bin/true again", bench_command, argv, 20);
    bench_run(&b);
    bench_row(&b, &(struct bench_row){.row = "posix_spawn of /bin/true",
                                      .value = bench_us(&b, spawn),
                                      .unit = "µs",
                                      .yardstick = bench_us(&b, again),
                                      .yardstick_name = "the same again: the noise",
                                      .ratio = bench_us(&b, spawn) / bench_us(&b, again)});
    bench_row(&b, &(struct bench_row){.row = "posix_spawn of /bin/true, p99",
                                      .value = bench_quantile_us(&b, spawn, 0.99),
                                      .unit = "µs"});
    return bench_finish(&b);
}

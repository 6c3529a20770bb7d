/* SPDX-License-Identifier: MIT
 *
 * bench.h - functions shared by all `make bench-NAME` programs.
 *
 * A bench measures cases side by side: after a warm-up, round after round, each
 * case once per round (A B C A B C …), so that a machine whose speed drifts
 * slows all of them alike. Figures are medians over the rounds. Each row has a yardstick that was
 * measured in the same run, and their ratio, because an absolute time on a shared machine says
 * little.
 *
 *     struct bench b;
 *     bench_init(&b, "disk", 15);
 *     int ours = bench_case(&b, "create 1 KB, doze", run_create, &ctx, 1000);
 *     int peer = bench_case(&b, "create 1 KB, peer", run_peer, &ctx, 1000);
 *     bench_run(&b);
 *     bench_row(&b, &(struct bench_row){.row = "create 1 KB", .value = bench_us(&b, ours),
 *         .unit = "µs", .yardstick = bench_us(&b, peer), .yardstick_name = "peer",
 *         .ratio = bench_us(&b, peer) / bench_us(&b, ours), .budget = 20, .at_least = true});
 *     return bench_finish(&b);
 *
 * bench_finish prints the table and writes build/bench/NAME.json:
 *     {"machine":"…","rows":[{"row","value","unit","yardstick","ratio","budget","met"}]}
 * It never fails because a budget is missed: a timing is not a test.
 */
#ifndef DZ_BENCH_H
#define DZ_BENCH_H

#include <stdbool.h>
#include <stddef.h>

enum {
    BENCH_CASES_MAX = 96,
    BENCH_ROWS_MAX = 96,
    BENCH_ROUNDS_MAX = 4096,
};

/* One round of a case: do the work `count` times. Set-up that must not be
 * counted goes between bench_stop and bench_start. A negative return ends the
 * case: its rows are left out and named as failed. */
struct bench;
typedef int bench_fn(struct bench *b, void *arg, long count);

enum bench_clock {
    BENCH_WALL,
    BENCH_CPU, /* of this process and of the children it reaped */
};

struct bench_row {
    const char *row;
    double value;
    const char *unit;
    double yardstick; /* same unit; 0: none */
    const char *yardstick_name;
    double ratio;  /* the budget applies to it if there is a yardstick; 0: none */
    double budget; /* of ratio, or of value when ratio is 0; 0: none */
    bool at_least; /* the budget is a lower bound, not an upper one */
};

struct bench_sample {
    const char *name;
    bench_fn *fn;
    void *arg;
    long count; /* operations in a round */
    bool failed;
    double ns[BENCH_ROUNDS_MAX]; /* per operation, one per round; sorted after bench_run */
};

struct bench {
    const char *name;
    int rounds;
    enum bench_clock clock;
    int case_count, row_count;
    struct bench_sample *cases[BENCH_CASES_MAX];
    struct bench_row rows[BENCH_ROWS_MAX];
    double started, counted; /* of the round under way, ns */
};

void bench_init(struct bench *b, const char *name, int rounds);

/* Adds a case and answers its number. */
int bench_case(struct bench *b, const char *name, bench_fn *fn, void *arg, long count);

/* Warms up each case once, then runs `rounds` interleaved rounds. */
void bench_run(struct bench *b);

/* Within a round: leave something out of the count. */
void bench_stop(struct bench *b);
void bench_start(struct bench *b);

/* Per operation, after bench_run. 0 when the case failed. */
double bench_us(const struct bench *b, int id);                    /* median */
double bench_quantile_us(const struct bench *b, int id, double q); /* 0.99 for p99 */
bool bench_failed(const struct bench *b, int id);

void bench_row(struct bench *b, const struct bench_row *row);
int bench_finish(struct bench *b); /* 0, or 1 when a case failed or nothing could be written */

/* The yardstick of most rows: posix_spawn of /bin/true and waiting for it. */
int bench_spawn_true(struct bench *b, void *arg, long count);

/* Runs a command with stdout discarded; arg is a NULL-terminated argv. A round
 * is `count` runs. Use with BENCH_CPU to compare whole programs. */
int bench_command(struct bench *b, void *argv, long count);

/* Unshared memory of a cell in KB: of the guests' own memories, and of everything else. */
struct bench_memory {
    double inside, rest;
};
struct bench_memory bench_memory(int pid);
int bench_child(int pid); /* the first child of a process; 0: none */

/* Where peers are installed: DOZE_PEERS, else $HOME/.cache/doze-peers. False
 * (after a line that names it) when `file` is not there. */
bool bench_peer(const char *file, char *ret_path, size_t size);

#endif

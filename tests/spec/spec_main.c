/* SPDX-License-Identifier: MIT
 *
 * spec_main.c - runs WebAssembly's own tests, converted to JSON and wasm.
 *
 *     spec [--dispatch=goto|switch|wide] [--3.0] LABEL DIR
 *
 * Every .json below DIR is run by a child of its own, two at a time
 * (SPEC_JOBS), so that a crash costs the rest of one file, whose assertions
 * then count as failed. --3.0 enables the features of WebAssembly 3.0 that doze
 * has; otherwise exactly 2.0 is on. The last line is
 * "LABEL DISPATCH: N passed, N failed". Exit status 0: something ran and nothing failed.
 */
#include "spec.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    FILES_MAX = 4096,
    JOBS_MAX = 64,
    FILE_TIMEOUT_S = 120, /* of one child; the slowest file takes seconds, also under ASan */
};

static char *files[FILES_MAX];
static size_t file_count;
static struct spec_count *counts; /* shared with the children, one per file */

static int note_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    const char *dot = strrchr(path, '.');
    (void)st, (void)ftw;
    if (type == FTW_F && dot && strcmp(dot, ".json") == 0 && file_count < FILES_MAX)
        files[file_count++] = strdup(path);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static pid_t start(const struct spec_options *opt, size_t i)
{
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(FILE_TIMEOUT_S);
        spec_run_file(opt, files[i], &counts[i]);
        (void)fflush(stdout);
        exit(0); /* not _exit: the leak checker runs at exit */
    }
    return pid;
}

/* What a child left undone because it died counts as failed. */
static void reap(const struct spec_options *opt, size_t i, int status)
{
    struct spec_count *c = &counts[i];
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    int lost = c->total - c->passed - c->failed;
    c->failed += lost > 0 ? lost : 1;
    printf("FAIL %s %s: child %s %d, %d assertions lost\n", opt->label, files[i],
           WIFSIGNALED(status) ? "killed by signal" : "exited with",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), lost);
}

static void run_all(const struct spec_options *opt, size_t jobs)
{
    pid_t pids[JOBS_MAX] = {0};
    size_t running[JOBS_MAX], next = 0, active = 0;
    while (next < file_count || active) {
        if (next < file_count && active < jobs) {
            size_t slot = 0;
            while (pids[slot])
                slot++;
            running[slot] = next;
            pids[slot] = start(opt, next++);
            active++;
            continue;
        }
        int status = 0;
        pid_t pid = wait(&status);
        for (size_t slot = 0; slot < jobs; slot++)
            if (pids[slot] == pid) {
                reap(opt, running[slot], status);
                pids[slot] = 0;
                active--;
            }
    }
}

static size_t jobs_of_environment(void)
{
    const char *text = getenv("SPEC_JOBS");
    long n = text ? strtol(text, NULL, 10) : 2;
    return n < 1 ? 1 : n > JOBS_MAX ? JOBS_MAX : (size_t)n;
}

static int usage(void)
{
    (void)fputs("usage: spec [--dispatch=goto|switch|wide] [--3.0] LABEL DIR\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    struct spec_options opt = {.dispatch = DZ_WASM_DISPATCH_SWITCH, .features = DZ_WASM_F_2_0};
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "--dispatch=goto") == 0)
            opt.dispatch = DZ_WASM_DISPATCH_GOTO;
        else if (strcmp(argv[at], "--dispatch=wide") == 0)
            opt.wide = true; /* by the switch */
        else if (strcmp(argv[at], "--3.0") == 0)
            opt.features = DZ_WASM_F_ALL;
        else if (strcmp(argv[at], "--dispatch=switch") != 0)
            return usage();
    }
    if (argc - at != 2)
        return usage();
    opt.label = argv[at];
    if (nftw(argv[at + 1], note_file, 16, FTW_PHYS) != 0 || file_count == 0) {
        (void)fprintf(stderr, "spec: no .json below %s\n", argv[at + 1]);
        return 2;
    }
    qsort(files, file_count, sizeof files[0], by_name);
    counts = mmap(NULL, file_count * sizeof *counts, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED)
        return 2;
    run_all(&opt, jobs_of_environment());
    int passed = 0, failed = 0;
    for (size_t i = 0; i < file_count; i++) {
        passed += counts[i].passed;
        failed += counts[i].failed;
        free(files[i]);
    }
    printf("%s %s: %d passed, %d failed\n", opt.label,
           opt.wide                                ? "wide"
           : opt.dispatch == DZ_WASM_DISPATCH_GOTO ? "goto"
                                                   : "switch",
           passed, failed);
    return failed || !passed ? 1 : 0;
}

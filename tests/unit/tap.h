/* SPDX-License-Identifier: MIT
 *
 * tap.h - the whole unit-test framework. Include it in exactly one file per
 * test program; it defines main(). Output is TAP 13, so prove(1), meson and
 * any CI can read it.
 *
 *     TEST(buf_keeps_nul) { CHECK_INT(b.len, 3); }
 *
 * Each test runs in its own child: a crash, a leak or a hang (10 s) fails that
 * test alone. TORTURE(name) runs its body again and again, with the 1st, the
 * 2nd, ... allocation failing, until a run needs no more: the body must hold
 * for every outcome.
 *
 *     ./t_base_buf            all tests      ./t_base_buf keeps    those whose name has "keeps"
 *     TAP_NOFORK=1 gdb --args ./t_base_buf keeps
 *     TAP_ONLY=torture ./t_base_buf        only the torture tests
 *
 * A TORTURE that allocates nothing fails, and so does a test that ends its
 * process by itself, were it with exit(0).
 *
 * SKIP("why") leaves a test that this machine cannot run; the reason is shown,
 * and when DZ_TEST_MUST_RUN names the program (its name without "t_"), a skip
 * is a failure.
 */
#ifndef DZ_TAP_H
#define DZ_TAP_H

#include "base/mem.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct tap_case {
    const char *name;
    void (*fn)(void);
    bool torture;
    struct tap_case *next;
};
static struct tap_case *tap_head, **tap_tail = &tap_head;
static int tap_bad;
static bool *tap_finished; /* shared with the child: the test's body came to its end */
static const char *tap_program = "";

enum {
    TAP_PASS = 0,
    TAP_FAIL = 1,
    TAP_SKIPPED = 77,
};

#define TAP_CASE_(id, is_torture)                                  \
    static void id(void);                                          \
    static struct tap_case tap_##id = {#id, id, is_torture, NULL}; \
    __attribute__((constructor)) static void tap_reg_##id(void)    \
    {                                                              \
        *tap_tail = &tap_##id;                                     \
        tap_tail = &tap_##id.next;                                 \
    }                                                              \
    static void id(void)
#define TEST(id)    TAP_CASE_(id, false)
#define TORTURE(id) TAP_CASE_(id, true)

#define SKIP(why)                       \
    do {                                \
        printf("# skipped: %s\n", why); \
        (void)fflush(stdout);           \
        exit(TAP_SKIPPED);              \
    } while (0)

#define CHECK(expr)                                                       \
    do {                                                                  \
        if (!(expr)) {                                                    \
            printf("# %s:%d: not true: %s\n", __FILE__, __LINE__, #expr); \
            tap_bad++;                                                    \
        }                                                                 \
    } while (0)
#define CHECK_INT(got, want)                                                             \
    do {                                                                                 \
        long long g_ = (long long)(got), w_ = (long long)(want);                         \
        if (g_ != w_) {                                                                  \
            printf("# %s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, g_, w_); \
            tap_bad++;                                                                   \
        }                                                                                \
    } while (0)
#define CHECK_STR(got, want)                                                                 \
    do {                                                                                     \
        const char *g_ = (got), *w_ = (want);                                                \
        if (strcmp(g_, w_) != 0) {                                                           \
            printf("# %s:%d: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, #got, g_, w_); \
            tap_bad++;                                                                       \
        }                                                                                    \
    } while (0)

#ifndef TAP_ALARM_S
#define TAP_ALARM_S 10 /* of CPU; of the clock it may take a minute more */
#endif
#ifndef TAP_TORTURE_MAX
#define TAP_TORTURE_MAX 100000
#endif

/* Does the comma-separated DZ_TEST_MUST_RUN name this program? */
static bool tap_must_run(void)
{
    const char *want = getenv("DZ_TEST_MUST_RUN");
    const char *me = strncmp(tap_program, "t_", 2) == 0 ? tap_program + 2 : tap_program;
    size_t len = strlen(me);
    for (const char *p = want; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (strncmp(p, me, len) == 0 && (p[len] == ',' || p[len] == '\0'))
            return true;
    return false;
}

static void tap_run(const struct tap_case *c)
{
    if (c->torture) {
        for (int sticky = 0; sticky < 2; sticky++) {
            long n = 0;
            do {
                dz_mem_fail_at(n++, sticky);
                c->fn();
                dz_mem_fail_at(-1, false);
            } while (dz_mem_failed() && n < TAP_TORTURE_MAX);
            printf("# %s: %ld failure points\n", c->name, n - 1);
            CHECK(n > 1); /* else nothing was tortured */
            CHECK(n < TAP_TORTURE_MAX);
        }
    } else {
        c->fn();
    }
    CHECK_INT(dz_mem_live(), 0);
}

static int tap_run_in_child(const struct tap_case *c)
{
    int status;
    (void)fflush(stdout);
    *tap_finished = false;
    pid_t pid = fork();
    if (pid == 0) {
        rlim_t cpu_s = c->torture ? 60 : TAP_ALARM_S;
        const struct rlimit limit = {cpu_s, cpu_s};
        (void)setrlimit(RLIMIT_CPU, &limit);
        alarm((unsigned)cpu_s + 60); /* other work may hold the machine */
        tap_run(c);
        *tap_finished = true;
        (void)fflush(stdout);
        exit(tap_bad ? TAP_FAIL : TAP_PASS); /* not _exit: the leak checker runs at exit */
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return TAP_FAIL;
    if (WIFSIGNALED(status))
        printf("# killed by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (WIFEXITED(status) && WEXITSTATUS(status) == TAP_SKIPPED)
        return tap_must_run() ? TAP_FAIL : TAP_SKIPPED;
    if (!*tap_finished && !WIFSIGNALED(status))
        printf("# ended its process before its end\n");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 && *tap_finished ? TAP_PASS : TAP_FAIL;
}

static bool tap_wanted(const struct tap_case *c, int argc, char **argv)
{
    const char *only = getenv("TAP_ONLY");
    if (only && strcmp(only, "torture") == 0 && !c->torture)
        return false;
    return argc < 2 || strstr(c->name, argv[1]);
}

int main(int argc, char **argv)
{
    int n = 0, failed = 0;
    tap_finished =
        mmap(NULL, sizeof *tap_finished, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tap_finished == MAP_FAILED)
        return 1;
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* what a crashing test printed is shown */
    tap_program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    for (const struct tap_case *c = tap_head; c; c = c->next) {
        if (!tap_wanted(c, argc, argv))
            continue;
        tap_bad = 0;
        int result = TAP_PASS;
        if (getenv("TAP_NOFORK")) {
            tap_run(c);
            result = tap_bad ? TAP_FAIL : TAP_PASS;
        } else {
            result = tap_run_in_child(c);
        }
        printf("%sok %d - %s%s\n", result == TAP_FAIL ? "not " : "", ++n, c->name,
               result == TAP_SKIPPED ? " # SKIP" : "");
        failed += result == TAP_FAIL;
    }
    printf("1..%d\n", n);
    return failed ? 1 : 0;
}

#endif

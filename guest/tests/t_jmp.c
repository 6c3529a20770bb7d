/* SPDX-License-Identifier: MIT
 * setjmp and longjmp: from far, many times, nested, across loops and signals. */
#include "check.h"

#include <setjmp.h>

static jmp_buf outer, inner;

static void thrower(int n);
static void (*volatile again)(int) = thrower; /* the compiler must not see through it */
static void thrower(int n)
{
    volatile char stack[200];
    stack[n % 200] = (char)n;
    if (n == 0)
        longjmp(outer, 5);
    again(n - 1);
    stack[0]++;
}

TEST(values_come_through)
{
    volatile int round = 0;
    int v = setjmp(outer);
    if (round < 3) {
        CHECK_INT(v, round == 0 ? 0 : 5);
        round++;
        thrower(round * 10);
    }
    CHECK_INT(v, 5);
    CHECK_INT(round, 3);
}

TEST(many_times_without_growing)
{
    volatile long n = 0;
    if (setjmp(outer) < 200000 && n < 200000) {
        n++;
        longjmp(outer, (int)n);
    }
    CHECK_INT(n, 200000);
}

TEST(nested_handlers)
{
    volatile int log = 0;
    switch (setjmp(outer)) {
    case 0:
        if (setjmp(inner) == 0) {
            log = log * 10 + 1;
            longjmp(inner, 1);
        }
        log = log * 10 + 2;
        longjmp(outer, 7);
    case 7:
        log = log * 10 + 3;
    }
    CHECK_INT(log, 123);
}

static int parse(const char *text)
{
    const char *volatile s = text;
    volatile int depth = 0;
    if (setjmp(outer))
        return -depth;
    for (; *s; s++) {
        depth += *s == '(' ? 1 : -1;
        if (depth < 0 || depth > 3)
            longjmp(outer, 1);
    }
    return depth;
}

TEST(as_error_exit_of_a_function)
{
    CHECK_INT(parse("(())"), 0);
    CHECK_INT(parse("(((("), -4);
    CHECK_INT(parse("())"), 1);
}

TEST(locals_that_did_not_change_survive)
{
    int a = getpid(), b = a * 3;
    char text[64];
    snprintf(text, sizeof text, "%d", a);
    if (setjmp(outer) == 0)
        thrower(50);
    CHECK_INT(b, a * 3);
    CHECK_INT(atoi(text), a);
}

TEST(a_child_jumps_in_its_own_copy)
{
    volatile int mine = 1;
    int v = setjmp(outer);
    if (v == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            mine = 2;
            thrower(5);
        }
        CHECK_INT(wait_for(pid), 2);
    } else {
        _exit(mine);
    }
    CHECK_INT(mine, 1);
}

static sigjmp_buf mask_buf;
static void jump(int s)
{
    siglongjmp(mask_buf, s);
}

TEST(the_mask_only_when_asked)
{
    sigset_t now;
    signal(SIGUSR1, jump);
    if (sigsetjmp(mask_buf, 0) == 0)
        raise(SIGUSR1);
    sigprocmask(SIG_SETMASK, NULL, &now);
    CHECK(sigismember(&now, SIGUSR1));
    sigemptyset(&now);
    sigprocmask(SIG_SETMASK, &now, NULL);
    if (sigsetjmp(mask_buf, 1) == 0)
        raise(SIGUSR1);
    sigprocmask(SIG_SETMASK, NULL, &now);
    CHECK(!sigismember(&now, SIGUSR1));
}

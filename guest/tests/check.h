/* SPDX-License-Identifier: MIT
 *
 * check.h - TAP for programs that run inside a sandbox.
 *
 * These tests are plain POSIX: the same file compiled for Linux must pass there
 * (the Makefile's guest-native target), so that they test our POSIX against a
 * real one and not against our idea of it. Each test runs in a child of its own,
 * in an empty directory of its own; a test that hangs is killed after 20 s.
 */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int check_bad;

#define CHECK(expr)                                                                    \
    do {                                                                               \
        if (!(expr)) {                                                                 \
            printf("# line %d: not true: %s (errno %d: %s)\n", __LINE__, #expr, errno, \
                   strerror(errno));                                                   \
            check_bad++;                                                               \
        }                                                                              \
    } while (0)
#define CHECK_INT(got, want)                                                                   \
    do {                                                                                       \
        long long g_ = (long long)(got), w_ = (long long)(want);                               \
        if (g_ != w_) {                                                                        \
            printf("# line %d: %s is %lld, not %lld (errno %d: %s)\n", __LINE__, #got, g_, w_, \
                   errno, strerror(errno));                                                    \
            check_bad++;                                                                       \
        }                                                                                      \
    } while (0)
#define CHECK_STR(got, want)                                                                    \
    do {                                                                                        \
        const char *g_ = (got), *w_ = (want);                                                   \
        if (!g_ || strcmp(g_, w_) != 0) {                                                       \
            printf("# line %d: %s is \"%s\", not \"%s\"\n", __LINE__, #got, g_ ? g_ : "(null)", \
                   w_);                                                                         \
            check_bad++;                                                                        \
        }                                                                                       \
    } while (0)
/* A call that must fail, and how. */
#define CHECK_ERR(call, want)             \
    do {                                  \
        errno = 0;                        \
        CHECK_INT((long long)(call), -1); \
        CHECK_INT(errno, want);           \
    } while (0)

struct test {
    const char *name;
    void (*fn)(void);
    struct test *next;
};
static struct test *check_head, **check_tail = &check_head;

#define TEST(id)                                                 \
    static void id(void);                                        \
    static struct test test_##id = {#id, id, 0};                 \
    __attribute__((constructor)) static void register_##id(void) \
    {                                                            \
        *check_tail = &test_##id;                                \
        check_tail = &test_##id.next;                            \
    }                                                            \
    static void id(void)

/* Waits for pid; its exit status, or 1000 plus the signal that killed it. */
static inline int wait_for(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static inline void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0);
    CHECK_INT(write(fd, text, strlen(text)), strlen(text));
    CHECK_INT(close(fd), 0);
}

/* The start of a file as a string, in a static buffer. */
static inline const char *read_file(const char *path)
{
    static char buf[4096];
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof buf - 1);
    if (fd >= 0)
        close(fd);
    buf[n < 0 ? 0 : n] = 0;
    return n < 0 ? NULL : buf;
}

static inline void nap_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&t, &t) < 0 && errno == EINTR)
        ;
}

static int check_one(const struct test *t)
{
    char dir[] = "/tmp/guest-XXXXXX", back[4096];
    if (!mkdtemp(dir) || !getcwd(back, sizeof back))
        return 1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (chdir(dir) < 0)
            _exit(2);
        alarm(20);
        t->fn();
        fflush(stdout);
        _exit(check_bad ? 1 : 0);
    }
    int rc = wait_for(pid);
    if (rc >= 1000)
        printf("# killed by signal %d\n", rc - 1000);
    char rm[64];
    snprintf(rm, sizeof rm, "rm -rf %s", dir);
    if (system(rm) != 0)
        printf("# could not remove %s\n", dir);
    return rc;
}

int main(int argc, char **argv)
{
    int n = 0, failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (const struct test *t = check_head; t; t = t->next) {
        if (argc > 1 && !strstr(t->name, argv[1]))
            continue;
        int rc = check_one(t);
        printf("%sok %d - %s\n", rc ? "not " : "", ++n, t->name);
        failed += rc != 0;
    }
    printf("1..%d\n", n);
    return failed ? 1 : 0;
}

#endif

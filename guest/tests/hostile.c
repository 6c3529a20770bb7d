/* SPDX-License-Identifier: MIT
 *
 * hostile.c - a guest that attacks its machine, one way for each argument.
 *
 * A calm process starts the attacker in a process group of its own, and does its
 * own work meanwhile: BEATS naps. Then it ends the attack, and checks that all is as
 * before: it can fork, open a pipe, take memory. What the attacker met is left in a
 * file. Printed at the end: "calm", and the attacker's words.
 */
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

enum {
    BEATS = 30,
    NAP_NS = 4000000,
    STEP = 1 << 20,
};

__attribute__((import_module("doze"), import_name("longjmp"))) void raw_longjmp(const void *token,
                                                                                int value);
__attribute__((import_module("doze"), import_name("setjmp"))) int raw_setjmp(void *token);

/* The first words that are told are kept. */
static void tell(const char *what, int e)
{
    char text[64];
    int fd = open("/tmp/told", O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return;
    int n = snprintf(text, sizeof text, "%s %s", what, e ? strerror(e) : "");
    (void)!write(fd, text, (size_t)n);
    (void)close(fd);
}

static void nap(void)
{
    const struct timespec t = {0, NAP_NS};
    (void)nanosleep(&t, NULL);
}

/* --- attacks: none needs to return ---------------------------------------------------- */

static void forks(void)
{
    for (;;)
        if (fork() < 0) {
            tell("fork", errno);
            nap();
        }
}

static void pipes(void)
{
    static char block[4096];
    int p[2], e = 0;
    for (;;) { /* each has a buffer of its own */
        if (pipe2(p, O_NONBLOCK) < 0) {
            e = errno;
            if (fork() != 0) /* in as many processes as there may be */
                break;
            for (int fd = 3; fd < 1024; fd++)
                if (fd % 2)
                    (void)close(fd); /* room for new descriptors, buffers stay with others */
            continue;
        }
        while (write(p[1], block, sizeof block) > 0)
            continue;
    }
    tell("pipe", e);
    for (;;)
        nap();
}

static void files(void)
{
    for (;;)
        if (open("/tmp", O_RDONLY) < 0) {
            int e = errno;
            (void)close(9); /* for the words */
            tell("open", e);
            if (fork() != 0)
                break;
            for (int fd = 3; fd < 1024; fd++)
                (void)close(fd);
        }
    for (;;)
        nap();
}

static void memory(void)
{
    char *p, *last = NULL;
    for (; (p = malloc(STEP)); last = p)
        memset(p, 1, STEP);
    int e = errno;
    free(last); /* for the words */
    tell("malloc", e);
    for (;;)
        if (fork() < 0)
            nap();
}

static void loops(void)
{
    for (int i = 0; i < 8; i++)
        if (fork() == 0)
            for (;;)
                continue;
    tell("loops", 0);
    for (;;)
        continue;
}

static void on_alarm(int signo)
{
    (void)raise(signo);
    for (;;)
        continue;
}

static void handlers(void)
{
    struct sigaction a = {.sa_handler = on_alarm, .sa_flags = SA_NODEFER};
    (void)sigaction(SIGUSR1, &a, NULL);
    pid_t p = fork();
    if (p == 0)
        (void)raise(SIGUSR1);
    for (int i = 0; i < 20; i++) { /* more and more of them, none of which returns */
        nap();
        (void)kill(p, SIGUSR1);
    }
    int status = 0;
    (void)kill(p, SIGKILL);
    (void)waitpid(p, &status, 0);
    tell(WIFSIGNALED(status) ? "killed" : "ended", 0);
}

static uint32_t seed = 1;
static uint32_t dice(void)
{
    seed = seed * 1664525 + 1013904223;
    return seed >> 8;
}

/* Tokens made up, and real ones of calls that returned or with bits turned over. */
static void jumps(void)
{
    static uint64_t token[2], real[2];
    int returned = 0;
    for (int i = 0; i < 60; i++) {
        pid_t p = fork();
        if (p == 0) {
            (void)alarm(1);
            if (raw_setjmp(real) != 0)
                _exit(1);
            token[0] = i % 3 ? real[0] : (uint64_t)dice() << 32 | dice();
            token[1] = real[1];
            if (i % 3)
                token[i % 2] ^= 1ull << dice() % 64;
            raw_longjmp(token, 1);
            _exit(2);
        }
        int status = 0;
        returned += waitpid(p, &status, 0) == p;
        seed += (uint32_t)i;
    }
    tell(returned == 60 ? "all came back" : "lost", 0);
}

static int sink;
static int deep(int n)
{
    volatile int here[64];
    here[n & 63] = n;
    sink += here[0];
    return n < 0 ? 0 : deep(n + 1) + here[n & 63];
}

static void stack(void)
{
    pid_t p = fork();
    if (p == 0)
        _exit(deep(0));
    int status = 0;
    (void)waitpid(p, &status, 0);
    tell(WIFSIGNALED(status) ? "killed" : "ended", 0);
}

static void arguments(void)
{
    static char *argv[70000];
    static char word[4096];
    memset(word, 'x', sizeof word - 1);
    for (int i = 0; i < 69999; i++)
        argv[i] = word;
    (void)execv("/bin/g", argv);
    tell("execv", errno);
}

/* Where is the host? Each of these must be a file of the machine, or none. */
static void escape(void)
{
    static const char *const paths[] = {
        "/../etc/passwd",
        "../../../../../../../../etc/passwd",
        "/tmp/up/etc/passwd",
        "/tmp/up2/etc/passwd",
        "/proc/self/root/../etc/passwd",
        "/proc/1/root/etc/passwd",
        "/proc/self/cwd/../../etc/passwd",
        "/dev/fd/../../etc/passwd",
        "/tmp/../../etc//passwd",
        "/proc/self/exe/../../../etc/passwd",
    };
    char text[64];
    int found = 0;
    (void)symlink("../../../../../..", "/tmp/up");
    (void)symlink("/../..", "/tmp/up2");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        int fd = open(paths[i], O_RDONLY);
        if (fd < 0)
            continue;
        ssize_t n = read(fd, text, sizeof text - 1);
        text[n > 0 ? n : 0] = '\0';
        found += strncmp(text, "guest", 5) != 0; /* what the test put there */
        (void)close(fd);
    }
    (void)symlink("loop2", "/tmp/loop1");
    (void)symlink("loop1", "/tmp/loop2");
    int fd = open("/tmp/loop1/x", O_RDONLY);
    if (fd >= 0 || errno != ELOOP)
        found++;
    (void)mkdir("/tmp/jail", 0700);
    pid_t p = fork();
    if (p == 0)
        _exit(chroot("/tmp/jail") != 0 || open("/../etc/passwd", O_RDONLY) >= 0);
    int status = 1;
    (void)waitpid(p, &status, 0);
    found += status != 0;
    tell(found ? "outside" : "inside", 0);
}

static void flood(void)
{
    static char block[65536];
    memset(block, 'x', sizeof block);
    for (;;)
        if (write(1, block, sizeof block) < 0)
            nap();
}

static void fill(void)
{
    static char block[65536];
    char name[32];
    for (int i = 0;; i++) {
        (void)snprintf(name, sizeof name, "/tmp/f%d", i % 4096);
        int fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (fd < 0 || write(fd, block, sizeof block) < 0)
            nap(); /* nothing can be told: the disk is full */
        (void)close(fd);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
    int alone; /* it is the first process itself that attacks */
} attacks[] = {
    {"forks", forks, 0},   {"pipes", pipes, 0}, {"files", files, 0},
    {"memory", memory, 0}, {"loops", loops, 0}, {"handlers", handlers, 0},
    {"jumps", jumps, 0},   {"stack", stack, 0}, {"arguments", arguments, 0},
    {"escape", escape, 0}, {"flood", flood, 1}, {"fill", fill, 0},
    {"spin", loops, 1},
};

/* Is the machine as it was? */
static const char *afterwards(void)
{
    int p[2];
    char *m = malloc(STEP);
    if (!m)
        return "no memory";
    memset(m, 1, STEP);
    free(m);
    if (pipe(p) < 0)
        return "no pipe";
    pid_t c = fork();
    if (c < 0)
        return "no fork";
    if (c == 0)
        _exit(write(p[1], "x", 1) == 1 ? 5 : 6);
    int status = 0;
    return waitpid(c, &status, 0) == c && WIFEXITED(status) && WEXITSTATUS(status) == 5
               ? "calm"
               : "no child";
}

static void watch(void (*attack)(void))
{
    char told[64] = "nothing";
    pid_t p = fork();
    if (p == 0) {
        (void)setpgid(0, 0);
        attack();
        _exit(0);
    }
    (void)setpgid(p, p);
    for (int i = 0; i < BEATS; i++)
        nap();
    for (int i = 0; i < 500 && access("/tmp/told", F_OK) < 0; i++)
        nap();                       /* it takes its time */
    while (kill(-p, SIGKILL) == 0) { /* orphans come to us: we are the first process */
        nap();
        while (waitpid(-1, NULL, WNOHANG) > 0)
            continue;
    }
    int fd = open("/tmp/told", O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, told, sizeof told - 1);
    told[n > 0 ? n : 7] = '\0';
    printf("%s: %s\n", afterwards(), told);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof attacks / sizeof *attacks; i++)
        if (strcmp(argv[1], attacks[i].name) == 0) {
            if (attacks[i].alone)
                attacks[i].run();
            watch(attacks[i].run);
            return 0;
        }
    return 99;
}

/* SPDX-License-Identifier: MIT
 *
 * load DOZE [IDLE [RATE [SECONDS]]]: holds IDLE connections (10,000) that say nothing and asks
 * RATE times a second (2,000) over others for SECONDS (60), all over TCP with a token. Prints
 * the daemon's memory and CPU time and the times of answers. Fails when an answer is wrong, a
 * connection is lost, or the daemon's memory grows while the load goes on. Times are printed
 * and are no verdict.
 *
 * A daemon of its own, in a directory of its own below TMPDIR.
 */
#include "../lib/free_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    TEXT = 4096,
    ASKERS = 64,
    IDLE_MAX = 60000,
    TIMES = 1 << 20,
    GROWTH_PERCENT = 5, /* of memory under load, and */
    GROWTH_KB = 2048,   /* so much for what is rounded */
};

static char root[256], secret[128], request[512];
static int port;
static pid_t daemon_pid;
static int idle[IDLE_MAX];
static double times[TIMES];
static size_t time_count;

static void end_daemon(void)
{
    char command[TEXT];
    if (daemon_pid > 0) {
        (void)kill(daemon_pid, SIGTERM);
        (void)waitpid(daemon_pid, NULL, 0);
    }
    daemon_pid = 0;
    (void)snprintf(command, sizeof command, "rm -rf '%s'", root);
    if (root[0] && system(command) != 0)
        (void)fprintf(stderr, "load: %s is left\n", root);
}

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    end_daemon();
    exit(1);
}

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* --- the daemon --------------------------------------------------------------------------- */

static long memory_kb(void)
{
    char path[64], line[256];
    long kb = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)daemon_pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmRSS:", 6) == 0)
            kb = strtol(line + 6, NULL, 10);
    if (f)
        (void)fclose(f);
    return kb;
}

static double cpu_s(void)
{
    char path[64], line[1024];
    unsigned long user = 0, sys = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)daemon_pid);
    FILE *f = fopen(path, "r");
    if (f && fgets(line, sizeof line, f)) {
        const char *p = strrchr(line, ')');
        if (p)
            (void)sscanf(p, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys);
    }
    if (f)
        (void)fclose(f);
    return (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
}

static int dial(void)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) < 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void start(const char *doze)
{
    char address[64], command[TEXT];
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(root, sizeof root, "%s/doze-load.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(root))
        die(root);
    port = free_port();
    if (port < 0)
        die("find a port");
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", port);
    (void)setenv("DOZE_DATA", root, 1);
    daemon_pid = fork();
    if (daemon_pid == 0) {
        (void)execl(doze, "doze", "daemon", "--listen", address, "--connections", "70000",
                    "--connections-per-address", "70000", "--log-level", "warn", (char *)NULL);
        _exit(127);
    }
    for (int i = 0, fd = -1; fd < 0; i++) {
        if (i == 200)
            die("the daemon does not start");
        (void)poll(NULL, 0, 50);
        fd = dial();
        if (fd >= 0)
            (void)close(fd);
    }
    (void)snprintf(command, sizeof command, "'%s' token create load", doze);
    FILE *f = popen(command, "r");
    if (!f || !fgets(secret, sizeof secret, f) || pclose(f) != 0)
        die("make a token");
    secret[strcspn(secret, "\n")] = '\0';
    (void)snprintf(request, sizeof request,
                   "GET /v1/sandboxes HTTP/1.1\r\nHost: load\r\nAuthorization: Bearer %s\r\n\r\n",
                   secret);
}

/* --- asking ----------------------------------------------------------------------------------- */

static void ask(int fd)
{
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request))
        die("a connection was lost");
}

/* A whole answer, which is short: its length is known when its end is. */
static void answer(int fd)
{
    char text[TEXT];
    size_t n = 0;
    for (;;) {
        ssize_t got = recv(fd, text + n, sizeof text - 1 - n, 0);
        if (got <= 0)
            die("a connection was lost");
        n += (size_t)got;
        text[n] = '\0';
        if (strstr(text, "\"next_cursor\":null}"))
            break;
    }
    if (strncmp(text, "HTTP/1.1 200 OK\r\n", 17) != 0) {
        (void)fprintf(stderr, "%s\n", text);
        die("a wrong answer");
    }
}

struct asker {
    int fd;
    bool waits;
    double asked;
};

static void take(struct asker *askers, int wait_ms)
{
    struct pollfd polls[ASKERS];
    for (int i = 0; i < ASKERS; i++)
        polls[i] = (struct pollfd){askers[i].waits ? askers[i].fd : -1, POLLIN, 0};
    if (poll(polls, ASKERS, wait_ms) <= 0)
        return;
    for (int i = 0; i < ASKERS; i++) {
        if (!polls[i].revents)
            continue;
        answer(askers[i].fd);
        askers[i].waits = false;
        if (time_count < TIMES)
            times[time_count++] = now_s() - askers[i].asked;
    }
}

/* Questions are due at their times; what is late is made up for. */
static long hold(struct asker *askers, double rate, double seconds)
{
    double began = now_s(), now = began;
    long asked = 0;
    while ((now = now_s()) < began + seconds) {
        for (int i = 0; i < ASKERS && (double)asked < (now - began) * rate; i++) {
            struct asker *a = &askers[(asked + i) % ASKERS]; /* all have their turn */
            if (a->waits)
                continue;
            a->asked = now_s();
            a->waits = true;
            ask(a->fd);
            asked++;
        }
        take(askers, 1);
    }
    for (int i = 0; i < ASKERS; i++)
        while (askers[i].waits)
            take(askers, 1000);
    return asked;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[2]) : 10000;
    double rate = argc > 3 ? atof(argv[3]) : 2000, seconds = argc > 4 ? atof(argv[4]) : 60;
    struct rlimit files = {0};
    struct asker askers[ASKERS];
    (void)signal(SIGPIPE, SIG_IGN);
    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    if (argc < 2 || count < 0 || count > IDLE_MAX) {
        (void)fprintf(stderr, "usage: load DOZE [IDLE [RATE [SECONDS]]]\n");
        return 2;
    }
    start(argv[1]);
    long empty = memory_kb();
    for (int i = 0; i < count; i++) {
        idle[i] = dial();
        if (idle[i] < 0)
            die("open a connection (ulimit -n?)");
        ask(idle[i]);
        answer(idle[i]);
    }
    for (int i = 0; i < ASKERS; i++)
        if ((askers[i] = (struct asker){.fd = dial()}).fd < 0)
            die("open a connection");
    long held = memory_kb();
    (void)hold(askers, rate, 2); /* what is allocated once, is now */
    time_count = 0;
    long before = memory_kb();
    double cpu = cpu_s(), began = now_s();
    long asked = hold(askers, rate, seconds);
    double took = now_s() - began;
    cpu = cpu_s() - cpu;
    long after = memory_kb();
    for (int i = 0; i < count; i++) { /* none was lost */
        ask(idle[i]);
        answer(idle[i]);
    }
    qsort(times, time_count, sizeof *times, by_value);
    (void)printf("idle_connections=%d memory_kb=%ld bytes_each=%ld\n", count, held,
                 count ? (held - empty) * 1024 / count : 0);
    (void)printf("requests=%ld per_s=%.0f p50_us=%.0f p99_us=%.0f max_us=%.0f\n", asked,
                 (double)asked / took, times[time_count / 2] * 1e6,
                 times[time_count * 99 / 100] * 1e6, times[time_count - 1] * 1e6);
    (void)printf("cpu_s=%.1f us_each=%.0f memory_before_kb=%ld memory_after_kb=%ld\n", cpu,
                 cpu / (double)asked * 1e6, before, after);
    end_daemon();
    bool flat = after <= before + before * GROWTH_PERCENT / 100 + GROWTH_KB;
    (void)printf("%s\n", flat ? "memory is flat" : "memory grew");
    return !flat;
}

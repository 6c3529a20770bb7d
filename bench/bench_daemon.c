/* SPDX-License-Identifier: MIT
 *
 * bench_daemon.c - what a client of the daemon waits for, over HTTP on its socket.
 *
 * A daemon of its own in build/bench, with the images of DOZE_DATA (default build/data:
 * `make test-images`). A wake is measured on a sandbox whose cell is gone (the daemon has
 * no more children than before), another one each time: a key is sent to a shell that
 * waits, and the time ends with the first byte of its answer, a number that it counted
 * before it slept, on an event stream that was open all the while. Beside each row, as the
 * yardstick, posix_spawn of /bin/true. With DOZE_BENCH_DEBUG=1 the daemon logs at level debug:
 * its lines event=wake say what the time of each wake went to.
 */
#include "bench.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum {
    TEXT = 4096,
    ANSWER = 1 << 16,
    SHELLS = 64,
    PYTHONS = 12,
    AT_ONCE = 500,
    AT_ONCE_MAX = 5000,
    CONNECTIONS = 64,
    LOAD_S = 5,
    WARM = 1000,
    ASLEEP = 100000, /* rows of a registry that a daemon starts with */
    CRASHED = 10000, /* of them, awake when the last one was killed */
    START_MAX_US = 60000000,
    FIRST = 30, /* of these, one after the other with pauses */
    IDLE = 32,
    BASHES = 500,
    PIDS_MAX = 8192,
    CELLS = 1024,
    GUEST_MIN_KB = 500, /* of a guest's memory that has changed: then there is a program */
    REST_MS = 1500,     /* until cells have given back what they do not need */
};

struct conn {
    int fd;
    size_t len;
    char in[ANSWER];
};

static char root[64], doze[TEXT], socket_path[108];
static int daemon_pid;

static _Noreturn void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "bench-daemon: %s: %s\n", what, why);
    if (daemon_pid > 0)
        (void)kill(daemon_pid, SIGTERM);
    exit(1);
}

static double now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *us, int n, double q)
{
    qsort(us, (size_t)n, sizeof *us, by_value);
    int at = (int)(q * n);
    return n > 0 ? us[at < n ? at : n - 1] : 0;
}

static void pause_ms(int ms)
{
    (void)poll(NULL, 0, ms);
}

/* --- HTTP, as little as it takes ------------------------------------------------------ */

static bool conn_try(struct conn *c)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", socket_path);
    c->len = 0;
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd >= 0 && connect(c->fd, (struct sockaddr *)&a, sizeof a) == 0)
        return true;
    if (c->fd >= 0)
        (void)close(c->fd);
    return false;
}

static void conn_open(struct conn *c)
{
    if (!conn_try(c))
        die("connect", strerror(errno));
}

static void conn_close(struct conn *c)
{
    (void)close(c->fd);
}

static void ask(struct conn *c, const char *method, const char *path, const char *body,
                const char *more)
{
    char text[TEXT];
    int n =
        snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: d\r\n%sContent-Length: %zu\r\n\r\n%s",
                 method, path, more, strlen(body), body);
    if (write(c->fd, text, (size_t)n) != n)
        die(path, "the daemon does not listen");
}

static void take(struct conn *c)
{
    ssize_t n = read(c->fd, c->in + c->len, sizeof c->in - 1 - c->len);
    if (n <= 0)
        die("read an answer", n == 0 ? "the daemon closed the connection" : strerror(errno));
    c->len += (size_t)n;
    c->in[c->len] = '\0';
}

/* Is a whole answer here? Its status, or 0. */
static int answered(struct conn *c)
{
    c->in[c->len] = '\0';
    char *end = strstr(c->in, "\r\n\r\n");
    const char *length = end ? strcasestr(c->in, "content-length:") : NULL;
    size_t body = length && length < end ? strtoul(length + 15, NULL, 10) : 0;
    return end && c->len >= (size_t)(end + 4 - c->in) + body ? atoi(c->in + 9) : 0;
}

/* One request, answered as it must be; the text of the answer stays in c->in. */
static void call(struct conn *c, int want, const char *method, const char *body, const char *format,
                 ...) __attribute__((format(printf, 5, 6)));
static void call(struct conn *c, int want, const char *method, const char *body, const char *format,
                 ...)
{
    char path[256];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(path, sizeof path, format, ap);
    va_end(ap);
    c->len = 0;
    ask(c, method, path, body, "");
    while (!answered(c))
        take(c);
    if (answered(c) != want)
        die(path, c->in);
}

static void word(const char *text, const char *key, char out[static 64])
{
    const char *p = strstr(text, key);
    size_t n = p ? strcspn(p + strlen(key), "\"") : 0;
    (void)snprintf(out, 64, "%.*s", (int)n, p ? p + strlen(key) : "");
}

/* --- the daemon --------------------------------------------------------------------- */

static int children(void)
{
    char path[64], text[ANSWER] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", daemon_pid, daemon_pid);
    FILE *f = fopen(path, "re");
    int n = 0;
    if (f && fgets(text, sizeof text, f))
        for (const char *p = text; *p; p++)
            n += *p == ' ';
    if (f)
        (void)fclose(f);
    return n;
}

static void spawn(const char *const *argv, bool wait)
{
    int pid = 0, status = 0;
    if (posix_spawn(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ) != 0)
        die(argv[0], strerror(errno));
    if (!wait)
        daemon_pid = pid;
    else if (waitpid(pid, &status, 0) != pid || status != 0)
        die(argv[1], "failed");
}

/* An image in which Python sleeps with pandas imported; it answers a line of Python. */
static void make_pandas(const char *data)
{
    static const char script[] =
        "set -e; cd \"$1\"\n"
        "cat >ask.py <<'END'\n"
        "import sys, numpy, pandas\n"
        "print('ready', flush=True)\n"
        "for line in sys.stdin:\n"
        "    print(eval(line), flush=True)\n"
        "END\n"
        "mkfifo keys\n"
        "DOZE_DATA=$PWD \"$0\" run -i --image python --file pandas.doze --keep"
        " --copy ask.py:/workspace/ask.py -- python3 /workspace/ask.py <keys >said &\n"
        "exec 3>keys\n"
        "until grep -qs ready said; do kill -0 $!; sleep 0.1; done\n"
        "kill -TERM $!\n"
        "wait $! || [ $? = 75 ]\n"
        "DOZE_DATA=$PWD \"$0\" image snapshot pandas.doze --tag pandas >said\n";
    spawn((const char *const[]){"/bin/sh", "-c", script, doze, data, NULL}, true);
}

/* On root, until it says that it is ready. */
static void run_daemon(void)
{
    static struct conn c;
    char data[TEXT];
    (void)snprintf(data, sizeof data, "--data=%s", root);
    spawn((const char *const[]){doze, "daemon", data,
                                getenv("DOZE_BENCH_DEBUG") ? "--log-level=debug"
                                                           : "--log-level=error",
                                "--requests-per-tenant=10000", "--quota-warm-sandboxes=10000",
                                NULL},
          false);
    for (double end = now_us() + (double)START_MAX_US; !conn_try(&c); pause_ms(1))
        if (now_us() > end)
            die("start a daemon", "no socket after a minute");
    for (int status = 0; status != 200; pause_ms(status == 200 ? 0 : 1)) {
        c.len = 0;
        ask(&c, "GET", "/readyz", "", "");
        while (!(status = answered(&c)))
            take(&c);
    }
    conn_close(&c);
}

static bool start_daemon(bool pandas)
{
    static char images[TEXT], images_here[TEXT];
    const char *store = getenv("DOZE_DATA");
    ssize_t n = readlink("/proc/self/exe", doze, sizeof doze - 16);
    char *slash = n > 0 ? strrchr(doze, '/') : NULL;
    if (!slash)
        return false;
    (void)memcpy(slash, "/doze", 6);
    (void)snprintf(images, sizeof images, "%.4000s/images", store ? store : "build/data");
    if (access(images, R_OK) < 0) {
        printf("bench: %s is not there: make test-images\n", images);
        return false;
    }
    (void)snprintf(root, sizeof root, "build/bench/daemon.XXXXXX");
    if (!mkdtemp(root))
        die(root, strerror(errno));
    (void)snprintf(images_here, sizeof images_here, "%s/images", root);
    (void)snprintf(socket_path, sizeof socket_path, "%s/doze.sock", root);
    spawn((const char *const[]){"/bin/cp", "-a", images, images_here, NULL}, true);
    if (pandas)
        make_pandas(root);
    run_daemon();
    return true;
}

static void stop_daemon(void)
{
    (void)kill(daemon_pid, SIGTERM);
    (void)waitpid(daemon_pid, NULL, 0);
}

static void end_daemon(void)
{
    stop_daemon();
    spawn((const char *const[]){"/bin/rm", "-rf", root, NULL}, true);
}

/* --- sandboxes with a program that waits for a key ------------------------------------- */

struct dz_sandbox {
    char name[32], exec[64];
    int counted;
    struct conn stream;
};

static void start_waiter(struct conn *c, struct dz_sandbox *b, const char *image, const char *body)
{
    char text[TEXT];
    (void)snprintf(text, sizeof text, "{\"image\":\"%s\",\"name\":\"%s\"}", image, b->name);
    call(c, 201, "POST", text, "/v1/sandboxes");
    call(c, 201, "POST", body, "/v1/sandboxes/%s/exec", b->name);
    word(c->in, "\"exec_id\":\"", b->exec);
    (void)snprintf(text, sizeof text, "/v1/sandboxes/%s/exec/%s/output", b->name, b->exec);
    conn_open(&b->stream);
    ask(&b->stream, "GET", text, "", "Accept: text/event-stream\r\n");
    while (!strstr(b->stream.in, "awake 0"))
        take(&b->stream);
}

static void put_down(struct conn *c, struct dz_sandbox *b)
{
    b->stream.len = 0;
    b->stream.in[0] = '\0';
    call(c, 200, "POST", "", "/v1/sandboxes/%s/suspend", b->name);
}

/* From the key to the first byte of the answer, which must be the number. */
static double wake(struct conn *c, struct dz_sandbox *b)
{
    char path[256], want[32];
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/exec/%s/stdin", b->name, b->exec);
    (void)snprintf(want, sizeof want, "awake %d", ++b->counted);
    c->len = 0;
    double from = now_us();
    ask(c, "POST", path, "\n", "");
    while (!strstr(b->stream.in, "awake "))
        take(&b->stream);
    double us = now_us() - from;
    while (!answered(c))
        take(c);
    while (!strstr(b->stream.in, want))
        take(&b->stream);
    return us;
}

/* Every sandbox of a kind is put down, and then, when no cell of theirs is left, woken.
 * beyond: without the pauses in which the daemon forks cells ahead. */
static void settle_down(void)
{
    int last = 0;
    pause_ms(300);
    for (int i = 0; i < 100 && last != children(); i++, pause_ms(50))
        last = children();
}

static int wake_all(struct conn *c, struct dz_sandbox *boxes, int n, bool beyond, double *us)
{
    for (int i = 0; i < n; i++)
        put_down(c, &boxes[i]);
    settle_down();
    for (int i = 0; i < n; i++) {
        us[i] = wake(c, &boxes[i]);
        if (!beyond)
            pause_ms(30);
    }
    return n;
}

static void row(struct bench *b, const char *name, double us, double spawn_us, double budget_ms)
{
    bench_row(
        b, &(struct bench_row){.row = name, .value = us / 1000, .unit = "ms", .budget = budget_ms});
    bench_row(b, &(struct bench_row){.row = "  the same, in posix_spawn of /bin/true",
                                     .value = us / spawn_us,
                                     .unit = "times"});
}

/* What the machine itself makes of such pauses: a processor that has slept, and neighbours. */
static void pause_rows(struct bench *b, double spawn_us)
{
    static double us[SHELLS];
    for (int i = 0; i < SHELLS; i++) {
        pause_ms(30);
        double from = now_us();
        spawn((const char *const[]){"/bin/true", NULL}, true);
        us[i] = now_us() - from;
    }
    row(b, "posix_spawn of /bin/true with the same pauses: p50", quantile(us, SHELLS, 0.5),
        spawn_us, 0);
    row(b, "  p99", quantile(us, SHELLS, 0.99), spawn_us, 0);
}

static void wake_rows(struct bench *b, struct conn *c, double spawn_us)
{
    static struct dz_sandbox shells[SHELLS];
    static double us[SHELLS];
    for (int i = 0; i < SHELLS; i++) {
        (void)snprintf(shells[i].name, sizeof shells[i].name, "shell%d", i);
        start_waiter(c, &shells[i], "base",
                     "{\"shell\":\"n=0; echo awake 0; while read x; do n=$((n+1)); echo awake $n; "
                     "done\",\"stdin\":true,\"background\":true}");
    }
    int n = wake_all(c, shells, SHELLS, false, us);
    row(b, "wake of a shell, first byte of its answer: p50", quantile(us, n, 0.5), spawn_us, 1);
    row(b, "  p99", quantile(us, n, 0.99), spawn_us, 4);
    pause_rows(b, spawn_us);
    n = wake_all(c, shells, SHELLS, true, us);
    row(b, "64 wakes in a row, beyond the pool: p50", quantile(us, n, 0.5), spawn_us, 0);
    row(b, "  p99", quantile(us, n, 0.99), spawn_us, 0);
    for (int i = 0; i < SHELLS; i++)
        conn_close(&shells[i].stream);
}

/* From the request to the whole answer of a command that did not run before. */
static void exec_asleep_rows(struct bench *b, struct conn *c, double spawn_us)
{
    static double us[SHELLS];
    for (int i = 0; i < SHELLS; i++) {
        char body[128];
        (void)snprintf(body, sizeof body, "{\"image\":\"base\",\"name\":\"asleep%d\"}", i);
        call(c, 201, "POST", body, "/v1/sandboxes");
        call(c, 200, "POST", "{\"shell\":\"echo first\"}", "/v1/sandboxes/asleep%d/exec", i);
        call(c, 200, "POST", "", "/v1/sandboxes/asleep%d/suspend", i);
    }
    settle_down();
    for (int i = 0; i < SHELLS; i++) {
        double from = now_us();
        call(c, 200, "POST", "{\"shell\":\"echo hello\"}", "/v1/sandboxes/asleep%d/exec", i);
        us[i] = now_us() - from;
        if (!strstr(c->in, "hello"))
            die("exec on a sleeping sandbox", c->in);
        pause_ms(30);
    }
    row(b, "exec on a sleeping sandbox: p50", quantile(us, SHELLS, 0.5), spawn_us, 0);
    row(b, "  p99", quantile(us, SHELLS, 0.99), spawn_us, 0);
}

static void wake_python_rows(struct bench *b, struct conn *c, double spawn_us)
{
    static struct dz_sandbox pythons[PYTHONS];
    static double us[PYTHONS];
    for (int i = 0; i < PYTHONS; i++) {
        (void)snprintf(pythons[i].name, sizeof pythons[i].name, "python%d", i);
        start_waiter(c, &pythons[i], "python",
                     "{\"cmd\":[\"python3\",\"-u\",\"-c\",\"import os,sys\\nb=os.urandom(10<<20)\\n"
                     "print('awake 0')\\nfor n,l in enumerate(sys.stdin): print('awake',n+1)\"],"
                     "\"stdin\":true,\"background\":true}");
    }
    int n = wake_all(c, pythons, PYTHONS, false, us);
    row(b, "wake of CPython with 10 MB above its base: p50", quantile(us, n, 0.5), spawn_us, 5);
    for (int i = 0; i < PYTHONS; i++)
        conn_close(&pythons[i].stream);
}

static void warm_rows(struct bench *b, struct conn *c, double spawn_us)
{
    static double us[200];
    int n = 0;
    for (int i = 0; i < 50; i++, n++) {
        char body[128];
        (void)snprintf(body, sizeof body, "{\"image\":\"base\",\"name\":\"new%d\"}", i);
        double from = now_us();
        call(c, 201, "POST", body, "/v1/sandboxes");
        call(c, 200, "POST", "{\"cmd\":[\"echo\",\"hello\"]}", "/v1/sandboxes/new%d/exec", i);
        us[n] = now_us() - from;
        if (!strstr(c->in, "hello"))
            die("create and echo", c->in);
        pause_ms(30);
    }
    row(b, "create, first output of echo: p50", quantile(us, n, 0.5), spawn_us, 3);
    for (n = 0; n < 200; n++) {
        double from = now_us();
        call(c, 200, "POST", "{\"cmd\":[\"true\"]}", "/v1/sandboxes/new0/exec");
        us[n] = now_us() - from;
    }
    row(b, "exec of true in a warm sandbox: p50", quantile(us, n, 0.5), spawn_us, 0.5);
    for (n = 0; n < 30; n++) {
        double from = now_us();
        call(c, 201, "POST", "{\"count\":1}", "/v1/sandboxes/new1/fork");
        us[n] = now_us() - from;
        pause_ms(30);
    }
    row(b, "fork, to a running child: p50", quantile(us, n, 0.5), spawn_us, 2);
}

/* What the daemon's thread stands at is the beginning of a system call that waits for the disk. */
static bool at_sync(pid_t tid)
{
    struct __ptrace_syscall_info info;
    return ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof info, &info) > 0 &&
           info.op == PTRACE_SYSCALL_INFO_ENTRY &&
           (info.entry.nr == SYS_fsync || info.entry.nr == SYS_fdatasync);
}

/* Watch all threads of the daemon, or let them go. */
static void watch_daemon(bool on)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task", daemon_pid);
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));) {
        int status, tid = atoi(e->d_name);
        if (tid <= 0 || (on && ptrace(PTRACE_SEIZE, tid, NULL,
                                      PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE) < 0))
            continue;
        if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) == 0 && !on &&
            waitpid(tid, &status, __WALL) == tid)
            (void)ptrace(PTRACE_DETACH, tid, NULL, NULL);
    }
    if (d)
        (void)closedir(d);
}

/* A fork, and the syncs that the daemon made before it answered. */
static int syncs_of_fork(struct conn *c, const char *name)
{
    char path[64];
    int n = 0, status;
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/fork", name);
    watch_daemon(true);
    c->len = 0;
    ask(c, "POST", path, "{\"count\":1}", "");
    while (!answered(c)) {
        pid_t tid = waitpid(-1, &status, __WALL | WNOHANG);
        if (tid > 0 && WIFSTOPPED(status)) {
            bool call = WSTOPSIG(status) == (SIGTRAP | 0x80), event = status >> 16 != 0;
            n += call && at_sync(tid);
            (void)ptrace(PTRACE_SYSCALL, tid, NULL, call || event ? 0L : (long)WSTOPSIG(status));
            continue;
        }
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        if (poll(&p, 1, 1) > 0)
            take(c);
    }
    watch_daemon(false);
    return n;
}

static void fork_rows(struct bench *b, struct conn *c, double spawn_us)
{
    double n[10];
    (void)spawn_us;
    call(c, 201, "POST", "{\"image\":\"base\",\"name\":\"forked\"}", "/v1/sandboxes");
    call(c, 200, "POST", "{\"cmd\":[\"true\"]}", "/v1/sandboxes/forked/exec");
    for (int i = 0; i < 10; i++) {
        n[i] = syncs_of_fork(c, "forked");
        pause_ms(30);
    }
    bench_row(b, &(struct bench_row){.row = "fork, syncs of the daemon before its answer: p50",
                                     .value = quantile(n, 10, 0.5),
                                     .unit = "syncs"});
}

/* What it costs that each commit is on the disk: a command that writes a file. */
static void durable_rows(struct bench *b, struct conn *c, double spawn_us)
{
    static const char *const how[] = {"normal", "strict"};
    static char names[2][96]; /* rows keep them */
    double us[50];
    for (size_t i = 0; i < 2; i++) {
        char body[160];
        (void)snprintf(body, sizeof body,
                       "{\"image\":\"base\",\"name\":\"%s\",\"durability\":\"%s\"}", how[i],
                       how[i]);
        call(c, 201, "POST", body, "/v1/sandboxes");
        int n = 0;
        for (; n < 50; n++) {
            double from = now_us();
            call(c, 200, "POST", "{\"shell\":\"echo x >>/workspace/f\"}", "/v1/sandboxes/%s/exec",
                 how[i]);
            us[n] = now_us() - from;
        }
        (void)snprintf(names[i], sizeof names[i], "exec that writes a file, durability %s: p50",
                       how[i]);
        row(b, names[i], quantile(us, n, 0.5), spawn_us, 0);
    }
}

/* --- Python that is there already --------------------------------------------------------- */

/* What the image's first process, the sandbox's command "main", says to a line that is written to
 * it, which has to have `want` in it; us. */
static double ask_python(struct conn *c, struct dz_sandbox *b, const char *line, const char *want)
{
    char path[128];
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/exec/main/stdin", b->name);
    double from = now_us();
    c->len = b->stream.len = 0;
    b->stream.in[0] = '\0';
    ask(c, "POST", path, line, "");
    while (!strstr(b->stream.in, want))
        take(&b->stream);
    double us = now_us() - from;
    while (!answered(c))
        take(c);
    return us;
}

/* A new sandbox, and the first that it is asked. */
static double ask_pandas(struct conn *c, struct dz_sandbox *b, const char *line, const char *want)
{
    char text[128];
    double from = now_us();
    (void)snprintf(text, sizeof text, "{\"image\":\"pandas\",\"name\":\"%s\"}", b->name);
    call(c, 201, "POST", text, "/v1/sandboxes");
    conn_open(&b->stream);
    (void)snprintf(text, sizeof text, "/v1/sandboxes/%s/exec/main/output", b->name);
    ask(&b->stream, "GET", text, "", "Accept: text/event-stream\r\n");
    double us = now_us() - from;
    return us + ask_python(c, b, line, want);
}

/* The next number of a line of them; 0: there is none. */
static long child_after(char **at)
{
    char *end;
    long pid = strtol(*at, &end, 10);
    bool is = end != *at;
    *at = end + (*end == ' ');
    return is ? pid : 0;
}

/* A line of /proc/PID/smaps_rollup, in KiB. */
static long rollup(long pid, const char *key)
{
    char path[64], line[256];
    long kib = 0;
    (void)snprintf(path, sizeof path, "/proc/%ld/smaps_rollup", pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0)
            kib += strtol(line + strlen(key), NULL, 10);
    if (f)
        (void)fclose(f);
    return kib;
}

/* Of the daemon, its zygotes and cells, in KiB: the pages that each has for itself, and these with
 * its part of those that are shared. */
struct usage {
    long own, pss;
};

static struct usage usage(void)
{
    static char text[1 << 16];
    char path[64];
    struct usage u = {.pss = rollup(daemon_pid, "Pss:")};
    long pid;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", daemon_pid, daemon_pid);
    FILE *f = fopen(path, "re");
    if (f && fgets(text, sizeof text, f))
        for (char *p = text; (pid = child_after(&p)) > 0;) {
            u.pss += rollup(pid, "Pss:");
            u.own += rollup(pid, "Private_Dirty:") + rollup(pid, "Private_Clean:");
        }
    if (f)
        (void)fclose(f);
    return u;
}

/* Of cells that others of the same image came before, the one in the middle. */
static void idle_rows(struct bench *b, struct conn *c, double spawn_us)
{
    static struct dz_sandbox boxes[IDLE];
    static double total[CELLS], inside[CELLS];
    static char text[1 << 16];
    char path[64];
    int n = 0;
    (void)spawn_us;
    for (int i = 0; i < IDLE; i++, pause_ms(100)) {
        (void)snprintf(boxes[i].name, sizeof boxes[i].name, "idle%d", i);
        start_waiter(c, &boxes[i], "python",
                     "{\"cmd\":[\"python3\",\"-u\",\"-c\",\"print('awake 0'); input()\"],"
                     "\"stdin\":true,\"background\":true}");
    }
    pause_ms(REST_MS);
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", daemon_pid, daemon_pid);
    FILE *f = fopen(path, "re");
    if (f && fgets(text, sizeof text, f)) {
        char *at = text;
        for (long pid; n < CELLS && (pid = child_after(&at)) > 0;) {
            struct bench_memory m = bench_memory((int)pid);
            total[n] = m.inside + m.rest;
            inside[n] = m.inside;
            n += m.inside > GUEST_MIN_KB;
        }
    }
    if (f)
        (void)fclose(f);
    if (n < IDLE)
        die("idle Pythons", "some of their cells are gone");
    double own = quantile(inside, n, 0.5), all = quantile(total, n, 0.5);
    bench_row(b, &(struct bench_row){.row = "an idle python3, once others have run it",
                                     .value = all,
                                     .unit = "KB private",
                                     .yardstick = own,
                                     .yardstick_name = "changed pages",
                                     .ratio = all / own,
                                     .budget = 1.3});
    for (int i = 0; i < IDLE; i++)
        conn_close(&boxes[i].stream);
}

static void memory_rows(struct bench *b, const struct usage *before)
{
    struct usage now = usage();
    bench_row(b, &(struct bench_row){.row = "1,000 warm Pythons with pandas: all processes (Pss)",
                                     .value = (double)now.pss / 1024,
                                     .unit = "MiB",
                                     .budget = 4096});
    bench_row(b, &(struct bench_row){.row = "  private memory of each",
                                     .value = (double)(now.own - before->own) / 1024 / (double)WARM,
                                     .unit = "MiB",
                                     .budget = 3});
}

static const char pandas_sum[] = "f'sum {pandas.Series([1, 2, 39]).sum()}'\n";

static void python_rows(struct bench *b, struct conn *c, double spawn_us)
{
    static double us[FIRST], again[FIRST];
    static struct dz_sandbox x;
    int n = 0;
    for (; n < FIRST; n++, pause_ms(50)) {
        (void)snprintf(x.name, sizeof x.name, "there%d", n);
        us[n] = ask_pandas(c, &x, "f'pandas {pandas.__version__}'\n", "pandas ");
        conn_close(&x.stream);
    }
    row(b, "create from an image with pandas imported, its version: p50", quantile(us, n, 0.5),
        spawn_us, 5);
    for (n = 0; n < FIRST; n++, pause_ms(50)) {
        (void)snprintf(x.name, sizeof x.name, "pandas%d", n);
        us[n] = ask_pandas(c, &x, pandas_sum, "sum 42");
        again[n] = ask_python(c, &x, pandas_sum, "sum 42");
        conn_close(&x.stream);
    }
    row(b, "  the first sum of a Series: p50", quantile(us, n, 0.5), spawn_us, 0);
    row(b, "  the same sum once more, warm: p50", quantile(again, n, 0.5), spawn_us, 0);
}

static void warm_python_rows(struct bench *b, struct conn *c, double spawn_us)
{
    static struct dz_sandbox x;
    int cells = children();
    struct usage before = usage();
    (void)spawn_us;
    for (int i = 0; i < WARM; i++) {
        (void)snprintf(x.name, sizeof x.name, "warm%d", i);
        (void)ask_pandas(c, &x, pandas_sum, "sum 42");
        conn_close(&x.stream);
    }
    if (children() < cells + WARM)
        die("1,000 warm sandboxes", "some of their cells are gone");
    memory_rows(b, &before);
}

/* --- native Linux programs --------------------------------------------------------------- */

/* Proportional set size in KB of the daemon and all that descends from it: a cell's stubs are its
 * children. */
static long pss_of_all(void)
{
    static char text[1 << 16];
    static long pids[PIDS_MAX];
    long kb = 0;
    pids[0] = daemon_pid;
    for (size_t i = 0, n = 1; i < n; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", pids[i], pids[i]);
        FILE *f = fopen(path, "re");
        if (f && fgets(text, sizeof text, f)) {
            char *at = text;
            for (long pid; n < PIDS_MAX && (pid = child_after(&at)) > 0;)
                pids[n++] = pid;
        }
        if (f)
            (void)fclose(f);
        kb += rollup(pids[i], "Pss:");
    }
    return kb;
}

static bool has_image(const char *name)
{
    char path[TEXT];
    (void)snprintf(path, sizeof path, "%s/images/tags/%s:latest", root, name);
    if (access(path, R_OK) == 0)
        return true;
    printf("bench: the image %s is not there: make test-images test-image-dev\n", name);
    return false;
}

/* Native programs that wait for a line and answer it. */
struct sleeper {
    const char *name, *image, *body;
    double budget_ms;
    int count; /* of sandboxes */
};

/* Their first wakes, which know nothing of pages, the next ones, and what their files take. */
static void wake_linux(struct bench *b, struct conn *c, double spawn_us, const struct sleeper *of)
{
    static struct dz_sandbox boxes[SHELLS];
    static double us[SHELLS], down_us[SHELLS];
    static char names[24][128]; /* rows keep them */
    static int used;
    const int n = of->count;
    double bytes = 0;
    assert(used + 3 <= 24);
    char *wakes[] = {names[used], names[used + 1]}, *suspends = names[used + 2];
    used += 3;
    memset(boxes, 0, sizeof boxes);
    for (int i = 0; i < n; i++) {
        (void)snprintf(boxes[i].name, sizeof boxes[i].name, "%s%d", of->name, i);
        for (char *at = boxes[i].name; (at = strchr(at, ' ')); *at = '-')
            ;
        start_waiter(c, &boxes[i], of->image, of->body);
    }
    for (int round = 0; round < 2; round++) { /* the first sleep writes all of their memory */
        for (int i = 0; i < n; i++) {
            const double from = now_us();
            put_down(c, &boxes[i]);
            down_us[i] = now_us() - from;
        }
        settle_down();
        for (int i = 0; i < n; i++) {
            us[i] = wake(c, &boxes[i]);
            pause_ms(30);
        }
        (void)snprintf(wakes[round], sizeof names[0], "%s of %s of %s, first byte: p50",
                       round ? "wake" : "first wake", of->name, of->image);
        row(b, wakes[round], quantile(us, n, 0.5), spawn_us, round ? of->budget_ms : 0);
        row(b, "  p99", quantile(us, n, 0.99), spawn_us, round ? 4 * of->budget_ms : 0);
    }
    (void)snprintf(suspends, sizeof names[0], "second suspend of %s of %s: p50", of->name,
                   of->image);
    row(b, suspends, quantile(down_us, n, 0.5), spawn_us, 0);
    for (int i = 0; i < n; i++) {
        put_down(c, &boxes[i]);
        call(c, 200, "GET", "", "/v1/sandboxes/%s", boxes[i].name);
        const char *at = strstr(c->in, "\"file_bytes\":");
        bytes += at ? (double)strtoull(at + strlen("\"file_bytes\":"), NULL, 10) : 0;
        conn_close(&boxes[i].stream);
        call(c, 204, "DELETE", "", "/v1/sandboxes/%s?force=true", boxes[i].name);
    }
    bench_row(b, &(struct bench_row){.row = "  its file, after three sleeps",
                                     .value = bytes / n / (1 << 20),
                                     .unit = "MiB"});
}

#define WAITS "\"stdin\":true,\"background\":true}"
#define PYTHON(before)                                                                         \
    "{\"cmd\":[\"python3\",\"-u\",\"-c\",\"import sys" before "\\nn = 0\\nprint('awake 0')\\n" \
    "while sys.stdin.readline():\\n n += 1\\n print(f'awake {n}')\"]," WAITS
#define BASH(before)                                                                         \
    "{\"cmd\":[\"bash\",\"-c\",\"" before "n=0; echo awake 0; while read x; do n=$((n+1)); " \
    "echo awake $n; done\"]," WAITS
static const char idle_python[] = PYTHON("");

static void wake_linux_rows(struct bench *b, struct conn *c, double spawn_us)
{
    static const struct sleeper all[] = {
        {"bash", "debian", BASH(""), 1.5, SHELLS},
        {"python3", "debian", idle_python, 2, SHELLS},
        {"python3 10 MB", "debian", PYTHON(", os\\nx = os.urandom(7 << 20)"), 4, SHELLS},
        {"bash tree", "debian", BASH("for i in 1 2 3 4 5 6 7; do sleep infinity & done; "), 4,
         SHELLS},
        {"node", "dev",
         "{\"cmd\":[\"node\",\"-e\",\"let n = 0; console.log('awake 0'); "
         "process.stdin.on('data', () => console.log('awake ' + ++n))\"]," WAITS,
         3, PYTHONS},
        {"pandas", "dev", PYTHON(", pandas"), 5, PYTHONS},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (has_image(all[i].image))
            wake_linux(b, c, spawn_us, &all[i]);
}

/* Clock ticks that the daemon has used. */
static long daemon_ticks(void)
{
    char path[64], text[1024] = "";
    unsigned long user = 0, system = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", daemon_pid);
    FILE *f = fopen(path, "re");
    if (f && fgets(text, sizeof text, f)) {
        char *at = strrchr(text, ')');
        for (int i = 0; at && i < 12; i++)
            at = strchr(at + 1, ' ');
        user = at ? strtoul(at, &at, 10) : 0;
        system = at ? strtoul(at, NULL, 10) : 0;
    }
    if (f)
        (void)fclose(f);
    return (long)(user + system);
}

/* WARM python3 that sleep: what they cost, and whether each of some answers. */
static void sleeping_rows(struct bench *b, struct conn *c, double spawn_us)
{
    static struct dz_sandbox boxes[WARM];
    static double us[SHELLS];
    double bytes = 0;
    if (!has_image("debian"))
        return;
    const long before = rollup(daemon_pid, "Private_Dirty:");
    for (int i = 0; i < WARM; i++) {
        (void)snprintf(boxes[i].name, sizeof boxes[i].name, "repl%d", i);
        start_waiter(c, &boxes[i], "debian", idle_python);
        put_down(c, &boxes[i]);
        call(c, 200, "GET", "", "/v1/sandboxes/%s", boxes[i].name);
        const char *at = strstr(c->in, "\"file_bytes\":");
        bytes += at ? (double)strtoull(at + strlen("\"file_bytes\":"), NULL, 10) : 0;
        conn_close(&boxes[i].stream);
    }
    pause_ms(2 * REST_MS);
    const long ticks = daemon_ticks();
    pause_ms(3000);
    const double ms = (double)(daemon_ticks() - ticks) * 1000 / (double)sysconf(_SC_CLK_TCK);
    bench_row(b, &(struct bench_row){.row = "1,000 sleeping python3 of debian: file of each",
                                     .value = bytes / WARM / (1 << 20),
                                     .unit = "MiB",
                                     .budget = 4});
    bench_row(b, &(struct bench_row){
                     .row = "  daemon's memory for each",
                     .value = (double)(rollup(daemon_pid, "Private_Dirty:") - before) / WARM,
                     .unit = "KB private"});
    bench_row(b, &(struct bench_row){
                     .row = "  daemon's CPU in 3 s", .value = ms, .unit = "ms", .budget = 30});
    for (int i = 0; i < SHELLS; i++) {
        struct dz_sandbox *box = &boxes[(i * 389) % WARM];
        char text[TEXT];
        (void)snprintf(text, sizeof text, "/v1/sandboxes/%s/exec/%s/output", box->name, box->exec);
        conn_open(&box->stream);
        ask(&box->stream, "GET", text, "", "Accept: text/event-stream\r\n");
        us[i] = wake(c, box);
        conn_close(&box->stream);
        pause_ms(30);
    }
    row(b, "  wake of one of them: p50", quantile(us, SHELLS, 0.5), spawn_us, 0);
    for (int i = 0; i < WARM; i++)
        call(c, 204, "DELETE", "", "/v1/sandboxes/%s?force=true", boxes[i].name);
}

static void linux_rows(struct bench *b, struct conn *c, double spawn_us)
{
    static struct dz_sandbox boxes[BASHES];
    static double us[50];
    if (!has_image("debian"))
        return;
    for (int i = 0; i < 50; i++) {
        char body[128];
        (void)snprintf(body, sizeof body, "{\"image\":\"debian\",\"name\":\"debian%d\"}", i);
        const double from = now_us();
        call(c, 201, "POST", body, "/v1/sandboxes");
        call(c, 200, "POST", "{\"cmd\":[\"echo\",\"hello\"]}", "/v1/sandboxes/debian%d/exec", i);
        us[i] = now_us() - from;
        if (!strstr(c->in, "hello"))
            die("create and echo", c->in);
        call(c, 204, "DELETE", "", "/v1/sandboxes/debian%d?force=true", i);
        pause_ms(30);
    }
    row(b, "create from debian, first output of echo: p50", quantile(us, 50, 0.5), spawn_us, 4);
    for (int i = 0; i < BASHES; i++) {
        (void)snprintf(boxes[i].name, sizeof boxes[i].name, "idle%d", i);
        start_waiter(c, &boxes[i], "debian",
                     "{\"cmd\":[\"bash\",\"-c\",\"echo awake 0; read x\"],"
                     "\"stdin\":true,\"background\":true}");
    }
    pause_ms(REST_MS);
    bench_row(b, &(struct bench_row){.row = "500 idle bash of debian: all processes (Pss)",
                                     .value = (double)pss_of_all() / 1024,
                                     .unit = "MiB",
                                     .budget = 2048});
    for (int i = 0; i < BASHES; i++)
        conn_close(&boxes[i].stream);
}

/* --- many at once --------------------------------------------------------------------- */

/* Answers of all connections until each has one; us: of each, from `from`. */
static void gather(struct conn *c, int n, double from, double *us)
{
    static struct pollfd p[AT_ONCE_MAX];
    for (int left = n; left > 0;) {
        for (int i = 0; i < n; i++)
            p[i] = (struct pollfd){.fd = us[i] > 0 ? -1 : c[i].fd, .events = POLLIN};
        if (poll(p, (nfds_t)n, 60000) <= 0)
            die("wait for answers", "none for a minute");
        for (int i = 0; i < n; i++) {
            if (!p[i].revents)
                continue;
            take(&c[i]);
            if (!answered(&c[i]))
                continue;
            if (answered(&c[i]) != 200)
                die("a wake among many", c[i].in);
            us[i] = now_us() - from;
            left--;
        }
    }
}

/* n sandboxes that sleep are asked for a command each, at the same time. */
static void wake_at_once(struct bench *b, struct conn *c, int n, double budget)
{
    static double us[AT_ONCE_MAX];
    static char names[6][80]; /* rows keep theirs */
    char(*name)[80] = n == AT_ONCE ? names : names + 3;
    struct conn *many = calloc((size_t)n, sizeof *many);
    char text[256];
    if (!many)
        die("connections", "out of memory");
    for (int i = 0; i < n; i++) {
        (void)snprintf(text, sizeof text, "{\"image\":\"base\",\"name\":\"of%d-%d\"}", n, i);
        call(c, 201, "POST", text, "/v1/sandboxes");
        call(c, 200, "POST", "", "/v1/sandboxes/of%d-%d/suspend", n, i);
    }
    pause_ms(1000);
    for (int i = 0; i < n; i++) /* now: an idle connection is closed after a while */
        conn_open(&many[i]);
    memset(us, 0, sizeof us);
    double from = now_us(), total;
    for (int i = 0; i < n; i++) {
        (void)snprintf(text, sizeof text, "/v1/sandboxes/of%d-%d/exec", n, i);
        ask(&many[i], "POST", text, "{\"cmd\":[\"true\"]}", "");
    }
    gather(many, n, from, us);
    total = (now_us() - from) / 1000;
    (void)snprintf(name[0], sizeof name[0], "%d asleep, a command for each at once: p50", n);
    (void)snprintf(name[1], sizeof name[1], "%d asleep, a command for each at once: p99", n);
    (void)snprintf(name[2], sizeof name[2], "%d asleep, a command for each at once: total", n);
    const struct bench_row rows[] = {
        {.row = name[0], .value = quantile(us, n, 0.5) / 1000, .unit = "ms"},
        {.row = name[1], .value = quantile(us, n, 0.99) / 1000, .unit = "ms", .budget = budget},
        {.row = name[2], .value = total, .unit = "ms"},
    };
    for (int i = 0; i < 3; i++)
        bench_row(b, &rows[i]);
    for (int i = 0; i < n; i++) {
        conn_close(&many[i]);
        call(c, 204, "DELETE", "", "/v1/sandboxes/of%d-%d?force=true", n, i);
    }
    free(many);
}

static void at_once_rows(struct bench *b, struct conn *c, double spawn_us)
{
    (void)spawn_us;
    wake_at_once(b, c, AT_ONCE, 1000);
}

static void flood_rows(struct bench *b, struct conn *c, double spawn_us)
{
    struct rlimit files;
    (void)spawn_us;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_max < AT_ONCE_MAX + 100) {
        printf("bench: no room for %d descriptors\n", AT_ONCE_MAX);
        return;
    }
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    wake_at_once(b, c, AT_ONCE_MAX, 0);
}

static void load_row(struct bench *b, struct conn *one, double spawn_us)
{
    static struct conn c[CONNECTIONS];
    struct pollfd p[CONNECTIONS];
    long done = 0;
    (void)spawn_us;
    call(one, 201, "POST", "{\"image\":\"base\",\"name\":\"load\"}", "/v1/sandboxes");
    for (int i = 0; i < CONNECTIONS; i++) {
        conn_open(&c[i]);
        ask(&c[i], "GET", "/v1/sandboxes/load", "", "");
        p[i] = (struct pollfd){.fd = c[i].fd, .events = POLLIN};
    }
    double from = now_us(), until = from + (double)LOAD_S * 1e6;
    while (now_us() < until && poll(p, CONNECTIONS, 10000) > 0)
        for (int i = 0; i < CONNECTIONS; i++) {
            if (!p[i].revents)
                continue;
            take(&c[i]);
            if (!answered(&c[i]))
                continue;
            if (answered(&c[i]) != 200)
                die("a request of many", c[i].in);
            done++;
            c[i].len = 0;
            ask(&c[i], "GET", "/v1/sandboxes/load", "", "");
        }
    bench_row(b, &(struct bench_row){.row = "requests over 64 connections",
                                     .value = (double)done / ((now_us() - from) / 1e6),
                                     .unit = "a second",
                                     .budget = 2000,
                                     .at_least = true});
    for (int i = 0; i < CONNECTIONS; i++)
        conn_close(&c[i]);
}

/* --- the end, and the start ------------------------------------------------------------- */

static void drain_rows(struct bench *b, struct conn *c, double spawn_us)
{
    conn_close(c);
    stop_daemon(); /* what others left awake does not count */
    run_daemon();
    conn_open(c);
    for (int i = 0; i < WARM; i++) {
        char text[TEXT];
        (void)snprintf(text, sizeof text, "{\"image\":\"base\",\"name\":\"drain%d\"}", i);
        call(c, 201, "POST", text, "/v1/sandboxes");
        call(c, 201, "POST", "{\"shell\":\"read x\",\"stdin\":true,\"background\":true}",
             "/v1/sandboxes/drain%d/exec", i);
    }
    double from = now_us();
    stop_daemon();
    row(b, "SIGTERM with 1,000 awake, until the daemon has ended", now_us() - from, spawn_us,
        10000);
    run_daemon();
    conn_close(c);
    conn_open(c);
}

/* Rows like that of a sandbox of drain_rows, until a daemon that starts with them is ready. */
static void start_row(struct bench *b, const char *name, int rows, const char *state,
                      double spawn_us)
{
    char registry[TEXT], count[16];
    stop_daemon();
    (void)snprintf(registry, sizeof registry, "%s/registry.db", root);
    (void)snprintf(count, sizeof count, "%d", rows);
    spawn((const char *const[]){"/usr/bin/env", "python3", "tests/lib/registry_rows.py", registry,
                                "start", count, state, NULL},
          true);
    double from = now_us();
    run_daemon();
    row(b, name, now_us() - from, spawn_us, 0);
}

static void start_rows(struct bench *b, struct conn *c, double spawn_us)
{
    call(c, 201, "POST", "{\"image\":\"base\",\"name\":\"start\"}", "/v1/sandboxes");
    conn_close(c);
    stop_daemon();
    double from = now_us();
    run_daemon();
    row(b, "start with what the others left", now_us() - from, spawn_us, 0);
    start_row(b, "start after a crash with 10,000 awake", CRASHED, "active", spawn_us);
    start_row(b, "start with 100,000 asleep", ASLEEP, "suspended", spawn_us);
    conn_open(c);
}

/* `bench_daemon wake python` runs these parts only. */
static bool wanted(int argc, char **argv, const char *part)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], part) == 0)
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(struct bench *b, struct conn *c, double spawn_us);
    } parts[] = {{"warm", warm_rows},
                 {"fork", fork_rows},
                 {"durable", durable_rows},
                 {"wake", wake_rows},
                 {"asleep", exec_asleep_rows},
                 {"wakepython", wake_python_rows},
                 {"idle", idle_rows},
                 {"python", python_rows},
                 {"pythons", warm_python_rows},
                 {"linux", linux_rows},
                 {"linuxwake", wake_linux_rows},
                 {"linuxasleep", sleeping_rows},
                 {"load", load_row},
                 {"many", at_once_rows},
                 {"flood", flood_rows},
                 {"drain", drain_rows},
                 {"start", start_rows}};
    static struct bench b;
    static struct conn c;
    bench_init(&b, "daemon", 15);
    if (!start_daemon(wanted(argc, argv, "python") || wanted(argc, argv, "pythons")))
        return 0;
    int yard = bench_case(&b, "posix_spawn /bin/true", bench_spawn_true, NULL, 20);
    bench_run(&b);
    double spawn_us = bench_us(&b, yard);
    bench_row(&b, &(struct bench_row){
                      .row = "posix_spawn of /bin/true", .value = spawn_us / 1000, .unit = "ms"});
    conn_open(&c);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (wanted(argc, argv, parts[i].name))
            parts[i].run(&b, &c, spawn_us);
    conn_close(&c);
    end_daemon();
    return bench_finish(&b);
}

/* SPDX-License-Identifier: MIT
 *
 * bench_net.c - what a visitor of a preview waits for, and how fast large answers come.
 *
 * One small server in Python runs on the host and, in a sandbox of the image debian, behind a
 * preview of a daemon of its own in build/bench. The same client asks both, each request on a
 * connection of its own: the host's is the yardstick. So the difference has the daemon's relay, the
 * visit's checks, and the sandbox's kernel in it. Before each request to a sleeping sandbox it is
 * suspended, outside of the time.
 */
#include "../tests/lib/free_port.h"
#include "bench.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

enum {
    TEXT = 4096,
    PIECE = 256 << 10,
    BULK = 64 << 20, /* bytes of a large answer */
    TRIES = 600,     /* of 100 ms, until something listens */
};

static char root[64], doze[TEXT];
static int daemon_pid, server_pid;

struct place {
    int port;
    char path[128];
};

static void end_all(void)
{
    for (int i = 0; i < 2; i++) {
        const int pid = i ? server_pid : daemon_pid;
        if (pid > 0 && kill(pid, SIGTERM) == 0)
            (void)waitpid(pid, NULL, 0);
    }
    daemon_pid = server_pid = 0;
}

static _Noreturn void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "bench-net: %s: %s\n", what, why);
    end_all();
    exit(1);
}

static int start(const char *const *argv)
{
    int pid = 0;
    if (posix_spawn(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ) != 0)
        die(argv[0], strerror(errno));
    return pid;
}

static void run(const char *const *argv)
{
    int status = 0;
    const int pid = start(argv);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        die(argv[1], "failed");
}

static int dial(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

static void await(int port)
{
    for (int i = 0; i < TRIES; i++) {
        int fd = dial(port);
        if (fd >= 0) {
            (void)close(fd);
            return;
        }
        (void)poll(NULL, 0, 100);
    }
    die("wait for a listener", "a minute is over");
}

/* One request; returns the bytes of the answer, < 0 unless its status is 200. */
static long get(const struct place *p, const char *what)
{
    static char in[PIECE];
    char text[TEXT];
    long total = 0;
    bool good = false;
    int fd = dial(p->port);
    if (fd < 0)
        return -1;
    int n =
        snprintf(text, sizeof text,
                 "GET %s/%s HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n", p->path, what);
    if (send(fd, text, (size_t)n, MSG_NOSIGNAL) == n)
        for (ssize_t got; (got = recv(fd, in, sizeof in, 0)) > 0; total += got)
            good = good || (total == 0 && got > 12 && memcmp(in, "HTTP/1.1 200", 12) == 0);
    (void)close(fd);
    return good ? total : -1;
}

static int small(struct bench *b, void *arg, long count)
{
    (void)b;
    for (long i = 0; i < count; i++)
        if (get(arg, "") < 0)
            return -1;
    return 0;
}

static int bulk(struct bench *b, void *arg, long count)
{
    (void)b;
    for (long i = 0; i < count; i++)
        if (get(arg, "bulk") < BULK)
            return -1;
    return 0;
}

static int asleep(struct bench *b, void *arg, long count)
{
    for (long i = 0; i < count; i++) {
        bench_stop(b);
        run((const char *const[]){"/bin/sh", "-c", "DOZE_DATA=$1 \"$0\" suspend web >/dev/null",
                                  doze, root, NULL});
        bench_start(b);
        if (get(arg, "") < 0)
            return -1;
    }
    return 0;
}

/* The daemon, the server on the host and the one in the sandbox. */
static bool set_up(struct place *host, struct place *preview)
{
    static const char server[] =
        "cat >\"$0/server.py\" <<'END'\n"
        "import socket, sys\n"
        "s = socket.create_server(('127.0.0.1', int(sys.argv[1])), backlog=128)\n"
        "bulk = b'x' * (64 << 20)\n"
        "while True:\n"
        "    c, _ = s.accept()\n"
        "    head = c.recv(65536)\n"
        "    body = bulk if b'/bulk ' in head[:200] else b'hello\\n'\n"
        "    c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(body) + "
        "(body if len(body) < 100 else b''))\n"
        "    if len(body) > 100: c.sendall(body)\n"
        "    c.close()\n"
        "END\n";
    static const char guest[] =
        "set -e; export DOZE_DATA=$1\n"
        "\"$0\" create debian --name web --port 8080:public >/dev/null\n"
        "\"$0\" cp \"$1/server.py\" web:/tmp/server.py\n"
        "\"$0\" exec -d web python3 /tmp/server.py 8080 >/dev/null\n"
        "until \"$0\" port ls web --json | grep -q '\"listening\":true'; do sleep 0.1; done\n"
        "\"$0\" preview url web 8080 >\"$1/path\"\n";
    char data[TEXT], listen_at[64], word[16], images[TEXT], file[TEXT];
    const char *store = getenv("DOZE_DATA");
    (void)snprintf(images, sizeof images, "%.2000s/images", store ? store : "build/data");
    (void)snprintf(file, sizeof file, "%.2100s/tags/debian:latest", images);
    if (access(file, R_OK) < 0) {
        printf("bench: %s is not there: make test-images\n", file);
        return false;
    }
    (void)snprintf(root, sizeof root, "build/bench/net.XXXXXX");
    if (!mkdtemp(root))
        die(root, strerror(errno));
    run((const char *const[]){"/bin/cp", "-a", images, root, NULL});
    run((const char *const[]){"/bin/sh", "-c", server, root, NULL});
    host->port = free_port();
    preview->port = free_port();
    (void)snprintf(word, sizeof word, "%d", host->port);
    (void)snprintf(file, sizeof file, "%s/server.py", root);
    server_pid = start((const char *const[]){"/usr/bin/env", "python3", file, word, NULL});
    (void)snprintf(data, sizeof data, "--data=%s", root);
    (void)snprintf(listen_at, sizeof listen_at, "--listen=127.0.0.1:%d", preview->port);
    daemon_pid =
        start((const char *const[]){doze, "daemon", data, listen_at, "--log-level=error", NULL});
    await(host->port);
    await(preview->port);
    run((const char *const[]){"/bin/sh", "-c", guest, doze, root, NULL});
    (void)snprintf(file, sizeof file, "%s/path", root);
    FILE *f = fopen(file, "re");
    if (!f || !fgets(preview->path, sizeof preview->path, f))
        die(file, "cannot be read");
    (void)fclose(f);
    preview->path[strcspn(preview->path, "\n")] = '\0';
    const size_t n = strlen(preview->path);
    if (n > 0 && preview->path[n - 1] == '/')
        preview->path[n - 1] = '\0';
    return true;
}

int main(void)
{
    static struct bench b;
    static struct place host, preview;
    ssize_t n = readlink("/proc/self/exe", doze, sizeof doze - 16);
    char *slash = n > 0 ? strrchr(doze, '/') : NULL;
    if (!slash)
        return 1;
    (void)memcpy(slash, "/doze", 6);
    bench_init(&b, "net", 15);
    if (!set_up(&host, &preview))
        return 0;
    const int direct = bench_case(&b, "direct", small, &host, 100);
    const int visit = bench_case(&b, "preview", small, &preview, 100);
    const int direct_bulk = bench_case(&b, "direct, bulk", bulk, &host, 1);
    const int visit_bulk = bench_case(&b, "preview, bulk", bulk, &preview, 1);
    const int wakes = bench_case(&b, "preview, asleep", asleep, &preview, 1);
    bench_run(&b);
    const double us = bench_us(&b, direct), visit_us = bench_us(&b, visit);
    const double mb = BULK / 1e6;
    bench_row(&b, &(struct bench_row){.row = "a request to a server on the host",
                                      .value = us / 1000,
                                      .unit = "ms"});
    bench_row(&b, &(struct bench_row){.row = "the same through a preview, above that",
                                      .value = (visit_us - us) / 1000,
                                      .unit = "ms",
                                      .budget = 0.2});
    bench_row(&b, &(struct bench_row){.row = "to a sandbox that sleeps: p50",
                                      .value = bench_us(&b, wakes) / 1000,
                                      .unit = "ms",
                                      .budget = 2});
    if (bench_us(&b, direct_bulk) > 0 && bench_us(&b, visit_bulk) > 0)
        bench_row(&b,
                  &(struct bench_row){.row = "an answer of 64 MiB through a preview",
                                      .value = mb / bench_us(&b, visit_bulk) * 1e6,
                                      .unit = "MB/s",
                                      .yardstick = mb / bench_us(&b, direct_bulk) * 1e6,
                                      .yardstick_name = "direct",
                                      .ratio = bench_us(&b, direct_bulk) / bench_us(&b, visit_bulk),
                                      .budget = 0.8,
                                      .at_least = true});
    end_all();
    run((const char *const[]){"/bin/rm", "-rf", root, NULL});
    return bench_finish(&b);
}

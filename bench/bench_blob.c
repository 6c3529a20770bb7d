/* SPDX-License-Identifier: MIT
 *
 * bench-blob: freezing and thawing a file of 256 MiB in a directory and in a bucket, plain and
 * encrypted. The bucket's server is versitygw on this machine (make bench-peers). The yardsticks
 * are cp and fsync, and curl, which sends or fetches the file in one signed request. The server's
 * own work is most of the time with a bucket.
 */
#include "../tests/lib/free_port.h"
#include "bench.h"

#include "base/fd.h"
#include "base/mem.h"
#include "blob/blob_cold.h"
#include "blob/blob_crypt.h"
#include "blob/blob_open.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MB = 256,
    ROUNDS = 3,
    WAIT_MS = 5000,
};
#define ACCESS "benchkey"
#define SECRET "benchsecret123"

extern char **environ;

static char dir[DZ_TEMP_DIR_TEXT], key_file[DZ_TEMP_DIR_TEXT + 16], live[DZ_TEMP_DIR_TEXT + 16],
    from[DZ_TEMP_DIR_TEXT + 32], to[DZ_TEMP_DIR_TEXT + 32];
static int port;

struct place {
    struct dz_cold cold;
    struct dz_cold_copy copy;
    long rss_kb; /* by how much the largest size of the process has grown */
};

static void check(int rc, const char *what, const struct dz_err *err)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "bench: %s: %s\n", what, err->msg);
    exit(1);
}

static void open_place(struct place *p, const char *url, bool encrypted)
{
    struct dz_err err = {0};
    char endpoint[64];
    (void)snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", port);
    const struct dz_blobs_place place = {
        .url = url,
        .s3 = {.endpoint = endpoint, .access_key = ACCESS, .secret_key = SECRET},
        .key_file = encrypted ? key_file : NULL,
    };
    check(dz_blobs_open_dir(live, &p->cold.live, &err), "open the live directory", &err);
    check(dz_blobs_open(&place, &p->cold.store, &err), url, &err);
}

static void close_place(struct place *p)
{
    dz_blobs_free(p->cold.live);
    dz_blobs_free(p->cold.store);
}

static void make_big(void)
{
    DZ_AUTO(dz_fd_close) int fd = open(from, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    DZ_AUTO(dz_freep) uint32_t *piece = dz_alloc(1 << 20);
    uint32_t x = 1;
    for (int i = 0; i < MB; i++) {
        for (size_t k = 0; k < (1 << 20) / sizeof *piece; k++)
            piece[k] = k % 8 ? (uint32_t)i : (x = x * 1664525u + 1013904223u);
        if (write(fd, piece, 1 << 20) != 1 << 20)
            exit(1);
    }
    if (fsync(fd) < 0)
        exit(1);
}

/* --- the server ------------------------------------------------------------------------ */

static bool listens(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    DZ_AUTO(dz_fd_close) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
}

static pid_t start_server(const char *program)
{
    char buckets[DZ_TEMP_DIR_TEXT + 16], bucket[DZ_TEMP_DIR_TEXT + 32], address[64];
    pid_t pid;
    port = free_port();
    if (port < 0)
        exit(1);
    (void)snprintf(buckets, sizeof buckets, "%s/s3", dir);
    (void)snprintf(bucket, sizeof bucket, "%s/bucket", buckets);
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", port);
    if (mkdir(buckets, 0700) < 0 || mkdir(bucket, 0700) < 0 ||
        setenv("ROOT_ACCESS_KEY", ACCESS, 1) < 0 || setenv("ROOT_SECRET_KEY", SECRET, 1) < 0)
        exit(1);
    const char *const argv[] = {program, "--quiet", "--port", address, "posix", buckets, NULL};
    posix_spawn_file_actions_t files;
    (void)posix_spawn_file_actions_init(&files);
    (void)posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    (void)posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    int rc = posix_spawn(&pid, program, &files, NULL, (char *const *)(uintptr_t)argv, environ);
    (void)posix_spawn_file_actions_destroy(&files);
    for (int i = 0; rc == 0 && i < WAIT_MS / 10 && !listens(); i++)
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    if (rc != 0 || !listens()) {
        fprintf(stderr, "bench: %s does not start\n", program);
        exit(1);
    }
    return pid;
}

/* --- cases ----------------------------------------------------------------------------- */

static long peak_kb(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? u.ru_maxrss : 0;
}

static int run_freeze(struct bench *b, void *arg, long count)
{
    struct place *p = arg;
    (void)count;
    long before = peak_kb();
    int rc = dz_cold_freeze(&p->cold, "big", NULL, &p->copy, NULL);
    bench_stop(b);
    if (peak_kb() - before > p->rss_kb)
        p->rss_kb = peak_kb() - before;
    if (rc == 0)
        rc = dz_cold_drop(&p->cold, "big", DZ_COLD_BIT(FROZEN), NULL);
    bench_start(b);
    return rc;
}

static int run_thaw(struct bench *b, void *arg, long count)
{
    struct place *p = arg;
    (void)count;
    bench_stop(b);
    int rc = dz_cold_freeze(&p->cold, "big", NULL, &p->copy, NULL);
    if (rc == 0)
        rc = dz_cold_drop(&p->cold, "big", DZ_COLD_BIT(LIVE), NULL);
    bench_start(b);
    if (rc == 0)
        rc = dz_cold_thaw(&p->cold, "big", &p->copy, NULL, NULL);
    bench_stop(b);
    if (rc == 0)
        rc = dz_cold_drop(&p->cold, "big", DZ_COLD_BIT(FROZEN), NULL);
    bench_start(b);
    return rc;
}

static int run_cp(struct bench *b, void *arg, long count)
{
    const char *const argv[] = {"cp", from, to, NULL};
    (void)arg, (void)count;
    int rc = bench_command(b, (void *)(uintptr_t)argv, 1);
    int fd = rc < 0 ? -1 : open(to, O_RDONLY | O_CLOEXEC);
    rc = fd < 0 ? -1 : fsync(fd);
    bench_stop(b);
    dz_fd_close(&fd);
    (void)unlink(to);
    bench_start(b);
    return rc;
}

/* arg: "put" or "get"; both are of the whole object in one request. */
static int run_curl(struct bench *b, void *arg, long count)
{
    char url[128];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/bucket/by-curl", port);
    const char *const put[] = {"curl",        "-sf",
                               "--aws-sigv4", "aws:amz:us-east-1:s3",
                               "-u",          ACCESS ":" SECRET,
                               "-H",          "x-amz-content-sha256: UNSIGNED-PAYLOAD",
                               "-T",          from,
                               url,           NULL};
    const char *const get[] = {"curl",        "-sf",
                               "--aws-sigv4", "aws:amz:us-east-1:s3",
                               "-u",          ACCESS ":" SECRET,
                               "-H",          "x-amz-content-sha256: UNSIGNED-PAYLOAD",
                               "-o",          to,
                               url,           NULL};
    bool is_get = strcmp(arg, "get") == 0;
    (void)count;
    int rc = bench_command(b, (void *)(uintptr_t)(is_get ? get : put), 1);
    int fd = rc < 0 || !is_get ? -1 : open(to, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        rc = fsync(fd);
    bench_stop(b);
    dz_fd_close(&fd);
    (void)unlink(to);
    bench_start(b);
    return rc;
}

static void row(struct bench *b, const char *name, int id, int yardstick,
                const char *yardstick_name, double budget)
{
    bench_row(b, &(struct bench_row){.row = name,
                                     .value = bench_us(b, id) / 1e3,
                                     .unit = "ms",
                                     .yardstick = bench_us(b, yardstick) / 1e3,
                                     .yardstick_name = yardstick_name,
                                     .ratio = bench_us(b, id) / bench_us(b, yardstick),
                                     .budget = budget});
}

int main(void)
{
    static struct bench b;
    static struct place plain, sealed, bucket, sealed_bucket;
    char url[DZ_TEMP_DIR_TEXT + 32], server[512];
    struct dz_err err = {0};
    bool s3 = bench_peer("bin/versitygw", server, sizeof server);
    check(dz_fd_temp_dir("doze-bench", dir, &err), "make a directory", &err);
    (void)snprintf(key_file, sizeof key_file, "%s/key", dir);
    (void)snprintf(live, sizeof live, "%s/live", dir);
    (void)snprintf(from, sizeof from, "%s/live/big.doze", dir);
    (void)snprintf(to, sizeof to, "%s/copy", dir);
    check(dz_blob_keys_make(key_file, &err), "make a key", &err);
    (void)snprintf(url, sizeof url, "file://%s/plain", dir);
    open_place(&plain, url, false);
    (void)snprintf(url, sizeof url, "file://%s/sealed", dir);
    open_place(&sealed, url, true);
    make_big();
    bench_init(&b, "blob", ROUNDS);
    int cp = bench_case(&b, "cp", run_cp, NULL, 1);
    int freeze = bench_case(&b, "freeze", run_freeze, &plain, 1);
    int thaw = bench_case(&b, "thaw", run_thaw, &plain, 1);
    int freeze_sealed = bench_case(&b, "freeze, encrypted", run_freeze, &sealed, 1);
    int thaw_sealed = bench_case(&b, "thaw, encrypted", run_thaw, &sealed, 1);
    int put = 0, get = 0, up = 0, down = 0, up_sealed = 0, down_sealed = 0;
    pid_t pid = s3 ? start_server(server) : 0;
    if (s3) {
        static char put_word[] = "put", get_word[] = "get";
        open_place(&bucket, "s3://bucket/plain", false);
        open_place(&sealed_bucket, "s3://bucket/sealed", true);
        put = bench_case(&b, "curl, put", run_curl, put_word, 1);
        get = bench_case(&b, "curl, get", run_curl, get_word, 1);
        up = bench_case(&b, "freeze to a bucket", run_freeze, &bucket, 1);
        down = bench_case(&b, "thaw from a bucket", run_thaw, &bucket, 1);
        up_sealed = bench_case(&b, "freeze to a bucket, encrypted", run_freeze, &sealed_bucket, 1);
        down_sealed = bench_case(&b, "thaw from a bucket, encrypted", run_thaw, &sealed_bucket, 1);
    }
    bench_run(&b);
    row(&b, "freeze 256 MiB to a directory", freeze, cp, "cp, fsync", 1.15);
    row(&b, "thaw 256 MiB from a directory", thaw, cp, "cp, fsync", 1.15);
    row(&b, "freeze 256 MiB to a directory, encrypted", freeze_sealed, cp, "cp, fsync", 3);
    row(&b, "thaw 256 MiB from a directory, encrypted", thaw_sealed, cp, "cp, fsync", 3);
    if (s3) {
        row(&b, "freeze 256 MiB to a bucket", up, put, "curl, put", 1.5);
        row(&b, "thaw 256 MiB from a bucket, durable", down, get, "curl, get, fsync", 1.5);
        row(&b, "freeze 256 MiB to a bucket, encrypted", up_sealed, put, "curl, put", 2);
        row(&b, "thaw 256 MiB from a bucket, encrypted", down_sealed, get, "curl, get, fsync", 2);
        bench_row(&b, &(struct bench_row){.row = "memory of a freeze to a bucket",
                                          .value = (double)bucket.rss_kb / 1024,
                                          .unit = "MB",
                                          .budget = 40});
        close_place(&bucket);
        close_place(&sealed_bucket);
        (void)kill(pid, SIGTERM);
        (void)waitpid(pid, NULL, 0);
    }
    close_place(&plain);
    close_place(&sealed);
    int rc = bench_finish(&b);
    return dz_fd_remove_tree(AT_FDCWD, dir, NULL) < 0 ? 1 : rc;
}

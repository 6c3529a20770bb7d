/* SPDX-License-Identifier: MIT
 *
 * soak_daemon: a daemon under mixed load of two tenants.
 *
 *     SOAK_SECONDS=120 SEED=1 soak_daemon
 *     SOAK_DISK=size=192m,nr_inodes=4096 SOAK_SECONDS=60 soak_daemon
 *
 * Storm (six tenths of the time): clients work while cells and the daemon are killed and
 * the disk is full now and then. Calm (three tenths): they work, and nothing is killed;
 * what the daemon holds at rest is counted before and after. Then all that was
 * acknowledged is looked for, all sandboxes are destroyed, and nothing may be left.
 * With SOAK_DISK the data directory is a tmpfs with these mount options, and its blocks or
 * its inodes run out every few seconds of the storm.
 */
#include "soak.h"

#include "../lib/dice.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/num.h"

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    STEP_MS = 500,
    CRASH_EVERY = 20, /* steps between two kills of the daemon, on average */
    FILL_EVERY = 40,
    FILL_EVERY_SMALL = 4, /* with SOAK_DISK */
    REST_MS = 60000,
    LOOK_MS = 7000,
    SLACK_DESCRIPTORS = 4,
    SLACK_BYTES = 16 << 20,
    WARM_UP_MS = 8000,
};

static int tests, failures;

DZ_PRINTF(2, 3) static void verdict(bool good, const char *fmt, ...)
{
    va_list ap;
    tests++;
    failures += !good;
    printf("%sok %d - ", good ? "" : "not ", tests);
    va_start(ap, fmt);
    (void)vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    (void)fflush(stdout);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t v = otherwise;
    if (text && dz_num_u64(dz_str(text), 0, UINT64_MAX, &v, NULL) < 0) {
        fprintf(stderr, "%s=%s: a whole number is wanted\n", name, text);
        exit(2);
    }
    return v;
}

static void nap(unsigned ms)
{
    const struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    (void)nanosleep(&t, NULL);
}

/* --- the clients ------------------------------------------------------------------------ */

struct run {
    struct soak_host host;
    struct soak_world *world;
    struct soak_client clients[SOAK_CLIENTS];
    pid_t pids[SOAK_CLIENTS];
    struct soak_client operator_; /* the owner of the socket */
    uint64_t seconds, seed;
};

static bool clients_start(struct run *r)
{
    for (int i = 0; i < SOAK_CLIENTS; i++) {
        struct soak_client *c = &r->clients[i];
        r->pids[i] = fork();
        if (r->pids[i] < 0)
            return false;
        if (r->pids[i] == 0)
            soak_live(c);
    }
    return true;
}

static void clients_end(struct run *r)
{
    atomic_store(&r->world->stop, true);
    for (int i = 0; i < SOAK_CLIENTS; i++) {
        int status = 0;
        if (r->pids[i] > 0 && waitpid(r->pids[i], &status, 0) == r->pids[i] && status != 0)
            soak_bad(r->world, "client %d ended with status %#x", i, (unsigned)status);
        r->pids[i] = 0;
    }
}

/* Nobody asks, and every sandbox has gone to sleep by itself. */
static bool rest(struct run *r)
{
    static const struct soak_ask ask = {"GET", "/v1/sandboxes?state=active", NULL, NULL, 0};
    bool quiet = false;
    atomic_store(&r->world->pause, true);
    int64_t end = dz_clock_mono_ms() + REST_MS;
    for (; !quiet && dz_clock_mono_ms() < end && soak_lives(&r->host); nap(100))
        quiet = atomic_load(&r->world->paused) == SOAK_CLIENTS &&
                soak_ask(&r->operator_, &ask) == SOAK_DONE && !strstr(r->operator_.body.p, "sbx_");
    if (!quiet)
        soak_bad(r->world, "%d of %d clients at rest; active: %.200s",
                 atomic_load(&r->world->paused), SOAK_CLIENTS, r->operator_.body.p);
    nap(STEP_MS); /* for what follows a suspend */
    printf("# %lld ms until all rest\n", (long long)(dz_clock_mono_ms() - end + REST_MS));
    return quiet;
}

/* The least of some seconds: a cell that has a file only stays for one after its last use, and then
 * tidies up. */
static void look(struct run *r, struct soak_sample *ret_sample, const char *when)
{
    struct dz_err err = {0};
    dz_client_closep(&r->operator_.connection);
    *ret_sample = (struct soak_sample){UINT_MAX, UINT_MAX, UINT64_MAX};
    for (int64_t end = dz_clock_mono_ms() + LOOK_MS; dz_clock_mono_ms() < end;) {
        struct soak_sample now = {0};
        nap(STEP_MS);
        if (soak_look(&r->host, &now, &err) < 0)
            soak_bad(r->world, "%s", err.msg);
#define LEAST(field) \
    ret_sample->field = now.field < ret_sample->field ? now.field : ret_sample->field
        LEAST(descriptors);
        LEAST(processes);
        LEAST(private_bytes);
#undef LEAST
    }
    printf("# at rest %s: %u descriptors, %u processes, %llu KiB of its own\n", when,
           ret_sample->descriptors, ret_sample->processes,
           (unsigned long long)ret_sample->private_bytes >> 10);
}

/* One that has ended by itself would be waited for by everybody. */
static bool lives(struct run *r)
{
    char words[300];
    if (soak_lives(&r->host))
        return true;
    soak_last_words(&r->host, words, sizeof words);
    soak_bad(r->world, "the daemon has ended by itself: %s", words);
    return false;
}

/* --- phases ------------------------------------------------------------------------------- */

static void storm(struct run *r)
{
    struct dz_err err = {0};
    int64_t end = dz_clock_mono_ms() + (int64_t)r->seconds * 600;
    uint32_t fill_every = r->host.disk ? FILL_EVERY_SMALL : FILL_EVERY;
    atomic_store(&r->world->harm, true);
    while (dz_clock_mono_ms() < end && atomic_load(&r->world->failures) < SOAK_FAILURES) {
        nap(STEP_MS);
        if (!lives(r))
            return;
        if (dice_below(&r->host.seed, 2) == 0)
            (void)soak_kill_cell(&r->host);
        if (dice_below(&r->host.seed, fill_every) == 0 && soak_fill(&r->host, &err) < 0)
            soak_bad(r->world, "a full disk: %s", err.msg);
        if (dice_below(&r->host.seed, CRASH_EVERY) == 0 && soak_crash(&r->host, &err) < 0)
            soak_bad(r->world, "%s", err.msg);
    }
    if (soak_fill(&r->host, &err) < 0) /* all of it happens once, however short the run */
        soak_bad(r->world, "a full disk: %s", err.msg);
    if (soak_crash(&r->host, &err) < 0)
        soak_bad(r->world, "%s", err.msg);
}

static void calm(struct run *r)
{
    static const char *const asks[] = {"/metrics", "/instances", "/v1/events?limit=100",
                                       "/healthz"};
    int64_t end = dz_clock_mono_ms() + (int64_t)r->seconds * 300;
    for (size_t i = 0; dz_clock_mono_ms() < end && lives(r); i++) {
        nap(STEP_MS);
        (void)soak_ask(&r->operator_, &(struct soak_ask){"GET", asks[i % 4], NULL, NULL, 0});
    }
}

/* All of one kind, also what a client made and never heard of. */
static void destroy(struct run *r, const char *list, const char *prefix, const char *how)
{
    const struct soak_ask all = {"GET", list, NULL, NULL, 0};
    struct soak_client *c = &r->operator_;
    char path[160];
    const char *id;
    for (int64_t end = dz_clock_mono_ms() + REST_MS; dz_clock_mono_ms() < end;) {
        if (soak_ask(c, &all) != SOAK_DONE || !(id = strstr(c->body.p, prefix)))
            return;
        (void)snprintf(path, sizeof path, "%s/%.*s%s", list, (int)strcspn(id, "\""), id, how);
        (void)soak_ask(c, &(struct soak_ask){"DELETE", path, NULL, NULL, 0});
    }
    soak_bad(r->world, "not destroyed in %d seconds: %.200s", REST_MS / 1000, c->body.p);
}

static void destroy_all(struct run *r)
{
    destroy(r, "/v1/sandboxes", "sbx_", "?force=true");
    destroy(r, "/v1/forks", "frk_", "");
    destroy(r, "/v1/snapshots", "snap_", "");
}

/* Files of sandboxes and snapshots below the data directory. */
static unsigned files_left(const struct run *r)
{
    static const char *const dirs[] = {"live", "cold", "snapshots"};
    unsigned n = 0;
    for (size_t i = 0; i < 3; i++) {
        char path[DZ_PATH_MAX + 16];
        (void)snprintf(path, sizeof path, "%s/%s", r->host.data, dirs[i]);
        DIR *d = opendir(path);
        for (const struct dirent *e; d && (e = readdir(d));)
            if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
                printf("# left: %s/%s\n", dirs[i], e->d_name);
                n++;
            }
        if (d)
            (void)closedir(d);
    }
    return n;
}

/* Processes that have our data directory among their words, whoever started them. */
static unsigned processes_left(const struct run *r)
{
    DIR *d = opendir("/proc");
    unsigned n = 0;
    for (const struct dirent *e; d && (e = readdir(d));) {
        char path[300];
        struct dz_buf text = DZ_BUF_INIT(1 << 20);
        (void)snprintf(path, sizeof path, "/proc/%s/environ", e->d_name);
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && atoi(e->d_name) != getpid() &&
            dz_fd_read_file(AT_FDCWD, path, &text, NULL) == 0 &&
            memmem(text.p, text.len, r->host.data, strlen(r->host.data))) {
            printf("# left: process %s\n", e->d_name);
            n++;
        }
        dz_buf_release(&text);
    }
    if (d)
        (void)closedir(d);
    return n;
}

/* --- all of it -------------------------------------------------------------------------------- */

static void soak_client_init(struct run *r, struct soak_client *c, int index)
{
    *c = (struct soak_client){
        .world = r->world,
        .index = index,
        .tenant = index % SOAK_TENANTS,
        .seed = r->seed + (uint64_t)index * 7919 + 1,
        .url = r->host.url,
        .image = "base",
        .body = DZ_BUF_INIT(16 << 20),
    };
    for (int i = 0; i < SOAK_BOXES; i++)
        (void)snprintf(r->world->boxes[index][i].name, sizeof r->world->boxes[index][i].name,
                       "%s-%d-%d", soak_tenant(c->tenant), index, i);
}

/* A token for each tenant, which all its clients have. */
static bool tokens(struct run *r)
{
    char body[100], token[2][100] = {{0}};
    for (int t = 0; t < SOAK_TENANTS; t++) {
        (void)snprintf(body, sizeof body, "{\"name\":\"soak\",\"tenant\":\"%s\"}", soak_tenant(t));
        const char *found = NULL;
        if (soak_ask(&r->operator_, &(struct soak_ask){"POST", "/v1/tokens", body, NULL, 0}) !=
                SOAK_DONE ||
            !(found = strstr(r->operator_.body.p, "\"token\":\"")) ||
            sscanf(found, "\"token\":\"%99[^\"]", token[t]) != 1)
            return false;
    }
    for (int i = 0; i < SOAK_CLIENTS; i++)
        memcpy(r->clients[i].token, token[i % SOAK_TENANTS], sizeof token[0]);
    return true;
}

static bool begin(struct run *r)
{
    struct dz_err err = {0};
    r->host.doze = getenv("DOZE") ? getenv("DOZE") : "build/debug-gcc/doze";
    r->host.disk = getenv("SOAK_DISK");
    r->host.world = r->world;
    r->host.seed = r->seed;
    bool ok = soak_host_open(&r->host, &err) == 0;
    if (!ok && r->host.disk && !r->host.small && err.code != DZ_EINVAL) { /* not the options */
        tests++;
        printf("ok %d - a daemon on a small disk # SKIP %s\n", tests, err.msg);
        return false;
    }
    ok = ok && soak_start(&r->host, &err) == 0;
    r->operator_ = (struct soak_client){
        .world = r->world, .tenant = -1, .url = r->host.url, .body = DZ_BUF_INIT(16 << 20)};
    for (int i = 0; i < SOAK_CLIENTS; i++)
        soak_client_init(r, &r->clients[i], i);
    ok = ok && tokens(r);
    for (int i = 0; ok && i < SOAK_CLIENTS; i++) {
        ok = soak_settle(&r->clients[i]);
        dz_client_closep(&r->clients[i].connection);
    }
    verdict(ok, "a daemon, and %d sandboxes of two tenants %s", SOAK_CLIENTS * SOAK_BOXES, err.msg);
    return ok && clients_start(r);
}

static void report(const struct run *r)
{
    bool each = true;
    printf("#");
    for (int i = 0; soak_op_name(i); i++) {
        unsigned long long n = atomic_load(&r->world->done[i]);
        printf(" %s %llu", soak_op_name(i), n);
        each = each && n > 0;
    }
    printf("\n# refused %llu, unanswered %llu; killed: daemon %u, cells %u; disk full %u times\n",
           atomic_load(&r->world->refused), atomic_load(&r->world->unanswered), r->host.kills,
           r->host.cells, r->host.fills);
    if (r->host.disk)
        printf("# %s: %u times no inode left, %u kills of the daemon on the full disk\n",
               r->host.disk, r->host.crowds, r->host.full_kills);
    if (!r->host.small)
        printf("# the disk was never full: no file system could be mounted\n");
    if (r->host.disk)
        each = each && r->host.crowds > 0 && r->host.full_kills > 0;
    verdict(each && r->host.kills > 0 && r->host.cells > 0,
            "every operation and every harm happened");
}

static void end(struct run *r, const struct soak_sample *before, const struct soak_sample *after)
{
    struct dz_err err = {0};
    struct dz_buf out = DZ_BUF_INIT(1 << 20);
    const char *const check[] = {"registry", "check", NULL};
    for (int i = 0; i < SOAK_CLIENTS; i++)
        soak_verify(&r->clients[i]);
    int bad = atomic_load(&r->world->failures);
    verdict(bad == 0, /* each was told when it was met */
            "nothing acknowledged is lost, no answer is wrong, no tenant meets another's");
    verdict(after->descriptors <= before->descriptors + SLACK_DESCRIPTORS,
            "no descriptor is leaked");
    if (after->processes > before->processes)
        soak_tell_children(&r->host);
    verdict(after->processes <= before->processes, "no process is left");
    verdict(after->private_bytes <= before->private_bytes + SLACK_BYTES, "memory stays flat");
    destroy_all(r);
    verdict(atomic_load(&r->world->failures) == bad, "every sandbox can be destroyed");
    int rc = soak_stop(&r->host, &err);
    verdict(rc == 0 && processes_left(r) == 0, "the daemon ends, and nothing runs on %s", err.msg);
    rc = soak_doze(&r->host, check, &out, &err);
    verdict(rc == 0 && files_left(r) == 0, "registry and files agree, no file is left %s", err.msg);
    dz_buf_release(&out);
}

int main(void)
{
    struct run r = {.seconds = number("SOAK_SECONDS", 120),
                    .seed = number("SEED", (uint64_t)dz_clock_real_ns())};
    struct soak_sample before = {0}, after = {0};
    (void)signal(SIGPIPE, SIG_IGN);
    r.world =
        mmap(NULL, sizeof *r.world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r.world == MAP_FAILED)
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("# SEED=%llu SOAK_SECONDS=%llu\n", (unsigned long long)r.seed,
           (unsigned long long)r.seconds);
    if (begin(&r)) {
        storm(&r);
        nap(WARM_UP_MS);
        bool quiet = rest(&r);
        atomic_store(&r.world->harm, false);
        if (quiet)
            look(&r, &before, "after the storm");
        atomic_store(&r.world->pause, false);
        calm(&r);
        if (rest(&r))
            look(&r, &after, "at the end");
        clients_end(&r);
        report(&r);
        if (lives(&r))
            end(&r, &before, &after);
        else
            verdict(false, "the daemon lives: %s", r.world->failure[0]);
    }
    clients_end(&r);
    soak_host_close(&r.host);
    printf("1..%d\n", tests);
    return failures != 0;
}

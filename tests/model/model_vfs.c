/* SPDX-License-Identifier: MIT
 *
 * model_vfs - random operations on a disk and on a model of one, compared.
 *
 *     model_vfs [SEED=n] [STEPS=n] [EPISODES-ONLY=n]
 *
 * STEPS operations (200,000 by default) in episodes of 4,000. An episode is made
 * from its number and the seed alone: with or without an image below (which is
 * what an earlier life of the same disk left), durable or normal commits, and one
 * in eight on real descriptors under a filter that kills on open. Between the
 * operations: commits, reopening, freezing with files open, crashes, failing
 * calls, full disks, checkpoints, power cuts. After a crash the disk must equal
 * the model at the last commit; after a power cut at some commit no older than
 * the last that was certainly on disk. At each end dz_vfs_check() must be silent.
 *
 * When an episode fails its operations are reduced to few that still fail, and
 * those are printed.
 */
#include "../lib/no_open.h"
#include "model.h"

#include <sys/wait.h>

enum {
    STEPS = 200000,
    EPISODE = 4000,
};

static uint64_t rng_state;

static uint32_t rng(void)
{
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng_state >> 33);
}

/* ---- episodes
 * ------------------------------------------------------------------------------------------ */

static void make_ops(struct op *o, int n)
{
    unsigned total = 0;
    for (size_t i = 0; i < ops_count; i++)
        total += ops[i].weight;
    for (int i = 0; i < n; i++) {
        unsigned r = rng() % total, k = 0;
        while (r >= ops[k].weight)
            r -= ops[k++].weight;
        o[i] = (struct op){k, rng(), rng(), rng(), rng()};
    }
}

static void run_ops(struct world *w, const struct op *o, int from, int to)
{
    for (int i = from; i < to && !w->failed; i++) {
        w->step = i;
        w->unexpected = false;
        watch_begin(w);
        w->watching &= ops[o[i].kind].tells;
        ops[o[i].kind].fn(w, &o[i]);
        watch_end(w);
        if (w->unexpected && !w->failed)
            commit_at_once(w); /* removing much content commits in between */
        if (w->uncommitted > (2u << 20) || w->count - w->certain > HISTORY - 4) {
            disarm(w);
            checkpoint(w);
        }
        if (w->armed && --w->armed == 0) {
            disarm(w);
            compare(w); /* whatever failed, nothing is lost */
        }
    }
}

static void start_life(struct world *w)
{
    reopened(w);
    if (rig_open(&w->r))
        fail(w, "open: %s", w->r.err.msg);
    for (int i = RAM_ROOT; i < RAM_NODES && !w->failed; i++)
        if (w->m->node[i].used && w->m->node[i].ino <= 4)
            take_times(w, i);
    history_clear(w);
    remember(w, true, true);
}

/* True when all was well. The whole episode follows from its arguments. */
static bool episode(uint64_t seed, const struct op *o, int n, bool verbose)
{
    struct world w = {.m = ram_new(), .verbose = verbose};
    bool image = seed % 2, files = seed / 2 % 8 == 0;
    int half = image ? n / 3 : 0;
    w.r = rig_make(seed);
    w.r.opts.before_commit = on_commit;
    w.r.opts.noatime = seed / 16 % 2;
    w.r.opts.step_chunks = seed / 8 % 4; /* 0: as many as a file has */
    w.r.strict = seed / 32 % 2;
    w.r.ahead = seed / 16 % 2;
    w.r.opts.cache_bytes = seed / 64 % 3 == 0 ? 20000 : 0;
    dz_db_seed((uint32_t)seed);
    start_life(&w);
    if (half) {
        run_ops(&w, o, 0, half);
        disarm(&w);
        if (!w.failed && rig_close(&w.r))
            fail(&w, "close of the image: %s", w.r.err.msg);
        if (!w.failed) {
            struct ram *below = ram_copy(w.m);
            ram_free(w.m);
            w.m = below;
            rig_put_below(&w.r);
            if (files)
                rig_put_on_files(&w.r);
            start_life(&w);
        }
    } else if (files) {
        (void)rig_close(&w.r);
        rig_put_on_files(&w.r);
        start_life(&w);
    }
    w.on_files = files;
    if (files && !no_open_begin())
        fail(&w, "no seccomp filter");
    run_ops(&w, o, half, n);
    disarm(&w);
    if (!w.failed)
        compare(&w);
    if (!w.failed && rig_close(&w.r))
        fail(&w, "last close: %s", w.r.err.msg);
    if (!w.failed && rig_open(&w.r))
        fail(&w, "last open: %s", w.r.err.msg);
    if (!w.failed)
        check(&w);
    history_clear(&w);
    ram_free(w.m);
    rig_free(&w.r);
    return !w.failed;
}

/* In a child: a crash is a failure like any other. */
static bool survives(uint64_t seed, const struct op *o, int n, bool quiet, bool verbose)
{
    int status = 0;
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(120);
        if (quiet && !freopen("/dev/null", "w", stdout))
            abort();
        bool ok = episode(seed, o, n, verbose);
        (void)fflush(stdout);
        _exit(ok ? 0 : 1);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        abort();
    if (!quiet && WIFSIGNALED(status))
        printf("# killed by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Leave out pieces as long as it still fails. */
static int shrink(uint64_t seed, struct op *o, int n)
{
    struct op *try = calloc((size_t)n, sizeof *try);
    int tries = 0;
    for (int piece = n / 2; piece > 0 && try; piece /= 2) {
        for (int at = 0; at + piece <= n && tries < 600; tries++) {
            memcpy(try, o, (size_t)at * sizeof *o);
            memcpy(try + at, o + at + piece, (size_t)(n - at - piece) * sizeof *o);
            if (survives(seed, try, n - piece, true, false)) {
                at += piece;
                continue;
            }
            n -= piece;
            memcpy(o, try, (size_t)n * sizeof *o);
        }
    }
    free(try);
    return n;
}

static unsigned long long argument(int argc, char **argv, const char *key, unsigned long long other)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], key, strlen(key)) == 0)
            return strtoull(argv[i] + strlen(key), NULL, 10);
    return getenv("MODEL_STEPS") && strcmp(key, "STEPS=") == 0
               ? strtoull(getenv("MODEL_STEPS"), NULL, 10)
               : other;
}

int main(int argc, char **argv)
{
    uint64_t seed = argument(argc, argv, "SEED=", 20261121);
    int steps = (int)argument(argc, argv, "STEPS=", STEPS), bad = 0, n = 0;
    int only = (int)argument(argc, argv, "EPISODE=", 0);
    static struct op o[EPISODE];
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = (uint8_t)(1 + (i * 31 + i / 77) % 251);
    printf("# seed %llu, %d steps: model_vfs SEED=%llu STEPS=%d\n", (unsigned long long)seed, steps,
           (unsigned long long)seed, steps);
    for (int done = 0; done < steps && !bad; done += EPISODE) {
        n++;
        rng_state = seed * 1000003 + (uint64_t)n;
        make_ops(o, EPISODE);
        if (only && n != only)
            continue;
        uint64_t own = seed + (uint64_t)n * 5;
        if (survives(own, o, EPISODE, false, false)) {
            printf("ok %d - episode %d%s\n", n, n, own % 2 ? " over an image" : "");
            continue;
        }
        bad = 1;
        int few = shrink(own, o, EPISODE);
        printf("# episode %d fails; %d operations are enough (image %d, files %d):\n", n, few,
               (int)(own % 2), own / 2 % 8 == 0);
        (void)survives(own, o, few, false, true);
        printf("not ok %d - episode %d\n", n, n);
    }
    printf("1..%d\n", n);
    return bad;
}

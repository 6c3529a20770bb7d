/* SPDX-License-Identifier: MIT
 *
 * bench.c - interleaved rounds, medians, the table and the JSON. See bench.h.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double rusage_ns(int who)
{
    struct rusage u;
    (void)getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e9 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e3;
}

static double now_ns(enum bench_clock clock)
{
    struct timespec t;
    if (clock == BENCH_CPU)
        return rusage_ns(RUSAGE_SELF) + rusage_ns(RUSAGE_CHILDREN);
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void bench_init(struct bench *b, const char *name, int rounds)
{
    memset(b, 0, sizeof *b);
    const char *asked = getenv("BENCH_ROUNDS");
    b->name = name;
    b->rounds = asked ? atoi(asked) : rounds;
    if (b->rounds < 1 || b->rounds > BENCH_ROUNDS_MAX)
        b->rounds = rounds;
    (void)mkdir("build", 0777); /* for the table, and for files that a bench works on */
    (void)mkdir("build/bench", 0777);
}

int bench_case(struct bench *b, const char *name, bench_fn *fn, void *arg, long count)
{
    struct bench_sample *c = calloc(1, sizeof *c);
    if (!c || b->case_count == BENCH_CASES_MAX)
        abort();
    c->name = name;
    c->fn = fn;
    c->arg = arg;
    c->count = count;
    b->cases[b->case_count] = c;
    return b->case_count++;
}

void bench_stop(struct bench *b)
{
    b->counted += now_ns(b->clock) - b->started;
}

void bench_start(struct bench *b)
{
    b->started = now_ns(b->clock);
}

static double one_round(struct bench *b, struct bench_sample *c)
{
    b->counted = 0;
    bench_start(b);
    int rc = c->fn(b, c->arg, c->count);
    bench_stop(b);
    if (rc < 0 && !c->failed) {
        fprintf(stderr, "bench %s: %s failed (%d)\n", b->name, c->name, rc);
        c->failed = true;
    }
    return b->counted / (double)c->count;
}

static int by_value(const void *pa, const void *pb)
{
    double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

void bench_run(struct bench *b)
{
    for (int i = 0; i < b->case_count; i++)
        (void)one_round(b, b->cases[i]);
    for (int r = 0; r < b->rounds; r++) {
        if (isatty(2))
            fprintf(stderr, "\rbench %s: round %d of %d ", b->name, r + 1, b->rounds);
        for (int i = 0; i < b->case_count; i++)
            if (!b->cases[i]->failed)
                b->cases[i]->ns[r] = one_round(b, b->cases[i]);
    }
    if (isatty(2))
        fprintf(stderr, "\r%40s\r", "");
    for (int i = 0; i < b->case_count; i++)
        qsort(b->cases[i]->ns, (size_t)b->rounds, sizeof(double), by_value);
}

double bench_quantile_us(const struct bench *b, int id, double q)
{
    const struct bench_sample *c = b->cases[id];
    return c->failed ? 0 : c->ns[(int)(q * (b->rounds - 1) + 0.5)] / 1e3;
}

double bench_us(const struct bench *b, int id)
{
    const struct bench_sample *c = b->cases[id];
    int n = b->rounds;
    if (c->failed)
        return 0;
    return (n % 2 ? c->ns[n / 2] : (c->ns[n / 2 - 1] + c->ns[n / 2]) / 2) / 1e3;
}

bool bench_failed(const struct bench *b, int id)
{
    return b->cases[id]->failed;
}

void bench_row(struct bench *b, const struct bench_row *row)
{
    if (b->row_count == BENCH_ROWS_MAX)
        abort();
    b->rows[b->row_count++] = *row;
}

/* 1: met, 0: missed, -1: the row has no budget. */
static int met(const struct bench_row *r)
{
    double v = r->ratio > 0 ? r->ratio : r->value;
    if (r->budget <= 0)
        return -1;
    return r->at_least ? v >= r->budget : v <= r->budget;
}

static void print_table(const struct bench *b)
{
    static const char *const words[] = {"", "missed", "met"};
    printf("\n%-52s %12s %-8s %12s %9s %9s\n", b->name, "median", "", "yardstick", "ratio",
           "budget");
    for (int i = 0; i < b->row_count; i++) {
        const struct bench_row *r = &b->rows[i];
        printf("%-52s %12.3f %-8s", r->row, r->value, r->unit);
        if (r->yardstick > 0)
            printf(" %12.3f", r->yardstick);
        else
            printf(" %12s", "-");
        if (r->ratio > 0)
            printf(" %9.3f", r->ratio);
        else
            printf(" %9s", "-");
        if (r->budget > 0)
            printf(" %s%7.3g %s", r->at_least ? "≥" : "≤", r->budget, words[met(r) + 1]);
        printf("%s%s%s\n", r->yardstick_name ? "  (beside " : "",
               r->yardstick_name ? r->yardstick_name : "", r->yardstick_name ? ")" : "");
    }
}

static void put_number(FILE *f, const char *key, double v)
{
    if (v > 0)
        fprintf(f, ",\"%s\":%.6g", key, v);
    else
        fprintf(f, ",\"%s\":null", key);
}

/* Row names and units are our own literals: only quotes need care. */
static void put_text(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            fputc('\\', f);
        fputc(*s, f);
    }
    fputc('"', f);
}

static void put_machine(FILE *f)
{
    struct utsname u;
    char text[512];
    (void)uname(&u);
    (void)snprintf(text, sizeof text, "%s %s %s, %ld cores", u.sysname, u.release, u.machine,
                   sysconf(_SC_NPROCESSORS_ONLN));
    put_text(f, text);
}

static int write_json(const struct bench *b)
{
    static const char *const words[] = {"null", "false", "true"};
    char path[256];
    (void)snprintf(path, sizeof path, "build/bench/%s.json", b->name);
    FILE *f = fopen(path, "we");
    if (!f) {
        fprintf(stderr, "bench %s: cannot write %s: %s\n", b->name, path, strerror(errno));
        return 1;
    }
    fprintf(f, "{\"machine\":");
    put_machine(f);
    fprintf(f, ",\"rows\":[");
    for (int i = 0; i < b->row_count; i++) {
        const struct bench_row *r = &b->rows[i];
        fprintf(f, "%s\n{\"row\":", i ? "," : "");
        put_text(f, r->row);
        fprintf(f, ",\"value\":%.6g,\"unit\":", r->value);
        put_text(f, r->unit);
        put_number(f, "yardstick", r->yardstick);
        put_number(f, "ratio", r->ratio);
        put_number(f, "budget", r->budget);
        fprintf(f, ",\"met\":%s}", words[met(r) + 1]);
    }
    fprintf(f, "\n]}\n");
    return fclose(f) != 0;
}

int bench_finish(struct bench *b)
{
    int bad = 0;
    print_table(b);
    bad |= write_json(b);
    for (int i = 0; i < b->case_count; i++) {
        bad |= b->cases[i]->failed;
        free(b->cases[i]);
    }
    b->case_count = 0;
    return bad;
}

static int spawn_and_wait(char **argv)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status = 0;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    int rc = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (rc != 0)
        return -rc;
    if (waitpid(pid, &status, 0) < 0)
        return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

int bench_command(struct bench *b, void *argv, long count)
{
    (void)b;
    for (long i = 0; i < count; i++) {
        int rc = spawn_and_wait(argv);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int bench_spawn_true(struct bench *b, void *arg, long count)
{
    static char path[] = "/bin/true";
    char *argv[] = {path, NULL};
    (void)arg;
    return bench_command(b, argv, count);
}

bool bench_peer(const char *file, char *ret_path, size_t size)
{
    const char *dir = getenv("DOZE_PEERS"), *home = getenv("HOME");
    int n = dir ? snprintf(ret_path, size, "%s/%s", dir, file)
                : snprintf(ret_path, size, "%s/.cache/doze-peers/%s", home ? home : "", file);
    if (n > 0 && (size_t)n < size && access(ret_path, R_OK) == 0)
        return true;
    printf("peer %s is not installed: its rows are left out (make bench-peers)\n", file);
    return false;
}

/* Which mappings are a guest's memory is told by what follows them: the rest of its
 * 4 GiB, reserved and without access. Pieces of one memory lie side by side. Room for
 * translated code is of another size. */
struct bench_memory bench_memory(int pid)
{
    char path[64], line[512], access[8] = "";
    unsigned long start = 0, end = 0;
    double kb = 0, held = 0;
    struct bench_memory m = {0};
    (void)snprintf(path, sizeof path, "/proc/%d/smaps", pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx %7s", &from, &to, access) == 3) {
            bool reserved = strcmp(access, "---p") == 0 && from == end && to - start == 4ul << 30;
            bool more = strcmp(access, "rw-p") == 0 && from == end;
            if (!more) {
                *(reserved ? &m.inside : &m.rest) += held;
                held = 0;
                start = from;
            }
            end = to;
        } else if (sscanf(line, "Private_Dirty: %lf", &kb) == 1) {
            held += kb;
        }
    }
    m.rest += held;
    if (f)
        (void)fclose(f);
    return m;
}

int bench_child(int pid)
{
    char path[64];
    int child = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    FILE *f = fopen(path, "re");
    if (!f || fscanf(f, "%d", &child) != 1)
        child = 0;
    if (f)
        (void)fclose(f);
    return child;
}

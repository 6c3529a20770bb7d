/* SPDX-License-Identifier: MIT
 *
 * bench_linux.c - what Linux programs cost in a sandbox, beside the same on this machine and under
 * gVisor (runsc, its systrap platform; `make bench-peers`).
 *
 * In each of the three places runs one bench/linux/linux_work.c, which does a row's work when it is
 * told to: only the work is timed, no start of a sandbox. Programs are this machine's, except in
 * doze, where they are those of the image DOZE_LINUX_IMAGE (default debian) in DOZE_DATA (default
 * build/data: `make test-images`), and programs that this image does not have those of the image
 * dev (`make test-image-dev`). Place and program that are missing are named and left out. Programs
 * have the same environment everywhere, that of the images.
 *
 * Memory is the proportional set size of all processes that a sandbox consists of, without the
 * command that started it.
 */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    WORD = 4096,
    ARGS = 24,
    PIDS_MAX = 4096,
    ROUNDS = 9,
    START_MS = 240000, /* until a worker has made its files */
    IDLE_MS = 1500,    /* until an engine has given back what it does not need */
};
enum place {
    NATIVE,
    DOZE,
    GVISOR,
    PLACES,
    DEV = PLACES, /* doze with the image dev, for rows that DOZE does not have */
    WORKERS,
    NONE = WORKERS
};
static const char *const place_names[WORKERS] = {"native", "doze", "gVisor", "doze (dev)"};

/* A row of linux_work.c: how often in one round, and what doze may take, in native times. */
static const struct row {
    const char *name, *text;
    long count;
    double budget;
} rows[] = {
    {"compute", "compute, 10^7 steps", 2, 1.02},
    {"bash", "bash -c true", 5, 1.7},
    {"python", "python3 -c pass", 3, 1.4},
    {"imports", "python3, six large imports", 1, 1.25},
    {"git", "git status, 500 files", 2, 3},
    {"grep", "grep -r, 1,400 files", 1, 2.5},
    {"find", "find, 70,000 entries", 1, 5},
    {"tar", "tar czf, 1,400 files", 1, 1.4},
    {"untar", "tar xzf, 5,000 files", 1, 2},
    {"gcc", "gcc hello.c", 1, 0},
    {"node", "node -e 1", 1, 0},
    {"true", "posix_spawn of /bin/true", 10, 0},
    {"fork", "fork, exit, wait", 20, 0},
    {"touch", "mmap, touch 1 MB, munmap", 20, 0},
    {"getpid", "getpid", 2000, 0},
    {"clock", "clock_gettime", 20000, 0},
    {"stat", "stat", 2000, 0},
    {"open", "open, close", 1000, 0},
    {"pread", "pread of 4 KB", 2000, 0},
    {"pwrite", "pwrite of 4 KB", 2000, 0},
    {"write64", "pwrite of 64 KB", 64, 0},
    {"brief", "create, write 4 KB, close, unlink", 500, 0},
    {"pipe", "write to a pipe, read from it", 1000, 0},
};
enum {
    ROWS = sizeof rows / sizeof *rows
};

static char root[WORD], work[WORD], doze[WORD], runsc[WORD];
static const char *image;

/* A program in a place, with pipes to its standard input and from its output. */
struct worker {
    int pid, in;
    FILE *out;
    bool here;
};
static struct worker workers[WORKERS];

/* What a case of the bench does. */
struct task {
    const struct row *row;
    enum place where;
};

/* --- a program in a place ------------------------------------------------------------ */

/* runsc's bundle, which is the root as well: its own files, and this machine's programs. */
static bool write_bundle(const char *dir, const char *const *program)
{
    static const char *const links[] = {"bin", "lib", "lib64", "sbin"};
    char path[2 * WORD], target[16];
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, links[i]);
        (void)snprintf(target, sizeof target, "usr/%s", links[i]);
        if (symlink(target, path) < 0 && errno != EEXIST)
            return false;
    }
    (void)snprintf(path, sizeof path, "%s/config.json", dir);
    FILE *f = fopen(path, "we");
    if (!f)
        return false;
    (void)fprintf(f, "{\"ociVersion\":\"1.0.0\",\"process\":{\"user\":{\"uid\":0,\"gid\":0},"
                     "\"cwd\":\"/\",\"env\":[\"PATH=/usr/bin:/bin\"],\"args\":[");
    for (int i = 0; program[i]; i++)
        (void)fprintf(f, "%s\"%s\"", i ? "," : "", program[i]);
    (void)fprintf(f, "]},\"root\":{\"path\":\".\"},\"mounts\":["
                     "{\"destination\":\"/proc\",\"type\":\"proc\"},"
                     "{\"destination\":\"/usr\",\"type\":\"bind\",\"source\":\"/usr\","
                     "\"options\":[\"ro\"]},"
                     "{\"destination\":\"/etc\",\"type\":\"bind\",\"source\":\"/etc\","
                     "\"options\":[\"ro\"]}],\"linux\":{\"namespaces\":["
                     "{\"type\":\"pid\"},{\"type\":\"mount\"},{\"type\":\"network\"},"
                     "{\"type\":\"ipc\"},{\"type\":\"uts\"}]}}");
    return fclose(f) == 0;
}

static int start(enum place where, const char *const *program, struct worker *w)
{
    static int bundles;
    static char copy[WORD + 32], state[WORD + 16], dir[WORD + 16], id[32];
    const char *argv[ARGS] = {NULL};
    size_t n = 0;
    int in[2], out[2];
    posix_spawn_file_actions_t fa;
    if (where == DOZE || where == DEV) {
        (void)snprintf(copy, sizeof copy, "%s:/linux_work", work);
        const char *const outer[] = {doze,     "run", "-i", "--image", where == DEV ? "dev" : image,
                                     "--copy", copy,  "--"};
        (void)memcpy(argv, outer, sizeof outer);
        n = sizeof outer / sizeof *outer;
    } else if (where == GVISOR) {
        (void)snprintf(state, sizeof state, "--root=%s/state", root);
        (void)snprintf(dir, sizeof dir, "%s/%s", root, place_names[GVISOR]);
        (void)snprintf(id, sizeof id, "bench%d", bundles++);
        const char *const outer[] = {runsc,
                                     state,
                                     "--network=none",
                                     "--ignore-cgroups",
                                     "--overlay2=none",
                                     "--platform=systrap",
                                     "run",
                                     "-bundle",
                                     dir,
                                     id};
        (void)memcpy(argv, outer, sizeof outer);
        if (!write_bundle(dir, program))
            return -errno;
    }
    for (size_t i = 0; where != GVISOR && program[i] && n < ARGS - 1; i++)
        argv[n++] = program[i];
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        return -errno;
    (void)posix_spawn_file_actions_init(&fa);
    (void)posix_spawn_file_actions_adddup2(&fa, in[0], STDIN_FILENO);
    (void)posix_spawn_file_actions_adddup2(&fa, out[1], STDOUT_FILENO);
    w->in = in[1];
    w->out = fdopen(out[0], "r");
    const int rc =
        posix_spawn(&w->pid, argv[0], &fa, NULL, (char *const *)(uintptr_t)argv, environ);
    (void)posix_spawn_file_actions_destroy(&fa);
    (void)close(in[0]);
    (void)close(out[1]);
    return w->out ? -rc : -ENOMEM;
}

/* A line of the program, without its end; "" when there is none in time. */
static const char *line_of(struct worker *w, int timeout_ms)
{
    static char line[WORD];
    struct pollfd p = {.fd = fileno(w->out), .events = POLLIN};
    line[0] = '\0';
    if (poll(&p, 1, timeout_ms) == 1 && fgets(line, sizeof line, w->out))
        line[strcspn(line, "\n")] = '\0';
    return line;
}
static bool says(struct worker *w, const char *question, const char *answer)
{
    return write(w->in, question, strlen(question)) == (ssize_t)strlen(question) &&
           strcmp(line_of(w, -1), answer) == 0;
}
static void stop(struct worker *w)
{
    (void)close(w->in); /* its end of input ends it */
    (void)waitpid(w->pid, NULL, 0);
    (void)fclose(w->out);
}

/* --- time ---------------------------------------------------------------------------- */

static int run_task(struct bench *b, void *arg, long count)
{
    const struct task *t = arg;
    char question[64];
    (void)b;
    (void)snprintf(question, sizeof question, "do %s %ld\n", t->row->name, count);
    return says(&workers[t->where], question, "ok") ? 0 : -1;
}

static bool has(enum place where, const struct row *row)
{
    char question[64];
    (void)snprintf(question, sizeof question, "has %s\n", row->name);
    return workers[where].here && says(&workers[where], question, "yes");
}
/* The place that does a row's work in this column, or NONE. */
static enum place place_of(enum place column, const struct row *row)
{
    if (has(column, row))
        return column;
    if (column == DOZE && has(DEV, row))
        return DEV;
    if (workers[column].here)
        printf("bench: %s: not installed for %s: left out\n", row->text, place_names[column]);
    return NONE;
}

static void time_rows(struct bench *b)
{
    static struct task tasks[PLACES][ROWS];
    int id[PLACES][ROWS];
    for (int r = 0; r < ROWS; r++)
        for (int p = 0; p < PLACES; p++) {
            tasks[p][r] = (struct task){&rows[r], place_of((enum place)p, &rows[r])};
            id[p][r] = tasks[p][r].where != NONE
                           ? bench_case(b, rows[r].text, run_task, &tasks[p][r], rows[r].count)
                           : -1;
        }
    bench_run(b);
    for (int r = 0; r < ROWS; r++) {
        double us[PLACES];
        for (int p = 0; p < PLACES; p++)
            us[p] = id[p][r] < 0 ? 0 : bench_us(b, id[p][r]);
        const char *unit = us[NATIVE] >= 1000 ? "ms" : "µs";
        const double by = us[NATIVE] >= 1000 ? 1000 : 1;
        if (us[DOZE] > 0 && us[NATIVE] > 0)
            bench_row(b, &(struct bench_row){.row = rows[r].text,
                                             .value = us[DOZE] / by,
                                             .unit = unit,
                                             .yardstick = us[NATIVE] / by,
                                             .yardstick_name = place_names[NATIVE],
                                             .ratio = us[DOZE] / us[NATIVE],
                                             .budget = rows[r].budget});
        if (us[DOZE] > 0 && us[GVISOR] > 0)
            bench_row(b, &(struct bench_row){.row = "  beside gVisor",
                                             .value = us[DOZE] / by,
                                             .unit = unit,
                                             .yardstick = us[GVISOR] / by,
                                             .yardstick_name = place_names[GVISOR],
                                             .ratio = us[DOZE] / us[GVISOR],
                                             .budget = 1});
        else if (us[NATIVE] > 0 && us[GVISOR] > 0)
            bench_row(b, &(struct bench_row){.row = rows[r].text,
                                             .value = us[GVISOR] / by,
                                             .unit = unit,
                                             .yardstick = us[NATIVE] / by,
                                             .yardstick_name = "gVisor, native",
                                             .ratio = us[GVISOR] / us[NATIVE]});
        if (us[DOZE] > 0 && strcmp(rows[r].name, "getpid") == 0)
            bench_row(b, &(struct bench_row){
                             .row = "  by itself", .value = us[DOZE], .unit = "µs", .budget = 2.2});
    }
}

/* --- memory -------------------------------------------------------------------------- */

static double pss_kb(int pid)
{
    char path[64], line[256];
    double kb = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Pss: %lf", &kb) == 1)
            break;
    if (f)
        (void)fclose(f);
    return kb;
}

static int parent_of(int pid)
{
    char path[64], text[1024];
    int parent = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    const char *after = f && fgets(text, sizeof text, f) ? strrchr(text, ')') : NULL;
    if (!after || sscanf(after, ") %*c %d", &parent) != 1)
        parent = 0;
    if (f)
        (void)fclose(f);
    return parent;
}

/* Of all that descends from a process; of the process itself only if it has no children. */
static double memory_kb(int top)
{
    static int pids[PIDS_MAX];
    int count = 0;
    double kb = 0;
    DIR *d = opendir("/proc");
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        for (int pid = atoi(e->d_name), p = pid; p > 1; p = parent_of(p))
            if (p == top && pid != top && count < PIDS_MAX)
                pids[count++] = pid;
    if (d)
        (void)closedir(d);
    for (int i = 0; i < count; i++)
        kb += pss_kb(pids[i]);
    return count ? kb : pss_kb(top);
}

static void memory_rows(struct bench *b)
{
    static const char *const python[] = {"/usr/bin/python3", "-c", "print(1, flush=True); input()",
                                         NULL};
    double kb[PLACES] = {0};
    for (int p = 0; p < PLACES; p++) {
        struct worker w = {0};
        if (!workers[p].here)
            continue;
        if (start((enum place)p, python, &w) < 0 || strcmp(line_of(&w, START_MS), "1") != 0) {
            printf("bench: python3 does not start for %s: left out\n", place_names[p]);
            continue;
        }
        (void)poll(NULL, 0, IDLE_MS);
        kb[p] = memory_kb(w.pid);
        (void)!write(w.in, "\n", 1);
        stop(&w);
    }
    for (int p = DOZE; p < PLACES; p++)
        if (kb[p] > 0)
            bench_row(b, &(struct bench_row){.row = p == DOZE ? "an idle python3, PSS"
                                                              : "an idle python3 in gVisor, PSS",
                                             .value = kb[p] / 1024,
                                             .unit = "MB",
                                             .yardstick = kb[NATIVE] / 1024,
                                             .yardstick_name = "native",
                                             .ratio = kb[p] / kb[NATIVE],
                                             .budget = p == DOZE ? 1 + 1024 / kb[NATIVE] : 0});
}

/* --- the three places ----------------------------------------------------------------- */

static bool find_files(void)
{
    const char *named = getenv("DOZE_LINUX_IMAGE");
    const ssize_t n = readlink("/proc/self/exe", doze, sizeof doze - 32);
    char *slash = n > 0 ? strrchr(doze, '/') : NULL;
    if (!slash || !getcwd(root, sizeof root / 2))
        return false;
    (void)memcpy(slash, "/doze", 6);
    (void)snprintf(work, sizeof work, "%.*s/bench/linux_work", (int)(slash - doze), doze);
    (void)strcat(root, "/build/bench/linux.XXXXXX");
    image = named ? named : "debian";
    return mkdtemp(root) != NULL;
}

static void open_place(struct bench *b, enum place where)
{
    static char make[] = "mkdir", parents[] = "-p", copy[] = "cp", inside[] = "/work";
    char dir[WORD + 16], files[WORD + 32], *made[] = {make, parents, files, NULL},
                                           *copied[] = {copy, work, dir, NULL};
    const char *program[] = {work, inside, NULL};
    struct worker *w = &workers[where];
    (void)snprintf(dir, sizeof dir, "%s/%s", root, place_names[where]);
    (void)snprintf(files, sizeof files, "%s/work", dir);
    if (where == GVISOR && !bench_peer("bin/runsc", runsc, sizeof runsc))
        return;
    if (where == NATIVE)
        program[1] = files;
    else
        program[0] = "/linux_work";
    const int rc = where == DOZE || where == DEV ||
                           (bench_command(b, made, 1) == 0 && bench_command(b, copied, 1) == 0)
                       ? start(where, program, w)
                       : -1;
    const char *said = rc < 0 ? strerror(-rc) : line_of(w, START_MS);
    w->here = strcmp(said, "ready") == 0;
    if (!w->here)
        printf("bench: %s is left out: it does not start: %s\n", place_names[where], said);
}

int main(void)
{
    static struct bench b;
    static char rm[] = "/bin/rm", force[] = "-rf";
    char *remove[] = {rm, force, root, NULL};
    (void)signal(SIGPIPE, SIG_IGN); /* of a worker that has ended */
    bench_init(&b, "linux", ROUNDS);
    if (!find_files() || setenv("DOZE_DATA", "build/data", 0) < 0)
        return 1;
    /* A file system that runsc mounts must not outlive a bench that is killed. */
    if (unshare(CLONE_NEWNS) == 0)
        (void)mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    for (int p = 0; p < WORKERS; p++)
        open_place(&b, (enum place)p);
    time_rows(&b);
    memory_rows(&b);
    for (int p = 0; p < WORKERS; p++)
        if (workers[p].pid > 0)
            stop(&workers[p]);
    (void)snprintf(doze, sizeof doze, "%s/state/null-netns", root);
    (void)umount2(doze, MNT_DETACH); /* what runsc leaves mounted */
    (void)bench_command(&b, remove, 1);
    return bench_finish(&b);
}

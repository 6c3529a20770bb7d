/* SPDX-License-Identifier: MIT
 *
 * linux_work.c - what bench_linux.c measures, as one static program that runs on this machine, in a
 * sandbox and under other engines alike. It is a server on its standard input:
 *
 *     has ROW       yes, or no: the row's program is not installed
 *     do ROW COUNT  does the row's work so often, then says ok or failed
 *
 * The argument names a directory for files, which it fills before it says ready.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum {
    COMPUTE_STEPS = 10 * 1000 * 1000,
    TOUCHED = 1 << 20,
    GIT_FILES = 500,
    TREE_FILES = 1400,
    FILES_IN_DIR = 25,
    FILE_LINES = 160,
    MANY_DIRS = 1000, /* of empty files: 70,000 entries with the directories */
    MANY_IN_DIR = 69,
    PACKED_FILES = 5000,
    PACKED_LINES = 40,
};

/* --- calls ------------------------------------------------------------------------- */

static int do_compute(long count)
{
    uint64_t x = 1;
    for (long i = 0; i < count * COMPUTE_STEPS; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    return x == 0; /* never, which the compiler does not know */
}
static int do_getpid(long count)
{
    for (long i = 0; i < count; i++)
        (void)syscall(SYS_getpid);
    return 0;
}
static int do_clock(long count)
{
    struct timespec t;
    for (long i = 0; i < count; i++)
        (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return 0;
}
static int do_stat(long count)
{
    struct stat st;
    int bad = 0;
    for (long i = 0; i < count; i++)
        bad |= stat("tree/0/0", &st);
    return bad;
}
static int do_open(long count)
{
    int bad = 0;
    for (long i = 0; i < count; i++)
        bad |= close(open("tree/0/0", O_RDONLY | O_CLOEXEC));
    return bad;
}
static int do_pread(long count)
{
    char block[4096];
    const int fd = open("tree/0/0", O_RDONLY | O_CLOEXEC);
    int bad = fd < 0;
    for (long i = 0; i < count; i++)
        bad |= pread(fd, block, sizeof block, 0) != sizeof block;
    return bad | close(fd);
}
/* Files that are removed again, so that a commit afterwards has nothing of them to write. */
static int do_write(long count, size_t size, long times)
{
    static char block[65536];
    const int fd = open("written", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    int bad = fd < 0;
    for (long i = 0; i < count; i++)
        bad |= pwrite(fd, block, size, (off_t)((size_t)(i % times) * size)) != (ssize_t)size;
    return bad | close(fd) | unlink("written");
}
static int do_pwrite(long count)
{
    return do_write(count, 4096, 256);
}
static int do_write64(long count)
{
    return do_write(count, 65536, 32);
}
static int do_brief(long count)
{
    char block[4096] = "";
    int bad = 0;
    for (long i = 0; i < count; i++) {
        const int fd = open("brief", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        bad |= fd < 0 || write(fd, block, sizeof block) != sizeof block || close(fd) < 0 ||
               unlink("brief") < 0;
    }
    return bad;
}
static int do_pipe(long count)
{
    char block[64] = "";
    int fd[2], bad = pipe2(fd, O_CLOEXEC);
    for (long i = 0; i < count && !bad; i++)
        bad = write(fd[1], block, sizeof block) != sizeof block ||
              read(fd[0], block, sizeof block) != sizeof block;
    return bad | close(fd[0]) | close(fd[1]);
}
static int do_touch(long count)
{
    for (long i = 0; i < count; i++) {
        char *p = mmap(NULL, TOUCHED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return -1;
        for (size_t at = 0; at < TOUCHED; at += 4096)
            p[at] = 1;
        (void)munmap(p, TOUCHED);
    }
    return 0;
}
static int do_fork(long count)
{
    int status = 0;
    for (long i = 0; i < count; i++) {
        const pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            return -1;
    }
    return 0;
}

/* --- programs ---------------------------------------------------------------------- */

static int spawn(char *const *argv, const char *out)
{
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;
    int status = 0;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_addopen(&actions, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int rc = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (rc != 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

#define PROGRAM(...) ((char *const[]){__VA_ARGS__, NULL})

/* Each time into a new directory. */
static int do_untar(long count)
{
    static int made;
    char path[32];
    int bad = 0;
    for (long i = 0; i < count && !bad; i++) {
        (void)snprintf(path, sizeof path, "out/%d", made++);
        bad = mkdir(path, 0755) |
              spawn(PROGRAM("/bin/tar", "xzf", "packed.tar.gz", "-C", path), "/dev/null");
    }
    return bad;
}

static const struct row {
    const char *name;
    int (*fn)(long count);
    char *const *argv; /* when fn is NULL */
} rows[] = {
    {"compute", do_compute, NULL},
    {"getpid", do_getpid, NULL},
    {"clock", do_clock, NULL},
    {"stat", do_stat, NULL},
    {"open", do_open, NULL},
    {"pread", do_pread, NULL},
    {"pwrite", do_pwrite, NULL},
    {"write64", do_write64, NULL},
    {"brief", do_brief, NULL},
    {"pipe", do_pipe, NULL},
    {"touch", do_touch, NULL},
    {"fork", do_fork, NULL},
    {"true", NULL, PROGRAM("/bin/true")},
    {"bash", NULL, PROGRAM("/bin/bash", "-c", "true")},
    {"python", NULL, PROGRAM("/usr/bin/python3", "-c", "pass")},
    {"imports", NULL,
     PROGRAM("/usr/bin/python3", "-c",
             "import asyncio, decimal, email.message, http.client, json, unittest")},
    {"git", NULL, PROGRAM("/usr/bin/git", "-C", "git", "status")},
    {"grep", NULL, PROGRAM("/bin/grep", "-r", "line 159 of file 7:", "tree")},
    {"find", NULL, PROGRAM("/usr/bin/find", "many", "-name", "none")},
    {"tar", NULL, PROGRAM("/bin/tar", "czf", "tree.tar.gz", "tree")},
    {"untar", do_untar, NULL},
    {"gcc", NULL, PROGRAM("/usr/bin/gcc", "-o", "hello", "hello.c")},
    {"node", NULL, PROGRAM("/usr/bin/node", "-e", "1")},
};

static const struct row *find(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}
static int work(const struct row *r, long count)
{
    if (r->fn)
        return r->fn(count);
    for (long i = 0; i < count; i++)
        if (spawn(r->argv, "/dev/null") < 0)
            return -1;
    return 0;
}

/* --- files ------------------------------------------------------------------------- */

static int fill(const char *top, int files, int lines)
{
    char path[64];
    int bad = mkdir(top, 0755);
    for (int i = 0; i < files; i++) {
        if (i % FILES_IN_DIR == 0) {
            (void)snprintf(path, sizeof path, "%s/%d", top, i / FILES_IN_DIR);
            bad |= mkdir(path, 0755);
        }
        (void)snprintf(path, sizeof path, "%s/%d/%d", top, i / FILES_IN_DIR, i % FILES_IN_DIR);
        FILE *f = fopen(path, "we");
        for (int line = 0; f && line < lines; line++)
            (void)fprintf(f, "line %d of file %d: %x\n", line, i, line * 2654435761u ^ (unsigned)i);
        bad |= !f || fclose(f) != 0;
    }
    return bad;
}
static int fill_many(const char *top)
{
    char path[64];
    int bad = mkdir(top, 0755);
    for (int i = 0; i < MANY_DIRS; i++) {
        (void)snprintf(path, sizeof path, "%s/%d", top, i);
        bad |= mkdir(path, 0755);
        for (int k = 0; k < MANY_IN_DIR; k++) {
            (void)snprintf(path, sizeof path, "%s/%d/file%d", top, i, k);
            bad |= mknod(path, S_IFREG | 0644, 0);
        }
    }
    return bad;
}
static int prepare(void)
{
    FILE *f = fopen("hello.c", "we");
    int bad = !f || fputs("#include <stdio.h>\nint main(void) { puts(\"hello\"); }\n", f) < 0;
    bad |= !f || fclose(f) != 0;
    bad |= fill("tree", TREE_FILES, FILE_LINES) | fill("git", GIT_FILES, FILE_LINES) |
           fill("packed", PACKED_FILES, PACKED_LINES) | fill_many("many") | mkdir("out", 0755) |
           spawn(PROGRAM("/bin/tar", "czf", "packed.tar.gz", "packed"), "/dev/null");
    if (access("/usr/bin/git", X_OK) == 0)
        bad |= spawn(PROGRAM("/usr/bin/git", "init", "-q", "git"), "/dev/null") |
               spawn(PROGRAM("/usr/bin/git", "-C", "git", "add", "."), "/dev/null") |
               spawn(PROGRAM("/usr/bin/git", "-C", "git", "-c", "user.name=n", "-c",
                             "user.email=e@x", "commit", "-qm", "all"),
                     "/dev/null");
    return bad;
}

int main(int argc, char **argv)
{
    static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    static char home[] = "HOME=/root", lang[] = "LANG=C.UTF-8";
    static char *same[] = {path, home, lang, NULL};
    char line[128], name[32], verb[8];
    environ = same;
    long count = 0;
    if (argc != 2 || (mkdir(argv[1], 0755) < 0 && errno != EEXIST) || chdir(argv[1]) < 0 ||
        prepare() != 0) {
        (void)printf("failed to prepare: %s\n", strerror(errno));
        return 1;
    }
    (void)puts("ready");
    (void)fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        const int words = sscanf(line, "%7s %31s %ld", verb, name, &count);
        const struct row *r = words >= 2 ? find(name) : NULL;
        if (r && strcmp(verb, "has") == 0)
            (void)puts(r->fn || access(r->argv[0], X_OK) == 0 ? "yes" : "no");
        else
            (void)puts(r && words == 3 && work(r, count) == 0 ? "ok" : "failed");
        (void)fflush(stdout);
    }
    return 0;
}

/* SPDX-License-Identifier: MIT
 * Groups of processes with limits; skipped where we may not make any. */
#include "tap.h"

#include "base/fd.h"
#include "os/os_cgroup.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool make(const struct dz_os_cgroup_limits *limits, struct dz_os_cgroup *g)
{
    struct dz_err err = {0};
    int rc = dz_os_cgroup_make("doze-test", limits, g, &err);
    if (rc < 0) {
        printf("# SKIP %s\n", err.msg);
        CHECK_INT(g->count, 0);
    }
    return rc == 0;
}

static bool inside(void)
{
    struct dz_buf text = DZ_BUF_INIT(1 << 16);
    bool in = dz_fd_read_file(AT_FDCWD, "/proc/self/cgroup", &text, NULL) == 0 &&
              strstr(text.p, "doze-test.") != NULL;
    dz_buf_release(&text);
    return in;
}

/* How many children there may be beside this process: each waits to be killed. */
static int children(int most)
{
    pid_t all[16];
    int n = 0;
    for (; n < most; n++) {
        all[n] = fork();
        if (all[n] < 0)
            break;
        if (all[n] == 0) {
            (void)pause();
            _exit(0);
        }
    }
    for (int i = 0; i < n; i++) {
        (void)kill(all[i], SIGKILL);
        (void)waitpid(all[i], NULL, 0);
    }
    return n;
}

TEST(who_enters_is_limited_and_who_leaves_is_not)
{
    const struct dz_os_cgroup_limits limits = {.processes = 4};
    struct dz_os_cgroup g = {0};
    if (!make(&limits, &g))
        return;
    CHECK(!inside());
    CHECK_INT(dz_os_cgroup_enter(&g, NULL), 0);
    CHECK(inside());
    CHECK_INT(children(10), 3);
    CHECK_INT(dz_os_cgroup_leave(&g, NULL), 0);
    CHECK(!inside());
    CHECK_INT(children(10), 10);
    char path[DZ_OS_CGROUP_PATH];
    (void)snprintf(path, sizeof path, "%s", g.parts[0].group);
    CHECK_INT(access(path, F_OK), 0);
    dz_os_cgroup_remove(&g);
    CHECK(access(path, F_OK) < 0 && errno == ENOENT);
    CHECK_INT(g.count, 0);
    dz_os_cgroup_remove(&g);
}

TEST(what_a_process_that_is_gone_has_left_is_removed_by_the_next)
{
    const struct dz_os_cgroup_limits limits = {
        .memory_bytes = 64 << 20, .cpu_percent = 50, .processes = 4};
    struct dz_os_cgroup g = {0};
    if (!make(&limits, &g))
        return;
    char left[DZ_OS_CGROUP_PATH];
    int pipe_fds[2];
    CHECK_INT(pipe(pipe_fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct dz_os_cgroup own = {0};
        if (dz_os_cgroup_make("doze-test", &limits, &own, NULL) < 0)
            _exit(1);
        (void)!write(pipe_fds[1], own.parts[0].group, sizeof own.parts[0].group);
        _exit(0); /* without a word */
    }
    CHECK_INT(read(pipe_fds[0], left, sizeof left), sizeof left);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    (void)close(pipe_fds[0]);
    (void)close(pipe_fds[1]);
    CHECK_INT(access(left, F_OK), 0);
    dz_os_cgroup_remove(&g);
    CHECK(make(&limits, &g));
    CHECK(access(left, F_OK) < 0);
    dz_os_cgroup_remove(&g);
}

/* --- a group for each process ------------------------------------------------------------ */

struct child {
    pid_t pid;
    int go; /* a byte: it does its work */
};

/* A child that works when it is told to, and ends with the result. */
static struct child begin(int (*work)(void))
{
    int ends[2];
    CHECK_INT(pipe(ends), 0);
    struct child c = {.pid = fork(), .go = ends[1]};
    if (c.pid == 0) {
        char byte;
        (void)close(ends[1]);
        (void)!read(ends[0], &byte, 1);
        _exit(work());
    }
    (void)close(ends[0]);
    return c;
}

static int end(struct child *c)
{
    int status = -1;
    CHECK_INT(write(c->go, "", 1), 1);
    (void)close(c->go);
    CHECK_INT(waitpid(c->pid, &status, 0), c->pid);
    return status;
}

static int can_fork(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    return pid < 0 ? 0 : 1;
}

static int take_much(void)
{
    static volatile char much[48 << 20];
    for (size_t i = 0; i < sizeof much; i += 1024)
        much[i] = 1;
    return 0;
}

static int nothing(void)
{
    return 7;
}

TEST(each_process_has_limits_of_its_own)
{
    const struct dz_os_cgroup_limits limits = {.each = true};
    struct dz_os_cgroup g = {0};
    struct dz_os_cgroup_each each;
    struct dz_err err = {0};
    uint32_t a = 9, b = 9, again = 9;
    if (!make(&limits, &g))
        return;
    dz_os_each_init(&each, &g);
    struct child forks = begin(can_fork), eats = begin(take_much);
    CHECK_INT(dz_os_each_enter(&each, forks.pid, 1, &a, &err), 0);
    CHECK_INT(dz_os_each_enter(&each, eats.pid, 1, &b, &err), 0);
    CHECK(a != b);
    CHECK_INT(dz_os_each_limit(&each, a, 16 << 20, &err), 0);
    CHECK_INT(dz_os_each_limit(&each, b, 16 << 20, &err), 0);
    CHECK_INT(end(&forks), 0);
    CHECK_INT(dz_os_each_killed(&each, a), 0);
    dz_os_each_leave(&each, a);
    dz_os_each_leave(&each, b); /* its process is still there: nobody else gets this group */
    struct child next = begin(nothing), more = begin(nothing);
    CHECK_INT(dz_os_each_enter(&each, next.pid, 1, &again, &err), 0);
    CHECK_INT(again, a);
    CHECK_INT(dz_os_each_enter(&each, more.pid, 1, &again, &err), 0);
    CHECK(again != a && again != b);
    int status = end(&eats);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK_INT(dz_os_each_killed(&each, b), 16 << 20);
    CHECK_INT(end(&next), 7 << 8);
    CHECK_INT(end(&more), 7 << 8);
    struct child last = begin(nothing);
    CHECK_INT(dz_os_each_enter(&each, last.pid, 1, &again, &err), 0);
    CHECK_INT(again, b); /* unused for the longest time, and empty now */
    CHECK_INT(dz_os_each_killed(&each, b), 0);
    CHECK_INT(end(&last), 7 << 8);
    char path[DZ_OS_CGROUP_PATH];
    (void)snprintf(path, sizeof path, "%s", g.parts[0].group);
    dz_os_each_release(&each);
    dz_os_cgroup_remove(&g);
    CHECK(access(path, F_OK) < 0 && errno == ENOENT);
}

static void file(const char *dir, const char *name, const char *text)
{
    char path[512];
    struct dz_err err = {0};
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    CHECK_INT(dz_fd_replace(AT_FDCWD, path, text, strlen(text), 0600, &err), 0);
}

static bool file_is(const char *dir, const char *name, const char *text)
{
    char path[512];
    struct dz_buf b = DZ_BUF_INIT(4096);
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    bool is = dz_fd_read_file(AT_FDCWD, path, &b, NULL) == 0 && b.len == strlen(text) &&
              memcmp(b.p, text, b.len) == 0;
    dz_buf_release(&b);
    return is;
}

/* Version 2: which value goes into which file. A plain directory takes the kernel's place. */
TEST(version_2_has_its_own_files)
{
    char root[] = "/tmp/doze-cgroup.XXXXXX", dir[300];
    struct dz_os_cgroup g = {.count = 1, .v2 = true};
    struct dz_os_cgroup_each each;
    struct dz_err err = {0};
    uint32_t number = 9;
    CHECK(mkdtemp(root) != NULL);
    (void)snprintf(g.parts[0].group, sizeof g.parts[0].group, "%s", root);
    g.parts[0].memory = g.parts[0].pids = true;
    (void)snprintf(dir, sizeof dir, "%s/0", root);
    CHECK_INT(mkdir(dir, 0700), 0);
    for (const char *const *f =
             (const char *const[]){"pids.max", "memory.max", "memory.swap.max", NULL};
         *f; f++)
        file(dir, *f, "");
    file(dir, "cgroup.procs", "");
    file(dir, "memory.events", "low 0\noom 5\noom_kill 2\noom_group_kill 0\n");
    dz_os_each_init(&each, &g);
    CHECK_INT(dz_os_each_enter(&each, 12345, 1, &number, &err), 0);
    CHECK_INT(number, 0);
    CHECK(file_is(dir, "pids.max", "1") && file_is(dir, "cgroup.procs", "12345"));
    CHECK_INT(dz_os_each_limit(&each, 0, 4096, &err), 0);
    CHECK(file_is(dir, "memory.max", "4096") && file_is(dir, "memory.swap.max", "0"));
    CHECK_INT(dz_os_each_killed(&each, 0), 0);
    file(dir, "memory.events", "low 0\noom 6\noom_kill 3\noom_group_kill 0\n");
    CHECK_INT(dz_os_each_killed(&each, 0), 4096);
    dz_os_each_release(&each);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, root, &err), 0);
}

/* Version 1 limits memory and swap together; a kernel may count no swap at all. */
TEST(version_1_leaves_no_swap_either)
{
    char root[] = "/tmp/doze-cgroup.XXXXXX", dir[300];
    struct dz_os_cgroup g = {.count = 1};
    struct dz_os_cgroup_each each;
    struct dz_err err = {0};
    uint32_t number = 9;
    CHECK(mkdtemp(root) != NULL);
    (void)snprintf(g.parts[0].group, sizeof g.parts[0].group, "%s", root);
    g.parts[0].memory = true;
    (void)snprintf(dir, sizeof dir, "%s/0", root);
    CHECK_INT(mkdir(dir, 0700), 0);
    file(dir, "cgroup.procs", "");
    file(dir, "memory.limit_in_bytes", "");
    dz_os_each_init(&each, &g);
    CHECK_INT(dz_os_each_enter(&each, 12345, 1, &number, &err), 0);
    CHECK_INT(dz_os_each_limit(&each, 0, 4096, &err), 0);
    CHECK(file_is(dir, "memory.limit_in_bytes", "4096"));
    file(dir, "memory.memsw.limit_in_bytes", "");
    CHECK_INT(dz_os_each_limit(&each, 0, 8192, &err), 0);
    CHECK(file_is(dir, "memory.limit_in_bytes", "8192") &&
          file_is(dir, "memory.memsw.limit_in_bytes", "8192"));
    dz_os_each_release(&each);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, root, &err), 0);
}

/* SPDX-License-Identifier: MIT
 * Groups of processes with limits; skipped where we may not make any. */
#include "tap.h"

#include "base/fd.h"
#include "os/os_cgroup.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
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

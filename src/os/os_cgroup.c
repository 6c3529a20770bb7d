/* SPDX-License-Identifier: MIT
 *
 * os_cgroup.c - finding our own group, dividing it, and moving in and out.
 *
 * Of version 1 each controller may have a hierarchy of its own, so a group is up to three
 * directories; of version 2 it is one.
 */
#include "os/os_cgroup.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/num.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PROC_MAX = 1 << 20,
    CPU_PERIOD_US = 100000,
    REMOVE_TRIES = 100,
    REMOVE_STEP_MS = 10,
};

static const char *const controllers[] = {"memory", "cpu", "pids"};
static const char *const v1_files[] = {"memory.limit_in_bytes", "cpu.cfs_quota_us", "pids.max"};
static const char *const v2_files[] = {"memory.max", "cpu.max", "pids.max"};

/* --- where we are ---------------------------------------------------------------------- */

static bool in_list(struct dz_str list, char separator, const char *name)
{
    struct dz_str word;
    while (dz_str_split(&list, separator, &word))
        if (dz_str_eqz(dz_str_trim(word), name))
            return true;
    return false;
}

/* Our path in the hierarchy of a controller; NULL: in that of version 2. */
static struct dz_str own_path(struct dz_str groups, const char *controller)
{
    struct dz_str line, number, names;
    while (dz_str_split(&groups, '\n', &line)) {
        if (!dz_str_split(&line, ':', &number) || !dz_str_split(&line, ':', &names))
            continue;
        if (controller ? in_list(names, ',', controller) : names.n == 0)
            return line;
    }
    return (struct dz_str){0};
}

/* A line of mountinfo: "31 23 0:28 /root /mount/point options - type source super". */
static bool mounted(struct dz_str line, const char *controller, struct dz_str *ret_root,
                    struct dz_str *ret_point)
{
    struct dz_str field, type, source;
    for (int i = 0; dz_str_split(&line, ' ', &field) && !dz_str_eqz(field, "-"); i++) {
        *ret_root = i == 3 ? field : *ret_root;
        *ret_point = i == 4 ? field : *ret_point;
    }
    if (!dz_str_split(&line, ' ', &type) || !dz_str_split(&line, ' ', &source))
        return false;
    return controller ? dz_str_eqz(type, "cgroup") && in_list(line, ',', controller)
                      : dz_str_eqz(type, "cgroup2");
}

/* The directory of our own group. */
static bool find_own(const char *controller, struct dz_str mounts, struct dz_str groups,
                     char out[static DZ_OS_CGROUP_PATH])
{
    struct dz_str line, root = {0}, point = {0}, path = own_path(groups, controller);
    while (dz_str_split(&mounts, '\n', &line)) {
        if (!mounted(line, controller, &root, &point))
            continue;
        if (root.n > 1 && dz_str_starts(path, root)) /* a part of it is mounted here */
            path = dz_str_sub(path, root.n, path.n);
        path = path.n == 1 ? (struct dz_str){0} : path;
        int n = snprintf(out, DZ_OS_CGROUP_PATH, "%.*s%.*s", DZ_STR_ARG(point), (int)path.n,
                         path.n ? path.p : "");
        if (n >= DZ_OS_CGROUP_PATH || access(out, F_OK) < 0)
            (void)snprintf(out, DZ_OS_CGROUP_PATH, "%.*s", DZ_STR_ARG(point));
        return true;
    }
    return false;
}

/* --- files --------------------------------------------------------------------------------- */

DZ_PRINTF(4, 5)
static int put(const char *dir, const char *file, struct dz_err *err, const char *fmt, ...)
{
    char path[DZ_OS_CGROUP_PATH + 64], text[64];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)snprintf(path, sizeof path, "%s/%s", dir, file);
    DZ_AUTO(dz_fd_close) int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, (size_t)n) != n)
        return dz_fail_sys(err, errno, "write %s to %s", text, path);
    return 0;
}

static int make_dir(const char *own, const char *name, char out[static DZ_OS_CGROUP_PATH],
                    struct dz_err *err)
{
    int n = snprintf(out, DZ_OS_CGROUP_PATH, "%s/%s.%d", own, name, (int)getpid());
    if (n >= DZ_OS_CGROUP_PATH)
        return dz_fail(err, DZ_ELIMIT, "make a cgroup in %.100s: its path is too long", own);
    if (mkdir(out, 0755) < 0 && errno != EEXIST)
        return dz_fail_sys(err, errno,
                           "make the cgroup %s (under systemd, give the unit Delegate=yes)", out);
    return 0;
}

/* Groups that a process which is gone has left. One with processes stays. */
static void sweep(const char *own, const char *name)
{
    DIR *d = opendir(own);
    char path[DZ_OS_CGROUP_PATH + 300];
    uint64_t pid;
    for (const struct dirent *e; d && (e = readdir(d));) {
        struct dz_str rest = dz_str(e->d_name);
        if (!dz_str_eat(&rest, dz_str(name)) || !dz_str_eat(&rest, DZ_STR(".")) ||
            dz_num_u64(rest, 2, INT32_MAX, &pid, NULL) < 0 || kill((pid_t)pid, 0) == 0 ||
            errno != ESRCH)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", own, e->d_name);
        (void)rmdir(path);
    }
    if (d)
        (void)closedir(d);
}

/* --- making ---------------------------------------------------------------------------------- */

static uint64_t limit_of(const struct dz_os_cgroup_limits *l, size_t controller)
{
    const uint64_t all[] = {l->memory_bytes, l->cpu_percent, l->processes};
    return all[controller];
}

static int set_limit(const char *group, size_t c, uint64_t limit, bool v2, struct dz_err *err)
{
    unsigned long long n = limit;
    if (c != 1)
        return put(group, (v2 ? v2_files : v1_files)[c], err, "%llu", n);
    n = n * (CPU_PERIOD_US / 100);
    return v2 ? put(group, v2_files[c], err, "%llu %d", n, CPU_PERIOD_US)
              : put(group, v1_files[c], err, "%llu", n);
}

static int make_v1(const char *name, const struct dz_os_cgroup_limits *limits, struct dz_str mounts,
                   struct dz_str groups, struct dz_os_cgroup *g, struct dz_err *err)
{
    int rc = 0;
    for (size_t c = 0; rc == 0 && c < DZ_ARRAY_LEN(controllers); c++) {
        uint64_t limit = limit_of(limits, c);
        char *home = g->parts[g->count].home, *group = g->parts[g->count].group;
        if (!limit)
            continue;
        if (!find_own(controllers[c], mounts, groups, home))
            return dz_fail(err, DZ_EUNSUPPORTED, "this host has no cgroup controller %s",
                           controllers[c]);
        sweep(home, name);
        rc = make_dir(home, name, group, err);
        if (rc < 0)
            return rc;
        g->count++; /* of two in one hierarchy the second finds the group made */
        rc = set_limit(group, c, limit, false, err);
    }
    return rc;
}

static bool v2_has(const char *own, const struct dz_os_cgroup_limits *limits)
{
    DZ_AUTO(dz_buf_release) struct dz_buf list = DZ_BUF_INIT(PROC_MAX);
    char path[DZ_OS_CGROUP_PATH + 32];
    (void)snprintf(path, sizeof path, "%s/cgroup.controllers", own);
    if (dz_fd_read_file(AT_FDCWD, path, &list, NULL) < 0)
        return false;
    for (size_t c = 0; c < DZ_ARRAY_LEN(controllers); c++)
        if (limit_of(limits, c) && !in_list(dz_str_n(list.p, list.len), ' ', controllers[c]))
            return false;
    return true;
}

static int make_v2(const char *own, const char *name, const struct dz_os_cgroup_limits *limits,
                   struct dz_os_cgroup *g, struct dz_err *err)
{
    char home_name[64];
    (void)snprintf(home_name, sizeof home_name, "%.40s-host", name);
    sweep(own, name);
    sweep(own, home_name);
    int rc = make_dir(own, home_name, g->parts[0].home, err);
    if (rc < 0)
        return rc;
    g->parts[0].made_home = true;
    rc = make_dir(own, name, g->parts[0].group, err);
    g->count = 1;
    if (rc == 0)
        rc = put(g->parts[0].home, "cgroup.procs", err, "0");
    for (size_t c = 0; rc == 0 && c < DZ_ARRAY_LEN(controllers); c++) {
        if (!limit_of(limits, c))
            continue;
        rc = put(own, "cgroup.subtree_control", err, "+%s", controllers[c]);
        if (rc == 0)
            rc = set_limit(g->parts[0].group, c, limit_of(limits, c), true, err);
    }
    if (rc < 0)
        (void)put(own, "cgroup.procs", NULL, "0");
    return rc;
}

int dz_os_cgroup_make(const char *name, const struct dz_os_cgroup_limits *limits,
                      struct dz_os_cgroup *ret_group, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf mounts = DZ_BUF_INIT(PROC_MAX);
    DZ_AUTO(dz_buf_release) struct dz_buf groups = DZ_BUF_INIT(PROC_MAX);
    char own[DZ_OS_CGROUP_PATH];
    struct dz_os_cgroup g = {.count = 0};
    int rc = dz_fd_read_file(AT_FDCWD, "/proc/self/mountinfo", &mounts, err);
    if (rc == 0)
        rc = dz_fd_read_file(AT_FDCWD, "/proc/self/cgroup", &groups, err);
    if (rc < 0)
        return rc;
    struct dz_str m = dz_str_n(mounts.p, mounts.len), of = dz_str_n(groups.p, groups.len);
    rc = find_own(NULL, m, of, own) && v2_has(own, limits) ? make_v2(own, name, limits, &g, err)
                                                           : make_v1(name, limits, m, of, &g, err);
    if (rc < 0) {
        dz_os_cgroup_remove(&g);
        return rc;
    }
    *ret_group = g;
    return 0;
}

/* --- moving ---------------------------------------------------------------------------------- */

int dz_os_cgroup_enter(const struct dz_os_cgroup *g, struct dz_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < g->count; i++)
        rc = put(g->parts[i].group, "cgroup.procs", err, "0");
    return rc;
}

int dz_os_cgroup_leave(const struct dz_os_cgroup *g, struct dz_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < g->count; i++) {
        int one = put(g->parts[i].home, "cgroup.procs", rc == 0 ? err : NULL, "0");
        rc = rc < 0 ? rc : one;
    }
    return rc;
}

void dz_os_cgroup_remove(struct dz_os_cgroup *g)
{
    for (size_t i = 0; i < g->count; i++) {
        char up[DZ_OS_CGROUP_PATH];
        for (int n = 0; rmdir(g->parts[i].group) < 0 && errno == EBUSY && n < REMOVE_TRIES; n++)
            (void)poll(NULL, 0, REMOVE_STEP_MS);
        if (!g->parts[i].made_home)
            continue;
        (void)snprintf(up, sizeof up, "%s", g->parts[i].home);
        *strrchr(up, '/') = '\0';
        (void)put(up, "cgroup.procs", NULL, "0"); /* refused while controllers are handed down */
        (void)rmdir(g->parts[i].home);
    }
    *g = (struct dz_os_cgroup){.count = 0};
}

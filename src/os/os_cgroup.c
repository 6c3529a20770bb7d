/* SPDX-License-Identifier: MIT
 *
 * os_cgroup.c - finding our own group, making groups below it, and moving in and out.
 *
 * In version 1 each controller may have a hierarchy of its own, so a group is up to three
 * directories; in version 2 it is one.
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

enum {
    MEMORY,
    CPU,
    PIDS,
};
static const char *const controllers[] = {"memory", "cpu", "pids"};
static const char inner[] = "rest";
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
        if (root.n > 1 && dz_str_starts(path, root)) /* only this part is mounted */
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
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)snprintf(path, sizeof path, "%s/%s", dir, file);
    if (!dz_fd_put(path, text))
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

static bool is_inner(const char *name)
{
    return strcmp(name, inner) == 0 || (name[0] && name[strspn(name, "0123456789")] == '\0');
}

/* Remove a group with the groups below it. A killed process leaves its group a little later, so
 * this tries up to `tries` times, with pauses. */
static void remove_tree(const char *group, int tries)
{
    DIR *d = opendir(group);
    char path[DZ_OS_CGROUP_PATH + 300];
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (!is_inner(e->d_name))
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", group, e->d_name);
        for (; rmdir(path) < 0 && errno == EBUSY && tries > 0; tries--)
            (void)poll(NULL, 0, REMOVE_STEP_MS);
    }
    if (d)
        (void)closedir(d);
    for (; rmdir(group) < 0 && errno == EBUSY && tries > 0; tries--)
        (void)poll(NULL, 0, REMOVE_STEP_MS);
}

/* Remove the groups that an earlier process has left. A group with processes stays. */
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
        remove_tree(path, 0);
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

/* Groups for single processes use the first and the last of these controllers. */
static bool is_needed(const struct dz_os_cgroup_limits *l, size_t controller)
{
    return limit_of(l, controller) || (l->each && controller != CPU);
}

static int set_limit(const char *group, size_t c, uint64_t limit, bool v2, struct dz_err *err)
{
    unsigned long long n = limit;
    if (c != CPU)
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
        struct dz_os_cgroup_part *part = &g->parts[g->count];
        char *home = part->home, *group = part->group;
        if (!is_needed(limits, c))
            continue;
        if (!find_own(controllers[c], mounts, groups, home))
            return dz_fail(err, DZ_EUNSUPPORTED, "the cgroup controller %s is not available",
                           controllers[c]);
        sweep(home, name);
        rc = make_dir(home, name, group, err);
        if (rc < 0)
            return rc;
        g->count++; /* the group exists if two controllers share a hierarchy */
        part->memory = c == MEMORY;
        part->pids = c == PIDS;
        memcpy(part->entry, group, sizeof part->group);
        rc = limit ? set_limit(group, c, limit, false, err) : 0;
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
        if (is_needed(limits, c) && !in_list(dz_str_n(list.p, list.len), ' ', controllers[c]))
            return false;
    return true;
}

/* A group that delegates controllers must not contain processes. */
static int make_entry(const struct dz_os_cgroup_limits *limits, struct dz_os_cgroup_part *part,
                      struct dz_err *err)
{
    memcpy(part->entry, part->group, sizeof part->group);
    if (limits->each) {
        size_t n = strlen(part->entry);
        (void)snprintf(part->entry + n, sizeof part->entry - n, "/%s", inner);
    }
    if (limits->each && mkdir(part->entry, 0755) < 0 && errno != EEXIST)
        return dz_fail_sys(err, errno, "make the cgroup %s", part->entry);
    return 0;
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
    g->v2 = g->parts[0].memory = g->parts[0].pids = true;
    if (rc == 0)
        rc = make_entry(limits, &g->parts[0], err);
    if (rc == 0)
        rc = put(g->parts[0].home, "cgroup.procs", err, "0");
    for (size_t c = 0; rc == 0 && c < DZ_ARRAY_LEN(controllers); c++) {
        if (!is_needed(limits, c))
            continue;
        rc = put(own, "cgroup.subtree_control", err, "+%s", controllers[c]);
        if (rc == 0 && limits->each && c != CPU)
            rc = put(g->parts[0].group, "cgroup.subtree_control", err, "+%s", controllers[c]);
        if (rc == 0 && limit_of(limits, c))
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
        rc = put(g->parts[i].entry, "cgroup.procs", err, "0");
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
        remove_tree(g->parts[i].group, REMOVE_TRIES);
        if (!g->parts[i].made_home)
            continue;
        (void)snprintf(up, sizeof up, "%s", g->parts[i].home);
        *strrchr(up, '/') = '\0';
        (void)put(up, "cgroup.procs", NULL, "0"); /* refused while it delegates controllers */
        (void)rmdir(g->parts[i].home);
    }
    *g = (struct dz_os_cgroup){.count = 0};
}

/* --- a group for each process ------------------------------------------------------------- */

enum {
    EACH_MAX = 1 << 16,
    EACH_TRIES = 8, /* unused groups to check for an empty one */
    EACH_FILE_MAX = 4096,
};

void dz_os_each_init(struct dz_os_cgroup_each *e, const struct dz_os_cgroup *of)
{
    *e = (struct dz_os_cgroup_each){.of = of};
    e->all.max = e->unused.max = EACH_MAX;
}

void dz_os_each_release(struct dz_os_cgroup_each *e)
{
    dz_vec_release(&e->all); /* removing the group above removes these, too */
    dz_vec_release(&e->unused);
    e->of = NULL;
}

static const char *path_of(const struct dz_os_cgroup_part *part, uint32_t number,
                           char out[static DZ_OS_CGROUP_PATH + 16])
{
    (void)snprintf(out, DZ_OS_CGROUP_PATH + 16, "%s/%u", part->group, number);
    return out;
}

static const struct dz_os_cgroup_part *memory_part(const struct dz_os_cgroup_each *e)
{
    size_t i = 0;
    while (!e->of->parts[i].memory)
        i++;
    return &e->of->parts[i];
}

/* The counter is in memory.events of version 2, in memory.oom_control of version 1. */
static uint64_t oom_kills(const struct dz_os_cgroup_each *e, uint32_t number)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(EACH_FILE_MAX);
    char dir[DZ_OS_CGROUP_PATH + 16], path[sizeof dir + 32];
    struct dz_str all, line;
    uint64_t n = 0;
    (void)snprintf(path, sizeof path, "%s/%s", path_of(memory_part(e), number, dir),
                   e->of->v2 ? "memory.events" : "memory.oom_control");
    if (dz_fd_read_file(AT_FDCWD, path, &text, NULL) < 0)
        return 0;
    all = dz_str_n(text.p, text.len);
    while (dz_str_split(&all, '\n', &line))
        if (dz_str_eat(&line, DZ_STR("oom_kill ")) &&
            dz_num_u64(line, 0, UINT64_MAX, &n, NULL) == 0)
            return n;
    return 0;
}

/* A process that was killed or is still ending remains in its group; the group is not used again
 * before it is empty. */
static bool is_empty(const struct dz_os_cgroup_each *e, uint32_t number)
{
    char dir[DZ_OS_CGROUP_PATH + 16], path[sizeof dir + 32], byte;
    (void)snprintf(path, sizeof path, "%s/cgroup.procs", path_of(memory_part(e), number, dir));
    DZ_AUTO(dz_fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, &byte, 1) == 0;
}

static int make_one(struct dz_os_cgroup_each *e, uint32_t *ret_number, struct dz_err *err)
{
    char dir[DZ_OS_CGROUP_PATH + 16];
    uint32_t number = (uint32_t)e->all.n;
    int rc = dz_vec_push(&e->all, ((struct dz_os_cgroup_one){.memory_bytes = 0}));
    if (rc < 0)
        return dz_fail(err, rc, "make a cgroup for a process: %s", dz_err_text(rc));
    for (size_t i = 0; rc == 0 && i < e->of->count; i++) {
        const struct dz_os_cgroup_part *part = &e->of->parts[i];
        if (!part->memory && !part->pids)
            continue;
        if (mkdir(path_of(part, number, dir), 0755) < 0 && errno != EEXIST)
            rc = dz_fail_sys(err, errno, "make the cgroup %s", dir);
    }
    if (rc < 0)
        e->all.n--;
    else
        *ret_number = number;
    return rc;
}

static int take_one(struct dz_os_cgroup_each *e, uint32_t *ret_number, struct dz_err *err)
{
    for (size_t i = 0; i < e->unused.n && i < EACH_TRIES; i++) {
        uint32_t number = e->unused.p[i];
        if (is_empty(e, number)) {
            dz_vec_remove(&e->unused, i);
            *ret_number = number;
            return 0;
        }
    }
    return make_one(e, ret_number, err);
}

static int limit_tasks(struct dz_os_cgroup_each *e, uint32_t number, uint32_t tasks,
                       struct dz_err *err)
{
    char dir[DZ_OS_CGROUP_PATH + 16];
    struct dz_os_cgroup_one *one = &e->all.p[number];
    int rc = 0;
    if (one->tasks == tasks) /* set for its last process */
        return 0;
    for (size_t i = 0; rc == 0 && i < e->of->count; i++)
        if (e->of->parts[i].pids)
            rc = put(path_of(&e->of->parts[i], number, dir), "pids.max", err, "%u", tasks);
    one->tasks = rc == 0 ? tasks : 0;
    return rc;
}

int dz_os_each_enter(struct dz_os_cgroup_each *e, pid_t pid, uint32_t tasks, uint32_t *ret_number,
                     struct dz_err *err)
{
    char dir[DZ_OS_CGROUP_PATH + 16];
    uint32_t number = 0;
    int rc = take_one(e, &number, err);
    if (rc < 0)
        return rc;
    rc = limit_tasks(e, number, tasks, err);
    e->all.p[number].oom_kills = oom_kills(e, number);
    for (size_t i = 0; rc == 0 && i < e->of->count; i++)
        if (e->of->parts[i].memory || e->of->parts[i].pids)
            rc = put(path_of(&e->of->parts[i], number, dir), "cgroup.procs", err, "%d", (int)pid);
    if (rc < 0)
        dz_os_each_leave(e, number);
    else
        *ret_number = number;
    return rc;
}

/* Write a swap limit, whose file is missing if the kernel does not account for swap. */
static int put_swap(const char *dir, const char *name, uint64_t bytes, struct dz_err *err)
{
    struct dz_err e = {0};
    int rc = put(dir, name, &e, "%llu", (unsigned long long)bytes);
    if (rc == 0 || e.sys == ENOENT)
        return 0;
    if (err)
        *err = e;
    return rc;
}

/* Limit memory and forbid swap, because the kernel would swap out a process that exceeds its limit
 * instead of killing it. Version 1 limits the sum of memory and swap, which must not be below the
 * limit on memory, so the order of the two writes matters. */
static int limit_memory(const char *dir, uint64_t bytes, bool v2, struct dz_err *err)
{
    static const char sum[] = "memory.memsw.limit_in_bytes";
    if (!v2)
        (void)put_swap(dir, sum, bytes, NULL); /* fails if this lowers the limit */
    int rc = set_limit(dir, MEMORY, bytes, v2, err);
    if (rc == 0)
        rc = v2 ? put_swap(dir, "memory.swap.max", 0, err) : put_swap(dir, sum, bytes, err);
    return rc;
}

int dz_os_each_limit(struct dz_os_cgroup_each *e, uint32_t number, uint64_t memory_bytes,
                     struct dz_err *err)
{
    char dir[DZ_OS_CGROUP_PATH + 16];
    struct dz_os_cgroup_one *one = &e->all.p[number];
    if (one->memory_bytes == memory_bytes) /* set for its last process; most have the same */
        return 0;
    one->memory_bytes = 0;
    int rc = limit_memory(path_of(memory_part(e), number, dir), memory_bytes, e->of->v2, err);
    if (rc == 0)
        one->memory_bytes = memory_bytes;
    return rc;
}

/* Returns the limit that the kernel has now, because an administrator may have changed it. */
uint64_t dz_os_each_killed(const struct dz_os_cgroup_each *e, uint32_t number)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(EACH_FILE_MAX);
    const struct dz_os_cgroup_one *one = &e->all.p[number];
    char dir[DZ_OS_CGROUP_PATH + 16], path[sizeof dir + 32];
    uint64_t limit = one->memory_bytes;
    if (oom_kills(e, number) <= one->oom_kills)
        return 0;
    (void)snprintf(path, sizeof path, "%s/%s", path_of(memory_part(e), number, dir),
                   (e->of->v2 ? v2_files : v1_files)[MEMORY]);
    if (dz_fd_read_file(AT_FDCWD, path, &text, NULL) == 0)
        (void)!dz_num_u64(dz_str_trim(dz_str_n(text.p, text.len)), 1, UINT64_MAX, &limit, NULL);
    return limit;
}

void dz_os_each_leave(struct dz_os_cgroup_each *e, uint32_t number)
{
    (void)dz_vec_push(&e->unused, number); /* on failure the group is never reused */
}

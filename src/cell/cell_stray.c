/* SPDX-License-Identifier: MIT
 *
 * cell_stray.c - see cell_stray.h.
 *
 * Children are listed by /proc/self/task/TID/children: those of each thread, zombies too, by one
 * read for hundreds. A kernel without it (CONFIG_PROC_CHILDREN) has no strays that are found.
 */
#include "cell/cell_stray.h"

#include "base/clock.h"
#include "base/fd.h"
#include "cell/cell_reap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

int dz_strays_init(struct dz_strays *s, int epoll, int64_t every_ms, struct dz_err *err)
{
    struct epoll_event ev = {.events = EPOLLIN};
    const struct timespec every = {every_ms / 1000, every_ms % 1000 * DZ_NS_PER_MS};
    const struct itimerspec t = {.it_interval = every, .it_value = every};
    *s = (struct dz_strays){.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
    s->before.max = s->now.max = DZ_STRAYS_MAX;
    if (s->timer < 0 || timerfd_settime(s->timer, 0, &t, NULL) < 0 ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, s->timer, &ev) < 0)
        return dz_fail_sys(err, errno, "make the timer that looks for unknown children");
    return 0;
}

void dz_strays_session(struct dz_strays *s, pid_t leader)
{
    s->sessions[s->next_session++ % DZ_STRAY_SESSIONS] = leader;
}

static bool is_unclaimed(const struct dz_strays *s, pid_t pid)
{
    if (dz_reap_is_claimed(pid))
        return false;
    pid_t session = getsid(pid);
    for (size_t i = 0; session > 0 && i < DZ_STRAY_SESSIONS; i++)
        if (s->sessions[i] == session)
            return true;
    return false;
}

/* Numbers, each with a space behind it. */
static void add_children(struct dz_strays *s, int fd)
{
    char piece[4096];
    pid_t pid = 0;
    for (ssize_t n; (n = read(fd, piece, sizeof piece)) > 0;)
        for (ssize_t i = 0; i < n; i++) {
            if (piece[i] >= '0' && piece[i] <= '9') {
                pid = pid * 10 + (piece[i] - '0');
                continue;
            }
            if (pid > 0 && is_unclaimed(s, pid))
                (void)dz_vec_push(&s->now, pid); /* without memory for it it is found next time */
            pid = 0;
        }
}

static int by_number(const void *a, const void *b)
{
    const pid_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void look(struct dz_strays *s)
{
    DIR *tasks = opendir("/proc/self/task");
    char path[sizeof "/proc/self/task//children" + NAME_MAX];
    dz_vec_reset(&s->now);
    for (const struct dirent *e; tasks && (e = readdir(tasks));) {
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/children", e->d_name);
        DZ_AUTO(dz_fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            add_children(s, fd);
    }
    if (tasks)
        (void)closedir(tasks);
    if (s->now.n > 1)
        qsort(s->now.p, s->now.n, sizeof s->now.p[0], by_number);
}

void dz_strays_run(struct dz_strays *s, void (*end)(void *arg, pid_t pid), void *arg)
{
    uint64_t ticks;
    if (read(s->timer, &ticks, sizeof ticks) <= 0)
        return;
    look(s);
    for (size_t i = 0, k = 0; i < s->now.n; i++) {
        while (k < s->before.n && s->before.p[k] < s->now.p[i])
            k++;
        if (k < s->before.n && s->before.p[k] == s->now.p[i])
            end(arg, s->now.p[i]);
    }
    dz_vec_reset(&s->before);
    (void)dz_vec_append(&s->before, s->now.p, s->now.n);
}

void dz_strays_release(struct dz_strays *s)
{
    dz_fd_close(&s->timer);
    dz_vec_release(&s->before);
    dz_vec_release(&s->now);
}

static bool namespace_of(const char *process, struct stat *ret)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%s/ns/user", process);
    return stat(path, ret) == 0;
}

bool dz_strays_same_kind(pid_t a, pid_t b)
{
    char one[16], two[16];
    struct stat x, y, ours;
    (void)snprintf(one, sizeof one, "%d", (int)a);
    (void)snprintf(two, sizeof two, "%d", (int)b);
    return namespace_of(one, &x) && namespace_of(two, &y) && namespace_of("self", &ours) &&
           x.st_ino == y.st_ino && x.st_dev == y.st_dev && x.st_ino != ours.st_ino;
}

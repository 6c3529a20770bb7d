/* SPDX-License-Identifier: MIT
 *
 * cell_stray.c - see cell_stray.h.
 *
 * Children are listed by /proc/self/task/TID/children: those of each thread, zombies too, by one
 * read for hundreds. On a kernel without that file (CONFIG_PROC_CHILDREN) strays are not found.
 */
#include "cell/cell_stray.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/num.h"
#include "base/str.h"
#include "cell/cell_reap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    NEXT_MS = 1,          /* time until the next turn while there is something to do */
    LINGERING_MS = 100,   /* the same while killed children are still to be reaped */
    KILLED_MAX = 1 << 22, /* the kernel's limit of pids */
    STAT_MAX = 1024,      /* bytes of /proc/PID/stat */
    STAT_START = 22 - 2,  /* its field with the start time of the process, counted from the field
                             behind the name */
};

static void ring_in(const struct dz_strays *s, int64_t ms)
{
    const struct itimerspec t = {.it_value = {ms / 1000, ms % 1000 * DZ_NS_PER_MS}};
    (void)timerfd_settime(s->timer, 0, &t, NULL);
}

int dz_strays_init(struct dz_strays *s, int epoll, int64_t every_ms, struct dz_err *err)
{
    struct epoll_event ev = {.events = EPOLLIN};
    *s = (struct dz_strays){.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
                            .every_ms = every_ms};
    s->listed.max = DZ_STRAYS_LISTED;
    s->killed.max = KILLED_MAX;
    if (s->timer < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, s->timer, &ev) < 0)
        return dz_fail_sys(err, errno, "create the timer that looks for unknown children");
    ring_in(s, every_ms);
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

/* --- looking ----------------------------------------------------------------------------- */

/* Parse numbers, each followed by a space. False: the list is full. */
static bool add_children(struct dz_strays *s, int fd)
{
    char piece[4096];
    pid_t pid = 0;
    for (ssize_t n; (n = read(fd, piece, sizeof piece)) > 0;)
        for (ssize_t i = 0; i < n; i++) {
            if (piece[i] >= '0' && piece[i] <= '9') {
                pid = pid * 10 + (piece[i] - '0');
                continue;
            }
            if (pid > 0 && is_unclaimed(s, pid) && dz_vec_push(&s->listed, pid) < 0)
                return false; /* the list is full, or out of memory: the next look finds the rest */
            pid = 0;
        }
    return true;
}

static void look(struct dz_strays *s)
{
    DIR *tasks = opendir("/proc/self/task");
    char path[sizeof "/proc/self/task//children" + NAME_MAX];
    bool room = true;
    dz_vec_reset(&s->listed);
    s->at = 0;
    s->again = false;
    for (const struct dirent *e; room && tasks && (e = readdir(tasks));) {
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/children", e->d_name);
        DZ_AUTO(dz_fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            room = add_children(s, fd);
    }
    if (tasks)
        (void)closedir(tasks);
}

/* When the process was born: the end of that clock tick, on the boot clock. INT64_MAX: unknown. */
static int64_t born_ns(pid_t pid)
{
    char path[64], text[STAT_MAX];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    DZ_AUTO(dz_fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[n < 0 ? 0 : n] = '\0';
    const char *at = strrchr(text, ')'); /* the name in the second field may have any character */
    for (int i = 0; at && i < STAT_START; i++)
        at = strchr(at + 1, ' ');
    uint64_t ticks = 0;
    if (!at || dz_num_u64(dz_str_n(at + 1, strcspn(at + 1, " ")), 0, INT64_MAX, &ticks, NULL) < 0)
        return INT64_MAX;
    const int64_t tick_ns = DZ_NS_PER_S / sysconf(_SC_CLK_TCK);
    return ((int64_t)ticks + 1) * tick_ns;
}

/* --- ending ------------------------------------------------------------------------------ */

/* A listed pid may belong to another process by now, which is younger. */
static bool is_stray(const struct dz_strays *s, pid_t pid)
{
    return is_unclaimed(s, pid) && born_ns(pid) <= s->before_ns && dz_reap_claim(pid);
}

static void end_some(struct dz_strays *s, dz_strays_fn *found, void *arg)
{
    pid_t strays[DZ_STRAYS_AT_ONCE];
    size_t n = 0;
    if (dz_vec_reserve(&s->killed, DZ_STRAYS_AT_ONCE) < 0) {
        s->killed.err = 0; /* without room to remember them they are left for the next look */
        s->at = s->listed.n;
    }
    for (size_t i = 0; i < DZ_STRAYS_AT_ONCE && s->at < s->listed.n; i++, s->at++)
        if (is_stray(s, s->listed.p[s->at]))
            strays[n++] = s->listed.p[s->at];
    if (n == 0)
        return;
    s->again = true;
    found(arg, strays, n);
    for (size_t i = 0; i < n; i++)
        (void)kill(strays[i], SIGKILL);
    (void)dz_vec_append(&s->killed, strays, n);
}

/* Reap killed children. They die a moment after the signal; trying to reap them takes less time
 * than waiting on a descriptor for each. False: none of those that were tried has ended. */
static bool reap_some(struct dz_strays *s)
{
    size_t before = s->killed.n;
    for (int tries = 0; tries < DZ_STRAYS_AT_ONCE && s->killed.n > 0; tries++) {
        if (s->next_killed >= s->killed.n)
            s->next_killed = 0;
        if (dz_reap_ended(s->killed.p[s->next_killed]))
            s->killed.p[s->next_killed] = dz_vec_pop(&s->killed);
        else
            s->next_killed++;
    }
    return s->killed.n < before;
}

void dz_strays_run(struct dz_strays *s, dz_strays_fn *found, void *arg)
{
    uint64_t ticks;
    if (read(s->timer, &ticks, sizeof ticks) <= 0)
        return;
    const int64_t now = dz_clock_boot_ns(), every_ns = s->every_ms * DZ_NS_PER_MS;
    bool reaped = reap_some(s);
    if (s->at == s->listed.n && s->again) {
        look(s);
    } else if (s->at == s->listed.n && s->looked_ns + every_ns <= now) {
        s->before_ns = s->looked_ns;
        s->looked_ns = now;
        look(s);
    }
    end_some(s, found, arg);
    int64_t next_ms = (s->looked_ns + every_ns - now) / DZ_NS_PER_MS + 1;
    if (s->at < s->listed.n || s->again || (reaped && s->killed.n > 0))
        next_ms = NEXT_MS;
    else if (s->killed.n > 0 && next_ms > LINGERING_MS)
        next_ms = LINGERING_MS;
    ring_in(s, next_ms > 0 ? next_ms : NEXT_MS);
}

void dz_strays_release(struct dz_strays *s)
{
    dz_fd_close(&s->timer);
    for (size_t i = 0; i < s->killed.n; i++)
        (void)dz_reap_or_kill(s->killed.p[i], 0);
    dz_vec_release(&s->killed);
    dz_vec_release(&s->listed);
}

struct dz_stray_home dz_stray_home(pid_t pid)
{
    char path[64];
    struct stat its, ours;
    (void)snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    if (stat(path, &its) < 0 || stat("/proc/self/ns/user", &ours) < 0 ||
        (its.st_ino == ours.st_ino && its.st_dev == ours.st_dev))
        return (struct dz_stray_home){.ino = 0};
    return (struct dz_stray_home){.dev = its.st_dev, .ino = its.st_ino};
}

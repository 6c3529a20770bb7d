/* SPDX-License-Identifier: MIT
 *
 * cell_pool.c - the host's side of zygotes: their forks, waiting cells, and deaths.
 *
 *   pool --- root zygote: forks the blank zygote, anew when that dies
 *        |-- blank zygote ---- cells that wait
 *        `-- zygote of an image (up to opts.images) ---- cells that wait
 *
 * A cell is a socket pair whose other end was sent to a zygote with the request to
 * fork: it can be written to at once, before the child exists. The child's first packet on that
 * socket says which process it is (dz_cell_learn()).
 *
 * A zygote's socket takes a few hundred requests. More wait here, in order, and are sent when the
 * socket has room.
 *
 * Invariants: 1. a zygote's forks are answered in order, so `forks` is a queue; 2. pids are
 * accepted only from the root zygote and the kernel, and each is claimed once (dz_reap_claim());
 * 3. nothing here waits for a child to end: a reaper does that. assert_forks() checks 1,
 * dz_reap_claim() 2; nothing checks 3.
 */
#include "cell/cell_pool.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "cell/cell_host.h"
#include "cell/cell_rate.h"
#include "cell/cell_stray.h"
#include "cell/cell_users.h"
#include "cell/cell_zygote.h"
#include "kernel/kernel.h"
#include "linux/linux_run.h"
#include "os/os_cgroup.h"
#include "os/os_jail.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    FORKS_MAX = 4096, /* requests to one zygote that were not answered yet */
    AT_ONCE = 2,      /* cells forked in advance at the same time; few, because others may need the
                         processor */
    RENEW_MIN = 16,   /* after this many new functions or pages, waiting cells are replaced */
    REPORTED_BITS = 16,  /* bits of the hash by which a repeated report is recognised */
    WARM_MAX = 1024,     /* reports of functions that one zygote is sent */
    USED_BUCKETS = 1024, /* sandboxes whose keyed hashes are equal share a bucket */
    HEAR_TURN = 256, /* frames of one zygote that are handled before other descriptors get a turn */
    LAST_STDERR_TURNS = 20,
    LAST_STDERR_MS = 50,
    ZYGOTE_END_MS = 1000, /* how long a zygote may take to end once its socket is closed */
    FORKER_STRAYS = 16,   /* a zygote with this many unknown children is ended */
    HOMELESS_STRAYS =
        64, /* with this many unknown children of an unknown zygote, all zygotes are ended */
    STRAYS_FORGOTTEN_LOOKS =
        6, /* after this many looks without a stray, earlier strays no longer count */
};

#define FAILURE_NS (2 * DZ_NS_PER_S)

/* How much a zygote may write to standard error, in packets and bytes: an honest one writes
 * nothing, or the report of a sanitizer. And how often the cells of a sandbox together may report
 * what they use, because a report costs the zygote of their image time; each cell reports ten times
 * at most. */
static const struct dz_rate_of
    lines_of_zygote = {.burst = 4096, .more = 16, .every_ns = DZ_NS_PER_S},
    bytes_of_zygote = {.burst = 1 << 20, .more = 1 << 12, .every_ns = DZ_NS_PER_S},
    used_of_sandbox = {.burst = 32, .more = 1, .every_ns = 10 * DZ_NS_PER_S};

struct dz_pool_fork {
    struct dz_list link;
    struct zygote *by;
    int end;               /* the child's end of the socket, until the request is sent; then -1 */
    int gate;              /* the child's end of its gate; -1: it has none */
    struct dz_cell *cell;  /* the cell that is being forked; NULL: it was freed meanwhile, */
    struct zygote *zygote; /* or the child is this zygote; else NULL */
    uint32_t user;         /* the user of a zygote that was freed meanwhile */
};

struct zygote {
    struct dz_list link; /* in pool.zygotes, the one that was used last first */
    struct dz_cell_pool *pool;
    int fd;
    pid_t pid;
    bool ready;
    bool native; /* its cells run native Linux programs */
    bool silent; /* it sent too much standard error, which is ignored from then on */
    struct dz_rate lines, stderr_bytes;
    char sha256[65];           /* "": blank */
    struct dz_err failed;      /* why it could not get ready */
    uint32_t user;             /* its user, one of cell_users.h; DZ_USER_NONE: ours */
    int64_t since_ns;          /* on the boot clock */
    struct dz_stray_home home; /* its user namespace, once known */
    size_t strays;             /* unknown children that it forked lately */
    struct dz_list forks;
    size_t fork_count;
    size_t unsent; /* how many at the end of `forks` wait for room in the socket */
    struct dz_cell *waiting[DZ_POOL_AHEAD_MAX];
    size_t waiting_count; /* the oldest first */
    size_t stale; /* how many of `waiting` were forked before the zygote had most of the functions
                     and pages that it has now */
    int warmed;
    uint32_t news; /* functions and pages that it has and its waiting cells do not */
    uint8_t
        reported[(1 << REPORTED_BITS) / 8]; /* the reports that it was sent: a bit for each hash */
    struct dz_cell_stderr text;
};

struct failure {
    char sha256[65];
    int64_t until_ns;
};

struct dz_cell_pool {
    struct dz_cell_pool_opts opts;
    int epoll;
    int guards[2]; /* a pipe that is open while we live; its other end is for the root zygotes'
                      guards */
    struct zygote *root, *blank;
    struct dz_list zygotes; /* the zygotes of images */
    size_t image_count;
    struct dz_reaper reaper; /* waits for cells and zygotes that are to end */
    struct dz_strays strays;
    size_t homeless_strays; /* unknown children found recently whose zygote cannot be determined */
    int64_t stray_ns;       /* when the last of these was found, on the boot clock */
    struct failure failures[8];
    unsigned next_failure;
    uint64_t used_key[2];
    struct dz_rate used[USED_BUCKETS]; /* reports of sandboxes, by the hash of their labels */
    struct dz_err refused; /* why the last zygote without an image could not get ready */
    int64_t refused_until_ns;
    struct dz_cell_pool_stats stats;
    uint8_t payload[DZ_CELL_FRAME_MAX + 1];
};

/* --- zygotes ------------------------------------------------------------------------------ */

static struct zygote *new_zygote(struct dz_cell_pool *p, int fd, enum dz_cell_stderr_of words,
                                 const char *sha256)
{
    struct zygote *z = dz_zalloc(sizeof *z);
    if (!z)
        return NULL;
    dz_cell_stderr_init(&z->text, words, sha256);
    struct epoll_event ev = {.events = EPOLLIN};
    z->pool = p;
    z->fd = fd;
    z->since_ns = dz_clock_boot_ns();
    (void)snprintf(z->sha256, sizeof z->sha256, "%s", sha256);
    dz_list_init(&z->link);
    dz_list_init(&z->forks);
    (void)epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &ev);
    return z;
}

static void forget_forks(struct zygote *z)
{
    DZ_LIST_FOREACH(struct dz_pool_fork, f, &z->forks, link) {
        dz_list_remove(&f->link);
        if (f->cell) {
            f->cell->unborn = z->failed;
            f->cell->fork = NULL;
        }
        if (f->zygote)
            f->zygote->pid = 0;
        dz_fd_close(&f->end);
        dz_fd_close(&f->gate);
        dz_cell_user_release(f->user);
        dz_free(f);
    }
}

static bool hear(struct zygote *z);

/* Receive the answers of a root zygote that are still in flight, because they have pids. This may
 * block, because the pool is ending; the wait is limited, because the root zygote may hang. */
static void read_last_stderr(struct zygote *z)
{
    (void)shutdown(z->fd, SHUT_WR);
    for (int i = 0; i < LAST_STDERR_TURNS && !dz_list_empty(&z->forks) && hear(z); i++) {
        struct pollfd p = {.fd = z->fd, .events = POLLIN};
        (void)poll(&p, 1, LAST_STDERR_MS);
    }
}

/* End a zygote that has died or must not continue. Its cells keep running. */
static void end_zygote(struct zygote *z)
{
    struct dz_cell_pool *p = z->pool;
    for (size_t i = 0; i < z->waiting_count; i++)
        dz_cell_free(z->waiting[i]);
    forget_forks(z);
    /* its pid may not have been reported yet */
    struct zygote *const makers[] = {p->root, p->blank};
    for (size_t i = 0; i < DZ_ARRAY_LEN(makers); i++)
        if (makers[i] && makers[i] != z)
            DZ_LIST_FOREACH(struct dz_pool_fork, f, &makers[i]->forks, link)
                if (f->zygote == z) {
                    f->zygote = NULL;
                    f->user = z->user;
                    z->user = DZ_USER_NONE;
                }
    dz_fd_close(&z->fd);
    dz_cell_stderr_end(&z->text);
    if (z->pid > 0) /* the zygote exits when its socket is closed */
        dz_reaper_add(&p->reaper, z->pid, z->user, ZYGOTE_END_MS);
    else
        dz_cell_user_release(z->user);
    if (!dz_list_empty(&z->link)) {
        dz_list_remove(&z->link);
        p->image_count--;
    }
    dz_free(z);
}

/* Fork the root zygote, from which the other zygotes come. */
static int fork_root(struct dz_cell_pool *p, struct dz_err *err)
{
    int ends[2], calls[2];
    int rc = dz_frame_pair(ends, err);
    if (rc < 0)
        return rc;
    rc = dz_frame_pair(calls, err);
    if (rc < 0) {
        (void)close(ends[0]);
        (void)close(ends[1]);
        return rc;
    }
    pid_t pid = fork();
    if (pid == 0)
        dz_zygote_begin(ends[1], calls[1], p->guards[0]);
    (void)close(ends[1]);
    (void)close(calls[1]);
    dz_call_set_root(calls[0]);
    p->root = pid > 0 ? new_zygote(p, ends[0], DZ_STDERR_ROOT, "") : NULL;
    if (!p->root) {
        (void)close(ends[0]);
        if (pid > 0)
            dz_reaper_add(&p->reaper, pid, DZ_USER_NONE, 0);
        return dz_fail(err, DZ_ENOMEM, "fork the root zygote: out of memory or processes");
    }
    p->root->pid = dz_reap_claim(pid) ? pid : 0;
    dz_strays_session(&p->strays, pid);
    return 0;
}

/* An image whose zygote died gets no new one for a while. */
static void note_failure(struct dz_cell_pool *p, const char *sha256)
{
    struct failure *f = &p->failures[p->next_failure++ % DZ_ARRAY_LEN(p->failures)];
    (void)snprintf(f->sha256, sizeof f->sha256, "%s", sha256);
    f->until_ns = dz_clock_boot_ns() + FAILURE_NS;
}

static bool failed_lately(const struct dz_cell_pool *p, const char *sha256)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(p->failures); i++)
        if (strcmp(p->failures[i].sha256, sha256) == 0 &&
            dz_clock_boot_ns() < p->failures[i].until_ns)
            return true;
    return false;
}

static struct zygote *find(const struct dz_cell_pool *p, const char *sha256)
{
    DZ_LIST_FOREACH(struct zygote, z, &p->zygotes, link)
        if (strcmp(z->sha256, sha256) == 0)
            return z;
    return NULL;
}

/* --- asking for children -------------------------------------------------------------------- */

static void assert_forks(const struct zygote *z)
{
    assert(z->fork_count <= FORKS_MAX && z->unsent <= z->fork_count);    /* invariant 1 */
    assert(!DZ_CHECK_DEEP || z->fork_count == dz_list_count(&z->forks)); /* invariant 1 */
}

static struct dz_pool_fork *expect(struct zygote *z)
{
    struct dz_pool_fork *f = z->fork_count < FORKS_MAX ? dz_zalloc(sizeof *f) : NULL;
    if (!f)
        return NULL;
    dz_list_init(&f->link);
    f->by = z;
    f->end = f->gate = -1;
    dz_list_push_back(&z->forks, &f->link);
    z->fork_count++;
    assert_forks(z);
    return f;
}

static void unexpect(struct zygote *z, struct dz_pool_fork *f)
{
    if (!f)
        return;
    dz_list_remove(&f->link);
    z->fork_count--;
    z->unsent -= f->end >= 0;
    dz_fd_close(&f->end);
    dz_fd_close(&f->gate);
    dz_free(f);
}

/* While requests wait for the zygote's socket, poll that for room. */
static void watch_room(struct zygote *z)
{
    struct epoll_event ev = {.events = EPOLLIN | (z->unsent ? EPOLLOUT : 0)};
    (void)epoll_ctl(z->pool->epoll, EPOLL_CTL_MOD, z->fd, &ev);
}

/* As dz_frame_send_fds. */
static int send_fork(struct zygote *z, int end, int gate, struct dz_err *err)
{
    const struct dz_frame f = {.type = DZ_FRAME_ZYGOTE_FORK};
    const int fds[] = {end, gate};
    return dz_frame_send_fds(z->fd, &f, NULL, fds, gate < 0 ? 1 : 2, err);
}

/* Send the requests that wait, in order, as far as the socket takes them. */
static void send_unsent(struct zygote *z)
{
    if (z->unsent == 0)
        return;
    DZ_LIST_FOREACH(struct dz_pool_fork, f, &z->forks, link) {
        if (f->end < 0)
            continue;
        if (send_fork(z, f->end, f->gate, NULL) <= 0)
            break; /* the socket is full, or the zygote is dead, which hear() finds out */
        dz_fd_close(&f->end);
        dz_fd_close(&f->gate);
        z->unsent--;
    }
    watch_room(z);
}

/* Send the request of `fork`, the last of the queue, now or when there is room. Takes `end`, and
 * fork->gate is closed once it is sent. */
static int request_fork(struct zygote *z, struct dz_pool_fork *fork, int end, struct dz_err *err)
{
    int rc = z->unsent > 0 ? 0 : send_fork(z, end, fork->gate, err);
    if (rc != 0) {
        (void)close(end);
        dz_fd_close(&fork->gate);
        return rc < 0 ? rc : 0;
    }
    fork->end = end;
    if (z->unsent++ == 0)
        watch_room(z);
    return 0;
}

/* A cell with native programs that gets a cgroup waits at its gate until it is in there. So its
 * first packet must make the pool's descriptor readable. */
static int make_gate(const struct zygote *z, struct dz_cell *c, struct dz_pool_fork *fork,
                     struct dz_err *err)
{
    struct epoll_event ev = {.events = EPOLLIN};
    int ends[2];
    if (!z->native || !z->pool->opts.each)
        return 0;
    int rc = dz_frame_pair(ends, err);
    if (rc < 0)
        return rc;
    c->gate = ends[0];
    fork->gate = ends[1];
    if (epoll_ctl(z->pool->epoll, EPOLL_CTL_ADD, c->fd, &ev) < 0)
        return dz_fail_sys(err, errno, "start a cell: poll its socket");
    return 0;
}

void dz_pool_gate_close(struct dz_cell *c)
{
    if (c->gate < 0)
        return;
    if (c->home)
        (void)epoll_ctl(c->home->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    dz_fd_close(&c->gate);
}

/* Request a cell, whose process is forked later. NULL: not possible now. */
static struct dz_cell *ask_for_cell(struct zygote *z, struct dz_err *err)
{
    int ends[2];
    if (dz_frame_pair(ends, err) < 0)
        return NULL;
    dz_frame_ask_sender(ends[0], true);
    struct dz_cell *c = dz_cell_adopt(ends[0]);
    struct dz_pool_fork *fork = c ? expect(z) : NULL;
    if (fork) {
        int rc = make_gate(z, c, fork, err);
        if (rc < 0)
            (void)close(ends[1]);
        if (rc == 0 && request_fork(z, fork, ends[1], err) == 0) {
            fork->cell = c;
            c->reaper = &z->pool->reaper;
            c->home = z->pool;
            c->fork = fork;
            c->helper = z->user;
            dz_cell_user_hold(z->user);
            return c;
        }
        unexpect(z, fork);
    } else {
        (void)close(ends[1]);
        if (c)
            (void)dz_fail(err, DZ_EBUSY, "start a cell: %d starts wait for the zygote already",
                          FORKS_MAX);
        else
            (void)dz_fail(err, DZ_ENOMEM, "start a cell: out of memory");
    }
    if (!c)
        (void)close(ends[0]);
    dz_cell_free(c);
    return NULL;
}

/* The first message to a zygote names the users of its cells. */
static int send_user(struct zygote *z, struct dz_err *err)
{
    const struct dz_os_users users = dz_cell_users();
    int rc = dz_cell_user_acquire(&z->user, err);
    if (rc < 0)
        return rc;
    const struct dz_zygote_user who = {.user = z->user,
                                       .cpu = dz_linux_baseline_get(),
                                       .native = !z->native        ? DZ_ZYGOTE_MODULES
                                                 : dz_linux_look() ? DZ_ZYGOTE_NATIVE_TSC
                                                                   : DZ_ZYGOTE_NATIVE};
    uint8_t payload[sizeof who + DZ_LINUX_CPUINFO_MAX];
    const char *cpuinfo = z->native ? dz_linux_cpuinfo() : "";
    const size_t size = strlen(cpuinfo);
    memcpy(payload, &who, sizeof who);
    memcpy(payload + sizeof who, cpuinfo, size);
    const struct dz_frame f = {.type = DZ_FRAME_ZYGOTE_USER,
                               .stream = users.count,
                               .value = users.first,
                               .size = (uint32_t)(sizeof who + size)};
    return dz_frame_send(z->fd, &f, payload, false, err);
}

static int ask_for_blank(struct dz_cell_pool *p, struct dz_err *err)
{
    int ends[2];
    int rc = p->root ? 0 : fork_root(p, err);
    if (rc == 0)
        rc = dz_frame_pair(ends, err);
    if (rc < 0)
        return rc;
    struct zygote *z = new_zygote(p, ends[0], DZ_STDERR_ZYGOTE, "");
    struct dz_pool_fork *fork = z ? expect(p->root) : NULL;
    rc = fork ? send_user(z, err) : dz_fail(err, DZ_ENOMEM, "fork a zygote: out of memory");
    if (rc > 0)
        rc = send_fork(p->root, ends[1], -1, err);
    (void)close(ends[1]);
    if (rc > 0) {
        fork->zygote = z;
        p->blank = z;
        return 0;
    }
    unexpect(p->root, fork);
    if (z)
        end_zygote(z);
    else
        (void)close(ends[0]);
    return rc < 0 ? rc : dz_fail(err, DZ_EBUSY, "fork a zygote: the root zygote does not answer");
}

static void evict(struct dz_cell_pool *p)
{
    while (p->image_count >= p->opts.images)
        end_zygote(DZ_LIST_LAST(struct zygote, &p->zygotes, link));
}

void dz_cell_pool_forget(struct dz_cell_pool *p, const char *sha256)
{
    struct zygote *z = find(p, sha256);
    if (z)
        end_zygote(z);
}

/* Ask the root zygote for the zygote of an image. NULL: that failed, and the image's sandboxes get
 * cells of the blank zygote. */
static struct zygote *ask_for_zygote(struct dz_cell_pool *p, const struct dz_cell_start *s)
{
    struct dz_frame f = {.type = DZ_FRAME_ZYGOTE_IMAGE};
    int ends[2], fds[DZ_FRAME_FDS_MAX];
    size_t n = 0;
    if ((!p->root && fork_root(p, NULL) < 0) || s->module_count > DZ_CELL_MODULES_MAX ||
        dz_frame_pair(ends, NULL) < 0)
        return NULL;
    fds[n++] = ends[1];
    fds[n++] = s->image_fd;
    for (size_t i = 0; i < s->module_count; i++)
        fds[n++] = s->module_fds[i];
    evict(p);
    struct zygote *z = new_zygote(p, ends[0], DZ_STDERR_ZYGOTE, s->image_sha256);
    struct dz_pool_fork *fork = z ? expect(p->root) : NULL;
    if (z)
        z->native = s->native;
    /* the hash is a second message, because a frame with descriptors has no payload */
    int rc = fork ? send_user(z, NULL) : -1;
    if (rc > 0)
        rc = dz_frame_send_fds(p->root->fd, &f, NULL, fds, n, NULL);
    (void)close(ends[1]);
    f = (struct dz_frame){.type = DZ_FRAME_ZYGOTE_IMAGE, .size = 65};
    if (rc > 0)
        rc = dz_frame_send(ends[0], &f, z->sha256, false, NULL);
    if (rc <= 0) {
        unexpect(p->root, fork);
        if (z)
            end_zygote(z);
        else
            (void)close(ends[0]);
        return NULL;
    }
    fork->zygote = z;
    dz_list_push_front(&p->zygotes, &z->link);
    p->image_count++;
    return z;
}

/* --- news ------------------------------------------------------------------------------------- */

/* Set the memory limit of a cell that has both its cgroup and its sandbox. */
static void limit_memory(struct dz_cell *c)
{
    struct dz_err err = {0};
    if (c->each && c->memory_max && dz_os_each_limit(c->each, c->group, c->memory_max, &err) < 0)
        dz_cell_kill(c); /* the host's next receive reports that the cell is dead */
}

/* Move a cell into its cgroup when its pid is known. Nobody waits for that, because cells are
 * forked ahead of need. A cell that cannot be moved gets no sandbox; if it has one already, it is
 * killed. */
void dz_pool_born(struct dz_cell *c)
{
    struct dz_cell_pool *p = c->home;
    struct dz_err err = {0};
    if (!p->opts.each)
        return;
    const uint32_t tasks = c->gate < 0 ? 1 : DZ_CELL_TASKS_NATIVE;
    if (dz_os_each_enter(p->opts.each, c->pid, tasks, &c->group, &err) < 0) {
        (void)snprintf(p->stats.why, sizeof p->stats.why, "%s", err.msg);
        if (c->memory_max)
            dz_cell_kill(c);
        return;
    }
    c->each = p->opts.each;
    limit_memory(c);
    if (c->gate >= 0)
        (void)send(c->gate, "g", 1, MSG_DONTWAIT | MSG_NOSIGNAL); /* or it is dead already */
    dz_pool_gate_close(c);
}

/* The root zygote answers with the pid of a zygote. */
static bool on_zygote(struct zygote *root, struct dz_pool_fork *fork, const struct dz_frame *f)
{
    pid_t pid = f->value > 1 && f->value < INT32_MAX ? (pid_t)f->value : 0;
    if (pid > 0 && !dz_reap_claim(pid))
        return false;
    if (fork->zygote) {
        fork->zygote->pid = pid;
        if (fork->zygote == root->pool->blank)
            root->pool->stats.blank_pid = pid;
    } else {
        if (pid > 0)
            dz_reaper_add(&root->pool->reaper, pid, fork->user, 0);
        else
            dz_cell_user_release(fork->user);
        fork->user = DZ_USER_NONE;
    }
    return true;
}

static bool on_forked(struct zygote *z, const struct dz_frame *f)
{
    struct dz_pool_fork *fork = DZ_LIST_FIRST(struct dz_pool_fork, &z->forks, link);
    assert_forks(z);
    if (!fork || (z == z->pool->root && !on_zygote(z, fork, f)))
        return false;
    if (fork->cell) {
        fork->cell->fork = NULL;
        if (f->stream)
            (void)dz_fail_sys(
                &fork->cell->unborn, f->stream < INT32_MAX ? (int)f->stream : EIO,
                f->stream == EAGAIN
                    ? "start a cell: too many processes; suspend sandboxes, or raise kernel.pid_max, a quarter of which is for each image"
                    : "start a cell: fork it");
    }
    unexpect(z, fork);
    return true;
}

static void on_failed(struct zygote *z, const struct dz_frame *f)
{
    char *why = z->pool->stats.why;
    (void)snprintf(why, sizeof z->pool->stats.why, "%.255s", (const char *)z->pool->payload);
    (void)dz_fail(&z->failed, f->value > 0 && f->value < DZ_CELL_CODE_MAX ? -(int)f->value : DZ_EIO,
                  "start a cell: %s", why);
}

static bool on_ready(struct zygote *z, const struct dz_frame *f)
{
    if (z->ready || z->failed.code)
        return false;
    z->ready = true;
    if (z == z->pool->blank)
        z->pool->stats.fences = (uint32_t)f->value;
    return true;
}

/* cell_stderr.h limits the log; the rates here limit the time that the loop spends reading. */
static bool on_stderr(struct zygote *z, const struct dz_frame *f)
{
    const int64_t now = dz_clock_boot_ns();
    if (dz_rate_left(&z->lines, &lines_of_zygote, now) < 1 ||
        dz_rate_left(&z->stderr_bytes, &bytes_of_zygote, now) < (int64_t)f->size) {
        dz_log(DZ_LOG_WARN, "zygote_ended", dz_log_strz("image", z->sha256),
               dz_log_strz("why", "it wrote too much to standard error"));
        return false;
    }
    z->lines.tokens--;
    z->stderr_bytes.tokens -= (int64_t)f->size;
    dz_cell_stderr_add(&z->text, z->pool->payload, f->size);
    return true;
}

/* Handle a frame of a zygote. False: the frame is invalid, at least in this state. */
static bool on_frame(struct zygote *z, const struct dz_frame *f)
{
    switch (f->type) {
    case DZ_FRAME_ZYGOTE_READY:
        return on_ready(z, f);
    case DZ_FRAME_ZYGOTE_FORKED:
        return on_forked(z, f);
    case DZ_FRAME_STDERR:
        return on_stderr(z, f);
    case DZ_FRAME_ZYGOTE_FAILED: /* FAILED is its last frame */
        on_failed(z, f);
        return false;
    default:
        return false;
    }
}

/* False: the zygote is dead, has failed, or sent an invalid frame or too much. */
static bool hear(struct zygote *z)
{
    struct dz_cell_pool *p = z->pool;
    struct dz_frame f;
    int rc = 1;
    for (int i = 0; i < HEAR_TURN && !z->silent; i++) {
        rc = dz_frame_receive(z->fd, &f, p->payload, false, NULL);
        if (rc <= 0)
            break;
        p->payload[f.size] = '\0';
        z->silent = !on_frame(z, &f);
    }
    if (rc == 0)
        send_unsent(z);
    return rc >= 0 && !z->silent;
}

void dz_pool_forget(struct dz_pool_fork *f)
{
    struct zygote *z = f->by;
    f->cell = NULL;
    if (f->end < 0)
        return;
    unexpect(z, f); /* its pid is not known yet */
    watch_room(z);
}

void dz_pool_ask(struct dz_cell *c)
{
    struct zygote *z = c->fork->by;
    if (!hear(z))
        c->unborn = z->failed;
}

/* A waiting cell that can be given to a sandbox, or is being forked. Its first packet is taken
 * here, so that the loop need not do that while a client waits for the sandbox. */
static bool is_well(struct dz_cell *c)
{
    struct dz_cell_event e;
    if (dz_cell_learn(c) < 0 || dz_frame_gone(c->fd))
        return false;
    return !c->known || c->born || (dz_cell_receive(c, &e, NULL) == 1 && e.type == DZ_CELL_NOTHING);
}

static struct dz_cell *remove_waiting(struct zygote *z, size_t i)
{
    struct dz_cell *c = z->waiting[i];
    z->waiting_count--;
    z->stale -= i < z->stale;
    memmove(z->waiting + i, z->waiting + i + 1, (z->waiting_count - i) * sizeof z->waiting[0]);
    return c;
}

static void fork_ahead(struct zygote *z)
{
    /* some of the waiting cells may have died meanwhile */
    for (size_t i = 0; i < z->waiting_count;) {
        if (!is_well(z->waiting[i]))
            dz_cell_free(remove_waiting(z, i));
        else
            i++;
    }
    if (z->stale > 0 && z->fork_count == 0) { /* replace one after the other */
        dz_cell_free(remove_waiting(z, 0));
        z->pool->stats.renewed++;
    }
    while (z->ready && z->waiting_count < z->pool->opts.ahead && z->fork_count < AT_ONCE) {
        struct dz_cell *c = ask_for_cell(z, NULL);
        if (!c)
            return;
        z->waiting[z->waiting_count++] = c;
    }
}

/* Count the functions or pages that were not reported before: the cells of an image use and write
 * the same ones. Two with the same hash count as one. */
static uint32_t news(struct zygote *z, const uint8_t *payload, size_t size)
{
    uint32_t n = 0, module, number;
    if (size < sizeof(struct dz_zygote_warm))
        return 0;
    memcpy(&module, payload,
           sizeof module); /* the first bytes of the module's hash identify the module; 0: pages */
    for (size_t at = sizeof(struct dz_zygote_warm); at + sizeof number <= size;
         at += sizeof number) {
        memcpy(&number, payload + at, sizeof number);
        uint32_t hash = (module ^ number * 2654435769u) * 2246822519u >> (32 - REPORTED_BITS);
        uint8_t bit = (uint8_t)(1u << hash % 8);
        n += (z->reported[hash / 8] & bit) == 0;
        z->reported[hash / 8] |= bit;
    }
    return n;
}

static bool may_report_use(const struct dz_cell *c)
{
    struct dz_cell_pool *p = c->pool;
    const char *label = c->text.label;
    if (!p->used_key[0] && getrandom(p->used_key, sizeof p->used_key, 0) < 0)
        p->used_key[0] =
            1; /* never happens; without a random key a sandbox could choose its bucket */
    struct dz_rate *r = &p->used[dz_siphash(p->used_key, label, strlen(label)) % USED_BUCKETS];
    bool may = dz_rate_left(r, &used_of_sandbox, dz_clock_boot_ns()) > 0;
    r->tokens -= may;
    return may;
}

void dz_pool_used(struct dz_cell *c, const void *payload, size_t size)
{
    struct zygote *z = c->pool ? find(c->pool, c->image_sha256) : NULL;
    const struct dz_frame f = {.type = DZ_FRAME_ZYGOTE_WARM, .size = (uint32_t)size};
    if (!z || !z->ready || z->warmed >= WARM_MAX || !may_report_use(c))
        return;
    uint32_t n = news(z, payload, size);
    if (n == 0)
        return;
    z->warmed++;
    if (dz_frame_send(z->fd, &f, payload, false, NULL) <= 0)
        return;
    z->pool->stats.uses++;
    z->news += n;
    if (z->news >= RENEW_MIN) {
        z->stale = z->waiting_count;
        z->news = 0;
    }
    fork_ahead(z);
}

static void bury(struct zygote *z)
{
    z->pool->stats.died++;
    if (z->pid > 0)
        (void)kill(z->pid, SIGKILL);
    end_zygote(z);
}

static void reap_dead_root(struct dz_cell_pool *p)
{
    struct zygote *z = p->root;
    if (!z || hear(z))
        return;
    p->root = NULL;
    bury(z);
}

/* The blank zygote could not get ready. The starts that follow report its reason. No new one is
 * forked for a while, because that would fail, too. */
static int bury_dead_blank(struct dz_cell_pool *p, struct dz_err *err)
{
    struct zygote *z = p->blank;
    if (!z || hear(z))
        return 0;
    bool was_ready = z->ready;
    struct dz_err why = z->failed;
    p->blank = NULL;
    bury(z);
    if (was_ready)
        return 0;
    if (!why.code)
        (void)dz_fail(&why, DZ_EIO, "start a cell: the process that forks cells has died");
    p->refused = why;
    p->refused_until_ns = dz_clock_boot_ns() + FAILURE_NS;
    if (err)
        *err = why;
    return why.code;
}

/* The zygote forked children without a request: it was taken over, or was disturbed by the death of
 * its root zygote. End it, so that it forks no more. */
static void end_forker(struct zygote *z)
{
    struct dz_cell_pool *p = z->pool;
    dz_log(DZ_LOG_WARN, "zygote_ended", dz_log_strz("image", z->sha256),
           dz_log_strz("why", "it forked processes without a request"));
    if (z == p->blank)
        p->blank = NULL;
    else
        note_failure(p, z->sha256);
    bury(z);
}

static bool lives_in(struct zygote *z, struct dz_stray_home home)
{
    if (z->home.ino == 0 && z->pid > 0)
        z->home = dz_stray_home(z->pid);
    return z->home.ino == home.ino && z->home.dev == home.dev;
}

static void count_stray(struct zygote *z, struct dz_stray_home home)
{
    if (lives_in(z, home) && ++z->strays == FORKER_STRAYS)
        end_forker(z);
}

static void count_stray_of(struct dz_cell_pool *p, struct dz_stray_home home)
{
    if (p->blank)
        count_stray(p->blank, home);
    DZ_LIST_FOREACH(struct zygote, z, &p->zygotes, link)
        count_stray(z, home);
}

/* Where zygotes have no user namespaces, the zygote that forked the child cannot be found. */
static void end_all_forkers(struct dz_cell_pool *p)
{
    if (p->blank && p->blank->since_ns < p->strays.before_ns)
        end_forker(p->blank);
    DZ_LIST_FOREACH(struct zygote, z, &p->zygotes, link)
        if (z->since_ns < p->strays.before_ns)
            end_forker(z);
}

static void forget_strays(struct dz_cell_pool *p)
{
    p->homeless_strays = 0;
    if (p->blank)
        p->blank->strays = 0;
    DZ_LIST_FOREACH(struct zygote, z, &p->zygotes, link)
        z->strays = 0;
}

/* On an overloaded machine an honest child may not have sent anything yet; it is ended, too. A
 * zygote is ended only if it keeps forking such children. The zygote of a child that has exited
 * cannot be found. */
static void on_strays(void *arg, const pid_t *pids, size_t count)
{
    struct dz_cell_pool *p = arg;
    const int64_t now = dz_clock_boot_ns();
    if (p->stray_ns + STRAYS_FORGOTTEN_LOOKS * p->strays.every_ms * DZ_NS_PER_MS < now)
        forget_strays(p);
    p->stray_ns = now;
    size_t homeless = 0;
    for (size_t i = 0; i < count; i++) {
        const struct dz_stray_home home = dz_stray_home(pids[i]);
        if (home.ino)
            count_stray_of(p, home);
        else
            homeless++;
    }
    p->homeless_strays = homeless < count ? 0 : p->homeless_strays + homeless;
    if (p->homeless_strays >= HOMELESS_STRAYS) {
        p->homeless_strays = 0;
        end_all_forkers(p);
    }
    p->stats.strays += count;
}

int dz_cell_pool_run(struct dz_cell_pool *p, struct dz_err *err)
{
    dz_strays_run(&p->strays, on_strays, p);
    DZ_LIST_FOREACH(struct zygote, z, &p->zygotes, link) {
        if (hear(z)) {
            fork_ahead(z);
            continue;
        }
        note_failure(p, z->sha256); /* this delays the image's next zygote */
        bury(z);
    }
    reap_dead_root(p);
    int refused = bury_dead_blank(p, err);
    int rc = p->root ? 0 : fork_root(p, err); /* calls may need the root zygote at any time */
    if (rc == 0 && !p->blank && dz_clock_boot_ns() >= p->refused_until_ns)
        rc = ask_for_blank(p, err);
    if (p->blank)
        fork_ahead(p->blank);
    dz_reaper_run(&p->reaper);
    return rc < 0 ? rc : refused;
}

/* --- starting --------------------------------------------------------------------------------- */

/* Choose a waiting cell: the newest that is known to be forked, because a stale one would translate
 * functions again; if none is known, the newest, which the zygote is about to fork. */
static size_t best_waiting(const struct zygote *z)
{
    for (size_t i = z->waiting_count; i > z->stale; i--)
        if (!z->waiting[i - 1]->fork)
            return i - 1;
    return z->waiting_count - 1;
}

/* Take a waiting cell that lives; if there is none, ask for a new one. */
static struct dz_cell *take_waiting(struct zygote *z, struct dz_err *err)
{
    struct dz_cell_pool *p = z->pool;
    while (z->waiting_count > 0) {
        struct dz_cell *c = remove_waiting(z, best_waiting(z));
        if (is_well(c)) {
            p->stats.warm++;
            return c;
        }
        dz_cell_free(c);
    }
    p->stats.cold++;
    return ask_for_cell(z, err);
}

/* Send the start. If the cell has closed its socket already, the next receive reports that, as if
 * the cell had died a moment later. */
static int begin(struct dz_cell *c, const struct dz_cell_start *s, bool forked, struct dz_err *err)
{
    int rc = dz_cell_send_start(c, s, forked, err);
    if (rc == DZ_EIO && dz_frame_gone(c->fd))
        return 0;
    if (rc < 0)
        dz_cell_free(c);
    return rc;
}

int dz_cell_pool_start(struct dz_cell_pool *p, const struct dz_cell_start *s,
                       struct dz_cell **ret_cell, struct dz_err *err)
{
    assert(!s->ends_with_main); /* such a cell dies with its host, so a zygote must not fork it */
    bool image = s->image_fd >= 0 && s->image_sha256;
    if (s->module_count > DZ_CELL_MODULES_MAX)
        return dz_fail(err, DZ_ELIMIT, "start a cell: %zu prepared modules; at most %d are allowed",
                       s->module_count, DZ_CELL_MODULES_MAX);
    if (!p->blank || !p->blank->ready) {
        int rc = dz_cell_pool_run(p, err);
        if (rc < 0)
            return rc;
    }
    if (!p->blank) {
        if (err)
            *err = p->refused;
        return p->refused.code;
    }
    struct zygote *z = image ? find(p, s->image_sha256) : NULL;
    if (z) { /* evict() ends the last zygote of the list, so move this one to the front */
        dz_list_remove(&z->link);
        dz_list_push_front(&p->zygotes, &z->link);
    } else if (image && !failed_lately(p, s->image_sha256)) {
        z = ask_for_zygote(p, s);
    }
    /* The blank zygote's cells run no native programs, so a cell for those waits until the image's
     * zygote is ready. Any other cell comes from the blank zygote meanwhile. */
    bool forked = z && ((z->ready && z->pid > 0) || s->native);
    p->stats.blank += image && !forked;
    if (s->native && !forked)
        return dz_fail(
            err, DZ_EUNAVAIL,
            "start a cell: the process that forks cells of this image does not start%s%s",
            p->stats.why[0] ? ": " : "", p->stats.why);
    struct dz_cell *c = take_waiting(forked ? z : p->blank, err);
    if (!c)
        return err && err->code ? err->code : DZ_EBUSY;
    if (p->opts.each && c->pid > 0 && !c->each) {
        dz_cell_free(c);
        return dz_fail(err, DZ_EUNAVAIL, "start a cell: move it into its cgroup: %s", p->stats.why);
    }
    int rc = begin(c, s, forked, err);
    if (rc < 0)
        return rc;
    c->pool = forked ? p : NULL;
    dz_cell_stderr_init(&c->text, DZ_STDERR_CELL, s->label);
    if (p->opts.each) {
        c->memory_max = p->opts.memory_beside +
                        (s->memory_bytes ? s->memory_bytes : s->policy->limits.memory_bytes);
        limit_memory(c);
    }
    (void)snprintf(c->image_sha256, sizeof c->image_sha256, "%s", forked ? s->image_sha256 : "");
    *ret_cell = c;
    return 0;
}

/* --- the pool --------------------------------------------------------------------------------- */

static void raise_descriptors(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r);
    }
}

int dz_cell_pool_new(const struct dz_cell_pool_opts *opts, struct dz_cell_pool **ret_pool,
                     struct dz_err *err)
{
    struct dz_cell_pool *p = dz_zalloc(sizeof *p);
    if (!p)
        return dz_fail(err, DZ_ENOMEM, "create the pool of cells: out of memory");
    p->opts = *opts;
    p->guards[0] = p->guards[1] = -1;
    p->reaper.timer = p->strays.timer = -1;
    p->opts.ahead = opts->ahead ? opts->ahead : DZ_POOL_AHEAD;
    p->opts.images = opts->images ? opts->images : DZ_POOL_IMAGES;
    if (p->opts.ahead > DZ_POOL_AHEAD_MAX)
        p->opts.ahead = DZ_POOL_AHEAD_MAX;
    if (p->opts.images > DZ_POOL_IMAGES_MAX)
        p->opts.images = DZ_POOL_IMAGES_MAX;
    dz_list_init(&p->zygotes);
    raise_descriptors();
    dz_cell_users_set(&opts->users);
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    int rc = p->epoll < 0 ? dz_fail_sys(err, errno, "create the pool of cells")
                          : dz_reaper_init(&p->reaper, p->epoll, err);
    if (rc == 0)
        rc = dz_strays_init(&p->strays, p->epoll,
                            opts->strays_ms ? opts->strays_ms : DZ_STRAY_EVERY_MS, err);
    if (rc == 0 && pipe2(p->guards, O_CLOEXEC) < 0)
        rc = dz_fail_sys(err, errno, "create the pipe to the guards of cells");
    if (rc == 0)
        rc = ask_for_blank(p, err);
    if (rc < 0) {
        dz_cell_pool_free(p);
        return rc;
    }
    *ret_pool = p;
    return 0;
}

void dz_cell_pool_free(struct dz_cell_pool *p)
{
    if (!p)
        return;
    DZ_LIST_FOREACH(struct zygote, z, &p->zygotes, link)
        end_zygote(z);
    if (p->blank)
        end_zygote(p->blank);
    p->blank = NULL;
    dz_call_set_root(-1);
    if (p->root) {
        read_last_stderr(p->root);
        end_zygote(p->root);
    }
    dz_reaper_release(&p->reaper);
    dz_strays_release(&p->strays);
    if (p->guards[1] >= 0)
        (void)!write(p->guards[1], "e", 1); /* there is no cell left to wait for */
    dz_fd_close(&p->guards[0]);
    dz_fd_close(&p->guards[1]);
    dz_fd_close(&p->epoll);
    dz_cell_users_set(NULL);
    dz_free(p);
}

int dz_cell_pool_fd(const struct dz_cell_pool *p)
{
    return p->epoll;
}

void dz_cell_pool_stats_get(const struct dz_cell_pool *p, struct dz_cell_pool_stats *ret)
{
    *ret = p->stats;
    ret->zygotes = p->image_count + (p->blank != NULL);
    ret->waiting = p->blank ? p->blank->waiting_count : 0;
    DZ_LIST_FOREACH(struct zygote, z, &p->zygotes, link)
        ret->waiting += z->waiting_count;
}

/* SPDX-License-Identifier: MIT
 *
 * The host: the daemon as a process, what is done to it, and what it holds.
 */
#include "soak.h"

#include "../lib/dice.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/num.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum {
    READY_MS = 20000,
    STOP_MS = 20000,
    RUN_MS = 120000,
    FULL_MS = 2000,
    FULL_KILL_EVERY = 3, /* fills between two kills of the daemon on a full disk */
    CROWD_MAX = 1 << 16, /* files */
    CHILDREN_MAX = 512,
};

static void nap(unsigned ms)
{
    const struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    (void)nanosleep(&t, NULL);
}

/* A file system of its own for the data, so that it can be full; only root may. */
static bool mount_small(const char *dir, const char *options)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", dir, "tmpfs", 0, options) == 0;
}

int soak_host_open(struct soak_host *h, struct dz_err *err)
{
    struct dz_buf out = DZ_BUF_INIT(65536);
    char empty[DZ_TEMP_DIR_TEXT + 8];
    const char *base = getenv("DOZE_BASE");
    int rc = dz_fd_temp_dir("doze-soak", h->dir, err);
    if (rc < 0)
        return rc;
    (void)snprintf(h->data, sizeof h->data, "%s/data", h->dir);
    (void)snprintf(empty, sizeof empty, "%s/empty", h->dir);
    (void)snprintf(h->url, sizeof h->url, "unix:%s/doze.sock", h->data);
    if ((rc = dz_fd_mkdirs(AT_FDCWD, h->data, 0700, err)) < 0 ||
        (rc = dz_fd_mkdirs(AT_FDCWD, empty, 0700, err)) < 0)
        return rc;
    h->daemon = (struct dz_os_proc)DZ_OS_PROC_NONE;
    h->small = mount_small(h->data, h->disk ? h->disk : "size=512m");
    if (h->disk && !h->small)
        return dz_fail_sys(err, errno, "mount a tmpfs with %s", h->disk);
    const char *const build[] = {
        "image",      "build", "-q", "--from", base ? base : "build/base/base.doze",
        "--from-dir", empty,   "-t", "base",   NULL};
    rc = soak_doze(h, build, &out, err);
    dz_buf_release(&out);
    return rc;
}

void soak_host_close(struct soak_host *h)
{
    struct dz_err err = {0};
    dz_os_proc_close(&h->daemon);
    if (h->small)
        (void)umount2(h->data, MNT_DETACH);
    if (getenv("SOAK_KEEP"))
        printf("# kept: %s\n", h->dir);
    else if (h->dir[0] && dz_fd_remove_tree(AT_FDCWD, h->dir, &err) < 0)
        printf("# %s\n", err.msg);
}

int soak_doze(const struct soak_host *h, const char *const *words, struct dz_buf *out,
              struct dz_err *err)
{
    const char *argv[24] = {h->doze};
    struct dz_os_run_result r;
    for (size_t i = 0; words[i]; i++)
        argv[i + 1] = words[i];
    (void)setenv("DOZE_DATA", h->data, 1);
    const struct dz_os_run_opts o = {
        .argv = argv, .out_max = 1 << 20, .err_max = 4096, .timeout_ms = RUN_MS};
    int rc = dz_os_run(&o, &r, err);
    if (rc < 0)
        return rc;
    dz_buf_reset(out);
    dz_buf_add(out, r.out.p, r.out.len);
    if (r.timed_out || r.status.exit_code != 0) {
        printf("# doze %s: %s%s\n", words[0], r.err.p, r.out.p);
        rc = dz_fail(err, DZ_EIO, "doze %s %s: exit %d", words[0], words[1] ? words[1] : "",
                     r.status.exit_code);
    }
    dz_os_run_result_release(&r);
    return rc;
}

/* --- the daemon ----------------------------------------------------------------------- */

static int wait_ready(const struct soak_host *h, struct dz_err *err)
{
    struct dz_err last = {0};
    for (int64_t end = dz_clock_mono_ms() + READY_MS; dz_clock_mono_ms() < end; nap(20)) {
        struct dz_client *c = NULL;
        int rc = dz_client_open(h->url, NULL, &c, &last);
        if (rc == 0)
            rc = dz_client_json(c, "GET", "/readyz", NULL, NULL, &last);
        dz_client_close(c);
        if (rc >= 0)
            return 0;
    }
    return dz_fail(err, DZ_ETIMEOUT, "the daemon is not ready after %d seconds: %.150s",
                   READY_MS / 1000, last.msg);
}

static int spawn(struct soak_host *h, struct dz_err *err)
{
    char path[DZ_TEMP_DIR_TEXT + 32];
    (void)setenv("DOZE_DATA", h->data, 1);
    (void)snprintf(path, sizeof path, "%s/daemon.log", h->dir);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0)
        return dz_fail_sys(err, errno, "open %s", path);
    const char *const argv[] = {h->doze, "daemon", "--log-level", "debug", NULL};
    const struct dz_os_fd fds[] = {{1, log}, {2, log}};
    const struct dz_os_spawn_opts o = {.argv = argv, .fds = fds, .fd_count = 2};
    int rc = dz_os_spawn(&o, &h->daemon, err);
    (void)close(log);
    return rc;
}

int soak_start(struct soak_host *h, struct dz_err *err)
{
    int rc = spawn(h, err);
    return rc < 0 ? rc : wait_ready(h, err);
}

bool soak_lives(const struct soak_host *h)
{
    struct pollfd p = {.fd = h->daemon.pidfd, .events = POLLIN};
    return h->daemon.pidfd >= 0 && poll(&p, 1, 0) == 0;
}

void soak_last_words(const struct soak_host *h, char *out, size_t size)
{
    char path[DZ_TEMP_DIR_TEXT + 32], text[1024];
    (void)snprintf(path, sizeof path, "%s/daemon.log", h->dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    off_t at = end > (off_t)sizeof text - 1 ? end - (off_t)sizeof text + 1 : 0;
    ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof text - 1, at);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    text[n > 0 ? n : 0] = '\0';
    const char *line = strrchr(text, '\n');
    (void)snprintf(out, size, "%s", line ? line + 1 : text);
    dz_fd_close(&fd);
}

/* SIGKILL, and a new one that is not ready yet. */
static int respawn(struct soak_host *h, struct dz_err *err)
{
    struct dz_os_status status;
    dz_os_proc_kill(&h->daemon);
    int rc = dz_os_proc_wait(&h->daemon, STOP_MS, &status, err);
    h->kills++;
    return rc < 0 ? rc : spawn(h, err);
}

int soak_crash(struct soak_host *h, struct dz_err *err)
{
    int rc = respawn(h, err);
    return rc < 0 ? rc : wait_ready(h, err);
}

int soak_stop(struct soak_host *h, struct dz_err *err)
{
    struct dz_os_status status;
    int rc = dz_os_proc_signal(&h->daemon, SIGTERM, err);
    if (rc == 0)
        rc = dz_os_proc_wait(&h->daemon, STOP_MS, &status, err);
    if (rc == 0 && status.exit_code != 0)
        rc = dz_fail(err, DZ_EIO, "the daemon ended with exit %d, signal %d", status.exit_code,
                     status.signal);
    return rc;
}

static size_t children(pid_t pid, pid_t *list, size_t max)
{
    char path[64];
    struct dz_buf text = DZ_BUF_INIT(65536);
    size_t n = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    if (dz_fd_read_file(AT_FDCWD, path, &text, NULL) == 0)
        for (char *p = text.p, *end; n < max; p = end) {
            long v = strtol(p, &end, 10);
            if (end == p)
                break;
            list[n++] = (pid_t)v;
        }
    dz_buf_release(&text);
    return n;
}

bool soak_kill_cell(struct soak_host *h)
{
    pid_t list[CHILDREN_MAX];
    size_t n = children(h->daemon.pid, list, CHILDREN_MAX);
    if (n == 0 || kill(list[dice_below(&h->seed, (uint32_t)n)], SIGKILL) < 0)
        return false;
    h->cells++;
    return true;
}

/* --- a full disk ------------------------------------------------------------------------- */

static void fill_blocks(int dir)
{
    static const char zeros[1 << 20];
    int fd = openat(dir, "blocks", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    for (size_t step = sizeof zeros; fd >= 0 && step >= 512;)
        if (write(fd, zeros, step) <= 0)
            step /= 2;
    dz_fd_close(&fd);
}

static void fill_inodes(int dir)
{
    char name[16];
    int fd = 0;
    for (unsigned i = 0; i < CROWD_MAX && fd >= 0; i++) {
        (void)snprintf(name, sizeof name, "%u", i);
        fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0)
            (void)close(fd);
    }
}

int soak_fill(struct soak_host *h, struct dz_err *err)
{
    char path[DZ_TEMP_DIR_TEXT + 32];
    (void)snprintf(path, sizeof path, "%s/filler", h->data);
    if (!h->small)
        return 0;
    int rc = dz_fd_mkdirs(AT_FDCWD, path, 0700, err);
    if (rc < 0)
        return rc == DZ_ENOSPC ? 0 : rc; /* it has filled itself */
    DZ_AUTO(dz_fd_close) int dir = dz_fd_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, err);
    if (dir < 0)
        return dir;
    bool crowd = h->disk && h->fills % 2 == 1;
    bool killed = h->disk && h->fills % FULL_KILL_EVERY == 1;
    atomic_store(&h->world->full, true);
    if (crowd)
        fill_inodes(dir);
    else
        fill_blocks(dir);
    nap(FULL_MS / 2);
    if (killed)
        rc = respawn(h, err);
    nap(FULL_MS / 2);
    struct dz_err cleared;
    if (dz_fd_remove_tree(AT_FDCWD, path, &cleared) < 0 && rc == 0)
        rc = dz_fail(err, cleared.code, "%s", cleared.msg);
    if (killed && rc == 0)
        rc = wait_ready(h, err);
    nap(FULL_MS); /* what was refused is still on its way */
    atomic_store(&h->world->full, false);
    h->fills++;
    h->crowds += crowd;
    h->full_kills += killed;
    return rc;
}

/* --- looking ------------------------------------------------------------------------------ */

static int count_entries(const char *path, unsigned *ret_count, struct dz_err *err)
{
    DIR *d = opendir(path);
    unsigned n = 0;
    if (!d)
        return dz_fail_sys(err, errno, "open %s", path);
    while (readdir(d))
        n++;
    (void)closedir(d);
    *ret_count = n - 3; /* ., .., and the one that reads */
    return 0;
}

/* Its file of a sandbox or an image, by which one sees what it is for. */
static void opened_file(const struct soak_host *h, pid_t pid, char *out, size_t size)
{
    char path[64], name[300];
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    (void)snprintf(out, size, "%s", d ? "no file" : strerror(errno));
    for (const struct dirent *e; d && (e = readdir(d));) {
        ssize_t n = readlinkat(dirfd(d), e->d_name, name, sizeof name - 1);
        name[n < 0 ? 0 : n] = '\0';
        if (strncmp(name, h->data, strlen(h->data)) == 0)
            (void)snprintf(out, size, "%s", name + strlen(h->data));
    }
    if (d)
        (void)closedir(d);
}

void soak_tell_children(const struct soak_host *h)
{
    pid_t list[CHILDREN_MAX];
    size_t n = children(h->daemon.pid, list, CHILDREN_MAX);
    for (size_t i = 0; i < n; i++) {
        char path[64], file[300];
        struct dz_buf text = DZ_BUF_INIT(4096);
        (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)list[i]);
        opened_file(h, list[i], file, sizeof file);
        if (dz_fd_read_file(AT_FDCWD, path, &text, NULL) == 0)
            printf("# child %.*s: %s\n", (int)(text.len < 40 ? text.len : 40), (char *)text.p,
                   file);
        dz_buf_release(&text);
    }
}

int soak_look(const struct soak_host *h, struct soak_sample *ret_sample, struct dz_err *err)
{
    char path[64];
    pid_t list[CHILDREN_MAX];
    struct dz_buf text = DZ_BUF_INIT(65536);
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)h->daemon.pid);
    int rc = count_entries(path, &ret_sample->descriptors, err);
    ret_sample->processes = (unsigned)children(h->daemon.pid, list, CHILDREN_MAX);
    (void)snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)h->daemon.pid);
    if (rc == 0)
        rc = dz_fd_read_file(AT_FDCWD, path, &text, err);
    ret_sample->private_bytes = 0;
    if (rc == 0)
        for (const char *p = text.p; (p = strstr(p, "Private_"));) {
            p += strcspn(p, " ");
            ret_sample->private_bytes += strtoull(p, NULL, 10) << 10;
        }
    dz_buf_release(&text);
    return rc;
}

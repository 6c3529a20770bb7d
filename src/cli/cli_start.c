/* SPDX-License-Identifier: MIT
 *
 * Start a daemon for this user when a command needs one and none answers.
 *
 * No daemon is started if DOZE_URL names one, if DOZE_AUTOSTART=0, if the data directory belongs
 * to another user, or if a system service owns it (the file `service` in it then holds the
 * service's name). Commands that start a daemon at the same time take turns at a lock beside the
 * socket, so the second command finds the daemon of the first. The daemon gets a session of its
 * own, so that it outlives the terminal, and writes its log to daemon.log in the data directory.
 *
 * The daemon is ready when /readyz says so. Its socket does not exist until it listens; a watch on
 * the directory reports the change. If a daemon is there but not ready, because it is starting or
 * stopping, wait for it; if it goes away, start another.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/num.h"
#include "cli/cli_remote.h"
#include "os/os_proc.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    READY_MS = 30000,
    AGAIN_MS = 100, /* interval of requests to a daemon that is still recovering */
    LAST_LINE = 200,
};

struct start {
    struct dz_cli *c;
    const char *data, *url;
    struct dz_os_proc proc;
    int watch;
    int64_t until_ms;
};

/* May a daemon be started here? */
static int may_start(const struct start *s, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf service = DZ_BUF_INIT(256);
    const char *off = getenv("DOZE_AUTOSTART");
    char path[DZ_PATH_MAX + 32];
    struct stat st;
    if (off && strcmp(off, "0") == 0)
        return dz_fail(err, DZ_ENOENT,
                       "no daemon answers at %s, and DOZE_AUTOSTART=0 forbids starting one: run "
                       "`doze daemon`",
                       s->url);
    if (stat(s->data, &st) == 0 && st.st_uid != geteuid())
        return dz_fail(err, DZ_ENOENT,
                       "no daemon answers at %s, and the data directory belongs to another user: "
                       "its owner can run `doze daemon`",
                       s->url);
    (void)snprintf(path, sizeof path, "%s/service", s->data);
    if (access(path, F_OK) != 0)
        return 0;
    if (dz_fd_read_file(AT_FDCWD, path, &service, err) < 0)
        dz_buf_reset(&service);
    struct dz_str name = dz_str_trim(dz_str(service.p));
    return dz_fail(err, DZ_ENOENT, "no daemon answers at %s; it is a service: systemctl start %.*s",
                   s->url, DZ_STR_ARG(name.n ? name : DZ_STR("doze")));
}

static int take_turn(const struct start *s, int *ret_lock, struct dz_err *err)
{
    char path[DZ_PATH_MAX + 32];
    (void)snprintf(path, sizeof path, "%s/start.lock", s->data);
    int rc = dz_fd_mkdirs(AT_FDCWD, s->data, 0700, err);
    if (rc == 0)
        rc = *ret_lock = dz_fd_open(AT_FDCWD, path, O_RDWR | O_CREAT, 0600, err);
    while (rc >= 0 && flock(*ret_lock, LOCK_EX) < 0)
        if (errno != EINTR)
            rc = dz_fail_sys(err, errno, "lock %s", path);
    return rc < 0 ? rc : 0;
}

static int spawn(struct start *s, struct dz_err *err)
{
    char path[DZ_PATH_MAX + 32], socket[DZ_PATH_MAX + 32], self[DZ_PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/daemon.log", s->data);
    (void)snprintf(socket, sizeof socket, "%s/doze.sock", s->data);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return dz_fail_sys(err, errno, "find this program");
    self[n] = '\0';
    const char *deleted = " (deleted)";
    if (dz_str_ends(dz_str(self), dz_str(deleted))) /* replaced by a newer one */
        self[(size_t)n - strlen(deleted)] = '\0';
    DZ_AUTO(dz_fd_close)
    int log = dz_fd_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0600, err);
    DZ_AUTO(dz_fd_close) int null = dz_fd_open(AT_FDCWD, "/dev/null", O_RDONLY, 0, err);
    if (log < 0 || null < 0)
        return log < 0 ? log : null;
    const struct dz_os_fd fds[] = {{0, null}, {1, log}, {2, log}};
    const struct dz_os_spawn_opts o = {
        .argv = (const char *const[]){self, "daemon", "--data", s->data, "--socket", socket, NULL},
        .cwd = "/",
        .fds = fds,
        .fd_count = DZ_ARRAY_LEN(fds),
        .session = true,
    };
    int rc = dz_os_spawn(&o, &s->proc, err);
    if (rc == 0)
        dz_cli_note(s->c, "no daemon was running: started one on %s (its log: %s)", s->data, path);
    return rc < 0 ? dz_wrap(err, rc, "start a daemon") : 0;
}

/* The daemon has ended: report the last line of its log, which says why. */
static int ended(const struct start *s, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    char path[DZ_PATH_MAX + 32], line[LAST_LINE];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/daemon.log", s->data);
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(AT_FDCWD, path, O_RDONLY, 0, NULL);
    if (fd >= 0 && fstat(fd, &st) == 0) {
        (void)lseek(fd, st.st_size > DZ_IO_PIECE ? st.st_size - DZ_IO_PIECE : 0, SEEK_SET);
        if (dz_fd_read_all(fd, &text, NULL) < 0)
            dz_buf_reset(&text);
    }
    struct dz_str last = dz_str_trim(dz_str_n(text.p, text.len));
    size_t at = dz_str_rfind_char(last, '\n');
    last = at == DZ_STR_NONE ? last : dz_str_sub(last, at + 1, last.n);
    (void)snprintf(line, sizeof line, "%.*s", (int)(last.n < 150 ? last.n : 150),
                   last.n ? last.p : "");
    return dz_fail(err, DZ_EIO, "the daemon exited at once: %s", line[0] ? line : path);
}

/* Wait until the directory changes, the daemon ends, or a moment is over. */
static int wait_for_change(struct start *s, struct dz_err *err)
{
    struct pollfd p[] = {{.fd = s->watch, .events = POLLIN},
                         {.fd = s->proc.pidfd, .events = POLLIN}};
    char events[4096];
    if (dz_clock_mono_ms() > s->until_ms)
        return dz_fail(err, DZ_ETIMEOUT, "the daemon on %s did not answer within %d seconds",
                       s->data, READY_MS / 1000);
    (void)poll(p, DZ_ARRAY_LEN(p), AGAIN_MS);
    if (p[0].revents && read(s->watch, events, sizeof events) < 0 && errno != EAGAIN)
        return dz_fail_sys(err, errno, "watch %s", s->data);
    return p[1].revents ? ended(s, err) : 0;
}

/* 1: connected to a daemon that is ready; 0: not yet. *ret_there: does a daemon listen? */
static int is_ready(const struct start *s, bool *ret_there, struct dz_client **ret_client,
                    struct dz_err *err)
{
    const char *token = getenv("DOZE_TOKEN");
    struct dz_client *client = NULL;
    int rc = dz_client_open(s->url, token && token[0] ? token : NULL, &client, err);
    *ret_there = rc == 0;
    if (rc < 0)
        return rc == DZ_ENOENT ? 0 : rc;
    rc = dz_client_json(client, "GET", "/readyz", NULL, NULL, err);
    if (rc >= 0 || rc == DZ_ENOSPC) { /* on a full disk the daemon can still delete and suspend */
        *ret_client = client;
        return 1;
    }
    dz_client_close(client);
    return rc == DZ_EBUSY || rc == DZ_EUNAVAIL || rc == DZ_EGONE ? 0 : rc;
}

int dz_cli_start_daemon(struct dz_cli *c, const char *data, const char *url,
                        struct dz_client **ret_client, struct dz_err *err)
{
    struct start s = {.c = c,
                      .data = data,
                      .url = url,
                      .proc = DZ_OS_PROC_NONE,
                      .until_ms = dz_clock_mono_ms() + READY_MS};
    DZ_AUTO(dz_fd_close) int lock = -1;
    DZ_AUTO(dz_fd_close) int watch = -1;
    bool there = false;
    int rc = may_start(&s, err);
    if (rc == 0)
        rc = take_turn(&s, &lock, err);
    if (rc < 0)
        return rc;
    watch = s.watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watch < 0 || inotify_add_watch(watch, data, IN_CREATE) < 0)
        return dz_fail_sys(err, errno, "watch %s", data);
    while (rc == 0 && (rc = is_ready(&s, &there, ret_client, err)) == 0) {
        if (!there && s.proc.pidfd < 0)
            rc = spawn(&s, err);
        if (rc == 0)
            rc = wait_for_change(&s, err);
    }
    dz_fd_close(&s.proc.pidfd); /* the daemon outlives this command */
    return rc < 0 ? rc : 0;
}

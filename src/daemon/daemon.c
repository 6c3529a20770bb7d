/* SPDX-License-Identifier: MIT
 *
 * daemon.c - start, serve, drain.
 *
 * The order of the start matters: the pool of cells is forked before there is a thread,
 * a lock or a socket that it could inherit; the data directory is locked before anything
 * in it is read; what an earlier daemon left is put right before anybody may ask; and the
 * socket is there only once it answers.
 */
#include "daemon/daemon.h"

#include "api/api.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "cell/cell_pool.h"
#include "engine/engine.h"
#include "http/http.h"
#include "loop/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    DRAIN_MS = 30000, /* for all sandboxes to sleep; what is left does so by itself */
};

struct daemon {
    const struct dz_daemon_opts *opts;
    char socket_path[DZ_PATH_MAX];
    int lock_fd;
    struct dz_cell_pool *pool;
    struct dz_loop *loop;
    struct dz_engine *engine;
    struct dz_api *api;
    struct dz_signal *term, *interrupt;
    bool stopping;
};

/* --- the end -------------------------------------------------------------------------- */

static void on_drained(void *arg, size_t left)
{
    struct daemon *d = arg;
    dz_log(DZ_LOG_INFO, "daemon_drained", dz_log_uint("awake", left));
    dz_loop_stop(d->loop);
}

static void on_stop(void *arg)
{
    struct daemon *d = arg;
    if (d->stopping)
        return;
    d->stopping = true;
    dz_log(DZ_LOG_INFO, "daemon_stopping");
    dz_http_quiesce(dz_api_http(d->api));
    dz_engine_drain(d->engine, DRAIN_MS, on_drained, d);
}

static void release(struct daemon *d)
{
    if (d->loop)
        dz_loop_settle(d->loop); /* its ends lead to the engine, and to requests */
    dz_api_free(d->api);
    dz_engine_free(d->engine);
    dz_cell_pool_free(d->pool);
    dz_signal_free(d->term);
    dz_signal_free(d->interrupt);
    dz_loop_free(d->loop);
    dz_fd_close(&d->lock_fd);
}

/* --- the start ------------------------------------------------------------------------ */

static int lock(struct daemon *d, struct dz_err *err)
{
    char path[DZ_PATH_MAX], pid[32];
    int rc = dz_fd_mkdirs(AT_FDCWD, d->opts->data_path, 0700, err);
    if (rc == 0 && snprintf(path, sizeof path, "%s/daemon.lock", d->opts->data_path) >= DZ_PATH_MAX)
        rc = dz_fail(err, DZ_ELIMIT, "the path of the data directory is too long");
    if (rc == 0)
        rc = d->lock_fd = dz_fd_open(AT_FDCWD, path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600, err);
    if (rc >= 0)
        rc = dz_fd_lock(d->lock_fd, DZ_FD_LOCK_EXCLUSIVE, err);
    if (rc == DZ_EBUSY)
        return dz_fail(err, rc, "%s is in use: another daemon runs on it", d->opts->data_path);
    if (rc < 0)
        return rc;
    int n = snprintf(pid, sizeof pid, "%d\n", (int)getpid()); /* for people */
    if (ftruncate(d->lock_fd, 0) < 0)
        return dz_fail_sys(err, errno, "write %s", path);
    return dz_fd_pwrite(d->lock_fd, pid, (size_t)n, 0, err);
}

static int find_socket(struct daemon *d, struct dz_err *err)
{
    const char *given = d->opts->socket_path;
    int n = snprintf(d->socket_path, sizeof d->socket_path, "%s%s",
                     given ? given : d->opts->data_path, given ? "" : "/doze.sock");
    return n < DZ_PATH_MAX ? 0 : dz_fail(err, DZ_ELIMIT, "the path of the socket is too long");
}

static int start_engine(struct daemon *d, struct dz_err *err)
{
    struct dz_err why = {0};
    const struct dz_engine_opts engine = {
        .loop = d->loop,
        .pool = d->pool,
        .data_path = d->opts->data_path,
        .registry = d->opts->registry,
        .ladder = d->opts->ladder,
    };
    int rc = dz_engine_new(&engine, &d->engine, err);
    if (rc < 0)
        return rc;
    if (dz_engine_recover(d->engine, &why) < 0) /* what it hindered is tried again later */
        dz_log(DZ_LOG_WARN, "recovery_incomplete", dz_log_err(&why));
    const struct dz_api_opts api = {.loop = d->loop, .engine = d->engine, .tenant = "default"};
    return dz_api_new(&api, &d->api, err);
}

static int start(struct daemon *d, struct dz_err *err)
{
    const struct dz_cell_pool_opts pool = {.ahead = d->opts->ahead};
    int rc = find_socket(d, err);
    if (rc == 0)
        rc = dz_cell_pool_new(&pool, &d->pool, err);
    if (rc == 0)
        rc = lock(d, err);
    if (rc == 0)
        rc = dz_loop_new(&d->loop, err);
    if (rc == 0)
        rc = dz_signal_new(d->loop, SIGTERM, on_stop, d, &d->term, err);
    if (rc == 0)
        rc = dz_signal_new(d->loop, SIGINT, on_stop, d, &d->interrupt, err);
    if (rc == 0)
        rc = start_engine(d, err);
    return rc < 0 ? rc : dz_http_listen_unix(dz_api_http(d->api), d->socket_path, err);
}

int dz_daemon_run(const struct dz_daemon_opts *opts, struct dz_err *err)
{
    struct daemon d = {.opts = opts, .lock_fd = -1};
    (void)signal(SIGPIPE, SIG_IGN);
    dz_mem_one_heap(); /* workers call cells */
    int rc = start(&d, err);
    if (rc == 0) {
        dz_log(DZ_LOG_INFO, "daemon_ready", dz_log_strz("socket", d.socket_path),
               dz_log_int("pid", getpid()));
        rc = dz_loop_run(d.loop, err);
    }
    release(&d);
    dz_log(DZ_LOG_INFO, "daemon_stopped");
    return rc;
}

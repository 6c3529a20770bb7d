/* SPDX-License-Identifier: MIT
 *
 * os_run.c - run to the end, keeping the output. One poll loop over two pipes and the pidfd. The
 * program is a tree, so when the pidfd answers, nobody is left who could write, and what is in the
 * pipes is all there will ever be: a background process that keeps standard output open cannot hold
 * us up.
 *
 * The input is a file in memory rather than a pipe: nothing to be written while
 * we read, and no SIGPIPE when the child does not want it.
 *
 *     RUNNING ──deadline──▶ ASKED (SIGTERM, when grace_ms > 0) ──grace──▶ KILLED
 */
#include "os/os_proc_int.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#define READ_SIZE      16384
#define READS_PER_TURN 16
#define LAST_TURNS     8 /* enough for the largest pipe, 1 MiB by default */

enum phase {
    RUNNING,
    ASKED,
    KILLED,
};

struct stream {
    int read_fd; /* -1: at its end */
    int write_fd;
    struct dz_buf *kept;
    bool *truncated;
};

struct run {
    const struct dz_os_run_opts *opts;
    struct dz_os_run_result *result;
    int input;
    struct stream out;
    struct stream err; /* unused when merged */
    struct dz_os_proc proc;
    enum phase phase;
    int64_t deadline_ms;
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static void release(struct run *r)
{
    dz_os_proc_close(&r->proc);
    close_fd(&r->input);
    close_fd(&r->out.read_fd);
    close_fd(&r->out.write_fd);
    close_fd(&r->err.read_fd);
    close_fd(&r->err.write_fd);
}

static int open_stream(struct stream *s, struct dz_err *err)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return dz_fail_sys(err, errno, "make a pipe");
    s->read_fd = pair[0];
    s->write_fd = pair[1];
    if (fcntl(s->read_fd, F_SETFL, O_NONBLOCK) < 0)
        return dz_fail_sys(err, errno, "set up a pipe");
    return 0;
}

static int open_input(struct run *r, struct dz_err *err)
{
    const char *data = r->opts->input;
    size_t left = r->opts->input_size;
    assert(left <= DZ_OS_INPUT_MAX);
    r->input =
        data ? memfd_create("doze-input", MFD_CLOEXEC) : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (r->input < 0)
        return dz_fail_sys(err, errno, "open the input of a program");
    while (data && left > 0) {
        ssize_t n = write(r->input, data, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dz_fail_sys(err, errno, "write the input of a program");
        data += n;
        left -= (size_t)n;
    }
    if (data && lseek(r->input, 0, SEEK_SET) < 0)
        return dz_fail_sys(err, errno, "rewind the input of a program");
    return 0;
}

static int start(struct run *r, struct dz_err *err)
{
    const struct dz_os_run_opts *o = r->opts;
    int rc = open_input(r, err);
    if (rc == 0)
        rc = open_stream(&r->out, err);
    if (rc == 0 && !o->merge)
        rc = open_stream(&r->err, err);
    if (rc < 0)
        return rc;
    struct dz_os_fd fds[] = {{STDIN_FILENO, r->input},
                             {STDOUT_FILENO, r->out.write_fd},
                             {STDERR_FILENO, o->merge ? r->out.write_fd : r->err.write_fd}};
    struct dz_os_spawn_opts spawn = {.argv = o->argv,
                                     .env = o->env,
                                     .cwd = o->cwd,
                                     .fds = fds,
                                     .fd_count = DZ_ARRAY_LEN(fds),
                                     .tree = true};
    rc = dz_os_spawn(&spawn, &r->proc, err);
    close_fd(&r->input);
    close_fd(&r->out.write_fd);
    close_fd(&r->err.write_fd);
    return rc;
}

/* Keep what fits, drop the rest. */
static int keep(struct stream *s, const char *data, size_t n)
{
    size_t room = s->kept->max - s->kept->len;
    if (n > room) {
        *s->truncated = true;
        n = room;
    }
    dz_buf_add(s->kept, data, n);
    return s->kept->err;
}

/* Read what is there now, but no more than that from a child that writes faster than we read.
 * Closes the stream at its end. */
static int drain(struct stream *s)
{
    char data[READ_SIZE];
    for (int turn = 0; turn < READS_PER_TURN && s->read_fd >= 0; turn++) {
        ssize_t n = read(s->read_fd, data, sizeof data);
        if (n > 0) {
            int rc = keep(s, data, (size_t)n);
            if (rc < 0)
                return rc;
        } else if (n < 0 && errno == EAGAIN) {
            break;
        } else if (n == 0 || errno != EINTR) {
            close_fd(&s->read_fd);
        }
    }
    return 0;
}

static void time_is_up(struct run *r)
{
    r->result->timed_out = true;
    if (r->phase == RUNNING && r->opts->grace_ms > 0 &&
        dz_os_proc_signal(&r->proc, SIGTERM, NULL) == 0) {
        r->phase = ASKED;
        r->deadline_ms = dz_os_deadline(r->opts->grace_ms);
    } else {
        r->phase = KILLED;
        r->deadline_ms = -1;
        dz_os_proc_kill(&r->proc);
    }
}

static int pump(struct run *r, struct dz_err *err)
{
    bool ended = false;
    while (!ended) {
        struct pollfd fds[] = {{.fd = r->out.read_fd, .events = POLLIN},
                               {.fd = r->err.read_fd, .events = POLLIN},
                               {.fd = r->proc.pidfd, .events = POLLIN}};
        int n = poll(fds, DZ_ARRAY_LEN(fds), dz_os_poll_timeout(r->deadline_ms));
        if (n < 0 && errno != EINTR)
            return dz_fail_sys(err, errno, "wait for %s", r->opts->argv[0]);
        if (r->deadline_ms >= 0 && dz_clock_mono_ms() >= r->deadline_ms)
            time_is_up(r);
        if (drain(&r->out) < 0 || drain(&r->err) < 0)
            return dz_fail(err, DZ_ENOMEM, "run %s: no memory for its output", r->opts->argv[0]);
        ended = n > 0 && fds[2].revents;
    }
    return 0;
}

/* All processes are dead: read what the pipes still hold. There is a limit in case a program with
 * more rights than ours has escaped and goes on writing. */
static int drain_rest(struct run *r, struct dz_err *err)
{
    for (int turn = 0; turn < LAST_TURNS; turn++)
        if (drain(&r->out) < 0 || drain(&r->err) < 0)
            return dz_fail(err, DZ_ENOMEM, "run %s: no memory for its output", r->opts->argv[0]);
    return 0;
}

int dz_os_run(const struct dz_os_run_opts *o, struct dz_os_run_result *ret_result,
              struct dz_err *err)
{
    struct dz_os_run_result result = {.out = DZ_BUF_INIT(o->out_max),
                                      .err = DZ_BUF_INIT(o->err_max)};
    struct run r = {.opts = o,
                    .result = &result,
                    .input = -1,
                    .out = {-1, -1, &result.out, &result.out_truncated},
                    .err = {-1, -1, &result.err, &result.err_truncated},
                    .proc = DZ_OS_PROC_NONE,
                    .deadline_ms = -1};
    assert(o->argv && o->argv[0]);
    int rc = start(&r, err);
    if (o->timeout_ms > 0)
        r.deadline_ms = dz_os_deadline(o->timeout_ms);
    if (rc == 0)
        rc = pump(&r, err);
    if (rc == 0)
        rc = drain_rest(&r, err);
    if (rc == 0)
        rc = dz_os_proc_wait(&r.proc, -1, &result.status, err);
    release(&r);
    if (rc < 0)
        dz_os_run_result_release(&result);
    else
        *ret_result = result;
    return rc;
}

void dz_os_run_result_release(struct dz_os_run_result *r)
{
    dz_buf_release(&r->out);
    dz_buf_release(&r->err);
}

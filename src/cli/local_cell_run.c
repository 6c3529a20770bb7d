/* SPDX-License-Identifier: MIT
 *
 * local_cell_run.c - connect standard streams to a cell, and return the exit status.
 *
 * One poll waits for the cell, our input and a signalfd. Signals from the user go to the first
 * process inside, as `docker run` does. On a terminal ^C is sent as a byte, and a change of the
 * terminal's size is forwarded. Our terminal is in raw mode meanwhile and is always restored.
 */
#include "cli/local_cell.h"

#include "base/clock.h"
#include "base/fd.h"
#include "cli/cli_term.h"
#include "cli/local_control.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

enum {
    INPUT_STEP = 16384,
    LAST_WORDS_MS = 2000, /* time for a cell to exit after its time limit */
};

struct relay {
    struct dz_cell *cell;
    struct dz_cli *cli;
    uint32_t exec; /* the main command in the cell */
    bool ephemeral;
    bool input, tty, over, failed, timed_out, keep;
    bool exited, suspending; /* the main command has ended; the machine is being suspended */
    int signals, status;
    int stop_signal;              /* what SIGTERM becomes; 0: it stays */
    int64_t deadline, suspend_at; /* 0: none */
    const char *file;
    int trace_fd;                  /* -1: standard error */
    struct dz_cli_control control; /* another process may request a copy */
    struct termios saved;
    bool raw;
};

/* --- the terminal -------------------------------------------------------------------------- */

static void terminal_raw(struct relay *r)
{
    struct termios t;
    if (!r->tty || tcgetattr(STDIN_FILENO, &r->saved) < 0)
        return;
    t = r->saved;
    cfmakeraw(&t);
    r->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &t) == 0;
}

static void terminal_back(const struct relay *r)
{
    if (r->raw)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &r->saved);
}

static int send_size(const struct relay *r, struct dz_err *err)
{
    struct winsize w;
    if (!r->tty || ioctl(STDIN_FILENO, TIOCGWINSZ, &w) < 0 || !w.ws_row || !w.ws_col)
        return 0;
    return dz_cell_exec_resize(r->cell, r->exec, w.ws_row, w.ws_col, err);
}

/* --- events of the cell ---------------------------------------------------------------------- */

/* The exit status for a program that could not be started, as a shell's. */
static int failed(struct dz_cli *cli, const struct dz_cell_event *e)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(1 << 16);
    dz_cli_escape(&text, dz_str(e->text));
    dz_cli_warn(cli, "%s", text.p);
    if (e->type != DZ_CELL_EXEC_FAILED)
        return DZ_EXIT_RUN_FAILED;
    if (e->code == DZ_ENOENT)
        return DZ_EXIT_NOT_FOUND;
    return e->code == DZ_EINVAL || e->code == DZ_EDENIED ? DZ_EXIT_NOT_EXECUTABLE
                                                         : DZ_EXIT_RUN_FAILED;
}

/* The machine could not run, or could not be suspended: the run has failed. */
static void give_up(struct relay *r, const struct dz_cell_event *e)
{
    r->over = r->failed = true;
    r->status = failed(r->cli, e);
}

/* The main command has ended. A cell with a file is not done before it has closed the file. */
static void on_exited(struct relay *r, const struct dz_cell_event *e)
{
    r->exited = true;
    r->over = r->ephemeral;
    r->status = e->signal ? DZ_EXIT_SIGNAL + e->signal : e->exit_code;
    if (*e->text)
        dz_cli_warn(r->cli, "%s", e->text);
}

static void on_suspended(struct relay *r)
{
    r->over = true;
    if (r->exited)
        return;
    r->status = DZ_EXIT_ASLEEP;
    if (!r->cli->quiet)
        dz_cli_warn(r->cli, "suspended: `doze resume %s` resumes it", r->file);
}

static int on_output(const struct relay *r, const struct dz_cell_event *e, struct dz_err *err)
{
    int rc = e->stream == DZ_CELL_TRACE
                 ? dz_cli_put_trace(r->trace_fd, dz_str_n((const char *)e->data, e->size), err)
                 : dz_fd_write(e->stream == DZ_CELL_STDERR ? STDERR_FILENO : STDOUT_FILENO, e->data,
                               e->size, err);
    (void)dz_cell_exec_ack(r->cell, r->exec, e->size, NULL); /* it may have ended meanwhile */
    return rc < 0 ? rc : 0;
}

static int on_event(struct relay *r, const struct dz_cell_event *e, struct dz_err *err)
{
    switch (e->type) {
    case DZ_CELL_OUTPUT:
        return on_output(r, e, err);
    case DZ_CELL_EXITED:
        if (e->exec == r->exec)
            on_exited(r, e);
        return 0;
    case DZ_CELL_SUSPENDED:
        on_suspended(r);
        return 0;
    case DZ_CELL_AWAKE:
        r->suspending = false;
        dz_cli_warn(r->cli, "cannot be suspended and keeps running: %s", e->text);
        return 0;
    case DZ_CELL_COPIED:
        dz_cli_control_answer(&r->control, e->count, e->code, e->text);
        return 0;
    case DZ_CELL_LOST:
        dz_cli_warn(r->cli, "memory_lost: the sandbox in %s had crashed; it starts from its files",
                    r->file);
        return 0;
    case DZ_CELL_FULL:
    case DZ_CELL_FAILED:
    case DZ_CELL_EXEC_FAILED:
        give_up(r, e);
        return 0;
    case DZ_CELL_READY:
    case DZ_CELL_UP:
    case DZ_CELL_LIVE:
    case DZ_CELL_STARTED:
    case DZ_CELL_WINDOW_OPEN:
    case DZ_CELL_ACTIVITY:
    case DZ_CELL_NOTHING:
    case DZ_CELL_OP_DATA:
    case DZ_CELL_OP_WINDOW_OPEN:
    case DZ_CELL_OP_DONE:
    case DZ_CELL_NET_ANSWER: /* its start has no connections to the outside */
    case DZ_CELL_NET_PORTS:
    case DZ_CELL_NET_CONNECT:
    case DZ_CELL_NET_CLOSED:
    case DZ_CELL_NET_REST:
    case DZ_CELL_NET_QUERY:
    case DZ_CELL_GONE:
        return 0;
    }
    return 0;
}

static int on_events(struct relay *r, struct dz_err *err)
{
    struct dz_cell_event e;
    int rc = 0;
    while (!r->over && rc >= 0) {
        rc = dz_cell_receive(r->cell, &e, err);
        if (rc <= 0)
            return rc;
        rc = on_event(r, &e, err);
    }
    return rc;
}

static int forward_input(struct relay *r, struct dz_err *err)
{
    char step[INPUT_STEP];
    size_t room = dz_cell_exec_window(r->cell, r->exec);
    ssize_t n = read(STDIN_FILENO, step, room < sizeof step ? room : sizeof step);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (n <= 0) {
        r->input = false;
        return dz_cell_exec_input_end(r->cell, r->exec, err);
    }
    for (ssize_t at = 0; at < n;) { /* input that is longer than a frame takes several */
        int64_t took = dz_cell_exec_input(r->cell, r->exec, step + at, (size_t)(n - at), err);
        if (took < 0)
            return (int)took;
        if (took == 0 && dz_cell_drain(r->cell, err) < 0)
            return err->code;
        at += took;
    }
    return 0;
}

static int suspend(struct relay *r, struct dz_err *err)
{
    r->suspending = true;
    return dz_cell_suspend(r->cell, false, err);
}

/* While the machine is being suspended, or has ended, input and signals are dropped. */
static int send_signal(const struct relay *r, int signo, struct dz_err *err)
{
    return r->suspending || r->exited ? 0
                                      : dz_cell_exec_signal(r->cell, r->exec, signo, false, err);
}

static int forward_signal(struct relay *r, struct dz_err *err)
{
    struct signalfd_siginfo info;
    if (read(r->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return 0;
    if (info.ssi_signo == SIGWINCH)
        return send_size(r, err);
    if (r->keep && info.ssi_signo == SIGTERM)
        return suspend(r, err);
    const int signo = (int)info.ssi_signo;
    return send_signal(r, signo == SIGTERM && r->stop_signal ? r->stop_signal : signo, err);
}

/* Another process requests a copy of the machine. */
static int on_request(struct relay *r, struct dz_err *err)
{
    int fds[2];
    if (!dz_cli_control_accept(&r->control, fds))
        return 0;
    int rc = dz_cell_snapshot(r->cell, fds[0], err);
    (void)close(fds[0]);
    (void)close(fds[1]);
    return rc;
}

/* --- the loop --------------------------------------------------------------------------------- */

static int open_signals(struct dz_err *err)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGQUIT);
    (void)sigaddset(&set, SIGHUP);
    (void)sigaddset(&set, SIGUSR1);
    (void)sigaddset(&set, SIGUSR2);
    (void)sigaddset(&set, SIGWINCH);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return dz_fail_sys(err, errno, "block signals");
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? dz_fail_sys(err, errno, "open a descriptor for signals") : fd;
}

/* The time limit has expired: kill the programs, and soon afterwards the cell. */
static int time_is_over(struct relay *r, struct dz_err *err)
{
    if (r->timed_out)
        return dz_fail(err, DZ_ETIMEOUT, "the cell did not exit in time and was killed");
    r->timed_out = true;
    r->deadline = dz_clock_boot_ns() + LAST_WORDS_MS * DZ_NS_PER_MS;
    dz_cli_warn(r->cli, "stopped: it ran longer than its --timeout");
    return send_signal(r, SIGKILL, err);
}

/* Suspend or kill when the time for that has come. Returns the milliseconds until the next
 * deadline, -1 for none. */
static int64_t due(struct relay *r, int *rc, struct dz_err *err)
{
    int64_t now = dz_clock_boot_ns(), next = INT64_MAX;
    if (r->suspend_at && now >= r->suspend_at) {
        r->suspend_at = 0;
        *rc = suspend(r, err);
    }
    if (*rc >= 0 && r->deadline && now >= r->deadline)
        *rc = time_is_over(r, err);
    next = r->suspend_at ? r->suspend_at : next;
    next = r->deadline && r->deadline < next ? r->deadline : next;
    return next == INT64_MAX ? -1 : (next - now) / DZ_NS_PER_MS + 1;
}

static int relay(struct relay *r, struct dz_err *err)
{
    int rc = 0;
    while (rc >= 0 && !r->over) {
        bool listen = r->input && !r->exited && dz_cell_exec_window(r->cell, r->exec) > 0;
        int asked = r->control.client < 0 ? r->control.listener : -1;
        struct pollfd p[] = {{.fd = dz_cell_fd(r->cell), .events = dz_cell_poll_events(r->cell)},
                             {.fd = r->signals, .events = POLLIN},
                             {.fd = listen ? STDIN_FILENO : -1, .events = POLLIN},
                             {.fd = asked, .events = POLLIN}};
        int64_t left = due(r, &rc, err);
        if (rc >= 0 && poll(p, DZ_ARRAY_LEN(p), left > INT32_MAX ? INT32_MAX : (int)left) < 0 &&
            errno != EINTR)
            rc = dz_fail_sys(err, errno, "wait for the cell");
        if (rc >= 0 && p[1].revents)
            rc = forward_signal(r, err);
        if (rc >= 0 && p[2].revents)
            rc = forward_input(r, err);
        if (rc >= 0 && p[3].revents)
            rc = on_request(r, err);
        if (rc >= 0 && (p[0].revents & POLLOUT))
            rc = dz_cell_flush(r->cell, err);
        if (rc >= 0 && (p[0].revents & ~POLLOUT))
            rc = on_events(r, err);
        else if (rc < 0) /* the cell is gone; it may have sent the reason */
            (void)on_events(r, NULL);
    }
    return r->over ? r->status : rc;
}

/* Bring up the machine, with a new main command or the one that sleeps. All frames are sent at
 * once. */
static int begin(struct relay *r, const struct dz_cli_cell *c, struct dz_err *err)
{
    int rc = dz_cell_go(c->cell, err);
    if (rc == 0 && c->main.argv)
        return dz_cell_exec(c->cell, &c->main, &r->exec, err);
    r->exec = 1; /* the sleeper that dz_cli_cell_open() named */
    return rc < 0 ? rc : dz_cell_exec_attach(c->cell, r->exec, DZ_CELL_UNSENT, err);
}

int dz_cli_cell_run(struct dz_cli_cell *c, struct dz_cli *cli, struct dz_err *err)
{
    struct relay r = {.cell = c->cell,
                      .cli = cli,
                      .ephemeral = c->start.ephemeral,
                      .tty = c->main.tty,
                      .keep = c->keep,
                      .stop_signal = c->stop_signal,
                      .file = c->file,
                      .trace_fd = c->trace_fd,
                      .control = DZ_CLI_CONTROL_INIT};
    r.input = c->main.open_stdin;
    r.deadline = c->timeout_ns ? dz_clock_boot_ns() + c->timeout_ns : 0;
    r.suspend_at = c->suspend_ns ? dz_clock_boot_ns() + c->suspend_ns : 0;
    int rc = r.signals = open_signals(err);
    if (rc >= 0)
        rc = begin(&r, c, err);
    if (rc < 0)
        return dz_cli_cell_why(c, cli, rc, err);
    if (c->keep)
        dz_cli_control_listen(&r.control, c->start.disk_fd);
    (void)fflush(cli->out);
    terminal_raw(&r);
    rc = send_size(&r, err);
    if (rc >= 0)
        rc = relay(&r, err);
    c->failed = r.failed;
    terminal_back(&r);
    dz_fd_close(&r.signals);
    dz_cli_control_release(&r.control);
    if (rc == DZ_EXIT_ASLEEP) { /* the cell still checkpoints the WAL into the file */
        dz_cell_free(c->cell);
        c->cell = NULL;
    }
    return rc;
}

int dz_cli_cell_why(struct dz_cli_cell *c, struct dz_cli *cli, int rc, struct dz_err *err)
{
    struct dz_cell_event e;
    struct dz_err why;
    c->failed = true;
    while (c->cell && dz_cell_receive(c->cell, &e, &why) > 0)
        if (e.type == DZ_CELL_FAILED)
            return failed(cli, &e);
    (void)err;
    return rc;
}

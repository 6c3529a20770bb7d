/* SPDX-License-Identifier: MIT
 *
 * Connect a command in a sandbox to our standard streams, over a WebSocket: binary frames carry
 * input and output, text frames carry everything else.
 *
 * One poll waits for the socket, standard input and a signalfd. Signals to doze are forwarded to
 * the command; on a terminal ^C is sent as a byte, and changes of the terminal's size are
 * forwarded. The terminal is in raw mode meanwhile and is always restored.
 *
 * The daemon accepts no message before it has sent `start`. Until then input is not read, and
 * signals are kept and sent later. A second signal before `start` ends doze and cancels the start.
 *
 * If the connection ends before the command does, doze reconnects and attaches at the offset where
 * the output stopped. This works because the command lives in the sandbox, not in the connection,
 * and also if the daemon has been replaced.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "cli/cli_remote.h"
#include "cli/cli_term.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

enum {
    INPUT_STEP = 16384,
    QUEUE_MARK = 256 << 10, /* unsent bytes of input at which reading stops */
    AGAIN_MS = 10000,       /* how long to retry a lost connection */
    AGAIN_STEP_MS = 200,
    KEPT_SIGNALS = 8,
};

struct session {
    struct dz_cli *cli;
    struct dz_cli_session *s;
    struct dz_client *client;
    struct dz_client_ws *ws;
    int signals, status;
    bool input, over, raw;
    bool fresh;   /* the connection is new: no poll reports frames that were read with its answer */
    bool started; /* on this connection */
    int kept[KEPT_SIGNALS], kept_count;
    struct termios saved;
};

/* --- the terminal -------------------------------------------------------------------------- */

static void terminal_raw(struct session *x)
{
    struct termios t;
    if (!x->s->tty || x->raw || tcgetattr(STDIN_FILENO, &x->saved) < 0)
        return;
    t = x->saved;
    cfmakeraw(&t);
    x->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &t) == 0;
}

static void terminal_back(struct session *x)
{
    if (x->raw)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &x->saved);
    x->raw = false;
}

/* --- to the command ------------------------------------------------------------------------ */

/* Send a text frame. Takes the reference to j. */
static int send_json(struct session *x, json_t *j, struct dz_err *err)
{
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    if (!text)
        return dz_fail(err, DZ_ENOMEM, "talk to the daemon: out of memory");
    int rc = dz_client_ws_send(x->ws, true, dz_str(text), err);
    free(text); /* jansson's */
    return rc;
}

static int send_size(struct session *x, struct dz_err *err)
{
    struct winsize w;
    if (!x->s->tty || ioctl(STDIN_FILENO, TIOCGWINSZ, &w) < 0 || !w.ws_row || !w.ws_col)
        return 0;
    return send_json(
        x, json_pack("{s:s,s:i,s:i}", "type", "resize", "cols", w.ws_col, "rows", w.ws_row), err);
}

static int forward_input(struct session *x, struct dz_err *err)
{
    char step[INPUT_STEP];
    ssize_t n = read(STDIN_FILENO, step, sizeof step);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (n > 0)
        return dz_client_ws_send(x->ws, false, dz_str_n(step, (size_t)n), err);
    x->input = false;
    return send_json(x, json_pack("{s:s}", "type", "close_stdin"), err);
}

static int send_signal(struct session *x, int sig, struct dz_err *err)
{
    return send_json(x, json_pack("{s:s,s:s}", "type", "signal", "signal", sigabbrev_np(sig)), err);
}

static void close_socket(struct session *x)
{
    dz_client_ws_close(x->ws);
    dz_client_close(x->client);
    x->ws = NULL;
    x->client = NULL;
    x->started = false;
}

/* Die by the signal itself, as if doze had not caught it. */
static void die_by(struct session *x, int sig)
{
    sigset_t set;
    terminal_back(x);
    close_socket(x); /* the daemon cancels a command that has not started */
    (void)sigemptyset(&set);
    (void)sigaddset(&set, sig);
    (void)signal(sig, SIG_DFL);
    (void)raise(sig);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static bool asks_to_end(int sig)
{
    return sig == SIGINT || sig == SIGTERM || sig == SIGQUIT || sig == SIGHUP;
}

/* Keep a signal that arrives before start; a second one that asks to terminate ends doze. */
static void keep_signal(struct session *x, int sig)
{
    for (int i = 0; asks_to_end(sig) && i < x->kept_count; i++)
        if (asks_to_end(x->kept[i]))
            die_by(x, sig);
    if (x->kept_count < KEPT_SIGNALS)
        x->kept[x->kept_count++] = sig;
    if (asks_to_end(sig))
        dz_cli_warn(x->cli,
                    "the command has not started yet and gets SIG%s when it does; a second signal "
                    "ends doze at once",
                    sigabbrev_np(sig));
}

static int forward_signal(struct session *x, struct dz_err *err)
{
    struct signalfd_siginfo info;
    if (read(x->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return 0;
    int sig = (int)info.ssi_signo;
    if (!x->started && sig != SIGWINCH)
        keep_signal(x, sig);
    if (!x->started)
        return 0;
    return sig == SIGWINCH ? send_size(x, err) : send_signal(x, sig, err);
}

/* --- from the command ------------------------------------------------------------------------ */

static int signal_number(const char *name)
{
    for (int i = 1; i < NSIG; i++)
        if (sigabbrev_np(i) && strcmp(sigabbrev_np(i), name) == 0)
            return i;
    return SIGKILL;
}

static int on_exited(struct session *x, json_t *m)
{
    const json_t *code = json_object_get(m, "exit_code");
    const char *limit = dz_cli_text(x->s->request, "timeout");
    bool late = json_is_true(json_object_get(m, "timed_out"));
    const char *why = dz_cli_text(m, "reason");
    x->over = true;
    x->status = json_is_integer(code) ? (int)json_integer_value(code)
                                      : DZ_EXIT_SIGNAL + signal_number(dz_cli_text(m, "signal"));
    terminal_back(x);
    if (late)
        x->status = DZ_EXIT_TIMED_OUT;
    if (late)
        dz_cli_warn(x->cli, "the command was stopped: it ran longer than its time limit%s%s",
                    limit[0] ? ", --timeout " : "", limit);
    else if (why[0])
        dz_cli_warn(x->cli, "%s", why);
    if (x->s->kept)
        x->s->kept->exit = json_incref(m);
    return 0;
}

static int on_error(struct session *x, const json_t *m, struct dz_err *err)
{
    int rc = dz_client_problem_of(x->client, m, 0, err);
    const char *reason = dz_client_problem(x->client)->reason;
    x->s->failed = strcmp(reason, "no_program") == 0    ? DZ_EXIT_NOT_FOUND
                   : strcmp(reason, "not_program") == 0 ? DZ_EXIT_NOT_EXECUTABLE
                                                        : DZ_EXIT_RUN_FAILED;
    return rc;
}

/* The size may have changed since the request. */
static int on_start(struct session *x, const json_t *m, struct dz_err *err)
{
    (void)snprintf(x->s->exec_id, sizeof x->s->exec_id, "%s", dz_cli_text(m, "exec_id"));
    x->started = true;
    terminal_raw(x); /* only now, because ^C must be a signal while doze waits for the start */
    int rc = send_size(x, err);
    for (int i = 0; rc == 0 && i < x->kept_count; i++)
        rc = send_signal(x, x->kept[i], err);
    x->kept_count = 0;
    return rc;
}

static int on_text(struct session *x, struct dz_str data, struct dz_err *err)
{
    json_t *m = json_loadb(data.p, data.n, 0, NULL);
    const char *type = dz_cli_text(m, "type");
    int rc = 0;
    if (strcmp(type, "start") == 0)
        rc = on_start(x, m, err);
    else if (strcmp(type, "exit") == 0)
        rc = on_exited(x, m);
    else if (strcmp(type, "error") == 0)
        rc = on_error(x, m, err);
    json_decref(m);
    return rc;
}

/* Keep output up to the limit; drop the rest and note that. */
static void keep(struct dz_cli_kept *k, struct dz_str data)
{
    struct dz_buf *b = &k->out[data.p[0] == 2 ? 1 : data.p[0] == 3 ? 2 : 0];
    size_t room = b->max - b->len, n = data.n - 1;
    dz_buf_add(b, data.p + 1, n < room ? n : room);
    k->truncated = k->truncated || n > room || b->err;
}

static int on_message(void *arg, bool text, struct dz_str data, struct dz_err *err)
{
    struct session *x = arg;
    if (text)
        return on_text(x, data, err);
    if (data.n == 0)
        return 0;
    x->s->offset += data.n - 1;
    if (x->s->kept) {
        keep(x->s->kept, data);
        return 0;
    }
    if (data.p[0] == 3)
        return dz_cli_put_trace(x->s->trace_fd, dz_str_n(data.p + 1, data.n - 1), err);
    return dz_fd_write(data.p[0] == 2 ? STDERR_FILENO : STDOUT_FILENO, data.p + 1, data.n - 1, err);
}

/* --- connecting ------------------------------------------------------------------------------- */

static int open_socket(struct session *x, struct dz_err *err)
{
    static const struct dz_client_ws_ops ops = {.message = on_message};
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    bool attach = x->s->exec_id[0];
    char offset[24];
    (void)snprintf(offset, sizeof offset, "%llu", (unsigned long long)x->s->offset);
    if (attach)
        dz_client_target(&target, "/v1/sandboxes/{}/exec/{}/output?offset={}", x->s->sandbox,
                         x->s->exec_id, offset);
    else
        dz_client_target(&target, "/v1/sandboxes/{}/exec", x->s->sandbox);
    int rc = dz_cli_remote(x->cli, &x->client, err);
    if (rc == 0)
        rc = dz_client_ws_open(x->client, target.p, &ops, x, &x->ws, err);
    x->fresh = true;
    if (rc == 0 && !attach)
        rc = send_json(x, json_incref(x->s->request), err);
    return rc;
}

/* The connection was lost: try to reconnect for a while. Fails if the command's start had not been
 * reported or if input was in transit, because then it is unknown what arrived. */
static int again(struct session *x, struct dz_err *err)
{
    int64_t until = dz_clock_mono_ms() + AGAIN_MS;
    struct pollfd p = {.fd = x->signals, .events = POLLIN};
    bool known = x->s->exec_id[0], unsent = x->ws && dz_client_ws_queued(x->ws) > 0;
    close_socket(x);
    if (!known || unsent)
        return DZ_EGONE; /* err has the reason */
    for (;;) {
        int rc = open_socket(x, err);
        bool answered = x->client && dz_client_problem(x->client)->status == 404;
        if (answered || (rc != DZ_ENOENT && rc != DZ_EGONE && rc != DZ_EBUSY))
            return rc;
        close_socket(x);
        if (dz_clock_mono_ms() > until)
            return rc;
        if (poll(&p, 1, AGAIN_STEP_MS) > 0) /* the user sent a signal */
            return dz_fail(err, DZ_ECANCELED, "interrupted while the daemon did not answer");
    }
}

/* --- the loop --------------------------------------------------------------------------------- */

static int open_signals(struct dz_err *err)
{
    static const int passed[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH};
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < DZ_ARRAY_LEN(passed); i++)
        (void)sigaddset(&set, passed[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return dz_fail_sys(err, errno, "block signals");
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? dz_fail_sys(err, errno, "open a descriptor for signals") : fd;
}

static int turn(struct session *x, struct dz_err *err)
{
    bool listen = x->input && x->started && dz_client_ws_queued(x->ws) < QUEUE_MARK;
    struct pollfd p[] = {
        {.fd = dz_client_ws_fd(x->ws), .events = dz_client_ws_events(x->ws)},
        {.fd = x->signals, .events = POLLIN},
        {.fd = listen ? STDIN_FILENO : -1, .events = POLLIN},
    };
    int rc = 0, wait_ms = x->fresh ? 0 : -1;
    x->fresh = false;
    if (poll(p, DZ_ARRAY_LEN(p), wait_ms) < 0 && errno != EINTR)
        return dz_fail_sys(err, errno, "wait for the command");
    if (p[1].revents)
        rc = forward_signal(x, err);
    if (rc == 0 && p[2].revents)
        rc = forward_input(x, err);
    if (rc == 0)
        rc = dz_client_ws_io(x->ws, err);
    return rc;
}

static int relay(struct session *x, struct dz_err *err)
{
    int rc = open_socket(x, err);
    while (rc == 0 && !x->over) {
        rc = turn(x, err);
        if (rc == DZ_EGONE && !x->over)
            rc = again(x, err);
    }
    return x->over ? x->status : rc;
}

int dz_cli_session(struct dz_cli *c, struct dz_cli_session *s, struct dz_err *err)
{
    struct session x = {.cli = c, .s = s, .input = s->input, .signals = open_signals(err)};
    if (x.signals < 0)
        return x.signals;
    (void)fflush(c->out);
    int rc = relay(&x, err);
    terminal_back(&x);
    close_socket(&x);
    dz_fd_close(&x.signals);
    return rc;
}

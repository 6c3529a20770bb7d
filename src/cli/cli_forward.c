/* SPDX-License-Identifier: MIT
 *
 * `doze forward`: a local listener, whose connections go to a port of a sandbox through the API.
 *
 * Each connection is a process of its own with a WebSocket to the daemon, so one that waits for its
 * sandbox to wake holds up no other. The processes end with their parent.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/num.h"
#include "cli/cli_remote.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PIECE = 16 << 10,
    QUEUE_MARK = 256 << 10, /* unsent bytes at which reading stops */
};

static int on_message(void *arg, bool text, struct dz_str data, struct dz_err *err)
{
    return text ? 0 : dz_fd_write(*(int *)arg, data.p, data.n, err);
}

/* Copy both ways until the sandbox's side ends. */
static int copy(struct dz_client_ws *ws, int fd, struct dz_err *err)
{
    char piece[PIECE];
    bool reads = true, fresh = true;
    int rc = 0;
    while (rc == 0) {
        const bool listen = reads && dz_client_ws_queued(ws) < QUEUE_MARK;
        struct pollfd p[] = {
            {.fd = dz_client_ws_fd(ws), .events = dz_client_ws_events(ws)},
            {.fd = listen ? fd : -1, .events = POLLIN},
        };
        if (poll(p, DZ_ARRAY_LEN(p), fresh ? 0 : -1) < 0 && errno != EINTR)
            return dz_fail_sys(err, errno, "wait for a connection");
        fresh = false; /* frames may have been read with the answer */
        if (p[1].revents) {
            ssize_t n = recv(fd, piece, sizeof piece, MSG_DONTWAIT);
            if (n > 0)
                rc = dz_client_ws_send(ws, false, dz_str_n(piece, (size_t)n), err);
            else if (n == 0)
                rc = dz_client_ws_send(ws, true, DZ_STR("end"), err);
            else if (errno != EAGAIN && errno != EINTR)
                return 0; /* the local side has reset it */
            reads = n != 0;
        }
        if (rc == 0)
            rc = dz_client_ws_io(ws, err);
    }
    return rc == DZ_EGONE ? 0 : rc;
}

static int serve(struct dz_cli *c, int fd, struct dz_err *err)
{
    static const struct dz_client_ws_ops ops = {.message = on_message};
    DZ_AUTO(dz_client_closep) struct dz_client *client = NULL;
    DZ_AUTO(dz_buf_release) struct dz_buf target = DZ_BUF_INIT(DZ_CLI_TARGET_MAX);
    const char *colon = strrchr(c->argv[1], ':');
    struct dz_client_ws *ws = NULL;
    dz_client_target(&target, "/v1/sandboxes/{}/ports/{}/connect", c->argv[0],
                     colon ? colon + 1 : c->argv[1]);
    int rc = dz_cli_remote(c, &client, err);
    if (rc == 0)
        rc = dz_client_ws_open(client, target.p, &ops, &fd, &ws, err);
    if (rc == 0)
        rc = copy(ws, fd, err);
    dz_client_ws_close(ws);
    return rc;
}

static int listen_at(uint64_t port, uint64_t *ret_port, struct dz_err *err)
{
    const int on = 1;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return dz_fail_sys(err, errno, "open a socket");
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&at, sizeof at) < 0 || listen(fd, SOMAXCONN) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) < 0) {
        int sys = errno;
        dz_fd_close(&fd);
        return dz_fail_sys(err, sys, "listen at 127.0.0.1:%u", (unsigned)port);
    }
    *ret_port = ntohs(at.sin_port);
    return fd;
}

static int accept_all(struct dz_cli *c, int listener, struct dz_err *err)
{
    const pid_t parent = getpid();
    (void)signal(SIGCHLD, SIG_IGN); /* the kernel reaps them */
    (void)signal(SIGPIPE, SIG_IGN);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0)
            return dz_fail_sys(err, errno, "accept a connection");
        pid_t child = fork();
        if (child == 0) {
            struct dz_err failed = {0};
            (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
            if (getppid() != parent)
                _exit(1);
            (void)close(listener);
            const int rc = serve(c, fd, &failed);
            if (rc < 0)
                dz_cli_warn(c, "%s", failed.msg);
            (void)fflush(NULL);
            _exit(rc < 0);
        }
        if (child < 0)
            dz_cli_warn(c, "a connection was refused: no process can be started");
        dz_fd_close(&fd);
    }
}

static int forward(struct dz_cli *c, struct dz_err *err)
{
    struct dz_str rest = dz_str(c->argv[1]), local, port;
    uint64_t from = 0, to = 0;
    json_t *answer = NULL;
    (void)dz_str_split(&rest, ':', &local);
    port = strchr(c->argv[1], ':') ? rest : local;
    if (dz_num_u64(local, 0, 65535, &from, NULL) < 0 || dz_num_u64(port, 1, 65535, &to, NULL) < 0)
        return dz_cli_usage(c, err, "PORT must be PORT or LOCAL:PORT, not %s", c->argv[1]);
    int rc = dz_cli_ask(c, "GET", NULL, &answer, err, "/v1/sandboxes/{}", c->argv[0]);
    json_decref(answer);
    if (rc < 0)
        return rc;
    int fd = listen_at(from, &from, err);
    if (fd < 0)
        return fd;
    (void)fprintf(c->out, "127.0.0.1:%u\n", (unsigned)from);
    (void)fflush(c->out);
    rc = accept_all(c, fd, err);
    dz_fd_close(&fd);
    return rc;
}

const struct dz_cli_command dz_cmd_forward = {
    .name = "forward",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "forward a local port to a port of a sandbox",
    .args = "SANDBOX [LOCAL:]PORT",
    .min_args = 2,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_END},
    .help = DZ_CLI_SANDBOX_HELP
    "Listens at 127.0.0.1:LOCAL (default: PORT; 0: a free port), prints that, and\n"
    "runs until it is ended. The port need not be open (`doze port open`), because\n"
    "the connections have your rights. Each connection wakes the sandbox.\n",
    .run = forward,
};

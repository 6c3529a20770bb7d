/* SPDX-License-Identifier: MIT
 *
 * control_supervise.c - runs the services of sandboxes whose machines are up.
 *
 *   dz_control.supervisors --- id --- supervisor --- set      src/service: what is to happen
 *                                        `---------- units    processes, checks, what is reported
 *
 * A process of a service is a command whose id has the service's name as its label. So the machine
 * itself says which services run in it: after a wake, in a branch and after a restart of the daemon
 * the supervisor looks for these labels (adopt), and reads the records of commands in the file for
 * services whose process has ended meanwhile. While a machine sleeps, no timer runs, and nothing of
 * it is followed. A supervisor is freed then, unless it knows of failures, or a service was
 * starting or stopping.
 *
 * Checks of readiness end when the service is ready. A command that checks is repeated by a shell
 * in the sandbox, so it sleeps with it.
 *
 * Invariant: a unit has a watch exactly while its process runs or starts in a machine that is up,
 * and has been adopted.
 */
#include "control/control_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "control/control_port.h"
#include "runtime/runtime_op.h"
#include "sandbox/sandbox_exec.h"
#include "sandbox/sandbox_file.h"
#include "sandbox/sandbox_net.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    RECORDS = 8 * DZ_CELL_EXECS_KEPT, /* older ones are those of services, and of living commands */
    REPLY_MAX = 64,                   /* bytes of an HTTP answer that are read: its status line */
    LOG_MAX = 256,
};
#define LABEL_READY ".ready" /* of the command that checks, after the service's name */

/* A check by HTTP: the daemon connects to the port as a visitor does. */
struct http_check {
    struct dz_net_delivery *delivery;
    struct dz_poll *poll;
    struct dz_timer *again;
    int fd; /* the daemon's end; -1: none */
    char reply[REPLY_MAX + 1];
    size_t got;
};

struct unit {
    struct supervisor *of;
    size_t slot;
    json_t *spec;
    struct dz_exec_watch *watch; /* its process */
    struct dz_exec_watch *check; /* the command that checks, or its process again, for the output */
    struct http_check http;
    char tail[LOG_MAX]; /* of the output that was searched, shorter than the text */
    size_t tail_size;
    bool found; /* the text was found */
    struct dz_control_service seen;
};

struct supervisor {
    struct dz_control *e;
    struct dz_service_set set;
    struct unit *units[DZ_SERVICE_SLOTS]; /* NULL: the slot is unused */
    struct dz_timer *timer;
    struct dz_loop_task turn;
    struct dz_file_op *records; /* being read */
    uint32_t pending;           /* slots whose record is looked for */
    bool up, adopt;             /* adopt: the machine has woken, and was not looked at yet */
    int64_t slept_at;           /* 0: it never slept */
    char id[DZ_COLD_KEY], tenant[DZ_CONTROL_VALUE_MAX + 1];
};

static void post(struct supervisor *v)
{
    dz_loop_post(v->e->loop, &v->turn);
}

static void note(struct supervisor *v, const char *what, const char *name, const char *text)
{
    const struct dz_instance row = {.id = v->id, .tenant = v->tenant};
    char detail[DZ_SERVICE_NAME_MAX + sizeof((struct unit *)0)->seen.error + 3];
    (void)snprintf(detail, sizeof detail, "%s%s%s", name, text[0] ? ": " : "", text);
    dz_control_note(v->e, &row, what, detail);
}

/* --- the checks --------------------------------------------------------------------------- */

static void http_close(struct http_check *h)
{
    dz_net_delivery_cancel(h->delivery);
    dz_poll_free(h->poll);
    h->delivery = NULL;
    h->poll = NULL;
    dz_fd_close(&h->fd);
}

static void end_check(struct unit *u, bool kill)
{
    if (kill)
        dz_exec_watch_abort(u->check);
    else
        dz_exec_watch_end(u->check);
    u->check = NULL;
    http_close(&u->http);
    dz_timer_free(u->http.again);
    u->http.again = NULL;
}

static struct dz_service *service_of(const struct unit *u)
{
    return &u->of->set.of[u->slot];
}

static void is_ready(struct unit *u)
{
    end_check(u, true);
    if (service_of(u)->status != DZ_SERVICE_READY)
        dz_service_ready(service_of(u));
    u->seen.ready_at = dz_clock_real_ms();
    note(u->of, "service_ready", service_of(u)->name, "");
    post(u->of);
}

static void http_again(struct unit *u)
{
    http_close(&u->http);
    dz_timer_after(u->http.again, json_integer_value(json_object_get(
                                      json_object_get(u->spec, "ready"), "interval_ms")));
}

static void on_http(void *arg, int events)
{
    struct unit *u = arg;
    struct http_check *h = &u->http;
    const json_t *http = json_object_get(json_object_get(u->spec, "ready"), "http");
    ssize_t n = recv(h->fd, h->reply + h->got, REPLY_MAX - h->got, 0);
    (void)events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    h->got += n > 0 ? (size_t)n : 0;
    h->reply[h->got] = '\0';
    /* "HTTP/1.1 200" */
    bool whole = h->got >= 12;
    if (!whole && n > 0)
        return;
    char want[8];
    (void)snprintf(want, sizeof want, "%d",
                   (int)json_integer_value(json_object_get(http, "status")));
    if (whole && strncmp(h->reply, "HTTP/1.", 7) == 0 && strncmp(h->reply + 9, want, 3) == 0)
        is_ready(u);
    else
        http_again(u);
}

static void on_delivered(void *arg, const struct dz_why *why)
{
    struct unit *u = arg;
    struct http_check *h = &u->http;
    const json_t *http = json_object_get(json_object_get(u->spec, "ready"), "http");
    char text[1200];
    h->delivery = NULL;
    int n = snprintf(text, sizeof text,
                     "GET %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: doze\r\n"
                     "Connection: close\r\n\r\n",
                     json_string_value(json_object_get(http, "path")));
    if (why || n < 0 || (size_t)n >= sizeof text ||
        send(h->fd, text, (size_t)n, MSG_NOSIGNAL) != n ||
        dz_poll_new(u->of->e->loop, h->fd, on_http, u, &h->poll, NULL) < 0 ||
        dz_poll_set(h->poll, DZ_POLL_READ, NULL) < 0)
        http_again(u);
}

static void http_try(void *arg)
{
    struct unit *u = arg;
    struct supervisor *v = u->of;
    struct http_check *h = &u->http;
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    const json_t *http = json_object_get(json_object_get(u->spec, "ready"), "http");
    struct dz_why why;
    int ends[2];
    h->got = 0;
    if (dz_registry_get(v->e->registry, v->id, &row, NULL) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
        http_again(u);
        return;
    }
    h->fd = ends[0];
    struct dz_net_deliver d = {
        .port = (uint32_t)json_integer_value(json_object_get(http, "port")),
        .from = {.ip = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}},
        .fd = ends[1],
        .wait_ms = service_of(u)->ready_ms,
        .here = true,
        .done = on_delivered,
        .arg = u,
    };
    if (dz_net_deliver(v->e->sandboxes, &row, &d, &h->delivery, &why) < 0) {
        dz_fd_close(&ends[1]);
        http_again(u);
    }
}

static void on_checked(void *arg, const struct dz_exec_exit *how)
{
    struct unit *u = arg;
    u->check = NULL;
    if (how->exit_code == 0)
        is_ready(u);
    else
        (void)snprintf(u->seen.error, sizeof u->seen.error,
                       "its check of readiness ended with status %d", how->exit_code);
}

static void on_check_failed(void *arg, const struct dz_why *why)
{
    struct unit *u = arg;
    u->check = NULL;
    (void)snprintf(u->seen.error, sizeof u->seen.error, "its check of readiness: %.200s",
                   why->err.msg);
}

/* Run the command again and again in the sandbox, until it succeeds. */
static void check_by_command(struct unit *u, struct dz_sandbox *s, const json_t *ready)
{
    static const struct dz_exec_watch_ops ops = {NULL, NULL, on_checked, on_check_failed};
    const json_t *cmd = json_object_get(ready, "cmd"), *env = json_object_get(u->spec, "env");
    const size_t n = json_array_size(cmd);
    const char **argv = dz_zarray(n + 8, sizeof *argv);
    char *env_json = json_dumps(env, JSON_COMPACT);
    char label[DZ_SERVICE_NAME_MAX + sizeof LABEL_READY], script[80];
    struct dz_why why = {0};
    int64_t ms = json_integer_value(json_object_get(ready, "interval_ms"));
    size_t at = 0;
    (void)snprintf(label, sizeof label, "%s" LABEL_READY, service_of(u)->name);
    (void)snprintf(script, sizeof script, "until \"$@\"; do sleep %lld.%03lld; done",
                   (long long)(ms / 1000), (long long)(ms % 1000));
    if (argv && env_json) {
        argv[at++] = "/bin/sh";
        argv[at++] = "-c";
        argv[at++] = script;
        argv[at++] = "ready";
        for (size_t i = 0; i < n; i++)
            argv[at++] = json_string_value(json_array_get(cmd, i));
        if (n == 0) {
            argv[at++] = "/bin/sh";
            argv[at++] = "-c";
            argv[at++] = json_string_value(json_object_get(ready, "shell"));
        }
        const struct dz_exec_request x = {
            .argv = argv,
            .cwd = json_string_value(json_object_get(u->spec, "cwd")),
            .user = json_string_value(json_object_get(u->spec, "user")),
            .env_json = env_json,
            .timeout_ms = service_of(u)->ready_ms,
            .label = label,
            .unlimited = true,
        };
        if (dz_exec_start_here(s, &x, (struct dz_exec_listener){&ops, u, 0}, &u->check, &why) < 0)
            (void)snprintf(u->seen.error, sizeof u->seen.error, "its check of readiness: %.200s",
                           why.err.msg);
    }
    free(env_json); /* jansson's */
    dz_free(argv);
}

/* Look for the text in new output, which may begin in the output before. */
static void on_log(void *arg, unsigned stream, uint64_t offset, const void *data, size_t n)
{
    struct unit *u = arg;
    const char *text = json_string_value(json_object_get(json_object_get(u->spec, "ready"), "log"));
    const size_t size = text ? strlen(text) : 0;
    char joint[2 * LOG_MAX];
    (void)stream, (void)offset;
    dz_exec_watch_ack(u->check, n);
    if (u->found || size == 0 || size >= LOG_MAX)
        return;
    size_t head = n < LOG_MAX ? n : LOG_MAX;
    memcpy(joint, u->tail, u->tail_size);
    memcpy(joint + u->tail_size, data, head);
    u->found = memmem(joint, u->tail_size + head, text, size) != NULL ||
               memmem(data, n, text, size) != NULL;
    const char *end = n < size ? joint + u->tail_size + head : (const char *)data + n;
    size_t keep = n < size ? u->tail_size + head : n;
    keep = keep < size ? keep : size - 1;
    memmove(u->tail, end - keep, keep);
    u->tail_size = keep;
    if (u->found)
        post(u->of);
}

static void on_log_over(void *arg, const struct dz_exec_exit *how)
{
    (void)how;
    ((struct unit *)arg)->check = NULL;
}

static void on_log_failed(void *arg, const struct dz_why *why)
{
    (void)why;
    ((struct unit *)arg)->check = NULL;
}

/* The process of a service that must be ready first has started. */
static void begin_check(struct unit *u, struct dz_sandbox *s)
{
    static const struct dz_exec_watch_ops log_ops = {NULL, on_log, on_log_over, on_log_failed};
    const json_t *ready = json_object_get(u->spec, "ready"), *port = json_object_get(ready, "port");
    struct dz_why why;
    end_check(u, true);
    u->found = false;
    u->tail_size = 0;
    if (port) {
        if (dz_control_port_listens(u->of->e, u->of->id, (uint32_t)json_integer_value(port)) == 1)
            is_ready(u);
    } else if (json_object_get(ready, "http")) {
        if (dz_timer_new(u->of->e->loop, http_try, u, &u->http.again, NULL) == 0)
            dz_timer_after(u->http.again, 0);
    } else if (json_object_get(ready, "log")) {
        (void)!dz_exec_watch_here(s, u->seen.exec_id, (struct dz_exec_listener){&log_ops, u, 0},
                                  &u->check, &why);
    } else {
        check_by_command(u, s, ready);
    }
}

void dz_services_ports(struct dz_control *e, struct dz_sandbox *s)
{
    struct supervisor *v = dz_map_get(&e->supervisors, dz_str(s->id));
    for (size_t i = 0; v && v->up && i < DZ_SERVICE_SLOTS; i++) {
        struct unit *u = v->units[i];
        const json_t *port = u ? json_object_get(json_object_get(u->spec, "ready"), "port") : NULL;
        if (port && u->watch && v->set.of[i].status == DZ_SERVICE_STARTING &&
            dz_control_port_listens(e, v->id, (uint32_t)json_integer_value(port)) == 1)
            is_ready(u);
    }
}

/* --- units -------------------------------------------------------------------------------- */

static void unit_free(struct unit *u)
{
    if (!u)
        return;
    end_check(u, false);
    dz_exec_watch_end(u->watch);
    json_decref(u->spec);
    u->of->units[u->slot] = NULL;
    dz_free(u);
}

static struct unit *unit_make(struct supervisor *v, size_t slot)
{
    struct unit *u = dz_zalloc(sizeof *u);
    if (!u)
        return NULL;
    u->of = v;
    u->slot = slot;
    u->http.fd = -1;
    v->units[slot] = u;
    return u;
}

/* The process has ended, or could not be started. text: why, if it failed. */
static void over(struct unit *u, bool failed, const char *text)
{
    struct supervisor *v = u->of;
    struct dz_service *s = service_of(u);
    const bool ordered = s->status == DZ_SERVICE_STOPPING && !s->late, late = s->late;
    char name[DZ_SERVICE_NAME_MAX + 1];
    (void)snprintf(name, sizeof name, "%s", s->name);
    end_check(u, true);
    u->watch = NULL;
    if (!late)
        (void)snprintf(u->seen.error, sizeof u->seen.error, "%s", failed && !ordered ? text : "");
    bool was_loop = s->loop, loop = dz_service_ended(s, failed, dz_clock_mono_ms());
    if (!ordered && (failed || late)) {
        v->e->services.failures++;
        if (loop)
            v->e->services.crash_loops++;
        if (loop)
            note(v, "service_crash_loop", name, u->seen.error);
        else if (!was_loop || !s->loop) /* a crash loop is one event */
            note(v, "service_failed", name, u->seen.error);
    } else if (loop) {
        note(v, "service_crash_loop", name, "it ends at once, again and again");
    }
    if (!s->used)
        unit_free(u);
    post(v);
}

static void on_started(void *arg, const char *exec_id, int64_t pid)
{
    struct unit *u = arg;
    struct dz_sandbox *s = dz_sandbox_find(u->of->e->sandboxes, u->of->id);
    (void)exec_id, (void)pid;
    u->seen.started_at = dz_clock_real_ms();
    if (service_of(u)->status != DZ_SERVICE_STARTING) /* it was told to stop meanwhile */
        return;
    dz_service_runs(service_of(u), dz_clock_mono_ms());
    if (service_of(u)->status == DZ_SERVICE_READY)
        is_ready(u);
    else if (s && dz_exec_here(s))
        begin_check(u, s);
}

static void on_ended(void *arg, const struct dz_exec_exit *how)
{
    struct unit *u = arg;
    char text[sizeof u->seen.error];
    u->seen.exited = true;
    u->seen.exit_code = how->exit_code;
    u->seen.signal = how->signal;
    u->seen.ended_at = dz_clock_real_ms();
    if (how->text && how->text[0])
        (void)snprintf(text, sizeof text, "%s", how->text);
    else if (how->exit_code < 0)
        (void)snprintf(text, sizeof text, "it was killed by signal %d", how->signal);
    else
        (void)snprintf(text, sizeof text, "it exited with status %d", how->exit_code);
    over(u, how->exit_code != 0, text);
}

static void on_failed(void *arg, const struct dz_why *why)
{
    struct unit *u = arg;
    u->seen.ended_at = dz_clock_real_ms();
    over(u, true, why->err.msg);
}

static const struct dz_exec_watch_ops process_ops = {on_started, NULL, on_ended, on_failed};

static void start_unit(struct unit *u, struct dz_sandbox *s)
{
    const json_t *cmd = json_object_get(u->spec, "cmd");
    const size_t n = json_array_size(cmd);
    const char **argv = n ? dz_zarray(n + 1, sizeof *argv) : NULL;
    char *env_json = json_dumps(json_object_get(u->spec, "env"), JSON_COMPACT);
    struct dz_why why = {0};
    for (size_t i = 0; argv && i < n; i++)
        argv[i] = json_string_value(json_array_get(cmd, i));
    const struct dz_exec_request x = {
        .argv = argv,
        .shell = json_string_value(json_object_get(u->spec, "shell")),
        .cwd = json_string_value(json_object_get(u->spec, "cwd")),
        .user = json_string_value(json_object_get(u->spec, "user")),
        .env_json = env_json,
        .label = service_of(u)->name,
        .unlimited = true,
    };
    int rc = (n && !argv) || !env_json ? dz_why(&why, DZ_ENOMEM, NULL, "out of memory") : 0;
    if (rc == 0)
        rc = dz_space_check(u->of->e, DZ_SPACE_OUT, &why); /* a command leaves a record */
    if (rc == 0)
        rc = dz_exec_start_here(s, &x, (struct dz_exec_listener){&process_ops, u, 0}, &u->watch,
                                &why);
    free(env_json); /* jansson's */
    dz_free(argv);
    u->seen.ready_at = 0;
    u->of->e->services.starts++;
    if (rc == 0)
        (void)snprintf(u->seen.exec_id, sizeof u->seen.exec_id, "%s", dz_exec_watch_exec(u->watch));
    else
        over(u, true, why.err.msg);
}

static int stop_signal(const struct unit *u, const struct dz_sandbox *s)
{
    const char *name = json_string_value(json_object_get(u->spec, "stop_signal"));
    if (name && strncmp(name, "SIG", 3) == 0)
        name += 3;
    for (int i = 1; name && i < 32; i++) {
        const char *known = sigabbrev_np(i);
        if (known && strcmp(known, name) == 0)
            return i;
    }
    return s->stop_signal ? s->stop_signal : SIGTERM;
}

static void stop_unit(struct unit *u, struct dz_sandbox *s, bool kill)
{
    end_check(u, true);
    if (service_of(u)->late && !kill)
        (void)snprintf(u->seen.error, sizeof u->seen.error, "it was not ready within %lld ms",
                       (long long)service_of(u)->ready_ms);
    if (!u->watch || !dz_exec_signal_here(s, u->seen.exec_id, kill ? SIGKILL : stop_signal(u, s))) {
        dz_exec_watch_end(u->watch);
        over(u, true, "its process is gone");
    }
}

/* --- the list in the row ------------------------------------------------------------------ */

/* Take over the settings in the row: add, change, remove, enable and disable services. */
static void sync_set(struct supervisor *v, const char *services)
{
    json_t *list = services ? json_loads(services, 0, NULL) : json_array();
    uint32_t kept = 0;
    size_t i;
    json_t *spec;
    json_array_foreach(list, i, spec)
    {
        const char *name = json_string_value(json_object_get(spec, "name"));
        const bool enabled = json_is_true(json_object_get(spec, "enabled"));
        size_t slot = dz_service_find(&v->set, name);
        bool added = slot == DZ_SERVICE_SLOTS;
        if (added)
            slot = dz_service_slot(&v->set);
        struct unit *u = slot == DZ_SERVICE_SLOTS ? NULL : v->units[slot];
        if (!u && slot < DZ_SERVICE_SLOTS)
            u = unit_make(v, slot);
        if (!u) { /* no slot: removed services still stop. It begins at the next change or wake. */
            if (slot < DZ_SERVICE_SLOTS)
                v->set.of[slot] = (struct dz_service){.due = INT64_MAX};
            continue;
        }
        struct dz_service *s = &v->set.of[slot];
        dz_service_settings(spec, s);
        json_decref(u->spec);
        u->spec = json_incref(spec);
        kept |= UINT32_C(1) << slot;
        if (enabled && (added || !s->enabled))
            dz_service_start(s);
        else if (!enabled && !added && s->enabled)
            dz_service_stop(s);
    }
    for (i = 0; list && i < DZ_SERVICE_SLOTS; i++) {
        struct dz_service *s = &v->set.of[i];
        if (!s->used || s->removed || kept & UINT32_C(1) << i)
            continue;
        dz_service_remove(s);
        if (!s->used)
            unit_free(v->units[i]);
    }
    dz_services_link(&v->set, list);
    json_decref(list);
}

/* --- a machine that has woken ------------------------------------------------------------- */

struct living {
    struct supervisor *v;
    struct dz_sandbox *s;
    char ids[DZ_SERVICE_SLOTS][DZ_CELL_ID_MAX + 1]; /* by slot; "": it does not run */
};

/* Find the service of a command. A process of a service that was removed, and a command that
 * checked, are killed: the check begins again. */
static void on_living(void *arg, const char *exec_id)
{
    struct living *l = arg;
    const char *label = dz_exec_label(exec_id);
    size_t slot = label ? dz_service_find(&l->v->set, label) : DZ_SERVICE_SLOTS;
    if (slot < DZ_SERVICE_SLOTS)
        (void)snprintf(l->ids[slot], sizeof l->ids[slot], "%s", exec_id);
    else if (label)
        (void)dz_exec_signal_here(l->s, exec_id, SIGKILL);
}

static void on_record(void *arg, const void *data, size_t n)
{
    struct supervisor *v = arg;
    struct dz_cell_view view = {data, n};
    struct dz_cell_exec_row row;
    while (dz_cell_exec_row_next(&view, &row, NULL) == 1) {
        const char *label = dz_exec_label(row.id);
        size_t slot = label ? dz_service_find(&v->set, label) : DZ_SERVICE_SLOTS;
        struct unit *u = slot < DZ_SERVICE_SLOTS ? v->units[slot] : NULL;
        if (!u || !(v->pending & UINT32_C(1) << slot))
            continue; /* it is not wanted, or an older one */
        v->pending &= ~(UINT32_C(1) << slot);
        (void)snprintf(u->seen.exec_id, sizeof u->seen.exec_id, "%s", row.id);
        if (strcmp(row.state, "ended") == 0) {
            const struct dz_exec_exit how = {.exit_code = row.exit_code, .signal = row.signal};
            on_ended(u, &how);
            u->seen.started_at = row.started_ns / DZ_NS_PER_MS;
            u->seen.ended_at = row.ended_ns / DZ_NS_PER_MS;
        } else if (dz_service_has_process(&v->set.of[slot])) {
            over(u, true, "its process is gone");
        }
    }
    dz_file_op_ack(v->records, n);
}

static void on_records(void *arg, const struct dz_why *why, uint64_t count)
{
    struct supervisor *v = arg;
    (void)why, (void)count;
    v->records = NULL;
    for (size_t i = 0; i < DZ_SERVICE_SLOTS; i++)
        if (v->pending & UINT32_C(1) << i && v->units[i] && dz_service_has_process(&v->set.of[i]))
            over(v->units[i], true, "its process is gone");
    v->pending = 0;
    post(v);
}

static void read_records(struct supervisor *v)
{
    static const struct dz_file_op_ops ops = {.data = on_record, .done = on_records};
    const struct dz_cell_op op = {.type = DZ_CELL_OP_EXECS, .limit = RECORDS};
    const struct dz_file_op_request request = {
        .op = &op, .activity = DZ_ACTIVITY_READ_STATUS, .ops = &ops, .arg = v};
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_why why = {0};
    if (dz_registry_get(v->e->registry, v->id, &row, NULL) < 0 ||
        dz_file_op_start(v->e->sandboxes, &row, &request, &v->records, &why) < 0)
        on_records(v, &why, 0);
}

/* Find the processes of the services in the machine. */
static void adopt(struct supervisor *v, struct dz_sandbox *s)
{
    struct living l = {.v = v, .s = s};
    const int64_t now = dz_clock_mono_ms();
    bool known;
    struct dz_why why;
    v->adopt = false;
    dz_exec_each_here(s, on_living, &l);
    for (size_t i = 0; i < DZ_SERVICE_SLOTS; i++) {
        struct dz_service *of = &v->set.of[i];
        struct unit *u = v->units[i];
        if (!u || u->watch)
            continue;
        if (of->removed) {
            (void)dz_service_ended(of, false, now);
            unit_free(u);
        } else if (l.ids[i][0] &&
                   dz_exec_watch_here(s, l.ids[i], (struct dz_exec_listener){&process_ops, u, 0},
                                      &u->watch, &why) == 0) {
            (void)snprintf(u->seen.exec_id, sizeof u->seen.exec_id, "%s", l.ids[i]);
            known = dz_service_has_process(of);
            dz_service_runs(of, now);
            /* The output that made it ready may not be kept any more, and a supervisor that waited
             * for it would know the service. */
            if (!known && json_object_get(json_object_get(u->spec, "ready"), "log"))
                dz_service_ready(of);
            if (of->status == DZ_SERVICE_STARTING)
                begin_check(u, s);
        } else if (dz_service_has_process(of) ||
                   (of->status == DZ_SERVICE_WAITING && !v->slept_at)) {
            v->pending |= UINT32_C(1) << i;
        }
    }
    if (v->pending)
        read_records(v);
}

/* --- the supervisor ----------------------------------------------------------------------- */

static void on_timer(void *arg)
{
    post(arg);
}

static void on_turn(void *arg)
{
    struct supervisor *v = arg;
    struct dz_sandbox *s = dz_sandbox_find(v->e->sandboxes, v->id);
    enum dz_service_act act;
    size_t slot;
    dz_timer_stop(v->timer);
    if (!v->up || !s || !dz_exec_here(s))
        return;
    if (v->adopt)
        adopt(v, s);
    for (size_t i = 0; i < DZ_SERVICE_SLOTS; i++)
        if (v->units[i] && v->units[i]->found && v->set.of[i].status == DZ_SERVICE_STARTING)
            is_ready(v->units[i]);
    if (v->records)
        return;
    while ((act = dz_service_next(&v->set, dz_clock_mono_ms(), &slot)) != DZ_SERVICE_ACT_NONE) {
        if (act == DZ_SERVICE_ACT_START)
            start_unit(v->units[slot], s);
        else
            stop_unit(v->units[slot], s, act == DZ_SERVICE_ACT_KILL);
    }
    int64_t due = dz_services_due(&v->set), now = dz_clock_mono_ms();
    if (due != INT64_MAX)
        dz_timer_after(v->timer, due > now ? due - now : 0);
}

static void supervisor_free(struct supervisor *v)
{
    dz_loop_task_cancel(&v->turn);
    dz_file_op_cancel(v->records);
    for (size_t i = 0; i < DZ_SERVICE_SLOTS; i++)
        unit_free(v->units[i]);
    dz_timer_free(v->timer);
    (void)dz_map_remove(&v->e->supervisors, dz_str(v->id));
    dz_free(v);
}

static struct supervisor *supervisor_make(struct dz_control *e, const struct dz_sandbox *s)
{
    struct supervisor *v = dz_zalloc(sizeof *v);
    if (!v)
        return NULL;
    v->e = e;
    dz_loop_task_init(&v->turn, v, on_turn, v);
    (void)snprintf(v->id, sizeof v->id, "%s", s->id);
    (void)snprintf(v->tenant, sizeof v->tenant, "%s", s->tenant);
    if (dz_timer_new(e->loop, on_timer, v, &v->timer, NULL) < 0 ||
        dz_map_put(&e->supervisors, dz_str(v->id), v, NULL) < 0) {
        dz_timer_free(v->timer);
        dz_free(v);
        return NULL;
    }
    return v;
}

void dz_services_up(struct dz_control *e, struct dz_sandbox *s, bool woke)
{
    struct supervisor *v = dz_map_get(&e->supervisors, dz_str(s->id));
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    DZ_AUTO(dz_sandbox_config_release) struct dz_sandbox_config own = {0};
    const struct dz_sandbox_config *c = &s->config;
    struct dz_err err;
    if (v && v->up) { /* it could not be suspended */
        post(v);
        return;
    }
    if (!c->text) {
        int rc = dz_registry_get(e->registry, s->id, &row, &err);
        if (rc == 0)
            rc = dz_sandbox_config_of(&row, &own, &err);
        if (rc < 0) {
            dz_log(DZ_LOG_WARN, "services_not_started", dz_log_strz("sandbox_id", s->id),
                   dz_log_err(&err));
            return;
        }
        c = &own;
    }
    if (!v && !c->services)
        return;
    if (!v)
        v = supervisor_make(e, s);
    if (!v) {
        dz_log(DZ_LOG_WARN, "services_not_started", dz_log_strz("sandbox_id", s->id),
               dz_log_strz("error", "out of memory"));
        return;
    }
    sync_set(v, c->services);
    v->up = true;
    v->adopt = woke;
    if (!woke)
        dz_services_fresh(&v->set);
    else if (v->slept_at)
        dz_services_slept(&v->set, dz_clock_mono_ms() - v->slept_at);
    post(v);
}

/* Is there something to remember that the machine does not say itself? */
static bool is_notable(const struct supervisor *v)
{
    for (size_t i = 0; i < DZ_SERVICE_SLOTS; i++)
        if (v->set.of[i].used && (v->set.of[i].failures > 0 || v->set.of[i].restarts > 0 ||
                                  v->set.of[i].status == DZ_SERVICE_FAILED ||
                                  v->set.of[i].status == DZ_SERVICE_STARTING ||
                                  v->set.of[i].status == DZ_SERVICE_STOPPING))
            return true;
    return false;
}

void dz_services_down(struct dz_control *e, struct dz_sandbox *s, bool kept)
{
    struct supervisor *v = dz_map_get(&e->supervisors, dz_str(s->id));
    if (!v)
        return;
    v->up = false;
    v->pending = 0;
    dz_file_op_cancel(v->records);
    v->records = NULL;
    dz_timer_stop(v->timer);
    dz_loop_task_cancel(&v->turn);
    for (size_t i = 0; i < DZ_SERVICE_SLOTS; i++) {
        struct unit *u = v->units[i];
        if (!u)
            continue;
        end_check(u, false);
        dz_exec_watch_end(u->watch);
        u->watch = NULL;
    }
    v->slept_at = dz_clock_mono_ms();
    if (!kept || !is_notable(v))
        supervisor_free(v);
}

void dz_services_changed(struct dz_control *e, const char *id, const char *services)
{
    struct supervisor *v = dz_map_get(&e->supervisors, dz_str(id));
    struct dz_sandbox *s = dz_sandbox_find(e->sandboxes, id);
    if (!v && services && s && dz_exec_here(s)) { /* its first services */
        v = supervisor_make(e, s);
        if (v)
            v->up = true;
    }
    if (!v || !v->up)
        return; /* the wake reads the row */
    sync_set(v, services);
    post(v);
}

void dz_services_order(struct dz_control *e, const char *id, const char *name,
                       enum dz_control_service_act act)
{
    struct supervisor *v = dz_map_get(&e->supervisors, dz_str(id));
    struct dz_sandbox *s = dz_sandbox_find(e->sandboxes, id);
    if (!v || !v->up)
        return;
    if (v->adopt && s && dz_exec_here(s))
        adopt(v, s);
    size_t slot = dz_service_find(&v->set, name);
    if (slot == DZ_SERVICE_SLOTS)
        return;
    v->pending &= ~(UINT32_C(1) << slot); /* how it ended before does not matter any more */
    if (act == DZ_CONTROL_SERVICE_START)
        dz_service_start(&v->set.of[slot]);
    else if (act == DZ_CONTROL_SERVICE_STOP)
        dz_service_stop(&v->set.of[slot]);
    else
        dz_service_restart(&v->set.of[slot]);
    post(v);
}

void dz_services_erased(struct dz_control *e, const char *id)
{
    struct supervisor *v = dz_map_get(&e->supervisors, dz_str(id));
    if (v)
        supervisor_free(v);
}

void dz_services_release(struct dz_control *e)
{
    const struct dz_map_entry *it;
    while ((it = dz_map_next(&e->supervisors, NULL)) != NULL)
        supervisor_free(it->value);
    dz_map_release(&e->supervisors);
}

/* --- what clients see --------------------------------------------------------------------- */

static int64_t date_of(int64_t mono_ms)
{
    return mono_ms - dz_clock_mono_ms() + dz_clock_real_ms();
}

void dz_services_state(struct dz_control *e, const struct dz_instance *row,
                       struct dz_control_service *service)
{
    const struct supervisor *v = dz_map_get(&e->supervisors, dz_str(row->id));
    const json_t *spec = service->spec;
    const bool enabled = json_is_true(json_object_get(spec, "enabled"));
    size_t slot = v ? dz_service_find(&v->set, json_string_value(json_object_get(spec, "name")))
                    : DZ_SERVICE_SLOTS;
    *service = (struct dz_control_service){.spec = spec};
    if (slot < DZ_SERVICE_SLOTS && v->units[slot]) {
        const struct dz_service *s = &v->set.of[slot];
        *service = v->units[slot]->seen;
        service->spec = spec;
        service->restarts = s->restarts;
        service->status = s->loop ? "crash_loop" : dz_service_status_name(s->status);
        service->next_at = s->status == DZ_SERVICE_BACKOFF && v->up ? date_of(s->due) : 0;
    }
    if (!v || !v->up || !service->status)
        service->status = !enabled ? "stopped" : row->is == DZ_STATE_ACTIVE ? "waiting" : "asleep";
}

const char *dz_control_deployment(struct dz_control *e, const struct dz_instance *row)
{
    const struct supervisor *v = dz_map_get(&e->supervisors, dz_str(row->id));
    const char *is = row->deployment;
    for (size_t i = 0; v && v->up && i < DZ_SERVICE_SLOTS; i++) {
        const struct dz_service *s = &v->set.of[i];
        if (!s->used || !s->enabled || row->deployment_is != DZ_DEPLOYMENT_DEPLOYED)
            continue;
        if (s->loop || s->status == DZ_SERVICE_FAILED)
            return "FAILED";
        if (s->status != DZ_SERVICE_READY && s->status != DZ_SERVICE_DONE)
            is = "DEPLOYING";
    }
    return is;
}

void dz_control_service_counts(const struct dz_control *e,
                               struct dz_control_service_counts *ret_counts)
{
    *ret_counts = e->services;
}

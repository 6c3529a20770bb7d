/* SPDX-License-Identifier: MIT
 *
 * Commands as requests, event streams and WebSockets: the real server and the real handlers, over
 * a simulated control plane, simulated bytes and a simulated clock. The input is a program: each
 * byte chooses what happens next, and what follows it says how.
 *
 *     peer    opens connections, sends requests, frames and raw bytes, reads some of what came,
 *             shuts its sending side, vanishes
 *     control starts, prints, ends and fails commands, answers or refuses what it is told, at once
 *             or later, in any order that control.h allows
 *     clock   goes on
 *
 * Invariants: (1) a watch is used only while it lives, and never ended inside its output;
 * (2) no more is acknowledged than was printed; (3) a listener hears nothing after its end;
 * (4) when all connections are gone, no watch is left, and (ASan) no memory. */
#include "api/api_exec.h"
#include "base/clock.h"
#include "base/limits.h"
#include "http/http_int.h"
#include "loop/loop_int.h"
#include "loop/loop_sim.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
    CONNS = 3,
    WATCHES = 32,
    TELLS = 256,
    OUTPUT_MAX = 64 << 10, /* printed and not acknowledged yet */
    ROUNDS = 64,           /* of the loop after each step: who has more goes on later */
    DESCRIPTOR = 1 << 29,  /* of the first connection; no file has it */
};

/* --- the simulated world ---------------------------------------------------------------------- */

struct peer {
    struct dz_poll poll; /* what the loop polls, first */
    void (*fn)(void *arg, int events);
    void *arg;
    int events;
    bool open, eof, broken;
    struct dz_buf in; /* on its way to the server */
    size_t in_at, room;
};

struct dz_exec_watch {
    struct dz_exec_listener listener;
    char id[16];
    bool lives, wants, started, in_output;
    size_t printed;
};

struct telling {
    dz_sandbox_done_fn *done;
    void *arg;
};

static struct world {
    const uint8_t *p, *end; /* the program */
    struct dz_clock_test clock;
    struct dz_loop_ops ops;
    struct dz_loop *loop;
    struct dz_http *http;
    struct peer peers[CONNS];
    struct dz_exec_watch watches[WATCHES];
    size_t watch_count;
    struct telling tells[TELLS];
    size_t tell_count;
    int next; /* what the control plane does with the next call */
} w;

enum { /* w.next */
    NEXT_TAKE,
    NEXT_REFUSE,   /* the call fails */
    NEXT_AT_ONCE,  /* it is done well before the call returns */
    NEXT_FAIL_NOW, /* it fails before the call returns */
};

static unsigned take(void)
{
    return w.p < w.end ? *w.p++ : 0;
}

/* --- bytes, by --wrap of recv and send -----------------------------------------------------------
 */

ssize_t __wrap_recv(int fd, void *p, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *p, size_t n, int flags)
{
    struct peer *peer = &w.peers[fd - DESCRIPTOR];
    size_t have = peer->in.len - peer->in_at;
    (void)flags;
    if (peer->broken || (have == 0 && !peer->eof)) {
        errno = peer->broken ? ECONNRESET : EAGAIN;
        return -1;
    }
    n = n < have ? n : have;
    if (n > 0)
        memcpy(p, peer->in.p + peer->in_at, n);
    peer->in_at += n;
    return (ssize_t)n;
}

ssize_t __wrap_send(int fd, const void *p, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *p, size_t n, int flags)
{
    struct peer *peer = &w.peers[fd - DESCRIPTOR];
    (void)p;
    (void)flags;
    if (peer->broken || peer->room == 0) {
        errno = peer->broken ? EPIPE : EAGAIN;
        return -1;
    }
    n = n < peer->room ? n : peer->room;
    peer->room -= n;
    return (ssize_t)n;
}

static int poll_new(struct dz_loop *l, int fd, void (*fn)(void *, int), void *arg,
                    struct dz_poll **ret, struct dz_err *err)
{
    struct peer *peer = &w.peers[fd - DESCRIPTOR];
    (void)l;
    (void)err;
    peer->poll.ops = &w.ops;
    peer->fn = fn;
    peer->arg = arg;
    peer->events = 0;
    peer->open = true;
    *ret = &peer->poll;
    return 0;
}

static int poll_set(struct dz_poll *p, int events, struct dz_err *err)
{
    (void)err;
    ((struct peer *)p)->events = events;
    return 0;
}

static void poll_free(struct dz_poll *p)
{
    struct peer *peer = (struct peer *)p;
    peer->open = false;
    dz_buf_release(&peer->in);
}

static int ready(const struct peer *p)
{
    int events = p->broken || p->eof || p->in_at < p->in.len ? DZ_POLL_READ : 0;
    events |= p->broken || p->room > 0 ? DZ_POLL_WRITE : 0;
    events |= p->broken || p->eof ? DZ_POLL_HANGUP : 0;
    return events & p->events;
}

/* The loop until nothing more is to be done now. */
static void turn(void)
{
    bool moved = true;
    for (int i = 0; i < ROUNDS && moved; i++) {
        moved = false;
        for (int k = 0; k < CONNS; k++) {
            struct peer *p = &w.peers[k];
            int events = p->open ? ready(p) : 0;
            if (events)
                p->fn(p->arg, events);
            moved |= events != 0;
        }
        while (dz_loop_sim_step(w.loop, dz_clock_mono_ms()))
            moved = true;
    }
}

/* --- the control plane, by --wrap
 * ------------------------------------------------------------------------ */

static struct dz_why *refusal(struct dz_why *why)
{
    static const int codes[] = {DZ_ENOENT, DZ_EBUSY, DZ_EUNAVAIL, DZ_EINVAL, DZ_ENOMEM};
    memset(why, 0, sizeof *why);
    (void)dz_fail(&why->err, codes[take() % DZ_ARRAY_LEN(codes)],
                  "the simulated control plane refuses");
    return why;
}

static void say_started(struct dz_exec_watch *x)
{
    if (!x->lives || x->started)
        return;
    x->started = true;
    x->listener.ops->started(x->listener.arg, x->id, 7);
}

static void say_failed(struct dz_exec_watch *x)
{
    struct dz_why why;
    if (!x->lives)
        return;
    x->lives = false;
    x->listener.ops->failed(x->listener.arg, refusal(&why));
}

static void say_ended(struct dz_exec_watch *x)
{
    const struct dz_exec_exit how = {.exit_code = (int)take() - 1, .text = "", .bytes = 3};
    say_started(x);
    if (!x->lives)
        return;
    x->lives = false;
    x->listener.ops->ended(x->listener.arg, &how);
}

static void say_output(struct dz_exec_watch *x, size_t n)
{
    static const char bytes[OUTPUT_MAX] = "output\xff";
    say_started(x);
    n = n < OUTPUT_MAX - x->printed ? n : OUTPUT_MAX - x->printed;
    if (!x->lives || !x->wants || n == 0)
        return;
    x->printed += n;
    x->in_output = true;
    x->listener.ops->output(x->listener.arg, 1 + (n & 1), 0, bytes, n);
    x->in_output = false;
}

static int begin(struct dz_exec_listener listener, const char *id, struct dz_exec_watch **ret_watch,
                 struct dz_why *why)
{
    int next = w.next;
    w.next = NEXT_TAKE;
    if (next == NEXT_REFUSE || w.watch_count == WATCHES)
        return refusal(why)->err.code;
    struct dz_exec_watch *x = &w.watches[w.watch_count++];
    *x = (struct dz_exec_watch){
        .listener = listener, .lives = true, .wants = listener.ops->output != NULL};
    (void)snprintf(x->id, sizeof x->id, "%.15s", id);
    *ret_watch = x;
    if (next == NEXT_AT_ONCE)
        say_started(x);
    else if (next == NEXT_FAIL_NOW)
        say_failed(x);
    return 0;
}

int __wrap_dz_control_exec(struct dz_control *e, struct dz_control_target target,
                           const struct dz_exec_request *exec, struct dz_exec_listener listener,
                           struct dz_exec_watch **ret_watch, struct dz_why *why);
int __wrap_dz_control_exec(struct dz_control *e, struct dz_control_target target,
                           const struct dz_exec_request *exec, struct dz_exec_listener listener,
                           struct dz_exec_watch **ret_watch, struct dz_why *why)
{
    (void)e;
    (void)target;
    assert(dz_control_exec_check(exec, why) == 0);
    return begin(listener, "exe_new", ret_watch, why);
}

int __wrap_dz_control_exec_watch(struct dz_control *e, struct dz_control_target target,
                                 const char *exec_id, struct dz_exec_listener listener,
                                 struct dz_exec_watch **ret_watch, struct dz_why *why);
int __wrap_dz_control_exec_watch(struct dz_control *e, struct dz_control_target target,
                                 const char *exec_id, struct dz_exec_listener listener,
                                 struct dz_exec_watch **ret_watch, struct dz_why *why)
{
    (void)e;
    (void)target;
    return begin(listener, exec_id, ret_watch, why);
}

void __wrap_dz_exec_watch_ack(struct dz_exec_watch *x, size_t n);
void __wrap_dz_exec_watch_ack(struct dz_exec_watch *x, size_t n)
{
    assert(x && x->lives && n <= x->printed);
    x->printed -= n;
}

void __wrap_dz_exec_watch_alive(struct dz_exec_watch *x);
void __wrap_dz_exec_watch_alive(struct dz_exec_watch *x)
{
    assert(x && x->lives);
}

static void answer(size_t i, bool well)
{
    struct telling t = w.tells[i];
    struct dz_why why;
    struct dz_sandbox_result result = {0};
    w.tells[i] = w.tells[--w.tell_count];
    if (!well) {
        result.code = refusal(&why)->err.code;
        result.why = &why;
    }
    t.done(t.arg, &result);
}

/* What was told may be answered from inside. */
static void let_go(struct dz_exec_watch *x)
{
    assert(!x || (x->lives && !x->in_output));
    if (!x)
        return;
    x->lives = false;
    if (w.next == NEXT_AT_ONCE)
        while (w.tell_count)
            answer(0, true);
}

void __wrap_dz_exec_watch_end(struct dz_exec_watch *x);
void __wrap_dz_exec_watch_end(struct dz_exec_watch *x)
{
    let_go(x);
}

void __wrap_dz_exec_watch_abort(struct dz_exec_watch *x);
void __wrap_dz_exec_watch_abort(struct dz_exec_watch *x)
{
    let_go(x);
}

int __wrap_dz_control_exec_send(struct dz_control *e, struct dz_control_target target,
                                const struct dz_exec_send *tell, dz_sandbox_done_fn *done,
                                void *arg, struct dz_why *why);
int __wrap_dz_control_exec_send(struct dz_control *e, struct dz_control_target target,
                                const struct dz_exec_send *tell, dz_sandbox_done_fn *done,
                                void *arg, struct dz_why *why)
{
    int next = w.next;
    (void)e;
    (void)target;
    assert(strncmp(tell->exec_id, "exe_", 4) == 0);
    w.next = NEXT_TAKE;
    if (next == NEXT_REFUSE || w.tell_count == TELLS)
        return refusal(why)->err.code;
    w.tells[w.tell_count++] = (struct telling){done, arg};
    if (next != NEXT_TAKE)
        answer(w.tell_count - 1, next == NEXT_AT_ONCE);
    return 0;
}

int __wrap_dz_control_get(struct dz_control *e, struct dz_control_target target,
                          struct dz_instance *ret_row, struct dz_why *why);
int __wrap_dz_control_get(struct dz_control *e, struct dz_control_target target,
                          struct dz_instance *ret_row, struct dz_why *why)
{
    (void)e;
    (void)target;
    if (w.next == NEXT_REFUSE) {
        w.next = NEXT_TAKE;
        return refusal(why)->err.code;
    }
    *ret_row = (struct dz_instance){.id = "sbx_a", .tenant = "t"};
    return 0;
}

/* --- the peer
 * ---------------------------------------------------------------------------------------- */

#define END    " HTTP/1.1\r\nHost: t\r\n"
#define EVENTS "Accept: text/event-stream\r\n"
#define UPGRADE                                     \
    "Connection: Upgrade\r\nUpgrade: websocket\r\n" \
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
#define SIZE(n) "Content-Length: " #n "\r\n\r\n"
#define BODY    SIZE(13) "{\"shell\":\"a\"}"

static const char *const requests[] = {
    "GET /s/a/exec" END UPGRADE "\r\n",
    "GET /s/a/exec/exe_1/output" END UPGRADE "\r\n",
    "POST /s/a/exec" END EVENTS BODY,
    "GET /s/a/exec/exe_1/output?offset=3" END EVENTS "\r\n",
    "POST /s/a/exec" END BODY,
    "POST /s/a/exec" END SIZE(31) "{\"shell\":\"a\",\"background\":true}",
    "POST /s/a/exec/exe_1/wait" END SIZE(17) "{\"timeout\":\"50ms\"}",
    "POST /s/a/exec/exe_1/stdin" END SIZE(5) "typed",
    "POST /s/a/exec/exe_1/signal" END SIZE(17) "{\"signal\":\"TERM\"}",
};

/* The list of commands, which comes from the sandbox's file, is another story. */
static void talk(struct dz_http_req *r, void *api)
{
    static const struct dz_http_problem none = {.code = DZ_ENOENT, .message = "no socket"};
    if (dz_http_wants_ws(r))
        dz_api_exec_talk(api, r, NULL, 0);
    else
        dz_http_refuse(r, &none);
}

/* The handlers below that read a JSON body find its fields in their route. */
static const struct dz_api_route waits = {.fields = dz_api_wait_fields},
                                 signals = {.fields = dz_api_signal_fields};
static const struct dz_http_route routes[] = {
    {"POST", "/s/{id}/exec", dz_api_exec, 0, 4 << 20, NULL},
    {"GET", "/s/{id}/exec", talk, 0, 0, NULL},
    {"GET", "/s/{id}/exec/{exec}/output", dz_api_exec_output, 0, 0, NULL},
    {"POST", "/s/{id}/exec/{exec}/wait", dz_api_exec_wait, 0, 0, &waits},
    {"POST", "/s/{id}/exec/{exec}/stdin", dz_api_exec_stdin, 0, 1 << 20, NULL},
    {"POST", "/s/{id}/exec/{exec}/signal", dz_api_exec_signal, 0, 0, &signals},
};

static const char *const messages[] = {
    "{\"shell\":\"a\"}",
    "{\"shell\":\"a\",\"background\":true,\"stdin\":\"x\"}",
    "{\"type\":\"resize\",\"cols\":80,\"rows\":24}",
    "{\"type\":\"signal\",\"signal\":\"INT\"}",
    "{\"type\":\"close_stdin\"}",
    "{\"type\":\"ping\"}",
    "{\"type\":\"resize\",\"cols\":0}",
    "{",
};

static void send_frame(struct peer *p, unsigned op, const void *data, size_t n)
{
    const uint8_t head[] = {(uint8_t)op, n < 126 ? (uint8_t)(0x80 | n) : 0xfe, (uint8_t)(n >> 8),
                            (uint8_t)n};
    dz_buf_add(&p->in, head, n < 126 ? 2 : 4);
    dz_buf_add(&p->in, "\0\0\0\0", 4); /* the mask */
    dz_buf_add(&p->in, data, n);
}

static void dial(struct peer *p)
{
    struct dz_http_listener l = {.fd = -1, .http = w.http};
    const struct sockaddr_storage from = {0};
    if (p->open)
        return;
    *p = (struct peer){.in = DZ_BUF_INIT(1 << 20), .room = SIZE_MAX};
    struct dz_http_conn *c = dz_http_conn_new(&l, DESCRIPTOR + (int)(p - w.peers), &from);
    assert(c);
    w.http->connection_count++;
    dz_http_conn_run(c);
}

static void peer_step(struct peer *p, unsigned what)
{
    static const char long_input[3000] = "typed";
    const char *text = messages[what / 8 % DZ_ARRAY_LEN(messages)];
    dial(p);
    if (p->eof || p->broken)
        return;
    switch (what % 8) {
    case 0:
        text = requests[what / 8 % DZ_ARRAY_LEN(requests)];
        dz_buf_add(&p->in, text, strlen(text));
        break;
    case 1:
    case 2:
        send_frame(p, 0x81, text, strlen(text));
        break;
    case 3:
        for (unsigned n = what / 8; n < 32; n += 4)
            send_frame(p, 0x82, long_input, n % 3 ? 10 : sizeof long_input);
        break;
    case 4: /* ping, pong, close, what no opcode is */
        send_frame(p, 0x88 + what / 8 % 4, "\x03\xe8", 2);
        break;
    case 5: { /* as they are */
        size_t n = take();
        n = n < (size_t)(w.end - w.p) ? n : (size_t)(w.end - w.p);
        dz_buf_add(&p->in, w.p, n);
        w.p += n;
        break;
    }
    case 6: /* it reads no more, a little, or all */
        p->room = what & 8 ? 0 : what & 16 ? 300 : SIZE_MAX;
        break;
    case 7:
        p->eof = !(what & 8);
        p->broken = what & 8;
        break;
    }
}

static void control_step(unsigned what)
{
    static const size_t sizes[] = {1, 5, 1000, OUTPUT_MAX};
    struct dz_exec_watch *x = w.watch_count ? &w.watches[take() % w.watch_count] : NULL;
    switch (what % 8) {
    case 0:
    case 1:
        if (w.tell_count)
            answer(take() % w.tell_count, what % 8 == 0);
        break;
    case 2:
        w.next = (int)(what / 8 % 4);
        break;
    case 3:
        if (x)
            say_started(x);
        break;
    case 4:
    case 5:
        if (x)
            say_output(x, sizes[what / 8 % DZ_ARRAY_LEN(sizes)]);
        break;
    case 6:
        if (x)
            say_ended(x);
        break;
    case 7:
        if (x)
            say_failed(x);
        break;
    }
}

static void finish(void)
{
    for (int k = 0; k < CONNS; k++)
        w.peers[k].broken = true;
    for (int i = 0; i < ROUNDS; i++) {
        turn();
        (void)dz_loop_sim_step(w.loop, dz_clock_mono_ms() + 1000 * 1000);
    }
    for (int k = 0; k < CONNS; k++)
        assert(!w.peers[k].open);
    for (size_t i = 0; i < w.watch_count; i++)
        assert(!w.watches[i].lives);
    while (w.tell_count)
        answer(0, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dz_err err = {0};
    struct dz_api api = {.owner = {.tenant = "t", .is_operator = true}};
    w = (struct world){.p = data, .end = data + size};
    w.clock.real_ns = INT64_C(1700000000) * DZ_NS_PER_S;
    dz_clock_use(&w.clock);
    assert(dz_loop_sim_new(&w.clock, NULL, NULL, &w.loop, &err) == 0);
    w.ops = *w.loop->ops;
    w.ops.poll_new = poll_new;
    w.ops.poll_set = poll_set;
    w.ops.poll_free = poll_free;
    w.loop->ops = &w.ops;
    const struct dz_http_opts opts = {
        .loop = w.loop, .routes = routes, .route_count = DZ_ARRAY_LEN(routes), .user = &api};
    assert(dz_http_new(&opts, &w.http, &err) == 0);
    api.http = w.http;
    api.loop = w.loop;
    while (w.p < w.end) {
        unsigned what = take();
        if (what % 8 < 4)
            peer_step(&w.peers[what % 4 % CONNS], what / 8 + 32 * (take() % 8));
        else if (what % 8 < 7)
            control_step(what / 8 + 32 * (take() % 8));
        else
            (void)dz_loop_sim_step(w.loop, dz_clock_mono_ms() + (int64_t)take() * 250);
        turn();
    }
    finish();
    dz_http_free(w.http);
    dz_loop_free(w.loop);
    dz_clock_use(NULL);
    return 0;
}

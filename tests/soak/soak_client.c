/* SPDX-License-Identifier: MIT
 *
 * A client: asks, judges the answer, and remembers what was acknowledged.
 *
 * An answer is judged by its code alone: what a client may be told while cells die, the
 * daemon is killed and the disk is full is in `tolerable`; anything else is a defect. Each
 * answer is searched for what only the other tenant's sandboxes hold.
 */
#include "soak.h"

#include "../lib/dice.h"
#include "base/clock.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    BODY_MAX = 16 << 20,
    HUNG_MS = 60000,
    SETTLE_MS = 60000,
    REPORT_MAX = 200, /* bytes of an answer in a report */
};

void soak_bad(struct soak_world *w, const char *fmt, ...)
{
    va_list ap;
    int n = atomic_fetch_add(&w->failures, 1);
    if (n >= SOAK_FAILURES)
        return;
    char *text = w->failure[n], when[DZ_RFC3339_TEXT];
    int used =
        snprintf(text, sizeof w->failure[n], "%s ", dz_rfc3339_print(dz_clock_real_ms(), when));
    va_start(ap, fmt);
    (void)vsnprintf(text + used, sizeof w->failure[n] - (size_t)used, fmt, ap);
    va_end(ap);
    (void)fprintf(stderr, "# %s\n", text);
}

const char *soak_tenant(int tenant)
{
    return tenant == 0 ? "north" : "south";
}

const char *soak_secret(int tenant)
{
    return tenant == 0 ? "north-keeps-this-7d1f" : "south-keeps-this-c04a";
}

static int connect_to(const struct soak_client *c, struct dz_client **ret_client,
                      struct dz_err *err)
{
    return dz_client_open(c->url, c->token[0] ? c->token : NULL, ret_client, err);
}

static void nap(unsigned ms)
{
    const struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    (void)nanosleep(&t, NULL);
}

/* --- asking -------------------------------------------------------------------------------- */

/* Codes that say "not now" or "not in this state". storage_full only while the disk is, and
 * never for a deletion. */
static bool tolerable(const struct soak_client *c, const char *method, const char *code)
{
    static const char *const codes[] = {"busy",     "restoring",    "invalid_transition",
                                        "conflict", "rate_limited", "sandbox_unavailable",
                                        "timeout"};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (strcmp(code, codes[i]) == 0)
            return true;
    return atomic_load(&c->world->full) && strcmp(method, "DELETE") != 0 &&
           (strcmp(code, "storage_full") == 0 || strcmp(code, "quota_exceeded") == 0);
}

static enum soak_answer refusal(struct soak_client *c, const struct soak_ask *ask, int rc,
                                const struct dz_err *err)
{
    const struct dz_client_problem *p = c->connection ? dz_client_problem(c->connection) : NULL;
    bool answered = p && p->status != 0;
    (void)snprintf(c->code, sizeof c->code, "%s", answered ? p->code : "");
    if (!answered && rc == DZ_ETIMEOUT) {
        soak_bad(c->world, "%s %s: no answer in %d seconds", ask->method, ask->path,
                 HUNG_MS / 1000);
        return SOAK_BAD;
    }
    if (!answered) {
        dz_client_closep(&c->connection);
        atomic_fetch_add(&c->world->unanswered, 1);
        return SOAK_UNANSWERED;
    }
    atomic_fetch_add(&c->world->refused, 1);
    if (strcmp(p->code, "not_found") == 0 || strcmp(p->code, "gone") == 0) {
        (void)snprintf(c->missed, sizeof c->missed, "%s %.100s: %.180s", ask->method, ask->path,
                       err->msg);
        return SOAK_MISSING;
    }
    if (tolerable(c, ask->method, p->code) ||
        (atomic_load(&c->world->harm) && strstr(err->msg, "cell")))
        return SOAK_REFUSED;
    soak_bad(c->world, "%s %s: %d %s: %.200s", ask->method, ask->path, p->status, p->code,
             err->msg);
    return SOAK_BAD;
}

enum soak_answer soak_ask(struct soak_client *c, const struct soak_ask *ask)
{
    struct dz_err err = {0};
    const struct dz_client_req req = {
        .method = ask->method,
        .target = ask->path,
        .headers = ask->headers,
        .body = {ask->body, ask->body && ask->size == 0 ? strlen(ask->body) : ask->size},
        .timeout_ms = HUNG_MS,
    };
    dz_buf_reset(&c->body);
    c->code[0] = '\0';
    int rc = c->connection ? 0 : connect_to(c, &c->connection, &err);
    if (rc == 0)
        rc = dz_client_call(c->connection, &req, &c->body, &err);
    if (c->tenant >= 0 && c->body.len &&
        memmem(c->body.p, c->body.len, soak_secret(!c->tenant), strlen(soak_secret(0))))
        soak_bad(c->world, "%s %s: the answer holds what is the other tenant's", ask->method,
                 ask->path);
    return rc < 0 ? refusal(c, ask, rc, &err) : SOAK_DONE;
}

/* "/v1/sandboxes/NAME" and what follows */
static const char *at(const struct soak_box *b, const char *rest, char out[static 160])
{
    (void)snprintf(out, 160, "/v1/sandboxes/%s%s", b->name, rest);
    return out;
}

static enum soak_answer ask_box(struct soak_client *c, const struct soak_box *b, const char *method,
                                const char *rest, const char *body)
{
    char path[160];
    return soak_ask(c, &(struct soak_ask){method, at(b, rest, path), body, NULL, 0});
}

/* An own sandbox that is there is never missing. */
static enum soak_answer found(struct soak_client *c, struct soak_box *b, enum soak_answer a)
{
    if (a != SOAK_MISSING)
        return a;
    if (b->doomed) {
        b->there = false;
        return SOAK_REFUSED;
    }
    soak_bad(c->world, "%s is missing: %s", b->name, c->missed);
    return SOAK_BAD;
}

/* --- what sandboxes hold ---------------------------------------------------------------------- */

/* The file that a number makes: its size, and every byte of it. */
static size_t blob(uint64_t number, char *out)
{
    uint64_t state = number * 2654435761u + 1;
    size_t n = dice_below(&state, SOAK_BLOB_MAX);
    int head = snprintf(out, 64, "%020llu ", (unsigned long long)number);
    n = n < (size_t)head ? (size_t)head : n;
    for (size_t i = (size_t)head; i < n; i++)
        out[i] = (char)dice_roll(&state);
    return n;
}

static void check_number(struct soak_client *c, struct soak_box *b)
{
    if (b->number_acked == 0 ||
        found(c, b, ask_box(c, b, "GET", "/files?path=/workspace/n", NULL)) != SOAK_DONE)
        return;
    unsigned long long got = 0;
    for (const char *p = c->body.p; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        unsigned long long line = strtoull(p, NULL, 10);
        got = line > got ? line : got;
    }
    if (got < b->number_acked || got > b->number_tried)
        soak_bad(c->world, "%s: the number is %llu, acknowledged was %llu, tried %llu", b->name,
                 got, (unsigned long long)b->number_acked, (unsigned long long)b->number_tried);
}

static void check_blob(struct soak_client *c, struct soak_box *b)
{
    static char want[SOAK_BLOB_MAX];
    if (b->blob_acked == 0 ||
        found(c, b, ask_box(c, b, "GET", "/files?path=/workspace/blob", NULL)) != SOAK_DONE)
        return;
    unsigned long long got = strtoull(c->body.p, NULL, 10);
    size_t n = blob(got, want);
    if (got < b->blob_acked || got > b->blob_tried)
        soak_bad(c->world, "%s: blob %llu, acknowledged was %llu, tried %llu", b->name, got,
                 (unsigned long long)b->blob_acked, (unsigned long long)b->blob_tried);
    else if (n != c->body.len || memcmp(want, c->body.p, n) != 0)
        soak_bad(c->world, "%s: blob %llu has %zu bytes of %zu, or other ones", b->name, got,
                 c->body.len, n);
}

/* --- operations ----------------------------------------------------------------------------------
 */

static bool created(struct soak_client *c, struct soak_box *b)
{
    const char *id = c->body.len ? memmem(c->body.p, c->body.len, "sbx_", 4) : NULL;
    b->there = true;
    b->doomed = false;
    b->number_acked = b->number_tried = b->blob_acked = b->blob_tried = 0;
    if (id)
        (void)snprintf(b->id, sizeof b->id, "%.24s", id);
    return true;
}

/* Until it is known to be there or not to be. */
static bool resolve(struct soak_client *c, struct soak_box *b)
{
    for (int64_t end = dz_clock_mono_ms() + SETTLE_MS; dz_clock_mono_ms() < end; nap(50)) {
        enum soak_answer a = ask_box(c, b, "GET", "", NULL);
        if (a == SOAK_MISSING) {
            b->there = false;
            return true;
        }
        if (a != SOAK_DONE || strstr(c->body.p, "\"state\":\"deleted\"") ||
            strstr(c->body.p, "\"status\":\"deleting\"")) /* as soon as the disk has room */
            continue;
        return b->there || created(c, b);
    }
    soak_bad(c->world, "%s: not known after %d seconds whether it is there: %s %.*s", b->name,
             SETTLE_MS / 1000, c->code, REPORT_MAX, c->body.p);
    return false;
}

static void op_create(struct soak_client *c, struct soak_box *b)
{
    char body[400];
    (void)snprintf(body, sizeof body,
                   "{\"name\":\"%s\",\"image\":\"%s\",\"env\":{\"SECRET\":\"%s\"},"
                   "\"metadata\":{\"of\":\"%s\"},\"idle\":{\"timeout\":\"%ums\"}}",
                   b->name, c->image, soak_secret(c->tenant), soak_secret(c->tenant),
                   300 + dice_below(&c->seed, 3000));
    enum soak_answer a = soak_ask(c, &(struct soak_ask){"POST", "/v1/sandboxes", body, NULL, 0});
    if (a == SOAK_DONE)
        (void)created(c, b);
    else if (a != SOAK_BAD)
        (void)resolve(c, b);
}

static void op_destroy(struct soak_client *c, struct soak_box *b)
{
    b->doomed = true;
    if (found(c, b, ask_box(c, b, "DELETE", "?force=true", NULL)) == SOAK_DONE)
        b->there = false;
    else
        (void)resolve(c, b);
}

/* One more line. A command that was not answered may go on in a machine that was put to sleep in
 * its middle, and write its line after the next one's. */
static void op_number(struct soak_client *c, struct soak_box *b)
{
    char body[160];
    uint64_t n = ++b->number_tried;
    (void)snprintf(body, sizeof body,
                   "{\"shell\":\"echo %llu >>/workspace/n && sync && echo done\"}",
                   (unsigned long long)n);
    if (found(c, b, ask_box(c, b, "POST", "/exec", body)) == SOAK_DONE &&
        strstr(c->body.p, "\"stdout\":\"done"))
        b->number_acked = n;
}

static void op_blob(struct soak_client *c, struct soak_box *b)
{
    static char bytes[SOAK_BLOB_MAX];
    char path[160];
    uint64_t n = ++b->blob_tried;
    const struct soak_ask ask = {"PUT", at(b, "/files?path=/workspace/blob", path), bytes, NULL,
                                 blob(n, bytes)};
    if (found(c, b, soak_ask(c, &ask)) == SOAK_DONE)
        b->blob_acked = n;
}

static void op_memory(struct soak_client *c, struct soak_box *b) /* some that changes */
{
    (void)found(c, b,
                ask_box(c, b, "POST", "/exec",
                        "{\"shell\":\"v=$(seq 1 4000); sleep 30 & echo ${#v}\","
                        "\"background\":true}"));
}

static void op_suspend(struct soak_client *c, struct soak_box *b)
{
    (void)found(c, b, ask_box(c, b, "POST", "/suspend", NULL));
}

static void op_freeze(struct soak_client *c, struct soak_box *b)
{
    (void)found(c, b, ask_box(c, b, "POST", "/suspend", NULL));
    (void)found(c, b, ask_box(c, b, "POST", "/freeze", NULL));
}

static void op_archive(struct soak_client *c, struct soak_box *b)
{
    op_freeze(c, b);
    if (found(c, b, ask_box(c, b, "POST", "/archive", NULL)) == SOAK_DONE)
        (void)found(c, b, ask_box(c, b, "POST", "/revive", NULL));
}

static void op_wake(struct soak_client *c, struct soak_box *b)
{
    (void)found(c, b, ask_box(c, b, "POST", "/wake", NULL));
}

/* A fork with one branch, which must have the number; then both go. */
static void op_fork(struct soak_client *c, struct soak_box *b)
{
    char path[160];
    if (found(c, b, ask_box(c, b, "POST", "/fork", "{\"label\":\"soak\"}")) != SOAK_DONE)
        return;
    const char *id = strstr(c->body.p, "frk_");
    if (!id) {
        soak_bad(c->world, "%s: a fork without id: %.*s", b->name, REPORT_MAX, c->body.p);
        return;
    }
    (void)snprintf(path, sizeof path, "/v1/forks/%.24s", id);
    char attach[200];
    (void)snprintf(attach, sizeof attach, "%s/attach", path);
    struct soak_box twin = *b;
    enum soak_answer a = soak_ask(c, &(struct soak_ask){"POST", attach, "{}", NULL, 0});
    if (a == SOAK_DONE && (id = strstr(c->body.p, "sbx_"))) {
        (void)snprintf(twin.name, sizeof twin.name, "%.24s", id);
        check_number(c, &twin);
        if (ask_box(c, &twin, "DELETE", "?force=true", NULL) == SOAK_UNANSWERED)
            (void)resolve(c, &twin);
    }
    (void)soak_ask(c, &(struct soak_ask){"DELETE", path, NULL, NULL, 0});
}

static void op_list(struct soak_client *c, struct soak_box *b)
{
    (void)b;
    if (soak_ask(c, &(struct soak_ask){"GET", "/v1/sandboxes?limit=1000", NULL, NULL, 0}) !=
        SOAK_DONE)
        return;
    if (strstr(c->body.p, soak_tenant(!c->tenant)))
        soak_bad(c->world, "a list of %s names %s", soak_tenant(c->tenant),
                 soak_tenant(!c->tenant));
}

/* Another tenant's sandbox is not there, by name and by id, whatever is asked of it. */
static void op_trespass(struct soak_client *c, struct soak_box *b)
{
    static const char *const asks[][2] = {{"GET", ""},
                                          {"POST", "/wake"},
                                          {"POST", "/suspend"},
                                          {"GET", "/files?path=/workspace/n"},
                                          {"DELETE", "?force=true"},
                                          {"GET", "/events"}};
    const struct soak_box *theirs =
        &c->world->boxes[(c->index + 1) % SOAK_CLIENTS][b - c->world->boxes[c->index]];
    size_t i = dice_below(&c->seed, sizeof asks / sizeof asks[0]);
    struct soak_box named = *theirs;
    if (named.id[0] && dice_below(&c->seed, 2))
        (void)snprintf(named.name, sizeof named.name, "%s", theirs->id);
    if (ask_box(c, &named, asks[i][0], asks[i][1], NULL) == SOAK_DONE)
        soak_bad(c->world, "%s %s%s is answered to %s", asks[i][0], named.name, asks[i][1],
                 soak_tenant(c->tenant));
}

static void op_read(struct soak_client *c, struct soak_box *b)
{
    check_number(c, b);
    check_blob(c, b);
}

/* Output that is read slowly, and left in the middle. */
static void op_vanish(struct soak_client *c, struct soak_box *b)
{
    struct dz_err err = {0};
    char path[160], bytes[64];
    const struct dz_client_req req = {
        .method = "POST",
        .target = at(b, "/exec", path),
        .accept = "text/event-stream",
        .body = DZ_STR("{\"shell\":\"seq 1 2000000\",\"timeout\":\"3s\"}"),
        .timeout_ms = HUNG_MS,
    };
    struct dz_client *other = NULL;
    if (connect_to(c, &other, &err) == 0 && dz_client_begin(other, &req, &err) >= 0)
        for (unsigned i = dice_below(&c->seed, 20);
             i > 0 && dz_client_read(other, bytes, sizeof bytes, &err) > 0; i--)
            nap(20);
    dz_client_close(other);
}

/* A request that ends in its middle: half a body, and nothing more. */
static ssize_t half(void *arg, char *p, size_t n, struct dz_err *err)
{
    int *left = arg;
    if ((*left)-- <= 0)
        return dz_fail(err, DZ_ECANCELED, "the client has gone");
    memset(p, 'x', n);
    return (ssize_t)n;
}

static void op_break(struct soak_client *c, struct soak_box *b)
{
    struct dz_err err = {0};
    char path[160];
    int pieces = (int)dice_below(&c->seed, 4);
    struct dz_client *other = NULL;
    const struct dz_client_req req = {
        .method = "PUT",
        .target = at(b, "/files?path=/workspace/half", path),
        .read = half,
        .read_arg = &pieces,
        .read_size = 10 << 20,
        .timeout_ms = HUNG_MS,
    };
    if (connect_to(c, &other, &err) == 0 && dz_client_begin(other, &req, &err) >= 0)
        soak_bad(c->world, "%s: half a body is taken for a whole one", b->name);
    dz_client_close(other);
    if (ask_box(c, b, "GET", "/files?path=/workspace/half", NULL) == SOAK_DONE)
        soak_bad(c->world, "%s: half a file is there", b->name);
}

static const struct op {
    const char *name;
    void (*run)(struct soak_client *c, struct soak_box *b);
    unsigned weight;
} ops[] = {
    {"number", op_number, 30},  {"blob", op_blob, 15},        {"read", op_read, 20},
    {"memory", op_memory, 4},   {"suspend", op_suspend, 10},  {"freeze", op_freeze, 3},
    {"archive", op_archive, 1}, {"wake", op_wake, 3},         {"fork", op_fork, 3},
    {"list", op_list, 3},       {"trespass", op_trespass, 6}, {"vanish", op_vanish, 2},
    {"break", op_break, 2},     {"destroy", op_destroy, 1},
};
#define OPS (sizeof ops / sizeof ops[0])

const char *soak_op_name(int op)
{
    return op < (int)OPS ? ops[op].name : NULL;
}

/* --- a life
 * ---------------------------------------------------------------------------------------- */

bool soak_settle(struct soak_client *c)
{
    for (int i = 0; i < SOAK_BOXES; i++) {
        struct soak_box *b = &c->world->boxes[c->index][i];
        for (int64_t end = dz_clock_mono_ms() + SETTLE_MS; !b->there; nap(50)) {
            op_create(c, b);
            if (!b->there && dz_clock_mono_ms() > end)
                return false;
        }
    }
    return true;
}

void soak_step(struct soak_client *c)
{
    struct soak_box *b = &c->world->boxes[c->index][dice_below(&c->seed, SOAK_BOXES)];
    unsigned sum = 0, pick;
    size_t op = 0;
    if (!b->there) {
        op_create(c, b);
        return;
    }
    for (size_t i = 0; i < OPS; i++)
        sum += ops[i].weight;
    for (pick = dice_below(&c->seed, sum); pick >= ops[op].weight; op++)
        pick -= ops[op].weight;
    ops[op].run(c, b);
    atomic_fetch_add(&c->world->done[op], 1);
}

void soak_verify(struct soak_client *c)
{
    for (int i = 0; i < SOAK_BOXES; i++) {
        struct soak_box *b = &c->world->boxes[c->index][i];
        if (resolve(c, b) && b->there) {
            check_number(c, b);
            check_blob(c, b);
        }
    }
}

_Noreturn void soak_live(struct soak_client *c)
{
    struct soak_world *w = c->world;
    c->body = (struct dz_buf)DZ_BUF_INIT(BODY_MAX);
    while (!atomic_load(&w->stop)) {
        if (atomic_load(&w->pause)) {
            dz_client_closep(&c->connection);
            atomic_fetch_add(&w->paused, 1);
            while (atomic_load(&w->pause) && !atomic_load(&w->stop))
                nap(20);
            atomic_fetch_sub(&w->paused, 1);
        }
        soak_step(c);
        if (atomic_load(&w->unanswered) && !c->connection)
            nap(20); /* the daemon is being started */
    }
    dz_client_closep(&c->connection);
    dz_buf_release(&c->body);
    _exit(0);
}

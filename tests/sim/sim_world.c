/* SPDX-License-Identifier: MIT
 *
 * The simulated machine: what happens, what crashes, and what must be true at rest.
 */
#include "sim_world.h"

#include "../lib/dice.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEPS_MAX = 200000, /* events of one stretch of time; more is a loop */
    IN_LINE_MAX = 512,
};

void sim_bad(struct sim_world *w, const char *fmt, ...)
{
    va_list ap;
    if (w->bad[0])
        return;
    va_start(ap, fmt);
    (void)vsnprintf(w->bad, sizeof w->bad, fmt, ap);
    va_end(ap);
}

/* --- the machine ------------------------------------------------------------------ */

/* A live file must not be replaced or removed under a cell. */
static void guard(void *arg, const char *key)
{
    struct sim_world *w = arg;
    char id[DZ_COLD_KEY];
    enum dz_cold_file file;
    if (!dz_cold_parse_key(key, id, &file) || file != DZ_COLD_LIVE)
        return;
    const struct sim_sandbox *b = sim_box(w, id);
    if (b && b->running)
        sim_bad(w, "%s is changed while a cell runs it", key);
}

static int64_t delay(void *arg)
{
    struct sim_world *w = arg;
    uint32_t luck = dice_below(&w->dice, 10);
    return luck < 5 ? 0 : luck < 9 ? dice_below(&w->dice, 50) : dice_below(&w->dice, 20000);
}

static void pass(struct sim_world *w, int64_t ms)
{
    int64_t until = dz_clock_real_ms() + ms;
    int steps = 0;
    while (!w->dead && !w->bad[0] && dz_loop_sim_step(w->loop, until))
        if (++steps > STEPS_MAX)
            sim_bad(w, "over %d events in %" PRId64 " ms", STEPS_MAX, ms);
}

static void boot(struct sim_world *w)
{
    struct dz_err err = {0};
    struct dz_sandboxes_opts opts = {
        .loop = w->loop,
        .registry = &w->registry,
        .cold = {.live = &w->live.head, .store = &w->cold.head},
        .files = &sim_cell_files,
        .files_arg = w,
        .live_path = "/live",
        .idle_policy = {20000, 60000},
    };
    sim_cells_begin(w, &opts);
    int rc = dz_registry_open_disk(dz_db_sim_disk(w->disk), &w->inner, &err);
    if (rc == 0)
        rc = dz_sandboxes_new(&opts, &w->k, &err);
    if (rc < 0) {
        sim_bad(w, "boot: %s", err.msg);
        return;
    }
    rc = dz_sandboxes_recover(w->k, &err);
    if (rc < 0 && !w->dead) {
        if (w->fault_percent == 0)
            sim_bad(w, "recover: %s", err.msg);
        w->fault_percent = 0;
        w->dead = true; /* whoever started it tries again */
    }
}

/* The daemon is gone, and all cells with it. */
static void fall(struct sim_world *w)
{
    dz_loop_sim_forget(w->loop);
    dz_sandboxes_free(w->k);
    w->k = NULL;
    sim_cells_gone(w);
}

/* Of names that are not durable some are lost, the newest first. */
static void cut_store(struct sim_world *w, struct sim_store *s)
{
    bool lose_bytes = dice_below(&w->dice, 2) == 0;
    size_t lost = s->change_count ? dice_below(&w->dice, (uint32_t)s->change_count + 1) : 0;
    sim_store_power_cut(s, lost, lose_bytes);
}

static void lose_power(struct sim_world *w)
{
    dz_db_sim_cut_at(w->disk, 0);
    (void)dz_registry_close(w->inner, NULL);
    if (dz_db_sim_power_on(w->disk) < 0)
        abort();
    w->cut = true;
    w->kept.same_boot = false;
    bool lost = dice_below(&w->dice, 2) == 0;
    cut_store(w, &w->live);
    cut_store(w, &w->cold);
    for (int i = 0; i < SIM_OBJECTS; i++) {
        struct sim_object *o = &w->live.objects[i];
        memcpy(lost ? o->bytes : o->synced, lost ? o->synced : o->bytes, SIM_BYTES);
        o->size = strlen(o->bytes);
    }
    for (int i = 0; i < SIM_SANDBOXES; i++) {
        struct sim_sandbox *b = &w->boxes[i];
        b->awake_ms = INT32_MAX; /* what was set last may be lost: no word on its time */
        b->unknown = true;       /* its row may be a second younger than its file */
        if (lost)
            b->least = b->synced;
        else
            b->synced = b->least;
    }
}

/* It is over; the next has another id. */
static void forget_box(struct sim_sandbox *b)
{
    int lives = (b->lives + 1) % 1000;
    size_t stem = strcspn(b->id, "-");
    char id[16];
    memcpy(id, b->id, stem);
    (void)snprintf(id + stem, sizeof id - stem, "-%d", lives);
    *b = (struct sim_sandbox){.lives = lives};
    memcpy(b->id, id, sizeof b->id);
}

/* After a restart the registry says what became of what was under way. */
static void resolve(struct sim_world *w, struct sim_sandbox *b)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    int rc = dz_registry_get(w->inner, b->id, &row, NULL);
    if (!b->unknown || w->dead)
        return;
    if (rc < 0) {
        forget_box(b);
    } else if (!row.op[0]) {
        b->exists = true;
        b->doomed = b->unknown = false;
    }
}

static void crash(struct sim_world *w, bool power)
{
    w->crashes++;
    w->calls_left = -1;
    w->dead = true;
    fall(w);
    if (power)
        lose_power(w);
    else
        (void)dz_registry_close(w->inner, NULL);
    w->dropped = w->asked - w->answered;
    w->dead = false;
    for (int i = 0; i < SIM_SANDBOXES; i++)
        w->boxes[i].unknown = w->boxes[i].unknown || w->boxes[i].doomed;
    if (!w->calm && dice_below(&w->dice, 8) == 0)
        w->calls_left = dice_below(&w->dice, 20); /* and again, in the middle of recovery */
    boot(w);
    while (w->dead && !w->bad[0]) { /* in recovery, or it could not be done */
        w->calls_left = -1;
        fall(w);
        (void)dz_registry_close(w->inner, NULL);
        w->dead = false;
        boot(w);
    }
    for (int i = 0; i < SIM_SANDBOXES && !w->bad[0]; i++)
        resolve(w, &w->boxes[i]);
}

void sim_open(struct sim_world *w, uint64_t seed, const void *template, size_t size)
{
    *w = (struct sim_world){.seed = seed, .dice = seed, .calls_left = -1};
    w->clock.real_ns = 1700000000 * DZ_NS_PER_S;
    w->registry.ops = &sim_registry_ops;
    w->disk = dz_db_sim_new(seed);
    if (!w->disk || dz_db_sim_load(w->disk, DZ_DB_FILE_MAIN, template, size) < 0 ||
        dz_loop_sim_new(&w->clock, delay, w, &w->loop, NULL) < 0)
        abort();
    sim_store_init(&w->live);
    sim_store_init(&w->cold);
    w->live.fault = w->cold.fault = sim_fault;
    w->live.guard = w->cold.guard = guard;
    w->live.arg = w->cold.arg = w;
    w->cold.head.far = seed % 3 == 0; /* as a bucket is */
    for (int i = 0; i < SIM_SANDBOXES; i++)
        (void)snprintf(w->boxes[i].id, sizeof w->boxes[i].id, "s%d-0", i);
    boot(w);
}

void sim_close(struct sim_world *w)
{
    if (w->k)
        fall(w);
    (void)dz_registry_close(w->inner, NULL);
    dz_loop_free(w->loop);
    sim_store_release(&w->live);
    sim_store_release(&w->cold);
    dz_db_sim_free(w->disk);
}

/* --- what is asked ------------------------------------------------------------------- */

struct question {
    struct sim_world *w;
    char id[16], clone[16];
    enum dz_request what;
    uint64_t ticket;
    bool open;
};
static struct question questions[IN_LINE_MAX];
static size_t question_count;

static void on_answer(void *arg, const struct dz_sandbox_reply *result)
{
    struct question *q = arg;
    struct sim_world *w = q->w;
    struct sim_sandbox *b = sim_box(w, q->id), *clone = sim_box(w, q->clone);
    bool deleted = q->what == DZ_REQUEST_DELETE || q->what == DZ_REQUEST_DESTROY;
    if (!q->open)
        sim_bad(w, "%s %s was answered twice", dz_request_name(q->what), q->id);
    q->open = false;
    w->answered++;
    w->operations += result->code == 0;
    w->done[q->what] += result->code == 0;
    if (result->code == 0 && deleted && b)
        forget_box(b);
    if (clone && result->code == 0)
        clone->exists = true;
    if (clone)
        clone->unknown = result->code < 0;
    if (result->code == 0 && b && !w->dead &&
        (q->what == DZ_REQUEST_USE || q->what == DZ_REQUEST_WAKE || q->what == DZ_REQUEST_REVIVE)) {
        /* Between an answer and its delivery, which take no time, the cell may have ended. */
        if (!b->running && b->ended_ns != dz_clock_boot_ns())
            sim_bad(w, "%s %s was answered and no cell runs", dz_request_name(q->what), q->id);
        b->answered = b->running;
    }
}

static struct sim_sandbox *any_box(struct sim_world *w)
{
    return &w->boxes[dice_below(&w->dice, SIM_SANDBOXES)];
}

static void ask(struct sim_world *w, enum dz_request what, struct sim_sandbox *b)
{
    struct question *q = &questions[question_count++ % IN_LINE_MAX];
    struct sim_sandbox *clone = what == DZ_REQUEST_CLONE ? any_box(w) : NULL;
    struct dz_err err = {0};
    if (clone && (clone->exists || clone->unknown || clone == b))
        return;
    *q = (struct question){.w = w, .what = what, .open = true};
    (void)snprintf(q->id, sizeof q->id, "%s", b->id);
    if (clone)
        (void)snprintf(q->clone, sizeof q->clone, "%s", clone->id);
    const struct dz_instance to = {.id = q->clone, .tenant = q->clone};
    bool files = what == DZ_REQUEST_ARCHIVE && dice_below(&w->dice, 3) == 0;
    b->may_drop |= files;
    const struct dz_sandbox_request r = {
        .what = what,
        .id = q->id,
        .keep = files ? "files" : NULL,
        .clone = clone ? &to : NULL,
        .share_store = &w->cold.head,
        .share_key = "public",
        .deadline_ms = dice_below(&w->dice, 8) ? 0 : dice_below(&w->dice, 5000),
        .done = on_answer,
        .arg = q,
    };
    if (what == DZ_REQUEST_DELETE || what == DZ_REQUEST_DESTROY)
        b->doomed = true;
    if (clone)
        clone->unknown = true;
    w->asked++;
    int rc = dz_sandbox_submit(w->k, &r, &q->ticket, &err);
    if (rc == 0)
        return;
    w->asked--;
    q->open = false;
    if (clone && !w->dead)
        clone->unknown = false;
    if (rc == DZ_EGONE && !b->doomed && !b->unknown && !w->dead)
        sim_bad(w, "%s is gone, and nobody asked for that", b->id);
    if (rc == DZ_ENOENT && b->exists && !b->doomed && !b->unknown && !w->dead)
        sim_bad(w, "%s is unknown: %s", b->id, err.msg);
}

static void register_box(struct sim_world *w, struct sim_sandbox *b)
{
    const struct dz_instance row = {
        .id = b->id,
        .tenant = "t",
        .keep = dice_below(&w->dice, 2) ? "files" : "memory",
        .ephemeral = dice_below(&w->dice, 6) == 0,
        .timeout_ms = dice_below(&w->dice, 3) ? 0 : dice_below(&w->dice, 60000),
        .timeout_action = dice_below(&w->dice, 2) ? "pause" : "destroy",
    };
    b->ephemeral = row.ephemeral != 0;
    int rc = dz_sandbox_register(w->k, &row, NULL);
    if (rc == 0)
        b->exists = true;
    else if (w->dead)
        b->unknown = true;
}

/* --- what happens --------------------------------------------------------------------- */

static void ask_something(struct sim_world *w, struct sim_sandbox *b)
{
    static const enum dz_request often[] = {
        DZ_REQUEST_USE,     DZ_REQUEST_USE,      DZ_REQUEST_WAKE,    DZ_REQUEST_WAKE,
        DZ_REQUEST_SUSPEND, DZ_REQUEST_SUSPEND,  DZ_REQUEST_FREEZE,  DZ_REQUEST_FREEZE,
        DZ_REQUEST_ARCHIVE, DZ_REQUEST_PREFETCH, DZ_REQUEST_REVIVE,  DZ_REQUEST_CLONE,
        DZ_REQUEST_SHARE,   DZ_REQUEST_DELETE,   DZ_REQUEST_DESTROY, DZ_REQUEST_FREEZE,
    };
    enum dz_request what = often[dice_below(&w->dice, DZ_ARRAY_LEN(often))];
    if (what == DZ_REQUEST_DESTROY && dice_below(&w->dice, 8))
        return;
    ask(w, what, b);
}

static void use_something(struct sim_world *w, struct sim_sandbox *b)
{
    if (!b->running || !b->answered)
        return;
    sim_write(w, b);
    dz_sandbox_touch(w->k, b->id, (enum dz_activity)dice_below(&w->dice, DZ_ACTIVITY_COUNT));
}

static void disturb(struct sim_world *w, struct sim_sandbox *b)
{
    const struct question *q = &questions[dice_below(&w->dice, IN_LINE_MAX)];
    switch (dice_below(&w->dice, 7)) {
    case 0:
        if (b->running)
            sim_cell_ends(w, b);
        break;
    case 1:
        if (q->open)
            dz_sandbox_cancel(w->k, q->ticket);
        break;
    case 2:
        (void)!dz_sandbox_abort(w->k, b->id, NULL);
        break;
    case 3:
        (void)!dz_sandbox_hold(w->k, b->id, dz_clock_real_ms() + dice_below(&w->dice, 90000), NULL);
        break;
    case 4:
        if (dz_sandbox_timeout(w->k, b->id, dice_below(&w->dice, 60000),
                               dice_below(&w->dice, 2) ? DZ_TIMEOUT_PAUSE : DZ_TIMEOUT_DESTROY,
                               NULL) == 0) {
            b->awake_ms = 0;
            b->active_at = b->active_at ? sim_boot_ms() : 0;
        }
        break;
    case 5:
        dz_clock_set_real(&w->clock, w->clock.real_ns + dice_below(&w->dice, 60000) * DZ_NS_PER_MS);
        break;
    default:
        w->fault_percent = dice_below(&w->dice, 3) ? 0 : dice_below(&w->dice, 25);
        w->cold.capacity = dice_below(&w->dice, 4) ? SIM_OBJECTS : 1;
        break;
    }
}

void sim_act(struct sim_world *w)
{
    struct sim_sandbox *b = any_box(w);
    uint32_t luck = dice_below(&w->dice, 100);
    if (b->erased && b->doomed && !b->unknown)
        forget_box(b);
    if (!b->exists && !b->unknown && luck < 60)
        register_box(w, b);
    else if (luck < 64)
        ask_something(w, b);
    else if (luck < 84)
        use_something(w, b);
    else if (luck < 96)
        disturb(w, b);
    else if (luck < 98)
        crash(w, dice_below(&w->dice, 3) == 0);
    else
        w->calls_left = dice_below(&w->dice, 60);
    uint32_t wait = dice_below(&w->dice, 10);
    if (!w->dead)
        pass(w, wait < 5   ? dice_below(&w->dice, 20)
                : wait < 9 ? dice_below(&w->dice, 3000)
                           : 30000);
    if (w->dead && !w->bad[0])
        crash(w, dice_below(&w->dice, 3) == 0);
}

/* --- at rest ------------------------------------------------------------------------ */

/* Is the sandbox deleted? The objects of others may not be forgotten. */
static bool may_leave(struct sim_world *w, const char *id)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    int rc = dz_registry_get(w->inner, id, &row, NULL);
    return rc == DZ_EGONE || rc == DZ_ENOENT;
}

static void on_finding(void *arg, const struct dz_sandbox_finding *f)
{
    struct sim_world *w = arg;
    if (strcmp(f->what, "orphan") == 0 && w->cut)
        return; /* the row of a file may be lost with the last second */
    if (strcmp(f->what, "orphan") == 0 && w->cold.head.far && !strstr(f->text, ".doze") &&
        !strstr(f->text, ".scratch") && may_leave(w, f->id))
        return; /* the object of a deleted sandbox that could not be removed */
    if (strcmp(f->what, "stray") == 0 && strncmp(f->text, "public ", 7) == 0)
        return; /* what a share made */
    sim_bad(w, "at rest: %s %s: %s", f->what, f->id, f->text);
}

struct unpacked {
    struct dz_blob_out head;
    char bytes[SIM_BYTES];
    size_t size;
};

static int unpack_write(struct dz_blob_out *out, const void *data, size_t n, struct dz_err *err)
{
    struct unpacked *u = (struct unpacked *)out;
    if (u->size + n > sizeof u->bytes)
        return dz_fail(err, DZ_ELIMIT, "simulated: too long");
    memcpy(u->bytes + u->size, data, n);
    u->size += n;
    return 0;
}

static int read_archive(struct sim_world *w, const char *key, struct unpacked *u)
{
    static const struct dz_blob_out_ops ops = {.write = unpack_write};
    DZ_AUTO(dz_blob_in_closep) struct dz_blob_in *in = NULL;
    uint8_t digest[DZ_SHA256_BYTES];
    *u = (struct unpacked){.head = {.ops = &ops, .fd = -1}};
    int rc = dz_blob_in_open(&w->cold.head, key, &in, NULL);
    return rc < 0 ? rc : dz_cold_expand(in, &u->head, NULL, digest, NULL);
}

static void check_content(struct sim_world *w, struct sim_sandbox *b, const struct dz_instance *row)
{
    enum dz_state state;
    char key[DZ_COLD_KEY];
    struct unpacked u = {.size = 0};
    if (dz_state_parse(dz_str(row->state), &state, NULL) < 0)
        return;
    bool cold = state == DZ_STATE_FROZEN;
    if (state == DZ_STATE_ARCHIVED) {
        if (read_archive(w, dz_cold_key(b->id, DZ_COLD_ARCHIVE, key), &u) < 0)
            sim_bad(w, "at rest: the archive of %s cannot be read", b->id);
    } else {
        const struct sim_object *o =
            sim_store_find(cold ? &w->cold : &w->live,
                           dz_cold_key(b->id, cold ? DZ_COLD_FROZEN : DZ_COLD_LIVE, key));
        if (!o && state == DZ_STATE_CREATED)
            return;
        if (!o)
            sim_bad(w, "at rest: %s is %s and has no file", b->id, row->state);
        else
            memcpy(u.bytes, o->bytes, u.size = o->size);
    }
    if (!w->bad[0] && !sim_believe(b, u.bytes, u.size))
        sim_bad(w, "at rest: %s (%s) holds \"%.*s\", and had version %" PRIu64, b->id, row->state,
                (int)u.size, u.bytes, b->acked);
}

static void check_box(struct sim_world *w, struct sim_sandbox *b)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    int rc = dz_registry_get(w->inner, b->id, &row, NULL);
    if (rc < 0) {
        if (b->exists && !b->doomed && !b->unknown)
            sim_bad(w, "at rest: %s has no row", b->id);
        if (b->running)
            sim_bad(w, "at rest: %s runs and has no row", b->id);
        return;
    }
    if (!b->exists && !b->unknown)
        sim_bad(w, "at rest: %s has a row, and was not made", b->id);
    if (row.op[0])
        sim_bad(w, "at rest: %s still has the operation %s/%s", b->id, row.op, row.step);
    if (b->running != (strcmp(row.state, "active") == 0))
        sim_bad(w, "at rest: %s is %s, and %s", b->id, row.state,
                b->running ? "a cell runs it" : "no cell runs it");
    if (row.ephemeral && strcmp(row.state, "active") != 0 && strcmp(row.state, "created") != 0)
        sim_bad(w, "at rest: %s is not persistent, and %s", b->id, row.state);
    int64_t over = row.retry_at > row.timeout_at ? row.retry_at : row.timeout_at;
    if (row.timeout_at && strcmp(row.state, "active") == 0 && over + 60000 < dz_clock_real_ms())
        sim_bad(w, "at rest: the timeout of %s is over, and it is active", b->id);
    check_content(w, b, &row);
}

static void count_row(struct sim_world *w)
{
    DZ_AUTO(dz_instances_release) struct dz_instances rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    if (dz_registry_list(w->inner, &(struct dz_registry_filter){0}, &rows, NULL) < 0)
        sim_bad(w, "at rest: the registry cannot be listed");
    for (size_t i = 0; i < rows.n; i++)
        if (!sim_box(w, rows.p[i].id) && !w->cut)
            sim_bad(w, "at rest: a row of %s, which is over", rows.p[i].id);
}

void sim_rest(struct sim_world *w)
{
    uint64_t left = 0;
    struct dz_err err = {0};
    w->calm = true;
    w->fault_percent = 0;
    w->calls_left = -1;
    w->cold.capacity = SIM_OBJECTS;
    for (int i = 0; i < 20 && !w->bad[0] && (i < 1 || dz_sandboxes_busy(w->k)); i++)
        pass(w, 3600000);
    if (w->bad[0])
        return;
    if (dz_sandboxes_busy(w->k))
        sim_bad(w, "after twenty hours %zu operations are under way", dz_sandboxes_busy(w->k));
    else if (dz_sandboxes_check(w->k, w->cut, on_finding, w, &left, &err) < 0)
        sim_bad(w, "at rest: check: %s", err.msg);
    if (w->asked != w->answered + w->dropped)
        sim_bad(w, "%ld asked, %ld answered, %ld lost in crashes", w->asked, w->answered,
                w->dropped);
    if (w->live.writers || w->cold.writers)
        sim_bad(w, "at rest: %d writers are open", w->live.writers + w->cold.writers);
    for (int i = 0; i < SIM_SANDBOXES && !w->bad[0]; i++)
        check_box(w, &w->boxes[i]);
    count_row(w);
}

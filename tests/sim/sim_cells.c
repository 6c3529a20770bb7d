/* SPDX-License-Identifier: MIT
 *
 * Played cells: who runs, what was written, and how starting, stopping and carrying end.
 */
#include "../lib/dice.h"
#include "../lib/played.h"
#include "sim_world.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLOW_MS = 4000, /* the longest that a cell takes, but for one that never answers */
    CALLS_MAX = 64,
};

struct call {
    struct sim_world *w;
    int fd; /* of the cell; 0: it is over */
    bool start, keep;
    bool acted; /* in the call; what it came to is told later */
    int code;   /* 0 or DZ_E*, with a sentence */
    const char *error;
    bool alive; /* of a stop that failed: it goes on */
    int64_t wake_at;
};
static struct call calls[CALLS_MAX];
static size_t call_count;
static struct played cells;

struct sim_sandbox *sim_box(struct sim_world *w, const char *id)
{
    for (int i = 0; i < SIM_SANDBOXES; i++)
        if (strcmp(w->boxes[i].id, id) == 0)
            return &w->boxes[i];
    return NULL;
}

/* --- content --------------------------------------------------------------------- */

static size_t print_version(char *out, const char *id, uint64_t version)
{
    return (size_t)snprintf(out, 64, "%s:%" PRIu64 ";", id, version);
}

static bool read_version(const char *bytes, size_t size, const char *id, uint64_t *ret_version)
{
    char want[64];
    size_t n = strlen(id);
    if (size < n + 3 || size >= sizeof want || memcmp(bytes, id, n) != 0 || bytes[n] != ':')
        return false;
    *ret_version = strtoull(bytes + n + 1, NULL, 10);
    return print_version(want, id, *ret_version) == size && memcmp(want, bytes, size) == 0;
}

/* "M" behind the version: a machine sleeps in this file. */
static bool has_machine(const char *bytes, size_t size)
{
    return size > 0 && bytes[size - 1] == 'M';
}

bool sim_believe(struct sim_sandbox *b, const char *bytes, size_t size)
{
    uint64_t version;
    bool machine = has_machine(bytes, size);
    size -= machine;
    if (b->slept && !b->dropped && !machine)
        return false;
    if (!read_version(bytes, size, b->id, &version) || version < b->least || version > b->acked)
        return false;
    b->acked = b->least = version;
    return true;
}

static struct sim_object *file_of(struct sim_world *w, const char *id)
{
    char key[DZ_COLD_KEY];
    return sim_store_find(&w->live, dz_cold_key(id, DZ_COLD_LIVE, key));
}

/* A write that is acknowledged: in the file, and perhaps not on the disk. */
void sim_write(struct sim_world *w, struct sim_sandbox *b)
{
    struct sim_object *o = file_of(w, b->id);
    assert(b->running);
    if (!o) {
        sim_bad(w, "%s runs and has no file", b->id);
        return;
    }
    b->least = ++b->acked;
    o->size = print_version(o->bytes, b->id, b->acked);
}

static void sync_file(struct sim_world *w, struct sim_sandbox *b)
{
    struct sim_object *o = file_of(w, b->id);
    if (!o)
        return;
    memcpy(o->synced, o->bytes, sizeof o->synced);
    b->synced = b->acked;
}

/* --- starting and stopping --------------------------------------------------------- */

void sim_end(struct sim_sandbox *b)
{
    b->running = false;
    b->ended_ns = dz_clock_boot_ns();
}

static void fail(struct call *c, int code, const char *error)
{
    c->code = code;
    c->error = error;
}

static void start(struct sim_world *w, const char *id, struct call *how)
{
    struct sim_sandbox *b = sim_box(w, id);
    struct sim_object *o = file_of(w, id);
    if (!b || !o) {
        sim_bad(w, "%s is to be started and has no file", id);
        return;
    }
    if (b->running)
        sim_bad(w, "%s is started twice", id);
    if (!w->calm && dice_below(&w->dice, 10) == 0) {
        fail(how, DZ_EIO, "simulated: no start");
        return;
    }
    if (!sim_believe(b, o->bytes, o->size))
        sim_bad(w, "%s starts with \"%.*s\", and had version %" PRIu64, id, (int)o->size, o->bytes,
                b->acked);
    if (has_machine(o->bytes, o->size))
        o->bytes[--o->size] = '\0'; /* the machine runs now, and the file has none */
    b->slept = b->dropped = false;
    b->running = true;
    b->answered = false;
}

static void stop(struct sim_world *w, const char *id, bool keep, struct call *how)
{
    struct sim_sandbox *b = sim_box(w, id);
    struct sim_object *o = file_of(w, id);
    uint32_t luck = w->calm ? 19 : dice_below(&w->dice, 20);
    if (!b || !b->running) { /* it died meanwhile */
        fail(how, DZ_EIO, "simulated: it is dead");
        return;
    }
    if (luck < 2) {
        fail(how, DZ_ENOSPC, "simulated: full");
        how->alive = luck == 0;
        if (luck != 0)
            sim_end(b);
        return;
    }
    if (keep && o)
        (void)snprintf(o->bytes + o->size++, 2, "M");
    sync_file(w, b);
    b->slept = keep && o;
    sim_end(b);
    how->wake_at = luck == 2 ? dz_clock_real_ms() + dice_below(&w->dice, 30000) : 0;
}

static void act(struct call *c, const char *id)
{
    if (c->start)
        start(c->w, id, c);
    else
        stop(c->w, id, c->keep, c);
    c->acted = true;
}

static void tell(const struct call *c, struct dz_cell *cell)
{
    if (c->code < 0 && c->alive)
        played_awake(cell, c->code, c->error);
    else if (c->code < 0)
        played_fails(cell, c->code, c->error);
    else if (c->start)
        played_up(cell);
    else
        played_sleeps(cell, c->wake_at ? c->wake_at * DZ_NS_PER_MS : INT64_MAX, false);
}

static void answer(void *arg)
{
    struct call *c = arg;
    struct dz_cell *cell = c->fd ? played_cell_fd(&cells, c->fd) : NULL;
    if (!cell || cell->dead || c->w->dead)
        return; /* it was killed meanwhile */
    if (!c->acted)
        act(c, cell->id);
    c->fd = 0;
    tell(c, cell);
}

/* A quarter of them act within the call: a start that fails says so there, half of the time. */
static int ask(struct dz_cell *cell, bool is_start, bool keep, struct dz_err *err)
{
    struct sim_world *w = cell->played->arg;
    struct call *c = &calls[call_count++ % CALLS_MAX];
    *c = (struct call){.w = w, .fd = cell->fd, .start = is_start, .keep = keep};
    if (w->dead || (!w->calm && dice_below(&w->dice, 50) == 0))
        return 0; /* never */
    bool at_once = dice_below(&w->dice, 4) == 0;
    if (at_once)
        act(c, cell->id);
    if (is_start && c->code < 0 && dice_below(&w->dice, 2) == 0) {
        c->fd = 0;
        return dz_fail(err, c->code, "%s", c->error);
    }
    uint32_t delay = at_once ? 0 : dice_below(&w->dice, SLOW_MS);
    (void)!dz_loop_sim_call(w->loop, delay, answer, c, NULL);
    return 0;
}

static int cell_wake(void *arg, struct dz_cell *c, struct dz_err *err)
{
    (void)arg;
    return ask(c, true, false, err);
}

static void cell_suspend(void *arg, struct dz_cell *c, bool files_only)
{
    (void)arg;
    (void)ask(c, false, !files_only, NULL);
}

static void cell_killed(void *arg, struct dz_cell *c)
{
    struct sim_sandbox *b = sim_box(arg, c->id);
    if (b && b->running)
        sim_end(b);
}

void sim_cell_ends(struct sim_world *w, struct sim_sandbox *b)
{
    struct dz_cell *c = played_cell(&cells, b->id);
    (void)w;
    sim_end(b);
    if (c)
        played_fails(c, DZ_EIO, "simulated: it died");
}

void sim_cells_begin(struct sim_world *w, struct dz_sandboxes_opts *opts)
{
    cells = (struct played){.loop = w->loop,
                            .ops = played_ops("wasm"),
                            .arg = w,
                            .wake = cell_wake,
                            .suspend = cell_suspend,
                            .killed = cell_killed,
                            .cells_made = cells.cells_made};
    dz_list_init(&cells.cells);
    opts->runtimes[0] = (struct dz_sandbox_runtime){&cells.ops, &cells};
    opts->host = &played_host;
}

void sim_cells_gone(struct sim_world *w)
{
    memset(calls, 0, sizeof calls);
    for (int i = 0; i < SIM_SANDBOXES; i++)
        w->boxes[i].running = false;
}

/* --- files ----------------------------------------------------------------------- */

static int cell_make(void *arg, const struct dz_instance *row, struct dz_blob_out *out,
                     struct dz_err *err)
{
    struct sim_world *w = arg;
    struct sim_sandbox *b = sim_box(w, row->id);
    char text[64];
    if (b && b->acked > 0)
        sim_bad(w, "%s had version %" PRIu64 " and is made anew", row->id, b->acked);
    return dz_blob_out_write(out, text, print_version(text, row->id, 0), err);
}

static int cell_settle(void *arg, const char *id, struct dz_err *err)
{
    (void)arg;
    return dz_fail(err, DZ_EIO, "simulated: %s has no log", id);
}

/* Nobody drops a machine that was not asked to. A clone has the version of its base under its own
 * name. */
static int cell_carry(void *arg, const struct dz_sandbox_transfer *c, struct dz_err *err)
{
    struct sim_world *w = arg;
    char text[SIM_BYTES];
    if (!w->calm && dice_below(&w->dice, 10) == 0)
        return dz_fail(err, DZ_EIO, "simulated: no carrying");
    int rc = dz_blob_in_read(c->from, text, (size_t)c->from->size, 0, err);
    size_t size = (size_t)c->from->size;
    if (c->what == DZ_SANDBOX_TRANSFER_FILES) {
        struct sim_sandbox *b = sim_box(w, c->row->id);
        if (!b || !b->may_drop)
            sim_bad(w, "%s is archived without its memory, and nobody asked for that", c->row->id);
        else
            b->dropped = true;
        size -= has_machine(text, size);
    }
    if (rc < 0 || c->what != DZ_SANDBOX_TRANSFER_CLONE)
        return rc < 0 ? rc : dz_blob_out_write(c->to, text, size, err);
    /* the simulation gives each tenant's clone its id as the tenant's name */
    return dz_blob_out_write(c->to, text, print_version(text, c->tenant, 0), err);
}

static bool clock_load(void *arg, struct dz_sandbox_clock *ret_clock)
{
    const struct sim_world *w = arg;
    *ret_clock = w->kept;
    return w->has_kept;
}

static void clock_save(void *arg, const struct dz_sandbox_clock *clock)
{
    struct sim_world *w = arg;
    w->kept = *clock;
    w->kept.same_boot = w->has_kept = true;
}

const struct dz_sandbox_files sim_cell_files = {
    .clock_load = clock_load,
    .clock_save = clock_save,
    .make = cell_make,
    .checkpoint = cell_settle,
    .transfer = cell_carry,
};

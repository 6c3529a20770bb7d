/* SPDX-License-Identifier: MIT
 *
 * sandbox_rig.h - sandboxes on a simulated loop, a registry in memory, two real
 * directories, and played cells.
 *
 * A sandbox's file is a text. Starting a cell appends "+", stopping it appends "-" (or "~" if
 * memory is kept); a transfer copies the text with a letter in front.
 */
#ifndef DZ_TESTS_KEEPER_RIG_H
#define DZ_TESTS_KEEPER_RIG_H

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "loop/loop_sim.h"
#include "played.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    RIG_CELLS = 16,
    RIG_TEXT = 256,
};

struct rig_call {
    struct rig *rig;
    int fd; /* the cell's */
    char id[64];
    bool start, keep;
    struct dz_loop_task task; /* used if cell_ms is 0 */
};

struct rig {
    char dir[DZ_TEMP_DIR_TEXT];
    char path[DZ_TEMP_DIR_TEXT + 128];
    struct dz_clock_test clock;
    struct dz_loop *loop;
    struct dz_registry *registry;
    struct played cells;
    struct dz_sandboxes *k;
    struct dz_cold cold;
    char running[RIG_CELLS][64];
    int64_t cell_ms; /* how long starting and stopping takes */
    int start_code;  /* result of the next starts */
    int stop_code;
    bool stop_alive;
    bool silent; /* cells do not answer at all */
    int64_t wake_at;
    bool busy;        /* cells report that their guest was computing when it was suspended */
    bool may_resume;  /* field of the next requests */
    const char *keep; /* field of the next requests; NULL: not given */
    int carry_code;
    int settle_busy; /* this many times the file is still in use when it is checkpointed */
    int settles;
    int starts, stops, kills;
    struct dz_sandbox_clock kept; /* the stored clock, for the next daemon */
    struct rig_call calls[64];
    size_t call_count;
};

static inline char *rig_path(struct rig *r, const char *where, const char *name)
{
    (void)snprintf(r->path, sizeof r->path, "%s/%s/%s", r->dir, where, name);
    return r->path;
}

static inline bool rig_exists(struct rig *r, const char *where, const char *name)
{
    struct stat st;
    return stat(rig_path(r, where, name), &st) == 0;
}

static inline void rig_append(struct rig *r, const char *id, const char *text)
{
    char name[80];
    (void)snprintf(name, sizeof name, "%s.doze", id);
    DZ_AUTO(dz_fd_close) int fd = open(rig_path(r, "live", name), O_WRONLY | O_APPEND | O_CLOEXEC);
    CHECK(fd >= 0);
    if (fd >= 0)
        CHECK_INT(write(fd, text, strlen(text)), strlen(text));
}

/* The text of a file; "" if the file is missing. */
static inline const char *rig_text(struct rig *r, const char *where, const char *name)
{
    static char text[RIG_TEXT];
    struct dz_buf b = DZ_BUF_INIT(RIG_TEXT - 1);
    if (dz_fd_read_file(AT_FDCWD, rig_path(r, where, name), &b, NULL) < 0)
        dz_buf_reset(&b);
    (void)snprintf(text, sizeof text, "%.*s", (int)b.len, b.p);
    dz_buf_release(&b);
    return text;
}

static inline int rig_find(struct rig *r, const char *id)
{
    for (int i = 0; i < RIG_CELLS; i++)
        if (strcmp(r->running[i], id) == 0)
            return i;
    return -1;
}

/* Finish a start: the machine is up, or the cell fails with start_code. */
static inline void rig_started(struct rig *r, struct dz_cell *c)
{
    if (r->start_code < 0) {
        played_fails(c, r->start_code, "the cell says no");
        return;
    }
    CHECK_INT(rig_find(r, c->id), -1); /* never two cells for one file */
    (void)snprintf(r->running[rig_find(r, "")], 64, "%s", c->id);
    rig_append(r, c->id, "+");
    played_up(c);
}

static inline void rig_forget(struct rig *r, const char *id)
{
    int i = rig_find(r, id);
    if (i >= 0)
        r->running[i][0] = '\0';
}

static inline void rig_stopped(struct rig *r, struct dz_cell *c, bool keep)
{
    if (r->stop_code < 0 && r->stop_alive) {
        played_awake(c, r->stop_code, "the cell says no");
        return;
    }
    CHECK(rig_find(r, c->id) >= 0);
    rig_forget(r, c->id);
    if (r->stop_code < 0) {
        played_fails(c, r->stop_code, "the cell says no");
        return;
    }
    rig_append(r, c->id, keep ? "~" : "-");
    played_sleeps(c, r->wake_at ? r->wake_at * DZ_NS_PER_MS : INT64_MAX, r->busy);
}

static inline void rig_answer(void *arg)
{
    struct rig_call *call = arg;
    struct dz_cell *c = played_cell_fd(&call->rig->cells, call->fd);
    if (!c || c->dead) /* it was killed meanwhile */
        return;
    if (call->start)
        rig_started(call->rig, c);
    else
        rig_stopped(call->rig, c, call->keep);
}

static inline void rig_ask(struct rig *r, const struct dz_cell *cell, bool start, bool keep)
{
    struct rig_call *c = &r->calls[r->call_count++ % 64];
    *c = (struct rig_call){.rig = r, .fd = cell->fd, .start = start, .keep = keep};
    (void)snprintf(c->id, sizeof c->id, "%s", cell->id);
    dz_loop_task_init(&c->task, r, rig_answer, c);
    if (!r->silent && r->cell_ms == 0)
        dz_loop_post(r->loop, &c->task);
    else if (!r->silent)
        CHECK_INT(dz_loop_sim_call(r->loop, r->cell_ms, rig_answer, c, NULL), 0);
}

/* With cell_ms 0, a start that fails is refused at once. */
static inline int rig_wake(void *arg, struct dz_cell *c, struct dz_err *err)
{
    struct rig *r = arg;
    r->starts++;
    if (r->cell_ms == 0 && r->start_code < 0)
        return dz_fail(err, r->start_code, "the cell says no");
    rig_ask(r, c, true, true);
    return 0;
}

static inline void rig_suspend(void *arg, struct dz_cell *c, bool files_only)
{
    struct rig *r = arg;
    r->stops++;
    rig_ask(r, c, false, !files_only);
}

static inline void rig_killed(void *arg, struct dz_cell *c)
{
    struct rig *r = arg;
    r->kills++;
    rig_forget(r, c->id);
}

/* The sandbox's cell ends by itself: it fails with the message `why`, or, if that is NULL, it
 * suspends its machine. */
static inline void rig_ends(struct rig *r, const char *id, const char *why)
{
    struct dz_cell *c = played_cell(&r->cells, id);
    CHECK(c != NULL);
    if (!c)
        return;
    rig_forget(r, id);
    if (why)
        played_fails(c, DZ_EIO, why);
    else
        played_sleeps(c, INT64_MAX, false);
}

static inline int rig_make(void *arg, const struct dz_instance *row, struct dz_blob_out *out,
                           struct dz_err *err)
{
    (void)arg, (void)row;
    return dz_blob_out_write(out, "new", 3, err);
}

static inline int rig_settle(void *arg, const char *id, struct dz_err *err)
{
    struct rig *r = arg;
    char name[80];
    r->settles++;
    if (r->settle_busy > 0) {
        r->settle_busy--;
        return dz_fail(err, DZ_EBUSY, "a cell has the file");
    }
    rig_append(r, id, "w");
    (void)snprintf(name, sizeof name, "%s.doze-wal", id);
    return unlink(rig_path(r, "live", name));
}

static inline int rig_carry(void *arg, const struct dz_sandbox_transfer *c, struct dz_err *err)
{
    static const char letters[] = {[DZ_SANDBOX_TRANSFER_COMPACT] = 'c',
                                   [DZ_SANDBOX_TRANSFER_FILES] = 'f',
                                   [DZ_SANDBOX_TRANSFER_CLONE] = 'k',
                                   [DZ_SANDBOX_TRANSFER_SHARE] = 's'};
    struct rig *r = arg;
    char text[RIG_TEXT];
    if (r->carry_code < 0)
        return dz_fail(err, r->carry_code, "the file-only cell says no");
    int rc = dz_blob_in_read(c->from, text, (size_t)c->from->size, 0, err);
    if (rc == 0)
        rc = dz_blob_out_write(c->to, &letters[c->what], 1, err);
    return rc < 0 ? rc : dz_blob_out_write(c->to, text, (size_t)c->from->size, err);
}

static inline bool rig_clock_load(void *arg, struct dz_sandbox_clock *ret_clock)
{
    const struct rig *r = arg;
    *ret_clock = r->kept;
    return r->kept.seen_ms > 0;
}

static inline void rig_clock_save(void *arg, const struct dz_sandbox_clock *clock)
{
    struct rig *r = arg;
    bool same_boot = r->kept.same_boot;
    r->kept = *clock;
    r->kept.same_boot = same_boot;
}

static const struct dz_sandbox_files rig_files = {
    .clock_load = rig_clock_load,
    .clock_save = rig_clock_save,
    .make = rig_make,
    .checkpoint = rig_settle,
    .transfer = rig_carry,
};

static inline struct dz_sandboxes_opts rig_opts(struct rig *r, const char *live)
{
    r->cells = (struct played){.loop = r->loop,
                               .ops = played_ops("wasm"),
                               .arg = r,
                               .wake = rig_wake,
                               .suspend = rig_suspend,
                               .killed = rig_killed};
    dz_list_init(&r->cells.cells);
    return (struct dz_sandboxes_opts){.loop = r->loop,
                                      .registry = r->registry,
                                      .cold = r->cold,
                                      .runtimes = {{&r->cells.ops, &r->cells}},
                                      .host = &played_host,
                                      .files = &rig_files,
                                      .files_arg = r,
                                      .live_path = live,
                                      .idle_policy = {DZ_IDLE_INHERIT, DZ_IDLE_INHERIT}};
}

/* Make the sandboxes of a daemon that has not recovered yet. */
static inline void rig_new(struct rig *r)
{
    char live[DZ_TEMP_DIR_TEXT + 8];
    (void)snprintf(live, sizeof live, "%s/live", r->dir);
    const struct dz_sandboxes_opts opts = rig_opts(r, live);
    CHECK_INT(dz_sandboxes_new(&opts, &r->k, NULL), 0);
}

static inline void rig_boot(struct rig *r)
{
    rig_new(r);
    CHECK_INT(dz_sandboxes_recover(r->k, NULL), 0);
}

/* Simulate kill -9 of the daemon: only the files and the registry remain. */
static inline void rig_die(struct rig *r)
{
    dz_loop_sim_forget(r->loop);
    dz_sandboxes_free(r->k);
    r->k = NULL;
    memset(r->running, 0, sizeof r->running);
}

static inline void rig_crash(struct rig *r)
{
    rig_die(r);
    rig_boot(r);
}

static inline void rig_open(struct rig *r)
{
    char path[DZ_TEMP_DIR_TEXT + 8];
    *r = (struct rig){.clock.real_ns = 1700000000 * DZ_NS_PER_S, .cell_ms = 2};
    CHECK_INT(dz_fd_temp_dir("doze-sandbox", r->dir, NULL), 0);
    (void)snprintf(path, sizeof path, "%s/live", r->dir);
    CHECK_INT(dz_blobs_open_dir(path, &r->cold.live, NULL), 0);
    (void)snprintf(path, sizeof path, "%s/cold", r->dir);
    CHECK_INT(dz_blobs_open_dir(path, &r->cold.store, NULL), 0);
    CHECK_INT(dz_loop_sim_new(&r->clock, NULL, NULL, &r->loop, NULL), 0);
    CHECK_INT(dz_registry_open(":memory:", true, &r->registry, NULL), 0);
    rig_boot(r);
}

static inline void rig_close(struct rig *r)
{
    dz_loop_sim_forget(r->loop);
    dz_sandboxes_free(r->k);
    CHECK_INT(dz_registry_close(r->registry, NULL), 0);
    dz_loop_free(r->loop);
    dz_blobs_free(r->cold.live);
    dz_blobs_free(r->cold.store);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, r->dir, NULL), 0);
}

/* Let this much time pass. */
static inline void rig_pass(struct rig *r, int64_t ms)
{
    int64_t until = dz_clock_real_ms() + ms;
    for (int i = 0; dz_loop_sim_step(r->loop, until); i++)
        CHECK(i < 100000);
}

static inline void rig_register(struct rig *r, const char *id)
{
    const struct dz_instance row = {.id = id, .tenant = "acme"};
    CHECK_INT(dz_sandbox_register(r->k, &row, NULL), 0);
}

/* --- answers --------------------------------------------------------------------- */

struct rig_reply {
    int count, code;
    bool reserved, shared;
    enum dz_rung rung;
    char text[248];
};

static inline void rig_done(void *arg, const struct dz_sandbox_reply *result)
{
    struct rig_reply *reply = arg;
    reply->count++;
    reply->code = result->code;
    reply->rung = result->rung;
    reply->reserved = result->reserved;
    reply->shared = result->shared;
    (void)snprintf(reply->text, sizeof reply->text, "%s", result->err.msg);
}

static inline int rig_submit(struct rig *r, enum dz_request what, const char *id,
                             struct rig_reply *reply)
{
    struct dz_err err = {0};
    const struct dz_sandbox_request request = {.what = what,
                                               .id = id,
                                               .keep = r->keep,
                                               .may_resume = r->may_resume,
                                               .done = rig_done,
                                               .arg = reply};
    *reply = (struct rig_reply){.code = 1};
    int rc = dz_sandbox_submit(r->k, &request, NULL, &err);
    CHECK_INT(reply->count, 0); /* only the loop may call the completion */
    if (rc < 0)
        (void)snprintf(reply->text, sizeof reply->text, "%s", err.msg);
    return rc;
}

/* Reserve the files of a sandbox that is suspended and has no operation. */
static inline void rig_reserve(struct rig *r, const char *id)
{
    struct rig_reply reply;
    CHECK_INT(rig_submit(r, DZ_REQUEST_FILES, id, &reply), 0);
    rig_pass(r, 0);
    CHECK(reply.count == 1 && reply.code == 0 && reply.reserved);
}

/* Submit a request, let a minute pass, and return its result. */
static inline int rig_do(struct rig *r, enum dz_request what, const char *id)
{
    struct rig_reply reply;
    int rc = rig_submit(r, what, id, &reply);
    if (rc < 0)
        return rc;
    rig_pass(r, 60000);
    CHECK_INT(reply.count, 1);
    return reply.code;
}

/* Wake the sandbox and then bring it down, state by state, to `to`. */
static inline void rig_bring(struct rig *r, const char *id, enum dz_state to)
{
    static const enum dz_request way[] = {
        [DZ_STATE_ACTIVE] = DZ_REQUEST_WAKE,
        [DZ_STATE_SUSPENDED] = DZ_REQUEST_SUSPEND,
        [DZ_STATE_FROZEN] = DZ_REQUEST_FREEZE,
        [DZ_STATE_ARCHIVED] = DZ_REQUEST_ARCHIVE,
    };
    for (int s = DZ_STATE_ACTIVE; s <= (int)to; s++)
        CHECK_INT(rig_do(r, way[s], id), 0);
}

struct rig_columns {
    uint64_t set;
    struct dz_instance to;
};

static inline int rig_fill(void *arg, const struct dz_instance *row, struct dz_instance *to,
                           uint64_t *set, struct dz_err *err)
{
    const struct rig_columns *c = arg;
    (void)row, (void)err;
    *to = c->to;
    *set = c->set;
    return 0;
}

/* Change columns like a client's PATCH. */
static inline void rig_change(struct rig *r, const char *id, uint64_t set, struct dz_instance to)
{
    struct rig_columns c = {.set = set, .to = to};
    const struct dz_sandbox_update u = {.id = id, .fill = rig_fill, .arg = &c};
    CHECK_INT(dz_sandbox_update(r->k, &u, NULL, NULL), 0);
}

/* Set the config, which has the idle settings; NULL: an empty config. */
static inline void rig_set_idle(struct rig *r, const char *id, const char *config)
{
    rig_change(r, id, DZ_COLUMN(config), (struct dz_instance){.config = config ? config : "{}"});
}

struct rig_events {
    const char *what;
    int count;
};

static inline int rig_count_event(void *arg, const struct dz_registry_event *e)
{
    struct rig_events *n = arg;
    n->count += strcmp(e->what, n->what) == 0;
    return 0;
}

/* The number of events with this name. */
static inline int rig_events(struct rig *r, const char *what)
{
    struct rig_events n = {.what = what};
    CHECK_INT(dz_registry_events(r->registry, &(struct dz_registry_event_filter){0},
                                 rig_count_event, &n, NULL),
              0);
    return n.count;
}

/* "state/status/op" of a row, "gone", or "none". */
static inline const char *rig_row(struct rig *r, const char *id)
{
    static char text[RIG_TEXT];
    struct dz_instance row = {0};
    int rc = dz_registry_get(r->registry, id, &row, NULL);
    if (rc < 0)
        return rc == DZ_EGONE ? "gone" : "none";
    (void)snprintf(text, sizeof text, "%s/%s/%s", row.state, row.status, row.op);
    dz_instance_release(&row);
    return text;
}

static inline int64_t rig_version(struct rig *r, const char *id)
{
    struct dz_instance row = {0};
    CHECK_INT(dz_registry_get(r->registry, id, &row, NULL), 0);
    int64_t version = row.version;
    dz_instance_release(&row);
    return version;
}

#endif

/* SPDX-License-Identifier: MIT
 *
 * sandbox_check.c - compare the registry with the files: files without a row, rows without a file.
 *
 * One pass over each directory, and one over the rows: in one go (dz_sandboxes_check), or while
 * operations run (dz_sandboxes_look). The latter lists the files on a worker, and compares them on
 * the loop, a few in each turn. A suspicious file is checked again in the same turn. Rows change on
 * the loop only, so that check sees row, operation and file at one moment.
 *
 * A file belongs to a row when the row's state may have it:
 *
 *            live  log  scratch  frozen          archive
 *   created   x     x      -       -               -
 *   active    x     x      -     if cold_uri says so
 *   suspended x     x      -     if cold_uri says so
 *   frozen    x     x      -       x               -
 *   archived  -     -      -       -               x
 *   deleted   -     -      -       -               -
 *
 * A frozen sandbox has a live file and a WAL when its files were read: a file-only cell opened
 * them.
 */
#include "sandbox/sandbox_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOK_BATCH = 64,     /* files or rows compared in one turn of the loop */
    LOOK_MAX = 16 << 20, /* files that a check can list */
};

struct listed {
    char *key;
    uint64_t size;
    bool live; /* it is in the live directory */
};
DZ_VEC(listing, struct listed);

/* The size of an object of a store that is far, which a worker asks for (dz_sandboxes_look). */
struct asking {
    char key[DZ_COLD_KEY]; /* "": none */
    bool answered;
    int rc;
    uint64_t size;
    struct dz_err err;
};

struct checking {
    struct dz_sandboxes *all;
    bool repair;
    const struct listing *files; /* sorted by key; NULL: no operation can be in progress */
    struct dz_blobs *store;      /* the store that has the file passed to check_file() */
    void (*fn)(void *arg, const struct dz_sandbox_finding *f);
    void *arg;
    uint64_t left;
    int rc; /* 1: compare this file or row again when `asking` is answered */
    struct dz_err *err;
    struct asking asking;
};

/* The size of a file, or of an object: of one that is far, the answer that a worker got. Returns 1
 * if the worker has to be asked first. */
static int size_of(struct checking *c, struct dz_blobs *store, const char *key, uint64_t *ret_size,
                   struct dz_err *err)
{
    struct asking *a = &c->asking;
    if (!c->files || !store->far)
        return dz_blobs_stat(store, key, ret_size, err);
    if (!a->answered || strcmp(a->key, key) != 0) {
        (void)snprintf(a->key, sizeof a->key, "%s", key);
        a->answered = false;
        return 1;
    }
    *ret_size = a->size;
    *err = a->err;
    return a->rc;
}

static void report(struct checking *c, const char *id, const char *what, const char *text,
                   bool repairable)
{
    const struct dz_sandbox_finding f = {id, what, text, repairable};
    if ((!c->repair || !repairable) && strcmp(what, "busy") != 0)
        c->left++;
    c->fn(c->arg, &f);
}

/* Where a frozen sandbox's file is. */
static enum dz_cold_file frozen_file(const struct dz_instance *row)
{
    char id[DZ_COLD_KEY];
    enum dz_cold_file file;
    return dz_cold_parse_key(row->cold_uri, id, &file) && file == DZ_COLD_REPLICA ? DZ_COLD_REPLICA
                                                                                  : DZ_COLD_FROZEN;
}

static unsigned files_of(const struct dz_instance *row)
{
    char id[DZ_COLD_KEY];
    enum dz_cold_file cold;
    bool has = row->cold_uri[0] && dz_cold_parse_key(row->cold_uri, id, &cold);
    switch (row->is) {
    case DZ_STATE_CREATED:
    case DZ_STATE_ACTIVE:
    case DZ_STATE_SUSPENDED:
        return DZ_COLD_BIT(LIVE) | DZ_COLD_BIT(LOG) | (has ? 1u << cold : 0);
    case DZ_STATE_FROZEN:
        return DZ_COLD_BIT(LIVE) | DZ_COLD_BIT(LOG) | 1u << frozen_file(row);
    case DZ_STATE_ARCHIVED:
        return DZ_COLD_BIT(ARCHIVE);
    case DZ_STATE_DELETED:
        return 0;
    case DZ_STATE_COUNT:
        break;
    }
    return (1u << DZ_COLD_FILES) - 1; /* unknown state: any file may belong to the row */
}

static bool in_use(const struct checking *c, const char *id)
{
    const struct dz_sandboxes *all = c->all;
    const struct dz_sandbox *s = dz_map_get(&all->map, dz_str(id));
    return c->files && s && (s->op || s->taken);
}

static void report_busy(struct checking *c, const char *id)
{
    report(c, id, "busy",
           "an operation is in progress, so the sandbox was not compared; check again", false);
}

/* --- files ------------------------------------------------------------------------------- */

/* Was the file removed after it was listed? Also true if that is not known (c->rc). */
static bool gone_since(struct checking *c, const char *key)
{
    struct dz_err why = {0};
    uint64_t size = 0;
    int rc = c->files ? size_of(c, c->store, key, &size, &why) : 0;
    if (rc < 0 && rc != DZ_ENOENT && c->err)
        *c->err = why;
    if (rc != DZ_ENOENT)
        c->rc = rc;
    return rc != 0;
}

/* Is a sandbox being created from this file, and its row not written yet? */
static bool being_made(const struct checking *c, const char *id)
{
    const struct dz_sandboxes_opts *o = &c->all->opts;
    return in_use(c, id) ||
           (c->files && o->files->has_intent && o->files->has_intent(o->files_arg, id));
}

static int check_file(void *arg, const char *key, uint64_t size)
{
    struct checking *c = arg;
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    char id[DZ_COLD_KEY], text[512];
    enum dz_cold_file file;
    if (!dz_cold_parse_key(key, id, &file)) {
        if (gone_since(c, key))
            return c->rc;
        (void)snprintf(text, sizeof text, "%s is not the file of a sandbox; it is left alone", key);
        report(c, "", "stray", text, false);
        return 0;
    }
    struct dz_err why = {0};
    int rc = dz_registry_get(c->all->opts.registry, id, &row, &why);
    if (rc < 0 && rc != DZ_ENOENT && rc != DZ_EGONE) {
        if (c->err)
            *c->err = why;
        return c->rc = rc;
    }
    if (rc == 0 && (row.op[0] || files_of(&row) & 1u << file))
        return 0;
    /* skip sandboxes in use, because check_row() reports them */
    if ((rc == 0 && in_use(c, id)) || gone_since(c, key))
        return c->rc;
    if (rc < 0 && being_made(c, id)) {
        report_busy(c, id);
        return 0;
    }
    (void)snprintf(text, sizeof text, "%s (%" PRIu64 " bytes) belongs to %s", key, size,
                   rc == 0 ? "no sandbox in this state" : "no sandbox");
    if (c->repair)
        c->rc = dz_cold_drop(&c->all->opts.cold, id, 1u << file, c->err);
    if (c->rc == 0)
        report(c, id, "orphan", text, true);
    return c->rc;
}

/* --- rows -------------------------------------------------------------------------------- */

/* The file that a wake of this row needs; DZ_COLD_FILES: none. */
static enum dz_cold_file needed_file(const struct dz_instance *row)
{
    switch (row->is) {
    case DZ_STATE_ACTIVE:
    case DZ_STATE_SUSPENDED:
        return DZ_COLD_LIVE;
    case DZ_STATE_FROZEN:
        return frozen_file(row);
    case DZ_STATE_ARCHIVED:
        return DZ_COLD_ARCHIVE;
    case DZ_STATE_CREATED:
    case DZ_STATE_DELETED:
    case DZ_STATE_COUNT:
        break;
    }
    return DZ_COLD_FILES;
}

static void note_error(struct checking *c, const struct dz_instance *row, const char *text)
{
    const struct dz_instance to = {.status = dz_status_name(DZ_STATUS_ERROR), .error = text};
    const struct row_change change = {.set = DZ_COLUMN(status) | DZ_COLUMN(error), .to = &to};
    if (strcmp(row->error, text) != 0)
        c->rc = dz_record_write_row(c->all, row, &change, NULL, c->err);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct listed *)a)->key, ((const struct listed *)b)->key);
}

/* Has the row the size of this object? Not of the live file; not of a replica's name, where the row
 * has the size of the sandbox's file. */
static bool size_is_known(enum dz_cold_file file)
{
    return file == DZ_COLD_FROZEN || file == DZ_COLD_ARCHIVE;
}

/* Was the file listed, with the size that the row has? */
static bool was_listed(const struct checking *c, const struct dz_instance *row,
                       enum dz_cold_file file)
{
    char key[DZ_COLD_KEY];
    const struct listed wanted = {.key = dz_cold_key(row->id, file, key)}, *found;
    if (!c->files || c->files->n == 0)
        return false;
    found = bsearch(&wanted, c->files->p, c->files->n, sizeof wanted, by_key);
    return found && (!size_is_known(file) || found->size == (uint64_t)row->cold_size);
}

static void check_missing(struct checking *c, const struct dz_instance *row)
{
    enum dz_cold_file file = needed_file(row);
    char key[DZ_COLD_KEY], text[512];
    uint64_t size = 0;
    if (file == DZ_COLD_FILES || was_listed(c, row, file))
        return;
    const struct dz_cold *cold = &c->all->opts.cold;
    struct dz_err why = {0};
    int rc = size_of(c, file == DZ_COLD_LIVE ? cold->live : cold->store,
                     dz_cold_key(row->id, file, key), &size, &why);
    if (rc < 0 && rc != DZ_ENOENT && c->err)
        *c->err = why;
    if (rc != 0 && rc != DZ_ENOENT) {
        c->rc = rc;
        return;
    }
    rc = rc == 0;
    bool cut = rc == 1 && size_is_known(file) && size != (uint64_t)row->cold_size;
    if (rc == 1 && !cut)
        return;
    if (cut)
        (void)snprintf(text, sizeof text,
                       "%s has %" PRIu64 " bytes, and %" PRId64 " were stored; restore it",
                       dz_cold_key(row->id, file, key), size, row->cold_size);
    else
        (void)snprintf(text, sizeof text, "%s is missing; restore it from a replica or a backup",
                       dz_cold_key(row->id, file, key));
    report(c, row->id, "missing", text, false);
    if (c->repair)
        note_error(c, row, text);
}

static void check_row(struct checking *c, const struct dz_instance *row)
{
    char text[256];
    if (row->is == DZ_STATE_NONE) {
        (void)snprintf(text, sizeof text, "its row has the unknown state \"%.40s\"", row->state);
        report(c, row->id, "state", text, false);
    } else if (c->files && (row->op[0] || in_use(c, row->id))) {
        report_busy(c, row->id);
    } else if (row->op[0]) {
        (void)snprintf(text, sizeof text,
                       "the operation \"%.40s\" was interrupted in its step \"%.40s\"", row->op,
                       row->step);
        report(c, row->id, "unfinished", text, false);
    } else {
        check_missing(c, row);
    }
}

/* Check at most `limit` rows after the id `after`, and set `after` to the last one. Returns the
 * number of rows. */
static size_t check_some_rows(struct checking *c, char after[static DZ_COLD_KEY], size_t limit)
{
    DZ_AUTO(dz_instances_release) struct dz_instances rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    const struct dz_registry_filter f = {.after = after, .limit = limit};
    c->rc = dz_registry_list(c->all->opts.registry, &f, &rows, c->err);
    for (size_t i = 0; c->rc == 0 && i < rows.n; i++) {
        check_row(c, &rows.p[i]);
        if (c->rc != 1)
            (void)snprintf(after, DZ_COLD_KEY, "%s", rows.p[i].id);
    }
    return rows.n;
}

static int check_rows(struct checking *c)
{
    char after[DZ_COLD_KEY] = "";
    while (c->rc == 0 && check_some_rows(c, after, 0) > 0)
        continue;
    return c->rc;
}

int dz_sandboxes_check(struct dz_sandboxes *all, bool repair,
                       void (*fn)(void *arg, const struct dz_sandbox_finding *f), void *arg,
                       uint64_t *ret_count, struct dz_err *err)
{
    struct checking c = {.all = all, .repair = repair, .fn = fn, .arg = arg, .err = err};
    assert(all->ops == 0);
    int rc = dz_registry_check(all->opts.registry, err);
    c.store = all->opts.cold.live;
    if (rc == 0)
        rc = dz_blobs_list(all->opts.cold.live, check_file, &c, err);
    c.store = all->opts.cold.store;
    if (rc == 0 && c.rc == 0)
        rc = dz_blobs_list(all->opts.cold.store, check_file, &c, err);
    if (rc == 0)
        rc = c.rc < 0 ? c.rc : check_rows(&c);
    if (rc == 0)
        *ret_count = c.left;
    return rc;
}

/* --- while operations run ---------------------------------------------------------------- */

struct dz_sandboxes_look {
    struct checking c;
    void (*done)(void *arg, uint64_t left, int rc, const struct dz_err *err);
    struct dz_cold cold; /* a copy for the worker */
    struct listing files;
    bool listing_live;
    bool listing, dropped; /* a worker lists the files or asks for a size; the check was dropped */
    int rc;                /* result of the worker */
    struct dz_err err;
    size_t at; /* index of the next file */
    char after[DZ_COLD_KEY];
    struct dz_timer *turn;
};

void dz_sandboxes_look_drop(struct dz_sandboxes_look *l)
{
    if (!l)
        return;
    l->dropped = true;
    /* the worker is still listing: listed() calls this function again */
    if (l->listing)
        return;
    if (l->c.all->look == l)
        l->c.all->look = NULL;
    dz_timer_free(l->turn);
    for (size_t i = 0; i < l->files.n; i++)
        dz_free(l->files.p[i].key);
    dz_vec_release(&l->files);
    dz_free(l);
}

static void end(struct dz_sandboxes_look *l, int rc)
{
    struct dz_err err = l->err;
    uint64_t left = l->c.left;
    void (*done)(void *arg, uint64_t left, int rc, const struct dz_err *err) = l->done;
    void *arg = l->c.arg;
    dz_sandboxes_look_drop(l);
    done(arg, left, rc, &err);
}

static int list_one(void *arg, const char *key, uint64_t size)
{
    struct dz_sandboxes_look *l = arg;
    struct listed f = {dz_str_dup(dz_str(key)), size, l->listing_live};
    l->rc = f.key ? dz_vec_push(&l->files, f) : DZ_ENOMEM;
    if (l->rc < 0)
        dz_free(f.key);
    return l->rc;
}

static void list(void *arg)
{
    struct dz_sandboxes_look *l = arg;
    l->listing_live = true;
    int rc = dz_blobs_list(l->cold.live, list_one, l, &l->err);
    l->listing_live = false;
    if (rc == 0 && l->rc == 0)
        rc = dz_blobs_list(l->cold.store, list_one, l, &l->err);
    if (rc == 0 && l->rc < 0)
        rc = dz_fail(&l->err, l->rc, "list the files: out of memory, or too many");
    if (rc == 0 && l->files.n > 0)
        qsort(l->files.p, l->files.n, sizeof *l->files.p, by_key);
    l->rc = rc;
}

static void listed(void *arg)
{
    struct dz_sandboxes_look *l = arg;
    l->listing = false;
    if (l->dropped)
        dz_sandboxes_look_drop(l);
    else if (l->rc < 0)
        end(l, l->rc);
    else
        dz_timer_after(l->turn, 0);
}

static void ask_size(void *arg)
{
    struct dz_sandboxes_look *l = arg;
    struct asking *a = &l->c.asking;
    a->err = (struct dz_err){0};
    a->rc = dz_blobs_stat(l->cold.store, a->key, &a->size, &a->err);
}

static void size_known(void *arg)
{
    struct dz_sandboxes_look *l = arg;
    l->listing = false;
    l->c.asking.answered = true;
    if (l->dropped)
        dz_sandboxes_look_drop(l);
    else
        dz_timer_after(l->turn, 0);
}

static void on_turn(void *arg)
{
    struct dz_sandboxes_look *l = arg;
    struct checking *c = &l->c;
    size_t n = 0;
    for (; c->rc == 0 && n < LOOK_BATCH && l->at < l->files.n; n++) {
        const struct listed *f = &l->files.p[l->at];
        c->store = f->live ? l->cold.live : l->cold.store;
        c->rc = check_file(c, f->key, f->size);
        l->at += c->rc != 1;
    }
    if (c->rc == 0 && n == 0)
        n = check_some_rows(c, l->after, LOOK_BATCH);
    if (c->rc == 1) {
        c->rc = dz_loop_work_slow(c->all->opts.loop, ask_size, size_known, l, &l->err);
        l->listing = c->rc == 0;
        if (l->listing)
            return;
    }
    if (c->rc < 0 || n == 0)
        end(l, c->rc);
    else
        dz_timer_after(l->turn, 0);
}

int dz_sandboxes_look(struct dz_sandboxes *all, const struct dz_sandboxes_look_opts *o,
                      struct dz_sandboxes_look **ret_look, struct dz_err *err)
{
    if (all->look)
        return dz_fail(err, DZ_EBUSY,
                       "the registry is already being compared with the files; try again later");
    struct dz_sandboxes_look *l = dz_zalloc(sizeof *l);
    if (!l)
        return dz_fail(err, DZ_ENOMEM, "compare the registry with the files: out of memory");
    *l = (struct dz_sandboxes_look){
        .c = {.all = all, .files = &l->files, .fn = o->fn, .arg = o->arg, .err = &l->err},
        .done = o->done,
        .cold = all->opts.cold,
        .files = DZ_VEC_INIT(LOOK_MAX),
    };
    all->look = l;
    int rc = dz_timer_new(all->opts.loop, on_turn, l, &l->turn, err);
    if (rc == 0)
        rc = (all->opts.cold.store->far ? dz_loop_work_slow : dz_loop_work)(all->opts.loop, list,
                                                                            listed, l, err);
    if (rc < 0) {
        dz_sandboxes_look_drop(l);
        return rc;
    }
    l->listing = true;
    *ret_look = l;
    return 0;
}

/* --- collecting what deleted sandboxes left ---------------------------------------------- */

DZ_VEC(ids, char *);

struct dz_collect {
    struct dz_sandboxes *all;
    struct dz_blobs *store;
    struct ids keys, dead; /* objects listed; those of deleted sandboxes */
    bool sweep;            /* the worker's next task is to sweep and list, not to remove */
    void (*done)(void *arg, size_t removed, const struct dz_err *err);
    void *arg;
    size_t removed;
    int rc;
    struct dz_err err;
};

static int collect_one(void *arg, const char *key, uint64_t size)
{
    struct dz_collect *g = arg;
    char id[DZ_COLD_KEY], *copy;
    enum dz_cold_file file;
    (void)size;
    if (!dz_cold_parse_key(key, id, &file))
        return 0;
    copy = dz_str_dup(dz_str(key));
    g->rc = copy ? dz_vec_push(&g->keys, copy) : DZ_ENOMEM;
    if (g->rc < 0)
        dz_free(copy);
    return g->rc;
}

static void collect_work(void *arg)
{
    struct dz_collect *g = arg;
    if (g->sweep) {
        g->rc = dz_blobs_sweep(g->store, &g->err);
        if (g->rc == 0) {
            int rc = dz_blobs_list(g->store, collect_one, g, &g->err);
            g->rc = rc < 0 ? rc : g->rc < 0 ? dz_fail(&g->err, g->rc, "out of memory") : 0;
        }
        return;
    }
    for (size_t i = 0; g->rc == 0 && i < g->dead.n; i++) {
        g->rc = dz_blobs_remove(g->store, g->dead.p[i], &g->err);
        g->removed += g->rc == 0;
    }
}

/* Which of the listed objects belong to deleted sandboxes? Objects whose sandbox is unknown stay:
 * the registry may be an older one. */
static void choose_dead(struct dz_collect *g)
{
    for (size_t i = 0; g->rc == 0 && i < g->keys.n; i++) {
        DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
        char id[DZ_COLD_KEY];
        enum dz_cold_file file;
        struct dz_sandbox *s;
        if (!dz_cold_parse_key(g->keys.p[i], id, &file))
            continue;
        s = dz_map_get(&g->all->map, dz_str(id));
        if ((s && (s->op || s->taken)) ||
            dz_registry_get(g->all->opts.registry, id, &row, NULL) != DZ_EGONE)
            continue;
        g->rc = dz_vec_push(&g->dead, g->keys.p[i]);
        if (g->rc < 0)
            (void)dz_fail(&g->err, g->rc, "out of memory");
    }
}

static void collected(void *arg)
{
    struct dz_collect *g = arg;
    if (g->sweep && g->rc == 0)
        choose_dead(g);
    bool more = g->sweep && g->rc == 0 && g->dead.n > 0;
    g->sweep = false;
    if (more) {
        g->rc = dz_loop_work_slow(g->all->opts.loop, collect_work, collected, g, &g->err);
        if (g->rc == 0)
            return;
    }
    g->all->collecting = false;
    g->done(g->arg, g->removed, g->rc < 0 ? &g->err : NULL);
    for (size_t i = 0; i < g->keys.n; i++)
        dz_free(g->keys.p[i]);
    dz_vec_release(&g->keys);
    dz_vec_release(&g->dead);
    dz_free(g);
}

int dz_sandboxes_collect(struct dz_sandboxes *all,
                         void (*done)(void *arg, size_t removed, const struct dz_err *err),
                         void *arg, struct dz_err *err)
{
    struct dz_collect *g = all->collecting ? NULL : dz_zalloc(sizeof *g);
    if (!g)
        return dz_fail(err, all->collecting ? DZ_EBUSY : DZ_ENOMEM,
                       "sweep the cold storage: it is being swept, or memory is short");
    *g = (struct dz_collect){.all = all,
                             .store = all->opts.cold.store,
                             .keys = DZ_VEC_INIT(LOOK_MAX),
                             .dead = DZ_VEC_INIT(LOOK_MAX),
                             .sweep = true,
                             .done = done,
                             .arg = arg};
    int rc = dz_loop_work_slow(all->opts.loop, collect_work, collected, g, err);
    if (rc < 0)
        dz_free(g);
    all->collecting = rc == 0;
    return rc;
}

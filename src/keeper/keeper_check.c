/* SPDX-License-Identifier: MIT
 *
 * The registry against the files: what no row has, what a row lacks.
 *
 * One pass over each directory, one over the rows. A file belongs to a row when
 * the row's state may have it:
 *
 *            live  log  scratch  frozen          archive
 *   created   x     x      -       -               -
 *   active    x     x      -     if cold_uri says so
 *   suspended x     x      -     if cold_uri says so
 *   frozen    x     -      -       x               -
 *   archived  -     -      -       -               x
 *   deleted   -     -      -       -               -
 */
#include "keeper/keeper_int.h"

#include "base/str.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct checking {
    struct dz_keeper *k;
    bool repair;
    void (*fn)(void *arg, const struct dz_keeper_finding *f);
    void *arg;
    uint64_t left;
    int rc;
    struct dz_err *err;
};

static void tell(struct checking *c, const char *id, const char *what, const char *text,
                 bool repairable)
{
    const struct dz_keeper_finding f = {id, what, text, repairable};
    if (!c->repair || !repairable)
        c->left++;
    c->fn(c->arg, &f);
}

static unsigned files_of(const struct dz_instance *row)
{
    char id[DZ_COLD_KEY];
    enum dz_cold_file cold;
    bool has = row->cold_uri[0] && dz_cold_parse_key(row->cold_uri, id, &cold);
    switch (dz_keeper_state(row)) {
    case DZ_STATE_CREATED:
    case DZ_STATE_ACTIVE:
    case DZ_STATE_SUSPENDED:
        return DZ_COLD_BIT(LIVE) | DZ_COLD_BIT(LOG) | (has ? 1u << cold : 0);
    case DZ_STATE_FROZEN:
        return DZ_COLD_BIT(LIVE) | DZ_COLD_BIT(FROZEN);
    case DZ_STATE_ARCHIVED:
        return DZ_COLD_BIT(ARCHIVE);
    case DZ_STATE_DELETED:
        return 0;
    case DZ_STATE_COUNT:
        break;
    }
    return (1u << DZ_COLD_FILES) - 1; /* we do not know this state: all may be its */
}

/* --- files ----------------------------------------------------------------------- */

static int check_file(void *arg, const char *key, uint64_t size)
{
    struct checking *c = arg;
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    char id[DZ_COLD_KEY], text[512];
    enum dz_cold_file file;
    if (!dz_cold_parse_key(key, id, &file)) {
        (void)snprintf(text, sizeof text, "%s is no file of a sandbox; it is left alone", key);
        tell(c, "", "stray", text, false);
        return 0;
    }
    struct dz_err why = {0};
    int rc = dz_registry_get(c->k->opts.registry, id, &row, &why);
    if (rc < 0 && rc != DZ_ENOENT && rc != DZ_EGONE) {
        if (c->err)
            *c->err = why;
        return c->rc = rc;
    }
    if (rc == 0 && (row.op[0] || files_of(&row) & 1u << file))
        return 0;
    (void)snprintf(text, sizeof text, "%s (%" PRIu64 " bytes) belongs to %s", key, size,
                   rc == 0 ? "no sandbox in this state" : "no sandbox");
    if (c->repair)
        c->rc = dz_cold_drop(&c->k->opts.cold, id, 1u << file, c->err);
    if (c->rc == 0)
        tell(c, id, "orphan", text, true);
    return c->rc;
}

/* --- rows ------------------------------------------------------------------------ */

/* The file without which the row's sandbox cannot be woken; DZ_COLD_FILES: none. */
static enum dz_cold_file needed_file(const struct dz_instance *row)
{
    switch (dz_keeper_state(row)) {
    case DZ_STATE_ACTIVE:
    case DZ_STATE_SUSPENDED:
        return DZ_COLD_LIVE;
    case DZ_STATE_FROZEN:
        return DZ_COLD_FROZEN;
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
    const struct dz_registry_change change = {.id = row->id,
                                              .version = row->version,
                                              .epoch = row->epoch,
                                              .set = DZ_COLUMN(status) | DZ_COLUMN(error),
                                              .to = &to};
    if (strcmp(row->error, text) != 0)
        c->rc = dz_registry_change(c->k->opts.registry, &change, c->err);
}

static void check_missing(struct checking *c, const struct dz_instance *row)
{
    enum dz_cold_file file = needed_file(row);
    char key[DZ_COLD_KEY], text[512];
    uint64_t size = 0;
    if (file == DZ_COLD_FILES)
        return;
    int rc = dz_cold_has(&c->k->opts.cold, row->id, file, &size, c->err);
    if (rc < 0) {
        c->rc = rc;
        return;
    }
    bool cut = rc == 1 && file != DZ_COLD_LIVE && size != (uint64_t)row->cold_size;
    if (rc == 1 && !cut)
        return;
    if (cut)
        (void)snprintf(text, sizeof text,
                       "%s has %" PRIu64 " bytes, and %" PRId64 " were stored; restore it",
                       dz_cold_key(row->id, file, key), size, row->cold_size);
    else
        (void)snprintf(text, sizeof text, "%s is missing; restore it from a replica or a backup",
                       dz_cold_key(row->id, file, key));
    tell(c, row->id, "missing", text, false);
    if (c->repair)
        note_error(c, row, text);
}

static void check_row(struct checking *c, const struct dz_instance *row)
{
    char text[256];
    if (dz_keeper_state(row) == DZ_STATE_NONE) {
        (void)snprintf(text, sizeof text, "its state \"%.40s\" is none", row->state);
        tell(c, row->id, "state", text, false);
    } else if (row->op[0]) {
        (void)snprintf(text, sizeof text, "\"%.40s\" was cut short in its step \"%.40s\"", row->op,
                       row->step);
        tell(c, row->id, "unfinished", text, false);
    } else {
        check_missing(c, row);
    }
}

static int check_rows(struct checking *c)
{
    char after[DZ_COLD_KEY] = "";
    size_t n = 1;
    while (c->rc == 0 && n > 0) {
        DZ_AUTO(dz_instances_release) struct dz_instances rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
        const struct dz_registry_filter f = {.after = after};
        c->rc = dz_registry_list(c->k->opts.registry, &f, &rows, c->err);
        n = rows.n;
        for (size_t i = 0; c->rc == 0 && i < n; i++) {
            (void)snprintf(after, sizeof after, "%s", rows.p[i].id);
            check_row(c, &rows.p[i]);
        }
    }
    return c->rc;
}

int dz_keeper_check(struct dz_keeper *k, bool repair,
                    void (*fn)(void *arg, const struct dz_keeper_finding *f), void *arg,
                    uint64_t *ret_count, struct dz_err *err)
{
    struct checking c = {.k = k, .repair = repair, .fn = fn, .arg = arg, .err = err};
    assert(k->ops.count == 0);
    int rc = dz_registry_check(k->opts.registry, err);
    if (rc == 0)
        rc = dz_blobs_list(k->opts.cold.live, check_file, &c, err);
    if (rc == 0 && c.rc == 0)
        rc = dz_blobs_list(k->opts.cold.store, check_file, &c, err);
    if (rc == 0)
        rc = c.rc < 0 ? c.rc : check_rows(&c);
    if (rc == 0)
        *ret_count = c.left;
    return rc;
}

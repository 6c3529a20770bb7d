/* SPDX-License-Identifier: MIT
 *
 * The verbs as functions, rows in memory, and the choice of the registry.
 */
#include "registry/registry.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "registry/registry_int.h"
#include "registry/registry_lease.h"
#include "registry/registry_meter.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- verbs ----------------------------------------------------------------------- */

void dz_registry_on_event(struct dz_registry *r, void (*fn)(void *arg), void *arg)
{
    r->on_event = fn;
    r->event_arg = arg;
}

void dz_registry_on_full(struct dz_registry *r, bool (*fn)(void *arg), void *arg)
{
    r->full = fn;
    r->full_arg = arg;
}

/* Did the change fail with ENOSPC, and has on_full made room? A failed change has no effect. */
static bool again(const struct dz_registry *r, int rc)
{
    return rc == DZ_ENOSPC && r->full && r->full(r->full_arg);
}

static int notified(const struct dz_registry *r, int rc)
{
    if (rc == 0 && r->on_event)
        r->on_event(r->event_arg);
    return rc;
}

int dz_registry_create(struct dz_registry *r, const struct dz_instance *row, struct dz_err *err)
{
    assert(row->id && row->id[0] && row->tenant && row->state);
    int rc = dz_registry_check_texts(&dz_instance_table, row, UINT64_MAX, err);
    if (rc < 0)
        return rc;
    do
        rc = r->ops->create(r, row, err);
    while (again(r, rc));
    return notified(r, rc);
}

/* Set the typed members of a row that a back end has read. */
static void typed(struct dz_instance *row)
{
    if (dz_state_parse(dz_str(row->state), &row->is, NULL) < 0)
        row->is = DZ_STATE_NONE;
    if (dz_status_parse(dz_str(row->status), &row->status_is, NULL) < 0)
        row->status_is = DZ_STATUS_NONE;
    if (dz_deployment_parse(dz_str(row->deployment), &row->deployment_is, NULL) < 0)
        row->deployment_is = DZ_DEPLOYMENT_NONE;
    if (dz_keep_parse(dz_str(row->keep), &row->keep_is, NULL) < 0)
        row->keep_is = DZ_KEEP_MEMORY;
    if (dz_idle_mode_parse(dz_str(row->idle_mode), &row->idle_mode_is, NULL) < 0)
        row->idle_mode_is = DZ_IDLE_ACTIVITY;
}

static int typed_one(struct dz_instance *row, int rc)
{
    if (rc == 0)
        typed(row);
    return rc;
}

/* The same for the appended rows, even if a later one could not be appended. */
static int typed_from(struct dz_instances *rows, size_t first, int rc)
{
    for (size_t i = first; i < rows->n; i++)
        typed(&rows->p[i]);
    return rc;
}

int dz_registry_get(struct dz_registry *r, const char *id, struct dz_instance *ret_row,
                    struct dz_err *err)
{
    return typed_one(ret_row, r->ops->get(r, id, ret_row, err));
}

int dz_registry_find(struct dz_registry *r, const char *tenant, const char *home, const char *word,
                     struct dz_instance *ret_row, struct dz_err *err)
{
    return typed_one(ret_row, r->ops->find(r, tenant, home, word, ret_row, err));
}

int dz_registry_change(struct dz_registry *r, const struct dz_registry_change *c,
                       struct dz_err *err)
{
    assert(c->set && !(c->set & (DZ_COLUMN(id) | DZ_COLUMN(version) | DZ_COLUMN(updated))));
    int rc = dz_registry_check_texts(&dz_instance_table, c->to, c->set, err);
    if (rc < 0)
        return rc;
    do
        rc = r->ops->change(r, c, err);
    while (again(r, rc));
    if (rc == 0 && c->ret_row)
        typed(c->ret_row);
    return c->event ? notified(r, rc) : rc;
}

int dz_registry_erase(struct dz_registry *r, const char *id, int64_t version, int64_t epoch,
                      struct dz_err *err)
{
    int rc;
    do
        rc = r->ops->erase(r, id, version, epoch, err);
    while (again(r, rc));
    return notified(r, rc);
}

int dz_registry_list(struct dz_registry *r, const struct dz_registry_filter *f,
                     struct dz_instances *rows, struct dz_err *err)
{
    size_t first = rows->n;
    return typed_from(rows, first, r->ops->list(r, f, rows, err));
}

int dz_registry_due(struct dz_registry *r, int64_t now, size_t limit, struct dz_instances *rows,
                    struct dz_err *err)
{
    size_t first = rows->n;
    return typed_from(rows, first, r->ops->due(r, now, limit, rows, err));
}

int dz_registry_next_due(struct dz_registry *r, int64_t *ret_at, struct dz_err *err)
{
    return r->ops->next_due(r, ret_at, err);
}

int dz_registry_count(struct dz_registry *r, const struct dz_registry_filter *f, int64_t *ret_count,
                      struct dz_err *err)
{
    return r->ops->count(r, f, ret_count, err);
}

int dz_registry_note(struct dz_registry *r, const struct dz_registry_event *e, int64_t *ret_seq,
                     struct dz_err *err)
{
    assert(e->what && e->what[0]);
    int rc;
    do
        rc = r->ops->note(r, e, ret_seq, err);
    while (again(r, rc));
    return notified(r, rc);
}

int dz_registry_events(struct dz_registry *r, const struct dz_registry_event_filter *f,
                       dz_registry_event_fn *fn, void *arg, struct dz_err *err)
{
    return r->ops->events(r, f, fn, arg, err);
}

int dz_registry_event_span(struct dz_registry *r, int64_t *ret_first, int64_t *ret_last,
                           struct dz_err *err)
{
    return r->ops->event_span(r, ret_first, ret_last, err);
}

int dz_registry_number(struct dz_registry *r, const char *tenant, int64_t most, int64_t *ret_number,
                       struct dz_err *err)
{
    assert(tenant[0] && most > 0);
    int rc;
    do
        rc = r->ops->number(r, tenant, most, ret_number, err);
    while (again(r, rc));
    return rc;
}

int dz_registry_flush(struct dz_registry *r, struct dz_err *err)
{
    return r->ops->flush(r, err);
}

int dz_registry_check(struct dz_registry *r, struct dz_err *err)
{
    return r->ops->check(r, err);
}

int dz_registry_maintain(struct dz_registry *r, bool idle, struct dz_err *err)
{
    int rc;
    do
        rc = r->ops->maintain(r, idle, err);
    while (again(r, rc));
    return rc;
}

int dz_registry_close(struct dz_registry *r, struct dz_err *err)
{
    return r ? r->ops->close(r, err) : 0;
}

/* --- records --------------------------------------------------------------------- */

int dz_registry_record_add(struct dz_registry *r, const struct dz_registry_table *t,
                           const void *row, bool durable, struct dz_err *err)
{
    const char *id = dz_row_text(t, row, 0), *tenant = dz_row_text(t, row, 1);
    assert(id[0] && tenant[0]);
    assert(t != &dz_tenant_table || strcmp(id, tenant) == 0);
    int rc = dz_registry_check_texts(t, row, UINT64_MAX, err);
    if (rc < 0)
        return rc;
    do
        rc = r->ops->record_add(r, t, row, durable, err);
    while (again(r, rc));
    return rc;
}

int dz_registry_record_get(struct dz_registry *r, const struct dz_registry_table *t,
                           const char *tenant, const char *id, void *ret_row, struct dz_err *err)
{
    const struct dz_registry_key key = {.tenant = tenant, .id = id};
    assert(tenant || !t->of_tenant);
    return r->ops->record_get(r, t, &key, ret_row, err);
}

int dz_registry_record_find(struct dz_registry *r, const struct dz_registry_table *t,
                            const char *tenant, const char *alias, void *ret_row,
                            struct dz_err *err)
{
    const struct dz_registry_key key = {.tenant = tenant, .alias = alias};
    assert(t->alias);
    return r->ops->record_get(r, t, &key, ret_row, err);
}

int dz_registry_record_change(struct dz_registry *r, const struct dz_registry_table *t, void *row,
                              uint64_t set, bool durable, struct dz_err *err)
{
    const uint64_t head = (1 << 5) - 1; /* DZ_RECORD_HEAD */
    assert(set && !(set & head) && set >> t->count == 0);
    int rc = dz_registry_check_texts(t, row, set, err);
    if (rc < 0)
        return rc;
    do
        rc = r->ops->record_change(r, t, row, set, durable, err);
    while (again(r, rc));
    if (rc == 0)
        ++*(int64_t *)((char *)row + t->columns[2].offset);
    return rc;
}

int dz_registry_record_remove(struct dz_registry *r, const struct dz_registry_table *t,
                              const char *tenant, const char *id, int64_t version,
                              struct dz_err *err)
{
    const struct dz_registry_key key = {.tenant = tenant, .id = id};
    assert(tenant || !t->of_tenant);
    int rc;
    do
        rc = r->ops->record_remove(r, t, &key, version, err);
    while (again(r, rc));
    return rc;
}

static void check_filter(const struct dz_registry_table *t,
                         const struct dz_registry_record_filter *f)
{
    assert(f->tenant || !t->of_tenant);
    assert(!f->sandbox_id || dz_registry_column_of(t, "sandbox_id") > 0);
    assert(!f->status || dz_registry_column_of(t, "status") > 0);
    assert(!f->alias || t->alias);
    assert(!f->due_by || dz_registry_column_of(t, "due") > 0);
    assert(!f->expired_at || dz_registry_column_of(t, "expires") > 0);
}

int dz_registry_record_list(struct dz_registry *r, const struct dz_registry_table *t,
                            const struct dz_registry_record_filter *f, dz_registry_take_fn *take,
                            void *arg, struct dz_err *err)
{
    check_filter(t, f);
    return r->ops->record_list(r, t, f, take, arg, err);
}

int dz_registry_record_count(struct dz_registry *r, const struct dz_registry_table *t,
                             const struct dz_registry_record_filter *f, int64_t *ret_count,
                             struct dz_err *err)
{
    check_filter(t, f);
    return r->ops->record_count(r, t, f, ret_count, err);
}

int dz_registry_schedule_next(struct dz_registry *r, int64_t *ret_at, struct dz_err *err)
{
    return r->ops->schedule_next(r, ret_at, err);
}

int dz_registry_sweep(struct dz_registry *r, size_t limit, size_t *ret_count, struct dz_err *err)
{
    int rc;
    do
        rc = r->ops->sweep(r, dz_clock_real_ms(), limit, ret_count, err);
    while (again(r, rc));
    return rc;
}

/* --- leases ---------------------------------------------------------------------- */

int dz_registry_lease_take(struct dz_registry *r, const struct dz_registry_lease *l,
                           struct dz_err *err)
{
    int rc;
    assert(l->sandbox_id && (l->want || !l->count));
    if (l->count > DZ_REGISTRY_LEASES_MAX)
        return dz_fail(err, DZ_ELIMIT, "a sandbox may have at most %d volumes",
                       DZ_REGISTRY_LEASES_MAX);
    do
        rc = r->ops->lease_take(r, l, err);
    while (again(r, rc));
    return rc;
}

int dz_registry_lease_drop(struct dz_registry *r, const char *sandbox_id, int64_t epoch,
                           struct dz_err *err)
{
    int rc;
    do
        rc = r->ops->lease_drop(r, sandbox_id, epoch, err);
    while (again(r, rc));
    return rc;
}

int dz_registry_lease_holders(struct dz_registry *r, const char *volume_id,
                              dz_registry_holder_fn *fn, void *arg, struct dz_err *err)
{
    return r->ops->lease_holders(r, volume_id, fn, arg, err);
}

int dz_registry_volume_written(struct dz_registry *r, const char *volume_id, struct dz_err *err)
{
    int rc;
    do
        rc = r->ops->volume_written(r, volume_id, err);
    while (again(r, rc));
    return rc;
}

/* --- the journal ----------------------------------------------------------------- */

int dz_registry_meter_read(struct dz_registry *r, const struct dz_registry_meter_filter *f,
                           dz_registry_interval_fn *fn, void *arg, struct dz_err *err)
{
    return r->ops->meter_read(r, f, fn, arg, err);
}

int dz_registry_meter_file(struct dz_registry *r, const char *id, int64_t bytes, struct dz_err *err)
{
    int rc;
    assert(bytes >= 0);
    do
        rc = r->ops->meter_file(r, id, bytes, err);
    while (again(r, rc));
    return rc;
}

int dz_registry_meter_tenant(struct dz_registry *r, const char *tenant, const char *sandbox_id,
                             char **ret_tenant, struct dz_err *err)
{
    return r->ops->meter_tenant(r, tenant, sandbox_id, ret_tenant, err);
}

int dz_registry_meter_mark(struct dz_registry *r, struct dz_err *err)
{
    int rc;
    do
        rc = r->ops->meter_mark(r, err);
    while (again(r, rc));
    return rc;
}

int dz_registry_meter_resume(struct dz_registry *r, struct dz_err *err)
{
    int rc;
    do
        rc = r->ops->meter_resume(r, err);
    while (again(r, rc));
    return rc;
}

/* --- rows ------------------------------------------------------------------------ */

void dz_instance_release(struct dz_instance *row)
{
    dz_free(row->text);
    *row = (struct dz_instance){0};
}

void dz_instances_release(struct dz_instances *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        dz_instance_release(&rows->p[i]);
    dz_vec_release(rows);
}

/* --- which ----------------------------------------------------------------------- */

int dz_registry_locate(const char *given, const char *data_dir, char ret_name[static DZ_PATH_MAX],
                       struct dz_err *err)
{
    static const char *const variables[] = {"DOZE_REGISTRY", "WB_REGISTRY"};
    const char *name = given;
    for (size_t i = 0; i < DZ_ARRAY_LEN(variables) && !(name && name[0]); i++)
        name = getenv(variables[i]);
    int n = name && name[0] ? snprintf(ret_name, DZ_PATH_MAX, "%s", name)
                            : snprintf(ret_name, DZ_PATH_MAX, "%s/registry.db", data_dir);
    if (n < 0 || n >= DZ_PATH_MAX)
        return dz_fail(err, DZ_ELIMIT, "the registry's name is longer than %d bytes",
                       DZ_PATH_MAX - 1);
    return 0;
}

int dz_registry_open(const char *name, bool create, struct dz_registry **ret_registry,
                     struct dz_err *err)
{
    struct dz_str s = dz_str(name);
    if (dz_str_starts(s, DZ_STR("postgres://")) || dz_str_starts(s, DZ_STR("postgresql://")))
        return dz_fail(err, DZ_EUNSUPPORTED,
                       "this build has no registry on a PostgreSQL server; name a file instead");
    return dz_registry_open_sqlite(name, create, ret_registry, err);
}

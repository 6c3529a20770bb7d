/* SPDX-License-Identifier: MIT
 *
 * The verbs as functions, rows in memory, and which registry is meant.
 */
#include "registry/registry.h"

#include "base/mem.h"
#include "base/str.h"
#include "registry/registry_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- verbs ----------------------------------------------------------------------- */

int dz_registry_create(struct dz_registry *r, const struct dz_instance *row, struct dz_err *err)
{
    assert(row->id && row->id[0] && row->tenant && row->state);
    return r->ops->create(r, row, err);
}

int dz_registry_get(struct dz_registry *r, const char *id, struct dz_instance *ret_row,
                    struct dz_err *err)
{
    return r->ops->get(r, id, ret_row, err);
}

int dz_registry_find(struct dz_registry *r, const char *tenant, const char *word,
                     struct dz_instance *ret_row, struct dz_err *err)
{
    return r->ops->find(r, tenant, word, ret_row, err);
}

int dz_registry_change(struct dz_registry *r, const struct dz_registry_change *c,
                       struct dz_err *err)
{
    assert(c->set && !(c->set & (DZ_COLUMN(id) | DZ_COLUMN(version) | DZ_COLUMN(updated))));
    return r->ops->change(r, c, err);
}

int dz_registry_erase(struct dz_registry *r, const char *id, int64_t version, int64_t epoch,
                      struct dz_err *err)
{
    return r->ops->erase(r, id, version, epoch, err);
}

int dz_registry_list(struct dz_registry *r, const struct dz_registry_filter *f,
                     struct dz_instances *rows, struct dz_err *err)
{
    return r->ops->list(r, f, rows, err);
}

int dz_registry_due(struct dz_registry *r, int64_t now, size_t limit, struct dz_instances *rows,
                    struct dz_err *err)
{
    return r->ops->due(r, now, limit, rows, err);
}

int dz_registry_next_due(struct dz_registry *r, int64_t *ret_at, struct dz_err *err)
{
    return r->ops->next_due(r, ret_at, err);
}

int dz_registry_events(struct dz_registry *r, int64_t after, size_t limit,
                       int (*fn)(void *arg, const struct dz_registry_event *e), void *arg,
                       struct dz_err *err)
{
    return r->ops->events(r, after, limit, fn, arg, err);
}

int dz_registry_check(struct dz_registry *r, struct dz_err *err)
{
    return r->ops->check(r, err);
}

int dz_registry_maintain(struct dz_registry *r, bool idle, struct dz_err *err)
{
    return r->ops->maintain(r, idle, err);
}

int dz_registry_close(struct dz_registry *r, struct dz_err *err)
{
    return r ? r->ops->close(r, err) : 0;
}

/* --- rows ------------------------------------------------------------------------ */

const struct dz_registry_column dz_registry_columns[DZ_INSTANCE_COLUMN_COUNT] = {
#define T(name) {#name, offsetof(struct dz_instance, name), true},
#define I(name) {#name, offsetof(struct dz_instance, name), false},
    DZ_INSTANCE_COLUMNS(T, I)
#undef T
#undef I
};

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
        return dz_fail(err, DZ_ELIMIT, "the registry's name is over %d bytes long",
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

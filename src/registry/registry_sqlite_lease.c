/* SPDX-License-Identifier: MIT
 *
 * Leases of volumes in the SQLite back end (registry_lease.h has the rules).
 *
 * The end of a run does not remove its rows of `lease`: they are not
 * in DZ_LEASE_ALIVE from then on. They are removed by the next take of the same sandbox or of the
 * same volume, and with their sandbox or volume.
 */
#include "base/clock.h"
#include "base/str.h"
#include "registry/registry_lease.h"
#include "registry/registry_sqlite.h"

#include <string.h>

static int drop(struct dz_sqlite_registry *s, const char *sandbox_id, int64_t epoch,
                struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(s->db, "DELETE FROM lease WHERE sandbox_id = ?1 AND epoch <= ?2");
    dz_bind_text(st, 1, sandbox_id);
    dz_bind_int(st, 2, epoch);
    return dz_stmt_run(st, err);
}

/* Remove the leases of other sandboxes that are not alive. A lease of a wake that failed would be
 * alive again during the next operation of its sandbox, beside the lease that is taken now. */
static int drop_dead(struct dz_sqlite_registry *s, const char *sandbox_id, const char *volume_id,
                     struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(s->db, "DELETE FROM lease WHERE volume_id = ?1 AND sandbox_id <> ?2 AND "
                          "sandbox_id NOT IN (SELECT sandbox_id FROM " DZ_LEASE_ALIVE " WHERE "
                          "volume_id = ?1)");
    dz_bind_text(st, 1, volume_id);
    dz_bind_text(st, 2, sandbox_id);
    return dz_stmt_run(st, err);
}

/* Refuse with a sentence if another sandbox excludes this use of the volume. */
static int excluded(struct dz_sqlite_registry *s, const char *sandbox_id,
                    const struct dz_registry_want *w, const char *name, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(s->db, "SELECT sandbox_id, writes FROM " DZ_LEASE_ALIVE " WHERE volume_id = ?1 "
                          "AND sandbox_id <> ?2 AND (writes OR ?3) ORDER BY sandbox_id LIMIT 1");
    char quoted[DZ_STR_QUOTED];
    dz_bind_text(st, 1, w->volume_id);
    dz_bind_text(st, 2, sandbox_id);
    dz_bind_int(st, 3, w->writes);
    int rc = dz_stmt_step(st, err);
    if (rc != 1)
        return rc;
    return dz_fail(err, DZ_ESTATE,
                   "volume %s cannot be mounted for %s, because sandbox %s has it mounted for %s; "
                   "suspend that sandbox first",
                   dz_str_quote(dz_str(name), quoted), w->writes ? "writing" : "reading",
                   dz_col_text(st, 0), dz_col_int(st, 1) ? "writing" : "reading");
}

static int take_one(struct dz_sqlite_registry *s, const struct dz_registry_lease *l,
                    const char *tenant, const struct dz_registry_want *w, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *volume =
        dz_db_stmt(s->db, "SELECT ifnull(name, id) FROM volume WHERE id = ?1 AND tenant = ?2");
    char quoted[DZ_STR_QUOTED];
    dz_bind_text(volume, 1, w->volume_id);
    dz_bind_text(volume, 2, tenant);
    int rc = dz_stmt_step(volume, err);
    if (rc == 0)
        rc = dz_fail(err, DZ_ENOENT, "there is no volume %s",
                     dz_str_quote(dz_str(w->volume_id), quoted));
    if (rc == 1)
        rc = excluded(s, l->sandbox_id, w, dz_col_text(volume, 0), err);
    if (rc == 0)
        rc = drop_dead(s, l->sandbox_id, w->volume_id, err);
    if (rc < 0)
        return rc;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(s->db, "INSERT INTO lease VALUES(?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET "
                          "writes = max(writes, excluded.writes)");
    dz_bind_text(st, 1, w->volume_id);
    dz_bind_text(st, 2, l->sandbox_id);
    dz_bind_int(st, 3, l->epoch);
    dz_bind_int(st, 4, w->writes);
    dz_bind_int(st, 5, dz_clock_real_ms());
    return dz_stmt_run(st, err);
}

static int run_of(struct dz_stmt *st, const struct dz_registry_want *w, const char *sandbox_id,
                  struct dz_err *err)
{
    dz_bind_text(st, 1, w->volume_id);
    if (sandbox_id)
        dz_bind_text(st, 2, sandbox_id);
    int rc = dz_stmt_run(st, err);
    dz_stmt_reset(st);
    return rc;
}

/* A writer counts the generation up unless nobody else has had the volume since its last lease. */
static int generation(struct dz_sqlite_registry *s, const struct dz_registry_lease *l, size_t i,
                      struct dz_err *err)
{
    const struct dz_registry_want *w = &l->want[i];
    int rc =
        w->writes
            ? run_of(dz_db_stmt(s->db, "UPDATE volume SET generation = ifnull(generation, 0) + 1, "
                                       "holder = ?2 WHERE id = ?1 AND holder IS NOT ?2"),
                     w, l->sandbox_id, err)
            : run_of(dz_db_stmt(s->db, "UPDATE volume SET holder = NULL WHERE id = ?1 AND "
                                       "holder IS NOT NULL"),
                     w, NULL, err);
    if (rc < 0 || !l->ret_generations)
        return rc;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st =
        dz_db_stmt(s->db, "SELECT ifnull(generation, 0) FROM volume WHERE id = ?1");
    dz_bind_text(st, 1, w->volume_id);
    rc = dz_stmt_step(st, err);
    if (rc == 1)
        l->ret_generations[i] = dz_col_int(st, 0);
    return rc < 0 ? rc : 0;
}

static int take_all(struct dz_sqlite_registry *s, const struct dz_registry_lease *l,
                    struct dz_err *err)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    int rc = s->head.ops->get(&s->head, l->sandbox_id, &row, err);
    if (rc < 0)
        return rc;
    bool runs = l->epoch == row.epoch && strcmp(row.state, dz_state_name(DZ_STATE_ACTIVE)) == 0;
    bool wakes = l->epoch == row.epoch + 1 && row.op[0];
    if (!runs && !wakes)
        return dz_fail(err, DZ_EBUSY, "sandbox %s was changed meanwhile: read it again",
                       l->sandbox_id);
    rc = drop(s, l->sandbox_id, INT64_MAX, err);
    for (size_t i = 0; i < l->count && rc == 0; i++)
        rc = take_one(s, l, row.tenant, &l->want[i], err);
    for (size_t i = 0; i < l->count && rc == 0; i++)
        rc = generation(s, l, i, err);
    return rc;
}

int dz_sqlite_lease_take(struct dz_registry *r, const struct dz_registry_lease *l,
                         struct dz_err *err)
{
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    int rc = dz_sqlite_begin(s, false, err);
    return rc < 0 ? rc : dz_sqlite_end(s, take_all(s, l, err), false, err);
}

int dz_sqlite_lease_drop(struct dz_registry *r, const char *sandbox_id, int64_t epoch,
                         struct dz_err *err)
{
    return drop(dz_sqlite_self(r), sandbox_id, epoch, err);
}

int dz_sqlite_lease_holders(struct dz_registry *r, const char *volume_id, dz_registry_holder_fn *fn,
                            void *arg, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(dz_sqlite_self(r)->db,
                                    "SELECT sandbox_id, writes, taken FROM " DZ_LEASE_ALIVE " "
                                    "WHERE volume_id = ?1 ORDER BY sandbox_id");
    dz_bind_text(st, 1, volume_id);
    int rc, said = 0;
    while (said == 0 && (rc = dz_stmt_step(st, err)) == 1) {
        const struct dz_registry_holder h = {dz_col_text(st, 0), dz_col_int(st, 1) != 0,
                                             dz_col_int(st, 2)};
        said = fn(arg, &h);
    }
    if (said < 0)
        return dz_fail(err, said, "list the leases of a volume: %s", dz_err_text(said));
    return rc < 0 ? rc : 0;
}

int dz_sqlite_volume_written(struct dz_registry *r, const char *volume_id, struct dz_err *err)
{
    struct dz_sqlite_registry *s = dz_sqlite_self(r);
    const struct dz_registry_want w = {.volume_id = volume_id};
    int rc = dz_sqlite_begin(s, true, err);
    if (rc < 0)
        return rc;
    rc = run_of(dz_db_stmt(s->db, "UPDATE volume SET generation = ifnull(generation, 0) + 1, "
                                  "holder = NULL WHERE id = ?1"),
                &w, NULL, err);
    return dz_sqlite_end(s, rc, true, err);
}

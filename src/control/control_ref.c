/* SPDX-License-Identifier: MIT
 *
 * control_ref.c - references: names by which others share a sandbox without owning it.
 *
 * Whoever creates a reference owns it. An attachment is a number in the reference's row; detaching
 * removes the number. When the owner deletes the reference, its sandbox is destroyed, and later
 * attempts to attach get the reason.
 */
#include "control/control_int.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum {
    ATTACHMENTS_MAX = 1000,
    TRIES = 8,
};

int64_t dz_control_expiry(const struct dz_control_handle *as)
{
    return as->expires_in_ms ? dz_clock_real_ms() + as->expires_in_ms : 0;
}

bool dz_control_expired(int64_t expires)
{
    return expires > 0 && expires <= dz_clock_real_ms();
}

int dz_control_check_free(struct dz_control *e, const struct dz_control_named *old,
                          struct dz_why *why)
{
    if (!dz_control_expired(old->expires))
        return dz_why(why, DZ_EEXIST, "name",
                      "a %s named \"%s\" already exists: %s, of %s; delete it or choose another "
                      "name",
                      old->kind, old->name, old->id, old->sandbox_id);
    dz_control_handles_sweep(e); /* it has expired and can no longer be found or deleted by name */
    return 0;
}

static int check_free(struct dz_control *e, const char *tenant, const char *name,
                      struct dz_why *why)
{
    DZ_AUTO(dz_ref_row_release) struct dz_ref_row old = {0};
    struct dz_err err;
    int found = dz_registry_ref_find(e->registry, tenant, name, &old, &err);
    const struct dz_control_named n = {"reference", name, old.id, old.sandbox_id, old.expires};
    if (found == 0)
        return dz_control_check_free(e, &n, why);
    return found == DZ_ENOENT ? 0 : dz_why_err(why, found, &err);
}

int dz_control_ref_add(struct dz_control *e, struct dz_control_target target,
                       const struct dz_control_handle *as, struct dz_ref_row *ret_row,
                       struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    char id[DZ_ID_TEXT];
    struct dz_err err;
    int rc = as->name ? dz_control_check_name(as->name, why) : 0;
    if (rc == 0)
        rc = dz_control_row(e, target, &row, why);
    if (rc == 0 && as->name)
        rc = check_free(e, row.tenant, as->name, why);
    if (rc == 0)
        rc = dz_id_new("ref", id, &why->err);
    if (rc < 0)
        return rc;
    const struct dz_ref_row ref = {.id = id,
                                   .tenant = row.tenant,
                                   .status = "alive",
                                   .sandbox_id = row.id,
                                   .owner = target.who->tenant,
                                   .name = as->name,
                                   .expires = dz_control_expiry(as),
                                   .created = dz_clock_real_ms()};
    rc = dz_registry_ref_add(e->registry, &ref, true, &err);
    if (rc == 0)
        rc = dz_registry_ref_get(e->registry, NULL, id, ret_row, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

int dz_control_refs(struct dz_control *e, const struct dz_control_caller *who, const char *after,
                    size_t limit, struct dz_ref_rows *rows, struct dz_why *why)
{
    struct dz_err err;
    const struct dz_registry_record_filter f = {
        .tenant = dz_control_sees(who), .after = after, .limit = limit};
    dz_control_handles_sweep(e);
    int rc = dz_registry_ref_list(e->registry, &f, rows, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

/* Find a reference by its id, by a name in the caller's own tenant, or by TENANT/NAME. */
static int get_ref(struct dz_control *e, struct dz_control_target target,
                   struct dz_ref_row *ret_row, struct dz_why *why)
{
    static const struct dz_control_records refs = {&dz_ref_table, "reference",
                                                   offsetof(struct dz_ref_row, expires)};
    int rc = dz_control_record(e, target, &refs, ret_row, why);
    if (rc == 0)
        dz_log_about(ret_row->sandbox_id);
    return rc;
}

static int owner_gone(const struct dz_ref_row *ref, struct dz_why *why)
{
    (void)dz_why(why, DZ_EUNAVAIL, NULL, "%s: no longer alive (owner cleanup ran)", ref->id);
    why->reason = "owner_gone";
    return DZ_EUNAVAIL;
}

/* --- who is attached: a JSON array of numbers --------------------------------------------- */

/* Edit the list of attachments. add > 0: add that number; otherwise remove `number`. 0: it was not
 * in the list. */
static int edit(const char *text, int64_t add, int64_t number, struct dz_buf *out)
{
    json_t *list = json_loads(text && text[0] ? text : "[]", 0, NULL), *v;
    size_t i;
    int found = add > 0;
    struct dz_json j;
    dz_json_init(&j, out, false);
    dz_json_array(&j);
    json_array_foreach(list, i, v)
    {
        if (add <= 0 && json_integer_value(v) == number)
            found = 1;
        else if (i < ATTACHMENTS_MAX)
            dz_json_i64(&j, json_integer_value(v));
    }
    if (add > 0)
        dz_json_i64(&j, add);
    dz_json_end(&j);
    json_decref(list);
    return dz_json_finish(&j) < 0 ? DZ_ENOMEM : found;
}

static int change(struct dz_control *e, struct dz_ref_row *ref, bool come, int64_t number,
                  struct dz_why *why)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_err err;
    uint64_t set = DZ_ROW_COLUMN(ref, attachments) | (come ? DZ_ROW_COLUMN(ref, attached) : 0);
    int rc = edit(ref->attachments, come ? ref->attached + 1 : 0, number, &text);
    if (rc == 0)
        return dz_why(why, DZ_ENOENT, NULL, "%s has no attachment %lld", ref->id,
                      (long long)number);
    if (rc < 0)
        return dz_why(why, rc, NULL, "%s: out of memory", ref->id);
    struct dz_ref_row to = *ref;
    to.attachments = text.p;
    to.attached += come;
    rc = dz_registry_ref_change(e->registry, &to, set, false, &err);
    if (rc == 0)
        ref->attached = to.attached;
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

/* If the row changes meanwhile, read it and change it again. */
static int change_ref(struct dz_control *e, struct dz_control_target target, bool come,
                      int64_t *number, char ret_sandbox[static DZ_COLD_KEY], struct dz_why *why)
{
    int rc = DZ_EBUSY;
    for (int i = 0; i < TRIES && rc == DZ_EBUSY; i++) {
        DZ_AUTO(dz_ref_row_release) struct dz_ref_row ref = {0};
        rc = get_ref(e, target, &ref, why);
        if (rc == 0 && ref.closed)
            rc = owner_gone(&ref, why);
        if (rc == 0)
            rc = change(e, &ref, come, *number, why);
        if (rc == 0) {
            *number = come ? ref.attached : *number;
            (void)snprintf(ret_sandbox, DZ_COLD_KEY, "%s", ref.sandbox_id);
        }
    }
    return rc;
}

int dz_control_ref_attach(struct dz_control *e, struct dz_control_target target,
                          int64_t *ret_number, struct dz_instance *ret_row, struct dz_why *why)
{
    char sandbox[DZ_COLD_KEY];
    struct dz_err err;
    int64_t number = 0;
    int rc = change_ref(e, target, true, &number, sandbox, why);
    if (rc < 0)
        return rc;
    rc = dz_registry_get(e->registry, sandbox, ret_row, &err);
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    *ret_number = number;
    return 0;
}

int dz_control_ref_detach(struct dz_control *e, struct dz_control_target target, int64_t number,
                          struct dz_why *why)
{
    char sandbox[DZ_COLD_KEY];
    return change_ref(e, target, false, &number, sandbox, why);
}

int dz_control_ref_delete(struct dz_control *e, struct dz_control_target target,
                          dz_sandbox_done_fn *done, void *arg, struct dz_why *why)
{
    DZ_AUTO(dz_ref_row_release) struct dz_ref_row ref = {0};
    const struct dz_control_order destroy = {.what = DZ_REQUEST_DESTROY};
    int rc = get_ref(e, target, &ref, why);
    if (rc == 0 && ref.closed)
        rc = owner_gone(&ref, why);
    const char *sees = dz_control_sees(target.who);
    if (rc == 0 && sees && strcmp(ref.owner, sees) != 0)
        rc = dz_why(why, DZ_EDENIED, NULL, "%s: only its owner can end it; detach instead", ref.id);
    target.ref = ref.sandbox_id;
    return rc < 0 ? rc : dz_control_order(e, target, &destroy, done, arg, why);
}

int dz_control_ref_forget(struct dz_control *e, struct dz_control_target target, struct dz_why *why)
{
    DZ_AUTO(dz_ref_row_release) struct dz_ref_row ref = {0};
    struct dz_err err;
    int rc = get_ref(e, target, &ref, why);
    const char *sees = dz_control_sees(target.who);
    if (rc == 0 && sees && strcmp(ref.owner, sees) != 0)
        rc = dz_why(why, DZ_EDENIED, NULL, "%s: only its owner can delete it; detach instead",
                    ref.id);
    if (rc < 0)
        return rc;
    rc = dz_registry_ref_remove(e->registry, NULL, ref.id, 0, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

/* --- what has expired ----------------------------------------------------------------------- */

static void log_expired(const char *id, int rc, const struct dz_err *err)
{
    if (rc < 0)
        dz_log(DZ_LOG_WARN, "handle_not_removed", dz_log_strz("id", id), dz_log_err(err));
    else
        dz_log(DZ_LOG_INFO, "handle_expired", dz_log_strz("id", id));
}

/* Remove expired forks first, because they hold their snapshots. A snapshot that a fork still uses
 * waits for that fork. */
void dz_control_handles_sweep(struct dz_control *e)
{
    DZ_AUTO(dz_fork_rows_release) struct dz_fork_rows forks = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    DZ_AUTO(dz_snapshot_rows_release)
    struct dz_snapshot_rows snaps = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    DZ_AUTO(dz_ref_rows_release) struct dz_ref_rows refs = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    const struct dz_registry_record_filter f = {.expired_at = dz_clock_real_ms()};
    struct dz_err err;
    int rc = dz_registry_fork_list(e->registry, &f, &forks, &err);
    for (size_t i = 0; rc == 0 && i < forks.n; i++)
        log_expired(forks.p[i].id, dz_fork_remove(e, &forks.p[i], &err), &err);
    if (rc == 0)
        rc = dz_registry_snapshot_list(e->registry, &f, &snaps, &err);
    for (size_t i = 0; rc == 0 && i < snaps.n; i++) {
        int gone = dz_snap_remove(e, snaps.p[i].id, &err);
        if (gone != DZ_ESTATE)
            log_expired(snaps.p[i].id, gone, &err);
    }
    if (rc == 0)
        rc = dz_registry_ref_list(e->registry, &f, &refs, &err);
    for (size_t i = 0; rc == 0 && i < refs.n; i++)
        log_expired(refs.p[i].id, dz_registry_ref_remove(e->registry, NULL, refs.p[i].id, 0, &err),
                    &err);
    if (rc < 0)
        dz_log(DZ_LOG_WARN, "sweep_failed", dz_log_err(&err));
}

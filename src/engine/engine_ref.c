/* SPDX-License-Identifier: MIT
 *
 * engine_ref.c - references: names by which others share a sandbox without owning it.
 *
 * Who registers one owns it. An attachment is a number in the reference's row and
 * nothing more: leaving only takes the number away. When the owner cleans up, the sandbox
 * goes, and who comes later by the reference is told why.
 */
#include "engine/engine_int.h"

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

int dz_engine_ref_add(struct dz_engine *e, struct dz_engine_target target,
                      char ret_id[static DZ_ID_TEXT], struct dz_engine_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_err err;
    int rc = dz_engine_row(e, target, &row, why);
    if (rc == 0)
        rc = dz_id_new("ref", ret_id, &why->err);
    if (rc < 0)
        return rc;
    const struct dz_ref_row ref = {.id = ret_id,
                                   .tenant = row.tenant,
                                   .status = "alive",
                                   .sandbox_id = row.id,
                                   .owner = target.who->tenant,
                                   .created = dz_clock_real_ms()};
    rc = dz_registry_ref_add(e->registry, &ref, true, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

static int get_ref(struct dz_engine *e, struct dz_engine_target target, struct dz_ref_row *ret_row,
                   struct dz_engine_why *why)
{
    char quoted[DZ_STR_QUOTED];
    struct dz_err err;
    int rc =
        dz_registry_ref_get(e->registry, dz_engine_sees(target.who), target.word, ret_row, &err);
    if (rc == DZ_ENOENT)
        return dz_why(why, rc, NULL, "there is no reference %s",
                      dz_str_quote(dz_str(target.word), quoted));
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    dz_log_about(ret_row->sandbox_id);
    return 0;
}

static int owner_gone(const struct dz_ref_row *ref, struct dz_engine_why *why)
{
    (void)dz_why(why, DZ_EUNAVAIL, NULL, "%s: no longer alive (owner cleanup ran)", ref->id);
    why->reason = "owner_gone";
    return DZ_EUNAVAIL;
}

/* --- who is attached: a JSON array of numbers --------------------------------------------- */

/* add > 0: that one comes; else number goes. 0: it was not there. */
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

static int change(struct dz_engine *e, struct dz_ref_row *ref, bool come, int64_t number,
                  struct dz_engine_why *why)
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

/* Others may change the row meanwhile: then it is read and changed again. */
static int change_ref(struct dz_engine *e, struct dz_engine_target target, bool come,
                      int64_t *number, char ret_sandbox[static DZ_COLD_KEY],
                      struct dz_engine_why *why)
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

int dz_engine_ref_attach(struct dz_engine *e, struct dz_engine_target target, int64_t *ret_number,
                         struct dz_instance *ret_row, struct dz_engine_why *why)
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

int dz_engine_ref_detach(struct dz_engine *e, struct dz_engine_target target, int64_t number,
                         struct dz_engine_why *why)
{
    char sandbox[DZ_COLD_KEY];
    return change_ref(e, target, false, &number, sandbox, why);
}

int dz_engine_ref_delete(struct dz_engine *e, struct dz_engine_target target,
                         dz_engine_done_fn *done, void *arg, struct dz_engine_why *why)
{
    DZ_AUTO(dz_ref_row_release) struct dz_ref_row ref = {0};
    const struct dz_engine_order destroy = {.what = DZ_REQUEST_DESTROY};
    int rc = get_ref(e, target, &ref, why);
    if (rc == 0 && ref.closed)
        rc = owner_gone(&ref, why);
    const char *sees = dz_engine_sees(target.who);
    if (rc == 0 && sees && strcmp(ref.owner, sees) != 0)
        rc = dz_why(why, DZ_EDENIED, NULL, "%s: only its owner ends it; detach instead", ref.id);
    target.word = ref.sandbox_id;
    return rc < 0 ? rc : dz_engine_order(e, target, &destroy, done, arg, why);
}

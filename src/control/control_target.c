/* SPDX-License-Identifier: MIT
 *
 * control_target.c - find the sandbox, or the row of another table, that a caller's reference (an
 * id, a name, or TENANT/NAME) names.
 */
#include "control/control_int.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

struct place {
    const char *sees, *home, *ref;        /* ref: the part after the '/' */
    char named[DZ_CONTROL_VALUE_MAX + 1]; /* the tenant before the '/', "": none */
};

static struct place place_of(struct dz_control_target target)
{
    struct place p = {
        .sees = dz_control_sees(target.who), .home = target.who->tenant, .ref = target.ref};
    const char *slash = strchr(target.ref, '/');
    size_t n = slash ? (size_t)(slash - target.ref) : 0;
    if (n == 0 || n >= sizeof p.named)
        return p;
    (void)snprintf(p.named, sizeof p.named, "%.*s", (int)n, target.ref);
    /* Only the operator can name another tenant's sandbox; for others the whole word names
     * nothing. */
    if (!p.sees || strcmp(p.sees, p.named) == 0)
        p.ref = slash + 1;
    else
        p.named[0] = '\0';
    return p;
}

/* Explain why nothing was found: the name may exist in another tenant that the caller may see. */
static int no_sandbox(struct dz_control *e, const struct place *p, struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance other = {0};
    char quoted[DZ_STR_QUOTED];
    struct dz_err err = {0};
    (void)dz_str_quote(dz_str(p->ref), quoted);
    int rc = p->sees || p->named[0]
                 ? DZ_ENOENT
                 : dz_registry_find(e->registry, NULL, NULL, p->ref, &other, &err);
    if (rc == 0)
        return dz_why(why, DZ_ENOENT, NULL,
                      "tenant %s has no sandbox %s; tenant %s has one: use %s/%s or %s", p->home,
                      quoted, other.tenant, other.tenant, p->ref, other.id);
    if (rc == DZ_EINVAL)
        return dz_why(why, DZ_ENOENT, NULL, "tenant %s has no sandbox %s; read as TENANT/NAME, %s",
                      p->home, quoted, err.msg);
    return dz_why(why, DZ_ENOENT, NULL, "there is no sandbox %s", quoted);
}

int dz_control_find(struct dz_control *e, struct dz_control_target target,
                    struct dz_instance *ret_row, struct dz_why *why)
{
    const struct place p = place_of(target);
    const char *word = p.ref;
    struct dz_err err;
    int rc =
        dz_registry_find(e->registry, p.named[0] ? p.named : p.sees, p.home, word, ret_row, &err);
    if (rc == DZ_ENOENT)
        return no_sandbox(e, &p, why);
    if (rc == DZ_EINVAL)
        return dz_why(why, DZ_EEXIST, NULL, "%s", err.msg);
    if (rc == DZ_EGONE) /* of a deleted sandbox only the id is remembered */
        dz_log_about(word);
    /* the row may predate its last wake */
    if (rc == 0 && dz_sandbox_report_up(e->sandboxes, ret_row->id)) {
        char id[DZ_COLD_KEY];
        (void)snprintf(id, sizeof id, "%s", ret_row->id);
        dz_instance_release(ret_row);
        *ret_row = (struct dz_instance){0};
        rc = dz_registry_get(e->registry, id, ret_row, &err);
    }
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    dz_log_about(ret_row->id);
    return 0;
}

int dz_control_row(struct dz_control *e, struct dz_control_target target,
                   struct dz_instance *ret_row, struct dz_why *why)
{
    int rc = dz_control_find(e, target, ret_row, why);
    if (rc < 0 || ret_row->deployment_is != DZ_DEPLOYMENT_TERMINATED)
        return rc;
    (void)dz_why(why, DZ_EGONE, NULL, "%s has expired", ret_row->id);
    dz_instance_release(ret_row);
    *ret_row = (struct dz_instance){0};
    return DZ_EGONE;
}

static int64_t expires_of(const struct dz_control_records *of, const void *row)
{
    return of->expires ? *(const int64_t *)((const char *)row + of->expires) : 0;
}

int dz_control_record(struct dz_control *e, struct dz_control_target target,
                      const struct dz_control_records *of, void *ret_row, struct dz_why *why)
{
    const struct place p = place_of(target);
    const char *tenant = p.named[0] ? p.named : p.sees;
    char quoted[DZ_STR_QUOTED];
    struct dz_err err;
    int rc = dz_registry_record_get(e->registry, of->table, tenant, p.ref, ret_row, &err);
    if (rc == DZ_ENOENT)
        rc = dz_registry_record_find(e->registry, of->table, tenant ? tenant : p.home, p.ref,
                                     ret_row, &err);
    if (rc == 0 && dz_control_expired(expires_of(of, ret_row))) {
        dz_registry_record_release(of->table, ret_row);
        rc = DZ_ENOENT;
    }
    if (rc == DZ_ENOENT)
        return dz_why(why, rc, NULL, "there is no %s %s", of->what,
                      dz_str_quote(dz_str(p.ref), quoted));
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

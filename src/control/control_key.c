/* SPDX-License-Identifier: MIT
 *
 * control_key.c - idempotency keys: a request that is sent twice is executed once.
 *
 * The row of a key is written before its request begins and gets the answer when it ends; it is
 * kept for a day. A row without an answer belongs to a request in progress, or to one during which
 * the daemon died. Whether such a request was executed can be found out only for creations, because
 * they write down the id of the sandbox before they begin. Other requests are answered as
 * interrupted and are not executed again.
 */
#include "control/control_int.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

#define KEEP_MS ((int64_t)24 * 3600 * 1000)
enum {
    SWEEP_MS = 60000,
    SWEEP_MORE_MS = 50, /* interval while there is more to sweep */
    SWEEP_ROWS = 500,   /* rows of each kind in one sweep */
};

struct key {
    char name[DZ_CONTROL_NAME_MAX + DZ_CONTROL_IDEM_MAX + 3]; /* tenant, newline, key */
};

static void name_of(const char *tenant, const char *key, struct key *ret)
{
    (void)snprintf(ret->name, sizeof ret->name, "%s\n%s", tenant, key);
}

/* --- beginning ---------------------------------------------------------------------------- */

static int under_way(struct dz_control *e, const struct key *k, struct dz_why *why)
{
    if (!dz_map_get(&e->keys, dz_str(k->name)))
        return 0;
    int rc = dz_why(why, DZ_ECANCELED, "Idempotency-Key",
                    "a request with this Idempotency-Key is in progress; repeat it later to get "
                    "the answer");
    why->reason = "in_progress";
    return rc;
}

static int begin_new(struct dz_control *e, const char *tenant, const struct dz_control_key *key,
                     struct dz_why *why)
{
    const struct dz_idempotency_row row = {.id = key->key,
                                           .tenant = tenant,
                                           .request_sha256 = key->sha256,
                                           .sandbox_id = key->sandbox_id ? key->sandbox_id : "",
                                           .expires = dz_clock_real_ms() + KEEP_MS};
    int full = dz_usage_key(e, tenant, why);
    if (full < 0)
        return full;
    struct key *k = dz_alloc(sizeof *k);
    if (!k)
        return dz_why(why, DZ_ENOMEM, NULL, "out of memory");
    name_of(tenant, key->key, k);
    int rc = dz_map_put(&e->keys, dz_str(k->name), k, NULL);
    if (rc < 0) {
        dz_free(k);
        return dz_why(why, DZ_EBUSY, NULL,
                      "too many requests with an Idempotency-Key are in progress; try again later");
    }
    rc = dz_registry_idempotency_add(e->registry, &row, false, &why->err);
    if (rc == 0)
        return DZ_CONTROL_KEY_NEW;
    (void)dz_map_remove(&e->keys, dz_str(k->name));
    dz_free(k);
    return dz_why_err(why, rc, &why->err);
}

/* An earlier daemon began this request and did not finish it. */
static int interrupted(struct dz_control *e, const struct dz_idempotency_row *row,
                       const struct dz_control_key *key, struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance made = {0};
    if (!row->sandbox_id[0]) {
        int rc = dz_why(why, DZ_EEXIST, "Idempotency-Key",
                        "the daemon stopped while a request with this Idempotency-Key was in "
                        "progress; check whether it was done, and use another key");
        why->reason = "interrupted";
        return rc;
    }
    if (dz_registry_get(e->registry, row->sandbox_id, &made, NULL) == 0)
        return DZ_CONTROL_KEY_MADE;
    int rc = dz_registry_idempotency_remove(e->registry, row->tenant, row->id, 0, &why->err);
    return rc < 0 ? dz_why_err(why, rc, &why->err) : begin_new(e, row->tenant, key, why);
}

int dz_control_key_begin(struct dz_control *e, const struct dz_control_caller *who,
                         const struct dz_control_key *key, struct dz_idempotency_row *ret_row,
                         struct dz_why *why)
{
    DZ_AUTO(dz_idempotency_row_release) struct dz_idempotency_row row = {0};
    struct key k;
    name_of(who->tenant, key->key, &k);
    int rc = dz_registry_idempotency_get(e->registry, who->tenant, key->key, &row, &why->err);
    if (rc == DZ_ENOENT)
        return begin_new(e, who->tenant, key, why);
    if (rc < 0)
        return dz_why_err(why, rc, &why->err);
    if (strcmp(row.request_sha256, key->sha256) != 0)
        return dz_why(why, DZ_EEXIST, "Idempotency-Key",
                      "this Idempotency-Key was used for another request; use another key");
    rc = under_way(e, &k, why);
    if (rc == 0)
        rc = row.http_status ? DZ_CONTROL_KEY_ANSWERED : interrupted(e, &row, key, why);
    if (rc == DZ_CONTROL_KEY_ANSWERED || rc == DZ_CONTROL_KEY_MADE) {
        *ret_row = row;
        row = (struct dz_idempotency_row){0};
    }
    return rc;
}

/* --- ending ---------------------------------------------------------------------------------- */

static void forget(struct dz_control *e, const struct key *k)
{
    dz_free(dz_map_remove(&e->keys, dz_str(k->name)));
}

void dz_control_key_end(struct dz_control *e, const struct dz_control_caller *who, const char *key,
                        int status, struct dz_str response)
{
    DZ_AUTO(dz_idempotency_row_release) struct dz_idempotency_row row = {0};
    const uint64_t set = DZ_ROW_COLUMN(idempotency, http_status) |
                         DZ_ROW_COLUMN(idempotency, response) | DZ_ROW_COLUMN(idempotency, expires);
    struct dz_err err;
    struct key k;
    name_of(who->tenant, key, &k);
    forget(e, &k);
    if (status == 0) { /* the request had no effect: it may be executed again */
        int gone = dz_registry_idempotency_remove(e->registry, who->tenant, key, 0, &err);
        if (gone < 0)
            dz_log(DZ_LOG_WARN, "key_not_removed", dz_log_err(&err));
        return;
    }
    bool large = response.n > DZ_REGISTRY_TEXT_MAX;
    char *text = large ? NULL : dz_str_dup(response);
    int rc = dz_registry_idempotency_get(e->registry, who->tenant, key, &row, &err);
    if (rc == 0) {
        struct dz_idempotency_row to = row;
        to.http_status = text ? status : status + DZ_CONTROL_KEY_UNKEPT;
        to.response = text ? text : "";
        to.expires = dz_clock_real_ms() + KEEP_MS;
        rc = dz_registry_idempotency_change(e->registry, &to, set, false, &err);
    }
    if (rc < 0)
        dz_log(DZ_LOG_WARN, "answer_not_kept", dz_log_err(&err));
    dz_free(text);
}

void dz_control_keys_release(struct dz_control *e)
{
    DZ_MAP_FOREACH(it, &e->keys)
        dz_free(it->value);
    dz_map_release(&e->keys);
}

/* --- what is over ------------------------------------------------------------------------------
 */

/* Remove expired handles, keys and tokens, and closed references. */
void dz_control_sweep(void *arg)
{
    dz_egress_sweep(arg);
    struct dz_control *e = arg;
    struct dz_err err;
    size_t n = 0;
    dz_control_handles_sweep(e);
    if (dz_registry_sweep(e->registry, SWEEP_ROWS, &n, &err) < 0)
        dz_log(DZ_LOG_WARN, "sweep_failed", dz_log_err(&err));
    if (n > 0)
        dz_usages_recount_keys(e);
    dz_timer_after(e->sweep, n >= SWEEP_ROWS ? SWEEP_MORE_MS : SWEEP_MS);
}

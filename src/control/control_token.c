/* SPDX-License-Identifier: MIT
 *
 * control_token.c - tokens: secrets that stand for a tenant.
 *
 * A secret is "doze_" and 32 random bytes in hexadecimal. Only its SHA-256 is stored, so the
 * registry's content is of no use to a thief. A plain hash is enough for 256 random bits; slow
 * hashes are for passwords that people choose.
 */
#include "control/control_int.h"

#include "base/clock.h"
#include "base/hash.h"

#include <stdio.h>
#include <string.h>

#define PREFIX "doze_"

enum {
    RANDOM = 32,
    USED_MS = 60000, /* last_used is exact to the minute */
    SECRET = sizeof PREFIX - 1 + (size_t)2 * RANDOM,
};
_Static_assert(SECRET + 1 == DZ_CONTROL_SECRET, "what the header says");

bool dz_control_secret_hash(struct dz_str secret, char ret_sha256[static DZ_SHA256_HEX])
{
    uint8_t digest[DZ_SHA256_BYTES];
    if (secret.n != SECRET || !dz_str_starts(secret, DZ_STR(PREFIX)))
        return false;
    if (strspn(secret.p + sizeof PREFIX - 1, "0123456789abcdef") < 2 * (size_t)RANDOM)
        return false;
    if (dz_sha256(secret.p, secret.n, digest, NULL) < 0)
        return false;
    (void)dz_sha256_hex(digest, ret_sha256);
    return true;
}

int dz_control_secret_new(char ret_secret[static DZ_CONTROL_SECRET],
                          char ret_sha256[static DZ_SHA256_HEX], struct dz_err *err)
{
    char digits[DZ_SHA256_HEX];
    uint8_t random[RANDOM];
    _Static_assert((int)RANDOM == (int)DZ_SHA256_BYTES, "digits are printed as of a digest");
    int rc = dz_random(random, sizeof random, err);
    if (rc < 0)
        return rc;
    (void)snprintf(ret_secret, DZ_CONTROL_SECRET, PREFIX "%s", dz_sha256_hex(random, digits));
    if (!dz_control_secret_hash(dz_str(ret_secret), ret_sha256))
        return dz_fail(err, DZ_EIO, "make a token: SHA-256 failed");
    return 0;
}

static int only_operator(const struct dz_control_caller *who, struct dz_why *why)
{
    return who->is_operator ? 0
                            : dz_why(why, DZ_EDENIED, NULL, "only the operator can manage tokens");
}

void dz_control_caller_keep(struct dz_control_own_caller *own, const struct dz_control_caller *who)
{
    (void)snprintf(own->tenant, sizeof own->tenant, "%s", who->tenant);
    (void)snprintf(own->token, sizeof own->token, "%s", who->token ? who->token : "");
    own->who =
        (struct dz_control_caller){own->tenant, who->is_operator, who->token ? own->token : NULL};
}

int dz_control_caller_check(struct dz_control *e, const struct dz_control_caller *who,
                            struct dz_why *why)
{
    DZ_AUTO(dz_token_row_release) struct dz_token_row row = {0};
    struct dz_err err;
    int rc = who->token ? dz_registry_token_get(e->registry, NULL, who->token, &row, &err) : 0;
    if (rc == DZ_ENOENT || rc == DZ_EGONE ||
        (rc == 0 && row.expires && row.expires <= dz_clock_real_ms()))
        return dz_why(why, DZ_EUNAUTH, NULL, "the token %s was revoked or has expired", who->token);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

/* Make the row of a tenant, so that its objects can be listed by tenant. */
int dz_control_know_tenant(struct dz_control *e, const char *tenant, struct dz_err *err)
{
    const struct dz_tenant_row row = {.id = tenant, .tenant = tenant, .status = "active"};
    int rc = dz_registry_tenant_add(e->registry, &row, true, err);
    return rc == DZ_EEXIST ? 0 : rc;
}

static int check(const struct dz_control_token_spec *spec, struct dz_why *why)
{
    struct dz_why inner = {0};
    if (!spec->name || dz_control_check_name(spec->name, &inner) < 0)
        return dz_why(
            why, DZ_EINVAL, "name",
            "name: must be 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter "
            "or digit");
    if (!spec->tenant || dz_control_check_name(spec->tenant, &inner) < 0)
        return dz_why(
            why, DZ_EINVAL, "tenant",
            "tenant: must be 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter "
            "or digit");
    if (strcmp(spec->scope, "tenant") != 0 && strcmp(spec->scope, "operator") != 0)
        return dz_why(why, DZ_EINVAL, "scope", "scope: must be tenant or operator");
    struct dz_quotas quotas = {.schedules = DZ_QUOTA_DEFAULT};
    int rc = dz_quotas_read(spec->quotas_json, &quotas, why);
    if (rc == 0 && quotas.schedules != DZ_QUOTA_DEFAULT)
        rc = dz_why(why, DZ_EINVAL, "quotas.schedules",
                    "quotas.schedules: a tenant has this quota, a token has not");
    return rc;
}

int dz_control_token_add(struct dz_control *e, const struct dz_control_caller *who,
                         const struct dz_control_token_spec *spec,
                         char ret_secret[static DZ_CONTROL_SECRET], struct dz_token_row *ret_row,
                         struct dz_why *why)
{
    char id[DZ_ID_TEXT], sha256[DZ_SHA256_HEX];
    struct dz_err err;
    int rc = only_operator(who, why);
    if (rc == 0)
        rc = check(spec, why);
    if (rc < 0)
        return rc;
    rc = dz_id_new("tok", id, &err);
    if (rc == 0)
        rc = dz_control_secret_new(ret_secret, sha256, &err);
    if (rc == 0)
        rc = dz_control_know_tenant(e, spec->tenant, &err);
    const struct dz_token_row row = {
        .id = id,
        .tenant = spec->tenant,
        .sha256 = sha256,
        .scope = spec->scope,
        .label = spec->name,
        .quotas = spec->quotas_json,
        .expires = spec->expires_in_ms ? dz_clock_real_ms() + spec->expires_in_ms : 0,
    };
    if (rc == 0)
        rc = dz_registry_token_add(e->registry, &row, true, &err);
    if (rc == 0)
        rc = dz_registry_token_get(e->registry, NULL, id, ret_row, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

int dz_control_tokens(struct dz_control *e, const struct dz_control_caller *who,
                      const struct dz_registry_record_filter *filter, struct dz_token_rows *rows,
                      struct dz_why *why)
{
    struct dz_err err;
    int rc = only_operator(who, why);
    if (rc < 0)
        return rc;
    rc = dz_registry_token_list(e->registry, filter, rows, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

/* Find a token by its id, or by its name if that is unique. */
static int find(struct dz_control *e, const char *word, char ret_id[static DZ_ID_TEXT],
                struct dz_why *why)
{
    char quoted[DZ_STR_QUOTED], after[DZ_ID_TEXT] = "";
    struct dz_err err;
    size_t found = 0;
    for (;;) {
        DZ_AUTO(dz_token_rows_release)
        struct dz_token_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
        const struct dz_registry_record_filter f = {.after = after};
        int rc = dz_registry_token_list(e->registry, &f, &rows, &err);
        if (rc < 0)
            return dz_why_err(why, rc, &err);
        for (size_t i = 0; i < rows.n; i++) {
            bool same = strcmp(rows.p[i].id, word) == 0;
            if (!same && strcmp(rows.p[i].label, word) != 0)
                continue;
            (void)snprintf(ret_id, DZ_ID_TEXT, "%s", rows.p[i].id);
            if (same)
                return 0;
            found++;
        }
        if (rows.n < DZ_REGISTRY_LIST_MAX)
            break;
        (void)snprintf(after, sizeof after, "%s", rows.p[rows.n - 1].id);
    }
    (void)dz_str_quote(dz_str(word), quoted);
    if (found > 1)
        return dz_why(why, DZ_EEXIST, NULL,
                      "%s is ambiguous: several tokens have that name; give an id", quoted);
    return found ? 0 : dz_why(why, DZ_ENOENT, NULL, "there is no token %s", quoted);
}

int dz_control_token_remove(struct dz_control *e, const struct dz_control_caller *who,
                            const char *word, char ret_id[static DZ_ID_TEXT], struct dz_why *why)
{
    struct dz_err err;
    int rc = only_operator(who, why);
    if (rc == 0)
        rc = find(e, word, ret_id, why);
    if (rc < 0)
        return rc;
    rc = dz_registry_token_remove(e->registry, NULL, ret_id, 0, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

int dz_control_token_find(struct dz_control *e, const char *sha256, struct dz_token_row *ret_row,
                          struct dz_err *err)
{
    int rc = dz_registry_token_find(e->registry, NULL, sha256, ret_row, err);
    if (rc == 0 && !dz_equal_secret(ret_row->sha256, sha256, DZ_SHA256_HEX)) {
        dz_token_row_release(ret_row);
        rc = DZ_ENOENT;
    }
    return rc;
}

void dz_control_token_used(struct dz_control *e, const char *id)
{
    DZ_AUTO(dz_token_row_release) struct dz_token_row row = {0};
    int64_t now = dz_clock_real_ms();
    if (dz_registry_token_get(e->registry, NULL, id, &row, NULL) < 0 ||
        now - row.last_used < USED_MS)
        return;
    row.last_used = now;
    /* A conflicting change is no reason to refuse the request. */
    (void)!dz_registry_token_change(e->registry, &row, DZ_ROW_COLUMN(token, last_used), false,
                                    NULL);
}

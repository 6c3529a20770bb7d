/* SPDX-License-Identifier: MIT
 *
 * api_auth.c - who asks: the owner of the socket, or who has a token.
 *
 * A token that was found in the registry is remembered as a session: for some seconds it is
 * not looked up again, and streams that it opened have something to hold on to. A session
 * is there as long as a request of it is, or until it has to be looked up again. What is
 * revoked here is forgotten at once; what another host revokes, after FRESH_MS.
 */
#include "api/api_int.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    FRESH_MS = 5000,
    SESSIONS_MAX = 4096, /* remembered without a request; beyond, all are looked up anew */
};

struct session {
    struct dz_engine_caller who; /* the first: dz_api_caller gives its address */
    char sha256[DZ_SHA256_HEX];
    char id[DZ_ID_TEXT], tenant[DZ_ENGINE_NAME_MAX + 1];
    int64_t expires, looked_ms, used_ms;
    size_t refs; /* requests, and one for the map */
};

/* --- sessions --------------------------------------------------------------------------- */

static void unref(struct session *s)
{
    if (--s->refs == 0)
        dz_free(s);
}

static void forget(struct dz_api *a, struct session *s)
{
    (void)dz_map_remove(&a->sessions, dz_str(s->sha256));
    unref(s);
}

static void forget_all(struct dz_api *a)
{
    DZ_MAP_FOREACH(it, &a->sessions)
        unref(it->value);
    dz_map_clear(&a->sessions);
}

static int look_up(struct dz_api *a, const char *sha256, struct session **ret, struct dz_err *err)
{
    DZ_AUTO(dz_token_row_release) struct dz_token_row row = {0};
    int rc = dz_engine_token_find(a->engine, sha256, &row, err);
    if (rc < 0)
        return rc;
    struct session *s = dz_zalloc(sizeof *s);
    if (!s)
        return dz_fail(err, DZ_ENOMEM, "out of memory");
    *s = (struct session){.expires = row.expires, .looked_ms = dz_clock_mono_ms(), .refs = 1};
    (void)snprintf(s->sha256, sizeof s->sha256, "%s", sha256);
    (void)snprintf(s->id, sizeof s->id, "%s", row.id);
    (void)snprintf(s->tenant, sizeof s->tenant, "%s", row.tenant);
    s->who = (struct dz_engine_caller){s->tenant, strcmp(row.scope, "operator") == 0};
    if (a->sessions.count >= SESSIONS_MAX)
        forget_all(a);
    rc = dz_map_put(&a->sessions, dz_str(s->sha256), s, NULL);
    if (rc < 0) {
        dz_free(s);
        return dz_fail(err, rc, "out of memory");
    }
    *ret = s;
    return 0;
}

/* The session of a secret; DZ_ENOENT: it is nobody's. */
static int session_of(struct dz_api *a, struct dz_str secret, struct session **ret,
                      struct dz_err *err)
{
    char sha256[DZ_SHA256_HEX];
    if (!dz_engine_secret_hash(secret, sha256))
        return DZ_ENOENT;
    struct session *s = dz_map_get(&a->sessions, dz_str(sha256));
    if (s && (dz_clock_mono_ms() - s->looked_ms >= FRESH_MS ||
              (s->expires && s->expires <= dz_clock_real_ms()))) {
        forget(a, s);
        s = NULL;
    }
    int rc = s ? 0 : look_up(a, sha256, &s, err);
    if (rc == 0)
        *ret = s;
    return rc;
}

/* --- admission --------------------------------------------------------------------------- */

/* The secret of "Bearer <secret>". */
static bool bearer(const char *header, struct dz_str *ret_secret)
{
    static const char scheme[] = "Bearer ";
    if (strncasecmp(header, scheme, sizeof scheme - 1) != 0)
        return false;
    *ret_secret = dz_str_trim(dz_str(header + sizeof scheme - 1));
    return true;
}

static int stranger(struct dz_http_req *r, const char *challenge, const char *text,
                    struct dz_err *err)
{
    dz_http_set(r, "WWW-Authenticate", challenge);
    return dz_fail(err, DZ_EUNAUTH, "%s", text);
}

static int by_token(struct dz_api *a, struct dz_http_req *r, const char *header, struct dz_err *err)
{
    struct dz_str secret = DZ_STR("");
    struct session *s = NULL;
    int rc = bearer(header, &secret) ? session_of(a, secret, &s, err) : DZ_ENOENT;
    if (rc == DZ_ENOENT)
        return stranger(r, "Bearer realm=\"doze\", error=\"invalid_token\"",
                        "the token is not valid: it is malformed, unknown, expired or revoked",
                        err);
    if (rc < 0)
        return rc;
    s->refs++;
    dz_http_set_context(r, s);
    if (dz_clock_mono_ms() - s->used_ms > 60000 || !s->used_ms) {
        s->used_ms = dz_clock_mono_ms();
        dz_engine_token_used(a->engine, s->id);
    }
    return 0;
}

int dz_api_admit(struct dz_http_req *r, void *api, struct dz_err *err)
{
    struct dz_api *a = api;
    const char *header = dz_http_header(r, "Authorization");
    int64_t uid = dz_http_peer_uid(r);
    unsigned flags = dz_http_route_of(r)->flags;
    int rc = 0;
    if (flags & DZ_API_OPEN)
        return 0;
    if (header)
        rc = by_token(a, r, header, err);
    else if (uid < 0 || ((uid_t)uid != geteuid() && uid != 0))
        rc = stranger(
            r, "Bearer realm=\"doze\"",
            "a token is needed: Authorization: Bearer TOKEN (doze token create makes one)", err);
    if (rc == 0 && flags & DZ_API_OPERATOR && !dz_api_caller(r, a)->is_operator)
        rc = dz_fail(err, DZ_EDENIED, "this is for the operator of the daemon only");
    return rc;
}

const struct dz_engine_caller *dz_api_caller(const struct dz_http_req *r, const struct dz_api *a)
{
    const struct session *s = dz_http_context(r);
    return s ? &s->who : &a->owner;
}

struct dz_engine_target dz_api_target(const struct dz_http_req *r, const struct dz_api *a,
                                      const char *param)
{
    return (struct dz_engine_target){dz_api_caller(r, a), dz_http_param(r, param)};
}

void dz_api_admitted_over(const struct dz_http_req *r)
{
    struct session *s = dz_http_context(r);
    if (s)
        unref(s);
}

void dz_api_auth_revoked(struct dz_api *a, const char *id)
{
    struct session *found = NULL;
    DZ_MAP_FOREACH(it, &a->sessions) {
        struct session *s = it->value;
        if (strcmp(s->id, id) == 0)
            found = s;
    }
    if (found)
        forget(a, found);
}

void dz_api_auth_open(struct dz_api *a)
{
    dz_map_init(&a->sessions, SESSIONS_MAX + 1);
}

void dz_api_auth_close(struct dz_api *a)
{
    forget_all(a);
    dz_map_release(&a->sessions);
}

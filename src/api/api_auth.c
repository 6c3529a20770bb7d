/* SPDX-License-Identifier: MIT
 *
 * api_auth.c - identify the caller: the owner of the unix socket, or the holder of a token.
 *
 * A token that was found in the registry is cached as a session for FRESH_MS, so that each
 * request need not look it up. Requests and streams hold a reference to their session; it
 * lives until the last of them ends and the cache has dropped it. Revoking a token on this
 * host drops its session and cuts its streams at once; a token that another host revokes is
 * noticed after FRESH_MS. A token that expires ends its streams, too.
 *
 * Secrets have 256 random bits, so guessing is hopeless, but each guess costs a lookup.
 * Therefore an address may fail FAILURES times and then once per FAILURE_MS. A valid token is
 * accepted no matter how often other clients behind the same address fail.
 */
#include "api/api_int.h"

#include "base/clock.h"
#include "base/limits.h"
#include "loop/loop.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    FRESH_MS = 5000,
    TENANT_REQUESTS = 1024, /* requests and streams of one tenant in progress */
    FAILURES = 20,          /* failed attempts of one address before it must pause */
    FAILURE_MS = 3000,      /* pause after which one failure is forgiven */
    ADDRESSES_MAX = 4096,   /* addresses with remembered failures */
    USED_MS = 60000,
    SESSIONS_MAX = 4096, /* sessions cached; a full cache is emptied */
};

struct tenant {
    char name[DZ_CONTROL_NAME_MAX + 1];
    size_t requests; /* requests in progress */
    size_t refs;     /* sessions that refer to this tenant */
};

struct failures {
    uint8_t key[16];
    int64_t until_ms; /* time at which all failures are forgiven */
};

struct session {
    struct dz_control_caller who; /* must be first: dz_api_caller returns its address */
    char sha256[DZ_SHA256_HEX];
    char id[DZ_ID_TEXT]; /* of the token; of an access token, the sandbox's */
    bool access;         /* an access token of E2B's dialect: for one sandbox's data plane */
    struct tenant *tenant;
    int64_t expires, looked_ms, used_ms;
    size_t refs; /* one reference for each request, and one for the map */
};

/* --- sessions --------------------------------------------------------------------------- */

static void leave_tenant(struct dz_api *a, struct tenant *t)
{
    if (!t || --t->refs > 0)
        return;
    assert(t->requests == 0);
    (void)dz_map_remove(&a->tenants, dz_str(t->name));
    dz_free(t);
}

static struct tenant *tenant_of(struct dz_api *a, const char *name)
{
    struct tenant *t = dz_map_get(&a->tenants, dz_str(name));
    if (!t && (t = dz_zalloc(sizeof *t))) {
        (void)snprintf(t->name, sizeof t->name, "%s", name);
        if (dz_map_put(&a->tenants, dz_str(t->name), t, NULL) < 0) {
            dz_free(t);
            return NULL;
        }
    }
    if (t)
        t->refs++;
    return t;
}

static void unref(struct dz_api *a, struct session *s)
{
    if (--s->refs > 0)
        return;
    leave_tenant(a, s->tenant);
    dz_free(s);
}

static void forget(struct dz_api *a, struct session *s)
{
    (void)dz_map_remove(&a->sessions, dz_str(s->sha256));
    unref(a, s);
}

static void forget_all(struct dz_api *a)
{
    DZ_MAP_FOREACH(it, &a->sessions)
        unref(a, it->value);
    dz_map_clear(&a->sessions);
}

/* Cache a new session under the hash of its secret. */
static int keep_session(struct dz_api *a, const char *sha256, const char *id, const char *tenant,
                        struct session **ret, struct dz_err *err)
{
    struct session *s = dz_zalloc(sizeof *s);
    if (!s)
        return dz_fail(err, DZ_ENOMEM, "out of memory");
    *s = (struct session){.looked_ms = dz_clock_mono_ms(), .refs = 1};
    (void)snprintf(s->sha256, sizeof s->sha256, "%s", sha256);
    (void)snprintf(s->id, sizeof s->id, "%s", id);
    s->tenant = tenant_of(a, tenant);
    if (a->sessions.count >= SESSIONS_MAX)
        forget_all(a);
    int rc = s->tenant ? dz_map_put(&a->sessions, dz_str(s->sha256), s, NULL) : DZ_ENOMEM;
    if (rc < 0) {
        unref(a, s);
        return dz_fail(err, rc, "out of memory");
    }
    *ret = s;
    return 0;
}

static int look_up(struct dz_api *a, const char *sha256, struct session **ret, struct dz_err *err)
{
    DZ_AUTO(dz_token_row_release) struct dz_token_row row = {0};
    int rc = dz_control_token_find(a->control, sha256, &row, err);
    if (rc == 0)
        rc = keep_session(a, sha256, row.id, row.tenant, ret, err);
    if (rc < 0)
        return rc;
    struct session *s = *ret;
    s->expires = row.expires;
    s->who = (struct dz_control_caller){s->tenant->name, strcmp(row.scope, "operator") == 0, s->id};
    return 0;
}

/* Find the session of an access token. DZ_EDIED: its sandbox does not exist. */
static int access_session(struct dz_api *a, const char *token, struct session **ret,
                          struct dz_err *err)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    uint8_t digest[DZ_SHA256_BYTES];
    char sha256[DZ_SHA256_HEX], id[DZ_ID_TEXT];
    struct dz_why why = {0};
    if (!dz_e2b_opens(a, token, id) || dz_sha256(token, strlen(token), digest, NULL) < 0)
        return DZ_ENOENT;
    struct session *s = dz_map_get(&a->sessions, dz_str(dz_sha256_hex(digest, sha256)));
    if (s && dz_clock_mono_ms() - s->looked_ms < FRESH_MS) {
        *ret = s;
        return 0;
    }
    if (s)
        forget(a, s);
    if (dz_control_get(a->control, (struct dz_control_target){&a->owner, id}, &row, &why) < 0)
        return dz_fail(err, DZ_EDIED, "the sandbox does not exist");
    int rc = keep_session(a, sha256, id, row.tenant, ret, err);
    if (rc == 0) {
        (*ret)->access = true;
        (*ret)->who = (struct dz_control_caller){(*ret)->tenant->name, false, NULL};
    }
    return rc;
}

/* Find the session of a secret, from the cache or the registry; DZ_ENOENT: no such token. */
static int session_of(struct dz_api *a, struct dz_str secret, struct session **ret,
                      struct dz_err *err)
{
    char sha256[DZ_SHA256_HEX];
    if (!dz_control_secret_hash(secret, sha256))
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

static void forget_failures(struct dz_api *a)
{
    DZ_MAP_FOREACH(it, &a->failures)
        dz_free(it->value);
    dz_map_clear(&a->failures);
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

/* Count a failure of this address; false: it has failed too often recently. */
static bool may_fail(struct dz_api *a, const struct dz_http_req *r)
{
    uint8_t key[16];
    int64_t now = dz_clock_mono_ms();
    if (dz_http_peer_uid(r) >= 0)
        return true;
    size_t n = dz_http_peer_key(r, key);
    struct failures *f = dz_map_get(&a->failures, dz_str_n((char *)key, n));
    if (!f && a->failures.count >= ADDRESSES_MAX)
        forget_failures(a);
    if (!f && (f = dz_zalloc(sizeof *f))) {
        memcpy(f->key, key, n);
        if (dz_map_put(&a->failures, dz_str_n((char *)f->key, n), f, NULL) < 0) {
            dz_free(f);
            f = NULL;
        }
    }
    if (!f)
        return false;
    int64_t from = f->until_ms > now ? f->until_ms : now;
    if (from + FAILURE_MS - now > (int64_t)FAILURES * FAILURE_MS)
        return false;
    f->until_ms = from + FAILURE_MS;
    return true;
}

/* Is the next failure of this address refused? */
static bool fails_often(const struct dz_api *a, const struct dz_http_req *r)
{
    uint8_t key[16];
    size_t n = dz_http_peer_key(r, key);
    const struct failures *f = dz_map_get(&a->failures, dz_str_n((char *)key, n));
    return f && f->until_ms - dz_clock_mono_ms() > (int64_t)(FAILURES - 1) * FAILURE_MS;
}

static int stranger(struct dz_api *a, struct dz_http_req *r, const char *challenge,
                    const char *text, struct dz_err *err)
{
    if (!may_fail(a, r)) {
        dz_http_set(r, "Retry-After", "3");
        dz_http_close(r);
        return dz_fail(err, DZ_ERATE,
                       "too many requests without a valid token; wait and try again");
    }
    dz_http_set(r, "WWW-Authenticate", challenge);
    return dz_fail(err, DZ_EUNAUTH, "%s", text);
}

/* Set the timer for the earliest expiry of a token that has requests in progress. */
static void expire_at(struct dz_api *a, int64_t at)
{
    if (at && (!a->expiry_at || at < a->expiry_at)) {
        a->expiry_at = at;
        dz_timer_at(a->expiry, at);
    }
}

/* The session's request is admitted. */
static int admitted(struct dz_api *a, struct dz_http_req *r, struct session *s, struct dz_err *err)
{
    if (!s->who.is_operator && s->tenant->requests >= a->tenant_requests)
        return dz_fail(err, DZ_ERATE, "the tenant already has %zu requests in progress",
                       s->tenant->requests);
    s->refs++;
    s->tenant->requests++;
    dz_http_set_context(r, s);
    expire_at(a, s->expires);
    if (!s->access && (dz_clock_mono_ms() - s->used_ms > USED_MS || !s->used_ms)) {
        s->used_ms = dz_clock_mono_ms();
        dz_control_token_used(a->control, s->id);
    }
    return 0;
}

static int by_secret(struct dz_api *a, struct dz_http_req *r, struct dz_str secret,
                     struct dz_err *err)
{
    struct session *s = NULL;
    int rc = session_of(a, secret, &s, err);
    if (rc == DZ_ENOENT)
        return stranger(a, r, "Bearer realm=\"doze\", error=\"invalid_token\"",
                        "the token is not valid: it is malformed, unknown, expired or revoked",
                        err);
    return rc < 0 ? rc : admitted(a, r, s, err);
}

static int by_token(struct dz_api *a, struct dz_http_req *r, const char *header, struct dz_err *err)
{
    struct dz_str secret = DZ_STR("");
    (void)bearer(header, &secret);
    return by_secret(a, r, secret, err);
}

/* The control plane of E2B's dialect: a key, or a token. False: the request has neither. */
static bool by_key(struct dz_api *a, struct dz_http_req *r, int *ret_rc, struct dz_err *err)
{
    const char *key = dz_http_header(r, "X-API-Key"), *header = dz_http_header(r, "Authorization");
    struct dz_str text = dz_str(key);
    char secret[DZ_CONTROL_SECRET] = "";
    if (!key && !(header && bearer(header, &text)))
        return false;
    (void)dz_e2b_key(text.p, secret);
    *ret_rc = by_secret(a, r, dz_str(secret), err);
    return true;
}

/* The data plane of E2B's dialect. The header E2b-Sandbox-Id is optional, because the token says
 * which sandbox it is. */
static int by_access(struct dz_api *a, struct dz_http_req *r, struct dz_err *err)
{
    const char *token = dz_http_header(r, "X-Access-Token");
    const char *id = dz_http_header(r, "E2b-Sandbox-Id");
    char signer[DZ_E2B_TOKEN];
    struct session *s = NULL;
    if (!token && dz_http_route_of(r)->flags & DZ_API_E2B_FILES && !fails_often(a, r) &&
        dz_e2b_signed(a, r, signer)) /* which may look at many sandboxes */
        token = signer;
    int rc = token ? access_session(a, token, &s, err) : DZ_ENOENT;
    if (rc == 0 && id && strcmp(id, s->id) != 0 && strcmp(id, s->id + 4) != 0)
        rc = DZ_ENOENT;
    if (rc == DZ_ENOENT)
        return stranger(a, r, "Access-Token realm=\"doze\"",
                        "the header X-Access-Token must have the access token of the sandbox", err);
    return rc < 0 ? rc : admitted(a, r, s, err);
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
    if (dz_control_check_ready(a->control, err) < 0) { /* the secret is not even looked up */
        dz_http_set(r, "Retry-After", DZ_API_RETRY_S);
        return DZ_EBUSY;
    }
    if (flags & DZ_API_E2B_DATA)
        return by_access(a, r, err);
    if (flags & DZ_API_E2B_REST && by_key(a, r, &rc, err))
        return rc;
    if (header)
        rc = by_token(a, r, header, err);
    else if (uid < 0 || ((uid_t)uid != geteuid() && uid != 0))
        rc = stranger(
            a, r, "Bearer realm=\"doze\"",
            "a token is required: send the header Authorization: Bearer TOKEN (doze token create "
            "makes tokens)",
            err);
    if (rc == 0 && flags & DZ_API_OPERATOR && !dz_api_caller(r, a)->is_operator)
        rc = dz_fail(err, DZ_EDENIED, "only the operator of the daemon may do this");
    return rc;
}

const struct dz_control_caller *dz_api_caller(const struct dz_http_req *r, const struct dz_api *a)
{
    const struct session *s = dz_http_context(r);
    return s ? &s->who : &a->owner;
}

const char *dz_api_access(const struct dz_http_req *r)
{
    const struct session *s = dz_http_context(r);
    return s && s->access ? s->id : NULL;
}

struct dz_control_target dz_api_target(const struct dz_http_req *r, const struct dz_api *a,
                                       const char *param)
{
    return (struct dz_control_target){dz_api_caller(r, a), dz_http_param(r, param)};
}

void dz_api_admitted_over(const struct dz_http_req *r, struct dz_api *a)
{
    struct session *s = dz_http_context(r);
    if (!s)
        return;
    s->tenant->requests--;
    unref(a, s);
}

bool dz_api_account(struct dz_http_req *r, size_t *held, size_t now, bool must, void *api)
{
    const struct session *s = dz_http_context(r);
    const struct dz_api *a = api;
    if (s)
        return dz_control_account(a->control, s->tenant->name, held, now, must);
    *held = now; /* the daemon's owner has no limit */
    return true;
}

/* --- the end of a token -------------------------------------------------------------------- */

static bool has_id(const struct dz_http_req *r, void *id)
{
    const struct session *s = dz_http_context(r);
    return s && strcmp(s->id, id) == 0;
}

void dz_api_auth_revoked(struct dz_api *a, const char *id)
{
    char copy[DZ_ID_TEXT];
    struct session *found = NULL;
    DZ_MAP_FOREACH(it, &a->sessions) {
        struct session *s = it->value;
        if (strcmp(s->id, id) == 0)
            found = s;
    }
    if (found)
        forget(a, found);
    (void)snprintf(copy, sizeof copy, "%s", id);
    dz_http_cut(a->http, has_id, copy);
}

struct expiring {
    int64_t now, next;
};

static bool has_expired(const struct dz_http_req *r, void *arg)
{
    const struct session *s = dz_http_context(r);
    struct expiring *e = arg;
    if (!s || !s->expires)
        return false;
    if (s->expires > e->now && (!e->next || s->expires < e->next))
        e->next = s->expires;
    return s->expires <= e->now;
}

void dz_api_auth_expire(void *api)
{
    struct dz_api *a = api;
    struct expiring e = {.now = dz_clock_real_ms(), .next = 0};
    a->expiry_at = 0;
    dz_http_cut(a->http, has_expired, &e);
    expire_at(a, e.next);
}

void dz_api_auth_open(struct dz_api *a, size_t tenant_requests)
{
    a->tenant_requests = tenant_requests ? tenant_requests : TENANT_REQUESTS;
    dz_map_init(&a->sessions, SESSIONS_MAX + 1);
    dz_map_init(&a->tenants, 2 * DZ_HTTP_CONNECTIONS_MAX + SESSIONS_MAX);
    dz_map_init(&a->failures, ADDRESSES_MAX + 1);
}

void dz_api_auth_close(struct dz_api *a)
{
    forget_all(a);
    forget_failures(a);
    dz_map_release(&a->sessions);
    dz_map_release(&a->tenants);
    dz_map_release(&a->failures);
}

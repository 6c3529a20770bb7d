/* SPDX-License-Identifier: MIT
 *
 * api_key.c - Idempotency-Key: a POST that is sent twice is executed once and answered twice.
 *
 * A request with a key runs to its answer even if the client disconnects, because the client
 * may retry with the same key. Answers that a retry would not change (2xx, 400, 404, 410, 413)
 * are stored; after any other answer a retry executes the request again.
 */
#include "api/api_int.h"

#include "base/hash.h"

#include <string.h>

struct keyed {
    struct dz_control_own_caller own;
    uint64_t id; /* id of the request */
    bool answered;
    char sandbox_id[DZ_ID_TEXT]; /* id of the new sandbox; "": none is created */
    char key[DZ_CONTROL_IDEM_MAX + 1];
};

/* --- the key --------------------------------------------------------------------------- */

static bool is_key(const char *key)
{
    size_t n = strlen(key);
    for (size_t i = 0; i < n; i++)
        if (key[i] < 0x21 || key[i] > 0x7e)
            return false;
    return n > 0 && n <= DZ_CONTROL_IDEM_MAX;
}

static bool wrong(struct dz_http_req *r, const char *text)
{
    const struct dz_http_problem p = {
        .code = DZ_EINVAL, .message = text, .field = "Idempotency-Key"};
    dz_http_refuse(r, &p);
    return true;
}

/* Hash the path and the body: a key may be reused only for the same request. */
static int hash_of(const struct dz_http_req *r, char ret_hex[static DZ_SHA256_HEX],
                   struct dz_err *err)
{
    DZ_AUTO(dz_sha256_release) struct dz_sha256 h = {0};
    uint8_t digest[DZ_SHA256_BYTES];
    struct dz_str path = dz_http_path(r), body = dz_http_body(r);
    int rc = dz_sha256_init(&h, err);
    if (rc < 0)
        return rc;
    dz_sha256_update(&h, path.p, path.n);
    dz_sha256_update(&h, "\n", 1);
    dz_sha256_update(&h, body.p, body.n);
    rc = dz_sha256_final(&h, digest, err);
    if (rc == 0)
        (void)dz_sha256_hex(digest, ret_hex);
    return rc;
}

/* --- stored answers ------------------------------------------------------------------------- */

static void replay(struct dz_http_req *r, const struct dz_idempotency_row *row)
{
    const struct dz_http_problem unkept = {
        .code = DZ_EEXIST,
        .reason = "not_kept",
        .message = "this request was executed, but its answer was too large to keep",
        .field = "Idempotency-Key"};
    struct dz_buf text = DZ_BUF_INIT(DZ_REGISTRY_TEXT_MAX);
    dz_http_set(r, "Idempotent-Replayed", "true");
    if (row->http_status >= DZ_CONTROL_KEY_UNKEPT) {
        dz_http_refuse(r, &unkept);
        return;
    }
    dz_buf_adds(&text, row->response);
    dz_http_send(r, (int)row->http_status, row->response[0] ? DZ_HTTP_JSON : NULL, &text);
    dz_buf_release(&text);
}

static void answer_made(struct dz_api *a, struct dz_http_req *r, const char *sandbox_id)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    const struct dz_control_target target = {dz_api_caller(r, a), sandbox_id};
    struct dz_why why = {0};
    dz_http_set(r, "Idempotent-Replayed", "true");
    if (dz_control_get(a->control, target, &row, &why) < 0)
        dz_api_refuse(r, &why);
    else if (dz_http_route_of(r)->flags & DZ_API_E2B)
        dz_e2b_send_made(a, r, &row);
    else
        dz_api_send_sandbox(a, r, 201, &row);
}

/* --- before and after the handler ------------------------------------------------------------ */

static bool creates(const struct dz_http_route *route)
{
    return route->handle == dz_api_create || route->handle == dz_e2b_create;
}

static struct keyed *make_keyed(struct dz_api *a, struct dz_http_req *r, const char *key)
{
    struct keyed *k = dz_zalloc(sizeof *k);
    if (!k)
        return NULL;
    k->id = dz_http_id(r);
    (void)snprintf(k->key, sizeof k->key, "%s", key);
    dz_control_caller_keep(&k->own, dz_api_caller(r, a));
    if (creates(dz_http_route_of(r)) && dz_id_new("sbx", k->sandbox_id, NULL) < 0)
        k->sandbox_id[0] = '\0';
    if (dz_map_put64(&a->keyed, k->id, k, NULL) == 0)
        return k;
    dz_free(k);
    return NULL;
}

static void free_keyed(struct dz_api *a, struct keyed *k)
{
    (void)dz_map_remove64(&a->keyed, k->id);
    dz_free(k);
}

/* Start a request with a key. True: it has been answered. */
static bool begin(struct dz_api *a, struct dz_http_req *r, struct keyed *k)
{
    DZ_AUTO(dz_idempotency_row_release) struct dz_idempotency_row row = {0};
    char sha256[DZ_SHA256_HEX];
    struct dz_why why = {0};
    const struct dz_control_key key = {k->key, sha256, k->sandbox_id};
    int rc = hash_of(r, sha256, &why.err);
    if (rc == 0)
        rc = dz_control_key_begin(a->control, &k->own.who, &key, &row, &why);
    if (rc == DZ_CONTROL_KEY_NEW) {
        dz_http_keep(r);
        return false;
    }
    free_keyed(a, k);
    if (rc < 0)
        dz_api_refuse(r, &why);
    else if (rc == DZ_CONTROL_KEY_MADE)
        answer_made(a, r, row.sandbox_id);
    else
        replay(r, &row);
    return true;
}

bool dz_api_key_before(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    const char *key = dz_http_header(r, "Idempotency-Key");
    const struct dz_http_problem busy = {.code = DZ_ENOMEM, .message = "out of memory"};
    const struct dz_http_route *route = dz_http_route_of(r);
    if (!key || strcmp(dz_http_method(r), "POST") != 0 ||
        (route->flags & DZ_API_E2B && !creates(route)))
        return false;
    if (!is_key(key))
        return wrong(r, "Idempotency-Key: must be 1 to 255 visible ASCII characters");
    if (dz_http_accepts(r, "text/event-stream"))
        return wrong(r, "Idempotency-Key: not supported for a stream, which cannot be repeated");
    if (dz_http_route_of(r)->flags & DZ_API_SECRET)
        return wrong(r, "Idempotency-Key: not supported here, because the answer holds a secret, "
                        "which is not stored");
    struct keyed *k = make_keyed(a, r, key);
    if (k)
        return begin(a, r, k);
    dz_http_refuse(r, &busy);
    return true;
}

/* Would a retry get the same answer? */
static bool is_final(int status)
{
    return status < 300 || status == 400 || status == 404 || status == 410 || status == 413;
}

void dz_api_key_kept(struct dz_http_req *r, int status, struct dz_str body, void *api)
{
    struct dz_api *a = api;
    struct keyed *k = dz_map_get64(&a->keyed, dz_http_id(r));
    if (!k || k->answered)
        return;
    k->answered = true;
    dz_control_key_end(a->control, &k->own.who, k->key, is_final(status) ? status : 0, body);
}

void dz_api_key_over(struct dz_api *a, const struct dz_http_req *r)
{
    struct keyed *k = dz_map_get64(&a->keyed, dz_http_id(r));
    /* the request was not answered: its row stays, as if the daemon had died */
    if (k)
        free_keyed(a, k);
}

const char *dz_api_key_id(const struct dz_api *a, const struct dz_http_req *r)
{
    const struct keyed *k = dz_map_get64(&a->keyed, dz_http_id(r));
    return k && k->sandbox_id[0] ? k->sandbox_id : NULL;
}

void dz_api_key_close(struct dz_api *a)
{
    DZ_MAP_FOREACH(it, &a->keyed)
        dz_free(it->value);
    dz_map_release(&a->keyed);
}

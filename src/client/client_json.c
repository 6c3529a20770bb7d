/* SPDX-License-Identifier: MIT
 *
 * client_json.c - requests and answers in JSON, and the error envelope.
 */
#include "base/mem.h"
#include "client/client_int.h"

#include <stdio.h>
#include <string.h>

/* --- errors ------------------------------------------------------------------------------- */

/* The code of a wire name. If several codes share the name, the most general one. */
static int code_of(const char *wire, int status)
{
    static const int codes[] = {DZ_EBUSY, DZ_EIO, DZ_EUNAVAIL, DZ_EEXIST,
#define X(name, number, text, http, retry, words) DZ_E##name,
                                DZ_ERROR_MAP(X)
#undef X
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(codes); i++)
        if (strcmp(dz_err_wire(codes[i]), wire) == 0)
            return codes[i];
    for (size_t i = 0; i < DZ_ARRAY_LEN(codes); i++)
        if (dz_err_http(codes[i]) == status)
            return codes[i];
    return DZ_EIO;
}

static void copy(const json_t *from, const char *key, char *to, size_t size)
{
    const char *s = json_string_value(json_object_get(from, key));
    (void)snprintf(to, size, "%s", s ? s : "");
}

int dz_client_problem_of(struct dz_client *c, const json_t *envelope, int status,
                         struct dz_err *err)
{
    const json_t *e = json_object_get(envelope, "error");
    const char *message = json_string_value(json_object_get(e, "message"));
    struct dz_client_problem *p = &c->problem;
    p->status = status;
    copy(e, "code", p->code, sizeof p->code);
    copy(e, "reason", p->reason, sizeof p->reason);
    copy(e, "field", p->field, sizeof p->field);
    copy(e, "sandbox_id", p->sandbox_id, sizeof p->sandbox_id);
    copy(e, "request_id", p->request_id, sizeof p->request_id);
    if (!message)
        return dz_fail(err, code_of(p->code, status),
                       "%s answered with the status %d and no reason", c->url, status);
    return dz_fail(err, code_of(p->code, status), "%s", message);
}

const struct dz_client_problem *dz_client_problem(const struct dz_client *c)
{
    return &c->problem;
}

/* --- calls -------------------------------------------------------------------------------- */

int dz_client_call(struct dz_client *c, const struct dz_client_req *req, struct dz_buf *out,
                   struct dz_err *err)
{
    int status = dz_client_begin(c, req, err);
    int rc = status < 0 ? status : dz_client_read_all(c, out, err);
    return rc < 0 ? rc : status;
}

static int parse(const struct dz_client *c, const struct dz_buf *text, json_t **ret_answer,
                 struct dz_err *err)
{
    json_error_t why;
    *ret_answer = NULL;
    if (text->len == 0)
        return 0;
    json_t *j = json_loadb(text->p, text->len, JSON_ALLOW_NUL, &why);
    if (!j)
        return dz_fail(err, DZ_EIO, "%s sent an answer that is not valid JSON: %s", c->url,
                       why.text);
    *ret_answer = j;
    return 0;
}

int dz_client_json(struct dz_client *c, const char *method, const char *target, json_t *body,
                   json_t **ret_answer, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_CLIENT_BODY_MAX);
    struct dz_client_req req = {.method = method, .target = target, .timeout_ms = -1};
    char *dump = body ? json_dumps(body, JSON_COMPACT) : NULL;
    bool failed = body && !dump;
    json_t *answer = NULL;
    json_decref(body);
    if (failed)
        return dz_fail(err, DZ_ENOMEM, "write a request: out of memory");
    req.body = dz_str(dump);
    int status = dz_client_call(c, &req, &text, err);
    free(dump); /* jansson's */
    int rc = status < 0 ? status : parse(c, &text, &answer, err);
    if (rc < 0)
        return rc;
    if (ret_answer)
        *ret_answer = answer;
    else
        json_decref(answer);
    return status;
}

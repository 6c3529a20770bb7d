/* SPDX-License-Identifier: MIT
 *
 * api_registry.c - compare the registry with the files. Findings are collected in a buffer,
 * and the answer is sent when the comparison is complete.
 */
#include "api/api_int.h"

struct checking {
    struct dz_api *api;
    uint64_t id; /* id of the request */
    struct dz_sandboxes_look *look;
    struct dz_api_out o;
};

static void on_finding(void *arg, const struct dz_sandbox_finding *f)
{
    struct dz_json *j = &((struct checking *)arg)->o.json;
    dz_json_object(j);
    dz_json_put_strz(j, "what", f->what);
    dz_json_put_strz(j, "id", f->id[0] ? f->id : NULL);
    dz_json_put_strz(j, "text", f->text);
    dz_json_put_bool(j, "repaired", false);
    dz_json_end(j);
}

static void on_done(void *arg, uint64_t left, int rc, const struct dz_err *err)
{
    struct checking *c = arg;
    struct dz_http_req *r = dz_http_find(c->api->http, c->id);
    if (r)
        dz_http_on_gone(r, NULL, NULL);
    if (r && rc < 0)
        dz_http_fail(r, err);
    if (r && rc == 0) {
        dz_json_end(&c->o.json);
        dz_json_put_u64(&c->o.json, "left", left);
        dz_json_put_bool(&c->o.json, "ok", left == 0);
        dz_json_key(&c->o.json, "left_out"); /* SQLite's check would read all of the file, on the
                                                registry's own connection */
        dz_json_array(&c->o.json);
        dz_json_str(&c->o.json, DZ_STR("registry_file"));
        dz_json_end(&c->o.json);
        dz_api_send(r, 200, &c->o);
    } else
        dz_buf_release(&c->o.text);
    dz_free(c);
}

/* The client has left: stop the comparison. */
static void on_gone(void *arg)
{
    struct checking *c = arg;
    dz_sandboxes_look_drop(c->look);
    dz_buf_release(&c->o.text);
    dz_free(c);
}

void dz_api_registry_check(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    char nothing[1];
    if (!dz_api_body(r, nothing))
        return;
    struct checking *c = dz_zalloc(sizeof *c);
    const struct dz_sandboxes_look_opts o = {.fn = on_finding, .done = on_done, .arg = c};
    int rc = c ? dz_control_registry_check(a->control, &o, &c->look, &why)
               : dz_fail(&why.err, DZ_ENOMEM, "check the registry: out of memory");
    if (rc < 0) {
        dz_free(c);
        dz_api_refuse(r, &why);
        return;
    }
    c->api = a;
    c->id = dz_http_id(r);
    dz_api_list_begin(&c->o, "findings");
    dz_http_on_gone(r, on_gone, c);
}

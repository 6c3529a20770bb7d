/* SPDX-License-Identifier: MIT
 *
 * api_image.c - images: list, get, delete, collect unused ones, verify.
 */
#include "api/api_int.h"

#include <jansson.h>
#include <stddef.h>

static void put_names(struct dz_json *j, const char *tags)
{
    struct dz_str rest = dz_str(tags), tag;
    dz_json_key(j, "names");
    dz_json_array(j);
    while (*tags && dz_str_split(&rest, ' ', &tag))
        dz_json_str(j, tag);
    dz_json_end(j);
}

static void put_list(struct dz_json *j, const char *key, const char *const *list)
{
    dz_json_key(j, key);
    dz_json_array(j);
    for (; *list; list++)
        dz_json_str(j, dz_str(*list));
    dz_json_end(j);
}

static void put_brief(struct dz_json *j, const char *sha256, const char *tags,
                      const struct dz_image *image)
{
    char ref[DZ_IMAGE_REF];
    dz_json_put_strz(j, "id", dz_image_ref(sha256, ref));
    dz_json_put_strz(j, "sha256", sha256);
    put_names(j, tags);
    if (!image) {
        dz_json_put_null(j, "size_bytes");
        return;
    }
    dz_json_put_u64(j, "size_bytes", image->bytes + image->pack_bytes);
    dz_json_put_strz(j, "kind", dz_image_kind_text(image->kind));
    dz_json_put_u64(j, "programs", image->program_count);
    dz_json_put_u64(j, "packages", image->package_count);
}

static int list_one(void *arg, const char *sha256, const char *tags, const struct dz_image *image)
{
    struct dz_json *j = arg;
    dz_json_object(j);
    put_brief(j, sha256, tags, image);
    dz_json_end(j);
    return 0;
}

void dz_api_images(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_api_page page;
    struct dz_api_out o;
    if (dz_api_page(r, DZ_API_CURSOR_IMAGE, NULL, &page, &why) < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    struct dz_control_images_page images = {.after = page.cursor, .limit = page.limit};
    dz_api_list_begin(&o, "images");
    int rc = dz_control_images(a->control, &images, list_one, &o.json, &why);
    if (rc < 0) {
        dz_buf_release(&o.text);
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_list_send(r, &o, images.more ? images.last : NULL);
}

void dz_api_image(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_image_release) struct dz_image image = {0};
    DZ_AUTO(dz_buf_release) struct dz_buf tags = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_api_out o;
    char stop[DZ_IMAGE_SIGNAL_TEXT];
    if (dz_control_image(a->control, dz_http_param(r, "image"), &image, &tags, &why) < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_begin(&o);
    put_brief(&o.json, image.sha256, tags.p, &image);
    dz_json_put_strz(&o.json, "policy", image.policy);
    dz_json_put_u64(&o.json, "memory_bytes", image.memory_bytes);
    dz_json_put_strz(&o.json, "user", image.user);
    dz_json_put_strz(&o.json, "workdir", image.workdir);
    put_list(&o.json, "note", image.note);
    put_list(&o.json, "entry", image.entry);
    put_list(&o.json, "env", image.env);
    dz_json_put_strz(&o.json, "stop_signal", dz_image_signal_text(image.stop_signal, stop));
    put_list(&o.json, "ports", image.port);
    dz_image_put_programs(&o.json, "program_list", &image);
    dz_image_put_packages(&o.json, "package_list", &image, false);
    dz_api_send(r, 200, &o);
}

void dz_api_image_delete(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    dz_api_done(r, dz_control_image_delete(a->control, dz_http_param(r, "image"), &why), &why);
}

struct gc_request {
    int cache;
};
const struct dz_api_field dz_api_gc_fields[] = {
    {"cache", DZ_API_BOOL, offsetof(struct gc_request, cache), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

void dz_api_image_gc(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct dz_image_gc gc = {0};
    struct gc_request q = {0};
    struct dz_api_out o;
    if (!dz_api_body(r, &q))
        return;
    if (dz_control_image_gc(a->control, q.cache > 0, &gc, &why) < 0) {
        dz_api_refuse(r, &why);
        return;
    }
    dz_api_begin(&o);
    dz_json_put_u64(&o.json, "removed_files", gc.files);
    dz_json_put_u64(&o.json, "removed_bytes", gc.bytes);
    dz_api_send(r, 200, &o);
}

/* --- verify ------------------------------------------------------------------------------ */

struct verify_request {
    const char *image;
    int repair;
};
const struct dz_api_field dz_api_verify_fields[] = {
    {"image", DZ_API_STR, offsetof(struct verify_request, image), NULL, 0},
    {"repair", DZ_API_BOOL, offsetof(struct verify_request, repair), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

struct verifying {
    struct dz_api *api;
    uint64_t id;
    struct dz_control_verify *verify;
};

static void send_damage(struct dz_http_req *r, struct dz_str json)
{
    json_t *result = json_loadb(json.p, json.n, 0, NULL), *item;
    const json_t *damage = json_object_get(result, "damage");
    struct dz_why why = {0};
    struct dz_api_out o;
    size_t i;
    if (!json_is_array(damage)) {
        (void)dz_fail(&why.err, DZ_EIO, "verify images: the process ended without a result");
        dz_api_refuse(r, &why);
        json_decref(result);
        return;
    }
    dz_api_begin(&o);
    dz_json_key(&o.json, "damage");
    dz_json_array(&o.json);
    json_array_foreach(damage, i, item) dz_json_str(&o.json, dz_str(json_string_value(item)));
    dz_json_end(&o.json);
    dz_json_put_bool(&o.json, "ok", json_is_true(json_object_get(result, "ok")));
    dz_api_send(r, 200, &o);
    json_decref(result);
}

static void verified(void *arg, struct dz_str json, const struct dz_why *why)
{
    struct verifying *v = arg;
    struct dz_http_req *r = dz_http_find(v->api->http, v->id);
    dz_free(v);
    if (!r)
        return;
    dz_http_on_gone(r, NULL, NULL);
    if (why)
        dz_api_refuse(r, why);
    else
        send_damage(r, json);
}

/* The client has left: discard the result. */
static void verifying_gone(void *arg)
{
    struct verifying *v = arg;
    dz_control_image_verify_drop(v->verify);
    dz_free(v);
}

void dz_api_image_verify(struct dz_http_req *r, void *api)
{
    struct dz_api *a = api;
    struct dz_why why = {0};
    struct verify_request q = {0};
    if (!dz_api_body(r, &q))
        return;
    struct verifying *v = dz_zalloc(sizeof *v);
    const struct dz_control_verify_spec spec = {
        .image = q.image, .repair = q.repair > 0, .fn = verified, .arg = v};
    int rc = v ? 0 : dz_fail(&why.err, DZ_ENOMEM, "verify images: out of memory");
    if (rc == 0)
        rc = dz_control_image_verify(a->control, &spec, &v->verify, &why);
    if (rc < 0) {
        dz_free(v);
        dz_api_refuse(r, &why);
        return;
    }
    v->api = a;
    v->id = dz_http_id(r);
    dz_http_on_gone(r, verifying_gone, v);
}

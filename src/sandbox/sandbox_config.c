/* SPDX-License-Identifier: MIT
 *
 * sandbox_config.c - parse the columns config and metadata of a row, and build environments.
 *
 *     config {"image","memory_bytes","size","policy","durability","env":{},"auto_resume","ports",
 *               "connection_silence_ms","count_cpu","replica","replica_every_ms",
 *               "network":{},"expiry":{"max_age_ms","idle_ms","date_ms"},
 *               "volumes":[{"name","path","mode","subpath"}],"services":[{"name",...}]}
 *     metadata  {"labels":{},"metadata":{}}
 */
#include "sandbox/sandbox_config.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum {
    CONFIG_MAX = 1 << 18, /* largest size of either column, in bytes */
    KEY_MAX = 256,        /* longest name of a variable in an image, in bytes */
};
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

enum text {
    IMAGE,
    SIZE,
    POLICY,
    DURABILITY,
    ENV,
    LABELS,
    METADATA,
    REPLICA,
    VOLUMES,
    SERVICES,
    PORTS,
    NETWORK,
    TEXTS,
};

/* Collects the strings of a config in one block. at[i] is 1 plus the offset of string i; 0:
 * none. */
struct reader {
    struct dz_buf b;
    size_t at[TEXTS];
};

static void keep(struct reader *r, enum text i, const char *text)
{
    r->at[i] = text ? r->b.len + 1 : 0;
    if (text)
        dz_buf_add(&r->b, text, strlen(text) + 1);
}

static int to_buffer(const char *p, size_t n, void *b)
{
    dz_buf_add(b, p, n);
    return 0;
}

static void keep_object(struct reader *r, enum text i, const json_t *o)
{
    r->at[i] = r->b.len + 1;
    if (!o || json_dump_callback(o, to_buffer, &r->b, JSON_COMPACT) < 0)
        dz_buf_adds(&r->b, "{}");
    dz_buf_add(&r->b, "", 1);
}

static const char *kept(const struct reader *r, enum text i, const char *text)
{
    return r->at[i] ? text + r->at[i] - 1 : NULL;
}

static json_t *column(const char *text)
{
    json_error_t bad;
    json_t *o = text && text[0] ? json_loads(text, 0, &bad) : json_object();
    if (json_is_object(o))
        return o;
    json_decref(o);
    return NULL;
}

/* An integer member of an object; 0 if it is missing, wrong or negative. */
static int64_t count_of(const json_t *o, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(o, key));
    return n > 0 ? n : 0;
}

int dz_sandbox_config_of(const struct dz_instance *row, struct dz_sandbox_config *ret_config,
                         struct dz_err *err)
{
    struct reader r = {.b = DZ_BUF_INIT((size_t)2 * CONFIG_MAX)};
    json_t *c = column(row->config), *m = column(row->metadata);
    if (!c || !m) {
        json_decref(c);
        json_decref(m);
        return dz_fail(err, DZ_ECORRUPT, "the row of %s: its config is not a JSON object", row->id);
    }
    keep(&r, IMAGE, json_string_value(json_object_get(c, "image")));
    keep(&r, SIZE, json_string_value(json_object_get(c, "size")));
    keep(&r, POLICY, json_string_value(json_object_get(c, "policy")));
    keep(&r, DURABILITY, json_string_value(json_object_get(c, "durability")));
    keep(&r, REPLICA, json_string_value(json_object_get(c, "replica")));
    if (json_is_array(json_object_get(c, "volumes")))
        keep_object(&r, VOLUMES, json_object_get(c, "volumes"));
    if (json_array_size(json_object_get(c, "services")) > 0)
        keep_object(&r, SERVICES, json_object_get(c, "services"));
    keep_object(&r, ENV, json_object_get(c, "env"));
    keep_object(&r, LABELS, json_object_get(m, "labels"));
    keep_object(&r, METADATA, json_object_get(m, "metadata"));
    /* ports of a config that was copied from another sandbox are not open here */
    const json_t *ports = json_object_get(c, "ports");
    const char *of = json_string_value(json_object_get(ports, "of"));
    if (of && row->id && strcmp(of, row->id) == 0)
        keep_object(&r, PORTS, ports);
    const json_t *network = json_object_get(c, "network");
    if (network)
        keep_object(&r, NETWORK, network);
    const json_t *resume = json_object_get(c, "auto_resume");
    const json_t *expiry = json_object_get(c, "expiry");
    size_t n;
    char *text = dz_buf_detach(&r.b, &n);
    dz_buf_release(&r.b);
    if (text)
        *ret_config = (struct dz_sandbox_config){
            .text = text,
            .image = kept(&r, IMAGE, text),
            .size = kept(&r, SIZE, text),
            .policy = kept(&r, POLICY, text),
            .durability = kept(&r, DURABILITY, text),
            .env = kept(&r, ENV, text),
            .volumes = kept(&r, VOLUMES, text),
            .services = kept(&r, SERVICES, text),
            .labels = kept(&r, LABELS, text),
            .metadata = kept(&r, METADATA, text),
            .ports = kept(&r, PORTS, text),
            .memory_bytes = (uint64_t)count_of(c, "memory_bytes"),
            .disk_bytes = (uint64_t)count_of(c, "disk_bytes"),
            .silence_ms = count_of(c, "connection_silence_ms"),
            .replica = kept(&r, REPLICA, text),
            .network = kept(&r, NETWORK, text),
            .replica_every_ms = count_of(c, "replica_every_ms"),
            .expiry = {count_of(expiry, "max_age_ms"), count_of(expiry, "idle_ms"),
                       count_of(expiry, "date_ms")},
            .auto_resume = !json_is_false(resume),
            .ignore_cpu = json_is_false(json_object_get(c, "count_cpu")),
        };
    json_decref(c);
    json_decref(m);
    return text ? 0 : dz_fail(err, DZ_ENOMEM, "read the config of %s: out of memory", row->id);
}

void dz_sandbox_config_release(struct dz_sandbox_config *c)
{
    dz_free(c->text);
    *c = (struct dz_sandbox_config){0};
}

/* Write "K=V" for each member of the object into one block. Takes over the reference to o. */
static int flatten(json_t *o, char ***ret_list, struct dz_err *err)
{
    json_t *value;
    const char *key;
    size_t bytes = 0, n = 0;
    json_object_foreach(o, key, value) bytes += strlen(key) + json_string_length(value) + 2;
    char **list = dz_zalloc((json_object_size(o) + 1) * sizeof *list + bytes);
    if (!list) {
        json_decref(o);
        return dz_fail(err, DZ_ENOMEM, "read the environment: out of memory");
    }
    char *at = (char *)(list + json_object_size(o) + 1), *end = at + bytes;
    json_object_foreach(o, key, value)
    {
        int len = snprintf(at, (size_t)(end - at), "%s=%s", key,
                           json_is_string(value) ? json_string_value(value) : "");
        list[n++] = at;
        at += len + 1;
    }
    json_decref(o);
    *ret_list = list;
    return 0;
}

int dz_sandbox_env_list(const char *json, char ***ret_list, struct dz_err *err)
{
    json_t *o = column(json);
    if (!o)
        return dz_fail(err, DZ_ECORRUPT, "read the environment: not a JSON object");
    return flatten(o, ret_list, err);
}

int dz_sandbox_env_of(const char *json, const char *const *image_env, char ***ret_list,
                      struct dz_err *err)
{
    json_t *own = column(json), *o = json_object();
    int bad = !own || !o || json_object_set_new(o, "PATH", json_string(DEFAULT_PATH)) < 0 ||
              json_object_set_new(o, "HOSTNAME", json_string("doze")) < 0;
    for (size_t i = 0; image_env && image_env[i] && !bad; i++) {
        const char *line = image_env[i], *eq = strchr(line, '=');
        char key[KEY_MAX];
        if (!eq || (size_t)(eq - line) >= sizeof key)
            continue;
        memcpy(key, line, (size_t)(eq - line));
        key[eq - line] = '\0';
        bad = json_object_set_new(o, key, json_string(eq + 1)) < 0;
    }
    bad = bad || json_object_update(o, own) < 0;
    json_decref(own);
    if (!bad)
        return flatten(o, ret_list, err);
    json_decref(o);
    return dz_fail(err, DZ_ENOMEM, "make the environment: out of memory");
}

bool dz_sandbox_has_label(const struct dz_instance *row, const char *label)
{
    json_t *m = column(row->metadata);
    const char *eq = strchr(label, '=');
    char key[KEY_MAX + 1];
    (void)snprintf(key, sizeof key, "%.*s", eq ? (int)(eq - label) : KEY_MAX, label);
    const char *v = json_string_value(json_object_get(json_object_get(m, "labels"), key));
    bool has = v && (!eq || strcmp(eq + 1, v) == 0);
    json_decref(m);
    return has;
}

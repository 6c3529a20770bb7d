/* SPDX-License-Identifier: MIT
 *
 * control_service.c - services of sandboxes: what a client says of one, checked and stored in the
 * sandbox's config; and orders to start, stop and restart one. control_supervise.c runs them.
 */
#include "control/control_int.h"

#include "base/num.h"
#include "control/control_exec.h"
#include "control/control_sandbox.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
    READY_TIMEOUT_MS = 60 * 1000,
    READY_TIMEOUT_MAX_MS = 3600 * 1000,
    READY_INTERVAL_MS = 1000,
    READY_INTERVAL_MIN_MS = 100,
    LOG_TEXT_MAX = 255,
    GRACE_MS = 10 * 1000,
    GRACE_MAX_MS = 3600 * 1000,
    PATH_MAX_BYTES = 1024,
};

/* --- what a client gives ------------------------------------------------------------------ */

DZ_PRINTF(3, 4) static int wrong(struct dz_why *why, const char *field, const char *fmt, ...)
{
    char text[200];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return dz_why(why, DZ_EINVAL, field, "%s: %s", field, text);
}

/* A duration: a number of seconds, or a text such as "90s". */
static int read_duration(const json_t *v, const char *field, int64_t min_ms, int64_t max_ms,
                         int64_t *ret_ms, struct dz_why *why)
{
    int64_t ms = -1;
    struct dz_err err;
    if (json_is_number(v) && json_number_value(v) >= 0 &&
        json_number_value(v) <= (double)(max_ms / 1000))
        ms = (int64_t)(json_number_value(v) * 1000);
    else if (json_is_string(v) &&
             dz_duration_parse(dz_str(json_string_value(v)), 0, INT64_MAX / 2, &ms, &err) < 0)
        ms = -1;
    if (ms < min_ms || ms > max_ms)
        return wrong(why, field, "must be a duration such as \"10s\", from %lldms to %llds",
                     (long long)min_ms, (long long)(max_ms / 1000));
    *ret_ms = ms;
    return 0;
}

static int read_text(const json_t *v, const char *field, size_t max, struct dz_why *why)
{
    if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
        return wrong(why, field, "must be a string without NUL");
    if (json_string_length(v) == 0 || json_string_length(v) > max)
        return wrong(why, field, "must have 1 to %zu bytes", max);
    return 0;
}

static int read_port(const json_t *v, const char *field, struct dz_why *why)
{
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > 65535)
        return wrong(why, field, "must be a port from 1 to 65535");
    return 0;
}

static int read_words(const json_t *v, const char *field, struct dz_why *why)
{
    size_t i;
    const json_t *word;
    if (!json_is_array(v))
        return wrong(why, field, "must be an array of strings");
    json_array_foreach(v, i, word)
    {
        if (!json_is_string(word) || strlen(json_string_value(word)) != json_string_length(word))
            return wrong(why, field, "must be an array of strings without NUL");
        if (i == 0 && json_string_length(word) == 0)
            return wrong(why, field, "must not be empty");
    }
    return json_array_size(v) ? 0 : wrong(why, field, "must not be empty");
}

static int read_http(const json_t *v, json_t *ready, struct dz_why *why)
{
    const char *key;
    const json_t *item, *port = json_object_get(v, "port"), *path = json_object_get(v, "path"),
                        *status = json_object_get(v, "status");
    void *at;
    if (!json_is_object(v))
        return wrong(why, "ready.http", "must be an object with port, path and status");
    for (at = json_object_iter((json_t *)(uintptr_t)v); at;
         at = json_object_iter_next((json_t *)(uintptr_t)v, at)) {
        key = json_object_iter_key(at);
        item = json_object_iter_value(at);
        if (item != port && item != path && item != status)
            return wrong(why, "ready.http", "unknown field %.40s", key);
    }
    int rc = read_port(port, "ready.http.port", why);
    if (rc == 0 && path && !json_is_null(path))
        rc = read_text(path, "ready.http.path", PATH_MAX_BYTES, why);
    const char *text = json_is_string(path) ? json_string_value(path) : "/";
    for (const char *p = text; rc == 0 && *p; p++)
        if (text[0] != '/' || *p <= ' ' || *p == 0x7f)
            rc = wrong(why, "ready.http.path",
                       "must begin with / and have no spaces or control characters");
    if (rc == 0 && status && !json_is_null(status) &&
        (!json_is_integer(status) || json_integer_value(status) < 100 ||
         json_integer_value(status) > 599))
        rc = wrong(why, "ready.http.status", "must be a status from 100 to 599");
    if (rc < 0)
        return rc;
    json_int_t number = json_is_integer(status) ? json_integer_value(status) : 200;
    return json_object_set_new(ready, "http",
                               json_pack("{s:I,s:s,s:I}", "port", json_integer_value(port), "path",
                                         text, "status", number)) == 0
               ? 0
               : dz_why(why, DZ_ENOMEM, NULL, "service: out of memory");
}

/* The readiness of a service; an empty object: none. */
static int read_ready(const json_t *in, json_t *spec, struct dz_why *why)
{
    int64_t timeout = READY_TIMEOUT_MS, interval = READY_INTERVAL_MS;
    unsigned kinds = 0;
    int rc = 0;
    if (!json_is_object(in))
        return wrong(why, "ready", "must be an object");
    json_t *ready = json_object();
    for (void *at = json_object_iter((json_t *)(uintptr_t)in); at && rc == 0;
         at = json_object_iter_next((json_t *)(uintptr_t)in, at)) {
        const char *key = json_object_iter_key(at);
        json_t *v = json_object_iter_value(at);
        bool kept = true;
        if (json_is_null(v))
            continue;
        if (strcmp(key, "port") == 0) {
            rc = read_port(v, "ready.port", why);
        } else if (strcmp(key, "http") == 0) {
            rc = read_http(v, ready, why);
        } else if (strcmp(key, "cmd") == 0) {
            rc = read_words(v, "ready.cmd", why);
        } else if (strcmp(key, "shell") == 0) {
            rc = read_text(v, "ready.shell", DZ_CONTROL_SERVICE_BYTES, why);
        } else if (strcmp(key, "log") == 0) {
            rc = read_text(v, "ready.log", LOG_TEXT_MAX, why);
        } else if (strcmp(key, "timeout") == 0) {
            kept = false;
            rc = read_duration(v, "ready.timeout", READY_INTERVAL_MIN_MS, READY_TIMEOUT_MAX_MS,
                               &timeout, why);
        } else if (strcmp(key, "interval") == 0) {
            kept = false;
            rc = read_duration(v, "ready.interval", READY_INTERVAL_MIN_MS, READY_TIMEOUT_MAX_MS,
                               &interval, why);
        } else {
            rc = wrong(why, "ready", "unknown field %.40s", key);
        }
        kinds += kept;
        if (rc == 0 && kept && strcmp(key, "http") != 0 && json_object_set(ready, key, v) < 0)
            rc = dz_why(why, DZ_ENOMEM, NULL, "service: out of memory");
    }
    if (rc == 0 && kinds > 1)
        rc = wrong(why, "ready", "give only one of port, http, cmd, shell and log");
    if (rc == 0 && kinds == 0 && json_object_size(in) > 0)
        rc = wrong(why, "ready", "one of port, http, cmd, shell and log is required");
    if (rc == 0 && (json_object_set_new(ready, "timeout_ms", json_integer(timeout)) < 0 ||
                    json_object_set_new(ready, "interval_ms", json_integer(interval)) < 0 ||
                    json_object_set(spec, "ready", kinds ? ready : json_null()) < 0))
        rc = dz_why(why, DZ_ENOMEM, NULL, "service: out of memory");
    json_decref(ready);
    return rc;
}

static int read_needs(const json_t *v, struct dz_why *why)
{
    int rc = json_is_array(v) && json_array_size(v) == 0 ? 0 : read_words(v, "needs", why);
    if (rc == 0 && json_array_size(v) > DZ_SERVICES_MAX)
        rc = wrong(why, "needs", "must have at most %d names", DZ_SERVICES_MAX);
    return rc;
}

static int read_name(const json_t *v, struct dz_why *why)
{
    int rc = read_text(v, "name", DZ_SERVICE_NAME_MAX, why);
    if (rc == 0)
        rc = dz_control_check_name(json_string_value(v), why);
    if (rc == 0 && strchr(json_string_value(v), '.'))
        rc = wrong(why, "name", "the name of a service has no '.'");
    return rc;
}

static int signal_number(const char *name)
{
    if (strncmp(name, "SIG", 3) == 0)
        name += 3;
    for (int i = 1; i < 32; i++) {
        const char *known = sigabbrev_np(i);
        if (known && strcmp(known, name) == 0)
            return i;
    }
    return 0;
}

/* Read one member of a client's object into the stored one. */
static int read_member(const char *key, json_t *v, json_t *spec, struct dz_why *why)
{
    DZ_AUTO(dz_freep) char *env = NULL;
    int64_t ms = 0;
    int rc = 0;
    if (strcmp(key, "name") == 0) {
        rc = read_name(v, why);
    } else if (strcmp(key, "cmd") == 0) {
        rc = read_words(v, key, why);
        (void)json_object_set_new(spec, "shell", json_null());
    } else if (strcmp(key, "shell") == 0) {
        rc = read_text(v, key, DZ_CONTROL_SERVICE_BYTES, why);
        (void)json_object_set_new(spec, "cmd", json_null());
    } else if (strcmp(key, "cwd") == 0) {
        rc = read_text(v, key, PATH_MAX_BYTES, why);
        if (rc == 0 && json_string_value(v)[0] != '/')
            rc = wrong(why, key, "must be an absolute path");
    } else if (strcmp(key, "user") == 0) {
        rc = read_text(v, key, DZ_CONTROL_VALUE_MAX, why);
    } else if (strcmp(key, "env") == 0) {
        DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(DZ_REGISTRY_TEXT_MAX);
        char *text = json_is_object(v) ? json_dumps(v, JSON_COMPACT) : NULL;
        rc = text ? dz_control_check_env("env", text, why) : wrong(why, key, "must be an object");
        free(text); /* jansson's */
    } else if (strcmp(key, "needs") == 0) {
        rc = read_needs(v, why);
    } else if (strcmp(key, "restart") == 0) {
        const char *word = json_is_string(v) ? json_string_value(v) : "";
        if (strcmp(word, "no") != 0 && strcmp(word, "on-failure") != 0 &&
            strcmp(word, "always") != 0)
            rc = wrong(why, key, "must be no, on-failure or always");
    } else if (strcmp(key, "ready") == 0) {
        return read_ready(v, spec, why);
    } else if (strcmp(key, "stop_signal") == 0) {
        if (!json_is_string(v) || !signal_number(json_string_value(v)))
            rc = wrong(why, key, "must be the name of a signal, such as TERM or INT");
    } else if (strcmp(key, "grace") == 0) {
        rc = read_duration(v, key, 0, GRACE_MAX_MS, &ms, why);
        return rc < 0 ? rc
               : json_object_set_new(spec, "grace_ms", json_integer(ms)) == 0
                   ? 0
                   : dz_why(why, DZ_ENOMEM, NULL, "service: out of memory");
    } else if (strcmp(key, "enabled") == 0) {
        if (!json_is_boolean(v))
            rc = wrong(why, key, "must be true or false");
    } else {
        rc = dz_why(why, DZ_EINVAL, key, "%.40s: unknown field", key);
    }
    if (rc == 0 && json_object_set(spec, key, v) < 0)
        rc = dz_why(why, DZ_ENOMEM, NULL, "service: out of memory");
    return rc;
}

/* Read a client's object into the stored one. A member that is missing or null stays as it is. */
static int read_service(const json_t *in, json_t *spec, struct dz_why *why)
{
    if (!json_is_object(in))
        return wrong(why, "services", "each of them must be an object");
    const json_t *cmd = json_object_get(in, "cmd"), *shell = json_object_get(in, "shell");
    int rc = 0;
    if (cmd && shell && !json_is_null(cmd) && !json_is_null(shell))
        rc = wrong(why, "cmd", "exactly one of \"cmd\" and \"shell\" is required");
    for (void *at = json_object_iter((json_t *)(uintptr_t)in); at && rc == 0;
         at = json_object_iter_next((json_t *)(uintptr_t)in, at))
        if (!json_is_null(json_object_iter_value(at)))
            rc = read_member(json_object_iter_key(at), json_object_iter_value(at), spec, why);
    if (rc == 0 && !json_is_string(json_object_get(spec, "name")))
        rc = wrong(why, "name", "is required");
    if (rc == 0 && json_is_null(json_object_get(spec, "cmd")) &&
        json_is_null(json_object_get(spec, "shell")))
        rc = wrong(why, "cmd", "exactly one of \"cmd\" and \"shell\" is required");
    char *text = rc == 0 ? json_dumps(spec, JSON_COMPACT) : NULL;
    if (rc == 0 && (!text || strlen(text) > DZ_CONTROL_SERVICE_BYTES))
        rc = dz_why(why, DZ_ELIMIT, "cmd", "the service takes more than %d bytes",
                    DZ_CONTROL_SERVICE_BYTES);
    free(text); /* jansson's */
    return rc;
}

static json_t *new_spec(void)
{
    return json_pack("{s:n,s:n,s:n,s:n,s:n,s:{},s:[],s:s,s:n,s:n,s:i,s:b}", "name", "cmd", "shell",
                     "cwd", "user", "env", "needs", "restart", "on-failure", "ready", "stop_signal",
                     "grace_ms", GRACE_MS, "enabled", 1);
}

/* --- the list ----------------------------------------------------------------------------- */

static json_t *by_name(const json_t *list, const char *name, size_t *ret_index)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *spec = json_array_get(list, i);
        const char *is = json_string_value(json_object_get(spec, "name"));
        if (is && strcmp(is, name) == 0) {
            if (ret_index)
                *ret_index = i;
            return spec;
        }
    }
    return NULL;
}

void dz_service_settings(const json_t *spec, struct dz_service *s)
{
    const char *restart = json_string_value(json_object_get(spec, "restart"));
    const json_t *ready = json_object_get(spec, "ready");
    (void)snprintf(s->name, sizeof s->name, "%.*s", DZ_SERVICE_NAME_MAX,
                   json_string_value(json_object_get(spec, "name")));
    s->restart = restart && strcmp(restart, "always") == 0 ? DZ_SERVICE_RESTART_ALWAYS
                 : restart && strcmp(restart, "no") == 0   ? DZ_SERVICE_RESTART_NO
                                                           : DZ_SERVICE_RESTART_ON_FAILURE;
    s->checked = json_is_object(ready);
    s->ready_ms = json_integer_value(json_object_get(ready, "timeout_ms"));
    s->grace_ms = json_integer_value(json_object_get(spec, "grace_ms"));
}

void dz_services_link(struct dz_service_set *set, const json_t *list)
{
    size_t i, k;
    const json_t *spec, *need;
    json_array_foreach(list, i, spec)
    {
        size_t slot = dz_service_find(set, json_string_value(json_object_get(spec, "name")));
        if (slot == DZ_SERVICE_SLOTS)
            continue;
        set->of[slot].needs = 0;
        json_array_foreach(json_object_get(spec, "needs"), k, need)
        {
            size_t to = dz_service_find(set, json_string_value(need));
            if (to < DZ_SERVICE_SLOTS)
                set->of[slot].needs |= UINT32_C(1) << to;
        }
    }
}

/* Names are unique, needs exist and have no cycle. */
static int check_list(const json_t *list, struct dz_why *why)
{
    struct dz_service_set set = {0};
    size_t i, k, slot;
    const json_t *spec, *need;
    if (json_array_size(list) > DZ_SERVICES_MAX)
        return dz_why(why, DZ_EQUOTA, NULL, "a sandbox may have %d services", DZ_SERVICES_MAX);
    json_array_foreach(list, i, spec)
    {
        const char *name = json_string_value(json_object_get(spec, "name"));
        if (dz_service_find(&set, name) < DZ_SERVICE_SLOTS)
            return dz_why(why, DZ_EEXIST, "name", "there already is a service \"%s\"", name);
        dz_service_settings(spec, &set.of[dz_service_slot(&set)]);
    }
    json_array_foreach(list, i, spec) json_array_foreach(
        json_object_get(spec, "needs"), k,
        need) if (dz_service_find(&set, json_string_value(need)) ==
                  DZ_SERVICE_SLOTS) return wrong(why, "needs",
                                                 "%s needs %.40s, and there is no such service",
                                                 json_string_value(json_object_get(spec, "name")),
                                                 json_string_value(need));
    dz_services_link(&set, list);
    if (dz_services_cyclic(&set, &slot))
        return wrong(why, "needs", "%s needs itself, directly or by others", set.of[slot].name);
    return 0;
}

static int to_text(const json_t *list, char **ret_text, struct dz_why *why)
{
    char *text = json_dumps(list, JSON_COMPACT);
    *ret_text = text ? dz_str_dup(dz_str(text)) : NULL;
    free(text); /* jansson's */
    return *ret_text ? 0 : dz_why(why, DZ_ENOMEM, NULL, "services: out of memory");
}

int dz_services_make(const char *list_json, char **ret_text, struct dz_why *why)
{
    json_t *in = json_loads(list_json, JSON_ALLOW_NUL, NULL), *list = json_array(), *spec;
    const json_t *item;
    size_t i;
    int rc = !list               ? dz_why(why, DZ_ENOMEM, NULL, "services: out of memory")
             : json_is_array(in) ? 0
                                 : wrong(why, "services", "must be an array");
    if (rc == 0 && json_array_size(in) > DZ_SERVICES_MAX)
        rc = wrong(why, "services", "must have at most %d items", DZ_SERVICES_MAX);
    json_array_foreach(in, i, item)
    {
        if (rc < 0)
            break;
        spec = new_spec();
        rc = spec ? read_service(item, spec, why)
                  : dz_why(why, DZ_ENOMEM, NULL, "services: out of memory");
        if (json_array_append_new(list, spec) < 0 && rc == 0)
            rc = dz_why(why, DZ_ENOMEM, NULL, "services: out of memory");
    }
    if (rc == 0)
        rc = check_list(list, why);
    if (rc == 0)
        rc = to_text(list, ret_text, why);
    json_decref(in);
    json_decref(list);
    if (rc < 0 && why->field[0]) { /* all of it is in the field of the creation */
        (void)snprintf(why->field, sizeof why->field, "services");
        if (rc == DZ_EEXIST)
            rc = why->err.code = DZ_EINVAL;
    }
    return rc;
}

/* --- changes ------------------------------------------------------------------------------ */

/* A change of the list, made on the row as it is when it is written. */
struct edit {
    int (*change)(json_t *list, struct edit *x, struct dz_why *why);
    struct dz_why *why;
    const char *name;
    const json_t *in;
    bool enabled, changed;
};

static int no_service(const char *sandbox_id, const char *name, struct dz_why *why)
{
    char quoted[DZ_STR_QUOTED];
    return dz_why(why, DZ_ENOENT, NULL, "%s has no service %s", sandbox_id,
                  dz_str_quote(dz_str(name), quoted));
}

static int edit_row(void *arg, const struct dz_instance *row,
                    const struct dz_sandbox_config *config, char **ret_text, struct dz_err *err)
{
    struct edit *x = arg;
    json_t *list = config->services ? json_loads(config->services, 0, NULL) : json_array();
    int rc = list ? 0 : dz_why(x->why, DZ_ENOMEM, NULL, "services: out of memory");
    dz_free(*ret_text); /* of an earlier attempt */
    *ret_text = NULL;
    if (rc == 0 && x->name && !by_name(list, x->name, NULL))
        rc = no_service(row->id, x->name, x->why);
    if (rc == 0)
        rc = x->change(list, x, x->why);
    if (rc == 0)
        rc = check_list(list, x->why);
    if (rc == 0)
        rc = to_text(list, ret_text, x->why);
    json_decref(list);
    if (rc < 0)
        *err = x->why->err;
    return rc;
}

static int edit(struct dz_control *e, struct dz_control_target target, struct edit *x,
                const char *event, struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    DZ_AUTO(dz_sandbox_config_release) struct dz_sandbox_config c = {0};
    struct dz_why of_edit = {0};
    x->why = &of_edit;
    const struct dz_control_patch p = {
        .edit_services = edit_row, .edit_arg = x, .idle_ms = DZ_IDLE_INHERIT};
    int rc = dz_control_change(e, target, &p, &row, why);
    if (rc < 0 && of_edit.err.code < 0)
        *why = of_edit;
    if (rc == 0)
        rc = dz_sandbox_config_of(&row, &c, &why->err);
    if (rc < 0)
        return why->err.code;
    const char *name = x->name ? x->name : json_string_value(json_object_get(x->in, "name"));
    dz_control_note(e, &row, event, name);
    dz_services_changed(e, row.id, c.services);
    return 0;
}

static int change_add(json_t *list, struct edit *x, struct dz_why *why)
{
    json_t *spec = new_spec();
    int rc = spec ? read_service(x->in, spec, why) : dz_why(why, DZ_ENOMEM, NULL, "out of memory");
    if (json_array_append_new(list, spec) < 0 && rc == 0)
        rc = dz_why(why, DZ_ENOMEM, NULL, "services: out of memory");
    return rc;
}

static int change_one(json_t *list, struct edit *x, struct dz_why *why)
{
    const json_t *name = json_object_get(x->in, "name");
    if (name && !json_is_null(name) &&
        (!json_is_string(name) || strcmp(json_string_value(name), x->name) != 0))
        return wrong(why, "name", "a service cannot be renamed");
    return read_service(x->in, by_name(list, x->name, NULL), why);
}

static int change_remove(json_t *list, struct edit *x, struct dz_why *why)
{
    size_t at = 0, i, k;
    const json_t *spec, *need;
    (void)by_name(list, x->name, &at);
    (void)json_array_remove(list, at);
    json_array_foreach(list, i, spec) json_array_foreach(
        json_object_get(spec, "needs"), k,
        need) if (strcmp(json_string_value(need), x->name) ==
                  0) return dz_why(why, DZ_ESTATE, NULL, "the service %s needs %s",
                                   json_string_value(json_object_get(spec, "name")), x->name);
    return 0;
}

static int change_enabled(json_t *list, struct edit *x, struct dz_why *why)
{
    return json_object_set_new(by_name(list, x->name, NULL), "enabled", json_boolean(x->enabled)) ==
                   0
               ? 0
               : dz_why(why, DZ_ENOMEM, NULL, "services: out of memory");
}

static int with_object(struct dz_control *e, struct dz_control_target target, struct edit *x,
                       const char *json, const char *event, struct dz_why *why)
{
    json_t *in = json_loads(json[0] ? json : "{}", JSON_ALLOW_NUL, NULL);
    x->in = in;
    int rc = json_is_object(in) ? edit(e, target, x, event, why)
                                : dz_why(why, DZ_EINVAL, NULL, "the body must be a JSON object");
    json_decref(in);
    return rc;
}

int dz_control_service_add(struct dz_control *e, struct dz_control_target target, const char *json,
                           struct dz_why *why)
{
    struct edit x = {.change = change_add};
    return with_object(e, target, &x, json, "service_added", why);
}

int dz_control_service_change(struct dz_control *e, struct dz_control_target target,
                              const char *name, const char *json, struct dz_why *why)
{
    struct edit x = {.change = change_one, .name = name};
    return with_object(e, target, &x, json, "service_changed", why);
}

int dz_control_service_remove(struct dz_control *e, struct dz_control_target target,
                              const char *name, struct dz_why *why)
{
    struct edit x = {.change = change_remove, .name = name};
    return edit(e, target, &x, "service_removed", why);
}

/* --- reading ------------------------------------------------------------------------------ */

void dz_control_services_release(struct dz_control_services *all)
{
    json_decref(all->list);
    *all = (struct dz_control_services){0};
}

int dz_control_services(struct dz_control *e, struct dz_control_target target,
                        struct dz_control_services *ret_all, struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    DZ_AUTO(dz_sandbox_config_release) struct dz_sandbox_config c = {0};
    int rc = dz_control_row(e, target, &row, why);
    if (rc == 0)
        rc = dz_sandbox_config_of(&row, &c, &why->err);
    if (rc < 0)
        return rc;
    *ret_all = (struct dz_control_services){.list = c.services ? json_loads(c.services, 0, NULL)
                                                               : json_array()};
    if (!ret_all->list)
        return dz_why(why, DZ_ENOMEM, NULL, "services: out of memory");
    (void)snprintf(ret_all->sandbox_id, sizeof ret_all->sandbox_id, "%s", row.id);
    for (size_t i = 0; i < json_array_size(ret_all->list) && i < DZ_SERVICES_MAX; i++) {
        struct dz_control_service *s = &ret_all->of[ret_all->count++];
        s->spec = json_array_get(ret_all->list, i);
        dz_services_state(e, &row, s);
    }
    return 0;
}

int dz_control_service_find(const struct dz_control_services *all, const char *name,
                            const struct dz_control_service **ret_service, struct dz_why *why)
{
    size_t i = 0;
    if (!by_name(all->list, name, &i) || i >= all->count)
        return no_service(all->sandbox_id, name, why);
    *ret_service = &all->of[i];
    return 0;
}

/* --- orders ------------------------------------------------------------------------------- */

struct dz_control_service_call {
    struct dz_control *e;
    struct dz_acquire *acquire;
    enum dz_control_service_act act;
    dz_sandbox_done_fn *done;
    void *arg;
    char id[DZ_ID_TEXT], name[DZ_SERVICE_NAME_MAX + 1];
};

static void on_awake(void *arg, struct dz_sandbox *s, const struct dz_sandbox_result *result)
{
    struct dz_control_service_call call = *(struct dz_control_service_call *)arg;
    dz_free(arg);
    (void)s;
    if (result->code == 0)
        dz_services_order(call.e, call.id, call.name, call.act);
    call.done(call.arg, result);
}

int dz_control_service_act(struct dz_control *e, struct dz_control_target target,
                           const struct dz_control_service_order *order,
                           struct dz_control_service_call **ret_call, struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    DZ_AUTO(dz_control_services_release) struct dz_control_services all = {0};
    const struct dz_control_service *service;
    int rc = dz_control_row(e, target, &row, why);
    if (rc == 0)
        rc = dz_control_services(e, target, &all, why);
    if (rc == 0)
        rc = dz_control_service_find(&all, order->name, &service, why);
    if (rc == 0)
        rc = dz_sandbox_may_wake(e->sandboxes, &row, why);
    if (rc < 0)
        return rc;
    struct edit x = {.change = change_enabled,
                     .name = order->name,
                     .enabled = order->act != DZ_CONTROL_SERVICE_STOP};
    static const char *const events[] = {"service_started", "service_stopped", "service_restarted"};
    rc = edit(e, target, &x, events[order->act], why);
    struct dz_control_service_call *call = rc == 0 ? dz_zalloc(sizeof *call) : NULL;
    if (rc < 0)
        return rc;
    if (!call)
        return dz_why(why, DZ_ENOMEM, NULL, "service: out of memory");
    *call = (struct dz_control_service_call){
        .e = e, .act = order->act, .done = order->done, .arg = order->arg};
    (void)snprintf(call->id, sizeof call->id, "%s", row.id);
    (void)snprintf(call->name, sizeof call->name, "%s", order->name);
    dz_sandbox_touch(e->sandboxes, row.id, DZ_ACTIVITY_REQUEST);
    rc = dz_sandbox_acquire(
        e->sandboxes, &row,
        &(struct dz_acquire_opts){.need = DZ_NEED_MACHINE, .fn = on_awake, .arg = call},
        &call->acquire, why);
    if (rc < 0)
        dz_free(call);
    else if (ret_call)
        *ret_call = call;
    return rc;
}

void dz_control_service_cancel(struct dz_control_service_call *call)
{
    if (!call)
        return;
    dz_acquire_cancel(call->acquire);
    dz_free(call);
}

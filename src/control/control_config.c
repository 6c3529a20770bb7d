/* SPDX-License-Identifier: MIT
 *
 * control_config.c - the settings of a sandbox that a client gives: check them, write them into the
 * registry's columns config and metadata, and read those.
 *
 *     config {"image","memory_bytes","size","policy","durability","env":{},"auto_resume","ports",
 *               "connection_silence_ms","count_cpu","replica","replica_every_ms",
 *               "expiry":{"max_age_ms","idle_ms","date_ms"}}
 *     metadata  {"labels":{},"metadata":{}}
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/control_int.h"
#include "kernel/kernel.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    CONFIG_MAX = 1 << 18, /* bytes of either column */
};
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static const struct {
    const char *name;
    uint64_t memory_bytes;
} sizes[] = {
    {"shared-cpu-1x", UINT64_C(256) << 20}, {"shared-cpu-2x", UINT64_C(512) << 20},
    {"shared-cpu-4x", UINT64_C(1) << 30},   {"shared-cpu-8x", UINT64_C(2) << 30},
    {"performance-1x", UINT64_C(2) << 30},  {"performance-2x", UINT64_C(4) << 30},
};

/* --- checking --------------------------------------------------------------------------- */

static bool is_word(struct dz_str s, const char *more)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!plain && !(c && strchr(more, c)))
            return false;
    }
    return s.n > 0;
}

int dz_control_check_name(const char *name, struct dz_why *why)
{
    struct dz_str s = dz_str(name);
    char quoted[DZ_STR_QUOTED];
    if (s.n > DZ_CONTROL_NAME_MAX || !is_word(s, "-_.") || !is_word(dz_str_sub(s, 0, 1), ""))
        return dz_why(
            why, DZ_EINVAL, "name",
            "name: %s is invalid: a name has 1 to %d letters, digits, '-', '_' or '.' and "
            "begins with a letter or digit",
            dz_str_quote(s, quoted), DZ_CONTROL_NAME_MAX);
    if (dz_str_starts(s, DZ_STR("sbx_")) || dz_str_ends(s, DZ_STR(".doze")))
        return dz_why(why, DZ_EINVAL, "name",
                      "name: %s is invalid: only ids begin with sbx_, and only files end in .doze",
                      dz_str_quote(s, quoted));
    return 0;
}

static json_t *read_object(const char *field, const char *json, size_t max, struct dz_why *why)
{
    json_error_t bad;
    size_t n = strlen(json);
    if (n > max) {
        (void)dz_why(why, DZ_ELIMIT, field, "%s: must be at most %zu bytes", field, max);
        return NULL;
    }
    json_t *o = json_loadb(json, n, JSON_REJECT_DUPLICATES, &bad);
    if (!json_is_object(o)) {
        (void)dz_why(why, DZ_EINVAL, field, "%s: must be an object", field);
        json_decref(o);
        return NULL;
    }
    return o;
}

/* An object of strings in which every pair passes `check`. */
static int check_object(const char *field, const char *json, size_t max_count,
                        int (*check)(const char *field, struct dz_str k, struct dz_str v,
                                     struct dz_why *why),
                        struct dz_why *why)
{
    const char *key;
    json_t *value, *o = read_object(field, json, DZ_CONTROL_ENV_BYTES, why);
    int rc = o ? 0 : why->err.code;
    if (o && json_object_size(o) > max_count)
        rc = dz_why(why, DZ_ELIMIT, field, "%s: must have at most %zu entries", field, max_count);
    if (rc == 0)
        json_object_foreach(o, key, value)
        {
            if (!json_is_string(value))
                rc = dz_why(why, DZ_EINVAL, field, "%s.%.40s: must be a string", field, key);
            else
                rc = check(field, dz_str(key),
                           dz_str_n(json_string_value(value), json_string_length(value)), why);
            if (rc < 0)
                break;
        }
    json_decref(o);
    return rc;
}

static int check_label(const char *field, struct dz_str k, struct dz_str v, struct dz_why *why)
{
    char quoted[DZ_STR_QUOTED];
    if (k.n > DZ_CONTROL_KEY_MAX || !is_word(k, "-_./"))
        return dz_why(why, DZ_EINVAL, field,
                      "%s: the key %s is invalid: a key has 1 to %d letters, digits, '-', '_', '.' "
                      "or '/'",
                      field, dz_str_quote(k, quoted), DZ_CONTROL_KEY_MAX);
    if (v.n > DZ_CONTROL_VALUE_MAX)
        return dz_why(why, DZ_ELIMIT, field, "%s.%.*s: must be at most %d bytes", field,
                      DZ_STR_ARG(k), DZ_CONTROL_VALUE_MAX);
    return 0;
}

static int check_variable(const char *field, struct dz_str k, struct dz_str v, struct dz_why *why)
{
    char quoted[DZ_STR_QUOTED];
    if (k.n == 0 || dz_str_find_char(k, '=') != DZ_STR_NONE || memchr(v.p, 0, v.n))
        return dz_why(why, DZ_EINVAL, field,
                      "%s: %s is invalid: a variable needs a name without '=' and a value without "
                      "NUL",
                      field, dz_str_quote(k, quoted));
    return 0;
}

int dz_control_check_env(const char *field, const char *json, struct dz_why *why)
{
    return check_object(field, json, DZ_CONTROL_ENV_MAX, check_variable, why);
}

static int check_metadata(const char *json, struct dz_why *why)
{
    json_t *o = read_object("metadata", json, DZ_CONTROL_METADATA_MAX, why);
    json_decref(o);
    return o ? 0 : why->err.code;
}

/* The value must be one of some words; NULL is fine. */
static int check_word(const char *field, const char *given, const char *const *words,
                      const char *list, struct dz_why *why)
{
    char quoted[DZ_STR_QUOTED];
    if (!given)
        return 0;
    for (; *words; words++)
        if (strcmp(*words, given) == 0)
            return 0;
    return dz_why(why, DZ_EINVAL, field, "%s: must be %s, not %s", field, list,
                  dz_str_quote(dz_str(given), quoted));
}

static int check_words(const struct dz_control_spec *s, struct dz_why *why)
{
    static const char *const keeps[] = {"memory", "files", NULL};
    static const char *const modes[] = {"activity", "connections", "never", NULL};
    static const char *const kinds[] = {"wasm", "linux", NULL};
    static const char *const regions[] = {"local", NULL};
    static const char *const durabilities[] = {"normal", "strict", NULL};
    char quoted[DZ_STR_QUOTED];
    int rc = check_word("keep", s->keep, keeps, "memory or files", why);
    if (rc == 0)
        rc = check_word("idle.mode", s->idle_mode, modes, "activity, connections or never", why);
    if (rc == 0)
        rc = check_word("region", s->region, regions, "local, the region of this host", why);
    if (rc == 0)
        rc = check_word("kind", s->kind, kinds, "must be wasm or linux", why);
    if (rc == 0)
        rc = check_word("durability", s->durability, durabilities, "normal or strict", why);
    if (rc == 0 && s->policy && !dz_policy_find(s->policy))
        rc = dz_why(why, DZ_EINVAL, "policy",
                    "policy: must be minimal, network, posix or compute, not %s",
                    dz_str_quote(dz_str(s->policy), quoted));
    return rc;
}

static int check_memory(const struct dz_control_spec *s, uint64_t *ret_memory, struct dz_why *why)
{
    char quoted[DZ_STR_QUOTED];
    uint64_t memory = s->memory_bytes;
    size_t i = 0;
    if (memory && (memory < DZ_CONTROL_MEMORY_MIN || memory > DZ_CONTROL_MEMORY_MAX))
        return dz_why(why, DZ_EINVAL, "memory", "memory: must be from 1MiB to 64GiB");
    if (s->disk_bytes &&
        (s->disk_bytes < DZ_CONTROL_DISK_MIN || s->disk_bytes > DZ_CONTROL_DISK_MAX))
        return dz_why(why, DZ_EINVAL, "disk", "disk: must be from 1MiB to 1PiB");
    while (s->size && i < DZ_ARRAY_LEN(sizes) && strcmp(sizes[i].name, s->size) != 0)
        i++;
    if (i == DZ_ARRAY_LEN(sizes))
        return dz_why(why, DZ_EINVAL, "size",
                      "size: must be shared-cpu-1x, -2x, -4x or -8x, performance-1x or -2x, not %s",
                      dz_str_quote(dz_str(s->size), quoted));
    *ret_memory = memory ? memory : s->size ? sizes[i].memory_bytes : 0;
    return 0;
}

static int check_expiry(const struct dz_expiry *e, struct dz_why *why)
{
    const struct {
        const char *field;
        int64_t ms;
    } terms[] = {{"expiry.ttl_max_age", e->max_age_ms}, {"expiry.ttl_idle", e->idle_ms}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(terms); i++)
        if (terms[i].ms &&
            (terms[i].ms < DZ_CONTROL_EXPIRY_MIN_MS || terms[i].ms > DZ_CONTROL_EXPIRY_MAX_MS))
            return dz_why(why, DZ_EINVAL, terms[i].field, "%s: must be from 1s to 365d",
                          terms[i].field);
    if (e->date && e->date <= dz_clock_real_ms())
        return dz_why(why, DZ_EINVAL, "expiry.date", "expiry.date: must be in the future");
    return 0;
}

static int check_times(const struct dz_control_spec *s, struct dz_why *why)
{
    static const char *const actions[] = {"destroy", "pause", NULL};
    bool pauses = s->timeout_action && strcmp(s->timeout_action, "pause") == 0;
    if (s->idle_ms != DZ_IDLE_INHERIT && s->idle_ms != DZ_IDLE_OFF &&
        (s->idle_ms < DZ_CONTROL_IDLE_MIN_MS || s->idle_ms > DZ_CONTROL_IDLE_MAX_MS))
        return dz_why(why, DZ_EINVAL, "idle.timeout", "idle.timeout: must be from 100ms to 365d");
    if (s->silence_ms &&
        (s->silence_ms < DZ_CONTROL_IDLE_MIN_MS || s->silence_ms > DZ_CONTROL_IDLE_MAX_MS))
        return dz_why(why, DZ_EINVAL, "idle.connection_silence",
                      "idle.connection_silence: must be from 100ms to 365d");
    if (s->timeout_ms != DZ_CONTROL_NO_TIMEOUT &&
        (s->timeout_ms < DZ_CONTROL_TIMEOUT_MIN_MS || s->timeout_ms > DZ_CONTROL_TIMEOUT_MAX_MS))
        return dz_why(why, DZ_EINVAL, "timeout.after", "timeout.after: must be from 100ms to 365d");
    if (s->timeout_action && s->timeout_ms == DZ_CONTROL_NO_TIMEOUT)
        return dz_why(why, DZ_EINVAL, "timeout.after",
                      "timeout.after: is required with timeout.action %.16s", s->timeout_action);
    if (s->ephemeral && pauses)
        return dz_why(why, DZ_EINVAL, "timeout.action",
                      "timeout.action: a sandbox that is not persistent cannot be paused");
    if (s->ephemeral && s->keep && strcmp(s->keep, "files") == 0)
        return dz_why(why, DZ_EINVAL, "keep",
                      "keep: a sandbox that is not persistent is never suspended, so it cannot "
                      "keep its files");
    return check_word("timeout.action", s->timeout_action, actions, "destroy or pause", why);
}

int dz_control_check_spec(const struct dz_control_spec *s, uint64_t *ret_memory, struct dz_why *why)
{
    int rc = s->name ? dz_control_check_name(s->name, why) : 0;
    if (rc == 0 && s->image && s->snapshot)
        rc = dz_why(why, DZ_EINVAL, "snapshot", "give either an image or a snapshot, not both");
    if (rc == 0)
        rc = check_words(s, why);
    if (rc == 0)
        rc = check_memory(s, ret_memory, why);
    if (rc == 0)
        rc = check_times(s, why);
    if (rc == 0)
        rc = check_expiry(&s->expiry, why);
    if (rc == 0 && s->env_json)
        rc = dz_control_check_env("env", s->env_json, why);
    if (rc == 0 && s->labels_json)
        rc = check_object("labels", s->labels_json, DZ_CONTROL_LABELS_MAX, check_label, why);
    if (rc == 0 && s->metadata_json)
        rc = check_metadata(s->metadata_json, why);
    if (rc == 0 && s->open_ports)
        rc = dz_control_ports_make(s->open_ports, "", NULL, why);
    return rc;
}

/* --- writing ---------------------------------------------------------------------------- */

static void put_object(struct dz_json *j, const char *key, const char *json)
{
    dz_json_key(j, key);
    dz_json_raw(j, json && json[0] ? dz_str(json) : DZ_STR("{}"));
}

static void put_count(struct dz_json *j, const char *key, int64_t n)
{
    if (n)
        dz_json_put_i64(j, key, n);
}

static void put_expiry(struct dz_json *j, const struct dz_expiry *e)
{
    if (!dz_expiry_is_set(e))
        return;
    dz_json_key(j, "expiry");
    dz_json_object(j);
    put_count(j, "max_age_ms", e->max_age_ms);
    put_count(j, "idle_ms", e->idle_ms);
    put_count(j, "date_ms", e->date);
    dz_json_end(j);
}

static char *finish(struct dz_json *j, struct dz_buf *b)
{
    size_t n;
    char *text = dz_json_finish(j) < 0 ? NULL : dz_buf_detach(b, &n);
    dz_buf_release(b);
    return text;
}

char *dz_control_config_text(const struct dz_control_spec *s, const char *image,
                             uint64_t memory_bytes)
{
    struct dz_buf b = DZ_BUF_INIT(CONFIG_MAX);
    struct dz_json j;
    dz_json_init(&j, &b, false);
    dz_json_object(&j);
    dz_json_put_strz(&j, "image", image);
    dz_json_put_u64(&j, "memory_bytes", memory_bytes);
    if (s->disk_bytes)
        dz_json_put_u64(&j, "disk_bytes", s->disk_bytes);
    dz_json_put_strz(&j, "size", s->size);
    dz_json_put_strz(&j, "policy", s->policy);
    dz_json_put_strz(&j, "durability", s->durability ? s->durability : "normal");
    dz_json_put_bool(&j, "auto_resume", !s->no_resume);
    put_count(&j, "connection_silence_ms", s->silence_ms);
    if (s->ignore_cpu)
        dz_json_put_bool(&j, "count_cpu", false);
    if (s->replica && strcmp(s->replica, DZ_CONTROL_REPLICA_DEFAULT) != 0)
        dz_json_put_strz(&j, "replica", s->replica);
    put_count(&j, "replica_every_ms", s->replica_every_ms);
    put_expiry(&j, &s->expiry);
    if (s->volumes_json) {
        dz_json_key(&j, "volumes");
        dz_json_raw(&j, dz_str(s->volumes_json));
    }
    if (s->services) {
        dz_json_key(&j, "services");
        dz_json_raw(&j, dz_str(s->services));
    }
    if (s->ports)
        put_object(&j, "ports", s->ports);
    if (s->network_json)
        put_object(&j, "network", s->network_json);
    put_object(&j, "env", s->env_json);
    dz_json_end(&j);
    return finish(&j, &b);
}

char *dz_control_metadata_text(const char *labels_json, const char *metadata_json)
{
    struct dz_buf b = DZ_BUF_INIT(CONFIG_MAX);
    struct dz_json j;
    dz_json_init(&j, &b, false);
    dz_json_object(&j);
    put_object(&j, "labels", labels_json);
    put_object(&j, "metadata", metadata_json);
    dz_json_end(&j);
    return finish(&j, &b);
}

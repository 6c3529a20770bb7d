/* SPDX-License-Identifier: MIT
 *
 * api_json.c - reads bodies with jansson, by tables.
 */
#include "api/api_json.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum {
    PATH_TEXT = 64, /* longest path of a field, such as "idle.timeout" */
    FIELDS_MAX = 64,
};
#define DURATION_MAX_MS ((int64_t)366 * 24 * 3600 * 1000)

struct reading {
    struct dz_arena *arena;
    struct dz_why *why;
    char path[PATH_TEXT]; /* path of the parents, such as "idle." */
    void *to;
};

DZ_COLD DZ_PRINTF(4, 5) static int refuse(struct reading *r, int code, const char *name,
                                          const char *fmt, ...)
{
    va_list args;
    char text[160], field[PATH_TEXT];
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)snprintf(field, sizeof field, "%.31s%.31s", r->path, name);
    (void)snprintf(r->why->field, sizeof r->why->field, "%.63s", field);
    return dz_fail(&r->why->err, code, "%s: %s", field, text);
}

static int read_fields(struct reading *r, const json_t *o, const struct dz_api_field *fields);

/* --- values ------------------------------------------------------------------------------- */

static int read_text(struct reading *r, const char *name, const json_t *v, const char **to)
{
    struct dz_str s = dz_arena_str(
        r->arena, dz_str_n(json_string_value(v), json_is_string(v) ? json_string_length(v) : 0));
    if (!json_is_string(v))
        return refuse(r, DZ_EINVAL, name, "must be a string");
    if (!s.p)
        return refuse(r, DZ_ENOMEM, name, "out of memory");
    if (memchr(s.p, 0, s.n))
        return refuse(r, DZ_EINVAL, name, "must not contain a NUL");
    assert(to);
    *to = s.p;
    return 0;
}

/* Read a number, or a string that parse accepts. */
static int read_size(struct reading *r, const char *name, const json_t *v, uint64_t *to)
{
    struct dz_err err;
    if (json_is_integer(v) && json_integer_value(v) >= 0)
        *to = (uint64_t)json_integer_value(v);
    else if (!json_is_string(v) ||
             dz_size_parse(dz_str(json_string_value(v)), 0, UINT64_MAX / 2, to, &err) < 0)
        return refuse(r, DZ_EINVAL, name, "must be a number of bytes, or a size such as \"64MB\"");
    return 0;
}

static int read_duration(struct reading *r, const char *name, const json_t *v, int64_t *to)
{
    struct dz_err err;
    double seconds = json_is_number(v) ? json_number_value(v) : -1;
    if (seconds >= 0 &&
        seconds <= (double)(DURATION_MAX_MS / 1000)) /* round up, because 0 means "none" */
        *to = (int64_t)(seconds * 1000) + ((double)(int64_t)(seconds * 1000) < seconds * 1000);
    else if (!json_is_string(v) ||
             dz_duration_parse(dz_str(json_string_value(v)), 0, DURATION_MAX_MS, to, &err) < 0)
        return refuse(r, DZ_EINVAL, name,
                      "must be a number of seconds, or a duration such as \"15m\"");
    return 0;
}

static int read_date(struct reading *r, const char *name, const json_t *v, int64_t *to)
{
    if (!json_is_string(v) ||
        dz_rfc3339_parse(dz_str_n(json_string_value(v), json_string_length(v)), to, NULL) < 0 ||
        *to <= 0)
        return refuse(r, DZ_EINVAL, name, "must be a time such as \"2030-01-31T12:00:00Z\"");
    return 0;
}

static int to_buffer(const char *p, size_t n, void *b)
{
    dz_buf_add(b, p, n);
    return 0;
}

static int read_json(struct reading *r, const char *name, const json_t *v, const char **to)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(1 << 20);
    (void)json_dump_callback(v, to_buffer, &b, JSON_COMPACT);
    struct dz_str s = b.err ? (struct dz_str){0} : dz_arena_str(r->arena, dz_str_n(b.p, b.len));
    if (!s.p)
        return refuse(r, b.err == DZ_ELIMIT ? DZ_ELIMIT : DZ_ENOMEM, name, "is too large");
    *to = s.p;
    return 0;
}

static int read_words(struct reading *r, const char *name, const json_t *v, const char *const **to)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v))
        return refuse(r, DZ_EINVAL, name, "must be an array of strings");
    const char **list = dz_arena_array(r->arena, n + 1, sizeof *list);
    int rc = list ? 0 : refuse(r, DZ_ENOMEM, name, "out of memory");
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = read_text(r, name, json_array_get(v, i), &list[i]);
    if (rc == 0)
        *to = list;
    return rc;
}

static int read_input(struct reading *r, const char *name, const json_t *v, struct dz_api_input *to)
{
    if (json_is_boolean(v)) {
        to->keep = json_is_true(v);
        if (!to->keep) /* true was given, which differs from a missing field */
            to->text = DZ_STR("");
        return 0;
    }
    if (!json_is_string(v))
        return refuse(r, DZ_EINVAL, name,
                      "it must be a string, or true to leave standard input open");
    to->text = dz_arena_str(r->arena, dz_str_n(json_string_value(v), json_string_length(v)));
    return to->text.p ? 0 : refuse(r, DZ_ENOMEM, name, "out of memory");
}

static int read_sub(struct reading *r, const struct dz_api_field *f, const json_t *v)
{
    char path[PATH_TEXT];
    if (!json_is_object(v))
        return refuse(r, DZ_EINVAL, f->name, "must be an object");
    memcpy(path, r->path, sizeof path);
    (void)snprintf(r->path, sizeof r->path, "%.30s%.30s.", path, f->name);
    int rc = read_fields(r, v, f->sub);
    memcpy(r->path, path, sizeof path);
    if (rc == 0 && f->seen)
        *(int *)((char *)r->to + f->seen) = 1;
    return rc;
}

static int read_field(struct reading *r, const struct dz_api_field *f, const json_t *v)
{
    void *to = (char *)r->to + f->at;
    switch (f->kind) {
    case DZ_API_UNSET:
        if (json_is_null(v)) {
            *(const char **)to = "";
            return 0;
        }
        return read_text(r, f->name, v, to);
    case DZ_API_STR:
        return read_text(r, f->name, v, to);
    case DZ_API_BOOL:
        if (!json_is_boolean(v))
            return refuse(r, DZ_EINVAL, f->name, "must be true or false");
        *(int *)to = json_is_true(v);
        return 0;
    case DZ_API_INT:
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return refuse(r, DZ_EINVAL, f->name, "must be a whole number, 0 or more");
        *(int64_t *)to = json_integer_value(v);
        return 0;
    case DZ_API_SIZE:
        return read_size(r, f->name, v, to);
    case DZ_API_DURATION:
        return read_duration(r, f->name, v, to);
    case DZ_API_DATE:
        return read_date(r, f->name, v, to);
    case DZ_API_OBJECT:
        return json_is_object(v) ? read_json(r, f->name, v, to)
                                 : refuse(r, DZ_EINVAL, f->name, "must be an object");
    case DZ_API_LIST:
        return json_is_array(v) ? read_json(r, f->name, v, to)
                                : refuse(r, DZ_EINVAL, f->name, "must be an array");
    case DZ_API_WORDS:
        return read_words(r, f->name, v, to);
    case DZ_API_INPUT:
        return read_input(r, f->name, v, to);
    case DZ_API_SUB:
        return read_sub(r, f, v);
    case DZ_API_LATER:
        break;
    }
    r->why->reason = "unsupported";
    return refuse(r, DZ_EINVAL, f->name, "is not available yet");
}

/* --- objects ------------------------------------------------------------------------------- */

static const struct dz_api_field *find_field(const struct dz_api_field *fields, const char *name)
{
    for (; fields->name; fields++)
        if (strcmp(fields->name, name) == 0)
            return fields;
    return NULL;
}

static int unknown(struct reading *r, const struct dz_api_field *fields, const char *name)
{
    const char *names[FIELDS_MAX];
    char quoted[DZ_STR_QUOTED];
    size_t n = 0;
    for (; fields->name && n < FIELDS_MAX; fields++)
        names[n++] = fields->name;
    size_t near = dz_str_nearest(dz_str(name), names, n);
    (void)dz_str_quote(dz_str(name), quoted);
    if (near == DZ_STR_NONE)
        return refuse(r, DZ_EINVAL, name, "unknown field");
    return refuse(r, DZ_EINVAL, name, "unknown field; did you mean %s%s?", r->path, names[near]);
}

static int read_fields(struct reading *r, const json_t *o, const struct dz_api_field *fields)
{
    const char *name;
    json_t *v;
    void *at;
    /* json_object_foreach takes a json_t that is not const, but does not write to it */
    union {
        const json_t *c;
        json_t *m;
    } u = {o};
    for (at = json_object_iter(u.m); at; at = json_object_iter_next(u.m, at)) {
        name = json_object_iter_key(at);
        v = json_object_iter_value(at);
        const struct dz_api_field *f = find_field(fields, name);
        bool skip = f && json_is_null(v) && f->kind != DZ_API_UNSET;
        int rc = !f ? unknown(r, fields, name) : skip ? 0 : read_field(r, f, v);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* An upper bound of the values in the text: commas and brackets outside of strings. Counted before
 * parsing, because the parser needs 0.1 us for each value and blocks the loop meanwhile. */
static size_t count_values(struct dz_str text)
{
    size_t n = 1;
    bool quoted = false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == ',' || c == '[' || c == '{'))
            n++;
    }
    return n;
}

json_t *dz_api_load(struct dz_str text, size_t flags, struct dz_why *why)
{
    json_error_t bad;
    why->field[0] = '\0';
    why->reason = NULL;
    if (dz_str_trim(text).n == 0)
        text = DZ_STR("{}");
    if (count_values(text) > DZ_API_VALUES_MAX) {
        (void)dz_fail(&why->err, DZ_ELIMIT,
                      "the body has more than %d values (members and elements of lists)",
                      DZ_API_VALUES_MAX);
        return NULL;
    }
    json_t *o = json_loadb(text.p, text.n, flags, &bad);
    if (json_is_object(o))
        return o;
    if (o)
        (void)dz_fail(&why->err, DZ_EINVAL, "the body must be a JSON object");
    else
        (void)dz_fail(&why->err, DZ_EINVAL, "the request body is not valid JSON: %s at line %d",
                      bad.text, bad.line);
    json_decref(o);
    return NULL;
}

int dz_api_read(struct dz_arena *arena, struct dz_str text, const struct dz_api_field *fields,
                void *ret, struct dz_why *why)
{
    struct reading r = {.arena = arena, .why = why, .to = ret};
    json_t *o = dz_api_load(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, why);
    int rc = o ? read_fields(&r, o, fields) : why->err.code;
    json_decref(o);
    return rc;
}

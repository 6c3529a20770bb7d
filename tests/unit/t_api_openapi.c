/* SPDX-License-Identifier: MIT
 *
 * The OpenAPI document against the tables that the daemon works by.
 */
#include "api/api_int.h"
#include "base/err.h"
#include "tap.h"

#include <jansson.h>

static struct dz_buf text = DZ_BUF_INIT(1 << 20);

static json_t *document(void)
{
    json_error_t bad = {0};
    json_t *d = NULL;
    CHECK_INT(dz_api_openapi_text(&text), 0);
    d = json_loadb(text.p, text.len, JSON_REJECT_DUPLICATES, &bad);
    if (!d)
        printf("# %s at byte %d\n", bad.text, bad.position);
    CHECK(d != NULL);
    return d;
}

static void release(json_t *d)
{
    json_decref(d);
    dz_buf_release(&text);
}

static const json_t *at(const json_t *o, const char *a, const char *b, const char *c)
{
    o = json_object_get(json_object_get(o, a), b);
    return c ? json_object_get(o, c) : o;
}

static const char *lower(const char *method)
{
    static char out[16];
    (void)snprintf(out, sizeof out, "%s", method);
    for (char *p = out; *p; p++)
        *p = (char)(*p | 0x20);
    return out;
}

TEST(every_route_is_in_the_document_with_what_its_row_says)
{
    json_t *d = document();
    size_t count = 0, operations = 0;
    const struct dz_api_route *routes = dz_api_routes(&count);
    const char *path, *method;
    json_t *item, *operation;
    for (size_t i = 0; i < count; i++) {
        const json_t *o = at(d, "paths", routes[i].path, lower(routes[i].method));
        const char *id = json_string_value(json_object_get(o, "operationId"));
        CHECK(o && json_object_get(o, "summary"));
        CHECK(id ? routes[i].id && strcmp(id, routes[i].id) == 0 : !routes[i].id);
    }
    json_object_foreach(json_object_get(d, "paths"), path, item)
        json_object_foreach(item, method, operation) operations++;
    CHECK_INT(operations, count);
    CHECK(count > 50);
    release(d);
}

static const char *const wires[] = {
#define X(name, num, wire, http, retry, text) wire,
    DZ_ERROR_MAP(X)
#undef X
};

static bool is_wire(const char *code)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(wires); i++)
        if (strcmp(wires[i], code) == 0)
            return true;
    return false;
}

/* Every word of the list is a code, and is in the document of this operation. */
static void check_errors(const json_t *responses, const char *list)
{
    struct dz_str rest = dz_str(list), word;
    const char *status;
    json_t *response;
    while (list && dz_str_split(&rest, ' ', &word)) {
        char code[64];
        bool there = false;
        (void)snprintf(code, sizeof code, "%.*s", DZ_STR_ARG(word));
        CHECK(is_wire(code));
        json_object_foreach((json_t *)(uintptr_t)responses, status, response)
        {
            const char *codes = json_string_value(json_object_get(response, "description"));
            struct dz_str said = dz_str(codes), one;
            while (codes && dz_str_split(&said, ',', &one))
                there |= dz_str_eqz(dz_str_trim(one), code);
        }
        if (!there)
            printf("# %s is not in the document\n", code);
        CHECK(there);
    }
}

TEST(every_error_of_a_route_is_a_code_and_in_the_document)
{
    json_t *d = document();
    size_t count = 0;
    const struct dz_api_route *routes = dz_api_routes(&count);
    for (size_t i = 0; i < count; i++) {
        const json_t *o = at(d, "paths", routes[i].path, lower(routes[i].method));
        if (routes[i].flags & DZ_API_OPEN)
            continue;
        check_errors(json_object_get(o, "responses"), routes[i].errors);
        check_errors(json_object_get(o, "responses"), dz_api_errors_any);
    }
    release(d);
}

/* Every "$ref" below o leads somewhere. */
static void check_refs(const json_t *d, const json_t *o)
{
    const char *key;
    json_t *v;
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)o, key, v)
    {
        if (strcmp(key, "$ref") == 0) {
            const json_t *to = d;
            struct dz_str rest = dz_str(json_string_value(v)), part;
            CHECK(dz_str_eat(&rest, DZ_STR("#/")));
            while (dz_str_split(&rest, '/', &part))
                to = json_object_getn(to, part.p, part.n);
            if (!to)
                printf("# %s leads nowhere\n", json_string_value(v));
            CHECK(to != NULL);
        }
        check_refs(d, v);
    }
    json_array_foreach(o, i, v) check_refs(d, v);
}

TEST(every_reference_leads_somewhere_and_every_id_is_one)
{
    json_t *d = document(), *seen = json_object(), *item, *operation;
    const char *path, *method;
    check_refs(d, d);
    json_object_foreach(json_object_get(d, "paths"), path, item)
        json_object_foreach(item, method, operation)
    {
        const char *id = json_string_value(json_object_get(operation, "operationId"));
        CHECK(!id || !json_object_get(seen, id));
        if (id)
            CHECK_INT(json_object_set_new(seen, id, json_true()), 0);
    }
    json_decref(seen);
    release(d);
}

/* --- bodies --------------------------------------------------------------------------- */

static bool has_type(const json_t *schema, const char *type)
{
    const json_t *t = json_object_get(schema, "type"), *v;
    size_t i;
    if (json_is_string(t))
        return strcmp(json_string_value(t), type) == 0;
    json_array_foreach(t, i, v) if (strcmp(json_string_value(v), type) == 0) return true;
    return false;
}

static bool refers(const json_t *schema, const char *name)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    return ref && strcmp(strrchr(ref, '/') + 1, name) == 0;
}

/* Null, or what this name says. */
static bool may_refer(const json_t *schema, const char *name)
{
    const json_t *either = json_object_get(schema, "oneOf");
    return json_array_size(either) == 2 && has_type(json_array_get(either, 0), "null") &&
           refers(json_array_get(either, 1), name);
}

static void check_fields(const char *name, const json_t *schema, const struct dz_api_field *fields);

static bool fits(const json_t *s, const struct dz_api_field *f)
{
    switch (f->kind) {
    case DZ_API_STR:
        return has_type(s, "string");
    case DZ_API_UNSET:
        return has_type(s, "string") && has_type(s, "null");
    case DZ_API_BOOL:
        return has_type(s, "boolean");
    case DZ_API_INT:
        return has_type(s, "integer");
    case DZ_API_SIZE:
        return refers(s, "SizeIn");
    case DZ_API_DURATION:
        return refers(s, "DurationIn");
    case DZ_API_DATE:
        return has_type(s, "string") && json_object_get(s, "format");
    case DZ_API_OBJECT:
        return has_type(s, "object") || refers(s, "Strings") || may_refer(s, "Network") ||
               may_refer(s, "ServiceReadyBody");
    case DZ_API_LIST:
        return has_type(s, "array") || refers(s, "Mounts");
    case DZ_API_WORDS:
        return has_type(s, "array");
    case DZ_API_INPUT:
        return has_type(s, "string") && has_type(s, "boolean");
    case DZ_API_SUB:
        check_fields(f->name, s, f->sub);
        return has_type(s, "object");
    case DZ_API_LATER:
        break;
    }
    return has_type(s, "null") && !json_is_array(json_object_get(s, "type"));
}

/* The same names in both, of the same kinds, and no others allowed. */
static void check_fields(const char *name, const json_t *schema, const struct dz_api_field *fields)
{
    const json_t *properties = json_object_get(schema, "properties");
    size_t count = 0;
    CHECK(json_is_false(json_object_get(schema, "additionalProperties")));
    for (const struct dz_api_field *f = fields; f->name; f++, count++) {
        const json_t *s = json_object_get(properties, f->name);
        if (!s || !fits(s, f)) {
            printf("# %s.%s: src/api/schemas does not say what the table says\n", name, f->name);
            tap_bad++;
        }
    }
    if (json_object_size(properties) != count)
        printf("# %s: src/api/schemas has fields that the table has not\n", name);
    CHECK_INT(json_object_size(properties), count);
}

TEST(every_field_of_a_body_is_in_its_schema_and_no_other)
{
    json_t *d = document();
    const json_t *schemas = at(d, "components", "schemas", NULL);
    size_t count = 0, bodies = 0;
    const struct dz_api_route *routes = dz_api_routes(&count);
    for (size_t i = 0; i < count; i++) {
        if (!routes[i].body || strchr(routes[i].body, '/'))
            continue;
        CHECK(routes[i].fields != NULL);
        check_fields(routes[i].body, json_object_get(schemas, routes[i].body), routes[i].fields);
        bodies++;
    }
    CHECK(bodies > 20);
    release(d);
}

TEST(the_codes_of_errors_are_those_that_there_are)
{
    json_t *d = document();
    const json_t *problem =
        json_object_get(at(d, "components", "schemas", "Problem"), "properties");
    const json_t *code = at(problem, "error", "properties", "code"), *v;
    const json_t *codes = json_object_get(code, "enum");
    size_t i;
    CHECK(json_array_size(codes) > 10);
    json_array_foreach(codes, i, v) CHECK(is_wire(json_string_value(v)));
    for (size_t k = 0; k < DZ_ARRAY_LEN(wires); k++) {
        bool there = false;
        json_array_foreach(codes, i, v) there |= strcmp(json_string_value(v), wires[k]) == 0;
        if (!there)
            printf("# %s is missing in Problem\n", wires[k]);
        CHECK(there);
    }
    release(d);
}

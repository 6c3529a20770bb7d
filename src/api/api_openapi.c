/* SPDX-License-Identifier: MIT
 *
 * api_openapi.c - the API as an OpenAPI 3.1 document.
 *
 * The document is made of the rows of api_routes.inc and of the files in src/api/schemas/, which
 * describe bodies, parameters and answers. t_api_openapi fails if a schema has a field that the
 * reader of that body does not have, or the other way round. `make openapi` asks a daemon and
 * compares its answers with the document.
 */
#include "api/api_int.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    DOCUMENT_MAX = 1 << 20,
    CODES_TEXT = 128, /* longest list of codes with the same status */
};

/* The files of src/api/schemas/ as they are; the build runs in the tree's root. The first has the
 * document's components except the schemas, each other one has schemas by name. */
#define SCHEMA_FILES(X) \
    X(components)       \
    X(common)           \
    X(sandboxes)        \
    X(execs)            \
    X(files)            \
    X(snapshots)        \
    X(images)           \
    X(tenants)          \
    X(schedules)        \
    X(services)         \
    X(usage)            \
    X(volumes)          \
    X(ports)            \
    X(server)

#define X(name)                                                                  \
    __asm__(".section .rodata\n"                                                 \
            "dz_schemas_" #name ": .incbin \"src/api/schemas/" #name ".json\"\n" \
            "dz_schemas_" #name "_end: .byte 0\n"                                \
            ".previous\n");                                                      \
    extern const char file_##name[] __asm__("dz_schemas_" #name);                \
    extern const char file_##name##_end[] __asm__("dz_schemas_" #name "_end");
SCHEMA_FILES(X)
#undef X

static const struct {
    const char *text, *end;
} schema_files[] = {
#define X(name) {file_##name, file_##name##_end},
    SCHEMA_FILES(X)
#undef X
};

#define TEXT  "text/plain"
#define BYTES "application/octet-stream"

/* --- words ------------------------------------------------------------------------------ */

/* Does the list, of words separated by spaces, contain this word? */
static bool has_word(const char *list, const char *word)
{
    struct dz_str rest = dz_str(list), part;
    while (list && dz_str_split(&rest, ' ', &part))
        if (dz_str_eqz(part, word))
            return true;
    return false;
}

static void put_ref(struct dz_json *j, const char *kind, struct dz_str name)
{
    char text[96];
    (void)snprintf(text, sizeof text, "#/components/%s/%.*s", kind, DZ_STR_ARG(name));
    dz_json_object(j);
    dz_json_put_strz(j, "$ref", text);
    dz_json_end(j);
}

/* "TYPE": {"schema": ...}: a JSON value of a schema, events, or bytes of a media type. */
static void put_content(struct dz_json *j, struct dz_str what)
{
    bool events = dz_str_eqz(what, "events"), media = dz_str_find_char(what, '/') != DZ_STR_NONE;
    dz_json_key_str(j, events ? DZ_STR("text/event-stream") : media ? what : DZ_STR(DZ_HTTP_JSON));
    dz_json_object(j);
    dz_json_key(j, "schema");
    if (events || media) {
        dz_json_object(j);
        dz_json_put_strz(j, "type", "string");
        if (media && !dz_str_eqz(what, TEXT))
            dz_json_put_strz(j, "format", "binary");
        dz_json_end(j);
    } else {
        put_ref(j, "schemas", what);
    }
    dz_json_end(j);
}

/* --- one operation ------------------------------------------------------------------------ */

static void put_parameters(struct dz_json *j, const struct dz_api_route *route)
{
    const char *more = route->parameters;
    struct dz_str rest = dz_str(route->path), part;
    dz_json_key(j, "parameters");
    dz_json_array(j);
    while (dz_str_split(&rest, '/', &part))
        if (dz_str_eat(&part, DZ_STR("{")))
            put_ref(j, "parameters", dz_str_sub(part, 0, part.n - 1));
    rest = dz_str(more);
    while (more && dz_str_split(&rest, ' ', &part))
        put_ref(j, "parameters", part);
    if (strcmp(route->method, "POST") == 0)
        put_ref(j, "parameters", DZ_STR("idempotency_key"));
    dz_json_end(j);
}

static void put_body(struct dz_json *j, const struct dz_api_route *route)
{
    if (!route->body)
        return;
    dz_json_key(j, "requestBody");
    dz_json_object(j);
    if (route->needed)
        dz_json_put_bool(j, "required", true);
    dz_json_key(j, "content");
    dz_json_object(j);
    put_content(j, dz_str(route->body));
    dz_json_end(j);
    dz_json_end(j);
}

static void put_headers(struct dz_json *j)
{
    static const char *const names[] = {"X-Mode", "Last-Modified"};
    dz_json_key(j, "headers");
    dz_json_object(j);
    for (size_t i = 0; i < DZ_ARRAY_LEN(names); i++) {
        dz_json_key(j, names[i]);
        dz_json_raw(j, DZ_STR("{\"schema\":{\"type\":\"string\"}}"));
    }
    dz_json_end(j);
}

static void put_answer(struct dz_json *j, struct dz_str answer)
{
    static const struct {
        const char *status, *text;
    } texts[] = {{"101", "The connection becomes a WebSocket."},
                 {"200", "Done."},
                 {"201", "Created."},
                 {"202", "Accepted; the work continues."},
                 {"204", "Done; the answer has no body."},
                 {"206", "The requested range of the file."}};
    struct dz_str status, what;
    (void)dz_str_split(&answer, ':', &status);
    dz_json_key_str(j, status);
    dz_json_object(j);
    for (size_t i = 0; i < DZ_ARRAY_LEN(texts); i++)
        if (dz_str_eqz(status, texts[i].status))
            dz_json_put_strz(j, "description", texts[i].text);
    if (dz_str_eqz(answer, BYTES))
        put_headers(j);
    if (answer.p) {
        dz_json_key(j, "content");
        dz_json_object(j);
        while (dz_str_split(&answer, ',', &what))
            put_content(j, what);
        dz_json_end(j);
    }
    dz_json_end(j);
}

/* The codes of a route's errors that have this HTTP status, as "not_found, gone"; "" for none. */
static void codes_of_status(const struct dz_api_route *route, int status,
                            char ret_codes[static CODES_TEXT])
{
    static const struct {
        const char *code;
        int status;
    } errors[] = {
#define X(name, number, wire, http, retry, text) {wire, http},
        DZ_ERROR_MAP(X)
#undef X
    };
    size_t n = 0;
    ret_codes[0] = '\0';
    for (size_t i = 0; i < DZ_ARRAY_LEN(errors); i++) {
        if (errors[i].status != status)
            continue;
        bool twice = false;
        for (size_t k = 0; k < i; k++)
            twice |= strcmp(errors[k].code, errors[i].code) == 0;
        if (twice || (!has_word(dz_api_errors_any, errors[i].code) &&
                      !has_word(route->errors, errors[i].code)))
            continue;
        n += (size_t)snprintf(ret_codes + n, CODES_TEXT - n, "%s%s", n ? ", " : "", errors[i].code);
        assert(n < CODES_TEXT);
    }
}

static void put_refusal(struct dz_json *j, const char *key, const char *response, const char *codes)
{
    char text[96];
    (void)snprintf(text, sizeof text, "#/components/responses/%s", response);
    dz_json_key(j, key);
    dz_json_object(j);
    dz_json_put_strz(j, "$ref", text);
    if (codes)
        dz_json_put_strz(j, "description", codes);
    dz_json_end(j);
}

/* Write the errors of a route by status. 4XX stands for what the HTTP server refuses before the
 * route is known, for instance a request that is not HTTP. */
static void put_errors(struct dz_json *j, const struct dz_api_route *route)
{
    char key[16], codes[CODES_TEXT];
    for (int status = 400; status < 600; status++) {
        codes_of_status(route, status, codes);
        (void)snprintf(key, sizeof key, "%d", status);
        if (codes[0])
            put_refusal(j, key, status < 500 ? "Refused" : "Failed", codes);
    }
    put_refusal(j, "4XX", "Refused", NULL);
}

static void put_answers(struct dz_json *j, const struct dz_api_route *route)
{
    struct dz_str rest = dz_str(route->answers), answer;
    dz_json_key(j, "responses");
    dz_json_object(j);
    while (route->answers && dz_str_split(&rest, ' ', &answer))
        put_answer(j, answer);
    if (!(route->flags & DZ_API_OPEN))
        put_errors(j, route);
    put_refusal(j, "5XX", "Failed", NULL);
    dz_json_end(j);
}

static void put_operation(struct dz_json *j, const struct dz_api_route *route)
{
    char method[8], summary[160];
    size_t n = 0;
    for (; route->method[n] && n + 1 < sizeof method; n++)
        method[n] = (char)(route->method[n] | 0x20);
    method[n] = '\0';
    (void)snprintf(summary, sizeof summary, route->id ? "%s.%s" : "Not available yet: %s.%s",
                   route->summary, route->flags & DZ_API_OPERATOR ? " Operators only." : "");
    dz_json_key(j, method);
    dz_json_object(j);
    if (route->id)
        dz_json_put_strz(j, "operationId", route->id);
    dz_json_key(j, "tags");
    dz_json_array(j);
    dz_json_str(j, dz_str(route->tag));
    dz_json_end(j);
    dz_json_put_strz(j, "summary", summary);
    if (route->flags & DZ_API_OPEN) {
        dz_json_key(j, "security");
        dz_json_raw(j, DZ_STR("[]"));
    }
    put_parameters(j, route);
    put_body(j, route);
    put_answers(j, route);
    dz_json_end(j);
}

/* --- the document ------------------------------------------------------------------------- */

static void put_info(struct dz_json *j)
{
    dz_json_put_strz(j, "openapi", "3.1.0");
    dz_json_key(j, "info");
    dz_json_object(j);
    dz_json_put_strz(j, "title", "doze");
    /* version of the API; the version of doze is not for strangers */
    dz_json_put_strz(j, "version", "1");
    dz_json_put_strz(j, "summary", "Sandboxes that sleep.");
    dz_json_put_strz(j, "description",
                     "docs/guide/api.md explains the API with examples, docs/guide/errors.md lists "
                     "every error code. Unknown fields and parameters are refused by name. A field "
                     "that is null counts as left out.");
    dz_json_end(j);
    dz_json_key(j, "servers");
    dz_json_raw(j, DZ_STR("[{\"url\":\"/\"}]"));
    dz_json_key(j, "security"); /* the owner of the unix socket needs no token */
    dz_json_raw(j, DZ_STR("[{\"token\":[]},{}]"));
}

static bool seen_before(const struct dz_api_route *routes, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (strcmp(routes[i].path, routes[at].path) == 0)
            return true;
    return false;
}

/* The members of a file's one JSON object: its text without the braces. */
static struct dz_str members_of(size_t file)
{
    const char *text = schema_files[file].text;
    struct dz_str all = dz_str_trim(dz_str_n(text, (size_t)(schema_files[file].end - text)));
    return dz_str_trim(dz_str_sub(all, 1, all.n - 2));
}

static void put_components(struct dz_json *j)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DOCUMENT_MAX);
    for (size_t i = 0; i < DZ_ARRAY_LEN(schema_files); i++) {
        struct dz_str members = members_of(i);
        dz_buf_adds(&text, i == 0 ? "{" : i == 1 ? ",\"schemas\":{" : ",");
        dz_buf_add(&text, members.p, members.n);
    }
    dz_buf_adds(&text, "}}");
    dz_json_key(j, "components");
    dz_json_raw(j, dz_str_n(text.p, text.len));
}

int dz_api_openapi_text(struct dz_buf *out)
{
    struct dz_json j;
    size_t count = 0;
    const struct dz_api_route *routes = dz_api_routes(&count);
    dz_json_init(&j, out, false);
    dz_json_object(&j);
    put_info(&j);
    dz_json_key(&j, "paths");
    dz_json_object(&j);
    for (size_t i = 0; i < count; i++) {
        if (seen_before(routes, i))
            continue;
        dz_json_key(&j, routes[i].path);
        dz_json_object(&j);
        for (size_t k = i; k < count; k++)
            if (strcmp(routes[k].path, routes[i].path) == 0)
                put_operation(&j, &routes[k]);
        dz_json_end(&j);
    }
    dz_json_end(&j);
    put_components(&j);
    dz_json_end(&j);
    return dz_json_finish(&j);
}

void dz_api_openapi(struct dz_http_req *r, void *api)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DOCUMENT_MAX);
    int rc = dz_api_openapi_text(&text);
    (void)api;
    if (rc < 0)
        dz_http_fail(r, &(struct dz_err){.code = rc, .msg = "write the document"});
    else
        dz_http_send(r, 200, DZ_HTTP_JSON, &text);
}

/* SPDX-License-Identifier: MIT
 *
 * api_openapi.c - the API as an OpenAPI 3.1 document.
 *
 * It is made of three things: the table of routes, the table below, which has a row for
 * each route that is available, and api_schemas.json, which has what bodies, parameters
 * and answers look like. A route without a row, a row without a route, a field that one
 * of schema and reader has and the other has not: each fails t_api_openapi. That answers
 * are what the document says is tried by `make openapi`.
 *
 * Of a row:
 *   parameters  names of components.parameters, besides those of the path
 *   body        a schema, "!" before it when it must not be left out; or a media type
 *   answers     STATUS, or STATUS:WHAT[,WHAT]: a schema, `events`, or a media type
 */
#include "api/api_int.h"

#include <stdio.h>
#include <string.h>

enum {
    DOCUMENT_MAX = 1 << 20,
};

/* The file as it is, from `schemas` to `schemas_end`; the build runs in the tree's root. */
__asm__(".section .rodata\n"
        "dz_api_schemas: .incbin \"src/api/api_schemas.json\"\n"
        "dz_api_schemas_end: .byte 0\n"
        ".previous\n");
extern const char schemas[] __asm__("dz_api_schemas");
extern const char schemas_end[] __asm__("dz_api_schemas_end");

#define S     "/v1/sandboxes/{id}"
#define E     S "/exec/{exec}"
#define F     S "/files"
#define TEXT  "text/plain"
#define BYTES "application/octet-stream"
#define TAR   "application/x-tar"

static const struct doc {
    const char *method, *path, *id, *tag, *summary, *parameters, *body, *answers;
} docs[] = {
    /* clang-format off */
    {"POST", "/v1/sandboxes", "createSandbox", "sandboxes",
     "Make a sandbox, and start it unless start is false", NULL, "CreateBody", "201:Sandbox"},
    {"GET", "/v1/sandboxes", "listSandboxes", "sandboxes",
     "List sandboxes by id", "limit cursor state kind label of_image", NULL, "200:SandboxPage"},
    {"GET", S, "getSandbox", "sandboxes",
     "One sandbox", NULL, NULL, "200:Sandbox"},
    {"PATCH", S, "patchSandbox", "sandboxes",
     "Change what is said of it", NULL, "PatchBody", "200:Sandbox"},
    {"DELETE", S, "deleteSandbox", "sandboxes",
     "Delete one that is archived; by force any", "force", NULL, "204"},
    {"POST", S "/wake", "wakeSandbox", "lifecycle",
     "Wake it", NULL, "WakeBody", "200:Woken"},
    {"POST", S "/suspend", "suspendSandbox", "lifecycle",
     "Put it to sleep", NULL, "SuspendBody", "200:Suspended"},
    {"POST", S "/pause", "pauseSandbox", "lifecycle",
     "The same as suspend", NULL, "SuspendBody", "200:Suspended"},
    {"POST", S "/hibernate", "hibernateSandbox", "lifecycle",
     "The same as suspend", NULL, "SuspendBody", "200:Suspended"},
    {"POST", S "/freeze", "freezeSandbox", "lifecycle",
     "Move its file to cold storage", NULL, "NoBody", "200:Sandbox"},
    {"POST", S "/archive", "archiveSandbox", "lifecycle",
     "Archive it: only an explicit wake or revive brings it back", NULL, "ArchiveBody",
     "200:Sandbox"},
    {"POST", S "/revive", "reviveSandbox", "lifecycle",
     "Bring its file back", NULL, "NoBody", "200:Sandbox"},
    {"POST", S "/prefetch", "prefetchSandbox", "lifecycle",
     "Fetch its file, without waking it", NULL, "NoBody", "200:Sandbox"},
    {"POST", S "/hold", "holdSandbox", "lifecycle",
     "Keep it awake for so long", NULL, "!HoldBody", "200:Sandbox"},
    {"DELETE", S "/hold", "unholdSandbox", "lifecycle",
     "Keep it awake no longer", NULL, NULL, "200:Sandbox"},
    {"POST", S "/timeout", "setTimeout", "lifecycle",
     "Destroy or pause it after so long", NULL, "!TimeoutBody", "200:Sandbox"},
    {"DELETE", S "/timeout", "noTimeout", "lifecycle",
     "Let it be without a timeout", NULL, NULL, "200:Sandbox"},
    {"POST", S "/exec", "startExec", "commands",
     "Run a command, and wait for its end", NULL, "ExecBody", "200:ExecResult,events 201:ExecStarted"},
    {"GET", S "/exec", "listExecs", "commands",
     "Records of commands, the newest first. As a WebSocket: run one", "limit offset_cursor", NULL,
     "101 200:ExecPage"},
    {"GET", E, "getExec", "commands",
     "One record", NULL, NULL, "200:Exec"},
    {"GET", E "/output", "execOutput", "commands",
     "Its output from an offset on, as events or a WebSocket", "offset last_event", NULL, "101 200:events"},
    {"POST", E "/stdin", "execStdin", "commands",
     "Bytes to its standard input", NULL, BYTES, "204"},
    {"POST", E "/close-stdin", "execCloseStdin", "commands",
     "The end of its standard input", NULL, NULL, "204"},
    {"POST", E "/signal", "execSignal", "commands",
     "Send it a signal", NULL, "!SignalBody", "204"},
    {"POST", E "/resize", "execResize", "commands",
     "Its terminal has another size", NULL, "!ResizeBody", "204"},
    {"POST", E "/wait", "execWait", "commands",
     "Wait for its end; 504 when it still runs", NULL, "WaitBody", "200:ExecResult"},
    {"GET", S "/events", "sandboxEvents", "events",
     "Events of one sandbox. With Accept: text/event-stream a stream that goes on",
     "limit offset_cursor after last_event", NULL, "200:EventPage,events"},
    {"GET", "/v1/events", "events", "events",
     "Events of all of the tenant's sandboxes. With Accept: text/event-stream a stream that goes on",
     "limit offset_cursor after last_event", NULL, "200:EventPage,events"},
    {"GET", "/v1/images", "listImages", "images",
     "List images", "limit cursor", NULL, "200:ImagePage"},
    {"POST", "/v1/images", "buildImage", "images",
     "Build an image from a recipe's text; with Accept: text/event-stream followed to its end", NULL,
     "!BuildBody", "200:events 202:Build"},
    {"POST", "/v1/images/upload", "uploadImage", "images",
     "Build an image from an archive that holds a recipe and its files",
     "build_name build_recipe build_from build_fresh", BYTES, "200:events 202:Build"},
    {"GET", "/v1/images/builds", "listBuilds", "images",
     "Builds that wait, run, or are over", NULL, NULL, "200:BuildList"},
    {"GET", "/v1/images/builds/{build}", "getBuild", "images",
     "One build", NULL, NULL, "200:Build"},
    {"DELETE", "/v1/images/builds/{build}", "cancelBuild", "images",
     "Cancel it: nothing of it stays", NULL, NULL, "202:Build"},
    {"GET", "/v1/images/builds/{build}/log", "buildLog", "images",
     "Its log; with Accept: text/event-stream followed, with its status, to its end", "offset last_event",
     NULL, "200:" TEXT ",events"},
    {"POST", "/v1/images/gc", "collectImages", "images",
     "Remove images without a name on which nothing stands", NULL, "ImageGcBody", "200:ImageGc"},
    {"POST", "/v1/images/verify", "verifyImages", "images",
     "Read an image, or all, whole and look for damage; answers when that is done", NULL, "ImageVerifyBody",
     "200:ImageVerify"},
    {"GET", "/v1/images/{image}", "getImage", "images",
     "One image", NULL, NULL, "200:ImageWhole"},
    {"DELETE", "/v1/images/{image}", "deleteImage", "images",
     "Delete one on which no sandbox stands", NULL, NULL, "204"},
    {"GET", F, "getFile", "files",
     "The bytes of a file; also HEAD", "path range", NULL, "200:" BYTES " 206:" BYTES},
    {"PUT", F, "putFile", "files",
     "Make or replace a file in one step", "path mode none_match", BYTES, "201 204"},
    {"DELETE", F, "deleteFile", "files",
     "Remove a file or directory", "path recursive", NULL, "204"},
    {"GET", F "/list", "listFiles", "files",
     "What a directory holds", "path depth entries", NULL, "200:Entries"},
    {"POST", F "/mkdir", "makeDirectory", "files",
     "Make a directory", NULL, "!MkdirBody", "204"},
    {"POST", F "/move", "moveFile", "files",
     "Move or rename", NULL, "!MoveBody", "204"},
    {"GET", F "/tar", "getTar", "files",
     "What is below a path, as an archive", "path", NULL, "200:" TAR},
    {"PUT", F "/tar", "putTar", "files",
     "Unpack a tar archive, all of it or nothing", "path mode", BYTES, "200:Members"},
    {"GET", F "/watch", "watchFiles", "files",
     "Changes below a path as they happen", "path recursive", NULL, "200:events"},
    {"POST", S "/sql", "sql", "files",
     "One statement that reads, over the file's tables and the view vfs", NULL, "!SqlBody", "200:Rows"},
    {"GET", "/instances", "instances", "daemon",
     "All sandboxes in five columns", NULL, NULL, "200:Instances"},
    {"POST", S "/snapshot", "makeSnapshot", "branches",
     "The sandbox as it is now, to begin others from", NULL, "HandleBody", "201:Snapshot"},
    {"POST", S "/fork", "fork", "branches",
     "A handle for branches, and count of them", NULL, "ForkBody", "201:Forked"},
    {"POST", S "/clone", "clone", "branches",
     "Its files as a new sandbox", NULL, "CloneBody", "201:Sandbox"},
    {"POST", S "/refs", "makeRef", "branches",
     "A reference to it, for others", NULL, "HandleBody", "201:Ref"},
    {"GET", S "/share", "share", "branches",
     "Its public volume as a disk file", NULL, NULL, "200:application/vnd.sqlite3"},
    {"GET", "/v1/snapshots", "listSnapshots", "branches",
     "List snapshots", "limit cursor", NULL, "200:SnapshotPage"},
    {"POST", "/v1/snapshots/{snapshot}/resume", "resumeSnapshot", "branches",
     "A sandbox that goes on from there; of a pause, the same one", NULL, "NameBody", "201:Sandbox"},
    {"DELETE", "/v1/snapshots/{snapshot}", "deleteSnapshot", "branches",
     "Delete a snapshot on which no fork stands", NULL, NULL, "204"},
    {"GET", "/v1/forks", "listForks", "branches",
     "List forks", "limit cursor", NULL, "200:ForkPage"},
    {"POST", "/v1/forks/{fork}/attach", "attachFork", "branches",
     "Another branch", NULL, "NameBody", "201:Sandbox"},
    {"DELETE", "/v1/forks/{fork}", "deleteFork", "branches",
     "Delete the handle; branches stay", NULL, NULL, "204"},
    {"GET", "/v1/refs", "listRefs", "branches",
     "List references", "limit cursor", NULL, "200:RefPage"},
    {"POST", "/v1/refs/{ref}/attach", "attachRef", "branches",
     "The sandbox that it means, shared", NULL, "NoBody", "200:Attached"},
    {"DELETE", "/v1/refs/{ref}/attachments/{n}", "detachRef", "branches",
     "Leave", NULL, NULL, "204"},
    {"DELETE", "/v1/refs/{ref}", "deleteRef", "branches",
     "The owner's cleanup: the sandbox is destroyed, unless it is to be kept", "ref_sandbox", NULL, "204"},
    {"POST", "/v1/tokens", "makeToken", "tokens",
     "Make a token", NULL, "TokenBody", "201:TokenMade"},
    {"GET", "/v1/tokens", "listTokens", "tokens",
     "List tokens", "limit cursor of_tenant", NULL, "200:TokenPage"},
    {"DELETE", "/v1/tokens/{token}", "revokeToken", "tokens",
     "Revoke a token", NULL, NULL, "204"},
    {"GET", "/v1/tenants", "listTenants", "tenants",
     "Tenants that have a token, or quotas of their own, and the operator's own", "limit cursor", NULL,
     "200:TenantPage"},
    {"GET", "/v1/tenants/{tenant}", "getTenant", "tenants",
     "What a tenant may have, and what it has; self is the one who asks", NULL, NULL, "200:Tenant"},
    {"PATCH", "/v1/tenants/{tenant}", "setTenant", "tenants",
     "Set its quotas; what is not named stays", NULL, "TenantBody", "200:Tenant"},
    {"GET", "/healthz", "healthz", "daemon",
     "Is the process there?", NULL, NULL, "200:Health"},
    {"GET", "/readyz", "readyz", "daemon",
     "May requests come?", NULL, NULL, "200:Ready"},
    {"GET", "/metrics", "metrics", "daemon",
     "Figures, for Prometheus", NULL, NULL, "200:" TEXT},
    {"GET", "/v1/stats", "stats", "daemon",
     "Figures, for people: what is awake, and how long operations take", NULL, NULL, "200:Stats"},
    {"POST", "/v1/registry/check", "checkRegistry", "daemon",
     "Compare the registry with the files; answers when that is done", NULL, "NoBody",
     "200:RegistryCheck"},
    {"GET", "/openapi.json", "openapi", "daemon",
     "This document", NULL, NULL, "200:Document"},
    /* clang-format on */
};

/* --- words ------------------------------------------------------------------------------ */

static const struct doc *doc_of(const struct dz_http_route *route)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(docs); i++)
        if (strcmp(docs[i].method, route->method) == 0 && strcmp(docs[i].path, route->pattern) == 0)
            return &docs[i];
    return NULL;
}

bool dz_api_takes_nothing(const struct dz_http_route *route)
{
    const struct doc *d = doc_of(route);
    return d && !d->parameters;
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

static void put_parameters(struct dz_json *j, const struct dz_http_route *route, const char *more)
{
    struct dz_str rest = dz_str(route->pattern), part;
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

static void put_body(struct dz_json *j, const char *body)
{
    if (!body)
        return;
    dz_json_key(j, "requestBody");
    dz_json_object(j);
    if (body[0] == '!')
        dz_json_put_bool(j, "required", true);
    dz_json_key(j, "content");
    dz_json_object(j);
    put_content(j, dz_str(body + (body[0] == '!')));
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
    } texts[] = {{"101", "a WebSocket"},
                 {"200", "done"},
                 {"201", "made"},
                 {"202", "begun"},
                 {"204", "done; there is nothing more to say"},
                 {"206", "the range"}};
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

static void put_answers(struct dz_json *j, const char *answers, bool refuses)
{
    struct dz_str rest = dz_str(answers), answer;
    dz_json_key(j, "responses");
    dz_json_object(j);
    while (answers && dz_str_split(&rest, ' ', &answer))
        put_answer(j, answer);
    if (refuses) {
        dz_json_key(j, "4XX");
        put_ref(j, "responses", DZ_STR("Refused"));
    }
    dz_json_key(j, "5XX");
    put_ref(j, "responses", DZ_STR("Failed"));
    dz_json_end(j);
}

/* What is known and not available yet has an operation too. */
static void put_operation(struct dz_json *j, const struct dz_http_route *route)
{
    static const struct doc none = {.tag = "later"};
    const struct doc *d = doc_of(route);
    char method[8], summary[160];
    size_t n = 0;
    bool open = route->flags & DZ_API_OPEN;
    for (; route->method[n] && n + 1 < sizeof method; n++)
        method[n] = (char)(route->method[n] | 0x20);
    method[n] = '\0';
    d = d ? d : &none;
    if (d->summary)
        (void)snprintf(summary, sizeof summary, "%s.%s", d->summary,
                       route->flags & DZ_API_OPERATOR ? " The operator's." : "");
    else
        (void)snprintf(summary, sizeof summary, "Refused with the reason unsupported: %s.",
                       route->data ? (const char *)route->data : "not available yet");
    dz_json_key(j, method);
    dz_json_object(j);
    if (d->id)
        dz_json_put_strz(j, "operationId", d->id);
    dz_json_key(j, "tags");
    dz_json_array(j);
    dz_json_str(j, dz_str(d->tag));
    dz_json_end(j);
    dz_json_put_strz(j, "summary", summary);
    if (open) {
        dz_json_key(j, "security");
        dz_json_raw(j, DZ_STR("[]"));
    }
    put_parameters(j, route, d->parameters);
    put_body(j, d->body);
    put_answers(j, d->answers, !open);
    dz_json_end(j);
}

/* --- the document ------------------------------------------------------------------------- */

static void put_info(struct dz_json *j)
{
    dz_json_put_strz(j, "openapi", "3.1.0");
    dz_json_key(j, "info");
    dz_json_object(j);
    dz_json_put_strz(j, "title", "doze");
    dz_json_put_strz(j, "version", "1"); /* of the API; strangers need not know doze's */
    dz_json_put_strz(j, "summary", "Sandboxes that sleep.");
    dz_json_put_strz(j, "description",
                     "docs/guide/api.md explains it, docs/guide/errors.md has every code. A field "
                     "or parameter that does not exist is refused by name; null is as if a field "
                     "were not there.");
    dz_json_end(j);
    dz_json_key(j, "servers");
    dz_json_raw(j, DZ_STR("[{\"url\":\"/\"}]"));
    dz_json_key(j, "security"); /* the owner of the unix socket needs no token */
    dz_json_raw(j, DZ_STR("[{\"token\":[]},{}]"));
}

static bool seen_before(const struct dz_http_route *routes, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (strcmp(routes[i].pattern, routes[at].pattern) == 0)
            return true;
    return false;
}

int dz_api_openapi_text(struct dz_buf *out)
{
    struct dz_json j;
    size_t count = 0;
    const struct dz_http_route *routes = dz_api_routes(&count);
    dz_json_init(&j, out, false);
    dz_json_object(&j);
    put_info(&j);
    dz_json_key(&j, "paths");
    dz_json_object(&j);
    for (size_t i = 0; i < count; i++) {
        if (seen_before(routes, i))
            continue;
        dz_json_key(&j, routes[i].pattern);
        dz_json_object(&j);
        for (size_t k = i; k < count; k++)
            if (strcmp(routes[k].pattern, routes[i].pattern) == 0)
                put_operation(&j, &routes[k]);
        dz_json_end(&j);
    }
    dz_json_end(&j);
    dz_json_key(&j, "components");
    dz_json_raw(&j, dz_str_trim(dz_str_n(schemas, (size_t)(schemas_end - schemas))));
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

/* --- for the test -------------------------------------------------------------------------- */

const char *dz_api_openapi_row(size_t index, const char **ret_path, const char **ret_body)
{
    if (index >= DZ_ARRAY_LEN(docs))
        return NULL;
    *ret_path = docs[index].path;
    *ret_body = docs[index].body;
    return docs[index].method;
}

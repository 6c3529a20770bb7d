/* SPDX-License-Identifier: MIT
 *
 * freeze_spec.c - the longest functions of WebAssembly's own tests, frozen at
 * each of their safepoints, as many as FUNCTIONS.
 *
 * The command files (DOZE_SPEC_DIR, unpacked by tests/spec/unpack) say with
 * which arguments a function is called. A function counts when its module can
 * be instantiated alone and the call comes to an end by itself.
 */
#include "freeze_tap.h"

#include <ftw.h>
#include <jansson.h>

enum {
    FUNCTIONS = 60,
    CALLS_MAX = 1 << 16,
    ARGS_MAX = 32,
    STOPS_MAX = 40, /* of one call that are tried; its safepoints are few or alike */
};

struct call {
    char *path, *name;
    uint64_t args[ARGS_MAX];
    size_t arg_count;
    uint32_t body_size;
};
static struct call *calls;
static size_t call_count;

static const char *text_of(json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

/* The module alone, with nothing from other modules. */
static bool stands_alone(const struct dz_wasm_module *m)
{
    for (uint32_t i = 0; i < m->n_imports; i++) {
        const struct dz_wasm_import *im = &m->imports[i];
        if (im->kind != DZ_WASM_KIND_FUNC || im->module.size != 8 ||
            memcmp(m->wasm + im->module.offset, "spectest", 8) != 0)
            return false;
    }
    return m->header->start == DZ_WASM_NONE;
}

/* Scalars only: the slots of the arguments, or false. */
static bool read_args(struct call *c, json_t *args)
{
    size_t i;
    json_t *arg;
    json_array_foreach(args, i, arg)
    {
        const char *type = text_of(arg, "type");
        bool narrow = strcmp(type, "i32") == 0 || strcmp(type, "f32") == 0;
        if (i == ARGS_MAX || (!narrow && strcmp(type, "i64") != 0 && strcmp(type, "f64") != 0))
            return false;
        c->args[i] = strtoull(text_of(arg, "value"), NULL, 10);
        if (narrow)
            c->args[i] = (uint32_t)c->args[i];
        c->arg_count++;
    }
    return true;
}

static void note_call(const char *path, const struct dz_wasm_module *m, json_t *action)
{
    json_t *field = json_object_get(action, "field");
    struct call c = {0};
    uint32_t e = dz_wasm_module_export(m, json_string_value(field), json_string_length(field));
    if (call_count == CALLS_MAX || e == DZ_WASM_NONE || m->exports[e].kind != DZ_WASM_KIND_FUNC ||
        strlen(json_string_value(field)) != json_string_length(field) ||
        !read_args(&c, json_object_get(action, "args")))
        return;
    c.body_size = m->funcs[m->exports[e].index].body_size;
    c.path = strdup(path);
    c.name = strdup(json_string_value(field));
    calls[call_count++] = c;
}

static bool open_module(struct bytes *wasm, void **ret_flat, struct dz_wasm_module **ret_module)
{
    size_t size;
    return dz_wasm_prepare_alloc(wasm->p, wasm->size, DZ_WASM_F_ALL, ret_flat, &size, NULL) == 0 &&
           dz_wasm_module_open(*ret_flat, size, ret_module, NULL) == 0;
}

static int note_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    char wasm_path[4096] = "";
    struct dz_wasm_module *m = NULL;
    void *flat = NULL;
    size_t i;
    json_t *cmd, *root;
    (void)st, (void)ftw;
    if (type != FTW_F || !strstr(path, ".json") ||
        !(root = json_load_file(path, JSON_ALLOW_NUL, NULL)))
        return 0;
    json_array_foreach(json_object_get(root, "commands"), i, cmd)
    {
        json_t *action = json_object_get(cmd, "action");
        if (strcmp(text_of(cmd, "type"), "module") == 0) {
            struct bytes wasm = {0};
            dz_wasm_module_close(m);
            dz_free(flat);
            m = NULL;
            flat = NULL;
            snprintf(wasm_path, sizeof wasm_path, "%.*s/%s", (int)(strrchr(path, '/') - path), path,
                     text_of(cmd, "filename"));
            if (bytes_file(&wasm, wasm_path))
                (void)open_module(&wasm, &flat, &m);
            bytes_free(&wasm);
        } else if (m && strcmp(text_of(cmd, "type"), "assert_return") == 0 &&
                   strcmp(text_of(action, "type"), "invoke") == 0 &&
                   !json_object_get(action, "module") && stands_alone(m)) {
            note_call(wasm_path, m, action);
        }
    }
    dz_wasm_module_close(m);
    dz_free(flat);
    json_decref(root);
    return 0;
}

/* Longest first; the calls of one function together. */
static int by_length(const void *a, const void *b)
{
    const struct call *x = a, *y = b;
    if (x->body_size != y->body_size)
        return x->body_size < y->body_size ? 1 : -1;
    int order = strcmp(x->path, y->path);
    return order ? order : strcmp(x->name, y->name);
}

static struct outcome finish_call(const struct call *c, const struct bytes *wasm)
{
    struct world w;
    world_open(&w, wasm->p, wasm->size, DZ_WASM_DISPATCH_SWITCH);
    world_begin(&w, c->name, c->args, c->arg_count);
    struct outcome o = world_finish(&w);
    world_close(&w);
    return o;
}

static uint32_t try_call(const struct call *c)
{
    struct bytes wasm = {0};
    struct world w;
    uint32_t stops = 0;
    char what[512];
    CHECK(bytes_file(&wasm, c->path));
    struct outcome whole = finish_call(c, &wasm);
    world_open(&w, wasm.p, wasm.size, DZ_WASM_DISPATCH_GOTO);
    world_begin(&w, c->name, c->args, c->arg_count);
    snprintf(what, sizeof what, "%s %s (%u bytes)", c->path, c->name, c->body_size);
    enum dz_wasm_stop stop;
    while (!stop_is_final(stop = world_step(&w)))
        if (stops++ < STOPS_MAX) {
            struct outcome o = fresh_finish(&w, wasm.p, wasm.size);
            CHECK(outcome_same(&o, &whole, what));
        }
    struct outcome o = world_outcome(&w, stop);
    CHECK(outcome_same(&o, &whole, what));
    world_close(&w);
    bytes_free(&wasm);
    return stops;
}

TEST(freeze_in_the_longest_functions_of_the_specification)
{
    const char *dir = getenv("DOZE_SPEC_DIR");
    size_t functions = 0;
    uint32_t stops = 0;
    calls = calloc(CALLS_MAX, sizeof *calls);
    if (!calls || !dir || nftw(dir, note_file, 16, FTW_PHYS) != 0 || call_count == 0)
        SKIP("WebAssembly's tests are not here (DOZE_SPEC_DIR, set by make freeze)");
    qsort(calls, call_count, sizeof *calls, by_length);
    for (size_t i = 0; i < call_count && functions < FUNCTIONS; i++) {
        bool again = i && strcmp(calls[i].path, calls[i - 1].path) == 0 &&
                     strcmp(calls[i].name, calls[i - 1].name) == 0;
        if (again)
            continue;
        functions++;
        stops += try_call(&calls[i]);
    }
    printf("# %zu functions, %u safepoints\n", functions, stops);
    CHECK_INT(functions, FUNCTIONS);
    CHECK(stops > FUNCTIONS);
    for (size_t i = 0; i < call_count; i++) {
        free(calls[i].path);
        free(calls[i].name);
    }
    free(calls);
}

/* SPDX-License-Identifier: MIT
 *
 * spec_run.c - runs the commands of one file against the engine.
 *
 * The file is {"commands": [...]}. A command that is an assertion counts as
 * passed or failed; a command that only prepares (module, register, action)
 * counts when it fails. One store holds every module of the file, as the
 * tests import from one another. A module that does not load leaves none
 * current, so what follows fails instead of testing an older one.
 */
#include "spec.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A module that stays loaded for as long as its store may run it. */
struct loaded {
    void *flat;
    struct dz_wasm_module *module;
    struct dz_wasm_inst *inst; /* NULL: instantiation failed */
    const char *name;          /* "$m", borrowed from the JSON; NULL: none */
    struct loaded *next;
};

struct run {
    const struct spec_options *opt;
    const char *dir; /* where the .wasm files are */
    struct dz_wasm_store *store;
    struct loaded *all;     /* newest first */
    struct loaded *current; /* what actions without a name mean */
    uint64_t results[SPEC_SLOTS_MAX];
    uint32_t result_count;
    json_t *registered; /* names under which modules can be imported: {name: true} */
    char why[SPEC_WHY_MAX];
};

#define FAIL(r, ...) (snprintf((r)->why, sizeof(r)->why, __VA_ARGS__), false)

static const char *text_of(json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

/* --- modules ------------------------------------------------------------------ */

static void *read_file(const char *path, size_t *ret_size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    size_t size = 0, cap = 1 << 20, got;
    char *bytes = malloc(cap);
    while (bytes && (got = fread(bytes + size, 1, cap - size, f)) > 0) {
        size += got;
        if (size == cap) {
            char *more = realloc(bytes, cap *= 2);
            if (!more)
                free(bytes);
            bytes = more;
        }
    }
    fclose(f);
    *ret_size = size;
    return bytes;
}

static struct loaded *load_bytes(struct run *r, const void *bytes, size_t size, struct dz_err *err)
{
    struct loaded *m = calloc(1, sizeof *m);
    size_t flat_size = 0;
    if (!m)
        return NULL;
    if (dz_wasm_prepare_alloc(bytes, size, r->opt->features, &m->flat, &flat_size, err) < 0 ||
        dz_wasm_module_open(m->flat, flat_size, &m->module, err) < 0) {
        dz_free(m->flat);
        free(m);
        return NULL;
    }
    m->next = r->all;
    r->all = m;
    return m;
}

/* The module of a command's "filename"; NULL with *err filled. */
static struct loaded *load_file(struct run *r, json_t *cmd, struct dz_err *err)
{
    char path[4096];
    size_t size = 0;
    snprintf(path, sizeof path, "%s/%s", r->dir, text_of(cmd, "filename"));
    void *bytes = read_file(path, &size);
    if (!bytes) {
        dz_fail(err, DZ_EIO, "cannot read %s", path);
        return NULL;
    }
    struct loaded *m = load_bytes(r, bytes, size, err);
    free(bytes);
    return m;
}

static enum dz_wasm_stop finish(struct run *r)
{
    enum dz_wasm_stop stop = dz_wasm_run(r->store);
    if (stop != DZ_WASM_DONE && stop != DZ_WASM_TRAPPED)
        dz_wasm_abandon(r->store);
    return stop;
}

static const char *stop_text(struct run *r, enum dz_wasm_stop stop)
{
    static const char *const texts[] = {
        [DZ_WASM_DONE] = "returned",  [DZ_WASM_INTERRUPTED] = "was interrupted",
        [DZ_WASM_BLOCKED] = "blocks", [DZ_WASM_OUT_OF_FUEL] = "is out of fuel",
        [DZ_WASM_EXITED] = "exited",  [DZ_WASM_UNCAUGHT] = "threw",
    };
    if (stop == DZ_WASM_TRAPPED)
        return dz_wasm_trap_text(dz_wasm_trap_get(r->store).kind);
    return texts[stop];
}

/* Instantiate and run the start function. True and *ret_stop; or false with *err. */
static bool instantiate(struct run *r, struct loaded *m, enum dz_wasm_stop *ret_stop,
                        struct dz_err *err)
{
    *ret_stop = DZ_WASM_DONE;
    if (dz_wasm_instantiate(r->store, m->module,
                            &(struct dz_wasm_imports){spec_host, spec_host_count, NULL}, &m->inst,
                            err) < 0)
        return false;
    int start = dz_wasm_begin_start(m->inst, err);
    if (start > 0)
        *ret_stop = finish(r);
    return start >= 0;
}

static struct loaded *find_module(struct run *r, const char *name)
{
    if (!*name)
        return r->current;
    for (struct loaded *m = r->all; m; m = m->next)
        if (m->inst && m->name && strcmp(m->name, name) == 0)
            return m;
    return NULL;
}

/* --- actions -------------------------------------------------------------------- */

/* The export that an action names, whatever bytes its name has. */
static bool find_export(struct run *r, json_t *action, uint32_t kind, struct loaded **ret_module,
                        uint32_t *ret_index)
{
    json_t *field = json_object_get(action, "field");
    struct loaded *m = find_module(r, text_of(action, "module"));
    if (!m)
        return FAIL(r, "no module %s", text_of(action, "module"));
    uint32_t e =
        dz_wasm_module_export(m->module, json_string_value(field), json_string_length(field));
    if (e == DZ_WASM_NONE || m->module->exports[e].kind != kind)
        return FAIL(r, "no export %s", json_string_value(field));
    *ret_module = m;
    *ret_index = m->module->exports[e].index;
    return true;
}

static bool do_invoke(struct run *r, json_t *action, enum dz_wasm_stop *ret_stop)
{
    struct dz_err err = {0};
    struct loaded *m;
    uint32_t func, params;
    uint64_t args[SPEC_SLOTS_MAX + 2];
    size_t i, count = 0;
    json_t *arg;
    if (!find_export(r, action, DZ_WASM_KIND_FUNC, &m, &func))
        return false;
    json_array_foreach(json_object_get(action, "args"), i, arg)
    {
        int n = count < SPEC_SLOTS_MAX ? spec_value_read(arg, args + count) : -1;
        if (n < 0)
            return FAIL(r, "argument %zu has an unknown type", i);
        count += (size_t)n;
    }
    if (dz_wasm_func_slots(m->inst, func, &params, &r->result_count) < 0 || params != count)
        return FAIL(r, "%s takes %u slots, not %zu", text_of(action, "field"), params, count);
    if (r->result_count > SPEC_SLOTS_MAX)
        return FAIL(r, "%s has %u result slots", text_of(action, "field"), r->result_count);
    if (dz_wasm_begin(m->inst, func, args, count, &err) < 0)
        return FAIL(r, "begin: %s", err.msg);
    *ret_stop = finish(r);
    if (*ret_stop == DZ_WASM_DONE && r->result_count)
        memcpy(r->results, dz_wasm_results(r->store), r->result_count * sizeof r->results[0]);
    return true;
}

/* Perform the action; its results lie in r->results when it returned. */
static bool do_action(struct run *r, json_t *action, enum dz_wasm_stop *ret_stop)
{
    struct loaded *m;
    uint32_t global;
    if (strcmp(text_of(action, "type"), "invoke") == 0)
        return do_invoke(r, action, ret_stop);
    if (!find_export(r, action, DZ_WASM_KIND_GLOBAL, &m, &global))
        return false;
    r->result_count = dz_wasm_valtype_slots(m->module->globals[global].type);
    memcpy(r->results, dz_wasm_global(m->inst, global), r->result_count * sizeof r->results[0]);
    *ret_stop = DZ_WASM_DONE;
    return true;
}

static bool do_action_of(struct run *r, json_t *cmd, enum dz_wasm_stop *ret_stop)
{
    return do_action(r, json_object_get(cmd, "action"), ret_stop);
}

/* Does one of the two texts begin with the other? "uninitialized element 2"
 * is more than an engine need say. */
static bool same_text(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b), n = na < nb ? na : nb;
    return n > 0 && memcmp(a, b, n) == 0;
}

/* --- commands ----------------------------------------------------------------------- */

static bool cmd_module(struct run *r, json_t *cmd)
{
    struct dz_err err = {0};
    enum dz_wasm_stop stop;
    r->current = NULL;
    struct loaded *m = load_file(r, cmd, &err);
    if (!m || !instantiate(r, m, &stop, &err))
        return FAIL(r, "%s", err.msg);
    m->name = json_string_value(json_object_get(cmd, "name"));
    r->current = m;
    return stop == DZ_WASM_DONE || FAIL(r, "the start function %s", stop_text(r, stop));
}

static bool cmd_register(struct run *r, json_t *cmd)
{
    struct dz_err err = {0};
    struct loaded *m = find_module(r, text_of(cmd, "name"));
    if (!m)
        return FAIL(r, "no module %s", text_of(cmd, "name"));
    (void)json_object_set_new(r->registered, text_of(cmd, "as"), json_true());
    return dz_wasm_register(r->store, text_of(cmd, "as"), m->inst, &err) >= 0 ||
           FAIL(r, "%s", err.msg);
}

static bool cmd_action(struct run *r, json_t *cmd)
{
    enum dz_wasm_stop stop;
    return do_action_of(r, cmd, &stop) &&
           (stop == DZ_WASM_DONE || FAIL(r, "%s", stop_text(r, stop)));
}

static bool cmd_assert_return(struct run *r, json_t *cmd)
{
    json_t *want;
    size_t i;
    uint32_t at = 0;
    if (!cmd_action(r, cmd))
        return false;
    json_array_foreach(json_object_get(cmd, "expected"), i, want)
    {
        uint64_t pair[2] = {0, 0}; /* so that reading a v128 stays inside */
        for (uint32_t k = 0; k < 2 && at + k < r->result_count; k++)
            pair[k] = r->results[at + k];
        int n = spec_value_match(want, pair, r->why, sizeof r->why);
        if (n <= 0)
            return false;
        at += (uint32_t)n;
    }
    return at == r->result_count || FAIL(r, "%u slots of results, not %u", r->result_count, at);
}

static bool cmd_assert_trap(struct run *r, json_t *cmd)
{
    enum dz_wasm_stop stop;
    const char *want = text_of(cmd, "text");
    if (!do_action_of(r, cmd, &stop))
        return false;
    return (stop == DZ_WASM_TRAPPED && same_text(stop_text(r, stop), want)) ||
           FAIL(r, "%s, not %s", stop_text(r, stop), want);
}

static bool cmd_assert_exception(struct run *r, json_t *cmd)
{
    enum dz_wasm_stop stop;
    return do_action_of(r, cmd, &stop) &&
           (stop == DZ_WASM_UNCAUGHT || FAIL(r, "%s, not threw", stop_text(r, stop)));
}

/* Invalid and malformed: preparing refuses it, and says why. That may be what
 * comes first in the module: something doze has not, or more than its limits. */
static bool cmd_assert_refused(struct run *r, json_t *cmd)
{
    struct dz_err err = {0};
    if (load_file(r, cmd, &err))
        return FAIL(r, "accepted, not %s", text_of(cmd, "text"));
    bool refused = err.code == DZ_EINVAL || err.code == DZ_EUNSUPPORTED || err.code == DZ_ELIMIT;
    return (refused && err.msg[0]) || FAIL(r, "%s: %s", dz_err_name(err.code), err.msg);
}

/* The module is valid and does not come to life: a segment or the start function traps. */
static bool cmd_assert_uninstantiable(struct run *r, json_t *cmd)
{
    struct dz_err err = {0};
    enum dz_wasm_stop stop;
    const char *want = text_of(cmd, "text");
    struct loaded *m = load_file(r, cmd, &err);
    if (!m)
        return FAIL(r, "%s", err.msg);
    if (!instantiate(r, m, &stop, &err))
        return (err.code == DZ_ESTATE && strstr(err.msg, want)) ||
               FAIL(r, "%s, not %s", err.msg, want);
    return (stop == DZ_WASM_TRAPPED && same_text(stop_text(r, stop), want)) ||
           FAIL(r, "start %s, not %s", stop_text(r, stop), want);
}

/* Does the module import from one that the file never made? The converted file
 * leaves out modules that need typed references, and what it then expects of an
 * import from them is another error than the one there is. */
static bool imports_from_nowhere(const struct run *r, const struct dz_wasm_module *m)
{
    for (uint32_t i = 0; i < m->n_imports; i++) {
        const struct dz_wasm_name *name = &m->imports[i].module;
        if (!json_object_getn(r->registered, (const char *)m->wasm + name->offset, name->size))
            return true;
    }
    return false;
}

static bool cmd_assert_unlinkable(struct run *r, json_t *cmd)
{
    struct dz_err err = {0};
    enum dz_wasm_stop stop;
    const char *want = text_of(cmd, "text");
    int code = strcmp(want, "unknown import") == 0 ? DZ_ENOENT : DZ_EINVAL;
    struct loaded *m = load_file(r, cmd, &err);
    if (!m)
        return FAIL(r, "%s", err.msg);
    if (instantiate(r, m, &stop, &err))
        return FAIL(r, "instantiated, not %s", want);
    if (err.code == DZ_ENOENT && imports_from_nowhere(r, m->module))
        return true;
    return err.code == code || FAIL(r, "%s (%s), not %s", err.msg, dz_err_name(err.code), want);
}

static const struct command {
    const char *type;
    bool is_assertion;
    bool (*run)(struct run *r, json_t *cmd);
} commands[] = {
    {"module", false, cmd_module},
    {"register", false, cmd_register},
    {"action", false, cmd_action},
    {"assert_return", true, cmd_assert_return},
    {"assert_trap", true, cmd_assert_trap},
    {"assert_exhaustion", true, cmd_assert_trap},
    {"assert_exception", true, cmd_assert_exception},
    {"assert_invalid", true, cmd_assert_refused},
    {"assert_malformed", true, cmd_assert_refused},
    {"assert_uninstantiable", true, cmd_assert_uninstantiable},
    {"assert_unlinkable", true, cmd_assert_unlinkable},
};

/* --- a file ----------------------------------------------------------------------------- */

static const struct command *find_command(json_t *cmd)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(commands); i++)
        if (strcmp(commands[i].type, text_of(cmd, "type")) == 0)
            return &commands[i];
    return NULL;
}

/* A module in text form is the one thing that is left out. */
static bool is_text(json_t *cmd)
{
    return strcmp(text_of(cmd, "module_type"), "text") == 0;
}

static bool open_store(struct run *r, struct dz_err *err)
{
    struct dz_wasm_config cfg = {
        .dispatch = r->opt->dispatch, .wide_frames = r->opt->wide, .stack_slots = SPEC_STACK};
    enum dz_wasm_stop stop;
    if (dz_wasm_store_new(&cfg, &r->store, err) < 0)
        return false;
    struct loaded *m = load_bytes(r, spec_host_module, spec_host_module_size, err);
    return m && instantiate(r, m, &stop, err) &&
           dz_wasm_register(r->store, "spectest", m->inst, err) >= 0;
}

static void close_all(struct run *r)
{
    dz_wasm_store_free(r->store);
    while (r->all) {
        struct loaded *m = r->all;
        r->all = m->next;
        dz_wasm_module_close(m->module);
        dz_free(m->flat);
        free(m);
    }
}

static void run_commands(struct run *r, json_t *list, const char *path, struct spec_count *count)
{
    size_t i;
    json_t *cmd;
    json_array_foreach(list, i, cmd)
    {
        const struct command *c = find_command(cmd);
        if (is_text(cmd))
            continue;
        r->why[0] = '\0';
        if (c && c->run(r, cmd)) {
            count->passed += c->is_assertion;
            continue;
        }
        if (++count->failed <= SPEC_SHOWN_MAX)
            printf("FAIL %s %s:%d %s: %s\n", r->opt->label, strrchr(path, '/') + 1,
                   (int)json_integer_value(json_object_get(cmd, "line")), text_of(cmd, "type"),
                   c ? r->why : "no such command");
    }
}

void spec_run_file(const struct spec_options *opt, const char *path, struct spec_count *count)
{
    struct dz_err err = {0};
    json_error_t json_err;
    char dir[4096];
    snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(path, '/') - path), path);
    struct run r = {.opt = opt, .dir = dir, .registered = json_pack("{s:b}", "spectest", 1)};
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &json_err), *list, *cmd;
    list = json_object_get(root, "commands");
    size_t i;
    json_array_foreach(list, i, cmd) count->total +=
        !is_text(cmd) && strncmp(text_of(cmd, "type"), "assert_", 7) == 0;
    if (json_array_size(list) == 0 || !open_store(&r, &err)) {
        printf("FAIL %s %s: %s\n", opt->label, path, root ? err.msg : json_err.text);
        count->failed++;
    } else {
        run_commands(&r, list, path, count);
    }
    close_all(&r);
    json_decref(r.registered);
    json_decref(root);
}

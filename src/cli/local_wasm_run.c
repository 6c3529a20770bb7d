/* SPDX-License-Identifier: MIT
 *
 * `doze wasm run`: run a module without imports, or call one of its functions, in a jail. Values
 * are read and printed as text. A program with imports runs as the first process of a sandbox:
 * local_wasm_cell.c.
 */
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/cli.h"
#include "cli/cli_term.h"
#include "cli/local_wasm.h"
#include "wasm/wasm.h"

#include <inttypes.h>
#include <math.h>

enum {
    JSON_MAX = 1 << 18,     /* a thousand results */
    TRACE_MAX = 20,         /* frames shown of a trap */
    FEW_IMPORTS = 3,        /* this many names fit into one message */
    VALUE_TEXT = 40,        /* room for a value: v128 has 34 characters */
    WANTS_A_MACHINE = 1000, /* not an exit status: the program has imports */
};

struct program {
    struct dz_cli_module file;
    struct dz_wasm_store *store;
    struct dz_wasm_inst *inst;
};

static void release(struct program *p)
{
    dz_wasm_store_free(p->store);
    dz_cli_module_close(&p->file);
}

/* --- numbers in -------------------------------------------------------------------- */

static int parse_float(struct dz_str s, double max, double *ret, struct dz_err *err)
{
    struct dz_str digits = s;
    bool minus = dz_str_eat(&digits, DZ_STR("-"));
    if (dz_str_eqz(digits, "inf"))
        *ret = minus ? -HUGE_VAL : HUGE_VAL;
    else if (dz_str_eqz(digits, "nan"))
        *ret = minus ? -(double)NAN : (double)NAN;
    else
        return dz_num_double(s, -max, max, ret, err);
    return 0;
}

/* Parse a v128: "0x" and up to 32 hexadecimal digits. */
static int parse_v128(struct dz_str s, uint64_t ret[2], struct dz_err *err)
{
    char quoted[DZ_STR_QUOTED];
    struct dz_str rest = s;
    uint64_t low = 0, high = 0;
    bool good = dz_str_eat(&rest, DZ_STR("0x")) && rest.n >= 1 && rest.n <= 32;
    for (size_t i = 0; good && i < rest.n; i++) {
        int digit = dz_hex_digit(rest.p[i]);
        good = digit >= 0;
        high = high << 4 | low >> 60;
        low = low << 4 | (uint64_t)(digit & 15);
    }
    if (!good)
        return dz_fail(err, DZ_EINVAL,
                       "%s is not a v128, which is 0x and up to 32 hexadecimal digits",
                       dz_str_quote(s, quoted));
    ret[0] = low;
    ret[1] = high;
    return 0;
}

/* Put one argument into its slots (two for v128). */
static int parse_value(struct dz_str s, unsigned type, uint64_t *ret, struct dz_err *err)
{
    int64_t integer = 0;
    double real = 0;
    float narrow;
    int rc = 0;
    switch (type) {
    case DZ_WASM_I32:
        rc = dz_num_i64(s, INT32_MIN, UINT32_MAX, &integer, err);
        *ret = (uint32_t)integer;
        return rc;
    case DZ_WASM_I64:
        if (dz_num_u64(s, 0, UINT64_MAX, ret, NULL) == 0)
            return 0;
        rc = dz_num_i64(s, INT64_MIN, INT64_MAX, &integer, err);
        *ret = (uint64_t)integer;
        return rc;
    case DZ_WASM_F32:
        /* values that round to infinity are out of range */
        rc = parse_float(s, 3.4028235677973366e38, &real, err);
        narrow = (float)real;
        *ret = 0;
        memcpy(ret, &narrow, sizeof narrow);
        return rc;
    case DZ_WASM_F64:
        rc = parse_float(s, 1.7976931348623157e308, &real, err);
        memcpy(ret, &real, sizeof real);
        return rc;
    case DZ_WASM_V128:
        return parse_v128(s, ret, err);
    default:
        *ret = 0;
        if (dz_str_eqz(s, "null"))
            return 0;
        return dz_fail(err, DZ_EINVAL, "a %s can only be null here", dz_wasm_valtype_text(type));
    }
}

/* --- numbers out ---------------------------------------------------------------------- */

static void print_float(char out[static VALUE_TEXT], double v, int digits, int most)
{
    for (; digits <= most; digits++) { /* the fewest digits that read back as v */
        struct dz_str s;
        double back;
        (void)snprintf(out, VALUE_TEXT, "%.*g", digits, v);
        s = dz_str(out);
        if (!isfinite(v) || (dz_num_double(s, -HUGE_VAL, HUGE_VAL, &back, NULL) == 0 &&
                             (most > 9 ? back == v : (float)back == (float)v)))
            return;
    }
}

static void print_value(char out[static VALUE_TEXT], unsigned type, const uint64_t *slot)
{
    float narrow;
    double real;
    switch (type) {
    case DZ_WASM_I32:
        (void)snprintf(out, VALUE_TEXT, "%" PRId32, (int32_t)*slot);
        break;
    case DZ_WASM_I64:
        (void)snprintf(out, VALUE_TEXT, "%" PRId64, (int64_t)*slot);
        break;
    case DZ_WASM_F32:
        memcpy(&narrow, slot, sizeof narrow);
        print_float(out, (double)narrow, 6, 9);
        break;
    case DZ_WASM_F64:
        memcpy(&real, slot, sizeof real);
        print_float(out, real, 15, 17);
        break;
    case DZ_WASM_V128:
        (void)snprintf(out, VALUE_TEXT, "0x%016" PRIx64 "%016" PRIx64, slot[1], slot[0]);
        break;
    default:
        (void)snprintf(out, VALUE_TEXT, "%s", *slot ? dz_wasm_valtype_text(type) : "null");
        break;
    }
}

static int print_results(struct dz_cli *c, const struct program *p, uint32_t func,
                         struct dz_err *err)
{
    const struct dz_wasm_module *m = p->file.m;
    const struct dz_wasm_type *t = &m->types[m->funcs[func].type];
    const uint8_t *types = m->valtypes + t->params + t->n_params;
    const uint64_t *slot = dz_wasm_results(p->store);
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(JSON_MAX);
    char value[VALUE_TEXT];
    struct dz_json j;
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
    dz_json_key(&j, "results");
    dz_json_array(&j);
    for (uint32_t i = 0; i < t->n_results; i++) {
        print_value(value, types[i], slot);
        slot += dz_wasm_valtype_slots(types[i]);
        if (!c->json)
            fprintf(c->out, "%s\n", value);
        dz_json_object(&j);
        dz_json_put_strz(&j, "type", dz_wasm_valtype_text(types[i]));
        dz_json_put_strz(&j, "value", value);
        dz_json_end(&j);
    }
    dz_json_end(&j);
    dz_json_end(&j);
    return c->json ? dz_cli_print_json(c, &text, dz_json_finish(&j), err) : 0;
}

/* --- running ---------------------------------------------------------------------------- */

static void warn_frame(struct dz_cli *c, const struct program *p, struct dz_wasm_pos at,
                       const char *what)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    char name[200];
    dz_cli_escape(&text, dz_str(dz_wasm_module_func_name(p->file.m, at.func, name, sizeof name)));
    dz_cli_warn(c, "%s %s, byte 0x%" PRIx32, what, text.p, at.offset);
}

/* Report what stopped the program; returns the exit status. */
static int report(struct dz_cli *c, const struct program *p, enum dz_wasm_stop stop)
{
    struct dz_wasm_pos frames[TRACE_MAX];
    if (stop == DZ_WASM_UNCAUGHT) {
        dz_cli_warn(c, "the program threw an exception that nothing catches");
        return DZ_EXIT_SIGNAL;
    }
    struct dz_wasm_trap trap = dz_wasm_trap_get(p->store);
    dz_cli_warn(c, "trap: %s", dz_wasm_trap_text(trap.kind));
    warn_frame(c, p, trap.at, "in");
    size_t n = dz_wasm_trace(p->store, frames, TRACE_MAX);
    for (size_t i = 1; i < n && i < TRACE_MAX; i++)
        warn_frame(c, p, frames[i], "called from");
    if (n > TRACE_MAX)
        dz_cli_warn(c, "and %zu more", n - TRACE_MAX);
    return DZ_EXIT_SIGNAL + (int)trap.kind;
}

/* Run the call that dz_wasm_begin prepared: 0 when it returned, otherwise an exit status. */
static int go(struct dz_cli *c, const struct program *p)
{
    enum dz_wasm_stop stop;
    do
        stop = dz_wasm_run(p->store);
    while (stop == DZ_WASM_INTERRUPTED);
    return stop == DZ_WASM_DONE ? 0 : report(c, p, stop);
}

/* Parse the arguments, call the function, print its results. */
static int call(struct dz_cli *c, const struct program *p, uint32_t func, struct dz_err *err)
{
    const struct dz_wasm_module *m = p->file.m;
    const struct dz_wasm_type *t = &m->types[m->funcs[func].type];
    uint32_t given = (uint32_t)c->argc - 1, slot = 0;
    if (given != t->n_params) {
        DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
        dz_cli_module_type(&text, m, m->funcs[func].type);
        return dz_cli_usage(c, err, "%" PRIu32 " arguments for a function of type %s", given,
                            text.p);
    }
    DZ_AUTO(dz_freep) uint64_t *args = dz_zalloc((t->param_slots + 1) * sizeof *args);
    if (!args)
        return dz_fail(err, DZ_ENOMEM, "no memory for %" PRIu32 " arguments", given);
    for (uint32_t i = 0; i < given; i++) {
        unsigned type = m->valtypes[t->params + i];
        int rc = parse_value(dz_str(c->argv[1 + i]), type, args + slot, err);
        if (rc < 0)
            return dz_wrap(err, rc, "argument %" PRIu32 " (%s)", i + 1, dz_wasm_valtype_text(type));
        slot += dz_wasm_valtype_slots(type);
    }
    int rc = dz_wasm_begin(p->inst, func, args, t->param_slots, err);
    if (rc < 0)
        return rc;
    rc = go(c, p);
    return rc ? rc : print_results(c, p, func, err);
}

/* The exported function of a name, or DZ_WASM_NONE. */
static uint32_t find_function(const struct dz_wasm_module *m, const char *name)
{
    uint32_t at = dz_wasm_module_export(m, name, strlen(name));
    if (at == DZ_WASM_NONE || m->exports[at].kind != DZ_WASM_KIND_FUNC)
        return DZ_WASM_NONE;
    return m->exports[at].index;
}

static int no_function(struct dz_cli *c, const char *name, struct dz_err *err)
{
    char quoted[DZ_STR_QUOTED];
    if (!name)
        return dz_cli_usage(c, err,
                            "the module has no start function and exports no _start: name a "
                            "function with --invoke (doze wasm info lists them)");
    return dz_fail(err, DZ_ENOENT, "the module exports no function %s; doze wasm info lists them",
                   dz_str_quote(dz_str(name), quoted));
}

/* List the imports that --invoke cannot provide. Names that do not fit into the message are printed
 * before it, one per line. */
static int no_imports(struct dz_cli *c, const struct program *p, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf names = DZ_BUF_INIT(JSON_MAX);
    int count = dz_wasm_missing(p->store, p->file.m, NULL, 0, &names);
    if (count <= FEW_IMPORTS)
        return dz_wrap(err, DZ_ENOENT, "a function called by --invoke gets no imports");
    for (const char *at = names.p, *end; (end = strchr(at, '\n')); at = end + 1)
        dz_cli_warn(c, "missing: %.*s", (int)(end - at), at);
    return dz_fail(err, DZ_ENOENT,
                   "a function called by --invoke gets no imports, and the module requires %d",
                   count);
}

static int run_program(struct dz_cli *c, struct program *p, struct dz_err *err)
{
    const struct dz_wasm_config config = {0};
    const char *name = dz_cli_value(c, "invoke");
    int rc = dz_cli_module_open(c, &p->file, err);
    if (rc < 0)
        return rc;
    if (!name && p->file.m->n_imports > 0)
        return WANTS_A_MACHINE;
    if (dz_cli_value(c, "dir") || dz_cli_value(c, "env"))
        return dz_cli_usage(c, err, "--dir and --env are for programs that import WASI");
    uint32_t func = find_function(p->file.m, name ? name : "_start");
    bool only_start = !name && func == DZ_WASM_NONE;
    if (func == DZ_WASM_NONE && !(only_start && p->file.m->header->start != DZ_WASM_NONE))
        return no_function(c, name, err);
    if (only_start && c->argc > 1)
        return dz_cli_usage(c, err, "a start function takes no arguments");
    rc = dz_wasm_store_new(&config, &p->store, err);
    if (rc == 0)
        rc = dz_wasm_instantiate(p->store, p->file.m, NULL, &p->inst, err);
    if (rc == DZ_ENOENT)
        return no_imports(c, p, err);
    if (rc == 0)
        rc = dz_wasm_begin_start(p->inst, err);
    if (rc > 0)
        rc = go(c, p);
    if (rc != 0 || only_start)
        return rc;
    return call(c, p, func, err);
}

static int run(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(release) struct program p = {0};
    return run_program(c, &p, err);
}

static int run_jail(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_fd_close) int fd = -1;
    int rc = dz_cli_module_jail_with(c, -1, &fd, err);
    return rc == WANTS_A_MACHINE ? dz_cli_wasm_in_cell(c, fd, err) : rc;
}

const struct dz_cli_command dz_cmd_wasm_run = {
    .name = "wasm run",
    .group = DZ_CLI_GROUP_WASM,
    .summary = "run a WebAssembly module or a WASI program",
    .args = "FILE [ARG...]",
    .min_args = 1,
    .max_args = -1,
    .options =
        (const struct dz_cli_option[]){
            {"invoke", 'i', "NAME", "call this exported function with the arguments"},
            {"dir", 'd', "HOST:GUEST", "copy a directory in, preopened as GUEST (repeatable)"},
            {"env", 'e', "K=V", "set a variable (repeatable)"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_END,
        },
    .help = "Runs the module's start function and then the function that --invoke names, or\n"
            "_start. FILE may be - for standard input. Results are printed one per line.\n"
            "\n"
            "A program that imports WASI preview 1 or the process ABI runs in a sandbox of\n"
            "its own on a scratch disk. It sees only the directories given by --dir, which\n"
            "are copied in. Its arguments are FILE and the words after it; its exit status\n"
            "is passed on.\n"
            "\n"
            "Arguments of a function are read by type: decimal or 0x integers (signed or\n"
            "unsigned), decimal numbers, inf, nan; a v128 is 0x and 32 digits; a reference\n"
            "can only be null. Put -- before a negative argument: --invoke abs -- -5.\n"
            "\n"
            "A trap is reported with the functions that were running; the exit status is\n"
            "then above 128.\n",
    .run = run,
    .jail = run_jail,
};

/* SPDX-License-Identifier: MIT
 *
 * `doze wasm info`: what a WebAssembly module requires and exports.
 */
#include "base/hash.h"
#include "base/json.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "cli/cli_table.h"
#include "cli/cli_term.h"
#include "cli/local_wasm.h"

#include <inttypes.h>

typedef const struct dz_wasm_module module;

enum {
    JSON_MAX = 256 << 20, /* enough for a million exports with names */
};

static const char *const section_names[DZ_WASM_SECTIONS] = {
    "custom", "type",  "import",  "function", "table", "memory",     "global",
    "export", "start", "element", "code",     "data",  "data count", "tag"};

static const struct {
    uint32_t bit;
    const char *name;
} features[] = {
#define X(id, bit, text) {1u << (bit), text},
    DZ_WASM_FEATURE_MAP(X)
#undef X
};

static void add_range(struct dz_buf *out, uint32_t min, uint32_t max, bool has_max)
{
    dz_buf_addf(out, "%" PRIu32, min);
    if (has_max)
        dz_buf_addf(out, " to %" PRIu32, max);
}

/* Describe the type of an entry of an index space. */
static void add_type(struct dz_buf *out, module *m, unsigned kind, uint32_t index)
{
    switch (kind) {
    case DZ_WASM_KIND_FUNC:
        dz_cli_module_type(out, m, m->funcs[index].type);
        break;
    case DZ_WASM_KIND_TABLE:
        dz_buf_addf(out, "%s, ", dz_wasm_valtype_text(m->tables[index].type));
        add_range(out, m->tables[index].min, m->tables[index].max, m->tables[index].has_max);
        break;
    case DZ_WASM_KIND_MEMORY:
        add_range(out, m->memories[index].min, m->memories[index].max, m->memories[index].has_max);
        dz_buf_adds(out, " pages");
        break;
    case DZ_WASM_KIND_GLOBAL:
        dz_buf_adds(out, m->globals[index].mutable ? "mut " : "");
        dz_buf_adds(out, dz_wasm_valtype_text(m->globals[index].type));
        break;
    default:
        dz_cli_module_type(out, m, m->tags[index].type);
        break;
    }
}

/* --- text --------------------------------------------------------------------------- */

static void print_count(struct dz_cli *c, const char *what, uint32_t n, uint32_t imported)
{
    if (n == 0)
        return;
    fprintf(c->out, "%-11s %" PRIu32, what, n);
    if (imported > 0)
        fprintf(c->out, " (%" PRIu32 " imported)", imported);
    fputc('\n', c->out);
}

static void print_features(struct dz_cli *c, uint32_t used)
{
    const char *between = "";
    fprintf(c->out, "%-11s ", "features");
    for (size_t i = 0; i < DZ_ARRAY_LEN(features); i++)
        if (used & features[i].bit) {
            fprintf(c->out, "%s%s", between, features[i].name);
            between = ", ";
        }
    fprintf(c->out, "%s\n", used ? "" : "none beyond WebAssembly 1.0");
}

static void print_memories(struct dz_cli *c, module *m)
{
    char size[DZ_CLI_SIZE_TEXT], max[DZ_CLI_SIZE_TEXT];
    for (uint32_t i = 0; i < m->n_memories; i++) {
        const struct dz_wasm_memory *mem = &m->memories[i];
        fprintf(c->out, "%-11s %s", i ? "" : "memory",
                dz_cli_size((uint64_t)mem->min * DZ_WASM_PAGE, size));
        if (mem->has_max)
            fprintf(c->out, ", at most %s", dz_cli_size((uint64_t)mem->max * DZ_WASM_PAGE, max));
        if (i == 0 && m->header->image_size > 0)
            fprintf(c->out, "; starts with %s of data from byte %" PRIu64,
                    dz_cli_size(m->header->image_size, size), m->header->image_at);
        fputc('\n', c->out);
    }
}

static void print_summary(struct dz_cli *c, module *m)
{
    const struct dz_wasm_header *h = m->header;
    char hex[DZ_SHA256_HEX], size[DZ_CLI_SIZE_TEXT];
    uint64_t code = 0;
    for (uint32_t i = 0; i < m->n_funcs; i++)
        code += m->funcs[i].body_size;
    fprintf(c->out, "%-11s %s, %" PRIu64 " bytes\n", "size", dz_cli_size(h->wasm_size, size),
            h->wasm_size);
    fprintf(c->out, "%-11s %s\n", "sha256", dz_sha256_hex(h->sha256, hex));
    print_features(c, h->features_used);
    print_count(c, "functions", m->n_funcs, h->n_imported[DZ_WASM_KIND_FUNC]);
    fprintf(c->out, "%-11s %s\n", "code", dz_cli_size(code, size));
    print_memories(c, m);
    print_count(c, "tables", m->n_tables, h->n_imported[DZ_WASM_KIND_TABLE]);
    print_count(c, "globals", m->n_globals, h->n_imported[DZ_WASM_KIND_GLOBAL]);
    print_count(c, "tags", m->n_tags, h->n_imported[DZ_WASM_KIND_TAG]);
    print_count(c, "elements", m->n_elems, 0);
    print_count(c, "data", m->n_datas, 0);
    if (h->start != DZ_WASM_NONE) {
        char name[80];
        DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
        dz_cli_escape(&text, dz_str(dz_wasm_module_func_name(m, h->start, name, sizeof name)));
        fprintf(c->out, "%-11s %s\n", "start", text.p);
    }
}

static void cell_type(struct dz_cli_table *t, module *m, unsigned kind, uint32_t index)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    add_type(&text, m, kind, index);
    dz_cli_table_cell(t, DZ_CLI_DIM, dz_str_n(text.p, text.len));
}

static int print_types(struct dz_cli *c, module *m, struct dz_err *err)
{
    static const struct dz_cli_column columns[] = {{"TYPE", true}, {"", false}};
    struct dz_cli_table t;
    dz_cli_table_init(&t, columns, DZ_ARRAY_LEN(columns));
    for (uint32_t i = 0; i < m->n_types; i++) {
        DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
        dz_cli_module_type(&text, m, i);
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%" PRIu32, i);
        dz_cli_table_cell(&t, DZ_CLI_DIM, dz_str_n(text.p, text.len));
    }
    int rc = dz_cli_table_print(&t, c, err);
    dz_cli_table_release(&t);
    return rc;
}

static int print_imports(struct dz_cli *c, module *m, struct dz_err *err)
{
    static const struct dz_cli_column columns[] = {{"IMPORT", false}, {"", false}, {"", false}};
    struct dz_cli_table t;
    dz_cli_table_init(&t, columns, DZ_ARRAY_LEN(columns));
    for (uint32_t i = 0; i < m->n_imports; i++) {
        const struct dz_wasm_import *im = &m->imports[i];
        DZ_AUTO(dz_buf_release) struct dz_buf name = DZ_BUF_INIT(DZ_LINE_MAX);
        dz_buf_addf(&name, "%.*s.%.*s", DZ_STR_ARG(dz_cli_module_name(m, im->module)),
                    DZ_STR_ARG(dz_cli_module_name(m, im->name)));
        dz_cli_table_cell(&t, DZ_CLI_PLAIN, dz_str_n(name.p, name.len));
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%s", dz_cli_module_kind(im->kind));
        cell_type(&t, m, im->kind, im->index);
    }
    int rc = dz_cli_table_print(&t, c, err);
    dz_cli_table_release(&t);
    return rc;
}

static int print_exports(struct dz_cli *c, module *m, struct dz_err *err)
{
    static const struct dz_cli_column columns[] = {{"EXPORT", false}, {"", false}, {"", false}};
    struct dz_cli_table t;
    dz_cli_table_init(&t, columns, DZ_ARRAY_LEN(columns));
    for (uint32_t i = 0; i < m->n_exports; i++) {
        const struct dz_wasm_export *e = &m->exports[i];
        dz_cli_table_cell(&t, DZ_CLI_PLAIN, dz_cli_module_name(m, e->name));
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%s", dz_cli_module_kind(e->kind));
        cell_type(&t, m, e->kind, e->index);
    }
    int rc = dz_cli_table_print(&t, c, err);
    dz_cli_table_release(&t);
    return rc;
}

static int print_sections(struct dz_cli *c, module *m, struct dz_err *err)
{
    static const struct dz_cli_column columns[] = {
        {"SECTION", false}, {"BYTES", true}, {"", false}};
    struct dz_cli_table t;
    dz_cli_table_init(&t, columns, DZ_ARRAY_LEN(columns));
    for (uint32_t i = 0; i < m->n_sections; i++) {
        const struct dz_wasm_section *s = &m->sections[i];
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%s", section_names[s->id]);
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%" PRIu32, s->size);
        dz_cli_table_cell(&t, DZ_CLI_PLAIN, dz_cli_module_name(m, s->name));
    }
    int rc = dz_cli_table_print(&t, c, err);
    dz_cli_table_release(&t);
    return rc;
}

static int print_text(struct dz_cli *c, module *m, struct dz_err *err)
{
    static const struct {
        int (*print)(struct dz_cli *c, module *m, struct dz_err *err);
        size_t n; /* offset of the number of rows in struct dz_wasm_module */
    } parts[] = {
        {print_types, offsetof(module, n_types)},
        {print_imports, offsetof(module, n_imports)},
        {print_exports, offsetof(module, n_exports)},
        {print_sections, offsetof(module, n_sections)},
    };
    print_summary(c, m);
    for (size_t i = 0; i < DZ_ARRAY_LEN(parts); i++) {
        uint32_t n;
        memcpy(&n, (const char *)m + parts[i].n, sizeof n);
        if (n == 0)
            continue;
        fputc('\n', c->out);
        int rc = parts[i].print(c, m, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* --- JSON ------------------------------------------------------------------------------ */

static void json_valtypes(struct dz_json *j, const char *key, const uint8_t *types, uint32_t n)
{
    dz_json_key(j, key);
    dz_json_array(j);
    for (uint32_t i = 0; i < n; i++)
        dz_json_str(j, dz_str(dz_wasm_valtype_text(types[i])));
    dz_json_end(j);
}

static void json_func_type(struct dz_json *j, module *m, uint32_t type)
{
    const struct dz_wasm_type *t = &m->types[type];
    json_valtypes(j, "params", m->valtypes + t->params, t->n_params);
    json_valtypes(j, "results", m->valtypes + t->params + t->n_params, t->n_results);
}

static void json_range(struct dz_json *j, uint32_t min, uint32_t max, bool has_max)
{
    dz_json_put_u64(j, "min", min);
    if (has_max)
        dz_json_put_u64(j, "max", max);
    else
        dz_json_put_null(j, "max");
}

/* Put the members that an import or export of this kind has. */
static void json_entry(struct dz_json *j, module *m, unsigned kind, uint32_t index)
{
    dz_json_put_strz(j, "kind", dz_cli_module_kind(kind));
    dz_json_put_u64(j, "index", index);
    switch (kind) {
    case DZ_WASM_KIND_FUNC:
        json_func_type(j, m, m->funcs[index].type);
        break;
    case DZ_WASM_KIND_TABLE:
        dz_json_put_strz(j, "type", dz_wasm_valtype_text(m->tables[index].type));
        json_range(j, m->tables[index].min, m->tables[index].max, m->tables[index].has_max);
        break;
    case DZ_WASM_KIND_MEMORY:
        json_range(j, m->memories[index].min, m->memories[index].max, m->memories[index].has_max);
        break;
    case DZ_WASM_KIND_GLOBAL:
        dz_json_put_strz(j, "type", dz_wasm_valtype_text(m->globals[index].type));
        dz_json_put_bool(j, "mutable", m->globals[index].mutable);
        break;
    default:
        json_func_type(j, m, m->tags[index].type);
        break;
    }
}

static void json_lists(struct dz_json *j, module *m)
{
    dz_json_key(j, "types");
    dz_json_array(j);
    for (uint32_t i = 0; i < m->n_types; i++) {
        dz_json_object(j);
        json_func_type(j, m, i);
        dz_json_end(j);
    }
    dz_json_end(j);
    dz_json_key(j, "imports");
    dz_json_array(j);
    for (uint32_t i = 0; i < m->n_imports; i++) {
        dz_json_object(j);
        dz_json_put_str(j, "module", dz_cli_module_name(m, m->imports[i].module));
        dz_json_put_str(j, "name", dz_cli_module_name(m, m->imports[i].name));
        json_entry(j, m, m->imports[i].kind, m->imports[i].index);
        dz_json_end(j);
    }
    dz_json_end(j);
    dz_json_key(j, "exports");
    dz_json_array(j);
    for (uint32_t i = 0; i < m->n_exports; i++) {
        dz_json_object(j);
        dz_json_put_str(j, "name", dz_cli_module_name(m, m->exports[i].name));
        json_entry(j, m, m->exports[i].kind, m->exports[i].index);
        dz_json_end(j);
    }
    dz_json_end(j);
    dz_json_key(j, "sections");
    dz_json_array(j);
    for (uint32_t i = 0; i < m->n_sections; i++) {
        const struct dz_wasm_section *s = &m->sections[i];
        dz_json_object(j);
        dz_json_put_strz(j, "section", section_names[s->id]);
        if (s->id == 0)
            dz_json_put_str(j, "name", dz_cli_module_name(m, s->name));
        dz_json_put_u64(j, "offset", s->offset);
        dz_json_put_u64(j, "size_bytes", s->size);
        dz_json_end(j);
    }
    dz_json_end(j);
}

static int print_json(struct dz_cli *c, module *m, struct dz_err *err)
{
    const struct dz_wasm_header *h = m->header;
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(JSON_MAX);
    char hex[DZ_SHA256_HEX];
    struct dz_json j;
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
    dz_json_put_u64(&j, "size_bytes", h->wasm_size);
    dz_json_put_strz(&j, "sha256", dz_sha256_hex(h->sha256, hex));
    dz_json_key(&j, "features");
    dz_json_array(&j);
    for (size_t i = 0; i < DZ_ARRAY_LEN(features); i++)
        if (h->features_used & features[i].bit)
            dz_json_str(&j, dz_str(features[i].name));
    dz_json_end(&j);
    const uint32_t n[] = {m->n_funcs, m->n_tables, m->n_memories, m->n_globals, m->n_tags};
    for (unsigned k = 0; k < DZ_ARRAY_LEN(n); k++) {
        static const char *const keys[] = {"functions", "tables", "memories", "globals", "tags"};
        dz_json_put_u64(&j, keys[k], n[k]);
    }
    dz_json_put_u64(&j, "elements", m->n_elems);
    dz_json_put_u64(&j, "data", m->n_datas);
    dz_json_put_u64(&j, "image_bytes", h->image_size);
    if (h->start == DZ_WASM_NONE)
        dz_json_put_null(&j, "start");
    else
        dz_json_put_u64(&j, "start", h->start);
    json_lists(&j, m);
    dz_json_end(&j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

static int run(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_cli_module_close) struct dz_cli_module opened = {0};
    int rc = dz_cli_module_open(c, &opened, err);
    if (rc < 0)
        return rc;
    return c->json ? print_json(c, opened.m, err) : print_text(c, opened.m, err);
}

const struct dz_cli_command dz_cmd_wasm_info = {
    .name = "wasm info",
    .group = DZ_CLI_GROUP_WASM,
    .summary = "show what a WebAssembly module requires and exports",
    .args = "FILE",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_END},
    .help = "Reads and validates the module as for running; FILE may be - for standard\n"
            "input. Shows its size, its hash, the WebAssembly features that it uses, its\n"
            "types, imports and exports, and its sections.\n"
            "\n"
            "For an invalid module, the error names the byte, the function and the reason.\n",
    .run = run,
    .jail = dz_cli_module_jail,
};

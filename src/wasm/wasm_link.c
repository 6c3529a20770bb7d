/* SPDX-License-Identifier: MIT
 *
 * wasm_link.c - binding of imports: host functions by the table, everything
 * else (and functions that the table does not have) by the exports of
 * registered instances.
 */
#include "wasm/wasm_link.h"

#include "base/buf.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool same_name(const struct dz_wasm_module *m, struct dz_wasm_name n, const char *s)
{
    return strlen(s) == n.size && memcmp(m->wasm + n.offset, s, n.size) == 0;
}

static unsigned letter_type(char c)
{
    switch (c) {
    case 'i':
        return DZ_WASM_I32;
    case 'I':
        return DZ_WASM_I64;
    case 'f':
        return DZ_WASM_F32;
    case 'F':
        return DZ_WASM_F64;
    case 'v':
        return DZ_WASM_V128;
    case 'r':
        return DZ_WASM_FUNCREF;
    case 'e':
        return DZ_WASM_EXTERNREF;
    case 'x':
        return DZ_WASM_EXNREF;
    default:
        return 0;
    }
}

/* Is the signature "ii>i" this type? */
static bool sig_is(const struct dz_wasm_module *m, const struct dz_wasm_type *y, const char *sig)
{
    const uint8_t *types = m->valtypes + y->params;
    uint32_t n = y->n_params;
    for (uint32_t i = 0; i < n; i++)
        if (letter_type(*sig) != types[i] || *sig++ == '\0')
            return false;
    if (*sig++ != '>')
        return false;
    for (uint32_t i = 0; i < y->n_results; i++)
        if (letter_type(*sig) != types[n + i] || *sig++ == '\0')
            return false;
    return *sig == '\0';
}

/* --- words for what does not fit ------------------------------------------------------------ */

static const char *const kind_text[] = {"function", "table", "memory", "global", "tag"};

enum {
    NAME_SHOWN = 60, /* bytes of each half of a name */
    TYPE_TEXT = 80,
};

/* A type in words, cut to fit. */
struct text {
    char s[TYPE_TEXT];
    size_t n;
};
static DZ_PRINTF(2, 3) void add(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int k = vsnprintf(t->s + t->n, sizeof t->s - t->n, fmt, ap);
    va_end(ap);
    if (k > 0)
        t->n = t->n + (size_t)k < sizeof t->s ? t->n + (size_t)k : sizeof t->s - 1;
}

static void add_func(struct text *t, const struct dz_wasm_module *m, uint32_t type)
{
    const struct dz_wasm_type *y = &m->types[type];
    add(t, "(");
    for (uint32_t i = 0; i < y->n_params + y->n_results; i++)
        add(t, "%s%s",
            i == y->n_params ? ") -> ("
            : i              ? ", "
                             : "",
            dz_wasm_valtype_text(m->valtypes[y->params + i]));
    add(t, y->n_results ? ")" : ") -> ()");
}

/* The signature of a host function, "ii>i". */
static void add_sig(struct text *t, const char *sig)
{
    const char *between = "";
    add(t, "(");
    for (; *sig; sig++) {
        if (*sig == '>')
            add(t, ") -> (");
        else
            add(t, "%s%s", between, dz_wasm_valtype_text(letter_type(*sig)));
        between = *sig == '>' ? "" : ", ";
    }
    add(t, ")");
}

static void add_range(struct text *t, uint32_t min, bool has_max, uint32_t max)
{
    add(t, "%u", min);
    if (has_max)
        add(t, " to %u", max);
}

/* What the module wants. */
static void add_import(struct text *t, const struct dz_wasm_module *m,
                       const struct dz_wasm_import *im)
{
    uint32_t i = im->index;
    switch ((enum dz_wasm_kind)im->kind) {
    case DZ_WASM_KIND_FUNC:
        add_func(t, m, m->funcs[i].type);
        break;
    case DZ_WASM_KIND_TABLE:
        add(t, "%s, ", dz_wasm_valtype_text(m->tables[i].type));
        add_range(t, m->tables[i].min, m->tables[i].has_max, m->tables[i].max);
        break;
    case DZ_WASM_KIND_MEMORY:
        add_range(t, m->memories[i].min, m->memories[i].has_max, m->memories[i].max);
        add(t, " pages");
        break;
    case DZ_WASM_KIND_GLOBAL:
        add(t, "%s%s", m->globals[i].mutable ? "mut " : "",
            dz_wasm_valtype_text(m->globals[i].type));
        break;
    case DZ_WASM_KIND_TAG:
        add_func(t, m, m->tags[i].type);
        break;
    }
}

/* What the other instance exports. */
static void add_export(struct text *t, const struct dz_wasm_inst *from,
                       const struct dz_wasm_export *x)
{
    const struct dz_wasm_module *o = from->module;
    const struct wasm_table *table;
    const struct wasm_mem *mem;
    add(t, "a %s: ", kind_text[x->kind]);
    switch ((enum dz_wasm_kind)x->kind) {
    case DZ_WASM_KIND_FUNC:
        add_func(t, o, o->funcs[x->index].type);
        break;
    case DZ_WASM_KIND_TABLE:
        table = from->tables[x->index];
        add(t, "%s, ", dz_wasm_valtype_text(table->type));
        add_range(t, table->size, table->declared_max != UINT32_MAX, table->declared_max);
        break;
    case DZ_WASM_KIND_MEMORY:
        mem = from->mems[x->index];
        add_range(t, mem->pages, mem->declared_max != UINT32_MAX, mem->declared_max);
        add(t, " pages");
        break;
    case DZ_WASM_KIND_GLOBAL:
        add(t, "%s%s", o->globals[x->index].mutable ? "mut " : "",
            dz_wasm_valtype_text(o->globals[x->index].type));
        break;
    case DZ_WASM_KIND_TAG:
        add_func(t, o, o->tags[x->index].type);
        break;
    }
}

static int shown(uint32_t size)
{
    return size < NAME_SHOWN ? (int)size : NAME_SHOWN;
}

static int wrong_type(const struct dz_wasm_module *m, const struct dz_wasm_import *im,
                      const struct text *found, struct dz_err *err)
{
    struct text want = {0};
    add_import(&want, m, im);
    return dz_fail(
        err, DZ_EINVAL, "incompatible import type: %s %.*s.%.*s: the module wants %s, found %s",
        kind_text[im->kind], shown(im->module.size), (const char *)m->wasm + im->module.offset,
        shown(im->name.size), (const char *)m->wasm + im->name.offset, want.s, found->s);
}

/* --- one import ---------------------------------------------------------------------------- */

static bool is_host(const struct dz_wasm_module *m, const struct dz_wasm_import *im,
                    const struct dz_wasm_host *h)
{
    return same_name(m, im->name, h->name) && same_name(m, im->module, h->module);
}

static const struct dz_wasm_host *find_host(const struct dz_wasm_module *m,
                                            const struct dz_wasm_import *im,
                                            const struct dz_wasm_host *host, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_host(m, im, &host[i]))
            return &host[i];
    return NULL;
}

/* The same; where it was found the last time is looked at first. */
static const struct dz_wasm_host *find_again(struct dz_wasm_code *c,
                                             const struct dz_wasm_import *im,
                                             const struct dz_wasm_host *host, size_t count)
{
    const struct dz_wasm_module *m = c->module;
    size_t at = (size_t)(im - m->imports);
    if (!c->hosts)
        c->hosts = dz_zalloc(m->n_imports * sizeof *c->hosts);
    if (c->hosts && c->hosts[at] < count && is_host(m, im, &host[c->hosts[at]]))
        return &host[c->hosts[at]];
    const struct dz_wasm_host *h = find_host(m, im, host, count);
    if (c->hosts && h)
        c->hosts[at] = (uint32_t)(h - host);
    return h;
}

static bool limits_fit(uint32_t size, uint32_t have_max, uint32_t min, bool has_max, uint32_t max)
{
    return size >= min && (!has_max || (have_max != UINT32_MAX && have_max <= max));
}

/* Bind to export `index` of another instance. false: wrong type. */
static bool bind_export(struct dz_wasm_inst *inst, const struct dz_wasm_import *im,
                        struct dz_wasm_inst *from, uint32_t index)
{
    const struct dz_wasm_module *m = inst->module;
    const struct dz_wasm_module *o = from->module;
    switch ((enum dz_wasm_kind)im->kind) {
    case DZ_WASM_KIND_FUNC:
        inst->imports[im->index] = (struct wasm_binding){.inst = from, .func = index};
        return dz_wasm_type_eq(m, m->funcs[im->index].type, o, o->funcs[index].type);
    case DZ_WASM_KIND_TABLE: {
        const struct dz_wasm_table *want = &m->tables[im->index];
        const struct wasm_table *t = from->tables[index];
        inst->tables[im->index] = from->tables[index];
        return t->type == want->type &&
               limits_fit(t->size, t->declared_max, want->min, want->has_max, want->max);
    }
    case DZ_WASM_KIND_MEMORY: {
        const struct dz_wasm_memory *want = &m->memories[im->index];
        const struct wasm_mem *mem = from->mems[index];
        inst->mems[im->index] = from->mems[index];
        return limits_fit(mem->pages, mem->declared_max, want->min, want->has_max, want->max);
    }
    case DZ_WASM_KIND_GLOBAL:
        inst->global_at[im->index] = from->global_at[index];
        return m->globals[im->index].type == o->globals[index].type &&
               m->globals[im->index].mutable == o->globals[index].mutable;
    case DZ_WASM_KIND_TAG:
        inst->tags[im->index] = from->tags[index];
        return dz_wasm_type_eq(m, m->tags[im->index].type, o, o->tags[index].type);
    }
    return false;
}

/* 0, DZ_ENOENT, or DZ_EINVAL with the message. */
static int link_one(struct dz_wasm_inst *inst, const struct dz_wasm_import *im,
                    const struct dz_wasm_host *host, size_t host_count, struct dz_err *err)
{
    const struct dz_wasm_module *m = inst->module;
    if (im->kind == DZ_WASM_KIND_FUNC) {
        const struct dz_wasm_host *h = find_again(inst->code, im, host, host_count);
        if (h) {
            inst->imports[im->index] = (struct wasm_binding){.fn = h->fn};
            if (sig_is(m, &m->types[m->funcs[im->index].type], h->sig))
                return 0;
            struct text found = {0};
            add_sig(&found, h->sig);
            return wrong_type(m, im, &found, err);
        }
    }
    struct dz_wasm_inst *from = dz_wasm_store_named(
        inst->store, (const char *)m->wasm + im->module.offset, im->module.size);
    if (!from)
        return DZ_ENOENT;
    uint32_t e =
        dz_wasm_module_export(from->module, (const char *)m->wasm + im->name.offset, im->name.size);
    if (e == DZ_WASM_NONE)
        return DZ_ENOENT;
    const struct dz_wasm_export *x = &from->module->exports[e];
    if (x->kind == im->kind && bind_export(inst, im, from, x->index))
        return 0;
    struct text found = {0};
    add_export(&found, from, x);
    return wrong_type(m, im, &found, err);
}

/* --- what nobody has ---------------------------------------------------------------------------
 */

/* "env.a, env.b" as long as there is room. */
struct missing {
    char s[150];
    size_t n;
    uint32_t count, shown;
};

static void add_missing(struct missing *t, const struct dz_wasm_module *m,
                        const struct dz_wasm_import *im)
{
    if (t->shown != t->count++) /* the first that has no room ends the list */
        return;
    int k = snprintf(t->s + t->n, sizeof t->s - t->n, "%s%.*s.%.*s", t->shown ? ", " : "",
                     shown(im->module.size), (const char *)m->wasm + im->module.offset,
                     shown(im->name.size), (const char *)m->wasm + im->name.offset);
    if (k < 0 || (size_t)k >= sizeof t->s - t->n) {
        t->s[t->n] = '\0';
        return;
    }
    t->n += (size_t)k;
    t->shown++;
}

int dz_wasm_link(struct dz_wasm_inst *inst, const struct dz_wasm_host *host, size_t host_count,
                 struct dz_err *err)
{
    struct missing missing = {0};
    char more[32] = "";
    for (uint32_t i = 0; i < inst->module->n_imports; i++) {
        const struct dz_wasm_import *im = &inst->module->imports[i];
        int rc = link_one(inst, im, host, host_count, err);
        if (rc == DZ_ENOENT)
            add_missing(&missing, inst->module, im);
        else if (rc < 0)
            return rc;
    }
    if (missing.count == 0)
        return 0;
    if (missing.shown < missing.count)
        (void)snprintf(more, sizeof more, " and %u more", missing.count - missing.shown);
    return dz_fail(err, DZ_ENOENT, "unknown import (%u missing): %s%s", missing.count, missing.s,
                   more);
}

int dz_wasm_missing(struct dz_wasm_store *s, const struct dz_wasm_module *m,
                    const struct dz_wasm_host *host, size_t host_count, struct dz_buf *ret_names)
{
    int count = 0;
    for (uint32_t i = 0; i < m->n_imports; i++) {
        const struct dz_wasm_import *im = &m->imports[i];
        const char *module = (const char *)m->wasm + im->module.offset;
        const char *name = (const char *)m->wasm + im->name.offset;
        if (im->kind == DZ_WASM_KIND_FUNC && find_host(m, im, host, host_count))
            continue;
        const struct dz_wasm_inst *from = dz_wasm_store_named(s, module, im->module.size);
        if (from && dz_wasm_module_export(from->module, name, im->name.size) != DZ_WASM_NONE)
            continue;
        dz_buf_addf(ret_names, "%.*s.%.*s\n", (int)im->module.size, module, (int)im->name.size,
                    name);
        count++;
    }
    return count;
}

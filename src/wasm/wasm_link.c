/* SPDX-License-Identifier: MIT
 *
 * wasm_link.c - binding of imports: host functions by the table, everything
 * else (and functions that the table does not have) by the exports of
 * registered instances.
 */
#include "wasm/wasm_link.h"

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

static const char *const kind_text[] = {"function", "table", "memory", "global", "tag"};

static int wrong_type(const struct dz_wasm_module *m, const struct dz_wasm_import *im,
                      struct dz_err *err)
{
    return dz_fail(err, DZ_EINVAL, "incompatible import type: %s %.*s.%.*s has another type",
                   kind_text[im->kind], (int)im->module.size,
                   (const char *)m->wasm + im->module.offset, (int)im->name.size,
                   (const char *)m->wasm + im->name.offset);
}

/* --- one import ---------------------------------------------------------------------------- */

static const struct dz_wasm_host *find_host(const struct dz_wasm_module *m,
                                            const struct dz_wasm_import *im,
                                            const struct dz_wasm_host *host, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (same_name(m, im->name, host[i].name) && same_name(m, im->module, host[i].module))
            return &host[i];
    return NULL;
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
        const struct dz_wasm_host *h = find_host(m, im, host, host_count);
        if (h) {
            inst->imports[im->index] = (struct wasm_binding){.fn = h->fn};
            if (sig_is(m, &m->types[m->funcs[im->index].type], h->sig))
                return 0;
            return wrong_type(m, im, err);
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
    if (x->kind != im->kind || !bind_export(inst, im, from, x->index))
        return wrong_type(m, im, err);
    return 0;
}

/* Add " module.name" as long as there is room. */
static void add_missing(char *text, size_t size, const struct dz_wasm_module *m,
                        const struct dz_wasm_import *im, uint32_t count)
{
    size_t n = strlen(text);
    int k = snprintf(text + n, size - n, "%s %.*s.%.*s", count ? "," : "", (int)im->module.size,
                     (const char *)m->wasm + im->module.offset, (int)im->name.size,
                     (const char *)m->wasm + im->name.offset);
    if (k < 0 || (size_t)k >= size - n)
        text[n] = '\0';
}

int dz_wasm_link(struct dz_wasm_inst *inst, const struct dz_wasm_host *host, size_t host_count,
                 struct dz_err *err)
{
    char missing[200] = "";
    uint32_t count = 0;
    for (uint32_t i = 0; i < inst->module->n_imports; i++) {
        const struct dz_wasm_import *im = &inst->module->imports[i];
        int rc = link_one(inst, im, host, host_count, err);
        if (rc == DZ_ENOENT)
            add_missing(missing, sizeof missing, inst->module, im, count++);
        else if (rc < 0)
            return rc;
    }
    if (count)
        return dz_fail(err, DZ_ENOENT, "unknown import (%u missing):%s", count, missing);
    return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * wasm_name.c - names of functions for traces.
 *
 * The custom section "name" is not checked when a module is prepared (the
 * specification lets it be malformed), and read only when a name is asked
 * for: subsection 1 holds a count and pairs of function index and name,
 * ascending. Each call walks it from the start. A malformed one ends the walk.
 */
#include "wasm/wasm_module.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/str.h"

struct cursor {
    const uint8_t *p, *end;
};

static bool read_u32(struct cursor *c, uint32_t *ret)
{
    uint32_t value = 0;
    for (unsigned shift = 0; shift < 35 && c->p < c->end; shift += 7) {
        uint8_t b = *c->p++;
        value |= (uint32_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            *ret = value;
            return true;
        }
    }
    return false;
}

static bool read_slice(struct cursor *c, struct dz_str *ret)
{
    uint32_t n;
    if (!read_u32(c, &n) || n > (size_t)(c->end - c->p))
        return false;
    *ret = dz_str_n((const char *)c->p, n);
    c->p += n;
    return true;
}

/* The name of a function in subsection 1. */
static bool find_in_map(struct dz_str map, uint32_t func, struct dz_str *ret)
{
    struct cursor c = {(const uint8_t *)map.p, (const uint8_t *)map.p + map.n};
    uint32_t n, index;
    if (!read_u32(&c, &n))
        return false;
    for (; n > 0 && read_u32(&c, &index) && read_slice(&c, ret); n--)
        if (index == func)
            return true;
    return false;
}

static bool find_name(const struct dz_wasm_module *m, uint32_t func, struct dz_str *ret)
{
    const uint8_t *p = m->wasm + m->header->name_section;
    struct cursor c = {p, p + m->header->name_size};
    struct dz_str part;
    while (c.p < c.end) {
        unsigned id = *c.p++;
        if (!read_slice(&c, &part))
            return false;
        if (id == 1)
            return find_in_map(part, func, ret);
    }
    return false;
}

static struct dz_str name_of(const struct dz_wasm_module *m, struct dz_wasm_name n)
{
    return dz_str_n((const char *)m->wasm + n.offset, n.size);
}

static bool find_import(const struct dz_wasm_module *m, uint32_t func, struct dz_str *ret)
{
    for (uint32_t i = 0; i < m->n_imports; i++)
        if (m->imports[i].kind == DZ_WASM_KIND_FUNC && m->imports[i].index == func) {
            *ret = name_of(m, m->imports[i].name);
            return true;
        }
    return false;
}

static bool find_export(const struct dz_wasm_module *m, uint32_t func, struct dz_str *ret)
{
    for (uint32_t i = 0; i < m->n_exports; i++)
        if (m->exports[i].kind == DZ_WASM_KIND_FUNC && m->exports[i].index == func) {
            *ret = name_of(m, m->exports[i].name);
            return true;
        }
    return false;
}

/* s into buf: whole characters, as many as fit; control bytes as '?'. */
static void copy_name(struct dz_str s, char *buf, size_t size)
{
    size_t n = 0;
    while (n < s.n) {
        size_t len = dz_utf8_shown(s.p + n, s.n - n);
        size_t step = len ? len : 1;
        if (n + step >= size)
            break;
        if (len)
            memcpy(buf + n, s.p + n, len);
        else
            buf[n] = '?';
        n += step;
    }
    buf[n] = '\0';
}

char *dz_wasm_module_func_name(const struct dz_wasm_module *m, uint32_t func, char *buf,
                               size_t size)
{
    struct dz_str name;
    if (size == 0)
        return buf;
    if (find_name(m, func, &name) || find_export(m, func, &name) || find_import(m, func, &name))
        copy_name(name, buf, size);
    else
        (void)snprintf(buf, size, "function %" PRIu32, func);
    return buf;
}

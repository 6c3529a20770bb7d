/* SPDX-License-Identifier: MIT
 *
 * Opening a WebAssembly file, and words for what is in it.
 */
#include "cli/local_wasm.h"

#include "base/fd.h"
#include "base/mem.h"

#include <string.h>
#include <unistd.h>

int dz_cli_module_open(const char *path, struct dz_cli_module *ret_module, struct dz_err *err)
{
    struct dz_cli_module module = {0};
    DZ_AUTO(dz_buf_release) struct dz_buf wasm = DZ_BUF_INIT(dz_wasm_default_limits.module_bytes);
    size_t size;
    int rc = strcmp(path, "-") == 0 ? dz_fd_read_all(STDIN_FILENO, &wasm, err)
                                    : dz_fd_read_file(AT_FDCWD, path, &wasm, err);
    if (rc < 0)
        return rc;
    rc = dz_wasm_prepare_alloc(wasm.p, wasm.len, DZ_WASM_F_ALL, &module.flat, &size, err);
    if (rc == 0)
        rc = dz_wasm_module_open(module.flat, size, &module.m, err);
    if (rc < 0) {
        char quoted[DZ_STR_QUOTED];
        dz_cli_module_close(&module);
        return dz_wrap(err, rc, "%s", dz_str_quote(dz_str(path), quoted));
    }
    *ret_module = module;
    return 0;
}

void dz_cli_module_close(struct dz_cli_module *module)
{
    dz_wasm_module_close(module->m);
    dz_free(module->flat);
    *module = (struct dz_cli_module){0};
}

struct dz_str dz_cli_module_name(const struct dz_wasm_module *m, struct dz_wasm_name name)
{
    return dz_str_n((const char *)m->wasm + name.offset, name.size);
}

static void add_types(struct dz_buf *out, const uint8_t *types, uint32_t n)
{
    dz_buf_adds(out, "(");
    for (uint32_t i = 0; i < n; i++) {
        dz_buf_adds(out, i ? ", " : "");
        dz_buf_adds(out, dz_wasm_valtype_text(types[i]));
    }
    dz_buf_adds(out, ")");
}

void dz_cli_module_type(struct dz_buf *out, const struct dz_wasm_module *m, uint32_t type)
{
    const struct dz_wasm_type *t = &m->types[type];
    add_types(out, m->valtypes + t->params, t->n_params);
    dz_buf_adds(out, " -> ");
    add_types(out, m->valtypes + t->params + t->n_params, t->n_results);
}

const char *dz_cli_module_kind(unsigned kind)
{
    static const char *const names[] = {"func", "table", "memory", "global", "tag"};
    return kind < DZ_ARRAY_LEN(names) ? names[kind] : "?";
}

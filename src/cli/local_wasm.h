/* SPDX-License-Identifier: MIT
 *
 * local_wasm.h - what the commands on WebAssembly modules share.
 */
#ifndef DZ_CLI_LOCAL_WASM_H
#define DZ_CLI_LOCAL_WASM_H

#include "base/buf.h"
#include "base/str.h"
#include "wasm/wasm_module.h"

struct dz_cli_module {
    void *flat;
    struct dz_wasm_module *m;
};

/* Read, validate and open a .wasm file; "-" is standard input. */
DZ_NODISCARD int dz_cli_module_open(const char *path, struct dz_cli_module *ret_module,
                                    struct dz_err *err);
void dz_cli_module_close(struct dz_cli_module *module); /* zeroed is fine */

struct dz_cli;

/* `wasm run` of a program that imports: in a cell. An exit status, or DZ_E*. */
DZ_NODISCARD int dz_cli_wasm_in_cell(struct dz_cli *c, const struct dz_wasm_module *m,
                                     struct dz_err *err);

struct dz_str dz_cli_module_name(const struct dz_wasm_module *m, struct dz_wasm_name name);

/* "(i32, i64) -> (f32)" */
void dz_cli_module_type(struct dz_buf *out, const struct dz_wasm_module *m, uint32_t type);

/* "func", "table", "memory", "global", "tag" */
const char *dz_cli_module_kind(unsigned kind);

#endif

/* SPDX-License-Identifier: MIT
 *
 * local_wasm.h - what the commands on WebAssembly modules share.
 */
#ifndef DZ_CLI_LOCAL_WASM_H
#define DZ_CLI_LOCAL_WASM_H

#include "base/buf.h"
#include "base/str.h"
#include "wasm/wasm_module.h"

struct dz_cli;

/* In the host: open the file (for "-" a copy of standard input) and call the command's run() in a
 * jail. Returns run's result. */
DZ_NODISCARD int dz_cli_module_jail(struct dz_cli *c, struct dz_err *err);
/* The same with one more descriptor for run(), -1: none. The caller closes *ret_fd, the file, in
 * every case. */
DZ_NODISCARD int dz_cli_module_jail_with(struct dz_cli *c, int more, int *ret_fd,
                                         struct dz_err *err);

struct dz_cli_module {
    void *flat;
    struct dz_wasm_module *m;
};

/* In the jail: read, validate and open that file. */
DZ_NODISCARD int dz_cli_module_open(const struct dz_cli *c, struct dz_cli_module *ret_module,
                                    struct dz_err *err);
void dz_cli_module_close(struct dz_cli_module *module); /* zeroed is fine */

/* `wasm run` of a program with imports: runs it in a cell of its own, from the bytes of fd. Returns
 * an exit status, or DZ_E*. */
DZ_NODISCARD int dz_cli_wasm_in_cell(struct dz_cli *c, int fd, struct dz_err *err);

struct dz_str dz_cli_module_name(const struct dz_wasm_module *m, struct dz_wasm_name name);

/* "(i32, i64) -> (f32)" */
void dz_cli_module_type(struct dz_buf *out, const struct dz_wasm_module *m, uint32_t type);

/* "func", "table", "memory", "global", "tag" */
const char *dz_cli_module_kind(unsigned kind);

#endif

/* SPDX-License-Identifier: MIT
 *
 * kernel_wasm.h - programs that are WebAssembly: the engine as a runner (kernel.h).
 *
 * The handle of such a program is a struct dz_wasm_module. A process is a store with one instance
 * and has one thread. `user` of the host functions is its struct dz_task.
 */
#ifndef DZ_KERNEL_KERNEL_WASM_H
#define DZ_KERNEL_KERNEL_WASM_H

#include "kernel/kernel.h"

struct dz_wasm_host;
struct dz_wasm_inst;
struct dz_wasm_module;

/* The runner's arg. It outlives the kernel. */
struct dz_kernel_wasm {
    const struct dz_wasm_host *host; /* imports of every program (wasi/) */
    size_t host_count;
    /* Map the memory image of a module over the pages at `at`, copy-on-write; false: it
     * must be copied. NULL: always. */
    bool (*map_image)(void *arg, void *at, const uint8_t *image, size_t size);
    void *arg;
};
extern const struct dz_kernel_runner dz_kernel_runner_wasm;

/* NULL: the task does not run WebAssembly. */
struct dz_wasm_module *dz_kernel_wasm_module(const struct dz_task *t);
struct dz_wasm_inst *dz_kernel_wasm_inst(const struct dz_task *t);

#endif

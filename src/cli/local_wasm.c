/* SPDX-License-Identifier: MIT
 *
 * Open a WebAssembly file in a jail, and describe its types.
 */
#include "cli/local_wasm.h"

#include "base/fd.h"
#include "base/mem.h"
#include "cli/local_jail.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NO_MEMORY_LIMIT_GB = 16, /* high, because a module's memories have limits of their own */
};

static int module_fd = -1; /* opened in the host, read in the jail */

/* Open the file, or a copy of standard input, so that the bytes can be read twice. */
static int open_module(const char *path, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf wasm = DZ_BUF_INIT(dz_wasm_default_limits.module_bytes);
    struct stat st;
    bool standard = strcmp(path, "-") == 0;
    int fd = standard ? STDIN_FILENO : dz_fd_open(AT_FDCWD, path, O_RDONLY, 0, err);
    if (fd < 0 || (!standard && dz_fd_stat(fd, &st) == 0 && S_ISREG(st.st_mode)))
        return fd;
    int rc = dz_fd_read_all(fd, &wasm, err);
    if (!standard)
        (void)close(fd);
    if (rc < 0)
        return rc;
    fd = memfd_create("module", MFD_CLOEXEC);
    if (fd < 0)
        return dz_fail_sys(err, errno, "keep the module %s", path);
    rc = dz_fd_pwrite(fd, wasm.p, wasm.len, 0, err);
    if (rc < 0)
        dz_fd_close(&fd);
    return rc < 0 ? rc : fd;
}

static int run_body(struct dz_cli *c, void *arg, struct dz_err *err)
{
    (void)arg;
    return c->command->run(c, err);
}

int dz_cli_module_jail_with(struct dz_cli *c, int more, int *ret_fd, struct dz_err *err)
{
    struct dz_cli_jail j = {.body = run_body,
                            .fds = {-1, more},
                            .fd_count = 2,
                            .memory_bytes = (uint64_t)NO_MEMORY_LIMIT_GB << 30};
    module_fd = j.fds[0] = *ret_fd = open_module(c->argv[0], err);
    return module_fd < 0 ? module_fd : dz_cli_jail_run(c, &j, err);
}

int dz_cli_module_jail(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_fd_close) int fd = -1;
    return dz_cli_module_jail_with(c, -1, &fd, err);
}

int dz_cli_module_open(const struct dz_cli *c, struct dz_cli_module *ret_module, struct dz_err *err)
{
    struct dz_cli_module module = {0};
    DZ_AUTO(dz_buf_release) struct dz_buf wasm = DZ_BUF_INIT(dz_wasm_default_limits.module_bytes);
    size_t size;
    int rc = dz_fd_read_all(module_fd, &wasm, err);
    if (rc < 0)
        return rc;
    rc = dz_wasm_prepare_alloc(wasm.p, wasm.len, DZ_WASM_F_ALL, &module.flat, &size, err);
    if (rc == 0)
        rc = dz_wasm_module_open(module.flat, size, &module.m, err);
    if (rc < 0) {
        char quoted[DZ_STR_QUOTED];
        dz_cli_module_close(&module);
        return dz_wrap(err, rc, "%s", dz_str_quote(dz_str(c->argv[0]), quoted));
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

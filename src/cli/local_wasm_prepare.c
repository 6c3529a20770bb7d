/* SPDX-License-Identifier: MIT
 *
 * `doze wasm prepare`: validate a module once for all later runs.
 *
 * A jail writes the block to a file that has no name yet. The hash in the block is compared with
 * the module's before the file gets its name, so that a module that takes over the validator can
 * spoil only its own file.
 */
#include "base/fd.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/cli_term.h"
#include "cli/local_jail.h"
#include "cli/local_wasm.h"

#include <errno.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

static int out_fd = -1;

/* In the jail. */
static int run(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_cli_module_close) struct dz_cli_module opened = {0};
    int rc = dz_cli_module_open(c, &opened, err);
    if (rc == 0)
        rc = dz_fd_pwrite(out_fd, opened.flat, opened.m->header->total_size, 0, err);
    return rc;
}

/* Check that the jail's output belongs to these bytes; otherwise discard it. */
static int judge(int wasm, char ret_hex[static DZ_SHA256_HEX], struct dz_err *err)
{
    uint8_t said[DZ_SHA256_BYTES], digest[DZ_SHA256_BYTES];
    struct stat st;
    int rc = dz_fd_stat(wasm, &st) < 0 ? dz_fail_sys(err, errno, "stat the module") : 0;
    DZ_AUTO(dz_freep) uint8_t *bytes = rc < 0 ? NULL : dz_alloc((size_t)st.st_size);
    if (rc == 0 && !bytes)
        rc = dz_fail(err, DZ_ENOMEM, "hash a module: out of memory");
    if (rc == 0)
        rc = dz_fd_pread(wasm, bytes, (size_t)st.st_size, 0, err);
    if (rc == 0)
        rc = dz_sha256(bytes, (size_t)st.st_size, digest, err);
    if (rc == 0)
        rc = dz_fd_pread(out_fd, said, sizeof said, offsetof(struct dz_wasm_header, sha256), err);
    if (rc == 0 && memcmp(said, digest, sizeof digest) != 0)
        rc = dz_fail(err, DZ_EIO,
                     "the module changed while it was being prepared; nothing was written");
    if (rc == 0)
        (void)dz_sha256_hex(digest, ret_hex);
    return rc;
}

static int print(struct dz_cli *c, const char *hex, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    char size[DZ_CLI_SIZE_TEXT];
    struct dz_json j;
    struct stat st;
    uint64_t bytes = dz_fd_stat(out_fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    if (!c->json) {
        dz_cli_note(c, "prepared %.12s, %s", hex, dz_cli_size(bytes, size));
        return 0;
    }
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
    dz_json_put_strz(&j, "sha256", hex);
    dz_json_put_u64(&j, "bytes", bytes);
    dz_json_end(&j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

static int prepare(struct dz_cli *c, const char *temp, struct dz_err *err)
{
    DZ_AUTO(dz_fd_close) int wasm = -1;
    char hex[DZ_SHA256_HEX];
    out_fd = dz_fd_open(AT_FDCWD, temp, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644, err);
    if (out_fd < 0)
        return out_fd;
    int rc = dz_cli_module_jail_with(c, out_fd, &wasm, err);
    if (rc == 0)
        rc = judge(wasm, hex, err);
    if (rc == 0 && rename(temp, c->argv[1]) < 0)
        rc = dz_fail_sys(err, errno, "write %s", c->argv[1]);
    if (rc == 0)
        rc = print(c, hex, err);
    else
        (void)unlink(temp);
    dz_fd_close(&out_fd);
    return rc;
}

static int jail(struct dz_cli *c, struct dz_err *err)
{
    char temp[DZ_PATH_MAX];
    if (snprintf(temp, sizeof temp, "%s.tmp", c->argv[1]) >= (int)sizeof temp)
        return dz_fail(err, DZ_ELIMIT, "prepare a module: the path is too long");
    return prepare(c, temp, err);
}

const struct dz_cli_command dz_cmd_wasm_prepare = {
    .name = "wasm prepare",
    .group = DZ_CLI_GROUP_WASM,
    .summary = "validate a module once, for doze run to map",
    .args = "FILE TARGET",
    .min_args = 2,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "Writes the module and the results of its validation to TARGET. A file of this\n"
            "kind in ROOT.modules/, under any name, is mapped by `doze run --base ROOT`\n"
            "whenever a program with the same bytes starts, instead of validating the\n"
            "program again. Before the first use of such a file, doze prepares the program\n"
            "once more and compares: a file that differs is not used.\n",
    .run = run,
    .jail = jail,
};

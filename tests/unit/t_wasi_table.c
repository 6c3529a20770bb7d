/* SPDX-License-Identifier: MIT */
#include "tap.h"

#include "kernel/kernel.h"
#include "wasi/wasi.h"

#include <errno.h>

static bool good_signature(const char *sig)
{
    const char *arrow = strchr(sig, '>');
    if (!arrow || strchr(arrow + 1, '>'))
        return false;
    for (const char *p = sig; *p; p++)
        if (!strchr("iI>", *p))
            return false;
    return strlen(arrow + 1) <= 1;
}

TEST(rows_are_whole_and_unique)
{
    const struct dz_wasm_host *a, *b;
    uint32_t caps;
    size_t n = 0;
    for (; (a = dz_wasi_host_at(n, &caps)); n++) {
        CHECK(a->fn != NULL && good_signature(a->sig));
        CHECK(strcmp(a->module, "doze") == 0 || strcmp(a->module, "host") == 0 ||
              strcmp(a->module, "wasi_snapshot_preview1") == 0);
        for (size_t i = 0; i < n && (b = dz_wasi_host_at(i, &caps)); i++)
            CHECK(strcmp(a->module, b->module) != 0 || strcmp(a->name, b->name) != 0);
    }
    CHECK(n > 90 && n <= DZ_WASI_HOSTS_MAX);
}

static bool has(const struct dz_wasm_host *rows, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].name, name) == 0)
            return true;
    return false;
}

TEST(what_is_not_granted_is_not_there)
{
    static struct dz_wasm_host rows[DZ_WASI_HOSTS_MAX];
    size_t none = dz_wasi_hosts(0, rows);
    CHECK(has(rows, none, "fd_write") && has(rows, none, "proc_exit"));
    CHECK(!has(rows, none, "path_open") && !has(rows, none, "fork") && !has(rows, none, "open"));
    size_t disk = dz_wasi_hosts(DZ_CAP_DISK, rows);
    CHECK(has(rows, disk, "path_open") && !has(rows, disk, "fork"));
    size_t all = dz_wasi_hosts(UINT32_MAX, rows);
    CHECK(has(rows, all, "fork") && has(rows, all, "execve"));
    CHECK(none < disk && disk < all);
}

TEST(errno_has_the_numbers_of_preview_1)
{
    CHECK_INT(dz_wasi_errno(0), 0);
    CHECK_INT(dz_wasi_errno(EBADF), 8);
    CHECK_INT(dz_wasi_errno(EEXIST), 20);
    CHECK_INT(dz_wasi_errno(EINVAL), 28);
    CHECK_INT(dz_wasi_errno(ENOENT), 44);
    CHECK_INT(dz_wasi_errno(ENOSYS), 52);
    CHECK_INT(dz_wasi_errno(ENOTDIR), 54);
    CHECK_INT(dz_wasi_errno(EXDEV), 75);
    CHECK_INT(dz_wasi_errno(-5), 29);
    CHECK_INT(dz_wasi_errno(1 << 20), 29);
}

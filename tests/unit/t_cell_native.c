/* SPDX-License-Identifier: MIT
 * Native Linux programs in real cells, jailed: forked by their image's zygote, as their tenant's
 * user where this process may do that, and started alone. The program is tests/native/
 * native_cell.c, linked statically. */
#define TAP_ALARM_S 50
#include "tap.h"

#include "../lib/ncell_rig.h"

#include "linux/linux_vdso.h"
#include "os/os_cgroup.h"
#include "os/os_user.h"

#include <errno.h>
#include <sys/wait.h>

static const char program[] = "../native/native_cell";

static struct mexec *does(struct mrig *r, const char *const *argv, const char *wanted, int code)
{
    struct mexec *e = mrig_exec(r, argv, 0);
    mrig_until(r, e, DZ_CELL_EXITED);
    CHECK_STR(e->out.p ? e->out.p : "", wanted);
    CHECK_INT(e->end.exit_code, code);
    return e;
}

/* All that a program can do in one cell. */
static void programs(struct mrig *r)
{
    static const char *const say[] = {"n", "say", "hello", NULL};
    static const char *const family[] = {"n", "family", NULL}, *const spin[] = {"n", "spin", NULL};
    static const char *const module[] = {"g", "h", NULL}, *const other[] = {"n", "exec", "g", NULL};
    static const char *const copy[] = {"n", "copy", NULL}, *const clocks[] = {"n", "clocks", NULL};
    struct dz_linux_vdso v;
    CHECK_INT(dz_linux_vdso_open(&v, &r->err), 0);
    does(r, clocks, v.tsc ? "line\n" : "calls\n", 0); /* what this process sees, a cell knows */
    dz_linux_vdso_close(&v);
    does(r, say, "hello\n", 7);
    does(r, family, "child 3 thread 4 pipe piped\n", 0);
    does(r, module, "hi\n", 3); /* a module beside it, */
    does(r, other, "hi\n", 3);  /* and become by a native program */
    struct mexec *s = mrig_exec(r, spin, 0), *c = mrig_exec(r, copy, MEXEC_STDIN);
    mrig_until(r, s, DZ_CELL_STARTED);
    mrig_input(r, c, "one"); /* while the other computes */
    while (c->seen < 3)
        (void)mrig_step(r);
    CHECK_INT(dz_cell_exec_signal(r->cell, s->exec, SIGKILL, false, &r->err), 0);
    mrig_until(r, s, DZ_CELL_EXITED);
    CHECK_INT(s->end.signal, SIGKILL);
    CHECK(s->end.cpu_ns > 0);
    CHECK_INT(dz_cell_exec_input_end(r->cell, c->exec, &r->err), 0);
    mrig_until(r, c, DZ_CELL_EXITED);
    CHECK_STR(c->out.p, "one");
}

static void in_a_pool(const struct dz_os_users *users)
{
    const struct dz_cell_pool_opts opts = {.ahead = 2, .users = *users};
    struct dz_cell_pool *p = NULL;
    struct mrig image, r[3];
    struct dz_err err;
    ncell_read(program);
    ncell_image(&image);
    CHECK_INT(dz_cell_pool_new(&opts, &p, &err), 0);
    for (uint32_t i = 0; i < DZ_ARRAY_LEN(r); i++) /* the first one waits for the zygote */
        ncell_start(&r[i], p, &image, users->count ? users->first + 300 + i : 0);
    for (size_t i = 0; i < DZ_ARRAY_LEN(r); i++)
        programs(&r[i]);
    for (size_t i = 0; i < DZ_ARRAY_LEN(r); i++)
        mrig_free(&r[i]);
    mrig_free(&image);
    dz_cell_pool_free(p);
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

TEST(native_programs_in_cells_of_a_pool)
{
    const struct dz_os_users none = {0, 0};
    in_a_pool(&none);
}

TEST(native_programs_are_their_tenants_user)
{
    struct dz_os_users users;
    struct dz_err err = {0};
    CHECK_INT(dz_os_users_parse(DZ_OS_USERS_DEFAULT, &users, &err), 0);
    if (dz_os_users_check(&users, &err) < 0)
        SKIP("this process can become no other user");
    in_a_pool(&users);
}

TEST(native_programs_in_a_cell_without_a_zygote)
{
    struct mrig image, r;
    ncell_read(program);
    ncell_image(&image);
    ncell_start(&r, NULL, &image, 0);
    programs(&r);
    mrig_free(&r);
    mrig_free(&image);
}

TEST(stubs_end_with_their_cell)
{
    static const char *const spin[] = {"n", "spin", NULL};
    struct mrig image, r;
    ncell_read(program);
    ncell_image(&image);
    ncell_start(&r, NULL, &image, 0);
    struct mexec *s = mrig_exec(&r, spin, 0);
    mrig_until(&r, s, DZ_CELL_STARTED);
    const pid_t cell = dz_cell_pid(r.cell);
    pid_t stubs[NCELL_STUBS];
    CHECK(ncell_stubs(cell, stubs) >= 2); /* the first one, and the program's */
    CHECK_INT(kill(cell, SIGKILL), 0);
    while (mrig_step(&r))
        ;
    for (int i = 0; i < 200 && ncell_stubs(cell, stubs) > 0; i++)
        (void)poll(NULL, 0, 10);
    CHECK_INT(ncell_stubs(cell, stubs), 0);
    mrig_free(&r);
    mrig_free(&image);
}

static void groups_of(pid_t pid, struct dz_buf *ret_text)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    dz_buf_reset(ret_text);
    CHECK_INT(dz_fd_read_file(AT_FDCWD, path, ret_text, NULL), 0);
}

/* A cell's stubs are in the cell's own cgroup from their birth, those that were forked ahead, too.
 * There it may have as many as it can need. */
TEST(stubs_are_in_the_cgroup_of_their_cell)
{
    static const char *const spin[] = {"n", "spin", NULL};
    const struct dz_os_cgroup_limits limits = {.each = true};
    struct dz_os_cgroup group = {.count = 0};
    struct dz_os_cgroup_each each;
    struct dz_cell_pool *p = NULL;
    struct mrig image, r[4];
    struct dz_err err = {0};
    struct dz_buf of_cell = DZ_BUF_INIT(1 << 16), of_stub = DZ_BUF_INIT(1 << 16);
    if (dz_os_cgroup_make("doze-test", &limits, &group, &err) < 0)
        SKIP(err.msg);
    ncell_read(program);
    ncell_image(&image);
    dz_os_each_init(&each, &group);
    const struct dz_cell_pool_opts opts = {.ahead = 2, .each = &each, .memory_beside = 64 << 20};
    CHECK_INT(dz_cell_pool_new(&opts, &p, &err), 0);
    for (uint32_t i = 0; i < DZ_ARRAY_LEN(r); i++)
        ncell_start(&r[i], p, &image, 0);
    for (size_t i = 0; i < DZ_ARRAY_LEN(r); i++) {
        pid_t stubs[NCELL_STUBS];
        struct mexec *s = mrig_exec(&r[i], spin, 0);
        mrig_until(&r[i], s, DZ_CELL_STARTED);
        groups_of(dz_cell_pid(r[i].cell), &of_cell);
        CHECK(strstr(of_cell.p, "/doze-test.") && !strstr(of_cell.p, "/rest"));
        const size_t n = ncell_stubs(dz_cell_pid(r[i].cell), stubs);
        CHECK(n >= 2);
        for (size_t k = 0; k < n; k++) {
            groups_of(stubs[k], &of_stub);
            CHECK_STR(of_stub.p, of_cell.p);
        }
        CHECK_INT(dz_cell_exec_signal(r[i].cell, s->exec, SIGKILL, false, &r[i].err), 0);
        mrig_until(&r[i], s, DZ_CELL_EXITED);
        programs(&r[i]);
    }
    for (size_t i = 0; i < DZ_ARRAY_LEN(r); i++)
        mrig_free(&r[i]);
    mrig_free(&image);
    dz_cell_pool_free(p);
    dz_os_each_release(&each);
    dz_os_cgroup_remove(&group);
    dz_buf_release(&of_cell);
    dz_buf_release(&of_stub);
}

/* SPDX-License-Identifier: MIT
 * Ranges of users, and processes that become one of them in their jail. */
#include "base/fd.h"
#include "base/sanitize.h"
#include "cell/cell_users.h"
#include "os/os_user.h"
#include "tap.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct dz_os_users range = {1 << 20, 1024};

static int parse(const char *text, struct dz_os_users *ret)
{
    struct dz_err err = {0};
    int rc = dz_os_users_parse(text, ret, &err);
    CHECK(rc == 0 || err.msg[0]);
    return rc;
}

TEST(a_range_is_a_power_of_two_and_aligned)
{
    static const char *const wrong[] = {"",          "x",           "5",         "0-511",
                                        "1024",      "1024-",       "-1024",     "1024-512",
                                        "1024-1534", "1024-1536",   "512-1535",  "1024-1279",
                                        "No",        "1024-2047-1", "2048-2047", "0-4294967295"};
    struct dz_os_users u = {7, 7};
    for (size_t i = 0; i < DZ_ARRAY_LEN(wrong); i++)
        CHECK_INT(parse(wrong[i], &u), DZ_EINVAL);
    CHECK_INT(u.count, 7);
    CHECK_INT(parse("1024-2047", &u), 0);
    CHECK(u.first == 1024 && u.count == 1024);
    CHECK_INT(parse("no", &u), 0);
    CHECK_INT(u.count, 0);
}

TEST(the_default_has_room_for_many_tenants)
{
    struct dz_os_users u = {0};
    CHECK_INT(parse(DZ_OS_USERS_DEFAULT, &u), 0);
    CHECK(u.count >= 65536);
}

TEST(a_range_of_no_ids_begins_nowhere)
{
    const struct dz_os_users none = {1024, 0}; /* of a daemon that may not use its setting */
    dz_cell_users_set(&none);
    CHECK_INT(dz_cell_users().first, 0);
    CHECK_INT(dz_cell_users().count, 0);
}

/* --- who is who ------------------------------------------------------------------------------ */

TEST(a_user_is_free_when_its_last_process_has_given_it_back)
{
    struct dz_err err = {0};
    uint32_t user, other;
    dz_cell_users_set(&range);
    CHECK_INT(dz_cell_user_acquire(&user, &err), 0);
    dz_cell_user_hold(user); /* a cell that waits */
    dz_cell_user_release(user);
    for (int i = 1; i < DZ_USERS_HELPERS; i++) {
        CHECK_INT(dz_cell_user_acquire(&other, &err), 0);
        CHECK(other != user);
    }
    CHECK_INT(dz_cell_user_acquire(&other, &err), DZ_EBUSY);
    dz_cell_user_release(user);
    CHECK_INT(dz_cell_user_acquire(&other, &err), 0);
    CHECK_INT(other, user);
    dz_cell_users_set(NULL);
}

TEST(zygotes_and_calls_have_users_that_nobody_has)
{
    struct dz_err err = {0};
    uint32_t taken[DZ_USERS_HELPERS], more = 99;
    dz_cell_users_set(&range);
    for (uint32_t i = 0; i < DZ_USERS_HELPERS; i++) {
        CHECK_INT(dz_cell_user_acquire(&taken[i], &err), 0);
        CHECK_INT(taken[i], range.first + i);
    }
    CHECK_INT(dz_cell_user_acquire(&more, &err), DZ_EBUSY);
    CHECK_INT(more, 99);
    dz_cell_user_release(taken[7]);
    CHECK_INT(dz_cell_user_acquire(&more, &err), 0);
    CHECK_INT(more, taken[7]);
    dz_cell_users_set(NULL);
}

TEST(a_user_that_was_given_back_comes_last_again)
{
    struct dz_err err = {0};
    uint32_t first = 0, second = 0;
    dz_cell_users_set(&range);
    CHECK_INT(dz_cell_user_acquire(&first, &err), 0);
    dz_cell_user_release(first);
    CHECK_INT(dz_cell_user_acquire(&second, &err), 0);
    CHECK(second != first);
    dz_cell_user_release(range.first + DZ_USERS_HELPERS); /* a tenant's */
    dz_cell_users_set(NULL);
}

TEST(tenants_have_the_users_behind_these)
{
    dz_cell_users_set(&range);
    CHECK_INT(dz_cell_users_tenants(), range.count - DZ_USERS_HELPERS);
    CHECK_INT(dz_cell_user_of_tenant(0), range.first + DZ_USERS_HELPERS);
    CHECK_INT(dz_cell_user_of_tenant(dz_cell_users_tenants() - 1), range.first + range.count - 1);
    dz_cell_users_set(NULL);
}

TEST(without_a_range_all_are_who_we_are)
{
    struct dz_err err = {0};
    uint32_t user = 99;
    CHECK_INT(dz_cell_user_acquire(&user, &err), 0);
    CHECK_INT(user, DZ_USER_NONE);
    dz_cell_user_release(user);
    CHECK(dz_cell_users_tenants() == INT64_MAX);
    CHECK_INT(dz_cell_user_of_tenant(12), DZ_USER_NONE);
}

/* --- in the jail ------------------------------------------------------------------------------ */

enum {
    ZYGOTE = 5, /* its place in the range */
    TENANT = 600,
};

/* Run fn in a child in the jail of a zygote. Its exit status, or 1000 plus the signal. */
static int as_zygote(int (*fn)(void), int namespaces)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        static struct dz_os_syscall calls[128];
        static const struct dz_os_syscall more[] = {{.number = __NR_getuid},
                                                    {.number = __NR_getresuid},
                                                    {.number = __NR_getresgid},
                                                    {.number = __NR_getgroups},
                                                    {.number = __NR_capget}};
        size_t n = dz_os_jail_compute_count;
        memcpy(calls, dz_os_jail_compute, n * sizeof calls[0]);
        dz_os_users_calls(&range, calls + n);
        n += dz_os_jail_users_count;
        memcpy(calls + n, more, sizeof more);
        const struct dz_os_jail jail = {.calls = calls,
                                        .call_count = n + DZ_ARRAY_LEN(more),
                                        .landlock = true,
                                        .namespaces = namespaces,
                                        .users = &range,
                                        .user = range.first + ZYGOTE,
                                        .settles_later = true};
        static const gid_t adm = 4; /* a group of the daemon's, which the jail gives up */
        struct dz_os_jail_report report;
        struct dz_err err = {0};
        if (setgroups(1, &adm) < 0 || dz_os_jail_enter(&jail, &report, &err) < 0)
            _exit(99);
        _exit(report.fences & DZ_OS_FENCE_BIT(USERS) ? fn() : 98);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static bool are_all(uint32_t id)
{
    uid_t u[3];
    gid_t g[3];
    return getresuid(&u[0], &u[1], &u[2]) == 0 && getresgid(&g[0], &g[1], &g[2]) == 0 &&
           u[0] == id && u[1] == id && u[2] == id && g[0] == id && g[1] == id && g[2] == id &&
           getgroups(0, NULL) == 0;
}

static uint64_t permitted(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {0};
    return syscall(SYS_capget, &head, sets) < 0
               ? UINT64_MAX
               : (uint64_t)sets[1].permitted << 32 | sets[0].permitted;
}

static int settles_once(void)
{
    struct dz_err err = {0};
    if (!are_all(range.first + ZYGOTE) || permitted() != (1u << CAP_SETUID | 1u << CAP_SETGID))
        return 1;
    if (dz_os_user_settle(range.first + TENANT, &err) < 0)
        return 2;
    if (!are_all(range.first + TENANT) || permitted() != 0)
        return 3;
    return dz_os_user_settle(range.first + TENANT + 1, &err) < 0 && err.sys == EPERM &&
                   are_all(range.first + TENANT)
               ? 0
               : 4;
}

static int becomes_root(void)
{
    return (int)syscall(SYS_setresuid, 0, 0, 0);
}

static int keeps_one(void)
{
    uint32_t id = range.first + TENANT;
    return (int)syscall(SYS_setresuid, id, (uid_t)-1, id);
}

static int becomes_roots_group(void)
{
    return (int)syscall(SYS_setresgid, range.first, range.first, 0);
}

static int becomes_the_next(void)
{
    uint32_t id = range.first + range.count;
    return (int)syscall(SYS_setresuid, id, id, id);
}

static bool is_impossible(void)
{
    struct dz_err err = {0};
    return dz_os_users_check(&range, &err) < 0;
}

TEST(a_process_settles_once_and_only_inside_of_the_range)
{
    static const int namespaces[] = {0, CLONE_NEWUTS, CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS};
    if (is_impossible())
        SKIP("not root, or root of few ids");
    for (size_t i = 0; i < DZ_ARRAY_LEN(namespaces); i++) {
        CHECK_INT(as_zygote(settles_once, namespaces[i]), 0);
        CHECK_INT(as_zygote(becomes_root, namespaces[i]), 1000 + SIGSYS);
        CHECK_INT(as_zygote(becomes_roots_group, namespaces[i]), 1000 + SIGSYS);
        CHECK_INT(as_zygote(keeps_one, namespaces[i]), 1000 + SIGSYS);
        CHECK_INT(as_zygote(becomes_the_next, namespaces[i]), 1000 + SIGSYS);
    }
}

TEST(who_is_not_root_is_told_so)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        struct dz_err err = {0};
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
            _exit(2);
        _exit(dz_os_users_check(&range, &err) == DZ_EDENIED && strstr(err.msg, "only root") ? 0
                                                                                            : 1);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
}

/* SPDX-License-Identifier: MIT
 *
 * os_user.c - see os_user.h.
 */
#include "os/os_user.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/num.h"
#include "base/str.h"

enum {
    MAP_MAX = 1 << 20, /* bytes of an id map; the kernel allows 340 lines */
};

bool dz_os_users_sound(const struct dz_os_users *u)
{
    return u->first > 0 && u->count >= DZ_OS_USERS_MIN && u->count <= DZ_OS_USERS_MAX &&
           (u->count & (u->count - 1)) == 0 && u->first % u->count == 0 &&
           u->first <= INT32_MAX - (u->count - 1);
}

int dz_os_users_parse(const char *text, struct dz_os_users *ret_users, struct dz_err *err)
{
    struct dz_str rest = dz_str(text), from = {NULL, 0};
    uint64_t first = 0, last = 0;
    if (strcmp(text, "no") == 0) {
        *ret_users = (struct dz_os_users){0, 0};
        return 0;
    }
    (void)dz_str_split(&rest, '-', &from);
    int rc = dz_num_u64(from, 1, INT32_MAX, &first, err);
    if (rc == 0)
        rc = dz_num_u64(rest, first, INT32_MAX, &last, err);
    if (rc < 0)
        return dz_wrap(err, rc, "\"%s\" is not FIRST-LAST or no", text);
    uint64_t count = last - first + 1;
    const struct dz_os_users users = {(uint32_t)first, (uint32_t)count};
    if (!dz_os_users_sound(&users))
        return dz_fail(
            err, DZ_EINVAL,
            "%s has %llu ids: their number must be a power of two, at least %d, and the first id a "
            "multiple of that number",
            text, (unsigned long long)count, DZ_OS_USERS_MIN);
    *ret_users = users;
    return 0;
}

/* --- what is possible here ---------------------------------------------------------------- */

static bool has(const struct __user_cap_data_struct *sets, unsigned cap)
{
    return sets[cap / 32].effective >> cap % 32 & 1;
}

static int check_capabilities(struct dz_err *err)
{
    static const struct {
        unsigned cap;
        const char *name;
    } needed[] = {{CAP_SETUID, "CAP_SETUID"},
                  {CAP_SETGID, "CAP_SETGID"},
                  {CAP_SETPCAP, "CAP_SETPCAP"},
                  {CAP_KILL, "CAP_KILL"}};
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {0};
    if (syscall(SYS_capget, &head, sets) < 0)
        return dz_fail_sys(err, errno, "read our capabilities");
    for (size_t i = 0; i < DZ_ARRAY_LEN(needed); i++)
        if (!has(sets, needed[i].cap))
            return dz_fail(err, DZ_EDENIED, "root lacks %s here", needed[i].name);
    return 0;
}

/* Check that our user namespace has these ids. Its map has lines "inside outside count". */
static int check_map(const char *path, const struct dz_os_users *users, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(MAP_MAX);
    int rc = dz_fd_read_file(AT_FDCWD, path, &b, err);
    if (rc < 0)
        return rc;
    struct dz_str text = dz_str_n(b.p, b.len), line;
    while (dz_str_split(&text, '\n', &line)) {
        char copy[128];
        unsigned inside, outside, count;
        (void)snprintf(copy, sizeof copy, "%.*s", DZ_STR_ARG(line));
        /* the kernel's own line: a number in it is one */
        if (sscanf(copy, "%u %u %u", &inside, &outside, &count) == 3 && /* NOLINT(cert-err34-c) */
            inside <= users->first &&
            (uint64_t)users->first + users->count <= (uint64_t)inside + count)
            return 0;
    }
    return dz_fail(err, DZ_EDENIED, "the ids %u to %u do not exist in this user namespace",
                   users->first, users->first + users->count - 1);
}

int dz_os_users_check(const struct dz_os_users *users, struct dz_err *err)
{
    if (geteuid() != 0)
        return dz_fail(err, DZ_EDENIED, "only root can become another user");
    int rc = check_capabilities(err);
    if (rc == 0)
        rc = check_map("/proc/self/uid_map", users, err);
    return rc < 0 ? rc : check_map("/proc/self/gid_map", users, err);
}

/* --- inside ------------------------------------------------------------------------------- */

void dz_os_users_calls(const struct dz_os_users *users, struct dz_os_syscall *ret_calls)
{
    memcpy(ret_calls, dz_os_jail_users, dz_os_jail_users_count * sizeof ret_calls[0]);
    for (size_t i = 0; i < dz_os_jail_users_count; i++)
        if (ret_calls[i].args) {
            ret_calls[i].mask = ~(uint64_t)(users->count - 1);
            ret_calls[i].value = users->first;
        }
}

/* Raw system calls, because the C library's functions change the user of all threads. */
int dz_os_user_become(uint32_t id, struct dz_err *err)
{
    if (syscall(SYS_setresgid, id, id, id) < 0 || syscall(SYS_setresuid, id, id, id) < 0)
        return dz_fail_sys(err, errno, "become user %u", id);
    return 0;
}

int dz_os_user_settle(uint32_t id, struct dz_err *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    int rc = dz_os_user_become(id, err);
    if (rc == 0 && syscall(SYS_capset, &head, none) < 0)
        rc = dz_fail_sys(err, errno, "give up all capabilities");
    return rc;
}

/* SPDX-License-Identifier: MIT
 *
 * posix_ids.c - who a process is: ids, groups, sessions, priority.
 */
#include "posix_int.h"

#include <grp.h>
#include <sys/resource.h>
#include <unistd.h>

pid_t getpid(void)
{
    return doze_getid(DOZE_ID_PID);
}

pid_t gettid(void)
{
    return doze_getid(DOZE_ID_PID);
}

pid_t getppid(void)
{
    return doze_getid(DOZE_ID_PPID);
}

uid_t getuid(void)
{
    return (uid_t)doze_getid(DOZE_ID_UID);
}

uid_t geteuid(void)
{
    return (uid_t)doze_getid(DOZE_ID_EUID);
}

gid_t getgid(void)
{
    return (gid_t)doze_getid(DOZE_ID_GID);
}

gid_t getegid(void)
{
    return (gid_t)doze_getid(DOZE_ID_EGID);
}

int setuid(uid_t u)
{
    return posix_ret(doze_setid(DOZE_ID_UID, (int)u));
}

int seteuid(uid_t u)
{
    return posix_ret(doze_setid(DOZE_ID_EUID, (int)u));
}

int setgid(gid_t g)
{
    return posix_ret(doze_setid(DOZE_ID_GID, (int)g));
}

int setegid(gid_t g)
{
    return posix_ret(doze_setid(DOZE_ID_EGID, (int)g));
}

/* -1 leaves an id as it is. The real id goes first: it needs the old privilege. */
int setreuid(uid_t r, uid_t e)
{
    if (r != (uid_t)-1 && setuid(r) < 0)
        return -1;
    return e != (uid_t)-1 && e != geteuid() ? seteuid(e) : 0;
}

int setregid(gid_t r, gid_t e)
{
    if (r != (gid_t)-1 && setgid(r) < 0)
        return -1;
    return e != (gid_t)-1 && e != getegid() ? setegid(e) : 0;
}

/* The kernel's setuid does for the superuser what POSIX asks, and there is no
 * call for the saved id alone: it must go along with one of the others. */
int setresuid(uid_t r, uid_t e, uid_t s)
{
    if (s != (uid_t)-1 && s != r && s != e && s != geteuid())
        return posix_fail(ENOSYS);
    return setreuid(r, e);
}

int setresgid(gid_t r, gid_t e, gid_t s)
{
    if (s != (gid_t)-1 && s != r && s != e && s != getegid())
        return posix_fail(ENOSYS);
    return setregid(r, e);
}

int getgroups(int n, gid_t g[])
{
    return posix_ret(doze_getgroups((uint32_t *)g, n));
}

int setgroups(size_t n, const gid_t *g)
{
    return posix_ret(doze_setgroups((const uint32_t *)g, (int)n));
}

int initgroups(const char *user, gid_t gid)
{
    gid_t groups[64];
    int n = (int)(sizeof groups / sizeof groups[0]);

    if (getgrouplist(user, gid, groups, &n) < 0)
        n = (int)(sizeof groups / sizeof groups[0]);
    return setgroups((size_t)n, groups);
}

pid_t getpgid(pid_t p)
{
    return posix_ret(doze_getpgid(p));
}

pid_t getpgrp(void)
{
    return getpgid(0);
}

int setpgid(pid_t p, pid_t g)
{
    return posix_ret(doze_setpgid(p, g));
}

pid_t setpgrp(void)
{
    return setpgid(0, 0);
}

pid_t getsid(pid_t p)
{
    return posix_ret(doze_getsid(p));
}

pid_t setsid(void)
{
    return posix_ret(doze_setsid());
}

/* Only of the caller itself: the kernel keeps no other's for it to see. */
static int self_only(int which, id_t who)
{
    if (which < PRIO_PROCESS || which > PRIO_USER)
        return posix_fail(EINVAL);
    if (which == PRIO_PROCESS && who != 0 && who != (id_t)getpid())
        return posix_fail(ESRCH);
    return 0;
}

int getpriority(int which, id_t who)
{
    return self_only(which, who) < 0 ? -1 : doze_getid(DOZE_ID_NICE) - 20;
}

int setpriority(int which, id_t who, int v)
{
    if (self_only(which, who) < 0)
        return -1;
    v = v < -20 ? -20 : v > 19 ? 19 : v;
    return posix_ret(doze_setid(DOZE_ID_NICE, v + 20)) < 0 ? -1 : 0;
}

int nice(int delta)
{
    int v = doze_getid(DOZE_ID_NICE) - 20 + delta;

    return setpriority(PRIO_PROCESS, 0, v) < 0 ? -1 : doze_getid(DOZE_ID_NICE) - 20;
}

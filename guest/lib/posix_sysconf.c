/* SPDX-License-Identifier: MIT
 *
 * posix_sysconf.c - limits that a program may ask for.
 */
#include "posix_int.h"

#include <limits.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

enum {
    PAGE = 65536,
    ARGUMENT_BYTES = 131072
};

static long limit(int resource)
{
    struct rlimit l;

    if (getrlimit(resource, &l) < 0 || l.rlim_cur > LONG_MAX)
        return -1;
    return (long)l.rlim_cur;
}

static long pages(int free_only)
{
    struct sysinfo s;

    if (sysinfo(&s) < 0)
        return -1;
    return (long)((unsigned long long)(free_only ? s.freeram : s.totalram) * s.mem_unit / PAGE);
}

/* -1 with errno as it was: no limit, or not there; with EINVAL: no such name. */
long sysconf(int name)
{
    switch (name) {
    case _SC_ARG_MAX:
        return ARGUMENT_BYTES;
    case _SC_CHILD_MAX:
        return limit(RLIMIT_NPROC);
    case _SC_CLK_TCK:
        return 100;
    case _SC_NGROUPS_MAX:
        return 32;
    case _SC_OPEN_MAX:
        return limit(RLIMIT_NOFILE);
    case _SC_PAGESIZE:
        return PAGE;
    case _SC_NPROCESSORS_CONF:
    case _SC_NPROCESSORS_ONLN:
        return 1;
    case _SC_PHYS_PAGES:
        return pages(0);
    case _SC_AVPHYS_PAGES:
        return pages(1);
    case _SC_JOB_CONTROL:
    case _SC_SAVED_IDS:
        return 1;
    case _SC_VERSION:
        return _POSIX_VERSION;
    case _SC_2_VERSION:
        return _POSIX2_VERSION;
    case _SC_FSYNC:
    case _SC_MONOTONIC_CLOCK:
    case _SC_SPAWN:
        return _POSIX_VERSION;
    case _SC_LINE_MAX:
    case _SC_BC_SCALE_MAX:
    case _SC_IOV_MAX:
        return name == _SC_LINE_MAX ? 4096 : name == _SC_IOV_MAX ? IOV_MAX : 99;
    case _SC_LOGIN_NAME_MAX:
    case _SC_TTY_NAME_MAX:
    case _SC_HOST_NAME_MAX:
        return name == _SC_TTY_NAME_MAX ? 32 : name == _SC_HOST_NAME_MAX ? 255 : 256;
    case _SC_GETPW_R_SIZE_MAX:
    case _SC_GETGR_R_SIZE_MAX:
        return name == _SC_GETPW_R_SIZE_MAX ? 1024 : 4096;
    case _SC_THREADS:
    case _SC_SEMAPHORES:
    case _SC_MAPPED_FILES:
    case _SC_SYMLOOP_MAX:
    case _SC_STREAM_MAX:
    case _SC_TIMERS:
    case _SC_ASYNCHRONOUS_IO:
        return -1;
    default:
        return name >= 0 && name < 300 ? -1 : posix_fail(EINVAL);
    }
}

int getpagesize(void)
{
    return PAGE;
}

/* libc's table was made without pipes. The same for every file of a sandbox. */
long fpathconf(int fd, int name)
{
    (void)fd;
    switch (name) {
    case _PC_LINK_MAX:
        return 65000;
    case _PC_MAX_CANON:
    case _PC_MAX_INPUT:
        return 255;
    case _PC_NAME_MAX:
        return NAME_MAX;
    case _PC_PATH_MAX:
    case _PC_SYMLINK_MAX:
        return PATH_MAX;
    case _PC_PIPE_BUF:
        return PIPE_BUF;
    case _PC_CHOWN_RESTRICTED:
    case _PC_NO_TRUNC:
    case _PC_2_SYMLINKS:
        return 1;
    case _PC_VDISABLE:
        return 0;
    case _PC_FILESIZEBITS:
        return 64;
    default:
        return name >= 0 && name <= _PC_2_SYMLINKS ? -1 : posix_fail(EINVAL);
    }
}

long pathconf(const char *path, int name)
{
    (void)path;
    return fpathconf(-1, name);
}

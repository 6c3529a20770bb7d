/* SPDX-License-Identifier: MIT
 *
 * os_spawn.c - starting a program by posix_spawn, which is a vfork inside: its cost does not grow
 * with our memory.
 *
 * The descriptors that the child shall have are first duplicated to numbers
 * above all that it wants (close-on-exec), so that no dup2 in the child can
 * overwrite a source of a later one. Then, in the child: change directory, dup2
 * each, close the gaps and everything above.
 *
 * The pidfd is opened after the start. That is no race: the child is ours and
 * nobody else waits for it, so its pid cannot be given to another.
 */
#include "os/os_proc_int.h"

#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int dz_os_pidfd_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static void plan_release(struct os_plan *plan)
{
    (void)posix_spawn_file_actions_destroy(&plan->actions);
    (void)posix_spawnattr_destroy(&plan->attr);
    if (plan->cwd >= 0)
        (void)close(plan->cwd);
    for (size_t i = 0; i < plan->moved_count; i++)
        (void)close(plan->moved[i]);
}

static int highest_fd(const struct dz_os_spawn_opts *o)
{
    int highest = STDERR_FILENO;
    for (size_t i = 0; i < o->fd_count; i++) {
        assert(o->fds[i].child >= 0 && o->fds[i].child <= DZ_OS_CHILD_FD_MAX);
        if (o->fds[i].child > highest)
            highest = o->fds[i].child;
    }
    return highest;
}

static bool wants_fd(const struct dz_os_spawn_opts *o, int fd)
{
    for (size_t i = 0; i < o->fd_count; i++)
        if (o->fds[i].child == fd)
            return true;
    return false;
}

/* Each action returns an errno. Only ENOMEM is possible, so they are added up. */
static int plan_fds(struct os_plan *plan, struct dz_err *err)
{
    const struct dz_os_spawn_opts *o = plan->opts;
    int highest = highest_fd(o), sys = 0;

    for (size_t i = 0; i < o->fd_count; i++) {
        int moved = fcntl(o->fds[i].ours, F_DUPFD_CLOEXEC, highest + 1);
        if (moved < 0)
            return dz_fail_sys(err, errno, "hand descriptor %d to %s", o->fds[i].ours, o->argv[0]);
        plan->moved[plan->moved_count++] = moved;
        sys |= posix_spawn_file_actions_adddup2(&plan->actions, moved, o->fds[i].child);
    }
    for (int fd = STDERR_FILENO + 1; fd < highest; fd++)
        if (!wants_fd(o, fd))
            sys |= posix_spawn_file_actions_addclose(&plan->actions, fd);
    sys |= posix_spawn_file_actions_addclosefrom_np(&plan->actions, highest + 1);
    return sys ? dz_fail_sys(err, ENOMEM, "start %s", o->argv[0]) : 0;
}

static int plan_attr(struct os_plan *plan, struct dz_err *err)
{
    const struct dz_os_spawn_opts *o = plan->opts;
    short flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
    sigset_t all, none;

    (void)sigfillset(&all);
    (void)sigemptyset(&none);
    if (o->session || o->tree)
        flags |= POSIX_SPAWN_SETSID;
    int sys = posix_spawnattr_setflags(&plan->attr, flags);
    sys |= posix_spawnattr_setsigdefault(&plan->attr, &all);
    sys |= posix_spawnattr_setsigmask(&plan->attr, &none);
    return sys ? dz_fail_sys(err, sys, "start %s", o->argv[0]) : 0;
}

static int plan_cwd(struct os_plan *plan, struct dz_err *err)
{
    const struct dz_os_spawn_opts *o = plan->opts;
    if (!o->cwd)
        return 0;
    plan->cwd = open(o->cwd, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (plan->cwd < 0)
        return dz_fail_sys(err, errno, "start %s in directory %s", o->argv[0], o->cwd);
    if (posix_spawn_file_actions_addfchdir_np(&plan->actions, plan->cwd) != 0)
        return dz_fail_sys(err, ENOMEM, "start %s", o->argv[0]);
    return 0;
}

static int plan_init(struct os_plan *plan, const struct dz_os_spawn_opts *o, struct dz_err *err)
{
    *plan = (struct os_plan){.opts = o, .cwd = -1};
    if (posix_spawn_file_actions_init(&plan->actions) != 0)
        return dz_fail_sys(err, ENOMEM, "start %s", o->argv[0]);
    (void)posix_spawnattr_init(&plan->attr); /* cannot fail here: it clears a struct */
    int rc = plan_cwd(plan, err);
    if (rc == 0)
        rc = plan_attr(plan, err);
    if (rc == 0)
        rc = plan_fds(plan, err);
    if (rc < 0)
        plan_release(plan);
    return rc;
}

int dz_os_plan_spawn(const struct os_plan *plan, pid_t *ret_pid)
{
    const struct dz_os_spawn_opts *o = plan->opts;
    /* The interface is older than const; it writes to neither. */
    union {
        const char *const *in;
        char *const *out;
    } argv = {o->argv}, env = {o->env};
    return posix_spawnp(ret_pid, o->argv[0], &plan->actions, &plan->attr, argv.out,
                        o->env ? env.out : environ);
}

int dz_os_spawn_failed(const struct dz_os_spawn_opts *o, int sys, struct dz_err *err)
{
    char name[DZ_STR_QUOTED];
    bool path = strchr(o->argv[0], '/') != NULL;
    int code;

    (void)dz_str_quote(dz_str(o->argv[0]), name);
    if (sys == ENOENT && path && !o->cwd && access(o->argv[0], F_OK) == 0)
        code = dz_fail(err, DZ_ENOENT, "run %s: its interpreter does not exist", name);
    else if (sys == ENOENT)
        code = dz_fail(err, DZ_ENOENT, "run %s: %s", name,
                       path ? "no such file" : "not found in PATH");
    else if (sys == ENOEXEC)
        code = dz_fail(err, DZ_EINVAL, "run %s: it is not a program", name);
    else
        code = dz_fail_sys(err, sys, "run %s", name);
    if (err)
        err->sys = sys;
    return code;
}

static int start_plain(const struct os_plan *plan, struct dz_os_proc *ret_proc, struct dz_err *err)
{
    pid_t pid;
    int sys = dz_os_plan_spawn(plan, &pid);
    if (sys != 0)
        return dz_os_spawn_failed(plan->opts, sys, err);
    int pidfd = dz_os_pidfd_open(pid);
    if (pidfd < 0) {
        sys = errno;
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        return dz_fail_sys(err, sys, "watch %s", plan->opts->argv[0]);
    }
    *ret_proc = (struct dz_os_proc){
        .pid = pid, .pidfd = pidfd, .reaper = -1, .session = plan->opts->session};
    return 0;
}

int dz_os_spawn(const struct dz_os_spawn_opts *o, struct dz_os_proc *ret_proc, struct dz_err *err)
{
    struct os_plan plan;
    assert(o->argv && o->argv[0] && o->fd_count <= DZ_OS_FDS_MAX);
    int rc = plan_init(&plan, o, err);
    if (rc < 0)
        return rc;
    rc = o->tree ? dz_os_reaper_start(&plan, ret_proc, err) : start_plain(&plan, ret_proc, err);
    plan_release(&plan);
    return rc;
}

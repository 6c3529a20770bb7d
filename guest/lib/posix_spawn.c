/* SPDX-License-Identifier: MIT
 *
 * posix_spawn.c - posix_spawn by vfork and exec.
 *
 * The child shares the parent's memory until it runs its program, so an error
 * travels back in a variable of the parent's frame.
 */
#include "posix_int.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum action_kind {
    ACTION_CLOSE,
    ACTION_DUP2,
    ACTION_OPEN,
    ACTION_CHDIR,
    ACTION_FCHDIR,
};

struct __spawn_action {
    struct __spawn_action *next;
    enum action_kind kind;
    int fd, from, flags;
    mode_t mode;
    char path[];
};

int posix_spawn_file_actions_init(posix_spawn_file_actions_t *fa)
{
    fa->__first = 0;
    fa->__last = &fa->__first;
    return 0;
}

int posix_spawn_file_actions_destroy(posix_spawn_file_actions_t *fa)
{
    struct __spawn_action *a = fa->__first, *next;

    for (; a; a = next) {
        next = a->next;
        free(a);
    }
    return posix_spawn_file_actions_init(fa);
}

/* A new last action, zeroed but for what is given; null: no memory. */
static struct __spawn_action *add(posix_spawn_file_actions_t *fa, enum action_kind kind, int fd,
                                  const char *path)
{
    size_t n = path ? strlen(path) + 1 : 0;
    struct __spawn_action *a = calloc(1, sizeof *a + n);

    if (!a)
        return 0;
    a->kind = kind;
    a->fd = fd;
    if (path)
        memcpy(a->path, path, n);
    *fa->__last = a;
    fa->__last = &a->next;
    return a;
}

int posix_spawn_file_actions_addclose(posix_spawn_file_actions_t *fa, int fd)
{
    if (fd < 0)
        return EBADF;
    return add(fa, ACTION_CLOSE, fd, 0) ? 0 : ENOMEM;
}

int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *fa, int from, int fd)
{
    if (fd < 0 || from < 0)
        return EBADF;
    struct __spawn_action *a = add(fa, ACTION_DUP2, fd, 0);
    if (a)
        a->from = from;
    return a ? 0 : ENOMEM;
}

int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *fa, int fd, const char *path,
                                     int flags, mode_t mode)
{
    if (fd < 0)
        return EBADF;
    struct __spawn_action *a = add(fa, ACTION_OPEN, fd, path);
    if (a) {
        a->flags = flags;
        a->mode = mode;
    }
    return a ? 0 : ENOMEM;
}

int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t *fa, const char *path)
{
    return add(fa, ACTION_CHDIR, -1, path) ? 0 : ENOMEM;
}

int posix_spawn_file_actions_addfchdir_np(posix_spawn_file_actions_t *fa, int fd)
{
    return add(fa, ACTION_FCHDIR, fd, 0) ? 0 : ENOMEM;
}

int posix_spawnattr_init(posix_spawnattr_t *at)
{
    memset(at, 0, sizeof *at);
    return 0;
}

int posix_spawnattr_destroy(posix_spawnattr_t *at)
{
    (void)at;
    return 0;
}

int posix_spawnattr_setflags(posix_spawnattr_t *at, short flags)
{
    if (flags & ~(POSIX_SPAWN_RESETIDS | POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                  POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID))
        return EINVAL;
    at->__flags = flags;
    return 0;
}

int posix_spawnattr_getflags(const posix_spawnattr_t *at, short *flags)
{
    *flags = at->__flags;
    return 0;
}

int posix_spawnattr_setpgroup(posix_spawnattr_t *at, pid_t pgroup)
{
    at->__pgroup = pgroup;
    return 0;
}

int posix_spawnattr_setsigmask(posix_spawnattr_t *at, const sigset_t *set)
{
    at->__mask = *set;
    return 0;
}

int posix_spawnattr_setsigdefault(posix_spawnattr_t *at, const sigset_t *set)
{
    at->__default = *set;
    return 0;
}

int posix_spawnattr_getpgroup(const posix_spawnattr_t *at, pid_t *pgroup)
{
    *pgroup = at->__pgroup;
    return 0;
}

int posix_spawnattr_getsigmask(const posix_spawnattr_t *at, sigset_t *set)
{
    *set = at->__mask;
    return 0;
}

int posix_spawnattr_getsigdefault(const posix_spawnattr_t *at, sigset_t *set)
{
    *set = at->__default;
    return 0;
}

/* Handlers would run in memory that is the parent's: none is left, beside those
 * that the caller wants reset. */
static int reset_signals(uint64_t set)
{
    const uint64_t fixed = 1ULL << (SIGKILL - 1) | 1ULL << (SIGSTOP - 1);
    struct sigaction dfl = {.sa_handler = SIG_DFL}, now;

    for (int s = 1; s <= 64; s++) {
        uint64_t bit = 1ULL << (s - 1);
        if (bit & fixed)
            continue;
        if ((bit & posix_handled & ~set) && sigaction(s, NULL, &now) == 0 &&
            now.sa_handler != SIG_IGN)
            set |= bit;
        if ((bit & set) && sigaction(s, &dfl, NULL) < 0)
            return -1;
    }
    return 0;
}

static int ids_and_groups(const posix_spawnattr_t *at)
{
    if ((at->__flags & POSIX_SPAWN_SETSID) && setsid() < 0)
        return -1;
    if ((at->__flags & POSIX_SPAWN_SETPGROUP) && setpgid(0, at->__pgroup) < 0)
        return -1;
    if ((at->__flags & POSIX_SPAWN_RESETIDS) && (setegid(getgid()) < 0 || seteuid(getuid()) < 0))
        return -1;
    return 0;
}

static int apply_attributes(const posix_spawnattr_t *at, const sigset_t *before)
{
    int flags = at ? at->__flags : 0;

    if (reset_signals(flags & POSIX_SPAWN_SETSIGDEF ? at->__default.__bits : 0) < 0)
        return -1;
    if (flags && ids_and_groups(at) < 0)
        return -1;
    return sigprocmask(SIG_SETMASK, flags & POSIX_SPAWN_SETSIGMASK ? &at->__mask : before, NULL);
}

static int apply_action(const struct __spawn_action *a)
{
    int fd;

    switch (a->kind) {
    case ACTION_CLOSE:
        close(a->fd);
        return 0;
    case ACTION_DUP2:
        return a->fd == a->from ? fcntl(a->fd, F_SETFD, 0) : dup2(a->from, a->fd);
    case ACTION_OPEN:
        fd = open(a->path, a->flags, a->mode);
        if (fd < 0 || fd == a->fd)
            return fd;
        if (dup2(fd, a->fd) < 0)
            return -1;
        return close(fd);
    case ACTION_CHDIR:
        return chdir(a->path);
    case ACTION_FCHDIR:
        return fchdir(a->fd);
    }
    return posix_fail(EINVAL);
}

typedef int exec_fn(const char *, char *const[], char *const[]);

struct spawned {
    exec_fn *run;
    const char *path;
    const posix_spawn_file_actions_t *fa;
    const posix_spawnattr_t *at;
    char *const *argv, *const *envp;
};

static int spawn(const struct spawned *s, pid_t *ret_pid)
{
    volatile int failed = 0;
    sigset_t all, before;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = vfork();
    if (pid == 0) {
        /* The mask comes last of the attributes, the files after it as POSIX says. */
        if (apply_attributes(s->at, &before) == 0) {
            const struct __spawn_action *a = s->fa ? s->fa->__first : 0;
            while (a && apply_action(a) >= 0)
                a = a->next;
            if (!a)
                s->run(s->path, s->argv, s->envp);
        }
        failed = errno;
        _exit(127);
    }
    int e = pid < 0 ? errno : 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (e)
        return e;
    if (failed) {
        waitpid(pid, 0, 0);
        return failed;
    }
    if (ret_pid)
        *ret_pid = pid;
    return 0;
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *fa,
                const posix_spawnattr_t *at, char *const argv[], char *const envp[])
{
    return spawn(&(struct spawned){execve, path, fa, at, argv, envp}, pid);
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *fa,
                 const posix_spawnattr_t *at, char *const argv[], char *const envp[])
{
    return spawn(&(struct spawned){execvpe, file, fa, at, argv, envp}, pid);
}

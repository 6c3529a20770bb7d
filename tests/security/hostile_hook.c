/* SPDX-License-Identifier: MIT
 *
 * hostile_hook.c - how an attack gets control: see hostile.h.
 *
 * Each __wrap_x stands before the product's x. Only these are the hook:
 *   execve                 hands on the name of the board
 *   dz_os_jail_enter       leaves out fences, for control runs
 *   unshare                makes no pid namespace, for the same
 *   open64                 does not open an image anew, for the same
 *   dz_cell_machine_open   a cell of a pool has its start
 *   dz_cell_enter          a cell of `doze run`, or a call, is jailed
 *   dz_vfs_prepare_image   a zygote has opened its image
 */
#include "hostile.h"

#include "base/fd.h"
#include "cell/cell_serve.h"
#include "cell/cell_zygote.h"
#include "os/os_jail.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    CALLS_ALL = 470, /* all system calls there are */
    ENV_MAX = 64,
};

struct board *hostile_board;

const struct attack *hostile_attack(size_t index)
{
    const struct attacks *const groups[] = {&hostile_calls, &hostile_acts, &hostile_words};
    for (size_t i = 0; i < DZ_ARRAY_LEN(groups); i++) {
        if (index < groups[i]->count)
            return &groups[i]->all[index];
        index -= groups[i]->count;
    }
    return NULL;
}

static const char variable[] = "DZ_HOSTILE";

/* Before be_what_argv_says() of cell_zygote.c, which does not return in a seed or zygote. */
__attribute__((constructor(200))) static void find_board(void)
{
    const char *path = getenv(variable);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *p = mmap(NULL, sizeof *hostile_board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    hostile_board = p == MAP_FAILED ? NULL : p;
    (void)close(fd);
}

int __real_execve(const char *path, char *const argv[], char *const env[]);
int __wrap_execve(const char *path, char *const argv[], char *const env[]);
int __wrap_execve(const char *path, char *const argv[], char *const env[])
{
    char mine[256], *more[ENV_MAX + 2];
    const char *board = getenv(variable);
    size_t n = 0;
    while (env[n] && n < ENV_MAX) {
        more[n] = env[n];
        n++;
    }
    (void)snprintf(mine, sizeof mine, "%s=%s", variable, board ? board : "");
    if (board)
        more[n++] = mine;
    more[n] = NULL;
    return __real_execve(path, argv, more);
}

/* --- fences taken out ------------------------------------------------------------------- */

int __real_dz_os_jail_enter(const struct dz_os_jail *jail, struct dz_os_jail_report *ret_report,
                            struct dz_err *err);
int __wrap_dz_os_jail_enter(const struct dz_os_jail *jail, struct dz_os_jail_report *ret_report,
                            struct dz_err *err);
int __wrap_dz_os_jail_enter(const struct dz_os_jail *jail, struct dz_os_jail_report *ret_report,
                            struct dz_err *err)
{
    static struct dz_os_syscall all[CALLS_ALL];
    uint32_t without = hostile_board ? hostile_board->without : 0;
    struct dz_os_jail j = *jail;
    for (int i = 0; i < CALLS_ALL; i++)
        all[i].number = i;
    if (without & BY_FILTER) {
        j.filter = NULL;
        j.calls = all;
        j.call_count = CALLS_ALL;
    }
    if (without & BY_LIMITS)
        j.limit_count = 0;
    if (without & BY(LANDLOCK))
        j.landlock = false;
    if (without & BY(USER))
        j.namespaces = 0;
    if (without & BY(CAPS))
        j.inherits |= BY(CAPS);
    int rc = __real_dz_os_jail_enter(&j, ret_report, err);
    if (rc == 0)
        ret_report->fences &= ~without;
    return rc;
}

int __real_unshare(int flags);
int __wrap_unshare(int flags);
int __wrap_unshare(int flags)
{
    if (hostile_board && (hostile_board->without & BY(PID)) && (flags & CLONE_NEWPID)) {
        errno = EPERM;
        return -1;
    }
    return __real_unshare(flags);
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    static const char own[] = "/proc/self/fd/";
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (hostile_board && (hostile_board->without & BY_ANEW) &&
        strncmp(path, own, sizeof own - 1) == 0)
        return fcntl(atoi(path + sizeof own - 1), F_DUPFD_CLOEXEC, 3);
    return __real_open64(path, flags, mode);
}

/* --- taking over ------------------------------------------------------------------------ */

static unsigned long real_argument(unsigned long a, const struct taken *t)
{
    static char text[] = "/etc/passwd", room[4096];
    switch (a) {
    case THE_SOCKET:
        return (unsigned long)t->socket;
    case THE_DISK:
        return (unsigned long)t->disk;
    case THE_IMAGE:
        return (unsigned long)t->image;
    case THE_HOST:
        return (unsigned long)hostile_board->host;
    case THE_TEXT:
        return (unsigned long)(uintptr_t)text;
    case SOME_ROOM:
        return (unsigned long)(uintptr_t)room;
    default:
        return a;
    }
}

static bool make_call(const struct attack *a, const struct taken *t, struct board *b)
{
    unsigned long x[6];
    for (size_t i = 0; i < DZ_ARRAY_LEN(x); i++)
        x[i] = real_argument(a->args[i], t);
    atomic_store(&b->tried, 1);
    (void)syscall(a->number, x[0], x[1], x[2], x[3], x[4], x[5]);
    return true;
}

/* The process is at this place: if an attack waits here, it does not come back. */
static void hostile_arrive(const struct taken *t)
{
    struct board *b = hostile_board;
    uint32_t here = t->place;
    if (!b || !atomic_compare_exchange_strong(&b->place, &here, PLACE_NONE))
        return;
    const struct attack *a = NULL;
    for (size_t i = 0; (a = hostile_attack(i)) && strcmp(a->name, b->attack) != 0;)
        i++;
    if (!a)
        return;
    atomic_store(&b->taken, 1);
    errno = 0;
    b->got = a->run ? a->run(t, b) : make_call(a, t, b);
    b->error = errno;
    atomic_store(&b->returned, 1);
    _exit(0);
}

int __real_dz_cell_machine_open(struct dz_cell_machine *m, struct dz_started *start,
                                struct dz_err *err);
int __wrap_dz_cell_machine_open(struct dz_cell_machine *m, struct dz_started *start,
                                struct dz_err *err);
int __wrap_dz_cell_machine_open(struct dz_cell_machine *m, struct dz_started *start,
                                struct dz_err *err)
{
    const struct dz_zygote *zygote = m->zygote;
    const void *serve = (const char *)m - offsetof(struct dz_serve, machine);
    struct taken t = {.place = zygote && zygote->image ? PLACE_CELL : PLACE_FIRST,
                      .socket = ((const struct dz_serve *)serve)->fd,
                      .disk = start->fds[0],
                      .wal = start->fds[1],
                      .image = zygote && zygote->fd_count > 0 ? zygote->fds[0] : start->image_fd};
    if (zygote)
        hostile_arrive(&t);
    return __real_dz_cell_machine_open(m, start, err);
}

int __real_dz_cell_enter(const struct dz_cell_fence *fence, int *fds, size_t count,
                         struct dz_err *err);
int __wrap_dz_cell_enter(const struct dz_cell_fence *fence, int *fds, size_t count,
                         struct dz_err *err);
int __wrap_dz_cell_enter(const struct dz_cell_fence *fence, int *fds, size_t count,
                         struct dz_err *err)
{
    struct taken t = {.place = fence->dirty ? PLACE_RUN : PLACE_CALL,
                      .socket = fds[0],
                      .disk = count > 1 ? fds[1] : -1,
                      .wal = count > 2 ? fds[2] : -1,
                      .image = -1};
    int rc = __real_dz_cell_enter(fence, fds, count, err);
    if (rc >= 0)
        hostile_arrive(&t);
    return rc;
}

void __real_dz_vfs_prepare_image(struct dz_db *image);
void __wrap_dz_vfs_prepare_image(struct dz_db *image);
void __wrap_dz_vfs_prepare_image(struct dz_db *image)
{
    enum {
        CONTROL_FD = 3, /* of a zygote: cell_zygote.c */
    };
    struct taken t = {PLACE_ZYGOTE, CONTROL_FD, -1, -1, DZ_OS_JAIL_SHARED_FD};
    hostile_arrive(&t);
    __real_dz_vfs_prepare_image(image);
}

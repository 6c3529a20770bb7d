/* SPDX-License-Identifier: MIT
 *
 * cell_jail.c - the steps of a freshly forked child before it may read a hostile byte: close every
 * descriptor that it must not have, ignore the signals of a terminal, and enter the jail.
 */
#include "cell/cell_call.h"
#include "cell/cell_int.h"
#include "cell/cell_zygote.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/num.h"
#include "base/sanitize.h"
#include "linux/linux_run.h"
#include "os/os_dirty.h"
#include "os/os_jail.h"
#include "os/os_user.h"
#include "stub/stub_host.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if DZ_SANITIZED
#include <sanitizer/common_interface_defs.h>
#endif

/* Signals that a terminal or an init sends to the whole group are ignored: the host handles them.
 * SIGXFSZ and SIGPIPE are ignored so that write(2) fails instead, at the limit of a file's size and
 * when the host has closed the other end of standard error. */
static const int ignored[] = {SIGINT,  SIGTSTP,  SIGQUIT, SIGHUP,
                              SIGTERM, SIGWINCH, SIGXFSZ, SIGPIPE};

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Standard input and output of a cell are /dev/null. Standard error is the socket to the host
 * (cell_stderr.h), because a failed assertion writes its reason there. */
static int silence(int socket)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
        return -errno;
    return dup2(socket, STDERR_FILENO) < 0 ? -errno : 0;
}

/* Close all descriptors but the standard three and those of fds, which is sorted here. */
static int keep_only(int *fds, size_t count)
{
    unsigned from = 3;
    qsort(fds, count, sizeof *fds, by_number);
    for (size_t i = 0; i < count; i++) {
        if (fds[i] < (int)from)
            continue;
        if (fds[i] > (int)from && syscall(SYS_close_range, from, (unsigned)fds[i] - 1, 0) < 0)
            return -errno;
        from = (unsigned)fds[i] + 1;
    }
    return syscall(SYS_close_range, from, ~0u, 0) < 0 ? -errno : 0;
}

_Static_assert(DZ_CELL_TASKS_NATIVE > (int)DZ_STUB_THREADS_MAX,
               "a thread ends shortly after its id is free");

/* Open the stubs in which native programs run, and their runner. */
static int open_native(void *arg, struct dz_err *err)
{
    struct dz_cell_native *n = arg;
    int rc = dz_linux_new(&n->runner, err);
    if (rc < 0)
        return rc;
    const struct dz_stub_host_opts opts = {.files = dz_linux_files(n->runner),
                                           .threads_max = n->threads_max};
    return dz_stub_host_open(&opts, &n->stub, err);
}

static int enter(const struct dz_cell_fence *fence, struct dz_err *err)
{
    static struct dz_os_syscall calls[DZ_CELL_CALLS_MAX];
    const struct dz_os_rlimit limits[] = {
        {RLIMIT_FSIZE, fence->file_bytes},
        {RLIMIT_CORE, 0},
        {RLIMIT_NOFILE, fence->native ? DZ_CELL_NOFILE_NATIVE : DZ_CELL_NOFILE},
        {RLIMIT_DATA, fence->memory_bytes},
    };
    const struct dz_os_jail jail = {
        .calls = fence->net ? calls : dz_os_jail_compute,
        .call_count = fence->net ? dz_cell_calls(false, fence->native, NULL, calls)
                                 : dz_os_jail_compute_count,
        .open = fence->native ? open_native : NULL,
        .arg = fence->native,
        .landlock_proc = fence->native,
        .limits = limits,
        /* A sanitizer's shadow memory counts as data, so no limit would leave room for it. */
        .limit_count = DZ_ARRAY_LEN(limits) - (!DZ_SANITIZED && fence->memory_bytes ? 0 : 1),
        .parent_signal = fence->outlives ? 0 : SIGKILL,
        .landlock = true,
        .namespaces = dz_os_jail_namespaces,
        .users = fence->users,
        .user = fence->user,
    };
    struct dz_os_jail_report report;
    assert(fence->net || !fence->native);
    return dz_os_jail_enter(&jail, &report, err);
}

/* The first qsort of more than a kilobyte asks the system how much memory there is. The jail does
 * not allow that call, so it is made here; later sorts do not ask again. */
static void prepare_sort(void)
{
    static int many[1024];
    qsort(many, DZ_ARRAY_LEN(many), sizeof *many, by_number);
}

/* To report, a sanitizer opens files: its log (log_path), the memory map, and the program for its
 * symbols. The jail kills a process that opens a file. So the report goes to standard error, and
 * the map and the symbols are read here; cells inherit them from their zygote. */
static void prepare_sanitizer(void)
{
#if DZ_SANITIZED
    static char line[64];
    __sanitizer_set_report_fd((void *)(intptr_t)STDERR_FILENO); /* NOLINT */
    if (line[0])
        return;
    __sanitizer_sandbox_on_notify(NULL);
    __sanitizer_symbolize_pc(__builtin_return_address(0), "%f", line, sizeof line);
#endif
}

int dz_cell_let_go(int *fds, size_t count)
{
    int e = silence(fds[0]);
    prepare_sanitizer();
    if (e == 0)
        e = keep_only(fds, count);
    for (size_t i = 0; e == 0 && i < DZ_ARRAY_LEN(ignored); i++)
        (void)signal(ignored[i], SIG_IGN);
    return e;
}

int dz_cell_part_shared(int *fds, size_t count, struct dz_err *err)
{
    for (size_t i = 0; i < count; i++) {
        int flags = fds[i] < 0 || fds[i] >= DZ_OS_JAIL_SHARED_FD ? O_RDWR : fcntl(fds[i], F_GETFL);
        if ((flags & O_ACCMODE) != O_RDONLY)
            continue;
        int moved = fcntl(fds[i], F_DUPFD_CLOEXEC, DZ_OS_JAIL_SHARED_FD);
        if (moved < 0)
            return dz_fail_sys(err, errno, "move the descriptors of shared files");
        (void)close(fds[i]);
        fds[i] = moved;
    }
    return 0;
}

static int prepare(int *fds, size_t count, bool native, struct dz_err *err)
{
    int e = dz_cell_let_go(fds, count);
    if (e < 0)
        return dz_fail_sys(err, -e, "close the descriptors that a cell must not have");
    (void)setenv("TZ", "UTC0", 1); /* SQLite asks for the time zone; UTC0 needs no file */
    tzset();
    prepare_sort();
    if (native)
        (void)dz_linux_look();
    return 0;
}

int dz_cell_enter(const struct dz_cell_fence *fence, int *fds, size_t count, struct dz_err *err)
{
    int rc = prepare(fds, count, fence->native, err);
    if (rc == 0 && fence->dirty)
        rc = dz_os_dirty_open(DZ_OS_DIRTY_SCAN, fence->dirty, err);
    return rc < 0 ? rc : enter(fence, err);
}

int dz_cell_baseline(const char *level, struct dz_err *err)
{
    return dz_linux_baseline(level, err);
}

/* --- a zygote -------------------------------------------------------------------------- */

static size_t add_calls(struct dz_os_syscall *calls, size_t n, const struct dz_os_syscall *more,
                        size_t count)
{
    assert(n + count <= DZ_CELL_CALLS_MAX);
    memcpy(calls + n, more, count * sizeof calls[0]);
    return n + count;
}

size_t dz_cell_calls(bool zygote, bool native, const struct dz_os_users *users,
                     struct dz_os_syscall *ret_calls)
{
    size_t n = add_calls(ret_calls, 0, dz_os_jail_compute, dz_os_jail_compute_count);
    n = add_calls(ret_calls, n, dz_os_jail_net, dz_os_jail_net_count);
    if (native)
        n = add_calls(ret_calls, n, dz_os_jail_linux, dz_os_jail_linux_count);
    if (zygote)
        n = add_calls(ret_calls, n, dz_os_jail_nest, dz_os_jail_nest_count);
    if (zygote && native)
        n = add_calls(ret_calls, n, dz_os_jail_linux_nest, dz_os_jail_linux_nest_count);
    if (!users)
        return n;
    assert(n + dz_os_jail_users_count <= DZ_CELL_CALLS_MAX);
    dz_os_users_calls(users, ret_calls + n);
    return n + dz_os_jail_users_count;
}

uint64_t dz_cell_processes(void)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(64);
    uint64_t all = 0;
    if (dz_fd_read_file(AT_FDCWD, "/proc/sys/kernel/pid_max", &text, NULL) < 0 ||
        dz_num_u64(dz_str_trim(dz_str_n(text.p, text.len)), 1, UINT32_MAX, &all, NULL) < 0)
        return DZ_CELL_PROCESSES_LEAST;
    all /= 4;
    return all < DZ_CELL_PROCESSES_LEAST  ? DZ_CELL_PROCESSES_LEAST
           : all > DZ_CELL_PROCESSES_MOST ? DZ_CELL_PROCESSES_MOST
                                          : all;
}

/* The limits and the namespaces are those of the zygote's cells, which inherit them. */
int dz_cell_enter_zygote(const struct dz_zygote *zygote, int *fds, size_t count,
                         struct dz_os_jail_report *ret_report, struct dz_err *err)
{
    const struct dz_os_users *users = zygote->users.count ? &zygote->users : NULL;
    static struct dz_os_syscall calls[DZ_CELL_CALLS_MAX];
    const struct dz_os_rlimit limits[] = {
        {RLIMIT_FSIZE, DZ_CELL_FILE_SIZE},
        {RLIMIT_CORE, 0},
        {RLIMIT_NOFILE, zygote->native ? DZ_CELL_NOFILE_NATIVE : DZ_CELL_NOFILE},
        {RLIMIT_NPROC, zygote->processes}};
    const struct dz_os_jail jail = {
        .calls = calls,
        .call_count = dz_cell_calls(true, zygote->native, users, calls),
        .traps = zygote->native, /* the processes of guests start with this filter */
        .ambient = zygote->native,
        .limits = limits,
        .limit_count = DZ_ARRAY_LEN(limits),
        .landlock = true,
        .landlock_proc = true,
        .namespaces = dz_os_jail_namespaces,
        .users = users,
        .user = zygote->user,
        .processes = zygote->processes,
        .settles_later = true,
    };
    int rc = prepare(fds, count, zygote->native, err);
    return rc < 0 ? rc : dz_os_jail_enter(&jail, ret_report, err);
}

/* Each of these fences protects the memory of a dumpable cell from other zygotes, which may open
 * files below /proc. */
#define KEEPS_OTHERS_OUT \
    (DZ_OS_FENCE_BIT(LANDLOCK) | DZ_OS_FENCE_BIT(USER) | DZ_OS_FENCE_BIT(USERS))

/* The files below /proc of a process that is not dumpable belong to root. So a cell is dumpable
 * while it opens its pagemap. It has received nothing of a sandbox then, and the jail makes it
 * undumpable again. But a process that opened the cell's memory meanwhile could go on reading it;
 * so where nothing keeps other processes out, there is no pagemap, and pages are compared. */
static int open_dirty(uint32_t fences, struct dz_os_dirty **ret_dirty, struct dz_err *err)
{
    if (!(fences & KEEPS_OTHERS_OUT))
        return dz_os_dirty_open(DZ_OS_DIRTY_COMPARE, ret_dirty, err);
    if (prctl(PR_SET_DUMPABLE, 1) < 0)
        return dz_fail_sys(err, errno, "open the pagemap of a cell");
    return dz_os_dirty_open(DZ_OS_DIRTY_SCAN, ret_dirty, err);
}

/* The Landlock rules of the zygote allow reading files of /proc, so the cell's own rules must not,
 * unless it looks at its stubs there. */
int dz_cell_enter_forked(const struct dz_zygote *zygote, struct dz_os_dirty **ret_dirty,
                         struct dz_cell_native *native, int *fds, size_t count, struct dz_err *err)
{
    const struct dz_os_jail jail = {
        .filter = zygote->filter,
        .landlock = true,
        .landlock_proc = native,
        .open = native ? open_native : NULL,
        .arg = native,
        .inherits = zygote->fences & ~(DZ_OS_FENCE_BIT(LANDLOCK) | DZ_OS_FENCE_BIT(SCOPES)),
    };
    struct dz_os_jail_report report;
    if (native)
        native->threads_max = (uint32_t)(zygote->processes / DZ_CELL_PROCESSES_PART);
    int e = dup3(fds[0], STDERR_FILENO, 0) < 0 ? -errno : keep_only(fds, count);
    int rc = e < 0 ? dz_fail_sys(err, -e, "close the descriptors that a cell must not have")
                   : open_dirty(zygote->fences, ret_dirty, err);
    return rc < 0 ? rc : dz_os_jail_enter(&jail, &report, err);
}

int dz_cell_died(int status, const char *what, struct dz_err *err)
{
    int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (sig == SIGSYS)
        return dz_fail(
            err, DZ_EIO,
            "%s: the cell was killed by signal %d: it made a system call that its jail forbids",
            what, sig);
    if (sig)
        return dz_fail(err, DZ_EIO, "%s: the cell was killed by signal %d (%s)", what, sig,
                       strsignal(sig));
    return dz_fail(err, DZ_EIO, "%s: the cell exited without a result (status %d)", what,
                   WEXITSTATUS(status));
}

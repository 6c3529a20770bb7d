/* SPDX-License-Identifier: MIT
 *
 * cell_zygote.c - see cell_zygote.h.
 *
 * Nothing of the host is here: the root zygote and zygotes are exec'd. A zygote is jailed before
 * it prepares anything. Its jail still allows forking and entering the jail of a cell; each cell
 * closes these two ways.
 */
#include "cell/cell_zygote.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/num.h"
#include "cell/cell_serve.h"
#include "db/db.h"
#include "linux/linux_run.h"
#include "machine/machine.h"
#include "os/os_guard.h"
#include "os/os_jail.h"
#include "os/os_warm.h"
#include "vfs/vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct dz_zygote zygote; /* each process has one */

static void send_frame(enum dz_frame_type type, uint32_t stream, uint64_t value, const char *text)
{
    struct dz_frame f = {.type = type, .stream = stream, .value = value};
    f.size = text ? (uint32_t)strlen(text) : 0;
    (void)dz_frame_send(zygote.control, &f, text, true, NULL);
}

DZ_NORETURN static void fail(const struct dz_err *err)
{
    send_frame(DZ_FRAME_ZYGOTE_FAILED, 0, (uint64_t)-err->code, err->msg);
    _exit(1);
}

/* --- making ready -------------------------------------------------------------------------- */

/* Prepare a handle for the file of a sandbox as far as that is possible without the file. */
static int prepare_disk(struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema, .label = "the disk"};
    int rc = dz_vfs_template_sleeper(&t, err);
    if (rc == 0)
        rc = dz_db_prepare(&zygote.disk, &opts, t.p, t.len, err);
    if (rc < 0)
        return rc;
    dz_vfs_prepare(zygote.disk);
    dz_execs_prepare(zygote.disk);
    dz_machine_prepare(zygote.disk);
    return 0;
}

static int open_image(const int *fds, size_t count, const char *sha256, struct dz_err *err)
{
    const struct dz_db_opts opts = {
        .schema = &dz_vfs_schema, .label = "the image", .immutable = true};
    (void)snprintf(zygote.image_sha256, sizeof zygote.image_sha256, "%.64s", sha256);
    zygote.fd_count = count;
    memcpy(zygote.fds, fds, count * sizeof zygote.fds[0]);
    int rc = dz_db_open_fds(&zygote.image, zygote.fds[0], -1, &opts, err);
    if (rc < 0)
        return rc;
    dz_vfs_prepare_image(zygote.image);
    dz_machine_prepare_image(zygote.image);
    rc = dz_pack_among(zygote.fds + 1, zygote.fd_count - 1, 0, &zygote.pack, &zygote.pack_fd, err);
    if (rc < 0)
        return rc;
    rc = dz_modules_new(zygote.fds + 1, zygote.fd_count - 1,
                        &(struct dz_modules_of){NULL, zygote.image, zygote.pack_fd},
                        &zygote.modules, err);
    return rc < 0 ? rc : dz_modules_open_all(zygote.modules, err);
}

/* --- forking --------------------------------------------------------------------------------- */

/* Fork a child of our parent, which reaps it. fork(3) cannot do that; the work that it does for the
 * locks of other threads is not needed, because there are no other threads. */
static long fork_for_parent(void)
{
    return syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
}

/* A cell without a start lets other processes run first, because several cells that are forked
 * ahead, each computing for a millisecond, would delay a cell that wakes on this processor. False:
 * a start has come. */
static bool make_way(void *arg)
{
    struct pollfd p = {.fd = *(const int *)arg, .events = POLLIN};
    if (poll(&p, 1, 0) != 0)
        return false;
    (void)sched_yield();
    return true;
}

/* Touch the memory that a wake writes, step by step until a start comes. */
static void get_ready(int fd, const struct dz_os_dirty *dirty, const struct dz_cell_native *native)
{
    if (!make_way(&fd))
        return;
    dz_os_warm(dirty, make_way, &fd);
    if (!make_way(&fd))
        return;
    dz_machine_warm(native != NULL);
    if (!make_way(&fd))
        return;
    dz_serve_warm();
    if (native && zygote.image && make_way(&fd))
        dz_linux_ready(native->runner, native->stub, zygote.pack_fd);
}

/* Give the process a stack canary of its own, so that what one cell learns of its stack is of no
 * use against another. No function that saw the old canary on the stack returns. */
__attribute__((always_inline)) static inline void renew_canary(void)
{
#ifdef __x86_64__
    uintptr_t canary;
    if (getrandom(&canary, sizeof canary, 0) == sizeof canary)
        __asm__ volatile("mov %0, %%fs:0x28" ::"r"(canary & ~(uintptr_t)0xff));
#endif
}

/* The processes of native programs are born in the cgroup that the cell is in when it starts the
 * first of them. So the cell waits until its host has moved it into its own cgroup. */
static bool is_placed(int gate)
{
    struct pollfd p = {.fd = gate, .events = POLLIN};
    char byte;
    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        ;
    return read(gate, &byte, 1) == 1;
}

/* The host learns from the credentials of the first packet which process has this socket. */
DZ_NORETURN static void cell(int fd, int gate)
{
    const struct dz_frame born = {.type = DZ_FRAME_BORN};
    renew_canary();
    if (dz_frame_send(fd, &born, NULL, true, NULL) < 0 || (gate >= 0 && !is_placed(gate)))
        _exit(0); /* the host no longer wants this cell */
    struct dz_os_dirty *dirty = NULL;
    struct dz_err err = {0};
    struct dz_cell_native native = {0};
    int fds[2 + DZ_CELL_MODULES_MAX] = {fd};
    memcpy(fds + 1, zygote.fds, zygote.fd_count * sizeof fds[0]);
    dz_db_reseed();
    (void)make_way(&fd);
    if (dz_cell_enter_forked(&zygote, &dirty, zygote.native ? &native : NULL, fds,
                             zygote.fd_count + 1, &err) < 0) {
        struct dz_frame f = {.type = DZ_FRAME_FAILED,
                             .value = (uint64_t)-err.code,
                             .size = (uint32_t)strlen(err.msg)};
        (void)dz_frame_send(fd, &f, err.msg, true, NULL);
        _exit(1);
    }
    get_ready(fd, dirty, zygote.native ? &native : NULL);
    dz_cell_serve(fd, dirty, zygote.native ? &native : NULL, &zygote);
}

/* Report a pid. The host believes it only from the root zygote, which reads no hostile bytes. */
static void answer(long pid)
{
    send_frame(DZ_FRAME_ZYGOTE_FORKED, pid < 0 ? (uint32_t)errno : 0, pid < 0 ? 0 : (uint64_t)pid,
               NULL);
}

DZ_NORETURN static void serve(void);

static void on_fork(const struct dz_frame_fds *fds)
{
    long pid = fork_for_parent();
    if (pid == 0)
        cell(fds->fds[0], fds->count > 1 ? fds->fds[1] : -1);
    answer(pid);
}

static void on_warm(const struct dz_request *r)
{
    static uint32_t numbers[DZ_ZYGOTE_WARM_MAX];
    if (!zygote.modules)
        return;
    memcpy(numbers, r->warm.numbers, r->warm.count * sizeof numbers[0]);
    if (r->warm.sha256)
        dz_modules_warm(zygote.modules, r->warm.sha256, numbers, r->warm.count);
    else
        dz_os_warm_learn(numbers, r->warm.count);
}

DZ_NORETURN static void serve(void)
{
    static const char *const libraries[] = {"libc.so", "libsqlite3.so", "liblz4.so", NULL};
    static uint8_t payload[DZ_CELL_FRAME_MAX];
    struct dz_frame f;
    struct dz_frame_fds fds;
    struct dz_request r;
    struct dz_err err = {0};
    dz_os_warm_plan(libraries);
    for (;;) {
        if (dz_frame_receive_fds(zygote.control, &f, payload, true, &fds, NULL) < 0)
            _exit(0); /* the pool is gone */
        int rc = dz_request_read(DZ_READER_ZYGOTE, &f, payload, fds.count, &r, &err);
        if (rc < 0 &&
            f.type != DZ_FRAME_ZYGOTE_WARM) /* a cell's bad report must not end its zygote */
            fail(&err);
        if (rc == 0 && r.type == DZ_FRAME_ZYGOTE_FORK)
            on_fork(&fds);
        if (rc == 0 && r.type == DZ_FRAME_ZYGOTE_WARM)
            on_warm(&r);
        for (size_t i = 0; i < fds.count; i++)
            dz_fd_close(&fds.fds[i]);
    }
}

/* --- from the daemon to a zygote -----------------------------------------------------------------
 *
 *   daemon -- fork, exec --> root zygote -- clone, exec --> zygote -- clone --> cells
 *                                 \ clone, exec --> a call on a hostile file
 *
 * Each exec makes a new layout of memory, a new stack canary and pointer guard, and leaves nothing
 * of the process before: a cell that is taken over finds no byte of the daemon, and what it learns
 * of its own memory is of no use against the daemon or another image's cells. */

enum {
    CONTROL_FD = 3, /* in a zygote with an image, followed by the image and its modules */
    CALLS_FD = 4,   /* of a root zygote: the socket for calls */
    HOST_FD = 5,    /* of a root zygote: for the guard; it closes when the host dies */
    FD_HIGH = 128,  /* above all of these numbers */
    /* After the death of the host its cells have this time to put their machines to sleep. */
    GUARD_MS = 20000,
};
static const char root_name[] = "doze-seed", zygote_name[] = "doze-zygote",
                  call_name[] = "doze-call";

/* Runs between fork and exec, so it takes no lock. The descriptors fds become CONTROL_FD and up,
 * and all others are closed. The first is the socket to the host, and also standard error. The
 * arguments of the program are the fences that every jail must have, and how many processes a
 * zygote may have with its cells (0 for a root zygote, which finds that out itself). */
DZ_NORETURN static void become(const char *name, const int *fds, size_t count)
{
    static const char *const kept[] = {"ASAN_OPTIONS=", "UBSAN_OPTIONS=", "LSAN_OPTIONS="};
    char fences[11], processes[21];
    char *argv[] = {(char *)(uintptr_t)name, fences, processes, NULL}; /* execve takes no const */
    char *env[DZ_ARRAY_LEN(kept) + 1];
    size_t n = 0;
    int high[DZ_FRAME_FDS_MAX];
    sigset_t none;
    (void)snprintf(fences, sizeof fences, "%u", dz_os_jail_demanded());
    (void)snprintf(processes, sizeof processes, "%" PRIu64, zygote.processes);
    for (char **e = environ; *e && n < DZ_ARRAY_LEN(kept); e++)
        for (size_t i = 0; i < DZ_ARRAY_LEN(kept); i++)
            if (strncmp(*e, kept[i], strlen(kept[i])) == 0 && n < DZ_ARRAY_LEN(kept))
                env[n++] = *e;
    env[n] = NULL;
    for (size_t i = 0; i < count; i++)
        if ((high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FD_HIGH)) < 0)
            _exit(1);
    for (size_t i = 0; i < count; i++)
        if (dup2(high[i], CONTROL_FD + (int)i) < 0) /* without close-on-exec */
            _exit(1);
    if (dup2(CONTROL_FD, STDERR_FILENO) < 0)
        _exit(1);
    (void)syscall(SYS_close_range, (unsigned)CONTROL_FD + (unsigned)count, ~0u, 0);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)execve("/proc/self/exe", argv, env);
    _exit(127);
}

DZ_NORETURN void dz_zygote_begin(int control, int calls, int host)
{
    const int mine[3] = {control, calls, host};
    int kept[3] = {control, calls, host}; /* sorted by the next call */
    if (dz_cell_let_go(kept, 3) < 0)
        _exit(1);
    become(root_name, mine, 3);
}

/* Start a zygote, with its control socket and, for an image, the file of the image and its modules.
 */
static void start_zygote(const struct dz_frame_fds *fds)
{
    long pid = fork_for_parent();
    if (pid == 0)
        become(zygote_name, fds->fds, fds->count);
    answer(pid);
}

/* Start the process of a call, with its socket, its stop word and its files. The answer goes to the
 * socket of the call, even if the request is refused, because it does not concern other calls or
 * zygotes. */
static void start_call(const struct dz_frame_fds *fds, bool refused)
{
    long pid = refused ? -1 : fork_for_parent();
    if (pid == 0)
        become(call_name, fds->fds, fds->count);
    const struct dz_frame f = {.type = DZ_FRAME_ZYGOTE_CALLED,
                               .stream = refused   ? EPROTO
                                         : pid < 0 ? (uint32_t)errno
                                                   : 0,
                               .value = pid < 0 ? 0 : (uint64_t)pid};
    if (fds->count > 0)
        (void)dz_frame_send(fds->fds[0], &f, NULL, false, NULL);
}

/* The root zygote reads nothing but requests of its host, so it needs no jail. Its children enter
 * theirs.
 */
DZ_NORETURN static void run_root(void)
{
    static uint8_t payload[DZ_CELL_FRAME_MAX];
    struct pollfd p[] = {{.fd = CONTROL_FD, .events = POLLIN},
                         {.fd = CALLS_FD, .events = POLLIN},
                         {.events = POLLIN}};
    struct dz_err err = {0};
    zygote.control = CONTROL_FD;
    zygote.processes = dz_cell_processes(); /* in the guard's pid namespace /proc/sys does not show
                                               the machine's limit */
    if (dz_os_guard_start(HOST_FD, GUARD_MS, &p[2].fd, &err) < 0)
        fail(&err);
    (void)close(HOST_FD);
    for (;;) {
        (void)poll(p, DZ_ARRAY_LEN(p), -1);
        if (p[2].revents)
            _exit(1); /* in the pid namespace of a dead guard no process can be started */
        for (size_t i = 0; i < 2; i++) {
            struct dz_frame f;
            struct dz_frame_fds fds;
            struct dz_request r;
            if (!p[i].revents)
                continue;
            if (dz_frame_receive_fds(p[i].fd, &f, payload, true, &fds, NULL) < 0)
                _exit(0); /* the host is gone */
            bool calls = p[i].fd == CALLS_FD;
            int rc = dz_request_read(calls ? DZ_READER_ROOT_CALLS : DZ_READER_ROOT, &f, payload,
                                     fds.count, &r, &err);
            if (calls)
                start_call(&fds, rc < 0);
            else if (rc < 0)
                fail(&err);
            else
                start_zygote(&fds);
            for (size_t k = 0; k < fds.count; k++)
                dz_fd_close(&fds.fds[k]);
        }
    }
}

size_t dz_zygote_inherited(int first, size_t most)
{
    size_t n = 0;
    while (n < most && fcntl(first + (int)n, F_GETFD) >= 0)
        n++;
    return n;
}

/* Open the image and its modules anew, because everybody who holds an open file shares its flags
 * and its offset, and the daemon holds these. */
static int open_anew(int *fds, size_t count, struct dz_err *err)
{
    for (size_t i = 0; i < count; i++) {
        int fd = dz_fd_reopen(fds[i], err);
        if (fd < 0)
            return fd;
        (void)close(fds[i]);
        fds[i] = fd;
    }
    return 0;
}

/* Receive one of the messages that come before the zygote is ready. */
static int hear(enum dz_request_reader by, struct dz_request *ret, struct dz_err *err)
{
    static uint8_t payload[DZ_CELL_FRAME_MAX];
    struct dz_frame f;
    if (dz_frame_receive(zygote.control, &f, payload, true, NULL) < 0)
        _exit(0); /* the pool is gone */
    return dz_request_read(by, &f, payload, 0, ret, err);
}

/* The second message of a zygote with an image is the image's hash: descriptors come without a
 * payload. */
static int be_of_image(const int *fds, size_t count, struct dz_err *err)
{
    struct dz_request r;
    int rc = hear(DZ_READER_ZYGOTE_IMAGE, &r, err);
    return rc < 0 ? rc : open_image(fds, count, r.image_sha256, err);
}

/* The first message to every zygote says which users it and its cells become. */
static int hear_users(struct dz_err *err)
{
    struct dz_request r;
    int rc = hear(DZ_READER_ZYGOTE_FIRST, &r, err);
    if (rc < 0)
        return rc;
    zygote.users = r.who.users;
    zygote.user = r.who.user;
    zygote.native = r.who.native != DZ_ZYGOTE_MODULES;
    dz_linux_baseline_told(r.who.cpu);
    dz_linux_told(r.who.native == DZ_ZYGOTE_NATIVE_TSC, r.who.cpuinfo, r.who.cpuinfo_size);
    return 0;
}

/* The filter of the cells is compiled first, because libseccomp asks the kernel what it can do by
 * system calls that the zygote's own jail refuses. */
DZ_NORETURN static void run_zygote(void)
{
    struct dz_err err = {0};
    struct dz_os_jail_report report = {0};
    int fds[1 + 1 + DZ_CELL_MODULES_MAX], kept[DZ_ARRAY_LEN(fds)];
    size_t count = dz_zygote_inherited(CONTROL_FD, DZ_ARRAY_LEN(fds));
    for (size_t i = 0; i < count; i++)
        fds[i] = CONTROL_FD + (int)i;
    zygote.control = CONTROL_FD;
    if (hear_users(&err) < 0)
        fail(&err);
    const struct dz_os_users *users = zygote.users.count ? &zygote.users : NULL;
    struct dz_os_syscall calls[DZ_CELL_CALLS_MAX];
    size_t call_count = dz_cell_calls(false, zygote.native, users, calls);
    int rc = open_anew(fds + 1, count - 1, &err);
    if (rc == 0)
        rc = dz_cell_part_shared(fds + 1, count - 1, &err);
    if (rc == 0)
        rc = dz_os_filter_new(calls, call_count, false, &zygote.filter, &err);
    memcpy(kept, fds, sizeof kept); /* sorted by the next call */
    if (rc == 0)
        rc = dz_cell_enter_zygote(&zygote, kept, count, &report, &err);
    zygote.fences = report.fences;
    if (rc == 0)
        rc = prepare_disk(&err);
    if (rc == 0 && count > 1)
        rc = be_of_image(fds + 1, count - 1, &err);
    if (rc < 0)
        fail(&err);
    if (count > 1)
        dz_os_warm_ask();
    send_frame(DZ_FRAME_ZYGOTE_READY, 0, zygote.fences, NULL);
    serve();
}

/* A program that contains this module may be started as a root zygote, a zygote or the process of a
 * call, by become(). That is decided before main(), because the programs of tests have pools as
 * well. */
__attribute__((constructor)) static void be_named_process(int argc, char **argv)
{
    if (argc != 3 || strncmp(argv[0], "doze-", strlen("doze-")) != 0)
        return;
    uint64_t fences;
    if (dz_num_u64(dz_str(argv[1]), 0, UINT32_MAX, &fences, NULL) < 0 ||
        dz_num_u64(dz_str(argv[2]), 0, DZ_CELL_PROCESSES_MOST, &zygote.processes, NULL) < 0)
        _exit(1);
    dz_os_jail_demand((uint32_t)fences);
    if (strcmp(argv[0], root_name) == 0)
        run_root();
    if (strcmp(argv[0], zygote_name) == 0)
        run_zygote();
    if (strcmp(argv[0], call_name) == 0)
        dz_call_begin();
}

/* SPDX-License-Identifier: MIT
 *
 * cell_nest.c - see cell_nest.h.
 *
 * Nothing of the host is here but what it had when it made the pool, and that is before it
 * has secrets. A nest is jailed before it makes anything ready: of its jail only the
 * fork and the way into the cells' jail are left open, which each cell shuts.
 */
#include "cell/cell_nest.h"

#include "base/buf.h"
#include "base/fd.h"
#include "cell/cell_serve.h"
#include "db/db.h"
#include "machine/machine.h"
#include "os/os_jail.h"
#include "os/os_warm.h"
#include "vfs/vfs.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct dz_nest nest; /* one process, one nest */

static void say(enum dz_frame_type type, uint32_t stream, uint64_t value, const char *text)
{
    struct dz_frame f = {.type = type, .stream = stream, .value = value};
    f.size = text ? (uint32_t)strlen(text) : 0;
    (void)dz_frame_send(nest.control, &f, text, true, NULL);
}

DZ_NORETURN static void fail(const struct dz_err *err)
{
    say(DZ_FRAME_NEST_FAILED, 0, 0, err->msg);
    _exit(1);
}

/* --- making ready -------------------------------------------------------------------------- */

/* A handle for a sandbox's file, as far as it goes without one. */
static int prepare_disk(struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema, .label = "the disk"};
    int rc = dz_vfs_template_sleeper(&t, err);
    if (rc == 0)
        rc = dz_db_prepare(&nest.disk, &opts, t.p, t.len, err);
    if (rc < 0)
        return rc;
    dz_vfs_prepare(nest.disk);
    dz_execs_prepare(nest.disk);
    dz_machine_prepare(nest.disk);
    return 0;
}

static int open_image(const struct dz_frame_fds *fds, const char *sha256, struct dz_err *err)
{
    const struct dz_db_opts opts = {
        .schema = &dz_vfs_schema, .label = "the image", .immutable = true};
    (void)snprintf(nest.image_sha256, sizeof nest.image_sha256, "%.64s", sha256);
    nest.fd_count = fds->count - 1;
    memcpy(nest.fds, fds->fds + 1, nest.fd_count * sizeof nest.fds[0]);
    int rc = dz_db_open_fds(&nest.image, nest.fds[0], -1, &opts, err);
    if (rc < 0)
        return rc;
    dz_vfs_prepare_image(nest.image);
    dz_machine_prepare_image(nest.image);
    rc = dz_modules_new(nest.fds + 1, nest.fd_count - 1, &(struct dz_modules_of){NULL, nest.image},
                        &nest.modules, err);
    return rc < 0 ? rc : dz_modules_open_all(nest.modules, err);
}

/* --- forking --------------------------------------------------------------------------------- */

/* One that our parent shall wait for. The C library's fork cannot do that; there are
 * no threads here whose locks it would see to. */
static long fork_for_parent(void)
{
    return syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
}

/* Unless somebody waits already. */
static void get_ready(int fd, const struct dz_os_dirty *dirty)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, 0) != 0)
        return;
    dz_os_warm(dirty);
    dz_machine_warm();
    dz_serve_warm();
}

DZ_NORETURN static void cell(int fd)
{
    struct dz_os_dirty *dirty = NULL;
    struct dz_err err = {0};
    int fds[2 + DZ_CELL_MODULES_MAX] = {fd};
    memcpy(fds + 1, nest.fds, nest.fd_count * sizeof fds[0]);
    dz_db_reseed();
    if (dz_cell_enter_nested(nest.filter, &dirty, fds, nest.fd_count + 1, &err) < 0) {
        struct dz_frame f = {.type = DZ_FRAME_FAILED,
                             .value = (uint64_t)-err.code,
                             .size = (uint32_t)strlen(err.msg)};
        (void)dz_frame_send(fd, &f, err.msg, true, NULL);
        _exit(1);
    }
    get_ready(fd, dirty);
    dz_cell_serve(fd, dirty, &nest);
}

static void answer(long pid)
{
    say(DZ_FRAME_NEST_FORKED, pid < 0 ? (uint32_t)errno : 0, pid < 0 ? 0 : (uint64_t)pid, NULL);
}

DZ_NORETURN static void serve(void);

static void on_fork(const struct dz_frame_fds *fds)
{
    long pid = fds->count == 1 ? fork_for_parent() : -1;
    if (pid == 0)
        cell(fds->fds[0]);
    answer(pid);
}

/* What another nest does first: its hash comes over its own socket. */
DZ_NORETURN static void image_nest(const struct dz_frame_fds *fds, uint8_t *payload)
{
    struct dz_err err = {0};
    struct dz_frame f;
    dz_fd_close(&nest.control);
    nest.control = fds->fds[0];
    dz_db_reseed();
    if (dz_frame_receive(nest.control, &f, payload, true, NULL) < 0)
        _exit(0);
    payload[f.size] = '\0';
    if (open_image(fds, (const char *)payload, &err) < 0)
        fail(&err);
    dz_os_warm_ask();
    say(DZ_FRAME_NEST_READY, 0, nest.fences, NULL);
    serve();
}

static void on_image(const struct dz_frame_fds *fds, uint8_t *payload)
{
    long pid = fds->count >= 2 && !nest.image ? fork_for_parent() : -1;
    if (pid == 0)
        image_nest(fds, payload);
    answer(pid);
}

static void on_warm(const struct dz_frame *f, const uint8_t *payload)
{
    static const uint8_t no_module[sizeof((struct dz_nest_warm *)0)->sha256];
    static uint32_t funcs[DZ_NEST_WARM_MAX];
    struct dz_nest_warm w;
    if (f->size < sizeof w || !nest.modules)
        return;
    memcpy(&w, payload, sizeof w);
    size_t n = (f->size - sizeof w) / sizeof funcs[0];
    memcpy(funcs, payload + sizeof w, n * sizeof funcs[0]);
    if (memcmp(w.sha256, no_module, sizeof no_module) == 0)
        dz_os_warm_learn(funcs, n);
    else
        dz_modules_warm(nest.modules, w.sha256, funcs, n);
}

DZ_NORETURN static void serve(void)
{
    static const char *const libraries[] = {"libc.so", "libsqlite3.so", "liblz4.so", NULL};
    static uint8_t payload[DZ_CELL_FRAME_MAX + 1];
    struct dz_frame f;
    struct dz_frame_fds fds;
    dz_os_warm_plan(libraries);
    for (;;) {
        if (dz_frame_receive_fds(nest.control, &f, payload, true, &fds, NULL) < 0)
            _exit(0); /* the pool is gone */
        payload[f.size] = '\0';
        if (f.type == DZ_FRAME_NEST_FORK)
            on_fork(&fds);
        else if (f.type == DZ_FRAME_NEST_IMAGE)
            on_image(&fds, payload);
        else if (f.type == DZ_FRAME_NEST_WARM)
            on_warm(&f, payload);
        for (size_t i = 0; i < fds.count; i++)
            dz_fd_close(&fds.fds[i]);
    }
}

/* The process that nests come from. It holds nothing but what the host had when it made the
 * pool, and looks at nothing but requests: it needs no jail, and its children enter theirs. */
DZ_NORETURN void dz_nest_seed(int control)
{
    static uint8_t payload[DZ_CELL_FRAME_MAX];
    struct dz_frame f;
    struct dz_frame_fds fds;
    int mine[1] = {control};
    if (dz_cell_let_go(mine, 1) < 0)
        _exit(1);
    nest.control = mine[0];
    while (dz_frame_receive_fds(control, &f, payload, true, &fds, NULL) > 0) {
        long pid = fds.count == 1 ? fork_for_parent() : -1;
        if (pid == 0)
            dz_nest_serve(fds.fds[0]);
        answer(pid);
        for (size_t i = 0; i < fds.count; i++)
            dz_fd_close(&fds.fds[i]);
    }
    _exit(0);
}

/* The cells' filter is compiled first: the library that does it asks the kernel what it can do
 * by calls that the nest's own jail does not have. */
DZ_NORETURN void dz_nest_serve(int control)
{
    struct dz_err err = {0};
    struct dz_os_jail_report report = {0};
    int fds[1] = {control};
    nest.control = control;
    int rc = dz_os_filter_new(dz_os_jail_compute, dz_os_jail_compute_count, &nest.filter, &err);
    if (rc == 0)
        rc = dz_cell_enter_nest(fds, 1, &report, &err);
    if (rc == 0)
        rc = prepare_disk(&err);
    if (rc < 0)
        fail(&err);
    nest.fences = report.fences;
    say(DZ_FRAME_NEST_READY, 0, nest.fences, NULL);
    serve();
}

/* SPDX-License-Identifier: MIT
 *
 * cell_host.c - the host's side: fork a cell, and exchange frames over its socket.
 *
 * The child closes every descriptor but the socket and the standard three, enters the jail and
 * only then receives the descriptors of its machine: so it cannot leak anything else.
 */
#include "cell/cell_host.h"
#include "cell/cell_call.h"
#include "cell/cell_op.h"
#include "cell/cell_users.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "os/os_cgroup.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TIDY_MS = 5000,        /* time for a cell to tidy up after its last event */
    TIDY_ALONE_MS = 60000, /* the same grace period while the host is blocked */
    DYING_MS = 50,         /* time to wait for the status of a process that was killed */
};

static void report_failure(int fd, int code, const struct dz_err *err)
{
    struct dz_frame f = {
        .type = DZ_FRAME_FAILED, .value = (uint64_t)-code, .size = (uint32_t)strlen(err->msg)};
    (void)dz_frame_send(fd, &f, err->msg, true, NULL);
}

DZ_NORETURN static void child(int fd, bool outlives, bool runs_native)
{
    struct dz_os_dirty *dirty = NULL;
    struct dz_cell_native native = {.runner = NULL};
    const struct dz_cell_fence fence = {.file_bytes = DZ_CELL_FILE_SIZE,
                                        .dirty = &dirty,
                                        .native = runs_native ? &native : NULL,
                                        .outlives = outlives,
                                        .net = true};
    struct dz_err err = {0};
    int fds[1] = {fd};
    int rc = dz_cell_enter(&fence, fds, 1, &err);
    if (rc < 0) {
        report_failure(fd, rc, &err);
        _exit(1);
    }
    dz_cell_serve(fd, dirty, runs_native ? &native : NULL, NULL);
}

struct dz_cell *dz_cell_adopt(int fd)
{
    struct dz_cell *c = dz_zalloc(sizeof *c);
    if (!c)
        return NULL;
    c->fd = fd;
    c->gate = -1;
    c->death = DZ_REAP_WATCH_INIT;
    dz_cell_stderr_init(&c->text, DZ_STDERR_CELL, NULL);
    c->execs.max = (size_t)DZ_CELL_EXECS_MAX * 2;
    c->ops.max = DZ_CELL_OPS_MAX;
    dz_list_init(&c->queue);
    return c;
}

int dz_cell_spawn(const struct dz_cell_start *start, struct dz_cell **ret_cell, struct dz_err *err)
{
    int pair[2];
    if (start->module_count > DZ_CELL_MODULES_MAX)
        return dz_fail(err, DZ_ELIMIT, "start a cell: %zu prepared modules; at most %d are allowed",
                       start->module_count, DZ_CELL_MODULES_MAX);
    struct dz_cell *c = dz_cell_adopt(-1);
    if (!c)
        return dz_fail(err, DZ_ENOMEM, "start a cell: out of memory");
    int rc = dz_frame_pair(pair, err);
    if (rc < 0) {
        dz_free(c);
        return rc;
    }
    dz_cell_stderr_init(&c->text, DZ_STDERR_CELL, start->label);
    c->pid = fork();
    if (c->pid == 0)
        child(pair[1], !start->ends_with_main, start->native);
    (void)close(pair[1]);
    c->fd = pair[0];
    rc = c->pid < 0 ? dz_fail_sys(err, errno, "start a cell: fork") : 0;
    if (rc == 0)
        rc = dz_cell_send_start(c, start, false, err);
    if (rc < 0) {
        dz_cell_free(c);
        return rc;
    }
    *ret_cell = c;
    return 0;
}

int dz_cell_fd(const struct dz_cell *c)
{
    return c->death.fd >= 0 ? c->death.fd : c->fd;
}

int32_t dz_cell_pid(struct dz_cell *c)
{
    (void)dz_cell_learn(c);
    return c->pid > 0 ? c->pid : 0;
}

/* Ignore what a zygote or a cell says about pids: a compromised one could name the cell of another
 * tenant. The kernel reports who sent a packet. A zygote could send one itself, but its own pid is
 * claimed already. */
int dz_cell_learn(struct dz_cell *c)
{
    struct dz_sender who;
    int rc = c->reaper && !c->known ? dz_frame_sender(c->fd, &who) : 0;
    if (rc <= 0)
        return rc == DZ_EINVAL ? DZ_EIO
                               : 0; /* the next receive from the cell reports that it has ended */
    c->known = true;
    dz_frame_ask_sender(c->fd, false);
    if (!dz_reap_claim_sender(&who))
        return DZ_EIO;
    c->pid = who.pid;
    if (c->home)
        dz_pool_born(c);
    if (c->doomed)
        (void)kill(c->pid, SIGKILL);
    return 0;
}

/* Hand the process of the cell to the reaper, together with its user id. */
static void leave_to_reaper(struct dz_cell *c, int64_t grace_ms)
{
    dz_reaper_add(c->reaper, c->pid, c->helper, grace_ms);
    c->helper = DZ_USER_NONE;
}

/* True: c->status tells how the cell ended. False: it was killed and will be dead in a moment; poll
 * dz_cell_fd() for that. A cell that dies slowly is left to the pool's reaper and counts as killed,
 * as does a cell whose death cannot be watched. */
static bool has_ended(struct dz_cell *c, int *ret_status)
{
    *ret_status = 0;
    if (c->pid == 0)
        return true;
    if (c->dying_ns == 0) {
        c->dying_ns = dz_clock_boot_ns();
        (void)kill(c->pid, SIGKILL); /* harmless if it is dying already */
    }
    if (!c->reaper)
        *ret_status = dz_reap_or_kill(c->pid, 0);
    else if (!dz_reap_within(c->pid, 0, ret_status)) {
        if (c->death.fd < 0 ? dz_reap_watch_begin(&c->death, c->pid, DYING_MS) == 0
                            : dz_clock_boot_ns() - c->dying_ns < DYING_MS * DZ_NS_PER_MS)
            return false;
        *ret_status = SIGKILL;
        leave_to_reaper(c, 0);
    }
    c->pid = 0;
    return true;
}

/* Report how the cell died. 0: it is not dead yet. */
static int died(struct dz_cell *c, struct dz_err *err)
{
    int status;
    if (c->dying_ns == 0) {
        c->nonsense = !dz_frame_gone(c->fd);
        if (c->fork)
            dz_pool_ask(c);
    }
    if (!has_ended(c, &status))
        return 0;
    if (c->unborn.code) {
        if (err)
            *err = c->unborn;
        return c->unborn.code;
    }
    if (c->nonsense)
        return dz_fail(err, DZ_EIO,
                       "the cell sent an invalid frame and was killed: files are as of the last "
                       "commit, memory is lost");
    uint64_t most = c->each ? dz_os_each_killed(c->each, c->group) : 0;
    c->out_of_memory = most > 0;
    if (most)
        return dz_fail(
            err, DZ_EIO,
            "run the sandbox's process (files are as of the last commit, memory is lost): "
            "it took more memory than the %llu MiB of its cgroup (memory.max) and was killed",
            (unsigned long long)(most >> 20));
    return dz_cell_died(
        status, "run the sandbox's process (files are as of the last commit, memory is lost)", err);
}

static void end_process(struct dz_cell *c, int64_t grace_ms)
{
    if (c->reaper)
        leave_to_reaper(c, grace_ms);
    else
        (void)dz_reap_or_kill(c->pid, grace_ms);
    c->pid = 0;
}

const char *dz_cell_sentence(struct dz_cell *c, size_t at)
{
    enum {
        LONGEST = sizeof(((struct dz_err *)0)->msg) - 1
    };
    if (at + LONGEST < sizeof c->payload)
        c->payload[at + LONGEST] = 0;
    return (const char *)c->payload + at;
}

/* Turn a frame into an event; 0: the frame concerns this file alone. */
static int understand(struct dz_cell *c, const struct dz_frame *f, struct dz_cell_event *e,
                      struct dz_err *err)
{
    *e = (struct dz_cell_event){
        .stream = f->stream, .data = c->payload, .size = f->size, .text = ""};
    c->payload[f->size] = 0;
    if (f->type == DZ_FRAME_READY ||
        f->type == DZ_FRAME_UP) { /* the cell has become its tenant's user */
        dz_cell_user_release(c->helper);
        c->helper = DZ_USER_NONE;
    }
    int rc = dz_cell_exec_event(c, f, e, err);
    if (rc == 0)
        rc = dz_cell_net_event(c, f, e, err);
    if (rc != 0)
        return rc;
    switch (f->type) {
    case DZ_FRAME_SUSPENDED:
        e->type = DZ_CELL_SUSPENDED;
        e->count = f->value;
        e->busy = f->stream == 1;
        c->ended = c->tidies = true;
        return 1;
    case DZ_FRAME_AWAKE:
        e->type = DZ_CELL_AWAKE;
        c->suspending = false;
        e->code = f->value > 0 && f->value < 1000 ? -(int)f->value : DZ_EIO;
        e->text = dz_cell_sentence(c, 0);
        return 1;
    case DZ_FRAME_COPIED:
        e->type = DZ_CELL_COPIED;
        e->count = f->stream ? 0 : f->value;
        e->code = f->stream ? -(int)(f->value % 1000) : 0;
        e->text = dz_cell_sentence(c, 0);
        return 1;
    case DZ_FRAME_BORN: /* comes once, and only from a cell that a zygote forked */
        if (!c->reaper || c->born)
            break;
        c->born = true;
        e->type = DZ_CELL_NOTHING;
        return 1;
    case DZ_FRAME_LOST:
        e->type = DZ_CELL_LOST;
        return 1;
    case DZ_FRAME_STDERR:
        dz_cell_stderr_add(&c->text, c->payload, f->size);
        e->type = DZ_CELL_NOTHING;
        return 1;
    case DZ_FRAME_FAILED:
        e->type = DZ_CELL_FAILED;
        e->code = f->value > 0 && f->value < 1000 ? -(int)f->value : DZ_EIO;
        e->text = dz_cell_sentence(c, 0);
        c->ended = true;
        return 1;
    default:
        break;
    }
    return dz_cell_nonsense(f, err);
}

/* Report GONE exactly once. A process that has closed its socket has nothing left to do. */
static int gone(struct dz_cell *c, struct dz_cell_event *e)
{
    if (c->pid > 0)
        end_process(c, 0);
    *e = (struct dz_cell_event){.type = DZ_CELL_GONE, .text = ""};
    int first = !c->gone;
    c->gone = true;
    return first;
}

static int next_frame(struct dz_cell *c, struct dz_frame *ret_frame, struct dz_err *err)
{
    int rc = dz_cell_together_next(c, ret_frame, err);
    if (rc == 0)
        rc = dz_frame_receive(c->fd, ret_frame, c->payload, false, err);
    if (rc <= 0 || ret_frame->type != DZ_FRAME_TOGETHER)
        return rc;
    rc = dz_cell_together(c, ret_frame, err);
    return rc < 0 ? rc : dz_cell_together_next(c, ret_frame, err);
}

int dz_cell_receive(struct dz_cell *c, struct dz_cell_event *ret_event, struct dz_err *err)
{
    struct dz_frame f;
    if (c->gone)
        return 0;
    bool may_come = c->reaper && !c->known && !dz_frame_gone(c->fd);
    if (c->dying_ns || dz_cell_learn(c) < 0)
        return died(c, err);
    if (may_come && !c->known)
        return 0; /* the kernel reports the sender's pid with the first packet; read it before the
                     packet is received */
    int rc = c->waking ? dz_cell_up_event(c, ret_event, err) : 0;
    if (rc == DZ_EIO)
        return died(c, err);
    if (rc != 0)
        return rc;
    rc = next_frame(c, &f, err);
    if (rc == DZ_EIO && c->ended && dz_frame_gone(c->fd))
        return gone(c, ret_event);
    if (rc == DZ_EIO)
        return died(c, err);
    rc = rc <= 0 ? rc : understand(c, &f, ret_event, err);
    return rc == DZ_EIO ? died(c, err) : rc;
}

bool dz_cell_out_of_memory(const struct dz_cell *c)
{
    return c->out_of_memory;
}

bool dz_cell_pending(const struct dz_cell *c)
{
    return c->waking || c->together;
}

static int send_plain(struct dz_cell *c, enum dz_frame_type type, uint64_t value,
                      struct dz_err *err)
{
    struct dz_frame f = {.type = type, .value = value};
    return dz_cell_send(c, &f, NULL, err);
}

static int send_text(struct dz_cell *c, enum dz_frame_type type, uint64_t value, const void *data,
                     size_t size, struct dz_err *err)
{
    struct dz_frame f = {.type = type, .value = value, .size = (uint32_t)size};
    if (size > DZ_CELL_FRAME_MAX)
        return dz_fail(err, DZ_ELIMIT, "a path of %zu bytes is too long for a sandbox", size);
    return dz_cell_send(c, &f, data, err);
}

int dz_cell_room(struct dz_cell *c, uint64_t bytes, struct dz_err *err)
{
    return send_plain(c, DZ_FRAME_ROOM, bytes, err);
}

int dz_cell_limits(struct dz_cell *c, uint64_t keep_free, uint64_t disk_bytes, struct dz_err *err)
{
    const struct dz_frame_limits l = {.keep_free = keep_free, .disk_bytes = disk_bytes};
    const struct dz_frame f = {.type = DZ_FRAME_LIMITS, .size = sizeof l};
    return dz_cell_send(c, &f, &l, err);
}

int dz_cell_suspend(struct dz_cell *c, bool files_only, struct dz_err *err)
{
    int rc = send_plain(c, DZ_FRAME_SUSPEND, files_only, err);
    c->suspending |= rc == 0;
    return rc;
}

int dz_cell_snapshot(struct dz_cell *c, int fd, struct dz_err *err)
{
    const struct dz_frame f = {.type = DZ_FRAME_SNAPSHOT};
    return dz_cell_send_fds(c, &f, NULL, &fd, 1, err);
}

int dz_cell_put_dir(struct dz_cell *c, const char *path, uint32_t mode, struct dz_err *err)
{
    return send_text(c, DZ_FRAME_DIR, mode, path, strlen(path) + 1, err);
}

int dz_cell_put_file(struct dz_cell *c, const char *path, uint32_t mode, struct dz_err *err)
{
    return send_text(c, DZ_FRAME_FILE, mode, path, strlen(path) + 1, err);
}

int dz_cell_put_link(struct dz_cell *c, const char *path, const char *target, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf both = DZ_BUF_INIT(DZ_CELL_FRAME_MAX);
    dz_buf_add(&both, path, strlen(path) + 1);
    dz_buf_add(&both, target, strlen(target) + 1);
    if (both.err)
        return dz_fail(err, both.err, "copy the link %s into the sandbox: its target is too long",
                       path);
    return send_text(c, DZ_FRAME_LINK, 0, both.p, both.len, err);
}

int dz_cell_put_data(struct dz_cell *c, const void *data, size_t size, struct dz_err *err)
{
    const char *p = data;
    int rc = 0;
    for (size_t at = 0, n; rc == 0 && at < size; at += n) {
        n = size - at < DZ_CELL_FRAME_MAX ? size - at : DZ_CELL_FRAME_MAX;
        rc = send_text(c, DZ_FRAME_DATA, 0, p + at, n, err);
    }
    return rc;
}

int dz_cell_go(struct dz_cell *c, struct dz_err *err)
{
    return send_plain(c, DZ_FRAME_GO, 0, err);
}

void dz_cell_kill(struct dz_cell *c)
{
    (void)dz_cell_learn(c);
    c->doomed = true;
    if (c->pid > 0)
        (void)kill(c->pid, SIGKILL);
}

void dz_cell_free(struct dz_cell *c)
{
    if (!c)
        return;
    /* A cell that has sent its last event may tidy up its file for a while. Any other cell is
     * killed before it can see the socket close, and so is a cell that has closed its socket
     * itself. */
    (void)dz_cell_learn(c);
    bool tidies = c->tidies && !dz_frame_gone(c->fd);
    if (c->pid > 0 && !tidies)
        (void)kill(c->pid, SIGKILL);
    bool unborn = c->reaper && !c->known;
    dz_pool_gate_close(c);
    if (c->fork)
        dz_pool_forget(c->fork);
    if (unborn) {
        dz_reaper_add_unborn(c->reaper, c->fd, c->helper);
        c->helper = DZ_USER_NONE;
    } else
        dz_fd_close(&c->fd);
    dz_reap_watch_release(&c->death);
    if (c->pid > 0)
        end_process(c, !tidies ? 0 : c->reaper ? TIDY_MS : TIDY_ALONE_MS);
    dz_cell_user_release(c->helper);
    dz_cell_stderr_end(&c->text);
    if (c->each)
        dz_os_each_leave(c->each, c->group);
    dz_cell_queue_release(c);
    dz_free(c);
}

/* SPDX-License-Identifier: MIT
 *
 * cell_serve.c - the life of a cell behind its jail: take the start, open the
 * machine, run it, carry its streams, say how it ended.
 *
 * The loop: run processes for at most RUN_NS or until nothing can run, then look
 * at the socket; asleep, wait for it and for the next deadline. Output leaves as
 * frames after a commit (the kernel's output gate); when the socket is full the
 * kernel keeps it and writers wait. Input waits in a ring a stream until the
 * kernel takes it; what it took, the host may send anew (the window).
 */
#include "cell/cell_serve.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/vm.h"
#include "cell/cell_nest.h"
#include "db/db.h"
#include "kernel/kernel.h"
#include "os/os_user.h"
#include "vfs/vfs.h"
#include "wasm/wasm.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    RUN_NS = 10 * 1000 * 1000,    /* between two looks at the socket */
    SETTLE_TURNS = 20,            /* of RUN_NS, for processes to come out of vfork */
    LOG_PAGES = 64,               /* that are worth a checkpoint when nothing happens */
    QUIET_NS = 100 * 1000 * 1000, /* of waiting, until memory is given back */
};

static struct dz_serve serve; /* one process, one machine */

void dz_serve_warm(void)
{
    uintptr_t page = dz_vm_page(), from = (uintptr_t)&serve.start / page * page;
    uintptr_t mid = (uintptr_t)&serve.log_refused / page * page;
    uintptr_t last = (uintptr_t)&serve.up / page * page;
    dz_vm_populate((void *)from, (uintptr_t)serve.in - from + page);
    dz_vm_populate((void *)mid, page);
    dz_vm_populate((void *)last, (uintptr_t)(&serve + 1) - last + page);
}

DZ_NORETURN void dz_serve_fail(struct dz_serve *s, int code, const struct dz_err *err)
{
    struct dz_frame f = {
        .type = DZ_FRAME_FAILED, .value = (uint64_t)-code, .size = (uint32_t)strlen(err->msg)};
    (void)dz_out_flush(&s->out, true);
    (void)dz_frame_send(s->fd, &f, err->msg, true, NULL);
    _exit(1);
}

/* --- time slices: the only signal here ------------------------------------------------ */

static void on_alarm(int signo)
{
    (void)signo;
    if (serve.machine.kernel)
        dz_kernel_interrupt(serve.machine.kernel);
}

void dz_cell_slice(void *arg, int64_t ns)
{
    struct itimerval t = {.it_value = {ns / 1000000000, (ns % 1000000000 + 999) / 1000}};
    (void)arg;
    (void)setitimer(ITIMER_REAL, &t, NULL);
}

/* --- output ------------------------------------------------------------------------------ */

size_t dz_cell_output(void *arg, uint32_t stream, uint64_t tag, const void *data, size_t n)
{
    struct dz_serve *s = arg;
    size_t done = 0;
    (void)stream;
    if (s->machine.execs)
        return dz_execs_output(s->machine.execs, tag, n);
    while (done < n) {
        size_t step = n - done < DZ_CELL_FRAME_MAX ? n - done : DZ_CELL_FRAME_MAX;
        struct dz_frame f = {
            .type = DZ_FRAME_OUTPUT, .stream = (uint32_t)tag, .size = (uint32_t)step};
        int rc = dz_frame_send(s->fd, &f, (const uint8_t *)data + done, s->block, NULL);
        if (rc < 0)
            return n; /* nobody is there any more */
        if (rc == 0)
            break;
        done += step;
    }
    s->refused[tag & 3] = done < n;
    return done;
}

static bool any_refused(const struct dz_serve *s)
{
    return s->refused[DZ_CELL_STDOUT] || s->refused[DZ_CELL_STDERR] || s->refused[DZ_CELL_TTY];
}

static void output_ready(struct dz_serve *s)
{
    for (int i = 0; i < 4; i++) {
        if (s->refused[i])
            (void)dz_kernel_stream_ready(s->machine.kernel, s->machine.streams[i]);
        s->refused[i] = false;
    }
}

/* --- input --------------------------------------------------------------------------------- */

static void take_input(struct dz_serve *s, const struct dz_frame *f)
{
    struct dz_cell_input *in = f->stream < 4 ? &s->in[f->stream] : NULL;
    if (!in || f->size > sizeof in->bytes - in->len)
        return; /* a host that does not keep to its window loses bytes */
    for (size_t i = 0; i < f->size; i++)
        in->bytes[(in->head + in->len + i) % sizeof in->bytes] = s->payload[i];
    in->len += f->size;
}

/* Give the kernel what it can take, and the host as much window again. */
static void push_input(struct dz_serve *s, uint32_t stream)
{
    struct dz_cell_input *in = &s->in[stream];
    uint64_t pushed = 0;
    while (in->len > 0) {
        size_t piece = sizeof in->bytes - in->head;
        piece = piece < in->len ? piece : in->len;
        int64_t n = dz_kernel_stream_push(s->machine.kernel, s->machine.streams[stream],
                                          in->bytes + in->head, piece);
        if (n < 0)
            n = (int64_t)piece; /* closed: as a pipe whose reader is gone */
        in->head = (in->head + (size_t)n) % sizeof in->bytes;
        in->len -= (size_t)n;
        pushed += (uint64_t)n;
        if ((size_t)n < piece)
            break;
    }
    if (pushed > 0) {
        struct dz_frame f = {.type = DZ_FRAME_WINDOW, .stream = stream, .value = pushed};
        (void)dz_frame_send(s->fd, &f, NULL, true, NULL);
    }
    if (in->eof && in->len == 0) {
        (void)dz_kernel_stream_eof(s->machine.kernel, s->machine.streams[stream]);
        in->eof = false;
    }
}

static void open_windows(struct dz_serve *s)
{
    for (uint32_t i = 0; i < 4; i += DZ_CELL_TTY) {
        struct dz_frame f = {
            .type = DZ_FRAME_WINDOW, .stream = i, .value = DZ_CELL_WINDOW - s->in[i].len};
        if (s->machine.streams[i])
            (void)dz_frame_send(s->fd, &f, NULL, true, NULL);
    }
}

/* --- the host's frames --------------------------------------------------------------------- */

static void obey(struct dz_serve *s, const struct dz_frame *f, const struct dz_frame_fds *fds)
{
    struct dz_kernel *k = s->machine.kernel;
    struct dz_winsize size = {.rows = (uint16_t)(f->value >> 16), .cols = (uint16_t)f->value};
    switch (f->type) {
    case DZ_FRAME_INPUT:
        take_input(s, f);
        break;
    case DZ_FRAME_EOF:
        if (f->stream < 4)
            s->in[f->stream].eof = true;
        break;
    case DZ_FRAME_RESIZE:
        (void)dz_kernel_pty_resize(k, s->machine.streams[DZ_CELL_TTY], &size);
        break;
    case DZ_FRAME_SUSPEND:
        s->suspend = true;
        s->files_only = f->value == 1;
        break;
    case DZ_FRAME_SNAPSHOT:
        if (fds->count == 1 && s->copy.count == 0)
            s->copy = *fds;
        break;
    case DZ_FRAME_SIGNAL:
        (void)dz_kernel_signal(k, s->machine.job, (int)f->value, false);
        break;
    default:
        break;
    }
}

/* All frames that are there; the host's end ends the cell. */
static void receive_all(struct dz_serve *s)
{
    struct dz_frame f;
    struct dz_err err = {0};
    int rc;
    struct dz_frame_fds fds;
    while ((rc = dz_frame_receive_fds(s->fd, &f, s->payload, false, &fds, &err)) > 0)
        obey(s, &f, &fds);
    if (rc < 0) {
        (void)dz_cell_machine_leave(&s->machine, &err);
        _exit(1);
    }
    push_input(s, DZ_CELL_STDIN);
    push_input(s, DZ_CELL_TTY);
}

static bool log_is_due(const struct dz_serve *s, int least)
{
    int pages = dz_db_wal_pages(s->machine.db);
    return pages >= least && pages >= s->log_refused + LOG_PAGES &&
           !dz_machine_untouched(s->machine.keep); /* nothing is committed that was not asked for */
}

static bool is_due_when_quiet(const struct dz_serve *s)
{
    return !s->start.ephemeral && log_is_due(s, LOG_PAGES);
}

/* What fails here costs nothing but room; what cannot be committed is told by the gate. */
static void move_log(struct dz_serve *s, bool quiet)
{
    int rc = dz_cell_machine_commit(&s->machine, NULL);
    if (rc == 0)
        rc = dz_vfs_maintain(s->machine.vfs, quiet, NULL);
    s->log_refused = rc == 1 ? 0 : dz_db_wal_pages(s->machine.db);
}

void dz_serve_log(struct dz_serve *s)
{
    if (log_is_due(s, DZ_DB_CHECKPOINT_PAGES))
        move_log(s, false);
}

bool dz_serve_tidy_due(const struct dz_serve *s)
{
    return is_due_when_quiet(s) || !dz_machine_rests(s->machine.keep);
}

void dz_serve_tidy(struct dz_serve *s)
{
    dz_machine_rest(s->machine.keep);
    if (is_due_when_quiet(s))
        move_log(s, true);
}

void dz_serve_trim(struct dz_serve *s)
{
    dz_wasm_mem_trim();
    if (s->machine.db)
        dz_db_trim(s->machine.db);
    dz_mem_trim();
}

static void wait_for_anything(struct dz_serve *s)
{
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    int64_t next = dz_kernel_next_deadline(s->machine.kernel);
    int64_t left = next == INT64_MAX ? -1 : next - dz_kernel_now(s->machine.kernel);
    if (next != INT64_MAX && left < 0)
        left = 0;
    if (any_refused(s))
        p.events |= POLLOUT;
    int64_t first = left < 0 || left > QUIET_NS ? QUIET_NS : left;
    struct timespec ts = {first / DZ_NS_PER_S, first % DZ_NS_PER_S};
    int n = ppoll(&p, 1, &ts, NULL);
    if (n == 0 && first != left) {
        dz_serve_tidy(s);
        dz_serve_trim(s);
        if (left > 0)
            left -= first;
        ts = (struct timespec){left / DZ_NS_PER_S, left % DZ_NS_PER_S};
        n = ppoll(&p, 1, left < 0 ? NULL : &ts, NULL);
    }
    if (n > 0 && (p.revents & POLLOUT))
        output_ready(s);
}

/* --- from the start to the end -----------------------------------------------------------------
 */

int dz_serve_put(struct dz_serve *s, const struct dz_frame *f, struct dz_err *err)
{
    if (f->type < DZ_FRAME_DIR || f->type > DZ_FRAME_DATA)
        return dz_fail(err, DZ_EINVAL, "a frame of type %u before the start", f->type);
    s->put.vfs = s->machine.vfs;
    s->payload[f->size] = '\0';
    return dz_put_frame(&s->put, f, (const char *)s->payload, err);
}

/* Files until GO. */
static void receive_files(struct dz_serve *s)
{
    struct dz_frame f;
    struct dz_err err = {0};
    for (;;) {
        int rc = dz_frame_receive(s->fd, &f, s->payload, true, &err);
        if (rc < 0)
            _exit(1);
        if (f.type == DZ_FRAME_GO)
            break;
        rc = dz_serve_put(s, &f, &err);
        if (rc < 0)
            dz_serve_fail(s, rc, &err);
    }
    dz_put_release(&s->put);
}

/* The first process has ended: so has the cell. */
DZ_NORETURN static void end(struct dz_serve *s, const struct dz_job *job)
{
    char text[160] = "";
    struct dz_err err = {0};
    s->block = true;
    output_ready(s);
    int rc = dz_kernel_flush(s->machine.kernel, &err);
    if (rc == 0 && !s->start.ephemeral)
        rc = dz_cell_machine_close(&s->machine, &err);
    if (rc < 0)
        dz_serve_fail(s, rc, &err);
    if (job->end != DZ_JOB_EXITED)
        (void)dz_job_end_text(job, text, sizeof text);
    struct dz_frame f = {.type = DZ_FRAME_ENDED, .size = (uint32_t)strlen(text)};
    f.value = WIFEXITED(job->status) ? (uint64_t)WEXITSTATUS(job->status)
                                     : DZ_ENDED_SIGNAL + (uint64_t)WTERMSIG(job->status);
    (void)dz_frame_send(s->fd, &f, text, true, NULL);
    _exit(0);
}

/* --- sleep ----------------------------------------------------------------------------------- */

/* The first process may end meanwhile: then that is what happened. */
enum dz_kernel_state dz_serve_run(struct dz_serve *s, int64_t ns)
{
    struct dz_kernel *k = s->machine.kernel;
    struct dz_err err = {0};
    struct dz_job job;
    enum dz_kernel_state state = dz_kernel_run(k, dz_kernel_now(k) + ns, &err);
    int damage = dz_machine_damage(s->machine.keep, &err);
    if (state == DZ_KERNEL_FAILED && damage == 0 && s->start.many && err.code == DZ_ENOSPC) {
        s->stalled = true; /* all is as before: the flush is tried again */
        s->full = err;
        return state;
    }
    if (state == DZ_KERNEL_FAILED || damage < 0)
        dz_serve_fail(s, err.code, &err);
    while (dz_kernel_event(k, &job)) {
        int rc = s->machine.execs ? dz_execs_job_ended(s->machine.execs, &job, &err) : 0;
        if (rc == DZ_ENOSPC) { /* its record goes with the next commit, before the host hears */
            s->stalled = true;
            s->full = err;
        } else if (rc < 0) {
            dz_serve_fail(s, rc, &err);
        }
        if (!s->machine.execs && job.tag == DZ_MACHINE_FIRST)
            end(s, &job);
    }
    return state;
}

static void inputs_of(struct dz_serve *s, struct dz_cell_inputs *ret)
{
    if (s->machine.execs)
        dz_execs_inputs(s->machine.execs, ret);
    for (uint32_t i = 0; !s->machine.execs && i < 4; i++) {
        ret->of[i].tag = i;
        ret->of[ret->count++].in = &s->in[i];
    }
}

int dz_serve_sleep(struct dz_serve *s, bool goes_on, int64_t *ret_wake_at, struct dz_err *err)
{
    struct dz_kernel *k = s->machine.kernel;
    struct dz_cell_inputs in = {0};
    for (int i = 0; i < SETTLE_TURNS && !dz_kernel_settled(k); i++)
        (void)dz_serve_run(s, RUN_NS);
    int rc = dz_kernel_settle(k, err);
    if (rc == 0)
        rc = dz_kernel_flush(k, err);
    inputs_of(s, &in);
    return rc < 0 ? rc : dz_cell_sleep_write(&s->machine, &in, goes_on, ret_wake_at, err);
}

/* Durable first, then said, then tidied up. */
static void suspend(struct dz_serve *s)
{
    struct dz_err err = {0};
    int64_t wake_at = INT64_MAX;
    struct dz_frame f = {.type = DZ_FRAME_SUSPENDED};
    s->suspend = false;
    int rc = s->files_only ? dz_cell_machine_close(&s->machine, &err)
                           : dz_serve_sleep(s, false, &wake_at, &err);
    if (rc < 0 && s->files_only)
        dz_serve_fail(s, rc, &err);
    if (rc < 0) {
        f = (struct dz_frame){
            .type = DZ_FRAME_AWAKE, .value = (uint64_t)-rc, .size = (uint32_t)strlen(err.msg)};
        (void)dz_frame_send(s->fd, &f, err.msg, true, NULL);
        return;
    }
    f.value = (uint64_t)wake_at;
    (void)dz_frame_send(s->fd, &f, NULL, true, NULL);
    if (!s->files_only)
        dz_cell_sleep_end(&s->machine);
    _exit(0);
}

void dz_serve_copy(struct dz_serve *s, int rc, struct dz_err *err)
{
    uint64_t bytes = 0;
    if (rc == 0)
        rc = dz_db_copy(s->machine.db, s->copy.fds[0], &bytes, err);
    struct dz_frame f = {.type = DZ_FRAME_COPIED, .value = bytes};
    if (rc < 0)
        f = (struct dz_frame){.type = DZ_FRAME_COPIED,
                              .stream = 1,
                              .value = (uint64_t)-rc,
                              .size = (uint32_t)strlen(err->msg)};
    for (size_t i = 0; i < s->copy.count; i++)
        dz_fd_close(&s->copy.fds[i]);
    s->copy.count = 0;
    (void)dz_frame_send(s->fd, &f, err->msg, true, NULL);
}

/* As asleep at this instant, copied; then on. */
static void snapshot(struct dz_serve *s)
{
    struct dz_err err = {0};
    int64_t wake_at;
    int rc = dz_serve_sleep(s, true, &wake_at, &err);
    dz_serve_copy(s, rc, &err);
}

DZ_NORETURN static void run(struct dz_serve *s)
{
    struct dz_kernel *k = s->machine.kernel;
    for (;;) {
        receive_all(s);
        if (s->suspend)
            suspend(s);
        if (s->copy.count)
            snapshot(s);
        enum dz_kernel_state state = dz_serve_run(s, RUN_NS);
        push_input(s, DZ_CELL_STDIN);
        push_input(s, DZ_CELL_TTY);
        dz_serve_log(s);
        if (state == DZ_KERNEL_IDLE && !dz_kernel_runnable(k))
            wait_for_anything(s);
        else if (any_refused(s))
            output_ready(s); /* try again */
    }
}

/* Its first process, or those that it slept with. */
static int begin(struct dz_serve *s, struct dz_err *err)
{
    struct dz_frame lost = {.type = DZ_FRAME_LOST};
    if (s->machine.lost)
        (void)dz_frame_send(s->fd, &lost, NULL, true, NULL);
    struct dz_cell_inputs in = {0};
    inputs_of(s, &in);
    return s->start.resume ? dz_cell_sleep_wake(&s->machine, &in, err)
                           : dz_cell_machine_start(&s->machine, &s->start, err);
}

DZ_NORETURN void dz_cell_serve(int fd, struct dz_os_dirty *dirty, struct dz_nest *nest)
{
    struct dz_serve *s = &serve;
    struct dz_err err = {0};
    struct sigaction alarm = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    s->fd = s->out.fd = fd;
    s->machine.dirty = dirty;
    s->machine.nest = nest;
    dz_db_reseed(); /* our parent's random numbers are not ours */
    (void)sigaction(SIGALRM, &alarm, NULL);
    int rc = dz_start_receive(fd, &s->start, &err);
    if (rc == 0 && nest && nest->users.count)
        rc = dz_os_user_settle(s->start.settle_as ? s->start.settle_as : nest->user, &err);
    if (rc == 0 && s->start.many)
        dz_many_serve(s);
    if (rc == 0)
        rc = dz_cell_machine_open(&s->machine, &s->start, s, &err);
    if (rc == 0)
        rc = dz_cell_machine_up(&s->machine, &s->start, &err);
    if (rc == DZ_ENOENT || rc == DZ_EINVAL || rc == DZ_EDENIED)
        rc = DZ_ESTATE; /* those are what a program that cannot be started gets */
    if (rc < 0)
        dz_serve_fail(s, rc, &err);
    receive_files(s);
    rc = begin(s, &err);
    if (rc < 0)
        dz_serve_fail(s, rc, &err);
    open_windows(s);
    run(s);
}

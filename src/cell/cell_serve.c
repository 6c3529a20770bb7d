/* SPDX-License-Identifier: MIT
 *
 * cell_serve.c - the life of a cell in its jail: it is file-only at first, then its machine runs
 * commands, and at last the machine is suspended or ends.
 *
 * The loop receives frames, runs processes for RUN_NS or until none can run, sends their output,
 * and waits for the socket and the next deadline. Frames of the cell wait for HOLD_NS at most for
 * others to be sent with them: so a host learns of a wake, and of what the woken commands printed,
 * from one packet. Output is sent after a commit (the kernel's output gate); output beyond the
 * host's window stays in the kernel's rings, and its writers wait.
 *
 * If the socket closes, the host has died. A machine that outlives its host is then suspended as
 * if the host had requested that.
 */
#include "cell/cell_serve.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/vm.h"
#include "cell/cell_net.h"
#include "cell/cell_volume.h"
#include "cell/cell_zygote.h"
#include "db/db.h"
#include "linux/linux_run.h"
#include "os/os_user.h"
#include "os/os_warm.h"
#include "stub/stub_host.h"
#include "vfs/vfs.h"
#include "wasm/wasm.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    USED_MAX = 8,                  /* reports of used functions that a cell sends */
    RUN_NS = 2 * 1000 * 1000,      /* how long processes run before the socket is checked again */
    HOLD_NS = 500 * 1000,          /* how long a frame may wait so that others are sent with it */
    REPORT_NS = 250 * 1000 * 1000, /* time between two reports of activity */
    QUIET_NS = 20 * 1000 * 1000,   /* time without an event until a short WAL is checkpointed */
    REST_NS = 100 * 1000 * 1000,   /* time without an event until memory is given back */
    TRIM_NS = 1000 * 1000 * 1000,  /* time between two releases of memory */
    LOOK_NS = 1000 * 1000, /* time between two checks of the socket while programs make calls */
    EXACT_NS = 2 * 1000 * 1000,     /* a timer that is nearer is waited for by the nanosecond */
    STALL_NS = 100 * 1000 * 1000,   /* time between two attempts to commit on a full disk */
    FULL_NS = 2000 * 1000 * 1000LL, /* time between two reports that the disk is full */
    VFORK_NS = 10 * 1000 * 1000,    /* one turn of waiting for processes to come out of vfork */
    VFORK_TURNS = 20,               /* such turns, at most */
    HINT_NS = 1000 * 1000 * 1000,   /* for programs to answer /proc/doze before a suspend */
    HINT_TURN_NS = 10 * 1000 * 1000,
    WAL_PAGES = 64, /* pages of WAL that are worth a checkpoint while the machine is idle */
};

static struct dz_serve serve; /* one for the process, which has one machine */

void dz_serve_warm(void)
{
    uintptr_t page = dz_vm_page(), from = (uintptr_t)&serve / page * page;
    dz_vm_populate((void *)from, (uintptr_t)serve.payload - from + page);
}

static void send_frame(struct dz_serve *s, enum dz_frame_type type, uint64_t value, const void *p,
                       size_t n)
{
    struct dz_frame f = {.type = type, .value = value, .size = (uint32_t)n};
    (void)dz_out_add(&s->out, &f, p, true);
}

/* Send the last frame, FAILED, and end. */
DZ_NORETURN static void fail(struct dz_serve *s, int code, const struct dz_err *err)
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
    static bool set; /* is a timer set? Native programs have no slices, so none is cancelled after
                        each of their calls */
    struct itimerval t = {.it_value = {ns / 1000000000, (ns % 1000000000 + 999) / 1000}};
    (void)arg;
    if (ns != 0 || set)
        (void)setitimer(ITIMER_REAL, &t, NULL);
    set = ns != 0;
}

/* --- processes --------------------------------------------------------------------------- */

/* Run processes, and handle the ends of jobs. */
static enum dz_kernel_state run(struct dz_serve *s, int64_t ns)
{
    struct dz_kernel *k = s->machine.kernel;
    struct dz_err err = {0};
    struct dz_job job;
    enum dz_kernel_state state = dz_kernel_run(k, dz_kernel_now(k) + ns, &err);
    int damage = dz_machine_damage(s->machine.keep, &err);
    if (state == DZ_KERNEL_FAILED && damage == 0 && err.code == DZ_ENOSPC) {
        s->stalled = true; /* nothing has changed; the flush is tried again */
        s->full = err;
        return state;
    }
    if (state == DZ_KERNEL_FAILED || damage < 0)
        fail(s, err.code, &err);
    while (dz_kernel_event(k, &job)) {
        int rc = dz_execs_job_ended(s->machine.execs, &job, &err);
        if (rc ==
            DZ_ENOSPC) { /* its record goes into the next commit, before the host is notified */
            s->stalled = true;
            s->full = err;
        } else if (rc < 0) {
            fail(s, rc, &err);
        }
    }
    return state;
}

/* --- the WAL, and memory that is given back ------------------------------------------------- */

static bool wal_is_due(const struct dz_serve *s, int least)
{
    int pages = dz_db_wal_pages(s->machine.db);
    return pages >= least && pages >= s->wal_refused + WAL_PAGES &&
           !dz_machine_untouched(s->machine.keep); /* not before its first commit */
}

/* A failure costs only space; if nothing can be committed, the output gate reports that. */
static void move_wal(struct dz_serve *s, bool quiet)
{
    int rc = dz_cell_machine_commit(&s->machine, NULL);
    if (rc == 0)
        rc = dz_vfs_maintain(s->machine.vfs, quiet, NULL);
    s->wal_refused = rc == 1 ? 0 : dz_db_wal_pages(s->machine.db);
}

static bool is_due_when_quiet(const struct dz_serve *s)
{
    return !s->start.ephemeral && wal_is_due(s, WAL_PAGES);
}

static bool tidy_is_due(const struct dz_serve *s)
{
    return is_due_when_quiet(s) || !dz_machine_rests(s->machine.keep);
}

/* The time without events after which there is something to tidy up. */
static int64_t rest_ns(const struct dz_serve *s)
{
    int64_t again = s->trimmed_at ? s->trimmed_at + TRIM_NS - dz_clock_boot_ns() : 0;
    if (tidy_is_due(s))
        return QUIET_NS;
    if (s->trimmed)
        return INT64_MAX;
    return again > REST_NS ? again : REST_NS;
}

static void tidy_up(struct dz_serve *s)
{
    if (tidy_is_due(s)) {
        dz_machine_rest(s->machine.keep);
        if (is_due_when_quiet(s))
            move_wal(s, true);
        return;
    }
    dz_wasm_mem_trim();
    if (s->machine.db)
        dz_db_trim(s->machine.db);
    dz_mem_trim();
    s->trimmed = true;
    s->trimmed_at = dz_clock_boot_ns();
}

/* --- the file -------------------------------------------------------------------------- */

/* A cell whose host died may still be writing to the file: wait for its lock. If our own host dies
 * meanwhile, we notice that when we have the lock, before anything is written. */
static int open_locked(struct dz_serve *s, struct dz_err *err)
{
    int64_t now = dz_clock_boot_ns(), until = now + (int64_t)s->start.lock_wait_ms * DZ_NS_PER_MS;
    int rc = dz_cell_machine_open(&s->machine, &s->start, err);
    while (rc == DZ_EBUSY && now < until &&
           dz_db_lock_within(s->start.fds[0], (until - now) / DZ_NS_PER_MS) == 0) {
        if (dz_frame_gone(s->fd))
            _exit(1);
        rc = dz_cell_machine_open(&s->machine, &s->start, err);
        now = dz_clock_boot_ns();
    }
    return rc;
}

/* When the machine has to wake, in ns since 1970: at the latest when the next command is to be
 * killed. */
static int64_t sooner(const struct dz_serve *s, int64_t wake_at)
{
    int64_t at = dz_execs_kill_at(s->machine.execs);
    if (at != INT64_MAX)
        at += dz_clock_real_ns() - dz_clock_boot_ns();
    return at < wake_at ? at : wake_at;
}

static int64_t sleeper_wakes_at(const struct dz_serve *s)
{
    const struct dz_machine *m = s->machine.keep;
    return dz_machine_found(m) == DZ_MACHINE_ASLEEP ? dz_machine_wake_at(m) : INT64_MAX;
}

/* --- starting the machine ----------------------------------------------------------------- */

static int wake(struct dz_serve *s, struct dz_buf *live, uint32_t *ret_count, struct dz_err *err)
{
    struct dz_execs *x = s->machine.execs;
    struct dz_cell_inputs in = {0};
    int rc = dz_execs_load(x, err);
    dz_execs_inputs(x, &in);
    if (rc == 0)
        rc = dz_cell_sleep_wake(&s->machine, &in, err);
    return rc < 0 ? rc : dz_execs_woken(x, in.main_sent, s->start.sleepers, live, ret_count, err);
}

static void go(struct dz_serve *s)
{
    DZ_AUTO(dz_buf_release) struct dz_buf up = DZ_BUF_INIT(DZ_CELL_FRAME_MAX);
    struct dz_frame_up head = {.pid = getpid()};
    struct dz_err err = {0};
    if (s->up)
        return;
    dz_buf_add(&up, &head, sizeof head);
    dz_put_release(&s->put);
    int rc =
        s->start.readonly
            ? dz_fail(&err, DZ_ESTATE, "bring up the machine: the file was opened for reading only")
        : s->start.volume ? dz_fail(&err, DZ_ESTATE, "bring up the machine: the file is a volume")
                          : 0;
    if (rc == 0 && s->start.net)
        rc = dz_cell_net_new(&s->out, s->start.own4, &s->machine.net, &err);
    if (rc == 0)
        rc = dz_cell_machine_up(&s->machine, &s->start, &err);
    if (rc == 0 && s->machine.native)
        rc = dz_linux_watch(s->machine.native->runner,
                            s->machine.net ? dz_cell_net_fd(s->machine.net) : s->fd, &err);
    if (rc == 0)
        rc = s->machine.wakes ? wake(s, &up, &head.live, &err)
                              : dz_execs_lose(s->machine.execs, &err);
    if (rc == 0 && s->machine.wakes && s->start.ends_with_main && !dz_execs_main(s->machine.execs))
        rc = dz_fail(
            &err, DZ_ESTATE,
            "the machine in the file has no main command: a daemon suspended it, so wake it with a daemon");
    if (rc == 0 && up.err)
        rc = dz_fail(&err, up.err, "wake the machine: out of memory");
    if (rc < 0)
        fail(s, rc, &err);
    memcpy(up.p, &head, sizeof head);
    s->up = true;
    dz_ops_let_go(s->ops);
    send_frame(s, DZ_FRAME_UP, s->machine.wakes, up.p, up.len);
    dz_cell_net_up(s->machine.net, s->machine.kernel, s->start.net_resumes);
}

static void begin(struct dz_serve *s)
{
    struct dz_err err = {0};
    int rc = open_locked(s, &err);
    if (rc == 0)
        s->machine.execs = dz_execs_new(&s->out, &s->machine, &s->start);
    if (rc == 0)
        s->ops = dz_ops_new(s);
    if (rc == 0 && (!s->machine.execs || !s->ops))
        rc = dz_fail(&err, DZ_ENOMEM, "open the sandbox's file: out of memory");
    if (rc < 0)
        fail(s, rc, &err);
    if (s->machine.lost)
        send_frame(s, DZ_FRAME_LOST, 0, NULL, 0);
    if (s->start.go) {
        go(s);
        return;
    }
    const struct dz_frame_ready r = {.wake_at = sleeper_wakes_at(s), .pid = getpid()};
    send_frame(s, DZ_FRAME_READY, (uint64_t)dz_machine_found(s->machine.keep), &r, sizeof r);
}

/* --- suspending the machine ------------------------------------------------------------------ */

static int discard_memory(struct dz_serve *s, struct dz_err *err)
{
    int rc = dz_kernel_commit(s->machine.kernel, err);
    struct dz_execs *x = s->machine.execs;
    s->machine.execs = NULL;
    if (rc == 0)
        rc = dz_execs_lose(x, err);
    return rc < 0 ? rc : dz_cell_machine_close(&s->machine, err);
}

/* The earliest deadline of a process, in ns since 1970. A process that could run at once has none.
 */
static int64_t next_deadline(const struct dz_serve *s)
{
    int64_t next = dz_kernel_next_deadline(s->machine.kernel);
    if (next != INT64_MAX)
        next += dz_clock_real_ns() - dz_kernel_now(s->machine.kernel);
    return sooner(s, next);
}

struct used {
    struct dz_zygote_warm head;
    uint32_t numbers[DZ_ZYGOTE_WARM_MAX];
};

static int used_reports; /* reports of functions that were sent */

/* Report which functions of the image's modules were used, so that the image's zygote can translate
 * them for the cells after this one. */
static void report_used(struct dz_serve *s)
{
    static struct used body;
    size_t n = DZ_ZYGOTE_WARM_MAX;
    while (s->start.forked && used_reports < USED_MAX &&
           dz_modules_used(s->machine.modules, body.head.sha256, body.numbers, &n)) {
        used_reports++;
        send_frame(s, DZ_FRAME_USED, 0, &body, sizeof body.head + n * sizeof body.numbers[0]);
        n = DZ_ZYGOTE_WARM_MAX;
    }
}

/* Report the pages of the heap that this cell wrote, so that the zygote copies them ahead in later
 * cells. A cell that had to translate functions wrote more pages than later cells will, so it
 * reports none. */
static void report_written(struct dz_serve *s)
{
    static struct used body;
    size_t n = s->start.forked && s->up && used_reports == 0
                   ? dz_os_warm_wrote(s->machine.dirty, body.numbers, DZ_ZYGOTE_WARM_MAX)
                   : 0;
    if (n > 0)
        send_frame(s, DZ_FRAME_USED, 0, &body, sizeof body.head + n * sizeof body.numbers[0]);
}

/* Tell programs that have opened /proc/doze about the suspend, and let them prepare for it. */
static void announce(struct dz_serve *s)
{
    struct dz_kernel *k = s->machine.kernel;
    const int64_t until = dz_clock_boot_ns() + HINT_NS;
    dz_kernel_hint_sleep(k);
    while (dz_kernel_hint_waits(k) && !s->stalled && dz_clock_boot_ns() < until) {
        const bool idle = run(s, HINT_TURN_NS) == DZ_KERNEL_IDLE;
        if (idle && s->machine.native)
            (void)dz_linux_wait(s->machine.native->runner, HINT_TURN_NS);
        else if (idle)
            (void)ppoll(NULL, 0, &(struct timespec){.tv_nsec = HINT_TURN_NS}, NULL);
    }
}

/* Wait until processes have left vfork, send their output as far as the host accepts it now, and
 * write the machine. 1: it was not written, because the machine has ended with its main command. */
static int sleep_now(struct dz_serve *s, bool goes_on, int64_t *ret_wake_at, struct dz_err *err)
{
    struct dz_kernel *k = s->machine.kernel;
    struct dz_cell_inputs in = {0};
    announce(s);
    for (int i = 0; i < VFORK_TURNS && !dz_kernel_settled(k); i++)
        (void)run(s, VFORK_NS);
    int rc = dz_kernel_settle(k, err);
    if (rc == 0)
        rc = dz_kernel_flush(k, err);
    if (rc < 0)
        return rc;
    if (s->start.ends_with_main && !dz_execs_main(s->machine.execs))
        return 1;
    dz_execs_send(s->machine.execs);
    dz_execs_inputs(s->machine.execs, &in);
    dz_cell_net_rest(s->machine.net);
    return dz_cell_sleep_write(&s->machine, &in, goes_on, ret_wake_at, err);
}

/* Make the machine durable, report that, then tidy up, in this order. */
static void suspend(struct dz_serve *s)
{
    struct dz_err err = {0};
    struct dz_frame f = {.type = DZ_FRAME_SUSPENDED};
    int64_t wake_at = s->up ? INT64_MAX : sleeper_wakes_at(s);
    bool memory = s->up && !s->files_only;
    s->suspend = false;
    dz_ops_cancel(s->ops);
    if (s->up)
        report_used(s); /* the machine may have run for less than REPORT_NS */
    report_written(s);
    int rc = memory               ? sleep_now(s, false, &wake_at, &err)
             : s->start.ephemeral ? 0
             : s->start.readonly  ? dz_cell_sleep_close(&s->machine, &err)
             : s->up              ? discard_memory(s, &err)
                                  : dz_cell_sleep_leave(&s->machine, &err);
    if (rc == 1)
        return;
    if (rc < 0 && memory) {
        dz_kernel_hint_awake(s->machine.kernel);
        send_frame(s, DZ_FRAME_AWAKE, (uint64_t)-rc, err.msg, strlen(err.msg));
        return;
    }
    if (rc < 0)
        fail(s, rc, &err);
    if (memory) {
        dz_execs_report_ended(s->machine.execs);
        dz_cell_volumes_close(&s->machine); /* before the host ends their leases */
    }
    f.value = (uint64_t)(memory ? next_deadline(s) : wake_at);
    f.stream =
        memory && (dz_kernel_runnable(s->machine.kernel) || dz_kernel_away(s->machine.kernel));
    (void)dz_out_add(&s->out, &f, NULL, true);
    (void)dz_out_flush(&s->out, true);
    if (memory)
        dz_cell_sleep_end(&s->machine);
    _exit(0);
}

/* The host has gone. Suspend a machine that outlives its host; if that fails, keep its files. A
 * machine that ends with its host leaves its file by dz_cell_machine_leave(). */
DZ_NORETURN static void orphaned(struct dz_serve *s)
{
    if (s->start.ends_with_main && !s->start.ephemeral)
        (void)dz_cell_machine_leave(&s->machine, NULL);
    if (s->start.ends_with_main || s->start.ephemeral)
        _exit(1);
    s->files_only = false;
    suspend(s);
    s->files_only = true;
    suspend(s);
    _exit(1);
}

/* Write the machine into its file as if it were suspended, copy the file, and continue. */
static void snapshot(struct dz_serve *s)
{
    struct dz_err err = {0};
    int64_t wake_at;
    uint64_t bytes = 0;
    int rc = s->up ? sleep_now(s, true, &wake_at, &err)
                   : dz_vfs_quiesce(s->machine.vfs, NULL, NULL, &err);
    if (s->up)
        dz_kernel_hint_awake(s->machine.kernel);
    if (rc == 1)
        rc = dz_fail(&err, DZ_ESTATE, "copy the machine: its main command has ended");
    (void)dz_out_flush(&s->out, true);
    if (rc == 0)
        rc = dz_db_copy(s->machine.db, s->copy.fds[0], &bytes, &err);
    for (size_t i = 0; i < s->copy.count; i++)
        dz_fd_close(&s->copy.fds[i]);
    s->copy.count = 0;
    struct dz_frame f = {.type = DZ_FRAME_COPIED, .value = bytes};
    if (rc < 0) {
        f.stream = 1;
        f.value = (uint64_t)-rc;
        f.size = (uint32_t)strlen(err.msg);
    }
    (void)dz_frame_send(s->fd, &f, err.msg, true, NULL);
}

/* --- frames ----------------------------------------------------------------------------------- */

static void accept_copy(struct dz_serve *s, const struct dz_frame_fds *fds)
{
    struct dz_frame_fds got = *fds;
    if (got.count == 1 && s->copy.count == 0) {
        s->copy = got;
        return;
    }
    for (size_t i = 0; i < got.count; i++)
        dz_fd_close(&got.fds[i]);
}

/* Let the disk grow by `room` bytes, but not beyond its own limit. */
static void limit_disk(struct dz_serve *s)
{
    if (!s->machine.vfs)
        return;
    uint64_t used = dz_vfs_used_bytes(s->machine.vfs);
    uint64_t bytes = s->room >= UINT64_MAX - used ? 0 : used + s->room; /* 0: no limit */
    if (bytes == 0 && s->room != UINT64_MAX)
        bytes = 1;
    if (s->disk_limit && (bytes == 0 || s->disk_limit < bytes))
        bytes = s->disk_limit;
    dz_vfs_set_limits(s->machine.vfs, bytes, 0);
}

static void set_limits(struct dz_serve *s, const struct dz_frame *f)
{
    struct dz_frame_limits l;
    if (f->size != sizeof l || !s->machine.vfs)
        return;
    memcpy(&l, s->payload, sizeof l);
    s->disk_limit = l.disk_bytes;
    limit_disk(s);
    dz_vfs_keep_free(s->machine.vfs, l.keep_free);
}

/* A file that the host puts into the disk before the machine goes up. */
static void put(struct dz_serve *s, const struct dz_frame *f)
{
    struct dz_err err = {0};
    s->put.vfs = s->machine.vfs;
    s->payload[f->size] = '\0';
    int rc = dz_put_frame(&s->put, f, (const char *)s->payload, &err);
    if (rc < 0)
        fail(s, rc, &err);
}

static void obey(struct dz_serve *s, const struct dz_frame *f, const struct dz_frame_fds *fds)
{
    switch (f->type) {
    case DZ_FRAME_GO:
        go(s);
        break;
    case DZ_FRAME_DIR:
    case DZ_FRAME_LINK:
    case DZ_FRAME_FILE:
    case DZ_FRAME_DATA:
        if (!s->up)
            put(s, f);
        break;
    case DZ_FRAME_SUSPEND:
        s->suspend = true;
        s->files_only = f->value == 1;
        break;
    case DZ_FRAME_SNAPSHOT:
        accept_copy(s, fds);
        break;
    case DZ_FRAME_ROOM:
        s->room = f->value;
        limit_disk(s);
        break;
    case DZ_FRAME_LIMITS:
        set_limits(s, f);
        break;
    case DZ_FRAME_NET_IN:
    case DZ_FRAME_NET_CONNECTED:
    case DZ_FRAME_NET_REFUSED:
    case DZ_FRAME_NET_LOST:
    case DZ_FRAME_NET_RESUME:
    case DZ_FRAME_NET_RESUMED:
    case DZ_FRAME_NET_REPLY:
        dz_cell_net_frame(s->machine.net, f, s->payload, fds);
        break;
    case DZ_FRAME_OP:
    case DZ_FRAME_OP_INPUT:
    case DZ_FRAME_OP_END:
    case DZ_FRAME_OP_CANCEL:
    case DZ_FRAME_OP_ACK:
        dz_ops_frame(s->ops, f, s->payload);
        break;
    default:
        dz_execs_frame(s->machine.execs, f, s->payload);
        break;
    }
}

/* Handle the frames that came with the start. */
static void handle_early(struct dz_serve *s)
{
    struct dz_started *st = &s->start;
    struct dz_frame f;
    while (st->bytes.len - st->early >= sizeof f) {
        memcpy(&f, st->bytes.p + st->early, sizeof f);
        st->early += sizeof f;
        if (f.size > DZ_CELL_FRAME_MAX || f.size > st->bytes.len - st->early)
            return;
        memcpy(s->payload, st->bytes.p + st->early, f.size);
        st->early += f.size;
        obey(s, &f, &(struct dz_frame_fds){.count = 0});
    }
}

static void receive_all(struct dz_serve *s)
{
    struct dz_frame f;
    struct dz_frame_fds fds;
    int rc = 1;
    while (rc > 0 && !s->suspend && s->copy.count == 0) {
        rc = dz_frame_receive_fds(s->fd, &f, s->payload, false, &fds, NULL);
        if (rc > 0)
            obey(s, &f, &fds);
    }
    if (rc < 0)
        orphaned(s);
}

/* --- activity --------------------------------------------------------------------------------- */

static struct dz_frame_activity activity(const struct dz_serve *s)
{
    struct dz_kernel *k = s->machine.kernel;
    struct dz_kernel_misc misc;
    dz_kernel_misc_get(k, &misc);
    struct dz_frame_activity a = {.disk_bytes = dz_vfs_used_bytes(s->machine.vfs),
                                  .cpu_ns = (int64_t)misc.total_cpu_ns,
                                  .bytes_in = s->machine.execs->bytes_in,
                                  .bytes_out = s->machine.execs->bytes_out};
    dz_cell_net_bytes(s->machine.net, &a.net_in, &a.net_out);
    a.wake_at = dz_kernel_runnable(k) || dz_kernel_away(k) ? 0 : next_deadline(s);
    for (uint32_t i = 1; i <= dz_kernel_rows(k, DZ_KERNEL_TABLE_PROC); i++) {
        const struct dz_proc *p = dz_kernel_row(k, DZ_KERNEL_TABLE_PROC, i);
        if (!p || (p->flags & DZ_PROC_INIT))
            continue;
        a.procs++;
        a.memory_bytes += p->mem_bytes;
    }
    return a;
}

/* Report activity, if there was any and the last report is old enough. Returns the nanoseconds
 * until the next report may be sent; -1: there is nothing to report. */
static int64_t report_activity(struct dz_serve *s)
{
    struct dz_kernel_misc misc;
    const struct dz_execs *x = s->machine.execs;
    uint64_t net_in, net_out;
    dz_kernel_misc_get(s->machine.kernel, &misc);
    dz_cell_net_bytes(s->machine.net, &net_in, &net_out);
    if (s->reported_at != 0 && (int64_t)misc.total_cpu_ns == s->reported.cpu_ns &&
        x->bytes_in == s->reported.bytes_in && x->bytes_out == s->reported.bytes_out &&
        net_in == s->reported.net_in && net_out == s->reported.net_out)
        return -1;
    int64_t now = dz_clock_boot_ns();
    if (s->reported_at != 0 && now - s->reported_at < REPORT_NS)
        return REPORT_NS - (now - s->reported_at);
    bool first =
        s->reported_at == 0; /* the first report would delay an answer that a client waits for */
    s->reported = activity(s);
    s->reported_at = now;
    send_frame(s, DZ_FRAME_ACTIVITY, 0, &s->reported, sizeof s->reported);
    if (s->reported.wake_at != 0)
        report_used(s);
    if (s->reported.wake_at != 0 && !first)
        report_written(s);
    return -1;
}

/* --- a full disk -------------------------------------------------------------------------- */

/* The disk is full. Report that to the host, which may make room or suspend the machine. */
static void wait_for_room(struct dz_serve *s)
{
    int64_t now = dz_clock_boot_ns();
    if (s->full_at == 0 || now - s->full_at >= FULL_NS) {
        s->full_at = now;
        send_frame(s, DZ_FRAME_FULL, 0, s->full.msg, strlen(s->full.msg));
    }
    (void)dz_out_flush(&s->out, false);
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    const struct timespec ts = {0, STALL_NS};
    (void)ppoll(&p, 1, &ts, NULL);
}

/* The disk was full: try the commit again. */
static bool goes_on(struct dz_serve *s)
{
    int rc = dz_cell_machine_commit(&s->machine, &s->full);
    if (rc < 0 && rc != DZ_ENOSPC)
        fail(s, rc, &s->full);
    s->stalled = rc < 0;
    return !s->stalled;
}

/* --- the loop ------------------------------------------------------------------------------- */

/* Wait until native programs make calls, or the socket is readable; this takes fewer system calls
 * than ppoll(). True: it is time to check the socket. */
static bool wait_for_calls(struct dz_serve *s, int64_t left)
{
    const bool called = dz_linux_wait(s->machine.native->runner, left);
    const int64_t now = dz_clock_boot_ns();
    if (called && now - s->looked_at < LOOK_NS)
        return false;
    s->looked_at = now;
    return true;
}

/* Can something be read from the socket? */
static bool wait_for_anything(struct dz_serve *s, int64_t most_ns)
{
    struct pollfd p[] = {{.fd = s->fd, .events = POLLIN},
                         {.fd = -1, .events = POLLIN},
                         {.fd = dz_cell_net_fd(s->machine.net), .events = POLLIN}};
    struct dz_kernel *k = s->machine.kernel;
    int64_t next = s->up ? dz_kernel_next_deadline(k) : INT64_MAX, due = INT64_MAX;
    const bool sends = s->machine.execs->blocked || s->ops->blocked || s->out.count;
    if (s->up && s->machine.native) {
        due = dz_linux_due(s->machine.native->runner);
        p[1].fd = dz_linux_fd(s->machine.native->runner);
    }
    const int64_t now = s->up ? dz_kernel_now(k) : 0;
    const bool exact = next < now + EXACT_NS; /* a timer of the machine */
    next = due < next ? due : next;
    int64_t left = next == INT64_MAX ? -1 : next - now;
    if (next != INT64_MAX && left < 0)
        left = 0;
    if (most_ns >= 0 && (left < 0 || most_ns < left))
        left = most_ns;
    int64_t kill_at = dz_execs_kill_at(s->machine.execs);
    int64_t until = kill_at == INT64_MAX ? -1 : kill_at - dz_clock_boot_ns();
    if (kill_at != INT64_MAX && (left < 0 || until < left))
        left = until > 0 ? until : 0;
    bool reporting =
        left == most_ns; /* the wait ends so that activity is reported, which is not an event */
    int64_t rest = rest_ns(s);
    bool rests = rest != INT64_MAX && (left < 0 || left > rest);
    if (rests)
        left = rest;
    if (due != INT64_MAX && !sends && !exact) { /* `due` comes before any time to tidy up */
        s->trimmed = false;
        return wait_for_calls(s, left);
    }
    const struct timespec ts = {left / DZ_NS_PER_S, left % DZ_NS_PER_S};
    if (sends)
        p[0].events |= POLLOUT;
    int n = ppoll(p, DZ_ARRAY_LEN(p), left < 0 ? NULL : &ts, NULL);
    if (n == 0 && rests) {
        if (!s->rested) /* report before memory is given back, so that later cells get these pages
                           in advance */
            report_written(s);
        s->rested = true;
        tidy_up(s);
    } else if (n != 0 || !reporting) {
        s->trimmed = false;
    }
    return n > 0 && (p[0].revents | p[2].revents) != 0;
}

/* The main command has ended, and its end was sent: end the machine, too. */
static void end_with_main(struct dz_serve *s)
{
    s->files_only = true;
    suspend(s);
}

DZ_NORETURN static void loop(struct dz_serve *s)
{
    struct dz_execs *x = s->machine.execs;
    bool look = true; /* check the socket? not after each call of a native program */
    for (;;) {
        int64_t report_in = -1;
        if (look) {
            receive_all(s);
            dz_cell_net_look(s->machine.net);
        }
        look = true;
        if (s->suspend)
            suspend(s);
        if (s->copy.count)
            snapshot(s);
        bool busy = dz_ops_turn(s->ops);
        if (s->stalled && !goes_on(s)) {
            wait_for_room(s);
            continue;
        }
        if (s->up) {
            (void)dz_execs_turn(x);
            busy |= run(s, s->out.count ? HOLD_NS : RUN_NS) != DZ_KERNEL_IDLE;
            if (s->stalled) {
                wait_for_room(s);
                continue;
            }
            busy |= dz_execs_turn(x);
            busy |= dz_kernel_runnable(s->machine.kernel) || s->ops->changed;
            if (s->start.ends_with_main && x->main_ended)
                end_with_main(s);
            report_in = report_activity(s);
            const int64_t ports_in = dz_cell_net_report(s->machine.net);
            report_in =
                ports_in >= 0 && (report_in < 0 || ports_in < report_in) ? ports_in : report_in;
        }
        /* Frames for which the socket has no room are sent later: wait_for_anything() polls for
         * that. */
        (void)dz_out_flush(&s->out, false);
        if (wal_is_due(s, DZ_DB_CHECKPOINT_PAGES))
            move_wal(s, false);
        if (busy)
            continue;
        if (s->up && !s->cool)
            dz_machine_cool();
        s->cool = s->up;
        dz_cell_machine_check_pack(&s->machine);
        look = wait_for_anything(s, report_in);
    }
}

/* Become the tenant's user, together with the stubs: processes of other users cannot access their
 * memory. */
static int become_user(struct dz_serve *s, uint32_t user, struct dz_err *err)
{
    struct dz_stub *stub = s->machine.native ? s->machine.native->stub : NULL;
    if (stub && stub->ops->place) /* now, because each of the next steps is a hand-over */
        (void)stub->ops->place(stub, sched_getcpu());
    int rc = stub ? dz_stub_host_settle(stub, user, err) : 0;
    return rc < 0 ? rc : dz_os_user_settle(user, err);
}

DZ_NORETURN void dz_cell_serve(int fd, struct dz_os_dirty *dirty, struct dz_cell_native *native,
                               struct dz_zygote *zygote)
{
    struct dz_serve *s = &serve;
    struct dz_err err = {0};
    struct sigaction alarm = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    s->fd = s->out.fd = fd;
    s->machine.dirty = dirty;
    s->machine.native = native;
    s->machine.zygote = zygote;
    s->room = UINT64_MAX;
    dz_db_reseed(); /* do not continue the random numbers of our parent */
    (void)sigaction(SIGALRM, &alarm, NULL);
    int rc = dz_start_receive(fd, &s->start, &err);
    if (rc == 0 && zygote && zygote->users.count)
        rc = become_user(s, s->start.host_user ? s->start.host_user : zygote->user, &err);
    if (rc < 0)
        fail(s, rc, &err);
    begin(s);
    handle_early(s);
    loop(s);
}

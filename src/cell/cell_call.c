/* SPDX-License-Identifier: MIT
 *
 * cell_call.c - the host's side of a call: fork, receive, answer, and make sure that the call
 * ends.
 *
 * A word in a page that both map tells the child to stop, so it need not read its socket for that.
 * A child that does not stop, or exceeds its time, is killed. Every question is answered; once
 * there is a reason to stop, the answer is CANCELED, so that a function can finish what it began.
 */
#include "cell/cell_call.h"

#include "cell/cell_called.h"
#include "cell/cell_reap.h"
#include "cell/cell_stderr.h"
#include "cell/cell_zygote.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define STOP_TICK_NS  (DZ_NS_PER_S / 4)
#define WATCH_TICK_NS (DZ_NS_PER_S / 20)

enum {
    ROOT_MS = 10000,   /* time for the root zygote to accept a request and to start the process */
    STDERR_FIRST = 16, /* packets of text that may come before the pid */
};

struct calling {
    const struct dz_call_opts *o;
    struct dz_buf *reply;
    pid_t pid;
    uint32_t user; /* the user id of the cell while it lives; DZ_USER_NONE: ours */
    int fd;
    volatile int
        *stop; /* only written by the host, never read, because the cell could write to it, too */
    int stop_fd;
    bool stopping;       /* the cell was asked to stop */
    int64_t deadline_ns; /* 0: none */
    bool late;           /* the deadline is now the end of the grace period */
    int failed;          /* the first error of `take`, `answer` or the reply: reported at the end */
    struct dz_err why;
    struct dz_cell_stderr text;
    uint8_t payload[DZ_CELL_FRAME_MAX + 1];
};

/* --- making it stop ------------------------------------------------------------------ */

static void ask_to_stop(struct calling *c)
{
    if (c->stopping)
        return;
    c->stopping = true;
    *c->stop = 1;
    int64_t grace = dz_clock_boot_ns() + DZ_CALL_STOP_GRACE_MS * DZ_NS_PER_MS;
    if (c->deadline_ns == 0 || grace < c->deadline_ns) {
        c->deadline_ns = grace;
        c->late = true;
    }
}

static void fail(struct calling *c, int rc)
{
    if (c->failed == 0)
        c->failed = rc;
    ask_to_stop(c);
}

/* Check the size of the file in memory. RLIMIT_FSIZE does not help: it also holds for files on the
 * disk, and so is much higher. */
static int look_at_file(const struct calling *c, struct dz_err *err)
{
    enum {
        BLOCK = 512 /* the unit of st_blocks */
    };
    struct stat st;
    if (!c->o->watched_bytes || dz_fd_stat(c->o->watched_fd, &st) < 0 ||
        (uint64_t)st.st_blocks * BLOCK <= c->o->watched_bytes)
        return 0;
    return dz_fail(err, DZ_ELIMIT, "%s: its cell took more than %llu MiB of memory for a file",
                   c->o->what, (unsigned long long)(c->o->watched_bytes >> 20));
}

/* Wait. 1: the socket is readable; 0: it is time to ask `stop` again. Signals are unblocked only
 * here, so that none can arrive between asking `stop` and waiting. */
static int wait_readable(struct calling *c, struct dz_err *err)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    if (c->o->stop && c->o->stop(c->o->host))
        ask_to_stop(c);
    int64_t left = c->deadline_ns ? c->deadline_ns - dz_clock_boot_ns() : 0;
    int64_t step = c->o->watched_bytes ? WATCH_TICK_NS : STOP_TICK_NS;
    bool looks = c->o->watched_bytes || (c->o->stop && !c->stopping);
    bool tick = looks && (!c->deadline_ns || left > step);
    int64_t wait = tick ? step : left;
    const struct timespec ts = {wait / DZ_NS_PER_S, wait % DZ_NS_PER_S};
    int n = c->deadline_ns && left <= 0
                ? 0
                : ppoll(&p, 1, c->deadline_ns || tick ? &ts : NULL, &before);
    int sys = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (n < 0 && sys != EINTR)
        return dz_fail_sys(err, sys, "%s: wait for its cell", c->o->what);
    if (n != 0 || tick)
        return n > 0 ? 1 : 0;
    if (c->late)
        return dz_fail(err, DZ_ECANCELED, "%s: interrupted", c->o->what);
    return dz_fail(err, DZ_ETIMEOUT, "%s: timed out after %lld ms", c->o->what,
                   (long long)c->o->timeout_ms);
}

/* --- frames ----------------------------------------------------------------------------- */

static void pass_message(struct calling *c, const struct dz_frame *f)
{
    const struct dz_call_msg msg = {f->stream, f->value, c->payload, f->size};
    if (c->failed || !c->o->receive)
        return;
    int rc = c->o->receive(c->o->host, &msg, &c->why);
    if (rc < 0)
        fail(c, rc);
}

static int answer(struct calling *c, const struct dz_frame *f, struct dz_err *err)
{
    const struct dz_call_msg question = {f->stream, f->value, c->payload, f->size};
    struct dz_call_msg a = {0};
    if (!c->o->answer)
        return dz_fail(err, DZ_EIO, "%s: its cell asked, but this call answers no questions",
                       c->o->what);
    if (c->o->stop && c->o->stop(c->o->host))
        ask_to_stop(c);
    int rc = c->stopping ? DZ_ECANCELED : c->o->answer(c->o->host, &question, &a, &c->why);
    if (rc < 0 && !c->stopping)
        fail(c, rc);
    struct dz_frame out = {.type = rc < 0 ? DZ_FRAME_CANCEL : DZ_FRAME_ANSWER,
                           .stream = a.tag,
                           .value = a.value,
                           .size = rc < 0 ? 0 : (uint32_t)a.size};
    rc = dz_frame_send(c->fd, &out, a.data, false, err);
    if (rc == 0) /* the cell sends questions, but does not read the answers */
        return dz_fail(err, DZ_EIO, "%s: its cell does not read its answers", c->o->what);
    return rc > 0 || rc == DZ_EIO ? 0 : rc; /* DZ_EIO: the cell has exited; the messages that it
                                               sent before are received first */
}

static void add_reply(struct calling *c, const struct dz_frame *f)
{
    if (c->failed)
        return;
    if (!c->reply || f->size > c->reply->max - c->reply->len)
        fail(c, dz_fail(&c->why, DZ_ELIMIT, "%s: the reply of its cell exceeds %zu bytes",
                        c->o->what, c->reply ? c->reply->max : 0));
    else
        dz_buf_add(c->reply, c->payload, f->size);
    if (c->reply && c->reply->err)
        fail(c, dz_fail(&c->why, c->reply->err, "%s: store the reply", c->o->what));
}

/* Handle a message of the cell. 1: it was the last one, and *ret_result is set. */
static int understand(struct calling *c, const struct dz_frame *f, int *ret_result,
                      struct dz_err *err)
{
    int64_t value = (int64_t)f->value;
    switch (f->type) {
    case DZ_FRAME_MESSAGE:
        pass_message(c, f);
        return 0;
    case DZ_FRAME_ASK:
        return answer(c, f, err);
    case DZ_FRAME_REPLY:
        add_reply(c, f);
        return 0;
    case DZ_FRAME_STDERR:
        dz_cell_stderr_add(&c->text, c->payload, f->size);
        return 0;
    case DZ_FRAME_DONE:
        if (value < -DZ_CELL_CODE_MAX || value > INT32_MAX)
            break;
        if (value < 0) {
            c->payload[f->size] = '\0';
            (void)dz_fail(err, (int)value, "%s", (const char *)c->payload);
            if (err)
                err->sys = (int)f->stream;
        }
        *ret_result = (int)value;
        return 1;
    default:
        break;
    }
    return dz_fail(err, DZ_EIO, "%s: its cell sent an invalid frame (type %u)", c->o->what,
                   f->type);
}

/* --- the whole ---------------------------------------------------------------------------- */

static int reap(struct calling *c, int64_t grace_ms)
{
    int status = c->pid > 0 ? dz_reap_or_kill(c->pid, grace_ms) : 0;
    c->pid = 0;
    return status;
}

static int converse(struct calling *c, struct dz_err *err)
{
    struct dz_frame f = {0};
    int result = 0;
    for (;;) {
        int rc = look_at_file(c, err);
        if (rc == 0)
            rc = wait_readable(c, err);
        if (rc > 0)
            rc = dz_frame_receive(c->fd, &f, c->payload, false, err);
        if (rc == DZ_EIO &&
            dz_frame_gone(
                c->fd)) /* a result that it sent before it exited would have been received first */
            return dz_cell_died(reap(c, 0), c->o->what, err);
        if (rc > 0)
            rc = understand(c, &f, &result, err);
        if (rc < 0)
            return rc;
        if (rc > 0)
            return result;
    }
}

/* An error of `receive` or `answer` is reported rather than the cell's own error, which may be a
 * consequence. */
static int outcome(const struct calling *c, int rc, struct dz_err *err)
{
    if (!c->failed || (rc < 0 && rc != DZ_ECANCELED))
        return rc;
    if (err)
        *err = c->why;
    return c->failed;
}

int dz_call_listen(int fd, const struct dz_call_opts *o, struct dz_buf *reply, struct dz_err *err)
{
    int stop = 0;
    struct calling *c = dz_zalloc(sizeof *c);
    if (!c)
        return dz_fail(err, DZ_ENOMEM, "%s: out of memory", o->what);
    c->o = o;
    c->reply = reply;
    c->fd = fd;
    c->stop = &stop;
    dz_cell_stderr_init(&c->text, DZ_STDERR_CALL, o->what);
    int rc = converse(c, err);
    dz_cell_stderr_end(&c->text);
    rc = outcome(c, rc, err);
    dz_free(c);
    return rc;
}

/* --- by the root zygote ----------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    int fd;
    atomic_bool never_fork;
} root = {PTHREAD_MUTEX_INITIALIZER, -1, false};

void dz_call_set_root(int fd)
{
    (void)pthread_mutex_lock(&root.lock);
    dz_fd_close(&root.fd);
    root.fd = fd;
    (void)pthread_mutex_unlock(&root.lock);
}

void dz_cell_call_never_fork(void)
{
    atomic_store(&root.never_fork, true);
}

static bool has_root(void)
{
    (void)pthread_mutex_lock(&root.lock);
    bool has = root.fd >= 0;
    (void)pthread_mutex_unlock(&root.lock);
    return has;
}

/* Hold no lock while waiting for a root zygote, so that the loop can set another one meanwhile. */
static int send_to_root(const struct calling *c, const struct dz_frame *f, const int *fds, size_t n,
                        struct dz_err *err)
{
    int rc = 0;
    (void)pthread_mutex_lock(&root.lock);
    DZ_AUTO(dz_fd_close) int fd = root.fd < 0 ? -1 : fcntl(root.fd, F_DUPFD_CLOEXEC, 3);
    (void)pthread_mutex_unlock(&root.lock);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    while (fd >= 0 && rc == 0 && poll(&p, 1, ROOT_MS) > 0)
        rc = dz_frame_send_fds(
            fd, f, NULL, fds, n,
            err); /* 0: the socket is full again, because another thread was faster */
    if (rc == 0)
        return dz_fail(err, DZ_EBUSY, "%s: the process that starts cells does not answer",
                       c->o->what);
    return rc < 0 ? rc : 0;
}

/* The root zygote sends the pid over the socket of the call. The process itself sends nothing, and
 * reads no bytes that may be hostile, before it has received the argument. */
static int await_pid(struct calling *c, struct dz_err *err)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    struct dz_frame f = {.type = DZ_FRAME_STDERR};
    for (int i = 0; i < STDERR_FIRST && f.type == DZ_FRAME_STDERR; i++) {
        if (poll(&p, 1, ROOT_MS) <= 0)
            return dz_fail(err, DZ_ETIMEOUT, "%s: the process that starts cells does not answer",
                           c->o->what);
        int rc = dz_frame_receive(c->fd, &f, c->payload, false, err);
        if (rc <= 0)
            return rc < 0 ? rc : dz_fail(err, DZ_EIO, "%s: start its cell", c->o->what);
        if (f.type == DZ_FRAME_STDERR) /* the report of a sanitizer */
            dz_cell_stderr_add(&c->text, c->payload, f.size);
    }
    if (f.type != DZ_FRAME_ZYGOTE_CALLED || f.value < 2 || f.value > INT32_MAX)
        return dz_fail_sys(err, f.stream ? (int)f.stream : EIO, "%s: start its cell", c->o->what);
    if (!dz_reap_claim((pid_t)f.value))
        return dz_fail(
            err, DZ_EIO,
            "%s: the process that starts cells reported a pid that is no child of this process",
            c->o->what);
    c->pid = (pid_t)f.value;
    return 0;
}

static int start_by_root(struct calling *c, int end, struct dz_err *err)
{
    const struct dz_call_opts *o = c->o;
    DZ_AUTO(dz_buf_release) struct dz_buf body = DZ_BUF_INIT(DZ_CELL_FRAME_MAX);
    struct dz_call_head head = {.memory_bytes = o->memory_bytes,
                                .file_bytes = o->file_bytes,
                                .fd_count = (uint32_t)o->fd_count,
                                .arg_size = (uint32_t)o->arg_size,
                                .users = dz_cell_users(),
                                .user = c->user};
    const struct dz_frame ask = {.type = DZ_FRAME_ZYGOTE_CALL};
    int fds[2 + DZ_CALL_FDS_MAX] = {end, c->stop_fd};
    size_t n = 2;
    for (size_t i = 0; i < o->fd_count; i++)
        if (o->fds[i] >= 0) {
            head.present |= UINT64_C(1) << i;
            fds[n++] = o->fds[i];
        }
    dz_buf_add(&body, &head, sizeof head);
    dz_buf_add(&body, o->arg, o->arg_size);
    if (body.err)
        return dz_fail(err, body.err, "%s: send the argument to its cell", o->what);
    int rc = send_to_root(c, &ask, fds, n, err);
    if (rc == 0)
        rc = await_pid(c, err);
    const struct dz_frame start = {
        .type = DZ_FRAME_ZYGOTE_CALL, .stream = (uint32_t)o->id, .size = (uint32_t)body.len};
    if (rc == 0 && dz_frame_send(c->fd, &start, body.p, true, err) <= 0)
        rc = dz_fail(err, DZ_EIO, "%s: start its cell", o->what);
    return rc;
}

/* --- the whole call ------------------------------------------------------------------------- */

static int start_here(struct calling *c, int end, struct dz_err *err)
{
    assert(!atomic_load(&root.never_fork));
    c->pid = fork();
    if (c->pid == 0)
        dz_call_serve(end, c->o, c->stop);
    return c->pid < 0 ? dz_fail_sys(err, errno, "%s: fork its cell", c->o->what) : 0;
}

static int run(struct calling *c, struct dz_err *err)
{
    int pair[2];
    int rc = dz_frame_pair(pair, err);
    if (rc < 0)
        return dz_wrap(err, rc, "%s", c->o->what);
    c->fd = pair[0];
    rc = c->o->id && has_root() ? start_by_root(c, pair[1], err) : start_here(c, pair[1], err);
    (void)close(pair[1]);
    if (rc == 0)
        rc = converse(c, err);
    dz_fd_close(&c->fd);
    /* A cell whose file is watched ends at once after its last message, because nobody would watch
     * the file then. */
    (void)reap(c, rc < 0 || c->o->watched_bytes ? 0 : DZ_CALL_END_MS);
    dz_cell_stderr_end(&c->text);
    return outcome(c, rc, err);
}

/* A number in memory that the host writes and the cell reads. The memory is sealed, so the cell
 * cannot truncate it under the host. */
static int make_stop(struct calling *c, struct dz_err *err)
{
    c->stop_fd = memfd_create("doze-stop", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (c->stop_fd < 0 || ftruncate(c->stop_fd, sizeof *c->stop) < 0 ||
        fcntl(c->stop_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return dz_fail_sys(err, errno, "%s: create the memory of its stop flag", c->o->what);
    void *p = mmap(NULL, sizeof *c->stop, PROT_READ | PROT_WRITE, MAP_SHARED, c->stop_fd, 0);
    if (p == MAP_FAILED)
        return dz_fail(err, DZ_ENOMEM, "%s: out of memory", c->o->what);
    c->stop = p;
    return 0;
}

int dz_cell_call(const struct dz_call_opts *o, struct dz_buf *reply, struct dz_err *err)
{
    if (o->fd_count > DZ_CALL_FDS_MAX)
        return dz_fail(err, DZ_ELIMIT, "%s: %zu descriptors for its cell; at most %d are allowed",
                       o->what, o->fd_count, DZ_CALL_FDS_MAX);
    struct calling *c = dz_zalloc(sizeof *c);
    if (!c)
        return dz_fail(err, DZ_ENOMEM, "%s: out of memory", o->what);
    c->o = o;
    c->reply = reply;
    dz_cell_stderr_init(&c->text, DZ_STDERR_CALL, o->what);
    c->deadline_ns = o->timeout_ms ? dz_clock_boot_ns() + o->timeout_ms * DZ_NS_PER_MS : 0;
    int rc = make_stop(c, err);
    if (rc == 0)
        rc = dz_cell_user_acquire(&c->user, err);
    if (rc == 0)
        rc = run(c, err);
    dz_cell_user_release(c->user);
    if (c->stop)
        (void)munmap((void *)(uintptr_t)c->stop, sizeof *c->stop);
    dz_fd_close(&c->stop_fd);
    dz_free(c);
    return rc;
}

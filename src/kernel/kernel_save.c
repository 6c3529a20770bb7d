/* SPDX-License-Identifier: MIT
 *
 * kernel_save.c - saves and restores the rows of a machine.
 *
 * Input is not trusted: dz_kernel_thaw() checks every index, count and length of every row before
 * any use, recounts references and compares them, and rebuilds the links (queues, hashes, waiters).
 */
#include "kernel/kernel_int.h"

#include <fcntl.h>
#include <termios.h>

#include "kernel/kernel_sock.h"

size_t dz_kernel_row_size(enum dz_kernel_table table)
{
    static const size_t sizes[DZ_KERNEL_TABLE_COUNT] = {
        [DZ_KERNEL_TABLE_PROC] = sizeof(struct dz_proc),
        [DZ_KERNEL_TABLE_FILE] = sizeof(struct dz_file),
        [DZ_KERNEL_TABLE_PIPE] = sizeof(struct dz_pipe),
        [DZ_KERNEL_TABLE_PTY] = sizeof(struct dz_pty),
        [DZ_KERNEL_TABLE_STREAM] = sizeof(struct dz_stream),
        [DZ_KERNEL_TABLE_JOB] = sizeof(struct dz_job),
        [DZ_KERNEL_TABLE_THREAD] = sizeof(struct dz_thread),
        [DZ_KERNEL_TABLE_SIGINFO] = sizeof(struct dz_siginfo),
        [DZ_KERNEL_TABLE_EPITEM] = sizeof(struct dz_epitem),
        [DZ_KERNEL_TABLE_SOCKET] = sizeof(struct dz_socket),
        [DZ_KERNEL_TABLE_MESSAGE] = sizeof(struct dz_message),
        [DZ_KERNEL_TABLE_IPC] = sizeof(struct dz_ipc),
        [DZ_KERNEL_TABLE_SEMUNDO] = sizeof(struct dz_semundo),
        [DZ_KERNEL_TABLE_TIMER] = sizeof(struct dz_timer),
        [DZ_KERNEL_TABLE_INOTIFY] = sizeof(struct dz_inotify),
        [DZ_KERNEL_TABLE_WATCH] = sizeof(struct dz_watch),
        [DZ_KERNEL_TABLE_MQUEUE] = sizeof(struct dz_mqueue),
    };
    return table < DZ_KERNEL_TABLE_COUNT ? sizes[table] : 0;
}

uint32_t dz_kernel_rows(struct dz_kernel *k, enum dz_kernel_table table)
{
    return k->tab[table].high;
}

const void *dz_kernel_row(struct dz_kernel *k, enum dz_kernel_table table, uint32_t index)
{
    return dz_k_row(&k->tab[table], index);
}

const void *dz_kernel_blob(struct dz_kernel *k, uint32_t blob, size_t *ret_size)
{
    return dz_k_blob(k, blob, ret_size);
}

uint32_t dz_kernel_blobs(struct dz_kernel *k)
{
    return k->blobs.high;
}

void dz_kernel_misc_get(struct dz_kernel *k, struct dz_kernel_misc *ret_misc)
{
    *ret_misc = (struct dz_kernel_misc){
        .now_ns = dz_kernel_now(k),
        .next_owner = k->next_owner,
        .next_anon_ino = k->next_anon_ino,
        .total_cpu_ns = k->total_cpu_ns,
        .forks = k->forks,
        .next_pid = k->next_pid,
        .load = {k->load[0], k->load[1], k->load[2]},
    };
}

/* ---- in ---------------------------------------------------------------------------- */

/* A process finds its task by its first thread, before a thaw links them all. */
static void note_thread(const struct dz_kernel *k, const struct dz_thread *t)
{
    struct dz_proc *p = t->proc > 1 ? dz_k_proc(k, t->proc) : NULL;
    if (p && p->threads == 0)
        p->threads = t->index;
}

int dz_kernel_row_put(struct dz_kernel *k, enum dz_kernel_table table, const void *row,
                      struct dz_err *err)
{
    uint32_t head[2]; /* used, index */
    memcpy(head, row, sizeof head);
    if (table == DZ_KERNEL_TABLE_PROC && head[1] == 1)
        return 0; /* process 1 is the kernel's own, and exists already */
    if (head[0] != 1 || head[1] == 0 || head[1] > k->tab[table].max)
        return dz_fail(err, DZ_ECORRUPT, "a saved row of table %d has no valid number", (int)table);
    void *to = dz_k_row_new_at(&k->tab[table], head[1]);
    if (!to && dz_k_row(&k->tab[table], head[1]))
        return dz_fail(err, DZ_ECORRUPT, "row %u of table %d exists twice", head[1], (int)table);
    if (!to)
        return dz_fail(err, DZ_ENOMEM, "cannot load the machine: out of memory");
    memcpy(to, row, dz_kernel_row_size(table));
    if (table == DZ_KERNEL_TABLE_PROC)
        ((struct dz_proc *)to)->threads = ((struct dz_proc *)to)->thread = 0;
    if (table == DZ_KERNEL_TABLE_THREAD)
        note_thread(k, to);
    return 0;
}

int dz_kernel_blob_put(struct dz_kernel *k, uint32_t blob, const void *data, size_t size,
                       struct dz_err *err)
{
    uint8_t *to = NULL;
    int rc = dz_kernel_blob_room(k, blob, size, &to, err);
    if (rc == 0 && size)
        memcpy(to, data, size);
    return rc;
}

int dz_kernel_blob_room(struct dz_kernel *k, uint32_t blob, size_t size, uint8_t **ret_bytes,
                        struct dz_err *err)
{
    if (blob == 0 || blob > DZ_KERNEL_BLOBS_MAX || dz_k_row(&k->blobs, blob))
        return dz_fail(err, DZ_ECORRUPT, "blob %u exists twice or has no valid number", blob);
    if (!dz_k_charge(k, size))
        return dz_fail(err, DZ_ELIMIT, "the saved machine needs more memory than its limit");
    struct dz_k_blob *b = dz_k_row_new_at(&k->blobs, blob);
    if (b)
        b->p = dz_k_blob_bytes(size);
    if (!b || !b->p) {
        if (b)
            dz_k_row_free(&k->blobs, blob);
        dz_k_uncharge(k, size);
        return dz_fail(err, DZ_ENOMEM, "cannot load the machine: out of memory");
    }
    b->size = size;
    *ret_bytes = b->p;
    return 0;
}

int dz_kernel_thread_put(struct dz_kernel *k, uint32_t thread, const struct dz_program *program,
                         struct dz_task **ret_task, struct dz_err *err)
{
    struct dz_thread *of = dz_k_thread(k, thread);
    const struct dz_proc *p = of && of->proc > 1 ? dz_k_proc(k, of->proc) : NULL;
    if (!p || k->task[thread] || p->state == DZ_PROC_ZOMBIE)
        return dz_fail(err, DZ_ECORRUPT, "a saved program belongs to row %u, which is not a thread",
                       thread);
    if (program->kind >= DZ_KERNEL_KINDS_MAX || !k->kinds[program->kind].runner)
        return dz_fail(err, DZ_EUNSUPPORTED,
                       "saved process %d runs a program of a kind that this "
                       "machine does not run",
                       p->pid);
    struct dz_task *t = dz_k_task_new(k, of, program->kind);
    if (!t)
        return dz_fail(err, DZ_ENOMEM, "cannot load the machine: out of memory");
    t->program = *program;
    int e = t->runner->load(t->runner_arg, t, NULL);
    if (e) {
        dz_free(t);
        return dz_fail_sys(err, -e, "cannot load the program of saved process %d", p->pid);
    }
    if (program->handle && k->ops.program_ref)
        k->ops.program_ref(k->ops.arg, program);
    k->task[thread] = t;
    *ret_task = t;
    return 0;
}

int dz_kernel_task_put(struct dz_kernel *k, uint32_t proc, const struct dz_program *program,
                       struct dz_task **ret_task, struct dz_err *err)
{
    const struct dz_proc *p = proc > 1 ? dz_k_proc(k, proc) : NULL;
    if (!p || p->threads == 0)
        return dz_fail(err, DZ_ECORRUPT,
                       "a saved program belongs to row %u, which is not a process", proc);
    return dz_kernel_thread_put(k, p->threads, program, ret_task, err);
}

/* ---- checking -------------------------------------------------------------------------- */

static bool blob_is(const struct dz_kernel *k, uint32_t blob, size_t least)
{
    size_t size = 0;
    return dz_k_blob(k, blob, &size) && size >= least;
}

static bool blob_or_none(const struct dz_kernel *k, uint32_t blob)
{
    return blob == 0 || dz_k_row(&k->blobs, blob);
}

static bool is_text(const struct dz_kernel *k, uint32_t blob)
{
    size_t size = 0;
    const char *s = blob ? dz_k_blob(k, blob, &size) : "";
    return s && (blob == 0 || size == 0 || s[size - 1] == '\0');
}

static bool node_ok(const struct dz_node *n)
{
    return n->fs <= DZ_KERNEL_FS_SYS;
}

static bool ring_ok(uint32_t head, uint32_t len, size_t cap)
{
    return len <= cap && (cap == 0 ? head == 0 : head < cap);
}

/* Before a save, a child gets its own copy of the instance that its parent lent it. */
static bool lends(const struct dz_kernel *k, uint32_t thread)
{
    const struct dz_task *t = dz_k_thread(k, thread) ? k->task[thread] : NULL;
    return !t || t->runner->frames_save;
}

static bool vfork_ok(const struct dz_kernel *k, const struct dz_proc *p)
{
    return !(p->flags & DZ_PROC_VFORKED) || !lends(k, p->threads);
}

static bool proc_ok(struct dz_kernel *k, const struct dz_proc *p)
{
    bool ok = p->pid > 1 && p->pid < DZ_KERNEL_PID_MAX && p->pgid > 0 && p->sid > 0;
    ok = ok && (p->state == DZ_PROC_LIVE || p->state == DZ_PROC_ZOMBIE);
    ok = ok && !(p->flags & (DZ_PROC_INIT | DZ_PROC_EXEC_READY)) && vfork_ok(k, p);
    ok = ok && p->group_count <= DZ_KERNEL_GROUPS_MAX && p->nice >= -20 && p->nice <= 19;
    ok = ok && p->oom_adj >= -1000 && p->oom_adj <= 1000;
    ok = ok && p->stop_sig <= DZ_KERNEL_SIGNALS;
    ok = ok && (p->state != DZ_PROC_ZOMBIE || p->job == 0); /* it left its job when it died */
    ok = ok && p->term_sig <= DZ_KERNEL_SIGNALS && p->comm[15] == '\0';
    ok = ok && p->death_sig <= DZ_KERNEL_SIGNALS && dz_k_caps_ok(p);
    ok = ok && node_ok(&p->cwd) && node_ok(&p->root) && p->root.fs == DZ_KERNEL_FS_DISK;
    ok = ok && (p->tty == 0 || dz_k_pty(k, p->tty)) && (p->job == 0 || dz_k_job(k, p->job));
    ok = ok && is_text(k, p->argv) && is_text(k, p->envv) && is_text(k, p->exe_path);
    ok = ok && p->fd_count <= DZ_KERNEL_FDS_MAX;
    size_t fds = p->fd_count * sizeof(struct dz_fd);
    return ok && (p->fd_count == 0 ? p->fds == 0 : blob_is(k, p->fds, fds));
}

static bool thread_ok(struct dz_kernel *k, const struct dz_thread *t)
{
    const struct dz_proc *p = t->proc > 1 ? dz_k_proc(k, t->proc) : NULL;
    bool ok = p && p->state == DZ_PROC_LIVE && t->tid > 1 && t->tid < DZ_KERNEL_PID_MAX;
    bool vfork = t->state == DZ_THREAD_VFORK && !lends(k, t->index);
    ok = ok && (t->state == DZ_THREAD_READY || t->state == DZ_THREAD_WAIT || vfork) &&
         (vfork || t->vfork_child == 0);
    ok = ok && t->comm[15] == '\0' && t->depth <= DZ_KERNEL_HANDLERS_MAX &&
         blob_or_none(k, t->frame) && dz_k_futex_ok(k, t);
    bool parked = false;
    for (uint32_t d = 0; ok && d <= t->depth; d++)
        parked |= t->call[d].parked != 0;
    ok = ok && ((t->futex_bits == 0 && t->futex_all == 0) || parked);
    return ok && k->task[t->index];
}

static bool siginfo_ok(struct dz_kernel *k, const struct dz_siginfo *i)
{
    const struct dz_proc *p = i->proc > 1 ? dz_k_proc(k, i->proc) : NULL;
    const struct dz_thread *t = dz_k_thread(k, i->thread);
    bool ok = p && p->state == DZ_PROC_LIVE && i->signo >= 1 && i->signo <= DZ_KERNEL_SIGNALS;
    ok = ok && (i->thread == 0 || (t && t->proc == i->proc)) && i->order <= INT64_MAX;
    return ok && ((t ? t->sig_pending : p->sig_pending) & DZ_K_BIT(i->signo));
}

static bool file_ok(struct dz_kernel *k, const struct dz_file *f)
{
    if (!node_ok(&f->node) || !is_text(k, f->path) || !dz_k_lease_ok(f))
        return false;
    switch (f->kind) {
    case DZ_FILE_DISK:
        return f->node.fs == DZ_KERNEL_FS_DISK;
    case DZ_FILE_PIPE:
        return dz_k_pipe(k, f->obj) != NULL;
    case DZ_FILE_PTM:
    case DZ_FILE_PTS:
        return dz_k_pty(k, f->obj) != NULL;
    case DZ_FILE_DEVICE:
        return f->obj >= DZ_DEVICE_NULL && f->obj <= DZ_DEVICE_URANDOM;
    case DZ_FILE_STREAM:
        return dz_k_stream(k, f->obj) != NULL;
    case DZ_FILE_SYNTH:
        return (f->node.fs == DZ_KERNEL_FS_PROC || f->node.fs == DZ_KERNEL_FS_SYS) &&
               blob_or_none(k, f->obj);
    case DZ_FILE_PIDFD:
        return f->obj < DZ_KERNEL_PID_MAX;
    case DZ_FILE_EPOLL:
    case DZ_FILE_SIGNALFD:
        return true;
    case DZ_FILE_SOCKET:
        return dz_k_socket(k, f->obj) != NULL;
    case DZ_FILE_EVENTFD:
        return f->pos < UINT64_MAX;
    case DZ_FILE_TIMERFD:
        return f->timer_at >= 0 && f->timer_every >= 0;
    case DZ_FILE_INOTIFY:
        return dz_k_row(&k->tab[DZ_KERNEL_TABLE_INOTIFY], f->obj) != NULL;
    case DZ_FILE_MQUEUE:
        return dz_k_row(&k->tab[DZ_KERNEL_TABLE_MQUEUE], f->obj) != NULL;
    case DZ_FILE_HINT:
        return dz_k_hint_ok(f);
    case DZ_FILE_DIR:
        return f->node.fs != DZ_KERNEL_FS_DISK;
    default:
        return false;
    }
}

static bool epitem_ok(struct dz_kernel *k, const struct dz_epitem *i)
{
    const struct dz_file *e = dz_k_file(k, i->epoll), *f = dz_k_file(k, i->file);
    return e && e->kind == DZ_FILE_EPOLL && f && f != e && dz_k_ops(f)->wait && i->fd >= 0;
}

static bool pipe_ok(const struct dz_kernel *k, const struct dz_pipe *q)
{
    size_t cap = 0;
    if (!blob_or_none(k, q->blob))
        return false;
    (void)dz_k_blob(k, q->blob, &cap);
    return cap <= DZ_KERNEL_PIPE_MAX && q->size <= DZ_KERNEL_PIPE_MAX &&
           ring_ok(q->head, q->len, cap);
}

static bool pty_ok(const struct dz_kernel *k, const struct dz_pty *t)
{
    const uint8_t *marks = dz_k_blob(k, t->marks, NULL);
    bool ok = blob_is(k, t->in, DZ_KERNEL_TTY_IN) && blob_is(k, t->marks, DZ_KERNEL_TTY_IN) &&
              blob_is(k, t->out, DZ_KERNEL_TTY_OUT);
    ok = ok && ring_ok(t->head, t->len, DZ_KERNEL_TTY_IN) && t->edit <= t->len;
    ok = ok && ring_ok(t->out_head, t->out_len, DZ_KERNEL_TTY_OUT);
    ok = ok && (t->edit == 0 || (t->termios.lflag & ICANON));
    for (uint32_t i = 0; ok && i < t->edit; i++) /* no end of line in the edited line */
        ok = marks[(t->head + t->len - 1 - i) % DZ_KERNEL_TTY_IN] == 0;
    return ok && (t->stream == 0 || dz_k_stream(k, t->stream));
}

static bool stream_ok(struct dz_kernel *k, const struct dz_stream *s)
{
    bool ok = (s->pty == 0 || dz_k_pty(k, s->pty)) && s->kind <= 7 && s->gen < 0x10000;
    bool tty = (s->kind & DZ_STREAM_PTY) != 0;
    ok = ok && (tty || !(s->kind & DZ_STREAM_IN) || blob_is(k, s->in, DZ_KERNEL_STREAM_SIZE));
    ok = ok && (tty || !(s->kind & DZ_STREAM_OUT) || blob_is(k, s->out, DZ_KERNEL_STREAM_SIZE));
    /* and a missing ring is empty */
    ok = ok && (s->in_len == 0 || blob_is(k, s->in, DZ_KERNEL_STREAM_SIZE));
    ok = ok && (s->out_len == 0 || blob_is(k, s->out, DZ_KERNEL_STREAM_SIZE));
    return ok && ring_ok(s->in_head, s->in_len, DZ_KERNEL_STREAM_SIZE) &&
           ring_ok(s->out_head, s->out_len, DZ_KERNEL_STREAM_SIZE);
}

/* A trace goes to a ring of a stream that is open. */
static bool job_ok(const struct dz_kernel *k, const struct dz_job *job)
{
    const struct dz_stream *s = dz_k_stream(k, job->trace);
    return job->trace == 0 || (s && s->kind == DZ_STREAM_OUT && !s->closed);
}

/* Claim a blob for one owner: false if it already has an owner. 0 is no blob. */
static bool claim(uint8_t *seen, uint32_t blob)
{
    uint8_t bit = (uint8_t)(1u << blob % 8);
    bool first = blob == 0 || (blob <= DZ_KERNEL_BLOBS_MAX && !(seen[blob / 8] & bit));
    if (blob && first)
        seen[blob / 8] |= bit;
    return first;
}

/* A blob with two owners would be freed twice, or be used as two things. */
static bool blobs_ok(struct dz_kernel *k, uint8_t *seen)
{
    bool ok = true;
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    {
        const struct dz_fd *fds = dz_k_blob(k, p->fds, NULL);
        ok = ok && claim(seen, p->argv) && claim(seen, p->envv) && claim(seen, p->exe_path) &&
             claim(seen, p->fds);
        for (uint32_t i = 0; fds && i < p->fd_count; i++)
            ok = ok && (fds[i].file == 0 || claim(seen, fds[i].preopen));
    }
    DZ_K_FOREACH(dz_thread, t, k, DZ_KERNEL_TABLE_THREAD)
    ok = ok && claim(seen, t->frame) && claim(seen, t->futex_all);
    DZ_K_FOREACH(dz_file, f, k, DZ_KERNEL_TABLE_FILE)
    ok = ok && claim(seen, f->path);
    DZ_K_FOREACH(dz_pipe, q, k, DZ_KERNEL_TABLE_PIPE)
    ok = ok && claim(seen, q->blob);
    DZ_K_FOREACH(dz_pty, t, k, DZ_KERNEL_TABLE_PTY)
    ok = ok && claim(seen, t->in) && claim(seen, t->marks) && claim(seen, t->out);
    DZ_K_FOREACH(dz_stream, s, k, DZ_KERNEL_TABLE_STREAM)
    ok = ok && claim(seen, s->in) && claim(seen, s->out);
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    ok = ok && claim(seen, s->name);
    DZ_K_FOREACH(dz_message, m, k, DZ_KERNEL_TABLE_MESSAGE)
    ok = ok && claim(seen, m->blob) && claim(seen, m->fds);
    DZ_K_FOREACH(dz_ipc, o, k, DZ_KERNEL_TABLE_IPC)
    ok = ok && claim(seen, o->blob);
    DZ_K_FOREACH(dz_semundo, u, k, DZ_KERNEL_TABLE_SEMUNDO)
    ok = ok && claim(seen, u->blob);
    DZ_K_FOREACH(dz_inotify, i, k, DZ_KERNEL_TABLE_INOTIFY)
    ok = ok && claim(seen, i->blob);
    DZ_K_FOREACH(dz_mqueue, q, k, DZ_KERNEL_TABLE_MQUEUE)
    ok = ok && claim(seen, q->name) && claim(seen, q->blob);
    return ok;
}

static int check_blobs(struct dz_kernel *k, struct dz_err *err)
{
    uint8_t *seen = dz_zalloc(DZ_KERNEL_BLOBS_MAX / 8 + 1);
    int rc = seen ? 0 : dz_fail(err, DZ_ENOMEM, "cannot load the machine: out of memory");
    if (seen && !blobs_ok(k, seen))
        rc = dz_fail(err, DZ_ECORRUPT, "two parts of the saved machine share their bytes");
    dz_free(seen);
    return rc;
}

static int check_rows(struct dz_kernel *k, struct dz_err *err)
{
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    if (p->index != 1 && /* process 1 is the kernel's; no other may have its flags */
        (!proc_ok(k, p) || (p->threads == 0) != (p->state == DZ_PROC_ZOMBIE)))
        return dz_fail(err, DZ_ECORRUPT, "saved process %d is damaged", p->pid);
    DZ_K_FOREACH(dz_thread, t, k, DZ_KERNEL_TABLE_THREAD)
    if (!thread_ok(k, t))
        return dz_fail(err, DZ_ECORRUPT, "saved thread %d is damaged", t->tid);
    DZ_K_FOREACH(dz_siginfo, i, k, DZ_KERNEL_TABLE_SIGINFO)
    if (!siginfo_ok(k, i))
        return dz_fail(err, DZ_ECORRUPT, "saved signal %u is damaged", i->index);
    DZ_K_FOREACH(dz_file, f, k, DZ_KERNEL_TABLE_FILE)
    if (!file_ok(k, f))
        return dz_fail(err, DZ_ECORRUPT, "saved open file %u is damaged", f->index);
    DZ_K_FOREACH(dz_epitem, i, k, DZ_KERNEL_TABLE_EPITEM)
    if (!epitem_ok(k, i))
        return dz_fail(err, DZ_ECORRUPT, "saved item %u of an epoll is damaged", i->index);
    DZ_K_FOREACH(dz_pipe, q, k, DZ_KERNEL_TABLE_PIPE)
    if (!pipe_ok(k, q))
        return dz_fail(err, DZ_ECORRUPT, "saved pipe %u is damaged", q->index);
    DZ_K_FOREACH(dz_pty, t, k, DZ_KERNEL_TABLE_PTY)
    if (!pty_ok(k, t))
        return dz_fail(err, DZ_ECORRUPT, "saved terminal %u is damaged", t->index);
    DZ_K_FOREACH(dz_stream, s, k, DZ_KERNEL_TABLE_STREAM)
    if (!stream_ok(k, s))
        return dz_fail(err, DZ_ECORRUPT, "saved stream %u is damaged", s->index);
    DZ_K_FOREACH(dz_job, job, k, DZ_KERNEL_TABLE_JOB)
    if (!job_ok(k, job))
        return dz_fail(err, DZ_ECORRUPT, "saved job %u is damaged", job->index);
    DZ_K_FOREACH(dz_ipc, o, k, DZ_KERNEL_TABLE_IPC)
    if (!dz_k_ipc_ok(k, o))
        return dz_fail(err, DZ_ECORRUPT, "saved System V object %u is damaged", o->index);
    DZ_K_FOREACH(dz_semundo, u, k, DZ_KERNEL_TABLE_SEMUNDO)
    if (!dz_k_semundo_ok(k, u))
        return dz_fail(err, DZ_ECORRUPT, "what a saved process owes to semaphores is damaged");
    DZ_K_FOREACH(dz_timer, t, k, DZ_KERNEL_TABLE_TIMER)
    if (!dz_k_timer_ok(k, t))
        return dz_fail(err, DZ_ECORRUPT, "saved timer %u is damaged", t->index);
    DZ_K_FOREACH(dz_inotify, i, k, DZ_KERNEL_TABLE_INOTIFY)
    if (!dz_k_inotify_ok(k, i))
        return dz_fail(err, DZ_ECORRUPT, "saved inotify %u is damaged", i->index);
    DZ_K_FOREACH(dz_watch, w, k, DZ_KERNEL_TABLE_WATCH)
    if (!dz_k_watch_ok(k, w))
        return dz_fail(err, DZ_ECORRUPT, "saved watch %u of an inotify is damaged", w->index);
    DZ_K_FOREACH(dz_mqueue, q, k, DZ_KERNEL_TABLE_MQUEUE)
    if (!dz_k_mqueue_ok(k, q))
        return dz_fail(err, DZ_ECORRUPT, "saved message queue %u is damaged", q->index);
    return dz_k_sock_check(k, err);
}

/* ---- recounting ----------------------------------------------------------------------------- */

static void reset_counts(struct dz_kernel *k)
{
    DZ_K_FOREACH(dz_file, f, k, DZ_KERNEL_TABLE_FILE)
    {
        f->refs = f->wait_r = f->wait_w = f->watched = f->items = f->walk = 0;
        k->timerfds += f->kind == DZ_FILE_TIMERFD;
        k->memfds |= f->seals != 0;
        k->leases += f->lease != 0;
    }
    DZ_K_FOREACH(dz_pipe, q, k, DZ_KERNEL_TABLE_PIPE)
    {
        q->readers = q->writers = q->wait_r = q->wait_w = 0;
        size_t cap = 0;
        (void)dz_k_blob(k, q->blob, &cap);
        k->pipe_bytes += cap;
    }
    DZ_K_FOREACH(dz_pty, t, k, DZ_KERNEL_TABLE_PTY)
    {
        t->masters = t->slaves = t->wait_in = t->wait_out = t->wait_master = 0;
        t->lines = 0;
        const uint8_t *marks = dz_k_blob(k, t->marks, NULL);
        for (uint32_t i = 0; i < t->len; i++)
            t->lines += marks[(t->head + i) % DZ_KERNEL_TTY_IN] != 0;
    }
    DZ_K_FOREACH(dz_stream, s, k, DZ_KERNEL_TABLE_STREAM)
    s->files = s->wait_r = s->wait_w = 0;
    DZ_K_FOREACH(dz_job, job, k, DZ_KERNEL_TABLE_JOB)
    job->procs = 0;
}

static int count_fds(struct dz_kernel *k, const struct dz_proc *p, struct dz_err *err)
{
    const struct dz_fd *fds = p->fd_count ? dz_k_blob(k, p->fds, NULL) : NULL;
    for (uint32_t i = 0; i < p->fd_count; i++) {
        struct dz_file *f = dz_k_file(k, fds[i].file);
        if (fds[i].file != 0 && (!f || !is_text(k, fds[i].preopen)))
            return dz_fail(err, DZ_ECORRUPT, "descriptor %u of saved process %d is damaged", i,
                           p->pid);
        if (f)
            f->refs++;
    }
    return 0;
}

/* For an open description: count its object, and take its file. */
static int count_file(struct dz_kernel *k, const struct dz_file *f, struct dz_err *err)
{
    uint32_t access = f->flags & O_ACCMODE;
    uint64_t ino = f->kind == DZ_FILE_DISK ? f->node.ino : 0;
    if (f->refs == 0)
        return dz_fail(err, DZ_ECORRUPT, "no saved descriptor refers to the saved open file %u",
                       f->index);
    if (f->kind == DZ_FILE_PIPE) {
        struct dz_pipe *q = dz_k_pipe(k, f->obj);
        q->readers += access != O_WRONLY;
        q->writers += access != O_RDONLY;
        ino = q->fifo ? q->ino : 0;
    } else if (f->kind == DZ_FILE_PTM) {
        dz_k_pty(k, f->obj)->masters++;
    } else if (f->kind == DZ_FILE_PTS) {
        dz_k_pty(k, f->obj)->slaves++;
    } else if (f->kind == DZ_FILE_STREAM) {
        dz_k_stream(k, f->obj)->files++;
    }
    if (ino != 0 && dz_vfs_ref(k->vfs, ino) != 0)
        return dz_fail(err, DZ_ECORRUPT, "saved open file %u: its inode %llu is gone", f->index,
                       (unsigned long long)ino);
    return 0;
}

static void revive(struct dz_kernel *k, struct dz_proc *p)
{
    p->threads = p->thread = p->wait_child = p->fd_hint = 0;
    p->mem_bytes = 0; /* the runner counts its memory */
    dz_k_hash_add(k, p);
    struct dz_job *job = dz_k_job(k, p->job);
    if (job)
        job->procs++;
    if (p->state != DZ_PROC_ZOMBIE)
        dz_k_proc_alarm(k, p);
}

/* After its process was revived. */
static int revive_thread(struct dz_kernel *k, struct dz_thread *t, struct dz_err *err)
{
    struct dz_proc *p = dz_k_proc_of(k, t);
    const struct dz_proc *same = dz_k_find(k, t->tid);
    if (dz_k_thread_find(k, t->tid) || (same && same != p))
        return dz_fail(err, DZ_ECORRUPT, "two saved threads are number %d", t->tid);
    t->run_next = t->run_prev = t->run_queue = t->waiters = 0;
    dz_k_thread_link(k, p, t);
    dz_k_futex_link(k, t);
    const struct dz_proc *child = dz_k_find(k, t->vfork_child);
    if (t->state == DZ_THREAD_VFORK && child && (child->flags & DZ_PROC_VFORKED))
        return 0;
    t->vfork_child = 0;
    t->state = DZ_THREAD_READY; /* it repeats its call, whatever it waited for */
    if (!(p->flags & DZ_PROC_STOPPED))
        dz_k_enqueue(k, t, DZ_K_Q_NEW);
    dz_k_alarm(k, t);
    return 0;
}

/* Do its parents lead to process 1? Parents must not form a cycle. */
static bool descends(const struct dz_kernel *k, const struct dz_proc *p)
{
    for (int i = 0; p && i < DZ_KERNEL_PROCS_MAX; i++) {
        if (p->flags & DZ_PROC_INIT)
            return true;
        p = dz_k_find(k, p->ppid);
        if (p && p->state == DZ_PROC_ZOMBIE)
            return false;
    }
    return false;
}

static int revive_all(struct dz_kernel *k, struct dz_err *err)
{
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    {
        if (p->flags & DZ_PROC_INIT)
            continue;
        if (dz_k_find(k, p->pid))
            return dz_fail(err, DZ_ECORRUPT, "two saved processes are number %d", p->pid);
        int rc = count_fds(k, p, err);
        if (rc)
            return rc;
        revive(k, p);
    }
    DZ_K_FOREACH(dz_thread, t, k, DZ_KERNEL_TABLE_THREAD)
    {
        int rc = revive_thread(k, t, err);
        if (rc)
            return rc;
    }
    DZ_K_FOREACH(dz_siginfo, i, k, DZ_KERNEL_TABLE_SIGINFO)
    k->next_siginfo = i->order > k->next_siginfo ? i->order : k->next_siginfo;
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    if (!descends(k, p))
        return dz_fail(err, DZ_ECORRUPT, "saved process %d has no parent", p->pid);
    int sockets = dz_k_sock_revive(k, err);
    if (sockets)
        return sockets;
    DZ_K_FOREACH(dz_ipc, o, k, DZ_KERNEL_TABLE_IPC)
    {
        o->wait_r = o->wait_w = 0;
        if (o->ino && dz_vfs_ref(k->vfs, o->ino) != 0)
            return dz_fail(err, DZ_ECORRUPT, "saved shared memory %u: its inode is gone", o->index);
    }
    DZ_K_FOREACH(dz_file, f, k, DZ_KERNEL_TABLE_FILE)
    {
        int rc = count_file(k, f, err);
        if (rc)
            return rc;
        if (f->kind == DZ_FILE_HINT)
            dz_k_hint_awake(f);
    }
    int e = dz_k_inotify_revive(k);
    e = e ? e : dz_k_mqueue_revive(k);
    if (e)
        return dz_fail(err, e == -ENOMEM ? DZ_ENOMEM : DZ_ECORRUPT,
                       "the saved watches or message queues do not belong to open files");
    e = dz_k_epoll_revive(k);
    if (e)
        return dz_fail(err, e == -ENOMEM ? DZ_ENOMEM : DZ_ECORRUPT,
                       "the saved epolls watch invalid or too many descriptors");
    dz_k_sock_revived(k);
    return 0;
}

/* Free rows that were rejected without following their references. References to inodes of the disk
 * are released with the disk, which is not used after this. */
void dz_kernel_unput(struct dz_kernel *k)
{
    for (uint32_t i = 1; i <= DZ_KERNEL_THREADS_MAX; i++) {
        struct dz_task *t = k->task[i];
        if (!t)
            continue;
        dz_k_task_drop(t);
        k->task[i] = NULL;
    }
    for (int t = 0; t < DZ_KERNEL_TABLE_COUNT; t++) {
        struct dz_k_table *tab = &k->tab[t];
        uint32_t first = t == DZ_KERNEL_TABLE_PROC ? 2 : 1; /* process 1 is the kernel's own */
        for (uint32_t i = tab->high; i >= first; i--)
            if (dz_k_row(tab, i))
                dz_k_row_free(tab, i);
    }
    memset(k->pid_hash, 0, sizeof k->pid_hash);
    memset(k->tid_hash, 0, sizeof k->tid_hash);
    memset(k->futex_hash, 0, sizeof k->futex_hash);
    for (uint32_t i = k->waiters.high; i > 0; i--) /* of epoll items, whose queues were dropped */
        if (dz_k_row(&k->waiters, i))
            dz_k_row_free(&k->waiters, i);
    (void)dz_vfs_observe(k->vfs, NULL);
    memset(k->watch_hash, 0, sizeof k->watch_hash);
    k->timerfds = 0;
    k->leases = k->futex_alls = 0;
    k->socket_bytes = 0;
    k->in_flight = 0;
    memset(k->q_head, 0, sizeof k->q_head);
    memset(k->q_tail, 0, sizeof k->q_tail);
    struct dz_proc *init = dz_k_proc(k, 1);
    dz_k_hash_add(k, init);
}

static void take_misc(struct dz_kernel *k, const struct dz_kernel_misc *misc, int64_t slept_ns)
{
    k->next_owner = misc->next_owner;
    k->next_anon_ino = misc->next_anon_ino;
    k->total_cpu_ns = misc->total_cpu_ns;
    k->forks = misc->forks;
    k->next_pid = misc->next_pid < DZ_KERNEL_PID_MAX ? misc->next_pid : 1;
    memcpy(k->load, misc->load, sizeof k->load);
    k->mono_offset += misc->now_ns + (slept_ns > 0 ? slept_ns : 0) - dz_kernel_now(k);
    k->load_at = dz_kernel_now(k);
    k->output_waits = true; /* look once */
    DZ_K_FOREACH(dz_job, job, k, DZ_KERNEL_TABLE_JOB)
    k->events |= job->end != DZ_JOB_RUNNING && !job->taken;
}

int dz_kernel_thaw(struct dz_kernel *k, const struct dz_kernel_misc *misc, int64_t slept_ns,
                   struct dz_err *err)
{
    int rc = check_rows(k, err);
    if (!rc)
        rc = check_blobs(k, err);
    if (!rc) {
        reset_counts(k);
        rc = revive_all(k, err);
    }
    if (rc) {
        dz_kernel_unput(k);
        return rc;
    }
    take_misc(k, misc, slept_ns);
    dz_k_assert_all(k);
    return 0;
}

/* ---- before a save ---------------------------------------------------------------------- */

bool dz_kernel_settled(struct dz_kernel *k)
{
    DZ_K_FOREACH(dz_thread, t, k, DZ_KERNEL_TABLE_THREAD)
    if (t->state == DZ_THREAD_VFORK && lends(k, t->index))
        return false;
    return true;
}

/* Find a process that runs in another's memory and does not lend it further. */
static struct dz_proc *borrower(struct dz_kernel *k)
{
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    if ((p->flags & DZ_PROC_VFORKED) && lends(k, p->threads) &&
        !dz_k_has_state(k, p, DZ_THREAD_VFORK))
        return p;
    return NULL;
}

int dz_kernel_settle(struct dz_kernel *k, struct dz_err *err)
{
    for (struct dz_proc *p; (p = borrower(k));) {
        int e = dz_k_vfork_part(k, p);
        if (e)
            return dz_fail_sys(err, -e, "cannot separate process %d from its parent's memory",
                               p->pid);
    }
    return 0;
}

uint32_t dz_kernel_stream_find(struct dz_kernel *k, uint64_t tag)
{
    DZ_K_FOREACH(dz_stream, s, k, DZ_KERNEL_TABLE_STREAM)
    if (s->tag == tag && !s->closed)
        return s->gen << 16 | s->index;
    return 0;
}

uint32_t dz_kernel_job_find(struct dz_kernel *k, uint64_t tag)
{
    DZ_K_FOREACH(dz_job, job, k, DZ_KERNEL_TABLE_JOB)
    if (job->tag == tag)
        return job->gen << 16 | job->index;
    return 0;
}

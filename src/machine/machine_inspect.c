/* SPDX-License-Identifier: MIT
 *
 * machine_inspect.c - see machine_inspect.h. Rows are read into tables by their index, in the
 * kernel's layout, but no kernel objects are made.
 */
#include "machine/machine_inspect.h"

#include "base/mem.h"
#include "base/num.h"
#include "machine/machine_mem.h"
#include "machine/machine_state.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

struct blob {
    struct dz_state_blob head;
    struct dz_view stored;
};
DZ_VEC(procs, struct dz_proc);
struct look {
    struct dz_machine *m;
    const struct dz_inspect_ops *ops;
    DZ_VEC(, struct blob) blobs;
    DZ_VEC(, struct dz_file) files;
    DZ_VEC(, struct dz_pipe) pipes;
    DZ_VEC(, struct dz_pty) ptys;
    DZ_VEC(, struct dz_socket) sockets;
    DZ_VEC(, struct dz_ipc) ipcs;
    DZ_VEC(, struct dz_message) messages;
    DZ_VEC(, struct dz_inotify) inotifies;
    DZ_VEC(, struct dz_mqueue) mqueues;
    DZ_VEC(, struct dz_thread) threads;
    struct dz_inspect_total total;
};

#define BAD(err, ...) dz_fail(err, DZ_ECORRUPT, "the machine in the file is damaged: " __VA_ARGS__)

/* --- tables ------------------------------------------------------------------------- */

static int read_blobs(struct look *p, struct dz_err *err)
{
    struct dz_view v = p->m->section[DZ_STATE_BLOBS];
    while (dz_view_left(&v)) {
        struct blob b;
        if (!dz_view_take(&v, &b.head, sizeof b.head) || !dz_view_cut(&v, b.head.stored, &b.stored))
            return BAD(err, "a buffer is cut off");
        if (dz_vec_push(&p->blobs, b) < 0)
            return dz_fail(err, p->blobs.err, "inspect the machine: out of memory");
    }
    return 0;
}

static const struct blob *find_blob(const struct look *p, uint32_t index)
{
    for (size_t i = 0; index && i < p->blobs.n; i++)
        if (p->blobs.p[i].head.index == index)
            return &p->blobs.p[i];
    return NULL;
}

/* The text of a blob; each NUL between strings becomes a space. */
static void text_of(const struct look *p, uint32_t index, char ret[static DZ_INSPECT_TEXT])
{
    const struct blob *b = find_blob(p, index);
    size_t n = b && b->head.kind == DZ_BLOB_RAW ? dz_view_left(&b->stored) : 0;
    n = n < DZ_INSPECT_TEXT - 1 ? n : DZ_INSPECT_TEXT - 1;
    if (n)
        memcpy(ret, b->stored.at, n);
    while (n > 0 && ret[n - 1] == '\0')
        n--;
    ret[n] = '\0';
    for (size_t i = 0; i < n; i++)
        ret[i] = ret[i] ? ret[i] : ' ';
}

#define READ_ROWS(look, rows, table, err)                                                         \
    ({                                                                                            \
        struct dz_view view_ = (look)->m->section[dz_state_rows(table)];                          \
        __typeof__(*(rows)->p) row_;                                                              \
        uint64_t key_;                                                                            \
        int rc_;                                                                                  \
        while ((rc_ = dz_machine_state_item(&view_, &dz_machine_row_records[table], &key_, &row_, \
                                            err)) > 0) {                                          \
            row_.used = 1;                                                                        \
            row_.index = (uint32_t)key_;                                                          \
            if (dz_vec_push(rows, row_) < 0) {                                                    \
                rc_ = dz_fail(err, (rows)->err, "inspect the machine: out of memory");            \
                break;                                                                            \
            }                                                                                     \
        }                                                                                         \
        rc_;                                                                                      \
    })

#define FIND_ROW(rows, number)                               \
    ({                                                       \
        const __typeof__(*(rows)->p) *found_ = NULL;         \
        for (size_t i_ = 0; !found_ && i_ < (rows)->n; i_++) \
            if ((rows)->p[i_].index == (number))             \
                found_ = &(rows)->p[i_];                     \
        found_;                                              \
    })

/* --- memory ---------------------------------------------------------------------------- */

/* Find the row of each page as a wake would, without making the memories. */
static int count_piece(void *arg, uint32_t row, const struct dz_mem_piece *piece,
                       struct dz_err *err)
{
    struct dz_machine *m = arg;
    struct dz_space *s = dz_mem_space(&m->mem, piece->run.space);
    m->mem.rows.p[row].pages += piece->run.count;
    if (!s)
        return dz_native_piece(m, row, piece, err);
    if (piece->run.first >= s->homes || piece->run.count > s->homes - piece->run.first)
        return BAD(err, "a page lies outside its memory");
    for (uint32_t i = 0; i < piece->run.count; i++)
        if (!s->home[piece->run.first + i]) {
            s->home[piece->run.first + i] = row + 1;
            m->mem.rows.p[row].live++;
        }
    return 0;
}

static int read_memory(struct look *p, struct dz_err *err)
{
    struct dz_machine *m = p->m;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->mem.spaces.n; i++) {
        struct dz_space *s = &m->mem.spaces.p[i];
        if (s->s.pages > DZ_INSPECT_PAGES_MAX)
            return BAD(err, "a memory has %llu pages", (unsigned long long)s->s.pages);
        s->range.size = (size_t)s->s.pages * DZ_MACHINE_PAGE;
        rc = dz_mem_grow_homes(s, err);
    }
    if (rc == 0)
        rc = dz_mem_read_all(m, count_piece, m, &p->total.memory_bytes, err);
    if (rc == 0)
        rc = dz_native_map(m, DZ_NATIVE_READ, err);
    p->total.memory_rows = m->mem.rows.n;
    for (size_t i = 0; i < m->mem.rows.n; i++) {
        p->total.pages_live += m->mem.rows.p[i].live;
        p->total.pages_garbage += m->mem.rows.p[i].pages - m->mem.rows.p[i].live;
    }
    return rc;
}

static void memory_of(const struct look *p, uint32_t proc, struct dz_inspect_proc *ret)
{
    for (size_t i = 0; i < p->m->mem.spaces.n; i++) {
        const struct dz_space *s = &p->m->mem.spaces.p[i];
        if (s->s.proc != proc)
            continue;
        ret->memory_bytes += s->s.pages * DZ_MACHINE_PAGE;
        for (size_t page = 0; page < s->homes; page++)
            ret->kept_bytes += s->home[page] ? DZ_MACHINE_PAGE : 0;
    }
}

/* --- descriptions ------------------------------------------------------------------------- */

static const char *kind_of(const struct dz_file *f)
{
    static const char *const kinds[] = {"?",       "file",   "pipe",  "terminal",  "terminal",
                                        "device",  "stream", "proc",  "directory", "process",
                                        "epoll",   "event",  "timer", "signal",    "socket",
                                        "inotify", "queue",  "hint"};
    return f->kind < DZ_ARRAY_LEN(kinds) ? kinds[f->kind] : "?";
}

/* The name of a socket or of its peer, where an abstract name begins with @, or both addresses of a
 * socket of the net; and the number of bytes that wait to be read. */
static uint32_t report_socket(const struct look *p, const struct dz_socket *s,
                              char ret[static DZ_INSPECT_TEXT])
{
    const struct dz_socket *peer = FIND_ROW(&p->sockets, s->peer);
    uint64_t n = 0;
    text_of(p, s->name || !peer ? s->name : peer->name, ret);
    if (ret[0] == ' ')
        ret[0] = '@';
    if (s->family != AF_UNIX) {
        char local[DZ_INET_TEXT], remote[DZ_INET_TEXT];
        dz_inet_text(&s->local, local);
        dz_inet_text(&s->remote, remote);
        (void)snprintf(
            ret, DZ_INSPECT_TEXT, "%s %s%s%s%s%s", s->type == SOCK_STREAM ? "tcp" : "udp", local,
            s->remote.port ? " - " : "", s->remote.port ? remote : "",
            s->state == DZ_SOCKET_LISTENING ? " listening" : "", s->channel ? " outside" : "");
    }
    for (size_t i = 0; i < p->messages.n; i++)
        n += p->messages.p[i].socket == s->index ? p->messages.p[i].len : 0;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* The name of a message queue, and the number of bytes that wait in it. */
static uint32_t report_mqueue(const struct look *p, const struct dz_mqueue *q,
                              char ret[static DZ_INSPECT_TEXT])
{
    text_of(p, q->name, ret);
    return q->bytes < UINT32_MAX ? (uint32_t)q->bytes : UINT32_MAX;
}

static int report_fd(const struct look *p, const struct dz_proc *proc, uint32_t fd,
                     const struct dz_file *f, struct dz_err *err)
{
    struct dz_inspect_fd t = {.pid = proc->pid, .fd = fd, .row = *f, .kind = kind_of(f)};
    const struct dz_pipe *pipe = f->kind == DZ_FILE_PIPE ? FIND_ROW(&p->pipes, f->obj) : NULL;
    const struct dz_pty *pty = f->kind == DZ_FILE_PTS ? FIND_ROW(&p->ptys, f->obj) : NULL;
    text_of(p, f->path, t.name);
    const struct dz_socket *socket =
        f->kind == DZ_FILE_SOCKET ? FIND_ROW(&p->sockets, f->obj) : NULL;
    const struct dz_inotify *inotify =
        f->kind == DZ_FILE_INOTIFY ? FIND_ROW(&p->inotifies, f->obj) : NULL;
    const struct dz_mqueue *queue =
        f->kind == DZ_FILE_MQUEUE ? FIND_ROW(&p->mqueues, f->obj) : NULL;
    t.waiting = pipe      ? pipe->len
                : pty     ? pty->len
                : socket  ? report_socket(p, socket, t.name)
                : inotify ? inotify->len
                : queue   ? report_mqueue(p, queue, t.name)
                          : 0;
    return p->ops->fd ? p->ops->fd(p->ops->arg, &t, err) : 0;
}

static int report_fds(const struct look *p, const struct dz_proc *proc, bool count,
                      uint32_t *ret_count, struct dz_err *err)
{
    const struct blob *b = find_blob(p, proc->fds);
    struct dz_view v = b && b->head.kind == DZ_BLOB_FDS ? b->stored : (struct dz_view){0};
    struct dz_fd slot;
    uint64_t key;
    int rc;
    while ((rc = dz_machine_state_item(&v, &dz_machine_fd_record, &key, &slot, err)) > 0) {
        const struct dz_file *f = FIND_ROW(&p->files, slot.file);
        if (!f || key > DZ_KERNEL_FDS_MAX)
            return BAD(err, "a descriptor of process %d refers to no open file", proc->pid);
        *ret_count += count;
        int stop = count ? 0 : report_fd(p, proc, (uint32_t)key, f, err);
        if (stop < 0)
            return stop;
    }
    return rc;
}

/* Add a thread to the description of its process: its state, and when it can run again. */
static int look_at_thread(const struct look *p, const struct dz_thread *t,
                          struct dz_inspect_proc *ret)
{
    int64_t in_ns = INT64_MAX;
    if (t->depth > DZ_KERNEL_HANDLERS_MAX)
        return DZ_ECORRUPT;
    const struct dz_call *call = &t->call[t->depth];
    ret->threads++;
    if (t->state == DZ_THREAD_READY) {
        in_ns = -1;
        ret->waits = false;
    } else if (call->parked && call->deadline != INT64_MAX &&
               __builtin_sub_overflow(call->deadline, p->m->head.now_ns, &in_ns)) {
        in_ns = INT64_MAX;
    }
    ret->wakes_in_ns = in_ns < ret->wakes_in_ns ? in_ns : ret->wakes_in_ns;
    return 0;
}

/* Read the processes, and their threads into p->threads. */
static int read_procs(struct look *p, struct procs *procs, struct dz_err *err)
{
    struct dz_view v = p->m->section[dz_state_rows(DZ_KERNEL_TABLE_PROC)];
    struct dz_machine_proc1 one;
    uint64_t key;
    int rc;
    while ((rc = dz_machine_state_proc(p->m, &v, &key, &one, err)) > 0) {
        one.row.used = 1;
        one.row.index = (uint32_t)key;
        if (dz_vec_push(procs, one.row) < 0 ||
            (one.thread.tid && dz_vec_push(&p->threads, one.thread) < 0))
            return dz_fail(err, DZ_ENOMEM, "inspect the machine: out of memory");
    }
    return rc < 0 ? rc : READ_ROWS(p, &p->threads, DZ_KERNEL_TABLE_THREAD, err);
}

static int report_proc(struct look *p, const struct dz_proc *row, struct dz_err *err)
{
    struct dz_inspect_proc t = {.row = *row, .wakes_in_ns = INT64_MAX};
    text_of(p, row->argv, t.command);
    if (!t.command[0])
        (void)snprintf(t.command, sizeof t.command, "%.*s", (int)sizeof row->comm, row->comm);
    t.waits = row->state == DZ_PROC_LIVE;
    for (size_t i = 0; i < p->threads.n; i++)
        if (p->threads.p[i].proc == row->index && look_at_thread(p, &p->threads.p[i], &t) < 0)
            return BAD(err, "process %d", row->pid);
    memory_of(p, row->index, &t);
    int rc = report_fds(p, row, true, &t.descriptors, err);
    return rc < 0 ? rc : p->ops->proc(p->ops->arg, &t, err);
}

static int report_all(struct look *p, struct dz_err *err)
{
    struct procs procs = DZ_VEC_INIT(DZ_KERNEL_PROCS_MAX);
    uint32_t none = 0;
    int rc = read_procs(p, &procs, err);
    for (size_t i = 0; rc == 0 && i < procs.n; i++)
        rc = report_proc(p, &procs.p[i], err);
    for (size_t i = 0; rc == 0 && p->ops->fd && i < procs.n; i++)
        rc = report_fds(p, &procs.p[i], false, &none, err);
    for (size_t i = 0; rc == 0 && p->ops->thread && i < p->threads.n; i++)
        rc = p->ops->thread(p->ops->arg, &p->threads.p[i], err);
    p->total.procs = (uint32_t)procs.n;
    dz_vec_release(&procs);
    return rc;
}

int dz_machine_inspect(struct dz_machine *m, const struct dz_inspect_ops *ops,
                       struct dz_inspect_total *ret_total, struct dz_err *err)
{
    struct look p = {.m = m, .ops = ops};
    if (m->found != DZ_MACHINE_ASLEEP)
        return dz_fail(err, DZ_ESTATE, "the file holds no suspended machine");
    p.blobs.max = DZ_KERNEL_BLOBS_MAX;
    p.files.max = DZ_KERNEL_FILES_MAX;
    p.pipes.max = DZ_KERNEL_PIPES_MAX;
    p.ptys.max = DZ_KERNEL_PTYS_MAX;
    p.sockets.max = DZ_KERNEL_SOCKETS_MAX;
    p.messages.max = DZ_KERNEL_MESSAGES_MAX;
    p.threads.max = DZ_KERNEL_THREADS_MAX;
    p.inotifies.max = DZ_KERNEL_INOTIFIES_MAX;
    p.mqueues.max = DZ_KERNEL_MQUEUES_MAX;
    int rc = read_blobs(&p, err);
    if (rc == 0)
        rc = READ_ROWS(&p, &p.files, DZ_KERNEL_TABLE_FILE, err);
    if (rc == 0)
        rc = READ_ROWS(&p, &p.pipes, DZ_KERNEL_TABLE_PIPE, err);
    if (rc == 0)
        rc = READ_ROWS(&p, &p.ptys, DZ_KERNEL_TABLE_PTY, err);
    if (rc == 0)
        rc = READ_ROWS(&p, &p.sockets, DZ_KERNEL_TABLE_SOCKET, err);
    if (rc == 0)
        rc = READ_ROWS(&p, &p.messages, DZ_KERNEL_TABLE_MESSAGE, err);
    if (rc == 0)
        rc = READ_ROWS(&p, &p.inotifies, DZ_KERNEL_TABLE_INOTIFY, err);
    if (rc == 0)
        rc = READ_ROWS(&p, &p.mqueues, DZ_KERNEL_TABLE_MQUEUE, err);
    if (rc == 0)
        rc = read_memory(&p, err);
    if (rc == 0)
        rc = report_all(&p, err);
    p.total.slept_real_ns = m->head.slept_real_ns;
    p.total.wake_real_ns = m->head.wake_real_ns;
    p.total.cpu_ns = (int64_t)m->head.total_cpu_ns;
    p.total.policy = m->head.policy;
    p.total.state_bytes = m->state.len;
    p.total.files = (uint32_t)p.files.n;
    p.total.pipes = (uint32_t)p.pipes.n;
    p.total.ptys = (uint32_t)p.ptys.n;
    p.total.modules = (uint32_t)m->modules.n;
    dz_vec_release(&p.blobs);
    dz_vec_release(&p.files);
    dz_vec_release(&p.pipes);
    dz_vec_release(&p.ptys);
    dz_vec_release(&p.sockets);
    dz_vec_release(&p.messages);
    dz_vec_release(&p.inotifies);
    dz_vec_release(&p.mqueues);
    dz_vec_release(&p.threads);
    if (rc == 0)
        *ret_total = p.total;
    return rc;
}

static void give(const struct dz_node *n, void (*fn)(void *arg, uint64_t ino), void *arg)
{
    if (n->fs == DZ_KERNEL_FS_DISK && n->ino != 0)
        fn(arg, n->ino);
}

int dz_machine_inspect_inodes(struct dz_machine *m, void (*fn)(void *arg, uint64_t ino), void *arg,
                              struct dz_err *err)
{
    struct look p = {.m = m, .files = DZ_VEC_INIT(DZ_KERNEL_FILES_MAX)};
    struct procs procs = DZ_VEC_INIT(DZ_KERNEL_PROCS_MAX);
    p.pipes.max = DZ_KERNEL_PIPES_MAX;
    p.threads.max = DZ_KERNEL_THREADS_MAX;
    int rc = read_procs(&p, &procs, err);
    if (rc == 0)
        rc = READ_ROWS(&p, &p.files, DZ_KERNEL_TABLE_FILE, err);
    if (rc == 0)
        rc = READ_ROWS(&p, &p.pipes, DZ_KERNEL_TABLE_PIPE, err);
    p.sockets.max = DZ_KERNEL_SOCKETS_MAX;
    if (rc == 0)
        rc = READ_ROWS(&p, &p.sockets, DZ_KERNEL_TABLE_SOCKET, err);
    for (size_t i = 0; rc == 0 && i < p.sockets.n; i++)
        if (p.sockets.p[i].ino)
            fn(arg, p.sockets.p[i].ino);
    p.ipcs.max = 3 * DZ_KERNEL_IPCS_MAX;
    if (rc == 0)
        rc = READ_ROWS(&p, &p.ipcs, DZ_KERNEL_TABLE_IPC, err);
    for (size_t i = 0; rc == 0 && i < p.ipcs.n; i++)
        if (p.ipcs.p[i].ino)
            fn(arg, p.ipcs.p[i].ino);
    for (size_t i = 0; rc == 0 && i < procs.n; i++) {
        give(&procs.p[i].cwd, fn, arg);
        give(&procs.p[i].root, fn, arg);
        if (procs.p[i].exe)
            fn(arg, procs.p[i].exe);
    }
    for (size_t i = 0; rc == 0 && i < p.files.n; i++)
        give(&p.files.p[i].node, fn, arg);
    for (size_t i = 0; rc == 0 && i < p.pipes.n; i++)
        if (p.pipes.p[i].fifo)
            fn(arg, p.pipes.p[i].ino);
    dz_vec_release(&procs);
    dz_vec_release(&p.threads);
    dz_vec_release(&p.files);
    dz_vec_release(&p.pipes);
    dz_vec_release(&p.sockets);
    dz_vec_release(&p.ipcs);
    return rc;
}

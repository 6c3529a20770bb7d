/* SPDX-License-Identifier: MIT
 *
 * kernel_check.c - the invariants that span tables, checked by counting everything again.
 *
 * The heads of the other files state invariants. Those that one call can check are asserted there,
 * in every build. Those that need a walk over a table are asserted here, between turns and after a
 * thaw, in builds with DZ_CHECK_DEEP (debug, asan, fuzz). Each function names the file whose
 * invariants it checks.
 *
 * A saved machine must not be able to fail these assertions: dz_kernel_thaw() refuses every
 * machine that would.
 */
#include "kernel/kernel_sock.h"

#include <fcntl.h>

#if DZ_CHECK_DEEP

/* References counted by row, from the objects that refer to it. Index 0 collects references to
 * none. */
struct tally {
    uint32_t file[DZ_KERNEL_FILES_MAX + 1];
    uint32_t socket[DZ_KERNEL_SOCKETS_MAX + 1], flight[DZ_KERNEL_SOCKETS_MAX + 1];
    uint64_t wmem[DZ_KERNEL_SOCKETS_MAX + 1];
    uint32_t readers[DZ_KERNEL_PIPES_MAX + 1], writers[DZ_KERNEL_PIPES_MAX + 1];
    uint32_t masters[DZ_KERNEL_PTYS_MAX + 1], slaves[DZ_KERNEL_PTYS_MAX + 1];
    uint32_t stream[DZ_KERNEL_STREAMS_MAX + 1];
    uint32_t job[DZ_KERNEL_JOBS_MAX + 1];
};
static _Thread_local struct tally tally;

/* ---- kernel_table.c ------------------------------------------------------------------ */

static void assert_rows(const struct dz_k_table *t)
{
    uint32_t used = 0;
    for (uint32_t i = 1; i <= t->high; i++) {
        const uint32_t *row = dz_k_row(t, i); /* begins with used, index */
        assert(row || i >= t->hint);
        assert(!row || row[1] == i);
        used += row != NULL;
    }
    assert(used == t->used);
    assert(t->high == 0 || dz_k_row(t, t->high));
}

static size_t blob_size(const struct dz_kernel *k, uint32_t blob)
{
    size_t size = 0;
    (void)dz_k_blob(k, blob, &size);
    return size;
}

static void assert_tables(const struct dz_kernel *k)
{
    uint64_t bytes = 0;
    for (int i = 0; i < DZ_KERNEL_TABLE_COUNT; i++)
        assert_rows(&k->tab[i]);
    assert_rows(&k->blobs);
    assert_rows(&k->waiters);
    for (uint32_t i = 1; i <= k->blobs.high; i++)
        bytes += blob_size(k, i);
    assert(bytes <= k->memory_used);
}

/* ---- kernel_proc.c, kernel_thread.c --------------------------------------------------- */

static void assert_procs(const struct dz_kernel *k)
{
    uint32_t hashed = 0;
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    {
        const struct dz_proc *parent = dz_k_find(k, p->ppid);
        assert(dz_k_find(k, p->pid) == p);
        assert(p->flags & DZ_PROC_INIT ? p->ppid == 0 : parent && parent->state != DZ_PROC_ZOMBIE);
        assert(p->threads == 0 ? p->thread == 0 : dz_k_me(k, p) != NULL);
        assert(p->job == 0 || p->state != DZ_PROC_ZOMBIE);
        tally.job[p->job]++;
    }
    for (uint32_t b = 0; b < DZ_K_HASH; b++)
        for (const struct dz_proc *p = dz_k_proc(k, k->pid_hash[b]); p;
             p = dz_k_proc(k, p->pid_next))
            hashed++;
    assert(hashed == k->tab[DZ_KERNEL_TABLE_PROC].used);
    DZ_K_FOREACH(dz_job, job, k, DZ_KERNEL_TABLE_JOB)
    assert(job->procs == tally.job[job->index]);
}

static void assert_threads(const struct dz_kernel *k)
{
    uint32_t hashed = 0, listed = 0;
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    DZ_K_THREADS(t, k, p)
    {
        assert(t->proc == p->index);
        assert(dz_k_thread_find(k, t->tid) == t);
        assert(t->depth <= DZ_KERNEL_HANDLERS_MAX);
        listed++;
    }
    for (uint32_t b = 0; b < DZ_K_HASH; b++)
        for (const struct dz_thread *t = dz_k_thread(k, k->tid_hash[b]); t;
             t = dz_k_thread(k, t->tid_next))
            hashed++;
    assert(listed == k->tab[DZ_KERNEL_TABLE_THREAD].used && hashed == listed);
}

/* ---- kernel_sched.c, kernel_wait.c ------------------------------------------------------- */

static void assert_run_queues(const struct dz_kernel *k)
{
    uint32_t queued = 0, away = 0;
    assert(k->running == NULL && k->current == NULL);
    for (uint32_t q = DZ_K_Q_NEW; q < DZ_K_QUEUES; q++) {
        uint32_t last = 0;
        for (const struct dz_thread *t = dz_k_thread(k, k->q_head[q]); t;
             t = dz_k_thread(k, t->run_next)) {
            assert(t->run_queue == q && t->run_prev == last);
            last = t->index;
            queued++;
        }
        assert(k->q_tail[q] == last);
    }
    DZ_K_FOREACH(dz_thread, t, k, DZ_KERNEL_TABLE_THREAD)
    {
        const struct dz_task *task = k->task[t->index];
        bool stopped = (dz_k_proc_of(k, t)->flags & DZ_PROC_STOPPED) != 0;
        bool is_away = task && task->away;
        bool runnable = t->state == DZ_THREAD_READY && !stopped && !is_away;
        assert(t->run_queue == 0 || runnable);
        assert(!runnable || t->run_queue != 0 || !task);
        queued -= t->run_queue != 0;
        away += is_away;
    }
    assert(queued == 0 && away == k->away);
}

static void assert_waiters(const struct dz_kernel *k)
{
    for (uint32_t i = 1; i <= k->waiters.high; i++) {
        const struct dz_k_waiter *w = dz_k_row(&k->waiters, i);
        if (!w)
            continue;
        const struct dz_k_waiter *next = dz_k_row(&k->waiters, w->next);
        const struct dz_k_waiter *prev = dz_k_row(&k->waiters, w->prev);
        assert((w->thread != 0) != (w->item != 0));
        assert(next && next->prev == i && prev && prev->next == i && *w->head != 0);
        assert(!w->thread || dz_k_thread(k, w->thread)->state == DZ_THREAD_WAIT);
    }
}

/* ---- kernel_futex.c ---------------------------------------------------------------------- */

static void assert_futexes(const struct dz_kernel *k)
{
    uint32_t waiting = 0, alls = 0;
    for (uint32_t b = 0; b < DZ_K_HASH; b++) {
        uint64_t order = 0;
        for (const struct dz_thread *t = dz_k_thread(k, k->futex_hash[b]); t;
             t = dz_k_thread(k, t->futex_next)) {
            assert(t->futex_bits != 0 && t->futex_order >= order);
            order = t->futex_order;
            waiting++;
        }
    }
    DZ_K_FOREACH(dz_thread, t, k, DZ_KERNEL_TABLE_THREAD)
    {
        bool parked = false;
        for (uint32_t d = 0; d <= t->depth; d++)
            parked |= t->call[d].parked != 0;
        assert((t->futex_bits == 0 && t->futex_all == 0) || parked);
        assert(t->futex_bits == 0 || t->futex_all == 0);
        assert(!t->futex_pi || t->futex_bits != 0);
        waiting -= t->futex_bits != 0;
        alls += t->futex_all != 0;
    }
    assert(waiting == 0 && alls == k->futex_alls);
}

/* ---- kernel_fd.c, and what descriptions refer to --------------------------------------- */

static void count_files(const struct dz_kernel *k)
{
    DZ_K_FOREACH(dz_proc, p, k, DZ_KERNEL_TABLE_PROC)
    for (uint32_t fd = 0; fd < p->fd_count; fd++) {
        const struct dz_fd *slot = dz_k_fd(k, p, (int)fd);
        assert(!slot || fd >= p->fd_hint || slot->file != 0);
        assert(slot || fd >= p->fd_hint);
        tally.file[slot ? slot->file : 0]++;
    }
    DZ_K_FOREACH(dz_message, m, k, DZ_KERNEL_TABLE_MESSAGE)
    {
        const uint32_t *fds = dz_k_blob(k, m->fds, NULL);
        for (uint32_t i = 0; i < m->fd_count; i++)
            tally.file[fds[i]]++;
    }
}

static void assert_files(const struct dz_kernel *k)
{
    uint32_t leases = 0;
    count_files(k);
    DZ_K_FOREACH(dz_file, f, k, DZ_KERNEL_TABLE_FILE)
    {
        uint32_t access = f->flags & O_ACCMODE;
        assert(f->refs > 0 && f->refs == tally.file[f->index]);
        leases += f->lease != 0;
        if (f->kind == DZ_FILE_PIPE) {
            tally.readers[f->obj] += access != O_WRONLY;
            tally.writers[f->obj] += access != O_RDONLY;
        } else if (f->kind == DZ_FILE_PTM) {
            tally.masters[f->obj]++;
        } else if (f->kind == DZ_FILE_PTS) {
            tally.slaves[f->obj]++;
        } else if (f->kind == DZ_FILE_STREAM) {
            tally.stream[f->obj]++;
        } else if (f->kind == DZ_FILE_SOCKET) {
            tally.socket[f->obj]++;
            assert(dz_k_socket(k, f->obj)->file == f->index);
        }
    }
    assert(leases == k->leases);
    DZ_K_FOREACH(dz_stream, s, k, DZ_KERNEL_TABLE_STREAM)
    assert(s->files == tally.stream[s->index]);
}

/* kernel_epoll.c, but for its graph: may_watch() walks that whenever it grows. */
static void assert_epolls(const struct dz_kernel *k)
{
    uint32_t items = 0, watches = 0;
    DZ_K_FOREACH(dz_file, f, k, DZ_KERNEL_TABLE_FILE)
    {
        for (const struct dz_epitem *i = dz_k_epitem(k, f->items); i;
             i = dz_k_epitem(k, i->next_item), items++)
            assert(i->epoll == f->index && f->kind == DZ_FILE_EPOLL);
        for (const struct dz_epitem *i = dz_k_epitem(k, f->watched); i;
             i = dz_k_epitem(k, i->next_watch), watches++)
            assert(i->file == f->index && i->epoll != f->index);
    }
    assert(items == watches && items == k->tab[DZ_KERNEL_TABLE_EPITEM].used);
}

/* kernel_pipe.c */
static void assert_pipes(const struct dz_kernel *k)
{
    uint64_t bytes = 0;
    DZ_K_FOREACH(dz_pipe, q, k, DZ_KERNEL_TABLE_PIPE)
    {
        assert(q->readers == tally.readers[q->index] && q->writers == tally.writers[q->index]);
        bytes += blob_size(k, q->blob);
    }
    assert(bytes == k->pipe_bytes);
}

/* kernel_pty.c, kernel_ldisc.c */
static void assert_ptys(const struct dz_kernel *k)
{
    DZ_K_FOREACH(dz_pty, t, k, DZ_KERNEL_TABLE_PTY)
    {
        const uint8_t *marks = dz_k_blob(k, t->marks, NULL);
        uint32_t lines = 0;
        assert(t->masters == tally.masters[t->index] && t->slaves == tally.slaves[t->index]);
        for (uint32_t i = 0; i < t->len; i++) {
            bool marked = marks[(t->head + i) % DZ_KERNEL_TTY_IN] != 0;
            assert(!marked || i < t->len - t->edit);
            lines += marked;
        }
        assert(lines == t->lines);
    }
}

/* ---- kernel_sock.c, kernel_sock_flight.c -------------------------------------------------- */

static void count_sockets(const struct dz_kernel *k)
{
    uint64_t bytes = 0;
    uint32_t in_flight = 0;
    DZ_K_FOREACH(dz_message, m, k, DZ_KERNEL_TABLE_MESSAGE)
    {
        const uint32_t *fds = dz_k_blob(k, m->fds, NULL);
        tally.socket[m->sender]++;
        tally.wmem[m->sender] += m->len + DZ_SOCKET_COST;
        bytes += blob_size(k, m->blob) + DZ_SOCKET_COST;
        for (uint32_t i = 0; i < m->fd_count; i++, in_flight++) {
            const struct dz_file *f = dz_k_file(k, fds[i]);
            tally.flight[f->kind == DZ_FILE_SOCKET ? f->obj : 0]++;
        }
    }
    assert(bytes == k->socket_bytes && in_flight == k->in_flight);
}

static void assert_sockets(const struct dz_kernel *k)
{
    uint32_t queued = 0, waiting = 0;
    assert(k->doomed == 0 && !k->garbage && !k->settling);
    count_sockets(k);
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    {
        tally.socket[s->peer]++;
        tally.socket[s->index] += s->listener != 0;
        waiting += s->listener != 0;
    }
    DZ_K_FOREACH(dz_socket, s, k, DZ_KERNEL_TABLE_SOCKET)
    {
        uint32_t count = 0, last = 0;
        assert(s->refs == tally.socket[s->index] && s->wmem == tally.wmem[s->index]);
        assert(s->in_flight == tally.flight[s->index]);
        if (s->state == DZ_SOCKET_LISTENING) {
            for (const struct dz_socket *i = dz_k_socket(k, s->head); i;
                 last = i->index, i = dz_k_socket(k, i->next), count++)
                assert(i->listener == s->index);
            waiting -= count;
        } else {
            for (const struct dz_message *m = dz_k_message(k, s->head); m;
                 last = m->index, m = dz_k_message(k, m->next), count++)
                assert(m->socket == s->index);
            queued += count;
        }
        if (dz_k_is_inet(s) && s->peer)
            assert(dz_k_inet_pair_ok(s, dz_k_socket(k, s->peer)));
        assert(dz_k_inet_ok(s));
        assert(s->count == count && s->tail == last);
    }
    assert(waiting == 0 && queued == k->tab[DZ_KERNEL_TABLE_MESSAGE].used);
}

void dz_k_assert_all(const struct dz_kernel *k)
{
    memset(&tally, 0, sizeof tally);
    assert_tables(k);
    assert_procs(k);
    assert_threads(k);
    assert_run_queues(k);
    assert_waiters(k);
    assert_futexes(k);
    assert_files(k);
    assert_epolls(k);
    assert_pipes(k);
    assert_ptys(k);
    assert_sockets(k);
}

#endif

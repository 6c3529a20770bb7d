/* SPDX-License-Identifier: MIT
 *
 * linux_ahead.c - answers that a thread's stub gives by itself (stub/stub_ahead.h), which saves a
 * hand-over for each.
 *
 *     openat ──> fd 3 is a regular file ──> its struct stat and first bytes into the ctx
 *     fstat, read, read, close            answered by the stub
 *     next event ──> offset and close are applied first, then the event is served
 *
 * INVARIANTS
 * 1. Answers are given only to the only thread of a process, and taken back at its next event. So
 *    descriptors, actions and the mask cannot change meanwhile: only the thread itself changes
 * them.
 * 2. A file's content is given while no other descriptor leads to its description, reading does not
 *    set its access time, and no program can change the file by a mapping. Before another thread
 *    runs after a change of the disk, all threads have lost what they were given of files. So no
 *    thread can learn of a change from another one, and then read the old content.
 * 3. What is taken back has the effects of lseek, close and rt_sigaction calls that the guest could
 *    make, and no others. A thread that computes is stopped every DZ_KERNEL_SLICE_NS, so a close
 *    is late by no more than this.
 */
#include "linux/linux_run_int.h"

#include "vfs/vfs.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    HEAD = 4096, /* of a file that is too large to be given as a whole: the head of a library */
    COUNT_MAX = 1 << 20,
};

/* A number that grows when the content or the attributes of a file may have changed. */
static uint64_t changes_of(const struct dz_linux *l)
{
    return dz_vfs_changes(l->o.vfs) + l->files.shares;
}

static struct dz_stub_ahead *place_of(const struct dz_linux_thread *t)
{
    const struct dz_stub_ops *ops = linux_ops(t->l);
    return ops->ahead && t->number ? ops->ahead(t->l->o.stub, t->number) : NULL;
}

static bool may_have(const struct dz_linux_thread *t)
{
    return !linux_traced(t) && t->group->threads == 1;
}

/* ---- files -------------------------------------------------------------------------------- */

static void take_offset(struct dz_linux_thread *t, const struct dz_stub_ahead *place)
{
    const uint64_t pos = *(const volatile uint64_t *)&place->pos;
    if (pos == t->ahead.pos || pos > INT64_MAX)
        return;
    t->ahead.pos = pos;
    (void)dz_sys_lseek(t->task->kernel, t->task->proc, t->ahead.fd, (int64_t)pos, SEEK_SET);
}

static void take_file(struct dz_linux_thread *t, struct dz_stub_ahead *place)
{
    struct linux_ahead *a = &t->ahead;
    struct dz_kernel *k = t->task->kernel;
    struct dz_proc *p = t->task->proc;
    const volatile struct dz_stub_ahead *claim = place;
    const uint64_t size = claim->read_size;
    const uint32_t reads = claim->reads, closed = claim->closed;
    t->l->files_given--;
    a->file_given = false;
    atomic_store(&place->file, DZ_AHEAD_NONE);
    p->io[0] += size < COUNT_MAX * (uint64_t)DZ_AHEAD_BYTES ? size : 0;
    p->io[2] += reads < COUNT_MAX ? reads : 0;
    take_offset(t, place);
    if (closed) {
        (void)dz_sys_close(k, p, a->fd);
        a->has_file = false;
    }
}

/* No running thread answers from a file any more. */
static void withdraw(struct dz_linux *l)
{
    for (uint32_t i = 1, seen = 0; i < DZ_STUB_THREADS_MAX && seen < l->count; i++) {
        struct dz_linux_thread *t = l->threads[i];
        seen += t != NULL;
        if (!t || !t->running || !t->ahead.file_given)
            continue;
        struct dz_stub_ahead *place = place_of(t);
        const bool busy = atomic_exchange(&place->file, DZ_AHEAD_NONE) == DZ_AHEAD_BUSY;
        if (!busy) /* else its offset follows at its event: its call and ours are concurrent */
            take_file(t, place);
    }
}
void dz_linux_ahead_settle(struct dz_linux *l)
{
    if (l->files_given > 0)
        withdraw(l);
}

/* ---- giving ------------------------------------------------------------------------------ */

/* Is the content in its ctx still that of the descriptor? */
static bool is_current(const struct dz_linux_thread *t, struct dz_alone *ret_now)
{
    const struct linux_ahead *a = &t->ahead;
    return a->changes == changes_of(t->l) &&
           dz_kernel_alone(t->task->kernel, t->task->proc, a->fd, ret_now) &&
           ret_now->file == a->file;
}

void dz_linux_ahead_give(struct dz_linux_thread *t)
{
    struct dz_linux *l = t->l;
    struct linux_ahead *a = &t->ahead;
    struct dz_stub_ahead *place = place_of(t);
    struct dz_alone now;
    if (l->files_given > 0 && l->changes != changes_of(l))
        withdraw(l); /* invariant 2 */
    l->changes = changes_of(l);
    if (!place)
        return;
    if (!a->has_put)
        place->put_size = 0;
    a->has_put = false;
    if (!may_have(t)) {
        place->on = 0;
        a->has_file = a->actions = false;
        return;
    }
    place->mask = t->task->thread->sig_mask;
    place->changed = 0;
    place->on = DZ_AHEAD_MASK | (a->actions ? DZ_AHEAD_ACTIONS : 0);
    a->given = true;
    if (!a->has_file)
        return;
    if (!is_current(t, &now)) {
        a->has_file = false;
        return;
    }
    place->fd = a->fd;
    place->pos = a->pos = now.pos;
    place->closed = place->reads = 0;
    place->read_size = 0;
    atomic_store(&place->file, DZ_AHEAD_READY);
    a->file_given = true;
    l->files_given++;
}

/* ---- taking back ---------------------------------------------------------------------------- */

static void take_actions(const struct dz_linux_thread *t, const struct dz_stub_ahead *place)
{
    uint64_t changed = *(const volatile uint64_t *)&place->changed;
    for (; changed; changed &= changed - 1) {
        const int signo = __builtin_ctzll(changed) + 1;
        struct dz_stub_action s;
        memcpy(&s, &place->action[signo - 1], sizeof s);
        const struct dz_sigact set = {.handler = s.handler,
                                      .mask = s.mask,
                                      .restorer = s.restorer,
                                      .flags = (uint32_t)s.flags};
        (void)dz_sys_sigaction(t->task->kernel, t->task->proc, signo, &set, NULL);
    }
}

void dz_linux_ahead_take(struct dz_linux_thread *t)
{
    struct linux_ahead *a = &t->ahead;
    struct dz_stub_ahead *place = a->given ? place_of(t) : NULL;
    a->given = false;
    if (!place)
        return;
    dz_kernel_serve(t->task);
    if (a->actions)
        take_actions(t, place);
    a->actions = false;
    if (a->file_given)
        take_file(t, place);
}

void dz_linux_ahead_drop(struct dz_linux_thread *t)
{
    t->l->files_given -= t->ahead.file_given;
    t->ahead = (struct linux_ahead){.given = false};
}

/* ---- bytes with a call ------------------------------------------------------------------------
 */

void dz_linux_ahead_path(struct dz_linux_thread *t)
{
    const volatile struct dz_stub_ahead *claim = linux_traced(t) ? NULL : place_of(t);
    const uint32_t size = claim ? claim->path_size : 0;
    t->ahead.path_at = claim ? claim->path_at : 0;
    t->ahead.path_size = size <= DZ_AHEAD_PATH ? size : 0;
}

/* The guest may have put any bytes there, as it may at the address. */
size_t dz_linux_ahead_read(const struct dz_linux_thread *t, uint64_t at, void *to, size_t n)
{
    const struct linux_ahead *a = &t->ahead;
    if (n > a->path_size || at < a->path_at || at - a->path_at > a->path_size - n)
        return 0;
    memcpy(to, place_of(t)->path + (at - a->path_at), n);
    return n;
}

int dz_linux_put_last(const linux_call *c, uint64_t at, const void *from, size_t n)
{
    struct dz_linux_thread *t = c->thread;
    struct dz_stub_ahead *place = t ? place_of(t) : NULL;
    if (!place || t->ahead.has_put || n > sizeof place->put || c->mem->room(c->mem->arg, at, n) < n)
        return dz_linux_put(c, at, from, n);
    memcpy(place->put, from, n);
    place->put_at = at;
    place->put_size = (uint32_t)n;
    t->ahead.has_put = true;
    return 0;
}

void dz_linux_ahead_flush(struct dz_linux_thread *t)
{
    struct dz_stub_ahead *place = t->ahead.has_put ? place_of(t) : NULL;
    t->ahead.has_put = false;
    if (!place)
        return;
    const volatile struct dz_stub_ahead *claim = place;
    const uint64_t at = claim->put_at;
    const uint32_t n = claim->put_size;
    place->put_size = 0;
    if (n <= sizeof place->put) /* the pages were there, so that a failure needs no report */
        (void)t->mem.write(t, at, place->put, n);
}

/* ---- after a call -------------------------------------------------------------------------- */

static void fill_actions(struct dz_linux_thread *t, struct dz_stub_ahead *place)
{
    const struct dz_proc *p = t->task->proc;
    for (size_t i = 0; i < DZ_AHEAD_SIGNALS; i++) {
        const struct dz_sigact *s = &p->act[i];
        place->action[i] = (struct dz_stub_action){s->handler, s->flags, s->restorer, s->mask};
    }
    t->ahead.actions = true;
}

/* The file was just opened. */
static void fill_file(struct dz_linux_thread *t, struct dz_stub_ahead *place, int fd)
{
    struct dz_alone is;
    struct linux_stat st;
    if (!dz_kernel_alone(t->task->kernel, t->task->proc, fd, &is))
        return;
    const size_t want = is.stat.size <= DZ_AHEAD_BYTES ? (size_t)is.stat.size : HEAD;
    const ssize_t n = dz_vfs_read_ahead(t->l->o.vfs, is.ino, place->bytes, want);
    if (n < 0 || (size_t)n != want)
        return;
    dz_linux_stat(&is.stat, &st);
    memcpy(place->stat, &st, sizeof st);
    place->have = (uint32_t)want;
    place->size = is.stat.size;
    t->ahead.has_file = true;
    t->ahead.fd = fd;
    t->ahead.file = is.file;
    t->ahead.changes = changes_of(t->l);
}

void dz_linux_ahead_called(struct dz_linux_thread *t, int64_t result)
{
    const struct dz_linux_call *c = &t->call;
    const bool opens = c->number == SYS_openat || c->number == SYS_open;
    if (result < 0 || (!opens && c->number != SYS_rt_sigaction) || !may_have(t))
        return;
    struct dz_stub_ahead *place = place_of(t);
    if (!place)
        return;
    const int flags = (int)c->arg[c->number == SYS_openat ? 2 : 1];
    if (!opens)
        fill_actions(t, place);
    else if (!(flags & (O_ACCMODE | O_CREAT | O_DIRECTORY | O_PATH)))
        fill_file(t, place, (int)result);
}

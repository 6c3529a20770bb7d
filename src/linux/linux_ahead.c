/* SPDX-License-Identifier: MIT
 *
 * linux_ahead.c - answers that a thread's stub gives by itself (stub/stub_ahead.h), which saves a
 * hand-over for each.
 *
 *     openat ──> fd 3 is a regular file ──> its struct stat and first bytes into the ctx
 *     fstat, read, read, close            answered by the stub
 *     next event ──> offset and close are applied first, then the event is served
 *
 * A program that goes through a directory opens or looks at the files that the directory lists, in
 * that order. So with a file its ctx gets those that follow, a *run* of entries: twice as many each
 * time that the program follows the listing. The stub answers for them by their paths:
 *
 *     close, openat(4, "b"), read, close, openat(4, "c"), ...
 *
 * Programs also ask again and again for what they know: python3 looks at the directories of its
 * path before each import, C libraries try each file of a directory that does not exist. So the
 * results of the last such calls stay in the ctx, the *past*, until the disk changes.
 *
 * INVARIANTS
 * 1. Answers are given only to the only thread of a process, and taken back at its next event. So
 *    descriptors, actions and the mask cannot change meanwhile: only the thread itself changes
 *    them.
 * 2. A file's content is given while no other descriptor leads to its description, reading does not
 *    set its access time, and no program can change the file by a mapping. Before another thread
 *    runs after a change of the disk, all threads have lost what they were given of files. So no
 *    thread can learn of a change from another one, and then read the old content.
 * 3. What is taken back has the effects of openat, lseek, close and rt_sigaction calls that the
 *    guest could make, and no others. A thread that computes is stopped every DZ_KERNEL_SLICE_NS,
 *    so a close is late by no more than this.
 * 4. Only a thread that runs, or is being served, has a run. Its entries that may be opened are
 *    referenced, so that the promised file can be opened even after another process removed it.
 *    The entry takes the descriptor and the description of the file before. Should that fail (no
 *    memory on the host, a limit of descriptors that another process has lowered), the process is
 *    killed, because it was told that the file is open.
 */
#include "linux/linux_run_int.h"

#include "vfs/vfs.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    HEAD = 4096, /* of a file that is too large to be given as a whole: the head of a library */
    GAP_MAX = 4, /* entries of a listing that a program skips, because they are directories */
    WINDOW_MIN = 2,
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

static void drop_run(struct dz_linux_thread *t)
{
    struct linux_ahead *a = &t->ahead;
    struct linux_run *run = a->run;
    if (!run)
        return;
    for (uint32_t i = 1; i < run->count; i++)
        if (run->entry[i].ino)
            dz_vfs_unref(t->l->o.vfs, run->entry[i].ino);
    /* Next time, give no more than what this program makes use of. */
    a->window = a->window < 2 * a->used ? a->window : 2 * a->used;
    a->run = NULL;
    a->used = 0;
    dz_free(run);
}

static void take_offset(struct dz_linux_thread *t, uint64_t pos)
{
    if (pos == t->ahead.pos || pos > INT64_MAX)
        return;
    t->ahead.pos = pos;
    (void)dz_sys_lseek(t->task->kernel, t->task->proc, t->ahead.fd, (int64_t)pos, SEEK_SET);
}

/* The stub has opened an entry. */
static void open_entry(struct dz_linux_thread *t, uint32_t i, uint64_t pos)
{
    struct linux_ahead *a = &t->ahead;
    struct dz_kernel *k = t->task->kernel;
    struct dz_proc *p = t->task->proc;
    const struct linux_run *run = a->run;
    struct dz_alone is;
    if (a->next_fd < 0 || !run || i >= run->count || !run->entry[i].ino)
        return; /* the guest wrote this itself */
    const int64_t fd = dz_kernel_open_next(k, p, run->entry[i].ino, a->flags, run->entry[i].path);
    if (fd != a->next_fd) { /* the guest was told that one */
        t->group->broken = true;
        return;
    }
    a->fd = (int32_t)fd;
    a->pos = 0;
    take_offset(t, pos);
    if (!dz_kernel_alone(k, p, a->fd, &is))
        return;
    a->has_file = true;
    a->file = is.file;
    a->current = i;
    a->changes = run->changes;
}

static void take_file(struct dz_linux_thread *t, struct dz_stub_ahead *place)
{
    struct linux_ahead *a = &t->ahead;
    struct dz_kernel *k = t->task->kernel;
    struct dz_proc *p = t->task->proc;
    const volatile struct dz_stub_ahead *claim = place;
    const uint64_t size = claim->read_size, pos = claim->pos;
    const uint32_t reads = claim->reads, is_open = claim->is_open, current = claim->current,
                   used = claim->used;
    const int32_t fd = claim->fd;
    t->l->files_given--;
    a->file_given = false;
    atomic_store(&place->file, DZ_AHEAD_NONE);
    p->io[0] += size < COUNT_MAX * (uint64_t)DZ_AHEAD_BYTES ? size : 0;
    p->io[2] += reads < COUNT_MAX ? reads : 0;
    if (a->run && used > a->used && used < a->run->count) {
        a->used = used;
        a->place = a->run->entry[used].place;
    }
    if (!a->has_file)
        return;
    /* closed and opened again, it may be behind another descriptor */
    const bool same = current == a->current && (!is_open || fd == a->fd);
    if (same)
        take_offset(t, pos);
    if (is_open && same)
        return;
    (void)dz_sys_close(k, p, a->fd);
    a->has_file = false;
    if (is_open)
        open_entry(t, current, pos);
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
        if (busy) /* its offset follows at its event: its call and ours are concurrent */
            continue;
        take_file(t, place);
        drop_run(t);
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
        drop_run(t);
        return;
    }
    place->mask = t->task->thread->sig_mask;
    place->changed = 0;
    place->on = DZ_AHEAD_MASK | (a->actions ? DZ_AHEAD_ACTIONS : 0);
    a->given = true;
    if (a->run && (a->run->changes != l->changes || !dz_kernel_unnoticed(t->task->kernel)))
        drop_run(t);
    a->has_file = a->has_file && is_current(t, &now);
    if (a->past_changes != l->changes)
        a->past = a->past_next = 0;
    if (!a->has_file && !a->run && !a->past)
        return;
    a->next_fd = -1;
    if (a->has_file) {
        const int free = dz_kernel_fd_free(t->task->kernel, t->task->proc);
        a->next_fd = free >= 0 && free < a->fd ? free : a->fd;
        a->pos = now.pos;
    }
    place->fd = a->fd;
    place->pos = a->pos;
    place->is_open = a->has_file;
    place->current = a->current;
    place->count = a->run ? a->run->count : 0;
    place->used = a->used;
    place->past_count = a->past;
    place->dir = a->dir;
    place->flags = (uint32_t)a->flags;
    place->next_fd = a->next_fd;
    place->reads = 0;
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

void dz_linux_ahead_rest(struct dz_linux_thread *t)
{
    const uint32_t window = t->ahead.window; /* this end says nothing about the run's use */
    drop_run(t);
    t->ahead.window = window;
}

void dz_linux_ahead_drop(struct dz_linux_thread *t)
{
    drop_run(t);
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
    const struct dz_mm_vma *v = dz_mm_find(linux_mm(t), at);
    if (v && (v->prot & PROT_EXEC)) /* the stub has copied a patched call site as it is */
        return 0;
    memcpy(to, place_of(t)->path + (at - a->path_at), n);
    return n;
}

int dz_linux_put_last(const linux_call *c, uint64_t at, const void *from, size_t n)
{
    struct dz_linux_thread *t = c->thread;
    struct dz_stub_ahead *place = t ? place_of(t) : NULL;
    if (!place || t->ahead.has_put || n > sizeof place->put ||
        c->mem->room(c->mem->arg, at, n) < n || dz_linux_need(t, at, n) < 0)
        return dz_linux_put(c, at, from, n);
    memcpy(place->put, from, n);
    place->put_at = at;
    place->put_size = (uint32_t)n;
    t->ahead.has_put = true;
    return 0;
}

bool dz_linux_ahead_flush(struct dz_linux_thread *t)
{
    struct dz_stub_ahead *place = t->ahead.has_put ? place_of(t) : NULL;
    t->ahead.has_put = false;
    if (!place)
        return true;
    const volatile struct dz_stub_ahead *claim = place;
    const uint64_t at = claim->put_at;
    const uint32_t n = claim->put_size;
    place->put_size = 0;
    return n > sizeof place->put || t->mem.write(t, at, place->put, n) == n;
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

/* Put a file's content into the ctx, behind *bytes of others, and count it. The count is this
 * side's own: what was written into the ctx is not read back. */
static bool fill_entry(const struct dz_linux_thread *t, const struct dz_kstat *stat, uint64_t ino,
                       uint32_t *bytes, struct dz_stub_entry *ret_entry)
{
    struct dz_stub_ahead *place = place_of(t);
    const uint32_t want = stat->size <= DZ_AHEAD_BYTES ? (uint32_t)stat->size : HEAD;
    assert(*bytes <= DZ_AHEAD_ROOM);
    if (want > DZ_AHEAD_ROOM - *bytes)
        return false;
    const ssize_t n = dz_vfs_read_ahead(t->l->o.vfs, ino, place->bytes + *bytes, want);
    ret_entry->bytes_at = *bytes;
    ret_entry->have = want;
    if (n < 0 || (size_t)n != want)
        return false;
    *bytes += want;
    return true;
}
static void fill_stat(const struct dz_kstat *stat, struct dz_stub_entry *ret_entry)
{
    struct linux_stat st;
    dz_linux_stat(stat, &st);
    memcpy(ret_entry->stat, &st, sizeof st);
    ret_entry->size = stat->size;
}

/* The file was just opened. */
static void fill_file(struct dz_linux_thread *t, struct dz_stub_ahead *place, int fd)
{
    struct dz_alone is;
    drop_run(t);
    t->ahead.has_file = false;
    t->ahead.bytes = 0;
    if (!dz_kernel_alone(t->task->kernel, t->task->proc, fd, &is) ||
        !fill_entry(t, &is.stat, is.ino, &t->ahead.bytes, &place->entry[0]))
        return;
    fill_stat(&is.stat, &place->entry[0]);
    t->ahead.has_file = true;
    t->ahead.fd = fd;
    t->ahead.file = is.file;
    t->ahead.current = 0;
    t->ahead.changes = changes_of(t->l);
}

/* ---- runs ----------------------------------------------------------------------------------- */

struct following {
    struct dz_linux_thread *t;
    struct linux_run *run;
    const char *path; /* of the file that the thread used: */
    size_t prefix;    /* bytes of it before the name */
    int64_t place;    /* in the listing: the last entry's */
    bool opens;
};

static int add_entry(void *arg, const struct dz_vfs_entry *e)
{
    struct following *f = arg;
    struct linux_run *run = f->run;
    struct dz_linux_thread *t = f->t;
    const size_t size = f->prefix + e->len;
    struct dz_next_file file;
    f->place++;
    if (e->type != S_IFREG)
        return 0;
    if (run->count > t->ahead.window || size >= DZ_AHEAD_NAME ||
        !dz_kernel_next_file(t->task->kernel, t->task->proc, e->ino, &file))
        return 1;
    struct dz_stub_entry *to = &place_of(t)->entry[run->count];
    char *path = run->entry[run->count].path;
    bool opens = f->opens && file.readable && fill_entry(t, &file.stat, e->ino, &run->bytes, to);
    opens = opens && dz_vfs_ref(t->l->o.vfs, e->ino) == 0;
    fill_stat(&file.stat, to);
    memcpy(path, f->path, f->prefix);
    memcpy(path + f->prefix, e->name, e->len);
    path[size] = '\0';
    memcpy(to->path, path, size);
    to->path_size = (uint32_t)size;
    to->opens = opens;
    run->entry[run->count].ino = opens ? e->ino : 0;
    run->entry[run->count++].place = f->place;
    return run->count == DZ_AHEAD_ENTRIES;
}

/* Does the thread use the files of a directory in the order of its listing? Then it gets more of
 * them each time. */
static bool follows_listing(struct linux_ahead *a, uint64_t dir, int64_t place)
{
    const int64_t gap = dir == a->listed ? place - a->place : place;
    const bool first = dir != a->listed;
    const bool follows = gap >= 0 && gap <= GAP_MAX;
    if (!follows)
        a->window = 0;
    else if (first || gap > 0)
        a->window = a->window ? 2 * a->window : WINDOW_MIN;
    if (a->window > DZ_AHEAD_ENTRIES - 1)
        a->window = DZ_AHEAD_ENTRIES - 1;
    a->listed = dir;
    a->place = place;
    return follows;
}

/* The thread has just used the file at a path of its call. */
static void fill_run(struct dz_linux_thread *t, bool has_dir, bool opens)
{
    struct linux_ahead *a = &t->ahead;
    struct dz_kernel *k = t->task->kernel;
    char text[PATH_MAX];
    struct dz_at at;
    uint64_t dir = 0;
    if (!dz_kernel_unnoticed(k) ||
        dz_linux_at(&t->call, has_dir ? 0 : -1, has_dir ? 1 : 0, 0, text, &at) < 0)
        return;
    const int64_t place = dz_kernel_listed(k, t->task->proc, at, &dir);
    if (place < 0 || !follows_listing(a, dir, place))
        return;
    const char *slash = strrchr(text, '/'), *name = slash ? slash + 1 : text;
    struct following f = {.t = t, .path = text, .place = place, .opens = opens};
    f.prefix = (size_t)(name - text);
    f.run = a->window && f.prefix < DZ_AHEAD_NAME ? dz_zalloc(sizeof *f.run) : NULL;
    if (!f.run)
        return;
    drop_run(t);
    f.run->count = 1;
    f.run->bytes = opens ? a->bytes : 0;
    const struct dz_vfs_name from = {dir, name, strlen(name)};
    (void)dz_vfs_listed(t->l->o.vfs, &from, add_entry, &f);
    f.run->changes = changes_of(t->l);
    a->run = f.run;
    a->dir = at.dirfd;
}

/* May a run stay over this call? It does not change what the thread's paths mean, or what the
 * thread may open. */
static bool keeps_run(const struct linux_ahead *a, const struct dz_linux_call *c)
{
    switch (c->number) {
    case SYS_close:
        return (int32_t)c->arg[0] != a->dir;
    case SYS_read:
    case SYS_pread64:
    case SYS_readv:
    case SYS_write:
    case SYS_writev:
    case SYS_lseek:
    case SYS_fstat:
    case SYS_stat:
    case SYS_lstat:
    case SYS_newfstatat:
    case SYS_statx:
    case SYS_open:
    case SYS_openat:
    case SYS_getdents64:
    case SYS_brk:
    case SYS_mmap:
    case SYS_munmap:
    case SYS_mprotect:
    case SYS_mremap:
    case SYS_madvise:
        return true;
    default:
        return false;
    }
}

/* ---- the past -------------------------------------------------------------------------------- */

static void remember(struct dz_linux_thread *t, enum dz_ahead_past kind, const char *path,
                     const struct dz_kstat *stat)
{
    struct linux_ahead *a = &t->ahead;
    struct dz_stub_ahead *place = place_of(t);
    const size_t size = strlen(path);
    struct linux_stat st = {.dev = 0};
    if (!place || size >= DZ_AHEAD_NAME)
        return;
    if (a->past_changes != changes_of(t->l))
        a->past = a->past_next = 0;
    a->past_changes = changes_of(t->l);
    struct dz_stub_past *to = &place->past[a->past_next];
    a->past_next = (a->past_next + 1) % DZ_AHEAD_PAST;
    a->past += a->past < DZ_AHEAD_PAST;
    if (stat)
        dz_linux_stat(stat, &st);
    memcpy(to->stat, &st, sizeof st);
    memcpy(to->path, path, size + 1);
    to->path_size = (uint32_t)size;
    to->kind = kind;
}

/* The call has a path, and had this result. */
static void remember_path(struct dz_linux_thread *t, bool has_dir, bool is_link, int64_t result)
{
    struct dz_kernel *k = t->task->kernel;
    struct dz_proc *p = t->task->proc;
    char text[PATH_MAX];
    struct dz_kstat stat;
    struct dz_at at;
    if (dz_linux_at(&t->call, has_dir ? 0 : -1, has_dir ? 1 : 0, 0, text, &at) < 0 || !at.path ||
        text[0] != '/' || strlen(text) >= DZ_AHEAD_PATH)
        return;
    at.flags = is_link ? DZ_AT_NOFOLLOW : 0;
    if (result == 0 && dz_kernel_steady(k, p, at, &stat) == 0)
        remember(t, is_link ? DZ_AHEAD_LINK : DZ_AHEAD_FOLLOW, text, &stat);
    if (result != -ENOENT)
        return;
    strrchr(text, '/')[1] = '\0';
    at.flags = 0;
    /* access() has the rights of the real user */
    if (p->uid == p->euid && p->gid == p->egid && dz_kernel_steady(k, p, at, &stat) == -ENOENT)
        remember(t, DZ_AHEAD_MISSING, text, NULL);
}
static void remember_cwd(struct dz_linux_thread *t)
{
    struct dz_kernel *k = t->task->kernel;
    struct dz_proc *p = t->task->proc;
    char text[DZ_AHEAD_NAME];
    struct dz_kstat stat;
    if (dz_sys_getcwd(k, p, text, sizeof text) > 0 &&
        dz_kernel_steady(k, p, (struct dz_at){.dirfd = AT_FDCWD, .path = text}, &stat) == 0)
        remember(t, DZ_AHEAD_CWD, text, NULL);
}

/* May the past stay over this call? It changes neither the rights of the thread nor its root or
 * working directory. */
static bool keeps_past(const struct linux_ahead *a, const struct dz_linux_call *c)
{
    switch (c->number) {
    case SYS_access:
    case SYS_arch_prctl:
    case SYS_close:
    case SYS_exit_group:
    case SYS_fcntl:
    case SYS_futex:
    case SYS_getcwd:
    case SYS_getpid:
    case SYS_getrandom:
    case SYS_gettid:
    case SYS_ioctl:
    case SYS_poll:
    case SYS_prlimit64:
    case SYS_readlink:
    case SYS_rt_sigaction:
    case SYS_rt_sigprocmask:
    case SYS_set_robust_list:
    case SYS_set_tid_address:
    case SYS_sysinfo:
        return true;
    default:
        return keeps_run(a, c);
    }
}

static void past_called(struct dz_linux_thread *t, int64_t result)
{
    const struct dz_linux_call *c = &t->call;
    switch (c->number) {
    case SYS_stat:
    case SYS_lstat:
        remember_path(t, false, c->number == SYS_lstat, result);
        break;
    case SYS_newfstatat:
        if (!(c->arg[3] & AT_EMPTY_PATH))
            remember_path(t, true, c->arg[3] & AT_SYMLINK_NOFOLLOW, result);
        break;
    case SYS_open:
    case SYS_access:
        remember_path(t, false, false, result == -ENOENT ? result : -EAGAIN);
        break;
    case SYS_openat:
        remember_path(t, true, false, result == -ENOENT ? result : -EAGAIN);
        break;
    case SYS_getcwd:
        remember_cwd(t);
        break;
    default:
        break;
    }
}

static void opened(struct dz_linux_thread *t, struct dz_stub_ahead *place, int fd)
{
    const struct dz_linux_call *c = &t->call;
    const bool at = c->number == SYS_openat;
    const int flags = (int)c->arg[at ? 2 : 1];
    if (flags & (O_ACCMODE | O_CREAT | O_DIRECTORY | O_PATH))
        return;
    fill_file(t, place, fd);
    if (!t->ahead.has_file || (flags & ~(O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW)))
        return;
    t->ahead.flags = flags;
    fill_run(t, at, true);
}

void dz_linux_ahead_stopped(struct dz_linux_thread *t)
{
    if (!keeps_past(&t->ahead, &t->call))
        t->ahead.past = t->ahead.past_next = 0;
}

void dz_linux_ahead_called(struct dz_linux_thread *t, int64_t result)
{
    const struct dz_linux_call *c = &t->call;
    struct linux_ahead *a = &t->ahead;
    const bool opens = c->number == SYS_openat || c->number == SYS_open,
               stats =
                   c->number == SYS_newfstatat || c->number == SYS_stat || c->number == SYS_lstat;
    if (a->run && !keeps_run(a, c))
        drop_run(t);
    if (!keeps_past(a, c))
        a->past = a->past_next = 0;
    if (may_have(t))
        past_called(t, result);
    if (result < 0 || (!opens && !stats && c->number != SYS_rt_sigaction) || !may_have(t))
        return;
    struct dz_stub_ahead *place = place_of(t);
    if (!place)
        return;
    if (opens)
        opened(t, place, (int)result);
    else if (!stats)
        fill_actions(t, place);
    else if (!a->has_file && !(c->number == SYS_newfstatat && (c->arg[3] & 0x1000)))
        fill_run(t, c->number == SYS_newfstatat, false);
}

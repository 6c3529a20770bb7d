/* SPDX-License-Identifier: MIT
 *
 * linux_sleep.c - holds native programs; saves and restores their address spaces, processes,
 * threads, and registers (docs/format/linux-state.md).
 *
 * A held thread is in one of three states: parked in a call that the kernel's row knows; parked in
 * a call that was not issued yet; or between two instructions. In each its registers in the stub
 * are complete, wherever it was: in a handler, in a page fault, between vfork and exec, in the
 * image of the vDSO. The host's kernel holds nothing of it.
 *
 * Restoring trusts nothing. Chunks have bounded sizes. A thread belongs to the row that it names,
 * all threads of a process to one group, each backing of a VMA must exist; then the host checks
 * what it maps, and loads registers by rt_sigreturn, which checks them as well.
 */
#include "linux/linux_sleep.h"

#include "linux/linux_cpu.h"
#include "linux/linux_run_int.h"
#include "linux/linux_sleep_int.h"

#include <sys/syscall.h>

enum {
    LAY_AT_ONCE = 4096, /* VMAs of one list */
};

static bool is_native(const struct dz_task *t)
{
    return t && t->runner == &dz_linux_runner;
}

/* ---- holding ---------------------------------------------------------------------------- */

int dz_linux_hold(struct dz_linux *l, struct dz_err *err)
{
    assert(!l->held);
    l->held = true;
    dz_linux_serve_events(l);
    for (uint32_t i = 1, seen = 0; i < DZ_STUB_THREADS_MAX && seen < l->running; i++)
        if (l->threads[i] && l->threads[i]->running) {
            seen++;
            linux_ops(l)->interrupt(l->o.stub, i);
        }
    while (l->running > 0) { /* the stub kills what does not stop in time */
        const int n = dz_linux_hear(l, -1);
        if (n < 0) {
            l->event_count = 0;
            l->held = false;
            return dz_fail_sys(err, -n, "stop native programs");
        }
        dz_linux_serve_events(l);
    }
    /* results that a stub was to copy at its next run: a new stub does not have them */
    for (uint32_t i = 1, seen = 0; i < DZ_STUB_THREADS_MAX && seen < l->count; i++)
        if (l->threads[i]) {
            seen++;
            dz_linux_ahead_flush(l->threads[i]);
        }
    return 0;
}

void dz_linux_release(struct dz_linux *l)
{
    for (struct dz_linux_space *s = l->spaces; s; s = s->next)
        if (s->open.n)
            dz_linux_shut_pages(l, s);
    l->held = false;
}

/* ---- saving ----------------------------------------------------------------------------- */

static size_t chunk_begin(struct dz_buf *to, enum chunk_tag tag)
{
    const struct chunk_head h = {.tag = tag};
    const size_t at = to->len;
    dz_buf_add(to, &h, sizeof h);
    return at;
}
static void chunk_end(struct dz_buf *to, size_t at)
{
    const uint64_t size = to->len - at - sizeof(struct chunk_head);
    if (!to->err)
        memcpy(to->p + at + offsetof(struct chunk_head, size), &size, sizeof size);
}

static void save_spaces(const struct dz_linux *l, struct dz_buf *to)
{
    for (const struct dz_linux_space *s = l->spaces; s; s = s->next) {
        const size_t at = to->len;
        struct space_head h = {.id = s->id, .aux_count = s->aux_count};
        dz_buf_add(to, &h, sizeof h);
        dz_buf_add(to, s->aux, s->aux_count * sizeof s->aux[0]);
        const size_t row = to->len;
        dz_mm_encode(&s->mm, to);
        h.mm_size = to->len - row;
        if (!to->err)
            memcpy(to->p + at, &h, sizeof h);
    }
}

static bool is_dead(const struct dz_linux_group *g)
{
    return g->ended || g->broken;
}

/* Also numbers the groups. */
static void save_groups(struct dz_kernel *k, struct dz_buf *to)
{
    uint32_t count = 0;
    for (uint32_t i = 1; i <= dz_kernel_rows(k, DZ_KERNEL_TABLE_THREAD); i++) {
        const struct dz_task *task = dz_kernel_thread_task(k, i);
        if (is_native(task))
            linux_thread_of(task)->group->saved = UINT32_MAX;
    }
    for (uint32_t i = 1; i <= dz_kernel_rows(k, DZ_KERNEL_TABLE_THREAD); i++) {
        const struct dz_task *task = dz_kernel_thread_task(k, i);
        struct dz_linux_group *g = is_native(task) ? linux_thread_of(task)->group : NULL;
        if (!g || g->saved != UINT32_MAX)
            continue;
        g->saved = count++;
        const struct group_row row = {.space = g->space->id,
                                      .proc = task->proc->index,
                                      .flags = (g->borrows ? GROUP_BORROWS : 0u) |
                                               (is_dead(g) ? GROUP_DEAD : 0u)};
        dz_buf_add(to, &row, sizeof row);
    }
}

/* A processor with four levels of page tables has no other bases. */
static uint64_t canonical(uint64_t at)
{
    return (uint64_t)((int64_t)(at << 16) >> 16);
}

static int save_thread(const struct dz_linux *l, const struct dz_task *task, struct dz_buf *to,
                       uint64_t *ret_used, struct dz_err *err)
{
    const struct dz_linux_thread *t = linux_thread_of(task);
    uint8_t xstate[DZ_STUB_XSTATE_MAX];
    struct thread_row row = {.thread = task->thread->index,
                             .group = t->group->saved,
                             .flags = (t->parked ? THREAD_PARKED : 0u) |
                                      (t->is_clone ? THREAD_IS_CLONE : 0u),
                             .trap = t->trap.number,
                             .error = t->trap.error,
                             .address = t->trap.address};
    assert(!t->running && !t->returned);
    if (t->parked) {
        row.number = t->call.number;
        memcpy(row.arg, t->call.arg, sizeof row.arg);
    }
    const size_t at = to->len;
    if (t->number == 0 || is_dead(t->group)) {
        row.flags |= THREAD_DEAD;
        dz_buf_add(to, &row, sizeof row);
        return 0;
    }
    row.regs = *linux_ops(l)->regs(l->o.stub, t->number);
    if (canonical(row.regs.fs_base) != row.regs.fs_base)
        row.regs.fs_base = 0;
    if (canonical(row.regs.gs_base) != row.regs.gs_base)
        row.regs.gs_base = 0;
    dz_buf_add(to, &row, sizeof row);
    const int64_t size = linux_ops(l)->xstate_get(l->o.stub, t->number, xstate, sizeof xstate);
    if (size < 0)
        return dz_fail_sys(err, (int)-size, "read the registers of thread %d", task->thread->tid);
    *ret_used |= dz_linux_xstate_save(xstate, (size_t)size, to);
    row.xstate = (uint32_t)(to->len - at - sizeof row);
    if (!to->err)
        memcpy(to->p + at, &row, sizeof row);
    return 0;
}

int dz_linux_save(struct dz_linux *l, struct dz_kernel *k, struct dz_buf *to, struct dz_err *err)
{
    assert(l->held && l->running == 0);
    struct state_head h = {.magic = STATE_MAGIC, .version = DZ_LINUX_STATE_VERSION};
    h.chunks = CHUNKS - 1;
    dz_buf_add(to, &h, sizeof h);
    size_t at = chunk_begin(to, CHUNK_CPU);
    const size_t cpu = to->len;
    uint64_t used = 0; /* components of extended registers */
    dz_linux_cpu_save(l, to);
    chunk_end(to, at);
    at = chunk_begin(to, CHUNK_COUNTERS);
    const struct counters c = {
        .space = l->space, .object = l->files.object, .generation = l->files.generation};
    dz_buf_add(to, &c, sizeof c);
    chunk_end(to, at);
    at = chunk_begin(to, CHUNK_VDSO);
    size_t size;
    const void *image = dz_linux_vdso_image(&l->vdso, &size);
    dz_buf_add(to, image, size);
    chunk_end(to, at);
    DZ_AUTO(dz_buf_release) struct dz_buf files = DZ_BUF_INIT(DZ_LINUX_STATE_MAX);
    at = chunk_begin(to, CHUNK_PACKED);
    int rc = dz_linux_files_save(l, &files, to, err);
    chunk_end(to, at);
    at = chunk_begin(to, CHUNK_FILES);
    dz_buf_add(to, files.p, files.len);
    chunk_end(to, at);
    at = chunk_begin(to, CHUNK_SPACES);
    save_spaces(l, to);
    chunk_end(to, at);
    at = chunk_begin(to, CHUNK_GROUPS);
    save_groups(k, to);
    chunk_end(to, at);
    at = chunk_begin(to, CHUNK_THREADS);
    for (uint32_t i = 1; rc == 0 && i <= dz_kernel_rows(k, DZ_KERNEL_TABLE_THREAD); i++) {
        const struct dz_task *task = dz_kernel_thread_task(k, i);
        rc = is_native(task) ? save_thread(l, task, to, &used, err) : 0;
    }
    chunk_end(to, at);
    if (!to->err)
        dz_linux_cpu_used(to->p + cpu, used);
    if (rc == 0 && (to->err || files.err))
        rc = dz_fail(err, to->err ? to->err : files.err,
                     "the state of native programs is too large");
    return rc;
}

/* ---- restoring: parts ---------------------------------------------------------------------- */

int dz_linux_state_split(struct linux_view all, struct linux_view chunks[static CHUNKS],
                         struct dz_err *err)
{
    struct state_head h;
    struct chunk_head c;
    if (!linux_take(&all, &h, sizeof h) || memcmp(h.magic, STATE_MAGIC, sizeof h.magic) != 0)
        return LINUX_BAD(err, "the head is not valid");
    if (h.version != DZ_LINUX_STATE_VERSION)
        return dz_fail(err, DZ_EUNSUPPORTED,
                       "native programs were saved in version %u, this doze "
                       "reads %d",
                       h.version, DZ_LINUX_STATE_VERSION);
    for (uint32_t i = 1; i < CHUNKS; i++)
        if (!linux_take(&all, &c, sizeof c) || c.tag != i || c.pad ||
            !linux_cut(&all, c.size, &chunks[i]))
            return LINUX_BAD(err, "part %u is not valid", i);
    return h.chunks != CHUNKS - 1 || all.left ? LINUX_BAD(err, "there are unknown parts") : 0;
}

/* ---- restoring: address spaces ----------------------------------------------------------------
 */

struct wake {
    struct dz_linux *l;
    struct dz_kernel *k;
    struct linux_moved_list moves;
    DZ_VEC(, struct dz_linux_space *) spaces; /* each with a reference of its own */
    struct linux_wake next;
};

static int moved(void *arg, uint64_t size, struct dz_mm_back *back)
{
    const struct linux_moved_list *m = &((struct wake *)arg)->moves;
    if (back->kind != DZ_MM_PACK)
        return 0;
    if (m->n == 0)
        return -EBADF;
    if (back->offset >= LINUX_PACK_BEYOND) {
        const uint64_t offset = back->offset;
        *back = m->p[0].to;
        back->offset = offset;
        return 0;
    }
    /* A VMA may have several files of the pack, if they stay neighbours. */
    struct dz_mm_back first = {.kind = DZ_MM_ANON};
    uint64_t at = back->offset;
    for (size_t i = 0; i < m->n && at < back->offset + size; i++) {
        const struct linux_moved *f = &m->p[i];
        if (at < f->start || at >= f->end)
            continue;
        struct dz_mm_back here = f->to;
        here.offset += at - f->start;
        if (at == back->offset)
            first = here;
        else if (here.kind != DZ_MM_PACK || here.offset != first.offset + (at - back->offset))
            return -EXDEV;
        at = f->end;
        i = SIZE_MAX; /* search again from the first */
    }
    if (at < back->offset + size)
        return -EBADF;
    *back = first;
    return 0;
}

static int restore_space(struct wake *w, const struct space_head *h, struct linux_view aux,
                         struct linux_view row, struct dz_err *err)
{
    struct dz_linux *l = w->l;
    for (size_t i = 0; i < w->spaces.n; i++)
        if (w->spaces.p[i]->id == h->id)
            return LINUX_BAD(err, "two address spaces are number %llu", (unsigned long long)h->id);
    struct dz_linux_space *s = dz_linux_space_new(l);
    if (!s || dz_vec_push(&w->spaces, s) != 0) {
        if (s)
            dz_linux_space_unref(l, s);
        return dz_fail(err, DZ_ENOMEM, "no memory for native programs");
    }
    s->id = h->id;
    s->aux_count = h->aux_count;
    memcpy(s->aux, aux.p, aux.left);
    int rc = dz_mm_decode(row.p, row.left, &dz_linux_reserved, 1, &s->mm, err);
    if (rc < 0) {
        memset(&s->mm, 0, sizeof s->mm);
        return rc;
    }
    rc = dz_mm_rebase(&s->mm, moved, w);
    if (rc == -EXDEV)
        return dz_fail(err, DZ_EUNSUPPORTED,
                       "a program has mapped two files of its image as one, which this host's copy "
                       "of the image has at other places");
    for (size_t i = 0; i < s->mm.vmas.n && rc == 0; i++)
        rc = dz_linux_back_restore(l, &s->mm.vmas.p[i]);
    if (rc == -EBADF)
        return LINUX_BAD(err, "a mapping has no file");
    return rc < 0 ? dz_fail_sys(err, -rc, "fill the mapped files of native programs") : 0;
}

static int restore_spaces(struct wake *w, struct linux_view v, struct dz_err *err)
{
    struct space_head h;
    struct linux_view aux, row;
    const uint64_t last = w->l->space;
    int rc = 0;
    while (v.left && rc == 0) {
        if (!linux_take(&v, &h, sizeof h) || h.pad || h.id == 0 || h.id > last ||
            h.aux_count > DZ_LINUX_AUX_MAX || !linux_cut(&v, h.aux_count * UINT64_C(16), &aux) ||
            !linux_cut(&v, h.mm_size, &row))
            return LINUX_BAD(err, "an address space is not valid");
        rc = restore_space(w, &h, aux, row, err);
    }
    w->l->space = last; /* the new structs were numbered, too */
    return rc;
}

static struct dz_linux_space *space_find(const struct wake *w, uint64_t id)
{
    for (size_t i = 0; i < w->spaces.n; i++)
        if (w->spaces.p[i]->id == id)
            return w->spaces.p[i];
    return NULL;
}

/* A living thread of the address space, if possible one that is stopped; 0: none. */
uint32_t dz_linux_space_thread(const struct dz_linux *l, const struct dz_linux_space *s)
{
    uint32_t found = 0;
    for (uint32_t i = 1, seen = 0; i < DZ_STUB_THREADS_MAX && seen < l->count; i++) {
        const struct dz_linux_thread *t = l->threads[i];
        seen += t != NULL;
        if (!t || t->group->space != s || is_dead(t->group))
            continue;
        if (!t->running)
            return i;
        found = i;
    }
    return found;
}

static int lay(struct dz_linux *l, const struct dz_linux_space *s, struct dz_err *err)
{
    const uint32_t number = dz_linux_space_thread(l, s);
    int rc = 0;
    for (size_t i = 0; number && i < s->mm.vmas.n && rc == 0; i++) {
        rc = dz_mm_lay(&s->mm, i, &l->calls);
        if (rc == 0 && (l->calls.n >= LAY_AT_ONCE || i + 1 == s->mm.vmas.n)) {
            rc = linux_ops(l)->memory(l->o.stub, number, l->calls.p, l->calls.n);
            l->calls.n = 0;
        }
    }
    l->calls.n = 0;
    l->calls.err = 0;
    return rc < 0 ? dz_fail_sys(err, -rc, "map the memory of native programs") : 0;
}

/* ---- restoring: threads --------------------------------------------------------------------- */

/* Calls that a thread never waits in with a row that says so, and that a handler cannot end. */
static bool is_never_parked(uint64_t number)
{
    return number == SYS_clone || number == SYS_clone3 || number == SYS_fork ||
           number == SYS_vfork || number == SYS_execve || number == SYS_execveat ||
           number == SYS_exit || number == SYS_exit_group || number == SYS_rt_sigreturn;
}

static int check_thread(const struct wake *w, const struct thread_row *row,
                        const struct group_row *g, struct dz_err *err)
{
    const struct dz_thread *t = dz_kernel_row(w->k, DZ_KERNEL_TABLE_THREAD, row->thread);
    const bool parked = row->flags & THREAD_PARKED, clone = row->flags & THREAD_IS_CLONE;
    if (!t || t->proc != g->proc || dz_kernel_thread_task(w->k, row->thread))
        return LINUX_BAD(err, "thread row %u does not exist, or exists twice", row->thread);
    if ((row->flags & ~(uint32_t)THREAD_FLAGS) || (clone && !parked) ||
        ((g->flags & GROUP_DEAD) && !(row->flags & THREAD_DEAD)) ||
        ((row->flags & THREAD_DEAD) && row->xstate))
        return LINUX_BAD(err, "the state of thread %d is not valid", t->tid);
    if (t->depth || t->frame || (t->call[0].parked && !parked) ||
        (t->call[0].parked && !clone && is_never_parked(row->number)) ||
        (t->state == DZ_THREAD_VFORK && !clone))
        return LINUX_BAD(err, "thread %d waits in a call that it does not make", t->tid);
    if (canonical(row->regs.fs_base) != row->regs.fs_base ||
        canonical(row->regs.gs_base) != row->regs.gs_base)
        return LINUX_BAD(err, "thread %d has an impossible segment base", t->tid);
    return 0;
}

/* The host's thread: the process's first, one that shares its memory, or one more of the process.
 */
static int make_thread(struct wake *w, const struct dz_linux_group *g, uint32_t *ret_number)
{
    struct dz_linux *l = w->l;
    const uint32_t like = dz_linux_space_thread(l, g->space);
    uint32_t mate = 0;
    for (uint32_t i = 1, seen = 0; i < DZ_STUB_THREADS_MAX && seen < l->count && !mate; i++) {
        seen += l->threads[i] != NULL;
        mate = l->threads[i] && l->threads[i]->group == g ? i : 0;
    }
    if (mate)
        return linux_ops(l)->clone(l->o.stub, mate, DZ_STUB_THREAD, ret_number);
    if (like)
        return linux_ops(l)->clone(l->o.stub, like, DZ_STUB_SHARE, ret_number);
    return linux_ops(l)->process(l->o.stub, ret_number);
}

static int restore_registers(struct dz_linux_thread *t, const struct thread_row *row,
                             struct linux_view xstate, struct dz_err *err)
{
    struct dz_linux *l = t->l;
    uint8_t x[DZ_STUB_XSTATE_MAX];
    struct dz_stub_regs *r = linux_ops(l)->regs(l->o.stub, t->number);
    const uint64_t flags = r->rflags;
    *r = row->regs;
    r->rflags = (flags & ~(uint64_t)DZ_LINUX_FLAGS) | (row->regs.rflags & DZ_LINUX_FLAGS);
    const int64_t size = linux_ops(l)->xstate_get(l->o.stub, t->number, x, sizeof x);
    int rc = size < 0 ? dz_fail_sys(err, (int)-size, "read the registers of a new thread")
                      : dz_linux_xstate_restore(xstate.p, xstate.left, x, (size_t)size, err);
    if (rc == 0 && linux_ops(l)->xstate_set(l->o.stub, t->number, x, (size_t)size) < 0)
        rc = dz_fail(err, DZ_EIO, "set the registers of a new thread");
    return rc;
}

/* group: of the threads before; NULL: this is its first. */
static int restore_thread(struct wake *w, const struct thread_row *row, const struct group_row *g,
                          struct linux_view xstate, struct dz_linux_group **group,
                          struct dz_err *err)
{
    struct dz_linux *l = w->l;
    struct dz_task *task = NULL;
    int rc = check_thread(w, row, g, err);
    if (rc < 0)
        return rc;
    const bool first = *group == NULL;
    if (first) {
        struct dz_linux_space *s = space_find(w, g->space);
        *group = dz_linux_group_new(s);
        if (!*group)
            return dz_fail(err, DZ_ENOMEM, "no memory for native programs");
        s->groups++;
        (*group)->borrows = g->flags & GROUP_BORROWS;
        (*group)->ended = g->flags & GROUP_DEAD;
    }
    w->next = (struct linux_wake){.group = *group};
    if (!(row->flags & THREAD_DEAD))
        rc = make_thread(w, *group, &w->next.number);
    if (rc < 0) {
        rc = dz_fail_sys(err, -rc, "make a native thread");
    } else {
        const struct dz_program program = {.kind = DZ_KIND_LINUX};
        rc = dz_kernel_thread_put(w->k, row->thread, &program, &task, err);
        if (rc < 0 && w->next.number)
            linux_ops(l)->exit(l->o.stub, w->next.number);
    }
    if (rc < 0) {
        if (first) {
            dz_linux_space_unref(l, (*group)->space);
            dz_free(*group);
            *group = NULL;
        }
        return rc;
    }
    struct dz_linux_thread *t = linux_thread_of(task);
    t->parked = row->flags & THREAD_PARKED;
    t->is_clone = row->flags & THREAD_IS_CLONE;
    t->call.number = row->number;
    memcpy(t->call.arg, row->arg, sizeof row->arg);
    t->trap = (struct dz_linux_trap){row->trap, row->error, row->address};
    return t->number ? restore_registers(t, row, xstate, err) : 0;
}

static int check_groups(const struct wake *w, struct linux_view v, struct dz_err *err)
{
    struct group_row g, other;
    const struct linux_view all = v;
    if (v.left % sizeof g || v.left / sizeof g > DZ_KERNEL_PROCS_MAX)
        return LINUX_BAD(err, "the processes are not valid");
    while (linux_take(&v, &g, sizeof g)) {
        struct linux_view before = {all.p, all.left - v.left - sizeof g};
        if ((g.flags & ~(uint32_t)GROUP_FLAGS) || !space_find(w, g.space))
            return LINUX_BAD(err, "process row %u has no memory", g.proc);
        while (linux_take(&before, &other, sizeof other))
            if (other.proc == g.proc)
                return LINUX_BAD(err, "process row %u exists twice", g.proc);
    }
    return 0;
}

static int restore_threads(struct wake *w, struct linux_view groups, struct linux_view v,
                           struct dz_err *err)
{
    struct thread_row row;
    struct group_row g;
    struct linux_view xstate;
    const size_t count = groups.left / sizeof g;
    int rc = check_groups(w, groups, err);
    if (rc < 0)
        return rc;
    struct dz_linux_group **made = dz_zarray(count + 1, sizeof *made);
    if (!made)
        return dz_fail(err, DZ_ENOMEM, "no memory for native programs");
    w->l->wake = &w->next;
    while (v.left && rc == 0) {
        if (!linux_take(&v, &row, sizeof row) || row.group >= count ||
            !linux_cut(&v, row.xstate, &xstate)) {
            rc = LINUX_BAD(err, "a thread is cut off");
            break;
        }
        memcpy(&g, groups.p + row.group * sizeof g, sizeof g);
        rc = restore_thread(w, &row, &g, xstate, &made[row.group], err);
    }
    w->l->wake = NULL;
    dz_free(made);
    return rc;
}

/* ---- restoring ------------------------------------------------------------------------------ */

static int restore_counters(struct dz_linux *l, struct linux_view v, struct dz_err *err)
{
    struct counters c;
    if (!linux_take(&v, &c, sizeof c) || v.left || c.pad || c.space >= LINUX_OBJECT_SNAPSHOT ||
        c.object >= LINUX_OBJECT_SNAPSHOT)
        return LINUX_BAD(err, "the counters are not valid");
    l->space = c.space;
    l->files.object = c.object;
    l->files.generation = c.generation;
    return 0;
}

int dz_linux_restore(struct dz_linux *l, struct dz_kernel *k, const void *bytes, size_t size,
                     struct dz_err *err)
{
    assert(l->count == 0 && !l->spaces && !l->held);
    struct wake w = {.l = l, .k = k};
    struct linux_view c[CHUNKS];
    w.spaces.max = DZ_KERNEL_PROCS_MAX;
    w.moves.max = SIZE_MAX / sizeof *w.moves.p;
    l->held = true;
    l->kernel = k;
    int rc = dz_linux_state_split((struct linux_view){bytes, size}, c, err);
    if (rc == 0)
        rc = dz_linux_cpu_check(l, c[CHUNK_CPU].p, c[CHUNK_CPU].left, err);
    if (rc == 0)
        rc = restore_counters(l, c[CHUNK_COUNTERS], err);
    if (rc == 0)
        rc = dz_linux_vdso_put(&l->vdso, c[CHUNK_VDSO].p, c[CHUNK_VDSO].left, err);
    if (rc == 0)
        rc = dz_linux_files_restore(l, c[CHUNK_FILES].p, c[CHUNK_FILES].left, err);
    if (rc == 0)
        rc = dz_linux_packed_restore(l, c[CHUNK_PACKED].p, c[CHUNK_PACKED].left, &w.moves, err);
    if (rc == 0)
        rc = restore_spaces(&w, c[CHUNK_SPACES], err);
    if (rc == 0)
        rc = restore_threads(&w, c[CHUNK_GROUPS], c[CHUNK_THREADS], err);
    for (const struct dz_linux_space *s = l->spaces; s && rc == 0; s = s->next)
        rc = lay(l, s, err);
    for (size_t i = 0; i < w.spaces.n; i++)
        dz_linux_space_unref(l, w.spaces.p[i]);
    dz_vec_release(&w.spaces);
    dz_vec_release(&w.moves);
    return rc;
}

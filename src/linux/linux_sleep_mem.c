/* SPDX-License-Identifier: MIT
 *
 * linux_sleep_mem.c - the pages of held native programs: which ones a saved machine needs, and
 * their bytes.
 *
 * Private memory is read and written through a thread of its address space. Of shared memory there
 * is one copy, which this process has open.
 */
#include "linux/linux_run_int.h"
#include "linux/linux_sleep.h"

#include <sys/mman.h>

enum {
    PARTS_MAX = 128, /* that are moved by one call of the host */
};

struct dz_linux_space *dz_linux_space_of(const struct dz_linux *l, uint64_t id)
{
    for (struct dz_linux_space *s = l->spaces; s; s = s->next)
        if (s->id == id)
            return s;
    return NULL;
}

struct each {
    int (*fn)(void *arg, const struct dz_linux_memory *mem, struct dz_err *err);
    void *arg;
    struct dz_err *err;
};
static int each_object(void *arg, uint64_t id)
{
    const struct each *e = arg;
    return e->fn(e->arg, &(struct dz_linux_memory){DZ_LINUX_OBJECT, id}, e->err);
}

int dz_linux_memories(struct dz_linux *l,
                      int (*fn)(void *arg, const struct dz_linux_memory *mem, struct dz_err *err),
                      void *arg, struct dz_err *err)
{
    struct each e = {fn, arg, err};
    int rc = 0;
    for (const struct dz_linux_space *s = l->spaces; s && rc == 0; s = s->next)
        if (dz_linux_space_thread(l, s))
            rc = fn(arg, &(struct dz_linux_memory){DZ_LINUX_PRIVATE, s->id}, err);
    return rc ? rc : dz_linux_objects_each(l, each_object, &e);
}

static void add(struct dz_linux_pages_list *to, uint64_t start, uint64_t end, bool zeros)
{
    const uint64_t first = start / DZ_MM_PAGE, count = end / DZ_MM_PAGE - first;
    struct dz_linux_pages *last = to->n ? &to->p[to->n - 1] : NULL;
    if (last && last->first + last->count == first && last->zeros == zeros)
        last->count += count;
    else
        dz_vec_push(to, ((struct dz_linux_pages){first, count, zeros}));
}

/* The parts of the runs that lie in private VMAs. */
static void cut_by_vmas(const struct dz_mm *mm, const struct dz_stub_runs *runs,
                        struct dz_linux_pages_list *to)
{
    size_t r = 0;
    for (size_t i = 0; i < mm->vmas.n; i++) {
        const struct dz_mm_vma *v = &mm->vmas.p[i];
        while (r < runs->n && runs->p[r].end <= v->start)
            r++;
        for (size_t n = r; n < runs->n && runs->p[n].start < v->end; n++) {
            const uint64_t start = runs->p[n].start > v->start ? runs->p[n].start : v->start;
            const uint64_t end = runs->p[n].end < v->end ? runs->p[n].end : v->end;
            if (!(v->flags & DZ_MM_SHARED))
                add(to, start, end, v->back.kind == DZ_MM_ANON);
        }
    }
}

/* Drop absent pages from the list: only a guest that broke its stub can have written to them. */
static int drop_absent(const struct dz_linux_space *s, struct dz_stub_runs *runs)
{
    struct dz_stub_runs all = *runs;
    size_t a = 0;
    *runs = (struct dz_stub_runs)DZ_VEC_INIT(DZ_STUB_RUNS_MAX);
    for (size_t i = 0; i < all.n; i++) {
        struct dz_mm_range r = all.p[i];
        while (a < s->absent.n && s->absent.p[a].end <= r.start)
            a++;
        for (size_t k = a; k < s->absent.n && s->absent.p[k].start < r.end; k++) {
            if (s->absent.p[k].start > r.start)
                dz_vec_push(runs, ((struct dz_mm_range){r.start, s->absent.p[k].start}));
            r.start = s->absent.p[k].end < r.end ? s->absent.p[k].end : r.end;
        }
        if (r.start < r.end)
            dz_vec_push(runs, r);
    }
    dz_vec_release(&all);
    return runs->err ? -ENOMEM : 0;
}

static int changed_private(const struct dz_linux *l, uint64_t id, struct dz_stub_runs *runs,
                           struct dz_linux_pages_list *to, struct dz_linux_pages_list *absent)
{
    const struct dz_linux_space *s = dz_linux_space_of(l, id);
    const uint32_t number = s ? dz_linux_space_thread(l, s) : 0;
    if (!number)
        return -ESRCH;
    const int rc = linux_ops(l)->changed(l->o.stub, number, 0, DZ_MM_ADDRESS_MAX, runs);
    if (rc == -EOPNOTSUPP) { /* all that may have been written */
        runs->n = 0;
        dz_vec_push(runs, ((struct dz_mm_range){0, DZ_MM_ADDRESS_MAX}));
    } else if (rc < 0) {
        return rc;
    }
    const int dropped = s->absent.n ? drop_absent(s, runs) : 0;
    cut_by_vmas(&s->mm, runs, to);
    cut_by_vmas(&s->mm, &s->absent, absent);
    return dropped;
}

int dz_linux_changed(struct dz_linux *l, const struct dz_linux_memory *mem,
                     struct dz_linux_pages_list *pages, struct dz_linux_pages_list *absent,
                     struct dz_err *err)
{
    struct dz_stub_runs runs = DZ_VEC_INIT(DZ_STUB_RUNS_MAX);
    int rc;
    if (mem->kind == DZ_LINUX_PRIVATE) {
        rc = changed_private(l, mem->id, &runs, pages, absent);
    } else {
        rc = dz_linux_object_runs(l, mem->id, &runs);
        for (size_t i = 0; i < runs.n && rc == 0; i++)
            add(pages, runs.p[i].start, runs.p[i].end, mem->id < LINUX_OBJECT_SNAPSHOT);
    }
    rc = rc == 0 && (runs.err || pages->err || absent->err) ? -ENOMEM : rc;
    dz_vec_release(&runs);
    return rc < 0 ? dz_fail_sys(err, -rc, "find the pages that native programs wrote") : 0;
}

/* Parts of private memory that are moved together. While their bytes are moved, the protections of
 * the guest do not count: `open` grants what is missing, `close` takes it back. */
struct parts {
    struct dz_linux *l;
    const struct dz_linux_space *space;
    uint32_t number; /* a thread of the address space */
    bool write;
    uint8_t *bytes; /* of the first part */
    size_t n, size;
    struct dz_mm_range of[PARTS_MAX];
    size_t closed;
    struct dz_mm_call open[PARTS_MAX], close[PARTS_MAX];
};

static int move_parts(struct parts *p)
{
    const struct dz_stub_ops *ops = linux_ops(p->l);
    struct dz_stub *stub = p->l->o.stub;
    int rc = p->closed ? ops->memory(stub, p->number, p->open, p->closed) : 0;
    if (rc == 0 && p->n)
        rc = ops->move(stub, p->number, p->of, p->n, p->bytes, p->write);
    const int closed =
        rc != -ESRCH && p->closed ? ops->memory(stub, p->number, p->close, p->closed) : 0;
    p->bytes += p->size;
    p->n = p->size = p->closed = 0;
    return rc < 0 ? rc : closed;
}

static int add_part(struct parts *p, const struct dz_mm_vma *v, struct dz_mm_range part)
{
    const int need = p->write ? PROT_READ | PROT_WRITE : PROT_READ;
    const size_t size = (size_t)(part.end - part.start);
    if ((v->prot & need) != need && !dz_linux_is_open(p->space, part)) {
        struct dz_mm_call c = {.op = DZ_MM_MPROTECT, .at = part.start, .size = size};
        c.prot = v->prot | need;
        p->open[p->closed] = c;
        c.prot = v->prot;
        p->close[p->closed++] = c;
    }
    p->of[p->n++] = part;
    p->size += size;
    return p->n == PARTS_MAX ? move_parts(p) : 0;
}

/* The parts of a run that lie in its VMAs. */
static int add_run(struct parts *p, const struct dz_mm *mm, struct dz_mm_range run)
{
    int rc = 0;
    while (rc == 0 && run.start < run.end) {
        const struct dz_mm_vma *v = dz_mm_find(mm, run.start);
        if (!v || v->start > run.start || (v->flags & DZ_MM_SHARED))
            return -EFAULT;
        const struct dz_mm_range part = {run.start, run.end < v->end ? run.end : v->end};
        rc = add_part(p, v, part);
        run.start = part.end;
    }
    return rc;
}

static int move_object(struct dz_linux *l, uint64_t id, struct dz_mm_range run, uint8_t *bytes,
                       bool write)
{
    const size_t size = (size_t)(run.end - run.start);
    return write ? dz_linux_object_write(l, id, run.start, bytes, size)
                 : dz_linux_object_read(l, id, run.start, bytes, size);
}

static int move_all(struct dz_linux *l, const struct dz_linux_memory *mem,
                    const struct dz_linux_pages *pages, size_t n, uint8_t *bytes, bool write)
{
    const bool object = mem->kind == DZ_LINUX_OBJECT;
    struct dz_linux_space *s = object ? NULL : dz_linux_space_of(l, mem->id);
    struct parts p = {.l = l, .space = s, .write = write, .bytes = bytes};
    p.number = s ? dz_linux_space_thread(l, s) : 0;
    int rc = object || p.number ? 0 : -ESRCH;
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (pages[i].count > DZ_MM_ADDRESS_MAX / DZ_MM_PAGE ||
            pages[i].first > DZ_MM_ADDRESS_MAX / DZ_MM_PAGE - pages[i].count)
            return -EFAULT;
        const struct dz_mm_range run = {pages[i].first * DZ_MM_PAGE,
                                        (pages[i].first + pages[i].count) * DZ_MM_PAGE};
        if (!object && !write && s->absent.n)
            rc = dz_linux_need_held(l, s, p.number, run);
        if (rc == 0)
            rc = object ? move_object(l, mem->id, run, bytes, write) : add_run(&p, &s->mm, run);
        bytes += run.end - run.start;
    }
    return rc < 0 ? rc : move_parts(&p);
}

int dz_linux_read(struct dz_linux *l, const struct dz_linux_memory *mem,
                  const struct dz_linux_pages *pages, size_t n, uint8_t *ret_bytes,
                  struct dz_err *err)
{
    const int rc = move_all(l, mem, pages, n, ret_bytes, false);
    return rc < 0 ? dz_fail_sys(err, -rc, "read the memory of native programs") : 0;
}

int dz_linux_write(struct dz_linux *l, const struct dz_linux_memory *mem,
                   const struct dz_linux_pages *pages, size_t n, const uint8_t *bytes,
                   struct dz_err *err)
{
    const int rc = move_all(l, mem, pages, n, (uint8_t *)(uintptr_t)bytes, true);
    return rc == -EFAULT
               ? dz_fail(err, DZ_ECORRUPT, "a saved page of a native program is not mapped")
           : rc < 0 ? dz_fail_sys(err, -rc, "write the memory of native programs")
                    : 0;
}

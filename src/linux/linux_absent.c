/* SPDX-License-Identifier: MIT
 *
 * linux_absent.c - pages of a saved machine that are filled when they are needed.
 *
 * A wake leaves pages out (dz_linux_leave). mm/ says what their VMA permits; in the host's process
 * they are PROT_NONE and were never touched. So the guest's first access is a fault, which comes
 * here like any other; everything on this side that reads, writes or changes guest memory calls
 * dz_linux_need() before. Filling a page opens it with the protection of its VMA, then writes its
 * content, which the embedder has.
 *
 *     VMA       |------------- rw -------------|
 *     absent      |----|      |----------|
 *     host      rw NONE   rw    NONE  rw NONE       the middle was needed
 *
 * Opening and writing are two steps, between which another thread would find zeros. So all threads
 * that run in the memory are stopped before (halt); their events come afterwards, as those of any
 * interrupt. Most threads wait in a call, and run no instruction that could be stopped.
 *
 * Absence belongs to one address space: fork needs all pages before it copies them.
 *
 * The guest's process may break this by itself, through the stub, as it may break any of its
 * mappings: what it puts into an absent page is lost, because the page counts as absent.
 *
 * INVARIANTS: s->absent ascends and is disjoint, lies in private VMAs, and each of its pages is
 * PROT_NONE and not present, unless the guest has broken its stub.
 */
#include "linux/linux_run_int.h"
#include "linux/linux_sleep.h"

#include <sys/mman.h>

enum {
    WINDOW = 4,       /* pages filled by one fault: a learned set of pages should be a close fit */
    VMAS_MOST = 8192, /* an address space with more has no absent pages, for want of mappings */
    OPEN_MAX = 512,   /* runs that a wake opens together: each may cost the host two mappings */
};

static uint64_t round_down(uint64_t at, uint64_t pages)
{
    return at - at % (pages * DZ_MM_PAGE);
}

/* The first run that ends above this address. */
static size_t index_in(const struct dz_stub_runs *runs, uint64_t at)
{
    size_t low = 0, high = runs->n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (runs->p[mid].end <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}
static size_t index_of(const struct dz_linux_space *s, uint64_t at)
{
    return index_in(&s->absent, at);
}

bool dz_linux_is_absent(const struct dz_linux_space *s, uint64_t at)
{
    const size_t i = index_of(s, at);
    return i < s->absent.n && s->absent.p[i].start <= at;
}

bool dz_linux_is_open(const struct dz_linux_space *s, struct dz_mm_range part)
{
    const size_t i = index_in(&s->open, part.start);
    return i < s->open.n && s->open.p[i].start <= part.start && s->open.p[i].end >= part.end;
}

int dz_linux_absent_cut(struct dz_linux_space *s, uint64_t start, uint64_t end)
{
    struct dz_mm_range *run;
    for (size_t i = index_of(s, start); i < s->absent.n && s->absent.p[i].start < end;) {
        run = &s->absent.p[i];
        if (run->start < start && run->end > end) {
            const struct dz_mm_range rest = {end, run->end};
            if (dz_vec_reserve(&s->absent, 1) < 0)
                return -ENOMEM;
            run = &s->absent.p[i];
            memmove(run + 2, run + 1, (s->absent.n - i - 1) * sizeof *run);
            s->absent.n++;
            run->end = start;
            run[1] = rest;
            return 0;
        }
        if (run->start >= start && run->end <= end) {
            memmove(run, run + 1, (s->absent.n - i - 1) * sizeof *run);
            s->absent.n--;
        } else if (run->start < start) {
            run->end = start;
            i++;
        } else {
            run->start = end;
        }
    }
    return 0;
}

enum protection {
    GUEST, /* that of the VMA */
    NONE,
    OPEN, /* that of the VMA, and writable; where the VMA is writable, nothing is to be done */
};

/* The host's calls that give this part a protection. Pages outside of private VMAs are passed over;
 * ret_runs, if any, gets the others for which there is a call. */
static int protect(const struct dz_mm *mm, struct dz_mm_range part, enum protection how,
                   struct dz_mm_calls *calls, struct dz_stub_runs *ret_runs)
{
    const int rights = PROT_READ | PROT_WRITE;
    while (part.start < part.end) {
        const struct dz_mm_vma *v = dz_mm_find(mm, part.start);
        if (!v || v->start >= part.end)
            break;
        const uint64_t start = v->start > part.start ? v->start : part.start;
        const uint64_t end = v->end < part.end ? v->end : part.end;
        part.start = end;
        if ((v->flags & DZ_MM_SHARED) || (how == OPEN && (v->prot & rights) == rights))
            continue;
        const struct dz_mm_call c = {.op = DZ_MM_MPROTECT,
                                     .at = start,
                                     .size = end - start,
                                     .prot = how == NONE   ? PROT_NONE
                                             : how == OPEN ? v->prot | rights
                                                           : v->prot};
        if (dz_vec_push(calls, c) < 0 ||
            (ret_runs && dz_vec_push(ret_runs, ((struct dz_mm_range){start, end})) < 0))
            return -ENOMEM;
    }
    return 0;
}

/* A part of one run. */
static int fill(struct dz_linux *l, struct dz_linux_space *s, uint32_t number,
                struct dz_mm_range part)
{
    struct dz_mm_calls calls = DZ_VEC_INIT(DZ_MM_VMAS_MAX);
    const struct dz_linux_memory mem = {DZ_LINUX_PRIVATE, s->id};
    int rc = protect(&s->mm, part, GUEST, &calls, NULL);
    if (rc == 0)
        rc = dz_linux_absent_cut(s, part.start, part.end);
    if (rc == 0)
        rc = linux_ops(l)->memory(l->o.stub, number, calls.p, calls.n);
    dz_vec_release(&calls);
    if (rc == 0 && l->filler.fill(l->filler.arg, &mem, part.start / DZ_MM_PAGE,
                                  (part.end - part.start) / DZ_MM_PAGE) < 0)
        rc = -EIO;
    return rc;
}

/* Pages that could not be filled are lost for every process of this memory: all of them end. */
static void break_all(const struct dz_linux *l, const struct dz_linux_space *s)
{
    for (uint32_t i = 1; i < DZ_STUB_THREADS_MAX; i++)
        if (l->threads[i] && l->threads[i]->group->space == s)
            l->threads[i]->group->broken = true;
}

int dz_linux_need_held(struct dz_linux *l, struct dz_linux_space *s, uint32_t number,
                       struct dz_mm_range range)
{
    int rc = 0;
    for (size_t i; rc == 0 && (i = index_of(s, range.start)) < s->absent.n &&
                   s->absent.p[i].start < range.end;) {
        struct dz_mm_range part = s->absent.p[i];
        if (s->absent.n < DZ_LINUX_ABSENT_MAX) { /* else all of the run: no run may be added */
            part.start = part.start > range.start ? part.start : range.start;
            part.end = part.end < range.end ? part.end : range.end;
        }
        rc = fill(l, s, number, part);
    }
    if (rc < 0)
        break_all(l, s);
    return rc;
}

/* Call fn for each thread that runs in this memory. */
static void each_running(const struct dz_linux *l, const struct dz_linux_space *s,
                         void (*fn)(const struct dz_linux *l, uint32_t number))
{
    for (uint32_t i = 1, seen = 0; i < DZ_STUB_THREADS_MAX && seen < l->running; i++) {
        const struct dz_linux_thread *t = l->threads[i];
        seen += t && t->running;
        if (t && t->running && t->group->space == s)
            fn(l, i);
    }
}
static void interrupt(const struct dz_linux *l, uint32_t number)
{
    linux_ops(l)->interrupt(l->o.stub, number);
}
static void halt(const struct dz_linux *l, uint32_t number)
{
    (void)linux_ops(l)->halt(l->o.stub, number); /* what does not stop is killed */
}

int dz_linux_need(struct dz_linux_thread *t, uint64_t at, uint64_t size)
{
    struct dz_linux_space *s = t->group->space;
    if (s->absent.n == 0 || size == 0 || at >= DZ_MM_ADDRESS_MAX)
        return 0;
    size = size < DZ_MM_ADDRESS_MAX - at ? size : DZ_MM_ADDRESS_MAX - at;
    const struct dz_mm_range range = {round_down(at, WINDOW),
                                      round_down(at + size - 1, WINDOW) + WINDOW * DZ_MM_PAGE};
    const size_t i = index_of(s, range.start);
    if (i == s->absent.n || s->absent.p[i].start >= range.end)
        return 0;
    if (!t->number || t->group->broken || (t->running && !linux_ops(t->l)->halt))
        return -ESRCH;
    if (linux_ops(t->l)->halt) {
        each_running(t->l, s, interrupt); /* all of them stop at the same time */
        each_running(t->l, s, halt);
    }
    return dz_linux_need_held(t->l, s, t->number, range);
}

int dz_linux_need_all(struct dz_linux_thread *t)
{
    return dz_linux_need(t, 0, DZ_MM_ADDRESS_MAX);
}

/* Give these pages a protection, and list them. -ESRCH: no process lives in this memory, which only
 * a damaged file gives pages. */
static int protect_all(struct dz_linux *l, struct dz_linux_space *s, enum protection how,
                       const struct dz_linux_pages *pages, size_t n, struct dz_stub_runs *runs)
{
    struct dz_mm_calls calls = DZ_VEC_INIT(DZ_MM_VMAS_MAX);
    const uint32_t number = dz_linux_space_thread(l, s);
    int rc = number ? 0 : -ESRCH;
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (pages[i].first < DZ_MM_ADDRESS_MAX / DZ_MM_PAGE &&
            pages[i].count <= DZ_MM_ADDRESS_MAX / DZ_MM_PAGE - pages[i].first)
            rc = protect(&s->mm,
                         (struct dz_mm_range){pages[i].first * DZ_MM_PAGE,
                                              (pages[i].first + pages[i].count) * DZ_MM_PAGE},
                         how, &calls, runs);
    if (rc == 0 && calls.n)
        rc = linux_ops(l)->memory(l->o.stub, number, calls.p, calls.n);
    dz_vec_release(&calls);
    return rc;
}

int dz_linux_leave(struct dz_linux *l, const struct dz_linux_memory *mem,
                   const struct dz_linux_pages *pages, size_t n,
                   const struct dz_linux_filler *filler, struct dz_err *err)
{
    struct dz_linux_space *s = mem->kind == DZ_LINUX_PRIVATE ? dz_linux_space_of(l, mem->id) : NULL;
    if (!s || s->absent.n || n > DZ_LINUX_ABSENT_MAX / 2 || s->mm.vmas.n > VMAS_MOST)
        return dz_fail(err, DZ_EUNSUPPORTED, "this memory needs its pages at once");
    l->filler = *filler;
    const int rc = protect_all(l, s, NONE, pages, n, &s->absent);
    return rc < 0 ? dz_fail_sys(err, -rc, "leave out pages of native programs") : 0;
}

int dz_linux_ready_pages(struct dz_linux *l, const struct dz_linux_memory *mem,
                         const struct dz_linux_pages *pages, size_t n, struct dz_err *err)
{
    struct dz_linux_space *s = mem->kind == DZ_LINUX_PRIVATE ? dz_linux_space_of(l, mem->id) : NULL;
    if (!s || n > OPEN_MAX) /* then each write opens its pages */
        return 0;
    assert(s->open.n == 0);
    const int rc = protect_all(l, s, OPEN, pages, n, &s->open);
    return rc < 0 ? dz_fail_sys(err, -rc, "prepare pages of native programs") : 0;
}

void dz_linux_shut_pages(struct dz_linux *l, struct dz_linux_space *s)
{
    struct dz_mm_calls calls = DZ_VEC_INIT(DZ_MM_VMAS_MAX);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < s->open.n; i++)
        rc = protect(&s->mm, s->open.p[i], GUEST, &calls, NULL);
    dz_vec_reset(&s->open);
    const uint32_t number = dz_linux_space_thread(l, s);
    if (rc == 0 && calls.n && number)
        rc = dz_linux_execute(l->threads[number], &calls);
    dz_vec_release(&calls);
    if (rc < 0)
        break_all(l, s);
}

/* SPDX-License-Identifier: MIT
 *
 * stub_play.c - see stub_play.h. A thread is a fiber; a stop is a yield with an event.
 *
 * Memory is a sorted array with an entry for each mapped page. A page that nobody has written is
 * NULL. A page that is mapped shared has no bytes of its own: it is read from its file and written
 * to it each time. fork copies the others.
 */
#include "stub/stub_play.h"

#include "base/fd.h"
#include "base/fiber.h"

#include <errno.h>
#include <linux/audit.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Where in a program its instructions are: a call (2 bytes before), an access, work. */
enum {
    RIP_CALL = DZ_PLAY_CALLED,
    RIP_ACCESS = 0x20,
    RIP_WORK = 0x30,
    RIP_END = 0x3f,
    PROGRAM_SIZE = 64,
};

struct file {
    uint32_t refs;
    int fd; /* our own */
};
struct page {
    uint32_t refs;
    struct file *file; /* mapped shared: its file, */
    uint64_t offset;   /* and the offset there */
    bool read;         /* its content came from a file, and was not written */
    uint8_t bytes[DZ_MM_PAGE];
};
struct entry {
    uint64_t at;
    struct page *page; /* NULL: zeros */
    uint8_t prot;
    bool shared, dontfork, wipe;
};
struct memory {
    uint32_t refs;
    DZ_VEC(, struct entry) entries;
};
enum state {
    FREE,
    STOPPED,
    RUNNING,
    DEAD, /* its ENDED has not been reported */
};
struct play;
struct dz_play {
    struct play *of;
    uint32_t number, process;
    enum state state;
    bool interrupted, over; /* over: `event` ended its last resume */
    int status;             /* of DEAD */
    uint64_t program;       /* the program whose function executes */
    dz_play_fn *child, *first;
    struct dz_stub_event event;
    struct dz_stub_regs regs;
    uint8_t xstate[DZ_PLAY_XSTATE];
    struct memory *memory;
    struct dz_fiber *fiber;
};
struct play {
    struct dz_stub stub;
    struct dz_play_opts o;
    uint64_t random;
    uint32_t processes, turn;
    struct dz_play *threads[DZ_STUB_THREADS_MAX]; /* [0] is unused */
    struct file *files[DZ_STUB_FILES_MAX];
};

static struct play *play_of(struct dz_stub *s)
{
    return (struct play *)s;
}
static struct dz_play *thread_of(struct dz_stub *s, uint32_t number)
{
    assert(number < DZ_STUB_THREADS_MAX && play_of(s)->threads[number]);
    return play_of(s)->threads[number];
}
static struct dz_play *stopped(struct dz_stub *s, uint32_t number)
{
    struct dz_play *t = thread_of(s, number);
    assert(t->state == STOPPED || t->state == DEAD);
    return t;
}

/* ---- memory ------------------------------------------------------------------------ */

static void file_unref(struct file *f)
{
    if (!f || --f->refs > 0)
        return;
    dz_fd_close(&f->fd);
    dz_free(f);
}

static void page_unref(struct page *p)
{
    if (!p || --p->refs > 0)
        return;
    file_unref(p->file);
    dz_free(p);
}
static struct page *page_new(const struct page *from)
{
    struct page *p = dz_zalloc(sizeof *p);
    if (p && from)
        *p = *from;
    if (p)
        p->refs = 1;
    return p;
}

static struct memory *memory_new(void)
{
    struct memory *m = dz_zalloc(sizeof *m);
    if (m) {
        m->refs = 1;
        m->entries.max = DZ_PLAY_PAGES_MAX;
    }
    return m;
}
static void memory_unref(struct memory *m)
{
    if (!m || --m->refs)
        return;
    for (size_t i = 0; i < m->entries.n; i++)
        page_unref(m->entries.p[i].page);
    dz_vec_release(&m->entries);
    dz_free(m);
}
/* The first entry at or above. */
static size_t find(const struct memory *m, uint64_t at)
{
    size_t low = 0, high = m->entries.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->entries.p[middle].at < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct memory *memory_fork(const struct memory *from)
{
    struct memory *m = memory_new();
    if (!m || (from->entries.n && dz_vec_reserve(&m->entries, from->entries.n) < 0)) {
        memory_unref(m);
        return NULL;
    }
    for (size_t i = 0; i < from->entries.n; i++) {
        struct entry e = from->entries.p[i];
        if (e.dontfork)
            continue;
        if (e.wipe) {
            e.page = NULL;
        } else if (e.page && e.shared) {
            e.page->refs++;
        } else if (e.page) {
            e.page = page_new(e.page);
            if (!e.page) {
                memory_unref(m);
                return NULL;
            }
        }
        dz_vec_push(&m->entries, e);
    }
    return m;
}

static void unmap(struct memory *m, uint64_t at, uint64_t size)
{
    size_t from = find(m, at), to = find(m, at + size);
    for (size_t i = from; i < to; i++)
        page_unref(m->entries.p[i].page);
    if (from < to)
        memmove(m->entries.p + from, m->entries.p + to, (m->entries.n - to) * sizeof *m->entries.p);
    m->entries.n -= to - from;
}

static struct page *page_of_file(struct play *p, uint32_t number, uint64_t offset)
{
    struct page *page = page_new(NULL);
    if (!page)
        return NULL;
    page->read = true;
    const ssize_t got = pread(p->files[number]->fd, page->bytes, DZ_MM_PAGE, (off_t)offset);
    if (got >= 0)
        return page;
    page_unref(page);
    return NULL;
}
static struct page *page_shared(struct play *p, uint32_t number, uint64_t offset)
{
    struct page *page = page_new(NULL);
    if (!page)
        return NULL;
    page->file = p->files[number];
    page->file->refs++;
    page->offset = offset;
    return page;
}

static int map(struct play *p, struct memory *m, const struct dz_mm_call *c)
{
    uint32_t number = 0;
    uint64_t offset = 0;
    if (c->back.kind != DZ_MM_ANON) {
        if (!p->o.files.number)
            return -EBADF;
        const int rc = p->o.files.number(p->o.files.arg, &c->back, &number, &offset);
        if (rc < 0)
            return rc;
        if (number >= DZ_STUB_FILES_MAX || !p->files[number])
            return -EBADF;
    }
    const size_t pages = (size_t)(c->size / DZ_MM_PAGE);
    unmap(m, c->at, c->size);
    if (pages > DZ_PLAY_PAGES_MAX || dz_vec_reserve(&m->entries, pages) < 0) {
        m->entries.err = 0; /* memory may be available later */
        return -ENOMEM;
    }
    const size_t at = find(m, c->at);
    memmove(m->entries.p + at + pages, m->entries.p + at,
            (m->entries.n - at) * sizeof *m->entries.p);
    m->entries.n += pages;
    int rc = 0;
    for (size_t i = 0; i < pages; i++) {
        struct entry e = {.at = c->at + i * DZ_MM_PAGE, .prot = (uint8_t)c->prot};
        e.shared = (c->flags & MAP_TYPE) != MAP_PRIVATE;
        if (c->back.kind != DZ_MM_ANON) {
            const uint64_t from = offset + i * DZ_MM_PAGE;
            e.page = e.shared ? page_shared(p, number, from) : page_of_file(p, number, from);
            rc = e.page ? rc : -ENOMEM;
        }
        m->entries.p[at + i] = e;
    }
    return rc;
}

static int move(struct memory *m, const struct dz_mm_call *c)
{
    const size_t from = find(m, c->at), to = find(m, c->at + c->size);
    const size_t n = to - from;
    if (n != c->size / DZ_MM_PAGE)
        return -EFAULT;
    struct entry *moved = dz_zarray(n, sizeof *moved);
    if (!moved)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        struct entry *e = &m->entries.p[from + i];
        moved[i] = *e;
        moved[i].at = c->to + i * DZ_MM_PAGE;
        e->page = NULL; /* with DONTUNMAP zeros are left */
    }
    if (!(c->flags & MREMAP_DONTUNMAP))
        unmap(m, c->at, c->size);
    unmap(m, c->to, c->size);
    int rc = 0;
    if (dz_vec_reserve(&m->entries, n) < 0) {
        m->entries.err = 0;
        rc = -ENOMEM;
        for (size_t i = 0; i < n; i++)
            page_unref(moved[i].page);
    } else {
        const size_t at = find(m, c->to);
        memmove(m->entries.p + at + n, m->entries.p + at,
                (m->entries.n - at) * sizeof *m->entries.p);
        memcpy(m->entries.p + at, moved, n * sizeof *moved);
        m->entries.n += n;
    }
    dz_free(moved);
    return rc;
}

static void advise(struct memory *m, const struct dz_mm_call *c)
{
    for (size_t i = find(m, c->at), end = find(m, c->at + c->size); i < end; i++) {
        struct entry *e = &m->entries.p[i];
        if (c->advice == MADV_DONTFORK || c->advice == MADV_DOFORK)
            e->dontfork = c->advice == MADV_DONTFORK;
        else if (c->advice == MADV_WIPEONFORK || c->advice == MADV_KEEPONFORK)
            e->wipe = c->advice == MADV_WIPEONFORK;
        else if ((c->advice == MADV_DONTNEED || c->advice == MADV_FREE) && !e->shared && e->page &&
                 !e->page->read) {
            page_unref(e->page);
            e->page = NULL;
        }
    }
}

static int play_memory(struct dz_stub *s, uint32_t thread, const struct dz_mm_call *calls, size_t n)
{
    struct dz_play *t = stopped(s, thread);
    struct memory *m = t->memory;
    for (size_t i = 0; i < n; i++) {
        const struct dz_mm_call *c = &calls[i];
        int rc = t->state == DEAD ? -ESRCH : 0;
        switch (c->op) {
        case DZ_MM_MMAP:
            rc = rc ? rc : map(play_of(s), m, c);
            break;
        case DZ_MM_MUNMAP:
            unmap(m, c->at, c->size);
            break;
        case DZ_MM_MPROTECT:
            for (size_t e = find(m, c->at), end = find(m, c->at + c->size); e < end; e++)
                m->entries.p[e].prot = (uint8_t)c->prot;
            break;
        case DZ_MM_MREMAP:
            rc = rc ? rc : move(m, c);
            break;
        case DZ_MM_MADVISE:
            advise(m, c);
            break;
        case DZ_MM_SYNC:
            break;
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Bytes in a page of a file that is mapped shared; a write does not extend the file. */
static void copy_shared(const struct page *page, size_t in, uint8_t *bytes, size_t n, int access)
{
    struct stat st;
    const uint64_t at = page->offset + in;
    const uint64_t size = fstat(page->file->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    const size_t there = at >= size ? 0 : size - at < n ? (size_t)(size - at) : n;
    if (access == PROT_WRITE) {
        (void)!pwrite(page->file->fd, bytes, there, (off_t)at);
        return;
    }
    memset(bytes, 0, n);
    (void)!pread(page->file->fd, bytes, there, (off_t)at);
}

/* Move as many bytes as possible; *ret_errno: 0, -EFAULT, -ENOMEM. */
static size_t copy(struct memory *m, uint64_t at, void *bytes, size_t n, int access, int *ret_errno)
{
    size_t done = 0;
    *ret_errno = 0;
    while (done < n) {
        const uint64_t here = at + done, start = here & ~(uint64_t)(DZ_MM_PAGE - 1);
        const size_t in = (size_t)(here - start);
        const size_t part = n - done < DZ_MM_PAGE - in ? n - done : DZ_MM_PAGE - in;
        const size_t index = find(m, start);
        struct entry *e = index < m->entries.n ? &m->entries.p[index] : NULL;
        if (!e || e->at != start || !(e->prot & access)) {
            *ret_errno = -EFAULT;
            break;
        }
        uint8_t *out = (uint8_t *)bytes + done;
        if (e->page && e->page->file) {
            copy_shared(e->page, in, out, part, access);
        } else if (access == PROT_WRITE) {
            if (!e->page && !(e->page = page_new(NULL))) {
                *ret_errno = -ENOMEM;
                break;
            }
            e->page->read = false;
            memcpy(e->page->bytes + in, out, part);
        } else if (e->page) {
            memcpy(out, e->page->bytes + in, part);
        } else {
            memset(out, 0, part);
        }
        done += part;
    }
    return done;
}

static int64_t play_read(struct dz_stub *s, uint32_t thread, uint64_t at, void *ret_bytes, size_t n)
{
    int rc;
    struct dz_play *t = thread_of(s, thread);
    if (t->state == DEAD)
        return -ESRCH;
    const size_t done = copy(t->memory, at, ret_bytes, n, PROT_READ, &rc);
    return done || !rc ? (int64_t)done : rc;
}
static int64_t play_write(struct dz_stub *s, uint32_t thread, uint64_t at, const void *bytes,
                          size_t n)
{
    int rc;
    struct dz_play *t = thread_of(s, thread);
    if (t->state == DEAD)
        return -ESRCH;
    const size_t done = copy(t->memory, at, (void *)(uintptr_t)bytes, n, PROT_WRITE, &rc);
    return done || !rc ? (int64_t)done : rc;
}
static int play_move(struct dz_stub *s, uint32_t thread, const struct dz_mm_range *parts, size_t n,
                     void *bytes, bool write)
{
    uint8_t *here = bytes;
    for (size_t i = 0; i < n; i++) {
        const size_t size = (size_t)(parts[i].end - parts[i].start);
        const int64_t r = write ? play_write(s, thread, parts[i].start, here, size)
                                : play_read(s, thread, parts[i].start, here, size);
        if (r != (int64_t)size)
            return r < 0 ? (int)r : -EFAULT;
        here += size;
    }
    return 0;
}
static int play_swap(struct dz_stub *s, uint32_t thread, uint64_t at, uint32_t was, uint32_t now,
                     uint32_t *ret_was)
{
    int rc;
    uint32_t word;
    struct dz_play *t = thread_of(s, thread);
    assert(t->state != RUNNING);
    if (at % sizeof was)
        return -EFAULT;
    if (t->state == DEAD ||
        copy(t->memory, at, &word, sizeof word, PROT_READ, &rc) != sizeof word ||
        (word == was && copy(t->memory, at, &now, sizeof now, PROT_WRITE, &rc) != sizeof now))
        return -ESRCH;
    *ret_was = word;
    return 0;
}
static int play_resident(struct dz_stub *s, uint32_t thread, bool exact, uint64_t *ret_bytes)
{
    const struct memory *m = thread_of(s, thread)->memory;
    uint64_t bytes = 0;
    (void)exact; /* a fork copies */
    for (size_t i = 0; i < m->entries.n; i++) {
        const struct entry *e = &m->entries.p[i];
        bytes += e->page && !e->page->read && !e->shared ? DZ_MM_PAGE : 0;
    }
    *ret_bytes = bytes;
    return 0;
}
static int play_changed(struct dz_stub *s, uint32_t thread, uint64_t start, uint64_t end,
                        struct dz_stub_runs *runs)
{
    const struct memory *m = thread_of(s, thread)->memory;
    for (size_t i = find(m, start), stop = find(m, end); i < stop; i++) {
        const struct entry *e = &m->entries.p[i];
        if (!e->page || e->page->read || e->shared)
            continue;
        if (runs->n && runs->p[runs->n - 1].end == e->at)
            runs->p[runs->n - 1].end += DZ_MM_PAGE;
        else
            dz_vec_push(runs, ((struct dz_mm_range){e->at, e->at + DZ_MM_PAGE}));
    }
    return runs->err ? -ENOMEM : 0;
}

/* ---- called by a guest's function ---------------------------------------------------- */

static dz_play_fn *program_at(const struct play *p, uint64_t at)
{
    for (size_t i = 0; i < p->o.program_count; i++)
        if (p->o.programs[i].at == at)
            return p->o.programs[i].fn;
    return NULL;
}

/* Stop at this instruction, until the thread continues at `next` or at the instruction itself.
 * False: the latter, and the instruction is not a call. */
static bool stop(struct dz_play *t, const struct dz_stub_event *event, uint64_t rip, uint64_t next)
{
    const uint64_t program = t->program;
    t->regs.rip = event->kind == DZ_STUB_CALL ? next : rip;
    t->event = *event;
    t->over = true;
    for (;;) {
        dz_fiber_yield(t->fiber);
        if (t->regs.rip == next || t->regs.rip == rip)
            break;
        dz_play_fn *handler = program_at(t->of, t->regs.rip);
        if (handler) {
            t->program = t->regs.rip;
            handler(t, t->of->o.arg);
            t->regs.rax = SYS_rt_sigreturn;
            t->event = (struct dz_stub_event){.kind = DZ_STUB_CALL, .arch = AUDIT_ARCH_X86_64};
            t->regs.rip = t->program + RIP_CALL;
        } else {
            t->event = (struct dz_stub_event){.kind = DZ_STUB_FAULT,
                                              .signo = SIGSEGV,
                                              .code = SEGV_MAPERR,
                                              .addr = t->regs.rip,
                                              .trap = 14,
                                              .error = 0x14};
        }
        t->over = true;
    }
    t->program = program;
    return t->regs.rip == next;
}

static int64_t issue(struct dz_play *t)
{
    const struct dz_stub_event call = {.kind = DZ_STUB_CALL, .arch = AUDIT_ARCH_X86_64};
    const uint64_t next = t->program + RIP_CALL;
    while (!stop(t, &call, next - 2, next)) {
    }
    return (int64_t)t->regs.rax;
}
int64_t dz_play_call(struct dz_play *me, uint64_t number, uint64_t a, uint64_t b, uint64_t c,
                     uint64_t d)
{
    me->regs.rax = number;
    me->regs.rdi = a;
    me->regs.rsi = b;
    me->regs.rdx = c;
    me->regs.r10 = d;
    return issue(me);
}

static void touch(struct dz_play *t, uint64_t at, void *bytes, size_t n, int access)
{
    const uint64_t rip = t->program + RIP_ACCESS;
    size_t done = 0;
    int rc;
    for (;;) {
        done += copy(t->memory, at + done, (uint8_t *)bytes + done, n - done, access, &rc);
        if (!rc)
            return;
        const size_t index = find(t->memory, (at + done) & ~(uint64_t)(DZ_MM_PAGE - 1));
        const bool there =
            index < t->memory->entries.n && t->memory->entries.p[index].at <= at + done;
        const struct dz_stub_event fault = {.kind = DZ_STUB_FAULT,
                                            .signo = rc == -ENOMEM ? SIGBUS : SIGSEGV,
                                            .code = rc == -ENOMEM ? BUS_ADRERR
                                                    : there       ? SEGV_ACCERR
                                                                  : SEGV_MAPERR,
                                            .addr = at + done,
                                            .trap = 14,
                                            .error = 4u | (access == PROT_WRITE ? 2u : 0u) |
                                                     (there ? 1u : 0u)};
        (void)stop(t, &fault, rip, rip);
    }
}
void dz_play_load(struct dz_play *me, uint64_t at, void *ret_bytes, size_t n)
{
    touch(me, at, ret_bytes, n, PROT_READ);
}
void dz_play_store(struct dz_play *me, uint64_t at, const void *bytes, size_t n)
{
    touch(me, at, (void *)(uintptr_t)bytes, n, PROT_WRITE);
}

void dz_play_work(struct dz_play *me)
{
    const struct dz_stub_event event = {.kind = DZ_STUB_STOPPED};
    const uint64_t rip = me->program + RIP_WORK;
    me->regs.rip = rip;
    dz_fiber_yield(me->fiber);
    if (me->interrupted)
        (void)stop(me, &event, rip, rip);
}
void dz_play_child(struct dz_play *me, dz_play_fn *fn)
{
    me->child = fn;
}
struct dz_stub_regs *dz_play_regs(struct dz_play *me)
{
    return &me->regs;
}

static void kill_process(struct play *p, uint32_t process, int status)
{
    for (uint32_t i = 1; i < DZ_STUB_THREADS_MAX; i++) {
        struct dz_play *t = p->threads[i];
        if (t && t->process == process) {
            t->state = DEAD;
            t->status = status;
        }
    }
}
void dz_play_die(struct dz_play *me, int status)
{
    kill_process(me->of, me->process, status);
    for (;;)
        dz_fiber_yield(me->fiber);
}

static void body(void *arg)
{
    struct dz_play *t = arg;
    const struct dz_stub_event illegal = {
        .kind = DZ_STUB_FAULT, .signo = SIGILL, .code = ILL_ILLOPN};
    /* a thread of a saved machine may be anywhere in a program */
    const uint64_t start = t->regs.rip & ~(uint64_t)(PROGRAM_SIZE - 1);
    dz_play_fn *fn = t->first ? t->first : program_at(t->of, start);
    if (fn) {
        if (!t->first)
            t->program = start;
        fn(t, t->of->o.arg);
    }
    for (;;)
        (void)stop(t, &illegal, t->program + RIP_END, t->program + RIP_END);
}

/* ---- threads ------------------------------------------------------------------------- */

static void drop(struct dz_play *t)
{
    t->of->threads[t->number] = NULL;
    dz_fiber_free(t->fiber);
    memory_unref(t->memory);
    dz_free(t);
}

/* Takes over a reference to the memory, which is NULL if allocating it failed. */
static int add(struct play *p, struct memory *memory, struct dz_play **ret_thread)
{
    uint32_t number = 1;
    while (number < DZ_STUB_THREADS_MAX && p->threads[number])
        number++;
    struct dz_play *t = dz_zalloc(sizeof *t);
    if (!t || !memory || number == DZ_STUB_THREADS_MAX) {
        dz_free(t);
        memory_unref(memory);
        return number == DZ_STUB_THREADS_MAX ? -EAGAIN : -ENOMEM;
    }
    *t = (struct dz_play){
        .of = p, .number = number, .state = STOPPED, .regs = {.rflags = 0x202}, .memory = memory};
    p->threads[number] = t;
    *ret_thread = t;
    return 0;
}

static int play_process(struct dz_stub *s, uint32_t *ret_thread)
{
    struct play *p = play_of(s);
    struct dz_play *t;
    const int rc = add(p, memory_new(), &t);
    if (rc < 0)
        return rc;
    t->process = ++p->processes;
    *ret_thread = t->number;
    return 0;
}

static int play_clone(struct dz_stub *s, uint32_t thread, enum dz_stub_clone how,
                      uint32_t *ret_thread)
{
    struct play *p = play_of(s);
    struct dz_play *from = stopped(s, thread), *t;
    if (from->state == DEAD)
        return -ESRCH;
    struct memory *m = from->memory;
    if (how == DZ_STUB_FORK)
        m = memory_fork(m);
    else
        m->refs++;
    const int rc = add(p, m, &t);
    if (rc < 0)
        return rc;
    t->process = how == DZ_STUB_THREAD ? from->process : ++p->processes;
    t->regs = from->regs;
    t->program = from->program;
    t->first = from->child;
    memcpy(t->xstate, from->xstate, sizeof t->xstate);
    *ret_thread = t->number;
    return 0;
}

static void play_end(struct dz_stub *s, uint32_t thread)
{
    struct play *p = play_of(s);
    const uint32_t process = thread_of(s, thread)->process;
    for (uint32_t i = 1; i < DZ_STUB_THREADS_MAX; i++)
        if (p->threads[i] && p->threads[i]->process == process)
            drop(p->threads[i]);
}
static void play_exit(struct dz_stub *s, uint32_t thread)
{
    drop(stopped(s, thread));
}

static struct dz_stub_regs *play_regs(struct dz_stub *s, uint32_t thread)
{
    return &stopped(s, thread)->regs;
}
static int64_t play_xstate_get(struct dz_stub *s, uint32_t thread, void *ret_bytes, size_t size)
{
    if (size < DZ_PLAY_XSTATE)
        return -ENOSPC;
    memcpy(ret_bytes, stopped(s, thread)->xstate, DZ_PLAY_XSTATE);
    return DZ_PLAY_XSTATE;
}
static int play_xstate_set(struct dz_stub *s, uint32_t thread, const void *bytes, size_t size)
{
    if (size != DZ_PLAY_XSTATE)
        return -EINVAL;
    memcpy(stopped(s, thread)->xstate, bytes, size);
    return 0;
}

static void play_run(struct dz_stub *s, uint32_t thread)
{
    struct dz_play *t = stopped(s, thread);
    if (t->state == STOPPED)
        t->state = RUNNING;
}
static void play_interrupt(struct dz_stub *s, uint32_t thread)
{
    struct dz_play *t = thread_of(s, thread);
    t->interrupted = t->state == RUNNING;
}

static int play_file(struct dz_stub *s, int fd, uint32_t *ret_number)
{
    struct play *p = play_of(s);
    uint32_t number = 0;
    while (number < DZ_STUB_FILES_MAX && p->files[number])
        number++;
    if (number == DZ_STUB_FILES_MAX)
        return -EMFILE;
    struct file *f = dz_zalloc(sizeof *f);
    if (!f)
        return -ENOMEM;
    *f = (struct file){1, fcntl(fd, F_DUPFD_CLOEXEC, 0)};
    if (f->fd < 0) {
        const int rc = -errno;
        dz_free(f);
        return rc;
    }
    p->files[number] = f;
    *ret_number = number;
    return 0;
}
static void play_file_close(struct dz_stub *s, uint32_t number)
{
    struct play *p = play_of(s);
    assert(number < DZ_STUB_FILES_MAX && p->files[number]);
    file_unref(p->files[number]);
    p->files[number] = NULL;
}
static int play_cpu(struct dz_stub *s, uint32_t thread, int64_t *ret_ns)
{
    (void)thread_of(s, thread);
    *ret_ns = 0; /* no time passes here */
    return 0;
}

/* ---- running --------------------------------------------------------------------------- */

static bool next_event(struct dz_play *t, struct dz_stub_event *ret_event)
{
    if (t->state == RUNNING) {
        if (!t->fiber) {
            t->fiber = dz_fiber_new(body, t);
            if (!t->fiber) {
                t->state = DEAD; /* like a host without memory */
                t->status = SIGKILL;
            }
        }
        if (t->fiber)
            (void)dz_fiber_resume(t->fiber);
        if (t->state == RUNNING && t->over) {
            t->over = false;
            t->interrupted = false;
            t->state = STOPPED;
            *ret_event = t->event;
            ret_event->thread = t->number;
            return true;
        }
    }
    if (t->state != DEAD)
        return false;
    *ret_event =
        (struct dz_stub_event){.kind = DZ_STUB_ENDED, .thread = t->number, .status = t->status};
    drop(t);
    return true;
}

static int play_wait(struct dz_stub *s, int64_t timeout_ns, struct dz_stub_event *ret_events,
                     size_t max)
{
    struct play *p = play_of(s);
    size_t count = 0;
    max = max < DZ_STUB_EVENTS_MAX ? max : DZ_STUB_EVENTS_MAX;
    for (bool some = true; some && !count;) {
        some = false;
        p->random = p->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        const uint32_t turn =
            p->o.seed ? (uint32_t)(p->random >> 33) % DZ_STUB_THREADS_MAX : p->turn + 1;
        for (uint32_t i = 0; i < DZ_STUB_THREADS_MAX && count < max; i++) {
            const uint32_t number = (turn + i) % DZ_STUB_THREADS_MAX;
            struct dz_play *t = p->threads[number];
            if (!t || (t->state != RUNNING && t->state != DEAD))
                continue;
            some = true;
            p->turn = number;
            count += next_event(t, &ret_events[count]);
        }
        if (timeout_ns >= 0)
            break;
    }
    return (int)count;
}
static int play_watch(struct dz_stub *s, int fd)
{
    (void)s, (void)fd; /* wait() never sleeps */
    return 0;
}
static int play_fd(struct dz_stub *s)
{
    (void)s;
    return -1;
}

static void play_close(struct dz_stub *s)
{
    struct play *p = play_of(s);
    for (uint32_t i = 1; i < DZ_STUB_THREADS_MAX; i++)
        if (p->threads[i])
            drop(p->threads[i]);
    for (uint32_t i = 0; i < DZ_STUB_FILES_MAX; i++)
        if (p->files[i])
            play_file_close(s, i);
    dz_free(p);
}

static const struct dz_stub_ops play_ops = {
    .name = "play",
    .process = play_process,
    .clone = play_clone,
    .end = play_end,
    .exit = play_exit,
    .regs = play_regs,
    .xstate_get = play_xstate_get,
    .xstate_set = play_xstate_set,
    .run = play_run,
    .interrupt = play_interrupt,
    .memory = play_memory,
    .read = play_read,
    .write = play_write,
    .move = play_move,
    .swap = play_swap,
    .changed = play_changed,
    .resident = play_resident,
    .file = play_file,
    .file_close = play_file_close,
    .cpu = play_cpu,
    .wait = play_wait,
    .watch = play_watch,
    .fd = play_fd,
    .close = play_close,
};

int dz_stub_play_open(const struct dz_play_opts *o, struct dz_stub **ret_stub, struct dz_err *err)
{
    for (size_t i = 0; i < o->program_count; i++)
        if (o->programs[i].at % PROGRAM_SIZE)
            return dz_fail(err, DZ_EINVAL, "a program's address is not a multiple of 64");
    struct play *p = dz_zalloc(sizeof *p);
    if (!p)
        return dz_fail(err, DZ_ENOMEM, "no memory for a machine of coroutines");
    p->stub.ops = &play_ops;
    p->o = *o;
    p->random = o->seed;
    *ret_stub = &p->stub;
    return 0;
}

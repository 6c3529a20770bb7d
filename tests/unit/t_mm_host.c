/* SPDX-License-Identifier: MIT
 *
 * The same random calls go to the host's kernel and to mm/; the answers and the shape of
 * /proc/self/maps must be the same. And the calls that mm/ asks for, executed in a second
 * arena of this process, must give that shape, too: the list is complete. DZ_SEED=N runs
 * the one sequence of this number. */
#include "mm/mm.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/syscall.h>

enum {
    PAGES = 48, /* of an arena */
    STEPS = 400,
    SEEDS = 12,
    FILE_PAGES = 256,
};
static const uint64_t HOST = UINT64_C(0x200000000000);  /* where the host's kernel is asked */
static const uint64_t LISTS = UINT64_C(0x210000000000); /* where the lists are executed */

struct world {
    struct dz_mm mm; /* its addresses are HOST's */
    struct dz_mm_calls calls;
    int file[2];        /* readable and writable; readable */
    int objects[STEPS]; /* memory files for the lists */
    int object_count;
    uint64_t state; /* of the random numbers */
};

static uint64_t pick(struct world *w, uint64_t n)
{
    w->state = w->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (w->state >> 33) % n;
}

static void open_world(struct world *w, uint64_t seed)
{
    const struct dz_mm_limits limits = {UINT64_MAX, UINT64_MAX, 8 << 20, DZ_MM_VMAS_MAX};
    *w = (struct world){.calls = DZ_VEC_INIT(DZ_MM_CALLS_MAX), .state = seed};
    dz_mm_init(&w->mm, seed, &limits, NULL, 0);
    char name[] = "/tmp/t_mm_XXXXXX";
    w->file[0] = mkstemp(name);
    CHECK(w->file[0] >= 0 && ftruncate(w->file[0], FILE_PAGES * DZ_MM_PAGE) == 0);
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", w->file[0]);
    w->file[1] = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(w->file[1] >= 0);
    (void)unlink(name);
}

static void close_world(struct world *w)
{
    (void)munmap((void *)(uintptr_t)HOST, (PAGES + 64) * DZ_MM_PAGE);
    (void)munmap((void *)(uintptr_t)LISTS, (PAGES + 64) * DZ_MM_PAGE);
    for (int i = 0; i < w->object_count; i++)
        (void)close(w->objects[i]);
    (void)close(w->file[0]);
    (void)close(w->file[1]);
    dz_vec_release(&w->calls);
    dz_mm_release(&w->mm);
}

/* ---- executing lists --------------------------------------------------------------- */

static bool in_arena(uint64_t at)
{
    return at >= HOST && at < HOST + (PAGES + 64) * DZ_MM_PAGE;
}

static void *moved(uint64_t at)
{
    return (void *)(uintptr_t)(in_arena(at) ? at - HOST + LISTS : at);
}

static void execute(struct world *w)
{
    for (size_t i = 0; i < w->calls.n; i++) {
        const struct dz_mm_call *c = &w->calls.p[i];
        void *at = moved(c->at);
        int rc = 0;
        switch (c->op) {
        case DZ_MM_MMAP: {
            const int fd = c->back.kind == DZ_MM_ANON   ? -1
                           : c->back.kind == DZ_MM_FILE ? w->file[c->back.id]
                                                        : w->objects[c->back.id];
            const void *got = mmap(at, c->size, c->prot, c->flags, fd, (off_t)c->back.offset);
            rc = got == at ? 0 : -1;
            break;
        }
        case DZ_MM_MUNMAP:
            rc = munmap(at, c->size);
            break;
        case DZ_MM_MPROTECT:
            rc = mprotect(at, c->size, c->prot);
            break;
        case DZ_MM_MREMAP:
            rc = mremap(at, c->size, c->size, c->flags, moved(c->to)) == moved(c->to) ? 0 : -1;
            break;
        case DZ_MM_MADVISE:
            rc = madvise(at, c->size, c->advice);
            break;
        case DZ_MM_SYNC:
            break;
        }
        if (rc != 0)
            printf("# call %zu (op %d at %" PRIx64 " size %" PRIx64 " to %" PRIx64
                   " flags %x): errno %d\n",
                   i, (int)c->op, c->at, c->size, c->to, (unsigned)c->flags, errno);
        CHECK_INT(rc, 0);
    }
    dz_vec_reset(&w->calls);
}

/* ---- shapes ------------------------------------------------------------------------ */

/* What each page of an arena is: mapped, protection, shared, offset; and for the host's also
 * where VMAs begin. */
struct page {
    char perms[5];
    uint64_t offset;
    bool begins;
};

static void read_host(uint64_t arena, struct page *pages)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    memset(pages, 0, (PAGES + 64) * sizeof *pages);
    while (f && fgets(line, sizeof line, f)) {
        uint64_t start, end, offset, inode;
        char perms[5];
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %" SCNu64, &start, &end,
                   perms, &offset, &inode) != 5)
            continue;
        for (uint64_t at = start; at < end && start >= arena; at += DZ_MM_PAGE) {
            if (at >= arena + (PAGES + 64) * DZ_MM_PAGE)
                break;
            struct page *p = &pages[(at - arena) / DZ_MM_PAGE];
            memcpy(p->perms, perms, sizeof perms);
            p->offset = perms[3] == 's' || inode ? offset + (at - start) : 0;
            p->begins = at == start;
        }
    }
    if (f)
        (void)fclose(f);
}

static void read_mm(const struct dz_mm *mm, struct page *pages)
{
    memset(pages, 0, (PAGES + 64) * sizeof *pages);
    for (size_t i = 0; i < mm->vmas.n; i++) {
        const struct dz_mm_vma *v = &mm->vmas.p[i];
        for (uint64_t at = v->start; at < v->end && in_arena(at); at += DZ_MM_PAGE) {
            struct page *p = &pages[(at - HOST) / DZ_MM_PAGE];
            (void)snprintf(p->perms, sizeof p->perms, "%c%c%c%c", v->prot & PROT_READ ? 'r' : '-',
                           v->prot & PROT_WRITE ? 'w' : '-', v->prot & PROT_EXEC ? 'x' : '-',
                           v->flags & DZ_MM_SHARED ? 's' : 'p');
            p->offset = v->back.kind == DZ_MM_ANON ? 0 : v->back.offset + (at - v->start);
            p->begins = at == v->start;
        }
    }
}

static bool same(const struct page *a, const struct page *b, bool begins, const char *what)
{
    for (int i = 0; i < PAGES + 64; i++) {
        if (strcmp(a[i].perms, b[i].perms) == 0 && a[i].offset == b[i].offset &&
            (!begins || a[i].begins == b[i].begins))
            continue;
        printf("# %s, page %d: %s %" PRIx64 " %d, host %s %" PRIx64 " %d\n", what, i, a[i].perms,
               a[i].offset, a[i].begins, b[i].perms, b[i].offset, b[i].begins);
        return false;
    }
    return true;
}

/* ---- the same call to both --------------------------------------------------------- */

static int64_t answer(long rc)
{
    return rc == -1 ? -(int64_t)errno : (int64_t)rc;
}

static uint64_t some_at(struct world *w)
{
    return HOST + pick(w, PAGES) * DZ_MM_PAGE + (pick(w, 25) == 0 ? pick(w, DZ_MM_PAGE) : 0);
}

static uint64_t some_size(struct world *w)
{
    return pick(w, 25) == 0 ? 0 : pick(w, 12) * DZ_MM_PAGE + (pick(w, 4) ? DZ_MM_PAGE : 77);
}

static int some_prot(struct world *w)
{
    static const int prots[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC,
                                PROT_READ | PROT_WRITE};
    return prots[pick(w, 5)];
}

/* An answer outside of the arena is a place of a kernel's choice: made equal, and unmapped. */
static void equal_places(struct world *w, int64_t *mine, int64_t *host, uint64_t size)
{
    if (*mine < 0 || *host < 0 || in_arena((uint64_t)*mine) || in_arena((uint64_t)*host))
        return;
    execute(w);
    CHECK_INT(munmap((void *)(uintptr_t)*host, size), 0);
    CHECK_INT(dz_mm_munmap(&w->mm, (uint64_t)*mine, size, &w->calls), 0);
    *mine = *host = 1;
}

static uint64_t new_object(struct world *w)
{
    int fd = memfd_create("object", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, FILE_PAGES * DZ_MM_PAGE) == 0);
    w->objects[w->object_count] = fd;
    return (uint64_t)w->object_count++;
}

static void try_mmap(struct world *w, int64_t *mine, int64_t *host)
{
    static const int flags[] = {MAP_FIXED, MAP_FIXED, MAP_FIXED_NOREPLACE, 0};
    struct dz_mm_map m = {.at = some_at(w), .size = some_size(w), .prot = some_prot(w)};
    const int from = (int)pick(w, 5); /* 0, 1: a file */
    m.flags = flags[pick(w, 4)] | (pick(w, 3) ? MAP_PRIVATE : MAP_SHARED) |
              (pick(w, 6) ? 0 : MAP_NORESERVE);
    m.may = PROT_READ | PROT_EXEC;
    int fd = -1;
    if (from < 2) {
        m.back = (struct dz_mm_back){DZ_MM_FILE, 0, (uint64_t)from, pick(w, 64) * DZ_MM_PAGE};
        m.may |= from == 0 ? PROT_WRITE : 0;
        fd = w->file[from];
    } else {
        m.flags |= MAP_ANONYMOUS;
        if (m.flags & MAP_SHARED)
            m.back = (struct dz_mm_back){.kind = DZ_MM_OBJECT, .id = new_object(w)};
    }
    *mine = dz_mm_mmap(&w->mm, &m, &w->calls);
    *host = answer(syscall(SYS_mmap, m.at, m.size, m.prot, m.flags, fd, m.back.offset));
    equal_places(w, mine, host, m.size);
}

static void try_mremap(struct world *w, int64_t *mine, int64_t *host)
{
    static const int flags[] = {0,
                                MREMAP_MAYMOVE,
                                MREMAP_MAYMOVE | MREMAP_FIXED,
                                MREMAP_MAYMOVE | MREMAP_FIXED,
                                MREMAP_FIXED,
                                MREMAP_MAYMOVE | MREMAP_DONTUNMAP | MREMAP_FIXED};
    struct dz_mm_remap r = {.at = some_at(w), .old_size = some_size(w), .new_size = some_size(w)};
    r.flags = flags[pick(w, 6)];
    r.to = some_at(w);
    if (pick(w, 2)) { /* a whole VMA's end, which may grow */
        const struct dz_mm_vma *v = dz_mm_find(&w->mm, r.at);
        if (v && v->start <= r.at)
            r.old_size = v->end - r.at;
    }
    if ((r.flags & MREMAP_DONTUNMAP) && pick(w, 4))
        r.new_size = r.old_size;
    const struct dz_mm_vma *v = dz_mm_find(&w->mm, r.at);
    /* several VMAs at once, which Linux moves from 6.17 on: see mm_remap.c. DONTUNMAP of a
     * shared or file mapping: Linux from 5.13 on. */
    if (v && r.flags & MREMAP_FIXED && v->end < r.at + r.old_size)
        r.old_size = v->start <= r.at ? v->end - r.at : DZ_MM_PAGE;
    *mine = dz_mm_mremap(&w->mm, &r, &w->calls);
    *host = answer(syscall(SYS_mremap, r.at, r.old_size, r.new_size, r.flags, r.to));
    equal_places(w, mine, host, r.new_size);
}

static void try_one(struct world *w, int64_t *mine, int64_t *host, const char **ret_name)
{
    static const int advices[] = {MADV_NORMAL,   MADV_RANDOM,     MADV_SEQUENTIAL, MADV_DONTNEED,
                                  MADV_FREE,     MADV_DONTFORK,   MADV_DOFORK,     MADV_WIPEONFORK,
                                  MADV_DONTDUMP, MADV_KEEPONFORK, MADV_DODUMP,     12345};
    const uint64_t at = some_at(w), size = some_size(w);
    const uint64_t act = pick(w, 10);
    int arg;
    if (act < 4) {
        *ret_name = "mmap";
        try_mmap(w, mine, host);
    } else if (act < 5) {
        *ret_name = "munmap";
        *mine = dz_mm_munmap(&w->mm, at, size, &w->calls);
        *host = answer(syscall(SYS_munmap, at, size));
    } else if (act < 7) {
        *ret_name = "mprotect";
        arg = some_prot(w);
        *mine = dz_mm_mprotect(&w->mm, at, size, arg, &w->calls);
        *host = answer(syscall(SYS_mprotect, at, size, arg));
    } else if (act < 8) {
        *ret_name = "madvise";
        arg = advices[pick(w, 12)];
        *mine = dz_mm_madvise(&w->mm, at, size, arg, &w->calls);
        *host = answer(syscall(SYS_madvise, at, size, arg));
    } else if (act < 9 && pick(w, 2)) {
        *ret_name = "msync";
        arg = (int)pick(w, 8);
        *mine = dz_mm_msync(&w->mm, at, size, arg, &w->calls);
        *host = answer(syscall(SYS_msync, at, size, arg));
    } else {
        *ret_name = "mremap";
        try_mremap(w, mine, host);
    }
}

static bool run(uint64_t seed)
{
    static struct page mine[PAGES + 64], host[PAGES + 64], lists[PAGES + 64];
    struct world w;
    bool good = true;
    open_world(&w, seed);
    for (int i = 0; i < STEPS && good; i++) {
        int64_t a = 0, b = 0;
        const char *name = "";
        try_one(&w, &a, &b, &name);
        dz_mm_assert(&w.mm);
        execute(&w);
        read_mm(&w.mm, mine);
        read_host(HOST, host);
        read_host(LISTS, lists);
        good = a == b && same(mine, host, true, "shape") && same(lists, host, false, "lists");
        if (!good)
            printf("# seed %" PRIu64 ", step %d, %s: %" PRId64 ", host %" PRId64 "\n", seed, i,
                   name, a, b);
    }
    CHECK(good);
    close_world(&w);
    return good;
}

TEST(the_host_answers_the_same)
{
    const char *one = getenv("DZ_SEED");
    const uint64_t first = one ? strtoull(one, NULL, 10) : 1;
    for (uint64_t seed = first; seed < first + (one ? 1 : SEEDS); seed++)
        if (!run(seed))
            break;
}

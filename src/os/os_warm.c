/* SPDX-License-Identifier: MIT
 *
 * os_warm.c - see os_warm.h.
 */
#include "os/os_warm.h"

#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/vm.h"
#include "os/os_uapi.h"

enum {
    HEAP_MAX = 768 << 10, /* parent's heap; beyond this it holds tables that are only read */
    FRESH = 48 << 10,     /* bytes of a block of unused heap */
    FRESH_BLOCKS = 6,     /* number of such blocks */
    STACK = 48 << 10,
    BSS_MAX = 64 << 10, /* static buffers follow, which need no warming */
    AREAS = 8,          /* the stack, data of the program and of some libraries */
    WRITTEN_MAX = 320,  /* pages that a child gets at most */
    STEP = 32,          /* pages that are populated at once: about 30 microseconds */
    NEWS_MIN = 4,       /* fewer new pages are not worth a report once some are known */
    TOLD_MAX = 2,       /* reports per child */
};

/* Where a child writes. Pages are numbered from the first area on; the heap comes after the areas,
 * because it grows. All children have the parent's layout, so a number means the same page in all
 * of them. */
struct area {
    uintptr_t from, to;
};
static struct {
    const char *const *libraries;
    struct area areas[AREAS]; /* the stack is the first */
    size_t count;
    uint32_t heap_first; /* the number of its first page */
    uintptr_t heap_start;
} plan;

/* Which of these pages children have written: a bit for each. */
static struct {
    bool wanted;   /* children report their pages */
    unsigned told; /* reports that this child has made */
    bool known;
    uint32_t count;
    uint8_t bits[DZ_OS_WARM_PAGES / 8];
} wrote;

/* The work of this child: it asks `go_on` after each STEP pages. */
static struct {
    bool (*go_on)(void *arg);
    void *arg;
    bool over;
    size_t pages; /* since it asked last */
} work;

/* Populate what lies between two page limits. A hint: its failure does not matter. */
static void ask(uintptr_t from, uintptr_t to, int advice)
{
    uintptr_t page = dz_vm_page();
    from -= from % page;
    to = (to + page - 1) / page * page;
    while (from < to && !work.over) {
        size_t n = (to - from) / page, left = STEP - work.pages;
        n = n < left ? n : left;
        (void)madvise((void *)from, n * page, advice);
        from += n * page;
        work.pages += n;
        if (work.pages < STEP)
            continue;
        work.pages = 0;
        work.over = !work.go_on(work.arg);
    }
}

static void add_area(uintptr_t from, uintptr_t to)
{
    uintptr_t page = dz_vm_page();
    from -= from % page;
    to = (to + page - 1) / page * page;
    if (from >= to || plan.count == AREAS ||
        plan.heap_first + (to - from) / page > DZ_OS_WARM_PAGES)
        return;
    plan.areas[plan.count++] = (struct area){from, to};
    plan.heap_first += (uint32_t)((to - from) / page);
}

static bool wanted(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (const char *const *l = plan.libraries; *l; l++)
        if (strncmp(name, *l, strlen(*l)) == 0)
            return true;
    return path[0] == '\0'; /* the program itself */
}

/* The end of the data that becomes read-only after relocation (RELRO). */
static uintptr_t fixed_end(const struct dl_phdr_info *o)
{
    for (int i = 0; i < o->dlpi_phnum; i++)
        if (o->dlpi_phdr[i].p_type == PT_GNU_RELRO)
            return o->dlpi_addr + o->dlpi_phdr[i].p_vaddr + o->dlpi_phdr[i].p_memsz;
    return 0;
}

static int add_data(struct dl_phdr_info *o, size_t size, void *arg)
{
    uintptr_t fixed = fixed_end(o);
    (void)size, (void)arg;
    for (int i = 0; wanted(o->dlpi_name) && i < o->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &o->dlpi_phdr[i];
        uintptr_t from = o->dlpi_addr + h->p_vaddr;
        if (h->p_type == PT_LOAD && h->p_flags & PF_W)
            add_area(fixed > from ? fixed : from, from + h->p_memsz);
    }
    return 0;
}

void dz_os_warm_plan(const char *const *libraries)
{
    static char room[4096];
    char line[512];
    unsigned long from = 0;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    dz_vm_heap_ahead(FRESH * FRESH_BLOCKS);
    plan.libraries = libraries;
    plan.count = plan.heap_first = 0;
    add_area(here - STACK, here);
    (void)dl_iterate_phdr(add_data, NULL);
    FILE *f = fopen("/proc/self/maps", "re");
    if (f) /* our buffer, because stdio calls newfstatat(2) to make one, which a jail forbids */
        (void)setvbuf(f, room, _IOFBF, sizeof room);
    while (f && fgets(line, sizeof line, f))
        /* the kernel's own line: a number in it is one */
        if (strstr(line, "[heap]") && sscanf(line, "%lx-", &from) == 1) /* NOLINT(cert-err34-c) */
            break;
    if (f)
        (void)fclose(f);
    plan.heap_start = from;
}

static bool was_written(size_t page)
{
    return page < DZ_OS_WARM_PAGES && (wrote.bits[page / 8] >> page % 8 & 1);
}

void dz_os_warm_ask(void)
{
    wrote.wanted = true;
}

void dz_os_warm_learn(const uint32_t *pages, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pages[i] < DZ_OS_WARM_PAGES && !was_written(pages[i]) && wrote.count < WRITTEN_MAX) {
            wrote.bits[pages[i] / 8] |= (uint8_t)(1u << pages[i] % 8);
            wrote.count++;
        }
    wrote.known = wrote.count > 0;
}

/* Areas and the heap as far as it has grown, each with the number of its first page. */
static size_t all_areas(struct area ret[static AREAS + 1], uint32_t ret_first[static AREAS + 1])
{
    const size_t count = plan.count;
    uint32_t first = 0;
    for (size_t i = 0; i < count; i++) {
        ret[i] = plan.areas[i];
        ret_first[i] = first;
        first += (uint32_t)((ret[i].to - ret[i].from) / dz_vm_page());
    }
    uintptr_t end = (uintptr_t)sbrk(0), most = (DZ_OS_WARM_PAGES - first) * dz_vm_page();
    if (!plan.heap_start || end < plan.heap_start)
        return count;
    ret[count] = (struct area){plan.heap_start, end};
    if (end - plan.heap_start > most)
        ret[count].to = plan.heap_start + most;
    ret_first[count] = first;
    return count + 1;
}

size_t dz_os_warm_wrote(const struct dz_os_dirty *d, uint32_t *ret_pages, size_t most)
{
    bool own[DZ_OS_WARM_PAGES];
    struct area areas[AREAS + 1];
    uint32_t first[AREAS + 1];
    size_t n = 0;
    if (!wrote.wanted || wrote.told == TOLD_MAX)
        return 0;
    wrote.told++;
    for (size_t k = all_areas(areas, first); k-- > 0;) {
        size_t pages = (areas[k].to - areas[k].from) / dz_vm_page();
        if (dz_os_dirty_own(d, (const void *)areas[k].from, pages, own) < 0)
            return 0;
        for (size_t i = 0; i < pages && n < most; i++)
            if (own[i] && !was_written(first[k] + i))
                ret_pages[n++] = first[k] + (uint32_t)i;
    }
    if (wrote.known && n < NEWS_MIN)
        return 0;
    dz_os_warm_learn(ret_pages, n); /* so the child's next report leaves these out */
    return n;
}

static void warm_data(const struct dl_phdr_info *o, const ElfW(Phdr) * h)
{
    uintptr_t fixed = fixed_end(o), from = o->dlpi_addr + h->p_vaddr, to = from + h->p_filesz;
    to += h->p_memsz - h->p_filesz < BSS_MAX ? h->p_memsz - h->p_filesz : BSS_MAX;
    ask(fixed > from ? fixed : from, to, MADV_POPULATE_WRITE);
}

static int warm_object(struct dl_phdr_info *o, size_t size, void *arg)
{
    (void)size, (void)arg;
    for (int i = 0; wanted(o->dlpi_name) && i < o->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &o->dlpi_phdr[i];
        uintptr_t from = o->dlpi_addr + h->p_vaddr;
        if (h->p_type != PT_LOAD)
            continue;
        if (!(h->p_flags & PF_W))
            ask(from, from + h->p_filesz, MADV_POPULATE_READ);
        else if (!wrote.wanted)
            warm_data(o, h);
    }
    return 0;
}

/* The pages that other children of this kind have written. */
static void warm_written(void)
{
    struct area areas[AREAS + 1];
    uint32_t first[AREAS + 1];
    size_t count = all_areas(areas, first), page = dz_vm_page();
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0, n, pages = (areas[k].to - areas[k].from) / page; i < pages; i += n) {
            bool is = was_written(first[k] + i);
            for (n = 1; i + n < pages && was_written(first[k] + i + n) == is; n++)
                ;
            if (is)
                ask(areas[k].from + i * page, areas[k].from + (i + n) * page, MADV_POPULATE_WRITE);
        }
}

/* Allocate and free some unused heap, so that the heap grows now. Populate its pages unless the
 * children report which pages they write. */
static void warm_fresh(bool populate)
{
    void *fresh[FRESH_BLOCKS];
    for (int i = 0; i < FRESH_BLOCKS; i++) {
        fresh[i] = dz_alloc(FRESH);
        if (fresh[i] && populate)
            ask((uintptr_t)fresh[i], (uintptr_t)fresh[i] + FRESH, MADV_POPULATE_WRITE);
    }
    for (int i = FRESH_BLOCKS; i-- > 0;)
        dz_free(fresh[i]);
}

static void warm_heap(void)
{
    uintptr_t start = plan.heap_start, end = (uintptr_t)sbrk(0);
    if (start && end > start && !wrote.wanted)
        ask(start, end - start > HEAP_MAX ? start + HEAP_MAX : end, MADV_POPULATE_WRITE);
    warm_fresh(!wrote.wanted);
}

/* Touch the stack, because only an access makes it grow. */
static void warm_stack(void)
{
    volatile char room[STACK];
    for (size_t i = 0; i < sizeof room; i += 1024)
        room[i] = 0;
}

void dz_os_warm(const struct dz_os_dirty *d, bool (*go_on)(void *arg), void *arg)
{
    work.go_on = go_on;
    work.arg = arg;
    wrote.wanted = wrote.wanted && dz_os_dirty_differs_how(d) == DZ_OS_DIRTY_SCAN;
    if (!wrote.wanted)
        warm_stack();
    (void)dl_iterate_phdr(warm_object, NULL);
    warm_heap();
    if (wrote.known)
        warm_written();
}

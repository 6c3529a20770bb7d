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

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22 /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

enum {
    HEAP_MAX = 768 << 10, /* of the parent's heap: what is in a large one is tables to read */
    FRESH = 48 << 10,     /* a block of heap that nobody has yet, */
    FRESH_BLOCKS = 6,     /* and their number */
    STACK = 48 << 10,
    BSS_MAX = 64 << 10, /* static buffers lie behind */
    HEAP_PAGES = 1024,  /* of the heap, that are kept track of, */
    WRITTEN_MAX = 256,  /* and that children get at most */
    NEWS_MIN = 4,       /* that are worth a word, when some are known */
};

static uintptr_t heap_start;

/* What children have written of the heap, and of what they had it grow by: a bit each. */
static struct {
    bool wanted; /* children are asked */
    bool told;   /* and this one has answered */
    bool known;
    uint32_t count;
    uint8_t bits[HEAP_PAGES / 8];
} wrote;

/* All of it lies between two page limits; a hint, whatever comes of it. */
static void ask(uintptr_t from, uintptr_t to, int advice)
{
    uintptr_t page = dz_vm_page();
    from -= from % page;
    to = (to + page - 1) / page * page;
    if (from < to)
        (void)madvise((void *)from, to - from, advice);
}

void dz_os_warm_plan(void)
{
    char line[512];
    unsigned long from = 0;
    dz_vm_heap_ahead(FRESH * FRESH_BLOCKS);
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f))
        /* the kernel's own line: a number in it is one */
        if (strstr(line, "[heap]") && sscanf(line, "%lx-", &from) == 1) /* NOLINT(cert-err34-c) */
            break;
    if (f)
        (void)fclose(f);
    heap_start = from;
}

static bool was_written(size_t page)
{
    return page < HEAP_PAGES && (wrote.bits[page / 8] >> page % 8 & 1);
}

void dz_os_warm_ask(void)
{
    wrote.wanted = true;
}

void dz_os_warm_learn(const uint32_t *pages, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pages[i] < HEAP_PAGES && !was_written(pages[i]) && wrote.count < WRITTEN_MAX) {
            wrote.bits[pages[i] / 8] |= (uint8_t)(1u << pages[i] % 8);
            wrote.count++;
        }
    wrote.known = wrote.count > 0;
}

size_t dz_os_warm_wrote(const struct dz_os_dirty *d, uint32_t *ret_pages, size_t most)
{
    bool own[HEAP_PAGES];
    size_t n = 0, pages = ((uintptr_t)sbrk(0) - heap_start) / dz_vm_page();
    if (!wrote.wanted || wrote.told || !heap_start)
        return 0;
    wrote.told = true;
    pages = pages < HEAP_PAGES ? pages : HEAP_PAGES;
    if (dz_os_dirty_own(d, (const void *)heap_start, pages, own) < 0)
        return 0;
    for (size_t i = 0; i < pages && n < most; i++)
        if (own[i] && !was_written(i))
            ret_pages[n++] = (uint32_t)i;
    return wrote.known && n < NEWS_MIN ? 0 : n;
}

static bool wanted(const char *path, const char *const *libraries)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (; *libraries; libraries++)
        if (strncmp(name, *libraries, strlen(*libraries)) == 0)
            return true;
    return path[0] == '\0'; /* the program itself */
}

static int warm_object(struct dl_phdr_info *o, size_t size, void *arg)
{
    uintptr_t fixed = 0; /* what relocation made unwritable again ends here */
    (void)size;
    if (!wanted(o->dlpi_name, arg))
        return 0;
    for (int i = 0; i < o->dlpi_phnum; i++)
        if (o->dlpi_phdr[i].p_type == PT_GNU_RELRO)
            fixed = o->dlpi_addr + o->dlpi_phdr[i].p_vaddr + o->dlpi_phdr[i].p_memsz;
    for (int i = 0; i < o->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &o->dlpi_phdr[i];
        uintptr_t from = o->dlpi_addr + h->p_vaddr, to = from + h->p_filesz;
        if (h->p_type != PT_LOAD)
            continue;
        if (!(h->p_flags & PF_W)) {
            ask(from, to, MADV_POPULATE_READ);
            continue;
        }
        to += h->p_memsz - h->p_filesz < BSS_MAX ? h->p_memsz - h->p_filesz : BSS_MAX;
        ask(fixed > from ? fixed : from, to, MADV_POPULATE_WRITE);
    }
    return 0;
}

/* The pages that others like this one have written. */
static void warm_written(void)
{
    uintptr_t page = dz_vm_page(), end = (uintptr_t)sbrk(0);
    for (size_t i = 0, n; heap_start + i * page < end && i < HEAP_PAGES; i += n) {
        bool is = was_written(i);
        for (n = 1;
             heap_start + (i + n) * page < end && was_written(i + n) == is && i + n < HEAP_PAGES;
             n++)
            ;
        if (is)
            ask(heap_start + i * page, heap_start + (i + n) * page, MADV_POPULATE_WRITE);
    }
}

/* Some heap that is not in use yet; in a child whose writes are known, only as it grows by that. */
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
    uintptr_t end = (uintptr_t)sbrk(0);
    if (heap_start && end > heap_start && !wrote.wanted)
        ask(heap_start, end - heap_start > HEAP_MAX ? heap_start + HEAP_MAX : end,
            MADV_POPULATE_WRITE);
    warm_fresh(!wrote.wanted);
    if (wrote.known)
        warm_written();
}

static void warm_stack(void)
{
    volatile char room[STACK];
    for (size_t i = 0; i < sizeof room; i += 1024)
        room[i] = 0;
}

void dz_os_warm(const char *const *libraries, const struct dz_os_dirty *d)
{
    wrote.wanted = wrote.wanted && dz_os_dirty_differs_how(d) == DZ_OS_DIRTY_SCAN;
    warm_stack();
    (void)dl_iterate_phdr(warm_object, (void *)(uintptr_t)libraries);
    warm_heap();
}

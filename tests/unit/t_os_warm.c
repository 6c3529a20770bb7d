/* SPDX-License-Identifier: MIT
 *
 * t_os_warm.c - children tell which pages of the heap they wrote, and later ones get those.
 */
#include "os/os_warm.h"

#include "base/vm.h"

#include "tap.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PAGES = 16,
    NUMBERS = 1024,
};

static uint8_t *memory;

static struct dz_os_dirty *tracker(void)
{
    struct dz_os_dirty *d = NULL;
    return dz_os_dirty_open(DZ_OS_DIRTY_SCAN, &d, NULL) < 0 ? NULL : d;
}

static int status_of(void (*fn)(void))
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        fn();
        _exit(0);
    }
    (void)waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect(bool right)
{
    if (!right)
        _exit(1);
}

static void writes_two(void)
{
    bool own[PAGES];
    const struct dz_os_dirty *d = tracker();
    size_t page = dz_vm_page();
    memory[3 * page] = memory[7 * page] = 2;
    int rc = dz_os_dirty_own(d, memory, PAGES, own);
    expect(rc == 0 || dz_os_dirty_differs_how(d) == DZ_OS_DIRTY_COMPARE);
    for (size_t i = 0; rc == 0 && i < PAGES; i++)
        expect(own[i] == (i == 3 || i == 7));
}

TEST(pages_that_a_child_wrote_are_its_own)
{
    size_t size = PAGES * dz_vm_page();
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    memset(memory, 1, size);
    CHECK_INT(status_of(writes_two), 0);
    (void)munmap(memory, size);
}

/* The page of the heap with this byte, as it is told. */
static uint32_t number;
static bool tells(struct dz_os_dirty *d)
{
    static uint32_t told[NUMBERS];
    size_t n = dz_os_warm_wrote(d, told, NUMBERS);
    bool there = false;
    for (size_t i = 0; i < n; i++)
        there = there || told[i] == number;
    expect(dz_os_warm_wrote(d, told, NUMBERS) == 0); /* once */
    return there;
}

static const char *const none[] = {NULL};
static void first_child(void)
{
    struct dz_os_dirty *d = tracker();
    if (dz_os_dirty_differs_how(d) == DZ_OS_DIRTY_COMPARE)
        return;
    dz_os_warm(none, d);
    bool own = true;
    const void *page = (const void *)((uintptr_t)memory & ~(dz_vm_page() - 1));
    expect(dz_os_dirty_own(d, page, 1, &own) == 0 && !own);
    memory[0] = 3;
    expect(tells(d));
}

static void later_child(void)
{
    struct dz_os_dirty *d = tracker();
    const uintptr_t page = (uintptr_t)memory & ~(dz_vm_page() - 1);
    bool own[PAGES];
    if (dz_os_dirty_differs_how(d) == DZ_OS_DIRTY_COMPARE)
        return;
    dz_os_warm(none, d);
    expect(dz_os_dirty_own(d, (const void *)page, PAGES, own) == 0 && own[0] && !own[4]);
    expect(!tells(d));
}

static uintptr_t heap(void)
{
    char line[512];
    unsigned long at = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f))
        if (strstr(line, "[heap]") && sscanf(line, "%lx-", &at) == 1)
            break;
    if (f)
        (void)fclose(f);
    return at;
}

TEST(later_children_get_what_first_ones_wrote)
{
    size_t page = dz_vm_page();
    memory = sbrk((intptr_t)(PAGES * page)); /* of the heap, whoever allocates */
    CHECK(memory != (void *)-1);
    memset(memory, 1, PAGES * page);
    memory += 2 * page;
    dz_os_warm_plan();
    dz_os_warm_ask();
    uintptr_t start = heap();
    CHECK(start != 0 && (uintptr_t)memory > start);
    number = (uint32_t)(((uintptr_t)memory - start) / page);
    CHECK_INT(status_of(first_child), 0);
    dz_os_warm_learn((const uint32_t[]){UINT32_MAX, NUMBERS}, 2); /* of none that there is */
    CHECK_INT(status_of(first_child), 0);                         /* so it is asked again */
    dz_os_warm_learn(&number, 1);
    CHECK_INT(status_of(later_child), 0);
}
